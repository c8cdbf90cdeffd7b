"""Whether a run was one of a deployment: what its file calls the model, the chip, the engine, the plan and the formats.

A contradiction is clear where both sides are known and differ; what the file names and no catalogue knows is only noted.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from roofline.dtypes import format_named
from roofline.errors import UnknownName, shorten
from roofline.evidence.measurements import DATA
from roofline.evidence.runs import Run
from roofline.specs import catalog
from roofline.specs.deployment import Deployment
from roofline.specs.hardware import Hardware

__all__ = ["Disagreement", "disagreements", "engine_differs", "hardware_named", "model_named"]

_SAME_SIZE = 0.15
_SAME_RATE = 0.1
_SAME_BITS = 0.12
_ENDINGS = re.compile(
    r"[-_.](?:gguf|instruct|chat|it|hf|base|qat|dynamic|fp8|nvfp4|mxfp4|awq|gptq|bf16|f16|fp16|int[48]|[2-8]-?bit|kv|dwq"
    r"|w\d+a\d+|ud|i?q\d[a-z0-9_]*|\d{4}|\d{5}-of-\d{5}|g\d+)$"
)
_MAKERS = re.compile(r"^(?:meta|google|qwen|microsoft|mistralai|nvidia|openai|unsloth|bartowski)[-_]")
_BILLIONS = re.compile(r"(?<![\w.])(\d{1,4}(?:\.\d{1,2})?)b(?![a-z0-9])")
_CHIP_WORDS = re.compile(r"^(?:nvidia|amd|tesla|huawei)-|-(?:hbm\w*|gpu|accelerator)$")
_SERVED = ("vllm bench serve", "sglang bench_serving", "aiperf", "inferencex")


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A field of a run and what it says against the deployment; `clear` where the run cannot be one of that deployment."""

    field: str
    said: str
    clear: bool = True


def disagreements(run: Run, deployment: Deployment) -> tuple[Disagreement, ...]:
    """What a run's file says otherwise than the deployment.

    >>> from roofline.specs.catalog import hardware, model
    >>> d = Deployment(model=model("llama-3.1-8b"), hardware=hardware("h100"), engine="vllm")
    >>> [x.said for x in disagreements(Run(tool="csv", where="a.csv:2", load="static", model="Qwen/Qwen3-8B"), d)]
    ["a.csv:2: model: 'Qwen/Qwen3-8B' is qwen3-8b, not llama-3.1-8b"]
    """
    found = [
        Disagreement(field, f"{run.where}: {field}: {said}", clear)
        for check in (_model, _params, _hardware, _engine, _plan, _formats)
        for field, said, clear in check(run, deployment)
    ]
    return tuple(found)


_Told = Iterator[tuple[str, str, bool]]


def _model(run: Run, d: Deployment) -> _Told:
    if run.model is None or run.model.strip().lower() == d.model.id:
        return
    name, told = run.model, repr(shorten(run.model, 80))
    known = model_named(name)
    if known == d.model.id:
        return
    if known is not None:
        other = catalog.model(known)
        if abs(other.n_params / d.model.n_params - 1.0) > 1e-3:
            is_that = "" if name == known else f" is {known}"
            yield "model", f"{told}{is_that}, not {d.model.id}", True
        return
    size = _BILLIONS.search(name.lower().replace("_", "-").replace("-", " "))
    if size is not None and not 0.6 < float(size[1]) * 1e9 / d.model.n_params < 1.6:
        yield "model", f"{told} is of {size[1]}B parameters, {d.model.id} of {d.model.n_params / 1e9:.3g}B", True
        return
    yield "model", f"{told} is in no catalogue; taken to be {d.model.id}", False


def _params(run: Run, d: Deployment) -> _Told:
    if run.model_params is None:
        return
    off = run.model_params / d.model.n_params - 1.0
    if abs(off) > _SAME_SIZE:
        yield "model_params", f"{run.model_params:,.0f} parameters, but {d.model.id} has {d.model.n_params:,}", True
    elif abs(off) > 0.01:
        yield "model_params", f"{run.model_params:,.0f} parameters, {off:+.0%} of what {d.model.id} has", False


def _hardware(run: Run, d: Deployment) -> _Told:
    if run.hardware is None:
        return
    told, known = repr(shorten(run.hardware, 80)), hardware_named(run.hardware)
    if known is None:
        yield "hardware", f"{told} is in no catalogue; taken to be {d.hardware.id}", False
    elif known.id.partition(":")[0] != d.hardware.id.partition(":")[0]:
        yield "hardware", f"{told} is {known.id}, not {d.hardware.id}", not _alike(known, d.hardware)


def _alike(a: Hardware, b: Hardware) -> bool:
    rates = [(a.hbm_bytes_per_s, b.hbm_bytes_per_s)]
    rates += [(a.peak_flops_per_s("fp16"), b.peak_flops_per_s("fp16"))] if _has_fp16(a) and _has_fp16(b) else []
    return all(abs(x / y - 1.0) <= _SAME_RATE for x, y in rates)


def _has_fp16(chip: Hardware) -> bool:
    return "fp16" in chip.compute.matrix


def _engine(run: Run, d: Deployment) -> _Told:
    if run.engine is not None and engine_differs(run.engine, d):
        yield "engine", f"measured with {run.engine}, not {d.engine.id}; add --engine {run.engine}", True
    elif run.engine is not None and d.engine.id == "ideal":
        yield "engine", f"measured with {run.engine}; the ideal machine is compared (--engine {run.engine})", False


def engine_differs(named: str, d: Deployment) -> bool:
    """Whether a name is that of another engine: earlier versions and an engine of one's own are not told apart.

    >>> from roofline.specs.catalog import hardware, model
    >>> d = Deployment(model=model("llama-3.1-8b"), hardware=hardware("h100"), engine="vllm-2023")
    >>> engine_differs("vllm", d), engine_differs("sglang", d)
    (False, True)
    """
    own = d.engine.id
    return own != "ideal" and own in catalog.engine_ids() and not own.startswith(named)


def _plan(run: Run, d: Deployment) -> _Told:
    for way in ("tp", "pp", "ep"):
        ran, has = getattr(run, way), getattr(d.plan, way)
        if ran is not None and ran != has:
            yield way, f"the run had {ran}, the deployment has {has}; add --{way} {ran}", True
    if run.n_chips is not None and run.n_chips != d.n_chips:
        yield "n_chips", f"the run had {run.n_chips}, the deployment has {d.n_chips}", True


def _formats(run: Run, d: Deployment) -> _Told:
    own = {"weights": d.numerics.weights_name, "kv": d.numerics.kv.name}
    for field, name in own.items():
        ran = getattr(run, field)
        if ran is None or ran == name:
            continue
        a, b = _bits(ran), _bits(name)
        if a is not None and b is not None and abs(a / b - 1.0) > _SAME_BITS:
            # servers report the dtype of what they compute in where they do not know that of what they hold
            sure = run.tool not in _SERVED or a != 16.0
            yield field, f"the run had {ran}, the deployment has {name}; add --{field} {ran}", sure


def _bits(name: str) -> float | None:
    try:
        return format_named(name).bits
    except UnknownName:
        return None


@lru_cache(maxsize=256)
def model_named(name: str) -> str | None:
    """The catalogue's id of what a file calls a model, or none.

    >>> model_named("meta-llama/Llama-3.1-8B-Instruct"), model_named("Qwen3-8B-Q4_K_M"), model_named("my-own-model")
    ('llama-3.1-8b', 'qwen3-8b', None)
    """
    last = re.split(r"[/\\]", name.strip())[-1].lower()
    table = _names("models.csv", "model")
    for spelled in _shorter(last):
        if spelled in table:
            return table[spelled]
        found = _in_catalogue(catalog.model, spelled)
        if found is not None:
            return str(found.id)
    return None


def _shorter(name: str) -> Iterator[str]:
    """A name, and what is left as its endings and its maker's name go, the longest first."""
    seen = [name]
    while (cut := _ENDINGS.sub("", seen[-1])) != seen[-1]:
        seen.append(cut)
    for one in seen:
        yield one
        if (bare := _MAKERS.sub("", one)) != one:
            yield bare


@lru_cache(maxsize=256)
def hardware_named(name: str) -> Hardware | None:
    """The chip a file means, or none.

    >>> [chip.id for n in ("NVIDIA H100 80GB HBM3", "Apple M5 Max", "H100-SXM-80GB") if (chip := hardware_named(n))]
    ['h100-sxm-80gb', 'm5-max-40c', 'h100-sxm-80gb']
    """
    table = _names("chips.csv", "hardware")
    plain = name.strip().lower()
    if plain in table:
        return catalog.hardware(table[plain])
    dashed = re.sub(r"[\s_/\\]+", "-", plain)
    spelled = [dashed]
    while (cut := _CHIP_WORDS.sub("", spelled[-1])) != spelled[-1]:
        spelled.append(cut)
    found = (_in_catalogue(catalog.hardware, one) for one in spelled if not one.endswith((".yaml", ".yml", ".json")))
    return next((chip for chip in found if chip is not None), None)


def _in_catalogue(find: Callable[[str], Any], name: str) -> Any:
    try:
        return find(name) if name and not name.endswith((".yaml", ".yml", ".json", ".gguf")) else None
    except UnknownName:
        return None


@lru_cache(maxsize=2)
def _names(file: str, column: str) -> dict[str, str]:
    """What publications call a thing, in lower case, and its id."""
    with (DATA / file).open(encoding="utf-8", newline="") as stream:
        return {row["name"].lower(): row[column] for row in csv.DictReader(stream) if row[column]}
