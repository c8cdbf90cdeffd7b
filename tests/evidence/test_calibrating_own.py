"""An efficiency of one's own: what it recovers, what it refuses, and how it is kept."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import pytest

import roofline as rl
from roofline.evidence.calibration.own import calibrate, read_known, read_own, usable, write_known
from roofline.specs import catalog
from roofline.timing.shipped import Known, known

FILES = Path(__file__).parent / "readers" / "files"
TRUTH = rl.Efficiency(
    compute=0.62, memory=0.86, launch_s=7e-6, tile_rows=40.0, attention=0.3, vector=0.9, activations=1.4,
    sequence_s=2.5e-5, link=0.55, attention_rows=64.0,
)  # fmt: skip
HEAD = "batch,prompt_tokens,output_tokens,ttft_s,tpot_s\n"


def _llama(efficiency: rl.Efficiency | Known | None = None, engine: str = "vllm") -> rl.Deployment:
    return rl.Deployment(
        model=rl.model("llama-3.1-8b"), hardware=rl.hardware("h100"), engine=engine, efficiency=efficiency
    )


def _shapes() -> list[tuple[int, int]]:
    grid = [(batch, prompt) for prompt in (16, 128, 512, 2048, 8192, 32768) for batch in (1, 4, 16, 64)]
    return [(batch, prompt) for batch, prompt in grid if batch * prompt <= 300_000]


def _noiseless(shapes: list[tuple[int, int]]) -> list[str]:
    lines = []
    for batch, prompt in shapes:
        p = rl.predict(_llama(TRUTH), prompt_tokens=prompt, output_tokens=128, batch=batch)
        lines.append(f"{batch},{prompt},128,{p.ttft_s!r},{p.tpot_s!r}\n")
    return lines


def _written(path: Path, lines: list[str], head: str = HEAD) -> Path:
    path.write_text(head + "".join(lines), encoding="utf-8")
    return path


def test_the_law_s_own_output_gives_its_parameters_back(tmp_path: Path) -> None:
    lines = _noiseless(_shapes())
    found = calibrate(_written(tmp_path / "own.csv", lines), _llama(), prior_weight=0.0)
    settled = {n: v for n, v in TRUTH.model_dump().items() if n not in found.at_prior and v is not None}
    assert {"attention", "sequence_s"} <= set(settled)
    for name, value in settled.items():
        assert getattr(found.efficiency, name) == pytest.approx(value, rel=0.01), name
    for batch, prompt in _shapes():
        a, b = (rl.predict(_llama(e), prompt_tokens=prompt, output_tokens=128, batch=batch) for e in (found, TRUTH))
        assert a.ttft_s == pytest.approx(b.ttft_s, rel=1e-3)
        assert a.tpot_s == pytest.approx(b.tpot_s, rel=1e-3)
        assert a.e2e_s == pytest.approx(b.e2e_s, rel=1e-3)


def test_so_it_does_where_weights_are_made_ready_once(tmp_path: Path) -> None:
    """With one model, what a request costs once is one number: its two parameters are flagged, its sum is found."""

    def mac(efficiency: rl.Efficiency | Known | None = None) -> rl.Deployment:
        return rl.Deployment(
            model=rl.model("qwen3-8b"), hardware=rl.hardware("m5-max"), engine="mlx", weights="mlx-4bit",
            efficiency=efficiency,
        )  # fmt: skip

    truth = rl.Efficiency(
        compute=0.6, memory=0.8, launch_s=8e-6, tile_rows=12.0, attention=0.35, vector=0.12, activations=1.6,
        first_read=0.3, request_s=0.02, link=0.55, attention_rows=128.0,
    )  # fmt: skip
    shapes = [(batch, prompt) for prompt in (16, 128, 512, 2048, 8192) for batch in (1, 2, 8)]
    asked = [rl.predict(mac(truth), prompt_tokens=p, output_tokens=128, batch=b) for b, p in shapes]
    lines = [f"{b},{p},128,{x.ttft_s!r},{x.tpot_s!r}\n" for (b, p), x in zip(shapes, asked, strict=True)]
    found = calibrate(_written(tmp_path / "own.csv", lines), mac(), prior_weight=0.0)
    assert {"first_read", "request_s"} <= set(found.at_prior)
    assert found.efficiency.tile_rows == pytest.approx(12.0, rel=0.01)
    for (batch, prompt), x in zip(shapes, asked, strict=True):
        y = rl.predict(mac(found), prompt_tokens=prompt, output_tokens=128, batch=batch)
        assert y.ttft_s == pytest.approx(x.ttft_s, rel=1e-3)
        assert y.tpot_s == pytest.approx(x.tpot_s, rel=1e-3)


@pytest.mark.parametrize("prior_weight", [1.0, 0.0])
def test_the_order_of_rows_and_files_changes_nothing(tmp_path: Path, prior_weight: float) -> None:
    lines = _noiseless(_shapes()[:9])
    shuffled = random.Random(5).sample(lines, len(lines))
    one = calibrate(_written(tmp_path / "own.csv", lines), _llama(), prior_weight=prior_weight)
    other = calibrate(_written(tmp_path / "own.csv", shuffled), _llama(), prior_weight=prior_weight)
    assert one == other
    halves = [_written(tmp_path / "a.csv", lines[:4]), _written(tmp_path / "b.csv", lines[4:])]
    ways = [calibrate(paths, _llama(), prior_weight=prior_weight) for paths in (halves, halves[::-1])]
    assert ways[0] == ways[1]
    assert ways[0].efficiency == one.efficiency


def test_three_points_are_drawn_to_them_and_say_what_they_leave_open(tmp_path: Path) -> None:
    path = _written(tmp_path / "own.csv", [*_noiseless([(1, 2048)]), "8,2048,128,,0.0093\n"])
    found = calibrate(path, _llama())
    shipped = known(rl.hardware("h100"), catalog.engine("vllm"))
    assert found.regime == "given"
    assert found.n_rows == 3
    assert len(found.at_prior) >= 4  # seven are fitted of vLLM
    assert found.said.startswith("calibrated: 3 figures of 2 runs in own.csv on NVIDIA H100")
    truth, before, after = (
        float(rl.predict(_llama(e), prompt_tokens=2048, output_tokens=128, batch=1).ttft_s)
        for e in (TRUTH, shipped, found)
    )
    assert abs(after - truth) < abs(before - truth)


def test_intervals_are_no_narrower_than_the_shipped_ones_until_there_are_twenty(tmp_path: Path) -> None:
    least = catalog.shipped_efficiencies()["bands"]["measured"]["tpot"]
    few = calibrate(_written(tmp_path / "few.csv", _noiseless(_shapes()[:4])), _llama())
    many = calibrate(_written(tmp_path / "many.csv", _noiseless(_shapes())), _llama())
    assert few.bands["tpot"].high >= least["high"]
    assert few.bands["tpot"].low <= least["low"]
    assert len(_shapes()) >= 20
    assert many.bands["tpot"].high < least["high"]


def test_the_prior_can_be_given(tmp_path: Path) -> None:
    path = _written(tmp_path / "own.csv", _noiseless([(1, 512)]))
    away = rl.Efficiency(**TRUTH.model_dump() | {"attention": 0.9})
    assert calibrate(path, _llama(), prior=away).efficiency.attention > 0.8


def test_what_is_no_single_batch_is_left_out() -> None:
    found = usable(FILES / "vllm-bench-appended.json", _llama())
    assert found.n_runs == 1
    assert [figure.what for figure in found.figures] == ["tpot", "ttft"]
    assert len(found.left_out) == 2
    assert all("needs the load model" in sentence for sentence in found.left_out)
    assert ", 2 left out" in calibrate(FILES / "vllm-bench-appended.json", _llama()).said


def test_other_engines_have_their_own_kind_of_law() -> None:
    d = rl.Deployment(model=rl.model("qwen3-8b"), hardware=rl.hardware("m5-max"), engine="llama.cpp", weights="q4_k_m")
    found = calibrate(FILES / "llama-bench.json", d)
    assert found.n_rows == 5
    assert found.efficiency.reread_rows is not None
    refined = rl.compare(FILES / "llama-bench.json", rl.Deployment(
        model=d.model, hardware=d.hardware, engine=d.engine, precision=d.precision, efficiency=found,
    ))  # fmt: skip
    assert all(row.inside for row in refined.rows)


@pytest.mark.parametrize(
    ("head", "line", "said"),
    [
        ("model," + HEAD, "qwen3-8b,1,512,128,0.03,0.008\n", "model: 'qwen3-8b', not llama-3.1-8b"),
        ("engine," + HEAD, "sglang,1,512,128,0.03,0.008\n", "engine: measured with sglang"),
        ("weights," + HEAD, "fp8,1,512,128,0.03,0.008\n", "weights: the run had fp8"),
        (HEAD, "1,512,128,0.03,0.002\n", "beats the floor: check the unit, the model or the hardware"),
        (HEAD, "1,512,128,nan,nan\n", ""),
        (HEAD, "1,512,128,0,0\n", ""),
        (HEAD, "1,512,128,inf,-1\n", ""),
        (
            "concurrency,prompt_tokens,output_tokens,ttft_s,tpot_s\n",
            "8,512,128,0.03,0.008\n",
            "no run can be fitted to",
        ),
        (HEAD, "", ""),
    ],
)
def test_nothing_is_fitted_silently_to_what_is_wrong(tmp_path: Path, head: str, line: str, said: str) -> None:
    with pytest.raises(rl.RooflineError) as error:
        calibrate(_written(tmp_path / "own.csv", [line], head), _llama())
    assert said in str(error.value)


def test_milliseconds_in_a_column_of_seconds_are_refused(tmp_path: Path) -> None:
    path = _written(tmp_path / "own.csv", ["1,512,128,26,7.6\n", "1,1024,128,30,7.8\n"], HEAD)
    with pytest.raises(rl.SpecError, match=r"own\.csv.*times what is expected; check the unit"):
        calibrate(path, _llama())


@pytest.mark.parametrize("prior", [3, "x", {"compute": 0.5}])
def test_a_prior_is_an_efficiency(prior: Any) -> None:
    with pytest.raises(rl.SpecError, match="prior"):
        calibrate(FILES / "my-runs.csv", _llama(), prior=prior)


def test_an_efficiency_of_another_chip_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("hardware: h100-sxm-80gb\nefficiency: {compute: 0.5}\n", encoding="utf-8")
    assert read_own(path, chips=["h100-sxm-80gb"])[0].efficiency.compute == 0.5
    with pytest.raises(rl.SpecError, match="was calibrated on h100-sxm-80gb, not on a100"):
        read_own(path, chips=["h100-sxm-80gb", "a100-sxm-80gb"])


@pytest.mark.parametrize("line", ["efficiency: {compute: 1.0e-300}", "efficiency: {}\noff: {ttft: .nan}",
                                  "efficiency: {}\nn_rows: -5", "efficiency: {}\nhardware: 3"])  # fmt: skip
def test_an_efficiency_file_out_of_range_is_refused(tmp_path: Path, line: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(line + "\n", encoding="utf-8")
    with pytest.raises(rl.SpecError):
        read_own(path)


def test_the_ideal_machine_and_logs_are_not_fitted() -> None:
    with pytest.raises(rl.SpecError, match="ideal machine has nothing to fit"):
        calibrate(FILES / "my-runs.csv", _llama(engine="ideal"))
    with pytest.raises(rl.SpecError, match="holds no times"):
        calibrate(FILES / "vllm.log", _llama())
    with pytest.raises(rl.SpecError, match="no file was given"):
        calibrate([], _llama())
    with pytest.raises(rl.SpecError, match="prior_weight"):
        calibrate(FILES / "my-runs.csv", _llama(), prior_weight=float("nan"))


def test_without_scipy_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    with pytest.raises(rl.SpecError, match=r"llm-roofline\[calibrate\]"):
        calibrate(FILES / "my-runs.csv", _llama())


def test_it_is_kept_and_read_back_whole(tmp_path: Path) -> None:
    found, path = calibrate(FILES / "my-runs.csv", _llama()), tmp_path / "mine.yaml"
    assert write_known(found, path, deployment=_llama()) == path
    assert read_own(path) == (found, "vllm")
    assert read_known(path) == found
    assert [p.name for p in tmp_path.iterdir()] == ["mine.yaml"]
    with pytest.raises(rl.SpecError, match="there already"):
        write_known(found, path)
    write_known(found, path, force=True)
    assert read_own(path) == (found, None)
    p = rl.predict(_llama(read_known(path)), prompt_tokens=1024, output_tokens=128, batch=8)
    assert p.ttft_low_s is not None
    assert p.ttft_floor_s <= p.ttft_low_s <= p.ttft_s


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}", "expected an efficiency"),
        ("efficiency: {compute: 1.2}", "compute"),
        ("efficiency: {compute: .nan}", "compute"),
        ("efficiency: {comptue: 0.5}", "did you mean compute"),
        ("efficiency: {}\nbands: {ttft: {low: 2, high: 3}}", "low"),
        ("efficiency: {}\nengine: 3", "engine"),
        ("efficiency: {}\nregime: measured", "regime: what a file says is as given, got 'measured'"),
        ("efficiency: {}\nbands: {tpto: {low: 0.5, high: 2}}", "bands: expected names of ttft, tpot, e2e, got 'tpto'"),
        ("efficiency: {}\noff: {speed: 0.5}", "off: expected names of ttft, tpot, e2e"),
        ("efficiency: {}\nat_prior: [comptue]", "at_prior: expected names of compute, memory, "),
        ("- 1", "expected a mapping"),
    ],
)
def test_a_file_that_says_no_efficiency_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(rl.SpecError, match=said):
        read_known(path)


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    found = Known(efficiency=TRUTH, regime="given")
    with pytest.raises(rl.SpecError, match="cannot be written"):
        write_known(found, tmp_path / "no" / "mine.yaml")
    with pytest.raises(rl.SpecError, match="expected a file"):
        write_known(found, tmp_path, force=True)
