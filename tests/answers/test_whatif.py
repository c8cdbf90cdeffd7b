"""A varied record is the one a file with those values would give; a scaled chip is as much faster as it is scaled."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import chips, deployments, models, precisions

import roofline as rl
from roofline.answers.whatif import scaled, vary
from roofline.specs.catalog import hardware_ids, model_ids

H100 = rl.hardware("h100-sxm-80gb")
LLAMA = rl.model("llama-3.1-8b")
D = rl.Deployment(model=LLAMA, hardware=H100)


# No change is no change


@pytest.mark.parametrize("name", hardware_ids())
def test_every_chip_of_the_catalogue_unchanged_is_equal(name: str) -> None:
    assert vary(rl.hardware(name)) == rl.hardware(name)


@pytest.mark.parametrize("name", model_ids())
def test_every_model_of_the_catalogue_unchanged_is_equal(name: str) -> None:
    assert vary(rl.model(name)) == rl.model(name)


@given(deployments(), precisions(), models(), chips())
def test_any_record_unchanged_is_equal(
    deployment: rl.Deployment, precision: rl.Precision, model: rl.Model, chip: rl.Hardware
) -> None:
    for record in (deployment, precision, model, chip, rl.Plan(), rl.IDEAL, rl.Seqs(n_seq=1, n_new=2)):
        assert vary(record) == record


def test_a_chip_of_another_memory_size_keeps_its_mark() -> None:
    mac = rl.hardware("m5-max-40c:64GB")
    assert vary(mac) == mac
    assert vary(mac, kind="gpu").id == "m5-max-40c:64GB"


# A change is what a file with that value would say


def test_a_field_goes_by_the_file_s_word_and_by_the_attribute() -> None:
    by_word = vary(H100, **{"memory.bandwidth": "2 TB/s"})
    assert by_word.hbm_bytes_per_s == 2e12
    assert by_word == vary(H100, **{"memory.bytes_per_s": "2 TB/s"}) == vary(H100, **{"memory.bytes_per_s": 2e12})
    assert by_word.memory.capacity_bytes == H100.memory.capacity_bytes
    assert by_word.compute == H100.compute


@given(chips(), st.integers(1, 10**15))
def test_a_change_taken_back_leaves_nothing(chip: rl.Hardware, rate: int) -> None:
    there = vary(chip, **{"memory.bytes_per_s": rate})
    assert there.hbm_bytes_per_s == rate
    assert vary(there, **{"memory.bytes_per_s": chip.hbm_bytes_per_s}) == chip


@given(chips(), st.floats(0.5, 2.0), st.floats(0.5, 2.0))
def test_two_changes_at_once_are_one_after_the_other(chip: rl.Hardware, a: float, b: float) -> None:
    changes = {"memory.bytes_per_s": chip.hbm_bytes_per_s * a, "memory.capacity_bytes": chip.memory_bytes * b}
    in_turn = chip
    for path, value in changes.items():
        in_turn = vary(in_turn, **{path: value})
    assert vary(chip, **changes) == in_turn


def test_mappings_and_tuples_are_walked_through() -> None:
    assert vary(H100, **{"compute.matrix.bf16": "500 TFLOP/s"}).peak_flops_per_s("bf16") == 500e12
    assert vary(H100, **{"compute.matrix.bf16.peak": "500 TFLOP/s"}).peak_flops_per_s("bf16") == 500e12
    assert vary(H100, **{"compute.matrix.fp4": "4 PFLOP/s"}).has("fp4")
    assert vary(H100, **{"compute.vector.fp32": "1 TFLOP/s"}).peak_flops_per_s("fp32") == 1e12
    assert vary(LLAMA, **{"layers.0.repeat": 16}).n_layers == 16


def test_half_the_kv_heads_are_half_the_key_and_value_matrices() -> None:
    """32 layers lose 4 of 8 heads of 128 in each of k and v: 32 · 2 · 4096 · 4 · 128 parameters, half of the cache."""
    fewer = vary(LLAMA, **{"layers.0.layers.0.mixer.n_kv_heads": 4})
    assert LLAMA.n_params - fewer.n_params == 32 * 2 * 4096 * 4 * 128
    assert 2 * rl.kv_bytes(fewer, context_tokens=1000) == rl.kv_bytes(LLAMA, context_tokens=1000)


def test_what_is_checked_together_may_change_together() -> None:
    mixer = "layers.0.layers.0.mixer."
    wider = vary(LLAMA, **{mixer + "n_heads": 30, mixer + "n_kv_heads": 10})
    assert wider.n_layers == 32
    with pytest.raises(rl.SpecError, match=r"mixer: n_kv_heads: 8 does not divide n_heads=30; use one of 1, 2, 3"):
        vary(LLAMA, **{mixer + "n_heads": 30})


def test_a_deployment_takes_parts_paths_and_shorthand() -> None:
    h200 = rl.hardware("h200-sxm-141gb")
    assert vary(D, hardware=h200).hardware is h200
    assert vary(D, **{"hardware.memory.bandwidth": "1 TB/s"}).hardware.hbm_bytes_per_s == 1e12
    fp8 = vary(D, weights="fp8", **{"precision.kv": "fp8"})
    assert fp8 == rl.Deployment(model=LLAMA, hardware=H100, weights="fp8", kv="fp8")
    assert vary(fp8, weights=None, kv=None) == D  # none is a value: the checkpoint's own


def test_a_list_gives_a_record_for_each_and_two_lists_every_pair() -> None:
    assert [p.tp for p in vary(rl.Plan(), tp=[1, 2, 4])] == [1, 2, 4]
    found = vary(D, weights=["bf16", "fp8"], **{"hardware.memory.bytes_per_s": [1e12, 2e12, 3e12]})
    assert [(d.precision.weights, d.hardware.hbm_bytes_per_s) for d in found] == [
        (w, b) for w in ("bf16", "fp8") for b in (1e12, 2e12, 3e12)
    ]
    assert vary(rl.Plan(), tp=[2]) == (rl.Plan(tp=2),)


def test_a_tuple_is_one_value() -> None:
    assert vary(H100, aliases=("a", "b")).aliases == ("a", "b")


@pytest.mark.parametrize(
    ("record", "changes", "said"),
    [
        (H100, {"bandwidth": "2 TB/s"}, r"vary\(Hardware\): no field .bandwidth.; did you mean memory.bandwidth or"),
        (D, {"bandwidth": "2 TB/s"}, "did you mean hardware.memory.bandwidth"),
        (H100, {"memory.bandwith": "2 TB/s"}, r"vary\(Hardware\).memory: no field .bandwith.; did you mean bandwidth"),
        (H100, {"memory.bandwidth": "2 TB"}, "bandwidth: expected a rate such as .*, which is a size"),
        (H100, {"memory.bandwidth": 2e12}, "without a unit"),
        (H100, {"compute.matrix.bf17": "1 TFLOP/s"}, "did you mean bf16"),
        (H100, {"price.low": "1000 USD/h"}, "price: expected low <= high"),
        (H100, {"links.scale_up.nothing": 1}, "no field"),
        (rl.hardware("rtx-4090"), {"links.scale_up.bandwidth": "1 GB/s"}, "give scale_up as a whole"),
        (LLAMA, {"layers.1.repeat": 2}, "expected the number of an item, 0 to 0"),
        (LLAMA, {"layers.0.repeat": 0}, "repeat: "),
        (D, {"hardwre": H100}, "did you mean hardware"),
        (D, {"hardware": "h100"}, "make one with roofline.hardware"),
        (D, {"weights": "fp8", "precision": rl.Precision()}, "both whole and in part"),
        (rl.Plan(), {"tpx": 2}, "did you mean tp"),
        (rl.Seqs(n_seq=1, n_new=1), {"n_new": -1}, "n_new: expected a number > 0"),
        ("h100", {"memory": 1}, r"vary\(str\): expected a record"),
    ],
)
def test_an_error_says_where_and_what_to_do(record: Any, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(rl.SpecError, match=said):
        vary(record, **changes)


# A scaled chip


@given(deployments(), st.floats(0.01, 100.0), st.integers(1, 5000), st.integers(1, 64))
def test_a_machine_k_times_as_fast_takes_a_kth_of_the_time(d: rl.Deployment, k: float, tokens: int, batch: int) -> None:
    fast = vary(d, hardware=scaled(d.hardware, peak=k, bandwidth=k, link_bandwidth=k, link_latency=1 / k))
    for t, faster in (
        (rl.prefill(d, prompt_tokens=tokens, batch=batch), rl.prefill(fast, prompt_tokens=tokens, batch=batch)),
        (rl.decode(d, context_tokens=tokens, batch=batch), rl.decode(fast, context_tokens=tokens, batch=batch)),
    ):
        assert faster.seconds * k == pytest.approx(t.seconds, rel=1e-12)
        assert faster.floor_s * k == pytest.approx(t.floor_s, rel=1e-12)


@given(chips())
def test_scaling_by_one_changes_nothing(chip: rl.Hardware) -> None:
    assert scaled(chip) == chip


def test_every_ceiling_moves_alone() -> None:
    peak = scaled(H100, peak=2)
    assert peak.peak_flops_per_s("fp8") == 2 * 1978.9e12
    assert peak.peak_flops_per_s("fp32") == 2 * 66.9e12
    assert peak.memory == H100.memory
    assert scaled(H100, capacity=0.5).memory_bytes == 81559 * 2**20 / 2
    assert scaled(H100, bandwidth=2).compute == H100.compute
    links = scaled(H100, link_bandwidth=2, link_latency=3).links
    assert links.scale_up is not None
    assert H100.links.scale_up is not None
    assert links.scale_up.bytes_per_s == 900e9
    assert links.scale_up.latency_s == 3 * H100.links.scale_up.latency_s


def test_bounds_move_with_the_peaks() -> None:
    """The RTX 3090 clocks higher than its rating, and floors divide by that."""
    chip = rl.hardware("rtx-3090")
    assert chip.bound_flops_per_s("fp16") > chip.peak_flops_per_s("fp16")
    assert scaled(chip, peak=0.5).bound_flops_per_s("fp16") == chip.bound_flops_per_s("fp16") / 2


@pytest.mark.parametrize("factor", [0, -1, float("nan"), "2"])
def test_a_factor_is_a_number_above_nothing(factor: Any) -> None:
    with pytest.raises(rl.SpecError, match="bandwidth: expected"):
        scaled(H100, bandwidth=factor)
