"""What the breakdown shows, as numbers: of each phase its ops, the slowest first, and what binds them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from roofline.specs.deployment import Deployment
from roofline.timing.clock import Timing
from roofline.views.plot.request import Phase, Request

__all__ = ["OpBar", "PhaseBars", "bars_of"]

LEAST = 0.02  # of a phase: less is told together
MOST = 14


@dataclass(frozen=True, slots=True, kw_only=True)
class OpBar:
    """One op of a pass, all its layers: its time, and that of the resource that does not bind it  [s].

    `n` ops are told together; where it is more than one, what else they wait for is not told.
    """

    name: str
    seconds: float
    other_s: float
    bound: str
    share: float
    n: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseBars:
    """The ops of a phase, slowest first, those that take little together last. `seconds` is the pass  [s]."""

    deployment: Deployment
    phase: Phase
    bars: tuple[OpBar, ...]
    seconds: float
    by_bound: dict[str, float]

    @property
    def binds(self) -> tuple[str, float]:
        """What binds most of the time, and its share  [1]."""
        bound = max(self.by_bound, key=lambda name: self.by_bound[name])
        return bound, self.by_bound[bound]

    def to_frame(self) -> Any:
        """One row a bar, as a pandas DataFrame."""
        import pandas as pd

        names = ("name", "seconds", "other_s", "bound", "share", "n")
        return pd.DataFrame([{"phase": self.phase} | {n: getattr(bar, n) for n in names} for bar in self.bars])


def bars_of(deployment: Deployment, request: Request) -> tuple[PhaseBars, ...]:
    """The phases of a request."""
    return tuple(_phase(deployment, phase, timing) for phase, timing in request.passes(deployment).items())


def _phase(deployment: Deployment, phase: Phase, timing: Timing) -> PhaseBars:
    towers = {tower.kind for tower in deployment.model.towers}
    found = [*_named(timing.by_op(), towers), *_waiting(deployment, timing)]
    whole = sum(bar.seconds for bar in found)
    found = [
        OpBar(name=b.name, seconds=b.seconds, other_s=b.other_s, bound=b.bound, share=b.seconds / whole) for b in found
    ]
    found.sort(key=lambda bar: -bar.seconds)
    by_bound: dict[str, float] = {}
    for bar in found:
        by_bound[bar.bound] = by_bound.get(bar.bound, 0.0) + bar.share
    kept = [bar for bar in found if bar.share >= LEAST][:MOST]
    rest = [bar for bar in found if bar not in kept and bar.seconds > 0.0]
    seconds = float(timing.seconds)
    return PhaseBars(
        deployment=deployment, phase=phase, bars=(*kept, *_together(rest)), seconds=seconds, by_bound=by_bound
    )


def _named(rows: Iterable[dict[str, Any]], towers: Collection[str]) -> list[OpBar]:
    """Ops by their names: those of several stages and of several groups of layers added up, those of a tower apart."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        first, *_, last = parts if len(parts := row["name"].split(".")) > 1 else ("", row["name"])
        found.setdefault(f"{first}.{last}" if first in towers else last, []).append(row)
    bars = []
    for name, alike in found.items():
        seconds, compute, memory, link = (
            sum(float(row[key]) for row in alike) for key in ("seconds", "compute_s", "memory_s", "link_s")
        )
        bound = "link" if link > max(compute, memory) else "compute" if compute >= memory else "memory"
        other = 0.0 if bound == "link" else min(compute, memory)
        bars.append(OpBar(name=name, seconds=seconds, other_s=other, bound=bound, share=0.0))
    return bars


def _waiting(deployment: Deployment, timing: Timing) -> list[OpBar]:
    """What no op takes: waiting for another memory, and what the engine does for each sequence."""
    tier = float(timing.tier_exposed_s)
    found = [] if tier <= 0.0 else [OpBar(name="offload", seconds=tier, other_s=0.0, bound="tier", share=0.0)]
    b = timing.efficiency.sequence_s
    left = float(timing.seconds) - tier - sum(float(row["seconds"]) for row in timing.by_op())
    if b > 0.0 and deployment.plan.pp == 1 and left > 0.0:
        found.append(OpBar(name="host", seconds=left, other_s=0.0, bound="overhead", share=0.0))
    return found


def _together(rest: list[OpBar]) -> list[OpBar]:
    if not rest:
        return []
    longest = max(rest, key=lambda bar: bar.seconds)
    total, share = sum(bar.seconds for bar in rest), sum(bar.share for bar in rest)
    return [OpBar(name="", seconds=total, other_s=0.0, bound=longest.bound, share=share, n=len(rest))]
