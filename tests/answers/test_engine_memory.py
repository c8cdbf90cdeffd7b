"""What engines logged about their memory, asked through the front door: weights, budgets, tokens, sequences.

A budget is held to 3 %, weights to 1 %; tokens of a budget that a log rounds, to what the rounding allows. The shipped files
describe one version; logs of older ones are asked of an engine with their habits, as a user's own file would have it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from zoo import of_layers

import roofline as rl
from roofline.answers.memory import Memory, StageMemory
from roofline.specs import catalog
from roofline.specs.engine import Engine
from roofline.specs.mixers import Latent

KIB, MIB, GIB = 2**10, 2**20, 2**30
VLLM, SGLANG, TRTLLM, LLAMA_CPP, MLX = (catalog.engine(n) for n in ("vllm", "sglang", "trtllm", "llama.cpp", "mlx"))
IDEAL = catalog.engine("ideal")
H100, H200, A100, B200 = (
    rl.hardware(n) for n in ("h100-sxm-80gb", "h200-sxm-141gb", "a100-sxm-80gb", "b200-sxm-180gb")
)


def own_vllm(**memory: Any) -> Engine:
    """vLLM before it counted captured graphs, from a file as a user would write it; a sequence holds one state."""
    file = {
        "id": "vllm-own",
        "name": "vLLM",
        "version": "0.19",
        "memory": {"fraction_of": "total", "fraction": 0.9, "context": "0.25 GiB", "sharded_context": "2.1 GiB"}
        | {"driver": "450 MiB"}
        | memory,
        "pages": {"tokens": 16, "windows": "groups", "in_flight": 2},
        "activations": {"logit_bytes": 14.5},
        "scheduler": [{"batch_tokens": 8192, "max_seqs": 1024}],
        "kernels": {"chunked": True},
    }
    return Engine.read(file, where="vllm-own.yaml")


V19 = own_vllm().varied(memory_fraction=0.95)


def asked(
    model: rl.Model | str,
    engine: Engine,
    *,
    hardware: rl.Hardware = H100,
    context: Any = 8192,
    batch: Any = 1,
    **more: Any,
) -> Memory:
    model = rl.model(model) if isinstance(model, str) else model
    d = rl.Deployment(model=model, hardware=hardware, engine=engine, **more)
    return rl.memory(d, context_tokens=context, batch=batch)


def of_size(chip: rl.Hardware, size: float) -> rl.Hardware:
    """The same chip with another memory [B]."""
    return chip.model_copy(update={"memory": chip.memory.model_copy(update={"capacity_bytes": size})})


def leaving(budget: float, model: rl.Model | str, *, engine: Engine = V19, context: int = 8192, **more: Any) -> Memory:
    """Asked of a chip just large enough for an engine that takes a share of all to leave so much for the cache [B]."""
    engine = engine.varied(batch_tokens=8192, max_seqs=1024)
    large = of_size(H100, 4e12)
    m = asked(model, engine, hardware=large, **more)
    used = m.weight_bytes_per_chip + m.activation_bytes_per_chip + m.runtime_bytes_per_chip
    total = (budget + used) / engine.fraction(80e9) + engine.memory.driver_bytes
    return asked(model, engine, hardware=of_size(H100, total), context=context, **more)


def logged(gib: float, model: rl.Model | str, **more: Any) -> tuple[float, float]:
    """The fewest and the most tokens of a budget that a log rounds to hundredths of a GiB."""
    low, high = (leaving((gib + d) * GIB, model, **more).kv_tokens for d in (-0.005, 0.005))
    return low, high


def decoder(n_layers: int, n_kv_heads: int, d_head: int) -> rl.Model:
    """A decoder of which only what its cache is made of matters."""
    mixer = {"kind": "attention", "n_heads": n_kv_heads, "n_kv_heads": n_kv_heads, "d_head": d_head}
    layer = {"mixer": mixer, "ffn": {"kind": "dense", "d_ff": 64}}
    return of_layers(layer, repeat=n_layers, max_context_tokens=2**20)


# vLLM: weights and budgets
# C36: llm-d-incubation/llm-d-planner#205, accuracy_report.md: vLLM 0.19 on H100 (79.19 GiB to CUDA), fraction 0.95

REQUESTED = 75.23  # GiB, 0.95 of 79.19

C36 = [  # model, plan, "Model loading took", "torch peak memory increase", "non-torch forward increase memory", in GiB
    ("llama-3.1-8b", rl.Plan(), 14.99, 1.89, 0.25),
    ("llama-3.1-8b", rl.Plan(tp=2), 7.51, 1.89, 2.07),
    ("llama-3.1-8b", rl.Plan(tp=4), 3.77, 1.89, 2.13),
    ("qwen2.5-7b", rl.Plan(), 14.25, 2.21, 0.24),
    ("qwen2.5-7b", rl.Plan(tp=2), 7.12, 2.21, 2.06),
    ("qwen2.5-7b", rl.Plan(tp=4), 3.55, 2.21, 2.13),
]


@pytest.mark.parametrize(("name", "plan", "weights", "active", "other"), C36)
def test_c36_weights_and_what_is_left(name: str, plan: rl.Plan, weights: float, active: float, other: float) -> None:
    m = asked(name, V19, plan=plan)
    assert m.weight_bytes_per_chip / GIB == pytest.approx(weights, rel=0.01)
    assert m.kv_budget_bytes_per_chip / GIB == pytest.approx(REQUESTED - weights - active - other, rel=0.03)


FROM_ERRORS = [  # model, tp, parameters of the checkpoint, the planner's weight error in %, activation, non-torch in GiB
    ("qwen3-8b", 1, 8_190_735_360, -0.09, 2.21, 0.25),
    ("qwen3-30b-a3b", 1, 30_532_122_624, -0.02, 2.68, 0.27),
    ("deepseek-v2-lite", 1, 15_706_484_224, -0.59, 1.93, 0.26),
    ("gemma-2-27b", 1, 27_227_128_320, -0.01, 3.66, 0.26),
    ("gemma-2-9b", 1, 9_241_705_984, -0.03, 3.65, 0.25),
    ("gemma-2-2b", 1, 2_614_341_888, -0.62, 3.62, 0.24),
    ("phi-4-14b", 1, 14_659_507_200, -0.31, 1.52, 0.25),
    ("qwen1.5-moe-a2.7b", 1, 14_315_784_192, -0.02, 2.47, 0.25),
    ("mixtral-8x7b", 2, 46_702_792_704, -0.02, 1.21, 2.07),
]


@pytest.mark.parametrize(("name", "tp", "n_params", "error", "active", "other"), FROM_ERRORS)
def test_c36_the_report_s_other_models(
    name: str, tp: int, n_params: int, error: float, active: float, other: float
) -> None:
    """Of these the report gives how far its planner, 2 B a parameter, was from what vLLM loaded: the log is worked back."""
    weights = 2 * n_params / GIB / (1 + error / 100) / tp
    m = asked(name, V19, plan=rl.Plan(tp=tp))
    assert m.weight_bytes_per_chip / GIB == pytest.approx(weights, rel=0.01)
    assert m.kv_budget_bytes_per_chip / GIB == pytest.approx(REQUESTED - weights - active - other, rel=0.03)


def test_c36_llama_on_one_h100() -> None:
    """TP 1, 8192 tokens a request: 14.99 GiB, "Available KV cache memory: 58.11 GiB", 476,000 tokens, 58.11x.

    The report's runs are at fraction 0.95, 8192 tokens and 1024 sequences a pass: "requested memory: 75.23GiB" of 79.19.
    """
    m = asked("llama-3.1-8b", V19, batch=58)
    assert m.weight_bytes / GIB == pytest.approx(14.99, rel=0.005)
    assert m.kv_budget_bytes_per_chip / GIB == pytest.approx(58.11, rel=0.005)
    assert m.kv_tokens == pytest.approx(476_000, rel=0.005)
    assert (m.max_batch, m.fits) == (58, True)


def test_c36_the_shipped_engine_counts_graphs_and_stays_within_three_per_cent() -> None:
    """vLLM 0.33, as its file is: 1.04 GiB of graphs now count, so 57.1 GiB are left of what was 58.11."""
    m = asked("llama-3.1-8b", VLLM.varied(memory_fraction=0.95))
    assert m.kv_budget_bytes_per_chip / GIB == pytest.approx(58.11, rel=0.03)
    assert m.kv_budget_bytes_per_chip / GIB == pytest.approx(58.11 - 1.04, rel=0.005)


def test_c36_a_longer_context_leaves_as_much() -> None:
    """The report: 58.11 GiB and 476,000 tokens from max_model_len 2048 to 32,768: passes are cut at 8192."""
    budgets = {asked("llama-3.1-8b", V19, context=n).kv_budget_bytes_per_chip for n in (2048, 8192, 32_768)}
    assert len(budgets) == 1


@pytest.mark.parametrize(
    ("weights", "held", "budget"),
    [("fp32", 29.98, 42.80), ("fp8", 8.49, 64.61)],
)
def test_c36_other_formats_of_llama(weights: str, held: float, budget: float) -> None:
    """`--dtype float32` doubles the weights; `--quantization fp8` keeps the table and the head in 16 bit."""
    m = asked("llama-3.1-8b", V19, weights=weights, kv="fp32" if weights == "fp32" else "bf16")
    assert m.weight_bytes / GIB == pytest.approx(held, rel=0.01)
    assert m.kv_budget_bytes_per_chip / GIB == pytest.approx(budget, rel=0.03)


@pytest.mark.parametrize(("pp", "weights", "active"), [(2, 7.51, 1.10), (4, 4.26, 1.05)])
def test_c36_the_first_stage_does_not_sample_and_needs_no_collectives(pp: int, weights: float, active: float) -> None:
    """pp 2 and 4: the first stage holds the table and 16 or 8 layers; 0.07 GiB besides."""
    d = rl.Deployment(model=rl.model("llama-3.1-8b"), hardware=H100, plan=rl.Plan(pp=pp), engine=V19)
    first, last = StageMemory(d, 0, 0.0), StageMemory(d, pp - 1, 0.0)
    assert first.weight_bytes / GIB == pytest.approx(weights, rel=0.01)
    assert first.budget_bytes / GIB == pytest.approx(REQUESTED - weights - active - 0.07, rel=0.01)
    assert last.activation_bytes > first.activation_bytes
    assert rl.memory(d, context_tokens=8192).kv_budget_bytes_per_chip == last.budget_bytes


@pytest.mark.parametrize(("length", "budget", "blocks"), [(20_000, 3.81, 1952), (29_000, 2.89, 1478)])
def test_c20_a_longer_context_leaves_less_where_prompts_are_not_cut(length: int, budget: float, blocks: int) -> None:
    """vllm-project/vllm#10517: Llama-3.1-8B on an RTX 3090, fraction 0.90, 0.35 GiB besides; 0.6 read whole prompts.

    14.9888 GiB of weights; 3.81 GiB left are 1952 blocks at 20,000 tokens, 2.89 are 1478 at 29,000, which is refused.
    """
    engine = own_vllm(context="0.35 GiB").varied(batch_tokens=length, max_seqs=256)
    m = asked("llama-3.1-8b", engine, hardware=rl.hardware("rtx-3090"), context=length)
    assert m.weight_bytes / GIB == pytest.approx(14.9888, rel=0.01)
    assert m.kv_budget_bytes_per_chip / GIB == pytest.approx(budget, rel=0.03)
    assert m.kv_tokens == pytest.approx(16 * blocks, rel=0.03)
    assert (m.fits, m.max_batch) == ((True, 1) if length == 20_000 else (False, 0))


def test_c20_its_blocks_at_its_budgets() -> None:
    for gib, blocks, length in ((3.81, 1952, 20_000), (2.89, 1478, 29_000)):
        low, high = logged(gib, "llama-3.1-8b")
        assert low <= 16 * blocks <= high
        m = leaving(gib * GIB, "llama-3.1-8b", context=length)
        assert m.max_batch == 16 * blocks // length
        assert low <= m.max_context_tokens <= high


def test_c22_what_a_longer_pass_leaves() -> None:
    """vllm-project/vllm#25350: Qwen3-30B-A3B, fp8 cache: 10.55 GiB at 100,000 tokens a pass, 5.59 at 221,000.

    An expert kernel then took 32,768 tokens at once. Only the difference is known: neither the chip nor its share is said.
    """
    file = own_vllm().activations
    assert file is not None
    old = own_vllm().model_copy(update={"activations": file.model_copy(update={"expert_tokens": 32_768})})
    left = [
        asked(
            "qwen3-30b-a3b", old.varied(batch_tokens=n, max_seqs=256), weights="fp8", kv="fp8"
        ).kv_budget_bytes_per_chip
        for n in (100_000, 221_000)
    ]
    assert (left[0] - left[1]) / GIB == pytest.approx(10.55 - 5.59, abs=0.01)


def test_two_gpus_share_an_fp8_70b() -> None:
    """llm-d/llm-d-benchmark, empirical-vllm-memory-results.md: Llama-3.3-70B-FP8, TP 2, fraction 0.9: 33.88 and 32.0 GiB.

    vLLM up to 0.16: 38.5 B a logit while it sorted them, 0.55 GiB besides on two GPUs.
    """
    file = own_vllm(sharded_context="0.55 GiB").activations
    assert file is not None
    old = own_vllm(sharded_context="0.55 GiB").model_copy(
        update={"activations": file.model_copy(update={"logit_bytes": 38.5})}
    )
    m = asked("llama-3.1-70b", old, plan=rl.Plan(tp=2), weights="fp8", kv="bf16", context=16_000)
    assert m.weight_bytes_per_chip / GIB == pytest.approx(33.88, rel=0.01)
    assert m.activation_bytes_per_chip / GIB == pytest.approx(4.84, rel=0.01)
    assert m.kv_budget_bytes_per_chip / GIB == pytest.approx(32.0, rel=0.01)


# vLLM: tokens, blocks, sequences of a budget


@pytest.mark.parametrize(
    ("case", "model", "kv", "gib", "tokens"),
    [
        ("C16 alvarobartt/hf-mem#60", "gpt-oss-120b", "bf16", 5.38, 78_384),
        ("C17 alvarobartt/hf-mem#61", "gemma-4-31b-nvfp4", "bf16", 24.54, 26_800),
        ("C22 vllm-project/vllm#25350", "qwen3-30b-a3b", "fp8", 10.55, 230_528),
        ("C22 the same, at 221,000", "qwen3-30b-a3b", "fp8", 5.59, 122_080),
        ("C23 vllm-project/vllm#34076", "qwen3-30b-a3b", "bf16", 3.18, 34_736),
        ("C36 accuracy_report.md", "llama-3.1-8b", "bf16", 58.11, 476_016),
        ("C36 the same, fp8", "llama-3.1-8b", "fp8", 58.11, 952_032),
        ("C36 the same, fp32", "llama-3.1-8b", "fp32", 42.80, 175_296),
        ("C36 the same", "qwen2.5-7b", "bf16", 58.53, 1_095_968),
        ("vLLM recipes, a cache like DeepSeek-V3's: Kimi-K2-Thinking", "deepseek-v3", "bf16", 46.80, 715_072),
    ],
)
def test_tokens_of_a_logged_budget(case: str, model: str, kv: str, gib: float, tokens: int) -> None:
    low, high = logged(gib, model, kv=kv)
    assert low <= tokens <= high, case


def test_c17_the_blocks_of_gemma_4_hold_exactly_so_many() -> None:
    """24.54 GiB are ⌊24.54 GiB / 2,621,440 B⌋ = 10,051 blocks; ⌊10,051/6⌋ · 16."""
    assert leaving(24.54 * GIB, "gemma-4-31b-nvfp4", kv="bf16").kv_tokens == 26_800


@pytest.mark.parametrize(
    ("budget", "model", "kv", "context", "times"),
    [
        (127_626 * 2 * MIB, "llama-3.1-8b", "bf16", 2048, 997.08),  # C18: vllm-project/vllm#13596, blocks of 16
        (10.55 * GIB, "qwen3-30b-a3b", "fp8", 100_000, 2.31),  # C22
        (58.11 * GIB, "llama-3.1-8b", "bf16", 8192, 58.11),  # C36
        (1487.5 * 784 * 16 * 4096, "qwen3.5-27b", "bf16", 32_768, 33.04),  # C33: 1487 blocks of 784 · 16 layers
    ],
)
def test_whole_sequences_of_a_logged_concurrency(
    budget: float, model: str, kv: str, context: int, times: float
) -> None:
    assert leaving(budget, model, kv=kv, context=context).max_batch == int(times)


def test_c18_tokens_are_blocks_times_sixteen() -> None:
    assert leaving(127_626.5 * 2 * MIB, "llama-3.1-8b", kv="bf16").kv_tokens == 2_042_016


def test_c33_trust_the_concurrency_and_not_the_tokens_of_a_hybrid() -> None:
    """vllm-project/vllm#40691: "290,864 tokens" and "33.04x" of 32,768 in one log: 33 sequences have 1,082,655 tokens."""
    m = leaving(1487.5 * 784 * 16 * 4096, "qwen3.5-27b", kv="bf16", context=32_768)
    assert m.kv_tokens == 290_864
    assert m.max_batch * 32_768 > 3 * m.kv_tokens


def test_c14_windows_whole_or_capped() -> None:
    """alvarobartt/hf-mem#70, gpt-oss-20b, 32 × 8192: 12.00 GiB where windows are held whole, 6.09 where they are not."""
    whole = Engine.read(
        {"id": "whole", "name": "Whole", "version": "1", "memory": {"fraction_of": "none", "fraction": 1.0},
         "pages": {"tokens": 16, "windows": "allocated"}},
        where="whole.yaml",
    )  # fmt: skip
    sizes = [asked("gpt-oss-20b", e, kv="bf16", batch=32).allocated_kv_bytes_per_chip / GIB for e in (whole, IDEAL)]
    assert sizes[0] == 12.0
    assert sizes[1] == pytest.approx(6.09, abs=0.005)


def test_c23_each_stage_needs_its_own_share() -> None:
    """vllm-project/vllm#34076: 262,144 tokens of Qwen3-Coder-30B-A3B need 24.0 GiB: 8 and 16 on stages of 16 and 32."""
    plan = rl.Plan(pp=2, stages=(16, 32))
    model = rl.model("qwen3-30b-a3b")
    d = rl.Deployment(model=model, hardware=rl.hardware("rtx-5090"), plan=plan, weights="fp8", kv="bf16", engine=V19)
    m = rl.memory(d, context_tokens=262_144)
    assert m.kv_bytes == 24 * GIB
    assert m.kv_bytes_per_chip == m.allocated_kv_bytes_per_chip == 16 * GIB
    assert [StageMemory(d, stage, 0.0).held(262_144.0, 1.0) / GIB for stage in (0, 1)] == [8.0, 16.0]
    assert m.fits is False


def test_what_context_parallel_chips_hold_adds_up() -> None:
    """vLLM recipes, Kimi-K2-Thinking: "Multiplying the GPU KV cache size by the dcp_world_size 8": 5,721,088 of 715,136.

    Each of cp chips holds a part of every sequence: together they hold cp times the tokens of one of them, whatever its own.
    """
    together, alone = (asked("llama-3.1-8b", IDEAL, plan=plan) for plan in (rl.Plan(cp=4), rl.Plan()))
    assert together.kv_tokens == 4 * alone.kv_tokens
    assert together.max_batch == together.kv_tokens // 8192


# SGLang and TensorRT-LLM


def test_sglang_s_static_share_of_four_h100() -> None:
    """vllm-project/vllm#21348: Qwen3-235B-A22B-FP8, TP 4, --mem-fraction-static 0.93: 367,404 tokens, K and V 8.23 each."""
    engine = SGLANG.varied(memory_fraction=0.93)
    m = asked("qwen3-235b-a22b", engine, plan=rl.Plan(tp=4), weights="fp8-block", kv="bf16")
    assert m.kv_budget_bytes_per_chip / GIB == pytest.approx(2 * 8.23, rel=0.03)
    assert m.kv_tokens == pytest.approx(367_404, rel=0.03)


def test_sglang_s_static_share_of_an_mi355x() -> None:
    """sgl-project/sglang#18263: Qwen3-30B-A3B: "mem usage=56.98 GB", fraction 0.911, 204.63 GB available; GB is GiB."""
    m = asked("qwen3-30b-a3b", SGLANG.varied(memory_fraction=0.911), hardware=rl.hardware("mi355x"))
    assert m.weight_bytes / GIB == pytest.approx(56.98, rel=0.01)
    assert m.kv_budget_bytes_per_chip / GIB == pytest.approx(204.63, rel=0.005)


@pytest.mark.parametrize(("chip", "mib", "headroom"), [(H100, 81_559, 13_904), (B200, 183_359, 26_832)])
def test_sglang_leaves_its_headroom_outside(chip: rl.Hardware, mib: int, headroom: int) -> None:
    """H100: 512 + 1.5·8192 + 2·256 + 8·58 + 128 MiB, so 0.830; B200: 512 + 1.5·16384 + 2·512 + 8·74 + 128, so 0.854.

    f of what is free once CUDA is up (450 and 256 MiB less than the driver prints), less the weights.
    """
    f = round(1 - headroom / mib, 3)
    m = asked("llama-3.1-8b", SGLANG, hardware=chip)
    assert f == {81_559: 0.830, 183_359: 0.854}[mib]
    assert m.kv_budget_bytes_per_chip == pytest.approx(f * (mib - 450 - 256) * MIB - 2 * 8_030_261_248)


def test_c25_tensorrt_llm_takes_nine_tenths_of_what_is_free() -> None:
    """NVIDIA/TensorRT-LLM#1400: a 7B in int8 on an A100: 69,524,783,104 B for 132,608 tokens, in blocks of 64.

    The engine was built for one request and 4096 tokens a pass, its weights are 6683 MiB.
    """
    engine = TRTLLM.varied(page_tokens=64, batch_tokens=4096, max_seqs=1)
    m = asked("llama-2-7b", engine, hardware=A100, weights="int8", kv="fp16", context=1024)
    assert m.weight_bytes / MIB == pytest.approx(6683, rel=0.01)
    assert m.kv_budget_bytes_per_chip == pytest.approx(69_524_783_104, rel=0.03)
    assert m.kv_tokens == pytest.approx(132_608, rel=0.03)
    assert m.kv_bytes_per_token == 524_288


def test_tensorrt_llm_s_share_is_of_what_is_free() -> None:
    parts = [asked("llama-3.1-8b", TRTLLM.varied(memory_fraction=f)).kv_budget_bytes_per_chip for f in (0.9, 0.5, 1.0)]
    assert parts[0] / parts[2] == pytest.approx(0.9)
    assert parts[1] / parts[2] == pytest.approx(0.5)
    m = asked("llama-3.1-8b", TRTLLM)
    free = (81_559 - 450) * MIB - m.weight_bytes - m.activation_bytes_per_chip - 0.25 * GIB
    assert m.kv_budget_bytes_per_chip == pytest.approx(0.9 * free)


# llama.cpp and Macs


@pytest.mark.parametrize(
    ("case", "model", "kv", "context", "batch", "mib"),
    [
        ("C01 a log", "llama-3-8b", "f16", 2048, 4, 1024.0),
        ("C02 a log", "llama-2-7b", "f16", 2048, 1, 1024.0),
        ("C06 ikawrakow/ik_llama.cpp#259", "deepseek-v3", "q8_0", 32_768, 1, 1166.625),
        ("C07 ollama/ollama#1800", "llama-2-70b", "f16", 2048, 1, 640.0),
        ("C09 ggml-org/llama.cpp#6032", "llama-2-70b", "f16", 8192, 1, 2560.0),
    ],
)
def test_cells_of_llama_cpp(case: str, model: str, kv: str, context: int, batch: int, mib: float) -> None:
    m = asked(model, LLAMA_CPP, kv=kv, context=context, batch=batch)
    assert m.allocated_kv_bytes_per_chip == m.kv_bytes == mib * MIB, case


def test_c03_layers_over_two_gpus() -> None:
    """ggml-org/llama.cpp#11200: 64 layers in q8_0: 4352.00 MiB, of which 41 layers hold 2788.00 and 23 hold 1564.00."""
    plan = rl.Plan(pp=2, stages=(41, 23))
    d = rl.Deployment(model=decoder(64, 8, 128), hardware=H100, plan=plan, kv="q8_0", engine=LLAMA_CPP)
    m = rl.memory(d, context_tokens=32_768)
    assert m.kv_bytes == 4352 * MIB
    assert m.allocated_kv_bytes_per_chip == 2788 * MIB
    assert [StageMemory(d, i, 0.0).allocated(32_768.0, 1.0) / MIB for i in (0, 1)] == [2788.0, 1564.0]


def test_c09_c32_heads_and_layers_set_the_cache() -> None:
    """Qwen-72B has 64 KV heads: 20,480 MiB at 8192 tokens. Osmantic/ODS#3324: 36 layers of 8 of 128: 4.5, 36 GiB."""
    assert asked(decoder(80, 64, 128), LLAMA_CPP, kv="f16").allocated_kv_bytes_per_chip == 20_480 * MIB
    sizes = [asked(decoder(36, 8, 128), LLAMA_CPP, kv="f16", context=n).kv_bytes / GIB for n in (32_768, 262_144)]
    assert sizes == [4.5, 36.0]


def test_c10_a_hybrid_s_state_stands_beside_16_gib() -> None:
    """lmstudio-bug-tracker#1862: 262,144 tokens, 4 sequences: 16384.00 MiB and 598.50 MiB of state.

    llama.cpp keeps the convolution in fp32 too, here it is in 16 bit: 11.25 MiB less.
    """
    m = asked("qwen3.5-27b", LLAMA_CPP, kv="f16", context=65_536, batch=4)
    assert m.allocated_kv_bytes_per_chip == (16_384 + 598.5 - 11.25) * MIB


def test_c13_a_window_of_mlx() -> None:
    """lablup/mlxcel#172: gemma3-1b at 32,768 tokens: 22 layers of 512, 4 of all: 139 MiB; pages of 256 change nothing."""
    mac = rl.hardware("m5-max-40c:128GB")
    assert asked("gemma-3-1b", MLX, hardware=mac, kv="fp16", context=32_768).allocated_kv_bytes_per_chip == 139 * MIB


@pytest.mark.parametrize(("engine", "besides"), [(MLX, 0.0), (LLAMA_CPP, 1.0)])
def test_a_mac_of_128_lets_its_gpu_wire_107_52_gib(engine: Engine, besides: float) -> None:
    """antirez/ds4#893, an M5 Max: "recommendedMaxWorkingSetSize: 107.52 GiB"; llama.cpp leaves 1 GiB of it free."""
    m = asked("llama-3.1-70b", engine, hardware=rl.hardware("m5-max-40c:128GB"), weights="q8_0", kv="f16")
    taken = m.weight_bytes + m.activation_bytes_per_chip + besides * GIB
    assert (m.kv_budget_bytes_per_chip + taken) / GIB == pytest.approx(107.52, abs=0.01)
    assert m.runtime_bytes_per_chip == besides * GIB
    assert (
        m.max_batch
        < asked("llama-3.1-70b", IDEAL, hardware=rl.hardware("m5-max-40c:128GB"), weights="q8_0", kv="f16").max_batch
    )


# More chips


@pytest.mark.parametrize("engine", [IDEAL, VLLM, SGLANG, TRTLLM], ids=lambda e: e.id)
def test_a_kv_head_is_copied_where_tp_exceeds_them(engine: Engine) -> None:
    """Llama-3-70B has 8 KV heads: at tp 16 a chip caches one, as at tp 8: 80 · 2 · 128 · 2 B a token."""
    at_8, at_16 = (asked("llama-3-70b", engine, plan=rl.Plan(tp=tp), hardware=B200, context=4096) for tp in (8, 16))
    assert at_16.kv_bytes_per_token_per_chip == at_8.kv_bytes_per_token_per_chip == 40_960
    assert at_16.kv_bytes_per_chip == at_8.kv_bytes_per_chip == 4096 * 40_960
    assert at_16.allocated_kv_bytes_per_chip == at_8.allocated_kv_bytes_per_chip


DEEPSEEK = rl.model("deepseek-v3")


def test_c29_a_latent_is_whole_on_every_rank() -> None:
    """LMCache/LMCache#715: (512 + 64) · 2 B = 1152 B a token and layer, 70,272 B in 61: under tp 8 as under dp 8."""
    for plan in (rl.Plan(tp=8), rl.Plan(dp=8, ep=8)):
        m = asked(DEEPSEEK, IDEAL, hardware=H200, plan=plan, weights="fp8", kv="bf16")
        assert m.kv_bytes_per_token_per_chip == 61 * 1152 == 70_272


ATTENTION = 7168 * 1536 + 1536 * 128 * 192 + 7168 * 576 + 512 * 128 * 256 + 128 * 128 * 7168  # elements a layer
BOTTLENECKS = 7168 * 1536 + 7168 * 576  # of which tp copies these: q_a, and kv_a with the rotated key


def ratio_of_tokens(engine: Engine) -> float:
    """Tokens of 8 H200 under dp 8 and ep 8, for one under tp 8."""
    by_tp, by_dp = (
        asked(DEEPSEEK, engine, hardware=H200, plan=plan, weights="fp8", kv="bf16", context=4096)
        for plan in (rl.Plan(tp=8), rl.Plan(dp=8, ep=8))
    )
    return 8 * by_dp.kv_tokens / by_tp.kv_tokens


def test_dp_attention_holds_six_and_a_half_times_the_tokens_not_eight() -> None:
    """DeepSeek-V3 on 8 H200 (143,771 MiB), fp8 weights, 0.9 of the memory: 0.9 · 150.75 = 135.68 GB a chip.

    Attention has 187,105,280 weights a layer, 11.41 GB in 61. Under tp 8 a chip holds the bottlenecks whole (15,138,816) and
    an eighth of the rest, 2.23 GB; under dp 8 all of it, 9.18 GB more. Of 50.56 GB that tp leaves for the cache on each of 8
    chips, which hold the same tokens, 41.38 remain, on 8 chips with tokens of their own: 8 · 41.38 / 50.56 = 6.55 times.
    """
    assert ATTENTION == 187_105_280
    engine = IDEAL.varied(memory_fraction=0.9)
    by_tp = asked(DEEPSEEK, engine, hardware=H200, plan=rl.Plan(tp=8), weights="fp8", kv="bf16")
    left = by_tp.kv_budget_bytes_per_chip
    assert left == pytest.approx(50.56e9, rel=0.001)
    more = 61 * (ATTENTION - BOTTLENECKS) * 7 / 8
    assert more == pytest.approx(9.18e9, rel=0.001)
    assert 8 * (left - more) / left == pytest.approx(6.55, abs=0.01)
    assert ratio_of_tokens(engine) == pytest.approx(6.55, abs=0.01)


def test_what_an_engine_sets_aside_makes_copies_dearer() -> None:
    """vLLM at 0.9: 0.9 · (150.75 − 0.47) = 135.26 GB, of which under tp 8 85.12 are weights, and

        1024 · 129,280 · 14.5 + 8192 · 7168 · 2 + 8192 · 8 · (7168 + 7168) · 2 = 3.92 GB    logits; experts' workspaces
        3.14 GiB                                                               = 3.37 GB    collectives and graphs

    so 42.85 GB are left. Under dp 8 a layer is wider than the logits, 131,136 elements of 2 B a token, 0.11 GB more, and
    weights 9.18 GB more: 33.56 GB, 8 · 33.56 / 42.85 = 6.27 times.
    """
    assert ratio_of_tokens(VLLM.varied(memory_fraction=0.9)) == pytest.approx(6.27, abs=0.02)


def test_what_eight_ranks_of_deepseek_load() -> None:
    """HabanaAI/vllm-fork#809: DeepSeek-R1 in fp8 over 8 devices: "79.41 GiB of device memory" each."""
    m = asked("deepseek-r1", VLLM, hardware=H200, plan=rl.Plan(tp=8), kv="bf16")
    assert m.weight_bytes_per_chip / GIB == pytest.approx(79.41, rel=0.01)


def test_c34_eight_ranks_hold_nearly_eight_times_the_sequences() -> None:
    """vllm-project/recipes#762: DeepSeek-V4-Flash on 8 B200: 156.9x under dp 8 and ep 8, 20.43x under tp 8: 7.68 times.

    vllm-project/vllm#51454: fp8 cache, fraction 0.95, blocks of 256, 8192 tokens and 256 sequences a pass.
    """
    engine = VLLM.varied(memory_fraction=0.95, batch_tokens=8192, max_seqs=256, page_tokens=256)
    by_tp, by_dp = (
        asked("deepseek-v4-flash", engine, hardware=B200, plan=plan, kv="fp8", context=2**20)
        for plan in (rl.Plan(tp=8, ep=8), rl.Plan(dp=8, ep=8))
    )
    assert 8 * by_dp.kv_budget_bytes_per_chip / by_tp.kv_budget_bytes_per_chip == pytest.approx(156.9 / 20.43, rel=0.03)


def test_the_mixer_the_arithmetic_above_is_of() -> None:
    mixer = DEEPSEEK.layer_kinds()[0][1].mixer
    assert isinstance(mixer, Latent)
    assert sum(m.n * m.d_in * m.d_out for m in mixer.matrices(7168)) == ATTENTION


# Shared beginnings


@pytest.mark.parametrize("engine", [IDEAL, VLLM, SGLANG, TRTLLM, MLX, LLAMA_CPP], ids=lambda e: e.id)
def test_64_requests_hold_a_shared_beginning_once(engine: Engine) -> None:
    """2048 tokens of Llama-3.1-8B are 256 MiB: 63 of 64 copies less, 15.75 GiB, in pages of 1, 16, 32 or 256."""
    d = rl.Deployment(model=rl.model("llama-3.1-8b"), hardware=H100, engine=engine)
    apart, shared = (rl.memory(d, context_tokens=4096, batch=64, shared_tokens=n) for n in (0, 2048))
    assert apart.kv_bytes - shared.kv_bytes == 63 * 256 * MIB == 15.75 * GIB
    assert apart.allocated_kv_bytes_per_chip - shared.allocated_kv_bytes_per_chip == 15.75 * GIB
    assert shared.kv_bytes == (4096 + 63 * 2048) * 128 * KIB


def test_a_beginning_is_shared_in_whole_pages() -> None:
    """47 tokens are two pages of 16 and 15 tokens, which every sequence has for itself."""
    d = rl.Deployment(model=rl.model("llama-3.1-8b"), hardware=H100, engine=VLLM)
    some, less = (rl.memory(d, context_tokens=160, batch=3, shared_tokens=n) for n in (47, 32))
    assert some.allocated_kv_bytes_per_chip == less.allocated_kv_bytes_per_chip == (160 + 2 * 128) * 128 * KIB
    assert some.kv_bytes < less.kv_bytes


def test_the_longest_context_is_of_a_beginning_no_longer_than_it() -> None:
    """A chip with room for 1000 tokens has none for a context of 1500, however much of it is shared."""
    m = rl.memory(
        rl.Deployment(model=rl.model("llama-3.1-8b"), hardware=of_size(H100, 2 * 8_030_261_248 + 1000 * 128 * KIB)),
        context_tokens=2000, batch=10, shared_tokens=2000,
    )  # fmt: skip
    assert m.max_context_tokens == 1000


def test_a_contiguous_cache_is_rounded_up_once_on_a_grid_too() -> None:
    """llama.cpp: two contexts of 100 are 200 cells, padded to 256, also where the shared tokens are a grid."""
    d = rl.Deployment(model=rl.model("llama-3.1-8b"), hardware=H100, engine=LLAMA_CPP)
    for shared in (0, [0, 0]):
        sizes = rl.memory(d, context_tokens=100, batch=2, shared_tokens=shared).allocated_kv_bytes_per_chip
        assert np.asarray(sizes).tolist() == np.broadcast_to(256 * 128 * KIB, np.shape(shared)).tolist()


def test_sglang_s_short_contexts_wait_for_room_in_windows() -> None:
    """gpt-oss-20b: 100 tokens, fewer than a window of 128, fill the windows' pool, 0.8 as large: 125 tokens of both pools.

    At 160 tokens windows need 128/0.8 = 160: from there on the full layers' pool is what fills.
    """
    sizes = [asked("gpt-oss-20b", SGLANG, kv="bf16", context=n).allocated_kv_bytes_per_chip for n in (100, 160, 400)]
    assert sizes == pytest.approx([tokens * 12 * 1.8 * 2048 for tokens in (125, 160, 400)])


# Towers


def test_what_a_tower_gave_is_held_of_every_sequence_on_a_grid_too() -> None:
    """Whisper: each of 32 decoder layers keeps keys and values of every frame, 2 · 1280 · 2 B."""
    d = rl.Deployment(model=rl.model("whisper-large-v3"), hardware=H100)
    frames = [100, 1500]
    grid = rl.memory(d, context_tokens=100, batch=2, memory_tokens=frames)
    points = [rl.memory(d, context_tokens=100, batch=2, memory_tokens=n) for n in frames]
    for name in ("kv_bytes", "allocated_kv_bytes_per_chip", "max_batch", "max_context_tokens", "fits"):
        assert np.asarray(getattr(grid, name)).tolist() == [getattr(p, name) for p in points]
    kept = np.asarray(grid.kv_bytes)
    assert kept[1] - kept[0] == 2 * 1400 * 32 * 2 * 1280 * 2


# What is refused

D = rl.Deployment(model=rl.model("llama-3.1-8b"), hardware=H100, engine=VLLM)
BAD = [float("nan"), -1, 1e30, float("inf"), "16", True, [], [16, -1], 10**400, {}, object()]


@pytest.mark.parametrize("name", ["context_tokens", "batch", "shared_tokens", "other_bytes", "memory_tokens"])
@pytest.mark.parametrize("value", BAD, ids=lambda v: repr(v)[:12])
def test_an_odd_quantity_is_named_in_one_line(name: str, value: Any) -> None:
    with pytest.raises(rl.RooflineError, match=f"^{name}: expected ") as caught:
        rl.memory(D, **({"context_tokens": 100} | {name: value}))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"other_bytes": [1.0, 2.0]}, "other_bytes: expected one number, got an array"),
        ({"shared_tokens": 101}, "shared_tokens: expected at most the context, which they are part of, got 101"),
        ({"batch": [1, 2], "shared_tokens": [1, 2, 3]}, "expected shapes that broadcast together"),
        ({"batch": 0}, "batch: expected a number >= 1"),
        ({"memory_tokens": 5}, "llama-3.1-8b has no cross-attention"),
    ],
)
def test_what_does_not_go_together_is_said(given: dict[str, Any], message: str) -> None:
    with pytest.raises(rl.SpecError, match=message):
        rl.memory(D, **({"context_tokens": 100} | given))


@pytest.mark.parametrize("deployment", ["x", None, VLLM, 3])
def test_only_a_deployment_is_asked(deployment: Any) -> None:
    with pytest.raises(rl.SpecError, match=r"memory\(deployment\): expected a Deployment"):
        rl.memory(deployment, context_tokens=1)


@pytest.mark.parametrize("engine", ["vlm", "", 3, None, ["vllm"], {}, b"vllm"])
def test_only_an_engine_is_one(engine: Any) -> None:
    with pytest.raises(rl.RooflineError, match="engine") as caught:
        rl.Deployment(model=rl.model("llama-3.1-8b"), hardware=H100, engine=engine)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", [float("nan"), -0.1, 0, 1.01, 1e30, float("inf"), "0.9", True, 1 + 2j, {}, b"x"])
def test_a_fraction_is_of_a_whole(value: Any) -> None:
    with pytest.raises(rl.SpecError, match=r"^memory_fraction: expected "):
        VLLM.varied(memory_fraction=value)


@pytest.mark.parametrize("name", ["page_tokens", "batch_tokens", "max_seqs"])
@pytest.mark.parametrize(
    "value",
    [float("nan"), -1, 0, 1.5, 2**41, 1e30, "16", True, [16], np.array([1, 2]), 10**400],
    ids=lambda v: repr(v)[:12],
)
def test_a_setting_is_one_whole_number(name: str, value: Any) -> None:
    with pytest.raises(rl.SpecError, match=f"^{name}: expected "):
        VLLM.varied(**{name: value})


NONSENSE = [
    ("  fraction: 0.9", "  fraction: .nan", "fraction"),
    ("  fraction: 0.9", "  fraction: 90", "fraction"),
    ("  fraction: 0.9", "  fraction: '0.9'", "fraction"),
    ("  fraction: 0.9", "  shares: []", "one of fraction, shares and headroom"),
    ("  fraction_of: total", "  fraction_of: everything", "fraction_of: expected one of"),
    ("  context: 1 GiB", "  context: 1", "context: expected a size such as"),
    ("  context: 1 GiB", "  context: -1 GiB", "context"),
    ("  context: 1 GiB", "  context: .inf GiB", "context"),
    ("  context: 1 GiB", "  contxt: 1 GiB", "contxt: unknown key; did you mean context"),
    ("  tokens: 16", "  tokens: 0", "tokens"),
    ("  tokens: 16", "  tokens: 1.5", "tokens"),
    ("  tokens: 16", "  tokens: [16]", "tokens"),
    ("  windows: groups", "  windows: shut", "windows: expected one of"),
    ("  windows: groups", "  windows: pool\n  pool_ratio: 0", "pool_ratio"),
    ("id: own", "id: ''", "id"),
    ("id: own", "- own", "own.yaml"),
]


@pytest.mark.parametrize(("line", "instead", "message"), NONSENSE)
def test_an_engine_file_with_nonsense_says_where(tmp_path: Path, line: str, instead: str, message: str) -> None:
    good = (
        "id: own\nname: Own\nversion: '1'\nmemory:\n  fraction_of: total\n  fraction: 0.9\n  context: 1 GiB\n"
        "pages:\n  tokens: 16\n  windows: groups\n"
    )
    path = tmp_path / "own.yaml"
    path.write_text(good, encoding="utf-8")
    assert catalog.engine(path).memory.context_bytes == GIB
    path.write_text(good.replace(line, instead), encoding="utf-8")
    with pytest.raises(rl.RooflineError, match=message) as caught:
        catalog.engine(path)
    assert "\n" not in str(caught.value)
    assert "own.yaml" in str(caught.value)


def test_a_driver_that_keeps_all_of_a_memory_is_refused() -> None:
    with pytest.raises(
        rl.SpecError, match=r"vllm-own: memory\.driver: expected less than the 79\.6 GiB of h100-sxm-80gb"
    ):
        asked("llama-3.1-8b", own_vllm(driver="80 GiB"))


def test_an_engine_that_takes_more_than_there_is_leaves_nothing_and_says_so() -> None:
    m = asked("llama-3.1-8b", own_vllm(context="1 PiB"))
    assert (m.fits, m.max_batch, m.max_context_tokens, m.kv_tokens) == (False, 0, 0, 0)
    assert m.short_by_bytes > 2**50 - 80 * GIB


def test_nothing_varied_is_the_engine() -> None:
    assert VLLM.varied() == VLLM
    assert VLLM.varied(page_tokens=16) == VLLM


@pytest.mark.parametrize(
    ("engine", "chip", "gib"),
    [
        ("vllm", "h100-sxm-80gb", 0.92 * (81559 - 450) / 1024),  # of what CUDA sees of 81,559 MiB
        ("mlx", "m5-max-40c", 0.84 * 128),  # what macOS lets the GPU wire
        ("llama.cpp", "m5-max-40c", 0.84 * 128),
        ("ideal", "h100-sxm-80gb", 81559 / 1024),
    ],
)
def test_what_an_engine_may_use_is_its_share_of_what_it_sees(engine: str, chip: str, gib: float) -> None:
    d = rl.Deployment(model=rl.model("llama-3.1-8b"), hardware=rl.hardware(chip), engine=engine)
    for context in (100, 10_000_000):  # whether or not it fits
        assert rl.memory(d, context_tokens=context).usable_bytes_per_chip / 2**30 == pytest.approx(gib, rel=1e-9)
