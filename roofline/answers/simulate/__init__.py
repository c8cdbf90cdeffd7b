"""A replica of an engine, step by step: continuous batching, prompts in chunks, pages, admission, preemption by recompute,
beginnings that are kept, and requests that wait for the answers of others.

Every step, in this order:

1. each sequence whose prompt is read advances by a token, oldest first; one whose next token opens a page takes it, and with
   none free the sequence that was admitted last gives its pages back and goes to the head of the queue, to read its prompt
   and what it has said again;
2. what is left of the tokens of a step reads prompts, first come first served: those begun, then waiting ones, each admitted
   when pages for its whole prompt are free and fewer than the most sequences run. Where beginnings are kept, it takes what
   is there of its own, waits in that step for what comes from the tier, and reads the rest.

The step that ends a prompt gives its first token, at its end. All decodes advance together, so a sequence is known by the
step it ends at: a heap of those, the sum of contexts and the count of decodes at each place in a page make a step as cheap
with 256 sequences as with one, and steps that only decode are taken many at a time. The times are those of a loop that looks
at every sequence in every step, to the last bit.

References: Yu et al. 2022 (Orca, iteration-level scheduling); Kwon et al. 2023, arXiv:2309.06180 (pages, preemption by
recompute); Agrawal et al. 2024, arXiv:2403.02310 (chunked prompts beside decodes).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from roofline.answers.simulate.asked import blocks_named, in_turn, never_held, tokens_in_order, with_them
from roofline.answers.simulate.coming import Coming
from roofline.answers.simulate.fleet import least_loaded
from roofline.answers.simulate.prefixes import Blocks, Prefixes, with_answers
from roofline.answers.simulate.replica import Replica
from roofline.answers.simulate.run import Run
from roofline.specs.workload import BLOCK_TOKENS
from roofline.timing.steplaw import StepLaw

__all__ = ["Replica", "Served", "least_loaded", "simulate", "with_answers"]

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Served:
    """What became of every request, in the order they were given; NaN of those that were rejected.

    Attributes
    ----------
    arrival_s, first_token_s, last_token_s : array
        When each came, got its first token, and its last [s]. One that waited for an answer that never came has the time it
        was given.
    prompt_tokens, output_tokens : array
        Tokens of each [token].
    rejected : array of bool
        Requests that could never be held, longer than the cache or than the model reads, and those that follow them.
    step_s, step_decodes : array
        Every step that advanced decodes: what it took [s], and how many it advanced [1].
    n_steps, n_preemptions : int
        Steps in all, and sequences that lost their pages.
    hit_tokens : array
        Tokens that each needed not read when it was first admitted [token].
    loaded_tokens : array
        Tokens that came from the tier for it then, in whole blocks [token].
    """

    arrival_s: Floats
    first_token_s: Floats
    last_token_s: Floats
    prompt_tokens: Counts
    output_tokens: Counts
    rejected: NDArray[np.bool_]
    step_s: Floats
    step_decodes: Counts
    n_steps: int
    n_preemptions: int
    hit_tokens: Counts
    loaded_tokens: Counts

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
             output_tokens: Sequence[int] | Counts, law: StepLaw, replica: Replica, *, block_ids: Blocks | None = None,
             block_tokens: int = BLOCK_TOKENS, follows: Sequence[int] | Counts | None = None,
             think_s: Sequence[float] | Floats | None = None,
             brought_tokens: Sequence[int] | Counts | None = None) -> Served:  # fmt: skip
    """Serve requests one after another as they come.

    Parameters
    ----------
    arrival_s : array
        When each comes, in order; of one that follows another, the earliest it may [s].
    prompt_tokens, output_tokens : array of int
        Tokens each brings and asks for, at least 1 [token].
    block_ids : sequence of sequences of int, or None
        Of each, the blocks its prompt begins with, and after them those of its answer (`with_answers`): two begin alike as
        far as their ids do. Looked at where the replica keeps beginnings.
    block_tokens : int
        Tokens of a block, whole pages [token].
    follows : array of int, or None
        The place of the request whose answer each waits for, −1 for none [1].
    think_s : array, or None
        From the last token of that answer until it comes; none: at once [s].
    brought_tokens : array of int, or None
        Of each prompt the tokens whose cache comes with it, from a pool that read them, at most all but one [token].

    Notes
    -----
    Assumes that a step waits for what it admits out of the tier, one after another and beside nothing else: an upper bound,
    since engines load while they compute. Blocks count whole: of one that a prompt fills in part nothing is found. What is
    read is found by others from the end of the step that read it, an answer once its request has left.

    Examples
    --------
    >>> from roofline.timing.steplaw import PlainLaw
    >>> law = PlainLaw(matmul_params=7.5e9, weight_bytes=16.06e9, kv_bytes_per_token=131072, n_layers=32, heads_dim=4096,
    ...                peak_flops_per_s=593.4e12, hbm_bytes_per_s=2.68e12, step_s=3e-3)
    >>> two = simulate([0.0, 0.001], [1024, 1024], [2, 2], law, Replica(kv_tokens=430000))
    >>> [round(1e3 * float(s)) for s in two.ttft_s]
    [29, 58]

    Half of the second prompt was read with the first, a second before:

    >>> keeps = Replica(kv_tokens=430000, prefix_caching=True)
    >>> two = simulate([0.0, 1.0], [1024, 1024], [2, 2], law, keeps, block_ids=[(1, 2), (1, 3)])
    >>> [round(1e3 * float(s)) for s in two.ttft_s], two.hit_tokens.tolist()
    ([29, 16], [0, 512])
    """
    arrivals, prompts, outputs = tokens_in_order(arrival_s, prompt_tokens, output_tokens)
    after, think = in_turn(follows, think_s, len(arrivals))
    rejected = never_held(prompts, outputs, after, replica)
    prefixes = None
    if replica.prefix_caching and block_ids is not None:
        blocks_named(block_ids, block_tokens, prompts + outputs, replica)
        prefixes = Prefixes(block_ids, (prompts + outputs - 1).tolist(), block_tokens, replica)
    coming = Coming(arrivals.tolist(), after, think, rejected.tolist())
    brought = None if brought_tokens is None else with_them(brought_tokens, prompts, replica).tolist()
    run = Run(coming, prompts.tolist(), outputs.tolist(), law, replica, prefixes, brought)
    run.serve()
    return Served(
        arrival_s=np.array(coming.arrival_s, dtype=np.float64), first_token_s=np.array(run.first_s, dtype=np.float64),
        last_token_s=np.array(run.last_s, dtype=np.float64), prompt_tokens=prompts, output_tokens=outputs, rejected=rejected,
        step_s=np.concatenate(run.spent) if run.spent else np.zeros(0),
        step_decodes=np.repeat(_counts(run.advanced), _counts([len(seconds) for seconds in run.spent])),
        n_steps=run.n_steps, n_preemptions=run.n_preemptions,
        hit_tokens=_placed(prefixes.hit_tokens if prefixes else {}, len(arrivals)),
        loaded_tokens=_placed(prefixes.loaded_tokens if prefixes else {}, len(arrivals)),
    )  # fmt: skip


def _counts(values: Sequence[int]) -> Counts:
    return np.array(values, dtype=np.int64)


def _placed(values: Mapping[int, int], n: int) -> Counts:
    return _counts([values.get(i, 0) for i in range(n)])
