"""Prefill here, decode there: what crosses the link, by hand, and that splitting adds no work."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import chips, deployments, models

import roofline as rl
from roofline.answers.disaggregation import split
from roofline.answers.transfer import break_even_bytes_per_s, kv_transfer, links_of

LAST_BITS = 1e-12
LLAMA = rl.model("llama-3.1-8b")  # 131,072 B of cache a token
ENCODER = rl.Model.read(
    {
        "id": "encoder", "name": "Encoder", "dtype": "fp16", "d_model": 64, "vocab_size": 100, "max_context_tokens": 512,
        "layers": [{"layers": [{"mixer": {"kind": "attention", "n_heads": 2, "n_kv_heads": 2, "d_head": 32, "causal": False},
                                "ffn": {"kind": "dense", "d_ff": 128}}]}],
        "head": None,
    },
    where="encoder.yaml",
)  # fmt: skip
H100, H200 = (rl.Deployment(model=LLAMA, hardware=rl.hardware(chip)) for chip in ("h100-sxm-80gb", "h200-sxm-141gb"))

rates = st.integers(1, 2000).map(lambda gigabytes: gigabytes * 1e9)
prompts = st.integers(1, 20_000)
batches = st.integers(1, 64)


def llama_on(chip: str, **formats: Any) -> rl.Deployment:
    return rl.Deployment(model=LLAMA, hardware=rl.hardware(chip), **formats)


def both(**changes: Any) -> Any:
    """H100s before H200s, 2048 tokens in and 256 out."""
    asked: dict[str, Any] = {"prefill": H100, "decode": H200, "prompt_tokens": 2048, "output_tokens": 256} | changes
    return split(**asked)


# The transfer


def test_a_cache_over_infiniband() -> None:
    ndr = H100.hardware.links.scale_out
    assert ndr is not None
    t = kv_transfer(H100, prompt_tokens=2048, link=ndr)
    moving_s = 2048 * 131072 / 50e9  # 400 Gbit/s: 5.37 ms
    assert t.moved_bytes == 2048 * 131072
    assert t.transfer_s == ndr.latency_s + moving_s
    assert (
        t.exposed_s == ndr.latency_s + moving_s / 32
    )  # the prefill takes 30 ms and more, so one layer's share is left


def test_the_break_even_of_an_8b_on_an_h100_is_8_9_gigabytes_per_second() -> None:
    """kv_bytes_per_token × prefill tokens/s: the layers' matrices, causal attention, the head once, at 989.4 TFLOP/s."""
    layers = LLAMA.n_params - 2 * 128256 * 4096 - 65 * 4096
    flops = 2 * layers * 2048 + 32 * 4 * 4096 * 2048 * 2049 / 2 + 2 * 128256 * 4096
    expected = 131072 * 2048 / (flops / 989.4e12)
    found = break_even_bytes_per_s(H100, prompt_tokens=2048)
    assert found == pytest.approx(expected, rel=1e-6)
    assert round(float(found) / 1e9, 1) == 8.9


@given(deployments(), prompts, batches)
def test_at_the_break_even_one_layers_share_is_exposed(d: rl.Deployment, prompt: int, batch: int) -> None:
    rate = break_even_bytes_per_s(d, prompt_tokens=prompt, batch=batch)
    t = kv_transfer(d, prompt_tokens=prompt, batch=batch, link=rate)
    assert t.transfer_s <= t.prefill_s * (1 + LAST_BITS)
    assert t.exposed_s == pytest.approx(t.transfer_s / d.model.n_layers, rel=1e-9)


def test_windows_move_what_they_keep_and_recurrent_layers_their_state() -> None:
    gemma = rl.Deployment(model=rl.model("gemma-3-1b"), hardware=rl.hardware("h100"))
    t = kv_transfer(gemma, prompt_tokens=32768, link=50e9)
    assert t.moved_bytes == 139 * 2**20  # 22 · 512 + 4 · 32768 tokens of 2 · 256 · 2 B
    qwen = rl.Deployment(model=rl.model("qwen3-next-80b-a3b"), hardware=rl.hardware("h100"))
    state = 36 * (32 * 128 * 128 * 4 + 8192 * 3 * 2)
    assert kv_transfer(qwen, prompt_tokens=100, link=50e9).moved_bytes == state + 100 * 12 * 2 * 2 * 256 * 2


def test_a_source_is_moved_as_what_the_decoder_attends_to() -> None:
    t5 = rl.Deployment(model=rl.model("flan-t5-base"), hardware=rl.hardware("h100"))
    each = 12 * 2 * 12 * 64 * t5.numerics.kv.bits / 8  # 12 layers, keys and values of 12 heads of 64
    assert kv_transfer(t5, prompt_tokens=300, link=50e9).moved_bytes == (300 + 1) * each


@given(deployments(), prompts, batches, rates, rates)
def test_exposed_is_at_most_the_transfer_and_a_faster_link_never_slower(
    d: rl.Deployment, prompt: int, batch: int, one: float, other: float
) -> None:
    slow, fast = (kv_transfer(d, prompt_tokens=prompt, batch=batch, link=r) for r in sorted((one, other)))
    assert fast.exposed_s <= slow.exposed_s <= slow.transfer_s
    assert fast.transfer_s <= slow.transfer_s


@given(deployments(), prompts, rates)
def test_a_grid_is_its_points(d: rl.Deployment, prompt: int, rate: float) -> None:
    lengths, links = np.array([[prompt], [2.0 * prompt]]), np.array([rate, 3.0 * rate, np.inf])
    grid = kv_transfer(d, prompt_tokens=lengths, link=links, latency_s=1e-6)
    for i in range(2):
        for j in range(3):
            point = kv_transfer(d, prompt_tokens=lengths[i, 0], link=links[j], latency_s=1e-6)
            assert np.asarray(grid.exposed_s)[i, j] == point.exposed_s
            assert np.asarray(grid.transfer_s)[i, j] == point.transfer_s
    assert len(grid.to_frame()) == 6


def test_a_pair_has_the_link_between_two_and_not_the_whole_fabric() -> None:
    mi300x = rl.hardware("mi300x")
    assert mi300x.links.scale_up is not None
    d = rl.Deployment(model=LLAMA, hardware=mi300x)
    assert kv_transfer(d, prompt_tokens=100, link=mi300x.links.scale_up).bytes_per_s == 64e9


def test_every_chip_that_holds_a_part_has_a_link() -> None:
    tp, dp = (rl.Deployment(model=LLAMA, hardware=H100.hardware, plan=p) for p in (rl.Plan(tp=8), rl.Plan(dp=8)))
    assert links_of(tp) == 8
    assert [links_of(dp, batch=b) for b in (1, 3, 100)] == [1, 3, 8]  # each rank holds sequences of its own
    assert kv_transfer(H100, prompt_tokens=100, link=50e9, n_links=4).bytes_per_s == 200e9


# Two pools


@given(models(), chips(), prompts, st.integers(2, 6), batches)
def test_with_an_infinite_link_and_equal_chips_a_split_is_the_unsplit_request(
    model: rl.Model, chip: rl.Hardware, prompt: int, n_out: int, batch: int
) -> None:
    d = rl.Deployment(model=model, hardware=chip)
    s = split(
        prefill=d,
        decode=d,
        prompt_tokens=prompt,
        output_tokens=n_out,
        link=math.inf,
        prefill_batch=batch,
        decode_batch=batch,
    )
    whole = rl.predict(d, prompt_tokens=prompt, output_tokens=n_out, batch=batch)
    assert (s.exposed_s, s.transfer.transfer_s) == (0.0, 0.0)
    assert (s.ttft_s, s.tpot_s, s.e2e_s) == (whole.ttft_s, whole.tpot_s, whole.e2e_s)
    assert s.link_requests_per_s == math.inf


def test_a_split_does_the_work_of_the_passes_it_is_made_of() -> None:
    """Llama has no windows, so the mean context has the mean work."""
    s = both(prefill=H100, decode=H100, prompt_tokens=300, output_tokens=9, prefill_batch=2, decode_batch=4)
    prompt = rl.count(LLAMA, rl.Seqs(n_seq=2, n_new=300))
    steps = [rl.count(LLAMA, rl.Seqs(n_seq=4, n_new=1, n_past=300 + i)) for i in range(8)]
    flops = prompt.flops / 2 + sum(step.flops for step in steps) / 4
    traffic = prompt.streamed_bytes / 2 + sum(step.streamed_bytes for step in steps) / 4
    assert s.flops_per_request == pytest.approx(flops, rel=LAST_BITS)
    assert s.hbm_bytes_per_request == pytest.approx(traffic, rel=LAST_BITS)


def test_the_work_of_a_request_is_that_of_all_chips_and_of_its_drafts() -> None:
    """Two chips share the products of one. With drafts: a round of k of them and the pass over k + 1 tokens."""
    asked = {"prompt_tokens": 300, "output_tokens": 9, "prefill_batch": 2, "decode_batch": 4}
    pair = rl.Deployment(model=LLAMA, hardware=rl.hardware("h100-sxm-80gb"), plan=rl.Plan(tp=2))
    one, two = (both(prefill=d, decode=d, **asked) for d in (H100, pair))
    assert two.flops_per_request == pytest.approx(one.flops_per_request, rel=LAST_BITS)
    small = rl.model("llama-3.2-1b")
    draft = rl.Deployment(model=small, hardware=rl.hardware("h100-sxm-80gb"))
    drafting = rl.Drafting(drafter=rl.Drafter(kind="draft_model", deployment=draft), n_drafts=3, acceptance=0.5)
    s = both(prefill=H100, decode=H100, drafting=drafting, **asked)
    context = 300 + 7 / 2  # the mean of 8 steps
    verify = rl.count(LLAMA, rl.Seqs(n_seq=4, n_new=4, n_past=context, n_logits=4)).flops
    drafts = 3 * rl.count(small, rl.Seqs(n_seq=4, n_new=1, n_past=context)).flops
    each = (verify + drafts) / (1 + 0.5 + 0.25 + 0.125) / 4
    prompt = rl.count(LLAMA, rl.Seqs(n_seq=2, n_new=300)).flops / 2
    assert s.flops_per_request == pytest.approx(prompt + 8 * each, rel=LAST_BITS)


def test_each_pool_runs_on_its_own_chips() -> None:
    s = both(prefill_batch=4, decode_batch=32)
    assert s.transfer.prefill_s == rl.prefill(H100, prompt_tokens=2048, batch=4).seconds
    assert s.tpot_s == rl.predict(H200, prompt_tokens=2048, output_tokens=256, batch=32).tpot_s
    assert s.ttft_s == s.transfer.prefill_s + s.transfer.exposed_s
    assert s.e2e_s == s.ttft_s + 255 * s.tpot_s
    late = both(prefill_batch=4, decode_batch=32, overlap=False)
    assert late.ttft_s == s.transfer.prefill_s + s.transfer.transfer_s


def test_capacities_are_batches_over_times() -> None:
    s = both(prefill_batch=4, decode_batch=32, n_prefill=3, n_decode=2, link=1e9)
    assert s.prefill_requests_per_s == 3 * 4 / s.transfer.prefill_s
    assert s.decode_requests_per_s == 2 * 32 / (255 * s.tpot_s)
    assert s.link_requests_per_s == 2 * 1e9 / (2048 * 131072)  # the two that decode have a link each
    assert s.requests_per_s == s.link_requests_per_s < min(s.prefill_requests_per_s, s.decode_requests_per_s)
    assert s.link_keeps_up is False


@given(deployments(), chips(), prompts, st.integers(2, 6), batches, batches)
def test_pools_in_the_ratio_are_equally_busy(
    d: rl.Deployment, chip: rl.Hardware, prompt: int, n_out: int, some: int, others: int
) -> None:
    asked: dict[str, Any] = {
        "prompt_tokens": prompt,
        "output_tokens": n_out,
        "prefill_batch": some,
        "decode_batch": others,
    }
    pools: dict[str, Any] = {
        "prefill": d,
        "decode": rl.Deployment(model=d.model, hardware=chip, precision=d.precision),
        "link": math.inf,
    }
    ratio = split(**pools, **asked).prefill_per_decode
    s = split(**pools, **asked, n_prefill=ratio, n_decode=1)
    assert s.prefill_requests_per_s == pytest.approx(s.decode_requests_per_s, rel=LAST_BITS)


def test_the_decode_pool_runs_as_many_as_fit() -> None:
    s = both()
    room = 143771 * 2**20 - 2 * LLAMA.n_params
    assert s.decode.batch == room // ((2048 + 255) * 131072)
    assert s.fits is True
    grid = both(prompt_tokens=[1024, 2048])
    assert np.asarray(grid.decode.batch).tolist() == [both(prompt_tokens=1024).decode.batch, s.decode.batch]
    assert np.asarray(grid.requests_per_s)[1] == s.requests_per_s


def test_what_does_not_fit_is_an_answer() -> None:
    big = [rl.Deployment(model=rl.model("llama-3.1-70b"), hardware=d.hardware) for d in (H100, H200)]
    s = both(prefill=big[0], decode=big[1])
    assert (s.prefill.memory.fits, s.fits) == (False, False)
    assert s.to_dict()["fits"] is False


def test_the_way_between_two_boxes_is_the_slower_of_their_links() -> None:
    a100 = llama_on("a100-sxm-80gb")
    links = [d.hardware.links.scale_out for d in (H100, a100)]
    assert both(prefill=a100).transfer.bytes_per_s == min(
        link.bytes_per_s for link in links if link and link.bytes_per_s
    )
    with pytest.raises(rl.SpecError, match=r"rtx-4090 gives no scale-out link; pass link="):
        both(decode=llama_on("rtx-4090"))
    assert both(decode=llama_on("rtx-4090"), link=1e9).transfer.bytes_per_s == 1e9


def test_pools_that_cannot_talk_are_refused() -> None:
    with pytest.raises(rl.SpecError, match=r"one model in both pools, got llama-3\.1-8b and llama-3\.1-70b"):
        both(decode=rl.Deployment(model=rl.model("llama-3.1-70b"), hardware=H200.hardware))
    with pytest.raises(rl.SpecError, match="prefill makes bf16 and decode reads fp8"):
        both(decode=llama_on("h200-sxm-141gb", kv="fp8"))
    bert = rl.Deployment(model=ENCODER, hardware=H100.hardware)
    with pytest.raises(rl.SpecError, match="is an encoder"):
        both(prefill=bert, decode=bert)
    with pytest.raises(rl.SpecError, match="output_tokens"):
        both(output_tokens=1)
    with pytest.raises(rl.SpecError, match="overlap: expected True or False"):
        both(overlap=1)
    for bad in (0, -1, "fast", math.nan):
        with pytest.raises(rl.SpecError, match="link: expected a number"):
            both(link=bad)
    with pytest.raises(rl.SpecError, match="no rate is known of PCIe"):
        both(link=rl.hardware("tpu-v5e").links.host)


def test_a_frame_has_a_row_a_point() -> None:
    frame = both(prompt_tokens=[1024, 2048, 4096]).to_frame()
    assert frame["prompt_tokens"].tolist() == [1024, 2048, 4096]
    assert set(frame["decode_hardware"]) == {"h200-sxm-141gb"}
    assert (frame["exposed_s"] <= frame["transfer_s"]).all()
