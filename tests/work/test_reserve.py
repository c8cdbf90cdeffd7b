"""What an engine reserves: live activations against what vLLM logged, and the share of the memory left for the cache."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import models, precisions
from zoo import of_layers, zoo_models

import roofline as rl
from roofline.specs import catalog
from roofline.specs.engine import Engine
from roofline.work.reserve import activation_bytes, kv_budget_bytes

MIB, GIB = 2**20, 2**30
ENGINES = tuple(catalog.engine(name) for name in catalog.engine_ids())


def live(model: rl.Model | str, batch_tokens: Any, **more: Any) -> Any:
    model = rl.model(model) if isinstance(model, str) else model
    return activation_bytes(model, batch_tokens=batch_tokens, numerics=rl.Precision().of(model), **more)


# By hand


def test_a_dense_layer_holds_the_output_two_residuals_and_what_feeds() -> None:
    """Llama-3.1-8B: 4096 + 2·4096 + max(3·4096 + 3·1024, 3·14336 = 43,008) elements of 2 B: 110,592 B a token."""
    assert live("llama-3.1-8b", 1.0) == 2 * (4096 + 2 * 4096 + 3 * 14336) == 110_592


def test_attention_is_the_widest_where_the_feed_forward_is_narrow() -> None:
    """16 heads of 64 over 4 of KV, D = 128, F = 64: q, k, v made 1536; q, k again 1280; out 1024; besides 1024 + 2·128."""
    mixer = {"kind": "attention", "n_heads": 16, "n_kv_heads": 4, "d_head": 64}
    model = of_layers({"mixer": mixer, "ffn": {"kind": "dense", "d_ff": 64}}, d_model=128)
    assert live(model, 1.0) == 2 * (1024 + 2 * 128 + 1536 + 1280 + 1024)


def test_tp_divides_heads_and_widths_but_neither_the_residual_nor_the_logits() -> None:
    """Llama-3.1-8B over 4: 1024 + 2·4096 + 3·3584 elements a token; 1024 rows of 128,256 logits at 14.5 B whole."""
    assert live("llama-3.1-8b", 1.0, tp=4) == 2 * (1024 + 2 * 4096 + 3 * 3584)
    sampling = 1024 * 128_256 * 14.5
    assert live("llama-3.1-8b", 8192.0, tp=4, n_logits=1024.0) == sampling + 8192 * 4096 * 2


def test_experts_keep_two_workspaces() -> None:
    """Qwen3-30B-A3B: 8 experts of 768: 8 · (2048 + 2048) elements a token: of all, or of the most a kernel takes."""
    each = 2 * 8 * (2048 + 2048)
    wide = 2 * (4096 + 2 * 2048 + 5120 + 4608 + 4096)  # q, k, v made; q, k again; the output: 32 heads, 4 of KV
    assert live("qwen3-30b-a3b", 1000.0) == 1000 * (wide + each)
    assert live("qwen3-30b-a3b", 1000.0, expert_tokens=100.0) == 1000 * wide + 100 * each


def test_llama_cpp_computes_in_fp32() -> None:
    assert live("llama-3.1-8b", 512.0, element_bytes=4.0) == 2 * live("llama-3.1-8b", 512.0)


# What vLLM logged


@pytest.mark.parametrize(("tokens", "peak"), [(20_000, 17.06), (29_000, 17.98)])
def test_c20_a_pass_over_the_whole_context(tokens: int, peak: float) -> None:
    """vllm-project/vllm#10517 (0.6): peaks of 17.06 and 17.98 GiB over 14.9888 of weights: within 0.02 GiB."""
    assert live("llama-3.1-8b", float(tokens)) / GIB == pytest.approx(peak - 14.9888, abs=0.02)


def test_c22_what_121000_tokens_more_take() -> None:
    """vllm-project/vllm#25350: 10.55 GiB left at 100,000 tokens, 5.59 at 221,000; each rounded to 0.005.

    The experts' workspaces stop growing at 32,768 tokens: what grows is 22,016 elements of 2 B a token, 4.962 GiB.
    """
    more = [float(live("qwen3-30b-a3b", n, expert_tokens=32_768.0)) for n in (100_000.0, 221_000.0)]
    assert more[1] - more[0] == 121_000 * 22_016 * 2
    assert (more[1] - more[0]) / GIB == pytest.approx(10.55 - 5.59, abs=0.01)


V19 = [  # model, tp, "torch peak memory increase" in GiB
    ("llama-3.1-8b", 1, 1.89),
    ("llama-3.1-8b", 4, 1.89),
    ("qwen2.5-7b", 1, 2.21),
    ("qwen2.5-7b", 4, 2.21),
    ("qwen3-8b", 1, 2.21),
    ("qwen3-30b-a3b", 1, 2.68),
    ("qwen1.5-moe-a2.7b", 1, 2.47),
    ("deepseek-v2-lite", 1, 1.93),
    ("gemma-2-2b", 1, 3.62),
    ("gemma-2-9b", 1, 3.65),
    ("gemma-2-27b", 1, 3.66),
    ("phi-4-14b", 1, 1.52),
    ("mixtral-8x7b", 2, 1.21),
    ("qwen2.5-72b", 2, 2.29),
    ("llama-3.1-70b", 2, 1.96),
]


@pytest.mark.parametrize(("name", "tp", "logged"), V19)
def test_c36_peaks_of_vllm_019(name: str, tp: int, logged: float) -> None:
    """llm-d-incubation/llm-d-planner, accuracy_report.md: passes of 8192 tokens, 1024 sequences, on H100.

    Libraries hold some 0.05 GiB besides, so a peak is never below ours, and at most 0.07 above.
    """
    counted = float(live(name, 8192.0, tp=tp, n_logits=1024.0, logit_bytes=14.5)) / GIB
    assert counted <= logged + 0.005
    assert counted == pytest.approx(logged, abs=0.07)


V16 = [("llama-3.1-8b", 1, 4.76), ("qwen3-0.6b", 1, 5.56), ("qwen3-32b", 1, 5.64), ("llama-3.1-70b", 2, 4.84)]


@pytest.mark.parametrize(("name", "tp", "logged"), V16)
def test_sorting_what_it_samples_from_took_38_bytes_a_logit(name: str, tp: int, logged: float) -> None:
    """llm-d/llm-d-benchmark, empirical-vllm-memory-results.md: vLLM up to 0.16, 1024 sequences: within 1 %."""
    counted = float(live(name, 8192.0, tp=tp, n_logits=1024.0, logit_bytes=38.5)) / GIB
    assert counted == pytest.approx(logged, rel=0.01)


def test_a_stage_that_does_not_sample() -> None:
    """The report above, pp 2 and 4: the first stage peaks at 1.10 and 1.05 GiB, where all of Llama-3.1-8B peaks at 1.89.

    A layer's pass is 8192 · 110,592 B = 0.84 GiB. What a stage hands on, two rows of 4096 a token, is 0.125 GiB more.
    """
    counted = live("llama-3.1-8b", 8192.0) / GIB
    assert counted == 0.84375
    assert counted + 0.125 == pytest.approx(1.075, abs=0.13)


# The share that is left


def left(engine: Engine, **more: Any) -> Any:
    given = {
        "total_bytes": 80.0,
        "weight_bytes": 20.0,
        "activation_bytes": 5.0,
        "context_bytes": 2.0,
        "graph_bytes": 1.0,
    }
    return kv_budget_bytes(engine, fraction=0.9, **(given | more))


@pytest.mark.parametrize(
    ("engine", "expected"),
    [
        ("vllm", 0.9 * 80 - (20 + 5 + 2 + 1)),
        ("trtllm", 0.9 * (80 - 20 - 5 - 2 - 1)),
        ("sglang", 0.9 * (80 - 2) - 20),
        ("mlx", 0.9 * 80 - (20 + 5 + 2 + 1)),
        ("llama.cpp", 0.9 * 80 - (20 + 5 + 2 + 1)),
    ],
)
def test_what_a_fraction_is_of(engine: str, expected: float) -> None:
    """80 of memory, 20 of weights, 5 of activations, 2 of runtime, 1 of graphs, and nine tenths."""
    assert left(catalog.engine(engine)) == pytest.approx(expected)


def test_what_others_hold_counts_against_what_is_free_but_not_against_a_share_of_all() -> None:
    shares = {
        name: left(catalog.engine(name), free_bytes=70.0) - left(catalog.engine(name))
        for name in ("vllm", "trtllm", "sglang")
    }
    assert shares == pytest.approx({"vllm": 0.0, "trtllm": -9.0, "sglang": -9.0})


def test_sglang_says_the_same_of_an_mi355x() -> None:
    """sgl-project/sglang#18263: 230.20 GB free after 56.98 of weights, fraction 0.911: "available_bytes 204.63 GB".

    230.20 − (1 − 0.911) · (230.20 + 56.98): every figure there is in GiB, and 0.911 is rounded.
    """
    budget = kv_budget_bytes(
        catalog.engine("sglang"), total_bytes=288 * GIB, free_bytes=(230.20 + 56.98) * GIB, fraction=0.911,
        weight_bytes=56.98 * GIB, context_bytes=0.0,
    )  # fmt: skip
    assert budget / GIB == pytest.approx(204.63, abs=0.02)


def test_what_does_not_fit_is_a_negative_share() -> None:
    """llm-d/llm-d-benchmark: Llama-3.3-70B in FP8 on one H100: 0.9 · 79.18 − 67.72 − 4.84 − 0.14 = "-1.44 GiB"."""
    budget = kv_budget_bytes(
        catalog.engine("vllm"), total_bytes=79.18 * GIB, fraction=0.9, weight_bytes=67.72 * GIB,
        activation_bytes=4.84 * GIB, context_bytes=0.14 * GIB, graph_bytes=0.0,
    )  # fmt: skip
    assert budget / GIB == pytest.approx(-1.44, abs=0.01)


# Laws

ANY = models() | zoo_models()
tokens = st.integers(1, 10**6).map(float)


@given(ANY, precisions(), tokens, tokens, st.integers(0, 4096))
def test_longer_passes_never_take_less(
    model: rl.Model, precision: rl.Precision, one: float, other: float, n: int
) -> None:
    short, long = sorted((one, other))
    at = [
        activation_bytes(model, batch_tokens=m, numerics=precision.of(model), n_logits=float(n)) for m in (short, long)
    ]
    assert 0 < at[0] <= at[1]
    assert activation_bytes(model, batch_tokens=long, numerics=precision.of(model)) <= at[1]


@given(ANY, tokens, st.sampled_from([2, 4, 8]))
def test_more_chips_never_hold_more_each(model: rl.Model, m: float, tp: int) -> None:
    alone, shared = live(model, m, n_logits=7.0), live(model, m, n_logits=7.0, tp=tp)
    assert shared <= alone
    assert shared * tp >= alone * (1 - 1e-12)  # nothing is lost: residuals and logits are copied


@given(ANY)
def test_a_grid_is_its_points(model: rl.Model) -> None:
    passes, n = np.array([[1.0], [512.0], [1e5]]), np.array([0.0, 64.0])
    points = [[live(model, m, n_logits=k) for k in (0.0, 64.0)] for m in (1.0, 512.0, 1e5)]
    assert all(isinstance(x, float) for row in points for x in row)
    assert np.broadcast_to(live(model, passes, n_logits=n), (3, 2)).tolist() == points


sizes = st.integers(0, 10**11).map(float)


@given(st.sampled_from(ENGINES), sizes, sizes, sizes, st.floats(0.01, 1.0), st.floats(0.01, 1.0))
def test_a_larger_fraction_leaves_more_and_more_weights_less(
    engine: Engine, room: float, weights: float, active: float, one: float, other: float
) -> None:
    total = weights + active + 3 * GIB + room  # where not even that fits, a larger share of what lacks is less
    low, high = sorted((one, other))
    at = [
        kv_budget_bytes(engine, total_bytes=total, weight_bytes=w, activation_bytes=active, fraction=f)
        for w, f in ((weights, low), (weights, high), (weights / 2, low))
    ]
    assert at[0] <= at[1]
    assert at[0] <= at[2]
    assert at[1] <= total - weights
