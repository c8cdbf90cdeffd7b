"""What views write: whole or not at all, under a name that says what it is."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from roofline.errors import SpecError, did_you_mean
from roofline.specs.catalog import is_folder

__all__ = ["placed", "put", "target_of"]


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


@contextmanager
def placed(target: Path) -> Iterator[Path]:
    """A path beside the target to write a file or a folder at; moved into its place when done, gone if anything fails."""
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        yield part
        if is_folder(part) and is_folder(target):
            _swapped(part, target)
        else:
            part.replace(target)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)  # some say in strerror where, and at length
        raise SpecError(f"{target}: cannot be written ({why})") from None
    finally:
        if is_folder(part):
            shutil.rmtree(part, ignore_errors=True)
        with suppress(OSError):  # not there: moved, or never written
            part.unlink()


def _swapped(part: Path, target: Path) -> None:
    """A folder in the place of another: no call of the system does both moves at once."""
    old = target.with_name(f".{target.name}.{os.getpid()}.old")
    target.replace(old)
    part.replace(target)
    shutil.rmtree(old, ignore_errors=True)


def put(target: Path, data: bytes) -> None:
    """Write beside the target, then move into its place."""
    with placed(target) as part:
        part.write_bytes(data)
