"""`roofline cost`: what a million tokens cost on rented chips, and the joules of one, at a stated price and utilisation."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roofline.answers.breakeven import BreakEven, break_even_price, break_even_utilisation
from roofline.answers.cost import Cost
from roofline.answers.cost import cost as cost_of
from roofline.answers.energy import Energy, energy
from roofline.errors import SpecError, shorten
from roofline.specs.deployment import Deployment
from roofline.units import format_si
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
    print_json,
    print_table,
    say,
    table,
)
from roofline.views.cli.options import Ways, asked_of, build, levered, predicted
from roofline.views.cli.words import percent, three, trust, ways

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["cost"]

Answer = tuple[Deployment, Cost, Energy | None, BreakEven]


@levered
def cost(
    model: ModelName,
    hardware: Chips = None,
    price: Annotated[
        str,
        typer.Option(help="USD for a chip and hour with its day, as 2.50@2026-11-09; low or high: the chip's record."),
    ] = "",
    utilisation: Annotated[str | None, typer.Option(help="Share of the paid time that is busy: 0.6 or 60%.")] = None,
    rate: Annotated[str | None, typer.Option(help="In place of it, requests a second that arrive.")] = None,
    api: Annotated[
        str | None, typer.Option(help="An API's USD/Mtok in and out with its day, as 0.20/0.80@2026-11-09.")
    ] = None,
    prompt: PromptOrUsual = None,
    output: Output = None,
    batch: Batch = "8",
    weights: Weights = None,
    kv: Kv = None,
    activations: Activations = None,
    head: Head = None,
    json: Json = False,
    search: Search = None,
    ways: Ways | None = None,
) -> None:
    """Price a million tokens, in and out, and bound the joules of one.

    Prices are inputs with their day, never assumed; so is the share of the paid time that does this work.
    """
    chosen = ways or Ways()
    if chosen.split is not None:
        raise SpecError("cost: expected one pool; price the two of a --split one by one")
    formats = {"weights": weights, "kv": kv, "activations": activations, "head": head}
    deployments = build(model, hardware or (), ways=chosen, search=search, **formats)
    asked = asked_of(deployments[0].model, prompt=prompt, output=output, batch=batch)
    load: dict[str, Any] = _load(utilisation, rate) | _price(price)
    answers: list[Answer] = []
    for d, p in zip(deployments, predicted(deployments, asked, chosen, search), strict=True):
        priced = cost_of(p, **load)
        answers.append((d, priced, _energy(priced), _even(priced, api)))
    if json:
        listed = [_content(*answer) for answer in answers]
        print_json("cost", listed[0] if len(listed) == 1 else {"answers": listed})
        return
    _show(answers, api)


def _load(utilisation: str | None, rate: str | None) -> dict[str, Any]:
    if (utilisation is None) == (rate is None):
        raise SpecError(
            "--utilisation: expected a share such as 0.6 of the paid time that is busy, or --rate in its place"
        )
    if rate is not None:
        return {"rate_per_s": _number(rate, "--rate")}
    text = (utilisation or "").strip()
    share = _number(text.rstrip("% "), "--utilisation") / (100.0 if text.endswith("%") else 1.0)
    if not 0.0 < share <= 1.0:
        raise SpecError(f"--utilisation: expected a share above 0 and at most 1, got {utilisation}")
    return {"utilisation": share}


def _price(text: str) -> dict[str, Any]:
    if text in ("low", "high"):
        return {"price": text}
    if not text:
        raise SpecError(
            "missing --price: USD for a chip and hour with its day, such as 2.50@2026-11-09; or low or high"
        )
    usd, at, day = text.partition("@")
    if not at:
        raise SpecError(
            "--price: expected USD for a chip and hour with its day, such as 2.50@2026-11-09, or low or high for the "
            f"chip's own record, got {shorten(text)!r}"
        )
    return {"usd_per_chip_h": _number(usd, "--price"), "date": day}


def _number(text: str, name: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise SpecError(f"{name}: expected a number, got {shorten(text)!r}") from None


def _even(priced: Cost, api: str | None) -> BreakEven:
    """Against an API's price; without one, the single price at which an API would cost as much."""
    if api is None:
        return break_even_price(priced, output_to_input=1.0)
    prices, at, day = api.partition("@")
    each = prices.split("/")
    if not at or len(each) != 2:
        raise SpecError(
            f"--api: expected IN/OUT@DAY in USD a million tokens, such as 0.20/0.80@2026-11-09, got {shorten(api)!r}"
        )
    first, second = (_number(one, "--api") for one in each)
    return break_even_utilisation(priced, input_usd_per_mtok=first, output_usd_per_mtok=second, date=day)


def _energy(priced: Cost) -> Energy | None:
    """Bounds without knowing what a chip draws at idle; none where its rated power is not known either."""
    with suppress(SpecError):
        return energy(priced.prediction, idle_fraction=0.0)
    return None


def _content(d: Deployment, priced: Cost, spent: Energy | None, even: BreakEven) -> dict[str, Any]:
    joules = ("input_j_per_token_max", "output_j_per_token_max", "request_j_max")
    bounds = {name: None if spent is None else getattr(spent, name) for name in joules}
    return {"engine": d.engine.id} | even.to_dict() | bounds


def _show(answers: Sequence[Answer], api: str | None) -> None:
    d, priced, _, _ = answers[0]
    p, n = priced.prediction, d.numerics
    shape = f"{p.batch:,.0f} requests, {p.prompt_tokens:,.0f} in / {p.output_tokens:,} out"
    say(f"{d.model.id}   {n.weights_name} weights, {n.kv.name} KV   {shape}")
    for line in dict.fromkeys(line for answer in answers for line in trust(answer[0])):
        say(line)
    say("real engines cost more than an ideal machine; joules bound the work alone, at rated power")
    say()
    print_table(_table(answers), spare=("J/token in", "J/token out", "busy"))
    say()
    for line in _lines(answers, api):
        say(line)


def _table(answers: Sequence[Answer]) -> Table:
    figures = ("USD/chip/h", "busy", "USD/Mtok in", "USD/Mtok out", "blended", "J/token in", "J/token out")
    rows = table(*figures, first="chip")
    for d, c, spent, _ in answers:
        out = "–" if c.output_usd_per_mtok is None else three(c.output_usd_per_mtok)
        joules = ("?", "?") if spent is None else (
            f"≤ {format_si(float(spent.input_j_per_token_max), 'J')}",
            "–" if spent.output_j_per_token_max is None else f"≤ {format_si(float(spent.output_j_per_token_max), 'J')}",
        )  # fmt: skip
        rows.add_row(
            f"{d.n_chips} × {d.hardware.id}{ways(d.plan)}",
            f"{float(c.usd_per_chip_h):.2f}",
            percent(c.utilisation),
            three(c.input_usd_per_mtok),
            out,
            three(c.blended_usd_per_mtok),
            *joules,
        )
    return rows


def _lines(answers: Sequence[Answer], api: str | None) -> list[str]:
    lines = []
    for d, c, _, even in answers:
        price = f"{float(c.usd_per_chip_h):.2f} USD an hour ({c.price_from}, {c.price_date})"
        if not c.prediction.memory.fits:
            lines.append(f"On {d.hardware.id} it does not fit: no batch of this size runs at that price.")
            continue
        who = f"{d.hardware.id} at {price}"
        if api is None:
            each = f"{three(even.input_usd_per_mtok)} USD for a million tokens, in or out"
            lines.append(f"{who} breaks even with an API at {each}.")
        elif even.reachable:
            lines.append(f"{who} costs less than that API where it is busy over {percent(even.needed_utilisation)}.")
        else:
            lines.append(f"{who} costs more than that API even if always busy ({three(even.needed_utilisation)}×).")
    return lines
