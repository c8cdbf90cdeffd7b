"""Energy by hand, its bounds, and chips held below their peak."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import deployments

import roofline as rl
from roofline.answers.energy import energy, throttled
from roofline.answers.whatif import vary

H100 = rl.hardware("h100-sxm-80gb")  # 700 W
D = rl.Deployment(model=rl.model("llama-3.1-8b"), hardware=H100)
P = rl.predict(D, prompt_tokens=1000, output_tokens=101, batch=10)
ROUND = replace(P, ttft_s=1.0, tpot_s=0.01, e2e_s=2.0)  # 10,000 prompt tokens in 1 s, then 100 passes of 10 ms: 1 s

shares = st.floats(0.001, 1.0)


def test_rated_power_bounds_the_joules_of_a_token() -> None:
    """700 J for 10,000 prompt tokens, 700 J for 10 · 101 output tokens, 140 J a request; a tenth of it at idle."""
    e = energy(ROUND, idle_fraction=0.1)
    assert e.input_j_per_token_max == pytest.approx(0.07)
    assert e.output_j_per_token_max == pytest.approx(700 / 1010)
    assert e.request_j_max == pytest.approx(140)
    assert e.input_j_per_token_min == pytest.approx(0.007)
    assert e.request_j_min == pytest.approx(14)


def test_an_idle_machine_spends_on_nothing() -> None:
    """A fifth of the time at work: 4 s of idling at 70 W for each second at 700 W."""
    e = energy(ROUND, idle_fraction=0.1, utilisation=0.2)
    assert e.request_j_max == pytest.approx((2 * 700 + 8 * 70) / 10)
    assert e.request_j_min == pytest.approx(10 * 70 / 10)


def test_a_joule_a_token_is_a_kilowatt_hour_in_3_6_million() -> None:
    e = energy(ROUND, idle_fraction=0.0, usd_per_kwh=0.2, date="2026-11-09")
    assert e.request_kwh_max == pytest.approx(140 / 3.6e6)
    assert e.request_usd_max == pytest.approx(140 / 3.6e6 * 0.2)
    said = e.to_dict()
    assert said["input_usd_per_mtok_max"] == pytest.approx(0.07 / 3.6 * 0.2)  # 1e6 · J / 3.6e6
    assert said["price_date"] == "2026-11-09"
    assert said["output_usd_per_mtok_min"] == 0


def test_power_may_be_given_and_must_be_where_the_chip_has_none() -> None:
    capped = energy(ROUND, idle_fraction=0.1, tdp_w=350)
    assert capped.request_j_max == pytest.approx(70)
    bare = replace(ROUND, deployment=vary(D, **{"hardware.power": None, "hardware.sources": {}}))
    assert energy(bare, idle_fraction=0.1, tdp_w=350).request_j_max == capped.request_j_max
    with pytest.raises(rl.SpecError, match=r"tdp_w: h100-sxm-80gb has no rated power on record; give tdp_w="):
        energy(bare, idle_fraction=0.1)


@given(deployments(), shares, shares, st.integers(1, 64))
def test_the_bounds_are_in_order_and_the_sides_add_up(d: rl.Deployment, idle: float, busy: float, batch: int) -> None:
    p = rl.predict(d, prompt_tokens=100, output_tokens=4, batch=batch)
    e = energy(p, idle_fraction=idle, utilisation=busy, tdp_w=500)
    assert 0 < e.request_j_min <= e.request_j_max * (1 + 1e-12)
    assert e.request_j_max <= 500 * p.e2e_s / batch / busy * (1 + 1e-12)
    assert e.output_j_per_token_max is not None
    sides = 100 * e.input_j_per_token_max + 4 * e.output_j_per_token_max
    assert sides == pytest.approx(e.request_j_max, rel=1e-12)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"idle_fraction": 1.1}, "idle_fraction: expected .* at most 1"),
        ({"idle_fraction": 0.1, "utilisation": 0}, "utilisation: expected a number > 0"),
        ({"idle_fraction": 0.1, "usd_per_kwh": 0.1}, "a price and the date it held"),
        ({"idle_fraction": 0.1, "date": "2026-11-09"}, "a price and the date it held"),
        ({"idle_fraction": 0.1, "tdp_w": 0}, "tdp_w: expected a number > 0"),
    ],
)
def test_what_is_no_energy_question_is_refused(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(rl.SpecError, match=said):
        energy(P, **asked)


def test_a_grid_is_a_row_a_point() -> None:
    p = rl.predict(D, prompt_tokens=100, output_tokens=1, batch=np.array([1.0, 8.0]))
    assert len(energy(p, idle_fraction=0.1).to_frame()) == 2


# Throttled chips


def test_half_the_bandwidth_is_twice_the_time_of_a_pass_that_memory_binds() -> None:
    slow = vary(D, hardware=throttled(H100, memory=0.5))
    now, then = (rl.decode(d, context_tokens=1000) for d in (D, slow))
    assert then.seconds == pytest.approx(2 * now.seconds, rel=1e-12)
    assert then.floor_s == pytest.approx(2 * now.floor_s, rel=1e-12)


@given(deployments(), shares, shares, st.integers(1, 3000))
def test_a_throttled_chip_is_never_faster_and_keeps_its_floor(
    d: rl.Deployment, compute: float, memory: float, prompt: int
) -> None:
    held = vary(d, hardware=throttled(d.hardware, compute=compute, memory=memory))
    free, slow = (rl.prefill(x, prompt_tokens=prompt) for x in (d, held))
    assert slow.seconds >= free.seconds * (1 - 1e-12)
    assert slow.floor_s <= slow.seconds * (1 + 1e-12)
    assert slow.seconds * min(compute, memory) <= free.seconds * (1 + 1e-12)


def test_its_name_says_so_and_nothing_else_changed() -> None:
    slow = throttled(H100, compute=0.8, memory=0.9)
    assert slow.id == "h100-sxm-80gb@compute=0.8,memory=0.9"
    assert (slow.memory_bytes, slow.links, slow.price) == (H100.memory_bytes, H100.links, H100.price)
    assert throttled(H100) is H100
    assert vary(slow, aliases=()).id == slow.id


@pytest.mark.parametrize("share", [0, 1.2, "half", [0.5, 0.6]])
def test_a_share_is_above_nothing_and_at_most_all(share: Any) -> None:
    with pytest.raises(rl.SpecError, match="compute: expected"):
        throttled(H100, compute=share)
