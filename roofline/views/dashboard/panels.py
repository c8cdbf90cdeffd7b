"""What the dashboard shows: a panel a question, the lines that were predicted drawn in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from roofline.answers.checklist import Checklist
from roofline.views.dashboard.promql import Queries, constant

__all__ = ["Panel", "Row", "rows_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One panel.

    Attributes
    ----------
    title, unit : str
        Its name, and the unit of its axis in Grafana's words.
    meaning, todo : str
        What it shows, and what to do where it leaves its lines.
    queries : tuple of (legend, query)
        Of metrics.
    lines : tuple of (legend, value)
        Constants: what is predicted, promised, or the most there is.
    top : float, optional
        Where the axis ends [unit].
    """

    title: str
    unit: str
    meaning: str
    todo: str
    queries: tuple[tuple[str, str], ...]
    lines: tuple[tuple[str, float], ...] = ()
    top: float | None = None

    @property
    def targets(self) -> tuple[tuple[str, str], ...]:
        """All of it as queries; a line that is not finite is left out."""
        drawn = ((legend, constant(value)) for legend, value in self.lines if np.isfinite(value))
        return (*self.queries, *drawn)

    @property
    def description(self) -> str:
        """Meaning, what to do, and the first query."""
        return f"{self.meaning}\n\n{self.todo}\n\nQuery: {self.queries[0][1]}"


@dataclass(frozen=True, slots=True)
class Row:
    """Panels under one heading."""

    title: str
    panels: tuple[Panel, ...]


def rows_of(c: Checklist, q: Queries) -> tuple[Row, ...]:
    """All rows."""
    return (
        Row("Time to first token", (_ttft(c, q), _queue(c, q))),
        Row("Time per output token", (_tpot(c, q), _gaps(c, q))),
        Row("Tokens a second", (_tokens(c, q, "prompt"), _tokens(c, q, "generation"))),
        Row("Cache and concurrency", (_cache(c, q), _running(c, q), _waiting(c, q), _lost(q))),
        Row("Whether the prediction still holds", tuple(_lengths(c, q))),
    )


def _times(c: Checklist, what: str) -> tuple[tuple[str, float], ...]:
    """Predicted p50, p95 and mean of a time, and what was promised of it."""
    limits = {} if c.slo is None else c.slo.limits
    predicted = [(f"predicted {q}", float(getattr(c.serving, f"{what}_{q}_s"))) for q in ("p50", "p95", "mean")]
    promised = [(f"SLO {name.split('_')[1]}", v) for name, v in limits.items() if name.startswith(f"{what}_")]
    return (*predicted, *promised)


def _percentiles(q: Queries, metric: str) -> tuple[tuple[str, str], ...]:
    return ("p50", q.quantile(metric, 0.5)), ("p95", q.quantile(metric, 0.95)), ("mean", q.mean(metric))


def _ttft(c: Checklist, q: Queries) -> Panel:
    return Panel(
        title="TTFT", unit="s", queries=_percentiles(q, "ttft"), lines=_times(c, "ttft"),
        meaning="From arrival to the first token, queueing included. Dashed lines are predicted for the planned rate and "
        "lengths.",
        todo="Above its line with a flat queue time: prompts are longer than planned. Above it with a rising queue time: "
        "more requests, or burstier ones.",
    )  # fmt: skip


def _queue(c: Checklist, q: Queries) -> Panel:
    return Panel(
        title="Queue time", unit="s", queries=(("mean", q.mean("queue")), ("p95", q.quantile("queue", 0.95))),
        lines=(("predicted mean", c.queue_s),),
        meaning="What a request waits before a step takes its prompt: the sum of all waits over their number.",
        todo="Rising while the rate is not: the cache or the places for sequences are full. Rising with it: the service "
        "nears saturation; add a replica.",
    )  # fmt: skip


def _tpot(c: Checklist, q: Queries) -> Panel:
    now = () if c.live is None or c.capacity is None else (
        ("expected now", q.tpot_now(c.live, c.capacity.kv_tokens)),)  # fmt: skip
    return Panel(
        title="TPOT", unit="s", queries=(*_percentiles(q, "tpot"), *now), lines=_times(c, "tpot"),
        meaning="Seconds for each output token after the first, a request at a time. 'expected now' is what the model of "
        "the machine makes of the sequences, the cache and the prompts of this moment; it knows no prefix cache, no drafts, "
        "and one mean context.",
        todo="Mean near 'expected now', both above the prediction: more load than planned. Mean above 'expected now': the "
        "machine is slower than the model says; look at clocks, neighbours, settings.",
    )  # fmt: skip


def _gaps(c: Checklist, q: Queries) -> Panel:
    limits = {} if c.slo is None else c.slo.limits
    promised = [("SLO p99", limits["itl_p99_s"])] if "itl_p99_s" in limits else []
    return Panel(
        title="Gap between tokens", unit="s", queries=(("p99", q.quantile("itl", 0.99)), ("mean", q.mean("itl"))),
        lines=(("predicted p99", float(c.serving.itl_p99_s)), *promised),
        meaning="The gap between two tokens that 99 of 100 stay within: what a chunk of a prompt does to everybody else.",
        todo="Above its line: prompts are longer than planned, or the token budget of a step is larger. A smaller budget "
        "shortens the gaps and lengthens TTFT.",
    )  # fmt: skip


def _tokens(c: Checklist, q: Queries, what: str) -> Panel:
    s = c.serving
    kept, rate = 1.0 - s.rejected, min(c.rate_per_s, float(s.saturation_per_s))
    per_request = c.mix.prompt_mean if what == "prompt" else c.mix.output_mean
    at_rate = rate * kept * per_request if what == "prompt" else float(s.output_tokens_per_s)
    verb = "read" if what == "prompt" else "written"
    return Panel(
        title=f"{what.capitalize()} tokens a second", unit="short",
        queries=(("all servers", q.rate(f"{what}_tokens")),),
        lines=(("predicted", at_rate), ("capacity", float(s.saturation_per_s) * kept * per_request)),
        meaning=f"Tokens {verb} a second by all servers. The capacity is what they can take of this mix in the long run.",
        todo="Near the capacity: TTFT is about to grow without end; add a replica. Below the prediction at the planned "
        "rate of requests: lengths have changed.",
    )  # fmt: skip


def _cache(c: Checklist, q: Queries) -> Panel:
    holds = "" if c.capacity is None else f" 1 is {c.capacity.kv_tokens:,.0f} tokens by the estimate."
    return Panel(
        title="Cache in use", unit="percentunit", top=1.0,
        queries=(("mean", q.average("kv_use")), ("fullest server", q.highest("kv_use"))),
        lines=(("predicted mean", float(min(c.serving.kv_use, 1.0))), ("capacity", 1.0)),
        meaning=f"Share of the KV cache that sequences hold.{holds}",
        todo="Above 0.9 for minutes: sequences will lose their pages. Cap sequences, narrow the cache, or add a replica.",
    )  # fmt: skip


def _ranks(c: Checklist) -> int:
    return c.n_replicas * c.deployment.plan.dp


def _running(c: Checklist, q: Queries) -> Panel:
    n, room = _ranks(c), c.capacity
    most = () if room is None else (("capacity (places)", float(room.max_seqs * n)),)
    full = () if room is None or room.full_n_seq is None else (("capacity (cache)", room.full_n_seq * n),)
    return Panel(
        title="Running requests", unit="short", queries=(("all servers", q.total("running")),),
        lines=(("predicted", float(c.serving.n_seq) * n), *full, *most),
        meaning="Requests that are read or decoded now. At the capacity of the cache one look in a hundred finds it full; "
        "the capacity of places is the engine's own cap.",
        todo="Above the prediction at the planned rate: answers are longer, or tokens slower.",
    )  # fmt: skip


def _waiting(c: Checklist, q: Queries) -> Panel:
    return Panel(
        title="Waiting requests", unit="short", queries=(("all servers", q.total("waiting")),),
        lines=(("predicted", c.waiting),),
        meaning="Requests that no step has taken yet. The prediction is the rate times the mean wait (Little's law).",
        todo="Above 0 for minutes: saturated, whatever the other panels say.",
    )  # fmt: skip


def _lost(q: Queries) -> Panel:
    return Panel(
        title="Lost pages", unit="short", queries=(("in the window", q.grown("preemptions")),),
        lines=(("predicted", 0.0),),
        meaning="How often a running sequence lost its pages and had to be read again.",
        todo="Any: the cache does not hold the concurrency. Each costs a prompt's time and shows as a long gap.",
    )  # fmt: skip


def _lengths(c: Checklist, q: Queries) -> Iterator[Panel]:
    """How long prompts and answers are now: by histogram, or where an engine has none by default, tokens over requests."""
    m = c.mix
    prompt = (("p50", m.prompt_p50), ("p95", m.prompt_p95), ("mean", m.prompt_mean))
    answer = (("p50", m.output_p50), ("p95", m.output_p95), ("mean", m.output_mean))
    for name, what, counter, lines in (
        ("Prompt", "prompt_length", "prompt_tokens", prompt), ("Answer", "output_length", "generation_tokens", answer),
    ):  # fmt: skip
        has = what in q.names.metrics
        yield Panel(
            title=f"{name} length", unit="short",
            queries=_percentiles(q, what) if has else (("mean", q.per(counter, "requests")),),
            lines=tuple((f"predicted {of}", v) for of, v in lines if has or of == "mean"),
            meaning=f"Tokens of a {name.lower()}, now and as they were planned for.",
            todo="Off its lines: no line of this dashboard holds any more. Take a new trace and generate it again.",
        )  # fmt: skip
