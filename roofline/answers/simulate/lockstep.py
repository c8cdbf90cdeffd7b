"""What decodes that advance together see through the windows of the layers."""

from __future__ import annotations

import sys
from heapq import heappop, heappush

from roofline.timing.steplaw import Window

__all__ = ["Seen"]


class Seen:
    """What the decodes see through each window of the layers, and when one of them sees no more, or starts a new chunk."""

    def __init__(self, windows: tuple[Window, ...]) -> None:
        self.windows = windows
        self.within = [0] * len(windows)
        self.growing = [0] * len(windows)
        self.turns: list[dict[int, int]] = [{} for _ in windows]  # decodes whose window is full, by the step from which
        self.next: list[int] = []  # a heap of those steps, of which some are out of date

    def lasting(self, decoded: int) -> int:
        """Steps until the first window fills; more than there ever are where none does."""
        while self.next and not any(turns.get(self.next[0]) for turns in self.turns):
            heappop(self.next)
        return self.next[0] - decoded if self.next else sys.maxsize

    def grown(self, within: list[int], n: int) -> list[int]:
        """What is seen n steps on, where no window fills before."""
        return [w + n * g for w, g in zip(within, self.growing, strict=True)] if within else within

    def advance(self, decoded: int, n: int) -> None:
        """n steps on, to the step `decoded`; where a window fills, that is the last."""
        if not self.windows:
            return
        self.within = self.grown(self.within, n)
        for j, window in enumerate(self.windows):
            full = self.turns[j].pop(decoded, 0)
            if full and window.chunked:
                self.within[j] -= full * window.width
                self._add(j, decoded + window.width, full)
            elif full:
                self.growing[j] -= full

    def begin(self, context: int, decoded: int) -> None:
        """One more decodes, of this context in the next step."""
        for j, window in enumerate(self.windows):
            self.within[j] += window.seen(context)
            if self._grows(window, context):
                self.growing[j] += 1
                self._add(j, self._turn(window, context, decoded), 1)

    def end(self, context: int, decoded: int) -> None:
        """One fewer, of this context in the next step."""
        for j, window in enumerate(self.windows):
            self.within[j] -= window.seen(context)
            if self._grows(window, context):
                self.growing[j] -= 1
                self.turns[j][self._turn(window, context, decoded)] -= 1

    def _grows(self, window: Window, context: int) -> bool:
        return window.chunked or context < window.width

    def _turn(self, window: Window, context: int, decoded: int) -> int:
        """The step at which it sees no more than in the one before: all of the window, or the first of a new chunk."""
        return decoded + window.width - window.seen(context) + window.chunked

    def _add(self, j: int, step: int, n: int) -> None:
        turns = self.turns[j]
        if not turns.get(step):
            heappush(self.next, step)
        turns[step] = turns.get(step, 0) + n
