"""Mixtures of experts and latent attention, read from `config.json`: parameters to the last one.

Expected counts are those of transformers 5.24.0 built on device=meta: of the released models below (their configs trimmed to
the numbers that define the architecture) and of the small random configs in the file beside this one.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from roofline.errors import RooflineError, SpecError
from roofline.specs.ffns import Dense, Moe
from roofline.specs.huggingface.reader import model_of
from roofline.specs.mixers import Compressed
from roofline.specs.model import Model

SMALL = Path(__file__).with_name("moe_and_latent_families.jsonl")
ORACLES = Path(__file__).resolve().parents[4] / "shared" / "oracles"

DEEPSEEK_V3 = {
    "model_type": "deepseek_v3", "first_k_dense_replace": 3, "hidden_size": 7168, "intermediate_size": 18432,
    "kv_lora_rank": 512, "max_position_embeddings": 163840, "moe_intermediate_size": 2048, "n_routed_experts": 256,
    "n_shared_experts": 1, "num_attention_heads": 128, "num_experts_per_tok": 8, "num_hidden_layers": 61,
    "num_key_value_heads": 128, "num_nextn_predict_layers": 1, "q_lora_rank": 1536, "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64, "v_head_dim": 128, "vocab_size": 129280, "attention_bias": False,
    "tie_word_embeddings": False, "dtype": "bfloat16",
}  # fmt: skip
KIMI_K2 = DEEPSEEK_V3 | {
    "model_type": "kimi_k2", "first_k_dense_replace": 1, "n_routed_experts": 384, "num_attention_heads": 64,
    "num_nextn_predict_layers": 0, "vocab_size": 163840,
}  # fmt: skip
DEEPSEEK_V32 = DEEPSEEK_V3 | {
    "model_type": "deepseek_v32", "index_head_dim": 128, "index_n_heads": 64, "index_topk": 2048,
}  # fmt: skip
GLM_5 = DEEPSEEK_V32 | {
    "model_type": "glm_moe_dsa", "hidden_size": 6144, "intermediate_size": 12288, "index_n_heads": 32, "head_dim": 64,
    "num_attention_heads": 64, "num_hidden_layers": 78, "q_lora_rank": 2048, "qk_nope_head_dim": 192,
    "v_head_dim": 256, "vocab_size": 154880,
}  # fmt: skip
V2_LITE = {
    "model_type": "deepseek_v2", "hidden_size": 2048, "intermediate_size": 10944, "moe_intermediate_size": 1408,
    "num_hidden_layers": 27, "num_attention_heads": 16, "num_key_value_heads": 16, "n_shared_experts": 2,
    "n_routed_experts": 64, "kv_lora_rank": 512, "q_lora_rank": None, "qk_rope_head_dim": 64, "v_head_dim": 128,
    "qk_nope_head_dim": 128, "num_experts_per_tok": 6, "first_k_dense_replace": 1, "vocab_size": 102400,
    "max_position_embeddings": 163840, "dtype": "bfloat16",
}  # fmt: skip
V4_FLASH = {
    "model_type": "deepseek_v4", "hc_mult": 4, "head_dim": 512, "hidden_size": 4096, "index_head_dim": 128,
    "index_n_heads": 64, "index_topk": 512, "max_position_embeddings": 1048576, "moe_intermediate_size": 2048,
    "n_routed_experts": 256, "n_shared_experts": 1, "num_attention_heads": 64, "num_experts_per_tok": 6,
    "num_hidden_layers": 43, "num_hash_layers": 3, "num_key_value_heads": 1, "num_nextn_predict_layers": 1,
    "o_groups": 8, "o_lora_rank": 1024, "q_lora_rank": 1024, "qk_rope_head_dim": 64, "sliding_window": 128,
    "tie_word_embeddings": False, "vocab_size": 129280, "compress_ratios": [0, 0, *[4, 128] * 20, 4, 0],
    "dtype": "bfloat16",
}  # fmt: skip
MIXTRAL = {
    "model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336, "max_position_embeddings": 32768,
    "num_attention_heads": 32, "num_experts_per_tok": 2, "num_hidden_layers": 32, "num_key_value_heads": 8,
    "num_local_experts": 8, "sliding_window": None, "tie_word_embeddings": False, "vocab_size": 32000,
    "dtype": "bfloat16",
}  # fmt: skip
QWEN3_30B = {
    "model_type": "qwen3_moe", "decoder_sparse_step": 1, "head_dim": 128, "hidden_size": 2048,
    "intermediate_size": 6144, "max_position_embeddings": 40960, "mlp_only_layers": [], "moe_intermediate_size": 768,
    "num_attention_heads": 32, "num_experts": 128, "num_experts_per_tok": 8, "num_hidden_layers": 48,
    "num_key_value_heads": 4, "use_sliding_window": False, "sliding_window": None, "vocab_size": 151936,
    "tie_word_embeddings": False, "dtype": "bfloat16",
}  # fmt: skip
QWEN15_MOE = {
    "model_type": "qwen2_moe", "hidden_size": 2048, "intermediate_size": 5632, "max_position_embeddings": 32768,
    "num_attention_heads": 16, "num_hidden_layers": 24, "num_key_value_heads": 16, "use_sliding_window": False,
    "sliding_window": 32768, "max_window_layers": 21, "vocab_size": 151936, "moe_intermediate_size": 1408,
    "shared_expert_intermediate_size": 5632, "num_experts_per_tok": 4, "num_experts": 60, "dtype": "bfloat16",
}  # fmt: skip
GPT_OSS_20B = {
    "model_type": "gpt_oss", "attention_bias": True, "head_dim": 64, "hidden_size": 2880, "intermediate_size": 2880,
    "max_position_embeddings": 131072, "num_attention_heads": 64, "num_experts_per_tok": 4, "experts_per_token": 4,
    "num_hidden_layers": 24, "num_key_value_heads": 8, "num_local_experts": 32, "sliding_window": 128,
    "layer_types": ["sliding_attention", "full_attention"] * 12, "vocab_size": 201088, "dtype": "bfloat16",
    "tie_word_embeddings": False,
}  # fmt: skip
GLM_45 = {
    "model_type": "glm4_moe", "attention_bias": True, "head_dim": 128, "hidden_size": 5120, "intermediate_size": 12288,
    "max_position_embeddings": 131072, "moe_intermediate_size": 1536, "num_attention_heads": 96,
    "n_routed_experts": 160, "n_shared_experts": 1, "num_experts_per_tok": 8, "first_k_dense_replace": 3,
    "num_hidden_layers": 92, "num_key_value_heads": 8, "num_nextn_predict_layers": 1, "use_qk_norm": True,
    "tie_word_embeddings": False, "vocab_size": 151552, "dtype": "bfloat16",
}  # fmt: skip
MINIMAX_M25 = {
    "model_type": "minimax_m2", "num_hidden_layers": 62, "hidden_size": 3072, "num_attention_heads": 48,
    "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 1536, "vocab_size": 200064,
    "num_experts_per_tok": 8, "num_local_experts": 256, "max_position_embeddings": 196608, "num_mtp_modules": 3,
    "tie_word_embeddings": False, "dtype": "bfloat16",
}  # fmt: skip
MINIMAX_M3 = {
    "model_type": "minimax_m3", "num_hidden_layers": 60, "hidden_size": 6144, "num_attention_heads": 64,
    "num_key_value_heads": 4, "head_dim": 128, "intermediate_size": 3072, "dense_intermediate_size": 12288,
    "shared_intermediate_size": 3072, "vocab_size": 200064, "num_experts_per_tok": 4, "num_local_experts": 128,
    "max_position_embeddings": 1048576, "moe_layer_freq": [0, 0, 0, *[1] * 57], "num_mtp_modules": 1,
    "sparse_attention_config": {
        "sparse_attention_freq": [0, 0, 0, *[1] * 57], "sparse_block_size": 128, "sparse_index_dim": 128,
        "sparse_num_index_heads": 4, "sparse_topk_blocks": 16,
    },
    "tie_word_embeddings": False, "dtype": "bfloat16",
}  # fmt: skip
SCOUT_TEXT = {
    "model_type": "llama4_text", "attention_bias": False, "attention_chunk_size": 8192, "head_dim": 128,
    "hidden_size": 5120, "interleave_moe_layer_step": 1, "intermediate_size": 8192, "intermediate_size_mlp": 16384,
    "max_position_embeddings": 10485760, "num_attention_heads": 40, "num_experts_per_tok": 1, "num_hidden_layers": 48,
    "num_key_value_heads": 8, "num_local_experts": 16, "vocab_size": 202048, "dtype": "bfloat16",
}  # fmt: skip
MIMO_FLASH = {
    "model_type": "mimo_v2_flash", "num_hidden_layers": 48, "hidden_size": 4096, "num_attention_heads": 64,
    "num_key_value_heads": 4, "head_dim": 192, "v_head_dim": 128, "intermediate_size": 16384, "vocab_size": 152576,
    "max_position_embeddings": 262144, "sliding_window": 128, "sliding_window_size": 128,
    "swa_num_attention_heads": 64, "swa_num_key_value_heads": 8, "swa_head_dim": 192, "swa_v_head_dim": 128,
    "hybrid_layer_pattern": [0, 1, 1, 1, 1, 0, *[1, 1, 1, 1, 1, 0] * 7], "moe_layer_freq": [0, *[1] * 47],
    "moe_intermediate_size": 2048, "n_routed_experts": 256, "n_shared_experts": None, "num_experts_per_tok": 8,
    "attention_bias": False, "add_swa_attention_sink_bias": True, "add_full_attention_sink_bias": False,
    "tie_word_embeddings": False, "dtype": "bfloat16",
}  # fmt: skip

RELEASED = {  # n_params, n_active_params
    "DeepSeek-V3": (DEEPSEEK_V3, 671_026_404_352, 37_552_282_624),
    "DeepSeek-V3.2": (DEEPSEEK_V32, 671_877_929_216, 38_403_807_488),
    "DeepSeek-V4-Flash": (V4_FLASH, 284_332_230_231, 13_799_622_231),
    "DeepSeek-V4-Flash, by another name": (V4_FLASH | {"model_type": "deepseek_ref"}, 284_332_230_231, 13_799_622_231),
    "DeepSeek-V2-Lite": (V2_LITE, 15_706_484_224, 2_661_150_208),
    "Kimi-K2": (KIMI_K2, 1_026_408_209_408, 32_861_477_888),
    "GLM-5": (GLM_5, 743_911_199_232, 41_784_709_632),
    "GLM-4.5": (GLM_45, 352_797_814_784, 33_632_251_904),
    "Mixtral-8x7B": (MIXTRAL, 46_702_792_704, 12_879_925_248),
    "Qwen3-30B-A3B": (QWEN3_30B, 30_532_122_624, 3_353_032_704),
    "Qwen1.5-MoE-A2.7B": (QWEN15_MOE, 14_315_784_192, 2_689_173_504),
    "gpt-oss-20b": (GPT_OSS_20B, 20_914_757_184, 4_187_440_704),
    "MiniMax-M2.5": (MINIMAX_M25, 228_689_748_992, 11_030_537_216),
    "MiniMax-M3, text": (MINIMAX_M3, 426_174_565_632, 25_962_466_560),
    "Llama-4-Scout, text": (SCOUT_TEXT, 107_769_861_120, 17_172_894_720),
    "MiMo-V2-Flash": (MIMO_FLASH, 308_778_768_832, 15_445_924_288),
}


def read(config: dict[str, Any]) -> Model:
    return model_of(config, file=Path("nowhere/config.json"))


@pytest.mark.parametrize("name", RELEASED)
def test_a_released_model_has_the_parameters_transformers_builds(name: str) -> None:
    config, n_params, n_active_params = RELEASED[name]
    model = read(config)
    assert (model.n_params, model.n_active_params) == (n_params, n_active_params)


def small_configs() -> list[dict[str, Any]]:
    return [json.loads(line) for line in SMALL.read_text().splitlines()[1:]]


@pytest.mark.parametrize("model_type", sorted({case["config"]["model_type"] for case in small_configs()}))
def test_small_configs_with_keys_absent_and_null_have_the_parameters_transformers_builds(model_type: str) -> None:
    cases = [case for case in small_configs() if case["config"]["model_type"] == model_type]
    assert len(cases) >= 3
    for case in cases:
        assert read(case["config"]).n_params == case["n_params"], case["config"]


def test_the_hub_counts_deepseek_v3_with_its_further_token_module_and_the_routers_buffers() -> None:
    model = read(DEEPSEEK_V3)
    buffers = 59 * 256  # a balancing bias for each of 256 experts in 58 layers and the module
    assert model.n_params + model.n_mtp_params + buffers == 684_489_845_504  # safetensors of deepseek-ai/DeepSeek-V3


def test_an_absent_q_lora_rank_is_not_a_null_one() -> None:
    absent = {key: value for key, value in V2_LITE.items() if key != "q_lora_rank"}
    assert read(absent).n_params == 15_748_993_024
    assert any("q_lora_rank" in line for line in read(absent).assumed)


def test_no_further_token_module_where_its_count_is_zero_or_null() -> None:
    for none in (0, None):
        assert read(DEEPSEEK_V3 | {"num_nextn_predict_layers": none}).mtp is None
    mtp = read(MINIMAX_M25).mtp
    assert mtp is not None
    assert mtp.n_modules == 3


def mixers(model: Model) -> list[Any]:
    return [layer.mixer for group in model.layers for _ in range(group.repeat) for layer in group.layers]


def test_layers_that_share_a_selection_have_no_indexer_and_cache_no_index_keys() -> None:
    types = ["full", "full", "full", *["shared", "shared", "shared", "full"] * 18, "shared", "shared", "shared"]
    lists = read(GLM_5 | {"indexer_types": types})
    letters = read(GLM_5 | {"index_topk_pattern": "".join(word[0].upper() for word in types)})
    assert lists.n_params == letters.n_params
    # one indexer: 2048·32·128 + 6144·128 + 6144·32 + 2·128; 57 of 78 layers have none
    assert read(GLM_5).n_params - lists.n_params == 57 * 9_371_904
    assert [m.index_elements_per_token for m in mixers(lists)] == [128 if word == "full" else 0 for word in types]
    assert [m.cache_elements_per_token for m in mixers(lists)] == [576] * 78


def test_deepseek_v4_reads_ratios_and_layer_types_alike() -> None:
    names = {0: "sliding_attention", 4: "compressed_sparse_attention", 128: "heavily_compressed_attention"}
    ratios = V4_FLASH["compress_ratios"]
    assert isinstance(ratios, list)
    older = read(V4_FLASH)
    newer = read(
        {k: v for k, v in V4_FLASH.items() if k != "compress_ratios"} | {"layer_types": [names[r] for r in ratios[:43]]}
    )
    assert mixers(older) == mixers(newer)
    assert [m.ratio for m in mixers(older)] == [r or None for r in ratios[:43]]
    assert all(isinstance(m, Compressed) and (m.indexer is not None) == (m.ratio == 4) for m in mixers(older))


def test_three_of_four_llama_4_layers_see_their_chunk_only() -> None:
    seen = [m.window if m.chunked else None for m in mixers(read(SCOUT_TEXT))]
    assert seen == [8192, 8192, 8192, None] * 12
    without = read(SCOUT_TEXT | {"attention_chunk_size": None})
    assert {m.window for m in mixers(without)} == {None}


def test_every_other_layer_of_maverick_has_experts() -> None:
    maverick = read(SCOUT_TEXT | {"interleave_moe_layer_step": 2, "num_local_experts": 128})
    ffns = [layer.ffn for group in maverick.layers for _ in range(group.repeat) for layer in group.layers]
    assert all(isinstance(ffn, Dense) and ffn.d_ff == 16384 for ffn in ffns[::2])
    assert all(isinstance(ffn, Moe) and ffn.d_shared == 8192 for ffn in ffns[1::2])


def test_window_layers_of_mimo_have_their_own_heads_and_sinks() -> None:
    kinds = {(m.n_kv_heads, m.window, m.sinks, m.d_head, m.d_v) for m in mixers(read(MIMO_FLASH))}
    assert kinds == {(4, None, False, 192, 128), (8, 129, True, 192, 128)}
    assert sum(m.window is not None for m in mixers(read(MIMO_FLASH))) == 39


def test_gpt_oss_alternates_where_the_file_does_not_say() -> None:
    absent = {key: value for key, value in GPT_OSS_20B.items() if key != "layer_types"}
    assert read(absent).layers == read(GPT_OSS_20B).layers
    assert [m.window for m in mixers(read(absent))] == [128, None] * 12


def test_a_text_section_may_leave_out_what_its_class_says() -> None:
    model = model_of(
        {"model_type": "step3p7", "text_config": {}, "dtype": "bfloat16"}, file=Path("nowhere/config.json")
    )
    assert (model.d_model, model.n_layers, model.vocab_size) == (4096, 45, 128815)
    assert any(line.startswith("text_config.hidden_size: absent, 4096") for line in model.assumed)


WRONG = {
    "num_experts_per_tok": (MIXTRAL, 9),
    "num_local_experts": (MIXTRAL, 0),
    "num_key_value_heads": (MIXTRAL, 5),
    "layer_types": (GPT_OSS_20B, ["sliding_attention", "fullattention"] * 12),
    "moe_layer_freq": (MIMO_FLASH, [1, 0]),
    "hybrid_layer_pattern": (MIMO_FLASH, [0] * 47),
    "compress_ratios": (V4_FLASH, [0, 5] * 22),
    "o_groups": (V4_FLASH, 7),
    "indexer_types": (GLM_5, ["full", "Shared"] * 39),
    "index_topk_pattern": (GLM_5, "FSF"),
    "q_lora_rank": (DEEPSEEK_V32, None),
    "kv_lora_rank": (DEEPSEEK_V3, -512),
    "decoder_sparse_step": (QWEN3_30B, 0),
    "interleave_moe_layer_step": (SCOUT_TEXT, 0),
    "num_hidden_layers": (DEEPSEEK_V3, 10**9),
}


@pytest.mark.parametrize("key", WRONG)
def test_a_wrong_value_is_refused_with_the_file_and_the_key(key: str) -> None:
    config, value = WRONG[key]
    with pytest.raises(SpecError) as caught:
        read(config | {key: value})
    assert key in str(caught.value)
    assert "config.json" in str(caught.value)


def test_an_unknown_word_for_a_layer_brings_the_known_ones() -> None:
    with pytest.raises(SpecError, match="full, shared"):
        read(GLM_5 | {"indexer_types": ["half"] * 78})


@pytest.mark.skipif(not ORACLES.exists(), reason="the collected configs are not here")
def test_every_collected_config_of_these_families_has_the_expected_parameters() -> None:
    here = {case["config"]["model_type"] for case in small_configs()} | {"kimi_k2"}
    with (ORACLES / "params.csv").open() as file:
        rows = {row["name"]: row for row in csv.DictReader(file)}
    n_read = 0
    for path in sorted((ORACLES / "configs").glob("*.json")):
        config = json.loads(path.read_text())
        if config.get("model_type") not in here:
            continue
        model, row = model_of(config, file=path), rows[path.stem]
        assert model.n_params == int(row["expected_params"]), path.stem
        assert not row["active_params"] or model.n_active_params == int(row["active_params"]), path.stem
        n_read += 1
    assert n_read >= 15


JUNK = [None, -1, 0, 2.5, float("nan"), 10**30, "x", [], ["x"], [None], {"a": 1}, True]


@pytest.mark.parametrize("junk", JUNK, ids=repr)
def test_junk_under_any_key_is_refused_with_the_file_or_read_and_nothing_else(junk: object) -> None:
    said = []
    for config in (MIXTRAL, GPT_OSS_20B, GLM_5, V4_FLASH, SCOUT_TEXT, MIMO_FLASH, QWEN15_MOE):
        for key in config:
            try:
                assert read(config | {key: junk}).n_params > 0
            except RooflineError as error:
                said.append(str(error))
    assert [line for line in said if "config.json" not in line] == []
