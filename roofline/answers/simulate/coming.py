"""Requests that have not come yet, in the order they will."""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Sequence

__all__ = ["Coming"]


class Coming:
    """Those whose time is known, in order; a request that follows another is among them once that one has its answer.

    Parameters
    ----------
    arrival_s : list of float
        When each comes; of one that follows another, the earliest it may, until its time is known [s].
    after : sequence of int
        The request each follows, −1 for none.
    think_s : sequence of float
        How long after that one's answer it comes [s].
    left_out : sequence of bool
        Those that never come.

    Examples
    --------
    >>> two = Coming([0.0, 0.5], [-1, 0], [0.0, 2.0], [False, False])
    >>> two.by(1.0), two.next_s
    ([0], inf)
    >>> two.answered(0, 3.0)
    >>> two.next_s
    5.0
    """

    def __init__(
        self, arrival_s: list[float], after: Sequence[int], think_s: Sequence[float], left_out: Sequence[bool]
    ) -> None:
        self.arrival_s, self.think_s = arrival_s, think_s
        self.order: list[int] = []
        self.come = 0  # so many of the order have come
        self.followers: dict[int, list[int]] = {}
        for i, (j, never) in enumerate(zip(after, left_out, strict=True)):
            if j < 0 and not never:
                self.order.append(i)
            elif not never:
                self.followers.setdefault(j, []).append(i)
        self.next_s = self._next_s()  # when the next comes; infinite where none is known to come

    def _next_s(self) -> float:
        return self.arrival_s[self.order[self.come]] if self.come < len(self.order) else math.inf

    def by(self, t: float) -> list[int]:
        """Those that have come by now and had not before."""
        first = self.come
        while self.next_s <= t:
            self.come += 1
            self.next_s = self._next_s()
        return self.order[first : self.come]

    def answered(self, i: int, t: float) -> None:
        """It has its last token: when those that follow it come is known. Of two at one time, the one given first."""
        for j in self.followers.get(i, ()):
            self.arrival_s[j] = max(self.arrival_s[j], t + self.think_s[j])
            insort(self.order, j, lo=self.come, key=lambda k: (self.arrival_s[k], k))
            self.next_s = self._next_s()

    def add(self, i: int) -> None:
        """One more that comes, after all that are known to."""
        self.order.append(i)
        self.next_s = self._next_s()
