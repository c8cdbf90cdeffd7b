"""`plot.latency_heatmap`: cells that are the library's own times, and edges that are the promise's."""

from __future__ import annotations

from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
from drawn import of

import roofline as rl
from roofline.answers.chunks import first_token

matplotlib.use("Agg")

pytestmark = pytest.mark.usefixtures("tidy_pictures")


def test_a_cell_is_what_the_library_answers() -> None:
    d = of("llama-3.1-8b", engine="vllm")
    ttft, tpot = (ax.roofline_data for ax in rl.plot.latency_heatmap(d))  # type: ignore[attr-defined]
    one = ttft.query("prompt_tokens == 2048 and batch == 4")["ttft_s"].item()
    assert one == pytest.approx(float(first_token(d, prompt_tokens=2048, batch=4).seconds))
    other = tpot.query("context_tokens == 8192 and batch == 16")["tpot_s"].item()
    assert other == pytest.approx(float(rl.decode(d, context_tokens=8192, batch=16).seconds))


def test_what_is_drawn_is_the_data_and_crosses_stand_where_nothing_fits() -> None:
    _, ax = rl.plot.latency_heatmap(of("llama-3.1-8b", "rtx-4090"))
    frame: Any = ax.roofline_data  # type: ignore[attr-defined]
    cells: Any = ax.collections[0].get_array()
    drawn = np.ma.filled(cells.ravel(), np.nan)
    assert drawn == pytest.approx(1e3 * frame["tpot_s"].to_numpy(), nan_ok=True)
    (crosses,) = [line for line in ax.lines if line.get_label() == "does not fit"]
    assert np.size(crosses.get_xdata()) == int((~frame["fits"]).sum()) > 0
    # 24 GiB less 15 GiB of weights hold 9 GiB of cache: 2^16 tokens are 8 GiB, twice that is not
    fits = frame.set_index(["context_tokens", "batch"])["fits"]
    assert fits[(2048.0, 32.0)]
    assert not fits[(2048.0, 64.0)]


def test_cells_are_powers_of_2_and_the_one_asked_about_is_boxed() -> None:
    for ax in rl.plot.latency_heatmap(of("llama-3.1-8b"), prompt_tokens=2000, output_tokens=100, batch=7):
        box: Any = next(p for p in ax.patches if p.get_label() == "asked")
        frame: Any = ax.roofline_data  # type: ignore[attr-defined]
        tokens = np.unique(frame.iloc[:, 0])
        assert np.all(np.log2(tokens) % 1 == 0)
        assert tokens[round(box.get_x())] == 2048
        assert np.unique(frame["batch"])[round(box.get_y())] == 8
        assert (len(tokens), frame["batch"].nunique()) <= (12, 10)


def test_the_promise_runs_between_cells_that_keep_it_and_cells_that_break_it() -> None:
    slo = rl.SLO(ttft_p95_s=0.5, tpot_p95_s=0.012)
    for ax, limit in zip(
        rl.plot.latency_heatmap(of("llama-3.1-8b", engine="vllm"), slo=slo), (0.5, 0.012), strict=True
    ):
        frame: Any = ax.roofline_data  # type: ignore[attr-defined]
        n_across = frame.iloc[:, 0].nunique()
        seconds = frame.iloc[:, 2].to_numpy().reshape(-1, n_across)
        (line,) = [line for line in ax.lines if line.get_label() == "SLO"]
        xs, ys = (np.asarray(v, dtype=float).reshape(-1, 3)[:, :2] for v in line.get_data())
        walls = 0
        for (x0, x1), (y0, _) in zip(xs, ys, strict=True):
            mine, other = (
                (seconds[int(y0), int(x0) - 1], seconds[int(y0), int(x0)]) if x0 == x1
                else (seconds[int(y0) - 1, int(x0)], seconds[int(y0), int(x0)])
            )  # fmt: skip
            assert min(mine, other) <= limit < max(mine, other)
            walls += 1
        keeps, fits = seconds <= limit, np.isfinite(seconds)
        expected = sum(
            int(np.sum((keeps[a] != keeps[b]) & fits[a] & fits[b]))
            for a, b in (
                ((slice(None), slice(1, None)), (slice(None), slice(-1))),
                ((slice(1, None), slice(None)), (slice(-1), slice(None))),
            )
        )
        assert walls == expected > 0


def test_titles_count_the_cells_that_keep_it() -> None:
    axes = rl.plot.latency_heatmap(of("llama-3.1-8b"), slo=rl.SLO(tpot_p50_s=0.01))
    frame: Any = axes[1].roofline_data  # type: ignore[attr-defined]
    n, n_all = int(frame["kept"].sum()), int(frame["fits"].sum())
    assert f"TPOT within 10.0 ms in {n} of {n_all} cells" in axes[1].get_title(loc="left").replace("\n", " ")
    assert axes[0].get_title(loc="left").startswith("TTFT from")  # nothing is promised of it


def test_each_cell_says_its_value_in_letters_that_stand_out() -> None:
    ax, _ = rl.plot.latency_heatmap(of("llama-3.1-8b"))
    frame: Any = ax.roofline_data  # type: ignore[attr-defined]
    texts = [t for t in ax.texts if t.get_position()[1] % 1 == 0.5 and t.get_position()[0] % 1 == 0.5]
    assert len(texts) == int(frame["fits"].sum())
    milliseconds = {t: float(t.get_text().removesuffix("k")) * (1e3 if t.get_text()[-1] == "k" else 1.0) for t in texts}
    darkest, lightest = (edge(texts, key=lambda t: milliseconds[t]) for edge in (min, max))
    assert milliseconds[lightest] == pytest.approx(1e3 * frame["ttft_s"].max(), rel=0.05)
    assert (darkest.get_color(), lightest.get_color()) == ("#FFFFFF", "#000000")


def test_cells_too_narrow_for_letters_have_a_bar_of_colours() -> None:
    figure, axes = plt.subplots(1, 2, figsize=(4.6, 3.4), layout="constrained")
    rl.plot.latency_heatmap(of("llama-3.1-8b"), ax=axes)
    assert hasattr(axes[0], "roofline_bar")
    assert len(figure.axes) == 4


def test_a_model_that_fits_nowhere_says_so_and_an_encoder_is_refused(tmp_path: Any) -> None:
    axes = rl.plot.latency_heatmap(of("llama-3.1-70b"))
    assert axes[0].figure.texts[0].get_text() == "llama-3.1-70b does not fit on h100-sxm-80gb"
    assert not axes[0].roofline_data["fits"].any()  # type: ignore[attr-defined]
    with pytest.raises(rl.SpecError, match="slo"):
        rl.plot.latency_heatmap(of("llama-3.1-8b"), slo=0.5)  # type: ignore[arg-type]
