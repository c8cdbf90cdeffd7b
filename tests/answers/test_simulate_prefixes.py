"""Beginnings that are kept and requests that follow: to the last bit against the naive loop, and the laws of a cache."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_replica import serve

from roofline.answers.simulate import Replica, Served, simulate, with_answers
from roofline.errors import SpecError
from roofline.timing.steplaw import PlainLaw

LAW = PlainLaw(
    matmul_params=7.5e9, weight_bytes=16.06e9, kv_bytes_per_token=131072, n_layers=32, heads_dim=4096,
    peak_flops_per_s=593.4e12, hbm_bytes_per_s=2.68e12, step_s=0.003,
)  # fmt: skip
Asked = list[tuple[float, int, int]]


def _simulated(asked: Asked, replica: Replica, **more: Any) -> Served:
    arrivals, prompts, outputs = zip(*asked, strict=True)
    return simulate(arrivals, prompts, outputs, LAW, replica, **more)


def _agree(asked: Asked, replica: Replica, **more: Any) -> Served:
    """Both serve alike, to the last bit."""
    naive, log = serve(asked, LAW, replica, **more)
    fast = _simulated(asked, replica, **more)
    assert fast.arrival_s.tolist() == [s.arrival_s for s in naive]
    assert fast.first_token_s.tolist() == [s.first_s for s in naive]
    assert fast.last_token_s.tolist() == [s.last_s for s in naive]
    assert fast.hit_tokens.tolist() == [s.hit for s in naive]
    assert fast.loaded_tokens.tolist() == [s.loaded for s in naive]
    assert (fast.n_steps, fast.n_preemptions) == (len(log), log[-1][9])
    assert fast.step_s.tolist() == [row[10] for row in log if row[1]]
    assert fast.step_decodes.tolist() == [row[1] for row in log if row[1]]
    assert (fast.hit_tokens < np.array([prompt for _, prompt, _ in asked])).all()
    return fast


def _sessions(rng: np.random.Generator, n: int, block: int) -> tuple[Asked, dict[str, Any]]:
    """Requests that begin with one of a few system prompts, or go on from an earlier one."""
    asked: Asked = []
    ids: list[tuple[int, ...]] = []
    follows, think = [], []
    fresh = iter(range(10**6))
    systems = [tuple(next(fresh) for _ in range(int(rng.integers(1, 12)))) for _ in range(4)]
    at = 0.0
    for i in range(n):
        at += float(rng.exponential(0.06))
        prompt, output = int(rng.integers(1, 700)), int(rng.integers(1, 300))
        before = int(rng.integers(0, i)) if i and rng.random() < 0.5 else -1
        long = before >= 0 and asked[before][1] + asked[before][2] > 1200
        begins = systems[int(rng.integers(4))] if before < 0 or long else ids[before]
        if before >= 0 and not long:
            prompt += asked[before][1] + asked[before][2]
        whole = prompt // block
        begins = begins[: whole + 1]
        ids.append(begins + tuple(next(fresh) for _ in range(whole + int(rng.integers(0, 2)) - len(begins))))
        asked.append((at, prompt, output))
        follows.append(-1 if long else before)
        think.append(float(rng.choice([0.0, 0.5, 5.0])))
    prompts, outputs = [p for _, p, _ in asked], [o for _, _, o in asked]
    names = with_answers(ids, block, prompts, outputs, follows)
    return asked, {"block_ids": names, "block_tokens": block, "follows": follows, "think_s": think}


@pytest.mark.parametrize("seed", range(10))
def test_it_is_the_naive_loop_with_sessions_tiers_and_preemptions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    page = int(rng.choice([1, 16, 32]))
    block = page * int(rng.choice([1, 2, 3]))
    asked, more = _sessions(rng, 80, block)
    replica = Replica(
        kv_tokens=int(rng.integers(2500, 5000)), page_tokens=page, batch_tokens=int(rng.choice([64, 512, 2048])),
        max_seqs=64, prefix_caching=True, tier_tokens=int(rng.choice([0, 900, 9000])), tier_tokens_per_s=30000.0,
    )  # fmt: skip
    found = _agree(asked, replica, **more)
    assert found.n_preemptions > 0
    assert found.hit_tokens.sum() > 0
    assert (found.loaded_tokens.sum() > 0) == (replica.tier_tokens > 0)


@st.composite
def _anything(draw: st.DrawFn) -> tuple[Asked, Replica, dict[str, Any]]:
    """Few ids, so that much is shared; ids beyond prompts and answers in part; anybody may follow anybody before."""
    page = draw(st.sampled_from([1, 2, 4]))
    block = page * draw(st.integers(1, 3))
    asked: Asked = []
    at, ids, follows = 0.0, [], []
    for i in range(draw(st.integers(1, 14))):
        at += draw(st.sampled_from([0.0, 0.004, 0.05, 1.0]))
        prompt, output = draw(st.integers(1, 40)), draw(st.integers(1, 25))
        asked.append((at, prompt, output))
        ids.append(draw(st.lists(st.integers(0, 1), max_size=(prompt + output) // block)))
        follows.append(draw(st.integers(-1, i - 1)))
    longest = max(p + o for _, p, o in asked)
    replica = Replica(
        kv_tokens=(longest // page + 1) * page + draw(st.integers(0, 60)), page_tokens=page,
        batch_tokens=draw(st.sampled_from([1, 7, 64])), max_seqs=draw(st.sampled_from([1, 3, 8])), prefix_caching=True,
        tier_tokens=draw(st.sampled_from([0, 10, 100])), tier_tokens_per_s=1000.0,
    )  # fmt: skip
    think = [0.01 * draw(st.integers(0, 3)) for _ in asked]
    return asked, replica, {"block_ids": ids, "block_tokens": block, "follows": follows, "think_s": think}


@settings(max_examples=150)
@given(_anything())
def test_it_is_the_naive_loop_on_anything_that_shares(case: tuple[Asked, Replica, dict[str, Any]]) -> None:
    asked, replica, more = case
    _agree(asked, replica, **more)


@pytest.mark.parametrize("seed", [*range(8), 25, 149])
def test_it_is_the_naive_loop_in_a_pool_that_barely_holds_one(seed: int) -> None:
    """Answers of one token that end together, answers alike, and what comes back from the tier while it is read again."""
    rng = np.random.default_rng(seed)
    n, page = 120, int(rng.choice([1, 2]))
    block = page * int(rng.choice([1, 2]))
    prompts, outputs = rng.integers(1, 24, n), rng.choice([1, 2, 12], n)
    asked = list(zip(np.cumsum(rng.choice([0.0, 0.01], n)).tolist(), prompts.tolist(), outputs.tolist(), strict=True))
    ids = [tuple((rng.random((p + o) // block) < 0.15).astype(int).tolist()) for _, p, o in asked]
    replica = Replica(
        kv_tokens=int(rng.integers(36, 60)), page_tokens=page, batch_tokens=int(rng.choice([3, 8, 64])), max_seqs=8,
        prefix_caching=True, tier_tokens=int(rng.integers(4, 40)), tier_tokens_per_s=1000.0,
    )  # fmt: skip
    _agree(asked, replica, block_ids=ids, block_tokens=block)


def _apart(n: int) -> tuple[Asked, list[tuple[int, ...]]]:
    """Requests an hour apart that begin as one of a few do, in blocks of 512 tokens."""
    rng = np.random.default_rng(7)
    asked, ids = [], []
    for i in range(n):
        shared = int(rng.integers(0, 6))
        prompt = 512 * shared + int(rng.integers(1, 2000))
        own = [1000 * (i + 1) + k for k in range(prompt // 512 - shared)]
        ids.append(tuple([10 * int(rng.integers(3)) + 9] * (shared > 0) + list(range(1, shared)) + own))
        asked.append((3600.0 * i, prompt, int(rng.integers(1, 60))))
    return asked, ids


def _infinite(asked: Asked, ids: list[tuple[int, ...]]) -> list[int]:
    """Tokens a cache without end holds of each prompt, but for the page its last token is in."""
    seen: set[tuple[int, ...]] = set()
    hits = []
    for (_, prompt, _), own in zip(asked, ids, strict=True):
        beginnings = [own[: k + 1] for k in range(min(len(own), prompt // 512))]
        n = next((k for k, key in enumerate(beginnings) if key not in seen), len(beginnings))
        hits.append(min(512 * n, (prompt - 1) // 16 * 16))
        seen |= set(beginnings)
    return hits


def test_a_pool_without_end_finds_what_an_infinite_cache_does() -> None:
    asked, ids = _apart(60)
    found = _simulated(asked, Replica(kv_tokens=10_000_000, prefix_caching=True), block_ids=ids)
    assert found.hit_tokens.tolist() == _infinite(asked, ids)
    assert found.hit_tokens.sum() > 0


def test_what_is_found_is_work_saved() -> None:
    """Apart from each other, each takes the steps of the rest of its prompt after so many tokens, and its decodes."""
    asked, ids = _apart(30)
    replica = Replica(kv_tokens=10_000_000, prefix_caching=True)
    found = _simulated(asked, replica, block_ids=ids)
    without = _simulated(asked, replica)
    for i, (at, prompt, _) in enumerate(asked):
        t, past = at, int(found.hit_tokens[i])
        while past < prompt:
            chunk = min(2048, prompt - past)
            t += LAW.seconds(0, 0, (), [(chunk, past, past + chunk == prompt)])
            past += chunk
        assert found.first_token_s[i] == t
    assert (found.ttft_s <= without.ttft_s).all()
    assert (found.ttft_s < without.ttft_s).tolist() == (found.hit_tokens > 0).tolist()
    assert without.hit_tokens.sum() == 0


@pytest.mark.parametrize("tier", [0, 20_000])
def test_where_no_two_begin_alike_nothing_changes(tier: int) -> None:
    """In a pool that is full of what nobody asks for again, without preemptions: after one, a sequence finds its own."""
    rng = np.random.default_rng(11)
    asked = list(zip(np.cumsum(rng.exponential(0.2, 200)).tolist(), rng.integers(1, 3000, 200).tolist(),
                     rng.integers(1, 200, 200).tolist(), strict=True))  # fmt: skip
    ids = [tuple(range(100 * i, 100 * i + (p + o) // 512)) for i, (_, p, o) in enumerate(asked)]
    keeps = Replica(
        kv_tokens=60_000, max_seqs=16, prefix_caching=True, tier_tokens=tier, tier_tokens_per_s=1000.0 if tier else None
    )
    found = _simulated(asked, keeps, block_ids=ids)
    plain = _simulated(asked, Replica(kv_tokens=60_000, max_seqs=16))
    assert found.n_preemptions == plain.n_preemptions == 0
    for name in ("first_token_s", "last_token_s", "step_s", "step_decodes"):
        assert getattr(found, name).tolist() == getattr(plain, name).tolist()


def test_blocks_do_nothing_where_beginnings_are_not_kept() -> None:
    asked = [(0.0, 1024, 5), (1.0, 1024, 5)]
    named = _simulated(asked, Replica(kv_tokens=60_000), block_ids=[(1, 2), (1, 2)], block_tokens=511)
    assert named.last_token_s.tolist() == _simulated(asked, Replica(kv_tokens=60_000)).last_token_s.tolist()


def test_the_last_page_of_a_prompt_is_read_whatever_is_there() -> None:
    """1,024 tokens again: 1,008 are found in pages of 16; in one page of 1,024 nothing is."""
    asked, ids = [(0.0, 1024, 5), (1.0, 1024, 5)], [(1, 2), (1, 2)]
    assert _simulated(asked, Replica(kv_tokens=60_000, prefix_caching=True), block_ids=ids).hit_tokens[1] == 1008
    paged = Replica(kv_tokens=60_000, page_tokens=1024, prefix_caching=True)
    assert _simulated(asked, paged, block_ids=[(1,), (1,)], block_tokens=1024).hit_tokens[1] == 0


def test_a_block_is_the_same_only_where_all_before_it_are() -> None:
    asked = [(0.0, 1100, 5), (1.0, 1100, 5)]
    found = _simulated(asked, Replica(kv_tokens=60_000, prefix_caching=True), block_ids=[(1, 2), (3, 2)])
    assert found.hit_tokens.tolist() == [0, 0]


def _turns(replica: Replica, *, between: int) -> Served:
    """A turn of 2,048 + 513 tokens, other prompts of 4,096 tokens while its reader thinks, and the turn after it."""
    others = [(10.0 + i, 4096, 2) for i in range(between)]
    asked = [(0.0, 2048, 513), *others, (0.0, 2561 + 300, 50)]
    asked[-1] = (asked[-2][0], *asked[-1][1:])
    n = len(asked)
    ids = [(1, 2, 3, 4), *[tuple(range(100 * i, 100 * i + 8)) for i in range(1, between + 1)], (1, 2, 3, 4, 5)]
    follows = [-1] * (n - 1) + [0]
    names = with_answers(ids, 512, [p for _, p, _ in asked], [o for _, _, o in asked], follows)
    assert names[0] == (1, 2, 3, 4, 5)  # 2,560 tokens are cached when it leaves: five blocks
    return _simulated(asked, replica, block_ids=names, follows=follows, think_s=[0.0] * (n - 1) + [60.0])


def test_a_second_turn_reads_only_what_is_new() -> None:
    found = _turns(Replica(kv_tokens=100_000, prefix_caching=True), between=3)
    assert found.arrival_s[-1] == found.last_token_s[0] + 60.0
    assert found.hit_tokens[-1] == 2560
    assert found.first_token_s[-1] == found.arrival_s[-1] + LAW.seconds(0, 0, (), [(301, 2560, True)])


def test_what_others_push_out_is_read_again_or_loaded() -> None:
    """Three prompts of 4,096 tokens fill a cache of 10,000; a tier holds what they push out: 2,560 tokens, 0.256 s."""
    gone = _turns(Replica(kv_tokens=10_000, prefix_caching=True), between=3)
    assert gone.hit_tokens[-1] == 0
    tiered = Replica(kv_tokens=10_000, prefix_caching=True, tier_tokens=20_000, tier_tokens_per_s=10_000.0)
    loaded = _turns(tiered, between=3)
    assert (loaded.hit_tokens[-1], loaded.loaded_tokens[-1]) == (2560, 2560)
    assert loaded.ttft_s[-1] == pytest.approx(LAW.seconds(0, 0, (), [(301, 2560, True)]) + 0.256)


def test_of_a_sequence_the_end_goes_before_the_beginning() -> None:
    """One prompt of 4,096 tokens and one of 8,192, in a cache of 10,240: four of the eight blocks stay, the first four."""
    asked = [(0.0, 4096, 1), (10.0, 8192, 1), (20.0, 4100, 1)]
    ids = [tuple(range(8)), tuple(range(100, 116)), tuple(range(8))]
    found = _simulated(asked, Replica(kv_tokens=10_240, prefix_caching=True), block_ids=ids)
    assert found.hit_tokens.tolist() == [0, 0, 2048]


def test_what_many_share_is_held_once() -> None:
    """Eight prompts begin with the same 4,096 tokens and each takes 13 pages more: all run at once, not two."""
    asked = [(0.0, 4200, 100), *[(10.0, 4200, 100)] * 8]
    ids = [tuple(range(8))] * 9
    found = _simulated(asked, Replica(kv_tokens=8700, prefix_caching=True), block_ids=ids)
    alone = _simulated(asked, Replica(kv_tokens=8700))
    assert found.n_preemptions == alone.n_preemptions == 0
    assert (found.step_decodes.max(), alone.step_decodes.max()) == (8, 2)


def test_who_follows_one_that_is_never_served_is_not_served() -> None:
    asked = [(0.0, 5000, 10), (1.0, 100, 10), (2.0, 100, 10), (3.0, 100, 10)]
    found = _simulated(asked, Replica(kv_tokens=4096), follows=[-1, 0, 1, -1])
    assert found.rejected.tolist() == [True, True, True, False]
    assert np.isnan(found.last_token_s).tolist() == [True, True, True, False]
    assert found.arrival_s.tolist() == [0.0, 1.0, 2.0, 3.0]


def test_a_request_comes_no_earlier_than_it_may() -> None:
    asked = [(0.0, 100, 10), (50.0, 100, 10), (50.0, 100, 10)]
    found = _simulated(asked, Replica(kv_tokens=4096), follows=[-1, 0, 1], think_s=[0.0, 1.0, 1.0])
    assert found.arrival_s.tolist() == [0.0, 50.0, found.last_token_s[1] + 1.0]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"follows": [-1, 1]}, "an earlier request, or -1 for none; sort .* got 1 of request 1"),
        ({"follows": [1, -1]}, "got 1 of request 0"),
        ({"follows": [-1, -2]}, "got -2 of request 1"),
        ({"follows": [-1, 0.5]}, "got 0.5"),
        ({"follows": [-1]}, "one for each of 2 arrivals, got 1"),
        ({"think_s": [0.0, 1.0]}, "give follows too"),
        ({"follows": [-1, 0], "think_s": [0.0, -1.0]}, "seconds of at least 0; got -1 of request 1"),
        ({"follows": [-1, 0], "think_s": [0.0, math.nan]}, "got nan"),
        ({"block_ids": [(1,)]}, "one for each of 2 arrivals, got 1"),
        ({"block_ids": [(1, 2), (1, 2, 3, 4)]}, "no more ids than blocks of 512 .* got 4 for the 1034 tokens of request 1"),
        ({"block_ids": [(1,), (1,)], "block_tokens": 500}, "whole pages of 16 tokens, got 500"),
        ({"block_ids": [(1,), (1,)], "block_tokens": 0}, "at least 1, got 0"),
    ],
)  # fmt: skip
def test_sessions_that_make_no_sense_are_refused(more: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError, match=said):
        _simulated([(0.0, 1024, 10), (0.0, 1024, 10)], Replica(kv_tokens=8192, prefix_caching=True), **more)


@pytest.mark.parametrize(
    ("given_", "said"),
    [
        ({"tier_tokens": -1}, "a whole number, 0 for none, got -1"),
        ({"tier_tokens": 4096, "tier_tokens_per_s": 1e5}, "set prefix_caching=True"),
        ({"tier_tokens": 4096, "prefix_caching": True}, "how fast a tier is read"),
        ({"tier_tokens_per_s": 0.0}, "a finite rate above 0, got 0"),
    ],
)
def test_a_tier_that_makes_no_sense_is_refused(given_: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError, match=said):
        Replica(kv_tokens=8192, **given_)
