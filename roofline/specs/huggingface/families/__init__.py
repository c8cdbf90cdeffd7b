"""The adapters, by `model_type`: each turns one config into the fields of a `Model`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from roofline.errors import SpecError
from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.families import (
    dense,
    encoders,
    gemma,
    gemma4,
    gpt,
    hybrid,
    latent,
    llama,
    moe,
    nas,
    recurrent,
    remote,
    seq2seq,
    vision_gemma,
    vision_llama,
    vision_llava,
    vision_qwen,
)

__all__ = ["FAMILIES", "model_type_of"]

Adapter = Callable[[Config], dict[str, Any]]

FAMILIES: Mapping[str, Adapter] = {
    **llama.FAMILIES,
    **gpt.FAMILIES,
    **dense.FAMILIES,
    **gemma.FAMILIES,
    **gemma4.FAMILIES,
    **nas.FAMILIES,
    **remote.FAMILIES,
    **moe.FAMILIES,
    **latent.FAMILIES,
    **hybrid.FAMILIES,
    **recurrent.FAMILIES,
    **seq2seq.FAMILIES,
    **encoders.FAMILIES,
    **vision_qwen.FAMILIES,
    **vision_gemma.FAMILIES,
    **vision_llama.FAMILIES,
    **vision_llava.FAMILIES,
}

_BY_ARCHITECTURE = {"RWForCausalLM": "falcon", "MPTForCausalLM": "mpt"}  # what a file without a model_type may name


def model_type_of(config: Config) -> str:
    """`model_type`; in files too old to have one, the family of `architectures`."""
    model_type = config.word("model_type", absent=None, null=None)
    if isinstance(model_type, str):
        return model_type
    config.assumed.clear()
    names = config.items("architectures", kind=str, absent=None, null=None) or []
    config.assumed.clear()
    for name in names:
        if name in _BY_ARCHITECTURE:
            return _BY_ARCHITECTURE[name]
    raise SpecError(f'{config.place("model_type")}: missing; it names the family, such as "llama"')
