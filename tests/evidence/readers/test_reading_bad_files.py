"""Benchmark files that are wrong: an error that names place and cure, or a warning that names the field; never a guess."""

from __future__ import annotations

import contextlib
import copy
import json
import math
import os
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.errors import SpecError
from roofline.evidence.readers import read, read_log, sniff
from roofline.evidence.runs import Run

FILES = Path(__file__).parent / "files"
ALL = sorted(path.name for path in FILES.iterdir())
JSON = [name for name in ALL if name.endswith((".json", ".jsonl"))]
MEASURED = ("ttft_s", "tpot_s", "e2e_s", "output_tokens_per_s", "total_tokens_per_s", "request_per_s")
COUNTED = ("prompt_tokens", "past_tokens", "output_tokens", "batch", "rate_per_s", "model_bytes", "model_params")
VLLM: dict[str, Any] = json.loads((FILES / "vllm-bench.json").read_text(encoding="utf-8"))


def put(tmp_path: Path, content: Any) -> Path:
    path = tmp_path / "bench.json"
    if not isinstance(content, (str, bytes)):
        content = json.dumps(content, indent=1)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def one_line(message: str) -> str:
    assert message.splitlines() == [message]
    assert 0 < len(message) <= 600
    return message


def refused(tmp_path: Path, content: Any, *needles: str) -> None:
    path = put(tmp_path, content)
    with pytest.raises(SpecError) as caught:
        read(path)
    message = one_line(str(caught.value))
    assert message.startswith(str(path))
    for needle in needles:
        assert needle in message


def warned(tmp_path: Path, content: Any, *needles: str) -> Run:
    """The run of the file; one of its warnings holds every needle."""
    path = put(tmp_path, content)
    (run,) = read(path)
    assert any(all(needle in warning for needle in needles) for warning in run.warnings), run.warnings
    assert all(warning.startswith(f"{path}:") for warning in run.warnings)
    return run


# Files that hold nothing, or not all


@pytest.mark.parametrize(
    ("content", "needle"),
    [
        (b"", "an empty file"),
        (b" \n\t\n", "an empty file"),
        (b"[]", "an empty array"),
        (b"{}", "an object with the keys none"),
        (b"[{}, 3]", "got 3"),
        (b"hello there", "hello there"),
        (b"\x00\xff\xfe\x80", "UTF-8"),
        (b"\x1f\x8b\x08\x00", "unpack it first"),
        (b"[" * 100_000, "nested too deep"),
        (b'{"avg_ns": 1, "avg_ns": 2}', "a second time"),
        (b'{"avg_ns": 1' + b"0" * 5000 + b"}", "4300"),
    ],
)
def test_what_is_no_result_is_refused(content: bytes, needle: str, tmp_path: Path) -> None:
    refused(tmp_path, content, needle)


@pytest.mark.parametrize("name", JSON)
@pytest.mark.parametrize("share", [0.1, 0.4, 0.9, 0.999])
def test_a_file_that_was_cut_short_is_refused_with_the_line(name: str, share: float, tmp_path: Path) -> None:
    text = (FILES / name).read_text(encoding="utf-8").rstrip()
    refused(tmp_path, text[: min(int(len(text) * share), len(text) - 1)], ":", "JSON")


def test_the_line_of_the_cut_is_named(tmp_path: Path) -> None:
    text = "\n".join(json.dumps(VLLM) for _ in range(3))
    refused(tmp_path, text[:-9], "bench.json:3:", "is the file cut short?")


def test_what_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.json", "a\0b", tmp_path / ("x" * 5000)):
        for call in (read, sniff, read_log):
            with pytest.raises(SpecError):
                call(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SpecError, match="expected a file"):
        read(tmp_path / "pipe")


def test_an_odd_object_among_others_is_named(tmp_path: Path) -> None:
    refused(
        tmp_path, json.dumps(VLLM) + '\n{"median_ttft": 1, "kind": "other"}', "bench.json:2:", "median_ttft", "expected"
    )


@pytest.mark.parametrize(
    ("content", "needles"),
    [
        (
            {"benchmarks": [{"metrics": {"time_per_output_token_ms": {"successful": {"mean": 8.0}}}}]},
            ("GuideLLM", "over N"),
        ),
        ({"avg_latency": 1.0, "latencies": [1.0], "percentiles": {}}, ("vllm bench latency", "CSV")),
        ({"elapsed_time": 9.0, "num_requests": 3, "total_num_tokens": 99}, ("vllm bench throughput", "CSV")),
        ({"metadata": {}, "metrics": {"time_to_first_token": {"value": 1, "unit": "ms"}}}, ("profile_export_aiperf",)),
        ("| model | test | t/s |\n| --- | --- | --- |\n| qwen3 8B | pp512 | 2811 ± 4 |\n", ("-o json",)),
        ("============ Serving Benchmark Result ============\nMean TTFT (ms): 26\n", ("--save-result",)),
        ("Metric, avg, min, max\nTime to First Token (ms),18.26,11.22\n", ("profile_export_aiperf.json",)),
    ],
)
def test_what_is_close_but_not_read_says_what_to_give_instead(
    content: Any, needles: tuple[str, ...], tmp_path: Path
) -> None:
    refused(tmp_path, content, *needles)


@pytest.mark.parametrize(
    ("name", "key", "spelled"),
    [
        ("vllm-bench.json", "completed", "complete"),
        ("vllm-bench.json", "total_input_tokens", "total_input_token"),
        ("agg_bmk.json", "isl", "islen"),
        ("agg_bmk.json", "conc", "concur"),
        ("agg_bmk.json", "tp", "tps"),
    ],
)
def test_a_required_field_is_named_with_the_closest_that_is_there(
    name: str, key: str, spelled: str, tmp_path: Path
) -> None:
    data = json.loads((FILES / name).read_text(encoding="utf-8"))
    data = data if isinstance(data, dict) else data[0]
    data[spelled] = data.pop(key)
    refused(tmp_path, data, key, "missing; it is required", f"did you mean {spelled}?")


# Values that are none


@pytest.mark.parametrize("value", [0, 0.0, math.nan, math.inf, -26.1, "fast", [26.1], True, 10**400])
def test_what_is_no_time_is_left_out_with_a_warning(value: Any, tmp_path: Path) -> None:
    data = VLLM | {"mean_ttft_ms": value, "median_ttft_ms": value}
    run = warned(tmp_path, data, "median_ttft_ms", "not used")
    assert (run.ttft_s, run.tpot_s) == (None, 0.0076)


def test_the_line_of_the_field_is_in_the_warning(tmp_path: Path) -> None:
    line = 1 + list(VLLM).index("median_ttft_ms") + 1
    warned(tmp_path, VLLM | {"median_ttft_ms": 0.0}, f"bench.json:{line}: median_ttft_ms: 0 reads as not measured")


def test_a_run_with_nothing_measured_is_refused(tmp_path: Path) -> None:
    data = {k: 0.0 if k.endswith(("_ms", "throughput")) else v for k, v in VLLM.items()}
    refused(tmp_path, data, "got none that can be used", "0 reads as not measured")


@pytest.mark.parametrize("key", ["completed", "total_input_tokens"])
@pytest.mark.parametrize("value", [0, -1, math.nan, "many", 10**400])
def test_counts_that_everything_hangs_on_are_required(key: str, value: Any, tmp_path: Path) -> None:
    refused(tmp_path, VLLM | {key: value}, key)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"median_ttft_ms": 0.0261, "mean_ttft_ms": 0.0264, "p99_ttft_ms": 0.0298}, "ttft_s"),
        ({"median_ttft_ms": 1e9, "mean_ttft_ms": 1e9, "p99_ttft_ms": 1e9}, "ttft_s"),
        ({"median_tpot_ms": 0.0076, "mean_tpot_ms": 0.00762, "p99_tpot_ms": 0.0077}, "tpot_s"),
    ],
)
def test_a_time_no_machine_takes_is_left_out(changes: dict[str, float], field: str, tmp_path: Path) -> None:
    key = next(iter(changes))
    assert getattr(warned(tmp_path, VLLM | changes, key, "is it in the wrong unit? not used"), field) is None


@pytest.mark.parametrize(
    ("changes", "needles", "doubtful"),
    [
        ({"median_tpot_ms": 7600.0}, ("median_tpot_ms", "291 times median_ttft_ms"), "tpot_s"),
        ({"median_e2el_ms": 9913.0}, ("median_tpot_ms", "TTFT + TPOT · (N − 1) is 0.9913 s", "9.913 s"), "e2e_s"),
        (
            {"output_throughput": 140.0},
            ("output_throughput", "140, but total_output_tokens / duration is 128.6"),
            "output_tokens",
        ),
        ({"total_token_throughput": 999.0}, ("total_token_throughput", "all tokens / duration"), "total_tokens_per_s"),
        ({"duration": 3184.0}, ("request_throughput", "completed / duration"), "request_per_s"),
        ({"p99_ttft_ms": 20.0}, ("median_ttft_ms: above p99_ttft_ms",), None),
        ({"max_concurrency": 500}, ("500 users, but only 32 requests",), None),
        ({"completed": 30, "failed": 2}, ("failed: 2 requests failed",), None),
        ({"completed": 30, "failed": None}, ("completed: 2 requests failed",), None),
        ({"request_rate": "soon"}, ("request_rate", "taken as no limit"), None),
        ({"ramp_up_strategy": "linear"}, ("ramp_up_strategy", "no steady state"), None),
        ({"dtype": "bf61"}, ("dtype", "no number format is called 'bf61'"), None),
    ],
    ids=lambda value: str(next(iter(value))) if isinstance(value, dict) else "",
)
def test_what_contradicts_itself_is_said(
    changes: dict[str, Any], needles: tuple[str, ...], doubtful: str | None, tmp_path: Path
) -> None:
    run = warned(tmp_path, VLLM | changes, *needles)
    assert doubtful is None or doubtful in run.doubtful


def test_times_in_seconds_where_ms_belong_contradict_the_duration(tmp_path: Path) -> None:
    """16 users, 12 requests a second of 1.3 ms each: 0.016 in flight."""
    data = json.loads((FILES / "vllm-bench-appended.json").read_text(encoding="utf-8").splitlines()[1])
    data |= {k: v / 1000 for k, v in data.items() if k.endswith("_ms") and "_tpot_" not in k and "_itl_" not in k}
    run = warned(tmp_path, data, "in flight, but concurrency was 16")
    assert {"e2e_s", "ttft_s"} <= set(run.doubtful)


def test_a_tpot_that_counts_the_first_token_in_is_recognised(tmp_path: Path) -> None:
    """A prompt that takes 4 s and 127 gaps of 7.6 ms: 4.9652 s, over 128 tokens 38.8 ms."""
    data = VLLM | {"median_ttft_ms": 4000.0, "median_tpot_ms": 38.79, "median_e2el_ms": 4965.2, "p99_ttft_ms": 4100.0}
    warned(tmp_path, data, "it looks like the whole latency over N")


@pytest.mark.parametrize(
    ("changes", "needles"),
    [
        ({"avg_ns": 182.1}, ("avg_ts", "tokens / avg_ns")),
        ({"avg_ns": 182_100_000_000}, ("avg_ns", "the mean of samples_ns")),
        ({"stddev_ns": 60_000_000}, ("stddev_ns", "repetitions differ by 33%")),
        ({"type_v": "q8_0"}, ("type_v", "keys are fp16, values q8_0")),
    ],
)
def test_a_row_of_llama_bench_is_held_against_itself(changes: Any, needles: tuple[str, ...], tmp_path: Path) -> None:
    row = json.loads((FILES / "llama-bench.json").read_text(encoding="utf-8"))[0]
    warned(tmp_path, [row | changes], *needles)


def test_a_row_of_llama_bench_without_tokens_or_time_is_refused(tmp_path: Path) -> None:
    row = json.loads((FILES / "llama-bench.json").read_text(encoding="utf-8"))[0]
    refused(tmp_path, [row | {"n_prompt": 0}], "n_prompt, n_gen: expected a number of tokens above 0")
    refused(tmp_path, [{k: v for k, v in row.items() if k not in ("avg_ns", "avg_ts")}], "avg_ns: missing")
    refused(tmp_path, [row | {"avg_ns": 0, "avg_ts": 0.0}], "got none that can be used")


def test_ms_in_an_inferencex_row_contradict_its_own_speeds(tmp_path: Path) -> None:
    row = json.loads((FILES / "agg_bmk.json").read_text(encoding="utf-8"))[0]
    run = warned(tmp_path, [row | {"median_tpot": 9.1}], "median_intvty: 109.89, but 1 / median_tpot is 0.10989")
    assert "tpot_s" in run.doubtful


def test_speculative_decoding_is_said(tmp_path: Path) -> None:
    row = json.loads((FILES / "agg_bmk.json").read_text(encoding="utf-8"))[0]
    warned(tmp_path, [row | {"spec_decoding": "mtp"}], "spec_decoding", "not the time of a pass")


def test_units_of_aiperf_are_checked(tmp_path: Path) -> None:
    data = json.loads((FILES / "profile_export_aiperf.json").read_text(encoding="utf-8"))
    ttft = data["time_to_first_token"]
    refused(
        tmp_path, data | {"time_to_first_token": ttft | {"unit": "minutes"}}, "time_to_first_token", "a unit of time"
    )
    refused(tmp_path, data | {"output_token_throughput": {"unit": "tokens/min", "avg": 7600}}, "a rate a second")
    warned(tmp_path, data | {"time_to_first_token": {"avg": 28.2, "p50": 27.9}}, "no unit; ms assumed")
    warned(tmp_path, data | {"error_request_count": {"unit": "requests", "avg": 3}}, "3 requests failed")
    run = warned(
        tmp_path, data | {"time_to_first_token": {"unit": "ms", "avg": 0.0}}, "time_to_first_token.avg", "not measured"
    )
    assert run.ttft_s is None


# Plain tables, which people write


@pytest.mark.parametrize(
    ("text", "needles"),
    [
        ("batch,prompt_tokens,ttft_mss\n1,8,3\n", (":2:", "got none that can be used")),
        ("batch,prompt_tokens\n1,8\n", (":2:", "got none that can be used")),
        ("model,ttft_ms\nx,3\n", (":2:", "prompt_tokens or context_tokens or batch: missing")),
        ("batch;prompt_tokens;ttft_ms\n1;8;26,1\n", (":2: ttft_ms: expected a number above 0, got '26,1'",)),
        ("batch,prompt_tokens,ttft_ms\n1,8,-3\n", (":2: ttft_ms: expected a number above 0",)),
        ("batch,prompt_tokens,ttft_ms\n1,8,26 ms\n", (":2: ttft_ms", "'26 ms'")),
        ("batch,prompt_tokens,ttft_ms\n1,8,3\n1,8\n", (":3: expected 3 cells, one a column, got 2",)),
        ("batch,prompt_tokens,ttft_ms\n1,8,3,4\n", (":2: expected 3 cells, one a column, got 4",)),
        ("batch,prompt_tokens,ttft_ms\n", ("expected rows below the header",)),
        ("batch,batch,ttft_ms\n1,2,3\n", (":1: expected every column once, got 'batch' twice",)),
        ('batch,prompt_tokens,ttft_ms\n1,8,"3\n', ("is the file cut short?",)),
        ("batch,prompt_tokens,ttft_ms,ttft_s\n1,8,3,0.003\n", ("ttft_s and ttft_ms: expected one of them",)),
        ("batch,concurrency,ttft_ms\n1,8,3\n", ("batch and concurrency: expected one of them",)),
        ("batch,prompt_tokens,tp,ttft_ms\n1,8,1.5,3\n", (":2: tp: expected a whole number",)),
        ("batch,prompt_tokens,weights,ttft_ms\n1,8,bf61,3\n", (":2: weights: no number format", "did you mean bf16")),
        (
            "batch,prompt_tokens,output_tokens,time_per_output_token_ms\n1,8,9,3\n",
            ("the whole latency over N", "give tpot_ms"),
        ),
        ("batch_sz,prompt_token,ttfts_ms\n1,8,3\n", ("did you mean batch?",)),
    ],
)
def test_a_table_that_is_wrong_says_where(text: str, needles: tuple[str, ...], tmp_path: Path) -> None:
    refused(tmp_path, text, *needles)


@pytest.mark.parametrize(
    ("text", "needles"),
    [
        ("prompt_tokens,ttft_ms\n8,30\n", ("batch 1 assumed",)),
        ("batch,prompt_tokens,ttft_ms,tpot_ms\n1,8,0,7\n", ("ttft_ms: 0 reads as not measured",)),
        ("batch,prompt_tokens,ttft_ms,tpot_ms\n1,8,nan,7\n", ("ttft_ms: NaN",)),
        ("batch,prompt_tokens,ttft_s,tpot_ms\n1,8,1000000,7\n", ("ttft_s: 1000000 is 1e+06 s", "wrong unit")),
        ("batch,prompt_tokens,tpot_ms,decode_tokens_per_s\n8,8,8,500\n", ("decode_tokens_per_s: 500", "tpot makes it")),
        ("batch,prompt_tokens,ttft_ms,engine\n8,8,8,vlm\n", ("engine: no engine is called 'vlm'",)),
        ("rate_per_s,prompt_tokens,ttft_ms,decode_tokens_per_s\n8,8,8,9\n", ("batch is not there",)),
        ("batch,context_tokens,output_tokens,tpot_ms\n1,10,101,9\n", ("context_tokens: below half",)),
        ("batch,prompt_tokens,output_tokens,context_tokens,tpot_ms\n1,100,11,50,9\n", ("past + prompt",)),
    ],
)
def test_a_table_that_is_odd_says_so(text: str, needles: tuple[str, ...], tmp_path: Path) -> None:
    warned(tmp_path, text, *needles)


# Whatever a file holds


def sound(run: Run) -> None:
    """Every number is one: finite, above zero; and no field holds what its name does not say."""
    for name in MEASURED:
        value = getattr(run, name)
        assert value is None or (isinstance(value, float) and 0 < value < math.inf), name
    for name in COUNTED:
        value = getattr(run, name)
        assert value is None or (isinstance(value, float) and 0 <= value < math.inf), name
    for name in ("n_chips", "tp", "pp", "ep"):
        value = getattr(run, name)
        assert value is None or (type(value) is int and value > 0), name
    for name in ("model", "hardware", "engine", "weights", "kv"):
        value = getattr(run, name)
        assert value is None or (isinstance(value, str) and value.isprintable() and 0 < len(value) <= 200), name
    assert all(0 < value < math.inf for value in run.percentiles.values())
    assert any(getattr(run, name) is not None for name in MEASURED)
    assert set(run.doubtful) <= {f.name for f in fields(run)}
    assert all(warning.splitlines() == [warning] for warning in run.warnings)
    assert run.context_tokens is None or run.context_tokens >= 0


def read_or_refused(path: Path) -> None:
    try:
        for run in read(path):
            sound(run)
    except SpecError as error:
        one_line(str(error))


JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([10**400, -(10**400), 2**63, 1e308, 1e-308, 5e-324]),
    st.floats(),
    st.text(max_size=12),
    st.sampled_from(["", "nan", "inf", "-1", "0", "1e400", "a" * 5000, "\ud800", "\u2028", "\x1b[0m", "Q4_K - Medium"]),
    st.lists(st.floats() | st.none() | st.text(max_size=3), max_size=4),
    st.dictionaries(st.sampled_from(["unit", "avg", "p50", "p99", "concurrency"]), st.floats() | st.text(max_size=3)),
)


@st.composite
def changed(draw: st.DrawFn) -> tuple[str, Any]:
    """A file of the examples with some values replaced, dropped or moved to other keys."""
    name = draw(st.sampled_from(JSON))
    text = (FILES / name).read_text(encoding="utf-8")
    objects = (
        [json.loads(line) for line in text.splitlines()] if "jsonl" in name or "appended" in name else json.loads(text)
    )
    data = copy.deepcopy(objects if isinstance(objects, list) else [objects])
    for _ in range(draw(st.integers(1, 4))):
        record = draw(st.sampled_from(data))
        key = draw(st.sampled_from(list(record))) if record else "x"
        if isinstance(record.get(key), dict) and draw(st.booleans()):
            record = record[key]
            key = draw(st.sampled_from(list(record) or ["x"]))
        match draw(st.sampled_from(["replace", "replace", "scale", "drop", "move"])):
            case "replace":
                record[key] = copy.deepcopy(draw(JUNK))
            case "scale" if isinstance(record.get(key), (int, float)) and abs(record[key]) < 1e300:
                record[key] = record[key] * draw(st.sampled_from([-1, 0, 1e-9, 1e-3, 0.5, 1e3, 1e9]))
            case "drop":
                record.pop(key, None)
            case "move":
                record[draw(st.sampled_from([*record, "z"]))] = record.get(key)
    return name, data


@settings(max_examples=8 * settings().max_examples)
@given(changed())
def test_whatever_values_a_file_holds_it_is_read_soundly_or_refused(
    tmp_path_factory: pytest.TempPathFactory, case: tuple[str, Any]
) -> None:
    path = tmp_path_factory.mktemp("changed") / "bench.json"
    path.write_text(json.dumps(case[1]), encoding="utf-8")
    read_or_refused(path)


@settings(max_examples=8 * settings().max_examples)
@given(st.data())
def test_a_garbled_file_is_read_soundly_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Bytes of an example cut out, doubled or overwritten."""
    content = bytearray((FILES / data.draw(st.sampled_from(ALL))).read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        i = data.draw(st.integers(0, len(content) - 1)) if content else 0
        j = min(len(content), i + data.draw(st.integers(0, 40)))
        content[i:j] = data.draw(
            st.binary(max_size=6)
            | st.sampled_from([b"", b"\n", b"{", b"]", b'"', b",", b"\t", b"0", b"-", b"e9", b"\x00"])
        )
    path = tmp_path_factory.mktemp("garbled") / "bench"
    path.write_bytes(content)
    read_or_refused(path)
    for call in (sniff, read_log):
        try:
            call(path)
        except SpecError as error:
            one_line(str(error))


@given(st.sampled_from(["vllm-bench.json", "sglang-bench.jsonl", "my-runs.csv", "llama-bench.csv"]), st.data())
def test_what_is_read_from_a_file_cut_short_is_what_it_held(
    tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject
) -> None:
    """A whole number of lines of a JSONL or a table is a shorter file; anything else is refused, or its last cell is."""
    content = (FILES / name).read_bytes().rstrip()
    whole = read(FILES / name)
    path = tmp_path_factory.mktemp("cut") / "bench"
    path.write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
    try:
        runs = read(path)
    except SpecError:
        return
    assert len(runs) <= len(whole)
    for got, had in zip(runs[:-1], whole, strict=False):
        assert (got.ttft_s, got.tpot_s, got.e2e_s) == (had.ttft_s, had.tpot_s, had.e2e_s)


@pytest.mark.parametrize(
    "content",
    [
        "=" * 300_000,
        "| t/s " * 60_000,
        "KV Cache is allocated. #tokens: 1 " * 20_000,
        "x" * 1_000_000 + " model buffer size",
        "model size" + " " * 1_000_000,
        " " * 3_000_000 + "{",
        "{" + ",".join(f'"k{i}": 0' for i in range(50_000)) + "}",
        ",".join(f"c{i}" for i in range(20_000)) + ",batch\n",
        "batch,prompt_tokens,ttft_ms,foo,bar\n" + "1,8,30,1,2\n" * 3_000,
    ],
    ids=lambda content: content[:12],
)
def test_the_time_to_read_a_file_grows_with_its_length_not_its_square(content: str, tmp_path: Path) -> None:
    path = put(tmp_path, content)
    start = time.perf_counter()
    for call in (read, sniff, read_log):
        with contextlib.suppress(SpecError):
            call(path)
    assert time.perf_counter() - start < 20
