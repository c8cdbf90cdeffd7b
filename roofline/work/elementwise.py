"""What costs bytes and no FLOP: norms, residuals, rotations, activation functions, gates; and the look-up of embeddings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from roofline.dtypes import format_named
from roofline.errors import Unsupported
from roofline.ledger import Linear, Op, Row
from roofline.specs.ffns import Dense, Moe
from roofline.specs.layers import Layer, Norm
from roofline.specs.mixers import Attention, Compressed, Latent, LinearMixer, SingleMixer
from roofline.specs.model import Model
from roofline.specs.precision import Numerics
from roofline.specs.recurrent import Delta, LinearAttention, Mamba, Mamba2, Rglru, ShortConv
from roofline.specs.shard import DenseShare, ExpertShare
from roofline.work.place import Place
from roofline.work.sums import Reached, Sum

__all__ = ["elementwise", "embedding", "norms", "unpacked"]

UNPACKED_BYTES = 2.0  # of a 16-bit element


def elementwise(layer: Layer, at: Place, *, norm: Norm, rotated: bool, n_streams: int = 1) -> Row:
    """Norms with their residual adds, the rotation of q and k, activation functions and gates: bytes, no FLOP.  [B]

        m · (4·D·n_norms + mixer + FFN) · 2 B  +  the bytes of every vector of the layer

        attention      2·(N + K)·H rotated; an output gate 3·N·Hv          latent   2·(N + 1)·r + 2·(Rq + R)
        recurrent      convolution's activation 2·channels, gated output 3·d_inner
        dense          3·F gated, 2·F plain
        experts        the same for k of them and the shared block; k + 1 rows of D to add the outputs up
        s > 1 streams  2·(3·s + 1)·D: mixed into one before a sub-layer and out of it after

    Assumes the usual fusions: a norm with the residual add before it (reads two rows, writes two), the rotation in place,
    gate and up read and their product written (3·F; plain: 2·F).
    """
    elements = 4.0 * at.d_model * layer.n_norms + _fed(layer, at.d_model)
    elements += sum(_mixed(mixer, rotated=rotated) for mixer in layer.mixers)
    elements += 3.0 * (layer.d_side or 0)
    elements += 2.0 * layer.altup * at.d_model if layer.altup != 1 else 0.0
    elements += 2.0 * (3.0 * n_streams + 1.0) * at.d_model if n_streams != 1 else 0.0
    scales = Linear(layer.n_vector_params(at.d_model, norm) * at.numerics.kept_bytes)
    return _row(f"{at.prefix}elementwise", at, elements, scales, shape="norms, residuals, rotation, activation")


def _mixed(mixer: SingleMixer, *, rotated: bool) -> float:
    """Elements a token's mixer moves besides its products and its core."""
    match mixer:
        case LinearMixer():
            return 0.0
        case Attention() as x:
            turned = 2.0 * (x.n_heads + x.n_kv_heads) * x.d_head if rotated else 0.0
            return turned + (3.0 * x.n_heads * x.d_v if x.gated else 0.0)
        case Latent() as x:
            return 2.0 * (x.n_heads + 1) * x.d_rope + 2.0 * ((x.d_q_latent or 0) + x.d_latent)
        case Compressed() as x:
            return 2.0 * (x.n_heads + 1) * x.d_head + 2.0 * x.d_q_latent
        case Mamba() | Mamba2() | ShortConv() | Rglru() as x:
            return 2.0 * x.n_channels + 3.0 * x.d_inner
        case Delta() as x:
            return 2.0 * x.n_channels + 3.0 * x.n_value_heads * x.d_value
        case LinearAttention() as x:
            return (3.0 if x.gated else 0.0) * x.n_heads * x.d_head
        case _:
            raise Unsupported(f"a mixer of kind {mixer.kind} is not counted yet")


def _fed(layer: Layer, d_model: int) -> float:
    """Elements of a token's activation functions, and of adding up experts."""
    match layer.ffn:
        case None | LinearMixer():
            return 0.0
        case Dense() as x:
            return (3.0 if x.gated else 2.0) * x.d_ff * (x.n_feeding if isinstance(x, DenseShare) else 1)
        case Moe() as x:
            sharing = x.n_sharing if isinstance(x, ExpertShare) else 1
            wide = x.n_active_experts * x.d_ff + (x.d_shared or 0) * sharing
            return (3.0 if x.gated else 2.0) * wide + (x.n_active_experts + 1.0) * (x.d_latent or d_model)
        case _:
            raise Unsupported(f"an FFN of kind {layer.ffn.kind} is not counted yet")


def norms(n_params: float, at: Place, *, name: str, has_table: bool = False) -> Row:
    """A norm outside the layers, of every token: two rows read (with the residual), one written.  [B]

    With a table (positions, segments, a class token) a row of it is looked up for every token besides.
    """
    weights = Linear(n_params * at.numerics.kept_bytes)
    if has_table:
        weights = weights + at.tokens * (at.d_model * at.numerics.kept_bytes)
    return _row(name, at, 3.0 * at.d_model, weights, shape="norm and residual")


def _row(name: str, at: Place, elements: float, weights: Linear, *, shape: str) -> Row:
    read = weights if at.needed is None else at.needed * weights.constant + Linear(0.0, weights.terms)
    return Op(
        name=name,
        kind="elementwise",
        repeat=at.repeat,
        shape=shape,
        m=at.tokens,
        weight_bytes=read,
        weight_bytes_min=read,
        weight_bytes_max=read,
        act_bytes=at.tokens * (elements * at.numerics.activation_bytes),
        store_dtype=at.numerics.dense,
        compute_dtype=at.numerics.dense,
    )


def embedding(model: Model, tokens: Linear, *, numerics: Numerics, n_parts: int = 1) -> Row:
    """Rows looked up, m · D_e, and the learned position's beside each; the first hidden state written.  [B]

    Of a table in `n_parts` a chip may have to look up all of them, and must its part at least.

    Where every layer has an input of its own, L · w elements more; a text encoder's tokens are looked up in the same table.
    """
    table = model.embedding_matrix
    role = "head" if model.head is not None and model.head.tied else "embedding"
    read = tokens + sum((Sum("tokens", stream="inputs").linear for t in model.towers if t.shares_embedding), Linear())
    rows = read * (model.d_embedding * numerics.bytes_per_element(role))
    if model.positions.kind == "learned":
        rows = rows + tokens * (model.d_model * numerics.bytes_per_element("positions"))
    if model.side_embedding is not None:
        wide = model.n_layers * model.side_embedding.width
        rows = rows + tokens * (wide * numerics.bytes_per_element("side_embedding"))
    return Op(
        name="embedding",
        kind="embedding",
        shape=f"m rows of ({table.d_in}, {table.d_out})",
        m=read,
        weight_bytes=rows,
        weight_bytes_min=rows * (1.0 / n_parts),
        weight_bytes_max=rows,
        act_bytes=read * (model.d_embedding * numerics.activation_bytes),
        store_dtype=numerics.store(role).name,
        compute_dtype=numerics.dense,
    )


def unpacked(products: Iterable[Row], at: Place, *, rows: int | None) -> Iterator[Row]:
    """Quantised weights written out in 16 bit before they are multiplied, in a pass of at least so many tokens.  [B]

        weights += elements · 2 B        the products then read them at that width, beside their arithmetic

    Some kernels multiply quantised weights by a few rows only, and hand larger products to a library for 16-bit matrices.
    """
    narrow = [row for row in products if row.kind == "gemm" and format_named(row.store_dtype).weight_only]
    elements = sum(row.repeat * row.row_flops.constant / 2.0 for row in narrow)
    if rows is None or elements == 0.0:
        return
    there = Reached(Sum("tokens", stream=at.stream, ways=at.ways), rows).linear
    yield Op(
        name=f"{at.prefix}unpack",
        kind="elementwise",
        n_launch=0.0,
        shape="weights to 16 bit",
        m=at.tokens,
        weight_bytes=there * (elements * UNPACKED_BYTES),
        weight_bytes_max=there * (elements * UNPACKED_BYTES),
        store_dtype=at.numerics.dense,
        compute_dtype=at.numerics.dense,
    )
