"""How routing spreads the tokens of a pass over experts, and experts over chips: expectations, under uniform routing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from roofline.num import Num, same
from roofline.work.step import Step
from roofline.work.sums import Key, Stream, Sum

__all__ = ["Busiest", "Touched", "expected_maximum", "ranks_reached"]

ALL_TOUCHED = -1e12  # a log small enough that no token passes any expert by


@dataclass(frozen=True, slots=True)
class Touched(Key):
    """Experts of one layer that a pass reads, of E, when each of its T tokens is sent to k.  [1]

        expected   E · (1 − (1 − k/E)^(T^γ))      independent, uniform routing: γ = 1; correlated: γ < 1
        at most    min(E, k·T)
        rows       k·T / expected: tokens a touched expert multiplies

    Parameters
    ----------
    n_experts, n_active_experts : int
        E and k [1].
    exponent : float
        γ [1]. Uniform routing is the worst case for traffic; real routing is correlated, and touches fewer.

    Notes
    -----
    Assumes every token's k experts are distinct, and tokens choose independently. It is not a sum over the parts of a step:
    what counts is the tokens of the whole pass.

    References
    ----------
    The coupon collector's expectation; for γ, measurements of served mixtures (part 4 of this library).

    Examples
    --------
    Mixtral (2 of 8), three tokens: 8 · (1 − (3/4)³).

    >>> from roofline.work.step import Seqs
    >>> Touched(8, 2).over((Seqs(n_seq=3, n_new=1),))
    4.625
    """

    n_experts: int
    n_active_experts: int
    exponent: float = 1.0
    what: Literal["expected", "most", "rows"] = "expected"
    stream: Stream = "text"
    ways: int = 1

    def over(self, step: Step) -> Num:
        """Its value for the tokens of the whole pass."""
        e, k = float(self.n_experts), float(self.n_active_experts)
        tokens = Sum("tokens", stream=self.stream, ways=self.ways).over(step)
        if self.what == "most":
            return same(np.minimum(e, k * tokens), tokens)
        missed = ALL_TOUCHED if k == e else math.log1p(-k / e)  # log of the chance that a token passes an expert by
        expected = same(-e * np.expm1(missed * tokens**self.exponent), tokens)
        return expected if self.what == "expected" else same(k * tokens / np.maximum(expected, 1e-300), tokens)


@dataclass(frozen=True, slots=True)
class Busiest(Key):
    """What the busiest of R ranks gets, each of which holds H of the E experts, when T tokens are sent to k each.  [1]

        load       token–expert pairs      min(μ + z·σ, T·min(k, H)),  μ = T·k·H/E,  σ² = T·k·(H/E)·(1 − H/E)·(E − k)/(E − 1)
        touched    experts it reads        min(H·p + z·√(H·p·(1 − p)·(E − H)/(E − 1)), H, load),  p = expected share touched
        most       experts it may read     min(H, k·T)
        rows       load / touched

    z is how far the largest of R such numbers is expected to stand out, in standard deviations: `expected_maximum`.

    Parameters
    ----------
    touched : Touched
        The routing: E, k, its exponent, whose tokens.
    n_held, n_ranks : int
        H and R [1].

    Notes
    -----
    Assumes every token picks k distinct experts uniformly (σ is the hypergeometric one, so k = E leaves no imbalance), that
    the numbers are near normal, and that no expert is copied to level the load. Within 10 % of a simulation from T = 1 up.

    Examples
    --------
    DeepSeek-V3 on 32 ranks, 128 tokens: 32 pairs a rank in the mean, 44 on the busiest.

    >>> from roofline.work.step import Seqs
    >>> routing = Touched(256, 8)
    >>> step = (Seqs(n_seq=128, n_new=1),)
    >>> round(Busiest(routing, n_held=8, n_ranks=32, what="load").over(step))
    44
    """

    touched: Touched
    n_held: int
    n_ranks: int
    what: Literal["load", "touched", "most", "rows"] = "touched"

    @property
    def stream(self) -> Stream:
        """That of the routing."""
        return self.touched.stream

    def over(self, step: Step) -> Num:
        """Its value for the tokens of the whole pass."""
        tokens = Sum("tokens", stream=self.stream, ways=self.touched.ways).over(step)
        load = self._load(tokens)
        match self.what:
            case "load":
                return load
            case "most":
                return same(np.minimum(float(self.n_held), self.touched.n_active_experts * tokens), tokens)
            case "touched":
                return self._touched(step, load)
            case "rows":
                return same(load / np.maximum(self._touched(step, load), 1e-300), tokens)

    def _load(self, tokens: Num) -> Num:
        e, k, h = float(self.touched.n_experts), float(self.touched.n_active_experts), float(self.n_held)
        share, z = h / e, expected_maximum(self.n_ranks)
        spread = math.sqrt(max(k * share * (1.0 - share) * (e - k) / max(e - 1.0, 1.0), 0.0))
        return same(np.minimum(tokens * (k * share) + z * spread * np.sqrt(tokens), tokens * min(k, h)), tokens)

    def _touched(self, step: Step, load: Num) -> Num:
        e, h = float(self.touched.n_experts), float(self.n_held)
        p = self.touched.over(step) / e
        spread = np.sqrt(np.maximum(h * p * (1.0 - p) * (e - h) / max(e - 1.0, 1.0), 0.0))
        return same(np.minimum(np.minimum(h * p + expected_maximum(self.n_ranks) * spread, h), load), load)


@lru_cache(maxsize=256)
def expected_maximum(n: int) -> float:
    """How far the largest of n numbers of one fixed sum is expected above their mean, in standard deviations of one.  [1]

        z = √(n / (n − 1)) · ∫ x · d[Φ(x)^n]

    The root is what a fixed sum adds: n equally correlated normals, ρ = −1/(n − 1), spread by √(1 − ρ) more than n
    independent ones.

    >>> expected_maximum(1), round(expected_maximum(2), 4)     # two of one sum: E|x| = √(2/π)
    (0.0, 0.7979)
    """
    if n == 1:
        return 0.0
    x = np.linspace(-9.0, 9.0, 3601)
    below = np.array([0.5 * math.erfc(-v / math.sqrt(2.0)) for v in x.tolist()])
    largest = below**n
    middle = (x[1:] + x[:-1]) * 0.5
    return math.sqrt(n / (n - 1)) * float(np.sum(middle * np.diff(largest)))


def ranks_reached(n_experts: int, n_active_experts: int, *, n_held: int, n_ranks: int) -> float:
    """Ranks that one token's k experts stand on, expected: a token is sent to a rank once, however many of its experts are
    there.  [1]

        R · (1 − C(E − H, k) / C(E, k))

    >>> round(ranks_reached(256, 8, n_held=32, n_ranks=8), 2)
    5.29
    """
    missed = 1.0
    for i in range(n_active_experts):
        missed *= max(n_experts - n_held - i, 0) / (n_experts - i)
    return n_ranks * (1.0 - missed)
