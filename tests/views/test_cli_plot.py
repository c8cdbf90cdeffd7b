"""`roofline plot`: a word a picture, options only where they mean something, and what is refused before any work."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import pytest

from roofline.views.cli import run
from roofline.views.cli.plot import KINDS

matplotlib.use("Agg")

pytestmark = pytest.mark.usefixtures("tidy_pictures")
LLAMA = ("llama-3.1-8b", "h100")


DRAWN = {
    "roofline": ["--ops", "--tiers", "host,l2=5.5 TB/s", "--engine", "vllm"],
    "latency": ["--slo", "ttft_p95=500ms", "--lang", "zh"],
    "ttft": ["--slo", "ttft_p95=500ms"],
    "tpot": ["--context", "4096", "--batch", "8"],
    "heatmap": ["--slo", "tpot_p95=20ms"],
    "memory": ["h200", "--context", "8k", "--batch", "32", "--engine", "vllm"],
    "kv": ["--batch", "1,8,64", "--kv", "fp8"],
    "breakdown": ["--prompt", "4096", "--theme", "dark"],
    "without-flash": ["--size", "column"],
    "load": ["--simulate", "0", "--prompt", "512", "--output", "64"],
    "pareto": ["--prompt", "512", "--output", "64", "--rate", "2", "--slo", "ttft_p95=2s,tpot_p95=100ms"],
}
FOUND = {
    "roofline": "The engine reaches", "latency": "首 token 时间", "ttft": "TTFT passes 500 ms above",
    "tpot": "context 4,096 is full", "heatmap": "cells of powers of 2", "memory": "weights 15.0 GiB",
    "kv": "Weights: 15.0 GiB", "breakdown": "Prefill takes", "without-flash": "with FlashAttention", "load": "p95 goes from",
    "pareto": "The front:",
}  # fmt: skip


@pytest.mark.usefixtures("chinese_letters")
@pytest.mark.filterwarnings("ignore:Glyph")
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_drawn_into_its_file(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "x.svg"
    assert run(["plot", kind, *LLAMA, *DRAWN[kind], "--out", str(out)]) == 0
    assert capsys.readouterr().out == f"wrote {out}\n"
    assert FOUND[kind] in out.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["heat", *LLAMA], "got 'heat'; did you mean heatmap?"),
        (["latency", *LLAMA, "--ops"], "--ops: plot latency does not show it; leave it out, or plot roofline"),
        (["memory", *LLAMA, "--slo", "ttft_p95=1s"], "--slo: plot memory does not show it"),
        (["ttft", *LLAMA, "--context", "9"], "--context: plot ttft does not show it"),
        (["roofline", *LLAMA, "--workload", "azure-conv"], "--workload: plot roofline does not show it"),
        (["roofline", *LLAMA, "--tiers", "l2"], "gives no bandwidth of its cache"),
        (["roofline", *LLAMA, "--tiers", "l2=fast"], '--tiers: l2: expected a rate such as "4.8 TB/s"'),
        (["breakdown", *LLAMA, "h200"], "plot breakdown: draws one chip"),
        (["pareto", *LLAMA, "--rate", "3"], "plot pareto: expected --rate and --slo"),
        (["pareto", *LLAMA, "--rate", "3", "--slo", "ttft_p95=1s", "--tp", "2"], "tries plans of its own"),
        (["kv", *LLAMA, "--batch", "1,x"], "--batch: expected a whole number"),
        (["heatmap", *LLAMA, "--lang", "fr"], "lang: expected en or zh, got 'fr'"),
        (["kv", "llama", "--out", "x.exe"], "expected a file ending in"),
    ],
)
def test_what_means_nothing_is_refused_in_a_line(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["plot", *arguments]) == 2
    said = capsys.readouterr()
    assert told in said.err
    assert said.err.startswith("error: ")
    assert said.err.count("\n") == 1
    assert said.out == ""
    assert not list(tmp_path.iterdir())
