"""Lines of engines' logs: what they say of weights, cache and requests, in bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from roofline.errors import SpecError
from roofline.evidence.readers import read, read_log, sniff
from roofline.evidence.runs import Log

FILES = Path(__file__).parent / "files"
MIB, GIB = 2.0**20, 2.0**30


def log_of(tmp_path: Path, text: str) -> Log:
    path = tmp_path / "server.log"
    path.write_text(text, encoding="utf-8")
    return read_log(path)


def test_vllm_says_gib_tokens_and_requests() -> None:
    log = read_log(FILES / "vllm.log")
    assert (log.engine, log.warnings) == ("vllm", ())
    assert log.weight_bytes == pytest.approx(14.9889 * GIB)
    assert log.kv_bytes == pytest.approx(54.60 * GIB)
    assert (log.kv_tokens, log.max_concurrency, log.context_tokens_of_concurrency) == (447_280, 3.41, 131_072)


def test_sglang_writes_gb_and_means_gib() -> None:
    """442,368 tokens of 128 KiB (32 layers, 8 heads of 128, 2 bytes, keys and values) are 54 GiB."""
    log = read_log(FILES / "sglang.log")
    assert (log.engine, log.kv_tokens) == ("sglang", 442_368)
    assert log.weight_bytes == pytest.approx(15.11 * GIB)
    assert log.kv_bytes == 54 * GIB == 442_368 * 131_072


def test_llama_cpp_sums_what_one_process_holds() -> None:
    """8,192 cells of 36 layers, 8 heads of 128, 2 bytes, keys and values: 1,152 MiB."""
    log = read_log(FILES / "llama.cpp.log")
    assert (log.engine, log.kv_tokens) == ("llama.cpp", 8192)
    assert log.kv_bytes == 1152 * MIB == 8192 * 36 * 8 * 128 * 2 * 2
    assert log.weight_bytes == pytest.approx(4.68 * GIB)
    assert log.compute_buffer_bytes == 304.75 * MIB  # the device's; the CPU's is not its own memory


def test_tensorrt_llm_says_blocks_too() -> None:
    """7,177 blocks of 64 tokens."""
    log = read_log(FILES / "trtllm.log")
    assert (log.engine, log.n_blocks, log.kv_tokens) == ("trtllm", 7177, 7177 * 64)
    assert log.weight_bytes == 15_325 * MIB
    assert log.kv_bytes == pytest.approx(56.07 * GIB)


def test_old_lines_are_known_too(tmp_path: Path) -> None:
    old = (
        "llm_load_print_meta: model size  = 3.56 GiB (4.54 BPW)\nllama_new_context: KV self size  = 256.00 MiB, K (f16)"
    )
    log = log_of(tmp_path, old)
    assert (log.kv_bytes, log.weight_bytes) == (256 * MIB, 3.56 * GIB)
    log = log_of(tmp_path, "Loading model weights took 14.96 GB\n# GPU blocks: 27954, # CPU blocks: 2048\n")
    assert (log.weight_bytes, log.n_blocks) == (14.96 * GIB, 27_954)
    log = log_of(
        tmp_path,
        "[TensorRT-LLM][INFO] Allocate 60204703744 bytes for k/v cache. \nUsing 459328 tokens in paged KV cache.",
    )
    assert (log.kv_bytes, log.kv_tokens) == (60_204_703_744, 459_328)


def test_pools_of_windowed_layers_add_up(tmp_path: Path) -> None:
    lines = (
        "llama_kv_cache: size = 80.00 MiB ( 8192 cells, 5 layers, 1/1 seqs), K (f16): 40.00 MiB, V (f16): 40.00 MiB\n"
        "llama_kv_cache: size = 68.00 MiB ( 1536 cells, 29 layers, 1/1 seqs), K (f16): 34.00 MiB, V (f16): 34.00 MiB\n"
        "llama_memory_recurrent: size = 50.25 MiB ( 1 cells, 32 layers, 1 seqs)\n"
    )
    log = log_of(tmp_path, lines)
    assert (log.kv_bytes, log.state_bytes) == (148 * MIB, 50.25 * MIB)
    assert log.kv_tokens == 8192  # a windowed layer holds fewer of the same tokens


def test_ranks_repeat_a_line_and_do_not_add_up(tmp_path: Path) -> None:
    line = "[2026-01-01 00:00:00 TP{}] KV Cache is allocated. #tokens: 1000, K size: 2.50 GB, V size: 2.50 GB\n"
    state = "[2026-01-01 00:00:00 TP{}] Mamba Cache is allocated. conv_state size: 0.25GB, ssm_state size: 1.75GB\n"
    log = log_of(tmp_path, "".join((line + state).replace("{}", str(rank)) for rank in range(4)))
    assert (log.kv_bytes, log.state_bytes, log.warnings) == (5 * GIB, 2 * GIB, ())


def test_ranks_that_differ_are_said(tmp_path: Path) -> None:
    lines = "(Worker_TP0) Available KV cache memory: 50.00 GiB\n(Worker_TP1) Available KV cache memory: 40.00 GiB\n"
    log = log_of(tmp_path, lines)
    assert log.kv_bytes == 40 * GIB
    assert "kv_bytes: ranks differ" in log.warnings[0]


def test_the_last_of_several_starts_counts(tmp_path: Path) -> None:
    start = "vLLM API server version 0.16.0\nModel loading took {} GiB\nGPU KV cache size: {} tokens\n"
    log = log_of(tmp_path, start.format("15.0", "1,000") + start.format("7.5", "90,000"))
    assert (log.weight_bytes, log.kv_tokens) == (7.5 * GIB, 90_000)
    assert "2 starts" in log.warnings[0]


def test_a_log_is_told_from_a_benchmark() -> None:
    for name in ("vllm.log", "sglang.log", "llama.cpp.log", "trtllm.log"):
        assert sniff(FILES / name) == "engine log"
        with pytest.raises(SpecError, match="an engine's log"):
            read(FILES / name)


@pytest.mark.parametrize("text", ["hello\n", "GPU KV cache size: many tokens\n", '{"a": 1}'])
def test_a_text_without_such_lines_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="expected the log of vllm, sglang, trtllm or"):
        log_of(tmp_path, text)


def test_bytes_that_are_no_text_do_not_spoil_a_log(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_bytes(b"\xff\xfa progress \x80\n" + (FILES / "vllm.log").read_bytes())
    assert read_log(path).kv_tokens == 447_280
