"""The figures people ask for by name: compute what is drawn, then draw it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, overload

from roofline.answers.prediction import Comparison, Prediction
from roofline.errors import SpecError
from roofline.specs.deployment import Deployment
from roofline.specs.hardware import Hardware
from roofline.specs.model import Model
from roofline.views.plot import words
from roofline.views.plot.compose import Headline, Panel, axes_given, compose
from roofline.views.plot.growth_axes import draw_growth, growth_alt, growth_line, growth_title, letter_growth
from roofline.views.plot.growth_points import growth
from roofline.views.plot.latency_axes import draw_tpot, draw_ttft, letter_tpot, letter_ttft
from roofline.views.plot.latency_points import TpotLines, TtftCurve, tpot_lines, ttft_curve
from roofline.views.plot.request import Request, Subject, subjects
from roofline.views.plot.roof_axes import Limits, draw_roof, limits
from roofline.views.plot.roof_letters import letter_ceilings, letter_roof
from roofline.views.plot.roof_points import Roof, roof_of
from roofline.views.plot.theme import Look, size_named, styled, theme_named

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["kv_growth", "latency", "roofline", "tpot_vs_batch", "ttft_vs_prompt"]

ThemeName = Literal["light", "dark"]
SizeName = Literal["page", "column", "slide"]


@overload
def roofline(
    deployments: Subject,
    *,
    prompt_tokens: Any = None,
    output_tokens: Any = None,
    context_tokens: Any = None,
    batch: Any = None,
    ax: Axes | None = None,
    theme: ThemeName = "light",
    size: SizeName = "page",
    measured: Sequence[tuple[float, float, str]] | None = None,
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
    theme: ThemeName = "light",
    size: SizeName = "page",
    measured: Sequence[tuple[float, float, str]] | None = None,
) -> tuple[Axes, ...]: ...
def roofline(
    deployments: Subject | Comparison | Sequence[Subject],
    *,
    prompt_tokens: Any = None,
    output_tokens: Any = None,
    context_tokens: Any = None,
    batch: Any = None,
    ax: Axes | Sequence[Axes] | None = None,
    theme: ThemeName = "light",
    size: SizeName = "page",
    measured: Sequence[tuple[float, float, str]] | None = None,
) -> Axes | tuple[Axes, ...]:
    """Where prefill and decode stand under the roof of a chip, and where batch and prompt move them.

        point = (F / Q, F / seconds)         roof = min(π, β · I)         ridge = π / β

    Decode runs over batches of powers of 2, as many as fit; prefill over prompts of powers of 2. The lane below shows
    the intensities alone, with a bar at what decode tends to as the batch grows without end at this context.

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
    theme : "light" or "dark"
    size : "page" (7.2 × 4.6 in), "column" (3.5 × 2.8) or "slide" (10 × 5.6)
    measured : sequence of (intensity, flops_per_s, label), optional
        Measurements of the one deployment shown [FLOP/B, FLOP/s].

    Returns
    -------
    Axes, or a tuple of them where several deployments were given
        With `roofline_data` (DataFrame of what is drawn), `roofline_alt` (alt text) and `roofline_lane` (Axes).

    Notes
    -----
    Assumes the ideal machine: time is the sum over ops of the larger of arithmetic and traffic. Dtypes slower than the
    one in use are left out, and so are sparse rates.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from roofline.specs.catalog import hardware, model
    >>> d = Deployment(model=model("llama-3.1-8b"), hardware=hardware("h100-sxm-80gb"))
    >>> ax = roofline(d, prompt_tokens=2048, output_tokens=256, batch=8)
    >>> ax.get_title(loc="left")
    'Decode is memory-bound on h100-sxm-80gb: 7.43 FLOP/B, ridge 295 (40x)'
    >>> plt.close(ax.figure)
    """
    look = Look(theme=theme_named(theme), size=size_named(size))
    pairs, many = subjects(
        deployments,
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        context_tokens=context_tokens,
        batch=batch,
    )
    if measured is not None and len(pairs) > 1:
        raise SpecError(f"measured: expected one deployment to hold it against, got {len(pairs)}; plot them one by one")
    given = axes_given(ax, len(pairs))
    roofs = tuple(roof_of(deployment, request, measured=measured) for deployment, request in pairs)
    headline = Headline(
        title=words.roofs_title(roofs), line=words.roofs_subject(roofs), x_name=words.intensity_name(roofs),
        trust=words.trust_of(*(roof.deployment for roof in roofs)),
    )  # fmt: skip
    with styled(look):
        axes = compose(
            _roof_panels(roofs, apart=bool(given)), headline=headline, given=given, look=look, has_lanes=True
        )
    return axes if many else axes[0]


def _roof_panels(roofs: tuple[Roof, ...], *, apart: bool) -> list[Panel]:
    """Panels on common scales, or each on its own where they stand `apart`."""
    spans = [limits([roof] if apart else roofs) for roof in roofs]
    return [
        Panel(
            title=words.roof_title(roof),
            short=short,
            line=words.subject(roof.deployment, roof.request.said, roof.short_by_bytes),
            frame=roof.to_frame(),
            alt=words.roof_alt(roof),
            draw=partial(_draw_roof, roof=roof, span=span),
            letter=partial(_letter_roof, roof=roof),
        )
        for roof, short, span in zip(roofs, words.panel_titles(roofs), spans, strict=True)
    ]


def _draw_roof(ax: Any, look: Look, *, roof: Roof, span: Limits) -> None:
    draw_roof(ax, roof, span=span, look=look)
    letter_ceilings(ax, roof, look)


def _letter_roof(ax: Any, look: Look, *, roof: Roof) -> None:
    letter_roof(ax, roof, look)


def latency(
    deployment: Subject,
    *,
    prompt_tokens: Any = None,
    context_tokens: Any = None,
    batch: Any = None,
    ax: Sequence[Axes] | None = None,
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
    ax : two Axes, optional
        TTFT, TPOT.
    theme, size
        As in `roofline`; in a column the panels stand one above the other.

    Returns
    -------
    tuple of two Axes
        With `roofline_data` and `roofline_alt` each.

    Notes
    -----
    Assumes the ideal machine, nothing queueing, all prompts of a batch in one pass.
    """
    look = Look(theme=theme_named(theme), size=size_named(size))
    given = axes_given(ax, 2)
    subject, request = _one(deployment, prompt_tokens=prompt_tokens, batch=batch)
    if not subject.model.generates:
        raise SpecError(f"latency: {subject.model.id} is an encoder: it gives no tokens to wait for; draw its roofline")
    ttft, tpot = ttft_curve(subject, request), tpot_lines(subject, request, context_tokens)
    line, trust = words.subject(subject, _shape(request)), words.trust_of(subject)
    headline = Headline(title=words.latency_title(ttft, tpot), line=line, trust=trust)
    with styled(look):
        axes = compose([_ttft_panel(ttft, request), _tpot_panel(tpot)], headline=headline, given=given, look=look)
    return axes[0], axes[1]


def ttft_vs_prompt(
    deployment: Subject,
    *,
    prompt_tokens: Any = None,
    batch: Any = None,
    ax: Axes | None = None,
    theme: ThemeName = "light",
    size: SizeName = "page",
) -> Axes:
    """TTFT against the prompt, alone: estimate, floor, and where arithmetic takes over from memory; see `latency`."""
    look = Look(theme=theme_named(theme), size=size_named(size))
    given = axes_given(ax, 1)
    subject, request = _one(deployment, prompt_tokens=prompt_tokens, batch=batch)
    return _alone(_ttft_panel(ttft_curve(subject, request), request), given, look)


def tpot_vs_batch(
    deployment: Subject,
    *,
    context_tokens: Any = None,
    batch: Any = None,
    ax: Axes | None = None,
    theme: ThemeName = "light",
    size: SizeName = "page",
) -> Axes:
    """TPOT against the batch, alone: a line a context, up to the batch that fills the memory; see `latency`."""
    look = Look(theme=theme_named(theme), size=size_named(size))
    given = axes_given(ax, 1)
    subject, request = _one(deployment, prompt_tokens=None, batch=batch)
    return _alone(_tpot_panel(tpot_lines(subject, request, context_tokens)), given, look)


def kv_growth(
    models: Model | Sequence[Model],
    *,
    hardware: Hardware | Sequence[Hardware] = (),
    batch: Any = 1,
    kv: str = "bf16",
    memory_tokens: Any = None,
    ax: Axes | None = None,
    theme: ThemeName = "light",
    size: SizeName = "page",
) -> Axes:
    """What sequences keep of their context, model by model: windows bend, latents lie low, hybrids start high and stay flat.

    Parameters
    ----------
    models : Model, or up to 12 of them
        A line each, from 128 tokens to the longest context it is made for.
    hardware : Hardware, or several
        A level each: all of its memory.
    batch : int
        Sequences [1].
    kv : str
        Format of the cache; recurrent state keeps its own dtype.
    memory_tokens : int, optional
        Tower outputs that models with cross-attention keep besides [token].
    ax, theme, size
        As in `roofline`.

    Returns
    -------
    Axes
        With `roofline_data` and `roofline_alt`.
    """
    look = Look(theme=theme_named(theme), size=size_named(size))
    given = axes_given(ax, 1)
    shown = growth(models, hardware=hardware, batch=batch, kv=kv, memory_tokens=memory_tokens)
    panel = Panel(
        title=growth_title(shown),
        short=growth_title(shown),
        line=growth_line(shown),
        frame=shown.to_frame(),
        alt=growth_alt(shown),
        draw=lambda axes, look: draw_growth(axes, shown, look),
        letter=lambda axes, look: letter_growth(axes, shown, look),
    )
    return _alone(panel, given, look)


def _alone(panel: Panel, given: tuple[Any, ...], look: Look) -> Axes:
    with styled(look):
        axes = compose([panel], headline=Headline(title="", line=""), given=given, look=look)
    only: Axes = axes[0]
    return only


def _one(given: Any, *, prompt_tokens: Any, batch: Any) -> tuple[Deployment, Request]:
    """The one deployment a latency figure is about, and its request."""
    if not isinstance(given, (Deployment, Prediction)):
        raise SpecError(f"plot: expected one Deployment or Prediction, got {given!r:.60}")
    pairs, _ = subjects(
        given,
        prompt_tokens=prompt_tokens,
        output_tokens=None,
        context_tokens=None,
        batch=batch,
        usual={"batch": 1, "output_tokens": 1},
    )
    return pairs[0]


def _shape(request: Request) -> str:
    return f"prompt {request.prompt_tokens:.0f}{request.levers}, batch {request.batch:.0f}"


def _ttft_panel(curve: TtftCurve, request: Request) -> Panel:
    return Panel(
        title=words.ttft_title(curve),
        short=words.ttft_title(curve),
        line=words.subject(curve.deployment, _shape(request)),
        frame=curve.to_frame(),
        alt=words.ttft_alt(curve),
        draw=lambda ax, look: draw_ttft(ax, curve, look),
        letter=lambda ax, look: letter_ttft(ax, curve, look),
    )


def _tpot_panel(tpot: TpotLines) -> Panel:
    return Panel(
        title=words.tpot_title(tpot),
        short=words.tpot_title(tpot),
        line=words.subject(tpot.deployment, f"batch {tpot.asked:.0f}"),
        frame=tpot.to_frame(),
        alt=words.tpot_alt(tpot),
        draw=lambda ax, look: draw_tpot(ax, tpot, look),
        letter=lambda ax, look: letter_tpot(ax, tpot, look),
    )
