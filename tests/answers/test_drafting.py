"""Drafts inside a whole request: its TPOT is the mean of its rounds, its memory holds the draft, its floor asks little."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import chips, models

import roofline as rl
from roofline.answers.chunks import first_token
from roofline.answers.drafters import Drafter, Drafting
from roofline.answers.inputs import request
from roofline.answers.speculation import speculate

EXACT = 1e-12
FEW = settings(max_examples=settings().max_examples // 4)
H100, B300 = rl.hardware("h100-sxm-80gb"), rl.hardware("b300-sxm")
LLAMA, SMALL = rl.model("llama-3.1-8b"), rl.model("llama-3.2-1b")
NGRAM, MTP = Drafter(kind="ngram"), Drafter(kind="mtp")
ON_H100 = rl.Deployment(model=LLAMA, hardware=H100)
BESIDE = Drafter(kind="draft_model", deployment=rl.Deployment(model=SMALL, hardware=H100))
GLM = rl.Deployment(model=rl.model("glm-4.5"), hardware=B300, plan=rl.Plan(tp=4))


def drafting(drafter: Drafter = NGRAM, k: int = 4, alpha: float = 0.5) -> Drafting:
    return Drafting(drafter=drafter, n_drafts=k, acceptance=alpha)


def asked(d: rl.Deployment = ON_H100, *, drafts: Drafting | None = None, **changes: Any) -> rl.Prediction:
    given_: dict[str, Any] = {"prompt_tokens": 512, "output_tokens": 8, "batch": 4} | changes
    return rl.predict(d, drafting=drafts, **given_)


CASES = [(ON_H100, NGRAM), (ON_H100, BESIDE), (GLM, MTP)]


# TPOT


@pytest.mark.parametrize(("d", "drafter"), CASES)
@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_tpot_is_the_mean_of_the_rounds_over_all_contexts(d: rl.Deployment, drafter: Drafter, alpha: float) -> None:
    p = asked(d, drafts=drafting(drafter, 3, alpha))
    how: dict[str, Any] = {"drafter": drafter, "n_drafts": 3, "acceptance": alpha, "batch": 4}
    rounds = [speculate(d, **how, context_tokens=512 + i) for i in range(7)]
    assert p.tpot_s == pytest.approx(sum(r.tpot_s for r in rounds) / 7, rel=EXACT)
    assert p.tpot_floor_s == pytest.approx(sum(r.tpot_floor_s for r in rounds) / 7, rel=EXACT)
    assert p.speculation is not None
    middle = speculate(d, **how, context_tokens=515)  # 512 … 518
    assert p.speculation.round_s == middle.round_s
    assert p.speculation.tokens_per_round == 1 + alpha + alpha**2 + alpha**3
    assert p.e2e_s == pytest.approx(p.ttft_s + 7 * p.tpot_s, rel=EXACT)
    assert p.tokens_per_s == 4 / p.tpot_s


@pytest.mark.parametrize(("d", "drafter"), CASES)
@pytest.mark.parametrize("batch", [1, 64])
def test_drafts_that_are_never_accepted_are_a_loss_and_all_accepted_give_one_more(
    d: rl.Deployment, drafter: Drafter, batch: int
) -> None:
    plain = asked(d, batch=batch)
    none, all_ = (asked(d, batch=batch, drafts=drafting(drafter, 4, alpha)) for alpha in (0.0, 1.0))
    assert none.tpot_s > plain.tpot_s  # type: ignore[operator]
    assert none.e2e_s > plain.e2e_s
    assert all_.speculation.tokens_per_round == 5  # type: ignore[union-attr]
    assert none.speculation.tokens_per_round == 1  # type: ignore[union-attr]
    verify = rl.clock(
        rl.count(d.model, rl.Seqs(n_seq=batch, n_new=5, n_past=515, n_logits=5), plan=d.plan), d.hardware
    ).seconds
    assert none.speculation.verify_s == pytest.approx(verify, rel=EXACT)  # type: ignore[union-attr]
    if drafter is NGRAM:
        assert all_.speculation.tpot_s == pytest.approx(verify / 5, rel=EXACT)  # type: ignore[union-attr]


@pytest.mark.parametrize(("d", "drafter"), CASES)
def test_no_drafts_is_plain_decoding(d: rl.Deployment, drafter: Drafter) -> None:
    plain, none = asked(d), asked(d, drafts=drafting(drafter, 0, 0.7))
    assert (none.tpot_s, none.tpot_floor_s, none.ttft_s) == (plain.tpot_s, plain.tpot_floor_s, plain.ttft_s)


@given(
    models(), chips(), st.integers(1, 3000), st.integers(1, 12), st.integers(1, 200), st.integers(0, 6), st.floats(0, 1),
    st.data(),
)  # fmt: skip
def test_no_estimate_beats_its_floor_which_does_not_ask_how_many_are_accepted(
    model: rl.Model, chip: rl.Hardware, prompt: int, n_out: int, batch: int, k: int, alpha: float, data: st.DataObject
) -> None:
    d, shared = rl.Deployment(model=model, hardware=chip), data.draw(st.integers(0, prompt))
    request_: dict[str, Any] = {
        "prompt_tokens": prompt,
        "output_tokens": n_out,
        "batch": batch,
        "shared_tokens": shared,
    }
    p = asked(d, drafts=drafting(NGRAM, k, alpha), **request_)
    assert p.ttft_floor_s <= p.ttft_s * (1 + EXACT)
    assert p.e2e_floor_s <= p.e2e_s * (1 + EXACT)
    if n_out == 1:
        assert [p.tpot_s, p.tpot_floor_s, p.speculation] == [None] * 3
        return
    assert 0 < p.tpot_floor_s <= p.tpot_s * (1 + EXACT)  # type: ignore[operator]
    assert p.tpot_floor_s == asked(d, drafts=drafting(NGRAM, k, 0.0), **request_).tpot_floor_s


# TTFT


def test_a_draft_model_reads_the_prompts_too_and_a_look_up_does_not() -> None:
    d = rl.Deployment(model=LLAMA, hardware=H100, engine="vllm")
    small = rl.Deployment(model=SMALL, hardware=H100, engine="vllm")
    beside = Drafter(kind="draft_model", deployment=small)
    request_: dict[str, Any] = {"prompt_tokens": 6000, "batch": 4, "prefix_tokens": 1000, "shared_tokens": 2000}
    plain, looked_up, drafted = (asked(d, drafts=x, **request_) for x in (None, drafting(), drafting(beside)))
    assert looked_up.ttft_s == plain.ttft_s
    assert drafted.draft_prefill_s == first_token(small, **request_).seconds
    assert drafted.ttft_s == pytest.approx(plain.ttft_s + first_token(small, **request_).seconds, rel=EXACT)
    one = asked(d, drafts=drafting(beside), output_tokens=1, **request_)
    assert one.ttft_s == plain.ttft_s  # nothing is left to draft


# Memory


def test_a_draft_s_weights_and_cache_take_room_from_the_target_s() -> None:
    """Both in bf16, at 519 tokens a sequence: 131,072 B of Llama-3.1-8B and 32,768 of Llama-3.2-1B each."""
    plain, drafted = asked().memory, asked(drafts=drafting(BESIDE)).memory
    weights, tokens = 2 * SMALL.n_params, 519
    assert drafted.other_bytes_per_chip == weights + 4 * tokens * 32768
    assert drafted.used_bytes_per_chip - plain.used_bytes_per_chip == weights + 4 * tokens * 32768
    room = H100.memory_bytes - 2 * LLAMA.n_params
    assert plain.max_batch == room // (tokens * 131072)
    assert drafted.max_batch == (room - weights) // (tokens * (131072 + 32768))
    assert (drafted.weight_bytes, drafted.kv_bytes) == (plain.weight_bytes, plain.kv_bytes)


def test_as_many_as_are_said_to_fit_do_and_one_more_does_not() -> None:
    most = int(asked(drafts=drafting(BESIDE)).memory.max_batch)
    assert [asked(drafts=drafting(BESIDE), batch=most + i).memory.fits for i in (0, 1)] == [True, False]


def test_a_look_up_holds_nothing() -> None:
    plain, drafted = asked().memory.to_dict(), asked(drafts=drafting()).memory.to_dict()
    assert drafted == plain


def test_modules_hold_their_weights_and_a_cache_each() -> None:
    """GLM-4.5: one layer of attention with 8 heads of 128 to a module, on 4 chips 2 heads each. Every chip has the join of
    (2 · 5120, 5120) and the router of 160 experts whole."""
    plain, drafted = asked(GLM).memory, asked(GLM, drafts=drafting(MTP, 1)).memory
    assert GLM.model.mtp is not None
    cache = GLM.model.mtp.n_modules * 4 * 519 * 2 * 2 * 128 * 2
    weights = drafted.other_bytes_per_chip - cache
    copied = 2 * 5120 * 5120 + 5120 * 160
    assert weights == pytest.approx(2 * ((GLM.model.n_mtp_params - copied) / 4 + copied), rel=1e-4)  # and norms
    assert plain.other_bytes_per_chip == 0
    assert drafted.max_batch < plain.max_batch


# What the sequences remember, and what they share


def test_a_beginning_that_all_share_is_read_once_at_least_however_many_are_drafted() -> None:
    """Found by trying: the floor with drafts had ignored the sharing. 16 sequences at 8192 tokens, 8000 of them alike, five
    new ones each: weights of layers and head, 80 rows of the table, 8000 + 16 · 192 cached tokens read and 80 written."""
    p = asked(drafts=drafting(), prompt_tokens=8192, output_tokens=2, batch=16, shared_tokens=8000)
    least = 2 * (7_504_924_672 + 80 * 4096) + (8000 + 16 * 192 + 80) * 131072
    assert p.tpot_floor_s == pytest.approx(least / 3.35e12 / 5, rel=EXACT)
    apart = asked(drafts=drafting(), prompt_tokens=8192, output_tokens=2, batch=16)
    assert p.tpot_s == apart.tpot_s  # a kernel reads it for each


def test_nor_does_a_draft_model_read_it_more_than_once_at_least() -> None:
    """Two drafts, then three tokens verified. Whoever reads every byte once a pass is no faster than the floor: of the 1B
    all its weights, and 32,768 B a token of 8000 + 16 · 192 cached, of those written since, and of 16 more."""
    p = asked(drafts=drafting(BESIDE, 2), prompt_tokens=8192, output_tokens=2, batch=16, shared_tokens=8000)
    verify = 2 * (7_504_924_672 + 48 * 4096) + (8000 + 16 * 192 + 48) * 131072
    drafts = [2 * (SMALL.n_params + 16 * 2048) + (8000 + 16 * (192 + i) + 16) * 32768 for i in (0, 1)]
    assert p.tpot_floor_s is not None
    assert p.tpot_floor_s * 3 <= (verify + sum(drafts)) / 3.35e12
    assert p.tpot_floor_s * 3 > 0.9 * (verify + sum(drafts)) / 3.35e12


@FEW
@given(st.integers(1, 4000), st.integers(1, 64), st.data())
def test_more_shared_never_raises_the_floor_of_a_draft_model_s_rounds(
    prompt: int, batch: int, data: st.DataObject
) -> None:
    less, more = sorted(data.draw(st.integers(0, prompt)) for _ in range(2))
    few, many = (
        asked(drafts=drafting(BESIDE), prompt_tokens=prompt, batch=batch, shared_tokens=n) for n in (less, more)
    )
    assert many.tpot_floor_s <= few.tpot_floor_s * (1 + EXACT)  # type: ignore[operator]
    assert many.tpot_s == few.tpot_s


def test_images_that_are_attended_to_are_while_verifying() -> None:
    """Found by trying: rounds of drafts had forgotten them. Llama-3.2-Vision cross-attends to what its tower made."""
    d = rl.Deployment(model=rl.model("llama-3.2-11b-vision"), hardware=H100)
    seen: dict[str, Any] = {"images": 2, "output_tokens": 2, "batch": 16}
    n_memory = request(d.model, prompt_tokens=512.0, images=2).n_memory
    assert n_memory > 1000
    p = asked(d, drafts=drafting(), **seen)
    step = rl.Seqs(n_seq=16, n_new=5, n_past=512, n_logits=5, n_memory=n_memory)
    tokens = 1 + 0.5 + 0.25 + 0.125 + 0.0625
    assert p.tpot_s == pytest.approx(rl.clock(rl.count(d.model, step), H100).seconds / tokens, rel=EXACT)
    assert asked(d, drafts=drafting(k=0), **seen).tpot_s == asked(d, **seen).tpot_s
    assert p.tpot_s > asked(d, drafts=drafting(), output_tokens=2, batch=16).tpot_s  # type: ignore[operator]


def test_whisper_s_frames_are_attended_to_while_verifying() -> None:
    d = rl.Deployment(model=rl.model("whisper-large-v3"), hardware=H100)
    assert asked(d, drafts=drafting(k=0)).tpot_s == asked(d).tpot_s


# Shapes


def test_a_grid_is_its_points() -> None:
    prompt, batch, shared = np.array([100.0, 3000.0])[:, None], np.array([1.0, 40.0]), 64
    for drafter in (NGRAM, BESIDE):
        grid = asked(drafts=drafting(drafter), prompt_tokens=prompt, batch=batch, shared_tokens=shared)
        for i, j in np.ndindex(2, 2):
            point = asked(drafts=drafting(drafter), prompt_tokens=prompt[i, 0], batch=batch[j], shared_tokens=shared)
            for name in ("ttft_s", "tpot_s", "tpot_floor_s", "e2e_s", "e2e_floor_s"):
                assert np.broadcast_to(getattr(grid, name), (2, 2))[i, j] == pytest.approx(
                    getattr(point, name), rel=EXACT
                ), name
            assert np.broadcast_to(grid.memory.fits, (2, 2))[i, j] == point.memory.fits
        assert len(grid.to_frame()) == 4


def test_what_is_said_of_drafts_is_plain_data() -> None:
    said = asked(drafts=drafting(BESIDE)).to_dict()
    json.dumps(said)
    assert (said["drafter"], said["draft_model"], said["n_drafts"], said["acceptance"]) == (
        "draft_model",
        "llama-3.2-1b",
        4,
        0.5,
    )
    assert said["plain_tpot_s"] == rl.decode(ON_H100, context_tokens=515, batch=4).seconds
    assert asked().to_dict()["drafter"] is None


# What is refused


def test_a_draft_stands_on_the_target_s_chips() -> None:
    for wrong in (
        rl.Deployment(model=SMALL, hardware=rl.hardware("h200-sxm-141gb")),
        rl.Deployment(model=SMALL, hardware=H100, plan=rl.Plan(tp=2)),
    ):
        with pytest.raises(
            rl.SpecError, match=r"drafter: expected llama-3\.2-1b on chips of the target's 1 × h100-sxm-80gb"
        ):
            asked(drafts=drafting(Drafter(kind="draft_model", deployment=wrong)))
    four = rl.Deployment(model=LLAMA, hardware=H100, plan=rl.Plan(tp=4))
    assert asked(four, drafts=drafting(BESIDE)).tpot_s > 0  # type: ignore[operator]
    others = [ON_H100, rl.Deployment(model=LLAMA, hardware=B300)]
    with pytest.raises(rl.SpecError, match="on chips of the target's 1 × b300-sxm"):
        rl.predict(others, prompt_tokens=10, output_tokens=2, drafting=drafting(BESIDE))


def test_who_cannot_draft_is_said() -> None:
    with pytest.raises(rl.Unsupported, match=r"llama-3\.1-8b, as described here, has no mtp"):
        asked(drafts=drafting(MTP))
    with pytest.raises(rl.SpecError, match="leave it out, or use draft_model"):
        Drafter(kind="ngram", deployment=ON_H100)
    with pytest.raises(rl.SpecError, match=r'Drafter\(kind="draft_model", deployment=…\)'):
        Drafter(kind="draft_model")
    with pytest.raises(rl.SpecError, match="expected kind"):
        Drafter(kind="eagle")  # type: ignore[arg-type]
    with pytest.raises(rl.Unsupported, match="reads a source text"):
        asked(rl.Deployment(model=rl.model("flan-t5-base"), hardware=H100), drafts=drafting())


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"n_drafts": 1.5}, "n_drafts: expected one whole number"),
        ({"n_drafts": [1, 2]}, "n_drafts: expected one whole number"),
        ({"n_drafts": -1}, "n_drafts"),
        ({"n_drafts": 257}, "n_drafts"),
        ({"acceptance": 1.1}, "acceptance"),
        ({"acceptance": float("nan")}, "acceptance"),
        ({"acceptance": "high"}, "acceptance"),
        ({"drafter": "ngram"}, "expected a Drafter"),
    ],
)
def test_wrong_numbers_are_named(changes: dict[str, Any], complaint: str) -> None:
    fields: dict[str, Any] = {"drafter": NGRAM, "n_drafts": 4, "acceptance": 0.5}
    with pytest.raises(rl.SpecError, match=complaint):
        Drafting(**fields | changes)


def test_what_is_no_drafting_is_said() -> None:
    with pytest.raises(rl.SpecError, match=r"drafting: expected a Drafting\("):
        asked(drafts="ngram")  # type: ignore[arg-type]
