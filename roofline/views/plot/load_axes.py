"""Drawing load: TTFT and TPOT along the rate, where it saturates, the knee, the promise, and what was simulated."""

from __future__ import annotations

from typing import Any

import numpy as np

from roofline.units import format_si
from roofline.views.plot.lettering import Obstacles, log_ticks, plain, sig, time_unit
from roofline.views.plot.load_points import SHARES, Floats, LoadCurve
from roofline.views.plot.load_words import SAY
from roofline.views.plot.theme import Look, blend, dress

__all__ = ["draw_load", "letter_load"]

DASHES: dict[str, Any] = {"p50": "-", "p95": (0, (4, 1.6))}
MARKERS = {"ttft": "o", "tpot": "s"}
FAINT = 0.55  # of a colour, where the closed form is not trusted
MOST_TTFT = 60.0  # times its value at no load: higher, the lines leave the axes
MOST_LIMIT = 2.5  # times what is drawn: a promise of TPOT that is further away is not
KEY_ROWS = 2
COVERED_WORD = 1000.0
HEIGHTS = ((0.03, "bottom"), (0.97, "top"), (0.5, "center"), (0.7, "center"), (0.3, "center"), (0.6, "center"))
MOST_FINE = 300.0  # an axis that spans less has ticks at 1, 2 and 5
PAST = 1.1  # of saturation, where the axes end: its name stands past its line


def _colour(kind: str, look: Look) -> str:
    return look.theme.prefill if kind == "ttft" else look.theme.decode


def _unit(curve: LoadCurve, kind: str) -> tuple[str, float]:
    return time_unit(_top(curve, kind))


def _top(curve: LoadCurve, kind: str) -> float:
    """The largest time there is room for  [s]."""
    line = curve.time(kind, "p95")
    highest = [float(line.max())]
    if kind == "ttft":
        highest = [min(highest[0], MOST_TTFT * float(line[0]))]
    if curve.simulated is not None and curve.simulated.rates.size:
        highest.append(float(np.nanmax(curve.simulated.times[f"{kind}_p95_s"])))
    return max([*highest, *_shown_limits(curve, kind, max(highest)).values()])


def _shown_limits(curve: LoadCurve, kind: str, highest: float) -> dict[str, float]:
    most = np.inf if kind == "ttft" else MOST_LIMIT * highest
    return {share: limit for share, limit in curve.limits(kind).items() if limit <= most}


def draw_load(ax: Any, curve: LoadCurve, kind: str, look: Look) -> None:
    """Lines of p50 and p95 by the closed form, faint and dotted where not trusted; simulated points with their errors."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator

    theme, size = look.theme, look.size
    unit, per_s = _unit(curve, kind)
    dress(ax, look)
    top = _top(curve, kind) * per_s
    lane = 1.0 / (1.0 - KEY_ROWS * size.note * 1.7 / (size.height * 72.0 * 0.6))  # for the key, over the lines
    ax.set_xlim(0.0, curve.saturation * PAST)
    if kind == "ttft":
        low = float(np.nanmin(curve.time(kind, "p50"))) * per_s / 1.8
        ax.set(yscale="log", ylim=(low, low * (top * 1.3 / low) ** lane))
        log_ticks(ax.yaxis, *ax.get_ylim())
        if ax.get_ylim()[1] < MOST_FINE * low:
            ax.yaxis.set_major_locator(LogLocator(base=10.0, subs=(1.0, 2.0, 5.0), numticks=30))
    else:
        ax.set_ylim(0.0, top * 1.06 * lane)
        ax.yaxis.set_major_formatter(FuncFormatter(plain))
    ax.xaxis.set_major_locator(MaxNLocator(nbins=5 if look.is_narrow else 8, steps=[1, 2, 2.5, 5, 10]))
    ax.xaxis.set_major_formatter(FuncFormatter(plain))
    for share in SHARES:
        _draw_line(ax, curve, curve.time(kind, share) * per_s, share, _colour(kind, look), look)
    _draw_marks(ax, curve, look)
    for share, limit in _shown_limits(curve, kind, top / per_s).items():
        ax.axhline(limit * per_s, color=theme.ink, linewidth=0.9, linestyle=(0, (6, 3)), zorder=2, label=f"SLO {share}")
    _draw_simulated(ax, curve, kind, per_s, look)
    ax.set_xlabel(SAY(look.lang, "x"), fontsize=size.text, color=theme.ink)
    ax.set_ylabel(f"{kind.upper()} ({unit})", fontsize=size.text, color=theme.ink)


def _draw_line(ax: Any, curve: LoadCurve, ys: Floats, share: str, colour: str, look: Look) -> None:
    """A percentile: as it is where it is trusted, and on to saturation dotted."""
    solid = np.where(curve.trusted, ys, np.nan)
    rest = np.where(curve.trusted & np.roll(curve.trusted, -1), np.nan, ys)
    ax.plot(curve.rates, solid, color=colour, linewidth=1.6, linestyle=DASHES[share], zorder=4, label=share)
    if np.isfinite(rest).any():
        faint = blend(colour, look.theme.ground, FAINT)
        ax.plot(curve.rates, rest, color=faint, linewidth=1.4, linestyle=":", zorder=3.5, label=f"{share} not trusted")


def _draw_marks(ax: Any, curve: LoadCurve, look: Look) -> None:
    theme = look.theme
    ax.axvline(curve.saturation, color=theme.ink, linewidth=1.1, zorder=2, label="saturation")
    if curve.knee is not None and curve.knee < curve.saturation:
        ax.axvline(curve.knee, color=theme.ink, linewidth=0.9, linestyle=":", zorder=2, label="knee")


def _draw_simulated(ax: Any, curve: LoadCurve, kind: str, per_s: float, look: Look) -> None:
    points = curve.simulated
    if points is None:
        return
    for share in SHARES:
        name = f"{kind}_{share}_s"
        ys = points.times[name] * per_s
        if name in points.errors:
            off = np.minimum(points.errors[name] * per_s, 0.95 * ys)
            ax.errorbar(
                points.rates, ys, yerr=off, fmt="none", ecolor=look.theme.ink, elinewidth=0.9, capsize=2.0, zorder=5
            )
        if not curve.trusted.any():  # the lines are of something else
            ax.plot(points.rates, ys, color=_colour(kind, look), linewidth=1.0, linestyle=DASHES[share], zorder=4.5,
                    label=f"simulated line {share}")  # fmt: skip
        ax.plot(
            points.rates, ys, linestyle="none", marker=MARKERS[kind], markersize=4.6, zorder=6, color=_colour(kind, look),
            markerfacecolor=look.theme.ground, markeredgewidth=1.3, label=f"simulated {share}",
        )  # fmt: skip


def letter_load(ax: Any, curve: LoadCurve, kind: str, look: Look) -> None:
    """Saturation and knee along their lines, promises over theirs, and a key where the lines leave room."""
    around = Obstacles(ax)
    for line in ax.lines:
        xs, ys = (np.asarray(values, dtype=float) for values in line.get_data())
        seen = np.isfinite(ys)
        if len(xs) > 2 and seen.sum() > 1 and str(line.get_linestyle()) != "None":
            around.line(list(xs[seen]), list(ys[seen]))
        elif len(xs) > 2 and seen.any():
            around.marks(list(xs[seen]), list(ys[seen]), size=8.0)
    key = _key(ax, curve, kind, look)
    words = [key.get_window_extent().padded(2.0)]
    saturates = SAY(look.lang, "saturation", at=sig(curve.saturation))
    _best(_along(ax, curve.saturation, saturates, ("left",), look), around, words)
    if curve.knee is not None and curve.knee < curve.saturation:
        _best(
            _along(ax, curve.knee, SAY(look.lang, "knee", at=sig(curve.knee)), ("right", "left"), look), around, words
        )
    _, per_s = _unit(curve, kind)
    for share, limit in _shown_limits(curve, kind, _top(curve, kind)).items():
        text = SAY(look.lang, "slo", share=share, limit=format_si(limit, "s"))
        _best(_over(ax, limit * per_s, text, look), around, words)


def _along(ax: Any, x: float, text: str, sides: tuple[str, ...], look: Look) -> list[Any]:
    """A word along an upright line, on one of its sides, at several heights."""
    return [
        ax.annotate(
            text, (x, height), xycoords=("data", "axes fraction"), xytext=(-2.0 if ha == "right" else 2.5, 0.0),
            textcoords="offset points", rotation=90, ha=ha, va=va, zorder=8, **look.text,
        )
        for height, va in HEIGHTS
        for ha in sides
    ]  # fmt: skip


def _over(ax: Any, y: float, text: str, look: Look) -> list[Any]:
    """A word over or under a level line, at several places."""
    return [
        ax.annotate(
            text, (x, y), xycoords=("axes fraction", "data"), xytext=(0.0, up), textcoords="offset points", ha=ha, va=va,
            zorder=8, **look.text,
        )
        for x, ha in ((0.015, "left"), (0.4, "center"), (0.7, "center"))
        for up, va in ((2.0, "bottom"), (-2.0, "top"))
    ]  # fmt: skip


def _best(tries: list[Any], around: Obstacles, words: list[Any]) -> None:
    """Keep the one that covers least, other words least of all, the first of those alike."""
    boxes = [label.get_window_extent() for label in tries]
    costs = [around.cost(box) + COVERED_WORD * sum(bool(box.overlaps(word)) for word in words) for box in boxes]
    best = int(np.argmin(costs))
    for i, label in enumerate(tries):
        if i != best:
            label.remove()
    words.append(boxes[best])


def _key(ax: Any, curve: LoadCurve, kind: str, look: Look) -> Any:
    """What the lines and marks are."""
    from matplotlib.lines import Line2D

    colour, theme = _colour(kind, look), look.theme
    found = [(Line2D([], [], color=colour, linewidth=1.6, linestyle=DASHES[share]), share) for share in SHARES]
    if not curve.trusted.all():
        faint = blend(colour, theme.ground, FAINT)
        found.append((Line2D([], [], color=faint, linewidth=1.4, linestyle=":"), SAY(look.lang, "rough")))
    if curve.simulated is not None and curve.simulated.rates.size:
        mark = Line2D([], [], linestyle="none", marker=MARKERS[kind], markersize=4.6, color=colour,
                      markerfacecolor=theme.ground, markeredgewidth=1.3)  # fmt: skip
        found.append((mark, SAY(look.lang, "simulated_error" if curve.simulated.errors else "simulated")))
    key = ax.legend(
        [mark for mark, _ in found], [word for _, word in found], loc="upper left", fontsize=look.size.note, frameon=False,
        labelcolor=theme.ink, borderaxespad=0.2, labelspacing=0.25, handlelength=2.0, borderpad=0.1,
        ncols=-(-len(found) // KEY_ROWS), columnspacing=1.0,
    )  # fmt: skip
    key.set_in_layout(False)
    for text in key.get_texts():
        text.set_path_effects(look.halo())
    return key
