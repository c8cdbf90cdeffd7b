"""Drawing the breakdown: a bar an op, hatched by what binds it, with a tick where the other resource would end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from roofline.views.plot.lettering import plain, time_unit, width_pt
from roofline.views.plot.ops_points import PhaseBars
from roofline.views.plot.ops_words import SAY, beside, name_of
from roofline.views.plot.theme import Look, blend, dress
from roofline.views.plot.words import SAY as COMMON

__all__ = ["draw_ops", "letter_ops"]

BAR = 0.62  # of a row's height
HATCHES = {"compute": "", "memory": "////", "link": "xxx", "overhead": "...", "tier": "\\\\\\\\"}
KEY = 1.9  # rows that the key takes, under the bars
SHORT = 2e-4  # of the longest bar: shorter ones are in µs [s]
TICK_FROM = 0.01  # of the longest bar: a shorter term of the other resource has no tick


def draw_ops(ax: Any, shown: PhaseBars, n_rows: int, look: Look) -> None:
    """Bars on a scale of their own; `n_rows` is that of the phase with most, so that bars are as high in both."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    theme, size = look.theme, look.size
    longest = max(bar.seconds for bar in shown.bars)
    unit, per_s = _unit(longest)
    dress(ax, look)
    said = max(width_pt(beside(bar, look.lang), size=size.note) for bar in shown.bars) + 8.0
    width = max(0.55 * ax.get_window_extent().width * 72.0 / ax.figure.figure.dpi, said + 20.0)
    ax.set(xlim=(0.0, longest * per_s * (1.0 + said / (width - said))), ylim=(n_rows - 0.4 + KEY, -0.6))
    ax.xaxis.set_major_locator(MaxNLocator(nbins=5, steps=[1, 2, 2.5, 5, 10]))
    ax.xaxis.set_major_formatter(FuncFormatter(plain))
    ax.grid(visible=False, axis="y")
    colour = theme.of(shown.phase)
    for row, bar in enumerate(shown.bars):
        ax.barh(
            row, bar.seconds * per_s, height=BAR, facecolor=blend(colour, theme.ground, 0.3), edgecolor=colour,
            hatch=HATCHES[bar.bound] if bar.n == 1 else "", linewidth=0.9, zorder=3, label=bar.name or "other",
        )  # fmt: skip
        if bar.n == 1 and bar.other_s > TICK_FROM * longest:
            ax.plot(
                [bar.other_s * per_s] * 2, [row - BAR / 2.0, row + BAR / 2.0], color=theme.ink, linewidth=1.6, zorder=4,
                label=f"{bar.name} other",
            )  # fmt: skip
    ax.set_yticks(range(len(shown.bars)), [name_of(bar, look.lang) for bar in shown.bars], fontsize=size.note)
    ax.tick_params(axis="y", length=0.0)
    ax.set_xlabel(SAY(look.lang, "x", unit=unit), fontsize=size.text, color=theme.ink)


def _unit(longest: float) -> tuple[str, float]:
    """The unit of an axis of times so long: as `time_unit`, and µs where ms would be hundredths."""
    return ("µs", 1e6) if longest < SHORT else time_unit(longest)


def letter_ops(ax: Any, shown: PhaseBars, all_phases: Sequence[PhaseBars], look: Look) -> None:
    """What binds each, at the end of its bar; the key of the hatches under the last bars, where they are short."""
    _, per_s = _unit(max(bar.seconds for bar in shown.bars))
    for row, bar in enumerate(shown.bars):
        ax.annotate(
            beside(bar, look.lang), (bar.seconds * per_s, row), xytext=(4.0, 0.0), textcoords="offset points", ha="left",
            va="center", zorder=6, **look.text | {"fontsize": look.size.note},
        )  # fmt: skip
    if shown is all_phases[-1]:
        _key(ax, all_phases, look)


def _key(ax: Any, phases: Sequence[PhaseBars], look: Look) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    theme, lang = look.theme, look.lang
    bounds = [b for b in HATCHES if any(bar.bound == b and bar.n == 1 for p in phases for bar in p.bars)]
    marks: list[Any] = [Patch(facecolor="none", edgecolor=theme.ink, hatch=HATCHES[b]) for b in bounds]
    words = [COMMON(lang, b) for b in bounds]
    if any(str(line.get_label()).endswith(" other") for line in ax.lines):
        marks.append(Line2D([], [], color=theme.ink, linewidth=1.6, linestyle="none", marker="|", markersize=8.0))
        words.append(SAY(lang, "tick"))
    key = ax.legend(
        marks, words, loc="lower right", fontsize=look.size.note, frameon=False, labelcolor=theme.ink, borderaxespad=0.2,
        borderpad=0.1, labelspacing=0.25, handlelength=1.6, handletextpad=0.4, columnspacing=0.9, ncols=-(-len(marks) // 2),
    )  # fmt: skip
    key.set_in_layout(False)
