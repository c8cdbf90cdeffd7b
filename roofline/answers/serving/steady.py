"""The steady state of a replica under load, as a fixed point: means of steps, sequences and tokens, over arrays of rates.

With λ requests a second, p̄ and d̄ tokens to read and to decode of each, C what a step has room for beside its B decodes:

    τ = (1 − q)·t_d + q·t_p         a step only decodes, or reads prompts too; q is the share that do
    q = λ·τ·κ                       κ steps that read, for every prompt
    κ = (1 − u_t)·g(λ·t_d)·k + u_t·E[max(1, N·p̄/C); N ≥ 1] / (λ·t_p),     N ~ Poisson(λ·t_p)
    TPOT = τ + (V/τ)·E_d[g(d/n_c)]
    B = 1 + λ·d̄·TPOT                Little's law, and the request itself

A prompt that comes during a step that only decodes (1 − u_t of them, u_t = q·t_p/τ) is read in its own k chunks, with those
that came during the same step; g(y) = (1 − e^(−y))/y is the share of first arrivals among Poisson(y). One that comes while
others are read joins what is waiting then, and fills chunks to the brim where there is more than one holds. The prompt
tokens of a step that reads are p̄/κ in the mean: sizes are mixed from lone chunks, those of two prompts, and full ones, as
its time is no linear function of them.

TPOT: a decode begins in a state as the clock finds it, not as the steps do, and sees longer steps until it has forgotten
that: V is the variance of a step, n_c the steps it is remembered. What is not in these equations is told by `trust`.

References: Little 1961 (L = λW); Kingman 1962; Fuhrmann & Cooper 1985 (a server with vacations, in `waits`). κ and n_c are
this library's, found and checked against step-exact simulation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from roofline.answers.serving.lengths import Lengths
from roofline.answers.serving.reading import Chunks, first_of, full_s, mixed, reads, saturated_s, step_s
from roofline.timing.steplaw import MeanLaw

__all__ = ["Rules", "Steady", "saturation", "steady"]

Floats = NDArray[np.float64]

MOST_ROUNDS = 200
TOLERANCE = 1e-6
_LEAST = 1e-12
_ONE_MORE = np.array([[1.0], [0.0], [0.0], [0.0]])  # sequences count beside the one that sees them


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rules:
    """What limits a replica: tokens of a step, sequences, tokens of the cache; arrays for many settings at once."""

    batch_tokens: Floats
    max_seqs: Floats
    kv_tokens: Floats

    @classmethod
    def of(cls, *, batch_tokens: float, max_seqs: float, kv_tokens: float) -> Rules:
        """Of one replica."""
        return cls(
            batch_tokens=np.asarray(float(batch_tokens)),
            max_seqs=np.asarray(float(max_seqs)),
            kv_tokens=np.asarray(float(kv_tokens)),
        )

    def most(self, w: Lengths) -> Floats:
        """Sequences that run at once at most: slots, or what the cache holds but for half a prompt that waits for room."""
        held = np.maximum(self.kv_tokens - w.prompt_mean / 2.0, w.held_mean) / w.held_mean
        return np.minimum(self.max_seqs, held)

    def at(self, where: NDArray[np.intp] | slice) -> Rules:
        """The settings of some of the points."""
        return Rules(
            batch_tokens=self.batch_tokens[where], max_seqs=self.max_seqs[where], kv_tokens=self.kv_tokens[where]
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Steady:
    """The solution, for every rate.

    Attributes
    ----------
    rate_per_s : array
        λ [1/s].
    n_seq : array
        Sequences that decode, as the clock finds them: λ·d̄·TPOT [1].
    step_s, decode_s, reading_s : array
        τ, t_d, t_p: a step, one that only decodes, one that reads [s].
    reading : array
        q: share of steps that read prompts [1].
    variance : array
        V, of a step [s²].
    memory : array
        n_c: steps a decode remembers the state it began in [1].
    tpot_s : array
        Mean over requests [s].
    token_s : array
        Mean over tokens [s].
    """

    law: MeanLaw
    lengths: Lengths
    rules: Rules
    rate_per_s: Floats
    n_seq: Floats
    step_s: Floats
    decode_s: Floats
    reading_s: Floats
    reading: Floats
    variance: Floats
    memory: Floats
    tpot_s: Floats
    token_s: Floats

    @property
    def seen_by_one(self) -> Floats:
        """B: the sequences of a step, seen by one of them [1]."""
        return np.minimum(self.n_seq + 1.0, self.rules.most(self.lengths))

    @property
    def room(self) -> Floats:
        """C: prompt tokens a step has room for [token]."""
        return np.maximum(self.rules.batch_tokens - self.seen_by_one, 1.0)

    def seconds(self, n: Floats | float, chunk: tuple[Floats | float, Floats | float, Floats | float]) -> Floats:
        """A step of the decodes there are, with n chunks alike  [s]."""
        return step_s(self.law, self.lengths, self.seen_by_one, n, chunk)

    @cached_property
    def elasticity(self) -> Floats:
        """ε = (B/t_d)·dt_d/dB: how much longer a step is with more decodes [1]."""
        b = self.seen_by_one
        more = step_s(self.law, self.lengths, b * 1.25, 0.0, (0.0, 0.0, 0.0))  # beyond the bends of a pipeline's round
        return np.clip((more / self.decode_s - 1.0) / 0.25, 0.0, 0.9)

    @property
    def dispersion(self) -> Floats:
        """Variance over mean of the sequences that decode: (τ/t_d)² / (1 − ε).  [1]

        1 of independent ones. They leave the slower the more there are (ε), and every prompt that comes also holds back the
        others, by τ/t_d − 1 of a sequence.
        """
        return (self.step_s / self.decode_s) ** 2 / (1.0 - self.elasticity)

    @property
    def spread(self) -> Floats:
        """Standard deviation of the sequences that decode  [1]."""
        return np.asarray(np.sqrt(np.maximum(self.n_seq * self.dispersion, 1.0)))


def saturation(law: MeanLaw, w: Lengths, rules: Rules, *, tolerance: float = TOLERANCE) -> Floats:
    """The rate beyond which the queue grows for ever: of steps that are full, or of sequences that fill their places.  [1/s]

    full steps     B + x = C₀ with B : x = d̄ : p̄, so λ = C₀ / ((p̄ + d̄)·t_full)
    full places    λ = N / (d̄·τ) with N at once: every step then reads N·p̄/d̄ tokens
    """
    most = rules.most(w)
    total = w.prompt_mean + w.decode_mean
    decodes = rules.batch_tokens * w.decode_mean / total
    room = rules.batch_tokens * w.prompt_mean / total
    served = saturated_s(law, w, np.minimum(decodes, most), np.maximum(room, 1.0), w.sizes)
    full = full_s(served, w, np.maximum(room, 1.0))
    of_budget = rules.batch_tokens / (total * full)
    if w.decode_mean == 0.0:
        return of_budget
    of_places = of_budget
    if np.any(decodes > most):
        of_places = _full_places(law, w, most, np.maximum(rules.batch_tokens - most, 1.0), tolerance)
    return np.where(decodes > most, np.minimum(of_places, of_budget), of_budget)


def _full_places(law: MeanLaw, w: Lengths, most: Floats, room: Floats, tolerance: float) -> Floats:
    """The rate at which so many sequences always run: λ = N / (d̄·τ), τ of the reading that their turnover brings  [1/s]."""
    decode = step_s(law, w, most, 0.0, (0.0, 0.0, 0.0))
    chunks, served = Chunks.of(w, room), saturated_s(law, w, most, room, w.sizes)
    full = full_s(served, w, room)
    step, reading_s, reading = decode, 2.0 * decode, np.zeros_like(decode)
    for _ in range(MOST_ROUNDS):
        rate = most / (w.decode_mean * step)
        kappa = reads(
            rate, decode, reading_s, np.minimum(reading * reading_s / step, 1.0), chunks, room / w.prompt_mean
        )
        reading_s = mixed(law, w, most, room, chunks, w.prompt_mean / kappa, full).mean
        reading = np.minimum(rate * step * kappa, 1.0)
        before, step = step, 0.2 * step + 0.8 * ((1.0 - reading) * decode + reading * reading_s)
        if np.max(np.abs(step / before - 1.0)) < tolerance:
            break
    return np.asarray(most / (w.decode_mean * step))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Point:
    """A state of the iteration: what is known of every point."""

    law: MeanLaw
    w: Lengths
    rules: Rules
    rate: Floats
    n_seq: Floats
    step: Floats
    reading_s: Floats
    reading: Floats
    decode: Floats
    variance: Floats
    memory: Floats
    tpot: Floats
    token: Floats

    @classmethod
    def begin(cls, law: MeanLaw, w: Lengths, rules: Rules, rate: Floats) -> _Point:
        """An almost empty replica."""
        one = np.ones_like(rate)
        decode = step_s(law, w, one, 0.0, (0.0, 0.0, 0.0)) * one
        return cls(
            law=law, w=w, rules=rules, rate=rate, n_seq=rate * w.decode_mean * decode, step=decode, decode=decode,
            reading_s=decode * 2.0, reading=0.0 * one, variance=0.0 * one, memory=one, tpot=decode, token=decode,
        )  # fmt: skip

    def improved(self) -> _Point:
        """The equations once, from the left-hand sides to the right."""
        law, w, rate = self.law, self.w, self.rate
        most = self.rules.most(w)
        b = np.minimum(self.n_seq + 1.0, most)
        room = np.maximum(self.rules.batch_tokens - b, 1.0)
        decode = step_s(law, w, b, 0.0, (0.0, 0.0, 0.0))
        chunks, served = Chunks.of(w, room), saturated_s(law, w, b, room, w.sizes)
        held = room / w.prompt_mean
        busy = np.minimum(self.reading * self.reading_s / self.step, 1.0)
        kappa = reads(rate, decode, self.reading_s, busy, chunks, held)
        steps = mixed(law, w, b, room, chunks, w.prompt_mean / kappa, full_s(served, w, room))
        t_p = steps.mean
        reading = np.minimum(rate * self.step * kappa, 1.0)
        step = (1.0 - reading) * decode + reading * t_p
        variance = np.maximum((1.0 - reading) * decode**2 + reading * steps.square - step**2, 0.0)
        memory = self._memory(served, t_p)
        answers = w.answers.reshape((-1,) + (1,) * np.ndim(memory))
        kept = first_of(answers / memory)
        token = step + variance / step * np.sum(kept * answers, axis=0) / w.answers.sum()
        return replace(
            self, n_seq=np.minimum(rate * w.decode_mean * token, most), step=step, decode=decode, reading_s=t_p,
            reading=reading, variance=variance, memory=memory, token=token,
            tpot=step + variance / step * np.mean(kept, axis=0),
        )  # fmt: skip

    def _memory(self, served: Floats, reading_s: Floats) -> Floats:
        """n_c = max(1, √(W/t_p), R/t_p) / (1 − u): how many steps, with W the mean work that waits, u its share of the time,
        and R the rest of a prompt that is being read."""
        mean, square = np.mean(served, axis=0), np.mean(served**2, axis=0)
        busy = np.minimum(self.rate * mean, 0.999)
        waits = self.rate * square * 0.5 / (1.0 - busy)
        longest = np.maximum(np.sqrt(waits / reading_s), square / (2.0 * mean * reading_s))
        return np.asarray(np.maximum(1.0, longest) / (1.0 - busy))

    @property
    def state(self) -> Floats:
        """What the next round starts from."""
        return np.stack([self.n_seq, self.step, self.reading_s, self.reading])

    def moved_to(self, state: Floats) -> _Point:
        """The same with another state."""
        n_seq, step, reading_s, reading = np.maximum(state, _LEAST)
        return replace(self, n_seq=n_seq, step=step, reading_s=reading_s, reading=np.minimum(reading, 1.0))


def _solved(point: _Point, tolerance: float) -> _Point:
    """The fixed point: rounds that go as far along a change as the one before suggests (Irons & Tuck 1969)."""
    along: Floats | float = 0.5
    before: Floats | None = None
    for _ in range(MOST_ROUNDS):
        state = point.state
        better = point.improved()
        scale = np.maximum(np.abs(state), _LEAST) + _ONE_MORE
        change = (better.state - state) / scale
        if float(np.max(np.abs(change))) < tolerance:
            return better
        if before is not None:
            bend = change - before
            along = np.clip(
                -along * np.sum(before * bend, axis=0) / np.maximum(np.sum(bend**2, axis=0), 1e-300), 0.1, 3.0
            )
        before = change
        point = better.moved_to(state + along * change * scale)
    return better


def steady(law: MeanLaw, w: Lengths, rules: Rules, rate_per_s: Floats, *, tolerance: float = TOLERANCE) -> Steady:
    """The steady state at every rate of a flat array; of rates beyond saturation it has no meaning."""
    rate = np.asarray(rate_per_s, dtype=np.float64)
    names = ("batch_tokens", "max_seqs", "kv_tokens")
    full = Rules(**{n: np.broadcast_to(getattr(rules, n), rate.shape) for n in names})
    point = _solved(_Point.begin(law, w, full, rate), tolerance)
    return Steady(
        law=point.law, lengths=point.w, rules=point.rules, rate_per_s=point.rate, n_seq=point.n_seq, step_s=point.step,
        decode_s=point.decode, reading_s=point.reading_s, reading=point.reading, variance=point.variance,
        memory=point.memory, tpot_s=point.tpot, token_s=point.token,
    )  # fmt: skip
