"""What must hold for every kind of model: the laws of `test_laws`, over the whole zoo, and those only some kinds have.

One law a test, over generated models (`zoo`), chips, precisions and passes. Counts are whole numbers below 2**53 but for the
expected number of experts, so laws about models without experts say ``==``; the others allow the last bits (`LAST_BITS`).
"""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import (
    KERNELS,
    Spec,
    as_chip,
    as_model,
    chip_specs,
    chips,
    efficiencies,
    precisions,
    times_faster,
)
from zoo import (
    FIELDS,
    KINDS,
    changed,
    layer_specs,
    of_layers,
    with_mixers,
    without_past,
    zoo_models,
    zoo_seqs,
    zoo_specs,
    zoo_steps,
)

import roofline as rl
from roofline.num import Num
from roofline.specs.catalog import load_yaml, model_yaml
from roofline.specs.model import Model
from roofline.work.step import Step

LAST_BITS = 1e-11  # 1 − (1 − k/E)^T loses a few more bits than a product does
SCALARS = ("seconds", "floor_s", "flops", "hbm_bytes")
NO_EXPERTS = ("dense", "linear", "none")
CAUSAL = ("decoder", "seeing", "hearing", "translating", "crossing")
SLIDING = tuple(kind for kind in KINDS if kind != "latent")

latents = st.sampled_from(["auto", "absorbed", "expanded"])
exponents = st.sampled_from([1.0, 0.7, 0.3])
contexts = st.integers(0, 20_000)


def counted(model: Model, step: rl.Seqs | Step, **how: Any) -> rl.Ledger:
    """The ledger; what is read both ways has no past."""
    return rl.count(model, step if model.generates else without_past(step), **how)


def timed(model: Model, step: rl.Seqs | Step, chip: rl.Hardware, *, launches: Any = rl.IDEAL, **how: Any) -> rl.Timing:
    return rl.clock(counted(model, step, **how), chip, efficiency=launches)


def at_most(smaller: Num, larger: Num) -> bool:
    """smaller ≤ larger, but for the last bits."""
    return bool(np.all(np.less_equal(smaller, np.multiply(larger, 1 + LAST_BITS))))


def total(model: Model, step: rl.Seqs | Step, quantity: str, **how: Any) -> float:
    return float(counted(model, step, **how).total(quantity))


def asked_with(model: Model) -> dict[str, Any]:
    """How many outputs a model remembers, where a decode must be told."""
    return {"memory_tokens": 7} if any(t.feeds == "memory" for t in model.towers) else {}


# The floor and the estimate


@given(zoo_models(), zoo_steps(), chips(), precisions(), efficiencies(), KERNELS, latents, exponents)
def test_no_estimate_of_any_kind_of_model_beats_its_floor(
    model: Model, step: Step, chip: rl.Hardware, precision: rl.Precision, efficiency: rl.Efficiency, kernel: Any,
    latent: Any, exponent: float,
) -> None:  # fmt: skip
    t = timed(
        model, step, chip, launches=efficiency, precision=precision, attention=kernel, latent=latent,
        routing_exponent=exponent,
    )  # fmt: skip
    assert 0 < t.floor_s < math.inf
    assert at_most(t.floor_s, t.seconds)


@given(zoo_models(), zoo_steps(), chips(), precisions(), st.sampled_from([0.3, 0.9]))
def test_the_floor_depends_neither_on_kernel_nor_on_form_nor_on_routing(
    model: Model, step: Step, chip: rl.Hardware, precision: rl.Precision, exponent: float
) -> None:
    plain = timed(model, step, chip, precision=precision)
    for how in ({"attention": "eager"}, {"latent": "absorbed"}, {"latent": "expanded"}, {"routing_exponent": exponent}):
        assert timed(model, step, chip, precision=precision, **how).floor_s == plain.floor_s


@given(zoo_models(), zoo_steps(), chips(), precisions(), KERNELS, latents)
def test_an_estimate_lies_between_the_larger_resource_and_the_sum_of_all(
    model: Model, step: Step, chip: rl.Hardware, precision: rl.Precision, kernel: Any, latent: Any
) -> None:
    t = timed(model, step, chip, precision=precision, attention=kernel, latent=latent)
    assert at_most(np.maximum(t.compute_s, t.memory_s), t.seconds)
    assert at_most(t.seconds, t.compute_s + t.memory_s)


@given(zoo_models(), zoo_steps(), KERNELS, latents, exponents)
def test_no_row_does_less_than_nothing_and_none_must_move_more_than_it_moves(
    model: Model, step: Step, kernel: Any, latent: Any, exponent: float
) -> None:
    for op in counted(model, step, attention=kernel, latent=latent, routing_exponent=exponent).ops:
        for name in ("flops", "executed_flops", "act_bytes", "state_bytes", "kv_write_bytes", "kv_read_bytes", "m"):
            assert getattr(op, name) >= 0, (op.name, name)
        assert at_most(op.weight_bytes_min, op.weight_bytes), op.name
        assert at_most(op.weight_bytes, op.weight_bytes_max), op.name
        assert op.kv_read_bytes_min <= op.kv_read_bytes, op.name
        assert op.least_flops <= op.flops, op.name


# A faster machine


@given(zoo_models(), zoo_steps(), chip_specs(), precisions(), st.sampled_from([2.0, 3.7, 1.01]))
def test_k_times_every_ceiling_is_k_times_as_fast(
    model: Model, step: Step, chip: Spec, precision: rl.Precision, k: float
) -> None:
    slow, fast = (timed(model, step, as_chip(c), precision=precision) for c in (chip, times_faster(chip, k)))
    assert slow.seconds == pytest.approx(k * fast.seconds, rel=LAST_BITS)
    assert slow.floor_s == pytest.approx(k * fast.floor_s, rel=LAST_BITS)
    assert slow.mfu == pytest.approx(fast.mfu, rel=LAST_BITS)


@given(zoo_models(), zoo_steps(), chip_specs(), precisions(), st.sampled_from([1.0, 1.5, 8.0]))
def test_raising_one_ceiling_never_slows_a_pass(
    model: Model, step: Step, chip: Spec, precision: rl.Precision, k: float
) -> None:
    before = timed(model, step, as_chip(chip), precision=precision)
    more_bandwidth = chip | {"bandwidth": chip["bandwidth"] * k}
    more_flops = times_faster(chip, k) | {"bandwidth": chip["bandwidth"]}
    for better in (more_bandwidth, more_flops):
        after = timed(model, step, as_chip(better), precision=precision)
        assert after.seconds <= before.seconds
        assert after.floor_s <= before.floor_s


@given(zoo_models(), zoo_steps(), chips(), precisions(), KERNELS)
def test_no_utilisation_exceeds_one(
    model: Model, step: Step, chip: rl.Hardware, precision: rl.Precision, kernel: Any
) -> None:
    t = timed(model, step, chip, precision=precision, attention=kernel)
    assert at_most(t.mfu, 1.0)
    assert at_most(t.mbu, 1.0)


# A grid is its points


@given(zoo_models(), chips(), precisions(), KERNELS, latents, st.lists(zoo_seqs(), min_size=1, max_size=4))
def test_a_grid_over_every_field_of_a_pass_equals_its_points_bit_for_bit(
    model: Model, chip: rl.Hardware, precision: rl.Precision, kernel: Any, latent: Any, points: list[rl.Seqs]
) -> None:
    together = rl.Seqs(**{f: np.array([getattr(p, f) for p in points]) for f in FIELDS})
    beside = rl.Seqs(n_seq=2, n_new=1, n_past=77, n_memory=9)  # the same second part with every point
    how = {"precision": precision, "attention": kernel, "latent": latent}
    for more in ((), (beside,)):
        grid = timed(model, (together, *more), chip, **how)
        for i, point in enumerate(points):
            for one in (point, rl.Seqs(**{f: np.array(getattr(point, f)) for f in FIELDS})):
                t = timed(model, (one, *more), chip, **how)
                for name in SCALARS:
                    assert float(np.broadcast_to(getattr(grid, name), len(points))[i]) == float(getattr(t, name)), name


@given(zoo_models(), chips(), zoo_steps(max_parts=2), KERNELS)
def test_scalars_in_are_scalars_out(model: Model, chip: rl.Hardware, step: Step, kernel: Any) -> None:
    t = timed(model, step, chip, attention=kernel)
    for name in (*SCALARS, "executed_flops", "compulsory_bytes", "compute_s", "memory_s", "intensity", "mfu", "mbu"):
        assert type(getattr(t, name)) is float, name
    assert type(t.bound) is str


@given(
    zoo_models(bodies=CAUSAL),
    chips(),
    st.lists(contexts, min_size=1, max_size=3),
    st.lists(contexts, min_size=1, max_size=3),
)
def test_grids_in_are_grids_out(model: Model, chip: rl.Hardware, first: list[int], second: list[int]) -> None:
    """Whatever the model makes of what varies: one without cache or state gives the same number everywhere."""
    d, shape = rl.Deployment(model=model, hardware=chip), (len(first), len(second))
    t = rl.decode(d, context_tokens=np.array(first)[:, None], batch=np.array(second)[None, :] + 1, **asked_with(model))
    for name in (*SCALARS, "compute_s", "memory_s", "mfu", "mbu", "intensity", "bound"):
        assert np.shape(getattr(t, name)) == shape, name


@given(zoo_models(), zoo_steps(), chips(), precisions(), efficiencies(), KERNELS, latents)
def test_the_rows_of_a_pass_add_up_to_its_totals_and_have_names_of_their_own(
    model: Model, step: Step, chip: rl.Hardware, precision: rl.Precision, efficiency: rl.Efficiency, kernel: Any,
    latent: Any,
) -> None:  # fmt: skip
    t = timed(model, step, chip, launches=efficiency, precision=precision, attention=kernel, latent=latent)
    rows = t.by_op()
    for whole, column in (
        (t.seconds, "seconds"), (t.compute_s, "compute_s"), (t.memory_s, "memory_s"), (t.hbm_bytes, "streamed_bytes"),
        (t.executed_flops, "executed_flops"), (t.compulsory_bytes, "compulsory_bytes"),
    ):  # fmt: skip
        assert math.fsum(row[column] for row in rows) == pytest.approx(whole, rel=LAST_BITS), column
    assert len({row["name"] for row in rows}) == len(rows)


# More work is never less time


@given(zoo_models(), zoo_seqs(), chips(), precisions(), KERNELS, latents, exponents, st.integers(0, 64))
def test_more_sequences_never_make_a_pass_faster(
    model: Model, like: rl.Seqs, chip: rl.Hardware, precision: rl.Precision, kernel: Any, latent: Any, exponent: float,
    more: int,
) -> None:  # fmt: skip
    how = {"precision": precision, "attention": kernel, "latent": latent, "routing_exponent": exponent}
    few, many = (timed(model, changed(like, n_seq=n), chip, **how) for n in (like.n_seq, like.n_seq + more))
    for name in (*SCALARS, "compulsory_bytes"):
        assert at_most(getattr(few, name), getattr(many, name)), name


def unchunked(spec: Spec) -> Spec:
    """The same model with windows that slide in place of chunks."""
    return with_mixers(spec, lambda mixer: mixer | {"chunked": False})


@given(zoo_specs(), chips(), precisions(), KERNELS, contexts, contexts, st.integers(1, 64), st.integers(0, 300))
def test_a_longer_context_never_makes_decode_faster(
    spec: Spec,
    chip: rl.Hardware,
    precision: rl.Precision,
    kernel: Any,
    context: int,
    more: int,
    batch: int,
    memory: int,
) -> None:
    """But for chunks, whose running one begins anew."""
    model = as_model(unchunked(spec))
    short, longer = (
        timed(
            model, rl.Seqs(n_seq=batch, n_new=1, n_past=n, n_memory=memory), chip, precision=precision, attention=kernel,
            latent="absorbed",
        )
        for n in (context, context + more)
    )  # fmt: skip
    for name in (*SCALARS, "compulsory_bytes"):
        assert getattr(short, name) <= getattr(longer, name), name


@given(zoo_models(mixers=("latent",), ffns=NO_EXPERTS), contexts, contexts, st.integers(1, 64), st.integers(1, 600))
def test_the_cheaper_form_of_latent_attention_never_has_fewer_flops_after_a_longer_past(
    model: Model, context: int, more: int, batch: int, n_new: int
) -> None:
    """Its traffic may fall where the form changes, so this is a law of FLOPs, not of seconds."""
    short, longer = (
        counted(model, rl.Seqs(n_seq=batch, n_new=n_new, n_past=n)).executed_flops for n in (context, context + more)
    )
    assert short <= longer


@given(st.integers(2, 64), st.integers(0, 300), st.integers(1, 8))
def test_decoding_in_chunks_is_a_saw_tooth(window: int, context: int, batch: int) -> None:
    """A token after S others reads S mod W of them: every W tokens the running chunk begins anew, and nothing is read."""
    mixer = {"kind": "attention", "n_heads": 2, "n_kv_heads": 1, "d_head": 4, "window": window, "chunked": True}
    model = of_layers({"mixer": mixer, "ffn": None})
    read = total(model, rl.Seqs(n_seq=batch, n_new=1, n_past=context), "kv_read_bytes")
    assert read == batch * (context % window) * 2 * 4 * 2  # key and value, 4 wide, 2 B
    assert total(model, rl.Seqs(n_seq=batch, n_new=1, n_past=window * 7), "kv_read_bytes") == 0
    assert total(model, rl.Seqs(n_seq=batch, n_new=1, n_past=window * 7 - 1), "kv_read_bytes") > 0


@given(zoo_specs(), chips(), precisions(), zoo_steps(), KERNELS)
def test_a_chunk_never_costs_more_than_a_window_nor_a_window_more_than_full_attention(
    spec: Spec, chip: rl.Hardware, precision: rl.Precision, step: Step, kernel: Any
) -> None:
    chunk = with_mixers(spec, lambda x: x | ({"chunked": True} if x.get("window") and x["causal"] else {}))
    window, full = unchunked(spec), with_mixers(spec, lambda x: x | {"window": None, "chunked": False})
    ledgers = [counted(as_model(s), step, precision=precision, attention=kernel) for s in (chunk, window, full)]
    clocked = [rl.clock(ledger, chip) for ledger in ledgers]
    for less, more in ((0, 1), (1, 2)):
        for quantity in ("flops", "executed_flops", "streamed_bytes", "compulsory_bytes", "kv_read_bytes"):
            assert at_most(ledgers[less].total(quantity), ledgers[more].total(quantity)), quantity
        assert at_most(clocked[less].seconds, clocked[more].seconds)
        assert at_most(clocked[less].floor_s, clocked[more].floor_s)


# A pass and its parts


@given(zoo_models(), st.lists(zoo_seqs(), min_size=2, max_size=4), st.data(), chips(), precisions(), KERNELS, latents)
def test_a_mixed_pass_costs_at_least_either_part_and_at_most_their_sum(
    model: Model, parts: list[rl.Seqs], data: st.DataObject, chip: rl.Hardware, precision: rl.Precision, kernel: Any,
    latent: Any,
) -> None:  # fmt: skip
    cut = data.draw(st.integers(1, len(parts) - 1))
    mixed, left, right = (
        timed(model, tuple(step), chip, precision=precision, attention=kernel, latent=latent)
        for step in (parts, parts[:cut], parts[cut:])
    )
    for name in ("seconds", "floor_s", "hbm_bytes", "compulsory_bytes"):
        whole, one, other = (getattr(t, name) for t in (mixed, left, right))
        assert at_most(max(one, other), whole), name
        assert at_most(whole, one + other), name
    for name in ("flops", "executed_flops"):
        assert getattr(mixed, name) == getattr(left, name) + getattr(right, name), name


@given(zoo_models(), st.lists(zoo_seqs(), min_size=2, max_size=4), chips(), KERNELS)
def test_the_order_of_the_parts_does_not_matter(
    model: Model, parts: list[rl.Seqs], chip: rl.Hardware, kernel: Any
) -> None:
    forth, back = (timed(model, tuple(step), chip, attention=kernel) for step in (parts, parts[::-1]))
    assert forth.flops == back.flops
    assert forth.hbm_bytes == pytest.approx(back.hbm_bytes, rel=LAST_BITS)
    assert forth.seconds == pytest.approx(back.seconds, rel=LAST_BITS)


@given(zoo_models(), st.integers(1, 8), st.integers(1, 8), zoo_seqs(), KERNELS, latents)
def test_alike_sequences_are_one_part_or_several(
    model: Model, some: int, more: int, like: rl.Seqs, kernel: Any, latent: Any
) -> None:
    """Without a shared prefix, which is shared within a part."""
    a, b, both = (changed(like, n_seq=n, n_shared=0) for n in (some, more, some + more))
    split, joined = (counted(model, step, attention=kernel, latent=latent) for step in ((a, b), (both,)))
    for quantity in ("flops", "executed_flops", "kv_read_bytes", "kv_read_bytes_min", "kv_write_bytes", "act_bytes"):
        assert split.total(quantity) == joined.total(quantity), quantity
    for quantity in ("weight_bytes", "weight_bytes_min", "weight_bytes_max", "state_bytes", "compulsory_bytes"):
        assert split.total(quantity) == pytest.approx(joined.total(quantity), rel=LAST_BITS), quantity


chunkings = st.lists(st.integers(1, 400), min_size=1, max_size=5)


def in_chunks(like: rl.Seqs, chunks: list[int]) -> tuple[list[rl.Seqs], rl.Seqs]:
    """A prompt cut up, and whole: inputs are read with the first piece, remembered by all, logits wanted of the last."""
    first = changed(like, n_new=chunks[0], n_logits=0, n_shared=0)
    pieces, past = [], like.n_past
    for i, n_new in enumerate(chunks):
        read = {} if i == 0 else {"n_inputs": 0, "n_input_tokens": 0}
        pieces.append(changed(first, n_new=n_new, n_past=past, n_logits=float(i == len(chunks) - 1), **read))
        past = past + n_new
    return pieces, changed(first, n_new=sum(chunks), n_logits=1)


@given(zoo_models(mixers=SLIDING, bodies=CAUSAL), chunkings, zoo_seqs())
def test_chunking_a_prompt_conserves_its_flops_and_what_it_writes(
    model: Model, chunks: list[int], like: rl.Seqs
) -> None:
    pieces, whole = in_chunks(like, chunks)
    for quantity in ("flops", "executed_flops", "kv_write_bytes"):
        assert sum(total(model, p, quantity) for p in pieces) == total(model, whole, quantity), quantity


@given(zoo_models(mixers=("latent",), bodies=CAUSAL), chunkings, zoo_seqs())
def test_chunking_a_prompt_of_a_latent_model_never_has_fewer_flops(
    model: Model, chunks: list[int], like: rl.Seqs
) -> None:
    """A later chunk makes the keys and values of its past again, or pays the dearer pairs."""
    pieces, whole = in_chunks(like, chunks)
    for quantity in ("flops", "executed_flops"):
        assert sum(total(model, p, quantity) for p in pieces) >= total(model, whole, quantity)
    assert sum(total(model, p, "kv_write_bytes") for p in pieces) == total(model, whole, "kv_write_bytes")


@given(zoo_models(mixers=("latent",), bodies=CAUSAL), chunkings, zoo_seqs())
def test_chunking_conserves_the_flops_of_absorbed_latents(model: Model, chunks: list[int], like: rl.Seqs) -> None:
    pieces, whole = in_chunks(like, chunks)
    parts = sum(total(model, p, "executed_flops", latent="absorbed") for p in pieces)
    assert parts == total(model, whole, "executed_flops", latent="absorbed")


@given(zoo_models(), zoo_seqs(), precisions(), KERNELS)
def test_wanting_no_logits_removes_the_head_s_flops_and_nothing_else_s(
    model: Model, like: rl.Seqs, precision: rl.Precision, kernel: Any
) -> None:
    none, every = (
        counted(model, changed(like, n_logits=n), precision=precision, attention=kernel) for n in (0, like.n_new)
    )
    head = 0 if model.head is None else 2 * like.n_seq * like.n_new * model.d_embedding * model.vocab_size
    assert every.flops - none.flops == head
    assert {op.name for op in none.ops if op.kind == "head" and op.flops} == set()


# What is held, and what is read

PLENTY = rl.Seqs(n_seq=4, n_new=500, n_inputs=1, n_input_tokens=10, n_memory=10)


@given(zoo_models())
def test_resident_bytes_are_two_for_every_parameter_in_16_bit(model: Model) -> None:
    for precision in (rl.Precision(), rl.Precision(weights="bf16"), rl.Precision(weights="fp16")):
        assert rl.count(model, PLENTY, precision=precision).resident_bytes == 2 * model.n_params


@given(zoo_models())
def test_active_parameters_are_no_more_than_all_and_as_many_without_idle_experts(model: Model) -> None:
    assert 0 < model.n_active_params <= model.n_params
    mixtures = [layer.ffn for _, layer in model.layer_kinds() if layer.ffn is not None and layer.ffn.kind == "moe"]
    idle = any(x.n_active_experts < x.n_experts for x in mixtures)
    assert (model.n_active_params == model.n_params) == (not idle)


@given(zoo_models())
def test_a_pass_never_reads_a_weight_that_no_chip_holds(model: Model) -> None:
    """One token that wants no logits: all it reads is resident, once (but rows of tables it looks up)."""
    ledger = rl.count(model, changed(PLENTY, n_seq=1, n_new=1, n_input_tokens=1, n_memory=1, n_logits=1))
    rows = sum(op.repeat * op.weight_bytes for op in ledger.ops if op.kind == "embedding")
    assert ledger.total("weight_bytes_max") - rows <= ledger.resident_bytes


@given(
    zoo_models(mixers=("attention", "latent", "mamba2", "linear"), bodies=("seeing", "hearing", "crossing")), zoo_seqs()
)
def test_a_pass_without_images_does_no_tower_work_and_reads_no_tower_weights(model: Model, like: rl.Seqs) -> None:
    ledger = rl.count(model, changed(like, n_inputs=0, n_input_tokens=0))
    prefix = f"{model.towers[0].kind}."
    for op in ledger.ops:
        if op.name.startswith(prefix) or "cross_k_proj" in op.name or "cross_v_proj" in op.name:
            assert op.flops == op.streamed_bytes == op.compulsory_bytes == op.row_flops == op.m == 0, op.name


@given(zoo_models(bodies=("crossing",), special=False), zoo_seqs())
def test_sequences_without_anything_to_attend_to_pass_cross_only_layers_by(model: Model, like: rl.Seqs) -> None:
    alone = [layer for _, layer in model.layer_kinds() if layer.only_with_memory]
    assert alone
    text = changed(like, n_inputs=0, n_input_tokens=0, n_memory=0)
    without = Model.read(
        {**model.plain(), "towers": [], "layers": model.plain()["layers"][:-1]}, where="without the cross-only layers"
    )
    for quantity in ("flops", "executed_flops", "kv_read_bytes", "kv_write_bytes", "act_bytes"):
        assert total(model, text, quantity) == total(without, text, quantity), quantity
    for quantity in ("weight_bytes", "weight_bytes_min", "weight_bytes_max"):
        assert total(model, text, quantity) == pytest.approx(total(without, text, quantity), rel=LAST_BITS), quantity


@given(zoo_models(bodies=("seeing",)), zoo_seqs(), KERNELS)
def test_a_model_that_sees_reads_text_as_one_that_does_not(model: Model, like: rl.Seqs, kernel: Any) -> None:
    text = changed(like, n_inputs=0, n_input_tokens=0)
    blind = Model.read({**model.plain(), "towers": []}, where="blind")
    for quantity in ("flops", "executed_flops", "streamed_bytes", "compulsory_bytes"):
        assert total(model, text, quantity, attention=kernel) == total(blind, text, quantity, attention=kernel), (
            quantity
        )
    assert model.n_params - blind.n_params == model.towers[0].n_params


# Layers that read an earlier layer's cache


def borrowing(layer: Spec) -> Spec:
    own = {"kind": "attention", "n_heads": 4, "n_kv_heads": 2, "d_head": 8}
    return {"layers": ({"layers": ({"mixer": own, "ffn": {"d_ff": 16}}, layer)},)}


borrowers = layer_specs(mixers=("attention",), ffns=("dense", "moe")).map(
    lambda layer: {**layer, "mixer": {**layer["mixer"], "values": "earlier"}}
)


@given(borrowers, zoo_seqs(), precisions())
def test_an_engine_may_skip_unwanted_tokens_in_layers_that_cache_nothing(
    layer: Spec, like: rl.Seqs, precision: rl.Precision
) -> None:
    """The least work grows with the positions wanted, from none at all to all of it."""
    model = of_layers(*borrowing(layer)["layers"][0]["layers"])
    least = {}
    for wanted in sorted({0.0, 1.0, like.n_new}):
        rows = rl.count(model, changed(like, n_logits=wanted), precision=precision).ops
        late = [op for op in rows if op.flops_min is not None]
        assert late
        least[wanted] = sum(op.least_flops for op in late)
        assert all(op.least_flops <= op.flops for op in rows)
        if wanted == 0:
            assert all(op.least_flops == op.weight_bytes_min == op.kv_read_bytes_min == 0 for op in late)
        if wanted == like.n_new:
            assert all(op.least_flops == op.flops for op in late)
    values = list(least.values())
    assert values == sorted(values)


@given(borrowers, zoo_seqs(), chips())
def test_wanting_more_logits_never_lowers_the_floor(layer: Spec, like: rl.Seqs, chip: rl.Hardware) -> None:
    model = of_layers(*borrowing(layer)["layers"][0]["layers"])
    floors = [timed(model, changed(like, n_logits=n), chip).floor_s for n in sorted({0.0, 1.0, like.n_new})]
    assert all(at_most(a, b) for a, b in pairwise(floors))


@given(zoo_models(), zoo_seqs(), chips())
def test_a_pass_that_wants_no_logits_need_not_read_the_head(model: Model, like: rl.Seqs, chip: rl.Hardware) -> None:
    silent, speaking = (timed(model, changed(like, n_logits=n), chip) for n in (0, 1))
    assert at_most(silent.floor_s, speaking.floor_s)
    if model.head is not None:
        head = 2 * model.d_embedding * model.vocab_size + (2 * model.vocab_size if model.head.bias else 0)
        assert speaking.compulsory_bytes - silent.compulsory_bytes >= head * (1 - LAST_BITS)


def test_a_late_layer_may_stand_in_a_model_of_several_residual_streams() -> None:
    own, late = (
        {"kind": "attention", "n_heads": 2, "n_kv_heads": 1, "d_head": 8, "values": v} for v in ("own", "earlier")
    )
    layers = ({"mixer": own, "ffn": {"d_ff": 8}}, {"mixer": late, "ffn": {"d_ff": 8}})
    ledger = rl.count(of_layers(*layers, residual_streams=4), rl.Seqs(n_seq=1, n_new=3))
    assert 0 < ledger.total("least_flops") < ledger.flops


def test_a_late_layer_s_cross_attention_must_read_what_it_attends_to() -> None:
    """9 outputs of 2·4 elements of 2 B, not the 5 tokens of 2·8 that its self-attention reads."""
    own, late = (
        {"kind": "attention", "n_heads": 2, "n_kv_heads": 1, "d_head": 8, "values": v} for v in ("own", "earlier")
    )
    cross = {"kind": "cross_attention", "n_heads": 1, "n_kv_heads": 1, "d_head": 4, "d_memory": 16}
    layers = ({"mixer": own, "ffn": None}, {"mixer": late, "cross": cross, "ffn": None})
    model = of_layers(*layers, towers=({"kind": "audio", "d_model": 16, "feeds": "memory"},))
    (row,) = (
        op
        for op in rl.count(model, rl.Seqs(n_seq=1, n_new=1, n_past=5, n_memory=9)).ops
        if op.name.endswith("cross_attention")
    )
    assert row.kv_read_bytes == 9 * 16
    assert row.kv_read_bytes_min == 9 * 16


# Names


def test_rows_of_mamba_and_of_mamba_2_are_not_confused() -> None:
    """The third kind of layer is a second Mamba-1: number 2 of a word must not make another word."""
    one = {"kind": "mamba", "d_inner": 16, "d_state": 4, "d_conv": 4, "dt_rank": 1}
    two = {"kind": "mamba2", "n_heads": 2, "d_head": 8, "n_groups": 1, "d_state": 4, "d_conv": 4}
    layers = ({"mixer": mixer, "ffn": {"d_ff": 8}} for mixer in (one, two, one | {"d_inner": 32}))
    names = [op.name for op in rl.count(of_layers(*layers), rl.Seqs(n_seq=1, n_new=1)).ops]
    assert len(set(names)) == len(names)


# What cannot be meant


def test_a_head_cannot_be_tied_to_a_table_of_other_rows() -> None:
    """Refused; or counted alike by everyone who counts it."""
    mixer = {"kind": "attention", "n_heads": 2, "n_kv_heads": 1, "d_head": 8}
    try:
        model = of_layers({"mixer": mixer, "ffn": None}, embedding={"vocab_size": 20}, head={"tied": True})
    except rl.SpecError:
        return
    assert rl.count(model, PLENTY).resident_bytes == 2 * model.n_params


def test_the_inputs_of_a_pass_are_the_first_tower_s_and_the_others_only_hold_weights() -> None:
    """A model that sees and hears: a pass has one stream of inputs, and says nothing of sound (`count`, Notes)."""
    towers = tuple(
        {"kind": kind, "d_model": 16, "feeds": "prompt", "stem": ({"name": "stem", "d_in": 4, "d_out": 16},)}
        for kind in ("vision", "audio")
    )
    mixer = {"kind": "attention", "n_heads": 2, "n_kv_heads": 1, "d_head": 8}
    model = of_layers({"mixer": mixer, "ffn": None}, towers=towers)
    ledger = rl.count(model, rl.Seqs(n_seq=1, n_new=9, n_inputs=1, n_input_tokens=4))
    assert [op.name for op in ledger.ops if "stem" in op.name] == ["vision.stem"]
    assert ledger.resident_bytes == 2 * model.n_params


# Shared prefixes


@given(zoo_models(), zoo_seqs(), precisions(), chips())
def test_sharing_a_prefix_never_adds_traffic(
    model: Model, like: rl.Seqs, precision: rl.Precision, chip: rl.Hardware
) -> None:
    plain, half, whole = (
        timed(model, changed(like, n_shared=n), chip, precision=precision) for n in (0, like.n_past // 2, like.n_past)
    )
    assert at_most(half.compulsory_bytes, plain.compulsory_bytes)
    assert at_most(whole.compulsory_bytes, half.compulsory_bytes)
    assert plain.flops == half.flops == whole.flops


# Files


@given(zoo_specs())
def test_a_model_of_any_kind_is_what_its_plain_data_and_its_yaml_say(spec: Spec) -> None:
    model = as_model(spec)
    again = Model.read(model.plain(), where="again")
    assert again == model
    assert hash(again) == hash(model)
    assert (again.n_params, again.n_active_params) == (model.n_params, model.n_active_params)


@given(spec=zoo_specs())
def test_a_yaml_file_of_a_model_reads_back_as_an_equal_record(tmp_path_factory: Any, spec: Spec) -> None:
    model = as_model(spec)
    file: Path = tmp_path_factory.mktemp("zoo") / "zoo.yaml"
    file.write_text(model_yaml(model), encoding="utf-8")
    assert Model.read(load_yaml(file), where=str(file)) == model
    assert rl.model(file) == model


# The questions asked of every kind


@given(zoo_models(special=False, bodies=("decoder",)), precisions())
def test_a_pass_streams_all_it_holds_but_the_tables_it_looks_rows_up_in(model: Model, precision: rl.Precision) -> None:
    """In any format. Footprint and pass are counted apart: no tensor may be in one and not in the other."""
    ledger, numerics = rl.count(model, PLENTY, precision=precision), precision.of(model)
    rows = sum(op.repeat * op.weight_bytes for op in ledger.ops if op.kind == "embedding")
    n_rows = (model.positions.rows or 0) + model.embedding.type_rows
    tables = n_rows * model.d_summed * numerics.bytes_per_element("positions")
    tables += sum(model.vectors.values()) * numerics.kept_bytes
    if model.head is None or not model.head.tied:
        tables += model.embedding_matrix.n_params * numerics.bytes_per_element("embedding")
    assert ledger.total("weight_bytes_max") - rows == pytest.approx(ledger.resident_bytes - tables, rel=LAST_BITS)


@given(zoo_models(bodies=CAUSAL), chips(), precisions(), st.lists(contexts, min_size=1, max_size=3), KERNELS)
def test_a_grid_above_100000_points_equals_its_points_bit_for_bit(
    model: Model, chip: rl.Hardware, precision: rl.Precision, few: list[int], kernel: Any
) -> None:
    """Large grids are evaluated in blocks; no sum may feel where one begins."""
    d = rl.Deployment(model=model, hardware=chip, precision=precision)
    many = np.resize(np.array(few, float), 100_003)
    grid = rl.decode(d, context_tokens=many, batch=3, attention=kernel, **asked_with(model))
    for i, context in enumerate(few):
        point = rl.decode(d, context_tokens=context, batch=3, attention=kernel, **asked_with(model))
        for name in SCALARS:
            assert np.all(np.asarray(getattr(grid, name))[i :: len(few)] == getattr(point, name)), name


@given(
    zoo_models(bodies=("decoder", "seeing")),
    chips(),
    precisions(),
    st.integers(1, 6000),
    st.integers(2, 300),
    st.integers(1, 40),
)
def test_tpot_is_the_mean_of_every_decode_pass(
    model: Model, chip: rl.Hardware, precision: rl.Precision, prompt: int, n_out: int, batch: int
) -> None:
    """N − 1 passes with prompt … prompt + N − 2 in the cache, saw-teeth and steps among them."""
    d = rl.Deployment(model=model, hardware=chip, precision=precision)
    p = rl.predict(d, prompt_tokens=prompt, output_tokens=n_out, batch=batch)
    passes = rl.decode(d, context_tokens=prompt + np.arange(n_out - 1.0), batch=batch)
    first = rl.prefill(d, prompt_tokens=prompt, batch=batch)
    assert p.tpot_s == pytest.approx(float(np.mean(passes.seconds)), rel=1e-9)
    assert p.tpot_floor_s == pytest.approx(float(np.mean(passes.floor_s)), rel=1e-9)
    assert p.e2e_s == pytest.approx(first.seconds + float(np.sum(passes.seconds)), rel=1e-9)
    assert at_most(p.e2e_floor_s, p.e2e_s)
