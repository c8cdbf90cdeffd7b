"""The clock, against the roofline worked out op by op, and against figures on the back of an envelope."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from strategies import KERNELS, as_chip, chips, efficiencies, models, precisions, steps

import roofline as rl
from roofline.dtypes import format_named
from roofline.specs.precision import lawful_dtypes, run_dtype
from roofline.work.step import Step


@settings(max_examples=150)
@given(models(), steps(), chips(), precisions(), efficiencies(), KERNELS)
def test_seconds_are_the_roofline_of_every_op_added_up(
    model: rl.Model, step: Step, chip: rl.Hardware, precision: rl.Precision, efficiency: rl.Efficiency, kernel: Any
) -> None:
    ledger = rl.count(model, step, precision=precision, attention=kernel)
    seconds: Any = 0.0
    compute: Any = 0.0
    memory: Any = 0.0
    launches: Any = 0.0
    e = efficiency
    for op in ledger.ops:
        peak, rate = chip.peak_flops_per_s(run_dtype(op.compute_dtype, chip)), e.memory * chip.hbm_bytes_per_s
        plain = min(peak, chip.compute.vector.get("fp32", peak))
        again: Any = 0.0 if e.reread_rows is None else op.weight_row_bytes / e.reread_rows
        traffic, spilt = (op.streamed_bytes + again) / rate, e.activations * op.act_bytes / rate
        rows = {"attention": e.attention_rows, "recurrent": 0.0}.get(op.kind, e.tile_rows)
        share = e.attention if op.kind == "attention" else e.compute
        work: Any = (op.executed_flops + rows * op.row_flops) / (share * peak)
        if e.vector is not None:
            each = 4.0 if op.kind == "attention" and format_named(op.store_dtype).bits < 16.0 else 1.0
            on_vectors: Any = each * op.executed_flops / (e.vector * plain)
            work = on_vectors if op.kind == "recurrent" else min(work, on_vectors)
        launch = op.n_launch * e.launch_s + (e.sequence_s * op.m if op.kind == "head" else 0.0)
        seconds += op.repeat * (max(work, traffic) + spilt + launch)
        compute += op.repeat * work * (work >= traffic)  # an op's time is its binding resource's
        memory += op.repeat * (traffic * (work < traffic) + spilt)
        launches += op.repeat * launch
    timing = rl.clock(ledger, chip, efficiency=efficiency)
    assert timing.seconds == pytest.approx(seconds, rel=1e-12)
    shares = {"compute": compute, "memory": memory, "overhead": launches}
    assert shares[timing.bound] == pytest.approx(max(shares.values()), rel=1e-12)


@given(models(), steps(), chips(), precisions())
def test_the_floor_is_one_maximum_over_compulsory_work_at_the_highest_lawful_rates(
    model: rl.Model, step: Step, chip: rl.Hardware, precision: rl.Precision
) -> None:
    ledger = rl.count(model, step, precision=precision)
    work: Any = 0.0
    traffic: Any = 0.0
    for op in ledger.ops:
        lawful = lawful_dtypes(op.store_dtype, op.compute_dtype, chip)
        work += op.repeat * op.flops / max(chip.bound_flops_per_s(dtype) for dtype in lawful)
        moved = op.weight_bytes_min + op.kv_read_bytes_min + op.kv_write_bytes
        traffic += op.repeat * moved / chip.hbm_bytes_per_s
    assert rl.clock(ledger, chip).floor_s == pytest.approx(max(work, traffic), rel=1e-12)


def one_second_chip(**matrix: dict[str, float]) -> rl.Hardware:
    return as_chip({"matrix": matrix, "vector": {"fp32": 1e9}, "bandwidth": 1e17, "capacity": 1e9})


def test_the_floor_uses_the_highest_rate_and_the_estimate_the_rated_one() -> None:
    """Memory is free on these chips, so seconds are FLOPs over a peak."""
    prompt = rl.count(rl.model("llama-2-7b"), rl.Seqs(n_seq=1, n_new=512), precision=rl.Precision(weights="fp16"))
    rated = rl.clock(prompt, one_second_chip(fp16={"peak": 1e12}))
    boosted = rl.clock(prompt, one_second_chip(fp16={"peak": 1e12, "peak_max": 1.25e12}))
    narrow_sums = rl.clock(prompt, one_second_chip(fp16={"peak": 1e12, "peak_acc16": 2e12}))
    assert rated.floor_s == pytest.approx(prompt.flops / 1e12)
    assert boosted.floor_s == pytest.approx(prompt.flops / 1.25e12)
    assert narrow_sums.floor_s == pytest.approx(prompt.flops / 2e12)
    assert rated.seconds == boosted.seconds == narrow_sums.seconds


@pytest.mark.parametrize(
    ("weights", "floor_rate", "estimate_rate"),
    [
        ("bf16", 1e12, 1e12),  # 16-bit weights have no lawful narrower arithmetic
        ("int8", 4e12, 1e12),  # W8A16 runs in 16 bit; an engine may use the int8 units
        ("w8a8", 4e12, 4e12),
        ("fp8", 4e12, 3e12),
        ("awq", 4e12, 1e12),
        ("mxfp4", 9e12, 1e12),
    ],
)
def test_a_floor_takes_the_fastest_units_that_the_stored_format_allows(
    weights: str, floor_rate: float, estimate_rate: float
) -> None:
    chip = one_second_chip(bf16={"peak": 1e12}, fp8={"peak": 3e12}, int8={"peak": 4e12}, fp4={"peak": 9e12})
    ledger = rl.count(rl.model("llama-2-7b"), rl.Seqs(n_seq=1, n_new=8), precision=rl.Precision(weights=weights))
    products = [op for op in ledger.ops if op.kind == "gemm"]
    other = sum(op.repeat * op.flops for op in ledger.ops if op.kind != "gemm")  # head and attention stay in 16 bit
    flops = sum(op.repeat * op.flops for op in products)
    timing = rl.clock(ledger, chip)
    assert timing.floor_s == pytest.approx(flops / floor_rate + other / 1e12, rel=1e-9)
    assert timing.compute_s == pytest.approx(flops / estimate_rate + other / 1e12, rel=1e-9)


def test_flash_attention_buys_what_the_square_costs() -> None:
    """Llama-2-7B, 8192 tokens, H100: 2 × the attention FLOPs, and 8 B · 32 heads · 8192² · 32 layers of score traffic."""
    d = rl.Deployment(model=rl.model("llama-2-7b"), hardware=rl.hardware("h100-sxm-80gb"), weights="fp16")
    flash, eager = (rl.prefill(d, prompt_tokens=8192, attention=kernel) for kernel in ("flash", "eager"))
    assert eager.hbm_bytes - flash.hbm_bytes == 8 * 32 * 8192**2 * 32
    core = 4 * 4096 * 32
    assert eager.executed_flops - flash.executed_flops == core * (8192**2 - 8192 * 8193 / 2)
    assert eager.flops == flash.flops
    assert eager.floor_s == flash.floor_s


def _decoded(batch: int, e: rl.Efficiency, kv: str = "fp16", context: int = 4096) -> dict[str, float]:
    """Seconds of the ops of a decode pass of Llama-2-7B on an H100, of one layer each."""
    precision = rl.Precision(weights="fp16", kv=kv)
    ledger = rl.count(rl.model("llama-2-7b"), rl.Seqs(n_seq=batch, n_new=1, n_past=context), precision=precision)
    timing = rl.clock(ledger, rl.hardware("h100-sxm-80gb"), efficiency=e)
    return {row["name"]: row["compute_s"] / row["repeat"] for row in timing.by_op()}


def test_few_rows_of_a_product_run_on_the_vector_units_and_many_on_the_matrix_units() -> None:
    """A row of down, 90 MFLOP, takes 2.7 µs at half of 66.9 TFLOP/s, 0.18 µs at half of 989.4: 64 more pay from 5 on."""
    e = rl.Efficiency(compute=0.5, vector=0.5, tile_rows=64.0)
    row = 2.0 * 11008 * 4096
    for batch in (1, 4):
        assert _decoded(batch, e)["down_proj"] == pytest.approx(batch * row / 33.45e12)
    for batch in (5, 256):
        assert _decoded(batch, e)["down_proj"] == pytest.approx((batch + 64) * row / 494.7e12)


def test_a_cache_of_8_bits_costs_a_vector_unit_four_times_the_arithmetic() -> None:
    """Half the bytes, and what bound it before binds it four times as long."""
    e = rl.Efficiency(vector=1e-3, attention_rows=1e6)
    whole, half = (_decoded(16, e, kv)["attention"] for kv in ("fp16", "fp8"))
    assert half == pytest.approx(4.0 * whole)


def test_launches_count_once_a_kernel_and_layer() -> None:
    """Six kernels a layer (qkv, attention, o, gate-up, down, elementwise) · 32, an embedding, a final norm and a head."""
    ledger = rl.count(rl.model("llama-3.1-8b"), rl.Seqs(n_seq=1, n_new=1))
    chip = rl.hardware("h100-sxm-80gb")
    slow = rl.clock(ledger, chip, efficiency=rl.Efficiency(launch_s=1e-3))
    assert slow.overhead_s == pytest.approx(195e-3)
    assert slow.seconds - rl.clock(ledger, chip).seconds == pytest.approx(195e-3)
    assert slow.bound == "overhead"


def test_the_words_for_a_grid_are_an_array_of_words() -> None:
    d = rl.Deployment(model=rl.model("llama-3.1-8b"), hardware=rl.hardware("h100-sxm-80gb"))
    timing = rl.prefill(d, prompt_tokens=np.array([[1.0], [8192.0]]), batch=np.array([1.0, 2.0, 3.0]))
    assert timing.bound.tolist() == [["memory"] * 3, ["compute"] * 3]
    assert np.shape(timing.intensity) == np.shape(timing.mfu) == (2, 3)


def test_intensity_is_executed_flops_over_traffic_and_the_ridge_is_the_chip_s() -> None:
    d = rl.Deployment(model=rl.model("llama-3.1-8b"), hardware=rl.hardware("h100-sxm-80gb"))
    t = rl.decode(d, context_tokens=1000, batch=4, attention="eager")
    assert t.intensity == t.executed_flops / t.hbm_bytes
    assert t.mfu == t.flops / (t.seconds * 989.4e12)
    assert t.mbu == t.compulsory_bytes / (t.seconds * 3.35e12)


@pytest.mark.parametrize(("weights", "ridge"), [("bf16", 989.4 / 3.35), ("fp8", 1978.9 / 3.35), ("awq", 989.4 / 3.35)])
def test_the_ridge_is_that_of_the_dtype_the_layers_run_in(weights: str, ridge: float) -> None:
    d = rl.Deployment(model=rl.model("llama-3.1-8b"), hardware=rl.hardware("h100-sxm-80gb"), weights=weights)
    assert rl.decode(d, context_tokens=1).ridge == pytest.approx(ridge)


@pytest.mark.parametrize(
    ("chip", "dtype", "rate"),
    [
        ("h100-sxm-80gb", "bf16", 989.4e12),
        ("t4", "fp16", 65e12),  # Turing has no bf16 units
        ("m1-max", "fp32", 10.62e12),  # Apple M1 widens bf16 to fp32; 32 cores · 256 FLOP a clock · 1.296 GHz
    ],
)
def test_a_bf16_model_runs_in_what_the_chip_has(chip: str, dtype: str, rate: float) -> None:
    d = rl.Deployment(model=rl.model("llama-3.1-8b"), hardware=rl.hardware(chip))
    timing = rl.decode(d, context_tokens=1)
    assert timing.dtype == dtype
    assert timing.peak_flops_per_s == rate
    assert bool(d.said()) == (dtype != "bf16")


def test_rows_of_a_large_grid_are_refused_and_say_so() -> None:
    d = rl.Deployment(model=rl.model("llama-3.1-8b"), hardware=rl.hardware("h100-sxm-80gb"))
    many = rl.decode(d, context_tokens=np.arange(100_001.0))
    assert math.isfinite(float(np.asarray(many.seconds).sum()))
    with pytest.raises(rl.Unsupported, match="smaller grid"):
        many.by_op()


@pytest.mark.parametrize("n_points", [99_999, 100_000, 100_001])
def test_either_side_of_the_block_limit_answers_alike(n_points: int) -> None:
    d = rl.Deployment(model=rl.model("gemma-3-1b"), hardware=rl.hardware("h100-sxm-80gb"))
    context = np.arange(float(n_points))
    seconds = np.asarray(rl.decode(d, context_tokens=context).seconds)
    assert seconds.shape == (n_points,)
    assert seconds[-1] == rl.decode(d, context_tokens=float(n_points - 1)).seconds
    assert np.all(np.diff(seconds) >= 0)


def test_bound_is_what_binds_the_ops_the_time_is_spent_in() -> None:
    """fp8 layers of 512 tokens are compute-bound ops for most of the pass, though bytes hidden under them sum to more."""
    d = rl.Deployment(model=rl.model("llama-3.1-8b"), hardware=rl.hardware("h100-sxm-80gb"), weights="fp8")
    t = rl.prefill(d, prompt_tokens=512)
    spent = {"compute": 0.0, "memory": 0.0}
    for row in t.by_op():
        spent[row["bound"]] += row["seconds"]
    assert t.compute_bound_s == pytest.approx(spent["compute"])
    assert t.memory_bound_s == pytest.approx(spent["memory"])
    assert spent["compute"] > spent["memory"]
    assert t.memory_s > t.compute_s
    assert t.bound == "compute"


def test_an_answer_can_be_pickled() -> None:
    d = rl.Deployment(model=rl.model("llama-3.1-8b"), hardware=rl.hardware("h100-sxm-80gb"))
    t = rl.decode(d, context_tokens=np.array([10.0, 1000.0]), batch=2)
    assert np.array_equal(pickle.loads(pickle.dumps(t)).seconds, t.seconds)
