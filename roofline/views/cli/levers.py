"""`roofline levers`: every lever on one request, turned one at a time; and what each step to a smaller cache buys."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roofline.answers.ladder import CacheLadder, cache_ladder
from roofline.answers.lever_table import LeverRow, lever_table
from roofline.answers.prediction import Prediction
from roofline.errors import RooflineError, SpecError
from roofline.specs.deployment import Deployment
from roofline.units import format_bytes, format_si
from roofline.views.cli.common import (
    Activations,
    Batch,
    Chips,
    Head,
    Json,
    Kv,
    ModelName,
    Output,
    PromptOrUsual,
    Search,
    Weights,
    beyond_context,
    print_json,
    print_table,
    say,
    table,
    whole,
)
from roofline.views.cli.options import Ways, asked_of, build, levered, predicted
from roofline.views.cli.words import seconds, three, trust, ways

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["levers"]


@levered
def levers(
    model: ModelName,
    hardware: Chips = None,
    prompt: PromptOrUsual = None,
    output: Output = None,
    batch: Batch = "8",
    context: Annotated[
        str, typer.Option("--context", "-c", help="Of the cache table at the end, one sequence.")
    ] = "4096",
    weights: Weights = None,
    kv: Kv = None,
    activations: Activations = None,
    head: Head = None,
    json: Json = False,
    search: Search = None,
    ways: Ways | None = None,
) -> None:
    """Turn every lever, one at a time.

    Bytes moved for each token, bytes held, TTFT, TPOT, tokens per second and chip, and room, against the baseline; then the
    cache from MHA down to 4 bits, on each chip.
    """
    chosen = ways or Ways()
    if chosen.split is not None:
        raise SpecError("levers: splitting is one of its rows; leave --split out")
    formats = {"weights": weights, "kv": kv, "activations": activations, "head": head}
    deployments = build(model, hardware or (), ways=chosen, search=search, **formats)
    asked = asked_of(deployments[0].model, prompt=prompt, output=output, batch=batch)
    predictions = predicted(deployments, asked, chosen, search)
    tables = [lever_table(p) for p in predictions]
    ladder = _ladder(deployments, whole(context, name="--context"))
    if json:
        print_json("levers", _content(predictions, tables, ladder))
        return
    for p, rows in zip(predictions, tables, strict=True):
        _show(p, rows)
    if ladder is not None:
        _show_ladder(ladder, deployments)


def _ladder(deployments: Sequence[Deployment], context: int) -> CacheLadder | None:
    """None of a model that has no heads to count: recurrent, compressed, an encoder."""
    with suppress(RooflineError):  # a source text of unknown length, no heads to count
        return cache_ladder(deployments, context_tokens=context)
    return None


def _content(
    predictions: Sequence[Prediction], tables: Sequence[Sequence[LeverRow]], ladder: CacheLadder | None
) -> dict[str, Any]:
    answers = [
        {"model": p.deployment.model.id, "hardware": p.deployment.hardware.id, "levers": [r.to_dict() for r in rows]}
        for p, rows in zip(predictions, tables, strict=True)
    ]
    first = answers[0] if len(answers) == 1 else {"answers": answers}
    return first | {"cache_ladder": None if ladder is None else ladder.to_dict()}


def _show(p: Prediction, rows: Sequence[LeverRow]) -> None:
    d, n = p.deployment, p.deployment.numerics
    shape = f"{p.batch:,.0f} requests, {p.prompt_tokens:,.0f} in / {p.output_tokens:,} out"
    formats = f"{n.weights_name} weights, {n.kv.name} KV"
    say(f"{d.model.id} on {d.n_chips} × {d.hardware.id}{ways(d.plan)}   {formats}   {shape}")
    for note in (*(f"note: {sentence}" for sentence in d.said()), *beyond_context(d.model, int(p.longest_tokens))):
        say(note)
    say("each lever by itself, against the first line")
    for line in trust(d):
        say(line)
    say()
    print_table(_table(rows), spare=("room", "held"))
    assumed = [f"{row.lever}: {row.assumes}" for row in rows if row.assumes]
    say()
    for line in assumed:
        say(line)
    if any(not row.fits for row in rows):
        say("* does not fit at this batch and context: times as if it did")
    for line in _verdict(rows):
        say(line)
    say()


def _table(rows: Sequence[LeverRow]) -> Table:
    made = table("chips", "B/token", "held", "TTFT", "TPOT", "tok/s/chip", "room", first="lever")
    base = rows[0]
    for row in rows:
        room = "any" if math.isinf(row.max_batch) else f"{row.max_batch:,.0f}"
        moved = "–" if row.bytes_per_token is None else format_si(row.bytes_per_token, "B")
        made.add_row(
            row.lever + ("" if row.fits else " *"),
            str(row.n_chips),
            moved + _by(row.bytes_per_token, base.bytes_per_token),
            format_bytes(row.resident_bytes),
            seconds(row.ttft_s) + _by(row.ttft_s, base.ttft_s),
            seconds(row.tpot_s) + _by(row.tpot_s, base.tpot_s),
            three(row.served_tokens_per_s_per_chip)
            + _by(row.served_tokens_per_s_per_chip, base.served_tokens_per_s_per_chip),
            room,
        )
    return made


def _by(after: float | None, before: float | None) -> str:
    """The change in percent, of the same width for all; blank where there is none."""
    if not after or not before or abs(after / before - 1.0) < 0.005:
        return " " * 8
    change = 100.0 * (after / before - 1.0)
    factor = after / before
    said = f"{change:+.0f} %" if change < 900.0 else f"{factor:,.0f}×"
    return f"{said.replace('-', '−'):>8}"


def _verdict(rows: Sequence[LeverRow]) -> list[str]:
    """Which lever first: for the user's wait, for each token, for the fleet."""
    base, others = rows[0], [row for row in rows[1:] if row.fits and not row.assumes]
    if not others:
        return []
    lines = []
    quick = min(others, key=lambda row: row.ttft_s)
    if quick.ttft_s < 0.98 * base.ttft_s:
        lines.append(f"Lowest TTFT: {quick.lever} ({seconds(quick.ttft_s)}).")
    steps = [row for row in others if row.tpot_s is not None]
    if steps and base.tpot_s is not None:
        fast = min(steps, key=lambda row: row.tpot_s or math.inf)
        if (fast.tpot_s or math.inf) < 0.98 * base.tpot_s:
            lines.append(f"Lowest TPOT: {fast.lever} ({seconds(fast.tpot_s)}).")
    cheap = max(others, key=lambda row: row.served_tokens_per_s_per_chip)
    if cheap.served_tokens_per_s_per_chip > 1.02 * base.served_tokens_per_s_per_chip:
        lines.append(f"Most tokens a chip: {cheap.lever} ({three(cheap.served_tokens_per_s_per_chip)} tok/s).")
    return lines


def _show_ladder(ladder: CacheLadder, deployments: Sequence[Deployment]) -> None:
    """One row a rung: keys of a layer, cache of a token, TPOT on each chip."""
    say(f"The cache of one sequence at {float(ladder.context_tokens):,.0f} tokens, from MHA down:")
    say()
    made = table("K a layer", "cache a token", *(f"TPOT {d.hardware.id}" for d in deployments), first="")
    for rung in ladder:
        made.add_row(
            rung.name,
            format_bytes(float(rung.k_bytes_per_layer)),
            format_bytes(float(rung.kv_bytes_per_token)),
            *(f"{seconds(chip.tpot_s)}" for chip in rung.chips),
        )
    print_table(made)
    for note in dict.fromkeys(chip.note for rung in ladder for chip in rung.chips if chip.note):
        say(f"note: {note}")
