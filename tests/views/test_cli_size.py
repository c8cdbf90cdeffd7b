"""`roofline size` on the command line: tables, JSON, jobs, exit codes and bad input."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest

from roofline.views.cli import run

ASKED = ["size", "llama-3.1-8b", "h100", "l4", "--prompt", "1024", "--output", "128", "--rate", "20", "--plans", "tp1,tp2",
         "--slo", "ttft_p95=1s,tpot_p95=50ms", "--simulate", "0"]  # fmt: skip


def test_the_cheapest_come_first_and_what_was_dropped_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(ASKED) == 0
    said = capsys.readouterr().out
    assert "20 requests/s within TTFT p95 ≤ 1 s, TPOT p95 ≤ 50.0 ms" in said
    words = [line.split()[-3] for line in said.splitlines() if re.match(r"[0-9]+\. ", line)]
    usd = [float(word) for word in words if word != "–"]
    assert usd == sorted(usd)
    assert words == [word for word in words if word != "–"] + ["–"] * words.count(
        "–"
    )  # those without a price come last
    assert len(usd) > 2
    assert "The cheapest that keeps it" in said
    assert "l4: tpot_p95_s of an almost idle replica" in said


def test_json_is_one_flat_object_and_csv_its_rows(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*ASKED, "--json"]) == 0
    body = json.loads(capsys.readouterr().out)
    assert body["schema"] == "roofline/size/1"
    assert (body["rate_per_s"], body["slo_tpot_p95_s"], body["prompt_tokens"]) == (20.0, 0.05, 1024.0)
    assert {"hardware", "n_replicas", "usd_per_mtok", "ttft_p95_s", "headroom", "bound"} <= body["choices"][0].keys()
    assert body["dropped"][0]["why"]
    assert run([*ASKED, "--csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["hardware"] for row in rows] == [choice["hardware"] for choice in body["choices"]]


def test_nothing_keeps_an_objective_of_a_microsecond(capsys: pytest.CaptureFixture[str]) -> None:
    """An answer, and exit code 4 only where it is asked for."""
    asked = [*ASKED[:-4], "--slo", "tpot_p95=1us", "--simulate", "0"]
    assert run(asked) == 0
    assert "Nothing that was tried keeps this" in capsys.readouterr().out
    assert run([*asked, "--check"]) == 4


def test_a_job_says_when_it_is_done_and_for_how_much(capsys: pytest.CaptureFixture[str]) -> None:
    job = ["size", "llama-3.1-8b", "h100", "--prompt", "1024", "--output", "128", "--plans", "tp1", "--job", "1M"]
    assert run([*job, "--json"]) == 0
    (one,) = json.loads(capsys.readouterr().out)["jobs"]
    assert one["n_requests"] == 1_000_000
    assert one["seconds"] * one["requests_per_s"] == pytest.approx(1e6)
    assert run([*job, "--deadline", f"{one['seconds'] / 2.5:.0f}s", "--json"]) == 0
    (two,) = json.loads(capsys.readouterr().out)["jobs"]
    assert two["n_replicas"] == 3
    assert run([*job, "--deadline", "2h"]) == 0
    assert "The cheapest" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (["--rate", "0"], "--rate"),
        (["--rate", "nan"], "--rate"),
        (["--rate", "1,2"], "one rate"),
        (["--slo", "ttft=1s"], "ttft_p95"),
        (["--slo", "tpot_p95=-1s"], "tpot_p95"),
        (["--plans", "x4"], "--plans"),
        (["--plans", "tp0"], "tp"),
        (["--price", "cheap"], "low or high"),
        (["--chunk", "0"], "--chunk"),
        (["--workload", "azure-talk"], "azure-co"),
        (["--engine", "vlm"], "vllm"),
        (["--deadline", "2h"], "--job"),
        (["--job", "many"], "--job"),
        (["--job", "100", "--deadline", "soon"], "--deadline"),
        (["--json", "--csv"], "one of them"),
    ],
)
def test_bad_input_is_said_in_words(changes: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    asked = list(ASKED)
    if "--workload" in changes:
        asked = [word for word in ASKED if word not in ("--prompt", "1024", "--output", "128")]
    assert run([*asked, *changes]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert said in err
    assert "Traceback" not in err


def test_a_trace_of_the_wrong_columns_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "wrong.csv"
    path.write_text("when,what\n1,2\n", encoding="utf-8")
    asked = [word for word in ASKED if word not in ("--prompt", "1024", "--output", "128")]
    assert run([*asked, "--workload", str(path)]) == 2
    assert "wrong.csv" in capsys.readouterr().err


def test_without_a_promise_or_a_rate_it_says_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["size", "llama-3.1-8b", "h100"]) == 2
    assert "missing --slo" in capsys.readouterr().err
    assert run(["size", "llama-3.1-8b", "h100", "--slo", "ttft_p95=1s"]) == 2
    assert "missing --rate" in capsys.readouterr().err
