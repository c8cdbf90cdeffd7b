"""Does it fit: what is held against what an engine leaves for it; the largest batch, the longest context.

Four kinds of bytes, never one: *logical* (the mathematics, each thing once), *resident* (what the fullest chip holds),
*allocated* (what an engine sets aside for it), *streamed* (what a decode pass moves).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import numpy as np

from roofline.answers.caches import longest_whole
from roofline.answers.inputs import memory_tokens_of
from roofline.answers.phases import decode
from roofline.answers.records import as_frame
from roofline.answers.tiers import movable_bytes, one_number
from roofline.errors import SpecError, require, shown
from roofline.num import Num, checked, common_shape, same, whole
from roofline.specs.deployment import Deployment
from roofline.specs.shard import share_of
from roofline.work.footprint import resident_weight_bytes
from roofline.work.kvcache import cache_bytes, recurrent_bytes, token_bytes
from roofline.work.pages import allocated_bytes, kv_tokens, page_pool
from roofline.work.reserve import activation_bytes, kv_budget_bytes
from roofline.work.step import MAX_TOKENS

SIZES = (
    "weight_bytes", "kv_bytes", "state_bytes", "kv_bytes_per_token", "used_bytes", "weight_bytes_per_chip",
    "kv_bytes_per_chip", "state_bytes_per_chip", "kv_bytes_per_token_per_chip", "other_bytes_per_chip",
    "used_bytes_per_chip", "activation_bytes_per_chip", "runtime_bytes_per_chip", "usable_bytes_per_chip",
    "kv_budget_bytes_per_chip", "allocated_kv_bytes_per_chip", "allocated_bytes_per_chip", "capacity_bytes", "fits",
    "short_by_bytes", "kv_tokens",
)  # fmt: skip

__all__ = ["SIZES", "Beside", "Memory", "StageMemory", "memory"]


@dataclass(frozen=True, slots=True)
class Beside:
    """Another model on the same chips, with a cache of its own for the same sequences: one that drafts.

    `n` alike of them [1]; `less_bytes` of its weights are the first model's own [B].
    """

    deployment: Deployment
    n: float = 1.0
    less_bytes: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Memory:
    """What is held against what there is: of the whole deployment, and (`…_per_chip`) on the fullest of its chips.

    logical     `weight_bytes`, `kv_bytes` (a shared prefix once), `state_bytes`: each thing once
    resident    `…_per_chip`: copies (KV heads beyond tp, latents, attention under dp) and parts; what is offloaded is not in
                it; `other_bytes_per_chip` stand beside the model (adapters; a draft model and its cache)
    allocated   `allocated_kv_bytes_per_chip`, in whole pages, of `kv_budget_bytes_per_chip` that the engine leaves after
                weights, `activation_bytes_per_chip` and `runtime_bytes_per_chip` (its context and captured graphs); 0 where
                not even those fit; all of them together may take `usable_bytes_per_chip`
    streamed    `streamed_bytes_per_chip`, of a decode pass at this context

    `fits` where the allocated cache is within the budget of every chip, `short_by_bytes` is what the worst chip lacks.
    `kv_tokens` are those the budget holds, as the engine logs them (of one data-parallel rank). `max_batch` is the most
    sequences of this context on all chips together, `max_context_tokens` the longest context of this batch (never beyond the
    model's own limit); both 0 where the weights alone do not fit. On a grid, sizes have the shape of context and batch
    together, `max_batch` that of the context, `max_context_tokens` that of the batch; `to_frame` broadcasts them.
    """

    weight_bytes: float
    kv_bytes: Num
    state_bytes: Num
    kv_bytes_per_token: float
    weight_bytes_per_chip: float
    kv_bytes_per_chip: Num
    state_bytes_per_chip: Num
    kv_bytes_per_token_per_chip: float
    other_bytes_per_chip: Num
    other_weight_bytes_per_chip: float
    activation_bytes_per_chip: float
    runtime_bytes_per_chip: float
    usable_bytes_per_chip: float
    kv_budget_bytes_per_chip: float
    allocated_kv_bytes_per_chip: Num
    capacity_bytes: float
    fits: Any
    short_by_bytes: Num
    kv_tokens: float
    max_batch: Num
    longest: Callable[[], Num]
    streamed: Callable[[], Num]

    @property
    def used_bytes(self) -> Num:
        """Weights + cache + recurrent state, each once [B]."""
        return self.weight_bytes + self.kv_bytes + self.state_bytes

    @property
    def used_bytes_per_chip(self) -> Num:
        """Weights + cache + recurrent state + what stands beside them, on the fullest chip [B]."""
        held = self.weight_bytes_per_chip + self.kv_bytes_per_chip + self.state_bytes_per_chip
        return held + self.other_bytes_per_chip

    @property
    def allocated_bytes_per_chip(self) -> Num:
        """Weights, activations, runtime, and the cache in whole pages, on the fullest chip; what stands beside, too [B]."""
        held = self.weight_bytes_per_chip + self.other_weight_bytes_per_chip + self.activation_bytes_per_chip
        return held + self.runtime_bytes_per_chip + self.allocated_kv_bytes_per_chip

    @property
    def max_context_tokens(self) -> Num:
        """The longest context of this batch, worked out when asked for [token]."""
        return self.longest()

    @property
    def streamed_bytes_per_chip(self) -> Num:
        """What a decode pass of this batch after this context moves through one chip's memory [B]; 0 of an encoder."""
        return self.streamed()

    def to_dict(self) -> dict[str, Any]:
        """Flat, SI, unit in the key; `max_batch` and `kv_tokens` are none where nothing is kept (an encoder's)."""
        sizes = {name: getattr(self, name) for name in SIZES if name != "kv_tokens"}
        return sizes | {n: whole(getattr(self, n)) for n in ("kv_tokens", "max_batch", "max_context_tokens")}

    def to_frame(self) -> Any:
        """One row a point, as a pandas DataFrame."""
        return as_frame(self.to_dict())


def memory(
    deployment: Deployment, *, context_tokens: Any, batch: Any = 1, memory_tokens: Any = None, shared_tokens: Any = 0,
    other_bytes: float = 0.0, beside: Beside | None = None,
) -> Memory:  # fmt: skip
    """Weights, cache and recurrent state, as the deployment's engine sets them aside, against the chips' memory.

    Parameters
    ----------
    deployment : Deployment
        Its engine gives pages, reserves and its fraction of the memory; "ideal" takes nothing and rounds nothing.
    context_tokens, batch : int or array
        Tokens of each sequence, and sequences [token, 1].
    memory_tokens : int or array, optional
        Tower outputs whose keys and values are kept for cross-attention [token].
    shared_tokens : int or array
        Of the context, those that begin every sequence: their whole pages are held once [token].
    other_bytes : float
        What else every chip holds, such as adapters [B].
    beside : Beside, optional
        Another model on the same chips.

    Notes
    -----
    Assumes that an engine's profiling run is as long as its batch-token budget; of stages, the smallest says `kv_tokens`.

    Examples
    --------
    Llama-3.1-8B in bf16 on an H100: 64 contexts of 8192 are 64 GiB of cache, and 15 GiB of weights leave room for 64; in
    vLLM, which leaves 8 % of the memory alone and its activations room, for 54.

    >>> from roofline.specs.catalog import hardware, model
    >>> d = Deployment(model=model("llama-3.1-8b"), hardware=hardware("h100-sxm-80gb"))
    >>> m = memory(d, context_tokens=8192, batch=64)
    >>> m.fits, m.max_batch
    (True, 64.0)
    >>> v = Deployment(model=d.model, hardware=d.hardware, engine="vllm")
    >>> memory(v, context_tokens=8192, batch=64).max_batch
    54.0
    """
    require(deployment, Deployment, "memory(deployment)")
    context = checked(context_tokens, name="context_tokens", low=0.0, high=MAX_TOKENS)
    n_seq = checked(batch, name="batch", low=1.0, high=MAX_TOKENS)
    shared = _shared(shared_tokens, context)
    other = one_number(other_bytes, name="other_bytes", low=0.0)
    if beside is not None and not isinstance(beside, Beside):
        raise SpecError(f"beside: expected a Beside(deployment), got {shown(beside)}")
    model, numerics = deployment.model, deployment.numerics
    outputs = memory_tokens_of(model, memory_tokens) if model.generates else 0.0
    common_shape(context_tokens=context, batch=n_seq, memory_tokens=outputs, shared_tokens=shared)
    chips = [StageMemory(deployment, stage, outputs, other, beside) for stage in range(deployment.plan.pp)]
    over = [chip.allocated(context, n_seq, shared) - chip.budget_bytes for chip in chips]
    fullest = chips[int(np.argmax([float(np.max(chip.resident(context, n_seq, shared))) for chip in chips]))]
    most = reduce(np.maximum, over)
    state_here = fullest.state(n_seq)
    kept = _distinct(partial(cache_bytes, model, numerics=numerics, memory_tokens=outputs), context, n_seq, shared)
    reading = {"context_tokens": context, "batch": n_seq, "memory_tokens": outputs if model.remembers else None}
    return Memory(
        weight_bytes=resident_weight_bytes(model, numerics=numerics),
        kv_bytes=kept,
        state_bytes=recurrent_bytes(model, n_seq=n_seq, numerics=numerics),
        kv_bytes_per_token=token_bytes(model, numerics=numerics),
        weight_bytes_per_chip=fullest.weight_bytes,
        kv_bytes_per_chip=fullest.held(context, n_seq, shared),
        state_bytes_per_chip=state_here,
        kv_bytes_per_token_per_chip=token_bytes(fullest.share.model, numerics=numerics) / deployment.plan.cp,
        other_bytes_per_chip=fullest.beside_bytes(context, n_seq, shared),
        other_weight_bytes_per_chip=fullest.other,
        activation_bytes_per_chip=fullest.activation_bytes,
        runtime_bytes_per_chip=fullest.runtime_bytes,
        usable_bytes_per_chip=fullest.usable_bytes,
        kv_budget_bytes_per_chip=max(fullest.budget_bytes, 0.0),
        allocated_kv_bytes_per_chip=fullest.allocated(context, n_seq, shared),
        capacity_bytes=deployment.hardware.memory_bytes,
        fits=bool(most <= 0.0) if not isinstance(most, np.ndarray) else np.less_equal(most, 0.0),
        short_by_bytes=same(np.maximum(most, 0.0), most),
        kv_tokens=min(chip.kv_tokens for chip in chips),
        max_batch=_plain(
            reduce(np.minimum, [chip.max_batch(context, shared) for chip in chips]), context + shared + outputs
        ),
        longest=partial(_longest, chips, n_seq, shared, outputs),
        streamed=partial(_streamed, deployment, reading),
    )


def _longest(chips: Sequence[StageMemory], n_seq: Num, shared: Num, outputs: Num) -> Num:
    """The longest context that every chip has room for, at most the model's own."""
    found = longest_whole(
        lambda c: reduce(np.maximum, [chip.allocated(c, n_seq, shared) - chip.budget_bytes for chip in chips]),
        room=0.0,
        limit=float(chips[0].deployment.model.max_context_tokens),
        shape=common_shape(batch=n_seq, shared=shared, memory=outputs),
    )
    return _plain(found, n_seq + shared + outputs)


def _streamed(deployment: Deployment, reading: dict[str, Any]) -> Num:
    return decode(deployment, **reading).hbm_bytes if deployment.model.generates else 0.0


def _shared(given: Any, context: Num) -> Num:
    shared = checked(given, name="shared_tokens", low=0.0, high=MAX_TOKENS)
    if np.any(np.greater(shared, context)):
        raise SpecError(f"shared_tokens: expected at most the context, which they are part of, got {shown(given)}")
    return shared


def _distinct(size: Callable[..., Num], context: Num, n_seq: Num, shared: Num) -> Num:
    """Of B sequences that begin alike, the beginning once: one whole, and B − 1 without what they share."""
    if isinstance(shared, float) and shared == 0.0:
        return size(context_tokens=context, n_seq=n_seq)
    return size(context_tokens=context, n_seq=1.0) + size(context_tokens=context - shared, n_seq=n_seq - 1.0)


class StageMemory:
    """The fullest chip of a stage: what it holds, and what its engine leaves for the cache.

    Attributes
    ----------
    share : Share
    weight_bytes, activation_bytes, runtime_bytes, budget_bytes : float
        Weights in its own memory; live activations of the largest pass; context and graphs; what is left [B].
    """

    def __init__(
        self, deployment: Deployment, stage: int, outputs: Num, other: float = 0.0, beside: Beside | None = None
    ) -> None:
        d, engine, numerics = deployment, deployment.engine, deployment.numerics
        self.deployment, self.engine, self.outputs = d, engine, outputs
        self.share = share_of(d.model, d.plan, stage)
        self.beside = beside
        self.drafts = None if beside is None else StageMemory(beside.deployment, 0, 0.0)
        self.other = other
        if beside is not None and self.drafts is not None:
            self.other += beside.n * (self.drafts.weight_bytes - beside.less_bytes / beside.deployment.n_chips)
        away = 0.0 if d.offload is None or d.offload.what == "kv" else d.offload.fraction
        moved = away * movable_bytes(d, d.offload.what, stage=stage) if d.offload is not None and away else 0.0
        self.weight_bytes: float = resident_weight_bytes(self.share, numerics=numerics) - moved
        chip = d.hardware
        tier, live = d.tier, engine.activations
        self.activation_bytes = 0.0 if tier is None or live is None else float(
            activation_bytes(
                d.model, batch_tokens=float(tier.batch_tokens), numerics=numerics, tp=d.plan.tp,
                n_logits=float(tier.max_seqs) if self.share.is_last else 0.0, logit_bytes=live.logit_bytes,
                element_bytes=live.element_bytes, expert_tokens=float(live.expert_tokens or np.inf),
            )
        )  # fmt: skip
        alike = d.plan.chips_per_stage  # stages pass rows on, which takes no room; collectives do
        self.runtime_bytes = engine.context_bytes(n_chips=alike) + engine.memory.graph_bytes
        fraction = engine.fraction(chip.memory_bytes, chip=chip.id, n_chips=d.n_chips, on_a_mac=chip.vendor == "Apple")
        self.budget_bytes = float(
            kv_budget_bytes(
                engine, total_bytes=d.visible_bytes, weight_bytes=self.weight_bytes + self.other, fraction=fraction,
                activation_bytes=self.activation_bytes, n_chips=alike,
            )
        )  # fmt: skip
        self.in_flight = 0.0 if tier is None else float(tier.batch_tokens)

    @property
    def usable_bytes(self) -> float:
        """What the engine may use of the chip for all of it: weights, activations, runtime and cache [B]."""
        return self.weight_bytes + self.other + self.activation_bytes + self.runtime_bytes + self.budget_bytes

    def resident(self, context: Num, n_seq: Num, shared: Num = 0.0) -> Num:
        """All it holds [B]."""
        kept = self.held(context, n_seq, shared) + self.state(n_seq)
        return self.weight_bytes + kept + self.beside_bytes(context, n_seq, shared)

    def beside_bytes(self, context: Num, n_seq: Num, shared: Num = 0.0) -> Num:
        """What stands beside the model: weights, and the cache of a model that drafts [B]."""
        if self.beside is None or self.drafts is None:
            return self.other
        kept = self.drafts.held(context, n_seq, shared) + self.drafts.state(n_seq)
        return self.other + self.beside.n * kept

    def _here(self, context: Num, n_seq: Num) -> tuple[Num, Num]:
        """⌈context/cp⌉ tokens of each of ⌈B/dp⌉ sequences."""
        plan = self.deployment.plan
        return same(np.ceil(context / plan.cp), context), same(np.ceil(n_seq / plan.dp), n_seq)

    @property
    def _stays(self) -> float:
        """The share of the cache in this chip's own memory."""
        offload = self.deployment.offload
        return 1.0 - offload.fraction if offload is not None and offload.what == "kv" else 1.0

    def held(self, context: Num, n_seq: Num, shared: Num = 0.0) -> Num:
        """The cache of its sequences, recurrent state apart [B]."""
        here, n_here = self._here(context, n_seq)
        size = partial(cache_bytes, self.share.model, numerics=self.deployment.numerics, memory_tokens=self.outputs)
        return self._stays * _distinct(size, here, n_here, shared / self.deployment.plan.cp)

    def state(self, n_seq: Num) -> Num:
        """Their recurrent state [B]."""
        _, n_here = self._here(0.0, n_seq)
        return recurrent_bytes(self.share.model, n_seq=n_here, numerics=self.deployment.numerics)

    def allocated(self, context: Num, n_seq: Num, shared: Num = 0.0) -> Num:
        """Cache and state in the engine's pages, those of a shared beginning once, and those of a model that drafts [B]."""
        here, n_here = self._here(context, n_seq)
        numerics, model = self.deployment.numerics, self.share.model
        paged = allocated_bytes(
            model, context_tokens=here, n_seq=n_here, numerics=numerics, paging=self.engine.pages,
            batch_tokens=self.in_flight, shared_tokens=same(np.minimum(self._alike(shared), here), here, shared),
        )  # fmt: skip
        crossed = cache_bytes(model, context_tokens=0.0, n_seq=n_here, numerics=numerics, memory_tokens=self.outputs)
        mine = paged + crossed
        if self._stays < 1.0:  # a cache goes elsewhere, a recurrent state never
            mine = self._stays * mine + (1.0 - self._stays) * self.state(n_seq)
        if self.beside is None or self.drafts is None:
            return mine
        return mine + self.beside.n * self.drafts.allocated(context, n_seq, shared)

    def _alike(self, shared: Num) -> Num:
        """Tokens on whole pages of a shared beginning, of one chip's part [token]."""
        page = self.engine.pages.tokens
        return same(np.floor(shared / self.deployment.plan.cp / page) * page, shared)

    @property
    def kv_tokens(self) -> float:
        """Tokens that the budget holds, as the engine logs them: of sequences whose parts cp chips hold [token]."""
        pool = page_pool(self.share.model, numerics=self.deployment.numerics, paging=self.engine.pages)
        here = float(kv_tokens(pool, budget_bytes=self.budget_bytes / max(self._stays, 1e-12)))
        return here * self.deployment.plan.cp

    def max_batch(self, context: Num, shared: Num = 0.0) -> Num:
        """Sequences of the deployment for which this chip has room: dp times what it holds itself [1]."""
        plan, tokens = self.deployment.plan, np.maximum(context, 1.0)
        if self._rounds_all_together:
            most: Num = longest_whole(
                lambda n: np.asarray(self.allocated(tokens, n * plan.dp, shared)), room=self.budget_bytes,
                limit=MAX_TOKENS, shape=common_shape(context=context, shared=shared, memory=self.outputs),
            )  # fmt: skip
            return plan.dp * np.where(most >= MAX_TOKENS, np.inf, most)
        first, more = self.allocated(tokens, 1.0), self.allocated(tokens - self._alike(shared) * plan.cp, 1.0)
        holds = np.floor(_ratio(self.budget_bytes - (first - more), more))
        return plan.dp * same(np.maximum(holds, 0.0), context, shared, self.outputs)

    @property
    def _rounds_all_together(self) -> bool:
        """Whether what the engine sets aside is not so much a sequence."""
        paging, windows = self.engine.pages, bool(self.share.model.windows)
        in_all = paging.windows == "pool" or (paging.windows == "window" and paging.in_flight > 0)
        return paging.contiguous or (windows and in_all)


def _ratio(room: Num, one: Num) -> Num:
    """room / one, infinite where a sequence keeps nothing (an encoder's) and the rest fits."""
    rooms, sizes = np.broadcast_arrays(np.asarray(room, dtype=np.float64), np.asarray(one, dtype=np.float64))
    free = np.where(rooms >= 0.0, np.inf, -1.0)
    return same(np.divide(rooms, sizes, out=free, where=sizes > 0.0), room, one)


def _plain(value: Any, given: Num) -> Num:
    return np.asarray(value) if isinstance(given, np.ndarray) else float(value)
