"""Gemma 3n and 4: shared caches and an input of each layer's own; streams in one, wider heads and experts in the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from roofline.errors import Unsupported
from roofline.specs.ffns import Dense, Moe
from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.families.common import Shape, attention, heads, layer_words, sparse, stack
from roofline.specs.huggingface.families.dense import every
from roofline.specs.huggingface.families.llama import WINDOWED, biases
from roofline.specs.layers import Layer
from roofline.specs.mixers import Attention

__all__ = ["FAMILIES", "gemma3n_text", "gemma4_text"]


@dataclass(frozen=True)
class Kind:
    """What tells one layer from another: whether it slides, or reads an earlier layer's cache; its KV heads, their width."""

    slides: bool
    shares: bool
    n_kv_heads: int
    d_head: int


def gemma4_text(c: Config) -> Shape:
    """Gemma 4: a window of 512 on all but every sixth layer and never on the last.

    Layers that see all have heads of `global_head_dim`, and with `attention_k_eq_v` fewer of them and no v matrix. The last
    `num_kv_shared_layers` read an earlier layer's cache, with a block twice as wide if `use_double_wide_mlp`.
    """
    c = sparse(c, vocab=262_144, width=2304, ff=9216, layers=30, heads=8, context=131_072)
    n_layers = c.n_layers()
    kinds = _kinds(c, n_layers)
    d_side = c.whole("hidden_size_per_layer_input", absent=256, null=0, least=0) or None
    layers = {kind: _layer(c, kind, d_side=d_side) for kind in set(kinds)}
    shape = stack(c, [layers[kind] for kind in kinds], tied_by_default=True)
    return shape | _side(c, d_side)


def _side(c: Config, d_side: int | None) -> Shape:
    """The second table, of each layer's own input, where there is one."""
    if d_side is None:
        return {}
    rows = c.whole("vocab_size_per_layer_input", absent=262_144, most=100_000_000)
    return {"side_embedding": {"width": d_side, "vocab_size": rows}}


def _layer_kinds(c: Config, n_layers: int, *, period: int) -> list[bool]:
    """Which layers slide: all but every so many, or as `layer_types` say."""
    words = layer_words(c, n_layers, among=WINDOWED, absent=f"every {period}th full")
    full = every(period)
    return [not full(i) for i in range(n_layers)] if words is None else [w == "sliding_attention" for w in words]


def _n_shared(c: Config, slides: list[bool], *, absent: int) -> int:
    """How many of the last layers read an earlier cache: all, in an assistant; else each kind has one before to keep it."""
    n_layers = len(slides)
    n = c.whole("num_kv_shared_layers", absent=absent, least=0, most=n_layers)
    if 0 < n < n_layers and set(slides[: n_layers - n]) != set(slides):
        raise c.wrong("num_kv_shared_layers", "fewer, so that each kind of layer has one before that keeps a cache", n)
    return int(n)


def _kinds(c: Config, n_layers: int) -> list[Kind]:
    slides = [*_layer_kinds(c, n_layers, period=6)[:-1], False]
    first_shared = n_layers - _n_shared(c, slides, absent=0)
    _, n_kv, d_head = heads(c, kv_absent=4, head_dim_absent=256)
    own = _overrides(c, slides, n_kv=n_kv, d_head=d_head)
    return [Kind(slides[i], i >= first_shared, *own.get(i, (n_kv, d_head))) for i in range(n_layers)]


def _overrides(c: Config, slides: list[bool], *, n_kv: int, d_head: int) -> dict[int, tuple[int, int]]:
    """(K, H) of the layers that differ: those that see all, or those that `per_layer_config` lists, in newer files."""
    if c.given("per_layer_config"):
        return _listed(c.section("per_layer_config"), len(slides), n_kv=n_kv, d_head=d_head)
    d_global = c.whole("global_head_dim", absent=512)
    n_global = c.whole("num_global_key_value_heads", absent=None, null=None, most=100_000)
    if n_global is None or not c.flag("attention_k_eq_v", absent=False):
        n_global = n_kv
    return {i: (n_global, d_global) for i, sliding in enumerate(slides) if not sliding}


def _listed(listed: Config, n_layers: int, *, n_kv: int, d_head: int) -> dict[int, tuple[int, int]]:
    found = {}
    for key in listed.data:
        if not (key.isascii() and key.isdigit() and int(key[:8]) < n_layers and len(key) <= 8):
            raise listed.wrong(key, f"layers from 0 to {n_layers - 1}", key)
        own = listed.section(key)
        others = sorted(set(own.data) - {"head_dim", "num_key_value_heads"})
        if others:
            raise Unsupported(f"{own.place(others[0])}: only head_dim and num_key_value_heads of one layer are read")
        found[int(key)] = (
            own.whole("num_key_value_heads", absent=n_kv, most=100_000) if own.data else n_kv,
            own.whole("head_dim", absent=d_head) if own.data else d_head,
        )
    return found


def _layer(c: Config, kind: Kind, *, d_side: int | None) -> Layer:
    n = heads(c, kv_absent=4, head_dim_absent=256)[0]
    if n % kind.n_kv_heads:
        raise c.wrong("num_global_key_value_heads", f"a divisor of num_attention_heads={n}", kind.n_kv_heads)
    moe = c.flag("enable_moe_block", absent=False)
    return Layer(
        mixer=_attention(c, kind, n),
        ffn=_moe(c, kind) if moe else Dense(d_ff=_d_ff(c, kind)),
        n_norms=4 + (1 if d_side else 0) + (3 if moe else 0),
        d_side=d_side,
    )


def _attention(c: Config, kind: Kind, n_heads: int) -> Attention:
    both_ways = c.word("use_bidirectional_attention", absent=None, null=None, among=("all", "vision")) == "all"
    window = c.whole("sliding_window", absent=512, most=2**40) if kind.slides else None
    if both_ways and window is not None:
        window = 2 * (window // 2) + 1
    keys_are_values = not kind.slides and c.flag("attention_k_eq_v", absent=False)
    more: dict[str, Any] = {"values": "earlier" if kind.shares else "keys" if keys_are_values else "own"}
    return Attention(
        n_heads=n_heads, n_kv_heads=kind.n_kv_heads, d_head=kind.d_head, window=window, causal=not both_ways,
        qk_norm="head", **more, **biases(c),
    )  # fmt: skip


def _d_ff(c: Config, kind: Kind) -> int:
    wide = kind.shares and c.flag("use_double_wide_mlp", absent=False)
    return int(c.whole("intermediate_size")) * (2 if wide else 1)


def _moe(c: Config, kind: Kind) -> Moe:
    """Experts beside the dense block, each with norms of its own; the router scales its input and each expert's output."""
    n = c.whole("num_experts", most=100_000)
    return Moe(
        n_experts=n,
        n_active_experts=c.whole("top_k_experts", most=n),
        d_ff=c.whole("moe_intermediate_size", "expert_intermediate_size"),
        d_shared=_d_ff(c, kind),
        scales=c.whole("hidden_size") + n,
    )


def gemma3n_text(c: Config) -> Shape:
    """Gemma 3n: four residual streams (AltUp), a low-rank way past each attention, an input of each layer's own.

    A window of 512 on all but every fifth layer; the last fifteen layers read an earlier one's cache.
    """
    c = sparse(c, vocab=262_400, width=2048, ff=None, layers=35, heads=8, context=32_768)
    n_layers, d_model = c.n_layers(), c.whole("hidden_size")
    slides = _layer_kinds(c, n_layers, period=5)
    first_shared = n_layers - _n_shared(c, slides, absent=15)
    kinds = [(slides[i], i >= first_shared, d_ff) for i, d_ff in enumerate(_widths(c, n_layers))]
    d_side = c.whole("hidden_size_per_layer_input", absent=256)
    window = c.whole("sliding_window", absent=512, most=2**40)
    layers = {}
    for sliding, shares, d_ff in set(kinds):
        mixer = attention(
            c, kv_absent=2, head_dim_absent=256, window=window if sliding else None, qk_norm="head",
            values="earlier" if shares else "own", **biases(c),
        )  # fmt: skip
        layers[sliding, shares, d_ff] = Layer(
            mixer=mixer, ffn=Dense(d_ff=d_ff), n_norms=7, vectors=d_model, d_side=d_side,
            d_bypass=c.whole("laurel_rank", absent=64), altup=c.whole("altup_num_inputs", absent=4, least=2, most=64),
        )  # fmt: skip
    return stack(c, [layers[kind] for kind in kinds], tied_by_default=True) | _side(c, d_side)


def _widths(c: Config, n_layers: int) -> list[int]:
    """`intermediate_size`: one for all, or one a layer."""
    if not isinstance(c.data.get("intermediate_size"), list):
        return [c.whole("intermediate_size", absent=16_384)] * n_layers
    widths: list[int] = c.items("intermediate_size", kind=int, length=n_layers)
    for width in widths:
        if not 1 <= width <= 10_000_000:
            raise c.wrong("intermediate_size", "widths from 1 to 10,000,000", width)
    return widths


FAMILIES = {"gemma4_text": gemma4_text, "gemma3n_text": gemma3n_text}
