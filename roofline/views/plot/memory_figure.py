"""The figure of memory: what the fullest chip of each deployment holds, against what it has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from roofline.answers.prediction import Comparison
from roofline.errors import SpecError
from roofline.views.plot.compose import Panel, alone
from roofline.views.plot.memory_axes import ROW, draw_memory, key_rows, letter_memory
from roofline.views.plot.memory_points import Stack, stack_of
from roofline.views.plot.memory_words import SAY, bar_names, memory_alt, memory_line, memory_title
from roofline.views.plot.request import Subject, one_number, subjects
from roofline.views.plot.theme import LangName, SizeName, ThemeName, look_named

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["memory"]

MOST = 12
AROUND = 1.25  # what a figure has besides bars and their key [inch]


def memory(
    deployments: Subject | Comparison | Sequence[Subject],
    *,
    prompt_tokens: Any = None,
    output_tokens: Any = None,
    context_tokens: Any = None,
    batch: Any = None,
    ax: Axes | None = None,
    lang: LangName = "en",
    theme: ThemeName = "light",
    size: SizeName = "page",
) -> Axes:
    """Whether it fits: weights, cache, activations and the engine's own, stacked up to what one chip has.

        budget = the engine's share of the memory          over = held − budget

    Parameters
    ----------
    deployments : Deployment, Prediction, Comparison, or up to 12 of the first two
        A bar each; a prediction brings its request along.
    prompt_tokens, output_tokens, batch : int, optional
        The request, at its longest in the cache: 2048, 256 and 8 unless a prediction says otherwise [token, token, 1].
    context_tokens : int, optional
        Tokens of each sequence outright, in place of the request's.
    ax : Axes, optional
        Drawn on as it is; a new figure, as high as its bars need, by default.
    lang : "en" or "zh"
    theme : "light" or "dark"
    size : "page" (7.2 in wide), "column" (3.5) or "slide" (10)

    Returns
    -------
    Axes
        With `roofline_data` (a row a piece of each bar, in bytes) and `roofline_alt`.

    Notes
    -----
    Assumes what `memory` does: the bar is the fullest chip of a deployment; a cache stands in the engine's whole pages.

    Examples
    --------
    Llama-2-70B: 128.5 GiB of weights on an H100 of 79.6.

    >>> import matplotlib.pyplot as plt
    >>> from roofline.specs.catalog import hardware, model
    >>> from roofline.specs.deployment import Deployment
    >>> ax = memory(Deployment(model=model("llama-2-70b"), hardware=hardware("h100")), context_tokens=1, batch=1)
    >>> ax.get_title(loc="left")
    'Does not fit: 48.8 GiB over'
    >>> plt.close(ax.figure)
    """
    look = look_named(theme=theme, size=size, lang=lang)
    pairs, _ = subjects(
        deployments, prompt_tokens=prompt_tokens, output_tokens=output_tokens, context_tokens=None, batch=batch
    )
    if len(pairs) > MOST:
        raise SpecError(f"plot.memory: expected up to {MOST} deployments, which can be told apart, got {len(pairs)}")
    given = None if context_tokens is None else one_number(context_tokens, "context_tokens", low=0.0)
    stacks = tuple(stack_of(d, request, request.longest_tokens if given is None else given) for d, request in pairs)
    rows = len(stacks) + key_rows(stacks, look)
    tall = replace(look, size=replace(look.size, height=(AROUND + ROW * rows) * look.size.text / 8.0))
    only: Axes = alone(_panel(stacks, lang), ax, tall, SAY(lang, "trust"))
    return only


def _panel(stacks: tuple[Stack, ...], lang: LangName) -> Panel:
    import pandas as pd

    rows = [row for stack, name in zip(stacks, bar_names(stacks, lang), strict=True) for row in stack.rows(name)]
    return Panel(
        title=memory_title(stacks, lang),
        short=memory_title(stacks, lang),
        line=memory_line(stacks, lang),
        frame=pd.DataFrame(rows),
        alt=memory_alt(stacks, lang),
        draw=lambda axes, look: draw_memory(axes, stacks, look),
        letter=lambda axes, look: letter_memory(axes, stacks, look),
    )
