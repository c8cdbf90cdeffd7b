"""Decoders with state-space mixers, alone or beside attention: Mamba, Jamba, Nemotron-H, Granite 4, Falcon-H1, Griffin."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import cycle, islice
from typing import Any

from roofline.errors import Unsupported
from roofline.specs.ffns import Dense, Ffn, Moe
from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.families.common import (
    Shape,
    attention,
    dense,
    over,
    sparse,
    stack,
)
from roofline.specs.huggingface.families.llama import biases
from roofline.specs.huggingface.families.mixtures import experts, filled
from roofline.specs.layers import Layer
from roofline.specs.mixers import Mamba, Mamba2, Mixer, Pair, Rglru
from roofline.specs.model import Mtp, Positions
from roofline.specs.recurrent import StateDType

__all__ = ["FAMILIES", "layer_kinds", "state_dtype"]

NO_POSITIONS = Positions(kind="none")
LONGEST, WIDEST = 2**20, 10_000_000

_STATE_DTYPES: dict[str, StateDType] = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}
_OLDER_WORDS = {"mamba": "linear_attention", "attention": "full_attention"}
_BLOCKS = {"M": "linear_attention", "*": "full_attention", "-": "mlp", "E": "moe"}


def state_dtype(c: Config) -> StateDType:
    """The dtype a recurrent state is kept in: fp32 unless the config names another."""
    word = c.word(
        "mamba_ssm_cache_dtype", "mamba_ssm_dtype", absent="float32", null="float32", among=tuple(_STATE_DTYPES)
    )
    return _STATE_DTYPES[word]


def layer_kinds(c: Config, *keys: str, n_layers: int | None, known: Sequence[str]) -> list[str]:
    """A list of layer types, in today's words, every one of them `known`."""
    words: list[str] = c.items(*keys, kind=str, length=n_layers, longest=10_000)
    for word in words:
        if _OLDER_WORDS.get(word, word) not in known:
            older = [old for old, new in _OLDER_WORDS.items() if new in known]
            key = next(key for key in keys if c.has(key))
            raise c.wrong(key, f"layer types among {', '.join((*known, *older))}", word)
    return [_OLDER_WORDS.get(word, word) for word in words]


def _mamba1(c: Config, *, d_inner: int, inner_norms: bool = False) -> Mamba:
    """Mamba-1 under the keys of Mamba or Jamba; a step rank "auto" is D / 16, rounded up."""
    d_model = c.whole("hidden_size")
    rank_key = "mamba_dt_rank" if c.has("mamba_dt_rank") else "time_step_rank"
    automatic = not c.has(rank_key) or isinstance(c.data[rank_key], str)
    if automatic:
        c.word(rank_key, absent="auto", among=("auto",))
    return Mamba(
        d_inner=d_inner,
        d_state=c.whole("mamba_d_state", "state_size", absent=16),
        d_conv=c.whole("mamba_d_conv", "conv_kernel", absent=4, most=100_000),
        dt_rank=math.ceil(d_model / 16) if automatic else c.whole(rank_key),
        conv_bias=c.flag("mamba_conv_bias", "use_conv_bias", absent=True),
        bias=c.flag("mamba_proj_bias", "use_bias", absent=False),
        inner_norms=inner_norms,
        state_dtype=state_dtype(c),
    )


def _mamba2(c: Config, *, d_inner: int, **more: Any) -> Mamba2:
    """Mamba-2 under the keys of Bamba, Granite and Falcon-H1: its heads together are as wide as the inner width."""
    n_heads = c.whole("mamba_n_heads", absent=128, most=100_000)
    automatic = not c.has("mamba_d_head") or isinstance(c.data["mamba_d_head"], str)
    if automatic:
        c.word("mamba_d_head", absent="auto", among=("auto",))
    d_head = d_inner // n_heads if automatic else c.whole("mamba_d_head")
    if n_heads * d_head != d_inner:
        raise c.wrong("mamba_n_heads", f"heads that together are {d_inner} wide, the mixer's inner width", n_heads)
    in_bias = c.flag("mamba_proj_bias", absent=False, null=False)
    biases = {"in_bias": in_bias, "out_bias": in_bias} | more
    return Mamba2(
        n_heads=n_heads,
        d_head=d_head,
        n_groups=_groups(c, "mamba_n_groups", absent=1, n_heads=n_heads),
        d_state=c.whole("mamba_d_state", absent=256),
        d_conv=c.whole("mamba_d_conv", absent=4, most=100_000),
        conv_bias=c.flag("mamba_conv_bias", absent=True, null=False),
        state_dtype=state_dtype(c),
        **biases,
    )


def _groups(c: Config, *keys: str, absent: int, n_heads: int) -> int:
    n_groups: int = c.whole(*keys, absent=absent, most=100_000)
    if n_heads % n_groups:
        raise c.wrong(next((k for k in keys if c.has(k)), keys[0]), f"a divisor of the {n_heads} heads", n_groups)
    return n_groups


def _unbounded(c: Config) -> Config:
    """The level, with a context of a million tokens where it names none: neither a state nor a window has a longest one."""
    if c.has("max_position_embeddings"):
        return c
    c.assume("max_position_embeddings", LONGEST, "the mixers set no limit")
    return over(c, {"max_position_embeddings": LONGEST})


def _expanded(c: Config, key: str) -> int:
    """The inner width, so many times the model's."""
    times: int = c.whole(key, absent=2)
    width: int = times * c.whole("hidden_size")
    if width > WIDEST:
        raise c.wrong(key, f"an inner width of at most {WIDEST:,}", times)
    return width


def _recurrent_only(c: Config, mixer: Mixer, *, tied_by_default: bool) -> Shape:
    layer = Layer(mixer=mixer, n_norms=1)
    return stack(_unbounded(c), layer, tied_by_default=tied_by_default) | {"positions": NO_POSITIONS}


def mamba(c: Config) -> Shape:
    """Mamba-1: layers of a norm and a mixer, `expand` times as wide inside unless `intermediate_size` says otherwise.

    Falcon-Mamba is the same: its norms on dt, B and C have no scales.
    """
    d_inner = c.whole("intermediate_size") if c.has("intermediate_size") else _expanded(c, "expand")
    return _recurrent_only(c, _mamba1(c, d_inner=d_inner), tied_by_default=True)


def mamba2(c: Config) -> Shape:
    """Mamba-2, whose heads together are `expand` times the model's width."""
    n_heads = c.whole("num_heads", absent=128, most=100_000)
    d_head, d_inner = c.whole("head_dim", absent=64), _expanded(c, "expand")
    if n_heads * d_head != d_inner:
        raise c.wrong("num_heads", f"num_heads · head_dim = expand · hidden_size = {d_inner}", n_heads)
    bias = c.flag("use_bias", absent=False)
    mixer = Mamba2(
        n_heads=n_heads,
        d_head=d_head,
        n_groups=_groups(c, "n_groups", absent=8, n_heads=n_heads),
        d_state=c.whole("state_size", absent=128),
        d_conv=c.whole("conv_kernel", absent=4, most=100_000),
        conv_bias=c.flag("use_conv_bias", absent=True),
        in_bias=bias,
        out_bias=bias,
        state_dtype=state_dtype(c),
    )
    return _recurrent_only(c, mixer, tied_by_default=False)


def jamba(c: Config) -> Shape:
    """Jamba: Mamba-1 with inner norms, attention without positions once a period, experts as wide as the dense block."""
    c = sparse(c, vocab=65536, width=4096, ff=14336, layers=32, heads=32, context=262144)
    attends = _once_a_period(c, "attn_layer", period=8, offset=4)
    routes = _once_a_period(c, "expert_layer", period=2, offset=1)
    mixer, recurrent = attention(c, kv_absent=8), _mamba1(c, d_inner=_expanded(c, "mamba_expand"), inner_norms=True)
    count, ffn = ("num_experts", "num_local_experts"), dense(c)
    moe: Ffn = ffn
    if c.whole(*count, absent=16, most=100_000) > 1:
        moe = experts(c, count=count, n_absent=16, k_absent=2, width="intermediate_size")
    layers = [
        Layer(mixer=mixer if i in attends else recurrent, ffn=moe if i in routes else ffn) for i in range(c.n_layers())
    ]
    return stack(c, layers) | {"positions": NO_POSITIONS}


def _once_a_period(c: Config, key: str, *, period: int, offset: int) -> range:
    """The layers `offset`, `offset + period`, and so on."""
    step = c.whole(f"{key}_period", absent=period)
    return range(c.whole(f"{key}_offset", absent=offset, least=0, most=step - 1), c.n_layers(), step)


def nemotron_h(c: Config) -> Shape:
    """Nemotron-H and Nemotron 3: every layer is one block, a mixer or an FFN, as a pattern of characters or words says.

    Plain blocks (up, down); attention without biases or positions; a head that is never tied. Mamba's inner width is that
    of its heads, whatever `expand` says.
    """
    kinds = _block_kinds(c, "layers_block_type", "layer_types", pattern="hybrid_override_pattern")
    if c.given("num_hidden_layers") and c.n_layers() != len(kinds):
        raise c.wrong("num_hidden_layers", f"as many layers as the pattern has blocks, {len(kinds)}", c.n_layers())
    c = sparse(c, vocab=131072, width=4096, ff=21504, layers=len(kinds), heads=32, context=4096)
    blocks = {kind: _block(c, kind) for kind in set(kinds)}
    shape = stack(c, [blocks[kind] for kind in kinds])
    return shape | {"positions": NO_POSITIONS, "head": {"tied": False}, "mtp": _nemotron_mtp(c)}


def _block_kinds(c: Config, *keys: str, pattern: str) -> list[str]:
    """The blocks in order: from a list of words, else from a text with a character for each."""
    for key in keys:
        if c.given(key):
            return layer_kinds(c, key, n_layers=None, known=tuple(_BLOCKS.values()))
    text = c.word(pattern)
    wrong = next((character for character in text if character not in _BLOCKS), None)
    if wrong is not None or not text:
        raise c.wrong(pattern, f"blocks among {' '.join(_BLOCKS)}", text if wrong is None else wrong)
    return [_BLOCKS[character] for character in text]


def _block(c: Config, kind: str) -> Layer:
    match kind:
        case "linear_attention":
            return Layer(mixer=_nemotron_mamba(c), n_norms=1)
        case "full_attention":
            head_dim = "head_dim" if c.has("head_dim") else "attention_head_dim"
            sized = over(c, {"head_dim": c.whole(head_dim, absent=128)})
            return Layer(mixer=attention(sized, kv_absent=8), n_norms=1)
        case "mlp":
            return Layer(ffn=dense(c, gated=False, bias=c.flag("mlp_bias", absent=False)), n_norms=1)
        case _:
            return Layer(ffn=_nemotron_experts(c), n_norms=1)


def _nemotron_mamba(c: Config) -> Mamba2:
    n_heads = c.whole("mamba_num_heads", absent=128, most=100_000)
    bias = c.flag("use_bias", absent=False)
    return Mamba2(
        n_heads=n_heads,
        d_head=c.whole("mamba_head_dim", absent=64),
        n_groups=_groups(c, "mamba_n_groups", "n_groups", absent=8, n_heads=n_heads),
        d_state=c.whole("ssm_state_size", absent=128),
        d_conv=c.whole("mamba_d_conv", "conv_kernel", absent=4, most=100_000),
        conv_bias=c.flag("mamba_conv_bias", "use_conv_bias", absent=True),
        in_bias=bias,
        out_bias=bias,
        state_dtype=state_dtype(c),
    )


def _nemotron_experts(c: Config) -> Moe:
    return experts(
        filled(c, moe_intermediate_size=7688),
        n_absent=8,
        k_absent=2,
        d_shared=c.whole("moe_shared_expert_intermediate_size", absent=7688),
        d_latent=c.whole("moe_latent_size", absent=None, null=None),
        gated=False,
        shared_bias=c.flag("mlp_bias", absent=False),
    )


def _nemotron_mtp(c: Config) -> Mtp | None:
    """Modules of a mixer block and an FFN block each, which share the model's tables."""
    n_modules = c.whole("num_nextn_predict_layers", least=0, most=1000) if c.given("num_nextn_predict_layers") else 0
    if n_modules == 0:
        return None
    kinds, keys = ["full_attention", "moe"], ("mtp_layers_block_type", "mtp_hybrid_override_pattern")
    if any(c.given(key) for key in keys):
        kinds = _block_kinds(c, keys[0], pattern=keys[1])
    blocks = [_block(c, kind) for kind in kinds]
    mixers, ffns = [b.mixer for b in blocks if b.mixer], [b.ffn for b in blocks if b.ffn]
    if len(mixers) > 1 or len(ffns) > 1:
        raise Unsupported(f"{c.place(keys[1])}: a module of more than one mixer and one FFN is not described yet")
    layer = Layer(mixer=next(iter(mixers), None), ffn=next(iter(ffns), None), n_norms=len(blocks))
    return Mtp(n_modules=n_modules, layer=layer)


def granitemoehybrid(c: Config) -> Shape:
    """Granite 4: a block every token passes beside the experts, alone where there are none; rotation only if it says so."""
    c = sparse(c, vocab=32000, width=4096, ff=11008, layers=32, heads=32, context=2048)
    n_layers = c.n_layers()
    kinds = ["linear_attention"] * n_layers
    if c.given("layer_types") or c.given("layers_block_type"):
        key = "layer_types" if c.given("layer_types") else "layers_block_type"
        kinds = layer_kinds(c, key, n_layers=n_layers, known=("linear_attention", "full_attention"))
    mixers: dict[str, Mixer] = {
        "full_attention": attention(c, **biases(c)),
        "linear_attention": _mamba2(c, d_inner=_expanded(c, "mamba_expand")),
    }
    ffn = _granite_ffn(c)
    rotated = c.word("position_embedding_type", absent=None, null=None) == "rope"
    shape = stack(c, [Layer(mixer=mixers[kind], ffn=ffn) for kind in kinds])
    return shape | {"positions": Positions(kind="rope" if rotated else "none")}


def _granite_ffn(c: Config) -> Ffn:
    count, d_shared = ("num_local_experts", "num_experts"), c.whole("shared_intermediate_size", absent=1024)
    if c.whole(*count, absent=8, least=0, most=100_000) == 0:
        return Dense(d_ff=d_shared)
    return experts(c, count=count, n_absent=8, k_absent=2, width="intermediate_size", d_shared=d_shared)


def bamba(c: Config) -> Shape:
    """Bamba: Mamba-2 but for the layers that `attn_layer_indices` names, each with a gated block."""
    c = sparse(c, vocab=128000, width=4096, ff=14336, layers=32, heads=32, context=262144)
    n_layers = c.n_layers()
    attends = _indices(c, "attn_layer_indices", n_layers)
    mixer = attention(c, kv_absent=8, **biases(c))
    recurrent = _mamba2(c, d_inner=_expanded(c, "mamba_expand"))
    ffn = dense(c, bias=c.flag("mlp_bias", absent=False))
    layers = [Layer(mixer=mixer if i in attends else recurrent, ffn=ffn) for i in range(n_layers)]
    return stack(c, layers)


def _indices(c: Config, key: str, n_layers: int) -> set[int]:
    found = c.items(key, kind=int, absent=None, null=None) or []
    for index in found:
        if not 0 <= index < n_layers:
            raise c.wrong(key, f"layers from 0 to {n_layers - 1}", index)
    return set(found)


def falcon_h1(c: Config) -> Shape:
    """Falcon-H1: attention and Mamba-2 side by side in every layer; the inner width has a key of its own."""
    c = sparse(c, vocab=128000, width=4096, ff=14336, layers=32, heads=32, context=8192)
    d_ssm = c.whole("mamba_d_ssm", absent=1024, null=None)
    d_inner = _expanded(c, "mamba_expand") if d_ssm is None else d_ssm
    recurrent = _mamba2(
        c,
        d_inner=d_inner,
        out_bias=c.flag("projectors_bias", absent=False, null=False),
        gated_norm=c.flag("mamba_rms_norm", absent=False, null=False),
    )
    mixer = Pair(attention=attention(c, kv_absent=8, **biases(c)), recurrent=recurrent)
    layer = Layer(mixer=mixer, ffn=dense(c, bias=c.flag("mlp_bias", absent=False)))
    return stack(c, layer)


def recurrent_gemma(c: Config) -> Shape:
    """RecurrentGemma (Griffin): gated linear recurrences and windowed attention in a pattern; `intermediate_size` is that of
    gate and up together; biases on every product but q, k and v."""
    bias, n_layers = c.flag("attention_bias", absent=False), c.n_layers()
    width = c.whole("lru_width", absent=None, null=None) or c.whole("hidden_size")
    window = c.whole("attention_window_size", "sliding_window", absent=2048, most=2**40)
    mixers: dict[str, Mixer] = {"attention": attention(c, window=window, qkv_bias=bias, out_bias=True)}
    n_blocks = c.whole("num_attention_heads")
    if width % n_blocks:
        raise c.wrong("num_attention_heads", f"a divisor of the recurrence's width, {width}", n_blocks)
    d_conv = c.whole("conv1d_width", absent=4, most=100_000)
    mixers["recurrent"] = Rglru(d_inner=width, n_blocks=n_blocks, d_conv=d_conv, state_dtype=state_dtype(c))
    pattern = ["recurrent", "recurrent", "attention"]
    if c.has("block_types"):
        pattern = c.items("block_types", kind=str)
    if not pattern or not set(pattern) <= set(mixers):
        raise c.wrong("block_types", f"a list of {' and '.join(mixers)}", pattern)
    ffn = Dense(d_ff=c.whole("intermediate_size", least=2) // 2, bias=True)
    layers = [Layer(mixer=mixers[kind], ffn=ffn) for kind in islice(cycle(pattern), n_layers)]
    return stack(_unbounded(c), layers, tied_by_default=True)


FAMILIES = {
    "mamba": mamba,
    "falcon_mamba": mamba,
    "mamba2": mamba2,
    "jamba": jamba,
    "nemotron_h": nemotron_h,
    "granitemoehybrid": granitemoehybrid,
    "bamba": bamba,
    "falcon_h1": falcon_h1,
    "recurrent_gemma": recurrent_gemma,
}
