"""The heat maps: TTFT and TPOT over tokens and batch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from roofline.specs.slo import SLO
from roofline.views.plot import heat_words as words
from roofline.views.plot.compose import Headline, Panel, axes_given, compose
from roofline.views.plot.heat_axes import draw_heat, letter_heat
from roofline.views.plot.heat_points import Heat, heat_of
from roofline.views.plot.latency_figure import require_tokens
from roofline.views.plot.request import USUAL, Subject, one_deployment
from roofline.views.plot.theme import LangName, Look, SizeName, ThemeName, look_named, styled
from roofline.views.plot.words import request_said, subject, trust_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["latency_heatmap"]


def latency_heatmap(
    deployment: Subject,
    *,
    prompt_tokens: Any = None,
    output_tokens: Any = None,
    context_tokens: Any = None,
    batch: Any = None,
    slo: SLO | None = None,
    ax: Sequence[Axes] | None = None,
    lang: LangName = "en",
    theme: ThemeName = "light",
    size: SizeName = "page",
) -> tuple[Axes, Axes]:
    """TTFT over prompt and batch, TPOT over context and batch, in cells of powers of 2, as far as they fit.

    Parameters
    ----------
    deployment : Deployment or Prediction
        A prediction brings its request along.
    prompt_tokens, output_tokens, batch : int, optional
        The request whose cell is boxed: 2048, 256 and 8 unless a prediction says otherwise [token, token, 1].
    context_tokens : int, optional
        Cached tokens of the decode pass to box [token]; the mean over the answer's passes by default.
    slo : SLO, optional
        The tightest of its limits on each kind runs along the edges of the cells that keep it.
    ax : two Axes, optional
        TTFT, TPOT.
    lang : "en" or "zh"
    theme : "light" or "dark"
    size : "page" (7.2 × 4.6 in), "column" (3.5 × 2.8 a panel, one above the other) or "slide" (10 × 5.6)

    Returns
    -------
    tuple of two Axes
        With `roofline_data` (a row a cell, seconds; none where it does not fit) and `roofline_alt` each.

    Notes
    -----
    Assumes a static batch, nothing queueing. The box is the cell nearest to what was asked, the title the exact answer. Each
    panel has colours of its own.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from roofline.specs.catalog import hardware, model
    >>> from roofline.specs.deployment import Deployment
    >>> d = Deployment(model=model("llama-3.1-8b"), hardware=hardware("h100"))
    >>> ttft, tpot = latency_heatmap(d, slo=SLO(tpot_p95_s=0.01))
    >>> bool(tpot.roofline_data.query("kept")["tpot_s"].max() <= 0.01)
    True
    >>> plt.close(ttft.figure)
    """
    look = look_named(theme=theme, size=size, lang=lang)
    given = axes_given(ax, 2)
    d, request = one_deployment(
        deployment, prompt_tokens=prompt_tokens, output_tokens=output_tokens, context_tokens=context_tokens, batch=batch,
        usual=USUAL,
    )  # fmt: skip
    require_tokens(d, "latency_heatmap")
    ttft, tpot = heat_of(d, request, "ttft", slo), heat_of(d, request, "tpot", slo)
    line = subject(d, request_said(request, lang), float(request.memory_of(d).short_by_bytes), lang=lang)
    headline = Headline(title=words.heats_title(ttft, tpot, lang), line=line, trust=trust_of(d, lang=lang))
    with styled(look):
        axes = compose([_panel(heat, line, lang) for heat in (ttft, tpot)], headline=headline, given=given, look=look)
    return axes[0], axes[1]


def _panel(heat: Heat, line: str, lang: LangName) -> Panel:
    short = words.heat_short(heat, lang)
    return Panel(
        title=short,
        short=short,
        line=line,
        frame=heat.to_frame(),
        alt=words.heat_alt(heat, lang),
        draw=partial(_draw, heat),
        letter=partial(_letter, heat),
    )


def _draw(heat: Heat, ax: Any, look: Look) -> None:
    draw_heat(ax, heat, look)


def _letter(heat: Heat, ax: Any, look: Look) -> None:
    letter_heat(ax, heat, look)
