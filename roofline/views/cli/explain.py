"""`roofline explain`: every matrix product of a pass, with its shape, FLOPs, bytes, intensity, time and bound."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import typer

from roofline.answers.chunks import budget_tokens, hit_tokens, is_cut
from roofline.answers.drafters import Drafting, draft_of
from roofline.answers.inputs import Request, request
from roofline.answers.phases import decode, prefill
from roofline.answers.speculation import speculate
from roofline.errors import SpecError
from roofline.num import Num
from roofline.specs.deployment import Deployment
from roofline.timing.clock import Timing
from roofline.timing.elsewhere import Offloaded
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
    print_json,
    print_table,
    say,
    sides,
    table,
    usual_prompt,
    whole,
)
from roofline.views.cli.options import Ways, build, levered
from roofline.views.cli.words import percent, seconds, three
from roofline.views.cli.words import ways as ways_of

__all__ = ["explain"]


@levered
def explain(
    model: ModelName,
    hardware: Annotated[str | None, typer.Argument(help="A chip: name, alias or path.", show_default=False)] = None,
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
    ways: Ways | None = None,
) -> None:
    """Explain a pass, product by product.

    Every matrix product with its shape, FLOPs, bytes, intensity, seconds and bound.
    """
    if phase not in ("prefill", "decode", "both"):
        raise SpecError(f"--phase: expected prefill, decode or both, got {phase!r}")
    chosen = ways or Ways()
    formats = {"weights": weights, "kv": kv, "activations": activations, "head": head}
    pools = build(model, [hardware] if hardware else [], ways=chosen, search=search, **formats)
    d, decoding = pools[0], pools[-1]
    n_prompt, n_seq = whole(prompt or usual_prompt(d.model), name="--prompt"), whole(batch, name="--batch")
    pictures: Any = {"images": whole(images, name="--images", least=0, most=1e6), "image_size": sides(image_size)}
    asks = request(d.model, prompt_tokens=float(n_prompt), **pictures)
    past = int(asks.n_new) if context is None else whole(context, name="--context", least=0)
    memory = asks.n_memory if source is None else float(whole(source, name="--source", least=0))
    how: Any = {"attention": attention, "latent": latent, "routing_exponent": routing}
    passes: list[_Pass] = []
    if phase != "decode":
        passes.append(_reading(d, chosen.prefix_tokens(n_prompt), n_prompt, n_seq, asks, pictures, how))
    if phase != "prefill" and d.model.generates:
        remembered = memory if d.model.remembers or source is not None else None
        drafting = chosen.drafting(decoding, search or ())
        passes += _answering(decoding, drafting, past, n_seq, min(chosen.shared, past), remembered, how)
    if not passes:
        raise SpecError(f"--phase: {d.model.id} is an encoder: it has no decode; ask prefill")
    if json:
        said = {"model": d.model.id, "hardware": d.hardware.id, "assumed": list(d.model.assumed)}
        print_json("explain", said | {p.name: list(_products(p.timing)) for p in passes})
        return
    seen = {p.name: max(n_prompt, int(asks.n_new)) if p.name == "prefill" else past + 1 for p in passes}
    for note in _notes(d, max(seen.values())):
        say(note)
    for p in passes:
        _show(p, exact=exact)


@dataclass(frozen=True, slots=True)
class _Pass:
    """A pass to show: what it is called, in JSON too; its shape in words; whose it is."""

    name: str
    shape: str
    timing: Timing
    deployment: Deployment


def _reading(
    d: Deployment, hit: int, n_prompt: int, n_seq: int, asks: Request, pictures: dict[str, Any], how: dict[str, Any]
) -> _Pass:
    """The pass over the prompts; of prompts that are cut, the last one."""
    hit = int(hit_tokens(d, n_new=asks.n_new, prefix_tokens=float(hit)))
    read = f" and {asks.n_inputs * asks.n_input_tokens:,.0f} tokens of the tower" if asks.n_inputs else ""
    new, budget = asks.n_new - hit, budget_tokens(d)
    if is_cut(d.model) and new * np.ceil(n_seq / d.plan.dp) > budget:
        n = int(np.ceil(new / budget))
        size = int(new - (n - 1) * min(budget, new))
        done = int(asks.n_new) - size
        t = prefill(d, prompt_tokens=size, n_past=done, batch=1, **how)
        which = f"the last of {n:,} passes over a prompt" if n > 1 else "one of the prompts, in a pass of its own"
        return _Pass("prefill", f"{which}: {size:,} new tokens after {done:,}", t, d)
    t = prefill(d, prompt_tokens=n_prompt - hit, n_past=hit, batch=n_seq, **pictures, **how)
    words = "1 new token" if new == 1 else f"{new:,.0f} new tokens"
    found = f" after {hit:,} found in the prefix cache" if hit else ""
    return _Pass("prefill", f"{n_seq:,} × {words}{found}{read}", t, d)


def _answering(
    d: Deployment, drafting: Drafting | None, past: int, n_seq: int, shared: int, remembered: Num | None,
    how: dict[str, Any],
) -> list[_Pass]:  # fmt: skip
    """The decode pass; with drafts, one that drafts and the one that verifies."""
    asked: dict[str, Any] = {"context_tokens": past, "batch": n_seq}
    if drafting is None:
        t = decode(d, **asked, memory_tokens=remembered, shared_tokens=shared, **how)
        return [_Pass("decode", f"{n_seq:,} × 1 new token after {past:,}", t, d)]
    k, drafter = drafting.n_drafts, drafting.drafter
    round_ = speculate(d, drafter=drafter, n_drafts=k, acceptance=drafting.acceptance, **asked)
    verify = _Pass("decode", f"{n_seq:,} × {k + 1} new tokens after {past:,}: {k} drafts to verify", round_.verify, d)
    draft = draft_of(drafter, d)
    if draft is None or not k:
        return [verify]
    one = _Pass("draft", f"{n_seq:,} × 1 draft after {past:,}, of {k}", decode(draft, **asked), draft)
    return [one, verify]


def _notes(d: Deployment, longest: int) -> list[str]:
    """What the chip does differently, a request beyond the model's context, and every default the model's file left open."""
    assumed = [f"assumed: {line}" for line in d.model.assumed]
    return [f"note: {sentence}" for sentence in d.said()] + beyond_context(d.model, longest) + assumed


def _products(t: Timing) -> Iterator[dict[str, Any]]:
    """The rows of the pass, a fused attention as its two products; none for what the pass does not touch."""
    for row in t.by_op():
        if not row["streamed_bytes"] and not row["link_bytes"]:
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


def _show(p: _Pass, *, exact: bool) -> None:
    d, t = p.deployment, p.timing
    counted = "one layer" if exact else "all layers"
    formats = f"{d.numerics.weights_name} weights, {d.numerics.kv.name} KV"
    chip = d.hardware.id if d.n_chips == 1 else f"one of {d.n_chips} × {d.hardware.id}{ways_of(d.plan)}"
    say(f"{p.name}: {d.model.id} on {chip}, {formats}, {p.shape}   (counts of {counted}, time of all)")
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
            number((row["act_bytes"] + row["state_bytes"] + row["link_bytes"]) * per, "B"),
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
    if isinstance(t, Offloaded):
        say(_waiting(t))
    bound = "bound by another memory" if t.bound == "tier" else f"{t.bound}-bound"
    say(f"{p.name} is {bound} on {d.hardware.id}: it reaches {reached}.")
    say()


def _waiting(t: Offloaded) -> str:
    """What lies in another memory, and how long the chip waits for it."""
    o = t.elsewhere
    rate = o.bytes_per_s if o.compute == "chip" or o.host_bytes_per_s is None else o.host_bytes_per_s
    there = f"{format_si(float(t.tier_bytes), 'B')} of {o.what} lie in another memory"
    waits = f"{seconds(t.tier_s)}, of which the chip waits {seconds(t.tier_exposed_s)}"
    return f"{there}, read at {format_si(float(rate), 'B/s')}: {waits}."


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
