"""Measurements under a roof: a few with their names and intervals, or so many that they are one cloud."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roofline.errors import SpecError, shown
from roofline.num import checked

__all__ = ["Spot", "Spots", "spots_of"]

MOST_NAMED = 24  # more are drawn as a cloud, without names
COLUMNS = ("intensity", "flops_per_s", "label", "low_flops_per_s", "high_flops_per_s")
FORM = "(intensity, flops_per_s, label) or (intensity, flops_per_s, label, low, high)"
Floats = NDArray[np.float64]
At = Callable[[Any], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """A measurement: intensity of the model [FLOP/B], rate measured [FLOP/s], and between what it lay, if anyone says."""

    intensity: float
    flops_per_s: float
    label: str
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Spots:
    """All measurements of a figure, column by column  [FLOP/B, FLOP/s]."""

    intensity: Floats
    flops_per_s: Floats
    labels: tuple[str, ...]
    low: Floats
    high: Floats

    def __len__(self) -> int:
        return len(self.intensity)

    @property
    def is_cloud(self) -> bool:
        """Whether there are too many to name."""
        return len(self) > MOST_NAMED

    @property
    def spots(self) -> tuple[Spot, ...]:
        """One by one, where they can be told apart; none of a cloud."""
        columns = zip(self.intensity, self.flops_per_s, self.labels, self.low, self.high, strict=True)
        named = () if self.is_cloud else columns
        return tuple(
            Spot(intensity=float(x), flops_per_s=float(y), label=label, low=float(low), high=float(high))
            for x, y, label, low, high in named
        )

    def above(self, at: At) -> int:
        """How many lie above the roof."""
        return int(np.sum(self.flops_per_s > at(self.intensity)))

    def median_share(self, at: At) -> float:
        """The share of the roof that half of them reach  [1]."""
        return float(np.median(self.flops_per_s / at(self.intensity)))

    def to_frame(self) -> Any:
        """One row a measurement, as a pandas DataFrame; the interval only where one was given."""
        import pandas as pd

        frame = pd.DataFrame({
            "series": "measured", "label": self.labels, "intensity": self.intensity, "flops_per_s": self.flops_per_s,
            "asked": False,
        })  # fmt: skip
        if np.any(self.low < self.high):
            frame["low_flops_per_s"], frame["high_flops_per_s"] = self.low, self.high
        return frame


def spots_of(measured: Any) -> Spots:
    """Measurements as given: a list of tuples, or a DataFrame with those columns."""
    if measured is None:
        return _spots([], [], [])
    if hasattr(measured, "columns"):
        return _of_frame(measured)
    if not isinstance(measured, Sequence) or isinstance(measured, str):
        raise SpecError(f"measured: expected a list of {FORM}, or a DataFrame, got {shown(measured)}")
    rows = [_row(entry, i) for i, entry in enumerate(measured)]
    x, y, labels, low, high = ([row[i] for row in rows] for i in range(5))
    return _spots(x, y, labels, low, high)


def _row(entry: Any, i: int) -> tuple[Any, ...]:
    """One measurement; where nobody said between what it lies, it is its own interval."""
    if not isinstance(entry, (tuple, list)) or len(entry) not in (3, 5):
        raise SpecError(f"measured[{i}]: expected {FORM}, got {shown(entry)}")
    return tuple(entry) if len(entry) == 5 else (*entry, entry[1], entry[1])


def _of_frame(frame: Any) -> Spots:
    if not set(COLUMNS[:2]) <= set(frame.columns):
        there = ", ".join(map(str, frame.columns))
        raise SpecError(f"measured: expected the columns intensity and flops_per_s, got {there}")
    labels = frame["label"].tolist() if "label" in frame.columns else [""] * len(frame)
    edges = [frame[name].to_numpy() for name in COLUMNS[3:] if name in frame.columns]
    return _spots(
        frame["intensity"].to_numpy(), frame["flops_per_s"].to_numpy(), labels, *(edges if len(edges) == 2 else ())
    )


def _spots(x: Any, y: Any, labels: Sequence[Any], low: Any = None, high: Any = None) -> Spots:
    intensity, rate = _positive(x, "intensity"), _positive(y, "flops_per_s")
    least, most = (rate if edge is None else _positive(edge, name) for edge, name in ((low, "low"), (high, "high")))
    outside = (least > rate) | (most < rate)
    if np.any(outside):
        i = int(np.argmax(outside))
        said = f"{least[i]:g}, {rate[i]:g}, {most[i]:g}"
        raise SpecError(f"measured[{i}]: expected low <= flops_per_s <= high, got {said}")
    return Spots(intensity=intensity, flops_per_s=rate, labels=tuple(map(str, labels)), low=least, high=most)


def _positive(values: Any, name: str) -> Floats:
    """Numbers above 0, checked together; where one is wrong, it is named."""
    if not len(values):
        return np.empty(0)
    range_: dict[str, Any] = {"low": 0.0, "high": 1e21, "above": True}
    try:
        found = np.asarray(checked(values, name=f"measured {name}", **range_))
        if found.ndim == 1:
            return found
    except SpecError:
        pass
    for i, value in enumerate(values):
        if not isinstance(checked(value, name=f"measured[{i}] {name}", **range_), float):
            raise SpecError(f"measured[{i}] {name}: expected one number, got {shown(value)}")
    raise SpecError(f"measured: expected one {name} a measurement, got {shown(values)}")
