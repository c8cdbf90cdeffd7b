"""Arithmetic that is counted while it is done: products, weights read, cache entries read and written.

Nothing here knows what a pass should cost; it adds up what one did.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from roofline.evidence.reference.cache import Cache

__all__ = ["Array", "Counter", "Product", "Weight", "Work"]

Array: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Weight:
    """A stored tensor and what one element of it takes in its format  [B]; a bias beside it has a format of its own."""

    values: Array
    element_bytes: float
    bias: Array | None = None
    bias_bytes: float = 0.0

    @property
    def n_params(self) -> int:
        """Elements, bias included  [1]."""
        return self.values.size + (0 if self.bias is None else self.bias.size)

    @property
    def n_bytes(self) -> float:
        """All of it  [B]."""
        return self.values.size * self.element_bytes + (0 if self.bias is None else self.bias.size) * self.bias_bytes


@dataclass(frozen=True, slots=True)
class Product:
    """One matrix product that was performed, (…, m, k) × (…, k, n), and what of weights was read for it  [B]."""

    op: str
    name: str
    left: tuple[int, ...]
    right: tuple[int, ...]
    weight_bytes: float = 0.0

    @property
    def out(self) -> tuple[int, ...]:
        """(…, m, n)."""
        return (*self.left[:-1], self.right[-1])

    @property
    def flops(self) -> int:
        """2 · m · k · n, of each of those side by side: a multiply-add is two  [FLOP]."""
        return 2 * math.prod(self.left) * self.right[-1]


@dataclass(slots=True)
class Work:
    """What one op of a pass did, over all layers: fields as in the ledger's `Op`  [FLOP, B]."""

    flops: int = 0
    weight_bytes: float = 0.0
    kv_read_bytes: float = 0.0
    kv_read_bytes_min: float = 0.0
    kv_write_bytes: float = 0.0


class Counter:
    """What a pass did, by op. `place` is the layer it is in, `prefix` what it puts before names (a tower's)."""

    def __init__(self, *, kv_element_bytes: float) -> None:
        self.work: dict[str, Work] = defaultdict(Work)
        self.products: list[Product] = []
        self.place, self.prefix = "", ""
        self._kv_element_bytes = kv_element_bytes
        self._read: set[int] = set()
        self._entries: set[tuple[str, int]] = set()
        self._inner: dict[tuple[str, str, str], int] = {}

    def matmul(self, op: str, a: Array, b: Array, *, name: str = "", of: Weight | None = None) -> Array:
        """a · b, counted; of stacks, one product each. `of`: the weight that b is, or is a part of."""
        out: Array = a @ b
        op = self.prefix + op
        product = Product(op, name or op, a.shape, b.shape, 0.0 if of is None else self._first_read(op, of))
        self.products.append(product)
        self.work[op].flops += product.flops
        step = (self.place, op, product.name)
        self._inner[step] = max(self._inner.get(step, 0), a.shape[-1])
        return out

    def linear(self, op: str, x: Array, weight: Weight) -> Array:
        """x · W (+ b)."""
        out = self.matmul(op, x, weight.values, of=weight)
        return out if weight.bias is None else out + weight.bias

    def vector(self, op: str, weight: Weight) -> Array:
        """A scale, a bias, a sink that is used."""
        self._first_read(self.prefix + op, weight)
        return weight.values

    def _first_read(self, op: str, weight: Weight) -> float:
        """A tensor is read once a pass, however often it is used  [B]."""
        if id(weight) in self._read:
            return 0.0
        self._read.add(id(weight))
        self.work[op].weight_bytes += weight.n_bytes
        return weight.n_bytes

    def rows(self, op: str, table: Weight, ids: NDArray[np.int64]) -> Array:
        """Rows of a table, looked up one by one."""
        found: Array = table.values[ids]
        self.work[self.prefix + op].weight_bytes += found.size * table.element_bytes
        return found

    def kv_read(self, op: str, cache: Cache, wanted: NDArray[np.bool_], *, stored: bool = True) -> None:
        """Entries of a cache that some query wants; at least, each once for all that share it, if it was stored before."""
        work = self.work[self.prefix + op]
        work.kv_read_bytes += self._bytes_of(cache, int(np.count_nonzero(wanted)))
        fresh = {(self.place, int(n)) for n in cache.numbers[wanted]} - self._entries if stored else set()
        self._entries |= fresh
        work.kv_read_bytes_min += self._bytes_of(cache, len(fresh))

    def kv_write(self, op: str, cache: Cache, n_entries: int) -> None:
        """The last entries of a cache, stored."""
        self.work[self.prefix + op].kv_write_bytes += self._bytes_of(cache, n_entries)

    def _bytes_of(self, cache: Cache, n_entries: int) -> float:
        return n_entries * cache.entry_elements * self._kv_element_bytes

    def total(self, quantity: str) -> float:
        """Σ over ops of the quantity of that name."""
        return math.fsum(getattr(work, quantity) for work in self.work.values())

    @property
    def chain(self) -> int:
        """Σ of the inner lengths of the products that one number passes in turn: what may be rounded on its way  [1]."""
        return sum(self._inner.values())
