"""`serve` on shipped deployments: shapes, who answers, what saturates, what replicas share, and what is refused."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pytest

import roofline as rl
from roofline.answers.serving.record import TIMES
from roofline.errors import SpecError
from roofline.specs.arrivals import Gamma, Piecewise, Poisson, Recorded

CHAT = rl.Workload.fixed(prompt_tokens=1024, output_tokens=128)
ONE = rl.Plan()
COLUMNS = (*TIMES, "n_seq", "kv_use", "output_tokens_per_s")


@cache
def _deployed(
    model: str = "llama-3.1-8b", hardware: str = "h100-sxm-80gb", engine: str = "vllm", plan: rl.Plan = ONE
) -> rl.Deployment:
    return rl.Deployment(model=rl.model(model), hardware=rl.hardware(hardware), plan=plan, engine=engine)


@cache
def _saturation() -> float:
    return rl.serve(_deployed(), CHAT, rate_per_s=1.0, method="closed form").saturation_per_s


def test_a_number_gives_numbers_and_an_array_its_shape() -> None:
    one = rl.serve(_deployed(), CHAT, rate_per_s=5.0)
    for name in (*COLUMNS, "load", "tokens_per_s_per_user", "output_tokens_per_s_per_chip"):
        assert type(getattr(one, name)) is float, name
    assert (type(one.stable), type(one.method), type(one.why)) == (bool, str, str)
    grid = rl.serve(_deployed(), CHAT, rate_per_s=[[1.0, 5.0, 9.0], [2.0, 4.0, 8.0]])
    for name in (*COLUMNS, "stable", "method", "why"):
        assert np.shape(getattr(grid, name)) == (2, 3), name
    assert np.asarray(grid.ttft_p95_s)[0, 1] == pytest.approx(one.ttft_p95_s, rel=1e-5)
    assert len(grid.to_frame()) == 6
    assert "6 rates" in repr(grid)


def test_a_rate_beyond_saturation_is_an_answer() -> None:
    most = _saturation()
    s = rl.serve(_deployed(), CHAT, rate_per_s=[0.5 * most, 1.01 * most, 1e9])
    assert s.stable.tolist() == [True, False, False]
    assert np.isfinite(s.ttft_p95_s).tolist() == [True, False, False]
    assert "beyond" in s.why[1]
    assert s.method.tolist() == ["closed form"] * 3
    assert s.output_tokens_per_s == pytest.approx([0.5 * most * 128, most * 128, most * 128], rel=1e-9)
    alone = rl.serve(_deployed(), CHAT, rate_per_s=2.0 * most, method="simulation")
    assert not alone.stable
    assert math.isinf(alone.tpot_mean_s)
    assert "unstable" in repr(alone)


def test_the_simulation_answers_exactly_where_the_guard_is_shut() -> None:
    """Of stable rates: what the closed form alone says why not, and nothing else, is simulated."""
    rate = np.array([0.3, 0.6, 0.9, 0.95, 1.2]) * _saturation()
    closed = rl.serve(_deployed(), CHAT, rate_per_s=rate, method="closed form")
    both = rl.serve(_deployed(), CHAT, rate_per_s=rate, n_requests=300, n_runs=2)
    shut = (closed.why != "") & closed.stable
    assert shut.tolist() == [False, False, True, True, False]
    assert (both.method == "simulation").tolist() == shut.tolist()
    assert both.why.tolist() == closed.why.tolist()
    same = np.asarray(both.ttft_p95_s) == np.asarray(closed.ttft_p95_s)
    assert same[:4].tolist() == (~shut)[:4].tolist()


def test_both_agree_where_it_is_trusted() -> None:
    """Half of saturation, 10,000 requests: means within 5 %, p95 within 15 %, the sequences within 5 %."""
    rate = 0.5 * _saturation()
    closed = rl.serve(_deployed(), CHAT, rate_per_s=rate)
    simulated = rl.serve(_deployed(), CHAT, rate_per_s=rate, method="simulation", n_requests=2500)
    assert (closed.method, closed.why, simulated.method) == ("closed form", "", "simulation")
    for name, rel in {"tpot_mean_s": 0.04, "ttft_mean_s": 0.05, "e2e_mean_s": 0.04, "n_seq": 0.05, "ttft_p95_s": 0.15,
                      "tpot_p95_s": 0.05, "output_tokens_per_s": 0.05, "kv_use": 0.1}.items():  # fmt: skip
        assert getattr(simulated, name) == pytest.approx(getattr(closed, name), rel=rel), name
    assert simulated.preemptions == 0.0


def test_a_simulation_tells_how_far_to_trust_it() -> None:
    """Standard errors over runs; of one run there are none, and of many rates they are not kept."""
    ask: dict[str, Any] = {"rate_per_s": 0.9 * _saturation(), "n_requests": 400}
    s = rl.serve(_deployed(), CHAT, **ask)
    assert s.method == "simulation"
    assert set(s.errors) == set(TIMES)
    assert all(0.0 < error < getattr(s, name) for name, error in s.errors.items())
    assert s.to_dict()["ttft_p95_error_s"] == s.errors["ttft_p95_s"]
    assert rl.serve(_deployed(), CHAT, n_runs=1, **ask).errors == {}
    again = rl.serve(_deployed(), CHAT, **ask)
    assert again.ttft_p95_s == s.ttft_p95_s
    assert rl.serve(_deployed(), CHAT, seed=1, **ask).ttft_p95_s != s.ttft_p95_s


def test_answers_much_longer_than_the_run_do_not_thin_it_out() -> None:
    """Sequences that decode, of a run that ends when its longest answer does: λ·d̄·TPOT all the same."""
    long = rl.Workload.lognormal(prompt_mean=200, output_mean=600, output_cv=1.5, longest=16_000)
    s = rl.serve(_deployed(), long, rate_per_s=4.0, method="simulation", n_requests=1500)
    assert s.n_seq == pytest.approx(4.0 * (s.e2e_mean_s - s.ttft_mean_s), rel=0.05)
    assert s.output_tokens_per_s == pytest.approx(4.0 * long.mean_output_tokens, rel=0.1)


def test_a_recorded_hour_is_simulated_once() -> None:
    w = rl.workload("azure-conv")
    assert isinstance(w.arrivals, Recorded)
    s = rl.serve(_deployed(), w, rate_per_s=5.0, n_requests=1500)
    assert (s.method, s.errors) == ("simulation", {})
    assert "independent users" in s.why
    assert rl.serve(_deployed(), w.arriving(Poisson()), rate_per_s=5.0).method == "closed form"


@pytest.mark.parametrize(
    ("arrivals", "method"),
    [(Gamma(1.5), "closed form"), (Gamma(9.0), "simulation"), (Piecewise((1.0, 2.0), 60.0), "simulation")],
)
def test_bursts_are_simulated(arrivals: Any, method: str) -> None:
    s = rl.serve(_deployed(), CHAT.arriving(arrivals), rate_per_s=5.0, n_requests=200, n_runs=2)
    assert s.method == method


def test_four_replicas_at_random_are_one_at_a_quarter_of_the_rate() -> None:
    """Thinned at random, Poisson stays Poisson."""
    one = rl.serve(_deployed(), CHAT, rate_per_s=6.0)
    four = rl.serve(_deployed(), CHAT, rate_per_s=24.0, n_replicas=4)
    assert four.saturation_per_s == pytest.approx(4.0 * one.saturation_per_s, rel=1e-12)
    for name in (*TIMES, "n_seq", "kv_use"):
        assert getattr(four, name) == pytest.approx(getattr(one, name), rel=1e-9), name
    assert four.output_tokens_per_s == pytest.approx(4.0 * one.output_tokens_per_s, rel=1e-9)
    assert four.output_tokens_per_s_per_chip == pytest.approx(one.output_tokens_per_s_per_chip, rel=1e-9)


def test_taking_turns_waits_less_than_chance() -> None:
    """At 80 % of four replicas, both simulated on the same arrivals, and by the closed form."""
    rate = 4.0 * 0.8 * _saturation()
    asks: list[dict[str, Any]] = [{"method": "simulation", "n_requests": 1000, "n_runs": 2}, {"method": "closed form"}]
    for ask in asks:
        random, turns = (
            rl.serve(_deployed(), CHAT, rate_per_s=rate, n_replicas=4, routing=routing, **ask)
            for routing in ("random", "round-robin")
        )
        assert turns.ttft_p95_s < random.ttft_p95_s
        assert turns.ttft_mean_s < random.ttft_mean_s
        assert turns.tpot_mean_s <= random.tpot_mean_s


def test_what_does_not_fit_is_an_answer() -> None:
    """70 billion parameters in 16 bit are 141 GB, an L4 has 24."""
    d = _deployed("llama-3.1-70b", "l4")
    s = rl.serve(d, CHAT, rate_per_s=1.0)
    assert (s.fits, s.stable, s.saturation_per_s, s.rejected) == (False, False, 0.0, 1.0)
    assert math.isinf(s.ttft_p95_s)
    assert math.isinf(s.load)
    assert rl.serve(d, CHAT, rate_per_s=[1.0, 2.0]).stable.tolist() == [False, False]


def test_a_slower_machine_saturates_sooner() -> None:
    """An L4 has a thirtieth of the dense 16-bit peak of an H100 in its sheet and a ninth of its bandwidth."""
    small, large = (rl.serve(_deployed(hardware=h), CHAT, rate_per_s=0.01) for h in ("l4", "h100-sxm-80gb"))
    assert 8.0 < large.saturation_per_s / small.saturation_per_s < 40.0
    assert small.ttft_p95_s > 5.0 * large.ttft_p95_s


def test_prompts_beyond_the_model_are_rejected_and_counted() -> None:
    """Llama 2 reads 4,096 tokens: of four kinds of requests one has 4,000 + 97, one 5,000 + 10."""
    w = rl.Workload(np.array([1000, 4000, 4000, 5000]), np.array([50, 96, 97, 10]))
    d = _deployed("llama-2-7b")
    s = rl.serve(d, w, rate_per_s=1.0)
    assert s.rejected == 0.5
    assert any("50.00%" in note and "rejected" in note for note in s.notes)
    kept = rl.Workload(np.array([1000, 4000]), np.array([50, 96]))
    half = rl.serve(d, kept, rate_per_s=0.5)
    assert s.saturation_per_s == pytest.approx(2.0 * half.saturation_per_s, rel=1e-9)
    assert s.ttft_mean_s == pytest.approx(half.ttft_mean_s, rel=1e-9)
    simulated = rl.serve(d, w, rate_per_s=1.0, method="simulation", n_requests=1000, n_runs=2)
    assert simulated.ttft_mean_s == pytest.approx(s.ttft_mean_s, rel=0.1)
    assert simulated.output_tokens_per_s == pytest.approx(s.output_tokens_per_s, rel=0.1)
    assert not rl.serve(d, rl.Workload.fixed(prompt_tokens=5000, output_tokens=10), rate_per_s=1.0).fits


def test_little_s_law_ties_sequences_to_times() -> None:
    """Sequences = λ · (latency − TTFT) on one replica, and a share of the cache as they hold of it."""
    s = rl.serve(_deployed(), CHAT, rate_per_s=np.array([1.0, 5.0, 12.0]), method="closed form")
    assert s.n_seq == pytest.approx(s.rate_per_s * (s.e2e_mean_s - s.ttft_mean_s), rel=1e-4)
    assert s.n_seq == pytest.approx(s.rate_per_s * 127 * s.tpot_mean_s, rel=1e-3)
    assert ((np.asarray(s.kv_use) > 0.0) & (np.asarray(s.kv_use) < 1.0)).all()


def test_a_lone_request_is_what_predict_says() -> None:
    """At a request a day TTFT is that of `predict` within 1 % (a decode is thought beside it), TPOT to rounding."""
    alone = rl.predict(_deployed(), prompt_tokens=1024, output_tokens=128)
    s = rl.serve(_deployed(), CHAT, rate_per_s=1.0 / 86400.0)
    for name in ("ttft_mean_s", "ttft_p50_s", "ttft_p95_s"):
        assert getattr(s, name) == pytest.approx(alone.ttft_s, rel=0.01), name
    for name in ("tpot_mean_s", "tpot_p50_s", "tpot_p95_s"):
        assert getattr(s, name) == pytest.approx(alone.tpot_s, rel=1e-3), name


def test_ranks_of_data_parallel_attention_share_the_rate() -> None:
    """Each takes half; two chips hold the weights once, so their caches are more than twice the one chip's."""
    two, one = _deployed("qwen3-30b-a3b", plan=rl.Plan(dp=2, ep=2)), _deployed("qwen3-30b-a3b")
    s = rl.serve(two, CHAT, rate_per_s=4.0)
    assert (s.fits, s.stable, s.method) == (True, True, "closed form")
    simulated = rl.serve(two, CHAT, rate_per_s=4.0, method="simulation", n_requests=800, n_runs=2)
    assert simulated.tpot_mean_s == pytest.approx(s.tpot_mean_s, rel=0.05)
    assert simulated.n_seq == pytest.approx(s.n_seq, rel=0.1)
    assert s.saturation_per_s > 1.5 * rl.serve(one, CHAT, rate_per_s=4.0).saturation_per_s


def test_an_engine_that_limits_nothing_says_what_it_is_given() -> None:
    s = rl.serve(_deployed(engine="ideal"), CHAT, rate_per_s=1.0)
    assert any("2,048 tokens a step and 256 sequences" in note for note in s.notes)


@pytest.mark.parametrize(
    ("rate", "said"),
    [
        (0.0, "rate_per_s"), (-1.0, "rate_per_s"), (math.nan, "rate_per_s"), (math.inf, "rate_per_s"),
        ([1.0, math.nan], "rate_per_s"), ("many", "rate_per_s"), (None, "rate_per_s"),
        (True, "rate_per_s"), ([], "rate_per_s"),
    ],
)  # fmt: skip
def test_a_rate_that_is_none_is_refused(rate: Any, said: str) -> None:
    with pytest.raises(SpecError, match=said):
        rl.serve(_deployed(), CHAT, rate_per_s=rate)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"n_replicas": 0}, "n_replicas.*at least 1, got 0"), ({"n_replicas": 1.5}, "n_replicas"),
        ({"n_runs": True}, "n_runs"), ({"n_requests": -5}, "n_requests"),
        ({"routing": "hash"}, "random, round-robin, least-loaded, got .hash"),
        ({"method": "guess"}, "auto, closed form, simulation"),
        ({"workload": "azure-conv"}, "expected a Workload.*Workload.fixed"),
        ({"workload": 5}, "expected a Workload"), ({"deployment": "llama"}, "Deployment"), ({"seed": -1}, "seed"),
        ({"seed": 1.5}, "seed"), ({"routing": ["random"]}, "routing"), ({"method": ["auto"]}, "method"),
    ],
)  # fmt: skip
def test_options_that_make_no_sense_are_refused(changed: dict[str, Any], said: str) -> None:
    ask: dict[str, Any] = {
        "deployment": _deployed(),
        "workload": CHAT,
        "rate_per_s": 25.0,
        "n_requests": 10,
        "method": "simulation",
    }
    ask |= changed
    with pytest.raises(SpecError, match=said):
        rl.serve(ask.pop("deployment"), ask.pop("workload"), **ask)


def test_more_simulations_than_anyone_waits_for_are_refused() -> None:
    with pytest.raises(SpecError, match=r"65 of these rates.*closed form"):
        rl.serve(_deployed(), CHAT, rate_per_s=np.linspace(1.0, 2.0, 65), method="simulation")


@pytest.mark.parametrize("rate", [1e-300, 1e-30, 1e15])
def test_rates_at_the_ends_of_the_numbers_are_answered(rate: float) -> None:
    """Without a warning, which is an error here."""
    s = rl.serve(_deployed(), CHAT, rate_per_s=rate)
    assert s.stable == (rate < 1.0)
    assert not math.isnan(s.ttft_p99_s)
