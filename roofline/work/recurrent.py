"""Recurrent mixers: work and state per token that do not grow with the context."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeAlias

from roofline.ledger import Linear, Op, Row
from roofline.specs.matrix import Matrix
from roofline.specs.recurrent import Delta, LinearAttention, Mamba, Mamba2, Rglru, ShortConv
from roofline.work.exchange import summed_up
from roofline.work.place import Place
from roofline.work.sums import Sum

__all__ = ["Recurrent", "conv_elements", "recurrent", "scan_flops", "state_bytes_of"]

Recurrent: TypeAlias = Mamba | Mamba2 | Delta | LinearAttention | ShortConv | Rglru

STATE_BYTES = {"fp32": 4.0, "bf16": 2.0, "fp16": 2.0}


def scan_flops(mixer: Recurrent) -> float:
    """FLOPs of the recurrence for one token in one layer: a rank-one update of the state, and reading it out.

        Mamba-1, Mamba-2       h ← a·h + (Δ·x) ⊗ B,   y = h·C           2·d_inner·d_state + 2·d_inner·d_state
        gated delta net        S ← a·S + k ⊗ β·(v − S·k),   y = S·q     3 · 2·dk·dv   a value head (reads, updates, reads)
        linear attention       S ← λ·S + k ⊗ v,   y = S·q               2 · 2·H·H     a head
        gated linear unit      h ← a·h + b·x, one number a channel        0             elementwise
        short convolution      no state but its own last inputs           0

    A multiply-add of a contraction is 2; the decay a·h, gates, Δ·x and the skip D·x are elementwise and cost 0, by the
    convention this library follows everywhere. Chunked kernels trade the recurrence for products within a chunk, which suit
    matrix units and cost more or, for short prompts, less: an execution's choice that is not counted, and so the floor asks
    nothing of the scan but its state.

    References: Gu, Dao 2023, arXiv:2312.00752; Dao, Gu 2024, arXiv:2405.21060; Yang et al. 2024, arXiv:2412.06464; Qin et
    al. 2024, arXiv:2401.04658.

    Examples
    --------
    Nemotron-H-8B: 128 heads of 64 and a state of 128: 4 · 8192 · 128 a token.

    >>> scan_flops(Mamba2(n_heads=128, d_head=64, n_groups=8, d_state=128, d_conv=4))
    4194304.0
    """
    match mixer:
        case Delta():
            products = 3.0
        case Mamba() | Mamba2() | LinearAttention():
            products = 2.0
        case ShortConv() | Rglru():
            products = 0.0
    return 2.0 * products * mixer.state_elements


def conv_elements(mixer: Recurrent, *, rolling: bool) -> float:
    """Inputs the short convolution keeps for one sequence in one layer: channels · (K − 1); K in a rolling buffer."""
    if isinstance(mixer, LinearAttention):
        return 0.0
    return float(mixer.n_channels * (mixer.d_conv - (0 if rolling else 1)))


def state_bytes_of(mixer: Recurrent, *, conv_bytes: float, rolling: bool = False) -> float:
    """State of one sequence in one layer, whatever its length: the recurrence's in its own dtype, the convolution's.  [B]

    >>> state_bytes_of(Mamba2(n_heads=128, d_head=64, n_groups=8, d_state=128, d_conv=4), conv_bytes=2.0, rolling=True)
    4276224.0
    """
    held = 0.0 if isinstance(mixer, ShortConv) else mixer.state_elements * STATE_BYTES[mixer.state_dtype]
    return held + conv_elements(mixer, rolling=rolling) * conv_bytes


def recurrent(mixer: Recurrent, at: Place) -> Iterator[Row]:
    """Rows of a recurrent mixer: its projections, the short convolution, the scan.  [FLOP, B]

        convolution   2 · K · channels a token
        scan          `scan_flops` a token
        state         read once and written once a sequence and pass; not read where there is no past; at least read once
                      for all where the whole past is a beginning that they share

    Notes
    -----
    Assumes a pass keeps the state on chip between its own tokens.
    """
    *products, out = mixer.matrices(at.d_model)
    for matrix in products:
        yield _convolution(matrix, at) if matrix.role == "conv" else at.product(matrix)
        if matrix.role == "x":  # each chip has multiplied its channels; what comes out steers all of them
            yield from summed_up("x_all_reduce", at, width=matrix.d_out)
    yield _scan(mixer, at)
    yield at.product(out)


def _convolution(matrix: Matrix, at: Place) -> Row:
    """A depthwise convolution over the last K inputs of every channel: each input and output moved once."""
    row = at.product(matrix, name="conv", kind="recurrent")
    moved = at.tokens * (2.0 * matrix.n * at.numerics.activation_bytes)
    return replace(row, act_bytes=moved, shape=f"({matrix.d_in} of m) × {matrix.n} channels")


def _scan(mixer: Recurrent, at: Place) -> Row:
    state = state_bytes_of(mixer, conv_bytes=at.numerics.activation_bytes)
    written, read, least = (Sum(name, stream=at.stream).linear for name in ("seqs", "resumed", "starts"))
    inner = sum(m.d_in for m in mixer.matrices(at.d_model) if m.role == "out")
    return Op(
        name=f"{at.prefix}scan",
        kind="recurrent",
        repeat=at.repeat,
        shape=f"a state of {mixer.state_elements:,} a sequence" if mixer.state_elements else "last inputs, gates",
        m=at.tokens,
        flops=at.tokens * scan_flops(mixer),
        flops_min=Linear(),
        state_bytes=(written + read) * state,
        state_bytes_min=(written + least) * state,
        act_bytes=at.tokens * (4.0 * inner * at.numerics.activation_bytes),
        store_dtype="fp32",
        compute_dtype=at.numerics.dense,
    )
