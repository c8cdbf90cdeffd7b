"""What tokens cost: round figures by hand, and the laws that hold for any machine and any price."""

from __future__ import annotations

import datetime
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import deployments

import roofline as rl
from roofline.answers.breakeven import break_even_price, break_even_utilisation
from roofline.answers.cost import cost
from roofline.answers.whatif import scaled, vary

H100 = rl.hardware("h100-sxm-80gb")
D = rl.Deployment(model=rl.model("llama-3.1-8b"), hardware=H100)
P = rl.predict(D, prompt_tokens=1000, output_tokens=101, batch=10)
ROUND = replace(P, ttft_s=1.0, tpot_s=0.01, e2e_s=2.0)  # 10,000 prompt tokens in 1 s, then 100 passes of 10 ms: 1 s
PRICE: dict[str, Any] = {"usd_per_chip_h": 3.6, "date": "2026-11-09"}  # a tenth of a cent a second

FEW = settings(max_examples=settings().max_examples // 2)
shares = st.floats(0.001, 1.0)


# By hand


def test_each_side_pays_for_the_time_it_holds_the_machine() -> None:
    """0.001 USD for 10,000 prompt tokens; 0.001 USD for 10 · 101 output tokens; 0.0002 USD a request."""
    c = cost(ROUND, utilisation=1, **PRICE)
    assert c.input_usd_per_mtok == pytest.approx(0.001 / 10_000 * 1e6)
    assert c.output_usd_per_mtok == pytest.approx(0.001 / 1010 * 1e6)
    assert c.request_usd == pytest.approx(0.002 / 10)
    assert c.blended_usd_per_mtok == pytest.approx(0.0002 / 1101 * 1e6)
    assert c.input_share == 0.5
    assert (c.input_tokens_per_s, c.output_tokens_per_s) == (10_000, 1000)


def test_two_chips_cost_twice_as_much_an_hour() -> None:
    two = replace(ROUND, deployment=vary(D, plan=rl.Plan(tp=2)))
    assert cost(two, utilisation=1, **PRICE).request_usd == 2 * cost(ROUND, utilisation=1, **PRICE).request_usd


def test_a_rate_fills_the_machine_by_little_s_law() -> None:
    """Ten requests hold it for 2 s: it does 5 a second, and 1 a second is a fifth of that."""
    assert cost(ROUND, rate_per_s=1, **PRICE).utilisation == pytest.approx(0.2)
    assert cost(ROUND, rate_per_s=5, **PRICE).utilisation == pytest.approx(1.0)
    with pytest.raises(rl.SpecError, match="more than this replica does; expected at most 5"):
        cost(ROUND, rate_per_s=5.1, **PRICE)


def test_load_alone_spreads_the_cost_as_far_as_it_was_measured() -> None:
    """arXiv:2606.11690: calculators that assume 100 % utilisation are low by 2.5 to 24 on one H100; that is 1/u, and of a
    rate of requests it is what the machine could do over what it is asked."""
    full = cost(ROUND, utilisation=1, **PRICE).output_usd_per_mtok
    for low_by, rate_per_s in ((2.5, 2.0), (24.0, 5 / 24)):
        c = cost(ROUND, rate_per_s=rate_per_s, **PRICE).output_usd_per_mtok
        assert c is not None
        assert full is not None
        assert c / full == pytest.approx(low_by)


# Prices are inputs


def test_a_price_on_record_is_used_when_asked_for_and_says_its_date() -> None:
    """hardware/h100-sxm-80gb.yaml: 2.69 to 12.29 USD/h on 2026-11-09."""
    low, high = (cost(P, utilisation=1, price=which) for which in ("low", "high"))
    assert (low.usd_per_chip_h, high.usd_per_chip_h) == (2.69, 12.29)
    assert low.to_dict()["price_date"] == "2026-11-09"
    assert low.price_from == "h100-sxm-80gb, low"
    given_ = cost(P, utilisation=1, usd_per_chip_h=2.69, date=datetime.date(2026, 11, 9))
    assert given_.price_from == "given"
    assert given_.request_usd == low.request_usd


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"utilisation": 1}, r"cost: no price; give usd_per_chip_h= with date=.* or price=.low. or .high."),
        ({"utilisation": 1, "usd_per_chip_h": 2.5}, "a price of no date"),
        ({"utilisation": 1, "price": "low", **PRICE}, "a price twice"),
        ({"utilisation": 1, "price": "low", "date": "2026-01-01"}, "has its own, 2026-11-09; leave it out"),
        ({"utilisation": 1, "price": "mid"}, 'expected "low" or "high", got .mid.'),
        ({"utilisation": 1, "usd_per_chip_h": 2.5, "date": "09/11/2026"}, 'date: expected a date such as "2026-11-09"'),
        ({"utilisation": 1, "usd_per_chip_h": -1, "date": "2026-11-09"}, "usd_per_chip_h: expected a number >= 0"),
        ({**PRICE}, "expected either utilisation=, in .0, 1., or rate_per_s="),
        ({"utilisation": 1, "rate_per_s": 1, **PRICE}, "expected either utilisation"),
        ({"utilisation": 0, **PRICE}, "utilisation: expected a number >= 1e-09"),
        ({"utilisation": 1.01, **PRICE}, "utilisation: expected .* at most 1"),
        ({"utilisation": [1, 0.5], "usd_per_chip_h": [1, 2, 3], "date": "2026-11-09"}, "broadcast together"),
    ],
)
def test_no_price_and_no_utilisation_is_assumed(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(rl.SpecError, match=said):
        cost(P, **asked)


def test_a_chip_without_a_price_says_what_to_pass() -> None:
    bare = rl.predict(vary(D, hardware=rl.hardware("a40")), prompt_tokens=10, output_tokens=2)
    with pytest.raises(rl.SpecError, match="price: a40 has none on record; give usd_per_chip_h= with date="):
        cost(bare, utilisation=1, price="low")
    with pytest.raises(rl.SpecError, match=r"expected a Prediction, got .*; make one with roofline.predict"):
        cost(D, utilisation=1, price="low")  # type: ignore[arg-type]


# Laws

SHAPES: dict[str, Any] = {
    "prompt_tokens": st.integers(1, 4000),
    "output_tokens": st.integers(1, 50),
    "batch": st.integers(1, 256),
}
predictions: st.SearchStrategy[rl.Prediction] = st.builds(rl.predict, deployments(), **SHAPES)


@FEW
@given(predictions, shares, shares)
def test_the_busier_the_cheaper(p: rl.Prediction, a: float, b: float) -> None:
    idle, busy = (cost(p, utilisation=u, **PRICE).request_usd for u in sorted((a, b)))
    assert idle >= busy
    assert float(idle) * min(a, b) == pytest.approx(float(busy) * max(a, b), rel=1e-12)


@FEW
@given(predictions, shares, st.floats(0.01, 100.0))
def test_k_times_the_price_is_k_times_the_cost(p: rl.Prediction, u: float, k: float) -> None:
    one = cost(p, utilisation=u, usd_per_chip_h=1.0, date="2026-11-09")
    dear = cost(p, utilisation=u, usd_per_chip_h=k, date="2026-11-09")
    for name in ("request_usd", "input_usd_per_mtok", "output_usd_per_mtok", "blended_usd_per_mtok"):
        assert getattr(dear, name) == pytest.approx(k * getattr(one, name), rel=1e-12)


@FEW
@given(deployments(), st.floats(0.1, 10.0), st.integers(1, 2000), st.integers(1, 20), st.integers(1, 64))
def test_a_machine_k_times_as_fast_costs_a_kth(d: rl.Deployment, k: float, prompt: int, n_out: int, batch: int) -> None:
    fast = vary(d, hardware=scaled(d.hardware, peak=k, bandwidth=k, link_bandwidth=k, link_latency=1 / k))
    slow, quick = (
        cost(rl.predict(x, prompt_tokens=prompt, output_tokens=n_out, batch=batch), utilisation=0.5, **PRICE)
        for x in (d, fast)
    )
    assert quick.input_usd_per_mtok * k == pytest.approx(slow.input_usd_per_mtok, rel=1e-12)
    assert quick.request_usd * k == pytest.approx(slow.request_usd, rel=1e-12)


@FEW
@given(predictions, shares)
def test_the_sides_add_up_to_the_request(p: rl.Prediction, u: float) -> None:
    c = cost(p, utilisation=u, **PRICE)
    assert c.output_usd_per_mtok is not None
    sides = p.prompt_tokens * c.input_usd_per_mtok + p.output_tokens * c.output_usd_per_mtok
    assert sides / 1e6 == pytest.approx(c.request_usd, rel=1e-12)
    assert c.blended_usd_per_mtok * (p.prompt_tokens + p.output_tokens) / 1e6 == pytest.approx(c.request_usd, rel=1e-12)


@FEW
@given(predictions, shares)
def test_at_a_rate_a_request_costs_a_second_s_rent_over_the_rate(p: rl.Prediction, part: float) -> None:
    """Whatever the machine does meanwhile, c · n dollars a second are paid for λ requests a second."""
    rate = part * float(p.batch / p.e2e_s)
    c = cost(p, rate_per_s=rate * (1 - 1e-12), **PRICE)
    assert c.request_usd == pytest.approx(3.6 * p.deployment.n_chips / 3600 / rate, rel=1e-9)


# Break-even


def test_the_price_at_which_renting_breaks_even() -> None:
    """0.0002 USD for 1000 prompt and 101 output tokens, an output token at four times an input token: / 1404."""
    even = break_even_price(cost(ROUND, utilisation=1, **PRICE), output_to_input=4)
    assert even.input_usd_per_mtok == pytest.approx(0.0002 / 1404 * 1e6)
    assert even.output_usd_per_mtok == pytest.approx(4 * 0.0002 / 1404 * 1e6)
    single = break_even_price(cost(ROUND, utilisation=1, **PRICE), output_to_input=1)
    assert single.input_usd_per_mtok == single.output_usd_per_mtok == single.cost.blended_usd_per_mtok


def test_the_utilisation_that_matches_an_api_and_one_that_none_matches() -> None:
    """An API that takes 0.2 and 2 USD/Mtok gets 0.0002 + 0.000202 USD for a request that costs 0.0002 at full load."""
    c = cost(ROUND, utilisation=0.1, **PRICE)
    even = break_even_utilisation(c, input_usd_per_mtok=0.2, output_usd_per_mtok=2, date="2026-11-09")
    assert even.api_request_usd == pytest.approx(0.000402)
    assert even.needed_utilisation == pytest.approx(0.2 / 0.402)
    assert even.reachable is True
    cheap = break_even_utilisation(c, input_usd_per_mtok=0.02, output_usd_per_mtok=0.2, date="2026-11-09")
    assert cheap.needed_utilisation == pytest.approx(2 / 0.402)
    assert cheap.reachable is False


@FEW
@given(predictions, shares, st.floats(0.0, 20.0))
def test_an_api_at_the_break_even_price_needs_the_utilisation_it_was_found_at(
    p: rl.Prediction, u: float, ratio: float
) -> None:
    even = break_even_price(cost(p, utilisation=u, **PRICE), output_to_input=ratio)
    back = break_even_utilisation(
        cost(p, utilisation=1, **PRICE),
        input_usd_per_mtok=even.input_usd_per_mtok,
        output_usd_per_mtok=even.output_usd_per_mtok,
        date="2026-11-09",
    )
    assert back.needed_utilisation == pytest.approx(u, rel=1e-9)


def test_an_api_that_takes_nothing_is_no_price() -> None:
    c = cost(ROUND, utilisation=1, **PRICE)
    with pytest.raises(rl.SpecError, match="takes money"):
        break_even_utilisation(c, input_usd_per_mtok=0, output_usd_per_mtok=0, date="2026-11-09")
    with pytest.raises(rl.SpecError, match="expected a Cost"):
        break_even_price(ROUND, output_to_input=1)  # type: ignore[arg-type]
    with pytest.raises(rl.SpecError, match="date: expected"):
        break_even_utilisation(c, input_usd_per_mtok=1, output_usd_per_mtok=1, date="soon")


# Shapes


def test_a_grid_is_its_points() -> None:
    batches, used = np.array([1.0, 8.0]), np.array([[1.0], [0.3], [0.1]])
    grid = cost(rl.predict(D, prompt_tokens=100, output_tokens=10, batch=batches), utilisation=used, **PRICE)
    for i, u in enumerate(used.ravel()):
        for j, b in enumerate(batches):
            point = cost(rl.predict(D, prompt_tokens=100, output_tokens=10, batch=b), utilisation=u, **PRICE)
            assert np.asarray(grid.request_usd)[i, j] == pytest.approx(point.request_usd, rel=1e-12)
    frame = grid.to_frame()
    assert len(frame) == 6
    assert frame["price_date"].tolist() == ["2026-11-09"] * 6
    even = break_even_utilisation(grid, input_usd_per_mtok=1, output_usd_per_mtok=[4, 5], date="2026-11-09")
    assert len(even.to_frame()) == 6
    assert len(break_even_price(grid, output_to_input=[4, 5]).to_frame()) == 6


def test_one_token_costs_its_prompt_and_an_encoder_has_no_output() -> None:
    one = cost(rl.predict(D, prompt_tokens=100, output_tokens=1), utilisation=1, **PRICE)
    assert one.output_usd_per_mtok == 0
    encoder = vary(D.model, head=None, **{"layers.0.layers.0.mixer.causal": False})
    c = cost(rl.predict(vary(D, model=encoder), prompt_tokens=100, output_tokens=0), utilisation=1, **PRICE)
    assert c.output_usd_per_mtok is None
    assert c.input_usd_per_mtok == pytest.approx(c.blended_usd_per_mtok)
    assert len(c.to_frame()) == 1
