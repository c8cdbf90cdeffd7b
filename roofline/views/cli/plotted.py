"""The pictures of `roofline plot` that are not of one request: growth, a service along the rate, a search."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from roofline.answers.serving import Serving, serve
from roofline.answers.serving.limits import curve
from roofline.answers.sizing import size
from roofline.errors import SpecError
from roofline.specs import catalog
from roofline.specs.deployment import Deployment
from roofline.specs.slo import SLO
from roofline.views.cli.common import whole
from roofline.views.cli.load import Load, load_of, rates_of, slo_of
from roofline.views.cli.options import Ways
from roofline.views.progress import progress

__all__ = ["MOST_POINTS", "growth_axes", "load_axes", "pareto_axes"]

UP_TO = 0.95  # of saturation, where the last point is simulated
MOST_POINTS = 32
Folders = Sequence[Path] | None


def growth_axes(
    *, model: str, chips: Sequence[str], search: Folders, weights: str | None, kv: str | None, batches: str,
    look: dict[str, Any],
) -> Any:  # fmt: skip
    """What sequences of a model keep, for one batch or several with commas between."""
    from roofline.views import plot

    spec, folders = catalog.model(model, search=search or ()), search or ()
    memory = [catalog.hardware(name, search=folders) for name in chips]
    n_seq = [whole(part, name="--batch") for part in batches.split(",")]
    return plot.kv_growth(spec, hardware=memory, batch=n_seq, kv=kv or "bf16", weights=weights, **look)


def load_axes(
    d: Deployment, load: Load, settings: dict[str, Any], n_points: int, promised: SLO | None, look: dict[str, Any]
) -> Any:
    """A service along the rate, with points that are simulated."""
    from roofline.views import plot

    along, points = _loaded(d, load, settings, n_points)
    return plot.load_curve(along, points, promised, workload=load.workload, **look)


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


def pareto_axes(
    *, model: str, chips: Sequence[str], search: Folders, weights: str | None, kv: str | None, service: dict[str, Any],
    slo: str | None, rate: str | None, ways: Ways, look: dict[str, Any],
) -> Any:  # fmt: skip
    """What a search for a rate and a promise finds: every choice, by the closed form, and the front of them."""
    from roofline.views import plot

    promised, folders = slo_of(slo), search or ()
    if promised is None or rate is None:
        raise SpecError("plot pareto: expected --rate and --slo, such as --rate 20 --slo ttft_p95=1s,tpot_p95=50ms")
    if ways.plan.n_chips > 1:
        raise SpecError("plot pareto: tries plans of its own; leave --tp and the other ways out")
    rates = rates_of([rate])
    if len(rates) != 1:
        raise SpecError(f"--rate: expected one rate, got {len(rates)}; draw each into its own file")
    if not chips:
        raise SpecError("plot pareto: expected a chip or several to choose from, such as h100 l40s")
    spec = catalog.model(model, search=folders)
    load = load_of(spec, **service)
    engine = catalog.engine("vllm" if ways.engine == "ideal" else ways.engine, search=folders)
    found = size(
        spec, hardware=[catalog.hardware(name, search=folders) for name in chips], workload=load.workload, slo=promised,
        rate_per_s=rates[0], formats=[(weights, kv)], engine=engine, split=False, simulate=0,
    )  # fmt: skip
    subject = f"{spec.id} · {load.workload.name} · {rates[0]:g}/s · {engine.name}"
    return plot.pareto(found.pareto, subject=subject, trust="speeds by the closed form, none simulated", **look)
