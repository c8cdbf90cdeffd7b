"""The roofline: compute where the phases stand, then draw it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, overload

from roofline.answers.prediction import Comparison
from roofline.errors import SpecError
from roofline.views.plot import roof_words as words
from roofline.views.plot.compose import Headline, Panel, axes_given, compose
from roofline.views.plot.request import Subject, flag, subjects
from roofline.views.plot.roof_axes import Limits, draw_roof, limits
from roofline.views.plot.roof_letters import letter_ceilings, letter_roof
from roofline.views.plot.roof_points import Roof, roof_of
from roofline.views.plot.theme import LangName, Look, SizeName, ThemeName, look_named, styled
from roofline.views.plot.words import request_said, subject, trust_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Measured", "Tiers", "roofline"]

Measured = Sequence[tuple[Any, ...]] | Any | None
Tiers = Sequence[str] | Mapping[str, float | None]


@overload
def roofline(
    deployments: Subject,
    *,
    prompt_tokens: Any = None,
    output_tokens: Any = None,
    context_tokens: Any = None,
    batch: Any = None,
    ax: Axes | None = None,
    measured: Measured = None,
    ops: bool = False,
    tiers: Tiers = (),
    lang: LangName = "en",
    theme: ThemeName = "light",
    size: SizeName = "page",
) -> Axes: ...
@overload
def roofline(
    deployments: Comparison | Sequence[Subject],
    *,
    prompt_tokens: Any = None,
    output_tokens: Any = None,
    context_tokens: Any = None,
    batch: Any = None,
    ax: Sequence[Axes] | None = None,
    measured: Measured = None,
    ops: bool = False,
    tiers: Tiers = (),
    lang: LangName = "en",
    theme: ThemeName = "light",
    size: SizeName = "page",
) -> tuple[Axes, ...]: ...
def roofline(
    deployments: Subject | Comparison | Sequence[Subject],
    *,
    prompt_tokens: Any = None,
    output_tokens: Any = None,
    context_tokens: Any = None,
    batch: Any = None,
    ax: Axes | Sequence[Axes] | None = None,
    measured: Measured = None,
    ops: bool = False,
    tiers: Tiers = (),
    lang: LangName = "en",
    theme: ThemeName = "light",
    size: SizeName = "page",
) -> Axes | tuple[Axes, ...]:
    """Where prefill and decode stand under the roof of a chip, and where batch and prompt move them.

        point = (F / Q, F / seconds)         roof = min(π, β · I)         ridge = π / β

    Decode runs over batches of powers of 2, as many as fit; prefill over prompts of powers of 2. The lane below shows
    the intensities alone, with a bar at what decode tends to as the batch grows without end at this context. Where an
    engine is known to stay under the roof, what it reaches is dash-dotted.

    Parameters
    ----------
    deployments : Deployment, Prediction, Comparison, or a sequence of the first two
        A prediction brings its request along. Several give one panel each, side by side, on the same scales.
    prompt_tokens, output_tokens, batch : int, optional
        The request to mark: 2048, 256 and 8 unless a prediction says otherwise [token, token, 1].
    context_tokens : int, optional
        Cached tokens of the decode pass to mark [token]; the mean over the answer's passes by default.
    ax : Axes, or one for each of several deployments, optional
        Drawn on as they are (the lane takes the lower part); a new figure by default.
    measured : sequence of (intensity, flops_per_s, label) or (…, label, low, high), or DataFrame, optional
        Measurements of the one deployment shown [FLOP/B, FLOP/s], and between what they lay [FLOP/s]; of a DataFrame the
        columns intensity, flops_per_s, label, low_flops_per_s and high_flops_per_s. Over 24 are one cloud without names.
    ops : bool
        Every op that does arithmetic as a point of its own, the larger the more of its phase's time it takes.
    tiers : sequence of str, or mapping to rates, optional
        Slopes of other roads: "host", a drive such as "nvme-gen5-x4", "link" to other chips, or one of your own with its
        rate [B/s]. Each has an x of its own, FLOP for each byte that crosses it: a slope says what a pass could do all of
        whose bytes came that way, and a phase has a second point on it where the deployment sends some there.
    lang : "en" or "zh"
    theme : "light" or "dark"
    size : "page" (7.2 × 4.6 in), "column" (3.5 × 2.8) or "slide" (10 × 5.6)

    Returns
    -------
    Axes, or a tuple of them where several deployments were given
        With `roofline_data` (DataFrame of what is drawn), `roofline_alt` (alt text) and `roofline_lane` (Axes).

    Notes
    -----
    Assumes what the clock does: time is the sum over ops of the larger of arithmetic and traffic. Dtypes slower than the
    one in use are left out, and so are sparse rates. Of a link, the bytes are the payload of the exchanges, once.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from roofline.specs.catalog import hardware, model
    >>> from roofline.specs.deployment import Deployment
    >>> d = Deployment(model=model("llama-3.1-8b"), hardware=hardware("h100-sxm-80gb"))
    >>> ax = roofline(d, prompt_tokens=2048, output_tokens=256, batch=8)
    >>> ax.get_title(loc="left")
    'Decode is memory-bound on h100-sxm-80gb: 7.43 FLOP/B, ridge 295 (40x)'
    >>> plt.close(ax.figure)
    """
    look = look_named(theme=theme, size=size, lang=lang)
    pairs, many = subjects(
        deployments,
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        context_tokens=context_tokens,
        batch=batch,
    )
    ops = flag(ops, "ops")
    if measured is not None and len(pairs) > 1:
        raise SpecError(f"measured: expected one deployment to hold it against, got {len(pairs)}; plot them one by one")
    given = axes_given(ax, len(pairs))
    roofs = tuple(
        roof_of(deployment, request, measured=measured, ops=ops, tiers=tiers) for deployment, request in pairs
    )
    headline = Headline(
        title=words.roofs_title(roofs, lang),
        line=words.roofs_subject(roofs, lang),
        x_name=words.intensity_name(roofs, lang),
        trust=trust_of(*(roof.deployment for roof in roofs), lang=lang),
    )
    with styled(look):
        axes = compose(
            _panels(roofs, apart=bool(given), lang=lang), headline=headline, given=given, look=look, has_lanes=True
        )
    return axes if many else axes[0]


def _panels(roofs: tuple[Roof, ...], *, apart: bool, lang: LangName) -> list[Panel]:
    """Panels on common scales, or each on its own where they stand `apart`."""
    spans = [limits([roof] if apart else roofs) for roof in roofs]
    return [
        Panel(
            title=words.roof_title(roof, lang),
            short=short,
            line=subject(roof.deployment, request_said(roof.request, lang), roof.short_by_bytes, lang=lang),
            frame=roof.to_frame(),
            alt=words.roof_alt(roof, lang),
            draw=partial(_draw, roof=roof, span=span),
            letter=partial(_letter, roof=roof),
        )
        for roof, short, span in zip(roofs, words.panel_titles(roofs, lang), spans, strict=True)
    ]


def _draw(ax: Any, look: Look, *, roof: Roof, span: Limits) -> None:
    draw_roof(ax, roof, span=span, look=look)
    letter_ceilings(ax, roof, look)


def _letter(ax: Any, look: Look, *, roof: Roof) -> None:
    letter_roof(ax, roof, look)
