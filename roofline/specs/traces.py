"""Traces of requests, from files as they are published.

| format                      | a request                                                                          |
|-----------------------------|------------------------------------------------------------------------------------|
| Azure LLM inference, CSV    | TIMESTAMP (date and time), ContextTokens, GeneratedTokens                          |
| BurstGPT, CSV               | Timestamp (s), Request tokens, Response tokens, …                                  |
| Mooncake, JSONL             | timestamp (ms), input_length, output_length                                        |
| plain CSV                   | arrival_s, prompt_tokens, output_tokens; the first may be missing                  |
| lists of lengths, JSON      | [[prompt, output], …], or objects with prompt_len and output_len (ShareGPT samples) |

A trace without arrivals is lengths alone: its requests are drawn, and come as Poisson has them.
"""

from __future__ import annotations

import csv
import datetime
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from roofline.errors import SpecError, shorten, shown
from roofline.specs.workload import LONGEST, Requests, Workload

__all__ = ["trace"]

PathLike = str | os.PathLike[str]

_TIMES = {"timestamp": 1.0, "arrival_s": 1.0}
_PROMPTS = ("prompt_tokens", "contexttokens", "request tokens", "input_length", "prompt_len", "input_len")
_OUTPUTS = ("output_tokens", "generatedtokens", "response tokens", "output_length", "output_len")

Row = tuple[int, Mapping[str, Any]]
"""Line or place in the file, and what it holds by lower-case name."""


def trace(path: PathLike) -> Workload:
    """The workload of a trace: its lengths, and its arrivals where it has them.

    Requests whose answer is empty failed when the trace was taken, and are left out. Arrivals must be in order.
    """
    place = Path(path)
    try:
        text = place.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise SpecError(f"{shorten(os.fspath(path), 300)}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise SpecError(f"{shorten(os.fspath(path), 300)}: expected a trace as CSV or JSON, found no text") from None
    where = shorten(os.fspath(path), 300)
    rows = list(_rows(text, where))
    if not rows:
        raise SpecError(f"{where}: no requests in it")
    return _workload(rows, where, in_ms=text.lstrip()[:1] == "{", name=place.stem)


def _rows(text: str, where: str) -> Iterator[Row]:
    """What the file holds, request by request."""
    start = text.lstrip()[:1]
    if start == "":
        return
    if start in ("{", "["):
        yield from _json_rows(text, where, lines=start == "{")
        return
    reader = csv.DictReader(text.splitlines())
    names = [str(name or "").strip().lower() for name in reader.fieldnames or ()]
    _named(names, _PROMPTS, where)
    _named(names, _OUTPUTS, where)
    for line, values in enumerate(reader, start=2):
        yield line, dict(zip(names, list(values.values())[: len(names)], strict=False))


def _json_rows(text: str, where: str, *, lines: bool) -> Iterator[Row]:
    try:
        given = [json.loads(line) for line in text.splitlines() if line.strip()] if lines else json.loads(text)
    except json.JSONDecodeError as error:
        raise SpecError(f"{where}: line {error.lineno}: no JSON: {error.msg}") from None
    for i, one in enumerate(given, start=1):
        if isinstance(one, dict):
            yield i, {str(key).lower(): value for key, value in one.items()}
        elif isinstance(one, list) and len(one) == 2:
            yield i, {"prompt_tokens": one[0], "output_tokens": one[1]}
        else:
            raise SpecError(
                f"{where}: request {i}: expected [prompt tokens, output tokens] or an object, got {shown(one)}"
            )


def _named(names: list[str], known: tuple[str, ...], where: str) -> str:
    for name in known:
        if name in names:
            return name
    raise SpecError(f"{where}: expected a column named one of {', '.join(known)}; it has {', '.join(names) or 'none'}")


def _workload(rows: list[Row], where: str, *, in_ms: bool, name: str) -> Workload:
    names = list(rows[0][1])
    prompt, output = _named(names, _PROMPTS, where), _named(names, _OUTPUTS, where)
    time = next((t for t in _TIMES if t in names), None)
    seconds = _seconds(1e-3 if in_ms and time == "timestamp" else 1.0)
    arrivals, prompts, outputs = [], [], []
    for line, row in rows:
        said = _count(row.get(output), where, line, output, low=0)
        if said == 0:
            continue
        prompts.append(_count(row.get(prompt), where, line, prompt, low=1))
        outputs.append(said)
        if time is not None:
            arrivals.append(seconds(row.get(time), f"{where}: line {line}: {time}"))
            if len(arrivals) > 1 and arrivals[-1] < arrivals[-2]:
                raise SpecError(f"{where}: line {line}: {time}: earlier than the request before; sort the trace")
    if not prompts:
        raise SpecError(f"{where}: no requests in it that were answered")
    if time is None:
        return Workload(np.array(prompts), np.array(outputs), name=name)
    since = np.array(arrivals, dtype=np.float64)
    given = Requests(arrival_s=since - since[0], prompt_tokens=np.array(prompts), output_tokens=np.array(outputs))
    return Workload.of_trace(given, name=name)


def _count(value: object, where: str, line: int, name: str, *, low: int) -> int:
    """A whole number of tokens."""
    try:
        number = float(str(value))
    except ValueError:
        number = -1.0
    if not (low <= number <= LONGEST and number == int(number)):
        raise SpecError(
            f"{where}: line {line}: {name}: expected a whole number from {low} to {LONGEST:,}, got {shown(value)}"
        )
    return int(number)


def _seconds(unit_s: float) -> Callable[[object, str], float]:
    """Reads a time: a number of units, or a date and time of day."""

    def read(value: object, where: str) -> float:
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

    return read


def _micros(text: str) -> str:
    """A time with a fraction of more than six digits, as Azure writes it, cut to six; without a zone it is UTC."""
    head, dot, tail = text.strip().partition(".")
    digits = tail[: len(tail) - len(tail.lstrip("0123456789"))]
    zone = tail[len(digits) :] or "+00:00"
    return f"{head}.{digits[:6]:0<6}{zone}" if dot else f"{head}+00:00" if "+" not in head and "Z" not in head else head
