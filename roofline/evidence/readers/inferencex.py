"""InferenceX aggregates (`agg_*.json`, arrays of them): times in seconds without a suffix, throughput a GPU."""

from __future__ import annotations

import math
from typing import Any

from roofline.evidence.readers.checks import agree, finished
from roofline.evidence.readers.fields import Fields
from roofline.evidence.readers.names import engine_named, format_of
from roofline.evidence.readers.served import latencies
from roofline.evidence.runs import Run

__all__ = ["MARKS", "read_run"]

MARKS = (
    "tput_per_gpu", "output_tput_per_gpu", "input_tput_per_gpu", "infmax_model_prefix", "recipe_fingerprint", "isl", "osl",
    "conc", "hw", "framework", "precision", "spec_decoding", "disagg", "is_multinode", "dp_attention", "mean_intvty",
    "median_intvty", "p99_intvty", "mean_ttft", "median_ttft", "mean_tpot", "median_tpot",
)  # fmt: skip
_DRAWN = (0.8, 1.0)  # lengths are drawn evenly from this share of isl and osl


def read_run(fields: Fields) -> Run:
    """The run of one row: `conc` users in a closed loop.  Lengths are means of what was drawn, not isl and osl."""
    isl = fields.needed("isl")
    osl = fields.needed("osl")
    users = fields.needed("conc", "max_concurrency", as_="batch")
    times = latencies(fields, spelled={"e2e": "e2el"}, suffix="", per=1.0)
    ways, split = _chips(fields)
    rates = _rates(fields, ways["n_chips"], split)
    share = _share(fields, osl)
    output = share * osl
    _speeds(fields)
    _modes(fields)
    hardware = fields.word("hw", "prefill_hw")
    return finished(
        fields,
        tool="inferencex",
        model=fields.word("model", "infmax_model_prefix"),
        hardware=hardware,
        engine=engine_named(fields.word("framework")),
        weights=_weights(fields, hardware),
        **ways,
        load="closed-loop",
        batch=float(users),
        prompt_tokens=share * isl,
        output_tokens=output,
        request_per_s=None if rates["output_tokens_per_s"] is None else rates["output_tokens_per_s"] / output,
        **rates,
        **times,
    )


def _chips(fields: Fields) -> tuple[dict[str, Any], int | None]:
    """Parallel ways and chips; and, where prefill and decode are apart, the chips that decode."""
    prefill, decode = fields.whole("num_prefill_gpu", zero=True), fields.whole("num_decode_gpu", zero=True)
    if prefill is not None or decode is not None:
        fields.first([k for k in map(str, fields.data) if k.startswith(("prefill_", "decode_")) and k != "prefill_hw"])
        chips = (prefill or 0) + (decode or 0)
        return {"tp": None, "pp": None, "ep": None, "n_chips": chips or None}, decode or chips or None
    ways = {"tp": fields.needed("tp"), "pp": fields.whole("pp"), "ep": fields.whole("ep")}
    context = fields.whole("pcp_size")
    fields.first(["dcp_size"])  # shares the chips of tp
    return {**ways, "n_chips": math.prod(n or 1 for n in (ways["tp"], ways["pp"], context))}, None


def _rates(fields: Fields, chips: int | None, decoding: int | None) -> dict[str, Any]:
    """Tokens a second of the whole deployment: what is given is a chip's, output that of the chips that decode."""
    total = fields.number("tput_per_gpu", as_="total_tokens_per_s")
    output = fields.number("output_tput_per_gpu", as_="output_tokens_per_s")
    fields.first(["input_tput_per_gpu"])
    if chips is None:
        if total is not None or output is not None:
            fields.warn("tput_per_gpu", "the number of GPUs is not there; throughput is not used")
        return {"output_tokens_per_s": None, "total_tokens_per_s": None}
    return {
        "output_tokens_per_s": None if output is None else output * (decoding or chips),
        "total_tokens_per_s": None if total is None else total * chips,
    }


def _share(fields: Fields, osl: int) -> float:
    """The mean share of isl and osl that was drawn: as the times say, N = 1 + (latency − TTFT)/TPOT, else 0.9.

    Assumes that prompts were drawn from the same share as outputs.
    """
    ttft, tpot, e2e = (fields.number(f"mean_{name}") for name in ("ttft", "tpot", "e2el"))
    usual = sum(_DRAWN) / 2.0
    said = (1.0 + (e2e - ttft) / tpot) / osl if ttft and tpot and e2e else math.nan
    share = next((known for known in (usual, 1.0) if abs(said - known) <= 0.03), said)
    if not 0.4 <= share <= 1.03:
        share = usual
        fields.warn(
            "osl", f"what was drawn is not said; {usual:g} of isl and osl assumed ({_DRAWN[0]:g} to {_DRAWN[1]:g})"
        )
    return share


def _speeds(fields: Fields) -> None:
    """`…_intvty` is one over the TPOT of the same name: anything else is a TPOT in another unit."""
    for key in [k for k in map(str, fields.data) if k.endswith("_intvty")]:
        of = key.removesuffix("intvty") + "tpot"
        speed, tpot = fields.number(key), fields.number(of)
        if not key.startswith("std_"):
            agree(fields, key, speed, None if tpot is None else 1.0 / tpot, f"1 / {of}", of=("tpot_s",))


def _modes(fields: Fields) -> None:
    """What makes a run another thing than one engine that runs one model's passes."""
    drafting = fields.value("spec_decoding", "mtp")
    if isinstance(drafting, str) and drafting.lower() not in ("off", "false"):
        fields.warn("spec_decoding", f"speculative decoding ({drafting[:20]}): TPOT is not the time of a pass")
    for key, what in (
        ("disagg", "prefill and decode ran on different chips"),
        ("dp_attention", "attention is data-parallel"),
    ):
        if str(fields.value(key)).lower() == "true":
            fields.warn(key, what)
    fields.first(["is_multinode"])


def _weights(fields: Fields, hardware: str | None) -> str | None:
    """The number format of a precision; "fp4" is MXFP4 on AMD's chips and NVFP4 on NVIDIA's."""
    if str(fields.data.get("precision")).lower() == "fp4" and (hardware or "").lower().startswith("mi"):
        fields.first(["precision"])
        return format_of("mxfp4")
    return fields.format("precision")
