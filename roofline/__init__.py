"""Count the work of a forward pass, clock it on a machine, then answer questions.

>>> import roofline as rl
>>> d = rl.Deployment(model=rl.model("llama-3.1-8b"), hardware=rl.hardware("h100"), weights="bf16", kv="bf16")
>>> rl.predict(d, prompt_tokens=2048, output_tokens=256, batch=8).tpot_bound
'memory'

Names are loaded when first used (as SPEC 1 of Scientific Python describes), so importing costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from roofline.answers.caches import kv_bytes, max_context_tokens, state_bytes
    from roofline.answers.cost import cost
    from roofline.answers.disaggregation import split
    from roofline.answers.drafters import Drafter, Drafting
    from roofline.answers.energy import energy
    from roofline.answers.ladder import cache_ladder
    from roofline.answers.lever_table import lever_table
    from roofline.answers.memory import Memory, memory
    from roofline.answers.mix import classify
    from roofline.answers.phases import decode, prefill
    from roofline.answers.prediction import Comparison, Prediction, predict
    from roofline.answers.sensitivity import sensitivity
    from roofline.answers.serving import Serving, serve
    from roofline.answers.serving.pools import serve_split
    from roofline.answers.sizing import Sizing, offline, size
    from roofline.answers.speculation import speculate
    from roofline.answers.whatif import vary
    from roofline.errors import PlanError, RooflineError, SpecError, UnknownName, Unsupported
    from roofline.evidence.accuracy import accuracy
    from roofline.evidence.calibration.own import calibrate
    from roofline.evidence.comparison import compare
    from roofline.evidence.reference import verify
    from roofline.ledger import Ledger, Op
    from roofline.specs.catalog import engine, hardware, model
    from roofline.specs.deployment import Deployment
    from roofline.specs.engine import Engine
    from roofline.specs.hardware import Hardware
    from roofline.specs.model import Model
    from roofline.specs.offload import Offload
    from roofline.specs.plan import Plan
    from roofline.specs.precision import Precision
    from roofline.specs.slo import SLO
    from roofline.specs.traces import workload
    from roofline.specs.workload import Workload
    from roofline.timing.clock import Timing, clock
    from roofline.timing.efficiency import IDEAL, Efficiency
    from roofline.views import plot
    from roofline.views.sweep import sweep
    from roofline.work.count import count
    from roofline.work.step import Seqs

__version__ = "0.1.0"

_HOMES = {
    "answers.caches": ("kv_bytes", "max_context_tokens", "state_bytes"),
    "answers.cost": ("cost",),
    "answers.disaggregation": ("split",),
    "answers.drafters": ("Drafter", "Drafting"),
    "answers.energy": ("energy",),
    "answers.ladder": ("cache_ladder",),
    "answers.lever_table": ("lever_table",),
    "answers.memory": ("Memory", "memory"),
    "answers.mix": ("classify",),
    "answers.phases": ("decode", "prefill"),
    "answers.prediction": ("Comparison", "Prediction", "predict"),
    "answers.sensitivity": ("sensitivity",),
    "answers.serving": ("Serving", "serve"),
    "answers.serving.pools": ("serve_split",),
    "answers.sizing": ("Sizing", "offline", "size"),
    "answers.speculation": ("speculate",),
    "answers.whatif": ("vary",),
    "errors": ("PlanError", "RooflineError", "SpecError", "UnknownName", "Unsupported"),
    "evidence.accuracy": ("accuracy",),
    "evidence.calibration.own": ("calibrate",),
    "evidence.comparison": ("compare",),
    "evidence.reference": ("verify",),
    "ledger": ("Ledger", "Op"),
    "specs.catalog": ("engine", "hardware", "model"),
    "specs.deployment": ("Deployment",),
    "specs.engine": ("Engine",),
    "specs.hardware": ("Hardware",),
    "specs.model": ("Model",),
    "specs.offload": ("Offload",),
    "specs.plan": ("Plan",),
    "specs.precision": ("Precision",),
    "specs.slo": ("SLO",),
    "specs.traces": ("workload",),
    "specs.workload": ("Workload",),
    "timing.clock": ("Timing", "clock"),
    "timing.efficiency": ("IDEAL", "Efficiency"),
    "views.plot": ("plot",),
    "views.sweep": ("sweep",),
    "work.count": ("count",),
    "work.step": ("Seqs",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
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


def __getattr__(name: str) -> Any:
    """Load a public name from its home, once."""
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'roofline' has no attribute {name!r}")
    module = importlib.import_module(f"roofline.{home}")
    globals()[name] = module if name == "plot" else getattr(module, name)
    return globals()[name]


def __dir__() -> list[str]:
    """The public names, loaded or not."""
    return sorted({*globals(), *__all__})
