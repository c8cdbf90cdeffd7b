"""`plot.kv_growth`: what stands on its axes, and what it says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import roofline as rl
from roofline.views.plot.growth_points import kind_of

pytestmark = pytest.mark.usefixtures("tidy_pictures")

NAMES = ("llama-2-7b", "llama-3.1-8b", "gemma-3-27b", "deepseek-v3", "qwen3-next-80b-a3b")


def models() -> list[rl.Model]:
    return [rl.model(name) for name in NAMES]


def test_each_line_is_cache_and_state_up_to_the_model_s_own_limit() -> None:
    ax: Any = rl.plot.kv_growth(models(), batch=2, kv="fp8")
    drawn = {line.get_label(): line.get_data() for line in ax.lines if line.get_label() in NAMES}
    assert set(drawn) == set(NAMES)
    for m in models():
        contexts, gib = (np.asarray(values, dtype=float) for values in drawn[m.id])
        assert contexts[0] == 128
        assert contexts[-1] == m.max_context_tokens
        expected = rl.kv_bytes(m, context_tokens=contexts, batch=2, kv="fp8") + rl.state_bytes(m, batch=2)
        assert np.asarray(gib) == pytest.approx(np.asarray(expected) / 2**30)


def test_chips_are_levels_at_all_their_memory() -> None:
    chips = [rl.hardware(name) for name in ("rtx-5090", "h100-sxm-80gb")]
    ax: Any = rl.plot.kv_growth(models(), hardware=chips)
    levels = {line.get_label(): line.get_ydata()[0] for line in ax.lines if line.get_label() in {c.id for c in chips}}
    assert levels == {c.id: c.memory_bytes / 2**30 for c in chips}
    held = ax.roofline_data.query("series == 'memory'")
    assert list(held["label"]) == ["rtx-5090", "h100-sxm-80gb"]


def test_kinds_are_told_apart_by_dash_as_well_as_by_colour() -> None:
    assert [kind_of(m) for m in models()] == ["MHA", "GQA", "windows", "latent", "hybrid"]
    ax: Any = rl.plot.kv_growth(models())
    looks = {(str(line.get_color()), str(line.get_linestyle())) for line in ax.lines if line.get_label() in NAMES}
    assert len(looks) == 5


def test_the_title_is_the_finding_and_the_alt_text_has_every_end() -> None:
    """Llama-2-7B keeps 512 KiB a token, DeepSeek-V3 68.6: 7.5 times; Qwen3-Next at 4096: 96 MiB and 73.7 of state."""
    ax: Any = rl.plot.kv_growth(models())
    assert (
        ax.get_title(loc="left").replace("\n", " ")
        == "At 4,096 tokens llama-2-7b keeps 12x what qwen3-next-80b-a3b does"
    )
    assert all(name in ax.roofline_alt for name in NAMES)
    alone = rl.plot.kv_growth(rl.model("llama-2-7b"), size="column", theme="dark")
    assert alone.get_title(loc="left").replace("\n", " ") == "llama-2-7b keeps 2.00 GiB of 4,096 tokens"


@pytest.mark.parametrize(
    ("given", "told"),
    [([], "expected 1 to 12 models"), (["llama"], "expected a Model"), ("llama-2-7b", "expected a Model")],
)
def test_what_is_no_model_is_refused(given: object, told: str) -> None:
    with pytest.raises(rl.SpecError, match=told):
        rl.plot.kv_growth(given)  # type: ignore[arg-type]


def test_names_at_the_ends_keep_their_distance() -> None:
    """Labels of lines that end together are spread, each a line of text from the next."""
    ax: Any = rl.plot.kv_growth([rl.model(n) for n in ("llama-3.1-8b", "qwen3-8b", "mistral-7b-v0.3", "llama-3.2-3b")])
    heights = sorted(
        t.get_position()[1]
        for t in ax.texts
        if t.get_text() in {"llama-3.1-8b", "qwen3-8b", "mistral-7b-v0.3", "llama-3.2-3b"}
    )
    assert len(heights) == 4
    assert np.diff(heights).min() > 0.02


# one model, several batches


def test_one_model_has_a_line_a_batch_and_its_weights_as_a_level() -> None:
    m = rl.model("llama-3.1-8b")
    ax: Any = rl.plot.kv_growth(m, batch=[1, 8, 64], hardware=rl.hardware("h100"))
    lines = {str(line.get_label()): line for line in ax.lines}
    for batch in (1, 8, 64):
        contexts, gib = (np.asarray(v, dtype=float) for v in lines[f"batch {batch}"].get_data())
        assert gib == pytest.approx(batch * contexts * 131072 / 2**30)  # 2 · 8 · 128 · 32 · 2 B a token
    assert list(lines["weights"].get_ydata()) == pytest.approx([2 * 8_030_261_248 / 2**30] * 2)


def test_marks_stand_where_the_cache_outgrows_the_weights() -> None:
    """Llama-3.1-8B in bf16: 16,060,522,496 B over 131,072 B a token are 122,532 tokens of one sequence."""
    ax: Any = rl.plot.kv_growth(rl.model("llama-3.1-8b"), batch=[1, 8])
    (marks,) = [line for line in ax.lines if line.get_label() == "outgrows"]
    assert list(marks.get_xdata()) == [122533.0, 15317.0]
    assert ax.get_title(loc="left") == "At batch 8 the cache outgrows the weights at 15,317 tokens"
    quarter: Any = rl.plot.kv_growth(rl.model("llama-3.1-8b"), weights="int8")
    (mark,) = [line for line in quarter.lines if line.get_label() == "outgrows"]
    assert mark.get_xdata()[0] < 122533 / 1.5


@pytest.mark.parametrize(
    ("models", "keywords", "told"),
    [
        (NAMES[:2], {"batch": [1, 8]}, "batch: expected one number where there are several models"),
        (NAMES[:2], {"weights": "fp8"}, "weights: expected one model"),
        (NAMES[:1], {"batch": [1, 2, 3, 4, 5, 6]}, "up to 5 for one model"),
        (NAMES[:1], {"batch": 0}, "batch: expected a number >= 1"),
    ],
)
def test_batches_and_weights_are_of_one_model(models: Any, keywords: dict[str, Any], told: str) -> None:
    with pytest.raises(rl.SpecError, match=told):
        rl.plot.kv_growth([rl.model(name) for name in models], **keywords)
