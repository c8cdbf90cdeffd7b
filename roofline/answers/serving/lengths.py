"""What the closed form of load asks of a workload's lengths: a few means and quantiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from roofline.timing.steplaw import Window
from roofline.work.sight import Sight, pairs

__all__ = ["Lengths"]

Floats = NDArray[np.float64]

N_SIZES = 8  # kinds of prompts whose chunks are told apart
N_ANSWERS = 16
EDGES = (0.0, 0.05, 0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.83, 0.89, 0.935, 0.965, 0.985, 0.995, 1.0)
"""Shares of the prompts between which they are taken together; a half, 0.95 and 0.99 lie in the middle, not between two."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lengths:
    """Prompts of p tokens and answers of o, which take d = o − 1 decode steps.

    Attributes
    ----------
    prompt_mean, decode_mean : float
        p̄ and d̄ [token].
    context_mean : float
        c̄: mean context of a decode step, its own token among them, E[d·(p + (d + 1)/2)] / d̄ [token].
    within : tuple of float
        What a decode step sees of it through each window of the layers, in the mean [token].
    held_mean, held_square : float
        What a request holds of the cache while it decodes, in whole pages: mean, and mean of the square [token, token²].
    prompt_scv : float
        Squared coefficient of variation of p [1].
    prompt_p99 : float
        [token]
    sizes, answers : array
        p at 8 quantiles, its mean restored; d at 16 quantiles of those that decode [token].
    prompts, prompt_shares : array
        Mean p between the quantiles of `EDGES`, and the share of requests between them [token, 1].
    answering : float
        Share of requests that decode at all [1].
    """

    prompt_mean: float
    decode_mean: float
    context_mean: float
    within: tuple[float, ...]
    held_mean: float
    held_square: float
    prompt_scv: float
    prompt_p99: float
    sizes: Floats
    prompts: Floats
    prompt_shares: Floats
    answers: Floats
    answering: float

    @classmethod
    def of(
        cls, prompt_tokens: NDArray[np.int64], output_tokens: NDArray[np.int64], *, windows: Sequence[Window] = (),
        page_tokens: int = 16, n_sizes: int = N_SIZES, cached_tokens: NDArray[np.int64] | None = None,
    ) -> Lengths:  # fmt: skip
        """Those of a sample; of each prompt `cached_tokens` need not be read, and are held all the same.

        >>> w = Lengths.of(np.array([100, 300]), np.array([11, 1]))
        >>> w.prompt_mean, w.decode_mean, w.context_mean, w.answering
        (200.0, 5.0, 105.5, 0.5)
        """
        p, o = prompt_tokens.astype(np.float64), output_tokens.astype(np.float64)
        d = o - 1.0
        decodes = float(d.mean())
        steps = max(float(d.sum()), 1.0)
        seen = [Sight(w.width, w.chunked) for w in windows]
        held = np.ceil((p + o / 2.0) / page_tokens) * page_tokens
        answers = d[d > 0.0]
        read = p if cached_tokens is None else p - cached_tokens
        prompts, shares = _between(read)
        return cls(
            prompt_mean=float(read.mean()),
            decode_mean=decodes,
            context_mean=float(np.sum(d * (p + (d + 1.0) / 2.0))) / steps if decodes else float(p.mean()) + 1.0,
            within=tuple(float(np.sum(pairs(sight, n_new=d, n_past=p))) / steps for sight in seen),
            held_mean=float(np.sum(o * held) / o.sum()),
            held_square=float(np.sum(o * held**2) / o.sum()),
            prompt_scv=float(read.var() / read.mean() ** 2),
            prompt_p99=float(np.quantile(read, 0.99)),
            sizes=_quantiles(read, n_sizes),
            prompts=prompts,
            prompt_shares=shares,
            answers=_quantiles(answers, N_ANSWERS) if answers.size else np.ones(1),
            answering=answers.size / d.size,
        )

    def prompts_alone(self) -> Lengths:
        """What a pool that only reads prompts is asked for: the same prompts, and one token of each answer."""
        return replace(
            self, decode_mean=0.0, context_mean=self.prompt_mean + 1.0, held_mean=self.prompt_mean,
            held_square=self.prompt_mean**2 * (1.0 + self.prompt_scv), answers=np.ones(1), answering=0.0,
        )  # fmt: skip

    def answers_alone(self) -> Lengths:
        """What a pool that only decodes is asked for: the same answers after the same contexts, with a token to read."""
        one = np.ones(1)
        return replace(self, prompt_mean=1.0, prompt_scv=0.0, prompt_p99=1.0, sizes=one, prompts=one, prompt_shares=one)


def _between(values: Floats) -> tuple[Floats, Floats]:
    """Means between quantiles, and shares: the mean of all is theirs."""
    if values.min() == values.max():
        return values[:1].copy(), np.ones(1)
    ordered = np.sort(np.tile(values, -(-1000 // values.size)))  # of few values some stand in several parts
    edges = np.round(np.array(EDGES) * ordered.size).astype(np.int64)
    parts = [ordered[low:high] for low, high in pairwise(edges)]
    return np.array([part.mean() for part in parts]), np.diff(edges) / ordered.size


def _quantiles(values: Floats, n: int) -> Floats:
    """The values at the middles of n equal parts, scaled to the mean of all; one of values that are all the same."""
    if values.min() == values.max():
        return np.array([float(values[0])])
    found = np.quantile(values, (np.arange(n) + 0.5) / n)
    return np.asarray(np.maximum(found * (values.mean() / found.mean()), 1.0))
