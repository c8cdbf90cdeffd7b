"""Feed-forward blocks: what each kind multiplies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from roofline.ledger import Linear, Op, Row
from roofline.specs.ffns import Dense, Moe
from roofline.specs.matrix import Matrix
from roofline.specs.shard import DenseShare, ExpertShare
from roofline.work.matmul import weight_bytes
from roofline.work.place import Place
from roofline.work.routing import Busiest, Touched
from roofline.work.sums import Stream, Sum

__all__ = ["dense", "experts"]


def dense(ffn: Dense, at: Place) -> Iterator[Row]:
    """The products of a block every token passes: gate and up in one launch, then down; or up, then down.  [FLOP, B]

        flops = 2 · m · D · F · (3 | 2)

    Assumes the activation function and the gate's product are counted with the layer's elementwise work.

    References: Shazeer 2020, arXiv:2002.05202 (gated blocks).
    """
    yield from _block(ffn.matrices(at.d_model), at.of_all_ranks if isinstance(ffn, DenseShare) else at)


def experts(ffn: Moe, at: Place, *, exponent: float) -> Iterator[Row]:
    """A mixture of experts: the router, what every token passes, then the routed experts.  [FLOP, B]

        flops     = 2 · m·k · D · F · (3 | 2)              every token passes k experts
        weights   = touched · D · F · bits/8, each           touched = E · (1 − (1 − k/E)^(m^γ)), expected
        weights ≥   k of them (all tokens may agree)
        weights ≤   min(E, k·m) of them
        rows      = k·m / touched                            what a touched expert's kernel sees
        row_flops = touched · 2 · D · F, each                a row of every one of them

    Where experts are spread over ranks (ep), the counts are those of the busiest one (`Busiest`): `flops` the mean rank's,
    `extra_flops` what the busiest does beyond it; the least weights are k/ep of an expert.

    Parameters
    ----------
    exponent : float
        γ of `Touched` [1]: 1 for uniform routing, below for correlated.

    Notes
    -----
    Assumes no expert's capacity is exceeded and nothing is padded; the weighted sum of the k outputs is elementwise.

    References: Shazeer et al. 2017, arXiv:1701.06538; Jiang et al. 2024, arXiv:2401.04088 (Mixtral).
    """
    together = isinstance(ffn, ExpertShare) and ffn.n_sharing != 1
    common = ffn.common_matrices(at.d_model)
    yield from _block((m for m in common if not m.role.startswith("shared_")), at)
    yield from _block((m for m in common if m.role.startswith("shared_")), at.of_all_ranks if together else at)
    for matrix in ffn.routed_matrices(at.d_model):
        yield _routed(matrix, ffn, at, exponent=exponent)


def _block(matrices: Iterable[Matrix], at: Place) -> Iterator[Row]:
    """Products one after another; an up that follows its gate shares its launch."""
    before = ""
    for matrix in matrices:
        fused = before.endswith("gate") and matrix.role.endswith("up")
        yield at.product(matrix, name="router" if matrix.role == "router" else None, n_launch=0.0 if fused else 1.0)
        before = matrix.role


def _routed(matrix: Matrix, ffn: Moe, at: Place, *, exponent: float) -> Row:
    """One matrix of each expert held here, over the tokens sent to it."""
    e, k, n_ranks = ffn.n_experts, ffn.n_active_experts, ffn.n_ranks if isinstance(ffn, ExpertShare) else 1
    each = weight_bytes(matrix, numerics=at.numerics) / matrix.n
    sums = _spread(ffn, at, exponent=exponent)
    per_pair = 2.0 * matrix.d_in * matrix.d_out
    mean = sums.tokens * (k / n_ranks)
    fused = matrix.role == "expert_up" and ffn.gated
    return Op(
        name=f"{at.prefix}{matrix.role}_proj",
        kind="expert",
        repeat=at.repeat,
        n_launch=0.0 if fused else 1.0,
        shape=f"(m, {matrix.d_in}) × ({matrix.d_in}, {matrix.d_out}), {k} of {e} experts",
        m=sums.rows,
        flops=mean * per_pair,
        extra_flops=(sums.load - mean) * per_pair,
        row_flops=sums.touched * per_pair,
        weight_bytes=sums.touched * each,
        weight_bytes_min=(at.needed or Linear(1.0)) * (k / n_ranks * each),
        weight_bytes_max=sums.most * each,
        weight_row_bytes=sums.load * each,
        act_bytes=sums.load * ((matrix.d_in + matrix.d_out) * at.numerics.activation_bytes),
        store_dtype=at.numerics.store(matrix.role).name,
        compute_dtype=at.numerics.compute(matrix.role),
    )


@dataclass(frozen=True, slots=True)
class _Spread:
    """What routing makes of a pass on one chip: tokens, token–expert pairs, experts read, and rows of each."""

    tokens: Linear
    load: Linear
    touched: Linear
    most: Linear
    rows: Linear


def _spread(ffn: Moe, at: Place, *, exponent: float) -> _Spread:
    """Every expert on the one chip, or on the busiest of the ranks they are spread over."""
    together = isinstance(ffn, ExpertShare) and ffn.n_feeding != 1 and at.stream == "text"
    stream: Stream = "replica" if together else at.stream
    e, k = ffn.n_experts, ffn.n_active_experts
    tokens = Sum("tokens", stream=stream, ways=at.ways).linear
    touched, most, rows = (Touched(e, k, exponent, what, stream, at.ways) for what in ("expected", "most", "rows"))
    if not isinstance(ffn, ExpertShare) or ffn.n_ranks == 1:
        return _Spread(tokens, tokens * float(k), touched.linear, most.linear, rows.linear)
    here = (Busiest(touched, ffn.n_held, ffn.n_ranks, what) for what in ("load", "touched", "most", "rows"))
    return _Spread(tokens, *(key.linear for key in here))
