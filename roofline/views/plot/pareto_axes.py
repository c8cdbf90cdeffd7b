"""Drawing the Pareto front: every point, the front as steps, names of its points where there is room, a small table."""

from __future__ import annotations

from typing import Any

from roofline.views.plot.lettering import Label, Obstacles, place, plain, sig
from roofline.views.plot.pareto_points import Front
from roofline.views.plot.pareto_words import SAY
from roofline.views.plot.theme import Look, blend, dress

__all__ = ["draw_pareto", "letter_pareto"]

SIZE, CLOUD = 5.0, 2.0  # of a marker, and of one of very many [pt]
MOST_NAMES = 16  # that are tried


def draw_pareto(ax: Any, shown: Front, look: Look) -> None:
    """Points, hollow where they fail; the front as steps, since between two points there is no third."""
    from matplotlib.ticker import FuncFormatter

    theme, size = look.theme, look.size
    dress(ax, look)
    ax.set(xlim=(0.0, 1.12 * float(shown.xs.max())), ylim=(0.0, 1.14 * float(shown.ys.max())))
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(FuncFormatter(plain))
    faint = blend(theme.decode, theme.ground, 0.45)
    for name, there in (("meets", shown.meets), ("fails", ~shown.meets)):
        if there.any():
            ax.plot(
                shown.xs[there], shown.ys[there], linestyle="none", marker="o" if name == "meets" else "X",
                markersize=CLOUD if shown.is_cloud else SIZE, color=faint if name == "meets" else theme.grey,
                markeredgewidth=0.0 if shown.is_cloud else 0.9, zorder=3, rasterized=shown.is_cloud,
                markerfacecolor=faint if name == "meets" else theme.grey if shown.is_cloud else "none", label=name,
            )  # fmt: skip
    if shown.front:
        xs, ys = _steps(shown)
        ax.plot(xs, ys, color=theme.decode, linewidth=1.6, zorder=4, label="front")
        ax.plot(
            [p.x for p in shown.front], [p.y for p in shown.front], linestyle="none", marker="o", markersize=SIZE + 1.0,
            color=theme.decode, zorder=5, label="front points",
        )  # fmt: skip
    ax.set_xlabel(SAY(look.lang, "x"), fontsize=size.text, color=theme.ink)
    ax.set_ylabel(SAY(look.lang, "y"), fontsize=size.text, color=theme.ink)


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
    if shown.is_cloud:
        around.cloud(shown.xs, shown.ys)
    else:
        around.marks(list(shown.xs), list(shown.ys), size=SIZE + 2.0)
    if shown.front:
        around.line(*_steps(shown))
    for box in _corner(ax, shown, look):
        around.boxes.append(box.get_window_extent().padded(3.0))
    labels = [
        Label(text=p.label, x=p.x, y=p.y, sides=("right", "above right", "above"), is_optional=True)
        for p in _spread(shown)
    ]
    place(ax, labels, obstacles=around, look=look)


def _spread(shown: Front) -> list[Any]:
    """The ends of the front first, then its middle, so that names left out are those between; each name once."""
    order: list[int] = []
    waiting = [(0, len(shown.front) - 1)]
    order += [0, len(shown.front) - 1] if shown.front else []
    while waiting:
        low, high = waiting.pop(0)
        middle = (low + high) // 2
        if low < middle < high:
            order.append(middle)
            waiting += [(low, middle), (middle, high)]
    named: dict[str, Any] = {}
    for i in order:
        named.setdefault(shown.front[i].label, shown.front[i])
    return list(named.values())[:MOST_NAMES]


def _corner(ax: Any, shown: Front, look: Look) -> list[Any]:
    from matplotlib.lines import Line2D

    theme, size, lang = look.theme, look.size, look.lang
    faint = blend(theme.decode, theme.ground, 0.45)
    marks = {
        "front": Line2D([], [], color=theme.decode, marker="o", markersize=SIZE, linewidth=1.6),
        "meets": Line2D([], [], linestyle="none", marker="o", markersize=SIZE, color=faint),
        "fails": Line2D([], [], linestyle="none", marker="X", markersize=SIZE, color=theme.grey, markerfacecolor="none"),
    }  # fmt: skip
    there = {"front": bool(shown.front), "fails": shown.n_fails > 0}
    there["meets"] = bool((shown.meets & ~shown.is_front).any())
    kept = [name for name in marks if there[name]]
    key = ax.legend(
        [marks[name] for name in kept], [SAY(lang, name) for name in kept], loc="upper right", fontsize=size.note,
        frameon=False, labelcolor=theme.ink, borderaxespad=0.1, labelspacing=0.25, borderpad=0.1,
    )  # fmt: skip
    key.set_in_layout(False)
    if not shown.table:
        return [key]
    rows = [
        SAY(lang, "nothing", speed=plain(speed)) if p is None
        else SAY(lang, "row", speed=plain(speed), y=sig(p.y), label=p.label)
        for speed, p in shown.table
    ]  # fmt: skip
    down = key.get_window_extent().height * 72.0 / ax.figure.figure.dpi + 4.0
    table = ax.annotate(
        "\n".join([SAY(lang, "head"), *rows]), (1.0, 1.0), xycoords="axes fraction", xytext=(-2.0, -down),
        textcoords="offset points", ha="right", va="top", zorder=7, **look.text | {"fontsize": size.note},
    )  # fmt: skip
    return [key, table]
