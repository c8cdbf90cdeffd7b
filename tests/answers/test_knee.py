"""Where waiting begins to hurt, up to what rate a promise is kept, and what is full first."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import roofline as rl
from roofline.answers.serving.knee import knee, meets_up_to
from roofline.answers.serving.limits import curve, highest_rate, limit_of
from roofline.specs.workload import Gamma

CHAT = rl.Workload.fixed(prompt_tokens=1024, output_tokens=128)


def deployment(**engine: int) -> rl.Deployment:
    own = rl.engine("vllm").varied(**engine)
    return rl.Deployment(model=rl.model("llama-3.1-8b"), hardware=rl.hardware("h100-sxm-80gb"), engine=own)


def served(rates: list[float], ttft: list[float], tpot: list[float], most: float) -> rl.Serving:
    """A service whose p95 times are given."""
    real = rl.serve(deployment(), CHAT, rate_per_s=rates, method="closed form")
    return replace(real, ttft_p95_s=np.array(ttft), tpot_p95_s=np.array(tpot), saturation_per_s=most)


def test_the_knee_is_between_the_rates_where_p95_ttft_passes_twice_its_first() -> None:
    # 0.1 at no load, so over at 0.2; between 0.1 at 4/s and 0.4 at 6/s the middle of the logs is 0.2: at 5/s
    found = served([1.0, 4.0, 6.0], [0.1, 0.1, 0.4], [0.01] * 3, most=10.0)
    assert knee(found) == pytest.approx(5.0)


def test_the_order_of_the_rates_does_not_matter() -> None:
    found = served([6.0, 1.0, 4.0], [0.4, 0.1, 0.1], [0.01] * 3, most=10.0)
    assert knee(found) == pytest.approx(5.0)


def test_a_queue_that_grows_for_ever_is_a_knee_too() -> None:
    assert knee(served([1.0, 4.0, 12.0], [0.1, 0.15, np.inf], [0.01] * 3, most=10.0)) == 10.0


def test_where_nothing_doubles_there_is_no_knee() -> None:
    assert knee(served([1.0, 4.0, 6.0], [0.1, 0.15, 0.2], [0.01] * 3, most=10.0)) is None


def test_one_rate_has_no_knee_to_look_for() -> None:
    with pytest.raises(rl.SpecError, match="several rates"):
        knee(rl.serve(deployment(), CHAT, rate_per_s=1.0))


def test_a_promise_is_kept_up_to_the_first_of_its_limits() -> None:
    found = served([1.0, 4.0, 6.0], [0.1, 0.1, 0.4], [0.01, 0.02, 0.04], most=10.0)
    assert meets_up_to(found, rl.SLO(ttft_p95_s=0.2)) == pytest.approx(5.0)
    assert meets_up_to(found, rl.SLO(ttft_p95_s=0.2, tpot_p95_s=0.02)) == pytest.approx(4.0)
    assert meets_up_to(found, rl.SLO(ttft_p95_s=9.0)) == 6.0  # no further than was asked
    assert meets_up_to(found, rl.SLO(ttft_p95_s=0.05)) == 0.0


def test_a_promise_ends_at_saturation() -> None:
    found = served([1.0, 4.0, 12.0], [0.1, 0.15, np.inf], [0.01, 0.01, np.inf], most=10.0)
    assert meets_up_to(found, rl.SLO(ttft_p95_s=9.0)) == 10.0


def test_the_highest_rate_meets_the_promise_and_a_little_more_does_not() -> None:
    d, slo = deployment(), rl.SLO(tpot_p95_s=0.015)
    found = highest_rate(d, CHAT, slo)
    assert found.method == "closed form"
    for factor, ok in ((0.99, True), (1.01, False)):
        at = rl.serve(d, CHAT, rate_per_s=found.rate_per_s * factor, method="closed form")
        assert (at.tpot_p95_s <= 0.015) == ok


def test_where_the_closed_form_is_not_trusted_the_highest_rate_is_simulated() -> None:
    d, bursty = deployment(), CHAT.arriving(Gamma(16.0))
    asked: list[str] = []
    found = highest_rate(d, bursty, rl.SLO(ttft_p95_s=0.3), n_requests=200, n_runs=1, progress=asked.append)
    assert found.method == "simulation"
    assert len(asked) == 5  # from 0 to saturation in halves, down to 1/32
    steady = highest_rate(d, CHAT, rl.SLO(ttft_p95_s=0.3), method="closed form")
    assert 0.0 < found.rate_per_s < steady.rate_per_s


def test_a_promise_nobody_can_keep_is_kept_at_no_rate() -> None:
    assert highest_rate(deployment(), CHAT, rl.SLO(ttft_p95_s=1e-6)).rate_per_s == 0.0


def test_what_does_not_fit_keeps_nothing_and_has_no_limit() -> None:
    big = rl.Deployment(model=rl.model("llama-3.1-70b"), hardware=rl.hardware("h100-sxm-80gb"))
    assert curve(big, CHAT) is None
    assert limit_of(big, CHAT) is None
    assert highest_rate(big, CHAT, rl.SLO(ttft_p95_s=1.0)).rate_per_s == 0.0


@pytest.mark.parametrize(
    ("workload", "engine", "name"),
    [
        (CHAT, {"batch_tokens": 512}, "steps"),
        (rl.Workload.fixed(prompt_tokens=16, output_tokens=2048), {"max_seqs": 8}, "sequences"),
        (rl.Workload.fixed(prompt_tokens=8192, output_tokens=2048), {}, "cache"),
    ],
)
def test_what_is_full_first(workload: rl.Workload, engine: dict[str, int], name: str) -> None:
    d = deployment(**engine)
    found = limit_of(d, workload)
    assert found is not None
    assert found.name == name
    most = rl.serve(d, workload, rate_per_s=1.0, method="closed form").saturation_per_s
    assert found.relieved_per_s > 1.001 * most or name == "steps"


def test_a_full_step_serves_its_tokens_at_saturation() -> None:
    d = deployment(batch_tokens=512)
    found, most = limit_of(d, CHAT), rl.serve(d, CHAT, rate_per_s=1.0, method="closed form").saturation_per_s
    assert found is not None
    # 512 tokens a step, of which a request takes 1,024 + 127
    assert 512 / found.step_s == pytest.approx(most * (1024 + 127))


def test_two_replicas_saturate_at_twice_the_rate_for_the_same_reason() -> None:
    one, two = limit_of(deployment(), CHAT), limit_of(deployment(), CHAT, n_replicas=2)
    assert one is not None
    assert two is not None
    assert two.relieved_per_s == pytest.approx(2.0 * one.relieved_per_s)
    assert two.step_s == pytest.approx(one.step_s)


def test_simulated_rates_have_errors_each_and_mixed_ones_have_none() -> None:
    d = deployment()
    found = rl.serve(d, CHAT, rate_per_s=[2.0, 4.0, 1e6], method="simulation", n_requests=100, n_runs=2)
    errors = np.asarray(found.errors["ttft_p95_s"])
    assert errors.shape == (3,)
    assert (errors[:2] > 0.0).all()
    assert np.isinf(errors[2])  # its queue grows for ever
    assert rl.serve(d, CHAT, rate_per_s=[2.0, 4.0]).errors == {}
    lone = rl.serve(d, CHAT, rate_per_s=2.0, method="simulation", n_requests=100, n_runs=2)
    assert lone.errors["ttft_p95_s"] == pytest.approx(float(errors[0]))


def test_a_limit_that_an_engine_leaves_open_is_the_usual_one() -> None:
    from roofline.answers.serving import replica_of

    ideal = rl.Deployment(
        model=rl.model("llama-3.1-8b"), hardware=rl.hardware("h100-sxm-80gb"), engine=rl.engine("ideal").varied(max_seqs=4)
    )  # fmt: skip
    replica = replica_of(ideal)
    assert replica is not None
    assert (replica.batch_tokens, replica.max_seqs) == (2048, 4)
