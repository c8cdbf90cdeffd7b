"""What a growth figure shows: what a sequence keeps of its context, model by model, against what chips hold."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from roofline.answers.caches import kv_bytes, state_bytes
from roofline.errors import SpecError, require
from roofline.num import checked
from roofline.specs.hardware import Hardware
from roofline.specs.mixers import Attention, Compressed, Latent
from roofline.specs.model import Model
from roofline.views.plot.latency_points import Floats

__all__ = ["KINDS", "Growth", "GrowthLine", "growth", "kind_of"]

FIRST_CONTEXT = 128.0
N_POINTS = 121
MAX_LINES = 12
KINDS = ("MHA", "GQA", "windows", "latent", "hybrid")


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowthLine:
    """One model: bytes its sequences keep at each context, up to the longest it is made for."""

    model: Model
    kind: str
    contexts: Floats
    kept_bytes: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """The lines, the chips whose memory they are held against, and what all have in common."""

    lines: tuple[GrowthLine, ...]
    chips: tuple[Hardware, ...]
    batch: float
    kv: str

    def to_frame(self) -> Any:
        """A row a point, and one for each chip's memory."""
        import pandas as pd

        frames = [
            pd.DataFrame(
                {
                    "series": "kept",
                    "label": line.model.id,
                    "kind": line.kind,
                    "context_tokens": line.contexts,
                    "kept_bytes": line.kept_bytes,
                }
            )
            for line in self.lines
        ]
        held = [{"series": "memory", "label": c.id, "kind": "", "kept_bytes": c.memory_bytes} for c in self.chips]
        return (
            pd.concat([*frames, pd.DataFrame(held)], ignore_index=True)
            if held
            else pd.concat(frames, ignore_index=True)
        )


def growth(models: Any, *, hardware: Any, batch: Any, kv: str, memory_tokens: Any) -> Growth:
    """Cache and recurrent state of `batch` sequences of each model, from 128 tokens to the model's own limit."""
    given, chips = _several(models, Model), _several(hardware, Hardware)
    if not 1 <= len(given) <= MAX_LINES:
        raise SpecError(f"models: expected 1 to {MAX_LINES} models, got {len(given)}")
    n_seq = checked(batch, name="batch", low=1.0)
    if not isinstance(n_seq, float):
        raise SpecError("batch: expected one number, got an array")
    lines = tuple(_line(model, n_seq, kv, memory_tokens if model.remembers else None) for model in given)
    return Growth(lines=lines, chips=chips, batch=n_seq, kv=kv)


def _several(given: Any, kind: type) -> tuple[Any, ...]:
    members = tuple(given) if isinstance(given, Iterable) and not isinstance(given, (kind, str)) else (given,)
    for member in members:
        require(member, kind, "plot.kv_growth")
    return members


def _line(model: Model, batch: float, kv: str, memory_tokens: Any) -> GrowthLine:
    longest = max(float(model.max_context_tokens), 2 * FIRST_CONTEXT)
    contexts = np.unique(np.round(np.geomspace(FIRST_CONTEXT, longest, N_POINTS)))
    cache = kv_bytes(model, context_tokens=contexts, batch=batch, kv=kv, memory_tokens=memory_tokens)
    return GrowthLine(
        model=model,
        kind=kind_of(model),
        contexts=contexts,
        kept_bytes=np.asarray(cache + state_bytes(model, batch=batch)),
    )


def kind_of(model: Model) -> str:
    """What thins a model's cache: recurrent layers, latents, windows, groups of queries, or nothing."""
    mixers = [mixer for _, layer in model.layer_kinds() for mixer in layer.mixers]
    if any(hasattr(mixer, "state_elements") for mixer in mixers):
        return "hybrid"
    if any(isinstance(mixer, (Latent, Compressed)) for mixer in mixers):
        return "latent"
    if model.windows:
        return "windows"
    grouped = any(isinstance(mixer, Attention) and mixer.n_kv_heads < mixer.n_heads for mixer in mixers)
    return "GQA" if grouped else "MHA"
