"""How right the estimates are: what every fold predicted of the packaged measurements, held against what was measured.

    error = |predicted / measured − 1|      bias = median(predicted / measured) − 1      coverage = share inside an interval

Errors are of times; those of a static batch ("e2e") are also those of its throughput, to first order. The packaged folds
are read, not made again: `refit=True` fits all of them anew.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from roofline.errors import SpecError, did_you_mean, shown
from roofline.evidence.accuracy.records import BYS, HELD_OUT, WHATS, Accuracy, BelowFloor, By, Coverage, Errors
from roofline.evidence.calibration import shipped
from roofline.evidence.calibration.folds import REGIMES
from roofline.evidence.calibration.shipped import BAND_OF, Predicted, conformal
from roofline.evidence.measurements import Measurement, measurements, what_of
from roofline.evidence.saturation import saturated_of
from roofline.specs import catalog
from roofline.timing.shipped import NOMINAL, hardware_class

__all__ = [
    "BYS", "HELD_OUT", "REGIMES", "WHATS", "Accuracy", "BelowFloor", "By", "Coverage", "Errors", "accuracy", "accuracy_of",
    "name_of", "regime_named", "selected",
]  # fmt: skip

M5_MAX = "m5-max"

Progress = Callable[[str], None]
Floats = NDArray[np.float64]


def accuracy(
    *, regime: str = "model", saturated: bool = False, refit: bool = False, progress: Progress | None = None
) -> Accuracy:
    """How far the estimates are off, by what was held out, engine, machine and phase, and how much the intervals hold.

    Parameters
    ----------
    regime : "in-sample", "model", "tp", "hardware" or "engine"
        What is held out in the tables by engine, machine and phase.
    saturated : bool
        Also predict saturated throughput, which takes some ten seconds.
    refit : bool
        Fit all folds again from the packaged measurements, which takes minutes and needs scipy.
    progress : callable, optional
        Told what is being done, once a step.

    Returns
    -------
    Accuracy
        With `to_frame()`, `to_dict()` and `to_markdown()`.

    Examples
    --------
    >>> found = accuracy()
    >>> len(found.below_floor), found.by_regime[0].regime, found.n_measurements > 2000
    (0, 'in-sample', True)
    """
    wanted = regime_named(regime)
    rows = measurements()
    found = shipped.make(rows, progress)[1] if refit else shipped.predicted()
    crowded = [m for m in rows if m.load == "saturated"] if saturated else []
    return accuracy_of(found, regime=wanted, saturated=_saturated(crowded, progress), n_measurements=len(rows))


def accuracy_of(
    found: Sequence[Predicted], *, regime: str = "model", saturated: tuple[Errors, ...] = (), n_measurements: int = 0
) -> Accuracy:
    """The same of predictions in hand."""
    if not found:
        raise SpecError("accuracy: expected predictions of measurements, got none")
    chosen = [p for p in found if p.regime == regime]
    held_in = [p for p in found if p.regime == "in-sample"]
    ratios = [p.value / p.floor for p in held_in]
    below = tuple(_below(p) for p in held_in if p.value < p.floor)
    return Accuracy(
        regime=regime,
        n_measurements=n_measurements or len(held_in),
        by_regime=tuple(e for name in REGIMES for e in _regime(found, name)),
        by={name: _table(chosen, name) for name in BYS},
        coverage=tuple(c for name in BAND_OF for c in _coverages([p for p in found if p.regime == name], name)),
        below_floor=below,
        n_floor_rows=len(held_in),
        least_over_floor=min(ratios),
        m5_max=_m5_max(found),
        saturated=saturated,
    )


def regime_named(name: str) -> str:
    """A regime's name, or an error that lists them."""
    if name not in REGIMES:
        raise SpecError(f"regime: expected {', '.join(REGIMES)}, got {shown(name)}{did_you_mean(str(name), REGIMES)}")
    return name


def selected(*, regime: str = "model", what: str | None = None) -> tuple[Predicted, ...]:
    """The packaged predictions of a regime, and of one kind of estimate."""
    wanted = regime_named(regime)
    if what is not None and what not in WHATS:
        raise SpecError(f"what: expected {', '.join(WHATS)}, got {shown(what)}{did_you_mean(str(what), WHATS)}")
    return tuple(p for p in shipped.predicted() if p.regime == wanted and what in (None, what_of(p.row)))


def name_of(row: Measurement, by: str) -> str:
    """What a measurement is counted under: its engine, class of machine, machine, phase, or engine and machine.

    >>> [name_of(measurements()[0], by) for by in ("engine", "hardware", "chip", "phase")]
    ['vllm-0.7', 'hbm', 'a100-sxm-40gb', 'decode, one sequence']
    """
    match by:
        case "engine":
            return row.engine
        case "hardware":
            return _class_of(row.hardware)
        case "chip":
            return row.hardware
        case "group":
            return row.group
        case "phase":
            several = row.batch > 1
            return {"ttft": f"prefill, {'several prompts' if several else 'one prompt'}",
                    "tpot": f"decode, {'several sequences' if several else 'one sequence'}",
                    "e2e": "whole requests"}[what_of(row)]  # fmt: skip
    raise SpecError(f"by: expected {', '.join(BYS)}, got {shown(by)}{did_you_mean(str(by), BYS)}")


@lru_cache(maxsize=256)
def _class_of(chip: str) -> str:
    return hardware_class(catalog.hardware(chip))


def _regime(found: Iterable[Predicted], regime: str) -> Iterable[Errors]:
    rows = [p for p in found if p.regime == regime]
    for what in WHATS:
        mine = [p for p in rows if what_of(p.row) == what]
        if mine:
            yield _errors(mine, by="regime", name=regime, what=what)


def _table(found: Iterable[Predicted], by: str) -> tuple[Errors, ...]:
    kept: dict[tuple[str, int], list[Predicted]] = defaultdict(list)
    order = list(WHATS)
    for p in found:
        kept[name_of(p.row, by), order.index(what_of(p.row))].append(p)
    return tuple(_errors(rows, by=by, name=name, what=order[i]) for (name, i), rows in sorted(kept.items()))


def _errors(found: Sequence[Predicted], *, by: str, name: str, what: str) -> Errors:
    ratios = np.asarray([p.predicted / p.value for p in found])
    groups = {p.row.group for p in found}
    return _summary(ratios, regime=found[0].regime, by=by, name=name, what=what, n_groups=len(groups))


def _summary(ratios: Floats, *, regime: str, by: str, name: str, what: str, n_groups: int) -> Errors:
    off = np.abs(ratios - 1.0)
    return Errors(
        regime=regime, by=by, name=name, what=what, median=float(np.median(off)), p90=float(np.quantile(off, 0.9)),
        bias=float(np.median(ratios)) - 1.0, n_rows=len(ratios), n_groups=n_groups,
    )  # fmt: skip


def _m5_max(found: Iterable[Predicted]) -> tuple[Errors, ...]:
    """Prefill and decode of each engine on an M5 Max, one model held out."""
    own = [p for p in found if p.regime == "model" and p.row.hardware.startswith(M5_MAX)]
    return tuple(
        _errors(rows, by="m5-max", name=engine, what=what)
        for engine in sorted({p.row.engine for p in own})
        for what in ("ttft", "tpot")
        if (rows := [p for p in own if p.row.engine == engine and what_of(p.row) == what])
    )


def _coverages(found: Sequence[Predicted], regime: str) -> Iterable[Coverage]:
    """Of each kind of estimate, and of all: every group in the interval that all other groups set."""
    inside: dict[str, list[bool]] = defaultdict(list)
    for what in WHATS:
        off: dict[str, list[float]] = defaultdict(list)
        for p in found:
            if what_of(p.row) == what:
                off[p.row.group].append(abs(float(np.log(p.predicted / p.value))))
        if len(off) < 2:
            continue
        held = {name: [bool(e <= _width(off, name)) for e in mine] for name, mine in off.items()}
        for name, hits in held.items():
            inside[name] += hits
        yield _coverage(held, regime, what, conformal([e for mine in off.values() for e in mine]))
    if inside:
        yield _coverage(inside, regime, "all", None)


def _width(off: Mapping[str, Sequence[float]], left_out: str) -> float:
    """Half the width of the interval [ln] that all groups but one ask for."""
    return float(np.log(conformal([e for name, mine in off.items() if name != left_out for e in mine])))


def _coverage(held: Mapping[str, Sequence[bool]], regime: str, what: str, factor: float | None) -> Coverage:
    shares = {name: float(np.mean(hits)) for name, hits in held.items()}
    least = min(sorted(shares), key=lambda name: (shares[name], -len(held[name])))
    rows = [hit for hits in held.values() for hit in hits]
    return Coverage(
        regime=regime, band=BAND_OF[regime], what=what, nominal=NOMINAL, coverage=float(np.mean(rows)),
        median_group=float(np.median(list(shares.values()))), least_group=shares[least],
        least_name=least, n_least_rows=len(held[least]),
        factor=factor, n_rows=len(rows), n_groups=len(held),
    )  # fmt: skip


def _below(p: Predicted) -> BelowFloor:
    r = p.row
    where = f"{r.source} {r.where}: {r.model} {r.weights} on {r.hardware} {r.plan}, {r.engine}, batch {r.batch:.0f}"
    return BelowFloor(row=f"{where}, prompt {r.prompt_tokens:.0f}, {r.metric}", value_s=p.value, floor_s=p.floor)


def _saturated(rows: Sequence[Measurement], progress: Progress | None) -> tuple[Errors, ...]:
    """Saturated throughput over measured, of every machine and version of the engine, and of all."""
    ratios: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for m in rows:
        if progress:
            progress(f"saturated: {m.model} on {m.hardware}")
        best = saturated_of(m)
        if best is not None:
            one = (best.tokens_per_s / m.value, m.group)
            ratios[f"{m.hardware}, {m.version.partition(' (')[0]}"].append(one)
            ratios["all"].append(one)
    return tuple(
        _summary(np.asarray([ratio for ratio, _ in pairs]), regime="saturated", by="saturated", name=name,
                 what="saturated", n_groups=len({group for _, group in pairs}))
        for name, pairs in sorted(ratios.items(), key=lambda item: (item[0] != "all", item[0]))
    )  # fmt: skip
