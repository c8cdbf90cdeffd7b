"""Decoders with recurrent mixers, read from `config.json`: parameters to the last one, states, blocks in order, refusals.

Expected counts are those of transformers 5.24.0 built on device=meta (hybrid_families.jsonl); shapes of states are those
its cache holds.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from roofline.errors import SpecError, Unsupported
from roofline.specs.ffns import Dense, Moe
from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.families import hybrid, recurrent
from roofline.specs.mixers import Attention, Latent, Pair
from roofline.specs.model import Model
from roofline.specs.recurrent import Delta, LinearAttention, Mamba, Mamba2, Rglru, ShortConv

ORACLES = Path(__file__).resolve().parents[4] / "shared" / "oracles"
FAMILIES = recurrent.FAMILIES | hybrid.FAMILIES
_LINES = Path(__file__).with_name("hybrid_families.jsonl").read_text(encoding="utf-8").splitlines()[1:]
COUNTED: list[dict[str, Any]] = [json.loads(line) for line in _LINES]
RELEASED = {row["name"]: row["config"] for row in COUNTED if row["name"]}


def read(data: dict[str, Any], *, section: str = "") -> Model:
    """The model of a config, or of a section of one."""
    assumed: list[str] = []
    shape = FAMILIES[data["model_type"]](Config(data, where="config.json", assumed=assumed, section=section))
    fields = {"id": "it", "name": "It", "dtype": "bf16"} | shape | {"assumed": tuple(assumed)}
    return Model.read(fields, where="config.json")


def mixers(model: Model, kind: type) -> list[Any]:
    """The mixers of a kind, one a layer."""
    return [layer.mixer for n, layer in model.layer_kinds() for _ in range(n) if isinstance(layer.mixer, kind)]


@pytest.mark.parametrize("row", COUNTED, ids=lambda row: row["name"] or row["config"]["model_type"])
def test_parameters_are_those_of_the_built_model(row: dict[str, Any]) -> None:
    assert read(row["config"]).n_params == row["n_params"]


@pytest.mark.skipif(not ORACLES.exists(), reason="the shared oracles are not here")
def test_parameters_are_those_of_every_shared_config_of_these_families() -> None:
    seen = 0
    for row in csv.DictReader((ORACLES / "params.csv").read_text(encoding="utf-8").splitlines()):
        data = json.loads((ORACLES / "configs" / f"{row['name']}.json").read_text(encoding="utf-8"))
        text = data.get("text_config", data)
        if text.get("model_type", "") in FAMILIES:
            seen += 1
            model = read(text, section="text_config." if "text_config" in data else "")
            assert model.n_params == int(row["text_total_params"]), row["name"]
            if row["active_text_params"]:
                assert model.n_active_params == int(row["active_text_params"]), row["name"]
    assert seen >= 7


# Counts of the classes' own defaults, all keys absent: transformers 5.24.0 on device=meta.
@pytest.mark.parametrize(
    ("model_type", "n_params"),
    [
        ("jamba", 51_570_323_328), ("granitemoehybrid", 38_601_064_448), ("bamba", 9_992_765_440),
        ("falcon_h1", 8_514_961_408), ("qwen3_next", 79_674_391_296), ("qwen3_5_text", 8_953_803_264),
        ("qwen3_5_moe_text", 34_660_610_688), ("olmo_hybrid", 7_430_870_688), ("minimax", 47_373_946_880),
        ("kimi_linear", 49_133_074_464), ("lfm2", 2_705_497_600),
    ],
)  # fmt: skip
def test_a_nested_section_may_leave_out_what_equals_the_class_default(model_type: str, n_params: int) -> None:
    model = read({"model_type": model_type}, section="text_config.")
    assert model.n_params == n_params
    assert any(line.startswith("text_config.hidden_size: absent, ") for line in model.assumed)


def test_a_file_of_its_own_has_to_say_its_sizes() -> None:
    with pytest.raises(SpecError, match=r"config\.json: intermediate_size: missing"):
        read({"model_type": "qwen3_5_text", "num_hidden_layers": 4})


def test_every_block_of_nemotron_h_is_one_layer_and_the_inner_width_is_that_of_its_heads() -> None:
    model = read(RELEASED["nemotron-nano-9b-v2"])
    ffns = [layer.ffn for n, layer in model.layer_kinds() for _ in range(n) if layer.ffn is not None]
    assert model.n_layers == 56
    assert (len(mixers(model, Mamba2)), len(mixers(model, Attention)), len(ffns)) == (27, 4, 25)
    assert mixers(model, Mamba2)[0].d_inner == 128 * 80 != 2 * 4480
    assert ffns[0] == Dense(d_ff=15680, gated=False)
    assert model.positions.kind == "none"


def test_nemotron_3_has_experts_in_a_latent_and_a_module_of_one_mixer_and_one_mixture() -> None:
    model = read(RELEASED["nemotron-3-latent"])
    moe = next(layer.ffn for _, layer in model.layer_kinds() if isinstance(layer.ffn, Moe))
    assert (moe.d_latent, moe.d_shared, moe.gated, moe.shared_bias, moe.bias) == (256, 768, False, True, False)
    assert mixers(model, Mamba2)[0].state_dtype == "fp16"
    assert model.mtp is not None
    assert model.mtp.layer.ffn == moe
    assert isinstance(model.mtp.layer.mixer, Attention)
    assert model.head is not None
    assert not model.head.tied  # the class never ties, whatever the file says


def test_words_and_characters_describe_the_same_nemotron() -> None:
    told = RELEASED["nemotron-3-latent"]
    characters = {k: v for k, v in told.items() if k != "layers_block_type"} | {"hybrid_override_pattern": "ME*EM"}
    newer = told | {"layers_block_type": ["linear_attention", "moe", "full_attention", "moe", "linear_attention"]}
    assert read(characters).layers == read(newer).layers == read(told).layers


def test_jamba_attends_once_in_eight_layers_and_routes_in_every_other() -> None:
    model = read(RELEASED["jamba-1.5-mini"])
    layers = [layer for group in model.layers for _ in range(group.repeat) for layer in group.layers]
    assert [i for i, layer in enumerate(layers) if isinstance(layer.mixer, Attention)] == [4, 12, 20, 28]
    assert [i for i, layer in enumerate(layers) if isinstance(layer.ffn, Moe)] == list(range(1, 32, 2))


# What transformers' cache holds of one sequence in one layer: recurrent state, channels of the convolution.
@pytest.mark.parametrize(
    ("name", "kind", "n_layers", "state", "n_channels"),
    [
        ("qwen3-next-80b-a3b", Delta, 36, 32 * 128 * 128, 8192),
        ("qwen3.5-27b", Delta, 48, 48 * 128 * 128, 10240),
        ("jamba-1.5-mini", Mamba, 28, 8192 * 16, 8192),
        ("nemotron-nano-9b-v2", Mamba2, 27, 128 * 80 * 128, 12288),
        ("mamba-codestral-7b", Mamba2, 64, 128 * 64 * 128, 10240),
        ("kimi-linear-48b-a3b", Delta, 20, 32 * 128 * 128, 12288),
        ("lfm2-1.2b", ShortConv, 10, 0, 2048),
        ("recurrentgemma-2b", Rglru, 18, 2560, 2560),
    ],
)
def test_states_are_as_large_as_the_cache_holds_them(
    name: str, kind: type, n_layers: int, state: int, n_channels: int
) -> None:
    found = mixers(read(RELEASED[name]), kind)
    assert (len(found), found[0].state_elements, found[0].n_channels) == (n_layers, state, n_channels)


def test_a_state_is_kept_in_fp32_unless_the_config_says_otherwise() -> None:
    qwen = {k: v for k, v in RELEASED["qwen3.5-27b"].items() if k != "mamba_ssm_dtype"}
    told = [read(qwen), read(qwen | {"mamba_ssm_dtype": "float32"}), read(qwen | {"mamba_ssm_dtype": "bfloat16"})]
    assert [mixers(model, Delta)[0].state_dtype for model in told] == ["fp32", "fp32", "bf16"]


def test_qwen_attends_with_a_gate_in_every_fourth_layer() -> None:
    model = read(RELEASED["qwen3.5-27b"])
    attention = mixers(model, Attention)
    assert len(attention) == 64 // 4
    assert attention[0].gated
    assert attention[0].qk_norm == "head"


def test_the_further_token_module_of_qwen_is_counted_apart() -> None:
    model = read(RELEASED["qwen3.5-27b"])
    d, f, n, k, h = 5120, 17408, 24, 4, 256
    layer = d * (2 * n + 2 * k) * h + n * h * d + 3 * d * f + 2 * d + 2 * h  # q with its gate, k, v; o; block; norms
    assert model.n_mtp_params == layer + 2 * d * d + 3 * d


def test_kimi_counts_its_layers_from_one_and_says_no_positions() -> None:
    model = read(RELEASED["kimi-linear-48b-a3b"])
    layers = [layer for group in model.layers for _ in range(group.repeat) for layer in group.layers]
    assert [i + 1 for i, layer in enumerate(layers) if isinstance(layer.mixer, Latent)] == [4, 8, 12, 16, 20, 24, 27]
    assert isinstance(layers[0].ffn, Dense)
    assert all(isinstance(layer.ffn, Moe) for layer in layers[1:])
    assert model.positions.kind == "none"
    assert model.max_context_tokens == 1048576


def test_the_first_minimax_files_number_the_kinds_of_attention() -> None:
    told = RELEASED["minimax-text-01"]
    first = {k: v for k, v in told.items() if k != "layer_types"}
    first |= {"model_type": "minimax_text_01", "attn_type_list": [0, 0, 0, 0, 0, 0, 0, 1] * 10}
    assert read(first).layers == read(told).layers
    assert len(mixers(read(told), LinearAttention)) == 70


def test_falcon_h1_has_both_mixers_side_by_side_in_every_layer() -> None:
    pairs = mixers(read(RELEASED["falcon-h1-7b"]), Pair)
    assert len(pairs) == 44
    assert pairs[0].attention == Attention(n_heads=12, n_kv_heads=2, d_head=128)
    assert (pairs[0].recurrent.d_inner, pairs[0].recurrent.gated_norm) == (3072, False)


def test_granite_without_experts_has_the_shared_block_alone() -> None:
    ((_, layer),) = read(RELEASED["granite-4-dense"]).layer_kinds()
    assert layer.ffn == Dense(d_ff=8192)
    assert read(RELEASED["granite-4-dense"]).positions.kind == "rope"
    assert read(RELEASED["granite-4-small"]).positions.kind == "none"


def test_a_mamba_without_a_context_gets_a_long_one_and_says_so() -> None:
    model = read(RELEASED["mamba-2.8b"])
    assert model.max_context_tokens == 2**20
    assert any(line.startswith("max_position_embeddings: absent") for line in model.assumed)


NANO, JAMBA, QWEN = RELEASED["nemotron-nano-9b-v2"], RELEASED["jamba-1.5-mini"], RELEASED["qwen3-next-80b-a3b"]
KIMI = RELEASED["kimi-linear-48b-a3b"]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (
            NANO | {"hybrid_override_pattern": "M-X"},
            r"hybrid_override_pattern: expected blocks among M \* - E, got 'X'",
        ),
        (NANO | {"hybrid_override_pattern": ""}, "hybrid_override_pattern: expected"),
        (NANO | {"num_hidden_layers": 52}, "num_hidden_layers: expected as many layers as the pattern has blocks, 56"),
        (NANO | {"layers_block_type": ["mamba"] * 55 + ["snake"]}, "layers_block_type: expected layer types among"),
        (NANO | {"n_groups": 7}, "n_groups: expected a divisor of the 128 heads"),
        (NANO | {"num_nextn_predict_layers": 1, "mtp_hybrid_override_pattern": "M*"}, "mtp_hybrid_override_pattern"),
        (NANO | {"mamba_ssm_cache_dtype": "int8"}, "mamba_ssm_cache_dtype: expected one of float32"),
        (JAMBA | {"attn_layer_offset": 8}, "attn_layer_offset: expected a whole number from 0 to 7"),
        (JAMBA | {"mamba_dt_rank": "some"}, "mamba_dt_rank: expected one of auto"),
        (JAMBA | {"mamba_expand": 10_000_000}, "mamba_expand: expected an inner width of at most"),
        (QWEN | {"layer_types": ["full_attention"] * 47}, "layer_types: expected 48 items, got 47"),
        (QWEN | {"layer_types": ["full_attention"] * 47 + ["conv"]}, "layer_types: expected layer types among"),
        (QWEN | {"full_attention_interval": 0}, "full_attention_interval: expected a whole number from 1"),
        (QWEN | {"linear_num_value_heads": 33}, "linear_num_value_heads: expected a multiple of"),
        (QWEN | {"num_experts_per_tok": 513}, "num_experts_per_tok: expected at most"),
        (KIMI | {"linear_attn_config": {"full_attn_layers": [1], "kda_layers": [1]}}, "linear_attn_config.kda_layers"),
        (RELEASED["bamba-9b"] | {"attn_layer_indices": [32]}, "attn_layer_indices: expected layers from 0 to 31"),
        (RELEASED["bamba-9b"] | {"mamba_d_head": 60}, "mamba_n_heads: expected heads that together are 8192 wide"),
        (RELEASED["minimax-text-01"] | {"attn_type_list": [2] * 80}, "attn_type_list: expected a list of 0 and 1"),
        (RELEASED["recurrentgemma-2b"] | {"block_types": ["rest"]}, "block_types: expected a list of"),
    ],
)
def test_what_contradicts_itself_is_refused_by_file_and_key(data: dict[str, Any], says: str) -> None:
    with pytest.raises((SpecError, Unsupported), match=rf"^config\.json: {says}"):
        read(data)


JUNK: tuple[Any, ...] = (None, -1, 0, 1.5, 10**30, float("nan"), float("inf"), "", "x", [], {}, [1], ["x"], True)


@pytest.mark.parametrize("name", RELEASED)
def test_junk_under_any_key_is_read_or_refused_by_file(name: str) -> None:
    told = RELEASED[name]
    for key in told.keys() - {"model_type"}:
        refusals = [_refusal(told | {key: junk}) for junk in JUNK]
        assert all(said is None or said.startswith("config.json") for said in refusals), (key, refusals)


def _refusal(data: dict[str, Any]) -> str | None:
    try:
        read(data)
    except (SpecError, Unsupported) as error:
        return str(error)
    return None
