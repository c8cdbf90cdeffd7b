"""The third answer: what the cache holds, what will be in it, and from which rate on sequences lose their pages."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from roofline.answers.checklist import Capacity, Checklist
from roofline.units import format_bytes
from roofline.views.report.blocks import Block, Shares, Table, Text
from roofline.views.words import percent, three

__all__ = ["room_blocks"]


def room_blocks(c: Checklist) -> Iterator[Block]:
    """The room, the need, the rate at which they meet, and what to do about it."""
    room, s = c.capacity, c.serving
    if room is None:
        short = format_bytes(float(c.memory.short_by_bytes))
        yield Text(f"There is no cache to speak of: weights and one request are {short} more than a chip holds.")
        return
    yield Text(f"{_onset(c, room)} {_advice(c, room)}".rstrip())
    if s.stable:
        use = float(np.clip(s.kv_use, 0.0, 1.0))
        yield Shares("The cache in the mean", (("taken", use), ("free", 1.0 - use)))
    whose = " of each data-parallel rank" if c.deployment.plan.dp > 1 else ""
    per_token = format_bytes(c.memory.kv_bytes_per_token_per_chip)
    like = f"{room.seqs_mean:,.0f} like the mean, {room.seqs_p95:,.0f} like the longest 5 %"
    yield Table((f"cache and batch{whose}", "tokens", "requests"), [
        (f"the cache holds ({per_token} a token on a chip)", f"{room.kv_tokens:,.0f}", like),
        ("a request holds, in the mean", f"{room.held_mean:,.0f}", "1"),
        ("one of the longest 5 %, at its end", f"{room.held_p95:,.0f}", "1"),
        ("decoding at once: mean, p95, p99", _tokens(room.n_seq * room.held_mean), _many(room)),
        ("the engine runs at most", f"{room.batch_tokens:,} a step", f"{room.max_seqs:,}"),
    ])  # fmt: skip
    if s.preemptions:
        yield Text(f"In the simulation a sequence lost its pages {s.preemptions:.2g} times for every request.")
    if s.rejected:
        yield Text(
            f"{percent(s.rejected)} of the requests are longer than a replica holds or the model reads: refused."
        )
    if room.n_seq_p99 > room.max_seqs and np.isfinite(room.n_seq_p99):
        yield Text(
            f"At times more than {room.max_seqs:,} want to decode: the rest waits, with room in the cache or not."
        )


def _tokens(value: float) -> str:
    return f"{value:,.0f}" if np.isfinite(value) else "grows"


def _many(room: Capacity) -> str:
    if not np.isfinite(room.n_seq):
        return "grows"
    return ", ".join(three(v) for v in (room.n_seq, room.n_seq_p95, room.n_seq_p99))


def _onset(c: Checklist, room: Capacity) -> str:
    """Where preemption begins."""
    loses = "retracts" if c.deployment.engine.id == "sglang" else "preempts"
    whose = c.deployment.engine.name if c.deployment.engine.id != "ideal" else "an engine"
    if room.full_rate_per_s is None:
        most = three(c.serving.saturation_per_s)
        return f"The cache never fills: the service saturates first, at {most} requests a second."
    then = f"{c.headroom or 0.0:.2f} times this rate, with {room.full_n_seq or 0.0:,.0f} sequences decoding"
    return (
        f"From {three(room.full_rate_per_s)} requests a second on ({then}) one look in a hundred finds the cache full: "
        f"{whose} {loses}, and what was decoded is read again."
    )


def _advice(c: Checklist, room: Capacity) -> str:
    """What to change where it is too tight, and by what it will be seen."""
    state = c.states["cache"]
    if state == "ok":
        return "A fifth or more is to spare."
    if not c.serving.stable:
        return "Beyond saturation the queue grows whatever the cache holds: more replicas first."
    wider = [f"{v.name} would serve {three(v.saturation_per_s)}/s" for v in c.changes if "KV" in v.name]
    more = f" ({wider[0]})" if wider else ""
    if state == "note":
        return f"Less than a fifth is to spare, or something else is tight: see below{more}."
    return f"It does not hold this load. An 8-bit cache{more}, shorter prompts, another replica or a larger chip would."
