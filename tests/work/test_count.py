"""Counting, against a second counter that knows nothing of the first.

`by_the_book` walks a YAML spec layer by layer, query by query, and adds up what the papers say; it shares no code with
`roofline.work`. Everything below it is a fact worked out by hand.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from strategies import KERNELS, Spec, as_model, model_specs, models, seqs, steps

import roofline as rl
from roofline.work.step import Step


def keys_seen(n_new: int, n_past: int, window: int | None) -> list[int]:
    """How many keys each query of a pass sees: itself, and those before it within the window."""
    return [n_past + i if window is None else min(n_past + i, window) for i in range(1, n_new + 1)]


def by_the_book(spec: Spec, step: Step, kernel: str) -> dict[str, float]:
    """FLOPs and 16-bit bytes of a pass: every product 2 · rows · in · out, every matrix and bias once; no norms."""
    d_model, width = spec["d_model"], spec["embedding"].get("width", spec["d_model"])
    tokens = sum(int(s.n_seq * s.n_new) for s in step)
    logits = sum(int(s.n_seq * s.n_logits) for s in step)
    flops = executed = kv_read = kv_write = matrix_elements = vector_elements = score_bytes = 0
    for group in spec["layers"]:
        for layer in group["layers"]:
            n, mixer, ffn = group["repeat"], layer["mixer"], layer["ffn"]
            heads, kv_heads, d_head, window = (mixer[k] for k in ("n_heads", "n_kv_heads", "d_head", "window"))
            q, kv, d_ff = heads * d_head, kv_heads * d_head, ffn["d_ff"]
            elements = d_model * q + 2 * d_model * kv + q * d_model + (3 if ffn["gated"] else 2) * d_model * d_ff
            matrix_elements += n * elements
            flops += n * 2 * tokens * elements
            executed += n * 2 * tokens * elements
            vector_elements += n * (q + 2 * kv) * mixer["qkv_bias"] + n * d_model * mixer["out_bias"]
            vector_elements += n * ((2 if ffn["gated"] else 1) * d_ff + d_model) * ffn["bias"]
            for s in step:
                b, t, past = int(s.n_seq), int(s.n_new), int(s.n_past)
                seen = keys_seen(t, past, window)
                kept = (
                    past if window is None else min(past, window - 1)
                )  # in the cache, and in reach of the first query
                rectangle = t * (kept + t)
                flops += n * b * 4 * q * sum(seen)
                executed += n * b * 4 * q * (rectangle if kernel == "eager" else sum(seen))
                score_bytes += n * b * heads * rectangle * 2 * 4 * (kernel == "eager")  # written, read, twice
                kv_read += n * b * kept * 2 * kv * 2
                kv_write += n * b * t * 2 * kv * 2
    if width != d_model:
        flops += 2 * tokens * 2 * width * d_model
        executed += 2 * tokens * 2 * width * d_model
        matrix_elements += 2 * width * d_model
    head = 2 * logits * width * spec["vocab_size"]
    if logits:  # a pass that wants none need not read the head
        matrix_elements += width * spec["vocab_size"]
        vector_elements += spec["vocab_size"] * spec["head"].get("bias", False)
    rows = width + (d_model if spec["positions"]["kind"] == "learned" else 0)
    return {
        "flops": flops + head,
        "executed_flops": executed + head,
        "kv_read_bytes": kv_read,
        "kv_write_bytes": kv_write,
        "weight_bytes": 2 * (matrix_elements + vector_elements) + 2 * tokens * rows,
        "score_bytes": score_bytes,
    }


@given(model_specs(), steps(max_parts=2), KERNELS)
def test_every_count_agrees_with_a_counter_written_by_the_book(spec: Spec, step: Step, kernel: Any) -> None:
    """Norms are left to the next test."""
    ledger, flash = (rl.count(as_model(spec), step, attention=k) for k in (kernel, "flash"))
    book = by_the_book(spec, step, kernel)
    assert ledger.flops == book["flops"]
    assert ledger.executed_flops == book["executed_flops"]
    assert ledger.kv_read_bytes == book["kv_read_bytes"]
    assert ledger.kv_write_bytes == book["kv_write_bytes"]
    products = (op for op in ledger.ops if op.kind != "elementwise")
    assert sum(op.repeat * op.weight_bytes for op in products) == book["weight_bytes"]
    assert ledger.act_bytes - flash.act_bytes == book["score_bytes"]


@given(models(), seqs())
def test_a_pass_streams_all_it_holds_but_the_tables_it_looks_rows_up_in(model: rl.Model, like: rl.Seqs) -> None:
    """Footprint and pass are counted apart; no tensor may be in one and not in the other."""
    ledger = rl.count(model, rl.Seqs(n_seq=like.n_seq, n_new=like.n_new, n_past=like.n_past))
    table = 0 if model.head is not None and model.head.tied else 2 * model.d_embedding * model.vocab_size
    positions = 2 * model.d_model * (model.positions.rows or 0)
    row = 2 * (model.d_embedding + (model.d_model if model.positions.rows else 0))
    assert ledger.weight_bytes == ledger.resident_bytes - table - positions + row * ledger.n_tokens


@given(models(), steps())
def test_a_ledger_counts_sequences_and_tokens(model: rl.Model, step: Step) -> None:
    ledger = rl.count(model, step)
    assert ledger.n_seq == sum(s.n_seq for s in step)
    assert ledger.n_tokens == sum(s.n_seq * s.n_new for s in step)


@given(models(), steps(), KERNELS)
def test_the_rows_of_a_ledger_add_up_to_its_totals(model: rl.Model, step: Step, kernel: Any) -> None:
    ledger = rl.count(model, step, attention=kernel)
    rows = ledger.by_op()
    for name in (
        "flops",
        "executed_flops",
        "weight_bytes",
        "kv_read_bytes",
        "kv_write_bytes",
        "act_bytes",
        "streamed_bytes",
    ):
        assert math.fsum(row[name] for row in rows) == getattr(ledger, name)
    assert sum(row["repeat"] for row in rows if row["kind"] == "attention") == model.n_layers


def test_one_seqs_and_a_tuple_of_one_are_the_same_pass() -> None:
    seqs = rl.Seqs(n_seq=3, n_new=5, n_past=7)
    llama = rl.model("llama-3.1-8b")
    assert rl.count(llama, seqs).by_op() == rl.count(llama, (seqs,)).by_op()


def test_llama_2_7b_needs_13_gflop_a_token_and_reads_all_but_its_table() -> None:
    """32 layers · (4 · 4096² + 3 · 4096 · 11008) = 6,476,005,376 and a head of 4096 · 32000 = 131,072,000 elements."""
    ledger = rl.count(rl.model("llama-2-7b"), rl.Seqs(n_seq=1, n_new=1))
    assert ledger.flops == 2 * (6_476_005_376 + 131_072_000) + 32 * 4 * 4096  # one key: itself
    products = [op for op in ledger.ops if op.kind in ("gemm", "head")]
    assert sum(op.repeat * op.weight_bytes for op in products) == 2 * (6_476_005_376 + 131_072_000)
    assert [op.weight_bytes for op in ledger.ops if op.kind == "embedding"] == [2 * 4096]  # one row
    assert ledger.resident_bytes == 2 * 6_738_415_616


def test_q_k_and_v_are_one_launch_and_gate_and_up_another() -> None:
    launches = {op.name: op.n_launch for op in rl.count(rl.model("llama-3.1-8b"), rl.Seqs(n_seq=1, n_new=1)).ops}
    assert [launches[f"{x}_proj"] for x in ("q", "k", "v", "o", "gate", "up", "down")] == [1, 0, 0, 1, 1, 0, 1]
    plain = {op.name: op.n_launch for op in rl.count(rl.model("gpt-2"), rl.Seqs(n_seq=1, n_new=1)).ops}
    assert plain["up_proj"] == 1


def test_one_query_row_against_all_keys_is_the_fused_work_of_a_group() -> None:
    """2 · K · (S + T) · 2H: Llama-3.1-8B after 100 tokens, 2 · 8 · 101 · 256."""
    (core,) = (
        op
        for op in rl.count(rl.model("llama-3.1-8b"), rl.Seqs(n_seq=1, n_new=1, n_past=100)).ops
        if op.kind == "attention"
    )
    assert core.row_flops == 413_696
    assert core.score_elements == 32 * 101


def test_int64_would_wrap_where_float64_does_not() -> None:
    """2.1e10 FLOP a token · 1e12 tokens is 1e22, past 9.2e18."""
    million: Any = np.int64(10**6)
    ledger = rl.count(rl.model("llama-3.1-8b"), rl.Seqs(n_seq=million, n_new=million))
    assert 1e22 < ledger.flops < 1e24


def test_the_head_multiplies_the_wanted_positions_of_every_sequence() -> None:
    (head,) = (
        op for op in rl.count(rl.model("llama-3.1-8b"), rl.Seqs(n_seq=5, n_new=4, n_logits=3)).ops if op.kind == "head"
    )
    assert head.m == 15
    assert head.flops == 2 * 15 * 4096 * 128_256


def test_opt_350m_projects_every_token_in_and_out_of_its_narrow_embedding() -> None:
    ops = {op.name: op for op in rl.count(rl.model("opt-350m"), rl.Seqs(n_seq=1, n_new=6)).ops}
    assert ops["project_in"].flops == ops["project_out"].flops == 2 * 6 * 512 * 1024
    assert ops["lm_head"].flops == 2 * 1 * 512 * 50_272


def test_layers_of_a_pattern_are_told_apart_by_their_window() -> None:
    names = [op.name for op in rl.count(rl.model("gemma-2-9b"), rl.Seqs(n_seq=1, n_new=1)).ops]
    assert {"local.attention", "global.attention"} <= set(names)
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("kernel", ["flash", "eager"])
def test_a_window_of_one_sees_nothing_but_the_token_itself(kernel: Any) -> None:
    mixer = {"kind": "attention", "n_heads": 2, "n_kv_heads": 1, "d_head": 8, "window": 1}
    model = as_model(
        {
            "id": "x",
            "name": "X",
            "dtype": "bf16",
            "d_model": 16,
            "vocab_size": 10,
            "max_context_tokens": 10,
            "layers": ({"layers": ({"mixer": mixer, "ffn": {"kind": "dense", "d_ff": 4}},)},),
        }
    )
    (core,) = (
        op
        for op in rl.count(model, rl.Seqs(n_seq=1, n_new=1, n_past=50), attention=kernel).ops
        if op.kind == "attention"
    )
    assert core.kv_read_bytes == 0
    assert core.executed_flops == 4 * 2 * 8
