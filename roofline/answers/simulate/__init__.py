"""A replica of an engine, step by step: continuous batching, prompts in chunks, pages, admission, preemption by recompute.

Every step, in this order:

1. each sequence whose prompt is read advances by a token, oldest first; one whose next token opens a page takes it, and with
   none free the sequence that was admitted last gives its pages back and goes to the head of the queue, to read its prompt
   and what it has said again;
2. what is left of the tokens of a step reads prompts, first come first served: those begun, then waiting ones, each admitted
   when pages for its whole prompt are free and fewer than the most sequences run.

The step that ends a prompt gives its first token, at its end. All decodes advance together, so a sequence is known by the
step it ends at: a heap of those, the sum of contexts and the count of decodes at each place in a page make a step as cheap
with 256 sequences as with one, and steps that only decode are taken many at a time. The times are those of a loop that looks
at every sequence in every step, to the last bit.

References: Yu et al. 2022 (Orca, iteration-level scheduling); Kwon et al. 2023, arXiv:2309.06180 (pages, preemption by
recompute); Agrawal et al. 2024, arXiv:2403.02310 (chunked prompts beside decodes).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from roofline.answers.simulate.replica import Replica
from roofline.answers.simulate.run import Run
from roofline.errors import SpecError
from roofline.specs.workload import first_not_whole
from roofline.timing.steplaw import StepLaw

__all__ = ["Replica", "Served", "simulate"]

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Served:
    """What became of every request, in the order they were given; NaN of those that were rejected.

    Attributes
    ----------
    arrival_s, first_token_s, last_token_s : array
        When each came, got its first token, and its last [s].
    output_tokens : array
        Tokens of each [token].
    rejected : array of bool
        Requests that could never be held: longer than the cache or than the model reads.
    step_s, step_decodes : array
        Every step that advanced decodes: what it took [s], and how many it advanced [1].
    n_steps, n_preemptions : int
        Steps in all, and sequences that lost their pages.
    """

    arrival_s: Floats
    first_token_s: Floats
    last_token_s: Floats
    output_tokens: Counts
    rejected: NDArray[np.bool_]
    step_s: Floats
    step_decodes: Counts
    n_steps: int
    n_preemptions: int

    @property
    def ttft_s(self) -> Floats:
        """First token − arrival  [s]."""
        return self.first_token_s - self.arrival_s

    @property
    def tpot_s(self) -> Floats:
        """(last − first token) / (tokens − 1); NaN of requests of one token  [s]."""
        gaps = self.output_tokens - 1.0
        return np.asarray((self.last_token_s - self.first_token_s) / np.where(gaps > 0.0, gaps, np.nan))


def simulate(arrival_s: Sequence[float] | Floats, prompt_tokens: Sequence[int] | Counts,
             output_tokens: Sequence[int] | Counts, law: StepLaw, replica: Replica) -> Served:  # fmt: skip
    """Serve requests one after another as they come.

    Parameters
    ----------
    arrival_s : array
        When each comes, in order [s].
    prompt_tokens, output_tokens : array of int
        Tokens each brings and asks for, at least 1 [token].

    Examples
    --------
    >>> from roofline.timing.steplaw import PlainLaw
    >>> law = PlainLaw(matmul_params=7.5e9, weight_bytes=16.06e9, kv_bytes_per_token=131072, n_layers=32, heads_dim=4096,
    ...                peak_flops_per_s=593.4e12, hbm_bytes_per_s=2.68e12, step_s=3e-3)
    >>> two = simulate([0.0, 0.001], [1024, 1024], [2, 2], law, Replica(kv_tokens=430000))
    >>> [round(1e3 * float(s)) for s in two.ttft_s]
    [29, 58]
    """
    arrivals, prompts, outputs = _checked(arrival_s, prompt_tokens, output_tokens)
    rejected = _never_held(prompts, outputs, replica)
    run = Run(arrivals.tolist(), prompts.tolist(), outputs.tolist(), law, replica)
    run.serve([i for i, out in enumerate(rejected.tolist()) if not out])
    return Served(
        arrival_s=arrivals, first_token_s=np.array(run.first_s, dtype=np.float64),
        last_token_s=np.array(run.last_s, dtype=np.float64), output_tokens=outputs, rejected=rejected,
        step_s=np.concatenate(run.spent) if run.spent else np.zeros(0),
        step_decodes=np.concatenate(run.advanced) if run.advanced else np.zeros(0, dtype=np.int64),
        n_steps=run.n_steps, n_preemptions=run.n_preemptions,
    )  # fmt: skip


def _checked(arrival_s: object, prompt_tokens: object, output_tokens: object) -> tuple[Floats, Counts, Counts]:
    arrivals = np.array(arrival_s, dtype=np.float64)
    counts = []
    for name, given in (("prompt_tokens", prompt_tokens), ("output_tokens", output_tokens)):
        tokens = np.array(given, dtype=np.float64)
        if tokens.shape != arrivals.shape or tokens.ndim != 1:
            raise SpecError(f"simulate({name}): expected one for each of {arrivals.size} arrivals, got {tokens.size}")
        bad = first_not_whole(tokens)
        if bad is not None:
            raise SpecError(
                f"simulate({name}): expected whole numbers of at least 1, got {tokens[bad]:g} of request {bad}"
            )
        counts.append(tokens.astype(np.int64))
    if not np.isfinite(arrivals).all() or (np.diff(arrivals) < 0.0).any():
        raise SpecError("simulate(arrival_s): expected finite seconds in order; sort the requests by arrival")
    return arrivals, counts[0], counts[1]


def _never_held(prompts: Counts, outputs: Counts, replica: Replica) -> NDArray[np.bool_]:
    """p + o − 1 tokens are cached when the last is given; more than the whole cache, or p + o over the model's limit."""
    too_long = -(-(prompts + outputs - 1) // replica.page_tokens) > replica.n_pages
    if replica.max_context_tokens is None:
        return np.asarray(too_long)
    return np.asarray(too_long | (prompts + outputs > replica.max_context_tokens))
