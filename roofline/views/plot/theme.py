"""How figures look: two themes, three sizes, and one style file, used by `with` so that no global setting changes.

The palette was searched so that its colours stay apart under normal, protan, deutan and tritan vision and stand at
least 3:1 above the ground. Colour still never speaks alone: phases differ by marker, dtypes by dash, evidence by fill.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from roofline.errors import SpecError, did_you_mean

__all__ = [
    "SIZES", "THEMES", "LangName", "Look", "Size", "SizeName", "Theme", "ThemeName", "blend", "dress", "lane_under",
    "lang_named", "look_named", "new_panels", "size_named", "styled", "theme_named",
]  # fmt: skip

ThemeName = Literal["light", "dark"]
SizeName = Literal["page", "column", "slide"]
LangName = Literal["en", "zh"]

ROW_GAP = 0.07  # of a panel's height, under each row of several
STYLE_FILE = Path(__file__).with_name("roofline.mplstyle")


@dataclass(frozen=True, slots=True, kw_only=True)
class Theme:
    """Colours by what they stand for."""

    name: str
    ground: str
    ink: str
    grey: str
    prefill: str
    decode: str
    kv: str
    links: str
    activations: str

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
    lane_share: float = 0.22  # of a roofline's height


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A theme and a size, and what they leave room for in one panel."""

    theme: Theme
    size: Size
    is_narrow: bool = False  # labels say the least
    has_margin: bool = True  # labels may stand right of the Axes
    lang: LangName = "en"

    @property
    def text(self) -> dict[str, Any]:
        """Keywords of a label inside an Axes; the layout does not make room for it."""
        return {"fontsize": self.size.text, "color": self.theme.ink, "in_layout": False, "path_effects": self.halo()}

    def halo(self, width: float = 2.0) -> list[Any]:
        """A rim in the colour of the ground, so letters and marks stay clear of what they cross."""
        from matplotlib.patheffects import withStroke

        return [withStroke(linewidth=width, foreground=self.theme.ground)]


THEMES: Mapping[str, Theme] = {
    t.name: t
    for t in (
        Theme(
            name="light",
            ground="#FFFFFF",
            ink="#111111",
            grey="#656565",
            prefill="#035AC0",
            decode="#B33201",
            kv="#06A75C",
            links="#6B0E75",
            activations="#C18B00",
        ),
        Theme(
            name="dark",
            ground="#14161A",
            ink="#F5F5F5",
            grey="#94959B",
            prefill="#2187FC",
            decode="#D7642A",
            kv="#11DD83",
            links="#92499C",
            activations="#FCC51C",
        ),
    )
}
SIZES: Mapping[str, Size] = {
    s.name: s
    for s in (
        Size(name="page", width=7.2, height=4.6, text=8.0, title=10.0, note=7.0, n_columns=3),
        Size(name="column", width=3.5, height=2.8, text=8.0, title=8.5, note=7.0, n_columns=1, lane_share=0.3),
        Size(name="slide", width=10.0, height=5.6, text=10.0, title=13.0, note=8.0, n_columns=3),
    )
}

LANGS: Mapping[str, LangName] = {"en": "en", "zh": "zh"}
CHINESE = (
    "Noto Sans CJK SC", "Noto Sans SC", "Source Han Sans SC", "Source Han Sans CN", "Noto Sans CJK JP", "PingFang SC",
    "Hiragino Sans GB", "Microsoft YaHei", "WenQuanYi Micro Hei", "WenQuanYi Zen Hei", "SimHei", "Heiti TC",
    "Arial Unicode MS",
)  # fmt: skip
"""Fonts with Chinese letters, the first that is installed is taken."""

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


def lang_named(name: str) -> LangName:
    """The language of a name, or an error that lists them.

    >>> lang_named("zh")
    'zh'
    """
    return _named(name, LANGS, "lang")


def look_named(*, theme: str, size: str, lang: str) -> Look:
    """The look of three names.

    >>> look_named(theme="dark", size="page", lang="zh").theme.ink
    '#F5F5F5'
    """
    return Look(theme=theme_named(theme), size=size_named(size), lang=lang_named(lang))


def _fonts(lang: str) -> list[str]:
    """Families that have all letters of a language, the first that has a letter giving it."""
    if lang == "en":
        return ["sans-serif"]
    from matplotlib import get_cachedir
    from matplotlib.font_manager import fontManager

    installed = {font.name for font in fontManager.ttflist}
    found = next((name for name in CHINESE if name in installed), None)
    if found is None:
        raise SpecError(
            "lang: no font with Chinese letters is installed, or none was when matplotlib last looked; install Noto Sans "
            f"CJK (fonts-noto-cjk), then delete {get_cachedir()}"
        )
    return ["DejaVu Sans", found]


def _named(name: str, known: Mapping[str, Named], what: str) -> Named:
    if not isinstance(name, str) or name not in known:
        raise SpecError(f"{what}: expected {' or '.join(known)}, got {name!r:.60}{did_you_mean(str(name)[:60], known)}")
    return known[name]


@contextmanager
def styled(look: Look) -> Iterator[None]:
    """The shipped style with a theme's colours, for as long as the block runs."""
    import matplotlib
    import matplotlib.style

    theme, size = look.theme, look.size
    ink = ("text.color", "axes.labelcolor", "axes.edgecolor", "axes.titlecolor", "xtick.color", "ytick.color")
    colours = dict.fromkeys(ink, theme.ink) | {
        "figure.facecolor": theme.ground,
        "axes.facecolor": theme.ground,
        "grid.color": theme.grey,
    }
    letters: dict[str, Any] = dict.fromkeys(
        ("font.size", "axes.labelsize", "xtick.labelsize", "ytick.labelsize"), size.text
    )
    letters["font.family"] = _fonts(look.lang)
    interactive = matplotlib.is_interactive()
    try:
        with matplotlib.style.context([STYLE_FILE, colours | letters | {"axes.titlesize": size.title}]):
            try:
                yield
            finally:  # a notebook's backend turns this on with the first figure; leaving the block would turn it off
                interactive = matplotlib.is_interactive()
    finally:
        matplotlib.interactive(interactive)


def new_panels(size: Size, *, n_panels: int, n_columns: int, has_lanes: bool = False) -> tuple[Any, ...]:
    """Panels of a pyplot figure (notebooks show those), row by row; a second row doubles the height.

    Panels with lanes are rooflines: they share y, and each has the Axes of its lane as `roofline_lane`.
    """
    import matplotlib.pyplot as plt

    n_rows = -(-n_panels // n_columns)
    figure = plt.figure(figsize=(size.width, size.height * n_rows), layout="constrained")
    engine: Any = figure.get_layout_engine()
    engine.set(w_pad=0.05, h_pad=0.025, wspace=0.02, hspace=0.01)
    heights = [1.0 - size.lane_share, size.lane_share] if has_lanes else [1.0]
    heights += [ROW_GAP] if n_rows > 1 else []
    grid = figure.add_gridspec(n_rows * len(heights), n_columns, height_ratios=heights * n_rows)
    panels: list[Any] = []
    for i in range(n_panels):
        row, column = len(heights) * (i // n_columns), i % n_columns
        ax: Any = figure.add_subplot(grid[row, column], sharey=panels[0] if has_lanes and panels else None)
        if has_lanes:
            ax.roofline_lane = figure.add_subplot(grid[row + 1, column], sharex=ax)
        panels.append(ax)
    return tuple(panels)


def lane_under(ax: Any, look: Look) -> Any:
    """An Axes under this one, sharing x; both stand where this one stood."""
    if hasattr(ax, "roofline_lane"):
        return ax.roofline_lane
    figure, share = ax.figure, look.size.lane_share
    spec = ax.get_subplotspec()
    if spec is None:
        x, y, width, height = ax.get_position().bounds
        ax.set_position((x, y + (share + 0.03) * height, width, (1.0 - share - 0.03) * height))
        lane = figure.add_axes((x, y, width, share * height), sharex=ax)
    else:
        rows = spec.subgridspec(2, 1, height_ratios=[1.0 - share, share], hspace=0.06)
        ax.set_subplotspec(rows[0])
        lane = figure.add_subplot(rows[1], sharex=ax)
    ax.roofline_lane = lane
    return lane


def dress(ax: Any, look: Look) -> None:
    """Give an Axes the look outright, whoever made it and under whatever settings."""
    theme, size = look.theme, look.size
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
