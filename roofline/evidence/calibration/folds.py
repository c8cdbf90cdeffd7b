"""Folds: every measurement predicted by what was fitted without it, and without what it is held out with.

| regime    | left out of all fits                                   | predicted by                                      |
|-----------|--------------------------------------------------------|---------------------------------------------------|
| in-sample | nothing                                                | its group's fit                                   |
| model     | every row of its model, on every machine of the engine | its group's fit, around what the other rows share |
| tp        | the rows of its number of tensor-parallel ways, in     | the same                                          |
|           | groups that keep at least as many rows as parameters   |                                                   |
| hardware  | its machine                                            | what the engine's other machines have in common   |
| engine    | its engine, all versions of it                         | what the engines of its kind have in common       |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from roofline.evidence.calibration.fitting import Fit, Mask, common, fit, fit_groups
from roofline.evidence.calibration.kinds import KINDS, Kind, Prior, efficiency_of, kind_of, to_fit_space
from roofline.evidence.calibration.lots import Floats, Lot
from roofline.specs import catalog
from roofline.timing.efficiency import Efficiency
from roofline.timing.shipped import hardware_class

__all__ = ["REGIMES", "Fitted", "Fold", "Regime", "fit_all", "folds_of", "prior_of"]

Regime = Literal["in-sample", "model", "tp", "hardware", "engine"]
LEFT_OF_TP = 8
REGIMES: tuple[Regime, ...] = ("in-sample", "model", "tp", "hardware", "engine")


@dataclass(frozen=True, slots=True)
class Fold:
    """Rows of a group by their place in it, held out in a regime, and what was predicted of them  [s]."""

    regime: Regime
    group: str
    places: tuple[int, ...]
    predicted: Floats


@dataclass(frozen=True, slots=True)
class Fitted:
    """An engine fitted to all it has: its kind, its groups' fits, what they have in common, overall and by class.

    `first` are the fits of its groups each by itself, around its kind.
    """

    engine: str
    kind_name: str
    kind: Kind
    lots: Mapping[str, Lot]
    first: Mapping[str, Fit]
    fits: Mapping[str, Fit]
    shared: Prior
    classes: Mapping[str, Prior]
    earlier: Fitted | None = None

    @property
    def family(self) -> str:
        """What it and its other versions have in their names: those are not other engines."""
        return self.engine.partition("-")[0]

    def kind_without(self, left_out: Callable[[Lot], Mask]) -> Kind:
        """Its kind, as an earlier version has it without the rows that are left out there too."""
        before = self.earlier
        if before is None:
            return self.kind
        rows = {name: ~left_out(lot) for name, lot in before.lots.items()}
        if all(kept.all() for kept in rows.values()):
            return self.kind
        _, shared = fit_groups(before.lots, before.kind, rows=rows, first=before.first)
        return kind_of(self.engine, self.kind_name, shared)

    def refitted(
        self, lots: Mapping[str, Lot], kind: Kind, rows: Mapping[str, Mask] | None = None
    ) -> tuple[dict[str, Fit], Prior]:
        """Some of its lots or rows, fitted again; first fits stand where nothing of a group or its kind changed."""
        return fit_groups(lots, kind, rows=rows, first=self.first if kind == self.kind else None)


def fit_all(lots: Mapping[str, Lot]) -> tuple[Fitted, ...]:
    """Every engine of the lots, in order of their names; one that grew out of another after that one, around what it has."""
    names = {lot.rows[0].engine for lot in lots.values()}
    found: dict[str, Fitted] = {}
    for name in sorted(names, key=lambda n: (bool(catalog.engine(n).parameters_from), n)):
        engine = catalog.engine(name)
        own = {group: lot for group, lot in sorted(lots.items()) if lot.rows[0].engine == name}
        earlier = next((found[e] for e in engine.parameters_from if e in found), None)
        kind = kind_of(name, engine.kind or "fused", None if earlier is None else earlier.shared)
        first = {group: fit(lot, kind) for group, lot in own.items()}
        fits, shared = fit_groups(own, kind, first=first)
        classes = by_class(fits, own, shared)
        found[name] = Fitted(name, engine.kind or "fused", kind, own, first, fits, shared, classes, earlier)
    return tuple(found[name] for name in sorted(found))


def by_class(fits: Mapping[str, Fit], lots: Mapping[str, Lot], shared: Prior) -> dict[str, Prior]:
    """What the fits of each class of machines have in common, around what all have."""
    classes: dict[str, list[Fit]] = {}
    for name, one in fits.items():
        classes.setdefault(_class_of(lots[name]), []).append(one)
    return {name: common(members, shared, shared) for name, members in sorted(classes.items())}


def _class_of(lot: Lot) -> str:
    return hardware_class(catalog.hardware(lot.rows[0].hardware))


def prior_of(kind: Kind, shared: Prior) -> Efficiency:
    """The efficiency at the centre of a prior."""
    names = tuple(kind.prior)
    return efficiency_of(kind, names, [to_fit_space(n, shared[n][0]) for n in names])


def folds_of(engines: tuple[Fitted, ...]) -> Iterator[Fold]:
    """All folds of all engines."""
    for one in engines:
        yield from _in_sample(one)
        yield from _by(one, "model", "model")
        yield from _by(one, "tp", "tp")
        yield from _by_hardware(one)
        yield from _by_engine(one, engines)


def _in_sample(one: Fitted) -> Iterator[Fold]:
    for name, lot in one.lots.items():
        yield _fold("in-sample", name, lot, np.ones(len(lot), dtype=bool), one.fits[name].efficiency)


def _by(one: Fitted, regime: Regime, attribute: str) -> Iterator[Fold]:
    """Holding out one value of an attribute after another; groups that have no other row of it left are not predicted."""
    values = {getattr(row, attribute) for lot in one.lots.values() for row in lot.rows}
    for value in sorted(values):
        out = {name: lot.where(attribute, value) for name, lot in one.lots.items()}
        if regime == "tp":  # only where what is left of a group says something of its machine
            out = {name: o if (~o).sum() >= LEFT_OF_TP else np.zeros_like(o) for name, o in out.items()}
        if not any(o.any() for o in out.values()) or all(o.all() for o in out.values()):
            continue
        kind = one.kind_without(partial(Lot.where, attribute=attribute, value=value))
        fits, _ = one.refitted(one.lots, kind, {n: ~o for n, o in out.items()})
        for name, lot in one.lots.items():
            if out[name].any() and name in fits:
                yield _fold(regime, name, lot, out[name], fits[name].efficiency)


def _by_hardware(one: Fitted) -> Iterator[Fold]:
    for name, lot in one.lots.items():
        rest = {n: x for n, x in one.lots.items() if n != name}
        if not rest:
            continue
        kind = one.kind_without(partial(Lot.where, attribute="hardware", value=lot.rows[0].hardware))
        fits, shared = one.refitted(rest, kind)
        prior = by_class(fits, rest, shared).get(_class_of(lot), shared)
        yield _fold("hardware", name, lot, np.ones(len(lot), dtype=bool), prior_of(kind, prior))


def _by_engine(one: Fitted, engines: tuple[Fitted, ...]) -> Iterator[Fold]:
    kind = KINDS[one.kind_name]
    others = [x for x in engines if x.kind_name == one.kind_name and x.family != one.family]
    efficiency = prior_of(kind, of_kind(others, kind))
    for name, lot in one.lots.items():
        yield _fold("engine", name, lot, np.ones(len(lot), dtype=bool), efficiency)


def of_kind(engines: list[Fitted], kind: Kind) -> Prior:
    """What engines of a kind have in common, each counted once; what only some of them fit, from those."""
    found: dict[str, tuple[float, float]] = {}
    for name in kind.prior:
        points = [Fit(x.fits[next(iter(x.fits))].efficiency, {name: to_fit_space(name, x.shared[name][0])}, (), 1)
                  for x in engines if name in x.shared]  # fmt: skip
        found |= common(points, kind.prior, (name,))
    return found


def _fold(regime: Regime, name: str, lot: Lot, rows: Mask, efficiency: Efficiency) -> Fold:
    return Fold(regime, name, tuple(int(i) for i in np.flatnonzero(rows)), lot.predict(efficiency)[rows])
