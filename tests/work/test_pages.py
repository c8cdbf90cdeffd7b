"""Pages: blocks, tokens and concurrency that engines logged, and laws of rounding up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import models, precisions
from zoo import KINDS, of_layers, zoo_models

import roofline as rl
from roofline.specs import catalog
from roofline.specs.engine import Paging
from roofline.specs.shard import share_of
from roofline.work import kvcache
from roofline.work.pages import (
    PageGroup,
    PagePool,
    allocated_bytes,
    blocks_needed,
    concurrency,
    fragmentation,
    kv_blocks,
    kv_tokens,
    page_pool,
    paged_tokens,
    plain_pool,
)
from roofline.work.step import MAX_TOKENS

MIB, GIB = 2**20, 2**30
VLLM = catalog.engine("vllm").pages
LLAMA_CPP = catalog.engine("llama.cpp").pages
IDEAL = catalog.engine("ideal").pages
WHOLE = Paging(tokens=16, windows="allocated")


def decoder(n_layers: int, n_kv_heads: int, d_head: int) -> rl.Model:
    """A decoder of which only what its cache is made of matters."""
    mixer = {"kind": "attention", "n_heads": n_kv_heads, "n_kv_heads": n_kv_heads, "d_head": d_head}
    return of_layers({"mixer": mixer, "ffn": {"kind": "dense", "d_ff": 64}}, repeat=n_layers)


def held(model: rl.Model | str, paging: Paging, *, kv: str, n_seq: float = 1.0, context: float, **more: Any) -> float:
    model = rl.model(model) if isinstance(model, str) else model
    numerics = rl.Precision(kv=kv).of(model)
    return float(allocated_bytes(model, context_tokens=context, n_seq=n_seq, numerics=numerics, paging=paging, **more))


def pool_of(model: rl.Model | str, paging: Paging = VLLM, *, kv: str = "bf16") -> PagePool:
    model = rl.model(model) if isinstance(model, str) else model
    return page_pool(model, numerics=rl.Precision(kv=kv).of(model), paging=paging)


def logged(pool: PagePool, gib: float) -> tuple[float, float]:
    """The fewest and the most tokens of a budget that a log rounds to hundredths of a GiB."""
    low, high = (float(kv_tokens(pool, budget_bytes=(gib + d) * GIB)) for d in (-0.005, 0.005))
    return low, high


# What llama.cpp reserves


def test_c01_four_sequences_of_2048_are_1024_mib() -> None:
    """A llama.cpp log, Llama-3-8B: "KV 1024.00 MiB"; n_ctx is the total of all slots."""
    assert held("llama-3-8b", LLAMA_CPP, kv="f16", context=2048, n_seq=4) == 1024 * MIB


def test_c02_llama_2_7b() -> None:
    """A llama.cpp log: 2048 tokens, 1024.00 MiB; a context of 2000 is padded to the same."""
    assert [held("llama-2-7b", LLAMA_CPP, kv="f16", context=n) for n in (2048, 2000)] == [1024 * MIB] * 2


def test_c03_layers_over_two_gpus() -> None:
    """ggml-org/llama.cpp#11200: 64 layers, q8_0: 4352.00 MiB, of which 41 layers hold 2788.00 and 23 hold 1564.00."""
    sizes = [held(decoder(n, 8, 128), LLAMA_CPP, kv="q8_0", context=32768) / MIB for n in (64, 41, 23)]
    assert sizes == [4352.0, 2788.0, 1564.0]


def test_c06_a_latent_cache() -> None:
    """ikawrakow/ik_llama.cpp#259: DeepSeek, 32,768 tokens, q8_0: 1166.62 MiB."""
    assert held("deepseek-v3", LLAMA_CPP, kv="q8_0", context=32768) / MIB == 1166.625


def test_a_window_is_kept_with_one_batch_and_padded() -> None:
    """src/llama-kv-cache-iswa.cpp: min(n_ctx, n_swa · slots + n_ubatch) cells, a multiple of 256.

    gemma-3-1b, 4 slots of 8192, 512 a batch: 22 layers of 4·512 + 512 = 2560 cells, 4 of 32,768; 1024 B a cell.
    """
    taken = held("gemma-3-1b", LLAMA_CPP, kv="f16", context=8192, n_seq=4, batch_tokens=512)
    assert taken == (22 * 2560 + 4 * 32768) * 1024


# What vLLM and TensorRT-LLM logged


def test_c14_both_policies() -> None:
    """alvarobartt/hf-mem#70, gpt-oss-20b, 32 × 8192 tokens: 12.00 GiB in full pages, 6.09 capped at the window."""
    whole, capped = (held("gpt-oss-20b", p, kv="bf16", context=8192, n_seq=32) / GIB for p in (WHOLE, IDEAL))
    assert whole == 12.0
    assert capped == pytest.approx(6.09, abs=0.005)


def test_vllm_holds_a_window_a_page_and_what_is_in_flight() -> None:
    """gpt-oss-20b: 12 layers of 8192 tokens, 12 of 127 + 2·2048 tokens rounded up to pages, and a page; 2048 B a layer."""
    held_tokens = 8192 + (-(-(127 + 4096) // 16) + 1) * 16
    assert held("gpt-oss-20b", VLLM, kv="bf16", context=8192, batch_tokens=2048) == 12 * held_tokens * 2048


def test_c16_two_groups_of_18_layers() -> None:
    """alvarobartt/hf-mem#60, gpt-oss-120b: "Available KV 5.38 GiB", 78,384 tokens; 18 · 16 · 2048 B a block."""
    pool = pool_of("gpt-oss-120b")
    assert (pool.n_groups, pool.block_bytes) == (2, 589_824)
    low, high = logged(pool, 5.38)
    assert low <= 78_384 <= high
    assert kv_tokens(pool, budget_bytes=5.38 * GIB) == pytest.approx(78_384, rel=0.001)


def test_c17_six_groups_of_10_layers() -> None:
    """alvarobartt/hf-mem#61, gemma-4-31B: 24.54 GiB hold 26,800 tokens; 10 layers · 16 tokens · 16,384 B a block."""
    pool = pool_of("gemma-4-31b-nvfp4")
    assert (pool.n_groups, pool.block_bytes) == (6, 10 * 16 * 16_384)
    assert kv_tokens(pool, budget_bytes=24.54 * GIB) == 26_800


def test_c18_tokens_and_concurrency_of_blocks() -> None:
    """vllm-project/vllm#13596: 127,626 blocks of 16 are 2,042,016 tokens, 997.08 sequences of 2048."""
    pool = plain_pool(token_bytes=1.0, page_tokens=16)
    budget = 127_626 * pool.block_bytes
    assert kv_tokens(pool, budget_bytes=budget) == 2_042_016
    assert concurrency(pool, budget_bytes=budget, context_tokens=2048) == pytest.approx(997.08, abs=0.005)


@pytest.mark.parametrize(("gib", "blocks", "tokens"), [(3.81, 1952, 31_232), (2.89, 1478, 23_648)])
def test_c20_blocks_of_llama(gib: float, blocks: int, tokens: int) -> None:
    """vllm-project/vllm#10517: 3.81 GiB are 1952 blocks, 1.56x of 20,000; 2.89 GiB are 1478, fewer than 29,000 tokens."""
    pool = pool_of("llama-3.1-8b")
    low, high = logged(pool, gib)
    assert low <= blocks * 16 == tokens <= high
    assert concurrency(pool, budget_bytes=1952 * pool.block_bytes, context_tokens=20_000) == pytest.approx(
        1.56, abs=0.005
    )
    assert concurrency(pool, budget_bytes=1478 * pool.block_bytes, context_tokens=29_000) < 1


@pytest.mark.parametrize(("gib", "tokens"), [(10.55, 230_528), (5.59, 122_080)])
def test_c22_an_fp8_cache(gib: float, tokens: int) -> None:
    """vllm-project/vllm#25350: 10.55 GiB hold 230,528 tokens, 2.31x of 100,000; 5.59 at most 122,080."""
    pool = pool_of("qwen3-30b-a3b", kv="fp8")
    low, high = logged(pool, gib)
    assert low <= tokens <= high
    assert concurrency(pool, budget_bytes=10.55 * GIB, context_tokens=100_000) == pytest.approx(2.31, abs=0.01)


def test_c23_the_smallest_stage_sets_the_longest_context() -> None:
    """vllm-project/vllm#34076: 262,144 tokens need 24.0 GiB, 8 of 16 layers, 16 of 32; 3.18 GiB hold 34,736 of all 48."""
    sizes = [held(decoder(n, 4, 128), VLLM, kv="bf16", context=262_144) / GIB for n in (48, 16, 32)]
    assert sizes == [24.0, 8.0, 16.0]
    low, high = logged(pool_of(decoder(48, 4, 128)), 3.18)
    assert low <= 34_736 <= high


def test_c25_tensorrt_llm_fills_what_it_was_given() -> None:
    """NVIDIA/TensorRT-LLM#1400: 69,524,783,104 bytes for 132,608 tokens of a 7B, in blocks of 64 as engines then had."""
    model = rl.model("llama-2-7b")
    pool = page_pool(model, numerics=rl.Precision(kv="fp16").of(model), paging=Paging(tokens=64, windows="window"))
    assert kv_tokens(pool, budget_bytes=69_524_783_104) == 132_608
    assert kv_blocks(pool, budget_bytes=69_524_783_104 - 1) * 64 == 132_608 - 64


def test_c29_a_latent_token() -> None:
    """LMCache/LMCache#715: DeepSeek-V3 keeps 61·(512 + 64)·2 = 70,272 B a token."""
    assert pool_of("deepseek-v3").block_bytes == 16 * 70_272


def test_c33_a_hybrid_s_page_grows_until_a_state_fits() -> None:
    """vllm-project/vllm#40691, Qwen3.5-27B: "290,864 tokens" and "33.04x" of 32,768 in one log.

    16 full layers and 48 recurrent ones are 4 groups; a state of 3,207,168 B takes 784 tokens of 4096 B. 1487 blocks are
    ⌊1487/4⌋ · 784 tokens; a sequence takes ⌈32768/784⌉ blocks and one for each group of states.
    """
    pool = replace(pool_of("qwen3.5-27b"), state_pages=1)
    assert (pool.n_groups, {g.page_tokens for g in pool.groups}) == (4, {784})
    budget = 1487 * pool.block_bytes
    assert kv_tokens(pool, budget_bytes=budget) == 290_864
    assert concurrency(pool, budget_bytes=budget, context_tokens=32_768) == pytest.approx(33.04, abs=0.005)


def test_a_hybrid_whose_prefixes_are_cached_holds_two_states() -> None:
    """mitchross/talos-argocd-proxmox#1995, the same geometry over two GPUs, fp8 cache: 4.99 GiB, 302,921 tokens, 2.31x.

    "tokens" there is the concurrency times 131,072: 208 blocks of 1568 tokens, of which a sequence takes 84 + 3·2.
    """
    half = share_of(rl.model("qwen3.5-27b"), rl.Plan(tp=2)).model
    pool = pool_of(half, kv="fp8")
    assert {g.page_tokens for g in pool.groups} == {1568}
    at_once = concurrency(pool, budget_bytes=4.99 * GIB, context_tokens=131_072)
    assert kv_blocks(pool, budget_bytes=4.99 * GIB) == 208
    assert int(at_once * 131_072) == 302_921


def test_sglang_keeps_an_eighth_less_than_ten_of_windows() -> None:
    """swa_full_tokens_ratio 0.8: gpt-oss-20b, 12 full layers and 12 with a window: 1.8 · 12 · 2048 B a token."""
    assert pool_of("gpt-oss-20b", catalog.engine("sglang").pages).block_bytes == pytest.approx(1.8 * 12 * 2048)


def test_sglang_s_tokens_of_a_moe() -> None:
    """vllm-project/vllm#21348, an SGLang log: K of 8.23 GiB for 367,404 tokens: 94 layers, one head of 128 a chip."""
    pool = pool_of(decoder(94, 1, 128), catalog.engine("sglang").pages)
    low, high = logged(pool, 2 * 8.23)
    assert low - 94 <= 367_404 <= high + 94  # K was rounded, not K and V together: ± 0.01 GiB


@pytest.mark.parametrize(
    ("name", "gib", "tokens"), [("llama-3.1-8b", 58.11, 476_016), ("qwen2.5-7b", 58.53, 1_096_000)]
)
def test_c36_tokens_of_an_h100(name: str, gib: float, tokens: int) -> None:
    """llm-d-incubation/llm-d-planner, accuracy_report.md: vLLM 0.19, what was available and the tokens it made of it.

    The second number of Qwen2.5-7B was noted in thousands.
    """
    low, high = logged(pool_of(name), gib)
    assert low - 500 * (tokens % 1000 == 0) <= tokens <= high + 500 * (tokens % 1000 == 0)


def test_pages_against_whole_reservations() -> None:
    """What PagedAttention bought: 500 tokens where 2048 are allowed: 75.6 % reserved for nothing, or 2.3 %."""
    assert fragmentation(500.0, page_tokens=2048) == 1 - 500 / 2048
    assert fragmentation(500.0, page_tokens=16) == 1 - 500 / 512


def test_a_recurrent_model_holds_a_block_however_long_it_runs() -> None:
    state = {"kind": "short_conv", "d_inner": 64, "d_conv": 4}
    model = of_layers({"mixer": state, "ffn": {"kind": "dense", "d_ff": 64}}, repeat=8)
    pool = replace(pool_of(model), state_pages=1)
    assert pool.block_bytes == 8 * 64 * 3 * 2
    assert np.asarray(blocks_needed(pool, context_tokens=np.array([1.0, 1e6]))).tolist() == [1.0, 1.0]
    assert kv_tokens(pool, budget_bytes=2 * pool.block_bytes - 1) == MAX_TOKENS


def test_an_encoder_keeps_nothing_and_so_knows_no_limit() -> None:
    mixer = {"kind": "attention", "n_heads": 1, "n_kv_heads": 1, "d_head": 16, "causal": False}
    pool = pool_of(of_layers({"mixer": mixer, "ffn": {"kind": "dense", "d_ff": 64}}, head=None))
    assert kv_blocks(pool, budget_bytes=GIB) == concurrency(pool, budget_bytes=GIB, context_tokens=1) == np.inf


# Laws

contexts = st.integers(1, 200_000).map(float)
budgets = st.integers(0, 10**12).map(float)
page_sizes = st.sampled_from([1, 16, 32, 256])
policies = st.sampled_from(["allocated", "window", "groups", "pool"])
pagings = st.builds(Paging, tokens=page_sizes, windows=policies, in_flight=st.integers(0, 2))


def pool_for(model: rl.Model, precision: rl.Precision, paging: Paging) -> PagePool:
    return page_pool(model, numerics=precision.of(model), paging=paging)


@given(contexts, page_sizes)
def test_less_than_a_page_of_a_sequence_is_wasted(context: float, page: int) -> None:
    paged = paged_tokens(context, page_tokens=page)
    assert 0 <= paged - context < page
    assert fragmentation(context, page_tokens=page) * paged == pytest.approx(paged - context)


ANY = models() | zoo_models()
IN_TOKENS = tuple(kind for kind in KINDS if kind != "compressed")  # which fills an entry every few tokens
N_SEQ = st.integers(1, 64)


def kept(model: rl.Model, precision: rl.Precision, context: float, n_seq: int, policy: Any = "window") -> float:
    """Cache and state without pages."""
    numerics = precision.of(model)
    cache = kvcache.cache_bytes(model, context_tokens=context, n_seq=n_seq, numerics=numerics, policy=policy)
    return float(cache) + float(kvcache.recurrent_bytes(model, n_seq=n_seq, numerics=numerics))


def taken(model: rl.Model, precision: rl.Precision, paging: Paging, context: Any, n_seq: Any, batch: Any = 0) -> Any:
    numerics = precision.of(model)
    return allocated_bytes(
        model, context_tokens=context, n_seq=n_seq, numerics=numerics, paging=paging, batch_tokens=batch
    )


@given(ANY, precisions(), pagings, contexts, N_SEQ, st.integers(0, 4096))
def test_pages_never_take_less_than_what_is_kept(
    model: rl.Model, precision: rl.Precision, paging: Paging, context: float, n_seq: int, batch: int
) -> None:
    least = kept(model, precision, context, n_seq, "allocated" if paging.windows == "allocated" else "window")
    assert taken(model, precision, paging, context, n_seq, batch) >= least * paging.pool_ratio * (1 - 1e-12)


@given(models() | zoo_models(mixers=IN_TOKENS), precisions(), st.sampled_from(["allocated", "window"]), contexts, N_SEQ)
def test_pages_of_one_token_are_what_is_kept(
    model: rl.Model, precision: rl.Precision, policy: Any, context: float, n_seq: int
) -> None:
    paging = Paging(tokens=1, windows=policy)
    least = kept(model, precision, context, n_seq, policy)
    assert taken(model, precision, paging, context, n_seq) == pytest.approx(least, rel=1e-12)


@given(ANY, precisions(), pagings, contexts, contexts)
def test_a_longer_context_never_takes_less(
    model: rl.Model, precision: rl.Precision, paging: Paging, one: float, other: float
) -> None:
    short, long = sorted((one, other))
    assert taken(model, precision, paging, short, 3.0) <= taken(model, precision, paging, long, 3.0)


@given(ANY, precisions(), pagings, budgets, budgets)
def test_more_memory_never_holds_fewer_tokens(
    model: rl.Model, precision: rl.Precision, paging: Paging, one: float, other: float
) -> None:
    pool = pool_for(model, precision, paging)
    less, more = sorted((one, other))
    assert kv_tokens(pool, budget_bytes=less) <= kv_tokens(pool, budget_bytes=more)
    assert not pool.block_bytes or kv_blocks(pool, budget_bytes=more) * pool.block_bytes <= more


@given(ANY, precisions(), pagings, budgets, contexts)
def test_so_many_sequences_fit_and_no_more(
    model: rl.Model, precision: rl.Precision, paging: Paging, budget: float, context: float
) -> None:
    pool = pool_for(model, precision, paging)
    assume(pool.block_bytes)  # an encoder keeps nothing
    at_once = np.floor(concurrency(pool, budget_bytes=budget, context_tokens=context))
    needed = blocks_needed(pool, context_tokens=context) * pool.block_bytes
    assert at_once * needed <= budget * (1 + 1e-12)
    assert (at_once + 2) * needed > budget - pool.block_bytes


@given(ANY, precisions(), pagings)
def test_a_grid_is_its_points(model: rl.Model, precision: rl.Precision, paging: Paging) -> None:
    context, n_seq = [1.0, 17.0, 5000.0], [1.0, 8.0]
    points = [[taken(model, precision, paging, c, n, 64.0) for n in n_seq] for c in context]
    grid = taken(model, precision, paging, np.array(context)[:, None], np.array(n_seq), 64.0)
    assert all(isinstance(point, float) for row in points for point in row)
    assert np.broadcast_to(grid, (3, 2)).tolist() == points
    pool = pool_for(model, precision, paging)
    each = concurrency(pool, budget_bytes=1e9, context_tokens=np.array(context))
    assert np.asarray(each).tolist() == [concurrency(pool, budget_bytes=1e9, context_tokens=c) for c in context]


def test_one_group_is_a_plain_pool() -> None:
    assert plain_pool(token_bytes=2.0, page_tokens=16) == PagePool(
        block_bytes=32.0, groups=(PageGroup(n=1.0, page_tokens=16),)
    )
