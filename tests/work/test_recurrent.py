"""Recurrent mixers, against executions in numpy that count their own multiply-adds (`oracle_recurrent`), and by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import oracle_recurrent as oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import Spec
from zoo import MIXERS, RECURRENT, of_layers, zoo_models, zoo_seqs

import roofline as rl

D = 16


def one_layer(mixer: Spec, **outside: Any) -> rl.Model:
    """The mixer alone in one layer, no FFN."""
    return of_layers({"mixer": mixer, "ffn": None}, **outside)


def rows_of(model: rl.Model, seqs: rl.Seqs) -> dict[str, rl.Op[Any]]:
    return {op.name: op for op in rl.count(model, seqs).ops if op.kind not in ("head", "embedding")}


# What runs, counted while it runs

RUNS: dict[str, tuple[Callable[..., oracle.Mixer], Spec]] = {
    "mamba": (oracle.Mamba1, {"d_inner": 12, "d_state": 4, "d_conv": 4, "dt_rank": 3}),
    "mamba of one tap": (oracle.Mamba1, {"d_inner": 8, "d_state": 2, "d_conv": 1, "dt_rank": 1}),
    "mamba2": (oracle.Mamba2, {"n_heads": 4, "d_head": 6, "n_groups": 2, "d_state": 5, "d_conv": 3}),
    "mamba2 of one group": (oracle.Mamba2, {"n_heads": 3, "d_head": 4, "n_groups": 1, "d_state": 8, "d_conv": 4}),
    "delta": (oracle.Delta, {"n_key_heads": 2, "d_key": 5, "n_value_heads": 4, "d_value": 3, "d_conv": 4}),
    "delta of equal heads": (
        oracle.Delta,
        {"n_key_heads": 2, "d_key": 4, "n_value_heads": 2, "d_value": 4, "d_conv": 2},
    ),
    "linear_attention": (oracle.Lightning, {"n_heads": 3, "d_head": 4}),
}
runs = pytest.mark.parametrize("name", RUNS)


def executed(name: str, n_tokens: int) -> tuple[dict[str, int], dict[str, int]]:
    """FLOPs by part of the first n tokens of one sequence, and elements kept after them."""
    mixer, sizes = RUNS[name]
    _, flops, kept = mixer(D, **sizes).run(np.random.default_rng(1).standard_normal((n_tokens, D)))
    return flops, kept


def described(name: str, **more: Any) -> rl.Model:
    return one_layer({"kind": name.split(" ")[0]} | RUNS[name][1] | more)


@runs
@pytest.mark.parametrize("n_tokens", [1, 7])
def test_a_layer_has_the_flops_of_its_execution(name: str, n_tokens: int) -> None:
    """All of it; and what is neither product nor convolution is the scan: writes to the state and reads of it."""
    flops, _ = executed(name, n_tokens)
    rows = rows_of(described(name), rl.Seqs(n_seq=3, n_new=n_tokens))
    assert sum(op.flops for op in rows.values()) == 3 * sum(flops.values())
    assert rows["scan"].flops == 3 * (flops["update"] + flops["read"])
    if "conv" in flops:
        assert rows["conv"].flops == 3 * flops["conv"]


@runs
@pytest.mark.parametrize("n_tokens", [1, 7])
def test_a_sequence_keeps_what_its_execution_kept(name: str, n_tokens: int) -> None:
    """The state in fp32, the inputs of the convolution in 16 bit; the same after one token as after seven."""
    _, kept = executed(name, n_tokens)
    expected = 4 * kept["state"] + 2 * kept.get("conv", 0)
    assert rl.state_bytes(described(name), batch=5) == 5 * expected
    assert rl.kv_bytes(described(name), context_tokens=n_tokens) == 0


@runs
def test_the_past_costs_a_read_of_the_state_and_no_flop(name: str) -> None:
    """Written once a sequence and pass; read once where there is a past."""
    state = rl.state_bytes(described(name))
    first, after, far = (rl.count(described(name), rl.Seqs(n_seq=4, n_new=3, n_past=s)) for s in (0, 1, 1_000_000))
    assert first.flops == after.flops == far.flops
    assert (first.state_bytes, after.state_bytes, far.state_bytes) == (4 * state, 8 * state, 8 * state)


@runs
def test_a_state_in_16_bit_is_half_as_large(name: str) -> None:
    _, kept = executed(name, 1)
    wide, narrow = (rl.state_bytes(described(name, state_dtype=d)) for d in ("fp32", "bf16"))
    assert wide - narrow == 2 * kept["state"]


# By hand, for those nobody executed


def test_a_short_convolution_by_hand() -> None:
    """D = 16, 20 channels, 3 taps: 2·(16·60 + 3·20 + 20·16) a token; 20 · 2 inputs of 2 B kept, 20 · 3 in a buffer."""
    model = one_layer({"kind": "short_conv", "d_inner": 20, "d_conv": 3})
    rows = rows_of(model, rl.Seqs(n_seq=2, n_new=5, n_past=9))
    assert sum(op.flops for op in rows.values()) == 10 * 2 * (16 * 60 + 3 * 20 + 20 * 16)
    assert rl.state_bytes(model, batch=3) == 3 * 20 * 2 * 2
    assert rl.state_bytes(model, batch=3, policy="allocated") == 3 * 20 * 3 * 2
    assert sum(op.state_bytes for op in rows.values()) == 2 * 2 * 80  # two sequences, read and written


def test_a_gated_linear_unit_by_hand() -> None:
    """D = 16, 24 channels in 4 blocks of 6, 4 taps: 2·(16·48 + 4·24 + two gates of 4·6·6 + 24·16) a token; a number a
    channel in fp32 and 24 · 3 inputs kept."""
    model = one_layer({"kind": "rglru", "d_inner": 24, "n_blocks": 4, "d_conv": 4})
    rows = rows_of(model, rl.Seqs(n_seq=2, n_new=5))
    assert sum(op.flops for op in rows.values()) == 10 * 2 * (16 * 48 + 4 * 24 + 2 * 4 * 36 + 24 * 16)
    assert rl.state_bytes(model) == 24 * 4 + 24 * 3 * 2


def test_a_delta_net_gated_by_channel_by_hand() -> None:
    """D = 16; 2 key heads of 5, 4 value heads of 3, so q and k are 10 wide, v 12, the convolution 32 of 4 taps.

    in 16·32, ba 16·4, two bottlenecks of 3: 16·3 + 3·10 (decay) and 16·3 + 3·12 (output gate), out 12·16; scan 3·60.
    """
    sizes = {"n_key_heads": 2, "d_key": 5, "n_value_heads": 4, "d_value": 3, "d_conv": 4, "gate": "channel"}
    model = one_layer({"kind": "delta"} | sizes)
    rows = rows_of(model, rl.Seqs(n_seq=1, n_new=1))
    products = 16 * 32 + 16 * 4 + (16 * 3 + 3 * 10) + (16 * 3 + 3 * 12) + 12 * 16
    assert sum(op.flops for op in rows.values()) == 2 * (products + 4 * 32 + 3 * 60)
    assert rl.state_bytes(model) == 4 * 60 + 2 * 32 * 3


def test_qwen3_next_keeps_77856768_bytes_in_a_rolling_buffer() -> None:
    """36 delta nets (config.json: 16 key heads of 128, 32 value heads of 128, 4 taps): 32·128·128 in fp32, and 4 inputs of
    2·2048 + 4096 channels in bf16: 36 · (2,097,152 + 65,536) B."""
    sizes = {"n_key_heads": 16, "d_key": 128, "n_value_heads": 32, "d_value": 128, "d_conv": 4}
    model = of_layers({"mixer": {"kind": "delta"} | sizes, "ffn": None}, repeat=36, d_model=2048)
    assert rl.state_bytes(model, policy="allocated") == 36 * (2_097_152 + 65_536) == 77_856_768
    assert rl.state_bytes(model) == 36 * (2_097_152 + 49_152)  # the three inputs before the current one


def test_attention_and_mamba_side_by_side_are_the_one_and_the_other() -> None:
    """Both read the layer's input: FLOPs, cache, state and parameters add up."""
    attention = {"kind": "attention", "n_heads": 4, "n_kv_heads": 2, "d_head": 8}
    mamba = {"kind": "mamba2", "n_heads": 2, "d_head": 8, "n_groups": 1, "d_state": 4, "d_conv": 4}
    pair = {"kind": "pair", "attention": attention, "recurrent": mamba}
    seqs = rl.Seqs(n_seq=2, n_new=5, n_past=7)

    def counted(*mixers: Spec) -> list[Any]:
        ledgers = [rl.count(one_layer(m), seqs) for m in mixers]
        names = ("kv_read_bytes", "kv_write_bytes", "state_bytes")
        flops = sum(op.flops for ledger in ledgers for op in ledger.ops if op.kind != "head")
        return [flops, *(sum(ledger.total(n) for ledger in ledgers) for n in names)]

    assert counted(pair) == counted(attention, mamba)
    assert rl.state_bytes(one_layer(pair)) == rl.state_bytes(one_layer(mamba))
    assert rl.kv_bytes(one_layer(pair), context_tokens=9) == rl.kv_bytes(one_layer(attention), context_tokens=9)
    empty = of_layers({"ffn": {"kind": "linear"}}).n_params - D * D - 2 * D  # tables
    parts = one_layer(attention).n_params + one_layer(mamba).n_params - (empty + 2 * D)
    assert one_layer(pair).n_params == parts


# Laws of all


@given(zoo_models(mixers=RECURRENT, bodies=("decoder",), sharing=False), zoo_seqs(), st.integers(0, 100_000))
def test_work_and_state_do_not_depend_on_how_long_the_past_is(model: rl.Model, like: rl.Seqs, more: int) -> None:
    near, far = (rl.count(model, rl.Seqs(n_seq=like.n_seq, n_new=like.n_new, n_past=1 + past)) for past in (0, more))
    for name in ("flops", "executed_flops", "streamed_bytes", "compulsory_bytes", "state_bytes"):
        assert near.total(name) == far.total(name), name
    assert near.kv_read_bytes == near.kv_write_bytes == 0


@given(st.sampled_from(RECURRENT).flatmap(lambda kind: MIXERS[kind]()), st.integers(1, 64), st.integers(1, 512))
def test_a_pass_writes_its_state_once_however_many_tokens_it_takes(mixer: Spec, batch: int, n_new: int) -> None:
    model = one_layer(mixer)
    ledger = rl.count(model, rl.Seqs(n_seq=batch, n_new=n_new))
    assert ledger.state_bytes == rl.state_bytes(model, batch=batch)
    one = rl.count(model, rl.Seqs(n_seq=1, n_new=1))
    inside, each = (sum(op.flops for op in x.ops if op.kind != "head") for x in (ledger, one))
    assert inside == batch * n_new * each


@given(zoo_models(bodies=("decoder",)), st.integers(1, 64))
def test_a_buffer_is_never_smaller_than_what_mathematics_needs(model: rl.Model, batch: int) -> None:
    needed, buffered = (rl.state_bytes(model, batch=batch, policy=p) for p in ("window", "allocated"))
    assert 0 <= needed <= buffered
    assert needed == batch * rl.state_bytes(model)


def test_a_state_that_all_sequences_start_from_is_read_once_at_least() -> None:
    """Eight sequences after one shared prefix: eight states written, one read at least; once they differ, eight."""
    model = rl.model("qwen3-next-80b-a3b")
    each = 36 * (
        32 * 128 * 128 * 4 + 8192 * 3 * 2
    )  # delta nets: fp32 states, and what a convolution of 4 needs of before
    whole, apart = (rl.count(model, rl.Seqs(n_seq=8, n_new=4, n_past=100, n_shared=n)) for n in (100, 99))
    assert whole.state_bytes == apart.state_bytes == 16 * each
    kv = [ledger.total("kv_read_bytes_min") for ledger in (whole, apart)]
    assert (apart.compulsory_bytes - kv[1]) - (whole.compulsory_bytes - kv[0]) == 7 * each
