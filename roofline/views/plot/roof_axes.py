"""Drawing a roofline: the roof and its points above, the lane of intensities below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from roofline.views.plot.lettering import log_ticks
from roofline.views.plot.roof_beside import MARKERS, TERA, draw_beside
from roofline.views.plot.roof_points import OpPoint, Path, Point, Roof
from roofline.views.plot.roof_words import SAY, intensity_name
from roofline.views.plot.theme import Look, dress, lane_under
from roofline.views.plot.words import phase

__all__ = ["LARGE", "SMALL", "Limits", "draw_roof", "lane_row", "limits"]

SMALL, LARGE = 4.2, 7.5  # markers [pt]


@dataclass(frozen=True, slots=True)
class Limits:
    """Ends of both axes: FLOP/B, and TFLOP/s."""

    x: tuple[float, float]
    y: tuple[float, float]


def limits(roofs: Sequence[Roof]) -> Limits:
    """Half a decade left of and under the smallest point, a decade right of the highest ridge, 1.5 × the top ceiling."""
    points: list[Point | OpPoint] = [p for r in roofs for path in r.paths for p in path.points]
    points += [op for r in roofs for op in r.ops]
    spots = [s for r in roofs for s in (r.measured,) if len(s)]
    roads = [point for r in roofs for slope in r.slopes for point in slope.points]
    xs = [p.intensity for p in points] + [x for _, x, _ in roads]
    ys = [p.flops_per_s for p in points] + [y for _, _, y in roads]
    xs += [float(edge) for s in spots for edge in (s.intensity.min(), s.intensity.max())]
    ys += [float(edge) for s in spots for edge in (s.low.min(), s.high.max())]
    ridge = max(c.ridge for r in roofs for c in r.ceilings)
    top = max(c.flops_per_s for r in roofs for c in r.ceilings)
    half = 10.0**0.5
    return Limits(
        x=(min(xs) / half, max(10.0 * ridge, 2.0 * max(xs))),
        y=(min(ys) / half / TERA, 1.5 * max(top, *ys) / TERA),
    )


def draw_roof(ax: Any, roof: Roof, *, span: Limits, look: Look) -> None:
    """Lines and marks, without the labels that need the final layout; the lane is `ax.roofline_lane`."""
    lane = lane_under(ax, look)
    for axes in (ax, lane):
        dress(axes, look)
    ax.set(xscale="log", yscale="log", xlim=span.x, ylim=span.y)
    log_ticks(ax.xaxis, *span.x)
    log_ticks(ax.yaxis, *span.y)
    _draw_ceilings(ax, roof, span, look)
    draw_beside(ax, roof, span.x, look)
    for path in roof.paths:
        _draw_path(ax, path, look)
    _draw_lane(lane, roof, look)
    ax.tick_params(axis="x", which="both", labelbottom=False)
    name = intensity_name([roof], look.lang)
    ax.set_xlabel(name, visible=False)  # said once, under the lane
    lane.set_xlabel(name, fontsize=look.size.text, color=look.theme.ink)
    ax.set_ylabel(SAY(look.lang, "y"), fontsize=look.size.text, color=look.theme.ink)


def _draw_ceilings(ax: Any, roof: Roof, span: Limits, look: Look) -> None:
    beta, right = roof.bytes_per_s / TERA, span.x[1]
    start = (span.x[0], beta * span.x[0])
    for rank, ceiling in enumerate(roof.ceilings):
        top = ceiling.flops_per_s / TERA
        ax.plot(
            [start[0], ceiling.ridge, right],
            [start[1], top, top],
            color=look.theme.ink,
            linewidth=1.2 if rank else 1.8,
            linestyle="--" if rank else "-",
            zorder=2.0,
            label="/".join(ceiling.dtypes),
        )
        start = (ceiling.ridge, top)
    top = roof.ceilings[0].flops_per_s / TERA
    ax.plot(
        [roof.ridge] * 2,
        [span.y[0], top],
        color=look.theme.ink,
        linewidth=0.8,
        linestyle=":",
        zorder=1.9,
        label="ridge",
    )


def _draw_path(ax: Any, path: Path, look: Look) -> None:
    colour, marker = look.theme.of(path.phase), MARKERS[path.phase]
    xs, ys = [p.intensity for p in path.points], [p.flops_per_s / TERA for p in path.points]
    ax.plot(
        xs, ys, color=colour, linewidth=1.2, marker=marker, markersize=SMALL, markerfacecolor=look.theme.ground,
        markeredgewidth=1.0, zorder=4, label=path.phase,
    )  # fmt: skip
    asked = path.asked
    ax.plot(
        [asked.intensity], [asked.flops_per_s / TERA], linestyle="none", color=colour, marker=marker, markersize=LARGE,
        markerfacecolor=look.theme.ground, markeredgewidth=2.0, zorder=6, path_effects=look.halo(4.0),
        label=f"{path.phase} asked",
    )  # fmt: skip


def _draw_lane(lane: Any, roof: Roof, look: Look) -> None:
    """A row a phase: a tick for each swept value, the user's marker, the bar no batch passes."""
    rows = {path.phase: float(-i) for i, path in enumerate(roof.paths)}
    for path in roof.paths:
        row, colour = rows[path.phase], look.theme.of(path.phase)
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
            markerfacecolor=look.theme.ground, markeredgewidth=1.8, zorder=5, label=f"{path.phase} asked",
        )  # fmt: skip
    lane.axvline(roof.ridge, color=look.theme.ink, linewidth=0.8, linestyle=":", zorder=1.9)
    lane.set_ylim(-len(rows) + 0.35, 0.85)
    lane.set_yticks(list(rows.values()), labels=[phase(name, look.lang) for name in rows])
    lane.tick_params(axis="y", length=0.0, labelsize=look.size.text)
    lane.grid(visible=False, axis="y")
    lane.spines["left"].set_visible(False)


def lane_row(lane: Any, path: Path) -> float:
    """Where a phase's row stands in the lane."""
    return next(float(line.get_ydata()[0]) for line in lane.lines if line.get_label() == path.phase)
