"""Softmax attention: scores, weighted sum, and the cache traffic. MHA, GQA and MQA by their head counts; windows and chunks;
cross-attention over what a tower gave."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

from roofline.ledger import Linear, Op, Row
from roofline.specs.mixers import Attention, CrossAttention, Latent
from roofline.specs.precision import Numerics
from roofline.work.exchange import kv_gathered
from roofline.work.indexer import index_scores
from roofline.work.place import Place
from roofline.work.sight import ALL, Sight
from roofline.work.sums import Sum

__all__ = ["AttentionKernel", "attention", "attention_core", "cross_attention", "kv_bytes_per_token", "scores_moved"]

AttentionKernel: TypeAlias = Literal["flash", "eager"]

SCORE_PASSES = 4.0  # eager: scores are written and read, then the softmax of them is written and read
SCORE_BYTES = 2.0


def kv_bytes_per_token(mixer: Attention | CrossAttention | Latent, *, numerics: Numerics) -> float:
    """Cache bytes of one token of one sequence in one layer: keys and values, or the latent of both.  [B]

        K · (H + Hv) · bits / 8        latent: (R + d_rope) · bits / 8

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


def attention(mixer: Attention, at: Place, *, kernel: AttentionKernel) -> Iterator[Row]:
    """The mixer's rows in order: q, and k and v where it makes them (one launch), an indexer's, the attention itself, o."""
    *made, out = (m for m in mixer.matrices(at.d_model) if not m.role.startswith("index_"))
    for matrix in made:
        yield at.product(matrix, n_launch=1.0 if matrix.role == "q" else 0.0)
    yield from kv_gathered(mixer, at)
    yield from index_scores(mixer, at)
    yield attention_core(mixer, at, kernel=kernel)
    yield at.product(out)


def attention_core(mixer: Attention, at: Place, *, kernel: AttentionKernel) -> Row:
    """Q·Kᵀ, softmax, A·V of every sequence in the pass, in one varlen kernel.  [FLOP, B]

        flops        = Σ 2 · N · (H + Hv) · pairs           (2 for a multiply-add; Q·Kᵀ and A·V)
        cache read   = Σ seen · K·(H + Hv) · bits/8          past keys and values, once a sequence
        cache read ≥ the same with a shared prefix read once
        cache write  = Σ T · K·(H + Hv) · bits/8             where this layer caches
        activations  = Σ T · (N + K)·(H + Hv) · 2 B          q and the output; this pass's k and v
        row_flops    = Σ 2 · K · (seen + T) · (H + Hv)

    Σ is over the sequences of the pass; Hv = H but for the few models whose values are narrower; `pairs` and `seen` are the
    arithmetic of `sight`: all of S, min(S, W − 1) in a window, the running chunk. ``flash`` forms the visible pairs only and
    moves no score. ``eager`` forms the full rectangle T × (min(S, W − 1) + T) per head (`extra_flops` is what the mask
    throws away) and writes and reads it twice at 2 bytes: once as scores, once as their softmax. The difference is what
    FlashAttention buys.

    Parameters
    ----------
    mixer : Attention
        N, K, H, W. A layer that reads an earlier layer's cache reads the same bytes and writes none; an encoder's, none.
    at : Place
    kernel : "flash" or "eager"

    Returns
    -------
    Row
        One layer's; linear in the pass's pairs, tokens and seen tokens under this sight.

    Notes
    -----
    Assumes softmax, scaling, masking and rotation cost 0 FLOP (convention of FLOP counters), tiles are exact, and keys of
    this pass reach the kernel as activations. A chunked layer sees its running chunk only: its reads fall at each new one.
    Under an indexer a query sees as many tokens as a window of top_k; T queries read min(S, T·(k − 1)) cached tokens, as if
    their picks all differed, at least what one of them picks. Where the tokens of a sequence are split (cp), pairs and cache
    are split evenly too, as striped or zigzag orders do.

    References
    ----------
    Vaswani et al. 2017, arXiv:1706.03762, §3.2. Shazeer 2019, arXiv:1911.02150 (MQA). Ainslie et al. 2023,
    arXiv:2305.13245 (GQA). Dao et al. 2022, arXiv:2205.14135 (what the S×S traffic costs).

    Examples
    --------
    Llama-2-7B, decode after 4 tokens: 32 · 128 · 5 · 2 = 40,960 FLOP for the scores, and the same for A·V.

    >>> from roofline.specs.catalog import model
    >>> from roofline.specs.precision import Precision
    >>> from roofline.work.step import Seqs
    >>> from roofline.work.sums import PassSums
    >>> llama = model("llama-2-7b")
    >>> at = Place(d_model=4096, numerics=Precision().of(llama))
    >>> row = attention_core(llama.layers[0].layers[0].mixer, at, kernel="flash")
    >>> row.at(PassSums((Seqs(n_seq=1, n_new=1, n_past=4),))).flops / 2
    40960.0
    """
    n, k, h, d_v = mixer.n_heads, mixer.n_kv_heads, mixer.d_head, mixer.d_v
    sight = Sight.of(mixer)
    picks, part = mixer.indexer is not None, 1.0 / at.ways
    tokens, pairs = at.tokens, Sum("pairs", sight, at.stream).linear * part
    seen, drawn = (Sum(name, sight, at.stream).linear * part for name in ("seen", "picked" if picks else "seen"))
    held = Sum("agreed" if picks else "held", sight, at.stream).linear * part
    formed = Sum("square", ALL if picks else sight, at.stream).linear * part if kernel == "eager" else pairs
    per_pair = 2.0 * n * (h + d_v)
    per_token = kv_bytes_per_token(mixer, numerics=at.numerics)
    reads = per_token if mixer.causal else 0.0
    return Op(
        name=f"{at.prefix}attention",
        kind="attention",
        repeat=at.repeat,
        shape=f"(T, {h}) × ({h}, S + T) × {n} heads, and back",
        products=(
            ("scores", f"(T, {h}) × ({h}, S + T) × {n} heads", h / (h + d_v)),  # Q·Kᵀ, against the keys
            ("values", f"(T, S + T) × (S + T, {d_v}) × {n} heads", d_v / (h + d_v)),  # A·V, against the values
        ),
        m=tokens,
        flops=pairs * per_pair,
        extra_flops=(formed - pairs) * per_pair,
        row_flops=(seen + tokens) * (2.0 * k * (h + d_v)),
        score_elements=formed * float(n),
        kv_read_bytes=drawn * reads,
        kv_read_bytes_min=held * reads,
        kv_write_bytes=tokens * (per_token if mixer.caches else 0.0),
        act_bytes=tokens * ((n + k) * (h + d_v) * at.numerics.activation_bytes) + scores_moved(formed, n, kernel),
        store_dtype=at.numerics.kv.name,
        compute_dtype=at.numerics.dense,
    )


def scores_moved(formed: Linear, n_heads: int, kernel: AttentionKernel) -> Linear:
    """Traffic of a score matrix that leaves the chip: four passes over pairs · N elements of 2 B; none in a flash kernel."""
    return formed * (n_heads * SCORE_PASSES * SCORE_BYTES) if kernel == "eager" else Linear()


def cross_attention(mixer: CrossAttention, at: Place, *, kernel: AttentionKernel) -> Iterator[Row]:
    """Attention of T tokens over M tower outputs: q, k and v of outputs new this pass, the attention, o.  [FLOP, B]

        flops        = Σ 4 · N · H · T·M              no mask: every token sees all M
        k, v         = Σ 2 · (new outputs) · D_m · K·H, each, once a request
        cache read   = Σ M · 2·K·H · bits/8           constant in the text's length; at least, what was there before
        cache write  = Σ (new outputs) · 2·K·H · bits/8

    References: Vaswani et al. 2017, arXiv:1706.03762, §3.2.3 ("encoder-decoder attention").
    """
    q, k, v, out = mixer.matrices(at.d_model)
    made = Sum("made").linear
    source = Place(d_model=at.d_model, numerics=at.numerics, prefix=at.prefix, repeat=at.repeat, stream="inputs")
    yield at.product(q, name="cross_q_proj")
    yield source.product(k, m=made, name="cross_k_proj")
    yield source.product(v, m=made, name="cross_v_proj", n_launch=0.0)
    n, h = mixer.n_heads, mixer.d_head
    per_output = kv_bytes_per_token(mixer, numerics=at.numerics)
    crossed, memory = Sum("crossed", stream=at.stream).linear, Sum("memory", stream=at.stream).linear
    yield Op(
        name=f"{at.prefix}cross_attention",
        kind="attention",
        repeat=at.repeat,
        shape=f"(T, {h}) × ({h}, M) × {n} heads, and back",
        products=(
            ("cross_scores", f"(T, {h}) × ({h}, M) × {n} heads", 0.5),
            ("cross_values", f"(T, M) × (M, {h}) × {n} heads", 0.5),
        ),
        m=at.tokens,
        flops=crossed * (4.0 * n * h),
        row_flops=memory * (4.0 * mixer.n_kv_heads * h),
        score_elements=crossed * float(n),
        kv_read_bytes=memory * per_output,
        kv_read_bytes_min=(memory - made) * per_output,
        kv_write_bytes=made * per_output,
        act_bytes=at.tokens * (2.0 * n * h * at.numerics.activation_bytes) + scores_moved(crossed, n, kernel),
        store_dtype=at.numerics.kv.name,
        compute_dtype=at.numerics.dense,
    )
    yield at.product(out, name="cross_o_proj")
