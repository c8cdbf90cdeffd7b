"""Ninety-one released configs: every parameter, every FLOP and every byte of cache, and each trap they hold.

`tests/data/configs.jsonl` carries them trimmed to the keys that define the architecture; the counts beside it are those
of torch and transformers (tests/data/README.md). Where the collection lies beside the checkout, whole files must read
the same.
"""

from __future__ import annotations

import csv
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import roofline as rl
from roofline.specs import catalog
from roofline.specs.ffns import Dense, Moe
from roofline.specs.huggingface.reader import model_of
from roofline.specs.mixers import Attention, Compressed, Latent, Mamba, Mamba2
from roofline.specs.recurrent import Delta

REPO = Path(__file__).resolve().parents[3]
DATA = REPO / "tests" / "data"
SHARED = REPO.parent / "shared"

Row = dict[str, str]


def rows(name: str) -> list[Row]:
    with (DATA / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


CONFIGS: dict[str, dict[str, Any]] = {
    entry["name"]: entry["config"]
    for entry in map(json.loads, (DATA / "configs.jsonl").read_text(encoding="utf-8").splitlines())
}
PARAMS = rows("zoo_params.csv")
NAMES = sorted(CONFIGS)


def read(config: dict[str, Any], name: str = "config") -> rl.Model:
    return model_of(config, file=Path(f"{name}.json"))


@cache
def model(name: str) -> rl.Model:
    return read(CONFIGS[name], name)


def changed(name: str, *without: str, **more: Any) -> rl.Model:
    """A config with keys taken out, or others put in."""
    return read({k: v for k, v in CONFIGS[name].items() if k not in without} | more, name)


def label(row: Row) -> str:
    return "-".join(v for k, v in row.items() if k in ("name", "phase", "batch", "new_tokens", "past_tokens", "tokens"))


# Counts


def test_the_files_hold_every_row_they_are_here_for() -> None:
    assert len(CONFIGS) == len(PARAMS) == 91
    assert sum(bool(row["active_params"]) for row in PARAMS) >= 20
    assert len({c["model_type"] for c in CONFIGS.values()}) == 51
    assert len(rows("zoo_flops.csv")) >= 90
    assert len(rows("zoo_kv.csv")) >= 80


@pytest.mark.parametrize("row", PARAMS, ids=lambda row: row["name"])
def test_parameters_agree_to_the_last_one(row: Row) -> None:
    assert model(row["name"]).n_params == int(row["expected_params"])


@pytest.mark.parametrize("row", [r for r in PARAMS if r["active_params"]], ids=lambda row: row["name"])
def test_active_parameters_agree_to_the_last_one(row: Row) -> None:
    assert model(row["name"]).n_active_params == int(row["active_params"])


@pytest.mark.parametrize("row", rows("zoo_flops.csv"), ids=label)
def test_executed_flops_agree_to_the_last_one(row: Row) -> None:
    new = int(row["new_tokens"])
    seqs = rl.Seqs(
        n_seq=int(row["batch"]),
        n_new=new,
        n_past=int(row["past_tokens"]),
        n_logits=new if row["logits_to_keep"] == "all" else 1,
    )
    assert rl.count(model(row["name"]), seqs, attention="eager").executed_flops == int(row["flops"])


@pytest.mark.parametrize(("n_new", "n_past", "flops"), [(4, 0, 853_894_758_400), (1, 128, 213_596_569_600)])
def test_scout_takes_one_expert_where_one_library_multiplies_by_all_16(n_new: int, n_past: int, flops: int) -> None:
    """transformers runs all 16 experts of Llama 4 on every token: 15 too many, of 3 · 5120 · 8192, in 48 layers."""
    seqs = rl.Seqs(n_seq=1, n_new=n_new, n_past=n_past, n_logits=n_new)
    idle = 15 * 48 * n_new * 2 * 3 * 5120 * 8192
    assert rl.count(model("Llama-4-Scout-17B-16E"), seqs, attention="eager").executed_flops == flops - idle


@pytest.mark.parametrize(
    ("name", "n_tokens", "flops"),
    [("Gemma-3-12B", 4096, 5_462_657_335_296), ("Whisper-large-v3", 1500, 2_273_771_520_000),
     ("Llama-3.2-11B-Vision", 6432, 19_001_903_677_440), ("Ministral-3-3B", 4144, 5_065_090_924_544),
     ("Qwen2.5-VL-7B", 1024, 1_346_937_815_040), ("Qwen2-VL-7B", 1024, 1_486_188_707_840),
     ("Qwen3-VL-30B-A3B", 1024, 1_038_769_717_248), ("Qwen3.5-27B", 1024, 998_907_052_032),
     ("GLM-4.5V", 1024, 1_640_216_133_632)],
)  # fmt: skip
def test_a_tower_does_the_flops_a_counter_sees(name: str, n_tokens: int, flops: int) -> None:
    """transformers 5.24 on the meta device, eager, tower and projector, one image or clip; Mllama without its mask."""
    ledger = rl.count(model(name), rl.Seqs(n_seq=1, n_new=1, n_inputs=1, n_input_tokens=n_tokens), attention="eager")
    of_tower = [op.repeat * op.executed_flops for op in ledger.ops if op.name.split(".")[0] in ("vision", "audio")]
    assert sum(of_tower) == flops


@pytest.mark.parametrize("row", rows("zoo_kv.csv"), ids=label)
def test_cache_and_state_agree_to_the_last_byte(row: Row) -> None:
    """transformers keeps W − 1 tokens of a full window, where `kv_bytes` holds W; and K columns for each convolution."""
    m, tokens = model(row["name"]), int(row["tokens"])
    mixers = [(n, x) for n, layer in m.layer_kinds() for x in layer.mixers if isinstance(x, Attention) and x.caches]
    dropped = sum(n * 2 * x.cache_elements_per_token for n, x in mixers if x.window is not None and tokens >= x.window)
    kept = rl.kv_bytes(m, context_tokens=tokens, kv="bf16") + rl.state_bytes(m, policy="allocated")
    assert kept - dropped == int(float(row["cache_bytes"]))


@pytest.mark.parametrize("tokens", [128, 1000, 5000])
def test_the_compressed_cache_of_deepseek_v4_agrees_but_for_what_its_buffers_hold(tokens: int) -> None:
    """transformers' cache at these lengths, tensor by tensor: 127 tokens of the window in 43 layers; an entry (512) and an
    index key (128) of every 4 tokens in 21 layers, an entry of every 128 in 20. The rest are buffers of running entries."""
    elements = 43 * 127 * 512 + 21 * (tokens // 4) * (512 + 128) + 20 * (tokens // 128) * 512
    one_more_of_the_window = 43 * 512
    got = rl.kv_bytes(model("DeepSeek-V4-Flash"), context_tokens=tokens, kv="bf16")
    assert got == 2 * (elements + one_more_of_the_window)


@pytest.mark.parametrize("name", NAMES)
def test_a_model_written_out_as_yaml_is_read_back_the_same(name: str, tmp_path: Path) -> None:
    file = tmp_path / "model.yaml"
    file.write_text(catalog.model_yaml(model(name)), encoding="utf-8")
    assert catalog.model(file) == model(name)


@pytest.mark.parametrize("name", NAMES)
def test_every_model_predicts_a_request_on_an_h200(name: str) -> None:
    d = rl.Deployment(model=model(name), hardware=rl.hardware("h200-sxm-141gb"))
    p = rl.predict(d, prompt_tokens=256, output_tokens=16, batch=2)
    assert 0 < p.ttft_floor_s <= p.ttft_s
    assert p.tpot_floor_s is not None
    assert p.tpot_s is not None
    assert 0 < p.tpot_floor_s <= p.tpot_s


@pytest.mark.skipif(not SHARED.is_dir(), reason="the collection lies beside the repository, not in it")
@pytest.mark.parametrize("folder", ["oracles/configs", "measured/extra_models"])
def test_whole_files_read_as_the_trimmed_ones_do(folder: str) -> None:
    files = sorted((SHARED / folder).glob("*.json"))
    assert len(files) >= 9
    for file in files:
        whole = rl.model(file)
        if file.stem in CONFIGS:
            assert whole == model(file.stem)


@pytest.mark.skipif(not SHARED.is_dir(), reason="the collection lies beside the repository, not in it")
def test_models_that_measurements_name_have_the_parameters_their_manifest_computed() -> None:
    with (SHARED / "measured" / "extra_models" / "manifest.csv").open(encoding="utf-8", newline="") as file:
        listed = [row for row in csv.DictReader(file) if row["params_computed"]]
    assert len(listed) >= 9
    for row in listed:
        found = rl.model(SHARED / "measured" / "extra_models" / row["file"])
        assert (row["name"], found.n_params) == (row["name"], int(row["params_computed"]))


# Traps, by their number in the collection's list


def kinds(name: str) -> list[Any]:
    """The mixers of a model's layers, one after another."""
    m = model(name)
    return [layer.mixer for group in m.layers for _ in range(group.repeat) for layer in group.layers]


def test_trap_1_an_absent_key_is_not_a_null_key() -> None:
    """DeepSeek-V2-Lite: an absent q_lora_rank is the class's 1536, a null one is none at all."""
    absent, null = model("DeepSeek-V2-Lite-noqlora-key"), model("DeepSeek-V2-Lite")
    assert (absent.n_params, null.n_params) == (15_748_993_024, 15_706_484_224)
    assert any(line.startswith("q_lora_rank: absent, 1536 assumed") for line in absent.assumed)
    assert not any("q_lora_rank" in line for line in null.assumed)


def test_trap_2_a_sparse_nested_config_takes_its_class_s_defaults_and_says_which() -> None:
    sparse = model("Gemma-3-4B-sparse")
    mixer = kinds("Gemma-3-4B-sparse")[0]
    assert (mixer.n_heads, mixer.n_kv_heads, mixer.d_head, sparse.vocab_size) == (8, 4, 256, 262208)
    for key in ("num_attention_heads", "num_key_value_heads", "head_dim", "vocab_size"):
        assert any(line.startswith(f"text_config.{key}: absent") for line in sparse.assumed), key


def test_trap_3_a_copy_s_vocabulary_is_taken_as_it_says() -> None:
    assert (model("Gemma-3-4B").vocab_size, model("Gemma-3-4B-sparse").vocab_size) == (262144, 262208)


@pytest.mark.parametrize("name", ["Gemma-3-27B", "Gemma-4-31B-NVFP4", "Qwen3-VL-30B-A3B", "Qwen3.5-27B", "Kimi-K2.5"])
def test_trap_4_a_nested_text_config_is_where_the_decoder_is(name: str) -> None:
    assert "text_config" in CONFIGS[name]
    assert model(name).towers


def test_trap_4_qwen2_5_vl_keeps_its_text_keys_at_the_top() -> None:
    assert "text_config" not in CONFIGS["Qwen2.5-VL-7B"]
    assert model("Qwen2.5-VL-7B").d_model == CONFIGS["Qwen2.5-VL-7B"]["hidden_size"]


@pytest.mark.parametrize(
    ("name", "tied"),
    [("Gemma-2-9B", True), ("Falcon-7B", True), ("GPT-2", True), ("OPT-6.7B", True), ("BLOOM-7B1", True), ("MPT-7B", True),
     ("StarCoder2-7B", True), ("GPTBigCode-santacoder", True), ("Aya-23-8B", True), ("Llama-3.1-8B", False),
     ("Mistral-7B-v0.3", False), ("Qwen3-8B", False), ("DeepSeek-V3", False)],
)  # fmt: skip
def test_trap_5_without_a_key_the_family_decides_whether_the_head_is_tied(name: str, tied: bool) -> None:
    untold = changed(name, "tie_word_embeddings")
    assert untold.head is not None
    assert untold.head.tied is tied


def test_trap_5_the_key_may_stand_at_the_top_alone() -> None:
    text = {k: v for k, v in CONFIGS["Qwen3.5-27B"]["text_config"].items() if k != "tie_word_embeddings"}
    both = [changed("Qwen3.5-27B", text_config=text, tie_word_embeddings=tied) for tied in (True, False)]
    assert [m.head is not None and m.head.tied for m in both] == [True, False]


def test_trap_6_flan_t5_stores_the_head_its_config_says_it_has() -> None:
    assert model("Flan-T5-base").n_params == 247_577_856
    assert changed("Flan-T5-base", tie_word_embeddings=True).n_params == 222_903_552


@pytest.mark.parametrize("name", ["Mistral-Nemo-12B", "Gemma-2-9B", "Qwen3-0.6B", "gpt-oss-20b", "MiniMax-M2.5"])
def test_trap_7_heads_need_not_add_up_to_the_width(name: str) -> None:
    mixer = kinds(name)[0]
    assert mixer.n_heads * mixer.d_head != model(name).d_model


def test_trap_7_in_a_latent_config_head_dim_is_not_the_width_of_a_head() -> None:
    """GLM-5 says head_dim 64: its queries and keys are 192 + 64 wide, its values 256."""
    mixer = kinds("GLM-5")[0]
    assert isinstance(mixer, Latent)
    assert (mixer.d_nope, mixer.d_rope, mixer.d_value) == (192, 64, 256)


@pytest.mark.parametrize(
    ("name", "heads"),
    [("GPT-2", (12, 12)), ("OPT-6.7B", (32, 32)), ("BLOOM-7B1", (32, 32)), ("Pythia-6.9B", (32, 32)), ("MPT-7B", (32, 32)),
     ("Falcon-7B", (71, 1)), ("Falcon-40B", (128, 8)), ("GPTBigCode-santacoder", (16, 1))],
)  # fmt: skip
def test_trap_8_kv_heads_where_no_key_or_another_counts_them(name: str, heads: tuple[int, int]) -> None:
    assert (kinds(name)[0].n_heads, kinds(name)[0].n_kv_heads) == heads


def test_trap_8_falcon_40b_needs_a_sixteenth_of_what_one_library_caches() -> None:
    assert rl.kv_bytes(model("Falcon-40B"), context_tokens=1, kv="bf16") * 16 == 1_966_080


def test_trap_9_the_layers_of_an_encoder_decoder_are_counted_apart() -> None:
    """Whisper: num_hidden_layers is the encoder's; the decoder's are decoder_layers."""
    for name in ("BART-large-cnn", "Whisper-large-v3"):
        m = model(name)
        assert (m.towers[0].n_layers, m.n_layers) == (
            CONFIGS[name].get("encoder_layers", 12),
            CONFIGS[name]["decoder_layers"],
        )


@pytest.mark.parametrize(
    ("name", "windows"),
    [("Mixtral-8x7B", ()), ("Phi-4-14B", ()), ("Mistral-Nemo-12B", ()), ("Qwen2.5-7B", ()), ("Mistral-7B-v0.1-swa", (4096,)),
     ("Phi-3-mini-4k", (2047,)), ("StarCoder2-7B", (4096,))],
)  # fmt: skip
def test_trap_10_a_window_is_real_or_null_or_switched_off(name: str, windows: tuple[int, ...]) -> None:
    assert model(name).windows == windows


@pytest.mark.parametrize(
    ("name", "n_local", "n_layers"),
    [("gpt-oss-20b", 12, 24), ("Gemma-2-9B", 21, 42), ("Gemma-3-27B", 52, 62), ("MiMo-V2-Flash", 39, 48),
     ("Llama-4-Scout-17B-16E", 36, 48), ("Gemma-4-31B-NVFP4", 50, 60)],
)  # fmt: skip
def test_trap_11_which_layers_are_local(name: str, n_local: int, n_layers: int) -> None:
    mixers = kinds(name)
    assert (sum(x.window is not None for x in mixers), len(mixers)) == (n_local, n_layers)


def test_trap_11_the_chunks_of_llama_4_do_not_slide() -> None:
    assert {x.chunked for x in kinds("Llama-4-Scout-17B-16E") if x.window is not None} == {True}


def test_trap_12_shapes_by_kind_of_layer() -> None:
    mimo = {(x.window is None, x.n_kv_heads, x.d_head, x.d_v) for x in kinds("MiMo-V2-Flash")}
    assert mimo == {(True, 4, 192, 128), (False, 8, 192, 128)}
    gemma = {(x.window is None, x.n_kv_heads, x.d_head, x.values) for x in kinds("Gemma-4-31B-NVFP4")}
    assert gemma == {(True, 4, 512, "keys"), (False, 16, 256, "own")}


def test_trap_13_twenty_layers_of_gemma_4_e2b_cache_nothing_and_are_twice_as_wide() -> None:
    layers = [layer for group in model("Gemma-4-E2B").layers for _ in range(group.repeat) for layer in group.layers]
    earlier = [isinstance(x.mixer, Attention) and x.mixer.values == "earlier" for x in layers]
    assert earlier == [False] * 15 + [True] * 20
    assert {isinstance(x.ffn, Dense) and x.ffn.d_ff for x, late in zip(layers, earlier, strict=True) if late} == {12288}


@pytest.mark.parametrize(
    ("name", "d_ff"),
    [("Mixtral-8x7B", 14336), ("gpt-oss-120b", 2880), ("MiniMax-M2.5", 1536), ("Jamba-1.5-Mini", 14336),
     ("Qwen3-30B-A3B", 768), ("DeepSeek-V3", 2048), ("GLM-4.5", 1536), ("Llama-4-Scout-17B-16E", 8192)],
)  # fmt: skip
def test_trap_14_the_width_of_an_expert_has_many_keys(name: str, d_ff: int) -> None:
    found = {layer.ffn.d_ff for _, layer in model(name).layer_kinds() if isinstance(layer.ffn, Moe)}
    assert found == {d_ff}


@pytest.mark.parametrize(
    ("name", "d_shared", "gate"),
    [("DeepSeek-V2-Lite", 2 * 1408, False), ("Qwen1.5-MoE-A2.7B", 5632, True), ("Qwen3-Next-80B-A3B", 512, True),
     ("Qwen3-30B-A3B", None, False), ("MiMo-V2-Flash", None, False), ("Nemotron-3-Nano-30B-A3B", 3712, False)],
)  # fmt: skip
def test_trap_15_shared_experts(name: str, d_shared: int | None, gate: bool) -> None:
    found = {(x.ffn.d_shared, x.ffn.shared_gate) for _, x in model(name).layer_kinds() if isinstance(x.ffn, Moe)}
    assert found == {(d_shared, gate)}


@pytest.mark.parametrize(
    ("name", "dense_first", "n_moe"),
    [("DeepSeek-V3", 3, 58), ("DeepSeek-V2-Lite", 1, 26), ("Kimi-K2-Instruct", 1, 60), ("GLM-4.5", 3, 89),
     ("MiMo-V2-Flash", 1, 47)],
)  # fmt: skip
def test_trap_16_the_first_layers_are_dense(name: str, dense_first: int, n_moe: int) -> None:
    layers = [layer for group in model(name).layers for _ in range(group.repeat) for layer in group.layers]
    assert [isinstance(x.ffn, Moe) for x in layers] == [False] * dense_first + [True] * n_moe


def test_trap_16_every_second_layer_of_jamba_is_a_mixture() -> None:
    layers = [layer for group in model("Jamba-1.5-Mini").layers for _ in range(group.repeat) for layer in group.layers]
    assert [isinstance(x.ffn, Moe) for x in layers] == [False, True] * 16
    assert [isinstance(x.mixer, Attention) for x in layers] == ([False] * 4 + [True] + [False] * 3) * 4


def test_trap_16_maverick_mixes_in_every_second_layer() -> None:
    text = CONFIGS["Llama-4-Scout-17B-16E"].get("text_config", {})
    maverick = changed(
        "Llama-4-Scout-17B-16E", text_config=text | {"interleave_moe_layer_step": 2, "num_local_experts": 128}
    )
    layers = [layer for group in maverick.layers for _ in range(group.repeat) for layer in group.layers]
    assert [isinstance(x.ffn, Moe) for x in layers] == [False, True] * 24
    assert {x.ffn.d_ff for x in layers if isinstance(x.ffn, Dense)} == {16384}


@pytest.mark.parametrize(
    ("name", "experts"),
    [("DeepSeek-V3", (256, 8)), ("Mixtral-8x7B", (8, 2)), ("Qwen3-30B-A3B", (128, 8)), ("gpt-oss-120b", (128, 4)),
     ("Kimi-K2-Instruct", (384, 8)), ("Llama-4-Scout-17B-16E", (16, 1))],
)  # fmt: skip
def test_trap_17_expert_counts_have_many_keys(name: str, experts: tuple[int, int]) -> None:
    found = {(x.ffn.n_experts, x.ffn.n_active_experts) for _, x in model(name).layer_kinds() if isinstance(x.ffn, Moe)}
    assert found == {experts}


def test_trap_18_biases_that_no_key_tells_of() -> None:
    qwen, glm, oss = (kinds(name)[0] for name in ("Qwen2.5-7B", "GLM-4.5", "gpt-oss-20b"))
    assert (qwen.qkv_bias, qwen.out_bias) == (True, False)
    assert (glm.qkv_bias, glm.out_bias) == (True, False)
    assert (oss.qkv_bias, oss.out_bias, oss.sinks) == (True, True, True)
    ffn = model("gpt-oss-20b").layer_kinds()[0][1].ffn
    assert isinstance(ffn, Moe)
    assert (ffn.bias, ffn.router_bias) == (True, True)
    head = model("GPT-J-6B").head
    assert head is not None
    assert head.bias


@pytest.mark.parametrize(("name", "n_modules"), [("DeepSeek-V3", 1), ("MiniMax-M2.5", 3), ("Qwen3.5-27B", 1)])
def test_trap_19_multi_token_prediction_is_counted_apart(name: str, n_modules: int) -> None:
    mtp = model(name).mtp
    assert mtp is not None
    assert mtp.n_modules == n_modules
    assert model(name).n_mtp_params > 0


def test_trap_19_and_20_deepseek_v3_adds_up_to_what_the_hub_says() -> None:
    """684,489,845,504 on the hub: the model, one module with tables of its own, and 59 buffers of 256 that balance load."""
    m = model("DeepSeek-V3")
    assert m.n_params + m.n_mtp_params + 59 * 256 == 684_489_845_504


def test_trap_21_tables_with_further_rows() -> None:
    assert model("OPT-6.7B").positions.rows == 2048 + 2
    assert model("BART-large-cnn").positions.rows == 1024 + 2
    mllama = model("Llama-3.2-11B-Vision")
    assert (mllama.embedding.vocab_size, mllama.vocab_size) == (128264, 128256)
    assert (model("OPT-350M").d_embedding, model("OPT-350M").d_model) == (512, 1024)


@pytest.mark.parametrize(
    ("name", "vocab_size"),
    [("Qwen2.5-7B", 152064), ("Qwen2.5-0.5B", 151936), ("Pythia-6.9B", 50432), ("GPT-J-6B", 50400), ("GPT-2", 50257)],
)
def test_trap_22_vocabularies_padded_or_not(name: str, vocab_size: int) -> None:
    assert model(name).vocab_size == vocab_size


def test_trap_23_blocks_of_one_thing_each() -> None:
    nano = [
        layer
        for group in model("Nemotron-3-Nano-30B-A3B").layers
        for _ in range(group.repeat)
        for layer in group.layers
    ]
    made = "".join("M" if isinstance(x.mixer, Mamba2) else "*" if isinstance(x.mixer, Attention) else "E" for x in nano)
    assert made == "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME"
    assert {x.mixer.d_inner for x in nano if isinstance(x.mixer, Mamba2)} == {64 * 64}  # not expand · hidden = 5376
    assert {type(x) for x in kinds("Jamba-1.5-Mini")} == {Attention, Mamba}
    assert [isinstance(x, Delta) for x in kinds("Qwen3-Next-80B-A3B")] == [True, True, True, False] * 12


def test_trap_24_architecture_search_leaves_layers_of_every_width_and_none() -> None:
    """Of Llama-3.3-Nemotron-Super's kinds: heads in groups of 8, no attention at all, blocks 1.3 and 0.5 times as wide."""
    blocks = [
        {"attention": {"n_heads_in_group": 8, "no_op": False, "replace_with_linear": False},
         "ffn": {"ffn_mult": 2.625, "no_op": False, "replace_with_linear": False}},
        {"attention": {"n_heads_in_group": None, "no_op": True, "replace_with_linear": False},
         "ffn": {"ffn_mult": 1.0, "no_op": False, "replace_with_linear": False}},
        {"attention": {"n_heads_in_group": 16, "no_op": False, "replace_with_linear": False},
         "ffn": {"ffn_mult": None, "no_op": True, "replace_with_linear": False}},
    ]  # fmt: skip
    config = {"model_type": "nemotron-nas", "hidden_size": 4096, "num_attention_heads": 32, "num_hidden_layers": 3,
              "vocab_size": 1000, "max_position_embeddings": 131072, "block_configs": blocks}  # fmt: skip
    first, second, third = [layer for g in read(config).layers for _ in range(g.repeat) for layer in g.layers]
    assert isinstance(first.mixer, Attention)
    assert isinstance(third.mixer, Attention)
    assert (first.mixer.n_kv_heads, third.mixer.n_kv_heads) == (32 // 8, 32 // 16)
    assert second.mixer is None
    assert third.ffn is None
    assert isinstance(first.ffn, Dense)
    assert first.ffn.d_ff == 7168  # 2 · 2.625 · 4096 / 3 = 7168, a multiple of 256


@pytest.mark.parametrize(
    ("name", "formats"),
    [("DeepSeek-V3", {"*": "fp8-block"}),
     ("gpt-oss-20b", {"expert_gate": "mxfp4", "expert_up": "mxfp4", "expert_down": "mxfp4"})],
)  # fmt: skip
def test_trap_28_what_is_quantised_and_what_stays(name: str, formats: dict[str, str]) -> None:
    """Every form of the list has its own tests in test_quantization.py; here, two released files as they are."""
    assert model(name).formats == formats
    numerics = rl.Precision().of(model(name))
    assert {role: numerics.store(role).bits for role in ("embedding", "head", "router")} == {
        "embedding": 16.0, "head": 16.0, "router": 16.0,
    }  # fmt: skip


def test_trap_31_bloom_176b_has_70_layers_of_14336_and_not_the_dimensions_of_gpt_3() -> None:
    m = model("BLOOM-176B")
    assert (m.n_layers, m.d_model, m.n_params) == (70, 14336, 176_247_271_424)


def test_trap_25_indexers_and_compressed_entries() -> None:
    assert rl.kv_bytes(model("DeepSeek-V3.2"), context_tokens=1, kv="bf16") == 61 * (512 + 64 + 128) * 2
    ratios = [x.ratio for x in kinds("DeepSeek-V4-Flash") if isinstance(x, Compressed)]
    assert ratios == [None, None, *([4, 128] * 20), 4]


def test_trap_26_cross_attention_is_skipped_for_text_alone() -> None:
    """Eight of 40 layers: their FLOPs are there with an image to attend to, and not without."""
    m = model("Llama-3.2-11B-Vision")
    crossing = sum(n for n, layer in m.layer_kinds() if layer.only_with_memory)
    assert (crossing, m.n_layers) == (8, 40)
    alone, informed = (rl.count(m, rl.Seqs(n_seq=1, n_new=4, n_memory=outputs)) for outputs in (0, 6404))
    assert sum(op.flops for op in alone.ops if "cross" in op.name) == 0
    assert informed.flops > 1.2 * alone.flops


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("Qwen3.5-27B", "bf16"), ("Qwen3-VL-30B-A3B", "bf16"), ("gpt-oss-20b", "bf16"), ("OLMo-2-7B", "fp32")],
)
def test_trap_27_the_dtype_may_stand_below_or_nowhere(name: str, dtype: str) -> None:
    assert model(name).dtype == dtype
    assumed = any(line.startswith("dtype: absent") for line in model(name).assumed)
    assert assumed == (name == "gpt-oss-20b" or "dtype" not in str(CONFIGS[name]))


def test_trap_29_names_that_changed() -> None:
    assert changed("Falcon-7B", "model_type", architectures=["RWForCausalLM"]).n_params == model("Falcon-7B").n_params
    assert isinstance(kinds("Kimi-K2-Instruct")[0], Latent)


def test_trap_30_infinity_is_read_and_not_believed(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    text = json.dumps(CONFIGS["Nemotron-H-56B"])
    file.write_text(text[:-1] + ', "time_step_limit": [0.0, Infinity]}', encoding="utf-8")
    assert rl.model(file).n_params == model("Nemotron-H-56B").n_params
    file.write_text(text.replace('"vocab_size": 131072', '"vocab_size": Infinity'), encoding="utf-8")
    with pytest.raises(rl.SpecError, match=r"vocab_size: expected a whole number from 1 to 100,000,000, got inf"):
        rl.model(file)
