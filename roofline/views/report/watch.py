"""The fourth answer: the metrics that cover TTFT, tokens a second and memory, and what each should say at this rate."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from roofline.answers.checklist import Checklist, State, alarm_s
from roofline.num import Num
from roofline.views.engine_names import NAMES, EngineNames
from roofline.views.report.blocks import Block, Table, Text
from roofline.views.words import percent, seconds, three

__all__ = ["names_of", "watch_blocks", "watch_state"]


def names_of(c: Checklist) -> EngineNames:
    """The words of the deployment's engine; vLLM's where it has none here."""
    return NAMES.get(c.deployment.engine.id, NAMES["vllm"])


def watch_state(c: Checklist) -> State:
    """A note where an engine's own buckets cannot tell what is expected from 0."""
    return "note" if _blind(c) else "ok"


def _blind(c: Checklist) -> list[tuple[str, float, float]]:
    """Times whose median is below the lowest edge of the engine's own buckets: name, median, edge."""
    edges = names_of(c).first_edge_s
    medians = {what: float(getattr(c.serving, f"{what}_p50_s")) for what in edges}
    return [(what.upper(), medians[what], edge) for what, edge in edges.items() if medians[what] < edge]


def watch_blocks(c: Checklist) -> Iterator[Block]:
    """A row a metric; what its values mean."""
    m, s = names_of(c).metrics, c.serving
    if not s.fits:
        yield Text("Nothing is to be expected of a service that holds no request.")
        return
    yield Text(
        "A dashboard with these lines drawn in: `roofline dashboard` with the same arguments. Compare in the first hour; a "
        "metric that leaves its line says which answer above no longer holds."
    )
    total = c.n_replicas * c.deployment.plan.dp
    rows = [
        _of_time(c, "TTFT", m["ttft"], "ttft"), _of_time(c, "TPOT", m["tpot"], "tpot"),
        ("Gap between tokens", f"`{m['itl']}`", f"p99 {_time(s.itl_p99_s)}", _alarm(c, "itl_p99_s")),
        ("Wait for a place", f"`{m['queue']}`", f"mean {_time(c.queue_s)}", "a rising mean: the rate, or its bursts, grew"),
        ("Cache in use", f"`{m['kv_use']}`", f"mean {percent(min(s.kv_use, 1.0)) if np.isfinite(s.kv_use) else '100 %'}",
         "above 90 % for minutes"),
        ("Decoding", f"`{m['running']}`", f"{_number(s.n_seq * total)} in all", _cap(c, total)),
        ("Waiting", f"`{m['waiting']}`", f"mean {_number(c.waiting)}", "above 0 for minutes: saturated"),
        ("Lost pages", f"`{m['preemptions']}`", "0", "any: answer 3 no longer holds"),
        ("Tokens read", f"`{m['prompt_tokens']}`", f"{_number(_read_per_s(c))} a second", "drifting lengths: ask again"),
        ("Tokens written", f"`{m['generation_tokens']}`", f"{_number(s.output_tokens_per_s)} a second",
         f"at most {_number(s.saturation_per_s * (1.0 - s.rejected) * c.mix.output_mean)} in the long run"),
    ]  # fmt: skip
    yield Table(("what", "metric", "expected at the rate", "wake somebody at"), rows)
    for name, median, edge in _blind(c):
        yield Text(f"{name} is expected at {seconds(median)}, but the lowest edge of the usual buckets is {seconds(edge)}: "
                   "all of it falls into one. The commands below set others.")  # fmt: skip


def _read_per_s(c: Checklist) -> float:
    s = c.serving
    return min(c.rate_per_s, float(s.saturation_per_s)) * (1.0 - s.rejected) * c.mix.prompt_mean


def _of_time(c: Checklist, name: str, metric: str, what: str) -> tuple[str, str, str, str]:
    s = c.serving
    p50, p95 = (float(getattr(s, f"{what}_{q}_s")) for q in ("p50", "p95"))
    return name, f"`{metric}`", f"p50 {_time(p50)}, p95 {_time(p95)}", _alarm(c, f"{what}_p95_s")


def _alarm(c: Checklist, name: str) -> str:
    value = alarm_s(c, name)
    which = name.split("_")[1]
    promised = c.slo is not None and name in c.slo.limits
    return (
        "–"
        if value is None
        else f"{which} {seconds(value)} ({'promised' if promised else 'upper edge of the estimate'})"
    )


def _cap(c: Checklist, total: int) -> str:
    room = c.capacity
    full = None if room is None else room.full_n_seq
    return "–" if full is None else f"{full * total:,.0f} in all: the cache fills"


def _time(value: Num) -> str:
    return seconds(value) if np.isfinite(value) else "grows"


def _number(value: Num) -> str:
    return three(value) if np.isfinite(value) else "grows"
