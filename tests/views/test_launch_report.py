"""The report before a launch: one content in two forms, that says what the numbers say and asks for nothing."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import lru_cache
from html import unescape
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import roofline as rl
from roofline.answers.checklist import Checklist, checklist
from roofline.specs.workload import Requests, Workload
from roofline.views import report
from roofline.views.cli import run
from roofline.views.engine_names import NAMES
from roofline.views.report.launch import command_of, edges
from roofline.views.report.watch import watch_state

WHAT = ("llama-3.1-8b", "h100", "--prompt", "1000", "--output", "200", "--rate", "5")
VOID = {"meta", "br", "hr"}


@lru_cache
def asked(kind: str = "easy") -> Checklist:
    model = "llama-3.1-70b" if kind == "unfit" else "llama-3.1-8b"
    d = rl.Deployment(model=rl.model(model), hardware=rl.hardware("h100-sxm-80gb"), engine="vllm")
    alike = Workload.fixed(prompt_tokens=1000, output_tokens=200)
    w = alike if kind == "alike" else Workload.lognormal(prompt_mean=1000, output_mean=200)
    slo = rl.SLO(ttft_p95_s=1.0, tpot_p95_s=0.001 if kind == "missed" else 0.05)
    return checklist(d, w, rate_per_s=1000.0 if kind == "beyond" else 9.0, slo=slo)


KINDS = ("easy", "alike", "missed", "beyond", "unfit")


class Tags(HTMLParser):
    """Whether tags close in order; what is said between them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.said: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.said.append(data)


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_is_one_file_that_asks_for_nothing(kind: str) -> None:
    text = report.page(report.report_of(asked(kind)))
    tags = Tags(text)
    names = {name for name, _ in tags.attributes}
    assert not names & {"src", "href", "srcset", "onclick", "onload"}
    assert not re.search(r"https?:|//[a-z]|url\(|@import|<script|<link|<img", text)
    assert "default-src 'none'" in text
    assert "prefers-color-scheme:dark" in text
    assert "@media print" in text
    assert 'name="viewport"' in text
    assert len(text) < 60_000


@pytest.mark.parametrize("kind", KINDS)
def test_both_forms_say_the_same(kind: str) -> None:
    content = report.report_of(asked(kind))
    md, html = report.markdown(content), " ".join(Tags(report.page(content)).said)
    plain = unescape(html)
    for section in content.sections:
        assert section.title in md
        assert section.title in plain
    numbers = re.findall(r"\d[\d,.]*", re.sub(r"^#.*$", "", md, flags=re.M))
    assert set(numbers) - set(re.findall(r"\d[\d,.]*", plain)) == set()


@pytest.mark.parametrize("kind", KINDS)
def test_markdown_tables_have_as_many_cells_in_every_row(kind: str) -> None:
    md = report.markdown(report.report_of(asked(kind)))
    for block in re.findall(r"(?:^\|.*\n?)+", md, re.M):
        assert len({line.count("|") for line in block.splitlines()}) == 1, block
    assert md.count("```") % 2 == 0
    assert md.startswith("# Before a launch: ")
    assert not {"nan", "inf", "None"} & set(re.findall(r"[A-Za-z]+", md))


def test_the_verdict_follows_from_the_states() -> None:
    states = {kind: report.report_of(asked(kind)).state for kind in KINDS}
    assert states == {"easy": "READY", "alike": "READY WITH NOTES", "missed": "NOT READY", "beyond": "NOT READY",
                      "unfit": "NOT READY"}  # fmt: skip
    assert "2 of 4 fail" in report.report_of(asked("beyond")).verdict
    assert "the chip (2)" in report.report_of(asked("missed")).verdict


def test_it_says_the_numbers_of_the_answers() -> None:
    c = asked()
    md = report.markdown(report.report_of(c))
    assert c.capacity is not None
    for said in (
        f"{c.capacity.kv_tokens:,.0f}", f"{c.mix.prefill_time_share:.0%}".replace("%", " %"), f"{c.mix.ridge:.0f}",
        "TTFT p95 | ", "kept", "`vllm:time_to_first_token_seconds`", "`--max-num-seqs`", "`--max-running-requests`",
        "`vllm:num_preemptions_total`",
    ):  # fmt: skip
        assert said in md, said
    assert "missed by" in report.markdown(report.report_of(asked("missed")))
    assert "Only one length was given" in report.markdown(report.report_of(asked("alike")))


def test_every_setting_is_in_the_table_and_in_the_command() -> None:
    c = asked()
    md = report.markdown(report.report_of(c))
    for engine, settings in c.settings.items():
        command = command_of(c, engine)
        assert command in md
        for s in settings:
            assert f"{NAMES[engine].flags[s.name]} {s.value}" in command
    assert command_of(c, "vllm").startswith("vllm serve MODEL")
    assert "--enable-metrics" in command_of(c, "sglang")


def test_a_command_carries_plan_and_settings_that_were_given() -> None:
    engine = rl.engine("vllm").varied(max_seqs=128, batch_tokens=2048, memory_fraction=0.85)
    d = rl.Deployment(
        model=rl.model("llama-3.1-70b"),
        hardware=rl.hardware("h100-sxm-80gb"),
        plan=rl.Plan(tp=4),
        engine=engine,
        kv="fp8",
    )
    c = checklist(d, Workload.fixed(prompt_tokens=500, output_tokens=100), rate_per_s=1.0)
    vllm, sglang = (command_of(c, e) for e in ("vllm", "sglang"))
    for flag in ("--tensor-parallel-size 4", "--max-num-seqs 128", "--max-num-batched-tokens 2048",
                 "--gpu-memory-utilization 0.85", "--kv-cache-dtype fp8"):  # fmt: skip
        assert flag in vllm
    assert "--tp-size 4" in sglang
    assert "--kv-cache-dtype fp8_e4m3" in sglang
    assert "128" not in sglang.replace("0.128", "")  # that setting is vLLM's


def test_ranks_of_their_own_all_export_metrics() -> None:
    """SGLang's data-parallel ranks are schedulers of their own, of which only the first exports by itself."""
    plan = rl.Plan(tp=1, dp=8, ep=8)
    d = rl.Deployment(model=rl.model("deepseek-v3"), hardware=rl.hardware("h200"), plan=plan, engine="sglang")
    c = checklist(d, Workload.fixed(prompt_tokens=500, output_tokens=100), rate_per_s=1.0)
    command = command_of(c, "sglang")
    for flag in ("--attn-dp-size 8", "--ep-size 8", "--enable-metrics-for-all-schedulers"):
        assert flag in command
    assert "--enable-expert-parallel \\" in command_of(c, "vllm")
    assert "of each data-parallel rank" in report.markdown(report.report_of(c))


def test_bucket_edges_stand_around_what_is_expected_and_promised() -> None:
    command = command_of(asked(), "vllm")
    found = re.search(r"--custom-histogram-buckets '(\{.*\})'", command)
    assert found
    families = json.loads(found[1])
    assert set(families) == {"time_to_first_token", "inter_token_latency"}
    s = asked().serving
    for family, values in (("time_to_first_token", (1.0, s.ttft_p50_s, s.ttft_p95_s)),
                           ("inter_token_latency", (0.05, s.tpot_p50_s, s.tpot_p95_s, s.itl_p99_s))):  # fmt: skip
        several = families[family]
        assert several == sorted(set(several))
        for value in values:
            assert min(abs(e / float(value) - 1.0) for e in several) < 0.005
            assert min(several) <= float(value) / 1.9
            assert max(several) >= float(value) * 1.9


def test_edges_are_never_too_near() -> None:
    several = edges(0.1, 0.101, 0.25)
    assert {0.1, 0.101, 0.25} <= set(several)
    others = [e for e in several if e not in (0.1, 0.101)]
    assert all(b / a > 1.03 for a, b in pairwise(others))
    assert edges(float("inf")) == []


def test_what_falls_below_the_lowest_bucket_is_a_note() -> None:
    """vLLM counts TPOT from 10 ms on: 5 ms are not told from 0."""
    c = asked()
    fast = replace(c, serving=replace(c.serving, tpot_p50_s=0.005))
    assert (watch_state(c), watch_state(fast)) == ("ok" if float(c.serving.tpot_p50_s) >= 0.01 else "note", "note")
    assert "lowest edge" in report.markdown(report.report_of(fast))


def test_prompts_that_begin_alike_are_served_with_a_prefix_cache() -> None:
    """Every prompt begins with the same two blocks of three."""
    n = 200
    requests = Requests(
        arrival_s=np.arange(n, dtype=np.float64), prompt_tokens=np.full(n, 1536), output_tokens=np.full(n, 50),
        block_ids=tuple((1, 2, 3 + i) for i in range(n)),
    )  # fmt: skip
    d = asked().deployment
    with_blocks = Workload.of_trace(requests)
    without = replace(with_blocks, block_ids=None)
    blocks, plain = (checklist(d, w, rate_per_s=2.0, engines=()) for w in (with_blocks, without))
    assert blocks.serving.ttft_p50_s < plain.serving.ttft_p50_s
    assert "come again: a prefix cache" in report.markdown(report.report_of(blocks))
    assert "find nothing in a prefix cache" in report.markdown(report.report_of(plain))


def test_a_hostile_name_stays_a_name() -> None:
    w = replace(Workload.fixed(prompt_tokens=10, output_tokens=10), name="<script>|`x`\x1b[31m**")
    c = replace(asked("alike"), workload=replace(w, prompt_tokens=np.array([1, 2]), output_tokens=np.array([1, 2])))
    content = report.report_of(c)
    page, md = report.page(content), report.markdown(content)
    assert "<script" not in page + md
    assert "\x1b" not in page + md
    Tags(page)


@pytest.mark.parametrize("suffix", ["md", "html"])
def test_the_command_writes_a_file_and_says_it_in_short(
    suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target, board = tmp_path / f"ready.{suffix}", tmp_path / "board.json"
    arguments = [
        "checklist",
        *WHAT,
        "--slo",
        "ttft_p95=1s,tpot_p95=50ms",
        "--out",
        str(target),
        "--dashboard",
        str(board),
    ]
    assert run(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 7
    assert lines[0].startswith("READY WITH NOTES: ")
    text = target.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>" if suffix == "html" else "# Before a launch")
    assert json.loads(board.read_text(encoding="utf-8"))["schemaVersion"] >= 39
    assert sorted(p.name for p in tmp_path.iterdir()) == ["board.json", target.name]


def test_without_a_file_it_is_said_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["checklist", *WHAT, "--engine", "sglang"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("# Before a launch")
    assert "`sglang:token_usage`" in out
    assert run(["checklist", *WHAT, "--format", "html"]) == 0
    Tags(capsys.readouterr().out)


def test_json_is_one_flat_object(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["checklist", *WHAT, "--json"]) == 0
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    body = json.loads(out, parse_constant=lambda word: pytest.fail(f"{word} in JSON"))
    assert body["schema"] == "roofline/checklist/1"
    assert body["watch_state"] in ("ok", "note")
    assert not any(isinstance(v, dict) for v in body.values())


def test_check_leaves_with_4_where_an_answer_fails(capsys: pytest.CaptureFixture[str]) -> None:
    for slo, code in (("tpot_p95=50ms", 0), ("tpot_p95=1ms", 4)):
        assert run(["checklist", *WHAT, "--slo", slo, "--check", "--json"]) == code
        assert json.loads(capsys.readouterr().out)["ready"] == (code == 0)


@pytest.mark.parametrize("model", ["whisper-large-v3", "gpt-2", "deepseek-v3", "gemma-3-27b", "jamba-1.5-mini"])
def test_every_kind_of_model_is_answered_or_refused(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = run(["checklist", model, "h200", "--prompt", "200", "--output", "50", "--rate", "1"])
    out, err = capsys.readouterr()
    assert code in (0, 2)
    assert "Traceback" not in out + err
    assert "bug" not in err
    assert (out == "") == (code == 2)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("llama-3.1-8b", "h100"), "--rate"),
        ((*WHAT, "--rate", "1,2"), "one rate"),
        ((*WHAT, "--cv", "-1"), "--cv"),
        ((*WHAT, "--arrivals", "trace"), "--arrivals"),
        (("llama-3.1-8b", "h100", "--rate", "5", "--workload", "azure-convv"), "did you mean azure-conv"),
        (("llama-3.1-8b", "h100", "--rate", "5", "--workload", "azure-conv", "--prompt", "5"), "leave --prompt out"),
        ((*WHAT[:-1], "0"), "--rate"),
        ((*WHAT[:-1], "nan"), "--rate"),
        ((*WHAT[:-1], "many"), "--rate"),
        ((*WHAT, "--slo", "ttft_p90=1s"), "did you mean ttft_p"),
        ((*WHAT, "--slo", "ttft_p95=1"), "without a unit"),
        ((*WHAT, "--slo", ""), "ttft_p95=1s"),
        ((*WHAT, "--slo", "tpot_p95=1s,tpot_p95=2s"), "twice"),
        ((*WHAT, "--replicas", "0"), "--replicas"),
        ((*WHAT, "--format", "pdf"), "md or html"),
        ((*WHAT, "--format", "md", "--out", "x.html"), ".md"),
        ((*WHAT, "--out", "x.pdf"), ".md"),
        ((*WHAT, "--out", "no/such/x.md"), "no folder"),
        ((*WHAT, "--dashboard", "x.txt"), ".json"),
        ((*WHAT, "--draft", "ngram:4:0.5"), "--draft"),
        ((*WHAT, "--prefix-hit", "0.5"), "--prefix-hit"),
        ((*WHAT, "--dashboard", "x.json", "--engine", "llama.cpp"), "vllm or sglang"),
    ],
)
def test_bad_input_is_refused_in_one_line_and_nothing_is_written(
    arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert run(["checklist", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert said in err
    assert list(tmp_path.iterdir()) == []
