"""What a token should take now, from what an engine says of itself: sequences, cache, and prompt tokens a second.

    t_d  = base + per_seq·B + per_kv·S            a step that only decodes: B sequences, S tokens of theirs in the cache
    TPOT = t_d / (1 − r·per_prompt)               of every second, r·per_prompt goes to reading r prompt tokens

The coefficients are differences of the step law around the state in which the service is expected; there the first line is
exact, and elsewhere as good as a straight line is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from roofline.answers.serving.service import Service

__all__ = ["MOST_READING", "Live", "live_of"]

NEARBY = 0.2  # of the state, on either side
MOST_READING = 0.95
"""Of the time, beyond which the second line says no more [1]."""
NO_CHUNK = (0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """The coefficients, of one data-parallel rank  [s, s, s/token, s/token]."""

    base_s: float
    per_seq_s: float
    per_kv_token_s: float
    per_prompt_token_s: float

    def step_s(self, n_seq: float, kv_tokens: float) -> float:
        """A step that only decodes  [s]."""
        return self.base_s + self.per_seq_s * n_seq + self.per_kv_token_s * kv_tokens

    def tpot_s(self, *, n_seq: float, kv_tokens: float, prompt_tokens_per_s: float = 0.0) -> float:
        """What a token takes, prompts between them read  [s]."""
        reading = min(prompt_tokens_per_s * self.per_prompt_token_s, MOST_READING)
        return self.step_s(n_seq, kv_tokens) / (1.0 - reading)


def live_of(service: Service, n_seq: float) -> Live:
    """The coefficients around a state in which so many sequences decode on a rank.

    Notes
    -----
    Assumes contexts as long as the workload's, and prompts read one at a time in chunks of their mean length.
    """
    law, w, r = service.law, service.lengths, service.replica
    n = float(np.clip(n_seq, 1.0, r.max_seqs))
    context = n * w.context_mean

    def seconds(b: float, c: float, chunk: tuple[float, float, float] = NO_CHUNK) -> float:
        within = [np.asarray(b * seen) for seen in w.within]
        return float(law.alike(np.asarray(b), np.asarray(c), within, np.asarray(float(chunk[0] > 0.0)), chunk))

    low, high = 1.0 - NEARBY, 1.0 + NEARBY
    per_seq = (seconds(high * n, context) - seconds(low * n, context)) / (2.0 * NEARBY * n)
    per_kv = (seconds(n, high * context) - seconds(n, low * context)) / (2.0 * NEARBY * context)
    here = seconds(n, context)
    tokens = float(np.clip(w.prompt_mean, 1.0, max(r.batch_tokens - n, 1.0)))
    return Live(
        base_s=here - per_seq * n - per_kv * context, per_seq_s=per_seq, per_kv_token_s=per_kv,
        per_prompt_token_s=max(seconds(n, context, (tokens, 0.0, 1.0)) - here, 0.0) / tokens,
    )  # fmt: skip
