"""Encoder-decoder models: a tower of text or audio, and a decoder whose every layer attends to what it gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from roofline.specs.ffns import Dense
from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.families.common import LAYER_NORM, Shape, grouped, over, plain, tied
from roofline.specs.huggingface.families.mixtures import filled
from roofline.specs.huggingface.families.readouts import architecture
from roofline.specs.huggingface.families.vision import text_part, with_towers
from roofline.specs.layers import Group, Layer
from roofline.specs.mixers import Attention, CrossAttention
from roofline.specs.model import Embedding, Positions
from roofline.specs.towers import Product, Tower

__all__ = ["FAMILIES"]


@dataclass(frozen=True, slots=True)
class _T5:
    """What a class of the T5 line takes for absent keys, and whether every layer has its own table of relative positions."""

    vocab: int = 250112
    d_ff: int = 1024
    n_layers: int = 8
    n_heads: int = 6
    feed_forward: str = "gated-gelu"
    table_a_layer: bool = False


def _t5(c: Config, default: _T5) -> Shape:
    """T5: heads as wide as `d_kv`, no biases, relative positions in a table of the first layer of each stack.

    `tie_word_embeddings` is what the checkpoint stores: v1.0 ties, v1.1, Flan and mT5 do not, whatever a library makes
    of it.
    """
    d_model = c.whole("hidden_size", "d_model", absent=512)
    n_heads, d_head = c.whole("num_heads", absent=default.n_heads, most=100_000), c.whole("d_kv", absent=64)
    own = Attention(n_heads=n_heads, n_kv_heads=n_heads, d_head=d_head)
    cross = CrossAttention(n_heads=n_heads, n_kv_heads=n_heads, d_head=d_head, d_memory=d_model)
    ffn = _t5_block(c, default)
    table = n_heads * c.whole("relative_attention_num_buckets", absent=32)
    n_encoder = c.n_layers("num_hidden_layers", "num_layers", absent=default.n_layers)
    if c.given("num_decoder_layers"):
        n_decoder = c.n_layers("num_decoder_layers")
    else:
        n_decoder = n_encoder
        c.assume("num_decoder_layers", f"{n_encoder}, as many as the encoder has")

    def stack_of(n: int, layer: Layer) -> tuple[Group, ...]:
        with_table = layer.model_copy(update={"vectors": table})
        return plain(n, with_table) if default.table_a_layer else grouped([with_table, *[layer] * (n - 1)])

    encoder = stack_of(n_encoder, Layer(mixer=own.model_copy(update={"causal": False}), ffn=ffn))
    shape: Shape = {
        "d_model": d_model,
        "vocab_size": c.whole("vocab_size", absent=default.vocab, most=100_000_000),
        "max_context_tokens": c.whole("n_positions", absent=512, most=2**40),
        "positions": Positions(kind="relative"),
    }
    known = ("ForConditionalGeneration", "WithLMHeadModel", "Model", "EncoderModel")
    kind = architecture(c, known=known, absent="ForConditionalGeneration")
    if kind == "EncoderModel":
        return shape | {"layers": encoder, "head": None}
    tower = Tower(
        kind="text", d_model=d_model, n_norms=1, layers=encoder, feeds="memory", shares_embedding=True
    )  # fmt: skip
    decoder = stack_of(n_decoder, Layer(mixer=own, cross=cross, ffn=ffn, n_norms=3))
    return shape | {
        "towers": (tower,),
        "layers": decoder,
        "head": {"tied": tied(c, by_default=True) or kind == "Model"},
    }


def _t5_block(c: Config, default: _T5) -> Dense:
    """Plain, or gated where the activation's name begins with `gated-`."""
    act = str(c.word("feed_forward_proj", absent=default.feed_forward)).split("-")
    if len(act) > 2 or (len(act) == 2 and act[0] != "gated"):
        raise c.wrong("feed_forward_proj", "an activation, or gated- and an activation", "-".join(act))
    return Dense(d_ff=c.whole("d_ff", absent=default.d_ff), gated=len(act) == 2)


@dataclass(frozen=True, slots=True)
class _Bart:
    """How the classes of the BART line differ: positions as parameters and their further rows, a norm after the embedding,
    a norm after the last layer; then the sizes a class takes for absent keys, a stack's as (layers, heads, width)."""

    table: bool = True
    extra_rows: int = 0
    embedding_norm: bool = False
    final_norm: bool = False
    vocab: int = 50265
    d_model: int = 1024
    encoder: tuple[int, int, int] = (12, 16, 4096)
    decoder: tuple[int, int, int] = (12, 16, 4096)
    context: int = 1024


def _bart(c: Config, default: _Bart) -> Shape:
    """BART and its kin: biases everywhere, LayerNorm, one table for encoder, decoder and head unless untied."""
    kind = architecture(c, known=("ForConditionalGeneration", "MTModel", "Model"), absent="ForConditionalGeneration")
    d_model = c.whole("hidden_size", "d_model", absent=default.d_model)
    vocab = c.whole("vocab_size", absent=default.vocab, most=100_000_000)
    context = c.whole("max_position_embeddings", absent=default.context, most=2**30)
    rows = context + default.extra_rows if default.table else None
    shared = c.flag("share_encoder_decoder_embeddings", absent=True) if kind == "MTModel" else True
    one_table = tied(c, by_default=True)
    tables = _own_tables(vocab * d_model, shared=shared, one_table=one_table)
    tower = Tower(
        kind="text", d_model=d_model, norm=LAYER_NORM, n_norms=default.embedding_norm + default.final_norm,
        layers=_stack(c, "encoder", default.encoder, d_model), feeds="memory", shares_embedding=not tables,
        vectors=tables | ({"positions": rows * d_model} if rows else {}),
    )  # fmt: skip
    return {
        "d_model": d_model,
        "vocab_size": vocab if shared else c.whole("decoder_vocab_size", absent=vocab, null=vocab, most=100_000_000),
        "max_context_tokens": context,
        "norm": LAYER_NORM,
        "final_norm": default.final_norm,
        "embedding": Embedding(norm=default.embedding_norm),
        "positions": Positions(kind="learned", rows=rows) if rows else Positions(kind="none"),
        "towers": (tower,),
        "layers": _stack(c, "decoder", default.decoder, d_model),
        "head": {"tied": one_table or kind == "Model"},  # the bare model has none: nothing to count
    }


def _own_tables(size: int, *, shared: bool, one_table: bool) -> dict[str, int]:
    """Token tables the encoder keeps for itself: where nothing is tied, the one meant to be shared is stored besides."""
    if not shared:
        return {"tokens": size}
    return {} if one_table else {"tokens": size, "unread_tokens": size}


def _stack(c: Config, side: str, default: tuple[int, int, int], d_model: int) -> tuple[Group, ...]:
    """Layers of the encoder or the decoder; today's keys without a side mean the encoder."""
    n_layers, n_heads, d_ff = default
    encodes = side == "encoder"
    count_keys = ("num_hidden_layers", "encoder_layers") if encodes else ("decoder_layers",)
    head_keys = ("num_attention_heads", "encoder_attention_heads") if encodes else ("decoder_attention_heads",)
    n = c.whole(*head_keys, absent=n_heads, most=100_000)
    if d_model % n:
        raise c.wrong(next((k for k in head_keys if c.has(k)), head_keys[-1]), f"a divisor of d_model={d_model}", n)
    ffn = Dense(d_ff=c.whole(f"{side}_ffn_dim", absent=d_ff), gated=False, bias=True)
    own = Attention(n_heads=n, n_kv_heads=n, d_head=d_model // n, causal=not encodes, qkv_bias=True, out_bias=True)
    if encodes:
        return plain(c.n_layers(*count_keys, absent=n_layers), Layer(mixer=own, ffn=ffn))
    cross = CrossAttention(n_heads=n, n_kv_heads=n, d_head=d_model // n, d_memory=d_model, qkv_bias=True, out_bias=True)
    return plain(c.n_layers(*count_keys, absent=n_layers), Layer(mixer=own, cross=cross, ffn=ffn, n_norms=3))


def whisper(c: Config) -> Shape:
    """Whisper: two convolutions halve 3000 frames to 1500 tokens, whose positions are parameters; keys have no bias."""
    architecture(c, known=("ForConditionalGeneration", "Model"), absent="ForConditionalGeneration")
    d_model = c.whole("hidden_size", "d_model", absent=384)
    context = c.whole("max_target_positions", absent=448, most=2**30)
    tower = _sound(c, d_model, mels=80, stack=(4, 6, 1536))
    return {
        "d_model": d_model,
        "vocab_size": c.whole("vocab_size", absent=51865, most=100_000_000),
        "max_context_tokens": context,
        "norm": LAYER_NORM,
        "positions": Positions(kind="learned", rows=context),
        "towers": (tower,),
        "layers": _without_key_bias(_stack(c, "decoder", (4, 6, 1536), d_model)),
        "head": {"tied": tied(c, by_default=True)},
    }


def _sound(c: Config, d_model: int, *, mels: int, stack: tuple[int, int, int]) -> Tower:
    """Whisper's encoder; `mels` and `stack` (layers, heads, width) where no key says."""
    n_tokens, mels = c.whole("max_source_positions", absent=1500, most=100_000), c.whole("num_mel_bins", absent=mels)
    return Tower(
        kind="audio", d_model=d_model, norm=LAYER_NORM, n_norms=1,
        stem=(
            Product(name="conv1", d_in=3 * mels, d_out=d_model, bias=True, rows=2),
            Product(name="conv2", d_in=3 * d_model, d_out=d_model, bias=True),
        ),
        layers=_without_key_bias(_stack(c, "encoder", stack, d_model)),
        vectors={"positions": n_tokens * d_model}, feeds="memory", fixed_tokens=n_tokens,
    )  # fmt: skip


def voxtral(c: Config) -> Shape:
    """Voxtral: Whisper's encoder before a Llama that ties nothing; as many of its tokens side by side as make
    `intermediate_size` wide are one of the prompt's, after two products."""
    text = c.section("text_config", absent={})
    untied = over(filled(text, **_VOXTRAL), {"tie_word_embeddings": False})
    shape = text_part(over(c, {"text_config": untied.data}), model_type="llama", tied=None)
    a, d_text = c.section("audio_config", absent={}), shape["d_model"]
    d_model, wide = a.whole("hidden_size", "d_model", absent=1280), a.whole("intermediate_size", absent=5120)
    if wide % d_model:
        raise a.wrong("intermediate_size", f"a multiple of hidden_size={d_model}", wide)
    rows = d_model / wide
    tower = _sound(over(a, {"encoder_ffn_dim": wide}), d_model, mels=128, stack=(32, 20, 5120))
    projector = (
        Product(name="project_up", d_in=wide, d_out=d_text, rows=rows),
        Product(name="project_down", d_in=d_text, d_out=d_text, rows=rows),
    )
    return with_towers(shape, tower.model_copy(update={"feeds": "prompt", "projector": projector}))


_VOXTRAL = {
    "vocab_size": 131_072, "hidden_size": 3072, "intermediate_size": 8192, "num_hidden_layers": 30,
    "num_key_value_heads": 8, "max_position_embeddings": 131_072, "head_dim": 128,
}  # fmt: skip


def _without_key_bias(groups: tuple[Group, ...]) -> tuple[Group, ...]:
    (group,) = groups
    (layer,) = group.layers
    parts = {
        name: part.model_copy(update={"qkv_bias": "qv"})
        for name, part in (("mixer", layer.mixer), ("cross", layer.cross))
        if part is not None
    }
    return plain(group.repeat, layer.model_copy(update=parts))


FAMILIES: dict[str, Callable[[Config], Shape]] = {
    "t5": partial(_t5, default=_T5(vocab=32128, d_ff=2048, n_layers=6, n_heads=8, feed_forward="relu")),
    "mt5": partial(_t5, default=_T5()),
    "umt5": partial(_t5, default=_T5(table_a_layer=True)),
    "bart": partial(_bart, default=_Bart(extra_rows=2, embedding_norm=True)),
    "mbart": partial(_bart, default=_Bart(extra_rows=2, embedding_norm=True, final_norm=True)),
    "plbart": partial(
        _bart,
        default=_Bart(
            extra_rows=2, embedding_norm=True, vocab=50005, d_model=768, encoder=(6, 12, 3072), decoder=(6, 12, 3072)
        ),
    ),
    "pegasus": partial(_bart, default=_Bart(final_norm=True)),
    "marian": partial(_bart, default=_Bart(vocab=58101)),
    "m2m_100": partial(_bart, default=_Bart(table=False, final_norm=True, vocab=128112)),
    "blenderbot": partial(
        _bart,
        default=_Bart(
            final_norm=True, vocab=8008, d_model=2560, encoder=(2, 32, 10240), decoder=(24, 32, 10240), context=128
        ),
    ),
    "blenderbot-small": partial(
        _bart,
        default=_Bart(embedding_norm=True, d_model=512, encoder=(8, 16, 2048), decoder=(8, 16, 2048), context=512),
    ),
    "whisper": whisper,
    "voxtral": voxtral,
}
