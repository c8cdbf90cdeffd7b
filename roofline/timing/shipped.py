"""Which efficiency stands for a machine and an engine, what it rests on, and how far it has been seen to be off.

The file beside this module holds, for every measured (machine, engine), the parameters that fit its measurements; for every
engine and every kind of engine, what those of its machines have in common; and for each of these how wide an interval must
be to hold four measurements of five. `roofline calibrate --shipped` writes it from the packaged measurements.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import Field

from roofline.specs import catalog
from roofline.specs.engine import Engine
from roofline.specs.hardware import Hardware
from roofline.specs.record import Record
from roofline.timing.efficiency import IDEAL, Efficiency

__all__ = ["NOMINAL", "Band", "Known", "Regime", "hardware_class", "known", "known_in"]

NOMINAL = 0.8
"""The share of measurements an interval is made to hold [1]."""

Regime = Literal["measured", "unseen hardware", "unseen engine", "ideal", "given"]

_SAID: Mapping[Regime, str] = {
    "measured": "measured: {n_rows} figures of {name} on {chip}",
    "unseen hardware": "prior: {name} on {n_groups} other machines; none of {chip} was measured",
    "unseen engine": "prior: engines of its kind ({kind}); none of {name} was measured",
    "ideal": "ideal machine: nothing is known of how fast {name} runs",
    "given": "as given: {name}",
}


class Band(Record):
    """An interval around an estimate, as factors: low · t to high · t  [1]."""

    low: float = Field(ge=1e-9, le=1.0)
    high: float = Field(ge=1.0, le=1e6)


class Known(Record):
    """An efficiency and the evidence behind it.

    `regime`: whether it was fitted to measurements of this machine and engine, of the engine on other machines, of other
    engines of its kind, or is the ideal. `bands` by what is estimated ("ttft", "tpot", "e2e"); none without interval.
    `off`: how far such estimates were off in the middle, where the truth was held back [1].
    """

    efficiency: Efficiency
    regime: Regime
    said: str = ""
    n_rows: int = Field(default=0, ge=0)
    bands: dict[str, Band] = {}
    off: dict[str, Annotated[float, Field(ge=0.0, le=1e6)]] = {}
    at_prior: tuple[str, ...] = Field(default=(), strict=False)


IDEAL_KNOWN = Known.model_construct(
    efficiency=IDEAL,
    regime="ideal",
    said="ideal machine; no measurements behind it",
    n_rows=0,
    bands={},
    off={},
    at_prior=(),
)


def known(chip: Hardware, engine: Engine) -> Known:
    """What is known of an engine on a chip: measured there, else of the engine elsewhere, else of its kind, else the ideal.

    Examples
    --------
    >>> from roofline.specs.catalog import engine, hardware
    >>> known(hardware("a100-sxm-80gb"), engine("vllm-2023")).regime, known(hardware("h100"), engine("sglang")).regime
    ('measured', 'unseen engine')
    """
    if engine.id == "ideal":
        return IDEAL_KNOWN
    return _kept(chip.id.partition(":")[0], chip.name, hardware_class(chip), engine.id, engine.name, engine.kind,
                 engine.parameters_from)  # fmt: skip


@lru_cache(maxsize=1024)
def _kept(
    chip: str, chip_name: str, kind_of_chip: str, engine: str, name: str, kind: str | None, stand_ins: tuple[str, ...]
) -> Known:
    shipped = catalog.shipped_efficiencies()
    return known_in(shipped, chip=chip, chip_name=chip_name, kind_of_chip=kind_of_chip, engine=engine, name=name, kind=kind,
                    stand_ins=stand_ins)  # fmt: skip


def known_in(
    shipped: Mapping[str, Any], *, chip: str, chip_name: str, kind_of_chip: str, engine: str, name: str, kind: str | None,
    stand_ins: tuple[str, ...] = (),
) -> Known:  # fmt: skip
    """The same from a table: that of `shipped_efficiencies`, or of a fold of it."""
    facts = shipped["facts"].get(engine, {})
    for one in (engine, *stand_ins):
        group = shipped["groups"].get(f"{one} on {chip}")
        if group is not None:
            values, called = group["efficiency"] | facts, group["name"]
            return _made(shipped, "measured", values, group, n_rows=group["n_rows"], name=called, chip=chip_name)
    for one in (engine, *stand_ins):
        family = shipped["engines"].get(one)
        if family is not None:
            values = family["classes"].get(kind_of_chip, family["efficiency"]) | facts
            return _made(shipped, "unseen hardware", values, family, name=name, chip=chip_name)
    if kind in shipped["kinds"]:
        values = shipped["kinds"][kind]["efficiency"] | facts
        return _made(shipped, "unseen engine", values, {}, name=name, kind=kind)
    return _made(shipped, "ideal", {}, {}, name=name)


def _made(shipped: Mapping[str, Any], regime: Regime, values: Mapping[str, Any], found: Mapping[str, Any], *,
          n_rows: int = 0, **said: Any) -> Known:  # fmt: skip
    words = _SAID[regime].format(n_rows=n_rows, n_groups=found.get("n_groups", 0), **said)
    bands = {what: Band(**band) for what, band in shipped["bands"][regime].items()}
    at_prior = tuple(found.get("at_prior", ()))
    held_out = found.get("held_out", {}).get("model", {})
    off = shipped["off"].get(regime, {}) | {what: error["median"] for what, error in held_out.items()}
    efficiency = Efficiency(**values)
    return Known(
        efficiency=efficiency, regime=regime, said=words, n_rows=n_rows, bands=bands, off=off, at_prior=at_prior
    )


def hardware_class(chip: Hardware) -> str:
    """What machines have in common that sets how much of their ceilings is reached: unified memory, HBM, or a card's GDDR.

    >>> from roofline.specs.catalog import hardware
    >>> [hardware_class(hardware(name)) for name in ("m5-max", "h100", "rtx-4090")]
    ['unified', 'hbm', 'gddr']
    """
    kind = chip.memory.type.lower()
    return "hbm" if "hbm" in kind else "gddr" if "gddr" in kind else "unified"


def quantile_rank(n: int) -> int:
    """The rank of the error, of n in order, that an interval must reach to hold `NOMINAL` of what comes next.

    ⌈(n + 1)·0.8⌉, at most n: split conformal. Lei et al. 2018, doi:10.1080/01621459.2017.1307116.
    """
    return min(n, math.ceil((n + 1) * NOMINAL))
