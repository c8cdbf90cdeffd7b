"""The tiny models of the proof: one a kind of layer, of two or three layers 32 wide, in the records real models have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from roofline.errors import UnknownName, did_you_mean, shown
from roofline.specs.model import Model

__all__ = ["KIND_NAMES", "Kind", "kind_named", "kinds"]

KIND_NAMES = ("mha", "gqa", "mqa", "window", "chunks", "mla", "moe", "plain", "encoder-decoder", "cross")

D, WINDOW = 32, 5
ROPE, LEARNED = {"kind": "rope"}, {"kind": "learned", "rows": 64}
GATED, PLAIN = {"kind": "dense", "d_ff": 48}, {"kind": "dense", "d_ff": 64, "gated": False, "bias": True}
LAYER_NORM = {"kind": "layer", "bias": True}


@dataclass(frozen=True, slots=True)
class Kind:
    """What is proven about: its name, what it is in words, and its model."""

    name: str
    title: str
    model: Model


def kind_named(name: str) -> Kind:
    """A kind by its name.

    >>> kind_named("gqa").title
    'GQA: 4 query heads on 2 KV heads'
    """
    known = kinds()
    if name not in known:
        raise UnknownName(f"no kind named {shown(name)}; there are {', '.join(known)}{did_you_mean(name, known)}")
    return known[name]


def _heads(n_heads: int, n_kv_heads: int, **more: Any) -> dict[str, Any]:
    return {"kind": "attention", "n_heads": n_heads, "n_kv_heads": n_kv_heads, "d_head": 8} | more


def _model(name: str, *layers: Mapping[str, Any], repeat: int = 2, **outside: Any) -> Model:
    spec = {
        "id": f"tiny-{name}", "name": f"Tiny {name}", "dtype": "bf16", "d_model": D, "vocab_size": 50,
        "max_context_tokens": 4096, "layers": ({"repeat": repeat, "layers": layers},),
    }  # fmt: skip
    return Model.read(spec | outside, where=f"tiny-{name}")


def _latent() -> Model:
    mixer = {
        "kind": "latent", "n_heads": 4, "d_latent": 16, "d_rope": 4, "d_nope": 8, "d_value": 8, "d_q_latent": 12,
    }  # fmt: skip
    return _model("mla", {"mixer": mixer, "ffn": GATED})


def _mixture() -> Model:
    routed = {"kind": "moe", "n_experts": 4, "n_active_experts": 2, "d_ff": 16, "d_shared": 24, "shared_gate": True}
    return _model("moe", {"mixer": _heads(4, 2), "ffn": GATED}, {"mixer": _heads(4, 2), "ffn": routed}, repeat=1)


def _translating() -> Model:
    """A text encoder that sees both ways, in the decoder's own table; every layer attends to it."""
    cross = {"kind": "cross_attention", "n_heads": 4, "n_kv_heads": 4, "d_head": 8, "d_memory": D}
    tower = {
        "kind": "text", "d_model": D, "feeds": "memory", "shares_embedding": True, "n_norms": 1, "norm": LAYER_NORM,
        "layers": ({"repeat": 2, "layers": ({"mixer": _heads(4, 4, causal=False), "ffn": PLAIN},)},),
    }  # fmt: skip
    layer = {"mixer": _heads(4, 4), "cross": cross, "ffn": PLAIN, "n_norms": 3}
    return _model("encoder-decoder", layer, towers=(tower,), norm=LAYER_NORM, positions=LEARNED, head={"tied": True})


def _seeing() -> Model:
    """A vision tower of another width; one layer in two attends to it, and only that."""
    cross = {
        "kind": "cross_attention", "n_heads": 4, "n_kv_heads": 2, "d_head": 8, "d_memory": D, "qk_norm": True,
    }  # fmt: skip
    tower = {
        "kind": "vision", "d_model": 24, "feeds": "memory", "norm": LAYER_NORM, "n_norms": 1,
        "vectors": {"positions": 9 * 24},
        "stem": ({"name": "patches", "d_in": 12, "d_out": 24},),
        "layers": ({"layers": ({"mixer": _heads(3, 3, causal=False), "ffn": PLAIN},)},),
        "projector": ({"name": "project", "d_in": 24, "d_out": D, "bias": True},),
    }  # fmt: skip
    return _model("cross", {"mixer": _heads(4, 2), "ffn": GATED}, {"cross": cross, "ffn": GATED}, towers=(tower,))


@cache
def kinds() -> Mapping[str, Kind]:
    """All of them, by name."""
    listed = (
        Kind("mha", "MHA: 4 heads", _model("mha", {"mixer": _heads(4, 4), "ffn": GATED})),
        Kind(
            "gqa",
            "GQA: 4 query heads on 2 KV heads",
            _model("gqa", {"mixer": _heads(4, 2, qk_norm="head", qkv_bias=True), "ffn": GATED}, head={"tied": True}),
        ),
        Kind(
            "mqa",
            "MQA: 4 query heads on 1, beside the FFN",
            _model("mqa", {"mixer": _heads(4, 1), "ffn": PLAIN, "n_norms": 1, "parallel": True}, norm=LAYER_NORM),
        ),
        Kind(
            "window",
            "a window of 5 tokens in every other layer",
            _model("window", {"mixer": _heads(4, 2, window=WINDOW), "ffn": GATED, "n_norms": 4},
                   {"mixer": _heads(4, 2), "ffn": GATED, "n_norms": 4}),
        ),
        Kind(
            "chunks",
            "chunks of 4 tokens, sinks, an output gate",
            _model("chunks", {"mixer": _heads(4, 2, window=4, chunked=True, sinks=True, gated=True), "ffn": GATED}),
        ),
        Kind("mla", "MLA: latents of 16 + 4 for 4 heads", _latent()),
        Kind("moe", "MoE: 2 of 4 experts, and a shared one", _mixture()),
        Kind(
            "plain",
            "plain FFN, biases, learned positions, tied head",
            _model("plain", {"mixer": _heads(4, 4, qkv_bias=True, out_bias=True), "ffn": PLAIN}, norm=LAYER_NORM,
                   positions=LEARNED, head={"tied": True}),
        ),
        Kind("encoder-decoder", "cross-attention to a text encoder", _translating()),
        Kind("cross", "layers that attend to images alone", _seeing()),
    )  # fmt: skip
    return {kind.name: kind for kind in listed}
