"""Figures in words, as every command says them."""

from __future__ import annotations

from roofline.num import Num
from roofline.specs.plan import Plan
from roofline.units import format_si

__all__ = ["percent", "seconds", "three", "ways"]


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
