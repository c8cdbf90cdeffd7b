"""What a plan leaves for one chip to do: nothing is lost over the chips, and nothing done twice that need not be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import roofline as rl
from roofline.work.routing import Busiest, Touched, expected_maximum, ranks_reached

PLAIN = rl.model("llama-3.1-8b")
EXPERTS = rl.model("deepseek-v3")
STEPS = (
    rl.Seqs(n_seq=8, n_new=1, n_past=2048),
    rl.Seqs(n_seq=2, n_new=512),
    (rl.Seqs(n_seq=16, n_new=1, n_past=900), rl.Seqs(n_seq=1, n_new=300, n_past=100, n_logits=0)),
)


def rows(model: rl.Model, step: Any, plan: rl.Plan, stage: int = 0) -> dict[str, Any]:
    return {row["name"]: row for row in rl.count(model, step, plan=plan, stage=stage).by_op()}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("tp", [2, 4, 8])
def test_tp_splits_every_product_and_the_attention(step: Any, tp: int) -> None:
    whole, part = rl.count(PLAIN, step), rl.count(PLAIN, step, plan=rl.Plan(tp=tp))
    assert part.flops * tp == whole.flops
    assert part.kv_read_bytes * tp == whole.kv_read_bytes
    assert part.kv_write_bytes * tp == whole.kv_write_bytes
    own, other = rows(PLAIN, step, rl.Plan()), rows(PLAIN, step, rl.Plan(tp=tp))
    for name in ("q_proj", "k_proj", "o_proj", "down_proj", "lm_head"):
        assert other[name]["weight_bytes"] * tp == own[name]["weight_bytes"]


@pytest.mark.parametrize("step", STEPS)
def test_tp_exchanges_twice_a_layer_the_hidden_state_of_every_token(step: Any) -> None:
    ledger = rl.count(PLAIN, step, plan=rl.Plan(tp=4))
    exchanged = {row["name"]: row for row in ledger.by_op() if row["kind"] == "collective"}
    each = ledger.n_tokens * 4096 * 2
    assert exchanged["mixer_all_reduce"]["link_bytes"] == exchanged["ffn_all_reduce"]["link_bytes"] == 32 * each
    assert exchanged["embedding_all_reduce"]["link_bytes"] == each
    logits = sum(part.n_seq * part.n_logits for part in (step if isinstance(step, tuple) else (step,)))
    assert exchanged["logits_gather"]["link_bytes"] == logits * 128_256 * 2


def test_a_parallel_block_exchanges_once() -> None:
    """GPT-J adds attention and feed-forward block to the same stream."""
    names = [row["name"] for row in rl.count(rl.model("gpt-j-6b"), STEPS[0], plan=rl.Plan(tp=2)).by_op()]
    assert "ffn_all_reduce" in names
    assert "mixer_all_reduce" not in names


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("stages", [(16, 16), (1, 31), (20, 12)])
def test_stages_add_up_to_the_whole(step: Any, stages: tuple[int, ...]) -> None:
    plan = rl.Plan(pp=2, stages=stages)
    ledgers = [rl.count(PLAIN, step, plan=plan, stage=i) for i in (0, 1)]
    whole = rl.count(PLAIN, step)
    assert sum(x.flops for x in ledgers) == whole.flops
    assert sum(x.weight_bytes for x in ledgers) == whole.weight_bytes
    assert sum(x.kv_read_bytes for x in ledgers) == whole.kv_read_bytes
    assert sum(x.resident_bytes for x in ledgers) == whole.resident_bytes
    assert ledgers[0].link_bytes == whole.n_tokens * 4096 * 2
    assert ledgers[1].link_bytes == 0


def test_a_tied_table_stands_on_both_ends_of_a_pipeline() -> None:
    tied = rl.model("llama-3.2-1b")
    held = sum(rl.count(tied, STEPS[0], plan=rl.Plan(pp=2), stage=i).resident_bytes for i in (0, 1))
    assert held == rl.count(tied, STEPS[0]).resident_bytes + 128_256 * 2048 * 2


def test_a_latent_is_copied_under_tp_and_dp_shares_sequences_instead() -> None:
    """DeepSeek-V3: 1,152 B a token and layer on every rank, whatever tp."""
    step = rl.Seqs(n_seq=64, n_new=1, n_past=4096)
    each = 61 * 576 * 2
    by_tp, by_dp = (rl.count(EXPERTS, step, plan=plan) for plan in (rl.Plan(tp=8), rl.Plan(dp=8, ep=8)))
    assert by_tp.kv_write_bytes == 64 * each
    assert by_dp.kv_write_bytes == 8 * each


def test_the_busiest_rank_serves_what_is_left_over() -> None:
    ledger = rl.count(EXPERTS, rl.Seqs(n_seq=9, n_new=1, n_past=10), plan=rl.Plan(dp=8, ep=8))
    assert ledger.n_seq == 2


def test_experts_serve_the_tokens_of_all_ranks() -> None:
    """The mean rank does 1/8 of the pairs of 64 tokens, though it holds only 8 of the sequences."""
    step = rl.Seqs(n_seq=64, n_new=1, n_past=100)
    alone = rows(EXPERTS, step, rl.Plan())
    spread = rows(EXPERTS, step, rl.Plan(dp=8, ep=8))
    name = next(n for n in alone if n.endswith("expert_up_proj"))
    assert spread[name]["flops"] * 8 == alone[name]["flops"]
    assert spread[name]["extra_flops"] > 0
    split = rows(EXPERTS, step, rl.Plan(dp=8))[name]  # every expert over all chips: no rank is busier than another
    assert split["extra_flops"] == 0
    assert split["flops"] * 8 == alone[name]["flops"]
    assert split["weight_bytes"] * 8 == pytest.approx(alone[name]["weight_bytes"])


def test_context_parallel_splits_tokens_pairs_and_cache() -> None:
    plan, step = rl.Plan(cp=4), rl.Seqs(n_seq=1, n_new=4096)
    whole, part = rl.count(PLAIN, step), rl.count(PLAIN, step, plan=plan)
    own, other = rows(PLAIN, step, rl.Plan()), rows(PLAIN, step, plan)
    for name in ("q_proj", "attention", "down_proj"):
        assert other[name]["flops"] * 4 == own[name]["flops"]
    assert part.weight_bytes == pytest.approx(whole.weight_bytes, rel=0.01)  # copied; fewer rows are looked up
    assert other["kv_gather"]["link_bytes"] == 32 * 4096 * 2 * 8 * 128 * 2
    assert other["query_exchange"]["link_bytes"] == 0  # nothing lies on another chip yet
    decode = rows(PLAIN, rl.Seqs(n_seq=3, n_new=1, n_past=4096), plan)
    assert (
        decode["attention"]["kv_read_bytes"] * 4
        == rows(PLAIN, rl.Seqs(n_seq=3, n_new=1, n_past=4096), rl.Plan())["attention"]["kv_read_bytes"]
    )


# Routing over ranks, against a simulation


@pytest.mark.parametrize(
    ("e", "k", "n_ranks", "n_tokens"),
    [(8, 2, 2, 1), (8, 2, 8, 4), (64, 6, 8, 1), (256, 8, 8, 1), (256, 8, 8, 64), (256, 8, 32, 128), (128, 4, 16, 1000)],
)
def test_the_busiest_rank_is_as_busy_as_simulated(e: int, k: int, n_ranks: int, n_tokens: int) -> None:
    random, held = np.random.default_rng(7), e // n_ranks
    loads, touched = [], []
    for _ in range(400):
        picks = np.argsort(random.random((n_tokens, e)), axis=1)[:, :k]
        loads.append(np.bincount(picks.ravel() // held, minlength=n_ranks).max())
        touched.append(np.bincount(np.unique(picks) // held, minlength=n_ranks).max())
    step = (rl.Seqs(n_seq=n_tokens, n_new=1),)
    routing = Touched(e, k)
    assert Busiest(routing, held, n_ranks, "load").over(step) == pytest.approx(np.mean(loads), rel=0.12)
    assert Busiest(routing, held, n_ranks, "touched").over(step) == pytest.approx(np.mean(touched), rel=0.12)


@given(st.integers(1, 256), st.data(), st.integers(1, 10_000))
def test_the_busiest_rank_has_its_share_at_least_and_no_more_than_there_is(e: int, data: st.DataObject, n: int) -> None:
    k = data.draw(st.integers(1, e))
    n_ranks = data.draw(st.sampled_from([r for r in range(1, e + 1) if e % r == 0]))
    step, routing, held = (rl.Seqs(n_seq=n, n_new=1),), Touched(e, k), e // n_ranks
    load, touched, most = (
        float(Busiest(routing, held, n_ranks, what).over(step)) for what in ("load", "touched", "most")
    )
    assert n * k / n_ranks <= load * (1 + 1e-12)
    assert load <= n * min(k, held) * (1 + 1e-12)
    assert float(routing.over(step)) / n_ranks <= touched * (1 + 1e-12)
    assert touched <= most * (1 + 1e-12)


def test_every_expert_on_every_token_leaves_no_imbalance() -> None:
    assert Busiest(Touched(8, 8), 2, 4, "load").over((rl.Seqs(n_seq=10, n_new=1),)) == 20.0


@pytest.mark.parametrize(("n", "expected"), [(2, 0.5642), (3, 0.8463), (8, 1.4236), (32, 2.0697)])
def test_the_largest_of_n_normals(n: int, expected: float) -> None:
    """Tippett's table of the expected largest of n standard normals (Biometrika 17, 1925), spread by a fixed sum."""
    assert expected_maximum(n) == pytest.approx(expected * (n / (n - 1)) ** 0.5, rel=1e-3)


def test_ranks_a_token_reaches() -> None:
    assert ranks_reached(8, 1, n_held=1, n_ranks=8) == 1.0
    assert ranks_reached(8, 8, n_held=1, n_ranks=8) == 8.0
    assert ranks_reached(4, 2, n_held=2, n_ranks=2) == pytest.approx(2 - 2 * 1 / 6)  # both on one side: 2 of 6 pairs
