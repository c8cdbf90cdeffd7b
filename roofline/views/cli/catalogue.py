"""`roofline hardware` and `roofline validate`: the chips of the catalogue, and what is wrong with a file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from pydantic import ValidationError

from roofline.errors import RooflineError, SpecError
from roofline.specs import catalog
from roofline.specs.hardware import Hardware
from roofline.specs.model import Model
from roofline.specs.record import explain_validation
from roofline.units import format_bytes, format_si
from roofline.views.cli.common import Json, Search, print_json, print_table, say, table

__all__ = ["hardware", "readable", "validate"]

S = TypeVar("S", Hardware, Model)


def hardware(
    name: Annotated[
        str | None, typer.Argument(help="A chip to show; without one, all are listed.", show_default=False)
    ] = None,
    json: Json = False,
    search: Search = None,
) -> None:
    """List the chips, or show one with its sources."""
    if name is not None:
        chip = catalog.hardware(name, search=search or ())
        _show_chip(chip) if not json else print_json("hardware", {"hardware": chip.model_dump(mode="json")})
        return
    chips = list(readable(catalog.hardware_ids(search=search or ()), partial(catalog.hardware, search=search or ())))
    if json:
        print_json("hardware-list", {"hardware": [_chip_row(c) for c in chips]})
        return
    rows = table("16-bit", "fp8", "memory", "bandwidth", "ridge", "TDP", "<also called", first="chip")
    for chip in chips:
        dtype = _sixteen(chip)
        rows.add_row(
            chip.id,
            format_si(chip.peak_flops_per_s(dtype), "FLOP/s"),
            format_si(chip.peak_flops_per_s("fp8"), "FLOP/s") if chip.has("fp8") else "–",
            format_bytes(chip.memory_bytes),
            format_si(chip.hbm_bytes_per_s, "B/s"),
            f"{chip.ridge(dtype):,.0f}",
            f"{chip.power.tdp_w:,.0f} W" if chip.power else "–",
            ", ".join(chip.aliases[:3]),
        )
    print_table(rows, spare=("also called", "TDP", "fp8", "ridge", "memory"))
    say(f"\n{len(chips)} chips; rates are dense and rated. roofline hardware NAME shows one with its sources.")


def readable(names: Iterable[str], read: Callable[[str], S]) -> Iterator[S]:
    """The specs of these names; a broken file of one's own is said on stderr, and hides no other."""
    for name in names:
        try:
            yield read(name)
        except SpecError as error:
            sys.stderr.write(f"left out: {error}\n")


def _sixteen(chip: Hardware) -> str:
    return next((d for d in ("bf16", "fp16") if d in chip.compute.matrix), chip.dtypes()[0])


def _chip_row(chip: Hardware) -> dict[str, Any]:
    peaks = {f"{dtype}_flops_per_s": chip.peak_flops_per_s(dtype) for dtype in chip.dtypes()}
    return {
        "id": chip.id, "name": chip.name, "aliases": list(chip.aliases), "memory_bytes": chip.memory_bytes,
        "hbm_bytes_per_s": chip.hbm_bytes_per_s, **peaks,
    }  # fmt: skip


def _show_chip(chip: Hardware) -> None:
    say(f"{chip.name}   ({', '.join([chip.id, *chip.aliases])})")
    say()
    rows = table("rated", "at most", "ridge", "<accumulates in", first="dtype")
    for dtype, peak in chip.compute.matrix.items():
        rows.add_row(
            dtype,
            format_si(peak.peak_flops_per_s, "FLOP/s"),
            format_si(peak.bound_flops_per_s, "FLOP/s"),
            f"{chip.ridge(dtype):,.0f} FLOP/B",
            peak.accumulate or {"int8": "int32", "int4": "int32", "fp64": "fp64"}.get(dtype, "fp32"),
        )
    for vector, rate in chip.compute.vector.items():
        rows.add_row(f"{vector} vector", format_si(rate, "FLOP/s"), "", "", "")
    print_table(rows)
    for wanted, used in chip.compute.runs_as.items():
        say(f"no {wanted} units: computed in {used}")
    say()
    for line in _lines(chip):
        say(line)
    say("\nsources")
    for place, text in chip.sources.items():
        say(f"  {place}: {text}")
    if chip.notes:
        say(f"\n{chip.notes}")


def _lines(chip: Hardware) -> list[str]:
    m = chip.memory
    lines = [f"memory      {format_bytes(m.capacity_bytes)} {m.type}, {format_si(m.bytes_per_s, 'B/s')}"]
    if m.sizes:
        lines.append(f"sold with   {', '.join(m.sizes)}   (as {chip.id}:{next(iter(m.sizes))})")
    if chip.cache:
        lines.append(f"cache       {format_bytes(chip.cache.capacity_bytes)} {chip.cache.kind}")
    for label, link in (
        ("scale-up", chip.links.scale_up),
        ("scale-out", chip.links.scale_out),
        ("host", chip.links.host),
    ):
        if link is not None:
            rate = (
                "rate not published"
                if link.bytes_per_s is None
                else f"{format_si(link.bytes_per_s, 'B/s')} a direction"
            )
            domain = f", domain of {link.domain:,}" if link.domain else ""
            prior = " (a prior)" if link.latency_is_prior else ""
            lines.append(
                f"{label:<12}{link.name or link.kind}, {rate}{domain}, {format_si(link.latency_s, 's')} a message{prior}"
            )
    if chip.power:
        lines.append(f"power       {chip.power.tdp_w:,.0f} W")
    if chip.price:
        p = chip.price
        lines.append(f"price       {p.low_usd_per_h:.2f} to {p.high_usd_per_h:.2f} USD/h on {p.date}")
    return lines


def validate(
    files: Annotated[
        list[Path],
        typer.Argument(help="YAML files of chips or models; config.json or .gguf files.", show_default=False),
    ],
    json: Json = False,
) -> None:
    """Check files of your own.

    Says everything that is wrong or missing, and where.
    """
    results = [(path, *_problems(path)) for path in files]
    if json:
        print_json(
            "validate", {"files": [{"file": str(p), "problems": bad, "warnings": soft} for p, bad, soft in results]}
        )
    else:
        for path, bad, soft in results:
            say(f"{path}: {'valid' if not bad else f'{len(bad)} problem' + ('s' if len(bad) > 1 else '')}")
            for line in bad:
                say(f"  error: {line}")
            for line in soft:
                say(f"  missing: {line}")
    if any(bad for _, bad, _ in results):
        raise typer.Exit(2)


def _problems(path: Path) -> tuple[list[str], list[str]]:
    if path.suffix.lower() in (".json", ".gguf") or catalog.is_folder(path):
        return _problems_of_a_checkpoint(path)
    try:
        data = catalog.load_yaml(path)
    except SpecError as error:
        return [str(error).removeprefix(f"{path}: ")], []
    record: type[Hardware] | type[Model] = Hardware if {"compute", "memory"} & set(data) else Model
    try:
        made = record.model_validate(data)
    except ValidationError as error:
        return explain_validation(error, record), []
    if isinstance(made, Hardware):
        soft = [f"a source for {place} (add it under sources:)" for place in made.unsourced()]
        absent = [name for name in ("cache", "power", "price") if getattr(made, name) is None]
        links = [f"links.{n}" for n in ("scale_up", "scale_out", "host") if getattr(made.links, n) is None]
        return [], soft + [f"{name} (optional)" for name in absent + links]
    return [], [] if made.source else ["source (where the shapes come from)"]


def _problems_of_a_checkpoint(path: Path) -> tuple[list[str], list[str]]:
    """A `config.json` or a `.gguf`: whether it is read, and which keys it leaves to its family's defaults."""
    try:
        return [], list(catalog.model(path).assumed)
    except RooflineError as error:
        return [str(error).removeprefix(f"{path}: ")], []
