"""Prompts that begin alike: the blocks they begin with, and what a cache without end would have of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

__all__ = ["Blocks", "begun_before", "reuse"]

Blocks: TypeAlias = tuple[tuple[int, ...], ...]


def reuse(block_ids: Blocks | None, known: Sequence[int] | None = None) -> float | None:
    """Share of the blocks of prompts that a cache without end holds, as far as each prompt begins as one before it  [1].

    Parameters
    ----------
    block_ids : tuple of tuples of int, or None
        Blocks of each prompt, in order of arrival.
    known : sequence of int, or None
        Of each, how many it holds anyway: those of the answer that the prompt goes on from [1].

    Notes
    -----
    Assumes that a request finds all of those before it read: one that comes while its like is still read finds less.

    Examples
    --------
    >>> reuse(((1, 2, 3), (1, 2, 4), (1, 5, 3)))  # of the second prompt two, of the third the first block
    0.333
    """
    ids = block_ids or ()
    held = begun_before(ids)
    if known is not None:
        held = [max(found, min(own, len(blocks))) for found, own, blocks in zip(held, known, ids, strict=True)]
    n_blocks = sum(len(blocks) for blocks in ids)
    return sum(held) / n_blocks if n_blocks else None


def begun_before(block_ids: Blocks) -> list[int]:
    """Of every prompt the blocks that some prompt before it began with too  [1].

    >>> begun_before(((1, 2, 3), (1, 2, 4), (1, 5, 3)))
    [0, 2, 1]
    """
    after: dict[tuple[int, int], int] = {}  # the place in a tree of prompts that a block leads to from another
    found = []
    for ids in block_ids:
        place = held = 0
        for block in ids:
            step = (place, block)
            place = after.get(step, 0)
            if place:
                held += 1
            else:
                place = after[step] = len(after) + 1
        found.append(held)
    return found
