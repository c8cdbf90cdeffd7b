"""Fits: the efficiency that makes a lot of measurements most likely, drawn to what is believed where they say little.

    minimise  Σ log(1 + (ln(predicted / measured) / s)²) + Σ ((z − centre) / width)²,   s = 0.1

in the space of `kinds`. A figure off by much more than s pulls no harder than one off by s: publications hold some that no
law of theirs explains. The groups of one engine are fitted twice, the second time around what they have in common.

References: Holland, Welsch 1977, doi:10.1080/03610927708827533 (Cauchy weights); Morris 1983,
doi:10.1080/01621459.1983.10477920 (shrinking to a common mean).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roofline.errors import SpecError
from roofline.evidence.calibration.kinds import Kind, Prior, efficiency_of, from_fit_space, to_fit_space
from roofline.evidence.calibration.lots import Lot
from roofline.timing.efficiency import Efficiency

__all__ = ["Fit", "common", "fit", "fit_groups"]

SCALE = 0.1
MOVED = 0.25
"""A parameter whose width the data have narrowed by less than this share stays at its prior, and is flagged."""
LEAST_ROWS = 4  # of a group that counts for what its engine's groups have in common
BELIEF = 0.5  # groups that a prior counts for
LEAST_WIDTH = 0.1

_ENDS: Mapping[str, Any] = {"max_nfev": 60, "ftol": 1e-6, "xtol": 1e-6}
_LAST_ENDS: Mapping[str, Any] = {"max_nfev": 500, "ftol": 1e-14, "xtol": 1e-12, "gtol": 1e-14}
_BARELY = 1e-9  # of a prior, where there is none, so that what nothing was measured of has a deviation at all

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Fit:
    """An efficiency, its point in the space of the fit by name, and the parameters the measurements did not settle.

    `left` is how much of each parameter's width is left after the measurements, the prior included [1].
    """

    efficiency: Efficiency
    point: Mapping[str, float]
    at_prior: tuple[str, ...]
    n_rows: int
    left: Mapping[str, float] = field(default_factory=dict)


def fit(lot: Lot, kind: Kind, *, rows: Mask | None = None, prior: Prior | None = None, start: Fit | None = None,
        scale: float = SCALE, prior_weight: float = 1.0) -> Fit:  # fmt: skip
    """The efficiency of the rows of a lot (all by default).

    `prior_weight` multiplies the prior's pull: with 0 the fit only begins there, and goes on until nothing is left to gain.
    """
    optimise = _optimiser()
    chosen = np.ones(len(lot), dtype=bool) if rows is None else rows
    believed = prior or kind.prior
    names = tuple(kind.prior)
    centre = np.array([to_fit_space(n, believed[n][0]) for n in names])
    width = np.array([believed[n][1] for n in names])
    measured = np.log(lot.values[chosen])

    def residuals(point: NDArray[np.float64]) -> NDArray[np.float64]:
        off = (np.log(lot.predict(efficiency_of(kind, names, point))[chosen]) - measured) / scale
        return np.concatenate([np.sign(off) * np.sqrt(np.log1p(off * off)), prior_weight * ((point - centre) / width)])

    first = centre if start is None else np.array([start.point[n] for n in names])
    ends = _ENDS if prior_weight else _LAST_ENDS
    found = optimise(residuals, first, method="trf", x_scale=width, **ends)
    known = found.jac.T @ found.jac + (0.0 if prior_weight else np.diag(_BARELY / width**2))
    deviations = np.sqrt(np.diag(np.linalg.inv(known)))
    loose = tuple(n for n, d, w in zip(names, deviations, width, strict=True) if d > (1.0 - MOVED) * w)
    point = {n: float(z) for n, z in zip(names, found.x, strict=True)}
    efficiency = Efficiency(**efficiency_of(kind, names, found.x).model_dump())
    left = {n: float(d / w) for n, d, w in zip(names, deviations, width, strict=True)}
    return Fit(efficiency, point, loose, int(chosen.sum()), left)


def common(fits: Iterable[Fit], prior: Prior, names: Iterable[str]) -> Prior:
    """What fits have in common: means and spreads, with the prior as half a fit more."""
    found: dict[str, tuple[float, float]] = {}
    points = [one.point for one in fits]
    for name in names:
        centre, width = to_fit_space(name, prior[name][0]), prior[name][1]
        z = np.array([point[name] for point in points])
        mean = (z.sum() + centre * BELIEF) / (len(z) + BELIEF)
        spread = np.sqrt((((z - mean) ** 2).sum() + BELIEF * width**2) / (len(z) + BELIEF))
        found[name] = (from_fit_space(name, float(mean)), max(float(spread), LEAST_WIDTH))
    return found


def fit_groups(
    lots: Mapping[str, Lot],
    kind: Kind,
    *,
    rows: Mapping[str, Mask] | None = None,
    first: Mapping[str, Fit] | None = None,
) -> tuple[dict[str, Fit], Prior]:
    """Fits of all groups of an engine, and what they have in common.

    Every first fit starts at the prior, so that a fold owes nothing to what was left out of it. `first` holds those of
    whole groups, where they are known already.
    """
    chosen = {name: np.ones(len(lot), dtype=bool) for name, lot in lots.items()} if rows is None else rows
    used = {name: lot for name, lot in lots.items() if chosen[name].any()}
    known = {name: one for name, one in (first or {}).items() if name in used and chosen[name].all()}
    alone = {n: known[n] if n in known else fit(lot, kind, rows=chosen[n]) for n, lot in used.items()}
    shared = common(_large(alone), kind.prior, kind.prior)
    second = {n: fit(lot, kind, rows=chosen[n], prior=shared, start=alone[n]) for n, lot in used.items()}
    return second, common(_large(second), kind.prior, kind.prior)


def _large(fits: Mapping[str, Fit]) -> list[Fit]:
    return [one for one in fits.values() if one.n_rows >= LEAST_ROWS] or list(fits.values())


def _optimiser() -> Any:
    try:
        from scipy.optimize import least_squares
    except ImportError:
        raise SpecError('calibrating needs scipy; install it with: pip install "llm-roofline[calibrate]"') from None
    return least_squares
