"""`roofline kv` and `roofline memory`: what the cache takes, and whether it fits."""

from __future__ import annotations

import math
from functools import partial
from typing import Annotated

import typer

from roofline.answers.caches import kv_bytes, state_bytes
from roofline.answers.memory import Memory
from roofline.answers.memory import memory as memory_of
from roofline.errors import SpecError
from roofline.specs import catalog
from roofline.specs.deployment import Deployment
from roofline.specs.mixers import Compressed
from roofline.specs.model import Model
from roofline.specs.plan import Plan
from roofline.specs.precision import Precision
from roofline.units import format_bytes
from roofline.views.cli.common import (
    Batch,
    Check,
    Chips,
    Context,
    Head,
    Json,
    Kv,
    ModelName,
    Search,
    Source,
    Weights,
    beyond_context,
    build,
    laid_out,
    print_json,
    print_table,
    say,
    table,
    whole,
)
from roofline.views.cli.predict import ways
from roofline.work.kvcache import token_bytes
from roofline.work.step import MAX_TOKENS

__all__ = ["kv", "memory"]


def kv(
    model: ModelName,
    context: Context = "8192",
    batch: Batch = "1",
    source: Source = None,
    kv: Kv = None,
    policy: Annotated[
        str, typer.Option(help="window (what the mathematics needs) or allocated (full length).")
    ] = "window",
    json: Json = False,
    search: Search = None,
) -> None:
    """Size the KV cache by context and format."""
    spec = catalog.model(model, search=search or ())
    tokens, n_seq = whole(context, name="--context", least=0), whole(batch, name="--batch")
    if policy not in ("window", "allocated"):
        raise SpecError(f"--policy: expected window or allocated, got {policy!r}")
    numerics = Precision(kv=kv).of(spec)
    outputs = None if source is None else whole(source, name="--source", least=0)
    sized = partial(kv_bytes, spec, batch=n_seq, policy=policy, memory_tokens=outputs)  # type: ignore[arg-type]
    held = float(sized(context_tokens=tokens, kv=kv))
    each = token_bytes(spec, numerics=numerics)
    state = float(state_bytes(spec, batch=n_seq, policy=policy))  # type: ignore[arg-type]
    if json:
        print_json(
            "kv",
            {"model": spec.id, "kv": numerics.kv.name, "policy": policy, "context_tokens": tokens, "batch": n_seq,
             "kv_bytes": held, "kv_bytes_per_token": each, "state_bytes": state},
        )  # fmt: skip
        return
    whole_windows = "   windows kept at full length" if policy == "allocated" and spec.windows else ""
    say(f"{spec.id}   {numerics.kv.name} cache   {n_seq:,} × {tokens:,} tokens{whole_windows}")
    say()
    say(f"KV cache    {format_bytes(held, digits=5)}   ({held:,.0f} B)")
    while_open = ", while no window is full" if spec.windows and policy == "window" else ""
    say(f"a token     {format_bytes(each, digits=5)}   (of one sequence{while_open})")
    if state:
        say(f"state       {format_bytes(state, digits=5)}   (of recurrent layers, whatever the context)")
    for note in beyond_context(spec, tokens):
        say(note)
    rows = table(*(f"{c:,}" for c in _ladder(tokens)), first="context")
    for name in dict.fromkeys([numerics.kv.name, "bf16", "fp8", "q8_0", "q4_0"]):
        sizes = (float(sized(context_tokens=c, kv=name)) for c in _ladder(tokens))
        rows.add_row(name, *(format_bytes(s) for s in sizes))
    say()
    print_table(rows)
    for sentence in _who_caches(spec, tokens, policy):
        say(sentence)


def _who_caches(spec: Model, tokens: int, policy: str) -> list[str]:
    """Which layers hold less than the whole context, in sentences."""
    kinds = spec.layer_kinds()
    mixers = [(n, mixer) for n, layer in kinds for mixer in layer.mixers]
    windows = {w: sum(n for n, mixer in mixers if getattr(mixer, "window", None) == w) for w in spec.windows}
    said = [
        f"{n} of {spec.n_layers} layers see {w:,} tokens and hold no more{_thinned(spec, w)}."
        for w, n in windows.items()
        if tokens > w and policy == "window"
    ]
    n_recurrent = sum(n for n, mixer in mixers if hasattr(mixer, "state_elements"))
    if n_recurrent:
        said.append(f"{n_recurrent} of {spec.n_layers} layers keep a state of fixed size.")
    return ["", *said] if said else []


def _thinned(spec: Model, window: int) -> str:
    """What layers with that window keep beyond it: entries of several tokens, or nothing."""
    mixers = [mixer for _, layer in spec.layer_kinds() for mixer in layer.mixers]
    ratios = {x.ratio for x in mixers if isinstance(x, Compressed) and x.window == window and x.ratio is not None}
    return f", but for an entry of every {' or '.join(map(str, sorted(ratios)))} tokens beyond" if ratios else ""


def _ladder(tokens: int) -> list[int]:
    some = max(1, tokens)
    return sorted({max(1, some // 4), max(1, some // 2), some, min(2 * some, int(MAX_TOKENS))})


@laid_out
def memory(
    model: ModelName,
    hardware: Chips,
    context: Context = "8192",
    batch: Batch = "1",
    weights: Weights = None,
    kv: Kv = None,
    head: Head = None,
    source: Source = None,
    json: Json = False,
    check: Check = False,
    search: Search = None,
    plan: Plan | None = None,
) -> None:
    """Say whether it fits, and how much would.

    Weights and cache against the chip: the largest batch, the longest context.
    """
    tokens, n_seq = whole(context, name="--context", least=0), whole(batch, name="--batch")
    outputs = None if source is None else whole(source, name="--source", least=0)
    deployments = build(model, hardware, weights=weights, kv=kv, head=head, search=search, plan=plan)
    answers = [(d, memory_of(d, context_tokens=tokens, batch=n_seq, memory_tokens=outputs)) for d in deployments]
    if json:
        listed = [
            {"model": d.model.id, "hardware": d.hardware.id, "weights": d.numerics.weights_name, "kv": d.numerics.kv.name,
             "context_tokens": tokens, "batch": n_seq} | m.to_dict()
            for d, m in answers
        ]  # fmt: skip
        print_json("memory", listed[0] if len(listed) == 1 else {"answers": listed})
    else:
        first = deployments[0]
        say(
            f"{first.model.id}   {first.numerics.weights_name} weights, {first.numerics.kv.name} KV   "
            f"{n_seq:,} × {tokens:,} tokens   {_per_chip(first)}(weights and cache only; an engine reserves more)"
        )
        say()
        rows = table(
            "weights", "KV cache", "in all", "capacity", "<fits", "largest batch", "longest context", first="chip"
        )
        for d, m in answers:
            fits = "yes" if m.fits else f"no, {format_bytes(float(m.short_by_bytes))} over"
            kept = float(m.kv_bytes_per_chip) + float(m.state_bytes_per_chip)
            sizes = (m.weight_bytes_per_chip, kept, float(m.used_bytes_per_chip), m.capacity_bytes)
            rows.add_row(
                d.hardware.id,
                *(format_bytes(s) for s in sizes),
                fits,
                "any" if math.isinf(float(m.max_batch)) else f"{m.max_batch:,.0f}",
                f"{m.max_context_tokens:,.0f}",
            )
        print_table(rows, spare=("longest context", "weights", "KV cache", "capacity"))
        say()
        for note in beyond_context(first.model, tokens):
            say(note)
        for d, m in answers:
            say(_sentence(d, m, n_seq))
    if check and not all(m.fits for _, m in answers):
        raise typer.Exit(4)


def _per_chip(d: Deployment) -> str:
    return f"on each of {d.n_chips}{ways(d.plan)}   " if d.n_chips > 1 else ""


def _sentence(d: Deployment, m: Memory, n_seq: int) -> str:
    share, chip = float(m.kv_bytes_per_chip) / float(m.used_bytes_per_chip), d.hardware.id
    if m.fits:
        free = format_bytes(m.capacity_bytes - float(m.used_bytes_per_chip))
        return f"On {chip} it fits with {free} to spare; the cache is {share:.0%} of what is held."
    if m.weight_bytes_per_chip <= m.capacity_bytes and m.max_batch < 1:
        one = format_bytes(float(m.kv_bytes_per_chip) / max(1, n_seq // d.plan.dp))
        room = format_bytes(m.capacity_bytes - m.weight_bytes_per_chip)
        most = f"{m.max_context_tokens:,.0f} tokens at most at this batch; fewer weight bits make more room"
        return f"On {chip} it does not fit: the cache of one such sequence is {one}, the weights leave {room}: {most}."
    if m.max_batch >= 1:
        return f"On {chip} it does not fit: the cache is {share:.0%} of it. A batch of {m.max_batch:,.0f} would fit."
    weights = format_bytes(m.weight_bytes_per_chip)
    return f"On {chip} it does not fit: the weights alone are {weights}; use fewer bits or another chip."
