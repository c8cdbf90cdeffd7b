"""The products of a pass as people read them: those of one op together, with the sizes they have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from roofline.evidence.reference.counter import Counter, Product

__all__ = ["Run", "Shape"]


@dataclass(frozen=True, slots=True)
class Shape:
    """The products of one name in a pass: how many, their sizes ("1–4" where they differ), and what all of them took.

    `flops` [FLOP]; `weight_bytes` read for them [B].
    """

    op: str
    name: str
    n_products: int
    left: str
    right: str
    out: str
    flops: int
    weight_bytes: float

    @classmethod
    def of(cls, products: Sequence[Product]) -> Shape:
        """Of products of one name."""
        left, right, out = (_sizes(getattr(p, side) for p in products) for side in ("left", "right", "out"))
        return cls(
            op=products[0].op, name=products[0].name, n_products=len(products), left=left, right=right, out=out,
            flops=sum(p.flops for p in products), weight_bytes=sum(p.weight_bytes for p in products),
        )  # fmt: skip


def _sizes(shapes: Iterable[tuple[int, ...]]) -> str:
    """One shape for all: each size, or the least and the most of it.

    >>> _sizes([(4, 8, 1), (4, 8, 3)])
    '(4, 8, 1–3)'
    """
    spans = [(min(sizes), max(sizes)) for sizes in zip(*shapes, strict=True)]
    return f"({', '.join(str(a) if a == b else f'{a}–{b}' for a, b in spans)})"


@dataclass(frozen=True, slots=True)
class Run:
    """One pass that was run: its name, every product in it, and what it read and wrote of the cache  [B]."""

    name: str
    products: tuple[Product, ...]
    kv_read_bytes: float
    kv_write_bytes: float

    @classmethod
    def of(cls, name: str, counter: Counter) -> Run:
        """As a counter has it."""
        return cls(name, tuple(counter.products), counter.total("kv_read_bytes"), counter.total("kv_write_bytes"))

    def shapes(self) -> tuple[Shape, ...]:
        """Its products, those of one name together, in the order they first come."""
        named: dict[tuple[str, str], list[Product]] = {}
        for product in self.products:
            named.setdefault((product.op, product.name), []).append(product)
        return tuple(Shape.of(products) for products in named.values())
