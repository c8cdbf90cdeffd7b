"""Beginnings that prompts share, kept in the pages nobody uses and in a second memory: least recently used goes first.

A block is so many whole pages of tokens, and is the same wherever it and all before it have the same ids. Sequences that run
hold the blocks they begin with, each block once in the pool however many hold it. One that nobody holds stays in the free
pages until those are needed; then it goes to the tier behind the pool, and out of that when the tier is full. A block lies
in one place: what is found in the tier moves back to the pool. Of a sequence that leaves, later blocks go before earlier.

References: Kwon et al. 2023, arXiv:2309.06180 (pages that sequences share); Zheng et al. 2023, arXiv:2312.07104 (a tree of
beginnings, least recently used leaves first).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from roofline.answers.simulate.replica import Replica

__all__ = ["Prefixes", "with_answers"]

Blocks = Sequence[Sequence[int]]
Counts = NDArray[np.int64]


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
        self.chains = _chains(block_ids, [n // block_tokens for n in lengths])
        self.held = [0] * len(lengths)  # of each, how many of the blocks it begins with it holds
        self.holders: dict[int, int] = {}
        self.unused: OrderedDict[int, None] = OrderedDict()  # in the pool, least recently used first
        self.tier: OrderedDict[int, None] = OrderedDict()  # the same
        self.loading = 0  # tokens on their way to the pool in this step
        self.hit_tokens: dict[int, int] = {}
        self.loaded_tokens: dict[int, int] = {}

    def shared(self, i: int, want: int) -> int:
        """Pages of what it begins with that others hold now: it need not take them  [1]."""
        n = 0
        for block in self.chains[i][: self._most(i, want)]:
            if block not in self.holders:
                break
            n += 1
        return n * self.pages

    def admit(self, i: int, want: int) -> int:
        """It holds what is there of its beginning; tokens it need not read  [token]."""
        n = loaded = 0
        for block in self.chains[i][: self._most(i, want)]:
            if block in self.holders:
                self.holders[block] += 1
            elif block in self.unused:
                del self.unused[block]
                self.holders[block] = 1
            elif block in self.tier:
                del self.tier[block]
                self.holders[block] = 1
                loaded += 1
            else:
                break
            n += 1
        hit = min(n * self.block, self._readable(want))
        self.held[i] = n
        self.loading += loaded * self.block
        self.hit_tokens.setdefault(i, hit)
        self.loaded_tokens.setdefault(i, loaded * self.block)
        return hit

    def _readable(self, want: int) -> int:
        """An engine computes the last token, and with it the page it is in."""
        return (want - 1) // self.page * self.page

    def _most(self, i: int, want: int) -> int:
        """Blocks that are whole in what it is to read, and of which it would read less."""
        return min(len(self.chains[i]), want // self.block, -(-self._readable(want) // self.block))

    def load_s(self) -> float:
        """What was found in the tier since this was last asked, over the link  [s]."""
        tokens, self.loading = self.loading, 0
        return tokens / self.per_s if self.per_s is not None else 0.0

    def read(self, i: int, done: int) -> int:
        """So many of its tokens are computed: others may use their blocks; pages of what was there already  [1]."""
        chain, spare = self.chains[i], 0
        for k in range(self.held[i], min(len(chain), done // self.block)):
            block = chain[k]
            if block in self.holders:
                spare += self.pages
            else:
                self.unused.pop(block, None)
                self.tier.pop(block, None)
            self.holders[block] = self.holders.get(block, 0) + 1
            self.held[i] = k + 1
        return spare

    def leave(self, i: int, computed: int) -> int:
        """It holds nothing any more; pages that stay because others hold them  [1]."""
        chain, held, stays = self.chains[i], self.held[i], 0
        for k in reversed(range(max(held, min(len(chain), computed // self.block)))):
            block = chain[k]
            others = self.holders.get(block, 0) - (k < held)
            if others:
                self.holders[block] = others
                stays += self.pages * (k < held)
                continue
            self.holders.pop(block, None)
            self.tier.pop(block, None)
            self.unused[block] = None
            self.unused.move_to_end(block)
        self.held[i] = 0
        return stays

    def trim(self, free: int) -> None:
        """No more lies unused than there are free pages."""
        while len(self.unused) * self.pages > free:
            block, _ = self.unused.popitem(last=False)
            if self.in_tier:
                self.tier[block] = None
                if len(self.tier) > self.in_tier:
                    self.tier.popitem(last=False)


def _chains(block_ids: Blocks, most: Sequence[int]) -> list[list[int]]:
    """Blocks by their place in a tree of beginnings, as many of each request as are ever whole.

    >>> _chains([(7, 8), (7, 9), (9, 8)], [2, 2, 1])
    [[1, 2], [1, 3], [4]]
    """
    after: dict[tuple[int, int], int] = {}
    chains = []
    for ids, n in zip(block_ids, most, strict=True):
        place, chain = 0, []
        for block in ids[:n]:
            place = after.setdefault((place, block), len(after) + 1)
            chain.append(place)
        chains.append(chain)
    return chains


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
