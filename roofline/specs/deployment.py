"""A model on a chip: what every question is asked about."""

from __future__ import annotations

from dataclasses import dataclass

from roofline.errors import UnknownName, did_you_mean, require, shorten
from roofline.specs.fabric import levels
from roofline.specs.hardware import Hardware
from roofline.specs.model import Model
from roofline.specs.plan import Plan
from roofline.specs.precision import Numerics, Precision, require_units, substitutions
from roofline.specs.shard import require_plan

__all__ = ["ENGINES", "Deployment"]

ENGINES = ("ideal",)
"""Engines whose shortfall from the ideal is known. `ideal` is the machine itself: full efficiency, no overhead."""


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Deployment:
    """A model, a chip, a plan, a precision, an engine.

    >>> from roofline.specs.catalog import hardware, model
    >>> d = Deployment(model=model("llama-3.1-8b"), hardware=hardware("h100"), weights="fp8", kv="bf16")
    >>> d.precision.weights, d.n_chips
    ('fp8', 1)
    """

    model: Model
    hardware: Hardware
    plan: Plan
    precision: Precision
    engine: str

    def __init__(
        self,
        *,
        model: Model,
        hardware: Hardware,
        plan: Plan | None = None,
        precision: Precision | None = None,
        weights: str | None = None,
        kv: str | None = None,
        activations: str | None = None,
        head: str | None = None,
        engine: str = "ideal",
    ) -> None:
        """`weights`, `kv`, `activations` and `head` are shorthand for the fields of a `Precision`, and override it."""
        require(model, Model, "Deployment(model=…)")
        require(hardware, Hardware, "Deployment(hardware=…)")
        require(Plan() if plan is None else plan, Plan, "Deployment(plan=…)")
        require(Precision() if precision is None else precision, Precision, "Deployment(precision=…)")
        if engine not in ENGINES:
            near = did_you_mean(str(engine), ENGINES)
            raise UnknownName(
                f'engine: no engine named "{shorten(str(engine))}"{near}; known so far: {", ".join(ENGINES)}'
            )
        short = {"weights": weights, "kv": kv, "activations": activations, "head": head}
        given = {name: value for name, value in short.items() if value is not None}
        base = precision.model_dump() if precision is not None else {}
        merged = Precision.read(base | given, where="Deployment")
        require_units(merged, model, hardware)
        chosen = Plan() if plan is None else plan
        require_plan(model, chosen)
        levels(chosen.n_chips, hardware)  # raises where no known link joins so many
        object.__setattr__(self, "model", model)
        object.__setattr__(self, "hardware", hardware)
        object.__setattr__(self, "plan", chosen)
        object.__setattr__(self, "precision", merged)
        object.__setattr__(self, "engine", engine)

    @property
    def n_chips(self) -> int:
        """Chips of one replica."""
        return self.plan.n_chips

    @property
    def numerics(self) -> Numerics:
        """Formats and compute dtypes of the model's tensors."""
        return self.precision.of(self.model)

    def __repr__(self) -> str:
        n = self.numerics
        formats = f"{n.weights_name} weights, {n.kv.name} KV"
        return f"Deployment({self.model.id} on {self.n_chips} × {self.hardware.id}, {formats}, engine {self.engine})"

    def said(self) -> tuple[str, ...]:
        """What this chip does differently from what the formats ask for, in sentences."""
        return substitutions(self.precision, self.model, self.hardware)
