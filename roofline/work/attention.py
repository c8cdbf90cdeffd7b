"""Softmax attention over a cache: scores, weighted sum, and the cache traffic. MHA, GQA and MQA by their head counts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

from roofline.ledger import Linear, Op, Row
from roofline.specs.model import Attention
from roofline.specs.precision import Numerics
from roofline.work.matmul import matmul
from roofline.work.step import Sum

__all__ = ["AttentionKernel", "attention", "attention_core", "kv_bytes_per_token"]

AttentionKernel: TypeAlias = Literal["flash", "eager"]

SCORE_PASSES = 4.0  # eager: scores are written and read, then the softmax of them is written and read
SCORE_BYTES = 2.0


def kv_bytes_per_token(mixer: Attention, *, numerics: Numerics) -> float:
    """Cache bytes of one token of one sequence in one layer: keys and values.  [B]

        2 · K · H · bits / 8

    Examples
    --------
    Llama-2-7B in fp16: 16 KiB a layer, so 512 KiB a token over 32 layers.

    >>> from roofline.specs.catalog import model
    >>> from roofline.specs.precision import Precision
    >>> fp16 = Precision(weights="fp16").of(model("llama-2-7b"))
    >>> kv_bytes_per_token(Attention(n_heads=32, n_kv_heads=32, d_head=128), numerics=fp16)
    16384.0
    """
    return mixer.cache_elements_per_token * numerics.kv.bits / 8.0


def attention(
    mixer: Attention, *, d_model: int, kernel: AttentionKernel, numerics: Numerics, prefix: str, repeat: float
) -> Iterator[Row]:
    """The mixer's rows in order: q, k and v (one launch), the attention itself, o."""
    q, k, v, o = mixer.matrices(d_model)
    tokens = Sum("tokens").linear
    for matrix, n_launch in ((q, 1.0), (k, 0.0), (v, 0.0)):
        name = f"{prefix}{matrix.role}_proj"
        yield matmul(matrix, m=tokens, numerics=numerics, name=name, repeat=repeat, n_launch=n_launch)
    yield attention_core(mixer, kernel=kernel, numerics=numerics, name=f"{prefix}attention", repeat=repeat)
    yield matmul(o, m=tokens, numerics=numerics, name=f"{prefix}o_proj", repeat=repeat)


def attention_core(mixer: Attention, *, kernel: AttentionKernel, numerics: Numerics, name: str, repeat: float) -> Row:
    """Q·Kᵀ, softmax, A·V of every sequence in the pass, in one varlen kernel.  [FLOP, B]

        flops        = Σ 4 · N · H · pairs            (2 for a multiply-add; Q·Kᵀ and A·V)
        cache read   = Σ min(S, W − 1) · 2·K·H · bits/8     past keys and values, once a sequence
        cache read ≥ the same with a shared prefix read once
        cache write  = Σ T · 2·K·H · bits/8
        activations  = Σ T · (2·N·H + 2·K·H) · 2 B          q and the output; this pass's k and v
        row_flops    = Σ 2 · K · (min(S, W − 1) + T) · 2H

    Σ is over the sequences of the pass. ``flash`` forms the visible pairs only and moves no score. ``eager`` forms the full
    rectangle T × (min(S, W − 1) + T) per head (`extra_flops` is what the mask throws away) and writes and reads it twice
    at 2 bytes: once as scores, once as their softmax. The difference is what FlashAttention buys.

    Parameters
    ----------
    mixer : Attention
        N, K, H, W.
    kernel : "flash" or "eager"

    Returns
    -------
    Row
        One layer's; linear in the pass's pairs, tokens and seen tokens under this window.

    Notes
    -----
    Assumes softmax, scaling, masking and rotation cost 0 FLOP (convention of FLOP counters), tiles are exact, and keys of
    this pass reach the kernel as activations.

    References
    ----------
    Vaswani et al. 2017, arXiv:1706.03762, §3.2. Shazeer 2019, arXiv:1911.02150 (MQA). Ainslie et al. 2023,
    arXiv:2305.13245 (GQA). Dao et al. 2022, arXiv:2205.14135 (what the S×S traffic costs).

    Examples
    --------
    Llama-2-7B, decode after 4 tokens: 32 · 128 · 5 · 2 = 40,960 FLOP for the scores, and the same for A·V.

    >>> from roofline.specs.catalog import model
    >>> from roofline.specs.precision import Precision
    >>> from roofline.work.step import PassSums, Seqs
    >>> llama = model("llama-2-7b")
    >>> row = attention_core(
    ...     llama.layers[0].layers[0].mixer, kernel="flash", numerics=Precision().of(llama), name="attention", repeat=1.0)
    >>> row.at(PassSums((Seqs(n_seq=1, n_new=1, n_past=4),))).flops / 2
    40960.0
    """
    n, k, h, window = mixer.n_heads, mixer.n_kv_heads, mixer.d_head, mixer.window
    tokens, pairs = Sum("tokens").linear, Sum("pairs", window).linear
    seen, held = Sum("seen", window).linear, Sum("held", window).linear
    formed = Sum("square", window).linear if kernel == "eager" else pairs
    scores_moved = formed * (n * SCORE_PASSES * SCORE_BYTES) if kernel == "eager" else Linear()
    per_token = kv_bytes_per_token(mixer, numerics=numerics)
    return Op(
        name=name,
        kind="attention",
        repeat=repeat,
        shape=f"(T, {h}) × ({h}, S + T) × {n} heads, and back",
        products=(
            ("scores", f"(T, {h}) × ({h}, S + T) × {n} heads", 0.5),  # Q·Kᵀ, against the keys
            ("values", f"(T, S + T) × (S + T, {h}) × {n} heads", 0.5),  # A·V, against the values
        ),
        m=tokens,
        flops=pairs * (4.0 * n * h),
        extra_flops=(formed - pairs) * (4.0 * n * h),
        row_flops=(seen + tokens) * (4.0 * k * h),
        score_elements=formed * float(n),
        kv_read_bytes=seen * per_token,
        kv_read_bytes_min=held * per_token,
        kv_write_bytes=tokens * per_token,
        act_bytes=tokens * ((2.0 * n + 2.0 * k) * h * numerics.activation_bytes) + scores_moved,
        store_dtype=numerics.kv.name,
        compute_dtype=numerics.dense,
    )
