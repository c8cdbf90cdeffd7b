"""Traces from files, in the forms they are published in."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from roofline.errors import SpecError
from roofline.specs.traces import trace
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
MOONCAKE = """{"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47]}
{"timestamp": 30535, "input_length": 6472, "output_length": 26, "hash_ids": [46, 60]}
"""


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
        ('{"timestamp": 1, "input_length"', "no JSON"),
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
    ],
)
def test_the_azure_traces_are_as_others_counted_them(
    name: str, n: int, rate: float, gap_scv: float, dispersion_60s: float, prompt_mean: float, output_mean: float,
    correlation: float,
) -> None:  # fmt: skip
    found = trace(SHARED / f"{name}.csv").summary()
    assert found.n == n
    assert found.rate_per_s == pytest.approx(rate, rel=1e-3)
    assert found.gap_scv == pytest.approx(gap_scv, rel=3e-3)
    assert found.dispersion_60s == pytest.approx(dispersion_60s, rel=1e-3)
    assert (found.prompt_mean, found.output_mean) == pytest.approx((prompt_mean, output_mean), rel=2e-3)
    assert found.correlation == pytest.approx(correlation, abs=1e-3)
