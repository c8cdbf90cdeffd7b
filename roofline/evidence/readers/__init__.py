"""Files of benchmarks and logs of engines, read to `Run` and `Log`: told apart by what is in them, not by their names.

vLLM `bench serve`       JSON, objects appended          SGLang `bench_serving`   JSON lines
AIPerf, GenAI-Perf       JSON, a unit with each metric   `llama-bench`            JSON, JSON lines, CSV
InferenceX               JSON, an array of aggregates    plain tables             CSV, our own names
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from roofline.errors import SpecError, did_you_mean, shorten
from roofline.evidence.readers import aiperf, engine_log, inferencex, llama_bench, plain_csv, sglang_serving, vllm_serve
from roofline.evidence.readers.engine_log import read_log
from roofline.evidence.readers.fields import Fields
from roofline.evidence.readers.text import Place, cells_of, load_text, objects_of
from roofline.evidence.runs import Log, Run

__all__ = ["Log", "Run", "read", "read_log", "sniff"]

_FORMATS: Mapping[str, tuple[tuple[str, ...], Callable[[Fields], Run]]] = {
    "llama-bench": (llama_bench.MARKS, llama_bench.read_run),
    "aiperf": (aiperf.MARKS, aiperf.read_run),
    "inferencex": (inferencex.MARKS, inferencex.read_run),
    "vllm bench serve": (vllm_serve.MARKS, vllm_serve.read_run),
    "sglang bench_serving": (sglang_serving.MARKS, sglang_serving.read_run),
}
_NAMED = ", ".join(_FORMATS)
_LEAST = 2  # keys of a format that an object must have to be one

# What looks close and is not read: a mark in the text, and what to give instead.
_OTHERS = (
    (r"\| *t/s *\|", "the table that llama-bench prints; run it with -o json, jsonl or csv"),
    (r"INSERT INTO (llama_bench|test)\b", "the SQL of llama-bench; run it with -o json, jsonl or csv"),
    (r"^\s*Metric,", "the table of AIPerf; give profile_export_aiperf.json, which stands beside it"),
    (r"= Serving Benchmark Result =", "what the client prints; give the file of --save-result or --output-file"),
)
_OBJECTS = (
    ({"benchmarks"}, "a report of GuideLLM, whose time_per_output_token_ms is the whole latency over N; put its means in a "
                     "CSV with ttft_ms, output_tokens and time_per_output_token_ms, which is converted"),
    ({"avg_latency", "latencies"}, "a result of `vllm bench latency`, which holds no lengths; put it in a CSV with batch, "
                                   "prompt_tokens, output_tokens and e2e_s"),
    ({"elapsed_time", "total_num_tokens"}, "a result of `vllm bench throughput`, which holds no lengths; put it in a CSV "
                                           "with concurrency, prompt_tokens, output_tokens and total_tokens_per_s"),
)  # fmt: skip


def read(path: str | Path) -> tuple[Run, ...]:
    """The runs of a benchmark's file, in its order; each object is read by its own format.

    Raises
    ------
    SpecError
        If the file cannot be read, is empty or cut short, holds something of no known format, or a run without a
        measurement. What is merely odd is in `Run.warnings`.
    """
    where = shorten(str(path), 400)
    text = load_text(path)
    return tuple(_run(name, data, place) for name, data, place in _pieces(text, where))


def sniff(path: str | Path) -> str:
    """What a file holds: the `tool` of its first run, or "engine log"."""
    where = shorten(str(path), 400)
    text = load_text(path, strict=False)
    if not _is_json(text) and _table_of(text) is None and engine_log.holds(text):
        return "engine log"
    return _pieces(text, where)[0][0]


def _pieces(text: str, where: str) -> list[tuple[str, dict[str, Any], Place]]:
    """Every object or row of a text: the name of its format, its data, its place."""
    if _is_json(text):
        objects = [(aiperf.metrics_of(data), place) for data, place in objects_of(text, where=where)]
        return [(_format_of(data, place), data, place) for data, place in objects]
    kind = _table_of(text)
    if kind is not None:
        return [(kind, dict(cells), place) for cells, place in cells_of(text, where=where)]
    raise SpecError(f"{where}: {_unknown_text(text)}")


def _is_json(text: str) -> bool:
    """Whether a text begins as JSON does; a log may begin with a date in brackets."""
    return re.match(r"\s*(\{|\[\s*[\[{\]])", text.lstrip("\ufeff")) is not None


def _score(data: Mapping[str, Any], marks: tuple[str, ...]) -> int:
    return sum(1 for mark in marks if mark in data)


def _format_of(data: Mapping[str, Any], place: Place) -> str:
    """The format of an object: the one most of whose marks it bears."""
    if aiperf.is_record(data):
        raise SpecError(
            f"{place}: single requests of AIPerf; give profile_export_aiperf.json, which stands beside them"
        )
    scores = {name: _score(data, marks) for name, (marks, _) in _FORMATS.items()}
    best = max(scores, key=lambda name: scores[name])
    if scores[best] >= _LEAST:
        return best
    for keys, what in _OBJECTS:
        if keys <= set(data):
            raise SpecError(f"{place}: {what}")
    listed = ", ".join(shorten(str(key), 30) for key in list(data)[:6]) or "none"
    marks = {mark for marks, _ in _FORMATS.values() for mark in marks}
    near = next((hint for key in list(data)[:50] if (hint := did_you_mean(str(key)[:100], marks, n=1))), "")
    raise SpecError(f"{place}: expected a result of {_NAMED}, got an object with the keys {listed}{near}")


def _table_of(text: str) -> str | None:
    """Which kind of table a text is, by its first line that is no comment."""
    lines = (
        line
        for line in text[:100_000].lstrip("\ufeff").splitlines()
        if line.strip() and not line.lstrip().startswith("#")
    )
    names = {name.strip().strip('"').strip() for name in re.split("[,;\t]", next(lines, ""))}
    if _score(dict.fromkeys(names), llama_bench.MARKS) >= _LEAST:
        return "llama-bench"
    return "csv" if names & set(plain_csv.COLUMNS) else None


def _unknown_text(text: str) -> str:
    """What to say of a text that is neither JSON nor a table of ours."""
    for pattern, what in _OTHERS:
        if re.search(pattern, text):
            return what
    if engine_log.holds(text):
        return "an engine's log, which holds no timings; it is read as a log, not as a benchmark"
    head = shorten(text.strip().splitlines()[0], 60)
    names = re.split("[,;\t]", text.strip().splitlines()[0])
    near = next((hint for name in names[:50] if (hint := did_you_mean(name.strip()[:100], plain_csv.COLUMNS, n=1))), "")
    return f"expected JSON of {_NAMED}, or a CSV with columns such as batch, prompt_tokens, ttft_ms; got {head!r}{near}"


def _run(name: str, data: dict[str, Any], place: Place) -> Run:
    if name == "csv":
        return plain_csv.read_run(Fields(data, place, strict=True))
    return _FORMATS[name][1](Fields(data, place))
