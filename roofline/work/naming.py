"""What the kinds of layers of one model are called, so that their rows can be told apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from roofline.specs.ffns import Moe
from roofline.specs.layers import Layer
from roofline.specs.mixers import Attention, Compressed

__all__ = ["nicknames"]


def nicknames(kinds: Sequence[Layer]) -> Iterator[str]:
    """A prefix for each kind of layer: none for a single one; by mixer, window or FFN where those differ; else by place.

    >>> from roofline.specs.catalog import model
    >>> list(nicknames([layer for _, layer in model("gemma-3-1b").layer_kinds()]))
    ['local.', 'global.']
    """
    words = _words(kinds)
    many = Counter(words)
    for index, word in enumerate(words):
        is_start_of_another = any(other != word and other.startswith(word) for other in many)  # mamba, mamba2
        number = f"-{index}" if is_start_of_another else str(index)
        yield "" if len(kinds) == 1 else f"{word}." if many[word] == 1 else f"{word}{number}."


def _words(kinds: Sequence[Layer]) -> list[str]:
    """One word a kind of layer, made of what tells it from the others."""
    mixers, ffns = [_mixer(layer) for layer in kinds], [_ffn(layer) for layer in kinds]
    told = [w for w in (mixers, ffns) if len(set(w)) > 1]
    return ["_".join(w for w in parts if w) or "layer" for parts in zip(*told, strict=True)] if told else mixers


def _mixer(layer: Layer) -> str:
    mixer = layer.mixer
    if mixer is None:
        return "cross" if layer.cross is not None else ""
    if isinstance(mixer, Compressed):
        return "windowed" if mixer.ratio is None else "coarse" if mixer.indexer is None else "fine"
    if not isinstance(mixer, Attention):
        return mixer.kind
    return "global" if mixer.window is None else "local"


def _ffn(layer: Layer) -> str:
    return "" if layer.ffn is None else "moe" if isinstance(layer.ffn, Moe) else layer.ffn.kind
