"""Several replicas, conversations and shared beginnings under load."""

from __future__ import annotations

import numpy as np
import pytest

import roofline as rl
from roofline.answers.serving import serve
from roofline.answers.serving.lengths import Lengths
from roofline.answers.serving.service import Routing, Service, cached_tokens
from roofline.answers.simulate import Replica, least_loaded, simulate
from roofline.errors import SpecError
from roofline.specs.arrivals import Poisson, Recorded
from roofline.specs.sessions import Sessions
from roofline.specs.workload import Requests, Workload
from roofline.timing.steplaw import PlainLaw

ENGINE = PlainLaw(
    matmul_params=7.5e9, weight_bytes=16.06e9, kv_bytes_per_token=131072, n_layers=32, heads_dim=4096,
    peak_flops_per_s=593.4e12, hbm_bytes_per_s=2.68e12, step_s=0.003,
)  # fmt: skip
H100 = rl.Deployment(model=rl.model("llama-3.1-8b"), hardware=rl.hardware("h100-sxm-80gb"), engine="vllm")
TALK = Sessions(turns=5, user_tokens=200, output_tokens=200, system_tokens=512, think_s=20)


@pytest.mark.parametrize(
    ("routing", "published_ms"), [("random", 368.0), ("round-robin", 252.0), ("least-loaded", 167.0)]
)
def test_four_replicas_wait_as_published(routing: Routing, published_ms: float) -> None:
    """TTFT p95 of azure_conv at 80 % load on the published engine; one run of 20,000 requests, whose p95 is good to 5 %."""
    w = rl.workload("azure-conv").arriving(Poisson())
    service = Service(
        deployment=H100, workload=w, n_replicas=4, routing=routing, law=ENGINE, replica=Replica(kv_tokens=430000),
        lengths=Lengths.of(w.prompt_tokens, w.output_tokens), rejected=0.0, request_s=0.0,
    )  # fmt: skip
    found = service.observed(4 * 0.8 * 24.81, 5000, 1, 0)
    assert 1e3 * found.times["ttft_p95_s"] == pytest.approx(published_ms, rel=0.08)


def test_the_least_loaded_is_the_one_with_the_fewest_tokens_to_read() -> None:
    """A long prompt goes to the second, as the first was chosen last; all that come while it is read, to the first."""
    asked = Requests(
        arrival_s=np.array([0.0, 0.1, 0.101, 0.102, 5.0]), prompt_tokens=np.array([10, 20_000, 10, 10, 10]),
        output_tokens=np.ones(5, dtype=np.int64),
    )  # fmt: skip
    assert least_loaded(asked, ENGINE, Replica(kv_tokens=430000), 2).tolist() == [0, 1, 0, 0, 1]


def test_of_one_replica_routing_is_nothing() -> None:
    rng = np.random.default_rng(1)
    asked = Requests(
        arrival_s=np.cumsum(rng.exponential(0.05, 300)), prompt_tokens=rng.integers(1, 3000, 300),
        output_tokens=rng.integers(1, 200, 300),
    )  # fmt: skip
    assert least_loaded(asked, ENGINE, Replica(kv_tokens=430000), 1).tolist() == [0] * 300


def test_a_run_taken_in_pieces_is_the_run() -> None:
    """What the least loaded of one replica simulates up to every arrival ends where the simulation of all at once does."""
    from roofline.answers.simulate.coming import Coming
    from roofline.answers.simulate.run import Run

    rng = np.random.default_rng(2)
    arrivals, prompts, outputs = (
        np.cumsum(rng.exponential(0.03, 200)),
        rng.integers(1, 900, 200),
        rng.integers(1, 300, 200),
    )
    replica = Replica(kv_tokens=6000, batch_tokens=512, max_seqs=32)
    run = Run(Coming(arrivals.tolist(), [-1] * 200, [0.0] * 200, [False] * 200), prompts.tolist(), outputs.tolist(), ENGINE,
              replica, None)  # fmt: skip
    for until in np.linspace(0.0, 20.0, 333):
        run.serve(float(until))
    run.serve()
    whole = simulate(arrivals, prompts, outputs, ENGINE, replica)
    assert run.last_s == whole.last_token_s.tolist()
    assert run.n_preemptions == whole.n_preemptions > 0


def test_what_an_endless_cache_has_of_each_prompt() -> None:
    """Blocks of 4: the second prompt begins with both blocks of the first, and is read from its last token on; the third
    with one; the fourth starts otherwise, though it goes on alike."""
    asked = Requests(
        arrival_s=np.arange(4.0), prompt_tokens=np.array([8, 8, 12, 8]), output_tokens=np.ones(4, dtype=np.int64),
        block_ids=((1, 2), (1, 2), (1, 3, 4), (9, 2)), block_tokens=4,
    )  # fmt: skip
    assert cached_tokens(asked).tolist() == [0, 7, 4, 0]


def test_turns_whose_beginning_is_kept_wait_less_and_more_of_them_are_served() -> None:
    with_, without = (
        serve(H100, TALK, rate_per_s=6.0, n_requests=1500, n_runs=1, prefix_caching=kept) for kept in (None, False)
    )
    assert with_.method == without.method == "simulation"
    assert "begin alike" in with_.why
    assert float(with_.ttft_p95_s) < 0.6 * float(without.ttft_p95_s)
    assert with_.saturation_per_s > 1.3 * without.saturation_per_s


def test_a_tier_gives_back_what_a_small_cache_lost() -> None:
    """A cache of some 40 conversations of the hundreds that think; host memory holds them all."""
    d = rl.Deployment(model=H100.model, hardware=H100.hardware, engine=rl.engine("vllm").varied(memory_fraction=0.36))
    small, tier = (serve(d, TALK, rate_per_s=8.0, n_requests=1500, n_runs=1, tier_bytes=b) for b in (0.0, 400e9))
    assert float(tier.ttft_mean_s) < float(small.ttft_mean_s)


def test_turns_go_where_their_conversation_is_kept() -> None:
    """Four replicas at four times the rate wait as one at once, if every turn finds its beginning."""
    one = serve(H100, TALK, rate_per_s=5.0, n_requests=3000, n_runs=1)
    four = serve(H100, TALK, rate_per_s=20.0, n_replicas=4, n_requests=1000, n_runs=1)
    assert float(four.ttft_mean_s) == pytest.approx(float(one.ttft_mean_s), rel=0.15)


def test_the_blocks_of_a_trace_are_found_again() -> None:
    """Each prompt twice, a second apart: of the second all but its last token is there."""
    prompts = np.repeat(np.array([4096, 8192, 2048, 6144]), 2)
    blocks = tuple(
        tuple(range(1000 * i, 1000 * i + n // 512)) for i, n in zip(np.repeat(np.arange(4), 2), prompts, strict=True)
    )
    w = Workload(prompts, np.full(8, 4), Recorded(np.arange(8.0)), "twice", block_ids=blocks, block_tokens=512)
    kept, lost = (serve(H100, w, rate_per_s=1.0, prefix_caching=k, n_requests=8) for k in (True, False))
    assert float(kept.ttft_p50_s) < 0.7 * float(lost.ttft_p50_s)
    assert lost.hit_share == 0.0
    assert kept.hit_share == pytest.approx(0.5, abs=0.1)  # every second prompt, but for those at either end


def test_blocks_that_are_no_whole_pages_are_refused() -> None:
    w = Workload(
        np.array([96]), np.array([4]), Recorded(np.array([0.0, 1.0])), "odd", block_ids=((1, 2, 3, 4),), block_tokens=24
    )
    with pytest.raises(SpecError, match="no whole pages"):
        serve(H100, w, rate_per_s=1.0)


def test_a_tier_without_a_link_to_it_is_refused() -> None:
    with pytest.raises(SpecError, match="tier_bytes"):
        serve(H100, TALK, rate_per_s=1.0, tier_bytes=-1.0)
