"""Drawing growth: a line a model along the context, a level a chip, labels where the lines end."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from roofline.units import format_bytes
from roofline.views.plot.growth_points import KINDS, Growth
from roofline.views.plot.growth_words import SAY, name_of
from roofline.views.plot.lettering import Label, Obstacles, log_ticks, place, plain, width_pt
from roofline.views.plot.theme import Look, Theme, blend, dress

__all__ = ["draw_growth", "letter_growth"]

GIB = 2.0**30
DASHES: dict[str, Any] = {
    "MHA": "-", "GQA": "-", "windows": (0, (5, 1.5)), "latent": (0, (5, 1.5, 1, 1.5)), "hybrid": (0, (1, 1.2)),
}  # fmt: skip
GAP = 1.25  # between two labels, of a line of text


def _colour(kind: str, theme: Theme) -> str:
    return {
        "MHA": theme.grey, "GQA": theme.prefill, "windows": theme.decode, "latent": theme.links, "hybrid": theme.kv,
    }[kind]  # fmt: skip


def draw_growth(ax: Any, shown: Growth, look: Look) -> None:
    """Lines and levels on log axes; a dot where a model's context ends."""
    from matplotlib.ticker import FixedLocator, FuncFormatter

    theme, size = look.theme, look.size
    dress(ax, look)
    first, last = float(shown.lines[0].contexts[0]), max(float(line.contexts[-1]) for line in shown.lines)
    values = np.concatenate([line.kept_bytes for line in shown.lines])
    levels = [chip.memory_bytes for chip in shown.chips]
    levels += [] if shown.weight_bytes is None else [shown.weight_bytes]
    kept = values[values > 0.0]
    low, high = (float(kept.min()), float(kept.max())) if kept.size else (GIB, GIB)
    ax.set(xscale="log", yscale="log", xlim=(first, last * (last / first) ** _names_share(shown, look)))
    ax.set_ylim(low / GIB / 1.6, max([high, *levels]) / GIB * 2.2)
    for axis, limits in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim())):
        log_ticks(axis, *limits)
        axis.set_major_formatter(FuncFormatter(_grouped))
    powers = [
        10.0**i for i in range(math.ceil(math.log10(first)), math.floor(math.log10(last)) + 1)
    ]  # none by the names
    ax.xaxis.set_major_locator(FixedLocator(powers[:: 2 if size.name == "column" else 1]))
    for chip in shown.chips:
        ax.axhline(
            chip.memory_bytes / GIB, color=theme.ink, linewidth=0.9, linestyle=(0, (2, 2)), label=chip.id, zorder=2
        )
    _draw_weights(ax, shown, look)
    for colour, line in zip(_colours(shown, theme), shown.lines, strict=True):
        ys = line.kept_bytes / GIB
        ax.plot(
            line.contexts, ys, color=colour, linewidth=1.6, linestyle=DASHES[line.kind], zorder=4,
            label=name_of(line, shown, "en"),
        )  # fmt: skip
        ax.plot(
            line.contexts[-1:],
            ys[-1:],
            linestyle="none",
            marker="o",
            markersize=3.5,
            color=colour,
            zorder=5,
            label="end",
        )
    ax.set_xlabel(SAY(look.lang, "x"), fontsize=size.text, color=theme.ink)
    ax.set_ylabel(SAY(look.lang, "y"), fontsize=size.text, color=theme.ink)


def _colours(shown: Growth, theme: Theme) -> list[str]:
    """A colour a kind; of one model, the larger the batch the stronger."""
    colours = [_colour(line.kind, theme) for line in shown.lines]
    if len(shown.batches) == 1:
        return colours
    shares = np.linspace(0.55, 1.0, len(colours))
    return [blend(colour, theme.ground, float(share)) for colour, share in zip(colours, shares, strict=True)]


def _draw_weights(ax: Any, shown: Growth, look: Look) -> None:
    """The weights as a grey level, and where each line passes it."""
    if shown.weight_bytes is None:
        return
    y, theme = shown.weight_bytes / GIB, look.theme
    ax.axhline(y, color=theme.grey, linewidth=1.2, zorder=2, label="weights")
    crossed = [line.outgrows for line in shown.lines if line.outgrows is not None]
    if crossed:
        ax.plot(
            crossed, [y] * len(crossed), linestyle="none", marker="D", markersize=4.5, color=theme.ink, zorder=6,
            label="outgrows",
        )  # fmt: skip


def _names_share(shown: Growth, look: Look) -> float:
    """The room right of the lines that their names take, as a share of the lines' own width."""
    names = max(width_pt(name_of(line, shown, look.lang), size=look.size.note) for line in shown.lines) + 24.0
    return names / (look.size.width * 72.0 * 0.88 - names)


def letter_growth(ax: Any, shown: Growth, look: Look) -> None:
    """A name right of each line's end, spread so that none covers another, joined by a thin line; chips at the left."""
    theme = look.theme
    step = look.size.text * GAP * ax.figure.figure.dpi / 72.0
    frame = ax.get_window_extent()
    ends = sorted(shown.lines, key=lambda line: float(line.kept_bytes[-1]))
    wanted = [float(ax.transData.transform((1.0, max(float(x.kept_bytes[-1]), 1.0) / GIB))[1]) for x in ends]
    placed = _spread(wanted, step=step, low=frame.y0, high=frame.y1)
    last = max(float(line.contexts[-1]) for line in shown.lines)
    x = (float(ax.transData.transform((last, 1.0))[0]) - frame.x0) / frame.width + 0.025
    colours = dict(zip(map(id, shown.lines), _colours(shown, theme), strict=True))
    for line, y in zip(ends, placed, strict=True):
        colour = colours[id(line)]
        ax.annotate(
            name_of(line, shown, look.lang), (float(line.contexts[-1]), float(line.kept_bytes[-1]) / GIB),
            xytext=(x, (y - frame.y0) / frame.height), textcoords="axes fraction", va="center", ha="left",
            annotation_clip=False, fontsize=look.size.note, color=theme.ink,
            bbox={"facecolor": theme.ground, "edgecolor": "none", "pad": 0.6}, zorder=8,
            arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.5, "alpha": 0.7,
                        "shrinkA": 0, "shrinkB": 2},
        )  # fmt: skip
    _letter_levels(ax, shown, step, look)
    _letter_outgrown(ax, shown, look)
    if look.size.name == "column" or len(shown.lines) == 1 or len(shown.batches) > 1:
        return
    present = [kind for kind in KINDS if any(line.kind == kind for line in shown.lines)]
    handles = [_sample(ax, kind, theme) for kind in present]
    ax.legend(handles, present, loc="lower right", fontsize=look.size.note, frameon=False, labelcolor=theme.ink)


def _letter_levels(ax: Any, shown: Growth, step: float, look: Look) -> None:
    """Names of the chips, and of the weights, over their levels at the left."""
    frame = ax.get_window_extent()
    levels = [
        (chip.memory_bytes, chip.id if look.size.name == "column" else f"{chip.id}, {format_bytes(chip.memory_bytes)}")
        for chip in shown.chips
    ]
    if shown.weight_bytes is not None:
        levels.append((shown.weight_bytes, SAY(look.lang, "weights", bytes=format_bytes(shown.weight_bytes))))
    levels.sort()
    wanted = [float(ax.transData.transform((1.0, held / GIB))[1]) + 0.6 * step for held, _ in levels]
    placed = _spread(wanted, step=step, low=frame.y0, high=frame.y1 - 0.5 * step)
    for (_, name), y in zip(levels, placed, strict=True):
        ax.annotate(
            name, (0.015, (y - frame.y0) / frame.height), xycoords="axes fraction", va="center", ha="left",
            **look.text | {"fontsize": look.size.note}, zorder=6,
            bbox={"facecolor": look.theme.ground, "edgecolor": "none", "pad": 0.4},
        )  # fmt: skip


def _letter_outgrown(ax: Any, shown: Growth, look: Look) -> None:
    """The context at which each line passes the weights, where that covers nothing."""
    around = Obstacles(ax)
    for line in ax.lines:
        xs, ys = line.get_data()
        if len(xs) > 2 and line.get_label() != "outgrows":
            around.line(xs, ys)
    for text in ax.texts:
        around.box(text)
    crossed = [line.outgrows for line in shown.lines if line.outgrows is not None]
    y = (shown.weight_bytes or GIB) / GIB
    if crossed:
        around.marks(crossed, [y] * len(crossed), size=7.0)
    labels = [Label(text=_grouped(x), x=x, y=y, first="below right", is_optional=True) for x in crossed]
    place(ax, labels, obstacles=around, look=look)


def _grouped(value: float, _position: object = None) -> str:
    """A tick as the titles write numbers: 100,000; 0.01."""
    return f"{value:,.0f}" if value >= 1.0 else plain(value)


def _sample(ax: Any, kind: str, theme: Theme) -> Any:
    from matplotlib.lines import Line2D

    return Line2D([], [], color=_colour(kind, theme), linestyle=DASHES[kind], linewidth=1.6)


def _spread(wanted: list[float], *, step: float, low: float, high: float) -> list[float]:
    """Heights in the same order, at least a step apart, the least moved in all (pools of neighbours), within the frame.

    >>> _spread([0.0, 1.0, 50.0], step=10.0, low=-20.0, high=100.0)
    [-4.5, 5.5, 50.0]
    """
    pools: list[
        list[float]
    ] = []  # of what is wanted less i steps: in order, such values are a step apart when put back
    for i, y in enumerate(wanted):
        pools.append([y - i * step])
        while len(pools) > 1 and _mean(pools[-2]) > _mean(pools[-1]):
            pools[-2:] = [pools[-2] + pools[-1]]
    flat = [_mean(pool) for pool in pools for _ in pool]
    last = high - (len(wanted) - 1) * step
    return [min(max(y, low), max(last, low)) + i * step for i, y in enumerate(flat)]


def _mean(pool: list[float]) -> float:
    return sum(pool) / len(pool)
