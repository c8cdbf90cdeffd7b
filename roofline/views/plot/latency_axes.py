"""Drawing the latencies: TTFT along the prompt, TPOT along the batch."""

from __future__ import annotations

from typing import Any

import numpy as np

from roofline.units import format_si
from roofline.views.plot.latency_points import ContextLine, Floats, TpotLines, TtftCurve
from roofline.views.plot.latency_words import SAY
from roofline.views.plot.lettering import Label, Obstacles, log_ticks, place, plain, time_unit, width_pt
from roofline.views.plot.theme import Look, blend, dress, lane_under
from roofline.views.plot.words import bound_as

__all__ = ["draw_rates", "draw_tpot", "draw_ttft", "letter_tpot", "letter_ttft"]

LIGHTER = (1.0, 0.85, 0.72, 0.6)
ASKED = 7.5  # the user's marker [pt]
MOST_LIMIT = 2.5  # times what is drawn: a promise of TPOT that is further away is not


# TTFT


def draw_ttft(ax: Any, curve: TtftCurve, look: Look) -> None:
    """Estimate, floor, the knee, the user's prompt."""
    theme, size = look.theme, look.size
    unit, per_s = time_unit(float(curve.seconds.max()))
    dress(ax, look)
    xs, ys, floor = curve.prompts, curve.seconds * per_s, curve.floor_s * per_s
    top = [] if curve.edges is None else [float(curve.edges[1].max()) * per_s]
    high = max([float(ys.max()), *top, *_drawn_limit(curve, per_s)])
    low = min([float(floor.min()), *_drawn_limit(curve, per_s)])
    ax.set(xscale="log", yscale="log", xlim=(xs[0] / 1.15, xs[-1] * 1.15), ylim=(low / 2.6, high * 3.0))
    log_ticks(ax.xaxis, *ax.get_xlim())
    log_ticks(ax.yaxis, *ax.get_ylim())
    _draw_band(ax, xs, curve.edges, per_s, theme.prefill)
    ax.plot(xs, floor, color=theme.grey, linewidth=0.9, zorder=3, label="floor")
    ax.plot(xs, ys, color=theme.prefill, linewidth=1.6, zorder=4, label="estimate")
    _draw_limit(ax, curve.limit, per_s, look)
    cuts = [cut for cut in curve.cuts if cut >= xs[0]]
    if cuts:
        ax.plot(
            cuts, [ax.get_ylim()[0]] * len(cuts), linestyle="none", marker=2, markersize=5.0, color=theme.ink, zorder=5,
            markeredgewidth=0.9, clip_on=False, label="cuts",
        )  # fmt: skip
    if curve.half is not None:
        ax.plot(
            [curve.half], np.interp([curve.half], xs, ys), linestyle="none", marker="|", markersize=9.0,
            markeredgewidth=1.6, color=theme.prefill, zorder=5, label="half",
        )  # fmt: skip
    if curve.knee is not None and xs[0] <= curve.knee <= xs[-1]:
        ax.axvline(curve.knee, color=theme.ink, linewidth=0.8, linestyle=":", zorder=1.9, label="knee")
    ax.plot(
        [curve.asked], [curve.asked_s * per_s], linestyle="none", marker="o", markersize=ASKED, color=theme.prefill,
        markerfacecolor=theme.ground, markeredgewidth=2.0, zorder=6, path_effects=look.halo(4.0), label="asked",
    )  # fmt: skip
    ax.set_xlabel(SAY(look.lang, "prompts"), fontsize=size.text, color=theme.ink)
    ax.set_ylabel(f"TTFT ({unit})", fontsize=size.text, color=theme.ink)


def letter_ttft(ax: Any, curve: TtftCurve, look: Look) -> None:
    """The user's point, the knee, which side of it binds what, and the floor."""
    _, per_s = time_unit(float(curve.seconds.max()))
    around = _around(ax)
    around.marks([curve.asked], [curve.asked_s * per_s], size=ASKED + 3.0)
    if curve.knee is not None and curve.prompts[0] < curve.knee < curve.prompts[-1]:
        _letter_knee(ax, curve.knee, bound_as(str(curve.bound[0]), look.lang), around, look)
    _letter_limit(ax, curve.limit, per_s, around, look)
    asked = SAY(look.lang, "at", time=format_si(curve.asked_s, "s"), n=f"{curve.asked:.0f}")
    flat = curve.prompts[0], curve.knee if curve.knee is not None else curve.prompts[-1]
    i = int(np.searchsorted(curve.prompts, np.sqrt(flat[0] * max(flat))))
    x = float(curve.prompts[i])
    labels = [
        Label(text=asked, x=curve.asked, y=curve.asked_s * per_s, first="above left"),
        *_crossing(ax, curve, per_s, look),
        Label(
            text=SAY(look.lang, "floor"), x=x, y=float(curve.floor_s[i]) * per_s,
            sides=("below", "below right", "below left"), is_optional=True,
        ),
        Label(
            text=SAY(look.lang, "estimate"), x=x, y=float(curve.seconds[i]) * per_s,
            sides=("above", "above left", "above right"),
        ),
        *_beside(ax, curve, per_s, look),
    ]  # fmt: skip
    place(ax, labels, obstacles=around, look=look)


def _crossing(ax: Any, curve: TtftCurve, per_s: float, look: Look) -> list[Label]:
    """Where the promise is first broken."""
    if curve.limit is None or not curve.prompts[0] <= curve.kept_until < curve.prompts[-1]:
        return []
    text = SAY(look.lang, "at", time=format_si(curve.limit, "s"), n=f"{curve.kept_until:,.0f}")
    ax.plot([curve.kept_until], [curve.limit * per_s], linestyle="none", marker="o", markersize=4.0,
            color=look.theme.ink, zorder=6, label="crossing")  # fmt: skip
    return [Label(text=text, x=curve.kept_until, y=curve.limit * per_s, first="below right")]


def _beside(ax: Any, curve: TtftCurve, per_s: float, look: Look) -> list[Label]:
    """The first prompt that fills a pass, and where attention is half of the work: where there is room."""
    labels = []
    if curve.half is not None:
        y = float(np.interp(curve.half, curve.prompts, curve.seconds)) * per_s
        labels.append(Label(text=SAY(look.lang, "half"), x=curve.half, y=y, first="above left", is_optional=True))
    if curve.cuts and curve.cuts[0] >= curve.prompts[0]:
        text = SAY(look.lang, "cut", n=f"{curve.cuts[0]:,.0f}")
        sides = ("above", "above left", "above right")
        labels.append(Label(text=text, x=curve.cuts[0], y=float(ax.get_ylim()[0]), sides=sides, is_optional=True))
    return labels


def _letter_knee(ax: Any, knee: float, before: str, around: Obstacles, look: Look) -> None:
    """The prompt at the knee, and what binds on either side where its side is wide enough."""
    low, high = ax.get_ylim()
    frame, pt = ax.get_window_extent(), 72.0 / ax.figure.figure.dpi
    x = float(ax.transData.transform((knee, low))[0])
    for text, ha, dx, room in (
        (before, "right", -4.0, x - frame.x0),
        (SAY(look.lang, "compute_bound"), "left", 4.0, frame.x1 - x),
    ):
        if width_pt(text, size=look.size.text) + 8.0 < room * pt:
            words: dict[str, Any] = {"xytext": (dx, -2.0), "textcoords": "offset points", "ha": ha, "va": "top"}
            words["style"] = "italic" if look.lang == "en" else "normal"
            around.box(ax.annotate(text, (knee, high), **words, **look.text))
    tick = {"xytext": (3.0, 3.0), "textcoords": "offset points", "ha": "left", "va": "bottom"}
    around.box(ax.annotate(f"{knee:.0f}", (knee, low), **tick, **look.text))


# both


def _drawn_limit(shown: TtftCurve | TpotLines, per_s: float) -> list[float]:
    return [] if shown.limit is None else [shown.limit * per_s]


def _draw_band(ax: Any, xs: Floats, edges: tuple[Floats, Floats] | None, per_s: float, colour: str) -> None:
    """What holds four of five measurements."""
    if edges is not None:
        low, high = edges
        ax.fill_between(
            xs, low * per_s, high * per_s, color=colour, alpha=0.15, linewidth=0.0, zorder=2.5, label="band"
        )


def _draw_limit(ax: Any, limit: float | None, per_s: float, look: Look) -> None:
    if limit is not None:
        ax.axhline(limit * per_s, color=look.theme.ink, linewidth=0.9, linestyle=(0, (6, 3)), zorder=2.6, label="SLO")


def _letter_limit(ax: Any, limit: float | None, per_s: float, around: Obstacles, look: Look) -> None:
    """What is promised, over its line, at the end with more room."""
    if limit is None:
        return
    tries = [
        ax.annotate(
            SAY(look.lang, "promise", limit=format_si(limit, "s")), (x, limit * per_s), xytext=(0.0, up),
            xycoords=("axes fraction", "data"), textcoords="offset points", ha=ha, va=va, zorder=8, **look.text,
        )
        for x, ha in ((0.985, "right"), (0.015, "left"))
        for up, va in ((2.0, "bottom"), (-2.0, "top"))
    ]  # fmt: skip
    best = min(tries, key=lambda text: around.cost(text.get_window_extent()))
    for text in tries:
        if text is not best:
            text.remove()
    around.box(best)


# TPOT


def draw_tpot(ax: Any, tpot: TpotLines, look: Look) -> None:
    """A line a context, up to the batch that fills the memory; past it, hatched."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    theme, size = look.theme, look.size
    unit, per_s = _unit_of(tpot)
    dress(ax, look)
    drawn = [_drawn(line, tpot) for line in tpot.lines]
    last = max(2.0 * max(line.full_at for line in tpot.lines), *(float(xs[-1]) for xs, _ in drawn), 2.0)
    top = 1.3 * max(max(float(ys.max()) for _, ys in drawn) * per_s, _top_of(tpot, per_s))
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
    main, inside = tpot.lines[0], np.isin(tpot.lines[0].batches, drawn[0][0])
    edges = None if main.edges is None else (main.edges[0][inside], main.edges[1][inside])
    _draw_band(ax, drawn[0][0], edges, per_s, theme.decode)
    if tpot.limit is not None and tpot.limit * per_s <= top:
        _draw_limit(ax, tpot.limit, per_s, look)
    for share, line, (xs, ys) in zip(LIGHTER, tpot.lines, drawn, strict=False):
        _draw_line(ax, line, xs, ys * per_s, blend(theme.decode, theme.ground, share))
    ax.plot(
        [tpot.asked], [tpot.asked_s * per_s], linestyle="none", marker="s", markersize=ASKED, color=theme.decode,
        markerfacecolor=theme.ground, markeredgewidth=2.0, zorder=6, path_effects=look.halo(4.0), label="asked",
    )  # fmt: skip
    ax.set_xlabel(SAY(look.lang, "batches"), fontsize=size.text, color=theme.ink)
    ax.set_ylabel(f"TPOT ({unit})", fontsize=size.text, color=theme.ink)


def draw_rates(ax: Any, tpot: TpotLines, look: Look) -> None:
    """Under TPOT, what all sequences get together: B / TPOT  [token/s]."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    lane = lane_under(ax, look)
    dress(lane, look)
    for share, line in zip(LIGHTER, tpot.lines, strict=False):
        xs, ys = _drawn(line, tpot)
        lane.plot(
            xs, xs / ys, color=blend(look.theme.decode, look.theme.ground, share), linewidth=1.3, zorder=4,
            label=f"context {line.context:.0f}",
        )  # fmt: skip
    lane.set_ylim(bottom=0.0)
    lane.yaxis.set_major_locator(MaxNLocator(nbins=2, steps=[1, 2, 5, 10]))
    lane.yaxis.set_major_formatter(FuncFormatter(plain))
    lane.set_ylabel(SAY(look.lang, "total"), fontsize=look.size.text, color=look.theme.ink)
    ax.tick_params(axis="x", which="both", labelbottom=False)
    lane.set_xlabel(ax.get_xlabel(), fontsize=look.size.text, color=look.theme.ink)
    ax.xaxis.label.set_visible(False)


def _top_of(tpot: TpotLines, per_s: float) -> float:
    """The upper edge of the first line, and a promise that is not far above all that is drawn."""
    line = tpot.lines[0]
    inside = line.batches <= max(line.full_at, tpot.asked)
    high = float(line.seconds[inside].max()) if line.edges is None else float(line.edges[1][inside].max())
    near = [] if tpot.limit is None or tpot.limit > MOST_LIMIT * high else [tpot.limit]
    return max([high, *near]) * per_s


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
    said = SAY(look.lang, "full", n=f"{full:.0f}") if full >= 1.0 else SAY(look.lang, "no_room")
    left, right = max(full, ax.get_xlim()[0]), ax.get_xlim()[1]
    note = ax.text(
        float(np.sqrt(left * right)), float(np.mean(ax.get_ylim())) * 0.7, said, rotation=90, ha="center", va="center",
        bbox={"facecolor": look.theme.ground, "edgecolor": "none", "pad": 2.0}, zorder=5, **look.text,
    )  # fmt: skip
    around.box(note)
    if any(line.get_label() == "SLO" for line in ax.lines):
        _letter_limit(ax, tpot.limit, per_s, around, look)
    asked = SAY(look.lang, "at", time=format_si(tpot.asked_s, "s"), n=f"{tpot.asked:.0f}")
    labels = [Label(text=asked, x=tpot.asked, y=tpot.asked_s * per_s, first="below right")]
    longest = max(line.context for line in tpot.lines)
    for line in tpot.lines:
        xs, ys = _drawn(line, tpot)
        said = SAY(look.lang, "context", n=f"{line.context:.0f}")
        text = said if line.context == longest or not look.is_narrow else f"{line.context:.0f}"
        labels.append(Label(text=text, x=float(xs[-1]), y=float(ys[-1]) * per_s, sides=("above left", "above", "left")))
    place(ax, labels, obstacles=around, look=look)


def _around(ax: Any) -> Obstacles:
    """Every line of an Axes, as an obstacle."""
    around = Obstacles(ax)
    for line in ax.lines:
        xs, ys = line.get_data()
        if line.get_label() == "SLO":
            around.line(ax.get_xlim(), ys)
        elif len(xs) > 1 and line.get_label() not in ("knee", "cuts"):
            around.line(xs, ys)
    return around
