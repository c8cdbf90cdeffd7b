"""What the Pareto figure draws, as numbers: rows of a search, and of those that keep the promise the front."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from roofline.errors import SpecError, shown
from roofline.num import undominated

__all__ = ["Front", "Point", "front_of"]

X, Y = "tokens_per_s_per_user", "output_tokens_per_s_per_chip"
MOST_TABLE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One row: speed of a user [token/s], output of a chip [token/s], its name, whether it keeps the promise."""

    x: float
    y: float
    label: str
    meets: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Front:
    """Points, and those of them that keep the promise and that no other such point beats in both, slowest user first.

    `left_out` rows have no speed; `table` says, of speeds asked for, the point of the front that gives a chip most.
    """

    points: tuple[Point, ...]
    front: tuple[Point, ...]
    left_out: int
    table: tuple[tuple[float, Point | None], ...]

    def to_frame(self) -> Any:
        """One row a point, as a pandas DataFrame."""
        import pandas as pd

        return pd.DataFrame({
            X: [p.x for p in self.points], Y: [p.y for p in self.points], "label": [p.label for p in self.points],
            "meets": [p.meets for p in self.points], "front": [p in self.front for p in self.points],
        })  # fmt: skip


def front_of(rows: Any, table_at: Any = ()) -> Front:
    """The front of rows: a DataFrame, mappings, or records with those attributes."""
    found = [_point(row, i) for i, row in enumerate(_members(rows))]
    points = tuple(p for p in found if p is not None)
    if not points:
        raise SpecError(f"pareto: expected at least one row with both {X} and {Y}, got {len(found)} without")
    good = [p for p in points if p.meets]
    front = [good[i] for i in undominated([p.x for p in good], [p.y for p in good])][::-1]
    return Front(
        points=points, front=tuple(front), left_out=len(found) - len(points),
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


def _members(rows: Any) -> list[Any]:
    if hasattr(rows, "to_dict") and hasattr(rows, "columns"):
        return list(rows.to_dict(orient="records"))
    if isinstance(rows, (str, bytes, Mapping)) or not hasattr(rows, "__iter__"):
        raise SpecError(f"pareto: expected rows, as a list of mappings or a DataFrame, got {shown(rows)}")
    members = list(rows)
    if not members:
        raise SpecError("pareto: expected at least one row, got none")
    return members


def _point(row: Any, i: int) -> Point | None:
    """A row as a point; none where one of its speeds is missing."""

    def of(name: str) -> Any:
        if isinstance(row, Mapping):
            if name in row:
                return row[name]
        elif hasattr(row, name):
            return getattr(row, name)
        raise SpecError(f"pareto: row {i}: expected {X}, {Y}, label and meets; it has no {name}")

    x, y = _number(of(X), X, i), _number(of(Y), Y, i)
    point = (str(of("label")), bool(of("meets")))
    return None if x is None or y is None else Point(x=x, y=y, label=point[0], meets=point[1])


def _number(value: Any, name: str, i: int) -> float | None:
    """A speed; none where there is none: a service that is unstable has no tokens for anyone."""
    if value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise SpecError(f"pareto: row {i}: {name}: expected a number, got {shown(value)}") from None
    return number if math.isfinite(number) and number > 0.0 else None
