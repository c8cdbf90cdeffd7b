"""Letters on a figure: numbers for people, plain ticks, lines that fit their width, labels that keep clear."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roofline.views.plot.theme import Look

__all__ = ["Label", "Obstacles", "log_ticks", "pick", "place", "plain", "sig", "time_unit", "wrapped"]

MAX_TITLE = 75
IN_SECONDS_FROM = 10.0  # an axis that reaches this many seconds is in seconds, else in ms


def sig(value: float) -> str:
    """Three significant digits, all digits of what is larger.

    >>> sig(7.4318), sig(54.4), sig(295.34), sig(13842.7), sig(0.05612)
    ('7.43', '54.4', '295', '13,843', '0.0561')
    """
    if value >= 99.95:
        return f"{value:,.0f}"
    decimals = 2 - int(np.floor(np.log10(value))) if value > 0.0 else 0
    return f"{value:.{min(max(decimals, 0), 8)}f}"


def times(ratio: float) -> str:
    """A ratio in two digits.

    >>> times(39.74), times(3.94), times(148.0)
    ('40x', '3.9x', '148x')
    """
    return f"{ratio:.1f}x" if ratio < 9.95 else f"{ratio:,.0f}x"


def plain(value: float, _position: object = None) -> str:
    """A tick: 1, 10, 1000; never 1e+12.

    >>> plain(1000.0), plain(2.5), plain(0.01), plain(1e12)
    ('1000', '2.5', '0.01', '1000000000000')
    """
    return f"{value:.9f}".rstrip("0").rstrip(".") if abs(value) < 1e6 else f"{value:.0f}"


def time_unit(largest_s: float) -> tuple[str, float]:
    """The unit of an axis of times that reaches so far, and how many of it are a second."""
    return ("s", 1.0) if largest_s >= IN_SECONDS_FROM else ("ms", 1e3)


def pick(*sentences: str) -> str:
    """The first that fits a title, or the last cut to fit.

    >>> pick("long " * 40, "short")
    'short'
    """
    for sentence in sentences:
        if len(sentence) + sum(map(_is_wide, sentence)) <= MAX_TITLE:
            return sentence
    return sentences[-1][: MAX_TITLE - 1] + "…"


def log_ticks(axis: Any, low: float, high: float) -> None:
    """Decades, or 1-2-5 where fewer than two decades show; labels plain."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    few = np.log10(high / low) < 1.7
    axis.set_major_locator(LogLocator(base=10.0, subs=(1.0, 2.0, 5.0) if few else (1.0,), numticks=30))
    axis.set_minor_locator(LogLocator(base=10.0, subs=tuple(range(2, 10)), numticks=30))
    axis.set_major_formatter(FuncFormatter(plain))
    axis.set_minor_formatter(NullFormatter())


# lines that fit


@lru_cache(maxsize=4096)
def width_pt(text: str, *, size: float, bold: bool = False) -> float:
    """How wide a line is set [pt], by the outlines of the font that matplotlib ships."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.path import Path
    from matplotlib.textpath import TextPath

    font = FontProperties(family="DejaVu Sans", weight="bold" if bold else "normal")
    wide = sum(_is_wide(c) for c in text)  # Chinese: an em each, whatever the font
    rest = "".join(c for c in text if not _is_wide(c)) if wide else text
    if not rest.strip():
        return wide * size
    outline = TextPath((0, 0), rest, size=size, prop=font)
    points = outline.vertices[
        outline.codes != Path.CLOSEPOLY, 0
    ]  # letters have one wherever they end; no curve to follow
    return float(np.ptp(points)) + wide * size


def _is_wide(letter: str) -> bool:
    """Of the Chinese script, or a sign as wide as one of its."""
    return "\u2e80" <= letter <= "\u9fff" or "\uff00" <= letter <= "\uff60"


def wrapped(text: str, *, width: float, size: float, bold: bool = False) -> str:
    """The text in as few lines as `width` [pt] allows, broken at spaces; those of " · " break before the dot, and none
    between a number and its unit.

    Chinese may break behind any of its commas and semicolons.
    """
    lines: list[str] = []
    held = _UNIT.sub("\N{NO-BREAK SPACE}", text.replace(" · ", " ·\N{NO-BREAK SPACE}"))
    for word in _words(held):
        glue = "" if lines and lines[-1].endswith(_COMMAS) else " "
        longer = f"{lines[-1]}{glue}{word}" if lines else word
        if lines and width_pt(longer, size=size, bold=bold) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return "\n".join(line.removeprefix("·\N{NO-BREAK SPACE}") for line in lines).replace("\N{NO-BREAK SPACE}", " ")


_UNIT = re.compile(r"(?<=\d) (?=(?:%|[mnµ]?s|[KMGT]i?B)(?:\W|$))")  # between a number and its unit
_COMMAS = ("，", "；", "：")


def _words(text: str) -> list[str]:
    """What a line holds together."""
    return re.sub("([，；：])(?! )", r"\1 ", text).split(" ")


# labels that keep clear


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """A text for a point (data coordinates), which side to try first, and whether it may go where there is no room."""

    text: str
    x: float
    y: float
    first: str = "below right"
    sides: tuple[str, ...] = ()  # all of them
    is_optional: bool = False


_SIDES = {
    "below right": (1, -1), "right": (1, 0), "below": (0, -1), "above": (0, 1),
    "below left": (-1, -1), "above left": (-1, 1), "left": (-1, 0), "above right": (1, 1),
}  # fmt: skip
_HA = {1: "left", 0: "center", -1: "right"}
_VA = {1: "bottom", 0: "center", -1: "top"}
_DISTANCES = (6.0, 12.0, 20.0, 30.0)  # [pt]
_LEADER_FROM = 20.0
MOST_POINTS = 2000  # of a cloud
_CLEAR = 8.0  # between two labels [pt]


class Obstacles:
    """What labels must keep clear of, in pixels: points along lines, and boxes of markers and earlier labels."""

    def __init__(self, ax: Any) -> None:
        self.ax = ax
        self.points: NDArray[np.float64] = np.empty((0, 3))  # x, y, what covering it costs
        self.boxes: list[Any] = []

    def line(self, xs: Sequence[float], ys: Sequence[float], *, weight: float = 1.0) -> None:
        """A polyline in data coordinates, sampled every few pixels."""
        corners = self.ax.transData.transform(np.column_stack([xs, ys]))
        for a, b in pairwise(corners):
            n = int(np.hypot(*(b - a)) / 3.0) + 2
            samples = a + (b - a) * np.linspace(0.0, 1.0, n)[:, None]
            self.points = np.vstack([self.points, np.column_stack([samples, np.full(n, weight)])])

    def marks(self, xs: Sequence[float], ys: Sequence[float], *, size: float) -> None:
        """Markers of `size` points across."""
        from matplotlib.transforms import Bbox

        r = size / 2.0 * self.ax.figure.figure.dpi / 72.0
        for x, y in self.ax.transData.transform(np.column_stack([xs, ys])):
            self.boxes.append(Bbox.from_extents(x - r, y - r, x + r, y + r))

    def cloud(self, xs: NDArray[np.float64], ys: NDArray[np.float64]) -> None:
        """So many points that some stand for all."""
        kept = slice(None, None, max(1, len(xs) // MOST_POINTS))
        seen = self.ax.transData.transform(np.column_stack([xs[kept], ys[kept]]))
        self.points = np.vstack([self.points, np.column_stack([seen, np.full(len(seen), 0.5)])])

    def arrow(self, head: Any) -> None:
        """An arrow head, if there is one."""
        if head is not None:
            self.boxes.append(head.get_window_extent().padded(1.0))

    def box(self, text: Any) -> None:
        """A text already set."""
        self.boxes.append(text.get_window_extent().padded(_CLEAR * self.ax.figure.figure.dpi / 72.0, 0.0))

    def cost(self, box: Any) -> float:
        """How much a box would cover, and how far it would stick out of the Axes."""
        inside = (
            (self.points[:, 0] > box.x0) & (self.points[:, 0] < box.x1)
            & (self.points[:, 1] > box.y0) & (self.points[:, 1] < box.y1)
        )  # fmt: skip
        frame = self.ax.get_window_extent().padded(-3.0)
        out: float = max(frame.x0 - box.x0, 0) + max(box.x1 - frame.x1, 0) + max(frame.y0 - box.y0, 0)
        out += max(box.y1 - frame.y1, 0)
        return float(self.points[inside, 2].sum() + 40.0 * sum(bool(box.overlaps(b)) for b in self.boxes) + 10.0 * out)


def place(ax: Any, labels: Iterable[Label], *, obstacles: Obstacles, look: Look) -> list[Any]:
    """Set each label where it covers least, nearest first; one that had to move away keeps a thin line to its point."""
    texts = []
    for label in labels:
        best = min(_tries(ax, label, obstacles, look), key=lambda found: found[0])
        if label.is_optional and (best[0] >= 2.0 or best[2] >= _LEADER_FROM):
            continue
        text = _annotated(ax, label, best[1], best[2], look)
        if best[2] >= _LEADER_FROM:
            _leader(ax, label, best[1], best[2], look)
        obstacles.box(text)
        texts.append(text)
    return texts


def _tries(ax: Any, label: Label, obstacles: Obstacles, look: Look) -> Iterable[tuple[float, str, float]]:
    sides = label.sides or tuple(dict.fromkeys([label.first, *_SIDES]))
    for distance in _DISTANCES:
        for rank, side in enumerate(sides):
            text = _annotated(ax, label, side, distance, look)
            covered = obstacles.cost(text.get_window_extent())
            text.remove()
            yield covered + 0.1 * distance + 0.02 * rank, side, distance
            if covered == 0.0:
                return


def _offset(side: str, distance: float) -> tuple[float, float]:
    x, y = _SIDES[side]
    share = 0.75 if x and y else 1.0
    return x * distance * share, y * distance * share


def _annotated(ax: Any, label: Label, side: str, distance: float, look: Look) -> Any:
    x, y = _SIDES[side]
    return ax.annotate(
        label.text,
        (label.x, label.y),
        xytext=_offset(side, distance),
        textcoords="offset points",
        ha=_HA[x],
        va=_VA[y],
        zorder=8,
        annotation_clip=False,
        **look.text,
    )


def _leader(ax: Any, label: Label, side: str, distance: float, look: Look) -> None:
    ax.annotate(
        "",
        (label.x, label.y),
        xytext=_offset(side, distance),
        textcoords="offset points",
        arrowprops={"arrowstyle": "-", "color": look.theme.grey, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 3},
        in_layout=False,
        annotation_clip=False,
    )
