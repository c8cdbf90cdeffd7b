"""`roofline serve-at`: a service at a rate of requests, with queues and percentiles; up to what rate it keeps a promise."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import typer

from roofline.answers.records import evidence_of
from roofline.answers.serving import Serving, serve
from roofline.answers.serving.knee import knee
from roofline.answers.serving.limits import CLOSE, Highest, Limit, curve, highest_rate, limit_of
from roofline.errors import SpecError
from roofline.specs.deployment import Deployment
from roofline.specs.slo import SLO
from roofline.views.cli.common import Activations, Head, Json, Kv, ModelName, Output, Search, Weights, print_json, say
from roofline.views.cli.load import (
    ArrivalsAsked,
    Cv,
    Load,
    Replicas,
    RequestsAsked,
    RoutingAsked,
    Runs,
    Seed,
    Slo,
    WorkloadAsked,
    load_of,
    method_of,
    one_pool,
    rates_of,
    running,
    slo_of,
)
from roofline.views.cli.options import Ways, build, levered
from roofline.views.progress import progress

__all__ = ["Answer", "Asked", "Found", "serve_at"]

Step = Callable[[str], None] | None


@levered
def serve_at(
    model: ModelName,
    hardware: Annotated[str, typer.Argument(help="The chip of a replica, or of its parts.", show_default=False)],
    rate: Annotated[
        list[str] | None, typer.Option("--rate", "-r", help="Requests a second that arrive; several give a table.")
    ] = None,
    workload: WorkloadAsked = None,
    prompt: Annotated[str | None, typer.Option("--prompt", "-p", help="Mean prompt tokens.  [default: 2048]")] = None,
    output: Output = None,
    cv: Cv = None,
    arrivals: ArrivalsAsked = None,
    replicas: Replicas = "1",
    routing: RoutingAsked = "random",
    slo: Slo = None,
    method: Annotated[str, typer.Option(help="auto, closed-form or simulation.")] = "auto",
    runs: Runs = "4",
    requests: RequestsAsked = "5000",
    seed: Seed = "0",
    weights: Weights = None,
    kv: Kv = None,
    activations: Activations = None,
    head: Head = None,
    json: Json = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="A row for each rate, with the keys of --json.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Leave with exit code 4 where a queue grows for ever or the SLO is missed.")
    ] = False,
    search: Search = None,
    ways: Ways | None = None,
) -> None:
    """Serve requests at a rate: TTFT and TPOT with queues, and what saturates.

    roofline serve-at llama-3.1-8b h100 --engine vllm --workload azure-conv --rate 8 --slo ttft_p95=1s
    """
    chosen = ways or Ways()
    one_pool(chosen)
    if json and as_csv:
        raise SpecError("--json and --csv: expected one of them")
    rates, promised = rates_of(rate), slo_of(slo)
    options = running(replicas=replicas, routing=routing, runs=runs, requests=requests, seed=seed)
    options["method"] = method_of(method)
    formats = {"weights": weights, "kv": kv, "activations": activations, "head": head}
    deployment = build(model, [hardware], ways=chosen, search=search, **formats)[0]
    load = load_of(deployment.model, workload=workload, prompt=prompt, output=output, cv=cv, arrivals=arrivals)
    found = answered(Asked(deployment=deployment, load=load, rates=tuple(rates), slo=promised, options=options))
    if json:
        listed = [content(found, answer) for answer in found.answers]
        print_json("serve-at", listed[0] if len(listed) == 1 else {"answers": listed})
    elif as_csv:
        _print_csv([content(found, answer) for answer in found.answers])
    else:
        from roofline.views.cli.served import show

        show(found)
    if check and not all(answer.meets for answer in found.answers):
        raise typer.Exit(4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What was asked: a deployment, a load, rates, a promise, and how to answer."""

    deployment: Deployment
    load: Load
    rates: tuple[float, ...]
    slo: SLO | None
    options: dict[str, Any]

    @property
    def closed(self) -> dict[str, Any]:
        """Options of the closed form."""
        return {name: self.options[name] for name in ("n_replicas", "routing")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A service at one rate; of recorded arrivals, also as it would be if they were Poisson's. What it misses of its SLO."""

    served: Serving
    poisson: Serving | None
    missed: dict[str, float]

    @property
    def meets(self) -> bool:
        """Whether it is stable, and keeps what was promised."""
        return bool(self.served.stable) and not self.missed


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The answers, and what they have in common: the limit, the knee, the highest rates that keep the promise."""

    asked: Asked
    answers: tuple[Answer, ...]
    limit: Limit | None
    along: Serving | None
    highest: Highest | None
    highest_poisson: Highest | None

    @property
    def knee_per_s(self) -> float | None:
        """Of Poisson arrivals, by the closed form  [1/s]."""
        return None if self.along is None else knee(self.along)


def answered(asked: Asked) -> Found:
    """Everything that is said; a bar shows what takes long."""
    d, load, slo = asked.deployment, asked.load, asked.slo
    first = serve(d, load.workload, rate_per_s=list(asked.rates), method="closed form", **asked.closed)
    with progress(_n_simulations(asked, first)) as step:
        answers = tuple(_answer(asked, rate, step) for rate in asked.rates)
        highest = None if slo is None else highest_rate(d, load.workload, slo, **asked.options, progress=step)
    steady = None
    if slo is not None and load.recorded:
        steady = highest_rate(d, load.steady, slo, **asked.closed, method="closed form")
    return Found(
        asked=asked, answers=answers, limit=limit_of(d, load.workload, **asked.closed),
        along=curve(d, load.steady if load.recorded else load.workload, **asked.closed), highest=highest,
        highest_poisson=steady,
    )  # fmt: skip


def _n_simulations(asked: Asked, first: Serving) -> int:
    """As far as they can be foretold."""
    method = asked.options["method"]
    if method == "closed form":
        return 0
    wanted = np.asarray(first.stable) & ((np.asarray(first.why) != "") | (method == "simulation"))
    halving = 0
    if asked.slo is not None:  # of arrivals that the closed form knows, near saturation only
        halving = math.ceil(math.log2(1.0 / CLOSE)) if asked.load.recorded else 3
    return int(wanted.sum()) + halving


def _answer(asked: Asked, rate: float, step: Step) -> Answer:
    d, load = asked.deployment, asked.load
    served = serve(d, load.workload, rate_per_s=rate, **asked.options)
    if step is not None and served.method == "simulation":
        step(f"{rate:g} requests/s")
    beside = load.recorded and served.method == "simulation"
    poisson = serve(d, load.steady, rate_per_s=rate, **asked.closed, method="closed form") if beside else None
    missed: dict[str, float] = {}
    if asked.slo is not None:
        missed = asked.slo.missed({name: float(getattr(served, name)) for name in asked.slo.limits})
    return Answer(served=served, poisson=poisson, missed=missed)


def content(found: Found, answer: Answer) -> dict[str, Any]:
    """One rate, flat: what was asked, what was found, what is beside it."""
    asked, served = found.asked, answer.served
    w = asked.load.workload
    runs = 1 if asked.load.recorded else asked.options["n_runs"]
    body: dict[str, Any] = {
        "evidence": evidence_of(asked.deployment), "workload": asked.load.name or None, "arrivals": asked.load.arrivals,
        "prompt_tokens": w.mean_prompt_tokens, "output_tokens": w.mean_output_tokens,
        "routing": asked.options["routing"], "n_requests": asked.options["n_requests"], "n_runs": runs,
    }  # fmt: skip
    body = served.to_dict() | body
    body |= {f"{name.removesuffix('_s')}_error_s": error for name, error in served.errors.items()}
    body |= {"limit": None if found.limit is None else found.limit.name, "knee_per_s": found.knee_per_s}
    if asked.slo is not None:
        body |= {f"slo_{name}": limit for name, limit in asked.slo.limits.items()}
        body |= {"meets": answer.meets, **_highest("highest_rate", found.highest)}
    if asked.load.recorded:
        beside = answer.poisson
        for name in ("ttft_mean_s", "ttft_p50_s", "ttft_p95_s", "ttft_p99_s", "tpot_mean_s", "tpot_p50_s", "tpot_p95_s",
                     "tpot_p99_s", "itl_p99_s", "e2e_mean_s"):  # fmt: skip
            body[f"poisson_{name}"] = None if beside is None else getattr(beside, name)
        if asked.slo is not None:
            body |= _highest("poisson_highest_rate", found.highest_poisson)
    return {name: _finite(value) for name, value in body.items()} | {"notes": list(served.notes)}


def _highest(name: str, found: Highest | None) -> dict[str, Any]:
    if found is None:
        return {}
    return {f"{name}_per_s": found.rate_per_s, f"{name}_method": found.method}


def _finite(value: Any) -> Any:
    """Nothing in place of a time without end."""
    return None if isinstance(value, (float, np.floating)) and not math.isfinite(value) else value


def _print_csv(rows: list[dict[str, Any]]) -> None:
    stream = io.StringIO()
    names = list(dict.fromkeys(name for row in rows for name in row if name != "notes"))
    writer = csv.DictWriter(stream, names, extrasaction="ignore", lineterminator="\n", restval="")
    writer.writeheader()
    writer.writerows(rows)
    say(stream.getvalue().rstrip("\n"))
