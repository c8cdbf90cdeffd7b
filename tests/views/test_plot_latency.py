"""The latencies with an engine and a promise: bands, crossings, chunks; and every picture in Chinese."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import matplotlib
import numpy as np
import pytest
from drawn import line_of, of, title_of

import roofline as rl
from roofline.answers.chunks import first_token
from roofline.views.plot.latency_points import ttft_curve
from roofline.views.plot.request import Request

matplotlib.use("Agg")

pytestmark = pytest.mark.usefixtures("tidy_pictures")


# bands


def test_an_engine_has_a_band_that_is_the_interval_of_predict() -> None:
    d = of(engine="vllm")
    ttft, tpot = (ax.roofline_data for ax in rl.plot.latency(d, prompt_tokens=2048, batch=4))  # type: ignore[attr-defined]
    p = rl.predict(d, prompt_tokens=2048, output_tokens=2, batch=4)
    row = ttft.query("asked").iloc[0]
    assert (row["ttft_low_s"], row["ttft_high_s"]) == pytest.approx((p.ttft_low_s, p.ttft_high_s))
    # two output tokens are one decode pass after 2048 tokens: the first line's own context
    row = tpot.query("asked").iloc[0]
    assert (row["tpot_low_s"], row["tpot_high_s"]) == pytest.approx((p.tpot_low_s, p.tpot_high_s))


def test_the_band_is_drawn_around_the_estimate_and_the_ideal_machine_has_none() -> None:
    ax: Any = rl.plot.ttft_vs_prompt(of(engine="vllm"))
    (band,) = [c for c in ax.collections if c.get_label() == "band"]
    corners = band.get_paths()[0].vertices
    frame = ax.roofline_data
    assert corners[:, 1].max() == pytest.approx(frame["ttft_high_s"].max(), rel=1e-6)
    ideal: Any = rl.plot.ttft_vs_prompt(of())
    assert "ttft_low_s" not in ideal.roofline_data
    assert not [c for c in ideal.collections if c.get_label() == "band"]


def test_one_panel_says_what_evidence_there_is() -> None:
    for ax in (rl.plot.ttft_vs_prompt(of(engine="vllm")), rl.plot.tpot_vs_batch(of(engine="vllm"))):
        figure: Any = ax.figure
        assert any("measured: 9 figures of vLLM" in text.get_text() for text in figure.texts)


# promises


def test_the_title_says_the_longest_prompt_that_keeps_the_promise() -> None:
    d = of()
    ax = rl.plot.ttft_vs_prompt(d, slo=rl.SLO(ttft_p95_s=0.5))
    (n,) = (
        int(word.replace(",", "")) for word in title_of(ax).split() if word.replace(",", "").isdigit() and "," in word
    )
    assert title_of(ax) == f"TTFT passes 500 ms above {n:,} prompt tokens"
    kept, broken = np.asarray(first_token(d, prompt_tokens=[n, n + 1]).seconds)
    assert kept <= 0.5 < broken
    (x,), (y,) = line_of(ax, "crossing").get_data()
    assert (x, y) == (n, 500.0)
    assert list(line_of(ax, "SLO").get_ydata()) == [500.0, 500.0]


def test_the_title_says_the_largest_batch_that_keeps_the_promise() -> None:
    d = of()
    ax = rl.plot.tpot_vs_batch(d, context_tokens=2048, slo=rl.SLO(tpot_p50_s=0.02, tpot_p95_s=0.01))
    n = int(title_of(ax).rsplit(" ", 1)[1])
    assert title_of(ax) == f"TPOT stays under 10.0 ms up to batch {n}"  # the tightest of the two
    kept, broken = np.asarray(rl.decode(d, context_tokens=2048, batch=[n, n + 1]).seconds)
    assert kept <= 0.01 < broken


@pytest.mark.parametrize(
    ("slo", "titles"),
    [
        (rl.SLO(ttft_p95_s=1e-4), ["TTFT is over 100 µs for any prompt", "TPOT goes from"]),
        (
            rl.SLO(ttft_p95_s=1e4),
            ["TTFT stays under 10,000 s up to 131,072 prompt tokens, all that fit", "TPOT goes from"],
        ),
        (rl.SLO(tpot_p95_s=1e-4), ["Prefill turns compute-bound", "TPOT is over 100 µs at any batch"]),
        (
            rl.SLO(tpot_p95_s=9.0),
            ["Prefill turns compute-bound", "TPOT stays under 9 s up to batch 258, all that fits"],
        ),
    ],
)
def test_a_promise_that_is_always_or_never_kept_says_so(slo: rl.SLO, titles: list[str]) -> None:
    for ax, title in zip(rl.plot.latency(of(), slo=slo), titles, strict=True):
        assert title_of(ax).startswith(title)


def test_what_is_no_promise_is_refused() -> None:
    with pytest.raises(rl.SpecError, match=r"expected an SLO, got 0\.5"):
        rl.plot.ttft_vs_prompt(of(), slo=0.5)  # type: ignore[arg-type]


# passes, attention, rates


def test_ticks_stand_at_prompts_that_fill_a_pass() -> None:
    d = of(engine=rl.engine("ideal").varied(batch_tokens=2048))
    ax = rl.plot.ttft_vs_prompt(d, batch=2)
    # two prompts share the 2048 tokens of a pass
    assert list(line_of(ax, "cuts").get_xdata()) == [1024.0 * k for k in range(1, 9)]
    assert "cuts" not in {line.get_label() for line in rl.plot.ttft_vs_prompt(of()).lines}


def test_attention_is_half_of_the_work_where_its_flops_equal_the_rest() -> None:
    """Llama-2-7B: 32 · (4·4096·T/2) a token against 2 · 6.476e9 in its matrices: T = 49,409."""
    d = of("llama-2-7b").model
    request = Request(prompt_tokens=2048.0, output_tokens=1, context_tokens=None, longest_tokens=2048.0, batch=1.0)
    long = d.model_copy(update={"max_context_tokens": 131072})
    half = ttft_curve(rl.Deployment(model=long, hardware=rl.hardware("h200")), request).half
    n_matrices = 32 * (4 * 4096**2 + 3 * 4096 * 11008)
    assert half == pytest.approx(2 * n_matrices / (32 * 4 * 4096 / 2), rel=0.01)


def test_the_lane_under_tpot_is_tokens_a_second() -> None:
    ax: Any = rl.plot.tpot_vs_batch(of(), context_tokens=[2048, 8192], batch=8)
    xs, ys = line_of(ax.roofline_lane, "context 8192").get_data()
    seconds = np.asarray(rl.decode(of(), context_tokens=8192, batch=xs).seconds)
    assert np.asarray(ys) == pytest.approx(np.asarray(xs) / seconds)
    assert (ax.roofline_lane.get_ylabel(), ax.roofline_lane.get_xlabel()) == ("tok/s", "Batch (sequences)")


# Chinese

PICTURES: dict[str, Callable[..., Any]] = {
    "roofline": lambda **k: rl.plot.roofline(of(engine="vllm"), ops=True, **k),
    "latency": lambda **k: rl.plot.latency(of(engine="vllm"), slo=rl.SLO(ttft_p95_s=0.5), **k),
    "heatmap": lambda **k: rl.plot.latency_heatmap(of(), **k),
    "memory": lambda **k: rl.plot.memory(of(engine="vllm"), **k),
    "kv": lambda **k: rl.plot.kv_growth(rl.model("llama-3.1-8b"), hardware=rl.hardware("h100"), batch=[1, 8], **k),
    "breakdown": lambda **k: rl.plot.time_breakdown(of(), **k),
    "without flash": lambda **k: rl.plot.without_flash(of(), **k),
    "accuracy": lambda **k: rl.plot.predicted_against_measured(**k),
    "residuals": lambda **k: rl.plot.residuals(by="phase", **k),
}


@pytest.mark.usefixtures("chinese_letters")
@pytest.mark.filterwarnings("ignore:Glyph")
@pytest.mark.parametrize("name", PICTURES)
def test_every_picture_speaks_chinese_and_draws_the_same(name: str) -> None:
    drawn = [PICTURES[name](lang=lang) for lang in ("en", "zh")]
    english, chinese = (axes if isinstance(axes, tuple) else (axes,) for axes in drawn)
    for a, b in zip(english, chinese, strict=True):
        names = [c for c in a.roofline_data.columns if c != "label"]
        assert a.roofline_data[names].equals(b.roofline_data[names])
        for said in (b.get_title(loc="left"), b.roofline_alt):
            assert any("\u2e80" <= letter <= "\u9fff" for letter in said)
