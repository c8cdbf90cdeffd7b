"""Where the rows of a sweep go: a frame in memory, a file as they come, a folder of part files from where they are made.

A form says what is made of neighbouring rows where they are worked out, which may be another process: arrays, a piece of a
file, or a whole part file. What is written stands under its name whole, or not at all.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from roofline.errors import SpecError, shown
from roofline.specs.catalog import is_folder
from roofline.views.files import placed, target_of
from roofline.views.sweep.columns import Column
from roofline.views.sweep.points import BLOCK_POINTS, Arrays, Block, evaluate

__all__ = ["Form", "Run", "Written", "in_memory", "target", "written"]

PART = "part-{:06d}.parquet"
ROW_GROUP = 262_144
IN_FLIGHT_BYTES = 2**29
MOST_IN_FLIGHT = 256

Columns = tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class Form:
    """What is made of a task of up to `n_blocks` blocks: picklable, as is what it makes."""

    columns: Columns
    n_blocks: ClassVar[int] = 3

    @property
    def row_bytes(self) -> int:
        """Bytes of a row as arrays [B]."""
        return sum(c.dtype.itemsize for c in self.columns)

    @property
    def in_flight(self) -> int:
        """Tasks an executor is given at once: as many as hold 512 MiB [1]."""
        return max(4, min(MOST_IN_FLIGHT, IN_FLIGHT_BYTES // (self.n_blocks * BLOCK_POINTS * self.row_bytes)))

    def __call__(self, task: Sequence[Block], number: int) -> Any:
        """Arrays by column."""
        return evaluate(task, self.columns)


Run = Callable[[Form], AbstractContextManager[Iterator[Any]]]
"""Works out all rows in a form, in order; left before the end, it works out no more."""


@dataclass(frozen=True, slots=True)
class InTables(Form):
    """pyarrow tables; words as places in a dictionary."""

    def __call__(self, task: Sequence[Block], number: int) -> Any:
        """One table."""
        import pyarrow as pa

        found = evaluate(task, self.columns)
        return pa.table({c.name: _words(found[c.name], c) if c.kind == "word" else found[c.name] for c in self.columns})


@dataclass(frozen=True, slots=True)
class InText(Form):
    """Lines of CSV, and how many rows they are."""

    n_blocks: ClassVar[int] = 1

    def __call__(self, task: Sequence[Block], number: int) -> tuple[int, bytes]:
        """The lines."""
        frame = _frame(evaluate(task, self.columns), self.columns)
        return len(frame), frame.to_csv(index=False, header=False, lineterminator="\n").encode()


@dataclass(frozen=True, slots=True)
class InParts(Form):
    """Part files in a folder that every process sees; of each, how many rows it has."""

    folder: str
    n_blocks: ClassVar[int] = 10

    @property
    def in_flight(self) -> int:
        """Nothing comes back but a number [1]."""
        return MOST_IN_FLIGHT

    def __call__(self, task: Sequence[Block], number: int) -> int:
        """Writes one."""
        import pyarrow.parquet as pq

        table = InTables(self.columns)(task, number)
        path = Path(self.folder, PART.format(number))
        pq.write_table(table, path, row_group_size=ROW_GROUP, **_settings(self.columns))
        return int(table.num_rows)


def _words(places: Any, column: Column) -> Any:
    import pyarrow as pa

    missing = places < 0
    indices = pa.array(places, mask=missing if missing.any() else None)
    return pa.DictionaryArray.from_arrays(indices, pa.array(column.words, pa.string()))


def _settings(columns: Columns) -> dict[str, Any]:
    """Words by dictionary; of numbers all first bytes together, then all second: neighbours begin alike, few occur twice."""
    return {
        "compression": "zstd", "compression_level": 1, "use_dictionary": [c.name for c in columns if c.kind == "word"],
        "column_encoding": {c.name: "BYTE_STREAM_SPLIT" for c in columns if c.kind == "number"},
    }  # fmt: skip


def _frame(arrays: Arrays, columns: Columns) -> Any:
    """A DataFrame of arrays, words as categoricals; nothing is copied."""
    import pandas as pd

    found: dict[str, Any] = dict(arrays)
    for c in columns:
        if c.kind == "word":
            found[c.name] = pd.Categorical.from_codes(arrays[c.name], categories=pd.Index(c.words))
    return pd.DataFrame(found, copy=False)


def in_memory(run: Run, columns: Columns, n_rows: int) -> Any:
    """All rows as a DataFrame."""
    whole = {c.name: np.empty(n_rows, c.dtype) for c in columns}
    start = 0
    with run(Form(columns)) as pieces:
        for arrays in pieces:
            stop = start + len(next(iter(arrays.values())))
            for name, values in arrays.items():
                whole[name][start:stop] = values
            start = stop
    return _frame(whole, columns)


# Files


@dataclass(frozen=True, slots=True)
class Target:
    """Where rows are written: a file of one kind, or a folder of part files."""

    path: Path
    kind: Literal["parquet", "csv", "parts"]


def target(out: Any) -> Target:
    """The target a path names: *.parquet and *.csv are files, a path that ends in / or has no suffix a folder."""
    if not isinstance(out, (str, os.PathLike)) or not os.fspath(out):
        raise SpecError(f'sweep(out): expected a path such as "sweep.parquet", got {shown(out)}')
    text, path = os.fspath(out), Path(out)
    if text.endswith(("/", os.sep)) or not path.suffix or is_folder(path):
        found = Target(_for_parts(path), "parts")
    else:
        path = target_of(path, (".parquet", ".csv"))
        found = Target(path, "csv" if path.suffix.lower() == ".csv" else "parquet")
    if found.kind != "csv" and find_spec("pyarrow") is None:
        raise SpecError(
            "sweep(out): Parquet is written by pyarrow; pip install 'llm-roofline[parquet]', or write a .csv"
        )
    return found


def _for_parts(path: Path) -> Path:
    """A folder that is not there, is empty, or holds nothing but what an earlier sweep wrote."""
    if path.exists() and not is_folder(path):
        raise SpecError(f"{path}: expected a folder for part files, found a file")
    if not is_folder(path.parent):
        raise SpecError(f"{path}: there is no folder {path.parent}; make it first")
    other = next((p.name for p in path.iterdir() if not p.match("part-*.parquet")), None) if is_folder(path) else None
    if other is not None:
        raise SpecError(f"{path}: the folder holds other things ({other}), which would go; name a new one")
    return path


@dataclass(frozen=True, slots=True)
class Written:
    """A sweep that was written out.

    Attributes
    ----------
    path : Path
        The file, or the folder of part files, which read in the order of their names are the rows in order.
    n_rows : int
        [1].
    columns : tuple of Column
    left_out : tuple of str
        Combinations that cannot be asked, and why.
    """

    path: Path
    n_rows: int
    columns: Columns
    left_out: tuple[str, ...]

    def to_frame(self) -> Any:
        """All of it, read back: what the same sweep gives without `out`."""
        import pandas as pd

        types: dict[str, Any] = {c.name: c.dtype for c in self.columns}
        types |= {c.name: pd.CategoricalDtype(list(c.words)) for c in self.columns if c.kind == "word"}
        if self.path.suffix.lower() != ".csv" or self.path.is_dir():
            return pd.read_parquet(self.path).astype(types)
        exactly = {c.name: str for c in self.columns if c.kind == "number"}  # read from a file, the last digit may go
        return pd.read_csv(self.path, dtype=types | exactly).astype(types)

    def __repr__(self) -> str:
        return f"Written({self.n_rows:,} rows × {len(self.columns)} columns, {self.path})"


def written(where: Target, run: Run, columns: Columns) -> int:
    """Write all rows; how many there are."""
    if where.kind == "parts":
        return _as_parts(where.path, run, columns)
    return (_as_csv if where.kind == "csv" else _as_parquet)(where.path, run, columns)


def _as_csv(path: Path, run: Run, columns: Columns) -> int:
    n_rows = 0
    with placed(path) as part, part.open("wb") as stream, run(InText(columns)) as pieces:
        stream.write((",".join(c.name for c in columns) + "\n").encode())
        for n, lines in pieces:
            stream.write(lines)
            n_rows += n
    return n_rows


def _as_parquet(path: Path, run: Run, columns: Columns) -> int:
    import pyarrow.parquet as pq

    n_rows, writer = 0, None
    with placed(path) as part, ExitStack() as opened, run(InTables(columns)) as pieces:
        for table in pieces:
            writer = writer or opened.enter_context(pq.ParquetWriter(part, table.schema, **_settings(columns)))
            writer.write_table(table, row_group_size=ROW_GROUP)
            n_rows += table.num_rows
    return n_rows


def _as_parts(path: Path, run: Run, columns: Columns) -> int:
    with placed(path) as folder:
        folder.mkdir()
        with run(InParts(columns, str(folder.absolute()))) as counts:
            return sum(counts)
