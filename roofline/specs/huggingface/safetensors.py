"""What safetensors files beside a config hold, from their headers alone: elements and bytes by dtype.

A header is eight bytes of length and that much JSON; no tensor is read. The count is held against the record of the config:
where the two differ, one of them does not describe the checkpoint.

References: safetensors' README, "Format".
"""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from roofline.dtypes import stored_as
from roofline.errors import SpecError, shorten, shown
from roofline.specs.model import Model

__all__ = ["Stored", "mismatch", "stored_weights"]

MAX_HEADER_BYTES = 64_000_000  # of all files together; the largest mixtures' take 30 MB
MAX_SHARDS = 1000
INDEX = "model.safetensors.index.json"

_BITS = {
    "F64": 64, "I64": 64, "U64": 64, "C64": 64, "F32": 32, "I32": 32, "U32": 32, "F16": 16, "BF16": 16, "I16": 16, "U16": 16,
    "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "I8": 8, "U8": 8, "BOOL": 8,
    "F6_E2M3": 6, "F6_E3M2": 6, "F4": 4,
}  # fmt: skip
_DTYPES = {"F32": "fp32", "F16": "fp16", "BF16": "bf16"}
_PACKED = frozenset({"U8", "I32", "U32"})  # what several narrow elements are packed into
# Scales, zero points and orders of quantised weights; buffers: no parameters of the model.
_NO_PARAMETERS = (
    "weight_scale", "input_scale", "output_scale", "k_scale", "v_scale", "scale_inv", "scale_2", "scales", "biases",
    "qzeros", "g_idx", "zero_point", "weight_shape", "absmax", "quant_map", "SCB", "weight_format",
    "e_score_correction_bias", "inv_freq", "position_ids", "masked_bias", "tid2eid",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Stored:
    """What the files hold: bytes of all tensors, elements of the weights by dtype, and bytes of those packed by bits.

    `complete` is false where only an index was found: then nothing but `n_bytes` is known, and that by its word.
    """

    n_bytes: int
    elements: Mapping[str, int]
    packed_bytes: int = 0
    complete: bool = True

    @property
    def dtype(self) -> str | None:
        """The dtype most of the plain weights have, as a model names it; none where there are none."""
        plain = {_DTYPES[d]: n for d, n in self.elements.items() if d in _DTYPES}
        return max(plain, key=lambda d: plain[d]) if plain else None


def stored_weights(folder: Path) -> Stored | None:
    """What the safetensors files of a folder hold; none where there are none."""
    names, said = _shards(folder)
    files = [folder / name for name in names]
    there = [file for file in files if _holds_tensors(file)]
    if not there:
        return None if said is None else Stored(said, {}, complete=False)
    missing = [file.name for file in files if file not in there]
    if missing and said is not None:
        return Stored(said, {}, complete=False)
    n_header = sum(_sizes(file)[0] for file in there)
    if n_header > MAX_HEADER_BYTES:
        raise SpecError(f"{there[0]}: headers of {n_header:,} bytes; more than {MAX_HEADER_BYTES:,} are not read")
    elements: Counter[str] = Counter()
    n_bytes = packed = 0
    for file in there:
        for dtype, n, size, counts in _tensors(file):
            n_bytes += size
            if not counts:
                continue
            if dtype in _PACKED:
                packed += size
            else:
                elements[dtype] += n
    return Stored(n_bytes, dict(elements), packed)


def mismatch(stored: Stored, model: Model) -> str | None:
    """A line for `assumed` where files and record differ; none where they agree, with or without MTP and a tied head."""
    if not stored.complete:
        return None
    held = sum(stored.elements.values()) + round(8 * stored.packed_bytes / _code_bits(model))
    head = model.head_matrix.n_weights if model.head is not None and model.head.tied else 0
    allowed = {model.n_params + more for more in (0, head, model.n_mtp_params, head + model.n_mtp_params)}
    if held in allowed:
        return None
    return f"model.safetensors: holds {held:,} elements, the config describes {model.n_params:,}"


def _code_bits(model: Model) -> float:
    """Bits of an element without its scales, over all that is packed: what turns packed bytes into elements."""
    tables = [(1, model.embedding_matrix, model.formats)]
    if model.head is not None and not model.head.tied:
        tables.append((1, model.head_matrix, model.formats))
    inside = ((n, m, layer.formats) for n, layer in model.layer_kinds() for m in layer.matrices(model.d_model))
    codes = elements = 0
    for n, matrix, own in (*tables, *inside):
        form, bits = stored_as(matrix.role, own, model.formats, kept="bf16")
        if form.name.startswith(("fp", "bf", "w8a8", "mxfp8")):
            continue
        named = re.search(r"(\d)bit|int(\d)", form.name)
        codes += n * matrix.n_weights * (int(named[1] or named[2]) if named else math.floor(bits))
        elements += n * matrix.n_weights
    return codes / elements if elements else 8.0


def _shards(folder: Path) -> tuple[list[str], int | None]:
    """(the names of the files, the bytes the index says they hold): by the index, else all there are."""
    index = folder / INDEX
    if not index.is_file():
        names = sorted(file.name for file in folder.glob("*.safetensors"))
        names = ["model.safetensors"] if "model.safetensors" in names else names
        if len(names) > MAX_SHARDS:
            raise SpecError(f"{folder}: {len(names):,} safetensors files; more than {MAX_SHARDS:,} are not read")
        return names, None
    from roofline.specs.huggingface.reader import load_json

    data = load_json(index)
    weight_map, metadata = data.get("weight_map"), data.get("metadata", {})
    if not isinstance(weight_map, dict):
        raise SpecError(f"{index}: weight_map: expected a mapping, got {shown(weight_map)}")
    named = {str(name) for name in weight_map.values()}
    wrong = next((n for n in sorted(named) if Path(n).name != n or not n.endswith(".safetensors")), None)
    if wrong is not None:
        raise SpecError(f"{index}: weight_map: expected names of safetensors files here, got {shorten(wrong)}")
    if len(named) > MAX_SHARDS:
        raise SpecError(f"{index}: {len(named):,} files; more than {MAX_SHARDS:,} are not read")
    size = metadata.get("total_size") if isinstance(metadata, dict) else None
    whole = isinstance(size, (int, float)) and not isinstance(size, bool) and 0 <= size < 2**60
    return sorted(named), int(size) if whole and size is not None else None


def _holds_tensors(file: Path) -> bool:
    """Whether a file is there and is more than the pointer git-lfs leaves where it did not fetch."""
    try:
        if not file.is_file():
            return False
    except OSError as error:
        raise SpecError(f"{file}: cannot be read ({error.strerror or error})") from None
    with _opened(file) as stream:
        return stream.read(8) != b"version "


def _tensors(file: Path) -> Iterator[tuple[str, int, int, bool]]:
    """(dtype, elements, bytes, whether it is a parameter) of each tensor, once the header is known to be true."""
    header, n_data = _header(file)
    found, spans = [], []
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        dtype, n, begin, end = _entry(entry, f"{file}: {shorten(name)}")
        spans.append((begin, end))
        scale = name.endswith(_NO_PARAMETERS) or (name.endswith(".scale") and f"{name[:-6]}.weight" in header)
        found.append((dtype, n, end - begin, not scale))
    at = 0
    for begin, end in sorted(spans):
        if begin != at:
            raise SpecError(f"{file}: tensors overlap or leave a hole at {min(begin, at):,}")
        at = end
    if at != n_data:
        raise SpecError(f"{file}: cut short or padded: the tensors take {at:,} bytes, the file holds {n_data:,}")
    yield from found


def _entry(entry: Any, where: str) -> tuple[str, int, int, int]:
    if not isinstance(entry, dict):
        raise SpecError(f"{where}: expected a mapping, got {shown(entry)}")
    dtype = entry.get("dtype")
    shape: Any = entry.get("shape")
    span: Any = entry.get("data_offsets")
    if not isinstance(dtype, str) or dtype not in _BITS:
        raise SpecError(f"{where}: dtype: expected one of {', '.join(_BITS)}, got {shown(dtype)}")
    if not _wholes(shape, most=16) or not _wholes(span, most=2) or len(span) != 2:
        raise SpecError(f"{where}: expected a shape and two data_offsets, got {shown(shape)} and {shown(span)}")
    n = math.prod(shape)
    if 8 * (span[1] - span[0]) != n * _BITS[dtype]:
        raise SpecError(f"{where}: {n:,} elements of {dtype} do not take {span[1] - span[0]:,} bytes")
    return dtype, n, span[0], span[1]


def _wholes(value: Any, *, most: int) -> bool:
    return (
        isinstance(value, list)
        and len(value) <= most
        and all(isinstance(v, int) and not isinstance(v, bool) and 0 <= v < 2**50 for v in value)
    )


def _sizes(file: Path) -> tuple[int, int]:
    """Bytes of (the JSON, what comes after it)."""
    with _opened(file) as stream:
        size = os.fstat(stream.fileno()).st_size
        n = int.from_bytes(stream.read(8), "little")
    if size < 8 or n > size - 8:
        raise SpecError(f"{file}: cut short: a header of {n:,} bytes in a file of {size:,}")
    return n, size - 8 - n


def _header(file: Path) -> tuple[dict[str, Any], int]:
    """(the JSON, the bytes after it)."""
    from roofline.specs.huggingface.reader import parse_json

    n, n_data = _sizes(file)
    with _opened(file) as stream:
        stream.seek(8)
        data = stream.read(n)
    try:
        return parse_json(data.decode("utf-8"), where=str(file)), n_data
    except UnicodeDecodeError:
        raise SpecError(f"{file}: no safetensors header (expected UTF-8 text)") from None


@contextmanager
def _opened(file: Path) -> Iterator[BinaryIO]:
    """The file, open; that it cannot be read is an error that names it."""
    try:
        with file.open("rb") as stream:
            yield stream
    except OSError as error:
        raise SpecError(f"{file}: cannot be read ({error.strerror or error})") from None
