"""`roofline serve-at` and `roofline plot load`: what they answer, refuse, and how they leave."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path
from typing import Any

import pytest

import roofline as rl
from roofline.views.cli import run
from roofline.views.cli.load import load_of, rates_of

pytestmark = pytest.mark.usefixtures("tidy_pictures")

CHAT = ["serve-at", "llama-3.1-8b", "h100", "--engine", "vllm", "--prompt", "1024", "--output", "128"]
FEW = ["--requests", "150", "--runs", "2"]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """A trace in bursts: twenty requests at once, then ten seconds of nothing, ten times over."""
    rows = [f"{10.0 * burst + 0.001 * i},{200 + 10 * i},{20 + i}" for burst in range(10) for i in range(20)]
    path = tmp_path / "bursts.csv"
    path.write_text("\n".join(["arrival_s,prompt_tokens,output_tokens", *rows]), encoding="utf-8")
    return path


def said(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert run(list(arguments)) == code
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def body(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict[str, Any]:
    out = said(capsys, *arguments, "--json", code=code)
    assert out.count("\n") == 1
    found = json.loads(out, parse_constant=lambda word: pytest.fail(f"{word} in JSON"))
    assert isinstance(found, dict)
    return found


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(list(arguments)) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert captured.err.count("\n") == 1
    assert "this is a bug" not in captured.err
    return captured.err


# Text


def test_one_rate_says_times_load_limit_and_knee(capsys: pytest.CaptureFixture[str]) -> None:
    out = said(capsys, *CHAT, "--rate", "4")
    most = rl.serve(
        rl.Deployment(model=rl.model("llama-3.1-8b"), hardware=rl.hardware("h100"), engine="vllm"),
        rl.Workload.fixed(prompt_tokens=1024, output_tokens=128), rate_per_s=4.0,
    ).saturation_per_s  # fmt: skip
    for word in (
        "4 requests/s", "1,024 in / 128 out, Poisson arrivals", "TTFT", "TPOT", "Gap between tokens", "Whole request",
        f"{100 * 4 / most:.0f} % of the {most:.3g} requests/s", "sequences decode at once", "closed form", "The knee is at",
        "8,192 tokens a step, 1,024 sequences", "It saturates at", "measured",
    ):  # fmt: skip
        assert word in out, word
    assert "±" not in out


def test_simulated_times_have_their_errors(capsys: pytest.CaptureFixture[str]) -> None:
    out = said(capsys, *CHAT, "--rate", "4", "--method", "simulation", *FEW)
    assert out.count(" ± ") >= 10
    assert "simulation, 2 runs; ± is one standard error" in out
    assert "±" not in said(capsys, *CHAT, "--rate", "4", "--method", "simulation", "--requests", "100", "--runs", "1")


def test_several_rates_are_a_table_however_they_are_given(capsys: pytest.CaptureFixture[str]) -> None:
    out = said(capsys, *CHAT, "--rate", "1,2", "--rate", "4")
    rows = [line.split()[0] for line in out.splitlines() if line[:1].isdigit()]
    assert rows == ["1/s", "2/s", "4/s"]


def test_a_rate_beyond_saturation_is_an_answer(capsys: pytest.CaptureFixture[str]) -> None:
    out = said(capsys, *CHAT, "--rate", "100")
    assert "At 100 requests/s the queue grows for ever: it saturates at 28.6/s." in out
    assert "4 replicas would be loaded to 88 %." in out  # 100 / (4 · 28.55)
    assert "∞" in out
    found = body(capsys, *CHAT, "--rate", "100", "--check", code=4)
    assert (found["stable"], found["ttft_p95_s"]) == (False, None)


def test_what_does_not_fit_is_an_answer(capsys: pytest.CaptureFixture[str]) -> None:
    out = said(capsys, "serve-at", "llama-3.1-70b", "h100", "--rate", "1")
    assert "No such request fits on 1 × h100-sxm-80gb" in out
    assert body(capsys, "serve-at", "llama-3.1-70b", "h100", "--rate", "1", "--check", code=4)["fits"] is False


def test_a_promise_is_ok_or_missed_by_so_much(capsys: pytest.CaptureFixture[str]) -> None:
    out = said(capsys, *CHAT, "--rate", "4", "--slo", "ttft_p95=1s,tpot_p95=5ms", "--check", code=4)
    tpot = float(body(capsys, *CHAT, "--rate", "4")["tpot_p95_s"])
    assert "p95 ≤ 1 s OK" in out
    assert f"p95 ≤ 5.00 ms MISS by {100 * (tpot / 0.005 - 1):.0f} %" in out
    assert "The SLO is missed at any rate." in out  # one sequence alone takes longer
    assert said(capsys, *CHAT, "--rate", "4", "--slo", "tpot_p95=15ms", "--check").count("MISS") == 0


def test_the_highest_rate_is_told_and_meets_the_promise(capsys: pytest.CaptureFixture[str]) -> None:
    found = body(capsys, *CHAT, "--rate", "4", "--slo", "tpot_p95=15ms")
    assert (found["slo_tpot_p95_s"], found["meets"], found["highest_rate_method"]) == (0.015, True, "closed form")
    out = said(capsys, *CHAT, "--rate", "4", "--slo", "tpot_p95=15ms")
    assert f"The SLO is kept up to {found['highest_rate_per_s']:.3g}/s (closed form)." in out
    at = body(capsys, *CHAT, "--rate", f"{0.99 * found['highest_rate_per_s']}", "--slo", "tpot_p95=15ms")
    assert at["meets"] is True


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (["--chunk", "512"], "where its steps are full: 512 tokens take"),
        (["--max-seqs", "4", *FEW], "where all 4 sequences are taken (--max-seqs); with room for more, at"),
    ],
)
def test_what_is_full_first_is_said(capsys: pytest.CaptureFixture[str], more: list[str], sentence: str) -> None:
    assert sentence in said(capsys, *CHAT, "--rate", "1", *more)


def test_batch_tokens_is_another_name_of_chunk(capsys: pytest.CaptureFixture[str]) -> None:
    assert body(capsys, *CHAT, "--rate", "2", "--batch-tokens", "512") == body(
        capsys, *CHAT, "--rate", "2", "--chunk", "512"
    )


# Traces


def test_a_trace_is_shown_as_recorded_and_as_poisson(capsys: pytest.CaptureFixture[str], trace: Path) -> None:
    arguments = ["serve-at", "llama-3.1-8b", "h100", "--engine", "vllm", "--workload", str(trace), "--rate", "20"]
    out = said(capsys, *arguments)
    for word in ("TTFT, recorded arrivals", "  Poisson arrivals", "as recorded and not as Poisson arrivals: TTFT p95",
                 "Requests come in bursts (CV² of the gaps", "a mean rate and Poisson do not size this."):  # fmt: skip
        assert word in out
    found = body(capsys, *arguments)
    assert (found["method"], found["arrivals"], found["n_runs"]) == ("simulation", "trace", 1)
    assert found["ttft_p95_s"] > found["poisson_ttft_p95_s"]
    # means of 200, 210 … 390 and of 20 … 39
    assert (found["prompt_tokens"], found["output_tokens"]) == (295.0, 29.5)
    table = said(capsys, *arguments[:-1], "10,20")
    assert table.count("recorded  ") == table.count("Poisson  ") == 2


def test_a_trace_may_be_taken_for_its_lengths_alone(capsys: pytest.CaptureFixture[str], trace: Path) -> None:
    arguments = ["serve-at", "llama-3.1-8b", "h100", "--workload", str(trace), "--rate", "5", "--arrivals", "poisson"]
    assert "recorded" not in said(capsys, *arguments)
    assert body(capsys, *arguments)["method"] == "closed form"


def test_bursts_lower_the_highest_rate(capsys: pytest.CaptureFixture[str], trace: Path) -> None:
    arguments = ["serve-at", "llama-3.1-8b", "h100", "--engine", "vllm", "--workload", str(trace), "--rate", "5"]
    found = body(capsys, *arguments, "--slo", "ttft_p95=150ms")
    assert found["highest_rate_method"] == "simulation"
    assert found["highest_rate_per_s"] < found["poisson_highest_rate_per_s"]


# Programs


def test_json_is_flat_and_complete(capsys: pytest.CaptureFixture[str]) -> None:
    found = body(capsys, *CHAT, "--rate", "4", "--replicas", "2", "--routing", "round-robin")
    assert found["schema"] == "roofline/serve-at/1"
    for key in ("model", "hardware", "engine", "evidence", "n_replicas", "routing", "rate_per_s", "saturation_per_s", "load",
                "stable", "fits", "method", "why", "ttft_mean_s", "ttft_p50_s", "ttft_p95_s", "ttft_p99_s", "tpot_p95_s",
                "itl_p99_s", "e2e_mean_s", "n_seq", "kv_use", "output_tokens_per_s", "limit", "knee_per_s",
                "prompt_tokens", "output_tokens", "arrivals", "workload"):  # fmt: skip
        assert key in found
    assert not any(isinstance(value, dict) for value in found.values())
    assert found["load"] == pytest.approx(4.0 / found["saturation_per_s"])
    assert found["output_tokens_per_s"] == pytest.approx(4.0 * 128)


def test_several_rates_are_several_answers(capsys: pytest.CaptureFixture[str]) -> None:
    found = body(capsys, *CHAT, "--rate", "1,1000")
    assert [a["stable"] for a in found["answers"]] == [True, False]


def test_csv_has_a_row_a_rate_and_the_keys_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    rows = list(csv.DictReader(io.StringIO(said(capsys, *CHAT, "--rate", "1,4,1000", "--csv"))))
    assert [float(row["rate_per_s"]) for row in rows] == [1.0, 4.0, 1000.0]
    one = body(capsys, *CHAT, "--rate", "4")
    assert float(rows[1]["ttft_p95_s"]) == one["ttft_p95_s"]
    assert rows[2]["ttft_p95_s"] == ""
    assert set(rows[0]) == set(one) - {"schema", "version", "notes"}


def test_a_spread_of_lengths_is_lognormal(capsys: pytest.CaptureFixture[str]) -> None:
    alike, spread = body(capsys, *CHAT, "--rate", "4"), body(capsys, *CHAT, "--rate", "4", "--cv", "1")
    assert spread["prompt_tokens"] == pytest.approx(1024, rel=0.02)
    assert spread["ttft_p99_s"] > alike["ttft_p99_s"]
    assert body(capsys, *CHAT, "--rate", "4", "--cv", "0")["ttft_p99_s"] == alike["ttft_p99_s"]


# What makes no sense


@pytest.mark.parametrize(
    ("more", "needle"),
    [
        ([], "missing --rate"),
        (["--rate", "0"], "--rate: expected requests a second above 0, got 0"),
        (["--rate", "-1"], "--rate: expected requests a second above 0, got -1"),
        (["--rate", "nan"], "got nan"),
        (["--rate", "inf"], "got inf"),
        (["--rate", "1e300"], "--rate: expected"),
        (["--rate", "fast"], "--rate: expected a number, got 'fast'"),
        (["--rate", ""], "--rate: expected a number, got ''"),
        (["--rate", ",".join(["1"] * 65)], "at most 64 rates, got 65"),
        (["--rate", "1", "--workload", "azure-cnv"], "did you mean azure-conv"),
        (["--rate", "1", "--workload", "/nowhere/x.csv"], "/nowhere/x.csv: No such file"),
        (
            ["--rate", "1", "--workload", "azure-conv", "--cv", "1"],
            "--workload: has lengths of its own; leave --cv out",
        ),
        (["--rate", "1", "--arrivals", "trace"], "--arrivals trace: these requests have no times"),
        (["--rate", "1", "--arrivals", "gama:2"], "did you mean gamma?"),
        (["--rate", "1", "--arrivals", "gamma"], "--arrivals: expected trace, poisson or gamma:SCV"),
        (["--rate", "1", "--arrivals", "gamma:0"], "--arrivals gamma: expected a squared coefficient"),
        (["--rate", "1", "--arrivals", "gamma:nan"], "--arrivals gamma: expected a squared coefficient"),
        (["--rate", "1", "--cv", "nan"], "--cv: expected 0 to 100"),
        (["--rate", "1", "--cv", "-1"], "--cv: expected 0 to 100"),
        (["--rate", "1", "--cv", "x"], "--cv: expected a number"),
        (["--rate", "1", "--slo", "ttft=1s"], "did you mean ttft_p"),
        (["--rate", "1", "--slo", "ttft_p95=1"], "without a unit"),
        (["--rate", "1", "--slo", "ttft_p95=0s"], "--slo: ttft_p95: expected a time"),
        (["--rate", "1", "--slo", "ttft_p95=1s,ttft_p95=2s"], "twice"),
        (["--rate", "1", "--slo", ""], "--slo: expected limits such as"),
        (["--rate", "1", "--method", "quick"], "--method: expected auto, closed-form, simulation"),
        (["--rate", "1", "--routing", "best"], "routing"),
        (["--rate", "1", "--replicas", "0"], "--replicas: expected 1"),
        (["--rate", "1", "--runs", "0"], "--runs: expected 1"),
        (["--rate", "1", "--requests", "3"], "--requests: expected 20"),
        (["--rate", "1", "--seed", "-1"], "--seed"),
        (["--rate", "1", "--json", "--csv"], "--json and --csv: expected one of them"),
        (["--rate", "1", "--draft", "ngram:4:0.5"], "--draft: load is not answered with it"),
        (["--rate", "1", "--prefix-hit", "0.5"], "--prefix-hit: load is not answered with it"),
        (["--rate", "1", "--shared", "100"], "--shared: load is not answered with it"),
        (["--rate", "1", "--output", "0"], "--output: expected at least 1 token"),
        (["--rate", "1", "--tp", "3"], "tp=3"),
        (["--rate", "1", "--offload", "host:0.5"], "not simulated under load"),
    ],
)
def test_what_makes_no_sense_is_refused(capsys: pytest.CaptureFixture[str], more: list[str], needle: str) -> None:
    assert needle in refused(capsys, "serve-at", "llama-3.1-8b", "h100", *more)


@pytest.mark.parametrize(
    ("text", "needle"),
    [
        ("a,b\n1,2\n", "expected a column named one of prompt_tokens"),
        ("prompt_tokens,output_tokens\n1,x\n", "line 2"),
        ("prompt_tokens,output_tokens\n0,5\n", "expected a whole number from 1"),
        ("arrival_s,prompt_tokens,output_tokens\n5,10,5\n1,10,5\n", "earlier than the request before"),
        ("", "no requests in it"),
        ("prompt_tokens,output_tokens\n", "no requests in it"),
    ],
)
def test_a_bad_trace_is_refused_by_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, needle: str
) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text, encoding="utf-8")
    message = refused(capsys, "serve-at", "llama-3.1-8b", "h100", "--rate", "1", "--workload", str(path))
    assert needle in message
    assert "bad.csv" in message


def test_an_encoder_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert "no decoder of text" in refused(capsys, "serve-at", "whisper-large-v3", "h100", "--rate", "1")


def test_rates_are_numbers() -> None:
    assert rates_of(["1,2.5", "3e1"]) == [1.0, 2.5, 30.0]
    assert all(math.isfinite(r) for r in rates_of(["0.001"]))


def test_what_is_left_out_of_a_load_is_usual_for_the_model() -> None:
    load = load_of(rl.model("gpt-2"), workload=None, prompt=None, output=None, cv=None, arrivals=None)
    assert (load.workload.mean_prompt_tokens, load.workload.mean_output_tokens) == (512.0, 256.0)
    assert load.said == "512 in / 256 out, Poisson arrivals"


# The picture


def test_plot_load_writes_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "load.svg"
    arguments = ["plot", "load", *CHAT[1:], "--slo", "ttft_p95=200ms", "--simulate", "3", *FEW, "--out", str(out)]
    assert said(capsys, *arguments) == f"wrote {out}\n"
    text = out.read_text(encoding="utf-8")
    assert "p95 TTFT meets 200 ms up to" in text
    assert "3 points are simulated" in text


@pytest.mark.parametrize(
    ("more", "needle"),
    [
        (["--out", "/nowhere/x.svg"], "there is no folder"),
        (["--out", "x.exe"], "expected a file ending in"),
        (["--theme", "drak"], "theme: expected light or dark"),
        (["--lang", "fr"], "lang: expected en or zh, got 'fr'"),
        (["--slo", "soon"], "--slo: expected limits"),
        (["--simulate", "33"], "--simulate: expected 0 to 32"),
        (["--workload", "azure"], "no workload named"),
        (["h200"], "plot load: draws one chip"),
    ],
)
def test_a_picture_that_cannot_be_made_is_refused_before_anything_is_simulated(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, more: list[str], needle: str
) -> None:
    monkeypatch.setattr("roofline.views.cli.plotted.serve", lambda *_, **__: pytest.fail("simulated"))
    assert needle in refused(capsys, "plot", "load", "llama-3.1-8b", "h100", *more)
