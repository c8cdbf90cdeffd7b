"""Lettering a roofline once its layout stands: labels set clear of marks, angles, arrow heads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from roofline.units import format_si
from roofline.views.plot.lettering import Label, Obstacles, place, sig
from roofline.views.plot.roof_axes import LARGE, SMALL, lane_row
from roofline.views.plot.roof_beside import TERA, around_beside, letter_slopes, op_labels, slope_labels
from roofline.views.plot.roof_points import Path, Point, Roof
from roofline.views.plot.roof_words import SAY
from roofline.views.plot.theme import Look
from roofline.views.plot.words import phase, swept

__all__ = ["letter_ceilings", "letter_roof"]

CEILING_GAP = 10.5  # between labels of ceilings [pt]
SLOPE_GAP = 4.0  # between the slope and its label [pt]
ARROW = 9.0  # length of an arrow head beyond the last mark [pt]


def letter_roof(ax: Any, roof: Roof, look: Look) -> None:
    """Labels and arrow heads of an Axes that `draw_roof` drew and `letter_ceilings` lettered."""
    lane, around = ax.roofline_lane, Obstacles(ax)
    _spread_ceilings(ax, look)
    for line in ax.lines:
        xs, ys = line.get_data()
        if len(xs) > 1 and line.get_linestyle() != "None":
            around.line(xs, ys, weight=0.1 if line.get_label() == "ridge" else 1.0)
    for path in roof.paths:
        xs, ys = [p.intensity for p in path.points], [p.flops_per_s / TERA for p in path.points]
        around.marks(xs, ys, size=SMALL + 2.0)
        around.marks([path.asked.intensity], [path.asked.flops_per_s / TERA], size=LARGE + 3.0)
        colour, length = look.theme.of(path.phase), ARROW + (LARGE - SMALL if path.points[-1].asked else 0.0)
        around.arrow(_arrow_head(ax, xs, ys, colour, length))
        if path.limit is None or _gap_pt(lane, path) > ARROW + 5.0:
            _arrow_head(lane, xs, [lane_row(lane, path)] * len(xs), colour, length)
    around_beside(ax, roof, around)
    around.box(_letter_slope(ax, roof, look))
    around.box(_letter_ridge(ax, roof, look))
    letter_slopes(ax, roof, around, look)
    for text in ax.roofline_ceilings:
        around.box(text)
    place(ax, [*_labels(roof, look), *slope_labels(roof), *op_labels(roof, look)], obstacles=around, look=look)
    _letter_lane(lane, roof, look)


def _gap_pt(lane: Any, path: Path) -> float:
    """From the last swept value to the limit [pt]."""
    ends = lane.transData.transform([(path.points[-1].intensity, 0.0), (path.limit, 0.0)])
    return float(ends[1][0] - ends[0][0]) * 72.0 / float(lane.figure.figure.dpi)


def _letter_slope(ax: Any, roof: Roof, look: Look) -> Any:
    """Value and unit along the bandwidth's slope; the angle follows the axes when they are resized."""
    from matplotlib.transforms import ScaledTranslation

    beta, chip = roof.bytes_per_s / TERA, roof.deployment.hardware
    x = float(np.sqrt(ax.get_xlim()[0] * roof.ridge))
    low, high = ax.transData.transform([(x, beta * x), (10.0 * x, 10.0 * beta * x)])
    angle = float(np.arctan2(high[1] - low[1], high[0] - low[0]))
    across = float(np.log(roof.ridge / ax.get_xlim()[0]) / np.log(ax.get_xlim()[1] / ax.get_xlim()[0]))
    below = not look.has_margin and across < 0.4  # the ceilings' labels stand left of so early a ridge
    side = -1.0 if below else 1.0
    shift = side * SLOPE_GAP / 72.0 * np.array([-np.sin(angle), np.cos(angle)])
    return ax.text(
        x, beta * x, f"{chip.memory.type.split()[0]} {format_si(roof.bytes_per_s, 'B/s')}",
        transform=ax.transData + ScaledTranslation(float(shift[0]), float(shift[1]), ax.figure.figure.dpi_scale_trans),
        rotation=float(np.degrees(np.arctan(beta))), rotation_mode="anchor", transform_rotates_text=True,
        ha="center", va="top" if below else "bottom", **look.text,
    )  # fmt: skip


def _letter_ridge(ax: Any, roof: Roof, look: Look) -> Any:
    return ax.annotate(
        SAY(look.lang, "ridge", at=sig(roof.ridge)), (roof.ridge, ax.get_ylim()[0]), xytext=(3.0, 3.0),
        textcoords="offset points", ha="left", va="bottom", **look.text,
    )  # fmt: skip


def letter_ceilings(ax: Any, roof: Roof, look: Look) -> None:
    """Dtypes and rate of each ceiling: in the right margin, or where it starts if there is no margin."""
    texts = []
    lines = [("/".join(c.dtypes[: 1 if look.is_narrow else 2]), c.flops_per_s, c.ridge) for c in roof.ceilings]
    if roof.achieved is not None:
        a = roof.achieved
        lines.insert(0, (a.engine, a.flops_per_s, a.flops_per_s / a.bytes_per_s))
    for name, rate, ridge in lines:
        text, top = f"{name} {sig(rate / TERA)}", rate / TERA
        if look.has_margin:
            where: dict[str, Any] = {"xy": (1.0, top), "xycoords": ax.get_yaxis_transform(), "xytext": (4.0, 0.0)}
        else:
            where = {"xy": (ridge, top), "xytext": (-5.0, 1.0)}
        ha, letters = "left" if look.has_margin else "right", {"fontsize": look.size.text, "color": look.theme.ink}
        texts.append(
            ax.annotate(text, **where, textcoords="offset points", ha=ha, va="center", annotation_clip=False, **letters)
        )
    ax.roofline_ceilings = texts


def _spread_ceilings(ax: Any, look: Look) -> None:
    """Move labels in the margin apart, and under the top of the Axes; a moved one gets a line to its ceiling."""
    if not look.has_margin:
        return
    frame, pt = ax.get_window_extent(), 72.0 / ax.figure.figure.dpi
    at = [float(ax.transData.transform((1.0, text.xy[1]))[1]) * pt for text in ax.roofline_ceilings]
    for text, y, there in zip(ax.roofline_ceilings, at, _apart(at, top=frame.y1 * pt), strict=True):
        if abs(there - y) > 0.5:
            text.xyann = (text.xyann[0], there - y)
            ax.annotate(
                "", text.xy, xycoords=ax.get_yaxis_transform(), xytext=(3.5, there - y), textcoords="offset points",
                annotation_clip=False, in_layout=False,
                arrowprops={
                    "arrowstyle": "-", "color": look.theme.grey, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 0,
                },
            )  # fmt: skip


def _apart(at: Sequence[float], *, top: float) -> list[float]:
    """Heights, lowest first, at least a line apart: pushed up, then down again from the top.

    >>> _apart([0.0, 4.0, 50.0], top=100.0), _apart([90.0, 95.0], top=96.0)
    ([0.0, 10.5, 50.0], [85.5, 96.0])
    """
    there = list(at)
    for i in range(1, len(there)):
        there[i] = max(there[i], there[i - 1] + CEILING_GAP)
    bound = top
    for i in reversed(range(len(there))):
        there[i] = min(there[i], bound)
        bound = there[i] - CEILING_GAP
    return there


def _labels(roof: Roof, look: Look) -> list[Label]:
    """Measurements and the user's points first, so they get the best places; the ends where there is room."""
    labels = []
    for spot in roof.measured.spots:
        share = spot.flops_per_s / float(roof.at(spot.intensity))
        said = SAY(look.lang, "share", share=f"{100.0 * share:.0f}") if share <= 1.0 else SAY(look.lang, "above")
        text = SAY(look.lang, "spot", label=spot.label, said=said)
        first = "below right" if spot.intensity < roof.ridge else "below"
        labels.append(Label(text=text, x=spot.intensity, y=spot.flops_per_s / TERA, first=first))
    for path in roof.paths:
        first = "below right" if path.asked.intensity < roof.ridge else "below"
        value = {"swept": swept(path.swept, look.lang), "value": f"{path.asked.value:.0f}"}
        text = SAY(look.lang, "end" if look.is_narrow else "asked", phase=phase(path.phase, look.lang), **value)
        labels.append(_label(path.asked, text, first))
    for path in roof.paths:
        for point in path.ends:
            name = swept(path.swept, look.lang)
            said = SAY(look.lang, "end", swept=name, value=f"{point.value:.0f}")
            text = f"{path.swept[0]}={point.value:.0f}" if look.is_narrow else said
            labels.append(_label(point, text, "below right" if point.intensity < roof.ridge else "below", True))
    return labels


def _label(point: Point, text: str, first: str, is_optional: bool = False) -> Label:
    return Label(text=text, x=point.intensity, y=point.flops_per_s / TERA, first=first, is_optional=is_optional)


def _arrow_head(ax: Any, xs: Sequence[float], ys: Sequence[float], colour: str, reach: float) -> Any:
    """A head beyond the last mark, the way the path was going; none for a path of one point."""
    if len(xs) < 2:
        return None
    ends = ax.transData.transform(np.column_stack([xs[-2:], ys[-2:]]))
    step = ends[1] - ends[0]
    length = float(np.hypot(*step))
    if length == 0.0:
        return None
    dx, dy = step / length
    return ax.annotate(
        "", (xs[-1], ys[-1]), xytext=(reach * dx, reach * dy), textcoords="offset points", in_layout=False, zorder=5,
        arrowprops={
            "arrowstyle": "<|-,head_length=0.45,head_width=0.2", "color": colour, "linewidth": 1.0, "shrinkA": 0,
            "shrinkB": 2.0,
        },
    )  # fmt: skip


def _letter_lane(lane: Any, roof: Roof, look: Look) -> None:
    """The user's intensities above their marks; the limit beside its bar, on the side with room."""
    for path in roof.paths:
        row = lane_row(lane, path)
        lane.annotate(
            sig(path.asked.intensity), (path.asked.intensity, row), xytext=(0.0, 5.0), textcoords="offset points",
            ha="center", va="bottom", **look.text,
        )  # fmt: skip
        if path.limit is None:
            continue
        lane.annotate(
            f"≤ {sig(path.limit)}" if look.is_narrow else SAY(look.lang, "limit", at=sig(path.limit)), (path.limit, row),
            xytext=(5.0, 0.0), textcoords="offset points", ha="left", va="center", annotation_clip=False, **look.text,
        )  # fmt: skip
