"""Towers from elsewhere before decoders from elsewhere: CLIP, SigLIP, Pixtral, InternViT, MoonViT, with a projector."""

from __future__ import annotations

from collections.abc import Callable

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.families.common import LAYER_NORM, RMS_NORM, Shape, over, plain
from roofline.specs.huggingface.families.vision import (
    encoder_layer,
    patches,
    product,
    sides,
    text_part,
    text_shape,
    vision_section,
    with_towers,
)
from roofline.specs.huggingface.families.vision_gemma import siglip
from roofline.specs.images import FixedImage, ImageRule, ShrunkImage, TiledImage
from roofline.specs.towers import Product, Tower

__all__ = ["FAMILIES"]

_CLIP_NAMED = "openai/clip-vit-large-patch14-336"
_CLIP_L_336 = {
    "hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096,
    "image_size": 336, "patch_size": 14, "num_channels": 3,
}  # fmt: skip
_MOON_PATCHES, _MOON_SIDE = 16_384, 512  # patches of an image and of its side, in Kimi K2.5's image processor


def llava(c: Config) -> Shape:
    """LLaVA: a CLIP, SigLIP or Pixtral tower, and two products from the layers of `vision_feature_layer`, side by side."""
    text = text_part(c, model_type="llama", tied=False, either=True)
    v = vision_section(c, among=("clip_vision_model", "siglip_vision_model", "pixtral"))
    if v is None:
        return text
    return with_towers(text, _tower(c, v, text["d_model"], whole_image=True))


def llava_next(c: Config) -> Shape:
    """LLaVA-NeXT: LLaVA with an embedding for line breaks. How many tiles an image becomes is not described here."""
    text = text_part(c, model_type="llama", tied=False)
    v = vision_section(c, among=("clip_vision_model", "siglip_vision_model"))
    if v is None:
        return text
    tower = _tower(c, v, text["d_model"], whole_image=False)
    return with_towers(text, tower.model_copy(update={"vectors": tower.vectors | {"line_break": text["d_model"]}}))


def _tower(c: Config, v: Config, d_text: int, *, whole_image: bool) -> Tower:
    """The tower by its `model_type`; of a class token's tower, all tokens but that go on unless "full" are selected."""
    kind = v.word("model_type", absent="clip_vision_model")
    if kind == "pixtral":
        return _pixtral(v, projector=_two(c, v.whole("hidden_size", absent=1024), d_text), vectors={}, merge=1)
    n_patches, _ = patches(v, image=224, patch=16 if kind == "siglip_vision_model" else 32)
    all_of_them = c.word("vision_feature_select_strategy", absent="default", among=("default", "full")) == "full"
    n_tokens = n_patches + (kind == "clip_vision_model")
    n_given = n_tokens if all_of_them else n_tokens - 1
    projector = _two(c, v.whole("hidden_size", absent=768), d_text, rows=n_given / n_tokens)
    image = FixedImage(tower_tokens=n_tokens, prompt_tokens=n_given) if whole_image else None
    if kind == "siglip_vision_model":
        return siglip(v, projector=projector, vectors={}, image=image)
    return _clip(v, projector=projector, image=image)


def _two(c: Config, d: int, d_text: int, *, rows: float = 1.0, bias: bool = True) -> tuple[Product, ...]:
    """The projector: (D · feature layers, D_text), then (D_text, D_text)."""
    n = 1
    if isinstance(c.data.get("vision_feature_layer"), list):
        n = max(1, len(c.items("vision_feature_layer", kind=int, longest=1000)))
    bias = c.flag("multimodal_projector_bias", absent=bias)
    up = product("project_up", d * n, d_text, bias=bias, rows=rows)
    return (up, product("project_down", d_text, d_text, bias=bias, rows=rows))


def _clip(v: Config, *, projector: tuple[Product, ...], image: ImageRule | None) -> Tower:
    """CLIP: biases everywhere but on the patches, a class token, norms before and after the layers."""
    d, (n_patches, pixels) = v.whole("hidden_size", absent=768), patches(v, image=224, patch=32)
    n_heads = v.whole("num_attention_heads", absent=12, most=100_000)
    layer = encoder_layer(v, d, n_heads=n_heads, d_ff=v.whole("intermediate_size", absent=3072))
    rows = n_patches / (n_patches + 1)
    return Tower(
        kind="vision", d_model=d, norm=LAYER_NORM, n_norms=2,
        stem=(product("patch", pixels * v.whole("num_channels", absent=3, most=10_000), d, bias=False, rows=rows),),
        layers=plain(v.n_layers("num_hidden_layers", absent=12), layer),
        projector=projector, vectors={"class": d, "positions": (n_patches + 1) * d}, image=image,
    )  # fmt: skip


def mistral3(c: Config) -> Shape:
    """Mistral 3 and Ministral 3: a Pixtral tower whose normed patches are merged m × m before the projector."""
    text = text_part(c, model_type="mistral", tied=True)
    v = vision_section(c, among=("pixtral",))
    if v is None:
        return text
    d, merge = v.whole("hidden_size", absent=1024), c.whole("spatial_merge_size", absent=2, most=64)
    rows = 1.0 / merge**2
    merger = product("merge", d * merge**2, d, bias=False, rows=rows)
    projector = (merger, *_two(c, d, text["d_model"], rows=rows, bias=False))
    return with_towers(text, _pixtral(v, projector=projector, vectors={"projector_norm": d}, merge=merge))


def _pixtral(v: Config, *, projector: tuple[Product, ...], vectors: dict[str, int], merge: int) -> Tower:
    """Pixtral: rotary, gated, no bias anywhere, a norm before the layers; `image_size` bounds the longer side, and every
    row of merged patches ends in a line break."""
    d, side = v.whole("hidden_size", absent=1024), v.whole("image_size", absent=1024, most=1_000_000)
    n_heads = v.whole("num_attention_heads", absent=16, most=100_000)
    d_ff, patch = v.whole("intermediate_size", absent=4096), v.whole("patch_size", absent=16, most=10_000)
    layer = encoder_layer(v, d, n_heads=n_heads, d_ff=d_ff, bias=False, gated=True)
    return Tower(
        kind="vision", d_model=d, norm=RMS_NORM, n_norms=1,
        stem=(product("patch", v.whole("num_channels", absent=3, most=10_000) * patch**2, d, bias=False),),
        layers=plain(v.n_layers("num_hidden_layers", absent=24), layer),
        projector=projector, vectors=vectors,
        image=ShrunkImage(patch=patch, merge=merge, max_side=side, row_tokens=1),
    )  # fmt: skip


def _idefics3(c: Config) -> Shape:
    """Idefics 3 and SmolVLM: SigLIP without a head; s × s patches side by side are one token. How many tiles an image
    becomes is not described here."""
    text = text_part(c, model_type="llama", tied=False)
    v = vision_section(c)
    if v is None:
        return text
    scale = c.whole("scale_factor", absent=2, most=64)
    wide = v.whole("hidden_size", absent=1152) * scale**2
    project = product("project", wide, text["d_model"], bias=False, rows=1.0 / scale**2)
    defaults = (1152, 12, 16, 3072, 224, 32)
    return with_towers(text, siglip(v, projector=(project,), vectors={}, image=None, pooled=False, defaults=defaults))


def lfm2_vl(c: Config) -> Shape:
    """LFM2-VL: SigLIP 2, whose table has `num_patches` positions whatever the image's shape; patches s × s side by side
    go through two products. How many tiles an image becomes is not described here."""
    text = text_part(c, model_type="lfm2", tied=bool(c.flag("tie_embedding", absent=True)))
    v = vision_section(c, among=("siglip2_vision_model",))
    if v is None:
        return text
    scale = c.whole("downsample_factor", absent=2, most=64)
    wide, rows = v.whole("hidden_size", absent=768) * scale**2, 1.0 / scale**2
    middle, bias = c.whole("projector_hidden_size", absent=2560), c.flag("projector_bias", absent=True)
    projector = (
        product("project_up", wide, middle, bias=bias, rows=rows),
        product("project_down", middle, text["d_model"], bias=bias, rows=rows),
    )
    norm = LAYER_NORM.n_params(wide) if c.flag("projector_use_layernorm", absent=True) else 0
    places = v.whole("num_patches", absent=256), v.whole("patch_size", absent=16, most=10_000) ** 2
    tower = siglip(v, projector=projector, vectors={"projector_norm": norm}, image=None, places=places)
    return with_towers(text, tower)


def phi3_v(c: Config) -> Shape:
    """Phi-3 and 3.5 vision: CLIP ViT-L/14 at 336 pixels, which the file only names; four of its patches side by side go
    through two products, and two learned marks end rows and tiles. Tiles are not described here."""
    text = text_shape(c, "phi3")
    if not c.given("img_processor"):
        c.assume("img_processor", "no tower", "the file describes the text part alone")
        return text
    named = c.section("img_processor")
    named.word("name", among=("clip_vision_model",))
    named.word("model_name", absent=_CLIP_NAMED, null=_CLIP_NAMED, among=(_CLIP_NAMED,))
    named.whole("image_dim_out", absent=1024, least=1024, most=1024)
    v = over(named, _CLIP_L_336)
    rows = 576 / 577 / 4
    projector = (
        product("project_up", 4096, text["d_model"], rows=rows),
        product("project_down", text["d_model"], text["d_model"], rows=rows),
    )
    tower = _clip(v, projector=projector, image=None)
    return with_towers(text, tower.model_copy(update={"vectors": tower.vectors | {"marks": 2 * 4096}}))


def internvl(c: Config) -> Shape:
    """InternVL: InternViT with a class token and a learned scale on either half of a layer; patches are shuffled
    together, 1 / r on a side by `downsample_ratio` r."""
    return _internvl(c, text_part(c, model_type="qwen2", tied=True))


def internvl_chat(c: Config) -> Shape:
    """InternVL as first released, with other names for the same keys; whether the head is tied its text part says."""
    text = c.section("llm_config")
    shape = text_shape(text, text.word("model_type"))
    if not c.given("vision_config"):
        return _internvl(c, shape)
    v = c.section("vision_config")
    same = {
        "model_type": "internvl_vision",
        "attention_bias": v.flag("qkv_bias", absent=True),
        "use_qk_norm": v.flag("qk_normalization", absent=True),
        "norm_type": v.word("norm_type", absent="rms_norm"),
    }
    return _internvl(over(c, {"vision_config": v.data | same}), shape)


def _internvl(c: Config, text: Shape) -> Shape:
    v = vision_section(c, among=("internvl_vision",))
    if v is None:
        return text
    d, (n_patches, pixels) = v.whole("hidden_size", absent=1024), patches(v, image=448, patch=14)
    merge = int(1.0 / c.number("downsample_ratio", absent=0.5, least=0.01, most=1.0))
    tokens, rms = (
        n_patches + 1,
        v.word("norm_type", absent="layer_norm", among=("layer_norm", "rms_norm")) == "rms_norm",
    )
    layer = encoder_layer(
        v, d, n_heads=v.whole("num_attention_heads", absent=16, most=100_000),
        d_ff=v.whole("intermediate_size", absent=4096), qkv_bias=v.flag("attention_bias", absent=False),
        qk_norm="full" if v.flag("use_qk_norm", absent=False) else "none", vectors=2 * d,
    )  # fmt: skip
    n_positions = tokens if v.flag("use_absolute_position_embeddings", absent=True) else 0
    wide, rows, n_given = d * merge**2, n_patches / merge**2 / tokens, n_patches // merge**2
    last = 0 if v.flag("use_mean_pooling", absent=True) else LAYER_NORM.n_params(d)
    tile, _ = sides(v, "image_size", absent=448)
    channels, n_layers = v.whole("num_channels", absent=3, most=10_000), v.n_layers("num_hidden_layers", absent=24)
    tower = Tower(
        kind="vision", d_model=d, norm=RMS_NORM if rms else LAYER_NORM,
        stem=(product("patch", pixels * channels, d, rows=n_patches / tokens),),
        layers=plain(n_layers, layer),
        projector=(
            product("project_up", wide, text["d_model"], rows=rows),
            product("project_down", text["d_model"], text["d_model"], rows=rows),
        ),
        vectors={
            "class": d, "mask": d if v.flag("use_mask_token", absent=False) else 0, "positions": n_positions * d,
            "last_norm": last, "projector_norm": LAYER_NORM.n_params(wide),
        },
        image=TiledImage(tile=tile, max_tiles=12, tower_tokens=tokens, prompt_tokens=n_given, canvas="shape"),
    )  # fmt: skip
    return with_towers(text, tower)


def kimi_k25(c: Config) -> Shape:
    """Kimi K2.5: MoonViT, biases everywhere, a table of positions, patches merged m × m before two products. Keys are the
    released file's (`vt_…`) or transformers' own."""
    text = text_part(c, model_type="deepseek_v3", tied=True)
    v = vision_section(c)
    if v is None:
        return text
    d = v.whole("vt_hidden_size", "hidden_size", absent=1152)
    down, across = v.items("merge_kernel_size", kind=int, absent=[2, 2], length=2)
    if not (1 <= down <= 64 and down == across):
        raise v.wrong("merge_kernel_size", "the same number from 1 to 64 twice", [down, across])
    patch = v.whole("patch_size", absent=14, most=10_000)
    wide, rows = d * down * across, 1.0 / (down * across)
    rows_high = v.whole("init_pos_emb_height", "pos_emb_height", absent=64, most=100_000)
    columns = v.whole("init_pos_emb_width", "pos_emb_width", absent=64, most=100_000)
    n_heads = v.whole("vt_num_attention_heads", "num_attention_heads", absent=16, most=100_000)
    layer = encoder_layer(v, d, n_heads=n_heads, d_ff=v.whole("vt_intermediate_size", "intermediate_size", absent=4304))
    normed = v.whole("mm_hidden_size", absent=c.whole("projection_hidden_size", absent=d))
    tower = Tower(
        kind="vision", d_model=d, norm=LAYER_NORM, n_norms=1,
        stem=(product("patch", 3 * patch**2, d),),
        layers=plain(v.n_layers("vt_num_hidden_layers", "num_hidden_layers", absent=27), layer),
        projector=(
            product("project_up", wide, wide, rows=rows),
            product("project_down", wide, text["d_model"], rows=rows),
        ),
        vectors={"positions": rows_high * columns * d, "projector_norm": LAYER_NORM.n_params(normed)},
        image=ShrunkImage(patch=patch, merge=down, max_side=_MOON_SIDE * patch, max_patches=_MOON_PATCHES),
    )  # fmt: skip
    return with_towers(text, tower)


FAMILIES: dict[str, Callable[[Config], Shape]] = {
    "llava": llava,
    "llava_next": llava_next,
    "mistral3": mistral3,
    "idefics3": _idefics3,
    "smolvlm": _idefics3,
    "internvl": internvl,
    "internvl_chat": internvl_chat,
    "lfm2_vl": lfm2_vl,
    "phi3_v": phi3_v,
    "kimi_k25": kimi_k25,
}
