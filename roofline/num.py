"""Numbers that broadcast: scalars in, scalars out; grids in, grids out.

Counts are float64 throughout. An int64 wraps silently at 9.2e18, which a large prefill passes; a float64 is exact to
9.0e15 and carries on from there.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from roofline.errors import SpecError, shown

__all__ = ["Num", "as_num", "checked", "common_shape", "same", "undominated", "whole"]

Num: TypeAlias = float | NDArray[np.float64]


def as_num(value: Any) -> Num:
    """A float, or a float64 array, of a number, a sequence or an array of numbers. A bool, a text, a complex is none.

    >>> as_num(3)
    3.0
    >>> as_num([1, 2])
    array([1., 2.])
    """
    if type(value) is float:
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, np.ndarray) and _holds_bool(value):
        raise TypeError("a bool is no number")
    array = np.asarray(value)
    if array.dtype.kind not in "iuf":
        raise TypeError("not numbers")
    array = array.astype(np.float64, copy=False)
    return array if array.ndim else float(array)


def _holds_bool(value: Any) -> bool:
    """Whether a bool hides in a list, where numpy would turn it into 1."""
    return isinstance(value, (list, tuple)) and any(isinstance(v, (bool, np.bool_)) or _holds_bool(v) for v in value)


def common_shape(**fields: Num) -> tuple[int, ...]:
    """The shape that named fields broadcast to, or an error that names them.

    >>> common_shape(batch=np.ones((3, 1)), context_tokens=np.ones(2))
    (3, 2)
    """
    shapes = {name: np.shape(value) for name, value in fields.items()}
    try:
        return np.broadcast_shapes(*shapes.values())
    except ValueError:
        listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items() if shape)
        raise SpecError(f"{listed}: expected shapes that broadcast together; add an axis, as in x[:, None]") from None


def checked(value: Any, *, name: str, low: float, high: float = 1e15, above: bool = False) -> Num:
    """``as_num`` with its range held: low ≤ value ≤ high, or low < value where `above`.  NaN is out of every range.

    The error names the field, the range and the first offending value.
    """
    try:
        num = as_num(value)
    except (TypeError, ValueError, OverflowError):
        raise SpecError(f"{name}: expected a number or an array of numbers, got {shown(value)}") from None
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


def whole(value: Num) -> Num | int | None:
    """A count as people write it: 8 and not 8.0; none where it is without bound. A fraction or an array stays as it is.

    >>> whole(8.0), whole(8.5), whole(np.inf)
    (8, 8.5, None)
    """
    if isinstance(value, float) and np.isinf(value):
        return None
    return int(value) if isinstance(value, float) and value.is_integer() else value


def same(value: Num, *inputs: Num) -> Num:
    """A plain float where every input was one (numpy returns its own scalar type)."""
    return value if any(isinstance(x, np.ndarray) for x in inputs) else float(value)


def undominated(x: Any, y: Any) -> NDArray[np.intp]:
    """Places of the points that no other is at least as good as in both and better in one, from the largest x on.

    More is better; of equal points the first stays; a NaN is no point.

    >>> undominated([20.0, 60.0, 50.0], [900.0, 500.0, 400.0])
    array([1, 0])
    """
    xs, ys = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    order = np.lexsort((-ys, -xs))
    order = order[~np.isnan(xs[order]) & ~np.isnan(ys[order])]
    before = np.concatenate(([-np.inf], np.maximum.accumulate(ys[order])))[:-1]
    return order[ys[order] > before]
