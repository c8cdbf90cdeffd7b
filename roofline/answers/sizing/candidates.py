"""What a search for a deployment tries: chips × plans × formats × settings of the engine, and what of it cannot be built."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from roofline.answers.estimates import request_s
from roofline.answers.phases import how_of
from roofline.answers.serving.service import replica_of
from roofline.answers.simulate import Replica
from roofline.answers.steps import pass_laws
from roofline.errors import RooflineError
from roofline.specs.deployment import Deployment
from roofline.specs.engine import Engine
from roofline.specs.ffns import Moe
from roofline.specs.hardware import Hardware
from roofline.specs.model import Model
from roofline.specs.plan import Plan
from roofline.timing.laws import PassLaw

__all__ = ["Candidate", "Dropped", "candidates", "usual_plans"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Candidate:
    """A replica that can be built: a deployment, its pass laws, and how many of its settings' replicas go with it."""

    deployment: Deployment
    laws: tuple[PassLaw, ...]
    replica: Replica
    request_s: float

    @property
    def label(self) -> str:
        """Such as "2 × h100-sxm-80gb tp2 fp8/fp8 b2048 s256"."""
        d, r = self.deployment, self.replica
        return f"{d.n_chips} × {d.hardware.id} {plan_label(d.plan)} {formats_of(d)} b{r.batch_tokens} s{r.max_seqs}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """What was not tried further, and why."""

    hardware: str
    plan: str
    formats: str
    why: str


def plan_label(plan: Plan) -> str:
    """Such as "tp4" or "tp2 pp2".

    >>> plan_label(Plan(tp=2, pp=2)), plan_label(Plan())
    ('tp2 pp2', 'tp1')
    """
    ways = [f"{name}{getattr(plan, name)}" for name in ("tp", "pp", "dp", "cp", "ep") if getattr(plan, name) > 1]
    return " ".join(ways) or "tp1"


def formats_of(d: Deployment) -> str:
    """Weights and cache, such as "fp8/bf16"."""
    return f"{d.numerics.weights_name}/{d.numerics.kv.name}"


def usual_plans(model: Model, *, max_chips: int = 8) -> tuple[Plan, ...]:
    """Tensor parallel over 1, 2, 4, 8 chips; of mixtures also with their experts spread, and attention data parallel."""
    sizes = [n for n in (1, 2, 4, 8, 16, 32) if n <= max_chips]
    plans = [Plan(tp=n) for n in sizes]
    if any(isinstance(layer.ffn, Moe) for _, layer in model.layer_kinds()):
        plans += [Plan(dp=n, ep=n) for n in sizes if n > 1]
    return tuple(plans)


def candidates(
    model: Model, hardware: Sequence[Hardware], *, plans: Sequence[Plan], formats: Sequence[tuple[str | None, str | None]],
    engine: Engine, batch_tokens: Sequence[int | None], max_seqs: Sequence[int | None],
) -> Iterator[list[Candidate] | Dropped]:  # fmt: skip
    """For every chip, plan and pair of formats, its settings, or why there are none.

    `formats` are pairs of weights and cache, none for the checkpoint's own; a setting that is none is the engine's own.
    """
    for chip, plan, (weights, kv) in product(hardware, plans, formats):
        try:
            built = Deployment(model=model, hardware=chip, plan=plan, weights=weights, kv=kv, engine=engine)
            laws = pass_laws(built)
            once = request_s(built, how_of(built))
            found = [
                Candidate(deployment=here, laws=laws, replica=replica, request_s=once)
                for b, s in product(batch_tokens, max_seqs)
                for here in (_set(built, b, s),)
                if (replica := replica_of(here, batch_tokens=b, max_seqs=s)) is not None
            ]
            said = "the weights do not fit, or leave no room for a cache"
        except RooflineError as error:
            found, said = [], str(error)
        asked = f"{weights or 'own'}/{kv or 'own'}"
        yield found or Dropped(hardware=chip.id, plan=plan_label(plan), formats=asked, why=said)


def _set(d: Deployment, batch_tokens: int | None, max_seqs: int | None) -> Deployment:
    if batch_tokens is None and max_seqs is None:
        return d
    engine = d.engine.varied(batch_tokens=batch_tokens, max_seqs=max_seqs)
    return Deployment(
        model=d.model, hardware=d.hardware, plan=d.plan, precision=d.precision, engine=engine, efficiency=d.efficiency
    )
