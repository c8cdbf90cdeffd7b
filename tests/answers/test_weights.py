"""Loading times by division, adapters by published counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import models, seqs

import roofline as rl
from roofline.answers.weights import adapters, load_time

H100 = rl.hardware("h100-sxm-80gb")  # PCIe 5.0 x16: 63.015 GB/s
LLAMA = rl.model("llama-3.1-8b")  # 8,030,261,248 parameters
D = rl.Deployment(model=LLAMA, hardware=H100)
ALL = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
TOKEN = rl.Seqs(n_seq=1, n_new=1, n_past=1000)


# Loading


def test_a_model_loads_in_its_bytes_over_the_rate() -> None:
    found = load_time(D, link="host")
    assert found.weight_bytes == found.weight_bytes_per_chip == 2 * 8030261248
    assert found.seconds == 2 * 8030261248 / 63.015e9
    assert load_time(D, chip_bytes_per_s=63.015e9).seconds == found.seconds
    assert load_time(D, source_bytes_per_s=2e9).seconds == pytest.approx(8.030261248)


def test_the_slower_of_source_and_chip_binds() -> None:
    found = load_time(D, link="host", source_bytes_per_s=[1e9, 1e12])
    assert found.bound.tolist() == ["source", "chip"]
    assert found.to_frame()["seconds"].tolist() == [16.060522496, 16.060522496e9 / 63.015e9]


def test_chips_that_share_a_model_load_their_parts_together_and_a_shared_source_feeds_them_all() -> None:
    """Llama-3.1-8B on 4: a quarter of every matrix each, and the norms (65 · 4096) on all of them."""
    four = rl.Deployment(model=LLAMA, hardware=H100, plan=rl.Plan(tp=4))
    found = load_time(four, link="host")
    norms = 65 * 4096
    assert found.weight_bytes_per_chip == pytest.approx(2 * ((8030261248 - norms) / 4 + norms), rel=1e-12)
    assert found.seconds == found.weight_bytes_per_chip / 63.015e9
    assert load_time(four, source_bytes_per_s=1e9).seconds == load_time(D, source_bytes_per_s=1e9).seconds


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({}, "no rate; give source_bytes_per_s=, chip_bytes_per_s= or link="),
        ({"link": "hots"}, "link: expected one of host, .* did you mean host"),
        ({"link": "host", "chip_bytes_per_s": 1e9}, "got both"),
        ({"source_bytes_per_s": 0}, "source_bytes_per_s: expected a number > 0"),
    ],
)
def test_a_rate_is_asked_for(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(rl.SpecError, match=said):
        load_time(D, **asked)


def test_a_link_that_is_not_there_has_no_rate() -> None:
    d = rl.Deployment(model=LLAMA, hardware=rl.hardware("rtx-4090"))
    with pytest.raises(rl.SpecError, match="the rate of the scale_up link of rtx-4090 is not known"):
        load_time(d, link="scale_up")


# Adapters


def test_parameters_are_those_that_are_printed() -> None:
    """PEFT, LLaMA-7B, r = 8 on q and v: "trainable params: 4194304 || all params: 6742609920"; Llama-3-8B, r = 16 on all
    seven: 41,943,040 of 8,072,204,288."""
    seven = rl.model("llama-2-7b")
    assert adapters(seven, TOKEN, rank=8, targets=("q", "v")).n_params == 4_194_304 == 6_742_609_920 - seven.n_params
    found = adapters(LLAMA, TOKEN, rank=16, targets=ALL)
    assert found.n_params == 41_943_040 == 8_072_204_288 - LLAMA.n_params
    assert found.adapter_bytes == 2 * 41_943_040


def test_a_pass_multiplies_and_streams_every_adapter_in_use_once() -> None:
    """2 FLOPs a parameter a token, whosever it is; four sequences stream no more than four of ten adapters."""
    step = rl.Seqs(n_seq=4, n_new=1, n_past=1000)
    found = adapters(LLAMA, step, rank=16, targets=ALL, n_adapters=10)
    assert found.flops == 4 * 2 * 41_943_040
    assert found.streamed_bytes == 4 * 2 * 41_943_040
    assert found.resident_bytes == 10 * 2 * 41_943_040
    assert found.resident_share == pytest.approx(10 * 41_943_040 / 8_030_261_248)
    base = rl.count(LLAMA, step)
    assert found.flops_share == found.flops / base.flops
    assert found.streamed_share == found.streamed_bytes / base.streamed_bytes


def test_every_expert_has_an_adapter_and_a_token_passes_k_of_them() -> None:
    """Mixtral 8x7B: 32 layers of 8 experts, 2 a token, each (4096, 14336) up."""
    found = adapters(rl.model("mixtral-8x7b"), TOKEN, rank=4, targets=("expert_up",))
    assert found.n_params == 32 * 8 * 4 * (4096 + 14336)
    assert found.flops == 2 * found.n_params * 2 / 8


@given(models(), seqs(), st.integers(1, 64), st.integers(1, 8))
def test_k_times_the_rank_is_k_times_everything(model: rl.Model, step: rl.Seqs, rank: int, k: int) -> None:
    one, more = (adapters(model, step, rank=r, targets=("q", "down"), n_adapters=3) for r in (rank, rank * k))
    assert more.n_params == k * one.n_params
    for name in ("adapter_bytes", "resident_bytes", "flops", "streamed_bytes"):
        assert getattr(more, name) == k * getattr(one, name)
    assert one.flops == 2 * one.n_params * step.n_seq * step.n_new


def test_a_grid_of_passes_and_of_adapters_is_its_points() -> None:
    step = rl.Seqs(n_seq=np.array([1.0, 8.0, 64.0]), n_new=1, n_past=1000)
    grid = adapters(LLAMA, step, rank=16, n_adapters=[[1], [32]])
    assert len(grid.to_frame()) == 6
    point = adapters(LLAMA, rl.Seqs(n_seq=64, n_new=1, n_past=1000), rank=16, n_adapters=32)
    assert np.asarray(grid.streamed_share)[1, 2] == point.streamed_share
    assert np.broadcast_to(grid.flops_share, (2, 3))[1, 2] == point.flops_share


def test_the_format_is_that_of_the_adapters() -> None:
    assert adapters(LLAMA, TOKEN, rank=8, weights="fp32").adapter_bytes == 4 * adapters(LLAMA, TOKEN, rank=8).n_params
    four_bit = adapters(LLAMA, TOKEN, rank=8, precision=rl.Precision(weights="nf4"))  # QLoRA: 16 bit on 4
    assert four_bit.adapter_bytes == adapters(LLAMA, TOKEN, rank=8).adapter_bytes
    assert four_bit.streamed_share > adapters(LLAMA, TOKEN, rank=8).streamed_share


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"targets": ("gates",)}, r"targets: llama-3.1-8b has no matrix .gates.; did you mean gate"),
        ({"targets": ("zzz",)}, "it has q, k, v, o, gate, up, down"),
        ({"targets": "q"}, "expected roles of matrices"),
        ({"targets": ()}, "expected roles of matrices"),
        ({"rank": 0}, "rank: expected a whole number from 1"),
        ({"rank": 8.0}, "rank: expected a whole number"),
        ({"n_adapters": 0}, "n_adapters: expected a number >= 1"),
    ],
)
def test_what_is_no_adapter_is_refused(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(rl.SpecError, match=said):
        adapters(LLAMA, TOKEN, **({"rank": 8} | asked))
    with pytest.raises(rl.UnknownName, match="number format"):
        adapters(LLAMA, TOKEN, rank=8, weights="bf17")
