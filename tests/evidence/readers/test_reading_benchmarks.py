"""Files of every tool, read to one form. The examples are invented; what is expected of them is worked out here."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from roofline.evidence.readers import read, sniff
from roofline.evidence.runs import Run

FILES = Path(__file__).parent / "files"
BENCHMARKS = sorted(path for path in FILES.iterdir() if path.suffix != ".log")


def json_of(name: str) -> Any:
    return json.loads((FILES / name).read_text(encoding="utf-8"))


def written(tmp_path: Path, data: Any, name: str = "run.json") -> Path:
    path = tmp_path / name
    path.write_text(data if isinstance(data, str) else json.dumps(data, indent=2), encoding="utf-8")
    return path


def one(path: Path) -> Run:
    (run,) = read(path)
    return run


@pytest.mark.parametrize("path", BENCHMARKS, ids=lambda path: path.name)
def test_an_honest_file_is_read_without_a_warning(path: Path) -> None:
    for run in read(path):
        assert run.warnings == ()
        assert run.doubtful == ()
        assert run.where.startswith(f"{path}:")


@pytest.mark.parametrize("path", BENCHMARKS, ids=lambda path: path.name)
def test_the_name_of_a_file_does_not_matter(path: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "results.txt"
    shutil.copy(path, elsewhere)
    assert sniff(elsewhere) == sniff(path) == read(path)[0].tool
    for there, here in zip(read(elsewhere), read(path), strict=True):
        assert (there.ttft_s, there.tpot_s, there.e2e_s) == (here.ttft_s, here.tpot_s, here.e2e_s)


# vLLM


def test_one_user_of_vllm() -> None:
    """32 requests of 1,024 + 128 tokens in 31.84 s: 4,096 output tokens, 36,864 in all."""
    run = one(FILES / "vllm-bench.json")
    assert (run.tool, run.engine, run.load, run.batch, run.rate_per_s) == (
        "vllm bench serve",
        "vllm",
        "closed-loop",
        1,
        None,
    )
    assert (run.model, run.hardware) == ("meta-llama/Llama-3.1-8B-Instruct", "H100-SXM-80GB")
    assert (run.tp, run.n_chips, run.weights, run.kv) == (1, 1, "bf16", None)
    assert (run.prompt_tokens, run.output_tokens, run.past_tokens) == (1024, 128, None)
    assert (run.statistic, run.ttft_s, run.tpot_s, run.e2e_s) == ("median", 0.0261, 0.0076, 0.9913)
    assert run.e2e_s == pytest.approx(0.0261 + 127 * 0.0076)
    assert run.output_tokens_per_s == pytest.approx(4096 / 31.84)
    assert run.total_tokens_per_s == pytest.approx(36_864 / 31.84)
    assert run.request_per_s == pytest.approx(32 / 31.84)
    assert run.percentiles["ttft_p99_s"] == 0.0298
    assert run.percentiles["itl_p50_s"] == pytest.approx(0.00759)
    assert (run.n_decodes, run.context_tokens) == (127, 1024 + 63)  # decodes at 1,024 … 1,150
    assert "tokenizer_id" in run.ignored


def test_appended_runs_each_have_their_load() -> None:
    runs = read(FILES / "vllm-bench-appended.json")
    assert [(r.load, r.batch, r.rate_per_s) for r in runs] == [
        ("closed-loop", 1, None),
        ("closed-loop", 16, None),
        ("open-loop", None, 4.0),
    ]
    assert [r.where.rpartition(":")[2] for r in runs] == ["1", "2", "3"]


@pytest.mark.parametrize("rate", ["inf", float("inf"), None])
def test_no_limit_of_any_kind_sends_all_requests_at_once(rate: Any, tmp_path: Path) -> None:
    data = json_of("vllm-bench.json") | {"request_rate": rate, "max_concurrency": None, "median_e2el_ms": 30_000.0}
    run = one(written(tmp_path, data))
    assert (run.load, run.batch) == ("closed-loop", 32)
    assert any("all 32 requests were sent at once" in w for w in run.warnings)


def test_a_cap_on_an_open_loop_is_kept(tmp_path: Path) -> None:
    run = one(written(tmp_path, json_of("vllm-bench.json") | {"request_rate": 1.0, "max_concurrency": 8}))
    assert (run.load, run.batch, run.rate_per_s) == ("open-loop", 8, 1.0)


def test_means_stand_in_for_medians_all_together(tmp_path: Path) -> None:
    data = json_of("vllm-bench.json")
    del data["median_tpot_ms"]
    run = one(written(tmp_path, data))
    assert (run.statistic, run.ttft_s, run.tpot_s, run.e2e_s) == ("mean", 0.0264, 0.00762, 0.99414)


def test_gaps_stand_in_for_tpot_and_say_so(tmp_path: Path) -> None:
    data = {k: v for k, v in json_of("vllm-bench.json").items() if "tpot" not in k}
    run = one(written(tmp_path, data))
    assert run.tpot_s == 0.00762
    assert any("mean_itl_ms: used as TPOT" in w for w in run.warnings)


def test_lists_of_every_request_are_not_needed(tmp_path: Path) -> None:
    data = json_of("vllm-bench.json") | {"input_lens": [1000, 1048] * 16, "ttfts": [0.1] * 32, "itls": [[0.1]] * 32}
    run = one(written(tmp_path, data))
    assert run.prompt_tokens == 1024
    assert {"ttfts", "itls"} <= set(run.ignored)
    assert any("input_lens: lengths vary from 1,000 to 1,048" in w for w in run.warnings)


@pytest.mark.parametrize(
    ("backend", "engine"),
    [
        ("vllm", "vllm"),
        ("sglang", "sglang"),
        ("tensorrt-llm", "trtllm"),
        ("llama.cpp", "llama.cpp"),
        ("openai-chat", None),
    ],
)
def test_the_engine_is_the_backend_where_that_tells(backend: str, engine: str | None, tmp_path: Path) -> None:
    data = json_of("vllm-bench.json") | {"backend": backend, "endpoint_type": backend}
    assert one(written(tmp_path, data)).engine == engine


# SGLang


def test_sglang_names_the_same_things_otherwise() -> None:
    """256 requests of 32 users in 12.86 s: 32,768 output tokens, 294,912 in all."""
    first, second = read(FILES / "sglang-bench.jsonl")
    assert (second.tool, second.engine, second.load, second.batch) == (
        "sglang bench_serving",
        "sglang",
        "closed-loop",
        32,
    )
    assert (second.ttft_s, second.tpot_s) == (0.198, 0.0108)
    assert second.e2e_s == pytest.approx(1.5696)
    assert second.total_tokens_per_s == pytest.approx(294_912 / 12.86)
    assert (second.model, second.weights, second.tp, second.n_chips) == (
        "meta-llama/Llama-3.1-8B-Instruct", "bf16", 1, 1
    )  # fmt: skip
    assert second.percentiles["itl_p95_s"] == 0.022
    assert (first.batch, first.prompt_tokens, first.output_tokens) == (1, 1024, 128)


@pytest.mark.parametrize(
    ("said", "chips"), [({}, 8), ({"dp_size": 2}, 16), ({"dp_size": 8, "enable_dp_attention": True}, 8)]
)
def test_chips_of_a_server_are_its_replicas_times_its_ways(said: dict[str, Any], chips: int, tmp_path: Path) -> None:
    data = json.loads((FILES / "sglang-bench.jsonl").read_text(encoding="utf-8").splitlines()[0])
    data["server_info"] |= {"tp_size": 8} | said
    assert one(written(tmp_path, data)).n_chips == chips


def test_a_trace_is_an_open_loop(tmp_path: Path) -> None:
    data = json.loads((FILES / "sglang-bench.jsonl").read_text(encoding="utf-8").splitlines()[0])
    run = one(written(tmp_path, data | {"request_rate": "trace", "max_concurrency": None}))
    assert (run.load, run.rate_per_s, run.batch) == ("open-loop", None, None)


def test_either_spelling_of_total_throughput_will_do(tmp_path: Path) -> None:
    data = json.loads((FILES / "sglang-bench.jsonl").read_text(encoding="utf-8").splitlines()[0])
    data["total_token_throughput"] = data.pop("total_throughput")
    assert one(written(tmp_path, data)).total_tokens_per_s == pytest.approx(36_864 / 30.62)


# AIPerf


def test_aiperf_metrics_come_with_their_units(tmp_path: Path) -> None:
    """64 requests in 64.6 s, 128 tokens each; TTFT given in ms, s, µs or ns is the same TTFT."""
    data = json_of("profile_export_aiperf.json")
    for unit, per_ms in (("ms", 1.0), ("s", 1e-3), ("us", 1e3), ("ns", 1e6), ("milliseconds", 1.0)):
        given = {k: v * per_ms for k, v in data["time_to_first_token"].items() if k != "unit"} | {"unit": unit}
        run = one(written(tmp_path, data | {"time_to_first_token": given}))
        assert run.ttft_s == pytest.approx(0.0279)
        assert run.percentiles["ttft_p95_s"] == pytest.approx(0.0304)
    assert (run.tpot_s, run.e2e_s, run.statistic) == (0.00767, 1.0024, "median")
    assert (run.prompt_tokens, run.output_tokens, run.load, run.batch) == (1024, 128, "closed-loop", 1)
    assert run.output_tokens_per_s == pytest.approx(64 * 128 / 64.6)
    assert run.model == "meta-llama/Llama-3.1-8B-Instruct"


@pytest.mark.parametrize(
    ("config", "load", "batch", "rate"),
    [
        ({"loadgen": {"concurrency": 16, "request_count": 3}}, "closed-loop", 16, None),
        ({"loadgen": {"request_rate": 2.5}}, "open-loop", None, 2.5),
        ({"perf_analyzer": {"stimulus": {"concurrency": 4}}}, "closed-loop", 4, None),
        ({"phases": [{"type": "warmup", "warmup": {"concurrency": 1}}, {"concurrency": 32}]}, "closed-loop", 32, None),
        ({}, "closed-loop", None, None),
        ({"loadgen": [{"concurrency": 1}, {"concurrency": 2}]}, "closed-loop", None, None),
    ],
)
def test_load_is_found_wherever_a_version_keeps_it(
    config: Any, load: str, batch: float | None, rate: float | None, tmp_path: Path
) -> None:
    run = one(written(tmp_path, json_of("profile_export_aiperf.json") | {"input_config": config}))
    assert (run.load, run.batch, run.rate_per_s) == (load, batch, rate)
    assert bool(run.warnings) == (
        (batch is None and rate is None) or (batch or 0) > 10
    )  # one request in flight, not ten


def test_metrics_may_be_nested(tmp_path: Path) -> None:
    data = json_of("profile_export_aiperf.json")
    inner = {k: data.pop(k) for k in list(data) if isinstance(data[k], dict) and k != "input_config"}
    assert one(written(tmp_path, {"records": inner} | data)).tpot_s == 0.00767


# llama-bench


def test_rows_of_llama_bench_are_prefills_decodes_and_both() -> None:
    """Means of samples_ns: 182.1 ms, 1,275.2 ms, 236.1 ms, 1,418.0 ms, 1,462.0 ms."""
    pp, tg, deep_pp, deep_tg, both = read(FILES / "llama-bench.json")
    assert (pp.prompt_tokens, pp.past_tokens, pp.ttft_s, pp.tpot_s, pp.context_tokens) == (512, 0, 0.1821, None, None)
    assert tg.tpot_s == pytest.approx(1.2752 / 128)
    assert (tg.prompt_tokens, tg.output_tokens, tg.n_decodes, tg.context_tokens) == (None, 128, 128, 63.5)
    assert (deep_pp.past_tokens, deep_pp.ttft_s) == (4096, 0.2361)
    assert deep_tg.tpot_s == pytest.approx(1.418 / 128)
    assert deep_tg.context_tokens == 4096 + 63.5
    assert (both.e2e_s, both.ttft_s, both.tpot_s) == (1.462, None, None)
    assert (both.prompt_tokens, both.output_tokens, both.n_decodes) == (512, 129, 128)  # the prompt gives the first
    for run in (pp, tg, both):
        assert (run.load, run.batch, run.engine, run.hardware, run.n_chips) == (
            "static",
            1,
            "llama.cpp",
            "Apple M5 Max",
            1,
        )
        assert (run.model, run.weights, run.kv) == ("Qwen3-8B-Q4_K_M", "q4_k_m", "fp16")
        assert (run.model_bytes, run.model_params, run.statistic) == (5_021_210_624, 8_190_735_360, "mean")


def test_the_three_outputs_of_llama_bench_say_the_same() -> None:
    array, lines, table = (read(FILES / f"llama-bench.{suffix}") for suffix in ("json", "jsonl", "csv"))
    for runs in (lines, table):
        assert [(r.ttft_s, r.tpot_s, r.model_bytes) for r in runs] == [
            (r.ttft_s, r.tpot_s, r.model_bytes) for r in array[:2]
        ]


def row(**changes: Any) -> dict[str, Any]:
    return {**json_of("llama-bench.json")[0], **changes}


def test_an_old_build_without_depths_is_at_depth_zero(tmp_path: Path) -> None:
    old = {k: v for k, v in row().items() if k not in ("n_depth", "samples_ns", "backends")} | {"defrag_thold": -1.0}
    assert one(written(tmp_path, [old])).past_tokens == 0


def test_a_row_without_a_time_is_read_by_its_speed(tmp_path: Path) -> None:
    run = one(written(tmp_path, [{k: v for k, v in row(avg_ts=2560.0).items() if k != "avg_ns"}]))
    assert run.ttft_s == pytest.approx(512 / 2560)


@pytest.mark.parametrize(
    ("kind", "weights"),
    [
        ("llama 8B Q4_K - Medium", "q4_k_m"),
        ("llama 8B Q4_K - Small", "q4_k"),
        ("qwen3 8B Q8_0", "q8_0"),
        ("gemma3 4B BF16", "bf16"),
        ("llama 7B all F32", "fp32"),
        ("llama 7B mostly Q4_0", "q4_0"),
        ("llama 8B IQ4_XS - 4.25 bpw", "iq4_xs"),
        ("llama 8B Q5_K - Medium (guessed)", "q5_k_m"),
        ("qwen3 8B", None),
    ],
)
def test_the_format_is_in_what_llama_cpp_calls_a_model(kind: str, weights: str | None, tmp_path: Path) -> None:
    assert one(written(tmp_path, [row(model_type=kind)])).weights == weights


@pytest.mark.parametrize(
    ("said", "hardware", "chips", "warned"),
    [
        ({"gpu_info": "NVIDIA A10, NVIDIA A10", "backends": "CUDA"}, "NVIDIA A10", 2, False),
        ({"gpu_info": "NVIDIA A10, NVIDIA L4", "backends": "CUDA"}, "NVIDIA A10 + NVIDIA L4", 2, True),
        ({"gpu_info": "", "backends": "CPU", "cpu_info": "EPYC"}, "EPYC", 1, False),
        ({"gpu_info": "NVIDIA A10", "backends": "CUDA", "n_gpu_layers": 0, "cpu_info": "EPYC"}, "EPYC", 1, False),
        ({"gpu_info": "NVIDIA A10", "backends": "CUDA", "n_cpu_moe": 8}, "NVIDIA A10", 1, True),
    ],
)
def test_the_machine_is_what_did_the_work(
    said: dict[str, Any], hardware: str, chips: int, warned: bool, tmp_path: Path
) -> None:
    run = one(written(tmp_path, [row(**said)]))
    assert (run.hardware, run.n_chips, bool(run.warnings)) == (hardware, chips, warned)


# InferenceX


def test_inferencex_times_are_seconds_and_rates_are_a_gpus() -> None:
    """Mean latency 0.071 + 0.0092 · 920.6 s, so 921.6 tokens of 1,024 were drawn: 90 %."""
    run, busy = read(FILES / "agg_bmk.json")
    row = json_of("agg_bmk.json")[0]
    assert [run.prompt_tokens, run.output_tokens] == pytest.approx([921.6, 921.6])
    assert (run.ttft_s, run.tpot_s, run.statistic) == (0.068, 0.0091, "median")
    assert (run.n_chips, run.tp, run.weights, run.engine, run.hardware) == (4, 4, "fp8", "vllm", "h200")
    assert (run.load, run.batch, busy.batch) == ("closed-loop", 4, 64)
    assert run.output_tokens_per_s == pytest.approx(4 * row["output_tput_per_gpu"])
    assert run.total_tokens_per_s == pytest.approx(4 * row["tput_per_gpu"])
    assert run.request_per_s == pytest.approx(4 * row["output_tput_per_gpu"] / 921.6)


def test_gpus_are_tensor_pipeline_and_context_ways(tmp_path: Path) -> None:
    row = json_of("agg_bmk.json")[0] | {"tp": 8, "pp": 2, "pcp_size": 3, "dcp_size": 4, "ep": 8}
    run = one(written(tmp_path, [row]))
    assert run.n_chips == 48
    assert run.total_tokens_per_s == pytest.approx(48 * row["tput_per_gpu"])


def test_apart_prefill_and_decode_share_their_gpus_out(tmp_path: Path) -> None:
    row = json_of("agg_bmk.json")[0] | {"disagg": True, "num_prefill_gpu": 4, "num_decode_gpu": 12, "prefill_tp": 4}
    del row["tp"]
    run = one(written(tmp_path, [row]))
    assert (run.n_chips, run.tp) == (16, None)
    assert run.total_tokens_per_s == pytest.approx(16 * row["tput_per_gpu"])
    assert run.output_tokens_per_s == pytest.approx(12 * row["output_tput_per_gpu"])
    assert any("disagg: prefill and decode ran on different chips" in w for w in run.warnings)


def test_lengths_that_were_not_drawn_are_isl_and_osl(tmp_path: Path) -> None:
    """0.071 + 0.0092 · 1,023 = 9.4826 s: all 1,024 tokens."""
    run = one(written(tmp_path, json_of("agg_bmk.json")[0] | {"mean_e2el": 9.4826, "median_e2el": 9.38}))
    assert (run.prompt_tokens, run.output_tokens) == (1024, 1024)


@pytest.mark.parametrize(
    ("hw", "precision", "weights"),
    [("b200", "fp4", "nvfp4"), ("mi355x", "fp4", "mxfp4"), ("mi300x", "fp8", "fp8"), ("h100", "bf16", "bf16")],
)
def test_fp4_is_of_the_chip_s_own_kind(hw: str, precision: str, weights: str, tmp_path: Path) -> None:
    row = json_of("agg_bmk.json")[0] | {"hw": hw, "precision": precision}
    assert one(written(tmp_path, [row])).weights == weights


# Plain tables


def test_a_plain_table_needs_little() -> None:
    one_, eight, thirty_two = read(FILES / "my-runs.csv")
    assert (one_.tool, one_.load, one_.batch, one_.engine, one_.weights) == ("csv", "static", 1, "vllm", "bf16")
    assert (one_.ttft_s, one_.tpot_s, one_.prompt_tokens, one_.output_tokens) == (0.0261, 0.0076, 1024, 128)
    assert eight.tpot_s == pytest.approx(0.0082)  # and 8 / 976 agrees
    assert thirty_two.tpot_s == pytest.approx(32 / 2883)
    assert thirty_two.e2e_s == pytest.approx(1.9497)


@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_columns_may_be_in_any_unit_and_between_any_marks(mark: str, tmp_path: Path) -> None:
    text = "concurrency,prompt_tokens,ttft_us,tpot_s,e2e_s,ttft_p99_ms\n4,100,2500,0.01,,3.5\n".replace(",", mark)
    run = one(written(tmp_path, text))
    assert (run.load, run.batch, run.ttft_s, run.tpot_s, run.e2e_s) == ("closed-loop", 4, 0.0025, 0.01, None)
    assert run.percentiles == {"ttft_p99_s": 0.0035}


def test_speeds_are_of_the_whole_batch(tmp_path: Path) -> None:
    """Prefill: 4 · 1,000 tokens at 20,000/s is 0.2 s. Decode: 4 tokens a pass at 400/s is 10 ms."""
    run = one(written(tmp_path, "batch,prompt_tokens,prefill_tokens_per_s,decode_tokens_per_s\n4,1000,20000,400\n"))
    assert [run.ttft_s, run.tpot_s] == pytest.approx([0.2, 0.01])


def test_a_context_alone_is_the_mean_of_the_decode_passes(tmp_path: Path) -> None:
    """127 passes at 1,024 … 1,150 find 1,087 tokens in the mean."""
    run = one(written(tmp_path, "batch,context_tokens,output_tokens,tpot_ms\n1,1087,127,7.6\n"))
    assert (run.past_tokens, run.prompt_tokens, run.context_tokens) == (1024, None, 1087)


def test_a_latency_over_all_tokens_is_converted(tmp_path: Path) -> None:
    """991.3 ms over 128 tokens; without the 26.1 ms of the first, 965.2 over 127: 7.6 ms."""
    text = f"batch,prompt_tokens,output_tokens,ttft_ms,time_per_output_token_ms\n1,1024,128,26.1,{991.3 / 128!r}\n"
    assert one(written(tmp_path, text)).tpot_s == pytest.approx(0.0076)


def test_columns_of_another_name_are_ignored_aloud(tmp_path: Path) -> None:
    run = one(written(tmp_path, "batch,prompt_tokens,ttft_ms,out_tokens_per_s,colour\n1,8,30,5,red\n"))
    assert run.ignored == ("out_tokens_per_s (did you mean output_tokens_per_s?)", "colour")


# Several formats at once


def test_a_file_of_several_tools_is_read_object_by_object(tmp_path: Path) -> None:
    text = "\n".join(
        (FILES / n).read_text(encoding="utf-8") for n in ("vllm-bench.json", "sglang-bench.jsonl", "agg_bmk.json")
    )
    runs = read(written(tmp_path, text))
    assert [r.tool for r in runs] == ["vllm bench serve"] + 2 * ["sglang bench_serving"] + 2 * ["inferencex"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_redirected_file_may_begin_with_a_mark(encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "bench.json"
    path.write_text((FILES / "llama-bench.json").read_text(encoding="utf-8"), encoding=encoding)
    assert len(read(path)) == 5
