"""Multi-head latent attention, in both of its forms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

import numpy as np

from roofline.evidence.reference.attention import Span, attend, rms, turned
from roofline.evidence.reference.cache import Cache
from roofline.evidence.reference.counter import Array, Counter, Weight
from roofline.specs.mixers import Latent
from roofline.specs.model import Positions

__all__ = ["Form", "latent_attention"]

Form: TypeAlias = Literal["absorbed", "expanded"]


def latent_attention(
    counter: Counter,
    w: Mapping[str, Weight],
    x: Latent,
    rows: Array,
    spans: Sequence[Span],
    caches: Sequence[Cache],
    *,
    form: Form,
    positions: Positions,
) -> tuple[Array, list[Cache]]:
    """The mixer's output for every row, and each sequence's cache of latents and rotated keys with the new ones in it.

    Expanded, keys and values of all tokens there are come from the latents, in every pass; absorbed, the queries meet the
    latents themselves, and what they take from them is turned into values last. The same function, counted apart.
    """
    n, p = x.n_heads, x.d_nope
    q = _queries(counter, w, x, rows).reshape(len(rows), n, p + x.d_rope)
    down = counter.linear("kv_a_proj", rows, w["kv_a"])
    latents = rms(down[:, : x.d_latent]) * counter.vector("elementwise", w["kv_norm"])
    mixed, kept = np.empty((len(rows), n * x.d_value)), []
    for span, cache in zip(spans, caches, strict=True):
        shared = turned(down[span.rows, None, x.d_latent :], span, positions)[:, 0]
        turning = turned(q[span.rows, :, p:], span, positions)
        there = cache.extended(latents[span.rows], shared)
        counter.kv_write("attention", there, span.n_new)
        counter.kv_read("attention", there, np.arange(len(there.numbers)) < span.n_past)
        run = _absorbed if form == "absorbed" else _expanded
        out = run(counter, w, x, (q[span.rows, :, :p], turning), there, span)
        mixed[span.rows] = out.reshape(span.n_new, -1)
        kept.append(there)
    return counter.linear("o_proj", mixed, w["o"]), kept


def _queries(counter: Counter, w: Mapping[str, Weight], x: Latent, rows: Array) -> Array:
    if x.d_q_latent is None:
        return counter.linear("q_proj", rows, w["q"])
    down = rms(counter.linear("q_a_proj", rows, w["q_a"])) * counter.vector("elementwise", w["q_norm"])
    return counter.linear("q_b_proj", down, w["q_b"])


def _expanded(
    counter: Counter, w: Mapping[str, Weight], x: Latent, query: tuple[Array, Array], there: Cache, span: Span
) -> Array:
    """Every head's keys (nope, then the rotated part all share) and values, of every token there is."""
    latents, shared = there.rows
    keys = counter.linear("k_b_proj", latents, w["k_b"]).reshape(len(latents), x.n_heads, x.d_nope)
    values = counter.linear("v_b_proj", latents, w["v_b"]).reshape(len(latents), x.n_heads, x.d_value)
    keys = np.concatenate([keys, np.repeat(shared[:, None], x.n_heads, axis=1)], axis=2)
    heads = np.concatenate(query, axis=2)
    return np.stack([
        attend(counter, "attention", heads[i], keys[: position + 1], values[: position + 1])
        for i, position in enumerate(span.positions)
    ])  # fmt: skip


def _absorbed(
    counter: Counter, w: Mapping[str, Weight], x: Latent, query: tuple[Array, Array], there: Cache, span: Span
) -> Array:
    """Queries of the latents' width: all heads meet one shared key a token, and take a mean of latents."""
    latents, shared = there.rows
    k_b = w["k_b"].values.reshape(x.d_latent, x.n_heads, x.d_nope).transpose(1, 2, 0)
    v_b = w["v_b"].values.reshape(x.d_latent, x.n_heads, x.d_value).transpose(1, 0, 2)
    into = counter.matmul("k_b_proj", query[0].transpose(1, 0, 2), k_b, of=w["k_b"]).transpose(1, 0, 2)
    heads, keys = np.concatenate([into, query[1]], axis=2), np.concatenate([latents, shared], axis=1)
    scale = 1.0 / np.sqrt(x.d_nope + x.d_rope)
    means = np.stack([
        attend(counter, "attention", heads[i], keys[: position + 1, None], latents[: position + 1, None], scale=scale)
        for i, position in enumerate(span.positions)
    ])  # fmt: skip
    return counter.matmul("v_b_proj", means.transpose(1, 0, 2), v_b, of=w["v_b"]).transpose(1, 0, 2)
