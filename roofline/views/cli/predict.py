"""`roofline predict`: the main job. TTFT, TPOT, memory, what binds, and which single change would help most."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from roofline.answers.levers import Lever, decode_limit, levers, ways_to_fit
from roofline.answers.phases import prefill
from roofline.answers.prediction import Prediction
from roofline.answers.prediction import predict as predict_request
from roofline.num import Num
from roofline.specs.ffns import Moe
from roofline.specs.model import Model
from roofline.specs.plan import Plan
from roofline.timing.clock import Timing
from roofline.units import format_bytes, format_si
from roofline.views.cli.common import (
    Activations,
    Batch,
    Check,
    Chips,
    Engine,
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
    build,
    laid_out,
    print_json,
    print_table,
    say,
    sides,
    table,
    usual_prompt,
    whole,
)

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["percent", "predict", "three", "ways"]

IDEAL_NOTE = "uncalibrated: ideal hardware, activations through memory between ops; only the floor is a bound"


@laid_out
def predict(
    model: ModelName,
    hardware: Chips,
    prompt: PromptOrUsual = None,
    output: Output = None,
    batch: Batch = "1",
    images: Images = "0",
    image_size: ImageSize = "1024x1024",
    weights: Weights = None,
    kv: Kv = None,
    activations: Activations = None,
    head: Head = None,
    engine: Engine = "ideal",
    plot: Annotated[Path | None, typer.Option(help="Also draw the roofline into this .svg, .png or .pdf file.")] = None,
    json: Json = False,
    check: Check = False,
    search: Search = None,
    plan: Plan | None = None,
) -> None:
    """Predict TTFT, TPOT, memory and what binds.

    On one chip, or on several side by side.
    """
    deployments = build(
        model,
        hardware,
        weights=weights,
        kv=kv,
        activations=activations,
        head=head,
        engine=engine,
        search=search,
        plan=plan,
    )
    usual = "256" if deployments[0].model.generates else "0"
    predictions = [
        predict_request(
            d,
            prompt_tokens=whole(prompt or usual_prompt(d.model), name="--prompt"),
            output_tokens=whole(output or usual, name="--output", least=0, most=1e7),
            batch=whole(batch, name="--batch"),
            images=whole(images, name="--images", least=0, most=1e6),
            image_size=sides(image_size),
        )
        for d in deployments
    ]
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
    verdict = _verdict(p)  # before anything is said: an error may not follow half an answer
    say(_identity(p))
    for note in _notes(p):
        say(note)
    say(IDEAL_NOTE)
    say()
    print_table(_phases(p), spare=("of BW", "of peak", "ridge", "FLOP/B"))
    say()
    for label, text in _facts(p):
        say(f"{label:<12}{text}")
    say()
    for line in verdict:
        say(line)


def _notes(p: Prediction) -> list[str]:
    d = p.deployment
    notes = [f"note: {sentence}" for sentence in d.said()] + beyond_context(d.model, int(p.longest_tokens))
    n = len(d.model.assumed)
    left_open = (
        f"note: the model's file leaves {n} values open, assumed by its family (roofline models show lists them)"
    )
    return [*notes, left_open] if n else notes


def ways(plan: Plan) -> str:
    """The parallel ways of a plan, as people write them; nothing for one chip.

    >>> ways(Plan(tp=4, pp=2))
    ' (tp 4, pp 2)'
    """
    given = [f"{name} {n}" for name in ("tp", "pp", "ep", "dp", "cp") if (n := getattr(plan, name)) > 1]
    return f" ({', '.join(given)})" if given else ""


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
    rows = table("ideal", "floor", "<binds", "FLOP/B", "ridge", "of peak", "of BW")
    t = p.prefill
    everyone = "" if p.batch == 1 else f" (all {p.batch:,.0f})"
    first = "TTFT" if p.deployment.model.generates else "Encoding"
    rows.add_row(f"{first}{everyone}", *_time_cells(p.ttft_s, p.ttft_floor_s), *_roof_cells(t))
    if p.batch > 1:
        alone = prefill(p.deployment, prompt_tokens=p.prompt_tokens, images=p.images, image_size=p.image_size)
        rows.add_row("  one prompt alone", *_time_cells(alone.seconds, alone.floor_s), *_roof_cells(alone))
    if p.decode is not None:
        rows.add_row("TPOT", *_time_cells(p.tpot_s, p.tpot_floor_s), *_roof_cells(p.decode))
    if p.deployment.model.generates:
        rows.add_row("Whole request", *_time_cells(p.e2e_s, p.e2e_floor_s), "", "", "", "", "")
    return rows


def _time_cells(estimate: Num | None, floor: Num | None) -> tuple[str, str]:
    return _seconds(estimate), _seconds(floor)


def _seconds(value: Num | None) -> str:
    return "–" if value is None else format_si(float(value), "s")


def _roof_cells(t: Timing) -> tuple[str, ...]:
    return str(t.bound), three(t.intensity), three(t.ridge), percent(t.mfu), percent(t.mbu)


def three(value: Num) -> str:
    """Three significant digits, plain: 7.47, 295, 1,943.

    >>> three(7.472), three(295.34), three(1943.2)
    ('7.47', '295', '1,943')
    """
    return f"{float(value):,.0f}" if value >= 100 else f"{float(value):.3g}"


def percent(share: Num) -> str:
    """A share for people: two digits where it is small.

    >>> percent(0.0034), percent(0.95)
    ('0.34 %', '95 %')
    """
    return f"{100 * float(share):.2g} %" if share < 0.1 else f"{100 * float(share):.0f} %"


def _facts(p: Prediction) -> list[tuple[str, str]]:
    m, lines = p.memory, []
    if p.decode is not None and p.tokens_per_s_per_user is not None and p.tokens_per_s is not None:
        user, everyone = three(p.tokens_per_s_per_user), three(p.tokens_per_s)
        lines.append(("Speed", f"{user} tok/s per user, {everyone} tok/s in all while decoding"))
        lines.append(("Decode step", _traffic(p.decode)))
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
    held = f"{format_bytes(float(m.used_bytes_per_chip))} of {format_bytes(m.capacity_bytes)}"
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


def _traffic(decode: Timing) -> str:
    by = {"weights": 0.0, "KV": 0.0, "state": 0.0, "activations": 0.0}
    for row in decode.by_op():
        by["weights"] += float(row["weight_bytes"])
        by["KV"] += float(row["kv_read_bytes"] + row["kv_write_bytes"])
        by["state"] += float(row["state_bytes"])
        by["activations"] += float(row["act_bytes"])
    total = sum(by.values())
    told = {name: value for name, value in by.items() if value or name != "state"}
    parts = ", ".join(f"{name} {format_si(value, 'B')} ({percent(value / total)})" for name, value in told.items())
    return f"moves {format_si(total, 'B')}: {parts}"


def _verdict(p: Prediction) -> list[str]:
    """What binds, by how much, and the single changes that would help most."""
    lines = []
    if not p.memory.fits:
        ways = "; ".join(ways_to_fit(p)) or "no single change tried here"
        lines.append(f"It does not fit: {format_bytes(float(p.memory.short_by_bytes))} too much. Would fit: {ways}.")
    lines.append(_binds("Prefill", p.prefill))
    if p.decode is not None:
        lines.append(_binds("Decode", p.decode))
    found = levers(p)[:3]
    if found:
        lines.append("Single changes that would help most:")
        width = max(len(v.name) for v in found)
        lines.extend(f"  {i}. {v.name:<{width}}   {_effect(v, p)}" for i, v in enumerate(found, 1))
    if p.decode is not None:
        lines.append(_asymptote(p))
    return lines


def _binds(phase: str, t: Timing) -> str:
    """What binds most of the time, and how far the pass as a whole stands from the ridge where that says the same."""
    if t.bound == "overhead":
        return f"{phase} is limited by launches."
    bound_s, word = (t.compute_bound_s, "compute") if t.bound == "compute" else (t.memory_bound_s, "memory bandwidth")
    share = f"{phase} is limited by {word} for {percent(bound_s / t.seconds)} of its time"
    away = t.intensity / t.ridge if t.bound == "compute" else t.ridge / t.intensity
    if away <= 1:
        return f"{share}."
    side = "above" if t.bound == "compute" else "below"
    return f"{share}: its FLOP per byte stand {three(away)}× {side} the ridge."


def _effect(v: Lever, p: Prediction) -> str:
    parts = [f"whole request {_change(v.e2e_s, p.e2e_s)}"]
    if v.tpot_s is not None and p.tpot_s is not None and abs(v.tpot_s / float(p.tpot_s) - 1) > 0.005:
        parts.insert(0, f"TPOT {_seconds(v.tpot_s)} ({_change(v.tpot_s, p.tpot_s)})")
    if abs(v.ttft_s / float(p.ttft_s) - 1) > 0.005:
        parts.insert(0, f"TTFT {_seconds(v.ttft_s)} ({_change(v.ttft_s, p.ttft_s)})")
    return ", ".join(parts)


def _change(after: float, before: Num) -> str:
    return f"{100 * (after / float(before) - 1):+.0f} %".replace("-", "−")


def _asymptote(p: Prediction) -> str:
    """Where batching leads: weights are shared by ever more sequences, caches by none."""
    context = float(p.request.n_new) + (p.output_tokens - 2) / 2
    remembers = p.deployment.model.remembers
    memory_tokens = p.request.n_memory if remembers else None
    limit: float = decode_limit(p.deployment, context_tokens=context, memory_tokens=memory_tokens)
    ridge = p.prefill.ridge
    tends = f"As the batch grows, decode's intensity at this context tends to {three(limit)} FLOP/B"
    if limit < ridge:
        return f"{tends}: no batch lifts it past the ridge of {three(ridge)}."
    return f"{tends}: a large enough batch lifts it past the ridge of {three(ridge)}."


def _side_by_side(predictions: list[Prediction]) -> None:
    say(_identity(predictions[0], with_chip=False))
    for note in dict.fromkeys(note for p in predictions for note in _notes(p)):
        say(note)
    say(IDEAL_NOTE)
    say()
    rows = table("TTFT", "TPOT", "whole", "tok/s/user", "tok/s in all", "<prefill", "<decode", "<fits", first="chip")
    for p in predictions:
        fits = "yes" if p.memory.fits else f"{format_bytes(float(p.memory.short_by_bytes))} over"
        speeds = ("–" if v is None else three(v) for v in (p.tokens_per_s_per_user, p.tokens_per_s))
        times = (_seconds(v) for v in (p.ttft_s, p.tpot_s, p.e2e_s))
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
