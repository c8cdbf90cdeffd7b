"""What a sweep refuses, before any work: axes and values, columns, places to write, more rows than there is memory for."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import roofline as rl
from roofline.errors import SpecError, UnknownName
from roofline.views.sweep import axes, room, writing
from roofline.views.sweep.columns import Column

WHAT: dict[str, Any] = {"models": "llama-3.1-8b", "hardware": "h100"}
sweep = partial(rl.sweep, **WHAT, context_tokens=4096)


def refused(call: Callable[[], object], kind: type[Exception], *needles: str) -> None:
    with pytest.raises(kind) as caught:
        call()
    message = str(caught.value)
    assert message.splitlines() == [message]
    for needle in needles:
        assert needle in message


@pytest.fixture(autouse=True)
def _before_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def works(*given: Any) -> None:
        raise AssertionError("work began")

    monkeypatch.setattr(writing, "evaluate", works)


@pytest.mark.parametrize(
    ("given", "needles"),
    [
        ({"contexts": 5}, ("no axis 'contexts'", "did you mean context_tokens")),
        ({"batches": 5}, ("no axis 'batches'", "did you mean batch")),
        ({"weight": "fp8"}, ("no axis 'weight'", "did you mean weights")),
        ({"xyzzy": 5}, ("no axis 'xyzzy'", "the axes are models, hardware, plan")),
        ({"hardware": None}, ("expected hardware=…",)),
    ],
)
def test_a_misspelt_axis_is_told_its_name(given: dict[str, Any], needles: tuple[str, ...]) -> None:
    refused(lambda: rl.sweep(**(WHAT | {"context_tokens": 5} | given)), SpecError, "sweep: ", *needles)


def test_a_model_in_the_singular_is_told_so() -> None:
    refused(lambda: rl.sweep(model="llama-3.1-8b", hardware="h100", batch=1), SpecError, "did you mean models")


@pytest.mark.parametrize(
    ("asked", "needles"),
    [
        ({}, ("expected prompt_tokens (TTFT), context_tokens (TPOT)",)),
        ({"output_tokens": 5}, ("expected prompt_tokens (TTFT)",)),
        ({"output_tokens": 5, "context_tokens": 5}, ("sweep(output_tokens)", "say prompt_tokens")),
        ({"output_tokens": 5, "prompt_tokens": 5, "context_tokens": 5}, ("sweep(context_tokens)", "leave one of the two")),
    ],
)  # fmt: skip
def test_what_asks_nothing_or_two_things_at_once_is_refused(asked: dict[str, Any], needles: tuple[str, ...]) -> None:
    refused(lambda: rl.sweep(**WHAT, **asked), SpecError, *needles)


NO_NUMBERS: dict[str, Any] = {
    "text": "8", "texts": ["1", "8"], "bool": True, "none in a list": [1, None], "empty": [], "empty array": np.array([]),
    "zero": [4, 0], "negative": -1, "nan": [1, math.nan], "infinite": math.inf, "enormous": 1e13, "twice": [8, 1, 8.0],
    "a grid": np.ones((2, 2)), "mapping": {1: 2}, "a generator": (n for n in (1, 2)),
}  # fmt: skip


@pytest.mark.parametrize("axis", ["batch", "prompt_tokens", "output_tokens"])
@pytest.mark.parametrize("value", NO_NUMBERS.values(), ids=NO_NUMBERS)
def test_what_is_no_list_of_numbers_in_range_is_refused_by_its_axis(axis: str, value: Any) -> None:
    asked: dict[str, Any] = {"prompt_tokens": 5, "output_tokens": 5} | {axis: value}
    refused(lambda: rl.sweep(**WHAT, **asked), SpecError, f"sweep({axis})")


def test_values_that_are_there_twice_and_tokens_that_are_no_whole_number_are_named() -> None:
    refused(lambda: sweep(batch=[1, 8, 8]), SpecError, "sweep(batch): 8 is there 2 times", "give it once")
    asked: dict[str, Any] = {"prompt_tokens": 5, "output_tokens": [4, 1.5]}
    refused(lambda: rl.sweep(**WHAT, **asked), SpecError, "sweep(output_tokens): expected whole numbers, got 1.5")


NO_RECORDS: dict[str, Any] = {
    "empty list": [], "empty tuple": (), "empty mapping": {}, "number": 5, "bytes": b"h100", "set": {"h100", "l4"},
    "numbers": [5], "a list in a list": [["h100"]],
}  # fmt: skip


@pytest.mark.parametrize("axis", ["models", "hardware", "plan", "engine", "weights", "kv"])
@pytest.mark.parametrize("value", NO_RECORDS.values(), ids=NO_RECORDS)
def test_what_is_no_record_is_refused_by_its_axis(axis: str, value: Any) -> None:
    given = WHAT | {"context_tokens": 5, axis: value}
    refused(lambda: rl.sweep(**given), rl.RooflineError, "sweep" if axis in ("weights", "kv") else f"sweep({axis})")


@pytest.mark.parametrize(
    ("given", "needles"),
    [
        ({"models": "lama-3.1-8b"}, ("no model named", "llama-3.1-8b")),
        ({"hardware": ["h100", "h10"]}, ("no hardware named", "h100")),
        ({"engine": "vlm"}, ("no engine named", "vllm")),
        ({"weights": ["bf16", "fp9"]}, ("no number format", "fp8")),
        ({"kv": "fp9"}, ("no number format", "fp8")),
    ],
)
def test_a_name_nobody_knows_is_an_error_also_where_the_impossible_is_skipped(
    given: dict[str, Any], needles: tuple[str, ...]
) -> None:
    refused(lambda: rl.sweep(**(WHAT | {"context_tokens": 5, "impossible": "skip"} | given)), UnknownName, *needles)


def test_records_of_one_name_are_told_apart_by_the_caller() -> None:
    vllm = rl.engine("vllm")
    refused(lambda: sweep(engine=[vllm, vllm.varied(batch_tokens=512)]), SpecError, "both called llama-3.1-8b on h100",
            'engine={"small pages": engine_a')  # fmt: skip
    refused(lambda: sweep(weights=[None, "bf16"]), SpecError, "both called", "bf16/bf16")
    twice = WHAT | {"hardware": ["h100", "h100-sxm-80gb"]}
    refused(lambda: rl.sweep(**twice, context_tokens=5), SpecError, "both called llama-3.1-8b on h100-sxm-80gb")


@pytest.mark.parametrize(
    ("given", "kind", "needles"),
    [
        (["tpot"], UnknownName, ("no column named 'tpot'", "did you mean tpot_s")),
        (["ttft_s"], SpecError, ("ttft_s needs prompt_tokens",)),
        (["e2e_s"], SpecError, ("e2e_s needs prompt_tokens and output_tokens",)),
        (["prompt_tokens"], SpecError, ("prompt_tokens needs prompt_tokens",)),
        (["tpot_s", "tpot_s"], SpecError, ("tpot_s is there twice",)),
        ([], SpecError, ("expected names such as",)),
        ("tpot_s", SpecError, ("expected names such as", "'tpot_s'")),
        ([1], SpecError, ("expected names such as",)),
    ],
)
def test_columns_that_are_not_there_are_refused(given: Any, kind: type[Exception], needles: tuple[str, ...]) -> None:
    refused(lambda: sweep(columns=given), kind, "sweep(columns): ", *needles)


@pytest.mark.parametrize(
    ("given", "needles"),
    [
        ("rows.parqet", ("expected a file ending in .parquet, .csv", "did you mean .parquet")),
        ("rows.json", ("expected a file ending in .parquet, .csv",)),
        ("there/is/none.parquet", ("there is no folder",)),
        ("there/is/none/", ("there is no folder",)),
        ("full", ("the folder holds other things (mine.txt), which would go; name a new one",)),
        ("full/mine.txt/", ("expected a folder for part files, found a file",)),
        ("", ("expected a path such as",)),
        (5, ("expected a path such as", "got 5")),
    ],
)
def test_a_place_nothing_can_be_written_to_is_refused(
    given: Any, needles: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine", encoding="utf-8")
    refused(lambda: sweep(out=given), SpecError, *needles)
    assert [str(p.relative_to(tmp_path)) for p in sorted(tmp_path.rglob("*"))] == ["full", "full/mine.txt"]


def test_without_pyarrow_it_is_said_what_brings_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "find_spec", lambda name: None)
    refused(
        lambda: sweep(out=tmp_path / "rows.parquet"), SpecError, "pip install 'llm-roofline[parquet]'", "write a .csv"
    )


# What is too large


def test_more_rows_than_there_is_memory_for_are_refused_with_the_size_and_the_remedy() -> None:
    """5 · 10^9 points: 10^4 batches and 5 · 10^5 contexts; 9 words and flags of a byte and 9 numbers of 8 a row."""
    refused(
        lambda: rl.sweep(**WHAT, batch=np.arange(1, 10_001), context_tokens=np.arange(500_000)), SpecError,
        "5,000,000,000 rows × 18 columns are 377.2 GiB", "more than half of the", 'out="sweep.parquet/"',
    )  # fmt: skip


@pytest.mark.parametrize(("n_rows", "refuses"), [(100, False), (101, True)])
def test_half_of_the_memory_that_is_available_is_the_limit(n_rows: int, refuses: bool) -> None:
    columns = (Column("a", "number", "a"), Column("b", "flag", "b"), Column("c", "word", "c", ("x",)))
    asked = partial(room.require_room, columns, n_rows, available_bytes=2.0 * 100 * (8 + 1 + 1))
    if refuses:
        refused(asked, SpecError, "101 rows × 3 columns")
    else:
        asked()


def test_the_memory_there_is_is_found_here_and_a_container_s_limit_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = room._available_bytes()
    assert here is None or here > 2**20
    monkeypatch.setattr(room, "CGROUP", tmp_path)
    (tmp_path / "memory.max").write_text("1048576\n", encoding="ascii")
    (tmp_path / "memory.current").write_text("1000000\n", encoding="ascii")
    assert room._available_bytes() == 48576.0
    (tmp_path / "memory.max").write_text("max\n", encoding="ascii")
    assert room._available_bytes() != 48576.0


def test_more_combinations_than_anyone_can_ask_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(axes, "MOST_COMBINATIONS", 3)
    refused(lambda: sweep(weights=["bf16", "fp8"], kv=["bf16", "fp8"]), SpecError, "4 combinations", "more than 3")


# What cannot be run


def test_a_combination_that_cannot_be_run_is_an_error_that_names_it() -> None:
    plans = [rl.Plan(), rl.Plan(tp=3)]
    refused(lambda: sweep(plan=plans), rl.PlanError, "sweep: llama-3.1-8b on h100-sxm-80gb, tp3, ideal, own/own: ",
            "32 query heads, which 3 does not divide", 'impossible="skip"')  # fmt: skip


def test_a_request_too_long_for_any_pass_is_found_at_its_largest_point() -> None:
    """1,000 prompts of 10^6 tokens are 488,282 passes of 2,048."""
    chunky = rl.engine("ideal").varied(batch_tokens=2048)
    asked: dict[str, Any] = {"engine": chunky, "batch": [1, 1000], "prompt_tokens": [5, 10**6]}
    refused(lambda: rl.sweep(**WHAT, **asked), SpecError, "llama-3.1-8b on h100-sxm-80gb", "488,282 passes", "--chunk")


def test_the_impossible_is_skipped_where_asked_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    plans = [rl.Plan(), rl.Plan(tp=3), rl.Plan(tp=5)]
    with pytest.warns(
        UserWarning, match=r"2 of 3 combinations left out; the first: llama-3.1-8b on h100.*tp3.*32 query"
    ):
        frame = sweep(plan=plans, impossible="skip")
    assert frame.plan.tolist() == ["tp1"]
    assert [why.split(", ")[1] for why in frame.attrs["left_out"]] == ["tp3", "tp5"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert sweep(plan=plans[0], impossible="skip").attrs["left_out"] == ()


def test_where_nothing_can_be_run_there_is_no_empty_table() -> None:
    plans = [rl.Plan(tp=3), rl.Plan(tp=5)]
    why = ("nothing of this can be asked; the first of 2 combinations", "32 query heads, which 3 does not divide")
    refused(lambda: sweep(plan=plans, impossible="skip"), SpecError, *why)
    wrong: Any = "ignore"
    refused(lambda: sweep(impossible=wrong), SpecError, 'expected "raise" or "skip", got \'ignore\'')
