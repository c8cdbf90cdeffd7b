"""A plain table of measurements, for people: a header with our own names, one run a row, few of them required."""

from __future__ import annotations

import re
from typing import Any

from roofline.errors import SpecError
from roofline.evidence.readers.checks import agree, finished, inclusive, plausible
from roofline.evidence.readers.fields import Fields
from roofline.evidence.readers.names import engine_named
from roofline.evidence.runs import Run

__all__ = ["COLUMNS", "read_run"]

_UNITS = {"s": 1.0, "ms": 1e3, "us": 1e6}  # of each, so many are a second
_WHOLE = "time_per_output_token"  # the latency over N, as GuideLLM has it
_SPEEDS = ("prefill_tokens_per_s", "decode_tokens_per_s")
COLUMNS = (
    "model", "hardware", "engine", "n_chips", "tp", "pp", "ep", "weights", "kv", "batch", "concurrency", "rate_per_s",
    "prompt_tokens", "past_tokens", "context_tokens", "output_tokens",
    *(f"{name}_{unit}" for name in ("ttft", "tpot", "e2e", _WHOLE) for unit in _UNITS),
    "output_tokens_per_s", "total_tokens_per_s", "request_per_s", *_SPEEDS,
)  # fmt: skip
_PERCENTILE = re.compile(r"(ttft|tpot|e2e|itl)_p(\d{1,2}(?:\.\d+)?)_(s|ms|us)")


def read_run(fields: Fields) -> Run:
    """The run of one row: some length or batch, and some measurement.

    `batch` sequences start together; `concurrency` users ask again; `rate_per_s` requests arrive. Speeds are of the whole
    batch:  tpot_s = batch / decode_tokens_per_s,  ttft_s = batch · prompt_tokens / prefill_tokens_per_s.
    """
    lengths = _lengths(fields)
    if not any(lengths.values()) and not any(map(fields.given, ("batch", "concurrency"))):
        raise fields.missing(["prompt_tokens", "context_tokens", "batch"])
    how = _load(fields)
    times = {f"{name}_s": _seconds(fields, name) for name in ("ttft", "tpot", "e2e")}
    _from_speeds(fields, times, how["batch"], lengths)
    _from_whole(fields, times, lengths["output_tokens"])
    engine = fields.word("engine")
    if engine is not None and engine_named(engine) is None:
        fields.warn(
            "engine", f"no engine is called {engine!r} here (vllm, sglang, trtllm, llama.cpp, mlx, gpt-fast); not used"
        )
    return finished(
        fields,
        known=COLUMNS,
        tool="csv",
        model=fields.word("model"),
        hardware=fields.word("hardware"),
        engine=engine_named(engine),
        n_chips=fields.whole("n_chips"),
        tp=fields.whole("tp"),
        pp=fields.whole("pp"),
        ep=fields.whole("ep"),
        weights=fields.format("weights"),
        kv=fields.format("kv"),
        **how,
        **lengths,
        **times,
        output_tokens_per_s=fields.number("output_tokens_per_s"),
        total_tokens_per_s=fields.number("total_tokens_per_s"),
        request_per_s=fields.number("request_per_s"),
        percentiles=_percentiles(fields),
        statistic="mean",
    )


def _load(fields: Fields) -> dict[str, Any]:
    batch = fields.number("batch", as_="batch")
    users = fields.number("concurrency", as_="batch")
    rate = fields.number("rate_per_s", as_="rate_per_s")
    if batch is not None and (users is not None or rate is not None):
        other = "concurrency" if users is not None else "rate_per_s"
        raise SpecError(f"{fields.place}: batch and {other}: expected one of them; batch sequences start together")
    if rate is not None:
        return {"load": "open-loop", "batch": users, "rate_per_s": rate}
    if batch is None and users is None:
        fields.note("neither batch nor concurrency nor rate_per_s: batch 1 assumed")
        batch = 1.0
    return {"load": "static" if users is None else "closed-loop", "batch": batch or users, "rate_per_s": None}


def _lengths(fields: Fields) -> dict[str, float | None]:
    """Prompt, past and output tokens.  A context alone is what a decode step finds cached, mean over the steps:

    past = context − (passes − 1)/2
    """
    prompt, past = fields.number("prompt_tokens"), fields.number("past_tokens", zero=True)
    output, context = fields.number("output_tokens"), fields.number("context_tokens")
    if context is not None and prompt is None and past is None:
        past = context - (max(output or 1.0, 1.0) - 1.0) / 2.0
        if past < 0:
            fields.warn(
                "context_tokens", "below half of output_tokens, which a mean cannot be; decoding from an empty cache"
            )
            past = 0.0
    elif context is not None:
        passes = (output or 1.0) - (1.0 if prompt else 0.0)
        agree(fields, "context_tokens", context, (prompt or 0.0) + (past or 0.0) + max(passes - 1.0, 0.0) / 2.0,
              "past + prompt + (passes − 1)/2")  # fmt: skip
    return {"prompt_tokens": prompt, "past_tokens": past, "output_tokens": output}


def _seconds(fields: Fields, name: str, *, limits: str = "") -> float | None:
    """A time [s], in whichever unit its column is."""
    given = [(f"{name}_{unit}", per) for unit, per in _UNITS.items() if fields.given(f"{name}_{unit}")]
    if len(given) > 1:
        raise SpecError(f"{fields.place}: {given[0][0]} and {given[1][0]}: expected one of them")
    for key, per in given:
        number = fields.number(key, as_=f"{name}_s", per=per)
        return None if number is None else plausible(fields, limits or name, key, number)
    return None


def _from_speeds(
    fields: Fields, times: dict[str, float | None], batch: float | None, lengths: dict[str, float | None]
) -> None:
    """TTFT and TPOT from tokens a second of the whole batch, where no time is given."""
    prompt = lengths["prompt_tokens"]
    for key, name, tokens in (("prefill_tokens_per_s", "ttft", prompt), ("decode_tokens_per_s", "tpot", 1.0)):
        speed = fields.number(key)
        if speed is None:
            continue
        if tokens is None or batch is None:
            fields.warn(
                key, f"{'batch' if batch is None else 'prompt_tokens'} is not there, so no time follows; not used"
            )
            continue
        seconds = batch * tokens / speed
        given = times[f"{name}_s"]
        if given is None:
            fields.origin[f"{name}_s"] = key
            times[f"{name}_s"] = plausible(fields, name, key, seconds)
        else:
            agree(fields, key, speed, batch * tokens / given, f"what {name} makes it", of=(f"{name}_s",))


def _from_whole(fields: Fields, times: dict[str, float | None], output: float | None) -> None:
    """TPOT from the latency over N, which counts the first token in."""
    value, ttft = _seconds(fields, _WHOLE, limits="tpot"), times["ttft_s"]
    if value is None or times["tpot_s"] is not None:
        return
    key = fields.origin[f"{_WHOLE}_s"]
    if ttft is None or output is None or output <= 1.0:
        raise SpecError(
            f"{fields.place}: {key}: the whole latency over N, first token included; expected ttft and output_tokens "
            "(above 1) beside it, to take the first token out; or give tpot_ms = (latency − ttft)/(N − 1)"
        )
    gap = inclusive(value, ttft_s=ttft, output_tokens=output)
    if gap <= 0:
        fields.warn(key, "times output_tokens is below ttft; not used")
        return
    fields.origin["tpot_s"] = key
    times["tpot_s"] = gap


def _percentiles(fields: Fields) -> dict[str, float]:
    """Columns such as ttft_p99_ms [s]."""
    found = {}
    for key in map(str, fields.data):
        match = _PERCENTILE.fullmatch(key)
        number = fields.number(key) if match else None
        if match and number is not None:
            seconds = plausible(fields, match[1], key, number / _UNITS[match[3]])
            if seconds is not None:
                found[f"{match[1]}_p{match[2]}_s"] = seconds
                fields.origin[f"{match[1]}_p{match[2]}_s"] = key
    return found
