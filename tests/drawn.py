"""What tests of pictures ask of: a deployment by names, and what stands on an Axes."""

from __future__ import annotations

from typing import Any

import roofline as rl

__all__ = ["line_of", "of", "title_of"]


def of(model: str = "llama-3.1-8b", chip: str = "h100-sxm-80gb", **more: Any) -> rl.Deployment:
    """The model on the chip."""
    return rl.Deployment(model=rl.model(model), hardware=rl.hardware(chip), **more)


def title_of(ax: Any) -> str:
    """The title in one line, however it is broken."""
    return " ".join(ax.get_title(loc="left").split())


def line_of(ax: Any, label: str) -> Any:
    """The one line of that label."""
    (line,) = [line for line in ax.lines if line.get_label() == label]
    return line
