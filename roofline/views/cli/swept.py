"""A sweep in words: what all rows have in common, the rows, the best of those that fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from roofline.units import format_bytes
from roofline.views.cli.common import print_table, say, table
from roofline.views.cli.words import percent, seconds, three
from roofline.views.sweep import best
from roofline.views.words import IDEAL_NOTE

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["show"]

WHO = ("model", "hardware", "plan", "engine", "weights", "kv")
ASKED = ("batch", "prompt_tokens", "output_tokens", "context_tokens")
USUAL = ("evidence_regime", "ttft_s", "ttft_bound", "tpot_s", "tpot_bound", "e2e_s", "tokens_per_s_per_user",
         "tokens_per_s_per_chip", "kv_bytes", "fits")  # fmt: skip
HEADERS = {
    "hardware": "chip", "evidence_regime": "evidence", "output_tokens": "output", "prompt_tokens": "prompt",
    "context_tokens": "context", "ttft_s": "TTFT", "ttft_bound": "prefill", "tpot_s": "TPOT", "tpot_bound": "decode",
    "e2e_s": "whole", "tokens_per_s_per_user": "tok/s/user", "tokens_per_s_per_chip": "tok/s/chip", "kv_bytes": "KV",
    "kv": "KV format",
}  # fmt: skip
SPARE = ("prefill", "decode", "KV", "tok/s/user", "evidence")
BEST = (
    ("tokens_per_s_per_chip", "Most tokens for a chip", "{} tok/s"), ("tpot_s", "Fastest for a user", "TPOT {}"),
    ("ttft_s", "First token soonest", "TTFT {}"),
)  # fmt: skip


def show(frame: Any, *, n_rows: int, named: bool, ideal: Sequence[bool]) -> None:
    """The answer for people; of columns that were named, all of them; `ideal`: which of the engines are."""
    varied = [name for name in (*WHO, *ASKED) if name in frame and frame[name].nunique() > 1]
    shown = list(frame.columns) if named else [*varied, *(name for name in USUAL if name in frame)]
    say(_same(frame))
    if any(ideal):
        say(IDEAL_NOTE if all(ideal) else f"of engine ideal: {IDEAL_NOTE}")
    say()
    print_table(_rows(frame[shown].head(n_rows)), spare=() if named else SPARE)
    say()
    if len(frame) > n_rows:
        say(f"{len(frame) - n_rows:,} more rows (--top, --csv, or -o rows.parquet)")
    for line in _sentences(frame, varied):
        say(line)


def _same(frame: Any) -> str:
    """What all rows have in common, and how many there are."""
    alike = [name for name in (*WHO, *ASKED) if name in frame and frame[name].nunique() == 1]
    one = {name: _cell(name, frame[name].iloc[0]) for name in alike}
    where = " on ".join(one[name] for name in ("model", "hardware") if name in one)
    how = [one[name] for name in ("plan", "engine") if name in one]
    formats = [f"{one[name]} {word}" for name, word in (("weights", "weights"), ("kv", "KV")) if name in one]
    rest = [f"{HEADERS.get(name, name)} {one[name]}" for name in ASKED if name in one]
    n_rows = f"{len(frame):,} row{'' if len(frame) == 1 else 's'}"
    return ", ".join(part for part in (where, *how, *formats, *rest, n_rows) if part)


def _rows(frame: Any) -> Table:
    words = [name for name in frame.columns if frame[name].dtype.kind == "O" or frame[name].dtype.name == "category"]
    first, *others = frame.columns
    made = table(*(("<" if n in words else "") + HEADERS.get(n, n) for n in others), first=HEADERS.get(first, first))
    for row in frame.itertuples(index=False):
        made.add_row(*(_cell(name, value) for name, value in zip(frame.columns, row, strict=True)))
    return made


def _cell(name: str, value: Any) -> str:
    """A value in the unit of its column."""
    if isinstance(value, str):
        return value
    if value is None or value != value:
        return "–"
    if isinstance(value, bool) or type(value).__name__.startswith("bool"):
        return "yes" if value else "no"
    if "_per_s" not in name and (name.endswith("_s") or "_bytes" in name):
        return seconds(value) if name.endswith("_s") else format_bytes(float(value))
    if name.endswith(("mfu", "mbu")):
        return percent(value)
    return f"{value:,.0f}" if float(value).is_integer() else three(value)


def _sentences(frame: Any, varied: Sequence[str]) -> list[str]:
    """The best of what fits, and what to know of the rest."""
    lines, fitting = [], frame[frame.fits] if "fits" in frame else frame
    if fitting.empty:
        lines.append("None of these fits its memory.")
    elif len(fitting) < len(frame):
        lines.append(f"{len(fitting):,} of {len(frame):,} rows fit their memory; of those:")
    for by, said, figure in BEST if varied else ():
        for _, row in (best(fitting, by=by) if by in frame else fitting.head(0)).iterrows():
            at = [f"{'' if name in WHO else HEADERS.get(name, name) + ' '}{_cell(name, row[name])}" for name in varied]
            lines.append(f"{said}: {', '.join(at)} ({figure.format(_cell(by, row[by]))}).")
    n_longer = int(frame.exceeds_context.sum()) if "exceeds_context" in frame else 0
    if n_longer:
        lines.append(
            f"note: {n_longer:,} of {len(frame):,} longer than their model is made for (column exceeds_context)"
        )
    return lines
