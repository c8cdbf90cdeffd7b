"""Drawing the Pareto front: every point, the front as steps, names of its points where there is room, a small table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from roofline.views.plot.lettering import Label, Obstacles, pick, place, plain, sig
from roofline.views.plot.pareto_points import Front
from roofline.views.plot.theme import Look, blend, dress

__all__ = ["draw_pareto", "letter_pareto", "pareto_alt", "pareto_line", "pareto_title"]

SIZE = 5.0  # of a marker [pt]
WORDS: Mapping[str, Mapping[str, str]] = {
    "en": {
        "x": "Speed of a user (tok/s, more is better →)", "y": "Output of a chip (tok/s)", "front": "front",
        "meets": "meets the SLO", "fails": "fails the SLO",
        "title": "From {y0} tok/s a chip at {x0} a user to {y1} at {x1}", "one": "{y0} tok/s a chip at {x0} tok/s a user",
        "none": "None of {n} meets the SLO", "row": "≥ {speed}: {y}  {label}", "nothing": "≥ {speed}: none",
        "head": "tok/s a user: a chip", "line": "{front} of {n} on the front · failing the SLO: {fails}",
        "left": " · {n} without a speed left out",
        "alt": "Output of a chip against the speed of a user, {n} points, of which failing the SLO: {fails}. {title}. "
               "The front: {listed}.",
    },
    "zh": {
        "x": "单个用户的速度（tok/s，越大越好 →）", "y": "每芯片输出（tok/s）", "front": "前沿",
        "meets": "满足 SLO", "fails": "不满足 SLO",
        "title": "从每用户 {x0} tok/s 时每芯片 {y0}，到 {x1} 时 {y1}", "one": "每用户 {x0} tok/s，每芯片 {y0} tok/s",
        "none": "{n} 个方案都不满足 SLO", "row": "≥ {speed}：{y}  {label}", "nothing": "≥ {speed}：无",
        "head": "每用户 tok/s：每芯片", "line": "{n} 个方案，前沿 {front} 个 · {fails} 个不满足 SLO",
        "left": " · 略去 {n} 个没有速度的",
        "alt": "每芯片输出随单个用户速度的变化，{n} 个点，其中 {fails} 个不满足 SLO。{title}。前沿：{listed}。",
    },
}  # fmt: skip


def draw_pareto(ax: Any, shown: Front, look: Look) -> None:
    """Points, hollow where they fail; the front as steps, since between two points there is no third."""
    from matplotlib.ticker import FuncFormatter

    theme, size, said = look.theme, look.size, WORDS[look.lang]
    dress(ax, look)
    ax.set(xlim=(0.0, 1.12 * max(p.x for p in shown.points)), ylim=(0.0, 1.14 * max(p.y for p in shown.points)))
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(FuncFormatter(plain))
    kinds = {"meets": [p for p in shown.points if p.meets], "fails": [p for p in shown.points if not p.meets]}
    faint = blend(theme.decode, theme.ground, 0.45)
    for name, points in kinds.items():
        if points:
            ax.plot(
                [p.x for p in points], [p.y for p in points], linestyle="none", marker="o" if name == "meets" else "X",
                markersize=SIZE, color=faint if name == "meets" else theme.grey, markeredgewidth=0.9, zorder=3,
                markerfacecolor=faint if name == "meets" else "none", label=name,
            )  # fmt: skip
    if shown.front:
        xs, ys = _steps(shown)
        ax.plot(xs, ys, color=theme.decode, linewidth=1.6, zorder=4, label="front")
        ax.plot(
            [p.x for p in shown.front], [p.y for p in shown.front], linestyle="none", marker="o", markersize=SIZE + 1.0,
            color=theme.decode, zorder=5, label="front points",
        )  # fmt: skip
    ax.set_xlabel(said["x"], fontsize=size.text, color=theme.ink)
    ax.set_ylabel(said["y"], fontsize=size.text, color=theme.ink)


def _steps(shown: Front) -> tuple[list[float], list[float]]:
    """From no speed at all: level up to each point, then down to what the next gives."""
    xs, ys = [0.0], [shown.front[0].y]
    for before, after in zip(shown.front, (*shown.front[1:], None), strict=True):
        xs += [before.x, before.x]
        ys += [before.y, after.y if after is not None else 0.0]
    return xs, ys


def letter_pareto(ax: Any, shown: Front, look: Look) -> None:
    """The key and the table at the upper right, where no front goes; names beside the points of the front."""
    around = Obstacles(ax)
    around.marks([p.x for p in shown.points], [p.y for p in shown.points], size=SIZE + 2.0)
    if shown.front:
        around.line(*_steps(shown))
    for box in _corner(ax, shown, look):
        around.boxes.append(box.get_window_extent().padded(3.0))
    labels = [
        Label(
            text=p.label, x=p.x, y=p.y, sides=("right", "above right", "above", "below left", "left"), is_optional=True
        )
        for p in _spread(shown)
    ]
    place(ax, labels, obstacles=around, look=look)


def _spread(shown: Front) -> list[Any]:
    """The ends of the front first, then its middle, so that where names are left out they are those between."""
    order: list[int] = []
    waiting = [(0, len(shown.front) - 1)]
    order += [0, len(shown.front) - 1] if shown.front else []
    while waiting:
        low, high = waiting.pop(0)
        middle = (low + high) // 2
        if low < middle < high:
            order.append(middle)
            waiting += [(low, middle), (middle, high)]
    return [shown.front[i] for i in dict.fromkeys(order)]


def _corner(ax: Any, shown: Front, look: Look) -> list[Any]:
    from matplotlib.lines import Line2D

    said, theme, size = WORDS[look.lang], look.theme, look.size
    faint = blend(theme.decode, theme.ground, 0.45)
    marks = {
        "front": Line2D([], [], color=theme.decode, marker="o", markersize=SIZE, linewidth=1.6),
        "meets": Line2D([], [], linestyle="none", marker="o", markersize=SIZE, color=faint),
        "fails": Line2D([], [], linestyle="none", marker="X", markersize=SIZE, color=theme.grey, markerfacecolor="none"),
    }  # fmt: skip
    kept = [
        name for name in marks
        if (name == "front" and shown.front) or any(p.meets == (name == "meets") for p in shown.points if name != "front")
    ]  # fmt: skip
    key = ax.legend(
        [marks[name] for name in kept], [said[name] for name in kept], loc="upper right", fontsize=size.note,
        frameon=False, labelcolor=theme.ink, borderaxespad=0.1, labelspacing=0.25, borderpad=0.1,
    )  # fmt: skip
    key.set_in_layout(False)
    if not shown.table:
        return [key]
    rows = [
        said["nothing"].format(speed=plain(speed)) if p is None
        else said["row"].format(speed=plain(speed), y=sig(p.y), label=p.label)
        for speed, p in shown.table
    ]  # fmt: skip
    down = key.get_window_extent().height * 72.0 / ax.figure.figure.dpi + 4.0
    table = ax.annotate(
        "\n".join([said["head"], *rows]), (1.0, 1.0), xycoords="axes fraction", xytext=(-2.0, -down),
        textcoords="offset points", ha="right", va="top", zorder=7, **look.text | {"fontsize": size.note},
    )  # fmt: skip
    return [key, table]


def pareto_title(shown: Front, lang: str) -> str:
    """What the front offers from one end to the other."""
    said = WORDS[lang]
    if not shown.front:
        return pick(said["none"].format(n=len(shown.points)))
    first, last = shown.front[0], shown.front[-1]
    name = "one" if first is last else "title"
    return pick(said[name].format(y0=sig(first.y), x0=sig(first.x), y1=sig(last.y), x1=sig(last.x)))


def pareto_line(shown: Front, subject: str, lang: str) -> str:
    """Second line: whose points, how many, and how many are not drawn."""
    said = WORDS[lang]
    fails = sum(not p.meets for p in shown.points)
    line = said["line"].format(front=len(shown.front), n=len(shown.points), fails=fails)
    left = said["left"].format(n=shown.left_out) if shown.left_out else ""
    return " · ".join(part for part in (subject, line) if part) + left


def pareto_alt(shown: Front, lang: str) -> str:
    """The figure in words."""
    listed = "; ".join(f"{p.label} {sig(p.x)}, {sig(p.y)}" for p in shown.front) or "–"
    fails = int(np.sum([not p.meets for p in shown.points]))
    return WORDS[lang]["alt"].format(n=len(shown.points), fails=fails, title=pareto_title(shown, lang), listed=listed)
