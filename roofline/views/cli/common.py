"""What every command shares: its options, its way of building deployments, and its two ways of answering."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import numpy as np
import typer

from roofline.errors import SpecError
from roofline.specs.model import Model

if TYPE_CHECKING:
    from rich.table import Table

__all__ = [
    "Activations", "Attention", "Batch", "Check", "Chips", "Context", "Head", "ImageSize", "Images",
    "Json", "Kv", "ModelName", "Output", "Prompt", "PromptOrUsual", "Search", "Source", "Weights",
    "print_json", "print_table", "say", "sides", "speak_ascii_where_needed", "table", "usual_prompt", "whole",
]  # fmt: skip

ModelName = Annotated[
    str,
    typer.Argument(
        help="A model: name, alias, or path to a YAML file, config.json, its folder, or .gguf.", show_default=False
    ),
]
Chips = Annotated[
    list[str] | None, typer.Argument(help="One chip or several: name, alias, name:64GB, or a path.", show_default=False)
]
Prompt = Annotated[str, typer.Option("--prompt", "-p", help="Prompt tokens of each request.")]
PromptOrUsual = Annotated[
    str | None,
    typer.Option(
        "--prompt", "-p", help="Prompt tokens of each request.  [default: 2048, or half of a shorter context]"
    ),
]
Output = Annotated[
    str | None,
    typer.Option("--output", "-o", help="Tokens to generate for each request.  [default: 256; an encoder: 0]"),
]
Images = Annotated[
    str, typer.Option(help="Images in each prompt; the vision tower's work and their tokens are counted.")
]
ImageSize = Annotated[str, typer.Option(help="Their size in pixels, height x width.")]
Source = Annotated[
    str | None, typer.Option(help="Tokens its encoder or tower gave to attend to, of a model with cross-attention.")
]
Context = Annotated[str, typer.Option("--context", "-c", help="Tokens each sequence has in the cache.")]
Batch = Annotated[str, typer.Option("--batch", "-b", help="Requests running together.")]
Weights = Annotated[
    str | None,
    typer.Option(help="Weight format: bf16, fp8, int8, awq, q4_k_m, mlx-4bit, …  [default: the checkpoint's]"),
]
Kv = Annotated[str | None, typer.Option(help="KV-cache format: bf16, fp8, q8_0, …  [default: the activations' dtype]")]
Activations = Annotated[
    str | None, typer.Option(help="Compute dtype to insist on: fp16, fp8, int8, …  [default: auto]")
]
Head = Annotated[
    str | None, typer.Option(help="Format of the output matrix.  [default: as the weight format leaves it]")
]
Attention = Annotated[
    str, typer.Option(help="flash (visible pairs, no score traffic) or eager (the full square, moved).")
]
Search = Annotated[list[Path] | None, typer.Option(help="A folder of your own specs, looked in first; repeatable.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout: SI units, unit in the key.")]
Check = Annotated[bool, typer.Option("--check", help="Leave with exit code 4 where it does not fit.")]


_IN_THOUSANDS = re.compile(r"[0-9]{1,3}([,_][0-9]{3})+[kKmM]?|[0-9_]+[kKmM]?")  # 2,048; not 512,1024


def whole(text: str, *, name: str, least: int = 1, most: float = 1e12) -> int:
    """A whole number as people type it: 2048, 2,048, 8k, 128K, 1M (k and M are 1024 and 1024², as context lengths are).

    >>> whole("128k", name="--context"), whole("2,048", name="--prompt")
    (131072, 2048)
    """
    grouped = text.strip()
    plain = grouped.replace(",", "").replace("_", "") if _IN_THOUSANDS.fullmatch(grouped) else grouped
    factor = {"k": 1024, "m": 1024**2}.get(plain[-1:].lower(), 1)
    digits = plain[:-1] if factor > 1 else plain
    if not digits.isascii() or not digits.isdigit() or len(digits) > 15:
        raise SpecError(f"{name}: expected a whole number such as 2048 or 8k, got {text!r}")
    value = int(digits) * factor
    if not least <= value <= most:
        raise SpecError(f"{name}: expected {least} to {most:,.0f}, got {text}")
    return value


def usual_prompt(model: Model) -> str:
    """The prompt where none is asked for: 2048, or half of what a model with a shorter context reads; 4 beside a clip.

    >>> from roofline.specs.catalog import model
    >>> [usual_prompt(model(name)) for name in ("llama-3.1-8b", "gpt-2", "whisper-large-v3")]
    ['2048', '512', '4']
    """
    if any(tower.fixed_tokens is not None for tower in model.towers):
        return "4"
    return str(min(2048, max(1, model.max_context_tokens // 2)))


def sides(text: str) -> tuple[int, int]:
    """An image's height and width as people type them: 1024x768.

    >>> sides("1024x768")
    (1024, 768)
    """
    height, _, width = text.lower().replace("×", "x").partition("x")
    try:
        return whole(height, name="--image-size", most=1e6), whole(width, name="--image-size", most=1e6)
    except SpecError:
        raise SpecError(f"--image-size: expected height x width in pixels such as 1024x768, got {text!r}") from None


def print_json(schema: str, content: Mapping[str, Any]) -> None:
    """One object, flat, on stdout; numbers unrounded, and a number too large for JSON is a bug, not an Infinity."""
    from roofline import __version__

    body = {"schema": f"roofline/{schema}/1", "version": __version__} | dict(content)
    say(json.dumps(body, default=_plain, allow_nan=False))


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} does not go into JSON")


_ASCII = {"×": "x", "µ": "u", "–": "-", "−": "-", "…": "...", "→": "->", "·": "*", "²": "^2", "≤": "<=", "∞": "inf"}


def speak_ascii_where_needed() -> None:
    """Let × become x, and not an error, where the output's encoding does not have it."""
    import codecs

    def spelled_out(error: UnicodeError) -> tuple[str, int]:
        failed = cast("UnicodeEncodeError", error)
        letters = failed.object[failed.start : failed.end]
        return "".join(_ASCII.get(c, "?") for c in letters), failed.end

    codecs.register_error("roofline-ascii", spelled_out)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and stream.encoding.lower().replace("-", "") != "utf8":
            stream.reconfigure(errors="roofline-ascii")


_CONTROLS = dict.fromkeys([*range(9), *range(11, 32), *range(127, 160), *range(0xD800, 0xE000)], "?")


def say(text: str = "") -> None:
    """A line of text for people, on stdout; what a file or its name says to the terminal is not passed on."""
    sys.stdout.write(f"{text.translate(_CONTROLS)}\n")


def table(*columns: str, first: str = "") -> Table:
    """A table without boxes: words to the left, figures to the right."""
    from rich.table import Table

    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    made.add_column(first, no_wrap=True)
    for column in columns:
        words = column.startswith("<")
        made.add_column(column.lstrip("<"), justify="left" if words else "right", no_wrap=True)
    return made


def print_table(made: Table, *, spare: Sequence[str] = ()) -> None:
    """A table on stdout. Nothing is ever cut off: in a narrow terminal the spare columns go, the first named first."""
    from rich.console import Console

    plain = partial(
        Console, highlight=False, markup=False, emoji=False, soft_wrap=True
    )  # what a cell says, and no more
    screen, wide = plain(), plain(width=1000)
    for name in spare if sys.stdout.isatty() else ():
        if wide.measure(made).maximum <= screen.width:
            break
        made = _without(made, name)
    wide.print(made)


def _without(made: Table, name: str) -> Table:
    kept = [column for column in made.columns if column.header != name]
    first, *others = kept
    fresh = table(*(("<" if c.justify == "left" else "") + str(c.header) for c in others), first=str(first.header))
    for cells in zip(*(list(column.cells) for column in kept), strict=True):
        fresh.add_row(*cells)
    return fresh


def beyond_context(model: Model, tokens: int) -> list[str]:
    """A sentence for a request longer than the model is made for; none otherwise."""
    if tokens <= model.max_context_tokens:
        return []
    return [f"note: {tokens:,} tokens are more than the {model.max_context_tokens:,} that {model.id} is made for"]
