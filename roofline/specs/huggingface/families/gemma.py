"""The Gemma line, 1 to 3: tied tables, heads of 256, windows in a pattern, further norms."""

from __future__ import annotations

from typing import Any

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.families.common import Shape, attention, by_window, dense, sparse, stack, windows
from roofline.specs.huggingface.families.dense import every
from roofline.specs.huggingface.families.llama import biases
from roofline.specs.layers import Layer

__all__ = ["FAMILIES", "gemma3_text"]


def gemma(c: Config) -> Shape:
    """Gemma 1: Llama's layer; sixteen KV heads and heads of 256 where absent."""
    c = sparse(c, vocab=256_000, width=3072, ff=24_576, layers=28, heads=16, context=8192)
    causal = not c.flag("use_bidirectional_attention", absent=False, null=False)
    mixer = attention(c, kv_absent=16, head_dim_absent=256, causal=causal, **biases(c))
    return stack(c, Layer(mixer=mixer, ffn=dense(c)), tied_by_default=True)


def gemma2(c: Config) -> Shape:
    """Gemma 2: norms before and after both sub-layers; a window of 4096 on every other layer, the first on."""
    return _alternating(c, n_norms=4)


def vaultgemma(c: Config) -> Shape:
    """VaultGemma: Gemma 2 without the norms after the sub-layers."""
    return _alternating(c, n_norms=2)


def _alternating(c: Config, *, n_norms: int) -> Shape:
    c = sparse(c, vocab=256_000, width=2304, ff=9216, layers=26, heads=8, context=8192)
    causal = not c.flag("use_bidirectional_attention", absent=False, null=False)
    window = c.whole("sliding_window", absent=4096, null=None, most=2**40)
    kinds = windows(c, c.n_layers(), window=window, full=every(2), absent="every other full, the second first")

    def layer(w: int | None) -> Layer:
        mixer = attention(c, kv_absent=4, head_dim_absent=256, window=w, causal=causal, **biases(c))
        return Layer(mixer=mixer, ffn=dense(c), n_norms=n_norms)

    return stack(c, by_window(kinds, layer), tied_by_default=True)


def gemma3_text(c: Config) -> Shape:
    """Gemma 3: norms on the heads too; every sixth layer sees all, or as `sliding_window_pattern` or `layer_types` say.

    With `use_bidirectional_attention` it is an encoder (EmbeddingGemma), whose window is half to either side.
    """
    c = sparse(c, vocab=262_208, width=2304, ff=9216, layers=26, heads=8, context=131_072)
    both_ways = c.flag("use_bidirectional_attention", absent=False, null=False)
    window = c.whole("sliding_window", absent=4096, null=None, most=2**40)
    if both_ways and window is not None:
        window = 2 * (window // 2) + 1
    period = 1 if c.given("layer_types") else c.whole("sliding_window_pattern", absent=6)
    kinds = windows(c, c.n_layers(), window=window, full=every(period), absent=f"every {period}th full")
    more: dict[str, Any] = {"kv_absent": 4, "head_dim_absent": 256, "qk_norm": "head", "causal": not both_ways}

    def layer(w: int | None) -> Layer:
        return Layer(mixer=attention(c, window=w, **more, **biases(c)), ffn=dense(c), n_norms=4)

    return stack(c, by_window(kinds, layer), tied_by_default=True)


FAMILIES = {"gemma": gemma, "gemma2": gemma2, "vaultgemma": vaultgemma, "gemma3_text": gemma3_text}
