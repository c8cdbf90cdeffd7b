"""What a workload loads: shares of time, worked by hand and held against `predict`."""

from __future__ import annotations

import math

import numpy as np
import pytest

import roofline as rl
from roofline.answers.mix import Mix, classify
from roofline.specs.workload import Workload


def deployment(model: str = "llama-2-7b", engine: str = "ideal", **more: object) -> rl.Deployment:
    return rl.Deployment(model=rl.model(model), hardware=rl.hardware("h100-sxm-80gb"), engine=engine, **more)  # type: ignore[arg-type]


def test_one_prompt_and_one_step_by_hand() -> None:
    """Llama-2-7B in fp16 on an H100. Reading 2,048 tokens: 27.6 TFLOP / 989.4 TFLOP/s = 27.9 ms, and what is not compute on
    top. One step at that context: 13.2 GB of weights and 2,049 × 512 KiB = 1.07 GB of cache, / 3.35 TB/s = 4.26 ms.
    Share 27.9 / 32.2 = 0.867; a token of an answer, two of which are one step, costs (4.26 / 2) / (27.9 / 2048) = 156 of a
    prompt.
    """
    m = classify(deployment(), Workload.fixed(prompt_tokens=2048, output_tokens=2), batch=1)
    assert m.prefill_s == pytest.approx(27.9e-3, rel=0.15)
    assert m.decode_s == pytest.approx(4.26e-3, rel=0.02)
    assert m.prefill_time_share == pytest.approx(0.867, abs=0.02)
    assert m.break_even == pytest.approx(156, rel=0.15)
    assert (m.kind, m.lengths, m.prefill_bound, m.decode_bound) == (
        "prefill-heavy",
        "long prompts",
        "compute",
        "memory",
    )


def test_alone_a_request_takes_what_predict_says() -> None:
    d = deployment("llama-3.1-8b", "vllm")
    m = classify(d, Workload.fixed(prompt_tokens=1000, output_tokens=301), batch=1)
    p = rl.predict(d, prompt_tokens=1000, output_tokens=301)
    assert m.prefill_s == pytest.approx(float(p.prefill.seconds), rel=1e-12)
    assert m.decode_s == pytest.approx(300 * float(p.tpot_s or 0.0), rel=1e-3)
    assert m.decode_flops == pytest.approx(300 * float(p.decode.flops if p.decode else 0.0), rel=1e-3)


def test_of_so_many_decodes_a_request_pays_its_part() -> None:
    """64 together read the weights once: a step of theirs over 64."""
    d = deployment("llama-3.1-8b")
    m = classify(d, Workload.fixed(prompt_tokens=1000, output_tokens=301), batch=64)
    step = rl.decode(d, context_tokens=1000 + 150.5 - 1, batch=64)
    assert m.context_mean == pytest.approx(1150.5)
    assert m.decode_s == pytest.approx(300 * float(step.seconds) / 64, rel=1e-9)
    assert m.decode_bytes == pytest.approx(300 * float(step.hbm_bytes) / 64, rel=1e-9)


@pytest.mark.parametrize("prompt", [10, 300, 5000])
def test_more_prompt_than_break_even_is_more_reading_than_writing(prompt: int) -> None:
    m = classify(deployment("llama-3.1-8b"), Workload.fixed(prompt_tokens=prompt, output_tokens=100), batch=32)
    assert (m.prompt_to_output > m.break_even) == (m.prefill_time_share > 0.5)
    assert m.prefill_time_share == pytest.approx(1.0 / (1.0 + m.break_even / m.prompt_to_output))
    assert 0.0 < m.prefill_flops_share < 1.0
    assert 0.0 < m.prefill_bytes_share < 1.0


def test_answers_of_one_token_decode_nothing() -> None:
    m = classify(deployment("llama-3.1-8b"), Workload.fixed(prompt_tokens=100, output_tokens=1))
    assert (m.prefill_time_share, m.kind, m.decode_bound) == (1.0, "prefill-heavy", "nothing")
    assert math.isinf(m.break_even)


def test_the_mean_over_prompts_is_not_a_prompt_of_the_mean() -> None:
    """Half of 100 and half of 16,000 tokens: attention grows with the square."""
    d = deployment("llama-3.1-8b")
    mixed = Workload(np.array([100, 16000]), np.array([50, 50]))
    m = classify(d, mixed, batch=8)
    assert (m.prompt_mean, m.longest_tokens, m.alike) == (8050.0, 16050, False)
    each = [float(rl.prefill(d, prompt_tokens=n).seconds) for n in (100, 16000)]
    assert m.prefill_s == pytest.approx(sum(each) / 2, rel=1e-12)
    assert m.prefill_s > 1.05 * classify(d, Workload.fixed(prompt_tokens=8050, output_tokens=50), batch=8).prefill_s


def test_many_lengths_are_as_exact_as_all() -> None:
    d, w = deployment("llama-3.1-8b"), Workload.lognormal(prompt_mean=2000, output_mean=100)
    all_of_them = rl.prefill(d, prompt_tokens=w.prompt_tokens.astype(float)).seconds
    assert classify(d, w, batch=8).prefill_s == pytest.approx(float(np.mean(all_of_them)), rel=1e-3)


def test_the_usual_batch_is_that_of_a_busy_replica() -> None:
    d = deployment("llama-3.1-8b", "vllm")
    w = Workload.fixed(prompt_tokens=1000, output_tokens=200)
    most = rl.serve(d, w, rate_per_s=1.0).saturation_per_s
    busy = rl.serve(d, w, rate_per_s=0.8 * most, method="closed form")
    assert classify(d, w).batch == round(float(busy.n_seq))


def test_ranks_of_their_own_share_a_request() -> None:
    """Two data-parallel ranks read two prompts side by side: of each, half the replica's time."""
    plan = rl.Plan(tp=1, dp=2)
    d = deployment("llama-3.1-8b", plan=plan)
    w = Workload.fixed(prompt_tokens=1000, output_tokens=200)
    two, one = classify(d, w, batch=64), classify(deployment("llama-3.1-8b"), w, batch=32)
    assert two.prefill_s == pytest.approx(float(rl.prefill(d, prompt_tokens=1000, batch=2).seconds) / 2)
    assert two.prefill_s < one.prefill_s


def test_where_nothing_fits_a_mix_is_still_a_mix() -> None:
    d = rl.Deployment(model=rl.model("llama-3.1-70b"), hardware=rl.hardware("rtx-4090"), engine="vllm")
    m = classify(d, Workload.fixed(prompt_tokens=100, output_tokens=100))
    assert (m.batch, m.kind) == (1.0, "decode-heavy")


def test_it_is_flat_and_says_all() -> None:
    m = classify(deployment("llama-3.1-8b"), Workload.fixed(prompt_tokens=100, output_tokens=50), batch=4)
    assert isinstance(m, Mix)
    d = m.to_dict()
    assert d["kind"] == m.kind
    assert all(isinstance(v, (str, float, int)) for v in d.values())


@pytest.mark.parametrize("batch", [0, -1, math.nan, "x"])
def test_a_batch_is_a_number_of_at_least_one(batch: object) -> None:
    with pytest.raises(rl.SpecError):
        classify(deployment(), Workload.fixed(prompt_tokens=10, output_tokens=10), batch=batch)  # type: ignore[arg-type]


def test_a_name_is_not_a_workload() -> None:
    with pytest.raises(rl.SpecError, match=r"Workload\.fixed"):
        classify(deployment(), "azure-conv")  # type: ignore[arg-type]


def test_an_encoder_serves_no_text() -> None:
    d = rl.Deployment(model=rl.model("whisper-large-v3"), hardware=rl.hardware("h100-sxm-80gb"))
    with pytest.raises(rl.RooflineError):
        classify(d, Workload.fixed(prompt_tokens=10, output_tokens=10))
