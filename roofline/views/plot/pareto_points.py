"""What the Pareto figure draws, as numbers: rows of a search, and of those that keep the promise the front."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roofline.errors import SpecError, shown
from roofline.num import undominated

__all__ = ["Front", "Point", "front_of"]

X, Y = "tokens_per_s_per_user", "output_tokens_per_s_per_chip"
NAMES = (X, Y, "label", "meets")
MOST_TABLE = 8
MOST_SINGLE = 1000  # points that are drawn one by one

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A point of the front: speed of a user [token/s], output of a chip [token/s], its name."""

    x: float
    y: float
    label: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Front:
    """Points column by column, and those that keep the promise and that no other such point beats in both, slowest first.

    `left_out` rows have no speed; `table` says, of speeds asked for, the point of the front that gives a chip most.
    """

    xs: Floats
    ys: Floats
    labels: NDArray[np.object_]
    meets: NDArray[np.bool_]
    is_front: NDArray[np.bool_]
    front: tuple[Point, ...]
    left_out: int
    table: tuple[tuple[float, Point | None], ...]

    @property
    def is_cloud(self) -> bool:
        """Whether there are so many points that they are drawn as one."""
        return len(self.xs) > MOST_SINGLE

    @property
    def n_fails(self) -> int:
        """Points that do not keep the promise."""
        return int(np.sum(~self.meets))

    def to_frame(self) -> Any:
        """One row a point, as a pandas DataFrame."""
        import pandas as pd

        return pd.DataFrame({X: self.xs, Y: self.ys, "label": self.labels, "meets": self.meets, "front": self.is_front})


def front_of(rows: Any, table_at: Any = ()) -> Front:
    """The front of rows: a DataFrame, mappings, or records with those attributes."""
    x, y, labels, meets = _columns(rows)
    xs, ys = _numbers(x, X), _numbers(y, Y)
    there = np.isfinite(xs) & np.isfinite(ys)
    if not there.any():
        raise SpecError(f"pareto: expected at least one row with both {X} and {Y}, got {len(xs)} without")
    xs, ys, kept = xs[there], ys[there], np.asarray(meets, dtype=bool)[there]
    named = np.asarray([str(label) for label in labels], dtype=object)[there]
    able = np.flatnonzero(kept)
    chosen = able[undominated(xs[able], ys[able])][::-1]  # slowest first
    front = tuple(Point(x=float(xs[i]), y=float(ys[i]), label=str(named[i])) for i in chosen)
    is_front = np.zeros(len(xs), dtype=bool)
    is_front[chosen] = True
    return Front(
        xs=xs, ys=ys, labels=named, meets=kept, is_front=is_front, front=front, left_out=int(np.sum(~there)),
        table=tuple((speed, _at(front, speed)) for speed in _speeds(table_at)),
    )  # fmt: skip


def _at(front: Sequence[Point], speed: float) -> Point | None:
    """The point of the front that is fast enough and gives most; none where none is."""
    return next((p for p in front if p.x >= speed), None)


def _speeds(given: Any) -> list[float]:
    members = list(given) if isinstance(given, (list, tuple)) else [given]
    good = all(isinstance(v, (int, float)) and not isinstance(v, bool) and math.isfinite(v) and v > 0 for v in members)
    if not good or len(members) > MOST_TABLE:
        raise SpecError(
            f"pareto(table_at): expected up to {MOST_TABLE} speeds above 0 such as [20, 50], got {shown(given)}"
        )
    return [float(v) for v in members]


def _columns(rows: Any) -> tuple[list[Any], ...]:
    """Speeds, outputs, names, and whether the promise is kept."""
    if hasattr(rows, "columns") and hasattr(rows, "to_dict"):
        missing = next((name for name in NAMES if name not in rows.columns), None)
        if missing is not None:
            raise SpecError(f"pareto: expected the columns {', '.join(NAMES)}; there is no {missing}")
        if not len(rows):
            raise SpecError("pareto: expected at least one row, got none")
        return tuple(rows[name].tolist() for name in NAMES)
    if isinstance(rows, (str, bytes, Mapping)) or not hasattr(rows, "__iter__"):
        raise SpecError(f"pareto: expected rows, as a list of mappings or a DataFrame, got {shown(rows)}")
    members = [tuple(_of(row, name, i) for name in NAMES) for i, row in enumerate(rows)]
    if not members:
        raise SpecError("pareto: expected at least one row, got none")
    return tuple(list(column) for column in zip(*members, strict=True))


def _of(row: Any, name: str, i: int) -> Any:
    if isinstance(row, Mapping):
        if name in row:
            return row[name]
    elif hasattr(row, name):
        return getattr(row, name)
    raise SpecError(f"pareto: row {i}: expected {X}, {Y}, label and meets; it has no {name}")


def _numbers(values: list[Any], name: str) -> Floats:
    """Speeds; none where there is none: a service that is unstable has no tokens for anyone."""
    try:
        numbers = np.asarray([np.nan if value is None else float(value) for value in values])
    except (TypeError, ValueError):
        i, value = next((i, value) for i, value in enumerate(values) if value is not None and not _is_number(value))
        raise SpecError(f"pareto: row {i}: {name}: expected a number, got {shown(value)}") from None
    return np.where(np.isfinite(numbers) & (numbers > 0.0), numbers, np.nan)


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True
