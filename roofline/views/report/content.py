"""What the report before a launch says: four questions, their answers, and how to start."""

from __future__ import annotations

import numpy as np

from roofline.answers.checklist import Checklist, State
from roofline.answers.estimates import known_of
from roofline.answers.levers import decode_limit
from roofline.num import Num
from roofline.specs.arrivals import Gamma, Recorded
from roofline.specs.slo import SLO
from roofline.specs.workload import Workload
from roofline.units import format_bytes, format_si
from roofline.views.engine_names import NAMES
from roofline.views.report.blocks import Block, Report, Section, Shares, Table, Text, plain
from roofline.views.report.launch import launch_blocks
from roofline.views.report.room import room_blocks
from roofline.views.report.watch import watch_blocks, watch_state
from roofline.views.words import percent, seconds, three, trust, ways

__all__ = ["brief", "report_of", "states_of"]

WORDS: dict[State, str] = {"ok": "OK", "note": "NOTE", "fail": "FAIL"}
TIMES = {
    "ttft": "TTFT", "tpot": "TPOT", "itl": "gap between tokens", "e2e": "whole request",
}  # fmt: skip


def report_of(c: Checklist) -> Report:
    """All of it; whatever it is written as."""
    states = states_of(c)
    sections = (
        Section("1. What is the mix of requests, and which phase does it load?", WORDS[states["mix"]], _mix(c)),
        Section("2. Is the chip short of compute or of bandwidth for it?", WORDS[states["chip"]], _chip(c)),
        Section("3. Do cache and batch hold the concurrency?", WORDS[states["cache"]], list(room_blocks(c))),
        Section("4. Which metrics to watch, and what should they say?", WORDS[states["watch"]], list(watch_blocks(c))),
        Section("How to start", "", list(launch_blocks(c))),
        Section("What stands behind this", "", _evidence(c)),
    )
    from roofline import __version__

    d = c.deployment
    title = f"Before a launch: {plain(d.model.id)} on {_machines(c)}"
    foot = f"roofline {__version__}. Estimates, not measurements; run a load test at this rate before users do."
    return Report(title, _state(states), _verdict(states), _head(c), sections, foot)


def states_of(c: Checklist) -> dict[str, State]:
    """Of all four questions, whether the answer stands against a launch."""
    return c.states | {"watch": watch_state(c)}


def _state(states: dict[str, State]) -> str:
    if "fail" in states.values():
        return "NOT READY"
    return "READY WITH NOTES" if "note" in states.values() else "READY"


def _verdict(states: dict[str, State]) -> str:
    failed, noted = ([name for name, state in states.items() if state == kind] for kind in ("fail", "note"))
    names = {"mix": "the mix (1)", "chip": "the chip (2)", "cache": "the cache (3)", "watch": "the metrics (4)"}
    said = []
    if failed:
        said.append(f"{len(failed)} of 4 fail: {' and '.join(names[n] for n in failed)}")
    if noted:
        said.append(f"{'a note' if len(noted) == 1 else 'notes'} on {', '.join(names[n] for n in noted)}")
    return f"{'; '.join(said) or 'all four answers speak for it'}."


def brief(c: Checklist) -> list[str]:
    """The report in a line a question, for a terminal."""
    states, m, s = states_of(c), c.mix, c.serving
    lines = [f"{_state(states)}: {_verdict(states)}"]
    read = percent(m.prefill_time_share)
    asked = f"{m.prompt_mean:,.0f} in / {m.output_mean:,.0f} out"
    said = {"mix": f"{asked}, {m.kind}: {read} of a busy replica's time reads prompts",
            "chip": f"{_load(c)}; {_short(c)}", "cache": _full(c), "watch": _expected(c)}  # fmt: skip
    lines += [f"  {i}. {WORDS[states[name]]:<5} {text}" for i, (name, text) in enumerate(said.items(), 1)]
    return lines if s.fits else [lines[0], f"  No request fits: {_short_by(c)}."]


def _short_by(c: Checklist) -> str:
    return f"{format_bytes(float(c.memory.short_by_bytes))} too much on each chip"


def _full(c: Checklist) -> str:
    room = c.capacity
    if room is None:
        return "no request fits"
    if room.full_rate_per_s is None:
        return f"the cache of {room.kv_tokens:,.0f} tokens holds all that the replica can serve"
    return (
        f"the cache of {room.kv_tokens:,.0f} tokens is full from {three(room.full_rate_per_s)}/s on, "
        f"{c.headroom or 0.0:.2f}× the rate"
    )


def _expected(c: Checklist) -> str:
    s = c.serving
    if not s.stable:
        return "no steady state to expect"
    return f"TTFT p95 {seconds(s.ttft_p95_s)}, TPOT p95 {seconds(s.tpot_p95_s)} at the rate, by {s.method}"


def _load(c: Checklist) -> str:
    s = c.serving
    return f"{percent(s.load) if np.isfinite(s.load) else 'more than all'} of the {three(s.saturation_per_s)}/s it can serve"


def _machines(c: Checklist) -> str:
    d = c.deployment
    many = f"{c.n_replicas} replicas of " if c.n_replicas > 1 else ""
    return f"{many}{d.n_chips} × {plain(d.hardware.id)}{ways(d.plan)}"


def _head(c: Checklist) -> Table:
    d, n = c.deployment, c.deployment.numerics
    return Table(("", ""), [
        ("Service", f"`{plain(d.model.id)}` on {_machines(c)}, {n.weights_name} weights, {n.kv.name} KV, {d.engine.name}"),
        ("Load", f"{c.rate_per_s:g} requests a second: {_workload(c.workload)}"),
        ("Promised", _slo(c.slo) or "nothing was said (--slo ttft_p95=1s,tpot_p95=50ms); no limit is judged"),
        ("Times", known_of(d).said),
    ])  # fmt: skip


def _workload(w: Workload) -> str:
    name = f" of {plain(w.name)}" if w.name else ""
    alike = int(np.ptp(w.prompt_tokens)) == 0 and int(np.ptp(w.output_tokens)) == 0
    lengths = "all alike" if alike else f"lengths of {len(w):,} requests{name}"
    match w.arrivals:
        case Recorded():
            come = "as they were recorded, at this mean rate"
        case Gamma(scv):
            come = f"in bursts (CV² of the gaps {scv:g})" if scv > 1.0 else f"evenly (CV² of the gaps {scv:g})"
        case _:
            come = "as independent users send them"
    return f"{lengths}, {come}"


def _slo(slo: SLO | None) -> str:
    limits = {} if slo is None else slo.limits
    return ", ".join(f"{_name(name)} within {seconds(v)}" for name, v in limits.items())


def _name(field: str) -> str:
    """ttft_p95_s as people say it.

    >>> _name("ttft_p95_s"), _name("e2e_mean_s")
    ('TTFT p95', 'whole request, mean')
    """
    what, which, _ = field.split("_")
    return f"{TIMES[what]} {which}" if which != "mean" else f"{TIMES[what]}, mean"


# the four answers; the third and the fourth have modules of their own


def _mix(c: Checklist) -> list[Block]:
    m, s = c.mix, c.summary
    ratio, even = three(m.prompt_to_output), three(m.break_even) if np.isfinite(m.break_even) else "no"
    blocks: list[Block] = [
        Text(
            f"{m.prompt_mean:,.0f} prompt tokens and {m.output_mean:,.0f} tokens of answer in the mean: {m.lengths}, "
            f"{ratio} to 1. With {_decoding(m.batch)}, both phases take a replica as long at {even} to 1, so the load is "
            f"**{m.kind}**."
        ),
        Shares("Time of a busy replica", _two(m.prefill_time_share)),
        Table(
            ("one request", "time", "FLOPs", "bytes", "FLOP/B", "binds"),
            [
                ("reading the prompt", seconds(m.prefill_s), percent(m.prefill_flops_share), percent(m.prefill_bytes_share),
                 three(m.prefill_intensity), m.prefill_bound),
                ("writing the answer", seconds(m.decode_s), percent(1.0 - m.prefill_flops_share),
                 percent(1.0 - m.prefill_bytes_share), three(m.decode_intensity), m.decode_bound),
            ],
        ),
        Table(
            ("tokens", "mean", "p50", "p95", "p99"),
            [("prompt", *(f"{v:,.0f}" for v in (m.prompt_mean, m.prompt_p50, m.prompt_p95, s.prompt_p99))),
             ("answer", *(f"{v:,.0f}" for v in (m.output_mean, m.output_p50, m.output_p95, s.output_p99)))],
        ),
    ]  # fmt: skip
    if m.alike:
        blocks.append(Text("Only one length was given. Queues, cache and p95 are made by the long requests: give a trace "
                           "of real ones (`--workload PATH`) before trusting the percentiles below."))  # fmt: skip
    if s.reuse:
        blocks.append(Text(f"{percent(s.reuse)} of the blocks of prompts come again: a prefix cache, on by default in both "
                           "engines, saves reading them while it holds them. The shares above are of whole prompts; the "
                           "times below are with it."))  # fmt: skip
    return blocks


def _decoding(n: float) -> str:
    return "one sequence decoding" if n == 1.0 else f"{n:,.0f} sequences decoding at once"


def _two(first: float) -> tuple[tuple[str, float], ...]:
    return ("reading prompts", first), ("writing answers", 1.0 - first)


def _chip(c: Checklist) -> list[Block]:
    m, s = c.mix, c.serving
    sides = [f"{name} runs at {three(i)} FLOP/B, {_side(i, m.ridge)} of {three(m.ridge)}, and is bound by {_bound(bound)}"
             for name, i, bound in (("reading", m.prefill_intensity, m.prefill_bound),
                                    ("writing", m.decode_intensity, m.decode_bound))]  # fmt: skip
    blocks: list[Block] = [Text(f"{_upper(sides[0])}; {sides[1]}. {_limit(c)}")]
    if not s.fits:
        return [
            *blocks,
            Text(f"No request fits: {_short_by(c)}. Fewer bits, more chips or a smaller model come first."),
        ]
    blocks.append(Text(f"The service takes {_load(c)}. {_upper(_short(c))}."))
    blocks.append(_times(c))
    if s.method == "simulation" and c.changes:
        blocks.append(Text(_bursts(c)))
    rows = [(v.name, f"{three(v.saturation_per_s)}/s", _gain(v.saturation_gain), _time(v.ttft_p95_s), _time(v.tpot_p95_s))
            for v in c.changes]  # fmt: skip
    blocks.append(Text("What would help, each by itself, at the same rate and under steady arrivals:"))
    blocks.append(Table(("change", "can serve", "more", "TTFT p95", "TPOT p95"), rows))
    return blocks


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def _side(intensity: float, ridge: float) -> str:
    return "past the ridge" if intensity >= ridge else "below the ridge"


def _bound(bound: str) -> str:
    return {"memory": "memory bandwidth", "link": "links between chips", "overhead": "launches"}.get(bound, bound)


def _limit(c: Checklist) -> str:
    """Whether batching would carry decode past the ridge."""
    m = c.mix
    if m.decode_bound != "memory":
        return ""
    limit = decode_limit(c.deployment, context_tokens=max(m.context_mean - 1.0, 0.0))
    lifts = (
        "no batch carries it past the ridge" if limit < m.ridge else "a large enough batch carries it past the ridge"
    )
    return f"As the batch grows, decoding at these contexts tends to {three(limit)} FLOP/B: {lifts}."


def _short(c: Checklist) -> str:
    return {
        "compute": "it is short of compute: more bandwidth would add little",
        "bandwidth": "it is short of bandwidth: more compute would add little",
        "both": "it is short of both: prompts wait for compute, answers for bandwidth",
        "neither": "neither compute nor bandwidth limits it: launches, links or places for sequences do",
    }[c.short_of]


def _bursts(c: Checklist) -> str:
    """What the closed form, which knows no bursts, says beside the simulation."""
    steady = c.changes[0]
    return (
        f"These are by simulation, as {plain(c.serving.why)}. By the closed form, for arrivals of independent users at the "
        f"same rate: TTFT p95 {_time(steady.ttft_p95_s)}, TPOT p95 {_time(steady.tpot_p95_s)}."
    )


def _times(c: Checklist) -> Table:
    """Every time, and its limit where one was promised."""
    limits = {} if c.slo is None else c.slo.limits
    names = dict.fromkeys(("ttft_p50_s", "ttft_p95_s", "tpot_p50_s", "tpot_p95_s", "itl_p99_s", *limits))
    rows = []
    for name in names:
        value, limit = float(getattr(c.serving, name)), limits.get(name)
        verdict = "" if limit is None else "kept" if value <= limit else f"missed{_by(value, limit)}"
        rows.append((_name(name), _time(value), "–" if limit is None else seconds(limit), verdict or "–"))
    return Table(("at the rate", "expected", "promised", ""), rows)


def _by(value: float, limit: float) -> str:
    return f" by {100.0 * (value / limit - 1.0):,.0f} %" if np.isfinite(value) else ""


def _time(value: Num) -> str:
    return seconds(value) if np.isfinite(value) else "grows"


def _gain(gain: float) -> str:
    return f"{100.0 * gain:+.0f} %".replace("-", "−") if abs(gain) >= 0.005 else "–"


def _evidence(c: Checklist) -> list[Block]:
    d, s = c.deployment, c.serving
    said = [*(sentence for sentence in trust(d) if sentence != known_of(d).said), *s.notes]
    why = f", as {plain(s.why)}" if s.why else ""
    n = format_si(c.mix.prefill_flops + c.mix.decode_flops, "FLOP")
    said.append(f"the service at the rate: {s.method}{why}; a request is {n} on one chip")
    begun = (
        "find what others began with in a prefix cache" if c.workload.block_ids else "find nothing in a prefix cache"
    )
    said.append(f"requests wait for ever, are independent of one another's answers, and {begun}")
    if d.engine.id not in NAMES:
        said.append(f"the settings are of vLLM and SGLang at their defaults; the figures above of {d.engine.name}")
    return [Text(f"{_upper(plain(sentence))}.") for sentence in said]
