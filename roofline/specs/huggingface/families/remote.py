"""Decoders whose code came with the checkpoint, before or beside transformers: Qwen 1, Baichuan, InternLM, ChatGLM, …"""

from __future__ import annotations

from roofline.specs.ffns import Dense, Ffn, Moe
from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.families.common import (
    LAYER_NORM,
    RMS_NORM,
    Shape,
    attention,
    basics,
    dense,
    plain,
    stack,
    tied,
    whole_heads,
)
from roofline.specs.huggingface.families.llama import biases, mlp_bias, qwen2
from roofline.specs.huggingface.families.mixtures import blocks, experts, mtp, shared_width, stacked
from roofline.specs.layers import Layer
from roofline.specs.mixers import Attention

__all__ = ["FAMILIES"]


def qwen(c: Config) -> Shape:
    """Qwen 1: biases on q, k and v, on all else only if `no_bias` is false; gate and up are half `intermediate_size`."""
    bias = not c.flag("no_bias", absent=True)
    n = c.whole("num_attention_heads", most=100_000)
    d_head = c.whole("kv_channels", absent=128)
    mixer = Attention(n_heads=n, n_kv_heads=n, d_head=d_head, qkv_bias=True, out_bias=bias)
    ffn = Dense(d_ff=c.whole("intermediate_size", least=2) // 2, bias=bias)
    return _shape(c, "seq_length", 8192) | {"layers": plain(c.n_layers(), Layer(mixer=mixer, ffn=ffn))}


def internlm(c: Config) -> Shape:
    """InternLM 1: Llama's layer with biases on q, k, v and o unless `bias` is false."""
    bias = c.flag("bias", absent=True)
    return stack(c, Layer(mixer=attention(c, qkv_bias=bias, out_bias=bias), ffn=dense(c)))


def internlm2(c: Config) -> Shape:
    """InternLM 2 and 2.5: q, k and v in one matrix; biases on it and on o only where `bias`."""
    bias = c.flag("bias", absent=False)
    return stack(c, Layer(mixer=attention(c, qkv_bias=bias, out_bias=bias), ffn=dense(c)))


def baichuan(c: Config) -> Shape:
    """Baichuan 1 and 2: Llama's layer with keys for every head; the 13B (it says `model_max_length`) biases its scores."""
    n = whole_heads(c)
    layer = Layer(mixer=Attention(n_heads=n, n_kv_heads=n, d_head=c.whole("hidden_size") // n), ffn=dense(c))
    rotated = c.has("max_position_embeddings")
    shape = _shape(c, "max_position_embeddings" if rotated else "model_max_length", 4096)
    return shape | {"positions": {"kind": "rope" if rotated else "alibi"}, "layers": plain(c.n_layers(), layer)}


def chatglm(c: Config) -> Shape:
    """ChatGLM 2 and 3, GLM-4 (9B) of 2024: `multi_query_group_num` KV heads of `kv_channels`, biases on q, k and v."""
    n = c.whole("num_attention_heads", most=100_000)
    shared = c.flag("multi_query_attention", absent=False)
    n_kv = c.whole("multi_query_group_num", absent=1, most=100_000) if shared else n
    if n % n_kv:
        raise c.wrong("multi_query_group_num", f"a divisor of num_attention_heads={n}", n_kv)
    bias = c.flag("add_bias_linear", absent=False)
    mixer = Attention(
        n_heads=n, n_kv_heads=n_kv, d_head=c.whole("kv_channels", absent=128),
        qkv_bias=c.flag("add_qkv_bias", absent=False) or bias, out_bias=bias,
    )  # fmt: skip
    ffn = Dense(d_ff=c.whole("ffn_hidden_size"), bias=bias)
    layers = plain(c.n_layers("num_layers", "num_hidden_layers"), Layer(mixer=mixer, ffn=ffn))
    return _shape(c, "seq_length", 2048) | {"layers": layers}


def deci(c: Config) -> Shape:
    """DeciLM 6B and 7B: Llama's layer, each with its own number of KV heads."""
    n_layers = c.n_layers()
    counts = c.items("num_key_value_heads_per_layer", kind=int, length=n_layers)
    n = c.whole("num_attention_heads", most=100_000)
    for count in counts:
        if count < 1 or n % count:
            raise c.wrong("num_key_value_heads_per_layer", f"divisors of num_attention_heads={n}", count)
    even = attention(c, **biases(c))
    layers = {
        k: Layer(mixer=even.model_copy(update={"n_kv_heads": k}), ffn=dense(c, bias=mlp_bias(c))) for k in set(counts)
    }
    return stack(c, [layers[k] for k in counts])


def orion(c: Config) -> Shape:
    """Orion 14B: Llama's layer between LayerNorms."""
    return stack(c, Layer(mixer=attention(c), ffn=dense(c)), norm=LAYER_NORM)


def minicpm(c: Config) -> Shape:
    """MiniCPM 1, 2, 4: Llama's layer, tied unless said otherwise; of a mixture each expert is as wide as the dense block."""
    n = c.whole("num_experts", absent=0, null=0, least=0, most=100_000)
    ffn: Ffn = dense(c)
    if n:
        ffn = Moe(
            n_experts=n, n_active_experts=c.whole("num_experts_per_tok", most=n), d_ff=c.whole("intermediate_size")
        )
    return stack(c, Layer(mixer=attention(c, **biases(c)), ffn=ffn), tied_by_default=True)


def mimo(c: Config) -> Shape:
    """MiMo 7B: Qwen 2's class; its further-token modules are dense layers of the same kind."""
    shape = qwen2(c)
    return shape | {"mtp": mtp(c, shape["layers"][-1].layers[-1])}


def deepseek(c: Config) -> Shape:
    """DeepSeekMoE 16B: Llama's attention; a dense layer first, then experts beside `n_shared_experts` in one block."""
    n = c.n_layers()
    every, first = c.whole("moe_layer_freq", absent=1), c.whole("first_k_dense_replace", absent=0, least=0)
    moe = experts(c, d_shared=shared_width(c, absent=0))
    ffns = blocks(c, [i >= first and i % every == 0 for i in range(n)], moe)
    return basics(c, tied_by_default=False) | {"layers": stacked([attention(c, **biases(c))] * n, ffns)}


def _shape(c: Config, context_key: str, context: int) -> Shape:
    return {
        "d_model": c.whole("hidden_size"),
        "vocab_size": c.whole("padded_vocab_size", "vocab_size", most=100_000_000),
        "max_context_tokens": c.whole(context_key, absent=context, most=2**40),
        "norm": RMS_NORM,
        "head": {"tied": tied(c, by_default=False)},
    }


FAMILIES = {
    "qwen": qwen,
    "internlm": internlm,
    "internlm2": internlm2,
    "baichuan": baichuan,
    "chatglm": chatglm,
    "deci": deci,
    "orion": orion,
    "minicpm": minicpm,
    "mimo": mimo,
    "deepseek": deepseek,
}
