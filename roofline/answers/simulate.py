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

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from roofline.errors import SpecError, shown
from roofline.specs.workload import first_not_whole
from roofline.timing.steplaw import StepLaw

__all__ = ["Replica", "Served", "simulate"]

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

_FEW = 12  # steps that are sooner taken one by one than as an array


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """What the scheduler of one replica goes by.

    Attributes
    ----------
    kv_tokens : int
        Tokens the cache holds, in whole pages of `page_tokens` [token].
    batch_tokens : int
        Most tokens of a step, decodes among them [token].
    max_seqs : int
        Most sequences that run at once [1].
    max_context_tokens : int or None
        The model's own limit [token].
    """

    kv_tokens: int
    page_tokens: int = 16
    batch_tokens: int = 2048
    max_seqs: int = 256
    max_context_tokens: int | None = None

    def __post_init__(self) -> None:
        for name in ("kv_tokens", "page_tokens", "batch_tokens", "max_seqs"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise SpecError(f"Replica({name}): expected a whole number of at least 1, got {shown(value)}")
        if self.kv_tokens < self.page_tokens:
            raise SpecError(f"Replica(kv_tokens): {self.kv_tokens} tokens are less than a page of {self.page_tokens}")

    @property
    def n_pages(self) -> int:
        """Whole pages of the cache."""
        return self.kv_tokens // self.page_tokens


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
    run = _Run(arrivals.tolist(), prompts.tolist(), outputs.tolist(), law, replica)
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


class _Run:
    """The state of one replica between two steps."""

    def __init__(
        self, arrival_s: list[float], prompts: list[int], outputs: list[int], law: StepLaw, replica: Replica
    ) -> None:
        self.arrival_s, self.prompts, self.outputs = arrival_s, prompts, outputs
        self.law, self.page, self.budget = law, replica.page_tokens, replica.batch_tokens
        self.max_seqs, self.free = replica.max_seqs, replica.n_pages
        n = len(arrival_s)
        self.first_s, self.last_s = [float("nan")] * n, [float("nan")] * n
        self.want, self.done, self.made = list(prompts), [0] * n, [0] * n  # to read, read, said when it began to decode
        self.began = [0] * n  # decode steps taken when it began to decode
        self.running: dict[int, None] = {}  # in order of admission
        self.reading: dict[int, None] = {}  # those of them whose prompt is not read
        self.waiting: deque[int] = deque()
        self.t, self.decoded = 0.0, 0  # now; steps in which decodes advanced
        self.n_decodes, self.context = 0, 0
        self.opening = [0] * self.page  # decodes that open a page at a step, by the step's place in a page
        self.ends: list[tuple[int, int]] = []  # (step, sequence), of which some are out of date
        self.spent: list[Floats] = []
        self.advanced: list[Counts] = []
        self.n_steps = self.n_preemptions = 0

    def serve(self, order: list[int]) -> None:
        """Take steps until every request of the order is served."""
        come = 0
        while come < len(order) or self.running or self.waiting:
            if not self.running and not self.waiting:
                self.t = max(self.t, self.arrival_s[order[come]])
            while come < len(order) and self.arrival_s[order[come]] <= self.t:
                self.waiting.append(order[come])
                come += 1
            if self.reading or (self.waiting and self._admits()):
                self._step()
            else:
                until = float("inf") if self.waiting or come == len(order) else self.arrival_s[order[come]]
                self._decode(until)

    def _admits(self) -> bool:
        """Whether the first that waits is admitted once the decodes have taken their pages."""
        room = self.free - (self.opening[self.decoded % self.page] if self.n_decodes else 0)
        return (
            self._pages(self.want[self.waiting[0]]) <= room
            and len(self.running) < self.max_seqs
            and self.n_decodes < self.budget
        )

    def _pages(self, tokens: int) -> int:
        return -(-tokens // self.page)

    def _decode(self, until: float) -> None:
        """Steps that only decode, to the first end, the first page that is not free, or the first that starts at `until`."""
        self._drop_stale()
        n = min(self.ends[0][0] - self.decoded, self._lasting())
        if n < 1:
            self._step()
            return
        if n < _FEW:
            t, context = self.t, self.context
            spent: list[float] = []
            for _ in range(n):
                if spent and t >= until:
                    break
                spent.append(self.law.seconds(self.n_decodes, context, 0, 0, 0))
                t += spent[-1]
                context += self.n_decodes
            self.t, taken = t, np.array(spent)
        else:
            steps = self.law.decoding(self.n_decodes, self.context, n)
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
        self.free -= opened
        self.context += n * self.n_decodes
        self.decoded += n
        self.n_steps += n

    def _record(self, seconds: Floats) -> None:
        self.spent.append(seconds)
        self.advanced.append(np.full(len(seconds), self.n_decodes))

    def _step(self) -> None:
        """One step, whatever is in it."""
        if self.n_decodes and self.opening[self.decoded % self.page] > self.free:
            self._preempt()
        n_decodes, context = self.n_decodes, self.context
        if n_decodes:
            self.free -= self.opening[self.decoded % self.page]
        chunks = self._chunks(self.budget - n_decodes)
        tokens = pairs = past = 0
        for i, x in chunks:
            tokens += x
            pairs += x * self.done[i] + x * (x + 1) // 2
            past += self.done[i]
        seconds = self.law.seconds(n_decodes, context, tokens, pairs, past)
        self.t += seconds
        self.n_steps += 1
        if n_decodes:
            self._record(np.array([seconds]))
            self.context += n_decodes
            self.decoded += 1
        for i, x in chunks:
            self.done[i] += x
            if self.done[i] == self.want[i]:
                self._begin(i)
        self._finish()

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
            pages = self._pages(self.want[i])
            if pages > self.free:
                break
            self.free -= pages
            self.running[i] = self.reading[i] = None
            self.waiting.popleft()
            chunks.append((i, min(room, self.want[i])))
            room -= chunks[-1][1]
        return chunks

    def _begin(self, i: int) -> None:
        """Its prompt is read: it has a token, and decodes from the next step on."""
        del self.reading[i]
        said = self.made[i] + 1
        self.made[i], self.began[i] = said, self.decoded
        if self.first_s[i] != self.first_s[i]:
            self.first_s[i] = self.t
        if said == self.outputs[i]:
            self._leave(i)
            return
        self.n_decodes += 1
        self.context += self.prompts[i] + said
        self.opening[self._opens(i)] += 1
        heappush(self.ends, (self.decoded + self.outputs[i] - said, i))

    def _opens(self, i: int) -> int:
        """The place in a page of the steps at which it opens one: its context there is one more than whole pages."""
        return (self.began[i] - (self.prompts[i] + self.made[i]) + 1) % self.page

    def _finish(self) -> None:
        """Those that have their last token leave."""
        while self.ends and self.ends[0][0] <= self.decoded:
            end, i = heappop(self.ends)
            if self._is_due(end, i):
                self._stop(i)
                self._leave(i)

    def _is_due(self, end: int, i: int) -> bool:
        """Whether an entry of the heap is of the decodes of now; a preempted sequence leaves its own behind."""
        return i in self.running and i not in self.reading and end == self.began[i] + self.outputs[i] - self.made[i]

    def _drop_stale(self) -> None:
        while not self._is_due(*self.ends[0]):
            heappop(self.ends)

    def _stop(self, i: int) -> None:
        """It no longer decodes, and has said what it has said."""
        self.opening[self._opens(i)] -= 1
        self.made[i] += self.decoded - self.began[i]
        self.began[i] = self.decoded
        self.n_decodes -= 1
        self.context -= self.prompts[i] + self.made[i]

    def _leave(self, i: int) -> None:
        self.last_s[i] = self.t
        del self.running[i]
        self.free += self._pages(self.prompts[i] + self.made[i] - 1)

    def _preempt(self) -> None:
        """The last admitted give their pages back until the decodes that are left have theirs, oldest first."""
        place, taken = self.decoded % self.page, 0
        for i in [j for j in self.running if j not in self.reading and self._opens(j) == place]:
            while taken == self.free and i in self.running:
                self._evict(next(reversed(self.running)))
            taken += i in self.running

    def _evict(self, i: int) -> None:
        """Back to the head of the queue, to read again its prompt and what it has said."""
        if i in self.reading:
            del self.reading[i]
            self.free += self._pages(self.want[i])
        else:
            self._stop(i)
            self.free += self._pages(self.prompts[i] + self.made[i] - 1)
        del self.running[i]
        self.want[i], self.done[i] = self.prompts[i] + self.made[i], 0
        self.waiting.appendleft(i)
        self.n_preemptions += 1
