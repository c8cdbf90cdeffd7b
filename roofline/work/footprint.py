"""What a chip holds: the bytes of the weights, tensor by tensor."""

from __future__ import annotations

from roofline.specs.model import Matrix, Model
from roofline.specs.precision import Numerics
from roofline.work.matmul import weight_bytes

__all__ = ["resident_weight_bytes"]


def resident_weight_bytes(model: Model, *, numerics: Numerics) -> float:
    """Bytes of all weights in memory, each tensor in its own format, a tied table once.  [B]

        Σ_matrices d_in · d_out · bits/8 (+ biases) + tables + norms · 2 B

    Examples
    --------
    Llama-3.1-8B in bf16: 2 bytes for each of its 8,030,261,248 parameters.

    >>> from roofline.specs.catalog import model
    >>> from roofline.specs.precision import Precision
    >>> llama = model("llama-3.1-8b")
    >>> resident_weight_bytes(llama, numerics=Precision().of(llama)) / llama.n_params
    2.0
    """
    inside = sum(
        repeat * sum(weight_bytes(m, numerics=numerics) for m in layer.matrices(model.d_model))
        for repeat, layer in model.layer_kinds()
    )
    outer = sum(weight_bytes(m, numerics=numerics) for m in model.outer_matrices())
    head = weight_bytes(model.head_matrix, numerics=numerics)
    table = (
        0.0
        if model.head.tied
        else weight_bytes(Matrix("embedding", model.vocab_size, model.d_embedding), numerics=numerics)
    )
    positions = weight_bytes(Matrix("positions", model.positions.rows or 0, model.d_model), numerics=numerics)
    return inside + outer + head + table + positions + model.n_norm_params * numerics.kept_bytes
