"""A sweep: a row a point, and every row what the scalar calls say."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import chips, models

import roofline as rl
from roofline.views.sweep import points
from roofline.views.sweep.columns import COLUMNS
from roofline.views.sweep.points import rectangles

LLAMA, H100, L4 = rl.model("llama-3.1-8b"), rl.hardware("h100"), rl.hardware("l4")
CHUNKY = rl.engine("ideal").varied(batch_tokens=64)  # prompts are cut
SETTINGS = st.fixed_dictionaries(
    {
        "models": models(),
        "hardware": st.lists(chips(), min_size=1, max_size=2).map(lambda found: dict(zip("ab", found, strict=False))),
        "weights": st.lists(st.sampled_from(["fp16", "awq"]), min_size=1, max_size=2, unique=True),
        "kv": st.sampled_from(["fp16", "int8"]),
        "engine": st.sampled_from([{"whole": "ideal"}, {"whole": "ideal", "cut": CHUNKY}]),
        "batch": st.lists(st.integers(1, 300), min_size=1, max_size=2, unique=True),
    }
)
TOKENS = st.lists(st.integers(1, 3000), min_size=1, max_size=2, unique=True)


def deployments(asked: dict[str, Any]) -> list[rl.Deployment]:
    """Those of a sweep, in the order of its rows."""
    return [
        rl.Deployment(model=asked["models"], hardware=chip, engine=engine, weights=weights, kv=asked["kv"])
        for chip, engine, weights in product(asked["hardware"].values(), asked["engine"].values(), asked["weights"])
    ]


def same(row: Any, expected: dict[str, Any]) -> None:
    """Every value of a row, to rounding."""
    for name, value in expected.items():
        if isinstance(value, (float, int)) and not isinstance(value, bool):
            assert row[name] == pytest.approx(value, rel=1e-12, abs=0.0), name
        elif value is None:
            assert pd.isna(row[name]), name
        else:
            assert row[name] == value, name


@given(SETTINGS, TOKENS)
def test_a_row_at_a_context_is_the_scalar_decode_and_memory(asked: dict[str, Any], contexts: list[int]) -> None:
    frame = rl.sweep(**asked, context_tokens=contexts)
    each = list(product(deployments(asked), asked["batch"], contexts))
    assert len(frame) == len(each)
    for (_, row), (d, batch, context) in zip(frame.iterrows(), each, strict=True):
        t = rl.decode(d, context_tokens=context, batch=batch)
        m = rl.memory(d, context_tokens=context, batch=batch)
        same(row, {
            "batch": batch, "context_tokens": context, "weights": d.numerics.weights_name, "tpot_s": t.seconds,
            "tpot_floor_s": t.floor_s, "tpot_bound": t.bound, "tokens_per_s_per_user": 1.0 / t.seconds,
            "tokens_per_s": batch / t.seconds, "kv_bytes": m.kv_bytes, "fits": m.fits,
            "exceeds_context": context > d.model.max_context_tokens,
        })  # fmt: skip


@given(SETTINGS, TOKENS)
def test_a_row_of_a_prompt_is_the_scalar_ttft(asked: dict[str, Any], prompts: list[int]) -> None:
    frame = rl.sweep(**asked, prompt_tokens=prompts)
    each = list(product(deployments(asked), asked["batch"], prompts))
    assert len(frame) == len(each)
    for (_, row), (d, batch, prompt) in zip(frame.iterrows(), each, strict=True):
        p = rl.predict(d, prompt_tokens=prompt, output_tokens=1, batch=batch)
        same(row, {
            "prompt_tokens": prompt, "ttft_s": p.ttft_s, "ttft_floor_s": p.ttft_floor_s, "ttft_bound": p.ttft_bound,
            "kv_bytes": p.memory.kv_bytes, "fits": p.memory.fits, "exceeds_context": p.exceeds_context,
        })  # fmt: skip
    assert "tpot_s" not in frame


@pytest.mark.parametrize("engine", ["ideal", "vllm", "llama.cpp"])
@pytest.mark.parametrize("plan", [rl.Plan(), rl.Plan(tp=2), rl.Plan(pp=2)])
def test_every_column_of_a_request_is_that_of_predict_under_the_same_name(engine: str, plan: rl.Plan) -> None:
    names = list(rl.predict(rl.Deployment(model=LLAMA, hardware=H100), prompt_tokens=1, output_tokens=1).to_dict())
    columns = [name for name in names if name in COLUMNS and name != "ridge"]
    assert len(columns) > 50
    frame = rl.sweep(
        models=LLAMA, hardware=H100, plan=plan, engine=engine, batch=[1, 200], prompt_tokens=[1, 9000],
        output_tokens=[1, 30], columns=[name for name in columns if name != "context_tokens"],
    )  # fmt: skip
    d = rl.Deployment(model=LLAMA, hardware=H100, plan=plan, engine=engine)
    for (_, row), (n, batch, prompt) in zip(frame.iterrows(), product([1, 30], [1, 200], [1, 9000]), strict=True):
        said = rl.predict(d, prompt_tokens=prompt, output_tokens=n, batch=batch).to_dict()
        same(row, {name: said[name] for name in frame.columns})


def test_a_prompt_and_a_context_are_answered_each_at_its_own_tokens() -> None:
    asked: dict[str, Any] = {"models": LLAMA, "hardware": H100, "batch": [1, 8]}
    both = rl.sweep(**asked, prompt_tokens=[100, 1000], context_tokens=[10, 2000])
    ttft = rl.sweep(**asked, prompt_tokens=[100, 1000]).set_index(["batch", "prompt_tokens"])
    tpot = rl.sweep(**asked, context_tokens=[10, 2000]).set_index(["batch", "context_tokens"])
    assert both[["batch", "prompt_tokens", "context_tokens"]].values.tolist() == [
        list(row) for row in product([1, 8], [100, 1000], [10, 2000])
    ]
    for _, row in both.iterrows():
        assert row.ttft_s == ttft.ttft_s[row.batch, row.prompt_tokens]
        assert row.tpot_s == tpot.tpot_s[row.batch, row.context_tokens]
        assert row.kv_bytes == tpot.kv_bytes[row.batch, row.context_tokens]


def test_rows_are_in_the_order_of_the_axes_with_the_last_fastest() -> None:
    frame = rl.sweep(
        models=["llama-3.1-8b", "qwen3-8b"], hardware=["l4", "h100"], plan=[rl.Plan(tp=2), rl.Plan()], weights=["fp8", None],
        batch=[8, 1], context_tokens=[2, 1],
    )  # fmt: skip
    expected = product(
        ["llama-3.1-8b", "qwen3-8b"], ["l4", "h100-sxm-80gb"], ["tp2", "tp1"], ["fp8", "bf16"], [8, 1], [2, 1]
    )
    names = ["model", "hardware", "plan", "weights", "batch", "context_tokens"]
    assert frame[names].values.tolist() == [list(row) for row in expected]
    assert frame.n_chips.tolist() == [2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1] * 4


def test_numbers_worked_by_hand() -> None:
    """Llama-3.1-8B keeps 2 · 32 layers · 8 heads · 128 · 2 B = 131,072 B a token; an L4 has 22 GiB, 15 of them weights."""
    frame = rl.sweep(models="llama-3.1-8b", hardware="l4", batch=[1, 16], context_tokens=[1024, 8192])
    assert frame.kv_bytes.tolist() == [131072.0 * b * c for b, c in product([1, 16], [1024, 8192])]
    assert frame.fits.tolist() == [True, True, True, False]
    weights_s = (
        (8_030_261_248 - 128_256 * 4096) * 2 / L4.hbm_bytes_per_s
    )  # a token looks up one row of its embedding table
    assert frame.tpot_floor_s[0] == pytest.approx(weights_s + 131072 * 1025 / L4.hbm_bytes_per_s, rel=1e-6)


def test_what_does_not_fit_and_what_no_model_is_made_for_are_rows() -> None:
    frame = rl.sweep(models="gpt-2", hardware="l4", batch=10**6, context_tokens=[1024, 1025])
    assert frame.fits.tolist() == [False, False]
    assert frame.exceeds_context.tolist() == [False, True]


def test_columns_are_typed() -> None:
    frame = rl.sweep(models="llama-3.1-8b", hardware="h100", batch=[1, 2], context_tokens=[0.5, 1])
    assert frame.batch.dtype == np.int64
    assert frame.context_tokens.dtype == np.float64
    assert (frame.fits.dtype, frame.tpot_s.dtype) == (np.bool_, np.float64)
    assert frame.model.cat.categories.tolist() == ["llama-3.1-8b"]


@pytest.mark.parametrize("limit", [1, 5, 7, 64])
def test_how_rows_are_cut_into_blocks_changes_no_value(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {
        "models": "mixtral-8x7b", "hardware": "h100", "engine": ["ideal", "vllm"], "batch": [1, 3, 200],
        "prompt_tokens": [1, 5000], "context_tokens": range(1, 10_000, 1001),
    }  # fmt: skip
    whole = rl.sweep(**asked)
    monkeypatch.setattr(points, "BLOCK_POINTS", limit)
    pd.testing.assert_frame_equal(rl.sweep(**asked), whole, rtol=1e-14)


@given(st.lists(st.integers(1, 9), max_size=4), st.integers(1, 50))
def test_blocks_cover_a_grid_once_in_order_and_are_no_larger_than_asked(shape: list[int], most: int) -> None:
    grid = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    found = [grid[where].ravel() for where in rectangles(shape, most=most)]
    assert np.concatenate(found).tolist() == grid.ravel().tolist()
    assert max(part.size for part in found) <= most


def test_prompts_that_are_cut_into_thousands_of_passes_are_answered() -> None:
    """300 prompts of 100,000 tokens, 2048 at a time: 14,649 passes a point; 64 such points at once would be too many."""
    chunky = rl.engine("ideal").varied(batch_tokens=2048)
    frame = rl.sweep(
        models="llama-3.1-8b", hardware="h100", engine=chunky, batch=[1, 300], prompt_tokens=np.arange(1, 33) * 3125,
        columns=["batch", "prompt_tokens", "ttft_s"],
    )  # fmt: skip
    d = rl.Deployment(model=LLAMA, hardware=H100, engine=chunky)
    last = rl.predict(d, prompt_tokens=100_000, output_tokens=1, batch=300)
    assert frame.ttft_s.iloc[-1] == pytest.approx(last.ttft_s, rel=1e-12)


def test_columns_asked_for_are_those_of_the_whole() -> None:
    asked: dict[str, Any] = {"models": "llama-3.1-8b", "hardware": ["h100", "l4"], "engine": ["vllm", "ideal"],
                             "batch": [1, 8], "prompt_tokens": [9, 99], "output_tokens": 7}  # fmt: skip
    whole = rl.sweep(**asked)
    for names in (["tpot_s"], ["hardware", "ttft_high_s", "batch"], list(whole.columns[::-1])):
        pd.testing.assert_frame_equal(rl.sweep(**asked, columns=names), whole[names])


def test_intervals_and_evidence_are_there_where_times_are_estimates() -> None:
    ideal = rl.sweep(models="llama-3.1-8b", hardware="h100", context_tokens=9)
    assert not {"tpot_low_s", "tpot_high_s", "evidence_regime"} & set(ideal.columns)
    both = rl.sweep(models="llama-3.1-8b", hardware="h100", engine=["ideal", "vllm"], context_tokens=9)
    assert both.evidence_regime.tolist() == ["ideal", "measured"]
    assert both.tpot_low_s.isna().tolist() == [True, False]
    assert (both.tpot_floor_s <= both.tpot_s).all()
    assert both.tpot_low_s[1] < both.tpot_s[1] < both.tpot_high_s[1]


def test_records_may_be_named() -> None:
    vllm = rl.engine("vllm")
    engines = {"small steps": vllm.varied(batch_tokens=512), "large steps": vllm.varied(batch_tokens=8192)}
    frame = rl.sweep(models={"mine": LLAMA}, hardware="h100", engine=engines, prompt_tokens=4096, batch=16)
    assert frame[["model", "engine"]].values.tolist() == [["mine", "small steps"], ["mine", "large steps"]]
    assert frame.ttft_s[0] > frame.ttft_s[1]


def test_models_and_chips_are_read_from_paths(tmp_path: Path) -> None:
    config = {
        "model_type": "bert", "architectures": ["BertModel"], "hidden_size": 768, "num_hidden_layers": 12,
        "num_attention_heads": 12, "intermediate_size": 3072, "vocab_size": 30522, "max_position_embeddings": 512,
        "type_vocab_size": 2,
    }  # fmt: skip
    path = tmp_path / "encoder.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    frame = rl.sweep(models=[path, "llama-3.1-8b"], hardware="h100", prompt_tokens=[128, 600])
    assert frame.model.tolist() == ["encoder"] * 2 + ["llama-3.1-8b"] * 2
    d = rl.Deployment(model=rl.model(path), hardware=H100)
    assert frame.ttft_s[0] == rl.predict(d, prompt_tokens=128, output_tokens=0).ttft_s
    assert frame.exceeds_context.tolist() == [False, True, False, False]
    assert frame.kv_bytes[0] == 0.0
