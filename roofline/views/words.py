"""Figures in words, as every view says them."""

from __future__ import annotations

from roofline.answers.estimates import known_of
from roofline.num import Num
from roofline.specs.deployment import Deployment
from roofline.specs.plan import Plan
from roofline.units import format_si

__all__ = ["IDEAL_NOTE", "between", "percent", "seconds", "three", "trust", "ways"]

IDEAL_NOTE = "uncalibrated: ideal hardware, activations through memory between ops; only the floor is a bound"
_NAMES = {"ttft": "TTFT", "tpot": "TPOT"}


def trust(d: Deployment) -> list[str]:
    """What stands behind a deployment's times, and how far such estimates were seen to be off; a sentence a line."""
    known = known_of(d)
    if not known.bands and known.regime != "given":
        return [IDEAL_NOTE]
    off = " and ".join(f"{percent(known.off[w])} ({name})" for w, name in _NAMES.items() if w in known.off)
    seen = [f"such estimates were off by {off} in the middle, where measurements were held back"] if off else []
    return [known.said, *seen]


def between(low: Num, high: Num) -> str:
    """An interval, with its unit once where both edges have the same.

    >>> between(0.0061, 0.0089), between(0.0009, 0.0021)
    ('6.10–8.90 ms', '900 µs–2.10 ms')
    """
    first, last = seconds(low), seconds(high)
    unit = last.rpartition(" ")[2]
    return f"{first.removesuffix(f' {unit}')}–{last}"


def ways(plan: Plan) -> str:
    """The parallel ways of a plan, as people write them; nothing for one chip.

    >>> ways(Plan(tp=4, pp=2))
    ' (tp 4, pp 2)'
    """
    given = [f"{name} {n}" for name in ("tp", "pp", "ep", "dp", "cp") if (n := getattr(plan, name)) > 1]
    return f" ({', '.join(given)})" if given else ""


def seconds(value: Num | None) -> str:
    """A time with its unit; a dash where there is none."""
    return "–" if value is None else format_si(float(value), "s")


def three(value: Num) -> str:
    """Three significant digits, plain: 7.47, 295, 1,943.

    >>> three(7.472), three(295.34), three(1943.2)
    ('7.47', '295', '1,943')
    """
    return f"{float(value):,.0f}" if value >= 100 else f"{float(value):.3g}"


def percent(share: Num) -> str:
    """A share for people: two digits where it is small.

    >>> percent(0.0034), percent(0.95)
    ('0.34 %', '95 %')
    """
    return f"{100 * float(share):.2g} %" if share < 0.1 else f"{100 * float(share):.0f} %"
