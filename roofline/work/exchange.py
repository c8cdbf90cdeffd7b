"""What chips that share the work of a layer send one another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from roofline.ledger import Collective, Linear, Op, Row
from roofline.specs.ffns import Moe
from roofline.specs.mixers import Attention
from roofline.specs.shard import ExpertShare
from roofline.work.place import Place
from roofline.work.routing import ranks_reached
from roofline.work.sums import Sum

__all__ = ["combined", "fed", "handed_on", "kv_gathered", "logits_gathered", "passed_back", "summed_up", "to_experts"]


def _exchange(name: str, at: Place, collective: Collective, payload: Linear, *, least: Linear | None = None) -> Row:
    return Op(
        name=f"{at.prefix}{name}",
        kind="collective",
        repeat=at.repeat,
        shape=f"{collective.verb.replace('_', '-')} of {collective.n_ranks} chips",
        m=at.tokens,
        collective=collective,
        link_bytes=payload,
        link_bytes_min=payload if least is None else least,
        store_dtype=at.numerics.dense,
        compute_dtype=at.numerics.dense,
    )


def directly(row: Row) -> Row:
    """The same row; an all-reduce in one kernel, as engines have of their own."""
    exchange = row.collective
    if exchange is None or exchange.verb != "all_reduce":
        return row
    return replace(row, collective=replace(exchange, direct=True))


def summed_up(name: str, at: Place, *, width: int | None = None) -> Iterator[Row]:
    """All-reduce over tp of what each chip made of its heads or channels: tokens · D · 2 B; nothing where tp = 1.

    One after the mixer, one after the feed-forward block; a single one where both run in parallel. Shoeybi et al. 2019,
    arXiv:1909.08053, §3.
    """
    if at.plan.tp != 1:
        payload = at.tokens * ((at.d_model if width is None else width) * at.numerics.activation_bytes)
        yield _exchange(name, at, Collective("all_reduce", at.plan.tp), payload)


def fed(name: str, at: Place, *, rows: Linear | None = None) -> Iterator[Row]:
    """Before a block that data-parallel ranks share: an all-gather of every rank's tokens (or rows), rows · D · 2 B.

    It may be for nothing: an engine that copies the block for each rank sends none.
    """
    if at.plan.dp != 1:
        payload = (at.of_all_ranks.tokens if rows is None else rows) * (at.d_model * at.numerics.activation_bytes)
        yield _exchange(f"{name}_gather", at, Collective("all_gather", at.plan.n_expert_chips), payload, least=Linear())


def passed_back(name: str, at: Place, *, width: int | None = None) -> Iterator[Row]:
    """After it: a reduce-scatter of the parts of every rank's tokens, and a gather over tp; without ranks, an all-reduce."""
    if at.plan.dp == 1:
        yield from summed_up(f"{name}_all_reduce", at, width=width)
        return
    each = (at.d_model if width is None else width) * at.numerics.activation_bytes
    scatter = Collective("reduce_scatter", at.plan.n_expert_chips)
    yield _exchange(f"{name}_reduce_scatter", at, scatter, at.of_all_ranks.tokens * each, least=Linear())
    if at.plan.tp != 1:
        yield _exchange(f"{name}_regather", at, Collective("all_gather", at.plan.tp), at.tokens * each, least=Linear())


def logits_gathered(at: Place, *, rows: Linear, width: int) -> Iterator[Row]:
    """Logits of which each chip has a part of the vocabulary: an all-gather over tp, rows · tp · width · 2 B.

    Of data-parallel ranks, `rows` are those of all, and each chip gives every rank its part of them: rows · width · 2 B.
    """
    if at.plan.dp != 1:
        payload = rows * (width * at.numerics.activation_bytes)
        yield _exchange(
            "logits_exchange", at, Collective("all_to_all", at.plan.n_expert_chips), payload, least=Linear()
        )
    elif at.plan.tp != 1:
        payload = rows * (at.plan.tp * width * at.numerics.activation_bytes)
        yield _exchange("logits_gather", at, Collective("all_gather", at.plan.tp), payload)


def to_experts(ffn: Moe, at: Place) -> Iterator[Row]:
    """Before the experts, where ranks serve different sequences (dp > 1): every token goes to the ranks its experts are on.

        a chip's payload = tokens/tp · reached · (tp · dp / ep) · D · 2 B        reached: `ranks_reached`

    A token is sent to a rank once, however many of its experts stand there, and to every chip that holds a slice of those
    experts. It may all be for nothing: at least, every expert is at home. Where ranks share a block that every token passes,
    all tokens are gathered for it, and the experts' are there too.
    """
    if isinstance(ffn, ExpertShare) and ffn.n_sharing != 1:
        yield from fed("ffn", at)
    elif isinstance(ffn, ExpertShare) and ffn.n_feeding != 1:
        yield _all_to_all("dispatch", ffn, at)


def combined(name: str, ffn: Moe, at: Place) -> Iterator[Row]:
    """After the experts: an all-reduce over tp; where ranks serve different sequences, the way back and a gather over tp."""
    if not isinstance(ffn, ExpertShare) or ffn.n_feeding == 1:
        yield from summed_up(name, at)
        return
    if ffn.n_sharing != 1:
        yield from passed_back("ffn", at)
        return
    yield _all_to_all("combine", ffn, at)
    if at.plan.tp != 1:
        payload = at.tokens * (at.d_model * at.numerics.activation_bytes)
        yield _exchange("expert_gather", at, Collective("all_gather", at.plan.tp), payload)


def _all_to_all(name: str, ffn: ExpertShare, at: Place) -> Row:
    reached = ranks_reached(ffn.n_experts, ffn.n_active_experts, n_held=ffn.n_held, n_ranks=ffn.n_ranks)
    copies = reached * ffn.n_widths / at.plan.tp
    payload = at.tokens * (copies * at.d_model * at.numerics.activation_bytes)
    return _exchange(name, at, Collective("all_to_all", at.plan.n_expert_chips), payload, least=Linear())


def kv_gathered(mixer: Attention, at: Place) -> Iterator[Row]:
    """Context parallel attention: keys and values of this pass to all, queries of sequences with a past to where it lies.

    new      B·T · K·(H + Hv) · 2 B                       all-gather: every chip ends up with all of them
    past     2 · (B·T with a past) · N·(H + Hv) / 2 · 2 B   queries there, partial outputs back, each to cp − 1 others
    """
    cp, stride = at.plan.cp, at.plan.tp * at.plan.dp
    if cp == 1:
        return
    wide, act = mixer.d_head + mixer.d_v, at.numerics.activation_bytes
    new = Sum("tokens", stream=at.stream).linear * (mixer.n_kv_heads * wide * act)
    yield _exchange("kv_gather", at, Collective("all_gather", cp, stride), new, least=Linear())
    past = Sum("continued", stream=at.stream).linear * (mixer.n_heads * wide * act)
    yield _exchange("query_exchange", at, Collective("all_gather", cp, stride), past, least=Linear())


def handed_on(at: Place) -> Iterator[Row]:
    """The hidden state of every token, to the next stage: tokens · D · 2 B."""
    chips = at.plan.chips_per_stage
    payload = at.tokens * (at.d_model * at.numerics.activation_bytes)
    yield _exchange("stage_send", at, Collective("send", at.plan.pp, chips), payload)
