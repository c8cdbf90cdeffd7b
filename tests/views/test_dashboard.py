"""The dashboard: Grafana can import it, its queries ask for metrics that exist, its lines are what was predicted."""

from __future__ import annotations

import csv
import json
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

import roofline as rl
from roofline.answers.checklist import Checklist, checklist
from roofline.specs.workload import Workload
from roofline.views.cli import run
from roofline.views.dashboard import dashboard, written
from roofline.views.engine_names import NAMES

METRICS = Path(__file__).parent.parent / "data" / "engine_metrics.csv"
WHAT = ("llama-3.1-8b", "h100", "--prompt", "1000", "--output", "200", "--rate", "5")
SUFFIXES = {"gauge": ("",), "counter": ("",), "histogram": ("_bucket", "_sum", "_count")}


@lru_cache
def asked(engine: str, rate: float = 5.0, slo: bool = True) -> Checklist:
    d = rl.Deployment(model=rl.model("llama-3.1-8b"), hardware=rl.hardware("h100-sxm-80gb"), engine=engine)
    promised = rl.SLO(ttft_p95_s=1.0, tpot_p95_s=0.05, itl_p99_s=0.2) if slo else None
    w = Workload.lognormal(prompt_mean=1000, output_mean=200)
    return checklist(d, w, rate_per_s=rate, slo=promised, n_replicas=2, engines=())


def made(engine: str) -> dict[str, Any]:
    body = json.loads(written(asked(engine)), parse_constant=lambda word: pytest.fail(f"{word} in JSON"))
    assert isinstance(body, dict)
    return body


def panels(engine: str) -> dict[str, dict[str, Any]]:
    return {p["title"]: p for p in made(engine)["panels"] if p["type"] != "row"}


def known(engine: str) -> set[str]:
    """Every name on the wire."""
    with METRICS.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["engine"] == engine]
    assert all(row["source"] for row in rows)
    return {row["name"] + suffix for row in rows for suffix in SUFFIXES[row["kind"]]}


def queries(engine: str) -> list[str]:
    body = made(engine)
    asked_of_panels = [t["expr"] for p in body["panels"] for t in p.get("targets", [])]
    return asked_of_panels + [v["query"]["query"] for v in body["templating"]["list"] if v["type"] == "query"]


@pytest.mark.parametrize("engine", NAMES)
def test_grafana_can_import_it(engine: str) -> None:
    body = made(engine)
    assert body["schemaVersion"] >= 39
    assert body["id"] is body["uid"] is None
    assert [i["name"] for i in body["__inputs"]] == ["DS_PROMETHEUS"]
    assert [v["name"] for v in body["templating"]["list"]] == ["DS_PROMETHEUS", "job", "model_name", "instance"]
    uids = re.findall(r'"uid": (?!null)"([^"]*)"', written(asked(engine)))
    assert set(uids) == {"${DS_PROMETHEUS}"}


@pytest.mark.parametrize("engine", NAMES)
def test_panels_do_not_overlap_and_have_ids_of_their_own(engine: str) -> None:
    every = made(engine)["panels"]
    assert len({p["id"] for p in every}) == len(every)
    taken: set[tuple[int, int]] = set()
    for p in every:
        g = p["gridPos"]
        cells = {(x, y) for x in range(g["x"], g["x"] + g["w"]) for y in range(g["y"], g["y"] + g["h"])}
        assert not cells & taken
        assert g["x"] + g["w"] <= 24
        taken |= cells


@pytest.mark.parametrize("engine", NAMES)
def test_every_panel_has_unit_description_source_and_begins_at_0(engine: str) -> None:
    for title, p in panels(engine).items():
        defaults = p["fieldConfig"]["defaults"]
        assert defaults["unit"], title
        assert defaults["min"] == 0, title
        assert defaults["noValue"] == "no traffic"
        assert "Query: " in p["description"], title
        assert p["description"].count("\n\n") >= 2, title  # meaning, what to do, query
        assert p["datasource"]["uid"] == "${DS_PROMETHEUS}"
        assert len({t["refId"] for t in p["targets"]}) == len(p["targets"])
        assert len({t["legendFormat"] for t in p["targets"]}) == len(p["targets"])
        assert [s["value"] for s in defaults["thresholds"]["steps"]] == [None]  # not Grafana's own red at 80


@pytest.mark.parametrize("engine", NAMES)
def test_every_metric_exists(engine: str) -> None:
    names = {name for q in queries(engine) for name in re.findall(rf"{engine}:[a-z_]+", q)}
    assert names
    assert names - known(engine) == set()
    table = {v for v in NAMES[engine].metrics.values()}
    wires = {suffix for name in table for suffix in (name, f"{name}_bucket")}
    assert wires & known(engine)
    assert all(name in known(engine) or f"{name}_bucket" in known(engine) for name in table)


@pytest.mark.parametrize("engine", NAMES)
def test_queries_are_balanced_and_ask_only_the_servers_chosen(engine: str) -> None:
    for query in queries(engine):
        stack = []
        for letter in re.sub(r'"[^"]*"', "", query):
            if letter in "([{":
                stack.append(letter)
            elif letter in ")]}":
                assert stack, query
                assert stack.pop() + letter in ("()", "[]", "{}"), query
        assert not stack, query
        assert query.count('"') % 2 == 0
    for p in panels(engine).values():
        for t in p["targets"]:
            n = len(re.findall(rf"{engine}:", t["expr"]))
            assert t["expr"].count('job=~"$job",model_name=~"$model_name",instance=~"$instance"') == n


@pytest.mark.parametrize("engine", NAMES)
def test_counters_and_histograms_are_read_as_rates(engine: str) -> None:
    for query in queries(engine):
        for name in re.findall(rf"{engine}:[a-z_]+_(?:total|bucket|sum|count)\{{[^}}]*\}}", query):
            assert re.search(r"(rate|increase)\(" + re.escape(name) + r"\[\$__rate_interval\]\)", query), query


def line(engine: str, panel: str, legend: str) -> float:
    [found] = [t["expr"] for t in panels(engine)[panel]["targets"] if t["legendFormat"] == legend]
    value = re.fullmatch(r"vector\((.*)\)", found)
    assert value, found
    return float(value[1])


@pytest.mark.parametrize("engine", NAMES)
def test_the_lines_are_what_was_predicted(engine: str) -> None:
    c = asked(engine)
    s = c.serving
    for panel, legend, value in (
        ("TTFT", "predicted p50", s.ttft_p50_s), ("TTFT", "predicted p95", s.ttft_p95_s),
        ("TTFT", "predicted mean", s.ttft_mean_s), ("TTFT", "SLO p95", 1.0), ("TPOT", "predicted p50", s.tpot_p50_s),
        ("TPOT", "predicted p95", s.tpot_p95_s), ("TPOT", "SLO p95", 0.05),
        ("Gap between tokens", "predicted p99", s.itl_p99_s), ("Gap between tokens", "SLO p99", 0.2),
        ("Queue time", "predicted mean", c.queue_s), ("Cache in use", "predicted mean", s.kv_use),
        ("Cache in use", "capacity", 1.0), ("Running requests", "predicted", 2 * float(s.n_seq)),
        ("Waiting requests", "predicted", c.waiting), ("Lost pages", "predicted", 0.0),
        ("Generation tokens a second", "predicted", s.output_tokens_per_s),
        ("Prompt tokens a second", "predicted", 5.0 * c.mix.prompt_mean),
        ("Prompt tokens a second", "capacity", s.saturation_per_s * c.mix.prompt_mean),
        ("Prompt length", "predicted mean", c.mix.prompt_mean), ("Answer length", "predicted mean", c.mix.output_mean),
    ):  # fmt: skip
        assert line(engine, panel, legend) == pytest.approx(float(value), rel=1e-11), (panel, legend)


def test_lines_look_like_lines() -> None:
    for p in panels("vllm").values():
        looks = {o["matcher"]["options"]: {q["id"]: q["value"] for q in o["properties"]}
                 for o in p["fieldConfig"]["overrides"]}  # fmt: skip
        predicted = looks["/^predicted/"]
        assert predicted["color"] == {"mode": "fixed", "fixedColor": "#8E8E8E"}
        assert predicted["custom.lineStyle"]["fill"] == "dash"
        assert looks["/^SLO/"]["color"]["fixedColor"] == "text"


@pytest.mark.parametrize("engine", NAMES)
def test_expected_now_gives_the_prediction_at_the_predicted_state(engine: str) -> None:
    """The query, worked out with the gauges where they are expected to be: the mean TPOT, as near as a straight line is."""
    c = asked(engine)
    assert c.capacity is not None
    [query] = [t["expr"] for t in panels(engine)["TPOT"]["targets"] if t["legendFormat"] == "expected now"]
    names, selector = NAMES[engine].metrics, r"\{[^}]*\}"
    gauges = {"running": float(c.serving.n_seq), "kv_use": float(c.serving.kv_use)}
    for name, value in gauges.items():
        query = re.sub(rf"avg\({names[name]}{selector}\)", repr(value), query)
    reads = 5.0 / 2 * c.mix.prompt_mean  # of one of two servers
    query = re.sub(rf"avg\(rate\({names['prompt_tokens']}{selector}\[[^]]*\]\)\)", repr(reads), query)
    value = eval(query, {"__builtins__": {}, "clamp_min": max})
    assert value == pytest.approx(float(c.serving.tpot_mean_s), rel=0.1)


def test_beyond_saturation_there_is_no_line_without_end() -> None:
    body = dashboard(asked("vllm", 1000.0))
    assert "inf" not in json.dumps(body, allow_nan=False).lower().replace("info", "")
    ttft = next(p for p in body["panels"] if p["title"] == "TTFT")
    assert [t["legendFormat"] for t in ttft["targets"]] == ["p50", "p95", "mean", "SLO p95"]


def test_without_a_promise_no_line_is_promised() -> None:
    assert "SLO p95" not in json.dumps([p.get("targets") for p in dashboard(asked("vllm", 5.0, slo=False))["panels"]])


def test_the_command_writes_what_the_library_makes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "d.json"
    assert run(["dashboard", *WHAT, "--out", str(target)]) == 0
    assert str(target) in capsys.readouterr().out
    assert run(["dashboard", *WHAT]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(target.read_text(encoding="utf-8"))
    assert [p.name for p in tmp_path.iterdir()] == ["d.json"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((*WHAT, "--engine", "llama.cpp"), "vllm or sglang"),
        ((*WHAT, "--out", "d.txt"), ".json"),
        ((*WHAT, "--out", "no/such/folder/d.json"), "no folder"),
        (("llama-3.1-70b", *WHAT[1:]), "no request fits"),
        ((*WHAT, "--rate", "1,2"), "one rate"),
    ],
)
def test_what_cannot_be_drawn_is_refused(
    arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert run(["dashboard", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert said in err
    assert list(tmp_path.iterdir()) == []
