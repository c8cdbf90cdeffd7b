"""What a roofline shows besides its phases: what the engine reaches, other roads, single ops, and what was measured."""

from __future__ import annotations

from typing import Any

import numpy as np

from roofline.units import format_si
from roofline.views.plot.lettering import Label, Obstacles
from roofline.views.plot.roof_points import Roof
from roofline.views.plot.roof_slopes import Slope
from roofline.views.plot.theme import Look

__all__ = ["MARKERS", "TERA", "around_beside", "draw_beside", "letter_slopes", "op_labels", "slope_labels"]

TERA = 1e12
MARKERS = {"prefill": "o", "decode": "s"}
SPOT = 5.5  # a measurement's marker [pt]
FAINT = 1500.0  # measurements of a cloud that are drawn as one mark, where they lie on one another
LEAST_OP, MOST_OP = 2.2, 14.0  # an op's, whose area is its share of the time [pt]
NAMED_FROM = 0.04  # of a phase's time
DASHES: dict[str, Any] = {"tier": (0, (4, 2)), "link": ":"}


def draw_beside(ax: Any, roof: Roof, ends: tuple[float, float], look: Look) -> None:
    """All of it, under the paths of the phases; `ends` are those of the x axis."""
    _draw_achieved(ax, roof, ends, look)
    for slope in roof.slopes:
        _draw_slope(ax, roof, slope, ends, look)
    _draw_ops(ax, roof, look)
    _draw_measured(ax, roof, look)


def _draw_achieved(ax: Any, roof: Roof, ends: tuple[float, float], look: Look) -> None:
    """The roof under the roof, and a band from one to the other."""
    if roof.achieved is None:
        return
    top, beta = roof.achieved.flops_per_s / TERA, roof.achieved.bytes_per_s / TERA
    xs = np.unique([ends[0], top / beta, roof.ridge, ends[1]])
    low, high = np.minimum(top, beta * xs), np.asarray(roof.at(xs)) / TERA
    grey = look.theme.grey
    ax.fill_between(xs, low, high, color=grey, alpha=0.1, linewidth=0.0, zorder=1.2, label="to the ideal")
    ax.plot(xs, low, color=grey, linewidth=1.1, linestyle="-.", zorder=2.0, label="achieved")


def _colour(slope: Slope, look: Look) -> str:
    return look.theme.links if slope.kind == "link" else look.theme.ink


def _draw_slope(ax: Any, roof: Roof, slope: Slope, ends: tuple[float, float], look: Look) -> None:
    """A slope up to the roof's top, and its points, each joined to the same pass at its own place."""
    beta, top = slope.bytes_per_s / TERA, roof.ceilings[0].flops_per_s / TERA
    colour = _colour(slope, look)
    xs = [ends[0], min(top / beta, ends[1])]
    ax.plot(
        xs,
        [beta * x for x in xs],
        color=colour,
        linewidth=1.2,
        linestyle=DASHES[slope.kind],
        zorder=2.1,
        label=slope.name,
    )
    for phase, x, y in slope.points:
        path = roof.path("decode" if phase == "decode" else "prefill")
        own = path.asked.intensity if path is not None else x
        ax.plot([own, x], [y / TERA] * 2, color=colour, linewidth=0.7, zorder=2.2, label=f"{phase} by {slope.name}")
        ax.plot(
            [x], [y / TERA], linestyle="none", marker=MARKERS[phase], markersize=5.0, color=colour,
            markerfacecolor=look.theme.ground, markeredgewidth=1.2, zorder=5, label=f"{phase} at {slope.name}",
        )  # fmt: skip


def _draw_ops(ax: Any, roof: Roof, look: Look) -> None:
    for op in roof.ops:
        size = max(LEAST_OP, MOST_OP * np.sqrt(op.share))
        ax.plot(
            [op.intensity], [op.flops_per_s / TERA], linestyle="none", marker=MARKERS[op.phase], markersize=size,
            color=look.theme.of(op.phase), alpha=0.45, markeredgewidth=0.0, zorder=3.2, label=f"{op.phase} {op.name}",
        )  # fmt: skip


def _draw_measured(ax: Any, roof: Roof, look: Look) -> None:
    """A diamond, its interval, and its drop from the roof; of very many only faint ones, as an image in any file."""
    spots, ink = roof.measured, look.theme.ink
    if spots.is_cloud:
        ax.plot(
            spots.intensity, spots.flops_per_s / TERA, linestyle="none", marker="D", markersize=2.2, color=ink,
            alpha=min(0.3, max(0.02, FAINT / len(spots))), markeredgewidth=0.0, zorder=1.6, rasterized=True,
            label="measured",
        )  # fmt: skip
    for spot in spots.spots:
        x, y, top = spot.intensity, spot.flops_per_s / TERA, float(roof.at(spot.intensity)) / TERA
        ax.plot([x] * 2, [y, top], color=look.theme.grey, linewidth=0.9, zorder=3, label="drop")
        if spot.low < spot.high:
            ax.plot(
                [x] * 2, [spot.low / TERA, spot.high / TERA], color=ink, linewidth=1.2, marker="_", markersize=6.0,
                zorder=6.9, label=f"{spot.label} interval",
            )  # fmt: skip
        ax.plot([x], [y], linestyle="none", marker="D", markersize=SPOT, color=ink, zorder=7, label=spot.label)


def around_beside(ax: Any, roof: Roof, around: Obstacles) -> None:
    """The marks of all this, as obstacles."""
    spots = roof.measured
    if spots.is_cloud:
        around.cloud(spots.intensity, spots.flops_per_s / TERA)
    elif len(spots):
        around.marks(list(spots.intensity), list(spots.flops_per_s / TERA), size=SPOT + 2.5)
    points = [(x, y) for slope in roof.slopes for _, x, y in slope.points] + [
        (o.intensity, o.flops_per_s) for o in roof.ops
    ]
    if points:
        around.marks([x for x, _ in points], [y / TERA for _, y in points], size=6.5)


def letter_slopes(ax: Any, roof: Roof, around: Obstacles, look: Look) -> None:
    """Name and rate of each road along its slope, on the side away from that of the memory, where that covers least."""
    from matplotlib.transforms import ScaledTranslation

    low, high = ax.get_xlim()
    for slope in roof.slopes:
        beta, up = slope.bytes_per_s / TERA, 1.0 if slope.bytes_per_s > roof.bytes_per_s else -1.0
        ends = max(low, ax.get_ylim()[0] / beta), min(high, roof.ceilings[0].flops_per_s / TERA / beta)
        shift = ScaledTranslation(-0.03 * up, 0.05 * up, ax.figure.figure.dpi_scale_trans)
        tries = []
        for share in (0.75, 0.6, 0.45, 0.3, 0.85, 0.15):
            x = ends[0] * (ends[1] / ends[0]) ** share
            tries.append(ax.text(
                x, beta * x, f"{slope.name} {format_si(slope.bytes_per_s, 'B/s')}", transform=ax.transData + shift,
                rotation=float(np.degrees(np.arctan(beta))), rotation_mode="anchor", transform_rotates_text=True,
                ha="center", va="bottom" if up > 0.0 else "top", **look.text,
            ))  # fmt: skip
        best = min(tries, key=lambda text: around.cost(text.get_window_extent()))
        for text in tries:
            if text is best:
                around.box(text)
            else:
                text.remove()


def slope_labels(roof: Roof) -> list[Label]:
    """Which road a second point of a phase stands on, where there is room."""
    return [
        Label(text=slope.name, x=x, y=y / TERA, sides=("above", "right", "below"), is_optional=True)
        for slope in roof.slopes
        for _, x, y in slope.points
    ]


def op_labels(roof: Roof, look: Look) -> list[Label]:
    """Names of the ops that take most, largest first, where there is room."""
    ops = [] if look.is_narrow else sorted((op for op in roof.ops if op.share >= NAMED_FROM), key=lambda op: -op.share)
    return [Label(text=op.name, x=op.intensity, y=op.flops_per_s / TERA, is_optional=True) for op in ops]
