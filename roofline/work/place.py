"""Where a row stands: in which model, under which name, how often, and whose tokens it multiplies."""

from __future__ import annotations

from dataclasses import dataclass, replace

from roofline.ledger import Linear, OpKind, Row
from roofline.specs.matrix import Matrix
from roofline.specs.plan import Plan
from roofline.specs.precision import Numerics
from roofline.work.matmul import matmul
from roofline.work.sums import Stream, Sum

__all__ = ["ONE_CHIP", "Place"]


ONE_CHIP = Plan.model_construct()


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """`d_model` D, the formats, a `prefix` to names, `repeat` layers that do the same, the `stream` of tokens, and the
    `plan` that splits what stands here."""

    d_model: int
    numerics: Numerics
    prefix: str = ""
    repeat: float = 1.0
    stream: Stream = "text"
    plan: Plan = ONE_CHIP

    @property
    def ways(self) -> int:
        """Chips over which the tokens of a sequence are split; a tower's are not."""
        return self.plan.cp if self.stream != "inputs" else 1

    @property
    def tokens(self) -> Linear:
        """Tokens that pass here."""
        return Sum("tokens", stream=self.stream, ways=self.ways).linear

    @property
    def needed(self) -> Linear | None:
        """Whether the pass reads the weights here at all; always, where every token passes (none)."""
        return None if self.stream in ("text", "replica") else Sum("busy", stream=self.stream).linear

    @property
    def of_all_ranks(self) -> Place:
        """The same place, for the tokens of all data-parallel ranks together."""
        return replace(self, stream="replica") if self.plan.dp != 1 and self.stream == "text" else self

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
