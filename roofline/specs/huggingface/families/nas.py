"""Llama layers pruned by architecture search, one by one (Puzzle): Llama-Nemotron Super and Ultra."""

from __future__ import annotations

from typing import Any

from roofline.errors import Unsupported
from roofline.specs.ffns import Dense, Ffn
from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.families.common import Shape, stack, whole_heads
from roofline.specs.huggingface.families.llama import biases, mlp_bias
from roofline.specs.layers import Layer
from roofline.specs.mixers import Attention, LinearMixer, Mixer

__all__ = ["FAMILIES", "rounded_width"]


def nemotron_nas(c: Config) -> Shape:
    """`block_configs`, one a layer: attention and block each whole, narrowed, a square matrix, or nothing, norm included."""
    blocks = c.items("block_configs", kind=dict, length=c.n_layers())
    return stack(c, [_layer(c, block, index) for index, block in enumerate(blocks)])


def _layer(c: Config, block: dict[str, Any], index: int) -> Layer:
    this = Config(block, where=c.where, assumed=[], section=f"block_configs.{index}.")
    mixer, ffn = _mixer(c, this.section("attention")), _ffn(c, this.section("ffn"))
    return Layer(mixer=mixer, ffn=ffn, n_norms=(mixer is not None) + (ffn is not None))


def _mixer(c: Config, own: Config) -> Mixer | None:
    """Heads in groups of `n_heads_in_group` around one KV head."""
    _only(own, "mamba", "llama4", "num_sink_tokens")
    if own.flag("no_op", absent=False):
        return None
    if own.flag("replace_with_linear", absent=False):
        return LinearMixer()
    n = c.whole("num_attention_heads", most=100_000)
    group = own.whole("n_heads_in_group", most=100_000)
    if n % group:
        raise own.wrong("n_heads_in_group", f"a divisor of num_attention_heads={n}", group)
    d_head = c.whole("head_dim") if c.given("head_dim") else c.whole("hidden_size") // whole_heads(c)
    window = own.whole("window_length", absent=None, null=None, most=2**40)
    return Attention(n_heads=n, n_kv_heads=n // group, d_head=d_head, window=window, **biases(c))


def _ffn(c: Config, own: Config) -> Ffn | None:
    """A gated block of `ffn_mult`."""
    _only(own, "moe")
    if own.flag("no_op", absent=False):
        return None
    if own.flag("replace_with_linear", absent=False):
        return LinearMixer()
    times = own.number("ffn_mult", least=0.0, most=1000.0)
    d_ff = rounded_width(times, c.whole("hidden_size"))
    if not 1 <= d_ff <= 10_000_000:
        raise own.wrong("ffn_mult", "a multiple of hidden_size that leaves a block", times)
    return Dense(d_ff=d_ff, bias=mlp_bias(c))


def rounded_width(times: float, d_model: int) -> int:
    """2/3 · times · D, up to the next multiple of 256; `times` counts to six places.

    >>> rounded_width(5.25, 8192), rounded_width(0.4875, 16384), rounded_width(1.3125, 8192)
    (28672, 5376, 7168)
    """
    exact = int(2 * round(times, 6) * d_model / 3)
    return exact + -exact % 256


def _only(own: Config, *others: str) -> None:
    for key in others:
        if own.given(key):
            raise Unsupported(f"{own.place(key)}: attention and dense blocks are read, nothing else in their place")


FAMILIES = {"nemotron-nas": nemotron_nas}
