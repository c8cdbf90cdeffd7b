"""Towers of the Gemma line: SigLIP at one size (Gemma 3, PaliGemma), a budget of patches and a Conformer (Gemma 4)."""

from __future__ import annotations

import math
from collections.abc import Callable

from roofline.specs.ffns import Dense
from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.families.common import LAYER_NORM, Shape, plain
from roofline.specs.huggingface.families.vision import (
    encoder_layer,
    patches,
    product,
    text_part,
    vision_section,
    with_towers,
)
from roofline.specs.images import FilledImage, FixedImage, ImageRule
from roofline.specs.layers import Group, Layer
from roofline.specs.mixers import Attention
from roofline.specs.towers import Product, Tower

__all__ = ["FAMILIES", "siglip"]

_MEL_BINS = 128  # of Gemma 4's feature extractor


def siglip(
    v: Config, *, projector: tuple[Product, ...], vectors: dict[str, int], image: ImageRule | None,
    pooled: bool = True, defaults: tuple[int, int, int, int, int, int] = (768, 12, 12, 3072, 224, 16),
    places: tuple[int, int] | None = None,
) -> Tower:  # fmt: skip
    """SigLIP: biases everywhere, learned positions, no class token. `defaults`: width, layers, heads, block, image, patch;
    `places`: positions and pixels of a patch, where no image's size says them.

    `pooled` classes have, unless `vision_use_head` is false, a head in which one learned query attends to all patches.
    """
    width, n_layers, n_heads, wide, side, patch = defaults
    d, d_ff = v.whole("hidden_size", absent=width), v.whole("intermediate_size", absent=wide)
    n_positions, pixels = places or patches(v, image=side, patch=patch)
    layer = encoder_layer(v, d, n_heads=v.whole("num_attention_heads", absent=n_heads, most=100_000), d_ff=d_ff)
    head: tuple[Product, ...] = ()
    vectors = vectors | {"positions": n_positions * d}
    if pooled and v.flag("vision_use_head", absent=True):
        once = (("q", d, d), ("o", d, d), ("up", d, d_ff), ("down", d_ff, d))
        head = (
            *(product(f"head_{name}", d_in, d_out, once=True) for name, d_in, d_out in once),
            product("head_k", d, d),
            product("head_v", d, d),
        )
        vectors |= {"head_query": d, "head_norm": LAYER_NORM.n_params(d)}
    return Tower(
        kind="vision", d_model=d, norm=LAYER_NORM, n_norms=1,
        stem=(product("patch", pixels * v.whole("num_channels", absent=3, most=10_000), d),),
        layers=plain(v.n_layers("num_hidden_layers", absent=n_layers), layer),
        projector=(*head, *projector), vectors=vectors, image=image,
    )  # fmt: skip


def gemma3(c: Config) -> Shape:
    """Gemma 3: 896 × 896 pixels, 4096 patches, averaged to `mm_tokens_per_image` tokens, normed and projected."""
    text = text_part(c, model_type="gemma3_text", tied=True)
    v = vision_section(c, among=("siglip_vision_model",))
    if v is None:
        return text
    n, _ = patches(v, image=224, patch=16)
    n_tokens = math.isqrt(c.whole("mm_tokens_per_image", absent=256, null=256, most=n)) ** 2
    d = v.whole("hidden_size", absent=768)
    project = product("project", d, text["d_model"], bias=False, rows=n_tokens / n)
    image = FixedImage(tower_tokens=n, prompt_tokens=n_tokens)
    return with_towers(text, siglip(v, projector=(project,), vectors={"projector_norm": d}, image=image))


def paligemma(c: Config) -> Shape:
    """PaliGemma: every patch of a fixed size becomes a token, `projection_dim` wide."""
    text = text_part(c, model_type="gemma", tied=True)
    v = vision_section(c, among=("siglip_vision_model",))
    if v is None:
        return text
    n, _ = patches(v, image=224, patch=16)
    project = product("project", v.whole("hidden_size", absent=768), c.whole("projection_dim", absent=2048))
    image = FixedImage(tower_tokens=n, prompt_tokens=n)
    return with_towers(text, siglip(v, projector=(project,), vectors={}, image=image))


def gemma4(c: Config) -> Shape:
    """Gemma 4: towers of image and sound, each only where its config is there; clipping bounds are no parameters."""
    text = text_part(c, model_type="gemma4_text", tied=True)
    image = _gemma4_image(c, c.section("vision_config"), text["d_model"]) if c.given("vision_config") else None
    sound = _gemma4_sound(c.section("audio_config"), text["d_model"]) if c.given("audio_config") else None
    return with_towers(text, image, sound)


def _gemma4_image(c: Config, v: Config, d_text: int) -> Tower:
    """Four norms a layer and one over each query and key head; positions from a table of rows and one of columns;
    squares of `pooling_kernel_size` are averaged. `vision_soft_tokens_per_image` is the budget of the preprocessor."""
    d, n = v.whole("hidden_size", absent=768), v.whole("num_attention_heads", absent=12, most=100_000)
    k = v.whole("num_key_value_heads", absent=12, most=100_000)
    if n % k:
        raise v.wrong("num_key_value_heads", f"a divisor of num_attention_heads={n}", k)
    d_head = v.whole("head_dim", absent=64)
    mixer = Attention(n_heads=n, n_kv_heads=k, d_head=d_head, causal=False, qk_norm="head")
    layer = Layer(mixer=mixer, ffn=Dense(d_ff=v.whole("intermediate_size", absent=3072)), n_norms=4)
    patch, pool = v.whole("patch_size", absent=16, most=10_000), v.whole("pooling_kernel_size", absent=3, most=64)
    budget = c.whole("vision_soft_tokens_per_image", absent=280, null=280, most=100_000)
    return Tower(
        kind="vision", d_model=d,
        stem=(product("patch", 3 * patch**2, d, bias=False),),
        layers=plain(v.n_layers("num_hidden_layers", absent=16), layer),
        projector=(product("project", d, d_text, bias=False, rows=1.0 / pool**2),),
        vectors={"positions": 2 * d * v.whole("position_embedding_size", absent=10_240)},
        image=FilledImage(patch=patch, merge=pool, max_tokens=budget),
    )  # fmt: skip


def _gemma4_sound(a: Config, d_text: int) -> Tower:
    """A Conformer: half a block, attention over a few frames back, a gated depthwise convolution, half a block; every layer
    projects relative positions to keys. Two convolutions before it turn four frames of 10 ms into a token."""
    d, n_layers = a.whole("hidden_size", absent=1024), a.n_layers("num_hidden_layers", absent=12)
    first, second = _channels(a)
    chunk, left, right = (
        a.whole(f"attention_{key}", absent=size, least=least, most=100_000)
        for key, size, least in (("chunk_size", 12, 1), ("context_left", 13, 1), ("context_right", 0, 0))
    )
    places = (chunk + left - 1 + right) // 2 + 1
    kernel, out = a.whole("conv_kernel_size", absent=5, most=1000), a.whole("output_proj_dims", absent=1536)
    return Tower(
        kind="audio", d_model=d,
        stem=(
            product("conv1", 9, first, bias=False, rows=2 * (_MEL_BINS // 2)),
            product("conv2", 9 * first, second, bias=False, rows=_MEL_BINS // 4),
            product("conv_out", first // 4 * second, d, bias=False),
            Product(name="depthwise", d_in=kernel, d_out=1, n=n_layers * d),
            Product(name="relative_keys", d_in=d, d_out=d, n=n_layers, rows=places, once=True),
        ),
        layers=(Group(repeat=n_layers, layers=_conformer(a, d, window=left + right)),),
        projector=(product("out", d, out), product("project", out, d_text, bias=False)),
        vectors={"conv_norms": first + second},
    )  # fmt: skip


def _conformer(a: Config, d: int, *, window: int) -> tuple[Layer, ...]:
    """The parts of a layer one by one: a block, attention, the convolution's products (a gated block as wide as the
    model), a block and a last norm."""
    n_heads = a.whole("num_attention_heads", absent=8, most=100_000)
    if d % n_heads:
        raise a.wrong("num_attention_heads", f"a divisor of hidden_size={d}", n_heads)
    mixer = Attention(n_heads=n_heads, n_kv_heads=n_heads, d_head=d // n_heads, causal=False, window=window)
    block = Dense(d_ff=4 * d, gated=False)
    return (
        Layer(ffn=block, n_norms=2),
        Layer(mixer=mixer, n_norms=2, vectors=d // n_heads),
        Layer(ffn=Dense(d_ff=d), n_norms=2),
        Layer(ffn=block, n_norms=3),
    )


def _channels(a: Config) -> tuple[int, int]:
    pair = a.items("subsampling_conv_channels", kind=int, absent=[128, 32], length=2)
    if not (4 <= pair[0] <= 100_000 and 1 <= pair[1] <= 100_000):
        raise a.wrong("subsampling_conv_channels", "two whole numbers from 4 and 1 to 100,000", pair)
    return pair[0], pair[1]


FAMILIES: dict[str, Callable[[Config], Shape]] = {"gemma3": gemma3, "gemma4": gemma4, "paligemma": paligemma}
