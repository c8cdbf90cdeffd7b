"""Many measurements as arrays: what each op of each of their passes costs at the rated ceilings, once for all fits.

The law is the clock's own: `Cost` holds arrays here where the clock has linear forms.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roofline.answers.chunks import Passes
from roofline.answers.estimates import held_s
from roofline.answers.phases import how_of
from roofline.evidence.measurements import Measurement, Part, deployment_of, parts_of, what_of
from roofline.num import Num
from roofline.timing.clock import Timing
from roofline.timing.efficiency import IDEAL, Efficiency
from roofline.timing.laws import Cost, cost_of

__all__ = ["Lot", "lot_of"]

Floats = NDArray[np.float64]
_FIELDS = tuple(f.name for f in fields(Cost) if f.name != "kind")


@dataclass(frozen=True, slots=True)
class _Stack:
    """Ops of one kind: their costs, layers, and which pass each belongs to."""

    cost: Cost[Any]
    repeat: Floats
    of_pass: NDArray[np.int64]

    def seconds(self, e: Efficiency) -> Floats:
        """What each takes, all its layers."""
        if self.cost.kind == "collective":
            return np.asarray(self.repeat * self.cost.exchanging(e), dtype=np.float64)
        ways = self.cost.computing(e)
        busy = ways[0] if len(ways) == 1 else np.minimum(*ways)
        spent = np.maximum(busy, self.cost.streaming(e)) + self.cost.spilling(e) + self.cost.waiting(e)
        return np.asarray(self.repeat * spent, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class _Made:
    """A measurement whose passes do not just add up: so many times `timing.joined` of the passes at `wheres`."""

    index: int
    times: float
    timing: Timing
    wheres: tuple[tuple[slice, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True)
class Lot:
    """Measurements of one group, ready to be predicted with any efficiency.

    `values` what was measured, `floors` what nothing beats [s]; `what` is estimated of each.
    """

    rows: tuple[Measurement, ...]
    values: Floats
    floors: Floats
    what: NDArray[np.str_]
    stacks: tuple[_Stack, ...]
    n_passes: int
    adds: tuple[NDArray[np.int64], NDArray[np.int64], Floats]  # measurement, pass, times
    made: tuple[_Made, ...]
    requests: Floats
    held_s: Floats

    def __len__(self) -> int:
        return len(self.rows)

    def predict(self, e: Efficiency) -> Floats:
        """What each measurement would be  [s]."""
        passes = np.zeros(self.n_passes)
        for stack in self.stacks:
            passes += np.bincount(stack.of_pass, stack.seconds(e), self.n_passes)
        of, which, times = self.adds
        found: Floats = np.bincount(of, times * passes[which], len(self.rows)).astype(np.float64)
        for one in self.made:
            seconds = [
                passes[where].reshape(shape) if shape else float(passes[where][0]) for where, shape in one.wheres
            ]
            found[one.index] += one.times * float(np.sum(one.timing.joined(seconds)))
        found += self.requests * e.request_s
        return found if e.first_read is None else found + self.held_s / e.first_read

    def where(self, attribute: str, value: object) -> NDArray[np.bool_]:
        """Which of its rows have that value of an attribute."""
        return np.array([getattr(row, attribute) == value for row in self.rows], dtype=bool)


def lot_of(rows: Iterable[Measurement]) -> Lot:
    """Counts every pass of every row once."""
    return lot_of_parts([(row, *_counted(row)) for row in rows])


def _counted(row: Measurement) -> tuple[tuple[Part, ...], float]:
    d = replace(deployment_of(row), efficiency=IDEAL)  # counted, not estimated: nothing shipped may enter a fit
    return parts_of(row, d), held_s(d, how_of(d))


def lot_of_parts(given: Sequence[tuple[Measurement, tuple[Part, ...], float]]) -> Lot:
    """The same of rows whose passes are made: (row, parts, seconds to read the weights once at the rated bandwidth)."""
    builder = _Builder()
    floors = []
    for index, (_, parts, _) in enumerate(given):
        floors.append(sum(times * float(np.sum(t.floor_s)) for times, t in parts))
        for times, timing in parts:
            builder.add(index, times, timing)
    rows = tuple(row for row, _, _ in given)
    reads = np.array([float(row.metric != "tpot_s") for row in rows])
    held = np.array([h for _, _, h in given]) * reads
    return builder.lot(rows, np.array(floors), reads, held)


class _Builder:
    """Collects the ops of passes by kind."""

    def __init__(self) -> None:
        self.n = 0
        self.columns: dict[str, dict[str, list[Floats]]] = {}
        self.of: list[NDArray[np.int64]] = []
        self.which: list[NDArray[np.int64]] = []
        self.times: list[Floats] = []
        self.made: list[_Made] = []

    def add(self, index: int, times: float, timing: Timing) -> None:
        """So many of these passes belong to that measurement."""
        wheres = [self._leaf(leaf) for leaf in timing.leaves]
        if type(timing) is Timing or (isinstance(timing, Passes) and len(timing.leaves) == 1):
            where, _ = wheres[0]
            size = where.stop - where.start
            self.of.append(np.full(size, index))
            self.which.append(np.arange(where.start, where.stop))
            self.times.append(np.full(size, times))
        else:
            self.made.append(_Made(index, times, timing, tuple(wheres)))

    def _leaf(self, leaf: Timing) -> tuple[slice, tuple[int, ...]]:
        sums, shape = (
            leaf.parts[0][1](),
            np.shape(leaf.floor_s),
        )  # known by now; the seconds are not, and nobody asks for them
        size = int(np.prod(shape)) if shape else 1
        for row in leaf.rows:
            cost = cost_of(row, leaf.chip).at(sums)
            into = self.columns.setdefault(row.kind, {name: [] for name in (*_FIELDS, "repeat", "of_pass")})
            for name in _FIELDS:
                into[name].append(_spread(getattr(cost, name), shape))
            into["repeat"].append(np.full(size, row.repeat))
            into["of_pass"].append(np.arange(self.n, self.n + size, dtype=np.float64))
        where = slice(self.n, self.n + size)
        self.n += size
        return where, shape

    def lot(self, rows: tuple[Measurement, ...], floors: Floats, requests: Floats, held: Floats) -> Lot:
        """All of it as one lot."""
        stacks = []
        for kind, columns in self.columns.items():
            joined = {name: np.concatenate(parts) for name, parts in columns.items()}
            repeat, of_pass = joined.pop("repeat"), joined.pop("of_pass").astype(np.int64)
            stacks.append(_Stack(Cost(kind=kind, **joined), repeat, of_pass))  # type: ignore[arg-type]
        none = np.zeros(0, dtype=np.int64)
        adds = (
            np.concatenate(self.of) if self.of else none,
            np.concatenate(self.which) if self.which else none,
            np.concatenate(self.times) if self.times else np.zeros(0),
        )
        return Lot(
            rows=rows, values=np.array([row.value for row in rows]), floors=floors,
            what=np.array([what_of(row) for row in rows]), stacks=tuple(stacks), n_passes=self.n, adds=adds,
            made=tuple(self.made), requests=requests, held_s=held,
        )  # fmt: skip


def _spread(value: Num, shape: tuple[int, ...]) -> Floats:
    return np.full(shape, value, dtype=np.float64).ravel()
