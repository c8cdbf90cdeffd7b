"""Decodes beside a chunk of a prompt: one pass of two parts, never less than either and never more than both."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import chips, precisions
from zoo import zoo_models

import roofline as rl
from roofline.answers.chunks import first_token
from roofline.answers.mixed import mixed_pass
from roofline.specs.catalog import engine

EXACT = 1e-12
H100 = rl.hardware("h100-sxm-80gb")
LLAMA = rl.model("llama-3.1-8b")

contexts = st.integers(1, 20_000)
batches = st.integers(1, 300)
chunks = st.integers(1, 4000)


def deployed(model: str = "llama-3.1-8b", *, chip: rl.Hardware = H100, **more: Any) -> rl.Deployment:
    return rl.Deployment(model=rl.model(model), hardware=chip, **more)


@given(zoo_models(bodies=("decoder", "seeing")), chips(), precisions(), contexts, batches, chunks, st.integers(0, 9000))
def test_one_pass_of_both_takes_at_least_either_and_at_most_both(
    model: rl.Model, chip: rl.Hardware, precision: rl.Precision, context: int, batch: int, chunk: int, past: int
) -> None:
    d = rl.Deployment(model=model, hardware=chip, precision=precision)
    m = mixed_pass(d, context_tokens=context, batch=batch, chunk_tokens=chunk, chunk_past=past)
    decoding = rl.Seqs(n_seq=batch, n_new=1, n_past=context)
    reading = rl.Seqs(n_seq=1, n_new=chunk, n_past=past, n_logits=0)
    both, *each = (
        rl.clock(rl.count(model, step, precision=precision), chip) for step in ((decoding, reading), decoding, reading)
    )
    assert [m.seconds, m.decode_s, m.chunk_s] == [both.seconds, *(t.seconds for t in each)]
    assert m.floor_s == both.floor_s
    assert max(m.decode_s, m.chunk_s) <= m.seconds * (1 + EXACT)
    assert m.seconds <= (m.decode_s + m.chunk_s) * (1 + EXACT)
    assert m.tpot_cost_s == m.seconds - m.decode_s
    assert m.saved_s == m.decode_s + m.chunk_s - m.seconds


@given(zoo_models(bodies=("decoder",)), chips(), contexts, batches, chunks, chunks)
def test_a_larger_chunk_never_costs_less(
    model: rl.Model, chip: rl.Hardware, context: int, batch: int, one: int, other: int
) -> None:
    small, large = sorted((one, other))
    d = rl.Deployment(model=model, hardware=chip)
    m = mixed_pass(d, context_tokens=context, batch=batch, chunk_tokens=[small, large], chunk_past=100)
    assert np.diff(m.seconds)[0] >= -EXACT * np.asarray(m.seconds)[0]
    assert np.diff(m.chunk_s)[0] >= -EXACT * np.asarray(m.chunk_s)[0]


def test_weights_are_read_once_for_both() -> None:
    """Where memory binds both, one pass saves all the weights a chunk reads: the layers' matrices and norms in bf16. Of the
    head the chunk wants nothing, and products of 16 + 8 rows stay far below the ridge of 295."""
    m = mixed_pass(deployed(), context_tokens=64, batch=16, chunk_tokens=8)
    layers = 2 * (LLAMA.n_params - 2 * 128256 * 4096 - 4096)
    outside = 2 * 4096  # the last norm's scales
    assert m.saved_s == pytest.approx((layers + outside) / 3.35e12, rel=1e-3)


def test_a_chunk_whose_arithmetic_binds_hides_the_decodes_weights() -> None:
    """2048 tokens are seven times the ridge: beside them 32 decodes cost 32 rows more of every product, their elementwise
    traffic (norms, residuals, rotations, gate and up: 5.5 MB a token), and the head."""
    m = mixed_pass(deployed(), context_tokens=1, batch=32, chunk_tokens=2048)
    products = 2 * (LLAMA.n_params - 2 * 128256 * 4096) / 989.4e12
    elementwise = 32 * 2 * (4 * 4096 * 2 + 2 * 40 * 128 + 3 * 14336) / 3.35e12
    head = 2 * 4096 * 128256 / 3.35e12
    assert m.seconds - m.chunk_s == pytest.approx(32 * (products + elementwise) + head, rel=0.02)
    assert m.bound == "compute"


@pytest.mark.parametrize(
    "ways", [{"tp": 4}, {"dp": 2}, {"cp": 2}, {"pp": 2}, {"pp": 2, "stages": (24, 8)}, {"pp": 4, "tp": 2}]
)
@pytest.mark.parametrize("offload", [None, "host:0.5", "host:0.3:kv"])
def test_the_bounds_hold_on_several_chips(ways: dict[str, Any], offload: str | None) -> None:
    """Found by trying: decodes in microbatches before uneven stages took longer alone than with a chunk in one piece."""
    d = deployed(plan=rl.Plan(**ways), offload=offload)
    m = mixed_pass(d, context_tokens=[10, 3000], batch=[[1], [7], [64]], chunk_tokens=512, chunk_past=1000)
    assert np.all(m.decode_s <= np.asarray(m.seconds) * (1 + EXACT))
    assert np.all(m.seconds <= (np.asarray(m.decode_s) + m.chunk_s) * (1 + EXACT))
    assert np.all(np.asarray(m.floor_s) <= m.seconds)
    if "pp" not in ways:
        asked: dict[str, Any] = {"context_tokens": [10, 3000], "batch": [[1], [7], [64]]}
        assert np.allclose(m.decode_s, rl.decode(d, **asked).seconds, rtol=EXACT, atol=0)


def test_through_a_pipeline_both_go_in_one_piece() -> None:
    d = deployed(plan=rl.Plan(pp=2, stages=(20, 12)))
    m = mixed_pass(d, context_tokens=500, batch=8, chunk_tokens=100)
    step = (rl.Seqs(n_seq=8, n_new=1, n_past=500), rl.Seqs(n_seq=1, n_new=100, n_logits=0))
    stages = [rl.clock(rl.count(LLAMA, step, plan=d.plan, stage=i), H100).seconds for i in (0, 1)]
    assert m.seconds == pytest.approx(sum(stages), rel=EXACT)


def test_an_engine_s_form_of_latent_attention_is_that_of_the_chunk() -> None:
    """llama.cpp absorbs whatever the length, vLLM expands a prompt, which takes fewer FLOPs."""
    at_the_roof = (deployed("deepseek-v2-lite", engine=e, efficiency=rl.Efficiency()) for e in ("llama.cpp", "vllm"))
    absorbed, cheapest = (mixed_pass(d, context_tokens=500, batch=4, chunk_tokens=1000) for d in at_the_roof)
    reading = rl.Seqs(n_seq=1, n_new=1000, n_logits=0)
    model = rl.model("deepseek-v2-lite")
    ledger = rl.count(
        model, reading, latent="absorbed", routing_exponent=0.7
    )  # both say that real routing is correlated
    assert absorbed.chunk_s == rl.clock(ledger, H100).seconds > cheapest.chunk_s


def test_a_clip_is_attended_to_while_a_prompt_is_read() -> None:
    """Whisper's decoder has 1500 frames to attend to, whoever decodes."""
    d = deployed("whisper-large-v3")
    m = mixed_pass(d, context_tokens=100, batch=32, chunk_tokens=50)
    assert m.decode_s == rl.decode(d, context_tokens=100, batch=32).seconds < m.seconds


def test_the_last_chunk_is_what_chunked_prefill_takes_but_for_its_logits() -> None:
    """Passes of 100 of a prompt of 300, nothing decoding: two chunks, and a third that also reads the head."""
    d = deployed(engine=engine("ideal").varied(batch_tokens=100))
    chunk_s = np.asarray(mixed_pass(d, context_tokens=1, batch=1, chunk_tokens=100, chunk_past=[0, 100, 200]).chunk_s)
    head = 2 * 4096 * 128256 / 3.35e12
    assert first_token(d, prompt_tokens=300).seconds - chunk_s.sum() == pytest.approx(head, rel=1e-3)


def test_a_grid_is_its_points() -> None:
    context, batch = [1, 77, 5000], [1, 40, 300]
    d = deployed("qwen3-30b-a3b")
    grid = mixed_pass(d, context_tokens=np.array(context)[:, None], batch=batch, chunk_tokens=300)
    for i, c in enumerate(context):
        for j, b in enumerate(batch):
            point = mixed_pass(d, context_tokens=c, batch=b, chunk_tokens=300)
            for name in ("seconds", "floor_s", "decode_s", "chunk_s", "tpot_cost_s", "saved_s"):
                value = np.broadcast_to(getattr(grid, name), (len(context), len(batch)))[i, j]
                assert value == pytest.approx(getattr(point, name), rel=EXACT, abs=1e-15), name
    assert len(grid.to_frame()) == len(context) * len(batch)


def test_what_reads_its_input_as_a_whole_has_nothing_beside_it() -> None:
    with pytest.raises(rl.SpecError, match=r"flan-t5-base reads its input as a whole"):
        mixed_pass(deployed("flan-t5-base"), context_tokens=1, batch=1, chunk_tokens=1)
    for wrong in ({"chunk_tokens": 0}, {"batch": 0}, {"chunk_past": -1}, {"context_tokens": "many"}):
        asked: dict[str, Any] = {"context_tokens": 1, "batch": 1, "chunk_tokens": 1} | wrong
        with pytest.raises(rl.SpecError, match=next(iter(wrong))):
            mixed_pass(deployed(), **asked)
