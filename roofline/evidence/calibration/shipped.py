"""The files that ship: efficiencies with their evidence for floor 3, and what every fold predicted, for the accuracy tables.

`write` makes both from the packaged measurements, sorted, so that they come out the same; numbers are rounded to four
digits, below which the optimiser's last steps differ from machine to machine.
"""

from __future__ import annotations

import csv
import io
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from roofline.evidence.calibration.folds import REGIMES, Fitted, Fold, fit_all, folds_of, of_kind, prior_of
from roofline.evidence.calibration.kinds import KINDS, OWN_FACTS
from roofline.evidence.calibration.lots import Lot, lot_of
from roofline.evidence.measurements import DATA, Measurement, measurements
from roofline.specs import catalog
from roofline.timing.efficiency import Efficiency
from roofline.timing.shipped import quantile_rank

__all__ = ["EFFICIENCIES", "FOLDS", "Predicted", "conformal", "lots_of", "make", "predicted", "write"]

EFFICIENCIES = Path(__file__).resolve().parents[2] / "timing" / "efficiencies.json"
FOLDS = DATA / "folds.csv"
DIGITS = 4
IDEAL_BAND = 0.8
WHATS = ("ttft", "tpot", "e2e")
BAND_OF = {"model": "measured", "hardware": "unseen hardware", "engine": "unseen engine"}
LEAST_OF_A_BAND = 20

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Predicted:
    """A measurement as a fold predicted it  [s]."""

    regime: str
    row: Measurement
    value: float
    predicted: float
    floor: float


def lots_of(rows: Iterable[Measurement], progress: Progress | None = None) -> dict[str, Lot]:
    """The static rows of every group, counted."""
    groups: dict[str, list[Measurement]] = defaultdict(list)
    for row in rows:
        if row.load == "static":
            groups[row.group].append(row)
    found = {}
    for name in sorted(groups):
        if progress:
            progress(f"counting {name}")
        found[name] = lot_of(groups[name])
    return found


def make(rows: Sequence[Measurement], progress: Progress | None = None) -> tuple[dict[str, Any], list[Predicted]]:
    """The efficiencies as they ship, and every fold's predictions, of measurements in any order."""
    lots = lots_of(sorted(rows, key=_order), progress)
    engines = fit_all(lots)
    found = []
    for fold in folds_of(engines):
        if progress:
            progress(f"held out: {fold.regime}, {fold.group}")
        found.extend(_rows_of(fold, lots[fold.group]))
    return _table(engines, lots, found), found


def _order(row: Measurement) -> tuple[Any, ...]:
    return tuple(getattr(row, name) for name in Measurement.__slots__)


def _rows_of(fold: Fold, lot: Lot) -> list[Predicted]:
    return [
        Predicted(fold.regime, lot.rows[i], float(lot.values[i]), _rounded(float(p)), _rounded(float(lot.floors[i])))
        for i, p in zip(fold.places, fold.predicted, strict=True)
    ]


def _table(engines: Sequence[Fitted], lots: Mapping[str, Lot], found: Sequence[Predicted]) -> dict[str, Any]:
    errors = _errors(found)
    table: dict[str, Any] = {
        "schema": 1,
        "n_rows": sum(len(lot) for lot in lots.values()),
        "bands": _bands(found),
        "off": _off(found),
        "facts": {name: dict(facts) for name, facts in sorted(OWN_FACTS.items())},
        "kinds": {},
        "engines": {},
        "groups": {},
    }
    for name, kind in KINDS.items():
        members = [x for x in engines if x.kind_name == name]
        table["kinds"][name] = {"efficiency": _plain(prior_of(kind, of_kind(members, kind)))}
    for one in engines:
        table["engines"][one.engine] = _engine(one)
        for group, fit in one.fits.items():
            table["groups"][group] = _group(one, group, lots[group], errors) | {
                "efficiency": _plain(fit.efficiency), "at_prior": sorted(fit.at_prior),
            }  # fmt: skip
    return table


def _engine(one: Fitted) -> dict[str, Any]:
    return {
        "kind": one.kind_name,
        "n_groups": len(one.fits),
        "efficiency": _plain(prior_of(one.kind, one.shared)),
        "classes": {name: _plain(prior_of(one.kind, prior)) for name, prior in one.classes.items()},
    }


def _group(one: Fitted, group: str, lot: Lot, errors: Mapping[tuple[str, str], dict[str, Any]]) -> dict[str, Any]:
    engine = catalog.engine(one.engine)
    versions = sorted({row.version for row in lot.rows})
    dates = sorted({row.date for row in lot.rows if row.date})
    held = {regime: errors[regime, group] for regime in ("model", "hardware") if (regime, group) in errors}
    return {
        "name": engine.name,
        "n_rows": len(lot),
        "models": sorted({row.model for row in lot.rows}),
        "versions": versions,
        "sources": sorted({row.source for row in lot.rows}),
        "dates": [dates[0], dates[-1]] if dates else [],
        "held_out": held,
    }


def _errors(found: Iterable[Predicted]) -> dict[tuple[str, str], dict[str, Any]]:
    """Median absolute error of every group in every regime, by what is estimated."""
    collected: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for p in found:
        collected[p.regime, p.row.group][_what(p)].append(abs(p.predicted / p.value - 1.0))
    return {
        key: {w: {"median": _rounded(float(np.median(e))), "n": len(e)} for w, e in sorted(by.items())}
        for key, by in collected.items()
    }


def _what(p: Predicted) -> str:
    return {"ttft_s": "ttft", "tpot_s": "tpot"}.get(p.row.metric, "e2e")


def conformal(errors: Sequence[float]) -> float:
    """The factor that holds `NOMINAL` of what comes next: of |ln(predicted / measured)| the error of that rank, as exp."""
    ordered = np.sort(np.abs(np.asarray(errors, dtype=np.float64)))
    return float(np.exp(ordered[quantile_rank(len(ordered)) - 1]))


def _bands(found: Sequence[Predicted]) -> dict[str, Any]:
    logs: dict[tuple[str, str], list[float]] = defaultdict(list)
    ideal: dict[str, list[float]] = defaultdict(list)
    for p in found:
        logs[p.regime, _what(p)].append(float(np.log(p.predicted / p.value)))
        if p.regime == "in-sample":
            ideal[_what(p)].append(p.value / p.floor)
    bands: dict[str, Any] = {"given": {}}
    for regime, name in BAND_OF.items():
        factors = {w: conformal(logs[regime, w]) for w in WHATS if len(logs[regime, w]) >= LEAST_OF_A_BAND}
        bands[name] = {w: {"low": _rounded(1.0 / f), "high": _rounded(f)} for w, f in factors.items()}
    bands["ideal"] = {
        w: {"low": 1.0, "high": _rounded(float(np.quantile(r, IDEAL_BAND)))} for w, r in sorted(ideal.items())
    }
    return bands


def _off(found: Sequence[Predicted]) -> dict[str, Any]:
    """The median absolute error of what was held out, by regime and what is estimated."""
    errors: dict[tuple[str, str], list[float]] = defaultdict(list)
    for p in found:
        errors[p.regime, _what(p)].append(abs(p.predicted / p.value - 1.0))
    return {
        name: {w: _rounded(float(np.median(errors[regime, w]))) for w in WHATS if errors[regime, w]}
        for regime, name in BAND_OF.items()
    }


def _plain(efficiency: Efficiency) -> dict[str, Any]:
    return {n: v if v is None else _rounded(v) for n, v in efficiency.model_dump().items()}


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def write(progress: Progress | None = None) -> tuple[Path, Path]:
    """Refits everything from the packaged measurements and rewrites the shipped files, each whole or not at all."""
    table, found = make(measurements(), progress)
    _replace(EFFICIENCIES, json.dumps(table, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
    place = {row: i for i, row in enumerate(measurements())}
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("regime", "row", "predicted_s", "floor_s"))
    key = sorted(found, key=lambda p: (REGIMES.index(p.regime), place[p.row]))
    writer.writerows((p.regime, place[p.row], f"{p.predicted:.{DIGITS}g}", f"{p.floor:.{DIGITS}g}") for p in key)
    _replace(FOLDS, text.getvalue())
    return EFFICIENCIES, FOLDS


def _replace(path: Path, text: str) -> None:
    beside = path.with_suffix(path.suffix + ".new")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)


def predicted() -> tuple[Predicted, ...]:
    """What the shipped folds predicted of the packaged measurements."""
    rows = measurements()
    with FOLDS.open(encoding="utf-8", newline="") as stream:
        return tuple(
            Predicted(line["regime"], row := rows[int(line["row"])], row.value, float(line["predicted_s"]),
                      float(line["floor_s"]))
            for line in csv.DictReader(stream)
        )  # fmt: skip
