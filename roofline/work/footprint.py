"""What a chip holds: the bytes of the weights, tensor by tensor."""

from __future__ import annotations

from roofline.specs.layers import Layer
from roofline.specs.matrix import Matrix
from roofline.specs.model import Model
from roofline.specs.plan import Plan
from roofline.specs.precision import Numerics
from roofline.specs.shard import Share
from roofline.specs.towers import Product, Tower
from roofline.work.matmul import weight_bytes

__all__ = ["resident_weight_bytes"]


def resident_weight_bytes(held: Model | Share, *, numerics: Numerics) -> float:
    """Bytes of all weights in memory, each tensor in its own format, a tied table once; of a share, on its one chip.  [B]

        Σ_matrices d_in · d_out · bits/8 (+ biases) + tables + norms · 2 B

    Of a pipeline the first stage holds the embedding and the towers, the last the head; of a tied table each its own copy.

    Examples
    --------
    Llama-3.1-8B in bf16: 2 bytes for each of its 8,030,261,248 parameters.

    >>> from roofline.specs.catalog import model
    >>> from roofline.specs.precision import Precision
    >>> llama = model("llama-3.1-8b")
    >>> resident_weight_bytes(llama, numerics=Precision().of(llama)) / llama.n_params
    2.0
    """
    share = held if isinstance(held, Share) else Share(held, held, Plan(), 0)
    model = share.model
    vectors = (model.n_vector_params + model.n_stream_params) * numerics.kept_bytes
    layers = _layer_bytes(model.layer_kinds(), model.d_model, numerics=numerics)
    return layers + vectors + _end_bytes(share, numerics=numerics)


def _end_bytes(share: Share, *, numerics: Numerics) -> float:
    """What stands before the layers and after them, on the stages that have it."""
    model = share.model
    way_in, way_out = model.outer_matrices()[:1], model.outer_matrices()[1:]
    head = 0.0 if model.head is None else weight_bytes(model.head_matrix, numerics=numerics)
    held = 0.0
    if share.is_first:
        rows = Matrix("positions", (model.positions.rows or 0) + model.embedding.type_rows, model.d_summed)
        held += sum(weight_bytes(m, numerics=numerics) for m in (*way_in, *model.side_matrices, rows))
        held += sum(_tower_bytes(t, numerics=numerics.of_tower(t)) for t in model.towers)
        tied_here = model.head is not None and model.head.tied and share.is_last
        held += 0.0 if tied_here else weight_bytes(model.embedding_matrix, numerics=numerics)
    if share.is_last:
        held += head + sum(weight_bytes(m, numerics=numerics) for m in way_out)
        held += _product_bytes(model.readout, numerics=numerics)
    return held


def _layer_bytes(kinds: tuple[tuple[int, Layer], ...], d_model: int, *, numerics: Numerics) -> float:
    """Matrices of the layers, each layer in its own formats."""
    return sum(
        repeat * sum(weight_bytes(m, numerics=numerics.of_layer(layer)) for m in layer.matrices(d_model))
        for repeat, layer in kinds
    )


def _product_bytes(products: tuple[Product, ...], *, numerics: Numerics) -> float:
    """Matrices outside the layers; of a tied one its bias alone."""
    return sum(
        p.matrix.n_biases * numerics.kept_bytes if p.tied else weight_bytes(p.matrix, numerics=numerics)
        for p in products
    )


def _tower_bytes(tower: Tower, *, numerics: Numerics) -> float:
    """Stem, layers, projector and vectors."""
    outer = _product_bytes((*tower.stem, *tower.projector), numerics=numerics)
    inside = _layer_bytes(tower.layer_kinds(), tower.d_model, numerics=numerics)
    return outer + inside + tower.n_vector_params * numerics.kept_bytes
