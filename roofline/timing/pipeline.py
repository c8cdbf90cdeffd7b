"""Stages one after another: what a pass takes where consecutive layers stand on different chips.

A batch is cut into m microbatches, which follow one another through the stages. With t_i the time of one microbatch on
stage i:

    one pass           Σ t_i + (m − 1) · max t_i        the pipeline fills and drains (prefill)
    one pass of many   max(Σ t_i, m · max t_i)          the next pass of the first microbatch starts when it is through, or
                                                        when all others have started (decode)
    floor of one pass  max_i (floor_i(all) + Σ_{k ≠ i} floor_k(one token))
                                                        each stage must do its share of all the work; some token reaches it
                                                        through those before and another leaves through those after, however
                                                        batch and prompts are cut
    of one of many     max(max_i floor_i(all), Σ floor_i(one token))

References: Huang et al. 2019, arXiv:1811.06965, §2.2 (bubbles).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

from roofline.ledger import add_up
from roofline.num import Num
from roofline.timing.clock import Spent, Timing
from roofline.timing.laws import larger

__all__ = ["StagePasses", "Staged"]


@dataclass(frozen=True, slots=True)
class StagePasses:
    """What one stage takes for one microbatch, for the whole batch at once, and for a single token of it."""

    micro: Timing
    whole: Timing
    single: Timing


class Staged(Timing):
    """A pass through all stages. Times are those of the pass; counts are those of one chip, the mean over stages.

    Attributes
    ----------
    stages : tuple of Timing
        One microbatch on each stage.
    n_micro : Num
        Microbatches, m [1].
    bubble_s : Num
        Time a chip waits, the mean over stages [s].
    """

    def __init__(
        self, stages: tuple[StagePasses, ...], *, n_micro: Num, repeats: bool, coordinates: Mapping[str, Num]
    ) -> None:
        first = stages[0].micro
        rows = tuple(row for stage in stages for row in stage.micro.rows)
        super().__init__(
            rows, first.parts, shape=first.shape, chip=first.chip, efficiency=first.efficiency, overlap=first.overlap,
            coordinates=coordinates,
        )  # fmt: skip
        self._passes = stages
        self.stages = tuple(stage.micro for stage in stages)
        self.n_micro = n_micro
        self.repeats = repeats

    @property
    def leaves(self) -> tuple[Timing, ...]:
        """One microbatch on each stage."""
        return self.stages

    def joined(self, seconds: Sequence[Num]) -> Num:
        """Σ t_i + (m − 1) · max t_i of a single pass; max(Σ t_i, m · max t_i) of one in a row of many  [s]."""
        through, slowest = add_up(seconds), reduce(larger, seconds)
        if self.repeats:
            return larger(through, self.n_micro * slowest)
        return through + (self.n_micro - 1.0) * slowest

    @cached_property
    def floor_s(self) -> Num:
        """max_i (floor_i(all) + Σ_{k ≠ i} floor_k(one token)); of one in a row of many max(max_i floor_i(all), Σ …)  [s]."""
        one, whole = ([getattr(stage, what).floor_s for stage in self._passes] for what in ("single", "whole"))
        through = add_up(one)
        if self.repeats:
            return larger(through, reduce(larger, whole))
        others: list[Num] = [w + larger(through - o, 0.0) for w, o in zip(whole, one, strict=True)]
        return reduce(larger, others)

    @property
    def bubble_s(self) -> Num:
        """seconds − m · Σ t_i / pp: what a chip waits, the mean over stages  [s]."""
        return self.seconds - self._mean(t.seconds for t in self.stages)

    def _mean(self, quantities: Iterable[Num]) -> Num:
        """Of all microbatches on one chip, the mean over stages."""
        return self.n_micro * add_up(quantities) / len(self.stages)

    def total(self, quantity: str) -> Num:
        """Σ over ops of a quantity of the ledger, of all microbatches on one chip, the mean over stages."""
        return self._mean(t.total(quantity) for t in self.stages)

    def spent(self, on: Spent) -> Num:
        """Seconds of all microbatches on one chip, the mean over stages."""
        return self._mean(t.spent(on) for t in self.stages)

    @cached_property
    def rated_s(self) -> Num:
        """Σ F / π, as rated, of all microbatches on one chip, the mean over stages [s]."""
        return self._mean(t.rated_s for t in self.stages)

    @property
    def memory_bound_s(self) -> Num:
        """The part of all stages' seconds spent in ops that their traffic binds, the mean over stages [s]."""
        return self._mean(t.memory_bound_s for t in self.stages)

    def by_op(self) -> tuple[dict[str, Any], ...]:
        """The rows of one microbatch, stage after stage."""
        return tuple({"stage": i} | row for i, t in enumerate(self.stages) for row in t.by_op())

    def __repr__(self) -> str:
        return f"Staged({len(self.stages)} stages, {super().__repr__()})"
