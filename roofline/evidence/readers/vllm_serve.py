"""The result files of `vllm bench serve` (and of the script it came from): one JSON object a run, runs appended."""

from __future__ import annotations

import math
from typing import Any

from roofline.evidence.readers.checks import finished
from roofline.evidence.readers.fields import Fields
from roofline.evidence.readers.names import engine_named
from roofline.evidence.readers.served import arrivals, latencies, totals
from roofline.evidence.runs import Run

__all__ = ["MARKS", "parallel", "read_run"]

MARKS = (
    "model_id", "tokenizer_id", "endpoint_type", "num_prompts", "burstiness", "request_goodput", "total_token_throughput",
    "mean_e2el_ms", "median_e2el_ms", "p99_e2el_ms", "mean_ttft_ms", "median_ttft_ms", "mean_tpot_ms", "median_tpot_ms",
    "output_throughput", "request_throughput",
)  # fmt: skip

_TP = ("tp", "tp_size", "tensor_parallel_size", "tensor_parallel")
_PP = ("pp", "pp_size", "pipeline_parallel_size", "pipeline_parallel")
_EP = ("ep", "ep_size", "expert_parallel_size")


def read_run(fields: Fields) -> Run:
    """The run of one object.  Chips, formats and parallel ways come from the metadata the user added, where there are any.

    TPOT here is (latency − TTFT)/(N − 1), as the client works it out; times are in ms.
    """
    counted = totals(fields, total_rate=("total_token_throughput", "total_throughput"))
    times = latencies(fields, spelled={"e2e": "e2el"}, suffix="_ms", per=1e3)
    asked = fields.whole("num_prompts") or counted.completed
    how = arrivals(fields, n_requests=asked)
    if "ttft_s" not in times and "tpot_s" not in times and counted.output_tokens is None:
        fields.note("no first tokens and no output tokens: a pooling model, or a client that did not stream")
    return finished(
        fields,
        tool="vllm bench serve",
        model=fields.word("model_id", "model"),
        hardware=fields.word("hardware", "gpu", "gpu_type", "gpu_name", "device"),
        engine=engine_named(fields.word("engine")) or engine_named(fields.word("backend", "endpoint_type")),
        weights=fields.format("weights", "quantization", "precision", "dtype"),
        kv=fields.format("kv", "kv_cache_dtype"),
        **parallel(fields),
        **how,
        prompt_tokens=counted.prompt_tokens,
        output_tokens=counted.output_tokens,
        output_tokens_per_s=counted.output_tokens_per_s,
        total_tokens_per_s=counted.total_tokens_per_s,
        request_per_s=counted.request_per_s,
        **times,
    )


def parallel(fields: Fields) -> dict[str, Any]:
    """Parallel ways and chips of a `Run`, from keys as engines spell them; expert ranks are among the others."""
    ways = {"tp": fields.whole(*_TP), "pp": fields.whole(*_PP), "ep": fields.whole(*_EP)}
    chips = fields.whole("n_chips", "num_gpus", "n_gpus", "gpu_count")
    if chips is None and ways["tp"] is not None:
        chips = math.prod(n or 1 for n in (ways["tp"], ways["pp"]))
    return {**ways, "n_chips": chips}
