"""The memory there is for a frame."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from roofline.errors import SpecError
from roofline.views.sweep.columns import Column

__all__ = ["require_room"]

SHARE = 0.5
CGROUP = Path("/sys/fs/cgroup")


def require_room(columns: Sequence[Column], n_rows: int, *, available_bytes: float | None = None) -> None:
    """Refuse a frame that takes more than half of the memory that is available here, and say how large it is.

    Parameters
    ----------
    available_bytes : float, optional
        What there is [B]; found out where not given, and no limit where that fails.
    """
    there = _available_bytes() if available_bytes is None else available_bytes
    n_bytes = float(n_rows) * sum(c.dtype.itemsize for c in columns)
    if there is None or n_bytes <= SHARE * there:
        return
    raise SpecError(
        f"sweep: {n_rows:,} rows × {len(columns)} columns are {n_bytes / 2**30:,.1f} GiB, more than half of the "
        f'{there / 2**30:,.1f} GiB of memory there is; write them, as with out="sweep.parquet/", or ask for fewer columns'
    )


def _available_bytes() -> float | None:
    """What the system would give without swapping, and what is left of a container's limit  [B]."""
    found = []
    with suppress(OSError, ValueError, IndexError, StopIteration):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        found.append(1024.0 * float(next(line.split()[1] for line in lines if line.startswith("MemAvailable:"))))
    with suppress(OSError, ValueError):
        limit, used = ((CGROUP / name).read_text(encoding="ascii") for name in ("memory.max", "memory.current"))
        found.append(max(float(limit) - float(used), 0.0))
    if not found:
        with suppress(AttributeError, OSError, ValueError):
            found.append(float(os.sysconf("SC_PAGE_SIZE")) * float(os.sysconf("SC_PHYS_PAGES")))
    return min(found, default=None)
