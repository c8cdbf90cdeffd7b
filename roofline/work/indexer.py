"""The indexer of sparse attention: what it costs to pick the tokens a query attends to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from roofline.ledger import Linear, Op, Row
from roofline.specs.mixers import Attention, Indexer, Latent
from roofline.work.place import Place
from roofline.work.sight import ALL
from roofline.work.sums import Beyond, Sum, SumName

__all__ = ["index_scores", "scored"]


def index_scores(mixer: Attention | Latent, at: Place) -> Iterator[Row]:
    """The indexer that picks: its products, and one cheap score of every visible token.  [FLOP, B]

        flops        = Σ pairs · 2·n·(d + 1)      n index heads of d: q·k, and the sum over heads where it is weighted
        cache read   = Σ S · d · bits/8           every index key, for one query as for many
        cache write  = Σ T · d · bits/8

    The floor asks for the scores, and for what they alone need, only where there is something to choose: S + T > top_k.
    A layer whose indexer is `shared` takes the picks of an earlier one and has none of this.

    References: DeepSeek-AI 2025, arXiv:2512.02556, §2.
    """
    x = mixer.indexer
    if x is None or x.shared:
        return
    for matrix in mixer.index_matrices(at.d_model):
        row = at.product(matrix, n_launch=0.0 if matrix.role == "index_weights" else 1.0)
        yield row if matrix.role == "index_k" else _skippable(row, at, x)
    per_token = mixer.index_elements_per_token * at.numerics.kv.bits / 8.0
    row = scored(
        at,
        name="index_scores",
        pairs=Sum("pairs", ALL, at.stream).linear,
        seen=Sum("seen", ALL, at.stream).linear,
        held=Sum("held", ALL, at.stream).linear,
        made=at.tokens,
        indexer=x,
        per_entry=per_token,
    )
    flops_min = _beyond("pairs", at, x) * (2.0 * x.n_heads * (x.d_head + x.weighted))
    yield replace(row, flops_min=flops_min, kv_read_bytes_min=_beyond("held", at, x) * per_token)


def _beyond(name: SumName, at: Place, x: Indexer) -> Linear:
    """A sum over the sequences that have more tokens than are picked: for the others there is nothing to choose."""
    return Beyond(Sum(name, ALL, at.stream), x.top_k).linear


def _skippable(row: Row, at: Place, x: Indexer) -> Row:
    """A product whose outcome only scores: an engine may leave it out where every token is picked anyway."""
    per_token = sum(c for _, c in row.flops.terms)
    certain = sum(c for _, c in row.weight_bytes_min.terms) + row.weight_bytes_min.constant
    return replace(
        row, flops_min=_beyond("tokens", at, x) * per_token, weight_bytes_min=_beyond("busy", at, x) * certain
    )


def scored(
    at: Place, *, name: str, pairs: Linear, seen: Linear, held: Linear, made: Linear, indexer: Indexer, per_entry: float
) -> Row:
    """Index scores over entries: 2·n·(d + 1) FLOP a pair, or 2·n·d; entries of `per_entry` bytes read and written."""
    n, d = indexer.n_heads, indexer.d_head
    return Op(
        name=f"{at.prefix}{name}",
        kind="attention",
        repeat=at.repeat,
        shape=f"(T, {d}) × ({d}, S + T) × {n} index heads",
        m=at.tokens,
        flops=pairs * (2.0 * n * (d + indexer.weighted)),
        row_flops=seen * (2.0 * d),
        score_elements=pairs * float(n),
        kv_read_bytes=seen * per_entry,
        kv_read_bytes_min=held * per_entry,
        kv_write_bytes=made * per_entry,
        act_bytes=at.tokens * (n * (d + indexer.weighted) * at.numerics.activation_bytes),
        store_dtype=at.numerics.kv.name,
        compute_dtype=at.numerics.dense,
    )
