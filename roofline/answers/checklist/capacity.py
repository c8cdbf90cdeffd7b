"""How many requests a replica's cache holds, how many there will be, and from which rate on some lose their pages.

    held(n) = n·m + z·√(n·D·E[h²])        tokens that n decoding requests hold, with D the variance over mean of their number
    full at the rate where held = K       at z = 2.33: one look in a hundred finds the cache full
    safe    = the n with n·m + z·√(n·v) = K      a cap on sequences beyond which their lengths alone may fill it

h is what a request holds while it decodes, in whole pages, m and v its mean and variance; K what the cache holds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from roofline.answers.serving.service import Service, rules_of
from roofline.answers.serving.steady import saturation, steady
from roofline.answers.serving.waits import held_tokens, waits
from roofline.specs.workload import Workload

__all__ = ["Capacity", "capacity_of"]

Floats = NDArray[np.float64]

Z95, Z99 = 1.645, 2.326  # of a normal distribution: 95 and 99 of 100 are below
POINTS = 96
HIGHEST = 0.995  # of saturation


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """Room and need of one data-parallel rank; rates are those of the whole service.

    Attributes
    ----------
    kv_tokens : float
        K: tokens the cache holds, in whole pages [token].
    max_seqs, batch_tokens : int
        Most sequences at once, most tokens of a step: the engine's settings [1, token].
    held_mean, held_p95 : float
        What a request holds while it decodes, in the mean; what one of the longest 5 % holds at its end [token].
    seqs_mean, seqs_p95 : float
        Requests that the cache holds if all are like the mean, or all like the longest 5 % [1].
    seqs_safe : float
        Sequences that may run at once and, by their lengths, fill the cache in one look of a hundred [1].
    n_seq, n_seq_p95, n_seq_p99 : float
        Sequences that decode at the rate: mean, and what they stay below 95 and 99 times of 100; infinite beyond saturation
        [1].
    full_rate_per_s, full_n_seq : float or None
        The rate from which one look in a hundred finds the cache full, and the sequences there are then; none where the
        service saturates before [1/s, 1].
    """

    kv_tokens: float
    max_seqs: int
    batch_tokens: int
    held_mean: float
    held_p95: float
    seqs_mean: float
    seqs_p95: float
    seqs_safe: float
    n_seq: float
    n_seq_p95: float
    n_seq_p99: float
    full_rate_per_s: float | None
    full_n_seq: float | None


def capacity_of(service: Service, workload: Workload, *, rate_per_s: float, n_seq: float | None = None) -> Capacity:
    """Room and need of a service at a rate.

    Parameters
    ----------
    service, workload : Service, Workload
        What serves, and whose lengths it serves.
    rate_per_s : float
        Of the whole service [1/s].
    n_seq : float, optional
        Sequences that decode on a rank, where a simulation knows better than the closed form [1].
    """
    w, r = service.lengths, service.replica
    room = float(r.n_pages * r.page_tokens)
    share = (1.0 - service.rejected) / service.ranks
    most = float(saturation(service.law, w, rules_of(service.replica))) / share
    rates = np.linspace(HIGHEST / POINTS, HIGHEST, POINTS) * most
    seqs, spread, held = _states(service, rates * share)
    at = _first(held + Z99 * spread * np.sqrt(w.held_square) - room)
    variance = max(w.held_square - w.held_mean**2, 0.0)
    ends = workload.prompt_tokens + workload.output_tokens - 1  # the last token is given, and kept nowhere
    longest = np.ceil(np.percentile(ends, 95) / r.page_tokens) * r.page_tokens
    mean, above = np.inf, np.inf
    if rate_per_s < most:
        mean_, above_, _ = (float(v[0]) for v in _states(service, np.array([rate_per_s * share])))
        mean = mean_ if n_seq is None else n_seq
        above = above_ * np.sqrt(mean / mean_) if mean_ > 0.0 else above_
    return Capacity(
        kv_tokens=room, max_seqs=r.max_seqs, batch_tokens=r.batch_tokens, held_mean=w.held_mean, held_p95=float(longest),
        seqs_mean=np.floor(room / w.held_mean), seqs_p95=np.floor(room / float(longest)),
        seqs_safe=np.floor(safe_seqs(room, w.held_mean, variance)), n_seq=mean, n_seq_p95=mean + Z95 * above,
        n_seq_p99=mean + Z99 * above, full_rate_per_s=None if at is None else float(np.interp(at, _PLACES, rates)),
        full_n_seq=None if at is None else float(np.interp(at, _PLACES, seqs)),
    )  # fmt: skip


_PLACES = np.arange(POINTS, dtype=np.float64)


def safe_seqs(room: float, mean: float, variance: float) -> float:
    """The n with n·m + z·√(n·v) = K, z of 99 in 100; a root of a quadratic in √n.  [1]

    >>> safe_seqs(1000.0, 100.0, 0.0)
    10.0
    >>> n = safe_seqs(1000.0, 100.0, 400.0)
    >>> round(n * 100.0 + 2.326 * (n * 400.0) ** 0.5, 6)
    1000.0
    """
    bend = Z99 * np.sqrt(variance)
    return float(((np.sqrt(bend**2 + 4.0 * mean * room) - bend) / (2.0 * mean)) ** 2)


def _states(service: Service, rates: Floats) -> tuple[Floats, Floats, Floats]:
    """Sequences that decode, their standard deviation, and tokens held by them and by prompts being read, of one rank."""
    state = steady(service.law, service.lengths, rules_of(service.replica), rates)
    return state.n_seq, state.spread, held_tokens(state, waits(state))


def _first(over: Floats) -> float | None:
    """Where something that begins below 0 comes to it, as a place between points; none where it never does.

    >>> _first(np.array([-3.0, -1.0, 1.0])), _first(np.array([-3.0, -1.0])), _first(np.array([1.0, 2.0]))
    (1.5, None, 0.0)
    """
    there = np.flatnonzero(over >= 0.0)
    if not there.size:
        return None
    i = int(there[0])
    if i == 0:
        return 0.0
    return float(i - over[i] / (over[i] - over[i - 1]))
