"""Blocks of a GGUF file as layers: mixers and FFNs from the tensors, and from the metadata what shapes do not tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

from roofline.errors import SpecError, Unsupported
from roofline.specs.ffns import Dense, Moe
from roofline.specs.gguf.bag import Bag
from roofline.specs.huggingface.config import Config
from roofline.specs.layers import Layer, Norm
from roofline.specs.mixers import Attention, Delta, Latent, Mamba2

__all__ = ["Architecture", "layer_of"]

_NORMS = (
    "attn_norm", "attn_norm_2", "ffn_norm", "post_attention_norm", "post_ffw_norm", "attn_post_norm", "ffn_post_norm",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Architecture:
    """What a name such as "gemma2" says beyond tensors and metadata.

    `full_every`: of so many layers all but the last have the window (0: all have it). `parallel`: attention and FFN read
    the same input. `positions`: how order enters.
    """

    full_every: int = 0
    parallel: bool = False
    positions: str = "rope"


def layer_of(bag: Bag, c: Config, arch: Architecture, *, i: int, d_model: int, norm: Norm) -> Layer:
    """Block i as a layer; every tensor of it taken, every parameter accounted for."""
    try:
        layer = _layer(bag, c, arch, i, d_model, norm)
    except SpecError as error:  # of a record, which knows no file
        raise error if str(error).startswith(c.where) else SpecError(f"{c.where}: block {i}: {error}") from None
    bag.close()
    if not bag.roles:
        raise SpecError(f"{c.where}: blk.{i}: no tensors; expected a block, of as many as block_count says")
    matrices = layer.matrices(d_model)
    for roles in bag.together():
        described, held = sum(m.n_weights for m in matrices if m.role in roles), bag.n_elements(*roles)
        if described != held:
            _mismatch(c, i, ", ".join(roles), held, described)
    described = sum(m.n_params for m in matrices) + layer.n_vector_params(d_model, norm)
    if described != bag.n_elements():
        _mismatch(c, i, "all", bag.n_elements(), described)
    return layer


def _layer(bag: Bag, c: Config, arch: Architecture, i: int, d_model: int, norm: Norm) -> Layer:
    mixer = _mixer(bag, c, arch, i, d_model)
    ffn = _ffn(bag, c, i, d_model)
    n_norms = sum(_norm(bag, name, norm) for name in _NORMS)
    parallel = mixer is not None and ffn is not None and (arch.parallel or n_norms == 1)
    return Layer(mixer=mixer, ffn=ffn, n_norms=n_norms, parallel=parallel, formats=bag.formats())


def _mismatch(c: Config, i: int, what: str, held: int, described: int) -> NoReturn:
    raise SpecError(
        f"{c.where}: block {i}: {what}: its tensors hold {held:,} elements, the metadata describe {described:,}"
    )


def per_layer(c: Config, key: str, i: int, *, absent: Any = None, least: int = 0, most: int = 10_000_000) -> Any:
    """A whole number that a file gives once, or in a list with one for each block."""
    value = c.data.get(key)
    if isinstance(value, list):
        if i >= len(value):
            raise c.wrong(key, f"a number for each block, {i + 1} at least", value)
        c = Config({key: value[i]}, where=c.where, assumed=c.assumed)
    if value is None:
        return absent if absent is not None else c.whole(key)
    return c.whole(key, least=least, most=most)


def _norm(bag: Bag, name: str, norm: Norm) -> int:
    if not bag.has(f"{name}.weight"):
        return 0
    bag.vector(f"{name}.weight")
    if norm.bias:
        bag.vector(f"{name}.bias")
    return 1


def _mixer(bag: Bag, c: Config, arch: Architecture, i: int, d_model: int) -> Any:
    if bag.has("attn_kv_a_mqa.weight"):
        return _latent(bag, c, i, d_model)
    if bag.has("ssm_in.weight") and bag.has("ssm_d"):
        return _mamba2(bag, c, d_model)
    if bag.has("ssm_out.weight"):
        return _delta(bag, c, d_model)
    if bag.has("attn_q.weight") or bag.has("attn_qkv.weight"):
        return _attention(bag, c, arch, i, d_model)
    return None


def _attention(bag: Bag, c: Config, arch: Architecture, i: int, d_model: int) -> Attention:
    n = per_layer(c, "attention.head_count", i, least=1, most=100_000)
    k = per_layer(c, "attention.head_count_kv", i, absent=n, least=1, most=100_000)
    d_head = c.whole("attention.key_length") if c.given("attention.key_length") else max(1, d_model // n)
    d_value = c.whole("attention.value_length") if c.given("attention.value_length") else d_head
    gated = False
    if bag.has("attn_qkv.weight"):
        bag.matrix("attn_qkv.weight", "q", "k", "v", d_in=d_model)
        bias = bag.bias("attn_qkv.bias")
    else:
        q = bag.matrix("attn_q.weight", "q", d_in=d_model)
        gated = q.dims[-1] == n * (d_head + d_value)
        for role in "kv":
            bag.matrix(f"attn_{role}.weight", role, d_in=d_model)
        bias = _all_or_none(bag, c, [f"attn_{role}.bias" for role in "qkv"])
    bag.matrix("attn_output.weight", "o", d_in=n * d_value)
    qk_norm, norm_bias = _qk_norm(bag, c, n, k, d_head)
    return Attention(
        n_heads=n,
        n_kv_heads=k,
        d_head=d_head,
        d_value=None if d_value == d_head else d_value,
        window=_window(c, arch, i),
        qkv_bias=bias,
        out_bias=bag.bias("attn_output.bias"),
        gated=gated,
        sinks=bag.bias("attn_sinks.weight"),
        qk_norm=qk_norm,
        norm_bias=norm_bias,
    )


def _qk_norm(bag: Bag, c: Config, n: int, k: int, d_head: int) -> tuple[Any, bool]:
    """Norms of queries and keys: one scale for all heads, or one for each; whether with biases."""
    if not bag.has("attn_q_norm.weight"):
        return "none", False
    sizes = bag.vector("attn_q_norm.weight"), bag.vector("attn_k_norm.weight")
    kinds = {(d_head, d_head): "head", (n * d_head, k * d_head): "full"}
    if sizes not in kinds:
        raise SpecError(f"{c.where}: attn_q_norm.weight, attn_k_norm.weight: {sizes} elements; expected {list(kinds)}")
    return kinds[sizes], _all_or_none(bag, c, ["attn_q_norm.bias", "attn_k_norm.bias"])


def _all_or_none(bag: Bag, c: Config, names: list[str]) -> bool:
    found = [bag.bias(name) for name in names]
    if any(found) and not all(found):
        missing = next(name for name, there in zip(names, found, strict=True) if not there)
        raise Unsupported(f"{c.where}: {missing}: missing beside others; all or none of {', '.join(names)} is counted")
    return all(found)


def _window(c: Config, arch: Architecture, i: int) -> int | None:
    """The window of block i: where the file marks the blocks that have one, as marked; else as the architecture has it."""
    key = "attention.sliding_window"
    if not c.given(key) or c.data[key] == 0:
        return None
    window = int(c.whole(key, most=2**40))
    marks = c.data.get("attention.sliding_window_pattern")
    if isinstance(marks, list):
        if i >= len(marks):
            raise c.wrong("attention.sliding_window_pattern", "a mark for each block", marks)
        return window if marks[i] else None
    every = arch.full_every
    if marks is not None:
        every = int(c.whole("attention.sliding_window_pattern", least=0, most=10_000))
    return None if every and i % every == every - 1 else window


def _latent(bag: Bag, c: Config, i: int, d_model: int) -> Latent:
    """Multi-head latent attention; the key_length of newer files is that of the cached vector, and …_mla the heads' own."""
    n = per_layer(c, "attention.head_count", i, least=1, most=100_000)
    d_latent, d_rope = c.whole("attention.kv_lora_rank"), c.whole("rope.dimension_count", least=0)
    own = "_mla" if c.given("attention.key_length_mla") else ""
    d_key, d_value = c.whole(f"attention.key_length{own}"), c.whole(f"attention.value_length{own}")
    if d_key <= d_rope:
        raise c.wrong(f"attention.key_length{own}", f"more than rope.dimension_count, {d_rope}", d_key)
    d_q_latent = None
    if bag.has("attn_q_a.weight"):
        d_q_latent = bag.matrix("attn_q_a.weight", "q_a", d_in=d_model).dims[1]
        bag.matrix("attn_q_b.weight", "q_b", d_in=d_q_latent)
        bag.vector("attn_q_a_norm.weight")
    else:
        bag.matrix("attn_q.weight", "q", d_in=d_model)
    bag.matrix("attn_kv_a_mqa.weight", "kv_a", d_in=d_model)
    bag.vector("attn_kv_a_norm.weight")
    if bag.has("attn_kv_b.weight"):
        bag.matrix("attn_kv_b.weight", "k_b", "v_b", d_in=d_latent)
    else:
        for role in ("k_b", "v_b"):
            bag.matrix(f"attn_{role}.weight", role)
    bag.matrix("attn_output.weight", "o", d_in=n * d_value)
    return Latent(
        n_heads=n, d_latent=d_latent, d_rope=d_rope, d_nope=d_key - d_rope, d_value=d_value, d_q_latent=d_q_latent
    )


def _mamba2(bag: Bag, c: Config, d_model: int) -> Mamba2:
    d_inner, n = c.whole("ssm.inner_size"), c.whole("ssm.time_step_rank", most=100_000)
    if d_inner % n:
        raise c.wrong("ssm.time_step_rank", f"a number of heads that divides ssm.inner_size, {d_inner}", n)
    bag.matrix("ssm_in.weight", "in", d_in=d_model)
    bag.matrix("ssm_conv1d.weight", "conv")
    bag.matrix("ssm_out.weight", "out", d_in=d_inner)
    for name in ("ssm_dt.bias", "ssm_a", "ssm_d"):
        bag.vector(name)
    return Mamba2(
        n_heads=n,
        d_head=d_inner // n,
        n_groups=c.whole("ssm.group_count", most=100_000),
        d_state=c.whole("ssm.state_size"),
        d_conv=c.whole("ssm.conv_kernel", most=100_000),
        conv_bias=bag.bias("ssm_conv1d.bias"),
        gated_norm=bag.bias("ssm_norm.weight"),
    )


def _delta(bag: Bag, c: Config, d_model: int) -> Delta:
    """Qwen3-Next's delta net: queries, keys and values in one product, the gate in another, or all in one in older files."""
    d_inner, n_value = c.whole("ssm.inner_size"), c.whole("ssm.time_step_rank", most=100_000)
    if d_inner % n_value:
        raise c.wrong("ssm.time_step_rank", f"a number of heads that divides ssm.inner_size, {d_inner}", n_value)
    for name in ("ssm_in", "attn_qkv", "attn_gate"):
        if bag.has(f"{name}.weight"):
            bag.matrix(f"{name}.weight", "in", d_in=d_model)
    for name in ("ssm_ba", "ssm_beta", "ssm_alpha"):
        if bag.has(f"{name}.weight"):
            bag.matrix(f"{name}.weight", "ba", d_in=d_model)
    bag.matrix("ssm_conv1d.weight", "conv")
    bag.matrix("ssm_out.weight", "out", d_in=d_inner)
    for name in ("ssm_dt.bias", "ssm_a", "ssm_norm.weight"):
        bag.vector(name)
    return Delta(
        n_key_heads=c.whole("ssm.group_count", most=100_000),
        d_key=c.whole("ssm.state_size"),
        n_value_heads=n_value,
        d_value=d_inner // n_value,
        d_conv=c.whole("ssm.conv_kernel", most=100_000),
    )


def _ffn(bag: Bag, c: Config, i: int, d_model: int) -> Dense | Moe | None:
    if bag.has("ffn_gate_inp.weight"):
        return _moe(bag, c, i, d_model)
    return _dense(bag, c, d_model) if bag.has("ffn_up.weight") else None


def _dense(bag: Bag, c: Config, d_model: int) -> Dense:
    """Gate and up apart, or in one tensor twice as wide as the way down (Phi-3, GLM-4), or no gate."""
    down = bag.matrix("ffn_down.weight", "down")
    d_ff = down.dims[0]
    if bag.has("ffn_gate.weight"):
        gated = True
        bag.matrix("ffn_gate.weight", "gate", d_in=d_model)
        bag.matrix("ffn_up.weight", "up", d_in=d_model)
        biases = ["ffn_gate.bias", "ffn_up.bias", "ffn_down.bias"]
    else:
        up = bag.matrix("ffn_up.weight", "up", d_in=d_model)
        gated = up.dims[1] == 2 * d_ff
        if gated:
            bag.roles["gate"] = [up]
        biases = ["ffn_up.bias", "ffn_down.bias"]
    return Dense(d_ff=d_ff, gated=gated, bias=_all_or_none(bag, c, biases))


def _moe(bag: Bag, c: Config, i: int, d_model: int) -> Moe:
    n_experts = bag.matrix("ffn_gate_inp.weight", "router", d_in=d_model).dims[-1]
    d_latent = None
    if bag.has("ffn_latent_down.weight"):
        d_latent = bag.matrix("ffn_latent_down.weight", "latent_down", d_in=d_model).dims[1]
        bag.matrix("ffn_latent_up.weight", "latent_up", d_in=d_latent)
    gated, d_ff = _experts(bag, n_experts)
    d_shared = None
    if bag.has("ffn_up_shexp.weight"):
        d_shared = bag.matrix("ffn_up_shexp.weight", "shared_up", d_in=d_model).dims[1]
        bag.matrix("ffn_down_shexp.weight", "shared_down", d_in=d_shared)
        if gated:
            bag.matrix("ffn_gate_shexp.weight", "shared_gate", d_in=d_model)
    shared_gate = bag.has("ffn_gate_inp_shexp.weight")
    if shared_gate:
        bag.matrix("ffn_gate_inp_shexp.weight", "shared_scale", d_in=d_model)
    names = [f"ffn_{part}_exps.bias" for part in (("gate", "up", "down") if gated else ("up", "down"))]
    return Moe(
        n_experts=n_experts,
        n_active_experts=per_layer(c, "expert_used_count", i, least=1, most=100_000),
        d_ff=d_ff,
        gated=gated,
        bias=_all_or_none(bag, c, names),
        router_bias=bag.bias("ffn_gate_inp.bias"),
        d_shared=d_shared,
        shared_gate=shared_gate,
        d_latent=d_latent,
    )


def _experts(bag: Bag, n_experts: int) -> tuple[bool, int]:
    """(gated, width) of the experts: three stacks, or gate and up in one, or, in files of early 2024, a tensor each."""
    if bag.has("ffn_gate_up_exps.weight"):
        bag.matrix("ffn_gate_up_exps.weight", "expert_gate", "expert_up")
        return True, bag.matrix("ffn_down_exps.weight", "expert_down").dims[0]
    stacked = bag.has("ffn_down_exps.weight")
    suffixes = ["_exps"] if stacked else [f".{e}" for e in range(min(n_experts, 1024))]
    gated = bag.has(f"ffn_gate{suffixes[0]}.weight")
    d_ff = 0
    for suffix in suffixes:
        for part in ("gate", "up", "down") if gated else ("up", "down"):
            tensor = bag.matrix(f"ffn_{part}{suffix}.weight", f"expert_{part}")
            d_ff = tensor.dims[0] if part == "down" else d_ff
    return gated, d_ff
