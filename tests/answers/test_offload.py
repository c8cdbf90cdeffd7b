"""Memory behind the chip's own: a pipeline played through layer by layer, bytes over rates by hand, and the laws."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import chips, deployments, models

import roofline as rl
from roofline.answers import offload as off

LAST_BITS = 1e-12
LLAMA = rl.model("llama-3.1-8b")  # 131,072 B of cache a token
QWEN = rl.model("qwen3-next-80b-a3b")  # 48 layers: 10 of 512 experts, 3 matrices of 2048 × 512 each
H100 = rl.Deployment(model=LLAMA, hardware=rl.hardware("h100-sxm-80gb"))
ENCODER = rl.Model.read(
    {
        "id": "encoder", "name": "Encoder", "dtype": "fp16", "d_model": 64, "vocab_size": 100, "max_context_tokens": 512,
        "layers": [{"layers": [{"mixer": {"kind": "attention", "n_heads": 2, "n_kv_heads": 2, "d_head": 32, "causal": False},
                                "ffn": {"kind": "dense", "d_ff": 128}}]}],
        "head": None,
    },
    where="encoder.yaml",
)  # fmt: skip
DECODE = rl.Seqs(n_seq=1, n_new=1, n_past=512)

seconds = st.floats(0.0, 1e3)
rates = st.integers(1, 2000).map(lambda gigabytes: gigabytes * 1e9)
fractions = st.sampled_from([0.0, 0.25, 0.5, 0.99, 1.0])


def desktop_card(*, bandwidth: str, capacity: str, fp16: str) -> rl.Hardware:
    """A card that is not in the catalogue, behind an unnamed host."""
    return rl.Hardware.read(
        {
            "id": "card", "name": "Card", "vendor": "Somebody", "kind": "gpu",
            "compute": {"matrix": {"fp16": fp16}, "vector": {"fp32": fp16}},
            "memory": {"type": "GDDR6", "capacity": capacity, "bandwidth": bandwidth},
        },
        where="card.yaml",
    )  # fmt: skip


# The pipeline


@given(seconds, seconds, st.integers(1, 80))
def test_exposed_is_what_a_transfer_behind_a_pass_has_left_when_the_pass_ends(x: float, c: float, n: int) -> None:
    moved = 0.0
    for layer in range(1, n + 1):
        moved = max(moved, layer * c / n) + x / n  # the layer is computed, the link is free
    assert off.exposed_seconds(x, computing_s=c, n_layers=n) == pytest.approx(moved - c, abs=1e-9 * (x + c))


@given(seconds, seconds, st.integers(1, 80))
def test_loading_ahead_of_a_pass_exposes_as_much(x: float, c: float, n: int) -> None:
    done = 0.0
    for layer in range(1, n + 1):
        done = max(done, layer * x / n) + c / n  # the layer's cache is there, the layer before is computed
    assert off.exposed_seconds(x, computing_s=c, n_layers=n) == pytest.approx(done - c, abs=1e-9 * (x + c))


@given(seconds, seconds, st.integers(1, 80))
def test_exposed_is_at_most_the_transfer_and_at_least_a_layers_share(x: float, c: float, n: int) -> None:
    exposed = off.exposed_seconds(x, computing_s=c, n_layers=n)
    assert x / n <= exposed <= x


# Tiers


def test_the_host_is_as_fast_as_the_slower_of_its_link_and_its_memory() -> None:
    link = 32e9 * 16 * 128 / 130 / 8  # PCIe 5.0 x16
    assert off.host_tier(H100).bytes_per_s == pytest.approx(link, rel=1e-4)
    assert off.host_tier(H100, host_bytes_per_s=51.2e9).bytes_per_s == 51.2e9
    assert off.host_tier(H100, host_bytes_per_s=614.4e9).bytes_per_s == off.host_tier(H100).bytes_per_s
    assert off.host_tier(rl.Deployment(model=LLAMA, hardware=rl.hardware("gh200-96gb"))).bytes_per_s == 450e9


def test_drives_are_four_lanes_and_no_faster_than_the_way_to_the_chip() -> None:
    for drive, transfers_per_s in (("nvme-gen4-x4", 16e9), ("nvme-gen5-x4", 32e9)):
        lanes = transfers_per_s * 4 * 128 / 130 / 8
        assert off.nvme_tier(H100, drive=drive).bytes_per_s == pytest.approx(lanes, rel=1e-4)
    t4 = rl.Deployment(model=LLAMA, hardware=rl.hardware("t4"))  # PCIe 3.0 x16: 15.754 GB/s
    assert off.nvme_tier(t4, bytes_per_s=26e9).bytes_per_s == 15.754e9


@pytest.mark.parametrize("chip", ["m5-max-40c", "dgx-spark-gb10", "xeon-6980p"])
def test_one_memory_for_both_has_no_host_tier_but_may_have_a_drive(chip: str) -> None:
    d = rl.Deployment(model=LLAMA, hardware=rl.hardware(chip))
    with pytest.raises(rl.SpecError, match="share one memory"):
        off.host_tier(d, host_bytes_per_s=100e9)
    assert off.nvme_tier(d, drive="nvme-gen4-x4").bytes_per_s == 7.877e9


def test_a_rate_nobody_gave_is_asked_for() -> None:
    d = rl.Deployment(model=LLAMA, hardware=rl.hardware("ascend-910c-die"))
    with pytest.raises(rl.SpecError, match="pass host_bytes_per_s="):
        off.host_tier(d)
    assert off.host_tier(d, host_bytes_per_s=20e9).bytes_per_s == 20e9
    for drive, rate in ((None, None), ("nvme-gen4-x4", 1e9)):
        with pytest.raises(rl.SpecError, match=r"drive= .* or bytes_per_s="):
            off.nvme_tier(d, drive=drive, bytes_per_s=rate)
    with pytest.raises(rl.UnknownName, match="nvme-gen4-x4"):
        off.nvme_tier(d, drive="nvme-gen4")
    for value in (0, -1, "fast", math.nan):
        with pytest.raises(rl.SpecError, match="host_bytes_per_s"):
            off.host_tier(d, host_bytes_per_s=value)


# Recompute or load


def test_a_load_is_the_cache_over_the_rate_and_a_recompute_the_prefill() -> None:
    r = off.recompute_or_load(H100, prefix_tokens=2048, tier=off.nvme_tier(H100, drive="nvme-gen4-x4"))
    assert r.prefix_bytes == 2048 * 131072
    assert r.load_s == 2048 * 131072 / 7.877e9  # 34 ms
    assert r.recompute_s == rl.prefill(H100, prompt_tokens=2048).seconds
    assert r.load_wins is bool(r.load_s <= r.recompute_s)


def test_recurrent_state_is_loaded_too_however_short_the_prefix() -> None:
    d = rl.Deployment(model=QWEN, hardware=rl.hardware("h100"))
    state = 36 * (32 * 128 * 128 * 4 + 8192 * 3 * 2)  # fp32 states, the last three inputs of the convolution
    r = off.recompute_or_load(d, prefix_tokens=10, tier=off.host_tier(d))
    assert r.prefix_bytes == state + 10 * 12 * 2 * 2 * 256 * 2


def test_new_tokens_hide_a_load_down_to_a_layers_share() -> None:
    tier = off.nvme_tier(H100, drive="nvme-gen4-x4")
    alone, beside = (off.recompute_or_load(H100, prefix_tokens=2048, tier=tier, new_tokens=n) for n in (1, 16384))
    assert alone.exposed_s < alone.load_s
    assert beside.exposed_s == beside.load_s / 32


def test_a_drive_loses_to_an_h100_between_two_contexts() -> None:
    """At 5 GB/s a token takes 26.21 µs. A drive wins while recomputing means reading the weights: 15.01 GB, 4.48 ms, as long
    as 171 tokens (activations make it a little more). It wins again where attention makes a token dear enough: its products
    are 2 · 6.98e9 FLOP, 14.11 µs; its elementwise traffic 5.5 MB, 1.64 µs; and of causal attention, 2 · 4096 · 32 · S FLOP a
    token, there are the other 10.46 at S = 39,490."""
    elementwise = 32 * 2 * (4 * 4096 * 2 + 2 * 40 * 128 + 3 * 14336) / 3.35e12
    products = 2 * (LLAMA.n_params - 2 * 128256 * 4096) / 989.4e12
    expected = (131072 / 5e9 - products - elementwise) / (2 * 4096 * 32 / 989.4e12)
    r = off.recompute_or_load(H100, prefix_tokens=1, tier=off.nvme_tier(H100, bytes_per_s=5e9))
    first, second = r.meets_at_tokens
    assert 171 < first < 200
    assert second == pytest.approx(expected, rel=0.02)
    assert r.break_even_tokens == second


def test_the_host_of_an_h100_always_wins_and_a_slow_disk_only_for_short_prefixes() -> None:
    host = off.recompute_or_load(H100, prefix_tokens=1, tier=off.host_tier(H100))
    assert (host.meets_at_tokens, host.break_even_tokens) == ((), 1.0)
    disk = off.recompute_or_load(H100, prefix_tokens=1, tier=off.nvme_tier(H100, bytes_per_s=1e9))
    (only,) = disk.meets_at_tokens  # 131 µs a token, against at most 49 µs at 131,072; 4.48 ms are 34 tokens
    assert 34 < only < 36
    assert disk.break_even_tokens == math.inf
    assert disk.to_dict()["break_even_tokens"] is None


def test_a_state_to_load_makes_short_prefixes_cheaper_to_recompute() -> None:
    d = rl.Deployment(model=QWEN, hardware=rl.hardware("h100"))
    r = off.recompute_or_load(d, prefix_tokens=[1, 1000], tier=off.nvme_tier(d, drive="nvme-gen4-x4"))
    assert r.load_wins.tolist() == [
        False,
        True,
    ]  # 77 MB are 10 ms, one token's weights 2 ms; a thousand's 40 ms and more
    assert r.meets_at_tokens == (r.break_even_tokens,)


@given(models(), chips(), rates)
def test_recompute_and_load_meet_at_the_break_even(model: rl.Model, chip: rl.Hardware, rate: float) -> None:
    d = rl.Deployment(model=model, hardware=chip)
    tier = off.nvme_tier(d, bytes_per_s=rate)
    r = off.recompute_or_load(d, prefix_tokens=1, tier=tier)
    for met in r.meets_at_tokens:
        there = off.recompute_or_load(d, prefix_tokens=met, tier=tier)
        assert there.load_s == pytest.approx(there.recompute_s, rel=1e-6)
    longest = off.recompute_or_load(d, prefix_tokens=model.max_context_tokens, tier=tier)
    assert longest.load_wins is bool(r.break_even_tokens < math.inf)
    if 1 < r.break_even_tokens < math.inf:
        around = off.recompute_or_load(d, prefix_tokens=r.break_even_tokens * np.array([1 - 1e-6, 1 + 1e-6]), tier=tier)
        assert around.load_wins.tolist() == [False, True]


@given(deployments(), rates, rates)
def test_a_faster_tier_never_loads_slower(d: rl.Deployment, one: float, other: float) -> None:
    slow, fast = sorted((one, other))
    before, after = (
        off.recompute_or_load(d, prefix_tokens=100, tier=off.nvme_tier(d, bytes_per_s=r), new_tokens=9)
        for r in (slow, fast)
    )
    assert after.load_s <= before.load_s
    assert after.exposed_s <= before.exposed_s <= before.load_s


# Sessions


@given(deployments(), st.integers(1, 50_000), st.integers(0, 10_000))
def test_a_tier_holds_as_many_sessions_as_fit_and_not_one_more(d: rl.Deployment, context: int, gigabytes: int) -> None:
    tier = off.host_tier(d, host_bytes_per_s=50e9, capacity_bytes=gigabytes * 1e9)
    hbm, host = off.warm_sessions(d, context_tokens=context, tiers=[tier])
    assert hbm.n_sessions == rl.memory(d, context_tokens=context).max_batch
    assert host.n_sessions * host.session_bytes <= gigabytes * 1e9 * (1 + LAST_BITS)
    assert (host.n_sessions + 1) * host.session_bytes > gigabytes * 1e9 * (1 - LAST_BITS)
    assert host.load_s == host.session_bytes / 50e9


def test_a_tier_without_a_size_cannot_say_how_many_it_holds() -> None:
    with pytest.raises(rl.SpecError, match="capacity_bytes="):
        off.warm_sessions(H100, context_tokens=8192, tiers=[off.host_tier(H100)])


# Weights


def half_offloaded(d: rl.Deployment, **changes: Any) -> off.OffloadedPass:
    tier = off.host_tier(d, host_bytes_per_s=changes.pop("rate", 50e9))
    asked: dict[str, Any] = {"step": DECODE, "fraction": 0.5, "what": "weights"} | changes
    return off.offloaded_pass(d, tier=tier, **asked)


def test_experts_are_counted_once_a_token_and_held_all_of_them() -> None:
    expert = 3 * 2048 * 512 * 2  # gate, up and down, in bf16
    d = rl.Deployment(model=QWEN, hardware=rl.hardware("rtx-4090"))
    p = half_offloaded(d, what="experts", fraction=1.0, rate=20e9)
    assert p.streamed_bytes == 48 * 10 * expert
    assert p.resident_bytes == 48 * 512 * expert
    assert p.tier_s == 48 * 10 * expert / 20e9
    assert p.bound == "tier"


def test_all_weights_are_the_matrices_and_the_head_without_the_table() -> None:
    p = half_offloaded(H100, fraction=1.0)
    table, norms = 128256 * 4096, 65 * 4096
    assert p.streamed_bytes == p.resident_bytes == 2 * (LLAMA.n_params - table - norms)


@given(deployments(), rates, fractions)
def test_nothing_offloaded_is_the_pass_itself(d: rl.Deployment, rate: float, f: float) -> None:
    whole = rl.clock(rl.count(d.model, DECODE, precision=d.precision), d.hardware).seconds
    for compute in ("chip", "host"):
        assert half_offloaded(d, fraction=0, rate=rate, compute=compute).seconds == pytest.approx(whole, rel=LAST_BITS)
    assert half_offloaded(d, fraction=f, rate=rate).device_s == pytest.approx(whole, rel=LAST_BITS)


@given(deployments(), rates, rates)
def test_more_offloaded_is_never_faster_nor_a_faster_link_slower(d: rl.Deployment, one: float, other: float) -> None:
    slow, fast = sorted((one, other))
    for overlap in (False, True):
        grid = half_offloaded(d, fraction=np.linspace(0, 1, 9), rate=slow, overlap=overlap)
        assert np.all(np.diff(grid.seconds) >= 0)
        assert (
            half_offloaded(d, rate=fast, overlap=overlap).seconds
            <= half_offloaded(d, rate=slow, overlap=overlap).seconds
        )


@given(deployments(), rates, fractions, st.sampled_from(["chip", "host"]))
def test_overlap_is_the_larger_of_two_streams_and_never_more_than_their_sum(
    d: rl.Deployment, rate: float, f: float, compute: str
) -> None:
    one, both = (half_offloaded(d, rate=rate, fraction=f, compute=compute, overlap=o) for o in (False, True))
    assert both.seconds == max(one.device_s, one.tier_s) <= one.seconds == one.device_s + one.tier_s


@given(deployments(), st.sampled_from(["chip", "host"]))
def test_a_grid_is_its_points(d: rl.Deployment, compute: str) -> None:
    f, batch = np.array([[0.0], [0.3], [1.0]]), np.array([1.0, 77.0])
    asked = {"compute": compute, "host_flops_per_s": 1e12}
    grid = half_offloaded(d, step=rl.Seqs(n_seq=batch, n_new=1, n_past=9), fraction=f, **asked)
    for i, share in enumerate(f[:, 0]):
        for j, n_seq in enumerate(batch):
            point = half_offloaded(d, step=rl.Seqs(n_seq=n_seq, n_new=1, n_past=9), fraction=share, **asked)
            assert np.asarray(grid.seconds)[i, j] == point.seconds
            assert np.asarray(grid.bound)[i, j] == point.bound
    assert len(grid.to_frame()) == 6


def test_a_host_that_computes_a_prompt_is_bound_by_its_arithmetic() -> None:
    prompt = rl.Seqs(n_seq=1, n_new=512)
    with pytest.raises(rl.SpecError, match="host_flops_per_s="):
        half_offloaded(H100, step=prompt, compute="host")
    p = half_offloaded(H100, step=prompt, compute="host", fraction=1.0, host_flops_per_s=2e12)
    layers = LLAMA.n_params - 2 * 128256 * 4096 - 65 * 4096
    assert p.tier_s == pytest.approx(2 * (512 * layers + 128256 * 4096) / 2e12, rel=LAST_BITS)


def test_what_cannot_be_offloaded_is_said() -> None:
    tier = off.host_tier(H100)
    with pytest.raises(rl.SpecError, match='no experts; use what="weights"'):
        off.offloaded_pass(H100, step=DECODE, tier=tier, fraction=0.5)
    with pytest.raises(rl.SpecError, match="no rate of host memory"):
        off.offloaded_pass(H100, step=DECODE, tier=tier, fraction=0.5, what="weights", compute="host")
    with pytest.raises(rl.SpecError, match=r"fraction: expected a number >= 0 and at most 1, got 1\.5"):
        half_offloaded(H100, fraction=1.5)
    with pytest.raises(rl.SpecError, match="'experts' or 'weights', got 'kv'"):
        half_offloaded(H100, what="kv")
    with pytest.raises(rl.SpecError, match="'chip' or 'host', got 'cpu'"):
        half_offloaded(H100, compute="cpu")
    with pytest.raises(rl.SpecError, match="make one with host_tier"):
        off.offloaded_pass(H100, step=DECODE, tier=63e9, fraction=0.5, what="weights")  # type: ignore[arg-type]
    with pytest.raises(rl.SpecError, match="is an encoder"):
        off.warm_sessions(rl.Deployment(model=ENCODER, hardware=rl.hardware("h100")), context_tokens=100)


# Published measurements


def test_case_c43_qwen3_next_with_its_experts_in_ddr4() -> None:
    """llmfit#450: 15.4 tok/s on an RX 6900 XT (512 GB/s), experts computed in about 50 GB/s of RAM; llmfit says 15.2.

    Its formula is bytes / 50 GB/s + bytes / (0.55 · 512 GB/s), of 5.46e9 "active" parameters at half a byte (Q4): 2.73 GB.
    Those are 5 % of all parameters and 10/512 of the rest; of routed experts a token reads 1.51e9, which is 2.73 GB at 14.5
    bits. So what comes close here are 16-bit experts, 3.02 GB: with and without overlap they bracket the measurement, each
    within 8 %. At 4 bits the same bus would allow over three times as much, and llama.cpp reached less: a ceiling.
    """
    card = desktop_card(bandwidth="512 GB/s", capacity="16 GB", fp16="46.1 TFLOP/s")
    rates = {}
    for weights in ("bf16", "q4_k_m"):
        d = rl.Deployment(model=QWEN, hardware=card, weights=weights, kv="f16")
        for overlap in (False, True):
            p = half_offloaded(d, what="experts", fraction=1.0, compute="host", overlap=overlap)
            rates[weights, overlap] = 1.0 / p.seconds
    assert rates["bf16", False] < 15.2 < 15.4 < rates["bf16", True]
    assert rates["bf16", False] == pytest.approx(15.4, rel=0.08)
    assert rates["bf16", True] == pytest.approx(15.4, rel=0.08)
    assert rates["q4_k_m", True] > rates["q4_k_m", False] > 3 * 15.4


def test_no_measurement_beats_the_bus_its_experts_are_on() -> None:
    """llmfit#755: Qwen3-30B-A3B Q4_K_M, experts of 36 of 48 layers on the CPU, 102 GB/s measured there, RTX 2080 (448 GB/s):
    36.7 tok/s. A token's share of those is 36 · 8 · 3 · 2048 · 768 weights: 0.76 GB at 4.5 bits, 7.5 ms."""
    card = desktop_card(bandwidth="448 GB/s", capacity="8 GB", fp16="40.3 TFLOP/s")
    d = rl.Deployment(model=rl.model("qwen3-30b-a3b"), hardware=card, weights="q4_k_m", kv="f16")
    p = half_offloaded(d, what="experts", fraction=36 / 48, compute="host", rate=102e9)
    least = 36 * 8 * 3 * 2048 * 768 * 4.5 / 8
    assert least <= p.streamed_bytes <= 1.1 * least
    assert 36.7 < 1.0 / p.seconds < 1.0 / p.tier_s
