"""The small roofline beside each step: where its lines run, and where a pass stands, in the units of its picture."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roofline.specs.deployment import Deployment
from roofline.timing.clock import Timing
from roofline.units import format_si
from roofline.views.walkthrough.slots import Slots
from roofline.views.words import three

__all__ = ["Roof"]

WIDTH, HEIGHT = 372.0, 240.0
LEFT, RIGHT, TOP, BOTTOM = 46.0, 20.0, 26.0, 34.0


@dataclass(frozen=True, slots=True)
class Roof:
    """A chip's ceiling and slope on log axes, intensity [FLOP/B] against rate [FLOP/s]: min(π, β · I)."""

    peak_flops_per_s: float
    hbm_bytes_per_s: float
    decades_x: tuple[int, int]
    decades_y: tuple[int, int]

    @classmethod
    def over(cls, d: Deployment, timing: Timing) -> Roof:
        """From a tenth of a FLOP/B, or less, to a decade right of the ridge."""
        peak, bandwidth = timing.peak_flops_per_s, d.hardware.hbm_bytes_per_s
        last = int(np.ceil(np.log10(peak / bandwidth))) + 1
        return cls(
            peak, bandwidth, (-1, last), (int(np.floor(np.log10(bandwidth) - 1.0)), int(np.ceil(np.log10(peak))))
        )

    @property
    def ridge(self) -> float:
        """π / β [FLOP/B]."""
        return self.peak_flops_per_s / self.hbm_bytes_per_s

    def x(self, intensity: Any) -> NDArray[np.float64]:
        """Where an intensity stands, kept within the picture."""
        first, last = self.decades_x
        share = (np.log10(np.maximum(intensity, 1e-12)) - first) / (last - first)
        return np.asarray(LEFT + np.clip(share, 0.0, 1.0) * (WIDTH - LEFT - RIGHT))

    def y(self, flops_per_s: Any) -> NDArray[np.float64]:
        """Where a rate stands, kept within the picture."""
        first, last = self.decades_y
        share = (np.log10(np.maximum(flops_per_s, 1e-12)) - first) / (last - first)
        return np.asarray(HEIGHT - BOTTOM - np.clip(share, 0.0, 1.0) * (HEIGHT - TOP - BOTTOM))

    def place(self, slots: Slots, name: str, dims: str, t: Timing) -> None:
        """A pass, at every setting."""
        self.place_at(slots, name, dims, intensity=t.intensity, flops_per_s=t.executed_flops / np.asarray(t.seconds))

    def place_at(self, slots: Slots, name: str, dims: str, *, intensity: Any, flops_per_s: Any) -> None:
        """A point, at every setting."""
        slots.put(f"{name}.x", dims, self.x(intensity), "{:.0f}".format)
        slots.put(f"{name}.y", dims, self.y(flops_per_s), "{:.0f}".format)

    def drawing(self) -> dict[str, Any]:
        """The lines and letters of the picture, for the template."""
        ridge_x, top = float(self.x(self.ridge)), float(self.y(self.peak_flops_per_s))
        first = 10.0 ** self.decades_x[0]
        right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
        start = float(self.y(first * self.hbm_bytes_per_s))
        slope = np.degrees(np.arctan2(top - start, ridge_x - LEFT))
        return {
            "width": WIDTH, "height": HEIGHT, "left": LEFT, "right": right, "top": TOP, "bottom": bottom,
            "roof": f"M{LEFT:.1f} {start:.1f}L{ridge_x:.1f} {top:.1f}L{right:.1f} {top:.1f}",
            "ridge_x": f"{ridge_x:.1f}", "roof_y": f"{top:.1f}",
            "peak": format_si(self.peak_flops_per_s, "FLOP/s"), "bandwidth": format_si(self.hbm_bytes_per_s, "B/s"),
            "ridge": three(self.ridge), "slope": f"{slope:.1f}",
            "slope_x": f"{LEFT + 10.0:.1f}", "slope_y": f"{start + 10.0 * (top - start) / (ridge_x - LEFT) - 7.0:.1f}",
            "ticks_x": list(self._ticks_x()), "ticks_y": list(self._ticks_y()),
        }  # fmt: skip

    def _ticks_x(self) -> Iterator[tuple[str, str]]:
        for decade in range(self.decades_x[0], self.decades_x[1] + 1):
            yield f"{float(self.x(10.0**decade)):.1f}", f"{10.0**decade:,.0f}" if decade >= 0 else f"{10.0**decade:g}"

    def _ticks_y(self) -> Iterator[tuple[str, str]]:
        for decade in range(self.decades_y[0], self.decades_y[1] + 1):
            yield f"{float(self.y(10.0**decade)):.1f}", f"{10.0 ** (decade - 12):g}"
