"""A decoder in NumPy: a model's record, run in float64, over new tokens of several sequences and what is kept of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from roofline.errors import Unsupported
from roofline.evidence.reference.attention import Span, cross_attention, normed, self_attention
from roofline.evidence.reference.cache import Cache
from roofline.evidence.reference.counter import Array, Counter
from roofline.evidence.reference.ffn import ffn
from roofline.evidence.reference.latent import Form, latent_attention
from roofline.evidence.reference.weights import LayerWeights, NormWeights, TowerWeights, drawn
from roofline.specs.layers import Layer
from roofline.specs.mixers import Attention, Latent
from roofline.specs.model import Model, Positions
from roofline.specs.precision import Precision

__all__ = ["Chunk", "Context", "Decoder", "Ids", "Pass"]

Ids: TypeAlias = NDArray[np.int64]


@dataclass(slots=True)
class Context:
    """What is kept of one sequence: how many tokens it has; and of every layer a cache, and one of what a tower gave."""

    n_tokens: int
    caches: list[Cache]
    memories: list[Cache]

    @property
    def n_memory(self) -> int:
        """Tower outputs there are to attend to  [token]."""
        return max((len(memory.numbers) for memory in self.memories), default=0)

    def fork(self) -> Context:
        """Another sequence with this beginning, which is held once."""
        return Context(self.n_tokens, list(self.caches), list(self.memories))


@dataclass(frozen=True, slots=True)
class Chunk:
    """New tokens of one sequence, of how many of the last logits are wanted, and what its tower reads: vectors or tokens."""

    context: Context
    tokens: Ids
    n_logits: int = 1
    inputs: tuple[NDArray[Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Pass:
    """The logits wanted of each chunk, (n_logits, V), and what was done to make them."""

    logits: tuple[Array, ...]
    counter: Counter


@dataclass(frozen=True, slots=True)
class _Stream:
    """Whose rows are whose, what is kept of those sequences, and what a tower gave each of them in this pass."""

    spans: list[Span]
    contexts: list[Context]
    outputs: list[Array]

    @classmethod
    def of(cls, contexts: Sequence[Context], lengths: Sequence[int], outputs: Sequence[Array] = ()) -> _Stream:
        """Rows one sequence after another."""
        ends = np.cumsum([0, *lengths]).tolist()
        spans = [Span(slice(a, b), context.n_tokens) for a, b, context in zip(ends, ends[1:], contexts, strict=False)]
        return cls(spans, list(contexts), list(outputs) or [np.zeros((0, 1))] * len(spans))

    def informed(self, number: int) -> tuple[_Stream, Ids]:
        """Those that have something to cross-attend to in a layer, and where their rows are."""
        there = [
            i for i, (context, output) in enumerate(zip(self.contexts, self.outputs, strict=True))
            if len(context.memories[number].numbers) + len(output)
        ]  # fmt: skip
        rows = [np.arange(self.spans[i].rows.start, self.spans[i].rows.stop) for i in there]
        few = _Stream.of([self.contexts[i] for i in there], [len(r) for r in rows], [self.outputs[i] for i in there])
        return few, np.concatenate(rows) if rows else np.zeros(0, dtype=np.int64)


class Decoder:
    """One model, weights drawn for it, and how it runs.

    Parameters
    ----------
    model : Model
        Of kinds that `weights` knows; any other raises `Unsupported`.
    precision : Precision, optional
        What elements of weights and cache take; the arithmetic is float64 whatever it says.
    latent : "expanded" or "absorbed"
        The form of latent attention.
    masked : bool
        False lifts the causal mask, to show what it is for.
    seed : int
        Of the weights.

    Notes
    -----
    Assumes, where a record leaves it open, the usual: a norm before each part of a layer, those left over after them; SiLU
    in gated blocks, GELU in plain ones; scores over √d. None of it moves a count.
    """

    def __init__(
        self,
        model: Model,
        *,
        precision: Precision | None = None,
        latent: Form = "expanded",
        masked: bool = True,
        seed: int = 0,
    ) -> None:
        numerics = (precision or Precision()).of(model)
        self.model, self.latent, self.masked = model, latent, masked
        self.weights = drawn(model, numerics, seed=seed)
        self._kv_element_bytes = numerics.kv.bits / 8.0

    def start(self) -> Context:
        """A sequence of no tokens."""
        return _started([w.layer for w in self.weights.layers])

    def run(self, *chunks: Chunk) -> Pass:
        """One forward pass; the contexts of its chunks move on."""
        counter = Counter(kv_element_bytes=self._kv_element_bytes)
        outputs = self._remembered(counter, chunks)
        stream = _Stream.of([c.context for c in chunks], [len(c.tokens) for c in chunks], outputs)
        x = self._embedded(counter, stream, np.concatenate([chunk.tokens for chunk in chunks]))
        x = self._stacked(counter, self.weights.layers, x, stream, self.model.positions)
        return Pass(tuple(self._read_out(counter, x, chunks)), counter)

    def _embedded(self, counter: Counter, stream: _Stream, ids: Ids) -> Array:
        w = self.weights
        x = counter.rows("embedding", w.embedding, ids)
        if "project_in" in w.outer:
            x = counter.linear("project_in", x, w.outer["project_in"])
        if w.positions is not None:
            where = np.concatenate([np.array(span.positions) for span in stream.spans])
            x = x + counter.rows("embedding", w.positions, where % len(w.positions.values))
        return x if w.embedding_norm is None else _normed(counter, "embedding_norm", w.embedding_norm, x)

    def _read_out(self, counter: Counter, x: Array, chunks: Sequence[Chunk]) -> Iterator[Array]:
        w = self.weights
        x = x if w.final_norm is None else _normed(counter, "final_norm", w.final_norm, x)
        if "project_out" in w.outer:
            x = counter.linear("project_out", x, w.outer["project_out"])
        ends = np.cumsum([len(chunk.tokens) for chunk in chunks]).tolist()
        for_whom = [x[end - chunk.n_logits : end] for chunk, end in zip(chunks, ends, strict=True)]
        rows = np.concatenate(for_whom)
        logits = counter.linear("lm_head", rows, w.head) if len(rows) else np.zeros((0, self.model.vocab_size))
        yield from np.split(logits, np.cumsum([len(part) for part in for_whom])[:-1])

    def _remembered(self, counter: Counter, chunks: Sequence[Chunk]) -> list[Array]:
        """What the tower gives each chunk, of the inputs of all of them read at once; every input sees itself only."""
        w, inputs = self.weights.tower, [given for chunk in chunks for given in chunk.inputs]
        if w is None or not inputs:
            return []
        read = [counter.rows("embedding", self.weights.embedding, g) if g.ndim == 1 else g for g in inputs]
        counter.prefix = f"{w.tower.kind}."
        given = iter(self._towered(counter, w, read))
        counter.prefix = ""
        wide = w.projector[-1][1].values.shape[1] if w.projector else w.tower.d_model
        return [np.concatenate([np.zeros((0, wide)), *(next(given) for _ in chunk.inputs)]) for chunk in chunks]

    def _towered(self, counter: Counter, w: TowerWeights, read: Sequence[Array]) -> list[Array]:
        x, lengths = np.concatenate(read), [len(r) for r in read]
        for product, weight in w.stem:
            x = counter.linear(product.name, x, weight)
        if w.positions is not None:
            where = np.concatenate([np.arange(n) for n in lengths])
            x = x + counter.rows("norms", w.positions, where % len(w.positions.values))
        layers = [layer.layer for layer in w.layers]
        stream = _Stream.of([_started(layers) for _ in lengths], lengths)
        x = self._stacked(counter, w.layers, x, stream, Positions(kind="rope" if w.positions is None else "none"))
        for norm in w.norms:
            x = _normed(counter, "norms", norm, x)
        for product, weight in w.projector:
            x = counter.linear(product.name, x, weight)
        return np.split(x, np.cumsum(lengths)[:-1])

    def _stacked(
        self, counter: Counter, layers: Sequence[LayerWeights], x: Array, stream: _Stream, positions: Positions
    ) -> Array:
        """Every layer in turn; then only what a window still needs is kept."""
        for number, w in enumerate(layers):
            counter.place = f"{counter.prefix}layer {number}"
            if w.layer.only_with_memory:
                few, rows = stream.informed(number)
                if len(rows):
                    x = x.copy()
                    x[rows] = self._layer(counter, layers, number, x[rows], few, positions)
            else:
                x = self._layer(counter, layers, number, x, stream, positions)
        counter.place = counter.prefix
        for span, context in zip(stream.spans, stream.contexts, strict=True):
            context.n_tokens += span.n_new
            kept = (_window(w.layer) for w in layers)
            context.caches = [cache.tail(n) for cache, n in zip(context.caches, kept, strict=True)]
        return x

    def _layer(
        self,
        counter: Counter,
        layers: Sequence[LayerWeights],
        number: int,
        x: Array,
        stream: _Stream,
        positions: Positions,
    ) -> Array:
        """Its parts around the stream: one after another, or mixer and FFN from the same input."""
        w, first = layers[number], x
        for name, before, after in _parts(w):
            rows = first if w.layer.parallel and name == "ffn" else x
            rows = rows if before is None else _normed(counter, "elementwise", before, rows)
            match name:
                case "mixer":
                    out = self._mixed(counter, layers, number, rows, stream, positions)
                case "cross":
                    out = _crossed(counter, w, number, rows, stream)
                case _:
                    out = ffn(counter, w, rows)
            x = x + (out if after is None else _normed(counter, "elementwise", after, out))
        return x

    def _mixed(
        self,
        counter: Counter,
        layers: Sequence[LayerWeights],
        number: int,
        rows: Array,
        stream: _Stream,
        positions: Positions,
    ) -> Array:
        w = layers[number]
        source = _source([layer.layer for layer in layers], number)
        there = [context.caches[source] for context in stream.contexts]
        match w.layer.mixer:
            case Attention() as x:
                out, kept = self_attention(
                    counter, w.mixer, x, rows, stream.spans, there, positions=positions, masked=self.masked
                )
            case Latent() as x:
                out, kept = latent_attention(
                    counter, w.mixer, x, rows, stream.spans, there, form=self.latent, positions=positions
                )
            case _:
                return counter.linear("linear_proj", rows, w.mixer["linear"])
        for context, cache in zip(stream.contexts, kept, strict=True):
            context.caches[source] = cache
        return out


def _crossed(counter: Counter, w: LayerWeights, number: int, rows: Array, stream: _Stream) -> Array:
    x = w.layer.cross
    if x is None:
        return rows
    memories = [context.memories[number] for context in stream.contexts]
    out, kept = cross_attention(counter, w.cross, x, rows, stream.spans, memories, stream.outputs)
    for context, memory in zip(stream.contexts, kept, strict=True):
        context.memories[number] = memory
    return out


def _parts(w: LayerWeights) -> list[tuple[str, NormWeights | None, NormWeights | None]]:
    """Mixer, cross-attention, FFN, those there are, each with the norm before it and the one after."""
    names = [name for name in ("mixer", "cross", "ffn") if getattr(w.layer, name) is not None]
    shared = w.layer.parallel and len(w.norms) == 1
    norms = [*(w.norms * (len(names) if shared else 1)), *([None] * 2 * len(names))]
    return [(name, norms[i], norms[len(names) + i]) for i, name in enumerate(names)]


def _source(layers: Sequence[Layer], number: int) -> int:
    """The layer whose cache one reads: its own, or the last before it that keeps such a cache."""
    x = layers[number].mixer
    if not isinstance(x, Attention) or x.values != "earlier":
        return number
    for i in reversed(range(number)):
        y = layers[i].mixer
        if isinstance(y, Attention) and y.caches and all(
            getattr(x, name) == getattr(y, name) for name in ("n_kv_heads", "d_head", "d_v", "window", "chunked")
        ):  # fmt: skip
            return i
    raise Unsupported(f"layer {number} reads an earlier layer's cache, and none before it keeps one of its shape")


def _started(layers: Sequence[Layer]) -> Context:
    return Context(0, [_nothing(layer) for layer in layers], [_no_memory(layer) for layer in layers])


def _nothing(layer: Layer) -> Cache:
    match layer.mixer:
        case Attention() as x:
            return Cache.empty((x.n_kv_heads, x.d_head), (x.n_kv_heads, x.d_v))
        case Latent() as x:
            return Cache.empty((x.d_latent,), (x.d_rope,))
        case _:
            return Cache.empty()


def _no_memory(layer: Layer) -> Cache:
    x = layer.cross
    return Cache.empty() if x is None else Cache.empty((x.n_kv_heads, x.d_head), (x.n_kv_heads, x.d_head))


def _window(layer: Layer) -> int | None:
    """Entries that the next token may still see; none where there is no end to it."""
    mixer = layer.mixer
    return mixer.window - 1 if isinstance(mixer, Attention) and mixer.window is not None else None


def _normed(counter: Counter, op: str, w: NormWeights, x: Array) -> Array:
    x = normed(x, centred=w.norm.kind == "layer")
    x = x if w.scale is None else x * counter.vector(op, w.scale)
    return x if w.bias is None else x + counter.vector(op, w.bias)
