"""Who guesses tokens: a small model, the target's own prediction module, or the prompt; and what it holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from roofline.answers.memory import Beside
from roofline.errors import SpecError, Unsupported, require, shown
from roofline.num import checked
from roofline.specs.deployment import Deployment
from roofline.specs.layers import Group
from roofline.specs.model import Model
from roofline.specs.towers import Product
from roofline.work.matmul import weight_bytes

__all__ = ["Drafter", "DrafterKind", "Drafting", "beside", "draft_of"]

DrafterKind: TypeAlias = Literal["draft_model", "mtp", "ngram"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafter:
    """Who guesses the tokens; the kinds are spelled as vLLM's `method`.

        draft_model   k decode passes of `deployment`, on the target's chips; it has weights and a cache of its own
        mtp           k passes of the target's prediction module: (2·D, D), one layer, the head; each module has a cache
        ngram         nothing: drafts are looked up in the prompt

    >>> from roofline.specs.catalog import hardware, model
    >>> Drafter(kind="draft_model", deployment=Deployment(model=model("llama-3.2-1b"), hardware=hardware("h200")))
    Drafter(kind='draft_model', deployment=Deployment(llama-3.2-1b on 1 × h200-sxm-141gb, ...))
    """

    kind: DrafterKind
    deployment: Deployment | None = None

    def __post_init__(self) -> None:
        """A draft model comes with its deployment, the others without one."""
        if not isinstance(self.kind, str) or self.kind not in get_args(DrafterKind):
            raise SpecError(f'drafter: expected kind "draft_model", "mtp" or "ngram", got {shown(self.kind)}')
        if self.kind == "draft_model":
            require(self.deployment, Deployment, 'Drafter(kind="draft_model", deployment=…)')
        elif self.deployment is not None:
            raise SpecError(f"drafter: {self.kind} has no deployment of its own; leave it out, or use draft_model")
        if self.deployment is not None and not self.deployment.model.generates:
            raise SpecError(f"drafter: {self.deployment.model.id} is an encoder: it gives no tokens; use a decoder")


def draft_of(drafter: Drafter, target: Deployment) -> Deployment | None:
    """What makes a draft for a target, as a deployment of its own; none where nothing runs. A module stands on one stage."""
    if drafter.kind == "mtp":
        plan = target.plan.model_copy(update={"pp": 1, "stages": None, "microbatches": None})
        module, precision = _module_of(target.model), target.precision
        return Deployment(model=module, hardware=target.hardware, plan=plan, precision=precision, engine=target.engine)
    draft = drafter.deployment
    if draft is not None and (draft.hardware != target.hardware or draft.n_chips > target.n_chips):
        here, there = (f"{d.n_chips} × {d.hardware.id}" for d in (target, draft))
        raise SpecError(f"drafter: expected {draft.model.id} on chips of the target's {here}, got {there}")
    return draft


def _module_of(model: Model) -> Model:
    """A prediction module as a model: hidden state and embedding joined by (2·D, D), a layer, a norm, the head."""
    if (mtp := model.mtp) is None:
        raise Unsupported(
            f"drafter: {model.id}, as described here, has no mtp (multi-token prediction) module; use draft_model or "
            "ngram, or a model that has one, such as deepseek-v3"
        )
    norms = max(mtp.n_norms - 1, 0) * model.norm.n_params(model.d_model)  # before the join; the last is the final one
    changes: dict[str, Any] = {
        "id": f"{model.id}-mtp",
        "layers": (Group(layers=(mtp.layer,)),),
        "readout": (Product(name="mtp_join", d_in=2 * model.d_model, d_out=model.d_model),),
        "formats": model.formats | {"mtp_join": model.dtype},  # quantisers leave it alone
        "final_norm": mtp.n_norms > 0,
        "vectors": {"mtp_norms": norms},
    }
    return model.model_copy(update=changes | {"side_embedding": None, "towers": (), "mtp": None})


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafting:
    """How a request is decoded with drafts: who makes them, k of them a round, and how likely each is accepted [1].

    The acceptance depends on drafter and text, so it is never guessed.

    >>> Drafting(drafter=Drafter(kind="ngram"), n_drafts=4, acceptance=0.5).n_drafts
    4
    """

    drafter: Drafter
    n_drafts: int
    acceptance: float

    def __post_init__(self) -> None:
        """A whole number of drafts, and a chance."""
        if not isinstance(self.drafter, Drafter):
            raise SpecError(f'drafter: expected a Drafter, such as Drafter(kind="ngram"), got {shown(self.drafter)}')
        checked(self.acceptance, name="acceptance", low=0.0, high=1.0)
        drafts = checked(self.n_drafts, name="n_drafts", low=0.0, high=256.0)
        if not isinstance(drafts, float) or drafts != int(drafts):
            raise SpecError(f"n_drafts: expected one whole number, got {shown(self.n_drafts)}")


def beside(drafter: Drafter, target: Deployment) -> Beside | None:
    """What a drafter holds on the chips of its target, as `memory` takes it; none where it looks drafts up."""
    draft = draft_of(drafter, target)
    if draft is None:
        return None
    mtp = target.model.mtp if drafter.kind == "mtp" else None
    if mtp is None:
        return Beside(draft)
    model, numerics = draft.model, draft.numerics
    tied = model.head is not None and model.head.tied
    tables = (model.head_matrix,) if tied else (model.head_matrix, model.embedding_matrix)
    shared = 0.0 if mtp.own_tables else sum(weight_bytes(table, numerics=numerics) for table in tables)
    return Beside(draft, n=float(mtp.n_modules), less_bytes=shared)
