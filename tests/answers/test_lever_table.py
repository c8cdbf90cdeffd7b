"""Every row of the table is the prediction with that one change, made here from the front door; for models of every kind."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import numpy as np
import pytest
from zoo import of_layers

import roofline as rl
from roofline.answers.chunks import first_token
from roofline.answers.drafters import Drafter, Drafting
from roofline.answers.ladder import as_mha
from roofline.answers.lever_table import LeverRow, lever_table
from roofline.answers.transfer import kv_transfer
from roofline.specs.engine import Engine
from roofline.specs.offload import Offload

EXACT = 1e-12
LLAMA = rl.model("llama-3.1-8b")
ENCODER = of_layers(
    {"mixer": {"kind": "attention", "n_heads": 2, "n_kv_heads": 2, "d_head": 8, "causal": False},
     "ffn": {"kind": "dense", "d_ff": 32}},
    repeat=4, head=None,
)  # fmt: skip


def deployed(
    model: str | rl.Model = LLAMA,
    chip: str = "h100-sxm-80gb",
    *,
    engine: str | Engine = "ideal",
    offload: Any = None,
    **ways: Any,
) -> rl.Deployment:
    model = rl.model(model) if isinstance(model, str) else model
    return rl.Deployment(model=model, hardware=rl.hardware(chip), engine=engine, offload=offload, plan=rl.Plan(**ways))


# What a label says, asked from the front door

FORMATS = re.compile(r"(?:16|8|4)-bit weights \((.+)\)")


def changed(d: rl.Deployment, **fields: Any) -> rl.Deployment:
    """The same deployment but for some fields."""
    now: dict[str, Any] = {
        "model": d.model, "hardware": d.hardware, "plan": d.plan, "precision": d.precision, "engine": d.engine,
        "offload": d.offload,
    }  # fmt: skip
    return rl.Deployment(**now | fields)


def turned(
    label: str, d: rl.Deployment, request: dict[str, Any], baseline: rl.Prediction
) -> tuple[rl.Deployment, dict[str, Any]]:
    """The deployment and the request that a lever's name speaks of."""
    plan, n = d.plan, [int(x.replace(",", "")) for x in re.findall(r"\d[\d,]*", label)]
    formats = {"weights": d.numerics.weights.name, "kv": d.numerics.kv.name}
    if found := FORMATS.fullmatch(label):
        return changed(d, precision=rl.Precision(**formats | {"weights": found[1]})), request
    prompt = min(request["prompt_tokens"], baseline.request.n_new)
    longest = max(d.model.max_context_tokens, baseline.longest_tokens)
    ways: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "as if MHA": ({"model": as_mha(d.model)}, {}),
        "8-bit KV cache": (
            {"precision": rl.Precision(**formats | {"kv": "fp8" if d.hardware.has("fp8") else "q8_0"})},
            {},
        ),
        "whole contexts reserved, no pages": (
            {"engine": d.engine.varied(page_tokens=int(longest))},
            {"prefix_tokens": 0},
        ),
        "half of the prompt in a prefix cache": ({}, {"prefix_tokens": prompt // 2}),
        "half of the weights in host memory": ({"offload": Offload(fraction=0.5)}, {}),
        "all experts in host memory": ({"offload": Offload(fraction=1.0, what="experts")}, {}),
        "half of the KV cache in host memory": ({"offload": Offload(fraction=0.5, what="kv")}, {}),
        "4 drafts from the prompt (n-gram)": (
            {},
            {"drafting": Drafting(drafter=Drafter(kind="ngram"), n_drafts=4, acceptance=0.5)},
        ),
        "1 draft by its own module (mtp)": (
            {},
            {"drafting": Drafting(drafter=Drafter(kind="mtp"), n_drafts=1, acceptance=0.8)},
        ),
        "baseline": ({}, {}),
    }
    if label in ways:
        fields, asked = ways[label]
    elif label.startswith("batch "):
        fields, asked = {}, {"batch": n[0]}
    elif label.startswith("prompts in chunks of "):
        fields, asked = {"engine": d.engine.varied(batch_tokens=n[0])}, {}
    elif label.startswith("tp "):
        fields, asked = {"plan": plan.model_copy(update={"tp": n[0]})}, {}
    elif label.startswith("dp "):
        fields, asked = {"plan": plan.model_copy(update={"dp": n[0], "ep": n[1]})}, {}
    else:
        raise AssertionError(f"a lever that no test knows: {label}")
    return changed(d, **fields), request | asked


def streamed(p: rl.Prediction, draft: rl.Deployment | None = None) -> float | None:
    """What all chips stream for a token of one sequence."""
    if p.decode is None:
        return None
    moved = float(p.decode.hbm_bytes) * p.deployment.n_chips
    s = p.speculation
    if s is None:
        remembered = p.request.n_memory if p.deployment.model.remembers else None
        context = p.request.n_new + (p.output_tokens - 2) / 2
        again = rl.decode(
            p.deployment, context_tokens=context, batch=p.batch, memory_tokens=remembered, shared_tokens=p.shared_tokens
        )
        assert moved == float(again.hbm_bytes) * p.deployment.n_chips
        return moved / float(p.batch)
    return moved / float(p.batch) / float(s.tokens_per_round)


def is_that(row: LeverRow, p: rl.Prediction) -> None:
    d, m = p.deployment, p.memory
    assert (row.ttft_s, row.tpot_s) == (p.ttft_s, p.tpot_s)
    assert (row.n_chips, row.fits, row.max_batch) == (d.n_chips, m.fits, m.max_batch)
    assert row.resident_bytes == m.allocated_bytes_per_chip * d.n_chips
    assert row.served_tokens_per_s_per_chip == pytest.approx(p.batch * p.output_tokens / p.e2e_s / d.n_chips, rel=EXACT)
    drafted = p.speculation is not None and p.speculation.drafter.kind != "ngram"
    if not drafted:
        assert row.bytes_per_token == (None if streamed(p) is None else pytest.approx(streamed(p), rel=EXACT))
    else:
        assert row.bytes_per_token > streamed(p)  # type: ignore[operator]


def is_a_split(row: LeverRow, d: rl.Deployment, request: dict[str, Any], baseline: rl.Prediction) -> None:
    """One prompt at a time there, the batch here; a link between; as many of each as keep both busy."""
    prompt, hit = request["prompt_tokens"], baseline.prefix_tokens
    link = d.hardware.links.scale_out
    moved = kv_transfer(d, prompt_tokens=prompt, link=link, prefix_tokens=hit)
    alone = first_token(d, prompt_tokens=prompt, prefix_tokens=hit).seconds
    assert row.ttft_s == pytest.approx(alone + moved.exposed_s, rel=EXACT)
    assert row.tpot_s == baseline.tpot_s
    n, batch, steps = baseline.output_tokens, float(baseline.batch), (baseline.output_tokens - 1) * baseline.tpot_s  # type: ignore[operator]
    prefills_for_one = (
        batch * alone / steps
    )  # seconds of prefill for the requests one decode replica serves in a second
    assert row.served_tokens_per_s_per_chip == pytest.approx(
        batch * n / steps / (1 + prefills_for_one) / d.n_chips, rel=EXACT
    )
    there = rl.predict(d, prompt_tokens=prompt, output_tokens=1, prefix_tokens=hit).memory
    both = (there.allocated_bytes_per_chip + baseline.memory.allocated_bytes_per_chip) * d.n_chips
    assert row.resident_bytes == pytest.approx(both, rel=EXACT)
    assert (row.n_chips, row.fits) == (2 * d.n_chips, baseline.memory.fits and there.fits)


def is_eager(row: LeverRow, d: rl.Deployment, request: dict[str, Any], baseline: rl.Prediction) -> None:
    prompt, batch, n = (request[name] for name in ("prompt_tokens", "batch", "output_tokens"))
    decode = rl.decode(d, context_tokens=prompt + (n - 2) / 2, batch=batch, attention="eager")
    assert row.ttft_s == rl.prefill(d, prompt_tokens=prompt, batch=batch, attention="eager").seconds
    assert row.tpot_s == decode.seconds
    assert row.bytes_per_token == decode.hbm_bytes * d.n_chips / batch
    assert row.max_batch == baseline.memory.max_batch


def check(d: rl.Deployment, request: dict[str, Any]) -> dict[str, LeverRow]:
    """Every row of a table, one by one."""
    baseline = rl.predict(d, **request)
    rows = lever_table(baseline)
    assert (rows[0].lever, rows[0].subject) == ("baseline", "now")
    assert len({row.lever for row in rows}) == len(rows)
    for row in rows:
        json.dumps(row.to_dict())
        if row.lever == "prefill on chips of its own":
            is_a_split(row, d, request, baseline)
        elif row.lever == "without FlashAttention (eager)":
            is_eager(row, d, request, baseline)
        else:
            other, asked = turned(row.lever, d, request, baseline)
            is_that(row, rl.predict(other, **asked))
    same = [row.lever for row in rows[1:] if row.figures == rows[0].figures]
    assert same == []  # a lever that moves nothing is none
    return {row.lever: row for row in rows}


SHORT: dict[str, Any] = {"prompt_tokens": 300, "output_tokens": 9, "batch": 4}
NGRAM = Drafting(drafter=Drafter(kind="ngram"), n_drafts=2, acceptance=0.5)


@pytest.mark.parametrize(
    ("d", "request_"),
    [
        (deployed(), {"prompt_tokens": 2048, "output_tokens": 256, "batch": 8}),
        (deployed(engine="vllm"), {"prompt_tokens": 4096, "output_tokens": 9, "batch": 4}),
        (deployed(pp=2), SHORT | {"shared_tokens": 100}),
        (deployed("qwen2-0.5b", engine="sglang", offload="host:0.3"), SHORT | {"prefix_tokens": 77, "drafting": NGRAM}),
        (deployed("llama-3.1-70b"), SHORT),  # does not fit
        (deployed("deepseek-v2-lite", "m5-max-40c", engine="llama.cpp"), SHORT),
        (deployed("deepseek-v3", "b300-sxm", tp=4), SHORT),
        (deployed("qwen3-next-80b-a3b", "h200-sxm-141gb", engine="vllm"), SHORT),
        (deployed("nemotron-h-8b", "m5-max-40c", engine="mlx"), SHORT | {"prompt_tokens": 1000}),
        (deployed("jamba-1.5-mini", "tpu-v6e"), SHORT),
        (deployed("gpt-oss-20b", "rtx-5090", engine="trtllm"), SHORT),
        (deployed("gemma-3-4b"), SHORT | {"images": 1, "batch": 2}),
        (deployed("llama-3.2-11b-vision"), SHORT | {"images": 1}),
        (deployed("whisper-large-v3", "tpu-v5e"), SHORT),
        (deployed("flan-t5-base", "m5-max-40c"), SHORT),
        (deployed("gpt-2", "t4"), {"prompt_tokens": 1000, "output_tokens": 24, "batch": 1}),  # at its longest
        (deployed("qwen2-0.5b"), {"prompt_tokens": 1, "output_tokens": 2, "batch": 1}),
        (deployed("gemma-4-e2b", "m1-7c"), {"prompt_tokens": 100, "output_tokens": 1, "batch": 1}),  # nothing to decode
        (deployed(ENCODER), {"prompt_tokens": 300, "output_tokens": 0, "batch": 20}),
    ],
    ids=lambda x: x.model.id if isinstance(x, rl.Deployment) else "",
)  # fmt: skip
def test_every_row_is_the_prediction_with_that_change(d: rl.Deployment, request_: dict[str, Any]) -> None:
    check(d, request_)


# Which levers there are


def levers(d: rl.Deployment, **changes: Any) -> dict[str, LeverRow]:
    return {row.lever: row for row in lever_table(rl.predict(d, **SHORT | changes))}


def test_a_dense_model_on_a_gpu_has_these() -> None:
    assert list(levers(deployed(), prompt_tokens=2048, batch=8)) == [
        "baseline", "as if MHA", "8-bit weights (fp8)", "4-bit weights (awq)", "8-bit KV cache",
        "whole contexts reserved, no pages", "half of the prompt in a prefix cache", "batch 64",
        "prompts in chunks of 2,048", "tp 2", "tp 8", "half of the weights in host memory",
        "half of the KV cache in host memory",
        "prefill on chips of its own", "4 drafts from the prompt (n-gram)", "without FlashAttention (eager)",
    ]  # fmt: skip


def test_each_kind_has_its_own() -> None:
    assert not {name for name in levers(deployed(chip="m5-max-40c")) if "host" in name}  # one memory for both
    latent = levers(deployed("deepseek-v3", "b300-sxm"))
    assert {"dp 2 for attention, ep 2", "dp 8 for attention, ep 8", "all experts in host memory"} <= set(latent)
    assert "1 draft by its own module (mtp)" in latent
    assert "as if MHA" not in levers(deployed("llama-2-7b"))  # it is
    assert "prompts in chunks of 2,048" not in levers(deployed())  # 1200 tokens are one
    assert "prompts in chunks of 2,048" not in levers(
        deployed(chip="rtx-4090", engine="vllm"), prompt_tokens=4096
    )  # they are
    encoder = {
        row.lever for row in lever_table(rl.predict(deployed(ENCODER), prompt_tokens=3000, output_tokens=0, batch=4))
    }
    assert not {name for name in encoder if "cache" in name or "chunks" in name or "drafts" in name}
    assert not {
        name for name in levers(deployed("flan-t5-base")) if "prefix" in name or "chips of" in name or "drafts" in name
    }


def test_half_a_prompt_of_less_than_a_page_is_no_hit() -> None:
    """llama.cpp keeps pages of 256: half of 300 tokens are none, half of 600 one."""
    d = deployed(engine="llama.cpp")
    assert "half of the prompt in a prefix cache" not in levers(d)
    half = levers(d, prompt_tokens=600)["half of the prompt in a prefix cache"]
    assert half.ttft_s == first_token(d, prompt_tokens=600, batch=4, prefix_tokens=256).seconds


def test_what_does_not_fit_is_marked() -> None:
    """Llama-3.1-70B in bf16 is 141 GB, a chip holds 85.5: in 8 or 4 bits, on two chips and more, or half of it elsewhere."""
    rows = levers(deployed("llama-3.1-70b"))
    assert {name for name, row in rows.items() if row.fits} == {
        "8-bit weights (fp8)", "4-bit weights (awq)", "tp 2", "tp 8", "half of the weights in host memory",
    }  # fmt: skip
    assert rows["baseline"].max_batch == 0
    assert rows["tp 8"].max_batch > rows["tp 2"].max_batch > 0


def test_no_more_sequences_than_fit_are_tried() -> None:
    room = rl.predict(deployed(), prompt_tokens=30_000, output_tokens=9, batch=8).memory.max_batch
    assert 8 < room < 64
    assert f"batch {room:.0f}" in levers(deployed(), prompt_tokens=30_000, batch=8)
    assert not {name for name in levers(deployed(), prompt_tokens=30_000, batch=int(room)) if name.startswith("batch")}


def test_the_eager_row_says_that_it_is_not_cut() -> None:
    uncut, cut = (levers(deployed(engine=e), prompt_tokens=4096, batch=4) for e in ("ideal", "vllm"))
    assert uncut["without FlashAttention (eager)"].assumes == ""
    assert cut["without FlashAttention (eager)"].assumes == "prompts in one pass"


def test_what_a_request_shares_or_has_cached_is_in_every_row() -> None:
    """Rows that could not say it are left out."""
    rows = levers(deployed(), shared_tokens=200)
    assert "prefill on chips of its own" not in rows
    assert "without FlashAttention (eager)" not in rows
    assert rows["tp 2"].ttft_s == first_token(deployed(tp=2), prompt_tokens=300, batch=4, shared_tokens=200).seconds


def test_drafts_stream_a_round_over_its_tokens() -> None:
    """A look-up streams the verification alone; GLM-4.5's module besides, once a draft: 1.8 tokens a round."""
    plain = levers(deployed())
    step = rl.count(LLAMA, rl.Seqs(n_seq=4, n_new=5, n_past=303.5, n_logits=5))
    assert plain["4 drafts from the prompt (n-gram)"].bytes_per_token == pytest.approx(
        step.streamed_bytes / 4 / 1.9375, rel=EXACT
    )
    glm = rl.model("glm-4.5")
    module = levers(deployed("glm-4.5", "b300-sxm", tp=4))["1 draft by its own module (mtp)"]
    step = rl.count(glm, rl.Seqs(n_seq=4, n_new=2, n_past=303.5, n_logits=2), plan=rl.Plan(tp=4))
    left = module.bytes_per_token * 1.8 * 4 - 4 * step.streamed_bytes  # type: ignore[operator]
    distinct = 160 * (1 - (1 - 8 / 160) ** 4)  # experts of four tokens
    join, attention, shared = 2 * 5120 * 5120, 5120 * 128 * 2 * (96 + 8), 3 * 5120 * 1536
    weights = (
        4 * join + attention + 4 * 5120 * 160 + shared * (1 + distinct) + 5120 * 151552
    )  # join and router on each of four
    assert left == pytest.approx(2 * weights, rel=0.01)


def test_a_grid_has_no_table() -> None:
    with pytest.raises(rl.SpecError, match="expected the prediction of one request shape, got a grid"):
        lever_table(rl.predict(deployed(), prompt_tokens=[100, 200], output_tokens=2))


def test_rows_become_frames_and_plain_data() -> None:
    rows = lever_table(rl.predict(deployed(ENCODER), prompt_tokens=100, output_tokens=0))
    assert rows[0].to_dict()["max_batch"] is None  # an encoder keeps nothing, so as many as you like
    assert math.isinf(rows[0].max_batch)
    assert rows[0].to_dict()["tpot_s"] is None
    frame = lever_table(rl.predict(deployed(), **SHORT))[0].to_frame()
    assert list(frame["lever"]) == ["baseline"]
    assert np.isfinite(frame["ttft_s"]).all()
