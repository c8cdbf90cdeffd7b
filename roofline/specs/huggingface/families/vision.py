"""What vision-language adapters share: the text part read by its own family, and the pieces vision towers are made of."""

from __future__ import annotations

from typing import Any

from roofline.errors import Unsupported, did_you_mean, shorten
from roofline.specs.ffns import Dense
from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.families.common import Shape, over
from roofline.specs.layers import Layer
from roofline.specs.mixers import Attention
from roofline.specs.towers import Product, Tower

__all__ = ["encoder_layer", "patches", "product", "sides", "text_part", "text_shape", "vision_section", "with_towers"]


def text_part(c: Config, *, model_type: str, tied: bool | None, either: bool = False) -> Shape:
    """`text_config` through the adapter of its own `model_type`, or of this one where it names none.

    Whether the head is tied, the upper level says; `tied` is the class's default. An explicit false of the text part
    stands against a default of true: such checkpoints store a head. With `either`, a true of the text part will do too;
    none: the text part decides alone.
    """
    text = c.section("text_config", absent={})
    word = text.word("model_type", absent=None, null=None) or model_type
    if tied is not None:
        inner = text.flag("tie_word_embeddings") if text.given("tie_word_embeddings") else None
        default = tied and inner is not False
        above = bool(c.flag("tie_word_embeddings", absent=default, null=default))
        text = over(text, {"tie_word_embeddings": above or (either and inner is True)})
    return text_shape(text, word)


def text_shape(text: Config, model_type: str) -> Shape:
    """The shape that the adapter of a `model_type` makes of a nested config."""
    from roofline.specs.huggingface.families import FAMILIES  # the registry is built from this module

    adapter = FAMILIES.get(model_type)
    if adapter is None:
        near = did_you_mean(model_type, FAMILIES)
        raise Unsupported(f'{text.place("model_type")}: "{shorten(model_type)}" is not supported as a text part{near}')
    return adapter(text)


def vision_section(c: Config, *, among: tuple[str, ...] = ()) -> Config | None:
    """`vision_config`; none where it is missing or null: such a file describes the text part alone.

    `among`: the kinds of tower the family is read with; another `model_type` is refused.
    """
    if not c.given("vision_config"):
        c.assume("vision_config", "no tower", "the file describes the text part alone")
        return None
    vision = c.section("vision_config")
    word = vision.word("model_type", absent=None, null=None)
    if among and word is not None and word not in among:
        raise Unsupported(f"{vision.place('model_type')}: a tower of {shorten(word)} is not supported here; expected one of "
                          f"{', '.join(among)}")  # fmt: skip
    return vision


def with_towers(text: Shape, *towers: Tower | None) -> Shape:
    """The text part with towers before it."""
    return text | {"towers": tuple(t for t in towers if t is not None)}


def sides(c: Config, key: str, *, absent: int) -> tuple[int, int]:
    """A height and width in pixels, given as a pair or as one number for both."""
    if not isinstance(c.data.get(key), list):
        side = c.whole(key, absent=absent, most=1_000_000)
        return side, side
    height, width = c.items(key, kind=int, length=2)
    if not (1 <= height <= 1_000_000 and 1 <= width <= 1_000_000):
        raise c.wrong(key, "two whole numbers from 1 to 1,000,000", [height, width])
    return height, width


def patches(c: Config, *, image: int, patch: int) -> tuple[int, int]:
    """(patches of an image of `image_size`, pixels of a patch)."""
    (height, width), (down, across) = sides(c, "image_size", absent=image), sides(c, "patch_size", absent=patch)
    n = (height // down) * (width // across)
    if n == 0:
        raise c.wrong("patch_size", f"at most the image's side, {min(height, width)}", down)
    return n, down * across


def encoder_layer(
    c: Config, d_model: int, *, n_heads: int, d_ff: int, bias: bool = True, gated: bool = False, n_norms: int = 2,
    vectors: int = 0, window: int | None = None, n_kv_heads: int | None = None, **more: Any,
) -> Layer:  # fmt: skip
    """Attention of all patches over all, or within square windows, and a block; `bias` on every matrix of both."""
    if d_model % n_heads:
        raise c.wrong("num_attention_heads", f"a divisor of the width {d_model}", n_heads)
    n_kv_heads = n_kv_heads or n_heads
    if n_heads % n_kv_heads:
        raise c.wrong("num_key_value_heads", f"a divisor of num_heads={n_heads}", n_kv_heads)
    biases = {"qkv_bias": bias, "out_bias": bias} | more
    mixer = Attention(
        n_heads=n_heads, n_kv_heads=n_kv_heads, d_head=d_model // n_heads, causal=False,
        window=window, chunked=window is not None, **biases,
    )  # fmt: skip
    return Layer(mixer=mixer, ffn=Dense(d_ff=d_ff, gated=gated, bias=bias), n_norms=n_norms, vectors=vectors)


def product(name: str, d_in: int, d_out: int, *, bias: bool = True, rows: float = 1.0, once: bool = False) -> Product:
    """A product of stem or projector; `rows` for every token the layers see."""
    return Product(name=name, d_in=d_in, d_out=d_out, bias=bias, rows=rows, once=once)
