"""`roofline kv` and `roofline memory`: what the cache takes, and whether it fits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from roofline.answers.caches import kv_bytes, state_bytes
from roofline.answers.drafters import beside
from roofline.answers.fitting import ways_to_fit
from roofline.answers.memory import Memory
from roofline.answers.memory import memory as memory_of
from roofline.errors import SpecError
from roofline.specs import catalog
from roofline.specs.deployment import Deployment
from roofline.specs.mixers import Compressed
from roofline.specs.model import Model
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
    print_json,
    print_table,
    say,
    table,
    whole,
)
from roofline.views.cli.options import Ways, build, levered
from roofline.views.cli.words import percent, usable, waiting
from roofline.views.cli.words import ways as ways_of
from roofline.work.kvcache import token_bytes
from roofline.work.pages import fragmentation
from roofline.work.step import MAX_TOKENS

if TYPE_CHECKING:
    from rich.table import Table

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


@levered
def memory(
    model: ModelName,
    hardware: Chips = None,
    context: Context = "8192",
    batch: Batch = "1",
    weights: Weights = None,
    kv: Kv = None,
    head: Head = None,
    source: Source = None,
    json: Json = False,
    check: Check = False,
    search: Search = None,
    ways: Ways | None = None,
) -> None:
    """Say whether it fits, and how much would.

    Weights, cache and what an engine reserves against the chip: the largest batch, the longest context, what to change.
    """
    tokens, n_seq = whole(context, name="--context", least=0), whole(batch, name="--batch")
    outputs = None if source is None else whole(source, name="--source", least=0)
    chosen = ways or Ways()
    chosen.prefix_tokens(tokens)  # changes no memory, but is said to be nonsense where it is
    deployments = build(model, hardware or (), ways=chosen, search=search, weights=weights, kv=kv, head=head)
    if chosen.split is not None:
        chosen.split.replicas(deployments[0].plan)
    answers = [(d, _of(d, chosen, search, tokens, n_seq, outputs)) for d in deployments]
    if json:
        listed = [
            {"model": d.model.id, "hardware": d.hardware.id, "weights": d.numerics.weights_name, "kv": d.numerics.kv.name,
             "engine": d.engine.id, "context_tokens": tokens, "batch": n_seq, "shared_tokens": min(chosen.shared, tokens),
             "streamed_bytes_per_chip": m.streamed_bytes_per_chip} | m.to_dict()
            for d, m in answers
        ]  # fmt: skip
        print_json("memory", listed[0] if len(listed) == 1 else {"answers": listed})
    else:
        _show(answers, chosen, search, tokens, n_seq, outputs)
    if check and not all(m.fits for _, m in answers):
        raise typer.Exit(4)


def _of(
    d: Deployment, chosen: Ways, search: Sequence[Path] | None, tokens: int, n_seq: int, outputs: int | None
) -> Memory:
    """The memory of one deployment, with what stands beside it."""
    drafting = chosen.drafting(d, search or ())
    return memory_of(
        d, context_tokens=tokens, batch=n_seq, memory_tokens=outputs, shared_tokens=min(chosen.shared, tokens),
        beside=None if drafting is None else beside(drafting.drafter, d),
    )  # fmt: skip


def _show(
    answers: list[tuple[Deployment, Memory]], chosen: Ways, search: Sequence[Path] | None, tokens: int, n_seq: int,
    outputs: int | None,
) -> None:  # fmt: skip
    first = answers[0][0]
    formats = f"{first.numerics.weights_name} weights, {first.numerics.kv.name} KV"
    reserved = f"in {first.engine.name}"
    if first.engine.id == "ideal":
        reserved = "(weights and cache only; --engine vllm adds what an engine reserves)"
    shape = f"{n_seq:,} × {tokens:,} tokens{_shared(chosen.shared)}"
    say(f"{first.model.id}   {formats}   {shape}   {_per_chip(first)}{reserved}")
    say()
    print_table(_table(answers), spare=("longest context", "weights", "KV cache", "capacity"))
    say()
    for note in beyond_context(first.model, tokens):
        say(note)
    for d, m in answers:
        say(_sentence(d, m, n_seq))
        for line in _engine(d, m):
            say(line)
        if waits := waiting(d, n_seq):
            say(f"  {waits}.")
        if not m.fits:
            found = ways_to_fit(d, lambda x: _of(x, chosen, search, tokens, n_seq, outputs))
            say(f"  Would fit: {'; '.join(found) or 'no single change tried here'}.")
    for line in _paged(answers[0][0], tokens):
        say(line)
    if chosen.prefix_hit is not None:
        say("A prefix hit saves passes, not memory: its tokens are still held, and attended to.")


def _shared(tokens: int) -> str:
    return f", {tokens:,} of them shared" if tokens else ""


def _table(answers: list[tuple[Deployment, Memory]]) -> Table:
    reserved = any(m.activation_bytes_per_chip or m.runtime_bytes_per_chip for _, m in answers)
    beside_it = any(float(m.other_bytes_per_chip) for _, m in answers)
    columns = ["weights", *(["draft"] if beside_it else []), "KV cache", *(["engine"] if reserved else []), "in all"]
    rows = table(*columns, "capacity", "<fits", "largest batch", "longest context", first="chip")
    for d, m in answers:
        fits = "yes" if m.fits else f"no, {format_bytes(float(m.short_by_bytes))} over"
        kept = float(m.allocated_kv_bytes_per_chip) - _drafted(m)
        sizes = [m.weight_bytes_per_chip, *([float(m.other_bytes_per_chip)] if beside_it else []), kept]
        sizes += [m.activation_bytes_per_chip + m.runtime_bytes_per_chip] if reserved else []
        sizes += [float(m.allocated_bytes_per_chip), m.capacity_bytes]
        rows.add_row(
            d.hardware.id,
            *(format_bytes(s) for s in sizes),
            fits,
            "any" if math.isinf(float(m.max_batch)) else f"{m.max_batch:,.0f}",
            f"{m.max_context_tokens:,.0f}",
        )
    return rows


def _drafted(m: Memory) -> float:
    """The drafting model's part of the allocated cache [B]."""
    return float(m.other_bytes_per_chip) - m.other_weight_bytes_per_chip


def _engine(d: Deployment, m: Memory) -> list[str]:
    """What the engine leaves for the cache, as it would log it."""
    may = usable(d, m)
    if m.kv_budget_bytes_per_chip <= 0.0 or (d.engine.id == "ideal" and not d.engine.scheduler):
        return [f"  {may}."] if may else []
    each = " of each rank" if d.plan.dp > 1 else ""
    budget = format_bytes(m.kv_budget_bytes_per_chip)
    tokens = "any number of" if math.isinf(m.kv_tokens) else f"{m.kv_tokens:,.0f}"
    leaves = f"{d.engine.name} leaves" if not may else f"{may}, which leaves"
    lines = [f"  {leaves} {budget} for the cache{each}: {tokens} tokens."]
    tier = d.tier
    if tier is not None:
        most = f"at most {tier.max_seqs:,} sequences at once" if tier.max_seqs < 2**30 else "any number of sequences"
        if tier.batch_tokens < 2**30:
            lines.append(f"  Its passes take up to {tier.batch_tokens:,} tokens, {most}.")
    return lines


def _paged(d: Deployment, tokens: int) -> list[str]:
    """What pages waste, and what whole reservations would."""
    page = d.engine.pages.tokens
    if page == 1 or not tokens or d.engine.pages.contiguous:
        return []
    longest = d.model.max_context_tokens
    lost, reserved = (float(fragmentation(float(tokens), page_tokens=n)) for n in (page, max(longest, tokens)))
    whole_one = (
        f"reserving {longest:,} tokens for each, as before PagedAttention, would leave {percent(reserved)} empty"
    )
    return [f"Pages of {page} tokens leave {percent(lost)} of a sequence's cache empty; {whole_one}."]


def _per_chip(d: Deployment) -> str:
    return f"on each of {d.n_chips}{ways_of(d.plan)}   " if d.n_chips > 1 else ""


def _sentence(d: Deployment, m: Memory, n_seq: int) -> str:
    chip, room = d.hardware.id, m.weight_bytes_per_chip + m.other_weight_bytes_per_chip
    share = float(m.allocated_kv_bytes_per_chip) / float(m.allocated_bytes_per_chip)
    if m.fits:
        free = format_bytes(m.kv_budget_bytes_per_chip - float(m.allocated_kv_bytes_per_chip))
        return f"On {chip} it fits with {free} to spare; the cache is {share:.0%} of what is held."
    if m.kv_budget_bytes_per_chip > 0.0 and m.max_batch < 1:
        one = format_bytes(float(m.allocated_kv_bytes_per_chip) / max(1, n_seq // d.plan.dp))
        left = format_bytes(m.kv_budget_bytes_per_chip)
        most = f"{m.max_context_tokens:,.0f} tokens at most at this batch"
        return f"On {chip} it does not fit: the cache of one such sequence is {one}, {left} are left for it: {most}."
    if m.max_batch >= 1:
        return f"On {chip} it does not fit: the cache is {share:.0%} of it. A batch of {m.max_batch:,.0f} would fit."
    what = "the weights alone are" if room > m.capacity_bytes else "weights and what the engine reserves are"
    taken = room if room > m.capacity_bytes else room + m.activation_bytes_per_chip + m.runtime_bytes_per_chip
    return f"On {chip} it does not fit: {what} {format_bytes(taken)} of {format_bytes(m.capacity_bytes)}."
