"""Decoders that mix attention with linear attention, delta nets or short convolutions: Qwen3-Next and 3.5, OLMo Hybrid,
MiniMax-01, Kimi Linear, LFM2 and 3."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from roofline.errors import SpecError
from roofline.specs.ffns import Dense, Ffn, Moe
from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.families.common import Shape, attention, dense, over, sparse, stack
from roofline.specs.huggingface.families.llama import biases
from roofline.specs.huggingface.families.mixtures import blocks, experts, filled, mtp, shared_width, sparse_from
from roofline.specs.huggingface.families.recurrent import NO_POSITIONS, layer_kinds, state_dtype
from roofline.specs.layers import Layer
from roofline.specs.mixers import Delta, Latent, LinearAttention, Mixer, ShortConv

__all__ = ["FAMILIES", "qwen3_5_moe_text", "qwen3_5_text"]

LINEAR, FULL = "linear_attention", "full_attention"


def _kinds(c: Config, *, absent: Callable[[int], bool], known: Sequence[str] = (LINEAR, FULL)) -> list[str]:
    """`layer_types`; where there is none, full attention in the layers that `absent` picks, the other kind elsewhere."""
    n_layers = c.n_layers()
    if c.given("layer_types"):
        return layer_kinds(c, "layer_types", n_layers=n_layers, known=known)
    return [FULL if absent(i) else known[0] for i in range(n_layers)]


def _layers(kinds: Sequence[str], mixers: dict[str, Mixer], ffns: Sequence[Ffn]) -> list[Layer]:
    return [Layer(mixer=mixers[kind], ffn=ffn) for kind, ffn in zip(kinds, ffns, strict=True)]


def qwen3_next(c: Config) -> Shape:
    """Qwen3-Next: three delta nets to one gated attention; experts and a scaled shared block but in layers named dense."""
    c = sparse(c, vocab=151936, width=2048, ff=5632, layers=48, heads=16, context=32768)
    n_layers = c.n_layers()
    if c.whole("num_experts", absent=512, least=0, most=100_000) == 0:
        return _qwen(c, [dense(c)] * n_layers, n_kv_heads=2)
    step, named = c.whole("decoder_sparse_step", absent=1), c.items("mlp_only_layers", kind=int, absent=None, null=None)
    routed = [(i + 1) % step == 0 and i not in set(named or ()) for i in range(n_layers)]
    return _qwen(c, blocks(c, routed, _qwen_experts(c, n_experts=512, k=10)), n_kv_heads=2)


def qwen3_5_text(c: Config) -> Shape:
    """The text part of Qwen3.5: Qwen3-Next's mixers with dense blocks."""
    c = sparse(c, vocab=248320, width=4096, ff=12288, layers=32, heads=16, context=32768)
    return _qwen(c, [dense(c)] * c.n_layers(), n_kv_heads=4)


def qwen3_5_moe_text(c: Config) -> Shape:
    """The text part of Qwen3.5-MoE: experts in every layer, so that no `intermediate_size` is read."""
    c = sparse(c, vocab=248320, width=2048, ff=None, layers=40, heads=16, context=32768)
    return _qwen(c, [_qwen_experts(c, n_experts=256, k=8)] * c.n_layers(), n_kv_heads=2)


def _qwen(c: Config, ffns: Sequence[Ffn], *, n_kv_heads: int) -> Shape:
    full = attention(c, kv_absent=n_kv_heads, head_dim_absent=256, gated=True, qk_norm="head", **biases(c))
    every = 1 if c.given("layer_types") else c.whole("full_attention_interval", absent=4)
    kinds = _kinds(c, absent=lambda i: (i + 1) % every == 0)
    shape = stack(c, _layers(kinds, {FULL: full, LINEAR: _qwen_delta(c)}, ffns))
    own_tables = c.flag("mtp_use_dedicated_embeddings", absent=False)
    return shape | {"mtp": mtp(c, Layer(mixer=full, ffn=ffns[-1]), "mtp_num_hidden_layers", own_tables=own_tables)}


def _qwen_delta(c: Config) -> Delta:
    return _delta(
        c,
        n_key_heads=c.whole("linear_num_key_heads", absent=16, most=100_000),
        n_value_heads=c.whole("linear_num_value_heads", absent=32, most=100_000),
        d_key=c.whole("linear_key_head_dim", absent=128),
        d_value=c.whole("linear_value_head_dim", absent=128),
    )


def _delta(c: Config, *, n_key_heads: int, n_value_heads: int, d_key: int, d_value: int) -> Delta:
    if n_value_heads % n_key_heads:
        raise c.wrong("linear_num_value_heads", f"a multiple of linear_num_key_heads={n_key_heads}", n_value_heads)
    return Delta(
        n_key_heads=n_key_heads,
        d_key=d_key,
        n_value_heads=n_value_heads,
        d_value=d_value,
        d_conv=c.whole("linear_conv_kernel_dim", absent=4, most=100_000),
        state_dtype=state_dtype(c),
    )


def _qwen_experts(c: Config, *, n_experts: int, k: int) -> Moe:
    d_shared = c.whole("shared_expert_intermediate_size", absent=512)
    c = filled(c, moe_intermediate_size=512)
    return experts(c, count=("num_experts",), n_absent=n_experts, k_absent=k, d_shared=d_shared, shared_gate=True)


def olmo_hybrid(c: Config) -> Shape:
    """OLMo Hybrid: three delta nets to one attention with norms over the whole of q and k; a delta net's heads follow the
    attention's, its keys three quarters as wide and its values twice its keys, unless it says otherwise."""
    c = sparse(c, vocab=100352, width=3840, ff=11008, layers=32, heads=30, context=65536)
    n_layers, n_heads = c.n_layers(), c.whole("num_attention_heads", most=100_000)
    n_key_heads = c.whole("linear_num_key_heads", absent=n_heads, null=n_heads, most=100_000)
    key_width = max(1, int(0.75 * c.whole("hidden_size") / n_key_heads))
    d_key = c.whole("linear_key_head_dim", absent=key_width, null=key_width)
    delta = _delta(
        c,
        n_key_heads=n_key_heads,
        n_value_heads=c.whole("linear_num_value_heads", absent=n_heads, null=n_heads, most=100_000),
        d_key=d_key,
        d_value=c.whole("linear_value_head_dim", absent=2 * d_key, null=2 * d_key),
    )
    full = attention(c, qk_norm="full", **biases(c))
    kinds = _kinds(c, absent=lambda i: i % 4 == 3 or (n_layers < 4 and i == n_layers - 1))
    return stack(c, _layers(kinds, {FULL: full, LINEAR: delta}, [dense(c)] * n_layers))


def minimax(c: Config) -> Shape:
    """MiniMax-01: lightning attention with heads as the softmax attention's, and experts in every layer.

    The first files name the kinds in `attn_type_list`, 0 for lightning and 1 for softmax.
    """
    c = sparse(c, vocab=32000, width=4096, ff=14336, layers=32, heads=32, context=131072)
    n_layers = c.n_layers()
    full = attention(c, kv_absent=8, window=c.whole("sliding_window", absent=None, null=None, most=2**40))
    linear = LinearAttention(n_heads=full.n_heads, d_head=full.d_head, state_dtype=state_dtype(c))
    count = ("num_local_experts", "num_experts")
    ffns = [experts(c, count=count, n_absent=8, k_absent=2, width="intermediate_size")] * n_layers
    if c.given("attn_type_list"):
        kinds = [FULL if i else LINEAR for i in _numbers(c, "attn_type_list", n_layers=n_layers)]
    else:
        kinds = _kinds(c, absent=lambda i: i % 2 == 0)
    return stack(c, _layers(kinds, {FULL: full, LINEAR: linear}, ffns))


def _numbers(c: Config, key: str, *, n_layers: int) -> list[int]:
    found: list[int] = c.items(key, kind=int, length=n_layers)
    if not set(found) <= {0, 1}:
        raise c.wrong(key, "a list of 0 and 1", found)
    return found


def kimi_linear(c: Config) -> Shape:
    """Kimi Linear: delta nets with a decay for every key channel, and latent attention without positions; a head of its own.

    Files hold the delta net's sizes in `linear_attn_config`, with the layers of each kind counted from 1.
    """
    c = _as_kimi_files_say(c)
    heads, width = c.whole("linear_num_heads", absent=32, most=100_000), c.whole("linear_head_dim", absent=128)
    delta = Delta(
        n_key_heads=heads,
        d_key=width,
        n_value_heads=heads,
        d_value=width,
        d_conv=c.whole("linear_conv_kernel_dim", absent=4, most=100_000),
        gate="channel",
        state_dtype=state_dtype(c),
    )
    kinds = _kinds(c, absent=lambda i: i > 0 and i % 4 == 0)
    shape = stack(c, _layers(kinds, {FULL: _kimi_latent(c), LINEAR: delta}, _kimi_ffns(c)))
    return shape | {"positions": NO_POSITIONS, "head": {"tied": False}}


def _as_kimi_files_say(c: Config) -> Config:
    """The level with `linear_attn_config` spread over it: sizes under their own keys, the kinds as `layer_types`."""
    c = _renamed(c, {"model_max_length": "max_position_embeddings"})
    c = sparse(c, vocab=163840, width=2304, ff=9216, layers=27, heads=32, context=1048576)
    if not c.given("linear_attn_config"):
        return c
    inner = c.section("linear_attn_config")
    names = {"head_dim": "linear_head_dim", "num_heads": "linear_num_heads"}
    names["short_conv_kernel_size"] = "linear_conv_kernel_dim"
    spread: dict[str, Any] = {new: inner.whole(old) for old, new in names.items() if inner.has(old)}
    if not c.given("layer_types") and inner.given("full_attn_layers") and inner.given("kda_layers"):
        spread["layer_types"] = _kinds_by_number(inner, c.n_layers())
    return over(c, spread)


def _kinds_by_number(inner: Config, n_layers: int) -> list[str]:
    """The kind of every layer, from two lists of layer numbers that together name each once."""
    full, linear = (inner.items(key, kind=int) for key in ("full_attn_layers", "kda_layers"))
    if sorted(full + linear) != list(range(1, n_layers + 1)):
        raise SpecError(
            f"{inner.place('kda_layers')}: expected, with full_attn_layers, every layer from 1 to {n_layers} once"
        )
    return [FULL if i + 1 in set(full) else LINEAR for i in range(n_layers)]


def _kimi_latent(c: Config) -> Latent:
    return Latent(
        n_heads=c.whole("num_attention_heads", most=100_000),
        d_latent=c.whole("kv_lora_rank", absent=512),
        d_rope=c.whole("qk_rope_head_dim", absent=64, least=0, most=100_000),
        d_nope=c.whole("qk_nope_head_dim", absent=128),
        d_value=c.whole("v_head_dim", absent=128),
        d_q_latent=c.whole("q_lora_rank", absent=None, null=None),
        bias=c.flag("attention_bias", absent=False),
    )


def _kimi_ffns(c: Config) -> list[Ffn]:
    c = filled(c, moe_intermediate_size=1024)
    moe = experts(
        c,
        count=("num_experts", "num_local_experts"),
        active=("num_experts_per_token", "num_experts_per_tok"),
        n_absent=256,
        k_absent=8,
        d_shared=shared_width(c, "num_shared_experts", "n_shared_experts", absent=1),
    )
    return blocks(c, sparse_from(c, c.n_layers(), first=1), moe)


def lfm2(c: Config) -> Shape:
    """LFM2: short convolutions and attention; the dense width is cut to two thirds and rounded up, unless it says not to."""
    names = {"tie_embedding": "tie_word_embeddings", "block_ff_dim": "intermediate_size"}
    c = sparse(_renamed(c, names), vocab=65536, width=2560, ff=12288, layers=32, heads=32, context=128000)
    n_layers = c.n_layers()
    attends = set(range(n_layers))
    if c.given("full_attn_idxs") and not c.given("layer_types"):
        attends = set(c.items("full_attn_idxs", kind=int))
    kinds = _kinds(c, absent=lambda i: i in attends, known=("conv", FULL))
    return stack(c, _layers(kinds, _lfm_mixers(c), [Dense(d_ff=_lfm_width(c))] * n_layers), tied_by_default=True)


def _renamed(c: Config, names: dict[str, str]) -> Config:
    """The level with what stands under a family's own names laid over the usual ones."""
    return over(c, {usual: c.data[own] for own, usual in names.items() if c.has(own)})


def _lfm_mixers(c: Config) -> dict[str, Mixer]:
    return {"conv": _short_conv(c, absent=3), FULL: attention(c, kv_absent=8, qk_norm="head")}


def _short_conv(c: Config, *, absent: int) -> ShortConv:
    d_conv = c.whole("conv_L_cache", absent=absent, most=100_000)
    return ShortConv(d_inner=c.whole("hidden_size"), d_conv=d_conv, bias=c.flag("conv_bias", absent=False))


def _lfm_width(c: Config) -> int:
    width: int = c.whole("intermediate_size")
    if not c.flag("block_auto_adjust_ff_dim", absent=True):
        return width
    factor = c.number("block_ffn_dim_multiplier", absent=1.0, least=1e-6, most=1000.0)
    step: int = c.whole("block_multiple_of", absent=256)
    return max(1, -(-int(factor * (2 * width // 3)) // step)) * step


def lfm2_moe(c: Config) -> Shape:
    """LFM2 with experts after the first few layers; there the width is taken as it stands."""
    names = {"tie_embedding": "tie_word_embeddings"}
    c = sparse(_renamed(c, names), vocab=65536, width=2048, ff=7168, layers=32, heads=32, context=128000)
    moe = experts(filled(c, moe_intermediate_size=1792), count=("num_experts",), n_absent=32, k_absent=4)
    first = c.whole("num_dense_layers", absent=2, least=0)
    kinds = layer_kinds(c, "layer_types", n_layers=c.n_layers(), known=("conv", FULL))
    ffns = blocks(c, [i >= first for i in range(len(kinds))], moe)
    return stack(c, _layers(kinds, _lfm_mixers(c), ffns), tied_by_default=True)


def lfm3(c: Config) -> Shape:
    """LFM3: short convolutions, windowed and full attention by turns; a gate a head, norms before and after."""
    c = sparse(c, vocab=128000, width=2048, ff=7680, layers=24, heads=16, context=128000)
    window = c.whole("sliding_window", absent=256, null=None, most=2**40)
    gated: Any = "head" if c.flag("use_attention_gate", absent=True) else False
    more = {"kv_absent": 4, "head_dim_absent": 128, "gated": gated, "qk_norm": "head"} | biases(c)
    mixers: dict[str, Mixer] = {FULL: attention(c, **more), "sliding_attention": attention(c, window=window, **more)}
    mixers["conv"] = _short_conv(c, absent=7)
    if c.given("layer_types"):
        kinds = layer_kinds(c, "layer_types", n_layers=c.n_layers(), known=tuple(mixers))
    else:
        turn = ("sliding_attention", "conv", FULL, "conv")
        c.assume("layer_types", "conv first, then attention and conv in turn, every second attention in full")
        kinds = ["conv", *(turn[i % 4] for i in range(1, c.n_layers()))]
    n_norms, ffn = 4 if c.flag("use_sandwich_norm", absent=True) else 2, dense(c)
    layers = [Layer(mixer=mixers[kind], ffn=ffn, n_norms=n_norms) for kind in kinds]
    return stack(c, layers, tied_by_default=True)


FAMILIES = {
    "qwen3_next": qwen3_next,
    "qwen3_5_text": qwen3_5_text,
    "qwen3_5_moe_text": qwen3_5_moe_text,
    "olmo_hybrid": olmo_hybrid,
    "minimax": minimax,
    "minimax_text_01": minimax,
    "minimax_m1": minimax,
    "kimi_linear": kimi_linear,
    "lfm2": lfm2,
    "lfm2_moe": lfm2_moe,
    "lfm3": lfm3,
}
