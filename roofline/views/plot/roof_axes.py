"""Drawing a roofline: the roof and its points above, the lane of intensities below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from roofline.units import format_si
from roofline.views.plot.lettering import Label, Obstacles, halo, log_ticks, place, sig, wrapped
from roofline.views.plot.roof_points import Path, Point, Roof
from roofline.views.plot.theme import LANE_SHARE, Size, Theme, dress
from roofline.views.plot.words import memory_word

__all__ = ["Limits", "draw_roof", "letter_roof", "limits"]

TERA = 1e12
MARKERS = {"prefill": "o", "decode": "s"}
SMALL, LARGE = 4.2, 7.5  # markers [pt]
CEILING_GAP = 10.5  # between labels of ceilings [pt]


@dataclass(frozen=True, slots=True)
class Limits:
    """Ends of both axes: FLOP/B, and TFLOP/s."""

    x: tuple[float, float]
    y: tuple[float, float]


def limits(roofs: Sequence[Roof]) -> Limits:
    """Half a decade left of and under the smallest point, a decade right of the highest ridge, 1.5 × the top ceiling."""
    points = [p for r in roofs for path in r.paths for p in path.points]
    xs = [p.intensity for p in points] + [s.intensity for r in roofs for s in r.measured]
    ys = [p.flops_per_s for p in points] + [s.flops_per_s for r in roofs for s in r.measured]
    ridge = max(c.ridge for r in roofs for c in r.ceilings)
    top = max(c.flops_per_s for r in roofs for c in r.ceilings)
    half = 10.0**0.5
    return Limits(
        x=(min(xs) / half, max(10.0 * ridge, 2.0 * max(xs))),
        y=(min(ys) / half / TERA, 1.5 * max(top, *ys) / TERA),
    )


def draw_roof(ax: Any, roof: Roof, *, span: Limits, theme: Theme, size: Size) -> Any:
    """Lines and marks, without the labels that need the final layout; gives the lane."""
    lane = _lane_under(ax)
    for axes in (ax, lane):
        dress(axes, theme, size)
    ax.set(xscale="log", yscale="log", xlim=span.x, ylim=span.y)
    log_ticks(ax.xaxis, *span.x)
    log_ticks(ax.yaxis, *span.y)
    _draw_ceilings(ax, roof, span, theme)
    for path in roof.paths:
        _draw_path(ax, path, theme)
    _draw_measured(ax, roof, theme)
    _draw_lane(lane, roof, theme, size)
    ax.tick_params(axis="x", which="both", labelbottom=False)
    name = f"Arithmetic intensity (FLOP per byte of {memory_word(roof.deployment.hardware)} traffic)"
    ax.set_xlabel(name, visible=False)  # said once, under the lane
    lane.set_xlabel(name, fontsize=size.text, color=theme.ink)
    ax.set_ylabel("Throughput (TFLOP/s per chip)", fontsize=size.text, color=theme.ink)
    return lane


def _lane_under(ax: Any) -> Any:
    """An Axes under this one, sharing x; both stand where this one stood."""
    if hasattr(ax, "roofline_lane"):
        return ax.roofline_lane
    figure, ratios = ax.figure, [1.0 - LANE_SHARE, LANE_SHARE]
    spec = ax.get_subplotspec()
    if spec is None:
        x, y, width, height = ax.get_position().bounds
        ax.set_position((x, y + (LANE_SHARE + 0.03) * height, width, (1.0 - LANE_SHARE - 0.03) * height))
        lane = figure.add_axes((x, y, width, LANE_SHARE * height), sharex=ax)
    else:
        rows = spec.subgridspec(2, 1, height_ratios=ratios, hspace=0.06)
        ax.set_subplotspec(rows[0])
        lane = figure.add_subplot(rows[1], sharex=ax)
    ax.roofline_lane = lane
    return lane


def _draw_ceilings(ax: Any, roof: Roof, span: Limits, theme: Theme) -> None:
    beta, right = roof.bytes_per_s / TERA, span.x[1]
    start = (span.x[0], beta * span.x[0])
    for rank, ceiling in enumerate(roof.ceilings):
        top = ceiling.flops_per_s / TERA
        ax.plot(
            [start[0], ceiling.ridge, right],
            [start[1], top, top],
            color=theme.ink,
            linewidth=1.2 if rank else 1.8,
            linestyle="--" if rank else "-",
            zorder=2.0,
            label="/".join(ceiling.dtypes),
        )
        start = (ceiling.ridge, top)
    top = roof.ceilings[0].flops_per_s / TERA
    ax.plot([roof.ridge] * 2, [span.y[0], top], color=theme.ink, linewidth=0.8, linestyle=":", zorder=1.9, label="ridge")


def _draw_path(ax: Any, path: Path, theme: Theme) -> None:
    colour, marker = theme.of(path.phase), MARKERS[path.phase]
    xs, ys = [p.intensity for p in path.points], [p.flops_per_s / TERA for p in path.points]
    ax.plot(
        xs, ys, color=colour, linewidth=1.2, marker=marker, markersize=SMALL, markerfacecolor=theme.ground,
        markeredgewidth=1.0, zorder=4, label=path.phase,
    )  # fmt: skip
    asked = path.asked
    ax.plot(
        [asked.intensity], [asked.flops_per_s / TERA], linestyle="none", color=colour, marker=marker, markersize=LARGE,
        markerfacecolor=theme.ground, markeredgewidth=2.0, zorder=6, path_effects=halo(theme, 4.0),
        label=f"{path.phase} asked",
    )  # fmt: skip


def _draw_measured(ax: Any, roof: Roof, theme: Theme) -> None:
    for spot in roof.measured:
        y = spot.flops_per_s / TERA
        roof_y = roof.at(spot.intensity) / TERA
        ax.plot([spot.intensity] * 2, [y, roof_y], color=theme.grey, linewidth=0.9, zorder=3, label="drop")
        ax.plot(
            [spot.intensity], [y], linestyle="none", marker="D", markersize=5.5, color=theme.ink, zorder=7,
            label=spot.label,
        )  # fmt: skip


def _draw_lane(lane: Any, roof: Roof, theme: Theme, size: Size) -> None:
    """A row a phase: a tick for each swept value, the user's marker, the bar no batch passes."""
    rows = {path.phase: float(-i) for i, path in enumerate(roof.paths)}
    for path in roof.paths:
        row, colour = rows[path.phase], theme.of(path.phase)
        xs = [p.intensity for p in path.points]
        lane.plot(
            xs, [row] * len(xs), color=colour, linewidth=0.8, marker="|", markersize=6.0, markeredgewidth=1.0,
            zorder=3, label=path.phase,
        )  # fmt: skip
        if path.limit is not None:
            lane.plot(
                [path.limit], [row], linestyle="none", marker="|", markersize=15.0, markeredgewidth=2.2, color=colour,
                zorder=4, label="batch → ∞",
            )  # fmt: skip
        lane.plot(
            [path.asked.intensity], [row], linestyle="none", marker=MARKERS[path.phase], markersize=6.5, color=colour,
            markerfacecolor=theme.ground, markeredgewidth=1.8, zorder=5, label=f"{path.phase} asked",
        )  # fmt: skip
    lane.axvline(roof.ridge, color=theme.ink, linewidth=0.8, linestyle=":", zorder=1.9)
    lane.set_ylim(-len(rows) + 0.35, 0.85)
    lane.set_yticks(list(rows.values()), labels=list(rows))
    lane.tick_params(axis="y", length=0.0, labelsize=size.text)
    lane.grid(visible=False, axis="y")
    lane.spines["left"].set_visible(False)


# what needs the final layout


def letter_roof(ax: Any, roof: Roof, *, theme: Theme, size: Size, is_narrow: bool) -> None:
    """Labels, rotated and set clear of the marks, and the arrow heads."""
    lane, around = ax.roofline_lane, Obstacles(ax)
    _wrap_axis_names(ax, lane, size)
    for line in ax.lines:
        xs, ys = line.get_data()
        if len(xs) > 1:
            around.line(xs, ys)
    for path in roof.paths:
        xs, ys = [p.intensity for p in path.points], [p.flops_per_s / TERA for p in path.points]
        around.marks(xs, ys, size=SMALL + 2.0)
        around.marks([path.asked.intensity], [path.asked.flops_per_s / TERA], size=LARGE + 3.0)
        _arrow_head(ax, xs, ys, theme.of(path.phase))
        _arrow_head(lane, xs, [lane_row(lane, path)] * len(xs), theme.of(path.phase))
    around.marks([s.intensity for s in roof.measured], [s.flops_per_s / TERA for s in roof.measured], size=8.0)
    around.box(_letter_slope(ax, roof, theme, size))
    around.box(_letter_ridge(ax, roof, theme, size))
    for text in ax.roofline_ceilings:
        around.box(text)
    place(ax, _labels(roof, is_narrow), obstacles=around, theme=theme, size=size)
    _letter_lane(lane, roof, theme, size, is_narrow)


def lane_row(lane: Any, path: Path) -> float:
    """Where a phase's row stands."""
    return next(float(line.get_ydata()[0]) for line in lane.lines if line.get_label() == path.phase)


def _wrap_axis_names(ax: Any, lane: Any, size: Size) -> None:
    pt = 72.0 / ax.figure.figure.dpi
    frame, low = ax.get_window_extent(), lane.get_window_extent()
    ax.set_ylabel(wrapped(ax.get_ylabel(), width=frame.height * pt, size=size.text))
    lane.set_xlabel(wrapped(lane.get_xlabel(), width=low.width * pt * 1.1, size=size.text))


def _letter_slope(ax: Any, roof: Roof, theme: Theme, size: Size) -> Any:
    """Value and unit along the bandwidth's slope; the angle follows the axes when they are resized."""
    beta, chip = roof.bytes_per_s / TERA, roof.deployment.hardware
    x = float(np.sqrt(ax.get_xlim()[0] * roof.ridge))
    return ax.text(
        x, beta * x * 1.05, f"{chip.memory.type.split()[0]} {format_si(roof.bytes_per_s, 'B/s')}",
        rotation=float(np.degrees(np.arctan(beta))), rotation_mode="anchor", transform_rotates_text=True,
        ha="center", va="bottom", fontsize=size.text, color=theme.ink, in_layout=False, path_effects=halo(theme),
    )  # fmt: skip


def _letter_ridge(ax: Any, roof: Roof, theme: Theme, size: Size) -> Any:
    return ax.annotate(
        f"ridge {sig(roof.ridge)}", (roof.ridge, ax.get_ylim()[0]), xytext=(3.0, 3.0), textcoords="offset points",
        ha="left", va="bottom", fontsize=size.text, color=theme.ink, in_layout=False, path_effects=halo(theme),
    )  # fmt: skip


def letter_ceilings(ax: Any, roof: Roof, *, theme: Theme, size: Size, in_margin: bool, is_narrow: bool) -> None:
    """Dtypes and rate at the right end of each ceiling: in the margin, or above the line where there is none."""
    texts = []
    for ceiling in roof.ceilings:
        names = ceiling.dtypes[:1] if is_narrow else ceiling.dtypes[:2]
        texts.append(
            ax.annotate(
                f"{'/'.join(names)} {sig(ceiling.flops_per_s / TERA)}", (1.0, ceiling.flops_per_s / TERA),
                xycoords=ax.get_yaxis_transform(), xytext=(4.0, 0.0) if in_margin else (0.0, 2.0),
                textcoords="offset points", ha="left" if in_margin else "right",
                va="center" if in_margin else "bottom", fontsize=size.text, color=theme.ink, annotation_clip=False,
            )  # fmt: skip
        )
    ax.roofline_ceilings = texts


def spread_ceilings(ax: Any, theme: Theme) -> None:
    """Move labels of ceilings apart where they stand closer than a line of text, with a leader to the line."""
    pt, below = 72.0 / ax.figure.figure.dpi, -np.inf
    for text in ax.roofline_ceilings:
        y = float(ax.transData.transform((1.0, text.xy[1]))[1]) * pt
        moved = max(0.0, below + CEILING_GAP - y)
        below = y + moved
        if moved > 0.5:
            dx, dy = text.xyann
            text.xyann = (dx + 5.0, dy + moved)
            ax.annotate(
                "", text.xy, xycoords=ax.get_yaxis_transform(), xytext=(dx + 4.0, dy + moved),
                textcoords="offset points", annotation_clip=False, in_layout=False,
                arrowprops={"arrowstyle": "-", "color": theme.grey, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 0},
            )  # fmt: skip


def _labels(roof: Roof, is_narrow: bool) -> list[Label]:
    """The user's points first, so they get the best places; then measurements; then the ends."""
    labels = []
    for path in roof.paths:
        first = "below right" if path.asked.intensity < roof.ridge else "below"
        labels.append(_label(path.asked, f"{path.phase}, {_value(path, path.asked, is_narrow)}", first))
    for spot in roof.measured:
        share = spot.flops_per_s / roof.at(spot.intensity)
        said = f"{100.0 * share:.0f} % of roof" if share <= 1.0 else "above the roof: check dtype, sparsity, FLOP counting"
        labels.append(Label(text=f"{spot.label}\n{said}", x=spot.intensity, y=spot.flops_per_s / TERA, first="right"))
    for path in roof.paths:
        for point in path.ends:
            first = "below right" if point.intensity < roof.ridge else "below"
            labels.append(_label(point, _value(path, point, is_narrow), first))
    return labels


def _label(point: Point, text: str, first: str) -> Label:
    return Label(text=text, x=point.intensity, y=point.flops_per_s / TERA, first=first)


def _value(path: Path, point: Point, is_narrow: bool) -> str:
    value = f"{point.value:.0f}" if is_narrow else f"{path.swept} {point.value:.0f}"
    return value if point.fits or not point.asked else f"{value} (does not fit)"


def _arrow_head(ax: Any, xs: Sequence[float], ys: Sequence[float], colour: str) -> None:
    """A head beyond the last mark, the way the path was going."""
    if len(xs) < 2:
        return
    ends = ax.transData.transform(np.column_stack([xs[-2:], ys[-2:]]))
    step = ends[1] - ends[0]
    length = float(np.hypot(*step))
    if length == 0.0:
        return
    dx, dy = step / length
    ax.annotate(
        "", (xs[-1], ys[-1]), xytext=(9.0 * dx, 9.0 * dy), textcoords="offset points", in_layout=False, zorder=5,
        arrowprops={
            "arrowstyle": "<|-,head_length=0.45,head_width=0.2", "color": colour, "linewidth": 1.0, "shrinkA": 0,
            "shrinkB": 2.0,
        },
    )  # fmt: skip


def _letter_lane(lane: Any, roof: Roof, theme: Theme, size: Size, is_narrow: bool) -> None:
    """The user's intensities above their marks; the limit beside its bar, on the side with room."""
    for path in roof.paths:
        row = lane_row(lane, path)
        lane.annotate(
            sig(path.asked.intensity), (path.asked.intensity, row), xytext=(0.0, 5.0), textcoords="offset points",
            ha="center", va="bottom", fontsize=size.text, color=theme.ink, in_layout=False, path_effects=halo(theme),
        )  # fmt: skip
        if path.limit is None:
            continue
        lane.annotate(
            f"{sig(path.limit)}" if is_narrow else f"limit {sig(path.limit)} as batch → ∞", (path.limit, row),
            xytext=(5.0, 0.0), textcoords="offset points", ha="left", va="center", fontsize=size.text,
            color=theme.ink, in_layout=False, path_effects=halo(theme), annotation_clip=False,
        )  # fmt: skip
