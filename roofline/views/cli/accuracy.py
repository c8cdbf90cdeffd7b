"""`roofline accuracy`: how far the estimates are off, by what was held out, and how much their intervals hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roofline.errors import SpecError, did_you_mean
from roofline.evidence.accuracy import BYS, HELD_OUT, REGIMES, WHATS, Accuracy, Coverage, Errors
from roofline.evidence.accuracy import accuracy as accuracy_of
from roofline.evidence.accuracy.records import share, signed
from roofline.evidence.calibration.shipped import BAND_OF, predicted
from roofline.evidence.measurements import measurements
from roofline.timing.shipped import NOMINAL
from roofline.views.cli.common import Json, print_json, print_table, say, table
from roofline.views.progress import progress

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["accuracy"]

WIDTH = 80
SHORT = {"ttft": "TTFT", "tpot": "TPOT", "e2e": "throughput"}
HEAD = """{n_all:,} published figures, of which {n:,} are times of static batches.
Error of the time: median / 90th percentile / bias, in %. Each is predicted by
what was fitted without the model, TP degree, machine or engine it is of.
"""
INTERVALS = "\nIntervals made to hold {nominal:.0%}, set on all other groups: time ×/÷ factor, held.\n"


def accuracy(
    by: Annotated[
        str | None, typer.Option("--by", help="Also by engine, hardware (its class), chip, phase, or group.")
    ] = None,
    regime: Annotated[
        str, typer.Option("--regime", help="What is held out with --by: model, tp, hardware, engine, or in-sample.")
    ] = "model",
    saturated: Annotated[
        bool, typer.Option("--saturated", help="Also saturated throughput of TensorRT-LLM (ten seconds).")
    ] = False,
    refit: Annotated[
        bool, typer.Option("--refit", help="Fit every fold again from the measurements (minutes; needs scipy).")
    ] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="The headline tables in Markdown.")] = False,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", help="Draw predicted against measured, or --by its errors: .svg, .png or .pdf."),
    ] = None,
    json: Json = False,
) -> None:
    """Say how right the estimates are, against every packaged measurement.

    Each measurement is predicted by what was fitted without it: roofline accuracy --by engine --regime hardware
    """
    for name, given, known in (("--by", by, BYS), ("--regime", regime, REGIMES)):
        if given is not None and given not in known:
            raise SpecError(f"{name}: expected {', '.join(known)}, got {given!r}{did_you_mean(given, known)}")
    if markdown and json:
        raise SpecError("accuracy: expected one of --markdown and --json, got both")
    with progress(_n_steps(saturated=saturated, refit=refit)) as step:
        found = accuracy_of(regime=regime, saturated=saturated, refit=refit, progress=step)
    if plot is not None:
        _draw(plot, by, regime)
    if json:
        print_json("accuracy", found.to_dict())
    elif markdown:
        say(found.to_markdown().rstrip())
    else:
        _show(found, by)
        if plot is not None:
            say(f"\nwrote {plot}")


def _n_steps(*, saturated: bool, refit: bool) -> int:
    """Steps of the work that is asked for, as the packaged folds foretell them; 0 where there is nothing to wait for."""
    n_steps = sum(m.load == "saturated" for m in measurements()) if saturated else 0
    if refit:
        told = predicted()
        groups = {p.row.group for p in told}
        folds = {(p.regime, p.row.group, _held(p.regime, p.row)) for p in told}
        n_steps += len(groups) + len(folds)
    return n_steps


def _held(regime: str, row: Any) -> object:
    return {"model": row.model, "tp": row.tp}.get(regime)


def _draw(path: Path, by: str | None, regime: str) -> None:
    from roofline.views import plot as draw

    look: Any = {"regime": regime}  # names that were checked
    ax = draw.predicted_against_measured(**look) if by is None else draw.residuals(**look | {"by": by})
    draw.save(ax, path)


def _show(found: Accuracy, by: str | None) -> None:
    say(HEAD.format(n_all=found.n_measurements, n=found.n_floor_rows))
    print_table(_regimes(found))
    say(INTERVALS.format(nominal=NOMINAL))
    print_table(_intervals(found.coverage))
    least = min((c for c in found.coverage if c.what == "all"), key=lambda c: c.least_group)
    whose = f"{least.least_name} ({least.n_least_rows} figures)"
    average = f"They hold on average over groups, not in each; least: {share(least.least_group)} of {whose}."
    say()
    for sentence in (average, *found.sentences()):
        say(fill(sentence, WIDTH, subsequent_indent="  "))
    if by is not None:
        said = "nothing held out" if found.regime == "in-sample" else f"{HELD_OUT[found.regime]} held out"
        say(f"\nBy {by}, {said}\n")
        print_table(_listed(found.by[by]))
    if found.saturated:
        say("\nSaturated throughput, by machine and version\n")
        print_table(_crowded(found.saturated))


def _regimes(found: Accuracy) -> Table:
    rows = table("TTFT", "TPOT", "throughput", "figures", first="held out")
    for regime in REGIMES:
        row = {e.what: e for e in found.by_regime if e.regime == regime}
        cells = [row[what].said().removesuffix(" %") if what in row else "–" for what in WHATS]
        rows.add_row(HELD_OUT[regime], *cells, f"{sum(e.n_rows for e in row.values()):,}")
    return rows


def _intervals(found: Iterable[Coverage]) -> Table:
    rows = table("holds", "median group", "TTFT", "TPOT", "throughput", first="interval")
    listed = list(found)
    for band in BAND_OF.values():
        row = {c.what: c for c in listed if c.band == band}
        if "all" in row:
            cells = [f"{row[w].factor:.2f}, {share(row[w].coverage)}" if w in row else "–" for w in WHATS]
            rows.add_row(band, share(row["all"].coverage), share(row["all"].median_group), *cells)
    return rows


def _listed(errors: Sequence[Errors]) -> Table:
    by = errors[0].by if errors else ""
    last = () if by == "group" else ("groups",)  # a group is one
    rows = table("<of", "median", "90 %", "bias", "figures", *last, first=by)
    for e in errors:
        figures = (share(e.median), share(e.p90), signed(e.bias), f"{e.n_rows:,}", str(e.n_groups))
        rows.add_row(e.name, SHORT[e.what], *figures[: 4 + len(last)])
    return rows


def _crowded(errors: Sequence[Errors]) -> Table:
    rows = table("median", "90 %", "bias", "figures")
    for e in errors:
        rows.add_row(e.name, share(e.median), share(e.p90), signed(e.bias), f"{e.n_rows:,}")
    return rows
