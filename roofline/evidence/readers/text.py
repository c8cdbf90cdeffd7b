"""Files to text, text to objects and rows: bounded, one line number a piece, nothing in it run."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roofline.errors import RooflineError, SpecError, shorten, shown

__all__ = ["Place", "cells_of", "load_text", "objects_of"]

MAX_BYTES = 200_000_000
MAX_VALUES = 20_000_000
MAX_ROWS = 200_000
_SPACE = re.compile(r"[ \n\r\t\ufeff]*")
_LARGE = "leave out the texts and the times of single tokens (the options that save details)"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a piece of a file stands: `line` counts from 1; `text[start:end]` is the piece, where keys are looked for."""

    file: str
    line: int
    text: str = ""
    start: int = 0
    end: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    def of(self, key: str) -> str:
        """File, the line on which a key (or the one before its dot) stands, and the key."""
        names = (json.dumps(name, ensure_ascii=False) for name in (key, key.partition(".")[0]))
        at = next((at for name in names if (at := self.text.find(name, self.start, self.end)) >= 0), -1)
        line = self.line if at < 0 else self.line + self.text.count("\n", self.start, at)
        return f"{self.file}:{line}: {shorten(key, 60)}"


def load_text(path: str | Path, *, strict: bool = True) -> str:
    """The text of a file of bounded size: UTF-8, with or without a mark, or UTF-16 with one (as PowerShell redirects).

    `strict` refuses bytes that are no text; a log may hold some, which are replaced.
    """
    where = shorten(str(path), 400)
    try:
        file = Path(path)
        size = file.stat().st_size
        if not file.is_file():
            raise SpecError(f"{where}: expected a file")
        if size > MAX_BYTES:
            raise SpecError(f"{where}: {size:,} bytes; a file of more than {MAX_BYTES:,} is not read; {_LARGE}")
        with file.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError, TypeError) as error:  # ValueError: a name with a null byte
        if isinstance(error, RooflineError):
            raise
        raise SpecError(f"{where}: cannot be read ({getattr(error, 'strerror', None) or error})") from None
    text = _decoded(data, where=where, strict=strict)
    if not text.strip():
        raise SpecError(f"{where}: expected the results of a benchmark, got an empty file")
    return text


def _decoded(data: bytes, *, where: str, strict: bool) -> str:
    if data[:2] == b"\x1f\x8b":
        raise SpecError(f"{where}: expected text, got a gzip archive; unpack it first")
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        return data.decode(encoding, errors="strict" if strict else "replace")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise SpecError(f"{where}:{line}: expected UTF-8 text, got other bytes") from None


def objects_of(text: str, *, where: str) -> list[tuple[dict[str, Any], Place]]:
    """Every object of a JSON text, and its place: one object, an array of them, one a line, or one after another."""
    if sum(map(text.count, ",[{")) > MAX_VALUES:
        raise SpecError(f"{where}: more than {MAX_VALUES:,} values are not read; {_LARGE}")
    found = []
    for value, place in _values(text, where):
        if not isinstance(value, dict):
            raise SpecError(f"{place}: expected an object of keys and values, got {shown(value)}")
        found.append((value, place))
    if not found:
        raise SpecError(f"{where}: expected the results of a benchmark, got an empty array")
    return found


def _values(text: str, where: str) -> Iterator[tuple[Any, Place]]:
    """The values a text holds, those of a top-level array one by one."""
    decoder = json.JSONDecoder(object_pairs_hook=_no_key_twice)
    at, line, counted, inside = 0, 1, 0, False
    while True:
        at = _skip(text, at)
        if at == len(text) and not inside:
            return
        if not inside and text[at] == "[":
            at, inside = _skip(text, at + 1), True
            if text[at : at + 1] == "]":
                at, inside = at + 1, False
                continue
        line, counted = line + text.count("\n", counted, at), at
        value, end = _decode(decoder, text, at, where=where, line=line)
        yield value, Place(where, line, text, at, end)
        at = _skip(text, end)
        if inside and text[at : at + 1] == ",":
            at += 1
        elif inside and text[at : at + 1] == "]":
            at, inside = at + 1, False
        elif inside:
            line += text.count("\n", counted, at)
            raise SpecError(f"{where}:{line}: not valid JSON (a comma or ] is missing); is the file cut short?")


def _skip(text: str, at: int) -> int:
    """The next position that holds no white space."""
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _decode(decoder: json.JSONDecoder, text: str, at: int, *, where: str, line: int) -> tuple[Any, int]:
    try:
        return decoder.raw_decode(text, at)
    except RecursionError:
        raise SpecError(f"{where}:{line}: nested too deep") from None
    except json.JSONDecodeError as error:
        cut = "; is the file cut short?" if error.pos >= len(text.rstrip()) - 1 or "Untermin" in error.msg else ""
        begun = "" if error.lineno == line else f" in what begins on line {line:,}"
        raise SpecError(f"{where}:{error.lineno}:{error.colno}: not valid JSON ({error.msg}){begun}{cut}") from None
    except ValueError as error:  # a key twice, a number of thousands of digits
        raise SpecError(f"{where}:{line}: {error}") from None


def _no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) < len(pairs):
        raise ValueError(f"the key {shorten(_twice(key for key, _ in pairs) or '')} stands in one object a second time")
    return data


def _twice(names: Iterable[str]) -> str | None:
    """The first name that comes a second time."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def cells_of(text: str, *, where: str) -> list[tuple[dict[str, str], Place]]:
    """Every row of a table with a header, by column name, and its place. Lines that start with # are comments.

    Cells are parted by the comma, semicolon or tab that the header has most of. A row of another width is an error.
    """
    lines = ["" if line.lstrip().startswith("#") else line for line in io.StringIO(text.replace("\0", " "))]
    first = next((i for i, line in enumerate(lines) if line.strip()), None)
    if first is None:
        raise SpecError(f"{where}: expected a header and rows, got comments only")
    mark = max(",;\t", key=lines[first].count)
    reader = csv.reader(lines[first:], delimiter=mark, skipinitialspace=True, strict=True)
    rows: list[tuple[dict[str, str], Place]] = []
    header: list[str] = []
    line = first + 1
    try:
        for cells in reader:
            if header and cells and any(map(str.strip, cells)):
                rows.append((_row(header, cells, f"{where}:{line}"), Place(where, line)))
            elif not header:
                header = _header(cells, f"{where}:{line}")
            line = first + reader.line_num + 1
            if len(rows) > MAX_ROWS:
                raise SpecError(f"{where}: more than {MAX_ROWS:,} rows are not read")
    except csv.Error as error:
        raise SpecError(f"{where}:{line}: not a row of a table ({error}); is the file cut short?") from None
    if not rows:
        raise SpecError(f"{where}: expected rows below the header, got none")
    return rows


def _header(cells: list[str], where: str) -> list[str]:
    names = [cell.strip() for cell in cells]
    while names and not names[-1]:
        names.pop()
    twice = _twice(names)
    if twice is not None:
        raise SpecError(f"{where}: expected every column once, got {shown(twice)} twice")
    return names


def _row(header: list[str], cells: list[str], where: str) -> dict[str, str]:
    extra = len(cells) - len(header)
    if extra < 0 or any(cell.strip() for cell in cells[len(header) :]):
        raise SpecError(f"{where}: expected {len(header)} cells, one a column, got {len(cells)}")
    return {name: cell.strip() for name, cell in zip(header, cells[: len(header)], strict=True)}
