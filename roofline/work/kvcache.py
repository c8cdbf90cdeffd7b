"""What a sequence leaves in memory: a cache that grows with its context, and state that does not.

The cache is a function of context, never a constant per token: windows cap it, latents shrink it, entries of several tokens
thin it out, and a tower's keys and values are there from the start.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np

from roofline.errors import SpecError, shown
from roofline.ledger import add_up
from roofline.num import Num, same
from roofline.specs.layers import Layer
from roofline.specs.mixers import Attention, Compressed, Latent, SingleMixer
from roofline.specs.model import Model
from roofline.specs.precision import Numerics
from roofline.specs.recurrent import Delta, LinearAttention, Mamba, Mamba2, Rglru, ShortConv
from roofline.work.recurrent import state_bytes_of

__all__ = ["CachePolicy", "cache_bytes", "recurrent_bytes", "token_bytes"]

CachePolicy: TypeAlias = Literal["window", "allocated"]


def cache_bytes(
    model: Model,
    *,
    context_tokens: Num,
    n_seq: Num,
    numerics: Numerics,
    policy: CachePolicy = "window",
    memory_tokens: Num = 0.0,
) -> Num:
    """Cache of n_seq sequences of context_tokens each.  [B]

        B · Σ_layers elements(context) · bits/8

        attention        min(context, W) · K·(H + Hv), and d a token of an indexer's;
                         0 where an earlier layer's cache is read, or an encoder reads
        latent           context · (R + r), and d a token of the indexer's
        compressed       min(context, W) · H, and ⌊context/r⌋ · (H + d of the indexer's)
        cross-attention  M · 2·K·H, whatever the context
        recurrent        0: its state is `recurrent_bytes`

    policy "window" keeps what a rolling cache needs: the last W tokens of a window or of chunks (at rest it may hold W − 1,
    and the current token makes W; of a chunk a pass reads only what is there of the running one). "allocated" keeps every
    layer at full length, as several engines do.

    Returns
    -------
    Num
        Shape: broadcast of context_tokens, n_seq, memory_tokens.

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
    elements: Num = add_up(
        repeat * _elements(layer, context_tokens, memory_tokens, policy) for repeat, layer in model.layer_kinds()
    )
    return n_seq * (elements * (numerics.kv.bits / 8.0))


def token_bytes(model: Model, *, numerics: Numerics) -> float:
    """Cache of one token while no window is full; entries that stand for several tokens in equal parts.  [B]

    >>> from roofline.specs.catalog import model
    >>> from roofline.specs.precision import Precision
    >>> v4 = model("deepseek-v4-flash")     # 43·512 + 21·(512 + 128)/4 + 20·512/128 elements of 2 B
    >>> token_bytes(v4, numerics=Precision(kv="bf16").of(v4))
    50912.0
    """
    mixers = [mixer for _, layer in model.layer_kinds() for mixer in layer.mixers]
    n = max((float(x.ratio or 1) for x in mixers if isinstance(x, Compressed)), default=1.0)
    return float(cache_bytes(model, context_tokens=n, n_seq=1.0, numerics=numerics)) / n


def _elements(layer: Layer, context: Num, memory: Num, policy: CachePolicy) -> Num:
    """Elements one sequence keeps in one layer."""
    crossed: Num = 0.0 if layer.cross is None else memory * float(layer.cross.cache_elements_per_token)
    return crossed + add_up(_kept(mixer, context, policy) for mixer in layer.mixers)


def _kept(mixer: SingleMixer, context: Num, policy: CachePolicy) -> Num:
    match mixer:
        case Attention() as x if x.caches:
            return _held(context, x.window, policy) * float(x.cache_elements_per_token + x.index_elements_per_token)
        case Latent() as x:
            return context * float(x.cache_elements_per_token + x.index_elements_per_token)
        case Compressed() as x:
            index = x.indexer.d_head if x.indexer is not None else 0
            entries = 0.0 if x.ratio is None else _entries(context, x.ratio) * float(x.d_head + index)
            return _held(context, x.window, policy) * float(x.d_head) + entries
        case _:
            return context * 0.0


def _held(context: Num, window: int | None, policy: CachePolicy) -> Num:
    if window is None or policy == "allocated":
        return context
    return same(np.minimum(context, float(window)), context)


def _entries(context: Num, ratio: int) -> Num:
    return same(np.floor_divide(context, float(ratio)), context)


def recurrent_bytes(model: Model, *, n_seq: Num, numerics: Numerics, policy: CachePolicy = "window") -> Num:
    """State of n_seq sequences in recurrent layers: constant in the context.  [B]

        B · Σ_layers (state elements · its dtype + channels · (K − 1) · 2 B)

    policy "window" is what the mathematics needs of the convolution, its last K − 1 inputs; "allocated" a buffer of K, as
    several engines keep. The recurrence's state has its own dtype, most often fp32, whatever the cache's format.

    Returns
    -------
    Num
        Shape: that of n_seq.
    """
    each = 0.0
    for repeat, layer in model.layer_kinds():
        for mixer in layer.mixers:
            if isinstance(mixer, (Mamba, Mamba2, Delta, LinearAttention, ShortConv, Rglru)):
                rolling = policy == "allocated"
                each += repeat * state_bytes_of(mixer, conv_bytes=numerics.activation_bytes, rolling=rolling)
    return n_seq * each
