"""Drawing heat maps: a cell a value, white with a cross where nothing fits, the promise along the edges of cells."""

from __future__ import annotations

from typing import Any

import numpy as np

from roofline.views.plot.heat_points import Heat
from roofline.views.plot.heat_words import SAY
from roofline.views.plot.latency_words import SAY as LATENCY
from roofline.views.plot.lettering import plain, sig, width_pt
from roofline.views.plot.theme import Look, dress

__all__ = ["draw_heat", "letter_heat"]

MAP = "cividis"
MS = 1e3  # a second
DARK_BELOW = 0.5  # of the map's lightness: letters are white there


def draw_heat(ax: Any, heat: Heat, look: Look) -> None:
    """Cells, each as wide as any, since each doubles the one before."""
    from matplotlib.colors import LogNorm

    theme, size = look.theme, look.size
    dress(ax, look)
    ax.grid(visible=False)
    n_up, n_across = heat.fits.shape
    values = np.ma.masked_invalid(heat.seconds * MS)
    if heat.fits.any():
        ends = LogNorm(vmin=float(values.min()), vmax=max(float(values.max()), 1.001 * float(values.min())))
        cells = ax.pcolormesh(
            np.arange(n_across + 1), np.arange(n_up + 1), values, cmap=MAP, norm=ends, zorder=2, linewidth=0.0
        )
        if not _has_room(ax, heat, look, 0.85):
            _bar(ax, cells, heat, look)
    ups, acrosses = np.nonzero(~heat.fits)
    if ups.size:
        ax.plot(
            acrosses + 0.5, ups + 0.5, linestyle="none", marker="x", markersize=4.0, markeredgewidth=0.8, color=theme.grey,
            zorder=3, label="does not fit",
        )  # fmt: skip
    if heat.limit is not None:
        xs, ys = _edge(heat)
        ax.plot(xs, ys, color=theme.ink, linewidth=2.0, zorder=5, path_effects=look.halo(4.0), label="SLO")
    _box(ax, heat, look)
    ax.set(xlim=(0.0, n_across), ylim=(0.0, n_up))
    step = 2 if look.is_narrow and n_across > 6 else 1
    ax.set_xticks(np.arange(0, n_across, step) + 0.5, [_tokens(v) for v in heat.tokens[::step]])
    ax.set_yticks(np.arange(n_up) + 0.5, [plain(v) for v in heat.batches])
    ax.tick_params(axis="both", length=0.0)
    ax.set_xlabel(
        LATENCY(look.lang, "prompts" if heat.kind == "ttft" else "contexts"), fontsize=size.text, color=theme.ink
    )
    ax.set_ylabel(LATENCY(look.lang, "batches"), fontsize=size.text, color=theme.ink)


def _tokens(value: float) -> str:
    """A power of 2 as people write contexts.

    >>> [_tokens(v) for v in (128.0, 2048.0, 1048576.0)]
    ['128', '2k', '1M']
    """
    if value < 1024.0:
        return f"{value:.0f}"
    return f"{value / 1024.0:.0f}k" if value < 1024.0**2 else f"{value / 1024.0**2:.0f}M"


def _edge(heat: Heat) -> tuple[list[float], list[float]]:
    """Edges between a cell that keeps the promise and one that fits and breaks it, apart from one another by a gap."""
    xs: list[float] = []
    ys: list[float] = []
    broken = heat.fits & ~heat.kept
    for up, across in np.argwhere(heat.kept):
        for d_up, d_across in ((1, 0), (-1, 0), (0, 1), (0, -1)):
            i, j = up + d_up, across + d_across
            if 0 <= i < broken.shape[0] and 0 <= j < broken.shape[1] and broken[i, j]:
                if d_up:
                    level = up + (d_up + 1) / 2
                    xs, ys = [*xs, across, across + 1, np.nan], [*ys, level, level, np.nan]
                else:
                    wall = across + (d_across + 1) / 2
                    xs, ys = [*xs, wall, wall, np.nan], [*ys, up, up + 1, np.nan]
    return xs, ys


def _box(ax: Any, heat: Heat, look: Look) -> None:
    """The cell that was asked about."""
    from matplotlib.patches import Rectangle

    up, across = heat.asked
    ax.add_patch(Rectangle(
        (across, up), 1.0, 1.0, facecolor="none", edgecolor=look.theme.ink, linewidth=1.8, zorder=6, label="asked",
        path_effects=look.halo(4.0),
    ))  # fmt: skip


def letter_heat(ax: Any, heat: Heat, look: Look) -> None:
    """Values in their cells, where they have room; where they have none, a bar says what the colours are."""
    if not heat.fits.any() or hasattr(ax, "roofline_bar") or not _has_room(ax, heat, look, 1.0):
        return
    lightness = _lightness(heat)
    for (i, j), text in _values(heat).items():
        ax.text(
            j + 0.5, i + 0.5, text, ha="center", va="center", fontsize=look.size.note, zorder=4, in_layout=False,
            color="#FFFFFF" if lightness[i, j] < DARK_BELOW else "#000000",
        )  # fmt: skip


def _values(heat: Heat) -> dict[tuple[int, int], str]:
    return {(int(i), int(j)): _short(float(heat.seconds[i, j]) * MS) for i, j in np.argwhere(heat.fits)}


def _has_room(ax: Any, heat: Heat, look: Look, share: float) -> bool:
    """Whether every value is narrower than its cell, of which the final layout leaves a share."""
    cell = ax.get_window_extent().width * 72.0 / ax.figure.figure.dpi / heat.fits.shape[1]
    return bool(max(width_pt(text, size=look.size.note) for text in _values(heat).values()) < share * cell)


def _short(value: float) -> str:
    """Milliseconds in two digits or all of a whole number; from a second on in thousands.

    >>> _short(8.63), _short(51.5), _short(1234.0), _short(17400.0)
    ('8.6', '52', '1.2k', '17k')
    """
    if value >= 999.5:
        return f"{_short(value / 1000.0)}k"
    return f"{value:.1f}" if value < 9.95 else f"{value:.0f}"


def _lightness(heat: Heat) -> Any:
    """Of each cell's colour, 0 to 1."""
    import matplotlib

    logs = np.log(heat.seconds)
    low, high = float(np.nanmin(logs)), float(np.nanmax(logs))
    colours = matplotlib.colormaps[MAP](np.nan_to_num((logs - low) / max(high - low, 1e-12)))
    return colours[..., :3] @ np.asarray([0.299, 0.587, 0.114])


def _bar(ax: Any, cells: Any, heat: Heat, look: Look) -> None:
    """What the colours are, beside the cells."""
    from matplotlib.ticker import FuncFormatter

    bar = ax.figure.figure.colorbar(cells, ax=ax, fraction=0.06, pad=0.02)
    bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda v, _=None: sig(v)))
    bar.ax.tick_params(which="both", labelsize=look.size.note, colors=look.theme.ink, length=2.0)
    bar.outline.set_visible(False)
    bar.set_label(SAY(look.lang, "bar", kind=heat.kind.upper()), fontsize=look.size.note, color=look.theme.ink)
    ax.roofline_bar = bar.ax
