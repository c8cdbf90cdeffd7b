"""One weight matrix, the unit everything about a model is counted in: parameters, bytes, FLOPs."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

__all__ = ["Count", "Matrix", "Vectors", "Width"]

Width = Annotated[int, Field(ge=1, le=10_000_000)]
Count = Annotated[int, Field(ge=1, le=100_000)]
Vectors = Annotated[int, Field(ge=0, le=2**40)]


@dataclass(frozen=True, slots=True)
class Matrix:
    """A weight matrix: y = x·W (+ b), x (m, d_in), W (d_in, d_out).  `role` decides its number format.

    `n` such matrices stand side by side: the experts of a layer, the blocks of a block-diagonal product, the channels of
    a depthwise convolution (each a (kernel, 1) product).
    """

    role: str
    d_in: int
    d_out: int
    bias: bool = False
    n: int = 1

    @property
    def n_weights(self) -> int:
        """n · d_in · d_out, without biases."""
        return self.n * self.d_in * self.d_out

    @property
    def n_biases(self) -> int:
        """n · d_out with a bias, else 0."""
        return self.n * self.d_out if self.bias else 0

    @property
    def n_params(self) -> int:
        """n · (d_in · d_out (+ d_out))."""
        return self.n_weights + self.n_biases
