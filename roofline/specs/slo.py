"""What a service promises: limits on TTFT, TPOT and the whole request, at percentiles or in the mean."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from roofline.errors import SpecError, shown

__all__ = ["SLO"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SLO:
    """A service-level objective: the largest values allowed, of those that are given  [s].

    >>> slo = SLO(ttft_p95_s=1.0, tpot_p95_s=0.05)
    >>> slo.limits
    {'ttft_p95_s': 1.0, 'tpot_p95_s': 0.05}
    >>> slo.missed({"ttft_p95_s": 0.7, "tpot_p95_s": 0.06})
    {'tpot_p95_s': 0.06}
    """

    ttft_mean_s: float | None = None
    ttft_p50_s: float | None = None
    ttft_p95_s: float | None = None
    ttft_p99_s: float | None = None
    tpot_mean_s: float | None = None
    tpot_p50_s: float | None = None
    tpot_p95_s: float | None = None
    tpot_p99_s: float | None = None
    itl_p99_s: float | None = None
    e2e_mean_s: float | None = None

    def __post_init__(self) -> None:
        """Refuse what no service could keep or miss."""
        for name, value in self.limits.items():
            good = (
                isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value > 0.0
            )
            if not good:
                raise SpecError(f"SLO({name}): expected seconds above 0, such as 0.5, got {shown(value)}")
        if not self.limits:
            raise SpecError("SLO: expected at least one limit, such as ttft_p95_s=1.0 or tpot_p95_s=0.05")

    @property
    def limits(self) -> dict[str, float]:
        """Those given, under their names  [s]."""
        return {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) is not None}

    def missed(self, times: dict[str, float]) -> dict[str, float]:
        """Of some times those over their limits  [s]."""
        return {name: times[name] for name, limit in self.limits.items() if not times[name] <= limit}
