"""`roofline compare`, `roofline calibrate` and `--efficiency`: one's own numbers on the command line."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from roofline.evidence.calibration import shipped
from roofline.views.cli import calibrate as command
from roofline.views.cli import run

FILES = Path(__file__).parent.parent / "evidence" / "readers" / "files"
MINE = str(FILES / "my-runs.csv")
WHAT = ("llama-3.1-8b", "h100")


def _refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(list(arguments)) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert captured.err.count("\n") == 1
    assert "Traceback" not in captured.err
    return captured.err


def test_compare_shows_measured_beside_predicted(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", MINE, *WHAT]) == 0
    out = capsys.readouterr().out
    for said in ("measured", "predicted", "80% interval", "26.1 ms", "engine vllm", "made to hold 80%", "is the floor"):
        assert said in out


def test_compare_in_json_is_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", str(FILES / "vllm-bench-appended.json"), *WHAT, "--json"]) == 0
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    body = json.loads(out)
    assert body["schema"] == "roofline/compare/1"
    assert len(body["rows"]) == 12
    assert sum(row["predicted"] is not None for row in body["rows"]) == 4


def test_compare_says_what_it_did_not_compare(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", str(FILES / "vllm-bench-appended.json"), *WHAT]) == 0
    out = capsys.readouterr().out
    assert "line 2: not compared: 16 users at once: needs the load model" in out
    assert "not used: date" in out


def test_compare_reads_logs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", str(FILES / "vllm.log"), *WHAT]) == 0
    out = capsys.readouterr().out
    assert "KV tokens" in out
    assert "447,280" in out


def test_compare_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "mine.svg"
    assert run(["compare", MINE, *WHAT, "--plot", str(target)]) == 0
    assert "<svg" in target.read_text(encoding="utf-8")
    assert f"wrote {target}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("compare", MINE, "qwen3-8b", "h100"), "model"),
        (("compare", MINE, "llama-3.1-8b", "h200"), "hardware"),
        (("compare", MINE, *WHAT, "--tp", "2", "--engine", "sglang"), "engine"),
        (("compare", "no-such-file.csv", *WHAT), "no-such-file.csv"),
        (("compare", str(FILES / "llama-bench.json"), "qwen3-8b", "m5-max"), "add --weights q4_k_m"),
        (("compare", MINE, *WHAT, "--draft", "ngram:4:0.5"), "--draft"),
        (("compare", MINE, *WHAT, "--prefix-hit", "0.5"), "--prefix-hit"),
        (("compare", MINE, *WHAT, "--efficiency", "no-such.yaml"), "no-such.yaml"),
        (("calibrate", MINE, "llama-3.1-8b"), "FILE... MODEL HARDWARE"),
        (("calibrate", MINE, *WHAT), "-o mine.yaml"),
        (("calibrate", "--shipped", MINE, *WHAT), "--shipped"),
        (("calibrate", str(FILES / "vllm.log"), *WHAT, "-o", "never.yaml"), "holds no times"),
        (("calibrate", MINE, *WHAT, "-o", "never.yaml", "--engine", "ideal"), "nothing to fit"),
        (("calibrate", MINE, *WHAT, "-o", "no/such/folder/never.yaml"), "cannot be written"),
        (("predict", *WHAT, "--efficiency", MINE), MINE),
    ],
)
def test_bad_input_is_one_sentence(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str) -> None:
    assert said in _refused(capsys, *arguments)


def test_calibrate_writes_what_efficiency_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "mine.yaml"
    assert run(["calibrate", MINE, *WHAT, "-o", str(target)]) == 0
    out = capsys.readouterr().out
    assert "calibrated: 6 figures of 3 runs in my-runs.csv" in out
    assert f"--efficiency {target}" in out
    assert "there already" in _refused(capsys, "calibrate", MINE, *WHAT, "-o", str(target))
    assert run(["calibrate", MINE, *WHAT, "-o", str(target), "--force"]) == 0
    capsys.readouterr()
    asked = ["predict", *WHAT, "--prompt", "1024", "--output", "128", "--batch", "8", "--json"]
    bodies = []
    for more in ([], ["--efficiency", str(target)]):
        assert run([*asked, *more]) == 0
        bodies.append(json.loads(capsys.readouterr().out))
    assert [body["engine"] for body in bodies] == ["ideal", "vllm"]
    assert bodies[1]["evidence"].startswith("calibrated: 6 figures")
    assert bodies[1]["ttft_s"] > bodies[0]["ttft_s"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("explain", *WHAT), ("memory", *WHAT), ("levers", *WHAT),
            ("cost", *WHAT, "--price", "2.50@2026-11-09", "--utilisation", "0.6"),
        ("compare", MINE, *WHAT), ("predict", *WHAT),
    ],
)  # fmt: skip
def test_every_command_with_an_engine_takes_an_efficiency(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("engine: vllm\nefficiency: {compute: 0.5, memory: 0.5}\n", encoding="utf-8")
    assert run([*arguments, "--efficiency", str(path)]) == 0, capsys.readouterr().err


def test_calibrate_in_json_needs_no_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["calibrate", MINE, *WHAT, "--json"]) == 0
    body = json.loads(capsys.readouterr().out)
    assert body["schema"] == "roofline/calibrate/1"
    assert body["wrote"] is None
    assert body["error_after"] < body["error_before"]


def test_shipped_refits_the_package(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(command, "write", lambda step: (shipped.EFFICIENCIES, shipped.FOLDS))
    assert run(["calibrate", "--shipped"]) == 0
    assert capsys.readouterr().out.count("wrote ") == 2


def test_shipped_says_where_it_cannot_write(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert "cannot be written" in _refused(capsys, "calibrate", "--shipped")
