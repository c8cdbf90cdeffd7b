"""DeepSeek-V4's attention: a sliding window of tokens, and beyond it compressed entries of several tokens each."""

from __future__ import annotations

from collections.abc import Iterator

from roofline.ledger import Linear, Op, Row
from roofline.specs.mixers import Compressed
from roofline.work.attention import AttentionKernel, scores_moved
from roofline.work.indexer import scored
from roofline.work.place import Place
from roofline.work.sight import Sight
from roofline.work.sums import Entries, Sum

__all__ = ["compressed_attention"]


def compressed_attention(x: Compressed, at: Place, *, kernel: AttentionKernel) -> Iterator[Row]:
    """Rows of a layer whose one cached head is key and value at once.  [FLOP, B]

        flops        = Σ 4 · N · H · (pairs in the window + pairs with entries)
                       a query after p tokens sees ⌊(p + 1)/r⌋ entries, or the top_k of them that an indexer picks
        cache read   = Σ (min(S, W − 1) + entries) · H · bits/8
        cache write  = Σ (T + entries made) · H · bits/8
        activations  = every token's c series and their gates besides, written, and read when the entry closes: 4·c·H · 2 B

    Without a ratio the layer is the window alone. The indexer scores entries, not tokens.

    Notes
    -----
    Assumes pooling r tokens into an entry costs 0 FLOP (it is elementwise), T queries pick entries that all differ, and the
    overlap of the two series re-reads nothing. The FLOPs are those of the configuration's own layout; engines may differ.

    References: DeepSeek-AI 2026, DeepSeek-V4 technical report, §2.3 (compressed sparse and heavily compressed attention).
    """
    *first, out_a, out_b = (m for m in x.matrices(at.d_model) if not _beside(m.role))
    for matrix in first:
        yield at.product(matrix, n_launch=0.0 if matrix.role == "kv" else 1.0)
    for matrix in x.matrices(at.d_model):
        if _beside(matrix.role):
            yield at.product(matrix, n_launch=1.0 if matrix.role in ("compress_kv", "index_q", "index_k") else 0.0)
    if x.ratio is not None and x.indexer is not None:
        per_entry = x.indexer.d_head * at.numerics.kv.bits / 8.0
        there, made = _entries(x, "seen", at, capped=False), _entries(x, "made", at)
        held = Entries(x.ratio, None, "least", at.stream).linear
        yield scored(
            at, name="index_scores", pairs=_entries(x, "pairs", at, capped=False), seen=there, held=held, made=made,
            indexer=x.indexer, per_entry=per_entry,
        )  # fmt: skip
    yield _core(x, at, kernel=kernel)
    yield at.product(out_a)
    yield at.product(out_b)


def _beside(role: str) -> bool:
    return role.startswith(("compress_", "index_"))


def _entries(x: Compressed, what: str, at: Place, *, capped: bool = True) -> Linear:
    """A sum over entries; none where nothing is compressed."""
    if x.ratio is None:
        return Linear()
    cap = x.indexer.top_k if capped and x.indexer is not None and what in ("seen", "pairs") else None
    return Entries(x.ratio, cap, what, at.stream).linear  # type: ignore[arg-type]


def _core(x: Compressed, at: Place, *, kernel: AttentionKernel) -> Row:
    """Attention over window and entries together."""
    n, h, sight = x.n_heads, x.d_head, Sight(x.window)
    pairs = Sum("pairs", sight, at.stream).linear + _entries(x, "pairs", at)
    square = Sum("square", sight, at.stream).linear + _entries(x, "square", at)
    formed = square if kernel == "eager" else pairs
    per_entry = h * at.numerics.kv.bits / 8.0
    there = _entries(x, "seen", at)
    series = 0.0 if x.ratio is None else 4.0 * x.n_series * h
    series += 0.0 if x.indexer is None else 4.0 * 2 * x.indexer.d_head
    return Op(
        name=f"{at.prefix}attention",
        kind="attention",
        repeat=at.repeat,
        shape=f"(T, {h}) × ({h}, W + entries) × {n} heads, and back",
        products=(
            ("scores", f"(T, {h}) × ({h}, W + entries) × {n} heads", 0.5),
            ("values", f"(T, W + entries) × (W + entries, {h}) × {n} heads", 0.5),
        ),
        m=at.tokens,
        flops=pairs * (4.0 * n * h),
        extra_flops=(formed - pairs) * (4.0 * n * h),
        row_flops=(Sum("seen", sight, at.stream).linear + at.tokens + there) * (4.0 * h),
        score_elements=formed * float(n),
        kv_read_bytes=(Sum("seen", sight, at.stream).linear + there) * per_entry,
        kv_read_bytes_min=(Sum("held", sight, at.stream).linear + _certain(x, at)) * per_entry,
        kv_write_bytes=(at.tokens + _entries(x, "made", at)) * per_entry,
        act_bytes=at.tokens * (((2.0 * n + 1.0) * h + series) * at.numerics.activation_bytes)
        + scores_moved(formed, n, kernel),
        store_dtype=at.numerics.kv.name,
        compute_dtype=at.numerics.dense,
    )


def _certain(x: Compressed, at: Place) -> Linear:
    """Entries every pass must read: all of them, or what one query picks."""
    if x.ratio is None:
        return Linear()
    return Entries(x.ratio, x.indexer.top_k if x.indexer is not None else None, "least", at.stream).linear
