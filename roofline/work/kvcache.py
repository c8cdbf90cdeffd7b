"""The KV cache: a function of context, never a constant per token (windows cap it)."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np

from roofline.errors import SpecError, shown
from roofline.ledger import add_up
from roofline.num import Num
from roofline.specs.model import Model
from roofline.specs.precision import Numerics
from roofline.work.attention import kv_bytes_per_token

__all__ = ["CachePolicy", "cache_bytes"]

CachePolicy: TypeAlias = Literal["window", "allocated"]


def cache_bytes(
    model: Model, *, context_tokens: Num, n_seq: Num, numerics: Numerics, policy: CachePolicy = "window"
) -> Num:
    """Cache of n_seq sequences of context_tokens each.  [B]

        B · Σ_layers min(context, W) · 2·K·H · bits/8

    policy "window" is what the mathematics needs: a window layer keeps its last W tokens (a cache at rest may hold W − 1,
    and the current token makes W). "allocated" keeps every layer at full length, as several engines do.

    Returns
    -------
    Num
        Shape: broadcast of context_tokens, n_seq.

    Examples
    --------
    Llama-3.1-8B at 8192 tokens in f16: 1024 MiB.

    >>> from roofline.specs.catalog import model
    >>> from roofline.specs.precision import Precision
    >>> llama = model("llama-3.1-8b")
    >>> cache_bytes(llama, context_tokens=8192.0, n_seq=1.0, numerics=Precision(kv="f16").of(llama)) / 2**20
    1024.0
    """
    if policy not in ("window", "allocated"):
        raise SpecError(f'policy: expected "window" or "allocated", got {shown(policy)}')
    per_sequence: Num = add_up(
        repeat * kv_bytes_per_token(layer.mixer, numerics=numerics) * _held(context_tokens, layer.mixer.window, policy)
        for repeat, layer in model.layer_kinds()
    )
    return n_seq * per_sequence


def _held(context_tokens: Num, window: int | None, policy: CachePolicy) -> Num:
    if window is None or policy == "allocated":
        return context_tokens
    held = np.minimum(context_tokens, float(window))
    return held if isinstance(context_tokens, np.ndarray) else float(held)
