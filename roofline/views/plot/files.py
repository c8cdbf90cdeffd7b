"""Figures to files: the same bytes each time, alt text inside, never half a file."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Any

from roofline.errors import SpecError
from roofline.views.files import put, target_of

__all__ = ["checked", "save"]

SUFFIXES = (".png", ".svg", ".pdf")


def save(ax_or_fig: Any, path: str | os.PathLike[str]) -> Path:
    """Write the figure of an Axes (or of several, or itself) as PNG, SVG or PDF, by the suffix of `path`.

    The same figure gives the same bytes: no dates, no random ids. The alt text goes into SVG's `<desc>`, PNG's
    Description and PDF's Subject. The file appears whole or not at all.

    Parameters
    ----------
    ax_or_fig : Axes, tuple of Axes, or Figure
    path : str or path
        Its folder must exist; a file there is replaced.

    Returns
    -------
    Path
        Where it was written.
    """
    target = checked(path)
    figure, title, alt = _subject(ax_or_fig)
    data = _rendered(figure, target.suffix.lower(), title, alt)
    put(target, data)
    return target


def checked(path: str | os.PathLike[str]) -> Path:
    """A path that can be written to, as far as can be known before."""
    return target_of(path, SUFFIXES)


def _subject(given: Any) -> tuple[Any, str, str]:
    """(figure, title, alt text) of what was given."""
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

    if isinstance(given, FigureBase):
        figure: Any = given.figure
        return figure, *_told(list(figure.axes))
    several = not isinstance(given, Axes) and isinstance(given, Iterable)
    axes = list(given) if several else [given]
    if not axes or not all(isinstance(ax, Axes) for ax in axes):
        raise SpecError(f"save: expected an Axes, several of them or a Figure, got {given!r:.60}")
    return axes[0].figure.figure, *_told(axes)


def _told(axes: list[Any]) -> tuple[str, str]:
    """Titles and alt texts of what this library drew."""
    told = [ax for ax in axes if hasattr(ax, "roofline_alt")]
    titles = [" ".join(ax.get_title(loc="left").split()) for ax in told]
    return "; ".join(titles), " ".join(ax.roofline_alt for ax in told)


def _rendered(figure: Any, suffix: str, title: str, alt: str) -> bytes:
    import matplotlib.style

    from roofline.views.plot.theme import STYLE_FILE

    kinds: dict[str, dict[str, Any]] = {
        ".png": {"Title": title, "Description": alt},
        ".svg": {"Title": title, "Description": alt, "Date": None},
        ".pdf": {"Title": title, "Subject": alt, "CreationDate": None},
    }
    buffer = io.BytesIO()
    with matplotlib.style.context(STYLE_FILE):
        figure.savefig(buffer, format=suffix[1:], metadata=kinds[suffix], dpi=figure.dpi)
    data = buffer.getvalue()
    return _described(data, alt) if suffix == ".svg" and alt else data


def _described(svg: bytes, alt: str) -> bytes:
    """An SVG whose `<desc>`, after its `<title>`, says the alt text to whoever cannot see it."""
    head, close, rest = svg.partition(b"</title>")
    desc = f"\n <desc>{escape(alt, quote=False)}</desc>".encode()
    return head.replace(b"<svg ", b'<svg role="img" ', 1) + close + desc + rest
