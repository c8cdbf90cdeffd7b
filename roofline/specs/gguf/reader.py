"""A GGUF file to a `Model`: the architecture by name, the blocks by their tensors, formats by the tensors' own types."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from roofline.errors import SpecError, Unsupported, did_you_mean, shorten
from roofline.specs.gguf.bag import Bag, format_of
from roofline.specs.gguf.blocks import Architecture, layer_of
from roofline.specs.gguf.header import Header, Tensor, read_header
from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.families.common import grouped
from roofline.specs.huggingface.reader import slug
from roofline.specs.layers import Layer, Norm
from roofline.specs.model import Model

__all__ = ["ARCHITECTURES", "read_gguf"]

_PLAIN = Architecture()
ARCHITECTURES: Mapping[str, Architecture] = {
    **dict.fromkeys(
        (
            "llama", "mistral3", "qwen2", "qwen3", "qwen2moe", "qwen3moe", "qwen3next", "qwen35", "qwen35moe", "gemma",
            "phi3", "deepseek", "deepseek2", "starcoder2", "stablelm", "chatglm", "glm4", "glm4moe", "olmoe", "granite",
            "granitemoe", "internlm2", "minimax-m2", "seed_oss",
        ),
        _PLAIN,
    ),
    "gemma2": Architecture(full_every=2),
    "gpt-oss": Architecture(full_every=2),
    "gemma3": Architecture(full_every=6),
    "olmo2": Architecture(full_every=4),
    "cohere2": Architecture(full_every=4, parallel=True),
    "command-r": Architecture(parallel=True),
    "falcon": Architecture(parallel=True),
    "phi2": Architecture(parallel=True),
    "nemotron_h": Architecture(positions="none"),
    "nemotron_h_moe": Architecture(positions="none"),
}  # fmt: skip


def read_gguf(path: Path) -> Model:
    """The model in a GGUF file, with each matrix in the format it has there; of a split one, any of its files will do.

    Its n_params are the parameters in the file; tables of frequencies and load-balancing buffers are none.
    """
    header = read_header(path)
    name = header.metadata.get("general.architecture")
    arch = ARCHITECTURES.get(name) if isinstance(name, str) else None
    if arch is None or not isinstance(name, str):
        near = did_you_mean(str(name), ARCHITECTURES)
        raise Unsupported(
            f'{path}: architecture "{shorten(str(name))}" is not read{near}; '
            "describe the model in a YAML file instead (as in models/*.yaml)"
        )
    keys = {k.removeprefix(f"{name}."): v for k, v in header.metadata.items() if k.startswith(f"{name}.")}
    assumed: list[str] = []
    c = Config(keys, where=str(path), assumed=assumed)
    fields = _fields(header, c, arch)
    title = header.metadata.get("general.name")
    stem = path.stem.partition("-00001-of-")[0]
    fields |= {
        "id": slug(stem),
        "name": shorten(title if isinstance(title, str) and title.strip() else stem, 80) or "model",
        "source": f"{path.name}, GGUF version {header.version}, architecture {name}",
        "assumed": tuple(assumed),
    }
    return Model.read(fields, where=str(path))


def _fields(header: Header, c: Config, arch: Architecture) -> dict[str, Any]:
    blocks, top_tensors = _by_block(header, c)
    top = Bag(top_tensors, where=f"{header.where}: ")
    d_model = c.whole("embedding_length")
    table = top.matrix("token_embd.weight", "embedding", d_in=d_model)
    tied = not top.has("output.weight")
    if tied:
        top.roles["head"] = [table]
    else:
        top.matrix("output.weight", "head", d_in=d_model)
    head_bias = top.bias("output.bias")
    norm = _norm(top, c, blocks)
    final_norm = top.has("output_norm.weight")
    if final_norm:
        top.vector("output_norm.weight")
        if norm.bias:
            top.vector("output_norm.bias")
    top.close()
    bags = [Bag(tensors, where=f"{header.where}: blk.{i}.") for i, tensors in enumerate(blocks)]
    layers = [layer_of(bag, c, arch, i=i, d_model=d_model, norm=norm) for i, bag in enumerate(bags)]
    _note_others((top, *bags), c)
    formats = {"vectors": _vectors([t for bag in (top, *bags) for t in bag.vectors])} | top.formats()
    formats |= _usual(layers)
    return {
        "dtype": _dtype([t for bag in (top, *bags) for ts in bag.roles.values() for t in ts]),
        "d_model": d_model,
        "vocab_size": table.dims[1],
        "max_context_tokens": c.whole("context_length", most=2**40),
        "norm": norm,
        "final_norm": final_norm,
        "positions": {"kind": arch.positions},
        "head": {"tied": tied, "bias": head_bias},
        "layers": grouped(_without_the_usual(layers, formats)),
        "formats": formats,
    }


def _by_block(header: Header, c: Config) -> tuple[list[dict[str, Tensor]], dict[str, Tensor]]:
    """(tensors of each block without "blk.N.", the others); blocks that guess further tokens are left out, on record."""
    n_blocks = c.n_layers("block_count")
    n_more = int(c.whole("nextn_predict_layers", least=0, most=n_blocks - 1)) if c.given("nextn_predict_layers") else 0
    blocks: list[dict[str, Tensor]] = [{} for _ in range(n_blocks)]
    top: dict[str, Tensor] = {}
    for name, tensor in header.tensors.items():
        lead, _, rest = name.partition(".")
        index, _, inner = rest.partition(".")
        if lead != "blk":
            top[name] = tensor
        elif index.isdecimal() and len(index) < 6 and int(index) < n_blocks:
            blocks[int(index)][inner] = tensor
        else:
            raise SpecError(f"{header.where}: {shorten(name)}: no block of {n_blocks}, as block_count says")
    spare = [t for block in blocks[n_blocks - n_more :] for t in block.values()] if n_more else []
    if spare:
        c.assumed.append(
            f"nextn_predict_layers: {n_more} blocks of multi-token prediction, {sum(t.n_elements for t in spare):,} "
            "elements, are left out"
        )
    return blocks[: n_blocks - n_more], top


def _norm(top: Bag, c: Config, blocks: list[dict[str, Tensor]]) -> Norm:
    bias = top.has("output_norm.bias") or any("attn_norm.bias" in block for block in blocks)
    rms = c.given("attention.layer_norm_rms_epsilon") and not bias
    return Norm(kind="rms" if rms else "layer", bias=bias)


def _note_others(bags: tuple[Bag, ...], c: Config) -> None:
    beside = [t for bag in bags for t in bag.beside]
    if beside:
        c.assumed.append(
            f"{beside[0].name} and its like: {sum(t.n_elements for t in beside):,} elements "
            f"({sum(t.n_bytes for t in beside):,} bytes) that are no parameters, not counted"
        )


def _vectors(vectors: list[Tensor]) -> str:
    """The format of norms and biases: fp32 in most files."""
    return format_of(vectors) if vectors else "fp32"


def _dtype(matrices: list[Tensor]) -> str:
    """The dtype products run in: bf16 where the file holds any, fp32 where it holds nothing else, else fp16 as ggml does."""
    kinds = {t.kind for t in matrices}
    return "bf16" if "bf16" in kinds else "fp32" if kinds == {"f32"} else "fp16"


def _usual(layers: list[Layer]) -> dict[str, str]:
    """The format most layers have a role in."""
    votes: dict[str, Counter[str]] = {}
    for layer in layers:
        for role, name in layer.formats.items():
            votes.setdefault(role, Counter())[name] += 1
    return {role: counts.most_common(1)[0][0] for role, counts in votes.items()}


def _without_the_usual(layers: list[Layer], formats: Mapping[str, str]) -> list[Layer]:
    """Layers with only such formats as differ from the model's."""
    return [
        layer.model_copy(update={"formats": {r: f for r, f in layer.formats.items() if formats[r] != f}})
        for layer in layers
    ]
