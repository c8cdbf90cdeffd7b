"""`plot.time_breakdown`: bars that are the clock's own seconds, and add up to the pass."""

from __future__ import annotations

from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
from drawn import of

import roofline as rl
from roofline.views.plot.ops_axes import HATCHES

matplotlib.use("Agg")

pytestmark = pytest.mark.usefixtures("tidy_pictures")


def bar_of(ax: Any, label: str) -> Any:
    (patch,) = [patch for c in ax.containers if c.get_label() == label for patch in c]
    return patch


def test_a_bar_is_the_time_of_its_op_in_all_layers() -> None:
    d = of("llama-3.1-8b")
    prefill, decode = rl.plot.time_breakdown(d, prompt_tokens=2048, output_tokens=256, batch=8)
    # gate: 2 FLOP · 8·2048 tokens · 4096 · 14336 · 32 layers at 989.4 TFLOP/s
    assert bar_of(prefill, "gate_proj").get_width() == pytest.approx(
        1e3 * 2 * 8 * 2048 * 4096 * 14336 * 32 / 989.4e12, rel=1e-6
    )
    rows = [{r["name"]: r for r in t.by_op()} for t in (
        rl.prefill(d, prompt_tokens=2048, batch=8), rl.decode(d, context_tokens=2175, batch=8),
    )]  # fmt: skip
    assert bar_of(decode, "attention").get_width() == pytest.approx(1e3 * float(rows[1]["attention"]["seconds"]))
    (tick,) = [line for line in prefill.lines if line.get_label() == "gate_proj other"]
    assert np.asarray(tick.get_xdata()) == pytest.approx([1e3 * float(rows[0]["gate_proj"]["memory_s"])] * 2)


@pytest.mark.parametrize(
    ("model", "chip", "more"),
    [
        ("llama-3.1-8b", "h100-sxm-80gb", {"engine": "vllm"}),
        ("gpt-oss-20b", "m5-max", {"engine": "mlx"}),
        ("deepseek-v3", "h200", {"plan": rl.Plan(tp=8), "engine": "sglang"}),
        ("whisper-large-v3", "h100-sxm-80gb", {}),
        ("llama-3.1-8b", "rtx-4090", {"offload": "host:0.5", "weights": "q4_k_m"}),
    ],
)
def test_bars_add_up_to_the_pass(model: str, chip: str, more: dict[str, Any]) -> None:
    d = of(model, chip, **more)
    prompt = 4 if model.startswith("whisper") else 512
    p = rl.predict(d, prompt_tokens=prompt, output_tokens=64, batch=2)
    axes: Any = rl.plot.time_breakdown(p)
    assert p.decode is not None
    for ax, timing in zip(axes, (p.prefill, p.decode), strict=True):
        assert ax.roofline_data["seconds"].sum() == pytest.approx(float(timing.seconds), rel=1e-9)
        assert ax.roofline_data["share"].sum() == pytest.approx(1.0)


def test_bars_are_sorted_and_small_ones_are_told_together_last() -> None:
    (ax, _) = rl.plot.time_breakdown(of("llama-3.1-8b"))
    frame: Any = ax.roofline_data  # type: ignore[attr-defined]
    told = frame[frame["n"] == 1]
    assert list(told["seconds"]) == sorted(told["seconds"], reverse=True)
    assert (told["share"] >= 0.02).all()
    assert list(frame["n"])[-1] > 1
    assert [label.get_text() for label in ax.get_yticklabels()][-1] == f"other ({frame['n'].iloc[-1]})"


def test_what_binds_is_hatched_and_written() -> None:
    axes = rl.plot.time_breakdown(of("llama-3.1-70b", plan=rl.Plan(tp=2)))
    for ax in axes:
        frame: Any = ax.roofline_data  # type: ignore[attr-defined]
        said = [text.get_text() for text in ax.texts]
        for _, bar in frame[frame["n"] == 1].iterrows():
            assert (bar_of(ax, bar["name"]).get_hatch() or "") == HATCHES[bar["bound"]]
            assert any(text.startswith(f"{bar['bound']}, ") for text in said)
    assert "link" in set(axes[0].roofline_data["bound"])  # type: ignore[attr-defined]


def test_groups_of_layers_are_one_op_and_a_tower_s_ops_stay_its_own() -> None:
    (ax, _) = rl.plot.time_breakdown(of("gpt-oss-20b"))
    names = set(ax.roofline_data["name"])  # type: ignore[attr-defined]
    assert "expert_gate_proj" in names
    assert not any(name.startswith(("local.", "global.")) for name in names)
    (heard, _) = rl.plot.time_breakdown(of("whisper-large-v3"), prompt_tokens=4, output_tokens=10)
    assert "audio.up_proj" in set(heard.roofline_data["name"])  # type: ignore[attr-defined]


def test_an_answer_of_one_token_has_one_panel() -> None:
    axes = rl.plot.time_breakdown(of("llama-3.1-8b"), output_tokens=1)
    assert len(axes) == 1
    assert axes[0].get_title(loc="left").startswith("Compute binds")


def test_waiting_for_another_memory_is_a_bar() -> None:
    d = of("llama-3.1-8b", "rtx-4090", offload="host:0.5", weights="q4_k_m")
    (_, decode) = rl.plot.time_breakdown(d, batch=1)
    assert decode.get_yticklabels()[0].get_text() == "another memory"
    timing = rl.decode(d, context_tokens=2175, batch=1)
    assert bar_of(decode, "offload").get_width() == pytest.approx(1e3 * float(timing.tier_exposed_s))


def test_given_axes_are_as_many_as_phases() -> None:
    _, axes = plt.subplots(1, 2)
    assert rl.plot.time_breakdown(of("llama-3.1-8b"), ax=axes) == tuple(axes)
    with pytest.raises(rl.SpecError, match="a sequence of 2 Axes"):
        rl.plot.time_breakdown(of("llama-3.1-8b"), ax=axes[0])
