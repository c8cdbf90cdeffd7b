"""The front door: which names it has, and what opening it costs."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version

import pytest

import roofline

FACE = [
    "IDEAL",
    "SLO",
    "Comparison",
    "Deployment",
    "Drafter",
    "Drafting",
    "Efficiency",
    "Engine",
    "Hardware",
    "Ledger",
    "Memory",
    "Model",
    "Offload",
    "Op",
    "Plan",
    "PlanError",
    "Precision",
    "Prediction",
    "RooflineError",
    "Seqs",
    "Serving",
    "Sizing",
    "SpecError",
    "Timing",
    "UnknownName",
    "Unsupported",
    "Workload",
    "accuracy",
    "cache_ladder",
    "calibrate",
    "classify",
    "clock",
    "compare",
    "cost",
    "count",
    "decode",
    "energy",
    "engine",
    "hardware",
    "kv_bytes",
    "lever_table",
    "max_context_tokens",
    "memory",
    "model",
    "offline",
    "plot",
    "predict",
    "prefill",
    "sensitivity",
    "serve",
    "serve_split",
    "size",
    "speculate",
    "split",
    "state_bytes",
    "sweep",
    "vary",
    "verify",
    "workload",
]
HEAVY = ("pandas", "matplotlib", "yaml", "rich", "typer", "scipy", "IPython")


def loaded_by(code: str) -> set[str]:
    """Top-level packages in memory after running `code` in a new interpreter."""
    script = f"{code}\nimport sys; print(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], check=True, capture_output=True, text=True)
    return set(done.stdout.split())


def test_the_names_are_these_and_no_others() -> None:
    assert roofline.__all__ == FACE


def test_the_names_are_sorted_constants_then_classes_then_functions() -> None:
    assert sorted(FACE, key=lambda name: (not name.isupper(), name[0].islower(), name)) == FACE
    assert len(set(FACE)) == len(FACE)


@pytest.mark.parametrize("name", FACE)
def test_every_name_leads_somewhere(name: str) -> None:
    assert getattr(roofline, name) is not None
    assert name in dir(roofline)


def test_a_star_brings_exactly_these() -> None:
    scope: dict[str, object] = {}
    exec("from roofline import *", scope)
    assert sorted(set(scope) - {"__builtins__"}) == sorted(FACE)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'sevre'"):
        roofline.sevre  # noqa: B018


@pytest.mark.parametrize(
    "names", [("PlanError", "SpecError", "UnknownName", "Unsupported"), ("SpecError", "PlanError")]
)
def test_one_root_catches_every_error(names: tuple[str, ...]) -> None:
    assert all(issubclass(getattr(roofline, name), roofline.RooflineError) for name in names)


def test_errors_are_also_the_builtin_ones_that_callers_expect() -> None:
    assert issubclass(roofline.SpecError, ValueError)
    assert issubclass(roofline.PlanError, ValueError)
    assert issubclass(roofline.UnknownName, LookupError)
    assert not issubclass(roofline.UnknownName, KeyError)  # whose message would print in quotes
    assert issubclass(roofline.Unsupported, NotImplementedError)


def test_importing_the_library_loads_nothing_heavy() -> None:
    loaded = loaded_by("import roofline")
    assert loaded & set(HEAVY) == set()
    assert "roofline" in loaded


def test_answering_a_question_loads_neither_pandas_nor_pictures() -> None:
    """A spec is YAML, so that much is read; the rest is not needed for a number."""
    code = (
        "import roofline as rl\n"
        "d = rl.Deployment(model=rl.model('llama-3.1-8b'), hardware=rl.hardware('h100'))\n"
        "p = rl.predict(d, prompt_tokens=8, output_tokens=4, batch=2); p.to_dict(); repr(p.prefill)\n"
        "rl.memory(d, context_tokens=8).to_dict(); rl.decode(d, context_tokens=[1, 2]).bound"
    )
    assert loaded_by(code) & set(HEAVY) <= {"yaml"}


def test_the_version_is_that_of_the_distribution() -> None:
    assert roofline.__version__ == version("llm-roofline")
