"""What must hold whatever the model, the chip and the pass.

One law a test, over generated models, chips, precisions and passes (`strategies`). Counts are whole numbers below 2**53
here, so laws about counts say ``==``; laws about seconds, which divide by ceilings, allow the last bits (`LAST_BITS`)
except where a law promises them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from strategies import (
    FORMAT_NAMES,
    KERNELS,
    Spec,
    as_chip,
    as_model,
    chip_specs,
    chips,
    deployments,
    efficiencies,
    model_specs,
    models,
    precisions,
    seqs,
    steps,
    times_faster,
    with_mixers,
)

import roofline as rl
from roofline.num import Num
from roofline.work.sight import Sight, pairs, seen
from roofline.work.step import Step

LAST_BITS = 1e-12
SCALARS = ("seconds", "floor_s", "flops", "hbm_bytes")
FEW = settings(max_examples=settings().max_examples // 4)

contexts = st.integers(0, 200_000)
batches = st.integers(1, 1024)
prompts = st.integers(1, 50_000)
windows = st.none() | st.integers(1, 5000)


def timed(
    model: rl.Model,
    step: rl.Seqs | Step,
    chip: rl.Hardware,
    *,
    precision: rl.Precision | None = None,
    attention: Any = "flash",
    efficiency: rl.Efficiency = rl.IDEAL,
) -> rl.Timing:
    return rl.clock(rl.count(model, step, precision=precision, attention=attention), chip, efficiency=efficiency)


def at_most(smaller: Num, larger: Num) -> bool:
    """smaller ≤ larger, but for the last bits."""
    return bool(np.all(np.less_equal(smaller, np.multiply(larger, 1 + LAST_BITS))))


# The floor


@given(models(), steps(), chips(), precisions(), efficiencies(), KERNELS)
def test_no_estimate_beats_its_floor(
    model: rl.Model,
    step: Step,
    chip: rl.Hardware,
    precision: rl.Precision,
    efficiency: rl.Efficiency,
    kernel: str,
) -> None:
    t = timed(model, step, chip, precision=precision, attention=kernel, efficiency=efficiency)
    assert 0 < t.floor_s <= t.seconds < math.inf


@given(models(), steps(), chips(), precisions())
def test_the_floor_does_not_depend_on_the_attention_kernel(
    model: rl.Model, step: Step, chip: rl.Hardware, precision: rl.Precision
) -> None:
    flash, eager = (timed(model, step, chip, precision=precision, attention=kernel) for kernel in ("flash", "eager"))
    assert flash.floor_s == eager.floor_s


@given(models(), steps(), chips(), precisions(), KERNELS)
def test_an_estimate_lies_between_the_larger_resource_and_the_sum_of_all(
    model: rl.Model, step: Step, chip: rl.Hardware, precision: rl.Precision, kernel: str
) -> None:
    t = timed(model, step, chip, precision=precision, attention=kernel)
    assert at_most(np.maximum(t.compute_s, t.memory_s), t.seconds)
    assert at_most(t.seconds, t.compute_s + t.memory_s)


@given(models(), steps(), chips(), precisions(), st.sampled_from([0.9, 0.5, 0.01]), st.sampled_from([0.0, 1e-5]))
def test_nothing_is_faster_than_the_ideal_machine(
    model: rl.Model, step: Step, chip: rl.Hardware, precision: rl.Precision, share: float, launch_s: float
) -> None:
    ideal = timed(model, step, chip, precision=precision)
    for efficiency in (
        rl.Efficiency(compute=share),
        rl.Efficiency(memory=share),
        rl.Efficiency(compute=share, memory=share, launch_s=launch_s),
    ):
        real = timed(model, step, chip, precision=precision, efficiency=efficiency)
        assert ideal.seconds <= real.seconds
        assert ideal.floor_s == real.floor_s


# More work is never less time


@given(models(), chips(), precisions(), KERNELS, contexts, st.integers(0, 200_000), batches)
def test_a_longer_context_never_makes_decode_faster(
    model: rl.Model, chip: rl.Hardware, precision: rl.Precision, kernel: Any, context: int, more: int, batch: int
) -> None:
    d = rl.Deployment(model=model, hardware=chip, precision=precision)
    short = rl.decode(d, context_tokens=context, batch=batch, attention=kernel)
    long = rl.decode(d, context_tokens=context + more, batch=batch, attention=kernel)
    assert short.seconds <= long.seconds
    assert short.floor_s <= long.floor_s


@given(models(), chips(), precisions(), KERNELS, prompts, st.integers(0, 50_000), contexts, batches)
def test_a_longer_prompt_never_makes_prefill_faster(
    model: rl.Model,
    chip: rl.Hardware,
    precision: rl.Precision,
    kernel: Any,
    prompt: int,
    more: int,
    past: int,
    batch: int,
) -> None:
    d = rl.Deployment(model=model, hardware=chip, precision=precision)
    short, longer_prompt, longer_past = (
        rl.prefill(d, prompt_tokens=new, n_past=old, batch=batch, attention=kernel)
        for new, old in ((prompt, past), (prompt + more, past), (prompt, past + more))
    )
    assert short.seconds <= min(longer_prompt.seconds, longer_past.seconds)
    assert short.floor_s <= min(longer_prompt.floor_s, longer_past.floor_s)


@given(models(), chips(), precisions(), KERNELS, prompts, contexts, batches, st.integers(0, 1024))
def test_a_bigger_batch_never_makes_a_pass_faster(
    model: rl.Model,
    chip: rl.Hardware,
    precision: rl.Precision,
    kernel: Any,
    prompt: int,
    context: int,
    batch: int,
    more: int,
) -> None:
    d = rl.Deployment(model=model, hardware=chip, precision=precision)
    decodes = [rl.decode(d, context_tokens=context, batch=n, attention=kernel) for n in (batch, batch + more)]
    prefills = [
        rl.prefill(d, prompt_tokens=prompt, n_past=context, batch=n, attention=kernel) for n in (batch, batch + more)
    ]
    for few, many in (decodes, prefills):
        assert few.seconds <= many.seconds
        assert few.floor_s <= many.floor_s


@given(models(), chips(), contexts, batches)
def test_a_bigger_batch_never_gives_fewer_tokens_a_second(
    model: rl.Model, chip: rl.Hardware, context: int, batch: int
) -> None:
    """Weights are read once for all, so twice the batch takes at most twice as long."""
    d = rl.Deployment(model=model, hardware=chip)
    one, two = (rl.decode(d, context_tokens=context, batch=n).seconds for n in (batch, 2 * batch))
    assert at_most(two, 2 * one)


@given(model_specs(), chips(), precisions(), steps(), KERNELS)
def test_a_window_never_costs_more_than_full_attention(
    spec: Spec, chip: rl.Hardware, precision: rl.Precision, step: Step, kernel: str
) -> None:
    full = as_model(with_mixers(spec, window=None))
    local = as_model(spec)
    counted = [rl.count(m, step, precision=precision, attention=kernel) for m in (local, full)]  # type: ignore[arg-type]
    for quantity in ("flops", "executed_flops", "streamed_bytes", "compulsory_bytes", "kv_read_bytes", "act_bytes"):
        assert at_most(counted[0].total(quantity), counted[1].total(quantity))
    clocked = [rl.clock(ledger, chip) for ledger in counted]
    assert at_most(clocked[0].seconds, clocked[1].seconds)
    assert at_most(clocked[0].floor_s, clocked[1].floor_s)


@given(model_specs(), steps(), KERNELS)
def test_a_window_as_long_as_everything_seen_is_no_window(spec: Spec, step: Step, kernel: Any) -> None:
    longest = int(max(part.n_past + part.n_new for part in step))
    windowed, full = (as_model(with_mixers(spec, window=w)) for w in (longest, None))
    for quantity in ("flops", "executed_flops", "kv_read_bytes", "kv_read_bytes_min", "kv_write_bytes", "act_bytes"):
        assert rl.count(windowed, step, attention=kernel).total(quantity) == rl.count(
            full, step, attention=kernel
        ).total(quantity)


# A faster machine


@given(models(), steps(), chip_specs(), precisions(), KERNELS, st.sampled_from([2.0, 1024.0, 3.7, 1.01]))
def test_k_times_every_ceiling_is_k_times_as_fast(
    model: rl.Model, step: Step, chip: Spec, precision: rl.Precision, kernel: str, k: float
) -> None:
    slow = timed(model, step, as_chip(chip), precision=precision, attention=kernel)
    fast = timed(model, step, as_chip(times_faster(chip, k)), precision=precision, attention=kernel)
    assert slow.seconds == pytest.approx(k * fast.seconds, rel=LAST_BITS)
    assert slow.floor_s == pytest.approx(k * fast.floor_s, rel=LAST_BITS)
    assert slow.mfu == pytest.approx(fast.mfu, rel=LAST_BITS)
    assert slow.bound == fast.bound or slow.compute_s == pytest.approx(slow.memory_s, rel=LAST_BITS)


@given(models(), steps(), chip_specs(), precisions(), st.sampled_from([1.0, 1.5, 8.0]))
def test_raising_one_ceiling_never_slows_a_pass(
    model: rl.Model, step: Step, chip: Spec, precision: rl.Precision, k: float
) -> None:
    before = timed(model, step, as_chip(chip), precision=precision)
    more_bandwidth = chip | {"bandwidth": chip["bandwidth"] * k}
    more_flops = times_faster(chip, k) | {"bandwidth": chip["bandwidth"]}
    for better in (more_bandwidth, more_flops):
        after = timed(model, step, as_chip(better), precision=precision)
        assert after.seconds <= before.seconds
        assert after.floor_s <= before.floor_s


@given(deployments(), prompts, contexts, batches, KERNELS)
def test_no_pass_moves_or_computes_faster_than_the_chip_is_rated(
    d: rl.Deployment, prompt: int, context: int, batch: int, kernel: Any
) -> None:
    for t in (
        rl.decode(d, context_tokens=context, batch=batch, attention=kernel),
        rl.prefill(d, prompt_tokens=prompt, n_past=context, batch=batch, attention=kernel),
    ):
        peak = max(d.hardware.peak_flops_per_s(op["run_dtype"]) for op in t.by_op() if op["flops"])
        assert at_most(t.hbm_bytes / t.seconds, d.hardware.hbm_bytes_per_s)
        assert at_most(t.compulsory_bytes / t.floor_s, d.hardware.hbm_bytes_per_s)
        assert at_most(t.executed_flops / t.seconds, peak)


@given(deployments(), prompts, contexts, batches)
def test_no_utilisation_exceeds_one(d: rl.Deployment, prompt: int, context: int, batch: int) -> None:
    for t in (
        rl.decode(d, context_tokens=context, batch=batch),
        rl.prefill(d, prompt_tokens=prompt, n_past=context, batch=batch),
    ):
        assert at_most(t.mbu, 1.0)
        assert at_most(t.mfu, 1.0)


def test_the_slow_int8_units_of_a_b300_do_not_make_attention_look_superhuman() -> None:
    """Found by reading: W8A8 layers run at 0.33 POP/s there, attention at 2.5 PFLOP/s in bf16; a peak is the pass's own."""
    d = rl.Deployment(model=rl.model("llama-3.1-8b"), hardware=rl.hardware("b300-sxm"), weights="w8a8")
    assert rl.prefill(d, prompt_tokens=1_000_000).mfu <= 1.0


# A grid is its points


def equal_bits(grid: Any, points: Any) -> bool:
    got, wanted = np.asarray(grid), np.asarray(points)
    return got.shape == wanted.shape and got.dtype == wanted.dtype == np.float64 and got.tobytes() == wanted.tobytes()


def point_by_point(
    ask: Callable[[Any, Any], rl.Timing], first: Sequence[int], second: Sequence[int], name: str, kind: Any
) -> NDArray[np.float64]:
    """The quantity at every (first, second), one call a point, as `kind` (0-d array, float or int) of each number."""
    return np.array([[float(getattr(ask(kind(a), kind(b)), name)) for b in second] for a in first])


def zero_d(x: int) -> NDArray[np.float64]:
    return np.array(float(x))


def asks(d: rl.Deployment, kernel: Any) -> tuple[Callable[[Any, Any], rl.Timing], ...]:
    return (
        lambda a, b: rl.decode(d, context_tokens=b, batch=a + 1, attention=kernel),
        lambda a, b: rl.prefill(d, prompt_tokens=b + 1, batch=a + 1, attention=kernel),
        lambda a, b: rl.prefill(d, prompt_tokens=a + 1, n_past=b, batch=3, attention=kernel),
    )


few_numbers = st.lists(st.integers(0, 20_000), min_size=1, max_size=3)


@given(deployments(), few_numbers, few_numbers, KERNELS, st.sampled_from(SCALARS))
def test_a_grid_equals_its_points_bit_for_bit(
    d: rl.Deployment, first: list[int], second: list[int], kernel: str, name: str
) -> None:
    """Shapes (n, 1) and (1, m); points as 0-d arrays, as floats and as ints."""
    for ask in asks(d, kernel):
        grid = getattr(ask(np.array(first, float)[:, None], np.array(second, float)[None, :]), name)
        for kind in (zero_d, float, int):
            assert equal_bits(grid, point_by_point(ask, first, second, name, kind))


@FEW
@given(
    deployments(),
    few_numbers,
    few_numbers,
    KERNELS,
    st.sampled_from([(101, 991), (400, 250, 1, 2), (1, 100_003), (200_005,)]),
)
def test_a_grid_above_100000_points_equals_its_points_bit_for_bit(
    d: rl.Deployment, first: list[int], second: list[int], kernel: str, shape: tuple[int, ...]
) -> None:
    """Large grids are evaluated in blocks; repeated points must not feel where a block begins."""
    rows = np.resize(np.array(first, float), shape[0]).reshape(-1, *(1 for _ in shape[1:]))
    columns = np.resize(np.array(second, float), shape[1:] or shape)
    pick = np.broadcast_arrays(
        np.resize(np.arange(len(first)), shape[0]).reshape(rows.shape),
        np.resize(np.arange(len(second)), shape[1:] or shape),
    )
    assert math.prod(np.broadcast_shapes(rows.shape, columns.shape)) > 100_000
    for ask in asks(d, kernel):
        timing = ask(rows, columns)
        for name in SCALARS:
            points = point_by_point(ask, first, second, name, float)
            assert equal_bits(getattr(timing, name), points[pick[0], pick[1]])


@given(models(), chips(), precisions(), KERNELS, st.lists(seqs(), min_size=1, max_size=4))
def test_a_grid_over_every_field_of_a_pass_equals_its_points_bit_for_bit(
    model: rl.Model, chip: rl.Hardware, precision: rl.Precision, kernel: str, points: list[rl.Seqs]
) -> None:
    fields = ("n_seq", "n_new", "n_past", "n_shared", "n_logits")
    together = rl.Seqs(**{f: np.array([getattr(p, f) for p in points]) for f in fields})
    beside = rl.Seqs(n_seq=2, n_new=1, n_past=77)  # the same second part with every point
    grid = timed(model, (together, beside), chip, precision=precision, attention=kernel)
    for i, point in enumerate(points):
        as_zero_d = rl.Seqs(**{f: np.array(getattr(point, f)) for f in fields})
        for one in (point, as_zero_d):
            t = timed(model, (one, beside), chip, precision=precision, attention=kernel)
            for name in SCALARS:
                assert float(np.asarray(getattr(grid, name))[i]) == float(getattr(t, name))


@given(deployments(), contexts, batches)
def test_scalars_in_are_scalars_out(d: rl.Deployment, context: int, batch: int) -> None:
    t = rl.decode(d, context_tokens=context, batch=batch)
    for name in (*SCALARS, "executed_flops", "compulsory_bytes", "compute_s", "memory_s", "intensity", "mfu", "mbu"):
        assert type(getattr(t, name)) is float, name
    assert type(t.bound) is str


# A pass and its parts


@given(models(), st.lists(seqs(), min_size=2, max_size=4), st.data(), chips(), precisions(), KERNELS)
def test_a_mixed_pass_costs_at_least_either_part_and_at_most_their_sum(
    model: rl.Model, parts: list[rl.Seqs], data: st.DataObject, chip: rl.Hardware, precision: rl.Precision, kernel: str
) -> None:
    cut = data.draw(st.integers(1, len(parts) - 1))
    mixed, left, right = (
        timed(model, tuple(step), chip, precision=precision, attention=kernel)
        for step in (parts, parts[:cut], parts[cut:])
    )
    for name in ("seconds", "floor_s", "hbm_bytes", "compulsory_bytes", "flops"):
        whole, one, other = (getattr(t, name) for t in (mixed, left, right))
        assert at_most(max(one, other), whole)
        assert at_most(whole, one + other)


@given(models(), st.lists(seqs(), min_size=2, max_size=4), chips(), KERNELS)
def test_the_order_of_the_parts_does_not_matter(
    model: rl.Model, parts: list[rl.Seqs], chip: rl.Hardware, kernel: str
) -> None:
    forth, back = (timed(model, tuple(step), chip, attention=kernel) for step in (parts, parts[::-1]))
    assert forth.flops == back.flops
    assert forth.hbm_bytes == back.hbm_bytes
    assert forth.seconds == pytest.approx(back.seconds, rel=LAST_BITS)


@given(models(), st.integers(1, 8), st.integers(1, 8), seqs(), chips(), KERNELS)
def test_alike_sequences_are_one_part_or_several(
    model: rl.Model, some: int, more: int, like: rl.Seqs, chip: rl.Hardware, kernel: Any
) -> None:
    """Without a shared prefix, which is shared within a part."""
    a, b, both = (
        rl.Seqs(n_seq=n, n_new=like.n_new, n_past=like.n_past, n_logits=like.n_logits)
        for n in (some, more, some + more)
    )
    for quantity in ("flops", "executed_flops", "streamed_bytes", "compulsory_bytes", "weight_bytes"):
        split, joined = (rl.count(model, step, attention=kernel).total(quantity) for step in ((a, b), (both,)))
        assert split == joined


chunkings = st.lists(st.integers(1, 700), min_size=1, max_size=6)


@given(models(), chunkings, st.integers(0, 5000), st.integers(1, 8))
def test_chunking_a_prompt_conserves_its_flops(model: rl.Model, chunks: list[int], n_past: int, n_seq: int) -> None:
    """Logits are asked of the last chunk only."""
    starts = [n_past + sum(chunks[:i]) for i in range(len(chunks))]
    pieces = [
        rl.count(model, rl.Seqs(n_seq=n_seq, n_new=new, n_past=old, n_logits=float(i == len(chunks) - 1)))
        for i, (new, old) in enumerate(zip(chunks, starts, strict=True))
    ]
    whole = rl.count(model, rl.Seqs(n_seq=n_seq, n_new=sum(chunks), n_past=n_past, n_logits=1))
    assert sum(p.flops for p in pieces) == whole.flops
    assert sum(p.executed_flops for p in pieces) == whole.executed_flops
    assert sum(p.kv_write_bytes for p in pieces) == whole.kv_write_bytes
    assert sum(p.n_tokens for p in pieces) == whole.n_tokens


@given(models(), chunkings, chips(), precisions())
def test_chunking_a_prompt_never_saves_time(
    model: rl.Model, chunks: list[int], chip: rl.Hardware, precision: rl.Precision
) -> None:
    starts = [sum(chunks[:i]) for i in range(len(chunks))]
    last = len(chunks) - 1
    pieces = [
        timed(model, rl.Seqs(n_seq=1, n_new=t, n_past=s, n_logits=float(i == last)), chip, precision=precision)
        for i, (t, s) in enumerate(zip(chunks, starts, strict=True))
    ]
    whole = timed(model, rl.Seqs(n_seq=1, n_new=sum(chunks)), chip, precision=precision)
    assert at_most(whole.seconds, sum(p.seconds for p in pieces))
    assert at_most(whole.floor_s, sum(p.floor_s for p in pieces))


@given(models(), seqs(), precisions(), KERNELS)
def test_wanting_no_logits_removes_the_head_s_flops_and_nothing_else_s(
    model: rl.Model, like: rl.Seqs, precision: rl.Precision, kernel: Any
) -> None:
    """2 · D · V for each position whose logits are wanted."""
    none, all_of_them = (
        rl.count(
            model,
            rl.Seqs(n_seq=like.n_seq, n_new=like.n_new, n_past=like.n_past, n_logits=n),
            precision=precision,
            attention=kernel,
        )
        for n in (0, like.n_new)
    )
    width = model.embedding.width or model.d_model
    assert all_of_them.flops - none.flops == 2 * like.n_seq * like.n_new * width * model.vocab_size
    assert [op.flops for op in none.ops if op.kind == "head"] == [0]
    assert [op.flops for op in none.ops if op.kind != "head"] == [
        op.flops for op in all_of_them.ops if op.kind != "head"
    ]


@given(models(), seqs(), chips())
def test_a_pass_that_wants_no_logits_need_not_read_the_head(model: rl.Model, like: rl.Seqs, chip: rl.Hardware) -> None:
    """A chunk that is not the last: an engine that skips the head moves D · V · 2 B less, so the floor may not have them."""
    silent, speaking = (
        timed(model, rl.Seqs(n_seq=like.n_seq, n_new=like.n_new, n_past=like.n_past, n_logits=n), chip) for n in (0, 1)
    )
    width = model.embedding.width or model.d_model
    head_bytes = 2 * width * model.vocab_size + 2 * model.head_matrix.n_biases
    assert speaking.compulsory_bytes - silent.compulsory_bytes == head_bytes


# Pairs


def pairs_by_loop(n_new: int, n_past: int, window: int | None) -> int:
    """Each query sees itself and what came before it, within the window."""
    reach = math.inf if window is None else window
    return int(sum(min(n_past + i, reach) for i in range(1, n_new + 1)))


@given(st.integers(1, 600), st.integers(0, 900), windows)
@example(n_new=5, n_past=0, window=5)  # the last query fills the window
@example(n_new=6, n_past=0, window=5)  # the last query is the first to lose a key
@example(n_new=5, n_past=3, window=4)  # the first query fills it
@example(n_new=5, n_past=4, window=4)  # the cache alone does
@example(n_new=5, n_past=99, window=4)  # longer past than the window
@example(n_new=3, n_past=7, window=1)  # a query sees itself only
def test_the_closed_form_of_pairs_equals_the_loop(n_new: int, n_past: int, window: int | None) -> None:
    closed = pairs(Sight(window), n_new=float(n_new), n_past=float(n_past))
    assert closed == pairs_by_loop(n_new, n_past, window)
    on_grid = pairs(Sight(window), n_new=np.array([float(n_new)]), n_past=np.array([float(n_past)]))
    assert np.asarray(on_grid).tolist() == [closed]


@given(st.integers(1, 50), st.integers(0, 80), st.none() | st.integers(1, 60))
def test_the_past_a_pass_sees_is_what_any_of_its_queries_sees(n_new: int, n_past: int, window: int | None) -> None:
    reach = n_past + n_new if window is None else window
    visible = {key for query in range(n_past, n_past + n_new) for key in range(max(0, query - reach + 1), query + 1)}
    past = len([key for key in visible if key < n_past])
    assert seen(Sight(window), n_past=float(n_past)) == past


@given(chunkings, st.integers(0, 5000), windows)
def test_chunking_conserves_visible_pairs(chunks: list[int], n_past: int, window: int | None) -> None:
    starts = [float(n_past + sum(chunks[:i])) for i in range(len(chunks))]
    pieces = [pairs(Sight(window), n_new=float(t), n_past=s) for t, s in zip(chunks, starts, strict=True)]
    assert sum(pieces) == pairs(Sight(window), n_new=float(sum(chunks)), n_past=float(n_past))


@given(st.integers(1, 6), st.integers(1, 4), st.integers(0, 12), st.data(), st.none() | st.integers(1, 9))
def test_a_shared_prefix_is_read_once_by_all_who_see_it(
    n_seq: int, n_new: int, n_past: int, data: st.DataObject, window: int | None
) -> None:
    """Every (sequence, position) by hand; positions of the shared prefix belong to no sequence."""
    n_shared = data.draw(st.integers(0, n_past))
    reach = n_past + n_new if window is None else window
    seen = {
        (None if key < n_shared else sequence, key)
        for sequence in range(n_seq)
        for query in range(n_past, n_past + n_new)
        for key in range(max(0, query - reach + 1), n_past)
    }
    mixer = {"kind": "attention", "n_heads": 1, "n_kv_heads": 1, "d_head": 1, "window": window}
    model = as_model(ONE_LAYER | {"layers": ({"layers": ({"mixer": mixer, "ffn": {"d_ff": 1}},)},)})
    ledger = rl.count(model, rl.Seqs(n_seq=n_seq, n_new=n_new, n_past=n_past, n_shared=n_shared))
    assert ledger.total("kv_read_bytes_min") == 4 * len(seen)  # a key and a value of 2 bytes


ONE_LAYER: Spec = {
    "id": "one",
    "name": "One",
    "dtype": "bf16",
    "d_model": 1,
    "vocab_size": 1,
    "max_context_tokens": 1,
}


@given(models(), seqs(), precisions(), chips())
def test_sharing_a_prefix_never_adds_traffic(
    model: rl.Model, like: rl.Seqs, precision: rl.Precision, chip: rl.Hardware
) -> None:
    plain, half, all_of_it = (
        timed(
            model,
            rl.Seqs(n_seq=like.n_seq, n_new=like.n_new, n_past=like.n_past, n_shared=shared),
            chip,
            precision=precision,
        )
        for shared in (0, like.n_past // 2, like.n_past)
    )
    assert at_most(half.compulsory_bytes, plain.compulsory_bytes)
    assert at_most(all_of_it.compulsory_bytes, half.compulsory_bytes)
    assert plain.flops == half.flops == all_of_it.flops


@given(models(), seqs(max_seq=1), precisions())
def test_one_sequence_has_nobody_to_share_with(model: rl.Model, like: rl.Seqs, precision: rl.Precision) -> None:
    shared, alone = (
        rl.count(model, rl.Seqs(n_seq=1, n_new=like.n_new, n_past=like.n_past, n_shared=n), precision=precision)
        for n in (like.n_past, 0)
    )
    assert shared.compulsory_bytes == alone.compulsory_bytes


# Heads


def by_kind(ledger: rl.Ledger, kind: str, quantity: str) -> float:
    return float(sum(op.repeat * getattr(op, quantity) for op in ledger.ops if op.kind == kind))


def hand_counted(spec: Spec, step: Step, *, kv_heads: Callable[[Spec], int]) -> dict[str, float]:
    """Attention by the book, KV heads as told: projections, scores and cache of every layer (2-byte elements)."""
    out = dict.fromkeys(("proj_flops", "core_flops", "kv_read_bytes", "kv_write_bytes"), 0.0)
    for group in spec["layers"]:
        for layer in group["layers"]:
            mixer, d_model, n = layer["mixer"], spec["d_model"], group["repeat"]
            heads, d_head, k = mixer["n_heads"], mixer["d_head"], kv_heads(mixer)
            for part in step:
                tokens = part.n_seq * part.n_new
                pairs = part.n_seq * pairs_by_loop(int(part.n_new), int(part.n_past), mixer["window"])
                past = part.n_past if mixer["window"] is None else min(part.n_past, mixer["window"] - 1)
                out["proj_flops"] += n * tokens * d_model * d_head * (4 * heads + 4 * k)  # q, o; k, v
                out["core_flops"] += n * pairs * heads * d_head * 4  # Q·Kᵀ and A·V
                out["kv_read_bytes"] += n * part.n_seq * past * 4 * k * d_head
                out["kv_write_bytes"] += n * tokens * 4 * k * d_head
    return out


def library_counted(model: rl.Model, step: Step) -> dict[str, float]:
    ledger = rl.count(model, step)
    projections = [op for op in ledger.ops if op.name.split(".")[-1] in ("q_proj", "k_proj", "v_proj", "o_proj")]
    return {
        "proj_flops": float(sum(op.repeat * op.flops for op in projections)),
        "core_flops": by_kind(ledger, "attention", "flops"),
        "kv_read_bytes": by_kind(ledger, "attention", "kv_read_bytes"),
        "kv_write_bytes": by_kind(ledger, "attention", "kv_write_bytes"),
    }


@given(model_specs(), steps(max_parts=2))
def test_groups_of_one_are_multi_head_attention(spec: Spec, step: Step) -> None:
    mha = as_model(with_mixers(spec, n_kv_heads=lambda mixer: mixer["n_heads"]))
    assert library_counted(mha, step) == hand_counted(spec, step, kv_heads=lambda mixer: mixer["n_heads"])


@given(model_specs(), steps(max_parts=2))
def test_one_group_is_multi_query_attention(spec: Spec, step: Step) -> None:
    mqa = as_model(with_mixers(spec, n_kv_heads=1))
    assert library_counted(mqa, step) == hand_counted(spec, step, kv_heads=lambda mixer: 1)


@given(model_specs(), steps(max_parts=2))
def test_grouping_queries_changes_the_cache_and_not_the_scores(spec: Spec, step: Step) -> None:
    mqa, gqa = as_model(with_mixers(spec, n_kv_heads=1)), as_model(spec)
    assert library_counted(gqa, step) == hand_counted(spec, step, kv_heads=lambda mixer: mixer["n_kv_heads"])
    assert library_counted(gqa, step)["core_flops"] == library_counted(mqa, step)["core_flops"]


@given(model_specs(), steps(), KERNELS)
def test_tied_and_untied_heads_have_equal_flops(spec: Spec, step: Step, kernel: Any) -> None:
    tied, untied = (as_model(spec | {"head": spec["head"] | {"tied": tied}}) for tied in (True, False))
    one, two = rl.count(tied, step, attention=kernel), rl.count(untied, step, attention=kernel)
    assert one.flops == two.flops
    assert one.executed_flops == two.executed_flops
    assert one.weight_bytes == two.weight_bytes
    width = spec["embedding"].get("width", spec["d_model"])
    assert two.resident_bytes - one.resident_bytes == 2 * width * spec["vocab_size"]
    assert untied.n_params - tied.n_params == width * spec["vocab_size"]


# Formats

ROLES = ("q", "k", "v", "o", "gate", "up", "down", "embedding", "positions", "head", "project_in", "project_out")
PLAIN = as_model(
    ONE_LAYER
    | {"layers": ({"layers": ({"mixer": {"n_heads": 1, "n_kv_heads": 1, "d_head": 1}, "ffn": {"d_ff": 1}},)},)}
)


def narrower_at_the_same_arithmetic() -> list[tuple[str, str]]:
    """(narrow, wide): no tensor takes more bits, and every product runs in the same dtype (a bf16 checkpoint)."""
    known = {name: rl.Precision(weights=name).of(PLAIN) for name in FORMAT_NAMES}
    return [
        (a, b)
        for a in known
        for b in known
        if a != b
        and all(known[a].bytes_per_element(role) <= known[b].bytes_per_element(role) for role in ROLES)
        and all(known[a].compute(role) == known[b].compute(role) for role in ROLES)
        and known[a].dense == known[b].dense
    ]


NARROWER = narrower_at_the_same_arithmetic()


def test_there_are_formats_to_compare() -> None:
    assert {("awq", "int8"), ("int8", "bf16"), ("q4_0", "q8_0"), ("mlx-4bit", "mlx-8bit"), ("fp8", "fp8-block")} <= set(
        NARROWER
    )
    assert ("int8", "awq") not in NARROWER


@given(models(dtypes=("bf16",)), steps(), chips(), st.sampled_from(NARROWER), KERNELS)
def test_fewer_weight_bits_at_the_same_compute_dtype_never_slow_anything(
    model: rl.Model, step: Step, chip: rl.Hardware, pair: tuple[str, str], kernel: str
) -> None:
    narrow, wide = (
        timed(model, step, chip, precision=rl.Precision(weights=name, kv="bf16"), attention=kernel) for name in pair
    )
    assert at_most(narrow.seconds, wide.seconds)
    assert at_most(narrow.hbm_bytes, wide.hbm_bytes)
    assert narrow.flops == wide.flops
    held = [rl.count(model, step, precision=rl.Precision(weights=name)).resident_bytes for name in pair]
    assert at_most(held[0], held[1])


@given(
    models(), steps(), chips(), st.sampled_from([("fp8", "bf16"), ("q4_0", "q8_0"), ("q8_0", "fp16"), ("fp16", "bf16")])
)
def test_fewer_cache_bits_never_slow_anything(
    model: rl.Model, step: Step, chip: rl.Hardware, pair: tuple[str, str]
) -> None:
    narrow, wide = (timed(model, step, chip, precision=rl.Precision(kv=name)) for name in pair)
    assert narrow.seconds <= wide.seconds
    assert narrow.floor_s <= wide.floor_s


@given(models(dtypes=("bf16", "fp16")))
def test_resident_bytes_are_two_for_every_parameter_in_16_bit(model: rl.Model) -> None:
    assert rl.count(model, rl.Seqs(n_seq=1, n_new=1)).resident_bytes == 2 * model.n_params


@given(models(dtypes=("fp32",)))
def test_resident_bytes_are_four_for_every_parameter_in_fp32(model: rl.Model) -> None:
    assert rl.count(model, rl.Seqs(n_seq=1, n_new=1)).resident_bytes == 4 * model.n_params


# Kernels


@given(models(), steps(), chips(), precisions())
def test_eager_attention_never_moves_less_or_runs_faster_than_flash(
    model: rl.Model, step: Step, chip: rl.Hardware, precision: rl.Precision
) -> None:
    flash = rl.count(model, step, precision=precision, attention="flash")
    eager = rl.count(model, step, precision=precision, attention="eager")
    assert flash.flops == eager.flops
    assert flash.executed_flops == flash.flops <= eager.executed_flops
    assert flash.streamed_bytes < eager.streamed_bytes
    assert flash.compulsory_bytes == eager.compulsory_bytes
    assert rl.clock(flash, chip).seconds <= rl.clock(eager, chip).seconds


# Whole requests


@given(deployments(), st.integers(1, 20_000), st.integers(2, 24), st.integers(1, 64))
def test_tpot_is_the_mean_of_every_decode_pass(d: rl.Deployment, prompt: int, n_out: int, batch: int) -> None:
    """N tokens: one prefill, and N − 1 passes with prompt … prompt + N − 2 in the cache."""
    p = rl.predict(d, prompt_tokens=prompt, output_tokens=n_out, batch=batch)
    passes = [rl.decode(d, context_tokens=prompt + i, batch=batch) for i in range(n_out - 1)]
    for whole, name in ((p.tpot_s, "seconds"), (p.tpot_floor_s, "floor_s")):
        mean = math.fsum(getattr(t, name) for t in passes) / (n_out - 1)
        assert whole == pytest.approx(mean, rel=1e-9)
    first = rl.prefill(d, prompt_tokens=prompt, batch=batch)
    assert p.ttft_s == first.seconds
    assert p.e2e_s == pytest.approx(first.seconds + math.fsum(t.seconds for t in passes), rel=1e-9)
    assert p.e2e_floor_s <= p.e2e_s * (1 + LAST_BITS)


@given(deployments(), st.integers(1, 20_000), st.integers(1, 64))
def test_one_output_token_has_no_tpot(d: rl.Deployment, prompt: int, batch: int) -> None:
    p = rl.predict(d, prompt_tokens=prompt, output_tokens=1, batch=batch)
    assert (p.tpot_s, p.tpot_floor_s, p.tpot_bound, p.tokens_per_s, p.decode) == (None, None, None, None, None)
    assert p.e2e_s == p.ttft_s == rl.prefill(d, prompt_tokens=prompt, batch=batch).seconds


@given(deployments(), few_numbers, few_numbers, st.integers(1, 9))
def test_a_grid_of_requests_equals_its_points(
    d: rl.Deployment, first: list[int], second: list[int], n_out: int
) -> None:
    prompt, batch = np.array(first)[:, None] + 1, np.array(second)[None, :] + 1
    grid = rl.predict(d, prompt_tokens=prompt, output_tokens=n_out, batch=batch)
    for i, a in enumerate(first):
        for j, b in enumerate(second):
            point = rl.predict(d, prompt_tokens=a + 1, output_tokens=n_out, batch=b + 1)
            for name in ("ttft_s", "tpot_s", "e2e_s", "ttft_floor_s", "tpot_floor_s", "tokens_per_s"):
                on_grid, alone = getattr(grid, name), getattr(point, name)
                assert (on_grid is None) == (alone is None) == (n_out == 1 and "t" in name and name in NEEDS_DECODE)
                if alone is not None:
                    assert np.shape(on_grid) == (len(first), len(second))
                    assert on_grid[i, j] == pytest.approx(alone, rel=LAST_BITS)


NEEDS_DECODE = ("tpot_s", "tpot_floor_s", "tokens_per_s")


# The cache


@given(models(), precisions(), contexts, st.integers(0, 200_000), batches)
def test_the_cache_never_shrinks_with_context_or_batch(
    model: rl.Model, precision: rl.Precision, context: int, more: int, batch: int
) -> None:
    kv = precision.kv
    here = rl.kv_bytes(model, context_tokens=context, batch=batch, kv=kv)
    assert here <= rl.kv_bytes(model, context_tokens=context + more, batch=batch, kv=kv)
    assert here <= rl.kv_bytes(model, context_tokens=context, batch=batch + more, kv=kv)
    assert here <= rl.kv_bytes(model, context_tokens=context, batch=batch, kv=kv, policy="allocated")
    assert here == batch * rl.kv_bytes(model, context_tokens=context, kv=kv)


@given(model_specs(windows=st.integers(1, 5000)), contexts, batches)
def test_windows_cap_the_cache(spec: Spec, context: int, batch: int) -> None:
    widest = max(layer["mixer"]["window"] for group in spec["layers"] for layer in group["layers"])
    model = as_model(spec)
    full = rl.kv_bytes(model, context_tokens=widest, batch=batch)
    assert rl.kv_bytes(model, context_tokens=widest + context, batch=batch) == full


@given(model_specs(windows=st.none()), contexts, batches)
def test_without_windows_the_cache_is_proportional_to_context(spec: Spec, context: int, batch: int) -> None:
    model = as_model(spec)
    per_token = sum(
        group["repeat"] * 2 * layer["mixer"]["n_kv_heads"] * layer["mixer"]["d_head"] * 2  # K and V, 2 B each
        for group in spec["layers"]
        for layer in group["layers"]
    )
    assert rl.kv_bytes(model, context_tokens=context, batch=batch) == batch * context * per_token
    assert rl.kv_bytes(model, context_tokens=context, batch=batch, policy="allocated") == batch * context * per_token


@given(models(), chips(), precisions(), contexts, batches)
def test_what_is_said_to_fit_fits_and_one_more_does_not(
    model: rl.Model, chip: rl.Hardware, precision: rl.Precision, context: int, batch: int
) -> None:
    d = rl.Deployment(model=model, hardware=chip, precision=precision)
    m = rl.memory(d, context_tokens=context, batch=batch)
    assert m.fits == (m.short_by_bytes == 0) == (m.weight_bytes + m.kv_bytes <= chip.memory_bytes)
    assert m.short_by_bytes == max(0, m.weight_bytes + m.kv_bytes - chip.memory_bytes)
    limit = model.max_context_tokens
    assert 0 <= m.max_context_tokens <= limit
    if m.max_context_tokens >= 1:
        assert rl.memory(d, context_tokens=m.max_context_tokens, batch=batch).fits
    if m.max_context_tokens < limit:
        assert not rl.memory(d, context_tokens=m.max_context_tokens + 1, batch=batch).fits
    if context >= 1 and m.max_batch < 1e12:
        assert m.max_batch < 1 or rl.memory(d, context_tokens=context, batch=m.max_batch).fits
        assert not rl.memory(d, context_tokens=context, batch=m.max_batch + 1).fits


@given(models(), steps(), chips(), precisions(), efficiencies(), KERNELS)
def test_the_rows_of_a_pass_add_up_to_its_totals(
    model: rl.Model, step: Step, chip: rl.Hardware, precision: rl.Precision, efficiency: rl.Efficiency, kernel: str
) -> None:
    t = timed(model, step, chip, precision=precision, attention=kernel, efficiency=efficiency)
    rows = t.by_op()
    for total, column in ((t.seconds, "seconds"), (t.compute_s, "compute_s"), (t.memory_s, "memory_s")):
        assert math.fsum(row[column] for row in rows) == pytest.approx(total, rel=LAST_BITS)
    assert math.fsum(row["executed_flops"] for row in rows) == pytest.approx(t.executed_flops, rel=LAST_BITS)
    assert math.fsum(row["streamed_bytes"] for row in rows) == pytest.approx(t.hbm_bytes, rel=LAST_BITS)
    assert len({row["name"] for row in rows}) == len(rows)


# An answer is a value


def test_an_answer_does_not_change_when_its_caller_reuses_an_array() -> None:
    """Answers are worked out when first asked for, so what they were asked about must be theirs."""
    d = rl.Deployment(model=rl.model("llama-3.1-8b"), hardware=rl.hardware("h100-sxm-80gb"))
    context = np.array([1000.0, 2000.0])
    expected = np.asarray(rl.decode(d, context_tokens=context.copy(), batch=8).seconds)
    late = rl.decode(d, context_tokens=context, batch=8)
    context[:] = 1e6
    assert np.asarray(late.seconds).tolist() == expected.tolist()
