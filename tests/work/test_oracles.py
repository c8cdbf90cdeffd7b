"""Counts of torch and transformers, met to the last FLOP and the last byte.

tests/data holds the rows of the dense decoders (its README says what is counted). Where the collection they were taken
from lies beside the checkout (../shared/oracles), all its rows for our models are swept too.
"""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import roofline as rl
from roofline.specs.catalog import shipped
from roofline.specs.mixers import Attention

REPO = Path(__file__).resolve().parents[2]
DATA = REPO / "tests" / "data"
SHARED = REPO.parent / "shared" / "oracles"
MODELS = {path.stem for path in shipped("models").glob("*.yaml")}

Row = dict[str, str]


def rows(path: Path) -> list[Row]:
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@cache
def model(name: str) -> Any:
    return rl.model(name)


def n_logits(row: Row) -> int:
    return int(row["new_tokens"]) if row["logits_to_keep"] == "all" else int(row["logits_to_keep"])


def executed_flops(name: str, row: Row) -> Any:
    """What eager attention executes: the whole rectangle, masked or not."""
    seqs = rl.Seqs(
        n_seq=int(row["batch"]),
        n_new=int(row["new_tokens"]),
        n_past=int(row["past_tokens"]),
        n_logits=n_logits(row),
    )
    return rl.count(model(name), seqs, attention="eager").executed_flops


def cache_at_rest(m: rl.Model, tokens: int) -> float:
    """Bytes of the cache transformers keeps after `tokens` tokens, in bf16.

    A window layer keeps its last W − 1 tokens there, since the next token makes W; `kv_bytes` holds min(context, W). So
    the two agree on models without windows, and differ by one token of each full window on the others.
    """
    windows = [(n, x) for n, layer in m.layer_kinds() for x in layer.mixers if isinstance(x, Attention) and x.caches]
    full = sum(n * x.cache_elements_per_token for n, x in windows if x.window is not None and tokens >= x.window)
    return float(rl.kv_bytes(m, context_tokens=tokens, kv="bf16") + rl.state_bytes(m, policy="allocated")) - 2 * full


def label(row: Row) -> str:
    return "-".join(v for k, v in row.items() if k in ("id", "phase", "batch", "new_tokens", "past_tokens", "tokens"))


@pytest.mark.parametrize("row", rows(DATA / "flops.csv"), ids=label)
def test_executed_flops_agree_to_the_last_one(row: Row) -> None:
    assert executed_flops(row["id"], row) == int(row["flops"])


@pytest.mark.parametrize("row", rows(DATA / "kv.csv"), ids=label)
def test_cache_bytes_agree_to_the_last_one(row: Row) -> None:
    assert cache_at_rest(model(row["id"]), int(row["tokens"])) == int(row["cache_bytes"])


@pytest.mark.parametrize("row", rows(DATA / "params.csv"), ids=lambda row: row["id"])
def test_two_bytes_for_every_parameter_is_what_a_chip_holds(row: Row) -> None:
    """In 16 bit, resident bytes are twice the published count, whatever the dtype of the checkpoint."""
    for weights in ("bf16", "fp16"):
        ledger = rl.count(model(row["id"]), rl.Seqs(n_seq=1, n_new=1), precision=rl.Precision(weights=weights))
        assert ledger.resident_bytes == 2 * int(row["expected_params"])


def test_the_files_hold_every_kind_of_row_that_they_are_here_for() -> None:
    """A silent loss of rows would leave the tests above green."""
    flops, kv, params = (rows(DATA / f"{name}.csv") for name in ("flops", "kv", "params"))
    assert len(flops) >= 237
    assert len(kv) >= 111
    assert len(params) >= 49
    assert {n_logits(row) > 1 for row in flops if row["phase"].startswith("prefill")} == {True, False}
    assert {row["batch"] for row in flops} == {"1", "2"}
    assert any(int(row["past_tokens"]) and int(row["new_tokens"]) == 1 for row in flops)
    assert any(int(row["tokens"]) > 4096 for row in kv if model(row["id"]).layers[0].layers[0].mixer.window)


# The collection beside the checkout. Its names are ours in lower case; rows of models we do not ship are others' business.

beside = pytest.mark.skipif(not SHARED.is_dir(), reason="the reference counts lie beside the repository, not in it")


def swept(name: str, **keep: Any) -> list[Row]:
    found = (row | {"id": row["name"].lower()} for row in rows(SHARED / name))
    return [row for row in found if row["id"] in MODELS and all(keep[k](row) for k in keep)]


@beside
def test_every_flop_count_of_our_models_in_the_collection_agrees() -> None:
    """Rows where counter and closed form differ are no oracle (../shared/oracles/README.md)."""
    full = swept(
        "flops.csv",
        eager=lambda row: row["attn_impl"] == "eager",
        sure=lambda row: row["flopcounter_minus_closed_form"] == "0",
        whole=lambda row: row["num_layers_used"] == str(model(row["id"]).n_layers),
    )
    wrong = [
        (label(row), executed_flops(row["id"], row), int(row["flops_total"]))
        for row in full
        if executed_flops(row["id"], row) != int(row["flops_total"])
    ]
    assert len(full) >= 200
    assert wrong == []


def is_whole(row: Row) -> bool:
    """Falcon-40B's cache there holds its 8 KV heads repeated to 128 (README.md), DeepSeek-V4's buffers besides."""
    return (
        row["mode"] == "meta_full" and row["id"] not in ("falcon-40b", "deepseek-v4-flash") and row["tokens"].isdigit()
    )


@beside
def test_every_cache_of_our_models_in_the_collection_agrees() -> None:
    def is_oracle(row: Row) -> bool:
        """Full-size caches of a text."""
        return is_whole(row) and bool(after(row))

    def after(row: Row) -> str:
        return row["cache_bytes_after_prefill_bf16"]

    full = swept("kv.csv", oracle=is_oracle)
    wrong = [
        (label(row), cache_at_rest(model(row["id"]), int(row["tokens"])), int(float(after(row))))
        for row in full
        if cache_at_rest(model(row["id"]), int(row["tokens"])) != float(after(row))
    ]
    assert len(full) >= 90
    assert wrong == []


@beside
def test_one_more_token_grows_the_cache_as_the_collection_says() -> None:
    full = swept(
        "kv.csv",
        oracle=is_whole,
        grown=lambda row: bool(row["cache_bytes_after_1_more_decode"]),
    )
    wrong = [
        label(row)
        for row in full
        if cache_at_rest(model(row["id"]), int(row["tokens"]) + 1) != float(row["cache_bytes_after_1_more_decode"])
    ]
    assert len(full) >= 90
    assert wrong == []


@beside
def test_every_layer_of_the_collection_has_the_parameters_of_ours() -> None:
    """params_per_layer.csv lists, for each kind of layer, its parameters without tables and head."""
    published: dict[str, int] = {}
    for row in rows(SHARED / "params_per_layer.csv"):
        name = row["name"].lower()
        published[name] = published.get(name, 0) + int(row["num_layers_with_this_pattern"]) * int(
            row["params_per_layer"]
        )
    towers = {"llama-4-scout-17b-16e"}  # counted there with the tower of the class, which its file leaves out
    for name in sorted((set(published) & MODELS) - towers):
        m = model(name)
        s = m.residual_streams
        streams = 2 * m.n_layers * (m.stream_matrices[0].n_weights + s * (2 + s) + 3) if s > 1 else 0
        stacks = [(m.layer_kinds(), m.d_model, m.norm), *((t.layer_kinds(), t.d_model, t.norm) for t in m.towers)]
        inside = sum(
            n * (sum(x.n_params for x in layer.matrices(width)) + layer.n_vector_params(width, norm))
            for kinds, width, norm in stacks
            for n, layer in kinds
        )
        assert (name, inside + streams) == (name, published[name])


@beside
def test_falcon_40b_in_the_collection_is_sixteen_times_what_its_kv_heads_need() -> None:
    found = swept("kv.csv", it=lambda row: row["id"] == "falcon-40b" and row["mode"] == "meta_full")
    assert found
    for row in found:
        assert float(row["cache_bytes_after_prefill_bf16"]) == 16 * cache_at_rest(
            model("falcon-40b"), int(row["tokens"])
        )
