"""What the accuracy figures show: predictions held out against measurements, and how they spread."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roofline.errors import SpecError
from roofline.evidence.accuracy import name_of, selected
from roofline.evidence.calibration.shipped import Predicted, conformal
from roofline.evidence.measurements import what_of

__all__ = ["FAMILIES", "Points", "Spread", "points", "spreads"]

FAMILIES = ("vLLM", "TensorRT-LLM", "llama.cpp", "MLX", "others")
_FAMILY = {"vllm": "vLLM", "trtllm": "TensorRT-LLM", "llama.cpp": "llama.cpp", "mlx": "MLX"}

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Points:
    """Held-out predictions of a regime, of one kind of estimate or of all  [s]."""

    regime: str
    what: str | None
    rows: tuple[Predicted, ...]

    @cached_property
    def measured_s(self) -> Floats:
        """What was measured  [s]."""
        return np.asarray([p.value for p in self.rows])

    @cached_property
    def predicted_s(self) -> Floats:
        """What was predicted  [s]."""
        return np.asarray([p.predicted for p in self.rows])

    @cached_property
    def ratios(self) -> Floats:
        """Predicted over measured  [1]."""
        return self.predicted_s / self.measured_s

    @cached_property
    def factor(self) -> float:
        """The interval t/factor to t·factor that holds 80 % of these points  [1]."""
        return conformal(list(np.log(self.ratios)))

    @cached_property
    def families(self) -> NDArray[np.str_]:
        """The family of each point's engine."""
        return np.asarray([family_of(p.row.engine) for p in self.rows])

    def to_frame(self) -> Any:
        """A row a point, as a pandas DataFrame."""
        import pandas as pd

        named = {name: [getattr(p.row, name) for p in self.rows] for name in ("engine", "hardware", "model", "source")}
        numbers = {"measured_s": self.measured_s, "predicted_s": self.predicted_s, "ratio": self.ratios}
        return pd.DataFrame({"what": [what_of(p.row) for p in self.rows], **named, **numbers})


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Predicted over measured of what goes under one name, by the kind of estimate  [1]."""

    name: str
    ratios: dict[str, Floats]

    @property
    def all(self) -> Floats:
        """Of every kind."""
        return np.concatenate(list(self.ratios.values()))

    @property
    def quantiles(self) -> tuple[float, float, float, float, float]:
        """The 10th, 25th, 50th, 75th and 90th percentile."""
        low, first, middle, third, high = np.quantile(self.all, (0.1, 0.25, 0.5, 0.75, 0.9))
        return float(low), float(first), float(middle), float(third), float(high)


def family_of(engine: str) -> str:
    """An engine whatever its version.

    >>> family_of("vllm-2023"), family_of("llama.cpp"), family_of("gpt-fast")
    ('vLLM', 'llama.cpp', 'others')
    """
    return _FAMILY.get(engine.partition("-")[0], "others")


def points(*, regime: str, what: str | None = None) -> Points:
    """The packaged predictions of a regime."""
    rows = selected(regime=regime, what=what)
    if not rows:
        raise SpecError(f"plot: nothing of {what} was held out in the regime {regime}")
    return Points(regime=regime, what=what, rows=rows)


def spreads(shown: Points, by: str) -> tuple[Spread, ...]:
    """The same by engine, class of machine, machine, phase or group; the widest spread last."""
    kept: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for p, ratio in zip(shown.rows, shown.ratios, strict=True):
        kept[name_of(p.row, by)][what_of(p.row)].append(float(ratio))
    made = [Spread(name=n, ratios={w: np.asarray(r) for w, r in sorted(of.items())}) for n, of in kept.items()]
    return tuple(sorted(made, key=_width))


def _width(spread: Spread) -> tuple[float, str]:
    return float(np.median(np.abs(np.log(spread.all)))), spread.name


def median_error(ratios: Iterable[float]) -> float:
    """Median absolute error  [1]."""
    return float(np.median(np.abs(np.asarray(list(ratios)) - 1.0)))
