"""The replica of `roofline.answers.simulate` once more: every sequence looked at in every step, and nothing clever."""

from __future__ import annotations

from collections.abc import Sequence as Many
from dataclasses import dataclass, field

from roofline.answers.simulate import Replica
from roofline.timing.steplaw import StepLaw

Key = tuple[int, ...]
"""A block, by its own id and those of all blocks before it."""


@dataclass(eq=False)
class Sequence:
    """A request and what has been done of it."""

    arrival_s: float
    prompt: int
    output: int
    to_read: int
    ids: Many[int] = ()
    follows: Sequence | None = None
    think_s: float = 0.0
    read: int = 0
    said: int = 0
    pages: int = 0  # its own; those of blocks it holds come on top
    holds: list[Key] = field(default_factory=list)
    hit: int | None = None
    loaded: int | None = None
    first_s: float | None = None
    last_s: float | None = None

    @property
    def context(self) -> int:
        """Tokens there are of it, the one its next step caches among them."""
        return self.prompt + self.said

    @property
    def computed(self) -> int:
        """Tokens of it that are cached."""
        return self.read if self.read < self.to_read else self.context - 1


class Pool:
    """Pages and the blocks in them, and the tier: lists, the least recently used first."""

    def __init__(self, replica: Replica, block_tokens: int) -> None:
        self.page, self.block, self.block_pages = (
            replica.page_tokens,
            block_tokens,
            block_tokens // replica.page_tokens,
        )
        self.tier_blocks = replica.tier_tokens // block_tokens
        self.empty = replica.n_pages
        self.held: list[Key] = []  # once for every sequence that holds it
        self.unused: list[Key] = []
        self.tier: list[Key] = []

    @property
    def free(self) -> int:
        """Pages that may be had."""
        return self.empty + self.block_pages * len(self.unused)

    def pages(self, tokens: int) -> int:
        return (tokens + self.page - 1) // self.page

    def take(self, n: int) -> None:
        """Pages, one by one; with none empty the block unused for longest goes to the tier."""
        for _ in range(n):
            if self.empty == 0:
                self.tier.append(self.unused.pop(0))
                self.empty += self.block_pages
                if len(self.tier) > self.tier_blocks:
                    self.tier.pop(0)
            self.empty -= 1

    def found(self, one: Sequence) -> list[Key]:
        """The blocks it begins with that are somewhere, as far as it would read less for them."""
        keys: list[Key] = []
        for k in range(min(len(one.ids), one.to_read // self.block)):
            key = tuple(one.ids[: k + 1])
            if k * self.block >= self.readable(one) or key not in self.held + self.unused + self.tier:
                break
            keys.append(key)
        return keys

    def readable(self, one: Sequence) -> int:
        """Tokens of all pages but the one the last is in."""
        return (one.to_read - 1) // self.page * self.page

    def need(self, one: Sequence) -> int:
        """Pages for all it is to read but what others hold."""
        return self.pages(one.to_read) - self.block_pages * sum(key in self.held for key in self.found(one))

    def admit(self, one: Sequence) -> int:
        """It has its pages and holds what is there; tokens that come from the tier."""
        keys = self.found(one)
        loaded = [key for key in keys if key in self.tier]
        self.unused = [key for key in self.unused if key not in keys]
        self.tier = [key for key in self.tier if key not in keys]
        self.held += keys
        one.holds = keys
        one.pages = self.pages(one.to_read) - self.block_pages * len(keys)
        self.take(one.pages + self.block_pages * len(loaded))
        one.read = max(one.read, min(len(keys) * self.block, self.readable(one)))
        one.hit = one.read if one.hit is None else one.hit
        one.loaded = len(loaded) * self.block if one.loaded is None else one.loaded
        return len(loaded) * self.block

    def keep(self, one: Sequence) -> None:
        """What is read of it, others may find; of two copies its own goes."""
        for k in range(len(one.holds), min(len(one.ids), one.read // self.block)):
            key = tuple(one.ids[: k + 1])
            one.pages -= self.block_pages
            if key in self.held + self.unused:
                self.empty += self.block_pages
            self.unused = [other for other in self.unused if other != key]
            self.tier = [other for other in self.tier if other != key]
            self.held.append(key)
            one.holds.append(key)

    def release(self, one: Sequence) -> None:
        """It gives back all it has; its blocks lie unused, the later ones to go before the earlier."""
        whole = [tuple(one.ids[: k + 1]) for k in range(min(len(one.ids), one.computed // self.block))]
        for key in reversed(max(one.holds, whole, key=len)):
            if key in one.holds:
                self.held.remove(key)
                if key not in self.held:
                    self.unused.append(key)
                continue
            one.pages -= self.block_pages
            if key in self.held:
                self.empty += self.block_pages
                continue
            if key in self.unused:
                self.unused.remove(key)
                self.empty += self.block_pages
            self.tier = [other for other in self.tier if other != key]
            self.unused.append(key)
        self.empty, one.pages, one.holds = self.empty + one.pages, 0, []


StepLog = tuple[float, int, int, int, int, int, int, int, int, int, float]
"""start, decodes, their context, prompt tokens, pairs, past, pages used, running, waiting, preemptions so far, seconds."""


def serve(  # noqa: C901 - one loop, to be read from top to bottom
    requests: list[tuple[float, int, int]],
    law: StepLaw,
    replica: Replica,
    *,
    block_ids: Many[Many[int]] | None = None,
    block_tokens: int = 512,
    follows: Many[int] | None = None,
    think_s: Many[float] | None = None,
    brought: Many[int] | None = None,
) -> tuple[list[Sequence], list[StepLog]]:
    """Every request served, and every step that was taken."""
    served, log = [Sequence(at, prompt, output, prompt) for at, prompt, output in requests], []
    for i, one in enumerate(served):
        one.read = 0 if brought is None else brought[i]
        if block_ids is not None and replica.prefix_caching:
            one.ids = block_ids[i]
        if follows is not None and think_s is not None and follows[i] >= 0:
            one.follows, one.think_s = served[follows[i]], think_s[i]
    coming = [s for s in served if s.follows is None]
    later = [s for s in served if s.follows is not None]
    waiting: list[Sequence] = []
    running: list[Sequence] = []
    pool, t, preemptions = Pool(replica, block_tokens), 0.0, 0

    while coming or waiting or running:
        if not waiting and not running:
            t = max(t, coming[0].arrival_s)
        while coming and coming[0].arrival_s <= t:
            waiting.append(coming.pop(0))

        decoding: list[Sequence] = []
        for one in [s for s in running if s.read == s.to_read]:
            while one in running and pool.pages(one.context) > one.pages + pool.block_pages * len(one.holds):
                if pool.free > 0:
                    pool.take(1)
                    one.pages += 1
                    continue
                last = running.pop()
                pool.release(last)
                last.to_read, last.read = last.context, 0
                waiting.insert(0, last)
                preemptions += 1
            if one in running:
                decoding.append(one)

        room, loading = replica.batch_tokens - len(decoding), 0
        chunks: list[tuple[Sequence, int]] = []
        for one in running:
            if one.read < one.to_read and room > 0:
                chunks.append((one, min(room, one.to_read - one.read)))
                room -= chunks[-1][1]
        while waiting and room > 0 and len(running) < replica.max_seqs and pool.need(waiting[0]) <= pool.free:
            one = waiting.pop(0)
            loading += pool.admit(one)
            running.append(one)
            chunks.append((one, min(room, one.to_read - one.read)))
            room -= chunks[-1][1]

        context = sum(s.context for s in decoding)
        tokens = sum(x for _, x in chunks)
        pairs = sum(sum(s.read + k for k in range(1, x + 1)) for s, x in chunks)
        past = sum(s.read for s, _ in chunks)
        within = [sum(window.seen(s.context) for s in decoding) for window in law.windows]
        seconds = law.seconds(len(decoding), context, within, [(x, s.read, s.read + x == s.to_read) for s, x in chunks])
        if replica.tier_tokens_per_s is not None:
            seconds += loading / replica.tier_tokens_per_s
        used = replica.n_pages - pool.free
        log.append(
            (t, len(decoding), context, tokens, pairs, past, used, len(running), len(waiting), preemptions, seconds)
        )
        t += seconds
        for one in decoding:
            one.said += 1
        for one, x in chunks:
            one.read += x
            pool.keep(one)
            if one.read == one.to_read:
                one.said += 1
                one.first_s = t if one.first_s is None else one.first_s
        for one in [s for s in running if s.said == s.output]:
            one.last_s = t
            running.remove(one)
            pool.release(one)
            for next_ in [s for s in later if s.follows is one]:
                next_.arrival_s = max(next_.arrival_s, t + next_.think_s)
                later.remove(next_)
                coming.append(next_)
                coming.sort(key=lambda s: (s.arrival_s, served.index(s)))
    return served, log
