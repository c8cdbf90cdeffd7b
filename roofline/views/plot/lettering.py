"""Letters on a figure: numbers for people, plain ticks, lines that fit their width, labels that keep clear."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roofline.views.plot.theme import Size, Theme

__all__ = ["Label", "Obstacles", "halo", "log_ticks", "pick", "place", "plain", "sig", "wrapped"]

MAX_TITLE = 75


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

    >>> plain(1000.0), plain(0.01), plain(1e12)
    ('1000', '0.01', '1000000000000')
    """
    return f"{value:.0f}" if abs(value) >= 1.0 else f"{value:.9f}".rstrip("0").rstrip(".") or "0"


def pick(*sentences: str) -> str:
    """The first that fits a title, or the last cut to fit.

    >>> pick("long " * 40, "short")
    'short'
    """
    for sentence in sentences:
        if len(sentence) <= MAX_TITLE:
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


def halo(theme: Theme, width: float = 2.0) -> list[Any]:
    """A rim in the colour of the ground, so letters and marks stay clear of what they cross."""
    from matplotlib.patheffects import withStroke

    return [withStroke(linewidth=width, foreground=theme.ground)]


# lines that fit


@lru_cache(maxsize=4096)
def width_pt(text: str, *, size: float, bold: bool = False) -> float:
    """How wide a line is set [pt], by the outlines of the font that matplotlib ships."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    font = FontProperties(family="DejaVu Sans", weight="bold" if bold else "normal")
    return float(TextPath((0, 0), text, size=size, prop=font).get_extents().width) if text.strip() else 0.0


def wrapped(text: str, *, width: float, size: float, bold: bool = False) -> str:
    """The text in as few lines as `width` [pt] allows, broken at spaces; those of " · " break before the dot."""
    lines: list[str] = []
    for word in text.replace(" · ", " ·\N{NO-BREAK SPACE}").split(" "):
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and width_pt(longer, size=size, bold=bold) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return "\n".join(line.removeprefix("·\N{NO-BREAK SPACE}") for line in lines).replace("\N{NO-BREAK SPACE}", " ")


# labels that keep clear


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """A text for a point (data coordinates), and which side to try first."""

    text: str
    x: float
    y: float
    first: str = "below right"


_SIDES = {
    "below right": (1, -1), "right": (1, 0), "below": (0, -1), "above": (0, 1),
    "below left": (-1, -1), "above left": (-1, 1), "left": (-1, 0), "above right": (1, 1),
}  # fmt: skip
_HA = {1: "left", 0: "center", -1: "right"}
_VA = {1: "bottom", 0: "center", -1: "top"}
_DISTANCES = (6.0, 12.0, 20.0, 30.0)  # [pt]
_LEADER_FROM = 12.0


class Obstacles:
    """What labels must keep clear of, in pixels: points along lines, and boxes of markers and earlier labels."""

    def __init__(self, ax: Any) -> None:
        self.ax = ax
        self.points: NDArray[np.float64] = np.empty((0, 2))
        self.boxes: list[Any] = []

    def line(self, xs: Sequence[float], ys: Sequence[float]) -> None:
        """A polyline in data coordinates, sampled every few pixels."""
        corners = self.ax.transData.transform(np.column_stack([xs, ys]))
        for a, b in zip(corners, corners[1:], strict=False):
            n = int(np.hypot(*(b - a)) / 3.0) + 2
            self.points = np.vstack([self.points, a + (b - a) * np.linspace(0.0, 1.0, n)[:, None]])

    def marks(self, xs: Sequence[float], ys: Sequence[float], *, size: float) -> None:
        """Markers of `size` points across."""
        from matplotlib.transforms import Bbox

        r = size / 2.0 * self.ax.figure.figure.dpi / 72.0
        for x, y in self.ax.transData.transform(np.column_stack([xs, ys])):
            self.boxes.append(Bbox.from_extents(x - r, y - r, x + r, y + r))

    def box(self, text: Any) -> None:
        """A text already set."""
        self.boxes.append(text.get_window_extent())

    def cost(self, box: Any) -> float:
        """How much a box would cover, and how far it would stick out of the Axes."""
        inside = (
            (self.points[:, 0] > box.x0) & (self.points[:, 0] < box.x1)
            & (self.points[:, 1] > box.y0) & (self.points[:, 1] < box.y1)
        )  # fmt: skip
        frame = self.ax.get_window_extent()
        out = max(frame.x0 - box.x0, 0) + max(box.x1 - frame.x1, 0) + max(frame.y0 - box.y0, 0)
        out += max(box.y1 - frame.y1, 0)
        return float(inside.sum()) + 40.0 * sum(bool(box.overlaps(b)) for b in self.boxes) + 10.0 * out


def place(ax: Any, labels: Iterable[Label], *, obstacles: Obstacles, theme: Theme, size: Size) -> list[Any]:
    """Set each label where it covers least, nearest first; one that had to move away keeps a thin line to its point."""
    texts = []
    for label in labels:
        best = min(_tries(ax, label, obstacles, size), key=lambda found: found[0])
        text = _annotated(ax, label, best[1], best[2], size)
        text.set(path_effects=halo(theme), color=theme.ink, zorder=8)
        if best[2] >= _LEADER_FROM:
            _leader(ax, label, best[1], best[2], theme)
        obstacles.box(text)
        texts.append(text)
    return texts


def _tries(ax: Any, label: Label, obstacles: Obstacles, size: Size) -> Iterable[tuple[float, str, float]]:
    sides = dict.fromkeys([label.first, *_SIDES])
    for rank, (distance, side) in enumerate((d, s) for d in _DISTANCES for s in sides):
        text = _annotated(ax, label, side, distance, size)
        cost = obstacles.cost(text.get_window_extent()) + 0.01 * rank
        text.remove()
        yield cost, side, distance
        if cost < 0.5:
            return


def _offset(side: str, distance: float) -> tuple[float, float]:
    x, y = _SIDES[side]
    share = 0.75 if x and y else 1.0
    return x * distance * share, y * distance * share


def _annotated(ax: Any, label: Label, side: str, distance: float, size: Size) -> Any:
    x, y = _SIDES[side]
    return ax.annotate(
        label.text,
        (label.x, label.y),
        xytext=_offset(side, distance),
        textcoords="offset points",
        ha=_HA[x],
        va=_VA[y],
        fontsize=size.text,
        in_layout=False,
        annotation_clip=False,
    )


def _leader(ax: Any, label: Label, side: str, distance: float, theme: Theme) -> None:
    ax.annotate(
        "",
        (label.x, label.y),
        xytext=_offset(side, distance),
        textcoords="offset points",
        arrowprops={"arrowstyle": "-", "color": theme.grey, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 3},
        in_layout=False,
        annotation_clip=False,
    )
