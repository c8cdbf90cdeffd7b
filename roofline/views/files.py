"""What views write: whole or not at all, under a name that says what it is."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from roofline.errors import SpecError, did_you_mean
from roofline.specs.catalog import is_folder

__all__ = ["put", "target_of"]


def target_of(path: str | os.PathLike[str], suffixes: Sequence[str]) -> Path:
    """The file to write: its name ends as it should, and its folder is there."""
    target = Path(path)
    suffix = target.suffix.lower()
    if suffix not in suffixes:
        shown = f'"{target.suffix}"' if target.suffix else "no suffix"
        raise SpecError(
            f"{target}: expected a file ending in {', '.join(suffixes)}, got {shown}{did_you_mean(suffix, suffixes)}"
        )
    if not is_folder(target.parent):
        raise SpecError(f"{target}: there is no folder {target.parent}; make it first")
    if is_folder(target):
        raise SpecError(f"{target}: expected a file, found a folder")
    return target


def put(target: Path, data: bytes) -> None:
    """Write beside the target, then move into its place."""
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        part.write_bytes(data)
        part.replace(target)
    except OSError as error:
        raise SpecError(f"{target}: cannot be written ({error.strerror or error})") from None
    finally:
        with suppress(OSError):  # not there: moved, or never written
            part.unlink()
