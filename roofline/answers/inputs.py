"""What a request makes a pass do: text alone, text with images, a source to encode, a clip to hear."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from roofline.errors import SpecError, shown
from roofline.num import Num, checked
from roofline.specs.model import Model
from roofline.specs.towers import Tower

__all__ = ["IMAGE_SIZE", "Request", "memory_tokens_of", "request"]

IMAGE_SIZE = (1024, 1024)
MAX_IMAGES = 1e6
MAX_SIDE = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request as the first pass sees it: new tokens of the decoder, what the tower reads, what is cross-attended to.

    `prompt_tokens` are those of the decoder, image tokens among them; of an encoder-decoder model, the one that starts it.
    """

    n_new: Num
    n_images: Num = 0.0
    n_inputs: Num = 0.0
    n_input_tokens: Num = 0.0
    n_memory: Num = 0.0

    @property
    def towers(self) -> dict[str, Num]:
        """The fields of `Seqs` that concern a tower."""
        return {"n_inputs": self.n_inputs, "n_input_tokens": self.n_input_tokens, "n_memory": self.n_memory}


def request(model: Model, *, prompt_tokens: Num, images: Any = 0, image_size: Any = IMAGE_SIZE) -> Request:
    """What a prompt of so many tokens with so many images of a size (height, width, in pixels) makes of the first pass.

    | model                     | decoder's new tokens  | tower reads               | memory           |
    |---------------------------|-----------------------|---------------------------|------------------|
    | decoder, encoder          | prompt                | –                         | –                |
    | images in the text        | prompt + image tokens | the images' patches       | –                |
    | images cross-attended to  | prompt                | the images' patches       | the tower's outputs |
    | text encoder-decoder      | 1, the start token    | the prompt                | prompt           |
    | audio encoder-decoder     | prompt                | its fixed number of frames | the same        |
    """
    tower = model.towers[0] if model.towers else None
    n_images = checked(images, name="images", low=0.0, high=MAX_IMAGES)
    if np.any(np.greater(n_images, 0.0)):
        return _with_images(model, prompt_tokens, n_images, image_size)
    if tower is None or tower.feeds == "prompt" or tower.kind == "vision":
        return Request(n_new=prompt_tokens)
    if tower.fixed_tokens is not None:
        fixed = float(tower.fixed_tokens)
        return Request(n_new=prompt_tokens, n_inputs=1.0, n_input_tokens=fixed, n_memory=fixed)
    return Request(n_new=1.0, n_inputs=1.0, n_input_tokens=prompt_tokens, n_memory=prompt_tokens)


def _with_images(model: Model, prompt_tokens: Num, n_images: Num, image_size: Any) -> Request:
    tower = model.towers[0] if model.towers else None
    if tower is None or tower.image is None:
        readers = "models with a vision tower do, such as qwen2.5-vl-7b or gemma-3-27b"
        raise SpecError(f"images: {model.id}, as described here, reads no images; {readers}")
    height, width = _size(image_size)
    one = tower.image.of(height=height, width=width)
    inputs, tokens = n_images * float(one.n_units), float(one.tower_tokens)
    if tower.feeds == "memory":
        remembered = n_images * float(one.memory_tokens or one.n_units * one.tower_tokens)
        return Request(
            n_new=prompt_tokens, n_images=n_images, n_inputs=inputs, n_input_tokens=tokens, n_memory=remembered
        )
    n_new = prompt_tokens + n_images * float(one.prompt_tokens)
    return Request(n_new=n_new, n_images=n_images, n_inputs=inputs, n_input_tokens=tokens)


def _size(image_size: Any) -> tuple[int, int]:
    sides = tuple(image_size) if isinstance(image_size, (tuple, list)) else ()
    whole = all(isinstance(s, (int, np.integer)) and not isinstance(s, bool) and 1 <= s <= MAX_SIDE for s in sides)
    if len(sides) != 2 or not whole:
        raise SpecError(
            f"image_size: expected (height, width) in whole pixels up to {MAX_SIDE:,}, got {shown(image_size)}"
        )
    return int(sides[0]), int(sides[1])


def memory_tokens_of(model: Model, memory_tokens: Any) -> Num:
    """M of a pass that has no request: as given; else what the tower's fixed length makes it; none without images."""
    if memory_tokens is not None:
        given = checked(memory_tokens, name="memory_tokens", low=0.0, high=1e12)
        if np.any(np.greater(given, 0.0)) and not _remembering(model):
            raise SpecError(f"memory_tokens: {model.id} has no cross-attention, so nothing to remember; leave it out")
        return given
    tower = _remembering(model)
    if tower is None or tower.kind == "vision":
        return 0.0
    if tower.fixed_tokens is not None:
        return float(tower.fixed_tokens)
    hint = "say how many tokens that were (--source on the command line)"
    raise SpecError(f"memory_tokens: {model.id} attends to what its encoder read; {hint}")


def _remembering(model: Model) -> Tower | None:
    return next((t for t in model.towers if t.feeds == "memory"), None)
