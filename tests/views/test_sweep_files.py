"""A sweep that is written out: the same rows, whole or not at all."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import roofline as rl
from roofline.views.sweep import Written, points, writing

ASKED: dict[str, Any] = {
    "models": ["llama-3.1-8b", "gpt-2"], "hardware": "h100", "engine": ["ideal", "vllm"], "batch": [1, 8, 64],
    "prompt_tokens": [100, 5000], "output_tokens": [1, 16],
}  # fmt: skip
NAMES = ("rows.parquet", "rows.csv", "rows/", "rows.parquet/", "rows")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("limit", [4, 98_304])
def test_what_is_read_back_is_what_stays_in_memory(
    name: str, limit: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(points, "BLOCK_POINTS", limit)
    whole = rl.sweep(**ASKED)
    done = rl.sweep(**ASKED, out=f"{tmp_path}/{name}")
    assert isinstance(done, Written)
    assert (done.n_rows, done.path) == (len(whole), tmp_path / name.rstrip("/"))
    pd.testing.assert_frame_equal(done.to_frame(), whole, check_exact=True)
    assert [p.name for p in tmp_path.iterdir()] == [name.rstrip("/")]
    assert f"{len(whole)} rows × {whole.shape[1]} columns" in repr(done)


def test_others_read_the_files_too(tmp_path: Path) -> None:
    """Words are strings to whoever knows nothing of this library; a missing word and a missing number are empty."""
    whole = rl.sweep(**ASKED)
    parquet = pd.read_parquet(rl.sweep(**ASKED, out=tmp_path / "rows.parquet").path)
    csv = pd.read_csv(rl.sweep(**ASKED, out=tmp_path / "rows.csv").path)
    for frame in (parquet, csv):
        assert list(frame.columns) == list(whole.columns)
        assert frame.model.astype(str).tolist() == whole.model.astype(str).tolist()
        assert frame.tpot_s.isna().tolist() == (whole.output_tokens == 1).tolist()
        assert frame.tpot_bound.isna().tolist() == frame.tpot_s.isna().tolist()
    assert "e+" not in (tmp_path / "rows.csv").read_text(encoding="utf-8").splitlines()[1].split(",tp1,")[0]


def test_part_files_sort_by_name_as_their_rows_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(points, "BLOCK_POINTS", 4)
    batch, contexts = range(1, 26), range(20)
    done = rl.sweep(models="llama-3.1-8b", hardware="h100", batch=batch, context_tokens=contexts, out=tmp_path / "rows")
    files = sorted(done.path.iterdir())
    assert [p.name for p in files] == [f"part-{i:06d}.parquet" for i in range(len(files))]
    assert len(files) == 13  # 25 · 20 rows in blocks of 4, 10 blocks a file
    parts = [pq.read_table(p) for p in files]
    assert [row for part in parts for row in part["batch"].to_pylist()] == np.repeat(np.arange(1, 26), 20).tolist()


def test_words_are_dictionaries_and_floats_are_not(tmp_path: Path) -> None:
    path = rl.sweep(
        models="llama-3.1-8b", hardware="h100", context_tokens=range(1000), out=tmp_path / "rows.parquet"
    ).path
    about = pq.read_metadata(path).row_group(0)
    encodings = {about.column(i).path_in_schema: about.column(i).encodings for i in range(about.num_columns)}
    assert "RLE_DICTIONARY" in encodings["model"]
    assert "BYTE_STREAM_SPLIT" in encodings["tpot_s"]
    assert "RLE_DICTIONARY" not in encodings["tpot_s"]


def test_a_sweep_again_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    for name in NAMES[:3]:
        for context in (1, 2):
            done = rl.sweep(models="llama-3.1-8b", hardware="h100", context_tokens=context, out=f"{tmp_path}/{name}")
            assert done.to_frame().context_tokens.tolist() == [context]


class Interrupted(Exception):
    """Not one of ours."""


@pytest.mark.parametrize("name", NAMES[:3])
@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("reason", [KeyboardInterrupt, Interrupted, rl.SpecError])
def test_what_is_broken_off_leaves_no_trace_and_harms_nothing(
    name: str, before: bool, reason: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {
        "models": "llama-3.1-8b",
        "hardware": "h100",
        "batch": range(1, 9),
        "context_tokens": range(50),
    }
    path = f"{tmp_path}/{name}"
    kept = rl.sweep(models="llama-3.1-8b", hardware="h100", context_tokens=7, out=path).to_frame() if before else None
    monkeypatch.setattr(points, "BLOCK_POINTS", 5)
    calls: list[Any] = []

    def breaking(*given: Any) -> Any:
        calls.append(given)
        if len(calls) == 3:
            raise reason("enough")
        return points.evaluate(*given)

    monkeypatch.setattr(writing, "evaluate", breaking)
    with pytest.raises(KeyboardInterrupt if reason is KeyboardInterrupt else rl.RooflineError) as caught:
        rl.sweep(**asked, out=path)
    if reason is Interrupted:
        assert "llama-3.1-8b on h100-sxm-80gb" in str(caught.value)
        assert "batch" in str(caught.value)
        assert "Interrupted: enough" in str(caught.value)
    assert [p.name for p in tmp_path.iterdir()] == ([name.rstrip("/")] if before else [])
    if kept is not None:
        monkeypatch.undo()
        again = pd.read_csv(path) if name.endswith(".csv") else pd.read_parquet(path)
        assert again.context_tokens.tolist() == [7]


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_a_kill_leaves_nothing_under_the_name(tmp_path: Path) -> None:
    code = (
        "import roofline as rl; rl.sweep(models='llama-3.1-8b', hardware='h100', batch=range(1, 2001), "
        f"context_tokens=range(50_000), out={str(tmp_path / 'rows.parquet')!r})"
    )
    child = subprocess.Popen([sys.executable, "-c", code])
    try:
        deadline = time.monotonic() + 60.0
        while not any(p.stat().st_size > 4 for p in tmp_path.iterdir()):
            assert child.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        child.send_signal(signal.SIGKILL)
    finally:
        child.kill()
        child.wait()
    assert not (tmp_path / "rows.parquet").exists()
    assert [p.name for p in tmp_path.iterdir()] == [f".rows.parquet.{child.pid}.part"]


def test_what_the_system_refuses_is_said_in_words(tmp_path: Path) -> None:
    for end in (".parquet", ".csv", "/"):
        with pytest.raises(rl.SpecError, match=r"cannot be written \(File name too long\)"):
            rl.sweep(models="llama-3.1-8b", hardware="h100", context_tokens=7, out=f"{tmp_path}/{'x' * 247}{end}")
    assert list(tmp_path.iterdir()) == []
