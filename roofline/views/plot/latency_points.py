"""What the latency figures draw, as numbers: TTFT along the prompt, TPOT along the batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from roofline.answers.chunks import budget_tokens, is_cut
from roofline.answers.estimates import interval
from roofline.errors import SpecError, shown
from roofline.specs.deployment import Deployment
from roofline.specs.slo import SLO
from roofline.timing.clock import Timing
from roofline.views.plot.request import Request, one_number
from roofline.work.step import MAX_TOKENS

__all__ = [
    "ContextLine", "Floats", "TpotLines", "TtftCurve", "last_whole", "limit_of", "tpot_lines", "ttft_curve",
]  # fmt: skip

FIRST_PROMPT = 16.0
MAX_LINES = 4
N_POINTS = 160
MOST_CUTS = 8
SHOWN_ANYWAY = 8.0  # batches, where fewer or none fit

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class TtftCurve:
    """The pass over the prompts, for prompts of every length that fits.

    `knee` is the shortest prompt whose pass is bound by compute; none if memory binds throughout [token].
    `edges` hold four of five measurements, where an engine was measured [s]. `limit` is what is promised [s], `kept_until`
    the longest prompt that keeps it, 0 where none does. `cuts` are the prompts that fill one pass of the engine, two, and so
    on; `half` is where attention is half of the arithmetic [token].
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
    edges: tuple[Floats, Floats] | None = None
    limit: float | None = None
    kept_until: float = 0.0
    cuts: tuple[float, ...] = ()
    half: float | None = None

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
            | _edge_columns("ttft", self.edges)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextLine:
    """Decode at one context over the batch. `full_at` is the last batch whose cache fits; 0 where none does.

    `edges` hold four of five measurements, where an engine was measured [s].
    """

    context: float
    batches: Floats
    seconds: Floats
    floor_s: Floats
    bound: NDArray[np.str_]
    full_at: float
    edges: tuple[Floats, Floats] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TpotLines:
    """One line a context, the first being the one the figure is about.

    `limit` is what is promised of a token [s], `kept_until` the largest batch of the first line that keeps it, of those that
    fit; 0 where none does.
    """

    deployment: Deployment
    lines: tuple[ContextLine, ...]
    asked: float
    asked_s: float
    limit: float | None = None
    kept_until: float = 0.0

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
                    "tokens_per_s": line.batches / line.seconds,
                }
                | _edge_columns("tpot", line.edges)
            )
            for line in self.lines
        ]
        return pd.concat(frames, ignore_index=True)


def _edge_columns(kind: str, edges: tuple[Floats, Floats] | None) -> dict[str, Floats]:
    return {} if edges is None else {f"{kind}_low_s": edges[0], f"{kind}_high_s": edges[1]}


def limit_of(slo: SLO | None, kind: str) -> float | None:
    """The tightest promise of a kind of time  [s]; where nothing queues, every percentile is the one value."""
    if slo is not None and not isinstance(slo, SLO):
        raise SpecError(f"slo: expected an SLO, got {shown(slo)}; make one with SLO(ttft_p95_s=1.0)")
    given = {} if slo is None else slo.limits
    return min((limit for name, limit in given.items() if name.startswith(f"{kind}_")), default=None)


def last_whole(steps: Floats, good: NDArray[np.bool_], again: Callable[[Floats], NDArray[np.bool_]]) -> float:
    """The last whole number that is good: found on the steps, then among those they skip; 0 where none is."""
    if not good.any():
        return 0.0
    i = int(np.flatnonzero(good)[-1])
    if i == len(steps) - 1:
        return float(steps[i])
    between = np.arange(steps[i], steps[i + 1])
    return float(between[np.flatnonzero(again(between))[-1]])


def ttft_curve(deployment: Deployment, request: Request, slo: SLO | None = None) -> TtftCurve:
    """TTFT of `batch` prompts together, up to the longest that fits."""
    batch, asked, limit = request.batch, request.prompt_tokens, limit_of(slo, "ttft")
    held = request.held(deployment, context_tokens=asked, batch=batch)
    longest = float(held.max_context_tokens)
    prompts = _whole_steps(min(FIRST_PROMPT, asked), max(longest, asked), asked)
    timing, at = request.first(deployment, prompts), request.first(deployment, asked)
    seconds, floor_s = np.asarray(timing.seconds), np.asarray(timing.floor_s)

    def kept(lengths: Floats) -> NDArray[np.bool_]:
        return np.asarray(request.first(deployment, lengths).seconds) <= (limit or 0.0)

    return TtftCurve(
        deployment=deployment, batch=batch, prompts=prompts, seconds=seconds, floor_s=floor_s,
        bound=np.asarray(timing.bound), knee=_knee(deployment, request, prompts, np.asarray(timing.bound)), asked=asked,
        asked_s=float(at.seconds), fits=asked <= longest, edges=_edges(deployment, "ttft", seconds, floor_s), limit=limit,
        kept_until=0.0 if limit is None else last_whole(prompts, seconds <= limit, kept),
        cuts=_cuts(deployment, batch, float(prompts[-1])), half=_half(timing, prompts),
    )  # fmt: skip


def _edges(
    deployment: Deployment, kind: Literal["ttft", "tpot"], seconds: Floats, floor_s: Floats
) -> tuple[Floats, Floats] | None:
    found = interval(deployment, kind, seconds, floor_s)
    return None if found is None else (np.asarray(found[0]), np.asarray(found[1]))


def _cuts(deployment: Deployment, batch: float, longest: float) -> tuple[float, ...]:
    """Prompts at which an engine needs one pass more: k · C / (sequences of a rank); none where it cuts nothing."""
    budget = budget_tokens(deployment)
    if not is_cut(deployment.model) or not np.isfinite(budget):
        return ()
    one = budget / np.ceil(batch / deployment.plan.dp)
    return tuple(float(one * k) for k in range(1, MOST_CUTS + 1) if one * k < longest)


def _half(timing: Timing, prompts: Floats) -> float | None:
    """The prompt at which attention does as many FLOPs as all else, on a straight line between two of the grid; or none."""
    rows = timing.by_op()
    zero = np.zeros_like(prompts)
    inside = sum((row["executed_flops"] + zero for row in rows if row["kind"] == "attention"), zero)
    ratio = inside / sum((row["executed_flops"] + zero for row in rows if row["kind"] != "attention"), zero)
    if ratio[0] >= 1.0 or not (ratio >= 1.0).any():
        return None
    return float(np.interp(1.0, ratio, prompts))


def _knee(deployment: Deployment, request: Request, prompts: Floats, bound: NDArray[np.str_]) -> float | None:
    """The first whole prompt length that compute binds: found on the grid, then among the lengths it skipped."""
    is_compute = bound == "compute"
    if not is_compute.any():
        return None
    i = int(np.argmax(is_compute))
    between = np.arange(prompts[i - 1] if i else 1.0, prompts[i] + 1.0)
    fine = np.asarray(request.first(deployment, between).bound)
    return float(between[int(np.argmax(fine == "compute"))])


def tpot_lines(deployment: Deployment, request: Request, contexts: Any = None, slo: SLO | None = None) -> TpotLines:
    """A decode pass at each context, over every batch that fits."""
    wanted = _usual_contexts(deployment, request) if contexts is None else _contexts(contexts)
    lines = tuple(_line(deployment, context, request) for context in wanted)
    at_s, _, _ = request.token(deployment, wanted[0], request.batch)
    limit, first = limit_of(slo, "tpot"), lines[0]
    until = 0.0
    if limit is not None:

        def kept(batches: Floats) -> NDArray[np.bool_]:
            return np.asarray(np.asarray(request.token(deployment, first.context, batches)[0]) <= limit)

        until = last_whole(first.batches, (first.seconds <= limit) & (first.batches <= first.full_at), kept)
    return TpotLines(
        deployment=deployment, lines=lines, asked=request.batch, asked_s=float(at_s), limit=limit,
        kept_until=min(until, first.full_at),
    )  # fmt: skip


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
    estimate, floor = np.asarray(seconds), np.asarray(floor_s)
    return ContextLine(
        context=context, batches=batches, seconds=estimate, floor_s=floor, bound=np.asarray(bound), full_at=full_at,
        edges=_edges(deployment, "tpot", estimate, floor),
    )  # fmt: skip


def _whole_steps(first: float, last: float, asked: float) -> Floats:
    """Whole numbers from `first` to `last`, even on a log axis, with the asked one among them."""
    steps = np.round(np.geomspace(first, max(last, first), N_POINTS))
    return np.unique(np.append(steps, [first, last, asked])).astype(np.float64)
