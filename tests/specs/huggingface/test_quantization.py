"""What a checkpoint is stored in: the formats its quantisation config comes to, and the bytes they make."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.dtypes import format_named, stored_as
from roofline.errors import SpecError, Unsupported
from roofline.specs.ffns import Dense, Moe
from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.quantization import checkpoint_formats
from roofline.specs.huggingface.reader import model_of
from roofline.specs.layers import Group, Layer
from roofline.specs.matrix import Matrix
from roofline.specs.mixers import Attention, Indexer, Latent
from roofline.specs.model import Model, Mtp
from roofline.specs.towers import Tower

NOWHERE = Path("/nonexistent")

DENSE = Layer(mixer=Attention(n_heads=4, n_kv_heads=2, d_head=16), ffn=Dense(d_ff=128))
SPARSE = Layer(
    mixer=Attention(n_heads=4, n_kv_heads=2, d_head=16),
    ffn=Moe(n_experts=8, n_active_experts=2, d_ff=32, d_shared=32, shared_gate=True),
)
SHAPE: dict[str, Any] = {"d_model": 64, "layers": (Group(repeat=4, layers=(DENSE,)),)}
MOE_SHAPE: dict[str, Any] = {"d_model": 64, "layers": (Group(layers=(DENSE,)), Group(repeat=3, layers=(SPARSE,)))}


def formats(quantised: Any, shape: dict[str, Any] = SHAPE, *, folder: Path = NOWHERE, **top: Any) -> dict[str, Any]:
    data = {"quantization_config": quantised, "torch_dtype": "bfloat16", **top}
    return checkpoint_formats(Config(data, where="config.json", assumed=[]), shape, folder=folder)


def roles(fields: dict[str, Any], *, layer: int, shape: dict[str, Any] = SHAPE) -> dict[str, str]:
    """The format of every role of a layer."""
    groups = fields.get("layers", shape["layers"])
    one = [inner for group in groups for _ in range(group.repeat) for inner in group.layers][layer]
    base = fields.get("formats", {})
    return {m.role: stored_as(m.role, one.formats, base, kept="bf16")[0].name for m in one.matrices(64)}


LINEAR = ("q", "k", "v", "o", "gate", "up", "down")
FLOAT8 = {"num_bits": 8, "type": "float"}


def groups(weights: Any, activations: Any = None, *, targets: tuple[str, ...] = ("Linear",), **more: Any) -> Any:
    scheme = {"targets": list(targets), "weights": weights, "input_activations": activations}
    return {"quant_method": "compressed-tensors", "config_groups": {"group_0": scheme}, "ignore": ["lm_head"]} | more


@pytest.mark.parametrize(
    ("quantised", "name"),
    [
        ({"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}, "fp8-block"),
        ({"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [64, 32]}, "fp8-block-64x32"),
        ({"quant_method": "fp8", "activation_scheme": "static"}, "fp8"),
        ({"quant_method": "fbgemm_fp8", "modules_to_not_convert": ["lm_head"]}, "fp8"),
        ({"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True, "version": "gemm"}, "awq"),
        ({"quant_method": "awq", "w_bit": 4, "q_group_size": 64, "zero_point": True}, "awq-4bit-g64"),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": True, "sym": True}, "gptq"),
        ({"bits": 4, "group_size": 32, "desc_act": False, "sym": True}, "gptq-4bit-g32"),
        ({"quant_method": "gptq", "bits": 8, "group_size": -1, "sym": True}, "gptq-8bit-channel"),
        ({"quant_method": "gptq", "bits": 3, "group_size": 128}, "gptq-3bit-g128"),
        ({"quant_method": "auto-round", "bits": 2, "group_size": 32, "sym": True}, "gptq-2bit-g32"),
        ({"load_in_4bit": True, "load_in_8bit": False, "bnb_4bit_quant_type": "nf4"}, "nf4"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_use_double_quant": True}, "nf4-dq"),
        ({"quant_method": "bitsandbytes", "_load_in_8bit": True, "load_in_4bit": False}, "w8a8"),
        (
            {"quant_method": "hqq", "quant_config": {"weight_quant_params": {"nbits": 4, "group_size": 64}}},
            "hqq-4bit-g64",
        ),
        ({"quant_method": "eetq", "weights": "int8"}, "int8"),
        ({"quant_algo": "FP8", "kv_cache_quant_algo": None, "exclude_modules": ["lm_head"]}, "fp8"),
        (
            {"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16, "exclude_modules": ["lm_head"]},
            "nvfp4",
        ),
        ({"quant_method": "modelopt", "quant_algo": "W4A16_AWQ", "group_size": 64}, "int4-g64"),
        ({"quant_method": "modelopt", "config_groups": groups(FLOAT8, FLOAT8)["config_groups"]}, "fp8"),
        (groups(FLOAT8 | {"strategy": "tensor"}, FLOAT8, format="float-quantized"), "fp8"),
        (groups(FLOAT8 | {"strategy": "channel"}, FLOAT8 | {"dynamic": True, "strategy": "token"}), "fp8"),
        (groups(FLOAT8 | {"strategy": "channel"}), "fp8-w8a16"),
        (groups(FLOAT8 | {"strategy": "block", "block_structure": [128, 128]}, FLOAT8), "fp8-block"),
        (groups({"num_bits": 8, "type": "int", "strategy": "channel"}, {"num_bits": 8, "type": "int"}), "w8a8"),
        (groups({"num_bits": 8, "type": "int", "strategy": "channel", "symmetric": True}), "int8"),
        (
            groups({"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128, "symmetric": True}),
            "int4-g128",
        ),
        (
            groups({"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32, "symmetric": False}),
            "int4-g32-zp",
        ),
        (groups({"num_bits": 4, "type": "int", "strategy": "channel", "symmetric": True}), "int4"),
        (groups({"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16}, FLOAT8), "nvfp4"),
        (groups({"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16}), "nvfp4-w4a16"),
        (groups({"num_bits": 4, "type": "float", "strategy": "group", "group_size": 32}), "mxfp4"),
    ],
)
def test_linear_layers_are_in_the_format_and_both_tables_in_16_bit(quantised: dict[str, Any], name: str) -> None:
    fields = formats(quantised, head={"tied": False})
    assert fields == {"formats": {"*": name}}
    assert roles(fields, layer=2) == dict.fromkeys(LINEAR, name)
    assert [stored_as(r, fields["formats"], kept="bf16")[1] for r in ("embedding", "head", "router")] == [16, 16, 16]


@pytest.mark.parametrize(
    ("name", "bits"),
    [
        ("fp8-block-64x32", 8 + 32 / 2048),
        ("awq-4bit-g64", 4 + 20 / 64),
        ("gptq-3bit-g128", 3 + 19 / 128),
        ("gptq-2bit-g32", 2 + 18 / 32),
        ("gptq-8bit-channel", 8),
        ("int4-g32", 4 + 16 / 32),
        ("int4-g32-zp", 4 + 20 / 32),
        ("int4-g128", 4.125),
        ("nf4", 4.5),
        ("nf4-dq", 4 + 8 / 64 + 32 / (64 * 256)),  # 4.127
        ("mlx-4bit-g32", 5),
        ("mlx-6bit-g128", 6.25),
        ("hqq-4bit-g64", 4.5),
        ("mxfp8", 8.25),
    ],
)
def test_a_format_made_from_its_name_counts_what_a_group_carries(name: str, bits: float) -> None:
    assert format_named(name).bits == bits
    assert format_named(name.upper()).name == name


@pytest.mark.parametrize("config", [{}, {"quantization_config": None}, {"quantization_config": {}}])
def test_nothing_said_is_nothing_quantised(config: dict[str, Any]) -> None:
    assert checkpoint_formats(Config(config, where="c", assumed=[]), SHAPE, folder=NOWHERE) == {}


def test_the_section_may_stand_in_the_text_config() -> None:
    inner = {"quantization_config": groups({"num_bits": 4, "type": "int", "group_size": 32, "strategy": "group"})}
    c = Config({"text_config": inner}, where="c", assumed=[])
    assert checkpoint_formats(c, SHAPE, folder=NOWHERE)["formats"] == {"*": "int4-g32"}


def test_hf_quant_config_is_read_where_the_config_says_nothing(tmp_path: Path) -> None:
    """As 11 of NVIDIA's checkpoints have it."""
    said = {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}
    (tmp_path / "hf_quant_config.json").write_text(json.dumps({"producer": {"name": "modelopt"}, "quantization": said}))
    c = Config({}, where="c", assumed=[])
    assert checkpoint_formats(c, SHAPE, folder=tmp_path) == {"formats": {"*": "fp8", "kv_cache": "fp8"}}


@pytest.mark.parametrize(
    ("scheme", "kv"),
    [
        ({"kv_cache_scheme": {"dynamic": False, "num_bits": 8, "type": "float"}}, "fp8"),
        ({"kv_cache_quant_algo": "NVFP4"}, "nvfp4"),
        ({"kv_cache_quant_algo": "INT8"}, "int8"),
        ({"kv_cache_scheme": None}, None),
    ],
)
def test_the_cache_has_a_format_of_its_own(scheme: dict[str, Any], kv: str | None) -> None:
    fields = formats({"quant_method": "modelopt", "quant_algo": "NVFP4", **scheme})
    assert fields["formats"].get("kv_cache") == kv


def test_modules_left_alone_are_in_16_bit_in_every_layer_they_are_named_for() -> None:
    """Gemma-4-31B-NVFP4 names the attention of each layer; here of all but the last."""
    ignored = ["lm_head", "model.vision_tower*", *(f"model.language_model.layers.{i}.self_attn*" for i in range(3))]
    fields = formats({"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ignored})
    attention = {"q", "k", "v", "o"}
    for i in range(4):
        found = roles(fields, layer=i)
        assert {r for r in found if found[r] == "bf16"} == (attention if i < 3 else set())
    assert fields["formats"] == {"*": "nvfp4"} | dict.fromkeys("qkvo", "bf16")
    assert [g.repeat for g in fields["layers"]] == [3, 1]


@pytest.mark.parametrize(
    ("pattern", "left"),
    [
        ("re:.*self_attn.*", {"q", "k", "v", "o"}),
        ("re:.*mlp\\.(gate|up|gate_up|down)_proj.*", {"gate", "up", "down"}),
        ("re:^model\\.layers\\.\\d+\\.mlp\\.down_proj$", {"down"}),
        ("model.layers.*.self_attn", {"q", "k", "v", "o"}),
        ("self_attn", {"q", "k", "v", "o"}),
        ("*.self_attn.k_proj", {"k"}),
        ("o_proj", {"o"}),
        ("down_pro", set()),
        ("mlp.gate", set()),  # a router's name, and only that
        ("model.layers.1", set()),  # of layer 1 alone
        ("model.visual", set()),
        ("mtp.layers.0*", set()),
    ],
)
def test_patterns_pick_modules_by_their_whole_names(pattern: str, left: set[str]) -> None:
    fields = formats({"quant_method": "fp8", "modules_to_not_convert": [pattern]})
    assert {role for role, name in roles(fields, layer=2).items() if name == "bf16"} == left


def test_experts_shared_experts_and_dense_layers_are_told_apart() -> None:
    """Kimi-K2.5: int4 for the routed experts, and nothing else."""
    ignored = ["lm_head", "re:.*self_attn.*", "re:.*shared_experts.*", "re:.*mlp\\.(gate|up|gate_up|down)_proj.*"]
    scheme = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32, "symmetric": True}
    fields = formats(groups(scheme, format="pack-quantized", ignore=ignored), MOE_SHAPE)
    found = roles(fields, layer=1, shape=MOE_SHAPE)
    assert {r for r in found if found[r] == "int4-g32"} == {"expert_gate", "expert_up", "expert_down"}
    assert set(roles(fields, layer=0, shape=MOE_SHAPE).values()) == {"bf16"}
    assert "layers" not in fields


def test_mxfp4_is_for_experts_only() -> None:
    """gpt-oss."""
    left = ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]
    fields = formats({"quant_method": "mxfp4", "modules_to_not_convert": left}, MOE_SHAPE)
    assert fields == {"formats": dict.fromkeys(("expert_gate", "expert_up", "expert_down"), "mxfp4")}


def test_experts_of_deepseek_v4_are_in_fp4_among_fp8() -> None:
    quantised = {"quant_method": "fp8", "weight_block_size": [128, 128], "scale_fmt": "ue8m0"}
    fields = formats(quantised, MOE_SHAPE, expert_dtype="fp4")
    found = roles(fields, layer=1, shape=MOE_SHAPE)
    assert {found[r] for r in ("expert_gate", "expert_up", "expert_down")} == {"mxfp4"}
    assert {found[r] for r in ("q", "o", "shared_up")} == {"fp8-block"}
    assert {found[r] for r in ("router", "shared_scale")} == {"bf16"}


def test_experts_of_deepseek_v4_may_be_converted_to_nvfp4_among_fp8() -> None:
    """nvidia/DeepSeek-V4-Flash-NVFP4: `ignore` names what the conversion left as it was, in FP8."""
    quantised = {
        "quant_method": "fp8", "weight_block_size": [128, 128], "quant_algo": "MIXED_PRECISION", "moe_quant_algo": "NVFP4",
        "ignore": ["*.attn.*", "*.ffn.shared_experts.*", "head", "mtp.*", "self_attn"],
        "quantized_layers": {"layers.1.ffn.experts": {"quant_algo": "NVFP4", "group_size": 16}},
    }  # fmt: skip
    found = roles(formats(quantised, MOE_SHAPE, expert_dtype="fp4"), layer=1, shape=MOE_SHAPE)
    assert {found[r] for r in ("expert_gate", "expert_up", "expert_down")} == {"nvfp4"}
    assert {found[r] for r in ("q", "o", "shared_up")} == {"fp8-block"}


def test_experts_of_gemma_4_stand_beside_the_dense_block() -> None:
    """nvidia/Gemma-4-26B-A4B-NVFP4 leaves `mlp`, `router` and `self_attn` of every layer: what remains are the experts."""
    ignored = [f"model.language_model.layers.{i}.{m}*" for i in range(4) for m in ("mlp", "router", "self_attn")]
    quantised = {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head", *ignored]}
    fields = formats(quantised, MOE_SHAPE, model_type="gemma4")
    found = roles(fields, layer=1, shape=MOE_SHAPE)
    assert {r for r in found if found[r] == "nvfp4"} == {"expert_gate", "expert_up", "expert_down"}
    elsewhere = roles(formats(quantised, MOE_SHAPE), layer=1, shape=MOE_SHAPE)
    assert set(elsewhere.values()) == {"bf16"}


def test_the_file_beside_says_what_the_cache_is_in_where_the_config_does_not(tmp_path: Path) -> None:
    """nvidia/Qwen3.6-35B-A3B-NVFP4."""
    (tmp_path / "hf_quant_config.json").write_text(json.dumps({"quantization": {"kv_cache_quant_algo": "FP8"}}))
    quantised = {"quant_method": "modelopt", "quant_algo": "NVFP4"}
    assert formats(quantised, folder=tmp_path)["formats"] == {"*": "nvfp4", "kv_cache": "fp8"}
    said = quantised | {"kv_cache_quant_algo": "NVFP4"}
    assert formats(said, folder=tmp_path)["formats"]["kv_cache"] == "nvfp4"


def test_the_indexer_of_minimax_m3_goes_by_its_own_names() -> None:
    x = Indexer(n_heads=2, d_head=16, top_k=32, weighted=False)
    mixer = Attention(n_heads=4, n_kv_heads=2, d_head=16, indexer=x)
    shape = {"d_model": 64, "layers": (Group(repeat=2, layers=(Layer(mixer=mixer, ffn=Dense(d_ff=128)),)),)}
    modules = {
        f"language_model.model.layers.{i}.self_attn.{m}": {"quant_algo": "MXFP8"}
        for i in range(2) for m in ("index_q_proj", "index_k_proj")
    }  # fmt: skip
    fields = formats({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": modules}, shape)
    assert fields["formats"] == {"index_q": "mxfp8", "index_k": "mxfp8"}


def test_mixed_precision_gives_each_module_its_own() -> None:
    """As Nemotron 3 and Qwen3.5 from NVIDIA: NVFP4 experts, FP8 attention, the rest in 16 bit."""
    modules = {
        f"model.language_model.layers.{i}.{m}": a
        for i in range(1, 4)
        for m, a in {
            "self_attn.q_proj": {"quant_algo": "FP8"},
            "self_attn.o_proj": {"quant_algo": "FP8"},
            "mlp.experts": {"quant_algo": "NVFP4", "group_size": 16},
        }.items()
    }
    fields = formats(
        {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": modules}
        | {"kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]},
        MOE_SHAPE,
    )
    found = roles(fields, layer=2, shape=MOE_SHAPE)
    assert {r: n for r, n in found.items() if n != "bf16"} == {
        "q": "fp8", "o": "fp8", "expert_gate": "nvfp4", "expert_up": "nvfp4", "expert_down": "nvfp4"
    }  # fmt: skip
    assert set(roles(fields, layer=0, shape=MOE_SHAPE).values()) == {"bf16"}
    assert fields["formats"]["kv_cache"] == "fp8"


def test_gptq_may_give_modules_other_bits_or_none() -> None:
    dynamic = {r"-:.*\.down_proj": {}, r"+:.*\.layers\.3\.mlp\.up_proj": {"bits": 8}, r".*\.o_proj": {"group_size": 32}}
    fields = formats({"quant_method": "gptq", "bits": 4, "group_size": 128, "dynamic": dynamic, "lm_head": True})
    found = roles(fields, layer=3)
    assert found == dict.fromkeys(("q", "k", "v", "gate"), "gptq") | {
        "o": "gptq-4bit-g32", "up": "gptq-8bit-g128", "down": "bf16"
    }  # fmt: skip
    assert roles(fields, layer=0)["up"] == "gptq"
    assert fields["formats"]["head"] == "gptq"


def test_autoround_names_modules_in_16_bit() -> None:
    extra = {"model.layers.0.mlp.down_proj": {"bits": 16}, "lm_head": {"bits": 16}}
    fields = formats({"quant_method": "auto-round", "bits": 4, "group_size": 128, "extra_config": extra})
    assert roles(fields, layer=0)["down"] == "bf16"
    assert roles(fields, layer=1)["down"] == "gptq"


def mlx(**more: Any) -> dict[str, Any]:
    c = Config({"quantization": {"group_size": 64, "bits": 4} | more}, where="c", assumed=[])
    return checkpoint_formats(c, MOE_SHAPE, folder=NOWHERE)


def test_mlx_quantises_tables_and_routers_too() -> None:
    found = mlx()
    assert found == {"formats": {"*": "mlx-4bit"}}
    assert {stored_as(r, found["formats"], kept="bf16")[1] for r in ("q", "router", "embedding", "head")} == {4.5}


def test_mlx_gives_modules_by_name_their_own_bits() -> None:
    own = {f"model.layers.{i}.mlp.gate": {"group_size": 64, "bits": 8} for i in range(1, 4)}
    fields = mlx(**own, **{"lm_head": False, "model.embed_tokens": {"bits": 6, "group_size": 32}})
    assert roles(fields, layer=2, shape=MOE_SHAPE)["router"] == "mlx-8bit"
    assert (fields["formats"]["head"], fields["formats"]["embedding"]) == ("bf16", "mlx-6bit-g32")
    assert mlx(mode="mxfp4", group_size=32)["formats"] == {"*": "mxfp4"}


def test_towers_stay_in_16_bit_unless_the_recipe_reaches_them() -> None:
    tower = Tower(kind="vision", d_model=64, layers=(Group(repeat=2, layers=(DENSE,)),))
    shape = SHAPE | {"towers": (tower,)}
    assert "towers" not in formats({"quant_method": "awq", "bits": 4, "group_size": 128}, shape)
    alone = formats({"quant_method": "fp8", "modules_to_not_convert": ["visual"]}, shape)
    assert alone["towers"] == (tower,)
    reached = formats({"quant_method": "bitsandbytes", "load_in_4bit": True}, shape)["towers"][0]
    assert [layer.formats for _, layer in reached.layer_kinds()] == [{"*": "nf4"}]


def test_mtp_modules_are_in_the_formats_their_names_get() -> None:
    shape = SHAPE | {"mtp": Mtp(layer=DENSE)}
    same = formats({"quant_method": "fp8"}, shape)["mtp"]
    assert same.layer.formats == {}
    left = formats({"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["mtp*", "lm_head"]}, shape)["mtp"]
    assert left.layer.formats == dict.fromkeys(LINEAR, "bf16")


def test_what_is_left_in_a_float16_checkpoint_is_float16() -> None:
    quantised = {"quant_method": "awq", "bits": 4, "group_size": 128, "modules_to_not_convert": ["o_proj"]}
    c = Config({"torch_dtype": "float16", "quantization_config": quantised}, where="c", assumed=[])
    assert checkpoint_formats(c, SHAPE, folder=NOWHERE)["formats"] == {"*": "awq", "o": "fp16"}


def test_latent_attention_shares_one_module_for_keys_and_values() -> None:
    mixer = Latent(n_heads=4, d_latent=32, d_rope=16, d_nope=16, d_value=16, d_q_latent=32)
    shape = {"d_model": 64, "layers": (Group(repeat=2, layers=(Layer(mixer=mixer, ffn=Dense(d_ff=128)),)),)}
    fields = formats({"quant_method": "fp8", "modules_to_not_convert": ["re:.*kv_b_proj"]}, shape)
    assert fields["formats"] == {"*": "fp8", "k_b": "bf16", "v_b": "bf16"}


# Whole checkpoints, against the bytes their index.json says they hold.

LLAMA_70B = {
    "model_type": "llama", "hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 80,
    "num_attention_heads": 64, "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 131072,
    "tie_word_embeddings": False, "attention_bias": False, "mlp_bias": False, "torch_dtype": "bfloat16",
}  # fmt: skip
QWEN_7B = {
    "model_type": "qwen2", "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28,
    "num_attention_heads": 28, "num_key_value_heads": 4, "vocab_size": 152064, "max_position_embeddings": 32768,
    "tie_word_embeddings": False, "use_sliding_window": False, "torch_dtype": "float16",
}  # fmt: skip
GPT_OSS = {
    "model_type": "gpt_oss", "hidden_size": 2880, "intermediate_size": 2880, "num_hidden_layers": 24, "head_dim": 64,
    "num_attention_heads": 64, "num_key_value_heads": 8, "vocab_size": 201088, "max_position_embeddings": 131072,
    "num_local_experts": 32, "num_experts_per_tok": 4, "experts_per_token": 4, "sliding_window": 128,
    "attention_bias": True, "tie_word_embeddings": False,
    "layer_types": ["sliding_attention", "full_attention"] * 12,
    "quantization_config": {
        "modules_to_not_convert": [
            "model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head",
        ],
        "quant_method": "mxfp4",
    },
}  # fmt: skip
DEEPSEEK_V3 = {
    "model_type": "deepseek_v3", "hidden_size": 7168, "intermediate_size": 18432, "moe_intermediate_size": 2048,
    "num_hidden_layers": 61, "num_attention_heads": 128, "num_key_value_heads": 128, "vocab_size": 129280,
    "max_position_embeddings": 163840, "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8,
    "n_group": 8, "topk_group": 4, "first_k_dense_replace": 3, "moe_layer_freq": 1, "kv_lora_rank": 512,
    "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "attention_bias": False,
    "num_nextn_predict_layers": 1, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
    "quantization_config": {
        "activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8", "weight_block_size": [128, 128],
    },
}  # fmt: skip


def bytes_of(model: Model) -> float:
    """Bytes of the decoder by the record: every matrix in the format of its role, the rest in 16 bit."""

    def of(m: Matrix, *levels: Mapping[str, str]) -> float:
        return m.n_weights * stored_as(m.role, *levels, kept=model.dtype)[1] / 8

    layers = model.layer_kinds()
    inside = sum(n * of(m, layer.formats, model.formats) for n, layer in layers for m in layer.matrices(model.d_model))
    biases = sum(n * m.n_biases for n, layer in layers for m in layer.matrices(model.d_model))
    tables = of(model.embedding_matrix, model.formats) + of(model.head_matrix, model.formats)
    return inside + tables + 2 * (biases + model.n_vector_params)


def test_gpt_oss_20b_takes_the_bytes_its_index_says() -> None:
    """13,761,264,768: metadata.total_size of the checkpoint's model.safetensors.index.json."""
    assert bytes_of(model_of(GPT_OSS, file=Path("gpt-oss-20b/config.json"))) == 13_761_264_768


def test_gpt_oss_120b_takes_the_bytes_its_tensors_have() -> None:
    """65,248,815,744: bytes of the tensors of the 15 files of the checkpoint."""
    large = GPT_OSS | {"num_hidden_layers": 36, "num_local_experts": 128}
    large["layer_types"] = ["sliding_attention", "full_attention"] * 18
    assert bytes_of(model_of(large, file=Path("gpt-oss-120b/config.json"))) == 65_248_815_744


def test_llama_70b_in_nvfp4_takes_the_bytes_its_index_says() -> None:
    """42,709,045,632: metadata.total_size of nvidia/Llama-3.3-70B-Instruct-NVFP4. It has besides two fp32 scales, of weights
    and of activations, for each of the 560 linear layers: 560 · 8 B, which are not counted."""
    said = {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "group_size": 16, "exclude_modules": ["lm_head"]}
    model = model_of(LLAMA_70B | {"quantization_config": said}, file=Path("llama/config.json"))
    assert bytes_of(model) == 42_709_045_632 - 560 * 8
    assert model.formats["kv_cache"] == "fp8"


def test_deepseek_v3_takes_what_its_files_do() -> None:
    """688,586,727,753 B with the MTP module, whose tables and (2·D, D) product are in 16 bit; the files' headers and the
    rounding up of blocks are what is missing."""
    model = model_of(DEEPSEEK_V3, file=Path("v3/config.json"))
    assert model.mtp is not None
    assert model.mtp.own_tables
    layer = model.mtp.layer
    matrices = layer.matrices(7168)
    inside = sum(m.n_weights * stored_as(m.role, layer.formats, model.formats, kept="bf16")[1] / 8 for m in matrices)
    vectors = layer.n_vector_params(7168, model.norm) + 3 * 7168
    mtp = inside + 2 * (vectors + 2 * 129280 * 7168 + 2 * 7168**2)
    assert bytes_of(model) + mtp == pytest.approx(688_586_727_753, rel=1e-4)


def test_qwen_7b_in_awq_is_two_tables_and_four_bits() -> None:
    """Both tables 2 · 152,064 · 3,584 in fp16; 28 layers of 233,046,016 weights in 4.15625 bits; biases 4,608 and two norms
    a layer, one at the end: 5.57 GB, as the model's card has it."""
    quantised = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True, "version": "gemm"}
    model = model_of(QWEN_7B | {"quantization_config": quantised}, file=Path("qwen/config.json"))
    linear = 3584 * (3584 + 2 * 512 + 3584 + 3 * 18944)
    assert linear == 233_046_016
    expected = 2 * 2 * 152064 * 3584 + 28 * linear * 4.15625 / 8 + 2 * (28 * (4608 + 2 * 3584) + 3584)
    assert bytes_of(model) == expected
    assert expected == pytest.approx(5.57e9, rel=1e-3)


# What is refused.


@pytest.mark.parametrize(
    ("quantised", "words"),
    [
        ({"quant_method": "aqlm"}, '"aqlm" is not read'),
        ({"quant_method": "gptqq", "bits": 4}, "did you mean gptq"),
        ({"quant_method": "modelopt", "quant_algo": "INT1"}, "quant_algo"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "kv_cache_quant_algo": "FP2"}, "kv_cache_quant_algo"),
        (groups({"num_bits": 5, "type": "float"}), "num_bits"),
        (groups(FLOAT8, FLOAT8, sparsity_config={"format": "sparse-24-bitmask"}), "sparsity_config"),
        (groups(FLOAT8, FLOAT8, targets=("Conv2d",)), "Conv2d"),
        ({"quant_method": "fp8", "modules_to_not_convert": ["re:(a+)+$"]}, "more than this version matches"),
        ({"quant_method": "fp8", "modules_to_not_convert": ["re:(?!x).*"]}, "more than this version matches"),
        ({"quant_method": "fp8", "modules_to_not_convert": ["re:a.*b.*c.*d.*e.*f"]}, "more than this version matches"),
    ],
)
def test_what_is_understood_but_not_counted_is_named(quantised: dict[str, Any], words: str) -> None:
    with pytest.raises(Unsupported) as caught:
        formats(quantised)
    assert words in str(caught.value)
    assert "config.json" in str(caught.value)


@pytest.mark.parametrize(
    "quantised",
    [
        [],
        "fp8",
        {"quant_method": 8},
        {"quant_method": None},
        {"bits": 4},
        {"quant_method": "gptq", "bits": 0, "group_size": 128},
        {"quant_method": "gptq", "bits": 4, "group_size": -2},
        {"quant_method": "gptq", "bits": 4},
        {"quant_method": "gptq", "bits": 4, "group_size": 128, "dynamic": []},
        {"quant_method": "awq", "bits": "4", "group_size": 128},
        {"quant_method": "fp8", "weight_block_size": [0, 128]},
        {"quant_method": "fp8", "weight_block_size": [128]},
        {"quant_method": "fp8", "modules_to_not_convert": "lm_head"},
        {"quant_method": "fp8", "modules_to_not_convert": [1]},
        {"quant_method": "fp8", "modules_to_not_convert": ["x" * 1000]},
        {"quant_method": "fp8", "modules_to_not_convert": ["re:("]},
        {"quant_method": "compressed-tensors"},
        {"quant_method": "compressed-tensors", "config_groups": []},
        groups([]),
        groups({"type": "int"}),
        {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"},
        {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": {"a": "FP8"}},
        {"quant_method": "bitsandbytes"},
        {"quant_method": "bitsandbytes", "load_in_4bit": True, "load_in_8bit": True},
        {"quant_method": "hqq"},
    ],
)
def test_a_section_that_is_not_what_it_must_be_is_an_error_with_file_and_key(quantised: Any) -> None:
    with pytest.raises(SpecError) as caught:
        formats(quantised)
    assert "config.json: quantization_config" in str(caught.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 200) | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
KEYS = [  # what any recipe reads
    "bits",
    "group_size",
    "w_bit",
    "weight_block_size",
    "modules_to_not_convert",
    "ignore",
    "exclude_modules",
    "config_groups",
    "quant_algo",
    "kv_cache_scheme",
    "kv_cache_quant_algo",
    "quantized_layers",
    "dynamic",
    "load_in_4bit",
    "load_in_8bit",
    "quant_config",
    "lm_head",
    "mode",
    "extra_config",
    "sparsity_config",
    "quantization",
    "expert_dtype",
    "skip_modules",
    "modules_in_block_to_quantize",
]
METHODS = [
    "fp8",
    "awq",
    "gptq",
    "auto-round",
    "bitsandbytes",
    "compressed-tensors",
    "modelopt",
    "mxfp4",
    "mlx",
    "hqq",
    "eetq",
    "nothing",
]


@given(
    st.sampled_from(METHODS) | JSON,
    st.dictionaries(
        st.sampled_from(KEYS), JSON | st.sampled_from(["NVFP4", "MIXED_PRECISION", 4, 64, ["re:.*"], ["*"]])
    ),
)
def test_any_content_ends_in_formats_or_in_an_error_of_ours(method: Any, data: dict[str, Any]) -> None:
    try:
        found = formats(data | {"quant_method": method}, MOE_SHAPE)
    except (SpecError, Unsupported):
        return
    for i in range(4):
        roles(found, layer=i, shape=MOE_SHAPE)


def test_patterns_without_end_are_refused_in_time() -> None:
    """A thousand expressions over a thousand layers; and thousands of plain names, which real lists have."""
    long = {"d_model": 64, "layers": (Group(repeat=1000, layers=(DENSE,)),)}
    began = time.perf_counter()
    with pytest.raises(Unsupported, match="too many patterns"):
        formats({"quant_method": "fp8", "modules_to_not_convert": [f"re:.*a.*b.*{i}" for i in range(1000)]}, long)
    names = [f"model.layers.{i}.mlp.{m}_proj" for i in range(1000) for m in ("gate", "up")]
    fields = formats({"quant_method": "fp8", "modules_to_not_convert": names}, long)
    assert fields["formats"] == {"*": "fp8", "gate": "bf16", "up": "bf16"}
    assert time.perf_counter() - began < 20
