"""Figures to files: the same bytes each time, alt text inside, never half a file."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable
from contextlib import suppress
from html import escape
from pathlib import Path
from typing import Any

from roofline.errors import SpecError, did_you_mean
from roofline.specs.catalog import is_folder

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
    _put(target, data)
    return target


def checked(path: str | os.PathLike[str]) -> Path:
    """A path that can be written to, as far as can be known before."""
    target = Path(path)
    suffix = target.suffix.lower()
    if suffix not in SUFFIXES:
        shown = f'"{target.suffix}"' if target.suffix else "no suffix"
        raise SpecError(
            f"{target}: expected a file ending in {', '.join(SUFFIXES)}, got {shown}{did_you_mean(suffix, SUFFIXES)}"
        )
    if not is_folder(target.parent):
        raise SpecError(f"{target}: there is no folder {target.parent}; make it first")
    if is_folder(target):
        raise SpecError(f"{target}: expected a file, found a folder")
    return target


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


def _put(target: Path, data: bytes) -> None:
    """Write beside the target, then move into its place."""
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        part.write_bytes(data)
        part.replace(target)
    except OSError as error:
        raise SpecError(f"{target}: cannot be written ({error.strerror or error})") from None
    finally:
        with suppress(OSError):  # not there: moved, or never written
            part.unlink()
