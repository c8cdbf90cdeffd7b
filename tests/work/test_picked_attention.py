"""Plain attention under an indexer (MiniMax M3): a query attends to its best tokens only, after a cheap look at all."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from zoo import of_layers

import roofline as rl
from roofline.errors import SpecError
from roofline.specs.mixers import Attention, Indexer

N, K, H, D = 4, 2, 8, 16  # query heads, KV heads, their width, the model's
PER_TOKEN = 2 * K * 2 * H  # bytes of keys and values

indexers = st.fixed_dictionaries(
    {"n_heads": st.integers(1, 4), "d_head": st.integers(1, 16), "top_k": st.integers(1, 60)}
)
parts = st.tuples(st.integers(1, 3), st.integers(1, 40), st.integers(0, 60))


def counted(indexer: dict[str, Any] | None, part: tuple[int, int, int], **how: Any) -> dict[str, float]:
    mixer: dict[str, Any] = {"kind": "attention", "n_heads": N, "n_kv_heads": K, "d_head": H}
    if indexer is not None:
        mixer["indexer"] = indexer
    n_seq, n_new, n_past = part
    model = of_layers({"mixer": mixer, "ffn": None})
    rows = [op for op in rl.count(model, rl.Seqs(n_seq=n_seq, n_new=n_new, n_past=n_past), **how).ops]
    inside = [op for op in rows if op.kind not in ("head", "embedding", "elementwise")]
    names = ("flops", "executed_flops", "kv_read_bytes", "kv_read_bytes_min", "kv_write_bytes")
    return {name: float(sum(op.repeat * getattr(op, name) for op in inside)) for name in names}


@given(indexers, parts, st.booleans())
def test_every_product_is_counted_query_by_query(x: dict[str, Any], part: tuple[int, int, int], weighted: bool) -> None:
    n_seq, n_new, n_past = part
    n, d, tokens = x["n_heads"], x["d_head"], n_seq * n_new
    sees = [n_past + i + 1 for i in range(n_new)]
    picks = [min(s, x["top_k"]) for s in sees]
    products = 2 * tokens * D * (N * H + 2 * K * H + n * d + d + (n if weighted else 0)) + 2 * tokens * N * H * D
    scores = n_seq * sum(sees) * 2 * n * (d + weighted)
    attention = n_seq * sum(picks) * 4 * N * H
    assert counted(x | {"weighted": weighted}, part)["flops"] == products + scores + attention


@given(indexers, parts)
def test_the_cache_is_scored_whole_and_read_where_picked(x: dict[str, Any], part: tuple[int, int, int]) -> None:
    n_seq, n_new, n_past = part
    k, index = x["top_k"], 2 * x["d_head"]
    found = counted(x | {"weighted": False}, part)
    assert found["kv_read_bytes"] == n_seq * (min(n_past, n_new * (k - 1)) * PER_TOKEN + n_past * index)
    certain = n_past * index if n_past + n_new > k else 0  # with no more than k there is nothing to choose
    assert found["kv_read_bytes_min"] == n_seq * (min(n_past, k - 1) * PER_TOKEN + certain)
    assert found["kv_write_bytes"] == n_seq * n_new * (PER_TOKEN + index)


@given(parts, st.sampled_from(["flash", "eager"]))
def test_a_borrowed_selection_of_everything_changes_nothing(part: tuple[int, int, int], kernel: str) -> None:
    borrowed = {"n_heads": 1, "d_head": 8, "top_k": 1000, "shared": True}
    assert counted(borrowed, part, attention=kernel) == counted(None, part, attention=kernel)


def test_the_cache_holds_an_index_key_a_token() -> None:
    mixer = {"kind": "attention", "n_heads": N, "n_kv_heads": K, "d_head": H}
    plain, picked = (
        of_layers({"mixer": mixer | more, "ffn": None})
        for more in ({}, {"indexer": {"n_heads": 2, "d_head": 4, "top_k": 8, "weighted": False}})
    )
    assert rl.kv_bytes(picked, context_tokens=100, batch=3) - rl.kv_bytes(plain, context_tokens=100, batch=3) == 300 * 8
    assert picked.n_params - plain.n_params == D * 2 * 4 + D * 4 + 2 * 4


@pytest.mark.parametrize("more", [{"window": 8}, {"causal": False}, {"values": "earlier"}])
def test_an_indexer_needs_a_cache_without_a_window(more: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match="indexer: expected in a causal layer"):
        Attention(n_heads=N, n_kv_heads=K, d_head=H, indexer=Indexer(n_heads=1, d_head=4, top_k=4), **more)
