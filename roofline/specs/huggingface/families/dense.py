"""Decoders that changed Llama's layer: norms elsewhere, a plain block, sub-layers side by side."""

from __future__ import annotations

from collections.abc import Callable

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.families.common import (
    LAYER_NORM,
    Shape,
    attention,
    by_window,
    dense,
    heads,
    sparse,
    stack,
    whole_heads,
    windows,
)
from roofline.specs.huggingface.families.llama import biases, mlp_bias
from roofline.specs.layers import Layer, Norm
from roofline.specs.mixers import Attention

__all__ = ["FAMILIES"]

SCALE_ONLY = Norm(kind="layer")
BARE = Norm(kind="layer", scale=False)


def olmo(c: Config) -> Shape:
    """OLMo 1: norms without any parameters."""
    c = _olmo_sizes(c)
    return stack(c, Layer(mixer=attention(c, **biases(c)), ffn=dense(c)), norm=BARE)


def olmo2(c: Config) -> Shape:
    """OLMo 2: norms after the sub-layers instead of before, and over the whole width of queries and keys."""
    c = _olmo_sizes(c)
    return stack(c, Layer(mixer=attention(c, qk_norm="full", **biases(c)), ffn=dense(c)))


def olmo3(c: Config) -> Shape:
    """OLMo 3: OLMo 2 with a window of 4096 on all but every fourth layer."""
    c = _olmo_sizes(c)
    window = c.whole("sliding_window", absent=4096, null=None, most=2**40)
    kinds = windows(c, c.n_layers(), window=window, full=every(4), absent="every 4th full")
    return stack(
        c, by_window(kinds, lambda w: Layer(mixer=attention(c, qk_norm="full", window=w, **biases(c)), ffn=dense(c)))
    )


def _olmo_sizes(c: Config) -> Config:
    return sparse(c, vocab=50_304, width=4096, ff=11_008, layers=32, heads=32, context=2048)


def every(period: int) -> Callable[[int], bool]:
    """Whether a layer, counted from 0, is the last of its `period`."""
    return lambda i: (i + 1) % period == 0


def exaone4(c: Config) -> Shape:
    """EXAONE 4: norms after the sub-layers instead of before, and on the heads; a pattern such as 4 or "LLLG" of windows.

    The last layer sees all where the pattern is spelt; without a window all do.
    """
    c = sparse(c, vocab=102_400, width=4096, ff=16_384, layers=32, heads=32, context=2048)
    kinds = _exaone4_windows(c, c.n_layers())
    return stack(
        c, by_window(kinds, lambda w: Layer(mixer=attention(c, kv_absent=32, qk_norm="head", window=w), ffn=dense(c)))
    )


def _exaone4_windows(c: Config, n_layers: int) -> list[int | None]:
    window = c.whole("sliding_window", absent=4096, null=None, most=2**40)
    if c.given("layer_types") or window is None:
        return windows(c, n_layers, window=window, full=lambda i: True, absent="all full")
    if isinstance(c.data.get("sliding_window_pattern"), str):
        letters = c.word("sliding_window_pattern")
        if not letters or set(letters) - set("LG"):
            raise c.wrong("sliding_window_pattern", 'letters L (local) and G (global), such as "LLLG"', letters)
        return [None if letters[i % len(letters)] == "G" or i == n_layers - 1 else window for i in range(n_layers)]
    period = c.whole("sliding_window_pattern", absent=4)
    return windows(c, n_layers, window=window, full=every(period), absent=f"every {period}th full")


def cohere(c: Config) -> Shape:
    """Command R, Aya: both sub-layers from one norm (a scale, no bias); tied; norms over the whole heads' width if asked."""
    c = _cohere_sizes(c)
    qk_norm = "full" if c.flag("use_qk_norm", absent=False, null=False) else "none"
    layer = Layer(mixer=attention(c, qk_norm=qk_norm, **biases(c)), ffn=dense(c), n_norms=1, parallel=True)
    return stack(c, layer, tied_by_default=True, norm=SCALE_ONLY)


def cohere2(c: Config) -> Shape:
    """Command R7B, Command A: Cohere's layer, a window of 4096 on all but every fourth."""
    c = _cohere_sizes(c)
    window = c.whole("sliding_window", absent=4096, null=None, most=2**40)
    period = 1 if c.given("layer_types") else c.whole("sliding_window_pattern", absent=4)
    kinds = windows(c, c.n_layers(), window=window, full=every(period), absent=f"every {period}th full")
    layers = by_window(
        kinds, lambda w: Layer(mixer=attention(c, window=w, **biases(c)), ffn=dense(c), n_norms=1, parallel=True)
    )
    return stack(c, layers, tied_by_default=True, norm=SCALE_ONLY)


def _cohere_sizes(c: Config) -> Config:
    return sparse(c, vocab=256_000, width=8192, ff=22_528, layers=40, heads=64, context=8192)


def phi(c: Config) -> Shape:
    """Phi 1 to 2: both sub-layers from one LayerNorm, a plain block, biases everywhere, on the head too."""
    c = sparse(c, vocab=51_200, width=2048, ff=8192, layers=24, heads=32, context=2048)
    qk_norm = "head" if c.flag("qk_layernorm", absent=False) else "none"
    mixer = attention(c, qkv_bias=True, out_bias=True, qk_norm=qk_norm, norm_bias=True)
    layer = Layer(mixer=mixer, ffn=dense(c, gated=False, bias=True), n_norms=1, parallel=True)
    shape = stack(c, layer, norm=LAYER_NORM)
    return shape | ({"head": shape["head"] | {"bias": True}} if shape["head"] else {})


def phi3(c: Config) -> Shape:
    """Phi 3 to 4 (mini, medium, 14B): no biases; a window where the key gives one (2047 in Phi-3-mini-4k)."""
    c = sparse(c, vocab=32_064, width=3072, ff=8192, layers=32, heads=32, context=4096)
    window = c.whole("sliding_window", absent=None, null=None, most=2**40)
    return stack(c, Layer(mixer=attention(c, window=window), ffn=dense(c)))


def stablelm(c: Config) -> Shape:
    """StableLM 3B to 12B: LayerNorms; with `qk_layernorm` each head has a scale of its own; in parallel one norm does."""
    c = sparse(c, vocab=50_304, width=2560, ff=6912, layers=32, heads=32, context=4096)
    n, n_kv, _ = heads(c, kv_absent=32)
    mixer = Attention(
        n_heads=n,
        n_kv_heads=n_kv,
        d_head=c.whole("hidden_size") // whole_heads(c),
        qkv_bias=c.flag("use_qkv_bias", absent=False),
        qk_norm="full" if c.flag("qk_layernorm", absent=False) else "none",
    )
    parallel = c.flag("use_parallel_residual", absent=False)
    return stack(c, Layer(mixer=mixer, ffn=dense(c), n_norms=1 if parallel else 2, parallel=parallel), norm=LAYER_NORM)


def starcoder2(c: Config) -> Shape:
    """StarCoder 2: LayerNorms, a plain block, biases everywhere unless `use_bias` is false; tied; two KV heads."""
    c = sparse(c, vocab=49_152, width=3072, ff=12_288, layers=30, heads=24, context=4096)
    window = c.whole("sliding_window", absent=None, null=None, most=2**40)
    bias = c.flag("use_bias", absent=True)
    mixer = attention(c, kv_absent=2, window=window, qkv_bias=bias, out_bias=bias)
    return stack(c, Layer(mixer=mixer, ffn=dense(c, gated=False, bias=bias)), tied_by_default=True, norm=LAYER_NORM)


def nemotron(c: Config) -> Shape:
    """Nemotron-4, Minitron: LayerNorms and a plain block (squared ReLU); `attention_head_dim` stands in for `head_dim`."""
    c = sparse(c, vocab=256_000, width=6144, ff=24_576, layers=32, heads=48, context=4096)
    even = "hidden_size / num_attention_heads"
    mixer = attention(c, head_dim_absent=c.whole("attention_head_dim", absent=even, null=even), **biases(c))
    return stack(c, Layer(mixer=mixer, ffn=dense(c, gated=False, bias=mlp_bias(c))), norm=LAYER_NORM)


def jais2(c: Config) -> Shape:
    """Jais 2: Nemotron's layer with biases on every matrix unless said otherwise."""
    c = sparse(c, vocab=150_272, width=3328, ff=26_624, layers=32, heads=26, context=8192)
    ffn = dense(c, gated=False, bias=c.flag("mlp_bias", absent=True))
    return stack(c, Layer(mixer=attention(c, **biases(c, by_default=True)), ffn=ffn), norm=LAYER_NORM)


def arcee(c: Config) -> Shape:
    """AFM 4.5B: Llama's attention, a plain block (squared ReLU)."""
    c = sparse(c, vocab=32_000, width=2560, ff=18_432, layers=32, heads=32, context=4096)
    return stack(c, Layer(mixer=attention(c, **biases(c)), ffn=dense(c, gated=False, bias=mlp_bias(c))))


def apertus(c: Config) -> Shape:
    """Apertus: norms on the heads, a plain block whose activation (xIELU) learns two numbers a layer."""
    c = sparse(c, vocab=131_072, width=4096, ff=14_336, layers=32, heads=32, context=65_536)
    learnt = 2 if c.word("hidden_act", absent="xielu") == "xielu" else 0
    mixer = attention(c, qk_norm="head", **biases(c))
    return stack(c, Layer(mixer=mixer, ffn=dense(c, gated=False), vectors=learnt))


def persimmon(c: Config) -> Shape:
    """Persimmon, Fuyu's text: LayerNorms with biases, on the heads too, biases everywhere, a plain block."""
    c = sparse(c, vocab=262_144, width=4096, ff=16_384, layers=36, heads=64, context=16_384)
    n = whole_heads(c)
    mixer = Attention(
        n_heads=n,
        n_kv_heads=n,
        d_head=c.whole("hidden_size") // n,
        qkv_bias=True,
        out_bias=True,
        qk_norm="head" if c.flag("qk_layernorm", absent=True) else "none",
        norm_bias=True,
    )
    return stack(c, Layer(mixer=mixer, ffn=dense(c, gated=False, bias=True)), norm=LAYER_NORM)


def bitnet(c: Config) -> Shape:
    """BitNet b1.58: two further norms a layer, before o as wide as the model, before down as wide as the block."""
    c = sparse(c, vocab=128_256, width=2560, ff=6912, layers=30, heads=20, context=2048)
    layer = Layer(
        mixer=attention(c, kv_absent=5, **biases(c)), ffn=dense(c), n_norms=3, vectors=c.whole("intermediate_size")
    )
    return stack(c, layer)


FAMILIES = {
    "olmo": olmo,
    "olmo2": olmo2,
    "olmo3": olmo3,
    "exaone4": exaone4,
    "exaone4_5_text": exaone4,
    "cohere": cohere,
    "cohere2": cohere2,
    "phi": phi,
    "phi3": phi3,
    "stablelm": stablelm,
    "stablelm_epoch": stablelm,
    "starcoder2": starcoder2,
    "nemotron": nemotron,
    "jais2": jais2,
    "arcee": arcee,
    "apertus": apertus,
    "persimmon": persimmon,
    "bitnet": bitnet,
}
