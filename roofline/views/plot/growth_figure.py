"""The figure of growth: what sequences keep of their context."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from roofline.specs.hardware import Hardware
from roofline.specs.model import Model
from roofline.views.plot.compose import Panel, alone
from roofline.views.plot.growth_axes import draw_growth, letter_growth
from roofline.views.plot.growth_points import growth
from roofline.views.plot.growth_words import SAY, growth_alt, growth_line, growth_title
from roofline.views.plot.theme import LangName, SizeName, ThemeName, look_named

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["kv_growth"]


def kv_growth(
    models: Model | Sequence[Model],
    *,
    hardware: Hardware | Sequence[Hardware] = (),
    batch: Any = 1,
    kv: str = "bf16",
    weights: str | None = None,
    memory_tokens: Any = None,
    ax: Axes | None = None,
    lang: LangName = "en",
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
    batch : int, or up to 5 of them for one model
        Sequences [1]; a line each.
    kv : str
        Format of the cache; recurrent state keeps its own dtype.
    weights : str, optional
        Format of one model's weights, a level beside its cache; the checkpoint's own by default.
    memory_tokens : int, optional
        Tower outputs that models with cross-attention keep besides [token].
    ax, lang, theme, size
        As in `roofline`.

    Returns
    -------
    Axes
        With `roofline_data` and `roofline_alt`.

    Examples
    --------
    Llama-2-7B keeps 512 KiB a token: 64 sequences of it outgrow 12.6 GiB of weights at 402 tokens.

    >>> import matplotlib.pyplot as plt
    >>> from roofline.specs.catalog import model
    >>> ax = kv_growth(model("llama-2-7b"), batch=[8, 64], kv="fp16")
    >>> ax.get_title(loc="left")
    'At batch 64 the cache outgrows the weights at 402 tokens'
    >>> plt.close(ax.figure)
    """
    look = look_named(theme=theme, size=size, lang=lang)
    shown = growth(models, hardware=hardware, batch=batch, kv=kv, weights=weights, memory_tokens=memory_tokens)
    panel = Panel(
        title=growth_title(shown, lang),
        short=growth_title(shown, lang),
        line=growth_line(shown, lang),
        frame=shown.to_frame(),
        alt=growth_alt(shown, lang),
        draw=lambda axes, look: draw_growth(axes, shown, look),
        letter=lambda axes, look: letter_growth(axes, shown, look),
    )
    only: Axes = alone(panel, ax, look, SAY(lang, "trust"))
    return only
