"""Count the work of a forward pass, clock it on a machine, then answer questions.

>>> import roofline as rl
>>> d = rl.Deployment(model=rl.model("llama-3.1-8b"), hardware=rl.hardware("h100"), weights="bf16", kv="bf16")
>>> rl.predict(d, prompt_tokens=2048, output_tokens=256, batch=8).tpot_bound
'memory'
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from roofline.answers.memory import Memory, kv_bytes, memory
from roofline.answers.phases import Comparison, Prediction, decode, predict, prefill
from roofline.errors import PlanError, RooflineError, SpecError, UnknownName, Unsupported
from roofline.ledger import Ledger, Op
from roofline.specs.catalog import hardware, model
from roofline.specs.deployment import Deployment
from roofline.specs.hardware import Hardware
from roofline.specs.model import Model
from roofline.specs.plan import Plan
from roofline.specs.precision import Precision
from roofline.timing.clock import Timing, clock
from roofline.timing.efficiency import IDEAL, Efficiency
from roofline.work.count import count
from roofline.work.step import Seqs

if TYPE_CHECKING:
    from roofline.views import plot

__version__ = "0.1.0"

__all__ = [
    "IDEAL",
    "Comparison",
    "Deployment",
    "Efficiency",
    "Hardware",
    "Ledger",
    "Memory",
    "Model",
    "Op",
    "Plan",
    "PlanError",
    "Precision",
    "Prediction",
    "RooflineError",
    "Seqs",
    "SpecError",
    "Timing",
    "UnknownName",
    "Unsupported",
    "clock",
    "count",
    "decode",
    "hardware",
    "kv_bytes",
    "memory",
    "model",
    "plot",
    "predict",
    "prefill",
]


def __getattr__(name: str) -> Any:
    """Pictures load matplotlib, so only when asked for."""
    if name == "plot":
        return importlib.import_module("roofline.views.plot")
    raise AttributeError(f"module 'roofline' has no attribute {name!r}")
