"""The figures that say how right the estimates are: predicted against measured, and residuals."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from roofline.errors import SpecError, did_you_mean, shown
from roofline.evidence.accuracy import BYS, By
from roofline.views.plot import accuracy_axes as drawing
from roofline.views.plot.accuracy_points import points, spreads
from roofline.views.plot.compose import Headline, Panel, axes_given, compose
from roofline.views.plot.theme import Look, size_named, styled, theme_named

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["predicted_against_measured", "residuals"]

TRUST = "predicted by what was fitted without them"
FITTED = "predicted by what was fitted to them"
Regime = Literal["in-sample", "model", "tp", "hardware", "engine"]
ROW = 0.17  # of residuals [inch]
AROUND = 1.25  # what a figure of residuals has besides rows [inch]


def predicted_against_measured(
    ax: Axes | None = None,
    regime: Regime = "model",
    what: Literal["ttft", "tpot", "e2e"] | None = None,
    *,
    theme: Literal["light", "dark"] = "light",
    size: Literal["page", "column", "slide"] = "page",
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
    look = Look(theme=theme_named(theme), size=size_named(size))
    found = points(regime=regime, what=what)
    title = drawing.scatter_title(found)
    panel = Panel(
        title=_whole(title),
        short=_whole(title),
        line=_whole(drawing.held_out(found)),
        frame=found.to_frame(),
        alt=drawing.scatter_alt(found),
        draw=lambda axes, look: drawing.draw_scatter(axes, found, look),
        letter=lambda axes, look: drawing.letter_scatter(axes, found, look),
    )
    return _alone(panel, ax, look, regime)


def residuals(
    ax: Axes | None = None,
    by: By = "hardware",
    regime: Regime = "model",
    *,
    theme: Literal["light", "dark"] = "light",
    size: Literal["page", "column", "slide"] = "page",
) -> Axes:
    """Predicted over measured of every packaged measurement of a static batch, a row for each engine, machine or phase.

    Parameters
    ----------
    ax : Axes, optional
        Drawn on as it is; a new figure, as high as its rows need, by default.
    by : "engine", "hardware" (its class), "chip", "phase" or "group" (an engine on a machine)
    regime : "in-sample", "model", "tp", "hardware" or "engine"
        What was held out.
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
    given = size_named(size)
    high = replace(given, height=max(given.height, AROUND + ROW * len(rows) * given.text / 8.0))
    title = drawing.residuals_title(rows)
    panel = Panel(
        title=_whole(title),
        short=_whole(title),
        line=_whole(drawing.held_out(found)),
        frame=found.to_frame(),
        alt=drawing.residuals_alt(rows, found, by),
        draw=lambda axes, look: drawing.draw_residuals(axes, rows, look),
        letter=lambda axes, look: drawing.letter_residuals(axes, rows, look),
    )
    return _alone(panel, ax, Look(theme=theme_named(theme), size=high), regime)


def _whole(text: str) -> str:
    """Numbers that keep their unit when a line breaks."""
    return text.replace(" %", "\N{NO-BREAK SPACE}%")


def _alone(panel: Panel, ax: Any, look: Look, regime: str) -> Axes:
    headline = Headline(title="", line="", trust=FITTED if regime == "in-sample" else TRUST)
    with styled(look):
        axes = compose([panel], headline=headline, given=axes_given(ax, 1), look=look)
    only: Axes = axes[0]
    return only
