"""What a query sees: everything before it, a window, a chunk; or, in an encoder, everything around it.

One place for the arithmetic of (query, key) pairs: closed forms, no branch on a number.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from roofline.num import Num, same
from roofline.specs.mixers import Attention

__all__ = ["ALL", "Sight", "cached", "pairs", "rectangle", "seen"]


@dataclass(frozen=True, slots=True)
class Sight:
    """`window` W (none: no limit); `chunked`: W is a block that does not slide; not `causal`: later tokens are seen too."""

    window: int | None = None
    chunked: bool = False
    causal: bool = True

    @classmethod
    def of(cls, mixer: Attention) -> Sight:
        """That of an attention layer: its window, or as many tokens as an indexer picks."""
        window = mixer.window if mixer.indexer is None else mixer.indexer.top_k
        return cls(window, mixer.chunked, mixer.causal)


ALL = Sight()


def pairs(sight: Sight, *, n_new: Num, n_past: Num) -> Num:
    """(query, key) pairs one sequence forms in a pass.  [1]

        causal               T·S + T·(T + 1)/2
        causal, window       Σ_{i=1..T} min(S + i, W)  =  u·S + u·(u + 1)/2 + (T − u)·W,    u = clip(W − S, 0, T)
        causal, chunks       c(S + T) − c(S),    c(n) = ⌊n/W⌋·W·(W + 1)/2 + r·(r + 1)/2,    r = n mod W
        encoder              T·(S + T)
        encoder, window      n·(2u + 1) − u·(u + 1),    n = S + T,  u = min(⌊W/2⌋, n − 1): ⌊W/2⌋ tokens on either side
        encoder, blocks      ⌊n/W⌋·W² + r²

    u in a window is how many of the T queries still see everything before them; without a window u = T.

    Parameters
    ----------
    sight : Sight
        In a causal window a query sees itself and the W − 1 tokens before it; in a chunk, its own chunk up to itself.
    n_new, n_past : Num
        T and S [token].

    Returns
    -------
    Num
        Shape: broadcast of n_new, n_past.

    Examples
    --------
    A prompt of 4: 1 + 2 + 3 + 4. With a window of 2: 1 + 2 + 2 + 2; in chunks of 3: 1 + 2 + 3 + 1. One token after 4: 5.

    >>> [pairs(s, n_new=4.0, n_past=0.0) for s in (ALL, Sight(2), Sight(3, chunked=True), Sight(causal=False))]
    [10.0, 7.0, 7.0, 16.0]
    >>> pairs(ALL, n_new=1.0, n_past=4.0)
    5.0
    """
    if not sight.causal:
        return _mutual_pairs(sight, n=n_new + n_past, n_new=n_new)
    if sight.window is None:
        return n_new * n_past + n_new * (n_new + 1.0) * 0.5
    if sight.chunked:
        return same(_chunk_pairs(n_past + n_new, sight.window) - _chunk_pairs(n_past, sight.window), n_new, n_past)
    u = np.clip(sight.window - n_past, 0.0, n_new)
    return same(u * n_past + u * (u + 1.0) * 0.5 + (n_new - u) * float(sight.window), n_new, n_past)


def _chunk_pairs(n: Num, width: int) -> Num:
    """c(n): pairs of the first n tokens in chunks."""
    whole, rest = np.divmod(n, float(width))
    return whole * (width * (width + 1.0) * 0.5) + rest * (rest + 1.0) * 0.5


def _mutual_pairs(sight: Sight, *, n: Num, n_new: Num) -> Num:
    """Pairs where later tokens are seen too; all n of a sequence are new wherever a window limits them."""
    if sight.window is None:
        return n_new * n
    if sight.chunked:
        whole, rest = np.divmod(n, float(sight.window))
        return same(whole * float(sight.window) ** 2 + rest * rest, n)
    u = np.minimum(float(sight.window // 2), np.maximum(n - 1.0, 0.0))
    return same(n * (2.0 * u + 1.0) - u * (u + 1.0), n)


def seen(sight: Sight, *, n_past: Num) -> Num:
    """Cached tokens that at least one query of the pass sees.  [token]

        S        without a window
        min(S, W − 1)   in a window: the first query sees the furthest back, itself and the W − 1 before it
        S mod W  in chunks: what there is of the running one

    >>> seen(Sight(64), n_past=100.0), seen(Sight(64, chunked=True), n_past=100.0), seen(ALL, n_past=100.0)
    (63.0, 36.0, 100.0)
    """
    if sight.window is None or not sight.causal:
        return n_past
    if sight.chunked:
        return same(np.mod(n_past, float(sight.window)), n_past)
    return same(np.minimum(n_past, sight.window - 1.0), n_past)


def cached(sight: Sight, *, n_past: Num) -> Num:
    """Cached tokens a rolling cache offers to a pass: min(S, W − 1), or S without a window.  [token]

    A chunked cache rolls as a window does: engines drop what is W behind, not a chunk at a time.

    >>> cached(Sight(64, chunked=True), n_past=100.0)
    63.0
    """
    if sight.window is None or not sight.causal:
        return n_past
    return same(np.minimum(n_past, sight.window - 1.0), n_past)


def rectangle(sight: Sight, *, n_new: Num, n_past: Num) -> Num:
    """(query, key) pairs of an execution that skips no masked one: T · (cached + T).  [1]

    Blocks of an encoder are sequences of their own, each a square of its own: the same as `pairs`.

    >>> rectangle(Sight(64), n_new=2.0, n_past=100.0), rectangle(Sight(4, chunked=True, causal=False), n_new=8.0, n_past=0.0)
    (130.0, 32.0)
    """
    if sight.chunked and not sight.causal:
        return pairs(sight, n_new=n_new, n_past=n_past)
    return n_new * (cached(sight, n_past=n_past) + n_new)
