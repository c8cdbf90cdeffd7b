"""The measurements the library is judged against: published figures of static batches and of single requests.

`data/measurements.csv` holds one figure a row, under our own names and in SI, with its source; `data/left_out.csv` what was
not taken, and why; `data/models.csv` and `data/chips.csv` what the sources call what; `data/SOURCES.md` the rest.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

from roofline.answers.chunks import first_token
from roofline.answers.phases import decode
from roofline.errors import SpecError
from roofline.specs import catalog
from roofline.specs.deployment import Deployment
from roofline.specs.engine import Engine
from roofline.specs.plan import Plan
from roofline.timing.clock import Timing

__all__ = ["DATA", "Measurement", "Part", "deployment_of", "measurements", "parts_of", "what_of"]

DATA = Path(__file__).resolve().parent / "data"

Metric = Literal["ttft_s", "tpot_s", "e2e_s", "output_tokens_per_s"]
What = Literal["ttft", "tpot", "e2e"]

Part: TypeAlias = tuple[float, Timing]
"""So many passes of one kind, one after another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One published figure.

    Attributes
    ----------
    hardware, engine, model, weights, kv, plan : str
        Ids and formats of the catalogue (weights and kv "": as the checkpoint has them), ways such as "tp=8".
    version : str
        The engine as its source calls it.
    attention, batch_tokens : str, float
        The attention kernel and the tokens of a pass, where the source says ("", 0: the engine's own).
    load : "static" or "saturated"
        One batch that starts together, or as many requests as the engine takes.
    batch, prompt_tokens, past_tokens, context_tokens, output_tokens : float
        Sequences; tokens of each that are read, that were cached before, that are cached during the mean decode pass, that
        are generated; 0 where it does not apply [1, token].
    metric, value : str, float
        ttft_s, tpot_s, e2e_s (of the batch), or output_tokens_per_s (of the whole deployment).
    grade : "A" or "B"
        Clear conditions, or some of them missing.
    assumed : str
        What the source leaves open.
    source, where, date : str
        Who published it, and where in it.
    """

    source: str
    hardware: str
    engine: str
    version: str
    model: str
    weights: str
    kv: str
    plan: str
    attention: str
    batch_tokens: float
    load: Literal["static", "saturated"]
    batch: float
    prompt_tokens: float
    past_tokens: float
    context_tokens: float
    output_tokens: float
    metric: Metric
    value: float
    grade: Literal["A", "B"]
    date: str
    assumed: str
    where: str

    @property
    def group(self) -> str:
        """Its engine and machine, as the shipped efficiencies name them."""
        return f"{self.engine} on {self.hardware}"

    @property
    def tp(self) -> int:
        """Tensor-parallel ways."""
        return _plan(self.plan).tp


@lru_cache(maxsize=1)
def measurements() -> tuple[Measurement, ...]:
    """Every packaged measurement, sorted.

    >>> len(measurements()) > 2000, measurements()[0].metric
    (True, 'tpot_s')
    """
    numbers = {f.name for f in fields(Measurement) if f.type in ("float", float)}
    with (DATA / "measurements.csv").open(encoding="utf-8", newline="") as stream:
        return tuple(_read(row, numbers) for row in csv.DictReader(stream))


def _read(row: dict[str, str], numbers: set[str]) -> Measurement:
    given: dict[str, Any] = {k: float(v or 0.0) if k in numbers else v for k, v in row.items()}
    return Measurement(**given)


def what_of(measurement: Measurement) -> What:
    """Which of the estimates it measures."""
    match measurement.metric:
        case "ttft_s":
            return "ttft"
        case "tpot_s":
            return "tpot"
        case _:
            return "e2e"


def deployment_of(measurement: Measurement) -> Deployment:
    """The deployment that was measured."""
    m = measurement
    return Deployment(
        model=catalog.model(m.model), hardware=catalog.hardware(m.hardware), plan=_plan(m.plan),
        weights=m.weights or None, kv=m.kv or None, engine=_engine(m.engine, m.batch_tokens, m.attention),
    )  # fmt: skip


@lru_cache(maxsize=64)
def _plan(ways: str) -> Plan:
    return Plan(**{name: int(n) for name, n in (way.split("=") for way in ways.split(",") if way)})  # type: ignore[arg-type]


@lru_cache(maxsize=64)
def _engine(name: str, batch_tokens: float, attention: str) -> Engine:
    engine = catalog.engine(name)
    if batch_tokens:
        engine = engine.varied(batch_tokens=int(batch_tokens))
    if attention:
        kernels = engine.kernels.model_copy(update={"attention": attention})
        engine = engine.model_copy(update={"kernels": kernels})
    return engine


def parts_of(measurement: Measurement, deployment: Deployment) -> tuple[Part, ...]:
    """The passes a figure of a static batch is made of: those of its prompts, those of its decodes, or both.

    Decodes are taken at their mean context.
    """
    m = measurement
    if m.load != "static":
        raise SpecError(f"{m.group}: a {m.load} load is not made of one batch's passes")
    parts: list[Part] = []
    if m.metric != "tpot_s":
        read = first_token(
            deployment, prompt_tokens=m.prompt_tokens + m.past_tokens, batch=m.batch, prefix_tokens=m.past_tokens
        )
        parts.append((1.0, read))
    if m.metric == "tpot_s":
        parts.append((1.0, decode(deployment, context_tokens=m.context_tokens, batch=m.batch)))
    if m.metric == "e2e_s":
        context = m.prompt_tokens + (m.output_tokens - 2.0) / 2.0
        parts.append((m.output_tokens - 1.0, decode(deployment, context_tokens=context, batch=m.batch)))
    return tuple(parts)
