"""`roofline plot`: the pictures, into a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from roofline.errors import SpecError, did_you_mean
from roofline.views.cli.common import (
    Batch,
    Chips,
    Kv,
    ModelName,
    Output,
    Prompt,
    Search,
    Weights,
    say,
)
from roofline.views.cli.options import Ways, asked_of, build, levered, predicted

__all__ = ["plot"]

KINDS = ("roofline", "latency", "without-flash")


@levered
def plot(
    kind: Annotated[str, typer.Argument(help="roofline, latency or without-flash.", show_default=False)],
    model: ModelName,
    hardware: Chips = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="The file to write: .svg, .png or .pdf.  [default: KIND.svg]")
    ] = None,
    prompt: Prompt = "2048",
    output: Output = None,
    batch: Batch = "1",
    weights: Weights = None,
    kv: Kv = None,
    theme: Annotated[str, typer.Option(help="light or dark.")] = "light",
    size: Annotated[str, typer.Option(help="page, column or slide.")] = "page",
    search: Search = None,
    ways: Ways | None = None,
) -> None:
    """Draw the roofline, latency, or prefill without FlashAttention.

    Where the phases sit under the roof of a chip; TTFT against the prompt and TPOT against the batch; bytes and intensity.
    """
    if kind not in KINDS:
        raise SpecError(
            f"plot: expected {', '.join(KINDS[:-1])} or {KINDS[-1]}, got {kind!r}{did_you_mean(kind, KINDS)}"
        )
    chosen = ways or Ways()
    deployments = build(model, hardware or (), ways=chosen, search=search, weights=weights, kv=kv)
    asked = asked_of(deployments[0].model, prompt=prompt, output=output, batch=batch)
    from roofline.views import plot as draw

    look: Any = {"theme": theme, "size": size}  # names the picture itself checks
    predictions = predicted(deployments, asked, chosen, search)
    axes: Any
    if kind == "roofline":
        axes = draw.roofline(predictions[0] if len(predictions) == 1 else predictions, **look)
    elif len(deployments) > 1:
        raise SpecError(f"plot {kind}: draws one chip, and one pool; draw each into its own file")
    elif kind == "latency":
        axes = draw.latency(predictions[0], **look)
    else:
        axes = draw.without_flash(predictions[0], **look)
    path = out or Path(f"{kind}.svg")
    draw.save(axes, path)
    say(f"wrote {path}")
