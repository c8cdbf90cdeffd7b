"""Numbers that texts, drivers and whitepapers print, and that anybody can work out on paper.

The running example is Llama-2-7B (d_model 4096, 32 heads of 128, 32 layers, MHA) in fp16 with a prompt of 4. Where a
published text is wrong, the test says what it printed and why.
"""

from __future__ import annotations

import numpy as np
import pytest
from strategies import as_model

import roofline as rl
from roofline.ledger import Ledger, Op
from roofline.num import Num

MIB = 2**20
FP16 = rl.Precision(weights="fp16", kv="fp16")


def passed(n_new: int, n_past: int = 0, *, name: str = "llama-2-7b", kernel: str = "flash") -> Ledger:
    """One pass of one sequence in fp16."""
    seqs = rl.Seqs(n_seq=1, n_new=n_new, n_past=n_past)
    return rl.count(rl.model(name), seqs, precision=FP16, attention=kernel)  # type: ignore[arg-type]


def op(ledger: Ledger, name: str) -> Op[Num]:
    """The op of that name, one layer's."""
    (found,) = (op for op in ledger.ops if op.name == name)
    return found


# Projections: 2 · m · d_in · d_out


def test_one_query_projection_is_134_mflop_for_four_tokens_and_a_quarter_for_one() -> None:
    assert op(passed(4), "q_proj").flops == 134_217_728  # 2 · 4 · 4096 · 4096
    assert op(passed(1, 4), "q_proj").flops == 33_554_432  # 2 · 1 · 4096 · 4096


def test_query_key_and_value_together_are_403_mflop() -> None:
    prefill = passed(4)
    flops = [op(prefill, name).flops for name in ("q_proj", "k_proj", "v_proj")]
    assert sum(flops) == 402_653_184  # 3 · 134,217,728


def test_the_query_matrix_weighs_33_554_432_bytes() -> None:
    assert op(passed(4), "q_proj").weight_bytes == 33_554_432  # 4096 · 4096 · 2; 32 MiB, 33.6 MB


@pytest.mark.parametrize(
    ("n_new", "n_past", "over_weights", "over_everything"),
    [
        # F / (D·D·2) = 2·T·D² / 2·D² = T;  with x and y: 2·T·D² / (2·D² + 2·2·T·D) = T / (1 + 2·T/D)
        (4, 0, 4.0, 4 / (1 + 8 / 4096)),  # 3.992
        (1, 4, 1.0, 1 / (1 + 2 / 4096)),  # 0.9995
    ],
)
def test_a_projection_does_four_flop_a_byte_in_prefill_and_one_in_decode(
    n_new: int, n_past: int, over_weights: float, over_everything: float
) -> None:
    """Texts with 4.2 and 1.05 divided by 32 as if MiB were MB: 134,217,728 / 32e6 = 4.19."""
    q = op(passed(n_new, n_past), "q_proj")
    assert q.flops / q.weight_bytes == over_weights
    assert q.flops / q.streamed_bytes == pytest.approx(over_everything, rel=1e-15)


def test_intensities_with_activations_print_as_the_texts_have_them() -> None:
    prefill, decode = op(passed(4), "q_proj"), op(passed(1, 4), "q_proj")
    assert f"{prefill.flops / prefill.streamed_bytes:.3f}" == "3.992"
    assert f"{decode.flops / decode.streamed_bytes:.4f}" == "0.9995"


# Attention


def test_eager_scores_of_one_head_are_4096_flop_for_a_prompt_of_four() -> None:
    """Q·Kᵀ is 2 · 4 · 4 · 128 for the whole square; half of what the op does, the other half is A·V; 32 heads."""
    core = op(passed(4, kernel="eager"), "attention")
    assert core.executed_flops / 2 / 32 == 4_096


def test_flash_scores_of_one_head_are_the_ten_visible_pairs() -> None:
    assert op(passed(4), "attention").executed_flops / 2 / 32 == 2 * 10 * 128  # 1 + 2 + 3 + 4 pairs


@pytest.mark.parametrize("kernel", ["flash", "eager"])
def test_scores_and_values_of_one_token_at_context_five_are_40960_flop_each(kernel: str) -> None:
    core = op(passed(1, 4, kernel=kernel), "attention")
    assert core.executed_flops == 40_960 + 40_960  # 2 · 1 · 5 · 128 · 32 heads, twice


# The cache


def test_a_prompt_of_four_writes_65536_bytes_of_cache_a_layer() -> None:
    prefill = passed(4)
    assert op(prefill, "attention").kv_write_bytes == 65_536  # 4 tokens · (K + V) · 4096 · 2 B
    assert prefill.kv_write_bytes == 2_097_152  # · 32 layers


def test_a_new_token_writes_16384_bytes_of_cache_a_layer() -> None:
    decode = passed(1, 4)
    assert op(decode, "attention").kv_write_bytes == 16_384
    assert decode.kv_write_bytes == 524_288


def test_a_token_of_llama_2_7b_takes_half_a_mebibyte() -> None:
    llama = rl.model("llama-2-7b")
    assert rl.kv_bytes(llama, context_tokens=1, kv="fp16") == 524_288
    assert rl.kv_bytes(llama, context_tokens=4, kv="fp16") == 2_097_152


@pytest.mark.parametrize(
    ("name", "key_bytes"),
    [
        ("llama-2-7b", 33_554_432),  # 4096 tokens · 32 heads · 128 · 2 B
        ("llama-3.1-8b", 8_388_608),  # 4096 tokens · 8 KV heads · 128 · 2 B
    ],
)
def test_keys_read_per_layer_at_context_4096(name: str, key_bytes: int) -> None:
    core = op(passed(1, 4096, name=name), "attention")
    assert core.kv_read_bytes == 2 * key_bytes  # keys, and as many values


def test_eight_kv_heads_of_32_read_a_quarter_not_an_eighth() -> None:
    """One source says a factor of 8; it took the number of KV heads for the size of a group."""
    mha = op(passed(1, 4096, name="llama-2-7b"), "attention").kv_read_bytes
    gqa = op(passed(1, 4096, name="llama-3.1-8b"), "attention").kv_read_bytes
    assert mha / gqa == 4


SIXTY_FOUR_LAYERS = {
    "id": "sixty-four-layers",
    "name": "64 layers, 8 KV heads of 128",
    "dtype": "bf16",
    "d_model": 5120,
    "vocab_size": 152064,
    "max_context_tokens": 32768,
    "layers": (
        {
            "repeat": 64,
            "layers": (
                {
                    "mixer": {"kind": "attention", "n_heads": 40, "n_kv_heads": 8, "d_head": 128},
                    "ffn": {"kind": "dense", "d_ff": 27648},
                },
            ),
        },
    ),
}


@pytest.mark.parametrize(
    ("name", "context_tokens", "kv", "mib"),
    [
        ("llama-3-8b", 8192, "f16", 1024.0),  # a public llama.cpp log: 512 for K, 512 for V
        ("llama-2-7b", 2048, "f16", 1024.0),  # a public llama.cpp log; MHA costs four times as much a token
        ("llama-2-70b", 2048, "f16", 640.0),  # ollama/ollama#1800, printed by llama.cpp
        (None, 32768, "q8_0", 4352.0),  # ggml-org/llama.cpp#11200; q8_0 is 34 bytes for 32 elements, not 32
        ("gemma-3-1b", 32768, "bf16", 139.0),  # lablup/mlxcel#172: 22 layers hold 512 tokens, 4 hold all
    ],
)
def test_cache_sizes_that_drivers_print(name: str | None, context_tokens: int, kv: str, mib: float) -> None:
    model = rl.model(name) if name else as_model(SIXTY_FOUR_LAYERS)
    assert rl.kv_bytes(model, context_tokens=context_tokens, kv=kv) == mib * MIB


def test_a_full_length_cache_of_a_windowed_model_is_what_some_engines_reserve() -> None:
    full = rl.kv_bytes(rl.model("gemma-3-1b"), context_tokens=32768, kv="bf16", policy="allocated")
    assert full == 832 * MIB  # 26 layers · 32768 · 2 · 256 · 2 B: "about 832 MiB (flat formula)", lablup/mlxcel#172


# Parameters, and what they weigh


@pytest.mark.parametrize(("name", "n_params"), [("llama-2-7b", 6_738_415_616), ("llama-3.1-8b", 8_030_261_248)])
def test_parameters_of_the_two_running_models(name: str, n_params: int) -> None:
    assert rl.model(name).n_params == n_params


@pytest.mark.parametrize(
    ("name", "weights", "gib"),
    [
        (
            "llama-3.1-8b",
            "f16",
            14.96,
        ),  # llama-bench on Llama-3 8B and 70B: XiongjieDai/GPU-Benchmarks-on-LLM-Inference
        ("llama-3.1-8b", "q4_k_m", 4.58),
        ("llama-3.1-70b", "f16", 131.42),
        ("llama-3.1-70b", "q4_k_m", 39.59),
        ("qwen2.5-7b", "q8_0", 7.54),  # llama.cpp benches/dgx-spark.md
    ],
)
def test_weights_take_what_llama_cpp_says_the_file_takes(name: str, weights: str, gib: float) -> None:
    deployment = rl.Deployment(model=rl.model(name), hardware=rl.hardware("h100-sxm-80gb"), weights=weights)
    held = rl.memory(deployment, context_tokens=0).weight_bytes
    assert held / 2**30 == pytest.approx(gib, rel=0.005)  # the log has three digits; a table's padding is not counted


# Time on an H100: 989.4 TFLOP/s in bf16, 3.35 TB/s


def on_h100(name: str, **formats: str) -> rl.Deployment:
    return rl.Deployment(model=rl.model(name), hardware=rl.hardware("h100-sxm-80gb"), **({"weights": "bf16"} | formats))  # type: ignore[arg-type]


def test_the_ridge_of_an_h100_in_bf16_is_295_flop_per_byte() -> None:
    timing = rl.decode(on_h100("llama-2-7b"), context_tokens=1)
    assert timing.ridge == pytest.approx(989.4e12 / 3.35e12, rel=1e-15)
    assert f"{timing.ridge:.1f}" == "295.3"


@pytest.mark.parametrize("context_tokens", [4, 128, 512])
def test_one_sequence_leaves_99_66_percent_of_the_h100_idle_while_it_decodes(context_tokens: int) -> None:
    """The answer to "why under 5 %": about 1 FLOP a byte of 295. 2 · 6.6e9 FLOP in 3.95 ms at 989.4e12 FLOP/s: 0.34 %."""
    timing = rl.decode(on_h100("llama-2-7b", weights="fp16", kv="fp16"), context_tokens=context_tokens)
    assert timing.mfu == pytest.approx(0.0034, abs=0.00005)
    assert timing.bound == "memory"


@pytest.mark.parametrize(
    ("name", "prompt_tokens", "floor_ms"),
    [
        # 4 and 512 by hand. Weights without the embedding: 8.030e9 − 128256 · 4096 = 7.505e9, 15.01e9 B / 3.35e12 = 4.48 ms.
        # 512: 2 · 512 · 6.979e9 (layers) + 2 · 0.525e9 (one head) + 32 · 4 · 4096 · 512 · 513 / 2 (pairs) = 7.22e12 FLOP;
        # over 989.4e12, 7.30 ms.
        ("llama-3.1-8b", 4, 4.48),
        ("llama-3.1-8b", 512, 7.30),
        ("llama-3.1-8b", 2048, 30.0),
        ("llama-3.1-8b", 8192, 133.4),
        ("llama-2-7b", 4, 3.95),
        ("llama-2-7b", 512, 6.78),
        ("llama-2-7b", 2048, 27.9),
        ("llama-2-7b", 8192, 125.1),
    ],
)
def test_no_prefill_beats_these_times(name: str, prompt_tokens: int, floor_ms: float) -> None:
    timing = rl.prefill(on_h100(name, kv="bf16"), prompt_tokens=prompt_tokens, batch=1)
    assert timing.floor_s * 1e3 == pytest.approx(floor_ms, rel=0.005)


DECODE_FLOORS_MS = [
    # 15.01e9 B of weights + batch · context · 131,072 B of cache, over 3.35e12 B/s; the batch's prompts do not matter
    (1, 512, 4.50),
    (1, 32768, 5.76),
    (8, 4096, 5.76),
    (64, 4096, 14.74),
    (64, 32768, 86.5),
]


@pytest.mark.parametrize(("batch", "context_tokens", "floor_ms"), DECODE_FLOORS_MS)
def test_no_token_beats_these_times(batch: int, context_tokens: int, floor_ms: float) -> None:
    timing = rl.decode(on_h100("llama-3.1-8b", kv="bf16"), context_tokens=context_tokens, batch=batch)
    assert timing.floor_s * 1e3 == pytest.approx(floor_ms, rel=0.005)
    by_hand_s = (2 * (8_030_261_248 - 128_256 * 4096) + batch * context_tokens * 131_072) / 3.35e12
    assert timing.floor_s == pytest.approx(by_hand_s, rel=1e-3)  # the new tokens' own cache and rows are the rest


def test_the_same_times_come_from_one_grid() -> None:
    batch, context, floors_ms = (np.array(column) for column in zip(*DECODE_FLOORS_MS, strict=True))
    timing = rl.decode(on_h100("llama-3.1-8b", kv="bf16"), context_tokens=context, batch=batch)
    assert np.shape(timing.floor_s) == (5,)
    assert np.asarray(timing.floor_s) * 1e3 == pytest.approx(floors_ms, rel=0.005)


def test_a_single_user_waits_for_weights_and_a_long_prompt_for_arithmetic() -> None:
    deployment = on_h100("llama-3.1-8b")
    assert rl.decode(deployment, context_tokens=2048).bound == "memory"
    assert rl.prefill(deployment, prompt_tokens=2048).bound == "compute"


def test_a_70b_model_in_bf16_is_short_of_one_h100_by_what_it_lacks() -> None:
    """70,553,706,496 parameters · 2 B + 1 token of 80 layers · 2 · 8 · 128 · 2 B, against 81,559 MiB."""
    answer = rl.memory(on_h100("llama-3.1-70b"), context_tokens=1)
    assert answer.fits is False
    assert answer.short_by_bytes == 2 * 70_553_706_496 + 327_680 - 81_559 * MIB
    assert (answer.max_batch, answer.max_context_tokens) == (0, 0)
