"""Where specs are found: a path, then your own folders, then the shipped ones.

Your folders come first: the `search` argument, then the directories in `ROOFLINE_PATH` (separated as in PATH), each
holding `hardware/`, `models/` and `engines/`, or the YAML files themselves. The shipped folders stand at the top of a
checkout and inside an installed wheel alike; engines are data of the package itself. What is shipped is read once; a file
of yours is read whenever it is asked for.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from roofline.errors import SpecError, UnknownName, did_you_mean, shorten, shown
from roofline.specs.engine import Engine
from roofline.specs.hardware import Hardware
from roofline.specs.model import Model

__all__ = [
    "engine",
    "engine_ids",
    "hardware",
    "hardware_ids",
    "is_folder",
    "load_yaml",
    "model",
    "model_ids",
    "model_yaml",
    "shipped",
    "shipped_efficiencies",
    "spec_files",
    "yaml_text",
]

MAX_YAML_BYTES = 1_000_000
MAX_YAML_DEPTH = 30
MAX_YAML_VALUES = 50_000

_NOT_DECIMAL = re.compile(r"^[-+]?0[0-9xob_]|:", re.I)  # YAML 1.1 reads 010 as eight and 1:08 as sixty-eight

SHIPPED = ("hardware", "models", "engines")

PathLike = str | os.PathLike[str]
R = TypeVar("R", Hardware, Model)


def hardware(name: PathLike, *, search: Sequence[PathLike] = ()) -> Hardware:
    """The chip of a catalogue name, an alias or a path; `name:64GB` picks one of the memory sizes it is sold with.

    >>> hardware("h100").id
    'h100-sxm-80gb'
    >>> hardware("m5-max:64GB").memory_bytes == 64 * 2**30
    True
    """
    _require_name(name, "hardware")
    base, _, size = os.fspath(name).partition(":") if not _is_path(name) else (os.fspath(name), "", "")
    chip = _record(Hardware, *_found(base, "hardware", search))
    if size == "" and os.fspath(name).endswith(":") and not _is_path(name):
        raise UnknownName(f'hardware: expected a memory size after "{shorten(os.fspath(name))}", as in m5-max:64GB')
    return chip.with_memory(size) if size else chip


def model(name: PathLike, *, search: Sequence[PathLike] = ()) -> Model:
    """The model of a catalogue name, an alias or a path: YAML, a Hugging Face `config.json` or its folder, a `.gguf`.

    >>> model("llama-3.1-8b").n_params
    8030261248
    """
    _require_name(name, "model")
    path = Path(name)
    if path.suffix.lower() == ".gguf":
        from roofline.specs.gguf import read_gguf

        return read_gguf(path)
    if path.suffix.lower() == ".json" or (_is_path(name) and is_folder(path)):
        from roofline.specs.huggingface.reader import read_config

        return read_config(path)
    try:
        path, where = _found(os.fspath(name), "models", search)
    except UnknownName:
        if name and is_folder(path):  # no name of the catalogue, but a folder here
            return model(Path(os.curdir, path), search=search)
        raise
    return _record(Model, path, where)


def model_yaml(spec: Model) -> str:
    """The YAML of a model, as a file in `models/` holds it; read back, it is an equal record.

    >>> model_yaml(model("llama-3.1-8b")).splitlines()[:2]
    ['id: llama-3.1-8b', 'name: Llama 3.1 8B']
    """
    return yaml_text(spec.plain())


def yaml_text(data: dict[str, Any]) -> str:
    """Plain data as a YAML file of ours holds it, in its order."""
    import yaml

    return str(yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=110, default_flow_style=None))


def engine(name: PathLike, *, search: Sequence[PathLike] = ()) -> Engine:
    """The engine of a name, an alias or a path.

    >>> engine("tensorrt-llm").pages.tokens
    32
    """
    _require_name(name, "engine")
    path, where = _found(os.fspath(name), "engines", search)
    found = Engine.read(_completed(_data(path), search, where), where=where)
    for earlier in found.parameters_from:
        _an_engine(earlier, f"{where}: parameters_from", search)
    return found


def _an_engine(name: object, place: str, search: Sequence[PathLike]) -> str:
    """The name, if the catalogue has such an engine; a path is none."""
    known = engine_ids(search=search)
    if name not in known:
        near = did_you_mean(str(name)[:200], known)
        raise SpecError(f"{place}: expected an engine of the catalogue, got {shown(name)}{near}")
    return str(name)


def _completed(data: dict[str, Any], search: Sequence[PathLike], where: str) -> dict[str, Any]:
    """An engine that is `like` another one holds what that one does, but for what it says itself, key by key."""
    if "like" not in data:
        return data
    own = {key: value for key, value in data.items() if key != "like"}
    other = _data(_found(_an_engine(data["like"], f"{where}: like", search), "engines", search)[0])
    if "like" in other:
        raise SpecError(f"{where}: like: expected an engine that stands by itself, got {shown(data['like'])}")
    base = {key: value for key, value in other.items() if key not in ("aliases", "notes", "parameters_from")}
    nested = {k: {**base[k], **own[k]} for k in own if isinstance(own[k], dict) and isinstance(base.get(k), dict)}
    return base | own | nested


@lru_cache(maxsize=1)
def shipped_efficiencies() -> dict[str, Any]:
    """The efficiencies that come with the library, as `roofline calibrate --shipped` wrote them."""
    import json

    path = Path(__file__).resolve().parent.parent / "timing" / "efficiencies.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def engine_ids(*, search: Sequence[PathLike] = ()) -> tuple[str, ...]:
    """Every engine known, sorted.

    >>> engine_ids()
    ('exllamav2', 'gpt-fast', 'ideal', 'llama.cpp', 'llama.cpp-2024', 'mlc-llm', 'mlx', 'sglang', 'trtllm', 'trtllm-2024',
    'vllm', 'vllm-0.7', 'vllm-2023', 'vllm-ascend')
    """
    return tuple(sorted({p.stem for p in spec_files("engines", search=search)}))


def hardware_ids(*, search: Sequence[PathLike] = ()) -> tuple[str, ...]:
    """Every chip in the catalogue, sorted."""
    return tuple(sorted({p.stem for p in spec_files("hardware", search=search)}))


def model_ids(*, search: Sequence[PathLike] = ()) -> tuple[str, ...]:
    """Every model in the catalogue, sorted."""
    return tuple(sorted({p.stem for p in spec_files("models", search=search)}))


def spec_files(kind: str, *, search: Sequence[PathLike] = ()) -> Iterator[Path]:
    """The YAML files of "hardware", "models" or "engines", a user's folders first; a name seen earlier hides a later one."""
    seen: set[str] = set()
    for paths in (*map(_yaml_files, _own_folders(kind, search)), _shipped_files(kind)):
        for path in paths:
            if path.stem not in seen:
                seen.add(path.stem)
                yield path


def _yaml_files(folder: Path) -> tuple[Path, ...]:
    return tuple(sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")]))


@lru_cache(maxsize=4)
def _shipped_files(kind: str) -> tuple[Path, ...]:
    return _yaml_files(shipped(kind))


def _own_folders(kind: str, search: Sequence[PathLike]) -> Iterator[Path]:
    own = [os.fspath(s) for s in search] + [s for s in os.environ.get("ROOFLINE_PATH", "").split(os.pathsep) if s]
    for entry in own:
        if not is_folder(Path(entry)):
            raise SpecError(f"{entry}: expected a folder of specs (from search= or ROOFLINE_PATH), found none")
        yield Path(entry) / kind if (Path(entry) / kind).is_dir() else Path(entry)


@lru_cache(maxsize=4)
def shipped(kind: str) -> Path:
    """The folder of the specs that come with the library: beside the package in a checkout, inside it when installed."""
    package = Path(__file__).resolve().parent.parent
    # the package's own, the wheel's, the checkout's
    for candidate in (package / kind, package / "catalogue" / kind, package.parent / kind):
        if candidate.is_dir():
            return candidate
    raise SpecError(f"the shipped {kind} folder is missing from this installation; reinstall llm-roofline")


def _require_name(name: object, where: str) -> None:
    if not isinstance(name, (str, os.PathLike)):
        raise SpecError(f"{where}: expected a name or a path, got {name!r:.60}")


def _is_path(name: PathLike) -> bool:
    text = os.fspath(name)
    return not isinstance(name, str) or os.sep in text or text.endswith((".yaml", ".yml", ".json", ".gguf"))


def is_folder(path: Path) -> bool:
    """Whether a folder is there; a name too long, or one below a folder nobody may enter, is none, and reading says why."""
    try:
        return path.is_dir()
    except OSError:
        return False


def _found(name: str, kind: str, search: Sequence[PathLike]) -> tuple[Path, str]:
    """The file of a spec, and what errors call it."""
    if _is_path(name):
        if is_folder(Path(name)):
            raise SpecError(f"{name}: expected a YAML file, found a folder")
        return Path(name), name
    path = _by_name(name, kind, search)
    return path, f"{kind}/{path.name}"


def _is_shipped(path: Path) -> bool:
    return path.parent.name in SHIPPED and path.parent == shipped(path.parent.name)


def _data(path: Path) -> dict[str, Any]:
    return _shipped_data(path) if _is_shipped(path) else load_yaml(path)


@lru_cache(maxsize=1024)
def _shipped_data(path: Path) -> dict[str, Any]:
    return load_yaml(path)


def _record(kept: type[R], path: Path, where: str) -> R:
    return _shipped_record(kept, path, where) if _is_shipped(path) else kept.read(load_yaml(path), where=where)


@lru_cache(maxsize=1024)
def _shipped_record(kept: type[R], path: Path, where: str) -> R:
    return kept.read(load_yaml(path), where=where)


def _by_name(name: str, kind: str, search: Sequence[PathLike]) -> Path:
    wanted = name.strip().lower()
    files = {p.stem: p for p in spec_files(kind, search=search)}
    if wanted in files:
        return files[wanted]
    for path in files.values():
        if wanted in _raw(path) and wanted in _aliases(path):
            return path
    noun = "hardware" if kind == "hardware" else kind.removesuffix("s")
    known = [*files, *(a for p in files.values() for a in _aliases(p))]
    hint = did_you_mean(shorten(name), known)
    more = f"known: {', '.join(files)}" if kind == "engines" else f"roofline {kind} lists all"
    raise UnknownName(f'no {noun} named "{shorten(name)}"{hint}  ({more})')


@lru_cache(maxsize=4096)
def _raw(path: Path) -> str:
    """A file's text in lower case, to look for an alias before parsing it; empty where it cannot be read."""
    try:
        return (
            path.read_text(encoding="utf-8", errors="replace").lower()
            if path.is_file() and path.stat().st_size <= MAX_YAML_BYTES
            else ""
        )
    except (OSError, ValueError):
        return ""


@lru_cache(maxsize=4096)
def _aliases(path: Path) -> tuple[str, ...]:
    """The id and aliases a file gives; none where it is broken (asked for by the file's name, it says how)."""
    try:
        data = load_yaml(path)
    except SpecError:
        return ()
    given = data.get("aliases", ())
    return tuple(str(a).lower() for a in (data.get("id", path.stem), *(given if isinstance(given, tuple) else ())))


def load_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file: plain data only, of bounded size and depth, without tags, anchors or repeated keys."""
    import yaml

    try:
        if path.stat().st_size > MAX_YAML_BYTES:
            raise SpecError(f"{path}: larger than {MAX_YAML_BYTES:,} bytes; a spec is a page of text")
        if not path.is_file():  # a pipe or a device, which may never end
            raise SpecError(f"{path}: expected a file")
        with path.open(encoding="utf-8") as stream:
            text = stream.read(MAX_YAML_BYTES)
    except UnicodeDecodeError:
        raise SpecError(f"{path}: expected UTF-8 text") from None
    except (OSError, ValueError) as error:  # ValueError: a name with a null byte
        if isinstance(error, SpecError):
            raise
        raise SpecError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from None
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        _refuse_tricks(yaml.parse(text, Loader=loader), path)
        node = yaml.compose(text, Loader=loader)
        data = _plain(node, path, yaml.SafeLoader("")) if node is not None else None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
        raise SpecError(f"{place}: not valid YAML ({getattr(error, 'problem', None) or 'unreadable'})") from None
    if not isinstance(data, dict):
        raise SpecError(
            f"{path}: expected a mapping of keys to values, got {'nothing' if data is None else shown(data)}"
        )
    return data


def _refuse_tricks(events: Any, path: Path) -> None:
    import yaml

    depth = documents = values = 0
    for event in events:
        mark = _mark(path, event)
        values += not isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent))
        if values > MAX_YAML_VALUES:
            raise SpecError(f"{mark}: more than {MAX_YAML_VALUES:,} values; a spec is a page of text")
        if isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
            depth += 1
            if depth > MAX_YAML_DEPTH:
                raise SpecError(f"{mark}: nested deeper than {MAX_YAML_DEPTH} levels")
        elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            depth -= 1
        elif isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1:
                raise SpecError(f"{mark}: expected one YAML document, found a second")
        if getattr(event, "anchor", None) is not None:
            raise SpecError(f"{mark}: YAML anchors and references are not read; write the value out")
        if getattr(event, "tag", None) not in (None, "!"):
            raise SpecError(f"{mark}: YAML tags such as {event.tag} are not read; write plain values")


def _plain(node: Any, path: Path, scalar: Any, place: str = "") -> Any:
    """Dicts, tuples and scalars of a composed node; a key written twice is an error, not a silent override."""
    import yaml

    if isinstance(node, yaml.MappingNode):
        out: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise SpecError(f"{_mark(path, key_node)}: expected a plain key")
            key = str(key_node.value)
            if key in out:
                raise SpecError(f"{_mark(path, key_node)}: the key {shorten(key)} stands here a second time")
            out[key] = _plain(value_node, path, scalar, f"{place}{key}: ")
        return out
    if isinstance(node, yaml.SequenceNode):
        return tuple(_plain(item, path, scalar, place) for item in node.value)
    if node.tag.endswith((":int", ":float")) and _NOT_DECIMAL.search(node.value):
        raise SpecError(f"{_mark(path, node)}: {place}expected a number in decimal, got {shorten(node.value)}")
    try:
        return scalar.construct_object(node)
    except ValueError as error:  # a date such as 2026-13-40, an integer of thousands of digits
        raise SpecError(f"{_mark(path, node)}: {place}{error}") from None


def _mark(path: Path, node: Any) -> str:
    return f"{path}:{node.start_mark.line + 1}:{node.start_mark.column + 1}"
