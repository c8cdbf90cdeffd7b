"""Where a row stands: in which model, under which name, how often, and whose tokens it multiplies."""

from __future__ import annotations

from dataclasses import dataclass

from roofline.ledger import Linear, OpKind, Row
from roofline.specs.matrix import Matrix
from roofline.specs.precision import Numerics
from roofline.work.matmul import matmul
from roofline.work.sums import Stream, Sum

__all__ = ["Place"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """`d_model` D, the formats, a `prefix` to names, `repeat` layers that do the same, and the `stream` of tokens."""

    d_model: int
    numerics: Numerics
    prefix: str = ""
    repeat: float = 1.0
    stream: Stream = "text"

    @property
    def tokens(self) -> Linear:
        """Tokens that pass here."""
        return Sum("tokens", stream=self.stream).linear

    @property
    def needed(self) -> Linear | None:
        """Whether the pass reads the weights here at all; always, where every token passes (none)."""
        return None if self.stream == "text" else Sum("busy", stream=self.stream).linear

    def product(
        self,
        matrix: Matrix,
        *,
        m: Linear | None = None,
        name: str | None = None,
        n_launch: float = 1.0,
        kind: OpKind = "gemm",
    ) -> Row:
        """A matrix product of all tokens here, or of m rows."""
        return matmul(
            matrix,
            m=self.tokens if m is None else m,
            numerics=self.numerics,
            name=f"{self.prefix}{name or f'{matrix.role}_proj'}",
            repeat=self.repeat,
            n_launch=n_launch,
            kind=kind,
            needed=self.needed,
        )
