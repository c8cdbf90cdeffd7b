"""Meta's towers: tiles that attend to each other and feed cross-attention (Llama 3.2), tiles by themselves (Llama 4)."""

from __future__ import annotations

from collections.abc import Callable

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.families.common import (
    LAYER_NORM,
    Shape,
    dense,
    plain,
    sparse,
    stack,
    whole_heads,
)
from roofline.specs.huggingface.families.vision import (
    encoder_layer,
    patches,
    product,
    text_part,
    vision_section,
    with_towers,
)
from roofline.specs.images import TiledImage
from roofline.specs.layers import Layer
from roofline.specs.mixers import Attention, CrossAttention
from roofline.specs.model import Embedding
from roofline.specs.towers import Tower

__all__ = ["FAMILIES"]

_CROSSED = [3, 8, 13, 18, 23, 28, 33, 38]
_TILED = [3, 7, 15, 23, 30]
_TILE = 336  # pixels, and at most 16 tiles: Llama 4's image processor
_PADDED = 8  # Llama 3.2 fills a tile's tokens up to a multiple of this


def mllama(c: Config) -> Shape:
    """Llama 3.2 vision: the layers of `cross_attention_layers` attend to the image instead of the text, with a gate for
    each half; the token table has eight rows that the head has not."""
    text = sparse(
        c.section("text_config", absent={}), vocab=128256, width=4096, ff=14336, layers=40, heads=32, context=131_072
    )
    n, d = whole_heads(text), text.whole("hidden_size")
    k, n_layers = text.whole("num_key_value_heads", absent=8, most=100_000), text.n_layers()
    crossed = set(text.items("cross_attention_layers", kind=int, absent=_CROSSED, null=_CROSSED))
    if n % k:
        raise text.wrong("num_key_value_heads", f"a divisor of num_attention_heads={n}", k)
    mixer = Attention(n_heads=n, n_kv_heads=k, d_head=d // n)
    cross = CrossAttention(n_heads=n, n_kv_heads=k, d_head=d // n, d_memory=d, qk_norm=True)
    own, gated = Layer(mixer=mixer, ffn=dense(text)), Layer(cross=cross, ffn=dense(text), vectors=2)
    shape = stack(text, [gated if i in crossed else own for i in range(n_layers)])
    shape |= {"head": {"tied": False}, "embedding": Embedding(vocab_size=shape["vocab_size"] + 8)}
    return with_towers(shape, _tiles(c.section("vision_config", absent={}), d))


def _tiles(v: Config, d_text: int) -> Tower:
    """Local layers, then gated global ones, both over all tiles of an image; what five layers give is set side by side."""
    d, d_ff = v.whole("hidden_size", absent=1280), v.whole("intermediate_size", absent=5120)
    n_heads = v.whole("num_attention_heads", "attention_heads", absent=16, most=100_000)
    n_patches, pixels = patches(v, image=448, patch=14)
    tiles = v.whole("max_num_tiles", absent=4, most=256)
    shapes = v.items("supported_aspect_ratios", kind=list, absent=None, null=None, longest=10_000)
    n_shapes = 1 + (len(shapes) if shapes is not None else 8)
    tokens = n_patches + 1
    padded = -(-tokens // _PADDED) * _PADDED
    local = encoder_layer(v, d, n_heads=n_heads, d_ff=d_ff, qkv_bias=False, out_bias=False)
    last = local.model_copy(update={"vectors": 2})
    return Tower(
        kind="vision", d_model=d, norm=LAYER_NORM, n_norms=2, feeds="memory",
        stem=(product("patch", pixels * v.whole("num_channels", absent=3), d, bias=False, rows=n_patches / padded),),
        layers=(
            *plain(v.n_layers("num_hidden_layers", absent=32), local),
            *plain(v.n_layers("num_global_layers", absent=8), last),
        ),
        projector=(product("project", v.whole("vision_output_dim", absent=7680), d_text, rows=tokens / padded),),
        vectors={
            "class": d,
            "positions": tokens * d,
            "tile_positions": n_shapes * tiles * tokens * d,
            "tiles": 2 * n_shapes * tiles * d,
            "gates": 3,
        },
        image=TiledImage(
            tile=v.whole("image_size", absent=448), max_tiles=tiles, tower_tokens=padded, prompt_tokens=1,
            memory_tokens=tokens, joined=True,
        ),
    )  # fmt: skip


def llama4(c: Config) -> Shape:
    """Llama 4: four patches are shuffled into one, r² of them by `pixel_shuffle_ratio` r, and pass an adapter."""
    text = text_part(c, model_type="llama4_text", tied=None)
    v = vision_section(c)
    if v is None:
        return text
    d, d_ff = v.whole("hidden_size", absent=768), v.whole("intermediate_size", absent=5632)
    n_patches, pixels = patches(v, image=448, patch=14)
    ratio = v.number("pixel_shuffle_ratio", absent=0.5, least=0.001, most=1.0)
    n_tokens = max(1, int(n_patches * ratio**2))
    tokens = n_patches + 1
    middle, out = v.whole("projector_input_dim", absent=4096), v.whole("projector_output_dim", absent=4096)
    layer = encoder_layer(v, d, n_heads=v.whole("num_attention_heads", absent=16, most=100_000), d_ff=d_ff)
    rows = n_tokens / tokens
    tower = Tower(
        kind="vision", d_model=d, norm=LAYER_NORM, n_norms=2,
        stem=(product("patch", pixels * v.whole("num_channels", absent=3), d, bias=False, rows=n_patches / tokens),),
        layers=plain(v.n_layers("num_hidden_layers", absent=34), layer),
        projector=(
            product("adapter_up", d_ff, middle, bias=False, rows=rows),
            product("adapter_down", out, out, bias=False, rows=rows),
            product("project", v.whole("vision_output_dim", absent=7680), text["d_model"], bias=False, rows=rows),
        ),
        vectors={"class": d, "positions": tokens * d},
        image=TiledImage(tile=_TILE, max_tiles=16, tower_tokens=tokens, prompt_tokens=n_tokens, tile_tokens=1),
    )  # fmt: skip
    return with_towers(text, tower)


FAMILIES: dict[str, Callable[[Config], Shape]] = {"mllama": mllama, "llama4": llama4}
