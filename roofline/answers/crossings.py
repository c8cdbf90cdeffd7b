"""Prompts at which a pass changes its nature: from when on compute binds it, and when attention is half of its work."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from roofline.answers.phases import prefill
from roofline.specs.deployment import Deployment

__all__ = ["compute_bound_from", "half_attention_at"]

FARTHEST = 2**24


def compute_bound_from(deployment: Deployment, *, longest: int) -> int | None:
    """The prompt from which on compute binds the pass of every prompt up to `longest`; none where it does not  [token].

    One more than the longest prompt that something else binds: with experts, some shorter ones may be bound by compute too.

    Examples
    --------
    >>> from roofline.specs.catalog import hardware, model
    >>> d = Deployment(model=model("llama-2-7b"), hardware=hardware("h100"))
    >>> n = compute_bound_from(d, longest=8192)
    >>> [prefill(d, prompt_tokens=tokens).bound for tokens in (n - 1, n)]
    ['memory', 'compute']
    """
    prompts = np.arange(1, longest + 1)
    others = np.flatnonzero(np.asarray(prefill(deployment, prompt_tokens=prompts).bound) != "compute")
    last = int(prompts[others[-1]]) if others.size else 0
    return last + 1 if last < longest else None


def half_attention_at(deployment: Deployment) -> int | None:
    """The shortest prompt whose scores and values take as many FLOP as all the rest of its pass; none up to 16 M.  [token]

    Attention grows with the square of the prompt, the matrices with the prompt: once ahead, it stays so.

    Examples
    --------
    Llama-2-7B: 32 layers of 4 · 4096 FLOP for each of T·(T + 1)/2 pairs are 262,144·T·(T + 1); the layers' 6,476,005,376
    weights and the head for one position 12,952,010,752·T + 262,144,000. So T + 1 = 49,408 + 1000/T, rounded up.

    >>> from roofline.specs.catalog import hardware, model
    >>> half_attention_at(Deployment(model=model("llama-2-7b"), hardware=hardware("h100")))
    49408
    """
    grid = 2.0 ** np.arange(np.log2(FARTHEST) + 1.0)
    while True:
        leads = _attention_leads(deployment, grid)
        if not leads.any():
            return None
        first = int(np.argmax(leads))
        low, high = grid[max(first - 1, 0)], grid[first]
        if high - low <= 1:
            return int(high)
        grid = np.unique(np.round(np.linspace(low, high, 65)))


def _attention_leads(d: Deployment, prompt_tokens: NDArray[np.float64]) -> NDArray[np.bool_]:
    t = prefill(d, prompt_tokens=prompt_tokens)
    attention = sum((row["executed_flops"] for row in t.by_op() if row["kind"] == "attention"), start=np.zeros(1))
    return np.asarray(attention >= 0.5 * np.asarray(t.executed_flops))
