"""What is asked of a simulated replica, held to what it can be."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from roofline.answers.simulate.replica import Replica
from roofline.errors import SpecError
from roofline.specs.workload import at_least_one, first_not_whole

__all__ = ["blocks_named", "in_turn", "never_held", "tokens_in_order", "with_them"]

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


def tokens_in_order(arrival_s: object, prompt_tokens: object, output_tokens: object) -> tuple[Floats, Counts, Counts]:
    """Arrivals in order, and whole tokens for each."""
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


def in_turn(follows: object, think_s: object, n: int) -> tuple[list[int], list[float]]:
    """Whom each waits for, −1 for none, and how long it thinks; nobody waits for himself or for one after him  [1, s]."""
    if follows is None and think_s is not None:
        raise SpecError("simulate(think_s): it comes after the answer that follows names; give follows too")
    after, think = (np.array(d if x is None else x, dtype=np.float64)
                    for x, d in ((follows, np.full(n, -1.0)), (think_s, np.zeros(n))))  # fmt: skip
    for name, given, ok, said in (
        ("follows", after, (after >= -1.0) & (after < np.arange(after.size)) & (after == np.floor(after)),
         "the place of an earlier request, or -1 for none; sort the requests so that answers come first"),
        ("think_s", think, np.isfinite(think) & (think >= 0.0), "finite seconds of at least 0"),
    ):  # fmt: skip
        if given.shape != (n,):
            raise SpecError(f"simulate({name}): expected one for each of {n} arrivals, got {given.size}")
        if not ok.all():
            at = int(np.argmin(ok))
            raise SpecError(f"simulate({name}): expected {said}; got {given[at]:g} of request {at}")
    return after.astype(np.int64).tolist(), think.tolist()


def never_held(prompts: Counts, outputs: Counts, after: Sequence[int], replica: Replica) -> NDArray[np.bool_]:
    """p + o − 1 tokens are cached when the last is given; more than the whole cache, or p + o over the model's limit.

    Nor what waits for the answer of such a one.
    """
    never = np.asarray(-(-(prompts + outputs - 1) // replica.page_tokens) > replica.n_pages)
    if replica.max_context_tokens is not None:
        never = np.asarray(never | (prompts + outputs > replica.max_context_tokens))
    if never.any():
        for i, j in enumerate(after):
            never[i] |= j >= 0 and never[j]
    return never


def blocks_named(block_ids: Sequence[Sequence[int]], block_tokens: int, tokens: Counts, replica: Replica) -> None:
    """Blocks of whole pages, and no more of them than prompt and answer begin."""
    at_least_one(block_tokens, "simulate(block_tokens)")
    page = replica.page_tokens
    if block_tokens % page:
        raise SpecError(
            f"simulate(block_tokens): expected whole pages of {page} tokens, got {block_tokens}; "
            f"take Replica(page_tokens) that divides it"
        )
    if len(block_ids) != len(tokens):
        raise SpecError(f"simulate(block_ids): expected one for each of {len(tokens)} arrivals, got {len(block_ids)}")
    for i, (ids, n) in enumerate(zip(block_ids, tokens.tolist(), strict=True)):
        if len(ids) > -(-n // block_tokens):
            raise SpecError(
                f"simulate(block_ids): expected no more ids than blocks of {block_tokens} tokens in prompt and answer, "
                f"got {len(ids)} for the {n} tokens of request {i}"
            )


def with_them(brought_tokens: object, prompts: Counts, replica: Replica) -> Counts:
    """Tokens that come with each prompt, whole numbers below it; not where beginnings are kept, which are found instead."""
    given = np.array(brought_tokens, dtype=np.float64)
    if given.shape != prompts.shape or not ((given >= 0.0) & (given < prompts) & (given == np.floor(given))).all():
        raise SpecError(
            "simulate(brought_tokens): expected whole numbers from 0 to the prompt less one, one for each request"
        )
    if replica.prefix_caching:
        raise SpecError(
            "simulate(brought_tokens): what comes with a prompt is not looked for; use prefix_caching=False"
        )
    return given.astype(np.int64)
