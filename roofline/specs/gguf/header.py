"""The header of a GGUF file: metadata and the list of tensors, from a file nobody vouches for.

Every length is held against the file before anything of that length is read; tokens and other long lists are passed over; no
tensor is loaded. Versions 2 and 3, little-endian. What types there are, and how many bytes their blocks take, the `gguf`
package says.

References: ggml's docs/gguf.md.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from roofline.errors import RooflineError, SpecError, Unsupported, shorten

__all__ = ["Header", "Tensor", "read_header"]

MAX_TENSORS = 100_000
MAX_KEYS = 10_000
MAX_STRINGS = 4_000_000  # of all lists: tokens and merges of the largest vocabularies are a quarter of it
MAX_ITEMS = 500_000  # of all short lists of numbers
MAX_TEXT = 16_000_000
MAX_SHARDS = 1000
_KEPT_ITEMS = 4096  # longer lists are vocabularies
_KEPT_TEXT = 4096
_SHARD = re.compile(r"(?P<stem>.+)-(?P<i>\d{5})-of-(?P<n>\d{5})")


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor's name, its dimensions (innermost first: d_in, d_out, experts), its ggml type and its bytes."""

    name: str
    dims: tuple[int, ...]
    kind: str
    n_bytes: int
    offset: int

    @property
    def n_elements(self) -> int:
        """Product of the dimensions."""
        return math.prod(self.dims)


@dataclass(frozen=True, slots=True)
class Header:
    """What a file, or all the files of a split model, say of it."""

    where: str
    version: int
    metadata: Mapping[str, Any]
    tensors: Mapping[str, Tensor]


@dataclass(frozen=True, slots=True)
class _Types:
    """The tables of the `gguf` package this reader goes by."""

    magic: bytes
    alignment: int
    scalars: Mapping[int, struct.Struct]
    string: int
    array: int
    blocks: Mapping[int, tuple[str, int, int]]  # id: name, elements of a block, its bytes


def read_header(path: Path) -> Header:
    """The header of a file; of all its shards where the name ends in -00001-of-0000N.gguf."""
    types = _types()
    match = _SHARD.fullmatch(path.stem)
    if match is None:
        return _read(path, types)
    n = int(match["n"])
    if not 1 <= n <= MAX_SHARDS or not 1 <= int(match["i"]) <= n:
        raise SpecError(f"{path}: expected a shard from 1 to {n} of at most {MAX_SHARDS}")
    shards = [_read(path.with_name(f"{match['stem']}-{i:05}-of-{n:05}{path.suffix}"), types) for i in range(1, n + 1)]
    return _joined(shards)


def _joined(shards: Sequence[Header]) -> Header:
    first = shards[0]
    tensors: dict[str, Tensor] = {}
    for shard in shards:
        twice = tensors.keys() & shard.tensors.keys()
        if twice:
            raise SpecError(f"{shard.where}: {shorten(min(twice))} stands in an earlier shard already")
        tensors |= shard.tensors
    for key, have in (("split.count", len(shards)), ("split.tensors.count", len(tensors))):
        if first.metadata.get(key, have) != have:
            raise SpecError(f"{first.where}: {key}: says {first.metadata[key]}, but there are {have}")
    return Header(first.where, first.version, first.metadata, tensors)


def _types() -> _Types:
    try:
        from gguf import GGML_QUANT_SIZES, GGUF_DEFAULT_ALIGNMENT, GGUF_MAGIC, GGUFValueType
    except ImportError:
        raise Unsupported("a GGUF file is read with the gguf package: pip install 'llm-roofline[gguf]'") from None
    codes = {
        "UINT8": "<B", "INT8": "<b", "UINT16": "<H", "INT16": "<h", "UINT32": "<I", "INT32": "<i", "FLOAT32": "<f",
        "BOOL": "<?", "UINT64": "<Q", "INT64": "<q", "FLOAT64": "<d",
    }  # fmt: skip
    return _Types(
        magic=GGUF_MAGIC.to_bytes(4, "little"),
        alignment=GGUF_DEFAULT_ALIGNMENT,
        scalars={int(GGUFValueType[name]): struct.Struct(code) for name, code in codes.items()},
        string=int(GGUFValueType.STRING),
        array=int(GGUFValueType.ARRAY),
        blocks={int(kind): (kind.name.lower(), *sizes) for kind, sizes in GGML_QUANT_SIZES.items()},
    )


def _read(path: Path, types: _Types) -> Header:
    try:
        if not path.is_file():
            raise SpecError(
                f"{path}: expected a file" + (", a shard of the model" if _SHARD.fullmatch(path.stem) else "")
            )
        size = path.stat().st_size
        with path.open("rb") as file:
            return _Reader(file, size, str(path), types).header()
    except (OSError, ValueError) as error:  # ValueError: a name with a null byte
        if isinstance(error, RooflineError):
            raise
        raise SpecError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from None


class _Reader:
    """Reads forward through a header, never past the end of the file."""

    def __init__(self, file: BinaryIO, size: int, where: str, types: _Types) -> None:
        self._file = file
        self._left = size
        self._size = size
        self._where = where
        self._types = types
        self._n_strings = 0
        self._n_kept = 0

    def header(self) -> Header:
        """Magic, version, counts, metadata, tensors."""
        if self._take(4) != self._types.magic:
            raise SpecError(f"{self._where}: not a GGUF file (it does not begin with GGUF)")
        version = self._whole(4)
        if version & 0xFFFF == 0:
            raise SpecError(f"{self._where}: big-endian, or no GGUF file; only little-endian ones are read")
        if version not in (2, 3):
            raise SpecError(f"{self._where}: GGUF version {version}; 2 and 3 are read")
        n_tensors, n_keys = self._whole(8), self._whole(8)
        for n, most, noun in ((n_tensors, MAX_TENSORS, "tensors"), (n_keys, MAX_KEYS, "keys")):
            if n > most:
                raise SpecError(f"{self._where}: says it has {n:,} {noun}; more than {most:,} are not read")
        metadata = self._metadata(n_keys)
        tensors = {}
        for tensor in self._tensors(n_tensors):
            if tensor.name in tensors:
                raise SpecError(f"{self._where}: the tensor {shorten(tensor.name)} is listed a second time")
            tensors[tensor.name] = tensor
        self._check_data(tensors.values(), metadata)
        return Header(self._where, version, metadata, tensors)

    def _metadata(self, n: int) -> dict[str, Any]:
        metadata: dict[str, Any] = {}
        for _ in range(n):
            key = self._text(longest=65_535)
            if key in metadata:
                raise SpecError(f"{self._where}: the key {shorten(key)} stands here a second time")
            metadata[key] = self._value(self._whole(4), key)
        return metadata

    def _value(self, kind: int, key: str) -> Any:
        if kind in self._types.scalars:
            return self._scalar(kind)
        if kind == self._types.string:
            return self._text(longest=MAX_TEXT)
        if kind == self._types.array:
            return self._list(key)
        raise SpecError(f"{self._where}: {shorten(key)}: a value of type {kind}, which GGUF does not have")

    def _list(self, key: str) -> list[Any] | str:
        """The items of a short list of numbers; of others, how many there are, in words."""
        kind, n = self._whole(4), self._whole(8)
        if kind == self._types.string:
            self._n_strings += n
            if self._n_strings > MAX_STRINGS or 8 * n > self._left:
                raise SpecError(
                    f"{self._where}: {shorten(key)}: says it lists {n:,} texts; too many, or the file is cut"
                )
            for _ in range(n):
                self._skip(self._whole(8))
            return f"a list of {n} texts"
        if kind not in self._types.scalars:
            raise SpecError(f"{self._where}: {shorten(key)}: a list of type {kind}, which is not read")
        self._n_kept += n if n <= _KEPT_ITEMS else 0
        if n <= _KEPT_ITEMS and self._n_kept <= MAX_ITEMS:
            return [self._scalar(kind) for _ in range(n)]
        self._skip(n * self._types.scalars[kind].size)
        return f"a list of {n} numbers"

    def _tensors(self, n: int) -> Iterator[Tensor]:
        for _ in range(n):
            name, n_dims = self._text(longest=1024), self._whole(4)
            if not 1 <= n_dims <= 4:
                raise SpecError(f"{self._where}: {shorten(name)}: {n_dims} dimensions; expected 1 to 4")
            dims = tuple(self._whole(8) for _ in range(n_dims))
            kind, offset = self._whole(4), self._whole(8)
            if not all(1 <= d <= 2**40 for d in dims) or math.prod(dims) > 2**50:
                raise SpecError(f"{self._where}: {shorten(name)}: dimensions of {' × '.join(map(str, dims))}")
            if kind not in self._types.blocks:
                raise Unsupported(f"{self._where}: {shorten(name)}: tensor type {kind}, which the gguf package lacks")
            type_name, n_in_block, block_bytes = self._types.blocks[kind]
            if dims[0] % n_in_block:
                raise SpecError(
                    f"{self._where}: {shorten(name)}: rows of {dims[0]} in {type_name} blocks of {n_in_block}"
                )
            yield Tensor(name, dims, type_name, math.prod(dims) // n_in_block * block_bytes, offset)

    def _check_data(self, tensors: Any, metadata: Mapping[str, Any]) -> None:
        """Tensors lie in the file, at aligned places, each in its own."""
        align = metadata.get("general.alignment", self._types.alignment)
        if isinstance(align, bool) or not isinstance(align, int) or not 1 <= align <= 65_536 or align & (align - 1):
            raise SpecError(
                f"{self._where}: general.alignment: expected a power of two up to 65,536, got {align!r:.40}"
            )
        start = self._size - self._left
        start += -start % align
        end = 0
        for tensor in sorted(tensors, key=lambda t: t.offset):
            if tensor.offset % align or tensor.offset < end:
                raise SpecError(
                    f"{self._where}: {shorten(tensor.name)}: lies at {tensor.offset:,}, over another or askew"
                )
            end = tensor.offset + tensor.n_bytes
        if end and start + end > self._size:
            raise SpecError(
                f"{self._where}: cut short: the tensors need {start + end:,} bytes, the file has {self._size:,}"
            )

    def _text(self, *, longest: int) -> str:
        n = self._whole(8)
        if n > longest:
            raise SpecError(f"{self._where}: a text of {n:,} bytes; more than {longest:,} are not read")
        try:
            return self._take(n).decode("utf-8")[:_KEPT_TEXT]
        except UnicodeDecodeError:
            raise SpecError(f"{self._where}: a text that is not UTF-8") from None

    def _scalar(self, kind: int) -> Any:
        code = self._types.scalars[kind]
        return code.unpack(self._take(code.size))[0]

    def _whole(self, n_bytes: int) -> int:
        return int.from_bytes(self._take(n_bytes), "little")

    def _take(self, n: int) -> bytes:
        if n <= self._left:
            data = self._file.read(n)
            self._left -= n
            if len(data) == n:
                return data
        raise SpecError(f"{self._where}: cut short in the header: a value is longer than what is left of the file")

    def _skip(self, n: int) -> None:
        if n <= 65_536:  # within what is buffered: reading is faster than seeking
            self._take(n)
            return
        if n > self._left:
            self._take(n)
        self._left -= n
        self._file.seek(self._size - self._left)
