"""What every token passes by itself: dense blocks, and mixtures of experts of which each token passes a few."""

from typing import Annotated, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from roofline.errors import SpecError
from roofline.specs.matrix import Count, Matrix, Vectors, Width
from roofline.specs.mixers import LinearMixer
from roofline.specs.record import Record

__all__ = ["Dense", "Ffn", "Moe"]


class Dense(Record):
    """A feed-forward block every token passes: gated (SwiGLU, GeGLU: gate, up, down) or plain (up, down)."""

    kind: Literal["dense"] = "dense"
    d_ff: Width
    gated: bool = True
    bias: bool = False

    def matrices(self, d_model: int) -> tuple[Matrix, ...]:
        """gate (D, F) where gated, up (D, F), down (F, D)."""
        return block(d_model, d_ff=self.d_ff, gated=self.gated, bias=self.bias)

    @property
    def n_vector_params(self) -> int:
        """None: biases are the matrices'."""
        return 0


class Moe(Record):
    """E routed experts of width F, k of them for each token, and a shared block `d_shared` wide that every token passes.

    `router_bias`: a learnt bias (gpt-oss), not the buffer that balances load. `bias`: on the experts' products;
    `shared_bias`: on the shared block's and on the ways into the latent and out. `shared_gate`: a (D, 1) product that
    scales the shared block. `d_latent`: the experts work in a narrower space, down before and up after (Nemotron 3).
    `scales`: further learnt scales of router and experts, in all.
    """

    kind: Literal["moe"] = "moe"
    n_experts: Count
    n_active_experts: Count
    d_ff: Width
    gated: bool = True
    bias: bool = False
    router_bias: bool = False
    d_shared: Width | None = None
    shared_gate: bool = False
    shared_bias: bool = False
    d_latent: Width | None = None
    scales: Vectors = 0

    @model_validator(mode="after")
    def _no_more_active_than_there_are(self) -> Self:
        if self.n_active_experts > self.n_experts:
            raise SpecError(
                f"n_active_experts: expected at most n_experts={self.n_experts}, got {self.n_active_experts}"
            )
        if self.shared_gate and self.d_shared is None:
            raise SpecError("shared_gate: expected with d_shared, the block it scales")
        return self

    def routed_matrices(self, d_model: int) -> tuple[Matrix, ...]:
        """The experts', E side by side: gate, up (Dx, F), down (F, Dx), Dx the width they work in."""
        return tuple(
            Matrix(m.role, m.d_in, m.d_out, m.bias, n=self.n_experts)
            for m in block(self.d_latent or d_model, d_ff=self.d_ff, gated=self.gated, bias=self.bias, prefix="expert_")
        )

    def common_matrices(self, d_model: int) -> tuple[Matrix, ...]:
        """What every token passes: the router (D, E), the way into the latent and out, the shared block and its gate."""
        router = Matrix("router", d_model, self.n_experts, self.router_bias)
        latent: tuple[Matrix, ...] = ()
        if self.d_latent is not None:
            latent = (
                Matrix("latent_down", d_model, self.d_latent, self.shared_bias),
                Matrix("latent_up", self.d_latent, d_model, self.shared_bias),
            )
        shared: tuple[Matrix, ...] = ()
        if self.d_shared is not None:
            shared = block(d_model, d_ff=self.d_shared, gated=self.gated, bias=self.shared_bias, prefix="shared_")
        gate = (Matrix("shared_scale", d_model, 1),) if self.shared_gate else ()
        return (router, *latent, *shared, *gate)

    def matrices(self, d_model: int) -> tuple[Matrix, ...]:
        """Common ones, then the experts'."""
        return self.common_matrices(d_model) + self.routed_matrices(d_model)

    @property
    def n_vector_params(self) -> int:
        """Learnt scales."""
        return self.scales


Ffn: TypeAlias = Annotated[Dense | Moe | LinearMixer, Field(discriminator="kind")]


def block(d_model: int, *, d_ff: int, gated: bool, bias: bool, prefix: str = "") -> tuple[Matrix, ...]:
    """gate (D, F) where gated, up (D, F), down (F, D)."""
    gate = (Matrix(f"{prefix}gate", d_model, d_ff, bias),) if gated else ()
    return (*gate, Matrix(f"{prefix}up", d_model, d_ff, bias), Matrix(f"{prefix}down", d_ff, d_model, bias))
