"""The replica of `roofline.answers.simulate` once more: every sequence looked at in every step, and nothing clever."""

from __future__ import annotations

from dataclasses import dataclass

from roofline.answers.simulate import Replica
from roofline.timing.steplaw import StepLaw


@dataclass(eq=False)
class Sequence:
    """A request and what has been done of it."""

    arrival_s: float
    prompt: int
    output: int
    to_read: int
    read: int = 0
    said: int = 0
    pages: int = 0
    first_s: float | None = None
    last_s: float | None = None

    @property
    def context(self) -> int:
        """Tokens there are of it, the one its next step caches among them."""
        return self.prompt + self.said


StepLog = tuple[float, int, int, int, int, int, int, int, int, int, float]
"""start, decodes, their context, prompt tokens, pairs, past, pages used, running, waiting, preemptions so far, seconds."""


def serve(  # noqa: C901 - one loop, to be read from top to bottom
    requests: list[tuple[float, int, int]], law: StepLaw, replica: Replica
) -> tuple[list[Sequence], list[StepLog]]:
    """Every request served, and every step that was taken."""
    coming = [Sequence(at, prompt, output, prompt) for at, prompt, output in requests]
    served, log = list(coming), []
    waiting: list[Sequence] = []
    running: list[Sequence] = []
    free, t, preemptions = replica.n_pages, 0.0, 0

    def pages(tokens: int) -> int:
        return (tokens + replica.page_tokens - 1) // replica.page_tokens

    while coming or waiting or running:
        if not waiting and not running:
            t = max(t, coming[0].arrival_s)
        while coming and coming[0].arrival_s <= t:
            waiting.append(coming.pop(0))

        decoding: list[Sequence] = []
        for one in [s for s in running if s.read == s.to_read]:
            while one in running and pages(one.context) > one.pages:
                if free > 0:
                    free, one.pages = free - 1, one.pages + 1
                    continue
                last = running.pop()
                free, last.pages = free + last.pages, 0
                last.to_read, last.read = last.context, 0
                waiting.insert(0, last)
                preemptions += 1
            if one in running:
                decoding.append(one)

        room = replica.batch_tokens - len(decoding)
        chunks: list[tuple[Sequence, int]] = []
        for one in running:
            if one.read < one.to_read and room > 0:
                chunks.append((one, min(room, one.to_read - one.read)))
                room -= chunks[-1][1]
        while waiting and room > 0 and len(running) < replica.max_seqs and pages(waiting[0].to_read) <= free:
            one = waiting.pop(0)
            one.pages = pages(one.to_read)
            free -= one.pages
            running.append(one)
            chunks.append((one, min(room, one.to_read)))
            room -= chunks[-1][1]

        context = sum(s.context for s in decoding)
        tokens = sum(x for _, x in chunks)
        pairs = sum(sum(s.read + k for k in range(1, x + 1)) for s, x in chunks)
        past = sum(s.read for s, _ in chunks)
        within = [sum(window.seen(s.context) for s in decoding) for window in law.windows]
        seconds = law.seconds(len(decoding), context, within, [(x, s.read, s.read + x == s.to_read) for s, x in chunks])
        used = replica.n_pages - free
        log.append(
            (t, len(decoding), context, tokens, pairs, past, used, len(running), len(waiting), preemptions, seconds)
        )
        t += seconds
        for one in decoding:
            one.said += 1
        for one, x in chunks:
            one.read += x
            if one.read == one.to_read:
                one.said += 1
                one.first_s = t if one.first_s is None else one.first_s
        for one in [s for s in running if s.said == s.output]:
            one.last_s = t
            running.remove(one)
            free, one.pages = free + one.pages, 0
    return served, log
