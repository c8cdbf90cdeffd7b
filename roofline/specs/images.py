"""How an image becomes tokens: one rule a way of resizing, with the arithmetic of the released image processors.

Every rule answers `of(height=…, width=…)`, pixels of the image as it comes.
"""

import math
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from roofline.errors import SpecError, shown
from roofline.specs.matrix import Count
from roofline.specs.record import Record

__all__ = ["FilledImage", "FixedImage", "ImageRule", "ImageTokens", "ResizedImage", "ShrunkImage", "TiledImage"]

Pixels = Annotated[int, Field(ge=1, le=2**40)]
Side = Annotated[int, Field(ge=1, le=1_000_000)]
Few = Annotated[int, Field(ge=0, le=4)]
MOST_PIXELS = 1_000_000


@dataclass(frozen=True, slots=True)
class ImageTokens:
    """What one image comes to: `n_units` passes through the tower, of `tower_tokens` each (its own patches: an engine that
    pads to a budget or to all tiles does more); `prompt_tokens` in the text, with the separators of rows and tiles but
    without the marks around the whole; `memory_tokens` that cross-attention reads."""

    n_units: int
    tower_tokens: int
    prompt_tokens: int
    memory_tokens: int = 0


class FixedImage(Record):
    """Every image is brought to one size (Gemma 3); `memory_tokens` of it where cross-attention reads fewer than all."""

    kind: Literal["fixed"] = "fixed"
    tower_tokens: Count
    prompt_tokens: Count
    memory_tokens: Annotated[int, Field(ge=0, le=100_000)] = 0

    def of(self, *, height: int, width: int) -> ImageTokens:
        """The same for all.

        >>> FixedImage(tower_tokens=4096, prompt_tokens=256).of(height=480, width=640)
        ImageTokens(n_units=1, tower_tokens=4096, prompt_tokens=256, memory_tokens=0)
        """
        _checked(height, width)
        return ImageTokens(1, self.tower_tokens, self.prompt_tokens, self.memory_tokens)


class ResizedImage(Record):
    """Sides go to the nearest multiples of patch · merge, the area between min and max pixels (Qwen-VL, GLM-V).

    A side narrower than patch · merge is first brought up to it, the image in proportion, where `min_side`; the Qwen
    processors lack that step. Shapes longer than 200 to 1 are refused, as the processors do.
    """

    kind: Literal["resized"] = "resized"
    patch: Side
    merge: Side = 1
    min_pixels: Pixels
    max_pixels: Pixels
    min_side: bool = False

    def of(self, *, height: int, width: int) -> ImageTokens:
        """Patches of the resized image, and one prompt token for merge² of them.

        >>> ResizedImage(patch=14, merge=2, min_pixels=3136, max_pixels=12845056).of(height=1024, width=1024)
        ImageTokens(n_units=1, tower_tokens=5476, prompt_tokens=1369, memory_tokens=0)
        """
        _checked(height, width)
        step = self.patch * self.merge
        if self.min_side and min(height, width) < step:
            grow = max(step / height, step / width)
            height, width = int(height * grow), int(width * grow)
        if max(height, width) / min(height, width) > 200:
            raise SpecError(f"image of {height} × {width} pixels: expected sides of at most 200 to 1")
        rows, columns = round(height / step), round(width / step)
        pixels = rows * columns * step**2
        if pixels > self.max_pixels:
            shrink = math.sqrt(height * width / self.max_pixels)
            rows, columns = (max(1, math.floor(side / shrink / step)) for side in (height, width))
        elif pixels < self.min_pixels:
            grow = math.sqrt(self.min_pixels / (height * width))
            rows, columns = (math.ceil(side * grow / step) for side in (height, width))
        return ImageTokens(1, rows * columns * self.merge**2, rows * columns)


class ShrunkImage(Record):
    """Never enlarged: shrunk until no side is longer than `max_side` pixels and no more than `max_patches` patches are
    left, then filled up to whole blocks of patch · merge (Pixtral, Kimi). `row_tokens`: line breaks after a row."""

    kind: Literal["shrunk"] = "shrunk"
    patch: Side
    merge: Side = 1
    max_side: Side
    max_patches: Pixels | None = None
    row_tokens: Few = 0

    def of(self, *, height: int, width: int) -> ImageTokens:
        """Patches of the shrunk image, one prompt token a block, and the line breaks.

        >>> ShrunkImage(patch=14, merge=2, max_side=1540, row_tokens=1).of(height=1024, width=768)  # 37 rows of 28
        ImageTokens(n_units=1, tower_tokens=4144, prompt_tokens=1073, memory_tokens=0)
        """
        _checked(height, width)
        shrink = max(1.0, height / self.max_side, width / self.max_side)
        if self.max_patches is not None:
            whole = max(1, height // self.patch) * max(1, width // self.patch)
            shrink = max(shrink, math.sqrt(whole / self.max_patches))
        step = self.patch * self.merge
        rows, columns = (math.ceil(max(1, math.floor(side / shrink)) / step) for side in (height, width))
        return ImageTokens(1, rows * columns * self.merge**2, rows * (columns + self.row_tokens))


class FilledImage(Record):
    """Enlarged or shrunk to fill a budget of `max_tokens` prompt tokens, of merge × merge patches each (Gemma 4; its own
    code pads the rest of the budget and runs the tower over that too)."""

    kind: Literal["filled"] = "filled"
    patch: Side
    merge: Side = 1
    max_tokens: Count

    def of(self, *, height: int, width: int) -> ImageTokens:
        """The largest grid of the image's shape within the budget.

        >>> FilledImage(patch=16, merge=3, max_tokens=280).of(height=1024, width=768)  # 19 rows of 14
        ImageTokens(n_units=1, tower_tokens=2394, prompt_tokens=266, memory_tokens=0)
        """
        _checked(height, width)
        step, budget = self.patch * self.merge, self.max_tokens * self.merge**2
        grow = math.sqrt(budget * self.patch**2 / (height * width))
        rows, columns = (math.floor(grow * side / step) for side in (height, width))
        if rows == 0:
            rows, columns = 1, min(width // height, self.max_tokens)
        elif columns == 0:
            rows, columns = min(height // width, self.max_tokens), 1
        return ImageTokens(1, rows * columns * self.merge**2, rows * columns)


class TiledImage(Record):
    """Cut into at most `max_tiles` square tiles of `tile` pixels, each a pass of its own, and a small copy of the whole
    where there are several. `tile_tokens`: separators after a tile (Llama 4). `joined`: the tiles attend to each other,
    without a copy; one mark stands in the prompt, and `memory_tokens` of each tile are cross-attended to (Llama 3.2).

    `canvas` "scale": the grid that needs the least enlarging, or else the least shrinking (Llama 4); "shape": the grid
    nearest to the image's shape, of equal ones a larger until its area is twice the image's (InternVL).
    """

    kind: Literal["tiled"] = "tiled"
    tile: Side
    max_tiles: Annotated[int, Field(ge=1, le=256)]
    tower_tokens: Count
    prompt_tokens: Count
    tile_tokens: Few = 0
    joined: bool = False
    memory_tokens: Annotated[int, Field(ge=0, le=100_000)] = 0
    canvas: Literal["scale", "shape"] = "scale"

    def of(self, *, height: int, width: int) -> ImageTokens:
        """Tiles of the chosen grid and, if more than one, the copy.

        >>> llama4 = TiledImage(tile=336, max_tiles=16, tower_tokens=577, prompt_tokens=144, tile_tokens=1)
        >>> llama4.of(height=600, width=600)  # 2 × 2 tiles and the copy
        ImageTokens(n_units=5, tower_tokens=577, prompt_tokens=724, memory_tokens=0)
        """
        _checked(height, width)
        n = self._by_scale(height, width) if self.canvas == "scale" else self._by_shape(height, width)
        if self.joined:
            return ImageTokens(1, n * self.tower_tokens, self.prompt_tokens, n * self.memory_tokens)
        n_units = n + 1 if n > 1 else 1
        return ImageTokens(n_units, self.tower_tokens, n_units * self.prompt_tokens + (n_units - 1) * self.tile_tokens)

    def _grids(self) -> list[tuple[int, int]]:
        most = range(1, self.max_tiles + 1)
        return sorted(((r, c) for r in most for c in most if r * c <= self.max_tiles), key=lambda g: g[0] * g[1])

    def _by_scale(self, height: int, width: int) -> int:
        scales = {(r, c): min(r * self.tile / height, c * self.tile / width) for r, c in self._grids()}
        enlarged = [s for s in scales.values() if s >= 1.0]
        chosen = min(enlarged) if enlarged else max(scales.values())
        return min(r * c for (r, c), s in scales.items() if s == chosen)

    def _by_shape(self, height: int, width: int) -> int:
        best, n = math.inf, 1
        for rows, columns in self._grids():
            off = abs(width / height - columns / rows)
            if off < best or (off == best and height * width > 0.5 * self.tile**2 * rows * columns):
                best, n = off, rows * columns
        return n


ImageRule: TypeAlias = Annotated[
    FixedImage | ResizedImage | ShrunkImage | FilledImage | TiledImage, Field(discriminator="kind")
]


def _checked(height: int, width: int) -> None:
    for name, side in (("height", height), ("width", width)):
        if isinstance(side, bool) or not isinstance(side, int) or not 1 <= side <= MOST_PIXELS:
            raise SpecError(f"{name}: expected a whole number of pixels from 1 to {MOST_PIXELS:,}, got {shown(side)}")
