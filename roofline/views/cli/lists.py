"""Several values in one option, with commas between: numbers and ranges of them, names, layouts."""

from __future__ import annotations

import re

from roofline.errors import SpecError, shorten
from roofline.specs.plan import Plan
from roofline.views.cli.common import whole

__all__ = ["names_of", "plans_of", "wholes"]

MOST_VALUES = 10_000_000

_WAY = re.compile(r"(tp|pp|ep|dp|cp)([0-9]{1,4})")
_GROUP = re.compile(r"0[0-9]")  # what is left of 2,048 between commas


def wholes(text: str, *, name: str, least: int = 1, most: float = 1e12) -> list[int]:
    """Whole numbers as people type them, and ranges with both ends: from:to:step, or from:to:xFACTOR.

    >>> wholes("1,8,64", name="--batch"), wholes("1k:8k:x2", name="--context"), wholes("0:100:50", name="--batch", least=0)
    ([1, 8, 64], [1024, 2048, 4096, 8192], [0, 50, 100])
    """
    found: list[int] = []
    for part in text.split(","):
        ends = [piece.strip() for piece in part.split(":")]
        if len(ends) == 1:
            if _GROUP.match(ends[0]):
                raise SpecError(f"{name}: commas stand between values; write 2048, not 2,048: got {shorten(text)!r}")
            found.append(whole(ends[0], name=name, least=least, most=most))
        elif len(ends) == 3:
            found += _range(ends, text, name=name, least=least, most=most)
        else:
            raise SpecError(
                f"{name}: expected a range as from:to:step or from:to:xFACTOR, such as 1k:128k:x2, got {shorten(part)!r}"
            )
        _require_few(len(found), name)
    return found


def _range(ends: list[str], text: str, *, name: str, least: int, most: float) -> list[int]:
    first, last = (whole(end, name=name, least=least, most=most) for end in ends[:2])
    by_factor = ends[2].lower().startswith(("x", "×"))
    step = whole(ends[2].lower().lstrip("x×"), name=name, least=2 if by_factor else 1, most=most)
    if last < first or (by_factor and first < 1):
        raise SpecError(f"{name}: expected a range from a number up to a larger one, got {shorten(text)!r}")
    if not by_factor:
        _require_few((last - first) // step + 1, name)
        return list(range(first, last + 1, step))
    found = [first]
    while found[-1] * step <= last:
        found.append(found[-1] * step)
    return found


def _require_few(n: int, name: str) -> None:
    if n > MOST_VALUES:
        raise SpecError(f"{name}: expected at most {MOST_VALUES:,} values, got {n:,}")


def names_of(text: str | None) -> list[str | None]:
    """Names with commas between; none, the model's own, for "own", "auto" and no text at all.

    >>> names_of("bf16, fp8,own"), names_of(None)
    (['bf16', 'fp8', None], [None])
    """
    if text is None:
        return [None]
    names = [part.strip() for part in text.split(",")]
    return [None if name in ("own", "auto") else name for name in names if name]


def plans_of(text: str) -> tuple[Plan, ...]:
    """Layouts as people type them: tp4, tp2pp2, dp8ep8.

    >>> [plan.n_chips for plan in plans_of("tp1,tp2pp2,4")]
    [1, 4, 4]
    """
    found = []
    for part in text.lower().replace(" ", "").split(","):
        ways = (
            {"tp": int(part)} if part.isdigit() and len(part) < 5 else {name: int(n) for name, n in _WAY.findall(part)}
        )
        if not ways or (not part.isdigit() and _WAY.sub("", part)):
            raise SpecError(f"--plans: expected layouts such as tp1,tp2,tp4pp2 or dp8ep8, got {shorten(part)!r}")
        found.append(Plan(**ways))
    return tuple(found)
