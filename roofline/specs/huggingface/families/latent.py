"""Decoders with latent attention, its sparse and its compressed variants: DeepSeek, Kimi K2, GLM-5."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from roofline.errors import SpecError
from roofline.specs.huggingface.config import REQUIRED, Config
from roofline.specs.huggingface.families.common import Shape, basics, dense, grouped, over, plain, sparse, whole_heads
from roofline.specs.huggingface.families.mixtures import (
    blocks,
    by_word,
    experts,
    filled,
    listed,
    mtp,
    shared_width,
    sparse_from,
    stacked,
)
from roofline.specs.layers import Group, Layer
from roofline.specs.mixers import Compressed, Indexer, Latent
from roofline.specs.model import Mtp

__all__ = ["FAMILIES"]


def deepseek_v2(c: Config) -> Shape:
    """DeepSeek-V2: an absent `q_lora_rank` is 1536, a null one no bottleneck (V2-Lite); `mlp_bias` but for experts."""
    c = filled(
        c, kv_lora_rank=512, q_lora_rank=1536, qk_rope_head_dim=64, qk_nope_head_dim=128, v_head_dim=128,
        moe_intermediate_size=1407, intermediate_size=11008,
    )  # fmt: skip
    n, bias = c.n_layers(), c.flag("mlp_bias", absent=False)
    moe = experts(c, n_absent=64, d_shared=shared_width(c, absent=2), shared_bias=bias)
    ffns = blocks(c, sparse_from(c, n, first=0), moe, bias=bias)
    return basics(c, tied_by_default=False) | {"layers": stacked([_latent(c)] * n, ffns)}


def deepseek_v3(c: Config) -> Shape:
    """DeepSeek-V3 and R1, Kimi K2, Moonlight: dense layers first, one shared block.

    The checkpoint's further-token module stores an embedding and a head of its own.
    """
    c = filled(
        c, kv_lora_rank=512, q_lora_rank=1536, qk_rope_head_dim=64, qk_nope_head_dim=128, v_head_dim=128,
        moe_intermediate_size=2048, intermediate_size=18432, num_experts_per_tok=8,
    )  # fmt: skip
    c = sparse(c, vocab=129280, width=7168, ff=None, layers=61, heads=128, context=4096)
    shape = _mixed(c, first=3, n_absent=256)
    return shape | {"mtp": _guess(c, shape, absent=1, own_tables=True)}


def deepseek_v32(c: Config) -> Shape:
    """DeepSeek-V3.2: V3 with an indexer in every layer."""
    c = filled(
        c, kv_lora_rank=512, q_lora_rank=1536, qk_rope_head_dim=64, qk_nope_head_dim=128, v_head_dim=128,
        moe_intermediate_size=2048, intermediate_size=18432, num_experts_per_tok=8, index_n_heads=64,
    )  # fmt: skip
    shape = _mixed(c, first=3, n_absent=256, mixers=[_latent(c, _indexer(c))] * c.n_layers())
    return shape | {"mtp": _guess(c, shape, own_tables=True)}


def glm_moe_dsa(c: Config) -> Shape:
    """GLM-5: V3.2's attention; "shared" layers (5.2) have no indexer and no index keys: they take the last selection."""
    c = filled(
        c, kv_lora_rank=512, q_lora_rank=2048, qk_rope_head_dim=64, qk_nope_head_dim=192, v_head_dim=256,
        moe_intermediate_size=2048, intermediate_size=12288, num_experts_per_tok=8, index_n_heads=32,
    )  # fmt: skip
    n = c.n_layers()
    full, shared = _latent(c, _indexer(c)), _latent(c, _indexer(c, shared=True))
    mixers = [shared if takes else full for takes in _shared_selections(c, n)]
    shape = _mixed(c, first=3, n_absent=256, mixers=mixers)
    return shape | {"mtp": _guess(c, shape, mixer=full)}


def _shared_selections(c: Config, n: int) -> list[bool]:
    """Which layers take an earlier selection: `indexer_types`, letters, or all but every so many.

    The lists may go on over the further-token modules.
    """
    for key in ("indexer_types", "index_topk_pattern"):
        if c.given(key):
            given = c.data[key]
            words = given if isinstance(given, str) else c.items(key, kind=str)
            return by_word(over(c, {key: list(words[:n])}), key, _SHARED, n_layers=n, absent=(), said="")
    every = max(c.whole("index_topk_freq", absent=1, least=-100_000), 1)
    offset = c.whole("index_skip_topk_offset", absent=2, least=-100_000, most=100_000)
    return [max(i - offset + 1, 0) % every != 0 for i in range(n)]


_SHARED = {"full": False, "shared": True, "F": False, "S": True}


def glm4_moe_lite(c: Config) -> Shape:
    """GLM-4.7-Flash: V3's layers, one dense layer first; tables of its own for the further-token module, as in GLM-4.5."""
    c = filled(
        c, kv_lora_rank=512, q_lora_rank=768, qk_rope_head_dim=64, qk_nope_head_dim=192, v_head_dim=256,
        moe_intermediate_size=1536, intermediate_size=10240, num_experts_per_tok=4,
    )  # fmt: skip
    shape = _mixed(c, first=1, n_absent=64)
    return shape | {"mtp": _guess(c, shape, own_tables=True)}


def axk1(c: Config) -> Shape:
    """A.X K1: V3 with a third norm after the experts; `moe_layer_freq` leaves dense layers between."""
    c = filled(
        c, kv_lora_rank=512, q_lora_rank=1536, qk_rope_head_dim=64, qk_nope_head_dim=128, v_head_dim=128,
        moe_intermediate_size=2048, intermediate_size=18432, num_experts_per_tok=8,
    )  # fmt: skip
    n, every = c.n_layers(), c.whole("moe_layer_freq", absent=1)
    having = sparse_from(c, n, first=1)
    if not c.given("mlp_layer_types"):
        having = [has and i % every == 0 for i, has in enumerate(having)]
    ffns = blocks(c, having, experts(c, n_absent=192, d_shared=shared_width(c, absent=1)))
    mixer = _latent(c)
    layers = [Layer(mixer=mixer, ffn=ffn, n_norms=3 if has else 2) for ffn, has in zip(ffns, having, strict=True)]
    return basics(c, tied_by_default=False) | {"layers": grouped(layers)}


def mistral4(c: Config) -> Shape:
    """Mistral Small 4: V3's layers, experts in all of them unless told otherwise."""
    c = filled(
        c, kv_lora_rank=256, q_lora_rank=1024, qk_rope_head_dim=64, qk_nope_head_dim=64, v_head_dim=128,
        moe_intermediate_size=2048, intermediate_size=12288, num_experts_per_tok=4,
    )  # fmt: skip
    c = sparse(c, vocab=131072, width=4096, ff=None, layers=36, heads=32, context=1048576)
    return _mixed(c, first=0, n_absent=128)


def sarvam_mla(c: Config) -> Shape:
    """Sarvam's larger model: V3's class, without a bottleneck of the queries by default."""
    c = filled(
        c, kv_lora_rank=512, q_lora_rank=None, qk_rope_head_dim=64, qk_nope_head_dim=128, v_head_dim=128,
        moe_intermediate_size=2048, intermediate_size=16384, num_experts_per_tok=8,
    )  # fmt: skip
    shape = _mixed(c, first=1, n_absent=128)
    return shape | {"mtp": _guess(c, shape)}


def minicpm3(c: Config) -> Shape:
    """MiniCPM3: latent attention and dense blocks; an absent or null `v_head_dim` is D / N."""
    c = filled(c, kv_lora_rank=256, q_lora_rank=768, qk_rope_head_dim=32, qk_nope_head_dim=64)
    width = c.whole("hidden_size") // whole_heads(c)
    layer = Layer(mixer=_latent(c, v_absent=width), ffn=dense(c, bias=c.flag("mlp_bias", absent=False)))
    return basics(c, tied_by_default=True) | {"layers": plain(c.n_layers(), layer)}


def youtu(c: Config) -> Shape:
    """Youtu-LLM: latent attention and dense blocks."""
    c = filled(c, kv_lora_rank=512, q_lora_rank=1536, qk_rope_head_dim=64, qk_nope_head_dim=128, v_head_dim=128)
    return basics(c, tied_by_default=True) | {"layers": plain(c.n_layers(), Layer(mixer=_latent(c), ffn=dense(c)))}


def deepseek_v4(c: Config) -> Shape:
    """DeepSeek-V4: compressed attention, several residual streams; experts in every layer, a shared block one expert wide.

    In the first layers a hash of the token picks the experts: a table, not a parameter.
    """
    c = filled(
        c, head_dim=512, q_lora_rank=1024, o_groups=8, o_lora_rank=1024, sliding_window=128, index_n_heads=64,
        index_head_dim=128, index_topk=512, num_experts_per_tok=6, moe_intermediate_size=2048,
    )  # fmt: skip
    n, width = c.n_layers(), c.whole("intermediate_size", "moe_intermediate_size")
    bias = c.flag("mlp_bias", absent=False)
    moe = experts(c, n_absent=256, d_shared=width, shared_bias=bias)
    routing = {"hash_moe": moe, "moe": moe}
    ffns = by_word(c, "mlp_layer_types", routing, n_layers=n, absent=[moe] * n, said="by num_hash_layers")
    kinds = _v4_kinds(c)
    mixers = _v4_mixers(c, kinds, n)
    guess = mtp(c, Layer(mixer=kinds["sliding_attention"], ffn=moe), absent=1)
    shape = basics(c, tied_by_default=False)
    streams = c.whole("hc_mult", absent=4, least=2, most=64)
    return shape | {"layers": stacked(mixers, ffns), "residual_streams": streams, "mtp": guess}


_V4_RATIOS = {0: "sliding_attention", 4: "compressed_sparse_attention", 128: "heavily_compressed_attention"}


def _v4_kinds(c: Config) -> dict[str, Compressed]:
    """The three kinds of attention by name: the window alone, finely compressed with an indexer, coarsely without."""
    said = {"compressed_sparse_attention": 4, "heavily_compressed_attention": 128}  # by the ratios of older files
    rates = (
        Config(said, where=c.where, assumed=c.assumed)
        if c.given("compress_ratios")
        else c.section("compress_rates", absent={})
    )
    sizes = {
        "n_heads": c.whole("num_attention_heads", most=100_000), "d_head": c.whole("head_dim"),
        "d_q_latent": c.whole("q_lora_rank"), "n_out_groups": c.whole("o_groups", most=100_000),
        "d_out_latent": c.whole("o_lora_rank"), "window": c.whole("sliding_window", most=2**40),
    }  # fmt: skip
    if sizes["n_heads"] % sizes["n_out_groups"]:
        raise c.wrong("o_groups", f"a divisor of num_attention_heads={sizes['n_heads']}", sizes["n_out_groups"])
    fine = rates.whole("compressed_sparse_attention", absent=4, most=2**30)
    coarse = rates.whole("heavily_compressed_attention", absent=128, most=2**30)
    if c.given("compress_rate_csa"):
        fine = c.whole("compress_rate_csa", most=2**30)
    if c.given("compress_rate_hca"):
        coarse = c.whole("compress_rate_hca", most=2**30)
    return {
        "sliding_attention": Compressed(**sizes),
        "compressed_sparse_attention": Compressed(**sizes, ratio=fine, indexer=_indexer(c)),
        "heavily_compressed_attention": Compressed(**sizes, ratio=coarse),
    }


def _v4_mixers(c: Config, kinds: dict[str, Compressed], n: int) -> list[Compressed]:
    """As `layer_types` says, or the older `compress_ratios`, which go on over the further-token modules; else two coarse
    ones and then coarse and fine in turn."""
    names = listed(c, "layer_types", kind=str)
    ratios = listed(c, "compress_ratios")
    if names is None and ratios is not None:
        for ratio in ratios:
            if ratio not in _V4_RATIOS:
                raise c.wrong("compress_ratios", f"ratios {', '.join(map(str, _V4_RATIOS))} only", ratio)
        names = [_V4_RATIOS[ratio] for ratio in ratios]
    if names is None:
        c.assume("layer_types", "two coarse layers, then fine and coarse in turn")
        names = [
            "compressed_sparse_attention" if i >= 2 and i % 2 else "heavily_compressed_attention" for i in range(n)
        ]
    key = "layer_types" if c.given("layer_types") else "compress_ratios"
    if len(names) < n:
        raise SpecError(f"{c.place(key)}: expected {n} items or more, got {len(names)}")
    return by_word(over(c, {key: names[:n]}), key, kinds, n_layers=n, absent=(), said="")


def _latent(c: Config, indexer: Indexer | None = None, *, v_absent: Any = REQUIRED) -> Latent:
    """Latent attention as the keys say; a null `q_lora_rank` is no bottleneck of the queries, which an indexer needs."""
    return Latent(
        n_heads=c.whole("num_attention_heads", most=100_000),
        d_latent=c.whole("kv_lora_rank"),
        d_rope=c.whole("qk_rope_head_dim", least=0, most=100_000),
        d_nope=c.whole("qk_nope_head_dim"),
        d_value=c.whole("v_head_dim", absent=v_absent, null=v_absent),
        d_q_latent=c.whole("q_lora_rank", null=None if indexer is None else REQUIRED),
        bias=c.flag("attention_bias", absent=False),
        indexer=indexer,
    )


def _indexer(c: Config, *, shared: bool = False) -> Indexer:
    return Indexer(
        n_heads=c.whole("index_n_heads", most=100_000),
        d_head=c.whole("index_head_dim", absent=128),
        top_k=c.whole("index_topk", absent=2048),
        shared=shared,
    )


def _mixed(c: Config, *, first: int, n_absent: int, mixers: Sequence[Latent] | None = None) -> Shape:
    """Latent attention all along; dense layers first, then experts with one shared block."""
    n = c.n_layers()
    moe = experts(c, n_absent=n_absent, d_shared=shared_width(c, "n_shared_experts", "num_shared_experts", absent=1))
    ffns = blocks(c, sparse_from(c, n, first=first), moe)
    return basics(c, tied_by_default=False) | {"layers": stacked(mixers or [_latent(c)] * n, ffns)}


def _guess(
    c: Config, shape: Shape, *, mixer: Latent | None = None, absent: int = 0, own_tables: bool = False
) -> Mtp | None:
    """Further-token modules with a layer like the last (its attention `mixer` where that differs)."""
    groups: tuple[Group, ...] = shape["layers"]
    last = groups[-1].layers[-1]
    return mtp(c, Layer(mixer=mixer or last.mixer, ffn=last.ffn), absent=absent, own_tables=own_tables)


FAMILIES = {
    "axk1": axk1,
    "deepseek_v2": deepseek_v2,
    "deepseek_v3": deepseek_v3,
    "deepseek_v32": deepseek_v32,
    "deepseek_v4": deepseek_v4,
    "deepseek_ref": deepseek_v4,  # as a converted FP8 checkpoint calls it
    "glm4_moe_lite": glm4_moe_lite,
    "glm_moe_dsa": glm_moe_dsa,
    "kimi_k2": deepseek_v3,
    "minicpm3": minicpm3,
    "mistral4": mistral4,
    "sarvam_mla": sarvam_mla,
    "youtu": youtu,
}
