"""Tasks one after another, or on an executor: results in order, few in flight, and an error that names its rows."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Executor, Future, wait
from functools import partial
from typing import Any, TypeVar

from roofline.errors import RooflineError, SpecError, shown
from roofline.views.progress import Step
from roofline.views.sweep.points import Block

__all__ = ["in_order", "require_executor"]

PATIENCE_S = 60.0

R = TypeVar("R")


def require_executor(given: Any) -> None:
    """Refuse what takes no tasks."""
    if given is not None and not isinstance(given, Executor):
        wanted = "a concurrent.futures.Executor, such as ProcessPoolExecutor() or Dask's client.get_executor()"
        raise SpecError(f"sweep(executor): expected {wanted}, got {shown(given)}")


def in_order(
    tasks: Iterable[Sequence[Block]],
    work: Callable[[Sequence[Block], int], R],
    *,
    executor: Executor | None,
    in_flight: int,
    step: Step | None,
) -> Generator[R, None, None]:
    """What `work` makes of every task and its number, in order.

    Parameters
    ----------
    executor : Executor, optional
        Where it is done; here, one after another, where there is none. `work` and the tasks are pickled to it.
    in_flight : int
        Tasks that it is given at once, results that wait for an earlier one among them [1].
    """
    if executor is None:
        for number, task in enumerate(tasks):
            yield _told(task, partial(work, task, number), step)
        return
    waiting: deque[tuple[Sequence[Block], Future[R]]] = deque()
    try:
        for number, task in enumerate(tasks):
            waiting.append((task, _named(task, partial(executor.submit, work, task, number))))
            while len(waiting) >= in_flight:
                yield _told(*_result(waiting), step)
        while waiting:
            yield _told(*_result(waiting), step)
    finally:  # nothing of what is still out is wanted; what is under way may write, so it is waited for
        wait([future for _, future in waiting if not future.cancel()], timeout=PATIENCE_S)


def _result(waiting: deque[tuple[Sequence[Block], Future[R]]]) -> tuple[Sequence[Block], Callable[[], R]]:
    task, future = waiting.popleft()
    return task, future.result


def _told(task: Sequence[Block], result: Callable[[], R], step: Step | None) -> R:
    """The result of a task, and a step of the bar."""
    found = _named(task, result)
    if step is not None:
        step(task[-1].combination.said, sum(block.n_rows for block in task))
    return found


def _named(task: Sequence[Block], act: Callable[[], R]) -> R:
    """Do something for a task; what fails names its rows."""
    try:
        return act()
    except RooflineError:  # it says already of which
        raise
    except Exception as error:
        rows = task[0].said if len(task) == 1 else f"{task[0].said} … {task[-1].said}"
        raise RooflineError(f"sweep: failed at {rows}: {type(error).__name__}: {error}") from error
