"""The tokens after the first: N − 1 passes of a growing context, or rounds of drafts over it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from roofline.answers.chunks import first_token
from roofline.answers.drafters import Drafting, beside
from roofline.answers.inputs import Request
from roofline.answers.phases import decode, timed
from roofline.errors import Unsupported
from roofline.num import Num
from roofline.specs.deployment import Deployment
from roofline.timing.clock import Timing
from roofline.work.step import Seqs

if TYPE_CHECKING:
    from roofline.answers.speculation import Speculation

__all__ = ["Decoding"]

STEP_POINTS = 2_000_000
EXACT_STEPS = 65_536


@dataclass(frozen=True, slots=True)
class Decoding:
    """The N − 1 steps after the first token: plain passes, or rounds of drafts."""

    deployment: Deployment
    asks: Request
    n_seq: Num
    shared: Num
    drafting: Drafting | None
    n_steps: int

    @property
    def memory_tokens(self) -> Num | None:
        """Tower outputs that are cross-attended to, of a model that remembers any [token]."""
        return self.asks.n_memory if self.deployment.model.remembers else None

    def at_the_mean(self) -> tuple[Timing, Speculation | None]:
        """The pass at the mean context, and the round it verifies."""
        context = self.asks.n_new + (self.n_steps - 1) / 2.0
        if self.drafting is None:
            return self._plain(context, self.n_seq, self.memory_tokens, self.shared), None
        round_ = self._round(context, self.n_seq, self.memory_tokens, self.shared)
        return round_.verify, round_

    def means(self) -> tuple[Num, Num]:
        """Mean seconds and mean floor of a token over all steps: summed along a last axis, in bounded memory.

        Of more than `EXACT_STEPS`, runs of equal length are taken at their middle: exact where a step's time is linear in
        the context along the run, as it is but for the few runs in which an op's bound changes.
        """
        asks, wide = self.asks, partial(np.expand_dims, axis=-1)
        shape = np.broadcast_shapes(*(np.shape(x) for x in (asks.n_new, self.n_seq, asks.n_memory, self.shared)))
        run = math.ceil(self.n_steps / EXACT_STEPS)
        at_once = max(1, STEP_POINTS // math.prod(shape)) * run
        seconds: Num = 0.0
        floor: Num = 0.0
        for start in range(0, self.n_steps, at_once):
            first = np.arange(start, min(start + at_once, self.n_steps), run, dtype=np.float64)
            many = np.minimum(float(run), self.n_steps - first)
            step = first + (many - 1.0) / 2.0
            remembered = None if self.memory_tokens is None else wide(self.memory_tokens)
            asked = (wide(asks.n_new) + step, wide(self.n_seq), remembered, wide(self.shared))
            if self.drafting is None:
                passes = self._plain(*asked)
                token_s, token_floor_s = passes.seconds, passes.floor_s
            else:
                round_ = self._round(*asked)
                token_s, token_floor_s = round_.tpot_s, round_.tpot_floor_s
            seconds, floor = seconds + _summed(token_s * many), floor + _summed(token_floor_s * many)
        return seconds / self.n_steps, floor / self.n_steps

    def draft_reading(self, hit: Num, *, prompt_shared: Num) -> tuple[Num, Num]:
        """What the drafting model takes to read the prompts, and its floor: one pass after the target's  [s].

        Engines hand out the first token once its drafts are made. A floor of several models in a pipeline is left out: they
        may read side by side.
        """
        if self.drafting is None or not self.n_steps or not self.drafting.n_drafts:
            return 0.0, 0.0
        there = beside(self.drafting.drafter, self.deployment)
        if there is None:
            return 0.0, 0.0
        read = first_token(
            there.deployment,
            prompt_tokens=self.asks.n_new,
            batch=self.n_seq,
            prefix_tokens=hit,
            shared_tokens=prompt_shared,
        )
        alone = 1.0 if self.deployment.plan.pp == 1 else 0.0
        return there.n * read.seconds, there.n * alone * read.floor_s

    def _plain(self, context: Num, n_seq: Num, memory_tokens: Num | None, shared: Num) -> Timing:
        return decode(
            self.deployment, context_tokens=context, batch=n_seq, memory_tokens=memory_tokens, shared_tokens=shared
        )

    def _round(self, context: Num, n_seq: Num, memory_tokens: Num | None, shared: Num) -> Speculation:
        """A round whose verification attends to what the sequences remember, and at least reads a shared beginning once."""
        from roofline.answers.speculation import speculate  # most requests have no drafts

        d = self.drafting
        if d is None:
            raise Unsupported("a round of drafts needs somebody who drafts")
        asked = partial(
            speculate, self.deployment, drafter=d.drafter, n_drafts=d.n_drafts, acceptance=d.acceptance, batch=n_seq
        )
        found = asked(context_tokens=context)
        if not np.any(np.greater(shared, 0.0)) and memory_tokens is None:
            return found
        together = Seqs.of_checked(
            n_seq=found.batch, n_new=found.n_drafts + 1.0, n_past=found.context_tokens, n_logits=found.n_drafts + 1.0,
            n_shared=shared, n_memory=0.0 if memory_tokens is None else memory_tokens,
        )  # fmt: skip
        verify = timed(self.deployment, together, repeats=True)
        plain = self._plain(context, n_seq, memory_tokens, shared)
        return replace(
            found, verify=verify, verify_s=verify.seconds, verify_floor_s=verify.floor_s, plain=plain,
            plain_tpot_s=plain.seconds, plain_tpot_floor_s=plain.floor_s,
            draft_floor_s=asked(context_tokens=context - shared).draft_floor_s,
        )  # fmt: skip


def _summed(value: Num) -> Num:
    """Σ along the last axis; a plain float where nothing else is left."""
    total = np.sum(value, axis=-1)
    return total if np.ndim(total) else float(total)
