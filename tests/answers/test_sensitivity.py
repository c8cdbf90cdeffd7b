"""Elasticities and their inverse: figures of a machine that only one thing binds, and the laws that tie them together."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import deployments

import roofline as rl
from roofline.answers.sensitivity import needed, sensitivity
from roofline.answers.whatif import CEILINGS, scaled, vary

H100 = rl.hardware("h100-sxm-80gb")  # 81,559 MiB, 3.35 TB/s
LLAMA = rl.model("llama-3.1-8b")  # 8,030,261,248 parameters; 131,072 B of cache a token
D = rl.Deployment(model=LLAMA, hardware=H100)
SHAPE: dict[str, Any] = {"prompt_tokens": 2048, "output_tokens": 128, "batch": 8}
FEW = settings(max_examples=settings().max_examples // 4)


# Elasticities


def test_what_only_memory_binds_follows_the_bandwidth_alone() -> None:
    """One sequence decodes at about 1 FLOP/B, against a ridge of 295: twice the bandwidth is half the time, exactly."""
    found = sensitivity(D, prompt_tokens=2048, output_tokens=64)
    tpot_s = found.prediction.tpot_s
    assert tpot_s is not None
    assert found["bandwidth"].tpot_elasticity == pytest.approx(-1, abs=1e-9)
    assert found["bandwidth"].tpot_doubled_s == pytest.approx(tpot_s / 2, rel=1e-12)
    for other in ("peak", "link_bandwidth", "link_latency", "capacity"):
        assert found[other].tpot_elasticity == 0
        assert found[other].tpot_doubled_s == tpot_s


@FEW
@given(deployments(), st.integers(1, 4000), st.integers(1, 40), st.integers(1, 256))
def test_elasticities_of_an_ideal_machine_sum_to_minus_one(
    d: rl.Deployment, prompt: int, n_out: int, batch: int
) -> None:
    """Euler's theorem: without fixed costs a time is homogeneous of degree −1 in the rates (and of +1 in latencies)."""
    found = sensitivity(d, prompt_tokens=prompt, output_tokens=n_out, batch=batch)
    for quantity in ("ttft_elasticity", "tpot_elasticity"):
        parts = {effect.ceiling: getattr(effect, quantity) for effect in found}
        if parts["peak"] is None:
            assert n_out == 1
            continue
        assert parts["peak"] + parts["bandwidth"] == pytest.approx(-1, abs=1e-3)
        assert -1.001 < parts["peak"] <= 0
        assert -1.001 < parts["bandwidth"] <= 0
        assert parts["capacity"] == parts["link_bandwidth"] == parts["link_latency"] == 0


@pytest.mark.parametrize(("chip", "tp"), [("h100-sxm-80gb", 8), ("l4", 2), ("h100-sxm-80gb", 16)])
def test_links_take_their_part_of_the_sum(chip: str, tp: int) -> None:
    model = rl.model("llama-3.1-70b" if tp <= 8 else "llama-2-7b")
    d = rl.Deployment(model=model, hardware=rl.hardware(chip), plan=rl.Plan(tp=tp))
    found = sensitivity(d, **SHAPE)
    for quantity in ("ttft_elasticity", "tpot_elasticity"):
        parts = {effect.ceiling: getattr(effect, quantity) for effect in found}
        rates = parts["peak"] + parts["bandwidth"] + parts["link_bandwidth"]
        assert rates - parts["link_latency"] == pytest.approx(-1, abs=1e-3)
        assert parts["link_bandwidth"] < 0 < parts["link_latency"]


def test_the_doubled_answers_are_those_of_a_chip_twice_as_good() -> None:
    found = sensitivity(D, **SHAPE)
    p = rl.predict(vary(D, **{"hardware.memory.bytes_per_s": 6.7e12}), **SHAPE)
    assert (found["bandwidth"].ttft_doubled_s, found["bandwidth"].tpot_doubled_s) == (p.ttft_s, p.tpot_s)
    assert [effect.ceiling for effect in found] == list(CEILINGS)


def test_capacity_buys_sequences_and_no_time() -> None:
    """8.03e9 parameters at 2 B; 2048 + 127 tokens of 131,072 B a sequence: n = (C − W) / s, so ε = C / (C − W) = 1.231."""
    found = sensitivity(D, **SHAPE)["capacity"]
    c, w, each = 81559 * 2**20, 2 * 8030261248, 2175 * 131072
    assert found.max_batch_doubled == (2 * c - w) // each == 543
    assert found.max_batch_elasticity == pytest.approx(c / (c - w), rel=2 / ((c - w) // each))
    assert found.ttft_elasticity == found.tpot_elasticity == 0
    assert {e.max_batch_elasticity for e in sensitivity(D, **SHAPE) if e.ceiling != "capacity"} == {0}


def test_where_nothing_fits_the_batch_has_no_elasticity() -> None:
    d = rl.Deployment(model=rl.model("llama-3.1-70b"), hardware=rl.hardware("rtx-4090"))
    found = sensitivity(d, prompt_tokens=10, output_tokens=2)["capacity"]
    assert found.max_batch_elasticity is None
    assert found.max_batch_doubled == 0


def test_an_encoder_has_a_ttft_only() -> None:
    encoder = vary(LLAMA, head=None, **{"layers.0.layers.0.mixer.causal": False})
    d = rl.Deployment(model=encoder, hardware=H100)
    found = sensitivity(d, prompt_tokens=128, output_tokens=0)
    assert {effect.tpot_elasticity for effect in found} == {None}
    assert found.to_frame()["ceiling"].tolist() == list(CEILINGS)


def test_answers_are_flat() -> None:
    said = sensitivity(D, **SHAPE).to_dict()
    assert said["bandwidth_tpot_elasticity"] == pytest.approx(-1, abs=1e-6)
    assert said["max_batch"] == (81559 * 2**20 - 2 * 8030261248) // (2175 * 131072)
    assert len(sensitivity(D, **SHAPE).to_frame()) == 5


# The inverse


def test_the_capacity_a_batch_needs_is_what_it_holds() -> None:
    found = needed(D, ceiling="capacity", **SHAPE)
    assert found.now == 81559 * 2**20
    assert found.least == pytest.approx(2 * 8030261248 + 8 * 2175 * 131072, rel=1e-12)
    assert found.reachable
    assert found.limit_s is None


def test_the_bandwidth_a_tpot_needs_is_its_bytes_over_the_time() -> None:
    """Of 8.03e9 parameters a token reads all but the table it looks a row up in (128,256 · 4096), at 2 B; and its cache."""
    found = needed(D, ceiling="bandwidth", prompt_tokens=100, output_tokens=2, tpot_s=1e-3)
    weights, cache = 2 * (8030261248 - 128256 * 4096), 100 * 131072
    assert found.least == pytest.approx((weights + cache) / 1e-3, rel=1e-3)


@FEW
@given(
    deployments(), st.sampled_from(["peak", "bandwidth"]), st.sampled_from(["ttft_s", "tpot_s"]), st.floats(0.1, 10.0),
    st.integers(1, 2000), st.integers(1, 64),
)  # fmt: skip
def test_a_chip_with_the_ceiling_found_meets_the_target_and_none_lower_does(
    d: rl.Deployment, ceiling: Any, target: str, times: float, prompt: int, batch: int
) -> None:
    shape: dict[str, Any] = {"prompt_tokens": prompt, "output_tokens": 4, "batch": batch}
    wanted = float(getattr(rl.predict(d, **shape), target)) * times
    targets: dict[str, Any] = {target: wanted}
    found = needed(d, ceiling=ceiling, **shape, **targets)

    def time(factor: float) -> float:
        return float(getattr(rl.predict(vary(d, hardware=scaled(d.hardware, **{ceiling: factor})), **shape), target))

    if found.factor is None:
        assert found.limit_s is not None
        assert wanted < found.limit_s <= time(1e6) * (1 + 1e-9)
    elif found.factor == 0.0:
        assert time(1e-9) <= wanted
    else:
        assert time(found.factor) == pytest.approx(wanted, rel=1e-9)
        assert time(found.factor * (1 - 1e-6)) > wanted


def test_what_another_ceiling_binds_is_out_of_reach_and_the_limit_says_where_it_ends() -> None:
    """Decode of one sequence is all traffic: without end of FLOP/s it takes as long as now."""
    shape: dict[str, Any] = {"prompt_tokens": 512, "output_tokens": 8}
    now = rl.predict(D, **shape).tpot_s
    assert now is not None
    found = needed(D, ceiling="peak", **shape, tpot_s=float(now) / 2)
    assert not found.reachable
    assert found.least is None
    assert found.limit_s == pytest.approx(now, rel=1e-12)
    assert needed(D, ceiling="bandwidth", **shape, tpot_s=float(now) / 2).factor == pytest.approx(2, rel=1e-9)


def test_a_ceiling_with_no_part_in_it_may_be_anything() -> None:
    found = needed(D, ceiling="link_bandwidth", prompt_tokens=512, output_tokens=8, ttft_s=1.0)
    assert (found.least, found.factor, found.now) == (0, 0, 450e9)


def test_a_link_can_be_what_is_missing() -> None:
    d = vary(D, plan=rl.Plan(tp=8))
    ttft_s = float(rl.predict(d, **SHAPE).ttft_s) * 0.95
    found = needed(d, ceiling="link_bandwidth", **SHAPE, ttft_s=ttft_s)
    assert found.factor is not None
    assert found.factor > 1
    faster = vary(d, hardware=scaled(H100, link_bandwidth=found.factor))
    assert rl.predict(faster, **SHAPE).ttft_s == pytest.approx(ttft_s, rel=1e-9)


def test_an_answer_is_one_row() -> None:
    frame = needed(D, ceiling="capacity", **SHAPE).to_frame()
    assert frame["target"].tolist() == ["batch"]
    assert frame["reachable"].tolist() == [True]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"ceiling": "bandwith", "tpot_s": 1}, "expected one of peak, bandwidth, .* did you mean bandwidth"),
        ({"ceiling": "link_latency", "tpot_s": 1}, "ceiling: expected one of"),
        ({"ceiling": "peak"}, "expected one target, ttft_s or tpot_s, got neither"),
        ({"ceiling": "peak", "ttft_s": 1, "tpot_s": 1}, "got 2"),
        ({"ceiling": "capacity", "ttft_s": 1}, "memory capacity has no part in times"),
        ({"ceiling": "peak", "tpot_s": -1}, "tpot_s: expected a number > 0"),
        ({"ceiling": "peak", "tpot_s": 1, "output_tokens": 1}, "no TPOT; ask for 2 or more"),
        ({"ceiling": "peak", "tpot_s": [1, 2]}, "expected one number"),
        ({"ceiling": "peak", "tpot_s": 1, "batch": [1, 2]}, "one request shape"),
    ],
)
def test_a_question_that_cannot_be_answered_says_what_to_ask(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(rl.SpecError, match=said):
        needed(D, **({"prompt_tokens": 8, "output_tokens": 4} | asked))


def test_sensitivity_of_a_grid_or_an_absurd_step_is_refused() -> None:
    with pytest.raises(rl.SpecError, match="one request shape"):
        sensitivity(D, prompt_tokens=[1, 2], output_tokens=3)  # type: ignore[arg-type]
    with pytest.raises(rl.SpecError, match="step: expected"):
        sensitivity(D, prompt_tokens=1, output_tokens=3, step=2.0)
    with pytest.raises(rl.SpecError, match="did you mean peak"):
        sensitivity(D, prompt_tokens=1, output_tokens=3)["peek"]
