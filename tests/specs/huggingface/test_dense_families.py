"""Dense decoders, read from `config.json`: parameters to the last one, windows layer by layer, and what is refused.

Expected counts are those of transformers 5.24.0 built on device=meta, of the class that the config names. Those of families
whose code came with the checkpoint are what the published checkpoint holds; the sums are written out beside them.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.errors import RooflineError, SpecError, Unsupported
from roofline.specs.ffns import Dense, Moe
from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.families import dense, gemma, gemma4, gpt, llama, nas, remote
from roofline.specs.huggingface.families.common import grouped
from roofline.specs.huggingface.reader import model_of
from roofline.specs.layers import Layer
from roofline.specs.mixers import Attention, LinearMixer
from roofline.specs.model import Model

SMALL = Path(__file__).with_name("dense_families.jsonl")
ORACLES = Path(__file__).resolve().parents[4] / "shared" / "oracles"
FAMILIES: dict[str, Callable[[Config], dict[str, Any]]] = {}
for module in (llama, dense, gpt, gemma, gemma4, nas, remote):
    FAMILIES |= module.FAMILIES

LLAMA_3_8B = {
    "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "max_position_embeddings": 131072,
    "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "vocab_size": 128256,
}  # fmt: skip
MISTRAL_7B = {
    "model_type": "mistral", "hidden_size": 4096, "intermediate_size": 14336, "max_position_embeddings": 32768,
    "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "vocab_size": 32000,
}  # fmt: skip
FALCON_7B = {
    "model_type": "falcon", "alibi": False, "bias": False, "hidden_size": 4544, "multi_query": True,
    "new_decoder_architecture": False, "num_attention_heads": 71, "num_hidden_layers": 32, "parallel_attn": True,
    "vocab_size": 65024,
}  # fmt: skip
FALCON_40B = {
    "model_type": "falcon", "alibi": False, "bias": False, "hidden_size": 8192, "multi_query": True,
    "new_decoder_architecture": True, "num_kv_heads": 8, "num_attention_heads": 128, "num_hidden_layers": 60,
    "parallel_attn": True, "vocab_size": 65024,
}  # fmt: skip
REFINED_WEB_7B = {
    "model_type": "RefinedWebModel", "architectures": ["RWForCausalLM"], "alibi": False, "bias": False,
    "hidden_size": 4544, "multi_query": True, "n_head": 71, "n_layer": 32, "parallel_attn": True, "vocab_size": 65024,
}  # fmt: skip
REFINED_WEB_40B = {
    "model_type": "RefinedWeb", "architectures": ["RWForCausalLM"], "alibi": False, "bias": False,
    "hidden_size": 8192, "n_head": 128, "n_head_kv": 8, "n_layer": 60, "parallel_attn": True, "vocab_size": 65024,
}  # fmt: skip
OPT_350M = {
    "model_type": "opt", "do_layer_norm_before": False, "ffn_dim": 4096, "hidden_size": 1024,
    "max_position_embeddings": 2048, "num_attention_heads": 16, "num_hidden_layers": 24, "vocab_size": 50272,
    "word_embed_proj_dim": 512,
}  # fmt: skip
PHI_2 = {
    "model_type": "phi", "hidden_size": 2560, "intermediate_size": 10240, "max_position_embeddings": 2048,
    "num_attention_heads": 32, "num_hidden_layers": 32, "vocab_size": 51200,
}  # fmt: skip
PHI_2_AT_FIRST = {
    "model_type": "phi-msft", "n_embd": 2560, "n_head": 32, "n_head_kv": None, "n_inner": None, "n_layer": 32,
    "n_positions": 2048, "vocab_size": 51200, "tie_word_embeddings": False,
}  # fmt: skip
GEMMA_4_E2B = {
    "model_type": "gemma4_text", "attention_k_eq_v": False, "enable_moe_block": False, "global_head_dim": 512,
    "head_dim": 256, "hidden_size": 1536, "hidden_size_per_layer_input": 256, "intermediate_size": 6144,
    "layer_types": (["sliding_attention"] * 4 + ["full_attention"]) * 7, "num_attention_heads": 8,
    "num_global_key_value_heads": None, "num_hidden_layers": 35, "num_key_value_heads": 1, "num_kv_shared_layers": 20,
    "sliding_window": 512, "use_double_wide_mlp": True, "vocab_size": 262144, "vocab_size_per_layer_input": 262144,
}  # fmt: skip
GEMMA_4_31B = {
    "model_type": "gemma4_text", "attention_k_eq_v": True, "global_head_dim": 512, "head_dim": 256,
    "hidden_size": 5376, "hidden_size_per_layer_input": 0, "intermediate_size": 21504, "num_attention_heads": 32,
    "num_global_key_value_heads": 4, "num_hidden_layers": 60, "num_key_value_heads": 16, "num_kv_shared_layers": 0,
    "sliding_window": 1024, "vocab_size": 262144,
}  # fmt: skip
COUNTED = {  # from the shared oracles and from meta builds
    "Llama 3.1 8B": (8_030_261_248, LLAMA_3_8B),
    "Mistral 7B": (7_241_732_096, MISTRAL_7B),
    "Falcon 7B": (6_921_720_704, FALCON_7B),
    "Falcon 7B, older keys": (6_921_720_704, REFINED_WEB_7B),
    "Falcon 40B": (41_303_293_952, FALCON_40B),
    "Falcon 40B, older keys": (41_303_293_952, REFINED_WEB_40B),
    "OPT 350M": (331_196_416, OPT_350M),
    "Phi 2": (2_779_683_840, PHI_2),
    "Phi 2, older keys": (2_779_683_840, PHI_2_AT_FIRST),
    "Gemma 4 31B, text": (30_697_345_280, GEMMA_4_31B),
    "Gemma 4 E2B, text": (4_628_569_344, GEMMA_4_E2B),
}

QWEN_7B = {
    "model_type": "qwen", "hidden_size": 4096, "intermediate_size": 22016, "kv_channels": 128, "no_bias": True,
    "num_attention_heads": 32, "num_hidden_layers": 32, "seq_length": 8192, "vocab_size": 151936,
}  # fmt: skip
INTERNLM2_7B = {
    "model_type": "internlm2", "bias": False, "hidden_size": 4096, "intermediate_size": 14336,
    "max_position_embeddings": 32768, "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
    "vocab_size": 92544,
}  # fmt: skip
BAICHUAN2_13B = {
    "model_type": "baichuan", "hidden_size": 5120, "intermediate_size": 13696, "model_max_length": 4096,
    "num_attention_heads": 40, "num_hidden_layers": 40, "vocab_size": 125696,
}  # fmt: skip
CHATGLM3_6B = {
    "model_type": "chatglm", "architectures": ["ChatGLMModel"], "add_bias_linear": False, "add_qkv_bias": True,
    "ffn_hidden_size": 13696, "hidden_size": 4096, "kv_channels": 128, "multi_query_attention": True,
    "multi_query_group_num": 2, "num_attention_heads": 32, "num_layers": 28, "padded_vocab_size": 65024,
    "seq_length": 8192,
}  # fmt: skip
ORION_14B = {
    "model_type": "orion", "hidden_size": 5120, "intermediate_size": 15360, "max_position_embeddings": 4096,
    "num_attention_heads": 40, "num_hidden_layers": 40, "num_key_value_heads": 40, "tie_word_embeddings": False,
    "vocab_size": 84608,
}  # fmt: skip
MINICPM_2B = {
    "model_type": "minicpm", "hidden_size": 2304, "intermediate_size": 5760, "max_position_embeddings": 4096,
    "num_attention_heads": 36, "num_hidden_layers": 40, "num_key_value_heads": 36, "tie_word_embeddings": True,
    "vocab_size": 122753,
}  # fmt: skip
MINICPM_MOE_8X2B = MINICPM_2B | {"num_experts": 8, "num_experts_per_tok": 2}
MIMO_7B = {
    "model_type": "mimo", "attention_bias": True, "head_dim": 128, "hidden_size": 4096, "intermediate_size": 11008,
    "max_position_embeddings": 32768, "num_attention_heads": 32, "num_hidden_layers": 36, "num_key_value_heads": 8,
    "num_nextn_predict_layers": 1, "sliding_window": 32768, "tie_word_embeddings": False, "use_sliding_window": False,
    "vocab_size": 151680,
}  # fmt: skip
DEEPSEEK_MOE_16B = {
    "model_type": "deepseek", "first_k_dense_replace": 1, "hidden_size": 2048, "intermediate_size": 10944,
    "max_position_embeddings": 4096, "moe_intermediate_size": 1408, "moe_layer_freq": 1, "n_routed_experts": 64,
    "n_shared_experts": 2, "num_attention_heads": 16, "num_experts_per_tok": 6, "num_hidden_layers": 28,
    "num_key_value_heads": 16, "tie_word_embeddings": False, "vocab_size": 102400,
}  # fmt: skip
SUMMED = {  # tables + layers · (attention + block + norms) + last norm
    # (q, k, v with biases) + o, half of 22016
    "Qwen 7B": (
        2 * 151936 * 4096 + 32 * (3 * 4096 * 4096 + 3 * 4096 + 4096**2 + 3 * 4096 * 11008 + 2 * 4096) + 4096, QWEN_7B
    ),
    "InternLM2 7B": (
        2 * 92544 * 4096 + 32 * (2 * 4096**2 + 2 * 4096 * 1024 + 3 * 4096 * 14336 + 2 * 4096) + 4096, INTERNLM2_7B
    ),
    "Baichuan2 13B": (2 * 125696 * 5120 + 40 * (4 * 5120**2 + 3 * 5120 * 13696 + 2 * 5120) + 5120, BAICHUAN2_13B),
    # one matrix for 32 heads of queries and 2 + 2 of keys and values, 4608 wide, with biases
    "ChatGLM3 6B": (
        2 * 65024 * 4096 + 28 * (4096 * 4608 + 4608 + 4096**2 + 3 * 4096 * 13696 + 2 * 4096) + 4096, CHATGLM3_6B
    ),
    # its norms have biases
    "Orion 14B": (2 * 84608 * 5120 + 40 * (4 * 5120**2 + 3 * 5120 * 15360 + 4 * 5120) + 2 * 5120, ORION_14B),
    "MiniCPM 2B": (122753 * 2304 + 40 * (4 * 2304**2 + 3 * 2304 * 5760 + 2 * 2304) + 2304, MINICPM_2B),
    "MiniCPM-MoE 8x2B": (
        122753 * 2304 + 40 * (4 * 2304**2 + 8 * 2304 + 8 * 3 * 2304 * 5760 + 2 * 2304) + 2304, MINICPM_MOE_8X2B
    ),
    "MiMo 7B": (
        2 * 151680 * 4096 + 36 * (2 * 4096**2 + 2 * 4096 * 1024 + 6144 + 3 * 4096 * 11008 + 2 * 4096) + 4096, MIMO_7B
    ),
    # 64 experts and two in one shared block, of 1408, in all but the first layer
    "DeepSeekMoE 16B": (
        2 * 102400 * 2048 + 28 * (4 * 2048**2 + 2 * 2048) + 3 * 2048 * 10944
        + 27 * (64 * 2048 + 66 * 3 * 2048 * 1408) + 2048, DEEPSEEK_MOE_16B,
    ),
}  # fmt: skip
PUBLISHED = {
    "Qwen 7B": 7_721_324_544, "InternLM2 7B": 7_737_708_544, "Baichuan2 13B": 13_896_668_160,
    "ChatGLM3 6B": 6_243_584_000, "Orion 14B": 14_498_703_360, "MiniCPM 2B": 2_724_880_896,
    "MiniCPM-MoE 8x2B": 13_873_291_776, "MiMo 7B": 7_833_409_536 - 210_790_400, "DeepSeekMoE 16B": 16_375_728_128,
}  # fmt: skip

TINY = {
    "hidden_size": 24, "intermediate_size": 20, "num_attention_heads": 4, "num_hidden_layers": 6,
    "num_key_value_heads": 2, "vocab_size": 31,
}  # fmt: skip


def read(config: dict[str, Any]) -> Model:
    return model_of(config, file=Path("model/config.json"))


def in_order(m: Model) -> list[Layer]:
    return [layer for group in m.layers for _ in range(group.repeat) for layer in group.layers]


def mixers(config: dict[str, Any]) -> list[Attention]:
    found = [layer.mixer for layer in in_order(read(config))]
    assert all(isinstance(m, Attention) for m in found)
    return [m for m in found if isinstance(m, Attention)]


def windows(config: dict[str, Any]) -> list[int | None]:
    return [mixer.window for mixer in mixers(config)]


def small() -> list[dict[str, Any]]:
    return [json.loads(line) for line in SMALL.read_text(encoding="utf-8").splitlines()[1:]]


# Counts


def test_small_random_configs_have_every_parameter_the_built_model_has() -> None:
    wrong = [(case, got) for case in small() if (got := read(case["config"]).n_params) != case["n_params"]]
    assert wrong == []


def test_the_small_configs_are_of_every_family_that_transformers_builds() -> None:
    came_with_the_checkpoint = {*remote.FAMILIES, *nas.FAMILIES, "phi-msft", "stablelm_epoch"}
    by_another_name = {"RefinedWeb", "RefinedWebModel", "exaone4_5_text"}
    assert {c["config"]["model_type"] for c in small()} == set(FAMILIES) - came_with_the_checkpoint - by_another_name


@pytest.mark.parametrize("name", COUNTED)
def test_a_released_model_has_every_parameter_the_built_one_has(name: str) -> None:
    n_params, config = COUNTED[name]
    assert read(config).n_params == n_params


@pytest.mark.parametrize("name", SUMMED)
def test_a_model_whose_code_came_with_it_has_what_its_checkpoint_holds(name: str) -> None:
    n_params, config = SUMMED[name]
    assert read(config).n_params == n_params == PUBLISHED[name]


def test_mimo_guesses_with_a_layer_that_its_checkpoint_holds_besides() -> None:
    model = read(MIMO_7B)
    assert model.n_mtp_params == 210_790_400
    assert {layer.mixer.qkv_bias for layer in in_order(model) if isinstance(layer.mixer, Attention)} == {True}


@pytest.mark.skipif(not ORACLES.is_dir(), reason="the shared oracles are not here")
def test_every_shared_config_of_these_families_is_read_exactly() -> None:
    with (ORACLES / "params.csv").open(encoding="utf-8", newline="") as file:
        rows = {row["name"]: row for row in csv.DictReader(file)}
    n = 0
    for path in sorted((ORACLES / "configs").glob("*.json")):
        config = json.loads(path.read_text(encoding="utf-8"))
        if config["model_type"] in FAMILIES:
            assert read(config).n_params == int(rows[path.stem]["expected_params"]), path.stem
            n += 1
    assert n >= 49


# What the classes take for absent keys


@pytest.mark.parametrize(
    ("section", "n_params"),
    [
        # meta builds of each text class: Gemma 3 4B of six keys; a Llama 2 7B of two (as LLaVA 1.5 has it); nothing at all
        (
            {"model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34},
            3_880_263_168,
        ),
        ({"model_type": "llama", "vocab_size": 32064}, 6_738_939_904),
        ({"model_type": "mistral"}, 7_241_732_096),
        ({"model_type": "gemma2"}, 2_614_341_888),
        ({"model_type": "gemma3n_text"}, 6_835_235_568),
        ({"model_type": "qwen3"}, 12_049_461_248),
        ({"model_type": "opt"}, 125_239_296),
    ],
)  # fmt: skip
def test_a_nested_config_takes_from_its_class_what_it_leaves_out(section: dict[str, Any], n_params: int) -> None:
    assumed: list[str] = []
    whole = Config({"text_config": section}, where="config.json", assumed=assumed)
    shape = FAMILIES[section["model_type"]](whole.section("text_config"))
    model = Model.read({"id": "text", "name": "text", "dtype": "bf16"} | shape, where="config.json")
    assert model.n_params == n_params
    assert any(line.startswith("text_config.num_attention_heads: absent") for line in assumed)


@pytest.mark.parametrize("key", ["hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size"])
def test_a_file_of_its_own_has_to_say_its_sizes(key: str) -> None:
    with pytest.raises(SpecError, match=rf"model/config\.json: {key}: missing"):
        read({k: v for k, v in LLAMA_3_8B.items() if k != key})


def test_an_absent_window_of_mistral_is_4096_and_a_null_one_none() -> None:
    assert set(windows(MISTRAL_7B)) == {4096}
    assert set(windows(MISTRAL_7B | {"sliding_window": None})) == {None}


def test_an_absent_head_width_of_qwen3_is_128_and_of_gemma_256() -> None:
    assert mixers(TINY | {"model_type": "qwen3"})[0].d_head == 128
    assert mixers(TINY | {"model_type": "gemma3_text"})[0].d_head == 256
    assert mixers(TINY | {"model_type": "llama"})[0].d_head == 6


def test_defaults_are_on_record() -> None:
    assert "attention_bias: absent, false assumed (the family's own default)" in read(LLAMA_3_8B).assumed


# Windows

S, F = "sliding_attention", "full_attention"


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"model_type": "gemma2"}, [4096, None] * 3),
        ({"model_type": "gemma3_text"}, [4096] * 5 + [None]),
        ({"model_type": "gemma3_text", "sliding_window": 512, "sliding_window_pattern": 2}, [512, None] * 3),
        ({"model_type": "gemma3_text", "layer_types": [F, S, S, S, S, F]}, [None, 4096, 4096, 4096, 4096, None]),
        ({"model_type": "cohere2"}, [4096, 4096, 4096, None, 4096, 4096]),
        ({"model_type": "olmo3"}, [4096, 4096, 4096, None, 4096, 4096]),
        ({"model_type": "cwm"}, [None, 8192, 8192, 8192, None, 8192]),
        ({"model_type": "exaone4"}, [4096, 4096, 4096, None, 4096, 4096]),
        ({"model_type": "exaone4", "sliding_window_pattern": "LLG"}, [4096, 4096, None] * 2),
        ({"model_type": "exaone4", "sliding_window_pattern": "LLLG"}, [4096, 4096, 4096, None, 4096, None]),
        ({"model_type": "exaone4", "sliding_window": None, "sliding_window_pattern": None}, [None] * 6),
        ({"model_type": "ministral"}, [4096] * 6),
        ({"model_type": "ministral3"}, [None] * 6),
        ({"model_type": "phi3", "sliding_window": 2047}, [2047] * 6),
        ({"model_type": "smollm3", "sliding_window": 64}, [None] * 6),
        ({"model_type": "smollm3", "sliding_window": 64, "use_sliding_window": True}, [None, None, None, 64, None, None]),
        ({"model_type": "qwen2", "sliding_window": 64}, [None] * 6),
        ({"model_type": "qwen2", "sliding_window": 64, "use_sliding_window": True}, [None] * 6),  # from layer 28 on
        (
            {"model_type": "qwen2", "sliding_window": 64, "use_sliding_window": True, "max_window_layers": 4},
            [None] * 4 + [64] * 2,
        ),
        ({"model_type": "gemma3n_text", "num_kv_shared_layers": 0}, [512] * 4 + [None, 512]),
        ({"model_type": "gemma4_text", "layer_types": [S] * 6}, [512] * 5 + [None]),  # never on the last
        (
            {"model_type": "gpt_neo", "num_layers": 6, "num_heads": 4, "attention_types": [[["global", "local"], 3]]},
            [None, 256] * 3,
        ),
    ],
)  # fmt: skip
def test_each_layer_has_the_window_its_family_gives_it(more: dict[str, Any], expected: list[int | None]) -> None:
    assert windows(TINY | more) == expected


def test_gemma_3_27b_slides_on_52_of_62_layers() -> None:
    found = windows(TINY | {"model_type": "gemma3_text", "num_hidden_layers": 62, "sliding_window": 1024})
    assert (found.count(1024), found.count(None)) == (52, 10)


def test_a_window_to_both_sides_counts_the_token_itself() -> None:
    # EmbeddingGemma: half of 512 to either side
    encoder = read(TINY | {
        "model_type": "gemma3_text", "use_bidirectional_attention": True, "sliding_window": 512,
        "architectures": ["Gemma3TextModel"],
    })  # fmt: skip
    assert encoder.windows == (513,)
    assert not encoder.generates


# What tells layers apart


@pytest.mark.parametrize(
    ("more", "n_norms"),
    [
        ({}, 1),
        ({"parallel_attn": False}, 2),
        ({"new_decoder_architecture": True}, 2),
        ({"new_decoder_architecture": True, "num_ln_in_parallel_attn": 1}, 1),  # Falcon 11B
        ({"num_ln_in_parallel_attn": 2}, 2),
    ],
)
def test_falcon_has_as_many_norms_as_its_architecture(more: dict[str, Any], n_norms: int) -> None:
    assert in_order(read(FALCON_7B | more))[0].n_norms == n_norms


def test_falcon_counts_its_kv_heads_by_architecture() -> None:
    assert mixers(FALCON_7B)[0].n_kv_heads == 1
    assert mixers(FALCON_7B | {"multi_query": False, "num_kv_heads": 1})[0].n_kv_heads == 71
    assert mixers(FALCON_40B)[0].n_kv_heads == 8


def test_the_last_twenty_layers_of_gemma_4_e2b_keep_no_cache_and_have_blocks_twice_as_wide() -> None:
    layers = in_order(read(GEMMA_4_E2B))
    caching = [isinstance(x.mixer, Attention) and x.mixer.caches for x in layers]
    assert caching == [True] * 15 + [False] * 20
    assert [x.ffn.d_ff for x in layers if isinstance(x.ffn, Dense)] == [6144] * 15 + [12288] * 20


def test_gemma_4_31b_reads_keys_as_values_on_the_layers_that_see_all() -> None:
    found = mixers(GEMMA_4_31B)
    assert {(m.window, m.values, m.n_kv_heads, m.d_head) for m in found} == {
        (1024, "own", 16, 256),
        (None, "keys", 4, 512),
    }
    assert sum(m.values == "keys" for m in found) == 10


def test_a_gemma_4_file_that_lists_its_layers_is_read_as_one_that_names_the_widths() -> None:
    listed = {str(i): {"head_dim": 512, "num_key_value_heads": 4} for i in range(5, 60, 6)}
    newer = {k: v for k, v in GEMMA_4_31B.items() if "global" not in k} | {"per_layer_config": listed}
    assert read(newer).layers == read(GEMMA_4_31B).layers


def test_a_token_passes_the_dense_block_and_its_share_of_gemma_4s_experts() -> None:
    mixture = read(TINY | {
        "model_type": "gemma4_text", "enable_moe_block": True, "num_experts": 8, "top_k_experts": 2,
        "moe_intermediate_size": 16, "hidden_size_per_layer_input": 0,
    })  # fmt: skip
    ffn = in_order(mixture)[0].ffn
    assert isinstance(ffn, Moe)
    assert ffn.d_shared == 20
    # six of eight experts, of 3 · 24 · 16 each, on six layers stand idle
    assert mixture.n_params - mixture.n_active_params == 6 * 6 * 3 * 24 * 16


def test_layers_pruned_by_search_have_what_is_left_of_them() -> None:
    blocks = [
        {"attention": {"n_heads_in_group": 2}, "ffn": {"ffn_mult": 2.625}},
        {"attention": {"no_op": True, "n_heads_in_group": None}, "ffn": {"ffn_mult": 1.3125}},
        {"attention": {"replace_with_linear": True}, "ffn": {"replace_with_linear": True}},
        {"attention": {"no_op": True}, "ffn": {"no_op": True, "ffn_mult": None}},
    ]
    pruned = read({
        "model_type": "nemotron-nas", "hidden_size": 512, "num_attention_heads": 8, "num_hidden_layers": 4,
        "num_key_value_heads": None, "intermediate_size": None, "vocab_size": 100, "max_position_embeddings": 64,
        "block_configs": blocks,
    })  # fmt: skip
    # 2/3 · 2.625 · 512 = 896, up to 1024; 2/3 · 1.3125 · 512 = 448, up to 512; four KV heads of 64
    whole = 2 * 512**2 + 2 * 512 * 256 + 3 * 512 * 1024 + 2 * 512
    narrow = 3 * 512 * 512 + 512
    linear = 2 * 512**2 + 2 * 512
    assert pruned.n_params == 2 * 100 * 512 + whole + narrow + linear + 512
    assert [type(layer.mixer) for layer in in_order(pruned)] == [Attention, type(None), LinearMixer, type(None)]


# Embedders and classifiers: meta builds of AutoModel and AutoModelForSequenceClassification, tiny sizes with two layers


@pytest.mark.parametrize(
    ("model_type", "bare"), [("mistral", 7200), ("qwen2", 7296), ("llama", 7200), ("gemma3_text", 152320)]
)
def test_a_bare_model_has_no_head_and_a_classifier_scores_instead(model_type: str, bare: int) -> None:
    config = TINY | {"model_type": model_type, "num_hidden_layers": 2}
    assert read(config | {"architectures": ["SomeModel"]}).n_params == bare
    classifier = config | {"architectures": ["SomeForSequenceClassification"]}
    assert read(classifier).n_params == bare + 2 * 24
    assert read(classifier | {"id2label": {"0": "a", "1": "b", "2": "c"}}).n_params == bare + 3 * 24


def test_the_bare_model_of_a_section_is_not_the_end_of_the_whole() -> None:
    section = TINY | {"model_type": "llama", "architectures": ["LlamaModel"]}
    whole = Config({"text_config": section}, where="config.json", assumed=[])
    assert llama.llama(whole.section("text_config"))["head"] == {"tied": False}


# Groups

KINDS = [Layer(mixer=Attention(n_heads=1, n_kv_heads=1, d_head=1, window=w), ffn=Dense(d_ff=1)) for w in (None, 1, 2)]


@given(st.lists(st.sampled_from(KINDS), max_size=60))
def test_groups_are_the_layers_in_their_order(layers: list[Layer]) -> None:
    assert [layer for g in grouped(layers) for _ in range(g.repeat) for layer in g.layers] == layers


@given(st.lists(st.sampled_from(KINDS), min_size=1, max_size=16), st.integers(2, 20), st.integers(0, 15))
def test_a_pattern_that_repeats_is_one_group_and_what_is_left(pattern: list[Layer], times: int, left: int) -> None:
    layers = pattern * times + pattern[:left]
    first, *rest = grouped(layers)
    assert len(first.layers) <= len(pattern)
    assert sum(len(g.layers) * g.repeat for g in rest) <= max(len(pattern), left)


# What is refused


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"model_type": "gemma2", "layer_types": [F, S, "windowed", F, S, F]}, "layer_types: expected only full_atten"),
        ({"model_type": "gemma2", "layer_types": [F]}, "layer_types: expected 6 items, got 1"),
        ({"model_type": "llama", "num_key_value_heads": 3}, "num_key_value_heads: expected a divisor of num_attention_he"),
        ({"model_type": "llama", "num_attention_heads": 100_000, "num_key_value_heads": 1}, "num_attention_heads: expected"),
        ({"model_type": "llama", "attention_bias": None}, "attention_bias: expected a value, got None (null)"),
        ({"model_type": "stablelm", "num_attention_heads": 16}, "num_attention_heads: expected a divisor of hidden_size=24"),
        ({"model_type": "helium"}, "head_dim: expected hidden_size / num_attention_heads"),
        ({"model_type": "cohere2", "sliding_window_pattern": 0}, "sliding_window_pattern: expected a whole number from 1"),
        ({"model_type": "exaone4", "sliding_window_pattern": "LLX"}, "sliding_window_pattern: expected letters L"),
        ({"model_type": "gemma4_text", "num_kv_shared_layers": 2}, "num_kv_shared_layers: expected fewer"),
        ({"model_type": "gemma4_text", "per_layer_config": {"9": {}}}, "per_layer_config.9: expected layers from 0 to 5"),
        ({"model_type": "gpt2", "n_head": 5, "n_layer": 2}, "n_head: expected a divisor of the width 24"),
        ({"model_type": "gpt_neo", "attention_types": [[["local"], 10**9]]}, "attention_types: expected"),
        ({"model_type": "nemotron-nas", "block_configs": [{}]}, "block_configs: expected 6 items, got 1"),
        ({"model_type": "deci", "num_key_value_heads_per_layer": [1, 2, 4, 4, 4, 3]}, "num_key_value_heads_per_layer: exp"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_with_file_and_key(more: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SpecError) as error:
        read(TINY | {"max_position_embeddings": 64} | more)
    assert str(error.value).startswith(f"model/config.json: {sentence}")


@pytest.mark.parametrize(
    "more",
    [
        {"model_type": "gpt2", "add_cross_attention": True},
        {"model_type": "llama", "architectures": ["LlamaForTokenClassification"]},
        {"model_type": "gemma4_text", "per_layer_config": {"1": {"intermediate_size": 7}}},
        {"model_type": "nemotron-nas", "block_configs": [{"attention": {"mamba": {}}, "ffn": {}}] * 6},
    ],
)
def test_what_is_not_known_is_unsupported_rather_than_guessed(more: dict[str, Any]) -> None:
    with pytest.raises(Unsupported, match=r"^model/config\.json: "):
        read(TINY | {"max_position_embeddings": 64} | more)


JUNK: list[Any] = [
    None,
    -1,
    0,
    3,
    10**30,
    1e308,
    float("nan"),
    "",
    "x",
    True,
    [],
    [1],
    [[["local"] * 999, 10**9]],
    {},
    {"0": {}},
    [None],
]


def outcome(config: dict[str, Any]) -> str:
    try:
        return "read" if read(config).n_params > 0 else "empty"
    except RooflineError as error:
        return "refused" if str(error).startswith("model/config.json: ") else f"refused without a place: {error}"


@given(st.sampled_from(small()), st.data())
def test_junk_is_read_or_refused_and_never_anything_else(case: dict[str, Any], data: st.DataObject) -> None:
    config = dict(case["config"])
    for key in data.draw(st.lists(st.sampled_from(sorted(config)), min_size=1, max_size=2)):
        if key != "model_type":
            config[key] = data.draw(st.sampled_from(JUNK))
    assert outcome(config) in ("read", "refused")
