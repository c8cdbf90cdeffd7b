"""A decoder as its config describes it: the shapes that define the architecture, and nothing else.

The heart is a list of layer *groups*; a group is a pattern of layers and how often it repeats, so a model that alternates
local and global attention is one group of two layers. A layer is a mixer (tagged by `kind:`), an FFN and its norms:

    id: llama-3.1-8b
    name: Llama 3.1 8B
    source: meta-llama/Llama-3.1-8B config.json
    dtype: bf16
    d_model: 4096
    vocab_size: 128256
    max_context_tokens: 131072
    layers:
      - repeat: 32
        layers:
          - mixer: {kind: attention, n_heads: 32, n_kv_heads: 8, d_head: 128}
            ffn: {kind: dense, d_ff: 14336, gated: true}
    head: {tied: false}

Every record lists its weight `matrices`; parameters, bytes and FLOPs of the layers are all counted from those lists.
"""

from dataclasses import dataclass
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from roofline.errors import SpecError
from roofline.specs.hardware import Id
from roofline.specs.record import Names, Record

__all__ = ["Attention", "Dense", "Embedding", "Group", "Head", "Layer", "Matrix", "Model", "Norm", "Positions"]

Width = Annotated[int, Field(ge=1, le=10_000_000)]
Count = Annotated[int, Field(ge=1, le=100_000)]


@dataclass(frozen=True, slots=True)
class Matrix:
    """One weight matrix: y = x·W (+ b), x (m, d_in), W (d_in, d_out).  `role` decides its number format."""

    role: str
    d_in: int
    d_out: int
    bias: bool = False

    @property
    def n_params(self) -> int:
        """d_in · d_out (+ d_out)."""
        return self.d_in * self.d_out + (self.d_out if self.bias else 0)


class Attention(Record):
    """Softmax attention over a cache: MHA (K = N), GQA (1 < K < N) or MQA (K = 1); d_head is free of d_model / N.

    `window` W: a query sees itself and the W − 1 tokens before it; none means all.
    """

    kind: Literal["attention"] = "attention"
    n_heads: Count
    n_kv_heads: Count
    d_head: Width
    window: Annotated[int, Field(ge=1, le=2**40)] | None = None
    qkv_bias: bool = False
    out_bias: bool = False
    qk_norm: Literal["none", "head", "full"] = "none"  # a norm over each head (Qwen3), or over the whole width (OLMo 2)

    @model_validator(mode="after")
    def _heads_divide(self) -> Self:
        if self.n_heads % self.n_kv_heads:
            usable = [k for k in range(1, self.n_heads + 1) if self.n_heads % k == 0]
            raise SpecError(
                f"n_kv_heads: {self.n_kv_heads} does not divide n_heads={self.n_heads}; use one of {_listed(usable)}"
            )
        return self

    def matrices(self, d_model: int) -> tuple[Matrix, ...]:
        """q (D, N·H), k and v (D, K·H), o (N·H, D)."""
        d_q, d_kv = self.n_heads * self.d_head, self.n_kv_heads * self.d_head
        return (
            Matrix("q", d_model, d_q, self.qkv_bias),
            Matrix("k", d_model, d_kv, self.qkv_bias),
            Matrix("v", d_model, d_kv, self.qkv_bias),
            Matrix("o", d_q, d_model, self.out_bias),
        )

    @property
    def n_norm_params(self) -> int:
        """Scales of the query and key norms: 2·H (per head), N·H + K·H (full width), or none."""
        widths = {"none": 0, "head": 2 * self.d_head, "full": (self.n_heads + self.n_kv_heads) * self.d_head}
        return widths[self.qk_norm]

    @property
    def cache_elements_per_token(self) -> int:
        """Keys and values kept for one token of one sequence in one layer: 2·K·H."""
        return 2 * self.n_kv_heads * self.d_head


class Dense(Record):
    """A feed-forward block every token passes: gated (SwiGLU, GeGLU: gate, up, down) or plain (up, down)."""

    kind: Literal["dense"] = "dense"
    d_ff: Width
    gated: bool = True
    bias: bool = False

    def matrices(self, d_model: int) -> tuple[Matrix, ...]:
        """gate (D, F) where gated, up (D, F), down (F, D)."""
        gate = (Matrix("gate", d_model, self.d_ff, self.bias),) if self.gated else ()
        return (*gate, Matrix("up", d_model, self.d_ff, self.bias), Matrix("down", self.d_ff, d_model, self.bias))


Mixer: TypeAlias = Attention  # later kinds join here as a union discriminated by `kind`
Ffn: TypeAlias = Dense


class Layer(Record):
    """A mixer and an FFN around the residual stream: one after the other, or `parallel` from the same input."""

    mixer: Mixer
    ffn: Ffn
    n_norms: Annotated[int, Field(ge=0, le=8)] = 2
    parallel: bool = False

    def matrices(self, d_model: int) -> tuple[Matrix, ...]:
        """The mixer's, then the FFN's."""
        return self.mixer.matrices(d_model) + self.ffn.matrices(d_model)


class Group(Record):
    """A pattern of layers, repeated."""

    repeat: Count = 1
    layers: Annotated[tuple[Layer, ...], Field(min_length=1, max_length=10_000, strict=False)]


class Norm(Record):
    """RMSNorm (a scale) or LayerNorm (a scale and, usually, a bias)."""

    kind: Literal["rms", "layer"] = "rms"
    bias: bool = False

    def n_params(self, d_model: int) -> int:
        """D, or 2·D with a bias."""
        return d_model * (2 if self.bias else 1)


class Embedding(Record):
    """The token table.  `width` where it differs from d_model (then `project` in and out, as OPT-350M);
    `norm` where the rows are normed before the first layer (BLOOM)."""

    width: Width | None = None
    norm: bool = False


class Positions(Record):
    """How order enters: rotated into q and k, a bias on the scores, or a learned table of `rows`."""

    kind: Literal["rope", "alibi", "learned", "none"] = "rope"
    rows: Annotated[int, Field(ge=1, le=2**32)] | None = None

    @model_validator(mode="after")
    def _rows_with_a_table(self) -> Self:
        if (self.kind == "learned") != (self.rows is not None):
            raise SpecError("rows: expected with kind: learned, and only there")
        return self


class Head(Record):
    """The output matrix (D, V): its own, or the embedding's (`tied`)."""

    tied: bool = False
    bias: bool = False


class Model(Record):
    """One decoder-only model."""

    id: Id
    name: str
    aliases: Names = ()
    source: str = ""
    dtype: Literal["fp32", "fp16", "bf16"]
    d_model: Width
    vocab_size: Annotated[int, Field(ge=1, le=100_000_000)]
    max_context_tokens: Annotated[int, Field(ge=1, le=2**40)]
    norm: Norm = Field(default_factory=Norm)
    final_norm: bool = True
    embedding: Embedding = Field(default_factory=Embedding)
    positions: Positions = Field(default_factory=Positions)
    layers: Annotated[tuple[Group, ...], Field(min_length=1, max_length=1000, strict=False)]
    head: Head = Field(default_factory=Head)
    notes: str = ""

    def layer_kinds(self) -> tuple[tuple[int, Layer], ...]:
        """(how many, layer) for every distinct layer, in the order they first appear: Gemma 3 has two kinds, 22 and 4."""
        many: dict[Layer, int] = {}
        for group in self.layers:
            for layer in group.layers:
                many[layer] = many.get(layer, 0) + group.repeat
        return tuple((n, layer) for layer, n in many.items())

    @property
    def n_layers(self) -> int:
        """L."""
        return sum(repeat for repeat, _ in self.layer_kinds())

    @property
    def d_embedding(self) -> int:
        """Width of the token table, D_e: its own where it has one, else D."""
        return self.embedding.width or self.d_model

    def outer_matrices(self) -> tuple[Matrix, ...]:
        """The projections between the embedding's width and the model's, where the two differ: in, then out."""
        if self.d_embedding == self.d_model:
            return ()
        return (
            Matrix("project_in", self.d_embedding, self.d_model),
            Matrix("project_out", self.d_model, self.d_embedding),
        )

    @property
    def head_matrix(self) -> Matrix:
        """The matrix behind the logits (D, V), tied or not: its FLOPs and its bytes per pass are the same."""
        return Matrix("head", self.d_embedding, self.vocab_size, self.head.bias)

    @property
    def n_norm_params(self) -> int:
        """Norm scales and biases, of layers, queries and keys, embedding, and the last one."""
        per_norm = self.norm.n_params(self.d_model)
        inside = sum(
            repeat * (layer.n_norms * per_norm + layer.mixer.n_norm_params) for repeat, layer in self.layer_kinds()
        )
        return inside + per_norm * (int(self.final_norm) + int(self.embedding.norm))

    @property
    def n_params(self) -> int:
        """Parameters, tied ones once: embedding + positions + layers + norms + head.  Exact.

            V·D_e + P·D + Σ_layers (mixer + FFN) + norms + (D_e·V unless tied) + (V with a head bias)

        References: number of nn.Parameter elements a built model holds; buffers are not parameters.
        """
        tables = self.vocab_size * self.d_embedding + (self.positions.rows or 0) * self.d_model
        outer = sum(m.n_params for m in self.outer_matrices())
        inside = sum(
            repeat * sum(m.n_params for m in layer.matrices(self.d_model)) for repeat, layer in self.layer_kinds()
        )
        head = self.head_matrix
        own_head = 0 if self.head.tied else head.d_in * head.d_out
        return tables + outer + inside + self.n_norm_params + own_head + (head.d_out if head.bias else 0)

    @property
    def n_active_params(self) -> int:
        """Parameters one token passes through; all of them, in a dense model."""
        return self.n_params


def _listed(values: list[int]) -> str:
    return ", ".join(str(v) for v in values[:24])
