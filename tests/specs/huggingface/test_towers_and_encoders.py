"""Vision-language models, encoder-decoders and encoders, read from `config.json`: parameters to the last one, what stands
before and after the layers, how an image becomes tokens, and what is refused.

Expected counts are those of transformers 5.24.0 built on device=meta, of the class that the config names; expected image
tokens are those of its image processors' own arithmetic, run on the same sizes.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.errors import RooflineError, SpecError, Unsupported
from roofline.specs.huggingface.families import encoders, seq2seq, vision_gemma, vision_llama, vision_llava, vision_qwen
from roofline.specs.huggingface.reader import model_of
from roofline.specs.images import FilledImage, FixedImage, ImageTokens, ResizedImage, ShrunkImage, TiledImage
from roofline.specs.mixers import Attention, CrossAttention
from roofline.specs.model import Model
from roofline.specs.towers import Product, Tower

CASES = Path(__file__).with_name("towers_and_encoders.jsonl")
ORACLES = Path(__file__).resolve().parents[4] / "shared" / "oracles"
FAMILIES: set[str] = set()
for module in (encoders, seq2seq, vision_gemma, vision_llama, vision_llava, vision_qwen):
    FAMILIES |= set(module.FAMILIES)

ROWS = [json.loads(line) for line in CASES.read_text().splitlines()[1:]]
BY_NAME = {row["name"]: row["config"] for row in ROWS}
LLAMA = {
    "model_type": "llama", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
    "vocab_size": 100,
}  # fmt: skip
QWEN_TEXT = LLAMA | {"model_type": "qwen2_vl_text", "num_key_value_heads": 2}
JUNK: tuple[Any, ...] = (
    0, -1, None, "x", [], {}, 1e30, float("nan"), float("inf"), True, 10**12, [1], [None], [10**9, -5], 1.5, 99_999, "a" * 99
)  # fmt: skip


def read(config: dict[str, Any], name: str = "config.json") -> Model:
    return model_of(config, file=Path(name))


def tower_of(config: dict[str, Any]) -> Tower:
    (tower,) = read(config).towers
    return tower


@pytest.mark.parametrize("row", ROWS, ids=[row["name"] for row in ROWS])
def test_parameters_are_those_of_the_built_model(row: dict[str, Any]) -> None:
    assert read(row["config"]).n_params == row["n_params"] + row.get("stored_head", 0)


def test_every_family_here_is_counted_above() -> None:
    counted = {row["config"]["model_type"] for row in ROWS}
    text_parts = {"qwen2_vl_text", "qwen2_5_vl_text", "qwen3_vl_text", "glm4v_text"}
    assert counted | text_parts | {"new", "phi3_v", "internvl_chat"} == FAMILIES


def test_internvl_2_5_as_first_released_has_what_its_checkpoint_holds() -> None:
    """8,075,365,376 in the checkpoint of the 8B: InternLM 2.5 7B, InternViT 300M, a norm and two products."""
    config = {
        "model_type": "internvl_chat", "downsample_ratio": 0.5,
        "llm_config": {
            "model_type": "internlm2", "bias": False, "hidden_size": 4096, "intermediate_size": 14336,
            "max_position_embeddings": 32768, "num_attention_heads": 32, "num_hidden_layers": 32,
            "num_key_value_heads": 8, "vocab_size": 92553,
        },
        "vision_config": {
            "model_type": "intern_vit_6b", "hidden_size": 1024, "image_size": 448, "intermediate_size": 4096,
            "norm_type": "layer_norm", "num_attention_heads": 16, "num_hidden_layers": 24, "patch_size": 14,
            "qk_normalization": False, "qkv_bias": True,
        },
    }  # fmt: skip
    model = read(config)
    assert sum(t.n_params for t in model.towers) == 304_012_288 + 2 * 4096 + 2 * 4097 * 4096
    assert model.n_params == 8_075_365_376


def test_phi_3_5_vision_has_what_its_checkpoint_holds() -> None:
    """4,146,621,440 in the checkpoint: the text, CLIP ViT-L/14 at 336 pixels that the file only names, two products, two
    marks."""
    config = {
        "model_type": "phi3_v", "hidden_size": 3072, "intermediate_size": 8192, "max_position_embeddings": 131072,
        "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32, "vocab_size": 32064,
        "img_processor": {
            "image_dim_out": 1024, "model_name": "openai/clip-vit-large-patch14-336", "name": "clip_vision_model",
        },
    }  # fmt: skip
    clip = 1024 * (588 + 1 + 577) + 24 * (4 * 1025 * 1024 + 1025 * 4096 + 4097 * 1024 + 4 * 1024) + 4 * 1024
    n_params = 3_821_079_552 + clip + 4097 * 3072 + 3073 * 3072 + 2 * 4096
    assert read(config).n_params == n_params == 4_146_621_440
    with pytest.raises(SpecError, match="model_name: expected one of openai/clip-vit-large-patch14-336"):
        read(config | {"img_processor": {"name": "clip_vision_model", "model_name": "openai/clip-vit-base-patch32"}})


@pytest.mark.skipif(not ORACLES.is_dir(), reason="the shared oracles are not here")
def test_every_shared_config_of_these_families_is_read_exactly() -> None:
    with (ORACLES / "params.csv").open() as stream:
        rows = {row["name"]: row for row in csv.DictReader(stream) if row["expected_params"]}
    seen = 0
    for name, row in rows.items():
        config = json.loads((ORACLES / "configs" / f"{name}.json").read_text())
        if config["model_type"] in FAMILIES:
            model = read(config)
            assert model.n_params == int(row["expected_params"]), name
            if row["active_params"]:
                assert model.n_active_params == int(row["active_params"]), name
            beside = int(row["vision_audio_params"] or 0)
            if beside and model.towers and "Kimi" not in name:  # of Kimi's row the projector is listed elsewhere
                assert sum(t.n_params for t in model.towers) == beside, name
            seen += 1
    assert seen >= 18


# --- encoder and decoder -------------------------------------------------------------------------------------------------


def test_flan_t5_stores_a_head_of_its_own_and_t5_does_not() -> None:
    flan = {
        "model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "d_ff": 2048, "d_kv": 64, "d_model": 768,
        "feed_forward_proj": "gated-gelu", "num_decoder_layers": 12, "num_heads": 12, "num_layers": 12,
        "tie_word_embeddings": False, "vocab_size": 32128,
    }  # fmt: skip
    assert read(flan).n_params == 247_577_856  # published: 248 M; 222,903,552 built, and 32128 · 768 of the head
    assert read(flan | {"tie_word_embeddings": True}).n_params == 222_903_552


def test_relative_positions_stand_in_the_first_layer_of_a_stack_or_in_all_of_them() -> None:
    t5 = read({"model_type": "t5", "num_layers": 3, "num_heads": 5})
    umt5 = read({"model_type": "umt5", "num_layers": 3, "num_heads": 5})
    assert [(n, layer.vectors) for n, layer in t5.layer_kinds()] == [(1, 160), (2, 0)]
    assert [(n, layer.vectors) for n, layer in umt5.layer_kinds()] == [(3, 160)]
    assert t5.positions.kind == "relative"


def test_the_encoder_alone_has_no_head_and_no_tower() -> None:
    model = read({"model_type": "t5", "architectures": ["T5EncoderModel"]})
    (_, layer), *_ = model.layer_kinds()
    assert model.head is None
    assert not model.towers
    assert isinstance(layer.mixer, Attention)
    assert not layer.mixer.causal


def test_every_decoder_layer_attends_to_the_encoder() -> None:
    model = read(BY_NAME["bart-large-cnn"])
    (tower,) = model.towers
    ((n, layer),) = model.layer_kinds()
    assert (tower.kind, tower.feeds, tower.shares_embedding, tower.n_layers) == ("text", "memory", True, 12)
    assert n == 12
    assert isinstance(layer.cross, CrossAttention)
    assert not layer.only_with_memory
    assert tower.vectors == {"positions": 1026 * 1024}  # two rows more than positions
    assert model.positions.rows == 1026


def test_whisper_reads_1500_tokens_of_an_audio_after_two_convolutions() -> None:
    tower = tower_of(BY_NAME["distil-large-v3"])
    assert tower.stem == (
        Product(name="conv1", d_in=384, d_out=1280, bias=True, rows=2.0),
        Product(name="conv2", d_in=3840, d_out=1280, bias=True),
    )
    assert (tower.kind, tower.fixed_tokens, tower.feeds) == ("audio", 1500, "memory")
    assert tower.vectors == {"positions": 1500 * 1280}
    ((_, layer),) = tower.layer_kinds()
    assert isinstance(layer.mixer, Attention)
    assert layer.mixer.qkv_bias == "qv"


def test_encoder_and_decoder_may_have_other_numbers_of_layers() -> None:
    model = read(BY_NAME["distil-large-v3"])
    assert (model.towers[0].n_layers, model.n_layers) == (32, 2)


# --- encoders ------------------------------------------------------------------------------------------------------------


def test_the_class_decides_what_stands_after_the_last_layer() -> None:
    bert = BY_NAME["all-MiniLM-L6-v2"]
    found = {
        name: tuple(p.name for p in read(bert | {"architectures": [name]}).readout)
        for name in ("BertModel", "BertForMaskedLM", "BertForTokenClassification", "BertForSequenceClassification")
    }
    assert found == {
        "BertModel": ("pooler",),
        "BertForMaskedLM": ("transform", "words"),
        "BertForTokenClassification": ("tags",),
        "BertForSequenceClassification": ("pooler", "labels"),
    }
    without = {key: value for key, value in bert.items() if key != "architectures"}
    assert read(without).n_params == read(bert).n_params  # a config that names no class describes the bare model


def test_a_pooler_reads_one_token_a_sequence_and_the_table_read_backwards_adds_its_bias_alone() -> None:
    (pooler,) = read(BY_NAME["bge-m3"]).readout
    assert pooler == Product(name="pooler", d_in=1024, d_out=1024, bias=True, once=True)
    words = read(BY_NAME["bert-base-uncased"]).readout[-1]
    assert words == Product(name="words", d_in=768, d_out=30522, bias=True, tied=True)
    assert words.n_params == 30522
    assert words.matrix.n_weights == 768 * 30522  # multiplied all the same


def test_an_encoder_has_no_head_and_sees_both_ways() -> None:
    for name in ("bge-m3", "ModernBERT-large", "nomic-embed-text-v1.5", "deberta-v3-base"):
        model = read(BY_NAME[name])
        assert model.head is None
        assert all(isinstance(layer.mixer, Attention) and not layer.mixer.causal for _, layer in model.layer_kinds())


def test_positions_counted_from_the_padding_on_leave_fewer_tokens_than_rows() -> None:
    model = read(BY_NAME["bge-m3"])
    assert (model.positions.rows, model.max_context_tokens) == (8194, 8192)
    assert read(BY_NAME["bert-base-uncased"]).max_context_tokens == 512


def test_two_layers_of_three_of_modernbert_see_their_neighbours() -> None:
    kinds = read(BY_NAME["ModernBERT-large"]).layer_kinds()
    found = [(n, layer.mixer.window) for n, layer in kinds if isinstance(layer.mixer, Attention)]
    assert found == [(1, None), (18, 129), (9, None)]  # 64 on either side; layer 0 has one norm fewer


def test_relative_positions_of_deberta_multiply_once_a_sequence_and_against_every_token() -> None:
    readout = {p.name: p for p in read(BY_NAME["deberta-v3-base"]).readout}
    assert readout["relative_keys"] == Product(
        name="relative_keys", d_in=768, d_out=768, n=12, rows=512.0, once=True, tied=True
    )
    assert readout["relative_c2p"] == Product(name="relative_c2p", d_in=768, d_out=512, n=12, tied=True)


# --- towers of images ----------------------------------------------------------------------------------------------------


def test_the_windowed_tower_sees_squares_of_112_pixels_but_in_four_layers() -> None:
    kinds = tower_of(BY_NAME["Qwen2.5-VL-72B"]).layer_kinds()
    found = [(n, m.window, m.chunked, m.causal) for n, layer in kinds if isinstance(m := layer.mixer, Attention)]
    assert found == [(28, 64, True, False), (4, None, False, False)]


def test_text_keys_at_the_top_and_in_a_section_are_one_model() -> None:
    text = {key: value for key, value in QWEN_TEXT.items() if key != "model_type"}
    vision = {"depth": 2, "hidden_size": 32, "num_heads": 2, "out_hidden_size": 64}
    below = {"model_type": "qwen2_5_vl", "text_config": QWEN_TEXT, "vision_config": vision}
    above = {"model_type": "qwen2_5_vl", "vision_config": vision, "max_position_embeddings": 100} | text
    assert read(above | {"model_type": "qwen2_5_vl"}).n_params == read(below).n_params


def test_mergers_read_a_quarter_of_the_patches() -> None:
    tower = tower_of(BY_NAME["Qwen3-VL-4B"])
    assert {p.name: (p.n, p.rows) for p in tower.projector} == {"merge_up": (4, 0.25), "merge_down": (4, 0.25)}


def test_cross_layers_of_llama_3_2_are_passed_with_an_image_alone() -> None:
    config = {
        "model_type": "mllama", "text_config": {"num_hidden_layers": 5, "cross_attention_layers": [1, 3]},
        "vision_config": {"image_size": 560, "patch_size": 14},
    }  # fmt: skip
    model = read(config)
    crossed = [(n, layer) for n, layer in model.layer_kinds() if layer.cross is not None]
    assert [(n, layer.only_with_memory, layer.vectors) for n, layer in crossed] == [(2, True, 2)]
    assert model.embedding_matrix.d_in == 128_264
    (tower,) = model.towers
    assert tower.image is not None
    assert tower.image.of(height=10, width=10) == ImageTokens(1, 1608, 1, memory_tokens=1601)
    assert tower.image.of(height=2000, width=2000) == ImageTokens(1, 4 * 1608, 1, memory_tokens=4 * 1601)
    assert tower.image.of(height=400, width=1000) == ImageTokens(1, 2 * 1608, 1, memory_tokens=2 * 1601)
    rows = [p.rows * 6432 for p in (*tower.stem, *tower.projector)]
    assert rows == pytest.approx([4 * 1600, 4 * 1601])


def test_a_file_without_a_vision_config_describes_the_text_part() -> None:
    text = read({"model_type": "llava", "text_config": LLAMA})
    assert not text.towers
    assert any("vision_config: absent, no tower assumed" in line for line in text.assumed)


@pytest.mark.parametrize(
    ("model_type", "above", "inside", "tied"),
    [
        ("qwen3_vl", None, True, False),  # the top level alone decides
        ("qwen3_vl", True, False, True),
        ("qwen2_vl", False, True, True),  # either will do
        ("gemma3", None, None, True),
        ("gemma3", False, True, False),
        ("mistral3", None, False, False),  # an explicit word stands against the class's default
        ("llama4", True, False, False),  # the text part alone decides
        ("mllama", True, True, False),  # table and head differ in rows
    ],
)
def test_whether_the_head_is_tied_is_said_at_one_level_or_the_other(
    model_type: str, above: bool | None, inside: bool | None, tied: bool
) -> None:
    text = {} if inside is None else {"tie_word_embeddings": inside}
    top = {} if above is None else {"tie_word_embeddings": above}
    model = read({"model_type": model_type, "text_config": text, "vision_config": {}} | top)
    assert model.head is not None
    assert model.head.tied is tied


def test_gemma_4_has_a_tower_for_every_sense_whose_config_is_there() -> None:
    config = BY_NAME["Gemma 4 E2B towers on one layer"]
    assert [t.kind for t in read(config).towers] == ["vision", "audio"]
    assert [t.kind for t in read(config | {"audio_config": None}).towers] == ["vision"]
    assert read(config | {"audio_config": None, "vision_config": None}).towers == ()


@pytest.mark.parametrize(
    ("name", "n_params"),  # modules of the meta build: the tower, and the projector where that is apart
    [
        ("llava-1.5-7b", [303_507_456 + 20_979_712]),
        ("paligemma-3b-pt-224", [412_442_352 + 2_361_344]),
        ("Llama-4-Maverick tower on one layer", [850_960_896 + 20_971_520]),
        ("Gemma 4 E2B towers on one layer", [167_364_608 + 1_179_648, 304_824_608 + 2_359_296]),
        ("InternVL3-8B", [304_012_288 + 27_540_480]),
        ("pixtral-12b", [403_489_792 + 31_467_520]),
        ("GLM-4.1V-9B", [892_498_432]),
        ("Qwen3-VL-4B", [415_347_712]),
        ("Qwen2.5-VL-72B", [704_573_696]),
        ("Mistral-Small-3.1-24B", [403_305_472 + 35_652_608]),
    ],
)
def test_parameters_of_the_towers_are_those_of_the_built_modules(name: str, n_params: list[int]) -> None:
    assert [tower.n_params for tower in read(BY_NAME[name]).towers] == n_params


# --- an image becomes tokens ---------------------------------------------------------------------------------------------

QWEN2 = ResizedImage(patch=14, merge=2, min_pixels=3136, max_pixels=12_845_056)
QWEN3 = ResizedImage(patch=16, merge=2, min_pixels=65_536, max_pixels=16_777_216)
GLM = ResizedImage(patch=14, merge=2, min_pixels=6272, max_pixels=5_880_000, min_side=True)
KIMI = ShrunkImage(patch=14, merge=2, max_side=7168, max_patches=16_384)
MISTRAL3 = ShrunkImage(patch=14, merge=2, max_side=1540, row_tokens=1)
PIXTRAL = ShrunkImage(patch=16, max_side=1024, row_tokens=1)
GEMMA4 = FilledImage(patch=16, merge=3, max_tokens=280)
LLAMA4 = TiledImage(tile=336, max_tiles=16, tower_tokens=577, prompt_tokens=144, tile_tokens=1)
INTERNVL = TiledImage(tile=448, max_tiles=12, tower_tokens=1025, prompt_tokens=256, canvas="shape")
RULES = (QWEN2, QWEN3, GLM, KIMI, MISTRAL3, PIXTRAL, GEMMA4, LLAMA4, INTERNVL)

# (passes, tower tokens of each, prompt tokens) by rule, in the order of RULES
PROCESSED = {
    (1024, 1024): (
        (1, 5476, 1369), (1, 4096, 1024), (1, 5476, 1369), (1, 5476, 1369), (1, 5476, 1406), (1, 4096, 4160),
        (1, 2304, 256), (17, 577, 2464), (10, 1025, 2560),
    ),
    (480, 640): (
        (1, 1564, 391), (1, 1200, 300), (1, 1564, 391), (1, 1656, 414), (1, 1656, 432), (1, 1200, 1230),
        (1, 2394, 266), (5, 577, 724), (13, 1025, 3328),
    ),
    (2160, 3840): (
        (1, 42196, 10549), (1, 32640, 8160), (1, 29440, 7360), (1, 16856, 4214), (1, 6820, 1736), (1, 2304, 2340),
        (1, 2376, 264), (16, 577, 2319), (9, 1025, 2304),
    ),
    (100, 1500): (
        (1, 864, 216), (1, 564, 141), (1, 864, 216), (1, 864, 216), (1, 864, 220), (1, 320, 325),
        (1, 2304, 256), (6, 577, 869), (13, 1025, 3328),
    ),
    (37, 53): (
        (1, 24, 6), (1, 280, 70), (1, 48, 12), (1, 16, 4), (1, 16, 6), (1, 12, 15),
        (1, 2340, 260), (1, 577, 144), (7, 1025, 1792),
    ),
    (3000, 3000): (
        (1, 45796, 11449), (1, 35344, 8836), (1, 29584, 7396), (1, 16900, 4225), (1, 12100, 3080), (1, 4096, 4160),
        (1, 2304, 256), (17, 577, 2464), (10, 1025, 2560),
    ),
}  # fmt: skip


@pytest.mark.parametrize("size", PROCESSED)
def test_images_become_as_many_tokens_as_the_processors_make_of_them(size: tuple[int, int]) -> None:
    height, width = size
    found = tuple(rule.of(height=height, width=width) for rule in RULES)
    assert tuple((t.n_units, t.tower_tokens, t.prompt_tokens) for t in found) == PROCESSED[size]


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("Qwen2.5-VL-72B", QWEN2),
        ("Qwen3-VL-4B", QWEN3),
        ("GLM-4.1V-9B", GLM),
        ("defaults of kimi_k25", KIMI),
        ("Mistral-Small-3.1-24B", MISTRAL3),
        ("pixtral-12b", PIXTRAL),
        ("Gemma 4 E2B towers on one layer", GEMMA4),
        ("Llama-4-Maverick tower on one layer", LLAMA4),
        ("InternVL3-8B", INTERNVL),
        ("llava-1.5-7b", FixedImage(tower_tokens=577, prompt_tokens=576)),
        ("paligemma-3b-pt-224", FixedImage(tower_tokens=256, prompt_tokens=256)),
    ],
)
def test_every_family_states_its_rule(name: str, rule: object) -> None:
    assert read(BY_NAME[name]).towers[0].image == rule


def test_gemma_3_brings_every_image_to_256_tokens() -> None:
    vision = {
        "hidden_size": 1152,
        "image_size": 896,
        "num_hidden_layers": 1,
        "num_attention_heads": 16,
        "patch_size": 14,
    }
    tower = tower_of({"model_type": "gemma3", "text_config": {"num_hidden_layers": 1}, "vision_config": vision})
    assert tower.image == FixedImage(tower_tokens=4096, prompt_tokens=256)
    assert tower.projector[-1].rows == 256 / 4096


@given(height=st.integers(1, 8000), width=st.integers(1, 8000))
def test_a_tower_sees_at_least_a_patch_and_a_bounded_number_of_them(height: int, width: int) -> None:
    for rule in RULES:
        try:
            found = rule.of(height=height, width=width)
        except SpecError:
            assert max(height, width) > 200 * min(height, width) or isinstance(rule, ResizedImage)
            continue
        assert found.tower_tokens >= 1
        assert found.prompt_tokens >= 1
        assert found.n_units * found.tower_tokens <= 70_000


@pytest.mark.parametrize(("height", "width"), [(0, 10), (10, -1), (2**21, 10), (True, 10), (10.5, 10)])
def test_an_image_has_whole_pixels(height: Any, width: Any) -> None:
    for rule in RULES:
        with pytest.raises(SpecError, match="whole number of pixels"):
            rule.of(height=height, width=width)


# --- refused -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "error", "says"),
    [
        ({"model_type": "bert", "architectures": ["BertLMHeadModel"]}, Unsupported, "BertLMHeadModel is not supported"),
        ({"model_type": "bert", "num_attention_heads": 5}, SpecError, "num_attention_heads: expected a divisor"),
        ({"model_type": "bart", "d_model": 30}, SpecError, "attention_heads: expected a divisor of d_model=30, got 16"),
        (
            {"model_type": "t5", "feed_forward_proj": "fast-relu"},
            SpecError,
            "feed_forward_proj: expected an activation",
        ),
        ({"model_type": "roberta", "max_position_embeddings": 2}, SpecError, "max_position_embeddings: expected more"),
        ({"model_type": "nomic_bert", "num_experts": 8}, Unsupported, "num_experts: a Nomic model with this"),
        ({"model_type": "modernbert", "num_hidden_layers": 1, "layer_types": ["global"]}, SpecError, "layer_types"),
        (
            {"model_type": "bert", "architectures": ["BertForTokenClassification"], "id2label": {}},
            SpecError,
            "id2label",
        ),
        ({"model_type": "qwen2_5_vl", "vision_config": {"window_size": 20}}, SpecError, "at least the 28 pixels"),
        ({"model_type": "gemma3", "vision_config": {"model_type": "dino"}}, Unsupported, "a tower of dino"),
        ({"model_type": "llava", "text_config": {"model_type": "lama"}}, Unsupported, "did you mean llama"),
        ({"model_type": "llava", "text_config": LLAMA, "vision_config": 5}, SpecError, "vision_config: expected a map"),
        ({"model_type": "gemma3", "vision_config": {"image_size": 8}}, SpecError, "patch_size: expected at most"),
        ({"model_type": "kimi_k25", "vision_config": {"merge_kernel_size": [2, 3]}}, SpecError, "merge_kernel_size"),
        ({"model_type": "gemma4", "audio_config": {"num_attention_heads": 3}}, SpecError, "audio_config.num_attention"),
        (
            {"model_type": "gemma4", "vision_config": {"num_key_value_heads": 5}},
            SpecError,
            "a divisor of num_attention",
        ),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_key(config: dict[str, Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=r"config\.json: ") as caught:
        read(config)
    assert says in str(caught.value)


@pytest.mark.parametrize("name", sorted({row["config"]["model_type"] for row in ROWS}))
def test_junk_in_any_place_ends_in_an_error_of_ours(name: str) -> None:
    config = next(row["config"] for row in ROWS if row["config"]["model_type"] == name)
    for path in _paths(config):
        for junk in JUNK:
            try:
                for tower in read(_with(config, path, junk)).towers:
                    assert tower.n_params >= 0
            except RooflineError:
                continue


def _paths(config: dict[str, Any]) -> list[tuple[str, ...]]:
    below = [(key, *rest) for key, value in config.items() if isinstance(value, dict) for rest in _paths(value)]
    return [(key,) for key in config] + below


def _with(config: dict[str, Any], path: tuple[str, ...], value: object) -> dict[str, Any]:
    key, *rest = path
    return config | {key: _with(config[key], tuple(rest), value) if rest else value}
