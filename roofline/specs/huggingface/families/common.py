"""What adapters share: the pieces most decoders are made of, read from the keys most configs use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from roofline.errors import Unsupported, shorten
from roofline.specs.ffns import Dense
from roofline.specs.huggingface.config import REQUIRED, Config
from roofline.specs.layers import Group, Layer, Norm
from roofline.specs.mixers import Attention
from roofline.specs.towers import Product

__all__ = [
    "LAYER_NORM",
    "RMS_NORM",
    "Shape",
    "attention",
    "basics",
    "by_window",
    "dense",
    "grouped",
    "heads",
    "last",
    "layer_words",
    "n_labels",
    "over",
    "plain",
    "sparse",
    "stack",
    "tied",
    "whole_heads",
    "windows",
]

RMS_NORM = Norm(kind="rms")
LAYER_NORM = Norm(kind="layer", bias=True)

Shape = dict[str, Any]
MAX_PERIOD = 16  # layers of a pattern


def basics(c: Config, *, tied_by_default: bool, norm: Norm = RMS_NORM, vocab: Any = REQUIRED) -> Shape:
    """Width, vocabulary, context and head, of a decoder with keys as Llama's.

    `tied_by_default` is what the family's class takes for an absent `tie_word_embeddings`.
    """
    d_model = c.whole("hidden_size", "n_embd", "d_model")
    return {
        "d_model": d_model,
        "vocab_size": c.whole("vocab_size", absent=vocab, most=100_000_000),
        "max_context_tokens": c.whole("max_position_embeddings", "n_positions", "max_seq_len", most=2**40),
        "norm": norm,
        **last(c, d_model, {"tied": tied(c, by_default=tied_by_default)}),
    }


def last(c: Config, d_model: int, head: Shape) -> Shape:
    """What stands after the last norm: the head, unless the class that `architectures` names is the bare model (an embedder)
    or a classifier. Of a nested section the whole model decides."""
    names = c.items("architectures", kind=str) if c.given("architectures") and not c._section else []
    name = names[0] if names else ""
    if name.endswith("ForSequenceClassification"):
        scores = Product(name="scores", d_in=d_model, d_out=n_labels(c), once=True)
        return {"head": None, "readout": (scores,)}
    if name.endswith(("ForRewardModel", "ForTokenClassification", "ForQuestionAnswering")):
        raise Unsupported(
            f"{c.place('architectures')}: what {shorten(name)} reads out is not supported, its base model is"
        )
    bare = name.endswith("Model") and not name.endswith(("LMHeadModel", "DoubleHeadsModel"))
    return {"head": None if bare else head}


def n_labels(c: Config) -> int:
    """How many classes a classifier tells apart: as many as `id2label` names, else `num_labels`, else two."""
    if c.given("id2label"):
        names = c.section("id2label").data
        if not 1 <= len(names) <= 1_000_000:
            raise c.wrong("id2label", "from one to a million labels", names)
        return len(names)
    return int(c.whole("num_labels", absent=2, null=2, most=1_000_000))


def tied(c: Config, *, by_default: bool) -> bool:
    """`tie_word_embeddings`, or what the family's class takes where it is absent."""
    return bool(c.flag("tie_word_embeddings", absent=by_default, null=False))


def heads(
    c: Config, *, kv_absent: Any = "as n_heads", head_dim_absent: Any = "hidden_size / num_attention_heads"
) -> tuple[int, int, int]:
    """(N, K, H): query heads, KV heads (absent or null: as many), head width (absent or null: D / N)."""
    n = c.whole("num_attention_heads", "n_head", "n_heads", most=100_000)
    k = c.whole("num_key_value_heads", absent=kv_absent, null="as n_heads", most=100_000)
    d = c.whole("head_dim", absent=head_dim_absent, null="hidden_size / num_attention_heads")
    n_kv = n if k == "as n_heads" else k
    d_head = c.whole("hidden_size", "n_embd", "d_model") // n if isinstance(d, str) else d
    if n % n_kv:
        raise c.wrong("num_key_value_heads", f"a divisor of num_attention_heads={n}", n_kv)
    if d_head == 0:
        raise c.wrong("num_attention_heads", "at most hidden_size, of which each head has a part", n)
    return n, n_kv, d_head


def attention(
    c: Config,
    *,
    kv_absent: Any = "as n_heads",
    head_dim_absent: Any = "hidden_size / num_attention_heads",
    **more: Any,
) -> Attention:
    """Plain attention with heads as the keys say, and whatever the family adds."""
    n, k, d = heads(c, kv_absent=kv_absent, head_dim_absent=head_dim_absent)
    return Attention(n_heads=n, n_kv_heads=k, d_head=d, **more)


def whole_heads(c: Config, *, width: str = "hidden_size", heads: Sequence[str] = ("num_attention_heads",)) -> int:
    """How many heads, of D / N each, which has to come out whole; families that know no other head width say so."""
    n = c.whole(*heads, most=100_000)
    if c.whole(width) % n:
        raise c.wrong(next(key for key in heads if c.has(key)), f"a divisor of {width}={c.whole(width)}", n)
    return int(n)


def sparse(
    c: Config, *, vocab: int, width: int, ff: int | None, layers: int, heads: int, context: int,
    ff_key: str = "intermediate_size",
) -> Config:  # fmt: skip
    """A nested config may leave out any size that equals its class's default; a file of its own has to say them.

    The context, which no matrix depends on, may be absent from either; `ff` is none where no such width is read.
    """
    sizes = {
        "vocab_size": vocab, "hidden_size": width, ff_key: ff,
        "num_hidden_layers": layers, "num_attention_heads": heads,
    }  # fmt: skip
    defaults = (sizes if c._section else {}) | {"max_position_embeddings": context}
    absent = {key: value for key, value in defaults.items() if value is not None and not c.has(key)}
    for key, value in absent.items():
        c.assume(key, value)
    return over(c, absent)


def over(c: Config, values: dict[str, Any]) -> Config:
    """The level with further values laid over it, found elsewhere in the file or taken from the class."""
    return Config(c.data | values, where=c.where, assumed=c.assumed, section=c._section)


def stack(
    c: Config,
    layers: Layer | Sequence[Layer],
    *,
    tied_by_default: bool = False,
    norm: Norm = RMS_NORM,
    count: Sequence[str] = ("num_hidden_layers",),
) -> Shape:
    """A decoder of the one layer, as often as the key `count` says; or of these layers, one by one."""
    groups = plain(c.n_layers(*count), layers) if isinstance(layers, Layer) else grouped(layers)
    return basics(c, tied_by_default=tied_by_default, norm=norm) | {"layers": groups}


def layer_words(c: Config, n_layers: int, *, among: Sequence[str], absent: str) -> list[str] | None:
    """`layer_types`, a word a layer; none where absent or null, and then `absent` says what the class makes of that."""
    words: Any = c.items("layer_types", kind=str, absent=absent, null=None, length=n_layers)
    if words is None or isinstance(words, str):
        return None
    for word in words:
        if word not in among:
            raise c.wrong("layer_types", f"only {', '.join(among)}", word)
    return list(words)


def windows(
    c: Config, n_layers: int, *, window: int | None, full: Callable[[int], bool], absent: str
) -> list[int | None]:
    """The window of every layer: where `layer_types` say sliding; where absent, on all but the layers that `full` picks."""
    words = layer_words(c, n_layers, among=("full_attention", "sliding_attention"), absent=absent)
    if words is None:
        return [None if full(i) else window for i in range(n_layers)]
    return [window if word == "sliding_attention" else None for word in words]


def by_window(kinds: Sequence[int | None], layer: Callable[[int | None], Layer]) -> list[Layer]:
    """Layers that differ in their windows only, each kind made once."""
    made = {window: layer(window) for window in set(kinds)}
    return [made[window] for window in kinds]


def dense(c: Config, *, gated: bool = True, bias: bool = False, key: str = "intermediate_size") -> Dense:
    """A dense block as wide as `intermediate_size`."""
    return Dense(d_ff=c.whole(key), gated=gated, bias=bias)


def plain(n_layers: int, layer: Layer) -> tuple[Group, ...]:
    """The same layer, n times."""
    return (Group(repeat=n_layers, layers=(layer,)),)


def grouped(layers: Sequence[Layer]) -> tuple[Group, ...]:
    """Layers one by one as groups: from the first on, always the short pattern whose repeats reach furthest.

    A list of 62 layers of which every sixth is global becomes ten groups of six in one, and two more.
    """
    known: dict[Layer, int] = {}
    kinds = tuple(known.setdefault(layer, len(known)) for layer in layers)  # numbers are compared faster than records
    layers, groups, start = tuple(layers), [], 0
    while start < len(layers):
        period, times = max(_repeats(kinds, start), key=lambda found: (found[0] * found[1], -found[0]))
        groups.append(Group(repeat=times, layers=layers[start : start + period]))
        start += period * times
    return tuple(groups)


def _repeats(layers: tuple[int, ...], start: int) -> Iterator[tuple[int, int]]:
    """(period, times) of every short pattern at a place that repeats; one layer once where none does."""
    yield 1, 1
    for period in range(1, min(MAX_PERIOD, (len(layers) - start) // 2) + 1):
        pattern, times = layers[start : start + period], 1
        while layers[start + times * period : start + (times + 1) * period] == pattern:
            times += 1
        if times > 1:
            yield period, times
