"""Prompts in several passes, against a row of tokens cut by hand; hits and shared beginnings; pipelines as flow shops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations_with_replacement, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from strategies import chips
from zoo import of_layers, zoo_models

import roofline as rl
from roofline.answers.chunks import Passes, budget_tokens, first_token, hit_tokens
from roofline.specs.catalog import engine

EXACT = 1e-12
FEW = settings(max_examples=settings().max_examples // 3)
SOME = settings(max_examples=settings().max_examples * 3 // 5)
H100 = rl.hardware("h100-sxm-80gb")
LLAMA = rl.model("llama-3.1-8b")  # 131,072 B of cache a token
KINDS = ("llama-3.1-8b", "gemma-3-1b", "qwen3-30b-a3b", "deepseek-v2-lite", "qwen3-next-80b-a3b", "deepseek-v4-flash")
"""Grouped heads, windows, experts, a latent, a recurrence, entries of several tokens."""

ENCODER = of_layers(
    {"mixer": {"kind": "attention", "n_heads": 2, "n_kv_heads": 2, "d_head": 8, "causal": False},
     "ffn": {"kind": "dense", "d_ff": 32}},
    head=None,
)  # fmt: skip


def chunky(
    model: rl.Model | str = LLAMA, tokens: int | None = None, *, chip: rl.Hardware = H100, **more: Any
) -> rl.Deployment:
    """A model whose prompts are cut into passes of so many tokens; without a number, into none."""
    ideal = engine("ideal")
    cut = ideal if tokens is None else ideal.varied(batch_tokens=tokens)
    return rl.Deployment(model=rl.model(model) if isinstance(model, str) else model, hardware=chip, engine=cut, **more)


# The reference: every token in a row


def row(prompt: int, batch: int, hit: int, shared: int) -> list[tuple[int, int]]:
    """(sequence, position) of every token to compute; what is shared is sequence −1's. One prompt alone shares nothing."""
    begin = max(shared, hit) if batch > 1 else hit
    beginning = [(-1, position) for position in range(hit, begin)]
    return beginning + [(who, position) for who in range(batch) for position in range(begin, prompt)]


def cut(tokens: Sequence[tuple[int, int]], prompt: int, at_once: int, n_ranks: int = 1) -> list[tuple[rl.Seqs, ...]]:
    """Passes of so many tokens: each a run of one sequence's tokens, whose logits are wanted if they end its prompt."""
    passes = []
    for start in range(0, len(tokens), at_once):
        runs: list[list[int]] = []
        for who, position in tokens[start : start + at_once]:
            if runs and runs[-1][0] == who:
                runs[-1][2] += 1
            else:
                runs.append([who, position, 1])
        passes.append(
            tuple(
                rl.Seqs(n_seq=n_ranks, n_new=n, n_past=past, n_logits=1 if who >= 0 and past + n == prompt else 0)
                for who, past, n in runs
            )
        )
    return passes


def clocked(d: rl.Deployment, passes: Sequence[tuple[rl.Seqs, ...]], stage: int = 0) -> list[rl.Timing]:
    counted = (rl.count(d.model, step, plan=d.plan, stage=stage, precision=d.precision) for step in passes)
    return [rl.clock(ledger, d.hardware) for ledger in counted]


COUNTS = ("flops", "executed_flops", "streamed_bytes", "weight_bytes", "kv_read_bytes", "kv_write_bytes", "state_bytes")


def is_those(t: rl.Timing, passes: Sequence[rl.Timing]) -> None:
    assert getattr(t, "n_passes", 1) == len(passes)
    assert t.seconds == pytest.approx(sum(p.seconds for p in passes), rel=EXACT)
    for count in COUNTS:
        assert t.total(count) == pytest.approx(sum(p.total(count) for p in passes), rel=EXACT), count


@pytest.mark.parametrize("kind", KINDS)
@FEW
@given(
    prompt=st.integers(1, 60),
    batch=st.integers(1, 4),
    hit=st.integers(0, 60),
    shared=st.integers(0, 60),
    at_once=st.integers(1, 90),
)
@example(prompt=7, batch=2, hit=0, shared=0, at_once=1)  # every token alone
@example(prompt=9, batch=4, hit=0, shared=0, at_once=3)  # cuts where prompts end
@example(prompt=10, batch=4, hit=0, shared=0, at_once=7)  # and elsewhere
@example(prompt=10, batch=4, hit=2, shared=6, at_once=25)  # a beginning, whole prompts, the end of one in one pass
@example(prompt=10, batch=1, hit=0, shared=9, at_once=4)  # nobody to share with
def test_passes_are_a_row_of_tokens_cut(
    kind: str, prompt: int, batch: int, hit: int, shared: int, at_once: int
) -> None:
    hit, shared = min(hit, prompt - 1), min(shared, prompt - 1)
    d = chunky(kind, at_once)
    t = first_token(d, prompt_tokens=prompt, batch=batch, prefix_tokens=hit, shared_tokens=shared)
    passes = clocked(d, cut(row(prompt, batch, hit, shared), prompt, at_once))
    is_those(t, passes)
    assert t.floor_s <= t.seconds * (1 + EXACT)
    assert (
        t.floor_s
        == first_token(  # however it is cut
            chunky(kind), prompt_tokens=prompt, batch=batch, prefix_tokens=hit, shared_tokens=shared
        ).floor_s
    )


@pytest.mark.parametrize(
    ("prompt", "batch", "hit", "shared", "at_once"),
    [(2048, 8, 0, 0, 512), (2048, 3, 0, 0, 3000), (5000, 1, 1000, 0, 999), (1000, 16, 100, 600, 2048),
     (300, 2, 0, 299, 128)],
)  # fmt: skip
def test_so_are_long_ones(prompt: int, batch: int, hit: int, shared: int, at_once: int) -> None:
    d = chunky(tokens=at_once)
    t = first_token(d, prompt_tokens=prompt, batch=batch, prefix_tokens=hit, shared_tokens=shared)
    is_those(t, clocked(d, cut(row(prompt, batch, hit, shared), prompt, at_once)))


@pytest.mark.parametrize("latent", ["absorbed", "expanded"])
def test_an_engine_s_form_of_latent_attention_is_that_of_its_chunks(latent: str) -> None:
    own = engine("ideal").varied(batch_tokens=100)
    own = own.model_copy(update={"kernels": own.kernels.model_copy(update={"latent": latent})})
    d = rl.Deployment(model=rl.model("deepseek-v2-lite"), hardware=H100, engine=own)
    steps = cut(row(250, 2, 0, 0), 250, 100)
    passes = [rl.clock(rl.count(d.model, step, latent=latent), H100) for step in steps]  # type: ignore[arg-type]
    assert first_token(d, prompt_tokens=250, batch=2).seconds == pytest.approx(
        sum(p.seconds for p in passes), rel=EXACT
    )


# By hand


def test_a_cut_adds_weights_and_cache_and_no_work() -> None:
    """32,768 tokens in 16 passes of 2048. Layers' matrices are read 16 times: 6,979,321,856 parameters and 65 norms less the
    last two, the head once; the pass j the cache of 2048·j tokens: 2048 · (0 + 1 + … + 15) of 131,072 B."""
    whole, t = first_token(chunky(), prompt_tokens=32768), first_token(chunky(tokens=2048), prompt_tokens=32768)
    layers = LLAMA.n_params - 2 * 128256 * 4096
    assert t.n_passes == 16  # type: ignore[attr-defined]
    assert t.total("weight_bytes") - whole.total("weight_bytes") == pytest.approx(15 * 2 * layers, rel=1e-12)
    assert whole.total("kv_read_bytes") == 0
    assert t.total("kv_read_bytes") == 2048 * 120 * 131072
    assert t.total("kv_write_bytes") == whole.total("kv_write_bytes") == 32768 * 131072
    assert t.flops == whole.flops


@given(st.integers(1, 400), st.integers(1, 5), st.integers(1, 500))
def test_every_visible_pair_is_counted_once(prompt: int, batch: int, at_once: int) -> None:
    """One layer, D = 16: q and o of 3 · 8, k and v of 8; 40 wide, ungated: 16 · (24 + 8 + 8 + 24 + 2 · 40) weights, 2 FLOP a
    token each. A causal prompt has P·(P + 1)/2 pairs, of 3 heads, 2 · (8 + 8) FLOP each. Ten logits of 16 a prompt."""
    mixer = {"kind": "attention", "n_heads": 3, "n_kv_heads": 1, "d_head": 8}
    model = of_layers({"mixer": mixer, "ffn": {"kind": "dense", "d_ff": 40, "gated": False}})
    t = first_token(chunky(model, at_once), prompt_tokens=prompt, batch=batch)
    products, pairs, logits = 2 * 16 * 144 * prompt * batch, 3 * 32 * batch * prompt * (prompt + 1) / 2, 2 * 160 * batch
    assert t.flops == products + pairs + logits
    assert getattr(t, "n_passes", 1) == -(-prompt * batch // at_once)


def test_a_beginning_that_all_share_is_computed_once() -> None:
    """Four prompts of 1000, 600 of them alike: 600 + 4 · 400 tokens in place of 4000, and the beginning's pairs once."""
    one, apart, alike = (
        first_token(chunky(), prompt_tokens=1000, batch=b, shared_tokens=s) for b, s in ((1, 0), (4, 0), (4, 600))
    )
    layers = LLAMA.n_params - 2 * 128256 * 4096 - 65 * 4096
    saved = 3 * 2 * layers * 600 + 3 * 32 * 4 * 4096 * 600 * 601 / 2
    assert apart.flops == 4 * one.flops
    assert apart.flops - alike.flops == saved
    assert alike.total("kv_write_bytes") == 2200 * 131072
    assert alike.total("kv_read_bytes") == 4 * 600 * 131072  # each of the four reads it


def test_a_hit_is_read_and_not_computed() -> None:
    whole, t = (first_token(chunky(), prompt_tokens=1000, batch=2, prefix_tokens=hit) for hit in (0, 600))
    layers = LLAMA.n_params - 2 * 128256 * 4096 - 65 * 4096
    assert whole.flops - t.flops == 2 * (2 * layers * 600 + 32 * 4 * 4096 * 600 * 601 / 2)
    assert t.total("kv_read_bytes") == 2 * 600 * 131072
    assert t.seconds == rl.prefill(chunky(), prompt_tokens=400, n_past=600, batch=2).seconds


def test_the_floor_of_a_shared_beginning_reads_what_was_cached_once_and_the_rest_of_it_never() -> None:
    """Two prompts of 100,002 that share all but the last token, 100,000 of it cached. No pass gets around the 7,504,924,672
    weights of layers and head, three rows of the table, the cache of 100,000 tokens, and writing three."""
    t = first_token(chunky(), prompt_tokens=100_002, batch=2, prefix_tokens=100_000, shared_tokens=100_001)
    least = 2 * (7_504_924_672 + 3 * 4096) + 100_003 * 131072
    assert t.floor_s == pytest.approx(least / 3.35e12, rel=EXACT)
    assert t.compulsory_bytes == pytest.approx(least, rel=EXACT)
    assert t.total("kv_read_bytes") == (100_000 + 2 * 100_001) * 131072  # the estimate reads for each


# What is not cut


@given(
    st.integers(1, 3000), st.integers(1, 8), st.integers(0, 2), st.sampled_from([{}, {"tp": 2}, {"pp": 4}, {"dp": 2}])
)
def test_a_budget_for_all_tokens_is_one_pass(prompt: int, batch: int, more: int, ways: dict[str, Any]) -> None:
    d = chunky(tokens=prompt * -(-batch // ways.get("dp", 1)) + more, plan=rl.Plan(**ways))
    t, whole = first_token(d, prompt_tokens=prompt, batch=batch), rl.prefill(d, prompt_tokens=prompt, batch=batch)
    assert not isinstance(t, Passes)
    assert (t.seconds, t.floor_s, t.flops, t.hbm_bytes) == (whole.seconds, whole.floor_s, whole.flops, whole.hbm_bytes)


@pytest.mark.parametrize("model", ["flan-t5-base", "whisper-large-v3", "llama-3.2-11b-vision", ENCODER])
def test_what_is_encoded_both_ways_or_remembered_is_not_cut(model: str | rl.Model) -> None:
    t = first_token(chunky(model, 1), prompt_tokens=100, batch=3)
    assert t.seconds == rl.prefill(chunky(model), prompt_tokens=100, batch=3).seconds
    assert not isinstance(t, Passes)


@pytest.mark.parametrize("model", ["flan-t5-base", ENCODER])
@pytest.mark.parametrize("what", ["prefix_tokens", "shared_tokens"])
def test_no_prefix_of_what_is_encoded_both_ways(model: str | rl.Model, what: str) -> None:
    some: dict[str, Any] = {what: 1}
    with pytest.raises(rl.SpecError, match=f"{what}: .* encodes its input as a whole"):
        first_token(chunky(model), prompt_tokens=100, **some)
    assert first_token(chunky(model), prompt_tokens=100, **some | {what: 0}).seconds > 0


def test_too_many_passes_are_refused_before_they_are_made() -> None:
    with pytest.raises(rl.SpecError, match=r"at most 1 tokens makes 100,001 passes .* at most 100,000"):
        first_token(chunky(tokens=1), prompt_tokens=100_001)
    with pytest.raises(rl.SpecError, match="use a larger budget"):
        first_token(chunky(tokens=16), prompt_tokens=1e12)
    with pytest.raises(rl.SpecError, match="use a larger budget"):  # of a grid together
        first_token(chunky(tokens=1), prompt_tokens=np.full(1000, 5000.0))


def test_a_beginning_longer_than_the_prompt_is_refused() -> None:
    for what in ("prefix_tokens", "shared_tokens"):
        many: dict[str, Any] = {what: 11}
        with pytest.raises(rl.SpecError, match=f"{what}: expected at most the prompt"):
            first_token(chunky(), prompt_tokens=10, **many)
        with pytest.raises(rl.SpecError, match=what):
            first_token(chunky(), prompt_tokens=10, **many | {what: -1})


# Engines


@pytest.mark.parametrize(
    ("name", "chip", "tokens"),
    [("vllm", "h100-sxm-80gb", 8192), ("vllm", "rtx-4090", 2048), ("vllm", "a100-sxm-80gb", 2048),
     ("llama.cpp", "h100-sxm-80gb", 512),
     ("mlx", "m5-max-40c", 2048)],
)  # fmt: skip
def test_an_engine_cuts_at_its_own_budget(name: str, chip: str, tokens: int) -> None:
    d = rl.Deployment(model=LLAMA, hardware=rl.hardware(chip), engine=name)
    assert budget_tokens(d) == tokens
    assert first_token(d, prompt_tokens=3000, batch=7).n_passes == -(-21000 // tokens)  # type: ignore[attr-defined]


def test_one_that_does_not_cut_has_no_budget() -> None:
    for name in ("ideal", "trtllm"):
        d = rl.Deployment(model=LLAMA, hardware=H100, engine=name)
        assert budget_tokens(d) == np.inf
        assert first_token(d, prompt_tokens=30_000).seconds == rl.prefill(d, prompt_tokens=30_000).seconds


@pytest.mark.parametrize(
    ("name", "prompt", "given_tokens", "hit"),
    [("vllm", 100, 33, 32), ("vllm", 100, 15, 0), ("vllm", 32, 32, 16), ("vllm", 33, 33, 32),
     ("ideal", 32, 32, 31), ("ideal", 1, 1, 0),
     ("llama.cpp", 1000, 700, 512), ("trtllm", 64, 64, 32)],
)  # fmt: skip
def test_a_hit_is_whole_pages_and_never_the_last_token(name: str, prompt: int, given_tokens: int, hit: int) -> None:
    """Pages of 16 (vLLM), 256 (llama.cpp), 32 (TensorRT-LLM) tokens, and of one."""
    d = rl.Deployment(model=LLAMA, hardware=H100, engine=name)
    assert hit_tokens(d, n_new=float(prompt), prefix_tokens=float(given_tokens)) == hit
    t = first_token(d, prompt_tokens=prompt, prefix_tokens=given_tokens)
    assert t.total("kv_read_bytes") == hit * 131072
    assert t.total("kv_write_bytes") == (prompt - hit) * 131072


# Laws of hits, shared beginnings and cuts

# a hit's state is read where a recurrence would have started from nothing, and a borrowed cache is read twice, written once
decoders = zoo_models(bodies=("decoder",), mixers=("attention", "linear", "none"), sharing=False)
anything = zoo_models(bodies=("decoder",))


@SOME
@given(decoders, chips(), st.integers(2, 3000), st.integers(1, 6), st.data())
def test_a_longer_hit_in_hbm_is_never_slower(
    model: rl.Model, chip: rl.Hardware, prompt: int, batch: int, data: st.DataObject
) -> None:
    """Reading a token's cache takes as long as writing it would have."""
    less, more = sorted(data.draw(st.integers(0, prompt)) for _ in range(2))
    d = chunky(model, chip=chip)
    before, after = (first_token(d, prompt_tokens=prompt, batch=batch, prefix_tokens=hit) for hit in (less, more))
    assert after.seconds <= before.seconds * (1 + EXACT)
    assert after.floor_s <= before.floor_s * (1 + EXACT)


@pytest.mark.parametrize("at_once", [None, 256])
@pytest.mark.parametrize("name", ["llama-3.1-8b", "deepseek-v3", "gemma-3-27b"])
def test_nor_in_chunks_of_which_it_saves_some(name: str, at_once: int | None) -> None:
    """Of a hit that is no multiple the chunks start later, and read more: only whole ones are compared."""
    d = chunky(name, at_once, chip=rl.hardware("h200"))
    seconds = [first_token(d, prompt_tokens=4000, prefix_tokens=hit).seconds for hit in range(0, 4000, 256)]
    assert all(after <= before for before, after in pairwise(seconds))


@SOME
@given(decoders, chips(), st.integers(2, 3000), st.integers(2, 6), st.data())
def test_the_first_copy_of_a_shared_beginning_is_never_free(
    model: rl.Model, chip: rl.Hardware, prompt: int, batch: int, data: st.DataObject
) -> None:
    less, more = sorted(data.draw(st.integers(0, prompt)) for _ in range(2))
    d = chunky(model, chip=chip)
    one = first_token(d, prompt_tokens=prompt)
    some, most = (first_token(d, prompt_tokens=prompt, batch=batch, shared_tokens=n) for n in (less, more))
    apart = first_token(d, prompt_tokens=prompt, batch=batch)
    for faster, slower in ((one, most), (most, some), (some, apart)):
        assert faster.seconds <= slower.seconds * (1 + EXACT)
    assert most.floor_s <= apart.floor_s * (1 + EXACT)


@FEW
@given(anything, chips(), st.integers(1, 2000), st.integers(0, 2000))
def test_one_alone_shares_nothing(model: rl.Model, chip: rl.Hardware, prompt: int, shared: int) -> None:
    d = chunky(model, chip=chip)
    alone, told = (first_token(d, prompt_tokens=prompt, shared_tokens=n) for n in (0, min(shared, prompt)))
    assert (told.seconds, told.floor_s, told.hbm_bytes) == (alone.seconds, alone.floor_s, alone.hbm_bytes)


@SOME
@given(anything, chips(), st.integers(2, 600), st.integers(1, 4), st.integers(1, 800), st.integers(2, 4), st.data())
def test_smaller_chunks_stream_more_take_longer_and_have_the_same_floor(
    model: rl.Model, chip: rl.Hardware, prompt: int, batch: int, at_once: int, times: int, data: st.DataObject
) -> None:
    asked: dict[str, Any] = {
        "prompt_tokens": prompt,
        "batch": batch,
        "prefix_tokens": data.draw(st.integers(0, prompt)),
        "shared_tokens": data.draw(st.integers(0, prompt)),
    }
    small, large, whole = (first_token(chunky(model, n, chip=chip), **asked) for n in (at_once, at_once * times, None))
    assert small.floor_s == large.floor_s == whole.floor_s
    assert small.floor_s <= whole.seconds * (1 + EXACT)
    for less, more in ((whole, large), (large, small)):
        assert less.hbm_bytes <= more.hbm_bytes * (1 + EXACT)
        assert less.seconds <= more.seconds * (1 + EXACT)
        assert less.total("kv_write_bytes") == more.total("kv_write_bytes")


@pytest.mark.parametrize("name", KINDS)
def test_a_cut_conserves_the_model_s_own_work(name: str) -> None:
    """All but that of latents, whose keys and values a later chunk makes again."""
    flops = [first_token(chunky(name, n), prompt_tokens=300, batch=3, shared_tokens=100).flops for n in (None, 64, 299)]
    if name == "deepseek-v2-lite":
        assert flops[0] < flops[1]
    else:
        assert flops[1:] == pytest.approx(flops[:1] * 2, rel=EXACT)


# Grids


@pytest.mark.parametrize("ways", [{}, {"pp": 2}, {"pp": 3, "microbatches": 2}, {"dp": 2}, {"tp": 2}])
def test_a_grid_is_its_points(ways: dict[str, Any]) -> None:
    """Some of one pass, some of several, some that share a beginning."""
    d = chunky(tokens=300, plan=rl.Plan(**ways))
    prompt, batch, shared = (
        np.array([10.0, 140.0, 901.0])[:, None, None],
        np.array([1.0, 2.0, 5.0])[:, None],
        np.array([0, 9.0]),
    )
    grid = first_token(d, prompt_tokens=prompt, batch=batch, shared_tokens=shared)
    for at in np.ndindex(3, 3, 2):
        i, j, k = at
        point = first_token(d, prompt_tokens=prompt[i, 0, 0], batch=batch[j, 0], shared_tokens=shared[k])
        for name in (
            "seconds",
            "floor_s",
            "flops",
            "hbm_bytes",
            "compulsory_bytes",
            "rated_s",
            "memory_bound_s",
            "compute_bound_s",
        ):
            assert np.asarray(getattr(grid, name))[at] == pytest.approx(getattr(point, name), rel=EXACT, abs=1e-18), (
                name
            )
        assert np.asarray(grid.bound)[at] == point.bound
    assert len(grid.to_frame()) == 18


def test_hits_make_a_grid_too() -> None:
    d = chunky(tokens=128)
    grid = first_token(d, prompt_tokens=500, prefix_tokens=[0, 100, 450, 500])
    points = [first_token(d, prompt_tokens=500, prefix_tokens=hit).seconds for hit in (0, 100, 450, 500)]
    assert list(np.asarray(grid.seconds)) == pytest.approx(points, rel=EXACT)


# Ranks of data-parallel attention


@FEW
@given(st.integers(1, 40), st.integers(1, 3), st.integers(0, 40), st.integers(1, 50))
def test_every_rank_cuts_a_row_of_its_own(prompt: int, each: int, shared: int, at_once: int) -> None:
    """Equal rows: every pass has the same of each rank."""
    shared = min(shared, prompt - 1)
    d = chunky("qwen3-30b-a3b", at_once, plan=rl.Plan(dp=2, ep=2))
    t = first_token(d, prompt_tokens=prompt, batch=2 * each, shared_tokens=shared)
    is_those(t, clocked(d, cut(row(prompt, each, 0, shared), prompt, at_once, n_ranks=2)))


@pytest.mark.parametrize("batch", [1, 7, 8, 9, 15, 16, 17])
def test_ranks_with_one_sequence_less_bring_no_tokens_for_it(batch: int) -> None:
    """Experts see the tokens of all ranks: as many in chunks as in one pass, whatever the busiest rank has."""
    plan = rl.Plan(dp=8, ep=8)
    whole = first_token(chunky("deepseek-v3", plan=plan), prompt_tokens=64, batch=batch)
    for at_once in (20, 64, 100):
        t = first_token(chunky("deepseek-v3", at_once, plan=plan), prompt_tokens=64, batch=batch)
        experts = [sum(r["flops"] for r in x.by_op() if r["kind"] == "expert") for x in (t, whole)]
        assert experts[0] == pytest.approx(experts[1], rel=EXACT)
        assert t.total("kv_write_bytes") == whole.total("kv_write_bytes")  # of the busiest rank: ⌈batch / 8⌉ prompts


# Pipelines


def flow_shop(t: Sequence[Sequence[float]]) -> float:
    """When the last job leaves the last machine: the longest way through the table, one machine or one job on at a time."""
    n_stages, n_jobs = len(t), len(t[0])
    ways = combinations_with_replacement(
        range(n_jobs), n_stages - 1
    )  # the job at which a way moves on to the next machine
    lengths = []
    for turns in ways:
        bounds = [0, *turns, n_jobs - 1]
        lengths.append(sum(sum(t[i][bounds[i] : bounds[i + 1] + 1]) for i in range(n_stages)))
    return max(lengths)


@pytest.mark.parametrize("stages", [(16, 16), (5, 27), (27, 5), (10, 12, 10), (2, 28, 2)])
@pytest.mark.parametrize(("prompt", "batch", "shared"), [(700, 1, 0), (90, 8, 0), (250, 3, 0), (250, 4, 100)])
def test_passes_follow_one_another_through_the_stages(
    stages: tuple[int, ...], prompt: int, batch: int, shared: int
) -> None:
    d = chunky(tokens=128, plan=rl.Plan(pp=len(stages), stages=stages))
    t = first_token(d, prompt_tokens=prompt, batch=batch, shared_tokens=shared)
    steps = cut(row(prompt, batch, 0, shared), prompt, 128)
    each = [clocked(d, steps, stage) for stage in range(len(stages))]
    times = [[float(p.seconds) for p in stage] for stage in each]
    assert t.seconds == pytest.approx(flow_shop(times), rel=EXACT)
    assert t.n_passes == len(steps)  # type: ignore[attr-defined]
    assert max(map(sum, times)) <= t.seconds <= sum(map(sum, times))
    flops = sum(float(p.flops) for stage in each for p in stage)
    assert t.flops * len(stages) == pytest.approx(flops, rel=EXACT)  # one chip's, the mean over stages
    assert t.floor_s <= t.seconds


def test_chunks_fill_a_pipeline_that_one_prompt_cannot() -> None:
    whole = first_token(chunky(plan=rl.Plan(pp=4)), prompt_tokens=8192)
    t = first_token(chunky(tokens=512, plan=rl.Plan(pp=4)), prompt_tokens=8192)
    assert t.floor_s == whole.floor_s <= t.seconds < whole.seconds / 2


def test_what_is_shared_goes_through_a_pipeline_in_as_many_pieces_as_what_is_not() -> None:
    """Found by trying: 8 prompts through 4 stages took over twice as long once ten of 2048 tokens were shared, for all went
    as one piece. They are 2048 · 8 − 70 tokens, in four pieces."""
    d = chunky(plan=rl.Plan(pp=4))
    apart, alike = (first_token(d, prompt_tokens=2048, batch=8, shared_tokens=n) for n in (0, 10))
    assert alike.seconds < apart.seconds
    size = -(-(2048 * 8 - 70) // 4)
    steps = cut(row(2048, 8, 0, 10), 2048, size)
    times = [[float(p.seconds) for p in clocked(d, steps, i)] for i in range(4)]
    assert len(steps) == 4
    assert alike.seconds == pytest.approx(flow_shop(times), rel=EXACT)


# Images


@pytest.mark.parametrize("at_once", [64, 600])  # the first pass begins a prompt, or holds two
def test_images_are_encoded_once_and_their_tokens_are_cut_like_others(at_once: int) -> None:
    """280 × 280 pixels are 20 × 20 patches and 10 × 10 tokens. Ops run one after another, so the tower's time is what images
    add to a pass over as many tokens of text."""
    d, whole = (chunky("qwen2.5-vl-7b", n) for n in (at_once, None))
    asked: dict[str, Any] = {"batch": 3, "images": 2, "image_size": (280, 280)}
    seen, text = rl.prefill(whole, prompt_tokens=50, **asked), rl.prefill(whole, prompt_tokens=250, batch=3)
    t = first_token(d, prompt_tokens=50, **asked)
    passes = clocked(d, cut(row(250, 3, 0, 0), 250, at_once))
    assert t.n_passes == len(passes) == -(-750 // at_once)  # type: ignore[attr-defined]
    assert t.seconds == pytest.approx(sum(p.seconds for p in passes) + seen.seconds - text.seconds, rel=EXACT)
    assert t.flops == seen.flops
    assert t.floor_s == seen.floor_s


def test_images_bring_no_sequences_of_their_own() -> None:
    """A recurrence keeps a state a sequence: as many with images as with text of the same length."""
    state = {"kind": "mamba2", "n_groups": 1, "n_heads": 8, "d_head": 16, "d_state": 16, "d_conv": 4}
    layers = of_layers({"mixer": state, "ffn": {"kind": "dense", "d_ff": 64}}, repeat=3, d_model=3584).layers
    model = rl.model("qwen2.5-vl-7b").model_copy(update={"layers": layers})
    for at_once in (64, 1000):
        seen = first_token(chunky(model, at_once), prompt_tokens=50, batch=6, images=2, image_size=(280, 280))
        text = first_token(chunky(model, at_once), prompt_tokens=250, batch=6)
        assert isinstance(seen, Passes)
        assert seen.total("state_bytes") == text.total("state_bytes") > 0


# The rest of a timing


@pytest.mark.parametrize("name", ["llama-3.1-8b", "qwen3-30b-a3b"])
def test_rows_of_all_passes_add_up(name: str) -> None:
    t = first_token(chunky(name, 100), prompt_tokens=250, batch=3, shared_tokens=40)
    rows = t.by_op()
    for name_of_row, total in (("seconds", t.seconds), ("flops", t.flops), ("streamed_bytes", t.hbm_bytes)):
        assert sum(r[name_of_row] for r in rows) == pytest.approx(total, rel=EXACT)
    assert {r["m"] for r in rows if r["kind"] == "gemm"} == {100.0}  # the largest pass
    parts = t.compute_bound_s + t.memory_bound_s + t.exposed_link_s + t.overhead_s + t.tier_exposed_s
    assert parts == pytest.approx(t.seconds, rel=EXACT)
    assert 0 < t.mfu < 1
    assert t.mfu == pytest.approx(t.rated_s / t.seconds)
    assert repr(t).startswith("Passes(")


def test_predict_s_ttft_is_all_passes() -> None:
    d = rl.Deployment(model=LLAMA, hardware=H100, engine="vllm")
    p = rl.predict(d, prompt_tokens=5000, output_tokens=2, batch=4, prefix_tokens=1000, shared_tokens=2000)
    t = first_token(d, prompt_tokens=5000, batch=4, prefix_tokens=1000, shared_tokens=2000)
    assert (p.ttft_s, p.ttft_floor_s) == (t.seconds, t.floor_s)
    assert p.prefix_tokens == 992  # 62 pages of 16
    assert p.to_dict()["prefill_passes"] == -(-(1008 + 4 * 3000) // 8192)
    whole = rl.predict(replace(d, engine=engine("ideal")), prompt_tokens=5000, output_tokens=2, batch=4)
    assert p.ttft_floor_s < whole.ttft_floor_s
