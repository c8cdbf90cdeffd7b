"""What a memory figure shows, as numbers: what the fullest chip of each deployment holds, piece by piece."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from roofline.answers.memory import Memory
from roofline.specs.deployment import Deployment
from roofline.views.plot.request import Request

__all__ = ["PIECES", "Stack", "stack_of"]

PIECES = ("weights", "draft", "kv", "activations", "runtime")
"""In the order they are stacked: weights; a drafting model or adapters; the cache, with any recurrent state, in whole pages;
live activations; the engine's context and captured graphs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """One bar: bytes of each piece on the fullest chip, what the engine may use of it, and all it has  [B]."""

    deployment: Deployment
    request: Request
    pieces: Mapping[str, float]
    has_state: bool
    usable_bytes: float
    capacity_bytes: float
    short_by_bytes: float
    context: float

    @property
    def held_bytes(self) -> float:
        """All pieces together."""
        return sum(self.pieces.values())

    @property
    def free_bytes(self) -> float:
        """What the engine may still use; none where it is over."""
        return max(self.usable_bytes - self.held_bytes, 0.0)

    @property
    def over_bytes(self) -> float:
        """What is past what the engine may use."""
        return max(self.held_bytes - self.usable_bytes, 0.0)

    @property
    def fits(self) -> bool:
        """Whether every chip has room."""
        return self.short_by_bytes <= 0.0

    def rows(self, name: str) -> list[dict[str, Any]]:
        """A row a piece, then what is free, under the name of the bar."""
        who = {"label": name, "model": self.deployment.model.id, "hardware": self.deployment.hardware.id}
        limits = {"usable_bytes": self.usable_bytes, "capacity_bytes": self.capacity_bytes, "fits": self.fits}
        sizes = [*self.pieces.items(), ("free", self.free_bytes)]
        return [who | {"piece": piece, "bytes": n_bytes} | limits for piece, n_bytes in sizes]


def stack_of(deployment: Deployment, request: Request, context: float) -> Stack:
    """What `batch` sequences of a context take."""
    m = request.held(deployment, context_tokens=context, batch=request.batch)
    return Stack(
        deployment=deployment,
        request=request,
        pieces={piece: size for piece, size in _pieces(m).items() if size > 0.0},
        has_state=float(m.state_bytes_per_chip) > 0.0,
        usable_bytes=float(m.usable_bytes_per_chip),
        capacity_bytes=m.capacity_bytes,
        short_by_bytes=float(m.short_by_bytes),
        context=context,
    )


def _pieces(m: Memory) -> dict[str, float]:
    """The allocated bytes of a chip; a drafting model with its own cache is one piece."""
    beside = float(m.other_bytes_per_chip)
    cache = float(m.allocated_kv_bytes_per_chip) - (beside - m.other_weight_bytes_per_chip)
    return {
        "weights": m.weight_bytes_per_chip, "draft": beside, "kv": cache, "activations": m.activation_bytes_per_chip,
        "runtime": m.runtime_bytes_per_chip,
    }  # fmt: skip
