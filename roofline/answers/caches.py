"""What sequences leave in memory, by model alone: the bytes of a context, and the context of so many bytes."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from roofline.answers.inputs import memory_tokens_of
from roofline.errors import require
from roofline.num import Num, checked, common_shape
from roofline.specs.model import Model
from roofline.specs.precision import Precision
from roofline.work.kvcache import CachePolicy, cache_bytes, recurrent_bytes
from roofline.work.step import MAX_TOKENS

__all__ = ["kv_bytes", "longest_whole", "max_context_tokens", "state_bytes"]


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
    longest = longest_whole(lambda c: np.asarray(held(context_tokens=c)), room=room, limit=MAX_TOKENS, shape=shape)
    endless = np.where(longest >= MAX_TOKENS, np.inf, longest)
    return endless if shape else float(endless)


def longest_whole(cache: Any, *, room: Num, limit: float, shape: tuple[int, ...]) -> Any:
    """The largest whole number whose cache fits in `room`, by bisection (the cache never shrinks with it)."""
    low, high = np.zeros(shape), np.full(shape, limit)
    for _ in range(int(np.ceil(np.log2(limit + 1.0))) + 1):
        middle = np.ceil((low + high) / 2.0)
        fits = cache(middle) <= room
        low, high = np.where(fits, middle, low), np.where(fits, high, np.maximum(middle - 1.0, low))
    return low
