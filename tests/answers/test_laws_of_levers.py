"""Laws that hold of levers together: chips and offload and chunks, machines k times as fast, windows, pools."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import as_model, chips, model_specs, with_mixers
from zoo import zoo_models

import roofline as rl
from roofline.answers.chunks import first_token
from roofline.answers.disaggregation import split
from roofline.answers.drafters import Drafter, Drafting
from roofline.answers.mixed import mixed_pass
from roofline.answers.transfer import break_even_bytes_per_s
from roofline.answers.whatif import scaled
from roofline.specs.catalog import engine
from roofline.specs.offload import Offload

EXACT = 1e-12
FEW = settings(max_examples=settings().max_examples // 2)
H100 = rl.hardware("h100-sxm-80gb")
LLAMA = rl.model("llama-3.1-8b")
NGRAM = Drafting(drafter=Drafter(kind="ngram"), n_drafts=3, acceptance=0.7)


def cutting(tokens: int | None) -> Any:
    return engine("ideal") if tokens is None else engine("ideal").varied(batch_tokens=tokens)


def deployed(
    model: str | rl.Model = LLAMA,
    chip: rl.Hardware = H100,
    *,
    tokens: int | None = None,
    offload: Any = None,
    **ways: Any,
) -> rl.Deployment:
    model = rl.model(model) if isinstance(model, str) else model
    return rl.Deployment(model=model, hardware=chip, plan=rl.Plan(**ways), engine=cutting(tokens), offload=offload)


# N chips


WAYS: list[dict[str, Any]] = [
    {"tp": 2}, {"tp": 8}, {"pp": 2}, {"pp": 4}, {"pp": 3, "microbatches": 5}, {"tp": 2, "pp": 2}, {"tp": 8, "ep": 8},
    {"dp": 2}, {"dp": 4, "ep": 4}, {"tp": 2, "dp": 2, "ep": 4}, {"pp": 2, "dp": 2}, {"cp": 2},
]  # fmt: skip
OFFLOADS = [
    None, Offload(fraction=0.3), Offload(fraction=1.0, what="experts"), Offload(fraction=0.5, what="kv"),
    Offload(fraction=0.3, overlap=True), Offload(to="nvme-gen5-x4", fraction=1.0, what="kv", overlap=True),
    Offload.read({"fraction": 0.5, "bandwidth": "40 GB/s"}, where="offload"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("model", "chip"),
    [("llama-3.1-8b", "rtx-4090"), ("qwen3-30b-a3b", "mi300x"), ("deepseek-v3", "h200-sxm-141gb"),
     ("gemma-3-27b", "h200-sxm-141gb"), ("qwen3-next-80b-a3b", "h200-sxm-141gb")],
)  # fmt: skip
@FEW
@given(
    ways=st.sampled_from(WAYS), offload=st.sampled_from(OFFLOADS), tokens=st.sampled_from([None, 100, 1000]),
    prompt=st.sampled_from([1, 7, 300, 1200]), batch=st.sampled_from([1, 2, 3, 8, 17]), hit=st.booleans(),
    shared=st.booleans(),
)  # fmt: skip
def test_n_chips_are_at_most_n_times_as_fast(
    model: str, chip: str, ways: dict[str, Any], offload: Offload | None, tokens: int | None, prompt: int, batch: int,
    hit: bool, shared: bool,
) -> None:  # fmt: skip
    """Of the same passes: every data-parallel rank has a budget of its own, so one chip is given that of all."""
    alone = None if tokens is None else tokens * ways.get("dp", 1)
    try:
        many = deployed(model, rl.hardware(chip), tokens=tokens, offload=offload, **ways)
        one = deployed(model, rl.hardware(chip), tokens=alone, offload=offload)
    except (rl.PlanError, rl.SpecError):
        return  # heads that do not divide, no experts
    asked: dict[str, Any] = {
        "prompt_tokens": prompt,
        "batch": batch,
        "prefix_tokens": hit * prompt // 2,
        "shared_tokens": shared * prompt // 3,
    }
    a, b = first_token(one, **asked), first_token(many, **asked)
    assert b.seconds * many.n_chips >= a.seconds * (1 - 1e-9)
    assert b.floor_s * many.n_chips >= a.floor_s * (1 - 1e-9)
    assert b.floor_s <= b.seconds * (1 + 1e-9)


# A machine k times as fast


PARTS: list[dict[str, Any]] = [
    {}, {"offload": {"fraction": 0.5}}, {"offload": {"fraction": 0.4, "what": "kv", "overlap": True}},
    {"offload": {"fraction": 0.5, "compute": "host", "bandwidth": 40e9, "host_peak": 2e12}},
    {"offload": {"fraction": 0.5, "bandwidth": 20e9}, "tp": 2}, {"tp": 8, "overlap": 0.5}, {"pp": 2, "tp": 2}, {"dp": 2},
]  # fmt: skip


def offloaded(fields: dict[str, Any] | None, k: float) -> Offload | None:
    """Rates k times as high."""
    if fields is None:
        return None
    units = {"bandwidth": "B/s", "host_peak": "FLOP/s"}
    return Offload.read(
        {name: f"{value * k!r} {units[name]}" if name in units else value for name, value in fields.items()},
        where="offload",
    )


@given(
    st.sampled_from(PARTS), st.sampled_from([None, 100]), st.integers(1, 1000), st.integers(1, 40), st.floats(0.01, 100)
)
def test_a_machine_k_times_as_fast_takes_a_kth(
    part: dict[str, Any], tokens: int | None, prompt: int, batch: int, k: float
) -> None:
    """Peaks, bandwidths, links and their latencies, the host and its link: there is no other time in it."""
    ways = {name: value for name, value in part.items() if name != "offload"}
    faster = scaled(H100, peak=k, bandwidth=k, link_bandwidth=k, link_latency=1 / k)
    d, quick = (
        deployed(chip=chip, tokens=tokens, offload=offloaded(part.get("offload"), factor), **ways)
        for chip, factor in ((H100, 1.0), (faster, k))
    )
    before, after = (
        rl.predict(x, prompt_tokens=prompt, output_tokens=3, batch=batch, shared_tokens=prompt // 2, drafting=drafting)
        for x, drafting in ((d, NGRAM), (quick, NGRAM))
    )
    for name in ("ttft_s", "ttft_floor_s", "tpot_s", "tpot_floor_s", "e2e_s"):
        assert getattr(after, name) * k == pytest.approx(getattr(before, name), rel=1e-9), name
    assert after.prefill.bound == before.prefill.bound
    one, other = (mixed_pass(x, context_tokens=prompt, batch=batch, chunk_tokens=64).seconds for x in (d, quick))
    assert other * k == pytest.approx(one, rel=1e-9)


# Windows


@FEW
@given(
    model_specs(windows=st.integers(1, 600)), chips(), st.integers(1, 1500), st.integers(1, 20),
    st.sampled_from([None, 64, 500]),
    st.sampled_from([None, {"fraction": 0.5, "what": "kv", "bandwidth": 40e9}, {"fraction": 0.5, "bandwidth": 40e9}]),
    st.data(),
)  # fmt: skip
def test_a_window_never_takes_longer_nor_more_room(
    spec: dict[str, Any], chip: rl.Hardware, prompt: int, batch: int, tokens: int | None, held: dict[str, Any] | None,
    data: st.DataObject,
) -> None:  # fmt: skip
    hit, shared = (data.draw(st.integers(0, prompt)) for _ in range(2))
    windowed, full = (
        deployed(as_model(s), chip, tokens=tokens, offload=offloaded(held, 1.0))
        for s in (spec, with_mixers(spec, window=None))
    )
    asked: dict[str, Any] = {"prompt_tokens": prompt, "batch": batch, "prefix_tokens": hit, "shared_tokens": shared}
    small, large = (rl.predict(d, output_tokens=4, **asked) for d in (windowed, full))
    for name in ("ttft_s", "ttft_floor_s", "tpot_s", "tpot_floor_s", "e2e_s", "e2e_floor_s"):
        assert getattr(small, name) <= getattr(large, name) * (1 + EXACT), name
    assert small.memory.used_bytes_per_chip <= large.memory.used_bytes_per_chip
    assert small.memory.max_batch >= large.memory.max_batch
    beside = [
        mixed_pass(d, context_tokens=prompt, batch=batch, chunk_tokens=100, chunk_past=hit).seconds
        for d in (windowed, full)
    ]
    assert beside[0] <= beside[1] * (1 + EXACT)


# Batches


@given(
    zoo_models(bodies=("decoder",)),
    chips(),
    st.integers(1, 5000),
    st.sampled_from([None, {"fraction": 0.5, "bandwidth": 40e9}]),
)
def test_a_larger_batch_never_serves_fewer_tokens_a_second(
    model: rl.Model, chip: rl.Hardware, context: int, held: dict[str, Any] | None
) -> None:
    """Weights are shared by more: what a pass takes grows at most as its sequences do."""
    batch = np.array([1.0, 2.0, 3.0, 8.0, 50.0, 1000.0])
    seconds = np.asarray(
        rl.decode(deployed(model, chip, offload=offloaded(held, 1.0)), context_tokens=context, batch=batch).seconds
    )
    assert np.all(np.diff(seconds) >= -EXACT * seconds[1:])
    assert np.all(np.diff(seconds / batch) <= EXACT * (seconds / batch)[1:])


# Two pools


def both(d: rl.Deployment, **changes: Any) -> Any:
    asked: dict[str, Any] = {
        "prompt_tokens": 700, "output_tokens": 9, "prefill_batch": 4, "decode_batch": 4, "link": math.inf,
    } | changes  # fmt: skip
    return split(prefill=d, decode=d, **asked)


@pytest.mark.parametrize("model", ["llama-3.1-8b", "qwen3-30b-a3b"])
@pytest.mark.parametrize(
    ("part", "tokens", "hit"),
    [({}, None, 0), ({"tp": 4}, None, 0), ({}, 500, 0), ({}, 500, 300), ({"tp": 2}, None, 300), ({"dp": 2}, 500, 0),
     ({"offload": "host:0.5"}, None, 0), ({"offload": "host:0.3:kv"}, 500, 0)],
)  # fmt: skip
def test_a_split_over_a_link_without_end_does_the_work_of_one_pool(
    model: str, part: dict[str, Any], tokens: int | None, hit: int
) -> None:
    """Neither model has windows, so the eight decode passes have the work of their mean."""
    d = deployed(model, tokens=tokens, **part)
    s = both(d, prefix_tokens=hit)
    whole = rl.predict(d, prompt_tokens=700, output_tokens=9, batch=4, prefix_tokens=hit)
    assert (s.ttft_s, s.tpot_s, s.e2e_s) == (whole.ttft_s, whole.tpot_s, whole.e2e_s)
    prompts = first_token(d, prompt_tokens=700, batch=4, prefix_tokens=hit)
    steps = [rl.decode(d, context_tokens=700 + i, batch=4) for i in range(8)]
    for mine, name in (("flops_per_request", "flops"), ("hbm_bytes_per_request", "hbm_bytes")):
        of_a_chip = (getattr(prompts, name) + sum(getattr(step, name) for step in steps)) / 4
        expected = of_a_chip * d.n_chips
        assert getattr(s, mine) == pytest.approx(expected, rel=1e-9), name


def test_the_break_even_link_is_the_cache_of_a_token_times_tokens_a_second() -> None:
    """Llama-3.1-8B on an H100, 2048 tokens: 131,072 B a token; 2 · 6,979,321,856 and 270,336 weights of norms apart, 2048
    tokens of products, 2,098,176 pairs of 4 · 4096 FLOP in 32 layers, one row of the head: 29.7 ms at 989.4 TFLOP/s."""
    matrices = LLAMA.n_params - 2 * 128256 * 4096 - 65 * 4096
    seconds = (2 * 2048 * matrices + 32 * 4 * 4096 * 2048 * 2049 / 2 + 2 * 4096 * 128256) / 989.4e12
    expected = 131072 * 2048 / seconds
    assert break_even_bytes_per_s(deployed(), prompt_tokens=2048) == pytest.approx(expected, rel=1e-9)
    assert expected == pytest.approx(8.9e9, rel=0.01)
    assert rl.memory(deployed(), context_tokens=2048).kv_bytes_per_token == 131072


@pytest.mark.parametrize("tokens", [None, 256])
def test_a_prefix_is_not_computed_again_and_moves_all_the_same(tokens: int | None) -> None:
    d = deployed(tokens=tokens)
    cold, warm = (both(d, prefill_batch=1, link=50e9, prefix_tokens=hit) for hit in (0, 512))
    assert (
        warm.transfer.prefill_s
        == first_token(d, prompt_tokens=700, prefix_tokens=512).seconds
        < cold.transfer.prefill_s
    )
    assert warm.transfer.moved_bytes == cold.transfer.moved_bytes == 700 * 131072
    assert warm.break_even_bytes_per_s == cold.break_even_bytes_per_s
    assert warm.tpot_s == cold.tpot_s
    assert warm.prefill_per_decode < cold.prefill_per_decode


def test_a_chunked_prefill_pool_takes_its_passes_and_hides_as_much_of_the_transfer() -> None:
    whole, cut = (both(deployed(tokens=n), prefill_batch=1, link=50e9) for n in (None, 128))
    passes = first_token(deployed(tokens=128), prompt_tokens=700)
    assert passes.n_passes == 6  # type: ignore[attr-defined]
    assert cut.ttft_s == passes.seconds + cut.exposed_s
    assert (
        cut.exposed_s == whole.exposed_s == 700 * 131072 / 50e9 / 32
    )  # a layer's share: the passes take longer than the rest
    assert cut.prefill_requests_per_s == 1 / passes.seconds < whole.prefill_requests_per_s
    assert cut.decode_requests_per_s == whole.decode_requests_per_s
