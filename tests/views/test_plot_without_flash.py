"""`plot.without_flash`: what stands on its axes, and what it says."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
from drawn import title_of
from matplotlib.text import Text

import roofline as rl
from roofline.answers.eager import without_flash
from roofline.views.plot.eager_points import eager_curves
from roofline.views.plot.theme import SIZES, THEMES

pytestmark = pytest.mark.usefixtures("tidy_pictures")

D = rl.Deployment(model=rl.model("llama-3.1-8b"), hardware=rl.hardware("h100-sxm-80gb"))
M5 = replace(D, hardware=rl.hardware("m5-max-40c"))


def line_of(ax: Any, label: str) -> tuple[Any, Any]:
    (line,) = [line for line in ax.lines if line.get_label() == label]
    return np.asarray(line.get_xdata(), dtype=float), np.asarray(line.get_ydata(), dtype=float)


def said_on(figure: Any) -> list[str]:
    return [" ".join(text.get_text().split()) for text in figure.findobj(Text) if text.get_text().strip()]


@cache
def usual() -> Any:
    return rl.plot.without_flash(D)


# What is drawn


def test_lines_are_the_answer_along_the_prompt() -> None:
    moved, intensity = usual()
    for ax, field, unit in ((moved, "hbm_bytes", 1e9), (intensity, "intensity", 1.0)):
        for kernel in ("flash", "eager"):
            xs, ys = line_of(ax, kernel)
            expected = np.asarray(getattr(without_flash(D, prompt_tokens=xs), f"{kernel}_{field}"))
            assert ys == pytest.approx(expected / unit, rel=1e-12)
            assert 8192 in xs
    assert line_of(moved, "flash")[0][-1] == 131_072


def test_the_marked_prompt_is_the_one_asked_for() -> None:
    """109.8 and 659.6 GB, 1201 and 227 FLOP/B: tests/answers/test_eager.py has them by hand."""
    moved, intensity = usual()
    assert line_of(moved, "flash asked")[1] == pytest.approx([109.834938880])
    assert line_of(moved, "eager asked")[1] == pytest.approx([659.590752768])
    assert line_of(intensity, "flash asked")[1] == pytest.approx([1201.3], abs=0.05)
    assert line_of(intensity, "eager asked")[1] == pytest.approx([226.7], abs=0.05)
    assert line_of(intensity, "ridge")[1] == pytest.approx([295.34, 295.34], abs=0.01)


def test_eager_ends_where_the_scores_of_a_layer_fill_the_memory() -> None:
    """81559 MiB − 2 · 8,030,261,248 B hold 131,072·T of cache and 32·2·T² of scores: T = −1024 + √(1024² + 69.46e9/64)."""
    free = 81_559 * 2**20 - 2 * 8_030_261_248
    last = int(-1024 + (1024**2 + free / 64) ** 0.5)
    assert last == 31_936
    moved, intensity = usual()
    for ax in (moved, intensity):
        xs, _ = line_of(ax, "eager")
        assert xs[-1] <= last < 1.06 * xs[-1]
        assert line_of(ax, "full")[0] == xs[-1]
    assert any("eager fits up to 31,936 tokens" in text for text in said_on(moved.figure))
    assert "Beyond 31,936 tokens the scores of one layer do not fit" in moved.roofline_alt


def test_past_what_fits_eager_is_dotted_and_the_title_says_what_is_missing() -> None:
    """32 heads · 65,536² · 2 B = 275 GB for one layer."""
    moved, _ = rl.plot.without_flash(D, prompt_tokens=65_536)
    xs, _ = line_of(moved, "does not fit")
    assert xs[0] > 31_936
    assert xs[-1] == 65_536
    (dotted,) = [line for line in moved.lines if line.get_label() == "does not fit"]
    assert dotted.get_linestyle() == ":"
    assert "Without FlashAttention 65,536 tokens need 275 GB for one layer's scores" in said_on(moved.figure)


def test_a_model_that_does_not_fit_is_drawn_and_said() -> None:
    moved, _ = rl.plot.without_flash(replace(D, model=rl.model("llama-2-70b"), hardware=rl.hardware("rtx-4090")))
    assert line_of(moved, "eager")[0][-1] == 8192
    assert any("does not fit" in text and "over" in text for text in said_on(moved.figure))


def test_kernels_differ_by_dash_and_marker_and_the_scores_are_hatched() -> None:
    for ax in usual():
        lines = {str(line.get_label()): line for line in ax.lines}
        assert lines["flash"].get_linestyle() == "-"
        assert lines["eager"].get_linestyle() == "--"
        assert [lines[f"{kernel} asked"].get_marker() for kernel in ("flash", "eager")] == ["o", "^"]
        assert lines["flash asked"].get_markerfacecolor() == THEMES["light"].ground
    (band,) = [c for c in usual()[0].collections if c.get_label() == "scores"]
    assert band.get_hatch() == "..."


# What is said


def test_titles_are_findings() -> None:
    moved, intensity = usual()
    assert title_of(moved) == "550 GB of scores on top of 110 GB"
    assert title_of(intensity) == "Intensity drops below the ridge"
    assert "Without FlashAttention, reading 8,192 tokens moves 6.0x the bytes" in said_on(moved.figure)
    assert {"6.0x", "eager 660 GB", "flash 110 GB"} <= {text.get_text() for text in moved.texts}
    assert {"ridge 295", "eager 227", "flash 1,201"} <= {text.get_text() for text in intensity.texts}


def test_titles_follow_the_result() -> None:
    """On an M5 Max the ridge is 64.63 TFLOP/s / 614 GB/s = 105; of 256 tokens scores are 32·32·256²·8 B = 537 MB."""
    _, intensity = rl.plot.without_flash(M5)
    assert title_of(intensity) == "Intensity drops from 1,201 to 227"
    assert "ridge 105" in {text.get_text() for text in intensity.texts}
    moved, short = rl.plot.without_flash(D, prompt_tokens=256)
    assert title_of(moved).startswith("537 MB of scores on top of 18.0 GB")
    assert title_of(short) == "Intensity is below the ridge anyway"
    assert any("moves 3.0 % more bytes" in text for text in said_on(moved.figure))


def test_axes_are_named_with_their_units() -> None:
    moved, intensity = usual()
    assert (moved.get_xlabel(), moved.get_ylabel()) == ("Prompt tokens", "HBM traffic of the prefill (GB)")
    assert intensity.get_ylabel() == "Intensity of the prefill (FLOP/B)"
    assert rl.plot.without_flash(M5)[0].get_ylabel() == "Memory traffic of the prefill (GB)"


def test_it_carries_its_data_and_says_it_in_words() -> None:
    moved, intensity = usual()
    asked = moved.roofline_data.query("asked")
    assert list(asked["prompt_tokens"]) == [8192]
    assert float(asked["score_bytes"].iloc[0]) == 512 * 2**30
    assert (moved.roofline_data["scores_fit"] == (moved.roofline_data["prompt_tokens"] <= 31_936)).all()
    assert list(intensity.roofline_data["ridge"].unique()) == [D.hardware.ridge("bf16")]
    for part in ("660 GB in place of 110 GB", "550 GB are score matrices, 50 % of that masked out", "uncalibrated"):
        assert part in moved.roofline_alt
    assert "with the ridge at 295 FLOP/B. At 8,192 tokens 1,201 FLOP/B with" in intensity.roofline_alt
    assert "\n" not in moved.roofline_alt + intensity.roofline_alt


def test_a_model_without_attention_has_nothing_to_lose() -> None:
    mixer = {"kind": "mamba", "d_inner": 32, "d_state": 8, "d_conv": 4, "dt_rank": 2}
    layers = [{"layers": [{"mixer": mixer, "ffn": None}]}]
    sizes = {"d_model": 16, "vocab_size": 10, "max_context_tokens": 4096}
    model = rl.Model.read({"id": "small", "name": "Small", "dtype": "bf16", "layers": layers} | sizes, where="small")
    moved, intensity = rl.plot.without_flash(replace(D, model=model))
    assert any("small has no scores to move" in text for text in said_on(moved.figure))
    assert line_of(moved, "flash")[1] == pytest.approx(line_of(moved, "eager")[1])
    assert line_of(intensity, "flash asked")[1] == pytest.approx(line_of(intensity, "eager asked")[1])


# What is asked for


def test_a_prediction_brings_its_request_along() -> None:
    moved, _ = rl.plot.without_flash(rl.predict(D, prompt_tokens=1000, output_tokens=2, batch=4))
    w = without_flash(D, prompt_tokens=1000, batch=4)
    assert line_of(moved, "eager asked")[0] == [1000]
    assert line_of(moved, "eager asked")[1] == pytest.approx([w.eager_hbm_bytes / 1e9])


@pytest.mark.parametrize("prompt", [1, 63, 131_072])
def test_any_prompt_can_be_marked(prompt: int) -> None:
    for ax in rl.plot.without_flash(D, prompt_tokens=prompt):
        assert line_of(ax, "flash asked")[0] == [prompt]


@pytest.mark.parametrize("name", ["flan-t5-base", "gpt-2", "nemotron-h-8b", "deepseek-v3.2", "gemma-3-27b"])
def test_models_of_other_kinds_are_drawn(name: str) -> None:
    moved: Any = rl.plot.without_flash(replace(D, model=rl.model(name)), prompt_tokens=512)[0]
    assert (moved.roofline_data["eager_hbm_bytes"] > moved.roofline_data["flash_hbm_bytes"]).all()


def test_given_axes_are_drawn_on_and_given_back() -> None:
    figure, axes = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    assert rl.plot.without_flash(D, ax=axes) == tuple(axes)
    assert plt.get_fignums() == [figure.number]
    assert any("uncalibrated" in text for text in said_on(figure))


@pytest.mark.parametrize(("size", "theme"), [("page", "dark"), ("column", "light"), ("slide", "dark")])
def test_figures_have_their_size_and_their_theme(size: Any, theme: Any) -> None:
    axes: Any = rl.plot.without_flash(D, size=size, theme=theme)
    moved, intensity = axes
    n_rows = 2 if size == "column" else 1
    assert tuple(moved.figure.get_size_inches()) == (SIZES[size].width, SIZES[size].height * n_rows)
    assert matplotlib.colors.to_hex(intensity.get_facecolor()).upper() == THEMES[theme].ground


@pytest.mark.parametrize(
    ("keywords", "told"),
    [
        ({"prompt_tokens": [1, 2]}, "prompt_tokens: expected one whole number"),
        ({"theme": "drak"}, "did you mean dark"),
        ({"size": "pages"}, "did you mean page"),
        ({"ax": 3}, "ax: expected a sequence of 2 Axes"),
    ],
)
def test_a_wrong_argument_says_what_was_expected(keywords: dict[str, Any], told: str) -> None:
    with pytest.raises(rl.SpecError, match=told):
        rl.plot.without_flash(D, **keywords)
    with pytest.raises(rl.SpecError, match="expected one Deployment or Prediction"):
        rl.plot.without_flash("llama")  # type: ignore[arg-type]
    assert not plt.get_fignums()


# Nothing overlaps, nothing is cut off


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"size": "column"},
        {"size": "slide", "theme": "dark"},
        {"deployment": M5},
        {"deployment": M5, "size": "column"},
        {"prompt_tokens": 65_536},
        {"prompt_tokens": 65_536, "size": "column"},
        {"prompt_tokens": 256},
        {"prompt_tokens": 2048, "batch": 8},
    ],
    ids=str,
)
def test_texts_keep_clear_of_each_other_and_inside_the_figure(asked: dict[str, Any]) -> None:
    figure: Any = rl.plot.without_flash(**{"deployment": D} | asked)[0].figure
    figure.canvas.draw()
    width, height = figure.get_size_inches() * figure.dpi
    boxes = []
    for text in figure.findobj(Text):
        box = text.get_window_extent()
        if text.get_visible() and text.get_text().strip() and box.width > 1.0 and not _is_hidden_tick(figure, text):
            assert float(text.get_fontsize()) >= 7.0
            assert -0.5 <= box.x0 <= box.x1 <= width + 0.5, text.get_text()
            assert -0.5 <= box.y0 <= box.y1 <= height + 0.5, text.get_text()
            boxes.append((text.get_text(), box))
    for (said, a), (other, b) in itertools.combinations(boxes, 2):
        across, down = min(a.x1, b.x1) - max(a.x0, b.x0), min(a.y1, b.y1) - max(a.y0, b.y0)
        assert across <= 1.0 or down <= 2.5, (said, other)


def _is_hidden_tick(figure: Any, text: Text) -> bool:
    """Ticks outside an axis are kept by matplotlib and not drawn."""
    for axis in (axis for ax in figure.axes for axis in (ax.xaxis, ax.yaxis)):
        low, high = sorted(axis.get_view_interval())
        for tick in [*axis.get_major_ticks(), *axis.get_minor_ticks()]:
            if text in (tick.label1, tick.label2):
                return not low <= tick.get_loc() <= high
    return False


def test_the_same_figure_gives_the_same_bytes(tmp_path: Path) -> None:
    first, second = (
        rl.plot.save(axes, tmp_path / f"{i}.svg").read_bytes()
        for i, axes in enumerate((usual(), rl.plot.without_flash(D)))
    )
    assert first == second
    assert b"<desc>Memory traffic of a prefill" in first


def test_the_last_prompt_that_fits_is_found_between_the_grid_s() -> None:
    from roofline.views.plot.request import Request

    request = Request(prompt_tokens=100.0, output_tokens=1, context_tokens=None, longest_tokens=100.0, batch=2.0)
    curves = eager_curves(M5, request)
    at = without_flash(M5, prompt_tokens=[curves.fits_until, curves.fits_until + 1], batch=2)
    held = rl.memory(M5, context_tokens=[curves.fits_until, curves.fits_until + 1], batch=2)
    needed = np.asarray(held.used_bytes_per_chip + at.score_matrix_bytes)
    assert list(needed <= M5.hardware.memory_bytes) == [True, False]
