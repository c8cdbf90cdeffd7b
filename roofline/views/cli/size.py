"""`roofline size`: which chips, how many and how laid out, for a rate of requests and what is promised; or for a job."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Sequence
from itertools import product
from typing import Annotated, Any

import typer

from roofline.answers.sizing import Sizing, offline
from roofline.answers.sizing import size as size_of
from roofline.answers.sizing.candidates import usual_plans
from roofline.errors import RooflineError, SpecError, shorten
from roofline.specs import catalog
from roofline.specs.deployment import Deployment
from roofline.specs.engine import Engine
from roofline.specs.hardware import Hardware
from roofline.specs.model import Model
from roofline.specs.plan import Plan
from roofline.specs.slo import SLO
from roofline.views.cli.common import Json, ModelName, Output, Search, print_json, say, whole
from roofline.views.cli.lists import names_of, plans_of, wholes
from roofline.views.cli.load import ArrivalsAsked, Cv, Load, Slo, WorkloadAsked, load_of, rates_of, slo_of
from roofline.views.progress import progress

__all__ = ["size"]

_LONG = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?(s|min|h|d)")


PlansAsked = Annotated[
    str | None,
    typer.Option("--plans", help="Layouts of a replica, as tp1,tp4pp2.  [default: tp 1 to 8; mixtures: dp too]"),
]
WeightsAsked = Annotated[
    str | None, typer.Option("--weights", help="Weight formats to try, as bf16,fp8.  [default: the checkpoint's]")
]
KvAsked = Annotated[str | None, typer.Option("--kv", help="Cache formats to try, as bf16,fp8.  [default: the model's]")]
JobAsked = Annotated[
    str | None, typer.Option("--job", help="Offline: so many requests, with nobody waiting; in place of --rate.")
]
DeadlineAsked = Annotated[str | None, typer.Option("--deadline", help="Of a job, the time there is: 8h, 90min.")]


def size(
    model: ModelName,
    hardware: Annotated[list[str], typer.Argument(help="Chips to try: names, aliases or paths.", show_default=False)],
    rate: Annotated[str | None, typer.Option("--rate", "-r", help="Requests a second of the whole service.")] = None,
    slo: Slo = None,
    workload: WorkloadAsked = None,
    prompt: Annotated[str | None, typer.Option("--prompt", "-p", help="Mean prompt tokens.  [default: 2048]")] = None,
    output: Output = None,
    cv: Cv = None,
    arrivals: ArrivalsAsked = None,
    plans: PlansAsked = None,
    weights: WeightsAsked = None,
    kv: KvAsked = None,
    engine: Annotated[str, typer.Option(help="Whose memory and schedule: vllm, sglang, trtllm, …")] = "vllm",
    chunk: Annotated[
        str, typer.Option("--chunk", help="Tokens of a step to try (--max-num-batched-tokens).")
    ] = "512,2048,8192",
    max_seqs: Annotated[
        str | None, typer.Option("--max-seqs", help="Sequences at once to try.  [default: the engine's]")
    ] = None,
    split: Annotated[
        bool, typer.Option("--split/--no-split", help="Try pools that split prompts from answers.")
    ] = True,
    price: Annotated[str, typer.Option(help="low or high: which price of each chip's record.")] = "low",
    simulate: Annotated[str, typer.Option(help="How many of the best are simulated.")] = "5",
    top: Annotated[str, typer.Option(help="Rows of the table.")] = "12",
    job: JobAsked = None,
    deadline: DeadlineAsked = None,
    json: Json = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="A row a choice, with the keys of --json.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Leave with exit code 4 where nothing keeps the SLO.")] = False,
    search: Search = None,
) -> None:
    """Find the cheapest chips for a rate of requests and an SLO, and how many.

    roofline size llama-3.1-8b h100 l40s --workload azure-conv --rate 20 --slo ttft_p95=1s,tpot_p95=50ms
    """
    if json and as_csv:
        raise SpecError("--json and --csv: expected one of them")
    spec = catalog.model(model, search=search or ())
    chips = [catalog.hardware(name, search=search or ()) for name in hardware]
    own = catalog.engine(engine, search=search or ())
    load = load_of(spec, workload=workload, prompt=prompt, output=output, cv=cv, arrivals=arrivals)
    tried = usual_plans(spec) if plans is None else plans_of(plans)
    formats = tuple(product(names_of(weights), names_of(kv)))
    if job is not None:
        _job(spec, chips, load, n=job, deadline=deadline, plans=tried, formats=formats, engine=own, json=json)
        return
    if deadline is not None:
        raise SpecError("--deadline: is of a --job; a rate of requests has none")
    promised, at = _promised(slo, rate)
    n_rows = whole(top, name="--top", most=1e5)
    found = _searched(
        len(chips) * len(tried) * len(formats), spec, hardware=chips, workload=load.workload, slo=promised, rate_per_s=at,
        plans=tried, formats=formats, engine=own, batch_tokens=wholes(chunk, name="--chunk", most=1e6),
        max_seqs=[None] if max_seqs is None else wholes(max_seqs, name="--max-seqs", most=1e6),
        split=split, price=_price(price), simulate=whole(simulate, name="--simulate", least=0, most=100),
    )  # fmt: skip
    _say(spec, load, found, n_rows=n_rows, json=json, as_csv=as_csv)
    if check and found.best is None:
        raise typer.Exit(4)


def _price(text: str) -> str:
    if text not in ("low", "high"):
        raise SpecError(f"--price: expected low or high, got {shorten(text)!r}")
    return text


def _promised(slo: str | None, rate: str | None) -> tuple[SLO, float]:
    promised = slo_of(slo)
    if promised is None:
        raise SpecError("missing --slo: what is promised, such as ttft_p95=1s,tpot_p95=50ms")
    rates = rates_of(None if rate is None else [rate])
    if len(rates) != 1:
        raise SpecError(f"--rate: expected one rate, got {len(rates)}; ask for each by itself")
    return promised, rates[0]


def _searched(n: int, spec: Model, **asked: Any) -> Sizing:
    """The search, with a bar."""
    with progress(n) as step:

        def told(done: int, total: int) -> None:
            if step is not None and done:
                step("ranking" if done < total else "simulating the best")

        return size_of(spec, **asked, progress=told)


def _say(spec: Model, load: Load, found: Sizing, *, n_rows: int, json: bool, as_csv: bool) -> None:
    if json:
        print_json("size", _content(spec, load, found))
    elif as_csv:
        _print_csv(found)
    else:
        from roofline.views.cli.sized import show

        show(spec, load, found, n_rows=n_rows)


def _content(spec: Model, load: Load, found: Sizing) -> dict[str, Any]:
    w = load.workload
    asked = {
        "model": spec.id, "workload": load.name or None, "arrivals": load.arrivals, "prompt_tokens": w.mean_prompt_tokens,
        "output_tokens": w.mean_output_tokens, "rate_per_s": found.rate_per_s, "peak_rate_per_s": found.peak_rate_per_s,
    }  # fmt: skip
    listed = {
        "n_tried": found.n_tried, "choices": [_finite(choice.to_dict()) for choice in found.choices],
        "dropped": [{"hardware": d.hardware, "plan": d.plan, "formats": d.formats, "why": d.why} for d in found.dropped],
        "pareto": list(found.pareto),
    }  # fmt: skip
    return asked | {f"slo_{name}": limit for name, limit in found.slo.limits.items()} | listed


def _finite(row: dict[str, Any]) -> dict[str, Any]:
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in row.items()}


def _print_csv(found: Sizing) -> None:
    rows = [choice.to_dict() for choice in found.choices]
    stream = io.StringIO()
    names = list(dict.fromkeys(name for row in rows for name in row)) or ["hardware"]
    writer = csv.DictWriter(stream, names, lineterminator="\n", restval="")
    writer.writeheader()
    writer.writerows(rows)
    say(stream.getvalue().rstrip("\n"))


def _job(
    spec: Model, chips: Sequence[Hardware], load: Load, *, n: str, deadline: str | None, plans: Sequence[Plan],
    formats: Sequence[tuple[str | None, str | None]], engine: Engine, json: bool,
) -> None:  # fmt: skip
    """A job on every chip and layout that holds it, the cheapest first."""
    count = _requests(n)
    limit = None if deadline is None else _duration(deadline)
    answers, left_out = [], []
    for chip, plan, (weights, kv) in product(chips, plans, formats):
        try:
            d = Deployment(model=spec, hardware=chip, plan=plan, weights=weights, kv=kv, engine=engine)
            n_replicas = None if limit is not None else 1
            job = offline(d, load.workload, n_requests=count, deadline_s=limit, n_replicas=n_replicas)
            answers.append((d, job))
        except RooflineError as error:
            left_out.append(str(error))
    if not answers:
        raise SpecError(f"--job: none of these can hold it; {left_out[0]}")
    answers.sort(key=lambda pair: (math.inf if pair[1].usd is None else pair[1].usd, pair[1].n_chips))
    if json:
        rows = [
            {"hardware": d.hardware.id, "n_chips_per_replica": d.n_chips} | _finite(job.to_dict()) for d, job in answers
        ]
        print_json(
            "size", {"model": spec.id, "workload": load.name or None, "job": count, "deadline_s": limit, "jobs": rows}
        )
        return
    from roofline.views.cli.sized import show_jobs

    show_jobs(spec, load, count, limit, answers)


def _duration(text: str) -> float:
    """A time as people type it  [s].

    >>> _duration("8h"), _duration("90 min")
    (28800.0, 5400.0)
    """
    found = _LONG.fullmatch(text.strip())
    value = float(found[1]) * {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}[found[2]] if found else 0.0
    if not value:
        raise SpecError(f"--deadline: expected a time such as 8h, 90min or 3600s, got {shorten(text)!r}")
    return value


def _requests(text: str) -> int:
    """A number of requests as people type it; M is a million here, no number of tokens.

    >>> _requests("1M"), _requests("250,000"), _requests("2e6")
    (1000000, 250000, 2000000)
    """
    plain = text.strip().lower().replace(",", "").replace("_", "")
    factor = {"k": 1e3, "m": 1e6}.get(plain[-1:], 1.0)
    try:
        value = float(plain[:-1] if factor > 1.0 else plain) * factor
    except ValueError:
        value = 0.0
    if not (1.0 <= value <= 1e12 and value == int(value)):
        raise SpecError(f"--job: expected a number of requests such as 1000000 or 1M, got {shorten(text)!r}")
    return int(value)
