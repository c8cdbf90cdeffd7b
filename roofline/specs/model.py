"""A model as its config describes it: the shapes that define the architecture, and nothing else.

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

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from roofline.errors import SpecError
from roofline.specs.ffns import Moe
from roofline.specs.hardware import Id
from roofline.specs.layers import Formats, Groups, Layer, Norm, kinds_of
from roofline.specs.matrix import Count, Matrix, Vectors, Width
from roofline.specs.record import Names, Record
from roofline.specs.towers import Product, Tower

__all__ = ["Embedding", "Head", "Model", "Mtp", "Positions"]


class Embedding(Record):
    """The token table.  `width` where it differs from d_model (then `project` in and out, as OPT-350M);
    `norm` where the rows are normed before the first layer (BLOOM); `type_rows` of a second table (BERT's segments).
    `vocab_size` where the table has other rows than the head (Llama 3.2 vision). `sums_first`: positions, segments and norm
    come before the projection, at the table's width, and the projection has a bias (ELECTRA)."""

    width: Width | None = None
    norm: bool = False
    type_rows: Annotated[int, Field(ge=0, le=100_000)] = 0
    vocab_size: Annotated[int, Field(ge=1, le=100_000_000)] | None = None
    sums_first: bool = False


class SideEmbedding(Record):
    """A second table that gives every layer its own input (Gemma 3n and 4): (vocab_size, L · width), and a (D, L · width)
    projection of the first hidden state beside it."""

    width: Width
    vocab_size: Annotated[int, Field(ge=1, le=100_000_000)]


class Positions(Record):
    """How order enters: rotated into q and k, a bias on the scores, or a learned table of `rows`."""

    kind: Literal["rope", "alibi", "learned", "relative", "none"] = "rope"
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


class Mtp(Record):
    """Multi-token prediction modules, which guess further tokens: counted apart, they are no part of n_params.

    Each is a layer of the model's kind, a (2·D, D) product that joins hidden state and embedding, and `n_norms` norms;
    `own_tables` where the checkpoint stores an embedding and a head of its own besides (DeepSeek-V3).
    """

    n_modules: Count = 1
    layer: Layer
    n_norms: Annotated[int, Field(ge=0, le=8)] = 3
    own_tables: bool = False


class Model(Record):
    """One model: a decoder, with whatever stands before it; or, without a `head`, an encoder.

    `readout`: what an encoder's outputs pass last (pooler, classifier, masked-word head). `vectors` names every further
    parameter that multiplies no token: a table of relative positions shared by all layers, a norm of the readout.
    """

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
    side_embedding: SideEmbedding | None = None
    positions: Positions = Field(default_factory=Positions)
    residual_streams: Annotated[int, Field(ge=1, le=64)] = 1
    towers: Annotated[tuple[Tower, ...], Field(max_length=8, strict=False)] = ()
    layers: Annotated[Groups, Field(min_length=1)]
    head: Head | None = Field(default_factory=Head)
    readout: Annotated[tuple[Product, ...], Field(max_length=8, strict=False)] = ()
    vectors: dict[str, Vectors] = Field(default_factory=dict)
    mtp: Mtp | None = None
    formats: Formats = Field(default_factory=dict)
    assumed: Names = ()
    notes: str = ""

    def layer_kinds(self) -> tuple[tuple[int, Layer], ...]:
        """(how many, layer) for every distinct layer, in the order they first appear: Gemma 3 has two kinds, 22 and 4."""
        return kinds_of(self.layers)

    @property
    def n_layers(self) -> int:
        """L."""
        return sum(repeat for repeat, _ in self.layer_kinds())

    @property
    def generates(self) -> bool:
        """Whether it has a head to make tokens with; an encoder reads, once."""
        return self.head is not None

    @property
    def remembers(self) -> bool:
        """Whether a tower's outputs are cross-attended to, and kept as keys and values."""
        return any(tower.feeds == "memory" for tower in self.towers)

    @property
    def reads_a_source(self) -> bool:
        """Whether its prompt is read by a text encoder (T5, BART), and the decoder starts afresh."""
        return any(tower.kind == "text" for tower in self.towers)

    @property
    def d_embedding(self) -> int:
        """Width of the token table, D_e: its own where it has one, else D."""
        return self.embedding.width or self.d_model

    @property
    def embedding_matrix(self) -> Matrix:
        """The token table (V_e, D_e), of which a pass looks rows up."""
        return Matrix("embedding", self.embedding.vocab_size or self.vocab_size, self.d_embedding)

    @property
    def side_matrices(self) -> tuple[Matrix, ...]:
        """The side table (V, L·w), the projection (D, L·w) beside it; with AltUp s − 1 of (D, D) in, and as many out."""
        if self.side_embedding is None:
            return ()
        wide = self.n_layers * self.side_embedding.width
        further = self.layers[0].layers[0].altup - 1
        ways = ("altup_in", "altup_out") if further else ()
        return (
            Matrix("side_embedding", self.side_embedding.vocab_size, wide),
            Matrix("side_project", self.d_model, wide),
            *(Matrix(way, self.d_model, self.d_model, n=further) for way in ways),
        )

    def outer_matrices(self) -> tuple[Matrix, ...]:
        """The projections between the embedding's width and the model's, where the two differ: in, then out to the head."""
        if self.d_embedding == self.d_model:
            return ()
        project_in = Matrix("project_in", self.d_embedding, self.d_model, self.embedding.sums_first)
        if self.head is None:
            return (project_in,)
        return (project_in, Matrix("project_out", self.d_model, self.d_embedding))

    @property
    def d_summed(self) -> int:
        """Width at which positions and segments are added to the token's row."""
        return self.d_embedding if self.embedding.sums_first else self.d_model

    @property
    def stream_matrices(self) -> tuple[Matrix, ...]:
        """How s residual streams are mixed (hyper-connections): before and after a sub-layer (s·D, s·(2 + s)), before the
        head (s·D, s); none for a single stream."""
        s = self.residual_streams
        if s == 1:
            return ()
        return Matrix("streams", s * self.d_model, s * (2 + s)), Matrix("streams", s * self.d_model, s)

    @property
    def head_matrix(self) -> Matrix:
        """The matrix behind the logits (D, V), tied or not: its FLOPs and its bytes per pass are the same."""
        if self.head is None:
            raise SpecError(f"{self.id} has no head: it is an encoder, and gives no logits")
        return Matrix("head", self.d_embedding, self.vocab_size, self.head.bias)

    @property
    def n_stream_params(self) -> int:
        """Of hyper-connections: twice a layer (s·D·s·(2 + s) + s·(2 + s) + 3), once before the head (s·D·s + s + 1)."""
        s = self.residual_streams
        if s == 1:
            return 0
        mix, merge = self.stream_matrices
        return 2 * self.n_layers * (mix.n_weights + s * (2 + s) + 3) + merge.n_weights + s + 1

    @property
    def n_vector_params(self) -> int:
        """Norm scales and biases, of layers, queries and keys, embedding, and the last one; sinks, decays, gates."""
        per_norm = self.norm.n_params(self.d_model)
        inside = sum(repeat * layer.n_vector_params(self.d_model, self.norm) for repeat, layer in self.layer_kinds())
        side = self.side_embedding.width if self.side_embedding is not None else 0
        summed = self.norm.n_params(self.d_summed) if self.embedding.norm else 0
        return inside + side + summed + per_norm * int(self.final_norm) + sum(self.vectors.values())

    @property
    def n_text_params(self) -> int:
        """Parameters without the towers, tied ones once.  Exact.

            V·D_e + P·D + Σ_layers (mixer + FFN) + norms + (D_e·V unless tied) + (V with a head bias)

        References: number of nn.Parameter elements a built model holds; buffers are not parameters.
        """
        rows = (self.positions.rows or 0) + self.embedding.type_rows
        tables = self.embedding_matrix.n_params + rows * self.d_summed
        outer = sum(m.n_params for m in (*self.outer_matrices(), *self.side_matrices))
        inside = sum(
            repeat * sum(m.n_params for m in layer.matrices(self.d_model)) for repeat, layer in self.layer_kinds()
        )
        read = sum(p.n_params for p in self.readout)
        return tables + outer + inside + read + self.n_vector_params + self.n_stream_params + self._n_head_params

    @property
    def _n_head_params(self) -> int:
        if self.head is None:
            return 0
        return self.head_matrix.n_biases + (0 if self.head.tied else self.head_matrix.n_weights)

    @property
    def n_params(self) -> int:
        """Parameters of decoder and towers, tied ones once; multi-token prediction apart.  Exact."""
        return self.n_text_params + sum(t.n_params for t in self.towers)

    @property
    def n_active_params(self) -> int:
        """Parameters one token passes through: of the routed experts of each layer only k in E."""
        idle = 0
        for repeat, layer in self.layer_kinds():
            if isinstance(layer.ffn, Moe):
                routed = sum(m.n_params for m in layer.ffn.routed_matrices(self.d_model))
                idle += repeat * (routed - routed * layer.ffn.n_active_experts // layer.ffn.n_experts)
        return self.n_params - idle

    @property
    def n_mtp_params(self) -> int:
        """Parameters of the multi-token prediction modules: the layer, (2·D, D), norms, and tables of its own if stored."""
        if self.mtp is None:
            return 0
        layer = sum(m.n_params for m in self.mtp.layer.matrices(self.d_model))
        vectors = self.mtp.layer.n_vector_params(self.d_model, self.norm)
        vectors += self.mtp.n_norms * self.norm.n_params(self.d_model)
        tables = 2 * self.vocab_size * self.d_model if self.mtp.own_tables else 0
        return self.mtp.n_modules * (layer + vectors + 2 * self.d_model**2 + tables)

    def __hash__(self) -> int:
        return hash((self.id, self.d_model, self.vocab_size, self.dtype, self.layers))

    @property
    def windows(self) -> tuple[int, ...]:
        """The windows its attention layers have, sorted."""
        found = (getattr(mixer, "window", None) for _, layer in self.layer_kinds() for mixer in layer.mixers)
        return tuple(sorted({w for w in found if w is not None}))

    @model_validator(mode="after")
    def _tied_to_rows_of_its_own_number(self) -> Self:
        rows = self.embedding.vocab_size
        if self.head is not None and self.head.tied and rows not in (None, self.vocab_size):
            raise SpecError(f"head: tied to a table of {rows:,} rows, which a head of {self.vocab_size:,} cannot be")
        return self

    @model_validator(mode="after")
    def _memory_for_cross_attention(self) -> Self:
        crosses = any(layer.cross is not None for _, layer in self.layer_kinds())
        if crosses != self.remembers:
            raise SpecError(
                "layers: cross-attention expects a tower with feeds: memory"
                if crosses
                else "towers: feeds: memory expects layers with a cross"
            )
        return self
