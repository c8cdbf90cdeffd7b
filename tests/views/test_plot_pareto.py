"""`plot.pareto`: the front, its steps, its table, and what it says."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from drawn import title_of

import roofline as rl
from roofline.views.plot import pareto_words
from roofline.views.plot.pareto_points import front_of

matplotlib.use("Agg")

pytestmark = pytest.mark.usefixtures("tidy_pictures")

NAMES = ("tokens_per_s_per_user", "output_tokens_per_s_per_chip", "label", "meets")
# b is beaten by c in both; e is best of all and fails; c and d are the front, with a
ROWS = [
    dict(zip(NAMES, row, strict=True))
    for row in (
        (20.0, 900.0, "a", True), (30.0, 500.0, "b", True), (40.0, 600.0, "c", True), (80.0, 200.0, "d", True),
        (90.0, 950.0, "e", False),
    )
]  # fmt: skip


def data_of(ax: Any, label: str) -> tuple[list[float], list[float]]:
    (line,) = [line for line in ax.lines if line.get_label() == label]
    return list(line.get_xdata()), list(line.get_ydata())


def test_the_front_is_what_keeps_the_promise_and_nothing_beats_in_both() -> None:
    assert [p.label for p in front_of(ROWS).front] == ["a", "c", "d"]


@pytest.mark.parametrize("seed", range(5))
def test_no_point_beats_the_front_and_every_other_is_beaten(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = [
        dict(zip(NAMES, (*rng.integers(1, 9, 2), str(i), bool(rng.random() < 0.8)), strict=True)) for i in range(40)
    ]
    found = front_of(rows)
    able = list(zip(found.xs[found.meets].tolist(), found.ys[found.meets].tolist(), strict=True))
    for p in able:
        beaten = any(q[0] >= p[0] and q[1] >= p[1] and q != p for q in able)
        assert (p in {(q.x, q.y) for q in found.front}) == (not beaten)
    assert len({(p.x, p.y) for p in found.front}) == len(found.front)


def test_the_front_is_drawn_as_steps() -> None:
    ax = rl.plot.pareto(ROWS)
    # level up to each point, down to what the next one gives: a user as fast as 30 gets a chip's 600, by c
    assert data_of(ax, "front") == ([0, 20, 20, 40, 40, 80, 80], [900, 900, 600, 600, 200, 200, 0])


def test_failing_points_are_hollow_and_of_another_shape() -> None:
    ax = rl.plot.pareto(ROWS)
    lines = {str(line.get_label()): line for line in ax.lines}
    assert data_of(ax, "fails") == ([90.0], [950.0])
    assert str(lines["fails"].get_markerfacecolor()) == "none"
    assert lines["fails"].get_marker() != lines["meets"].get_marker()
    assert len(data_of(ax, "meets")[0]) == 4


def test_the_table_has_points_of_the_front_only() -> None:
    found = front_of(ROWS, [20, 21, 50, 81])
    assert [(speed, None if p is None else p.label) for speed, p in found.table] == [
        (20.0, "a"), (21.0, "c"), (50.0, "d"), (81.0, None)
    ]  # fmt: skip
    said = [t.get_text() for t in rl.plot.pareto(ROWS, table_at=[20, 50, 81]).texts]
    table = next(text for text in said if text.startswith("tok/s a user"))
    assert table.splitlines()[1:] == ["≥ 20: 900  a", "≥ 50: 200  d", "≥ 81: none"]


def test_the_title_is_the_finding() -> None:
    assert title_of(rl.plot.pareto(ROWS)) == "From 900 tok/s a chip at 20.0 a user to 200 at 80.0"
    assert title_of(rl.plot.pareto(ROWS[:1])) == "900 tok/s a chip at 20.0 tok/s a user"
    assert title_of(rl.plot.pareto(ROWS[-1:])) == "None of 1 meets the SLO"


@pytest.mark.parametrize("missing", [None, float("nan"), float("inf"), 0.0])
def test_rows_without_a_speed_are_left_out_and_counted(missing: float | None) -> None:
    ax: Any = rl.plot.pareto([*ROWS, dict(ROWS[0], tokens_per_s_per_user=missing)], subject="llama on h100")
    assert len(ax.roofline_data) == 5
    line = " ".join(" ".join(t.get_text() for t in ax.texts).split())
    assert "llama on h100 · 3 of 5 on the front · failing the SLO: 1 · 1 without a speed left out" in line


def test_frames_mappings_and_records_are_alike() -> None:
    drawn = [
        rl.plot.pareto(rows).roofline_data  # type: ignore[attr-defined]
        for rows in (ROWS, pd.DataFrame(ROWS), tuple(SimpleNamespace(**row) for row in ROWS))
    ]
    assert drawn[0].equals(drawn[1])
    assert drawn[0].equals(drawn[2])
    assert list(drawn[0].columns) == [*NAMES, "front"]


def test_names_stand_at_the_front_only_and_keep_clear() -> None:
    rng = np.random.default_rng(1)
    rows = [
        dict(zip(NAMES, (10 + 3 * i, 900 - 12 * i + 3 * rng.random(), f"TP{i % 4} b{i}", True), strict=True))
        for i in range(40)
    ]
    for size in ("page", "column", "slide"):
        ax: Any = rl.plot.pareto([*rows, {**ROWS[0], NAMES[1]: 100.0, "label": "low"}], size=size, table_at=[50])
        ax.figure.canvas.draw()
        texts = [t for t in ax.texts if t.get_text().startswith("TP")]
        assert 2 <= len(texts) < 40
        assert "low" not in [t.get_text() for t in ax.texts]
        for a, b in itertools.combinations([t.get_window_extent() for t in texts], 2):
            assert min(a.x1, b.x1) - max(a.x0, b.x0) <= 1.0 or min(a.y1, b.y1) - max(a.y0, b.y0) <= 1.0


def test_axes_say_which_way_is_better_and_begin_at_zero() -> None:
    ax = rl.plot.pareto(ROWS, theme="dark")
    assert ax.get_xlabel().endswith("more is better →)")
    assert (ax.get_xlim()[0], ax.get_ylim()[0]) == (0.0, 0.0)


def test_the_alt_text_lists_the_front() -> None:
    ax: Any = rl.plot.pareto(ROWS)
    assert ax.roofline_alt.endswith("The front: a 20.0, 900; c 40.0, 600; d 80.0, 200.")


def test_the_title_speaks_chinese() -> None:
    assert pareto_words.pareto_title(front_of(ROWS), "zh") == "从每用户 20.0 tok/s 时每芯片 900，到 80.0 时 200"


@pytest.mark.parametrize(
    ("rows", "keywords", "told"),
    [
        ([], {}, "expected at least one row, got none"),
        ("abc", {}, "expected rows, as a list of mappings or a DataFrame"),
        (3, {}, "expected rows"),
        ({"label": "a"}, {}, "expected rows"),
        ([{"label": "a"}], {}, "row 0: expected .* it has no tokens_per_s_per_user"),
        ([dict(ROWS[0], tokens_per_s_per_user="fast")], {}, "row 0: tokens_per_s_per_user: expected a number"),
        ([dict(ROWS[0], tokens_per_s_per_user=None)], {}, "expected at least one row with both"),
        (ROWS, {"table_at": [0]}, "expected up to 8 speeds above 0"),
        (ROWS, {"table_at": list(range(1, 20))}, "expected up to 8 speeds above 0"),
        (ROWS, {"table_at": "fast"}, "expected up to 8 speeds above 0"),
        (ROWS, {"subject": 3}, "expected text, got 3"),
        (ROWS, {"lang": "de"}, "lang: expected en or zh"),
        (ROWS, {"ax": 3}, "ax: expected one Axes"),
    ],
)
def test_a_wrong_argument_says_what_was_expected(rows: Any, keywords: dict[str, Any], told: str) -> None:
    with pytest.raises(rl.SpecError, match=told):
        rl.plot.pareto(rows, **keywords)
    assert not plt.get_fignums()
