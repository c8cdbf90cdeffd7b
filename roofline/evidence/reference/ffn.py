"""Feed-forward blocks, and mixtures of which every token passes a few."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from roofline.evidence.reference.attention import sigmoid, softmax
from roofline.evidence.reference.counter import Array, Counter, Weight
from roofline.evidence.reference.weights import LayerWeights
from roofline.specs.ffns import Dense, Moe

__all__ = ["dense", "experts", "ffn"]

Named: TypeAlias = Mapping[str, Weight]


def ffn(counter: Counter, layer: LayerWeights, rows: Array) -> Array:
    """A layer's block of either kind, or the one matrix that stands in its place."""
    match layer.layer.ffn:
        case Dense() as x:
            return dense(counter, layer.ffn, rows, gated=x.gated)
        case Moe() as x:
            return _mixture(counter, layer, x, rows)
        case _:
            return counter.linear("linear_ffn", rows, layer.ffn["linear"])


def dense(counter: Counter, w: Named, rows: Array, *, gated: bool, prefix: str = "") -> Array:
    """down(silu(gate(x)) · up(x)), or down(gelu(up(x)))."""
    gate = counter.linear(f"{prefix}gate_proj", rows, w[f"{prefix}gate"]) if gated else None
    up = counter.linear(f"{prefix}up_proj", rows, w[f"{prefix}up"])
    inner = up * sigmoid(1.702 * up) if gate is None else gate * sigmoid(gate) * up
    return counter.linear(f"{prefix}down_proj", inner, w[f"{prefix}down"])


def _mixture(counter: Counter, layer: LayerWeights, x: Moe, rows: Array) -> Array:
    scores = counter.linear("router", rows, layer.ffn["router"])
    picks = np.argsort(-scores, axis=1, kind="stable")[:, : x.n_active_experts]
    shares = softmax(np.take_along_axis(scores, picks, axis=1))
    narrow = rows if x.d_latent is None else counter.linear("latent_down_proj", rows, layer.ffn["latent_down"])
    out = experts(counter, layer, x, narrow, picks, shares)
    out = out if x.d_latent is None else counter.linear("latent_up_proj", out, layer.ffn["latent_up"])
    if x.d_shared is None:
        return out
    shared = dense(counter, layer.ffn, rows, gated=x.gated, prefix="shared_")
    if x.shared_gate:
        shared = shared * sigmoid(counter.linear("shared_scale_proj", rows, layer.ffn["shared_scale"]))
    return out + shared


def experts(
    counter: Counter, layer: LayerWeights, x: Moe, rows: Array, picks: NDArray[np.int64], shares: Array
) -> Array:
    """Every touched expert over the rows sent to it; an expert no row is sent to is not read."""
    out = np.zeros_like(rows)
    for number, w in enumerate(layer.experts):
        sent, slot = np.nonzero(picks == number)
        if len(sent):
            made = dense(counter, w, rows[sent], gated=x.gated, prefix="expert_")
            out[sent] += shares[sent, slot, None] * made
    return out
