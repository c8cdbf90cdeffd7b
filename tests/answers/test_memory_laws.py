"""Laws of what is held and what an engine sets aside, for any model, engine, chip and plan."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from strategies import models, precisions
from zoo import KINDS, RECURRENT, zoo_models

import roofline as rl
from roofline.answers.memory import Memory
from roofline.specs import catalog
from roofline.specs.engine import Engine
from roofline.specs.offload import Offload

GIB = 2**30
H100 = rl.hardware("h100-sxm-80gb")
NAMED = tuple(catalog.engine(name) for name in catalog.engine_ids())
BY_SHARE = tuple(e for e in NAMED if e.id not in ("ideal", "llama.cpp"))  # that take a fraction by default
IDEAL = catalog.engine("ideal")

ENGINES = st.sampled_from(NAMED)
CONTEXTS = st.integers(1, 20_000)
BATCHES = st.integers(1, 400)
FRACTIONS = st.sampled_from([0.01, 0.3, 0.5, 0.9, 0.92, 1.0])
CHIPS = st.integers(2, 64).map(lambda gib: of_size(gib * GIB))
NO_STATES = tuple(k for k in KINDS if k not in (*RECURRENT, "pair"))
DECODERS = ("decoder", "seeing", "hearing", "translating", "crossing")
ANY = models() | zoo_models(bodies=DECODERS)
STATELESS = models() | zoo_models(mixers=NO_STATES, bodies=DECODERS)


def of_size(size: float) -> rl.Hardware:
    """An H100 with another memory [B]."""
    return H100.model_copy(update={"memory": H100.memory.model_copy(update={"capacity_bytes": float(size)})})


def asked(
    model: rl.Model, engine: Engine = IDEAL, *, context: Any, batch: Any = 1, shared: Any = 0, **more: Any
) -> Memory:
    d = rl.Deployment(**({"model": model, "hardware": H100, "engine": engine} | more))
    outputs = 9 if model.remembers else None
    return rl.memory(d, context_tokens=context, batch=batch, shared_tokens=shared, memory_tokens=outputs)


def small(engine: Engine) -> Engine:
    """The engine with short passes of few sequences, so that a small chip has room besides."""
    return engine.varied(batch_tokens=64, max_seqs=8)


# Plans of models people run: whatever divides

PLANS = [
    ("llama-3.1-8b", rl.Plan(tp=2)),
    ("llama-3.1-8b", rl.Plan(pp=3)),
    ("llama-3.1-8b", rl.Plan(dp=3)),
    ("llama-3.1-8b", rl.Plan(cp=4)),
    ("llama-3.2-1b", rl.Plan(pp=2, tp=2)),
    ("llama-3-70b", rl.Plan(tp=16)),
    ("gemma-3-27b", rl.Plan(tp=4, pp=2)),
    ("gpt-oss-120b", rl.Plan(tp=2, dp=2, ep=4)),
    ("qwen3-30b-a3b", rl.Plan(dp=4, ep=4)),
    ("qwen3.5-27b", rl.Plan(tp=2, pp=2)),
    ("nemotron-h-8b", rl.Plan(tp=8)),
    ("deepseek-v3", rl.Plan(tp=8)),
    ("deepseek-v3", rl.Plan(dp=8, ep=8)),
    ("deepseek-v3", rl.Plan(tp=4, dp=2, pp=3, ep=8)),
    ("deepseek-v4-flash", rl.Plan(tp=2, ep=2)),
    ("qwen2-vl-7b", rl.Plan(tp=4)),
]
PLANNED = st.sampled_from([(rl.model(name), plan) for name, plan in PLANS])


@given(PLANNED, ENGINES, CONTEXTS, BATCHES)
def test_the_fullest_chip_times_the_chips_holds_the_whole(
    planned: tuple[rl.Model, rl.Plan], engine: Engine, context: int, batch: int
) -> None:
    model, plan = planned
    m = asked(model, engine, context=context, batch=batch, plan=plan)
    assert m.used_bytes_per_chip * plan.n_chips >= m.used_bytes * (1 - 1e-12)
    assert m.weight_bytes_per_chip <= m.weight_bytes
    assert m.kv_bytes_per_chip <= m.kv_bytes


@given(PLANNED, ENGINES, CONTEXTS, BATCHES)
def test_pages_never_shrink_what_a_chip_holds(
    planned: tuple[rl.Model, rl.Plan], engine: Engine, context: int, batch: int
) -> None:
    m = asked(planned[0], engine, context=context, batch=batch, plan=planned[1])
    assert m.allocated_kv_bytes_per_chip >= (m.kv_bytes_per_chip + m.state_bytes_per_chip) * (1 - 1e-12)
    assert m.allocated_bytes_per_chip >= m.used_bytes_per_chip * (1 - 1e-12)


@given(PLANNED, ENGINES, CONTEXTS)
def test_what_fits_on_a_plan_is_up_to_its_largest_batch(
    planned: tuple[rl.Model, rl.Plan], engine: Engine, context: int
) -> None:
    model, plan = planned
    most = asked(model, engine, context=context, plan=plan, weights="int4").max_batch
    for batch, fits in ((most, True), (most + plan.dp, False)):
        if 1 <= batch < 1e12:
            assert asked(model, engine, context=context, batch=batch, plan=plan, weights="int4").fits is fits


# One chip, any model


@given(ANY, precisions(), ENGINES, CONTEXTS, BATCHES, st.integers(0, 20_000))
def test_pages_never_shrink_memory(
    model: rl.Model, precision: rl.Precision, engine: Engine, context: int, batch: int, shared: int
) -> None:
    m = asked(model, engine, context=context, batch=batch, shared=min(shared, context), precision=precision)
    assert m.allocated_kv_bytes_per_chip >= (m.kv_bytes_per_chip + m.state_bytes_per_chip) * (1 - 1e-12)


@given(STATELESS, ENGINES, CONTEXTS, BATCHES, st.sampled_from([1, 16, 48, 64]), st.integers(2, 5))
def test_a_page_of_several_never_takes_less(
    model: rl.Model, engine: Engine, context: int, batch: int, page: int, times: int
) -> None:
    """Of models with recurrent layers a page grows until a state fits in, so that sizes do not divide each other."""
    sizes = [
        asked(model, engine.varied(page_tokens=p), context=context, batch=batch).allocated_kv_bytes_per_chip
        for p in (page, times * page)
    ]
    assert sizes[0] <= sizes[1] * (1 + 1e-12)


@given(ANY, ENGINES, CONTEXTS, BATCHES, st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_a_shared_beginning_never_takes_more_and_is_never_free(
    model: rl.Model, engine: Engine, context: int, batch: int, one: float, other: float
) -> None:
    less, more = sorted((int(one * context), int(other * context)))
    apart, some, much = (asked(model, engine, context=context, batch=batch, shared=n) for n in (0, less, more))
    alone = asked(model, engine, context=context)
    for name in ("kv_bytes", "kv_bytes_per_chip", "used_bytes", "used_bytes_per_chip", "allocated_kv_bytes_per_chip"):
        sizes = [getattr(m, name) for m in (apart, some, much, alone)]
        assert sizes == sorted(sizes, reverse=True), name
    assert apart.max_batch <= some.max_batch <= much.max_batch


@given(ANY, ENGINES, CHIPS, CONTEXTS, st.floats(0.0, 1.0))
def test_what_fits_is_up_to_the_largest_batch(
    model: rl.Model, engine: Engine, chip: rl.Hardware, context: int, share: float
) -> None:
    how = {"context": context, "shared": int(share * context), "hardware": chip}
    most = asked(model, small(engine), **how).max_batch
    for batch, fits in ((most, True), (most + 1, False)):
        if 1 <= batch < 1e12:
            assert asked(model, small(engine), batch=batch, **how).fits is fits


@given(ANY, ENGINES, CHIPS, BATCHES, CONTEXTS, st.integers(0, 5000))
def test_what_fits_is_up_to_the_longest_context(
    model: rl.Model, engine: Engine, chip: rl.Hardware, batch: int, context: int, shared: int
) -> None:
    shared = min(shared, context)
    m = asked(model, small(engine), context=context, batch=batch, shared=shared, hardware=chip)
    longest = m.max_context_tokens
    assert longest <= model.max_context_tokens
    if context <= model.max_context_tokens:
        assert m.fits is (context <= longest)
    for length, fits in ((longest, True), (longest + 1, False)):
        if max(shared, 1) <= length <= model.max_context_tokens:
            again = asked(model, small(engine), context=length, batch=batch, shared=shared, hardware=chip)
            assert again.fits is fits


@given(ANY, ENGINES, CHIPS, CONTEXTS, FRACTIONS, FRACTIONS)
def test_a_larger_fraction_never_holds_less(
    model: rl.Model, engine: Engine, chip: rl.Hardware, context: int, one: float, other: float
) -> None:
    low, high = (
        asked(model, small(engine).varied(memory_fraction=f), context=context, batch=3, hardware=chip)
        for f in sorted((one, other))
    )
    assert low.max_batch <= high.max_batch
    assert low.max_context_tokens <= high.max_context_tokens
    assert low.kv_tokens <= high.kv_tokens
    assert high.fits or not low.fits
    assert low.short_by_bytes >= high.short_by_bytes


@given(ANY, ENGINES, CHIPS, CONTEXTS, st.integers(2, 5), FRACTIONS)
def test_k_times_the_memory_holds_k_times_the_sequences_and_more(
    model: rl.Model, engine: Engine, chip: rl.Hardware, context: int, k: int, fraction: float
) -> None:
    """Weights are held once, and so is what an engine sets aside; its settings stay."""
    engine = small(engine).varied(memory_fraction=fraction)
    once = asked(model, engine, context=context, hardware=chip).max_batch
    more = asked(model, engine, context=context, hardware=of_size(k * chip.memory_bytes)).max_batch
    assert more >= k * once


@given(ANY, st.sampled_from(NAMED[1:]), CHIPS, CONTEXTS)
def test_no_engine_holds_more_than_the_machine(
    model: rl.Model, engine: Engine, chip: rl.Hardware, context: int
) -> None:
    own, most = (asked(model, e, context=context, batch=2, hardware=chip) for e in (small(engine), IDEAL))
    assert own.max_batch <= most.max_batch
    assert own.max_context_tokens <= most.max_context_tokens
    assert own.kv_budget_bytes_per_chip <= max(most.kv_budget_bytes_per_chip, 0.0)
    assert most.fits or not own.fits


@given(ANY, st.sampled_from([e for e in NAMED if e.pages.windows != "pool"]), CHIPS)
def test_the_tokens_of_a_budget_are_within_it(model: rl.Model, engine: Engine, chip: rl.Hardware) -> None:
    """Where windows have a pool of their own, tokens are those of the full layers, which windows do not hold as many of."""
    m = asked(model, small(engine), context=1, hardware=chip)
    if m.kv_bytes_per_token_per_chip:
        assert m.kv_tokens * m.kv_bytes_per_token_per_chip <= max(m.kv_budget_bytes_per_chip, 0.0) * (1 + 1e-12)


@given(ANY, ENGINES, CHIPS, st.sampled_from(["weights", "kv"]), st.sampled_from([0.0, 0.25, 0.5]), CONTEXTS)
def test_what_is_offloaded_makes_room(
    model: rl.Model, engine: Engine, chip: rl.Hardware, what: Any, fraction: float, context: int
) -> None:
    here, less = (
        asked(model, small(engine), context=context, hardware=chip, offload=Offload(fraction=f, what=what))
        for f in (fraction, fraction + 0.25)
    )
    assert here.max_batch <= less.max_batch
    assert here.used_bytes_per_chip >= less.used_bytes_per_chip
    assert here.used_bytes == less.used_bytes  # the mathematics is the same wherever it lies
    assert less.allocated_kv_bytes_per_chip >= (less.kv_bytes_per_chip + less.state_bytes_per_chip) * (1 - 1e-12)


@given(st.sampled_from(NAMED), st.sampled_from(["weights", "experts"]), st.sampled_from(["bf16", "int4"]))
def test_experts_that_are_offloaded_make_room(engine: Engine, what: Any, weights: str) -> None:
    model, parts = rl.model("qwen3-30b-a3b"), [Offload(fraction=f, what=what) for f in (0.0, 0.2, 0.5, 1.0)]
    sizes = [asked(model, engine, context=4096, weights=weights, offload=part).max_batch for part in parts]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]


@given(ANY, ENGINES, CHIPS)
def test_a_grid_is_its_points(model: rl.Model, engine: Engine, chip: rl.Hardware) -> None:
    contexts, batches, shared = [1, 700], [1, 33], [0, 1]
    grid = asked(
        model, small(engine), hardware=chip,
        context=np.array(contexts)[:, None, None], batch=np.array(batches)[:, None], shared=np.array(shared),
    )  # fmt: skip
    names = (
        "kv_bytes", "used_bytes", "kv_bytes_per_chip", "allocated_kv_bytes_per_chip", "allocated_bytes_per_chip", "fits",
        "short_by_bytes", "max_batch", "max_context_tokens",
    )  # fmt: skip
    whole = {name: np.broadcast_to(getattr(grid, name), (2, 2, 2)) for name in names}
    for i, context in enumerate(contexts):
        for j, batch in enumerate(batches):
            for k, n in enumerate(shared):
                point = asked(model, small(engine), hardware=chip, context=context, batch=batch, shared=n)
                for name in names:
                    value = getattr(point, name)
                    assert isinstance(value, bool if name == "fits" else float), name
                    assert whole[name][i, j, k] == value, name


@given(ANY, ENGINES, CHIPS, CONTEXTS, BATCHES)
def test_what_does_not_fit_lacks_what_it_says(
    model: rl.Model, engine: Engine, chip: rl.Hardware, context: int, batch: int
) -> None:
    m = asked(model, small(engine), context=context, batch=batch, hardware=chip)
    lacking = m.allocated_kv_bytes_per_chip - m.kv_budget_bytes_per_chip
    if m.kv_budget_bytes_per_chip == 0.0:  # the rest may lack room too
        assert m.short_by_bytes >= lacking
    else:
        assert m.short_by_bytes == max(lacking, 0.0)
    assert m.fits is (m.short_by_bytes == 0.0)


# More chips


@given(
    st.sampled_from(["llama-3.1-8b", "llama-3-70b", "qwen2.5-72b", "gemma-3-27b", "qwen3-30b-a3b"]),
    st.sampled_from([e for e in NAMED if e.id != "mlx"]),
    CONTEXTS,
)
def test_more_chips_never_hold_fewer_sequences_while_they_share_kv_heads(
    name: str, engine: Engine, context: int
) -> None:
    model = rl.model(name)
    heads = min(m.n_kv_heads for _, x in model.layer_kinds() for m in x.mixers if m.kind == "attention")
    ways = [tp for tp in (1, 2, 4, 8, 16) if tp <= heads]
    most = [asked(model, engine, context=context, plan=rl.Plan(tp=tp)).max_batch for tp in ways]
    assert most == sorted(most)


@given(st.sampled_from([rl.model("llama-3.1-8b"), rl.model("deepseek-v2-lite")]), ENGINES, CONTEXTS, BATCHES)
def test_ranks_of_dp_hold_so_many_times_the_sequences_of_one(
    model: rl.Model, engine: Engine, context: int, n_each: int
) -> None:
    by_dp = asked(model, engine, context=context, batch=2 * n_each, plan=rl.Plan(dp=2))
    assert by_dp.kv_bytes_per_chip * 2 == by_dp.kv_bytes
    assert by_dp.max_batch % 2 == 0


@given(st.sampled_from(BY_SHARE), st.sampled_from([0.1, 0.5, 0.77]))
def test_a_varied_fraction_is_the_one_that_counts(engine: Engine, fraction: float) -> None:
    for chip in (H100, rl.hardware("m5-max-40c:128GB"), rl.hardware("rtx-3090")):
        assert (
            engine.varied(memory_fraction=fraction).fraction(chip.memory_bytes, on_a_mac=chip.vendor == "Apple")
            == fraction
        )
