"""`roofline checklist`: the four questions before a launch, as a report; `roofline dashboard`: what to watch after it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from roofline.answers.checklist import ENGINES, Checklist
from roofline.answers.checklist import checklist as answers
from roofline.errors import SpecError, did_you_mean
from roofline.specs.deployment import Deployment
from roofline.views.cli.common import (
    Activations,
    Head,
    Json,
    Kv,
    ModelName,
    Output,
    Search,
    Weights,
    print_json,
    say,
    whole,
)
from roofline.views.cli.load import (
    ArrivalsAsked,
    Cv,
    Replicas,
    Slo,
    WorkloadAsked,
    load_of,
    one_pool,
    rates_of,
    slo_of,
)
from roofline.views.cli.options import Ways, build, levered
from roofline.views.files import put, target_of

__all__ = ["checklist", "dashboard"]

FORMATS = {"md": (".md", ".markdown"), "html": (".html", ".htm")}
Rate = Annotated[str, typer.Option("--rate", "-r", help="Requests a second, at all replicas.", show_default=False)]
Prompt = Annotated[
    str | None, typer.Option("--prompt", "-p", help="Mean prompt tokens, without a trace.  [default: 2048]")
]
Chip = Annotated[str, typer.Argument(help="The chip: name, alias, name:64GB, or a path.", show_default=False)]


@partial(levered, engine="vllm")
def checklist(
    model: ModelName,
    hardware: Chip,
    rate: Rate,
    workload: WorkloadAsked = None,
    prompt: Prompt = None,
    output: Output = None,
    cv: Cv = None,
    arrivals: ArrivalsAsked = None,
    slo: Slo = None,
    replicas: Replicas = "1",
    weights: Weights = None,
    kv: Kv = None,
    activations: Activations = None,
    head: Head = None,
    format: Annotated[str | None, typer.Option(help="md or html.  [default: as --out ends, else md]")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="The file to write: .md or .html; a summary is printed.")
    ] = None,
    dashboard: Annotated[
        Path | None, typer.Option(help="Also write the Grafana dashboard into this .json file.")
    ] = None,
    json: Json = False,
    check: Annotated[bool, typer.Option("--check", help="Leave with exit code 4 where an answer fails.")] = False,
    search: Search = None,
    ways: Ways | None = None,
) -> None:
    """Answer the four questions before a launch.

    Long prompts or long answers; compute or bandwidth; does the cache hold; what to watch.
    roofline checklist llama-3.1-8b h100 --workload azure-conv --rate 12 --slo ttft_p95=1s,tpot_p95=50ms
    """
    chosen = ways or Ways()
    one_pool(chosen)
    kind = _format(format, out)
    target = None if out is None else target_of(out, FORMATS[kind])
    board = None if dashboard is None else target_of(dashboard, (".json",))
    formats = {"weights": weights, "kv": kv, "activations": activations, "head": head}
    deployment = build(model, [hardware], ways=chosen, search=search, **formats)[0]
    traffic = {"workload": workload, "prompt": prompt, "output": output, "cv": cv, "arrivals": arrivals}
    found = answered(deployment, traffic, rate=rate, slo=slo, replicas=replicas)
    from roofline.views import report

    content = report.report_of(found)
    text = report.markdown(content) if kind == "md" else report.page(content)
    if board is not None:
        from roofline.views.dashboard import written

        put(board, written(found).encode())
    if target is not None:
        put(target, text.encode())
    if json:
        states = {f"{name}_state": state for name, state in report.states_of(found).items()}
        print_json("checklist", {**found.to_dict(), **states})
    elif target is None:
        say(text.rstrip("\n"))
    else:
        for line in [*report.brief(found), f"wrote {target}", *([f"wrote {board}"] if board is not None else [])]:
            say(line)
    if check and not found.ready:
        raise typer.Exit(4)


@partial(levered, engine="vllm")
def dashboard(
    model: ModelName,
    hardware: Chip,
    rate: Rate,
    workload: WorkloadAsked = None,
    prompt: Prompt = None,
    output: Output = None,
    cv: Cv = None,
    arrivals: ArrivalsAsked = None,
    slo: Slo = None,
    replicas: Replicas = "1",
    weights: Weights = None,
    kv: Kv = None,
    activations: Activations = None,
    head: Head = None,
    out: Annotated[Path | None, typer.Option("--out", help="The .json file to write.  [default: stdout]")] = None,
    search: Search = None,
    ways: Ways | None = None,
) -> None:
    """Write a Grafana dashboard with predicted lines.

    TTFT, TPOT, tokens, cache and queue of vLLM or SGLang, each beside what is expected at the rate.
    roofline dashboard llama-3.1-8b h100 --workload azure-conv --rate 12 --out launch.json
    """
    chosen = ways or Ways()
    one_pool(chosen)
    target = None if out is None else target_of(out, (".json",))
    formats = {"weights": weights, "kv": kv, "activations": activations, "head": head}
    deployment = build(model, [hardware], ways=chosen, search=search, **formats)[0]
    traffic = {"workload": workload, "prompt": prompt, "output": output, "cv": cv, "arrivals": arrivals}
    found = answered(deployment, traffic, rate=rate, slo=slo, replicas=replicas, engines=())
    from roofline.views.dashboard import written

    text = written(found)
    if target is None:
        say(text.rstrip("\n"))
        return
    put(target, text.encode())
    say(f"wrote {target}; in Grafana: Dashboards, New, Import")


def answered(
    deployment: Deployment, traffic: dict[str, str | None], *, rate: str, slo: str | None, replicas: str,
    engines: tuple[str, ...] = ENGINES,
) -> Checklist:  # fmt: skip
    """The checklist of what the options say."""
    rates, promised = rates_of([rate]), slo_of(slo)
    if len(rates) > 1:
        raise SpecError(f"--rate: expected one rate, got {len(rates)}; serve-at takes several")
    load = load_of(deployment.model, **traffic)
    n_replicas = whole(replicas, name="--replicas", most=10_000)
    return answers(deployment, load.workload, rate_per_s=rates[0], slo=promised, n_replicas=n_replicas, engines=engines)


def _format(given: str | None, out: Path | None) -> str:
    """What was asked for, else what the file's name says, else Markdown."""
    if given is None:
        suffix = "" if out is None else out.suffix.lower()
        return next((kind for kind, suffixes in FORMATS.items() if suffix in suffixes), "md")
    if given not in FORMATS:
        raise SpecError(f"--format: expected md or html, got {given!r}{did_you_mean(given, FORMATS)}")
    return given
