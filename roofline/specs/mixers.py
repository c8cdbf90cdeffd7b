"""What lets a token see others: attention over a cache, in all its shapes, and the recurrent mixers that keep a state.

One record a kind, tagged by `kind:`. Each lists its weight `matrices` and how many parameters stand in vectors besides;
what a pass does with them is counted in `work/`.
"""

from typing import Annotated, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from roofline.errors import SpecError
from roofline.specs.matrix import Count, Matrix, Width
from roofline.specs.record import Record
from roofline.specs.recurrent import Delta, LinearAttention, Mamba, Mamba2, Rglru, ShortConv

__all__ = [
    "Attention",
    "Compressed",
    "CrossAttention",
    "Delta",
    "Indexer",
    "Latent",
    "LinearAttention",
    "LinearMixer",
    "Mamba",
    "Mamba2",
    "Mixer",
    "Pair",
    "Rglru",
    "ShortConv",
    "SingleMixer",
]

Window = Annotated[int, Field(ge=1, le=2**40)]


class Indexer(Record):
    """The lightning indexer of sparse attention: scores every earlier token cheaply; the `top_k` best are attended to.

    `shared`: this layer takes the selection of the last layer that made one (no parameters, no cache). `weighted`: scores
    are summed over the heads, with weights made of the token (DeepSeek); if not, each head picks for its share of the query
    heads (MiniMax M3, which picks whole blocks: `top_k` is the tokens of all of them).
    """

    n_heads: Count
    d_head: Width
    top_k: Width
    shared: bool = False
    weighted: bool = True


class Attention(Record):
    """Softmax attention over a cache: MHA (K = N), GQA (1 < K < N) or MQA (K = 1); d_head is free of d_model / N.

    `window` W: a query sees itself and the W − 1 tokens before it; none means all. `chunked`: the window does not slide, a
    query sees its own chunk of W up to itself (Llama 4). Not `causal`: every token sees all (encoders), or W of them
    around itself. `values`: "own"; "keys", no v matrix, the keys' product is read as values too, both cached (Gemma 4);
    "earlier", neither k nor v: an earlier layer's cache is read and nothing is cached (Gemma 3n, Gemma 4 E2B).
    `gated`: an output gate as wide as the heads' output, made with q (Qwen3-Next); "apart", by a product of its own
    (AFMoE); "head", the same, one number a head (Step 3.5). `sinks`: a learnt logit a head. With an `indexer` a query
    attends to its top_k tokens only (MiniMax M3).
    """

    kind: Literal["attention"] = "attention"
    n_heads: Count
    n_kv_heads: Count
    d_head: Width
    d_value: Width | None = None
    window: Window | None = None
    chunked: bool = False
    causal: bool = True
    values: Literal["own", "keys", "earlier"] = "own"
    qkv_bias: bool | Literal["qv"] = False  # "qv": all but the keys' (Whisper)
    out_bias: bool = False
    gated: bool | Literal["apart", "head"] = False
    sinks: bool = False
    qk_norm: Literal["none", "head", "full"] = "none"  # a norm over each head (Qwen3), or over the whole width (OLMo 2)
    norm_bias: bool = False  # those norms have a bias besides
    indexer: Indexer | None = None

    @model_validator(mode="after")
    def _heads_divide(self) -> Self:
        if self.n_heads % self.n_kv_heads:
            usable = [k for k in range(1, min(self.n_heads, 4096) + 1) if self.n_heads % k == 0]
            raise SpecError(
                f"n_kv_heads: {self.n_kv_heads} does not divide n_heads={self.n_heads}; use one of {_listed(usable)}"
            )
        if self.values == "keys" and self.d_v != self.d_head:
            raise SpecError(
                f"d_value: {self.d_v} expected to be d_head={self.d_head}, whose product is read as values too"
            )
        if self.chunked and self.window is None:
            raise SpecError("chunked: expected with a window, the tokens of a chunk")
        if self.indexer is not None and (self.window is not None or not self.causal or self.values == "earlier"):
            raise SpecError("indexer: expected in a causal layer without a window that keeps a cache of its own")
        return self

    @property
    def d_v(self) -> int:
        """Width of a value head: its own where it has one, else H."""
        return self.d_value or self.d_head

    @property
    def caches(self) -> bool:
        """Whether it keeps keys and values: causal, and not an earlier layer's."""
        return self.causal and self.values != "earlier"

    def matrices(self, d_model: int) -> tuple[Matrix, ...]:
        """q (D, N·H), N·Hv wider with a gate; k (D, K·H), v (D, K·Hv) where it has them; a gate apart; o; the indexer's."""
        n, k, bias = self.n_heads, self.n_kv_heads, bool(self.qkv_bias)
        q = Matrix("q", d_model, n * self.d_head + (n * self.d_v if self.gated is True else 0), bias)
        keys = Matrix("k", d_model, k * self.d_head, self.qkv_bias is True)
        values = Matrix("v", d_model, k * self.d_v, bias)
        made = {"own": (keys, values), "keys": (keys,), "earlier": ()}[self.values]
        gate: tuple[Matrix, ...] = ()
        if isinstance(self.gated, str):
            gate = (Matrix("out_gate", d_model, n if self.gated == "head" else n * self.d_v),)
        return (q, *made, *gate, Matrix("o", n * self.d_v, d_model, self.out_bias), *self.index_matrices(d_model))

    def index_matrices(self, d_model: int) -> tuple[Matrix, ...]:
        """index_q (D, n·d), index_k (D, d), and index_weights (D, n) where it weighs its heads."""
        x = self.indexer
        if x is None or x.shared:
            return ()
        weights = (Matrix("index_weights", d_model, x.n_heads),) if x.weighted else ()
        return (Matrix("index_q", d_model, x.n_heads * x.d_head), Matrix("index_k", d_model, x.d_head), *weights)

    @property
    def n_vector_params(self) -> int:
        """Scales of the query and key norms, 2·H (per head), N·H + K·H (full width) or none; a sink a head; the indexer's
        query and key norm, 2·d."""
        n_keys = 0 if self.values == "earlier" else self.n_kv_heads
        per_head = self.d_head * (1 + bool(n_keys))
        widths = {"none": 0, "head": per_head, "full": (self.n_heads + n_keys) * self.d_head}
        index = 2 * self.index_elements_per_token
        return widths[self.qk_norm] * (2 if self.norm_bias else 1) + (self.n_heads if self.sinks else 0) + index

    @property
    def cache_elements_per_token(self) -> int:
        """Keys and values of one token of one sequence in one layer, K·(H + Hv): what attention reads."""
        return self.n_kv_heads * (self.d_head + self.d_v)

    @property
    def index_elements_per_token(self) -> int:
        """The index key, d, where this layer makes its own selection."""
        return self.indexer.d_head if self.indexer is not None and not self.indexer.shared else 0


class Latent(Record):
    """Multi-head latent attention: one cached vector of R + d_rope a token, from which every head's keys and values come.

    `d_q_latent`: the queries' own bottleneck, or none. With an `indexer` a query attends to its top_k tokens only (DSA).
    """

    kind: Literal["latent"] = "latent"
    n_heads: Count
    d_latent: Width
    d_rope: Annotated[int, Field(ge=0, le=100_000)]
    d_nope: Width
    d_value: Width
    d_q_latent: Width | None = None
    bias: bool = False  # on the down-projections and the output (attention_bias)
    indexer: Indexer | None = None

    @model_validator(mode="after")
    def _index_from_a_latent(self) -> Self:
        if self.indexer is not None and self.d_q_latent is None:
            raise SpecError("indexer: expected with d_q_latent, which its queries are made from")
        return self

    def matrices(self, d_model: int) -> tuple[Matrix, ...]:
        """q_a (D, Rq), q_b (Rq, N·(nope + rope)), or q alone; kv_a (D, R + rope); k_b, v_b (R, N··); o; the indexer's."""
        n, d_qk, q_latent = self.n_heads, self.d_nope + self.d_rope, self.d_q_latent
        queries: tuple[Matrix, ...] = (Matrix("q", d_model, n * d_qk),)
        if q_latent is not None:
            queries = (Matrix("q_a", d_model, q_latent, self.bias), Matrix("q_b", q_latent, n * d_qk))
        return (
            *queries,
            Matrix("kv_a", d_model, self.d_latent + self.d_rope, self.bias),
            Matrix("k_b", self.d_latent, n * self.d_nope),
            Matrix("v_b", self.d_latent, n * self.d_value),
            Matrix("o", n * self.d_value, d_model, self.bias),
            *self.index_matrices(d_model),
        )

    def index_matrices(self, d_model: int) -> tuple[Matrix, ...]:
        """index_q (Rq, n·d), index_k (D, d), index_weights (D, n)."""
        x = self.indexer
        if x is None or x.shared or self.d_q_latent is None:
            return ()
        return (
            Matrix("index_q", self.d_q_latent, x.n_heads * x.d_head),
            Matrix("index_k", d_model, x.d_head),
            Matrix("index_weights", d_model, x.n_heads),
        )

    @property
    def n_vector_params(self) -> int:
        """Norms of the latents, Rq + R, and of the index keys (scale and bias, 2·d)."""
        own_index = self.indexer is not None and not self.indexer.shared
        return (self.d_q_latent or 0) + self.d_latent + (2 * self.indexer.d_head if own_index and self.indexer else 0)

    @property
    def cache_elements_per_token(self) -> int:
        """The latent and the rotated key: R + d_rope, whatever the number of heads."""
        return self.d_latent + self.d_rope

    @property
    def index_elements_per_token(self) -> int:
        """The index key, d, where this layer makes its own selection."""
        return self.indexer.d_head if self.indexer is not None and not self.indexer.shared else 0


class Compressed(Record):
    """DeepSeek-V4's attention: one head that is key and value at once, a sliding window of it, and beyond the window one
    compressed entry for every `ratio` tokens (none: the window alone); with an `indexer` only the top_k entries are read.

    With an indexer the compressor makes two overlapping series (c = 2), else one (c = 1).
    """

    kind: Literal["compressed"] = "compressed"
    n_heads: Count
    d_head: Width
    d_q_latent: Width
    n_out_groups: Count
    d_out_latent: Width
    window: Window
    ratio: Annotated[int, Field(ge=1, le=2**30)] | None = None
    indexer: Indexer | None = None
    sinks: bool = True

    @model_validator(mode="after")
    def _index_over_entries(self) -> Self:
        if self.indexer is not None and self.ratio is None:
            raise SpecError("indexer: expected with a ratio, whose entries it picks from")
        if self.n_heads % self.n_out_groups:
            raise SpecError(f"n_out_groups: {self.n_out_groups} does not divide n_heads={self.n_heads}")
        return self

    @property
    def n_series(self) -> int:
        """c, compressed series made of every token."""
        return 2 if self.indexer is not None else 1

    def matrices(self, d_model: int) -> tuple[Matrix, ...]:
        """q_a, q_b, kv (D, H), o_a in g blocks (N·H/g, Ro), o_b (g·Ro, D); the compressor's (D, c·H), the indexer's."""
        n, h, g, x = self.n_heads, self.d_head, self.n_out_groups, self.indexer
        compress: tuple[Matrix, ...] = ()
        if self.ratio is not None:
            wide = self.n_series * h
            compress = (Matrix("compress_kv", d_model, wide), Matrix("compress_gate", d_model, wide))
        index: tuple[Matrix, ...] = ()
        if x is not None:
            index = (
                Matrix("index_q", self.d_q_latent, x.n_heads * x.d_head),
                Matrix("index_k", d_model, 2 * x.d_head),
                Matrix("index_gate", d_model, 2 * x.d_head),
                Matrix("index_weights", d_model, x.n_heads),
            )
        return (
            Matrix("q_a", d_model, self.d_q_latent),
            Matrix("q_b", self.d_q_latent, n * h),
            Matrix("kv", d_model, h),
            Matrix("o_a", n * h // g, self.d_out_latent, n=g),
            Matrix("o_b", g * self.d_out_latent, d_model),
            *compress,
            *index,
        )

    @property
    def n_vector_params(self) -> int:
        """Sinks N; norms Rq + H; with a compressor its position biases ratio·c·H and norm H; the indexer's likewise."""
        n = (self.n_heads if self.sinks else 0) + self.d_q_latent + self.d_head
        if self.ratio is not None:
            n += self.ratio * self.n_series * self.d_head + self.d_head
            if self.indexer is not None:
                n += self.ratio * 2 * self.indexer.d_head + self.indexer.d_head
        return n


class CrossAttention(Record):
    """Attention of every token over the outputs of a tower (N queries, M keys): text encoder, audio, image.

    Keys and values (d_memory, K·H) are made once of each tower output and kept; they do not grow with the text.
    """

    kind: Literal["cross_attention"] = "cross_attention"
    n_heads: Count
    n_kv_heads: Count
    d_head: Width
    d_memory: Width
    qkv_bias: bool | Literal["qv"] = False
    out_bias: bool = False
    qk_norm: bool = False

    def matrices(self, d_model: int) -> tuple[Matrix, ...]:
        """q (D, N·H), o (N·H, D), of the text; k and v (d_memory, K·H), of the tower's outputs."""
        wide, narrow, bias = self.n_heads * self.d_head, self.n_kv_heads * self.d_head, bool(self.qkv_bias)
        return (
            Matrix("q", d_model, wide, bias),
            Matrix("k", self.d_memory, narrow, self.qkv_bias is True),
            Matrix("v", self.d_memory, narrow, bias),
            Matrix("o", wide, d_model, self.out_bias),
        )

    @property
    def n_vector_params(self) -> int:
        """Scales of the query and key norms, 2·H, or none."""
        return 2 * self.d_head if self.qk_norm else 0

    @property
    def cache_elements_per_token(self) -> int:
        """Keys and values of one tower output in one layer: 2·K·H."""
        return 2 * self.n_kv_heads * self.d_head


class Pair(Record):
    """Attention and Mamba-2 side by side: both read the layer's input, their outputs are added (Falcon-H1)."""

    kind: Literal["pair"] = "pair"
    attention: Attention
    recurrent: Mamba2

    def matrices(self, d_model: int) -> tuple[Matrix, ...]:
        """Those of the one, then those of the other."""
        return self.attention.matrices(d_model) + self.recurrent.matrices(d_model)

    @property
    def n_vector_params(self) -> int:
        """Of both."""
        return self.attention.n_vector_params + self.recurrent.n_vector_params


class LinearMixer(Record):
    """One square matrix in place of a mixer or an FFN, as architecture search leaves it (D, D)."""

    kind: Literal["linear"] = "linear"
    bias: bool = False

    def matrices(self, d_model: int) -> tuple[Matrix, ...]:
        """linear (D, D)."""
        return (Matrix("linear", d_model, d_model, self.bias),)

    @property
    def n_vector_params(self) -> int:
        """None."""
        return 0


SingleMixer: TypeAlias = (
    Attention | Latent | Compressed | Mamba | Mamba2 | Delta | LinearAttention | ShortConv | Rglru | LinearMixer
)
Mixer: TypeAlias = Annotated[SingleMixer | Pair, Field(discriminator="kind")]


def _listed(values: list[int]) -> str:
    return ", ".join(str(v) for v in values[:24])
