"""Workloads: lengths and arrivals against what they are said to be."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.errors import SpecError
from roofline.specs.workload import Gamma, Piecewise, Poisson, Recorded, Requests, Workload, reuse

N = 200_000


@pytest.mark.parametrize(("arrivals", "scv"), [(Poisson(), 1.0), (Gamma(4.0), 4.0), (Gamma(0.25), 0.25)])
def test_gaps_have_the_rate_and_the_variance_that_was_asked(arrivals: Any, scv: float) -> None:
    gaps = np.diff(arrivals.times(N, 5.0, np.random.default_rng(1)))
    assert gaps.mean() == pytest.approx(0.2, rel=0.02)
    assert gaps.var() / gaps.mean() ** 2 == pytest.approx(scv, rel=0.05)


def test_a_rate_that_moves_holds_its_shares_and_its_mean() -> None:
    """Thrice as many in every second piece of ten seconds; none in one of no share."""
    times = Piecewise((1.0, 3.0), 10.0).times(N, 4.0, np.random.default_rng(0))
    counts = np.histogram(times, np.arange(0.0, times[-1], 10.0))[0]
    assert counts[1::2].mean() / counts[::2].mean() == pytest.approx(3.0, rel=0.02)
    assert N / times[-1] == pytest.approx(4.0, rel=0.02)
    assert (np.diff(times) >= 0.0).all()
    pauses = Piecewise((1.0, 0.0), 10.0).times(1000, 4.0, np.random.default_rng(0))
    assert ((pauses % 20.0) <= 10.0 + 1e-9).all()


def test_recorded_arrivals_keep_their_shape_in_another_time_and_begin_anew() -> None:
    """Gaps of 1, 3 and 2 s (a mean of 2 closes the round), at twice and at half the rate of 1/2 a second."""
    own = Recorded(np.array([10.0, 11.0, 14.0, 16.0]))
    assert own.times(4, 1.0, np.random.default_rng(0)).tolist() == [0.0, 0.5, 2.0, 3.0]
    assert np.diff(own.times(9, 0.25, np.random.default_rng(0))).tolist() == [2.0, 6.0, 4.0, 4.0, 2.0, 6.0, 4.0, 4.0]


def test_lengths_are_those_of_their_distribution() -> None:
    uniform = Workload.uniform(prompt_tokens=(100, 300), output_tokens=(1, 9))
    assert (int(uniform.prompt_tokens.min()), int(uniform.prompt_tokens.max())) == (100, 300)
    assert uniform.mean_prompt_tokens == pytest.approx(200.0, rel=0.01)
    assert uniform.mean_output_tokens == pytest.approx(5.0, rel=0.01)
    lognormal = Workload.lognormal(prompt_mean=2000.0, output_mean=300.0, prompt_cv=1.0, output_cv=0.5)
    found = lognormal.summary()
    assert found.prompt_mean == pytest.approx(2000.0, rel=0.01)
    assert found.prompt_scv == pytest.approx(1.0, rel=0.05)
    assert found.prompt_p50 == pytest.approx(2000.0 / math.sqrt(2.0), rel=0.01)  # e^μ
    assert found.output_scv == pytest.approx(0.25, rel=0.05)
    assert abs(found.correlation) < 0.05
    assert found.rate_per_s is None


def test_what_goes_together_is_drawn_together() -> None:
    w = Workload(np.array([10, 20, 30]), np.array([1, 2, 3]))
    drawn = w.draw(500, rate_per_s=1.0, seed=7)
    assert (drawn.prompt_tokens == 10 * drawn.output_tokens).all()
    assert set(drawn.output_tokens.tolist()) == {1, 2, 3}
    assert len(drawn) == 500
    again = w.draw(500, rate_per_s=1.0, seed=7)
    assert drawn.arrival_s.tolist() == again.arrival_s.tolist()
    trace = Workload.of_trace(
        Requests(arrival_s=np.array([0.0, 1.0, 2.0]), prompt_tokens=w.prompt_tokens, output_tokens=w.output_tokens)
    )
    assert trace.draw(4, rate_per_s=1.0).output_tokens.tolist() == [1, 2, 3, 1]


@given(st.floats(0.01, 1e4), st.integers(1, 300), st.integers(0, 5))
def test_arrivals_are_in_order_and_scale_with_the_rate(rate: float, n: int, seed: int) -> None:
    """Twice the rate is the same arrivals in half the time."""
    for arrivals in (Poisson(), Gamma(3.0), Recorded(np.array([0.0, 1.0, 1.0, 5.0]))):
        w = Workload(np.array([5, 6]), np.array([7, 8]), arrivals)
        slow, fast = (w.draw(n, rate_per_s=r, seed=seed).arrival_s for r in (rate, 2.0 * rate))
        assert (np.diff(slow) >= 0.0).all()
        assert fast == pytest.approx(slow / 2.0)


def requests(**given: Any) -> Requests:
    """Three requests, of which some part is given."""
    return Requests(
        **{"arrival_s": [0.0, 1.0, 2.0], "prompt_tokens": [40, 40, 20], "output_tokens": [1, 1, 1], **given}
    )


def test_blocks_of_a_trace_go_with_its_prompts_and_come_again_with_them() -> None:
    """Of 40 tokens in blocks of 16 two are whole, and a third may be named that is not."""
    given = requests(block_ids=((7, 8, 9), (7, 8), (7,)), block_tokens=16)
    w = Workload.of_trace(given)
    drawn = w.draw(4, rate_per_s=1.0)
    assert (drawn.block_ids, drawn.block_tokens) == (((7, 8, 9), (7, 8), (7,), (7, 8, 9)), 16)
    assert w.draw(2, rate_per_s=1.0).block_ids == ((7, 8, 9), (7, 8))
    anew = Workload(w.prompt_tokens, w.output_tokens, Poisson(), block_ids=w.block_ids, block_tokens=16)
    assert anew.draw(4, rate_per_s=1.0).block_ids is None  # drawn by chance: who came before is not known
    assert (requests().block_ids, Workload.of_trace(requests()).draw(2, rate_per_s=1.0).block_ids) == (None, None)


def test_an_endless_cache_holds_what_came_before_and_no_more() -> None:
    """Prompts A B C | A B D | X B C | A B C D: two, none (B behind X is another B) and three of 13 blocks were held."""
    ids = ((1, 2, 3), (1, 2, 4), (9, 2, 3), (1, 2, 3, 4))
    assert reuse(ids) == pytest.approx(5.0 / 13.0)
    w = Workload(np.full(4, 2000), np.full(4, 9), Recorded(np.arange(4.0)), block_ids=ids)
    assert w.summary().reuse == pytest.approx(5.0 / 13.0)
    assert Workload(np.full(4, 2000), np.full(4, 9), Recorded(np.arange(4.0))).summary().reuse is None
    assert Workload(np.full(4, 2000), np.full(4, 9), block_ids=ids).summary().reuse is None  # in no order
    assert reuse(((), ())) is None
    assert reuse(((1, 2), (1, 2, 3, 4)), known=(0, 3)) == pytest.approx(
        3.0 / 6.0
    )  # two of its prompt, one of the answer
    assert reuse(((1, 2), (1, 2)), known=(0, 5)) == pytest.approx(2.0 / 4.0)


def test_who_follows_whom_is_kept_as_whole_numbers() -> None:
    given = requests(follows=[-1, 0, -1], think_s=[0, 3, 0])
    assert given.follows is not None
    assert given.think_s is not None
    assert (given.follows.dtype, given.follows.tolist()) == (np.dtype(np.int64), [-1, 0, -1])
    assert given.think_s.tolist() == [0.0, 3.0, 0.0]
    assert len(given) == 3


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Workload(np.array([]), np.array([])), "expected at least one request"),
        (lambda: Workload(np.array([5, 6]), np.array([5])), "as many outputs as prompts"),
        (lambda: Workload(np.array([5]), np.array([0])), r"output_tokens\): expected whole numbers from 1"),
        (lambda: Workload(np.array([math.nan]), np.array([1])), "got nan of request 0"),
        (lambda: Workload(np.array([1e12]), np.array([1])), "whole numbers from 1 to 100,000,000"),
        (lambda: Workload.fixed(prompt_tokens=1, output_tokens=1).draw(3, rate_per_s=0.0), "above 0, got 0"),
        (lambda: Workload.fixed(prompt_tokens=1, output_tokens=1).draw(3, rate_per_s=math.inf), "above 0, got inf"),
        (lambda: Workload.fixed(prompt_tokens=1, output_tokens=1).draw(0, rate_per_s=1.0), "at least 1, got 0"),
        (lambda: Workload.uniform(prompt_tokens=(5, 4), output_tokens=(1, 1)), "low <= high, got 5 and 4"),
        (lambda: Workload.lognormal(prompt_mean=-1.0, output_mean=1.0), "prompt_mean"),
        (lambda: Gamma(0.0), "Gamma"),
        (lambda: Piecewise((), 1.0), "not all 0"),
        (lambda: Piecewise((0.0, 0.0), 1.0), "not all 0"),
        (lambda: Recorded(np.array([1.0, 1.0])), "not all at once"),
        (lambda: Recorded(np.array([])), "at least two arrivals"),
        (lambda: Recorded(np.array([0.0, 2.0, 1.0])), "seconds in order, got 1 of request 2 after 2"),
        (lambda: Recorded(np.array([0.0, math.nan, 1.0])), "expected finite seconds, got nan of request 1"),
        (lambda: Recorded(np.array([0.0, 1.0, math.inf])), "expected finite seconds, got inf of request 2"),
        (lambda: Recorded(np.array([[0.0, 1.0]])), "an array of 2 dimensions"),
        (lambda: requests(arrival_s=[2.0, 1.0, 3.0]), r"Requests\(arrival_s\): expected seconds in order"),
        (lambda: requests(output_tokens=[1, 1]), r"Requests\(output_tokens\): expected one for each of 3 arrivals, got 2"),
        (lambda: requests(block_ids=((1,), (1,))), r"Requests\(block_ids\): expected one for each of 3 arrivals, got 2"),
        (lambda: requests(block_ids=((1, 2), (1, 2, 3, 4), ()), block_tokens=16), "got 4 for the 40 tokens of request 1"),
        (lambda: requests(block_tokens=0), r"Requests\(block_tokens\): expected a whole number of at least 1, got 0"),
        (lambda: requests(follows=[-1, 0, 1]), "follows and think_s together"),
        (lambda: Workload.of_trace(requests(follows=[-1, 0, 1], think_s=[0.0, 1.0, 1.0])), "requests that follow none"),
        (lambda: requests(follows=[-1, 1, 0], think_s=[0.0, 1.0, 1.0]), "an earlier request, or -1 .*, got 1 of request 1"),
        (lambda: requests(follows=[-1, -2, 0], think_s=[0.0, 1.0, 1.0]), "got -2 of request 1"),
        (lambda: requests(follows=[-1, 0, 0], think_s=[0.0, 1.0, -1.0]), r"\(think_s\): expected finite seconds .* got -1"),
        (lambda: Workload(np.array([5, 6]), np.array([1, 1]), block_ids=((1,),)), "expected one for each of 2 prompts"),
        (lambda: Workload(np.array([5]), np.array([1]), block_ids=((1, 2),)), "of 512 tokens, got 2 for the 5"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(make: Any, said: str) -> None:
    with pytest.raises(SpecError, match=said):
        make()
