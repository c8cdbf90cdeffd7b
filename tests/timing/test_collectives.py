"""Exchanges on real links, by hand: α for every stage, β for every byte."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

import roofline as rl
from roofline.ledger import Collective
from roofline.specs.fabric import levels, link_between
from roofline.timing.collectives import floor_cost, link_cost


def cost(verb: str, n: int, chip: str, stride: int = 1) -> tuple[float, float]:
    found = link_cost(Collective(verb, n, stride), rl.hardware(chip))  # type: ignore[arg-type]
    return found.latency_s, found.s_per_byte


@pytest.mark.parametrize(
    ("verb", "n", "chip", "latency_s", "s_per_byte"),
    [
        ("all_reduce", 8, "a100-sxm-80gb", 3 * 2e-6, 2 * 7 / 8 / 300e9),  # a switch that only forwards
        ("all_reduce", 8, "h100-sxm-80gb", 3 * 2e-6, 1 / 450e9),  # one that adds up
        ("all_gather", 8, "h100-sxm-80gb", 3 * 2e-6, 7 / 8 / 450e9),
        ("all_to_all", 8, "h100-sxm-80gb", 2e-6, 7 / 8 / 450e9),
        ("all_reduce", 2, "mi300x", 3e-6, 1 / 64e9),  # one 64 GB/s link between a pair
        ("all_reduce", 8, "mi300x", 3 * 3e-6, 2 * 7 / 8 / 448e9),
        ("all_reduce", 4, "rtx-4090", 2 * 5e-6, 2 * 3 / 4 / 31.508e9),  # over PCIe
        ("all_reduce", 2, "m2-ultra", 10e-6, 1 / 5e9),  # two Macs over 40 Gbit/s
        ("all_reduce", 16, "a100-sxm-80gb", 3 * 2e-6 + 5e-6, 2 * 7 / 8 / 300e9 + 2 * 1 / 2 / 8 / 25e9),  # two boxes
        ("all_to_all", 16, "a100-sxm-80gb", 2e-6 + 5e-6, 7 / 16 / 300e9 + 8 / 16 / 25e9),
    ],
)
def test_by_hand(verb: str, n: int, chip: str, latency_s: float, s_per_byte: float) -> None:
    """Latencies are priors by link kind: NVLink 2 µs, xGMI 3, PCIe 5, Thunderbolt 10, InfiniBand 5."""
    assert cost(verb, n, chip) == pytest.approx((latency_s, s_per_byte))


def test_a_stage_hands_over_on_the_link_that_joins_all_of_them() -> None:
    h100 = rl.hardware("h100-sxm-80gb")
    assert cost("send", 2, "h100-sxm-80gb", stride=4) == pytest.approx((2e-6, 1 / 450e9))
    assert cost("send", 2, "h100-sxm-80gb", stride=8) == pytest.approx((5e-6, 1 / 50e9))
    assert link_between(16, h100).kind == "infiniband"


def test_a_bridge_joins_two_and_pcie_the_rest() -> None:
    assert [(x.link.kind, x.n) for x in levels(4, rl.hardware("rtx-3090"))] == [("nvlink", 2), ("pcie", 2)]


SWITCHED = ("a100-sxm-80gb", "h100-sxm-80gb", "mi300x", "rtx-4090", "tpu-v5e", "gb200")


@given(st.sampled_from(SWITCHED), st.sampled_from(["all_reduce", "all_gather", "all_to_all"]), st.integers(1, 3))
def test_no_exchange_beats_its_floor(chip: str, verb: str, log_n: int) -> None:
    exchange = Collective(verb, 2**log_n)  # type: ignore[arg-type]
    spec = rl.hardware(chip)
    assert 0.0 < floor_cost(exchange, spec) <= link_cost(exchange, spec).s_per_byte * (1 + 1e-12)


def test_decode_at_tp_8_is_dominated_by_latency_on_the_links() -> None:
    """Llama-3.1-8B, one sequence: 64 all-reduces of 8 KiB take 6 µs of latency each and 0.02 of payload."""
    d = rl.Deployment(model=rl.model("llama-3.1-8b"), hardware=rl.hardware("h100"), plan=rl.Plan(tp=8))
    t = rl.decode(d, context_tokens=100)
    n_exchanges = 64 + 1 + 1  # and the embedding's, and the logits'
    payload = 65 * 8192 / 450e9 + 128_256 * 2 * 7 / 8 / 450e9
    assert t.link_s == pytest.approx(n_exchanges * 3 * 2e-6 + payload)
    assert payload < 0.01 * t.link_s


def test_overlap_hides_what_it_says_and_no_more_than_there_is_work() -> None:
    model, chip = rl.model("llama-3.1-8b"), rl.hardware("h100")
    ledger = rl.count(model, rl.Seqs(n_seq=1, n_new=2048), plan=rl.Plan(tp=8))
    none, half, all_of_it = (rl.clock(ledger, chip, overlap=x) for x in (0.0, 0.5, 1.0))
    work = none.seconds - none.link_s
    assert half.seconds == pytest.approx(work + none.link_s / 2)
    assert all_of_it.seconds == pytest.approx(max(work, none.link_s))
    assert all_of_it.seconds >= all_of_it.floor_s
    assert math.isclose(half.exposed_link_s, none.link_s / 2)
    with pytest.raises(rl.SpecError, match="overlap"):
        rl.clock(ledger, chip, overlap=1.5)


@pytest.mark.parametrize(
    ("n", "chip", "direct", "through_stages"),
    [
        (8, "h100-sxm-80gb", 1.0, 3.0),
        (8, "rtx-4090", 3.0, 3.0),  # PCIe: they do not all reach one another
        (16, "a100-sxm-80gb", 1.0 + 1.0, 3.0 + 1.0),  # directly inside the box, and then between two
    ],
)
def test_a_direct_all_reduce_has_one_stage_among_chips_that_all_meet(
    n: int, chip: str, direct: float, through_stages: float
) -> None:
    """The bytes are the same."""
    by = {d: link_cost(Collective("all_reduce", n, direct=d), rl.hardware(chip)) for d in (True, False)}
    assert (by[True].n_stages, by[False].n_stages) == (direct, through_stages)
    assert by[True].s_per_byte == by[False].s_per_byte


def test_engines_with_a_kernel_of_their_own_add_up_directly() -> None:
    """vLLM does, and its earlier version like it; that of 2023, on the NPUs, and the ideal machine do not."""
    found = {}
    for engine in ("vllm", "vllm-0.7", "sglang", "vllm-2023", "vllm-ascend", "trtllm", "ideal"):
        d = rl.Deployment(
            model=rl.model("llama-3.1-8b"), hardware=rl.hardware("h100-sxm-80gb"), plan=rl.Plan(tp=8), engine=engine
        )
        rows = [row for row in rl.decode(d, context_tokens=1024).rows if row.collective is not None]
        found[engine] = {
            row.collective.direct for row in rows if row.collective and row.collective.verb == "all_reduce"
        }
    assert [engine for engine, direct in found.items() if direct == {True}] == ["vllm", "vllm-0.7", "sglang"]
    assert all(len(direct) == 1 for direct in found.values())
