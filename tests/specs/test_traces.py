"""Traces from files, in the forms they are published in."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from roofline.errors import SpecError, UnknownName
from roofline.specs.traces import _LINES, _ROWS, DATA, SHIPPED, trace, workload
from roofline.specs.workload import Poisson, Recorded

SHARED = Path(__file__).parents[3] / "shared" / "serving" / "traces"

AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:50.9951690,396,109
2023-11-16 18:15:51.2224670,879,55
"""
BURSTGPT = """Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
5,ChatGPT,472,18,490,Conversation log
45,ChatGPT,1087,0,1087,Conversation log
118,GPT-4,417,276,693,Conversation log
"""
MOONCAKE = """{"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [BEGINNING, 2353, 2354]}
{"timestamp": 30535, "input_length": 6472, "output_length": 26, "hash_ids": [BEGINNING, 2366]}
""".replace("BEGINNING", "46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57")


def hashed(ids: str, *, tokens: int) -> str:
    """A good request without a block, and one whose ids are as given."""
    return (
        '{"timestamp": 0, "input_length": 3, "output_length": 1, "hash_ids": []}\n'
        f'{{"timestamp": 1, "input_length": {tokens}, "output_length": 1, "hash_ids": {ids}}}'
    )


def _file(folder: Path, text: str, name: str = "trace.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "prompts", "outputs", "since"),
    [
        (AZURE, [374, 396, 879], [44, 109, 55], [0.0, 4.314579, 4.541877]),
        (BURSTGPT, [472, 417], [18, 276], [0.0, 113.0]),  # an answer of no tokens is a failure
        (MOONCAKE, [6955, 6472], [52, 26], [0.0, 3.053]),
        (
            "arrival_s,prompt_tokens,output_tokens\n0.5,10,2\n0.5,11,3\n2.5,12,4\n",
            [10, 11, 12],
            [2, 3, 4],
            [0.0, 0.0, 2.0],
        ),
        ("\ufeffArrival_s, Prompt_Tokens ,output_tokens\n1,10,2\n2,11,3\n", [10, 11], [2, 3], [0.0, 1.0]),
    ],
    ids=["azure", "burstgpt", "mooncake", "plain", "spelt otherwise"],
)
def test_traces_as_they_are_published(
    tmp_path: Path, text: str, prompts: list[int], outputs: list[int], since: list[float]
) -> None:
    found = trace(_file(tmp_path, text))
    assert found.prompt_tokens.tolist() == prompts
    assert found.output_tokens.tolist() == outputs
    assert isinstance(found.arrivals, Recorded)
    assert found.arrivals.arrival_s == pytest.approx(np.array(since), abs=1e-6)
    assert found.name == "trace"


def test_the_blocks_of_a_trace_are_kept_and_the_second_prompt_begins_as_the_first(tmp_path: Path) -> None:
    """6955 tokens are 13 whole blocks of 512 and a part, 6472 are 12 and a part: of 27 ids the second has 12 again."""
    found = trace(_file(tmp_path, MOONCAKE))
    assert found.block_tokens == 512
    assert found.block_ids == ((*range(46, 58), 2353, 2354), (*range(46, 58), 2366))
    assert found.summary().reuse == pytest.approx(12.0 / 27.0)
    assert found.draw(2, rate_per_s=1.0).block_ids == found.block_ids
    assert trace(_file(tmp_path, AZURE)).block_ids is None
    assert trace(_file(tmp_path, AZURE)).summary().reuse is None


def test_ids_may_leave_out_the_part_of_a_block_and_blocks_have_another_size(tmp_path: Path) -> None:
    """40 tokens in blocks of 16: two are whole, the third is half full. What was not answered takes its ids with it."""
    lines = [(40, 1, [1, 2]), (40, 0, [1, 9]), (40, 1, [1, 2, 3]), (15, 1, [])]
    text = "".join(
        f'{{"timestamp": {i}, "input_length": {p}, "output_length": {o}, "hash_ids": {ids}}}\n'
        for i, (p, o, ids) in enumerate(lines)
    )
    found = trace(_file(tmp_path, text), block_tokens=16)
    assert (found.block_ids, found.block_tokens) == (((1, 2), (1, 2, 3), ()), 16)
    with pytest.raises(SpecError, match=r"block_tokens\): expected a whole number of at least 1, got 0"):
        trace(_file(tmp_path, text), block_tokens=0)


def test_a_long_trace_is_read_in_parts_that_join(tmp_path: Path) -> None:
    """Every third request failed; blank lines, rows with more columns and dates with a zone are read as they always were."""
    n = 3 * _ROWS // 2
    rows = [f"{i}.5,{i % 90 + 1},{i % 3},more" for i in range(n)]
    found = trace(_file(tmp_path, "arrival_s,prompt_tokens,output_tokens\n" + "\n\n".join(rows)))
    kept = [i for i in range(n) if i % 3]
    assert found.prompt_tokens.tolist() == [i % 90 + 1 for i in kept]
    assert found.output_tokens.tolist() == [i % 3 for i in kept]
    assert isinstance(found.arrivals, Recorded)
    assert found.arrivals.arrival_s.tolist() == [i - 1.0 for i in kept]
    with pytest.raises(
        SpecError, match=rf"line {2 * n}: output_tokens: .* got 'x'"
    ):  # a header, then every second line
        trace(_file(tmp_path, "arrival_s,prompt_tokens,output_tokens\n" + "\n\n".join([*rows[:-1], "0,1,x"])))
    zoned = trace(_file(tmp_path, "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:00.5+00:00,1,1\n"
                                  "2024-05-10 02:00:01+02:00,1,1\n2024-05-10T00:00:03.25Z,1,1\n"))  # fmt: skip
    assert isinstance(zoned.arrivals, Recorded)
    assert zoned.arrivals.arrival_s.tolist() == [0.0, 0.5, 2.75]


def test_good_lines_are_read_at_once_and_one_that_is_not_says_where(tmp_path: Path) -> None:
    """Every fourth request failed. The last line of the second part is the one that is wrong, after a header."""
    n = 2 * _LINES
    rows = [f'{i},"{i % 50 + 1}",{i % 4},chat, of a kind' for i in range(n)]
    kept = [i for i in range(n) if i % 4]
    head = "arrival_s,prompt_tokens,output_tokens,kind\n"
    found = trace(_file(tmp_path, head + "\n".join(rows)))
    assert found.prompt_tokens.tolist() == [i % 50 + 1 for i in kept]
    assert found.output_tokens.tolist() == [i % 4 for i in kept]
    assert isinstance(found.arrivals, Recorded)
    assert found.arrivals.arrival_s.tolist() == [i - 1.0 for i in kept]
    for last, said in (("9,1,0.5", "output_tokens: .* got '0.5'"), (f"{n},0,1", "prompt_tokens: .* from 1 .* got '0'"),
                       ("0,1,1", "arrival_s: earlier"), ("inf,1,1", "expected seconds, got 'inf'")):  # fmt: skip
        with pytest.raises(SpecError, match=rf"line {n + 1}: .*{said}"):
            trace(_file(tmp_path, head + "\n".join([*rows[:-1], last])))
    text = [*rows[: _LINES + 9], f'{n},7,8,"a text\n\nof many lines"', f"{n},9,1,x"]  # quoted, in the second part
    assert trace(_file(tmp_path, head + "\n".join(text))).prompt_tokens[-2:].tolist() == [7, 9]


def test_a_compressed_trace_is_read_as_it_is_and_a_broken_one_refused(tmp_path: Path) -> None:
    path = tmp_path / "small.csv.gz"
    path.write_bytes(gzip.compress(BURSTGPT.encode()))
    assert (trace(path).name, trace(path).prompt_tokens.tolist()) == ("small", [472, 417])
    whole = path.read_bytes()
    for broken in (whole[:-12], BURSTGPT.encode(), whole[:15] + b"\xff\xff" + whole[17:]):
        path.write_bytes(broken)
        with pytest.raises(SpecError, match=r"small\.csv\.gz: "):
            trace(path)


@pytest.mark.parametrize(
    ("name", "n", "prompt", "output"), [("azure-conv", 19366, 1154.7, 211.1), ("azure-code", 8819, 2047.8, 27.9)]
)
def test_two_traces_come_with_the_library(name: str, n: int, prompt: float, output: float) -> None:
    """Counts and means as they are published; small, and no clock in the compressed file."""
    found = workload(name)
    assert (found.name, len(found)) == (name, n)
    assert (found.mean_prompt_tokens, found.mean_output_tokens) == pytest.approx((prompt, output), abs=0.05)
    assert isinstance(found.arrivals, Recorded)
    raw = (DATA / SHIPPED[name]).read_bytes()
    assert len(raw) < 200_000
    assert raw[3:8] == bytes(5)  # no name (RFC 1952: flags), and a time of 0
    assert workload(f" {name.upper()} ").name == name


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared traces are not here")
@pytest.mark.parametrize("name", list(SHIPPED))
def test_they_are_the_files_that_they_were_made_from(name: str) -> None:
    stem = SHIPPED[name].removesuffix(".gz")
    assert gzip.decompress((DATA / SHIPPED[name]).read_bytes()) == (SHARED / stem).read_bytes()


def test_a_name_that_is_none_is_refused_with_the_nearest_and_a_path_is_read(tmp_path: Path) -> None:
    with pytest.raises(
        UnknownName, match=r'no workload named "azure-chat"; did you mean azure-co.*known: azure-code, azure-conv'
    ):
        workload("azure-chat")
    with pytest.raises(SpecError, match=r"workload: expected a name or a path, got None"):
        workload(None)  # type: ignore[arg-type]
    path = _file(tmp_path, BURSTGPT, "own.csv")
    assert workload(path).name == workload(str(path)).name == "own"
    with pytest.raises(SpecError, match=r"nowhere\.csv: No such file"):
        workload("nowhere.csv")


@pytest.mark.parametrize(
    "text",
    ["[[10, 2], [11, 3]]", '[{"prompt_len": 10, "output_len": 2}, {"prompt_len": 11, "output_len": 3}]',
     "prompt_tokens,output_tokens\n10,2\n11,3\n"],
)  # fmt: skip
def test_lengths_alone_come_as_poisson_has_them(tmp_path: Path, text: str) -> None:
    found = trace(_file(tmp_path, text))
    assert (found.prompt_tokens.tolist(), found.output_tokens.tolist()) == ([10, 11], [2, 3])
    assert found.arrivals == Poisson()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no requests in it"),
        ("arrival_s,prompt_tokens,output_tokens\n", "no requests in it"),
        ("when,in,out\n1,2,3\n", "a column named one of prompt_tokens, .*; it has when, in, out"),
        (
            "arrival_s,prompt_tokens,output_tokens\n1,2,3\n0.5,2,3\n",
            "line 3: arrival_s: earlier than .* sort the trace",
        ),
        ("arrival_s,prompt_tokens,output_tokens\nnan,2,3\n", "line 2: arrival_s: expected seconds, got 'nan'"),
        ("arrival_s,prompt_tokens,output_tokens\nnoon,2,3\n", "expected seconds or a date and time, got 'noon'"),
        ("arrival_s,prompt_tokens,output_tokens\n1,0,3\n", "line 2: prompt_tokens: expected a whole number from 1"),
        ("arrival_s,prompt_tokens,output_tokens\n1,2\n", "line 2: output_tokens: expected a whole number"),
        ("arrival_s,prompt_tokens,output_tokens\n1,2,2.5\n", "got '2.5'"),
        ("prompt_tokens,output_tokens\n5,0\n", "no requests in it that were answered"),
        ("[[1, 2, 3]]", "request 1: expected .prompt tokens, output tokens. or an object"),
        ('{"timestamp": 1, "input_length"', "line 1: no JSON"),
        ('\n{"input_length": 5, "output_length": 1}\n{"input_length": 5, "output_length": }\n', "line 3: no JSON"),
        ("[" * 100_000, "line 1: no JSON that can be read"),
        ("arrival_s,prompt_tokens,output_tokens\n\n1,2,3\n\n2,2,x\n", "line 5: output_tokens: .* got 'x'"),
        ("arrival_s,prompt_tokens,output_tokens\n1,2,3\n2,2,0\n0.5,2,3\n", "line 4: arrival_s: earlier than"),
        (
            "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,2,3\n2023-11-16,2,3\n2023-13-16,2,3\n",
            "line 4: timestamp: expected seconds or a date and time, got '2023-13-16'",
        ),
        (
            hashed("[1, 2]", tokens=1537),
            "line 2: hash_ids: expected 4 ids for 1537 tokens in blocks of 512, got 2; give block_tokens",
        ),
        (hashed("[1, 2, 3, 4]", tokens=1536), "expected 3 ids for 1536 tokens in blocks of 512, got 4"),
        (hashed('[1, "a"]', tokens=1024), "line 2: hash_ids: expected a list of whole numbers, got 'a' in it"),
        (hashed("[1, true]", tokens=1024), "got True in it"),
        (hashed("[1, 2.0]", tokens=1024), "got 2.0 in it"),
        (hashed("7", tokens=1024), "line 2: hash_ids: expected a list of whole numbers, got 7"),
        (MOONCAKE + '{"timestamp": 4e4, "input_length": 1, "output_length": 1}', "line 3: hash_ids: .* got None"),
        ("arrival_s,prompt_tokens,output_tokens\n1,2,3\n1,2,3\n", "not all at once"),
    ],
)
def test_files_that_are_no_trace_are_refused_with_their_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(SpecError, match=said) as raised:
        trace(_file(tmp_path, text))
    assert "\n" not in str(raised.value)


def test_a_file_that_is_not_there_or_no_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"none\.csv: No such file"):
        trace(tmp_path / "none.csv")
    (tmp_path / "raw.csv").write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(SpecError, match="found no text"):
        trace(tmp_path / "raw.csv")


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared traces are not here")
@pytest.mark.parametrize(
    ("name", "n", "rate", "gap_scv", "dispersion_60s", "prompt_mean", "output_mean", "correlation"),
    [
        ("azure2023_conv", 19366, 5.53, 1.20, 16.13, 1154.7, 211.1, -0.112),
        ("azure2023_code", 8819, 2.567, 172.96, 163.96, 2047.8, 27.9, 0.001),
        ("mooncake_synthetic", 3993, 3.907, 1.02, 1.19, 15325.5, 149.1, -0.374),
    ],
)
def test_traces_are_as_others_counted_them(
    name: str, n: int, rate: float, gap_scv: float, dispersion_60s: float, prompt_mean: float, output_mean: float,
    correlation: float,
) -> None:  # fmt: skip
    found = trace(SHARED / f"{name}.csv").summary()
    assert found.n == n
    assert found.rate_per_s == pytest.approx(rate, rel=1e-3)
    assert found.gap_scv == pytest.approx(gap_scv, rel=3e-3)
    assert found.dispersion_60s == pytest.approx(dispersion_60s, rel=1e-3, abs=0.005)
    assert (found.prompt_mean, found.output_mean) == pytest.approx((prompt_mean, output_mean), rel=2e-3)
    assert found.correlation == pytest.approx(correlation, abs=1e-3)
