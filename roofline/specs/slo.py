"""What a service promises: limits on TTFT, TPOT and the whole request, at percentiles or in the mean."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from roofline.errors import SpecError, did_you_mean, shorten, shown
from roofline.units import SECONDS
from roofline.units import parse as parse_unit

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

    @classmethod
    def parse(cls, text: str, *, where: str = "SLO") -> SLO:
        """The limits as people type them, with their units.

        >>> SLO.parse("ttft_p95=1s, tpot_p95=50ms").limits
        {'ttft_p95_s': 1.0, 'tpot_p95_s': 0.05}
        """
        known = {f.name.removesuffix("_s"): f.name for f in fields(cls)}
        found: dict[str, float] = {}
        for part in text.split(","):
            name, equals, value = (piece.strip() for piece in part.partition("="))
            if not equals or name.removesuffix("_s") not in known:
                hint = did_you_mean(name, known) if equals else ""
                raise SpecError(
                    f"{where}: expected limits such as ttft_p95=1s,tpot_p95=50ms, got {shorten(part)!r}{hint}"
                    f"  (known: {', '.join(known)})"
                )
            full = known[name.removesuffix("_s")]
            if full in found:
                raise SpecError(f"{where}: expected each limit once, got {name} twice")
            try:
                found[full] = parse_unit(value, SECONDS)
            except SpecError as error:
                raise SpecError(f"{where}: {name}: {error}") from None
        return cls(**found)

    @property
    def limits(self) -> dict[str, float]:
        """Those given, under their names  [s]."""
        return {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) is not None}

    def missed(self, times: dict[str, float]) -> dict[str, float]:
        """Of some times those over their limits  [s]."""
        return {name: times[name] for name, limit in self.limits.items() if not times[name] <= limit}
