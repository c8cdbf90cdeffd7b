"""Two pools under load: prompts that bring their cache, the closed form against the simulation, proportions, bad input."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from naive_replica import serve as naive

import roofline as rl
from roofline.answers.serving import serve
from roofline.answers.serving.pools import serve_split
from roofline.answers.simulate import Replica, simulate
from roofline.errors import PlanError, SpecError
from roofline.specs.workload import Workload
from roofline.timing.steplaw import PlainLaw

ENGINE = PlainLaw(
    matmul_params=7.5e9, weight_bytes=16.06e9, kv_bytes_per_token=131072, n_layers=32, heads_dim=4096,
    peak_flops_per_s=593.4e12, hbm_bytes_per_s=2.68e12, step_s=0.003,
)  # fmt: skip
D = rl.Deployment(model=rl.model("llama-3.1-8b"), hardware=rl.hardware("h100-sxm-80gb"), engine="vllm")
CHAT = Workload.lognormal(prompt_mean=1500, output_mean=250, prompt_cv=0.8, output_cv=0.7)


@pytest.mark.parametrize("seed", range(4))
def test_prompts_that_bring_their_cache_are_served_as_a_naive_loop_does(seed: int) -> None:
    """Of each prompt some tokens, all but one, or none; sequences that lose their pages read all of it again."""
    rng = np.random.default_rng(seed)
    n = 120
    arrivals, prompts, outputs = np.cumsum(rng.exponential(0.02, n)), rng.integers(1, 900, n), rng.integers(1, 300, n)
    brought = np.where(rng.random(n) < 0.5, prompts - 1, rng.integers(0, prompts))
    replica = Replica(kv_tokens=4000, batch_tokens=512, max_seqs=64)
    fast = simulate(arrivals, prompts, outputs, ENGINE, replica, brought_tokens=brought)
    asked = list(zip(arrivals.tolist(), prompts.tolist(), outputs.tolist(), strict=True))
    slow, log = naive(asked, ENGINE, replica, brought=brought.tolist())
    assert fast.last_token_s.tolist() == [s.last_s for s in slow]
    assert fast.n_preemptions == log[-1][9] > 0


def test_what_was_brought_is_not_read() -> None:
    """One request of 1,000 tokens, 999 of which come with it: a step of one token after 999, and then its decodes."""
    found = simulate([0.0], [1000], [3], ENGINE, Replica(kv_tokens=16000), brought_tokens=[999])
    first = ENGINE.seconds(0, 0, (), [(1, 999, True)])
    assert found.first_token_s[0] == first
    assert found.last_token_s[0] == first + ENGINE.seconds(1, 1001, (), ()) + ENGINE.seconds(1, 1002, (), ())


def test_both_answers_agree_where_the_closed_form_is_trusted() -> None:
    for rate in (5.0, 12.0):
        asked: dict[str, Any] = {
            "prefill": D,
            "decode": D,
            "workload": CHAT,
            "rate_per_s": rate,
            "n_prefill": 1,
            "n_decode": 2,
        }
        form = serve_split(**asked)
        runs = serve_split(**asked, method="simulation", n_requests=3000, n_runs=2)
        assert (form.method, form.why, runs.method) == ("closed form", "", "simulation")
        for name in ("ttft_mean_s", "tpot_mean_s", "e2e_mean_s"):
            assert getattr(form, name) == pytest.approx(getattr(runs, name), rel=0.08)
        assert form.ttft_p95_s == pytest.approx(runs.ttft_p95_s, rel=0.2)


def test_a_decode_waits_for_nobody_s_prompt() -> None:
    """On as many chips, the TPOT p95 of two pools is nearer to the mean than that of one, and below it."""
    one = serve(D, CHAT, rate_per_s=10.0, n_replicas=2)
    two = serve_split(prefill=D, decode=D, workload=CHAT, rate_per_s=10.0)
    assert two.tpot_p95_s < float(one.tpot_p95_s)
    assert two.tpot_p95_s / two.tpot_mean_s < float(one.tpot_p95_s / one.tpot_mean_s)


def test_pools_saturate_at_the_slower_of_them_and_stand_in_proportion() -> None:
    """Readers for each writer is λ_d : λ_p; with that many of either, both are equally loaded."""
    one = serve_split(prefill=D, decode=D, workload=CHAT, rate_per_s=1.0)
    assert one.saturation_per_s == pytest.approx(1.0 / max(one.prefill_load, one.decode_load, one.link_load))
    assert one.prefill_per_decode == pytest.approx(one.prefill_load / one.decode_load)
    more = serve_split(prefill=D, decode=D, workload=CHAT, rate_per_s=1.0, n_prefill=3, n_decode=2)
    assert more.prefill_load == pytest.approx(one.prefill_load / 3)
    assert more.decode_load == pytest.approx(one.decode_load / 2)
    beyond = serve_split(prefill=D, decode=D, workload=CHAT, rate_per_s=1.01 * one.saturation_per_s)
    assert not beyond.stable
    assert math.isinf(beyond.ttft_p95_s)


def test_a_slow_link_is_seen_and_carries_no_more_than_it_does() -> None:
    """1,500 tokens of 128 KiB are 197 MB: a tenth of a second at 2 GB/s, and five requests a second fill that link."""
    fast, slow = (serve_split(prefill=D, decode=D, workload=CHAT, rate_per_s=2.0, link=b) for b in (1e12, 2e9))
    mean = CHAT.mean_prompt_tokens * 131072
    assert slow.link_load == pytest.approx(2.0 * mean / 2e9, rel=1e-6)
    assert slow.ttft_mean_s - fast.ttft_mean_s == pytest.approx(slow.exposed_s - fast.exposed_s, rel=0.2)
    assert slow.exposed_s < mean / 2e9
    assert not serve_split(prefill=D, decode=D, workload=CHAT, rate_per_s=12.0, link=2e9).stable


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"rate_per_s": 0.0}, SpecError, "rate_per_s"),
        ({"rate_per_s": math.nan}, SpecError, "rate_per_s"),
        ({"n_prefill": 0}, SpecError, "n_prefill"),
        ({"n_decode": 1.5}, SpecError, "n_decode"),
        ({"method": "guess"}, SpecError, "method"),
        ({"link": -1.0}, SpecError, "link"),
        ({"workload": None}, SpecError, "Workload"),
        ({"decode": rl.Deployment(model=rl.model("llama-3.2-1b"), hardware=D.hardware)}, PlanError, "one model"),
        ({"workload": Workload.fixed(prompt_tokens=200_000, output_tokens=10)}, SpecError, "200,010"),
    ],
)
def test_pools_that_make_no_sense_are_refused(changes: dict[str, Any], error: type[Exception], said: str) -> None:
    asked: dict[str, Any] = {"prefill": D, "decode": D, "workload": CHAT, "rate_per_s": 1.0}
    with pytest.raises(error, match=said):
        serve_split(**(asked | changes))


@pytest.mark.parametrize("brought", [[1000], [-1], [0.5], [1, 2]])
def test_nobody_brings_more_than_all_but_one_token(brought: list[float]) -> None:
    with pytest.raises(SpecError, match="brought_tokens"):
        simulate([0.0], [1000], [3], ENGINE, Replica(kv_tokens=16000), brought_tokens=brought)  # type: ignore[arg-type]
