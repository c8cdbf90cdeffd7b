"""How figures look: two themes, three sizes, and one style file, used by `with` so that no global setting changes.

The palette was searched so that its colours stay apart under normal, protan, deutan and tritan vision and stand at
least 3:1 above the ground. Colour still never speaks alone: phases differ by marker, dtypes by dash, evidence by fill.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from roofline.errors import SpecError, did_you_mean

__all__ = ["SIZES", "THEMES", "Size", "Theme", "blend", "dress", "new_figure", "size_named", "styled", "theme_named"]

STYLE_FILE = Path(__file__).with_name("roofline.mplstyle")
LANE_SHARE = 0.22


@dataclass(frozen=True, slots=True, kw_only=True)
class Theme:
    """Colours by what they stand for."""

    name: str
    ground: str
    ink: str
    grey: str
    prefill: str
    decode: str

    def of(self, phase: str) -> str:
        """The colour of a phase."""
        return {"prefill": self.prefill, "decode": self.decode}[phase]


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """A figure's width and height [inch], and its letters [pt]. A figure never holds text below 7 pt."""

    name: str
    width: float
    height: float
    text: float
    title: float
    note: float
    n_columns: int  # panels in a row

    @property
    def is_small(self) -> bool:
        """Whether there is room for what must be said only."""
        return self.width < 5.0


THEMES: Mapping[str, Theme] = {
    t.name: t
    for t in (
        Theme(name="light", ground="#FFFFFF", ink="#111111", grey="#656565", prefill="#035AC0", decode="#B33201"),
        Theme(name="dark", ground="#14161A", ink="#F5F5F5", grey="#94959B", prefill="#2187FC", decode="#D7642A"),
    )
}
SIZES: Mapping[str, Size] = {
    s.name: s
    for s in (
        Size(name="page", width=7.2, height=4.6, text=8.0, title=10.0, note=7.0, n_columns=3),
        Size(name="column", width=3.5, height=2.8, text=8.0, title=8.5, note=7.0, n_columns=1),
        Size(name="slide", width=10.0, height=5.6, text=10.0, title=13.0, note=8.0, n_columns=3),
    )
}

Named = TypeVar("Named")


def theme_named(name: str) -> Theme:
    """The theme of a name, or an error that lists them.

    >>> theme_named("dark").ground
    '#14161A'
    """
    return _named(name, THEMES, "theme")


def size_named(name: str) -> Size:
    """The size of a name, or an error that lists them.

    >>> size_named("column").width
    3.5
    """
    return _named(name, SIZES, "size")


def _named(name: str, known: Mapping[str, Named], what: str) -> Named:
    if not isinstance(name, str) or name not in known:
        raise SpecError(
            f"{what}: expected {' or '.join(known)}, got {name!r:.60}{did_you_mean(str(name)[:60], known)}"
        )
    return known[name]


@contextmanager
def styled(theme: Theme, size: Size) -> Iterator[None]:
    """The shipped style with a theme's colours, for as long as the block runs."""
    import matplotlib.style

    ink = ("text.color", "axes.labelcolor", "axes.edgecolor", "axes.titlecolor", "xtick.color", "ytick.color")
    colours = dict.fromkeys(ink, theme.ink) | {
        "figure.facecolor": theme.ground,
        "axes.facecolor": theme.ground,
        "grid.color": theme.grey,
    }
    letters = dict.fromkeys(("font.size", "axes.labelsize", "xtick.labelsize", "ytick.labelsize"), size.text)
    with matplotlib.style.context([STYLE_FILE, colours | letters | {"axes.titlesize": size.title}]):  # type: ignore[list-item]
        yield


def new_figure(size: Size, *, n_panels: int, n_columns: int, share_y: bool = False) -> tuple[Any, tuple[Any, ...]]:
    """A pyplot figure (notebooks show those) and its panels, row by row; a second row doubles the height."""
    import matplotlib.pyplot as plt

    n_rows = -(-n_panels // n_columns)
    figure = plt.figure(figsize=(size.width, size.height * n_rows), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.05, h_pad=0.04, wspace=0.02, hspace=0.02)  # type: ignore[union-attr, call-arg]
    grid = figure.subplots(n_rows, n_columns, sharey=share_y, squeeze=False)
    panels = tuple(grid.flat)
    for unused in panels[n_panels:]:
        unused.remove()
    return figure, panels[:n_panels]


def dress(ax: Any, theme: Theme, size: Size) -> None:
    """Give an Axes the look outright, whoever made it and under whatever settings."""
    ax.set_facecolor(theme.ground)
    for side, spine in ax.spines.items():
        spine.set(visible=side in ("left", "bottom"), color=theme.ink, linewidth=0.8)
    ax.tick_params(which="major", colors=theme.ink, labelsize=size.text, length=3.0, width=0.8, direction="out")
    ax.tick_params(which="minor", colors=theme.ink, length=1.6, width=0.5, direction="out")
    ax.grid(visible=True, which="major", color=theme.grey, linewidth=0.4, alpha=0.4)
    ax.set_axisbelow(True)


def blend(colour: str, ground: str, share: float) -> str:
    """`share` of a colour over a ground.

    >>> blend("#000000", "#FFFFFF", 0.5)
    '#808080'
    """
    parts = ((int(colour[i : i + 2], 16), int(ground[i : i + 2], 16)) for i in (1, 3, 5))
    return "#" + "".join(f"{round(share * a + (1.0 - share) * b):02X}" for a, b in parts)
