"""When requests come: processes at a mean rate, and how bursty recorded arrivals are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from roofline.errors import SpecError, shown

__all__ = ["STEADY", "Arrivals", "Gamma", "Piecewise", "Poisson", "Recorded", "in_order", "positive", "scv", "traffic"]

Floats = NDArray[np.float64]

MINUTE_S = 60.0
LEAST_S, MOST_S = 5e-7, 5e9  # half of what a trace spans


class Arrivals(Protocol):
    """When requests come."""

    def times(self, n: int, rate_per_s: float, rng: np.random.Generator) -> Floats:
        """The first n arrivals at a mean rate, in order  [s]."""


@dataclass(frozen=True, slots=True)
class Poisson:
    """Independent users: gaps are exponential, of CV² 1."""

    def times(self, n: int, rate_per_s: float, rng: np.random.Generator) -> Floats:
        """The first n arrivals  [s]."""
        return np.cumsum(rng.exponential(1.0 / rate_per_s, n))


STEADY = Poisson()


@dataclass(frozen=True, slots=True)
class Gamma:
    """Gamma gaps of squared coefficient of variation `scv`: above 1 burstier than Poisson, below 1 smoother."""

    scv: float

    def __post_init__(self) -> None:
        positive(self.scv, "Gamma(scv)")

    def times(self, n: int, rate_per_s: float, rng: np.random.Generator) -> Floats:
        """The first n arrivals  [s]."""
        return np.cumsum(rng.gamma(1.0 / self.scv, self.scv / rate_per_s, n))


@dataclass(frozen=True, slots=True)
class Piecewise:
    """Poisson arrivals whose rate moves: `shares` of the mean rate, each for `period_s`, over and over."""

    shares: tuple[float, ...]
    period_s: float

    def __post_init__(self) -> None:
        positive(self.period_s, "Piecewise(period_s)")
        if not isinstance(self.shares, (tuple, list)) or not all(
            isinstance(s, (int, float)) and s < 1e9 for s in self.shares
        ):
            raise SpecError(f"Piecewise(shares): expected numbers such as (0.5, 1.5), got {shown(self.shares)}")
        if not self.shares or any(not (math.isfinite(s) and s >= 0.0) for s in self.shares) or sum(self.shares) == 0.0:
            raise SpecError(f"Piecewise(shares): expected shares of at least 0, not all 0, got {shown(self.shares)}")

    def times(self, n: int, rate_per_s: float, rng: np.random.Generator) -> Floats:
        """The first n arrivals: those of a steady process, in the time in which the rate would have been steady  [s]."""
        steady = np.cumsum(rng.exponential(1.0 / rate_per_s, n))
        shares = np.asarray(self.shares) / np.mean(self.shares)
        edges = np.concatenate([[0.0], np.cumsum(shares)]) * self.period_s  # work done at the end of each piece
        cycle, within = np.divmod(steady, edges[-1])
        piece = np.searchsorted(edges, within, side="right") - 1
        into = (within - edges[piece]) / shares[piece]
        return np.asarray(cycle * edges[-1] + piece * self.period_s + into)


@dataclass(frozen=True, slots=True, eq=False)
class Recorded:
    """The arrivals of a trace, in a time scaled to the rate; round again where more are asked than it holds."""

    arrival_s: Floats

    def __post_init__(self) -> None:
        object.__setattr__(self, "arrival_s", in_order(self.arrival_s, "Recorded(arrival_s)"))
        if self.arrival_s.size < 2 or not self.arrival_s[-1] > self.arrival_s[0]:
            raise SpecError("Recorded(arrival_s): expected at least two arrivals, not all at once")
        if not LEAST_S <= self.arrival_s[-1] / 2.0 - self.arrival_s[0] / 2.0 <= MOST_S:
            raise SpecError(
                f"Recorded(arrival_s): expected seconds that span from a microsecond to {2.0 * MOST_S:.0e} s, "
                f"got {self.arrival_s[0]:g} to {self.arrival_s[-1]:g}"
            )

    def times(self, n: int, rate_per_s: float, rng: np.random.Generator) -> Floats:
        """The first n arrivals  [s]."""
        own = self.arrival_s - self.arrival_s[0]
        m = len(own)
        period = own[-1] * m / (m - 1.0)  # one gap more than there are between them, to begin anew after
        rounds = np.arange(-(-n // m))
        return np.asarray((rounds[:, None] * period + own).ravel()[:n] * (m / period / rate_per_s))


def traffic(arrival_s: Floats) -> dict[str, float]:
    """Of arrivals: rate, CV² of the gaps, the fullest minute, variance over mean of counts in whole windows."""
    span = float(arrival_s[-1] - arrival_s[0])
    rate = len(arrival_s) / span
    minutes = _windows(arrival_s, MINUTE_S)
    found = {
        "rate_per_s": rate,
        "gap_scv": scv(np.diff(arrival_s)),
        "peak_minute_over_mean": max(float(minutes.max()) / (rate * MINUTE_S), 1.0),
    }
    for seconds in (1, 10, 60):
        counts = _windows(arrival_s, float(seconds))
        found[f"dispersion_{seconds}s"] = float(counts.var() / counts.mean())
    return found


def _windows(arrival_s: Floats, seconds: float) -> Floats:
    """Arrivals in each whole window of a length; one window where there is not even one."""
    since = arrival_s - arrival_s[0]
    n = max(1, int(since[-1] // seconds))
    return np.bincount((since[since < n * seconds] // seconds).astype(np.int64), minlength=n).astype(np.float64)


def in_order(arrival_s: Sequence[float] | Floats, where: str) -> Floats:
    """The arrivals as an array; refused where they are not finite seconds, each no earlier than the one before  [s]."""
    times = np.array(arrival_s, dtype=np.float64)
    if times.ndim != 1:
        raise SpecError(f"{where}: expected one arrival a request, got an array of {times.ndim} dimensions")
    finite = np.isfinite(times)
    if not finite.all():
        at = int(np.argmin(finite))
        raise SpecError(f"{where}: expected finite seconds, got {times[at]:g} of request {at}")
    late = np.flatnonzero(times[1:] < times[:-1])
    if late.size:
        at = int(late[0]) + 1
        raise SpecError(
            f"{where}: expected seconds in order, got {times[at]:g} of request {at} after {times[at - 1]:g}; sort them"
        )
    return times


def scv(values: NDArray[Any]) -> float:
    """Squared coefficient of variation: variance over the mean squared  [1]."""
    mean = float(values.mean())
    return float(values.var()) / mean**2


def positive(value: float, where: str) -> None:
    """Refuse what is no finite number above 0."""
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float, np.floating, np.integer))
        or not (math.isfinite(value) and value > 0.0)
    ):
        raise SpecError(f"{where}: expected a number above 0, got {shown(value)}")
