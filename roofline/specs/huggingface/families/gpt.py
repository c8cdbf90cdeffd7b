"""Decoders older than Llama, and those that kept their keys: GPT-2 to Falcon, OPT, BLOOM, MPT."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from roofline.errors import Unsupported
from roofline.specs.ffns import Dense
from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.families.common import LAYER_NORM, Shape, grouped, last, plain, sparse, tied
from roofline.specs.layers import Group, Layer, Norm
from roofline.specs.mixers import Attention

__all__ = ["FAMILIES"]

WIDTH = ("n_embd", "hidden_size")
LAYERS = ("n_layer", "num_hidden_layers")
HEADS = ("n_head", "num_attention_heads")
POSITIONS = ("n_positions", "max_position_embeddings")


def gpt2(c: Config) -> Shape:
    """GPT-2: a table of positions, biases everywhere, tied."""
    layer = Layer(mixer=_mha(c, qkv_bias=True, out_bias=True), ffn=_plain_block(c, "n_inner"))
    return _with_table(_shape(c, plain(c.n_layers(*LAYERS), _no_cross(c, layer)), tied_by_default=True, context=1024))


def gpt_bigcode(c: Config) -> Shape:
    """StarCoder 1, SantaCoder: GPT-2 with one head of keys and values unless `multi_query` is false."""
    n_kv = 1 if c.flag("multi_query", absent=True) else None
    layer = Layer(mixer=_mha(c, n_kv=n_kv, qkv_bias=True, out_bias=True), ffn=_plain_block(c, "n_inner"))
    return _with_table(_shape(c, plain(c.n_layers(*LAYERS), _no_cross(c, layer)), tied_by_default=True, context=1024))


def openai_gpt(c: Config) -> Shape:
    """GPT-1: norms after the sub-layers and none at the end; a block of 4·D."""
    layer = Layer(mixer=_mha(c, qkv_bias=True, out_bias=True), ffn=Dense(d_ff=4 * _width(c), gated=False, bias=True))
    shape = _shape(c, plain(c.n_layers(*LAYERS), layer), tied_by_default=True, context=512)
    return _with_table(shape) | {"final_norm": False}


def gptj(c: Config) -> Shape:
    """GPT-J, CodeGen: both sub-layers from one norm; biases in the block and on the head, none in attention."""
    layer = Layer(mixer=_mha(c), ffn=_plain_block(c, "n_inner"), n_norms=1, parallel=True)
    layers = plain(c.n_layers(*LAYERS), layer)
    return _shape(c, layers, tied_by_default=False, context=2048, head_bias=True)


def phi_msft(c: Config) -> Shape:
    """Phi 1.5 and 2 in their first files, with GPT-2's keys: GPT-J's layer with biases in attention as well."""
    layer = Layer(mixer=_mha(c, qkv_bias=True, out_bias=True), ffn=_plain_block(c, "n_inner"), n_norms=1, parallel=True)
    layers = plain(c.n_layers(*LAYERS), layer)
    return _shape(c, layers, tied_by_default=False, context=2048, head_bias=True)


def gpt_neo(c: Config) -> Shape:
    """GPT-Neo: a table of positions; layers alternate between all and a window of 256; a bias on o, none on q, k and v."""
    window = c.whole("window_size", absent=256, most=2**40)
    ffn = _plain_block(c, "intermediate_size")
    kinds = {
        word: Layer(mixer=_mha(c, heads=("num_heads", "num_attention_heads"), window=w, out_bias=True), ffn=ffn)
        for word, w in (("global", None), ("local", window))
    }
    layers = grouped([kinds[word] for word in _attention_types(c, tuple(kinds))])
    return _with_table(_shape(c, layers, tied_by_default=True, context=2048))


def _attention_types(c: Config, known: Sequence[str]) -> list[str]:
    """`attention_types`, such as [[["global", "local"], 12]]: patterns, each so many times."""
    n_layers = c.n_layers("num_layers", "num_hidden_layers")
    default = [[["global", "local"], 12]]
    words: list[str] = []
    for item in c.items("attention_types", kind=list, absent=default, null=default, longest=1000):
        match item:
            case [list(pattern), int(times)] if times >= 0 and len(words) + len(pattern) * times <= n_layers:
                words.extend(pattern * times)
            case _:
                raise c.wrong("attention_types", f"[pattern, how often] for {n_layers} layers in all", item)
    for word in words:
        if word not in known:
            raise c.wrong("attention_types", f"patterns of {' and '.join(known)} only", word)
    if len(words) != n_layers:
        raise c.wrong("attention_types", f"words for {n_layers} layers", len(words))
    return words


def gpt_neox(c: Config) -> Shape:
    """GPT-NeoX, Pythia: biases everywhere (`attention_bias`); two norms, though both sub-layers run side by side."""
    bias = c.flag("attention_bias", absent=True)
    parallel = c.flag("use_parallel_residual", absent=True)
    ffn = Dense(d_ff=c.whole("intermediate_size"), gated=False, bias=True)
    layer = Layer(mixer=_mha(c, qkv_bias=bias, out_bias=bias), ffn=ffn, parallel=parallel)
    return _shape(c, plain(c.n_layers(*LAYERS), layer), tied_by_default=False, context=2048)


def bloom(c: Config) -> Shape:
    """BLOOM: a norm on the embedding's rows, order by a bias on the scores, a block of 4·D; tied. `n_embed`: older key."""
    width = ("n_embed", "hidden_size")
    ffn = Dense(d_ff=4 * _width(c, width), gated=False, bias=True)
    layers = plain(c.n_layers(*LAYERS), Layer(mixer=_mha(c, width=width, qkv_bias=True, out_bias=True), ffn=ffn))
    shape = _shape(c, layers, tied_by_default=True, width=width, positions=("seq_length",), context=2048)
    return shape | {"embedding": {"norm": True}, "positions": {"kind": "alibi"}}


def mpt(c: Config) -> Shape:
    """MPT: no biases, not even in the norms; order by a bias on the scores; the block is 4·D wide whatever the keys say."""
    width, heads = ("d_model", "hidden_size"), ("n_heads", "num_attention_heads")
    ffn = Dense(d_ff=4 * _width(c, width), gated=False)
    n_layers = c.n_layers("n_layers", "num_hidden_layers")
    layers = plain(n_layers, Layer(mixer=_mha(c, width=width, heads=heads), ffn=ffn))
    shape = _shape(c, layers, tied_by_default=True, width=width, positions=("max_seq_len",), context=2048)
    return shape | {"norm": Norm(kind="layer"), "positions": {"kind": "alibi"}}


def falcon(c: Config) -> Shape:
    """Falcon: one KV head unless `multi_query` is false, or `num_kv_heads` in the newer architecture, which has two norms.

    Files of 2023 call it RefinedWeb and have older keys; there `n_head_kv` alone tells the newer architecture.
    """
    new = c.flag("new_decoder_architecture", absent=c.has("n_head_kv"), null=False)
    n_kv = c.whole("num_kv_heads", "n_head_kv", absent=None, null=None, most=100_000) if new else None
    if not new and c.flag("multi_query", absent=True, null=False):
        n_kv = 1
    bias = c.flag("bias", absent=False, null=False)
    width = ("n_embed", "hidden_size")
    d_ff = c.whole("ffn_hidden_size", absent="4 * hidden_size", null="4 * hidden_size")
    parallel = c.flag("parallel_attn", absent=True, null=False)
    layer = Layer(
        mixer=_mha(c, width=width, n_kv=n_kv, qkv_bias=bias, out_bias=bias),
        ffn=Dense(d_ff=4 * _width(c, width) if isinstance(d_ff, str) else d_ff, gated=False, bias=bias),
        n_norms=_falcon_norms(c, parallel=parallel, new=new),
        parallel=parallel,
    )
    shape = _shape(c, plain(c.n_layers(*LAYERS), layer), tied_by_default=True, width=width, context=2048)
    alibi = c.flag("alibi", absent=False, null=False)
    return shape | {"positions": {"kind": "alibi" if alibi else "rope"}}


def _falcon_norms(c: Config, *, parallel: bool, new: bool) -> int:
    """Two in sequence; in parallel one, or the two of the newer architecture unless `num_ln_in_parallel_attn` says one."""
    by_default = 2 if new else 1
    n = c.whole("num_ln_in_parallel_attn", absent=by_default, null=by_default, most=2)
    return n if parallel else 2


def opt(c: Config) -> Shape:
    """OPT: a table of positions with two further rows; the 350M embeds in half the width and has no norm at the end."""
    c = sparse(c, vocab=50_272, width=768, ff=3072, layers=12, heads=12, context=2048, ff_key="ffn_dim")
    bias = c.flag("enable_bias", absent=True)
    scaled = c.flag("layer_norm_elementwise_affine", absent=True)
    layer = Layer(
        mixer=_mha(c, qkv_bias=bias, out_bias=bias), ffn=Dense(d_ff=c.whole("ffn_dim"), gated=False, bias=bias)
    )
    shape = _shape(c, plain(c.n_layers(*LAYERS), layer), tied_by_default=True, context=2048)
    width = c.whole("word_embed_proj_dim", absent=None, null=None)
    if shape["head"] is None and width not in (None, shape["d_model"]):
        raise Unsupported(f"{c.place('word_embed_proj_dim')}: {width} is read with a head only, not of the bare model")
    before = c.flag("do_layer_norm_before", absent=True)
    return _with_table(shape, more_rows=2) | {
        "norm": Norm(kind="layer", scale=scaled, bias=scaled),
        "final_norm": before and not c.flag("_remove_final_layer_norm", absent=False),
        "embedding": {"width": width},
    }


def biogpt(c: Config) -> Shape:
    """BioGPT: biases everywhere, a table of positions with two further rows, tied."""
    ffn = Dense(d_ff=c.whole("intermediate_size"), gated=False, bias=True)
    layer = Layer(mixer=_mha(c, qkv_bias=True, out_bias=True), ffn=ffn)
    return _with_table(_shape(c, plain(c.n_layers(*LAYERS), layer), tied_by_default=True, context=1024), more_rows=2)


def xglm(c: Config) -> Shape:
    """XGLM: biases everywhere; positions are computed, not learnt; tied."""
    width, heads = ("d_model", "hidden_size"), ("attention_heads", "num_attention_heads")
    layer = _no_cross(
        c,
        Layer(
            mixer=_mha(c, width=width, heads=heads, qkv_bias=True, out_bias=True),
            ffn=Dense(d_ff=c.whole("ffn_dim"), gated=False, bias=True),
        ),
    )
    layers = plain(c.n_layers("num_layers", "num_hidden_layers"), layer)
    return _shape(c, layers, tied_by_default=True, width=width, context=2048) | {"positions": {"kind": "none"}}


def _width(c: Config, keys: Sequence[str] = WIDTH) -> int:
    return int(c.whole(*keys))


def _mha(
    c: Config, *, width: Sequence[str] = WIDTH, heads: Sequence[str] = HEADS, n_kv: int | None = None, **more: Any
) -> Attention:
    """Heads of D / N, which has to come out whole; as many with keys and values unless `n_kv` says."""
    d, n = _width(c, width), c.whole(*heads, most=100_000)
    key = next(key for key in heads if c.has(key))
    if d % n:
        raise c.wrong(key, f"a divisor of the width {d}", n)
    if n_kv is not None and n % n_kv:
        raise c.wrong("num_kv_heads", f"a divisor of {key}={n}", n_kv)
    return Attention(n_heads=n, n_kv_heads=n_kv or n, d_head=d // n, **more)


def _plain_block(c: Config, key: str) -> Dense:
    """Two matrices with biases, `key` wide, or 4·D where that is absent or null."""
    d_ff = c.whole(key, absent="4 * hidden_size", null="4 * hidden_size")
    return Dense(d_ff=4 * _width(c) if isinstance(d_ff, str) else d_ff, gated=False, bias=True)


def _no_cross(c: Config, layer: Layer) -> Layer:
    if c.flag("add_cross_attention", absent=False):
        raise Unsupported(
            f"{c.place('add_cross_attention')}: a decoder with cross-attention needs its encoder's config"
        )
    return layer


def _shape(
    c: Config, layers: tuple[Group, ...], *, tied_by_default: bool, width: Sequence[str] = WIDTH,
    positions: Sequence[str] = POSITIONS, context: int, head_bias: bool = False,
) -> Shape:  # fmt: skip
    """Width, vocabulary, LayerNorms, head, and the context, which is `context` where it is absent."""
    d_model = _width(c, width)
    return {
        "d_model": d_model,
        "vocab_size": c.whole("vocab_size", most=100_000_000),
        "max_context_tokens": c.whole(*positions, absent=context, most=2**30),
        "norm": LAYER_NORM,
        **last(c, d_model, {"tied": tied(c, by_default=tied_by_default), "bias": head_bias}),
        "layers": layers,
    }


def _with_table(shape: Shape, *, more_rows: int = 0) -> Shape:
    """A learnt row for every position of the context, and so many more."""
    return shape | {"positions": {"kind": "learned", "rows": shape["max_context_tokens"] + more_rows}}


FAMILIES = {
    "gpt2": gpt2,
    "gpt_bigcode": gpt_bigcode,
    "openai-gpt": openai_gpt,
    "gptj": gptj,
    "codegen": gptj,
    "phi-msft": phi_msft,
    "gpt_neo": gpt_neo,
    "gpt_neox": gpt_neox,
    "bloom": bloom,
    "mpt": mpt,
    "falcon": falcon,
    "RefinedWeb": falcon,
    "RefinedWebModel": falcon,
    "opt": opt,
    "biogpt": biogpt,
    "xglm": xglm,
}
