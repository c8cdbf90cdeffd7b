"""How far a machine and an engine stay from their ceilings. A spec is a fact; what is achieved of it belongs here."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from roofline.specs.record import Record

__all__ = ["IDEAL", "Efficiency"]

Fraction = Annotated[float, Field(ge=1e-6, le=1.0)]
Overhead = Annotated[float, Field(ge=0.0, le=1.0)]
Rows = Annotated[float, Field(ge=0.0, le=1e6)]


class Efficiency(Record):
    """Shares of the ceilings that are reached, and what is paid besides. Bounded, so no estimate beats its floor.

    The law of one op, with its FLOPs F, the FLOPs R of one row of every tile, its streamed bytes Q, of which the weights W,
    the rows m it multiplies, and its activations A:

        products     t = max( min( (F + r·R) / (ec·π),  F / (ev·π_vector) ),  (Q + W·m/ρ) / (em·β) ) + ka·A / (em·β)
                         + t0 · kernels
        attention    t = max( min( (F + q·R) / (ea·π),  c·F / (ev·π_vector) ),  Q / (em·β) ) + ka·A / (em·β) + t0 · kernels
        recurrence   t = max( F / (ev·π_vector),  Q / (em·β) ) + ka·A / (em·β) + t0 · kernels
        elementwise  t = (1 + ka)·A / (em·β) + t0 · kernels
        exchanges    t = stages · (t0 + latency) + X / (el·β of the link)
        a pass       t = Σ ops + b · (positions whose logits are wanted)
        a request    t = Σ passes + c + (weights a chip holds) / (ew·β)

    r is `tile_rows`, q is `attention_rows`. A kernel may keep to the matrix units, padding its few rows, or multiply row by
    row on the vector units; the law takes the cheaper. c is 4 for a cache narrower than 16 bits, which is converted first,
    else 1.
    A group of one machine and one engine is fitted by at most eight of these; the others stay at what its engine's kind has.

    Attributes
    ----------
    compute : float
        ec: share of the dense peak a large matrix product reaches [1].
    memory : float
        em: share of the rated bandwidth a stream reaches [1].
    launch_s : float
        t0: fixed cost of a kernel, and of each stage of an exchange [s].
    tile_rows : float
        r: rows that tiles, or the unpacking of quantised weights, add to a product [1].
    reread_rows : float or None
        ρ: rows after which a product reads its weights once more; none, where they stay on chip [1].
    attention : float
        ea: share of the 16-bit peak that attention reaches on the matrix units [1].
    vector : float or None
        ev: share of the fp32 vector peak that is reached where few rows are multiplied, and by recurrences; none: all runs
        on the matrix units [1].
    activations : float
        ka: how often activations cross memory beyond once: what is not fused [1].
    sequence_s : float
        b: what the host does for each sequence of a pass: scheduling, sampling [s].
    request_s : float
        c: what a request costs once, before its first pass [s].
    first_read : float or None
        ew: share of the bandwidth at which the weights are made ready once a request; none: they are ready [1].
    link : float
        el: share of a link's rated bandwidth an exchange reaches [1]. Shared by all engines, not fitted.
    attention_rows : float
        q: query rows that a matrix kernel of attention is set up for [1]. A fact of kernels, not fitted.

    References
    ----------
    Williams, Waterman, Patterson 2009, doi:10.1145/1498765.1498785 (ceilings below the roof).
    """

    compute: Fraction = 1.0
    memory: Fraction = 1.0
    launch_s: Overhead = 0.0
    tile_rows: Rows = 0.0
    reread_rows: Annotated[float, Field(ge=1.0, le=1e9)] | None = None
    attention: Fraction = 1.0
    vector: Fraction | None = None
    activations: Annotated[float, Field(ge=0.0, le=100.0)] = 0.0
    sequence_s: Overhead = 0.0
    request_s: Annotated[float, Field(ge=0.0, le=60.0)] = 0.0
    first_read: Fraction | None = None
    link: Fraction = 1.0
    attention_rows: Rows = 0.0


IDEAL = Efficiency.model_construct(
    compute=1.0, memory=1.0, launch_s=0.0, tile_rows=0.0, reread_rows=None, attention=1.0, vector=None, activations=0.0,
    sequence_s=0.0, request_s=0.0, first_read=None, link=1.0, attention_rows=0.0,
)  # fmt: skip
"""The machine itself: every ceiling reached, nothing in between. What physics allows, not what an engine does."""
