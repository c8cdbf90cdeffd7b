"""What each kind of layer leaves in memory, counted by walking layers; and the questions asked of it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import Spec, as_model, chips
from zoo import of_layers, zoo_models, zoo_specs

import roofline as rl

contexts = st.integers(0, 20_000)
memories = st.integers(0, 500)
batches = st.integers(1, 64)
policies = st.sampled_from(["window", "allocated"])
FORMATS = st.sampled_from([("bf16", 2.0), ("fp8", 1.0), ("q8_0", 8.5 / 8), ("q4_0", 4.5 / 8)])
DECODERS = ("decoder", "seeing", "hearing", "translating", "crossing")


def remembered(spec: Spec, memory: int) -> int | None:
    """Memory tokens to ask with: only models that remember a tower may be asked with any."""
    return memory if any(t["feeds"] == "memory" for t in spec.get("towers", ())) else None


def elements_by_the_book(spec: Spec, context: int, memory: int, policy: str) -> int:
    """Elements one sequence keeps, layer by layer."""
    kept = 0
    for group in spec["layers"]:
        for _ in range(group.get("repeat", 1)):
            for layer in group["layers"]:
                cross = layer.get("cross")
                if cross is not None:
                    kept += memory * 2 * cross["n_kv_heads"] * cross["d_head"]
                kept += mixer_elements(layer.get("mixer"), context, policy)
    return kept


def mixer_elements(x: Spec | None, context: int, policy: str) -> int:
    """Elements one sequence keeps in one layer."""
    if x is None:
        return 0
    window = math.inf if policy == "allocated" or x.get("window") is None else x["window"]
    held = int(min(context, window))
    match x["kind"]:
        case "attention":
            if x["values"] == "earlier" or not x["causal"]:
                return 0
            return int(held * x["n_kv_heads"] * (x["d_head"] + (x["d_value"] or x["d_head"])))
        case "latent":
            own = "indexer" in x and not x["indexer"]["shared"]
            return int(context * (x["d_latent"] + x["d_rope"] + (x["indexer"]["d_head"] if own else 0)))
        case "compressed":
            entries = 0 if x["ratio"] is None else len(range(x["ratio"], context + 1, x["ratio"]))
            index = x["indexer"]["d_head"] if "indexer" in x else 0
            return int(held * x["d_head"] + entries * (x["d_head"] + index))
        case "pair":
            return mixer_elements(x["attention"], context, policy)
        case _:
            return 0


@given(zoo_specs(), contexts, memories, batches, policies, FORMATS)
def test_the_cache_is_the_elements_of_its_layers(
    spec: Spec, context: int, memory: int, batch: int, policy: Any, kv: tuple[str, float]
) -> None:
    asked = remembered(spec, memory)
    name, each = kv
    found = rl.kv_bytes(
        as_model(spec), context_tokens=context, batch=batch, kv=name, policy=policy, memory_tokens=asked
    )
    assert found == batch * elements_by_the_book(spec, context, asked or 0, policy) * each


@given(zoo_specs(), contexts, st.integers(0, 20_000), memories, batches, policies)
def test_the_cache_never_shrinks_with_context_batch_or_memory(
    spec: Spec, context: int, more: int, memory: int, batch: int, policy: Any
) -> None:
    model, asked = as_model(spec), remembered(spec, memory)

    def kept(context: int, batch: int, memory: int | None) -> Any:
        return rl.kv_bytes(model, context_tokens=context, batch=batch, memory_tokens=memory, policy=policy)

    here = kept(context, batch, asked)
    assert here <= kept(context + more, batch, asked)
    assert here <= kept(context, batch + 1, asked)
    assert here == batch * kept(context, 1, asked)
    if asked is not None:
        assert here <= kept(context, batch, asked + more)


@given(zoo_specs(), contexts, memories)
def test_what_an_engine_allocates_is_never_less_than_what_mathematics_needs(
    spec: Spec, context: int, memory: int
) -> None:
    model, asked = as_model(spec), remembered(spec, memory)
    needed, full = (
        rl.kv_bytes(model, context_tokens=context, memory_tokens=asked, policy=p) for p in ("window", "allocated")
    )
    assert needed <= full


@given(zoo_models(bodies=("encoder",), mixers=("attention", "linear", "none")), contexts)
def test_an_encoder_s_attention_keeps_nothing(model: rl.Model, context: int) -> None:
    assert rl.kv_bytes(model, context_tokens=context) == 0


@given(zoo_specs(), contexts, st.integers(1, 2000), memories)
def test_a_pass_writes_what_the_cache_grows_by_where_nothing_is_dropped(
    spec: Spec, past: int, n_new: int, memory: int
) -> None:
    """At full length: bytes after the pass, less those before it, are bytes written (a memory is from before)."""
    model, asked = as_model(spec), remembered(spec, memory)
    before, after = (
        rl.kv_bytes(model, context_tokens=n, memory_tokens=asked, policy="allocated") for n in (past, past + n_new)
    )
    ledger = rl.count(model, rl.Seqs(n_seq=1, n_new=n_new, n_past=past, n_memory=asked or 0))
    assert ledger.kv_write_bytes == after - before


@given(zoo_specs(sharing=False), contexts, memories)
def test_a_decode_reads_no_more_than_the_cache_holds(spec: Spec, past: int, memory: int) -> None:
    """Without layers that read an earlier layer's cache: that would be read twice."""
    model, asked = as_model(spec), remembered(spec, memory)
    ledger = rl.count(model, rl.Seqs(n_seq=1, n_new=1, n_past=past, n_memory=asked or 0), latent="absorbed")
    assert ledger.kv_read_bytes <= rl.kv_bytes(model, context_tokens=past, memory_tokens=asked)


# The longest context


@given(zoo_specs(bodies=DECODERS), contexts, memories, batches, policies, st.integers(-3, 3))
def test_the_longest_context_fits_and_one_more_token_does_not(
    spec: Spec, context: int, memory: int, batch: int, policy: Any, off: int
) -> None:
    """Asked with the bytes of some context, give or take a few."""
    model, asked = as_model(spec), remembered(spec, memory)

    def kept(n: Any) -> Any:
        return rl.kv_bytes(model, context_tokens=n, batch=batch, policy=policy, memory_tokens=asked)

    room = max(0, kept(context) + off)
    longest = rl.max_context_tokens(model, kv_bytes=room, batch=batch, policy=policy, memory_tokens=asked)
    if kept(0) > room:
        assert longest == 0  # what is remembered alone does not fit
        return
    if math.isinf(longest):
        assert kept(1e12) <= room
        return
    assert longest == int(longest)
    assert kept(longest) <= room < kept(longest + 1)
    if off >= 0:
        assert longest >= context


@given(zoo_models(mixers=("mamba2", "linear", "none"), bodies=("decoder",), sharing=False), st.integers(0, 10**9))
def test_a_model_whose_cache_does_not_grow_holds_any_context(model: rl.Model, room: int) -> None:
    assert rl.max_context_tokens(model, kv_bytes=room) == math.inf
    assert rl.kv_bytes(model, context_tokens=10**9) == 0


def test_windows_alone_hold_any_context_once_they_are_full() -> None:
    """Two layers of a window of 100: 2 · 100 · 2·1·8 · 2 B = 6400 B when full, 64 B a token before."""
    mixer = {"kind": "attention", "n_heads": 1, "n_kv_heads": 1, "d_head": 8, "window": 100}
    model = of_layers({"mixer": mixer, "ffn": None}, repeat=2)
    assert rl.max_context_tokens(model, kv_bytes=6400) == math.inf
    assert rl.max_context_tokens(model, kv_bytes=6399) == 99
    assert rl.max_context_tokens(model, kv_bytes=63) == 0


@given(
    zoo_specs(bodies=DECODERS),
    st.lists(st.integers(0, 10**7), min_size=1, max_size=3),
    st.lists(batches, min_size=1, max_size=3),
)
def test_a_grid_of_longest_contexts_equals_its_points(spec: Spec, rooms: list[int], many: list[int]) -> None:
    model, asked = as_model(spec), remembered(spec, 3)
    grid = rl.max_context_tokens(
        model, kv_bytes=np.array(rooms, float)[:, None], batch=np.array(many, float)[None, :], memory_tokens=asked
    )
    for i, room in enumerate(rooms):
        for j, batch in enumerate(many):
            assert np.asarray(grid)[i, j] == rl.max_context_tokens(
                model, kv_bytes=room, batch=batch, memory_tokens=asked
            )


# Whether it fits


@given(zoo_specs(bodies=DECODERS), chips(), contexts, memories, batches)
def test_what_is_said_to_fit_fits_and_one_more_does_not(
    spec: Spec, chip: rl.Hardware, context: int, memory: int, batch: int
) -> None:
    model, asked = as_model(spec), remembered(spec, memory)
    d = rl.Deployment(model=model, hardware=chip)
    m = rl.memory(d, context_tokens=context, batch=batch, memory_tokens=asked)
    held = m.weight_bytes + rl.state_bytes(model, batch=batch)
    held += rl.kv_bytes(model, context_tokens=context, batch=batch, memory_tokens=asked)
    assert m.used_bytes == held
    assert m.fits == (held <= chip.memory_bytes) == (m.short_by_bytes == 0)
    limit = model.max_context_tokens
    assert 0 <= m.max_context_tokens <= limit
    fits = {
        n: rl.memory(d, context_tokens=n, batch=batch, memory_tokens=asked).fits
        for n in (0, m.max_context_tokens, m.max_context_tokens + 1)
    }
    if fits[0]:
        assert fits[m.max_context_tokens]
        assert m.max_context_tokens == limit or not fits[m.max_context_tokens + 1]
    if context >= 1 and 1 <= m.max_batch < 1e11:
        assert rl.memory(d, context_tokens=context, batch=m.max_batch, memory_tokens=asked).fits
        assert not rl.memory(d, context_tokens=context, batch=m.max_batch + 1, memory_tokens=asked).fits


@pytest.mark.parametrize("policy", ["window", "allocated"])
def test_a_chunk_keeps_its_width_as_a_window_does(policy: Any) -> None:
    """Engines drop what is W behind: 100 tokens of 2·2·8 elements in bf16, or all 250."""
    mixer = {"kind": "attention", "n_heads": 2, "n_kv_heads": 2, "d_head": 8, "window": 100, "chunked": True}
    model = of_layers({"mixer": mixer, "ffn": None})
    assert rl.kv_bytes(model, context_tokens=250, policy=policy) == {"window": 100, "allocated": 250}[policy] * 64


def test_a_layer_that_reads_an_earlier_cache_keeps_none() -> None:
    own = {"kind": "attention", "n_heads": 2, "n_kv_heads": 2, "d_head": 8}
    one = of_layers({"mixer": own, "ffn": None})
    two = of_layers({"mixer": own, "ffn": None}, {"mixer": own | {"values": "earlier"}, "ffn": None}, repeat=1)
    assert rl.kv_bytes(two, context_tokens=77) == rl.kv_bytes(one, context_tokens=77) == 77 * 64


def test_keys_that_are_values_too_are_cached_twice() -> None:
    """Gemma 4: one product makes both, the cache holds both (keys are rotated, values are not)."""
    own = {"kind": "attention", "n_heads": 2, "n_kv_heads": 2, "d_head": 8}
    own_values, as_keys = (of_layers({"mixer": own | {"values": v}, "ffn": None}) for v in ("own", "keys"))
    assert rl.kv_bytes(own_values, context_tokens=9) == rl.kv_bytes(as_keys, context_tokens=9)
    assert own_values.n_params - as_keys.n_params == 16 * 16


def test_narrow_values_are_cached_narrow() -> None:
    """MiMo-V2: keys of 192 and values of 128: 4 · 320 elements a token."""
    mixer = {"kind": "attention", "n_heads": 64, "n_kv_heads": 4, "d_head": 192, "d_value": 128}
    assert rl.kv_bytes(of_layers({"mixer": mixer, "ffn": None}), context_tokens=1) == 4 * 320 * 2
