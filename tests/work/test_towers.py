"""What runs before the decoder and what attends to it: by hand, by loops, and against counts of torch and transformers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import KERNELS, Spec
from zoo import changed, cross_specs, of_layers, tower_specs, zoo_models, zoo_seqs

import roofline as rl
from roofline.specs.huggingface.reader import read_config

D = 16
SELF = {"kind": "attention", "n_heads": 4, "n_kv_heads": 2, "d_head": 8}


def named(ledger: rl.Ledger, *endings: str) -> list[rl.Op[Any]]:
    return [op for op in ledger.ops if op.name.endswith(endings)]


def of_tower(model: rl.Model, ledger: rl.Ledger) -> list[rl.Op[Any]]:
    return [op for op in ledger.ops if op.name.startswith(f"{model.towers[0].kind}.")]


# Towers, image by image


def tower_flops(tower: Spec, n_inputs: int, n_tokens: int) -> int:
    """Every product of every input: tokens see those of their own input only."""
    flops, d = 0, tower["d_model"]
    for _ in range(n_inputs):
        for product in (*tower["stem"], *tower["projector"]):
            flops += round(2 * n_tokens * product["rows"] * product["d_in"] * product["d_out"])
        for group in tower["layers"]:
            for _ in range(group["repeat"]):
                for layer in group["layers"]:
                    flops += layer_flops(layer, d, n_tokens)
    return flops


def layer_flops(layer: Spec, d: int, n: int) -> int:
    """One layer that sees both ways."""
    x, ffn = layer["mixer"], layer["ffn"]
    heads, kv, h, v = x["n_heads"], x["n_kv_heads"], x["d_head"], x["d_value"] or x["d_head"]
    widths = [heads * h, kv * h, kv * v, heads * v]  # q, k, v, o
    widths += {False: [], True: [heads * v], "apart": [heads * v], "head": [heads]}[x["gated"]]
    widths += [ffn["d_ff"]] * (3 if ffn["gated"] else 2)
    w = x.get("window")
    pairs = 0
    for query in range(n):
        for key in range(n):
            near = w is None or (query // w == key // w if x["chunked"] else abs(query - key) <= w // 2)
            pairs += near
    return int(2 * n * d * sum(widths) + 2 * heads * (h + v) * pairs)


KINDS = st.sampled_from([("vision", "prompt"), ("vision", "memory"), ("audio", "memory"), ("text", "memory")])


@given(KINDS.flatmap(lambda k: tower_specs(*k, D)), st.integers(1, 3), st.integers(0, 3), st.integers(1, 24))
def test_a_tower_has_the_flops_of_its_inputs_one_by_one(tower: Spec, n_seq: int, n_inputs: int, n_tokens: int) -> None:
    cross = {"kind": "cross_attention", "n_heads": 2, "n_kv_heads": 1, "d_head": 4, "d_memory": D}
    layer = {"mixer": SELF, "ffn": None} | ({"cross": cross} if tower["feeds"] == "memory" else {})
    model = of_layers(layer, towers=(tower,))
    ledger = rl.count(model, rl.Seqs(n_seq=n_seq, n_new=2, n_inputs=n_inputs, n_input_tokens=n_tokens))
    assert sum(op.repeat * op.flops for op in of_tower(model, ledger)) == tower_flops(tower, n_seq * n_inputs, n_tokens)


def seeing(**tower: Any) -> rl.Model:
    """A decoder with a vision tower of no layers."""
    return of_layers(
        {"mixer": SELF, "ffn": None}, towers=({"kind": "vision", "d_model": 8, "feeds": "prompt"} | tower,)
    )


def test_a_product_has_its_own_rows_for_every_token() -> None:
    """Two images of 12 patches: a stem of 2 rows a token multiplies 48, a merger of 4 patches 6, a pooler of the whole 2."""
    model = seeing(
        stem=({"name": "conv", "d_in": 3, "d_out": 8, "rows": 2.0},),
        projector=(
            {"name": "merge", "d_in": 32, "d_out": 16, "rows": 0.25},
            {"name": "pool", "d_in": 8, "d_out": 16, "once": True},
        ),
    )
    ops = {op.name: op for op in rl.count(model, rl.Seqs(n_seq=1, n_new=9, n_inputs=2, n_input_tokens=12)).ops}
    assert [ops[f"vision.{name}"].m for name in ("conv", "merge", "pool")] == [48, 6, 2]
    assert [ops[f"vision.{n}"].flops for n in ("conv", "merge", "pool")] == [48 * 48, 6 * 2 * 512, 2 * 2 * 128]


def test_a_tower_s_weights_are_read_once_for_all_images_of_the_pass() -> None:
    model = seeing(stem=({"name": "conv", "d_in": 3, "d_out": 8},))
    one, many = (rl.count(model, rl.Seqs(n_seq=b, n_new=9, n_inputs=3, n_input_tokens=5)) for b in (1, 8))
    assert (
        [op.weight_bytes for op in of_tower(model, one)] == [op.weight_bytes for op in of_tower(model, many)] == [48.0]
    )


def test_rows_of_a_table_in_a_tower_are_looked_up_and_not_all_read() -> None:
    """A table of 1000 positions for an input of 10: at most the ten rows, the rest need not cross memory."""
    with_table = seeing(stem=({"name": "conv", "d_in": 3, "d_out": 8},), vectors={"positions": 1000 * 8})
    without = seeing(stem=({"name": "conv", "d_in": 3, "d_out": 8},))
    seqs = rl.Seqs(n_seq=1, n_new=2, n_inputs=1, n_input_tokens=10)
    more = rl.count(with_table, seqs).compulsory_bytes - rl.count(without, seqs).compulsory_bytes
    assert more <= 2 * 10 * 8


def test_weights_of_what_sees_stay_in_16_bit_and_those_of_what_reads_do_not() -> None:
    """Recipes quantise a text encoder as the decoder: one byte for each of 8·16 weights in int8, and leave what sees."""
    products = ({"name": "project", "d_in": 8, "d_out": 16},)
    cross = {"kind": "cross_attention", "n_heads": 2, "n_kv_heads": 1, "d_head": 4, "d_memory": D}
    for kind, bytes_each in (("vision", 2), ("audio", 2), ("text", 1)):
        tower = {"kind": kind, "d_model": 8, "feeds": "memory", "projector": products}
        model = of_layers({"mixer": SELF, "cross": cross, "ffn": None}, towers=(tower,))
        ledger = rl.count(
            model, rl.Seqs(n_seq=1, n_new=1, n_inputs=1, n_input_tokens=4), precision=rl.Precision(weights="int8")
        )
        (row,) = named(ledger, ".project")
        assert row.weight_bytes == bytes_each * 8 * 16, kind


# Cross-attention


@given(
    cross_specs(24),
    st.integers(1, 4),
    st.integers(1, 9),
    st.integers(0, 3),
    st.integers(1, 12),
    st.integers(0, 20),
    KERNELS,
)
def test_cross_attention_by_a_loop_over_tokens_and_what_they_attend_to(
    x: Spec, n_seq: int, n_new: int, n_inputs: int, n_tokens: int, earlier: int, kernel: Any
) -> None:
    """Every new token against all M outputs; keys and values are made of new outputs only."""
    tower = {"kind": "audio", "d_model": 24, "feeds": "memory"}
    model = of_layers({"mixer": None, "cross": x, "ffn": None}, {"mixer": SELF, "ffn": None}, towers=(tower,))
    made, memory = n_inputs * n_tokens, n_inputs * n_tokens + earlier
    ledger = rl.count(
        model,
        rl.Seqs(n_seq=n_seq, n_new=n_new, n_inputs=n_inputs, n_input_tokens=n_tokens, n_memory=memory),
        attention=kernel,
    )
    heads, kv, h = x["n_heads"], x["n_kv_heads"], x["d_head"]
    flops = 0
    for _ in range(n_seq):
        flops += 2 * made * 24 * kv * h * 2  # k and v
        for _ in range(n_new if memory else 0):  # a token without anything to attend to passes the layer by
            flops += 2 * D * heads * h * 2  # q and o
            for _ in range(memory):
                flops += 2 * heads * h * 2  # score, weighted sum
    rows = named(ledger, "cross_q_proj", "cross_k_proj", "cross_v_proj", "cross_attention", "cross_o_proj")
    assert len(rows) == 5
    assert sum(op.executed_flops for op in rows) == flops
    assert sum(op.kv_read_bytes for op in rows) == n_seq * memory * 2 * kv * h * 2
    assert sum(op.kv_write_bytes for op in rows) == n_seq * made * 2 * kv * h * 2


@given(zoo_models(bodies=("hearing", "translating", "crossing")), zoo_seqs(), st.integers(0, 5000))
def test_what_is_remembered_costs_the_same_however_long_the_text_is(model: rl.Model, like: rl.Seqs, more: int) -> None:
    short, far = (
        named(rl.count(model, changed(like, n_shared=0, n_past=like.n_past + n)), "cross_attention") for n in (0, more)
    )
    assert [op.flops for op in short] == [op.flops for op in far]
    assert [op.kv_read_bytes for op in short] == [op.kv_read_bytes for op in far]


@given(zoo_models(bodies=("hearing", "translating", "crossing")), st.integers(1, 300), st.integers(1, 16))
def test_a_cross_cache_is_what_the_pass_that_made_it_wrote(model: rl.Model, n_tokens: int, n_seq: int) -> None:
    ledger = rl.count(model, rl.Seqs(n_seq=n_seq, n_new=1, n_inputs=1, n_input_tokens=n_tokens, n_memory=n_tokens))
    written = sum(op.repeat * op.kv_write_bytes for op in named(ledger, "cross_attention"))
    with_memory, without = (rl.kv_bytes(model, context_tokens=7, batch=n_seq, memory_tokens=m) for m in (n_tokens, 0))
    assert with_memory - without == written


@given(zoo_models(bodies=("translating",)), st.integers(1, 200), st.integers(1, 50))
def test_the_source_is_looked_up_in_the_decoder_s_table(model: rl.Model, n_tokens: int, n_new: int) -> None:
    """A row of it for every token, of either; position rows are the decoder's own."""
    (row,) = (
        op
        for op in rl.count(
            model, rl.Seqs(n_seq=1, n_new=n_new, n_inputs=1, n_input_tokens=n_tokens, n_memory=n_tokens)
        ).ops
        if op.kind == "embedding"
    )
    assert row.m == n_tokens + n_new


# Counted by others: FLOP counter of torch 2.13 over transformers 5.24 on the meta device, eager attention.
# (encoder tokens, phase, new, past, FLOPs); "encode" is the encoder alone, "decode" the decoder with its head; the first
# decoder pass makes the keys and values of the encoder's outputs.

FLAN_T5_BASE = {
    "model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "d_ff": 2048, "d_kv": 64, "d_model": 768,
    "feed_forward_proj": "gated-gelu", "n_positions": 512, "num_decoder_layers": 12, "num_heads": 12, "num_layers": 12,
    "relative_attention_num_buckets": 32, "tie_word_embeddings": False, "torch_dtype": "float32", "vocab_size": 32128,
}  # fmt: skip
BART_LARGE_CNN = {
    "model_type": "bart", "architectures": ["BartForConditionalGeneration"], "d_model": 1024,
    "decoder_attention_heads": 16, "decoder_ffn_dim": 4096, "decoder_layers": 12, "encoder_attention_heads": 16,
    "encoder_ffn_dim": 4096, "encoder_layers": 12, "max_position_embeddings": 1024, "num_hidden_layers": 12,
    "vocab_size": 50264,
}  # fmt: skip
WHISPER_LARGE_V3 = {
    "model_type": "whisper", "architectures": ["WhisperForConditionalGeneration"], "d_model": 1280,
    "decoder_attention_heads": 20, "decoder_ffn_dim": 5120, "decoder_layers": 32, "dtype": "float16",
    "encoder_attention_heads": 20, "encoder_ffn_dim": 5120, "encoder_layers": 32, "max_source_positions": 1500,
    "max_target_positions": 448, "num_hidden_layers": 32, "num_mel_bins": 128, "tie_word_embeddings": True,
    "vocab_size": 51866,
}  # fmt: skip
LLAMA_11B_VISION: Spec = {
    "model_type": "mllama", "architectures": ["MllamaForConditionalGeneration"], "image_token_index": 128256,
    "torch_dtype": "bfloat16",
    "text_config": {
        "cross_attention_layers": [3, 8, 13, 18, 23, 28, 33, 38], "hidden_act": "silu", "hidden_size": 4096,
        "intermediate_size": 14336, "max_position_embeddings": 131072, "model_type": "mllama_text_model",
        "num_attention_heads": 32, "num_hidden_layers": 40, "num_key_value_heads": 8, "tie_word_embeddings": False,
        "vocab_size": 128256,
    },
    "vision_config": {
        "attention_heads": 16, "hidden_act": "gelu", "hidden_size": 1280, "image_size": 560,
        "intermediate_layers_indices": [3, 7, 15, 23, 30], "intermediate_size": 5120, "max_num_tiles": 4,
        "model_type": "mllama_vision_model", "num_channels": 3, "num_global_layers": 8, "num_hidden_layers": 32,
        "patch_size": 14, "vision_output_dim": 7680,
        "supported_aspect_ratios": [[1, 1], [1, 2], [1, 3], [1, 4], [2, 1], [2, 2], [3, 1], [4, 1]],
    },
}  # fmt: skip
CONFIGS = {
    "flan-t5-base": FLAN_T5_BASE, "bart-large-cnn": BART_LARGE_CNN, "whisper-large-v3": WHISPER_LARGE_V3,
    "llama-3.2-11b-vision": LLAMA_11B_VISION,
}  # fmt: skip
COUNTED = [
    ("flan-t5-base", 128, "encode", 0, 0, 22_347_251_712),
    ("flan-t5-base", 128, "first", 4, 0, 4_633_460_736),
    ("flan-t5-base", 128, "decode", 1, 100, 255_971_328),
    ("flan-t5-base", 512, "encode", 0, 0, 96_636_764_160),
    ("flan-t5-base", 512, "first", 4, 0, 15_561_719_808),
    ("flan-t5-base", 512, "decode", 1, 100, 270_127_104),
    ("bart-large-cnn", 128, "encode", 0, 0, 39_460_012_032),
    ("bart-large-cnn", 128, "first", 4, 0, 8_289_452_032),
    ("bart-large-cnn", 128, "decode", 1, 100, 466_518_016),
    ("bart-large-cnn", 1024, "encode", 0, 0, 360_777_252_864),
    ("bart-large-cnn", 1024, "first", 4, 0, 53_562_769_408),
    ("bart-large-cnn", 1024, "decode", 1, 100, 510_558_208),
    ("whisper-large-v3", 1500, "encode", 0, 0, 2_273_771_520_000),
    ("whisper-large-v3", 1500, "first", 4, 0, 321_961_594_880),
    ("whisper-large-v3", 1500, "decode", 1, 100, 1_863_091_200),
    ("llama-3.2-11b-vision", 6404, "first without logits", 128, 0, 3_191_764_680_704),
    ("llama-3.2-11b-vision", 6404, "decode without logits", 1, 128, 18_221_105_152),
    (
        "llama-3.2-11b-vision",
        0,
        "decode",
        4,
        0,
        60_045_656_064,
    ),  # text alone: layers that only cross-attend are passed by
    ("llama-3.2-11b-vision", 0, "decode", 128, 0, 1_929_782_493_184),
    ("llama-3.2-11b-vision", 0, "decode", 1, 128, 15_076_950_016),
    ("llama-3.2-11b-vision", 0, "decode", 1, 1000, 15_534_129_152),
]


def described(name: str, folder: Path) -> rl.Model:
    file = folder / f"{name}.json"
    file.write_text(json.dumps(CONFIGS[name]), encoding="utf-8")
    return read_config(file)


@pytest.mark.parametrize(("name", "n_read", "phase", "new", "past", "flops"), COUNTED)
def test_executed_flops_agree_with_those_counted_by_others(
    name: str, n_read: int, phase: str, new: int, past: int, flops: int, tmp_path: Path
) -> None:
    model = described(name, tmp_path)
    reads = {"n_inputs": 1, "n_input_tokens": n_read} if phase.startswith(("encode", "first")) else {}
    wanted = 0 if phase.endswith("without logits") else max(new, 1)
    seqs = rl.Seqs(n_seq=1, n_new=max(new, 1), n_past=past, n_logits=wanted, n_memory=n_read, **reads)
    ledger = rl.count(model, seqs, attention="eager")
    prefix = f"{model.towers[0].kind}."
    counted = [op for op in ledger.ops if op.name.startswith(prefix) == (phase == "encode")]
    assert sum(op.repeat * op.executed_flops for op in counted) == flops


@pytest.mark.parametrize(
    ("name", "n_params"),
    [
        ("flan-t5-base", 247_577_856),
        ("bart-large-cnn", 406_290_432),
        ("whisper-large-v3", 1_543_490_560),
        ("llama-3.2-11b-vision", 10_670_220_835),
    ],
)
def test_parameters_agree_with_those_counted_by_others(name: str, n_params: int, tmp_path: Path) -> None:
    model = described(name, tmp_path)
    assert model.n_params == n_params
    for weights in ("bf16", "fp16"):
        ledger = rl.count(model, rl.Seqs(n_seq=1, n_new=1), precision=rl.Precision(weights=weights))
        assert ledger.resident_bytes == 2 * n_params


def test_whisper_s_cross_cache_by_hand(tmp_path: Path) -> None:
    """32 layers · 1500 frames · 2 · 20 heads · 64 · 2 B = 245,760,000 B, from the first token on; 163,840 B a token."""
    model = described("whisper-large-v3", tmp_path)
    assert rl.kv_bytes(model, context_tokens=0) == 245_760_000
    assert rl.kv_bytes(model, context_tokens=10) == 245_760_000 + 10 * 163_840


def test_the_keys_and_values_an_image_is_remembered_by_are_made_of_the_tower_s_outputs_alone(tmp_path: Path) -> None:
    """Four tiles of 1600 patches and a class token are 6404 outputs; the tower pads each to 1608, the memory does not."""
    model = described("llama-3.2-11b-vision", tmp_path)
    d = rl.Deployment(model=model, hardware=rl.hardware("h100-sxm-80gb"))
    rows = {row["name"]: row for row in rl.prefill(d, prompt_tokens=20, images=1).by_op()}
    (made,) = (row for name, row in rows.items() if name.endswith("cross_k_proj"))
    (core,) = (row for name, row in rows.items() if name.endswith("cross_attention"))
    assert core["flops"] == 8 * 4 * 32 * 128 * 20 * 6404
    assert made["flops"] == 8 * 2 * 6404 * 4096 * 1024
    assert core["kv_write_bytes"] == rl.kv_bytes(model, context_tokens=0, memory_tokens=6404)
