"""A `config.json` from disk to a `Model`: found, bounded, parsed, given to its family's adapter. Nothing in it is run."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

from roofline.errors import RooflineError, SpecError, Unsupported, did_you_mean, shorten, shown
from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.families import FAMILIES, model_type_of
from roofline.specs.huggingface.quantization import checkpoint_formats
from roofline.specs.huggingface.safetensors import Stored, mismatch, stored_weights
from roofline.specs.model import Model

__all__ = ["load_json", "parse_json", "read_config"]

MAX_JSON_BYTES = 40_000_000  # the index of a large mixture's files takes 20 MB
MAX_JSON_VALUES = 1_000_000

Shape: TypeAlias = dict[str, Any]


def read_config(path: Path) -> Model:
    """The model of a `config.json`, or of the folder that holds one.

    Beside a file of that name are read, where present, `hf_quant_config.json` and the headers of safetensors files.
    `auto_map` and any other name of code is ignored: no code of a checkpoint is ever imported or run.
    """
    try:
        file = path / "config.json" if path.is_dir() else path
    except OSError:  # a name too long, a folder nobody may enter: reading says why
        file = path
    beside = file.parent if file.name == "config.json" else None
    return model_of(load_json(file), file=file, beside=beside)


def model_of(data: dict[str, Any], *, file: Path, beside: Path | None = None) -> Model:
    """The model that the content of a config describes; `beside` is the folder of its checkpoint, if it has one."""
    assumed: list[str] = []
    config = Config(data, where=str(file), assumed=assumed)
    model_type = model_type_of(config)
    adapter: Callable[[Config], Shape] | None = FAMILIES.get(model_type)
    if adapter is None:
        near = did_you_mean(model_type, FAMILIES)
        raise Unsupported(
            f'{file}: model_type "{shorten(model_type)}" is not supported{near}; '
            "describe the model in a YAML file instead (as in models/*.yaml)"
        )
    _refuse_overrides(config, model_type)
    stored = stored_weights(beside) if beside is not None else None
    shape = _shape(adapter, config)
    identity = {
        "id": slug(_title(file)),
        "name": _title(file),
        "source": f"{shorten(file.name)}, model_type {model_type}",
    }
    formats = checkpoint_formats(config, shape, folder=beside)
    dtype = {"dtype": _dtype(config, stored)}
    assumed.extend(_image_rules(shape))
    fields = identity | dtype | shape | formats | {"assumed": tuple(assumed)}
    model = Model.read(fields, where=str(file))
    differs = None if stored is None else mismatch(stored, model)
    return model if differs is None else model.model_copy(update={"assumed": (*model.assumed, differs)})


def _shape(adapter: Callable[[Config], Shape], config: Config) -> Shape:
    """What the adapter makes of the config; an error of a record it built names the file too."""
    try:
        return adapter(config)
    except (SpecError, Unsupported) as error:
        if str(error).startswith(shorten(config.where, 5000)[:250]):
            raise
        raise type(error)(f"{config.where}: {error}") from None


def _image_rules(shape: Shape) -> Iterator[str]:
    """How an image becomes tokens is the image processor's, not the config's: its family's defaults are taken, and said."""
    for tower in shape.get("towers", ()):
        if tower.image is not None:
            sizes = ", ".join(f"{key} {value}" for key, value in tower.image.plain().items() if key != "kind")
            yield f"image processor: not in a config, {tower.image.kind} images assumed ({sizes})"


def _refuse_overrides(config: Config, model_type: str) -> None:
    """A config may change any key for single layers (`per_layer_config`); only the family that is released so reads it."""
    levels = [config.data, *(v for v in config.data.values() if isinstance(v, dict))]
    if not model_type.startswith("gemma4") and any(level.get("per_layer_config") for level in levels):
        raise Unsupported(
            f"{config.place('per_layer_config')}: not read for model_type {shorten(model_type)}; "
            "describe the layers in a YAML file instead (as in models/*.yaml)"
        )


def load_json(file: Path) -> dict[str, Any]:
    """The mapping in a JSON file of bounded size."""
    try:
        size = file.stat().st_size
        if not file.is_file():
            raise SpecError(f"{file}: expected a file")
        if size > MAX_JSON_BYTES:
            raise SpecError(f"{file}: {size:,} bytes; a config of more than {MAX_JSON_BYTES:,} is not read")
        with file.open("rb") as stream:
            text = stream.read(MAX_JSON_BYTES + 1).decode("utf-8")
    except UnicodeDecodeError:
        raise SpecError(f"{file}: expected UTF-8 text") from None
    except (OSError, ValueError) as error:  # ValueError: a name with a null byte
        if isinstance(error, RooflineError):
            raise
        raise SpecError(f"{file}: cannot be read ({getattr(error, 'strerror', None) or error})") from None
    return parse_json(text, where=str(file))


def parse_json(text: str, *, where: str) -> dict[str, Any]:
    """The mapping in a JSON text: of bounded depth, no key twice. Python's `Infinity` and `NaN` are read."""
    if sum(map(text.count, ",[{")) > MAX_JSON_VALUES:
        raise SpecError(f"{where}: more than {MAX_JSON_VALUES:,} values are not read")
    try:
        data = json.loads(text, object_pairs_hook=_no_key_twice)
    except RecursionError:
        raise SpecError(f"{where}: nested too deep") from None
    except json.JSONDecodeError as error:
        raise SpecError(f"{where}:{error.lineno}:{error.colno}: not valid JSON ({error.msg})") from None
    except ValueError as error:  # a key twice, a number of thousands of digits
        raise SpecError(f"{where}: {error}") from None
    if not isinstance(data, dict):
        raise SpecError(f"{where}: expected a mapping of keys to values, got {shown(data)}")
    return data


def _no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) < len(pairs):
        seen: set[str] = set()
        twice = next(k for k, _ in pairs if k in seen or seen.add(k))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {shorten(twice)} stands in one mapping a second time")
    return data


_DTYPES = {
    "float32": "fp32", "float": "fp32", "fp32": "fp32", "float16": "fp16", "half": "fp16", "fp16": "fp16",
    "bfloat16": "bf16", "bf16": "bf16",
}  # fmt: skip


def _dtype(config: Config, stored: Stored | None) -> str:
    """The dtype weights are stored in where nothing is quantised: `dtype` or `torch_dtype`, here or in a nested config;
    else what most of the stored weights have."""
    levels = [config.data, *(v for k, v in config.data.items() if k.endswith("text_config") and isinstance(v, dict))]
    for level in levels:
        for key in ("dtype", "torch_dtype"):
            value = level.get(key)
            if value is None or value == "auto":
                continue
            named = str(value).removeprefix("torch.").lower() if isinstance(value, str) else ""
            if named not in _DTYPES:
                raise config.wrong(key, f"one of {', '.join(sorted(set(_DTYPES)))}", value)
            return _DTYPES[named]
    if stored is not None and stored.dtype is not None:
        return stored.dtype
    config.assume("dtype", "bfloat16", "the usual one of released weights")
    return "bf16"


def _title(file: Path) -> str:
    """What the model is called: its folder for a `config.json`, else the file."""
    stem = file.resolve().parent.name if file.stem.lower() in ("config", "model", "params") else file.stem
    return shorten(stem, 80) or "model"


def slug(name: str) -> str:
    """An id from a name: lower case, what an id may hold, nothing else.

    >>> slug("Llama 3.1 8B (Instruct)")
    'llama-3.1-8b-instruct'
    """
    plain = re.sub(r"[^a-z0-9._-]+", "-", name.lower()).strip("-._")
    return plain[:80] or "model"
