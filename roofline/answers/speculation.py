"""Speculative decoding: what k cheap guesses a round cost, what verifying them in one pass costs, and what they buy.

A round is k draft passes, then one pass of the model over k + 1 new tokens of each sequence. It gives every sequence the
drafts before the first rejection, and one token of the model's own. Every pass goes through the one count and the one
clock: a verification is `Seqs(n_new=k + 1, n_logits=k + 1)`, a draft the decode pass of another, smaller model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roofline.answers.drafters import Drafter, beside, draft_of
from roofline.answers.inputs import memory_tokens_of
from roofline.answers.memory import Beside, memory
from roofline.answers.phases import asked_for, decode, timed
from roofline.answers.records import evidence_of
from roofline.errors import SpecError, Unsupported, require, shown
from roofline.num import Num, checked, common_shape, same, whole
from roofline.specs.deployment import Deployment
from roofline.timing.clock import Timing
from roofline.work.step import Seqs

__all__ = ["Speculation", "best_n_drafts", "break_even_batch", "expected_tokens", "speculate"]

MAX_DRAFTS = 256
MAX_BATCH = 100_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Speculation:
    """One round and what it gives, against decoding without it. Every number has the shape of the arguments together.

    `verify` is the pass over k + 1 tokens of each sequence, `plain` the decode pass without speculation. `draft_…_bytes` are
    what the drafter holds besides the target, each thing once: weights, and cache with recurrent state.
    """

    deployment: Deployment
    drafter: Drafter
    n_drafts: Num
    acceptance: Num
    context_tokens: Num
    batch: Num
    tokens_per_round: Num
    draft_s: Num
    draft_floor_s: Num
    verify: Timing
    verify_s: Num
    verify_floor_s: Num
    plain: Timing
    plain_tpot_s: Num
    plain_tpot_floor_s: Num
    draft_weight_bytes: float
    draft_cache_bytes: Num

    @property
    def round_s(self) -> Num:
        """Drafts, then verification [s]."""
        return self.draft_s + self.verify_s

    @property
    def tpot_s(self) -> Num:
        """round_s / tokens_per_round [s]."""
        return self.round_s / self.tokens_per_round

    @property
    def speedup(self) -> Num:
        """plain_tpot_s / tpot_s [1]: speculation helps above 1."""
        return self.plain_tpot_s / self.tpot_s

    @property
    def round_floor_s(self) -> Num:
        """Floors of the passes added up, for each waits for the one before; in a pipeline the verification's alone [s]."""
        return self.verify_floor_s + (self.draft_floor_s if self.deployment.plan.pp == 1 else 0.0)

    @property
    def tpot_floor_s(self) -> Num:
        """round_floor_s / (k + 1): whatever the acceptance, no round gives more [s]."""
        return self.round_floor_s / (self.n_drafts + 1.0)

    def to_dict(self) -> dict[str, Any]:
        """Flat, SI, unit in the key."""
        d, draft = self.deployment, self.drafter.deployment
        asked = ("n_drafts", "acceptance", "context_tokens", "batch")
        found = (
            "tokens_per_round", "speedup", "tpot_s", "tpot_floor_s", "plain_tpot_s", "plain_tpot_floor_s", "round_s",
            "round_floor_s", "draft_s", "draft_floor_s", "verify_s", "verify_floor_s", "draft_weight_bytes",
            "draft_cache_bytes",
        )  # fmt: skip
        return {
            "model": d.model.id,
            "hardware": d.hardware.id,
            "n_chips": d.n_chips,
            "engine": d.engine.id,
            "evidence": evidence_of(d),
            "notes": list(dict.fromkeys((*d.said(), *(() if draft is None else draft.said())))),
            "drafter": self.drafter.kind,
            "draft_model": None if draft is None else draft.model.id,
            **{name: whole(getattr(self, name)) for name in asked},
            **{name: getattr(self, name) for name in found},
            "verify_bound": self.verify.bound,
            "plain_tpot_bound": self.plain.bound,
        }

    def to_frame(self) -> Any:
        """One row a point, as a pandas DataFrame."""
        import pandas as pd

        given = self.to_dict()
        given["notes"] = "; ".join(given["notes"])
        columns = np.broadcast_arrays(*(np.asarray(v, dtype=object if v is None else None) for v in given.values()))
        return pd.DataFrame({n: c.ravel() for n, c in zip(given, columns, strict=True)})


def expected_tokens(acceptance: Any, *, n_drafts: Any) -> Num:
    """Tokens a round gives on average: the drafts before the first rejection, and one of the model's own.  [token]

        1 + α + α² + … + α^k

    Assumes the same chance for every draft. Summed as a series: (1 − α^{k+1}) / (1 − α) is 0/0 at α = 1.

    Parameters
    ----------
    acceptance : float or array
        α, the chance that a draft is accepted once those before it are [1].
    n_drafts : int or array
        k, drafts a round [token].

    References
    ----------
    Leviathan, Kalman, Matias 2023, arXiv:2211.17192, equation 1.

    Examples
    --------
    >>> expected_tokens(0.5, n_drafts=3), expected_tokens(0, n_drafts=3), expected_tokens(1, n_drafts=3)
    (1.875, 1.0, 4.0)
    """
    given = _asked(acceptance=acceptance, n_drafts=n_drafts)
    return _series(given["acceptance"], given["n_drafts"])


def speculate(
    deployment: Deployment, *, drafter: Drafter, n_drafts: Any, acceptance: Any, context_tokens: Any, batch: Any = 1
) -> Speculation:
    """A round of speculative decoding, and the decode pass without it.

        TPOT  = (Σ_{i < k} draft pass i + the pass over k + 1 tokens) / (1 + α + … + α^k)
        floor = (the same passes, at their floors) / (k + 1)

    Parameters
    ----------
    deployment : Deployment
        The target: the model that verifies.
    drafter : Drafter
    n_drafts : int or array
        k, drafts a round [token]; 0 is plain decoding.
    acceptance : float or array
        α, the chance that a draft is accepted [1]. It depends on the drafter and on the text, so it is never guessed.
    context_tokens, batch : int or array
        Cached tokens of each sequence, S, and sequences, B [token, 1].

    Notes
    -----
    Assumes a chain of k drafts for every sequence (no tree, none cut short), one vocabulary, and that choosing tokens costs
    nothing. Draft pass i ends at token S + i. It reads that token alone, but the first of a round reads, on average,
    1 + α^k: a draft model has read its earlier drafts, all but the last, which counts where all were accepted. A
    prediction module reads the whole last round again, 1 + … + α^k tokens, with the hidden states verification gave them.
    Of several modules one drafts after another; all are held, with tables of their own where the checkpoint has them.
    Rolling back a target's recurrent state is free.

    The floor: a draft needs the one before it, the verification all of them and the next round its answer, so the floors
    of the passes (drafting one token each) add up; and no round gives more than k + 1 tokens. It holds whatever the
    acceptance turns out to be, but not for another algorithm, such as drafting on while verification runs. In a pipeline
    other microbatches may do just that, and only the verification's own floor is left.

    References
    ----------
    Leviathan, Kalman, Matias 2023, arXiv:2211.17192. Chen et al. 2023, arXiv:2302.01318. DeepSeek-V3 2024,
    arXiv:2412.19437, §2.2 (prediction modules). Saxena 2023, github.com/apoorvumang/prompt-lookup-decoding.

    Examples
    --------
    A 1B model drafts for a 70B one. At batch 1 a round costs little more than a decode pass; at 256 as much as it gives.

    >>> from roofline.specs.catalog import hardware, model
    >>> h200 = hardware("h200")
    >>> target = Deployment(model=model("llama-3.1-70b"), hardware=h200, weights="fp8")
    >>> draft = Drafter(kind="draft_model", deployment=Deployment(model=model("llama-3.2-1b"), hardware=h200))
    >>> s = speculate(target, drafter=draft, n_drafts=4, acceptance=0.7, context_tokens=2048, batch=[1, 256])
    >>> s.speedup.round(2)
    array([2.42, 1.01])
    """
    require(deployment, Deployment, "speculate(deployment)")
    if not isinstance(drafter, Drafter):
        raise SpecError(f'drafter: expected a Drafter, such as Drafter(kind="ngram"), got {shown(drafter)}')
    if deployment.model.reads_a_source:
        raise Unsupported(f"speculate: {deployment.model.id} reads a source text; ask it of a decoder")
    given = _asked(n_drafts=n_drafts, acceptance=acceptance, context_tokens=context_tokens, batch=batch)
    k, alpha, context, n_seq = given.values()
    tokens, draft = _series(alpha, k), draft_of(drafter, deployment)
    unread = tokens if drafter.kind == "mtp" else 1.0 + alpha**k
    weights, cache = _held(beside(drafter, deployment), context=context + k, n_seq=n_seq)
    verify = _pass(deployment, n_new=k + 1.0, n_past=context, n_logits=k + 1.0, given=given)
    plain = decode(deployment, context_tokens=context, batch=n_seq)
    return Speculation(
        deployment=deployment,
        drafter=drafter,
        **given,
        tokens_per_round=tokens,
        draft_s=_drafting(draft, "seconds", unread=unread, given=given),
        draft_floor_s=_drafting(draft, "floor_s", unread=1.0, given=given),
        verify=verify,
        verify_s=verify.seconds,
        verify_floor_s=verify.floor_s,
        plain=plain,
        plain_tpot_s=plain.seconds,
        plain_tpot_floor_s=plain.floor_s,
        draft_weight_bytes=weights,
        draft_cache_bytes=cache,
    )


def break_even_batch(
    deployment: Deployment, *, drafter: Drafter, n_drafts: int, acceptance: float, context_tokens: int,
    max_batch: int = 4096,
) -> int:  # fmt: skip
    """The largest batch, of 1 to `max_batch`, at which speculation helps (speed-up above 1); 0 where it does at none.  [1]

    Where the answer is `max_batch`, the break-even lies beyond it or nowhere: over long contexts the cache binds decode at
    any batch, and verification reads it once for k + 1 tokens (Sadhukhan et al. 2024, arXiv:2408.11049). Whether a batch
    fits is not asked: `memory(…).max_batch` is a limit to give.

    Every batch is evaluated, for the speed-up need not fall all the way: with experts, k + 1 tokens of a few sequences touch
    more of them than one token each, and of many sequences no more. Batches below the answer may then be a loss.

    >>> from roofline.specs.catalog import hardware, model
    >>> d = Deployment(model=model("llama-3.1-8b"), hardware=hardware("h100"))
    >>> break_even_batch(d, drafter=Drafter(kind="ngram"), n_drafts=4, acceptance=0.5, context_tokens=64)
    114
    """
    limit = _whole_number(max_batch, name="max_batch", low=1, high=MAX_BATCH)
    asked = {"n_drafts": n_drafts, "acceptance": acceptance, "context_tokens": context_tokens}
    if any(isinstance(value, (list, tuple, np.ndarray)) for value in asked.values()):
        raise SpecError(f"break_even_batch: expected one number for each of {', '.join(asked)}, got an array")
    found = speculate(deployment, drafter=drafter, batch=np.arange(1.0, limit + 1.0), **asked)
    helps = np.flatnonzero(np.greater(found.speedup, 1.0))
    return int(helps[-1]) + 1 if helps.size else 0


def best_n_drafts(
    deployment: Deployment, *, drafter: Drafter, acceptance: Any, context_tokens: Any, batch: Any = 1,
    max_drafts: int = 16,
) -> int | NDArray[np.int64]:  # fmt: skip
    """k, of 0 to `max_drafts`, with the least TPOT; the fewest of equals; 0 where plain decoding is best.  [token]

    A second token of DeepSeek-V3 takes up to 8 experts of each layer more: at batch 1 too dear for a doubtful draft.

    >>> from roofline.specs.catalog import hardware, model
    >>> d = Deployment(model=model("deepseek-v3"), hardware=hardware("b300"))
    >>> best_n_drafts(d, drafter=Drafter(kind="mtp"), acceptance=[0, 0.5, 0.8], context_tokens=2048)
    array([0, 0, 1])
    """
    most = _whole_number(max_drafts, name="max_drafts", low=0, high=MAX_DRAFTS)
    given = _asked(acceptance=acceptance, context_tokens=context_tokens, batch=batch)
    wide = {name: np.expand_dims(value, -1) for name, value in given.items()}
    tpot = speculate(deployment, drafter=drafter, n_drafts=np.arange(most + 1.0), **wide).tpot_s
    best = np.argmin(tpot, axis=-1)
    return best if np.ndim(best) else int(best)


def _asked(**fields: Any) -> dict[str, Num]:
    """The fields as numbers in range, all of the shape they broadcast to."""
    most = {"acceptance": 1.0, "n_drafts": float(MAX_DRAFTS)}
    nums = {n: checked(v, name=n, low=0.0, high=most[n]) for n, v in fields.items() if n in most}
    nums |= asked_for(**{n: v for n, v in fields.items() if n not in most})
    drafts = nums.get("n_drafts", 0.0)
    if np.any(np.not_equal(drafts, np.floor(drafts))):
        raise SpecError(f"n_drafts: expected whole numbers, got {shown(fields['n_drafts'])}")
    shape = common_shape(**nums)
    return {n: np.broadcast_to(v, shape) if shape else v for n, v in nums.items()}


def _whole_number(value: Any, *, name: str, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not low <= value <= high:
        raise SpecError(f"{name}: expected a whole number from {low} to {high:,}, got {shown(value)}")
    return int(value)


def _series(alpha: Num, k: Num) -> Num:
    """1 + α·(1 + α·(…)), k times: exact at α = 0 and 1, never falling with α."""
    total: Num = same(alpha * 0.0 + 1.0, alpha)
    for i in range(int(np.max(k))):
        total = same(np.where(np.less(i, k), 1.0 + alpha * total, total), alpha)
    return total


def _drafting(draft: Deployment | None, quantity: str, *, unread: Num, given: dict[str, Num]) -> Num:
    """Σ of a quantity over k draft passes, of which the first reads `unread` tokens and each ends at token S + i."""
    k, context, n_seq = given["n_drafts"], given["context_tokens"], given["batch"]
    total = n_seq * 0.0
    if draft is None:
        return total
    for i in range(int(np.max(k))):
        n_new = unread if i == 0 else 1.0
        timing = _pass(draft, n_new=n_new, n_past=np.maximum(context + (i + 1.0) - n_new, 0.0), given=given)
        total = total + same(getattr(timing, quantity) * np.less(i, k), n_seq)
    return total


def _pass(d: Deployment, *, n_new: Num, n_past: Num, n_logits: Num = 1.0, given: dict[str, Num]) -> Timing:
    """Any pass of a round, on the clock."""
    remembered = memory_tokens_of(d.model, None)
    seqs = Seqs(n_seq=given["batch"], n_new=n_new, n_past=n_past, n_logits=n_logits, n_memory=remembered)
    return timed(d, seqs, asked=given, repeats=True)


def _held(there: Beside | None, *, context: Num, n_seq: Num) -> tuple[float, Num]:
    """Weights, and cache with recurrent state, that a drafter holds besides the target; each thing once [B]."""
    if there is None:
        return 0.0, n_seq * 0.0
    held = memory(there.deployment, context_tokens=context, batch=n_seq)
    return there.n * (held.weight_bytes - there.less_bytes), there.n * (held.kv_bytes + held.state_bytes)
