"""A bar for what takes longer than a moment: on stderr, on a terminal only, gone when done."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

__all__ = ["Step", "progress"]


class Step(Protocol):
    """What a long task calls with a word for every step, or for `n` of them together."""

    def __call__(self, said: str, /, n: int = 1) -> None:
        """A word, and how many steps."""


@contextmanager
def progress(n_steps: int, *, wait_s: float = 0.0) -> Iterator[Step | None]:
    """What to call with a word for every step of a long task; none where there is no task, or nobody who looks on.

    Parameters
    ----------
    n_steps : int
        Steps in all, as far as they can be foretold [1].
    wait_s : float
        How long a task runs before it has a bar: one that is done by then never shows it [s].
    """
    if not n_steps or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
    from rich.table import Column

    words = TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis"))
    columns = (BarColumn(bar_width=20), TaskProgressColumn(), TimeRemainingColumn(), words)
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task("", total=n_steps)
    shown_from = time.monotonic() + wait_s

    def step(said: str, /, n: int = 1) -> None:
        if time.monotonic() >= shown_from:
            bar.start()  # once is enough: further calls find it started
        bar.update(task, advance=n, description=said)

    if not wait_s:
        bar.start()
    try:
        yield step
    finally:
        bar.stop()
