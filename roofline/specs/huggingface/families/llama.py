"""Decoders with keys as Llama's: pre-norm layers of attention and a gated block, apart in biases, norms and windows."""

from __future__ import annotations

from typing import Any

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.families.common import (
    Shape,
    attention,
    by_window,
    dense,
    layer_words,
    sparse,
    stack,
    windows,
)
from roofline.specs.layers import Layer

__all__ = ["FAMILIES", "biases", "mlp_bias", "qwen2", "window_of"]

WINDOWED = ("full_attention", "sliding_attention")


def biases(c: Config, *, by_default: bool = False) -> dict[str, Any]:
    """`attention_bias`, which most classes put on q, k, v and o alike."""
    bias = c.flag("attention_bias", absent=by_default)
    return {"qkv_bias": bias, "out_bias": bias}


def mlp_bias(c: Config) -> bool:
    """`mlp_bias`, on every matrix of the block."""
    return bool(c.flag("mlp_bias", absent=False))


def llama(c: Config) -> Shape:
    """Llama 1 to 3, and the many that took its class: `attention_bias` is on q, k, v and o alike."""
    c = sparse(c, vocab=32_000, width=4096, ff=11_008, layers=32, heads=32, context=2048)
    return stack(c, Layer(mixer=attention(c, **biases(c)), ffn=dense(c, bias=mlp_bias(c))))


def exaone(c: Config) -> Shape:
    """EXAONE 3: the number of layers has an older name too; an absent number of KV heads is 8."""
    c = sparse(c, vocab=102_400, width=4096, ff=14_336, layers=32, heads=32, context=4096)
    layer = Layer(mixer=attention(c, kv_absent=8, **biases(c)), ffn=dense(c, bias=mlp_bias(c)))
    return stack(c, layer, count=("num_hidden_layers", "num_layers"))


def hyperclovax(c: Config) -> Shape:
    """HyperCLOVA X Think: norms after both sub-layers besides, unless `use_post_norm` is false."""
    c = sparse(c, vocab=32_000, width=4096, ff=11_008, layers=32, heads=32, context=2048)
    n_norms = 4 if c.flag("use_post_norm", absent=True) else 2
    return stack(c, Layer(mixer=attention(c, **biases(c)), ffn=dense(c, bias=mlp_bias(c)), n_norms=n_norms))


def seed_oss(c: Config) -> Shape:
    """Seed-OSS: biases on q, k and v unless said otherwise, on o only where `attention_out_bias`; heads of 128."""
    c = sparse(c, vocab=155_136, width=4096, ff=27_648, layers=64, heads=80, context=524_288)
    qkv, out = c.flag("attention_bias", absent=True), c.flag("attention_out_bias", absent=False)
    mixer = attention(c, kv_absent=8, head_dim_absent=128, qkv_bias=qkv, out_bias=out)
    return stack(c, Layer(mixer=mixer, ffn=dense(c, bias=mlp_bias(c))))


def iquestcoder(c: Config) -> Shape:
    """IQuest-Coder: eight KV heads and heads of 128 where absent."""
    c = sparse(c, vocab=76_800, width=5120, ff=27_648, layers=80, heads=40, context=131_072)
    mixer = attention(c, kv_absent=8, head_dim_absent=128, **biases(c))
    return stack(c, Layer(mixer=mixer, ffn=dense(c, bias=mlp_bias(c))))


def internlm3(c: Config) -> Shape:
    """InternLM 3: `qkv_bias` stands for all four of attention's biases, `bias` for the block's; two KV heads of 128."""
    c = sparse(c, vocab=128_512, width=4096, ff=10_240, layers=48, heads=32, context=32_768)
    bias = c.flag("qkv_bias", "attention_bias", absent=False)
    mixer = attention(c, kv_absent=2, head_dim_absent=128, qkv_bias=bias, out_bias=bias)
    return stack(c, Layer(mixer=mixer, ffn=dense(c, bias=c.flag("bias", "mlp_bias", absent=False))))


def ernie4_5(c: Config) -> Shape:
    """ERNIE 4.5, dense: `use_bias` is on every matrix of a layer; tied; two KV heads of 128 where absent."""
    c = sparse(c, vocab=103_424, width=1024, ff=3072, layers=18, heads=16, context=131_072)
    bias = c.flag("use_bias", absent=False, null=False)
    mixer = attention(c, kv_absent=2, head_dim_absent=128, qkv_bias=bias, out_bias=bias)
    return stack(c, Layer(mixer=mixer, ffn=dense(c, bias=bias)), tied_by_default=True)


def hunyuan_v1_dense(c: Config) -> Shape:
    """Hunyuan, dense: norms on the query and key heads."""
    c = sparse(c, vocab=290_943, width=4096, ff=11_008, layers=32, heads=32, context=2048)
    return stack(c, Layer(mixer=attention(c, qk_norm="head", **biases(c)), ffn=dense(c)))


def helium(c: Config) -> Shape:
    """Helium 1: its output matrix is square, without a bias; 20 KV heads of 128 where absent."""
    c = sparse(c, vocab=48_000, width=2560, ff=7040, layers=24, heads=20, context=4096)
    mixer = attention(c, kv_absent=20, head_dim_absent=128, qkv_bias=c.flag("attention_bias", absent=False))
    if mixer.n_heads * mixer.d_head != c.whole("hidden_size"):
        raise c.wrong("head_dim", "hidden_size / num_attention_heads", mixer.d_head)
    return stack(c, Layer(mixer=mixer, ffn=dense(c, bias=mlp_bias(c))))


def glm(c: Config) -> Shape:
    """GLM-4 (9B): biases on q, k and v unless said otherwise, none on o; two KV heads of 128 where absent."""
    return _glm(c, n_norms=2)


def glm4(c: Config) -> Shape:
    """GLM-4-0414: GLM-4's layer with norms after both sub-layers besides."""
    return _glm(c, n_norms=4)


def _glm(c: Config, *, n_norms: int) -> Shape:
    c = sparse(c, vocab=151_552, width=4096, ff=13_696, layers=40, heads=32, context=131_072)
    bias = c.flag("attention_bias", absent=True)
    mixer = attention(c, kv_absent=2, head_dim_absent=128, qkv_bias=bias)
    return stack(c, Layer(mixer=mixer, ffn=dense(c), n_norms=n_norms))


def mistral(c: Config) -> Shape:
    """Mistral: an absent `sliding_window` is 4096, a null one none; an absent number of KV heads is 8."""
    c = sparse(c, vocab=32_000, width=4096, ff=14_336, layers=32, heads=32, context=131_072)
    window = c.whole("sliding_window", absent=4096, null=None, most=2**40)
    return stack(c, Layer(mixer=attention(c, kv_absent=8, window=window), ffn=dense(c)))


def ministral(c: Config) -> Shape:
    """Ministral 8B: as Mistral, but `layer_types` may say which layers slide; all do where it is absent."""
    c = sparse(c, vocab=32_000, width=4096, ff=14_336, layers=32, heads=32, context=131_072)
    window = c.whole("sliding_window", absent=4096, null=None, most=2**40)
    kinds = windows(c, c.n_layers(), window=window, full=lambda i: False, absent="all sliding")
    return stack(c, by_window(kinds, lambda w: Layer(mixer=attention(c, kv_absent=8, window=w), ffn=dense(c))))


def ministral3(c: Config) -> Shape:
    """Ministral 3: no window unless the key gives one; heads of 128 where absent."""
    c = sparse(c, vocab=131_072, width=4096, ff=14_336, layers=34, heads=32, context=262_144)
    window = c.whole("sliding_window", absent=None, null=None, most=2**40)
    return stack(c, Layer(mixer=attention(c, kv_absent=8, head_dim_absent=128, window=window), ffn=dense(c)))


def cwm(c: Config) -> Shape:
    """Code World Model: layers 0, 4, 8, … see all, the others 8192 tokens."""
    c = sparse(c, vocab=128_256, width=6144, ff=21_504, layers=64, heads=48, context=131_072)
    window = c.whole("sliding_window", absent=8192, null=None, most=2**40)
    kinds = windows(c, c.n_layers(), window=window, full=lambda i: i % 4 == 0, absent="every 4th full, the first too")
    ffn = dense(c, bias=mlp_bias(c))
    layers = by_window(kinds, lambda w: Layer(mixer=attention(c, kv_absent=8, head_dim_absent=128, window=w), ffn=ffn))
    return stack(c, layers)


def smollm3(c: Config) -> Shape:
    """SmolLM 3: tied, four KV heads where absent; a window, where `use_sliding_window`, only on layers without rotation."""
    c = sparse(c, vocab=128_256, width=2048, ff=11_008, layers=36, heads=16, context=32_768)
    kinds = _smollm3_windows(c, c.n_layers())
    ffn = dense(c, bias=mlp_bias(c))
    layers = by_window(kinds, lambda w: Layer(mixer=attention(c, kv_absent=4, window=w, **biases(c)), ffn=ffn))
    return stack(c, layers, tied_by_default=True)


def _smollm3_windows(c: Config, n_layers: int) -> list[int | None]:
    window = c.whole("sliding_window", absent=None, null=None, most=2**40)
    if not c.flag("use_sliding_window", absent=False) or window is None:
        layer_words(c, n_layers, among=WINDOWED, absent="all full")
        return [None] * n_layers
    period = c.whole("no_rope_layer_interval", absent=4)
    plan = [int((i + 1) % period != 0) for i in range(n_layers)]
    rotated = c.items("no_rope_layers", kind=int, absent=plan, null=plan, length=n_layers)
    return windows(c, n_layers, window=window, full=lambda i: bool(rotated[i]), absent="full where rotated")


def qwen2(c: Config) -> Shape:
    """Qwen 2 and 2.5: biases on q, k and v without a key that says so; a window only where `use_sliding_window`."""
    c = _qwen_sizes(c)
    return _qwen(c, qkv_bias=True)


def qwen3(c: Config) -> Shape:
    """Qwen 3: norms on the query and key heads of 128, no biases unless `attention_bias`."""
    c = _qwen_sizes(c)
    return _qwen(c, head_dim_absent=128, qk_norm="head", **biases(c))


def _qwen(c: Config, **more: Any) -> Shape:
    kinds = window_of(c, c.n_layers())
    return stack(c, by_window(kinds, lambda w: Layer(mixer=attention(c, kv_absent=32, window=w, **more), ffn=dense(c))))


def _qwen_sizes(c: Config) -> Config:
    return sparse(c, vocab=151_936, width=4096, ff=22_016, layers=32, heads=32, context=32_768)


def window_of(c: Config, n_layers: int) -> list[int | None]:
    """Qwen's windows: none unless `use_sliding_window`; then from layer `max_window_layers` on, or as `layer_types` say."""
    if not c.flag("use_sliding_window", absent=False):
        return [None] * n_layers
    window = c.whole("sliding_window", absent=4096, null=None, most=2**40)
    first = c.whole("max_window_layers", absent=28, least=0)
    return windows(c, n_layers, window=window, full=lambda i: i < first, absent=f"full before layer {first}")


FAMILIES = {
    "llama": llama,
    "granite": llama,
    "exaone": exaone,
    "hyperclovax": hyperclovax,
    "seed_oss": seed_oss,
    "iquestcoder": iquestcoder,
    "internlm3": internlm3,
    "ernie4_5": ernie4_5,
    "hunyuan_v1_dense": hunyuan_v1_dense,
    "helium": helium,
    "glm": glm,
    "glm4": glm4,
    "mistral": mistral,
    "ministral": ministral,
    "ministral3": ministral3,
    "cwm": cwm,
    "smollm3": smollm3,
    "qwen2": qwen2,
    "qwen3": qwen3,
}
