"""One forward pass of one model, counted: the only place where FLOPs and bytes of a pass come from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from roofline.errors import SpecError, Unsupported, require, shown
from roofline.ledger import Ledger, Linear, Op, Row
from roofline.specs.model import Attention, Dense, Layer, Model
from roofline.specs.plan import Plan
from roofline.specs.precision import Numerics, Precision
from roofline.work.attention import AttentionKernel
from roofline.work.attention import attention as attention_rows
from roofline.work.ffn import dense
from roofline.work.footprint import resident_weight_bytes
from roofline.work.matmul import matmul
from roofline.work.step import PassSums, Seqs, Step, Sum, as_step

__all__ = ["count"]


def count(
    model: Model,
    step: Seqs | Step,
    *,
    plan: Plan | None = None,
    precision: Precision | None = None,
    attention: AttentionKernel = "flash",
) -> Ledger:
    """The ledger of one forward pass: every matrix product, the attention, the elementwise work, in order.

    Parameters
    ----------
    model : Model
    step : Seqs or tuple of Seqs
        What the pass is asked to do. Several parts make one mixed pass: weights are read once for all of them.
    plan : Plan, optional
        How the model is laid over chips; one chip by default.
    precision : Precision, optional
        Formats of weights, cache, activations and head; the checkpoint's own by default.
    attention : "flash" or "eager"
        The kernel; see `attention_core`.

    Returns
    -------
    Ledger
        Shape of its counts: broadcast of the step's fields. Nothing in it depends on hardware.

    Notes
    -----
    Assumes all B·T tokens pass every layer; the head multiplies only the positions whose logits are wanted; the
    embedding is a look-up (rows, not a product). Norms, rotations, activations functions and residuals are one
    elementwise op a layer with bytes and 0 FLOP.

    Examples
    --------
    Llama-2-7B, a prompt of 4: the pass needs 52.1 GFLOP and reads 13.2 GB of weights.

    >>> from roofline.specs.catalog import model
    >>> ledger = count(model("llama-2-7b"), Seqs(n_seq=1, n_new=4))
    >>> round(ledger.flops / 1e9, 1), round(ledger.weight_bytes / 1e9, 1)
    (52.1, 13.2)
    """
    require(model, Model, "count(model)")
    require(Plan() if plan is None else plan, Plan, "count(plan=…)")
    precision = Precision() if precision is None else precision
    require(precision, Precision, "count(precision=…)")
    sums = PassSums(as_step(step))
    rows, resident_bytes = rows_of(model, precision, attention)
    return Ledger(
        rows=rows, sums=sums, n_seq=sums[Sum("seqs")], n_tokens=sums[Sum("tokens")], resident_bytes=resident_bytes
    )


def rows_of(model: Model, precision: Precision, kernel: AttentionKernel) -> tuple[tuple[Row, ...], float]:
    """The rows of a model and the bytes of its weights: everything about a pass but its sums. Kept for the next pass."""
    if kernel != "flash" and kernel != "eager":
        raise SpecError(f'attention: expected "flash" or "eager", got {shown(kernel)}')
    return _kept_rows(model, precision, kernel)


@lru_cache(maxsize=256)
def _kept_rows(model: Model, precision: Precision, kernel: AttentionKernel) -> tuple[tuple[Row, ...], float]:
    numerics = precision.of(model)
    return tuple(_rows(model, numerics=numerics, kernel=kernel)), resident_weight_bytes(model, numerics=numerics)


def _rows(model: Model, *, numerics: Numerics, kernel: AttentionKernel) -> Iterator[Row]:
    tokens, logits = Sum("tokens").linear, Sum("logits").linear
    yield _embedding(model, tokens, numerics=numerics)
    if model.embedding.norm:
        yield _norm(model, tokens, numerics=numerics, name="embedding_norm")
    project_in, project_out = model.outer_matrices()[:1], model.outer_matrices()[1:]
    for matrix in project_in:
        yield matmul(matrix, m=tokens, numerics=numerics, name=matrix.role)
    kinds = model.layer_kinds()
    for (repeat, layer), prefix in zip(kinds, _nicknames([layer for _, layer in kinds]), strict=True):
        yield from _layer(layer, model=model, numerics=numerics, kernel=kernel, prefix=prefix, repeat=float(repeat))
    if model.final_norm:
        yield _norm(model, tokens, numerics=numerics, name="final_norm")
    for matrix in project_out:  # the model's own code projects every token, wanted or not
        yield matmul(matrix, m=tokens, numerics=numerics, name=matrix.role)
    yield matmul(
        model.head_matrix, m=logits, numerics=numerics, name="lm_head", kind="head", needed=Sum("asked").linear
    )


def _layer(
    layer: Layer, *, model: Model, numerics: Numerics, kernel: AttentionKernel, prefix: str, repeat: float
) -> Iterator[Row]:
    """Mixer, FFN, elementwise. One case a kind, here and nowhere else."""
    where: Any = {"d_model": model.d_model, "numerics": numerics, "prefix": prefix, "repeat": repeat}
    match layer.mixer:
        case Attention() as mixer:
            yield from attention_rows(mixer, kernel=kernel, **where)
        case _:
            raise Unsupported(f"{model.id}: a mixer of kind {layer.mixer.kind} is not counted yet")
    match layer.ffn:
        case Dense() as ffn:
            yield from dense(ffn, **where)
        case _:
            raise Unsupported(f"{model.id}: an FFN of kind {layer.ffn.kind} is not counted yet")
    tokens = Sum("tokens").linear
    yield _elementwise(layer, tokens, model=model, numerics=numerics, name=f"{prefix}elementwise", repeat=repeat)


def _elementwise(layer: Layer, tokens: Linear, *, model: Model, numerics: Numerics, name: str, repeat: float) -> Row:
    """Norms with their residual adds, the rotation of q and k, and the activation function: bytes, no FLOP.  [B]

        m · (4·D·n_norms + 2·(N + K)·H + (3 | 2)·F) · 2 B  +  the norms' own weights

    Assumes the usual fusions: a norm with the residual add before it (reads two rows, writes two), the rotation in place,
    gate and up read and their product written (3·F; plain: 2·F).
    """
    mixer, ffn = layer.mixer, layer.ffn
    rotated = 2.0 * (mixer.n_heads + mixer.n_kv_heads) * mixer.d_head if model.positions.kind == "rope" else 0.0
    elements = 4.0 * model.d_model * layer.n_norms + rotated + (3.0 if ffn.gated else 2.0) * ffn.d_ff
    scales = (layer.n_norms * model.norm.n_params(model.d_model) + mixer.n_norm_params) * numerics.kept_bytes
    return Op(
        name=name,
        kind="elementwise",
        repeat=repeat,
        shape="norms, residuals, rotation, activation",
        m=tokens,
        weight_bytes=Linear(scales),
        weight_bytes_min=Linear(scales),
        act_bytes=tokens * (elements * numerics.activation_bytes),
        store_dtype=numerics.dense,
        compute_dtype=numerics.dense,
    )


def _norm(model: Model, tokens: Linear, *, numerics: Numerics, name: str) -> Row:
    """A norm outside the layers, of every token: two rows read (with the residual), one written.  [B]"""
    scales = Linear(model.norm.n_params(model.d_model) * numerics.kept_bytes)
    return Op(
        name=name,
        kind="elementwise",
        shape="norm and residual",
        m=tokens,
        weight_bytes=scales,
        weight_bytes_min=scales,
        act_bytes=tokens * (3.0 * model.d_model * numerics.activation_bytes),
        store_dtype=numerics.dense,
        compute_dtype=numerics.dense,
    )


def _embedding(model: Model, tokens: Linear, *, numerics: Numerics) -> Row:
    """Rows looked up, m · D_e, and the learned position's beside each; the first hidden state written.  [B]"""
    role = "head" if model.head.tied else "embedding"
    rows = tokens * (model.d_embedding * numerics.bytes_per_element(role))
    if model.positions.kind == "learned":
        rows = rows + tokens * (model.d_model * numerics.bytes_per_element("positions"))
    return Op(
        name="embedding",
        kind="embedding",
        shape=f"m rows of ({model.vocab_size}, {model.d_embedding})",
        m=tokens,
        weight_bytes=rows,
        weight_bytes_min=rows,
        act_bytes=tokens * (model.d_embedding * numerics.activation_bytes),
        store_dtype=numerics.store(role).name,
        compute_dtype=numerics.dense,
    )


def _nicknames(kinds: list[Layer]) -> Iterator[str]:
    """A prefix that tells the layers of a pattern apart: by window where that does, else by place in the pattern."""
    words = ["global." if layer.mixer.window is None else "local." for layer in kinds]
    many = Counter(words)
    for index, word in enumerate(words):
        yield "" if len(kinds) == 1 else word if many[word] == 1 else f"{word[:-1]}{index}."
