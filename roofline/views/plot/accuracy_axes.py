"""Drawing accuracy: points about the line of equality, boxes about one, and what both find in words."""

from __future__ import annotations

from typing import Any

import numpy as np

from roofline.evidence.accuracy import WHATS
from roofline.views.plot.accuracy_points import Points, Spread
from roofline.views.plot.accuracy_words import SAY, families_of, family_said, row_said
from roofline.views.plot.lettering import log_ticks
from roofline.views.plot.theme import Look, Theme, blend, dress

__all__ = ["draw_residuals", "draw_scatter", "letter_residuals", "letter_scatter"]

MARKERS = {"vLLM": "o", "TensorRT-LLM": "s", "llama.cpp": "^", "MLX": "D", "others": "v"}
PHASE_MARKERS = {"ttft": "o", "tpot": "s", "e2e": "^"}
BOX = 0.62  # of a row's height
REACH = (0.4, 2.5)  # residuals outside are drawn at the edge


def _family_colour(family: str, theme: Theme) -> str:
    return {
        "vLLM": theme.prefill, "TensorRT-LLM": theme.kv, "llama.cpp": theme.decode, "MLX": theme.links,
        "others": theme.grey,
    }[family]  # fmt: skip


def _phase_colour(what: str, theme: Theme) -> str:
    return {"ttft": theme.prefill, "tpot": theme.decode, "e2e": theme.kv}[what]


# predicted against measured


def draw_scatter(ax: Any, shown: Points, look: Look) -> None:
    """Points by engine, the line of equality, the band that holds 80 % of them, on equal log axes."""
    theme, size = look.theme, look.size
    dress(ax, look)
    both = np.concatenate([shown.measured_s, shown.predicted_s])
    low, high = float(both.min()) / 1.5, float(both.max()) * 1.5
    line = np.asarray([low, high])
    ax.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high))
    for axis in (ax.xaxis, ax.yaxis):
        log_ticks(axis, low, high)
    band = blend(theme.grey, theme.ground, 0.22)
    ax.fill_between(line, line / shown.factor, line * shown.factor, color=band, linewidth=0.0, zorder=1, label="band")
    ax.plot(line, line, color=theme.ink, linewidth=0.9, zorder=2, label="equal")
    for family in families_of(shown):
        mine = shown.families == family
        ax.plot(
            shown.measured_s[mine], shown.predicted_s[mine], linestyle="none", marker=MARKERS[family], markersize=3.2,
            markerfacecolor=_family_colour(family, theme), markeredgecolor=theme.ground, markeredgewidth=0.3, alpha=0.75,
            zorder=4, label=family,
        )  # fmt: skip
    ax.set_xlabel(SAY(look.lang, "measured"), fontsize=size.text, color=theme.ink)
    ax.set_ylabel(SAY(look.lang, "predicted"), fontsize=size.text, color=theme.ink)


def letter_scatter(ax: Any, shown: Points, look: Look) -> None:
    """The key of the engines where no point is (above the line of equality, at the left), the band at the right."""
    theme = look.theme
    counts = {family: int(np.sum(shown.families == family)) for family in families_of(shown)}
    handles = [_mark(MARKERS[family], _family_colour(family, theme)) for family in counts]
    names = [SAY(look.lang, "count", name=family_said(family, look.lang), n=f"{n:,}") for family, n in counts.items()]
    ax.legend(
        handles, names, loc="upper left", fontsize=look.size.note, frameon=False, labelcolor=theme.ink,
        handletextpad=0.2, borderaxespad=0.2, labelspacing=0.3,
    )  # fmt: skip
    ax.annotate(
        SAY(look.lang, "band", factor=f"{shown.factor:.2f}"), (0.985, 0.02), xycoords="axes fraction",
        ha="right", va="bottom", **look.text | {"fontsize": look.size.note}, zorder=6,
    )  # fmt: skip


def _mark(marker: str, colour: str) -> Any:
    from matplotlib.lines import Line2D

    return Line2D([], [], linestyle="none", marker=marker, markersize=4.0, color=colour)


# residuals


def draw_residuals(ax: Any, found: tuple[Spread, ...], look: Look) -> None:
    """A row a name: every ratio as a point by its kind, the middle half as a box, the middle 80 % as a line."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    theme, size = look.theme, look.size
    dress(ax, look)
    below = min(1.2, max(0.35, 0.08 * len(found)))  # room for the key [row]
    ax.set(xscale="log", xlim=REACH, ylim=(len(found) - 0.4 + below, -0.6))
    ticks = [0.5, 0.75, 1.0, 1.33, 2.0] if look.is_narrow else [0.5, 0.67, 0.8, 1.0, 1.25, 1.5, 2.0]
    ax.xaxis.set_major_locator(FixedLocator(ticks))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _=None: f"{x:g}×"))
    ax.grid(visible=False, axis="y")
    ax.axvline(1.0, color=theme.ink, linewidth=0.9, zorder=2)
    for i, spread in enumerate(found):
        _draw_row(ax, i, spread, theme)
    names = [
        SAY(look.lang, "count", name=row_said(spread.name, look.lang), n=f"{len(spread.all):,}") for spread in found
    ]
    ax.set_yticks(range(len(found)), names, fontsize=min(size.text, size.note + 0.5))
    ax.tick_params(axis="y", length=0.0)
    ax.set_xlabel(SAY(look.lang, "ratio"), fontsize=size.text, color=theme.ink)


def _draw_row(ax: Any, i: int, spread: Spread, theme: Theme) -> None:
    low, first, middle, third, high = (min(max(q, REACH[0]), REACH[1]) for q in spread.quantiles)
    ax.plot([low, high], [i, i], color=theme.ink, linewidth=0.8, zorder=5, label=f"{spread.name}: 80 %")
    ax.barh(
        i, third - first, left=first, height=BOX, facecolor=blend(theme.grey, theme.ground, 0.35), alpha=0.6,
        edgecolor=theme.ink, linewidth=0.6, zorder=3,
    )  # fmt: skip
    ax.plot([middle, middle], [i - BOX / 2, i + BOX / 2], color=theme.ink, linewidth=1.6, zorder=6)
    for what, ratios in spread.ratios.items():
        steps = (np.arange(len(ratios)) * 0.618034) % 1.0 - 0.5  # golden steps: spread evenly, the same each time
        ax.plot(
            np.clip(ratios, *REACH), i + BOX * 0.85 * steps, linestyle="none", marker=PHASE_MARKERS[what], markersize=2.0,
            markerfacecolor=_phase_colour(what, theme), markeredgewidth=0.0, alpha=0.55, zorder=4, clip_on=False,
        )  # fmt: skip


def letter_residuals(ax: Any, found: tuple[Spread, ...], look: Look) -> None:
    """The key of the kinds, below the last row."""
    theme = look.theme
    present = [what for what in WHATS if any(what in spread.ratios for spread in found)]
    names = {what: SAY(look.lang, what) for what in WHATS}
    ax.legend(
        [_mark(PHASE_MARKERS[what], _phase_colour(what, theme)) for what in present], [names[what] for what in present],
        loc="lower right", ncols=3, fontsize=look.size.note, frameon=False, labelcolor=theme.ink, handletextpad=0.1,
        borderaxespad=0.1, borderpad=0.1, columnspacing=1.0,
    )  # fmt: skip
