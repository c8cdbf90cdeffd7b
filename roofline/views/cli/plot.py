"""`roofline plot`: the pictures, into a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from roofline.errors import SpecError, did_you_mean
from roofline.specs.deployment import Deployment
from roofline.units import BYTES_PER_S, parse
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
from roofline.views.cli.plotted import MOST_POINTS, growth_axes, load_axes, pareto_axes

__all__ = ["plot"]


@dataclass(frozen=True, slots=True)
class Picture:
    """A kind of picture: the function that draws it, the options that mean something to it, and how many chips it takes."""

    draws: str
    takes: frozenset[str] = frozenset()
    is_of_many: bool = False


PICTURES = {
    "roofline": Picture("roofline", frozenset({"context", "ops", "tiers"}), True),
    "latency": Picture("latency", frozenset({"context", "slo"})),
    "ttft": Picture("ttft_vs_prompt", frozenset({"slo"})),
    "tpot": Picture("tpot_vs_batch", frozenset({"context", "slo"})),
    "heatmap": Picture("latency_heatmap", frozenset({"context", "slo"})),
    "memory": Picture("memory", frozenset({"context"}), True),
    "kv": Picture("kv_growth", frozenset(), True),
    "breakdown": Picture("time_breakdown", frozenset({"context"})),
    "without-flash": Picture("without_flash"),
    "load": Picture("load_curve", frozenset({"slo", "workload"})),
    "pareto": Picture("pareto", frozenset({"slo", "rate", "workload"}), True),
}
KINDS = tuple(PICTURES)
NAMED = f"{', '.join(KINDS[:-1])} or {KINDS[-1]}"


KindAsked = Annotated[str, typer.Argument(help=f"{NAMED}.", show_default=False)]
Out = Annotated[Path | None, typer.Option(help="The file to write: .svg, .png or .pdf.  [default: KIND.svg]")]
ContextAsked = Annotated[
    str | None, typer.Option("--context", "-c", help="Cached tokens to look at.  [default: the request's]")
]
Ops = Annotated[bool, typer.Option("--ops", help="Of roofline: every op as a point of its own.")]
TiersAsked = Annotated[
    str | None, typer.Option(help="Of roofline: host, nvme-gen5-x4, link, or 'l2=5.5 TB/s'; commas between.")
]
Rate = Annotated[str | None, typer.Option(help="Of pareto: requests a second to find chips for.")]
Simulate = Annotated[str, typer.Option(help="Of load: points that are simulated, 0 for none.")]
Theme = Annotated[str, typer.Option(help="light or dark.")]
Size = Annotated[str, typer.Option(help="page, column or slide.")]
Lang = Annotated[str, typer.Option(help="en or zh.")]


@levered
def plot(
    kind: KindAsked,
    model: ModelName,
    hardware: Chips = None,
    out: Out = None,
    prompt: PromptOrUsual = None,
    output: Output = None,
    context: ContextAsked = None,
    batch: Batch = "1",
    slo: Slo = None,
    ops: Ops = False,
    tiers: TiersAsked = None,
    workload: WorkloadAsked = None,
    rate: Rate = None,
    cv: Cv = None,
    arrivals: ArrivalsAsked = None,
    replicas: Replicas = "1",
    routing: RoutingAsked = "random",
    simulate: Simulate = "8",
    runs: Runs = "4",
    requests: RequestsAsked = "5000",
    seed: Seed = "0",
    weights: Weights = None,
    kv: Kv = None,
    theme: Theme = "light",
    size: Size = "page",
    lang: Lang = "en",
    search: Search = None,
    ways: Ways | None = None,
) -> None:
    """Draw a picture into a file.

    roofline and breakdown: what binds, phase by phase and op by op. latency, ttft, tpot, heatmap: how long people wait
    (--slo). memory, kv: what fits. load, pareto: a service along the rate, and chips for it (--workload).
    """
    picture = PICTURES.get(kind)
    if picture is None:
        raise SpecError(f"plot: expected {NAMED}, got {kind!r}{did_you_mean(kind, KINDS)}")
    options = {"slo": slo, "ops": ops or None, "tiers": tiers, "context": context, "rate": rate, "workload": workload}
    _require_meaning(kind, picture, options)
    chosen, path, look = ways or Ways(), out or Path(f"{kind}.svg"), {"theme": theme, "size": size, "lang": lang}
    _ready(path, **look)
    asked: Any = {"model": model, "chips": hardware or (), "search": search, "weights": weights, "kv": kv}
    service = {"workload": workload, "prompt": prompt, "output": output, "cv": cv, "arrivals": arrivals}
    if kind in ("load", "pareto"):
        one_pool(chosen)
    if kind == "kv":
        axes: Any = growth_axes(batches=batch, look=look, **asked)
    elif kind == "pareto":
        axes = pareto_axes(service=service, slo=slo, rate=rate, ways=chosen, look=look, **asked)
    else:
        pools = build(**asked, ways=chosen)
        _require_one(kind, picture, pools)
        if kind == "load":
            settings = running(replicas=replicas, routing=routing, runs=runs, requests=requests, seed=seed)
            n_points, promised = whole(simulate, name="--simulate", least=0, most=MOST_POINTS), slo_of(slo)
            axes = load_axes(pools[0], load_of(pools[0].model, **service), settings, n_points, promised, look)
        else:
            request = asked_of(pools[0].model, prompt=prompt, output=output, batch=batch)
            axes = _drawn(picture, predicted(pools, request, chosen, search), options, look)
    _save(axes, path)


def _require_meaning(kind: str, picture: Picture, options: dict[str, Any]) -> None:
    """Refuse an option that this picture would not show."""
    for name, value in options.items():
        if value is not None and name not in picture.takes:
            others = [other for other, p in PICTURES.items() if name in p.takes]
            raise SpecError(f"--{name}: plot {kind} does not show it; leave it out, or plot {' or '.join(others)}")


def _require_one(kind: str, picture: Picture, pools: list[Deployment]) -> None:
    if not picture.is_of_many and len(pools) > 1:
        raise SpecError(f"plot {kind}: draws one chip, and one pool; draw each into its own file")


def _context(text: str | None) -> int | None:
    return None if text is None else whole(text, name="--context", least=0)


def _tiers(text: str | None) -> dict[str, float | None]:
    """Names, and rates of one's own after an equals sign  [B/s]."""
    found: dict[str, float | None] = {}
    for part in [] if text is None else text.split(","):
        name, equals, rate = (piece.strip() for piece in part.partition("="))
        try:
            found[name] = parse(rate, BYTES_PER_S) if equals else None
        except SpecError as error:
            raise SpecError(f"--tiers: {name}: {error}") from None
    return found


def _ready(path: Path, *, lang: str, theme: str, size: str) -> None:
    """Refuse what cannot be drawn or written, before anything is worked out."""
    from roofline.views.plot.files import checked
    from roofline.views.plot.theme import look_named, styled

    checked(path)
    with styled(look_named(theme=theme, size=size, lang=lang)):
        pass


def _drawn(picture: Picture, predictions: Any, options: dict[str, Any], look: dict[str, Any]) -> Any:
    """The picture of one request, with those of the options that mean something to it, in the words of its function."""
    from roofline.views import plot as pictures

    said = {
        "slo": slo_of(options["slo"]), "ops": bool(options["ops"]), "tiers": _tiers(options["tiers"]),
        "context": _context(options["context"]),
    }  # fmt: skip
    names = {"context": "context_tokens"}
    given = {names.get(name, name): value for name, value in said.items() if name in picture.takes}
    subject = predictions if len(predictions) > 1 else predictions[0]
    return getattr(pictures, picture.draws)(subject, **given, **look)


def _save(axes: Any, path: Path) -> None:
    from roofline.views.plot import save

    save(axes, path)
    say(f"wrote {path}")
