"""`plot.load_curve`: what stands on its axes, and what it says."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import cache
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
from drawn import title_of
from matplotlib import font_manager
from matplotlib.text import Text

import roofline as rl
from roofline.answers.serving.knee import knee, meets_up_to
from roofline.answers.serving.limits import curve
from roofline.views.plot import load_words, theme
from roofline.views.plot.lettering import width_pt, wrapped
from roofline.views.plot.load_points import load_points

matplotlib.use("Agg")

pytestmark = pytest.mark.usefixtures("tidy_pictures")

CHAT = rl.Workload.fixed(prompt_tokens=2048, output_tokens=256)
SLO = rl.SLO(ttft_p95_s=0.15)


@cache
def along() -> rl.Serving:
    d = rl.Deployment(model=rl.model("llama-3.1-8b"), hardware=rl.hardware("h100-sxm-80gb"), engine="vllm")
    found = curve(d, CHAT)
    assert found is not None
    return found


@cache
def points() -> rl.Serving:
    """Three simulated rates, from near none to near all."""
    s = along()
    rates = s.saturation_per_s * np.array([0.1, 0.5, 0.9])
    return rl.serve(s.deployment, CHAT, rate_per_s=rates, method="simulation", n_requests=300, n_runs=2)


def lines_of(ax: Any) -> dict[str, tuple[Any, ...]]:
    return {str(line.get_label()): tuple(np.asarray(v, dtype=float) for v in line.get_data()) for line in ax.lines}


def errors_of(ax: Any, i: int) -> Any:
    """Error bars, from end to end, of the percentiles in order."""
    return ax.collections[i].get_segments()


def heading(ax: Any) -> str:
    return str(ax.figure.texts[0].get_text())


def test_the_lines_are_the_closed_form_and_what_is_not_trusted_is_dotted() -> None:
    s = along()
    trusted = np.asarray(s.why) == ""
    for ax, kind in zip(rl.plot.load_curve(s), ("ttft", "tpot"), strict=True):
        drawn = lines_of(ax)
        for share in ("p50", "p95"):
            xs, ys = drawn[share]
            assert xs == pytest.approx(np.asarray(s.rate_per_s))
            assert ys[trusted] == pytest.approx(1e3 * np.asarray(getattr(s, f"{kind}_{share}_s"))[trusted])
            assert np.isnan(ys[~trusted]).all()
            assert np.isfinite(drawn[f"{share} not trusted"][1][~trusted]).all()
        styles = {str(line.get_label()): line.get_linestyle() for line in ax.lines}
        assert (styles["p50"], styles["p95"], styles["p50 not trusted"]) == ("-", "--", ":")


def test_saturation_and_knee_are_upright_lines_with_their_rates() -> None:
    s = along()
    at = knee(s)
    assert at is not None
    for ax in rl.plot.load_curve(s):
        drawn, texts = lines_of(ax), [t.get_text() for t in ax.texts]
        assert drawn["saturation"][0] == pytest.approx([s.saturation_per_s] * 2)
        assert drawn["knee"][0] == pytest.approx([at] * 2)
        assert f"saturates at {s.saturation_per_s:.1f}" in texts
        assert f"knee {at:.2f}" in texts


def test_ttft_is_on_a_log_axis_and_tpot_from_zero() -> None:
    ttft, tpot = rl.plot.load_curve(along())
    assert (ttft.get_yscale(), tpot.get_yscale()) == ("log", "linear")
    assert tpot.get_ylim()[0] == 0.0
    assert (ttft.get_ylabel(), tpot.get_ylabel()) == ("TTFT (ms)", "TPOT (ms)")
    assert ttft.get_xlim()[0] == 0.0


def test_the_title_is_the_finding() -> None:
    s = along()
    at, up_to = knee(s), meets_up_to(s, SLO)
    assert at is not None
    ttft, tpot = rl.plot.load_curve(s, slo=SLO)
    assert heading(ttft) == f"Knee at {at:.2f} req/s; p95 TTFT meets 150 ms up to {up_to:.2f}"
    assert title_of(ttft) == f"p95 TTFT doubles at {at:.2f} req/s"
    assert "at the knee" in title_of(tpot)
    assert any("knee: p95 TTFT over 2× its" in " ".join(t.get_text().split()) for t in ttft.figure.texts)


@pytest.mark.parametrize(
    ("slo", "ending"),
    [
        (None, "% of what it can serve"),
        (rl.SLO(ttft_p95_s=1e-3), "; p95 TTFT meets 1.00 ms at no rate"),
        (rl.SLO(ttft_p95_s=100.0), "at least"),
        (rl.SLO(ttft_p95_s=0.15, tpot_p95_s=0.02), "; the SLO is met up to"),
        (rl.SLO(e2e_mean_s=4.0), "; mean E2E meets 4 s up to"),
    ],
)
def test_the_title_says_what_becomes_of_a_promise(slo: rl.SLO | None, ending: str) -> None:
    assert ending in load_words.load_title(load_points(along(), slo=slo), "en")


def test_a_promise_is_a_dashed_level_on_its_own_panel_only() -> None:
    ttft, tpot = rl.plot.load_curve(along(), slo=SLO)
    assert lines_of(ttft)["SLO p95"][1] == pytest.approx([150.0, 150.0])
    assert "SLO p95" not in lines_of(tpot)
    assert "p95 ≤ 150 ms" in [t.get_text() for t in ttft.texts]


def test_simulated_points_stand_over_the_lines_with_their_errors() -> None:
    s, p = along(), points()
    ttft, tpot = rl.plot.load_curve(s, p)
    for ax, kind, marker in ((ttft, "ttft", "o"), (tpot, "tpot", "s")):
        xs, ys = lines_of(ax)["simulated p95"]
        assert xs == pytest.approx(np.asarray(p.rate_per_s))
        assert ys == pytest.approx(1e3 * np.asarray(getattr(p, f"{kind}_p95_s")))
        (mark,) = [line for line in ax.lines if line.get_label() == "simulated p95"]
        assert mark.get_marker() == marker
        bars = errors_of(ax, 1)
        half = 0.5 * (bars[0][1][1] - bars[0][0][1])
        assert half == pytest.approx(1e3 * p.errors[f"{kind}_p95_s"][0])  # type: ignore[index]


def test_the_title_does_not_contradict_the_points() -> None:
    """Where points begin near no load, knee and promise are theirs."""
    s, p = along(), points()
    higher = replace(p, ttft_p95_s=np.array([0.1, 0.4, 0.9]))
    slo = rl.SLO(ttft_p95_s=0.4)
    ttft, _ = rl.plot.load_curve(s, higher, slo)
    half = float(np.asarray(p.rate_per_s)[1])
    # 0.1 to 0.4 passes 0.2 in the middle of 10 % and 50 % of saturation
    assert heading(ttft) == f"Knee at {0.3 * s.saturation_per_s:.2f} req/s; p95 TTFT meets 400 ms up to {half:.2f}"
    assert any("by the simulated points" in " ".join(t.get_text().split()) for t in ttft.figure.texts)


def test_several_services_of_one_rate_are_as_one_of_several() -> None:
    p = points()
    each = [
        replace(
            p, errors={n: float(np.asarray(e)[i]) for n, e in p.errors.items()},
            **{
                n: np.asarray(getattr(p, n)).tolist()[i]
                for n in ("rate_per_s", "ttft_p50_s", "ttft_p95_s", "tpot_p50_s", "tpot_p95_s", "stable", "method")
            },
        )
        for i in range(3)
    ]  # fmt: skip
    one, other = load_points(along(), p, SLO), load_points(along(), each, SLO)
    assert one.to_frame("ttft").equals(other.to_frame("ttft"))
    assert (one.knee, one.up_to) == (other.knee, other.up_to)


def test_what_was_drawn_is_in_a_frame() -> None:
    ttft, tpot = rl.plot.load_curve(along(), points())
    for ax, kind in ((ttft, "ttft"), (tpot, "tpot")):
        frame: Any = ax.roofline_data  # type: ignore[attr-defined]
        assert set(frame["series"]) == {"line", "simulated"}
        assert {"rate_per_s", "trusted", f"{kind}_p50_s", f"{kind}_p95_s", f"{kind}_p95_error_s"} <= set(frame.columns)
        assert (frame["series"] == "simulated").sum() == 3


def test_the_alt_text_says_the_numbers() -> None:
    ttft, tpot = rl.plot.load_curve(along(), points(), SLO)
    for ax, word in ((ttft, "TTFT"), (tpot, "TPOT")):
        alt: str = ax.roofline_alt  # type: ignore[attr-defined]
        assert alt.startswith(f"{word} at p50 and p95 against requests a second")
        assert "3 points are simulated" in alt
        assert "\n" not in alt


def test_a_workload_and_replicas_stand_in_the_second_line() -> None:
    found = curve(along().deployment, CHAT, n_replicas=3)
    line = load_words.load_line(load_points(found), CHAT, "en")
    assert "3 replicas · 2,048 in / 256 out, Poisson arrivals" in line
    assert "vLLM" in line


# Chinese


def test_chinese_says_the_same_numbers() -> None:
    found = load_points(along(), points(), SLO)
    for say in (load_words.load_title, lambda c, lang: load_words.load_short(c, "tpot", lang)):
        english, chinese = (say(found, lang) for lang in ("en", "zh"))
        digits = [[w for w in text.replace("；", " ").replace("，", " ").split() if w[0].isdigit()]
                  for text in (english, chinese)]  # fmt: skip
        assert sorted(digits[0]) == sorted(digits[1])
    assert "权重与 KV" in load_words.load_line(found, CHAT, "zh")


def test_a_chinese_font_that_came_after_matplotlib_first_looked_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    known = font_manager.fontManager.ttflist
    files = {font.fname for font in known if font.name in theme.CHINESE}
    if not files:
        pytest.skip("no font with Chinese letters is installed")
    monkeypatch.setattr(font_manager.fontManager, "ttflist", [font for font in known if font.fname not in files])
    ax, _ = rl.plot.load_curve(along(), lang="zh")
    assert {*ax.xaxis.label.get_fontfamily()} & {*theme.CHINESE}


def test_without_a_chinese_font_chinese_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(theme, "CHINESE", ("No Such Font",))
    with pytest.raises(rl.SpecError, match="no font with Chinese letters is installed"):
        rl.plot.load_curve(along(), lang="zh")


@pytest.mark.filterwarnings("ignore:Glyph")
def test_with_one_the_picture_is_chinese(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(theme, "CHINESE", ("DejaVu Sans Mono",))
    ttft, _ = rl.plot.load_curve(along(), lang="zh", slo=SLO)
    assert heading(ttft).startswith("膝点在")
    assert ttft.get_xlabel() == "每秒到达的请求数"
    assert ttft.xaxis.label.get_fontfamily() == ["DejaVu Sans", "DejaVu Sans Mono"]


def test_chinese_letters_are_an_em_wide_and_lines_break_at_their_commas() -> None:
    assert width_pt("膝点", size=8.0) == 16.0
    assert wrapped("一二三，四五六；七", width=8.0 * 4, size=8.0) == "一二三，\n四五六；\n七"
    assert wrapped("one, two", width=1e3, size=8.0) == "one, two"


# The look


@pytest.mark.parametrize("size", ["page", "column", "slide"])
@pytest.mark.parametrize("with_points", [True, False])
def test_texts_keep_clear_of_each_other_and_inside_the_figure(size: Any, with_points: bool) -> None:
    axes = rl.plot.load_curve(along(), points() if with_points else None, SLO, size=size, theme="dark", workload=CHAT)
    figure: Any = axes[0].figure
    figure.canvas.draw()
    width, height = figure.get_size_inches() * figure.dpi
    hidden = {
        id(tick.label1)
        for ax in figure.axes for axis in (ax.xaxis, ax.yaxis) for tick in axis.get_major_ticks()
        if not min(axis.get_view_interval()) <= tick.get_loc() <= max(axis.get_view_interval())
    }  # fmt: skip
    texts = [t for t in figure.findobj(Text) if t.get_visible() and t.get_text().strip() and id(t) not in hidden]
    boxes = [(t, t.get_window_extent()) for t in texts if t.get_window_extent().width > 1.0]
    for text, box in boxes:
        assert float(text.get_fontsize()) >= 7.0
        assert -0.5 <= box.x0 <= box.x1 <= width + 0.5, text.get_text()
        assert -0.5 <= box.y0 <= box.y1 <= height + 0.5, text.get_text()
    for (text, a), (other, b) in itertools.combinations(boxes, 2):
        across, down = min(a.x1, b.x1) - max(a.x0, b.x0), min(a.y1, b.y1) - max(a.y0, b.y0)
        assert across <= 1.0 or down <= 2.5, (text.get_text(), other.get_text())


def test_given_axes_are_drawn_on() -> None:
    figure, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
    assert rl.plot.load_curve(along(), ax=axes) == tuple(axes)
    assert plt.get_fignums() == [figure.number]


# What makes no sense


@pytest.mark.parametrize(
    ("given", "keywords", "told"),
    [
        ("llama", {}, "expected a Serving, got 'llama'"),
        (None, {"slo": 3}, "expected an SLO, got 3"),
        (None, {"simulated": "x"}, r"load_curve\(simulated\): expected a Serving or several"),
        (None, {"simulated": []}, r"load_curve\(simulated\): expected a Serving or several"),
        (None, {"workload": "chat"}, r"load_curve\(workload\): expected a Workload"),
        (None, {"lang": "fr"}, "lang: expected en or zh, got 'fr'"),
        (None, {"theme": "drak"}, "did you mean dark"),
        (None, {"ax": 3}, "a sequence of 2 Axes"),
    ],
)
def test_a_wrong_argument_says_what_was_expected(given: Any, keywords: dict[str, Any], told: str) -> None:
    with pytest.raises(rl.SpecError, match=told):
        rl.plot.load_curve(along() if given is None else given, **keywords)
    assert not plt.get_fignums()


def test_points_of_the_closed_form_are_no_simulation() -> None:
    with pytest.raises(rl.SpecError, match="expected simulations"):
        rl.plot.load_curve(along(), along())


@pytest.mark.parametrize(
    ("shares", "told"),
    [
        ([0.5], "at least 8 rates below saturation"),
        (np.linspace(0.3, 0.9, 20), "a lowest rate near 0"),
        (np.linspace(2.0, 3.0, 20), "at least 8 rates below saturation"),
    ],
)
def test_too_few_rates_are_no_curve(shares: Any, told: str) -> None:
    s = along()
    rates = np.asarray(shares) * s.saturation_per_s
    with pytest.raises(rl.SpecError, match=told):
        rl.plot.load_curve(rl.serve(s.deployment, CHAT, rate_per_s=rates, method="closed form"))


def test_what_does_not_fit_has_no_curve() -> None:
    big = rl.Deployment(model=rl.model("llama-3.1-70b"), hardware=rl.hardware("h100-sxm-80gb"))
    with pytest.raises(rl.SpecError, match="no request fits"):
        rl.plot.load_curve(rl.serve(big, CHAT, rate_per_s=np.linspace(0.1, 1, 20)))
