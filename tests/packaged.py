"""What an installed wheel must do with nothing but what it depends on: every file of ours read, every command asked once.

`.ci/run` runs this in an environment of the wheel and pytest alone, in a folder outside the checkout; the suite does not
collect it, for it asks all of this, and more, of the checkout.
"""

from __future__ import annotations

import importlib
import pkgutil
from importlib.util import find_spec
from pathlib import Path

import pytest

import roofline
from roofline.evidence.calibration.shipped import predicted
from roofline.evidence.measurements import measurements
from roofline.specs.catalog import engine_ids, hardware_ids, model_ids, shipped, shipped_efficiencies
from roofline.views.cli import COMMANDS, run

MODULES = [found.name for found in pkgutil.walk_packages(roofline.__path__, "roofline.")]
RUNS = Path(__file__).parent / "evidence" / "readers" / "files" / "my-runs.csv"
LOAD = "--prompt 1024 --output 128 --rate 2"
ASKED = {
    "predict": "llama-3.1-8b h100 --prompt 2048 --engine vllm --plot request.png",
    "explain": "deepseek-v3 h200",
    "kv": "llama-3.1-8b --context 131072",
    "memory": "llama-3.1-8b m5-max:64GB",
    "serve-at": "llama-3.1-8b h100 --workload azure-conv --rate 2",
    "levers": "llama-3.1-8b h100",
    "cost": "llama-3.1-8b h100 --price 2.50@2026-11-09 --utilisation 0.6",
    "size": "llama-3.1-8b h100 --workload azure-code --rate 2 --slo ttft_p95=1s --plans tp1 --simulate 0",
    "accuracy": "",
    "compare": f"{RUNS} llama-3.1-8b h100",
    "calibrate": f"{RUNS} llama-3.1-8b h100 -o mine.yaml",
    "plot": "roofline llama-3.1-8b h100 --out roofline.svg",
    "checklist": f"llama-3.1-8b h100 {LOAD} --slo ttft_p95=1s --out launch.html",
    "dashboard": f"llama-3.1-8b h100 {LOAD} --out board.json",
    "sweep": "llama-3.1-8b h100 --batch 1,8 --context 1k:4k:x2 --out sweep.csv",
    "walkthrough": "llama-3.1-8b h100 -o page.html",
    "verify": "--kind mla",
    "hardware": "h100",
    "models": "llama-3.1-8b",
    "validate": f"{shipped('hardware') / 'h100-sxm-80gb.yaml'}",
}
NEEDS_MORE = {"calibrate": "scipy"}


@pytest.mark.parametrize("module", MODULES)
def test_a_module_is_imported(module: str) -> None:
    importlib.import_module(module)


def test_every_spec_is_read() -> None:
    chips, models, engines = (
        [read(name) for name in names]
        for read, names in (
            (roofline.hardware, hardware_ids()), (roofline.model, model_ids()), (roofline.engine, engine_ids()),
        )
    )  # fmt: skip
    assert chips
    assert models
    assert engines


def test_evidence_and_traces_are_read() -> None:
    assert len(predicted()) > len(measurements()) > 2000
    assert shipped_efficiencies()["n_rows"] > 1000
    assert all(len(roofline.workload(name)) > 1000 for name in ("azure-conv", "azure-code"))


def test_every_command_is_asked() -> None:
    assert ASKED.keys() == COMMANDS.keys()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_answers(
    command: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code = run([command, *ASKED[command].split()])
    out, err = capsys.readouterr()
    if command in NEEDS_MORE and not find_spec(NEEDS_MORE[command]):
        assert code == 2
        assert f"needs {NEEDS_MORE[command]}; install it with" in err
    else:
        assert (code, err) == (0, "")
        assert out
