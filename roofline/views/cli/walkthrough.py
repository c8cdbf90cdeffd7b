"""`roofline walkthrough`: the page that goes from prefill to decode step by step, for a model on a chip."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from roofline.specs.deployment import Deployment
from roofline.views.cli.common import Batch, Kv, ModelName, Search, Weights, say, whole
from roofline.views.cli.options import build
from roofline.views.files import put, target_of

__all__ = ["walkthrough"]

Chip = Annotated[str, typer.Argument(help="The chip: name, alias, name:64GB, or a path.", show_default=False)]


def walkthrough(
    model: ModelName,
    hardware: Chip,
    out: Annotated[Path, typer.Option("--out", "-o", help="The .html file to write.")] = Path("walkthrough.html"),
    lang: Annotated[
        str | None, typer.Option(help="en or zh: the language it opens in.  [default: the browser's]")
    ] = None,
    prompt: Annotated[str, typer.Option("--prompt", "-p", help="Prompt tokens where the slider begins.")] = "4",
    batch: Batch = "1",
    weights: Weights = None,
    kv: Kv = None,
    search: Search = None,
) -> None:
    """Write a page that teaches: prefill to decode to the growing cache.

    Five steps moved by keys, touch and buttons, in English and Chinese; one file that fetches nothing.
    roofline walkthrough llama-2-7b h100 -o page.html
    """
    target = target_of(out, (".html", ".htm"))
    d = build(model, [hardware], search=search, weights=weights, kv=kv)[0]
    first = {"prompt_tokens": whole(prompt, name="--prompt"), "batch": whole(batch, name="--batch")}
    from roofline.views.walkthrough import page

    put(
        target, page(Deployment(model=d.model, hardware=d.hardware, precision=d.precision), lang=lang, **first).encode()
    )
    say(f"wrote {target}; open it in a browser, and go on with ← and →")
