"""The frame of text around a figure: the finding on top, the subject under it, the trust line below."""

from __future__ import annotations

from typing import Any

from roofline.views.plot.lettering import width_pt, wrapped
from roofline.views.plot.theme import Look, Size

__all__ = ["align_head", "band", "fit_names", "head"]

GAP = 6.0  # between the Axes and its second line [pt]
EDGE = 5.0  # between letters and the rim of the figure [pt]
LINE = 1.3  # line height over letter size
SHORT_NAMES = {
    "Throughput (TFLOP/s per chip)": "TFLOP/s per chip",
    "每芯片吞吐（TFLOP/s）": "TFLOP/s",
    "Arithmetic intensity (FLOP per byte of HBM traffic)": "Arithmetic intensity (FLOP/B)",
    "Arithmetic intensity (FLOP per byte of memory traffic)": "Arithmetic intensity (FLOP/B)",
}


def head(ax: Any, title: str, line: str, *, look: Look, to_edge: bool) -> Any:
    """Title and second line over an Axes, wrapped to its width, or from one edge of the figure to the other."""
    size, ink = look.size, look.theme.ink
    width = ax.figure.figure.get_figwidth() * 72.0 - 2 * EDGE if to_edge else _panel_width_pt(ax)
    title_pt = size.title if to_edge else size.text + 0.5
    second = wrapped(line, width=width, size=size.text) if line else ""
    room = GAP + second.count("\n") * size.text * LINE + (size.text * LINE + 2.0 if second else 0.0)
    text = ax.set_title(
        wrapped(title, width=width, size=title_pt, bold=True), loc="left", pad=room, fontsize=title_pt,
        fontweight="bold", color=ink, linespacing=LINE - 0.1,
    )  # fmt: skip
    if second:
        ax.annotate(
            second, (EDGE if to_edge else 0.0, 1.0),
            xycoords=("figure points" if to_edge else "axes fraction", "axes fraction"), xytext=(0.0, GAP - 1.0),
            textcoords="offset points", ha="left", va="bottom", fontsize=size.text, color=ink,
            linespacing=LINE - 0.1, in_layout=False, annotation_clip=False,
        )  # fmt: skip
    return text


def align_head(ax: Any, title: Any) -> None:
    """Bring a title that `head` set `to_edge` to the edge, once the Axes stands where it will."""
    figure, frame = ax.figure.figure, ax.get_window_extent()
    title.set_x((EDGE * figure.dpi / 72.0 - frame.x0) / frame.width)


def _panel_width_pt(ax: Any) -> float:
    """From the left of an Axes to where the next in its row begins, or to the rim of the figure [pt]."""
    figure = ax.figure.figure
    frame = ax.get_window_extent()
    right = figure.get_figwidth() * figure.dpi
    for other in figure.axes:
        box = other.get_window_extent()
        if other is not ax and box.x0 > frame.x1 and box.y0 < frame.y1 and box.y1 > frame.y0:
            right = min(right, other.get_tightbbox().x0)
    return float((right - frame.x0) * 72.0 / figure.dpi - 2.5 * EDGE)


def fit_names(ax: Any, below: Any, size: Size) -> None:
    """Shorten the names of axes that are longer than their axis; `below` is the Axes that names x."""
    pt = 72.0 / ax.figure.figure.dpi
    if width_pt(ax.get_ylabel(), size=size.text) > ax.get_window_extent().height * pt * 1.1:
        ax.set_ylabel(SHORT_NAMES.get(ax.get_ylabel(), ax.get_ylabel()))
    if width_pt(below.get_xlabel(), size=size.text) > below.get_window_extent().width * pt * 1.1:
        below.set_xlabel(SHORT_NAMES.get(below.get_xlabel(), below.get_xlabel()))


def band(figure: Any, *, title: str, line: str, name: str, foot: str, look: Look) -> None:
    """Text across the whole figure, the panels laid out between; what is empty takes no room.

    `name` is that of an x axis which all panels have in common.
    """
    size, ink = look.size, look.theme.ink
    height, full = figure.get_figheight() * 72.0, figure.get_figwidth() * 72.0
    width = full - 2 * EDGE
    foot = wrapped(
        foot, width=0.98 * width, size=size.note
    )  # letters on a screen are a little wider than their outlines
    bottom = (foot.count("\n") + 1) * size.note * LINE + EDGE
    texts = [(wrapped(title, width=width, size=size.title, bold=True), size.title, "bold")] if title else []
    texts += [(wrapped(line, width=width, size=size.text), size.text, "normal")] if line else []
    y = height - EDGE
    for text, letters, weight in texts:
        figure.text(
            EDGE / full, y / height, text, ha="left", va="top", fontsize=letters, fontweight=weight, color=ink,
            linespacing=LINE - 0.1,
        )  # fmt: skip
        y -= (text.count("\n") + 1) * letters * LINE + 2.0
    figure.text(
        1.0 - EDGE / full, EDGE / height, foot, ha="right", va="bottom", fontsize=size.note, color=look.theme.grey,
        linespacing=LINE - 0.1,
    )  # fmt: skip
    if name:
        figure.text(0.5, (bottom + 2.0) / height, name, ha="center", va="bottom", fontsize=size.text, color=ink)
        bottom += size.text * LINE + 2.0
    top = y - (EDGE if texts else 0.0)
    figure.get_layout_engine().set(rect=(0.0, bottom / height, 1.0, (top - bottom) / height))
