"""Each way to make a request fit is applied as its phrase says, and fits; the least of each does."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import chips
from zoo import of_layers, zoo_models

import roofline as rl
from roofline.answers.fitting import narrower, ways_to_fit
from roofline.answers.memory import Memory
from roofline.dtypes import format_named
from roofline.specs.catalog import engine, hardware_ids
from roofline.specs.offload import Offload

FEW = settings(max_examples=settings().max_examples // 3)
H100 = rl.hardware("h100-sxm-80gb")
ENGINES = ("ideal", "vllm", "sglang", "trtllm", "llama.cpp", "mlx")
ENCODER = of_layers(
    {"mixer": {"kind": "attention", "n_heads": 2, "n_kv_heads": 2, "d_head": 8, "causal": False},
     "ffn": {"kind": "dense", "d_ff": 32}},
    repeat=4, head=None,
)  # fmt: skip


def deployed(
    model: str | rl.Model = "llama-3.1-70b", chip: str = "h100-sxm-80gb", *, held: Any = "ideal", **ways: Any
) -> rl.Deployment:
    model = rl.model(model) if isinstance(model, str) else model
    return rl.Deployment(model=model, hardware=rl.hardware(chip), engine=held, plan=rl.Plan(**ways))


def changed(d: rl.Deployment, **fields: Any) -> rl.Deployment:
    now: dict[str, Any] = {
        "model": d.model, "hardware": d.hardware, "plan": d.plan, "precision": d.precision, "engine": d.engine,
        "offload": d.offload,
    }  # fmt: skip
    return rl.Deployment(**now | fields)


def applied(phrase: str, d: rl.Deployment, context: int, batch: int) -> tuple[rl.Deployment, int, int]:
    """What a phrase says, done: a deployment, a context and a batch."""
    n = [int(x.replace(",", "")) for x in re.findall(r"\d[\d,]*", phrase)]
    formats = {"weights": d.numerics.weights.name, "kv": d.numerics.kv.name, "activations": d.precision.activations}
    if re.fullmatch(r"batch [\d,]+ at this context", phrase):
        return d, context, n[0]
    if re.fullmatch(r"at most [\d,]+ tokens each at this batch", phrase):
        return d, n[0], batch
    if found := re.fullmatch(r"(?:16|8|4)-bit weights \((.+)\)", phrase):
        return (
            changed(d, precision=rl.Precision(**formats | {"weights": found[1], "head": d.precision.head})),
            context,
            batch,
        )
    if phrase == "8-bit KV cache":
        narrow = "fp8" if d.hardware.has("fp8") else "q8_0"
        return changed(d, precision=rl.Precision(**formats | {"kv": narrow, "head": d.precision.head})), context, batch
    if re.fullmatch(r"tp \d+ \(\d+ chips\)", phrase):
        wider = changed(d, plan=d.plan.model_copy(update={"tp": n[0]}))
        assert wider.n_chips == n[1]
        return wider, context, batch
    if phrase == "--memory-fraction 0.95":
        return changed(d, engine=d.engine.varied(memory_fraction=0.95)), context, batch
    assert re.fullmatch(r"\d+ % of the weights in host memory", phrase), f"a way that no test knows: {phrase}"
    return changed(d, offload=Offload(fraction=n[0] / 100)), context, batch


def holding(context: int, batch: int, **more: Any) -> Callable[[rl.Deployment], Memory]:
    return lambda d: rl.memory(d, context_tokens=context, batch=batch, **more)


def all_fit(d: rl.Deployment, context: int, batch: int, **more: Any) -> tuple[str, ...]:
    """The ways, each tried."""
    ways = ways_to_fit(d, holding(context, batch, **more))
    if holding(context, batch, **more)(d).fits:
        assert ways == ()
    for way in ways:
        other, tokens, n_seq = applied(way, d, context, batch)
        if more.get("shared_tokens", 0) <= tokens:
            assert rl.memory(other, context_tokens=tokens, batch=n_seq, **more).fits, way
    return ways


# Every phrase is true


@pytest.mark.parametrize(
    ("model", "chip", "ways", "held"),
    [
        ("llama-3.1-70b", "h100-sxm-80gb", {}, "ideal"),
        ("llama-3.1-70b", "h100-sxm-80gb", {}, "vllm"),
        ("llama-3.1-70b", "m5-max-40c", {}, "mlx"),
        ("llama-3.1-70b", "m5-max-40c", {}, "llama.cpp"),
        ("qwen3-30b-a3b", "rtx-4090", {"tp": 2}, "sglang"),
        ("gemma-3-27b", "t4", {"pp": 2}, "vllm"),
        ("gemma-3-27b", "rtx-4090", {}, "llama.cpp"),
        ("deepseek-v3", "h200-sxm-141gb", {"tp": 2, "dp": 2}, "sglang"),
        ("gpt-oss-120b", "h100-sxm-80gb", {}, "trtllm"),
        ("qwen3-next-80b-a3b", "mi300x", {}, "vllm"),
    ],
)
@pytest.mark.parametrize(("context", "batch", "shared"), [(8192, 16, 0), (100_000, 64, 50_000)])
def test_each_way_fits_when_it_is_taken(
    model: str, chip: str, ways: dict[str, Any], held: str, context: int, batch: int, shared: int
) -> None:
    all_fit(deployed(model, chip, held=held, **ways), context, batch, shared_tokens=shared)


@FEW
@given(
    zoo_models(bodies=("decoder", "encoder")),
    chips(),
    st.sampled_from(ENGINES),
    st.integers(1, 10_000),
    st.integers(1, 10**9),
)
def test_so_it_does_for_any_model_and_chip(
    model: rl.Model, chip: rl.Hardware, held: str, context: int, batch: int
) -> None:
    d = rl.Deployment(model=model, hardware=chip, engine=held)
    all_fit(d, context, batch)


def test_one_more_does_not() -> None:
    d = deployed("llama-3.1-8b", held="vllm")
    ways = all_fit(d, 8192, 200)
    for way in ways[:2]:
        _, context, batch = applied(way, d, 8192, 200)
        more = (8192, batch + 1) if way.startswith("batch") else (context + 1, 200)
        assert not rl.memory(d, context_tokens=more[0], batch=more[1]).fits, way
    assert [way.split()[0] for way in ways[:2]] == ["batch", "at"]


@pytest.mark.parametrize("held", ["ideal", "vllm", "sglang", "trtllm", "llama.cpp"])
@pytest.mark.parametrize("ways", [{}, {"pp": 2}])
def test_the_fewest_weights_that_must_leave_are_said_for_every_engine(held: str, ways: dict[str, Any]) -> None:
    """Found by trying: TensorRT-LLM takes nine tenths of what is free, so a byte that leaves makes room for less than one,
    and no share was said. Where all of them away are enough, so are some, and a hundredth less is not."""
    d = deployed("llama-3.1-70b", "rtx-pro-6000-bw", held=held, **ways)
    holds = holding(4096, 8)
    if holds(d).fits:
        d = deployed("llama-3.1-70b", "rtx-5090", held=held, **ways)
    (way,) = (w for w in all_fit(d, 4096, 8) if "host memory" in w)
    share = int(way.split()[0])
    assert 0 < share < 100
    assert not holds(changed(d, offload=Offload(fraction=(share - 1) / 100))).fits


def test_of_wider_plans_the_narrowest_that_fits() -> None:
    """Llama-3.1-70B in bf16 with 64 contexts of 8192: 141 GB, and 320 KiB a token are 172 GB; two chips of 85.5 GB are few,
    four hold 78 each."""
    (wider,) = (w for w in all_fit(deployed(), 8192, 64) if w.startswith("tp "))
    assert wider == "tp 4 (4 chips)"
    assert not holding(8192, 64)(deployed(tp=2)).fits


def test_what_shares_its_memory_with_the_cpu_offloads_nothing() -> None:
    ways = all_fit(deployed("llama-3.1-70b", "m5-max-40c"), 8192, 16)
    assert ways
    assert not [w for w in ways if "host" in w]


def test_what_is_elsewhere_already_is_not_moved_again() -> None:
    d = changed(deployed(), offload=Offload(fraction=0.2))
    assert not [w for w in all_fit(d, 8192, 16) if "host" in w]


def test_what_fits_needs_no_way_and_what_nothing_helps_has_none() -> None:
    assert all_fit(deployed("llama-3.1-8b"), 8192, 8) == ()
    tiny = rl.hardware("t4").model_copy(
        update={"links": rl.hardware("t4").links.model_copy(update={"scale_up": None, "host": None})}
    )
    d = rl.Deployment(model=rl.model("deepseek-v3"), hardware=tiny)
    assert [w for w in ways_to_fit(d, holding(8192, 1)) if "chips" not in w] == []


def test_an_encoder_is_not_told_to_keep_less_of_a_cache() -> None:
    """It keeps none: only its weights may be narrower, elsewhere or spread."""
    small = H100.model_copy(update={"memory": H100.memory.model_copy(update={"capacity_bytes": 12_000.0})})
    d = rl.Deployment(model=ENCODER, hardware=small)
    ways = all_fit(d, 300, 20)
    assert ways
    assert not [w for w in ways if "KV" in w or "tokens each" in w or w.startswith("batch")]


def test_a_fuller_memory_is_offered_where_an_engine_leaves_some_and_that_is_enough() -> None:
    """vLLM takes 92 % of 80 GB; a cache that needs 1 % more fits in 95 %."""
    d = deployed("llama-3.1-8b", held="vllm")
    most = int(rl.memory(d, context_tokens=8192).max_batch)
    assert "--memory-fraction 0.95" in all_fit(d, 8192, most + 1)
    assert "--memory-fraction 0.95" not in all_fit(d, 8192, 10 * most)
    assert not [
        w for w in all_fit(deployed("llama-3.1-8b"), 8192, 1000) if "fraction" in w
    ]  # the machine itself has all


# Narrower formats


@pytest.mark.parametrize("chip", list(hardware_ids())[::9])
@pytest.mark.parametrize("name", ["llama-3.1-8b", "gpt-oss-20b", "deepseek-v3", "gemma-4-31b-nvfp4"])
def test_narrower_formats_are_narrower_and_the_other_one_stays(name: str, chip: str) -> None:
    d = rl.Deployment(model=rl.model(name), hardware=rl.hardware(chip))
    before = {"weights": d.numerics.weights.bits, "kv": d.numerics.kv.bits}
    for label, other in narrower(d):
        after = {"weights": other.numerics.weights.bits, "kv": other.numerics.kv.bits}
        turned, stays = ("kv", "weights") if "KV" in label else ("weights", "kv")
        assert after[turned] < 0.9 * before[turned], label
        assert after[stays] == before[stays], label
        assert (other.model, other.hardware, other.plan) == (d.model, d.hardware, d.plan)
        if found := re.search(r"\((.+)\)", label):
            assert other.numerics.weights == format_named(found[1])
            assert round(format_named(found[1]).bits) in (
                int(label.split("-")[0]),
                int(label.split("-")[0]) + 1,
            )  # scales


def test_a_checkpoint_in_four_bits_has_no_narrower_weights() -> None:
    labels = [
        label for label, _ in narrower(rl.Deployment(model=rl.model("llama-3.1-8b"), hardware=H100, weights="awq"))
    ]
    assert labels == ["8-bit KV cache"]
    labels = [
        label
        for label, _ in narrower(rl.Deployment(model=rl.model("llama-3.1-8b"), hardware=H100, weights="fp8", kv="fp8"))
    ]
    assert labels == ["4-bit weights (awq)"]


def test_an_engine_with_a_larger_share_already_is_not_offered_a_smaller() -> None:
    full = engine("vllm").varied(memory_fraction=0.97)
    assert not [w for w in all_fit(deployed("llama-3.1-8b", held=full), 8192, 1000) if "fraction" in w]


@pytest.mark.parametrize(
    ("name", "chip", "formats"),
    [("llama.cpp", "m5-max", ("q8_0", "q4_k_m")), ("llama.cpp", "h100", ("q8_0", "q4_k_m")),
     ("mlx", "m5-max", ("mlx-8bit", "mlx-4bit")), ("vllm", "h100", ("fp8", "awq")), ("vllm", "a100", ("int8", "awq"))],
)  # fmt: skip
def test_narrower_weights_are_in_formats_the_engine_reads(name: str, chip: str, formats: tuple[str, str]) -> None:
    d = rl.Deployment(model=rl.model("llama-3.1-8b"), hardware=rl.hardware(chip), engine=name)
    said = [label for label, _ in narrower(d) if "weights" in label]
    assert said == [f"{bits}-bit weights ({one})" for bits, one in zip((8, 4), formats, strict=True)]
