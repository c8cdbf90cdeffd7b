"""A pass with a share of its weights, experts or cache in another memory than the chip's, on the same clock.

With f of every layer's bytes W (and FLOPs F) there, and r the rate at which they reach the chip:

    computed on the chip   device_s = the whole pass                       tier_s = f·W / r
    computed there         device_s = the pass less f of those products    tier_s = max(f·W / host memory, f·F / host's peak)
    seconds                device_s + tier_s,   or the larger of the two where both work at the same time
    floor                  the pass's own, less f·W of its traffic, and no less than tier_s of the certain bytes
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np

from roofline.errors import SpecError
from roofline.ledger import Linear, OpKind, Row, summed
from roofline.num import Num
from roofline.timing.clock import Spent, Timing
from roofline.timing.laws import floors, larger, pass_law, total

__all__ = ["Elsewhere", "Offloaded", "What"]

What: TypeAlias = Literal["weights", "experts", "kv"]

_KINDS: Mapping[What, tuple[OpKind, ...]] = {
    "weights": ("gemm", "expert", "head"),
    "experts": ("expert",),
    "kv": ("attention",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """What lies in another memory, as one chip sees it: a share of it, the rates of the tier [1, B/s, FLOP/s].

    `host_bytes_per_s` and `host_flops_per_s` are needed where `compute` is "host". `alone`: how many times as much of the
    tier a chip has while other pipeline stages draw nothing, as the floor must allow [1].
    """

    what: What
    fraction: Num
    bytes_per_s: Num
    compute: Literal["chip", "host"] = "chip"
    overlap: bool = False
    host_bytes_per_s: Num | None = None
    host_flops_per_s: Num | None = None
    alone: float = 1.0

    def moves(self, row: Row) -> bool:
        """Whether a part of this op's bytes lies there."""
        return row.kind in _KINDS[self.what]

    @property
    def quantities(self) -> tuple[str, ...]:
        """The counts of the ledger that cross: weights; cache read, and cache written."""
        return ("kv_read_bytes", "kv_write_bytes") if self.what == "kv" else ("weight_bytes",)

    @property
    def least(self) -> tuple[str, ...]:
        """The least of them."""
        return ("kv_read_bytes_min", "kv_write_bytes") if self.what == "kv" else ("weight_bytes_min",)


class Offloaded(Timing):
    """A pass part of which waits for another memory. `device_s` is what the chip takes, `tier_s` what that memory does.

    Attributes
    ----------
    elsewhere : Elsewhere
    device_s, tier_s : Num
        [s].
    tier_bytes : Num
        What crosses in this pass [B].
    """

    def __init__(self, whole: Timing, elsewhere: Elsewhere, *, n_tokens: Num) -> None:
        """The same pass, of so many tokens, with a share of it elsewhere."""
        super().__init__(
            whole.rows, whole.parts, shape=whole.shape, chip=whole.chip, efficiency=whole.efficiency,
            overlap=whole.overlap, coordinates=whole.coordinates,
        )  # fmt: skip
        self.elsewhere = elsewhere
        self.n_tokens = n_tokens
        self._moved = tuple(row for row in whole.rows if elsewhere.moves(row))
        self._stays = tuple(row for row in whole.rows if not elsewhere.moves(row))

    @cached_property
    def tier_bytes(self) -> Num:
        """f · W, or f · the cache read and written  [B]."""
        return self.elsewhere.fraction * self._gather(self._crossing(self.elsewhere.quantities).at)

    def _crossing(self, quantities: tuple[str, ...]) -> Linear:
        return total(summed(self._moved, quantity) for quantity in quantities)

    @cached_property
    def device_s(self) -> Num:
        """The pass on the chip, without what the host computes  [s]."""
        whole = self._gather(self._laws.seconds)
        if self.elsewhere.compute == "chip":
            return whole
        moved_s = self._gather(self._law_of(self._moved).seconds)
        stays_s = self._gather(self._law_of(self._stays).seconds)
        return stays_s + (1.0 - self.elsewhere.fraction) * moved_s

    def _law_of(self, rows: tuple[Row, ...]) -> Any:
        return pass_law(rows, self.chip, self.efficiency, overlap=self.overlap)

    @cached_property
    def tier_s(self) -> Num:
        """f·W / rate; computed there, max(f·W / host memory, f·F / host's peak)  [s]."""
        e = self.elsewhere
        if e.compute == "chip":
            return self.tier_bytes / e.bytes_per_s
        if e.host_bytes_per_s is None:
            raise SpecError("compute: the tier has no rate of host memory; make it with host_bytes_per_s=")
        streaming_s = self.tier_bytes / e.host_bytes_per_s
        if e.host_flops_per_s is None:
            _one_token_at_most(self.n_tokens)
            return streaming_s
        work = e.fraction * self._gather(summed(self._moved, "executed_flops").at)
        return larger(streaming_s, work / e.host_flops_per_s)

    @cached_property
    def seconds(self) -> Num:
        """device_s + tier_s, or the larger of the two where they overlap  [s]."""
        return larger(self.device_s, self.tier_s) if self.elsewhere.overlap else self.device_s + self.tier_s

    @cached_property
    def floor_s(self) -> Num:
        """max(Σ F / π_max, (Σ compulsory bytes − f·W) / β, f·W / rate), W the certain bytes  [s]."""
        e = self.elsewhere
        (stays_f, stays_q, links), (moved_f, moved_q, _) = (floors(r, self.chip) for r in (self._stays, self._moved))
        away = self._crossing(e.least)
        there = 1.0 - e.fraction if e.compute == "host" else 1.0
        work = self._gather(stays_f.at) + there * self._gather(moved_f.at)
        moved = self._gather(away.at) * e.fraction
        traffic = self._gather((stays_q + moved_q).at) - moved / self.chip.hbm_bytes_per_s
        rate = e.bytes_per_s if e.compute == "chip" or e.host_bytes_per_s is None else e.host_bytes_per_s
        found = larger(larger(work, traffic), moved / (rate * e.alone))
        return found if links == Linear() else larger(found, self._gather(links.at))

    def spent(self, on: Spent) -> Num:
        """Seconds of one resource on the chip; what it binds is scaled where the host takes a share of the work."""
        if on == "tier exposed":
            return self.seconds - self.device_s
        if on == "compute bound" and self.elsewhere.compute == "host":
            stays = self._gather(self._law_of(self._stays).compute_bound)
            return stays + (1.0 - self.elsewhere.fraction) * self._gather(self._law_of(self._moved).compute_bound)
        return super().spent(on)

    @property
    def memory_bound_s(self) -> Num:
        """The part of `device_s` spent in ops that their traffic binds [s]."""
        return self.device_s - self.compute_bound_s - self.exposed_link_s - self.overhead_s

    def __repr__(self) -> str:
        return f"Offloaded({self.elsewhere.what}, {super().__repr__()})"


def _one_token_at_most(n_tokens: Num) -> None:
    """One token alone is bound by bytes on any host; more are bound by a peak that somebody must say."""
    if np.any(np.greater(n_tokens, 1.0)):
        raise SpecError("compute: more than one token on the host is bound by its arithmetic; pass host_flops_per_s=")
