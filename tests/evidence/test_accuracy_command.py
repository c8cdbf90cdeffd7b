"""`roofline accuracy` and its pictures: what they print, draw and refuse."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest

import roofline as rl
from roofline.evidence.accuracy import BYS, selected
from roofline.evidence.calibration.shipped import conformal
from roofline.views.cli import run
from roofline.views.cli.accuracy import _n_steps
from roofline.views.plot.accuracy_points import FAMILIES, family_of

pytestmark = pytest.mark.usefixtures("tidy_pictures")


@pytest.mark.parametrize("by", [None, *BYS])
def test_the_tables_are_legible_at_80_columns(by: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["accuracy", *([] if by is None else ["--by", by])]) == 0
    out = capsys.readouterr().out
    for said in ("held out", "one model", "unseen hardware", "Faster than the floor: 0 of", "M5 Max"):
        assert said in out
    assert max(len(line) for line in out.splitlines()) <= 80
    assert by is None or f"By {by}, one model held out" in out


def test_json_is_one_object_with_every_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["accuracy", "--json", "--regime", "hardware"]) == 0
    body = json.loads(capsys.readouterr().out)
    assert (body["schema"], body["regime"]) == ("roofline/accuracy/1", "hardware")
    told = rl.accuracy(regime="hardware").to_dict()
    assert {name: body[name] for name in told} == json.loads(json.dumps(told))


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--by", "grup"], "--by: expected engine, hardware, chip, phase, group, got 'grup'; did you mean group?"),
        (["--regime", "modle"], "did you mean model?"),
        (["--markdown", "--json"], "expected one of --markdown and --json"),
        (["--plot", "accuracy.gif"], "expected a file ending in .png, .svg, .pdf"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["accuracy", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert told in captured.err
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize("more", [[], ["--by", "engine"]])
def test_plot_writes_the_picture(more: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "accuracy.svg"
    assert run(["accuracy", "--plot", str(path), *more]) == 0
    assert f"wrote {path}" in capsys.readouterr().out
    assert ("Predicted over measured by engine" if more else "Predicted against measured") in path.read_text("utf-8")


def test_the_steps_of_a_refit_are_foretold() -> None:
    """A step a group that is counted, and one a fold: of each group in sample, by machine and engine, and each value out."""
    told = {(p.regime, p.row.group) for regime in ("in-sample", "hardware", "engine") for p in selected(regime=regime)}
    told |= {("counted", p.row.group) for p in selected(regime="in-sample")}
    models = {(p.row.group, p.row.model) for p in selected(regime="model")}
    ways = {(p.row.group, p.row.tp) for p in selected(regime="tp")}
    assert _n_steps(saturated=False, refit=True) == len(told) + len(models) + len(ways)
    assert _n_steps(saturated=False, refit=False) == 0


def _points(ax: Any, names: tuple[str, ...]) -> dict[str, Any]:
    return {line.get_label(): np.asarray(line.get_xydata()) for line in ax.lines if line.get_label() in names}


@pytest.mark.parametrize("what", [None, "tpot"])
def test_every_held_out_row_is_a_point_of_its_engine(what: Any) -> None:
    ax: Any = rl.plot.predicted_against_measured(regime="hardware", what=what)
    drawn = _points(ax, FAMILIES)
    rows = selected(regime="hardware", what=what)
    for family, points in drawn.items():
        mine = [(p.value, p.predicted) for p in rows if family_of(p.row.engine) == family]
        assert points == pytest.approx(np.asarray(mine))
    assert sum(len(points) for points in drawn.values()) == len(rows) == len(ax.roofline_data)
    looks = {
        (str(line.get_marker()), str(line.get_markerfacecolor())) for line in ax.lines if line.get_label() in drawn
    }
    assert len({marker for marker, _ in looks}) == len({colour for _, colour in looks}) == len(drawn)


def test_the_band_holds_four_points_of_five() -> None:
    ax: Any = rl.plot.predicted_against_measured(what="ttft")
    ratios = np.asarray([p.predicted / p.value for p in selected(what="ttft")])
    factor = conformal(list(np.log(ratios)))
    assert f"×/÷ {factor:.2f}" in " ".join(t.get_text() for t in ax.texts)
    inside = np.mean(np.abs(np.log(ratios)) <= np.log(factor) * (1 + 1e-12))
    assert inside == pytest.approx(0.8, abs=2.0 / len(ratios))


@pytest.mark.parametrize("by", BYS)
def test_residuals_have_a_row_for_each_name_and_a_point_for_each_figure(by: Any) -> None:
    ax: Any = rl.plot.residuals(by=by, theme="dark")
    labels = [label.get_text() for label in ax.get_yticklabels()]
    rows = selected()
    assert sum(int(label.rpartition(", ")[2].replace(",", "")) for label in labels) == len(rows)
    points = [line for line in ax.lines if line.get_linestyle() == "None"]
    assert sum(len(line.get_xdata()) for line in points) == len(rows)
    assert all(label.rpartition(", ")[0] in ax.roofline_alt for label in labels)
    renderer = ax.figure.canvas.get_renderer()
    boxes = [label.get_window_extent(renderer) for label in ax.get_yticklabels()]
    edges = sorted((box.y0, box.y1) for box in boxes)
    assert all(upper[0] >= lower[1] - 1.0 for lower, upper in pairwise(edges))
    assert min(box.x0 for box in boxes) >= 0.0


def test_a_given_axes_is_drawn_on_and_what_is_no_choice_refused() -> None:
    _, ax = plt.subplots(layout="constrained")
    assert rl.plot.predicted_against_measured(ax, "tp") is ax
    _, other = plt.subplots(layout="constrained")
    assert rl.plot.residuals(other, "engine", "engine") is other
    with pytest.raises(rl.SpecError, match="what: expected ttft"):
        rl.plot.predicted_against_measured(what="itl")  # type: ignore[arg-type]
    with pytest.raises(rl.SpecError, match="by: expected engine"):
        rl.plot.residuals(by="machine")  # type: ignore[arg-type]
