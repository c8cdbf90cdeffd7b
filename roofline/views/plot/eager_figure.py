"""The figure of what FlashAttention saves a prefill."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from roofline.views.plot import eager_axes as drawing
from roofline.views.plot import eager_words as words
from roofline.views.plot.compose import Headline, Panel, axes_given, compose
from roofline.views.plot.eager_points import BYTES_DRAWN, INTENSITY_DRAWN, EagerCurves, eager_curves
from roofline.views.plot.request import Subject, one_deployment
from roofline.views.plot.theme import LangName, SizeName, ThemeName, look_named, styled
from roofline.views.plot.words import request_said, trust_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["without_flash"]

USUAL = {"prompt_tokens": 8192, "output_tokens": 1, "batch": 1}


def without_flash(
    deployment: Subject,
    *,
    prompt_tokens: Any = None,
    batch: Any = None,
    ax: Sequence[Axes] | None = None,
    lang: LangName = "en",
    theme: ThemeName = "light",
    size: SizeName = "page",
) -> tuple[Axes, Axes]:
    """A prefill with FlashAttention and without (eager): bytes moved against the prompt, and intensity against the ridge.

        bytes       flash: weights + c·T           eager: the same + Σ_layers B·N·T²·8 B of scores
        intensity   executed FLOPs / bytes         ridge = π / β

    Eager ends with a bar where the scores of one layer alone find no room beside weights and cache.

    Parameters
    ----------
    deployment : Deployment or Prediction
        A prediction brings its request along.
    prompt_tokens, batch : int, optional
        The prompt to mark, 8192 by default, and prompts read together, 1 [token, 1].
    ax : two Axes, optional
        Bytes, intensity.
    lang : "en" or "zh"
    theme : "light" or "dark"
    size : "page" (7.2 × 4.6 in), "column" (3.5 × 2.8 a panel, one above the other) or "slide" (10 × 5.6)

    Returns
    -------
    tuple of two Axes
        With `roofline_data` and `roofline_alt` each.

    Notes
    -----
    Assumes what `roofline.answers.eager.without_flash` does: scores of 2 bytes, written and read twice. The intensity is
    that of the whole pass; single ops may stand on the other side of the ridge.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from roofline.specs.catalog import hardware, model
    >>> from roofline.specs.deployment import Deployment
    >>> d = Deployment(model=model("llama-3.1-8b"), hardware=hardware("h100-sxm-80gb"))
    >>> moved, intensity = without_flash(d)
    >>> intensity.get_title(loc="left")
    'Intensity drops below the ridge'
    >>> plt.close(moved.figure)
    """
    look = look_named(theme=theme, size=size, lang=lang)
    given = axes_given(ax, 2)
    subject, request = one_deployment(deployment, prompt_tokens=prompt_tokens, batch=batch, usual=USUAL)
    curves = eager_curves(subject, request)
    line = words.eager_line(curves, request_said(replace(request, output_tokens=None, context_tokens=None), lang), lang)
    headline = Headline(title=words.eager_title(curves, lang), line=line, trust=trust_of(curves.deployment, lang=lang))
    with styled(look):
        axes = compose(_panels(curves, line, lang), headline=headline, given=given, look=look)
    return axes[0], axes[1]


def _panels(curves: EagerCurves, line: str, lang: LangName) -> list[Panel]:
    return [
        Panel(
            title=words.eager_title(curves, lang),
            short=words.bytes_short(curves, lang),
            line=line,
            frame=curves.to_frame(BYTES_DRAWN),
            alt=words.bytes_alt(curves, lang),
            draw=lambda axes, look: drawing.draw_bytes(axes, curves, look),
            letter=lambda axes, look: drawing.letter_bytes(axes, curves, look),
        ),
        Panel(
            title=words.intensity_short(curves, lang),
            short=words.intensity_short(curves, lang),
            line=line,
            frame=curves.to_frame(INTENSITY_DRAWN),
            alt=words.intensity_alt(curves, lang),
            draw=lambda axes, look: drawing.draw_intensity(axes, curves, look),
            letter=lambda axes, look: drawing.letter_intensity(axes, curves, look),
        ),
    ]
