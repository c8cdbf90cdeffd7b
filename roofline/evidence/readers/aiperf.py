"""AIPerf's `profile_export_aiperf.json`, and GenAI-Perf's: one object a run, every metric with its unit and statistics."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from roofline.errors import SpecError, did_you_mean, shown
from roofline.evidence.readers.checks import agree, finished, plausible
from roofline.evidence.readers.fields import Fields
from roofline.evidence.readers.names import engine_named
from roofline.evidence.readers.served import Found, chosen
from roofline.evidence.runs import Run

__all__ = ["MARKS", "is_record", "metrics_of", "read_run"]

MARKS = (
    "request_latency", "time_to_first_token", "time_to_second_token", "inter_token_latency", "inter_chunk_latency",
    "request_throughput", "output_token_throughput", "output_token_throughput_per_user", "output_sequence_length",
    "input_sequence_length", "output_token_count", "request_count", "benchmark_duration", "input_config", "error_summary",
)  # fmt: skip

_TIMES = {  # of each unit, so many are a second
    "s": 1.0, "sec": 1.0, "second": 1.0, "seconds": 1.0, "ms": 1e3, "millisecond": 1e3, "milliseconds": 1e3,
    "us": 1e6, "µs": 1e6, "μs": 1e6, "microsecond": 1e6, "microseconds": 1e6,
    "ns": 1e9, "nanosecond": 1e9, "nanoseconds": 1e9,
}  # fmt: skip
_LATENCIES = {"ttft": "time_to_first_token", "tpot": "inter_token_latency", "e2e": "request_latency"}
_NESTED = ("records", "metrics", "statistics")
_MOST_SEEN = 20_000


def is_record(data: Mapping[str, Any]) -> bool:
    """Whether an object is one request's, as AIPerf writes them line by line."""
    metrics = data.get("metrics")
    return isinstance(metrics, dict) and any(isinstance(m, dict) and "value" in m for m in metrics.values())


def metrics_of(data: dict[str, Any]) -> dict[str, Any]:
    """The object with its metrics at the top, where a version nests them."""
    for key in _NESTED:
        inner = data.get(key)
        if isinstance(inner, dict) and any(isinstance(metric, dict) and "avg" in metric for metric in inner.values()):
            data = inner | {name: value for name, value in data.items() if name != key}
    return data


def read_run(fields: Fields) -> Run:
    """The run of one object.  Inter-token latency is (latency − TTFT)/(N − 1) a request, which is TPOT here.

    N counts reasoning tokens too.
    """
    found = {name: _latency(fields, name, key) for name, key in _LATENCIES.items()}
    prompt, output = _count(fields, "input_sequence_length"), _count(fields, "output_sequence_length")
    if prompt is None and output is None:
        raise fields.missing(["input_sequence_length", "output_sequence_length"])
    rates: dict[str, Any] = {
        "request_per_s": _count(fields, "request_throughput"),
        "output_tokens_per_s": _count(fields, "output_token_throughput"),
        "total_tokens_per_s": _count(fields, "total_token_throughput"),
    }
    fields.origin |= {"request_per_s": "request_throughput", "output_tokens_per_s": "output_token_throughput"}
    _totals(fields, rates, output)
    return finished(
        fields,
        tool="aiperf",
        **_asked(fields),
        prompt_tokens=prompt,
        output_tokens=output,
        **rates,
        **chosen(fields, found),
    )


def _metric(fields: Fields, key: str) -> Fields | None:
    """The statistics of a metric; a bare number is its average."""
    value = fields.value(key)
    if value is None:
        return None
    if not isinstance(value, dict):
        value = {"avg": value}
    return Fields(value, fields.place, prefix=f"{key}.")


def _statistic(fields: Fields, metric: Fields, stat: str) -> float | None:
    number = metric.number(stat)
    fields.adopt(metric)
    return number


def _latency(fields: Fields, name: str, key: str) -> Found:
    """Mean and percentiles of a latency [s], by its unit."""
    metric = _metric(fields, key)
    if metric is None:
        return {}
    unit = metric.data.get("unit")
    per = _TIMES.get(str(unit).strip().lower())
    if per is None:
        near = did_you_mean(str(unit), _TIMES)
        if unit is not None:
            raise SpecError(f"{fields.place.of(key)}: expected a unit of time (s, ms, us, ns), got {shown(unit)}{near}")
        fields.warn(key, "no unit; ms assumed")
        per = 1e3
    found: Found = {}
    for stat in ("avg", *(str(s) for s in metric.data if re.fullmatch(r"p\d{1,2}(\.\d+)?", str(s)))):
        number = _statistic(fields, metric, stat)
        seconds = None if number is None else plausible(fields, name, key, number / per)
        if seconds is not None:
            found["mean" if stat == "avg" else stat] = (seconds, key)
    return found


def _count(fields: Fields, key: str) -> float | None:
    """The average of a metric that is a count or a rate a second."""
    metric = _metric(fields, key)
    if metric is None:
        return None
    unit = str(metric.data.get("unit", ""))
    if "/" in unit and not unit.strip().lower().endswith(("/s", "/sec", "/second")):
        raise SpecError(f"{fields.place.of(key)}: expected a rate a second, got the unit {shown(unit)}")
    return _statistic(fields, metric, "avg")


def _totals(fields: Fields, rates: Mapping[str, float | None], output: float | None) -> None:
    """Hold rates against counts, and say how many requests failed."""
    done, lasted = _count(fields, "request_count"), _metric(fields, "benchmark_duration")
    per = None if lasted is None else _TIMES.get(str(lasted.data.get("unit", "sec")).strip().lower())
    duration = None if lasted is None else _statistic(fields, lasted, "avg")
    if done and duration and per:
        rate = done * per / duration
        agree(
            fields,
            "request_throughput",
            rates["request_per_s"],
            rate,
            "request_count / benchmark_duration",
            of=("request_per_s",),
        )
    if output and rates["request_per_s"]:
        tokens = rates["request_per_s"] * output
        how = "request_throughput · output_sequence_length"
        agree(
            fields,
            "output_token_throughput",
            rates["output_tokens_per_s"],
            tokens,
            how,
            of=("output_tokens_per_s", "output_tokens"),
        )
    errors = _metric(fields, "error_request_count")
    failed = None if errors is None else errors.number("avg", zero=True)
    if failed:
        fields.warn("error_request_count", f"{failed:,.0f} requests failed; the others are read")
    if fields.value("was_cancelled") is True:
        fields.warn("was_cancelled", "the benchmark was stopped early")


def _asked(fields: Fields) -> dict[str, Any]:
    """Model, engine and load, wherever in the configuration a version keeps them."""
    config = fields.value("input_config")
    models = _sought(config, "model_names") or _sought(config, "model") or _sought(config, "name", under="models")
    texts = [m for m in models if isinstance(m, str)]
    users = {float(n) for n in _sought(config, "concurrency") if _positive(n)}
    rates = {float(n) for n in _sought(config, "request_rate") if _positive(n)}
    if len(users) > 1 or len(rates) > 1:
        fields.warn("input_config", "several concurrencies or rates; which one this run had is not said")
    elif not users and not rates:
        fields.warn("input_config", "neither concurrency nor request_rate is there")
    backends = [
        engine for text in _sought(config, "backend") if isinstance(text, str) and (engine := engine_named(text))
    ]
    return {
        "model": texts[0][:200] if texts else None,
        "engine": backends[0] if backends else None,
        "load": "open-loop" if rates else "closed-loop",
        "batch": users.pop() if len(users) == 1 else None,
        "rate_per_s": rates.pop() if len(rates) == 1 else None,
    }


def _positive(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 1e9


def _sought(config: Any, name: str, *, under: str = "") -> list[Any]:
    """What stands under a key anywhere in a configuration (or anywhere below a key), lists taken apart."""
    return [value for value, path in _walk(config) if path[-1:] == (name,) and (not under or under in path)]


def _walk(config: Any) -> Iterator[tuple[Any, tuple[str, ...]]]:
    """Every value that is no mapping or list, with the keys that lead to it, warm-up phases left out."""
    left: list[tuple[Any, tuple[str, ...]]] = [(config, ())]
    for _ in range(_MOST_SEEN):
        if not left:
            return
        value, path = left.pop()
        if isinstance(value, dict):
            left.extend(
                (inner, (*path, str(key))) for key, inner in reversed(value.items()) if "warm" not in str(key).lower()
            )
        elif isinstance(value, list):
            left.extend((inner, path) for inner in reversed(value))
        else:
            yield value, path
