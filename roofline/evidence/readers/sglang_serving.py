"""The JSON lines of SGLang's `bench_serving`: one object a run, one run appended after another."""

from __future__ import annotations

from roofline.evidence.readers.checks import finished
from roofline.evidence.readers.fields import Fields
from roofline.evidence.readers.names import engine_named
from roofline.evidence.readers.served import arrivals, latencies, totals
from roofline.evidence.readers.vllm_serve import parallel
from roofline.evidence.runs import Run

__all__ = ["MARKS", "read_run"]

MARKS = (
    "server_info", "total_throughput", "input_throughput", "accept_length", "total_output_tokens_retokenized",
    "total_input_text_tokens", "sharegpt_output_len", "random_input_len", "random_output_len", "random_range_ratio",
    "mean_e2e_latency_ms", "median_e2e_latency_ms", "p99_e2e_latency_ms", "dataset_name", "concurrency",
    "mean_ttft_ms", "median_ttft_ms", "mean_tpot_ms", "median_tpot_ms", "output_throughput", "request_throughput",
)  # fmt: skip


def read_run(fields: Fields) -> Run:
    """The run of one object.  What was served, and how, is taken from `server_info` where the server gave it."""
    counted = totals(fields, total_rate=("total_throughput", "total_token_throughput"))
    times = latencies(fields, spelled={"e2e": "e2e_latency"}, suffix="_ms", per=1e3)
    how = arrivals(fields, n_requests=fields.whole("num_prompts") or counted.completed)
    info = fields.value("server_info")
    server = Fields(info if isinstance(info, dict) else {}, fields.place)
    ways = parallel(server)
    dp = server.whole("dp_size") or 1
    if dp > 1 and ways["n_chips"] is not None:
        attention = server.value("enable_dp_attention") is True  # then the ranks are among those of tp
        ways["n_chips"] *= 1 if attention else dp
        fields.warn("server_info", f"{dp} data-parallel {'attention ranks' if attention else 'replicas'}")
    accept = fields.number("accept_length", zero=True)
    if accept is not None and accept > 1:
        fields.warn("accept_length", f"speculative decoding: {accept:.3g} tokens a pass")
    if "shared-prefix" in (fields.word("dataset_name") or ""):
        fields.warn("dataset_name", "prompts share a prefix, which is cached: TTFT is not that of the whole prompt")
    model = server.word("model_path", "served_model_name") or fields.word("model", "model_id")
    weights = server.format("quantization") or server.format("dtype")
    kv = server.format("kv_cache_dtype")
    fields.adopt(server)
    return finished(
        fields,
        tool="sglang bench_serving",
        model=model,
        hardware=fields.word("hardware", "gpu", "gpu_type", "gpu_name"),
        engine=engine_named(fields.word("backend")),
        weights=weights,
        kv=kv,
        **ways,
        **how,
        prompt_tokens=counted.prompt_tokens,
        output_tokens=counted.output_tokens,
        output_tokens_per_s=counted.output_tokens_per_s,
        total_tokens_per_s=counted.total_tokens_per_s,
        request_per_s=counted.request_per_s,
        **times,
    )
