"""The levers on the command line: every option says what the library says, on every command, and refuses by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import roofline as rl
from roofline.views.cli import run

LLAMA = "llama-3.1-8b"
GIB = 2**30


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert run([*arguments, "--json"]) == 0
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    body = json.loads(out)
    assert isinstance(body, dict)
    return body


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(list(arguments)) == 0
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return captured.out


def deployed(**more: Any) -> rl.Deployment:
    return rl.Deployment(model=rl.model(LLAMA), hardware=rl.hardware("h100-sxm-80gb"), **more)


# predict


def test_predict_takes_an_engine_and_its_settings(capsys: pytest.CaptureFixture[str]) -> None:
    body = answer(
        capsys, "predict", LLAMA, "h100", "--prompt", "5000", "--engine", "vllm", "--chunk", "1024", "--page", "32",
        "--memory-fraction", "0.8", "--prefix-hit", "0.5", "--batch", "4",
    )  # fmt: skip
    engine = rl.engine("vllm").varied(batch_tokens=1024, page_tokens=32, memory_fraction=0.8)
    p = rl.predict(deployed(engine=engine), prompt_tokens=5000, output_tokens=256, batch=4, prefix_tokens=2500)
    assert body["engine"] == "vllm"
    assert body["evidence_regime"] == "measured"
    assert "vLLM" in body["evidence"]
    assert body["prefix_tokens"] == 2496  # whole pages of 32
    assert body["prefill_passes"] == 10  # ceil(4 * 2504 / 1024)
    for name in ("ttft_s", "tpot_s", "ttft_floor_s", "e2e_s"):
        assert body[name] == getattr(p, name), name
    assert body["max_batch"] == p.memory.max_batch


def test_predict_takes_drafts(capsys: pytest.CaptureFixture[str]) -> None:
    body = answer(capsys, "predict", LLAMA, "h100", "--draft", "llama-3.2-1b:3:0.5", "--output", "2")
    assert body["drafter"] == "draft_model"
    assert body["tokens_per_round"] == 1 + 0.5 + 0.25 + 0.125
    assert body["tpot_s"] == pytest.approx((body["draft_s"] + body["verify_s"]) / 1.875)
    assert body["other_bytes_per_chip"] > 2 * 1.23e9  # the draft's 1.24 billion weights in 16 bit, and its cache
    assert "3 drafts by llama-3.2-1b" in said(capsys, "predict", LLAMA, "h100", "--draft", "llama-3.2-1b:3:0.5")


def test_predict_takes_offloading(capsys: pytest.CaptureFixture[str]) -> None:
    body = answer(capsys, "predict", LLAMA, "h100", "--offload", "host:0.5", "--host-bandwidth", "50 GB/s")
    # half of 32 layers and the head: (8,030,261,248 - 128,256 * 4096 - 65 * 4096) weights of 2 B, at 50 GB/s
    moved = 0.5 * 2 * (8_030_261_248 - 128_256 * 4096 - 65 * 4096)
    plain = answer(capsys, "predict", LLAMA, "h100")
    assert body["tpot_s"] - plain["tpot_s"] == pytest.approx(moved / 50e9, rel=1e-9)
    assert plain["weight_bytes_per_chip"] - body["weight_bytes_per_chip"] == pytest.approx(moved)
    assert body["tpot_bound"] == "tier"
    assert "memory it is offloaded to" in said(capsys, "predict", LLAMA, "h100", "--offload", "host:0.5")


def test_predict_takes_two_pools(capsys: pytest.CaptureFixture[str]) -> None:
    split = ("predict", LLAMA, "--split", "prefill=h100:2,decode=h200:1", "--batch", "32")
    body = answer(capsys, *split)
    assert (body["prefill_hardware"], body["decode_hardware"]) == ("h100-sxm-80gb", "h200-sxm-141gb")
    assert (body["n_prefill"], body["n_decode"], body["decode_batch"]) == (2, 1, 32)
    assert body["moved_bytes"] == 2048 * 131_072
    assert body["ttft_s"] == pytest.approx(body["prefill_s"] + body["exposed_s"])
    out = said(capsys, *split)
    for words in ("prefill: 1 × h100-sxm-80gb", "Transfer", "Both pools are as busy at"):
        assert words in out


def test_plans_and_stages(capsys: pytest.CaptureFixture[str]) -> None:
    body = answer(capsys, "predict", "llama-3.1-70b", "h100", "--tp", "4", "--stages", "41,39")
    assert body["n_chips"] == 8
    out = said(capsys, "predict", "llama-3.1-70b", "h100", "--tp", "4", "--pp", "2")
    assert "8 × h100-sxm-80gb (tp 4, pp 2)" in out


# memory


def test_memory_gives_the_four_kinds_of_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("memory", LLAMA, "h100", "--engine", "vllm", "--context", "8000", "--batch", "16")
    body = answer(capsys, *asked)
    assert body["kv_bytes"] == 16 * 8000 * 131_072  # logical
    assert body["used_bytes_per_chip"] == body["weight_bytes_per_chip"] + body["kv_bytes_per_chip"]  # resident
    assert body["allocated_kv_bytes_per_chip"] == 16 * 8000 * 131_072  # 500 whole pages of 16 each
    assert body["streamed_bytes_per_chip"] > body["kv_bytes"] + 15e9  # weights but for the table, and the cache
    assert body["kv_tokens"] * 131_072 <= body["kv_budget_bytes_per_chip"]
    out = said(capsys, *asked)
    assert "vLLM may use 72.9 GiB of 79.6 GiB, which leaves" in out
    assert "before PagedAttention" in out


def test_memory_says_what_to_change(capsys: pytest.CaptureFixture[str]) -> None:
    out = said(capsys, "memory", "llama-3.1-70b", "h100", "--engine", "vllm", "--batch", "4")
    assert "Would fit: 4-bit weights (awq); tp 4 (4 chips)" in out
    assert run(["memory", "llama-3.1-70b", "h100", "--check"]) == 4
    capsys.readouterr()


def test_a_shared_beginning_is_held_once(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("memory", LLAMA, "h100", "--batch", "64", "--context", "4096")
    alone, shared = answer(capsys, *asked), answer(capsys, *asked, "--shared", "2048")
    assert (alone["kv_bytes"] - shared["kv_bytes"]) / GIB == 15.75  # 63 copies of 256 MiB


# explain, plot


def test_explain_shows_the_last_chunk_and_the_verification(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("explain", LLAMA, "h100", "--prompt", "5000", "--chunk", "2048", "--draft", "ngram:3:0.5")
    out = said(capsys, *asked)
    assert "the last of 3 passes over a prompt: 904 new tokens after 4,096" in out
    assert "1 × 4 new tokens after 5,000: 3 drafts to verify" in out
    body = answer(capsys, *asked)
    q = next(row for row in body["prefill"] if row["name"] == "q_proj")
    assert q["flops"] == 32 * 2 * 904 * 4096 * 4096
    assert {"prefill", "decode"} <= set(body)
    tier = said(capsys, "explain", LLAMA, "h100", "--offload", "host:0.25", "--phase", "decode")
    assert "of weights lie in another memory, read at 63.0 GB/s" in tier


def test_explain_shows_a_draft_model_s_pass(capsys: pytest.CaptureFixture[str]) -> None:
    out = said(capsys, "explain", LLAMA, "h100", "--draft", "llama-3.2-1b:3:0.5", "--phase", "decode")
    assert "draft: llama-3.2-1b on h100-sxm-80gb" in out


@pytest.mark.parametrize("kind", ["roofline", "latency", "without-flash"])
def test_plot_takes_the_levers(capsys: pytest.CaptureFixture[str], tmp_path: Path, kind: str) -> None:
    out = tmp_path / "x.svg"
    said(
        capsys, "plot", kind, LLAMA, "h100", "--engine", "vllm", "--chunk", "2048", "--prefix-hit", "0.5", "--draft",
        "ngram:4:0.6", "--out", str(out),
    )  # fmt: skip
    drawn = out.read_text(encoding="utf-8")
    assert out.stat().st_size > 10_000
    assert "<svg" in drawn


def test_a_picture_says_that_what_is_offloaded_binds(capsys: pytest.CaptureFixture[str]) -> None:
    d = rl.Deployment(model=rl.model(LLAMA), hardware=rl.hardware("rtx-4090"), weights="q4_k_m", offload="host:0.5")
    roof, ttft = rl.plot.roofline(d, batch=1), rl.plot.ttft_vs_prompt(d, batch=1)
    assert roof.get_title(loc="left").startswith("Decode is offload-bound on rtx-4090")
    written = {text.get_text() for text in ttft.texts}
    assert {"offload-bound", "compute-bound"} <= written
    assert "memory-bound" not in written


# levers, cost


def test_levers_prints_a_row_a_lever_and_the_ladder(capsys: pytest.CaptureFixture[str]) -> None:
    out = said(capsys, "levers", "llama-3-8b", "h100", "m5-max")
    for row in ("baseline", "as if MHA", "8-bit KV cache", "tp 8", "half of the weights in host memory", "n-gram"):
        assert row in out
    for rung in ("32.0 MiB", "8.00 MiB", "4.00 MiB", "2.00 MiB", "2.25 MiB"):  # K a layer at 4096 tokens
        assert rung in out
    assert "TPOT h100-sxm-80gb" in out
    assert "TPOT m5-max-40c" in out


def test_levers_json_has_rows_and_rungs(capsys: pytest.CaptureFixture[str]) -> None:
    body = answer(capsys, "levers", "llama-3-8b", "h100")
    assert body["levers"][0]["lever"] == "baseline"
    rungs = [rung["k_bytes_per_layer"] / 2**20 for rung in body["cache_ladder"]["rungs"]]
    assert rungs == [32, 8, 4, 2, 2.25]


@pytest.mark.parametrize(
    "model", ["gpt-2", "whisper-large-v3", "deepseek-v3", "qwen3-next-80b-a3b", "deepseek-v4-flash"]
)
def test_levers_of_models_of_every_kind(capsys: pytest.CaptureFixture[str], model: str) -> None:
    assert "baseline" in said(capsys, "levers", model, "h200")


def test_cost_divides_the_price_of_the_time_by_the_tokens(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("cost", LLAMA, "h100", "--price", "2.50@2026-11-09", "--utilisation", "50%", "--batch", "32")
    body = answer(capsys, *asked)
    p = rl.predict(deployed(), prompt_tokens=2048, output_tokens=256, batch=32)
    hour = 2.5 / 3600 / 0.5
    assert body["input_usd_per_mtok"] == pytest.approx(hour * float(p.ttft_s) / (32 * 2048) * 1e6)
    assert body["output_usd_per_mtok"] == pytest.approx(hour * 255 * float(p.tpot_s or 0) / (32 * 256) * 1e6)
    assert body["input_j_per_token_max"] == pytest.approx(700 * float(p.ttft_s) / (32 * 2048))
    assert "2.50 USD an hour (given, 2026-11-09)" in said(capsys, *asked)
    against = said(capsys, *asked, "--api", "0.20/0.80@2026-11-01")
    assert "costs less than that API where it is busy over" in against


def test_a_chip_that_cannot_offload_hides_none_that_can(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["predict", LLAMA, "h100", "m5-max", "--offload", "host:0.5"]) == 0
    captured = capsys.readouterr()
    assert captured.err.startswith("left out: host: m5-max-40c")
    assert "h100-sxm-80gb" in captured.out


def test_a_lever_that_cannot_be_evaluated_hides_none_that_can(capsys: pytest.CaptureFixture[str]) -> None:
    out = said(capsys, "levers", LLAMA, "h100", "-p", "128k", "-b", "2048")
    assert "8-bit KV cache" in out
    assert "prompts in chunks" not in out
    assert "baseline" in said(capsys, "levers", "flan-t5-base", "h100")


# What is refused


@pytest.mark.parametrize(
    ("arguments", "needles"),
    [
        (["predict", LLAMA, "h100", "--engine", "vlm"], ("vlm", "did you mean vllm", "sglang")),
        (["predict", LLAMA, "h100", "--offload", "hots:0.5"], ("hots:0.5", "did you mean host")),
        (["predict", LLAMA, "h100", "--offload", "host:2"], ("from 0 to 1",)),
        (["predict", LLAMA, "h100", "--offload", "host:0.5:cash"], ("what: weights, experts, kv",)),
        (["predict", LLAMA, "h100", "--offload", "host:0.5:experts"], ("no experts", "use what weights")),
        (["predict", LLAMA, "m5-max", "--offload", "host:0.5"], ("share one memory",)),
        (["predict", LLAMA, "h100", "--host-bandwidth", "50 GB/s"], ("--offload host:0.5",)),
        (["predict", LLAMA, "h100", "--offload", "host:0.5", "--host-bandwidth", "50"], ("without a unit",)),
        (["predict", LLAMA, "h100", "--draft", "llama-3.2-1b"], ("WHO:DRAFTS:ACCEPTANCE", "ngram:4:0.5")),
        (["predict", LLAMA, "h100", "--draft", "lama-3.2-1b:4:0.7"], ("lama-3.2-1b", "did you mean llama-3.2-1b")),
        (["predict", LLAMA, "h100", "--draft", "ngram:4:1.7"], ("ngram:4:1.7",)),
        (["predict", LLAMA, "h100", "--draft", "mtp:1:0.8"], ("no mtp", "deepseek-v3")),
        (["predict", LLAMA, "--split", "prefill=h100"], ("prefill=CHIP:N,decode=CHIP:N",)),
        (["predict", LLAMA, "--split", "prefill=h100:1,decode=h20000:1"], ("h20000",)),
        (["predict", LLAMA, "--tp", "2", "--split", "prefill=h100:1,decode=h100:2"], ("a replica takes 2",)),
        (["predict", LLAMA, "h100", "--prefix-hit", "1.5"], ("--prefix-hit", "from 0 to 1")),
        (["predict", LLAMA, "h100", "--prefix-hit", "half"], ("--prefix-hit", "half")),
        (["predict", LLAMA, "h100", "--prefix-hit", "1..2%"], ("--prefix-hit", "1..2%")),
        (["memory", LLAMA, "h100", "--prefix-hit", "banana"], ("--prefix-hit", "banana")),
        (["memory", LLAMA, "m5-max", "--offload", "host:0.5"], ("share one memory",)),
        (["memory", LLAMA, "--tp", "2", "--split", "prefill=h100:3,decode=h200"], ("a replica takes 2",)),
        (["predict", LLAMA, "m5-max", "--split", "prefill=h100,decode=h200"], ("leave m5-max out",)),
        (["predict", LLAMA, "--split", "prefill=h100,decode=h200", "--images", "3"], ("leave --images and --shared out",)),
        (["predict", LLAMA, "h100", "-p", "100000", "--chunk", "1", "--pp", "8"], ("--chunk",)),
        (["predict", LLAMA, "h100", "--prefix-hit", "4000"], ("at most the prompt of 2,048",)),
        (["predict", LLAMA, "h100", "--shared", "4000"], ("shared_tokens", "at most the prompt")),
        (["predict", LLAMA, "h100", "--chunk", "0"], ("batch_tokens", "got 0")),
        (["predict", LLAMA, "h100", "--page", "-1"], ("page_tokens", "got -1")),
        (["predict", LLAMA, "h100", "--memory-fraction", "1.5"], ("memory_fraction", "1.5")),
        (["predict", LLAMA, "h100", "--memory-fraction", "nan"], ("memory_fraction", "nan")),
        (["predict", LLAMA, "h100", "--tp", "3"], ("tp=3", "use tp 1, 2, 4, 8, 16, 32")),
        (["predict", LLAMA, "h100", "--stages", "20,20"], ("add up to the 32 layers",)),
        (["predict", LLAMA, "h100", "--prompt", "1000000000", "--chunk", "1"], ("passes", "--chunk")),
        (["memory", LLAMA], ("HARDWARE",)),
        (["levers", LLAMA, "h100", "--split", "prefill=h100:1,decode=h100:1"], ("leave --split out",)),
        (["cost", LLAMA, "h100", "--utilisation", "0.5"], ("--price", "2.50@2026-11-09")),
        (["cost", LLAMA, "h100", "--price", "2.5@2026-11-09"], ("--utilisation", "--rate")),
        (["cost", LLAMA, "h100", "--price", "2.5@yesterday", "--utilisation", "0.5"], ("date", "yesterday")),
        (["cost", LLAMA, "h100", "--price", "low", "--utilisation", "1e-320"], ("utilisation", "1e-09")),
        (["cost", LLAMA, "h100", "--price", "low", "--rate", "1e-320"], ("rate_per_s", "1e-09")),
        (["cost", LLAMA, "m5-max", "--price", "low", "--utilisation", "0.5"], ("none on record",)),
        (["cost", LLAMA, "h100", "--price", "2@2026-11-09", "--rate", "1000"], ("more than this replica does",)),
        (["cost", LLAMA, "h100", "--price", "2@2026-11-09", "--utilisation", "0.5", "--api", "3"], ("IN/OUT@DAY",)),
    ],
    ids=lambda value: " ".join(value[1:]) if isinstance(value, list) else "",
)  # fmt: skip
def test_what_is_wrong_is_said_with_what_would_be_right(
    capsys: pytest.CaptureFixture[str], arguments: list[str], needles: tuple[str, ...]
) -> None:
    assert run(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert captured.err.count("\n") == 1
    for needle in needles:
        assert needle in captured.err
