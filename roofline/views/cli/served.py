"""A service under load in words: a table of times, what is full, where waiting begins to hurt, what the promise says."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from roofline.answers.serving import Serving
from roofline.answers.serving.limits import CLOSE
from roofline.answers.serving.service import replica_of
from roofline.specs.slo import SLO
from roofline.views.cli.common import print_table, say, table
from roofline.views.cli.serve_at import Answer, Asked, Found
from roofline.views.cli.words import percent, seconds, three, trust, ways

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["show"]

SHARES = ("mean", "p50", "p95", "p99")
ROWS = {"ttft": "TTFT", "tpot": "TPOT", "itl": "Gap between tokens", "e2e": "Whole request"}
BEYOND_POISSON = 0.1  # from where a trace is said to be far from Poisson


def show(found: Found) -> None:
    """The answer for people."""
    one = len(found.answers) == 1
    lines = [*_load_lines(found), *_knee_lines(found), *_trace_lines(found), *_slo_lines(found)]
    for line in _head(found, one=one):
        say(line)
    say()
    if found.limit is None:
        d = found.asked.deployment
        say(f"No such request fits on {d.n_chips} × {d.hardware.id}: roofline memory says by how much, and what would.")
        return
    print_table(_one(found.answers[0], found.asked.slo) if one else _many(found))
    say()
    if one:
        for label, text in _facts(found):
            say(f"{label:<12}{text}")
        say()
    for line in lines:
        say(line)


def _head(found: Found, *, one: bool) -> list[str]:
    """Who serves whom, and what stands behind the times."""
    asked = found.asked
    d, n = asked.deployment, asked.deployment.numerics
    replicas = asked.options["n_replicas"]
    many = "" if replicas == 1 else f"{replicas:,} replicas ({asked.options['routing']}) of "
    rate = f"   {_rate(asked.rates[0])}" if one else ""
    formats = f"{n.weights_name} weights, {n.kv.name} KV"
    lines = [f"{d.model.id} on {many}{d.n_chips} × {d.hardware.id}{ways(d.plan)}   {formats}{rate}"]
    lines.append(f"requests: {asked.load.said}")
    lines += trust(d)
    if d.engine.id != "ideal":
        lines.append(f"engine: memory and schedule of {d.engine.name} {d.engine.version}")
    replica = replica_of(d)
    if replica is not None:
        each = "a replica" if d.plan.dp == 1 else "a data-parallel rank"
        held = f"{replica.kv_tokens:,} tokens of cache"
        lines.append(f"{each}: up to {replica.batch_tokens:,} tokens a step, {replica.max_seqs:,} sequences, {held}")
    notes = dict.fromkeys(note for answer in found.answers for note in answer.served.notes)
    return [*lines, *(f"note: {sentence}" for sentence in notes)]


def _rate(rate: float) -> str:
    return "1 request/s" if rate == 1.0 else f"{three(rate)} requests/s"


# Tables


def _time(served: Serving, name: str) -> str:
    """A time, with its error where it was simulated in several runs; a dash where there is none."""
    value, error = float(getattr(served, f"{name}_s")), served.errors.get(f"{name}_s")
    if value == 0.0:  # of answers of one token, what comes after it
        return "–"
    if math.isinf(value):
        return "∞"
    said = seconds(value)
    return said if error is None else _with_error(said, value, float(np.asarray(error)))


def _with_error(said: str, value: float, error: float) -> str:
    """`130 ± 3 ms`: the error in the unit of the time, to as many decimals.

    >>> _with_error("130 ms", 0.1304, 0.0025), _with_error("1.69 s", 1.692, 0.011)
    ('130 ± 2 ms', '1.69 ± 0.01 s')
    """
    number, _, unit = said.rpartition(" ")
    scale = {"s": 1.0, "ms": 1e3, "µs": 1e6, "ns": 1e9}[unit]
    decimals = len(number.partition(".")[2])
    return f"{number} ± {error * scale:.{decimals}f} {unit}"


def _one(answer: Answer, slo: SLO | None) -> Table:
    """A row a kind of time; of recorded arrivals a second one, as Poisson's would be."""
    verdict = ["<SLO"] if slo is not None else []
    rows = table(*SHARES, *verdict, first="")
    for kind, label in ROWS.items():
        says = [_verdict(answer, slo, kind)] if slo is not None else []
        recorded = ", recorded arrivals" if answer.poisson is not None else ""
        rows.add_row(f"{label}{recorded}", *_cells(answer.served, kind), *says)
        if answer.poisson is not None:
            rows.add_row("  Poisson arrivals", *_cells(answer.poisson, kind), *([""] if says else []))
    return rows


def _cells(served: Serving, kind: str) -> list[str]:
    names = [f"{kind}_{share}" for share in SHARES]
    return [_time(served, name) if hasattr(served, f"{name}_s") else "" for name in names]


def _verdict(answer: Answer, slo: SLO, kind: str) -> str:
    """OK or MISS of every limit on a kind of time."""
    said = []
    for name, limit in slo.limits.items():
        what, share = name.removesuffix("_s").split("_")
        if what == kind:
            said.append(f"{share} ≤ {seconds(limit)} {_met(answer, name, limit)}")
    return ", ".join(said)


def _met(answer: Answer, name: str, limit: float) -> str:
    value = float(getattr(answer.served, name))
    if name not in answer.missed:
        return "OK"
    over = value / limit - 1.0
    if not math.isfinite(over):
        return "MISS"
    return f"MISS by {percent(over)}" if over < 10.0 else f"MISS, {over + 1.0:,.0f}×"


def _many(found: Found) -> Table:
    """A row a rate; of recorded arrivals a second one."""
    asked = found.asked
    first = ["<arrivals"] if asked.load.recorded else []
    verdict = ["<SLO"] if asked.slo is not None else []
    names = ("TTFT p50", "TTFT p95", "TTFT p99", "TPOT p50", "TPOT p95", "gap p99", "whole", "batch", "KV", "<method")
    rows = table("load", *first, *names, *verdict, first="rate")
    for answer in found.answers:
        for served, come in ((answer.served, "recorded"), (answer.poisson, "Poisson")):
            if served is None:
                continue
            main = come == "recorded"
            word = [_word(answer) if main else ""] if verdict else []
            label = f"{three(float(served.rate_per_s))}/s" if main else ""
            rows.add_row(label, *_row(served, [come] if first else []), *word)
    return rows


def _row(served: Serving, come: list[str]) -> list[str]:
    if not served.stable:
        return [percent(served.load), *come, *["∞"] * 7, "", "", "unstable"]
    times = ("ttft_p50", "ttft_p95", "ttft_p99", "tpot_p50", "tpot_p95", "itl_p99", "e2e_mean")
    kept = [three(served.n_seq), percent(served.kv_use), str(served.method)]
    return [percent(served.load), *come, *(_time(served, name) for name in times), *kept]


def _word(answer: Answer) -> str:
    """OK, or by how much the worst of its limits is missed."""
    return "OK" if answer.meets else "MISS"


# Sentences


def _facts(found: Found) -> list[tuple[str, str]]:
    served = found.answers[0].served
    load = f"{percent(served.load)} of the {_rate(served.saturation_per_s)} at which it saturates"
    if not served.stable:
        return [("Load", load)]
    each = "" if found.asked.options["n_replicas"] == 1 else " on each replica"
    cache = f"the cache {percent(served.kv_use)} full in the mean"
    alone, everyone = float(served.tokens_per_s_per_user), three(served.output_tokens_per_s)
    user = f"{three(alone)} tok/s per user, " if math.isfinite(alone) else ""
    facts = [
        ("Load", load),
        ("Batch", f"{three(served.n_seq)} sequences decode at once{each}; {cache}"),
        ("Speed", f"{user}{everyone} in all, {three(served.output_tokens_per_s_per_chip)} a chip"),
        ("Method", _method(found, served)),
    ]
    if served.preemptions:
        facts.append(("Preempted", f"{three(served.preemptions)} times for every request"))
    if served.rejected:
        facts.append(("Rejected", f"{percent(served.rejected)} of the requests are longer than anything it can hold"))
    return facts


def _method(found: Found, served: Serving) -> str:
    if served.method == "closed form":
        return "closed form" if not served.why else f"closed form, not to be trusted here: {served.why}"
    options, recorded = found.asked.options, found.asked.load.recorded
    runs = f"{options['n_runs']} runs" if not recorded and options["n_runs"] > 1 else "one run"
    error = "; ± is one standard error" if served.errors else ""
    why = f", as {served.why}" if served.why else ""
    return f"simulation, {runs}{why}{error}"


def _load_lines(found: Found) -> list[str]:
    """Where it is unstable, and what is full first."""
    lines = []
    n = found.asked.options["n_replicas"]
    for answer in found.answers:
        served = answer.served
        if not served.stable and served.fits:
            rate = float(served.rate_per_s)
            enough = math.floor(rate / served.saturation_per_s * n) + 1
            share = percent(rate / (served.saturation_per_s * enough / n))
            lines.append(
                f"At {_rate(rate)} the queue grows for ever: it saturates at {three(served.saturation_per_s)}/s. "
                f"{enough:,} replicas would be loaded to {share}."
            )
    if found.limit is not None:
        lines.append(_full_first(found))
    return lines


def _full_first(found: Found) -> str:
    limit, d = found.limit, found.asked.deployment
    most = found.answers[0].served.saturation_per_s
    if limit is None:
        return ""
    begin = f"It saturates at {three(most)}/s, where"
    if limit.name == "steps":
        replica = replica_of(d)
        size = f"{replica.batch_tokens:,} tokens" if replica is not None else "its tokens"
        return f"{begin} its steps are full: {size} take {seconds(limit.step_s)}."
    rest = f"with room for more, at {three(limit.relieved_per_s)}/s"
    if limit.name == "cache":
        return f"{begin} the cache is full, with {limit.n_seq:,.0f} such requests at once; {rest}."
    return f"{begin} all {limit.n_seq:,.0f} sequences are taken (--max-seqs); {rest}."


def _knee_lines(found: Found) -> list[str]:
    at, along = found.knee_per_s, found.along
    if at is None or along is None:
        return []
    idle = float(np.asarray(along.ttft_p95_s)[0])
    why = np.asarray(along.why)[min(int(np.searchsorted(along.rate_per_s, at)), np.size(along.rate_per_s) - 1)]
    were = " were arrivals Poisson's" if found.asked.load.recorded else ""
    rough = " (roughly: the closed form is not trusted there)" if why else ""
    said = f"The knee is at {three(at)}/s{were}: from there TTFT p95 is over twice the {seconds(idle)} of no load"
    return [f"{said}{rough}."]


def _trace_lines(found: Found) -> list[str]:
    """How different recorded arrivals are from those that sizing by a mean rate assumes, where they differ most."""
    pairs = [(answer.served, answer.poisson) for answer in found.answers if answer.poisson is not None]
    pairs = [(s, p) for s, p in pairs if math.isfinite(float(s.ttft_p95_s)) and p.stable]
    if not pairs:
        return []
    s, p = max(pairs, key=lambda pair: float(pair[0].ttft_p95_s) / float(pair[1].ttft_p95_s))
    times = {"TTFT": "ttft_p95_s", "TPOT": "tpot_p95_s"}
    both = {w: (float(getattr(s, n)), float(getattr(p, n))) for w, n in times.items()}
    told = [f"{word} p95 {_compared(*values)}" for word, values in both.items() if math.isfinite(values[0])]
    lines = [f"At {three(float(s.rate_per_s))}/s, as recorded and not as Poisson arrivals: {'; '.join(told)}."]
    if any(abs(value / other - 1.0) > BEYOND_POISSON for value, other in both.values() if math.isfinite(value)):
        lines.append(_burst(found.asked))
    return lines


def _compared(value: float, other: float) -> str:
    """What it is, and what Poisson arrivals of the same lengths would give."""
    ratio = value / other
    change = f"{ratio:.1f}×" if ratio >= 2.0 else f"{100.0 * (ratio - 1.0):+.0f} %".replace("-", "−")
    return f"{seconds(value)}, not {seconds(other)} ({change})"


def _burst(asked: Asked) -> str:
    summary = asked.load.workload.summary()
    told = f"CV² of the gaps {three(summary.gap_scv or 0.0)}"
    told += f", fullest minute {three(summary.peak_minute_over_mean or 0.0)} times the mean"
    return f"Requests come in bursts ({told}): a mean rate and Poisson do not size this."


def _slo_lines(found: Found) -> list[str]:
    slo, highest = found.asked.slo, found.highest
    if slo is None or highest is None or found.limit is None:
        return []
    how = "closed form" if highest.method == "closed form" else f"simulation, to {100 * CLOSE:.0f} % of saturation"
    if highest.rate_per_s <= 0.0:
        return ["The SLO is missed at any rate."]
    said = f"The SLO is kept up to {three(highest.rate_per_s)}/s ({how})"
    steady = found.highest_poisson
    if steady is not None and highest.method == "simulation":
        said += f"; were arrivals Poisson's, up to {three(steady.rate_per_s)}/s"
    return [f"{said}."]
