"""Beginnings that prompts share, kept in the pages nobody uses and in a second memory: least recently used goes first.

A block is so many whole pages of tokens, and is the same wherever it and all before it have the same ids. Sequences that run
hold the blocks they begin with, each block once in the pool however many hold it. One that nobody holds stays in the free
pages until those are needed; then it goes to the tier behind the pool, and out of that when the tier is full. A block lies
in one place: what is found in the tier moves back to the pool. Of a sequence that leaves, later blocks go before earlier.

References: Kwon et al. 2023, arXiv:2309.06180 (pages that sequences share); Zheng et al. 2023, arXiv:2312.07104 (a tree of
beginnings, least recently used leaves first).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from roofline.answers.simulate.replica import Replica

__all__ = ["Prefixes", "with_answers"]

Blocks = Sequence[Sequence[int]]
Counts = NDArray[np.int64]


class Line:
    """Blocks in the order they were last put into it; the oldest leave first.

    >>> line = Line(9)
    >>> line.put(np.array([3, 4, 5])), line.put(np.array([3])), line.drop(np.array([5]))
    (None, None, None)
    >>> line.size, line.oldest(1).tolist(), line.has(np.array([3, 4])).tolist()
    (2, [4], [True, False])
    """

    def __init__(self, n_blocks: int) -> None:
        self.place = np.full(n_blocks, -1)  # where a block is, −1 for those that are not in it
        self.blocks = np.zeros(1024, dtype=np.int64)  # some of them out of date: they are at another place, or at none
        self.head = self.tail = self.size = 0

    def has(self, blocks: Counts) -> NDArray[np.bool_]:
        """Which of them are in it."""
        return np.asarray(self.place[blocks] >= 0)

    def put(self, blocks: Counts) -> None:
        """To the end, whether or not they were in it."""
        end = self.tail + len(blocks)
        if end > len(self.blocks):
            self.blocks = np.concatenate([self.blocks, np.zeros(end, dtype=np.int64)])
        self.size += len(blocks) - int(np.count_nonzero(self.has(blocks)))
        self.blocks[self.tail : end] = blocks
        self.place[blocks] = np.arange(self.tail, end)
        self.tail = end

    def drop(self, blocks: Counts) -> None:
        """Those of them that are in it are not any more."""
        if self.size:
            self.size -= int(np.count_nonzero(self.has(blocks)))
            self.place[blocks] = -1

    def oldest(self, n: int) -> Counts:
        """So many of the oldest, out of it."""
        found: list[Counts] = []
        while n > 0:
            end = min(self.head + 2 * n + 64, self.tail)
            there = np.flatnonzero(self.place[self.blocks[self.head : end]] == np.arange(self.head, end))[:n]
            found.append(self.blocks[self.head + there])
            n -= len(there)
            self.head = end if n else self.head + int(there[-1]) + 1
        out = np.concatenate(found) if found else np.zeros(0, dtype=np.int64)
        self.drop(out)
        return out


class Prefixes:
    """Which blocks are held, by how many, and which lie unused.

    Parameters
    ----------
    block_ids : sequence of sequences of int
        Of each request, the blocks its prompt and answer begin with.
    lengths : sequence of int
        Tokens of each that are cached when it leaves [token].
    block_tokens : int
        Tokens of a block, whole pages [token].

    Notes
    -----
    Assumes that blocks go to the tier at no cost, and that what comes back takes the link alone, after the rest of the step.
    """

    def __init__(self, block_ids: Blocks, lengths: Sequence[int], block_tokens: int, replica: Replica) -> None:
        self.block, self.page, self.pages = block_tokens, replica.page_tokens, block_tokens // replica.page_tokens
        self.in_tier, self.per_s = replica.tier_tokens // block_tokens, replica.tier_tokens_per_s
        self.chains, n_blocks = _chains(block_ids, [n // block_tokens for n in lengths])
        self.held = [0] * len(lengths)  # of each, how many of the blocks it begins with it holds
        self.holders = np.zeros(n_blocks, dtype=np.int64)  # of each block
        self.unused, self.tier = Line(n_blocks), Line(n_blocks)
        self.loading = 0  # tokens on their way to the pool in this step
        self.hit_tokens: dict[int, int] = {}
        self.loaded_tokens: dict[int, int] = {}

    def shared(self, i: int, want: int) -> int:
        """Pages of what it begins with that others hold now: it need not take them  [1]."""
        return _leading(self.holders[self._useful(i, want)] > 0) * self.pages

    def admit(self, i: int, want: int) -> int:
        """It holds what is there of its beginning; tokens it need not read  [token]."""
        blocks = self._useful(i, want)
        tiered = self.tier.has(blocks)
        n = _leading((self.holders[blocks] > 0) | self.unused.has(blocks) | tiered)
        hit = min(n * self.block, self._readable(want))
        loaded = int(np.count_nonzero(tiered[:n])) * self.block
        self._hold(blocks[:n])
        self.held[i] = n
        self.loading += loaded
        self.hit_tokens.setdefault(i, hit)
        self.loaded_tokens.setdefault(i, loaded)
        return hit

    def _readable(self, want: int) -> int:
        """An engine computes the last token, and with it the page it is in."""
        return (want - 1) // self.page * self.page

    def _useful(self, i: int, want: int) -> Counts:
        """Blocks that are whole in what it is to read, and of which it would read less."""
        return self.chains[i][: min(want // self.block, -(-self._readable(want) // self.block))]

    def _hold(self, blocks: Counts) -> None:
        self.holders[blocks] += 1
        self.unused.drop(blocks)
        self.tier.drop(blocks)

    def load_s(self) -> float:
        """What was found in the tier since this was last asked, over the link  [s]."""
        tokens, self.loading = self.loading, 0
        return tokens / self.per_s if self.per_s is not None else 0.0

    def read(self, i: int, done: int) -> int:
        """So many of its tokens are computed: others may use their blocks; pages of what others hold already  [1]."""
        blocks = self.chains[i][self.held[i] : done // self.block]
        if not len(blocks):
            return 0
        twice = int(np.count_nonzero(self.holders[blocks]))
        self._hold(blocks)
        self.held[i] += len(blocks)
        return twice * self.pages

    def leave(self, i: int, computed: int) -> int:
        """It holds nothing any more; pages that stay because others hold them  [1]."""
        held = self.chains[i][: self.held[i]]
        blocks = self.chains[i][: max(len(held), computed // self.block)]
        self.holders[held] -= 1
        unheld = blocks[self.holders[blocks] == 0][::-1]
        self.unused.put(unheld)
        self.tier.drop(unheld)
        self.held[i] = 0
        return int(np.count_nonzero(self.holders[held])) * self.pages

    def trim(self, free: int) -> None:
        """No more lies unused than there are free pages."""
        if self.unused.size * self.pages <= free:
            return
        out = self.unused.oldest(self.unused.size - free // self.pages)
        if self.in_tier:
            self.tier.put(out)
            self.tier.oldest(self.tier.size - self.in_tier)


def _leading(there: NDArray[np.bool_]) -> int:
    """How many are true before the first that is not  [1]."""
    return int(there.argmin()) if not there.all() else len(there)


def _chains(block_ids: Blocks, most: Sequence[int]) -> tuple[list[Counts], int]:
    """Blocks by their place in a tree of beginnings, as many of each request as are ever whole; and how many places.

    >>> _chains([(7, 8), (7, 9), (9, 8)], [2, 2, 1])
    ([array([1, 3]), array([1, 4]), array([2])], 5)
    """
    code: dict[int, int] = {}
    cut = [ids[:n] for ids, n in zip(block_ids, most, strict=True)]
    flat = np.array([code.setdefault(block, len(code)) for ids in cut for block in ids], dtype=np.int64)
    counts = np.array([len(ids) for ids in cut], dtype=np.int64)
    starts = np.cumsum(counts) - counts
    longest = np.argsort(-counts, kind="stable")
    deeper = len(counts) - np.searchsorted(np.sort(counts), np.arange(counts.max(initial=0)), side="right")
    places, before, n_places = np.zeros(len(flat), dtype=np.int64), np.zeros(len(counts), dtype=np.int64), 1
    for depth, n in enumerate(
        deeper.tolist()
    ):  # all that are longer, at once: a place is that of the block before, and an id
        at = starts[longest[:n]] + depth
        steps, which = np.unique(before[:n] * len(code) + flat[at], return_inverse=True)
        before = places[at] = n_places + which
        n_places += len(steps)
    return [places[start : start + n] for start, n in zip(starts.tolist(), counts.tolist(), strict=True)], n_places


def with_answers(block_ids: Blocks, block_tokens: int, prompt_tokens: Sequence[int] | Counts,
                 output_tokens: Sequence[int] | Counts, follows: Sequence[int] | Counts) -> Blocks:  # fmt: skip
    """The blocks of prompts, and after them those of their answers as the prompts that follow them name them.

    A prompt that follows begins with the prompt and the answer before it. Of several that follow one, the first names them;
    the last token of an answer is not cached.

    Examples
    --------
    Ten tokens are asked and nine said; the next prompt begins with those 19, of which 18 are cached: four blocks of four.

    >>> with_answers([(1, 2), (1, 2, 3, 4, 5, 6)], 4, [10, 24], [9, 5], [-1, 0])
    [(1, 2, 3, 4), (1, 2, 3, 4, 5, 6)]
    """
    out = [tuple(ids) for ids in block_ids]
    for i in reversed(range(len(out))):
        j = int(follows[i])
        whole = int(prompt_tokens[j]) // block_tokens
        if j >= 0 and len(block_ids[j]) >= whole:
            cached = (int(prompt_tokens[j]) + int(output_tokens[j]) - 1) // block_tokens
            out[j] = tuple(block_ids[j][:whole]) + tuple(block_ids[i][whole:cached])
    return out
