"""`roofline plot`: the pictures, into a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from roofline.answers.serving import Serving, serve
from roofline.answers.serving.limits import curve
from roofline.errors import SpecError, did_you_mean
from roofline.specs.deployment import Deployment
from roofline.views.cli.common import (
    Batch,
    Chips,
    Kv,
    ModelName,
    Output,
    PromptOrUsual,
    Search,
    Weights,
    say,
    whole,
)
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
    one_pool,
    running,
    slo_of,
)
from roofline.views.cli.options import Ways, asked_of, build, levered, predicted
from roofline.views.progress import progress

__all__ = ["plot"]

KINDS = ("roofline", "latency", "without-flash", "load")
UP_TO = 0.95  # of saturation, where the last point is simulated
MOST_POINTS = 32


@levered
def plot(
    kind: Annotated[str, typer.Argument(help="roofline, latency, without-flash or load.", show_default=False)],
    model: ModelName,
    hardware: Chips = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="The file to write: .svg, .png or .pdf.  [default: KIND.svg]")
    ] = None,
    prompt: PromptOrUsual = None,
    output: Output = None,
    batch: Batch = "1",
    workload: WorkloadAsked = None,
    cv: Cv = None,
    arrivals: ArrivalsAsked = None,
    replicas: Replicas = "1",
    routing: RoutingAsked = "random",
    slo: Slo = None,
    simulate: Annotated[str, typer.Option(help="Points of load that are simulated, 0 for none.")] = "8",
    runs: Runs = "4",
    requests: RequestsAsked = "5000",
    seed: Seed = "0",
    weights: Weights = None,
    kv: Kv = None,
    theme: Annotated[str, typer.Option(help="light or dark.")] = "light",
    size: Annotated[str, typer.Option(help="page, column or slide.")] = "page",
    lang: Annotated[str, typer.Option(help="en or zh, of load.")] = "en",
    search: Search = None,
    ways: Ways | None = None,
) -> None:
    """Draw the roofline, latency, prefill without FlashAttention, or load.

    Where the phases sit under the roof of a chip; TTFT against the prompt and TPOT against the batch; bytes and intensity;
    TTFT and TPOT along the rate of requests (--workload, --slo).
    """
    if kind not in KINDS:
        raise SpecError(
            f"plot: expected {', '.join(KINDS[:-1])} or {KINDS[-1]}, got {kind!r}{did_you_mean(kind, KINDS)}"
        )
    chosen = ways or Ways()
    if kind == "load":
        one_pool(chosen)
    elif lang != "en":
        raise SpecError(f"--lang: plot {kind} is in English; of load, en or zh")
    deployments = build(model, hardware or (), ways=chosen, search=search, weights=weights, kv=kv)
    if kind != "roofline" and len(deployments) > 1:
        raise SpecError(f"plot {kind}: draws one chip, and one pool; draw each into its own file")
    path = out or Path(f"{kind}.svg")
    look: Any = {"theme": theme, "size": size}  # names the picture itself checks
    from roofline.views import plot as draw

    if kind == "load":
        d, promised = deployments[0], slo_of(slo)
        _ready(path, lang=lang, **look)
        load = load_of(d.model, workload=workload, prompt=prompt, output=output, cv=cv, arrivals=arrivals)
        options = running(replicas=replicas, routing=routing, runs=runs, requests=requests, seed=seed)
        along, points = _loaded(d, load, options, whole(simulate, name="--simulate", least=0, most=MOST_POINTS))
        axes: Any = draw.load_curve(along, points, promised, workload=load.workload, lang=lang, **look)  # type: ignore[arg-type]
    else:
        asked = asked_of(deployments[0].model, prompt=prompt or "2048", output=output, batch=batch)
        axes = _drawn(kind, predicted(deployments, asked, chosen, search), look)
    draw.save(axes, path)
    say(f"wrote {path}")


def _ready(path: Path, *, lang: str, theme: str, size: str) -> None:
    """Refuse what cannot be drawn or written, before anything is simulated."""
    from roofline.views.plot.files import checked
    from roofline.views.plot.theme import Look, lang_named, size_named, styled, theme_named

    checked(path)
    with styled(Look(theme=theme_named(theme), size=size_named(size), lang=lang_named(lang))):
        pass


def _drawn(kind: str, predictions: Any, look: dict[str, Any]) -> Any:
    from roofline.views import plot as draw

    if kind == "roofline":
        return draw.roofline(predictions[0] if len(predictions) == 1 else predictions, **look)
    return (draw.latency if kind == "latency" else draw.without_flash)(predictions[0], **look)


def _loaded(
    d: Deployment, load: Load, options: dict[str, Any], n_points: int
) -> tuple[Serving, tuple[Serving, ...] | None]:
    """The closed form along the rate, and points that were simulated."""
    spread = {name: options[name] for name in ("n_replicas", "routing")}
    along = curve(d, load.workload, **spread)
    if along is None:
        raise SpecError(f"plot load: no such request fits on {d.n_chips} × {d.hardware.id}; roofline memory says why")
    rates = along.saturation_per_s * UP_TO * (np.arange(n_points) + 0.8) / (n_points - 0.2)
    found = []
    with progress(n_points) as step:
        for rate in rates:
            found.append(serve(d, load.workload, rate_per_s=float(rate), method="simulation", **options))
            if step is not None:
                step(f"{rate:.3g} requests/s")
    return along, tuple(found) or None
