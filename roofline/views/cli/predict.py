"""`roofline predict`: the main job. TTFT, TPOT, memory, what binds, and which single change would help most."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from roofline.answers.chunks import budget_tokens, first_token
from roofline.answers.estimates import known_of
from roofline.answers.levers import Lever, levers
from roofline.answers.prediction import Prediction
from roofline.errors import SpecError
from roofline.num import Num
from roofline.specs.ffns import Moe
from roofline.specs.model import Model
from roofline.timing.clock import Timing
from roofline.units import format_bytes, format_si
from roofline.views.cli.common import (
    Activations,
    Batch,
    Check,
    Chips,
    Head,
    Images,
    ImageSize,
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
    sides,
    table,
    whole,
)
from roofline.views.cli.options import Ways, asked_of, build, levered, predicted
from roofline.views.cli.verdict import verdict_of
from roofline.views.cli.words import between, percent, seconds, three, trust, waiting, ways

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["predict"]


@levered
def predict(
    model: ModelName,
    hardware: Chips = None,
    prompt: PromptOrUsual = None,
    output: Output = None,
    batch: Batch = "1",
    images: Images = "0",
    image_size: ImageSize = "1024x1024",
    weights: Weights = None,
    kv: Kv = None,
    activations: Activations = None,
    head: Head = None,
    plot: Annotated[Path | None, typer.Option(help="Also draw the roofline into this .svg, .png or .pdf file.")] = None,
    json: Json = False,
    check: Check = False,
    search: Search = None,
    ways: Ways | None = None,
) -> None:
    """Predict TTFT, TPOT, memory and what binds.

    On one chip, or on several side by side.
    """
    chosen = ways or Ways()
    deployments = build(
        model, hardware or (), ways=chosen, search=search, weights=weights, kv=kv, activations=activations, head=head
    )
    asked = asked_of(deployments[0].model, prompt=prompt, output=output, batch=batch)
    if chosen.split is not None:
        if images != "0" or chosen.shared:
            raise SpecError("--split: expected text prompts that share nothing; leave --images and --shared out")
        from roofline.views.cli.pools import show_split

        show_split(chosen, deployments, asked, plot=plot, json=json, check=check, search=search)
        return
    pictures = {"images": whole(images, name="--images", least=0, most=1e6), "image_size": sides(image_size)}
    predictions = predicted(deployments, asked | pictures, chosen, search)
    if plot is not None:
        _draw(predictions, plot)
        if not json:
            say(f"wrote {plot}")
    if json and len(predictions) == 1:
        print_json("predict", predictions[0].to_dict() | {"levers": [_lever_dict(v) for v in levers(predictions[0])]})
    elif json:
        print_json("comparison", {"predictions": [p.to_dict() for p in predictions]})
    elif len(predictions) == 1:
        _one(predictions[0])
    else:
        _side_by_side(predictions)
    if check and not all(p.memory.fits for p in predictions):
        raise typer.Exit(4)


def _lever_dict(lever: Lever) -> dict[str, object]:
    return {name: getattr(lever, name) for name in Lever.__slots__}


def _draw(predictions: list[Prediction], path: Path) -> None:
    from roofline.views import plot

    plot.save(plot.roofline(predictions[0] if len(predictions) == 1 else predictions), path)


def _one(p: Prediction) -> None:
    verdict = verdict_of(p)  # before anything is said: an error may not follow half an answer
    say(_identity(p))
    for note in _notes(p):
        say(note)
    for line in trust(p.deployment):
        say(line)
    for line in _levers_in_use(p):
        say(line)
    say()
    print_table(_phases(p), spare=("of BW", "of peak", "ridge", "FLOP/B"))
    say()
    for label, text in _facts(p):
        say(f"{label:<12}{text}")
    say()
    for line in verdict:
        say(line)


def _levers_in_use(p: Prediction) -> list[str]:
    """What was asked for beside model, chip, formats and plan."""
    d, lines = p.deployment, []
    if d.engine.id != "ideal":
        lines.append(f"engine: memory and schedule of {d.engine.name} {d.engine.version}")
    if p.prefix_tokens:
        lines.append(
            f"prefix cache: {p.prefix_tokens:,.0f} of each prompt's tokens are there; the rest attends to them"
        )
    if p.shared_tokens:
        lines.append(f"shared: the first {p.shared_tokens:,.0f} tokens of all prompts are held, and computed, once")
    if d.offload is not None:
        o = d.offload
        lines.append(
            f"offload: {percent(o.fraction)} of the {_WHAT[o.what]} in {o.to} memory, computed on the {o.compute}"
        )
    s = p.speculation
    if s is not None:
        who = s.drafter.kind if s.drafter.deployment is None else s.drafter.deployment.model.id
        many = "1 draft" if s.n_drafts == 1 else f"{float(s.n_drafts):,.0f} drafts"
        many += f" by {who}, {percent(float(s.acceptance))} accepted"
        gives = f"{three(s.tokens_per_round)} tokens a round of {seconds(s.round_s)} ({seconds(s.draft_s)} drafting)"
        lines.append(f"drafts: {many}: {gives}; TPOT without them {seconds(s.plain_tpot_s)}")
    return lines


_WHAT = {"weights": "weights", "experts": "experts", "kv": "KV cache"}


def _chunks(p: Prediction) -> list[tuple[str, str]]:
    """How the prompts are cut, and what a chunk costs the decodes beside it."""
    budget, n = budget_tokens(p.deployment), float(getattr(p.prefill, "n_passes", 1.0))
    if math.isinf(budget) or p.decode is None or p.deployment.model.reads_a_source:
        return []
    cut = f"{n:,.0f} passes of up to {budget:,.0f} tokens" if n > 1 else "one pass"
    context = float(p.request.n_new) + (p.output_tokens - 2) / 2
    size = min(budget, float(p.request.n_new))
    from roofline.answers.mixed import mixed_pass

    beside = mixed_pass(p.deployment, context_tokens=context, batch=p.batch, chunk_tokens=size)
    cost = f"a chunk of {size:,.0f} beside these decodes delays their next token by {seconds(beside.tpot_cost_s)}"
    return [("Prefill", f"in {cut}; {cost}")]


def _notes(p: Prediction) -> list[str]:
    d = p.deployment
    sentences = [*d.said(), *filter(None, [waiting(d, float(p.batch))])]
    notes = [f"note: {sentence}" for sentence in sentences] + beyond_context(d.model, int(p.longest_tokens))
    n = len(d.model.assumed)
    left_open = (
        f"note: the model's file leaves {n} values open, assumed by its family (roofline models show lists them)"
    )
    return [*notes, left_open] if n else notes


def _identity(p: Prediction, *, with_chip: bool = True) -> str:
    d, n = p.deployment, p.deployment.numerics
    requests = "1 request" if p.batch == 1 else f"{p.batch:,.0f} requests"
    formats = f"{n.weights_name} weights, {n.kv.name} KV"
    chip = f" on {d.n_chips} × {d.hardware.id}{ways(d.plan)}" if with_chip else ""
    seen = _images(p)
    return f"{d.model.id}{chip}   {formats}   {requests}, {p.prompt_tokens:,.0f}{seen} in / {p.output_tokens:,} out"


def _images(p: Prediction) -> str:
    """What images add to the prompt."""
    if not p.images:
        return ""
    many = "1 image" if p.images == 1 else f"{p.images:,.0f} images"
    size, tokens = f"{p.image_size[0]:,} × {p.image_size[1]:,}", p.request.n_new - p.prompt_tokens
    return f" + {many} of {size} ({tokens or p.request.n_memory:,.0f} tokens)"


def _phases(p: Prediction) -> Table:
    real = bool(known_of(p.deployment).bands)
    first = ("estimate", "4 of 5 within") if real else ("ideal",)
    rows = table(*first, "floor", "<binds", "FLOP/B", "ridge", "of peak", "of BW")
    t = p.prefill

    def times(estimate: Num | None, low: Num | None, high: Num | None, floor: Num | None) -> tuple[str, ...]:
        within = "" if low is None or high is None else between(low, high)
        return (seconds(estimate), *([within] if real else []), seconds(floor))

    everyone = "" if p.batch == 1 else f" (all {p.batch:,.0f})"
    label = "TTFT" if p.deployment.model.generates else "Encoding"
    rows.add_row(f"{label}{everyone}", *times(p.ttft_s, p.ttft_low_s, p.ttft_high_s, p.ttft_floor_s), *_roof_cells(t))
    if p.batch > 1 and p.drafting is None:
        alone = first_token(
            p.deployment, prompt_tokens=p.prompt_tokens, images=p.images, image_size=p.image_size,
            prefix_tokens=p.prefix_tokens,
        )  # fmt: skip
        rows.add_row("  one prompt alone", *times(alone.seconds, None, None, alone.floor_s), *_roof_cells(alone))
    if p.decode is not None:
        token = "TPOT" if p.drafting is None else "TPOT (verifying)"
        rows.add_row(token, *times(p.tpot_s, p.tpot_low_s, p.tpot_high_s, p.tpot_floor_s), *_roof_cells(p.decode))
    if p.deployment.model.generates:
        rows.add_row("Whole request", *times(p.e2e_s, p.e2e_low_s, p.e2e_high_s, p.e2e_floor_s), "", "", "", "", "")
    return rows


def _roof_cells(t: Timing) -> tuple[str, ...]:
    return str(t.bound), three(t.intensity), three(t.ridge), percent(t.mfu), percent(t.mbu)


def _facts(p: Prediction) -> list[tuple[str, str]]:
    m, lines = p.memory, _chunks(p)
    if p.decode is not None and p.tokens_per_s_per_user is not None and p.tokens_per_s is not None:
        user, everyone = three(p.tokens_per_s_per_user), three(p.tokens_per_s)
        lines.append(("Speed", f"{user} tok/s per user, {everyone} tok/s in all while decoding"))
        step = "Decode step" if p.drafting is None else "Verifying"
        each = "on each chip " if p.deployment.n_chips > 1 else ""
        lines.append((step, _traffic(p.decode, each)))
        lines.extend(("", sentence) for sentence in _experts(p.decode, p.deployment.model))
    each = " on each chip" if p.deployment.n_chips > 1 else ""
    verdict = f"fits{each}" if m.fits else f"does not fit: {format_bytes(float(m.short_by_bytes))} over{each}"
    parts = f"weights {format_bytes(m.weight_bytes_per_chip)}, KV cache {format_bytes(float(m.kv_bytes_per_chip))}"
    parts += f", recurrent state {format_bytes(float(m.state_bytes_per_chip))}" if m.state_bytes else ""
    most = f"{m.max_context_tokens:,.0f} tokens each at this batch"
    whose = " (the model's limit)" if m.max_context_tokens == p.deployment.model.max_context_tokens else ""
    many = "any number of" if math.isinf(float(m.max_batch)) else f"{m.max_batch:,.0f}"
    room = f"room for {many} such requests, or {most}{whose}"
    if not p.deployment.model.generates:
        held = f"{format_bytes(m.weight_bytes_per_chip)} of {format_bytes(m.capacity_bytes)}"
        return [*lines, ("Memory", f"{held} ({verdict}): weights, no cache")]
    reserved = m.activation_bytes_per_chip + m.runtime_bytes_per_chip
    parts += f", draft {format_bytes(float(m.other_bytes_per_chip))}" if float(m.other_bytes_per_chip) else ""
    parts += f", engine {format_bytes(reserved)}" if reserved else ""
    held = f"{format_bytes(float(m.used_bytes_per_chip) + reserved)} of {format_bytes(m.capacity_bytes)}"
    lines.append(("Memory", f"{held} ({verdict}): {parts}"))
    while_open = " while no window is full" if p.deployment.model.windows else ""
    lines.append(("", f"KV {format_bytes(m.kv_bytes_per_token)} a token{while_open}; {room}"))
    return lines


def _experts(decode: Timing, model: Model) -> list[str]:
    """How many experts a decode step reads: expected, and between which bounds."""
    rows = [row for row in decode.by_op() if row["kind"] == "expert"]
    found = next((layer.ffn for _, layer in model.layer_kinds() if isinstance(layer.ffn, Moe)), None)
    if not rows or found is None:
        return []
    one = float(rows[0]["weight_bytes_min"]) / found.n_active_experts
    touched, most = (float(rows[0][k]) / one for k in ("weight_bytes", "weight_bytes_max"))
    reads = f"reads {three(touched)} of {found.n_experts} experts a layer"
    if most <= found.n_active_experts:
        return [reads]
    return [f"{reads}, as uniform routing would (at least {found.n_active_experts}, at most {most:,.0f})"]


def _traffic(decode: Timing, each: str) -> str:
    by = {"weights": 0.0, "KV": 0.0, "state": 0.0, "activations": 0.0}
    for row in decode.by_op():
        by["weights"] += float(row["weight_bytes"])
        by["KV"] += float(row["kv_read_bytes"] + row["kv_write_bytes"])
        by["state"] += float(row["state_bytes"])
        by["activations"] += float(row["act_bytes"])
    total = sum(by.values())
    told = {name: value for name, value in by.items() if value or name != "state"}
    parts = ", ".join(f"{name} {format_si(value, 'B')} ({percent(value / total)})" for name, value in told.items())
    return f"moves {format_si(total, 'B')} {each}: {parts}".replace(" :", ":")


def _side_by_side(predictions: list[Prediction]) -> None:
    say(_identity(predictions[0], with_chip=False))
    for note in dict.fromkeys(note for p in predictions for note in _notes(p)):
        say(note)
    for line in dict.fromkeys(line for p in predictions for line in trust(p.deployment)):
        say(line)
    say()
    rows = table("TTFT", "TPOT", "whole", "tok/s/user", "tok/s in all", "<prefill", "<decode", "<fits", first="chip")
    for p in predictions:
        fits = "yes" if p.memory.fits else f"{format_bytes(float(p.memory.short_by_bytes))} over"
        speeds = ("–" if v is None else three(v) for v in (p.tokens_per_s_per_user, p.tokens_per_s))
        times = (seconds(v) for v in (p.ttft_s, p.tpot_s, p.e2e_s))
        bounds = (str(p.prefill.bound), "–" if p.decode is None else str(p.decode.bound))
        rows.add_row(p.deployment.hardware.id, *times, *speeds, *bounds, fits)
    print_table(rows, spare=("tok/s in all", "prefill", "decode", "tok/s/user"))
    say()
    able = [p for p in predictions if p.memory.fits]
    if not able:
        say("It fits on none of them.")
        return
    best = min(able, key=lambda p: float(p.e2e_s))
    bound = best.tpot_bound or best.ttft_bound
    say(f"Of those it fits on, {best.deployment.hardware.id} finishes first, limited by {bound} most of the time.")
