"""A model on a chip: what every question is asked about."""

from __future__ import annotations

from dataclasses import dataclass

from roofline.errors import SpecError, require, shown
from roofline.specs import catalog
from roofline.specs.engine import IDEAL_ENGINE, Engine, Tier
from roofline.specs.fabric import levels
from roofline.specs.hardware import Hardware
from roofline.specs.model import Model
from roofline.specs.offload import Offload, require_host
from roofline.specs.plan import Plan
from roofline.specs.precision import Numerics, Precision, require_units, substitutions
from roofline.specs.record import Record
from roofline.specs.shard import require_plan

__all__ = ["Deployment"]


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Deployment:
    """A model, a chip, a plan, a precision, an engine; what of it lives in another memory, if anything.

    The engine (a name, or a record with its settings changed) says how memory is set aside and prompts are cut. "ideal" is
    the machine itself: all of the memory, prompts in one pass, every ceiling reached. Of any other engine, times are
    estimates: by what was measured of it, or by the `efficiency` given.

    >>> from roofline.specs.catalog import hardware, model
    >>> d = Deployment(model=model("llama-3.1-8b"), hardware=hardware("h100"), weights="fp8", kv="bf16")
    >>> d.precision.weights, d.n_chips
    ('fp8', 1)
    """

    model: Model
    hardware: Hardware
    plan: Plan
    precision: Precision
    engine: Engine
    offload: Offload | None
    efficiency: Record | None

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
        engine: str | Engine = "ideal",
        offload: str | Offload | None = None,
        efficiency: Record | None = None,
    ) -> None:
        """`weights`, `kv`, `activations` and `head` are shorthand for the fields of a `Precision`, and override it."""
        require(model, Model, "Deployment(model=…)")
        require(hardware, Hardware, "Deployment(hardware=…)")
        require(Plan() if plan is None else plan, Plan, "Deployment(plan=…)")
        require(Precision() if precision is None else precision, Precision, "Deployment(precision=…)")
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
        object.__setattr__(self, "engine", _engine(engine))
        object.__setattr__(self, "offload", _offload(offload, model, hardware))
        object.__setattr__(self, "efficiency", _efficiency(efficiency))

    @property
    def n_chips(self) -> int:
        """Chips of one replica."""
        return self.plan.n_chips

    @property
    def numerics(self) -> Numerics:
        """Formats and compute dtypes of the model's tensors."""
        return self.precision.of(self.model)

    @property
    def visible_bytes(self) -> float:
        """What the engine sees of a chip's memory: of a Mac's, which no driver of its own keeps any of, all [B]."""
        chip, engine = self.hardware, self.engine
        visible = chip.memory_bytes if chip.vendor == "Apple" else engine.visible_bytes(chip.memory_bytes)
        if visible <= 0.0:
            raise SpecError(
                f"{engine.id}: memory.driver: expected less than the {chip.memory_bytes / 2**30:,.1f} GiB of {chip.id}, "
                f"got {engine.memory.driver_bytes / 2**30:,.1f} GiB; use a part of it"
            )
        return visible

    @property
    def tier(self) -> Tier | None:
        """The engine's scheduler defaults on this chip; none of an engine that limits nothing."""
        engine = self.engine
        return engine.tier(self.visible_bytes, chip=self.hardware.id) if engine.scheduler else None

    def __repr__(self) -> str:
        n = self.numerics
        formats = f"{n.weights_name} weights, {n.kv.name} KV"
        return f"Deployment({self.model.id} on {self.n_chips} × {self.hardware.id}, {formats}, engine {self.engine.id})"

    def said(self) -> tuple[str, ...]:
        """What this chip does differently from what the formats ask for, in sentences."""
        return substitutions(self.precision, self.model, self.hardware)


def _engine(given: object) -> Engine:
    if isinstance(given, Engine):
        return given
    if isinstance(given, str) and given == "ideal":
        return IDEAL_ENGINE
    if not isinstance(given, str):
        raise SpecError(f"Deployment(engine=…): expected an engine or the name of one, got {shown(given)}")
    return catalog.engine(given)


def _efficiency(given: object) -> Record | None:
    """One of the records of timing, which this floor does not know: who clocks the deployment says whether it is one."""
    if given is None or isinstance(given, Record):
        return given
    raise SpecError(f"Deployment(efficiency=…): expected an Efficiency, got {shown(given)}")


def _offload(given: object, model: Model, chip: Hardware) -> Offload | None:
    found = Offload.parse(given) if isinstance(given, str) else given
    if found is None:
        return None
    if not isinstance(found, Offload):
        raise SpecError(f'Deployment(offload=…): expected an Offload or a text such as "host:0.5", got {shown(given)}')
    if found.what == "experts" and model.n_active_params == model.n_params:
        raise SpecError(f"offload: {model.id} has no experts; use what weights")
    if found.what == "kv" and not model.generates:
        raise SpecError(f"offload: {model.id} is an encoder and keeps no cache; use what weights")
    if found.to == "host":
        require_host(chip)
    if found.compute == "host" and found.bytes_per_s is None:
        raise SpecError("offload: what the host computes reads its memory; say how fast that is, as bandwidth 50 GB/s")
    return found
