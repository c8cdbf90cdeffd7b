"""The pictures, by what stands on their axes: data, titles, labels, files. No pixel is compared."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.text import Text

from roofline.answers.memory import memory
from roofline.answers.phases import decode, prefill
from roofline.answers.prediction import predict
from roofline.errors import SpecError
from roofline.specs.catalog import hardware, hardware_ids, model
from roofline.specs.deployment import Deployment
from roofline.specs.plan import Plan
from roofline.specs.slo import SLO
from roofline.views import plot
from roofline.views.plot import latency_words, roof_words
from roofline.views.plot.latency_points import tpot_lines, ttft_curve
from roofline.views.plot.request import Request
from roofline.views.plot.roof_points import ceilings, roof_of
from roofline.views.plot.theme import SIZES, THEMES

matplotlib.use("Agg")

H100, LLAMA = "h100-sxm-80gb", "llama-3.1-8b"
REQUEST = Request(prompt_tokens=2048.0, output_tokens=256, context_tokens=2175.0, longest_tokens=2303.0, batch=8.0)


@pytest.fixture(autouse=True)
def _tidy(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The shipped specs only; no figure survives a test, and none changes a global setting."""
    monkeypatch.delenv("ROOFLINE_PATH", raising=False)
    before = dict(matplotlib.rcParams)
    yield
    plt.close("all")
    assert dict(matplotlib.rcParams) == before


def deployment(model_id: str = LLAMA, chip: str = H100, **more: Any) -> Deployment:
    return Deployment(model=model(model_id), hardware=hardware(chip), **more)


def line_of(ax: Axes, label: str) -> tuple[Any, Any]:
    """The data of the one line with a label."""
    (line,) = [line for line in ax.lines if line.get_label() == label]
    return np.asarray(line.get_xdata()), np.asarray(line.get_ydata())


def rows_of(ax: Any, series: str) -> Any:
    return ax.roofline_data[ax.roofline_data["series"] == series]


def title_of(ax: Axes) -> str:
    return " ".join(ax.get_title(loc="left").split())


def texts_of(ax: Axes) -> list[str]:
    return [text.get_text() for text in ax.texts if text.get_text()]


@cache
def usual() -> Any:
    """The figure most questions are about: llama-3.1-8b on an H100, 2048 in, 256 out, batch 8."""
    return plot.roofline(deployment())


@cache
def usual_latency() -> Any:
    return plot.latency(deployment(), prompt_tokens=2048, batch=1)


def fields(request: Request) -> dict[str, Any]:
    return {name: getattr(request, name) for name in Request.__slots__}


# the roofline: laws


@pytest.mark.parametrize("chip", [H100, "m5-max-40c", "mi300x", "t4", "epyc-9755"])
@pytest.mark.parametrize("name", [LLAMA, "gemma-3-1b", "llama-2-7b"])
def test_no_predicted_point_lies_above_the_roof(name: str, chip: str) -> None:
    roof = roof_of(deployment(name, chip), REQUEST)
    for point in (p for path in roof.paths for p in path.points):
        assert point.flops_per_s <= roof.at(point.intensity) * (1 + 1e-12)


def test_points_are_not_placed_on_the_roof_where_ops_disagree_about_what_binds() -> None:
    roof = roof_of(deployment(), REQUEST)
    path = roof.path("prefill")
    assert path is not None
    assert path.asked.flops_per_s < 0.95 * roof.at(path.asked.intensity)


def test_the_marked_decode_point_is_total_flop_over_predicted_time() -> None:
    ax = plot.roofline(deployment(), prompt_tokens=2048, output_tokens=256, batch=8)
    # 256 tokens are 255 decode passes at contexts 2048 … 2302, 2175 on average
    timing = decode(deployment(), context_tokens=2175, batch=8)
    (x,), (y,) = line_of(ax, "decode asked")
    assert x == timing.intensity
    assert y == pytest.approx(timing.executed_flops / timing.seconds / 1e12, rel=1e-12)


def test_the_marked_prefill_point_is_total_flop_over_predicted_time() -> None:
    ax = plot.roofline(deployment(), prompt_tokens=512, batch=2)
    timing = prefill(deployment(), prompt_tokens=512, batch=2)
    (x,), (y,) = line_of(ax, "prefill asked")
    assert x == timing.intensity
    assert y == pytest.approx(timing.executed_flops / timing.seconds / 1e12, rel=1e-12)


def test_decode_never_passes_its_limit_and_tends_to_it() -> None:
    path = roof_of(deployment(), REQUEST).path("decode")
    assert path is not None
    assert path.limit is not None
    intensities = [p.intensity for p in path.points]
    assert intensities == sorted(intensities)
    assert intensities[-1] < path.limit
    far = decode(deployment(), context_tokens=2175, batch=1e9).intensity
    assert path.limit == pytest.approx(far, rel=1e-5)


def test_decode_is_swept_over_powers_of_2_that_fit_with_the_users_batch_among_them() -> None:
    path = roof_of(deployment(), Request(**{**fields(REQUEST), "batch": 11.0})).path("decode")
    assert path is not None
    # (81559 MiB − 2 B × 8,030,261,248) / (2303 token × 2·8·128·32·2 B) = 230.1 sequences
    assert [p.value for p in path.points] == [1, 2, 4, 8, 11, 16, 32, 64, 128]
    assert path.asked.value == 11
    assert all(p.fits for p in path.points)


def test_a_batch_that_does_not_fit_is_drawn_and_said() -> None:
    ax: Any = plot.roofline(deployment("llama-2-70b"), batch=8)
    assert not rows_of(ax, "decode")["fits"].any()
    assert any("does not fit" in text for text in texts_of(ax))


# the roofline: numbers


def test_the_ridge_of_an_h100_in_bf16_is_295() -> None:
    ax = usual()
    xs, ys = line_of(ax, "ridge")
    # 989.4 TFLOP/s / 3.35 TB/s
    assert xs == pytest.approx([295.3433, 295.3433], rel=1e-6)
    assert ys[1] == pytest.approx(989.4)
    assert "ridge 295" in texts_of(ax)
    assert [text for text in texts_of(ax) if "3.35 TB/s" in text] == ["HBM3 3.35 TB/s"]


def test_the_roof_rises_with_the_bandwidth_and_is_flat_past_the_ridge() -> None:
    xs, ys = line_of(usual(), "bf16")
    assert ys[0] == pytest.approx(3.35 * xs[0])
    assert xs[1] == pytest.approx(295.3433, rel=1e-6)
    assert ys[1] == ys[2] == pytest.approx(989.4)


def test_other_dtypes_are_drawn_only_right_of_where_they_exceed_the_one_in_use() -> None:
    ax = usual()
    xs, ys = line_of(ax, "fp8/int8")
    assert xs[0] == pytest.approx(295.3433, rel=1e-6)
    assert ys == pytest.approx([989.4, 1978.9, 1978.9])
    styles = {line.get_label(): line.get_linestyle() for line in ax.lines}
    assert (styles["bf16"], styles["fp8/int8"]) == ("-", "--")
    assert "tf32" not in styles  # slower than the one in use


def test_a_roofline_in_the_fastest_dtype_has_one_ceiling() -> None:
    ax: Any = plot.roofline(deployment(weights="fp8", kv="fp8"))
    assert list(rows_of(ax, "ceiling")["label"]) == ["fp8"]


@pytest.mark.parametrize("chip", hardware_ids())
def test_every_chip_has_one_to_three_ceilings_lowest_first(chip: str) -> None:
    spec = hardware(chip)
    for dtype in spec.dtypes():
        found = ceilings(spec, dtype)
        rates = [c.flops_per_s for c in found]
        assert 1 <= len(found) <= 3
        assert rates == sorted(set(rates))
        assert rates[0] == spec.peak_flops_per_s(dtype)


# the roofline: words


def test_the_title_is_the_finding() -> None:
    ax = usual()
    intensity = decode(deployment(), context_tokens=2175, batch=8).intensity
    times = 295.3433 / float(intensity)
    assert title_of(ax) == f"Decode is memory-bound on {H100}: {intensity:.2f} FLOP/B, ridge 295 ({times:.0f}x)"


def test_the_title_follows_the_result() -> None:
    ax = plot.roofline(deployment(), output_tokens=1)
    assert title_of(ax).startswith("Prefill is compute-bound on h100-sxm-80gb: 1,1")
    assert "decode" not in {line.get_label() for line in ax.lines}


@pytest.mark.parametrize("chip", hardware_ids())
def test_titles_fit_on_every_chip(chip: str) -> None:
    subject = deployment(chip=chip)
    roof = roof_of(subject, REQUEST)
    tpot, ttft = tpot_lines(subject, REQUEST), ttft_curve(subject, REQUEST)
    titles = [roof_words.roof_title(roof, "en"), latency_words.tpot_title(tpot, "en")]
    titles += [latency_words.ttft_title(ttft, "en"), latency_words.latency_title(ttft, tpot, "en")]
    for title in [*titles, roof_words.roofs_title([roof, roof], "en")]:
        assert len(title) <= 75
    point = roof.paths[-1].asked
    assert f"{point.bound}-bound on {chip}" in titles[0]


def test_text_beside_the_marks_says_what_they_are() -> None:
    said = texts_of(usual())
    for text in ("decode, batch 8", "prefill, prompt 2048", "batch 1", "batch 128", "bf16 989", "fp8/int8 1,979"):
        assert text in said
    assert any(text.startswith("llama-3.1-8b on 1 × h100-sxm-80gb · bf16 weights and KV") for text in said)


def test_the_footer_says_what_evidence_there_is() -> None:
    figure = usual().figure
    assert any(text.get_text().endswith("ideal machine, uncalibrated") for text in figure.texts)


def test_the_axes_are_named_with_their_units() -> None:
    ax = usual()
    name = "Arithmetic intensity (FLOP per byte of HBM traffic)"
    assert (ax.get_xlabel(), ax.roofline_lane.get_xlabel()) == (name, name)
    assert ax.get_ylabel() == "Throughput (TFLOP/s per chip)"
    apple = plot.roofline(deployment(chip="m5-max-40c"))
    assert apple.get_xlabel() == "Arithmetic intensity (FLOP per byte of memory traffic)"


def test_the_alt_text_says_the_numbers() -> None:
    ax = usual()
    for part in ("ridge, 295 FLOP/B", "Decode at batch 8 is memory-bound: 7.4", "uncalibrated"):
        assert part in ax.roofline_alt
    assert "\n" not in ax.roofline_alt


# the roofline: marks


def test_phases_differ_by_marker_and_not_by_colour_alone() -> None:
    ax = usual()
    for axes in (ax, ax.roofline_lane):
        markers = {line.get_label(): line.get_marker() for line in axes.lines}
        assert (markers["prefill asked"], markers["decode asked"]) == ("o", "s")


def test_what_is_predicted_is_hollow_and_what_is_measured_is_solid() -> None:
    ax = plot.roofline(deployment(), measured=[(1163.0, 603e12, "vLLM")])
    lines = {str(line.get_label()): line for line in ax.lines}
    assert lines["decode asked"].get_markerfacecolor() == THEMES["light"].ground
    assert lines["vLLM"].get_markerfacecolor() == THEMES["light"].ink
    assert lines["vLLM"].get_marker() == "D"


def test_a_measurement_drops_from_the_roof_and_says_its_share_of_it() -> None:
    ax: Any = plot.roofline(deployment(), measured=[(1163.0, 603e12, "vLLM"), (10.0, 16.75e12, "decode")])
    (drop, _) = [line for line in ax.lines if line.get_label() == "drop"]
    assert np.asarray(drop.get_ydata()) == pytest.approx([603.0, 989.4])
    # 603 / 989.4 and 16.75 / (3.35 · 10)
    assert {"vLLM: 61 % of roof", "decode: 50 % of roof"} <= set(texts_of(ax))
    assert list(rows_of(ax, "measured")["label"]) == ["vLLM", "decode"]


def test_a_measurement_above_the_roof_is_drawn_and_questioned() -> None:
    ax = plot.roofline(deployment(), measured=[(1163.0, 1900e12, "sparse")])
    assert line_of(ax, "sparse")[1] == pytest.approx([1900.0])
    assert ax.get_ylim()[1] > 1900.0
    assert any("check dtype, sparsity" in text for text in texts_of(ax))


def test_the_lane_has_a_tick_for_each_swept_value_and_a_bar_at_the_limit() -> None:
    ax = usual()
    lane = ax.roofline_lane
    for phase in ("prefill", "decode"):
        assert line_of(lane, phase)[0] == pytest.approx(rows_of(ax, phase)["intensity"])
    assert line_of(lane, "batch → ∞")[0] == pytest.approx(rows_of(ax, "limit")["intensity"])
    assert lane.get_xlim() == ax.get_xlim()
    assert [label.get_text() for label in lane.get_yticklabels()] == ["prefill", "decode"]


def test_the_lane_takes_the_lower_part_of_the_figure() -> None:
    ax = usual()
    roof, lane = ax.get_position(), ax.roofline_lane.get_position()
    assert lane.y1 < roof.y0
    assert 0.12 < lane.height < 0.26


def test_ticks_are_plain_numbers() -> None:
    ax = usual()
    for axis in (ax.yaxis, ax.roofline_lane.xaxis):
        shown = [label.get_text() for label in axis.get_ticklabels() if label.get_text()]
        assert {"1", "10", "100", "1000"} <= set(shown)
        assert not any("e" in text or "$" in text for text in shown)


def test_limits_leave_half_a_decade_left_and_a_decade_right_of_the_highest_ridge() -> None:
    ax = usual()
    smallest = rows_of(ax, "decode")["intensity"].min()
    # fp8: 1978.9 / 3.35 = 590.7
    assert ax.get_xlim() == pytest.approx((smallest / 10**0.5, 5907.16), rel=1e-5)
    assert ax.get_ylim()[1] == pytest.approx(1.5 * 1978.9)


# what is asked for


def test_a_prediction_brings_its_request_along() -> None:
    p = predict(deployment(), prompt_tokens=512, output_tokens=64, batch=4)
    ax = plot.roofline(p)
    assert p.decode is not None
    assert line_of(ax, "decode asked")[0][0] == p.decode.intensity
    assert line_of(ax, "prefill asked")[0][0] == p.prefill.intensity


def test_a_keyword_overrides_the_prediction() -> None:
    p = predict(deployment(), prompt_tokens=512, output_tokens=64, batch=4)
    ax = plot.roofline(p, batch=16)
    assert line_of(ax, "prefill asked")[0][0] == prefill(deployment(), prompt_tokens=512, batch=16).intensity


def test_a_context_can_be_named_outright() -> None:
    ax = plot.roofline(deployment(), context_tokens=8192, batch=1)
    assert line_of(ax, "decode asked")[0][0] == decode(deployment(), context_tokens=8192).intensity


def test_several_deployments_are_panels_on_one_scale() -> None:
    chips = [H100, "m5-max-40c", "mi300x"]
    axes = plot.roofline([deployment(chip=c) for c in chips])
    assert isinstance(axes, tuple)
    assert len({ax.figure for ax in axes}) == 1
    assert len({(ax.get_xlim(), ax.get_ylim()) for ax in axes}) == 1
    assert [title_of(ax).split(":")[0] for ax in axes] == chips
    lefts = [ax.get_position().x0 for ax in axes]
    assert lefts == sorted(lefts)
    assert len({round(ax.get_position().y0, 6) for ax in axes}) == 1
    figure: Any = axes[0].figure
    assert "Decode is memory-bound on all 3 chips: 7.4" in " ".join(t.get_text() for t in figure.texts)


def test_a_comparison_gives_a_panel_a_prediction() -> None:
    both = predict([deployment(), deployment(weights="fp8")], prompt_tokens=512, output_tokens=8, batch=2)
    axes = plot.roofline(both)
    assert [title_of(ax).split(":")[0] for ax in axes] == ["bf16 weights and KV", "fp8 weights, bf16 KV"]


def test_a_list_of_one_still_gives_a_tuple() -> None:
    (ax,) = plot.roofline([deployment()])
    assert title_of(ax).startswith("Decode is memory-bound")


def test_a_given_axes_is_drawn_on_and_given_back() -> None:
    figure, ax = plt.subplots(layout="constrained")
    size = tuple(figure.get_size_inches())
    assert plot.roofline(deployment(), ax=ax) is ax
    assert plt.get_fignums() == [figure.number]
    assert tuple(figure.get_size_inches()) == size
    assert any("uncalibrated" in text for text in texts_of(ax))


def test_an_axes_placed_by_hand_shares_its_place_with_the_lane() -> None:
    figure = plt.figure()
    ax: Any = figure.add_axes((0.1, 0.2, 0.8, 0.6))
    plot.roofline(deployment(), ax=ax)
    assert ax.roofline_lane.get_position().y0 == pytest.approx(0.2)
    assert ax.get_position().y1 == pytest.approx(0.8)


def test_given_axes_must_be_as_many_as_deployments() -> None:
    _, ax = plt.subplots()
    with pytest.raises(SpecError, match="a sequence of 2 Axes"):
        plot.roofline([deployment(), deployment()], ax=ax)  # type: ignore[call-overload]


@pytest.mark.parametrize(("size", "theme"), [("page", "dark"), ("column", "light"), ("slide", "dark")])
def test_figures_have_their_size_and_their_theme(size: Any, theme: Any) -> None:
    figure: Any = plot.roofline(deployment(), size=size, theme=theme).figure
    assert tuple(figure.get_size_inches()) == (SIZES[size].width, SIZES[size].height)
    assert matplotlib.colors.to_hex(figure.get_facecolor()).upper() == THEMES[theme].ground
    assert figure.dpi == 120


def test_users_own_settings_do_not_reach_the_figure() -> None:
    with matplotlib.rc_context({"font.size": 30.0, "axes.facecolor": "#ff0000", "lines.linewidth": 9.0}):
        ax: Any = plot.roofline(deployment())
    assert matplotlib.colors.to_hex(ax.get_facecolor()) == "#ffffff"
    assert max(float(text.get_fontsize()) for text in ax.figure.findobj(Text)) <= 10.0


# nothing overlaps, nothing is cut off

VARIETY: dict[str, Any] = {
    "page": usual,
    "column": lambda: plot.roofline(deployment(), size="column"),
    "slide": lambda: plot.roofline(deployment(), size="slide", theme="dark"),
    "apple": lambda: plot.roofline(deployment(chip="m5-max-40c"), batch=1),
    "gemma": lambda: plot.roofline(deployment("gemma-3-1b")),
    "llama-2": lambda: plot.roofline(deployment("llama-2-7b"), batch=1, prompt_tokens=1024),
    "three": lambda: plot.roofline([deployment(chip=c) for c in (H100, "m5-max-40c", "mi300x")]),
    "latency": usual_latency,
    "latency in a column": lambda: plot.latency(deployment(), size="column"),
    "one panel": lambda: plot.tpot_vs_batch(deployment(), context_tokens=(1024, 8192), batch=16),
    "promises": lambda: plot.latency(deployment(engine="vllm"), batch=4, slo=SLO(ttft_p95_s=0.2, tpot_p95_s=0.02)),
    "ops": lambda: plot.roofline(deployment(engine="vllm"), ops=True),
    "roads": lambda: plot.roofline(deployment("llama-3.1-70b", engine="vllm", plan=Plan(tp=4)), tiers=["link", "host"]),
    "memory": lambda: plot.memory([deployment(chip=c, engine="vllm") for c in (H100, "rtx-4090", "mi300x")]),
    "memory in a column": lambda: plot.memory(deployment(engine="vllm"), size="column", lang="zh"),
    "breakdown": lambda: plot.time_breakdown(deployment("deepseek-v3", "h200", plan=Plan(tp=8), engine="sglang")),
    "breakdown in a column": lambda: plot.time_breakdown(deployment(), size="column"),
    "heat": lambda: plot.latency_heatmap(deployment(engine="vllm"), lang="zh"),
    "heat in a column": lambda: plot.latency_heatmap(deployment(), size="column", theme="dark"),
    "batches": lambda: plot.kv_growth(model(LLAMA), hardware=hardware(H100), batch=[1, 8, 64]),
}


@pytest.mark.parametrize("name", VARIETY)
def test_texts_keep_clear_of_each_other_and_inside_the_figure(name: str) -> None:
    drawn = VARIETY[name]()
    figure: Any = (drawn[0] if isinstance(drawn, tuple) else drawn).figure
    figure.canvas.draw()
    width, height = figure.get_size_inches() * figure.dpi
    texts = [(text, text.get_window_extent()) for text in shown_texts(figure)]
    for text, box in texts:
        assert float(text.get_fontsize()) >= 7.0
        assert -0.5 <= box.x0 <= box.x1 <= width + 0.5, text.get_text()
        assert -0.5 <= box.y0 <= box.y1 <= height + 0.5, text.get_text()
    upright = [(text, box) for text, box in texts if text.get_rotation() % 90.0 == 0.0]
    for (text, a), (other, b) in itertools.combinations(upright, 2):
        across, down = min(a.x1, b.x1) - max(a.x0, b.x0), min(a.y1, b.y1) - max(a.y0, b.y0)
        assert across <= 1.0 or down <= 2.5, (text.get_text(), other.get_text())


def shown_texts(figure: Any) -> list[Text]:
    """Every text that is drawn; ticks outside an axis are kept by matplotlib and not drawn."""
    hidden: set[int] = set()
    for axis in (axis for ax in figure.axes for axis in (ax.xaxis, ax.yaxis)):
        low, high = sorted(axis.get_view_interval())
        for tick in [*axis.get_major_ticks(), *axis.get_minor_ticks()]:
            if not low <= tick.get_loc() <= high:
                hidden |= {id(tick.label1), id(tick.label2)}
    found = [t for t in figure.findobj(Text) if t.get_visible() and t.get_text().strip()]
    return [t for t in found if id(t) not in hidden and t.get_window_extent().width > 1.0]


# latency


def test_the_knee_is_the_first_prompt_that_compute_binds() -> None:
    curve = ttft_curve(deployment(), REQUEST)
    assert curve.knee is not None
    at = prefill(deployment(), prompt_tokens=[curve.knee - 1, curve.knee], batch=8).bound
    assert list(at) == ["memory", "compute"]


def test_ttft_is_drawn_as_predicted_over_its_floor() -> None:
    ax, _ = usual_latency()
    xs, ys = line_of(ax, "estimate")
    timing = prefill(deployment(), prompt_tokens=xs)
    assert ys == pytest.approx(1e3 * np.asarray(timing.seconds), rel=1e-12)
    assert np.all(line_of(ax, "floor")[1] <= ys * (1 + 1e-12))
    assert line_of(ax, "asked")[1] == pytest.approx(1e3 * prefill(deployment(), prompt_tokens=2048).seconds)
    knee = line_of(ax, "knee")[0][0]
    assert title_of(ax).startswith(f"Prefill turns compute-bound at {knee:.0f} prompt tokens")


def test_ttft_is_in_seconds_where_it_is_long() -> None:
    assert plot.ttft_vs_prompt(deployment()).get_ylabel() == "TTFT (ms)"
    assert plot.ttft_vs_prompt(deployment(chip="m5-max-40c")).get_ylabel() == "TTFT (s)"


def test_tpot_is_drawn_up_to_the_batch_that_fills_the_memory() -> None:
    ax: Any = plot.tpot_vs_batch(deployment(), context_tokens=[2048, 8192], batch=8)
    xs, ys = line_of(ax, "context 2048")
    # (85,520,809,984 − 2 · 8,030,261,248) B / (2048 · 131,072 B) = 258.8
    assert xs[-1] == 258.0
    assert ys[-1] == pytest.approx(1e3 * decode(deployment(), context_tokens=2048, batch=258).seconds, rel=1e-12)
    assert "KV full at 258" in texts_of(ax)
    assert line_of(ax, "context 8192")[0][-1] == memory(deployment(), context_tokens=8192).max_batch
    assert line_of(ax, "asked")[1] == pytest.approx(1e3 * decode(deployment(), context_tokens=2048, batch=8).seconds)


def test_the_axis_of_tpot_starts_at_zero_and_counts_in_powers_of_2() -> None:
    ax = plot.tpot_vs_batch(deployment())
    assert ax.get_ylim()[0] == 0.0
    ticks = np.asarray(ax.get_xticks())
    assert np.all(np.log2(ticks) % 1 == 0)


def test_past_the_memory_is_hatched_not_only_coloured() -> None:
    ax = plot.tpot_vs_batch(deployment())
    (patch,) = [p for p in ax.patches if p.get_label() == "KV full"]
    assert patch.get_hatch() == "///"


def test_a_model_that_does_not_fit_says_so_in_the_title() -> None:
    axes = plot.latency(deployment("llama-2-70b"))
    assert title_of(axes[1]).startswith("Does not fit: 49.5 GiB over")
    figure: Any = axes[0].figure
    assert figure.texts[0].get_text() == "llama-2-70b does not fit on h100-sxm-80gb at batch 1"


def test_latency_carries_its_data() -> None:
    ttft, tpot = (ax.roofline_data for ax in usual_latency())
    assert list(ttft.columns) == ["prompt_tokens", "batch", "ttft_s", "ttft_floor_s", "ttft_bound", "asked"]
    assert (ttft["ttft_floor_s"] <= ttft["ttft_s"] * (1 + 1e-12)).all()
    assert sorted(set(tpot["context_tokens"])) == [2048.0, 8192.0, 32768.0]
    assert (ttft["asked"].sum(), tpot["asked"].sum()) == (1, 1)


def test_five_contexts_are_too_many_to_tell_apart() -> None:
    with pytest.raises(SpecError, match="up to 4, got 5"):
        plot.latency(deployment(), context_tokens=[1, 2, 3, 4, 5])


# errors


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"theme": "drak"}, "theme: expected light or dark, got 'drak'; did you mean dark?"),
        ({"size": "pages"}, "size: expected page or column or slide, got 'pages'; did you mean page?"),
        ({"size": None}, "size: expected page or column or slide, got None"),
        ({"batch": [1, 2]}, r"batch: expected one whole number, the point to mark, got \[1, 2\]"),
        ({"batch": 1.5}, "batch: expected one whole number"),
        ({"prompt_tokens": 0}, "prompt_tokens: expected a number >= 1"),
        ({"measured": [(1.0, 2.0)]}, r"measured\[0\]: expected \(intensity, flops_per_s, label\)"),
        ({"measured": [(-1.0, 2.0, "x")]}, r"measured\[0\] intensity: expected a number > 0"),
        ({"measured": "fast"}, "measured: expected a list"),
        ({"ax": 3}, "ax: expected one Axes, got int"),
    ],
)
def test_a_wrong_argument_says_what_was_expected(keywords: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        plot.roofline(deployment(), **keywords)
    assert not plt.get_fignums()


@pytest.mark.parametrize("given", [[], "llama", 3, [3]])
def test_what_is_no_deployment_is_refused(given: Any) -> None:
    with pytest.raises(SpecError, match="plot: expected"):
        plot.roofline(given)
    with pytest.raises(SpecError, match="plot: expected one Deployment"):
        plot.latency(given)


def test_measurements_belong_to_one_deployment() -> None:
    with pytest.raises(SpecError, match="measured: expected one deployment"):
        plot.roofline([deployment(), deployment()], measured=[(1.0, 1e12, "x")])


def test_a_figure_that_fails_while_drawn_is_not_left_open(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("drawing")

    monkeypatch.setattr("roofline.views.plot.roof_figure.letter_roof", fails)
    with pytest.raises(RuntimeError, match="drawing"):
        plot.roofline(deployment())
    assert not plt.get_fignums()


# files


def test_the_same_figure_gives_the_same_bytes(tmp_path: Path) -> None:
    again = plot.roofline(deployment())
    for suffix in (".svg", ".png", ".pdf"):
        first, second, other = (
            plot.save(ax, tmp_path / f"{name}{suffix}").read_bytes()
            for ax, name in ((usual(), "a"), (usual(), "b"), (again, "c"))
        )
        assert first == second == other


def test_an_svg_says_its_alt_text_and_no_date(tmp_path: Path) -> None:
    ax = usual()
    text = plot.save(ax, tmp_path / "a.svg").read_text(encoding="utf-8")
    assert f"<desc>{ax.roofline_alt}</desc>" in text
    assert "<title>Decode is memory-bound on h100-sxm-80gb" in text
    assert "<dc:date>" not in text


def test_a_figure_and_a_tuple_of_axes_are_saved_as_their_figure(tmp_path: Path) -> None:
    axes = usual_latency()
    one = plot.save(axes, tmp_path / "a.svg").read_bytes()
    assert plot.save(axes[0].figure, tmp_path / "b.svg").read_bytes() == one


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("a.jpg", r"expected a file ending in .png, .svg, .pdf, got \".jpg\"; did you mean .png"),
        ("a", "got no suffix"),
        ("no/such/a.png", "there is no folder"),
    ],
)
def test_a_wrong_path_says_what_was_expected(name: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=message):
        plot.save(usual(), tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_what_is_no_figure_is_not_saved(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="save: expected an Axes"):
        plot.save(3, tmp_path / "a.png")


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ax, target = plot.roofline(deployment()), tmp_path / "a.png"
    target.write_bytes(b"old")

    def full(self: Path, data: bytes) -> int:
        self.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(SpecError, match=r"a\.png: cannot be written \(No space left on device\)"):
        plot.save(ax, target)
    assert target.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.png"]


def test_naming_the_package_loads_neither_matplotlib_nor_pandas() -> None:
    code = "import sys, roofline; roofline.plot.roofline; print({'matplotlib', 'pandas'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=dict(os.environ))
    assert run.stdout.strip() == "set()"
