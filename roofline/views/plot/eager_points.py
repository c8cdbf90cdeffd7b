"""What the figure without FlashAttention shows, as numbers: both kernels along the prompt, up to what fits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roofline.answers.eager import WithoutFlash, without_flash
from roofline.answers.memory import memory
from roofline.specs.deployment import Deployment
from roofline.views.plot.latency_points import Floats, last_whole
from roofline.views.plot.request import Request

__all__ = ["BYTES_DRAWN", "INTENSITY_DRAWN", "EagerCurves", "eager_curves"]

FIRST_PROMPT = 64.0
N_POINTS = 160

BYTES_DRAWN = ("flash_hbm_bytes", "eager_hbm_bytes", "score_bytes", "bytes_factor")
INTENSITY_DRAWN = ("flash_intensity", "eager_intensity", "ridge")


@dataclass(frozen=True, slots=True, kw_only=True)
class EagerCurves:
    """Prefill by both kernels for prompts of every length that fits, and at the one asked for.

    `fits` says for which prompts one layer's scores find room beside weights and cache; `fits_until` is the last of them
    [token], 0 where there is none; `short_by_bytes` what the one asked for lacks without any scores [B].
    """

    deployment: Deployment
    batch: float
    prompts: Floats
    along: WithoutFlash
    fits: NDArray[np.bool_]
    fits_until: float
    asked: float
    at: WithoutFlash
    short_by_bytes: float

    @property
    def is_drawn(self) -> NDArray[np.bool_]:
        """Prompts up to which eager is drawn: those that fit, and all up to the one asked for."""
        return self.fits | (self.prompts <= self.asked)

    @property
    def is_whole(self) -> NDArray[np.bool_]:
        """Prompts along which eager is one line: those that fit; all that are drawn where the model itself does not."""
        return self.fits if self.fits.any() else self.is_drawn

    def of(self, name: str) -> Floats:
        """A field along the prompts."""
        return np.broadcast_to(np.asarray(getattr(self.along, name), dtype=np.float64), self.prompts.shape)

    def value(self, name: str) -> float:
        """A field at the prompt asked for."""
        return float(getattr(self.at, name))

    def to_frame(self, drawn: tuple[str, ...]) -> Any:
        """One row a prompt length, as a pandas DataFrame."""
        import pandas as pd

        about = {"prompt_tokens": self.prompts, "batch": self.batch}
        marks = {"scores_fit": self.fits, "asked": self.prompts == self.asked}
        return pd.DataFrame(about | {name: self.of(name) for name in drawn} | marks)


def eager_curves(deployment: Deployment, request: Request) -> EagerCurves:
    """Both kernels for `batch` prompts in one pass, up to the longest whose cache fits."""
    batch, asked = request.batch, request.prompt_tokens
    held = memory(deployment, context_tokens=asked, batch=batch, memory_tokens=request.memory_tokens)
    first = min(FIRST_PROMPT, asked)
    last = max(float(held.max_context_tokens), asked, 2.0 * first)
    steps = np.round(np.geomspace(first, last, N_POINTS))
    prompts = np.unique(np.append(steps, [first, last, asked])).astype(np.float64)

    def room(tokens: Floats) -> NDArray[np.bool_]:
        return _scores_fit(deployment, without_flash(deployment, prompt_tokens=tokens, batch=batch), request)

    along = without_flash(deployment, prompt_tokens=prompts, batch=batch)
    fits = _scores_fit(deployment, along, request)
    return EagerCurves(
        deployment=deployment,
        batch=batch,
        prompts=prompts,
        along=along,
        fits=fits,
        fits_until=last_whole(prompts, fits, room),
        asked=asked,
        at=without_flash(deployment, prompt_tokens=asked, batch=batch),
        short_by_bytes=float(held.short_by_bytes),
    )


def _scores_fit(deployment: Deployment, answer: WithoutFlash, request: Request) -> NDArray[np.bool_]:
    """Whether the scores of one layer find room beside weights and cache."""
    held = memory(
        deployment, context_tokens=answer.prompt_tokens, batch=answer.batch, memory_tokens=request.memory_tokens
    )
    return np.asarray(held.used_bytes_per_chip + answer.score_matrix_bytes <= held.capacity_bytes)
