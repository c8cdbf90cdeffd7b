"""Softmax attention as it is written down: query by query, over the keys that query sees and no others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from roofline.evidence.reference.cache import Cache
from roofline.evidence.reference.counter import Array, Counter, Weight
from roofline.specs.mixers import Attention, CrossAttention
from roofline.specs.model import Positions

__all__ = [
    "Span", "attend", "cross_attention", "normed", "rms", "rotated", "self_attention", "sigmoid", "softmax", "turned",
    "visible",
]  # fmt: skip

Named = Mapping[str, Weight]
EPSILON = 1e-6


@dataclass(frozen=True, slots=True)
class Span:
    """The rows that one sequence has in a pass, and how many of its tokens came before them."""

    rows: slice
    n_past: int = 0

    @property
    def n_new(self) -> int:
        """T  [token]."""
        return int(self.rows.stop - self.rows.start)

    @property
    def positions(self) -> range:
        """Of its tokens in their sequence."""
        return range(self.n_past, self.n_past + self.n_new)


def visible(x: Attention, position: int, n_tokens: int) -> tuple[int, int]:
    """The first token that a query attends to and one past the last, of n_tokens there are.

    >>> wide = Attention(n_heads=1, n_kv_heads=1, d_head=2)
    >>> [visible(wide.model_copy(update=how), 6, 8) for how in ({}, {"window": 3}, {"window": 4, "chunked": True})]
    [(0, 7), (4, 7), (4, 7)]
    >>> [visible(wide.model_copy(update={"causal": False} | how), 6, 8) for how in ({}, {"window": 3})]
    [(0, 8), (5, 8)]
    """
    low, high, w = 0, n_tokens, x.window
    if w is not None and x.chunked:
        low, high = position // w * w, (position // w + 1) * w
    elif w is not None:
        low, high = (position - w + 1, n_tokens) if x.causal else (position - w // 2, position + w // 2 + 1)
    return max(low, 0), min(high, position + 1 if x.causal else n_tokens)


def self_attention(
    counter: Counter,
    w: Named,
    x: Attention,
    rows: Array,
    spans: Sequence[Span],
    caches: Sequence[Cache],
    *,
    positions: Positions,
    masked: bool = True,
) -> tuple[Array, list[Cache]]:
    """The mixer's output for every row, and each sequence's cache with the new tokens in it.

    `caches` hold what came before; of a mixer that reads an earlier layer's, what that layer holds with the new tokens.
    Keys of this pass are at hand; those before it are read. An encoder keeps nothing; `masked` false lifts the causal mask.
    """
    q, gate = _queries(counter, w, x, rows)
    made = _keys_and_values(counter, w, x, rows)
    sees = x if masked else x.model_copy(update={"causal": False})
    mixed, kept = np.empty((len(rows), x.n_heads * x.d_v)), []
    for span, cache in zip(spans, caches, strict=True):
        queries = turned(q[span.rows], span, positions)
        there = cache
        if made is not None:
            keys, values = (part[span.rows] for part in made)
            there = cache.extended(turned(keys, span, positions), values)
            counter.kv_write("attention", there, span.n_new if x.caches else 0)
        wanted = np.zeros(len(there.numbers), dtype=bool)
        for row, position in zip(range(span.rows.start, span.rows.stop), span.positions, strict=True):
            low, high = visible(sees, position, there.n_tokens)
            wanted[low - there.first : span.n_past - there.first] = True
            bias = _distance(x, position, low, high) if positions.kind == "alibi" else None
            query = queries[position - span.n_past]
            out = attend(counter, "attention", query, *there.between(low, high), bias=bias, sinks=_sinks(counter, w))
            mixed[row] = out.ravel()
        counter.kv_read("attention", there, wanted)
        kept.append(there)
    if gate is not None:
        mixed = (mixed.reshape(*gate.shape[:2], -1) * sigmoid(gate)).reshape(mixed.shape)
    return counter.linear("o_proj", mixed, w["o"]), kept


def attend(
    counter: Counter,
    op: str,
    query: Array,
    keys: Array,
    values: Array,
    *,
    bias: Array | None = None,
    sinks: Array | None = None,
    scale: float | None = None,
) -> Array:
    """One token's heads (N, H) over keys (n, K, H) and values (n, K, Hv): (N, Hv). Each KV head serves N/K of them."""
    n_kv, scale = keys.shape[1], scale or 1.0 / np.sqrt(query.shape[1])
    grouped = query.reshape(n_kv, len(query) // n_kv, -1)
    scores = counter.matmul(op, grouped, keys.transpose(1, 2, 0), name="scores") * scale
    scores = scores if bias is None else scores + bias.reshape(scores.shape)
    shares = softmax(scores, None if sinks is None else sinks.reshape(*grouped.shape[:2], 1))
    return counter.matmul(op, shares, values.transpose(1, 0, 2), name="values").reshape(len(query), -1)


def softmax(scores: Array, sinks: Array | float | None = None) -> Array:
    """Over the last axis; a sink is one more score, whose share goes nowhere."""
    top = scores.max(axis=-1, keepdims=True)
    shares = np.exp(scores - top)
    rest = 0.0 if sinks is None else np.exp(sinks - top)
    return np.asarray(shares / (shares.sum(axis=-1, keepdims=True) + rest))


def cross_attention(
    counter: Counter,
    w: Named,
    x: CrossAttention,
    rows: Array,
    spans: Sequence[Span],
    caches: Sequence[Cache],
    outputs: Sequence[Array],
) -> tuple[Array, list[Cache]]:
    """Attention of every row over all that a tower gave its sequence; keys and values of new outputs are made, once.

    Every entry is read, those stored in this pass too; at least those that were there before it.
    """
    q = counter.linear("cross_q_proj", rows, w["q"]).reshape(len(rows), x.n_heads, x.d_head)
    q = q if not x.qk_norm else rms(q) * counter.vector("elementwise", w["q_norm"])
    k_norm = counter.vector("elementwise", w["k_norm"]) if x.qk_norm else 1.0  # comes with the layer's other vectors
    source, made = np.concatenate(outputs), []
    if len(source):
        made = [counter.linear(f"cross_{r}_proj", source, w[r]).reshape(-1, x.n_kv_heads, x.d_head) for r in "kv"]
        made[0] = rms(made[0]) * k_norm if x.qk_norm else made[0]
    mixed, kept, start = np.zeros((len(rows), x.n_heads * x.d_head)), [], 0
    for span, cache, output in zip(spans, caches, outputs, strict=True):
        there = cache.extended(*(part[start : start + len(output)] for part in made)) if len(output) else cache
        start += len(output)
        counter.kv_write("cross_attention", there, len(output))
        new = np.arange(len(there.numbers)) >= len(cache.numbers)
        counter.kv_read("cross_attention", there, ~new)
        counter.kv_read("cross_attention", there, new, stored=False)
        for row in range(span.rows.start, span.rows.stop) if len(there.numbers) else ():
            mixed[row] = attend(counter, "cross_attention", q[row], *there.rows).ravel()
        kept.append(there)
    return counter.linear("cross_o_proj", mixed, w["o"]), kept


def _queries(counter: Counter, w: Named, x: Attention, rows: Array) -> tuple[Array, Array | None]:
    """(rows, N, H) queries, and the output gate (rows, N, Hv or 1) where there is one."""
    n, wide = x.n_heads, x.n_heads * x.d_head
    made = counter.linear("q_proj", rows, w["q"])
    gate = made[:, wide:] if x.gated is True else None
    if isinstance(x.gated, str):
        gate = counter.linear("out_gate_proj", rows, w["out_gate"])
    q = _head_normed(counter, w, "q", made[:, :wide], n, x)
    return q, None if gate is None else gate.reshape(len(rows), n, -1)


def _keys_and_values(counter: Counter, w: Named, x: Attention, rows: Array) -> tuple[Array, Array] | None:
    """(rows, K, H) keys and (rows, K, Hv) values; none of a mixer that reads an earlier layer's."""
    if x.values == "earlier":
        return None
    k = counter.linear("k_proj", rows, w["k"])
    v = k if x.values == "keys" else counter.linear("v_proj", rows, w["v"])
    return _head_normed(counter, w, "k", k, x.n_kv_heads, x), v.reshape(len(rows), x.n_kv_heads, x.d_v)


def _head_normed(counter: Counter, w: Named, name: str, made: Array, n_heads: int, x: Attention) -> Array:
    """Split into heads, normed over each or over the whole width."""
    heads = made.reshape(len(made), n_heads, x.d_head)
    if x.qk_norm == "none":
        return heads
    scale = counter.vector("elementwise", w[f"{name}_norm"])
    shift = counter.vector("elementwise", w[f"{name}_norm_bias"]) if x.norm_bias else 0.0
    if x.qk_norm == "head":
        return np.asarray(rms(heads) * scale + shift)
    return np.asarray(rms(made) * scale + shift).reshape(heads.shape)


def turned(heads: Array, span: Span, positions: Positions) -> Array:
    """Heads as their tokens' positions turn them, where positions are rotated in."""
    return rotated(heads, span.positions) if positions.kind == "rope" else heads


def rotated(heads: Array, positions: Sequence[int]) -> Array:
    """Rotary embedding of (T, n, d): pairs (i, i + d/2) turned by position · 10000^(−2i/d); an odd last one stays."""
    half = heads.shape[-1] // 2
    angles = np.asarray(positions, dtype=float)[:, None] * 10000.0 ** (-np.arange(half) / max(half, 1))
    cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
    a, b, rest = heads[..., :half], heads[..., half : 2 * half], heads[..., 2 * half :]
    return np.concatenate([a * cos - b * sin, a * sin + b * cos, rest], axis=-1)


def _distance(x: Attention, position: int, low: int, high: int) -> Array:
    """ALiBi: the further back, the lower the score; 2^(−8(h + 1)/N) a token for head h."""
    slopes = 2.0 ** (-8.0 * np.arange(1, x.n_heads + 1) / x.n_heads)
    return np.asarray(-slopes[:, None] * np.abs(position - np.arange(low, high)))


def _sinks(counter: Counter, w: Named) -> Array | None:
    return counter.vector("elementwise", w["sinks"]) if "sinks" in w else None


def rms(x: Array) -> Array:
    """x / √(mean x² + ε) over the last axis."""
    return np.asarray(x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + EPSILON))


def normed(x: Array, *, centred: bool) -> Array:
    """RMS norm, or layer norm where the mean is taken off first."""
    return rms(x - x.mean(axis=-1, keepdims=True)) if centred else rms(x)


def sigmoid(x: Array) -> Array:
    """1 / (1 + e^−x)."""
    return np.asarray(1.0 / (1.0 + np.exp(-x)))
