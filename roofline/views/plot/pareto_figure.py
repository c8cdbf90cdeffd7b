"""The figure of a search: what a chip gives against how fast each user reads, and the front of what keeps the promise."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from roofline.errors import SpecError, shown
from roofline.views.plot.compose import Panel, alone
from roofline.views.plot.pareto_axes import draw_pareto, letter_pareto
from roofline.views.plot.pareto_points import front_of
from roofline.views.plot.pareto_words import pareto_alt, pareto_line, pareto_title
from roofline.views.plot.theme import LangName, SizeName, ThemeName, look_named

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
    lang: LangName = "en",
    theme: ThemeName = "light",
    size: SizeName = "page",
) -> Axes:
    """Output tokens of a chip against the speed of a user: every point, and the front of those that keep the promise.

    The front is drawn as steps: between two configurations there is no third. Over 1000 points are one cloud, an image in
    any file.

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
    look = look_named(theme=theme, size=size, lang=lang)
    for name, value in (("subject", subject), ("trust", trust)):
        if not isinstance(value, str):
            raise SpecError(f"pareto({name}): expected text, got {shown(value)}")
    found = front_of(points, table_at)
    title = pareto_title(found, lang)
    panel = Panel(
        title=title,
        short=title,
        line=pareto_line(found, subject, lang),
        frame=found.to_frame(),
        alt=pareto_alt(found, lang),
        draw=lambda axes, look: draw_pareto(axes, found, look),
        letter=lambda axes, look: letter_pareto(axes, found, look),
    )
    only: Axes = alone(panel, ax, look, trust)
    return only
