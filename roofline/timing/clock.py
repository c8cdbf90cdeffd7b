"""The one clock: a ledger and a chip give a time, its floor, and what binds.

Per op the estimate is the roofline, t = max(F / π, Q / β); a pass is the sum over its ops. The floor is one maximum over
the whole pass, at the highest rate the arithmetic may legally reach and with compulsory traffic only, so it is a bound no
honest measurement beats whose working set is several times the last-level cache.

Every count of a row is linear in the sums of the pass, so a clocked row is a maximum of two linear forms, and rows with
the same two forms (q and o; k and v; gate, up and down of many models) are one row that repeats more often.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from roofline.errors import Unsupported, require
from roofline.ledger import Ledger, Linear, Row, Sums, summed
from roofline.num import Num
from roofline.specs.hardware import Hardware
from roofline.specs.precision import lawful_dtypes, run_dtype
from roofline.timing.efficiency import IDEAL, Efficiency

__all__ = ["Part", "Timing", "clock"]

RESOURCES = ("compute", "memory", "overhead")

Part: TypeAlias = tuple[slice, Callable[[], Sums]]
"""A piece of a grid: where it goes in the answer, and its sums, made when asked for."""


class Timing:
    """What a pass takes. Every quantity is computed when first asked for, from the same rows; shapes follow the step.

    Attributes
    ----------
    seconds : Num
        The estimate [s].
    floor_s : Num
        Nothing can beat it [s].
    bound : str or array of str
        The resource that binds the ops most of the estimate is spent in: compute, memory or overhead.
    intensity, ridge : Num, float
        FLOP per byte of device-memory traffic, and where the chip's roof bends [FLOP/B].
    mfu, mbu : Num
        Model FLOPs, and compulsory bytes, over what the rated ceilings could have done in that time [1].
    flops, executed_flops, hbm_bytes : Num
        The model's own work, that of this execution, and traffic [FLOP, B].
    """

    def __init__(
        self,
        rows: tuple[Row, ...],
        parts: Sequence[Part],
        *,
        shape: tuple[int, ...] | None,
        chip: Hardware,
        efficiency: Efficiency,
        coordinates: Mapping[str, Num] | None = None,
    ) -> None:
        self._rows = rows
        self.coordinates = dict(coordinates or {})  # what was asked, under the asker's names: columns of `to_frame`
        self._parts = tuple(parts)
        self._shape = shape  # none: one part, whatever its shape
        self.chip = chip
        self.efficiency = efficiency

    @cached_property
    def seconds(self) -> Num:
        """Σ over ops of repeat · max(F / (e·π), Q / (e·β)) + launches  [s]."""
        return self._gather(self._laws.seconds)

    @cached_property
    def _laws(self) -> _Laws:
        return _laws(self._rows, self.chip, self.efficiency)

    @cached_property
    def floor_s(self) -> Num:
        """max over resources of the summed seconds: Σ F / π_max, Σ compulsory bytes / β  [s].

        F is what no execution gets around: what one adds is not in it, nor what some engine may skip.
        """
        arithmetic, traffic = Linear(), summed(self._rows, "compulsory_bytes") * (1.0 / self.chip.hbm_bytes_per_s)
        for row in self._rows:
            arithmetic = arithmetic + _form(row.least_flops) * (row.repeat / _fastest(row, self.chip))
        return self._gather(lambda sums: _larger(arithmetic.at(sums), traffic.at(sums)))

    @cached_property
    def compute_s(self) -> Num:
        """Σ F / (e·π): the arithmetic alone [s]."""
        return self._gather(_total(_compute_s(row, self.chip, self.efficiency) * row.repeat for row in self._rows).at)

    @cached_property
    def memory_s(self) -> Num:
        """Σ Q / (e·β): the traffic alone [s]."""
        return self._gather(_total(_memory_s(row, self.chip, self.efficiency) * row.repeat for row in self._rows).at)

    @cached_property
    def overhead_s(self) -> float:
        """Launches [s]."""
        return sum(row.repeat * row.n_launch for row in self._rows) * self.efficiency.launch_s

    @cached_property
    def executed_flops(self) -> Num:
        """Executed work, what the execution adds included [FLOP]."""
        return self._gather(summed(self._rows, "executed_flops").at)

    @cached_property
    def flops(self) -> Num:
        """The model's own work: visible pairs, no padding [FLOP]."""
        return self._gather(summed(self._rows, "flops").at)

    @cached_property
    def hbm_bytes(self) -> Num:
        """Everything streamed through device memory [B]."""
        return self._gather(summed(self._rows, "streamed_bytes").at)

    def total(self, quantity: str) -> Num:
        """Σ over ops of a quantity of the ledger, such as "weight_bytes_max", for every point of the grid."""
        return self._gather(summed(self._rows, quantity).at)

    @cached_property
    def compulsory_bytes(self) -> Num:
        """The least any execution streams [B]."""
        return self._gather(summed(self._rows, "compulsory_bytes").at)

    @property
    def intensity(self) -> Num:
        """I = F / Q of the pass as executed [FLOP/B]."""
        return self.executed_flops / self.hbm_bytes

    @cached_property
    def dtype(self) -> str:
        """The dtype that most of the layers' matrix products run in on this chip, by their FLOPs a row."""
        weights: dict[str, float] = {}
        for row in [row for row in self._rows if row.kind in ("gemm", "expert")] or self._rows:
            used = run_dtype(row.compute_dtype, self.chip)
            weights[used] = weights.get(used, 0.0) + row.repeat * sum(c for _, c in _form(row.flops).terms)
        return max(weights, key=lambda used: weights[used])

    @property
    def peak_flops_per_s(self) -> float:
        """π of `dtype`, as rated [FLOP/s]."""
        return self.chip.peak_flops_per_s(self.dtype)

    @property
    def ridge(self) -> float:
        """I* = π / β [FLOP/B]."""
        return self.chip.ridge(self.dtype)

    @property
    def mfu(self) -> Num:
        """Σ model FLOPs / π over `seconds`, each op at the rated peak of the dtype it runs in [1].

        With one dtype this is model FLOPs over peak × time, as everywhere; with two (fp8 layers, 16-bit attention) it stays
        a share of what the chip could have done.
        """
        rated = _total(_form(row.flops) * (row.repeat / _peak(row, self.chip)) for row in self._rows)
        return self._gather(rated.at) / self.seconds

    @property
    def mbu(self) -> Num:
        """Compulsory bytes over what the rated bandwidth would have moved in `seconds` [1]."""
        return self.compulsory_bytes / (self.seconds * self.chip.hbm_bytes_per_s)

    @cached_property
    def compute_bound_s(self) -> Num:
        """The part of `seconds` spent in ops that their arithmetic binds [s]."""
        return self._gather(self._laws.compute_bound)

    @property
    def memory_bound_s(self) -> Num:
        """The part of `seconds` spent in ops that their traffic binds [s]."""
        return self.seconds - self.compute_bound_s - self.overhead_s

    @property
    def bound(self) -> Any:
        """The resource that binds the ops most of the time is spent in: a word, or an array of words."""
        parts = np.broadcast_arrays(self.compute_bound_s, self.memory_bound_s, self.overhead_s)
        words: NDArray[np.str_] = np.array(RESOURCES)[np.argmax(np.stack(parts), axis=0)]
        return words if isinstance(self.seconds, np.ndarray) else str(words)

    def by_op(self) -> tuple[dict[str, Any], ...]:
        """A dict per op of the ledger, totals over its layers, with its seconds, intensity, bound and run dtype."""
        if self._shape is not None:
            raise Unsupported(
                "by_op: rows are kept for grids of at most 100,000 points; ask for one point, or a smaller grid"
            )
        sums = self._parts[0][1]()
        ledger = Ledger(rows=self._rows, sums=sums, n_seq=0.0, n_tokens=0.0, resident_bytes=0.0)
        return tuple(
            said | _op_times(row, sums, self.chip, self.efficiency)
            for said, row in zip(ledger.by_op(), self._rows, strict=True)
        )

    def to_frame(self) -> Any:
        """One row a point of the grid, as a pandas DataFrame: what was asked, then what came out."""
        import pandas as pd

        names = ("seconds", "floor_s", "bound", "intensity", "mfu", "mbu", "flops", "hbm_bytes")
        given = self.coordinates | {n: getattr(self, n) for n in names}
        columns = np.broadcast_arrays(*(np.asarray(value) for value in given.values()))
        return pd.DataFrame({n: c.ravel() for n, c in zip(given, columns, strict=True)} | {"ridge": self.ridge})

    def __repr__(self) -> str:
        if isinstance(self.seconds, np.ndarray) and self.seconds.ndim:
            return f"Timing({'×'.join(map(str, self.seconds.shape))} points on {self.chip.id})"
        ms, floor_ms = float(self.seconds) * 1e3, float(self.floor_s) * 1e3
        return f"Timing({ms:.4g} ms, floor {floor_ms:.4g} ms, {self.bound}-bound on {self.chip.id})"

    def _gather(self, quantity: Callable[[Sums], Num]) -> Num:
        """A quantity over the whole grid, part by part; a value for every point, also where it is the same for all."""
        if self._shape is None:
            value = quantity(self._parts[0][1]())
            shape = np.broadcast_shapes(*(np.shape(asked) for asked in self.coordinates.values()))
            return value if np.shape(value) == shape else np.broadcast_to(value, shape).copy()
        out = np.empty(int(np.prod(self._shape)))
        for where, sums in self._parts:
            out[where] = quantity(sums())
        return out.reshape(self._shape)


def clock(ledger: Ledger, chip: Hardware, *, efficiency: Efficiency = IDEAL) -> Timing:
    """The time a counted pass takes on a chip.

    Parameters
    ----------
    ledger : Ledger
        From `count`.
    chip : Hardware
    efficiency : Efficiency
        `IDEAL` by default.

    Returns
    -------
    Timing
        Shape of its quantities: that of the ledger's counts.

    Notes
    -----
    Assumes ops run one after another, arithmetic and traffic of one op overlap perfectly, and activations cross memory
    between ops.

    References
    ----------
    Williams, Waterman, Patterson 2009, doi:10.1145/1498765.1498785 (the roofline).

    Examples
    --------
    Llama-2-7B, one token at batch 1 on an H100: 13.2 GB at 3.35 TB/s, 0.34 % of the peak.

    >>> from roofline.specs.catalog import hardware, model
    >>> from roofline.work.count import count
    >>> from roofline.work.step import Seqs
    >>> t = clock(count(model("llama-2-7b"), Seqs(n_seq=1, n_new=1, n_past=4)), hardware("h100-sxm-80gb"))
    >>> round(t.floor_s * 1e3, 2), t.bound, round(100 * t.mfu, 2)
    (3.95, 'memory', 0.34)
    """
    require(ledger, Ledger, "clock(ledger)")
    require(chip, Hardware, "clock(chip)")
    require(efficiency, Efficiency, "clock(efficiency=…)")
    whole: Part = (slice(None), partial(_same_sums, ledger.sums))
    asked = {"n_seq": ledger.n_seq, "n_tokens": ledger.n_tokens}
    return Timing(ledger.rows, (whole,), shape=None, chip=chip, efficiency=efficiency, coordinates=asked)


def _same_sums(sums: Sums) -> Sums:
    return sums


@dataclass(frozen=True, slots=True)
class _Laws:
    """A pass as a function of its sums: Σ max(compute, memory) over the ops that do both, plus what only streams."""

    contests: tuple[tuple[Linear, Linear], ...]
    streams: Linear  # launches included

    def seconds(self, sums: Sums) -> Num:
        """Σ max(compute, memory) + streams."""
        total = self.streams.at(sums)
        for compute, memory in self.contests:
            total = total + _larger(compute.at(sums), memory.at(sums))
        return total

    def compute_bound(self, sums: Sums) -> Num:
        """Σ compute over the ops where it is at least the traffic."""
        total: Num = 0.0
        for compute, memory in self.contests:
            busy, streaming = compute.at(sums), memory.at(sums)
            total = total + busy * np.greater_equal(busy, streaming)
        return total if isinstance(total, np.ndarray) else float(total)


def _laws(rows: tuple[Row, ...], chip: Hardware, efficiency: Efficiency) -> _Laws:
    repeats: dict[tuple[Linear, Linear], float] = {}
    streams = Linear(sum(row.repeat * row.n_launch for row in rows) * efficiency.launch_s)
    for row in rows:
        compute, memory = _compute_s(row, chip, efficiency), _memory_s(row, chip, efficiency)
        if compute == Linear():
            streams = streams + memory * row.repeat
        else:
            repeats[compute, memory] = repeats.get((compute, memory), 0.0) + row.repeat
    return _Laws(tuple((c * n, m * n) for (c, m), n in repeats.items()), streams)


def _compute_s(row: Row, chip: Hardware, efficiency: Efficiency) -> Linear:
    """F / (e·π), one layer."""
    return _form(row.executed_flops) * (1.0 / (efficiency.compute * _peak(row, chip)))


def _memory_s(row: Row, chip: Hardware, efficiency: Efficiency) -> Linear:
    """Q / (e·β), one layer."""
    return _form(row.streamed_bytes) * (1.0 / (efficiency.memory * chip.hbm_bytes_per_s))


def _peak(row: Row, chip: Hardware) -> float:
    """π of the dtype an op runs in on a chip [FLOP/s]."""
    return chip.peak_flops_per_s(run_dtype(row.compute_dtype, chip))


def _form(value: Linear | float) -> Linear:
    return value if isinstance(value, Linear) else Linear(float(value))


def _total(forms: Iterable[Linear]) -> Linear:
    total = Linear()
    for form in forms:
        total = total + form
    return total


def _larger(a: Num, b: Num) -> Num:
    """max(a, b), elementwise; a plain float of plain floats."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.maximum(a, b)
    return max(a, b)


def _fastest(row: Row, chip: Hardware) -> float:
    """The highest rate any dtype this op may legally run in reaches on the chip [FLOP/s]."""
    return max(chip.bound_flops_per_s(dtype) for dtype in lawful_dtypes(row.store_dtype, row.compute_dtype, chip))


def _op_times(row: Row, sums: Sums, chip: Hardware, efficiency: Efficiency) -> dict[str, Any]:
    compute = (_compute_s(row, chip, efficiency) * row.repeat).at(sums)
    memory = (_memory_s(row, chip, efficiency) * row.repeat).at(sums)
    flops, streamed = _form(row.executed_flops).at(sums), _form(row.streamed_bytes).at(sums)
    bound = np.where(np.asarray(compute) >= memory, "compute", "memory")
    return {
        "seconds": _larger(compute, memory) + row.repeat * row.n_launch * efficiency.launch_s,
        "compute_s": compute,
        "memory_s": memory,
        "intensity": flops / _larger(streamed, 1e-300),  # an op that does nothing this pass has intensity 0
        "bound": bound if bound.ndim else str(bound),
        "run_dtype": run_dtype(row.compute_dtype, chip),
    }
