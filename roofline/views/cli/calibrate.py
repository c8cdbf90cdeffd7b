"""`roofline calibrate`: an efficiency from one's own benchmark files, or the shipped ones again from the packaged rows."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer

from roofline.answers.estimates import known_of
from roofline.errors import SpecError
from roofline.evidence.calibration.own import calibrate as fitted
from roofline.evidence.calibration.own import require_free, usable, write_known
from roofline.evidence.calibration.shipped import EFFICIENCIES, FOLDS, predicted, write
from roofline.evidence.comparison import compare
from roofline.specs.deployment import Deployment
from roofline.timing.shipped import NOMINAL, Known
from roofline.views.cli.common import Activations, Head, Json, Kv, Search, Weights, print_json, print_table, say, table
from roofline.views.cli.compare import single
from roofline.views.cli.options import Ways, build, levered
from roofline.views.cli.words import percent
from roofline.views.progress import progress

__all__ = ["calibrate"]

MOST_LEFT_OUT = 6


@partial(levered, engine="auto")
def calibrate(
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE... MODEL HARDWARE", help="Benchmark files, and what they measured.", show_default=False
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The YAML file to write, for --efficiency.", show_default=False),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file where there is one.")] = False,
    shipped: Annotated[
        bool,
        typer.Option("--shipped", help="Fit the shipped efficiencies again, from the packaged measurements (minutes)."),
    ] = False,
    weights: Weights = None,
    kv: Kv = None,
    activations: Activations = None,
    head: Head = None,
    json: Json = False,
    search: Search = None,
    ways: Ways | None = None,
) -> None:
    """Fit an efficiency to your own benchmark files.

    From three figures on: roofline calibrate my.csv llama-3.1-8b h100 --engine vllm -o mine.yaml
    """
    named = what or []
    if shipped:
        if named or output is not None:
            raise SpecError("--shipped: fits the packaged measurements into the package; leave files and -o out")
        _ship(json=json)
        return
    if len(named) < 3:
        raise SpecError("calibrate: expected FILE... MODEL HARDWARE, such as my.csv llama-3.1-8b h100; or --shipped")
    *files, model, hardware = named
    if output is None and not json:
        raise SpecError("calibrate: name the file to write, such as -o mine.yaml")
    if output is not None:
        require_free(output, force=force)
    paths = [Path(file) for file in files]
    chosen = single(ways or Ways(), paths)
    if chosen.efficiency is not None:
        raise SpecError("--efficiency: is what calibrate makes; leave it out")
    if chosen.prefix_hit is not None or chosen.shared:
        raise SpecError("--prefix-hit and --shared: runs that share prompts are not fitted to; leave them out")
    deployment = build(
        model, [hardware], ways=chosen, search=search, weights=weights, kv=kv, activations=activations, head=head
    )[0]
    found = fitted(paths, deployment)
    wrote = None if output is None else write_known(found, output, force=force, deployment=deployment)
    _answer(found, deployment, paths, wrote, json=json)


def _answer(found: Known, d: Deployment, paths: Sequence[Path], wrote: Path | None, *, json: bool) -> None:
    left_out = usable(paths, d).left_out
    before = _off(d, paths)
    after = _off(Deployment(model=d.model, hardware=d.hardware, plan=d.plan, precision=d.precision, engine=d.engine,
                            offload=d.offload, efficiency=found), paths)  # fmt: skip
    if json:
        body: dict[str, Any] = {
            "model": d.model.id, "hardware": d.hardware.id, "engine": d.engine.id, "said": found.said,
            "n_rows": found.n_rows, "at_prior": list(found.at_prior), "efficiency": found.efficiency.model_dump(),
            "bands": {name: band.model_dump() for name, band in found.bands.items()}, "left_out": list(left_out),
            "error_before": before, "error_after": after, "wrote": None if wrote is None else str(wrote),
        }  # fmt: skip
        print_json("calibrate", body)
        return
    say(found.said)
    for sentence in left_out[:MOST_LEFT_OUT]:
        say(f"left out: {sentence}")
    if len(left_out) > MOST_LEFT_OUT:
        say(f"left out: and {len(left_out) - MOST_LEFT_OUT} more (--json has all)")
    say()
    _parameters(found, known_of(d))
    say()
    if before is not None and after is not None:
        say(f"Median error of the times in these files: {percent(before)} as shipped, {percent(after)} fitted to them.")
    edges = ", ".join(
        f"{name.upper()} ×{band.low:.2f} to ×{band.high:.2f}" for name, band in sorted(found.bands.items())
    )
    say(f"Intervals made to hold {NOMINAL:.0%}: {edges}.")
    if found.at_prior:
        say(f"Too little was measured to settle {', '.join(found.at_prior)}: kept near the prior.")
    if wrote is not None:
        say(f"wrote {wrote}; use it with --efficiency {wrote}")


def _parameters(found: Known, shipped: Known) -> None:
    rows = table("fitted", "shipped", "<", first="parameter")
    before = shipped.efficiency.model_dump()
    for name, value in found.efficiency.model_dump().items():
        if value != before[name]:
            settled = "not settled" if name in found.at_prior else ""
            rows.add_row(name, *("–" if v is None else f"{v:.3g}" for v in (value, before[name])), settled)
    print_table(rows)


def _off(d: Deployment, paths: Sequence[Path]) -> float | None:
    """Median of |predicted / measured − 1| over the times in some files; none where they hold no times  [1]."""
    rows = [row for path in paths for row in compare(path, d).compared if row.what in ("ttft", "tpot", "e2e")]
    return (
        float(median(abs((row.predicted_s or 0.0) / (row.measured_s or 1.0) - 1.0) for row in rows)) if rows else None
    )


def _ship(*, json: bool) -> None:
    for path in (EFFICIENCIES, FOLDS):
        if not os.access(path.parent, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
            raise SpecError(
                f"{path}: cannot be written; --shipped is for a checkout of the library that you may change"
            )
    told = predicted()
    folds = {(p.regime, p.row.group, {"model": p.row.model, "tp": p.row.tp}.get(p.regime)) for p in told}
    with progress(len({p.row.group for p in told}) + len(folds)) as step:
        try:
            written = write(step)
        except OSError as error:
            raise SpecError(f"{EFFICIENCIES.parent}: cannot be written ({error.strerror or error})") from None
    if json:
        print_json("calibrate", {"wrote": [str(path) for path in written]})
        return
    for path in written:
        say(f"wrote {path}")
