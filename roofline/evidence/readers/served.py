"""What the clients of serving benchmarks have in common: latencies over requests, totals, and how requests arrived."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from roofline.errors import shown
from roofline.evidence.readers.checks import LATENCIES, agree, plausible
from roofline.evidence.readers.fields import Fields

__all__ = ["Totals", "arrivals", "latencies", "totals"]

_PERCENTILE = r"p(\d{1,2}(?:\.\d+)?)_"
Found = dict[str, tuple[float, str]]  # "mean", "p50", "p99", …: the time [s] and its key


def latencies(fields: Fields, *, spelled: Mapping[str, str], suffix: str, per: float) -> dict[str, Any]:
    """TTFT, TPOT, request latency and their percentiles [s], as the fields of a `Run` they fill.

    A key is `median_`, `mean_` or `pNN_`, what the tool calls the latency, `suffix`; `per` of its units are a second.
    """
    found: dict[str, Found] = {}
    for name in LATENCIES:
        called = spelled.get(name, name)
        found[name] = _found(fields, name, f"{called}{suffix}", per)
        fields.first([f"std_{called}{suffix}", f"max_{called}{suffix}"])
    tpot = spelled.get("tpot", "tpot")
    unsaid = not any(fields.given(f"{kind}_{tpot}{suffix}") for kind in ("mean", "median"))
    if unsaid and "mean" in found["itl"]:
        found["tpot"] = {"mean": found["itl"]["mean"]}
        fields.warn(found["itl"]["mean"][1], "used as TPOT, which is not there: a mean over gaps, not over requests")
    return chosen(fields, found)


def chosen(fields: Fields, found: Mapping[str, Found]) -> dict[str, Any]:
    """The fields of a `Run`: medians where every latency has one, else means; and the percentiles."""
    values: dict[str, Any] = {}
    central = {name: of for name, of in found.items() if name != "itl" and ("p50" in of or "mean" in of)}
    median = all("p50" in of for of in central.values())
    for name, of in central.items():
        kind = "p50" if median or "mean" not in of else "mean"
        values[f"{name}_s"], fields.origin[f"{name}_s"] = of[kind]
        if kind == "p50" and not median:
            fields.warn(of[kind][1], "a median among means: this latency has no mean")
    percentiles = {}
    for name, of in found.items():
        for mark, (seconds, key) in of.items():
            if mark != "mean":
                percentiles[f"{name}_{mark}_s"], fields.origin[f"{name}_{mark}_s"] = seconds, key
    return values | {"percentiles": percentiles, "statistic": "median" if median and central else "mean"}


def _found(fields: Fields, name: str, tail: str, per: float) -> Found:
    """Mean and percentiles of one latency; the median is the 50th."""
    keys = {"mean": f"mean_{tail}", "p50": f"median_{tail}"}
    for key in map(str, fields.data):
        match = re.fullmatch(_PERCENTILE + re.escape(tail), key)
        if match and fields.first([key]) and not (match[1] == "50" and fields.given(keys["p50"])):
            keys[f"p{match[1]}"] = key
    found: Found = {}
    for mark, key in keys.items():
        number = fields.number(key)
        seconds = None if number is None else plausible(fields, name, key, number / per)
        if seconds is not None:
            found[mark] = (seconds, key)
    return found


@dataclass(frozen=True, slots=True)
class Totals:
    """What a client counted: requests answered [1], mean lengths [token], rates of the whole deployment [1/s]."""

    completed: int
    prompt_tokens: float | None
    output_tokens: float | None
    output_tokens_per_s: float | None
    total_tokens_per_s: float | None
    request_per_s: float | None


def totals(fields: Fields, *, total_rate: tuple[str, ...]) -> Totals:
    """The counts and rates of a run, held against each other; `total_rate` are the keys of input and output together."""
    done = fields.needed("completed")
    asked = fields.whole("num_prompts")
    failed = fields.whole("failed", zero=True) or max((asked or done) - done, 0)
    if failed:
        fields.warn(
            "failed" if fields.whole("failed", zero=True) else "completed",
            f"{failed:,} requests failed; {done:,} are read",
        )
    duration = fields.number("duration")
    prompt, n_in = _length(fields, "total_input_tokens", "input_lens", done)
    output, n_out = _length(fields, "total_output_tokens", "output_lens", done)
    if prompt is None:
        raise fields.missing(["total_input_tokens"])
    rates = {
        "request_throughput": (("request_per_s",), float(done), "completed / duration"),
        "output_throughput": (("output_tokens_per_s", "output_tokens"), n_out, "total_output_tokens / duration"),
        next(filter(fields.given, total_rate), total_rate[0]): (
            ("total_tokens_per_s", "prompt_tokens"),
            None if n_in is None or n_out is None else n_in + n_out, "all tokens / duration",
        ),
    }  # fmt: skip
    read = []
    for key, (names, count, how) in rates.items():
        rate = fields.number(key)
        agree(fields, key, rate, None if duration is None or count is None else count / duration, how, of=names)
        read.append(rate)
    return Totals(done, prompt, output, read[1], read[2], read[0])


def _length(fields: Fields, total: str, each: str, completed: int) -> tuple[float | None, float | None]:
    """Mean tokens a request, and tokens in all: from the total, else from the list of each request's."""
    count = fields.number(total)
    lens = [n for n in fields.numbers(fields.value(each), each) if n]
    if lens and max(lens) > 1.02 * min(lens):
        fields.warn(each, f"lengths vary from {min(lens):,.0f} to {max(lens):,.0f}; their mean is used")
    if count is not None:
        return count / completed, count
    return (sum(lens) / len(lens), None) if lens else (None, None)


def arrivals(fields: Fields, *, n_requests: int) -> dict[str, Any]:
    """How requests arrived: `load`, `batch` and `rate_per_s` of a `Run`.

    A finite rate is an open loop. Without one it is a closed loop of `max_concurrency` users; without that too, all
    requests are sent at once.
    """
    users = fields.whole("max_concurrency", as_="batch")
    rate, traced = _rate(fields)
    ramp = fields.word("ramp_up_strategy")
    fields.first(["ramp_up_start_rps", "ramp_up_end_rps", "burstiness"])
    if ramp is not None:
        fields.warn("ramp_up_strategy", f"the rate ramps ({ramp}); the run is no steady state")
        traced = True
    if rate is not None or traced:
        return {"load": "open-loop", "batch": None if users is None else float(users), "rate_per_s": rate}
    if users is None:
        fields.note(f"no rate and no max_concurrency: all {n_requests:,} requests were sent at once")
        users = n_requests
    elif users > n_requests:
        fields.warn("max_concurrency", f"{users:,} users, but only {n_requests:,} requests")
    return {"load": "closed-loop", "batch": float(users), "rate_per_s": None}


def _rate(fields: Fields) -> tuple[float | None, bool]:
    """Requests a second, none where there was no limit; and whether they came as a trace says."""
    value = fields.value("request_rate")
    if isinstance(value, str) and value.strip().lower() == "trace":
        return None, True
    try:
        rate = math.inf if value is None or isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        rate = math.nan
    if math.isnan(rate) or rate <= 0:
        fields.warn("request_rate", f'expected a rate, "inf" or "trace", got {shown(value)}; taken as no limit')
    return (rate if 0 < rate < math.inf else None), False
