"""Towers that take an image at its own size and merge squares of patches: Qwen-VL from 2 to 3.5, GLM-V, EXAONE 4.5."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.families.common import (
    LAYER_NORM,
    Shape,
    attention,
    dense,
    grouped,
    over,
    plain,
    sparse,
    stack,
    whole_heads,
)
from roofline.specs.huggingface.families.llama import window_of
from roofline.specs.huggingface.families.vision import (
    encoder_layer,
    patches,
    product,
    text_part,
    vision_section,
    with_towers,
)
from roofline.specs.images import ResizedImage
from roofline.specs.layers import Layer
from roofline.specs.towers import Product, Tower

__all__ = ["FAMILIES"]

# min_pixels and max_pixels of the preprocessor_config.json beside the released weights (Qwen2-VL-7B and Qwen2.5-VL-7B,
# Qwen3-VL-8B), and of GLM-V's image processor, which counts both of its two frames; whoever serves them sets their own
_QWEN2_PIXELS = (3136, 12_845_056)
_QWEN3_PIXELS = (65_536, 16_777_216)
_MINIMAX_PIXELS = (56 * 56, 28 * 28 * 1280)
_GLM_PIXELS = (112 * 112 // 2, 28 * 28 * 15_000 // 2)


def qwen2_vl(c: Config) -> Shape:
    """Qwen2-VL: the tower's width is `embed_dim`, its `hidden_size` the text's; text keys at the top or in `text_config`."""
    v = vision_section(c)
    if v is None:
        return _text_at_either_level(c, "qwen2_vl_text")
    d = v.whole("embed_dim", absent=1280)
    ratio = v.number("mlp_ratio", absent=4, least=0.001, most=1000)
    merge = _merge(v)
    tower = Tower(
        kind="vision", d_model=d, norm=LAYER_NORM, n_norms=1,
        stem=(_patch(v, d, side=14, bias=False),),
        layers=plain(_depth(v, 32), encoder_layer(v, d, n_heads=_heads(v), d_ff=max(1, int(d * ratio)))),
        projector=_merger(d, merge, d_out=v.whole("hidden_size", absent=3584)),
        image=_resized(v, merge, side=14, pixels=_QWEN2_PIXELS),
    )  # fmt: skip
    return with_towers(_text_at_either_level(c, "qwen2_vl_text"), tower)


def qwen2_5_vl(c: Config) -> Shape:
    """Qwen2.5-VL: text keys at the top or in `text_config`; a tower of windows."""
    v = vision_section(c)
    tower = None if v is None else _windowed(v)
    return with_towers(_text_at_either_level(c, "qwen2_5_vl_text"), tower)


def exaone4_5(c: Config) -> Shape:
    """EXAONE 4.5: the tower of Qwen2.5-VL with fewer heads for keys."""
    shape = text_part(c, model_type="exaone4", tied=False)
    v = vision_section(c)
    if v is None:
        return shape
    return with_towers(shape, _windowed(v, n_kv_heads=v.whole("num_key_value_heads", absent=8, most=100_000)))


def _windowed(v: Config, *, n_kv_heads: int | None = None) -> Tower:
    """RMSNorm and gated blocks; all layers but `fullatt_block_indexes` see windows of `window_size` pixels."""
    d, merge, n_layers = v.whole("hidden_size", absent=3584), _merge(v), _depth(v, 32)
    side = v.whole("patch_size", absent=14, most=10_000)
    pixels = v.whole("window_size", absent=112, most=1_000_000)
    window = (pixels // merge // side * merge) ** 2
    if window == 0:
        raise v.wrong("window_size", f"at least the {merge * side} pixels of a merged patch", pixels)
    full = set(v.items("fullatt_block_indexes", kind=int, absent=[7, 15, 23, 31]))
    d_ff = v.whole("intermediate_size", absent=3420)
    layers = [
        encoder_layer(
            v, d, n_heads=_heads(v), n_kv_heads=n_kv_heads, d_ff=d_ff, gated=True, window=None if i in full else window
        )
        for i in range(n_layers)
    ]
    return Tower(
        kind="vision", d_model=d, n_norms=1,
        stem=(_patch(v, d, side=14, bias=False),),
        layers=grouped(layers),
        projector=_merger(d, merge, d_out=v.whole("out_hidden_size", absent=3584)),
        image=_resized(v, merge, side=14, pixels=_QWEN2_PIXELS),
    )  # fmt: skip


def _qwen3_vl(c: Config, *, text: str, deepstack: tuple[int, ...] | None) -> Shape:
    """Qwen3-VL: a table of positions, and mergers after the layers of `deepstack_visual_indexes` besides the last; in
    Qwen3.5 the last one alone, whatever that key says."""
    shape = text_part(c, model_type=text, tied=False)
    v = vision_section(c)
    if v is None:
        return shape
    d, merge, d_out = v.whole("hidden_size", absent=1152), _merge(v), v.whole("out_hidden_size", absent=3584)
    taps = 0
    if deepstack is not None:
        taps = len(v.items("deepstack_visual_indexes", kind=int, absent=list(deepstack), longest=1000))
    layer = encoder_layer(v, d, n_heads=_heads(v), d_ff=v.whole("intermediate_size", absent=4304))
    tower = Tower(
        kind="vision", d_model=d, norm=LAYER_NORM, n_norms=1,
        stem=(_patch(v, d, side=16, bias=True),),
        layers=plain(_depth(v, 27), layer),
        projector=_merger(d, merge, d_out=d_out, n=1 + taps),
        vectors={
            "positions": d * v.whole("num_position_embeddings", absent=2304),
            "deepstack_norms": taps * LAYER_NORM.n_params(d * merge**2),
        },
        image=_resized(v, merge, side=16, pixels=_QWEN3_PIXELS),
    )  # fmt: skip
    return with_towers(shape, tower)


def _glm4v(c: Config, *, text: str) -> Shape:
    """GLM-V: the blocks of the layers are as wide as the text, `intermediate_size` is the merger's; a convolution
    merges the patches before it."""
    shape = text_part(c, model_type=text, tied=False, either=True)
    v = vision_section(c)
    if v is None:
        return shape
    d, d_out, merge = v.whole("hidden_size", absent=1536), v.whole("out_hidden_size", absent=4096), _merge(v)
    bias, wide = v.flag("attention_bias", absent=False), v.whole("intermediate_size", absent=13696)
    layer = encoder_layer(v, d, n_heads=_heads(v, absent=12), d_ff=d_out, bias=False, gated=True, qkv_bias=bias)
    n_positions, _ = patches(v, image=336, patch=14)
    rows = 1.0 / merge**2
    tower = Tower(
        kind="vision", d_model=d, n_norms=2,
        stem=(_patch(v, d, side=14, bias=True),),
        layers=plain(_depth(v, 24), layer),
        projector=(
            product("downsample", d * merge**2, d_out, rows=rows),
            product("merge", d_out, d_out, bias=False, rows=rows),
            product("merge_gate", d_out, wide, bias=False, rows=rows),
            product("merge_up", d_out, wide, bias=False, rows=rows),
            product("merge_down", wide, d_out, bias=False, rows=rows),
        ),
        vectors={"positions": n_positions * d, "merger_norm": LAYER_NORM.n_params(d_out)},
        image=_resized(v, merge, side=14, pixels=_GLM_PIXELS, min_side=True),
    )  # fmt: skip
    return with_towers(shape, tower)


def minimax_m3_vl(c: Config) -> Shape:
    """MiniMax M3: biases everywhere but on the patches, a norm before the layers; every patch goes through two products
    to the text's width, and squares of them through two more."""
    shape = text_part(c, model_type="minimax_m3_vl_text", tied=False, either=True)
    v = vision_section(c)
    if v is None:
        return shape
    d, merge, d_text = v.whole("hidden_size", absent=1280), _merge(v), shape["d_model"]
    wide, rows = c.whole("projector_hidden_size", absent=6144), 1.0 / merge**2
    tower = Tower(
        kind="vision", d_model=d, norm=LAYER_NORM, n_norms=1,
        stem=(_patch(v, d, side=14, bias=False),),
        layers=plain(_depth(v, 32), encoder_layer(v, d, n_heads=_heads(v), d_ff=v.whole("intermediate_size", absent=5120))),
        projector=(
            product("project_up", d, wide),
            product("project_down", wide, d_text),
            product("merge_up", d_text * merge**2, wide, rows=rows),
            product("merge_down", wide, d_text, rows=rows),
        ),
        image=_resized(v, merge, side=14, pixels=_MINIMAX_PIXELS),
    )  # fmt: skip
    return with_towers(shape, tower)


def qwen2_vl_text(c: Config) -> Shape:
    """The text part of Qwen2-VL and Qwen2.5-VL: Qwen2, with other defaults and heads of D / N alone."""
    c = sparse(c, vocab=152064, width=8192, ff=29568, layers=80, heads=64, context=32768)
    n_layers = c.n_layers()
    c = over(
        c,
        {
            "head_dim": c.whole("hidden_size") // whole_heads(c),
            "max_window_layers": c.whole("max_window_layers", absent=80, least=0, most=10_000),
        },
    )
    layers = [
        Layer(mixer=attention(c, kv_absent=8, qkv_bias=True, window=window), ffn=dense(c))
        for window in window_of(c, n_layers)
    ]
    return stack(c, layers)


def qwen3_vl_text(c: Config) -> Shape:
    """The text part of Qwen3-VL: Qwen3, with other defaults."""
    c = sparse(c, vocab=151936, width=4096, ff=22016, layers=32, heads=32, context=128_000)
    bias = c.flag("attention_bias", absent=False)
    mixer = attention(c, kv_absent=32, head_dim_absent=128, qkv_bias=bias, out_bias=bias, qk_norm="head")
    return stack(c, Layer(mixer=mixer, ffn=dense(c)))


def glm4v_text(c: Config) -> Shape:
    """The text part of GLM-4.1V: biases on q, k and v, norms before and after either half of a layer."""
    c = sparse(c, vocab=151552, width=4096, ff=13696, layers=40, heads=32, context=32768)
    c = over(c, {"head_dim": c.whole("hidden_size") // whole_heads(c)})
    return stack(c, Layer(mixer=attention(c, kv_absent=2, qkv_bias=True), ffn=dense(c), n_norms=4))


def _text_at_either_level(c: Config, model_type: str) -> Shape:
    """Text keys in `text_config`, or at the top as in the files of the first releases."""
    if c.given("text_config"):
        return text_part(c, model_type=model_type, tied=False, either=True)
    return qwen2_vl_text(c)


def _depth(v: Config, absent: int) -> int:
    return v.n_layers("num_hidden_layers", "depth", absent=absent)


def _heads(v: Config, *, absent: int = 16) -> int:
    return int(v.whole("num_attention_heads", "num_heads", absent=absent, most=100_000))


def _merge(v: Config) -> int:
    return int(v.whole("spatial_merge_size", absent=2, most=64))


def _patch(v: Config, d_model: int, *, side: int, bias: bool) -> Product:
    """The patch embedding: C · t · p · p values of two frames, of which an image fills both."""
    channels, frames = (
        v.whole("in_channels", "num_channels", absent=3, most=10_000),
        v.whole("temporal_patch_size", absent=2, most=1000),
    )
    return product(
        "patch", channels * frames * v.whole("patch_size", absent=side, most=10_000) ** 2, d_model, bias=bias
    )


def _merger(d_model: int, merge: int, *, d_out: int, n: int = 1) -> tuple[Product, ...]:
    """m² patches side by side, through two products; n such mergers."""
    wide, rows = d_model * merge**2, 1.0 / merge**2
    up = Product(name="merge_up", d_in=wide, d_out=wide, bias=True, rows=rows, n=n)
    return (up, Product(name="merge_down", d_in=wide, d_out=d_out, bias=True, rows=rows, n=n))


def _resized(v: Config, merge: int, *, side: int, pixels: tuple[int, int], min_side: bool = False) -> ResizedImage:
    patch = v.whole("patch_size", absent=side, most=10_000)
    return ResizedImage(patch=patch, merge=merge, min_pixels=pixels[0], max_pixels=pixels[1], min_side=min_side)


FAMILIES: dict[str, Callable[[Config], Shape]] = {
    "qwen2_vl": qwen2_vl,
    "qwen2_vl_text": qwen2_vl_text,
    "qwen2_5_vl": qwen2_5_vl,
    "qwen2_5_vl_text": qwen2_vl_text,
    "qwen3_vl": partial(_qwen3_vl, text="qwen3_vl_text", deepstack=(8, 16, 24)),
    "qwen3_vl_moe": partial(_qwen3_vl, text="qwen3_vl_moe_text", deepstack=(8, 16, 24)),
    "qwen3_vl_text": qwen3_vl_text,
    "cosmos3_omni": partial(_qwen3_vl, text="qwen3_vl_text", deepstack=(8, 16, 24)),
    "exaone4_5": exaone4_5,
    "minimax_m3_vl": minimax_m3_vl,
    "qwen3_5": partial(_qwen3_vl, text="qwen3_5_text", deepstack=None),
    "qwen3_5_moe": partial(_qwen3_vl, text="qwen3_5_moe_text", deepstack=None),
    "glm4v": partial(_glm4v, text="glm4v_text"),
    "glm4v_moe": partial(_glm4v, text="glm4v_moe_text"),
    "glm4v_text": glm4v_text,
}
