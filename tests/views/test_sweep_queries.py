"""Questions to a sweep's frame: the best of every group, and the front."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import roofline as rl
from roofline.num import undominated
from roofline.views.sweep import best, front

POINTS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=30)
FRAME = pd.DataFrame(
    {
        "hardware": pd.Categorical(["a", "a", "b", "b", "b"]),
        "batch": [1, 8, 1, 8, 64],
        "tpot_s": [0.01, 0.02, 0.03, 0.05, np.nan],
        "tokens_per_s_per_user": [100.0, 50.0, 33.0, 20.0, np.nan],
        "tokens_per_s_per_chip": [100.0, 400.0, 33.0, 160.0, np.nan],
    },
    index=[7, 7, 7, 8, 9],  # as after a concatenation
)


def test_less_is_better_of_times_and_more_of_rates() -> None:
    assert best(FRAME, by="tpot_s").batch.tolist() == [1]
    assert best(FRAME, by="tokens_per_s_per_chip").tokens_per_s_per_chip.tolist() == [400.0]
    assert best(FRAME, by="tokens_per_s_per_chip", per="hardware").batch.tolist() == [8, 8]
    assert best(FRAME, by="tpot_s", per=["hardware", "batch"]).index.tolist() == [7, 7, 7, 8]
    money = pd.DataFrame(
        {"usd_per_mtok": [3.0, 2.0], "n_chips": [1, 2], "kv_bytes": [9.0, 8.0], "hbm_bytes_per_s": [2, 3]}
    )
    assert [best(money, by=name).index[0] for name in money.columns] == [1, 0, 1, 1]


def test_nothing_has_no_best() -> None:
    assert best(FRAME[FRAME.batch > 100], by="tpot_s").empty
    assert best(FRAME.iloc[4:], by="tpot_s", per="hardware").empty
    assert front(FRAME.iloc[4:]).empty


def test_the_front_is_all_that_nothing_beats_in_both() -> None:
    """Of chip b, both rows that have a speed are slower for a user and a chip than the second of a."""
    assert front(FRAME).tokens_per_s_per_chip.tolist() == [100.0, 400.0]
    assert front(FRAME, per="hardware").tokens_per_s_per_chip.tolist() == [100.0, 400.0, 33.0, 160.0]
    assert front(FRAME, x="tpot_s", y="batch").batch.tolist() == [1, 8]


@given(POINTS)
def test_undominated_points_are_those_of_the_definition(found: list[tuple[int, int]]) -> None:
    """Of equal points the first; from the largest x on."""
    kept = [found[i] for i in undominated([x for x, _ in found], [y for _, y in found])]
    beaten = {p for p in found if any(q != p and q[0] >= p[0] and q[1] >= p[1] for q in found)}
    assert set(kept) == set(found) - beaten
    assert kept == sorted(set(kept), reverse=True)


def test_a_sweep_s_front_is_what_the_picture_draws() -> None:
    frame = rl.sweep(models="llama-3.1-8b", hardware=["h100", "l4"], batch=2 ** np.arange(8), context_tokens=2048)
    rows = frame.assign(
        output_tokens_per_s_per_chip=frame.tokens_per_s_per_chip, label=frame.hardware, meets=frame.fits
    )
    axes: Any = rl.plot.pareto(rows)
    drawn = axes.roofline_data[axes.roofline_data.front]
    assert sorted(drawn.tokens_per_s_per_user) == sorted(front(frame[frame.fits]).tokens_per_s_per_user)
    plt.close(axes.figure)


@pytest.mark.parametrize(
    ("call", "needles"),
    [
        (lambda: best(FRAME, by="tpots"), ("best(by)", "'tpots'", "did you mean tpot_s")),
        (lambda: best(FRAME, by="tpot_s", per="hardwares"), ("best(per)", "did you mean hardware")),
        (lambda: best(FRAME, by="hardware"), ("best(by)", "numbers", "category")),
        (lambda: best([1, 2], by="tpot_s"), ("DataFrame", "a list of 2")),
        (lambda: front(FRAME, x="ttft_s"), ("front", "'ttft_s'", "did you mean tpot_s")),
        (lambda: front(None), ("DataFrame", "None")),
    ],
)  # fmt: skip
def test_questions_of_columns_that_are_not_there_are_refused(call: object, needles: tuple[str, ...]) -> None:
    assert callable(call)
    with pytest.raises(rl.RooflineError) as caught:
        call()
    for needle in needles:
        assert needle in str(caught.value)
