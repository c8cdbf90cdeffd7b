"""`plot.memory`: bars that are the library's own bytes, limits where they are, and a title that cannot contradict them."""

from __future__ import annotations

from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
from drawn import of, title_of

import roofline as rl
from roofline.views.plot.memory_axes import HATCHES

matplotlib.use("Agg")

pytestmark = pytest.mark.usefixtures("tidy_pictures")
GIB = 2.0**30


def patches(ax: Any, label: str) -> list[Any]:
    return [patch for c in ax.containers if c.get_label() == label for patch in c]


def bars(ax: Any, label: str) -> list[tuple[float, float, float]]:
    """(left, width, row) of the bars of a piece, in GiB."""
    found = patches(ax, label)
    return [(p.get_x(), p.get_width(), p.get_y() + p.get_height() / 2.0) for p in found]


def test_pieces_stand_end_to_end_and_are_the_bytes_of_memory() -> None:
    d = of("llama-3.1-8b", engine="vllm")
    m = rl.memory(d, context_tokens=8192, batch=32)
    ax = rl.plot.memory(d, context_tokens=8192, batch=32)
    expected = {
        "weights": m.weight_bytes_per_chip, "kv": float(m.allocated_kv_bytes_per_chip),
        "activations": m.activation_bytes_per_chip, "runtime": m.runtime_bytes_per_chip,
    }  # fmt: skip
    end = 0.0
    for piece, n_bytes in expected.items():
        ((left, width, row),) = bars(ax, piece)
        assert (left, width, row) == pytest.approx((end, n_bytes / GIB, 0.0))
        end += width
    ((left, width, _),) = bars(ax, "free")
    assert left == pytest.approx(end)
    assert left + width == pytest.approx(m.usable_bytes_per_chip / GIB)
    # 32 sequences of 8192 tokens at 128 KiB a token
    assert expected["kv"] == 32 * 8192 * 131072


def test_limits_are_the_engine_s_budget_and_the_device() -> None:
    ax = rl.plot.memory(of("llama-3.1-8b", engine="vllm"))
    lines = {str(line.get_label()): line for line in ax.lines}
    # vLLM takes 0.92 of what the driver reports, 81559 MiB, less what it keeps aside
    usable = rl.memory(of("llama-3.1-8b", engine="vllm"), context_tokens=2303, batch=8).usable_bytes_per_chip
    assert np.asarray(lines["device"].get_xdata()) == pytest.approx([81559 / 1024] * 2)
    assert np.asarray(lines["budget"].get_xdata()) == pytest.approx([usable / GIB] * 2)
    assert lines["budget"].get_linestyle() == "--"
    ideal = rl.plot.memory(of("llama-3.1-8b"))
    assert "budget" not in {str(line.get_label()) for line in ideal.lines}  # the machine itself keeps nothing aside


def test_over_the_budget_is_hatched_and_said() -> None:
    ax = rl.plot.memory(of("llama-2-70b"), context_tokens=1, batch=1)
    ((left, width, _),) = bars(ax, "over")
    # 68,976,648,192 weights of 2 B, and one token of 320 KiB, over 81559 MiB
    held = 2 * 68_976_648_192 + 2 * 80 * 8 * 128 * 2
    assert left == pytest.approx(81559 / 1024)
    assert width == pytest.approx((held - 81559 * 2**20) / GIB)
    assert title_of(ax) == "Does not fit: 48.8 GiB over"
    assert not bars(ax, "free")
    (patch,) = patches(ax, "over")
    assert set(patch.get_hatch()) == {"\\"}


def test_pieces_differ_by_hatch_and_not_by_colour_alone() -> None:
    ax = rl.plot.memory(of("llama-3.1-8b", engine="vllm"))
    hatches = {piece: patch.get_hatch() or "" for piece in HATCHES for patch in patches(ax, piece)}
    assert len(set(hatches.values())) == len(hatches) == 4


def test_several_deployments_are_bars_named_by_what_sets_them_apart() -> None:
    plans = [of("llama-3.1-70b", plan=rl.Plan(tp=n), engine="vllm") for n in (1, 2, 4)]
    ax: Any = rl.plot.memory(plans, context_tokens=8192, batch=16)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["1 chip", "tp 2", "tp 4"]
    assert title_of(ax) == "1 of 3 fit: tp 4"
    assert sorted(row for _, _, row in bars(ax, "weights")) == [0.0, 1.0, 2.0]
    frame = ax.roofline_data
    assert list(frame.query("piece == 'weights'")["fits"]) == [False, False, True]


def test_a_prediction_brings_its_request_and_its_draft() -> None:
    d = of("llama-3.1-8b", engine="vllm")
    drafting = rl.Drafting(
        drafter=rl.Drafter(kind="draft_model", deployment=of("llama-3.2-1b", engine="vllm")), n_drafts=4, acceptance=0.7
    )
    p = rl.predict(d, prompt_tokens=1024, output_tokens=129, batch=4, drafting=drafting)
    ax: Any = rl.plot.memory(p)
    sizes = ax.roofline_data.set_index("piece")["bytes"]
    assert sizes["draft"] == pytest.approx(float(p.memory.other_bytes_per_chip))
    # 1024 + 129 − 1 tokens of 4 sequences, in pages of 16: 72 pages each
    assert sizes["kv"] == 4 * 72 * 16 * 131072
    assert sizes.drop("free").sum() == pytest.approx(float(p.memory.allocated_bytes_per_chip))


@pytest.mark.usefixtures("chinese_letters")
@pytest.mark.filterwarnings("ignore:Glyph")
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_model_with_recurrent_layers_says_that_state_is_in_it(lang: Any) -> None:
    ax: Any = rl.plot.memory(of("nemotron-h-8b"), lang=lang)
    words = [text.get_text() for text in ax.get_legend().get_texts()]
    assert {"en": "KV cache and state", "zh": "KV 缓存与状态"}[lang] in words


def test_the_alt_text_has_every_piece() -> None:
    ax: Any = rl.plot.memory(of("llama-3.1-8b", engine="vllm"))
    for part in ("Fits: ", "weights 15.0 GiB", "activations", "the engine may use 72.9 GiB of 79.6 GiB"):
        assert part in ax.roofline_alt


def test_thirteen_bars_and_a_context_of_several_are_refused() -> None:
    with pytest.raises(rl.SpecError, match="up to 12 deployments"):
        rl.plot.memory([of("llama-3.1-8b")] * 13)
    with pytest.raises(rl.SpecError, match="context_tokens: expected one whole number"):
        rl.plot.memory(of("llama-3.1-8b"), context_tokens=[1, 2])
    assert not plt.get_fignums()
