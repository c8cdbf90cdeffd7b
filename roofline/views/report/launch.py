"""How to start an engine for a load: the settings that follow from it, buckets around what is expected, a command."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np

from roofline.answers.checklist import Checklist, Setting
from roofline.specs import catalog
from roofline.specs.deployment import Deployment
from roofline.views.engine_names import NAMES, EngineNames
from roofline.views.report.blocks import Block, Code, Table, Text
from roofline.views.words import seconds, three

__all__ = ["command_of", "edges", "launch_blocks"]

FACTORS = (0.5, 0.8, 1.0, 1.25, 2.0)
TAIL = (4.0, 20.0)  # of the highest edge, for what goes wrong
APART = 1.04  # edges nearer to one another than this are one


def edges(*values: float) -> list[float]:
    """Bucket edges around values: half, 0.8, 1, 1.25 and twice of each, to three digits.

    >>> edges(0.1)
    [0.05, 0.08, 0.1, 0.125, 0.2]
    >>> edges(0.1, 0.08)
    [0.04, 0.05, 0.064, 0.08, 0.1, 0.125, 0.16, 0.2]
    """
    exact = [v for v in values if np.isfinite(v) and v > 0.0]
    kept = {float(f"{v:.3g}") for v in exact}
    for edge in sorted(float(f"{f * v:.3g}") for v in exact for f in FACTORS):
        if all(not edge / APART < other < edge * APART for other in kept):
            kept.add(edge)
    return sorted(kept)


def _buckets(c: Checklist) -> dict[str, list[float]]:
    """Of TTFT, and of TPOT and gaps together: what is promised, predicted p50 and p95 (of gaps p99), and a tail."""
    limits = {} if c.slo is None else c.slo.limits
    found = {}
    for whats in (("ttft",), ("tpot", "itl")):
        values = [v for name, v in limits.items() if name.startswith(whats)]
        values += [float(getattr(c.serving, f"{whats[0]}_{q}_s")) for q in ("p50", "p95")]
        values += [float(c.serving.itl_p99_s)] if "itl" in whats else []
        around = edges(*values)
        found[whats[0]] = [*around, *(float(f"{f * around[-1]:.3g}") for f in TAIL)] if around else []
    return found


def launch_blocks(c: Checklist) -> Iterator[Block]:
    """For every engine, its settings with their reasons, and a command."""
    if not c.serving.fits:
        yield Text("Not like this: no request fits. `roofline memory` says what would.")
        return
    for engine, settings in c.settings.items():
        names = NAMES[engine]
        whole = catalog.engine(engine)
        yield Text(
            f"**{whole.name} {names.version}**" + ("" if settings else ": nothing here speaks against its defaults.")
        )
        if settings:
            rows = [(f"`{names.flags[s.name]}`", _value(s, names), str(s.usual), _why(s)) for s in settings]
            yield Table(("flag", "set to", "by itself", "because"), rows)
        yield Code(command_of(c, engine))
    yield Text(
        "Each setting follows from the figures by itself; the formats of the weights are those of the checkpoint. "
        "Histograms get bucket edges at half, 0.8, 1, 1.25 and 2 times what is expected and promised: a percentile is only "
        "as sharp as the buckets around it."
    )


def _value(s: Setting, names: EngineNames) -> str:
    return names.kv_words.get(str(s.value), str(s.value)) if s.name == "kv" else str(s.value)


def _why(s: Setting) -> str:
    n = f"{s.figure:,.0f}"
    said = {
        ("max_seqs", "cache"): f"more at once may fill the cache of {n} tokens by their lengths alone",
        ("max_seqs", "tpot"): f"with more at once, even a step that reads no prompt takes over {_time(s.figure)}",
        ("batch_tokens", "slo"): f"keeps the objective; as it is, TPOT p95 is {_time(s.figure)} under steady arrivals",
        ("context_tokens", "longest"): f"the longest request of the workload has {n} tokens; longer ones are refused",
        ("kv", "cache"): f"the cache is full from {three(s.figure)} requests a second; at 8 bits a fifth is to spare. "
        "Check the answers: it costs accuracy",
        ("graph_seqs", "batch"): f"up to {n} decode at once, 99 times of 100; what no graph holds is launched op by op",
    }
    return said[s.name, s.reason]


def _time(value: float) -> str:
    return seconds(value) if np.isfinite(value) else "without end"


def command_of(c: Checklist, engine: str) -> str:
    """One command, one flag a line; the model is the user's to name."""
    names, d = NAMES[engine], c.deployment
    flags = [*_plan(d, names), *_given(d, engine, names)]
    flags += [f"{names.flags[s.name]} {_value(s, names)}" for s in c.settings[engine]]
    if engine == "sglang":
        flags.append("--enable-metrics")
        flags += ["--enable-metrics-for-all-schedulers"] if d.plan.dp > 1 else []  # else those of the first rank alone
    flags += _bucket_flags(engine, _buckets(c))
    return " \\\n  ".join([f"{names.command} MODEL", *flags])


def _plan(d: Deployment, names: EngineNames) -> Iterator[str]:
    """How the model is laid over chips; expert parallelism is a switch of vLLM's, a number of SGLang's."""
    plan = d.plan
    yield from (f"{names.flags[way]} {n}" for way in ("tp", "pp", "dp") if (n := getattr(plan, way)) > 1)
    if plan.ep > 1:
        yield names.flags["ep"] + (f" {plan.ep}" if names.flags["ep"].endswith("-size") else "")


def _given(d: Deployment, engine: str, names: EngineNames) -> Iterator[str]:
    """What was asked for of this engine, or of its cache, and is not what it has by itself."""
    kv = d.numerics.kv.name
    suggested = names.kv_words.get(kv)
    if suggested is not None and d.precision.kv not in (None, "auto"):
        yield f"{names.flags['kv']} {suggested}"
    if d.engine.id != engine or d.tier is None:
        return
    usual = catalog.engine(engine)
    tier = usual.tier(d.visible_bytes, chip=d.hardware.id)
    if d.engine.memory.fraction is not None and d.engine.memory.fraction != usual.memory.fraction:
        yield f"{names.flags['memory_fraction']} {d.engine.memory.fraction:g}"
    for name, now, before in (
        ("page_tokens", d.engine.pages.tokens, usual.pages.tokens),
        ("batch_tokens", d.tier.batch_tokens, tier.batch_tokens), ("max_seqs", d.tier.max_seqs, tier.max_seqs),
    ):  # fmt: skip
        if now != before:
            yield f"{names.flags[name]} {now}"


def _bucket_flags(engine: str, buckets: dict[str, list[float]]) -> list[str]:
    """vLLM takes one JSON of families (its docs, usage/metrics.md), of which one has both TPOT and gaps; SGLang lists."""
    found = {what: several for what, several in buckets.items() if several}
    if not found:
        return []
    if engine == "vllm":
        families = {"ttft": "time_to_first_token", "tpot": "inter_token_latency"}
        return [f"--custom-histogram-buckets '{json.dumps({families[w]: v for w, v in found.items()})}'"]
    flags = {"ttft": "--bucket-time-to-first-token", "tpot": "--bucket-inter-token-latency"}
    return [f"{flags[w]} {' '.join(f'{edge:g}' for edge in v)}" for w, v in found.items()]
