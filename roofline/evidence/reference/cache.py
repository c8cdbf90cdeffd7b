"""What one layer keeps of one sequence: an entry a token, from the oldest it still needs to the newest."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count
from typing import Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Cache"]

Array: TypeAlias = NDArray[np.float64]

_NUMBER = count()  # every entry that is ever stored has a number of its own, which sequences that share it share


@dataclass(frozen=True, slots=True, eq=False)
class Cache:
    """Entries of the tokens `first`, first + 1, …: `rows` are keys and values, or latents and rotated keys, (n, …) each.

    A cache never changes: it is extended to another, or cut to its tail. So sequences may share a beginning.
    """

    rows: tuple[Array, ...]
    numbers: NDArray[np.int64]
    first: int = 0

    @classmethod
    def empty(cls, *shapes: tuple[int, ...]) -> Self:
        """Of no token; an entry has one part of every shape."""
        return cls(tuple(np.zeros((0, *shape)) for shape in shapes), np.zeros(0, dtype=np.int64))

    @property
    def n_tokens(self) -> int:
        """One past the newest  [token]."""
        return self.first + len(self.numbers)

    @property
    def entry_elements(self) -> int:
        """Elements of one entry  [1]."""
        return sum(row[0].size if len(row) else int(np.prod(row.shape[1:])) for row in self.rows)

    def extended(self, *new: Array) -> Cache:
        """With the entries of further tokens."""
        numbers = np.array([next(_NUMBER) for _ in new[0]], dtype=np.int64)
        rows = tuple(np.concatenate([old, more]) for old, more in zip(self.rows, new, strict=True))
        return replace(self, rows=rows, numbers=np.concatenate([self.numbers, numbers]))

    def tail(self, n_entries: int | None) -> Cache:
        """Only its newest entries; all of them where no number is given."""
        dropped = 0 if n_entries is None else max(len(self.numbers) - n_entries, 0)
        if not dropped:
            return self
        return Cache(tuple(row[dropped:] for row in self.rows), self.numbers[dropped:], self.first + dropped)

    def copied(self) -> Cache:
        """The same entries in memory of their own, to compare with later."""
        return replace(self, rows=tuple(row.copy() for row in self.rows))

    def between(self, low: int, high: int) -> tuple[Array, ...]:
        """The entries of tokens low … high − 1."""
        if low < self.first:
            raise LookupError(f"token {low} was dropped: the oldest kept is {self.first}")
        return tuple(row[low - self.first : high - self.first] for row in self.rows)
