"""Speculation: the series, a 70B with a 1B draft worked out by hand, and what must hold of any model, chip and drafter."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import Spec, as_chip, as_model, chip_specs, layer_specs, model_specs, precisions, times_faster

import roofline as rl
from roofline.answers.drafters import Drafter, DrafterKind
from roofline.answers.speculation import (
    Speculation,
    best_n_drafts,
    break_even_batch,
    expected_tokens,
    speculate,
)
from roofline.num import Num
from roofline.specs.catalog import model_ids

LAST_BITS = 1e-12
FEW = settings(max_examples=settings().max_examples // 4)

H200 = rl.hardware("h200")
B300 = rl.hardware("b300")
LLAMA_70B = rl.Deployment(model=rl.model("llama-3.1-70b"), hardware=H200, weights="fp8")
LLAMA_1B = rl.Deployment(model=rl.model("llama-3.2-1b"), hardware=H200)
NGRAM = Drafter(kind="ngram")
MTP = Drafter(kind="mtp")
DRAFT_1B = Drafter(kind="draft_model", deployment=LLAMA_1B)
WITH_MTP = [name for name in model_ids() if rl.model(name).mtp is not None]

shares = st.floats(0.0, 1.0)


# The series


@given(st.fractions(0, 1, max_denominator=1000), st.integers(0, 40))
def test_a_round_gives_the_mean_over_all_ways_it_may_end(alpha: Fraction, k: int) -> None:
    """j drafts accepted and the next refused, j < k: j + 1 tokens; all accepted: k + 1."""
    ends = sum(alpha**j * (1 - alpha) * (j + 1) for j in range(k)) + alpha**k * (k + 1)
    assert expected_tokens(float(alpha), n_drafts=k) == pytest.approx(float(ends), rel=1e-13)


@given(st.integers(0, 256))
def test_all_accepted_gives_one_more_than_the_drafts_and_none_accepted_gives_one(k: int) -> None:
    assert expected_tokens(1, n_drafts=k) == k + 1
    assert expected_tokens(0, n_drafts=k) == 1
    assert expected_tokens(math.nextafter(1, 0), n_drafts=k) <= k + 1


@given(shares, shares, st.integers(0, 64))
def test_more_acceptance_never_gives_fewer_tokens(one: float, other: float, k: int) -> None:
    low, high = sorted((one, other))
    assert expected_tokens(low, n_drafts=k) <= expected_tokens(high, n_drafts=k)


def test_the_series_broadcasts() -> None:
    grid = expected_tokens([[0.0], [0.3], [1.0]], n_drafts=[0, 1, 5])
    assert np.asarray(grid).tolist() == [[expected_tokens(a, n_drafts=k) for k in (0, 1, 5)] for a in (0.0, 0.3, 1.0)]


# By hand: Llama-3.1-70B in fp8 on an H200, a Llama-3.2-1B in bf16 drafting


@dataclass(frozen=True)
class Dense:
    """A Llama by its shapes; `weight_bytes` of an element of its layers. Cache, tables and activations take 2 bytes."""

    n_layers: int
    d_model: int
    d_ff: int
    n_heads: int
    n_kv_heads: int
    d_head: int
    vocab: int
    weight_bytes: int
    dtype: str

    @property
    def matrices(self) -> list[tuple[int, int]]:
        d, f, q, kv = self.d_model, self.d_ff, self.n_heads * self.d_head, self.n_kv_heads * self.d_head
        return [(d, q), (d, kv), (d, kv), (q, d), (d, f), (d, f), (f, d)]

    def cache_bytes(self, tokens: float) -> float:
        """Keys and values of one layer."""
        return tokens * 2 * self.n_kv_heads * self.d_head * 2

    def work(
        self, *, n_seq: float, n_new: float, n_past: float, n_logits: float
    ) -> list[tuple[int, str, float, float, float]]:
        """(how often, dtype, FLOP, bytes no execution gets around, activation bytes) of every op of a pass."""
        d, f, heads, m = self.d_model, self.d_ff, self.n_heads + self.n_kv_heads, n_seq * n_new
        pairs = n_seq * (n_new * n_past + n_new * (n_new + 1) / 2)
        layer = [
            (self.dtype, 2 * m * a * b, 1.0 * a * b * self.weight_bytes, m * (a + b) * 2) for a, b in self.matrices
        ]
        layer += [
            (
                "bf16",
                4 * self.n_heads * self.d_head * pairs,  # scores, and the weighted sum
                n_seq * self.cache_bytes(n_past + n_new),  # what was there is read, what is new written
                m * heads * 2 * self.d_head * 2,
            ),
            # two norms of two rows in and out, q and k rotated, gate and up multiplied; their scales
            ("bf16", 0.0, 2 * d * 2, m * (8 * d + 2 * heads * self.d_head + 3 * f) * 2),
        ]
        wanted = n_seq * n_logits
        outside = [
            ("bf16", 0.0, m * d * 2, m * d * 2),  # rows of the embedding, written on
            ("bf16", 0.0, d * 2, 3 * m * d * 2),  # the last norm
            ("bf16", 2 * wanted * d * self.vocab, d * self.vocab * 2, wanted * (d + self.vocab) * 2),
        ]
        return [(self.n_layers, *op) for op in layer] + [(1, *op) for op in outside]

    def seconds(self, **shape: float) -> float:
        """Σ max(F / π, Q / β)."""
        return sum(
            n * max(flops / H200.peak_flops_per_s(dtype), (certain + moved) / H200.hbm_bytes_per_s)
            for n, dtype, flops, certain, moved in self.work(**shape)
        )

    def floor_s(self, **shape: float) -> float:
        """max(Σ F / π, Σ compulsory bytes / β)."""
        work = self.work(**shape)
        compute = sum(n * flops / H200.bound_flops_per_s(dtype) for n, dtype, flops, _, _ in work)
        return max(compute, sum(n * certain / H200.hbm_bytes_per_s for n, _, _, certain, _ in work))


BIG = Dense(80, 8192, 28672, 64, 8, 128, 128256, weight_bytes=1, dtype="fp8")
SMALL = Dense(16, 2048, 8192, 32, 8, 64, 128256, weight_bytes=2, dtype="bf16")


@pytest.mark.parametrize("batch", [1, 64])
def test_a_70b_with_a_1b_draft_is_what_its_bytes_and_flops_say(batch: int) -> None:
    k, alpha, context = 4, 0.7, 2048
    s = speculate(LLAMA_70B, drafter=DRAFT_1B, n_drafts=k, acceptance=alpha, context_tokens=context, batch=batch)

    verify: dict[str, float] = {"n_seq": batch, "n_new": 5, "n_past": context, "n_logits": 5}
    plain: dict[str, float] = {"n_seq": batch, "n_new": 1, "n_past": context, "n_logits": 1}
    later: list[dict[str, float]] = [
        {"n_seq": batch, "n_new": 1, "n_past": context + i, "n_logits": 1} for i in (1, 2, 3)
    ]
    unread = 1 + alpha**4  # after a round accepted whole, the draft has its last token yet to read
    first: dict[str, float] = {"n_seq": batch, "n_new": unread, "n_past": context + 1 - unread, "n_logits": 1}
    tokens = 1 + 0.7 + 0.49 + 0.343 + 0.2401

    draft_s = sum(SMALL.seconds(**shape) for shape in (first, *later))
    round_s = draft_s + BIG.seconds(**verify)
    assert s.tokens_per_round == pytest.approx(tokens)
    assert s.draft_s == pytest.approx(draft_s)
    assert s.verify_s == pytest.approx(BIG.seconds(**verify))
    assert s.tpot_s == pytest.approx(round_s / tokens)
    assert s.plain_tpot_s == pytest.approx(BIG.seconds(**plain))
    assert s.speedup == pytest.approx(BIG.seconds(**plain) * tokens / round_s)

    drafts_floor = sum(SMALL.floor_s(**shape) for shape in (plain, *later))
    assert s.round_floor_s == pytest.approx(drafts_floor + BIG.floor_s(**verify))
    assert s.tpot_floor_s == pytest.approx((drafts_floor + BIG.floor_s(**verify)) / 5)


def test_at_batch_1_weights_bind_both_passes_and_at_64_the_arithmetic_of_verification_does() -> None:
    """70.6 GB once for five tokens; 320 rows are past the ridge of fp8 (1978.9 / 4.8 / 2 = 206 rows), 64 are not."""
    s = speculate(LLAMA_70B, drafter=DRAFT_1B, n_drafts=4, acceptance=0.7, context_tokens=2048, batch=[1, 64])
    weights = 80 * 855_638_016 + 2 * 8192 * 128256
    assert np.asarray(s.verify_s)[0] == pytest.approx(weights / 4.8e12, rel=0.02)
    assert np.asarray(s.verify_s)[1] > 2 * 320 * 80 * 855_638_016 / 1978.9e12
    assert s.verify.bound.tolist() == ["memory", "compute"]
    assert s.plain.bound.tolist() == ["memory", "memory"]
    assert np.asarray(s.speedup)[0] > np.asarray(s.speedup)[1]


def test_a_draft_model_holds_its_weights_and_a_cache_of_its_own() -> None:
    s = speculate(LLAMA_70B, drafter=DRAFT_1B, n_drafts=4, acceptance=0.7, context_tokens=2048, batch=8)
    assert s.draft_weight_bytes == 2 * rl.model("llama-3.2-1b").n_params
    assert s.draft_cache_bytes == 8 * 16 * SMALL.cache_bytes(2048 + 4)


# Several chips


def test_a_target_on_four_chips_may_have_its_draft_on_one() -> None:
    one, four = (
        speculate(
            rl.Deployment(model=LLAMA_70B.model, hardware=H200, weights="fp8", plan=plan),
            drafter=DRAFT_1B, n_drafts=4, acceptance=0.7, context_tokens=2048,
        )
        for plan in (rl.Plan(tp=1), rl.Plan(tp=4))
    )  # fmt: skip
    assert four.draft_s == one.draft_s
    assert four.verify_s < one.verify_s
    assert four.tpot_s < one.tpot_s
    assert four.speedup < one.speedup  # drafts are a larger share of a shorter round


def test_in_a_pipeline_drafts_may_hide_behind_other_microbatches_and_the_floor_asks_nothing_of_them() -> None:
    plan = rl.Plan(pp=2)
    target = rl.Deployment(model=LLAMA_70B.model, hardware=H200, weights="fp8", plan=plan)
    s = speculate(target, drafter=DRAFT_1B, n_drafts=4, acceptance=0.7, context_tokens=2048, batch=8)
    assert s.draft_floor_s > 0
    assert s.round_floor_s == s.verify_floor_s
    assert s.round_s == s.draft_s + s.verify_s
    glm = rl.Deployment(model=rl.model("glm-4.5"), hardware=H200, plan=rl.Plan(tp=4, pp=2))
    alone = rl.Deployment(model=rl.model("glm-4.5"), hardware=H200, plan=rl.Plan(tp=4))
    how: dict[str, Any] = {"drafter": MTP, "n_drafts": 1, "acceptance": 0.7, "context_tokens": 2048}
    assert speculate(glm, **how).draft_s == speculate(alone, **how).draft_s  # the module stands on one stage


# Prediction modules


@pytest.mark.parametrize("name", WITH_MTP)
def test_modules_hold_what_the_model_says_their_parameters_are(name: str) -> None:
    """But for the mixing of residual streams in a layer (DeepSeek-V4), which is in no figure of its own there."""
    d = rl.Deployment(model=rl.model(name), hardware=B300, weights="bf16", kv="bf16")
    s = speculate(d, drafter=MTP, n_drafts=1, acceptance=0.8, context_tokens=512)
    rel = 2e-4 if d.model.residual_streams > 1 else 0
    assert s.draft_weight_bytes == pytest.approx(2 * d.model.n_mtp_params, rel=rel, abs=0)


def test_a_draft_of_a_module_is_its_layer_the_join_and_the_head() -> None:
    """GLM-4.5: 5120 wide; 96 and 8 heads of 128; 8 of 160 experts of 1536, and a shared one; 151,552 tokens."""
    d = rl.Deployment(model=rl.model("glm-4.5"), hardware=B300, weights="bf16", kv="bf16")
    s = speculate(d, drafter=MTP, n_drafts=2, acceptance=0, context_tokens=4096)
    attention = 5120 * 128 * (96 + 8 + 8 + 96)
    experts = 5120 * 160 + 3 * 5120 * 1536 * (8 + 1)
    weights = 2 * 5120 * 5120 + attention + experts + 5120 * 151552
    cache = 2 * 8 * 128 * ((4096 + 1) + (4097 + 1))  # read, and one token written
    assert s.draft_floor_s == pytest.approx(2 * (2 * weights + cache) / B300.hbm_bytes_per_s, rel=1e-4)
    assert s.draft_cache_bytes == 2 * 2 * 8 * 128 * (4096 + 2)


def test_modules_in_the_checkpoint_s_own_format_are_as_narrow_as_its_layers() -> None:
    """MiniMax-M2.5 in fp8 blocks: three modules, whose tables are the model's and whose joins stay in 16 bit."""
    d = rl.Deployment(model=rl.model("minimax-m2.5"), hardware=B300)
    s = speculate(d, drafter=MTP, n_drafts=3, acceptance=0.8, context_tokens=512)
    held = d.model.n_mtp_params
    assert 1.0 * held < s.draft_weight_bytes < 1.02 * held


# Laws


@st.composite
def speculations(draw: st.DrawFn, kinds: tuple[DrafterKind, ...] = ("ngram", "mtp", "draft_model")) -> dict[str, Any]:
    """What `speculate` takes besides the acceptance, as plain data first: `asked` makes the records, on any chip."""
    kind = draw(st.sampled_from(kinds))
    target: Spec = draw(model_specs())
    if kind == "mtp":
        modules = {"n_modules": draw(st.integers(1, 3)), "n_norms": draw(st.integers(0, 3))}
        target |= {"mtp": {"layer": draw(layer_specs()), "own_tables": draw(st.booleans())} | modules}
    return {
        "chip": draw(chip_specs()),
        "target": target,
        "precision": draw(precisions()),
        "kind": kind,
        "draft": draw(model_specs()) if kind == "draft_model" else None,
        "n_drafts": draw(st.integers(1, 8)),
        "context_tokens": draw(st.integers(0, 50_000)),
        "batch": draw(st.integers(1, 1024)),
    }


def asked(case: dict[str, Any], *, acceptance: Any, **changes: Any) -> Speculation:
    case = case | changes
    chip = as_chip(case["chip"])
    draft = None if case["draft"] is None else rl.Deployment(model=as_model(case["draft"]), hardware=chip)
    return speculate(
        rl.Deployment(model=as_model(case["target"]), hardware=chip, precision=case["precision"]),
        drafter=Drafter(kind=case["kind"], deployment=draft),
        acceptance=acceptance,
        **{name: case[name] for name in ("n_drafts", "context_tokens", "batch")},
    )


def at_most(smaller: Num, larger: Num) -> bool:
    return bool(np.all(np.less_equal(smaller, np.multiply(larger, 1 + LAST_BITS))))


@given(speculations())
def test_drafts_that_are_never_accepted_are_a_loss(case: dict[str, Any]) -> None:
    s = asked(case, acceptance=0)
    assert s.tokens_per_round == 1
    assert s.round_s > s.plain_tpot_s
    assert s.speedup < 1


@given(speculations(), shares)
def test_no_speed_up_is_above_the_tokens_of_a_round(case: dict[str, Any], alpha: float) -> None:
    s = asked(case, acceptance=alpha)
    assert at_most(s.speedup, s.tokens_per_round)
    assert s.tokens_per_round <= case["n_drafts"] + 1
    assert asked(case, acceptance=1).tokens_per_round == case["n_drafts"] + 1


@given(speculations(), shares)
def test_no_estimate_beats_its_floor_and_the_floor_asks_nothing_of_the_acceptance(
    case: dict[str, Any], alpha: float
) -> None:
    s = asked(case, acceptance=alpha)
    assert 0 <= s.draft_floor_s <= s.draft_s * (1 + LAST_BITS)
    assert 0 < s.round_floor_s <= s.round_s * (1 + LAST_BITS)
    assert 0 < s.tpot_floor_s <= s.tpot_s
    assert s.tpot_floor_s == asked(case, acceptance=0).tpot_floor_s
    assert at_most(s.plain_tpot_floor_s, s.verify_floor_s)


@given(speculations(kinds=("ngram", "mtp")), shares, shares)
def test_more_acceptance_is_never_slower(case: dict[str, Any], one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert at_most(asked(case, acceptance=low).speedup, asked(case, acceptance=high).speedup)


@given(speculations(kinds=("draft_model",)), shares, shares)
def test_nor_with_a_draft_model_as_large_as_its_target(case: dict[str, Any], one: float, other: float) -> None:
    low, high = sorted((one, other))
    case = case | {"draft": case["target"]}
    assert at_most(asked(case, acceptance=low).speedup, asked(case, acceptance=high).speedup)


@given(speculations(), shares)
def test_no_drafts_is_plain_decoding(case: dict[str, Any], alpha: float) -> None:
    s = asked(case, acceptance=alpha, n_drafts=0)
    assert s.tokens_per_round == 1
    assert s.draft_s == 0
    assert s.tpot_s == s.plain_tpot_s
    assert s.speedup == 1


@given(speculations(), shares, st.sampled_from([2.0, 3.0, 1000.0]))
def test_a_machine_faster_all_over_is_as_much_faster(case: dict[str, Any], alpha: float, factor: float) -> None:
    one = asked(case, acceptance=alpha)
    other = asked(case, acceptance=alpha, chip=times_faster(case["chip"], factor))
    for name in ("draft_s", "round_s", "tpot_s", "round_floor_s", "tpot_floor_s"):
        assert getattr(one, name) == pytest.approx(factor * getattr(other, name), rel=1e-9)
    assert one.speedup == pytest.approx(other.speedup, rel=1e-9)


@FEW
@given(speculations())
def test_a_grid_is_its_points(case: dict[str, Any]) -> None:
    alphas, ks, contexts = [[[0.0]], [[0.6]], [[1.0]]], [[0], [1], [5]], [7, 3000]
    grid = asked(case, acceptance=alphas, n_drafts=ks, context_tokens=contexts)
    points = [
        asked(case, acceptance=a, n_drafts=k, context_tokens=c)
        for a in (0.0, 0.6, 1.0)
        for k in (0, 1, 5)
        for c in contexts
    ]
    for name in ("tokens_per_round", "draft_s", "round_s", "tpot_floor_s", "speedup", "draft_cache_bytes"):
        values = np.asarray(getattr(grid, name))
        assert values.shape == (3, 3, 2)
        assert values.ravel() == pytest.approx([getattr(point, name) for point in points], rel=LAST_BITS)


@pytest.mark.parametrize("alpha", [0.3, 0.8, 1.0])
def test_free_drafts_at_batch_1_are_worth_the_tokens_they_give(alpha: float) -> None:
    s = speculate(LLAMA_70B, drafter=NGRAM, n_drafts=6, acceptance=alpha, context_tokens=1000)
    assert s.draft_s == s.draft_weight_bytes == s.draft_cache_bytes == 0
    assert 0.99 * s.tokens_per_round < s.speedup < s.tokens_per_round


def test_a_draft_reads_what_it_missed_when_all_were_accepted() -> None:
    """Two tokens in the first of four passes, where arithmetic binds: a fifth of the work more."""
    fast_memory = H200.model_copy(update={"memory": H200.memory.model_copy(update={"bytes_per_s": 1e18})})
    target = rl.Deployment(model=LLAMA_70B.model, hardware=fast_memory)
    draft = Drafter(kind="draft_model", deployment=rl.Deployment(model=LLAMA_1B.model, hardware=fast_memory))
    none, every = (
        speculate(target, drafter=draft, n_drafts=4, acceptance=alpha, context_tokens=0).draft_s for alpha in (0, 1)
    )
    layers = 16 * sum(a * b for a, b in SMALL.matrices)
    head = 2048 * 128256
    assert every / none == pytest.approx((5 * layers + 4 * head) / (4 * layers + 4 * head), rel=1e-3)


# Break-even


def speedup_at(batch: int, deployment: rl.Deployment, **how: Any) -> float:
    return float(speculate(deployment, batch=batch, **how).speedup)


@pytest.mark.parametrize("alpha", [0.4, 0.6, 0.8])
def test_the_break_even_is_the_last_batch_that_gains(alpha: float) -> None:
    how: dict[str, Any] = {"drafter": DRAFT_1B, "n_drafts": 4, "acceptance": alpha, "context_tokens": 256}
    batch = break_even_batch(LLAMA_70B, **how)
    assert 1 <= batch < 4096
    assert speedup_at(batch, LLAMA_70B, **how) > 1
    assert speedup_at(batch + 1, LLAMA_70B, **how) <= 1


def test_what_never_helps_breaks_even_at_no_batch_and_what_always_does_at_the_limit() -> None:
    """Past some context the cache binds decode whatever the batch: five tokens read it once."""
    how: dict[str, Any] = {"drafter": NGRAM, "n_drafts": 4}
    assert break_even_batch(LLAMA_70B, acceptance=0, context_tokens=256, **how) == 0
    assert break_even_batch(LLAMA_70B, acceptance=0.8, context_tokens=100_000, **how) == 4096
    assert break_even_batch(LLAMA_70B, acceptance=0.8, context_tokens=256, max_batch=3, **how) == 3


def test_with_experts_small_batches_may_lose_where_larger_ones_gain() -> None:
    d = rl.Deployment(model=rl.model("qwen3-30b-a3b"), hardware=B300)
    how: dict[str, Any] = {"drafter": NGRAM, "n_drafts": 2, "acceptance": 0.6, "context_tokens": 512}
    assert speedup_at(2, d, **how) < 1 < speedup_at(64, d, **how)
    assert break_even_batch(d, max_batch=2, **how) == 0
    assert break_even_batch(d, max_batch=64, **how) == 64


# How many drafts


@FEW
@given(speculations(), shares)
def test_the_best_number_of_drafts_has_the_least_tpot(case: dict[str, Any], alpha: float) -> None:
    chip = as_chip(case["chip"])
    draft = None if case["draft"] is None else rl.Deployment(model=as_model(case["draft"]), hardware=chip)
    best = best_n_drafts(
        rl.Deployment(model=as_model(case["target"]), hardware=chip, precision=case["precision"]),
        drafter=Drafter(kind=case["kind"], deployment=draft),
        acceptance=alpha,
        context_tokens=case["context_tokens"],
        batch=case["batch"],
        max_drafts=5,
    )
    assert isinstance(best, int)
    tpots = [asked(case, acceptance=alpha, n_drafts=k).tpot_s for k in range(6)]
    assert at_most(tpots[best], min(tpots))


def test_better_drafts_are_worth_drafting_further() -> None:
    alphas = [[0.0], [0.4], [0.6], [0.8]]
    best = np.asarray(best_n_drafts(LLAMA_70B, drafter=DRAFT_1B, acceptance=alphas, context_tokens=1024, batch=[1, 64]))
    assert best.shape == (4, 2)
    assert best[0].tolist() == [0, 0]
    assert (np.diff(best, axis=0) >= 0).all()
    assert (best[:, 0] >= best[:, 1]).all()
    assert best_n_drafts(LLAMA_70B, drafter=NGRAM, acceptance=1, context_tokens=1024, max_drafts=7) == 7


# What is said


def test_a_dict_goes_through_json_and_a_frame_has_a_row_a_point() -> None:
    how: dict[str, Any] = {"drafter": DRAFT_1B, "n_drafts": 4, "acceptance": 0.7, "context_tokens": 2048}
    said = json.loads(json.dumps(speculate(LLAMA_70B, batch=1, **how).to_dict()))
    assert (said["drafter"], said["draft_model"], said["n_drafts"], said["batch"]) == (
        "draft_model",
        "llama-3.2-1b",
        4,
        1,
    )
    assert said["speedup"] == said["plain_tpot_s"] / said["tpot_s"]
    frame = speculate(LLAMA_70B, batch=[1, 2, 3], **how).to_frame()
    assert frame["batch"].tolist() == [1, 2, 3]
    assert frame["verify_bound"].tolist() == ["memory"] * 3
    assert frame["tpot_s"].tolist() == [speculate(LLAMA_70B, batch=b, **how).tpot_s for b in (1, 2, 3)]
    free = speculate(LLAMA_70B, **how | {"drafter": NGRAM}).to_frame()
    assert (len(free), free["draft_model"][0], free["draft_s"][0]) == (1, None, 0)


# What is refused


GOOD: dict[str, Any] = {"drafter": NGRAM, "n_drafts": 4, "acceptance": 0.7, "context_tokens": 512}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"drafter": "ngram"}, r"drafter: expected a Drafter, such as Drafter\(kind=\"ngram\"\), got 'ngram'"),
        ({"acceptance": 1.1}, "acceptance: expected a number >= 0 and at most 1, got 1.1"),
        ({"acceptance": -0.1}, "acceptance: expected a number >= 0 and at most 1, got -0.1"),
        ({"acceptance": math.nan}, "acceptance: .* got nan"),
        ({"n_drafts": 2.5}, "n_drafts: expected whole numbers, got 2.5"),
        ({"n_drafts": [1, 1000]}, "n_drafts: expected a number >= 0 and at most 256, got 1000"),
        ({"n_drafts": True}, "n_drafts: expected a number or an array of numbers, got True"),
        ({"batch": 0}, "batch: expected a number >= 1"),
        ({"context_tokens": [1, 2], "batch": [1, 2, 3]}, "expected shapes that broadcast together"),
    ],
)
def test_what_is_no_speculation_is_refused_by_name(change: dict[str, Any], says: str) -> None:
    with pytest.raises(rl.SpecError, match=says):
        speculate(LLAMA_70B, **GOOD | change)


def test_a_drafter_that_cannot_be_is_refused() -> None:
    with pytest.raises(rl.SpecError, match='expected kind "draft_model", "mtp" or "ngram", got \'medusa\''):
        Drafter(kind="medusa")  # type: ignore[arg-type]
    with pytest.raises(rl.SpecError, match=r"deployment=…\): expected a Deployment, got None"):
        Drafter(kind="draft_model")
    with pytest.raises(rl.SpecError, match="ngram has no deployment of its own"):
        Drafter(kind="ngram", deployment=LLAMA_1B)


def test_a_drafter_that_does_not_suit_its_target_is_refused() -> None:
    with pytest.raises(rl.Unsupported, match=r"llama-3\.1-70b, as described here, has no mtp .* module"):
        speculate(LLAMA_70B, **GOOD | {"drafter": MTP})
    wider = rl.Deployment(model=LLAMA_1B.model, hardware=H200, plan=rl.Plan(tp=2))
    with pytest.raises(rl.SpecError, match=r"chips of the target's 1 × h200-sxm-141gb, got 2 × h200-sxm-141gb"):
        speculate(LLAMA_70B, **GOOD | {"drafter": Drafter(kind="draft_model", deployment=wider)})
    elsewhere = rl.Deployment(model=LLAMA_1B.model, hardware=B300)
    with pytest.raises(
        rl.SpecError, match=r"llama-3\.2-1b on chips of the target's 1 × h200-sxm-141gb, got 1 × b300-sxm"
    ):
        speculate(LLAMA_70B, **GOOD | {"drafter": Drafter(kind="draft_model", deployment=elsewhere)})


@pytest.mark.parametrize("name", ["bart-large-cnn", "flan-t5-base"])
def test_what_reads_a_source_is_refused(name: str) -> None:
    with pytest.raises(rl.Unsupported, match=f"{name} reads a source text"):
        speculate(rl.Deployment(model=rl.model(name), hardware=H200), **GOOD)


def test_limits_are_whole_numbers_and_a_break_even_is_of_one_request() -> None:
    with pytest.raises(rl.SpecError, match="max_batch: expected a whole number from 1 to 100,000, got 0"):
        break_even_batch(LLAMA_70B, max_batch=0, **GOOD)
    with pytest.raises(rl.SpecError, match="one number for each of n_drafts, acceptance, context_tokens, got an array"):
        break_even_batch(LLAMA_70B, **GOOD | {"acceptance": [0.1, 0.2]})
    with pytest.raises(rl.SpecError, match=r"max_drafts: expected a whole number from 0 to 256, got 2\.5"):
        best_n_drafts(LLAMA_70B, drafter=NGRAM, acceptance=0.5, context_tokens=1, max_drafts=2.5)  # type: ignore[arg-type]
