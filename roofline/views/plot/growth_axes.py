"""Drawing growth: a line a model along the context, a level a chip, labels where the lines end."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from roofline.units import format_bytes
from roofline.views.plot.growth_points import KINDS, Growth, GrowthLine
from roofline.views.plot.lettering import log_ticks, pick, plain, width_pt
from roofline.views.plot.theme import Look, Theme, dress

__all__ = ["draw_growth", "growth_alt", "growth_line", "growth_title", "letter_growth"]

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
    for line in shown.lines:
        colour, ys = _colour(line.kind, theme), line.kept_bytes / GIB
        ax.plot(
            line.contexts, ys, color=colour, linewidth=1.6, linestyle=DASHES[line.kind], zorder=4, label=line.model.id
        )
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
    ax.set_xlabel("Context (tokens a sequence)", fontsize=size.text, color=theme.ink)
    ax.set_ylabel("Cache and state (GiB)", fontsize=size.text, color=theme.ink)


def _names_share(shown: Growth, look: Look) -> float:
    """The room right of the lines that their names take, as a share of the lines' own width."""
    names = max(width_pt(line.model.id, size=look.size.note) for line in shown.lines) + 24.0
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
    for line, y in zip(ends, placed, strict=True):
        ax.annotate(
            f"{line.model.id}", (float(line.contexts[-1]), float(line.kept_bytes[-1]) / GIB),
            xytext=(x, (y - frame.y0) / frame.height), textcoords="axes fraction", va="center", ha="left",
            annotation_clip=False, fontsize=look.size.note, color=_colour(line.kind, theme),
            bbox={"facecolor": theme.ground, "edgecolor": "none", "pad": 0.6}, zorder=8,
            arrowprops={"arrowstyle": "-", "color": _colour(line.kind, theme), "linewidth": 0.5, "alpha": 0.7,
                        "shrinkA": 0, "shrinkB": 2},
        )  # fmt: skip
    chips = sorted(shown.chips, key=lambda chip: chip.memory_bytes)
    levels = [float(ax.transData.transform((1.0, chip.memory_bytes / GIB))[1]) + 0.6 * step for chip in chips]
    for chip, y in zip(chips, _spread(levels, step=step, low=frame.y0, high=frame.y1 - 0.5 * step), strict=True):
        name = chip.id if look.size.name == "column" else f"{chip.id}, {format_bytes(chip.memory_bytes)}"
        ax.annotate(
            name, (0.015, (y - frame.y0) / frame.height), xycoords="axes fraction", va="center", ha="left",
            **look.text | {"fontsize": look.size.note}, zorder=6,
            bbox={"facecolor": theme.ground, "edgecolor": "none", "pad": 0.4},
        )  # fmt: skip
    if look.size.name == "column":
        return
    present = [kind for kind in KINDS if any(line.kind == kind for line in shown.lines)]
    handles = [_sample(ax, kind, theme) for kind in present]
    ax.legend(handles, present, loc="lower right", fontsize=look.size.note, frameon=False, labelcolor=theme.ink)


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


def growth_title(shown: Growth) -> str:
    """What the figure finds: how far apart the models are at a context all of them have."""
    common = min(float(line.contexts[-1]) for line in shown.lines)
    at = sorted(((_at(line, common), line) for line in shown.lines), key=lambda pair: pair[0])
    (least, thin), (most, thick) = at[0], at[-1]
    if len(at) == 1 or least <= 0.0:
        return pick(f"{thick.model.id} keeps {format_bytes(most)} of {common:,.0f} tokens")
    times = f"{most / least:,.0f}x"
    return pick(
        f"At {common:,.0f} tokens {thick.model.id} keeps {times} what {thin.model.id} does",
        f"{thick.model.id} keeps {times} what {thin.model.id} does",
    )


def _at(line: GrowthLine, context: float) -> float:
    return float(np.interp(context, line.contexts, line.kept_bytes))


def growth_line(shown: Growth) -> str:
    """Second line: formats and batch."""
    sequences = "one sequence" if shown.batch == 1 else f"{shown.batch:,.0f} sequences"
    return f"{shown.kv} cache and recurrent state of {sequences}; dotted levels: all memory of a chip, weights not yet in it"


def growth_alt(shown: Growth) -> str:
    """The figure in words."""
    ends = "; ".join(
        f"{line.model.id} ({line.kind}) {format_bytes(float(line.kept_bytes[-1]))} at {plain(float(line.contexts[-1]))}"
        for line in shown.lines
    )
    levels = ", ".join(f"{chip.id} {format_bytes(chip.memory_bytes)}" for chip in shown.chips)
    against = f" Memory levels: {levels}." if levels else ""
    return f"Cache and state against context on log axes. {growth_title(shown)}. At their longest: {ends}.{against}"
