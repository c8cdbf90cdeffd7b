"""What runs before the decoder: the encoder of text or audio, the vision tower with its projector.

A tower reads its own tokens (source text, audio frames, image patches) once a request. What it gives either stands in the
prompt, as image tokens do in most vision-language models, or is attended to by cross-attention and kept as its keys and
values.
"""

from typing import Annotated, Literal

from pydantic import Field

from roofline.specs.images import ImageRule
from roofline.specs.layers import Groups, Layer, Norm, kinds_of
from roofline.specs.matrix import Count, Matrix, Vectors, Width
from roofline.specs.record import Record

__all__ = ["Product", "Tower"]


class Product(Record):
    """A matrix product outside the layers: y = x·W (+ b) of `rows` rows for every token the tower's layers see.

    A patch embedding has one row a token, a merger of 2 × 2 patches 0.25, the first convolution of Whisper 2. `once`: the
    rows are a sequence's, whatever its tokens (a pooler reads the first of them). `n` such matrices: the channels of a
    depthwise convolution, the layers that have one. `tied`: the weights are another matrix's, counted there; a bias is not.
    """

    name: str
    d_in: Width
    d_out: Width
    bias: bool = False
    rows: Annotated[float, Field(gt=0.0, le=1_000_000.0)] = 1.0
    once: bool = False
    n: Annotated[int, Field(ge=1, le=1_000_000_000)] = 1
    tied: bool = False

    @property
    def matrix(self) -> Matrix:
        """Its weights."""
        return Matrix(self.name, self.d_in, self.d_out, self.bias, n=self.n)

    @property
    def n_params(self) -> int:
        """n · (d_in · d_out (+ d_out)); the biases alone where tied."""
        return self.matrix.n_biases if self.tied else self.matrix.n_params


class Tower(Record):
    """A stack of layers before the decoder, with what leads in (`stem`) and out (`projector`).

    `vectors` names every further parameter: position tables, class embeddings, gates. `feeds` "memory": its outputs are
    attended to; "prompt": they stand in the text. `fixed_tokens` is how many it reads of any input where that is fixed
    (Whisper). `shares_embedding`: it looks its tokens up in the decoder's table (T5, BART).
    """

    kind: Literal["vision", "audio", "text"]
    d_model: Width
    stem: Annotated[tuple[Product, ...], Field(strict=False)] = ()
    norm: Norm = Field(default_factory=Norm)
    n_norms: Annotated[int, Field(ge=0, le=16)] = 0
    layers: Groups = ()
    projector: Annotated[tuple[Product, ...], Field(strict=False)] = ()
    vectors: dict[str, Vectors] = Field(default_factory=dict)
    feeds: Literal["prompt", "memory"] = "prompt"
    shares_embedding: bool = False
    fixed_tokens: Count | None = None
    image: ImageRule | None = None

    def __hash__(self) -> int:
        return hash((self.kind, self.d_model, self.layers, self.projector))

    def layer_kinds(self) -> tuple[tuple[int, Layer], ...]:
        """(how many, layer) for every distinct layer."""
        return kinds_of(self.layers)

    @property
    def n_layers(self) -> int:
        """Layers of the stack."""
        return sum(repeat for repeat, _ in self.layer_kinds())

    @property
    def n_vector_params(self) -> int:
        """Norms outside and inside the layers, and the named vectors."""
        inside = sum(repeat * layer.n_vector_params(self.d_model, self.norm) for repeat, layer in self.layer_kinds())
        return self.n_norms * self.norm.n_params(self.d_model) + inside + sum(self.vectors.values())

    @property
    def n_params(self) -> int:
        """Stem + layers + projector + vectors."""
        outer = sum(p.n_params for p in (*self.stem, *self.projector))
        inside = sum(
            repeat * sum(m.n_params for m in layer.matrices(self.d_model)) for repeat, layer in self.layer_kinds()
        )
        return outer + inside + self.n_vector_params
