"""A request whose prompt one pool of chips reads and another answers, in words."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from roofline.answers.disaggregation import Split, split
from roofline.specs.deployment import Deployment
from roofline.units import format_bytes, format_si
from roofline.views.cli.common import print_json, print_table, say, table
from roofline.views.cli.words import percent, seconds, three, usable, ways

if TYPE_CHECKING:
    from rich.table import Table

    from roofline.views.cli.options import Ways

__all__ = ["show_split"]


def show_split(
    chosen: Ways,
    pools: Sequence[Deployment],
    asked: dict[str, Any],
    *,
    plot: Path | None,
    json: bool,
    check: bool,
    search: Sequence[Path] | None,
) -> None:
    """Predict with two pools: TTFT through the link, TPOT beyond it, what each pool takes and how many of each to have."""
    if chosen.split is None:
        return
    n_prefill, n_decode = chosen.split.replicas(pools[0].plan)
    extra = chosen.request(pools[1], asked["prompt_tokens"], search)
    shape = {name: asked[name] for name in ("prompt_tokens", "output_tokens")}
    found = split(
        prefill=pools[0], decode=pools[1], **shape, decode_batch=asked["batch"], n_prefill=n_prefill, n_decode=n_decode,
        prefix_tokens=extra["prefix_tokens"], drafting=extra["drafting"],
    )  # fmt: skip
    if plot is not None:
        _draw(found, plot)
        if not json:
            say(f"wrote {plot}")
    if json:
        print_json("split", found.to_dict())
    else:
        _say(found)
    if check and not found.fits:
        raise typer.Exit(4)


def _draw(s: Split, path: Path) -> None:
    from roofline.views import plot

    plot.save(plot.roofline([s.prefill, s.decode]), path)


def _say(s: Split) -> None:
    d, p = s.decode.deployment, s.prefill.deployment
    requests = f"{s.decode.batch:,.0f} at a time, {s.prefill.prompt_tokens:,.0f} in / {s.decode.output_tokens:,} out"
    say(f"{d.model.id}   {d.numerics.weights_name} weights, {d.numerics.kv.name} KV   {requests}")
    for sentence in dict.fromkeys((*p.said(), *d.said())):
        say(f"note: {sentence}")
    say("two pools, always busy: a queue leaves less")
    say()
    print_table(_pools(s))
    say()
    t = s.transfer
    link = f"{format_si(float(t.bytes_per_s), 'B/s')}"
    enough = f"A link of {format_si(float(s.break_even_bytes_per_s), 'B/s')}"
    how = "layer by layer beside the prefill" if s.overlap else "after the prefill"
    say(
        f"Transfer    {format_bytes(float(t.moved_bytes))} of cache over {link}, {how}: {seconds(t.transfer_s)} in all,"
    )
    say(f"            {seconds(s.exposed_s)} of it seen. {enough} keeps up.")
    say(f"TTFT        {seconds(s.ttft_s)}: prefill {seconds(t.prefill_s)}, then what is seen of the transfer")
    say(f"TPOT        {seconds(s.tpot_s)}, whole request {seconds(s.e2e_s)}")
    say()
    for line in _verdict(s):
        say(line)


def _pools(s: Split) -> Table:
    rows = table("replicas", "batch", "requests/s", "<binds", "memory used", "of", "<fits", first="pool")
    kinds = (("prefill", s.prefill, s.n_prefill, s.prefill_requests_per_s), ("decode", s.decode, s.n_decode, None))
    for name, p, n, rate in kinds:
        m = p.memory
        fits = "yes" if m.fits else f"{format_bytes(float(m.short_by_bytes))} over"
        bound = p.ttft_bound if name == "prefill" else p.tpot_bound
        rows.add_row(
            f"{name}: {p.deployment.n_chips} × {p.deployment.hardware.id}{ways(p.deployment.plan)}",
            f"{float(n):,.0f}",
            f"{float(p.batch):,.0f}",
            three(s.decode_requests_per_s if rate is None else rate),
            str(bound),
            format_bytes(float(m.used_bytes_per_chip)),
            format_bytes(m.capacity_bytes),
            fits,
        )
    return rows


def _verdict(s: Split) -> list[str]:
    ratio = float(s.prefill_per_decode)
    busy = f"{three(ratio)} prefill replicas to a decode replica" if ratio >= 1 else (
        f"a prefill replica to {three(1 / ratio)} decode replicas"
    )  # fmt: skip
    lines = [f"Both pools are as busy at {busy}."]
    rates = {
        "prefill": float(s.prefill_requests_per_s),
        "the link": float(s.link_requests_per_s),
        "decode": float(s.decode_requests_per_s),
    }
    narrowest = min(rates, key=lambda name: rates[name])
    lines.append(
        f"With the chips given, {three(s.requests_per_s)} requests a second get through: {narrowest} limits them."
    )
    for name, p in (("prefill", s.prefill), ("decode", s.decode)):
        if not p.memory.fits:
            over, may = format_bytes(float(p.memory.short_by_bytes)), usable(p.deployment, p.memory)
            lines.append(
                f"The {name} pool does not fit: {over} too much on a chip{f' ({may})' if may else ''}; rates are as if."
            )
    if not s.link_keeps_up:
        share = percent(rates["the link"] / min(rates["prefill"], rates["decode"]))
        lines.append(f"The link carries {share} of what the pools could serve.")
    return lines
