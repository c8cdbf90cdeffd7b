"""What a roofline figure draws, as numbers: ceilings, ridge, and where each phase sits and moves.

A point stands at (intensity, total FLOP / predicted time). The time is a sum over ops of the larger of arithmetic and
traffic, so a point lies on or under the roof by as much as its ops disagree about what binds; placed on the roof itself
it would say nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from roofline.answers.estimates import chip_of, known_of
from roofline.num import Num
from roofline.specs.deployment import Deployment
from roofline.specs.hardware import Hardware
from roofline.timing.clock import Timing
from roofline.views.plot.request import Phase, Request
from roofline.views.plot.roof_slopes import Slope, slopes_of
from roofline.views.plot.roof_spots import Spots, spots_of
from roofline.work.step import MAX_TOKENS

__all__ = ["Achieved", "Ceiling", "OpPoint", "Path", "Point", "Roof", "roof_of"]

MAX_CEILINGS = 3
FIRST_PROMPT = 16.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """One dense rate [FLOP/s], the dtypes that reach it, and its ridge [FLOP/B]."""

    dtypes: tuple[str, ...]
    flops_per_s: float
    ridge: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One pass of a phase at one value of what is swept. `asked`: the user's own; `fits`: in memory."""

    value: float
    batch: float
    n_new: float
    n_past: float
    intensity: float
    flops_per_s: float
    seconds: float
    bound: str
    asked: bool
    fits: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """A phase along what is swept: decode over the batch, prefill over the prompt.

    `limit` is the intensity that no batch passes at this context [FLOP/B].
    """

    phase: Phase
    swept: Literal["batch", "prompt"]
    points: tuple[Point, ...]
    limit: float | None = None

    @property
    def asked(self) -> Point:
        """The user's point."""
        return next(p for p in self.points if p.asked)

    @property
    def ends(self) -> tuple[Point, ...]:
        """First and last, where they are not the user's point."""
        return tuple(p for p in dict.fromkeys((self.points[0], self.points[-1])) if not p.asked)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpPoint:
    """One op of the user's own pass of a phase, all its layers; `share` of the phase's time it takes [1]."""

    phase: Phase
    name: str
    intensity: float
    flops_per_s: float
    share: float
    bound: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Achieved:
    """What an engine reaches: the rate of its largest products [FLOP/s], and that of a stream [B/s]."""

    engine: str
    flops_per_s: float
    bytes_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Roof:
    """A chip's roof under one deployment, and what stands under it. The first ceiling is the one that counts."""

    deployment: Deployment
    request: Request
    ceilings: tuple[Ceiling, ...]
    bytes_per_s: float
    paths: tuple[Path, ...]
    measured: Spots
    short_by_bytes: float
    ops: tuple[OpPoint, ...] = ()
    slopes: tuple[Slope, ...] = ()
    achieved: Achieved | None = None

    @property
    def ridge(self) -> float:
        """I* of the dtype the layers run in [FLOP/B]."""
        return self.ceilings[0].ridge

    def at(self, intensity: Num) -> Num:
        """min(π, β·I)  [FLOP/s]."""
        return np.minimum(self.ceilings[0].flops_per_s, self.bytes_per_s * intensity)

    def path(self, phase: Phase) -> Path | None:
        """The path of a phase, if it is drawn."""
        return next((p for p in self.paths if p.phase == phase), None)

    def to_frame(self) -> Any:
        """One row a mark of the figure, as a pandas DataFrame; the pass's own columns are empty for what is no pass."""
        import pandas as pd

        rows = pd.DataFrame([*self._roof_rows(), *self._pass_rows(), *self._beside_rows()])
        return pd.concat([rows, self.measured.to_frame()], ignore_index=True) if len(self.measured) else rows

    def _roof_rows(self) -> list[dict[str, Any]]:
        rows = [
            {
                "series": "ceiling",
                "label": "/".join(c.dtypes),
                "intensity": c.ridge,
                "flops_per_s": c.flops_per_s,
                "asked": c is self.ceilings[0],
            }
            for c in self.ceilings
        ]
        ridge = {"series": "ridge", "label": "ridge", "intensity": self.ridge}
        return [*rows, ridge | {"flops_per_s": self.ceilings[0].flops_per_s, "asked": False}]

    def _pass_rows(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        for path in self.paths:
            rows += [
                {"series": path.phase, "label": f"{path.swept} {p.value:.0f}"}
                | {name: getattr(p, name) for name in Point.__slots__ if name != "value"}
                for p in path.points
            ]
            if path.limit is not None:
                limit = {"series": "limit", "label": "batch → ∞", "intensity": path.limit}
                rows.append(limit | {"flops_per_s": self.at(path.limit), "asked": False})
        return rows

    def _beside_rows(self) -> list[dict[str, Any]]:
        names = ("phase", "intensity", "flops_per_s", "share", "bound")
        rows: list[dict[str, Any]] = [
            {"series": "op", "label": op.name, "asked": False} | {name: getattr(op, name) for name in names}
            for op in self.ops
        ]
        for slope in self.slopes:
            said = {"series": slope.kind, "label": slope.name, "bytes_per_s": slope.bytes_per_s, "asked": False}
            rows.append(said)
            rows += [said | {"phase": p, "intensity": x, "flops_per_s": y} for p, x, y in slope.points]
        if self.achieved is not None:
            top, beta = self.achieved.flops_per_s, self.achieved.bytes_per_s
            rows.append({"series": "achieved", "label": self.achieved.engine, "intensity": top / beta,
                         "flops_per_s": top, "bytes_per_s": beta, "asked": False})  # fmt: skip
        return rows


def roof_of(
    deployment: Deployment, request: Request, *, measured: Any = None, ops: bool = False, tiers: Any = ()
) -> Roof:
    """Everything a roofline figure shows of one deployment."""
    reading = _prefill_path(deployment, request)
    paths = (reading,) if request.context_tokens is None else (reading, _decode_path(deployment, request))
    chip, passes = deployment.hardware, request.passes(deployment)
    return Roof(
        deployment=deployment,
        request=request,
        ceilings=ceilings(chip, passes["prefill"].dtype),
        bytes_per_s=chip.hbm_bytes_per_s,
        paths=paths,
        measured=spots_of(measured),
        short_by_bytes=float(request.memory_of(deployment).short_by_bytes),
        ops=_ops(passes) if ops else (),
        slopes=slopes_of(deployment, tiers, passes),
        achieved=_achieved(deployment, passes["prefill"].dtype),
    )


def _ops(passes: dict[Phase, Timing]) -> tuple[OpPoint, ...]:
    """The ops that do any arithmetic, as points of their own."""
    found = []
    for phase, timing in passes.items():
        rows = timing.by_op()
        whole = sum(float(row["seconds"]) for row in rows)
        for row in rows:
            work, taken = float(row["executed_flops"]), float(row["seconds"])
            if work > 0.0 and taken > 0.0:
                found.append(OpPoint(
                    phase=phase, name=row["name"], intensity=float(row["intensity"]), flops_per_s=work / taken,
                    share=taken / whole, bound=str(row["bound"]),
                ))  # fmt: skip
    return tuple(found)


def _achieved(deployment: Deployment, dtype: str) -> Achieved | None:
    """What the efficiency of the engine leaves of the roof; none where it leaves all of it."""
    e, chip = known_of(deployment).efficiency, chip_of(deployment)
    if e.compute == e.memory == 1.0:
        return None
    top = e.compute * chip.peak_flops_per_s(dtype)
    return Achieved(engine=deployment.engine.name, flops_per_s=top, bytes_per_s=e.memory * chip.hbm_bytes_per_s)


def ceilings(chip: Hardware, dtype: str) -> tuple[Ceiling, ...]:
    """The rate of the dtype in use, then the higher ones of the matrix units, lowest first; equal rates are one line."""
    chosen = chip.peak_flops_per_s(dtype)
    by_rate: dict[float, list[str]] = {}
    for other in chip.compute.matrix:
        if chip.peak_flops_per_s(other) > chosen:
            by_rate.setdefault(chip.peak_flops_per_s(other), []).append(other)
    higher = sorted(by_rate)[: MAX_CEILINGS - 1]
    beta = chip.hbm_bytes_per_s
    return tuple(
        Ceiling(dtypes=tuple(names), flops_per_s=rate, ridge=rate / beta)
        for rate, names in [(chosen, [dtype]), *((r, by_rate[r]) for r in higher)]
    )


def _decode_path(deployment: Deployment, request: Request) -> Path:
    """Decode at a fixed context over batches of powers of 2, as many as fit."""
    context = request.context_tokens
    most = min(float(request.memory_of(deployment).max_batch), MAX_TOKENS)
    batches = _doublings(1.0, most, request.batch)
    timing, limit = (request.step(deployment, context, batch) for batch in (batches, MAX_TOKENS))
    grid = {"batch": batches, "n_new": np.ones_like(batches), "n_past": np.full_like(batches, context)}
    points = _points(timing, batches, asked=request.batch, fits=batches <= most, grid=grid)
    return Path(phase="decode", swept="batch", points=points, limit=float(limit.intensity))


def _prefill_path(deployment: Deployment, request: Request) -> Path:
    """Prefill of the batch over prompts of powers of 2, as long as fit."""
    longest = float(request.memory_of(deployment).max_context_tokens)
    prompts = _doublings(min(FIRST_PROMPT, request.prompt_tokens), longest, request.prompt_tokens)
    timing = request.first(deployment, prompts)
    grid = {"batch": np.full_like(prompts, request.batch), "n_new": prompts, "n_past": np.zeros_like(prompts)}
    points = _points(timing, prompts, asked=request.prompt_tokens, fits=prompts <= longest, grid=grid)
    return Path(phase="prefill", swept="prompt", points=points)


def _doublings(first: float, last: float, asked: float) -> Any:
    """first, 2·first, … up to `last`, and the asked value among them."""
    n = int(np.floor(np.log2(last / first))) + 1 if last >= first else 0
    return np.unique(np.append(first * 2.0 ** np.arange(n), asked))


def _points(timing: Timing, values: Any, *, asked: float, fits: Any, grid: dict[str, Any]) -> tuple[Point, ...]:
    shape = np.shape(values)
    rate = np.broadcast_to(timing.executed_flops / timing.seconds, shape)
    intensity, seconds = np.broadcast_to(timing.intensity, shape), np.broadcast_to(timing.seconds, shape)
    bound = np.broadcast_to(timing.bound, shape)
    return tuple(
        Point(
            value=float(value),
            **{name: float(column[i]) for name, column in grid.items()},
            intensity=float(intensity[i]),
            flops_per_s=float(rate[i]),
            seconds=float(seconds[i]),
            bound=str(bound[i]),
            asked=bool(value == asked),
            fits=bool(fits[i]),
        )
        for i, value in enumerate(values)
    )
