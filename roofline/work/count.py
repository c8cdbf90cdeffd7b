"""One forward pass of one model, counted: the only place where FLOPs and bytes of a pass come from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import get_args

from roofline.errors import SpecError, Unsupported, require, shown
from roofline.ledger import Ledger, Op, Row
from roofline.num import checked
from roofline.specs.ffns import Dense, Moe
from roofline.specs.layers import Layer, Norm
from roofline.specs.matrix import Matrix
from roofline.specs.mixers import Attention, Compressed, Latent, LinearMixer, SingleMixer
from roofline.specs.model import Model
from roofline.specs.plan import Plan
from roofline.specs.precision import Numerics, Precision
from roofline.specs.recurrent import Delta, LinearAttention, Mamba, Mamba2, Rglru, ShortConv
from roofline.specs.shard import DenseShare, Share, share_of
from roofline.specs.towers import Product, Tower
from roofline.work.attention import AttentionKernel, cross_attention
from roofline.work.attention import attention as attention_rows
from roofline.work.compressed import compressed_attention
from roofline.work.elementwise import elementwise, embedding, norms, unpacked
from roofline.work.exchange import (
    combined,
    directly,
    fed,
    handed_on,
    logits_gathered,
    passed_back,
    summed_up,
    to_experts,
)
from roofline.work.ffn import dense, experts
from roofline.work.footprint import resident_weight_bytes
from roofline.work.latent import LatentForm, latent_attention
from roofline.work.matmul import matmul
from roofline.work.naming import nicknames
from roofline.work.place import ONE_CHIP, Place
from roofline.work.recurrent import recurrent
from roofline.work.step import Seqs, Step, as_step
from roofline.work.sums import PassSums, Stream, Sum

__all__ = ["count"]


def count(
    model: Model,
    step: Seqs | Step,
    *,
    plan: Plan | None = None,
    stage: int = 0,
    precision: Precision | None = None,
    attention: AttentionKernel = "flash",
    latent: LatentForm = "auto",
    routing_exponent: float = 1.0,
) -> Ledger:
    """The ledger of one forward pass: every matrix product, the attention, the elementwise work, in order.

    Parameters
    ----------
    model : Model
    step : Seqs or tuple of Seqs
        What the pass is asked to do, on all chips together. Several parts make one mixed pass: weights are read once for all
        of them.
    plan : Plan, optional
        How the model is laid over chips; one chip by default. The ledger is that of the busiest chip of one `stage`.
    stage : int
        The pipeline stage, 0 to pp − 1.
    precision : Precision, optional
        Formats of weights, cache, activations and head; the checkpoint's own by default.
    attention : "flash" or "eager"
        The kernel; see `attention_core`.
    latent : "auto", "absorbed" or "expanded"
        The form of latent attention: the one with fewer FLOPs, or one for all; see `latent_attention`.
    routing_exponent : float
        γ of the expected number of distinct experts, in (0, 1] [1]: 1 for uniform routing; see `Touched`.

    Returns
    -------
    Ledger
        Shape of its counts: broadcast of the step's fields. Nothing in it depends on hardware.

    Notes
    -----
    Assumes all B·T tokens pass every layer; the head multiplies only the positions whose logits are wanted; the
    embedding is a look-up (rows, not a product). Norms, rotations, activations functions and residuals are one
    elementwise op a layer with bytes and 0 FLOP. The inputs of a step are those of the model's first tower (a second one,
    for sound beside sight, holds weights and does no work here), which runs only over them, and layers that
    cross-attend alone only over sequences that have a memory. Multi-token prediction modules do not run. In layers that
    read an earlier layer's cache, an engine may skip the tokens whose logits are not wanted: `flops_min` does.

    Examples
    --------
    Llama-2-7B, a prompt of 4: the pass needs 52.1 GFLOP and reads 13.2 GB of weights.

    >>> from roofline.specs.catalog import model
    >>> ledger = count(model("llama-2-7b"), Seqs(n_seq=1, n_new=4))
    >>> round(ledger.flops / 1e9, 1), round(ledger.weight_bytes / 1e9, 1)
    (52.1, 13.2)
    """
    require(model, Model, "count(model)")
    plan = Plan() if plan is None else plan
    require(plan, Plan, "count(plan=…)")
    precision = Precision() if precision is None else precision
    require(precision, Precision, "count(precision=…)")
    how = How(attention, latent, routing_exponent)
    sums = PassSums(as_step(step), n_ranks=plan.dp)
    rows, resident_bytes = rows_of(model, precision, how, plan, stage)
    return Ledger(
        rows=rows, sums=sums, n_seq=sums[Sum("seqs")], n_tokens=sums[Sum("tokens")], resident_bytes=resident_bytes,
        stage=stage,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class How:
    """Which execution is counted: the attention kernel, the form of latent attention, how routing spreads; from how many
    rows on quantised weights are unpacked before they are multiplied (none: in the product); whether prompts skip the layers
    that read an earlier layer's cache; whether chips sum up in one kernel."""

    kernel: AttentionKernel = "flash"
    latent: LatentForm = "auto"
    exponent: float = 1.0
    unpacks_from: int | None = None
    skips: bool = False
    direct: bool = False

    def __post_init__(self) -> None:
        if self.kernel not in get_args(AttentionKernel):
            raise SpecError(f'attention: expected "flash" or "eager", got {shown(self.kernel)}')
        if self.latent not in get_args(LatentForm):
            raise SpecError(f'latent: expected "auto", "absorbed" or "expanded", got {shown(self.latent)}')
        exponent = checked(self.exponent, name="routing_exponent", low=0.0, high=1.0, above=True)
        if not isinstance(exponent, float):
            raise SpecError("routing_exponent: expected one number, got an array")
        object.__setattr__(self, "exponent", exponent)


def rows_of(
    model: Model, precision: Precision, how: How, plan: Plan = ONE_CHIP, stage: int = 0
) -> tuple[tuple[Row, ...], float]:
    """The rows of the busiest chip of a stage and the bytes of its weights: everything about a pass but its sums.

    Kept for the next pass.
    """
    return _kept_rows(model, precision, how, plan, stage)


@lru_cache(maxsize=256)
def _kept_rows(model: Model, precision: Precision, how: How, plan: Plan, stage: int) -> tuple[tuple[Row, ...], float]:
    numerics, share = precision.of(model), share_of(model, plan, stage)
    rows = tuple(directly(row) if how.direct else row for row in _rows(share, numerics=numerics, how=how))
    return rows, resident_weight_bytes(share, numerics=numerics)


def _rows(share: Share, *, numerics: Numerics, how: How) -> Iterator[Row]:
    at = Place(d_model=share.model.d_model, numerics=numerics, plan=share.plan)
    if share.is_first:
        yield from _way_in(share, at, how=how)
    stack = tuple(_stack(share.model, at, how=how))
    yield from stack
    yield from unpacked(stack, at, rows=how.unpacks_from)
    if share.is_last:
        yield from _way_out(share.model, at)
    else:
        yield from handed_on(at)


def _way_in(share: Share, at: Place, *, how: How) -> Iterator[Row]:
    """The tower that runs, the embedding, and what comes before the first layer."""
    model = share.model
    for tower in model.towers[:1]:
        plan = share.plan if share.splits_tower else ONE_CHIP
        yield from _tower(tower, replace(at, numerics=at.numerics.of_tower(tower), plan=plan), how=how)
    yield embedding(model, at.of_all_ranks.tokens, numerics=at.numerics, n_parts=share.plan.n_expert_chips)
    yield from passed_back("embedding", at)
    if model.embedding.norm:
        yield norms(model.norm.n_params(model.d_summed), at, name="embedding_norm")
    for matrix in (*model.side_matrices[1:], *model.outer_matrices()[:1]):
        yield at.product(matrix, name=matrix.role)


def _way_out(model: Model, at: Place) -> Iterator[Row]:
    """What comes after the last layer: norm, projections, head."""
    if model.final_norm:
        yield norms(model.norm.n_params(model.d_model), at, name="final_norm")
    for merge in model.stream_matrices[1:]:
        yield at.product(merge, name="merge_streams")
    for matrix in model.outer_matrices()[1:]:  # the model's own code projects every token, wanted or not
        yield at.product(matrix, name=matrix.role)
    yield from _readout(model, at)


def _readout(model: Model, at: Place) -> Iterator[Row]:
    """The head, over the positions whose logits are wanted; an encoder's pooler and classifier, as their rows say."""
    for product in model.readout:
        yield _outer(product, at)
    if model.head is not None:
        stream: Stream = at.of_all_ranks.stream
        logits, needed = Sum("logits", stream=stream).linear, Sum("asked", stream=stream).linear
        yield from fed("logits", at, rows=logits)
        yield matmul(model.head_matrix, m=logits, numerics=at.numerics, name="lm_head", kind="head", needed=needed)
        yield from logits_gathered(at, rows=logits, width=model.vocab_size)


def _tower(tower: Tower, at: Place, *, how: How) -> Iterator[Row]:
    """What runs before the decoder, over the inputs of the step: stem, layers, projector."""
    at = replace(at, d_model=tower.d_model, prefix=f"{tower.kind}.", stream="inputs")
    for product in tower.stem:
        yield _outer(product, at)
    for (repeat, layer), prefix in zip(
        tower.layer_kinds(), nicknames([x for _, x in tower.layer_kinds()]), strict=True
    ):
        here = replace(at, numerics=at.numerics.of_layer(layer), prefix=at.prefix + prefix, repeat=float(repeat))
        yield from _layer(layer, here, norm=tower.norm, rotated=True, how=how)
    if tower.n_norms or tower.vectors:
        outside = tower.n_norms * tower.norm.n_params(tower.d_model)
        yield norms(outside, at, name=f"{at.prefix}norms", has_table=bool(tower.vectors))
    for product in tower.projector:
        yield _outer(product, at)


def _outer(product: Product, at: Place) -> Row:
    """A product outside the layers: of so many rows a token, or a sequence."""
    each = Sum("seqs", stream=at.stream).linear if product.once else at.tokens
    return at.product(product.matrix, m=each * product.rows, name=product.name)


def _stack(model: Model, at: Place, *, how: How) -> Iterator[Row]:
    """The decoder's layers, kind by kind."""
    kinds = model.layer_kinds()
    for (repeat, layer), prefix in zip(kinds, nicknames([layer for _, layer in kinds]), strict=True):
        stream: Stream = "informed" if layer.only_with_memory else at.stream
        here = replace(at, numerics=at.numerics.of_layer(layer), prefix=prefix, repeat=float(repeat), stream=stream)
        rotated, mixing = model.positions.kind == "rope", model.stream_matrices[:1]
        rows = partial(_layer, layer, norm=model.norm, rotated=rotated, how=how, mixing=mixing)
        reads_earlier = any(isinstance(mixer, Attention) and mixer.values == "earlier" for mixer in layer.mixers)
        yield from _skippable(rows, here, skips=how.skips) if reads_earlier else rows(here)


def _skippable(rows: Callable[[Place], Iterator[Row]], at: Place, *, skips: bool) -> Iterator[Row]:
    """Rows of a layer that caches nothing: an engine may run it for the wanted positions alone, and not at all for none.

    The least it does is the work of those positions, with the weights and caches of the sequences they belong to.
    """
    wanted, asked = tuple(rows(replace(at, stream="wanted"))), rows(replace(at, stream="asked"))
    for row, least, held in zip(wanted if skips else rows(at), wanted, asked, strict=True):
        yield replace(
            row,
            flops_min=least.flops,
            weight_bytes_min=held.weight_bytes_min,
            kv_read_bytes_min=held.kv_read_bytes_min,
        )


def _layer(
    layer: Layer, at: Place, *, norm: Norm, rotated: bool, how: How, mixing: tuple[Matrix, ...] = ()
) -> Iterator[Row]:
    """Mixer, cross-attention, FFN, elementwise. One case a kind, here and nowhere else."""
    for mix in mixing:
        around = replace(at, repeat=2.0 * at.repeat)  # the mixer, and the FFN
        yield around.product(mix, name="mix_streams")
        yield _streams_mixed(mix.d_in // at.d_model, around, name="streams")
    for mixer in layer.mixers:
        yield from _mixer(mixer, at, how=how)
    if not layer.parallel and any(not isinstance(mixer, LinearMixer) for mixer in layer.mixers):
        yield from summed_up("mixer_all_reduce", at)
    if layer.cross is not None:
        yield from cross_attention(layer.cross, at, kernel=how.kernel)
        yield from summed_up("cross_all_reduce", at)
    yield from _ffn(layer.ffn, at, how=how)
    if layer.altup != 1:
        yield _streams_mixed(layer.altup, at, name="altup_mix")
    for matrix in layer.side_matrices(at.d_model):
        twice = 2.0 if matrix.role == "altup_route" else 1.0  # once to foretell the other streams, once to correct them
        yield at.product(matrix, m=at.tokens * twice)
    yield elementwise(layer, at, norm=norm, rotated=rotated, n_streams=mixing[0].d_in // at.d_model if mixing else 1)


def _ffn(ffn: Dense | Moe | LinearMixer | None, at: Place, *, how: How) -> Iterator[Row]:
    match ffn:
        case None:
            pass
        case Dense():
            shared = isinstance(ffn, DenseShare)
            yield from fed("ffn", at) if shared else ()
            yield from dense(ffn, at)
            yield from passed_back("ffn", at) if shared else summed_up("ffn_all_reduce", at)
        case Moe():
            yield from to_experts(ffn, at)
            yield from experts(ffn, at, exponent=how.exponent)
            yield from combined("ffn_all_reduce", ffn, at)
        case LinearMixer():
            yield from (at.product(matrix, name="linear_ffn") for matrix in ffn.matrices(at.d_model))
        case _:
            raise Unsupported(f"an FFN of kind {ffn.kind} is not counted yet")


def _mixer(mixer: SingleMixer, at: Place, *, how: How) -> Iterator[Row]:
    match mixer:
        case Attention():
            yield from attention_rows(mixer, at, kernel=how.kernel)
        case Latent():
            yield from latent_attention(mixer, at, kernel=how.kernel, form=how.latent)
        case Compressed():
            yield from compressed_attention(mixer, at, kernel=how.kernel)
        case Mamba() | Mamba2() | Delta() | LinearAttention() | ShortConv() | Rglru():
            yield from recurrent(mixer, at)
        case LinearMixer():
            yield from (at.product(matrix) for matrix in mixer.matrices(at.d_model))
        case _:
            raise Unsupported(f"a mixer of kind {mixer.kind} is not counted yet")


def _streams_mixed(n_streams: int, at: Place, *, name: str) -> Row:
    """Each copy of the residual stream made anew from all s of them, with coefficients of the token's own: 2·T·D·s²."""
    return Op(
        name=f"{at.prefix}{name}",
        kind="gemm",
        repeat=at.repeat,
        shape=f"({at.d_model}, {n_streams}) × ({n_streams}, {n_streams}), for every token",
        m=at.tokens,
        flops=at.tokens * (2.0 * at.d_model * n_streams**2),
        act_bytes=at.tokens * (2.0 * n_streams * at.d_model * at.numerics.activation_bytes),
        store_dtype=at.numerics.dense,
        compute_dtype=at.numerics.dense,
    )
