"""One figure of one or several panels: draw, lay out, head, lay out again, letter.

What is drawn first decides the layout; titles wrap to the widths it gives, and labels keep clear of what stands where it
will stay. An Axes of the user's own is drawn on as it is: its figure, size and ground stay theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from roofline.errors import SpecError
from roofline.views.plot.header import align_head, band, fit_names, head
from roofline.views.plot.theme import Look, new_panels, styled
from roofline.views.plot.words import TRUST, footer

__all__ = ["Headline", "Panel", "alone", "axes_given", "compose"]

NARROW = 4.0  # panels under this width say the least [inch]


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One Axes to be: its texts, its data, and how it is drawn and lettered."""

    title: str
    short: str  # its title among others under a headline
    line: str  # model, hardware, formats, shape
    frame: Any
    alt: str
    draw: Callable[[Any, Look], None]
    letter: Callable[[Any, Look], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """What stands over several panels, the name of the x axis they share, if they do, and the evidence behind all."""

    title: str
    line: str
    x_name: str = ""
    trust: str = TRUST


def axes_given(ax: Any, n: int) -> tuple[Any, ...]:
    """The Axes to draw on, one a panel; empty for a new figure."""
    from matplotlib.axes import Axes

    if ax is None:
        return ()
    given = (ax,) if isinstance(ax, Axes) else tuple(getattr(ax, "flat", ax)) if hasattr(ax, "__iter__") else ()
    if len(given) != n or not all(isinstance(a, Axes) for a in given):
        wanted = "one Axes" if n == 1 else f"a sequence of {n} Axes, one a panel"
        raise SpecError(f"ax: expected {wanted}, got {len(given) or type(ax).__name__}; leave it out for a new figure")
    return given


def compose(
    panels: Sequence[Panel], *, headline: Headline, given: tuple[Any, ...], look: Look, has_lanes: bool = False
) -> tuple[Any, ...]:
    """The Axes of the panels, on a new figure or on those given."""
    if given:
        _on_given(given, panels, look, headline.trust)
        return given
    n_rows = -(-len(panels) // look.size.n_columns)
    n_columns = -(-len(panels) // n_rows)  # four are two by two
    axes = new_panels(look.size, n_panels=len(panels), n_columns=n_columns, has_lanes=has_lanes)
    many = len(panels) > 1
    here = replace(look, is_narrow=look.size.width / n_columns < NARROW, has_margin=not many)
    try:
        _on_new(
            axes, panels, headline if many else None, here, inner=n_columns if has_lanes else 1, trust=headline.trust
        )
    except BaseException:
        _close(axes[0])
        raise
    return axes


def alone(panel: Panel, ax: Any, look: Look, trust: str = TRUST, *, has_lanes: bool = False) -> Any:
    """The Axes of one panel."""
    headline = Headline(title="", line="", trust=trust)
    with styled(look):
        axes = compose([panel], headline=headline, given=axes_given(ax, 1), look=look, has_lanes=has_lanes)
    return axes[0]


def _close(ax: Any) -> None:
    import matplotlib.pyplot as plt

    plt.close(ax.figure)


def _on_new(
    axes: tuple[Any, ...], panels: Sequence[Panel], headline: Headline | None, look: Look, *, inner: int, trust: str
) -> None:
    figure, top = axes[0].figure, headline or Headline(title="", line="")
    for i, (ax, panel) in enumerate(zip(axes, panels, strict=True)):
        panel.draw(ax, look)
        if top.x_name:
            _lowest(ax).set_xlabel("")
        if i % inner:
            for part in dict.fromkeys((ax, _lowest(ax))):
                part.set_ylabel("")
                part.tick_params(axis="y", which="both", labelleft=False)
    band(figure, title=top.title, line=top.line, name=top.x_name, foot=footer(trust), look=look)
    if headline:
        _lay_out(axes)  # titles of panels wrap to their widths
    titles = []
    for ax, panel in zip(axes, panels, strict=True):
        title, line = (panel.short, "") if headline else (panel.title, panel.line)
        titles.append(head(ax, title, line, look=look, to_edge=headline is None))
    _lay_out(axes)
    for ax, panel, title in zip(axes, panels, titles, strict=True):
        if headline is None:
            align_head(ax, title)
        fit_names(ax, _lowest(ax), look.size)
        _finish(ax, panel, look)
    figure.set_layout_engine("none")  # labels were set for this layout; and each save gives the same bytes


def _on_given(axes: tuple[Any, ...], panels: Sequence[Panel], look: Look, trust: str) -> None:
    looks = [_look_of(ax, look) for ax in axes]
    for ax, panel, here in zip(axes, panels, looks, strict=True):
        panel.draw(ax, here)
    _lay_out(axes)
    for ax, panel, here in zip(axes, panels, looks, strict=True):
        fit_names(ax, _lowest(ax), here.size)
        head(ax, panel.title, f"{panel.line} · {trust}", look=here, to_edge=False)
    _lay_out(axes)
    for ax, panel, here in zip(axes, panels, looks, strict=True):
        _finish(ax, panel, here)


def _look_of(ax: Any, look: Look) -> Look:
    """What an Axes of the user's leaves room for; only a layout engine makes room in its margin."""
    figure = ax.figure.figure
    inches = ax.get_window_extent().width / figure.dpi
    return replace(look, is_narrow=inches < NARROW - 0.8, has_margin=figure.get_layout_engine() is not None)


def _lay_out(axes: tuple[Any, ...]) -> None:
    """Put the Axes where they will stand when drawn."""
    for figure in dict.fromkeys(ax.figure.figure for ax in axes):
        engine = figure.get_layout_engine()
        if engine is not None:
            engine.execute(figure)


def _finish(ax: Any, panel: Panel, look: Look) -> None:
    panel.letter(ax, look)
    ax.roofline_data, ax.roofline_alt = panel.frame, panel.alt


def _lowest(ax: Any) -> Any:
    """The Axes that names x: the lane under a roof, else the Axes itself."""
    return getattr(ax, "roofline_lane", ax)
