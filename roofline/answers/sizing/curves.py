"""What replicas do at every load up to the most that is trusted, and the largest rate within an objective."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from roofline.answers.serving.closed import MOST_LOAD, SIGMAS
from roofline.answers.serving.lengths import Lengths
from roofline.answers.serving.steady import Rules, Steady, saturation, steady
from roofline.answers.serving.waits import Waits, gap_s, held_tokens, tpot_s, waits
from roofline.specs.slo import SLO
from roofline.timing.steplaw import MeanLaw

__all__ = ["FEW_LOADS", "LOADS", "Curves", "Limit", "curves"]

Floats = NDArray[np.float64]

LOADS = np.array([0.02, 0.1, 0.2, 0.32, 0.44, 0.55, 0.66, 0.75, 0.8, MOST_LOAD])
FEW_LOADS = np.array([0.03, 0.25, 0.45, 0.62, 0.75, MOST_LOAD])
ROUGH = 3e-4  # relative; what ranking needs

_ASKED: dict[str, Callable[[Steady, Waits], Floats]] = {
    "ttft_mean_s": lambda s, w: w.mean_s,
    "ttft_p50_s": lambda s, w: w.at(0.50, close=ROUGH),
    "ttft_p95_s": lambda s, w: w.at(0.95, close=ROUGH),
    "ttft_p99_s": lambda s, w: w.at(0.99, close=ROUGH / 10.0),
    "tpot_mean_s": lambda s, w: s.tpot_s,
    "tpot_p50_s": lambda s, w: tpot_s(s, 0.50, close=ROUGH),
    "tpot_p95_s": lambda s, w: tpot_s(s, 0.95, close=ROUGH),
    "tpot_p99_s": lambda s, w: tpot_s(s, 0.99, close=ROUGH / 10.0),
    "itl_p99_s": lambda s, w: gap_s(s, 0.99),
    "e2e_mean_s": lambda s, w: w.mean_s + s.lengths.decode_mean * s.token_s,
}


@dataclass(frozen=True, slots=True)
class Limit:
    """The largest rate of one replica within an objective, and what stands against more.

    Attributes
    ----------
    rate_per_s : float
        0 where not even an almost idle replica keeps it [1/s].
    bound : str
        The time of the objective that would be missed, "cache", "sequences", or "steps" where they are full.
    """

    rate_per_s: float
    bound: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Curves:
    """Times of candidates at shares of what each can serve: arrays of (candidate, load).

    Attributes
    ----------
    rate_per_s : array
        [1/s]
    saturation_per_s : array
        Of each candidate [1/s].
    times : dict
        The times asked for [s].
    n_seq : array
        Sequences that decode [1].
    cache_full, slots_full : array of bool
        Where the cache, or the sequences that run at once, may not suffice: mean and three standard deviations.
    """

    rate_per_s: Floats
    saturation_per_s: Floats
    times: dict[str, Floats]
    n_seq: Floats
    cache_full: NDArray[np.bool_]
    slots_full: NDArray[np.bool_]

    def limit(self, candidate: int, slo: SLO) -> Limit:
        """The largest rate within an objective, on the lines between the loads."""
        rate = self.rate_per_s[candidate]
        best, bound = float(rate[-1]), "steps"
        for name in slo.limits.keys() & self.times.keys():
            reached = _reached(rate, self.times[name][candidate], slo.limits[name])
            if reached < best or (reached == best == 0.0):
                best, bound = reached, name
        for name, full in (("cache", self.cache_full[candidate]), ("sequences", self.slots_full[candidate])):
            first = int(np.argmax(full)) if full.any() else full.size
            reached = float(rate[first - 1]) if 0 < first < full.size else 0.0 if first == 0 else np.inf
            if reached < best:
                best, bound = reached, name
        return Limit(best, bound)

    def at(self, candidate: int, rate_per_s: float) -> dict[str, float]:
        """Times of a candidate at a rate, on the lines between the loads  [s]."""
        rate = self.rate_per_s[candidate]
        return {n: _between(rate_per_s, rate, v[candidate]) for n, v in self.times.items()}

    def seqs_at(self, candidate: int, rate_per_s: float) -> float:
        """Sequences that decode at a rate  [1]."""
        return float(np.interp(rate_per_s, self.rate_per_s[candidate], self.n_seq[candidate]))

    @classmethod
    def joined(cls, parts: list[Curves]) -> Curves:
        """Those of several lots of candidates."""

        def one(name: str) -> NDArray[np.float64]:
            return np.concatenate([getattr(part, name) for part in parts])

        return cls(
            rate_per_s=one("rate_per_s"), saturation_per_s=one("saturation_per_s"), n_seq=one("n_seq"),
            times={n: np.concatenate([part.times[n] for part in parts]) for n in parts[0].times},
            cache_full=one("cache_full").astype(bool), slots_full=one("slots_full").astype(bool),
        )  # fmt: skip


def curves(
    law: Callable[[NDArray[np.intp]], MeanLaw], w: Lengths, rules: Rules, asked: tuple[str, ...], *,
    request_s: Floats | float = 0.0, arrivals_scv: float = 1.0, at_loads: Floats = LOADS,
) -> Curves:  # fmt: skip
    """The curves of candidates, by the closed form.

    Parameters
    ----------
    law : callable
        The step law of points, given which candidate each is of.
    rules : Rules
        Arrays, one of each candidate.
    asked : tuple of str
        Names of times, such as "ttft_p95_s".
    request_s : array
        What a request takes once, beside its steps, of each candidate [s].
    arrivals_scv : float
        c_a² of the gaps between arrivals [1].
    at_loads : array
        Shares of its saturation that each is looked at [1].
    """
    n, loads = rules.batch_tokens.size, at_loads.size
    candidate = np.arange(n)
    most = saturation(law(candidate), w, rules, tolerance=ROUGH)
    rate = most[:, None] * at_loads
    points = np.repeat(candidate, loads)
    s = steady(law(points), w, rules.at(points), rate.ravel(), tolerance=ROUGH)
    wait = waits(s, arrivals_scv)
    once = np.broadcast_to(np.asarray(request_s, dtype=np.float64), (n,))[:, None]
    times = {}
    for name in dict.fromkeys((*asked, "tpot_mean_s")):
        found = np.broadcast_to(_ASKED[name](s, wait), points.shape).reshape(n, loads)
        if w.answering == 0.0 and name.startswith(("tpot", "itl")):
            found = np.zeros((n, loads))
        times[name] = found + once if name.startswith(("ttft", "e2e")) else found
    spread = SIGMAS * s.spread
    held = held_tokens(s, wait) + spread * np.sqrt(w.held_square)
    return Curves(
        rate_per_s=rate, saturation_per_s=most, times=times, n_seq=s.n_seq.reshape(n, loads),
        cache_full=(held > s.rules.kv_tokens).reshape(n, loads),
        slots_full=(s.n_seq + spread > s.rules.max_seqs).reshape(n, loads),
    )  # fmt: skip


def _between(at: float, rate: Floats, seconds: Floats) -> float:
    """On the line between two rates, of times on a scale of their logarithms; 0 of what takes no time."""
    return float(np.exp(np.interp(at, rate, np.log(seconds)))) if seconds.all() else 0.0


def _reached(rate: Floats, seconds: Floats, limit: float) -> float:
    """The rate at which a time that grows with it reaches a limit; 0 where it is beyond it from the start."""
    over = seconds > limit
    if not over.any():
        return float(np.inf)
    first = int(np.argmax(over))
    if first == 0:
        return 0.0
    low, high = np.log(seconds[first - 1]), np.log(seconds[first])
    share = (np.log(limit) - low) / max(high - low, 1e-12)
    return float(rate[first - 1] + share * (rate[first] - rate[first - 1]))
