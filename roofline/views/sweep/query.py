"""The usual questions to a frame of rows: the best of every group, and what nothing else beats in both of two ways."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from roofline.errors import SpecError, UnknownName, did_you_mean, shown
from roofline.num import undominated

__all__ = ["best", "front"]


def best(frame: Any, *, by: str, per: str | Sequence[str] = ()) -> Any:
    """The best row, or the best of every group; of equal rows the first.

    Parameters
    ----------
    frame : DataFrame
        Of `sweep`, or any other; only what is in it competes: `frame[frame.fits]`.
    by : str
        A column. Of times, bytes, chips and prices less is better, of everything else more.
    per : str or sequence of str
        Columns that make the groups; one of all rows by default.

    Returns
    -------
    DataFrame
        Its rows in their order; none where `by` has no number anywhere.

    Examples
    --------
    >>> from roofline.views.sweep import sweep
    >>> frame = sweep(models="llama-3.1-8b", hardware=["h100", "l4"], batch=[1, 64, 512], context_tokens=8192)
    >>> best(frame[frame.fits], by="tokens_per_s_per_chip", per="hardware")[["hardware", "batch"]].values.tolist()
    [['h100-sxm-80gb', 64], ['l4', 1]]
    """
    values = _sense(by) * _numbers(frame, by, "best(by)")
    groups = _groups(frame, per, "best(per)")
    found = [where[int(np.argmax(values[where]))] for where in _places(groups, ~np.isnan(values))]
    return frame.iloc[sorted(found)]


def front(
    frame: Any, *, x: str = "tokens_per_s_per_user", y: str = "tokens_per_s_per_chip", per: str | Sequence[str] = ()
) -> Any:
    """The rows that no other beats in both of two columns: the Pareto front, of all rows or of every group.

    Parameters
    ----------
    frame : DataFrame
        Only what is in it competes: `frame[frame.fits]`.
    x, y : str
        Columns; what is better in each is as in `best`.
    per : str or sequence of str
        Columns that make the groups.

    Returns
    -------
    DataFrame
        Its rows in their order.

    Examples
    --------
    A larger batch serves each user slower and a chip better; every batch that fits is on the front.

    >>> from roofline.views.sweep import sweep
    >>> frame = sweep(models="llama-3.1-8b", hardware="h100", batch=[1, 16, 64, 512], context_tokens=8192)
    >>> front(frame[frame.fits]).batch.tolist()
    [1, 16, 64]

    The picture takes all rows and finds the front itself:

    >>> rows = frame.assign(output_tokens_per_s_per_chip=frame.tokens_per_s_per_chip, label=frame.batch, meets=frame.fits)
    >>> from roofline.views import plot
    >>> axes = plot.pareto(rows, subject="llama-3.1-8b on h100")
    """
    xs, ys = (_sense(name) * _numbers(frame, name, "front") for name in (x, y))
    found: list[Any] = []
    for where in _places(_groups(frame, per, "front(per)"), ~(np.isnan(xs) | np.isnan(ys))):
        found.extend(where[undominated(xs[where], ys[where])])
    return frame.iloc[sorted(found)]


def _sense(name: str) -> float:
    """1 where more is better; −1 for seconds, bytes, chips and money."""
    rate = "_per_s" in name
    less = (name.endswith("_s") and not rate) or ("_bytes" in name and not rate) or name.startswith(("usd_", "n_chips"))
    return -1.0 if less else 1.0


def _numbers(frame: Any, name: str, where: str) -> Any:
    column = _column(frame, name, where)
    if column.dtype.kind not in "iufb":
        raise SpecError(f"{where}: expected a column of numbers, {name} holds {column.dtype}")
    return column.to_numpy(dtype=np.float64)


def _column(frame: Any, name: Any, where: str) -> Any:
    if not (hasattr(frame, "iloc") and hasattr(frame, "columns")):
        raise SpecError(f"{where}: expected a DataFrame such as sweep gives, got {shown(frame)}")
    if name not in frame.columns:
        raise UnknownName(f"{where}: no column named {shown(name)}{did_you_mean(str(name), map(str, frame.columns))}")
    return frame[name]


def _groups(frame: Any, per: str | Sequence[str], where: str) -> Any:
    """A number for every row, the same in a group."""
    names = [per] if isinstance(per, str) else list(per)
    columns = [_column(frame, name, where) for name in names]
    if not columns:
        return np.zeros(len(frame), dtype=np.intp)
    import pandas as pd

    keys = pd.DataFrame({i: c.to_numpy() for i, c in enumerate(columns)})
    return keys.groupby(list(keys), sort=False, dropna=False).ngroup().to_numpy()


def _places(groups: Any, counted: Any) -> list[Any]:
    """The places of every group's rows that count, in order."""
    places = np.flatnonzero(counted)
    order = places[np.argsort(groups[places], kind="stable")]
    return [part for part in np.split(order, np.flatnonzero(np.diff(groups[order])) + 1) if part.size]
