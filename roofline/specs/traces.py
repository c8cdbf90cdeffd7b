"""Traces of requests, from files as they are published, and two that come with the library.

| format                      | a request                                                                          |
|-----------------------------|------------------------------------------------------------------------------------|
| Azure LLM inference, CSV    | TIMESTAMP (date and time), ContextTokens, GeneratedTokens                          |
| BurstGPT, CSV               | Timestamp (s), Request tokens, Response tokens, …                                  |
| Mooncake, JSONL             | timestamp (ms), input_length, output_length, hash_ids (of blocks of 512 tokens)    |
| plain CSV                   | arrival_s, prompt_tokens, output_tokens; the first may be missing                  |
| lists of lengths, JSON      | [[prompt, output], …], or objects with prompt_len and output_len (ShareGPT samples) |

A trace without arrivals is lengths alone: its requests are drawn, and come as Poisson has them. Any of them may be
compressed (.gz). Rows are turned into numbers many at a time; one is looked at by itself only where something is wrong.
"""

from __future__ import annotations

import csv
import datetime
import gzip
import json
import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, compress, islice
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from roofline.errors import SpecError, UnknownName, did_you_mean, shorten, shown
from roofline.specs.workload import BLOCK_TOKENS, LONGEST, Blocks, Requests, Workload, at_least_one

__all__ = ["SHIPPED", "trace", "workload"]

PathLike = str | os.PathLike[str]
Floats = NDArray[np.float64]
Column = Sequence[Any] | Floats
"""As the file has it; an array where all is known to be right."""

DATA = Path(__file__).resolve().parent / "data"
SHIPPED = {"azure-code": "azure2023_code.csv.gz", "azure-conv": "azure2023_conv.csv.gz"}
"""Traces that come with the library, by name; `data/SOURCES.md` says whose they are."""

_LINES, _ROWS = 65536, 2048  # turned into numbers at a time: of good lines, and where they are looked at
_TIMES = ("timestamp", "arrival_s")
_PROMPTS = ("prompt_tokens", "contexttokens", "request tokens", "input_length", "prompt_len", "input_len")
_OUTPUTS = ("output_tokens", "generatedtokens", "response tokens", "output_length", "output_len")
_BLOCKS = "hash_ids"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Form:
    """How a file says what: the names of its columns, the unit of its times, and what its rows are called in an error."""

    where: str
    prompt: str
    output: str
    time: str | None
    blocks: str | None
    unit_s: float = 1.0
    row: str = "line"

    def at(self, line: int, column: str | None) -> str:
        return f"{self.where}: {self.row} {line}: {column}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rows:
    """Some rows, column by column, as the file has them; where each stands in it."""

    lines: Sequence[int]
    prompt: Column
    output: Column
    time: Column
    blocks: Column

    def only(self, kept: NDArray[np.bool_]) -> _Rows:
        def of(column: Column) -> Any:
            return column[kept] if isinstance(column, np.ndarray) else list(compress(column, kept.tolist()))

        return _Rows(lines=of(self.lines), prompt=of(self.prompt), output=of(self.output), time=of(self.time),
                     blocks=of(self.blocks))  # fmt: skip


def workload(name: PathLike) -> Workload:
    """The workload of a trace that comes with the library, or of a file.

    Parameters
    ----------
    name : str or path
        "azure-conv" or "azure-code", one hour of a chat and of a code service [Patel et al. 2024]; or a path, as `trace`
        reads it.

    Raises
    ------
    UnknownName
        If no trace has that name, and it is no path: neither in a folder nor ending as traces do.

    Examples
    --------
    >>> w = workload("azure-conv")
    >>> len(w), round(w.mean_prompt_tokens), round(w.mean_output_tokens)
    (19366, 1155, 211)
    """
    if not isinstance(name, (str, os.PathLike)):
        raise SpecError(f"workload: expected a name or a path, got {shown(name)}")
    text = os.fspath(name)
    known = text.strip().lower()
    if isinstance(name, str) and known in SHIPPED:
        return replace(trace(DATA / SHIPPED[known]), name=known)
    if not isinstance(name, str) or os.sep in text or text.endswith((".csv", ".json", ".jsonl", ".gz")):
        return trace(name)
    hint = did_you_mean(shorten(text), SHIPPED)
    raise UnknownName(f'no workload named "{shorten(text)}"{hint}  (known: {", ".join(SHIPPED)}, or a path)')


def trace(path: PathLike, *, block_tokens: int = BLOCK_TOKENS) -> Workload:
    """The workload of a trace: its lengths, and its arrivals and the blocks of its prompts where it has them.

    Parameters
    ----------
    path : str or path
        The file.
    block_tokens : int
        Tokens of the blocks whose ids it gives [token].

    Raises
    ------
    SpecError
        With the line, where one is not as it should be.

    Notes
    -----
    Requests whose answer is empty failed when the trace was taken, and are left out. Arrivals must be in order. The ids of
    blocks are kept as the file has them: the last may be of a block that the prompt only begins.
    """
    where, place = shorten(os.fspath(path), 300), Path(path)
    at_least_one(block_tokens, "trace(block_tokens)")
    compressed = place.suffix == ".gz"
    name = Path(place.stem).stem if compressed else place.stem
    try:
        with gzip.open(place, "rt", encoding="utf-8-sig") if compressed else place.open(encoding="utf-8-sig") as stream:
            form, rows = _read(stream, where)
            return _workload(form, rows, name=name, block_tokens=block_tokens)
    except OSError as error:
        raise SpecError(f"{where}: {error.strerror or error}") from None
    except (ValueError, EOFError, csv.Error, zlib.error) as error:
        if isinstance(error, SpecError):
            about, said = "Recorded(arrival_s)", str(error)
            raise SpecError(
                said.replace(about, where) + "; leave times out" if said.startswith(about) else said
            ) from None
        raise SpecError(f"{where}: expected a trace as CSV or JSON, found no text") from None


def _read(stream: IO[str], where: str) -> tuple[_Form, Iterator[_Rows]]:
    """How the file says it, and what it holds, many rows at a time."""
    for line, first in enumerate(stream, start=1):
        start = first.lstrip()[:1]
        if start == "{":
            return _json(_json_lines(chain([first], stream), line, where), where, row="line")
        if start == "[":
            return _json(enumerate(_parsed(first + stream.read(), where, line), start=1), where, row="request")
        if start:
            return _csv(next(csv.reader([first])), stream, line, where)
    raise SpecError(f"{where}: no requests in it")


def _csv(header: list[str], stream: Iterator[str], line: int, where: str) -> tuple[_Form, Iterator[_Rows]]:
    names = [name.strip().lower() for name in header]
    form = _form(names, where, row="line", in_ms=False)
    places = [names.index(n) if n is not None else None for n in (form.prompt, form.output, form.time, form.blocks)]

    def chunks(line: int) -> Iterator[_Rows]:
        while (text := list(islice(stream, _LINES))) and (table := _table(text, places)) is not None:
            first, second, third, fourth = (*table.T, [], [])[:4]
            yield _Rows(lines=range(line, line + len(text)), prompt=first, output=second, time=third, blocks=fourth)
            line += len(text)
        reader = csv.reader(chain(text, stream))
        while rows := list(islice(reader, _ROWS)):
            lines: Sequence[int] = range(line, line + len(rows))
            line += len(rows)
            if not all(rows):
                lines, rows = [at for at, row in zip(lines, rows, strict=True) if row], [row for row in rows if row]
            first, second, third, fourth = (_column(rows, k) for k in places)
            yield _Rows(lines=lines, prompt=first, output=second, time=third, blocks=fourth)

    return form, chunks(line + 1)


def _table(text: list[str], places: list[int | None]) -> Floats | None:
    """Prompts, outputs and times of lines that hold nothing but good numbers there, at once; else none."""
    if text[0].isspace() or places[3] is not None:
        return None
    try:
        columns = [k for k in places if k is not None]
        table = np.loadtxt(text, delimiter=",", quotechar='"', comments=None, usecols=columns, ndmin=2)
    except ValueError:
        return None
    whole = (table[:, :2] >= 0.0) & (table[:, :2] <= LONGEST) & (table[:, :2] == np.floor(table[:, :2]))
    good = whole.all() and (table[:, 0] >= np.minimum(table[:, 1], 1.0)).all() and np.isfinite(table).all()
    return table if good and len(table) == len(text) else None  # blank lines are not among the rows


def _column(rows: list[list[str]], k: int | None) -> list[Any]:
    """A column; None where a row ends before it."""
    if k is None:
        return []
    try:
        return [row[k] for row in rows]
    except IndexError:
        return [row[k] if k < len(row) else None for row in rows]


def _json(given: Iterable[tuple[int, object]], where: str, *, row: str) -> tuple[_Form, Iterator[_Rows]]:
    rows = _objects(given, where, row)
    first = next(rows, None)
    if first is None:
        raise SpecError(f"{where}: no requests in it")
    form = _form(list(first[1]), where, row=row, in_ms=row == "line")

    def chunks() -> Iterator[_Rows]:
        every = chain([first], rows)
        while some := list(islice(every, _ROWS)):
            prompt, output, time, blocks = (
                [] if name is None else [one.get(name) for _, one in some]
                for name in (form.prompt, form.output, form.time, form.blocks)
            )
            yield _Rows(lines=[line for line, _ in some], prompt=prompt, output=output, time=time, blocks=blocks)

    return form, chunks()


def _json_lines(lines: Iterable[str], first: int, where: str) -> Iterator[tuple[int, object]]:
    for i, line in enumerate(lines, start=first):
        if line.strip():
            yield i, _parsed(line, where, i)


def _parsed(text: str, where: str, line: int) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise SpecError(f"{where}: line {line + error.lineno - 1}: no JSON: {error.msg}") from None
    except (ValueError, RecursionError):  # a number of thousands of digits, lists within lists without end
        raise SpecError(f"{where}: line {line}: no JSON that can be read") from None


def _objects(given: Iterable[tuple[int, object]], where: str, row: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Where each request stands, and what it says by lower-case name."""
    for i, one in given:
        if isinstance(one, dict):
            yield i, {str(key).lower(): value for key, value in one.items()}
        elif isinstance(one, list) and len(one) == 2:
            yield i, {"prompt_tokens": one[0], "output_tokens": one[1]}
        else:
            raise SpecError(
                f"{where}: {row} {i}: expected [prompt tokens, output tokens] or an object, got {shown(one)}"
            )


def _form(names: list[str], where: str, *, row: str, in_ms: bool) -> _Form:
    time = next((name for name in _TIMES if name in names), None)
    return _Form(
        where=where, row=row, prompt=_named(names, _PROMPTS, where), output=_named(names, _OUTPUTS, where), time=time,
        blocks=_BLOCKS if _BLOCKS in names else None, unit_s=1e-3 if in_ms and time == "timestamp" else 1.0,
    )  # fmt: skip


def _named(names: list[str], known: tuple[str, ...], where: str) -> str:
    for name in known:
        if name in names:
            return name
    raise SpecError(f"{where}: expected a column named one of {', '.join(known)}; it has {', '.join(names) or 'none'}")


def _workload(form: _Form, chunks: Iterable[_Rows], *, name: str, block_tokens: int) -> Workload:
    prompts, outputs, times, lines = [np.zeros(0)], [np.zeros(0)], [np.zeros(0)], [np.zeros(0, dtype=np.int64)]
    blocks: list[tuple[int, ...]] = []
    n_rows = 0
    for rows in chunks:
        n_rows += len(rows.lines)
        said = _counts(rows.output, rows.lines, form, form.output, low=0)
        answered = rows if said.all() else rows.only(said > 0.0)
        outputs.append(said[said > 0.0])
        prompts.append(_counts(answered.prompt, answered.lines, form, form.prompt, low=1))
        lines.append(np.array(answered.lines, dtype=np.int64))
        if form.time is not None:
            times.append(_seconds(answered.time, answered.lines, form))
        if form.blocks is not None:
            blocks.extend(_ids(answered, prompts[-1], form, block_tokens))
    prompt, output = (np.concatenate(parts).astype(np.int64) for parts in (prompts, outputs))
    time = np.concatenate(times)
    if not prompt.size:
        raise SpecError(f"{form.where}: no requests in it{' that were answered' if n_rows else ''}")
    ids = tuple(blocks) if form.blocks is not None else None
    if form.time is None:
        return Workload(prompt, output, name=name, block_ids=ids, block_tokens=block_tokens)
    early = np.flatnonzero(time[1:] < time[:-1])
    if early.size:
        at = form.at(int(np.concatenate(lines)[early[0] + 1]), form.time)
        raise SpecError(f"{at}: earlier than the request before; sort the trace")
    given = Requests(
        arrival_s=time - time[0], prompt_tokens=prompt, output_tokens=output, block_ids=ids, block_tokens=block_tokens
    )
    return Workload.of_trace(given, name=name)


def _counts(values: Column, lines: Sequence[int], form: _Form, name: str, *, low: int) -> Floats:
    """Whole numbers of tokens."""
    if isinstance(values, np.ndarray):
        return values
    try:
        numbers = np.fromiter(map(float, map(str, values)), np.float64, len(values))
    except ValueError:
        numbers = np.array([_number(value) for value in values])
    good = (numbers >= low) & (numbers <= LONGEST) & (numbers == np.floor(numbers))
    if not good.all():
        i = int(np.argmin(good))
        raise SpecError(
            f"{form.at(lines[i], name)}: expected a whole number from {low} to {LONGEST:,}, got {shown(values[i])}"
        )
    return numbers


def _number(value: object) -> float:
    """A number; NaN where it is none."""
    try:
        return float(str(value))
    except ValueError:
        return float("nan")


def _ids(rows: _Rows, prompts: Floats, form: _Form, block_tokens: int) -> Blocks:
    """Ids of the blocks of each prompt, whole ones and perhaps one that it only begins."""
    for given, tokens, line in zip(rows.blocks, prompts.astype(np.int64).tolist(), rows.lines, strict=True):
        if not isinstance(given, list) or any(type(one) is not int for one in given):
            raise SpecError(f"{form.at(line, form.blocks)}: expected a list of whole numbers, got {_odd(given)}")
        if len(given) not in (tokens // block_tokens, -(-tokens // block_tokens)):
            raise SpecError(
                f"{form.at(line, form.blocks)}: expected {-(-tokens // block_tokens)} ids for {tokens} tokens in blocks of "
                f"{block_tokens}, got {len(given)}; give block_tokens where blocks have another size"
            )
    return tuple(tuple(given) for given in rows.blocks)


def _odd(given: object) -> str:
    """What is wrong with a list of ids: that it is none, or its first that is no whole number."""
    odd = [one for one in given if type(one) is not int] if isinstance(given, list) else [given]
    return f"{shown(odd[0])}{' in it' if isinstance(given, list) else ''}"


def _seconds(values: Column, lines: Sequence[int], form: _Form) -> Floats:
    """Times: numbers of a unit, or dates and times of day  [s]."""
    if isinstance(values, np.ndarray):
        return values * form.unit_s
    try:
        found = np.fromiter(map(float, map(str, values)), np.float64, len(values)) * form.unit_s
    except ValueError:
        found = _dates(values)
    if found.size == len(values) and np.isfinite(found).all():
        return found
    return np.array([_second(v, form.unit_s, form.at(line, form.time)) for v, line in zip(values, lines, strict=True)])


def _dates(values: Sequence[Any]) -> Floats:
    """Dates and times without a zone, all at once; nothing where one of them is anything else  [s]."""
    text = "".join(map(str, values))
    if text.count("-") == 2 * len(values) and set(text) <= set("0123456789-:. T"):
        try:
            return np.asarray(np.array(values, dtype="datetime64[us]").astype(np.int64) / 1e6)
        except (ValueError, TypeError):
            pass
    return np.zeros(0)


def _second(value: object, unit_s: float, where: str) -> float:
    """A time: a number of units, or a date and time of day  [s]."""
    try:
        number = float(str(value)) * unit_s
    except ValueError:
        try:
            number = datetime.datetime.fromisoformat(_micros(str(value))).timestamp()
        except ValueError:
            raise SpecError(f"{where}: expected seconds or a date and time, got {shown(value)}") from None
    if not np.isfinite(number):
        raise SpecError(f"{where}: expected seconds, got {shown(value)}")
    return number


def _micros(text: str) -> str:
    """A time with a fraction of more than six digits, as Azure writes it, cut to six; without a zone it is UTC."""
    head, dot, tail = text.strip().partition(".")
    digits = tail[: len(tail) - len(tail.lstrip("0123456789"))]
    zone = tail[len(digits) :] or "+00:00"
    return f"{head}.{digits[:6]:0<6}{zone}" if dot else f"{head}+00:00" if "+" not in head and "Z" not in head else head
