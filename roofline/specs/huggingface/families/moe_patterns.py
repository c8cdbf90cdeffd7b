"""Decoders with mixtures of experts whose layers differ: windows, chunks or head counts in a pattern."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from roofline.specs.ffns import Dense
from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.families.common import RMS_NORM, Shape, attention, basics, sparse, windows
from roofline.specs.huggingface.families.llama import biases, mlp_bias
from roofline.specs.huggingface.families.mixtures import (
    EXPERTS,
    attentions,
    biased,
    blocks,
    by_word,
    experts,
    filled,
    headed,
    listed,
    shared_width,
    sparse_from,
    stacked,
)
from roofline.specs.layers import Norm
from roofline.specs.mixers import Attention

__all__ = ["FAMILIES"]

PLAIN_NORM = Norm(kind="layer")  # a LayerNorm without a bias


def gpt_oss(c: Config) -> Shape:
    """gpt-oss: every other layer from the first has the window; sinks; biases on attention, router and experts."""
    c = filled(c, num_key_value_heads=8, head_dim=64, intermediate_size=2880)
    n = c.n_layers()
    seen = _seen(c, n, 128, full=lambda i: i % 2 == 1, said="every other from the first has the window")
    mixers = attentions(c, seen, sinks=True, **biases(c, by_default=True))
    moe = experts(
        c, active=("num_experts_per_tok", "experts_per_token"), width="intermediate_size", n_absent=128, k_absent=4,
        bias=True, router_bias=True,
    )  # fmt: skip
    return basics(c, tied_by_default=False) | {"layers": stacked(mixers, [moe] * n)}


def llama4_text(c: Config) -> Shape:
    """The text part of Llama 4: chunks where positions are rotated, all tokens where not (every fourth layer).

    Experts and the shared block are as wide as `intermediate_size`, the dense layers of Maverick as `intermediate_size_mlp`.
    """
    c = sparse(c, vocab=202048, width=5120, ff=8192, layers=48, heads=40, context=131072)
    c = filled(c, num_key_value_heads=8, head_dim=128, num_experts_per_tok=1, intermediate_size_mlp=16384)
    n = c.n_layers()
    width = c.whole("intermediate_size")
    moe = experts(c, count=EXPERTS[1:], width="intermediate_size", n_absent=16, d_shared=width)
    ffns = [
        moe if has_experts else Dense(d_ff=c.whole("intermediate_size_mlp")) for has_experts in _llama4_sparse(c, n)
    ]
    chunk = c.whole("attention_chunk_size", absent=8192, null=None, most=2**40)
    whole = attention(c, **biases(c))
    chunked = whole if chunk is None else attention(c, window=chunk, chunked=True, **biases(c))
    rotated = listed(c, "no_rope_layers", length=n if c.data.get("no_rope_layers") else None) or _llama4_rotated(c, n)
    pattern = [chunked if rotates else whole for rotates in rotated]
    words = {"chunked_attention": chunked, "full_attention": whole}
    mixers = by_word(c, "layer_types", words, n_layers=n, absent=pattern, said="chunks where positions are rotated")
    return basics(c, tied_by_default=False) | {"layers": stacked(mixers, ffns)}


def _llama4_rotated(c: Config, n: int) -> list[bool]:
    every = c.whole("no_rope_layer_interval", absent=4)
    return [(i + 1) % every != 0 for i in range(n)]


def _llama4_sparse(c: Config, n: int) -> list[bool]:
    given = listed(c, "moe_layers")
    if given is not None:
        having = set(given)
        return [i in having for i in range(n)]
    step = c.whole("interleave_moe_layer_step", absent=1)
    return [(i + 1) % step == 0 for i in range(n)]


def mimo_v2_flash(c: Config) -> Shape:
    """MiMo-V2-Flash: window layers have their own head counts and widths, and sinks; values narrower than keys.

    `sliding_window_size` counts the tokens before a query, `sliding_window` the query too.
    """
    c = filled(c, num_key_value_heads=4, head_dim=192, v_head_dim=128, moe_intermediate_size=2048)
    c = filled(c, num_experts_per_tok=8, intermediate_size=16384)
    n = c.n_layers()
    full, local = _mimo_attention(c)
    usual = [i > 0 and (i + 1) % 6 > 0 for i in range(n)]
    pattern = [local if here else full for here in listed(c, "hybrid_layer_pattern", length=n) or usual]
    words = {"full_attention": full, "sliding_attention": local}
    mixers = by_word(
        c, "layer_types", words, n_layers=n, absent=pattern, said="as hybrid_layer_pattern, or five windows in six"
    )
    ffns = blocks(c, _mimo_sparse(c, n), experts(c, n_absent=256, d_shared=shared_width(c, absent=0)))
    return basics(c, tied_by_default=False) | {"layers": stacked(mixers, ffns)}


def _mimo_attention(c: Config) -> tuple[Attention, Attention]:
    """(of the layers that see all, of those with a window)."""
    bias = c.flag("attention_bias", absent=False)
    sinks = c.flag("add_full_attention_sink_bias", absent=False)
    full = attention(c, d_value=c.whole("v_head_dim"), qkv_bias=bias, sinks=sinks)
    if c.given("sliding_window_size"):
        window = 1 + c.whole("sliding_window_size", most=2**40 - 1)
    else:
        window = c.whole("sliding_window", absent=129, most=2**40)
    n_heads = c.whole("swa_num_attention_heads", absent=full.n_heads, most=100_000)
    n_kv_heads = c.whole("swa_num_key_value_heads", absent=2 * full.n_kv_heads, most=100_000)
    if n_heads % n_kv_heads:
        raise c.wrong("swa_num_key_value_heads", f"a divisor of the {n_heads} query heads of window layers", n_kv_heads)
    d_head, d_value = c.whole("swa_head_dim", absent=full.d_head), c.whole("swa_v_head_dim", absent=full.d_v)
    sinks = c.flag("add_swa_attention_sink_bias", absent=True)
    local = Attention(
        n_heads=n_heads,
        n_kv_heads=n_kv_heads,
        d_head=d_head,
        d_value=d_value,
        window=window,
        qkv_bias=bias,
        sinks=sinks,
    )
    return full, local


def _mimo_sparse(c: Config, n: int) -> list[bool]:
    """Experts where `moe_layer_freq` has a one; absent, everywhere but in the first layer."""
    given = listed(c, "moe_layer_freq", length=n)
    return sparse_from(c, n, first=1) if given is None else [here != 0 for here in given]


def ernie4_5_moe(c: Config) -> Shape:
    """ERNIE 4.5 MoE: `use_bias` on all but experts and router; the bias that balances the router is a parameter."""
    c = filled(c, num_key_value_heads=4, moe_intermediate_size=1536, intermediate_size=12288)
    n, bias = c.n_layers(), c.flag("use_bias", absent=False, null=False)
    shared = shared_width(c, "moe_num_shared_experts", absent=2)
    count, active = ("moe_num_experts", "num_experts"), ("moe_k", "num_experts_per_tok")
    moe = experts(
        c, count=count, active=active, n_absent=64, k_absent=6, learnt_balance=True, d_shared=shared, shared_bias=bias
    )
    mixers = attentions(c, [None] * n, qkv_bias=bias, out_bias=bias)
    shape = basics(c, tied_by_default=True) | {
        "layers": stacked(mixers, blocks(c, _ernie_sparse(c, n), moe, bias=bias))
    }
    return biased(shape, bias)


def _ernie_sparse(c: Config, n: int) -> list[bool]:
    """Experts in every `moe_layer_interval`-th layer from the start index to the end index (−1: the last layer)."""
    start, end = (
        c.whole("moe_layer_start_index", absent=1, least=0),
        c.whole("moe_layer_end_index", absent=-1, least=-1),
    )
    step = c.whole("moe_layer_interval", absent=1)
    last = n - 1 if end == -1 else end
    return [(i + 1) % step == 0 and start <= i <= last for i in range(n)]


def dots1(c: Config) -> Shape:
    """dots.llm1: norms on the heads, dense layers first, one shared block; windows from `max_window_layers` on."""
    c = filled(c, num_key_value_heads=32, moe_intermediate_size=1408, intermediate_size=10944)
    n = c.n_layers()
    first = c.whole("max_window_layers", absent=62, null=62, least=0)
    seen = _seen(c, n, 4096, full=lambda i: i < first, said=f"the window from layer {first} on")
    mixers = attentions(c, seen, qk_norm="head", **biases(c))
    ffns = blocks(c, sparse_from(c, n, first=0), experts(c, d_shared=shared_width(c, absent=0)))
    return basics(c, tied_by_default=False) | {"layers": stacked(mixers, ffns)}


def afmoe(c: Config) -> Shape:
    """AFMoE (Trinity): an output gate by a product of its own, four norms a layer; the balancing bias is a parameter."""
    c = filled(c, head_dim=128, moe_intermediate_size=1408, intermediate_size=6144, num_experts_per_tok=6)
    n, every = c.n_layers(), c.whole("global_attn_every_n_layers", absent=4)
    seen = _seen(c, n, 1024, full=lambda i: (i + 1) % every == 0, said=f"one in {every} full")
    mixers = attentions(c, seen, gated="apart", qk_norm="head", **biases(c))
    shared = shared_width(c, "num_shared_experts", absent=2)
    moe = experts(c, count=EXPERTS[1:], n_absent=64, learnt_balance=True, d_shared=shared)
    ffns = blocks(c, sparse_from(c, n, first=1, key="num_dense_layers"), moe)
    return basics(c, tied_by_default=False) | {"layers": stacked(mixers, ffns, n_norms=4)}


def exaone_moe(c: Config) -> Shape:
    """K-EXAONE: norms on the heads, no biases; all but every fourth layer have the window."""
    c = filled(c, num_key_value_heads=32, moe_intermediate_size=1024, intermediate_size=16384, num_experts_per_tok=8)
    n = c.n_layers()
    every = 1 if c.given("layer_types") else c.whole("sliding_window_pattern", absent=4)
    seen = _seen(c, n, 4096, full=lambda i: (i + 1) % every == 0, said=f"one in {every} full")
    mixers = attentions(c, seen, qk_norm="head")
    moe = experts(c, count=EXPERTS[1:], n_absent=64, d_shared=shared_width(c, "num_shared_experts", absent=1))
    return basics(c, tied_by_default=False) | {"layers": stacked(mixers, blocks(c, sparse_from(c, n, first=1), moe))}


def hy_v3(c: Config) -> Shape:
    """Hunyuan 3: norms on the heads, a dense layer first, one shared block; `mlp_bias` on dense and shared blocks."""
    c = filled(c, num_key_value_heads=8, head_dim=128, moe_intermediate_size=1536, intermediate_size=13312)
    c = filled(c, num_experts_per_tok=8)
    n, bias = c.n_layers(), mlp_bias(c)
    shared = shared_width(c, "num_shared_experts", absent=1)
    moe = experts(c, count=EXPERTS[1:], n_absent=192, d_shared=shared, shared_bias=bias)
    mixers = attentions(c, [None] * n, qk_norm="head", **biases(c))
    ffns = blocks(c, sparse_from(c, n, first=1), moe, bias=bias)
    return basics(c, tied_by_default=False) | {"layers": stacked(mixers, ffns)}


def cohere2_moe(c: Config) -> Shape:
    """Command MoE: attention and experts in parallel after one norm (RMS where `rms_norm_eps` is given, else LayerNorm)."""
    c = filled(c, head_dim=128, intermediate_size=22528, num_experts_per_tok=2)
    n = c.n_layers()
    n_dense = c.whole("first_k_dense_replace", absent=0, least=0, most=n)
    first, then = c.whole("prefix_dense_sliding_window_pattern", absent=1), c.whole("sliding_window_pattern", absent=4)
    full = [(i + 1) % first == 0 for i in range(n_dense)] + [(i + 1) % then == 0 for i in range(n - n_dense)]
    mixers = attentions(c, _seen(c, n, 4096, full=full.__getitem__, said=f"one in {then} full"), **biases(c))
    width = c.whole("intermediate_size")
    shared = c.whole("num_shared_experts", absent=0, least=0, most=10_000) * width or None
    moe = experts(c, count=EXPERTS[1:], width="intermediate_size", n_absent=8, d_shared=shared)
    ffns = blocks(c, sparse_from(c, n, first=0), moe, key="prefix_dense_intermediate_size")
    norm = RMS_NORM if c.given("rms_norm_eps") else PLAIN_NORM
    layers = stacked(mixers, ffns, parallel=True, n_norms=1)
    return basics(c, tied_by_default=True, norm=norm) | {"layers": layers}


def kolibri1(c: Config) -> Shape:
    """Kolibri: experts and a shared block in every layer, norms on the heads, four norms a layer."""
    c = filled(c, num_key_value_heads=4, head_dim=128, moe_intermediate_size=512, num_experts_per_tok=6)
    n = c.n_layers()
    seen = _seen(c, n, 513, full=lambda i: (i + 1) % 5 == 0, said="every fifth full")
    mixers = attentions(c, seen, qk_norm="head")
    moe = experts(c, count=EXPERTS[1:], n_absent=384, d_shared=c.whole("shared_expert_intermediate_size", absent=512))
    return basics(c, tied_by_default=False) | {"layers": stacked(mixers, [moe] * n, n_norms=4)}


def beam(c: Config) -> Shape:
    """Beam: an output gate by a product of its own, with a bias a head; four norms a layer, no shared block."""
    c = filled(c, num_key_value_heads=8, head_dim=128, moe_intermediate_size=2560, intermediate_size=20480)
    c = filled(c, num_experts_per_tok=8)
    n = c.n_layers()
    seen = _seen(c, n, 512, full=lambda i: (i + 1) % 6 == 0 or i == n - 1, said="every sixth and the last full")
    mixers = attentions(c, seen, gated="apart", qk_norm="head", **biases(c))
    ffns = blocks(c, sparse_from(c, n, first=3), experts(c, count=EXPERTS[1:], n_absent=256))
    layers = stacked(mixers, ffns, n_norms=4, vectors=mixers[0].n_heads)
    return basics(c, tied_by_default=False) | {"layers": layers}


def laguna(c: Config) -> Shape:
    """Laguna: query heads layer by layer, an output gate a head or an element; the balancing bias is a parameter."""
    c = filled(c, num_key_value_heads=8, head_dim=128, moe_intermediate_size=512, intermediate_size=8192)
    c = filled(c, num_experts_per_tok=8, shared_expert_intermediate_size=512)
    n = c.n_layers()
    everywhere = [c.whole("num_attention_heads", most=100_000)] * n
    n_heads = listed(c, "num_attention_heads_per_layer", length=n) or everywhere
    if not c.has("gating"):
        c.assume("gating", "per-head")
    gated: Literal["apart", "head"] = "head" if c.data.get("gating", True) in (True, "per-head") else "apart"
    seen = _seen(c, n, 512, full=lambda _: True, said="all full")
    mixers = headed(c, n_heads, seen, key="num_attention_heads_per_layer", gated=gated)
    shared = c.whole("shared_expert_intermediate_size")
    moe = experts(c, count=EXPERTS[1:], n_absent=256, learnt_balance=True, d_shared=shared)
    return basics(c, tied_by_default=False) | {"layers": stacked(mixers, blocks(c, sparse_from(c, n, first=1), moe))}


def _seen(c: Config, n: int, default: int, *, full: Callable[[int], bool], said: str) -> list[int | None]:
    """The window of each layer, `sliding_window` or `default` wide; `layer_types` says where, or `full` where not."""
    window = c.whole("sliding_window", absent=default, null=None, most=2**40)
    return windows(c, n, window=window, full=full, absent=said)


FAMILIES = {
    "afmoe": afmoe,
    "beam": beam,
    "cohere2_moe": cohere2_moe,
    "dots1": dots1,
    "ernie4_5_moe": ernie4_5_moe,
    "exaone_moe": exaone_moe,
    "gpt_oss": gpt_oss,
    "hy_v3": hy_v3,
    "kolibri1": kolibri1,
    "laguna": laguna,
    "llama4_text": llama4_text,
    "mimo_v2_flash": mimo_v2_flash,
}
