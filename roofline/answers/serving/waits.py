"""How TTFT and TPOT spread around their means, from the steady state of a replica.

TTFT = the wait until a step takes the prompt + its own chunks + what joins its last one:

    wait     W + U(0, t_d): of a server with vacations (steps that only decode), the wait of one without, and a rest of one;
             with chance e^(−B) nothing decodes, and there is no rest
    W        0 with chance 1 − u, else exponential of mean  E[S²] / (2·E[S]·(1 − u)) · (c_a² + c_s²) / (1 + c_s²)
    joined   with chance 1 − e^(−λ·wait) at least one prompt comes behind it and is read in the same step, room given

with S what a prompt takes of full steps, u = λ·E[S]. A TPOT of d steps has mean τ + (V/τ)·g(d/n_c) and variance
V·2(n_c/d)·(1 − g(d/n_c)): with chance (1 − u_t)·e^(−λ·d·t_d) no prompt is read meanwhile, and it is t_d; else it is near
normal, as the mean and the variance have it. To either comes half of what the number of sequences makes of a step's time.

References: Pollaczek–Khinchine; Fuhrmann & Cooper 1985 (decomposition of vacations); Krämer & Langenbach-Belz 1976 (for the
factor of arrivals that are not Poisson, its heavy-traffic part); Abramowitz & Stegun 1964, 7.1.26 (erf).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from roofline.answers.serving.reading import Chunks, beside, first_of, full_s, mixed, saturated_s
from roofline.answers.serving.steady import Steady

__all__ = ["Waits", "gap_s", "held_tokens", "tpot_s", "waits"]

Floats = NDArray[np.float64]

ROUNDS = 40
CLOSE = 1e-7
_LEAST = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Waits:
    """TTFT as a mixture over prompts, kinds of them along a first axis.

    Attributes
    ----------
    shares : array
        Of the kinds [1].
    own_s, joined_s : array
        Its chunks; what joins the last of them, if anything does [s].
    joined : array
        Chance that something does [1].
    busy : array
        u: chance that the queue is not empty [1].
    behind_s, rest_s : array
        Mean of W where it is not; the longest rest of a step that only decodes [s].
    decoding : array
        Chance that there is such a step: that any sequence decodes, of independent ones [1].
    """

    shares: Floats
    own_s: Floats
    joined_s: Floats
    joined: Floats
    busy: Floats
    behind_s: Floats
    rest_s: Floats
    decoding: Floats

    @property
    def queue_s(self) -> Floats:
        """Mean wait until a step takes the prompt  [s]."""
        return self.busy * self.behind_s + self.decoding * self.rest_s / 2.0

    @property
    def mean_s(self) -> Floats:
        """Mean TTFT  [s]."""
        return np.asarray(np.sum(self.shares * (self.own_s + self.joined * self.joined_s), axis=0)) + self.queue_s

    def share_within(self, seconds: Floats) -> Floats:
        """P(TTFT ≤ t)  [1]."""
        alone, together = self._waited(seconds - self.own_s), self._waited(seconds - self.own_s - self.joined_s)
        return np.asarray(np.sum(self.shares * ((1.0 - self.joined) * alone + self.joined * together), axis=0))

    def at(self, share: float, *, close: float = CLOSE) -> Floats:
        """The TTFT that so many stay within  [s]."""
        high = np.max(self.own_s + self.joined_s, axis=0) + self.rest_s + self.behind_s * 14.0
        return _quantile(self.share_within, share, np.zeros_like(high), high, close)

    def _waited(self, seconds: Floats) -> Floats:
        """P(W + U ≤ t): U alone, or its convolution with an exponential; without U, W alone."""
        t, b, rest = np.maximum(seconds, 0.0), self.behind_s, self.rest_s
        tail = np.exp(-t / b)
        during = (t - b * (1.0 - tail)) / rest
        after = 1.0 - b / rest * (np.exp(-np.maximum(t - rest, 0.0) / b) - tail)
        rested = (1.0 - self.busy) * np.minimum(t / rest, 1.0) + self.busy * np.where(t < rest, during, after)
        at_once = np.where(seconds < 0.0, 0.0, 1.0 - self.busy * tail)
        return self.decoding * rested + (1.0 - self.decoding) * at_once


def waits(s: Steady, arrivals_scv: float = 1.0) -> Waits:
    """The spread of TTFT; `arrivals_scv` is c_a² of the gaps between arrivals [1]."""
    w, room = s.lengths, s.room
    p, shares = (v.reshape((-1,) + (1,) * np.ndim(room)) for v in (w.prompts, w.prompt_shares))
    whole = np.floor(p / room)
    rest = p - whole * room
    has_rest = rest > 1e-9
    last = np.where(has_rest, rest, 1.0)
    last_s = np.where(has_rest, s.seconds(1.0, (last, whole * room, 1.0)), 0.0)
    full = s.seconds(1.0, (room, np.maximum((whole - 1.0) * 0.5 * room, 0.0), 0.0))
    served = saturated_s(s.law, w, s.seen_by_one, room, w.prompts)
    mean, square = np.sum(shares * served, axis=0), np.sum(shares * served**2, axis=0)
    busy = np.minimum(s.rate_per_s * mean, 0.999)
    scv = np.maximum(square / mean**2 - 1.0, 0.0)
    behind = square / (2.0 * mean * (1.0 - busy)) * (arrivals_scv + scv) / (1.0 + scv)
    decoding = -np.expm1(-s.n_seq)
    come = s.rate_per_s * (busy * behind + decoding * s.decode_s / 2.0)
    some = -np.expm1(-come)
    with_it = np.minimum(come * w.prompt_mean / np.maximum(some, _LEAST), np.where(has_rest, room - rest, 0.0))
    joined_s = s.seconds(*beside(last, whole * room, 1.0, with_it, w.prompt_mean))
    return Waits(
        shares=shares, own_s=whole * full + last_s, joined_s=np.where(has_rest, joined_s - last_s, 0.0), joined=some,
        busy=busy, behind_s=behind, rest_s=s.decode_s, decoding=decoding,
    )  # fmt: skip


def held_tokens(s: Steady, wait: Waits) -> Floats:
    """Mean tokens in the cache: of those that decode, and of prompts being read, which hold all of theirs  [token]."""
    reading = s.rate_per_s * np.sum(wait.shares * wait.own_s, axis=0)
    return np.asarray(s.n_seq * s.lengths.held_mean + reading * s.lengths.prompt_mean)


def tpot_s(s: Steady, share: float, *, close: float = CLOSE) -> Floats:
    """The TPOT that so many of the requests that decode stay within  [s]."""
    d = s.lengths.answers.reshape((-1,) + (1,) * np.ndim(s.step_s))
    kept = first_of(d / s.memory)
    mean = s.step_s + s.variance / s.step_s * kept
    slope = s.elasticity * s.step_s / s.seen_by_one
    crowd = np.maximum(0.5 * s.n_seq * s.dispersion * slope**2, (1e-9 * mean) ** 2)
    square = s.variance * np.minimum(2.0 * s.memory / d * (1.0 - kept), 1.0) + mean**2
    busy = np.minimum(s.reading * s.reading_s / s.step_s, 1.0)
    calm = (1.0 - busy) * np.exp(-s.rate_per_s * d * s.decode_s)  # nobody comes while it decodes
    other = np.maximum((mean - calm * s.decode_s) / np.maximum(1.0 - calm, _LEAST), s.decode_s)
    spread = np.maximum((square - calm * s.decode_s**2) / np.maximum(1.0 - calm, _LEAST) - other**2, 0.0)
    narrow, wide = np.sqrt(crowd), np.sqrt(crowd + spread)

    def within(t: Floats) -> Floats:
        undisturbed = calm * _normal((t - s.decode_s) / narrow)
        return np.asarray(np.mean(undisturbed + (1.0 - calm) * _normal((t - other) / wide), axis=0))

    low = np.min(np.minimum(other - 6.0 * wide, s.decode_s - 6.0 * narrow), axis=0)
    return _quantile(within, share, low, np.max(other + 6.0 * wide, axis=0), close)


def gap_s(s: Steady, share: float) -> Floats:
    """The gap between two tokens that so many stay within: a step that only decodes, or one that reads prompts too  [s]."""
    w, b, room = s.lengths, s.seen_by_one, s.room
    served = saturated_s(s.law, w, b, room, w.sizes)
    per_step = s.rate_per_s * s.step_s * w.prompt_mean / np.maximum(s.reading, _LEAST)
    steps = mixed(s.law, w, b, room, Chunks.of(w, room), np.minimum(per_step, room), full_s(served, w, room))
    seconds = np.concatenate([s.decode_s[None], steps.seconds])
    shares = np.concatenate([(1.0 - s.reading)[None], s.reading * steps.shares])
    order = np.argsort(seconds, axis=0)
    within = np.cumsum(np.take_along_axis(shares, order, axis=0), axis=0)
    first = np.argmax(within >= share * within[-1], axis=0)
    return np.asarray(np.take_along_axis(np.take_along_axis(seconds, order, axis=0), first[None], axis=0)[0])


def _quantile(within: Callable[[Floats], Floats], share: float, low: Floats, high: Floats, close: float) -> Floats:
    """Where a distribution reaches a share, between two bounds: false position, the side that stays halved (Illinois)."""
    below, above = within(low) - share, within(high) - share
    side = np.zeros_like(low)
    at = high
    for _ in range(ROUNDS):
        at = np.where(above > below, low - below * (high - low) / np.maximum(above - below, _LEAST), high)
        middle = (low + high) / 2.0
        at = np.where(np.abs(at - middle) > 0.495 * (high - low), middle, at)  # next to an end: half the way instead
        found = within(at) - share
        if np.max(np.abs(found)) < close or np.max((high - low) / np.maximum(high, _LEAST)) < close:
            break
        right = found > 0.0
        above = np.where(right, found, np.where(side < 0.0, above / 2.0, above))
        below = np.where(right, np.where(side > 0.0, below / 2.0, below), found)
        high, low = np.where(right, at, high), np.where(right, low, at)
        side = np.where(right, 1.0, -1.0)
    return at


def _normal(z: Floats) -> Floats:
    """Φ(z), to 1e-7."""
    x = np.abs(z) * np.sqrt(0.5)
    t = 1.0 / (1.0 + 0.3275911 * x)
    series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    tail = 0.5 * series * np.exp(-x * x)
    return np.asarray(np.where(z > 0.0, 1.0 - tail, tail))
