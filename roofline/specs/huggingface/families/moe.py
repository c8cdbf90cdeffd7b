"""Decoders with mixtures of experts and plain attention."""

from __future__ import annotations

from typing import Any

from roofline.specs.ffns import Moe
from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.families import moe_patterns, step
from roofline.specs.huggingface.families.common import (
    LAYER_NORM,
    Shape,
    attention,
    basics,
    plain,
    sparse,
    whole_heads,
    windows,
)
from roofline.specs.huggingface.families.llama import biases
from roofline.specs.huggingface.families.mixtures import (
    EXPERTS,
    attentions,
    biased,
    blocks,
    by_word,
    experts,
    filled,
    mtp,
    shared_width,
    sparse_from,
    stacked,
)
from roofline.specs.layers import Layer, Norm
from roofline.specs.mixers import Attention, Indexer

__all__ = ["FAMILIES"]

PLAIN_NORM = Norm(kind="layer")  # a LayerNorm without a bias


def mixtral(c: Config) -> Shape:
    """Mixtral: every layer has experts, as wide as `intermediate_size`; a window, where there is one, is on all layers."""
    c = filled(c, num_key_value_heads=8, sliding_window=None, num_experts_per_tok=2, intermediate_size=14336)
    moe = experts(c, width="intermediate_size", n_absent=8)
    return _same(c, moe, window=c.whole("sliding_window", null=None, most=2**40))


def phimoe(c: Config) -> Shape:
    """Phi-3.5-MoE: Mixtral with LayerNorm, and biases on q, k, v, o and the head where the config says so."""
    c = filled(c, num_key_value_heads=8, num_experts_per_tok=2, intermediate_size=6400, sliding_window=None)
    window = c.whole("sliding_window", null=None, most=2**40)
    shape = _same(c, experts(c, width="intermediate_size", n_absent=16), window=window, **biases(c))
    bias = c.flag("lm_head_bias", absent=False)
    return biased(shape, bias) | {"norm": LAYER_NORM}


def minimax_m2(c: Config) -> Shape:
    """MiniMax M2: norms over the whole width of queries and keys; `num_mtp_modules` guess further tokens."""
    c = filled(c, num_key_value_heads=8, head_dim=128, num_experts_per_tok=8, intermediate_size=1536)
    shape = _same(c, experts(c, width="intermediate_size", n_absent=256), qk_norm="full")
    return shape | {"mtp": mtp(c, shape["layers"][-1].layers[-1], "num_mtp_modules")}


def minimax_m3(c: Config) -> Shape:
    """MiniMax M3: an indexer picks blocks of keys in the layers of `sparse_attention_freq`; dense blocks, experts and the
    one shared block each have a width of their own."""
    c = sparse(c, vocab=200_064, width=6144, ff=3072, layers=60, heads=64, context=524_288)
    c = filled(c, num_experts_per_tok=4, intermediate_size=3072, dense_intermediate_size=12_288)
    n = c.n_layers()
    s = c.section("sparse_attention_config", absent={})
    indexer = Indexer(
        n_heads=_either(s, "sparse_num_index_heads", c, "index_n_heads", absent=4),
        d_head=_either(s, "sparse_index_dim", c, "index_head_dim", absent=128),
        top_k=_either(s, "sparse_topk_blocks", c, "index_topk_blocks", absent=16)
        * _either(s, "sparse_block_size", c, "index_block_size", absent=128),
        weighted=False,
    )
    picks = _by_number(s, "sparse_attention_freq", n, absent=False)
    if c.given("layer_types"):
        words = {"full_attention": False, "minimax_m3_sparse": True}
        picks = by_word(c, "layer_types", words, n_layers=n, absent=(), said="")
    having = _by_number(c, "moe_layer_freq", n, absent=True)
    shared = c.whole("shared_intermediate_size", absent=3072)
    moe = experts(c, width="intermediate_size", n_absent=128, d_shared=shared)
    full, sparsely = (
        attention(c, kv_absent=4, head_dim_absent=128, qk_norm="head", indexer=x) for x in (None, indexer)
    )
    ffns = blocks(
        c, sparse_from(c, n, first=0) if c.given("mlp_layer_types") else having, moe, key="dense_intermediate_size"
    )
    layers = stacked([sparsely if picked else full for picked in picks], ffns)
    modules = mtp(c, layers[-1].layers[-1], "num_mtp_modules")
    return basics(c, tied_by_default=False) | {"layers": layers, "mtp": modules}


def _either(first: Config, key: str, then: Config, other: str, *, absent: int) -> int:
    """A number of the section, or the same at the level above under its later name."""
    return int(first.whole(key, most=100_000) if first.has(key) else then.whole(other, absent=absent, most=100_000))


def _by_number(c: Config, key: str, n_layers: int, *, absent: bool) -> list[bool]:
    """A number a layer, 0 for no; all alike where the list is absent or null."""
    numbers = c.items(key, kind=int, absent=None, null=None, length=n_layers)
    return [absent] * n_layers if numbers is None else [number != 0 for number in numbers]


def olmoe(c: Config) -> Shape:
    """OLMoE: norms over the whole width of queries and keys; experts in every layer."""
    c = filled(c, num_experts_per_tok=8, intermediate_size=2048)
    return _same(c, experts(c, width="intermediate_size", n_absent=64), qk_norm="full", **biases(c))


def flex_olmo(c: Config) -> Shape:
    """FlexOlmo: as OLMoE; its norms come after attention and experts, as many as before."""
    c = filled(c, num_experts_per_tok=5, intermediate_size=11008)
    return _same(c, experts(c, width="intermediate_size", n_absent=7), qk_norm="full", **biases(c))


def granitemoe(c: Config) -> Shape:
    """Granite MoE: experts in every layer, with or without a shared block of `shared_intermediate_size`."""
    c = filled(c, num_experts_per_tok=2, intermediate_size=11008)
    return _same(c, _granite_experts(c), **biases(c))


def granitemoe_swa(c: Config) -> Shape:
    """Granite MoE with windows: a sink a head everywhere, every fourth layer from the first sees all."""
    c = filled(c, num_experts_per_tok=2, intermediate_size=11008)
    n, window = c.n_layers(), c.whole("sliding_window", absent=128, null=None, most=2**40)
    seen = windows(c, n, window=window, full=lambda i: i % 4 == 0, absent="every fourth from the first full")
    mixers = attentions(c, seen, sinks=True, **biases(c))
    return basics(c, tied_by_default=False) | {"layers": stacked(mixers, [_granite_experts(c)] * n)}


def _granite_experts(c: Config) -> Moe:
    shared = c.whole("shared_intermediate_size", absent=0, least=0) or None
    return experts(c, width="intermediate_size", n_absent=8, d_shared=shared)


def hunyuan_v1_moe(c: Config) -> Shape:
    """Hunyuan MoE: experts and one shared block of `intermediate_size` in every layer; `moe_topk` may differ by layer."""
    n = c.n_layers()
    width, n_experts = c.whole("intermediate_size", absent=11008), c.whole(*EXPERTS[1:], absent=1, most=100_000)
    key = "moe_topk" if c.has("moe_topk") else "num_experts_per_tok"
    many = isinstance(c.data.get(key), list)
    active = c.items(key, kind=int, length=n) if many else [c.whole(key, absent=1)] * n
    if not all(1 <= k <= n_experts for k in active):
        raise c.wrong(key, f"from 1 to the {n_experts:,} experts there are", active[:8])
    ffns = [Moe(n_experts=n_experts, n_active_experts=k, d_ff=width, d_shared=width) for k in active]
    mixers = attentions(c, [None] * n, qk_norm="head", **biases(c))
    return basics(c, tied_by_default=False) | {"layers": stacked(mixers, ffns)}


def dbrx(c: Config) -> Shape:
    """DBRX: sub-configs for attention and experts; LayerNorm without a bias."""
    inner, ffn = c.section("attn_config", absent={}), c.section("ffn_config", absent={})
    n_heads, n_kv_heads = whole_heads(c, width="d_model", heads=("n_heads",)), inner.whole("kv_n_heads", absent=1)
    if n_heads % n_kv_heads:
        raise inner.wrong("kv_n_heads", f"a divisor of n_heads={n_heads}", n_kv_heads)
    mixer = Attention(n_heads=n_heads, n_kv_heads=n_kv_heads, d_head=c.whole("d_model") // n_heads)
    ffn = filled(ffn, ffn_hidden_size=3584)
    moe = experts(
        ffn, count=("moe_num_experts",), active=("moe_top_k",), width="ffn_hidden_size", n_absent=4, k_absent=1
    )
    layers = plain(c.n_layers("n_layers"), Layer(mixer=mixer, ffn=moe))
    return basics(c, tied_by_default=False, norm=PLAIN_NORM) | {"layers": layers}


def qwen2_moe(c: Config) -> Shape:
    """Qwen 1.5 and 2 MoE: biases on q, k, v unless `qkv_bias` is off; a gated shared block beside the experts."""
    c = filled(c, num_key_value_heads=16, num_experts_per_tok=4, moe_intermediate_size=1408, intermediate_size=5632)
    n = c.n_layers()
    shared = c.whole("shared_expert_intermediate_size", absent=5632)
    moe = experts(c, n_absent=60, d_shared=shared, shared_gate=True)
    mixers = attentions(c, _qwen2_windows(c, n), qkv_bias=c.flag("qkv_bias", absent=True))
    return basics(c, tied_by_default=False) | {"layers": stacked(mixers, blocks(c, _qwen_sparse(c, n), moe))}


def _qwen2_windows(c: Config, n: int) -> list[int | None]:
    """None unless `use_sliding_window`; then every other of the first `max_window_layers`, or as `layer_types` says."""
    if not c.flag("use_sliding_window", absent=False):
        return [None] * n
    window = c.whole("sliding_window", absent=4096, null=None, most=2**40)
    first = c.whole("max_window_layers", absent=28, least=0)
    said = f"every other of the first {first} has the window"
    return windows(c, n, window=window, full=lambda i: i % 2 == 1 or i >= first, absent=said)


def qwen3_moe(c: Config) -> Shape:
    """Qwen3 MoE: norms on query and key heads, no shared block; `use_sliding_window` puts the window on every layer."""
    c = filled(c, num_key_value_heads=4, num_experts_per_tok=8, moe_intermediate_size=768, intermediate_size=6144)
    window = None
    if c.flag("use_sliding_window", absent=False):
        window = c.whole("sliding_window", absent=4096, null=None, most=2**40)
    return _qwen3_moe(c, n_absent=128, window=window, tied_by_default=False)


def qwen3_vl_moe_text(c: Config) -> Shape:
    """The text part of Qwen3-VL MoE: Qwen3 MoE without windows, with its own defaults all along."""
    c = sparse(c, vocab=151936, width=2048, ff=5632, layers=24, heads=16, context=128000)
    c = filled(c, num_key_value_heads=16, moe_intermediate_size=1408, num_experts_per_tok=4)
    return _qwen3_moe(c, n_absent=60, window=None, tied_by_default=True)


def _qwen3_moe(c: Config, *, n_absent: int, window: int | None, tied_by_default: bool) -> Shape:
    n = c.n_layers()
    mixers = attentions(c, [window] * n, qk_norm="head", **biases(c))
    ffns = blocks(c, _qwen_sparse(c, n), experts(c, count=EXPERTS[1:], n_absent=n_absent))
    return basics(c, tied_by_default=tied_by_default) | {"layers": stacked(mixers, ffns)}


def _qwen_sparse(c: Config, n: int) -> list[bool]:
    """Experts in every `decoder_sparse_step`-th layer, but not in `mlp_only_layers`."""
    step = c.whole("decoder_sparse_step", absent=1)
    dense_ones = set(c.items("mlp_only_layers", kind=int, absent=[], null=[]))
    return [(i + 1) % step == 0 and i not in dense_ones for i in range(n)]


def mellum(c: Config) -> Shape:
    """Mellum: Qwen3 MoE with `layer_types` and `mlp_layer_types`; absent, all layers see all and have experts."""
    c = filled(
        c, num_key_value_heads=4, head_dim=128, num_experts_per_tok=8, moe_intermediate_size=896, intermediate_size=7168
    )
    n = c.n_layers()
    window = c.whole("sliding_window", absent=1024, null=None, most=2**40)
    seen = windows(c, n, window=window, full=lambda _: True, absent="all full")
    mixers = attentions(c, seen, qk_norm="head", **biases(c))
    ffns = blocks(c, sparse_from(c, n, first=0), experts(c, count=EXPERTS[1:], n_absent=64))
    layers = stacked(mixers, ffns)
    return basics(c, tied_by_default=False) | {"layers": layers, "mtp": mtp(c, layers[-1].layers[-1])}


def glm4_moe(c: Config) -> Shape:
    """GLM-4.5 to 4.7: `attention_bias` on q, k, v only, norms on the heads where `use_qk_norm`; dense layers first.

    The checkpoint's further-token module has tables of its own.
    """
    c = filled(c, num_key_value_heads=8, moe_intermediate_size=1408, intermediate_size=10944, num_experts_per_tok=8)
    bias, norms = c.flag("attention_bias", absent=False), c.flag("use_qk_norm", absent=False)
    shape = _glm(c, first=1, qkv_bias=bias, qk_norm="head" if norms else "none")
    return shape | {"mtp": mtp(c, shape["layers"][-1].layers[-1], absent=1, own_tables=True)}


def glm4v_moe_text(c: Config) -> Shape:
    """The text part of GLM-4.5V: GLM-4.5 with biases on q, k, v unless told otherwise, and no norms on the heads."""
    c = sparse(c, vocab=151424, width=4096, ff=10944, layers=46, heads=96, context=65536)
    c = filled(c, num_key_value_heads=8, moe_intermediate_size=1408, num_experts_per_tok=8)
    return _glm(c, first=1, qkv_bias=c.flag("attention_bias", absent=True))


def solar_open(c: Config) -> Shape:
    """Solar Open: GLM-4.5 with experts in every layer and no norms on the heads."""
    c = filled(c, num_key_value_heads=8, head_dim=128, moe_intermediate_size=1280, num_experts_per_tok=8)
    return _glm(c, first=None, qkv_bias=c.flag("attention_bias", absent=False))


def sarvam_moe(c: Config) -> Shape:
    """Sarvam MoE: GLM-4.5's class with norms on the heads by default, under several names for the same keys."""
    c = filled(c, num_key_value_heads=4, head_dim=64, moe_intermediate_size=1024, intermediate_size=8192)
    c = filled(c, num_experts_per_tok=6)
    bias, norms = c.flag("use_qkv_bias", "attention_bias", absent=False), c.flag("use_qk_norm", absent=True)
    shape = _glm(c, first=1, qkv_bias=bias, qk_norm="head" if norms else "none")
    return shape | {"mtp": mtp(c, shape["layers"][-1].layers[-1])}


def _glm(c: Config, *, first: int | None, **more: Any) -> Shape:
    """Dense layers first (`first`: so many by default; none: no such layers), then experts with one shared block."""
    n = c.n_layers()
    shared = shared_width(c, "n_shared_experts", "num_shared_experts", absent=1)
    having = [True] * n if first is None else sparse_from(c, n, first=first)
    ffns = blocks(c, having, experts(c, n_absent=128, d_shared=shared))
    return basics(c, tied_by_default=False) | {"layers": stacked(attentions(c, [None] * n, **more), ffns)}


def _same(c: Config, moe: Moe, **more: Any) -> Shape:
    """The same layer all along: attention, experts."""
    layer = Layer(mixer=attention(c, **more), ffn=moe)
    return basics(c, tied_by_default=False) | {"layers": plain(c.n_layers(), layer)}


FAMILIES = {
    "dbrx": dbrx,
    "flex_olmo": flex_olmo,
    "glm4_moe": glm4_moe,
    "glm4v_moe_text": glm4v_moe_text,
    "granitemoe": granitemoe,
    "granitemoe_swa": granitemoe_swa,
    "granitemoeshared": granitemoe,
    "hunyuan_v1_moe": hunyuan_v1_moe,
    "mellum": mellum,
    "minimax_m2": minimax_m2,
    "minimax_m3": minimax_m3,
    "minimax_m3_vl_text": minimax_m3,
    "mixtral": mixtral,
    "olmoe": olmoe,
    "phimoe": phimoe,
    "qwen2_moe": qwen2_moe,
    "qwen3_moe": qwen3_moe,
    "qwen3_vl_moe_text": qwen3_vl_moe_text,
    "sarvam_moe": sarvam_moe,
    "solar_open": solar_open,
    **moe_patterns.FAMILIES,
    **step.FAMILIES,
}
