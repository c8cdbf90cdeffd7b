"""What is asked of a service: how long prompts and answers are, and when they come.

Lengths are a sample of (prompt, output) pairs, drawn whole, so that what goes together in a trace stays together. Arrivals
are a process, scaled to the rate that is asked: Poisson, gamma with more or less than its variance, piecewise rates, or the
trace itself in a faster or slower time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roofline.errors import SpecError, shown
from roofline.specs.arrivals import (
    STEADY,
    Arrivals,
    Gamma,
    Piecewise,
    Poisson,
    Recorded,
    in_order,
    positive,
    scv,
    traffic,
)
from roofline.specs.beginnings import Blocks, reuse

__all__ = [
    "BLOCK_TOKENS",
    "LONGEST",
    "Arrivals",
    "Blocks",
    "Gamma",
    "Piecewise",
    "Poisson",
    "Recorded",
    "Requests",
    "Workload",
    "WorkloadSummary",
    "at_least_one",
    "first_not_whole",
    "lengths",
    "reuse",
]

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

BLOCK_TOKENS = 512  # of a block, in the traces that name theirs
LONGEST = 100_000_000  # tokens of a prompt or an answer
_QUANTILES = (np.arange(4096) + 0.5) / 4096


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Requests:
    """Requests in the order they come.

    Attributes
    ----------
    arrival_s : array
        When each comes, in order; of one that follows another, the earliest it may [s].
    prompt_tokens, output_tokens : array of int
        Tokens of the prompt, all that was said before among them, and of the answer [token].
    block_ids : tuple of tuples of int, or None
        Of each prompt, the ids of the blocks it begins with: prompts begin with the same tokens as far as their ids are the
        same. The last may be of a block that the prompt fills in part, where a trace has it so. None: not known.
    block_tokens : int
        Tokens of a block [token].
    follows : array of int, or None
        The place of the request whose answer each waits for, −1 where it waits for none [1]. Its prompt begins with that
        one's prompt and answer; the ids of the answer's blocks are those its own prompt has there.
    think_s : array, or None
        From the last token of that answer until it comes; 0 where it waits for none [s].
    """

    arrival_s: Floats
    prompt_tokens: Counts
    output_tokens: Counts
    block_ids: Blocks | None = None
    block_tokens: int = BLOCK_TOKENS
    follows: Counts | None = None
    think_s: Floats | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "arrival_s", in_order(self.arrival_s, "Requests(arrival_s)"))
        n = len(self.arrival_s)
        for name in ("prompt_tokens", "output_tokens", "block_ids", "follows", "think_s"):
            given = getattr(self, name)
            if given is not None and len(given) != n:
                raise SpecError(f"Requests({name}): expected one for each of {n} arrivals, got {len(given)}")
        _blocks_fit(self.block_ids, self.block_tokens, self.prompt_tokens, "Requests")
        if (self.follows is None) != (self.think_s is None):
            raise SpecError("Requests: expected follows and think_s together, got one of them")
        if self.follows is not None and self.think_s is not None:
            follows, think = np.array(self.follows, dtype=np.int64), np.array(self.think_s, dtype=np.float64)
            for name, kept, ok, said in (
                ("follows", follows, (follows >= -1) & (follows < np.arange(n)), "an earlier request, or -1 for none"),
                ("think_s", think, np.isfinite(think) & (think >= 0.0), "finite seconds of at least 0"),
            ):
                if not ok.all():
                    at = int(np.argmin(ok))
                    raise SpecError(f"Requests({name}): expected {said}, got {kept[at]:g} of request {at}")
                object.__setattr__(self, name, kept)

    def __len__(self) -> int:
        return len(self.arrival_s)


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
    reuse : float or None
        Share of the prompts' blocks that a cache without end would hold when they come; None where blocks are not known [1].
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
    reuse: float | None = None


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
    arrivals: Arrivals = STEADY
    name: str = ""
    block_ids: Blocks | None = None
    block_tokens: int = BLOCK_TOKENS

    def __post_init__(self) -> None:
        """Hold the sample as whole numbers, of its own."""
        for name in ("prompt_tokens", "output_tokens"):
            object.__setattr__(self, name, _tokens(getattr(self, name), f"Workload({name})"))
        if self.prompt_tokens.shape != self.output_tokens.shape:
            raise SpecError(
                f"Workload: expected as many outputs as prompts, got {self.output_tokens.size} and {self.prompt_tokens.size}"
            )
        if self.block_ids is not None and not isinstance(self.block_ids, (tuple, list)):
            raise SpecError(f"Workload(block_ids): expected the blocks of each prompt, got {shown(self.block_ids)}")
        if self.block_ids is not None and len(self.block_ids) != len(self):
            raise SpecError(
                f"Workload(block_ids): expected one for each of {len(self)} prompts, got {len(self.block_ids)}"
            )
        _blocks_fit(self.block_ids, self.block_tokens, self.prompt_tokens, "Workload")
        if not callable(getattr(self.arrivals, "times", None)):
            raise SpecError(
                f"Workload(arrivals): expected how requests come, such as Poisson(), got {shown(self.arrivals)}"
            )

    def __len__(self) -> int:
        return int(self.prompt_tokens.size)

    @classmethod
    def fixed(cls, *, prompt_tokens: int, output_tokens: int, arrivals: Arrivals = STEADY) -> Workload:
        """All alike."""
        return cls(np.array([prompt_tokens]), np.array([output_tokens]), arrivals)

    @classmethod
    def uniform(
        cls,
        *,
        prompt_tokens: tuple[int, int],
        output_tokens: tuple[int, int],
        arrivals: Arrivals = STEADY,
        seed: int = 0,
    ) -> Workload:
        """Any whole number between two, both among them, as likely as any other; prompt and output independent."""
        parts = []
        for name, pair in (("prompt_tokens", prompt_tokens), ("output_tokens", output_tokens)):
            whole = (
                isinstance(pair, (tuple, list))
                and len(pair) == 2
                and all(isinstance(n, (int, np.integer)) for n in pair)
            )
            if not whole:
                raise SpecError(
                    f"Workload.uniform({name}): expected two whole numbers such as (100, 2000), got {shown(pair)}"
                )
            low, high = pair
            if not 1 <= low <= high:
                raise SpecError(f"Workload.uniform({name}): expected 1 <= low <= high, got {low} and {high}")
            parts.append(low + np.floor(_QUANTILES * (high - low + 1)))
        return cls(parts[0], np.random.default_rng(seed).permutation(parts[1]), arrivals)

    @classmethod
    def lognormal(cls, *, prompt_mean: float, output_mean: float, prompt_cv: float = 1.0, output_cv: float = 1.0,
                  longest: int = 131072, arrivals: Arrivals = STEADY, seed: int = 0) -> Workload:  # fmt: skip
        """Lognormal lengths of a mean and a coefficient of variation, cut to 1 … longest; prompt and output independent.

        ln X ~ N(μ, σ²),   σ² = ln(1 + cv²),   μ = ln(mean) − σ²/2
        """
        from statistics import NormalDist

        z = np.array([NormalDist().inv_cdf(float(q)) for q in _QUANTILES])
        parts = []
        for name, mean, cv in (("prompt", prompt_mean, prompt_cv), ("output", output_mean, output_cv)):
            positive(mean, f"Workload.lognormal({name}_mean)")
            positive(cv, f"Workload.lognormal({name}_cv)")
            if mean > LONGEST or cv > 1000.0:
                raise SpecError(
                    f"Workload.lognormal({name}): expected a mean of at most {LONGEST:,} tokens and a cv of at most 1000"
                )
            variance = math.log1p(cv * cv)
            parts.append(
                np.clip(np.rint(np.exp(math.log(mean) - variance / 2.0 + math.sqrt(variance) * z)), 1, longest)
            )
        return cls(parts[0], np.random.default_rng(seed).permutation(parts[1]), arrivals)

    @classmethod
    def of_trace(cls, requests: Requests, *, name: str = "") -> Workload:
        """The lengths and the blocks of a trace, arriving as they did; they wait for no answer."""
        if not isinstance(requests, Requests):
            raise SpecError(f"Workload.of_trace(requests): expected Requests, got {shown(requests)}")
        if requests.follows is not None:
            raise SpecError("Workload.of_trace: expected requests that follow none; draw from Sessions instead")
        return cls(requests.prompt_tokens, requests.output_tokens, Recorded(requests.arrival_s), name,
                   requests.block_ids, requests.block_tokens)  # fmt: skip

    def arriving(self, arrivals: Arrivals) -> Workload:
        """The same lengths, arriving another way; the blocks of a trace stay with its own order.

        >>> Workload.fixed(prompt_tokens=10, output_tokens=2).arriving(Gamma(4.0)).arrivals
        Gamma(scv=4.0)
        """
        return replace(self, arrivals=arrivals)

    @property
    def mean_prompt_tokens(self) -> float:
        """[token]"""
        return float(self.prompt_tokens.mean())

    @property
    def mean_output_tokens(self) -> float:
        """[token]"""
        return float(self.output_tokens.mean())

    def draw(self, n: int, *, rate_per_s: float, seed: int = 0) -> Requests:
        """The first n requests at a mean rate: lengths in order with recorded arrivals, else drawn with replacement.

        The blocks of prompts go along with recorded arrivals, and come again where the trace begins anew; drawn prompts have
        none, since a prompt that is drawn twice was not said twice.
        """
        positive(rate_per_s, "Workload.draw(rate_per_s)")
        at_least_one(n, "Workload.draw(n)")
        rng = np.random.default_rng(seed)
        times = self.arrivals.times(n, rate_per_s, rng)
        recorded = isinstance(self.arrivals, Recorded)
        which = np.arange(n) % len(self) if recorded else rng.integers(0, len(self), n)
        ids = self.block_ids if recorded else None
        return Requests(
            arrival_s=times, prompt_tokens=self.prompt_tokens[which], output_tokens=self.output_tokens[which],
            block_ids=None if ids is None else tuple([ids[i] for i in which.tolist()]), block_tokens=self.block_tokens,
        )  # fmt: skip

    def summary(self) -> WorkloadSummary:
        """Means, percentiles and how they vary; of recorded arrivals their rate, burstiness and reuse of blocks too."""
        of = lengths(self.prompt_tokens, self.output_tokens)
        if isinstance(self.arrivals, Recorded):
            of |= traffic(self.arrivals.arrival_s)
            of["reuse"] = reuse(self.block_ids)
        return WorkloadSummary(**of)


def lengths(prompt_tokens: Counts, output_tokens: Counts) -> dict[str, Any]:
    """Of requests: how many, means, percentiles, how they vary and how prompt and output go together."""
    of: dict[str, Any] = {"n": int(prompt_tokens.size)}
    for name, tokens in (("prompt", prompt_tokens), ("output", output_tokens)):
        of |= {f"{name}_mean": float(tokens.mean()), f"{name}_scv": scv(tokens)}
        of |= {f"{name}_p{q}": float(np.percentile(tokens, q)) for q in (50, 90, 99)}
    of["correlation"] = _correlation(prompt_tokens, output_tokens)
    return of


def _correlation(a: Counts, b: Counts) -> float:
    """Pearson's; 0 where one of them never changes."""
    spread = float(a.std() * b.std())
    return float(((a - a.mean()) * (b - b.mean())).mean()) / spread if spread else 0.0


def _tokens(given: Sequence[float] | NDArray[Any], where: str) -> Counts:
    try:
        tokens = np.array(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise SpecError(f"{where}: expected whole numbers of tokens, got {shown(given)}") from None
    if tokens.ndim != 1 or tokens.size == 0:
        raise SpecError(f"{where}: expected at least one request")
    bad = first_not_whole(tokens, LONGEST)
    if bad is not None:
        raise SpecError(f"{where}: expected whole numbers from 1 to {LONGEST:,}, got {tokens[bad]:g} of request {bad}")
    return tokens.astype(np.int64)


def _blocks_fit(block_ids: Blocks | None, block_tokens: int, prompts: Counts, where: str) -> None:
    """No prompt has more blocks than its tokens begin."""
    at_least_one(block_tokens, f"{where}(block_tokens)")
    if block_ids is None:
        return
    counts = np.fromiter(map(len, block_ids), np.int64, len(block_ids))
    over = np.flatnonzero(counts > -(-np.asarray(prompts) // block_tokens))
    if over.size:
        at = int(over[0])
        raise SpecError(
            f"{where}(block_ids): expected no more ids than blocks of {block_tokens} tokens, got {counts[at]} for the "
            f"{prompts[at]} tokens of request {at}"
        )


def at_least_one(n: object, where: str) -> None:
    """Refuse what is no whole number of at least 1."""
    if not isinstance(n, int) or isinstance(n, bool) or n < 1:
        raise SpecError(f"{where}: expected a whole number of at least 1, got {shown(n)}")


def first_not_whole(tokens: Floats, most: float = math.inf) -> int | None:
    """The place of the first that is no whole number from 1 to `most`; infinity is none."""
    bad = np.flatnonzero(~((tokens >= 1.0) & (tokens <= most) & (tokens < math.inf) & (tokens == np.floor(tokens))))
    return int(bad[0]) if bad.size else None
