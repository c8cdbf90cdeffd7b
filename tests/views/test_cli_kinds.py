"""The command line on models of every kind: what is shown, written out, and said of what only some models have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import roofline as rl
from roofline.specs import catalog
from roofline.views.cli import run

CONFIGS = {
    entry["name"]: entry["config"]
    for entry in map(
        json.loads, (Path(__file__).parents[1] / "data" / "configs.jsonl").read_text(encoding="utf-8").splitlines()
    )
}


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Any:
    """What a command prints, and that it answers."""

    def command(words: str, *, code: int = 0) -> str:
        assert run(words.split()) == code
        out = capsys.readouterr()
        return out.out if code == 0 else out.err

    return command


def written(name: str, folder: Path) -> Path:
    """A released config as its folder holds it."""
    file = folder / name / "config.json"
    file.parent.mkdir()
    file.write_text(json.dumps(CONFIGS[name]), encoding="utf-8")
    return file


# models


@pytest.mark.parametrize("words", ["models show {}", "models {}"])
def test_a_folder_is_shown_as_its_config_is(said: Any, words: str, tmp_path: Path) -> None:
    file = written("DeepSeek-V3", tmp_path)
    by_file, by_folder = said(words.format(file)), said(words.format(file.parent))
    assert by_file == by_folder
    assert "671,026,404,352 parameters, 37,552,282,624 active" in by_file
    assert "MLA 128 heads, 512 + 64 cached" in by_file
    assert "256 experts of 2,048, 8 active + shared 2,048" in by_file
    assert "multi-token prediction: 13,463,426,048 parameters besides" in by_file
    assert "cache 68.625 KiB a token in bf16" in by_file


def test_every_default_that_was_assumed_is_listed_by_models_and_by_explain(said: Any, tmp_path: Path) -> None:
    file = written("DeepSeek-V2-Lite-noqlora-key", tmp_path)
    line = "assumed: q_lora_rank: absent, 1536 assumed (the family's own default)"
    assert line in said(f"models show {file}").splitlines()
    assert line in said(f"explain {file} h200 --phase decode").splitlines()
    asked = json.loads(said(f"explain {file} h200 --phase decode --json"))
    assert line.removeprefix("assumed: ") in asked["assumed"]


@pytest.mark.parametrize(
    "name", ["Gemma-4-E2B", "Nemotron-H-8B", "Whisper-large-v3", "gpt-oss-20b", "DeepSeek-V4-Flash"]
)
def test_what_yaml_writes_reads_back_as_the_same_model(said: Any, name: str, tmp_path: Path) -> None:
    file, copy = written(name, tmp_path), tmp_path / "copy.yaml"
    copy.write_text(said(f"models show {file} --yaml"), encoding="utf-8")
    assert catalog.model(copy) == rl.model(file)


def test_the_catalogue_lists_ninety_models_and_more(said: Any) -> None:
    listed = json.loads(said("models --json"))["models"]
    assert len(listed) >= 90
    mixtral = next(m for m in listed if m["id"] == "mixtral-8x7b")
    assert (mixtral["n_params"], mixtral["n_active_params"]) == (46_702_792_704, 12_879_925_248)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("models show", "expected a model to show"),
        ("models llama-2-7b llama-3-8b", "expected one name"),
        ("models show nonsense", 'no model named "nonsense"'),
        ("models show /no/such/config.json", "cannot be read"),
    ],
)
def test_models_says_what_it_wants(said: Any, words: str, told: str) -> None:
    assert told in said(words, code=2)


def test_validate_reads_a_config_and_says_what_it_leaves_open(said: Any, tmp_path: Path) -> None:
    good = written("GPT-2", tmp_path)
    assert f"{good}: valid" in said(f"validate {good}")
    bad = tmp_path / "config.json"
    bad.write_text('{"model_type": "lama"}', encoding="utf-8")
    assert run(["validate", str(bad)]) == 2


# predict, explain, kv, memory


def test_images_add_the_tower_and_their_tokens_to_ttft(said: Any) -> None:
    """1024 × 1024 is 73 × 73 patches of 14 pixels rounded to 74 × 74 = 5476, four of which make a token: 1369."""
    plain, seeing = (json.loads(said(f"predict qwen2.5-vl-7b h100 --json{more}")) for more in ("", " --images 1"))
    assert seeing["ttft_s"] > plain["ttft_s"]
    assert seeing["kv_bytes"] - plain["kv_bytes"] == 1369 * plain["kv_bytes_per_token"]
    assert "2,048 + 1 image of 1,024 × 1,024 (1,369 tokens) in" in said("predict qwen2.5-vl-7b h100 --images 1")
    rows = json.loads(said("explain qwen2.5-vl-7b h100 --images 1 --phase prefill --json"))["prefill"]
    assert any(row["name"].startswith("vision.") for row in rows)
    rows = json.loads(said("explain qwen2.5-vl-7b h100 --phase prefill --json"))["prefill"]
    assert not any(row["name"].startswith("vision.") for row in rows)


def test_an_encoder_encodes_and_is_asked_for_no_tokens(said: Any, tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    config = {"model_type": "bert", "architectures": ["BertModel"], "vocab_size": 30522, "hidden_size": 768,
              "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072,
              "max_position_embeddings": 512, "type_vocab_size": 2, "torch_dtype": "float32"}  # fmt: skip
    file.write_text(json.dumps(config), encoding="utf-8")
    out = said(f"predict {file} h100 --prompt 512 --batch 32 --weights fp16")
    assert "Encoding (all 32)" in out
    assert "no cache" in out
    assert "TPOT" not in out
    assert "is an encoder and generates none; use 0" in said(f"predict {file} h100 --output 5", code=2)


def test_an_encoder_decoder_is_asked_what_its_encoder_read(said: Any) -> None:
    assert "say how many tokens that were" in said("kv flan-t5-base", code=2)
    per_source = json.loads(said("kv flan-t5-base --context 4 --source 128 --kv bf16 --json"))["kv_bytes"]
    assert per_source == 4_866_048  # of 12 layers, 12 heads of 64: 2·12·768·(4 + 128)·2
    assert "Whole request" in said("predict flan-t5-base h100 --prompt 400 --output 40")


def test_a_hybrid_s_state_is_said_apart_from_its_cache(said: Any) -> None:
    out = said("kv qwen3-next-80b-a3b --context 131072")
    assert "state       73.688 MiB   (of recurrent layers, whatever the context)" in out
    assert "36 of 48 layers keep a state of fixed size." in out
    asked = json.loads(said("memory qwen3-next-80b-a3b h200 --weights fp8 --context 1024 --json"))
    assert asked["state_bytes"] == 36 * (32 * 128 * 128 * 4 + 8192 * 3 * 2)
    assert asked["used_bytes"] == asked["weight_bytes"] + asked["kv_bytes"] + asked["state_bytes"]


def test_experts_are_said_with_their_bounds(said: Any) -> None:
    eight = said("predict mixtral-8x7b h200 --batch 8")
    assert "reads 7.2 of 8 experts a layer, as uniform routing would (at least 2, at most 8)" in eight
    assert "reads 2 of 8 experts a layer\n" in said("predict mixtral-8x7b h200")


def test_a_form_of_latent_attention_and_a_routing_can_be_asked_for(said: Any) -> None:
    def flops(form: str) -> float:
        asked = json.loads(said(f"explain deepseek-v2-lite h100 --phase decode --latent {form} --json"))["decode"]
        return float(sum(row["executed_flops"] for row in asked))

    assert flops("auto") == flops("absorbed") < flops("expanded")
    weights = [
        sum(
            row["weight_bytes"]
            for row in json.loads(said(f"explain mixtral-8x7b h100 --batch 4 --phase decode --json{r}"))["decode"]
        )
        for r in ("", " --routing 0.5")
    ]
    assert weights[1] < weights[0]
    assert "latent: expected" in said("explain deepseek-v2-lite h100 --latent folded", code=2)
    assert "routing_exponent: expected" in said("explain mixtral-8x7b h100 --routing 2", code=2)
