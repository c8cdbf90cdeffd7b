"""A sweep on executors: threads, processes, a real Dask cluster. The rows are the same, and failures say which."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import roofline as rl
from roofline.views.sweep import points, writing

ASKED: dict[str, Any] = {
    "models": ["llama-3.1-8b", "gpt-2"], "hardware": "h100", "engine": ["ideal", "vllm"], "batch": [1, 8, 64],
    "context_tokens": range(0, 130_000, 1300),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _many_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(points, "BLOCK_POINTS", 50)


@contextmanager
def threads() -> Iterator[Executor]:
    with ThreadPoolExecutor(3) as pool:
        yield pool


@contextmanager
def processes() -> Iterator[Executor]:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


@contextmanager
def dask() -> Iterator[Executor]:
    distributed = import_module("distributed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
        client.get_executor() as pool,
    ):
        yield pool


@pytest.mark.parametrize("kind", [threads, processes, dask])
def test_any_executor_gives_the_same_rows_in_the_same_order(kind: Any, tmp_path: Path) -> None:
    whole = rl.sweep(**ASKED)
    with kind() as executor:
        pd.testing.assert_frame_equal(rl.sweep(**ASKED, executor=executor), whole, check_exact=True)
        for name in ("rows.parquet", "rows.csv", "rows/"):
            done = rl.sweep(**ASKED, executor=executor, out=f"{tmp_path}/{name}")
            pd.testing.assert_frame_equal(done.to_frame(), whole, check_exact=True)
            assert done.n_rows == len(whole)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["rows", "rows.csv", "rows.parquet"]
    assert len(list((tmp_path / "rows").iterdir())) > 1


class Slow(Executor):
    """Runs a task only when its result is wanted, the latest first where it can; counts how many are out."""

    def __init__(self) -> None:
        self.out = self.most = 0

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.out += 1
        self.most = max(self.most, self.out)
        executor = self

        class Later(Future[Any]):
            def result(self, timeout: float | None = None) -> Any:
                executor.out -= 1
                return fn(*args, **kwargs)

        return Later()


def test_no_more_tasks_are_out_than_their_results_may_take(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = rl.sweep(**ASKED)
    monkeypatch.setattr(writing, "IN_FLIGHT_BYTES", 1)  # so that the least is what counts
    slow = Slow()
    pd.testing.assert_frame_equal(rl.sweep(**ASKED, executor=slow), whole)
    assert (slow.most, slow.out) == (4, 0)


class Failing:
    """Work that fails on the rows of one batch."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
        self.works = points.evaluate

    def __call__(self, task: Sequence[Any], columns: Any) -> Any:
        if any(block.numbers["context_tokens"].max() > 100_000 for block in task):
            raise self.error
        return self.works(task, columns)


@pytest.mark.parametrize("out", [None, "rows/", "rows.csv"])
def test_a_task_that_fails_names_its_rows_and_ends_the_rest(
    out: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "evaluate", Failing(MemoryError("no more")))
    with threads() as executor, pytest.raises(rl.RooflineError) as caught:
        rl.sweep(**ASKED, executor=executor, out=out and f"{tmp_path}/{out}")
    said = str(caught.value)
    for needle in ("llama-3.1-8b on h100-sxm-80gb", "batch 1, context_tokens", "MemoryError: no more"):
        assert needle in said
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_dies_is_said_with_the_rows_it_had(tmp_path: Path) -> None:
    with processes() as executor:
        executor.submit(os._exit, 1)
        with pytest.raises(rl.RooflineError, match=r"failed at llama-3.1-8b on h100-sxm-80gb.*BrokenProcessPool"):
            rl.sweep(**ASKED, executor=executor, out=tmp_path / "rows")
    assert list(tmp_path.iterdir()) == []


def test_an_executor_that_was_shut_down_is_said(tmp_path: Path) -> None:
    with threads() as executor:
        pass
    with pytest.raises(rl.RooflineError, match=r"batch 1, context_tokens 0 to .*RuntimeError: cannot schedule"):
        rl.sweep(**ASKED, executor=executor, out=tmp_path / "rows")
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_waits_for_what_is_being_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part file written after the folder is gone would bring it back."""
    started, go_on = threading.Event(), threading.Event()
    works = points.evaluate

    def waiting(task: Sequence[Any], columns: Any) -> Any:
        started.set()
        assert go_on.wait(30.0)
        return works(task, columns)

    def interrupting(said: str, /, n: int = 1) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(writing, "evaluate", waiting)
    with threads() as executor:
        threading.Timer(0.2, go_on.set).start()
        monkeypatch.setattr("roofline.views.sweep.bar", lambda n, wait_s: steps(interrupting if n > 100 else None))
        with pytest.raises(KeyboardInterrupt):
            rl.sweep(**ASKED, executor=executor, out=tmp_path / "rows")
        assert started.is_set()
        assert list(tmp_path.iterdir()) == []
    assert list(tmp_path.iterdir()) == []


@contextmanager
def steps(step: Any) -> Iterator[Any]:
    yield step


@pytest.mark.parametrize("given", [2, "processes", ThreadPoolExecutor])
def test_what_takes_no_tasks_is_no_executor(given: Any) -> None:
    with pytest.raises(rl.SpecError, match=r"sweep\(executor\): expected a concurrent.futures.Executor, such as"):
        rl.sweep(**ASKED, executor=given)
