"""Mixtures of experts, token by token: what each is sent to, what a pass reads, how many rows an expert multiplies."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import Spec
from zoo import moe_specs, of_layers, zoo_seqs, zoo_steps

import roofline as rl
from roofline.work.step import Step

D = 16


def mixture(ffn: Spec, **outside: Any) -> rl.Model:
    """The mixture alone in one layer, no mixer."""
    return of_layers({"mixer": None, "ffn": ffn}, **outside)


def rows_of(model: rl.Model, step: rl.Seqs | Step, **how: Any) -> dict[str, rl.Op[Any]]:
    ops = rl.count(model, step, **how).ops
    return {op.name: op for op in ops if op.kind not in ("head", "embedding", "elementwise")}


def routed_shapes(x: Spec) -> list[tuple[int, int]]:
    """(in, out) of the matrices of one expert."""
    width = x["d_latent"] or D
    return [(width, x["d_ff"])] * (2 if x["gated"] else 1) + [(x["d_ff"], width)]


def common_shapes(x: Spec) -> list[tuple[int, int]]:
    """(in, out) of what every token passes: router, way into the latent and out, shared block, its scale."""
    shapes = [(D, x["n_experts"])]
    if x["d_latent"]:
        shapes += [(D, x["d_latent"]), (x["d_latent"], D)]
    if x["d_shared"]:
        shapes += [(D, x["d_shared"])] * (2 if x["gated"] else 1) + [(x["d_shared"], D)]
    if x["shared_gate"]:
        shapes.append((D, 1))
    return shapes


@given(moe_specs())
def test_parameters_are_those_of_the_common_matrices_and_of_all_experts(x: Spec) -> None:
    model = mixture(x)
    biases = sum(o for _, o in routed_shapes(x)) if x["bias"] else 0
    each = sum(i * o for i, o in routed_shapes(x)) + biases
    common = sum(i * o for i, o in common_shapes(x)) + x["n_experts"] * x["router_bias"]
    if x["shared_bias"] and x["d_latent"]:
        common += x["d_latent"] + D
    if x["shared_bias"] and x["d_shared"]:
        common += x["d_shared"] * (2 if x["gated"] else 1) + D
    tables = 2 * 10 * D + 2 * D  # embedding, head, two norms
    assert model.n_params == tables + common + x["n_experts"] * each + x["scales"]
    assert model.n_active_params == tables + common + x["n_active_experts"] * each + x["scales"]


@given(moe_specs(), zoo_steps(max_parts=2), st.sampled_from([1.0, 0.6]))
def test_expert_weights_lie_between_k_and_as_many_as_tokens_can_reach(x: Spec, step: Step, exponent: float) -> None:
    tokens = int(sum(part.n_seq * part.n_new for part in step))
    e, k = x["n_experts"], x["n_active_experts"]
    found = [op for op in rows_of(mixture(x), step, routing_exponent=exponent).values() if op.kind == "expert"]
    assert len(found) == len(routed_shapes(x))
    for op, (d_in, d_out) in zip(found, routed_shapes(x), strict=True):
        one = 2 * (d_in * d_out + d_out * x["bias"])
        expected = e * (1 - (1 - k / e) ** (tokens**exponent))
        assert op.weight_bytes_min == pytest.approx(k * one, rel=1e-12)
        assert op.weight_bytes == pytest.approx(expected * one, rel=1e-9)
        assert op.weight_bytes_max == pytest.approx(min(e, k * tokens) * one, rel=1e-12)
        assert op.m == pytest.approx(k * tokens / expected, rel=1e-9)
        assert op.m * op.weight_bytes == pytest.approx(k * tokens * one, rel=1e-9)


@given(moe_specs(), zoo_seqs(), st.integers(1, 64))
def test_more_tokens_read_more_experts_but_fewer_each(x: Spec, like: rl.Seqs, more: int) -> None:
    """Expected bytes grow and are concave in tokens; the floor's do not move."""

    def read(n_seq: Any) -> tuple[Any, Any]:
        ledger = rl.count(mixture(x), rl.Seqs(n_seq=n_seq, n_new=like.n_new))
        experts = [op for op in ledger.ops if op.kind == "expert"]
        return sum(op.weight_bytes for op in experts), sum(op.weight_bytes_min for op in experts)

    (a, low), (b, _), (c, high) = (read(like.n_seq + i * more) for i in range(3))
    slack = 1e-11 * c
    assert a <= b + slack
    assert b <= c + slack
    assert c - b <= b - a + slack
    assert low == high


@given(moe_specs(), zoo_steps(max_parts=2))
def test_correlated_routing_reads_less_and_computes_the_same(x: Spec, step: Step) -> None:
    uniform, correlated = (rl.count(mixture(x), step, routing_exponent=e) for e in (1.0, 0.5))
    assert correlated.flops == uniform.flops
    assert correlated.weight_bytes <= uniform.weight_bytes * (1 + 1e-12)
    assert correlated.compulsory_bytes == uniform.compulsory_bytes


@given(moe_specs(), st.integers(1, 64))
def test_a_mixture_whose_experts_are_all_active_is_a_dense_block_in_slices(x: Spec, n_tokens: int) -> None:
    """E experts of width F, all of them for every token, multiply and read what one block of width E·F does."""
    e = x["n_experts"]
    every = x | {
        "n_active_experts": e,
        "d_shared": None,
        "shared_gate": False,
        "d_latent": None,
        "bias": False,
        "scales": 0,
    }
    seqs = rl.Seqs(n_seq=n_tokens, n_new=1)
    sliced = [op for op in rows_of(mixture(every), seqs).values() if op.kind == "expert"]
    dense = rows_of(mixture({"kind": "dense", "d_ff": e * x["d_ff"], "gated": x["gated"]}), seqs).values()
    assert sum(op.flops for op in sliced) == sum(op.flops for op in dense)
    assert sum(op.weight_bytes for op in sliced) == sum(op.weight_bytes for op in dense)
    assert {op.m for op in sliced} == {float(n_tokens)}


@given(moe_specs(), zoo_seqs())
def test_one_token_reads_the_active_parameters(x: Spec, like: rl.Seqs) -> None:
    """Everything it reads but its row of the table, where the table is not the head's."""
    model = mixture(x)
    ledger = rl.count(model, rl.Seqs(n_seq=1, n_new=1, n_past=like.n_past))
    table = 2 * 10 * D - 2 * D
    assert ledger.weight_bytes == pytest.approx(2 * model.n_active_params - table, rel=1e-12)


# Mixtral-8x7B (config.json: 32 layers, D 4096, F 14336, 32 heads and 8 KV heads of 128, 8 experts and 2 of them, V 32000)

MIXTRAL = of_layers(
    {
        "mixer": {"kind": "attention", "n_heads": 32, "n_kv_heads": 8, "d_head": 128},
        "ffn": {"kind": "moe", "n_experts": 8, "n_active_experts": 2, "d_ff": 14336},
    },
    repeat=32,
    d_model=4096,
    vocab_size=32000,
    final_norm=True,
)


def test_mixtral_has_46_7_billion_parameters_of_which_12_9_are_active() -> None:
    """Published: 46,702,792,704 and 12,879,925,248.

    An expert: 3·4096·14336 = 176,160,768; attention: 4096·4096·2 + 4096·1024·2 = 41,943,040; router: 4096·8 = 32,768;
    norms 2·4096. 32 · (8·176,160,768 + 41,943,040 + 32,768 + 8,192) + 2·32000·4096 + 4096 = 46,702,792,704.
    """
    assert MIXTRAL.n_params == 46_702_792_704
    assert MIXTRAL.n_active_params == 46_702_792_704 - 32 * 6 * 176_160_768 == 12_879_925_248


def test_mixtral_at_batch_8_streams_84_11_gb_of_weights_to_decode() -> None:
    """Touched: 8·(1 − (3/4)^8) = 8·58975/65536 = 7.1990966796875 experts a layer.

    experts     32 · 8 · 58975/65536 · 176,160,768 · 2 B  = 81,164,697,600 B
    attention   32 · 41,943,040 · 2 B                     =  2,684,354,560 B
    routers     32 · 32,768 · 2 B                         =      2,097,152 B
    norms       65 · 4096 · 2 B                           =        532,480 B
    head        32000 · 4096 · 2 B                        =    262,144,000 B
    8 rows      8 · 4096 · 2 B                            =         65,536 B
                                                            84,113,891,328 B
    """
    ledger = rl.count(MIXTRAL, rl.Seqs(n_seq=8, n_new=1, n_past=1000), precision=rl.Precision(weights="bf16"))
    parts = (81_164_697_600, 2_684_354_560, 2_097_152, 532_480, 262_144_000, 65_536)
    assert ledger.weight_bytes == pytest.approx(sum(parts), abs=1)
    assert round(float(ledger.weight_bytes) / 1e9, 2) == 84.11


def test_mixtral_at_batch_3_touches_4_625_experts_and_is_sure_of_two() -> None:
    """8·(1 − 27/64) = 4.625; each of them multiplies 3·2/4.625 rows."""
    (gate,) = (op for op in rl.count(MIXTRAL, rl.Seqs(n_seq=3, n_new=1)).ops if op.name == "expert_gate_proj")
    one = 4096 * 14336 * 2
    assert (gate.weight_bytes, gate.weight_bytes_min, gate.weight_bytes_max) == (4.625 * one, 2 * one, 6 * one)
    assert gate.m == 6 / 4.625


def test_gate_and_up_of_experts_are_one_launch() -> None:
    launches = {op.name: op.n_launch for op in rl.count(MIXTRAL, rl.Seqs(n_seq=1, n_new=1)).ops}
    assert [launches[f"expert_{x}_proj"] for x in ("gate", "up", "down")] == [1, 0, 1]
