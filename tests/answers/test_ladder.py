"""The ladder by hand, rung by rung; and that every rung is the decode pass of a deployment with that cache."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import chips, models
from zoo import of_layers, zoo_models

import roofline as rl
from roofline.answers import ladder as module
from roofline.answers.ladder import CacheLadder, cache_ladder
from roofline.specs.catalog import model_ids

MIB = 2.0**20
H100, M5 = rl.hardware("h100-sxm-80gb"), rl.hardware("m5-max-40c")  # 3.35 TB/s, 614 GB/s
LLAMA = rl.model("llama-3.1-8b")
BOTH = [rl.Deployment(model=LLAMA, hardware=chip) for chip in (H100, M5)]


def on_h100(name: str, **given: Any) -> rl.Deployment:
    return rl.Deployment(model=rl.model(name), hardware=H100, **given)


def of(name: str, **given: Any) -> CacheLadder:
    return cache_ladder(on_h100(name), **given)


# By hand


@pytest.mark.parametrize("name", ["llama-3-8b", "llama-3.1-8b"])
def test_keys_of_a_layer_go_from_32_mib_to_2(name: str) -> None:
    """4096 tokens · 32 heads · 128 · 2 B; 8 heads; 1 B; ½ B; and (16 + 32·4)/8 = 18 B for 32 elements, scales included."""
    rungs = of(name).rungs
    assert [rung.k_bytes_per_layer / MIB for rung in rungs] == [32.0, 8.0, 4.0, 2.0, 2.25]
    assert [rung.v_bytes_per_layer / MIB for rung in rungs] == [32.0, 8.0, 4.0, 2.0, 2.25]
    assert [rung.heads for rung in rungs] == ["MHA", "GQA-8", "GQA-8", "GQA-8", "GQA-8"]
    assert [rung.kv for rung in rungs] == ["bf16", "bf16", "fp8", "int4", "q4_0"]
    assert rungs[0].name == "as if MHA"
    assert rungs[3].name == "GQA-8, int4 cache before scales"


def test_a_token_s_cache_and_a_batch_s_are_those_of_all_layers() -> None:
    """2 (K, V) · 32 heads · 128 · 2 B · 32 layers = 512 KiB a token; 8 sequences of 4096 of them 16 GiB."""
    rungs = cache_ladder(BOTH, batch=8).rungs
    assert [rung.kv_bytes_per_token / 1024 for rung in rungs] == [512, 128, 64, 32, 36]
    assert [rung.kv_bytes / 2**30 for rung in rungs] == [16.0, 4.0, 2.0, 1.0, 1.125]
    assert [rung.shrink for rung in rungs] == pytest.approx([1, 4, 8, 16, 512 / 36])


@pytest.mark.parametrize(("i", "bytes_per_s"), [(0, 3.35e12), (1, 614e9)])
def test_tpot_is_weights_and_cache_over_the_bandwidth(i: int, bytes_per_s: float) -> None:
    """The matrices a token passes are 7,504,924,672 parameters without the table, and one row of 4096 of it, in bf16; as if
    MHA k and v are 4096 · 3072 wider in each of 32 layers. The cache: 4096 tokens read, one written."""
    own = (7_504_924_672 + 4096) * 2
    wider = own + 32 * 2 * 4096 * 3072 * 2
    tokens = 4097
    expected = [wider + tokens * 524_288] + [own + tokens * 1024 * k for k in (128, 64, 32, 36)]
    found: list[Any] = [rung.chips[i] for rung in cache_ladder(BOTH)]
    assert [chip.tpot_floor_s for chip in found] == pytest.approx([b / bytes_per_s for b in expected], rel=1e-12)
    assert [chip.weight_bytes for chip in found] == [wider, own, own, own, own]
    assert [chip.kv_read_bytes for chip in found] == [4096 * 1024 * k for k in (512, 128, 64, 32, 36)]
    assert all(chip.tpot_floor_s <= chip.tpot_s < 1.005 * chip.tpot_floor_s for chip in found)  # activations: a few MB
    assert [chip.speedup for chip in found] == pytest.approx([found[0].tpot_s / chip.tpot_s for chip in found])
    assert {chip.bound for chip in found} == {"memory"}


def test_a_model_that_is_mha_already_starts_as_it_is() -> None:
    """Llama-2-7B: 32 MiB of keys a layer, its own; so four rungs."""
    rungs = of("llama-2-7b").rungs
    assert [rung.name for rung in rungs] == [
        "MHA",
        "MHA, fp8 cache",
        "MHA, int4 cache before scales",
        "MHA, q4_0 cache",
    ]
    assert [rung.k_bytes_per_layer / MIB for rung in rungs] == [32, 16, 8, 9]
    assert rungs[0].chips[0].tpot_s == rl.decode(on_h100("llama-2-7b"), context_tokens=4096).seconds


def test_one_head_for_all_is_mqa() -> None:
    """Falcon-7B: 71 heads of 64 share one: 4096 · 64 · 2 B = ½ MiB of keys."""
    first, second, *_ = of("falcon-7b").rungs
    assert (first.k_bytes_per_layer / MIB, second.k_bytes_per_layer / MIB) == (35.5, 0.5)
    assert (second.heads, second.shrink) == ("MQA", 71.0)


def test_a_latent_starts_from_the_keys_and_values_it_stands_for() -> None:
    """DeepSeek-V3: 128 heads · (128 + 64) · 2 B · 4096 = 192 MiB of keys, · 128 the values; the latent 576 · 2 B · 4096."""
    rungs = of("deepseek-v3").rungs
    assert [rung.heads for rung in rungs] == ["MHA", "MLA", "MLA", "MLA", "MLA"]
    assert [rung.k_bytes_per_layer / MIB for rung in rungs] == [192.0, 4.5, 2.25, 1.125, 1.265625]
    assert [rung.v_bytes_per_layer / MIB for rung in rungs] == [128.0, 0.0, 0.0, 0.0, 0.0]
    assert rungs[1].kv_bytes_per_token == 61 * 576 * 2
    assert rungs[1].shrink == pytest.approx(128 * (192 + 128) / 576)


def test_a_latent_as_if_mha_has_full_matrices_in_place_of_low_ranks() -> None:
    """DeepSeek-V2-Lite, 27 layers, 16 heads, D = 2048: k (2048, 16·192) and v (2048, 16·128), 10,485,760 weights, in place
    of kv_a (2048, 576), k_b and v_b (512, 16·128) each, 3,276,800; and no norm of the latent, 512."""
    first, second, *_ = (rung.chips[0] for rung in of("deepseek-v2-lite"))
    assert first.weight_bytes - second.weight_bytes == pytest.approx(27 * 2 * (10_485_760 - 3_276_800 - 512))  # type: ignore[operator]


def test_of_windows_the_layer_that_reads_most_counts() -> None:
    """Gemma-3-1B, 4 heads, one cached: its global layers read 4096 · 256 · 2 B; its local ones 511 tokens."""
    first, second, *_ = of("gemma-3-1b").rungs
    assert (first.k_bytes_per_layer / MIB, second.k_bytes_per_layer / MIB) == (8.0, 2.0)
    assert second.kv_bytes_per_token == 26 * 2 * 256 * 2


def test_unlike_layers_are_named_and_a_hybrid_keeps_its_state() -> None:
    """Qwen3-Next: 12 of 48 layers attend, 2 of 16 heads of 256 cached; the others' state does not change."""
    assert of("gemma-4-31b-nvfp4").rungs[1].heads == "GQA-16 and GQA-4"
    found = of("qwen3-next-80b-a3b", batch=3)
    assert [rung.k_bytes_per_layer / MIB for rung in found.rungs[:2]] == [32.0, 4.0]
    assert found.rungs[1].kv_bytes == 3 * 4096 * 12 * 2 * 2 * 256 * 2
    assert found.state_bytes == rl.state_bytes(rl.model("qwen3-next-80b-a3b"), batch=3)


def test_a_pair_and_cross_attention_are_widened_too() -> None:
    """Llama-3.2-11B vision: 40 layers, 8 of them cross-attend; 8 KV heads of 128 everywhere, 32 as if MHA."""
    name = "llama-3.2-11b-vision"
    first, second, *_ = of(name, context_tokens=1000, memory_tokens=1601).rungs
    assert second.kv_bytes == (32 * 1000 + 8 * 1601) * 2 * 8 * 128 * 2
    assert first.kv_bytes == 4 * second.kv_bytes
    wide = {"n_heads": 32, "n_kv_heads": 8, "d_head": 128}
    beside = {"n_heads": 8, "d_head": 8, "n_groups": 1, "d_state": 16, "d_conv": 4}
    mixed = of_layers({"mixer": {"kind": "pair", "attention": wide, "recurrent": beside}, "ffn": {"d_ff": 8}})
    rungs = cache_ladder(rl.Deployment(model=mixed, hardware=H100)).rungs
    assert [rung.k_bytes_per_layer / MIB for rung in rungs[:2]] == [32.0, 8.0]


# Laws


@given(models(), chips(), st.integers(1, 30_000), st.integers(1, 8))
def test_no_step_down_costs_anything(model: rl.Model, chip: rl.Hardware, context: int, batch: int) -> None:
    rungs = cache_ladder(rl.Deployment(model=model, hardware=chip), context_tokens=context, batch=batch).rungs
    *above, int4, q4_0 = rungs
    for one, next_ in zip(above, [*above[1:], q4_0], strict=True):
        assert next_.kv_bytes <= one.kv_bytes
        assert next_.k_bytes_per_layer <= one.k_bytes_per_layer
        assert next_.shrink >= one.shrink
        assert next_.chips[0].tpot_floor_s <= one.chips[0].tpot_floor_s * (1 + 1e-12)  # type: ignore[operator]
        assert next_.chips[0].tpot_s <= one.chips[0].tpot_s * (1 + 1e-12)  # type: ignore[operator]
    assert q4_0.kv_bytes == pytest.approx(int4.kv_bytes * 4.5 / 4)


@given(models(), st.integers(0, 30_000), st.integers(1, 8))
def test_layers_of_one_kind_read_what_the_decode_pass_reads(model: rl.Model, context: int, batch: int) -> None:
    if len(model.layer_kinds()) > 1:
        model = model.model_copy(update={"layers": model.layers[:1]})
        model = model.model_copy(
            update={"layers": (model.layers[0].model_copy(update={"layers": model.layers[0].layers[:1]}),)}
        )
    for rung in cache_ladder(rl.Deployment(model=model, hardware=H100), context_tokens=context, batch=batch):
        read = (rung.k_bytes_per_layer + rung.v_bytes_per_layer) * model.n_layers * batch
        assert rung.chips[0].kv_read_bytes == pytest.approx(read)


@given(zoo_models(), st.integers(0, 5000), st.integers(1, 8))
def test_a_model_of_any_kind_has_a_ladder_or_is_unsupported(model: rl.Model, context: int, batch: int) -> None:
    outputs = 50 if model.remembers else None
    try:
        found = cache_ladder(
            rl.Deployment(model=model, hardware=H100), context_tokens=context, batch=batch, memory_tokens=outputs
        )
    except rl.Unsupported:
        return
    assert [rung.kv for rung in found.rungs[-3:]] == ["fp8", "int4", "q4_0"]
    for rung in found.rungs[-4:]:
        kept = rl.kv_bytes(model, context_tokens=context, batch=batch, kv=rung.kv, memory_tokens=outputs)
        assert rung.kv_bytes == kept
        assert rung.chips[0].tpot_s is not None, rung.chips[0].note
    assert found.rungs[0].chips[0].tpot_s is not None, found.rungs[0].chips[0].note


@pytest.mark.parametrize("name", [name for name in model_ids() if name != "deepseek-v4-flash"])
def test_every_rung_of_every_model_is_a_decode_pass(name: str) -> None:
    subject = rl.model(name)
    outputs = 100 if subject.remembers else None
    found = of(name, context_tokens=512, memory_tokens=outputs)
    own = found.rungs[-4]
    assert len(found) == 5 - (own is found.rungs[0])
    assert own.kv_bytes == rl.kv_bytes(subject, context_tokens=512, kv=own.kv, memory_tokens=outputs)
    assert own.chips[0].tpot_s == rl.decode(on_h100(name, kv=own.kv), context_tokens=512, memory_tokens=outputs).seconds
    assert all(rung.chips[0].tpot_s for rung in found)


def test_a_grid_equals_its_points_and_a_frame_has_a_row_each() -> None:
    grid = cache_ladder(BOTH, context_tokens=[1, 4096], batch=np.array([[1], [8]]))
    point = cache_ladder(BOTH, context_tokens=4096, batch=8)
    for many, one in zip(grid, point, strict=True):
        assert np.shape(many.kv_bytes) == (2, 2)
        assert np.asarray(many.kv_bytes)[1, 1] == one.kv_bytes
        assert np.asarray(many.k_bytes_per_layer)[1] == one.k_bytes_per_layer
        assert np.asarray(many.chips[1].tpot_s)[1, 1] == one.chips[1].tpot_s
    frame = point.to_frame()
    assert list(frame["hardware"]) == ["h100-sxm-80gb", "m5-max-40c"] * 5
    assert list(frame["k_bytes_per_layer"][::2] / MIB) == [32.0, 8.0, 4.0, 2.0, 2.25]
    assert len(grid.to_frame()) == 5 * 2 * 4


def test_the_dict_is_one_json_can_hold() -> None:
    said = json.loads(json.dumps(cache_ladder(BOTH).to_dict()))
    assert (said["model"], said["context_tokens"], said["batch"]) == ("llama-3.1-8b", 4096, 1)
    assert [rung["rung"] for rung in said["rungs"]][:2] == ["as if MHA", "GQA-8"]
    assert said["rungs"][0]["chips"][1]["hardware"] == "m5-max-40c"


# Deployments


def test_own_cache_formats_are_set_aside_and_weights_are_kept() -> None:
    base = cache_ladder(replace(BOTH[0], precision=rl.Precision(weights="awq", kv="q8_0")))
    assert [rung.kv for rung in base] == ["bf16", "bf16", "fp8", "int4", "q4_0"]
    assert {rung.chips[0].weights for rung in base} == {"awq"}
    assert (
        base.rungs[2].chips[0].tpot_s
        == rl.decode(on_h100("llama-3.1-8b", weights="awq", kv="fp8"), context_tokens=4096).seconds
    )


def test_several_chips_share_the_work_and_the_keys_stay_whole() -> None:
    d = rl.Deployment(model=LLAMA, hardware=H100, plan=rl.Plan(tp=2))
    own = cache_ladder(d).rungs[1]
    assert (own.k_bytes_per_layer / MIB, own.chips[0].n_chips) == (8.0, 2)
    assert own.chips[0].kv_read_bytes == 4096 * 128 * 1024 / 2


def test_not_fitting_is_an_answer() -> None:
    """64 sequences of 16,384 keep 512 GiB as if MHA, 128, 64, 32 and 36: beside 14.96 of weights, 79.65 have room for 64."""
    fits = [rung.chips[0].fits for rung in cache_ladder(BOTH, context_tokens=16_384, batch=64)]
    assert fits == [False, False, True, True, True]


def test_a_chip_without_fp8_units_says_what_it_does() -> None:
    fp8 = cache_ladder(BOTH).rungs[2]
    assert [chip.note for chip in fp8.chips] == ["", "m5-max-40c has no fp8 units: widens the fp8 cache to bf16"]


def test_what_a_chip_does_not_run_is_none_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    decode = rl.decode

    def no_fp8_on_apple(d: rl.Deployment, **asked: Any) -> rl.Timing:
        if d.hardware.id == "m5-max-40c" and d.numerics.kv.name == "fp8":
            raise rl.SpecError("m5-max-40c: no fp8 cache")
        return decode(d, **asked)

    monkeypatch.setattr(module, "decode", no_fp8_on_apple)
    found = cache_ladder(BOTH)
    h100, m5 = found.rungs[2].chips
    assert (m5.tpot_s, m5.tpot_floor_s, m5.speedup, m5.fits) == (None, None, None, None)
    assert m5.note == "m5-max-40c: no fp8 cache"
    assert h100.tpot_s is not None
    frame = found.to_frame()
    assert frame["tpot_s"].isna().sum() == 1
    assert json.loads(json.dumps(found.to_dict()))["rungs"][2]["chips"][1]["tpot_s"] is None


def test_where_the_first_rung_does_not_run_nothing_is_faster_than_it(monkeypatch: pytest.MonkeyPatch) -> None:
    decode = rl.decode

    def no_mha(d: rl.Deployment, **asked: Any) -> rl.Timing:
        if d.model != LLAMA:
            raise rl.PlanError("too wide")
        return decode(d, **asked)

    monkeypatch.setattr(module, "decode", no_mha)
    first, second, *_ = cache_ladder(BOTH).rungs
    assert (first.chips[0].tpot_s, first.chips[0].note) == (None, "too wide")
    assert (second.chips[0].speedup, second.shrink) == (None, 4.0)
    assert second.chips[0].tpot_s is not None


# What is refused


MAMBA = {"mixer": {"kind": "mamba", "d_inner": 32, "d_state": 8, "d_conv": 4, "dt_rank": 2}, "ffn": None}
ENCODER = {"mixer": {"n_heads": 2, "n_kv_heads": 1, "d_head": 8, "causal": False}, "ffn": {"d_ff": 8}}


@pytest.mark.parametrize(
    ("model", "told"),
    [
        (
            of_layers(MAMBA),
            "small has no attention: a sequence keeps a state of 1.19 KiB however long",
        ),  # 32·8·4 + 32·3·2
        (of_layers(ENCODER, head=None), "small is an encoder"),
        (rl.model("deepseek-v4-flash"), "key and value at once"),
    ],
)
def test_no_ladder_is_unsupported_with_a_reason(model: rl.Model, told: str) -> None:
    with pytest.raises(rl.Unsupported, match=told):
        cache_ladder(rl.Deployment(model=model, hardware=H100))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([], "expected at least one deployment"),
        (LLAMA, "expected a Deployment"),
        ([BOTH[0], "h100"], "expected a Deployment"),
        ([BOTH[0], on_h100("llama-3-8b")], "of one model, got llama-3.1-8b and llama-3-8b"),
        ([BOTH[0], on_h100("llama-3.1-8b", activations="fp32")], "one dtype of activations, got bf16 and fp32"),
    ],
)
def test_what_is_no_list_of_deployments_of_one_model_is_refused(given: Any, told: str) -> None:
    with pytest.raises(rl.SpecError, match=told):
        cache_ladder(given)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"context_tokens": -1}, "context_tokens: expected a number >= 0"),
        ({"batch": 0}, "batch: expected a number >= 1"),
        ({"context_tokens": [1, 2], "batch": [1, 2, 3]}, "expected shapes that broadcast"),
        ({"memory_tokens": 5}, "has no cross-attention"),
    ],
)
def test_wrong_requests_are_errors_not_empty_rungs(asked: Any, told: str) -> None:
    with pytest.raises(rl.SpecError, match=told):
        cache_ladder(BOTH, **asked)
