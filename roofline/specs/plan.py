"""How one replica of a model is laid over chips."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from roofline.errors import PlanError
from roofline.specs.record import Record

__all__ = ["Plan"]

Ways = Annotated[int, Field(ge=1, le=4096)]
Stages = Annotated[tuple[Annotated[int, Field(ge=1, le=100_000)], ...], Field(strict=False)]


class Plan(Record):
    """Parallel ways of one replica, which has tp · pp · dp · cp chips.

    Attributes
    ----------
    tp : int
        Tensor parallel: heads, feed-forward widths and vocabulary are split; two all-reduces a layer.
    pp : int
        Pipeline parallel: consecutive layers stand on different chips.
    ep : int
        Expert parallel: the experts of a layer are spread over this many of the tp · dp chips that hold it; each expert is
        split over the tp · dp / ep that are left. 1 splits every expert over all of them.
    dp : int
        Data-parallel attention inside the replica: each rank serves its own sequences with a copy of attention; experts,
        dense blocks and tables are spread over all tp · dp chips (as SGLang does; `shard` says which).
    cp : int
        Context parallel: the tokens of every sequence, and its cache, are split; the weights are copied.
    stages : tuple of int, optional
        Layers of each pipeline stage; even by default, what is left over going to stages before the last, as vLLM does.
    microbatches : int, optional
        Pieces a batch is cut into so that stages work at the same time; as many as stages, or sequences if those are fewer.
    overlap : float
        Share of the time on links that other work of the pass hides [1]; none by default.
    """

    tp: Ways = 1
    pp: Ways = 1
    ep: Ways = 1
    dp: Ways = 1
    cp: Ways = 1
    stages: Stages | None = None
    microbatches: Ways | None = None
    overlap: Annotated[float, Field(ge=0.0, le=1.0)] = 0.0

    @property
    def n_chips(self) -> int:
        """Chips of one replica."""
        return self.tp * self.pp * self.dp * self.cp

    @property
    def chips_per_stage(self) -> int:
        """Chips that hold the same layers."""
        return self.tp * self.dp * self.cp

    @property
    def n_expert_chips(self) -> int:
        """Chips the experts of one layer are spread over: tp · dp."""
        return self.tp * self.dp

    @model_validator(mode="after")
    def _experts_on_its_own_chips(self) -> Self:
        if self.n_expert_chips % self.ep:
            usable = ", ".join(str(n) for n in _divisors(self.n_expert_chips))
            raise PlanError(f"ep: {self.ep} does not divide tp · dp = {self.n_expert_chips}; use one of {usable}")
        return self

    @model_validator(mode="after")
    def _a_share_for_every_stage(self) -> Self:
        if self.stages is not None and len(self.stages) != self.pp:
            raise PlanError(f"stages: expected {self.pp} of them, one for each of pp, got {len(self.stages)}")
        return self

    def layers_of_stages(self, n_layers: int) -> tuple[int, ...]:
        """Layers of each stage of a model with so many.

        >>> Plan(pp=4).layers_of_stages(61)
        (15, 15, 16, 15)
        """
        if self.stages is not None:
            return self.stages
        each, left = divmod(n_layers, self.pp)
        return tuple(each + (1 if 0 < self.pp - 1 - i <= left else 0) for i in range(self.pp))


def _divisors(n: int) -> list[int]:
    return [i for i in range(1, n + 1) if n % i == 0]
