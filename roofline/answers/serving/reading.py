"""Steps that read prompts: their chunks, how those of several mix, how many steps a prompt takes, and their seconds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from roofline.answers.serving.lengths import Lengths
from roofline.timing.steplaw import MeanLaw

__all__ = ["Chunks", "Sizes", "beside", "first_of", "full_s", "joined", "mixed", "reads", "saturated_s", "step_s"]

Floats = NDArray[np.float64]

_LEAST = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sizes:
    """The chunks of steps that read: shares of them along a first axis, and what such a step takes."""

    shares: Floats
    seconds: Floats

    @property
    def mean(self) -> Floats:
        """[s]"""
        return np.asarray(np.sum(self.shares * self.seconds, axis=0))

    @property
    def square(self) -> Floats:
        """E[t²]  [s²]"""
        return np.asarray(np.sum(self.shares * self.seconds**2, axis=0))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chunks:
    """The chunks of prompts that come alone: full ones, and what is left of each kind of prompt; kinds along a first axis.

    Attributes
    ----------
    per_prompt : array
        k, chunks of a prompt in the mean [1].
    shares : array
        Of all chunks, those of a kind [1].
    tokens, past, ends : array
        Tokens of one, tokens of its prompt before, the share of them that end it.
    """

    per_prompt: Floats
    shares: Floats
    tokens: Floats
    past: Floats
    ends: Floats

    @classmethod
    def of(cls, w: Lengths, room: Floats) -> Chunks:
        """Of the kinds of prompts there are."""
        p = w.sizes.reshape((-1,) + (1,) * np.ndim(room))
        whole = np.floor(p / room)
        rest = p - whole * room
        has_rest = rest > 1e-9
        n_whole = np.mean(whole, axis=0)
        k = np.mean(whole + has_rest, axis=0)
        past = np.mean(whole * (whole - 1.0) * 0.5 * room, axis=0) / np.maximum(n_whole, _LEAST)
        ends = np.mean(whole * ~has_rest, axis=0) / np.maximum(n_whole, _LEAST)
        return cls(
            per_prompt=k,
            shares=np.concatenate([(n_whole / k)[None], has_rest / (len(p) * k)]),
            tokens=np.concatenate([np.broadcast_to(room, np.shape(k))[None], np.where(has_rest, rest, 1.0)]),
            past=np.concatenate([past[None], whole * room]),
            ends=np.concatenate([ends[None], np.ones_like(rest)]),
        )


def step_s(
    law: MeanLaw, w: Lengths, b: Floats, n: Floats | float,
    chunk: tuple[Floats | float, Floats | float, Floats | float],
) -> Floats:  # fmt: skip
    """A step of b decodes of the mean context with n chunks alike  [s]."""
    return law.alike(b, b * w.context_mean, [b * seen for seen in w.within], n, chunk)


def first_of(y: Floats) -> Floats:
    """g(y) = (1 − e^(−y)) / y  [1]."""
    return np.where(y > 1e-9, -np.expm1(-y) / np.maximum(y, _LEAST), 1.0)


def joined(mean: Floats, held: Floats) -> Floats:
    """E[max(1, N/c); N ≥ 1] / a: steps for each of N ~ Poisson(a) prompts, of which a step holds c.  [1]

    = 1/c + Σ_{n = 1..⌊c⌋} P(N = n)·(1 − n/c) / a:  all of them where steps are full, one for all where few come.
    """
    chance = np.exp(-mean)
    found = mean / held
    for n in range(1, 17):  # of more in one step, the term is next to nothing
        chance = chance * mean / n
        found = found + chance * np.maximum(1.0 - n / held, 0.0)
    return np.where(mean > 1e-9, found / np.maximum(mean, _LEAST), np.maximum(1.0, 1.0 / held))


def mixed(
    law: MeanLaw, w: Lengths, b: Floats, room: Floats, chunks: Chunks, mean_tokens: Floats, full: Floats
) -> Sizes:
    """Steps that read so many prompt tokens in the mean: lone chunks, a share r with a prompt on top, of those some full."""
    more = np.minimum(chunks.tokens + np.minimum(w.prompt_mean, room), room)
    lone_mean, more_mean = np.sum(chunks.shares * chunks.tokens, axis=0), np.sum(chunks.shares * more, axis=0)
    r = np.clip((mean_tokens - lone_mean) / np.maximum(more_mean - lone_mean, _LEAST), 0.0, 1.0)
    brim = np.clip((mean_tokens - more_mean) / np.maximum(room - more_mean, _LEAST), 0.0, 1.0) * (r >= 1.0)
    alone = step_s(law, w, b, 1.0, (chunks.tokens, chunks.past, chunks.ends))
    topped = step_s(law, w, b, *beside(chunks.tokens, chunks.past, chunks.ends, more - chunks.tokens, w.prompt_mean))
    return Sizes(
        shares=np.concatenate([chunks.shares * (1.0 - r), chunks.shares * r * (1.0 - brim), (r * brim)[None]]),
        seconds=np.concatenate([alone, topped, full[None]]),
    )


def beside(
    tokens: Floats, past: Floats, ends: Floats | float, more: Floats, prompt: float
) -> tuple[Floats, tuple[Floats, Floats, Floats]]:
    """A chunk and `more` tokens of prompts that begin, as chunks that are alike: how many, and tokens, past, ends of one.

    n = 1 + more/p̄, and as many pairs with what is cached:  n·x·s = tokens·past
    """
    n = 1.0 + more / prompt
    return n, ((tokens + more) / n, tokens * past / (tokens + more), (ends + more / prompt) / n)


def full_s(served: Floats, w: Lengths, room: Floats) -> Floats:
    """A step whose room is full of the prompts that come, from what each of them takes of one  [s]."""
    return np.asarray(np.mean(served, axis=0) / w.prompt_mean * room)


def saturated_s(law: MeanLaw, w: Lengths, b: Floats, room: Floats, prompts: Floats) -> Floats:
    """S: what each prompt takes of a server whose steps are full: p/C of a step filled with its like  [s]."""
    p = prompts.reshape((-1,) + (1,) * np.ndim(room))
    each = np.minimum(p, room)
    past = np.maximum(p - room, 0.0) * 0.5
    return p / room * step_s(law, w, b, room / each, (each, past, 1.0))


def reads(rate: Floats, decode_s: Floats, reading_s: Floats, busy: Floats, chunks: Chunks, held: Floats) -> Floats:
    """κ: steps that read, for every prompt, of which a step holds so many; `busy` is u_t  [1]."""
    kappa = (1.0 - busy) * first_of(rate * decode_s) * chunks.per_prompt + busy * joined(rate * reading_s, held)
    return np.maximum(kappa, 1.0 / held)
