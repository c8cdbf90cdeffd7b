"""What engines call things: the flags of their servers and the metrics they export, by version.

Names change with versions; these are those of the versions that `roofline/engines/` describes. Metrics: vLLM 0.33.0,
v1/metrics/loggers.py and docs/usage/metrics.md; SGLang 0.5.23, its metrics collector. Flags: vLLM 0.33.0,
engine/arg_utils.py; SGLang 0.5.23, server_args.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["NAMES", "EngineNames"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineNames:
    """The words of one engine.

    Attributes
    ----------
    version : str
        The one whose words these are.
    command : str
        What starts a server; a model follows.
    flags : mapping
        Of what `Engine.varied`, a plan or a cache calls by another name.
    metrics : mapping
        Of what is watched: a histogram without its `_bucket`, `_sum` or `_count`; a counter with its `_total`.
    first_edge_s : mapping
        The lowest edge of the usual buckets of a histogram: what is below it is not told apart [s].
    kv_words : mapping
        Cache formats by the engine's own name.
    """

    version: str
    command: str
    flags: Mapping[str, str]
    metrics: Mapping[str, str]
    first_edge_s: Mapping[str, float]
    kv_words: Mapping[str, str]


NAMES: Mapping[str, EngineNames] = {
    "vllm": EngineNames(
        version="0.33.0",
        command="vllm serve",
        flags={
            "memory_fraction": "--gpu-memory-utilization", "page_tokens": "--block-size",
            "batch_tokens": "--max-num-batched-tokens", "max_seqs": "--max-num-seqs",
            "context_tokens": "--max-model-len", "kv": "--kv-cache-dtype", "graph_seqs": "--max-cudagraph-capture-size",
            "tp": "--tensor-parallel-size", "pp": "--pipeline-parallel-size", "dp": "--data-parallel-size",
            "ep": "--enable-expert-parallel",
        },
        metrics={
            "ttft": "vllm:time_to_first_token_seconds", "tpot": "vllm:request_time_per_output_token_seconds",
            "itl": "vllm:inter_token_latency_seconds", "queue": "vllm:request_queue_time_seconds",
            "prompt_tokens": "vllm:prompt_tokens_total", "generation_tokens": "vllm:generation_tokens_total",
            "kv_use": "vllm:kv_cache_usage_perc", "running": "vllm:num_requests_running",
            "waiting": "vllm:num_requests_waiting", "preemptions": "vllm:num_preemptions_total",
            "prompt_length": "vllm:request_prompt_tokens", "output_length": "vllm:request_generation_tokens",
        },
        first_edge_s={"ttft": 0.001, "tpot": 0.01},
        kv_words={"fp8": "fp8"},
    ),
    "sglang": EngineNames(
        version="0.5.23",
        command="python -m sglang.launch_server --model-path",
        flags={
            "memory_fraction": "--mem-fraction-static", "page_tokens": "--page-size",
            "batch_tokens": "--chunked-prefill-size", "max_seqs": "--max-running-requests",
            "context_tokens": "--context-length", "kv": "--kv-cache-dtype", "graph_seqs": "--cuda-graph-max-bs-decode",
            "tp": "--tp-size", "pp": "--pp-size", "dp": "--attn-dp-size", "ep": "--ep-size",
        },
        metrics={
            "ttft": "sglang:time_to_first_token_seconds", "tpot": "sglang:request_time_per_output_token_seconds",
            "itl": "sglang:inter_token_latency_seconds", "queue": "sglang:queue_time_seconds",
            "prompt_tokens": "sglang:prompt_tokens_total", "generation_tokens": "sglang:generation_tokens_total",
            "kv_use": "sglang:token_usage", "running": "sglang:num_running_reqs", "waiting": "sglang:num_queue_reqs",
            "preemptions": "sglang:num_retracted_requests_total", "requests": "sglang:num_requests_total",
        },
        first_edge_s={"ttft": 0.1, "tpot": 0.002},
        kv_words={"fp8": "fp8_e4m3"},
    ),
}  # fmt: skip
"""By the id of the engine."""
