"""A matrix product y = x·W: the one law behind projections, feed-forward blocks and the head."""

from __future__ import annotations

from roofline.ledger import Linear, Op, OpKind, Row
from roofline.specs.matrix import Matrix
from roofline.specs.precision import Numerics

__all__ = ["matmul", "weight_bytes"]


def weight_bytes(matrix: Matrix, *, numerics: Numerics) -> float:
    """Stored bytes of a matrix, scales included; its bias stays in 16 bit.  [B]

        n · (d_in · d_out · bits / 8  (+ d_out · bytes of an activation))

    >>> from roofline.specs.catalog import model
    >>> from roofline.specs.precision import Precision
    >>> llama = model("llama-2-7b")
    >>> weight_bytes(Matrix("q", 4096, 4096), numerics=Precision(weights="fp16").of(llama))   # 32 MiB
    33554432.0
    """
    return matrix.n_weights * numerics.bytes_per_element(matrix.role) + matrix.n_biases * numerics.kept_bytes


def matmul(
    matrix: Matrix,
    *,
    m: Linear,
    numerics: Numerics,
    name: str,
    repeat: float = 1.0,
    n_launch: float = 1.0,
    kind: OpKind = "gemm",
    needed: Linear | None = None,
) -> Row:
    """One matrix product over m rows.  [FLOP, B]

        flops      = 2 · m · d_in · d_out          (a bias adds bytes, not FLOPs)
        row_flops  = 2 · d_in · d_out               one row: what a kernel's padding adds for each row it pads
        weights    = d_in · d_out · bits / 8        once a pass, however many rows share them
        activations = m · (d_in + d_out) · 2 B      in and out

    A matrix of n blocks side by side (block-diagonal) is n such products.

    Parameters
    ----------
    m : Linear
        Rows x has, as a form in the sums of the pass [1].

    needed : Linear, optional
        Whether the pass reads the matrix at all, 1 or 0 as a form; it does by default.

    Returns
    -------
    Row
        Its counts are linear in m.

    Notes
    -----
    Assumes every operand crosses memory once: a product too large for the cache is tiled well enough that weights do not
    stream twice, and a fused epilogue's saving is not credited.

    Examples
    --------
    A 4096 × 4096 projection in fp16 of 4 tokens and of 1: 4 and 1 FLOP per weight byte.

    >>> from roofline.specs.catalog import model
    >>> from roofline.specs.precision import Precision
    >>> fp16 = Precision(weights="fp16").of(model("llama-2-7b"))
    >>> row = matmul(Matrix("q", 4096, 4096), m=Linear.of("tokens"), numerics=fp16, name="q")
    >>> four, one = row.at({"tokens": 4.0}), row.at({"tokens": 1.0})
    >>> four.flops, one.flops, four.flops / four.weight_bytes, one.flops / one.weight_bytes
    (134217728.0, 33554432.0, 4.0, 1.0)
    >>> round(four.flops / four.streamed_bytes, 3), round(one.flops / one.streamed_bytes, 4)
    (3.992, 0.9995)
    """
    streamed = weight_bytes(matrix, numerics=numerics) * (needed or Linear(1.0))
    return Op(
        name=name,
        kind=kind,
        repeat=repeat,
        n_launch=n_launch,
        shape=f"(m, {matrix.d_in}) × ({matrix.d_in}, {matrix.d_out})" + (f" × {matrix.n}" if matrix.n != 1 else ""),
        m=m,
        flops=m * (2.0 * matrix.n_weights),
        row_flops=(needed or Linear(1.0)) * (2.0 * matrix.n_weights),
        weight_bytes=streamed,
        weight_bytes_min=streamed,
        weight_bytes_max=streamed,
        weight_row_bytes=m * weight_bytes(matrix, numerics=numerics),
        act_bytes=m * (matrix.n * (matrix.d_in + matrix.d_out) * numerics.activation_bytes),
        store_dtype=numerics.store(matrix.role).name,
        compute_dtype=numerics.compute(matrix.role),
    )
