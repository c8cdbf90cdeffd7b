"""Drawing memory: a bar a deployment, its pieces one after another, what is free as an outline, what is over hatched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from roofline.units import format_bytes
from roofline.views.plot.lettering import plain, width_pt, wrapped
from roofline.views.plot.memory_points import PIECES, Stack
from roofline.views.plot.memory_words import SAY, bar_names, verdict
from roofline.views.plot.theme import Look, Theme, blend, dress

__all__ = ["ROW", "draw_memory", "key_rows", "letter_memory"]

GIB = 2.0**30
ROW = 0.62  # of a bar [inch]
BAR = 0.5  # of a row's height
HATCHES = {"weights": "", "draft": "++", "kv": "///", "activations": "...", "runtime": "xx"}
OVER = "\\\\\\"
LEAST_INSIDE, LEAST_NAMED = 0.06, 0.002  # of the axis: a narrower piece is named over the bar; not at all
NAME = 0.22  # of the figure's width, for a name


def _colour(piece: str, theme: Theme) -> str:
    return {
        "weights": theme.grey, "draft": theme.prefill, "kv": theme.kv, "activations": theme.activations,
        "runtime": theme.links,
    }[piece]  # fmt: skip


def draw_memory(ax: Any, stacks: Sequence[Stack], look: Look) -> None:
    """Bars, and on each where the engine's budget and the device end."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    theme, size = look.theme, look.size
    dress(ax, look)
    most = max(max(s.held_bytes, s.capacity_bytes) for s in stacks) / GIB
    ax.set(xlim=(0.0, most * 1.04), ylim=(len(stacks) - 0.38 + key_rows(stacks, look), -0.72))
    ax.xaxis.set_major_locator(MaxNLocator(nbins=6 if look.is_narrow else 10, steps=[1, 2, 2.5, 5, 10]))
    ax.xaxis.set_major_formatter(FuncFormatter(plain))
    ax.grid(visible=False, axis="y")
    for row, stack in enumerate(stacks):
        _draw_bar(ax, row, stack, look)
        _draw_limits(ax, row, stack, look)
    ax.set_yticks(range(len(stacks)), _names(stacks, look), fontsize=size.text)
    ax.tick_params(axis="y", length=0.0)
    ax.set_xlabel(SAY(look.lang, "x"), fontsize=size.text, color=theme.ink)


def _draw_bar(ax: Any, row: int, stack: Stack, look: Look) -> None:
    theme, start = look.theme, 0.0
    for piece, n_bytes in stack.pieces.items():
        colour = _colour(piece, theme)
        ax.barh(
            row, n_bytes / GIB, left=start / GIB, height=BAR, facecolor=blend(colour, theme.ground, 0.35), edgecolor=colour,
            hatch=HATCHES[piece], linewidth=0.8, zorder=3, label=piece,
        )  # fmt: skip
        start += n_bytes
    if stack.free_bytes > 0.0:
        ax.barh(
            row, stack.free_bytes / GIB, left=start / GIB, height=BAR, facecolor="none", edgecolor=theme.grey, linewidth=0.8,
            zorder=2.5, label="free",
        )  # fmt: skip
    if stack.over_bytes > 0.0:
        edge = max(stack.usable_bytes, 0.0)
        ax.barh(
            row, (stack.held_bytes - edge) / GIB, left=edge / GIB, height=BAR, facecolor="none", edgecolor=theme.ink,
            hatch=OVER, linewidth=1.2, zorder=4, label="over",
        )  # fmt: skip


def _draw_limits(ax: Any, row: int, stack: Stack, look: Look) -> None:
    ends = [row - 0.36, row + 0.36]
    if _has_budget(stack):
        usable = max(stack.usable_bytes, 0.0) / GIB
        ax.plot([usable] * 2, ends, color=look.theme.ink, linewidth=1.2, linestyle="--", zorder=5, label="budget")
    ax.plot([stack.capacity_bytes / GIB] * 2, ends, color=look.theme.ink, linewidth=1.8, zorder=5, label="device")


def _has_budget(stack: Stack) -> bool:
    return stack.usable_bytes < 0.999 * stack.capacity_bytes


def letter_memory(ax: Any, stacks: Sequence[Stack], look: Look) -> None:
    """Sizes inside their pieces, or over them where they are narrow; what is left at the end of a bar; the key below."""
    for row, stack in enumerate(stacks):
        _letter_pieces(ax, row, stack, look)
        _letter_verdict(ax, row, stack, look)
    _key(ax, stacks, look)


def _letter_pieces(ax: Any, row: int, stack: Stack, look: Look) -> None:
    """A size in each piece; those of narrow ones over the bar, none on another; the largest where not all fit."""
    frame, pt, size, start = ax.get_window_extent(), 72.0 / ax.figure.figure.dpi, look.size.note, 0.0
    box = {"facecolor": look.theme.ground, "edgecolor": "none", "pad": 0.8}
    style = look.text | {"fontsize": size, "ha": "center", "va": "center", "zorder": 6}
    over: list[tuple[float, str, float]] = []  # middle of a piece [pt], its size in words, and in bytes
    for n_bytes in stack.pieces.values():
        text, wide = format_bytes(n_bytes), n_bytes / GIB / ax.get_xlim()[1]
        middle = (start + n_bytes / 2.0) / GIB
        if wide >= LEAST_INSIDE and width_pt(text, size=size) + 6.0 <= wide * frame.width * pt:
            ax.text(middle, row, text, bbox=box, **style)
        elif wide >= LEAST_NAMED:
            over.append((float(ax.transData.transform((middle, row))[0]) * pt, text, n_bytes))
        start += n_bytes
    widths = {text: width_pt(text, size=size) + 5.0 for _, text, _ in over}
    while sum(widths[text] for _, text, _ in over) > frame.width * pt:
        over.remove(min(over, key=lambda piece: piece[2]))
    places = _spread(
        [at for at, _, _ in over], [widths[text] for _, text, _ in over], least=frame.x0 * pt, most=frame.x1 * pt
    )
    for (at, text, _), there in zip(over, places, strict=True):
        x = float(ax.transData.inverted().transform((at / pt, 0.0))[0])
        edge: dict[str, Any] = {"xy": (x, row - BAR / 2.0), "textcoords": "offset points", "annotation_clip": False}
        ax.annotate(text, xytext=(there - at, 7.0), **edge, **style)
        ax.annotate(
            "", xytext=(there - at, 4.0), in_layout=False, **edge,
            arrowprops={"arrowstyle": "-", "color": look.theme.grey, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 0},
        )  # fmt: skip


def _spread(at: list[float], wide: list[float], *, least: float, most: float) -> list[float]:
    """Middles of words of some widths, in order, pushed right of an edge and of one another, then left of the other edge.

    >>> [_spread(at, [20.0, 10.0], least=0.0, most=100.0) for at in ([8.0, 12.0], [95.0, 97.0])]
    [[10.0, 25.0], [80.0, 95.0]]
    """
    there = list(at)
    for i in range(len(there)):
        there[i] = max(there[i], least + wide[i] / 2.0)
        least = there[i] + wide[i] / 2.0
    for i in reversed(range(len(there))):
        there[i] = min(there[i], most - wide[i] / 2.0)
        most = there[i] - wide[i] / 2.0
    return there


def _letter_verdict(ax: Any, row: int, stack: Stack, look: Look) -> None:
    """Under the bar, at its end; what lacks is bold."""
    text, end = verdict(stack, look.lang), (stack.held_bytes + stack.free_bytes) / GIB
    pt = 72.0 / ax.figure.figure.dpi
    room = (float(ax.transData.transform((end, row))[0]) - ax.get_window_extent().x0) * pt
    is_short = room < width_pt(text, size=look.size.note, bold=not stack.fits) + 2.0
    ax.annotate(
        text, (0.0 if is_short else end, row + BAR / 2.0), xytext=(1.0 if is_short else -1.0, -2.0),
        textcoords="offset points", ha="left" if is_short else "right", va="top", zorder=6,
        fontweight="normal" if stack.fits else "bold", **look.text | {"fontsize": look.size.note},
    )  # fmt: skip


def _key(ax: Any, stacks: Sequence[Stack], look: Look) -> None:
    """What the pieces and the lines are, of those that are there."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    theme = look.theme
    marks: dict[str, Any] = {
        piece: Patch(
            facecolor=blend(_colour(piece, theme), theme.ground, 0.35), edgecolor=_colour(piece, theme), hatch=HATCHES[piece]
        )
        for piece in PIECES
    }  # fmt: skip
    marks |= {
        "free": Patch(facecolor="none", edgecolor=theme.grey),
        "over": Patch(facecolor="none", edgecolor=theme.ink, hatch=OVER),
        "budget": Line2D([], [], color=theme.ink, linewidth=1.2, linestyle="--"),
        "device": Line2D([], [], color=theme.ink, linewidth=1.8),
    }
    words = key_words(stacks, look)
    key = ax.legend(
        [marks[name] for name in words], list(words.values()), loc="lower left", ncols=_columns(stacks, look),
        fontsize=look.size.note, frameon=False, labelcolor=theme.ink, borderaxespad=0.0, borderpad=0.1, handlelength=1.6,
        handletextpad=0.4, columnspacing=1.0, labelspacing=0.3,
    )  # fmt: skip
    key.set_in_layout(False)


def key_words(stacks: Sequence[Stack], look: Look) -> dict[str, str]:
    """The names of what is there, by what they name."""
    there = [piece for piece in PIECES if any(piece in s.pieces for s in stacks)]
    there += ["free"] if any(s.free_bytes > 0.0 for s in stacks) else []
    there += ["over"] if any(s.over_bytes > 0.0 for s in stacks) else []
    there += ["budget"] if any(_has_budget(s) for s in stacks) else []
    kv = "kv_state" if any(s.has_state for s in stacks) else "kv"
    return {name: SAY(look.lang, kv if name == "kv" else name) for name in [*there, "device"]}


def _columns(stacks: Sequence[Stack], look: Look) -> int:
    """As many as stand beside one another under the bars."""
    words = key_words(stacks, look).values()
    each = max(width_pt(word, size=look.size.note) for word in words) + look.size.note * 3.2
    names = max(width_pt(line, size=look.size.text) for name in _names(stacks, look) for line in name.split("\n"))
    return max(1, min(len(words), int((look.size.width * 72.0 - names - 20.0) / each)))


def key_rows(stacks: Sequence[Stack], look: Look) -> float:
    """The room the key takes, in rows of bars."""
    lines = -(-len(key_words(stacks, look)) // _columns(stacks, look))
    return 0.1 + lines * look.size.note * 1.45 / (ROW * 72.0 * look.size.text / 8.0)


def _names(stacks: Sequence[Stack], look: Look) -> list[str]:
    """Names of the bars, in as many lines as they need; of one bar, none."""
    names = bar_names(stacks, look.lang) if len(stacks) > 1 else [""]
    return [wrapped(name, width=NAME * look.size.width * 72.0, size=look.size.text) for name in names]
