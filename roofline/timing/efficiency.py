"""How far a machine and an engine stay from their ceilings. A spec is a fact; what is achieved of it belongs here."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from roofline.specs.record import Record

__all__ = ["IDEAL", "Efficiency"]

Fraction = Annotated[float, Field(gt=0.0, le=1.0)]
Overhead = Annotated[float, Field(ge=0.0, le=1.0)]


class Efficiency(Record):
    """Shares of the ceilings that are reached, and fixed costs. Bounded by 1, so no estimate beats its floor.

    Attributes
    ----------
    compute : float
        Share of the dense peak a large matrix product reaches [1].
    memory : float
        Share of the rated bandwidth a stream reaches [1].
    link : float
        Share of a link's rated bandwidth an exchange reaches [1].
    launch_s : float
        Fixed cost of a kernel, and of each stage of an exchange [s].
    """

    compute: Fraction = 1.0
    memory: Fraction = 1.0
    link: Fraction = 1.0
    launch_s: Overhead = 0.0


IDEAL = Efficiency.model_construct(compute=1.0, memory=1.0, link=1.0, launch_s=0.0)
"""The machine itself: every ceiling reached, nothing in between. What physics allows, not what an engine does."""
