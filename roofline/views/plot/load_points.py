"""What the load curve draws, as numbers: a service along the rate, simulated points on it, the knee, the promise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roofline.answers.serving import Serving
from roofline.answers.serving.knee import knee, meets_up_to
from roofline.errors import SpecError, shown
from roofline.specs.deployment import Deployment
from roofline.specs.slo import SLO

__all__ = ["SHARES", "Floats", "LoadCurve", "Simulated", "load_points"]

Floats = NDArray[np.float64]

SHARES = ("p50", "p95")
LEAST_RATES = 8
NEAR_ZERO = 0.1  # of saturation: a lowest rate that stands for no load
MOST_REST = 0.2  # the same of simulated points
SCALARS = ("saturation_per_s", "fits", "rejected", "preemptions")  # of a Serving at several rates


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """Points that were simulated: their rates [1/s], times and errors by name [s]."""

    rates: Floats
    times: dict[str, Floats]
    errors: dict[str, Floats]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadCurve:
    """A service along the rate.

    Attributes
    ----------
    rates, times, trusted : array, dict, array of bool
        Stable rates in order, times at them by name, and whether the closed form is trusted there [1/s, s].
    saturation, knee, up_to : float, or None
        Where the queue begins to grow for ever; the first rate with p95 TTFT over twice that of no load; the rate up to
        which the SLO is kept, none without one [1/s].
    idle_s, judged_to : float
        p95 TTFT of no load [s]; the highest rate that knee and promise were looked for at [1/s].
    by_points : bool
        Whether knee and promise are those of the simulated points, which begin near no load.
    """

    deployment: Deployment
    n_replicas: int
    rates: Floats
    times: dict[str, Floats]
    trusted: NDArray[np.bool_]
    saturation: float
    knee: float | None
    up_to: float | None
    idle_s: float
    judged_to: float
    by_points: bool
    simulated: Simulated | None
    slo: SLO | None

    def time(self, kind: str, share: str) -> Floats:
        """TTFT or TPOT at a percentile  [s]."""
        return self.times[f"{kind}_{share}_s"]

    def limits(self, kind: str) -> dict[str, float]:
        """What is promised of a kind of time, by the percentiles that are drawn  [s]."""
        given = {} if self.slo is None else self.slo.limits
        return {share: given[name] for share in SHARES if (name := f"{kind}_{share}_s") in given}

    def to_frame(self, kind: str) -> Any:
        """One row a rate of the lines, then one a simulated point, as a pandas DataFrame."""
        import pandas as pd

        names = [f"{kind}_{share}_s" for share in SHARES]
        line = pd.DataFrame({"series": "line", "rate_per_s": self.rates} | {n: self.times[n] for n in names})
        line["trusted"] = self.trusted
        if self.simulated is None:
            return line
        points = pd.DataFrame({"series": "simulated", "rate_per_s": self.simulated.rates, "trusted": True})
        for name in names:
            points[name] = self.simulated.times[name]
            if name in self.simulated.errors:
                points[f"{name.removesuffix('_s')}_error_s"] = self.simulated.errors[name]
        return pd.concat([line, points], ignore_index=True)


def load_points(serving: Any, simulated: Any = None, slo: Any = None) -> LoadCurve:
    """The curve of a service at many rates, with its simulated points and its promise."""
    if not isinstance(serving, Serving):
        raise SpecError(
            f"load_curve: expected a Serving, got {shown(serving)}; make one with serve(d, w, rate_per_s=[…])"
        )
    if slo is not None and not isinstance(slo, SLO):
        raise SpecError(f"load_curve(slo): expected an SLO, got {shown(slo)}; make one with SLO(ttft_p95_s=1.0)")
    if not serving.fits:
        raise SpecError("load_curve: no request fits on this deployment, so there is no curve")
    rates = np.atleast_1d(np.asarray(serving.rate_per_s, dtype=np.float64)).ravel()
    stable = np.atleast_1d(np.asarray(serving.stable)).ravel()
    order = np.argsort(rates)
    kept = order[stable[order]]
    if kept.size < LEAST_RATES:
        raise SpecError(
            f"load_curve: expected at least {LEAST_RATES} rates below saturation ({serving.saturation_per_s:.3g}/s), got "
            f"{kept.size}; ask serve with np.linspace(0.02, 0.99, 100) times that"
        )
    if rates[kept[0]] > NEAR_ZERO * serving.saturation_per_s:
        raise SpecError(
            f"load_curve: expected a lowest rate near 0, which the knee is told by, got {rates[kept[0]]:.3g}/s of "
            f"{serving.saturation_per_s:.3g}/s"
        )
    names = [f"{kind}_{share}_s" for kind in ("ttft", "tpot") for share in SHARES]
    times = {name: np.atleast_1d(np.asarray(getattr(serving, name), dtype=np.float64)).ravel()[kept] for name in names}
    if not times["tpot_p95_s"].any():
        raise SpecError("load_curve: answers of one token have no TPOT to draw; ask serve for their TTFT")
    trusted = np.asarray(np.atleast_1d(np.asarray(serving.why)).ravel()[kept] == "")
    points = None if simulated is None else _simulated(simulated)
    most = serving.saturation_per_s
    by_points = points is not None and points.rates.size > 2 and bool(points.rates[0] <= MOST_REST * most)
    judged = _joined(simulated) if by_points else serving
    last = float(points.rates[-1]) if points is not None and by_points else float(rates[kept[-1]])
    return LoadCurve(
        deployment=serving.deployment, n_replicas=serving.n_replicas, rates=rates[kept], times=times, trusted=trusted,
        saturation=most, knee=knee(judged), up_to=None if slo is None else meets_up_to(judged, slo),
        idle_s=_ttft_at_rest(judged), judged_to=last, by_points=by_points, simulated=points, slo=slo,
    )  # fmt: skip


def _ttft_at_rest(serving: Serving) -> float:
    """p95 TTFT at the lowest rate  [s]."""
    lowest = int(np.argmin(serving.rate_per_s))
    return float(np.atleast_1d(np.asarray(serving.ttft_p95_s)).ravel()[lowest])


def _members(given: Any) -> list[Serving]:
    members = [given] if isinstance(given, Serving) else list(given) if isinstance(given, Sequence) else []
    if not members or not all(isinstance(one, Serving) for one in members):
        raise SpecError(f"load_curve(simulated): expected a Serving or several, got {shown(given)}")
    return members


def _simulated(given: Any) -> Simulated:
    """Stable points of a Serving at several rates, or of several at one."""
    rows = []
    names = [f"{kind}_{share}_s" for kind in ("ttft", "tpot") for share in SHARES]
    for one in _members(given):
        rates = np.atleast_1d(np.asarray(one.rate_per_s, dtype=np.float64)).ravel()
        by = np.atleast_1d(np.asarray(one.method, dtype=object)).ravel()
        for i in np.flatnonzero(np.atleast_1d(np.asarray(one.stable)).ravel()):
            if by[i] != "simulation":
                raise SpecError('load_curve(simulated): expected simulations; ask serve with method="simulation"')
            at = {n: float(np.atleast_1d(np.asarray(getattr(one, n))).ravel()[i]) for n in names}
            off = {n: float(np.atleast_1d(np.asarray(one.errors[n])).ravel()[i]) for n in names if n in one.errors}
            rows.append((float(rates[i]), at, off))
    rows.sort(key=lambda row: row[0])
    known = [n for n in names if rows and all(n in off for _, _, off in rows)]
    return Simulated(
        rates=np.array([rate for rate, _, _ in rows]), times={n: np.array([at[n] for _, at, _ in rows]) for n in names},
        errors={n: np.array([off[n] for _, _, off in rows]) for n in known},
    )  # fmt: skip


def _joined(given: Any) -> Serving:
    """Several at one rate as one at several."""
    members = _members(given)
    if len(members) == 1:
        return members[0]
    from dataclasses import fields, replace

    columns: dict[str, Any] = {}
    for f in fields(Serving):
        values = [getattr(one, f.name) for one in members]
        if f.name not in ("saturation_per_s", "fits", "rejected", "preemptions") and isinstance(
            values[0], (float, str, bool)
        ):
            columns[f.name] = np.array(values)
    return replace(members[0], errors={}, preemptions=None, **columns)
