"""Figures in words, as every command says them."""

from __future__ import annotations

from roofline.answers.memory import Memory
from roofline.specs.deployment import Deployment
from roofline.units import format_bytes
from roofline.views.words import between, percent, seconds, three, trust, ways

__all__ = ["between", "percent", "seconds", "three", "trust", "usable", "waiting", "ways"]


def usable(d: Deployment, m: Memory) -> str:
    """What an engine may use of the memory, in words; nothing of the machine itself, which takes all of it.

    >>> from roofline.answers.memory import memory
    >>> from roofline.specs.catalog import hardware, model
    >>> d = Deployment(model=model("llama-3.1-8b"), hardware=hardware("h100"), engine="vllm")
    >>> usable(d, memory(d, context_tokens=8192))
    'vLLM may use 72.9 GiB of 79.6 GiB'
    """
    if d.engine.id == "ideal" and d.engine.memory.fraction == 1.0:
        return ""
    return f"{d.engine.name} may use {format_bytes(m.usable_bytes_per_chip)} of {format_bytes(m.capacity_bytes)}"


def waiting(d: Deployment, batch: float) -> str:
    """A sentence for a batch larger than the engine runs at once; nothing otherwise."""
    tier = d.tier
    if tier is None:
        return ""
    most = tier.max_seqs * d.plan.dp
    if batch <= most:
        return ""
    wait = f"the other {batch - most:,.0f} wait, and these times are too short"
    return f"{d.engine.name} runs {most:,} requests at once (--max-seqs): {wait}"
