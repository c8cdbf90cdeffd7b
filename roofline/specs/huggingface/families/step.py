"""Step 3.5 and 3.7: window layers with more heads, gated heads, experts; 3.7 with an encoder of images before it."""

from __future__ import annotations

import re

from roofline.specs.ffns import Dense
from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.families.common import LAYER_NORM, Shape, basics, over, plain, sparse, tied
from roofline.specs.huggingface.families.llama import mlp_bias
from roofline.specs.huggingface.families.mixtures import (
    EXPERTS,
    blocks,
    by_word,
    experts,
    filled,
    headed,
    listed,
    mtp,
    sparse_from,
    stacked,
)
from roofline.specs.layers import Layer
from roofline.specs.mixers import Attention
from roofline.specs.towers import Product, Tower

__all__ = ["FAMILIES"]


def step3p7(c: Config) -> Shape:
    """Step 3.7: a vision tower, two strided convolutions that leave a sixteenth of its patches, a projection, Step 3.5."""
    shape = step3p5(c.section("text_config", absent={}))
    tower = _vision(c.section("vision_config", absent={}), shape["d_model"], c.flag("projector_bias", absent=False))
    head = shape["head"]
    return shape | {"towers": (tower,), "head": head and {"tied": tied(c, by_default=False)}}


def _vision(c: Config, d_model: int, projector_bias: bool) -> Tower:
    """Its layers scale what attention and block add, by a vector each; `width`, `layers`, `heads` are older names."""
    width = c.whole("width", "hidden_size", absent=1536)
    n_heads = c.whole("heads", "num_attention_heads", absent=16, most=width)
    patch, channels = c.whole("patch_size", absent=14), c.whole("num_channels", absent=3, most=1000)
    side = c.whole("image_size", absent=728, least=patch, most=1_000_000) // patch
    ratio = c.number("mlp_ratio", absent=8960 / 1536, least=0.001, most=1000)
    mixer = Attention(
        n_heads=n_heads, n_kv_heads=n_heads, d_head=width // n_heads, causal=False, qkv_bias=True, out_bias=True
    )
    layer = Layer(mixer=mixer, ffn=Dense(d_ff=int(width * ratio), gated=False, bias=True), vectors=2 * width)
    return Tower(
        kind="vision",
        d_model=width,
        stem=(Product(name="patch", d_in=channels * patch**2, d_out=width),),
        norm=LAYER_NORM,
        n_norms=1,
        layers=plain(c.n_layers("layers", "num_hidden_layers", absent=47), layer),
        projector=(
            Product(name="downsample_1", d_in=9 * width, d_out=2 * width, bias=True, rows=1 / 4),
            Product(name="downsample_2", d_in=18 * width, d_out=4 * width, bias=True, rows=1 / 16),
            Product(name="project", d_in=4 * width, d_out=d_model, bias=projector_bias, rows=1 / 16),
        ),
        vectors={"positions": side**2 * width},
    )


def step3p5(c: Config) -> Shape:
    """Step 3.5, and the text part of Step 3.7: window layers have more query heads, an output gate a head; lists a layer
    may go on over the further-token modules."""
    c = sparse(c, vocab=128815, width=4096, ff=11264, layers=45, heads=64, context=128000)
    c = filled(c, head_dim=128, moe_intermediate_size=1280, intermediate_size=11264, sliding_window=None)
    n, further = c.n_layers(), c.whole("num_nextn_predict_layers", absent=0, null=0, least=0, most=1000)
    window, n_full = c.whole("sliding_window", null=None, most=2**40), c.whole("num_attention_heads", most=100_000)
    n_local = _step_local_heads(c, n_full)
    local = by_word(
        _padded(c, "layer_types", n, further), "layer_types", {"sliding_attention": True, "full_attention": False},
        n_layers=n + further, absent=[False] * (n + further), said="all full",
    )  # fmt: skip
    n_heads, windows = [n_local if x else n_full for x in local], [window if x else None for x in local]
    mixers = headed(c, n_heads, windows, key="num_attention_heads", gated="head")
    bias = mlp_bias(c)
    moe = experts(
        c, count=("moe_num_experts", *EXPERTS), active=("moe_top_k", "num_experts_per_tok"), n_absent=288, k_absent=8,
        d_shared=c.whole("share_expert_dims", "share_expert_dim", absent=1280), shared_bias=bias,
    )  # fmt: skip
    ffns = blocks(c, _step_sparse(c, n, further), moe, bias=bias)
    guess = mtp(c, Layer(mixer=mixers[n], ffn=ffns[n])) if further else None
    return basics(c, tied_by_default=False) | {"layers": stacked(mixers[:n], ffns[:n]), "mtp": guess}


def _step_local_heads(c: Config, n_full: int) -> int:
    """Query heads of the window layers: by their own key, or in `attention_other_setting`; else as many as the others."""
    if c.given("num_sliding_attention_heads") or not c.given("attention_other_setting"):
        return int(c.whole("num_sliding_attention_heads", absent=n_full, null=n_full, most=100_000))
    return int(c.section("attention_other_setting").whole("num_attention_heads", absent=n_full, most=100_000))


def _padded(c: Config, key: str, n: int, further: int) -> Config:
    """With the list of that key, where it stops at the last layer, gone on with its last word over the further modules."""
    words = listed(c, key, kind=str)
    if not words or len(words) != n:
        return c
    return over(c, {key: words + words[-1:] * further})


def _step_sparse(c: Config, n: int, further: int) -> list[bool]:
    """Which layers have experts: as `mlp_layer_types` or `moe_layers_enum` says, else all from the fourth on."""
    if c.given("mlp_layer_types"):
        return sparse_from(_padded(c, "mlp_layer_types", n, further), n + further, first=0)
    if not c.given("moe_layers_enum"):
        c.assume("moe_layers_enum", "all from the fourth on")
        return [3 <= i < n for i in range(n + further)]
    given = c.data["moe_layers_enum"]
    if isinstance(given, str):
        if re.fullmatch(r"(\s*\d{0,5}\s*,)*\s*\d{0,5}\s*", given) is None:
            raise c.wrong("moe_layers_enum", "numbers with commas between them", given)
        having = {int(item) for item in given.split(",") if item.strip()}
    else:
        having = set(c.items("moe_layers_enum", kind=int))
    return [i in having for i in range(n + further)]


FAMILIES = {"step3p5": step3p5, "step3p7": step3p7}
