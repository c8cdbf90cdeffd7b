"""What the latency figures draw, as numbers: TTFT along the prompt, TPOT along the batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roofline.errors import SpecError
from roofline.specs.deployment import Deployment
from roofline.views.plot.request import Request, one_number
from roofline.work.step import MAX_TOKENS

__all__ = ["ContextLine", "Floats", "TpotLines", "TtftCurve", "tpot_lines", "ttft_curve"]

FIRST_PROMPT = 16.0
MAX_LINES = 4
N_POINTS = 160
SHOWN_ANYWAY = 8.0  # batches, where fewer or none fit

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class TtftCurve:
    """The pass over the prompts, for prompts of every length that fits.

    `knee` is the shortest prompt whose pass is bound by compute; none if memory binds throughout [token].
    """

    deployment: Deployment
    batch: float
    prompts: Floats
    seconds: Floats
    floor_s: Floats
    bound: NDArray[np.str_]
    knee: float | None
    asked: float
    asked_s: float
    fits: bool

    def to_frame(self) -> Any:
        """One row a prompt length, as a pandas DataFrame."""
        import pandas as pd

        return pd.DataFrame(
            {
                "prompt_tokens": self.prompts,
                "batch": self.batch,
                "ttft_s": self.seconds,
                "ttft_floor_s": self.floor_s,
                "ttft_bound": self.bound,
                "asked": self.prompts == self.asked,
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextLine:
    """Decode at one context over the batch. `full_at` is the last batch whose cache fits; 0 where none does."""

    context: float
    batches: Floats
    seconds: Floats
    floor_s: Floats
    bound: NDArray[np.str_]
    full_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TpotLines:
    """One line a context, the first being the one the figure is about."""

    deployment: Deployment
    lines: tuple[ContextLine, ...]
    asked: float
    asked_s: float

    def to_frame(self) -> Any:
        """One row a context and batch, as a pandas DataFrame."""
        import pandas as pd

        frames = [
            pd.DataFrame(
                {
                    "context_tokens": line.context,
                    "batch": line.batches,
                    "tpot_s": line.seconds,
                    "tpot_floor_s": line.floor_s,
                    "tpot_bound": line.bound,
                    "fits": line.batches <= line.full_at,
                    "asked": (line.batches == self.asked) & (line is self.lines[0]),
                }
            )
            for line in self.lines
        ]
        return pd.concat(frames, ignore_index=True)


def ttft_curve(deployment: Deployment, request: Request) -> TtftCurve:
    """TTFT of `batch` prompts in one pass, up to the longest that fits."""
    batch, asked = request.batch, request.prompt_tokens
    held = request.held(deployment, context_tokens=asked, batch=batch)
    longest = float(held.max_context_tokens)
    prompts = _whole_steps(min(FIRST_PROMPT, asked), max(longest, asked), asked)
    timing, at = request.first(deployment, prompts), request.first(deployment, asked)
    return TtftCurve(
        deployment=deployment,
        batch=batch,
        prompts=prompts,
        seconds=np.asarray(timing.seconds),
        floor_s=np.asarray(timing.floor_s),
        bound=np.asarray(timing.bound),
        knee=_knee(deployment, request, prompts, np.asarray(timing.bound)),
        asked=asked,
        asked_s=float(at.seconds),
        fits=asked <= longest,
    )


def _knee(deployment: Deployment, request: Request, prompts: Floats, bound: NDArray[np.str_]) -> float | None:
    """The first whole prompt length that compute binds: found on the grid, then among the lengths it skipped."""
    is_compute = bound == "compute"
    if not is_compute.any():
        return None
    i = int(np.argmax(is_compute))
    between = np.arange(prompts[i - 1] if i else 1.0, prompts[i] + 1.0)
    fine = np.asarray(request.first(deployment, between).bound)
    return float(between[int(np.argmax(fine == "compute"))])


def tpot_lines(deployment: Deployment, request: Request, contexts: Any = None) -> TpotLines:
    """A decode pass at each context, over every batch that fits."""
    wanted = _usual_contexts(deployment, request) if contexts is None else _contexts(contexts)
    lines = tuple(_line(deployment, context, request) for context in wanted)
    at_s, _, _ = request.token(deployment, wanted[0], request.batch)
    return TpotLines(deployment=deployment, lines=lines, asked=request.batch, asked_s=float(at_s))


def _usual_contexts(deployment: Deployment, request: Request) -> tuple[float, ...]:
    """The request's own context, then 4 and 16 times its prompt: those the model reads and a batch of one can hold."""
    prompt = request.prompt_tokens
    base = float(np.floor(request.context_tokens if request.context_tokens is not None else prompt))
    held = request.held(deployment, context_tokens=base, batch=1.0)
    longest = float(held.max_context_tokens)
    return (base, *(c for c in (4.0 * prompt, 16.0 * prompt) if base < c <= longest))


def _contexts(given: Any) -> tuple[float, ...]:
    members = given if isinstance(given, (list, tuple, np.ndarray)) else [given]
    if not 1 <= len(members) <= MAX_LINES:
        raise SpecError(f"context_tokens: expected one context or up to {MAX_LINES}, got {len(members)}")
    return tuple(dict.fromkeys(one_number(c, "context_tokens", low=0.0) for c in members))


def _line(deployment: Deployment, context: float, request: Request) -> ContextLine:
    asked = request.batch
    held = request.held(deployment, context_tokens=context, batch=1.0)
    full_at = min(float(held.max_batch), MAX_TOKENS)
    batches = _whole_steps(1.0, max(full_at, asked, SHOWN_ANYWAY), asked)
    seconds, floor_s, bound = request.token(deployment, context, batches)
    return ContextLine(
        context=context,
        batches=batches,
        seconds=np.asarray(seconds),
        floor_s=np.asarray(floor_s),
        bound=np.asarray(bound),
        full_at=full_at,
    )


def _whole_steps(first: float, last: float, asked: float) -> Floats:
    """Whole numbers from `first` to `last`, even on a log axis, with the asked one among them."""
    steps = np.round(np.geomspace(first, max(last, first), N_POINTS))
    return np.unique(np.append(steps, [first, last, asked])).astype(np.float64)
