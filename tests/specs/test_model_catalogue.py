"""The shipped models: what every file must be, the counts they must meet exactly, and a few facts checked by hand."""

from __future__ import annotations

import csv
import os
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from roofline.specs import catalog
from roofline.specs.model import Model

REPO = Path(__file__).resolve().parents[2]
DATA = REPO / "tests" / "data"
ORACLES = REPO.parent / "shared" / "oracles"
IDS = sorted(p.stem for p in catalog.shipped("models").glob("*.yaml"))
NOT_DENSE = ("num_experts", "cross_attn_params", "ssm_or_linear_attn_params", "vision_audio_params")

# Parameters their makers or the hub publish, for models that are not among the reference counts.
PUBLISHED = {
    "codellama-34b": 33_743_970_304,
    "falcon-180b": 179_522_565_120,
    "gemma-4-26b-a4b": 25_805_933_872,  # the index of its checkpoint less the tied embedding, which that counts twice
    "llama-3.1-405b": 405_853_388_800,
    "llama-33b": 32_528_943_616,
    "llama-4-maverick-17b-128e": 401_583_781_376,
    "mixtral-8x22b": 140_620_634_112,
    "openllama-3b": 3_426_473_600,
    "qwen3-4b": 4_022_468_096,
    "tinyllama-1.1b": 1_100_048_384,
}


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


EXPECTED = {row["id"]: int(row["expected_params"]) for row in rows(DATA / "params.csv")}
CACHES = [(row["id"], int(row["tokens"]), int(row["cache_bytes"])) for row in rows(DATA / "kv.csv")]


@pytest.fixture(autouse=True)
def _only_the_shipped_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROOFLINE_PATH", raising=False)


@cache
def model(name: str) -> Any:
    return catalog.model(name)


def in_order(m: Model) -> list[Any]:
    """Every layer from the first to the last, groups and repeats unrolled."""
    return [layer for group in m.layers for _ in range(group.repeat) for layer in group.layers]


def windows(name: str) -> list[int | None]:
    return [layer.mixer.window for layer in in_order(model(name))]


# Every file


def test_every_model_of_the_reference_counts_is_shipped() -> None:
    assert len(EXPECTED) >= 49
    assert set(EXPECTED) | set(PUBLISHED) <= set(IDS)


def test_the_catalogue_lists_the_files_of_the_folder() -> None:
    assert list(catalog.model_ids()) == IDS


@pytest.mark.parametrize("name", IDS)
def test_a_file_is_named_after_its_id(name: str) -> None:
    assert model(name).id == name


@pytest.mark.parametrize("name", IDS)
def test_a_file_says_where_its_numbers_come_from(name: str) -> None:
    assert "/" in model(name).source.split()[0]  # it opens with the repository that the config describes


@pytest.mark.parametrize("name", IDS)
def test_keys_stand_in_the_order_of_the_record(name: str) -> None:
    written = list(catalog.load_yaml(catalog.shipped("models") / f"{name}.yaml"))
    assert written == [key for key in Model.model_fields if key in written]


@pytest.mark.parametrize("name", IDS)
def test_what_shapes_a_model_is_written_out_even_where_it_is_the_default(name: str) -> None:
    data = catalog.load_yaml(catalog.shipped("models") / f"{name}.yaml")
    assert data.get("head", {}) is None or "tied" in data["head"]
    mixers = [layer["mixer"] for group in data["layers"] for layer in group["layers"] if "mixer" in layer]
    assert all("n_kv_heads" in mixer for mixer in mixers if mixer["kind"] == "attention")


# Aliases


def test_an_alias_names_one_model_and_is_no_id() -> None:
    named = Counter(alias for name in IDS for alias in model(name).aliases)
    assert [alias for alias, n in named.items() if n > 1] == []
    assert set(named) & set(IDS) == set()


@pytest.mark.parametrize("name", IDS)
def test_an_alias_finds_its_model(name: str) -> None:
    for alias in model(name).aliases:
        assert alias == alias.lower()
        assert os.sep not in alias  # or it would be taken for a path
        assert catalog.model(alias).id == name


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("llama3.1-8b", "llama-3.1-8b"),
        ("Llama3-8B", "llama-3-8b"),
        ("llama-3.3-70b", "llama-3.1-70b"),
        ("mistral-7b", "mistral-7b-v0.3"),
        ("qwen2.5-7b-instruct", "qwen2.5-7b"),
        ("gemma2-9b", "gemma-2-9b"),
        ("phi-4", "phi-4-14b"),
        ("gpt2", "gpt-2"),
    ],
)
def test_the_names_people_type_are_known(typed: str, name: str) -> None:
    assert catalog.model(typed).id == name


# Counts


@pytest.mark.parametrize(("name", "n_params"), [*EXPECTED.items(), *PUBLISHED.items()])
def test_parameters_agree_to_the_last_one(name: str, n_params: int) -> None:
    assert model(name).n_params == n_params


@pytest.mark.parametrize(("name", "tokens", "cache_bytes"), CACHES)
def test_heads_and_windows_give_the_cache_that_transformers_builds(name: str, tokens: int, cache_bytes: int) -> None:
    mixers = [layer.mixer for layer in in_order(model(name))]
    kept = [tokens if mixer.window is None else min(tokens, mixer.window - 1) for mixer in mixers]
    assert sum(2 * n * mixer.cache_elements_per_token for n, mixer in zip(kept, mixers, strict=True)) == cache_bytes


@pytest.mark.skipif(not ORACLES.is_dir(), reason="the reference counts lie beside the repository, not in it")
def test_no_dense_decoder_of_the_shared_reference_counts_is_missing_or_different() -> None:
    shared = {
        row["name"].lower(): int(row["expected_params"])
        for row in rows(ORACLES / "params.csv")
        if row["expected_params"] and not any(float(row[key] or 0) for key in NOT_DENSE)
    }
    assert {name: EXPECTED.get(name) for name in shared} == shared
    assert {name: model(name).n_params for name in shared} == shared


# Facts by hand


def test_gemma_3_1b_has_22_local_layers_and_a_global_one_after_every_five() -> None:
    assert Counter(windows("gemma-3-1b")) == {512: 22, None: 4}
    assert [i for i, window in enumerate(windows("gemma-3-1b")) if window is None] == [5, 11, 17, 23]


@pytest.mark.parametrize(("name", "n_layers"), [("gemma-2-2b", 26), ("gemma-2-9b", 42), ("gemma-2-27b", 46)])
def test_the_even_layers_of_gemma_2_are_local(name: str, n_layers: int) -> None:
    assert windows(name) == [4096 if i % 2 == 0 else None for i in range(n_layers)]


def test_every_fourth_layer_of_olmo_3_is_global() -> None:
    assert windows("olmo-3-7b") == [4096 if (i + 1) % 4 else None for i in range(32)]


@pytest.mark.parametrize(
    ("name", "window"),
    [
        ("mistral-7b-v0.1", 4096),
        ("mistral-7b-v0.1-swa", 4096),
        ("mistral-7b-v0.3", None),
        ("mistral-nemo-12b", None),
        ("phi-3-mini-4k", 2047),
        ("phi-4-14b", None),
        ("qwen2.5-7b", None),  # its config names one and switches it off
        ("starcoder2-7b", 4096),
    ],
)
def test_a_window_is_written_where_it_is_real_and_nowhere_else(name: str, window: int | None) -> None:
    assert set(windows(name)) == {window}


def test_falcon_7b_shares_one_kv_head_among_71() -> None:
    mixer = in_order(model("falcon-7b"))[0].mixer
    assert (mixer.n_heads, mixer.n_kv_heads, mixer.d_head) == (71, 1, 64)
    assert mixer.n_heads * mixer.d_head == model("falcon-7b").d_model  # 71 · 64 = 4544


@pytest.mark.parametrize(
    ("name", "n_norms"),
    [("aya-23-8b", 1), ("falcon-7b", 1), ("gpt-j-6b", 1), ("falcon-40b", 2), ("falcon-180b", 2), ("pythia-6.9b", 2)],
)
def test_parallel_layers_have_one_norm_or_one_for_each_branch(name: str, n_norms: int) -> None:
    assert {(layer.parallel, layer.n_norms) for layer in in_order(model(name))} == {(True, n_norms)}


def test_redpajama_has_the_shapes_of_gpt_neox_but_runs_its_blocks_in_turn() -> None:
    assert {layer.parallel for layer in in_order(model("redpajama-incite-3b-neox"))} == {False}


@pytest.mark.parametrize(
    ("name", "n_heads", "d_head", "d_model"),
    [("mistral-nemo-12b", 32, 128, 5120), ("qwen3-0.6b", 16, 128, 1024), ("gemma-3-1b", 4, 256, 1152)],
)
def test_heads_need_not_add_up_to_the_width(name: str, n_heads: int, d_head: int, d_model: int) -> None:
    mixer = in_order(model(name))[0].mixer
    assert (mixer.n_heads, mixer.d_head, model(name).d_model) == (n_heads, d_head, d_model)
    assert n_heads * d_head != d_model


def test_falcon_180b_keeps_a_head_of_its_own_and_40b_does_not() -> None:
    assert not model("falcon-180b").head.tied
    assert model("falcon-40b").head.tied


def test_opt_350m_is_embedded_narrower_than_it_thinks() -> None:
    m = model("opt-350m")
    assert (m.d_embedding, m.d_model, m.final_norm, m.positions.rows) == (512, 1024, False, 2048 + 2)
    assert [(w.d_in, w.d_out) for w in m.outer_matrices()] == [(512, 1024), (1024, 512)]


def test_the_head_of_gpt_j_has_a_bias() -> None:
    assert [name for name in EXPECTED if model(name).head.bias] == ["gpt-j-6b"]


def test_order_enters_by_a_table_by_a_slope_or_by_rotation() -> None:
    kinds = {name: model(name).positions.kind for name in EXPECTED}
    assert sorted(name for name, kind in kinds.items() if kind == "alibi") == ["bloom-176b", "bloom-7b1", "mpt-7b"]
    assert sorted(name for name, kind in kinds.items() if kind == "learned") == [
        "gpt-2",
        "gpt-2-medium",
        "gptbigcode-santacoder",
        "opt-350m",
        "opt-6.7b",
    ]


def test_llama_2_reads_4096_tokens_although_its_first_config_said_2048() -> None:
    assert {model(f"llama-2-{size}").max_context_tokens for size in ("7b", "13b", "70b")} == {4096}


@pytest.mark.parametrize(
    ("name", "kv_bytes_per_token"),
    [
        ("llama-2-7b", 524_288),  # 2 · 32 layers · 32 heads · 128 · 2 bytes
        ("llama-3.1-8b", 131_072),  # 2 · 32 · 8 · 128 · 2: a quarter
        ("llama-3.1-70b", 327_680),  # 2 · 80 · 8 · 128 · 2
        ("falcon-7b", 8_192),  # 2 · 32 · 1 · 64 · 2
    ],
)
def test_a_token_costs_two_vectors_a_kv_head_in_every_layer(name: str, kv_bytes_per_token: int) -> None:
    assert sum(2 * layer.mixer.cache_elements_per_token for layer in in_order(model(name))) == kv_bytes_per_token
