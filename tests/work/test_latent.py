"""Latent attention, its indexer, and compressed attention: against products multiplied out one by one."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import Spec
from zoo import compressed_specs, latent_specs, of_layers

import roofline as rl
from roofline.work.step import Step

D = 16  # of the small models here


class Tally:
    """Adds up 2 · rows · inner · columns of every product it is told of."""

    def __init__(self) -> None:
        self.flops = 0

    def product(self, rows: int, inner: int, columns: int, times: int = 1) -> None:
        self.flops += 2 * rows * inner * columns * times


def one_layer(mixer: Spec, **outside: Any) -> rl.Model:
    """The mixer alone in one layer, no FFN."""
    return of_layers({"mixer": mixer, "ffn": None}, **outside)


def mixed(model: rl.Model, step: rl.Seqs | Step, **how: Any) -> dict[str, float]:
    """What the layer counts, the head and the tables left out."""
    rows = [op for op in rl.count(model, step, **how).ops if op.kind not in ("head", "embedding")]
    names = (
        "flops",
        "executed_flops",
        "kv_read_bytes",
        "kv_read_bytes_min",
        "kv_write_bytes",
        "weight_bytes",
        "act_bytes",
    )
    return {name: float(sum(op.repeat * getattr(op, name) for op in rows)) for name in names}


parts = st.tuples(st.integers(1, 3), st.integers(1, 40), st.integers(0, 60))
steps = st.lists(parts, min_size=1, max_size=3)
forms = st.sampled_from(["absorbed", "expanded"])


def as_step(given_parts: list[tuple[int, int, int]]) -> Step:
    return tuple(rl.Seqs(n_seq=b, n_new=t, n_past=s) for b, t, s in given_parts)


# The two forms, multiplied out


def latent_flops(x: Spec, form: str, n_seq: int, n_new: int, n_past: int) -> int:
    """Every product of one layer for one part, in one form. Heads see all tokens up to their own, or top_k of them."""
    n, r, rope, nope, v = (x[k] for k in ("n_heads", "d_latent", "d_rope", "d_nope", "d_value"))
    tally, tokens = Tally(), n_seq * n_new
    if x["d_q_latent"] is None:
        tally.product(tokens, D, n * (nope + rope))
    else:
        tally.product(tokens, D, x["d_q_latent"])
        tally.product(tokens, x["d_q_latent"], n * (nope + rope))
    tally.product(tokens, D, r + rope)
    top_k = x["indexer"]["top_k"] if "indexer" in x else math.inf
    own_index = "indexer" in x and not x["indexer"]["shared"]
    if own_index:
        heads, d = x["indexer"]["n_heads"], x["indexer"]["d_head"]
        tally.product(tokens, x["d_q_latent"], heads * d)
        tally.product(tokens, D, d)
        tally.product(tokens, D, heads)
    for _, head in itertools.product(range(n_seq), range(n)):
        assert head < n
        if form == "expanded":
            tally.product(n_past + n_new, r, nope)  # keys of every token there is
            tally.product(n_past + n_new, r, v)  # values
        else:
            tally.product(n_new, nope, r)  # k_b into the query
            tally.product(n_new, r, v)  # v_b out of the latent sum
        for query in range(n_past, n_past + n_new):
            keys = int(min(query + 1, top_k))
            wide, out = (nope + rope, v) if form == "expanded" else (r + rope, r)
            tally.product(1, wide, keys)
            tally.product(1, keys, out)
    if own_index:
        for query in range(n_past, n_past + n_new):
            tally.product(heads, d, query + 1, times=n_seq)  # a score of every head and visible token
            tally.product(1, heads, query + 1, times=n_seq)  # and their weighted sum
    tally.product(tokens, n * v, D)
    return tally.flops


@given(latent_specs(), steps, forms)
def test_each_form_has_the_flops_of_its_products(
    mixer: Spec, given_parts: list[tuple[int, int, int]], form: Any
) -> None:
    found = mixed(one_layer(mixer), as_step(given_parts), latent=form)
    assert found["executed_flops"] == sum(latent_flops(mixer, form, *p) for p in given_parts)


@given(latent_specs(), steps)
def test_auto_takes_for_each_part_the_form_with_fewer_flops(
    mixer: Spec, given_parts: list[tuple[int, int, int]]
) -> None:
    cheaper = sum(min(latent_flops(mixer, form, *p) for form in ("absorbed", "expanded")) for p in given_parts)
    found = mixed(one_layer(mixer), as_step(given_parts))
    assert found["executed_flops"] == found["flops"] == cheaper


@given(latent_specs(), steps, forms)
def test_the_model_s_own_flops_are_those_of_the_cheaper_form_whatever_runs(
    mixer: Spec, given_parts: list[tuple[int, int, int]], form: Any
) -> None:
    auto, forced = (mixed(one_layer(mixer), as_step(given_parts), **how) for how in ({}, {"latent": form}))
    assert forced["flops"] == auto["flops"] <= forced["executed_flops"]
    assert forced["kv_read_bytes_min"] == auto["kv_read_bytes_min"]


@given(latent_specs(), parts, st.sampled_from(["auto", "absorbed", "expanded"]))
def test_both_forms_leave_the_same_cache(mixer: Spec, part: tuple[int, int, int], form: Any) -> None:
    """R + r elements a token, and the index key where the layer picks itself; 2 B each."""
    n_seq, n_new, _ = part
    own = mixer["indexer"]["d_head"] if "indexer" in mixer and not mixer["indexer"]["shared"] else 0
    per_token = 2 * (mixer["d_latent"] + mixer["d_rope"] + own)
    model = one_layer(mixer)
    assert mixed(model, as_step([part]), latent=form)["kv_write_bytes"] == n_seq * n_new * per_token
    assert rl.kv_bytes(model, context_tokens=n_new, batch=n_seq) == n_seq * n_new * per_token


@given(latent_specs(indexed=("no",)), parts, st.sampled_from(["auto", "absorbed", "expanded"]))
def test_both_forms_read_every_cached_latent_once(mixer: Spec, part: tuple[int, int, int], form: Any) -> None:
    n_seq, _, n_past = part
    found = mixed(one_layer(mixer), as_step([part]), latent=form)
    assert (
        found["kv_read_bytes"]
        == found["kv_read_bytes_min"]
        == n_seq * n_past * 2 * (mixer["d_latent"] + mixer["d_rope"])
    )


@given(latent_specs(indexed=("no",)), parts, st.sampled_from([1, 2, 4]))
def test_more_heads_cost_flops_and_no_cache(mixer: Spec, part: tuple[int, int, int], times: int) -> None:
    few, many = (
        mixed(one_layer(mixer | {"n_heads": n}), as_step([part])) for n in (mixer["n_heads"], times * mixer["n_heads"])
    )
    assert few["kv_read_bytes"] == many["kv_read_bytes"]
    assert few["kv_write_bytes"] == many["kv_write_bytes"]
    assert few["flops"] <= many["flops"]


# The indexer


@given(latent_specs(indexed=("own", "shared")), parts)
def test_a_query_attends_to_its_top_k_and_reads_no_more(mixer: Spec, part: tuple[int, int, int]) -> None:
    """Absorbed: T queries read min(S, T·(k − 1)) latents, one of them at least min(S, k − 1), and every index key."""
    n_seq, n_new, n_past = part
    k, per_token = mixer["indexer"]["top_k"], 2 * (mixer["d_latent"] + mixer["d_rope"])
    index = 0 if mixer["indexer"]["shared"] else n_past * 2 * mixer["indexer"]["d_head"]
    certain = index if n_past + n_new > k else 0  # with no more than k there is nothing to choose, and no need to score
    found = mixed(one_layer(mixer), as_step([part]), latent="absorbed")
    assert found["kv_read_bytes"] == n_seq * (min(n_past, n_new * (k - 1)) * per_token + index)
    assert found["kv_read_bytes_min"] == n_seq * (min(n_past, k - 1) * per_token + certain)


@given(latent_specs(indexed=("own",)), parts)
def test_a_shared_selection_costs_no_indexer(mixer: Spec, part: tuple[int, int, int]) -> None:
    """What it saves: 2·n·(d + 1) a pair, three products a token, d elements of cache a token."""
    n_seq, n_new, n_past = part
    x, tokens = mixer["indexer"], n_seq * n_new
    shared = mixer | {"indexer": x | {"shared": True}}
    own, borrowed = (mixed(one_layer(m), as_step([part]), latent="absorbed") for m in (mixer, shared))
    pairs = n_seq * sum(range(n_past + 1, n_past + n_new + 1))
    products = 2 * tokens * (24 * x["n_heads"] * x["d_head"] + D * x["d_head"] + D * x["n_heads"])
    assert own["flops"] - borrowed["flops"] == products + pairs * 2 * x["n_heads"] * (x["d_head"] + 1)
    assert own["kv_write_bytes"] - borrowed["kv_write_bytes"] == tokens * 2 * x["d_head"]
    assert own["kv_read_bytes"] - borrowed["kv_read_bytes"] == n_seq * n_past * 2 * x["d_head"]
    assert one_layer(mixer).n_params > one_layer(shared).n_params


@given(latent_specs(indexed=("no",)), parts)
def test_an_indexer_that_picks_everything_changes_nothing_in_the_attention(
    mixer: Spec, part: tuple[int, int, int]
) -> None:
    mixer |= {"d_q_latent": 24}
    indexer = {"n_heads": 1, "d_head": 8, "top_k": 1000, "shared": True}
    for how in ({"latent": "absorbed"}, {"latent": "expanded"}, {}):
        full, picked = (mixed(one_layer(m), as_step([part]), **how) for m in (mixer, mixer | {"indexer": indexer}))
        assert full == picked


@given(latent_specs(indexed=("own", "shared")), st.integers(2, 5), st.integers(0, 200), st.data())
def test_sequences_that_share_a_prefix_may_all_pick_the_same_tokens_of_it(
    mixer: Spec, n_seq: int, n_past: int, data: st.DataObject
) -> None:
    """The floor is what the luckiest picks read: each wants p = min(S, k − 1) tokens, and min(p, shared) of them may be one
    and the same for all; index keys are all scored, those of the prefix once."""
    n_shared = data.draw(st.integers(0, n_past))
    picked = min(n_past, mixer["indexer"]["top_k"] - 1)
    same = min(picked, n_shared)
    per_token = 2 * (mixer["d_latent"] + mixer["d_rope"])
    index = (
        0 if mixer["indexer"]["shared"] else (n_seq * n_past - (n_seq - 1) * n_shared) * 2 * mixer["indexer"]["d_head"]
    )
    step = rl.Seqs(n_seq=n_seq, n_new=1, n_past=n_past, n_shared=n_shared)
    found = mixed(one_layer(mixer), step, latent="absorbed")["kv_read_bytes_min"]
    assert found <= (n_seq * picked - (n_seq - 1) * same) * per_token + index


# Compressed attention, query by query


def compressed_flops(x: Spec, n_seq: int, n_new: int, n_past: int) -> int:
    """Every product of one layer for one part: a window of tokens, and entries of `ratio` tokens each beyond."""
    n, h, rq, g, ro = (x[k] for k in ("n_heads", "d_head", "d_q_latent", "n_out_groups", "d_out_latent"))
    tally, tokens, index = Tally(), n_seq * n_new, x.get("indexer")
    tally.product(tokens, D, rq)
    tally.product(tokens, rq, n * h)
    tally.product(tokens, D, h)
    if x["ratio"] is not None:
        series = 2 if index else 1
        tally.product(tokens, D, series * h, times=2)  # what is pooled, and the gates it is pooled with
    if index:
        tally.product(tokens, rq, index["n_heads"] * index["d_head"])
        tally.product(tokens, D, 2 * index["d_head"], times=2)
        tally.product(tokens, D, index["n_heads"])
    for query in range(n_past, n_past + n_new):
        entries = 0 if x["ratio"] is None else (query + 1) // x["ratio"]
        if index:
            tally.product(index["n_heads"], index["d_head"], entries, times=n_seq)
            tally.product(1, index["n_heads"], entries, times=n_seq)
            entries = min(entries, index["top_k"])
        keys = min(query + 1, x["window"]) + entries
        tally.product(1, h, keys, times=n * n_seq)
        tally.product(1, keys, h, times=n * n_seq)
    tally.product(tokens, n * h // g, ro, times=g)
    tally.product(tokens, g * ro, D)
    return tally.flops


@given(compressed_specs(), steps)
def test_compressed_attention_has_the_flops_of_its_products(
    mixer: Spec, given_parts: list[tuple[int, int, int]]
) -> None:
    found = mixed(one_layer(mixer), as_step(given_parts))
    assert found["flops"] == found["executed_flops"] == sum(compressed_flops(mixer, *p) for p in given_parts)


@given(compressed_specs(), parts)
def test_compressed_attention_moves_a_window_and_its_entries(mixer: Spec, part: tuple[int, int, int]) -> None:
    """One head that is key and value at once: H elements of 2 B a token or entry; the indexer's besides."""
    n_seq, n_new, n_past = part
    r, index, per = mixer["ratio"], mixer.get("indexer"), 2 * mixer["d_head"]
    before, after = (0, 0) if r is None else (n_past // r, (n_past + n_new) // r)
    there = min(before, n_new * index["top_k"]) if index else before
    least = min(before, index["top_k"]) if index else before
    d_index = 2 * index["d_head"] if index else 0
    found, window = mixed(one_layer(mixer), as_step([part])), min(n_past, mixer["window"] - 1)
    assert found["kv_read_bytes"] == n_seq * ((window + there) * per + before * d_index)
    assert found["kv_read_bytes_min"] == n_seq * ((window + least) * per + before * d_index)
    assert found["kv_write_bytes"] == n_seq * (n_new * per + (after - before) * (per + d_index))


@given(compressed_specs(), st.integers(2, 5), st.integers(0, 300), st.data())
def test_entries_of_a_shared_prefix_are_held_once(mixer: Spec, n_seq: int, n_past: int, data: st.DataObject) -> None:
    """Whole entries of the prefix belong to nobody; what an indexer picks may be the same ones for all."""
    n_shared = data.draw(st.integers(0, n_past))
    r, index, per = mixer["ratio"], mixer.get("indexer"), 2 * mixer["d_head"]
    entries, shared = (0, 0) if r is None else (n_past // r, n_shared // r)
    picked = min(entries, index["top_k"]) if index else entries
    window = min(n_past, mixer["window"] - 1)
    in_window = max(0, window - (n_past - n_shared))
    least = n_seq * (window + picked) - (n_seq - 1) * (in_window + min(picked, shared))
    scored = (n_seq * entries - (n_seq - 1) * shared) * (2 * index["d_head"] if index else 0)
    step = rl.Seqs(n_seq=n_seq, n_new=1, n_past=n_past, n_shared=n_shared)
    assert mixed(one_layer(mixer), step)["kv_read_bytes_min"] <= least * per + scored


# Published widths: DeepSeek-V3 (config.json: 61 layers, 128 heads, 512 + 64, 128, 128, 1536)

V3 = {
    "kind": "latent",
    "n_heads": 128,
    "d_latent": 512,
    "d_rope": 64,
    "d_nope": 128,
    "d_value": 128,
    "d_q_latent": 1536,
}
V32 = V3 | {"indexer": {"n_heads": 64, "d_head": 128, "top_k": 2048}}


def deepseek(mixer: Spec) -> rl.Model:
    return of_layers({"mixer": mixer, "ffn": None}, repeat=61, d_model=7168)


def test_deepseek_v3_caches_70272_bytes_a_token() -> None:
    """61 · (512 + 64) · 2 B."""
    assert rl.kv_bytes(deepseek(V3), context_tokens=1, kv="bf16") == 70_272
    assert rl.kv_bytes(deepseek(V3), context_tokens=1000, batch=3, kv="bf16") == 3000 * 70_272


def test_deepseek_v3_2_caches_85888_bytes_a_token() -> None:
    """61 · (512 + 64 + 128) · 2 B: the index key stands beside the latent."""
    assert rl.kv_bytes(deepseek(V32), context_tokens=1, kv="bf16") == 85_888


def test_deepseek_v3_absorbs_a_chunk_below_about_170_new_tokens_after_a_long_past() -> None:
    """Expanding costs S·R·(p + v) = S·512·256 a head, absorbing (2·R − p − v) = 768 more for each of T·S pairs: they meet
    at T = 512·256/768 = 170.67; the new tokens' own pairs move that by little when S is long."""
    model, past = one_layer(V3, d_model=7168), 1_000_000

    def extra(n_new: int, form: Any) -> float:
        ledger = rl.count(model, rl.Seqs(n_seq=1, n_new=n_new, n_past=past), latent=form)
        return float(ledger.executed_flops - ledger.flops)

    assert extra(170, "absorbed") == 0 < extra(170, "expanded")
    assert extra(171, "expanded") == 0 < extra(171, "absorbed")


def test_a_prompt_of_deepseek_v3_is_expanded_and_a_decode_absorbed() -> None:
    """A decode after 1000: 2·128·(1·512·256 + 1001·1088) absorbed, 2·128·(1001·512·256 + 1001·320) expanded."""
    model = one_layer(V3, d_model=7168)
    names = ("k_b_proj", "v_b_proj", "attention")

    def core(step: rl.Seqs, form: Any) -> float:
        ops = rl.count(model, step, latent=form).ops
        return float(sum(op.executed_flops for op in ops if op.name in names))

    decode = rl.Seqs(n_seq=1, n_new=1, n_past=1000)
    assert core(decode, "absorbed") == core(decode, "auto") == 2 * 128 * (512 * 256 + 1001 * 1088)
    assert core(decode, "expanded") == 2 * 128 * (1001 * 512 * 256 + 1001 * 320)
    prompt = rl.Seqs(n_seq=1, n_new=1000)
    pairs = 1000 * 1001 // 2
    assert core(prompt, "expanded") == core(prompt, "auto") == 2 * 128 * (1000 * 512 * 256 + pairs * 320)
    assert core(prompt, "absorbed") == 2 * 128 * (1000 * 512 * 256 + pairs * 1088)


@pytest.mark.parametrize("form", ["auto", "absorbed", "expanded"])
def test_a_forced_form_costs_time_and_no_floor(form: Any) -> None:
    chip = rl.hardware("h100-sxm-80gb")
    for step in (rl.Seqs(n_seq=1, n_new=1, n_past=5000), rl.Seqs(n_seq=1, n_new=5000)):
        auto, forced = (rl.clock(rl.count(deepseek(V3), step, latent=f), chip) for f in ("auto", form))
        assert forced.floor_s == auto.floor_s
        assert forced.executed_flops >= auto.executed_flops
