"""The closed form of load: means, spreads, saturation, and where it must not be trusted; microseconds a rate."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from roofline.answers.serving.lengths import Lengths
from roofline.answers.serving.reading import first_of
from roofline.answers.serving.steady import Rules, Steady, saturation, steady
from roofline.answers.serving.waits import gap_s, held_tokens, tpot_s, waits
from roofline.timing.steplaw import StepLaw

__all__ = ["ALIKE", "BURSTY", "REASONS", "Closed", "closed_form"]

Floats = NDArray[np.float64]

PIECE = 1024  # points at once, in a core's cache
CROWD, NODES = 4096, 2048
SHARES = (0.5, 0.95, 0.99)

REASONS = (
    "",
    "the rate is beyond what it can serve",
    "it is loaded to more than 85 % of what it can serve",
    "the cache may fill, and requests wait for pages or lose theirs",
    "all sequences it runs at once may be taken",
    "some prompts are very long beside the others",
    "answers are too short for their TPOT to be near normal",
    "requests do not come as independent users send them",
    "prompts begin alike, and how much of that is still cached depends on what came between",
)
"""Why a point is not trusted; the first, where it is."""

BURSTY, ALIKE = 7, 8

MOST_LOAD = 0.85
SIGMAS = 3.0
LONG_TOKENS, LONG_SCV = 12_000, 0.25
REMEMBERED = 0.06  # share of the state a decode begins in that is left in its TPOT
MOST_SCV, LEAST_SCV = 2.0, 0.5


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Closed:
    """Under load, at every rate of a flat array; infinite beyond saturation.

    Attributes
    ----------
    rate_per_s, saturation_per_s : array
        λ, and the rate beyond which the queue grows for ever [1/s].
    ttft_mean_s, ttft_p50_s, ttft_p95_s, ttft_p99_s, queue_mean_s : array
        From arrival to first token; of it, until a step takes the prompt [s].
    tpot_mean_s, tpot_p50_s, tpot_p95_s, tpot_p99_s : array
        Of requests that decode; 0 where none does [s].
    itl_p99_s : array
        Of the gaps between tokens [s].
    e2e_mean_s : array
        From arrival to last token [s].
    n_seq, kv_tokens : array
        Sequences that decode, tokens in the cache, as the clock finds them [1, token].
    reason : array of int
        Which of `REASONS` says that it is not to be trusted; 0 where it is.
    """

    rate_per_s: Floats
    saturation_per_s: Floats
    ttft_mean_s: Floats
    ttft_p50_s: Floats
    ttft_p95_s: Floats
    ttft_p99_s: Floats
    queue_mean_s: Floats
    tpot_mean_s: Floats
    tpot_p50_s: Floats
    tpot_p95_s: Floats
    tpot_p99_s: Floats
    itl_p99_s: Floats
    e2e_mean_s: Floats
    n_seq: Floats
    kv_tokens: Floats
    reason: NDArray[np.int64]


_NAMES = tuple(f.name for f in fields(Closed))


def closed_form(
    law: StepLaw, w: Lengths, rules: Rules, rate_per_s: Floats, *, request_s: float = 0.0, arrivals_scv: float = 1.0,
    untrusted: int = 0,
) -> Closed:  # fmt: skip
    """The steady state of one replica at every rate, a piece of them at a time.

    More than 4,096 rates of one replica lie on a curve drawn through 2,048 of them, to 1e-4 where those are as dense.

    Parameters
    ----------
    law, w, rules
        What a step takes, what is asked, what limits the replica; of `rules`, arrays go with the rates.
    rate_per_s : array
        Flat [1/s].
    request_s : float
        What a request takes once, beside its steps [s].
    arrivals_scv : float
        c_a² of the gaps between arrivals [1].
    untrusted : int
        A reason of `REASONS` that holds whatever the rate, such as `BURSTY`; 0 for none [1].
    """
    rate = np.atleast_1d(np.asarray(rate_per_s, dtype=np.float64))
    names = ("batch_tokens", "max_seqs", "kv_tokens")
    alike = all(getattr(rules, n).ndim == 0 for n in names)
    if alike and rate.size > CROWD:
        return _drawn(law, w, rules, rate, request_s, arrivals_scv, untrusted)
    full = Rules(**{n: np.broadcast_to(getattr(rules, n), rate.shape) for n in names})
    most = np.broadcast_to(saturation(law, w, rules if alike else full), rate.shape)
    pieces = []
    for first in range(0, rate.size, PIECE):
        where = slice(first, first + PIECE)
        stable = rate[where] < most[where]
        s = steady(law, w, full.at(where), np.where(stable, rate[where], 0.5 * most[where]))
        pieces.append(_answers(s, rate[where], most[where], request_s, arrivals_scv, untrusted))
    return Closed(**{n: np.concatenate([getattr(p, n) for p in pieces]) for n in _NAMES})


def _drawn(
    law: StepLaw,
    w: Lengths,
    rules: Rules,
    rate: Floats,
    request_s: float,
    arrivals_scv: float,
    untrusted: int,
) -> Closed:
    """Very many rates of one replica: a curve drawn through the solutions at some thousand of them."""
    stable = rate < saturation(law, w, rules)
    if not stable.any():
        stable = rate <= rate.min()
    nodes = np.unique(np.quantile(rate[stable], np.linspace(0.0, 1.0, NODES)))
    there = closed_form(law, w, rules, nodes, request_s=request_s, arrivals_scv=arrivals_scv, untrusted=untrusted)
    found = {n: np.where(stable, np.interp(rate, nodes, getattr(there, n)), np.inf) for n in _NAMES}
    nearest = np.searchsorted(nodes, rate).clip(0, nodes.size - 1)
    known = {
        "rate_per_s": rate,
        "saturation_per_s": np.full(rate.shape, there.saturation_per_s[0]),
        "reason": np.where(stable, there.reason[nearest], 1),
    }
    return Closed(**found | known)


def _answers(s: Steady, rate: Floats, most: Floats, request_s: float, arrivals_scv: float, untrusted: int) -> Closed:
    wait = waits(s, arrivals_scv)
    stable = rate < most

    def known(values: Floats) -> Floats:
        return np.where(stable, values, np.inf)

    ttft = [known(at + request_s) for at in np.maximum.accumulate([wait.at(share) for share in SHARES], axis=0)]
    some = 1.0 if s.lengths.answering > 0.0 else 0.0  # of answers of one token there is nothing to wait for after it
    tpot = [known(some * tpot_s(s, share)) for share in SHARES]
    mean = wait.mean_s + request_s
    held = held_tokens(s, wait)
    reason = _reasons(s, rate / most, held, arrivals_scv, untrusted)
    return Closed(
        rate_per_s=rate, saturation_per_s=most, ttft_mean_s=known(mean), ttft_p50_s=ttft[0], ttft_p95_s=ttft[1],
        ttft_p99_s=ttft[2], queue_mean_s=known(wait.queue_s), tpot_mean_s=known(some * s.tpot_s), tpot_p50_s=tpot[0],
        tpot_p95_s=tpot[1], tpot_p99_s=tpot[2], itl_p99_s=known(some * gap_s(s, 0.99)),
        e2e_mean_s=known(mean + s.lengths.decode_mean * s.token_s), n_seq=known(s.n_seq), kv_tokens=known(held),
        reason=reason,
    )  # fmt: skip


def _reasons(s: Steady, load: Floats, held: Floats, arrivals_scv: float, untrusted: int) -> NDArray[np.int64]:
    """The first reason of `REASONS` that holds, at every point."""
    w, n = s.lengths, s.n_seq
    spread = s.spread
    kept = np.mean(first_of(w.answers[:, None] / s.memory), axis=0)
    heavy = w.prompt_p99 > LONG_TOKENS and w.prompt_scv > LONG_SCV
    short = w.answering > 0.0
    tests = (
        load >= 1.0,
        load > MOST_LOAD,
        held + SIGMAS * spread * np.sqrt(w.held_square) > s.rules.kv_tokens,
        n + SIGMAS * spread > s.rules.max_seqs,
        np.broadcast_to(heavy, load.shape),
        (kept > REMEMBERED) & short,
    )
    bursty = arrivals_scv > MOST_SCV or arrivals_scv < LEAST_SCV
    found = np.full(load.shape, untrusted or (BURSTY if bursty else 0), dtype=np.int64)
    for i in range(len(tests), 0, -1):
        found = np.where(tests[i - 1], i, found)
    return found
