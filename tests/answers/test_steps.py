"""The compiled step law of a deployment: what count and clock say of the same mixed pass."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_replica import serve

import roofline as rl
from roofline.answers.phases import timed
from roofline.answers.simulate import Replica, simulate
from roofline.answers.steps import DeploymentLaw, step_law
from roofline.errors import Unsupported
from roofline.specs.catalog import model_ids
from roofline.timing.steplaw import Chunk
from roofline.work.step import Seqs, Step

CHIP = rl.hardware("h100-sxm-80gb")
OTHERS = {"whisper-large-v3", "bart-large-cnn", "flan-t5-base"}  # read sound, or a source text
DECODERS = [name for name in model_ids() if rl.model(name).generates and name not in OTHERS]
COMPRESSED = {"deepseek-v4-flash"}  # counts ⌊S/r⌋ entries, which the law takes at the mean context


def _parts(contexts: list[int], chunks: list[Chunk]) -> Step:
    decodes = [Seqs(n_seq=1, n_new=1, n_past=c - 1) for c in contexts]
    return (*decodes, *(Seqs(n_seq=1, n_new=x, n_past=s, n_logits=float(ends)) for x, s, ends in chunks))


def _said(law: DeploymentLaw, contexts: list[int], chunks: list[Chunk]) -> float:
    within = [sum(window.seen(c) for c in contexts) for window in law.windows]
    return law.seconds(len(contexts), sum(contexts), within, chunks)


@pytest.mark.parametrize("name", DECODERS)
def test_the_law_is_count_and_clock_of_the_mixed_pass(name: str) -> None:
    """Of every decoder shipped, on six steps of up to 40 decodes and two chunks."""
    rng = np.random.default_rng(len(name))
    d = rl.Deployment(model=rl.model(name), hardware=CHIP, engine="vllm")
    law = step_law(d)
    for n in (0, 0, 1, 7, 40, 40):
        contexts = rng.integers(2, 20000, n).tolist()
        chunks = [(int(rng.integers(1, 3000)), int(s), bool(rng.integers(2))) for s in rng.choice([0, 700, 9000], 2)]
        expected = timed(d, _parts(contexts, chunks), repeats=False).seconds
        assert _said(law, contexts, chunks) == pytest.approx(expected, rel=5e-3 if name in COMPRESSED else 1e-12)


@settings(max_examples=80)
@given(
    st.sampled_from(["llama-3.1-8b", "gpt-oss-20b", "llama-4-scout-17b-16e", "deepseek-v3", "qwen3-next-80b-a3b"]),
    st.lists(st.integers(2, 100_000), max_size=6),
    st.lists(st.tuples(st.integers(1, 9000), st.integers(0, 100_000), st.booleans()), max_size=3),
    st.sampled_from(["ideal", "sglang"]),
)
def test_the_law_is_count_and_clock_of_any_step(
    name: str, contexts: list[int], chunks: list[Chunk], engine: str
) -> None:
    if not contexts and not chunks:
        return
    d = rl.Deployment(model=rl.model(name), hardware=CHIP, plan=rl.Plan(tp=2), engine=engine)
    expected = timed(d, _parts(contexts, chunks), repeats=False).seconds
    assert _said(step_law(d), contexts, chunks) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", ["gemma-3-27b", "deepseek-v3", "llama-4-scout-17b-16e", "nemotron-h-8b"])
def test_a_run_of_steps_is_its_steps_to_the_last_bit(name: str) -> None:
    """No window fills in these 50 steps: one sees all of its context, the other two tokens more each step."""
    law = step_law(rl.Deployment(model=rl.model(name), hardware=CHIP, plan=rl.Plan(tp=4), engine="vllm"))
    contexts = [130, 9000]
    growing = [sum(w.chunked or c < w.width for c in contexts) for w in law.windows]
    within = [sum(w.seen(c) for c in contexts) for w in law.windows]
    run = law.decoding(2, sum(contexts), within, growing, 50)
    one = [
        law.seconds(2, sum(contexts) + 2 * k, [w + k * g for w, g in zip(within, growing, strict=True)], ())
        for k in range(50)
    ]
    assert run.tolist() == one


def test_ranks_of_data_parallel_attention_are_all_as_busy() -> None:
    """Of 2 ranks with 5 decodes each, the law of one is the pass of 10."""
    d = rl.Deployment(model=rl.model("qwen3-30b-a3b"), hardware=CHIP, plan=rl.Plan(dp=2, ep=2), engine="vllm")
    expected = rl.decode(d, context_tokens=1023, batch=10).seconds
    assert step_law(d).seconds(5, 5 * 1024, (), ()) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("batch", "microbatches"), [(1, None), (8, None), (9, 3)])
def test_a_pipeline_turns_once_a_step(batch: int, microbatches: int | None) -> None:
    d = rl.Deployment(model=rl.model("llama-3.1-70b"), hardware=CHIP, plan=rl.Plan(pp=4, microbatches=microbatches))
    expected = rl.decode(d, context_tokens=1023, batch=batch).seconds
    assert step_law(d).seconds(batch, batch * 1024, (), ()) == pytest.approx(expected, rel=1e-12)
    assert step_law(d).decoding(batch, batch * 1024, (), (), 3)[0] == step_law(d).seconds(batch, batch * 1024, (), ())


def test_a_chunk_rides_in_one_microbatch_of_a_pipeline() -> None:
    """Never sooner than the chunk alone through all stages, nor than without it; not dearer than both one after another."""
    law = step_law(rl.Deployment(model=rl.model("llama-3.1-70b"), hardware=CHIP, plan=rl.Plan(pp=4)))
    alone, without = law.seconds(0, 0, (), [(2048, 0, True)]), law.seconds(8, 8192, (), ())
    both = law.seconds(8, 8192, (), [(2048, 0, True)])
    assert max(alone, without) < both < alone + without


@pytest.mark.parametrize("name", ["gpt-oss-20b", "llama-4-scout-17b-16e", "llama-3.1-8b"])
def test_windows_that_fill_are_simulated_as_a_naive_loop_does(name: str) -> None:
    """Contexts that pass a window of 128 tokens, or the end of a chunk of 8,192, while they decode; with preemptions."""
    rng = np.random.default_rng(5)
    law = step_law(rl.Deployment(model=rl.model(name), hardware=CHIP, plan=rl.Plan(tp=4), engine="vllm"))
    n = 60
    arrivals = np.cumsum(rng.exponential(0.02, n))
    prompts, outputs = rng.choice([20, 100, 125, 8100, 8190], n), rng.integers(1, 400, n)
    replica = Replica(kv_tokens=60_000, batch_tokens=2048, max_seqs=16)
    fast = simulate(arrivals, prompts, outputs, law, replica)
    naive, log = serve(list(zip(arrivals.tolist(), prompts.tolist(), outputs.tolist(), strict=True)), law, replica)
    assert fast.last_token_s.tolist() == [s.last_s for s in naive]
    assert fast.n_steps == len(log)
    assert fast.n_preemptions == log[-1][9] > 0


def test_what_cannot_be_simulated_says_so() -> None:
    for name in OTHERS:
        with pytest.raises(Unsupported, match="no decoder of text"):
            step_law(rl.Deployment(model=rl.model(name), hardware=CHIP))
    with pytest.raises(Unsupported, match="another memory"):
        step_law(rl.Deployment(model=rl.model("llama-3.1-8b"), hardware=CHIP, offload="host:0.5"))


@pytest.mark.parametrize("name", DECODERS)
def test_chunks_that_are_alike_are_so_many_of_them(name: str) -> None:
    """3 chunks of 500 after 700, of which all end their prompts, beside 7 decodes: as listed one by one."""
    law = step_law(rl.Deployment(model=rl.model(name), hardware=CHIP, engine="vllm"))
    within = [7 * w.seen(1000) for w in law.windows]
    one = law.seconds(7, 7000, within, [(500, 700, True)] * 3)
    alike = law.alike(
        np.array([7.0, 7.0]), np.array([7000.0, 7000.0]), [float(w) for w in within], 3.0, (500.0, 700.0, 1.0)
    )
    assert alike.tolist() == pytest.approx([one, one], rel=1e-12)


def test_microbatches_of_a_fraction_are_those_of_whole_numbers_where_they_are_whole() -> None:
    law = step_law(rl.Deployment(model=rl.model("llama-3.1-70b"), hardware=CHIP, plan=rl.Plan(pp=4)))
    for n in (1, 4, 8):
        assert float(law.alike(float(n), n * 1000.0, (), 0.0, (0.0, 0.0, 0.0))) == law.seconds(n, n * 1000, (), ())
    loaded = float(law.alike(8.0, 8000.0, (), 1.0, (2048.0, 0.0, 1.0)))
    assert loaded == pytest.approx(law.seconds(8, 8000, (), [(2048, 0, True)]), rel=1e-12)
