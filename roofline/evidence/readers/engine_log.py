"""What engines log when they start: bytes of weights, cache and scratch, tokens the cache holds, requests that fit.

A log of several starts is read from the last one on. Ranks log the same lines; pools of one rank add up, ranks do not.
"GB" in the lines of vLLM and SGLang is GiB.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roofline.errors import SpecError, shorten
from roofline.evidence.readers.text import load_text
from roofline.evidence.runs import Log

__all__ = ["holds", "read_log"]

_UNITS = {"": 1.0, "MiB": 2.0**20, "GiB": 2.0**30}
_MOST = 1e18
_APART = 0.01
_RANK = re.compile(r"(?<![A-Za-z])(?:(?:DP|PP|TP|EP)\d+|rank[ =]?\d+)", re.IGNORECASE)
_HOST = ("cpu", "host")
_SHORT = {  # every gap is bounded, so that no line takes long
    "<n>": r"(\d[\d,]{0,30}(?:\.\d{1,9})?)",
    "<device>": r"(?<!\S)(?P<pool>\S{1,40})",
    "<tokens>": r"(?P<pool>#tokens: \d{1,18})",
    "<cells>": r"(?P<pool>\([^)\n]{0,99}\))",
    "<_>": r" {1,20}",
    "<…>": r"[^\n]{0,200}?",
}


@dataclass(frozen=True, slots=True)
class _Line:
    """A kind of line: `finds` has the value in its groups, which add up, and what tells pools apart in the group "pool".

    Pools of one rank add up; of lines that name none, the last counts (of tokens, the most: windowed layers hold fewer).
    """

    engine: str
    field: str
    finds: re.Pattern[str]
    unit: str


def _line(engine: str, field: str, pattern: str, unit: str = "") -> _Line:
    for short, full in _SHORT.items():
        pattern = pattern.replace(short, full)
    return _Line(engine, field, re.compile(pattern), unit)


# Of one field, the first kind that the log holds is read.
_LINES = (
    _line("vllm", "weight_bytes", r"Model loading took <n> Gi?B", "GiB"),
    _line("vllm", "weight_bytes", r"Loading model weights took <n> Gi?B", "GiB"),
    _line("vllm", "weight_bytes", r"model weights take <n> ?Gi?B", "GiB"),
    _line("vllm", "kv_bytes", r"Available KV cache memory: <n> Gi?B", "GiB"),
    _line("vllm", "kv_bytes", r"memory reserved for KV Cache is <n> ?Gi?B", "GiB"),
    _line("vllm", "kv_tokens", r"GPU KV cache size: <n> tokens"),
    _line("vllm", "n_blocks", r"# (?:GPU|cuda) blocks: <n>"),
    _line("vllm", "compute_buffer_bytes", r"activation peak memory takes <n> ?Gi?B", "GiB"),
    _line("vllm", "max_concurrency", r"Maximum concurrency for [\d,]{1,30} tokens per request: <n>x"),
    _line("vllm", "context_tokens_of_concurrency", r"Maximum concurrency for <n> tokens per request"),
    _line("sglang", "weight_bytes", r"Load weight end\.<…>mem usage=<n> GB", "GiB"),
    _line("sglang", "kv_bytes", r"KV Cache is allocated\.<…><tokens>, K size: <n> GB, V size: <n> GB", "GiB"),
    _line("sglang", "kv_bytes", r"KV Cache is allocated\.<…><tokens>, KV size: <n> GB", "GiB"),
    _line("sglang", "kv_tokens", r"max_total_num_tokens=<n>"),
    _line("sglang", "kv_tokens", r"KV Cache is allocated\.<…>#tokens: <n>"),
    _line("sglang", "state_bytes", r"Mamba Cache is<…>conv_state size: <n> ?GB, ssm_state size: <n> ?GB", "GiB"),
    _line("trtllm", "weight_bytes", r"Loaded engine size: <n> MiB", "MiB"),
    _line("trtllm", "kv_bytes", r"Allocated <n> GiB for max tokens in paged KV cache", "GiB"),
    _line("trtllm", "kv_bytes", r"Allocate <n> bytes for k/v cache"),
    _line("trtllm", "kv_tokens", r"for max tokens in paged KV cache \(<n>\)"),
    _line("trtllm", "kv_tokens", r"Using <n> tokens in paged KV cache"),
    _line("trtllm", "n_blocks", r"Number of blocks in KV cache primary pool: <n>"),
    _line("llama.cpp", "weight_bytes", r"(?:model|file) size<_>=<_><n> GiB", "GiB"),
    _line("llama.cpp", "weight_bytes", r"(?:model|file) size<_>=<_><n> MiB", "MiB"),
    _line("llama.cpp", "weight_bytes", r"<device> model buffer size =<_><n> MiB", "MiB"),
    _line("llama.cpp", "kv_bytes", r"llama_kv_cache\w{0,20}: size =<_><n> MiB <cells>", "MiB"),
    _line("llama.cpp", "kv_bytes", r"KV self size<_>=<_><n> MiB", "MiB"),
    _line("llama.cpp", "kv_bytes", r"<device> KV buffer size =<_><n> MiB", "MiB"),
    _line("llama.cpp", "kv_tokens", r"llama_kv_cache\w{0,20}: size =[^\n(]{0,40}\( {0,20}<n> cells"),
    _line("llama.cpp", "kv_tokens", r"llama_kv_cache_init: kv_size = <n>"),
    _line("llama.cpp", "compute_buffer_bytes", r"<device> compute buffer size (?:=|of)<_><n> MiB", "MiB"),
    _line("llama.cpp", "state_bytes", r"llama_memory_recurrent: size =<_><n> MiB", "MiB"),
)
_STARTS = {
    "vllm": re.compile(r"vLLM API server version|Initializing an? (?:V1 )?LLM engine"),
    "sglang": re.compile(r"server_args=ServerArgs\("),
    "llama.cpp": re.compile(r"llama_model_loader: loaded meta data"),
}


def holds(text: str) -> bool:
    """Whether a text has a line of an engine's log that is read here."""
    return any(line.finds.search(text) for line in _LINES)


def read_log(path: str | Path) -> Log:
    """What an engine's log says of its memory.

    Raises
    ------
    SpecError
        If the file cannot be read, or holds no line that is known.
    """
    where = shorten(str(path), 400)
    text = load_text(path, strict=False)
    counts: dict[str, int] = {}
    for line in _LINES:
        counts[line.engine] = counts.get(line.engine, 0) + sum(1 for _ in line.finds.finditer(text))
    engine = max(counts, key=lambda name: counts[name])
    if not counts[engine]:
        raise SpecError(
            f"{where}: expected the log of vllm, sglang, trtllm or llama.cpp with lines on weights or KV cache, such as "
            '"GPU KV cache size: … tokens" or "llama_kv_cache: size = … MiB"; got none of them'
        )
    warnings = []
    others = [name for name, n in counts.items() if n and name != engine]
    if others:
        warnings.append(f"{where}: lines of {', '.join(others)} too; those of {engine} are read")
    text, starts = _last_start(text, engine)
    if starts > 1:
        warnings.append(f"{where}: {starts} starts (or models); the last is read")
    values: dict[str, Any] = {}
    for line in _LINES:
        if line.engine == engine and values.get(line.field) is None:
            value, differing = _value(line, text)
            values[line.field] = value
            if differing is not None:
                warnings.append(f"{where}: {line.field}: {differing}")
    return Log(where=where, engine=engine, **values, warnings=tuple(warnings))


def _last_start(text: str, engine: str) -> tuple[str, int]:
    """The part of a log from the last start on that has lines we read, and how many such starts there are."""
    marker = _STARTS.get(engine)
    begins = [match.start() for match in marker.finditer(text)] if marker else []
    finds = sorted(m.start() for line in _LINES if line.engine == engine for m in line.finds.finditer(text))
    ends = [*begins[1:], len(text)]
    full = [(a, b) for a, b in zip(begins, ends, strict=False) if any(a <= at < b for at in finds)]
    return (text[full[-1][0] : full[-1][1]], len(full)) if full else (text, 1)


def _value(line: _Line, text: str) -> tuple[float | None, str | None]:
    """What the lines of a kind say in SI units, and what is odd about them."""
    by_rank: dict[str, dict[str, float]] = {}
    for match in line.finds.finditer(text):
        named = match.re.groupindex.get("pool", 0)
        amounts = [float(match[i].replace(",", "")) for i in range(1, match.re.groups + 1) if i != named]
        amount = sum(amounts) * _UNITS[line.unit]
        if 0 < amount < _MOST:
            begin = text.rfind("\n", max(match.start() - 200, 0), match.start()) + 1 or max(match.start() - 200, 0)
            rank = " ".join(_RANK.findall(text[begin : match.start()]))
            pools, pool = by_rank.setdefault(rank, {}), match[named] if named else ""
            pools[pool] = max(amount, pools.get(pool, 0.0)) if line.field == "kv_tokens" else amount
    totals = [_added(pools) for pools in by_rank.values()]
    if not totals:
        return None, None
    if max(totals) - min(totals) <= _APART * max(totals):
        return totals[-1], None
    return totals[-1], f"ranks differ, from {min(totals):.6g} to {max(totals):.6g}; the last is read"


def _added(pools: dict[str, float]) -> float:
    """The sum over pools, those in host memory left out where any is on a device."""
    device = [amount for pool, amount in pools.items() if not any(word in pool.lower() for word in _HOST)]
    return sum(device or pools.values())
