"""What the heat maps show, as numbers: TTFT over prompt and batch, TPOT over context and batch, in cells of powers of 2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from roofline.specs.deployment import Deployment
from roofline.specs.slo import SLO
from roofline.views.plot.latency_points import Floats, limit_of
from roofline.views.plot.request import Request

__all__ = ["Heat", "Kind", "heat_of"]

MOST_TOKENS, MOST_BATCHES = 10, 9  # cells across, and up
FIRST_TOKENS = 128.0
Kind = Literal["ttft", "tpot"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Heat:
    """One kind of time in cells: tokens across (prompts; cached tokens), batches up  [token, 1, s].

    `fits` says which find room; of the others there is no time. `asked` is the cell nearest to what was asked (row, column),
    `asked_s` its own time exactly, not the cell's.
    """

    deployment: Deployment
    kind: Kind
    tokens: Floats
    batches: Floats
    seconds: Floats
    fits: NDArray[np.bool_]
    asked: tuple[int, int]
    asked_tokens: float
    asked_batch: float
    asked_s: float
    limit: float | None

    @property
    def kept(self) -> NDArray[np.bool_]:
        """Cells that fit and keep the promise; all that fit where there is none."""
        return self.fits if self.limit is None else self.fits & (self.seconds <= self.limit)

    def to_frame(self) -> Any:
        """One row a cell, as a pandas DataFrame."""
        import pandas as pd

        shape = self.seconds.shape
        across = "prompt_tokens" if self.kind == "ttft" else "context_tokens"
        return pd.DataFrame({
            across: np.broadcast_to(self.tokens, shape).ravel(),
            "batch": np.broadcast_to(self.batches[:, None], shape).ravel(),
            f"{self.kind}_s": self.seconds.ravel(), "fits": self.fits.ravel(), "kept": self.kept.ravel(),
        })  # fmt: skip


def heat_of(deployment: Deployment, request: Request, kind: Kind, slo: SLO | None) -> Heat:
    """Cells around what was asked, up to the longest context and the largest batch that fit."""
    wanted = request.prompt_tokens if kind == "ttft" else request.context_tokens or request.prompt_tokens
    held = request.held(deployment, context_tokens=1.0, batch=1.0)
    tokens = _powers(FIRST_TOKENS, float(held.max_context_tokens), float(wanted), MOST_TOKENS)
    most = float(request.held(deployment, context_tokens=float(tokens[0]), batch=1.0).max_batch)
    batches = _powers(1.0, 2.0 * most, request.batch, MOST_BATCHES)
    fits = np.asarray(request.held(deployment, context_tokens=tokens, batch=batches[:, None]).fits)
    seconds = np.full(fits.shape, np.nan)
    for row, batch in enumerate(batches):
        if fits[row].any():
            seconds[row, fits[row]] = _times(deployment, request, kind, tokens[fits[row]], float(batch))
    return Heat(
        deployment=deployment, kind=kind, tokens=tokens, batches=batches, seconds=seconds, fits=fits,
        asked=(_nearest(batches, request.batch), _nearest(tokens, float(wanted))), asked_tokens=float(wanted),
        asked_batch=request.batch,
        asked_s=float(_times(deployment, request, kind, np.asarray([wanted]), request.batch)[0]), limit=limit_of(slo, kind),
    )  # fmt: skip


def _times(deployment: Deployment, request: Request, kind: Kind, tokens: Floats, batch: float) -> Floats:
    if kind == "ttft":
        return np.asarray(request.first(deployment, tokens, batch).seconds)
    found = request.token(deployment, tokens, np.full_like(tokens, batch))[0]
    return np.asarray(found)


def _powers(first: float, last: float, asked: float, most: int) -> Floats:
    """At most so many powers of 2 from `first`, or less where that is past `last`, to `last`; that nearest `asked` is in."""
    high = int(np.floor(np.log2(max(last, asked, 1.0))))
    low = min(int(np.log2(first)), max(high - 1, 0))
    near = int(np.round(np.log2(max(asked, 1.0))))
    low = min(low, near)
    high = max(min(high, low + most - 1), near)
    low = max(low, high - most + 1)
    return np.asarray(2.0 ** np.arange(low, high + 1))


def _nearest(values: Floats, asked: float) -> int:
    return int(np.argmin(np.abs(np.log2(values) - np.log2(max(asked, 1.0)))))
