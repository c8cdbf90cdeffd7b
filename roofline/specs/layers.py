"""A layer around the residual stream, and the pattern layers repeat in."""

from collections.abc import Iterable
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from roofline.errors import SpecError
from roofline.specs.ffns import Ffn
from roofline.specs.matrix import Count, Matrix, Vectors, Width
from roofline.specs.mixers import CrossAttention, Mixer, Pair, SingleMixer
from roofline.specs.record import Record

__all__ = ["Formats", "Group", "Groups", "Layer", "Norm", "kinds_of"]

MAX_KINDS = 1000  # distinct layers of one stack: each is counted apart, and no released model has a tenth of it

Formats = dict[str, str]


class Norm(Record):
    """RMSNorm (a scale) or LayerNorm (a scale and, usually, a bias); `scale: false` where it has no parameters at all."""

    kind: Literal["rms", "layer"] = "rms"
    bias: bool = False
    scale: bool = True

    def n_params(self, d_model: int) -> int:
        """D, or 2·D with a bias, or none."""
        return d_model * (int(self.scale) + int(self.bias))


class Layer(Record):
    """A mixer and an FFN around the residual stream: one after the other, or `parallel` from the same input.

    Either may be missing (a block of a hybrid, a no-op of architecture search). `cross` comes between the two; a layer
    with a cross-attention and no mixer is passed only by tokens that have something to attend to (Llama 3.2 vision).
    `vectors`: further learnt vectors and scalars (gates, a table of relative positions). `d_side`: a gate (D, d_side) and a
    projection back, of the layer's own input embedding (Gemma 3n and 4). `d_bypass`: a low-rank way past the mixer, (D, r)
    and (r, D) (LAuReL). `altup`: copies of the residual stream, s, of which the layer passes one and foretells the others
    (AltUp, Gemma 3n). `formats`: number format by matrix role, where it differs from the model's.
    """

    mixer: Mixer | None = None
    cross: CrossAttention | None = None
    ffn: Ffn | None = None
    n_norms: Annotated[int, Field(ge=0, le=8)] = 2
    parallel: bool = False
    d_side: Width | None = None
    d_bypass: Width | None = None
    altup: Annotated[int, Field(ge=1, le=64)] = 1
    vectors: Vectors = 0
    formats: Formats = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _usual_kinds(cls, data: Any) -> Any:
        """A mixer without a kind is attention, an FFN dense."""
        for part, usual in (("mixer", "attention"), ("ffn", "dense")):
            if isinstance(data, dict) and isinstance(data.get(part), dict) and "kind" not in data[part]:
                data = data | {part: {"kind": usual} | data[part]}
        return data

    @model_validator(mode="after")
    def _does_something(self) -> Self:
        if self.mixer is None and self.cross is None and self.ffn is None and self.n_norms:
            raise SpecError("a layer needs a mixer, a cross or an ffn (n_norms: 0 for one that does nothing)")
        return self

    def matrices(self, d_model: int) -> tuple[Matrix, ...]:
        """The mixer's, the cross-attention's, the FFN's, the side's."""
        parts = (part for part in (self.mixer, self.cross, self.ffn) if part is not None)
        return (*(m for part in parts for m in part.matrices(d_model)), *self.side_matrices(d_model))

    def side_matrices(self, d_model: int) -> tuple[Matrix, ...]:
        """side_gate (D, d_side), side_up (d_side, D); bypass_down, bypass_up; of s streams (D, s), (s, s²) and (s, s)."""
        found: list[Matrix] = []
        if self.d_side is not None:
            found += [Matrix("side_gate", d_model, self.d_side), Matrix("side_up", self.d_side, d_model)]
        if self.d_bypass is not None:
            found += [Matrix("bypass_down", d_model, self.d_bypass), Matrix("bypass_up", self.d_bypass, d_model)]
        if (s := self.altup) > 1:
            found += [
                Matrix("altup_route", d_model, s),
                Matrix("altup_predict", s, s * s),
                Matrix("altup_correct", s, s),
            ]
        return tuple(found)

    def n_vector_params(self, d_model: int, norm: Norm) -> int:
        """Norm scales and biases, and whatever stands in vectors."""
        parts = (part for part in (self.mixer, self.cross, self.ffn) if part is not None)
        return self.n_norms * norm.n_params(d_model) + sum(p.n_vector_params for p in parts) + self.vectors

    @property
    def mixers(self) -> tuple[SingleMixer, ...]:
        """Its mixers: none, one, or the two of a pair."""
        if self.mixer is None:
            return ()
        return (self.mixer.attention, self.mixer.recurrent) if isinstance(self.mixer, Pair) else (self.mixer,)

    @property
    def only_with_memory(self) -> bool:
        """Whether tokens without anything to cross-attend to pass it by."""
        return self.cross is not None and self.mixer is None

    def __hash__(self) -> int:
        rest = (self.n_norms, self.parallel, self.d_side, self.d_bypass, self.altup, self.vectors)
        return hash((self.mixer, self.cross, self.ffn, *rest, frozenset(self.formats.items())))


class Group(Record):
    """A pattern of layers, repeated."""

    repeat: Count = 1
    layers: Annotated[tuple[Layer, ...], Field(min_length=1, max_length=10_000, strict=False)]


def kinds_of(groups: Iterable[Group]) -> tuple[tuple[int, Layer], ...]:
    """(how many, layer) for every distinct layer, in the order they first appear: Gemma 3 has two kinds, 22 and 4."""
    many: dict[Layer, int] = {}
    for group in groups:
        for layer in group.layers:
            many[layer] = many.get(layer, 0) + group.repeat
    return tuple((n, layer) for layer, n in many.items())


def _of_few_kinds(groups: tuple[Group, ...]) -> tuple[Group, ...]:
    n = len(kinds_of(groups))
    if n > MAX_KINDS:
        raise SpecError(f"{n:,} layers that differ from one another; at most {MAX_KINDS:,} are counted")
    return groups


Groups = Annotated[tuple[Group, ...], Field(max_length=1000, strict=False), AfterValidator(_of_few_kinds)]
