"""`roofline plot`: the pictures, into a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from roofline.errors import SpecError, did_you_mean
from roofline.specs.plan import Plan
from roofline.views.cli.common import (
    Batch,
    Chips,
    Engine,
    Kv,
    ModelName,
    Output,
    Prompt,
    Search,
    Weights,
    build,
    laid_out,
    say,
    whole,
)

__all__ = ["plot"]

KINDS = ("roofline", "latency")


@laid_out
def plot(
    kind: Annotated[str, typer.Argument(help="roofline or latency.", show_default=False)],
    model: ModelName,
    hardware: Chips,
    out: Annotated[Path, typer.Option("--out", help="The file to write: .svg, .png or .pdf.")] = Path("roofline.svg"),
    prompt: Prompt = "2048",
    output: Output = None,
    batch: Batch = "1",
    weights: Weights = None,
    kv: Kv = None,
    engine: Engine = "ideal",
    theme: Annotated[str, typer.Option(help="light or dark.")] = "light",
    size: Annotated[str, typer.Option(help="page, column or slide.")] = "page",
    search: Search = None,
    plan: Plan | None = None,
) -> None:
    """Draw the roofline, or latency.

    Where the phases sit under the roof of a chip; TTFT against the prompt and TPOT against the batch.
    """
    if kind not in KINDS:
        raise SpecError(f"plot: expected {' or '.join(KINDS)}, got {kind!r}{did_you_mean(kind, KINDS)}")
    deployments = build(model, hardware, weights=weights, kv=kv, engine=engine, search=search, plan=plan)
    n_prompt, n_out = whole(prompt, name="--prompt"), whole(output or "256", name="--output", most=1e7)
    n_seq = whole(batch, name="--batch")
    from roofline.views import plot as draw

    look: Any = {"theme": theme, "size": size}  # names the picture itself checks
    axes: Any
    if kind == "roofline":
        what = deployments[0] if len(deployments) == 1 else deployments
        axes = draw.roofline(what, prompt_tokens=n_prompt, output_tokens=n_out, batch=n_seq, **look)
    elif len(deployments) > 1:
        raise SpecError("plot latency: expected one chip; draw each into its own file")
    else:
        context = n_prompt + max(0, n_out - 2) // 2  # the mean over the answer, as predict has it
        axes = draw.latency(deployments[0], prompt_tokens=n_prompt, context_tokens=context, batch=n_seq, **look)
    draw.save(axes, out)
    say(f"wrote {out}")
