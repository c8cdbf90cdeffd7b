"""How a model is laid over chips. So far: one chip holds it all."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from roofline.errors import PlanError
from roofline.specs.record import Record

__all__ = ["Plan"]


class Plan(Record):
    """Parallel ways. `tp` is the tensor-parallel degree; only 1 is counted so far, and anything else is refused."""

    tp: Annotated[int, Field(ge=1, le=4096)] = 1

    @property
    def n_chips(self) -> int:
        """Chips of one replica."""
        return self.tp

    @model_validator(mode="before")
    @classmethod
    def _one_chip(cls, data: dict[str, object]) -> dict[str, object]:
        if isinstance(data, dict) and data.get("tp", 1) != 1:
            raise PlanError(f"Plan(tp={data['tp']}): sharding is not counted yet; use tp=1")
        return data
