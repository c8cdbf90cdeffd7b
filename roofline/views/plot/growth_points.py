"""What a growth figure shows: what a sequence keeps of its context, model by model, against what chips hold."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from roofline.answers.caches import kv_bytes, max_context_tokens, state_bytes
from roofline.errors import SpecError, require, shown
from roofline.num import checked
from roofline.specs.hardware import Hardware
from roofline.specs.mixers import Attention, Compressed, Latent
from roofline.specs.model import Model
from roofline.specs.precision import Precision
from roofline.views.plot.latency_points import Floats
from roofline.work.footprint import resident_weight_bytes

__all__ = ["KINDS", "Growth", "GrowthLine", "growth", "kind_of"]

FIRST_CONTEXT = 128.0
N_POINTS = 121
MAX_LINES = 12
MAX_BATCHES = 5
KINDS = ("MHA", "GQA", "windows", "latent", "hybrid")


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowthLine:
    """One model and batch: bytes its sequences keep at each context, up to the longest it is made for.

    `outgrows` is the first context at which they are more than the weights; none where there is none, or several models
    [token].
    """

    model: Model
    kind: str
    batch: float
    contexts: Floats
    kept_bytes: Floats
    outgrows: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """The lines, the chips whose memory they are held against, and what all have in common.

    One model has its weights beside its cache [B]; of several, each with its own, there are none.
    """

    lines: tuple[GrowthLine, ...]
    chips: tuple[Hardware, ...]
    batches: tuple[float, ...]
    kv: str
    weights: str = ""
    weight_bytes: float | None = None

    def to_frame(self) -> Any:
        """A row a point, and one for each chip's memory."""
        import pandas as pd

        frames = [
            pd.DataFrame(
                {
                    "series": "kept",
                    "label": line.model.id,
                    "kind": line.kind,
                    "batch": line.batch,
                    "context_tokens": line.contexts,
                    "kept_bytes": line.kept_bytes,
                }
            )
            for line in self.lines
        ]
        held = [{"series": "memory", "label": c.id, "kind": "", "kept_bytes": c.memory_bytes} for c in self.chips]
        if self.weight_bytes is not None:
            held.append({"series": "weights", "label": self.weights, "kind": "", "kept_bytes": self.weight_bytes})
        return (
            pd.concat([*frames, pd.DataFrame(held)], ignore_index=True)
            if held
            else pd.concat(frames, ignore_index=True)
        )


def growth(models: Any, *, hardware: Any, batch: Any, kv: str, weights: str | None, memory_tokens: Any) -> Growth:
    """Cache and recurrent state of `batch` sequences of each model, from 128 tokens to the model's own limit."""
    given, chips = _several(models, Model), _several(hardware, Hardware)
    if not 1 <= len(given) <= MAX_LINES:
        raise SpecError(f"models: expected 1 to {MAX_LINES} models, got {len(given)}")
    batches = _batches(batch)
    if len(batches) > 1 and len(given) > 1:
        raise SpecError("batch: expected one number where there are several models; give one model, or one batch")
    if len(given) > 1 and weights is not None:
        raise SpecError("weights: expected one model, whose cache is held against them; leave it out for several")
    held, name = (None, "") if len(given) > 1 else _weights(given[0], weights)
    lines = tuple(
        _line(model, n_seq, kv, memory_tokens if model.remembers else None, held)
        for model in given
        for n_seq in batches
    )
    return Growth(lines=lines, chips=chips, batches=batches, kv=kv, weights=name, weight_bytes=held)


def _batches(given: Any) -> tuple[float, ...]:
    numbers = np.atleast_1d(np.asarray(checked(given, name="batch", low=1.0)))
    if numbers.ndim > 1 or not 1 <= numbers.size <= MAX_BATCHES:
        raise SpecError(f"batch: expected one number, or up to {MAX_BATCHES} for one model, got {shown(given)}")
    return tuple(float(n) for n in np.unique(numbers))


def _weights(model: Model, name: str | None) -> tuple[float, str]:
    """What a model's weights take in a format, the checkpoint's own where none is named  [B]."""
    numerics = Precision(weights=name).of(model)
    return float(resident_weight_bytes(model, numerics=numerics)), numerics.weights_name


def _several(given: Any, kind: type) -> tuple[Any, ...]:
    members = tuple(given) if isinstance(given, Iterable) and not isinstance(given, (kind, str)) else (given,)
    for member in members:
        require(member, kind, "plot.kv_growth")
    return members


def _line(model: Model, batch: float, kv: str, memory_tokens: Any, weight_bytes: float | None) -> GrowthLine:
    longest = max(float(model.max_context_tokens), 2 * FIRST_CONTEXT)
    contexts = np.unique(np.round(np.geomspace(FIRST_CONTEXT, longest, N_POINTS)))
    state = float(state_bytes(model, batch=batch))
    cache = kv_bytes(model, context_tokens=contexts, batch=batch, kv=kv, memory_tokens=memory_tokens)
    kept, outgrows = np.asarray(cache + state), None
    if weight_bytes is not None and kept[-1] > weight_bytes > kept[0]:
        room = weight_bytes - state
        outgrows = 1.0 + float(
            max_context_tokens(model, kv_bytes=room, batch=batch, kv=kv, memory_tokens=memory_tokens)
        )
    return GrowthLine(
        model=model, kind=kind_of(model), batch=batch, contexts=contexts, kept_bytes=kept,
        outgrows=outgrows,
    )  # fmt: skip


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
