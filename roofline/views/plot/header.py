"""The frame of text around a figure: the finding on top, the subject under it, the trust line below."""

from __future__ import annotations

from typing import Any

from roofline.views.plot.lettering import wrapped
from roofline.views.plot.theme import Size, Theme

__all__ = ["band", "head", "panel_width_pt"]

GAP = 6.0  # between the Axes and its second line [pt]
EDGE = 5.0  # between letters and the rim of the figure [pt]
LINE = 1.3  # line height over letter size


def head(ax: Any, title: str, line: str, *, theme: Theme, size: Size, to_edge: bool) -> None:
    """Title and second line over an Axes, wrapped to its width, or from one edge of the figure to the other."""
    figure = ax.figure.figure
    frame = ax.get_window_extent()
    pt = 72.0 / figure.dpi
    left = (EDGE / pt - frame.x0) / frame.width if to_edge else 0.0
    width = figure.get_figwidth() * 72.0 - 2 * EDGE if to_edge else panel_width_pt(ax)
    title_pt = size.title if to_edge else size.text + 0.5
    second = wrapped(line, width=width, size=size.text) if line else ""
    room = GAP + second.count("\n") * size.text * LINE + (size.text * LINE if second else 0.0)
    ax.set_title(
        wrapped(title, width=width, size=title_pt, bold=True),
        loc="left", x=left, pad=room, fontsize=title_pt, fontweight="bold", color=theme.ink, linespacing=LINE - 0.1,
    )  # fmt: skip
    if second:
        ax.annotate(
            second, (left, 1.0), xycoords="axes fraction", xytext=(0.0, GAP - 1.0), textcoords="offset points",
            ha="left", va="bottom", fontsize=size.text, color=theme.ink, linespacing=LINE - 0.1, in_layout=False,
            annotation_clip=False,
        )  # fmt: skip


def panel_width_pt(ax: Any) -> float:
    """From the left of an Axes to where the next in its row begins, or to the rim of the figure [pt]."""
    figure = ax.figure.figure
    frame = ax.get_window_extent()
    right = figure.get_figwidth() * figure.dpi
    for other in figure.axes:
        box = other.get_window_extent()
        if other is not ax and box.x0 > frame.x1 and box.y0 < frame.y1 and box.y1 > frame.y0:
            right = min(right, other.get_tightbbox().x0)
    return float((right - frame.x0) * 72.0 / figure.dpi - EDGE)


def band(figure: Any, *, title: str, line: str, foot: str, theme: Theme, size: Size) -> None:
    """Text across the whole figure, the panels laid out between; an empty title takes no room."""
    height, width = figure.get_figheight() * 72.0, figure.get_figwidth() * 72.0 - 2 * EDGE
    bottom = size.note * LINE + EDGE
    texts = [(wrapped(title, width=width, size=size.title, bold=True), size.title, "bold")] if title else []
    texts += [(wrapped(line, width=width, size=size.text), size.text, "normal")] if line else []
    y = height - EDGE
    for text, letters, weight in texts:
        figure.text(
            EDGE / (width + 2 * EDGE), y / height, text, ha="left", va="top", fontsize=letters, fontweight=weight,
            color=theme.ink, linespacing=LINE - 0.1,
        )  # fmt: skip
        y -= (text.count("\n") + 1) * letters * LINE
    figure.text(
        1.0 - EDGE / (width + 2 * EDGE), EDGE / height, foot, ha="right", va="bottom", fontsize=size.note,
        color=theme.grey,
    )  # fmt: skip
    top = y - (EDGE if texts else 0.0)
    figure.get_layout_engine().set(rect=(0.0, bottom / height, 1.0, (top - bottom) / height))
