"""The one clock: a ledger and a chip give a time, its floor, and what binds.

Per op the estimate is the roofline, t = max(F / π, Q / β); a pass is the sum over its ops. The floor is one maximum over
the whole pass, at the highest rate the arithmetic may legally reach and with compulsory traffic only, so it is a bound no
honest measurement beats whose working set is several times the last-level cache. Exchanges between chips come after the
work of a chip, but for the share of them that is said to overlap with it; in the floor they overlap wholly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from roofline.errors import Unsupported, require
from roofline.ledger import Ledger, Linear, Row, Sums, summed
from roofline.num import Num, checked
from roofline.specs.hardware import Hardware
from roofline.specs.precision import run_dtype
from roofline.timing.efficiency import IDEAL, Efficiency
from roofline.timing.laws import (
    PassLaw,
    floors,
    form,
    larger,
    pass_law,
    peak,
    total,
)

__all__ = ["RESOURCES", "Part", "Spent", "Timing", "clock"]

RESOURCES = ("compute", "memory", "link", "overhead", "tier")

Spent: TypeAlias = Literal["compute", "memory", "link", "link exposed", "compute bound", "overhead", "tier exposed"]

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
        The resource that binds the ops most of the estimate is spent in: compute, memory, link, overhead or tier.
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
        overlap: float = 0.0,
        coordinates: Mapping[str, Num] | None = None,
    ) -> None:
        self.rows = rows
        self.coordinates = dict(coordinates or {})  # what was asked, under the asker's names: columns of `to_frame`
        self.parts = tuple(parts)
        self.shape = shape  # none: one part, whatever its shape
        self.chip = chip
        self.efficiency = efficiency
        self.overlap = overlap

    @property
    def leaves(self) -> tuple[Timing, ...]:
        """The passes on one chip that this time is made of; a plain pass is its own."""
        return (self,)

    def joined(self, seconds: Sequence[Num]) -> Num:
        """The time that those of the leaves make together  [s]."""
        return seconds[0]

    @cached_property
    def seconds(self) -> Num:
        """Σ over ops, by the law of `Efficiency`: max(compute, memory), what is paid besides, links no work hides  [s]."""
        leaves = self.leaves
        return self._gather(self._laws.seconds) if leaves == (self,) else self.joined([t.seconds for t in leaves])

    @cached_property
    def _laws(self) -> PassLaw:
        return pass_law(self.rows, self.chip, self.efficiency, overlap=self.overlap)

    @cached_property
    def floor_s(self) -> Num:
        """max over resources of the summed seconds: Σ F / π_max, Σ compulsory bytes / β, Σ payload / link  [s].

        F is what no execution gets around: what one adds is not in it, nor what some engine may skip.
        """
        arithmetic, traffic, links = floors(self.rows, self.chip)
        if links == Linear():
            return self._gather(lambda sums: larger(arithmetic.at(sums), traffic.at(sums)))
        return self._gather(lambda sums: larger(larger(arithmetic.at(sums), traffic.at(sums)), links.at(sums)))

    def spent(self, on: Spent) -> Num:
        """Seconds of one resource alone, or of the ops that it binds; the properties below say which [s]."""
        match on:
            case "compute":
                return self._gather(self._laws.computing)
            case "memory":
                return self._gather(self._laws.streaming)
            case "link":
                return self._gather(self._laws.links.at)
            case "link exposed":
                return self._gather(self._laws.exposed)
            case "compute bound":
                return self._gather(self._laws.compute_bound)
            case "overhead":
                return self._gather(self._laws.overhead.at)
            case "tier exposed":
                return 0.0

    @cached_property
    def compute_s(self) -> Num:
        """Σ F / (e·π), padding included: the arithmetic alone [s]."""
        return self.spent("compute")

    @cached_property
    def memory_s(self) -> Num:
        """Σ Q / (e·β): the traffic alone [s]."""
        return self.spent("memory")

    @cached_property
    def link_s(self) -> Num:
        """Σ stages · α + X / (e·β of the link): the exchanges between chips alone, hidden or not [s]."""
        return self.spent("link")

    @cached_property
    def exposed_link_s(self) -> Num:
        """The part of `link_s` that no work hides [s]."""
        return self.spent("link exposed")

    @cached_property
    def overhead_s(self) -> Num:
        """Launches, and what the host does for every sequence [s]."""
        return self.spent("overhead")

    @cached_property
    def tier_exposed_s(self) -> Num:
        """The part of `seconds` in which the chip waits for another memory; 0 where nothing lies in one [s]."""
        return self.spent("tier exposed")

    @cached_property
    def compute_bound_s(self) -> Num:
        """The part of `seconds` spent in ops that their arithmetic binds [s]."""
        return self.spent("compute bound")

    @property
    def memory_bound_s(self) -> Num:
        """The part of `seconds` spent in ops that their traffic binds [s]."""
        return self.seconds - self.compute_bound_s - self.exposed_link_s - self.overhead_s

    def total(self, quantity: str) -> Num:
        """Σ over ops of a quantity of the ledger, such as "weight_bytes_max", for every point of the grid."""
        return self._gather(summed(self.rows, quantity).at)

    @cached_property
    def flops(self) -> Num:
        """The model's own work: visible pairs, no padding [FLOP]."""
        return self.total("flops")

    @cached_property
    def executed_flops(self) -> Num:
        """Executed work, what the execution adds included [FLOP]."""
        return self.total("executed_flops")

    @cached_property
    def hbm_bytes(self) -> Num:
        """Everything streamed through device memory [B]."""
        return self.total("streamed_bytes")

    @cached_property
    def compulsory_bytes(self) -> Num:
        """The least any execution streams [B]."""
        return self.total("compulsory_bytes")

    @cached_property
    def link_bytes(self) -> Num:
        """Payloads of the exchanges between chips [B]."""
        return self.total("link_bytes")

    @property
    def intensity(self) -> Num:
        """I = F / Q of the pass as executed [FLOP/B]."""
        return self.executed_flops / self.hbm_bytes

    @cached_property
    def dtype(self) -> str:
        """The dtype that most of the layers' matrix products run in on this chip, by their FLOPs a row."""
        weights: dict[str, float] = {}
        for row in [row for row in self.rows if row.kind in ("gemm", "expert")] or self.rows:
            used = run_dtype(row.compute_dtype, self.chip)
            weights[used] = weights.get(used, 0.0) + row.repeat * sum(c for _, c in form(row.flops).terms)
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
        return self.rated_s / self.seconds

    @cached_property
    def rated_s(self) -> Num:
        """Σ F / π of the model's own work, each op at the rated peak of the dtype it runs in [s]."""
        return self._gather(total(form(row.flops) * (row.repeat / peak(row, self.chip)) for row in self.rows).at)

    @property
    def mbu(self) -> Num:
        """Compulsory bytes over what the rated bandwidth would have moved in `seconds` [1]."""
        return self.compulsory_bytes / (self.seconds * self.chip.hbm_bytes_per_s)

    @property
    def bound(self) -> Any:
        """The resource that binds the ops most of the time is spent in: a word, or an array of words."""
        words: NDArray[np.str_] = np.array(RESOURCES)[self.binding]
        return words if isinstance(self.seconds, np.ndarray) else str(words)

    @property
    def binding(self) -> NDArray[np.int8]:
        """The same as its place in `RESOURCES`, the first of equals: a byte a point."""
        first, *others = (
            self.compute_bound_s, self.memory_bound_s, self.exposed_link_s, self.overhead_s, self.tier_exposed_s
        )  # fmt: skip
        most, found = np.asarray(first), np.zeros(np.shape(self.seconds), dtype=np.int8)
        for place, part in enumerate(others, start=1):
            found = np.where(np.greater(part, most), np.int8(place), found)
            most = np.maximum(most, part)
        return found

    def by_op(self) -> tuple[dict[str, Any], ...]:
        """A dict per op of the ledger, totals over its layers, with its seconds, intensity, bound and run dtype."""
        if self.shape is not None:
            raise Unsupported(
                "by_op: rows are kept for grids of at most 100,000 points; ask for one point, or a smaller grid"
            )
        sums = self.parts[0][1]()
        ledger = Ledger(rows=self.rows, sums=sums, n_seq=0.0, n_tokens=0.0, resident_bytes=0.0)
        return tuple(
            said | _op_times(row, sums, self.chip, self.efficiency)
            for said, row in zip(ledger.by_op(), self.rows, strict=True)
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
        if self.shape is None:
            value = quantity(self.parts[0][1]())
            shape = np.broadcast_shapes(np.shape(value), *(np.shape(asked) for asked in self.coordinates.values()))
            return value if np.shape(value) == shape else np.broadcast_to(value, shape).copy()
        out = np.empty(int(np.prod(self.shape)))
        for where, sums in self.parts:
            out[where] = quantity(sums())
        return out.reshape(self.shape)


def clock(ledger: Ledger, chip: Hardware, *, efficiency: Efficiency = IDEAL, overlap: float = 0.0) -> Timing:
    """The time a counted pass takes on a chip.

    Parameters
    ----------
    ledger : Ledger
        From `count`.
    chip : Hardware
    efficiency : Efficiency
        `IDEAL` by default.
    overlap : float
        Share of the time on links that other work of the pass hides [1].

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
    hidden = float(checked(overlap, name="overlap", low=0.0, high=1.0))
    return Timing(
        ledger.rows, (whole,), shape=None, chip=chip, efficiency=efficiency, overlap=hidden, coordinates=asked
    )


def _same_sums(sums: Sums) -> Sums:
    return sums


def _op_times(row: Row, sums: Sums, chip: Hardware, efficiency: Efficiency) -> dict[str, Any]:
    law = pass_law((row,), chip, efficiency)
    compute, memory, link = law.computing(sums), law.streaming(sums), law.links.at(sums)
    flops, streamed = form(row.executed_flops).at(sums), form(row.streamed_bytes).at(sums)
    bound = np.where(np.asarray(compute) >= memory, "compute", "memory") if row.collective is None else np.array("link")
    return {
        "seconds": law.seconds(sums),
        "compute_s": compute,
        "memory_s": memory,
        "link_s": link,
        "intensity": flops / larger(streamed, 1e-300),  # an op that does nothing this pass has intensity 0
        "bound": bound if bound.ndim else str(bound),
        "run_dtype": run_dtype(row.compute_dtype, chip),
    }
