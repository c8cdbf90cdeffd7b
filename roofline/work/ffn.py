"""Feed-forward blocks: what each kind multiplies."""

from __future__ import annotations

from collections.abc import Iterator

from roofline.ledger import Row
from roofline.specs.model import Dense
from roofline.specs.precision import Numerics
from roofline.work.matmul import matmul
from roofline.work.step import Sum

__all__ = ["dense"]


def dense(ffn: Dense, *, d_model: int, numerics: Numerics, prefix: str, repeat: float) -> Iterator[Row]:
    """The products of a block every token passes: gate and up in one launch, then down; or up, then down.  [FLOP, B]

        flops = 2 · m · D · F · (3 | 2)

    Assumes the activation function and the gate's product are counted with the layer's elementwise work.

    References: Shazeer 2020, arXiv:2002.05202 (gated blocks).
    """
    for matrix in ffn.matrices(d_model):
        yield matmul(
            matrix,
            m=Sum("tokens").linear,
            numerics=numerics,
            name=f"{prefix}{matrix.role}_proj",
            repeat=repeat,
            n_launch=0.0 if matrix.role == "up" and ffn.gated else 1.0,
        )
