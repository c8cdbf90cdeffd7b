"""Pipelines: stages in a row, microbatches, bubbles; and the laws of speed over chips."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import roofline as rl
from roofline.timing.pipeline import Staged

MODELS = ("llama-3.1-8b", "qwen3-30b-a3b", "deepseek-v3", "gemma-3-27b", "gpt-oss-20b")


def deployed(model: str = "llama-3.1-8b", chip: str = "h100", **ways: Any) -> rl.Deployment:
    return rl.Deployment(model=rl.model(model), hardware=rl.hardware(chip), plan=rl.Plan(**ways))


def on_stage(d: rl.Deployment, stage: int, step: rl.Seqs) -> rl.Timing:
    return rl.clock(rl.count(d.model, step, plan=d.plan, stage=stage), d.hardware)


def test_a_prompt_fills_and_drains_the_pipeline() -> None:
    d = deployed(pp=4)
    t = rl.prefill(d, prompt_tokens=512, batch=8)
    each = [on_stage(d, i, rl.Seqs(n_seq=2, n_new=512)).seconds for i in range(4)]
    assert t.seconds == pytest.approx(sum(each) + 3 * max(each))
    assert isinstance(t, Staged)
    assert t.bubble_s == pytest.approx(t.seconds - sum(each))  # four microbatches, the mean over four stages


def test_a_decode_pass_returns_when_the_slowest_stage_has_served_all() -> None:
    d = deployed(pp=2, stages=(24, 8))
    t = rl.decode(d, context_tokens=1000, batch=64)
    each = [on_stage(d, i, rl.Seqs(n_seq=32, n_new=1, n_past=1000)).seconds for i in (0, 1)]
    assert t.seconds == pytest.approx(max(sum(each), 2 * max(each)))
    assert 2 * max(each) > sum(each)


def test_one_sequence_passes_every_stage_in_turn() -> None:
    """More machines add memory, not speed, at batch 1."""
    alone, piped = (rl.decode(deployed(pp=n), context_tokens=4096) for n in (1, 4))
    hand_overs = 3 * (2e-6 + 4096 * 2 / 450e9)
    assert piped.seconds == pytest.approx(alone.seconds + hand_overs, rel=1e-9)
    assert piped.floor_s == pytest.approx(alone.floor_s, rel=1e-6)


def test_counts_of_a_pipeline_are_one_chip_s() -> None:
    whole, piped = (
        rl.prefill(deployed(), prompt_tokens=256, batch=4),
        rl.prefill(deployed(pp=2), prompt_tokens=256, batch=4),
    )
    assert piped.flops == pytest.approx(whole.flops / 2)
    assert piped.mfu < whole.mfu
    assert {row["stage"] for row in piped.by_op()} == {0, 1}
    assert piped.bound == whole.bound


def test_a_grid_of_a_pipeline_equals_its_points() -> None:
    d = deployed(pp=2, tp=2)
    batch, context = np.array([1, 2, 7, 64])[:, None], np.array([10, 1000])
    grid = rl.decode(d, context_tokens=context, batch=batch)
    seconds, floor_s = np.asarray(grid.seconds), np.asarray(grid.floor_s)
    for i, b in enumerate(batch[:, 0]):
        for j, c in enumerate(context):
            point = rl.decode(d, context_tokens=int(c), batch=int(b))
            assert seconds[i, j] == point.seconds
            assert floor_s[i, j] == point.floor_s


@pytest.mark.parametrize("model", MODELS)
@given(
    ways=st.sampled_from([{"tp": 2}, {"tp": 4}, {"tp": 8}, {"pp": 2}, {"pp": 4}, {"tp": 2, "pp": 2}, {"tp": 8, "ep": 8},
                          {"dp": 4, "ep": 4}, {"tp": 2, "dp": 2, "ep": 4}, {"cp": 2}]),
    n_seq=st.integers(1, 300),
    n_new=st.sampled_from([1, 2, 7, 128, 2000]),
    n_past=st.sampled_from([0, 1, 500, 30_000]),
)  # fmt: skip
def test_n_chips_are_at_most_n_times_as_fast(
    model: str, ways: dict[str, Any], n_seq: int, n_new: int, n_past: int
) -> None:
    """For one pass of the same step; an estimate never beats its floor, whatever the plan."""
    try:
        many = deployed(model, "h200", **ways)
    except rl.PlanError:
        return
    one = deployed(model, "h200")
    asked: dict[str, Any] = {"prompt_tokens": n_new, "n_past": n_past, "batch": n_seq}
    alone, together = rl.prefill(one, **asked), rl.prefill(many, **asked)
    assert together.seconds * many.n_chips >= alone.seconds * (1 - 1e-9)
    assert together.floor_s * many.n_chips >= alone.floor_s * (1 - 1e-9)
    assert together.seconds >= together.floor_s * (1 - 1e-9)


@given(st.sampled_from([{}, {"tp": 8}, {"pp": 2, "tp": 2}]), st.integers(1, 64), st.floats(1.0, 100.0))
def test_a_machine_k_times_as_fast_takes_a_kth(ways: dict[str, Any], n_seq: int, k: float) -> None:
    d = deployed(**ways)
    chip = d.hardware
    link = chip.links.scale_up
    assert link is not None
    assert link.bytes_per_s is not None
    faster = chip.model_copy(update={
        "compute": chip.compute.model_copy(update={"matrix": {
            name: peak.model_copy(update={"peak_flops_per_s": peak.peak_flops_per_s * k})
            for name, peak in chip.compute.matrix.items()
        }}),
        "memory": chip.memory.model_copy(update={"bytes_per_s": chip.memory.bytes_per_s * k}),
        "links": chip.links.model_copy(update={"scale_up": link.model_copy(update={
            "bytes_per_s": link.bytes_per_s * k, "declared_latency_s": link.latency_s / k})}),
    })  # fmt: skip
    before = rl.decode(d, context_tokens=1000, batch=n_seq)
    after = rl.decode(rl.Deployment(model=d.model, hardware=faster, plan=d.plan), context_tokens=1000, batch=n_seq)
    assert after.seconds * k == pytest.approx(before.seconds, rel=1e-9)
    assert after.floor_s * k == pytest.approx(before.floor_s, rel=1e-9)


def test_a_ledger_of_several_contexts_is_clocked_at_each() -> None:
    """`clock` knows only n_seq and n_tokens of a ledger; what varies besides still makes a grid."""
    chip, model = rl.hardware("h100"), rl.model("llama-3.1-8b")
    contexts = np.array([100.0, 4000.0])
    grid = rl.clock(rl.count(model, rl.Seqs(n_seq=1, n_new=1, n_past=contexts)), chip)
    points = [rl.clock(rl.count(model, rl.Seqs(n_seq=1, n_new=1, n_past=c)), chip).seconds for c in contexts]
    assert list(np.asarray(grid.seconds)) == points
