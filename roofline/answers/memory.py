"""Does it fit: weights and cache against capacity; the largest batch, the longest context. A first answer.

What an engine sets aside besides (pages, graphs, activations, its fraction of the memory) is not in it yet.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import numpy as np

from roofline.answers.inputs import memory_tokens_of
from roofline.errors import require
from roofline.num import Num, checked, common_shape, same, whole
from roofline.specs.deployment import Deployment
from roofline.specs.model import Model
from roofline.specs.precision import Precision
from roofline.specs.shard import share_of
from roofline.work.footprint import resident_weight_bytes
from roofline.work.kvcache import CachePolicy, cache_bytes, recurrent_bytes, token_bytes
from roofline.work.step import MAX_TOKENS

_SIZES = (
    "weight_bytes", "kv_bytes", "state_bytes", "kv_bytes_per_token", "used_bytes", "weight_bytes_per_chip",
    "kv_bytes_per_chip", "state_bytes_per_chip", "kv_bytes_per_token_per_chip", "used_bytes_per_chip", "capacity_bytes",
    "fits", "short_by_bytes",
)  # fmt: skip

__all__ = ["Memory", "kv_bytes", "max_context_tokens", "memory", "state_bytes"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Memory:
    """What is held against what there is: of the whole deployment, and (`…_per_chip`) on the fullest of its chips.

    `weight_bytes`, `kv_bytes` and `state_bytes` are the logical sizes, each thing once; a chip may hold copies (KV heads
    beyond tp, latents, attention under dp) or a part. `short_by_bytes` is what the fullest chip lacks, 0 where it fits.
    `max_batch` is the most sequences of this context on all chips together, `max_context_tokens` the longest context of this
    batch (never beyond the model's own limit); both 0 where the weights alone do not fit. On a grid, sizes have the shape of
    context and batch together, `max_batch` that of the context, `max_context_tokens` that of the batch; `to_frame`
    broadcasts them.
    """

    weight_bytes: float
    kv_bytes: Num
    state_bytes: Num
    kv_bytes_per_token: float
    weight_bytes_per_chip: float
    kv_bytes_per_chip: Num
    state_bytes_per_chip: Num
    kv_bytes_per_token_per_chip: float
    capacity_bytes: float
    fits: Any
    short_by_bytes: Num
    max_batch: Num
    max_context_tokens: Num

    @property
    def used_bytes(self) -> Num:
        """Weights + cache + recurrent state, each once [B]."""
        return self.weight_bytes + self.kv_bytes + self.state_bytes

    @property
    def used_bytes_per_chip(self) -> Num:
        """Weights + cache + recurrent state on the fullest chip [B]."""
        return self.weight_bytes_per_chip + self.kv_bytes_per_chip + self.state_bytes_per_chip

    def to_dict(self) -> dict[str, Any]:
        """Flat, SI, unit in the key; `max_batch` is none where no sequence takes any memory (an encoder's)."""
        sizes = {name: getattr(self, name) for name in _SIZES}
        return sizes | {n: whole(getattr(self, n)) for n in ("max_batch", "max_context_tokens")}

    def to_frame(self) -> Any:
        """One row a point, as a pandas DataFrame."""
        import pandas as pd

        given = self.to_dict()
        columns = np.broadcast_arrays(*(np.asarray(value) for value in given.values()))
        return pd.DataFrame({n: c.ravel() for n, c in zip(given, columns, strict=True)})


def kv_bytes(
    model: Model,
    *,
    context_tokens: Any,
    batch: Any = 1,
    kv: str | None = None,
    policy: CachePolicy = "window",
    memory_tokens: Any = None,
) -> Num:
    """Cache of `batch` sequences of `context_tokens` each.  [B]  Recurrent state is apart: `state_bytes`.

    Parameters
    ----------
    context_tokens, batch : int or array
        [token], [1].
    kv : str, optional
        Format of the cache ("f16", "fp8", "q8_0", …); the model's own dtype by default.
    policy : "window" or "allocated"
        What the mathematics needs, or every layer at full length.
    memory_tokens : int or array, optional
        Tower outputs whose keys and values are kept for cross-attention [token].

    Examples
    --------
    >>> from roofline.specs.catalog import model
    >>> kv_bytes(model("llama-2-70b"), context_tokens=2048, kv="f16") / 2**20
    640.0
    """
    require(model, Model, "kv_bytes(model)")
    context = checked(context_tokens, name="context_tokens", low=0.0, high=MAX_TOKENS)
    n_seq = checked(batch, name="batch", low=1.0, high=MAX_TOKENS)
    outputs = memory_tokens_of(model, memory_tokens)
    common_shape(context_tokens=context, batch=n_seq, memory_tokens=outputs)
    return cache_bytes(
        model,
        context_tokens=context,
        n_seq=n_seq,
        numerics=Precision(kv=kv).of(model),
        policy=policy,
        memory_tokens=outputs,
    )


def state_bytes(model: Model, *, batch: Any = 1, policy: CachePolicy = "window") -> Num:
    """State that recurrent layers keep for `batch` sequences, however long they are; 0 for a model without any.  [B]

    Examples
    --------
    Qwen3-Next: 36 gated delta nets, each 32 heads of 128 × 128 in fp32, and a convolution over 8192 channels in bf16.

    >>> from roofline.specs.catalog import model
    >>> state_bytes(model("qwen3-next-80b-a3b"), policy="allocated")    # 36 · (32·128·128·4 + 8192·4·2)
    77856768.0
    """
    require(model, Model, "state_bytes(model)")
    n_seq = checked(batch, name="batch", low=1.0, high=MAX_TOKENS)
    return recurrent_bytes(model, n_seq=n_seq, numerics=Precision().of(model), policy=policy)


def max_context_tokens(
    model: Model,
    *,
    kv_bytes: Any,
    batch: Any = 1,
    kv: str | None = None,
    policy: CachePolicy = "window",
    memory_tokens: Any = None,
) -> Num:
    """The longest whole context whose cache fits in so many bytes: the inverse of `kv_bytes`.  [token]

    The model's own limit is not applied. Infinite where the cache stops growing (windows or recurrent layers only).

    Examples
    --------
    Llama-3.1-8B caches 128 KiB a token: 1 GiB holds 8192.

    >>> from roofline.specs.catalog import model
    >>> max_context_tokens(model("llama-3.1-8b"), kv_bytes=2**30)
    8192.0
    """
    require(model, Model, "max_context_tokens(model)")
    room = checked(kv_bytes, name="kv_bytes", low=0.0, high=1e18)
    n_seq = checked(batch, name="batch", low=1.0, high=MAX_TOKENS)
    outputs = memory_tokens_of(model, memory_tokens)
    shape = common_shape(kv_bytes=room, batch=n_seq, memory_tokens=outputs)
    held = partial(
        cache_bytes, model, n_seq=n_seq, numerics=Precision(kv=kv).of(model), policy=policy, memory_tokens=outputs
    )
    longest = _longest(lambda c: np.asarray(held(context_tokens=c)), room=room, limit=MAX_TOKENS, shape=shape)
    endless = np.where(longest >= MAX_TOKENS, np.inf, longest)
    return endless if shape else float(endless)


def memory(deployment: Deployment, *, context_tokens: Any, batch: Any = 1, memory_tokens: Any = None) -> Memory:
    """Weights, cache and recurrent state against the chip's memory.

    Examples
    --------
    Llama-3.1-8B in bf16 on an H100: 64 contexts of 8192 are 64 GiB of cache, and 15 GiB of weights leave room for 64.

    >>> from roofline.specs.catalog import hardware, model
    >>> d = Deployment(model=model("llama-3.1-8b"), hardware=hardware("h100-sxm-80gb"))
    >>> m = memory(d, context_tokens=8192, batch=64)
    >>> m.fits, m.max_batch
    (True, 64.0)
    """
    require(deployment, Deployment, "memory(deployment)")
    context = checked(context_tokens, name="context_tokens", low=0.0, high=MAX_TOKENS)
    n_seq = checked(batch, name="batch", low=1.0, high=MAX_TOKENS)
    model, numerics = deployment.model, deployment.numerics
    outputs = memory_tokens_of(model, memory_tokens) if model.generates else 0.0
    common_shape(context_tokens=context, batch=n_seq, memory_tokens=outputs)
    chips = [_Chip(deployment, stage, outputs) for stage in range(deployment.plan.pp)]
    capacity = deployment.hardware.memory_bytes
    used = [chip.weight_bytes + chip.held(context, n_seq) for chip in chips]
    fullest = chips[int(np.argmax([float(np.max(u)) for u in used]))]
    most = reduce(np.maximum, used)
    state = recurrent_bytes(model, n_seq=n_seq, numerics=numerics)
    kept = cache_bytes(model, context_tokens=context, n_seq=n_seq, numerics=numerics, memory_tokens=outputs)
    state_here = fullest.state(n_seq)
    longest = _longest(
        lambda c: reduce(np.maximum, [chip.weight_bytes + np.asarray(chip.held(c, n_seq)) for chip in chips]),
        room=capacity, limit=float(model.max_context_tokens), shape=np.shape(n_seq),
    )  # fmt: skip
    scalar = not isinstance(most, np.ndarray)
    return Memory(
        weight_bytes=resident_weight_bytes(model, numerics=numerics),
        kv_bytes=kept,
        state_bytes=state,
        kv_bytes_per_token=token_bytes(model, numerics=numerics),
        weight_bytes_per_chip=fullest.weight_bytes,
        kv_bytes_per_chip=fullest.held(context, n_seq) - state_here,
        state_bytes_per_chip=state_here,
        kv_bytes_per_token_per_chip=token_bytes(fullest.share.model, numerics=numerics) / deployment.plan.cp,
        capacity_bytes=capacity,
        fits=bool(most <= capacity) if scalar else np.less_equal(most, capacity),
        short_by_bytes=same(np.maximum(most - capacity, 0.0), most),
        max_batch=_plain(reduce(np.minimum, [chip.max_batch(context) for chip in chips]), context),
        max_context_tokens=_plain(longest, n_seq),
    )


class _Chip:
    """The busiest chip of a stage: what it holds for so many sequences of the deployment."""

    def __init__(self, deployment: Deployment, stage: int, outputs: Num) -> None:
        self.deployment = deployment
        self.share = share_of(deployment.model, deployment.plan, stage)
        self.outputs = outputs
        self.weight_bytes = resident_weight_bytes(self.share, numerics=deployment.numerics)

    def held(self, context: Num, n_seq: Num) -> Num:
        """Cache and state: of ⌈B/dp⌉ sequences, and ⌈context/cp⌉ tokens of each [B]."""
        plan, numerics = self.deployment.plan, self.deployment.numerics
        here = same(np.ceil(context / plan.cp), context)
        n_here = same(np.ceil(n_seq / plan.dp), n_seq)
        kept = cache_bytes(
            self.share.model, context_tokens=here, n_seq=n_here, numerics=numerics, memory_tokens=self.outputs
        )
        return kept + recurrent_bytes(self.share.model, n_seq=n_here, numerics=numerics)

    def state(self, n_seq: Num) -> Num:
        """The recurrent state among it [B]."""
        n_here = same(np.ceil(n_seq / self.deployment.plan.dp), n_seq)
        return recurrent_bytes(self.share.model, n_seq=n_here, numerics=self.deployment.numerics)

    def max_batch(self, context: Num) -> Num:
        """Sequences of the deployment for which this chip has room: dp times what it holds itself [1]."""
        room = self.deployment.hardware.memory_bytes - self.weight_bytes  # below 0 not even nothing fits
        one = self.held(np.maximum(context, 1.0), 1.0)
        return self.deployment.plan.dp * np.maximum(np.floor(_ratio(room, one)), 0.0)


def _ratio(room: float, one: Num) -> Num:
    """room / one, infinite where a sequence keeps nothing (an encoder's) and the weights fit."""
    sizes = np.asarray(one, dtype=np.float64)
    free = np.full(sizes.shape, np.inf if room >= 0.0 else 0.0)
    return same(np.divide(room, sizes, out=free, where=sizes > 0.0), one)


def _longest(cache: Any, *, room: Num, limit: float, shape: tuple[int, ...]) -> Any:
    """The largest whole context whose cache fits in `room`, by bisection (the cache never shrinks with context)."""
    low, high = np.zeros(shape), np.full(shape, limit)
    for _ in range(int(np.ceil(np.log2(limit + 1.0))) + 1):
        middle = np.ceil((low + high) / 2.0)
        fits = cache(middle) <= room
        low, high = np.where(fits, middle, low), np.where(fits, high, np.maximum(middle - 1.0, low))
    return low


def _plain(value: Any, given: Num) -> Num:
    return np.asarray(value) if isinstance(given, np.ndarray) else float(value)
