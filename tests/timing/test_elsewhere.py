"""Deployments with a part in another memory: two times by hand, and what must hold of any model, chip and share."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import chips
from zoo import zoo_models

import roofline as rl
from roofline.answers.chunks import first_token
from roofline.answers.offload import host_tier, offloaded_pass
from roofline.specs.catalog import engine
from roofline.specs.offload import DRIVES, Offload
from roofline.timing.elsewhere import Elsewhere, Offloaded

EXACT = 1e-12
H100 = rl.hardware("h100-sxm-80gb")  # 3.35 TB/s, and PCIe 5.0 x16: 63.015 GB/s
LLAMA = rl.model("llama-3.1-8b")  # 131,072 B of cache a token
MATRICES = 2 * (
    LLAMA.n_params - 128256 * 4096 - 65 * 4096
)  # the layers' and the head, in bf16; neither table nor norms
LINK = 63.015e9


def away(
    model: str | rl.Model = LLAMA, chip: rl.Hardware = H100, *, plan: rl.Plan | None = None, **offload: Any
) -> rl.Deployment:
    """A model of which something lies elsewhere; rates in B/s and FLOP/s."""
    for name, unit in (("bandwidth", "B/s"), ("host_peak", "FLOP/s")):
        if name in offload:
            offload[name] = f"{offload[name]!r} {unit}"
    held = Offload(**offload) if offload else None
    model = rl.model(model) if isinstance(model, str) else model
    return rl.Deployment(model=model, hardware=chip, plan=plan, offload=held)


def decoded(d: rl.Deployment, *, context: Any = 1000, batch: Any = 1) -> Offloaded:
    t = rl.decode(d, context_tokens=context, batch=batch)
    assert isinstance(t, Offloaded)
    return t


# By hand


def test_half_of_the_weights_cross_the_link_each_pass() -> None:
    t, whole = decoded(away(fraction=0.5)), rl.decode(away(), context_tokens=1000)
    assert t.tier_bytes == MATRICES / 2
    assert t.tier_s == pytest.approx(MATRICES / 2 / LINK, rel=EXACT)
    assert t.device_s == whole.seconds  # copied first, then read as ever
    assert t.seconds == t.device_s + t.tier_s
    assert t.tier_exposed_s == pytest.approx(t.tier_s)
    assert t.bound == "tier"
    assert t.floor_s == pytest.approx(MATRICES / 2 / LINK, rel=EXACT)
    both = decoded(away(fraction=0.5, overlap=True))
    assert both.seconds == t.tier_s
    assert both.tier_exposed_s == pytest.approx(t.tier_s - whole.seconds)


def test_a_part_that_is_not_read_from_hbm_is_off_its_floor() -> None:
    """A thousandth of the weights, over a link as fast as memory: 999/1000 and the rest of a decode pass are read there."""
    chip = rl.hardware("gh200-96gb")
    t = decoded(away(chip=chip, fraction=0.001))
    rest = 2 * 65 * 4096 + 2 * 4096 + 1001 * 131072  # norms, a row of the table, cache read and written
    assert t.floor_s == pytest.approx((0.999 * MATRICES + rest) / chip.hbm_bytes_per_s, rel=1e-9)


def test_half_of_a_cache_crosses_as_it_is_read_and_written() -> None:
    t, whole = (decoded(away(fraction=0.5, what="kv"), batch=8), rl.decode(away(), context_tokens=1000, batch=8))
    assert t.tier_bytes == 8 * 1001 * 131072 / 2
    assert t.seconds - whole.seconds == pytest.approx(8 * 1001 * 131072 / 2 / LINK, rel=1e-9)


def test_experts_cross_as_many_as_are_expected() -> None:
    """Qwen3-30B-A3B: 48 layers, 8 of 128 experts of 3 · 2048 · 768 weights. One token reads 8 of them for certain."""
    t = decoded(away("qwen3-30b-a3b", fraction=1.0, what="experts"))
    one = 48 * 3 * 2048 * 768 * 2
    assert t.tier_bytes == 8 * one
    two = decoded(away("qwen3-30b-a3b", fraction=1.0, what="experts"), batch=2)
    distinct = 128 * (1 - (1 - 8 / 128) ** 2)  # two tokens, each 8 of 128
    assert two.tier_bytes == pytest.approx(distinct * one, rel=EXACT)
    assert two.floor_s == pytest.approx(8 * one / LINK, rel=EXACT)  # all may agree


def test_what_the_host_multiplies_never_crosses_the_link() -> None:
    """Of a decode, half of the products at 50 GB/s; the chip does the other half of each. Of a prompt, at 2 TFLOP/s."""
    host: dict[str, Any] = {"fraction": 0.5, "compute": "host", "bandwidth": 50e9}
    t, whole = decoded(away(**host)), rl.decode(away(), context_tokens=1000)
    assert t.tier_s == pytest.approx(MATRICES / 2 / 50e9, rel=EXACT)
    saved = MATRICES / 2 / 3.35e12
    assert whole.seconds - t.device_s == pytest.approx(
        saved, rel=2e-3
    )  # and the rows in and out of half of the products
    prompt = rl.prefill(away(**host, host_peak=2e12), prompt_tokens=512)
    assert isinstance(prompt, Offloaded)
    layers = LLAMA.n_params - 2 * 128256 * 4096 - 65 * 4096
    assert prompt.tier_s == pytest.approx(0.5 * 2 * (512 * layers + 128256 * 4096) / 2e12, rel=EXACT)


def test_more_than_a_token_on_the_host_needs_a_peak_and_any_needs_a_bandwidth() -> None:
    with pytest.raises(rl.SpecError, match="say how fast that is, as bandwidth 50 GB/s"):
        rl.decode(away(fraction=0.5, compute="host"), context_tokens=10)
    slow = away(fraction=0.5, compute="host", bandwidth=50e9)
    with pytest.raises(rl.SpecError, match="bound by its arithmetic"):
        _ = rl.decode(slow, context_tokens=10, batch=2).seconds
    assert rl.decode(slow, context_tokens=10).seconds > 0


# Where it lies


@pytest.mark.parametrize("chip", ["m5-max-40c", "dgx-spark-gb10", "xeon-6980p"])
@pytest.mark.parametrize("what", ["weights", "kv"])
def test_a_chip_that_shares_its_memory_with_the_cpu_has_nowhere_to_move_anything(chip: str, what: str) -> None:
    with pytest.raises(rl.SpecError, match=f"host: {chip} and its CPU share one memory, .* use an NVMe drive"):
        rl.decode(away(chip=rl.hardware(chip), fraction=0.5, what=what), context_tokens=10)
    drive = away(chip=rl.hardware(chip), to="nvme-gen4-x4", fraction=0.5, what=what)
    assert decoded(drive, context=10).tier_s == decoded(drive, context=10).tier_bytes / DRIVES["nvme-gen4-x4"]


def test_a_chip_without_a_rate_of_its_link_is_asked_for_one() -> None:
    ascend = rl.hardware("ascend-910c-die")
    with pytest.raises(rl.SpecError, match="pass host_bytes_per_s="):
        rl.decode(away(chip=ascend, fraction=0.5), context_tokens=10)
    assert decoded(away(chip=ascend, fraction=0.5, bandwidth=20e9)).tier_s == MATRICES / 2 / 20e9


@pytest.mark.parametrize("n", [2, 8])
def test_every_chip_has_a_link_of_its_own_and_an_equal_part_of_what_is_shared(n: int) -> None:
    """Llama divides by 8 wholly: each chip streams an nth of the weights; over its own link in an nth of the time, out of
    one host memory or drive, which all draw on, in the same time."""
    plan = rl.Plan(tp=n)
    one, many = decoded(away(fraction=0.5)), decoded(away(fraction=0.5, plan=plan))
    assert many.tier_bytes == one.tier_bytes / n
    assert many.tier_s == pytest.approx(one.tier_s / n, rel=EXACT)
    for shared in ({"bandwidth": 50e9}, {"to": "nvme-gen5-x4"}):
        one, many = (decoded(away(fraction=0.5, plan=p, **shared)) for p in (None, plan))
        assert many.tier_s == pytest.approx(one.tier_s, rel=EXACT)


def test_a_host_slower_than_its_link_is_what_binds_and_one_that_is_faster_is_not() -> None:
    assert decoded(away(fraction=0.5, bandwidth=50e9)).tier_s == MATRICES / 2 / 50e9
    assert decoded(away(fraction=0.5, bandwidth=500e9)).tier_s == decoded(away(fraction=0.5)).tier_s


def test_memory_drops_by_the_share_that_is_away() -> None:
    whole, half = (rl.memory(d, context_tokens=4096, batch=8) for d in (away(), away(fraction=0.5)))
    assert whole.weight_bytes_per_chip - half.weight_bytes_per_chip == MATRICES / 2
    assert half.kv_bytes_per_chip == whole.kv_bytes_per_chip
    assert half.max_batch > whole.max_batch
    kv = rl.memory(away(fraction=0.75, what="kv"), context_tokens=4096, batch=8)
    assert kv.weight_bytes_per_chip == whole.weight_bytes_per_chip
    assert kv.kv_bytes_per_chip == whole.kv_bytes_per_chip / 4
    room = H100.memory_bytes - 2 * LLAMA.n_params
    assert kv.max_batch == room // (4096 * 131072 / 4)
    experts = rl.memory(away("qwen3-30b-a3b", fraction=1.0, what="experts"), context_tokens=4096)
    assert experts.weight_bytes_per_chip == experts.weight_bytes - 48 * 128 * 3 * 2048 * 768 * 2
    assert experts.weight_bytes == 2 * rl.model("qwen3-30b-a3b").n_params  # the whole is the whole


# Laws

shares = st.sampled_from([0.0, 0.1, 0.5, 0.99, 1.0])
rates = st.integers(1, 1000).map(lambda gigabytes: gigabytes * 1e9)
whats = st.sampled_from(["weights", "experts", "kv"])
wheres = st.sampled_from(["chip", "host"])


@st.composite
def asked(draw: st.DrawFn) -> dict[str, Any]:
    """A decode, a prompt in one pass, or one in several."""
    kind = draw(st.sampled_from(["decode", "prefill", "chunks"]))
    return {
        "kind": kind,
        "tokens": draw(st.integers(1, 2000)),
        "batch": draw(st.integers(1, 6)),
        "at_once": draw(st.integers(100, 700)),
    }


def timed(model: rl.Model, chip: rl.Hardware, ask: dict[str, Any], **offload: Any) -> rl.Timing:
    d = away(model, chip, **offload)
    if ask["kind"] == "decode" and model.generates:
        remembered = ask["tokens"] if model.remembers else None
        return rl.decode(d, context_tokens=ask["tokens"], batch=ask["batch"], memory_tokens=remembered)
    if ask["kind"] == "chunks":
        cut = engine("ideal").varied(batch_tokens=ask["at_once"])
        cutting = rl.Deployment(model=model, hardware=chip, engine=cut, offload=d.offload)
        return first_token(cutting, prompt_tokens=ask["tokens"], batch=ask["batch"])
    return rl.prefill(d, prompt_tokens=ask["tokens"], batch=ask["batch"])


def sane(model: rl.Model, offload: dict[str, Any]) -> dict[str, Any]:
    """What the model has: an encoder no cache, most no experts."""
    missing = (offload["what"] == "kv" and not model.generates) or (
        offload["what"] == "experts" and model.n_active_params == model.n_params
    )
    return offload | ({"what": "weights"} if missing else {})


@given(zoo_models(), chips(), asked(), whats, wheres, st.booleans(), rates)
def test_nothing_away_is_the_pass_itself(
    model: rl.Model, chip: rl.Hardware, ask: dict[str, Any], what: str, where: str, overlap: bool, rate: float
) -> None:
    held = {"fraction": 0.0, "what": what, "compute": where, "overlap": overlap, "bandwidth": rate, "host_peak": 1e12}
    t, whole = timed(model, chip, ask, **sane(model, held)), timed(model, chip, ask)
    assert t.seconds == pytest.approx(whole.seconds, rel=EXACT)
    assert t.floor_s == pytest.approx(whole.floor_s, rel=EXACT)


@given(zoo_models(), chips(), asked(), whats, wheres, st.booleans(), rates, shares)
def test_no_estimate_beats_its_floor_and_its_parts_add_up(
    model: rl.Model,
    chip: rl.Hardware,
    ask: dict[str, Any],
    what: str,
    where: str,
    overlap: bool,
    rate: float,
    share: float,
) -> None:
    held = {"fraction": share, "what": what, "compute": where, "overlap": overlap, "bandwidth": rate, "host_peak": 1e12}
    t = timed(model, chip, ask, **sane(model, held))
    assert t.floor_s <= t.seconds * (1 + EXACT)
    parts = [t.compute_bound_s, t.memory_bound_s, t.exposed_link_s, t.overhead_s, t.tier_exposed_s]
    assert all(part >= -1e-9 * t.seconds for part in parts)
    assert sum(parts) == pytest.approx(t.seconds, rel=1e-9)


@given(zoo_models(), chips(), asked(), whats, st.booleans(), rates, rates, shares, shares)
def test_more_away_is_never_faster_nor_a_faster_tier_slower(
    model: rl.Model, chip: rl.Hardware, ask: dict[str, Any], what: str, overlap: bool, rate: float, other: float,
    share: float, more: float,
) -> None:  # fmt: skip
    slow, fast = sorted((rate, other))
    less, most = sorted((share, more))
    whole = timed(model, chip, ask).seconds
    seconds = {
        (f, r): timed(
            model, chip, ask, **sane(model, {"what": what, "overlap": overlap, "fraction": f, "bandwidth": r})
        ).seconds
        for f in (less, most)
        for r in (slow, fast)
    }
    assert whole <= seconds[less, fast] * (1 + EXACT)
    for faster, slower in (
        ((less, slow), (most, slow)),
        ((less, fast), (most, fast)),
        ((less, fast), (less, slow)),
        ((most, fast), (most, slow)),
    ):
        assert seconds[faster] <= seconds[slower] * (1 + EXACT)


@given(zoo_models(), chips(), asked(), whats, rates, shares)
def test_overlap_is_the_larger_of_two_times_pass_by_pass(
    model: rl.Model, chip: rl.Hardware, ask: dict[str, Any], what: str, rate: float, share: float
) -> None:
    held = sane(model, {"what": what, "fraction": share, "bandwidth": rate})
    apart, both = (timed(model, chip, ask, **held, overlap=overlap) for overlap in (False, True))
    assert both.seconds <= apart.seconds * (1 + EXACT)
    if isinstance(apart, Offloaded) and isinstance(both, Offloaded):
        assert both.seconds == max(apart.device_s, apart.tier_s)
        assert apart.seconds == apart.device_s + apart.tier_s
        assert apart.floor_s == both.floor_s


@given(zoo_models(), chips(), whats, shares, st.integers(1, 500), st.integers(1, 8))
def test_a_memory_as_fast_as_you_like_beside_the_chip_is_the_pass_itself(
    model: rl.Model, chip: rl.Hardware, what: Any, share: float, tokens: int, batch: int
) -> None:
    ledger = rl.count(model, rl.Seqs(n_seq=batch, n_new=tokens))
    whole = rl.clock(ledger, chip)
    t = Offloaded(
        whole, Elsewhere(what=what, fraction=share, bytes_per_s=np.inf, overlap=True), n_tokens=ledger.n_tokens
    )
    assert t.seconds == whole.seconds
    assert t.floor_s <= whole.floor_s * (1 + EXACT)  # less is read from the chip's own


@given(
    zoo_models(bodies=("decoder",)),
    chips(),
    st.sampled_from(["weights", "experts"]),
    wheres,
    st.booleans(),
    rates,
    shares,
    st.integers(1, 99),
)
def test_a_deployment_is_its_pass_with_weights_offloaded(
    model: rl.Model, chip: rl.Hardware, what: Any, where: Any, overlap: bool, rate: float, share: float, batch: int
) -> None:
    held = sane(
        model,
        {"fraction": share, "what": what, "compute": where, "overlap": overlap, "bandwidth": rate, "host_peak": 3e12},
    )
    t = timed(model, chip, {"kind": "decode", "tokens": 300, "batch": batch}, **held)
    tier = host_tier(away(model, chip), host_bytes_per_s=rate)
    if not isinstance(t, Offloaded):
        return  # nothing of it is a matrix
    p = offloaded_pass(
        away(model, chip), step=rl.Seqs(n_seq=batch, n_new=1, n_past=300), tier=tier, fraction=share, what=held["what"],
        compute=where, overlap=overlap, host_flops_per_s=3e12,
    )  # fmt: skip
    assert (t.seconds, t.device_s, t.tier_s, t.tier_bytes) == (p.seconds, p.device_s, p.tier_s, p.streamed_bytes)
    assert p.bound == ("tier" if t.tier_s > t.device_s else "device")


@given(zoo_models(bodies=("decoder",)), chips(), rates, shares, st.integers(1, 9000), st.integers(1, 50))
def test_a_cache_elsewhere_adds_what_is_read_and_written_of_it_over_the_rate(
    model: rl.Model, chip: rl.Hardware, rate: float, share: float, context: int, batch: int
) -> None:
    ask = {"kind": "decode", "tokens": context, "batch": batch}
    t, whole = timed(model, chip, ask, what="kv", fraction=share, bandwidth=rate), timed(model, chip, ask)
    moved = whole.total("kv_read_bytes") + whole.total("kv_write_bytes")
    assert t.seconds == pytest.approx(whole.seconds + share * moved / rate, rel=EXACT)


# Grids


@pytest.mark.parametrize("what", ["weights", "kv"])
@pytest.mark.parametrize("where", ["chip", "host"])
def test_a_grid_is_its_points(what: str, where: str) -> None:
    held: dict[str, Any] = {"fraction": 0.3, "what": what, "compute": where, "bandwidth": 40e9, "host_peak": 1e12}
    d = away("qwen3-30b-a3b", **held)
    context, batch = np.array([1.0, 300.0, 9000.0])[:, None], np.array([1.0, 17.0])
    grid = decoded(d, context=context, batch=batch)
    for i, j in np.ndindex(3, 2):
        point = decoded(d, context=context[i, 0], batch=batch[j])
        for name in ("seconds", "floor_s", "device_s", "tier_s", "tier_bytes", "tier_exposed_s"):
            value = np.broadcast_to(getattr(grid, name), (3, 2))[i, j]
            assert value == pytest.approx(getattr(point, name), rel=EXACT, abs=1e-18), name
        assert np.broadcast_to(grid.bound, (3, 2))[i, j] == point.bound
    assert len(grid.to_frame()) == 6


def test_a_large_grid_in_pieces_is_its_points_too() -> None:
    context, batch = np.arange(1.0, 401.0)[:, None], np.arange(1.0, 301.0)  # 120,000
    for what in ("weights", "kv"):
        d = away(fraction=0.3, what=what, overlap=True)
        grid = decoded(d, context=context, batch=batch)
        for i, j in ((0, 0), (123, 17), (399, 299)):
            point = decoded(d, context=context[i, 0], batch=batch[j])
            assert np.asarray(grid.seconds)[i, j] == pytest.approx(point.seconds, rel=EXACT)
            assert np.asarray(grid.floor_s)[i, j] == pytest.approx(point.floor_s, rel=EXACT)
