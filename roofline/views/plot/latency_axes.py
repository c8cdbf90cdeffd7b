"""Drawing the latencies: TTFT along the prompt, TPOT along the batch."""

from __future__ import annotations

from typing import Any

import numpy as np

from roofline.units import format_si
from roofline.views.plot.latency_points import ContextLine, Floats, TpotLines, TtftCurve
from roofline.views.plot.lettering import Label, Obstacles, log_ticks, place, plain, time_unit, width_pt
from roofline.views.plot.theme import Look, blend, dress
from roofline.views.plot.words import bound_as

__all__ = ["draw_tpot", "draw_ttft", "letter_tpot", "letter_ttft"]

LIGHTER = (1.0, 0.85, 0.72, 0.6)
ASKED = 7.5  # the user's marker [pt]


# TTFT


def draw_ttft(ax: Any, curve: TtftCurve, look: Look) -> None:
    """Estimate, floor, the knee, the user's prompt."""
    theme, size = look.theme, look.size
    unit, per_s = time_unit(float(curve.seconds.max()))
    dress(ax, look)
    xs, ys, floor = curve.prompts, curve.seconds * per_s, curve.floor_s * per_s
    ax.set(xscale="log", yscale="log", xlim=(xs[0] / 1.15, xs[-1] * 1.15), ylim=(floor.min() / 2.6, ys.max() * 3.0))
    log_ticks(ax.xaxis, *ax.get_xlim())
    log_ticks(ax.yaxis, *ax.get_ylim())
    ax.plot(xs, floor, color=theme.grey, linewidth=0.9, zorder=3, label="floor")
    ax.plot(xs, ys, color=theme.prefill, linewidth=1.6, zorder=4, label="estimate")
    if curve.knee is not None and xs[0] <= curve.knee <= xs[-1]:
        ax.axvline(curve.knee, color=theme.ink, linewidth=0.8, linestyle=":", zorder=1.9, label="knee")
    ax.plot(
        [curve.asked], [curve.asked_s * per_s], linestyle="none", marker="o", markersize=ASKED, color=theme.prefill,
        markerfacecolor=theme.ground, markeredgewidth=2.0, zorder=6, path_effects=look.halo(4.0), label="asked",
    )  # fmt: skip
    ax.set_xlabel("Prompt tokens", fontsize=size.text, color=theme.ink)
    ax.set_ylabel(f"TTFT ({unit})", fontsize=size.text, color=theme.ink)


def letter_ttft(ax: Any, curve: TtftCurve, look: Look) -> None:
    """The user's point, the knee, which side of it binds what, and the floor."""
    _, per_s = time_unit(float(curve.seconds.max()))
    around = _around(ax)
    around.marks([curve.asked], [curve.asked_s * per_s], size=ASKED + 3.0)
    if curve.knee is not None and curve.prompts[0] < curve.knee < curve.prompts[-1]:
        _letter_knee(ax, curve.knee, bound_as(str(curve.bound[0])), around, look)
    asked = f"{format_si(curve.asked_s, 's')} at {curve.asked:.0f}"
    flat = curve.prompts[0], curve.knee if curve.knee is not None else curve.prompts[-1]
    i = int(np.searchsorted(curve.prompts, np.sqrt(flat[0] * max(flat))))
    x = float(curve.prompts[i])
    labels = [
        Label(text=asked, x=curve.asked, y=curve.asked_s * per_s, first="above left"),
        Label(text="floor", x=x, y=float(curve.floor_s[i]) * per_s, sides=("below", "below right", "below left")),
        Label(text="estimate", x=x, y=float(curve.seconds[i]) * per_s, sides=("above", "above left", "above right")),
    ]
    place(ax, labels, obstacles=around, look=look)


def _letter_knee(ax: Any, knee: float, before: str, around: Obstacles, look: Look) -> None:
    """The prompt at the knee, and what binds on either side where its side is wide enough."""
    low, high = ax.get_ylim()
    frame, pt = ax.get_window_extent(), 72.0 / ax.figure.figure.dpi
    x = float(ax.transData.transform((knee, low))[0])
    for text, ha, dx, room in (
        (before, "right", -4.0, x - frame.x0),
        ("compute-bound", "left", 4.0, frame.x1 - x),
    ):
        if width_pt(text, size=look.size.text) + 8.0 < room * pt:
            words = {"xytext": (dx, -2.0), "textcoords": "offset points", "ha": ha, "va": "top", "style": "italic"}
            around.box(ax.annotate(text, (knee, high), **words, **look.text))
    tick = {"xytext": (3.0, 3.0), "textcoords": "offset points", "ha": "left", "va": "bottom"}
    around.box(ax.annotate(f"{knee:.0f}", (knee, low), **tick, **look.text))


# TPOT


def draw_tpot(ax: Any, tpot: TpotLines, look: Look) -> None:
    """A line a context, up to the batch that fills the memory; past it, hatched."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    theme, size = look.theme, look.size
    unit, per_s = _unit_of(tpot)
    dress(ax, look)
    drawn = [_drawn(line, tpot) for line in tpot.lines]
    last = max(2.0 * max(line.full_at for line in tpot.lines), *(float(xs[-1]) for xs, _ in drawn), 2.0)
    top = 1.3 * max(float(ys.max()) for _, ys in drawn) * per_s
    ax.set_xscale("log", base=2)
    ax.set(xlim=(1 / 1.15, last * 1.15), ylim=(0.0, top))
    octaves = int(np.log2(last)) + 1
    ax.xaxis.set_major_locator(FixedLocator([2.0**k for k in range(0, octaves, 1 + octaves // 7)]))
    ax.xaxis.set_minor_locator(NullLocator())
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(FuncFormatter(plain))
    ax.axvspan(
        max(tpot.lines[0].full_at, ax.get_xlim()[0]), ax.get_xlim()[1], facecolor="none", hatch="///",
        edgecolor=blend(theme.grey, theme.ground, 0.45), linewidth=0.0, zorder=1.5, label="KV full",
    )  # fmt: skip
    for share, line, (xs, ys) in zip(LIGHTER, tpot.lines, drawn, strict=False):
        _draw_line(ax, line, xs, ys * per_s, blend(theme.decode, theme.ground, share))
    ax.plot(
        [tpot.asked], [tpot.asked_s * per_s], linestyle="none", marker="s", markersize=ASKED, color=theme.decode,
        markerfacecolor=theme.ground, markeredgewidth=2.0, zorder=6, path_effects=look.halo(4.0), label="asked",
    )  # fmt: skip
    ax.set_xlabel("Batch (sequences)", fontsize=size.text, color=theme.ink)
    ax.set_ylabel(f"TPOT ({unit})", fontsize=size.text, color=theme.ink)


def _draw_line(ax: Any, line: ContextLine, xs: Floats, ys: Floats, colour: str) -> None:
    """One context; straight between whole batches, so on this axis a curve. A bar where memory ends it."""
    fine = np.union1d(np.geomspace(xs[0], xs[-1], 200), xs)
    is_inside = line.full_at >= xs[-1]
    ax.plot(
        fine, np.interp(fine, xs, ys), color=colour, linewidth=1.6, linestyle="-" if is_inside else "--", zorder=4,
        label=f"context {line.context:.0f}",
    )  # fmt: skip
    if is_inside:
        ax.plot(
            xs[-1:], ys[-1:], linestyle="none", marker="|", markersize=9.0, markeredgewidth=1.6, color=colour, zorder=4,
            label="full",
        )  # fmt: skip


def _unit_of(tpot: TpotLines) -> tuple[str, float]:
    return time_unit(max(float(line.seconds.max()) for line in tpot.lines))


def _drawn(line: ContextLine, tpot: TpotLines) -> tuple[Floats, Floats]:
    """The part of a line that fits; all of it where nothing does, or where the user's own batch is past the end."""
    is_main = line is tpot.lines[0] and tpot.asked > line.full_at
    inside = line.batches <= line.full_at
    keep = inside if inside.any() and not is_main else np.ones_like(inside)
    return line.batches[keep], line.seconds[keep]


def letter_tpot(ax: Any, tpot: TpotLines, look: Look) -> None:
    """The user's point, a label at each line's end, and where the cache is full."""
    _, per_s = _unit_of(tpot)
    around = _around(ax)
    around.marks([tpot.asked], [tpot.asked_s * per_s], size=ASKED + 3.0)
    full = tpot.lines[0].full_at
    said = f"KV full at {full:.0f}" if full >= 1.0 else "does not fit"
    left, right = max(full, ax.get_xlim()[0]), ax.get_xlim()[1]
    note = ax.text(
        float(np.sqrt(left * right)), float(np.mean(ax.get_ylim())) * 0.7, said, rotation=90, ha="center", va="center",
        bbox={"facecolor": look.theme.ground, "edgecolor": "none", "pad": 2.0}, zorder=5, **look.text,
    )  # fmt: skip
    around.box(note)
    asked = f"{format_si(tpot.asked_s, 's')} at {tpot.asked:.0f}"
    labels = [Label(text=asked, x=tpot.asked, y=tpot.asked_s * per_s, first="below right")]
    longest = max(line.context for line in tpot.lines)
    for line in tpot.lines:
        xs, ys = _drawn(line, tpot)
        text = f"context {line.context:.0f}" if line.context == longest or not look.is_narrow else f"{line.context:.0f}"
        labels.append(Label(text=text, x=float(xs[-1]), y=float(ys[-1]) * per_s, sides=("above left", "above", "left")))
    place(ax, labels, obstacles=around, look=look)


def _around(ax: Any) -> Obstacles:
    """Every line of an Axes, as an obstacle."""
    around = Obstacles(ax)
    for line in ax.lines:
        xs, ys = line.get_data()
        if len(xs) > 1 and line.get_label() != "knee":
            around.line(xs, ys)
    return around
