"""The command line: what it answers, what it refuses, and how it leaves."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from roofline.views.cli import run

MAIN = ["predict", "llama-3.1-8b", "h100-sxm-80gb", "--prompt", "2048", "--output", "256", "--batch", "8"]


def _json(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    assert run([*arguments, "--json"]) == 0
    out = capsys.readouterr().out
    assert out.count("\n") == 1  # one object, nothing else
    body = json.loads(out)
    assert isinstance(body, dict)
    return body


def _refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(list(arguments)) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert captured.err.count("\n") == 1
    assert "Traceback" not in captured.err
    return captured.err


def test_predict_says_latency_memory_and_what_binds(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(MAIN) == 0
    out = capsys.readouterr().out
    for said in ("TTFT (all 8)", "TPOT", "240 ms", "5.16 ms", "Decode is limited by memory bandwidth", "fits"):
        assert said in out


def test_predict_json_is_flat_si_and_complete(capsys: pytest.CaptureFixture[str]) -> None:
    body = _json(capsys, *MAIN)
    assert body["schema"] == "roofline/predict/1"
    assert (body["model"], body["hardware"], body["engine"]) == ("llama-3.1-8b", "h100-sxm-80gb", "ideal")
    # 8 x 2048 tokens in one pass: 2.375e14 FLOP / 989.4e12; 255 decode passes at 2,175 tokens: (15.01 + 2.28) GB / 3.35 TB/s
    assert body["ttft_floor_s"] == pytest.approx(0.2401, rel=5e-3)
    assert body["tpot_floor_s"] == pytest.approx(5.16e-3, rel=5e-3)
    assert body["weight_bytes"] == 2 * 8030261248
    assert body["kv_bytes_per_token"] == 131072
    assert body["kv_bytes"] == 8 * (2048 + 255) * 131072
    assert body["fits"] is True
    assert body["short_by_bytes"] == 0


def test_several_chips_stand_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["predict", "llama-3.1-8b", "h100", "m5-max"]) == 0
    out = capsys.readouterr().out
    assert "h100-sxm-80gb" in out
    assert "m5-max-40c" in out
    assert "finishes first" in out
    body = _json(capsys, "predict", "llama-3.1-8b", "h100", "m5-max")
    listed = body["predictions"]
    assert isinstance(listed, list)
    assert [p["hardware"] for p in listed] == ["h100-sxm-80gb", "m5-max-40c"]


def test_what_does_not_fit_is_answered_and_fails_only_a_check(capsys: pytest.CaptureFixture[str]) -> None:
    body = _json(capsys, "predict", "llama-3.1-70b", "h100")
    assert body["fits"] is False
    short = body["short_by_bytes"]
    assert isinstance(short, float)
    # 70,553,706,496 parameters at 2 B, 2,303 tokens at 327,680 B, less 81,559 MiB
    assert short == 2 * 70553706496 + 2303 * 327680 - 81559 * 2**20
    assert run(["predict", "llama-3.1-70b", "h100", "--check"]) == 4
    assert run(["memory", "llama-3.1-70b", "h100", "--check"]) == 4
    assert run(["memory", "llama-3.1-8b", "h100", "--check"]) == 0
    assert "does not fit" in capsys.readouterr().out


def test_one_output_token_has_no_tpot(capsys: pytest.CaptureFixture[str]) -> None:
    body = _json(capsys, "predict", "llama-3.1-8b", "h100", "--output", "1")
    assert body["tpot_s"] is None
    assert body["e2e_s"] == body["ttft_s"]
    assert run(["predict", "llama-3.1-8b", "h100", "--output", "1"]) == 0


def test_explain_prints_the_numbers_that_texts_get_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "llama-2-7b", "h100", "--prompt", "4", "--context", "4", "--exact"]) == 0
    out = capsys.readouterr().out
    for exact in ("134,217,728", "33,554,432", "40,960", "3.992", "0.9995"):
        assert exact in out
    assert (
        run(["explain", "llama-2-7b", "h100", "--prompt", "4", "--phase", "prefill", "--attention", "eager", "--exact"])
        == 0
    )
    assert "131,072" in capsys.readouterr().out  # 32 heads x 4,096 for the scores


def test_explain_json_has_a_row_for_every_product(capsys: pytest.CaptureFixture[str]) -> None:
    body = _json(capsys, "explain", "llama-2-7b", "h100", "--prompt", "4")
    rows = body["prefill"]
    assert isinstance(rows, list)
    names = [row["name"] for row in rows]
    assert names == [
        "embedding", "q_proj", "k_proj", "v_proj", "scores", "values", "o_proj", "gate_proj", "up_proj", "down_proj",
        "elementwise", "final_norm", "lm_head",
    ]  # fmt: skip
    assert rows[1]["flops"] == 32 * 134217728


@pytest.mark.parametrize(
    ("arguments", "kv_bytes"),
    [
        (("kv", "llama-3.1-8b", "--context", "8192", "--kv", "f16"), 1024 * 2**20),
        (("kv", "llama-2-7b", "--context", "2048", "--kv", "f16"), 1024 * 2**20),
        (("kv", "llama-2-70b", "--context", "2k", "--kv", "f16"), 640 * 2**20),
        (("kv", "gemma-3-1b", "--context", "32k", "--kv", "f16"), 139 * 2**20),
    ],
)
def test_kv_gives_published_sizes(
    arguments: tuple[str, ...], kv_bytes: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _json(capsys, *arguments)["kv_bytes"] == kv_bytes
    assert run(list(arguments)) == 0


def test_the_catalogue_lists_and_shows(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["hardware"]) == 0
    assert "h100-sxm-80gb" in capsys.readouterr().out
    assert run(["models"]) == 0
    assert "8,030,261,248" in capsys.readouterr().out
    assert run(["hardware", "t4"]) == 0
    assert "no bf16 units: computed in fp16" in capsys.readouterr().out
    assert run(["models", "gemma-3-1b"]) == 0
    assert "window 512" in capsys.readouterr().out
    for name in ("hardware", "models"):
        assert _json(capsys, name)
    assert _json(capsys, "hardware", "h100")
    assert _json(capsys, "models", "llama-3.1-8b")["n_params"] == 8030261248


def test_plot_writes_a_picture_and_predict_can(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (
        ["plot", "roofline", "llama-3.1-8b", "h100", "--out", str(tmp_path / "a.svg")],
        ["plot", "latency", "llama-3.1-8b", "h100", "--out", str(tmp_path / "b.png")],
        [*MAIN, "--plot", str(tmp_path / "c.svg")],
    ):
        assert run(arguments) == 0
    assert all((tmp_path / name).stat().st_size > 1000 for name in ("a.svg", "b.png", "c.svg"))
    assert "wrote" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("predict", "lama-3.1-8b", "h100"), "did you mean llama-3.1-8b"),
        (("predict", "llama-3.1-8b", "h10"), "did you mean"),
        (("predict", "llama-3.1-8b", "h100", "--batch", "0"), "--batch"),
        (("predict", "llama-3.1-8b", "h100", "--prompt", "-5"), "--prompt"),
        (("predict", "llama-3.1-8b", "h100", "--prompt", "nan"), "--prompt"),
        (("predict", "llama-3.1-8b", "h100", "--prompt", "1e400"), "--prompt"),
        (("predict", "llama-3.1-8b", "h100", "--output", "99999999999999999999"), "--output"),
        (("predict", "llama-3.1-8b", "h100", "--weights", "fp9"), "did you mean"),
        (
            ("predict", "llama-3.1-8b", "a100", "--weights", "fp8", "--activations", "fp8"),
            "a100-sxm-80gb has no fp8 units",
        ),
        (("predict", "llama-3.1-8b", "h100", "--engine", "vllmm"), "ideal"),
        (("predict", "llama-3.1-8b", "m5-max:65GB"), "64GB"),
        (("predict", "llama-3.1-8b"), "hardware"),
        (("predict", "llama-3.1-8b", "h100", "--promt", "3"), "--prompt"),
        (("predict", "llama-3.1-8b", "./nowhere.yaml"), "nowhere.yaml"),
        (("predict", "llama-3.1-8b", "h100", "--plot", "x.bmp"), ".svg"),
        (("predict", "llama-3.1-8b", "h100", "--search", "/no/such/folder"), "/no/such/folder"),
        (("explain", "llama-2-7b", "h100", "--phase", "prefil"), "prefill"),
        (("explain", "llama-2-7b", "h100", "--attention", "fast"), "flash"),
        (("kv", "llama-2-7b", "--policy", "paged"), "window"),
        (("plot", "pie", "llama-2-7b", "h100"), "roofline"),
        (("hardware", "h10O"), "did you mean"),
        (("predikt",), "predict"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in _refused(capsys, *arguments)


GOOD = """\
id: my-chip
name: Mine
vendor: Me
kind: gpu
compute: {matrix: {bf16: 200 TFLOP/s}}
memory: {type: HBM3, capacity: 48 GiB, bandwidth: 2.4 TB/s}
"""


def test_validate_says_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "my-chip.yaml"
    path.write_text(GOOD, encoding="utf-8")
    assert run(["validate", str(path)]) == 0
    out = capsys.readouterr().out
    assert "valid" in out
    assert "a source for memory.bandwidth" in out
    assert run(["predict", "llama-3.1-8b", str(path)]) == 0


@pytest.mark.parametrize(
    ("good", "bad", "said"),
    [
        ("2.4 TB/s", "2.4 TB", "memory.bandwidth: expected a rate"),
        ("48 GiB", "48", "without a unit"),
        ("200 TFLOP/s", "-200 TFLOP/s", "compute.matrix.bf16"),
        ("200 TFLOP/s", ".nan", "compute.matrix.bf16"),
        ("200 TFLOP/s", "1e30 TFLOP/s", "outside"),
        ("capacity", "capasity", "did you mean capacity"),
        ("kind: gpu", "kind: gpu\nkind: tpu", "a second time"),
        ("name: Mine", "name: !!python/object/apply:os.system [true]", "tags"),
        ("vendor: Me\n", "", "vendor: missing"),
    ],
)
def test_validate_names_the_place_and_the_cure(
    good: str, bad: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "my-chip.yaml"
    path.write_text(GOOD.replace(good, bad), encoding="utf-8")
    assert run(["validate", str(path)]) == 2
    assert said in capsys.readouterr().out
    assert said in _refused(capsys, "predict", "llama-3.1-8b", str(path))


def test_your_own_folder_comes_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "hardware").mkdir()
    (tmp_path / "hardware" / "h100-sxm-80gb.yaml").write_text(GOOD, encoding="utf-8")
    body = _json(capsys, "predict", "llama-3.1-8b", "h100-sxm-80gb", "--search", str(tmp_path))
    assert body["capacity_bytes"] == 48 * 2**30


def test_the_module_runs_and_a_version_is_printed() -> None:
    done = subprocess.run([sys.executable, "-m", "roofline", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("roofline 0.")


@pytest.mark.parametrize("words", ["models", "explain llama-2-7b h100", "hardware", "kv llama-2-7b"])
def test_a_reader_that_has_gone_is_no_error(words: str) -> None:
    command = f"{sys.executable} -m roofline {words} | head -n 1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_output_that_is_closed_is_no_bug() -> None:
    command = f"{sys.executable} -m roofline kv llama-2-7b >&-"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_memory_names_the_true_cause(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["memory", "gemma-2-9b", "h100", "--context", "1000000", "--batch", "3"]) == 0
    out = capsys.readouterr().out
    assert "the cache of one such sequence is 161 GiB" in out
    assert "more than the 8,192 that gemma-2-9b is made for" in out
    assert run(["memory", "llama-3.1-70b", "h100"]) == 0
    assert "the weights alone are 131 GiB" in capsys.readouterr().out


def test_full_length_windows_are_not_said_to_be_capped(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["kv", "gemma-2-9b", "--context", "32768", "--policy", "allocated"]) == 0
    assert "hold no more" not in capsys.readouterr().out
    assert run(["kv", "gemma-2-9b", "--context", "32768"]) == 0
    assert "hold no more" in capsys.readouterr().out


def test_a_debugged_bad_input_shows_where_and_keeps_its_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--debug", "predict", "nope", "h100"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_a_spec_is_found_by_its_id_and_a_broken_one_hides_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "some-file.yaml").write_text(GOOD, encoding="utf-8")
    (tmp_path / "broken.yaml").write_text("id: [", encoding="utf-8")
    assert run(["predict", "llama-3.1-8b", "my-chip", "--search", str(tmp_path)]) == 0
    capsys.readouterr()
    assert run(["hardware", "--search", str(tmp_path)]) == 0
    captured = capsys.readouterr()
    assert "my-chip" in captured.out
    assert "h100-sxm-80gb" in captured.out
    assert "left out" in captured.err


def test_an_output_that_cannot_show_a_sign_gets_a_plain_one() -> None:
    command = [sys.executable, "-m", "roofline", "explain", "llama-2-7b", "h100", "--prompt", "4"]
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, capture_output=True, check=True, env=env)
    assert done.stdout.isascii()
    assert b"(m, 4096) x (4096, 4096)" in done.stdout


def _on_a_terminal(words: list[str], *, width: int) -> str:
    """What the command writes to a terminal of that width."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    env = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    with subprocess.Popen([sys.executable, "-m", "roofline", *words], stdout=theirs, env=env) as process:
        os.close(theirs)
        written = b""
        with contextlib.suppress(OSError):  # Linux says so when the other end closes
            while chunk := os.read(ours, 65536):
                written += chunk
    os.close(ours)
    assert process.returncode == 0
    return written.decode()


@pytest.mark.parametrize("width", [40, 60, 80])
def test_a_narrow_terminal_loses_columns_and_no_figure(width: int) -> None:
    """Rows stay, and nothing is cut off with an ellipsis."""
    for words, row in (
        ("memory llama-3.1-8b h100 t4", "t4 "),
        ("hardware", "h100-sxm-80gb"),
        ("explain llama-2-7b h100 --phase decode", "down_proj"),
        ("predict llama-3.1-8b h100 m5-max t4 --batch 4", "m5-max-40c"),
    ):
        out = _on_a_terminal(words.split(), width=width)
        assert row in out
        assert "…" not in out


def test_units_that_were_asked_for_leave_out_levers_that_cannot_use_them(capsys: pytest.CaptureFixture[str]) -> None:
    """fp4 units multiply nvfp4 and mxfp4 weights, not awq: an error must not follow half an answer."""
    assert run(["predict", "llama-3.1-8b", "b200", "--weights", "nvfp4", "--activations", "fp4"]) == 0
    assert "4-bit weights" not in capsys.readouterr().out


def test_one_chip_that_cannot_hides_none_that_can(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["predict", "gpt-j-6b", "tpu-v6e", "gaudi2"]) == 0
    captured = capsys.readouterr()
    assert "gaudi2" in captured.out
    assert "left out: tpu-v6e has no units that run fp32" in captured.err
