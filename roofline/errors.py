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

__all__ = [
    "PlanError",
    "RooflineError",
    "SpecError",
    "UnknownName",
    "Unsupported",
    "did_you_mean",
    "require",
    "shorten",
    "shown",
]


class RooflineError(Exception):
    """Root of everything this library raises on purpose. Whatever went into the message, it is one printable line."""

    def __init__(self, message: str) -> None:
        line = shorten(message, 10_000)  # a long path comes first, what is wrong with it last: the middle goes
        super().__init__(line if len(line) <= 600 else f"{line[:297]}...{line[-300:]}")


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
    """Text as an error shows it: on one line, printable, and not the whole of a novel.

    >>> shorten("llama\\n3"), shorten("x" * 99, 10), shorten("a\\x1bb")
    ('llama 3', 'xxxxxxx...', 'a?b')
    """
    line = " ".join(text[: 4 * width].split())
    plain = "".join(c if c.isprintable() else "?" for c in line)
    return plain if len(plain) <= width else plain[: width - 3] + "..."


def shown(value: object) -> str:
    """A value as an error shows it.

    >>> shown("h100"), shown(None), shown([1, 2])
    ("'h100'", 'None (null)', 'a list of 2')
    """
    if value is None:
        return "None (null)"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, (list, tuple)):
        return f"a list of {len(value)}"
    try:
        return shorten(repr(value))
    except ValueError:  # Python does not print an integer of thousands of digits
        return "a number of thousands of digits"


_MAKE = {
    "Deployment": "roofline.Deployment(model=…, hardware=…)",
    "Efficiency": "roofline.Efficiency(…)",
    "Hardware": "roofline.hardware(name)",
    "Ledger": "roofline.count(model, step)",
    "Model": "roofline.model(name)",
    "Prediction": "roofline.predict(deployment, …)",
    "Plan": "roofline.Plan(tp=1)",
    "Precision": "roofline.Precision(weights=…)",
}


def require(value: object, kind: type, where: str) -> None:
    """Raise unless a value is of a kind, and say how one is made: a name is not yet a record."""
    if not isinstance(value, kind):
        make = _MAKE.get(kind.__name__, f"{kind.__name__}(…)")
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        raise SpecError(f"{where}: expected {article} {kind.__name__}, got {shown(value)}; make one with {make}")
