"""The figure of a pass taken apart: where the time of each phase goes, op by op."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from roofline.views.plot.compose import Headline, Panel, axes_given, compose
from roofline.views.plot.ops_axes import draw_ops, letter_ops
from roofline.views.plot.ops_points import PhaseBars, bars_of
from roofline.views.plot.ops_words import ops_alt, ops_title, panel_title
from roofline.views.plot.request import USUAL, Subject, one_deployment
from roofline.views.plot.theme import LangName, Look, SizeName, ThemeName, look_named, styled
from roofline.views.plot.words import request_said, subject, trust_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["time_breakdown"]

ROW, AROUND = 0.2, 1.85  # of an op, and of what is around all [inch]


def time_breakdown(
    deployment: Subject,
    *,
    prompt_tokens: Any = None,
    output_tokens: Any = None,
    context_tokens: Any = None,
    batch: Any = None,
    ax: Sequence[Axes] | Axes | None = None,
    lang: LangName = "en",
    theme: ThemeName = "light",
    size: SizeName = "page",
) -> tuple[Axes, ...]:
    """Where the time of prefill and of decode goes, op by op, the slowest first: a panel a phase, each on its own scale.

        bar = seconds of the op in all its layers          tick = the smaller of arithmetic and traffic

    Parameters
    ----------
    deployment : Deployment or Prediction
        A prediction brings its request along.
    prompt_tokens, output_tokens, batch : int, optional
        2048, 256 and 8 unless a prediction says otherwise [token, token, 1].
    context_tokens : int, optional
        Cached tokens of the decode pass [token]; the mean over the answer's passes by default.
    ax : Axes a phase, optional
        Prefill, decode; an encoder, and an answer of one token, have prefill alone.
    lang : "en" or "zh"
    theme : "light" or "dark"
    size : "page" (7.2 in wide), "column" (3.5, one above the other) or "slide" (10)

    Returns
    -------
    tuple of Axes
        Prefill, and decode where there is one, with `roofline_data` (a row a bar, in seconds) and `roofline_alt` each.

    Notes
    -----
    Assumes ops one after another, as the clock does. Ops under 2 % of their phase are told together; hatches say what binds:
    arithmetic none, traffic strokes, links crosses. Through pipeline stages, the ops of one microbatch.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from roofline.specs.catalog import hardware, model
    >>> from roofline.specs.deployment import Deployment
    >>> d = Deployment(model=model("llama-3.1-8b"), hardware=hardware("h100"))
    >>> prefill, decode = time_breakdown(d, batch=1)
    >>> prefill.figure.texts[0].get_text().split(" binds")[0], decode.roofline_data["bound"][0]
    ('Compute', 'memory')
    >>> plt.close(prefill.figure)
    """
    look = look_named(theme=theme, size=size, lang=lang)
    d, request = one_deployment(
        deployment, prompt_tokens=prompt_tokens, output_tokens=output_tokens, context_tokens=context_tokens, batch=batch,
        usual=USUAL,
    )  # fmt: skip
    phases = bars_of(d, request)
    given = axes_given(ax, len(phases))
    line = subject(d, request_said(request, lang), float(request.memory_of(d).short_by_bytes), lang=lang)
    headline = Headline(title=ops_title(phases, lang), line=line, trust=trust_of(d, lang=lang))
    n_rows = max(len(p.bars) for p in phases)
    tall = replace(look, size=replace(look.size, height=(AROUND + ROW * n_rows) * look.size.text / 8.0))
    panels = [_panel(p, phases, line, n_rows, lang) for p in phases]
    with styled(tall):
        return compose(panels, headline=headline, given=given, look=tall)


def _panel(p: PhaseBars, phases: tuple[PhaseBars, ...], line: str, n_rows: int, lang: LangName) -> Panel:
    return Panel(
        title=ops_title(phases, lang),
        short=panel_title(p, lang),
        line=line,
        frame=p.to_frame(),
        alt=ops_alt(p, lang),
        draw=partial(_draw, p, n_rows),
        letter=partial(_letter, p, phases),
    )


def _draw(p: PhaseBars, n_rows: int, ax: Any, look: Look) -> None:
    draw_ops(ax, p, n_rows, look)


def _letter(p: PhaseBars, phases: tuple[PhaseBars, ...], ax: Any, look: Look) -> None:
    letter_ops(ax, p, phases, look)
