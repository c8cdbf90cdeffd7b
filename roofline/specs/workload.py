"""What is asked of a service: how long prompts and answers are, and when they come.

Lengths are a sample of (prompt, output) pairs, drawn whole, so that what goes together in a trace stays together. Arrivals
are a process, scaled to the rate that is asked: Poisson, gamma with more or less than its variance, piecewise rates, or the
trace itself in a faster or slower time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from roofline.errors import SpecError, shown

__all__ = [
    "Arrivals",
    "Gamma",
    "Piecewise",
    "Poisson",
    "Recorded",
    "Requests",
    "Workload",
    "WorkloadSummary",
    "first_not_whole",
]

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

LONGEST = 100_000_000  # tokens of a prompt or an answer
_QUANTILES = (np.arange(4096) + 0.5) / 4096
MINUTE_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Requests:
    """Requests in the order they come: arrival [s], tokens of the prompt and of the answer [token]."""

    arrival_s: Floats
    prompt_tokens: Counts
    output_tokens: Counts

    def __len__(self) -> int:
        return len(self.arrival_s)


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


@dataclass(frozen=True, slots=True)
class Gamma:
    """Gamma gaps of squared coefficient of variation `scv`: above 1 burstier than Poisson, below 1 smoother."""

    scv: float

    def __post_init__(self) -> None:
        _positive(self.scv, "Gamma(scv)")

    def times(self, n: int, rate_per_s: float, rng: np.random.Generator) -> Floats:
        """The first n arrivals  [s]."""
        return np.cumsum(rng.gamma(1.0 / self.scv, self.scv / rate_per_s, n))


@dataclass(frozen=True, slots=True)
class Piecewise:
    """Poisson arrivals whose rate moves: `shares` of the mean rate, each for `period_s`, over and over."""

    shares: tuple[float, ...]
    period_s: float

    def __post_init__(self) -> None:
        _positive(self.period_s, "Piecewise(period_s)")
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
        if len(self.arrival_s) < 2 or not self.arrival_s[-1] > self.arrival_s[0]:
            raise SpecError("Recorded(arrival_s): expected at least two arrivals, not all at once")

    def times(self, n: int, rate_per_s: float, rng: np.random.Generator) -> Floats:
        """The first n arrivals  [s]."""
        own = self.arrival_s - self.arrival_s[0]
        m = len(own)
        period = own[-1] * m / (m - 1.0)  # one gap more than there are between them, to begin anew after
        rounds = np.arange(-(-n // m))
        return np.asarray((rounds[:, None] * period + own).ravel()[:n] * (m / period / rate_per_s))


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadSummary:
    """What a workload is like.

    Attributes
    ----------
    n : int
        Requests in the sample [1].
    prompt_mean, prompt_p50, prompt_p90, prompt_p99, prompt_scv : float
        Tokens of the prompts, and their squared coefficient of variation [token, 1]; the same of outputs.
    correlation : float
        Pearson's, of prompt and output [1].
    rate_per_s, gap_scv, peak_minute_over_mean : float or None
        Of recorded arrivals: their mean rate [1/s]; CV² of the gaps; the fullest minute over the mean one [1].
    dispersion_1s, dispersion_10s, dispersion_60s : float or None
        Variance over mean of the arrivals in windows of that length; 1 for Poisson [1].
    """

    n: int
    prompt_mean: float
    prompt_p50: float
    prompt_p90: float
    prompt_p99: float
    prompt_scv: float
    output_mean: float
    output_p50: float
    output_p90: float
    output_p99: float
    output_scv: float
    correlation: float
    rate_per_s: float | None = None
    gap_scv: float | None = None
    peak_minute_over_mean: float | None = None
    dispersion_1s: float | None = None
    dispersion_10s: float | None = None
    dispersion_60s: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """A sample of (prompt, output) lengths, and how requests arrive.

    Examples
    --------
    >>> w = Workload.fixed(prompt_tokens=1024, output_tokens=128)
    >>> w.mean_prompt_tokens, w.draw(3, rate_per_s=2.0, seed=0).output_tokens.tolist()
    (1024.0, [128, 128, 128])
    """

    prompt_tokens: Counts
    output_tokens: Counts
    arrivals: Arrivals = Poisson()
    name: str = ""

    def __post_init__(self) -> None:
        """Hold the sample as whole numbers, of its own."""
        for name in ("prompt_tokens", "output_tokens"):
            object.__setattr__(self, name, _tokens(getattr(self, name), f"Workload({name})"))
        if self.prompt_tokens.shape != self.output_tokens.shape:
            raise SpecError(
                f"Workload: expected as many outputs as prompts, got {self.output_tokens.size} and {self.prompt_tokens.size}"
            )

    def __len__(self) -> int:
        return int(self.prompt_tokens.size)

    @classmethod
    def fixed(cls, *, prompt_tokens: int, output_tokens: int, arrivals: Arrivals = Poisson()) -> Workload:
        """All alike."""
        return cls(np.array([prompt_tokens]), np.array([output_tokens]), arrivals)

    @classmethod
    def uniform(
        cls,
        *,
        prompt_tokens: tuple[int, int],
        output_tokens: tuple[int, int],
        arrivals: Arrivals = Poisson(),
        seed: int = 0,
    ) -> Workload:
        """Any whole number between two, both among them, as likely as any other; prompt and output independent."""
        parts = []
        for name, (low, high) in (("prompt_tokens", prompt_tokens), ("output_tokens", output_tokens)):
            if not 1 <= low <= high:
                raise SpecError(f"Workload.uniform({name}): expected 1 <= low <= high, got {low} and {high}")
            parts.append(low + np.floor(_QUANTILES * (high - low + 1)))
        return cls(parts[0], np.random.default_rng(seed).permutation(parts[1]), arrivals)

    @classmethod
    def lognormal(cls, *, prompt_mean: float, output_mean: float, prompt_cv: float = 1.0, output_cv: float = 1.0,
                  longest: int = 131072, arrivals: Arrivals = Poisson(), seed: int = 0) -> Workload:  # fmt: skip
        """Lognormal lengths of a mean and a coefficient of variation, cut to 1 … longest; prompt and output independent.

        ln X ~ N(μ, σ²),   σ² = ln(1 + cv²),   μ = ln(mean) − σ²/2
        """
        from statistics import NormalDist

        z = np.array([NormalDist().inv_cdf(float(q)) for q in _QUANTILES])
        parts = []
        for name, mean, cv in (("prompt", prompt_mean, prompt_cv), ("output", output_mean, output_cv)):
            _positive(mean, f"Workload.lognormal({name}_mean)")
            _positive(cv, f"Workload.lognormal({name}_cv)")
            variance = math.log1p(cv * cv)
            parts.append(
                np.clip(np.rint(np.exp(math.log(mean) - variance / 2.0 + math.sqrt(variance) * z)), 1, longest)
            )
        return cls(parts[0], np.random.default_rng(seed).permutation(parts[1]), arrivals)

    @classmethod
    def of_trace(cls, requests: Requests, *, name: str = "") -> Workload:
        """The lengths of a trace, arriving as they did."""
        return cls(requests.prompt_tokens, requests.output_tokens, Recorded(requests.arrival_s), name)

    @property
    def mean_prompt_tokens(self) -> float:
        """[token]"""
        return float(self.prompt_tokens.mean())

    @property
    def mean_output_tokens(self) -> float:
        """[token]"""
        return float(self.output_tokens.mean())

    def draw(self, n: int, *, rate_per_s: float, seed: int = 0) -> Requests:
        """The first n requests at a mean rate: lengths in order with recorded arrivals, else drawn with replacement."""
        _positive(rate_per_s, "Workload.draw(rate_per_s)")
        if not isinstance(n, int) or isinstance(n, bool) or n < 1:
            raise SpecError(f"Workload.draw(n): expected a whole number of at least 1, got {shown(n)}")
        rng = np.random.default_rng(seed)
        times = self.arrivals.times(n, rate_per_s, rng)
        which = np.arange(n) % len(self) if isinstance(self.arrivals, Recorded) else rng.integers(0, len(self), n)
        return Requests(
            arrival_s=times, prompt_tokens=self.prompt_tokens[which], output_tokens=self.output_tokens[which]
        )

    def summary(self) -> WorkloadSummary:
        """Means, percentiles and how they vary; of recorded arrivals their rate and burstiness too."""
        of: dict[str, Any] = {"n": len(self)}
        for name, tokens in (("prompt", self.prompt_tokens), ("output", self.output_tokens)):
            of |= {f"{name}_mean": float(tokens.mean()), f"{name}_scv": _scv(tokens)}
            of |= {f"{name}_p{q}": float(np.percentile(tokens, q)) for q in (50, 90, 99)}
        of["correlation"] = _correlation(self.prompt_tokens, self.output_tokens)
        if isinstance(self.arrivals, Recorded):
            of |= _traffic(self.arrivals.arrival_s)
        return WorkloadSummary(**of)


def _traffic(arrival_s: Floats) -> dict[str, float]:
    """Of arrivals: rate, CV² of the gaps, the fullest minute, variance over mean of counts in whole windows."""
    span = float(arrival_s[-1] - arrival_s[0])
    rate = len(arrival_s) / span
    minutes = _windows(arrival_s, MINUTE_S)
    found = {
        "rate_per_s": rate,
        "gap_scv": _scv(np.diff(arrival_s)),
        "peak_minute_over_mean": float(minutes.max() / minutes.mean()),
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


def _scv(values: NDArray[Any]) -> float:
    mean = float(values.mean())
    return float(values.var()) / mean**2


def _correlation(a: Counts, b: Counts) -> float:
    """Pearson's; 0 where one of them never changes."""
    spread = float(a.std() * b.std())
    return float(((a - a.mean()) * (b - b.mean())).mean()) / spread if spread else 0.0


def _tokens(given: Sequence[float] | NDArray[Any], where: str) -> Counts:
    tokens = np.array(given, dtype=np.float64)
    if tokens.ndim != 1 or tokens.size == 0:
        raise SpecError(f"{where}: expected at least one request")
    bad = first_not_whole(tokens, LONGEST)
    if bad is not None:
        raise SpecError(f"{where}: expected whole numbers from 1 to {LONGEST:,}, got {tokens[bad]:g} of request {bad}")
    return tokens.astype(np.int64)


def first_not_whole(tokens: Floats, most: float = math.inf) -> int | None:
    """The place of the first that is no whole number from 1 to `most`; infinity is none."""
    bad = np.flatnonzero(~((tokens >= 1.0) & (tokens <= most) & (tokens < math.inf) & (tokens == np.floor(tokens))))
    return int(bad[0]) if bad.size else None


def _positive(value: float, where: str) -> None:
    if not isinstance(value, (int, float, np.floating, np.integer)) or not (math.isfinite(value) and value > 0.0):
        raise SpecError(f"{where}: expected a number above 0, got {shown(value)}")
