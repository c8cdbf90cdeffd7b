"""The state of a simulated replica, and what a step makes of it."""

from __future__ import annotations

import math
from collections import deque
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from roofline.answers.simulate.coming import Coming
from roofline.answers.simulate.lockstep import Seen
from roofline.answers.simulate.prefixes import Prefixes
from roofline.answers.simulate.replica import Replica
from roofline.timing.steplaw import Chunk, StepLaw

__all__ = ["Run"]

Floats = NDArray[np.float64]

_FEW = 12  # steps that are sooner taken one by one than as an array


class Run:
    """The state of one replica between two steps.

    Parameters
    ----------
    prompts, outputs : list of int
        Tokens of each [token].
    prefixes : Prefixes or None
        Beginnings that are kept, where they are.
    brought : list of int or None
        Tokens of each prompt whose cache comes with it, and need not be read but after a preemption [token].
    """

    def __init__(self, coming: Coming, prompts: list[int], outputs: list[int], law: StepLaw, replica: Replica,
                 prefixes: Prefixes | None, brought: list[int] | None = None) -> None:  # fmt: skip
        self.coming, self.prompts, self.outputs, self.prefixes = coming, prompts, outputs, prefixes
        self.law, self.page, self.budget = law, replica.page_tokens, replica.batch_tokens
        self.max_seqs, self.free = replica.max_seqs, replica.n_pages
        n = len(prompts)
        self.first_s, self.last_s = [float("nan")] * n, [float("nan")] * n
        self.want, self.made = list(prompts), [0] * n  # to read; said when it began to decode
        self.done = [0] * n if brought is None else list(brought)  # read
        self.began = [0] * n  # decode steps taken when it began to decode
        self.running: dict[int, int] = {}  # in order of admission, and its place in that order
        self.reading: dict[int, None] = {}  # those of them whose prompt is not read
        self.waiting: deque[int] = deque()
        self.t, self.decoded = 0.0, 0  # now; steps in which decodes advanced
        self.n_decodes, self.context = 0, 0
        self.opening = [0] * self.page  # decodes that open a page at a step, by the step's place in a page
        self.seen = Seen(law.windows)
        self.ends: list[tuple[int, int, int]] = []  # (step, place in running, sequence), of which some are out of date
        self.spent: list[Floats] = []
        self.advanced: list[int] = []  # decodes of each entry of `spent`
        self.n_admitted = self.n_steps = self.n_preemptions = 0

    def serve(self, until: float = math.inf) -> None:
        """Take the steps that begin before a time; all there are, where none is given."""
        coming = self.coming
        while self.running or self.waiting or coming.next_s < until:
            if not self.running and not self.waiting:
                self.t = max(self.t, coming.next_s)
            if self.t >= until:
                return
            if coming.next_s <= self.t:
                self.waiting.extend(coming.by(self.t))
            if self.reading or (self.waiting and self._admits()):
                self._step()
            else:
                self._decode(until if self.waiting else min(until, coming.next_s))

    @property
    def to_read(self) -> int:
        """Prompt tokens it has yet to read, of those that run and those that wait  [token]."""
        return sum(self.want[i] - self.done[i] for i in self.reading) + sum(self.want[i] for i in self.waiting)

    def _admits(self) -> bool:
        """Whether the first that waits is admitted once the decodes have taken their pages."""
        room = self.free - (self.opening[self.decoded % self.page] if self.n_decodes else 0)
        return (
            self._need(self.waiting[0]) <= room and len(self.running) < self.max_seqs and self.n_decodes < self.budget
        )

    def _need(self, i: int) -> int:
        """Pages that must be free for what it is to read."""
        pages = self._pages(self.want[i])
        return pages if self.prefixes is None else pages - self.prefixes.shared(i, self.want[i])

    def _take(self, pages: int) -> None:
        """Of the free pages, the empty ones first."""
        self.free -= pages
        if self.prefixes is not None:
            self.prefixes.trim(self.free)

    def _give(self, i: int, pages: int, computed: int) -> None:
        """Its pages are free, but for those that others hold."""
        self.free += pages
        if self.prefixes is not None:
            self.free -= self.prefixes.leave(i, computed)

    def _pages(self, tokens: int) -> int:
        return -(-tokens // self.page)

    def _decode(self, until: float) -> None:
        """Steps that only decode, to the first end, the first page that is not free, or the first that starts at `until`."""
        self._drop_stale()
        n = min(self.ends[0][0] - self.decoded, self._lasting(), self.seen.lasting(self.decoded))
        if n < 1:
            self._step()
            return
        if n < _FEW:
            t, context, within = self.t, self.context, self.seen.within.copy()
            spent: list[float] = []
            for _ in range(n):
                if spent and t >= until:
                    break
                spent.append(self.law.seconds(self.n_decodes, context, within, ()))
                t += spent[-1]
                context += self.n_decodes
                within = self.seen.grown(within, 1)
            self.t, taken = t, np.array(spent)
        else:
            steps = self.law.decoding(self.n_decodes, self.context, self.seen.within, self.seen.growing, n)
            starts = np.add.accumulate(np.concatenate([[self.t], steps]))  # one after another, as a loop would add them
            taken = steps[: max(1, int(np.searchsorted(starts[:n], until)))]
            self.t = float(starts[len(taken)])
        self._advance(len(taken))
        self._record(taken)
        self._finish()

    def _lasting(self) -> int:
        """Steps for which there are pages."""
        cycles, left = divmod(self.free, self.n_decodes)
        steps = cycles * self.page
        for i in range(self.page):
            left -= self.opening[(self.decoded + i) % self.page]
            if left < 0:
                return steps + i
        return steps + self.page

    def _advance(self, n: int) -> None:
        """Decodes, n steps on: contexts, and the pages they open."""
        cycles, rest = divmod(n, self.page)
        opened = cycles * self.n_decodes + sum(self.opening[(self.decoded + i) % self.page] for i in range(rest))
        if opened:
            self._take(opened)
        self.context += n * self.n_decodes
        self.decoded += n
        self.n_steps += n
        self.seen.advance(self.decoded, n)

    def _record(self, seconds: Floats) -> None:
        self.spent.append(seconds)
        self.advanced.append(self.n_decodes)

    def _step(self) -> None:
        """One step, whatever is in it."""
        if self.n_decodes and self.opening[self.decoded % self.page] > self.free:
            self._preempt()
        n_decodes = self.n_decodes
        if n_decodes and self.opening[self.decoded % self.page]:
            self._take(self.opening[self.decoded % self.page])
        chunks = self._chunks(self.budget - n_decodes)
        read: list[Chunk] = [(x, self.done[i], self.done[i] + x == self.want[i]) for i, x in chunks]
        seconds = self.law.seconds(n_decodes, self.context, self.seen.within, read)
        if self.prefixes is not None:
            seconds += self.prefixes.load_s()
        self.t += seconds
        self.n_steps += 1
        if n_decodes:
            self._record(np.array([seconds]))
            self.context += n_decodes
            self.decoded += 1
            self.seen.advance(self.decoded, 1)
        at_once = [i for i, x in chunks if self._read(i, x)]
        self._finish()
        for i in at_once:
            self._leave(i)

    def _chunks(self, room: int) -> list[tuple[int, int]]:
        """(sequence, tokens of its prompt to read), within what is left of a step; admits those that wait."""
        chunks: list[tuple[int, int]] = []
        for i in self.reading:
            if room < 1:
                return chunks
            chunks.append((i, min(room, self.want[i] - self.done[i])))
            room -= chunks[-1][1]
        while self.waiting and room > 0 and len(self.running) < self.max_seqs:
            i = self.waiting[0]
            pages = self._need(i)
            if pages > self.free:
                break
            if self.prefixes is not None:
                self.done[i] = self.prefixes.admit(i, self.want[i])
            self._take(pages)
            self.running[i], self.reading[i] = self.n_admitted, None
            self.n_admitted += 1
            self.waiting.popleft()
            chunks.append((i, min(room, self.want[i] - self.done[i])))
            room -= chunks[-1][1]
        return chunks

    def _read(self, i: int, tokens: int) -> bool:
        """So many more of its prompt are read; whether that was all that was asked of it."""
        self.done[i] += tokens
        if self.prefixes is not None:
            self.free += self.prefixes.read(i, self.done[i])
        return self.done[i] == self.want[i] and self._begin(i)

    def _begin(self, i: int) -> bool:
        """Its prompt is read: it has a token, and decodes from the next step on, unless that was its last."""
        del self.reading[i]
        said = self.made[i] + 1
        self.made[i], self.began[i] = said, self.decoded
        if self.first_s[i] != self.first_s[i]:
            self.first_s[i] = self.t
        if said == self.outputs[i]:
            return True
        self.n_decodes += 1
        self.context += self.prompts[i] + said
        self.seen.begin(self.prompts[i] + said, self.decoded)
        self.opening[self._opens(i)] += 1
        heappush(self.ends, (self.decoded + self.outputs[i] - said, self.running[i], i))
        return False

    def _opens(self, i: int) -> int:
        """The place in a page of the steps at which it opens one: its context there is one more than whole pages."""
        return (self.began[i] - (self.prompts[i] + self.made[i]) + 1) % self.page

    def _finish(self) -> None:
        """Those that have their last token leave."""
        while self.ends and self.ends[0][0] <= self.decoded:
            _, place, i = heappop(self.ends)
            if self.running.get(i) == place:
                self._stop(i)
                self._leave(i)

    def _drop_stale(self) -> None:
        """A sequence that was preempted leaves its entry in the heap behind."""
        while self.running.get(self.ends[0][2]) != self.ends[0][1]:
            heappop(self.ends)

    def _stop(self, i: int) -> None:
        """It no longer decodes, and has said what it has said."""
        self.opening[self._opens(i)] -= 1
        self.made[i] += self.decoded - self.began[i]
        self.began[i] = self.decoded
        self.n_decodes -= 1
        self.context -= self.prompts[i] + self.made[i]
        self.seen.end(self.prompts[i] + self.made[i], self.decoded)

    def _leave(self, i: int) -> None:
        self.last_s[i] = self.t
        del self.running[i]
        cached = self.prompts[i] + self.made[i] - 1
        self._give(i, self._pages(cached), cached)
        self.coming.answered(i, self.t)

    def _preempt(self) -> None:
        """The last admitted give their pages back until the decodes that are left have theirs, oldest first."""
        place, taken = self.decoded % self.page, 0
        for i in [j for j in self.running if j not in self.reading and self._opens(j) == place]:
            while taken == self.free and i in self.running:
                if self.prefixes is not None:
                    self.prefixes.trim(0)
                self._evict(next(reversed(self.running)))
            taken += i in self.running

    def _evict(self, i: int) -> None:
        """Back to the head of the queue, to read again its prompt and what it has said."""
        if i in self.reading:
            del self.reading[i]
            self._give(i, self._pages(self.want[i]), self.done[i])
        else:
            self._stop(i)
            cached = self.prompts[i] + self.made[i] - 1
            self._give(i, self._pages(cached), cached)
        del self.running[i]
        self.want[i], self.done[i] = self.prompts[i] + self.made[i], 0
        self.waiting.appendleft(i)
        self.n_preemptions += 1
