"""What FlashAttention saves, by hand at 8192 tokens; and laws of every kind of model, chip and plan."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import chips
from zoo import of_layers, zoo_models

import roofline as rl
from roofline.answers.eager import without_flash

H100 = rl.hardware("h100-sxm-80gb")  # 989.4 TFLOP/s in bf16, 3.35 TB/s
D = rl.Deployment(model=rl.model("llama-3.1-8b"), hardware=H100)
T = 8192
MASKED = T * T - T * (T + 1) // 2  # pairs above the diagonal


# Llama-3.1-8B by hand: 32 layers, D = 4096, 32 heads and 8 KV heads of 128, F = 14336, V = 128256, bf16

MATRICES = 32 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336)
HEAD = 4096 * 128256
PAIR_FLOPS = 32 * 4 * 32 * 128  # of all layers and heads, for one (query, key) pair: Q·Kᵀ and A·V
SCORES = 32 * 32 * T * T * 4 * 2  # layers · heads · pairs, written and read twice, 2 B


def test_scores_of_8192_tokens_are_512_gib() -> None:
    w = without_flash(D, prompt_tokens=T)
    assert SCORES == 512 * 2**30
    assert w.extra_bytes == SCORES
    assert w.score_bytes == SCORES
    assert w.masked_score_bytes == 32 * 32 * MASKED * 4 * 2
    assert w.score_matrix_bytes == 32 * T * T * 2


def test_bytes_of_both_are_weights_activations_cache_and_scores() -> None:
    """Elements a token and layer moves, in and out of every op: q, o 8192 each; k, v 5120; attention (32 + 8)·256; gate, up
    and down 18432; norms and residuals 8·4096, rotation 2·40·128, activation 3·14336. Outside: the embedded row, the last
    norm with its residual; the head once, and its norms' 65 · 4096 scales."""
    per_layer = 2 * 8192 + 2 * 5120 + 40 * 256 + 3 * 18432 + 8 * 4096 + 2 * 40 * 128 + 3 * 14336
    moved = T * (32 * per_layer + 4096 + 3 * 4096) * 2 + (4096 + 128256) * 2
    weights = (MATRICES + HEAD + 65 * 4096 + T * 4096) * 2
    cache = T * 32 * 2 * 8 * 128 * 2
    w = without_flash(D, prompt_tokens=T)
    assert w.flash_hbm_bytes == weights + moved + cache
    assert w.eager_hbm_bytes == weights + moved + cache + SCORES
    assert w.bytes_factor == pytest.approx(6.005, abs=5e-4)


def test_flops_are_those_of_the_visible_pairs_or_of_the_whole_square() -> None:
    w = without_flash(D, prompt_tokens=T)
    products = 2 * MATRICES * T + 2 * HEAD
    assert w.flash_flops == products + PAIR_FLOPS * T * (T + 1) // 2
    assert w.eager_flops == products + PAIR_FLOPS * T * T
    assert w.extra_flops == PAIR_FLOPS * MASKED


def test_intensity_falls_from_four_times_the_ridge_to_below_it() -> None:
    """1.319e14 / 1.098e11 and 1.495e14 / 6.596e11 FLOP/B; the ridge is 989.4 / 3.35."""
    w = without_flash(D, prompt_tokens=T)
    assert w.flash_intensity == pytest.approx(1201.3, abs=0.05)
    assert w.eager_intensity == pytest.approx(226.71, abs=0.005)
    assert w.ridge == pytest.approx(295.34, abs=0.005)
    assert (w.flash_bound, w.eager_bound) == ("compute", "memory")


def test_seconds_differ_by_the_attention_alone() -> None:
    """Flash attention computes, 17.78 ms; eager's moves its scores, and q, k, v, o and cache, 166.03 ms."""
    w = without_flash(D, prompt_tokens=T)
    computing = PAIR_FLOPS * (T * (T + 1) / 2) / 989.4e12
    moving = (SCORES + T * 32 * 40 * 256 * 2 + T * 131_072) / 3.35e12
    assert w.eager_prefill_s - w.flash_prefill_s == pytest.approx(moving - computing, rel=1e-9)
    assert w.time_factor == pytest.approx(2.007, abs=5e-4)


def test_both_are_prefills_with_that_kernel() -> None:
    w = without_flash(D, prompt_tokens=100, batch=3)
    for kernel, bytes_, seconds in (
        ("flash", w.flash_hbm_bytes, w.flash_prefill_s),
        ("eager", w.eager_hbm_bytes, w.eager_prefill_s),
    ):
        timing = rl.prefill(D, prompt_tokens=100, batch=3, attention=kernel)  # type: ignore[arg-type]
        assert (bytes_, seconds) == (timing.hbm_bytes, timing.seconds)
        assert w.floor_s == timing.floor_s


# Other kinds


def test_a_window_saves_eager_nothing() -> None:
    """Mistral 7B, the same 32 layers and heads, sees 4096 tokens back: the same square, of which more is masked. The first
    4096 queries see 1 … 4096 tokens, the others 4096 each."""
    w = without_flash(replace(D, model=rl.model("mistral-7b-v0.1-swa")), prompt_tokens=T)
    visible = 4096 * 4097 // 2 + 4096 * 4096
    assert w.score_bytes == SCORES
    assert w.masked_score_bytes == 32 * 32 * (T * T - visible) * 8


def test_a_latent_s_heads_have_scores_as_any_others() -> None:
    """DeepSeek-V2-Lite: 27 layers of 16 heads."""
    w = without_flash(replace(D, model=rl.model("deepseek-v2-lite")), prompt_tokens=1000, batch=4)
    assert w.score_bytes == 27 * 16 * 4 * 1000**2 * 8
    assert w.score_matrix_bytes == 16 * 4 * 1000**2 * 2


def test_an_encoder_masks_nothing() -> None:
    mixer = {"n_heads": 2, "n_kv_heads": 1, "d_head": 8, "causal": False}
    encoder = of_layers({"mixer": mixer, "ffn": {"d_ff": 8}}, repeat=3, head=None)
    w = without_flash(replace(D, model=encoder), prompt_tokens=50)
    assert (w.score_bytes, w.masked_score_bytes, w.extra_flops) == (3 * 2 * 2500 * 8, 0.0, 0.0)


def test_without_attention_nothing_changes() -> None:
    mamba = {"kind": "mamba", "d_inner": 32, "d_state": 8, "d_conv": 4, "dt_rank": 2}
    w = without_flash(replace(D, model=of_layers({"mixer": mamba, "ffn": None})), prompt_tokens=50)
    assert (w.extra_bytes, w.score_matrix_bytes, w.bytes_factor, w.time_factor) == (0.0, 0.0, 1.0, 1.0)


def test_chips_that_split_the_heads_split_the_scores() -> None:
    w = without_flash(replace(D, plan=rl.Plan(tp=4)), prompt_tokens=T)
    assert w.score_bytes == SCORES / 4
    assert w.score_matrix_bytes == 32 * T * T * 2 / 4


# Laws


@given(zoo_models(), chips(), st.integers(1, 20_000), st.integers(1, 8))
def test_eager_moves_the_scores_and_saves_nothing(model: rl.Model, chip: rl.Hardware, prompt: int, batch: int) -> None:
    w = without_flash(rl.Deployment(model=model, hardware=chip), prompt_tokens=prompt, batch=batch)
    slack = 1e-9 * float(w.eager_hbm_bytes)
    assert w.extra_bytes == pytest.approx(w.score_bytes, abs=slack)
    assert -slack <= w.masked_score_bytes <= w.score_bytes + slack
    assert 0.0 <= w.score_matrix_bytes * 4 <= w.score_bytes + slack
    assert w.extra_flops >= -1e-9 * w.eager_flops
    assert w.floor_s <= w.flash_prefill_s * (1 + 1e-12)
    assert w.flash_prefill_s <= w.eager_prefill_s * (1 + 1e-12)


@given(st.integers(1, 30_000), st.integers(1, 64))
def test_scores_grow_with_the_square_of_the_prompt_and_with_the_batch(prompt: int, batch: int) -> None:
    one = without_flash(D, prompt_tokens=prompt)
    assert without_flash(D, prompt_tokens=2 * prompt).score_bytes == pytest.approx(4 * one.score_bytes)
    assert without_flash(D, prompt_tokens=prompt, batch=batch).score_bytes == pytest.approx(batch * one.score_bytes)


def test_a_grid_equals_its_points() -> None:
    prompts, batches = np.array([1, 512, T]), np.array([[1], [2]])
    grid = without_flash(D, prompt_tokens=prompts, batch=batches)
    point = without_flash(D, prompt_tokens=T, batch=2)
    for name in point.to_dict():
        one = getattr(point, name, None)
        if isinstance(one, (float, str)) and name not in ("ridge", "prompt_tokens", "batch"):
            many = np.asarray(getattr(grid, name))
            assert many.shape == (2, 3), name
            assert many[1, 2] == one, name
    frame = grid.to_frame()
    assert len(frame) == 6
    assert list(frame["prompt_tokens"]) == [1, 512, T] * 2
    assert (np.diff(np.asarray(grid.bytes_factor), axis=1) > 0).all()


def test_the_dict_is_flat_and_one_json_can_hold() -> None:
    said = json.loads(json.dumps(without_flash(D, prompt_tokens=T).to_dict()))
    assert (said["model"], said["hardware"], said["prompt_tokens"], said["batch"]) == (D.model.id, H100.id, T, 1)
    assert said["extra_bytes"] == SCORES


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"prompt_tokens": 0}, "prompt_tokens: expected a number >= 1"),
        ({"prompt_tokens": 1, "batch": 0}, "batch: expected a number >= 1"),
        ({"prompt_tokens": [1, 2], "batch": [1, 2, 3]}, "expected shapes that broadcast"),
        ({"prompt_tokens": "long"}, "prompt_tokens: expected a number"),
    ],
)
def test_a_wrong_request_says_what_was_expected(asked: dict[str, object], told: str) -> None:
    with pytest.raises(rl.SpecError, match=told):
        without_flash(D, **asked)
    with pytest.raises(rl.SpecError, match="expected a Deployment"):
        without_flash("llama-3.1-8b", prompt_tokens=1)  # type: ignore[arg-type]
