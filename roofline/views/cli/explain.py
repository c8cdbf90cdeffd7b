"""`roofline explain`: every matrix product of a pass, with its shape, FLOPs, bytes, intensity, time and bound."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from roofline.answers.inputs import request
from roofline.answers.phases import decode, prefill
from roofline.errors import SpecError
from roofline.specs.deployment import Deployment
from roofline.specs.plan import Plan
from roofline.timing.clock import Timing
from roofline.units import format_si
from roofline.views.cli.common import (
    Activations,
    Attention,
    Batch,
    Head,
    Images,
    ImageSize,
    Json,
    Kv,
    ModelName,
    PromptOrUsual,
    Search,
    Source,
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
from roofline.views.cli.predict import percent, three

__all__ = ["explain"]


@laid_out
def explain(
    model: ModelName,
    hardware: Annotated[str, typer.Argument(help="A chip: name, alias or path.", show_default=False)],
    prompt: PromptOrUsual = None,
    context: Annotated[
        str | None,
        typer.Option("--context", "-c", help="Cached tokens decode sees.  [default: the prompt, or 1 past a source]"),
    ] = None,
    batch: Batch = "1",
    images: Images = "0",
    image_size: ImageSize = "1024x1024",
    source: Source = None,
    phase: Annotated[str, typer.Option(help="prefill, decode or both.")] = "both",
    attention: Attention = "flash",
    latent: Annotated[
        str, typer.Option(help="Latent attention: auto (the form with fewer FLOPs), absorbed or expanded.")
    ] = "auto",
    routing: Annotated[
        float, typer.Option(help="How experts spread: 1 uniform; below, tokens agree more often and read fewer.")
    ] = 1.0,
    exact: Annotated[bool, typer.Option("--exact", help="Whole numbers of FLOPs and bytes, of one layer.")] = False,
    weights: Weights = None,
    kv: Kv = None,
    activations: Activations = None,
    head: Head = None,
    json: Json = False,
    search: Search = None,
    plan: Plan | None = None,
) -> None:
    """Explain a pass, product by product.

    Every matrix product with its shape, FLOPs, bytes, intensity, seconds and bound.
    """
    if phase not in ("prefill", "decode", "both"):
        raise SpecError(f"--phase: expected prefill, decode or both, got {phase!r}")
    (d,) = build(
        model, [hardware], weights=weights, kv=kv, activations=activations, head=head, search=search, plan=plan
    )
    n_prompt, n_seq = whole(prompt or usual_prompt(d.model), name="--prompt"), whole(batch, name="--batch")
    pictures: Any = {"images": whole(images, name="--images", least=0, most=1e6), "image_size": sides(image_size)}
    asks = request(d.model, prompt_tokens=float(n_prompt), **pictures)
    past = int(asks.n_new) if context is None else whole(context, name="--context", least=0)
    memory = asks.n_memory if source is None else float(whole(source, name="--source", least=0))
    how: Any = {"batch": n_seq, "attention": attention, "latent": latent, "routing_exponent": routing}
    passes: dict[str, Timing] = {}
    if phase != "decode":
        passes["prefill"] = prefill(d, prompt_tokens=n_prompt, **pictures, **how)
    if phase != "prefill" and d.model.generates:
        remembered = memory if d.model.remembers or source is not None else None
        passes["decode"] = decode(d, context_tokens=past, memory_tokens=remembered, **how)
    if not passes:
        raise SpecError(f"--phase: {d.model.id} is an encoder: it has no decode; ask prefill")
    if json:
        said = {"model": d.model.id, "hardware": d.hardware.id, "assumed": list(d.model.assumed)}
        print_json("explain", said | {name: list(_products(t)) for name, t in passes.items()})
        return
    longest = {"prefill": max(n_prompt, int(asks.n_new)), "decode": past + 1}
    for note in _notes(d, max(longest[name] for name in passes)):
        say(note)
    read = f" and {asks.n_inputs * asks.n_input_tokens:,.0f} tokens of the tower" if asks.n_inputs else ""
    new = "1 new token" if asks.n_new == 1 else f"{asks.n_new:,.0f} new tokens"
    shapes = {"prefill": f"{new}{read}", "decode": f"1 new token after {past:,}"}
    for name, t in passes.items():
        _show(name, f"{n_seq:,} × {shapes[name]}", t, d, exact=exact)


def _notes(d: Deployment, longest: int) -> list[str]:
    """What the chip does differently, a request beyond the model's context, and every default the model's file left open."""
    assumed = [f"assumed: {line}" for line in d.model.assumed]
    return [f"note: {sentence}" for sentence in d.said()] + beyond_context(d.model, longest) + assumed


def _products(t: Timing) -> Iterator[dict[str, Any]]:
    """The rows of the pass, a fused attention as its two products; none for what the pass does not touch."""
    for row in t.by_op():
        if not row["streamed_bytes"]:
            continue
        if not row["products"]:
            yield row | {"weight_intensity": _ratio(row["flops"] + row["extra_flops"], row["weight_bytes"])}
            continue
        for name, shape, share in row["products"]:
            prefix = row["name"].rpartition(".")[0]
            split = {k: row[k] * share for k in _SHARED}
            yield (
                row | split | {"name": f"{prefix}.{name}" if prefix else name, "shape": shape, "weight_intensity": None}
            )


_SHARED = (
    "flops", "extra_flops", "executed_flops", "kv_read_bytes", "kv_read_bytes_min", "kv_write_bytes", "act_bytes",
    "streamed_bytes", "compulsory_bytes", "seconds", "compute_s", "memory_s",
)  # fmt: skip


def _ratio(a: float, b: float) -> float | None:
    return float(a / b) if a and b else None


def _show(phase: str, shape: str, t: Timing, d: Deployment, *, exact: bool) -> None:
    counted = "one layer" if exact else "all layers"
    formats = f"{d.numerics.weights_name} weights, {d.numerics.kv.name} KV"
    say(f"{phase}: {d.model.id} on {d.hardware.id}, {formats}, {shape}   (counts of {counted}, time of all)")
    figures = ("FLOP", "weights", "KV read", "KV write", "other", "FLOP/B of W", "FLOP/B", "time")
    rows = table("×", "<shape", *figures, "<binds", first="product")
    for row in _products(t):
        per = 1.0 / row["repeat"] if exact else 1.0
        number = _integer if exact else _short
        flops = row["executed_flops"]
        rows.add_row(
            row["name"],
            f"{row['repeat']:.0f}",
            row["shape"],
            number(flops * per, "FLOP"),
            number(row["weight_bytes"] * per, "B"),
            number(row["kv_read_bytes"] * per, "B"),
            number(row["kv_write_bytes"] * per, "B"),
            number((row["act_bytes"] + row["state_bytes"]) * per, "B"),
            "" if row["weight_intensity"] is None else _four(row["weight_intensity"]),
            _four(row["intensity"]) if flops else "0",
            format_si(float(row["seconds"]), "s"),
            row["bound"],
        )
    print_table(rows, spare=("other", "KV write", "FLOP/B of W", "shape", "weights", "KV read"))
    work = f"{format_si(float(t.executed_flops), 'FLOP')}, {format_si(float(t.hbm_bytes), 'B')}"
    times = f"{format_si(float(t.seconds), 's')}, floor {format_si(float(t.floor_s), 's')}"
    say(f"in all: {work}, {three(t.intensity)} FLOP/B (ridge {three(t.ridge)}), {times}")
    reached = f"{percent(t.mfu)} of the {t.dtype} peak and {percent(t.mbu)} of the bandwidth"
    say(f"{phase} is {t.bound}-bound on {d.hardware.id}: it reaches {reached}.")
    say()


def _four(value: float) -> str:
    """Four significant digits, plain.

    >>> _four(3.99219), _four(16384.0)
    ('3.992', '16,384')
    """
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def _short(value: float, unit: str) -> str:
    return format_si(float(value), unit) if value else ""


def _integer(value: float, unit: str) -> str:
    return f"{value:,.0f}" if value else ""
