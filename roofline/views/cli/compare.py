"""`roofline compare`: one's own benchmark, or an engine's log, beside the prediction, and where the gap to the roof lies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from roofline.answers.estimates import known_of
from roofline.errors import SpecError, shorten
from roofline.evidence.calibration.own import read_own
from roofline.evidence.comparison import Compared, Row
from roofline.evidence.comparison import compare as compare_with
from roofline.evidence.readers import read, read_log, sniff
from roofline.timing.shipped import NOMINAL
from roofline.units import format_bytes, format_si
from roofline.views.cli.common import (
    Activations,
    Head,
    Json,
    Kv,
    ModelName,
    Search,
    Weights,
    print_json,
    print_table,
    say,
    table,
    whole,
)
from roofline.views.cli.options import Ways, build, levered
from roofline.views.cli.words import percent, seconds, three, ways
from roofline.views.progress import progress

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["compare", "engine_of_files", "single"]

MOST_NOTES = 6
FEW_RUNS = 50  # compared within a second
_NAMES = {
    "output_tokens_per_s": "Output rate", "weight_bytes": "Weights", "kv_bytes": "KV cache", "kv_tokens": "KV tokens",
    "max_concurrency": "Concurrency",
}  # fmt: skip


@partial(levered, engine="auto")
def compare(
    file: Annotated[
        Path, typer.Argument(help="A benchmark's result, a CSV of your own, or an engine's log.", show_default=False)
    ],
    model: ModelName,
    hardware: Annotated[str, typer.Argument(help="The chip that was measured.", show_default=False)],
    weights: Weights = None,
    kv: Kv = None,
    activations: Activations = None,
    head: Head = None,
    plot: Annotated[
        Path | None, typer.Option(help="Also draw the points under the roof into this .svg, .png or .pdf file.")
    ] = None,
    json: Json = False,
    search: Search = None,
    ways: Ways | None = None,
) -> None:
    """Hold your own benchmark, or an engine's log, against the prediction.

    Reads vllm bench serve, SGLang bench_serving, AIPerf, llama-bench, InferenceX and CSV.
    roofline compare my.csv llama-3.1-8b h100 --engine vllm
    """
    chosen = single(ways or Ways(), [file])
    deployment = build(
        model, [hardware], ways=chosen, search=search, weights=weights, kv=kv, activations=activations, head=head
    )[0]
    hit = 0 if chosen.prefix_hit is None else whole(chosen.prefix_hit, name="--prefix-hit (of a file, tokens)", least=0)
    with progress(_n_runs(file)) as step:
        found = compare_with(
            file, deployment, prefix_tokens=float(hit), shared_tokens=float(chosen.shared), progress=step
        )
    if plot is not None:
        from roofline.views import plot as draw

        draw.save(draw.compared(found), plot)
    if json:
        print_json("compare", found.to_dict())
        return
    _show(found)
    if plot is not None:
        say(f"wrote {plot}")


def _n_runs(file: Path) -> int:
    """Runs of a file, as steps of a bar: none where they are too few for anyone to wait."""
    n = 0 if sniff(file) == "engine log" else len(read(file))
    return n if n > FEW_RUNS else 0


def single(chosen: Ways, files: Sequence[Path]) -> Ways:
    """The ways of what was measured: one pool, no drafts that no file tells of, and the engine that the files name."""
    if chosen.split is not None or chosen.draft is not None:
        name = "--split" if chosen.split is not None else "--draft"
        raise SpecError(f"{name}: a file of measurements does not tell two pools apart, or drafts; leave it out")
    if chosen.engine != "auto":
        return chosen
    fitted_to = None if chosen.efficiency is None else read_own(chosen.efficiency)[1]
    return replace(chosen, engine=fitted_to or engine_of_files(files))


def engine_of_files(files: Sequence[Path]) -> str:
    """The one engine that files name, or the ideal machine where they name none; an error where they name several."""
    named: set[str] = set()
    for file in files:
        runs = [read_log(file)] if sniff(file) == "engine log" else list(read(file))
        named |= {run.engine for run in runs if run.engine}
    if len(named) > 1:
        raise SpecError(f"engine: the runs are of {', '.join(sorted(named))}; name one of them with --engine")
    return next(iter(named), "ideal")


def _show(found: Compared) -> None:
    d, n = found.deployment, found.deployment.numerics
    formats = f"{n.weights_name} weights, {n.kv.name} KV"
    say(f"{d.model.id} on {d.n_chips} × {d.hardware.id}{ways(d.plan)}   {formats}   engine {d.engine.id}")
    say(known_of(d).said)
    for note in found.warnings[:MOST_NOTES]:
        say(f"note: {note}")
    if len(found.warnings) > MOST_NOTES:
        say(f"note: and {len(found.warnings) - MOST_NOTES} more (--json has all)")
    say()
    log = all(row.load == "log" for row in found.rows)
    print_table(_log_table(found.rows) if log else _table(found.rows), spare=("of peak", "of BW", "floor", "output"))
    say()
    for line in [*_reasons(found.rows), *_interval(found), *(gap.said() for gap in found.where_the_gap_lies())]:
        say(line)
    if found.ignored:
        say(f"not used: {shorten(', '.join(found.ignored), 200)}")


def _table(rows: Sequence[Row]) -> Table:
    edges = f"{NOMINAL:.0%} interval"
    made = table("batch", "prompt", "output", "measured", "predicted", edges, "<inside", "ratio", "floor", "of roof",
                 "of BW", "of peak", first="line")  # fmt: skip
    for row in rows:
        edges = "–" if row.low is None or row.high is None else f"{_value(row, row.low)} to {_value(row, row.high)}"
        shares = (row.fraction_of_roof, row.fraction_of_bandwidth, row.fraction_of_compute)
        made.add_row(
            f"{row.where.rpartition(':')[2]:>3} {_name(row)}", *(_count(n) for n in (row.batch, _prompt(row))),
            _count(row.output_tokens), _value(row, row.measured), _value(row, row.predicted), edges, _inside(row),
            "–" if row.ratio is None else f"{row.ratio:.2f}", _value(row, row.floor),
            *("–" if share is None else percent(share) for share in shares),
        )  # fmt: skip
    return made


def _log_table(rows: Sequence[Row]) -> Table:
    made = table("measured", "predicted", "ratio", first="")
    for row in rows:
        made.add_row(_name(row), _value(row, row.measured), _value(row, row.predicted),
                     "–" if row.ratio is None else f"{row.ratio:.3f}")  # fmt: skip
    return made


def _name(row: Row) -> str:
    return _NAMES.get(row.what, row.what.upper())


def _prompt(row: Row) -> float | None:
    """All that is read or was cached before the answer."""
    both = (row.prompt_tokens or 0.0) + (row.past_tokens or 0.0)
    return both if row.prompt_tokens is not None or row.past_tokens is not None else None


def _count(n: float | None) -> str:
    return "–" if n is None else f"{n:,.0f}"


def _value(row: Row, value: float | None) -> str:
    if value is None:
        return "–"
    if row.what in ("ttft", "tpot", "e2e"):
        return seconds(value)
    if row.what == "output_tokens_per_s":
        return format_si(value, "tok/s")
    return format_bytes(value) if row.what.endswith("bytes") else three(value)


def _inside(row: Row) -> str:
    if row.beats_floor:
        return "beats the floor"
    return "–" if row.inside is None else "yes" if row.inside else "no"


def _reasons(rows: Sequence[Row]) -> list[str]:
    """What is said of rows, each sentence once with the lines it is about."""
    lines: dict[str, dict[str, None]] = {}
    for row in rows:
        if row.note:
            said = row.note if row.compared else f"not compared: {row.note}"
            lines.setdefault(said, {})[row.where.rpartition(":")[2]] = None
    return [f"{'line' if len(at) == 1 else 'lines'} {', '.join(at)}: {said}" if rows[0].load != "log" else said
            for said, at in lines.items()]  # fmt: skip


def _interval(found: Compared) -> list[str]:
    judged = [row for row in found.compared if row.inside is not None]
    if not judged:
        return []
    n = sum(bool(row.inside) for row in judged)
    return [f"{n} of {len(judged)} are inside the interval that is made to hold {NOMINAL:.0%}."]
