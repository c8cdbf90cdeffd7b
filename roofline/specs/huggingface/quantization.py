"""How a checkpoint is quantised, from `quantization_config` or `hf_quant_config.json`: number formats by matrix role."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from roofline.dtypes import stored_as
from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.families.common import grouped
from roofline.specs.huggingface.modules import modules, tower_modules
from roofline.specs.huggingface.recipes import Recipe, cache_format, recipe_of
from roofline.specs.layers import Group, Layer
from roofline.specs.mixers import Compressed
from roofline.specs.model import Mtp
from roofline.specs.towers import Tower

__all__ = ["checkpoint_formats"]

_KEYS = ("quantization_config", "compression_config", "quantization")
_FILES = ("hf_quant_config.json", "quantize_config.json")  # what ModelOpt and AutoGPTQ wrote beside a config
_OUTSIDE = ("embedding", "head", "side_embedding", "side_project")


def checkpoint_formats(config: Config, shape: dict[str, Any], *, folder: Path | None) -> dict[str, Any]:
    """The `formats` of a model, and its layers, towers and MTP modules where theirs differ; nothing if nothing is quantised.

    `formats` maps roles to number formats, "*" to the recipe all linear layers are in, and "kv_cache" to the cache's. It is
    the decoder's: a tower is in 16 bit unless its own layers say otherwise.
    """
    beside = _beside(config, folder)
    found = _section(config) or beside
    if found is None or not found.data:
        return {}
    recipe = recipe_of(found, config)
    if recipe.kv is None and beside is not None:
        recipe = replace(recipe, kv=cache_format(beside))
    family = str(config.data.get("model_type")).removesuffix("_text")
    return _applied(recipe, shape, half=_half(config, shape), family=family)


def _section(config: Config) -> Config | None:
    """The quantisation config: in the config, or in its text section."""
    texts = [config.section(k) for k in config.data if k.endswith("text_config") and isinstance(config.data[k], dict)]
    for level in (config, *texts):
        for key in _KEYS:
            if level.given(key):
                return level.section(key)
    return None


def _beside(config: Config, folder: Path | None) -> Config | None:
    """The quantisation config in a file of its own."""
    from roofline.specs.huggingface.reader import load_json

    for name in _FILES if folder is not None else ():
        file = Path(folder or "", name)
        if file.is_file():
            return Config(load_json(file), where=str(file), assumed=config.assumed)
    return None


def _half(config: Config, shape: Mapping[str, Any]) -> str:
    """The 16-bit dtype of what is not quantised."""
    levels = [config.data, *(v for k, v in config.data.items() if k.endswith("text_config") and isinstance(v, dict))]
    said = [level.get(key) for level in levels for key in ("dtype", "torch_dtype")] + [shape.get("dtype")]
    return "fp16" if any(s in ("float16", "torch.float16", "fp16", "half") for s in said) else "bf16"


def _applied(recipe: Recipe, shape: dict[str, Any], *, half: str, family: str) -> dict[str, Any]:
    layers = [layer for group in shape["layers"] for _ in range(group.repeat) for layer in group.layers]
    wanted = [_of_layer(recipe, layer, i, shape["d_model"], family=family) for i, layer in enumerate(layers)]
    outside = {role: recipe.of(role, modules(role)) for role in _OUTSIDE}
    base = _base(recipe, wanted, outside, half)
    fields: dict[str, Any] = {}
    if recipe.kv is not None:
        base["kv_cache"] = recipe.kv
    if base:
        fields["formats"] = base
    changed = _overridden(layers, wanted, base, half)
    if changed is not None:
        fields["layers"] = grouped(changed)
    mtp = shape.get("mtp")
    if isinstance(mtp, Mtp):
        own = _of_layer(recipe, mtp.layer, len(layers), shape["d_model"], family=family, also="mtp.layers.0")
        fields["mtp"] = mtp.model_copy(update={"layer": _with(mtp.layer, _differing(own, base, half))})
    if recipe.towers and shape.get("towers"):
        fields["towers"] = tuple(_tower(recipe, tower) for tower in shape["towers"])
    return fields


def _of_layer(
    recipe: Recipe, layer: Layer, i: int, d_model: int, *, family: str, also: str = ""
) -> dict[str, str | None]:
    """The format of each role of a layer; none where it stays in 16 bit."""
    wanted = {}
    for role in {m.role: None for m in layer.matrices(d_model)}:
        names = modules(role, layer=i, family=family)
        if also:
            names += tuple(name.replace(f"layers.{i}", also, 1) for name in names)
        wanted[role] = recipe.of(role, names)
    if isinstance(layer.mixer, Compressed) and "index_k" in wanted:
        wanted["index_k"] = None  # a compressor's, which V4 holds in 16 bit with the others
    return wanted


def _base(
    recipe: Recipe, wanted: list[dict[str, str | None]], outside: dict[str, str | None], half: str
) -> dict[str, str]:
    """The model's formats: the recipe, then the roles that most layers have in another."""
    votes: dict[str, Counter[str | None]] = {}
    for of_layer in wanted:
        for role, name in of_layer.items():
            votes.setdefault(role, Counter())[name] += 1
    most = {role: votes[role].most_common(1)[0][0] for role in votes} | outside
    whole = recipe.format is not None and recipe.roles is None and recipe.only is None
    base = {"*": recipe.format} if whole and recipe.format is not None else {}
    return base | _differing(most, base, half)


def _differing(wanted: Mapping[str, str | None], base: Mapping[str, str], half: str) -> dict[str, str]:
    """The roles whose format is another than the model's formats give."""
    return {role: name or half for role, name in wanted.items() if (name or half) != _given(role, base, half)}


def _given(role: str, base: Mapping[str, str], half: str) -> str:
    return stored_as(role, base, kept=half)[0].name


def _overridden(
    layers: list[Layer], wanted: list[dict[str, str | None]], base: Mapping[str, str], half: str
) -> list[Layer] | None:
    """The layers with formats of their own; none where no layer has any."""
    known: dict[tuple[int, tuple[tuple[str, str], ...]], Layer] = {}
    changed = []
    for layer, own in zip(layers, wanted, strict=True):
        formats = _differing(own, base, half)
        key = (id(layer), tuple(formats.items()))
        changed.append(known.setdefault(key, _with(layer, formats)))
    return changed if any(layer.formats for layer in changed) else None


def _with(layer: Layer, formats: dict[str, str]) -> Layer:
    return layer.model_copy(update={"formats": formats}) if formats else layer


def _tower(recipe: Recipe, tower: Tower) -> Tower:
    """A tower whose linear layers the recipe reaches, unless it leaves that tower alone."""
    names = tower_modules(tower.kind)
    name = recipe.format if recipe.ignored.find(names) is None and recipe.rules.find(names) is None else None
    if name is None:
        return tower
    layers = tuple(
        Group(repeat=group.repeat, layers=tuple(_with(layer, {"*": name}) for layer in group.layers))
        for group in tower.layers
    )
    return tower.model_copy(update={"layers": layers})
