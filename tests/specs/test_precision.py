"""The one table of (format, chip) → (storage, compute), and what each word of a `Precision` changes."""

from __future__ import annotations

import pytest
from strategies import as_chip, as_model

import roofline as rl
from roofline.dtypes import FORMATS, format_named
from roofline.specs.precision import Numerics, run_dtype

LLAMA = rl.model("llama-3.1-8b")  # bf16
HEAD_ELEMENTS = 128_256 * 4096


def numerics(**words: str) -> Numerics:
    return rl.Precision(**words).of(LLAMA)


def head_bytes(**words: str) -> float:
    """What a pass reads for the head under this precision."""
    ledger = rl.count(LLAMA, rl.Seqs(n_seq=1, n_new=1), precision=rl.Precision(**words))
    (head,) = (op for op in ledger.ops if op.kind == "head")
    return float(head.weight_bytes)


def chip(*matrix: str, vector: bool = True) -> rl.Hardware:
    rates = {dtype: {"peak": 1e12} for dtype in matrix}
    return as_chip({"matrix": rates, "vector": {"fp32": 1e12} if vector else {}, "bandwidth": 1e12, "capacity": 1e9})


ALL = chip("bf16", "fp16", "fp8", "int8", "fp4", "tf32")


@pytest.mark.parametrize(
    ("weights", "compute"),
    [
        ("fp32", "fp32"),
        ("fp16", "fp16"),
        ("bf16", "bf16"),
        ("fp8", "fp8"),
        ("fp8-block", "fp8"),
        ("nvfp4", "fp4"),
        ("w8a8", "int8"),
        *((name, "bf16") for name in ("int8", "int4", "awq", "gptq", "mxfp4", "q4_0", "q4_k_m", "q8_0", "mlx-4bit")),
    ],
)
def test_a_format_computes_in_one_dtype_where_the_chip_has_it(weights: str, compute: str) -> None:
    assert run_dtype(numerics(weights=weights).compute("q"), ALL) == compute


@pytest.mark.parametrize(
    ("wanted", "units", "used"),
    [
        ("fp8", ("bf16", "fp16"), "bf16"),  # 16-bit compute on 8-bit storage
        ("fp4", ("bf16", "fp8"), "bf16"),
        ("int8", ("fp16",), "fp16"),
        ("bf16", ("fp16",), "fp16"),
        ("fp16", ("bf16",), "bf16"),
        ("tf32", ("bf16",), "fp32"),
        ("fp32", ("bf16",), "fp32"),
    ],
)
def test_a_chip_without_the_units_takes_the_next_best(wanted: str, units: tuple[str, ...], used: str) -> None:
    assert run_dtype(wanted, chip(*units)) == used


def test_nothing_falls_to_narrower_arithmetic_than_was_asked_for() -> None:
    with pytest.raises(rl.UnknownName, match="has no units that run fp32; it has bf16"):
        run_dtype("fp32", chip("bf16", vector=False))


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_a_head_format_that_was_asked_for_is_what_the_head_takes(name: str) -> None:
    """Recipes leave heads alone; asking for one by name is not leaving it alone."""
    assert head_bytes(weights="bf16", head=name) == HEAD_ELEMENTS * format_named(name).bits / 8


@pytest.mark.parametrize("weights", ["bf16", "awq", "fp8", "q4_k_m"])
def test_a_head_left_to_the_recipe_takes_what_the_recipe_says(weights: str) -> None:
    bits = {"bf16": 16, "awq": 16, "fp8": 16, "q4_k_m": 6.5625}[weights]
    assert head_bytes(weights=weights) == HEAD_ELEMENTS * bits / 8


def test_a_head_of_its_own_format_leaves_the_layers_alone() -> None:
    plain, eight = numerics(weights="bf16"), numerics(weights="bf16", head="q8_0")
    assert plain.bytes_per_element("q") == eight.bytes_per_element("q") == 2
    assert eight.bytes_per_element("head") == 8.5 / 8


def test_the_cache_is_in_the_activations_dtype_unless_said() -> None:
    assert numerics(weights="awq").kv.name == "bf16"
    assert numerics(weights="fp16").kv.name == "fp16"
    assert numerics(weights="fp8", kv="fp8").kv.name == "fp8"


def test_insisting_on_activations_needs_narrow_weights_and_units() -> None:
    assert numerics(weights="int8", activations="int8").compute("q") == "int8"
    h100, t4 = rl.hardware("h100-sxm-80gb"), rl.hardware("t4")
    with pytest.raises(rl.SpecError, match="fp8 needs weights of 8 bits or fewer, got bf16"):
        rl.Deployment(model=LLAMA, hardware=h100, weights="bf16", activations="fp8")
    with pytest.raises(rl.SpecError, match="t4 has no fp8 units; it has "):
        rl.Deployment(model=LLAMA, hardware=t4, weights="fp8", activations="fp8")
    with pytest.raises(rl.UnknownName, match='no compute dtype named "fp7"'):
        rl.Deployment(model=LLAMA, hardware=h100, activations="fp7")


def test_shorthand_overrides_the_precision_it_is_given_beside() -> None:
    base = rl.Precision(weights="fp8", kv="fp8")
    d = rl.Deployment(model=LLAMA, hardware=rl.hardware("h100"), precision=base, kv="bf16")
    assert (d.precision.weights, d.precision.kv) == ("fp8", "bf16")


@pytest.mark.parametrize("weights", ["int4", "awq", "q4_k_m", "fp8"])
def test_weight_only_formats_of_an_fp32_checkpoint_compute_and_keep_tables_in_16_bit(weights: str) -> None:
    """The table says "the model's 16-bit dtype"; an fp32 checkpoint has none, and nobody ships W4A32."""
    spec = {
        "id": "x",
        "name": "X",
        "dtype": "fp32",
        "d_model": 16,
        "vocab_size": 10,
        "max_context_tokens": 10,
        "layers": ({"layers": ({"mixer": {"n_heads": 1, "n_kv_heads": 1, "d_head": 16}, "ffn": {"d_ff": 4}},)},),
    }
    found = rl.Precision(weights=weights).of(as_model(spec))
    assert found.activation_bytes == 2
    assert found.bytes_per_element("positions") == 2
    assert run_dtype(found.compute("o"), chip("bf16", "fp16")) in ("bf16", "fp16")


def test_units_that_cannot_multiply_these_weights_are_refused() -> None:
    with pytest.raises(rl.SpecError, match="fp4 units do not multiply fp8 weights"):
        rl.Precision(weights="fp8", activations="fp4")


def test_sixteen_bit_activations_hold_for_attention_and_the_cache_too() -> None:
    asked = rl.Precision(activations="fp16").of(rl.model("llama-3.1-8b"))
    assert (asked.dense, asked.kv.name, asked.compute("q")) == ("fp16", "fp16", "fp16")


def test_what_the_activations_are_computed_in_does_not_change_what_is_stored() -> None:
    model = rl.model("llama-3.1-8b")
    held = [
        rl.count(model, rl.Seqs(n_seq=1, n_new=1), precision=rl.Precision(weights="awq", activations=a)).resident_bytes
        for a in ("auto", "fp16", "fp32")
    ]
    assert len(set(held)) == 1


def test_narrow_units_do_not_multiply_a_wide_head() -> None:
    asked = rl.Precision(weights="mlx-4bit", head="bf16", activations="fp8").of(rl.model("llama-3.1-8b"))
    assert (asked.compute("q"), asked.compute("head")) == ("fp8", "bf16")
