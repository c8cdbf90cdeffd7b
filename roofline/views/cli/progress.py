"""A bar for what takes longer than a moment: on stderr, on a terminal only, gone when done."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["progress"]


@contextmanager
def progress(n_steps: int) -> Iterator[Callable[[str], None] | None]:
    """What to call with a word for every step of a long task; none where there is no task, or nobody who looks on.

    Parameters
    ----------
    n_steps : int
        Steps in all, as far as they can be foretold [1].
    """
    if not n_steps or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
    from rich.table import Column

    words = TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis"))
    columns = (BarColumn(bar_width=20), TaskProgressColumn(), TimeRemainingColumn(), words)
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=n_steps)

        def step(said: str) -> None:
            bar.update(task, advance=1, description=said)

        yield step
