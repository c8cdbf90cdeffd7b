"""One's own numbers beside the prediction: what is compared, what is only labelled, and where the gap lies."""

from __future__ import annotations

from pathlib import Path

import pytest

import roofline as rl
from roofline.errors import SpecError
from roofline.evidence.agreement import disagreements, hardware_named, model_named
from roofline.evidence.comparison import Compared, compare
from roofline.evidence.runs import Run
from roofline.views import plot

FILES = Path(__file__).parent / "readers" / "files"
HEAD = "batch,prompt_tokens,output_tokens,ttft_ms,tpot_ms\n"


def _llama(**given: object) -> rl.Deployment:
    ways: dict[str, object] = {"model": rl.model("llama-3.1-8b"), "hardware": rl.hardware("h100"), "engine": "vllm"}
    return rl.Deployment(**(ways | given))  # type: ignore[arg-type]


def _qwen() -> rl.Deployment:
    return rl.Deployment(
        model=rl.model("qwen3-8b"), hardware=rl.hardware("m5-max"), engine="llama.cpp", weights="q4_k_m"
    )


def _csv(tmp_path: Path, rows: str, head: str = HEAD) -> Path:
    path = tmp_path / "runs.csv"
    path.write_text(head + rows, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def mine() -> Compared:
    return compare(FILES / "my-runs.csv", _llama())


def test_predictions_are_those_of_predict(mine: Compared) -> None:
    assert len(mine.compared) == 9
    for row in mine.rows:
        p = rl.predict(_llama(), prompt_tokens=1024, output_tokens=128, batch=int(row.batch or 0))
        assert row.predicted == pytest.approx(getattr(p, f"{row.what}_s"), rel=1e-9)
        assert row.low == pytest.approx(getattr(p, f"{row.what}_low_s"))
        assert row.high == pytest.approx(getattr(p, f"{row.what}_high_s"))
        assert row.floor == pytest.approx(getattr(p, f"{row.what}_floor_s"), rel=1e-9)
        assert row.ratio == pytest.approx(row.measured / (row.predicted or 0.0))
        assert row.inside == ((row.low or 0.0) <= row.measured <= (row.high or 0.0))


def test_ratios_and_fractions_by_hand(tmp_path: Path) -> None:
    """A decode pass of one sequence moves the weights but the embedding, one row of it, and 1,087 + 1 tokens of cache."""
    n_bytes = 2 * (8_030_261_248 - 128_256 * 4096) + 2 * 4096 + (1024 + 63 + 1) * 131_072
    seconds = n_bytes / 3.35e12
    found = compare(_csv(tmp_path, "1,1024,128,,10\n"), _llama(efficiency=rl.IDEAL))
    (row,) = found.rows
    assert row.floor == pytest.approx(seconds, rel=1e-3)
    assert row.ratio == pytest.approx(0.010 / (row.predicted or 0.0))
    assert row.fraction_of_roof == pytest.approx(seconds / 0.010, rel=1e-3)
    assert row.fraction_of_bandwidth == pytest.approx(seconds / 0.010, rel=1e-3)
    assert row.fraction_of_compute == pytest.approx(2 * 7.5e9 / 989.4e12 / 0.010, rel=0.05)
    assert row.overhead_s == 0.0
    assert row.inside is None  # an efficiency of one's own has no interval


def test_a_gap_adds_up(mine: Compared) -> None:
    for row in mine.rows:
        one = Compared(mine.deployment, mine.path, (row,)).where_the_gap_lies()[0]
        assert one.floor + one.overhead + one.ceilings + one.beyond == pytest.approx(1.0)
        assert min(one.floor, one.overhead, one.ceilings, one.beyond) >= -1e-12
        assert one.ratio == pytest.approx(row.ratio)
        assert one.said().endswith(".")


def test_speeds_are_compared_as_speeds() -> None:
    row = next(r for r in compare(FILES / "vllm-bench.json", _llama()).rows if r.what == "output_tokens_per_s")
    p = rl.predict(_llama(), prompt_tokens=1024, output_tokens=128, batch=1)
    assert row.predicted == pytest.approx(128 / p.e2e_s)
    assert (row.low or 0.0) < (row.predicted or 0.0) < (row.high or 0.0) < (row.floor or 0.0)


def test_one_user_is_a_static_batch_and_a_crowd_is_only_labelled() -> None:
    found = compare(FILES / "vllm-bench-appended.json", _llama())
    by_load = {(r.load, r.batch): r for r in found.rows}
    assert by_load["closed-loop", 1.0].compared
    assert "static batch of one" in by_load["closed-loop", 1.0].note
    for key in (("closed-loop", 16.0), ("open-loop", None)):
        assert not by_load[key].compared
        assert "needs the load model" in by_load[key].note
    assert "tokenizer_id" in found.ignored


def test_llama_bench_rows_stand_at_their_depth() -> None:
    rows = compare(FILES / "llama-bench.json", _qwen()).rows
    first, deep = (next(r for r in rows if r.what == "tpot" and r.past_tokens == depth) for depth in (0.0, 4096.0))
    assert (deep.predicted or 0.0) > (first.predicted or 0.0)
    assert (first.context_tokens, deep.context_tokens) == (63.5, 4096 + 63.5)
    t = rl.decode(_qwen(), context_tokens=4096 + 63.5)
    assert deep.predicted == pytest.approx(float(t.seconds), rel=1e-3)
    both = next(r for r in rows if r.what == "e2e")
    assert both.predicted is not None


def test_doubtful_runs_are_shown_and_not_compared(tmp_path: Path) -> None:
    head = "batch,prompt_tokens,output_tokens,ttft_ms,tpot_ms,e2e_ms\n"
    found = compare(_csv(tmp_path, "1,1024,128,26,7.6,5000\n1,1024,128,26,7.6,991\n", head), _llama())
    assert [row.compared for row in found.rows] == [False] * 3 + [True] * 3
    assert "doubtful" in found.rows[0].note
    assert any("e2e" in sentence for sentence in found.warnings)


def test_better_than_the_floor_is_said(tmp_path: Path) -> None:
    found = compare(_csv(tmp_path, "1,1024,128,26,3\n"), _llama())
    row = found.rows[1]
    assert row.beats_floor
    assert "check the unit, the model or the hardware" in row.note
    assert [gap.what for gap in found.where_the_gap_lies()] == ["ttft"]


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("model", "Qwen3-8B", "model: 'Qwen3-8B' is qwen3-8b, not llama-3.1-8b"),
        ("model", "acme-70b-chat", "model: 'acme-70b-chat' is of 70B parameters"),
        ("hardware", "NVIDIA H200", "hardware: 'NVIDIA H200' is h200-sxm-141gb, not h100-sxm-80gb"),
        ("engine", "sglang", "engine: measured with sglang, not vllm"),
        ("tp", "4", "tp: the run had 4, the deployment has 1"),
        ("n_chips", "2", "n_chips: the run had 2"),
        ("weights", "fp8", "weights: the run had fp8, the deployment has bf16; add --weights fp8"),
        ("kv", "fp8", "kv: the run had fp8"),
    ],
)
def test_a_file_of_another_deployment_is_refused(tmp_path: Path, column: str, value: str, said: str) -> None:
    path = _csv(tmp_path, f"{value},1,1024,7.6\n", f"{column},batch,prompt_tokens,tpot_ms\n")
    with pytest.raises(rl.SpecError) as error:
        compare(path, _llama())
    assert said in str(error.value)


def test_a_file_of_several_plans_is_compared_where_it_agrees(tmp_path: Path) -> None:
    path = _csv(tmp_path, "1,1,1024,7.6\n2,1,1024,5.0\n", "tp,batch,prompt_tokens,tpot_ms\n")
    one, other = compare(path, _llama()).rows
    assert one.compared
    assert other.note == "tp: the run had 2, the deployment has 1; add --tp 2"


def test_a_name_nobody_knows_is_noted(tmp_path: Path) -> None:
    path = _csv(tmp_path, "house-model,1,1024,7.6\nhouse-model,2,1024,7.7\n", "model,batch,prompt_tokens,tpot_ms\n")
    found = compare(path, _llama())
    assert len(found.compared) == 2
    assert len(found.warnings) == 1
    assert "'house-model' is in no catalogue" in found.warnings[0]


def test_the_number_of_parameters_gives_another_model_away() -> None:
    run = Run(tool="llama-bench", where="x.json:1", load="static", model_params=70.6e9)
    assert [x.field for x in disagreements(run, _llama()) if x.clear] == ["model_params"]


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("meta-llama/Llama-3.3-70B-Instruct", "llama-3.1-70b"), ("nvidia/Llama-3.1-8B-Instruct-FP8", "llama-3.1-8b"),
        ("Qwen/Qwen3-30B-A3B-Instruct-2507-FP8", "qwen3-30b-a3b"), ("models/Qwen3-8B-Q4_K_M", "qwen3-8b"), ("", None),
        ("../../etc/passwd", None),
    ],
)  # fmt: skip
def test_names_of_models(name: str, known: str | None) -> None:
    assert model_named(name) == known


def test_names_of_chips() -> None:
    named = {n: hardware_named(n) for n in ("NVIDIA GeForce RTX 4090", "A100-SXM4-80GB", "a.yaml", "toaster")}
    assert [None if chip is None else chip.id for chip in named.values()] == ["rtx-4090", "a100-sxm-80gb", None, None]


@pytest.mark.parametrize(
    ("file", "deployment", "off"),
    [("vllm.log", _llama(), 0.02), ("sglang.log", _llama(engine="sglang"), 0.1), ("llama.cpp.log", _qwen(), 0.01)],
)
def test_a_log_is_held_against_memory(file: str, deployment: rl.Deployment, off: float) -> None:
    rows = compare(FILES / file, deployment).rows
    assert {row.what for row in rows} >= {"weight_bytes", "kv_bytes"}
    assert all(row.ratio == pytest.approx(1.0, abs=off) for row in rows)
    assert all(row.load == "log" for row in rows)


def test_a_log_of_another_engine_is_refused() -> None:
    with pytest.raises(rl.SpecError, match="engine: a log of sglang, not of vllm"):
        compare(FILES / "sglang.log", _llama())


def test_frames_and_dicts_hold_every_row(mine: Compared) -> None:
    frame, said = mine.to_frame(), mine.to_dict()
    assert list(frame["what"]) == [row["what"] for row in said["rows"]]
    assert frame["ratio"].notna().all()
    assert said["engine"] == "vllm"
    assert [gap["what"] for gap in said["gaps"]] == ["ttft", "tpot", "e2e"]


def test_the_front_door_compares() -> None:
    assert rl.compare is compare


def test_the_points_stand_under_the_roof(mine: Compared) -> None:
    import matplotlib.pyplot as plt

    ax = plot.compared(mine)
    data = ax.roofline_data  # type: ignore[attr-defined]
    measured, predicted = (data[data["series"] == series] for series in ("measured", "predicted"))
    assert len(measured) == len(predicted) == 6
    assert list(measured["intensity"]) == list(predicted["intensity"])
    tpot = next(row for row in mine.rows if row.what == "tpot")
    assert measured["flops_per_s"].iloc[1] / predicted["flops_per_s"].iloc[1] == pytest.approx(
        1.0 / (tpot.ratio or 1.0)
    )
    assert "Hollow diamonds are predicted" in ax.roofline_alt  # type: ignore[attr-defined]
    plt.close(ax.figure)  # type: ignore[arg-type]


def test_no_point_no_picture() -> None:
    with pytest.raises(rl.SpecError, match="no point to draw"):
        plot.compared(compare(FILES / "vllm.log", _llama()))
    with pytest.raises(rl.SpecError, match="expected a comparison"):
        plot.compared("vllm.log")  # type: ignore[arg-type]


@pytest.mark.parametrize("given", [3, None, [3]])
def test_what_is_no_path_is_refused(given: object) -> None:
    d = rl.Deployment(model=rl.model("llama-3.1-8b"), hardware=rl.hardware("h100"), engine="vllm")
    with pytest.raises(SpecError, match=r"compare\(path\): expected the path of a file"):
        rl.compare(given, d)  # type: ignore[arg-type]
    with pytest.raises(SpecError, match=r"calibrate\(paths\): expected paths of files"):
        rl.calibrate(given, d)  # type: ignore[arg-type]


def test_every_run_is_a_step_of_the_progress() -> None:
    d = rl.Deployment(model=rl.model("llama-3.1-8b"), hardware=rl.hardware("h100"), engine="vllm-0.7")
    told: list[str] = []
    found = compare(FILES / "my-runs.csv", d, progress=told.append)
    assert len(told) == 3
    assert {row.where for row in found.rows} == set(told)
