"""The figure of a search: what a chip gives against how fast each user reads, and the front of what keeps the promise."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from roofline.errors import SpecError, shown
from roofline.views.plot import pareto_axes as drawing
from roofline.views.plot.compose import Headline, Panel, axes_given, compose
from roofline.views.plot.pareto_points import front_of
from roofline.views.plot.theme import Look, lang_named, size_named, styled, theme_named

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["pareto"]


def pareto(
    points: Iterable[Any] | Any,
    *,
    table_at: Sequence[float] = (),
    subject: str = "",
    trust: str = "speeds as given",
    ax: Axes | None = None,
    lang: Literal["en", "zh"] = "en",
    theme: Literal["light", "dark"] = "light",
    size: Literal["page", "column", "slide"] = "page",
) -> Axes:
    """Output tokens of a chip against the speed of a user: every point, and the front of those that keep the promise.

    The front is drawn as steps: between two configurations there is no third.

    Parameters
    ----------
    points : DataFrame, or a sequence of mappings or records
        With `tokens_per_s_per_user`, `output_tokens_per_s_per_chip`, `label` and `meets`. Rows without a speed are left out
        and counted in the second line.
    table_at : sequence of float
        Speeds at which to print what the front gives, by points of it only [token/s].
    subject, trust : str
        What the points are of, for the second line; what evidence stands behind them, for the footer.
    ax : Axes, optional
        Drawn on as it is; a new figure by default.
    lang : "en" or "zh"
    theme : "light" or "dark"
    size : "page" (7.2 × 4.6 in), "column" (3.5 × 2.8) or "slide" (10 × 5.6)

    Returns
    -------
    Axes
        With `roofline_data` (a row a point, `front` among its columns) and `roofline_alt`.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> names = ("tokens_per_s_per_user", "output_tokens_per_s_per_chip", "label", "meets")
    >>> rows = [(20.0, 900.0, "tp 1", True), (60.0, 500.0, "tp 2", True), (50.0, 400.0, "pp 2", True)]
    >>> ax = pareto([dict(zip(names, row)) for row in rows], table_at=[30])
    >>> ax.roofline_data["front"].tolist()
    [True, True, False]
    >>> plt.close(ax.figure)
    """
    look = Look(theme=theme_named(theme), size=size_named(size), lang=lang_named(lang))
    given = axes_given(ax, 1)
    for name, value in (("subject", subject), ("trust", trust)):
        if not isinstance(value, str):
            raise SpecError(f"pareto({name}): expected text, got {shown(value)}")
    found = front_of(points, table_at)
    title = drawing.pareto_title(found, lang)
    panel = Panel(
        title=title,
        short=title,
        line=drawing.pareto_line(found, subject, lang),
        frame=found.to_frame(),
        alt=drawing.pareto_alt(found, lang),
        draw=lambda axes, look: drawing.draw_pareto(axes, found, look),
        letter=lambda axes, look: drawing.letter_pareto(axes, found, look),
    )
    with styled(look):
        axes = compose([panel], headline=Headline(title="", line="", trust=trust), given=given, look=look)
    only: Axes = axes[0]
    return only
