"""What one chip of a plan holds: the busiest chip's share of a model is itself a model, of fewer heads and narrower blocks.

| part                                    | split by tp into                                                               |
|-----------------------------------------|--------------------------------------------------------------------------------|
| heads of queries, recurrent heads       | N/tp: must divide                                                              |
| heads of keys and values, state groups  | max(K/tp, 1): copied once tp exceeds them; must divide either way              |
| the latent of MLA, index keys           | copied: one vector a token serves all heads                                    |
| dense and shared feed-forward widths    | F/(tp·dp) where that divides, else F/tp, copied for each rank: tp must divide  |
| experts                                 | ⌈E/ep⌉ experts, each F·ep/(tp·dp) wide: must divide                            |
| vocabulary                              | ⌈V/(tp·dp)⌉ rows of embedding and head                                         |
| norms, routers, low-rank bottlenecks    | copied                                                                         |
| vision and audio towers                 | as above where everything divides, else copied whole                           |

dp is data-parallel attention: ranks keep sequences, and so caches and attention weights, to themselves, and share all else
(as SGLang's `--enable-dp-attention` does; vLLM's data parallel ranks copy dense and shared blocks and tables). Blocks that
only some tokens pass (an engine may skip them, or they wait for a tower) are copied for each rank.

Pipeline stages take consecutive layers. The first holds the embedding and the towers, the last the head.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, groupby
from typing import Any

from roofline.errors import PlanError
from roofline.specs.ffns import Dense, Moe
from roofline.specs.layers import Group, Layer
from roofline.specs.matrix import Matrix
from roofline.specs.mixers import Attention, LinearMixer, Pair
from roofline.specs.model import Model
from roofline.specs.plan import Plan
from roofline.specs.towers import Tower

__all__ = ["DenseShare", "ExpertShare", "Share", "require_plan", "share_of"]


SPLIT: dict[str, tuple[tuple[str, str, bool], ...]] = {
    "attention": (("n_heads", "query heads", False), ("n_kv_heads", "KV heads", True)),
    "cross_attention": (("n_heads", "cross-attention heads", False), ("n_kv_heads", "cross-attention KV heads", True)),
    "latent": (("n_heads", "heads", False),),
    "compressed": (("n_heads", "heads", False), ("n_out_groups", "groups of outputs", False)),
    "mamba": (("d_inner", "inner channels", False),),
    "mamba2": (("n_heads", "state heads", False), ("n_groups", "state groups", True)),
    "delta": (("n_key_heads", "key heads", False), ("n_value_heads", "value heads", False)),
    "linear_attention": (("n_heads", "heads", False),),
    "short_conv": (("d_inner", "inner channels", False),),
    "rglru": (("d_inner", "inner channels", False), ("n_blocks", "blocks of channels", False)),
    "dense": (("d_ff", "feed-forward channels", False),),
}
"""What tp splits of each kind: the field, its name in words, and whether it is copied once tp exceeds it."""


class DenseShare(Dense):
    """A slice of a block that every token of `n_feeding` ranks passes."""

    n_feeding: int = 1


class ExpertShare(Moe):
    """The experts of one layer as one chip holds them: ⌈E/ep⌉ of E, for the tokens of `n_feeding` ranks.

    `n_sharing` ranks share its slice of the block that every token passes; 1 where each has a copy, or there is none.
    """

    n_ranks: int = 1
    n_feeding: int = 1
    n_widths: int = 1
    n_sharing: int = 1

    @property
    def n_held(self) -> int:
        """⌈E/ep⌉."""
        return -(-self.n_experts // self.n_ranks)

    def routed_matrices(self, d_model: int) -> tuple[Matrix, ...]:
        """Those held here."""
        whole = super().routed_matrices(d_model)
        return tuple(Matrix(m.role, m.d_in, m.d_out, m.bias, n=self.n_held) for m in whole)


@dataclass(frozen=True, slots=True)
class Share:
    """The busiest chip of one pipeline stage: its `model`, of the `whole` one, and where the stage stands."""

    model: Model
    whole: Model
    plan: Plan
    stage: int

    @property
    def is_first(self) -> bool:
        """Whether it looks tokens up, and runs the towers."""
        return self.stage == 0

    @property
    def is_last(self) -> bool:
        """Whether it makes logits."""
        return self.stage == self.plan.pp - 1

    @property
    def splits_tower(self) -> bool:
        """Whether the tower that runs is split too, not copied."""
        return self.model.towers[:1] != self.whole.towers[:1]


@lru_cache(maxsize=512)
def share_of(model: Model, plan: Plan, stage: int = 0) -> Share:
    """What the busiest chip of a stage holds.

    >>> from roofline.specs.catalog import model
    >>> at_16 = share_of(model("llama-3-70b"), Plan(tp=16)).model.layers[0].layers[0]
    >>> at_16.mixer.n_heads, at_16.mixer.n_kv_heads, at_16.ffn.d_ff
    (4, 1, 1792)
    """
    if not 0 <= stage < plan.pp:
        raise PlanError(f"stage: expected 0 to {plan.pp - 1} of pp={plan.pp}, got {stage}")
    require_plan(model, plan)
    if plan.n_chips == 1:
        return Share(model, model, plan, 0)
    rows, is_last = model.embedding.vocab_size, stage == plan.pp - 1
    table = {
        "vocab_size": None if rows is None else -(-rows // plan.n_expert_chips),
        "norm": model.embedding.norm and stage == 0,
    }
    split: dict[str, Any] = {
        "layers": _groups(_sharded(layer, plan) for layer in _layers_of(model, plan, stage)),
        "vocab_size": -(-model.vocab_size // plan.n_expert_chips),
        "embedding": model.embedding.model_copy(update=table),
        "final_norm": model.final_norm and is_last,
        "vectors": model.vectors if is_last else {},
        "towers": tuple(_tower(tower, plan) for tower in model.towers),
    }
    if (side := model.side_embedding) is not None:
        split["side_embedding"] = side.model_copy(update={"vocab_size": -(-side.vocab_size // plan.n_expert_chips)})
    return Share(model.model_copy(update=split), model, plan, stage)


def _layers_of(model: Model, plan: Plan, stage: int) -> Iterator[Layer]:
    """The layers of a stage, in order."""
    ends = [0, *accumulate(plan.layers_of_stages(model.n_layers))]
    layers = [layer for group in model.layers for _ in range(group.repeat) for layer in group.layers]
    yield from layers[ends[stage] : ends[stage + 1]]


def _groups(layers: Iterable[Layer]) -> tuple[Group, ...]:
    """Runs of equal layers as groups; none at all where a stage has no layer."""
    return tuple(Group.model_construct(repeat=len(list(run)), layers=(layer,)) for layer, run in groupby(layers))


def _sharded(layer: Layer, plan: Plan) -> Layer:
    parts = {name: _part(getattr(layer, name), plan) for name in ("mixer", "cross")}
    earlier = any(isinstance(mixer, Attention) and mixer.values == "earlier" for mixer in layer.mixers)
    n_feeding = 1 if layer.only_with_memory or earlier else plan.dp
    return layer.model_copy(update=parts | {"ffn": _block(layer.ffn, plan, n_feeding)})


def _block(ffn: Any, plan: Plan, n_feeding: int) -> Any:
    """One chip's share of a feed-forward block, of which `n_feeding` ranks share what every token passes."""
    match ffn:
        case Moe():
            return _experts(ffn, plan, n_feeding)
        case Dense() if n_feeding != 1 and ffn.d_ff % (plan.tp * n_feeding) == 0:
            fields = {name: getattr(ffn, name) for name in Dense.model_fields}
            width = ffn.d_ff // (plan.tp * n_feeding)
            return DenseShare.model_construct(**fields | {"d_ff": width}, n_feeding=n_feeding)
        case _:
            return _part(ffn, plan)


def _part(part: Any, plan: Plan) -> Any:
    """One chip's share of a mixer or a feed-forward block."""
    match part:
        case None | LinearMixer():
            return part
        case Pair():
            return part.model_copy(
                update={name: _part(getattr(part, name), plan) for name in ("attention", "recurrent")}
            )
        case _:
            return part.model_copy(
                update={field: max(getattr(part, field) // plan.tp, 1) for field, _, _ in SPLIT[part.kind]}
            )


def _experts(x: Moe, plan: Plan, n_feeding: int) -> ExpertShare:
    n_widths, shared = plan.n_expert_chips // plan.ep, x.d_shared
    n_sharing = n_feeding if shared is not None and shared % (plan.tp * n_feeding) == 0 else 1
    fields = {name: getattr(x, name) for name in Moe.model_fields}
    fields |= {"d_ff": x.d_ff // n_widths, "d_shared": None if shared is None else shared // (plan.tp * n_sharing)}
    return ExpertShare.model_construct(
        **fields, n_ranks=plan.ep, n_feeding=plan.dp, n_widths=n_widths, n_sharing=n_sharing
    )


def _tower(tower: Tower, plan: Plan) -> Tower:
    """A tower's share: split where everything in it divides (a text encoder must), else a copy."""
    if tower.kind != "text" and any(True for _, layer in tower.layer_kinds() for _ in _misfits(layer, plan)):
        return tower
    alone = plan.model_copy(update={"dp": 1, "ep": 1})  # every rank runs the tower of its own sequences
    layers = tuple(
        group.model_copy(update={"layers": tuple(_sharded(layer, alone) for layer in group.layers)})
        for group in tower.layers
    )
    return tower.model_copy(update={"layers": layers})


def require_plan(model: Model, plan: Plan) -> None:
    """Raise unless the plan suits the model: everything divides, every stage has layers, experts suffice."""
    stacks = [model.layer_kinds(), *(t.layer_kinds() for t in model.towers if t.kind == "text")]
    layers = [layer for stack in stacks for _, layer in stack]
    for field, limit in (("tp", 4096), ("ep", plan.n_expert_chips)):
        problem = next((p for layer in layers for p in _misfits(layer, plan, field)), None)
        if problem is not None:
            usable = [n for n in range(1, limit + 1) if _suits(layers, plan, field, n)]
            raise PlanError(f"{field}={getattr(plan, field)}: {model.id} has {problem}; {_offer(field, usable)}")
    if plan.pp > model.n_layers:
        raise PlanError(f"pp={plan.pp}: {model.id} has {model.n_layers} layers; use at most {model.n_layers}")
    if plan.stages is not None and sum(plan.stages) != model.n_layers:
        raise PlanError(
            f"stages: expected numbers that add up to the {model.n_layers} layers of {model.id}, got {sum(plan.stages)}"
        )
    if plan.ep > 1 and not any(isinstance(layer.ffn, Moe) for layer in layers):
        raise PlanError(f"ep={plan.ep}: {model.id} has no experts to spread; use ep=1")
    if plan.pp > 1 and model.remembers:
        raise PlanError(f"pp={plan.pp}: {model.id} attends to what an encoder read, on the first stage; use pp=1")
    _require_splittable_tokens(model, plan)


def _require_splittable_tokens(model: Model, plan: Plan) -> None:
    mixers = [m for _, layer in model.layer_kinds() for m in layer.mixers]
    kinds = sorted({m.kind for m in mixers if not isinstance(m, (Attention, LinearMixer))})
    if plan.cp > 1 and (kinds or model.towers or not model.generates):
        what = f"layers of kind {', '.join(kinds)}" if kinds else "a tower" if model.towers else "no cache"
        raise PlanError(f"cp={plan.cp}: {model.id} has {what}; tokens are split for plain decoders only; use cp=1")


def _offer(field: str, usable: list[int]) -> str:
    return f"use {field} {', '.join(map(str, usable[:24]))}" if usable else f"no {field} works here"


def _suits(layers: list[Layer], plan: Plan, field: str, n: int) -> bool:
    """Whether another value of the field would do; experts are then split over what is left as the plan says."""
    if field == "ep" and plan.n_expert_chips % n:
        return False
    update = {field: n, "ep": plan.ep if field == "ep" or (n * plan.dp) % plan.ep == 0 else 1}
    changed = plan.model_copy(update=update | {field: n})
    return not any(p for layer in layers for p in _misfits(layer, changed, field))


def _misfits(layer: Layer, plan: Plan, field: str = "tp") -> Iterator[str]:
    """What of a layer a plan does not divide, as phrases."""
    if field == "ep":
        yield from _misfit_experts(layer, plan)
        return
    for name, n, copied in _divided(layer):
        if n % plan.tp and not (copied and plan.tp % n == 0):
            yield f"{n:,} {name}, which {plan.tp} does not divide"


def _misfit_experts(layer: Layer, plan: Plan) -> Iterator[str]:
    if isinstance(layer.ffn, Moe):
        n_widths = plan.n_expert_chips // plan.ep
        if layer.ffn.n_experts < plan.ep:
            yield f"{layer.ffn.n_experts} experts, fewer than {plan.ep}"
        elif layer.ffn.d_ff % n_widths:
            yield f"experts {layer.ffn.d_ff:,} wide, which tp · dp / ep = {n_widths} does not divide"


def _divided(layer: Layer) -> Iterator[tuple[str, int, bool]]:
    """(what, how many, whether it may be copied instead) of everything that tp splits."""
    for part in (*layer.mixers, layer.cross, layer.ffn):
        if isinstance(part, Moe):
            if part.d_shared is not None:
                yield "channels of the shared expert", part.d_shared, False
        elif part is not None and not isinstance(part, LinearMixer):
            yield from ((words, getattr(part, field), copied) for field, words, copied in SPLIT[part.kind])
