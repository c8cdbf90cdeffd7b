"""The law of one op: what it costs at the rated ceilings of a machine, and what an `Efficiency` makes of that.

Every count of a row is linear in the sums of the pass, so its cost at the rated ceilings is a few linear forms, and a
clocked row is a maximum of such forms. Rows with the same forms (q and o; k and v; gate, up and down of many models) are
one row that repeats more often.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any, Generic, TypeVar

import numpy as np

from roofline.dtypes import format_named
from roofline.ledger import Linear, OpKind, Row, Sums, add_up, summed
from roofline.num import Num
from roofline.specs.hardware import Hardware
from roofline.specs.precision import lawful_dtypes, run_dtype
from roofline.timing.collectives import floor_cost, link_cost
from roofline.timing.efficiency import Efficiency

__all__ = ["CONVERTED", "Cost", "PassLaw", "cost_of", "floors", "form", "larger", "pass_law", "peak", "total"]

Q = TypeVar("Q", Num, Linear)
_NOTHING: Any = 0.0

CONVERTED = 4.0
"""What a vector unit spends on an element of a cache narrower than 16 bits, in multiply-adds: three convert it, one uses it.

With it, machines that were measured with 16-bit caches (A100) and with 8-bit ones (H100) reach the same share of their
vector peaks under one engine, about 0.55; without it 0.4 and 0.15. Products of narrow weights need no such thing: their
kernels multiply 8-bit integers.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost(Generic[Q]):
    """What one op of one layer costs at the rated ceilings: seconds, and numbers of things that cost a fixed time each.

    Attributes
    ----------
    kind : str
        That of the op: which efficiencies apply.
    compute_s : Num
        F / π [s].
    row_s : Num
        R / π: one row of every tile [s].
    vector_s : Num
        c·F / π_vector: c is `CONVERTED` in attention over a cache narrower than 16 bits, else 1 [s].
    memory_s : Num
        Q / β: weights, cache, state and activations [s].
    reread_s : Num
        m·W / β: the weights once for every row [s].
    activations_s : Num
        A / β: activations alone [s].
    link_s, latency_s : Num, float
        X / β of the links, and their latency [s].
    n_launch, n_stages : float
        Kernels, and messages of an exchange that follow one another [1].
    n_wanted : Num
        Positions whose logits are wanted, of a head [1].
    """

    kind: OpKind
    compute_s: Q = _NOTHING
    row_s: Q = _NOTHING
    vector_s: Q = _NOTHING
    memory_s: Q = _NOTHING
    reread_s: Q = _NOTHING
    activations_s: Q = _NOTHING
    link_s: Q = _NOTHING
    latency_s: float = 0.0
    n_launch: float = 0.0
    n_stages: float = 0.0
    n_wanted: Q = _NOTHING

    def at(self, sums: Sums) -> Cost[Num]:
        """The same in numbers."""
        forms = {f.name: getattr(self, f.name) for f in fields(self)}
        return replace(self, **{n: v.at(sums) for n, v in forms.items() if isinstance(v, Linear)})  # type: ignore[return-value, arg-type]

    def computing(self, e: Efficiency) -> tuple[Q, ...]:
        """Ways to do the arithmetic, of which the law takes the fastest  [s].

        On the matrix units (F + r·R) / (ec·π), of attention (F + q·R) / (ea·π);  on the vector units c·F / (ev·π_vector),
        the only way of a recurrence.
        """
        if self.kind == "attention":
            matrix = (self.compute_s + self.row_s * e.attention_rows) * (1.0 / e.attention)
        else:
            matrix = (self.compute_s + self.row_s * e.tile_rows) * (1.0 / e.compute)
        if e.vector is None:
            return (self.compute_s * (1.0 / e.compute) if self.kind == "recurrent" else matrix,)
        vector = self.vector_s * (1.0 / e.vector)
        return (vector,) if self.kind == "recurrent" else (matrix, vector)

    def streaming(self, e: Efficiency) -> Q:
        """(Q + W·m/ρ) / (em·β)  [s]."""
        again = self.memory_s if e.reread_rows is None else self.memory_s + self.reread_s * (1.0 / e.reread_rows)
        return again * (1.0 / e.memory)

    def spilling(self, e: Efficiency) -> Q:
        """ka·A / (em·β): activations that cross memory again  [s]."""
        return self.activations_s * (e.activations / e.memory)

    def waiting(self, e: Efficiency) -> Q:
        """t0 · kernels + b · positions wanted: what nothing hides  [s]."""
        return self.n_wanted * e.sequence_s + self.n_launch * e.launch_s

    def exchanging(self, e: Efficiency) -> Q:
        """stages · t0 + latency + X / (el·β of the link)  [s]."""
        return self.link_s * (1.0 / e.link) + (self.n_stages * e.launch_s + self.latency_s)


def cost_of(row: Row, chip: Hardware) -> Cost[Linear]:
    """What one layer of an op costs on a chip at its rated ceilings."""
    if row.collective is not None:
        link = link_cost(row.collective, chip)
        return Cost(
            kind=row.kind, compute_s=Linear(), memory_s=form(row.streamed_bytes) * (1.0 / chip.hbm_bytes_per_s),
            row_s=Linear(), vector_s=Linear(), reread_s=Linear(), activations_s=Linear(), n_wanted=Linear(),
            link_s=form(row.link_bytes) * link.s_per_byte, latency_s=link.latency_s, n_stages=link.n_stages,
        )  # fmt: skip
    rate, beta = peak(row, chip), chip.hbm_bytes_per_s
    vector = min(rate, chip.compute.vector.get("fp32", rate))
    return Cost(
        kind=row.kind,
        compute_s=form(row.executed_flops) * (1.0 / rate),
        row_s=form(row.row_flops) * (1.0 / rate),
        vector_s=form(row.executed_flops) * (_converted(row) / vector),
        memory_s=form(row.streamed_bytes) * (1.0 / beta),
        reread_s=form(row.weight_row_bytes) * (1.0 / beta),
        activations_s=form(row.act_bytes) * (1.0 / beta),
        link_s=Linear(),
        n_launch=row.n_launch,
        n_wanted=form(row.m) if row.kind == "head" else Linear(),
    )


@dataclass(frozen=True, slots=True)
class PassLaw:
    """A pass as a function of its sums: Σ max(compute, memory) over the ops that do both, what only streams, the links."""

    contests: tuple[tuple[tuple[Linear, ...], Linear], ...]  # ways to compute, of which the fastest; traffic
    streams: Linear
    overhead: Linear
    links: Linear
    overlap: float

    def seconds(self, sums: Sums) -> Num:
        """work + links − min(overlap · links, work),   work = Σ max(compute, memory) + streams + overhead  [s]."""
        work = self.work(sums)
        return work if self.links == Linear() else work + self._exposed(work, sums)

    def exposed(self, sums: Sums) -> Num:
        """The part of `seconds` in which nothing but links is at work  [s]."""
        return 0.0 if self.links == Linear() else self._exposed(self.work(sums), sums)

    def _exposed(self, work: Num, sums: Sums) -> Num:
        links = self.links.at(sums)
        return links if self.overlap == 0.0 else larger(links * (1.0 - self.overlap), links - work)

    def work(self, sums: Sums) -> Num:
        """Σ max(compute, memory) + streams + overhead  [s]."""
        total = (self.streams + self.overhead).at(sums)
        for compute, memory in self.contests:
            total = total + larger(fastest(compute, sums), memory.at(sums))
        return total

    def computing(self, sums: Sums) -> Num:
        """Σ compute: the arithmetic alone  [s]."""
        return add_up(fastest(compute, sums) for compute, _ in self.contests)

    def streaming(self, sums: Sums) -> Num:
        """Σ memory + streams: the traffic alone  [s]."""
        return total((self.streams, *(memory for _, memory in self.contests))).at(sums)

    def compute_bound(self, sums: Sums) -> Num:
        """Σ compute over the ops where it is at least the traffic  [s]."""
        total: Num = 0.0
        for compute, memory in self.contests:
            busy, streaming = fastest(compute, sums), memory.at(sums)
            total = total + busy * np.greater_equal(busy, streaming)
        return total if isinstance(total, np.ndarray) else float(total)


@lru_cache(maxsize=512)
def pass_law(rows: tuple[Row, ...], chip: Hardware, efficiency: Efficiency, *, overlap: float = 0.0) -> PassLaw:
    """The rows of a pass on a machine, those of the same forms as one."""
    repeats: dict[tuple[tuple[Linear, ...], Linear], float] = {}
    streams, overhead, links = Linear(), Linear(), Linear()
    for row in rows:
        cost = cost_of(row, chip)
        compute, memory = cost.computing(efficiency), cost.streaming(efficiency)
        streams = streams + cost.spilling(efficiency) * row.repeat
        overhead = overhead + cost.waiting(efficiency) * row.repeat
        if row.collective is not None:
            links = links + cost.exchanging(efficiency) * row.repeat
        elif compute[0] == Linear():
            streams = streams + memory * row.repeat
        else:
            repeats[compute, memory] = repeats.get((compute, memory), 0.0) + row.repeat
    contests = tuple((tuple(way * n for way in c), m * n) for (c, m), n in repeats.items())
    return PassLaw(contests, streams, overhead, links, overlap)


def fastest(ways: Iterable[Linear], sums: Sums) -> Num:
    """The least of some forms, elementwise."""
    found: Num | None = None
    for way in ways:
        value = way.at(sums)
        found = value if found is None else smaller(found, value)
    return 0.0 if found is None else found


def _converted(row: Row) -> float:
    return CONVERTED if row.kind == "attention" and format_named(row.store_dtype).narrow else 1.0


def peak(row: Row, chip: Hardware) -> float:
    """π of the dtype an op runs in on a chip [FLOP/s]."""
    return chip.peak_flops_per_s(run_dtype(row.compute_dtype, chip))


@lru_cache(maxsize=512)
def floors(rows: tuple[Row, ...], chip: Hardware) -> tuple[Linear, Linear, Linear]:
    """Σ F / π_max, Σ compulsory bytes / β, Σ compulsory payload / link: what each resource takes at least  [s]."""
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


def smaller(a: Num, b: Num) -> Num:
    """min(a, b), elementwise; a plain float of plain floats."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.minimum(a, b)
    return min(a, b)
