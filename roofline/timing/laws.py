"""The law of one op: its counts over the ceilings of a machine, as linear forms in the sums of a pass.

Every count of a row is linear in the sums of the pass, so a clocked row is a maximum of two linear forms, and rows with
the same two forms (q and o; k and v; gate, up and down of many models) are one row that repeats more often.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from roofline.ledger import Linear, Row, Sums, summed
from roofline.num import Num
from roofline.specs.hardware import Hardware
from roofline.specs.precision import lawful_dtypes, run_dtype
from roofline.timing.collectives import floor_cost, link_cost
from roofline.timing.efficiency import Efficiency

__all__ = [
    "PassLaw",
    "compute_s",
    "floors",
    "form",
    "larger",
    "launches",
    "link_s",
    "memory_s",
    "pass_law",
    "peak",
    "total",
]


@dataclass(frozen=True, slots=True)
class PassLaw:
    """A pass as a function of its sums: Σ max(compute, memory) over the ops that do both, what only streams, the links."""

    contests: tuple[tuple[Linear, Linear], ...]
    streams: Linear  # launches included
    links: Linear
    overlap: float

    def seconds(self, sums: Sums) -> Num:
        """work + links − min(overlap · links, work),   work = Σ max(compute, memory) + streams  [s]."""
        work = self.work(sums)
        return work if self.links == Linear() else work + self._exposed(work, sums)

    def exposed(self, sums: Sums) -> Num:
        """The part of `seconds` in which nothing but links is at work  [s]."""
        return 0.0 if self.links == Linear() else self._exposed(self.work(sums), sums)

    def _exposed(self, work: Num, sums: Sums) -> Num:
        links = self.links.at(sums)
        return links if self.overlap == 0.0 else larger(links * (1.0 - self.overlap), links - work)

    def work(self, sums: Sums) -> Num:
        """Σ max(compute, memory) + streams  [s]."""
        total = self.streams.at(sums)
        for compute, memory in self.contests:
            total = total + larger(compute.at(sums), memory.at(sums))
        return total

    def compute_bound(self, sums: Sums) -> Num:
        """Σ compute over the ops where it is at least the traffic  [s]."""
        total: Num = 0.0
        for compute, memory in self.contests:
            busy, streaming = compute.at(sums), memory.at(sums)
            total = total + busy * np.greater_equal(busy, streaming)
        return total if isinstance(total, np.ndarray) else float(total)


def pass_law(rows: tuple[Row, ...], chip: Hardware, efficiency: Efficiency, *, overlap: float = 0.0) -> PassLaw:
    """The rows of a pass on a machine, those of the same two forms as one."""
    repeats: dict[tuple[Linear, Linear], float] = {}
    streams = Linear(launches(rows) * efficiency.launch_s)
    links = Linear()
    for row in rows:
        compute, memory = compute_s(row, chip, efficiency), memory_s(row, chip, efficiency)
        if row.collective is not None:
            links = links + link_s(row, chip, efficiency) * row.repeat
        elif compute == Linear():
            streams = streams + memory * row.repeat
        else:
            repeats[compute, memory] = repeats.get((compute, memory), 0.0) + row.repeat
    return PassLaw(tuple((c * n, m * n) for (c, m), n in repeats.items()), streams, links, overlap)


def launches(rows: Iterable[Row]) -> float:
    """Kernels of a pass; those of an exchange are counted with it, one a stage."""
    return sum(row.repeat * row.n_launch for row in rows if row.collective is None)


def compute_s(row: Row, chip: Hardware, efficiency: Efficiency) -> Linear:
    """F / (e·π), one layer  [s]."""
    return form(row.executed_flops) * (1.0 / (efficiency.compute * peak(row, chip)))


def memory_s(row: Row, chip: Hardware, efficiency: Efficiency) -> Linear:
    """Q / (e·β), one layer  [s]."""
    return form(row.streamed_bytes) * (1.0 / (efficiency.memory * chip.hbm_bytes_per_s))


def link_s(row: Row, chip: Hardware, efficiency: Efficiency) -> Linear:
    """stages · (launch + latency) + X / (e·β of the link), one layer; 0 where nothing is exchanged  [s]."""
    if row.collective is None:
        return Linear()
    cost = link_cost(row.collective, chip)
    alpha = cost.n_stages * efficiency.launch_s + cost.latency_s
    return form(row.link_bytes) * (cost.s_per_byte / efficiency.link) + alpha


def peak(row: Row, chip: Hardware) -> float:
    """π of the dtype an op runs in on a chip [FLOP/s]."""
    return chip.peak_flops_per_s(run_dtype(row.compute_dtype, chip))


def floors(rows: Iterable[Row], chip: Hardware) -> tuple[Linear, Linear, Linear]:
    """Σ F / π_max, Σ compulsory bytes / β, Σ compulsory payload / link: what each resource takes at least  [s]."""
    rows = tuple(rows)
    arithmetic, links = Linear(), Linear()
    traffic = summed(rows, "compulsory_bytes") * (1.0 / chip.hbm_bytes_per_s)
    for row in rows:
        arithmetic = arithmetic + form(row.least_flops) * (row.repeat / _fastest(row, chip))
        if row.collective is not None:
            links = links + form(row.link_bytes_min) * (row.repeat * floor_cost(row.collective, chip))
    return arithmetic, traffic, links


def _fastest(row: Row, chip: Hardware) -> float:
    """The highest rate any dtype this op may legally run in reaches on the chip [FLOP/s]."""
    return max(chip.bound_flops_per_s(dtype) for dtype in lawful_dtypes(row.store_dtype, row.compute_dtype, chip))


def form(value: Linear | float) -> Linear:
    """A count as a linear form."""
    return value if isinstance(value, Linear) else Linear(float(value))


def total(forms: Iterable[Linear]) -> Linear:
    """Σ of forms."""
    found = Linear()
    for one in forms:
        found = found + one
    return found


def larger(a: Num, b: Num) -> Num:
    """max(a, b), elementwise; a plain float of plain floats."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.maximum(a, b)
    return max(a, b)
