"""The figures people ask for by name: compute what is drawn, then draw it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

from roofline.answers.phases import Comparison
from roofline.errors import SpecError
from roofline.views.plot import words
from roofline.views.plot.header import band, head
from roofline.views.plot.request import Subject, subjects
from roofline.views.plot.roof_axes import draw_roof, letter_ceilings, letter_roof, limits, spread_ceilings
from roofline.views.plot.roof_points import Roof, roof_of
from roofline.views.plot.theme import Size, Theme, new_figure, size_named, styled, theme_named

if TYPE_CHECKING:
    from matplotlib.axes import Axes

def roofline(
    deployments, *, prompt_tokens=None, output_tokens=None, context_tokens=None, batch=None,
    ax=None, theme="light", size="page", measured=None):
    look, page = theme_named(theme), size_named(size)
    pairs, many = subjects(deployments, prompt_tokens=prompt_tokens, output_tokens=output_tokens,
        context_tokens=context_tokens, batch=batch, usual_batch=8)
    roofs = tuple(roof_of(d, r, measured=measured) for d, r in pairs)
    with styled(look, page):
        axes = _roof_figure(roofs, look, page) 
    return axes if many else axes[0]

def _roof_figure(roofs, theme, size):
    n_columns = min(len(roofs), size.n_columns)
    figure, panels = new_figure(size, n_panels=len(roofs), n_columns=n_columns, share_y=True)
    span, many = limits(roofs), len(roofs) > 1
    is_narrow = size.width / n_columns < 4.0
    for i, (ax, roof) in enumerate(zip(panels, roofs, strict=True)):
        lane = draw_roof(ax, roof, span=span, theme=theme, size=size)
        letter_ceilings(ax, roof, theme=theme, size=size, in_margin=not many, is_narrow=is_narrow)
    band(figure, title=words.roofs_title(roofs) if many else "", line=words.roofs_subject(roofs) if many else "", foot=words.footer(), theme=theme, size=size)
    figure.draw_without_rendering()
    for ax, roof in zip(panels, roofs, strict=True):
        head(ax, words.panel_title(roof) if many else words.roof_title(roof), "" if many else words.subject(roof.deployment, roof.request.said), theme=theme, size=size, to_edge=not many)
        ax.roofline_data = roof.to_frame()
        ax.roofline_alt = words.roof_alt(roof)
    figure.draw_without_rendering()
    for ax, roof in zip(panels, roofs, strict=True):
        spread_ceilings(ax, theme)
        letter_roof(ax, roof, theme=theme, size=size, is_narrow=is_narrow)
    return panels
def latency(): ...
def tpot_vs_batch(): ...
def ttft_vs_prompt(): ...
