"""`roofline sweep`: a table with its best rows, CSV, JSON, files; lists and ranges; what is left out; interrupts."""

from __future__ import annotations

import csv
import io
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

import roofline as rl
from roofline.views import progress
from roofline.views.cli import run
from roofline.views.cli.lists import wholes

ASKED = ["sweep", "llama-3.1-8b", "h100", "l4", "--batch", "1,64", "--context", "1k:16k:x4"]
FRAME = rl.sweep(models="llama-3.1-8b", hardware=["h100", "l4"], batch=[1, 64], context_tokens=[1024, 4096, 16384])


def answered(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(list(arguments)) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(list(arguments)) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert captured.err.count("\n") == 1
    return captured.err


def test_the_table_says_what_is_the_same_once_and_the_best_of_what_fits(capsys: pytest.CaptureFixture[str]) -> None:
    """64 contexts of 16,384 tokens are 128 GiB, more than either chip has; of 4,096, 32 GiB, more than an L4."""
    lines = answered(capsys, *ASKED).splitlines()
    assert lines[0] == "llama-3.1-8b, tp1, ideal, bf16 weights, bf16 KV, 12 rows"
    assert lines[3].split() == ["chip", "batch", "context", "TPOT", "decode", "tok/s/user", "tok/s/chip", "KV", "fits"]
    rows = [line.split() for line in lines[4:16]]
    assert [row[:3] for row in rows] == [
        [chip, batch, context] for chip in ("h100-sxm-80gb", "l4") for batch in ("1", "64")
        for context in ("1,024", "4,096", "16,384")
    ]  # fmt: skip
    assert [row[-1] for row in rows] == ["yes"] * 5 + ["no"] + ["yes"] * 3 + ["no"] * 3
    assert "8 of 12 rows fit their memory; of those:" in lines
    assert any(line.startswith("Most tokens for a chip: h100-sxm-80gb, batch 64, context 1,024 (") for line in lines)
    assert any(line.startswith("Fastest for a user: h100-sxm-80gb, batch 1, context 1,024 (TPOT ") for line in lines)


def test_csv_and_json_are_the_frame(capsys: pytest.CaptureFixture[str]) -> None:
    frame = pd.read_csv(io.StringIO(answered(capsys, *ASKED, "--csv")))
    pd.testing.assert_frame_equal(frame, FRAME, check_dtype=False, check_categorical=False)
    body = json.loads(answered(capsys, *ASKED, "--json"))
    assert (body["schema"], body["n_rows"], body["left_out"]) == ("roofline/sweep/1", 12, [])
    assert body["columns"] == list(FRAME.columns)
    assert body["rows"] == FRAME.astype(object).to_dict(orient="records")


def test_a_usual_request_is_asked_where_no_tokens_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = json.loads(answered(capsys, "sweep", "llama-3.1-8b", "h100", "--json"))["rows"]
    d = rl.Deployment(model=rl.model("llama-3.1-8b"), hardware=rl.hardware("h100"))
    p = rl.predict(d, prompt_tokens=2048, output_tokens=256)
    assert (row["ttft_s"], row["tpot_s"], row["e2e_s"]) == (p.ttft_s, p.tpot_s, p.e2e_s)


def test_records_are_listed_with_commas(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["sweep", "llama-3.1-8b,qwen3-8b", "h100", "--plans", "tp1,tp2", "--weights", "own,fp8", "--kv", "bf16,fp8",
             "--engine", "vllm,ideal", "--prompt", "9", "--columns", "model,plan,engine,weights,kv,ttft_low_s"]  # fmt: skip
    rows = list(csv.DictReader(io.StringIO(answered(capsys, *asked, "--csv"))))
    assert len(rows) == 2**5
    assert {name: sorted({row[name] for row in rows}) for name in ("plan", "engine", "weights")} == {
        "plan": ["tp1", "tp2"], "engine": ["ideal", "vllm"], "weights": ["bf16", "fp8"],
    }  # fmt: skip
    assert {row["ttft_low_s"] == "" for row in rows if row["engine"] == "ideal"} == {True}
    assert {row["ttft_low_s"] == "" for row in rows if row["engine"] == "vllm"} == {False}
    body = json.loads(answered(capsys, *asked, "--json"))
    assert [row["ttft_low_s"] is None for row in body["rows"]] == [row["engine"] == "ideal" for row in body["rows"]]
    table = answered(capsys, *asked, "--top", "3")
    assert "29 more rows (--top, --csv, or -o rows.parquet)" in table
    assert "of engine ideal: uncalibrated" in table


def test_what_cannot_be_run_is_left_out_and_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*ASKED, "--plans", "tp1,tp3,tp5,tp6,tp7", "--csv"]) == 0
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == 1 + 12
    said = captured.err.splitlines()
    assert said[0].startswith("left out: llama-3.1-8b on h100-sxm-80gb, tp3, ideal, own/own: tp=3: llama-3.1-8b has 32")
    assert (len(said), said[-1]) == (7, "left out: 2 more combinations (--json lists all)")
    message = refused(capsys, *ASKED, "--plans", "tp3")
    assert "nothing of this can be asked; the first of 2 combinations: llama-3.1-8b on h100-sxm-80gb, tp3" in message


def test_nothing_fits_and_too_long_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    said = answered(capsys, "sweep", "gpt-2", "l4", "--batch", "1M", "--context", "1024,1025")
    assert "None of these fits its memory." in said
    assert "note: 1 of 2 longer than their model is made for" in said


@pytest.mark.parametrize("name", ["rows.parquet", "rows.csv", "rows", "rows.parquet/"])
def test_rows_are_written_to_a_file(name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / name.rstrip("/")
    said = answered(capsys, *ASKED, "-o", f"{tmp_path}/{name}")
    assert said == f"wrote 12 rows × 18 columns to {path}\n"
    frame = pd.read_csv(path) if name.endswith(".csv") else pd.read_parquet(path)
    assert frame.tpot_s.tolist() == pytest.approx(FRAME.tpot_s.tolist(), rel=1e-14)
    body = json.loads(answered(capsys, *ASKED, "-o", f"{tmp_path}/{name}", "--json"))
    assert (body["path"], body["n_rows"]) == (str(path), 12)


def test_two_processes_give_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert answered(capsys, *ASKED, "--csv", "--jobs", "2") == answered(capsys, *ASKED, "--csv")


@pytest.mark.parametrize(
    ("arguments", "needles"),
    [
        (["--batch", "2,048"], ("--batch", "write 2048, not 2,048")),
        (["--batch", "1:8"], ("--batch", "from:to:step or from:to:xFACTOR", "'1:8'")),
        (["--batch", "8:1:1"], ("--batch", "up to a larger one")),
        (["--batch", "1:8:x1"], ("--batch", "expected 2 to")),
        (["--context", "0:8:x2"], ("--context", "up to a larger one")),
        (["--batch", "1:100000000:1"], ("--batch", "at most 10,000,000 values")),
        (["--batch", "1,1"], ("sweep(batch)", "2 times")),
        (["--batch", "0"], ("--batch", "expected 1 to")),
        (["--batch", "eight"], ("--batch", "a whole number such as")),
        (["--columns", "tpot"], ("no column named 'tpot'", "did you mean tpot_s")),
        (["--columns", ","], ("--columns: expected at least one name",)),
        (["--output", "5"], ("sweep(output_tokens)", "say prompt_tokens")),
        (["--engine", "vlm"], ("no engine named", "vllm")),
        (["--weights", "fp9"], ("no number format", "fp8")),
        (["--plans", "tq2"], ("--plans: expected layouts such as",)),
        (["--top", "0"], ("--top",)),
        (["--jobs", "1000"], ("--jobs: expected 1 to 256",)),
        (["--json", "--csv"], ("--json and --csv: expected one of them",)),
        (["-o", "rows.json"], ("expected a file ending in .parquet, .csv",)),
        (["-o", "no/such/rows.csv"], ("there is no folder",)),
        (["--batch", "1:1000000:1", "--context", "1:100000:1"], ("100,000,000,000", "GiB", 'out="sweep.parquet/"')),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    arguments: list[str], needles: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    message = refused(
        capsys, "sweep", "llama-3.1-8b", "h100", *([] if "--context" in arguments else ["-c", "5"]), *arguments
    )
    for needle in needles:
        assert needle in message


def test_ranges_have_both_ends() -> None:
    assert wholes("1k:128k:x2", name="--context") == [1024 * 2**i for i in range(8)]
    assert wholes("1:10:x3, 5:15:5", name="--batch") == [1, 3, 9, 5, 10, 15]
    assert wholes("7:7:1", name="--batch") == [7]


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("more", [["-o", "rows.parquet"], ["-o", "rows"], ["-o", "rows", "--jobs", "2"]])
def test_an_interrupt_ends_with_130_and_leaves_no_file(more: list[str], tmp_path: Path) -> None:
    asked = [
        sys.executable,
        "-m",
        "roofline",
        "sweep",
        "llama-3.1-8b",
        "h100",
        "-b",
        "1:2000:1",
        "-c",
        "1:50000:1",
        *more,
    ]
    child = subprocess.Popen(asked, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 60.0
        while not any(p.stat().st_size > 4 for p in tmp_path.rglob("*") if p.is_file()):
            assert child.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        child.send_signal(signal.SIGINT)
        _, said = child.communicate(timeout=60.0)
    finally:
        child.kill()
    assert (child.returncode, said) == (130, "")
    assert list(tmp_path.iterdir()) == []


class Terminal(io.StringIO):
    """An output that people look at."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("wait_s", "shows"), [(0.0, True), (1000.0, False)])
def test_a_bar_is_shown_to_who_waits(wait_s: float, shows: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress.progress(10, wait_s=wait_s) as step:
        assert step is not None
        step("llama on h100", 5)
    assert ("llama on h100" in terminal.getvalue()) is shows
    assert bool(terminal.getvalue()) is shows


def test_nobody_who_looks_sees_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with progress.progress(10) as step:
        assert step is None
