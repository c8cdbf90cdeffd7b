"""`roofline sweep`: every combination of models, chips, formats and numbers, as a table, CSV, JSON or a file."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from roofline.errors import SpecError, shorten
from roofline.specs import catalog
from roofline.specs.engine import IDEAL_ENGINE
from roofline.specs.model import Model
from roofline.views.cli.common import Json, Search, print_json, say, usual_prompt, whole
from roofline.views.cli.lists import names_of, plans_of, wholes
from roofline.views.sweep import Written
from roofline.views.sweep import sweep as sweep_of

__all__ = ["sweep"]

MOST_REASONS = 6
MOST_JOBS = 256

_MANY = "Commas between, or a range with both ends: 1k:128k:x2, 0:1000:50."

Models = Annotated[
    str, typer.Argument(metavar="MODEL", help="A model, or several with commas between.", show_default=False)
]
Hardware = Annotated[
    list[str], typer.Argument(help="One chip or several: names, aliases or paths.", show_default=False)
]
Batches = Annotated[str, typer.Option("--batch", "-b", help=f"Requests running together. {_MANY}")]
Contexts = Annotated[
    str | None, typer.Option("--context", "-c", help="TPOT after so many tokens are in the cache. Several as --batch.")
]
Prompts = Annotated[
    str | None,
    typer.Option("--prompt", "-p", help="TTFT of so many prompt tokens.  [default without --context: as predict]"),
]
Outputs = Annotated[str | None, typer.Option("--output", help="Tokens to generate for each prompt: whole requests.")]
WeightsAsked = Annotated[str | None, typer.Option(help="Weight formats, as bf16,fp8.  [default: the checkpoint's]")]
KvAsked = Annotated[str | None, typer.Option(help="Cache formats, as bf16,fp8.  [default: the model's]")]
PlansAsked = Annotated[str, typer.Option(help="Layouts of a replica, as tp1,tp2,tp4pp2.")]
Engines = Annotated[str, typer.Option(help="Engines, as vllm,sglang.")]
ColumnsAsked = Annotated[
    str | None, typer.Option(help="Columns, as hardware,batch,tpot_s,max_batch.  [default: usual]")
]
Out = Annotated[
    str | None, typer.Option("--out", "-o", help="Write to a .parquet or .csv file, or a new folder of part files.")
]
Jobs = Annotated[str, typer.Option("--jobs", "-j", help="Processes to work in.")]
Csv = Annotated[bool, typer.Option("--csv", help="The rows as CSV on stdout.")]


def sweep(
    model: Models,
    hardware: Hardware,
    batch: Batches = "1",
    context: Contexts = None,
    prompt: Prompts = None,
    output: Outputs = None,
    weights: WeightsAsked = None,
    kv: KvAsked = None,
    plans: PlansAsked = "tp1",
    engine: Engines = "ideal",
    columns: ColumnsAsked = None,
    out: Out = None,
    jobs: Jobs = "1",
    top: Annotated[str, typer.Option(help="Rows of the table.")] = "40",
    json: Json = False,
    as_csv: Csv = False,
    search: Search = None,
) -> None:
    """Ask every combination of models, chips, formats and numbers.

    roofline sweep llama-3.1-8b h100 m5-max --batch 1,8,64 --context 1k:128k:x2 --weights bf16,fp8
    """
    if json and as_csv:
        raise SpecError("--json and --csv: expected one of them")
    records = _records(model, hardware, engine, search or ())
    numbers = _numbers(records["models"][0], batch=batch, context=context, prompt=prompt, output=output)
    named = None if columns is None else _members(columns, "--columns")
    asked = records | numbers | {
        "plan": plans_of(plans), "weights": names_of(weights), "kv": names_of(kv), "columns": named, "out": out,
    }  # fmt: skip
    n_rows = whole(top, name="--top", most=1e6)
    found = _swept(asked, whole(jobs, name="--jobs", most=MOST_JOBS))
    left_out = found.left_out if isinstance(found, Written) else found.attrs["left_out"]
    _say_left_out(left_out)
    if json:
        print_json("sweep", _content(found) | {"left_out": list(left_out)})
    elif isinstance(found, Written):
        say(f"wrote {found.n_rows:,} rows × {len(found.columns)} columns to {found.path}")
    elif as_csv:
        found.to_csv(sys.stdout, index=False, lineterminator="\n")
    else:
        from roofline.views.cli.swept import show

        show(found, n_rows=n_rows, named=named is not None, ideal=[e.id == "ideal" for e in records["engine"]])


def _records(model: str, hardware: Sequence[str], engine: str, folders: Sequence[Path]) -> dict[str, Any]:
    engines = _members(engine, "--engine")
    return {
        "models": [catalog.model(name, search=folders) for name in _members(model, "MODEL")],
        "hardware": [catalog.hardware(name, search=folders) for name in hardware],
        "engine": [IDEAL_ENGINE if name == "ideal" else catalog.engine(name, search=folders) for name in engines],
    }


def _numbers(
    first: Model, *, batch: str, context: str | None, prompt: str | None, output: str | None
) -> dict[str, Any]:
    """The number axes; where neither tokens in the cache nor a prompt are asked for, a usual request."""
    if context is None and prompt is None:
        prompt, output = usual_prompt(first), output or ("256" if first.generates else None)
    texts = {"context_tokens": context, "prompt_tokens": prompt, "output_tokens": output, "batch": batch}
    return {
        axis: wholes(text, name=f"--{axis.removesuffix('_tokens')}", least=0 if axis == "context_tokens" else 1)
        for axis, text in texts.items()
        if text is not None
    }


def _members(text: str, name: str) -> list[str]:
    """Names with commas between."""
    found = [part.strip() for part in text.split(",") if part.strip()]
    if not found:
        raise SpecError(f"{name}: expected at least one name, got {shorten(text)!r}")
    return found


def _swept(asked: dict[str, Any], n_jobs: int) -> Any:
    """The sweep, without combinations that cannot be run, of which the caller says why."""
    with warnings.catch_warnings(), _workers(n_jobs) as executor:
        warnings.filterwarnings("ignore", message="sweep: .* left out", category=UserWarning)
        return sweep_of(**asked, executor=executor, impossible="skip")


@contextmanager
def _workers(n_jobs: int) -> Iterator[Executor | None]:
    if n_jobs == 1:
        yield None
        return
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    with ProcessPoolExecutor(n_jobs, mp_context=get_context("spawn"), initializer=_leave_interrupts) as pool:
        yield pool


def _leave_interrupts() -> None:
    """To the process that asked, which ends this one."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _say_left_out(reasons: Sequence[str]) -> None:
    for reason in reasons[:MOST_REASONS]:
        sys.stderr.write(f"left out: {reason}\n")
    if len(reasons) > MOST_REASONS:
        sys.stderr.write(f"left out: {len(reasons) - MOST_REASONS:,} more combinations (--json lists all)\n")


def _content(found: Any) -> dict[str, Any]:
    if isinstance(found, Written):
        return {"path": str(found.path), "n_rows": found.n_rows, "columns": [c.name for c in found.columns]}
    rows = found.astype(object).to_dict(orient="records")
    plain = [{name: _plain(value) for name, value in row.items()} for row in rows]
    return {"n_rows": len(found), "columns": list(found.columns), "rows": plain}


def _plain(value: Any) -> Any:
    """None for what is missing or without bound, which JSON has no word for."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
