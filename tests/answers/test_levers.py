"""Levers are re-runs of the model: what they say is what a prediction with the change says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import roofline as rl
from roofline.answers.fitting import ways_to_fit
from roofline.answers.levers import decode_limit, levers
from roofline.answers.prediction import Prediction, again

H100 = rl.hardware("h100-sxm-80gb")
LLAMA = rl.model("llama-3.1-8b")
D = rl.Deployment(model=LLAMA, hardware=H100)
SHAPE: dict[str, Any] = {"prompt_tokens": 2048, "output_tokens": 256, "batch": 8}


def test_a_format_lever_is_the_prediction_with_that_format() -> None:
    found = {lever.name: lever for lever in levers(rl.predict(D, **SHAPE))}
    for name, precision in (
        ("8-bit weights (fp8)", rl.Precision(weights="fp8")),
        ("4-bit weights (awq)", rl.Precision(weights="awq")),
        ("8-bit KV cache", rl.Precision(kv="fp8")),
    ):
        after = rl.predict(rl.Deployment(model=LLAMA, hardware=H100, precision=precision), **SHAPE)
        assert found[name].ttft_s == after.ttft_s
        assert found[name].tpot_s == after.tpot_s
        assert found[name].e2e_s == pytest.approx(after.e2e_s, rel=1e-12)


def test_the_prefix_lever_is_a_prefill_of_half_the_prompt_over_the_other_half() -> None:
    (lever,) = (v for v in levers(rl.predict(D, **SHAPE)) if "prefix" in v.name)
    assert lever.ttft_s == rl.prefill(D, prompt_tokens=1024, n_past=1024, batch=8).seconds


def test_levers_come_best_first_and_all_help() -> None:
    gains = [lever.e2e_gain for lever in levers(rl.predict(D, **SHAPE))]
    assert gains == sorted(gains, reverse=True)
    assert min(gains) > 0


def test_what_is_already_on_is_not_offered() -> None:
    d = rl.Deployment(model=LLAMA, hardware=H100, weights="awq", kv="fp8")
    assert [v.name for v in levers(rl.predict(d, **SHAPE))] == ["half of the prompt in a prefix cache"]


def test_what_would_not_fit_is_not_offered() -> None:
    """Llama-3.1-70B is 141 GB in bf16, 71 GB in fp8, 39 GB in awq; a 24 GB card has room for none of them."""
    d = rl.Deployment(model=rl.model("llama-3.1-70b"), hardware=rl.hardware("rtx-4090"))
    assert levers(rl.predict(d, **SHAPE)) == ()


def test_a_chip_without_fp8_units_is_offered_int8_and_a_mac_its_own_formats() -> None:
    a100 = rl.Deployment(model=LLAMA, hardware=rl.hardware("a100-sxm-80gb"))
    mac = rl.Deployment(model=LLAMA, hardware=rl.hardware("m5-max-40c"))
    assert "8-bit weights (int8)" in {v.name for v in levers(rl.predict(a100, **SHAPE))}
    assert "4-bit weights (mlx-4bit)" in {v.name for v in levers(rl.predict(mac, **SHAPE))}


def test_the_limit_of_decode_is_its_work_over_its_own_bytes() -> None:
    """As the batch grows the weights are shared by all: what is left is F / (cache and activations) of one token."""
    batches = 2.0 ** np.arange(0, 30, 3)
    intensity = np.asarray(rl.decode(D, context_tokens=2048, batch=batches).intensity)
    limit = decode_limit(D, context_tokens=2048)
    assert (np.diff(intensity) > 0).all()
    assert (intensity < limit).all()
    assert intensity[-1] == pytest.approx(limit, rel=1e-3)


def fitting(p: Prediction) -> tuple[str, ...]:
    return ways_to_fit(p.deployment, lambda d: again(p, d).memory)


def test_ways_to_fit_do_fit() -> None:
    p = rl.predict(
        rl.Deployment(model=LLAMA, hardware=rl.hardware("rtx-4090")), prompt_tokens=8192, output_tokens=2, batch=64
    )
    assert not p.memory.fits
    ways = fitting(p)
    assert f"batch {p.memory.max_batch:,.0f} at this context" in ways
    assert rl.memory(p.deployment, context_tokens=8193, batch=p.memory.max_batch).fits
    assert fitting(rl.predict(D, **SHAPE)) == ()


def test_levers_of_a_grid_are_refused() -> None:
    with pytest.raises(rl.SpecError, match="one request shape"):
        levers(rl.predict(D, prompt_tokens=[1, 2], output_tokens=3))


def test_a_lever_changes_one_format_and_holds_the_other() -> None:
    """GPT-2 is stored in fp32, and its cache is fp32 too: narrower weights leave it alone."""
    p = rl.predict(
        rl.Deployment(model=rl.model("gpt-2"), hardware=H100), prompt_tokens=512, output_tokens=64, batch=100
    )
    for lever in levers(p):
        assert (lever.weights == "fp32") + (lever.kv == "fp32") >= 1
    assert "16-bit weights (bf16)" in {lever.name for lever in levers(p)}


def test_a_very_long_answer_is_added_up_in_runs() -> None:
    """Gemma 3: five of six layers stop growing at 1024 tokens, the others are linear in the context: runs lose nothing."""
    d = rl.Deployment(model=rl.model("gemma-3-27b"), hardware=H100)
    n = 200_000
    p = rl.predict(d, prompt_tokens=100, output_tokens=n, batch=3)
    every = rl.decode(d, context_tokens=np.arange(100.0, 100.0 + n - 1), batch=3)
    assert p.tpot_s == pytest.approx(float(np.mean(every.seconds)), rel=1e-9)
    assert p.tpot_floor_s == pytest.approx(float(np.mean(every.floor_s)), rel=1e-9)
