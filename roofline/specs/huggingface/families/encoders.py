"""Encoders that read and do not generate: BERT and its line. `architectures` says what stands after the last layer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from roofline.errors import Unsupported
from roofline.specs.ffns import Dense
from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.families.common import LAYER_NORM, Shape, grouped, layer_words, plain
from roofline.specs.huggingface.families.readouts import Readouts, readout
from roofline.specs.layers import Layer, Norm
from roofline.specs.mixers import Attention
from roofline.specs.model import Embedding, Positions
from roofline.specs.towers import Product

__all__ = ["FAMILIES"]

_BERT: Readouts = {
    "Model": ("pooler",),
    "ForPreTraining": ("pooler", "transform", "words", "pair"),
    "ForMaskedLM": ("transform", "words"),
    "ForNextSentencePrediction": ("pooler", "pair"),
    "ForSequenceClassification": ("pooler", "labels"),
    "ForMultipleChoice": ("pooler", "choice"),
    "ForTokenClassification": ("tags",),
    "ForQuestionAnswering": ("tags",),
}
_ROBERTA: Readouts = {
    "Model": ("pooler",),
    "ForMaskedLM": ("transform", "words"),
    "ForSequenceClassification": ("dense", "labels"),
    "ForMultipleChoice": ("pooler", "choice"),
    "ForTokenClassification": ("tags",),
    "ForQuestionAnswering": ("tags",),
}
_ELECTRA: Readouts = _ROBERTA | {
    "Model": (),
    "ForPreTraining": ("detect", "detected"),
    "ForMultipleChoice": ("dense", "choice"),
}
_DISTILBERT: Readouts = _ROBERTA | {"Model": (), "ForMultipleChoice": ("dense", "choice")}
_DEBERTA: Readouts = _ROBERTA | {"Model": (), "ForSequenceClassification": ("pooler", "labels")}
_ROTARY: Readouts = {
    "Model": (),
    "ForMaskedLM": ("transform", "words"),
    "ForSequenceClassification": ("pooler", "labels"),
    "ForTokenClassification": ("tags",),
}
_MODERNBERT: Readouts = {
    "Model": (),
    "ForMaskedLM": ("transform", "words"),
    "ForSequenceClassification": ("dense", "labels"),
    "ForMultipleChoice": ("dense", "choice"),
    "ForTokenClassification": ("transform", "tags"),
    "ForQuestionAnswering": ("transform", "tags"),
}


@dataclass(frozen=True, slots=True)
class _Line:
    """What the classes of the line take for absent keys; whether positions are counted from the padding's number on;
    whether an untied masked-word head stores two biases."""

    readouts: Readouts
    vocab: int = 30522
    width: int = 768
    heads: int = 12
    d_ff: int = 3072
    n_layers: int = 12
    types: int = 2
    after_padding: bool = False
    second_bias: bool = True


def _layer(c: Config, d_model: int, *, heads: int, d_ff: int) -> Layer:
    """Post-norm: attention of all over all, a plain block, biases everywhere."""
    keys = ("num_attention_heads", "n_heads")
    n = c.whole(*keys, absent=heads, most=100_000)
    if d_model % n:
        raise c.wrong(next((k for k in keys if c.has(k)), keys[0]), f"a divisor of the width {d_model}", n)
    mixer = Attention(n_heads=n, n_kv_heads=n, d_head=d_model // n, causal=False, qkv_bias=True, out_bias=True)
    return Layer(
        mixer=mixer, ffn=Dense(d_ff=c.whole("intermediate_size", "hidden_dim", absent=d_ff), gated=False, bias=True)
    )


def _line(line: _Line, *, types_key: str | None = "type_vocab_size") -> Callable[[Config], Shape]:
    """BERT: learned positions and segments added to the token's row and normed, layers with the norm after the sum."""

    def family(c: Config) -> Shape:
        d_model = c.whole("hidden_size", "dim", absent=line.width)
        vocab = c.whole("vocab_size", absent=line.vocab, most=100_000_000)
        rows = c.whole("max_position_embeddings", absent=512, most=2**30)
        types = c.whole(types_key, absent=line.types, least=0, most=100_000) if types_key else 0
        first = 1 + c.whole("pad_token_id", absent=1, least=0, most=100_000_000) if line.after_padding else 0
        if rows <= first:
            raise c.wrong("max_position_embeddings", f"more than the {first} rows before the first token's", rows)
        layer = _layer(c, d_model, heads=line.heads, d_ff=line.d_ff)
        after = readout(c, line.readouts, d_model=d_model, vocab=vocab, norm=LAYER_NORM, second_bias=line.second_bias)
        return after | {
            "d_model": d_model,
            "vocab_size": vocab,
            "max_context_tokens": rows - first,
            "norm": LAYER_NORM,
            "final_norm": False,
            "embedding": Embedding(norm=True, type_rows=types),
            "positions": Positions(kind="learned", rows=rows),
            "layers": plain(c.n_layers("num_hidden_layers", "n_layers", absent=line.n_layers), layer),
            "head": None,
        }

    return family


def mpnet(c: Config) -> Shape:
    """MPNet: RoBERTa's shapes without segments, and one table of relative positions for all layers."""
    line = _Line(_ROBERTA, vocab=30527, after_padding=True)
    shape = _line(line, types_key=None)(c)
    buckets = c.whole("relative_attention_num_buckets", absent=32)
    n_heads = c.whole("num_attention_heads", absent=line.heads)
    return shape | {"vectors": shape["vectors"] | {"relative_positions": buckets * n_heads}}


def electra(c: Config) -> Shape:
    """ELECTRA: tables narrower than the model, summed and normed before they are widened; no pooler."""
    line = _Line(_ELECTRA, width=256, heads=4, d_ff=1024, second_bias=False)
    shape = _line(line)(c)
    width, d_model = c.whole("embedding_size", absent=128), shape["d_model"]
    narrow = width != d_model
    types = shape["embedding"].type_rows
    embedding = Embedding(norm=True, type_rows=types, width=width if narrow else None, sums_first=narrow)
    after = readout(
        c, line.readouts, d_model=d_model, vocab=shape["vocab_size"], norm=LAYER_NORM, d_words=width
    )  # fmt: skip
    return shape | after | {"embedding": embedding}


def deberta(c: Config) -> Shape:
    """DeBERTa 2 and 3: a table of relative positions, projected in every layer to keys and queries of its own or by the
    layer's, and scored against the tokens'; absolute positions and segments only where the config says so."""
    line = _Line(_DEBERTA, vocab=128100, width=1536, heads=24, d_ff=6144, n_layers=24, types=0)
    shape = _line(line)(c)
    d_model, rows = shape["d_model"], shape["positions"].rows
    if c.whole("embedding_size", absent=d_model) != d_model or c.whole("pooler_hidden_size", absent=d_model) != d_model:
        raise Unsupported(f"{c.where}: a DeBERTa whose embedding or pooler is of another width than its layers")
    absolute = c.flag("position_biased_input", absent=True)
    products, vectors = list(shape["readout"]), dict(shape["vectors"])
    if c.flag("relative_attention", absent=False):
        relative, size = _relative_positions(c, d_model, default=rows)
        products += relative
        vectors["relative_positions"] = size * d_model
    if "layer_norm" in str(c.word("norm_rel_ebd", absent="none")).lower():
        vectors["relative_norm"] = 2 * d_model
    kernel = c.whole("conv_kernel_size", absent=0, null=0, least=0, most=1000)
    if kernel:
        groups = c.whole("conv_groups", absent=1, most=d_model)
        products.append(Product(name="conv", d_in=kernel * d_model // groups, d_out=d_model, bias=True))
        vectors["conv_norm"] = 2 * d_model
    learned = Positions(kind="learned", rows=rows) if absolute else Positions(kind="relative")
    return shape | {"positions": learned, "readout": tuple(products), "vectors": vectors}


def _relative_positions(c: Config, d_model: int, *, default: int) -> tuple[list[Product], int]:
    """Products of the table's rows in every layer, and how many rows it has: twice the buckets, or the furthest distance."""
    furthest = c.whole("max_relative_positions", absent=-1, least=-1)
    buckets = c.whole("position_buckets", absent=-1, least=-1)
    size = 2 * (buckets if buckets > 0 else furthest if furthest > 0 else default)
    kinds = c.data.get("pos_att_type")
    words = kinds.split("|") if isinstance(kinds, str) else c.items("pos_att_type", kind=str, absent=None, null=None)
    shared, n = c.flag("share_att_key", absent=False), c.n_layers(absent=24)
    products = []
    for word, side in (("c2p", "keys"), ("p2c", "queries")):
        if word in [w.strip().lower() for w in words or ()]:
            project = Product(
                name=f"relative_{side}",
                d_in=d_model,
                d_out=d_model,
                bias=not shared,
                n=n,
                rows=size,
                once=True,
                tied=shared,
            )
            products += [project, Product(name=f"relative_{word}", d_in=d_model, d_out=size, n=n, tied=True)]
    return products, size


def modernbert(c: Config) -> Shape:
    """ModernBERT: rotary, gated, pre-norm (the first layer's is the embedding's); two layers of three see `local_attention`
    tokens around their own, which is half of them on either side and itself."""
    d_model, n_layers = c.whole("hidden_size", absent=768), c.n_layers(absent=22)
    vocab = c.whole("vocab_size", absent=50368, most=100_000_000)
    norm = Norm(kind="layer", bias=c.flag("norm_bias", absent=False))
    n_heads, bias = c.whole("num_attention_heads", absent=12, most=100_000), c.flag("attention_bias", absent=False)
    if d_model % n_heads:
        raise c.wrong("num_attention_heads", f"a divisor of hidden_size={d_model}", n_heads)
    around = 2 * (c.whole("local_attention", absent=128) // 2) + 1
    ffn = Dense(d_ff=c.whole("intermediate_size", absent=1152), bias=c.flag("mlp_bias", absent=False))
    every = c.whole("global_attn_every_n_layers", absent=3)
    words = layer_words(
        c, n_layers, among=("full_attention", "sliding_attention"), absent=f"global every {every} layers"
    )
    local = [bool(i % every) for i in range(n_layers)] if words is None else [w == "sliding_attention" for w in words]

    def layer(i: int) -> Layer:
        mixer = Attention(
            n_heads=n_heads, n_kv_heads=n_heads, d_head=d_model // n_heads, causal=False, qkv_bias=bias, out_bias=bias,
            window=around if local[i] else None,
        )  # fmt: skip
        return Layer(mixer=mixer, ffn=ffn, n_norms=1 if i == 0 else 2)

    after = readout(
        c, _MODERNBERT, d_model=d_model, vocab=vocab, norm=norm, bias=c.flag("classifier_bias", absent=False),
        words_bias=c.flag("decoder_bias", absent=True), normed=("transform", "dense"),
    )  # fmt: skip
    return after | {
        "d_model": d_model, "vocab_size": vocab, "norm": norm, "head": None, "embedding": Embedding(norm=True),
        "max_context_tokens": c.whole("max_position_embeddings", absent=8192, most=2**40),
        "layers": grouped([layer(i) for i in range(n_layers)]),
    }  # fmt: skip


def nomic(c: Config) -> Shape:
    """Nomic Embed: BERT with rotary positions and a gated block, without a bias. The keys are BERT's or, in files for
    remote code, GPT-2's; what that code can do besides is refused."""
    for key in ("qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias", "prenorm", "use_rms_norm", "num_experts"):
        if c.data.get(key):
            raise Unsupported(f"{c.place(key)}: a Nomic model with this is not supported")
    return _rotary(c, vocab=30528, bias=False, types=2, context=2048, second_bias=True)


def gte(c: Config) -> Shape:
    """GTE: BERT with rotary positions and a gated block, biases on the attention and the way out of the block."""
    c.word("position_embedding_type", absent="rope", among=("rope",))
    return _rotary(c, vocab=250048, bias=True, types=1, context=8192, second_bias=False)


def _rotary(c: Config, *, vocab: int, bias: bool, types: int, context: int, second_bias: bool) -> Shape:
    d_model = c.whole("hidden_size", "n_embd", absent=768)
    vocab = c.whole("vocab_size", absent=vocab, most=100_000_000)
    n = c.whole("num_attention_heads", "n_head", absent=12, most=100_000)
    d_head = c.whole("head_dim", absent=None, null=None) or d_model // n
    if d_head == 0:
        raise c.wrong("num_attention_heads", f"at most the width {d_model}", n)
    mixer = Attention(n_heads=n, n_kv_heads=n, d_head=d_head, causal=False, qkv_bias=bias, out_bias=bias)
    layer = Layer(
        mixer=mixer,
        ffn=Dense(d_ff=c.whole("intermediate_size", "n_inner", absent=3072)),
        vectors=d_model if bias else 0,
    )
    after = readout(c, _ROTARY, d_model=d_model, vocab=vocab, norm=LAYER_NORM, second_bias=second_bias)
    return after | {
        "d_model": d_model, "vocab_size": vocab, "norm": LAYER_NORM, "final_norm": False, "head": None,
        "max_context_tokens": c.whole("max_position_embeddings", "n_positions", absent=context, most=2**40),
        "embedding": Embedding(norm=True, type_rows=c.whole("type_vocab_size", absent=types, least=0, most=100_000)),
        "layers": plain(c.n_layers("num_hidden_layers", "n_layer", absent=12), layer),
    }  # fmt: skip


FAMILIES = {
    "bert": _line(_Line(_BERT)),
    "roberta": _line(_Line(_ROBERTA, vocab=50265, after_padding=True)),
    "xlm-roberta": _line(_Line(_ROBERTA, after_padding=True)),
    "camembert": _line(_Line(_ROBERTA, after_padding=True)),
    "distilbert": _line(_Line(_DISTILBERT, n_layers=6, second_bias=False), types_key=None),
    "electra": electra,
    "deberta-v2": deberta,
    "mpnet": mpnet,
    "modernbert": modernbert,
    "nomic_bert": nomic,
    "gte": gte,
    "new": gte,
}
