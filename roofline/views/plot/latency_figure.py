"""The latencies: TTFT along the prompt and TPOT along the batch, together or each alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from roofline.errors import SpecError
from roofline.specs.deployment import Deployment
from roofline.specs.slo import SLO
from roofline.views.plot import latency_words as words
from roofline.views.plot.compose import Headline, Panel, alone, axes_given, compose
from roofline.views.plot.latency_axes import draw_rates, draw_tpot, draw_ttft, letter_tpot, letter_ttft
from roofline.views.plot.latency_points import TpotLines, TtftCurve, tpot_lines, ttft_curve
from roofline.views.plot.request import Request, Subject, one_deployment
from roofline.views.plot.theme import LangName, Look, SizeName, ThemeName, look_named, styled
from roofline.views.plot.words import request_said, subject, swept, trust_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["latency", "require_tokens", "tpot_vs_batch", "ttft_vs_prompt"]


def latency(
    deployment: Subject,
    *,
    prompt_tokens: Any = None,
    context_tokens: Any = None,
    batch: Any = None,
    slo: SLO | None = None,
    ax: Sequence[Axes] | None = None,
    lang: LangName = "en",
    theme: ThemeName = "light",
    size: SizeName = "page",
) -> tuple[Axes, Axes]:
    """How long people wait: TTFT against the prompt, and TPOT against the batch, side by side.

    Parameters
    ----------
    deployment : Deployment or Prediction
        A prediction brings its request along.
    prompt_tokens : int, optional
        The prompt to mark [token]; 2048 by default.
    context_tokens : int, or up to four, optional
        A line each [token]; the first is the one that the batch is marked on and that fills the memory. By default the
        prompt (a prediction: the mean over its decode passes), 4 and 16 times the prompt, as far as they fit.
    batch : int, optional
        Prompts read together, and the batch to mark [1]; 1 by default.
    slo : SLO, optional
        The tightest of its limits on each kind is drawn, and the title says up to where it is kept.
    ax : two Axes, optional
        TTFT, TPOT.
    lang, theme, size
        As in `roofline`; in a column the panels stand one above the other.

    Returns
    -------
    tuple of two Axes
        With `roofline_data` and `roofline_alt` each.

    Notes
    -----
    Assumes nothing queueing, all prompts of a batch together. Where an engine was measured, a band holds four of five of
    such measurements; ticks at the foot are prompts that take it one pass more.
    """
    look = look_named(theme=theme, size=size, lang=lang)
    given = axes_given(ax, 2)
    d, request = _one(deployment, prompt_tokens=prompt_tokens, batch=batch)
    require_tokens(d, "latency")
    ttft, tpot = ttft_curve(d, request, slo), tpot_lines(d, request, context_tokens, slo)
    line = subject(d, _shape(request, lang), lang=lang)
    headline = Headline(title=words.latency_title(ttft, tpot, lang), line=line, trust=trust_of(d, lang=lang))
    panels = [_ttft_panel(ttft, request, lang), _tpot_panel(tpot, lang)]
    with styled(look):
        axes = compose(panels, headline=headline, given=given, look=look)
    return axes[0], axes[1]


def require_tokens(deployment: Deployment, who: str) -> None:
    """Refuse an encoder."""
    name = deployment.model.id
    if not deployment.model.generates:
        raise SpecError(f"{who}: {name} is an encoder: it gives no tokens to wait for; draw its roofline")


def ttft_vs_prompt(
    deployment: Subject,
    *,
    prompt_tokens: Any = None,
    batch: Any = None,
    slo: SLO | None = None,
    ax: Axes | None = None,
    lang: LangName = "en",
    theme: ThemeName = "light",
    size: SizeName = "page",
) -> Axes:
    """TTFT against the prompt, alone: estimate, floor, and where arithmetic takes over from memory; see `latency`."""
    look = look_named(theme=theme, size=size, lang=lang)
    d, request = _one(deployment, prompt_tokens=prompt_tokens, batch=batch)
    panel = _ttft_panel(ttft_curve(d, request, slo), request, lang)
    only: Axes = alone(panel, ax, look, trust_of(d, lang=lang))
    return only


def tpot_vs_batch(
    deployment: Subject,
    *,
    context_tokens: Any = None,
    batch: Any = None,
    slo: SLO | None = None,
    ax: Axes | None = None,
    lang: LangName = "en",
    theme: ThemeName = "light",
    size: SizeName = "page",
) -> Axes:
    """TPOT against the batch, alone: a line a context, up to the batch that fills the memory; see `latency`.

    The lane below, `roofline_lane`, shows the tokens a second of all sequences together, B / TPOT; not in a column.
    """
    look = look_named(theme=theme, size=size, lang=lang)
    d, request = _one(deployment, prompt_tokens=None, batch=batch)
    require_tokens(d, "tpot_vs_batch")
    tpot = tpot_lines(d, request, context_tokens, slo)
    panel, has_lane = _tpot_panel(tpot, lang), look.size.name != "column"  # which has no room for it
    if has_lane:
        panel = replace(panel, draw=partial(_with_rates, tpot))
    only: Axes = alone(panel, ax, look, trust_of(d, lang=lang), has_lanes=has_lane)
    return only


def _with_rates(tpot: TpotLines, ax: Any, look: Look) -> None:
    draw_tpot(ax, tpot, look)
    draw_rates(ax, tpot, look)


def _one(given: Any, *, prompt_tokens: Any, batch: Any) -> tuple[Deployment, Request]:
    usual = {"batch": 1, "output_tokens": 1}
    return one_deployment(given, prompt_tokens=prompt_tokens, batch=batch, usual=usual)


def _shape(request: Request, lang: LangName) -> str:
    """Prompts and batch, whatever the answer."""
    return request_said(replace(request, output_tokens=None, context_tokens=None), lang)


def _ttft_panel(curve: TtftCurve, request: Request, lang: LangName) -> Panel:
    return Panel(
        title=words.ttft_title(curve, lang),
        short=words.ttft_title(curve, lang),
        line=subject(curve.deployment, _shape(request, lang), lang=lang),
        frame=curve.to_frame(),
        alt=words.ttft_alt(curve, lang),
        draw=lambda ax, look: draw_ttft(ax, curve, look),
        letter=lambda ax, look: letter_ttft(ax, curve, look),
    )


def _tpot_panel(tpot: TpotLines, lang: LangName) -> Panel:
    return Panel(
        title=words.tpot_title(tpot, lang),
        short=words.tpot_title(tpot, lang),
        line=subject(tpot.deployment, f"{swept('batch', lang)} {tpot.asked:.0f}", lang=lang),
        frame=tpot.to_frame(),
        alt=words.tpot_alt(tpot, lang),
        draw=lambda ax, look: draw_tpot(ax, tpot, look),
        letter=lambda ax, look: letter_tpot(ax, tpot, look),
    )
