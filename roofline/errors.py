"""What can go wrong, and how it is said.

    RooflineError
    ├── SpecError      (ValueError)           a file, a record or an argument is malformed
    ├── PlanError      (ValueError)           a parallel plan this model cannot be run with
    ├── UnknownName    (LookupError)          no such chip, model, format, axis …
    └── Unsupported    (NotImplementedError)  understood, but not something this version counts

A message is one line: *where*, what was expected, what came, what to do. "Does not fit" is an answer, never an
exception; "unknown" is an exception, never 0, None or NaN.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["PlanError", "RooflineError", "SpecError", "UnknownName", "Unsupported", "did_you_mean", "shorten"]


class RooflineError(Exception):
    """Root of everything this library raises on purpose."""


class SpecError(RooflineError, ValueError):
    """A file, a record or an argument does not say what it must."""


class PlanError(RooflineError, ValueError):
    """A parallel plan that this model or chip cannot be run with."""


class UnknownName(RooflineError, LookupError):
    """A name that is in no catalogue or table."""


class Unsupported(RooflineError, NotImplementedError):
    """Understood, but not something this version counts."""


def did_you_mean(name: str, known: Iterable[str], *, n: int = 3) -> str:
    """The tail of an error sentence: the closest known names, or nothing.

    >>> did_you_mean("h10", ["h100", "a100"])
    '; did you mean h100 or a100?'
    >>> did_you_mean("zzz", ["h100", "a100"])
    ''
    """
    import difflib

    by_lower: dict[str, str] = {}
    for k in known:
        by_lower.setdefault(k.lower(), k)
    close = [by_lower[k] for k in difflib.get_close_matches(name.lower(), list(by_lower), n=n, cutoff=0.55)]
    return f"; did you mean {' or '.join(close)}?" if close else ""


def shorten(text: str, width: int = 60) -> str:
    """What was given, as an error shows it: on one line, and not the whole of a novel.

    >>> shorten("llama\\n3"), shorten("x" * 99, 10)
    ('llama 3', 'xxxxxxx...')
    """
    line = " ".join(text[: 4 * width].split())
    return line if len(line) <= width else line[: width - 3] + "..."
