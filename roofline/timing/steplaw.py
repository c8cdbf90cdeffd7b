"""What a step of a running engine takes: the word between a simulated scheduler and the clock.

A step advances B decodes by a token, of contexts that add up to ctx (the new token among them), and reads chunks of prompts
beside them. A law is a function of those numbers; of a deployment it is the pass law of its ledger, written out as one plain
expression, so that a scheduler takes ten thousand steps without an array.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from roofline.ledger import Linear
from roofline.num import Num
from roofline.timing.laws import PassLaw

__all__ = ["Chunk", "MeanLaw", "Part", "PlainLaw", "StepLaw", "Window", "written"]

Chunk: TypeAlias = tuple[int, int, bool]
"""Part of a prompt: tokens read in this step, tokens of it cached before, whether the prompt ends with it."""


Part: TypeAlias = tuple[Num, Num, Num]
"""The same of chunks that are alike: mean tokens, mean tokens before, the share that end their prompts."""


@dataclass(frozen=True, slots=True, order=True)
class Window:
    """What a layer sees of a context: its last `width` tokens or, `chunked`, those since the last multiple of it [token]."""

    width: int
    chunked: bool = False

    def seen(self, context: int) -> int:
        """min(c, W); chunked (c − 1) mod W + 1  [token].

        >>> Window(8).seen(20), Window(8, chunked=True).seen(20)
        (8, 4)
        """
        return (context - 1) % self.width + 1 if self.chunked else min(context, self.width)


class MeanLaw(Protocol):
    """Seconds of steps in the mean, over arrays."""

    @property
    def windows(self) -> tuple[Window, ...]:
        """The windows its layers see through: it asks what the decodes see through each."""

    def alike(
        self, n_decodes: Num, context: Num, within: Sequence[Num], n_chunks: Num, chunk: Part
    ) -> NDArray[np.float64]:
        """Steps with so many decodes and so many chunks that are alike, any of them a fraction; arrays  [s]."""


class StepLaw(MeanLaw, Protocol):
    """Seconds of a step, and of a run of steps that only decode."""

    def seconds(self, n_decodes: int, context: int, within: Sequence[int], chunks: Sequence[Chunk]) -> float:
        """One step: of the decodes, Σ context and, for every window, Σ of what it shows of their contexts  [s]."""

    def decoding(
        self, n_decodes: int, context: int, within: Sequence[int], growing: Sequence[int], n_steps: int
    ) -> NDArray[np.float64]:
        """So many steps of the same decodes, each context a token longer than in the step before  [s].

        `growing` are the decodes, for every window, that see a token more from step to step. To the last bit what `seconds`
        says of each.
        """


def written(law: PassLaw, names: Mapping[Hashable, str]) -> str:
    """A pass law as a Python expression of its sums, under the names they are given; `max` and `min` are all it calls.

        work + links − min(overlap · links, work),   work = Σ max(min over ways of compute, memory) + streams + overhead

    >>> two = PassLaw(((((Linear.of("x") * 2.0),), Linear(5.0)),), Linear(1.0), Linear(), Linear(), 0.0)
    >>> written(two, {"x": "x"})
    '1.0 + max(2.0*x, 5.0)'
    """
    contests = [f"max({_least([_sum(way, names) for way in ways])}, {_sum(memory, names)})"
                for ways, memory in law.contests]  # fmt: skip
    work = " + ".join([_sum(law.streams + law.overhead, names), *contests])
    if law.links == Linear():
        return work
    links = _sum(law.links, names)
    if law.overlap == 0.0:
        return f"{work} + ({links})"
    return f"max({work} + ({links}) * {1.0 - law.overlap!r}, {links})"


def _sum(form: Linear, names: Mapping[Hashable, str]) -> str:
    terms = [f"{coefficient!r}*{names[key]}" for key, coefficient in form.terms]
    return " + ".join([repr(form.constant)] * (form.constant != 0.0 or not terms) + terms)


def _least(ways: Sequence[str]) -> str:
    return ways[0] if len(ways) == 1 else f"min({', '.join(ways)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainLaw:
    """A dense decoder on one roof:  t = t0 + max(flops / π, bytes / β).

        flops = 2·P·(B + x) + 4·L·H·(ctx + pairs)          bytes = W + κ·(ctx + past + B + x)

    of x prompt tokens with `pairs` visible (query, key) pairs, after `past` tokens of their prompts.

    Attributes
    ----------
    matmul_params : float
        P: parameters a token is multiplied by [1].
    weight_bytes, kv_bytes_per_token : float
        W, κ [B].
    n_layers, heads_dim : int
        L; H: query heads times their width [1].
    peak_flops_per_s, hbm_bytes_per_s : float
        π, β.
    step_s : float
        t0: what every step costs besides [s].

    Examples
    --------
    An 8B model on an H100 at six tenths of its peak: one decode at 1,024 tokens takes 9 ms, of which 6 are the weights.

    >>> law = PlainLaw(matmul_params=7.5e9, weight_bytes=16.06e9, kv_bytes_per_token=131072, n_layers=32, heads_dim=4096,
    ...                peak_flops_per_s=593.4e12, hbm_bytes_per_s=2.68e12, step_s=3e-3)
    >>> round(1e3 * law.seconds(1, 1024, (), ()), 2)
    9.04
    """

    matmul_params: float
    weight_bytes: float
    kv_bytes_per_token: float
    n_layers: int
    heads_dim: int
    peak_flops_per_s: float
    hbm_bytes_per_s: float
    step_s: float = 0.0

    @property
    def windows(self) -> tuple[Window, ...]:
        """None: every token sees all before it."""
        return ()

    def seconds(self, n_decodes: int, context: int, within: Sequence[int], chunks: Sequence[Chunk]) -> float:
        """One step  [s]."""
        tokens = pairs = past = 0
        for x, before, _ in chunks:
            tokens += x
            pairs += x * before + x * (x + 1) // 2
            past += before
        flops = 2 * self.matmul_params * (n_decodes + tokens) + 4 * self.n_layers * self.heads_dim * (context + pairs)
        moved = self.weight_bytes + self.kv_bytes_per_token * (context + past + n_decodes + tokens)
        return self.step_s + max(flops / self.peak_flops_per_s, moved / self.hbm_bytes_per_s)

    def decoding(
        self, n_decodes: int, context: int, within: Sequence[int], growing: Sequence[int], n_steps: int
    ) -> NDArray[np.float64]:
        """So many steps of the same decodes, one after another  [s]."""
        contexts = context + n_decodes * np.arange(n_steps)
        flops = 2 * self.matmul_params * n_decodes + 4 * self.n_layers * self.heads_dim * contexts
        moved = self.weight_bytes + self.kv_bytes_per_token * (contexts + n_decodes)
        slower = np.maximum(flops / self.peak_flops_per_s, moved / self.hbm_bytes_per_s)
        return np.asarray(self.step_s + slower, dtype=np.float64)

    def alike(
        self, n_decodes: Num, context: Num, within: Sequence[Num], n_chunks: Num, chunk: Part
    ) -> NDArray[np.float64]:
        """Steps with so many decodes and so many chunks that are alike  [s]."""
        x, before, _ = chunk
        rows = n_decodes + n_chunks * x
        pairs = n_chunks * (x * before + x * (x + 1.0) * 0.5)
        flops = 2.0 * self.matmul_params * rows + 4.0 * self.n_layers * self.heads_dim * (context + pairs)
        moved = self.weight_bytes + self.kv_bytes_per_token * (context + n_chunks * before + rows)
        slower = np.maximum(flops / self.peak_flops_per_s, moved / self.hbm_bytes_per_s)
        return np.asarray(self.step_s + slower, dtype=np.float64)
