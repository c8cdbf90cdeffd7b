"""Numbers that broadcast: scalars in, scalars out; grids in, grids out.

Counts are float64 throughout. An int64 wraps silently at 9.2e18, which a large prefill passes; a float64 is exact to
9.0e15 and carries on from there.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from roofline.errors import SpecError, shorten

__all__ = ["Num", "as_num", "checked", "is_grid"]

Num: TypeAlias = float | NDArray[np.float64]


def as_num(value: Any) -> Num:
    """A float, or a float64 array, of what was given: int, bool-free sequence, array, pandas Series.

    >>> as_num(3)
    3.0
    >>> as_num([1, 2])
    array([1., 2.])
    """
    if type(value) is float:
        return value
    if isinstance(value, (bool, str, bytes)) or value is None:
        raise TypeError(f"expected a number or an array of numbers, got {value!r}")
    if isinstance(value, int):
        return float(value)
    array = np.asarray(value, dtype=np.float64)
    return array if array.ndim or isinstance(value, np.ndarray) else float(array)


def is_grid(value: Num) -> bool:
    """Whether a value is an array (of any shape, 0-d included) rather than a plain float."""
    return isinstance(value, np.ndarray)


def checked(value: Any, *, name: str, low: float, high: float = 1e15, above: bool = False) -> Num:
    """``as_num`` with its range held: low ≤ value ≤ high, or low < value where `above`.  NaN is out of every range.

    The error names the field, the range and the first offending value.
    """
    try:
        num = as_num(value)
    except (TypeError, ValueError):
        raise SpecError(f"{name}: expected a number or an array of numbers, got {shorten(repr(value))}") from None
    if isinstance(num, float):
        smallest = largest = num
    elif num.size == 0:
        raise SpecError(f"{name}: expected at least one value, got an empty array")
    else:
        smallest, largest = float(num.min()), float(num.max())
    if (smallest > low if above else smallest >= low) and largest <= high:
        return num
    bound = f"> {low:g}" if above else f">= {low:g}"
    raise SpecError(f"{name}: expected a number {bound} and at most {high:g}, got {_offender(num, low, high, above):g}")


def _offender(num: Num, low: float, high: float, above: bool) -> float:
    flat = np.asarray(num).ravel()
    good = ((flat > low) if above else (flat >= low)) & (flat <= high)
    return float(flat[int(np.argmin(good))])
