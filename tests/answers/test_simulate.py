"""The simulated replica: to the last bit against a golden log and a naive loop, and against queueing theory."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_replica import serve

from roofline.answers.simulate import Replica, Served, simulate
from roofline.errors import SpecError
from roofline.timing.steplaw import PlainLaw

DATA = Path(__file__).parents[1] / "data"
LAW = PlainLaw(
    matmul_params=7.5e9, weight_bytes=16.06e9, kv_bytes_per_token=131072, n_layers=32, heads_dim=4096,
    peak_flops_per_s=593.4e12, hbm_bytes_per_s=2.68e12, step_s=0.003,
)  # fmt: skip
GOLDEN = Replica(kv_tokens=6400, page_tokens=16, batch_tokens=512, max_seqs=8)


def _golden_requests() -> tuple[list[tuple[float, int, int]], list[tuple[float, float]]]:
    with (DATA / "served_requests.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    asked = [(float(r["arrival_s"]), int(r["prompt_tokens"]), int(r["output_tokens"])) for r in rows]
    return asked, [(float(r["first_token_s"]), float(r["last_token_s"])) for r in rows]


def _simulated(requests: list[tuple[float, int, int]], replica: Replica) -> Served:
    arrivals, prompts, outputs = zip(*requests, strict=True)
    return simulate(arrivals, prompts, outputs, LAW, replica)


def _agree(requests: list[tuple[float, int, int]], replica: Replica) -> int:
    """Both serve alike, to the last bit; how many sequences lost their pages."""
    naive, log = serve(requests, LAW, replica)
    fast = _simulated(requests, replica)
    assert fast.first_token_s.tolist() == [s.first_s for s in naive]
    assert fast.last_token_s.tolist() == [s.last_s for s in naive]
    assert fast.n_steps == len(log)
    assert fast.n_preemptions == log[-1][9]
    decoding = [row for row in log if row[1]]
    assert fast.step_s.tolist() == [row[10] for row in decoding]
    assert fast.step_decodes.tolist() == [row[1] for row in decoding]
    return fast.n_preemptions


def test_the_naive_replica_takes_the_steps_of_the_golden_log() -> None:
    """24 requests, 534 steps, 3 preemptions: every number of every step, to the last bit."""
    asked, times = _golden_requests()
    served, log = serve(asked, LAW, GOLDEN)
    with (DATA / "served_steps.csv").open(encoding="utf-8", newline="") as stream:
        golden = [tuple(float(v) for v in row.values()) for row in csv.DictReader(stream)]
    assert len(golden) == 534
    assert [tuple(map(float, row)) for row in log] == golden
    assert [(s.first_s, s.last_s) for s in served] == times


def test_the_simulator_gives_the_golden_times_to_the_last_bit() -> None:
    asked, times = _golden_requests()
    found = _simulated(asked, GOLDEN)
    assert list(zip(found.first_token_s.tolist(), found.last_token_s.tolist(), strict=True)) == times
    assert (found.n_steps, found.n_preemptions) == (534, 3)


@pytest.mark.parametrize("seed", range(8))
def test_it_is_the_naive_loop_to_the_last_bit_where_sequences_are_preempted(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 150
    arrivals = np.cumsum(rng.exponential(1.0 / rng.uniform(5.0, 40.0), n))
    prompts, outputs = rng.integers(1, 900, n), rng.integers(1, 400, n)
    page = int(rng.choice([1, 16, 64]))
    kv = int(rng.integers(2000, 6000))
    replica = Replica(kv_tokens=kv, page_tokens=page, batch_tokens=int(rng.choice([64, 512, 2048])), max_seqs=64)
    asked = list(zip(arrivals.tolist(), prompts.tolist(), outputs.tolist(), strict=True))
    assert _agree(asked, replica) > 0


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 0.004, 0.05, 1.0]), st.integers(1, 60), st.integers(1, 40)), min_size=1, max_size=20
    ),
    st.sampled_from([1, 4, 16]), st.integers(0, 200), st.sampled_from([1, 2, 7, 64]), st.sampled_from([1, 2, 8]),
)  # fmt: skip
def test_it_is_the_naive_loop_on_anything_that_can_be_held(
    gaps: list[tuple[float, int, int]], page: int, spare: int, budget: int, seqs: int
) -> None:
    arrivals = np.cumsum([gap for gap, _, _ in gaps]).tolist()
    asked = [(at, p, o) for at, (_, p, o) in zip(arrivals, gaps, strict=True)]
    longest = max(p + o for _, p, o in asked)
    replica = Replica(
        kv_tokens=(longest // page + 1) * page + spare, page_tokens=page, batch_tokens=budget, max_seqs=seqs
    )
    _agree(asked, replica)


def _mean_wait(seed: int, load: float, prompts: list[int]) -> float:
    """Mean wait of requests of one token, one at a time, whose prompts are drawn from a list  [s]."""
    rng = np.random.default_rng((seed, round(100 * load)))
    services = [LAW.seconds(0, 0, (), [(p, 0, True)]) for p in prompts]
    n = 6000
    which = rng.integers(0, len(prompts), n)
    arrivals = np.cumsum(rng.exponential(float(np.mean(services)) / load, n))
    replica = Replica(kv_tokens=100000, batch_tokens=8192, max_seqs=1)
    found = simulate(arrivals, np.array(prompts)[which], [1] * n, LAW, replica)
    return float(np.mean((found.ttft_s - np.array(services)[which])[n // 10 :]))


@pytest.mark.parametrize("prompts", [[2000], [200, 500, 1000, 2000, 5000, 8000]], ids=["M/D/1", "M/G/1"])
def test_one_sequence_at_a_time_is_a_queue_of_one_server(prompts: list[int]) -> None:
    """Pollaczek–Khinchine, W = λ·E[S²] / (2·(1 − ρ)): 8 seeds at each of 4 loads, their z pooled."""
    s = np.array([LAW.seconds(0, 0, (), [(p, 0, True)]) for p in prompts])
    z = []
    for load in (0.3, 0.5, 0.7, 0.9):
        theory = load / s.mean() * np.mean(s**2) / (2.0 * (1.0 - load))
        waits = np.array([_mean_wait(seed, load, prompts) for seed in range(8)])
        z.append((waits.mean() - theory) / (waits.std(ddof=1) / math.sqrt(8)))
    assert abs(sum(z) / math.sqrt(len(z))) < 3.0


def test_a_lone_request_takes_its_chunks_and_then_its_decodes() -> None:
    """5,000 tokens in chunks of 2,048, then 99 decodes from 5,001 on: the sum of those steps, in that order."""
    t, past = 1.5, 0
    for chunk in (2048, 2048, 904):
        t += LAW.seconds(0, 0, (), [(chunk, past, chunk == 904)])
        past += chunk
    first = t
    for n in range(99):
        t += LAW.seconds(1, 5001 + n, (), ())
    found = _simulated([(1.5, 5000, 100)], Replica(kv_tokens=100000))
    assert (float(found.first_token_s[0]), float(found.last_token_s[0])) == (first, t)
    assert found.tpot_s[0] == pytest.approx((t - first) / 99)


def test_little_s_law_holds_of_the_decodes() -> None:
    """Σ seconds · decodes of the steps = Σ of the requests' times from first to last token, where none is preempted."""
    rng = np.random.default_rng(3)
    asked = list(zip(np.cumsum(rng.exponential(0.05, 400)).tolist(), rng.integers(1, 3000, 400).tolist(),
                     rng.integers(1, 300, 400).tolist(), strict=True))  # fmt: skip
    found = _simulated(asked, Replica(kv_tokens=430000))
    assert found.n_preemptions == 0
    inside = math.fsum((found.step_s * found.step_decodes).tolist())
    assert inside == pytest.approx(math.fsum((found.last_token_s - found.first_token_s).tolist()), rel=1e-12)
    assert found.step_decodes.sum() == sum(o - 1 for _, _, o in asked)


def test_what_can_never_be_held_is_rejected_and_counted() -> None:
    """A page less than it needs, and a token more than the model reads; the others are served as if they had not come."""
    replica = Replica(kv_tokens=1024, max_context_tokens=600)
    found = _simulated([(0.0, 100, 10), (0.1, 1020, 6), (0.2, 590, 11), (0.3, 100, 10)], replica)
    assert found.rejected.tolist() == [False, True, True, False]
    assert np.isnan(found.ttft_s).tolist() == [False, True, True, False]
    alone = _simulated([(0.0, 100, 10), (0.3, 100, 10)], replica)
    assert found.last_token_s[[0, 3]].tolist() == alone.last_token_s.tolist()


@pytest.mark.parametrize(
    ("arrivals", "prompts", "outputs", "said"),
    [
        ([0.0, 1.0], [5], [5, 5], "one for each of 2 arrivals"),
        ([0.0], [0], [5], "whole numbers of at least 1, got 0 of request 0"),
        ([0.0], [5], [math.nan], "at least 1, got nan"),
        ([0.0], [5.5], [5], "got 5.5"),
        ([1.0, 0.0], [5, 5], [5, 5], "sort the requests by arrival"),
        ([math.inf], [5], [5], "finite seconds in order"),
    ],
)
def test_requests_that_make_no_sense_are_refused(
    arrivals: list[float], prompts: list[float], outputs: list[float], said: str
) -> None:
    with pytest.raises(SpecError, match=said):
        simulate(arrivals, prompts, outputs, LAW, GOLDEN)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given_", "said"),
    [({"kv_tokens": 0}, "kv_tokens"), ({"kv_tokens": 8}, "less than a page"), ({"max_seqs": 2.5}, "max_seqs")],
)
def test_a_replica_without_room_is_refused(given_: dict[str, float], said: str) -> None:
    with pytest.raises(SpecError, match=said):
        Replica(**({"kv_tokens": 1024} | given_))  # type: ignore[arg-type]


def test_no_requests_are_served_at_once() -> None:
    found = simulate([], [], [], LAW, GOLDEN)
    assert found.n_steps == 0
    assert found.ttft_s.size == 0
