"""Drawing a prefill with and without FlashAttention: bytes along the prompt, and intensity against the ridge."""

from __future__ import annotations

from typing import Any

import numpy as np

from roofline.units import format_si
from roofline.views.plot.eager_points import EagerCurves
from roofline.views.plot.eager_words import SAY
from roofline.views.plot.latency_points import Floats
from roofline.views.plot.lettering import Label, Obstacles, log_ticks, place, sig, times
from roofline.views.plot.theme import Look, blend, dress
from roofline.views.plot.words import memory_word

__all__ = ["draw_bytes", "draw_intensity", "letter_bytes", "letter_intensity"]

GB = 1e9
ASKED = 7.5  # the marks at the prompt asked for [pt]
LEAST_ARROW = 2.0  # times that are far enough apart for an arrow between the marks
DASHES: dict[str, Any] = {"flash": "-", "eager": (0, (5, 1.5))}
MARKERS = {"flash": "o", "eager": "^"}


def _colour(kernel: str, look: Look) -> str:
    return {"flash": look.theme.prefill, "eager": look.theme.decode}[kernel]


# Bytes


def draw_bytes(ax: Any, curves: EagerCurves, look: Look) -> None:
    """Traffic by either kernel; between the two, what the scores add."""
    theme = look.theme
    flash, eager = curves.of("flash_hbm_bytes") / GB, curves.of("eager_hbm_bytes") / GB
    drawn = curves.is_drawn
    _scales(ax, curves, (float(flash.min()) / 1.6, float(max(eager[drawn].max(), flash.max())) * 2.2), look)
    ax.fill_between(
        curves.prompts[drawn], flash[drawn], eager[drawn], facecolor=blend(theme.decode, theme.ground, 0.1),
        hatch="...", edgecolor=blend(theme.decode, theme.ground, 0.45), linewidth=0.0, zorder=1.5, label="scores",
    )  # fmt: skip
    low, high = curves.value("flash_hbm_bytes") / GB, curves.value("eager_hbm_bytes") / GB
    _arrow(ax, curves.asked, low, high, look)
    _lines(ax, curves, {"flash": flash, "eager": eager}, {"flash": low, "eager": high}, look)
    memory = memory_word(curves.deployment.hardware, look.lang)
    ax.set_ylabel(SAY(look.lang, "y_bytes", memory=memory[:1].upper() + memory[1:]))


def letter_bytes(ax: Any, curves: EagerCurves, look: Look) -> None:
    """The bytes of either at the prompt asked for, and how many times one is the other."""
    low, high = curves.value("flash_hbm_bytes"), curves.value("eager_hbm_bytes")
    labels = [
        Label(
            text=SAY(look.lang, "eager", value=format_si(high, "B")), x=curves.asked, y=high / GB, first="above left"
        ),
        Label(text=SAY(look.lang, "flash", value=format_si(low, "B")), x=curves.asked, y=low / GB, first="below right"),
    ]
    middle, factor = float(low**0.38 * high**0.62) / GB, curves.value("bytes_factor")
    if factor >= LEAST_ARROW:
        labels.insert(0, Label(text=times(factor), x=curves.asked, y=middle, sides=("right", "left")))
    place(ax, [*labels, *_end(ax, curves, look)], obstacles=_around(ax, curves), look=look)


# Intensity


def draw_intensity(ax: Any, curves: EagerCurves, look: Look) -> None:
    """FLOP per byte of either kernel, and the ridge both are held against."""
    theme = look.theme
    flash, eager, ridge = curves.of("flash_intensity"), curves.of("eager_intensity"), curves.along.ridge
    seen = np.concatenate([flash, eager[curves.is_drawn], [ridge]])
    _scales(ax, curves, (float(seen.min()) / 1.6, float(seen.max()) * 2.2), look)
    ax.axhline(ridge, color=theme.ink, linewidth=0.9, linestyle=":", zorder=2, label="ridge")
    low, high = curves.value("eager_intensity"), curves.value("flash_intensity")
    _arrow(ax, curves.asked, high, low, look)
    _lines(ax, curves, {"flash": flash, "eager": eager}, {"flash": high, "eager": low}, look)
    ax.set_ylabel(SAY(look.lang, "y_intensity"))


def letter_intensity(ax: Any, curves: EagerCurves, look: Look) -> None:
    """The intensity of either at the prompt asked for, and the ridge."""
    low, high = curves.value("eager_intensity"), curves.value("flash_intensity")
    labels = [
        Label(text=SAY(look.lang, "flash", value=sig(high)), x=curves.asked, y=high, first="above left"),
        Label(text=SAY(look.lang, "eager", value=sig(low)), x=curves.asked, y=low, first="below left"),
    ]
    around = _around(ax, curves)
    _letter_ridge(ax, curves.along.ridge, around, look)
    place(ax, [*labels, *_end(ax, curves, look)], obstacles=around, look=look)


def _letter_ridge(ax: Any, ridge: float, around: Obstacles, look: Look) -> None:
    """Its value where that covers least; what binds on either side of it, where that covers nothing."""
    tries = [
        _at_ridge(ax, (SAY(look.lang, "ridge", at=sig(ridge)),), ridge, x, "normal", look) for x in (0.0, 1.0, 0.5)
    ]
    best = min(tries, key=lambda texts: _covered(texts, around))
    _keep(best, tries, around)
    both = (SAY(look.lang, "compute_bound"), SAY(look.lang, "memory_bound"))
    style = "italic" if look.lang == "en" else "normal"
    pairs = [_at_ridge(ax, both, ridge, x, style, look) for x in (1.0, 0.0, 0.5)]
    clear = [texts for texts in pairs if _covered(texts, around) == 0.0]
    _keep(clear[0] if clear else [], pairs, around)


def _at_ridge(ax: Any, said: tuple[str, ...], ridge: float, x: float, style: str, look: Look) -> list[Any]:
    """A word above the ridge, and perhaps one below it, at a share x of its length."""
    return [
        ax.annotate(
            word, (x, ridge), xycoords=("axes fraction", "data"), xytext=(4.0 - 8.0 * x, up), textcoords="offset points",
            ha={0.0: "left", 0.5: "center", 1.0: "right"}[x], va=va, style=style, **look.text,
        )
        for word, up, va in zip(said, (2.0, -2.0), ("bottom", "top"), strict=False)
    ]  # fmt: skip


def _covered(texts: list[Any], around: Obstacles) -> float:
    return sum(around.cost(text.get_window_extent()) for text in texts)


def _keep(kept: list[Any], tries: list[list[Any]], around: Obstacles) -> None:
    """Take away all tries but one."""
    for texts in tries:
        for text in texts:
            if texts is kept:
                around.box(text)
            else:
                text.remove()


# Both


def _scales(ax: Any, curves: EagerCurves, heights: tuple[float, float], look: Look) -> None:
    dress(ax, look)
    xs = curves.prompts
    ax.set(xscale="log", yscale="log", xlim=(xs[0] / 1.15, xs[-1] * 1.15), ylim=heights)
    log_ticks(ax.xaxis, *ax.get_xlim())
    log_ticks(ax.yaxis, *ax.get_ylim())
    ax.set_xlabel(SAY(look.lang, "x"), fontsize=look.size.text, color=look.theme.ink)
    ax.yaxis.label.set(fontsize=look.size.text, color=look.theme.ink)


def _arrow(ax: Any, x: float, start: float, end: float, look: Look) -> None:
    """From the mark of flash to that of eager, where there is room between them."""
    if max(start, end) < LEAST_ARROW * min(start, end):
        return
    ax.annotate(
        "", (x, end), xytext=(x, start), zorder=4.5, in_layout=False,
        arrowprops={"arrowstyle": "-|>", "color": look.theme.ink, "linewidth": 0.9, "shrinkA": 5, "shrinkB": 6},
    )  # fmt: skip


def _lines(ax: Any, curves: EagerCurves, ys: dict[str, Floats], asked: dict[str, float], look: Look) -> None:
    """A line a kernel; eager's ends with a bar where the scores of one layer no longer fit, and is dotted from there."""
    for kernel, values in ys.items():
        colour = _colour(kernel, look)
        where = curves.is_whole if kernel == "eager" else np.ones_like(curves.fits)
        line = {"color": colour, "linewidth": 1.6, "zorder": 4}
        ax.plot(curves.prompts[where], values[where], linestyle=DASHES[kernel], label=kernel, **line)
        beyond = curves.is_drawn & (curves.prompts >= curves.fits_until) & ~where
        if beyond.any():
            ax.plot(curves.prompts[beyond], values[beyond], linestyle=":", label="does not fit", **line)
        if where.any() and not where.all():
            end = np.flatnonzero(where)[-1:]
            ax.plot(
                curves.prompts[end], values[end], linestyle="none", marker="|", markersize=9.0, markeredgewidth=1.6,
                color=colour, zorder=4, label="full",
            )  # fmt: skip
        ax.plot(
            [curves.asked], [asked[kernel]], linestyle="none", marker=MARKERS[kernel], markersize=ASKED, color=colour,
            markerfacecolor=look.theme.ground, markeredgewidth=2.0, zorder=6, path_effects=look.halo(4.0),
            label=f"{kernel} asked",
        )  # fmt: skip


def _around(ax: Any, curves: EagerCurves) -> Obstacles:
    """Lines, marks, and the way from mark to mark, as obstacles."""
    around, asked = Obstacles(ax), []
    for line in ax.lines:
        xs, ys = line.get_data()
        if len(xs) > 2:
            around.line(xs, ys)
        elif "asked" in str(line.get_label()):
            around.marks(xs, ys, size=ASKED + 3.0)
            asked.append(float(ys[0]))
    around.line([curves.asked] * 2, asked)
    return around


def _end(ax: Any, curves: EagerCurves, look: Look) -> list[Label]:
    """Why eager ends where it does; the second line says so too."""
    ends = [line for line in ax.lines if line.get_label() == "full"]
    if not ends or look.size.name == "column":
        return []
    (x,), (y,) = ends[0].get_data()
    return [Label(text=SAY(look.lang, "end"), x=float(x), y=float(y), first="right", is_optional=True)]
