"""The output of `llama-bench`: a JSON array, JSON lines or a table of quoted cells; one test a row, batch 1.

A row with a prompt only is a prefill, with a generation only a number of decode passes at a depth, with both one after
the other. Times are means over repetitions.
"""

from __future__ import annotations

import re
import statistics
from typing import Any

from roofline.errors import SpecError, UnknownName, shown
from roofline.evidence.readers.checks import agree, finished
from roofline.evidence.readers.fields import Fields
from roofline.evidence.readers.names import format_of
from roofline.evidence.runs import Run

__all__ = ["MARKS", "read_run"]

MARKS = (
    "avg_ns", "stddev_ns", "avg_ts", "stddev_ts", "samples_ns", "samples_ts", "n_prompt", "n_gen", "n_depth", "model_type",
    "model_n_params", "model_filename", "build_commit", "build_number", "n_ubatch", "n_gpu_layers", "flash_attn", "type_k",
)  # fmt: skip
_SPREAD = 0.1
_SIZES = {"small": "s", "medium": "m", "large": "l"}
_QUANT = re.compile(r"(?:^|\s)((?:I?Q|TQ)\d\w*|BF16|F16|F32|MXFP4)\b(?:\s+MoE)?(?:\s+-\s+(Small|Medium|Large)\b)?")


def read_run(fields: Fields) -> Run:
    """The run of one row.

    TTFT of a prefill is the time of the row; TPOT of a generation is that time over its passes. Where a row has both,
    the prompt's own pass is taken to give a first token: N = n_gen + 1.
    """
    prompt = fields.whole("n_prompt", zero=True) or 0
    passes = fields.whole("n_gen", zero=True) or 0
    if not prompt and not passes:
        told = " and ".join(shown(fields.data.get(key)) for key in ("n_prompt", "n_gen"))
        raise SpecError(
            f"{fields.place}: n_prompt, n_gen: expected a number of tokens above 0 in one of them, got {told}"
        )
    of = "e2e_s" if prompt and passes else "ttft_s" if prompt else "tpot_s"
    seconds = _seconds(fields, prompt + passes, of=of)
    times: dict[str, Any] = {}
    if prompt and passes:
        times = {"e2e_s": seconds, "output_tokens": passes + 1.0}
    elif prompt:
        times = {"ttft_s": seconds}
    else:
        times = {"tpot_s": None if seconds is None else seconds / passes, "output_tokens": float(passes)}
    return finished(
        fields,
        tool="llama-bench",
        engine="llama.cpp",
        **_machine(fields),
        **_formats(fields),
        model=_model(fields),
        load="static",
        batch=1.0,
        prompt_tokens=float(prompt) if prompt else None,
        past_tokens=float(fields.whole("n_depth", zero=True) or 0),
        statistic="mean",
        model_bytes=fields.number("model_size"),
        model_params=fields.number("model_n_params"),
        **times,
    )


def _seconds(fields: Fields, tokens: int, *, of: str) -> float | None:
    """Mean time of a row [s], which is the field `of` a run; by its speed where a version gives no time."""
    took = fields.number("avg_ns", as_=of, per=1e9)
    speed = fields.number("avg_ts")
    spread = fields.number("stddev_ns", per=1e9, zero=True)
    fields.first(["stddev_ts", "samples_ts"])
    samples = [s / 1e9 for s in fields.numbers(fields.value("samples_ns"), "samples_ns")]
    if took is None:
        if speed is None and not (fields.given("avg_ns") or fields.given("avg_ts")):
            raise fields.missing(["avg_ns"])
        return None if speed is None else tokens / speed
    agree(fields, "avg_ts", speed, tokens / took, "tokens / avg_ns", of=(of,))
    if samples:
        agree(fields, "avg_ns", took, statistics.fmean(samples), "the mean of samples_ns", of=(of,))
    if spread and spread > _SPREAD * took:
        fields.warn(
            "stddev_ns", f"repetitions differ by {spread / took:.0%} of their mean; was the machine busy or hot?"
        )
    return took


def _machine(fields: Fields) -> dict[str, Any]:
    """Hardware and number of devices."""
    gpu, cpu = fields.word("gpu_info"), fields.word("cpu_info")
    layers = fields.word("backends")
    on_cpu = not gpu or (layers or "").upper() == "CPU" or _is_zero(fields.value("n_gpu_layers"))
    if on_cpu:
        return {"hardware": cpu, "n_chips": 1 if cpu else None}
    names = [name.strip() for name in (gpu or "").split(",") if name.strip()]
    if len(set(names)) > 1:
        fields.warn("gpu_info", "different devices share the model")
    for key in ("n_cpu_moe", "no_kv_offload"):
        if str(fields.value(key)).lower() not in ("none", "0", "false"):
            fields.warn(key, "a part of the work was done by the CPU")
    return {"hardware": " + ".join(dict.fromkeys(names)) or None, "n_chips": len(names) or None}


def _is_zero(value: Any) -> bool:
    return str(value).strip() == "0"


def _model(fields: Fields) -> str | None:
    """The name of the model's file, without folders and suffix; what llama.cpp calls its type where there is none."""
    file = fields.word("model_filename")
    stem = re.sub(r"(-\d{5}-of-\d{5})?\.gguf$", "", re.split(r"[/\\]", file)[-1]) if file else ""
    kind = fields.data.get("model_type")
    return stem or (str(kind)[:200] if isinstance(kind, str) and kind else None)


def _formats(fields: Fields) -> dict[str, Any]:
    """Number formats of weights and cache."""
    keys, values = fields.format("type_k"), fields.format("type_v")
    if keys != values and keys and values:
        fields.warn("type_v", f"keys are {keys}, values {values}; the format of the cache is left open")
        keys = None
    return {"weights": _weights(fields), "kv": keys or None}


def _weights(fields: Fields) -> str | None:
    """The format in what llama.cpp calls a model's type, such as "qwen3 8B Q4_K - Medium"."""
    kind = fields.word("model_type")
    match = _QUANT.search(kind) if kind else None
    if match is None:
        return None
    base, size = match[1], _SIZES.get((match[2] or "").lower())
    for name in (f"{base}_{size}", base) if size else (base,):
        try:
            return format_of(name)
        except UnknownName:
            continue
    fields.warn("model_type", f"no number format is called {base!r} here; weights are left open")
    return None
