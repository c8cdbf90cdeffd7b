"""Which modules of a checkpoint the names, wildcards and regular expressions of a quantisation config pick.

A matrix of a record is one or more modules of the built model; `modules(role, layer=…)` names them as the families do,
without what stands before `layers.`. The patterns come from a file nobody vouches for: only what matches in bounded time
is read.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Sequence
from typing import Final

from roofline.errors import SpecError, Unsupported, shorten

__all__ = ["UNTOUCHED", "Patterns", "modules", "tower_modules"]

_IN_A_LAYER = {
    "q": "self_attn.q_proj self_attn.qkv_proj mixer.q_proj cross_attn.q_proj self_attention.query_key_value",
    "k": "self_attn.k_proj self_attn.qkv_proj mixer.k_proj cross_attn.k_proj self_attention.query_key_value",
    "v": "self_attn.v_proj self_attn.qkv_proj mixer.v_proj cross_attn.v_proj self_attention.query_key_value",
    "o": "self_attn.o_proj mixer.o_proj cross_attn.o_proj self_attn.out_proj self_attn.dense self_attention.dense",
    "q_a": "self_attn.q_a_proj",
    "q_b": "self_attn.q_b_proj",
    "kv_a": "self_attn.kv_a_proj_with_mqa",
    "k_b": "self_attn.kv_b_proj",
    "v_b": "self_attn.kv_b_proj",
    "kv": "self_attn.kv_proj",
    "o_a": "self_attn.o_a_proj",
    "o_b": "self_attn.o_b_proj",
    "index_q": "self_attn.indexer.wq_b self_attn.index_q_proj",
    "index_k": "self_attn.indexer.wk self_attn.index_k_proj",
    "index_weights": "self_attn.indexer.weights_proj",
    "gate": "mlp.gate_proj feed_forward.gate_proj mlp.gate_up_proj",
    "up": "mlp.up_proj feed_forward.up_proj mixer.up_proj mlp.gate_up_proj mlp.fc1 fc1 mlp.dense_h_to_4h",
    "down": "mlp.down_proj feed_forward.down_proj mixer.down_proj mlp.fc2 fc2 mlp.dense_4h_to_h",
    "expert_gate": "mlp.experts.0.gate_proj mlp.experts.gate_up_proj block_sparse_moe.experts.0.w1 "
    "feed_forward.experts.gate_up_proj feed_forward.experts.0.gate_proj ffn.experts.0.w1",
    "expert_up": "mlp.experts.0.up_proj mlp.experts.gate_up_proj block_sparse_moe.experts.0.w3 "
    "feed_forward.experts.gate_up_proj feed_forward.experts.0.up_proj mixer.experts.0.up_proj ffn.experts.0.w3",
    "expert_down": "mlp.experts.0.down_proj mlp.experts.down_proj block_sparse_moe.experts.0.w2 "
    "feed_forward.experts.down_proj feed_forward.experts.0.down_proj mixer.experts.0.down_proj ffn.experts.0.w2",
    "shared_gate": "mlp.shared_experts.gate_proj mlp.shared_expert.gate_proj feed_forward.shared_expert.gate_proj "
    "block_sparse_moe.shared_experts.gate_proj",
    "shared_up": "mlp.shared_experts.up_proj mlp.shared_expert.up_proj feed_forward.shared_expert.up_proj "
    "mixer.shared_experts.up_proj block_sparse_moe.shared_experts.up_proj",
    "shared_down": "mlp.shared_experts.down_proj mlp.shared_expert.down_proj feed_forward.shared_expert.down_proj "
    "mixer.shared_experts.down_proj block_sparse_moe.shared_experts.down_proj",
    "latent_down": "mixer.fc1_latent_proj",
    "latent_up": "mixer.fc2_latent_proj",
    "router": "mlp.gate mlp.router block_sparse_moe.gate feed_forward.router mixer.gate",
    "shared_scale": "mlp.shared_expert_gate",
    "in": "linear_attn.in_proj_qkvz linear_attn.in_proj_qkv mixer.in_proj mamba.in_proj",
    "ba": "linear_attn.in_proj_ba linear_attn.in_proj_b",
    "out": "linear_attn.out_proj mixer.out_proj mamba.out_proj",
    "conv": "linear_attn.conv1d mixer.conv1d mamba.conv1d",
    "x": "mamba.x_proj mixer.x_proj",
    "dt": "mamba.dt_proj mixer.dt_proj",
    "side_gate": "per_layer_input_gate",
    "side_up": "per_layer_projection",
}
_OF_FAMILY = {
    "gemma4": {  # experts and router stand beside the dense block, not in it
        "router": "router.proj",
        "shared_gate": "mlp.gate_proj",
        "shared_up": "mlp.up_proj",
        "shared_down": "mlp.down_proj",
        "expert_gate": "experts.gate_up_proj experts.0.gate_proj",
        "expert_up": "experts.gate_up_proj experts.0.up_proj",
        "expert_down": "experts.down_proj experts.0.down_proj",
    },
}
_OUTSIDE = {
    "embedding": ("embed_tokens",),
    "head": ("lm_head",),
    "side_embedding": ("embed_tokens_per_layer",),
    "side_project": ("per_layer_model_projection",),
}
_TOWERS = {
    "vision": (
        "visual.blocks.0.attn.qkv",
        "visual.blocks.0.mlp.down_proj",
        "vision_tower.encoder.layers.0.self_attn.q_proj",
        "vision_tower.vision_model.encoder.layers.0.self_attn.q_proj",
        "vision_model.transformer.layers.0.self_attn.q_proj",
    ),
    "audio": ("encoder.layers.0.self_attn.q_proj", "audio_tower.layers.0.self_attn.q_proj"),
    "text": ("encoder.layers.0.self_attn.q_proj", "encoder.block.0.layer.0.SelfAttention.q"),
}
_BEFORE = re.compile(r"^(?:(?:model|language_model|text_model|backbone|transformer|decoder)\.)+")
_SPELT = ("", "model.", "model.language_model.", "language_model.model.", "backbone.")

UNTOUCHED: Final = ""  # what a pattern assigns to modules that stay in 16 bit
_MOST_STEPS = 3_000_000


def modules(role: str, *, layer: int | None = None, family: str = "") -> tuple[str, ...]:
    """What the modules behind a role may be called; in a layer, after `layers.N.`, and as the family has it.

    >>> modules("kv_a", layer=3), modules("head")
    (('layers.3.self_attn.kv_a_proj_with_mqa',), ('lm_head',))
    """
    if layer is None:
        return _OUTSIDE.get(role, ())
    names = _OF_FAMILY.get(family, _IN_A_LAYER).get(role) or _IN_A_LAYER.get(role, "")
    return tuple(f"layers.{layer}.{name}" for name in names.split())


def tower_modules(kind: str) -> tuple[str, ...]:
    """What a linear layer of a tower may be called."""
    return _TOWERS[kind]


class Patterns:
    """Patterns and what each assigns: a number format, or UNTOUCHED.

    Plain names pick a module and all within it, by full path or by its last parts; `*` stands for anything; "re:" leads a
    regular expression, matched from the front. Plain names come before the others, and the longest of them first.
    """

    def __init__(self, entries: Iterable[tuple[str, str]] = (), *, where: str) -> None:
        self._where = where
        self._plain: dict[str, str] = {}
        self._ends: set[str] = set()  # last parts of plain names
        self._starts: dict[str, str] = {}
        self._general: list[tuple[re.Pattern[str], bool, int, str]] = []
        self._steps = 0
        for pattern, value in entries:
            self._add(pattern, value)
        self._lengths = sorted({len(start) for start in self._starts}, reverse=True)

    def __bool__(self) -> bool:
        return bool(self._plain or self._starts or self._general)

    def _add(self, pattern: str, value: str) -> None:
        if len(pattern) > 300:
            raise SpecError(f"{self._where}: a pattern of {len(pattern):,} characters is not read")
        if pattern.startswith("re:") or "\\" in pattern:
            self._general.append((*_searching(pattern.removeprefix("re:"), self._where), value))
        elif "*" not in pattern:
            plain = _BEFORE.sub("", pattern)
            self._plain.setdefault(plain, value)
            self._ends.add(plain.rpartition(".")[2])
        elif pattern.index("*") == len(pattern) - 1:
            self._starts.setdefault(_BEFORE.sub("", pattern)[:-1], value)
        else:
            wild = re.sub(r"(?:\\\*)+", ".*", re.escape(pattern))
            self._general.append((*_searching(wild + r"(?:\.|$)", self._where), value))

    def find(self, names: Sequence[str]) -> str | None:
        """What is assigned to the first of the names that a pattern picks; none where none does."""
        for name in names if self else ():
            found = self._plainly(name)
            if found is None:
                found = next((self._starts[name[:n]] for n in self._lengths if name[:n] in self._starts), None)
            if found is None:
                found = self._generally(name)
            if found is not None:
                return found
        return None

    def _plainly(self, name: str) -> str | None:
        parts = name.split(".")
        if self._ends.isdisjoint(parts):
            return None
        ends = [j for j, part in enumerate(parts, 1) if part in self._ends]
        runs = (".".join(parts[j - n : j]) for n in range(len(parts), 0, -1) for j in ends if n <= j)
        return next((self._plain[run] for run in runs if run in self._plain), None)

    def _generally(self, name: str) -> str | None:
        for pattern, anywhere, steps, value in self._general:
            self._steps += steps * len(_SPELT)
            if self._steps > _MOST_STEPS:
                raise Unsupported(f"{self._where}: too many patterns, or too intricate ones, to tell the modules apart")
            look = pattern.search if anywhere else pattern.match
            if any(look(before + name) for before in _SPELT):
                return value
        return None


def _searching(text: str, where: str) -> tuple[re.Pattern[str], bool, int]:
    """(compiled, whether to look anywhere, cost) of a regular expression without what could take unbounded time."""
    core = text.removeprefix("^")
    anywhere = core.startswith(".*")
    while core.startswith(".*"):
        core = core[2:].removeprefix("?")
    while core.endswith(".*") and not core.endswith("\\.*"):
        core = core[:-2]
    repeats = len(re.findall(r"(?<!\\)[*+{]", re.sub(r"(\\d|\[0-9\])[*+]", "0", core)))
    if re.search(r"\(\?(?!:)|\)[*+{]|\\[1-9]", core) or repeats > 2 + (not anywhere):
        raise Unsupported(
            f"{where}: the pattern {shorten(text)} is more than this version matches; write the names out"
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compiled = re.compile(core)
    except (re.error, OverflowError, RecursionError) as error:
        raise SpecError(f"{where}: {shorten(text)} is no regular expression ({error})") from None
    return compiled, anywhere, 30 ** max(0, repeats + anywhere - 1)
