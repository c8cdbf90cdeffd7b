"""The figures that say how right the estimates are: predicted against measured, and residuals."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from roofline.errors import SpecError, did_you_mean, shown
from roofline.evidence.accuracy import BYS, By
from roofline.views.plot import accuracy_axes as drawing
from roofline.views.plot import accuracy_words as words
from roofline.views.plot.accuracy_points import points, spreads
from roofline.views.plot.compose import Panel, alone
from roofline.views.plot.theme import LangName, SizeName, ThemeName, look_named

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["predicted_against_measured", "residuals"]

Regime = Literal["in-sample", "model", "tp", "hardware", "engine"]
ROW = 0.17  # of residuals [inch]
AROUND = 1.25  # what a figure of residuals has besides rows [inch]


def predicted_against_measured(
    ax: Axes | None = None,
    regime: Regime = "model",
    what: Literal["ttft", "tpot", "e2e"] | None = None,
    *,
    lang: LangName = "en",
    theme: ThemeName = "light",
    size: SizeName = "page",
) -> Axes:
    """Every packaged measurement of a static batch against what was predicted of it by what was fitted without it.

    Parameters
    ----------
    ax : Axes, optional
        Drawn on as it is; a new figure by default.
    regime : "in-sample", "model", "tp", "hardware" or "engine"
        What was held out.
    what : "ttft", "tpot" or "e2e", optional
        Only these; all by default.
    lang : "en" or "zh"
    theme : "light" or "dark"
    size : "page" (7.2 × 4.6 in), "column" (3.5 × 2.8) or "slide" (10 × 5.6)

    Returns
    -------
    Axes
        With `roofline_data` (a row a point, in seconds) and `roofline_alt`.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> ax = predicted_against_measured(regime="hardware", what="tpot")
    >>> ax.get_title(loc="left").startswith("Half of the estimates are within")
    True
    >>> plt.close(ax.figure)
    """
    look = look_named(theme=theme, size=size, lang=lang)
    found = points(regime=regime, what=what)
    title = words.scatter_title(found, lang)
    panel = Panel(
        title=title,
        short=title,
        line=words.held_out(found, lang),
        frame=found.to_frame(),
        alt=words.scatter_alt(found, lang),
        draw=lambda axes, look: drawing.draw_scatter(axes, found, look),
        letter=lambda axes, look: drawing.letter_scatter(axes, found, look),
    )
    only: Axes = alone(panel, ax, look, words.trust(regime, lang))
    return only


def residuals(
    ax: Axes | None = None,
    by: By = "hardware",
    regime: Regime = "model",
    *,
    lang: LangName = "en",
    theme: ThemeName = "light",
    size: SizeName = "page",
) -> Axes:
    """Predicted over measured of every packaged measurement of a static batch, a row for each engine, machine or phase.

    Parameters
    ----------
    ax : Axes, optional
        Drawn on as it is; a new figure, as high as its rows need, by default.
    by : "engine", "hardware" (its class), "chip", "phase" or "group" (an engine on a machine)
    regime : "in-sample", "model", "tp", "hardware" or "engine"
        What was held out.
    lang : "en" or "zh"
    theme : "light" or "dark"
    size : "page" (7.2 in wide), "column" (3.5) or "slide" (10)

    Returns
    -------
    Axes
        With `roofline_data` (a row a point) and `roofline_alt`. Ratios beyond 2.5 are drawn at the edge.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> ax = residuals(by="phase")
    >>> [label.get_text() for label in ax.get_yticklabels()][0].partition(",")[0] in ("decode", "prefill", "whole requests")
    True
    >>> plt.close(ax.figure)
    """
    if by not in BYS:
        raise SpecError(f"by: expected {', '.join(BYS)}, got {shown(by)}{did_you_mean(str(by), BYS)}")
    found = points(regime=regime)
    rows = spreads(found, by)
    look = look_named(theme=theme, size=size, lang=lang)
    high = max(look.size.height, AROUND + ROW * len(rows) * look.size.text / 8.0)
    title = words.residuals_title(rows, lang)
    panel = Panel(
        title=title,
        short=title,
        line=words.held_out(found, lang),
        frame=found.to_frame(),
        alt=words.residuals_alt(rows, found, by, lang),
        draw=lambda axes, look: drawing.draw_residuals(axes, rows, look),
        letter=lambda axes, look: drawing.letter_residuals(axes, rows, look),
    )
    only: Axes = alone(panel, ax, replace(look, size=replace(look.size, height=high)), words.trust(regime, lang))
    return only
