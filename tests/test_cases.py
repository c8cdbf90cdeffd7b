"""Sizing cases people met, with the true numbers: logs of engines, wrong estimates that were reported, published tables.

Each test names its case and source. A figure is held at the precision of its source: a log that prints MiB with two
decimals is exact in bytes here; one that prints "5.38 GiB" is held to its last digit.
"""

from __future__ import annotations

import pytest

import roofline as rl
from roofline.specs.mixers import Attention

MIB, GIB = 2**20, 2**30


def plain_decoder(n_layers: int, n_kv_heads: int, d_head: int, *, n_heads: int | None = None) -> rl.Model:
    """A decoder of which only what its cache is made of matters."""
    layer = {
        "mixer": {"kind": "attention", "n_heads": n_heads or n_kv_heads, "n_kv_heads": n_kv_heads, "d_head": d_head},
        "ffn": {"kind": "dense", "d_ff": 64},
    }
    return rl.Model.read(
        {
            "id": "plain", "name": "Plain", "dtype": "bf16", "d_model": 64, "vocab_size": 64,
            "max_context_tokens": 2**20, "layers": ({"repeat": n_layers, "layers": (layer,)},),
        },
        where="plain.yaml",
    )  # fmt: skip


def test_c01_llama_3_8b_at_8192_is_1024_mib() -> None:
    """A llama.cpp log: "KV 1024.00 MiB (K 512 + V 512)"; n_ctx is the total of four sequences of 2048."""
    model = rl.model("llama-3-8b")
    assert rl.kv_bytes(model, context_tokens=8192, kv="f16") == 1024 * MIB
    assert rl.kv_bytes(model, context_tokens=2048, batch=4, kv="f16") == 1024 * MIB


def test_c02_llama_2_7b_costs_four_times_as_much_a_token() -> None:
    """A llama.cpp log: 2048 tokens, 1024.00 MiB."""
    assert rl.kv_bytes(rl.model("llama-2-7b"), context_tokens=2048, kv="f16") == 1024 * MIB
    per_token = [rl.kv_bytes(rl.model(m), context_tokens=1, kv="f16") for m in ("llama-2-7b", "llama-3-8b")]
    assert per_token[0] == 4 * per_token[1]


def test_c03_q8_0_is_34_bytes_for_32_elements_also_when_layers_are_split() -> None:
    """ggml-org/llama.cpp#11200: 64 layers of 8 KV heads of 128, 32,768 tokens: 4352.00 MiB; of 41 and 23: 2788, 1564."""
    sizes = [rl.kv_bytes(plain_decoder(n, 8, 128), context_tokens=32768, kv="q8_0") / MIB for n in (64, 41, 23)]
    assert sizes == [4352.0, 2788.0, 1564.0]


def test_c05_the_dtype_of_the_cache_is_asked_for_and_never_implied() -> None:
    """abetlen/llama-cpp-python#66: LLaMA-30B at 512 tokens: 1560 MB in f32, 780 in f16 ("MB" there is MiB)."""
    model = rl.model("llama-33b")
    assert rl.kv_bytes(model, context_tokens=512, kv="f32") == 1560 * MIB
    assert rl.kv_bytes(model, context_tokens=512, kv="f16") == 780 * MIB


def test_c06_a_latent_cache_in_q8_0() -> None:
    """ikawrakow/ik_llama.cpp#259: DeepSeek, 32,768 tokens, latent only, q8_0: 1166.62 (61·576·34/32·32768 = 1166.625)."""
    assert rl.kv_bytes(rl.model("deepseek-v3"), context_tokens=32768, kv="q8_0") / MIB == 1166.625


def test_c07_llama_2_70b_at_2048_is_640_mib() -> None:
    """ollama/ollama#1800: "640 MB" as llama.cpp prints it, which is MiB."""
    assert rl.kv_bytes(rl.model("llama-2-70b"), context_tokens=2048, kv="f16") == 640 * MIB


def test_c09_grouped_queries_are_an_eighth_of_qwen_72b_s_cache() -> None:
    """ggml-org/llama.cpp#6032: Qwen-72B (80 layers, 64 KV heads of 128) against a 70B of 8: 20480 and 2560 MiB."""
    wide, narrow = plain_decoder(80, 64, 128), rl.model("llama-2-70b")
    assert [rl.kv_bytes(m, context_tokens=8192, kv="f16") / MIB for m in (wide, narrow)] == [20480.0, 2560.0]


def test_c10_a_hybrid_caches_in_16_of_64_layers_and_keeps_a_constant_state() -> None:
    """lmstudio-bug-tracker#1862: 262,144 tokens: 16384.00 MiB, and 598.50 MiB of state for four sequences.

    The geometry is Qwen3.5-27B's. llama.cpp keeps state and convolution in fp32, K − 1 inputs a channel:
    48 · (48·128·128 + 10240·3) · 4 B = 149.625 MiB a sequence; here the convolution is in 16 bit, 2.8125 MiB less.
    """
    model = rl.model("qwen3.5-27b")
    assert rl.kv_bytes(model, context_tokens=262144, kv="f16") == 16384 * MIB
    in_fp32 = 48 * (48 * 128 * 128 + 10240 * 3) * 4
    assert in_fp32 == 149.625 * MIB
    assert rl.state_bytes(model, batch=4) == 4 * (149.625 - 2.8125) * MIB


def test_c11_only_layers_that_cache_are_counted_in_a_block() -> None:
    """jundot/omlx#2725: a block of 64 tokens is 4.00 and 1.25 MiB (the tool said 16.00 and 5.00)."""
    sizes = [rl.kv_bytes(rl.model(m), context_tokens=64, kv="bf16") / MIB for m in ("qwen3.5-27b", "qwen3.5-35b-a3b")]
    assert sizes == [4.0, 1.25]


def test_c13_gemma_3_1b_at_32768_is_139_mib() -> None:
    """lablup/mlxcel#172: 22 layers of a window of 512, 4 global, one KV head of 256: 139 MiB (a flat formula: 832)."""
    assert rl.kv_bytes(rl.model("gemma-3-1b"), context_tokens=32768, kv="bf16") == 139 * MIB
    assert rl.kv_bytes(rl.model("gemma-3-1b"), context_tokens=32768, kv="bf16", policy="allocated") == 832 * MIB


def test_c14_both_policies_of_gpt_oss_20b_are_said() -> None:
    """alvarobartt/hf-mem#70: 32 × 8192 tokens: 12.00 GiB where sliding layers keep everything, 6.09 where they do not."""
    model = rl.model("gpt-oss-20b")
    sizes = [
        rl.kv_bytes(model, context_tokens=8192, batch=32, kv="bf16", policy=policy) / GIB
        for policy in ("allocated", "window")
    ]
    assert sizes[0] == 12.0
    assert sizes[1] == pytest.approx(6.09, abs=0.005)


def test_c16_gpt_oss_120b_is_73728_bytes_a_token_where_windows_are_kept_whole() -> None:
    """alvarobartt/hf-mem#60, a vLLM log: 5.38 GiB hold 78,384 tokens; hf-mem dropped the sliding layers (36,864)."""
    model = rl.model("gpt-oss-120b")
    each = rl.kv_bytes(model, context_tokens=1, kv="bf16", policy="allocated")
    assert each == 73_728
    room = rl.max_context_tokens(model, kv_bytes=5.38 * GIB, kv="bf16", policy="allocated")
    assert room == pytest.approx(78_384, rel=0.001)  # 5.38 is rounded


def test_c17_gemma_4_31b_is_901120_bytes_a_token_while_no_window_is_full() -> None:
    """alvarobartt/hf-mem#61: 50 layers of 16 KV heads of 256 and 10 of 4 of 512 (hf-mem: 163,840, six times too low).

    vLLM's own 983,195 B a token pads pages to the larger layer; pages are an engine's and not in this number.
    """
    model = rl.model("gemma-4-31b-nvfp4")
    assert rl.kv_bytes(model, context_tokens=1, kv="bf16") == 901_120


@pytest.mark.parametrize(
    ("model", "kv", "per_token"),
    [
        ("llama-3.1-8b", "bf16", 131_072),  # C20: vllm-project/vllm#10517
        ("qwen3-30b-a3b", "fp8", 49_152),  # C22: vllm-project/vllm#25350: 48 layers, 4 KV heads of 128, 1 byte
        ("qwen3-30b-a3b", "bf16", 98_304),  # C23: vllm-project/vllm#34076, the same geometry
        ("llama-2-7b", "fp16", 524_288),  # C25: NVIDIA/TensorRT-LLM#1400
        ("deepseek-v3", "bf16", 70_272),  # C29: LMCache#715: 61·(512 + 64)·2
        ("deepseek-v3.2", "bf16", 85_888),  # and 128 a layer more for the indexer
        ("qwen2.5-7b", "bf16", 57_344),  # C30: vllm-project/vllm#22291 (a user's formula gave 1,605,632)
    ],
)
def test_bytes_of_cache_a_token(model: str, kv: str, per_token: int) -> None:
    assert rl.kv_bytes(rl.model(model), context_tokens=1, kv=kv) == per_token


def test_c22_ten_and_a_half_gib_of_fp8_cache_hold_230528_tokens() -> None:
    """The log: 10.55 GiB available, 230,528 tokens; 10.55 is rounded to 0.05 %."""
    room = rl.max_context_tokens(rl.model("qwen3-30b-a3b"), kv_bytes=10.55 * GIB, kv="fp8")
    assert room == pytest.approx(230_528, rel=0.0005)


def test_c23_a_pipeline_stage_needs_the_share_of_its_layers() -> None:
    """vllm-project/vllm#34076: 262,144 tokens need 24.0 GiB, of which 16 layers hold 8 and 32 hold 16."""
    sizes = [rl.kv_bytes(plain_decoder(n, 4, 128), context_tokens=262144, kv="bf16") / GIB for n in (48, 16, 32)]
    assert sizes == [24.0, 8.0, 16.0]


def test_c25_an_engine_takes_what_is_free_and_not_what_is_needed() -> None:
    """NVIDIA/TensorRT-LLM#1400: "Allocate 69,524,783,104 bytes for k/v cache. Using 132,608 tokens"."""
    assert rl.kv_bytes(rl.model("llama-2-7b"), context_tokens=132_608, kv="fp16") == 69_524_783_104


@pytest.mark.parametrize(
    ("n_layers", "gib"),
    [(32, 15.625), (80, 39.0625), (126, 61.5234375)],  # the published 405B row, 123.05, is twice what 8 KV heads need
)
def test_c28_llama_3_1_at_128000_tokens(n_layers: int, gib: float) -> None:
    """huggingface/blog#2345: printed as "15.62", "39.06" and "123.05 GB", which are GiB of 128,000 (not 131,072) tokens."""
    assert rl.kv_bytes(plain_decoder(n_layers, 8, 128), context_tokens=128_000, kv="fp16") / GIB == gib


def test_c30_3072_tokens_of_qwen_2_5_7b_are_0_164_gib() -> None:
    """The measured slope was "0.16 GB" a request."""
    assert rl.kv_bytes(rl.model("qwen2.5-7b"), context_tokens=3072, kv="bf16") / GIB == pytest.approx(0.164, abs=0.0005)


def test_c32_the_cache_is_no_function_of_the_number_of_parameters() -> None:
    """Osmantic/ODS#3324: 36 layers of 8 KV heads of 128: 4.5 GiB at 32k and 36 at 256k, whatever the weights."""
    model = rl.model("qwen3-8b")
    assert [rl.kv_bytes(model, context_tokens=n, kv="bf16") / GIB for n in (32768, 262144)] == [4.5, 36.0]


# What the architectures of this part must give, from the task's own list of public numbers


def test_gpt_oss_20b_at_8192_under_both_policies() -> None:
    model = rl.model("gpt-oss-20b")
    assert rl.kv_bytes(model, context_tokens=8192, kv="bf16") == 204_472_320
    assert rl.kv_bytes(model, context_tokens=8192, kv="bf16", policy="allocated") == 402_653_184


def test_gpt_oss_120b_grows_by_36864_bytes_a_token_beyond_the_window() -> None:
    model = rl.model("gpt-oss-120b")
    at = [rl.kv_bytes(model, context_tokens=n, kv="bf16") for n in (5000, 5001)]
    assert at[1] - at[0] == 36_864


def test_gemma_caches_in_mib_and_gib() -> None:
    """Gemma-2-9B at 32k (32,768): 6,048 MiB; Gemma-3-27B at 131,072: 10.41 GiB (to its last digit); Gemma-3-12B exact."""
    assert rl.kv_bytes(rl.model("gemma-2-9b"), context_tokens=32768, kv="bf16") == 6048 * MIB
    assert rl.kv_bytes(rl.model("gemma-3-27b"), context_tokens=131072, kv="bf16") / GIB == pytest.approx(
        10.41, abs=0.005
    )
    assert rl.kv_bytes(rl.model("gemma-3-12b"), context_tokens=32768, kv="bf16") == 2_483_027_968


def test_mixtral_streams_84_gb_in_a_decode_pass_of_eight() -> None:
    """8·(1 − (3/4)^8) = 7.199 of 8 experts a layer: 3.2 GB of dense weights without the table, 45.1·2·0.8999 of experts.

    A calculator that streams active parameters says 26 GB.
    """
    ledger = rl.count(rl.model("mixtral-8x7b"), rl.Seqs(n_seq=8, n_new=1, n_past=1024))
    assert ledger.weight_bytes / 1e9 == pytest.approx(84.11, abs=0.005)


def test_a_batch_of_three_touches_4_625_experts_of_mixtral() -> None:
    """8·(1 − (3/4)³); at least 2, at most 6."""
    ops = rl.count(rl.model("mixtral-8x7b"), rl.Seqs(n_seq=3, n_new=1, n_past=1024)).ops
    gate = next(op for op in ops if op.kind == "expert")
    one = 4096 * 14336 * 2.0
    assert gate.weight_bytes / one == pytest.approx(4.625, rel=1e-12)
    assert [gate.weight_bytes_min / one, gate.weight_bytes_max / one] == [2.0, 6.0]


def test_the_heads_of_a_deployment_do_not_shrink_a_latent() -> None:
    """DeepSeek-V3's 70,272 B hold for 128 heads as for 8: no head has keys of its own to leave out."""
    spec = rl.model("deepseek-v3").plain()
    for layer in (layer for group in spec["layers"] for layer in group["layers"]):
        layer["mixer"]["n_heads"] = 8
    fewer = rl.Model.read(spec, where="fewer-heads.yaml")
    assert rl.kv_bytes(fewer, context_tokens=1, kv="bf16") == 70_272
    assert not any(isinstance(layer.mixer, Attention) for _, layer in fewer.layer_kinds())
