"""Mixers that keep a state of fixed size instead of a cache: Mamba, delta nets, linear attention, short convolutions.

Each names its weight `matrices`, the parameters that stand in vectors, the `state_elements` one sequence keeps in one layer
(in `state_dtype`), and, where a causal convolution of `d_conv` taps leads in, the `n_channels` it runs over: of each it
keeps the d_conv − 1 inputs before the current one (transformers' own cache keeps d_conv).
"""

from typing import Literal, Self

from pydantic import model_validator

from roofline.errors import SpecError
from roofline.specs.matrix import Count, Matrix, Width
from roofline.specs.record import Record

__all__ = ["Delta", "LinearAttention", "Mamba", "Mamba2", "Rglru", "ShortConv", "StateDType"]

StateDType = Literal["fp32", "bf16", "fp16"]


class Mamba(Record):
    """Mamba-1: a state (d_inner, d_state) for every sequence, each channel with its own decay.

    `inner_norms`: scales on dt, B and C (Jamba); norms there without a scale are no parameters (Falcon-Mamba).
    """

    kind: Literal["mamba"] = "mamba"
    d_inner: Width
    d_state: Width
    d_conv: Count
    dt_rank: Width
    conv_bias: bool = True
    bias: bool = False
    inner_norms: bool = False
    state_dtype: StateDType = "fp32"

    def matrices(self, d_model: int) -> tuple[Matrix, ...]:
        """in (D, 2·d_inner), conv, x (d_inner, dt_rank + 2·d_state), dt (dt_rank, d_inner), out (d_inner, D)."""
        return (
            Matrix("in", d_model, 2 * self.d_inner, self.bias),
            Matrix("conv", self.d_conv, 1, self.conv_bias, n=self.d_inner),
            Matrix("x", self.d_inner, self.dt_rank + 2 * self.d_state),
            Matrix("dt", self.dt_rank, self.d_inner, bias=True),
            Matrix("out", self.d_inner, d_model, self.bias),
        )

    @property
    def n_vector_params(self) -> int:
        """Log decays d_inner·d_state, the skip d_inner; with inner norms dt_rank + 2·d_state."""
        return self.d_inner * (self.d_state + 1) + (self.dt_rank + 2 * self.d_state if self.inner_norms else 0)

    @property
    def state_elements(self) -> int:
        """d_inner · d_state."""
        return self.d_inner * self.d_state

    @property
    def n_channels(self) -> int:
        """Channels the convolution runs over: d_inner."""
        return self.d_inner


class Mamba2(Record):
    """Mamba-2 (state-space duality): a state (d_head, d_state) a head, one decay a head, B and C shared in groups."""

    kind: Literal["mamba2"] = "mamba2"
    n_heads: Count
    d_head: Width
    n_groups: Count
    d_state: Width
    d_conv: Count
    conv_bias: bool = True
    in_bias: bool = False
    out_bias: bool = False
    gated_norm: bool = True
    state_dtype: StateDType = "fp32"

    @model_validator(mode="after")
    def _groups_divide(self) -> Self:
        if self.n_heads % self.n_groups:
            raise SpecError(f"n_groups: {self.n_groups} does not divide n_heads={self.n_heads}")
        return self

    @property
    def d_inner(self) -> int:
        """N·H, free of the model's width."""
        return self.n_heads * self.d_head

    @property
    def n_channels(self) -> int:
        """Channels the convolution runs over: x, B and C, d_inner + 2·G·d_state."""
        return self.d_inner + 2 * self.n_groups * self.d_state

    def matrices(self, d_model: int) -> tuple[Matrix, ...]:
        """in (D, z + x + B + C + dt = d_inner + n_channels + N), conv, out (d_inner, D)."""
        return (
            Matrix("in", d_model, self.d_inner + self.n_channels + self.n_heads, self.in_bias),
            Matrix("conv", self.d_conv, 1, self.conv_bias, n=self.n_channels),
            Matrix("out", self.d_inner, d_model, self.out_bias),
        )

    @property
    def n_vector_params(self) -> int:
        """Step bias, log decay and skip, 3·N; the gated norm's scale, d_inner."""
        return 3 * self.n_heads + (self.d_inner if self.gated_norm else 0)

    @property
    def state_elements(self) -> int:
        """N · H · d_state."""
        return self.d_inner * self.d_state


class Delta(Record):
    """Gated delta net: a state (d_key, d_value) a value head, corrected at every token by what it got wrong.

    `gate` "scalar": one decay a value head (Qwen3-Next); "channel": one a key channel, through a bottleneck of d_value,
    as the output gate (Kimi Linear).
    """

    kind: Literal["delta"] = "delta"
    n_key_heads: Count
    d_key: Width
    n_value_heads: Count
    d_value: Width
    d_conv: Count
    gate: Literal["scalar", "channel"] = "scalar"
    state_dtype: StateDType = "fp32"

    @model_validator(mode="after")
    def _key_heads_divide(self) -> Self:
        if self.n_value_heads % self.n_key_heads:
            raise SpecError(f"n_key_heads: {self.n_key_heads} does not divide n_value_heads={self.n_value_heads}")
        return self

    @property
    def n_channels(self) -> int:
        """Channels the convolution runs over: q, k and v, 2·Nk·dk + Nv·dv."""
        return 2 * self.n_key_heads * self.d_key + self.n_value_heads * self.d_value

    def matrices(self, d_model: int) -> tuple[Matrix, ...]:
        """in (D, q + k + v + z), ba (D, 2·Nv), conv, out (Nv·dv, D); by channel: gates through two bottlenecks."""
        d_k, d_v = self.n_key_heads * self.d_key, self.n_value_heads * self.d_value
        conv, out = Matrix("conv", self.d_conv, 1, n=self.n_channels), Matrix("out", d_v, d_model)
        if self.gate == "scalar":
            return (
                Matrix("in", d_model, self.n_channels + d_v),
                Matrix("ba", d_model, 2 * self.n_value_heads),
                conv,
                out,
            )
        return (
            Matrix("in", d_model, self.n_channels),
            Matrix("ba", d_model, self.n_value_heads),
            Matrix("decay_a", d_model, self.d_value),
            Matrix("decay_b", self.d_value, d_k),
            Matrix("gate_a", d_model, self.d_value),
            Matrix("gate_b", self.d_value, d_v),
            conv,
            out,
        )

    @property
    def n_vector_params(self) -> int:
        """Step bias and log decay a value head (by channel: the bias a key channel), the output norm's scale d_value."""
        biases = self.n_value_heads if self.gate == "scalar" else self.n_key_heads * self.d_key
        return biases + self.n_value_heads + self.d_value

    @property
    def state_elements(self) -> int:
        """Nv · dk · dv."""
        return self.n_value_heads * self.d_key * self.d_value


class LinearAttention(Record):
    """Attention without a softmax, as a recurrence: a state (H, H) a head, a fixed decay a head (lightning attention)."""

    kind: Literal["linear_attention"] = "linear_attention"
    n_heads: Count
    d_head: Width
    gated: bool = True
    norm: bool = True
    state_dtype: StateDType = "fp32"

    def matrices(self, d_model: int) -> tuple[Matrix, ...]:
        """in (D, q + k + v), gate (D, N·H) where gated, out (N·H, D)."""
        wide = self.n_heads * self.d_head
        gate = (Matrix("out_gate", d_model, wide),) if self.gated else ()
        return (Matrix("in", d_model, 3 * wide), *gate, Matrix("out", wide, d_model))

    @property
    def n_vector_params(self) -> int:
        """The output norm's scale, N·H, where it has one."""
        return self.n_heads * self.d_head if self.norm else 0

    @property
    def state_elements(self) -> int:
        """N · H · H."""
        return self.n_heads * self.d_head**2


class ShortConv(Record):
    """A gated convolution of a few tokens, with no state besides the convolution's (LFM2).

    Of three products of the input, B · x is convolved and C gates what comes out.
    """

    kind: Literal["short_conv"] = "short_conv"
    d_inner: Width
    d_conv: Count
    bias: bool = False

    def matrices(self, d_model: int) -> tuple[Matrix, ...]:
        """in (D, B + C + x = 3·d_inner), conv, out (d_inner, D)."""
        return (
            Matrix("in", d_model, 3 * self.d_inner, self.bias),
            Matrix("conv", self.d_conv, 1, self.bias, n=self.d_inner),
            Matrix("out", self.d_inner, d_model, self.bias),
        )

    @property
    def n_vector_params(self) -> int:
        """None: biases are the matrices'."""
        return 0

    @property
    def state_elements(self) -> int:
        """None."""
        return 0

    @property
    def n_channels(self) -> int:
        """Channels the convolution runs over: d_inner."""
        return self.d_inner


class Rglru(Record):
    """Gated linear recurrent unit: a state of one number a channel, updated element by element (RecurrentGemma).

    Its input and recurrence gates are products in `n_blocks` blocks side by side.
    """

    kind: Literal["rglru"] = "rglru"
    d_inner: Width
    n_blocks: Count
    d_conv: Count
    state_dtype: StateDType = "fp32"

    @model_validator(mode="after")
    def _blocks_divide(self) -> Self:
        if self.d_inner % self.n_blocks:
            raise SpecError(f"n_blocks: {self.n_blocks} does not divide d_inner={self.d_inner}")
        return self

    def matrices(self, d_model: int) -> tuple[Matrix, ...]:
        """in (D, x + y = 2·d_inner), conv, two gates of blocks (d_inner/n, d_inner/n), out (d_inner, D); all with biases."""
        block = self.d_inner // self.n_blocks
        return (
            Matrix("in", d_model, 2 * self.d_inner, bias=True),
            Matrix("conv", self.d_conv, 1, bias=True, n=self.d_inner),
            Matrix("input_gate", block, block, bias=True, n=self.n_blocks),
            Matrix("recurrence_gate", block, block, bias=True, n=self.n_blocks),
            Matrix("out", self.d_inner, d_model, bias=True),
        )

    @property
    def n_vector_params(self) -> int:
        """Decays, d_inner."""
        return self.d_inner

    @property
    def state_elements(self) -> int:
        """d_inner."""
        return self.d_inner

    @property
    def n_channels(self) -> int:
        """Channels the convolution runs over: d_inner."""
        return self.d_inner
