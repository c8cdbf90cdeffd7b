"""The command line under hostile paths and odd options: it answers, or refuses in one line with exit code 2.

Never a traceback, never half an answer, never a letter that moves the terminal's cursor.
"""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pytest

from roofline.views.cli import run

REPO = Path(__file__).resolve().parents[2]
CONFIGS: dict[str, dict[str, Any]] = {
    entry["config"]["model_type"]: entry["config"]
    for entry in map(json.loads, (REPO / "tests/data/configs.jsonl").read_text(encoding="utf-8").splitlines())
}
BERT = {
    "model_type": "bert", "architectures": ["BertModel"], "hidden_size": 768, "num_hidden_layers": 12,
    "num_attention_heads": 12, "intermediate_size": 3072, "vocab_size": 30522, "max_position_embeddings": 512,
    "type_vocab_size": 2,
}  # fmt: skip
FFN = """\
id: ffn-only
name: FFN only
dtype: bf16
d_model: 64
vocab_size: 100
max_context_tokens: 100
layers: [{layers: [{ffn: {d_ff: 64}}]}]
"""
KINDS = ("text", "vision", "crossed", "encoder", "translator", "clip", "hybrid", "nothing kept")


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A model of every kind, as a file: what a command takes besides a name."""
    folder = tmp_path_factory.mktemp("models")
    of_kind = {
        "text": CONFIGS["llama"], "vision": CONFIGS["qwen2_5_vl"], "crossed": CONFIGS["mllama"], "encoder": BERT,
        "translator": CONFIGS["t5"], "clip": CONFIGS["whisper"], "hybrid": CONFIGS["nemotron_h"],
    }  # fmt: skip
    for kind, config in of_kind.items():
        (folder / f"{kind}.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "nothing.yaml").write_text(FFN, encoding="utf-8")
    return {kind: str(folder / f"{kind}.json") for kind in of_kind} | {"nothing kept": str(folder / "nothing.yaml")}


class Answer:
    """What a command wrote and how it left, once it is known to have behaved."""

    def __init__(self, capsys: pytest.CaptureFixture[str], arguments: Sequence[str]) -> None:
        self.code = run(list(arguments))
        self.out, self.err = capsys.readouterr()
        plt.close("all")
        assert self.code in (0, 2), self.err
        assert "Traceback" not in self.out + self.err
        assert "this is a bug" not in self.err
        assert not any(ord(c) < 32 and c != "\n" for c in self.out + self.err)
        words = self.out.replace(",", " ").split()
        assert not {"nan", "inf", "-inf", "NaN", "Infinity"} & set(words)
        if self.code == 0:
            assert self.err == ""
        elif arguments[0] != "validate":
            assert self.out == ""
            *left_out, last = self.err.splitlines()
            assert last.startswith("error: ") or self.err.startswith("Usage:")
            assert all(line.startswith("left out: ") for line in left_out) or self.err.startswith("Usage:")

    def json(self) -> dict[str, Any]:
        """The one object."""
        body = json.loads(self.out, parse_constant=lambda word: pytest.fail(f"{word} in JSON"))
        assert isinstance(body, dict)
        return body


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    answer = Answer(capsys, arguments)
    assert answer.code == 2
    return answer.err


# Every command, every kind of model, odd options

PREDICT: tuple[tuple[str, ...], ...] = (
    (), ("--json",), ("--images", "2"), ("--images", "1e9"), ("--images", "-1"), ("--images", "1000000"),
    ("--images", "1", "--image-size", "0x0"), ("--images", "1", "--image-size", "axb"),
    ("--images", "1", "--image-size", "99999999x1"), ("--images", "1", "--image-size", "1000000x1"),
    ("--images", "1", "--image-size", "1000000x1000000"), ("--images", "1", "--image-size", "1x1"),
    ("--images", "1", "--image-size", ""), ("--images", "1", "--image-size", "768"), ("--output", "0"), ("--output", "1"),
    ("--output", "5"), ("--output", "5.5"), ("--output", "99999999"), ("--prompt", "0"), ("--prompt", ""),
    ("--prompt", "1000000000000", "--batch", "1000000000000"), ("--batch", "0"), ("--weights", "x\n\x1b[31m"),
    ("--kv", "nvfp4"), ("--head", "q4_k"), ("--activations", "int3"), ("--engine", "\x1b"),
)  # fmt: skip
EXPLAIN: tuple[tuple[str, ...], ...] = (
    (), ("--json",), ("--exact",), ("--source", "0"), ("--source", "1e3"), ("--source", "1000000000000"),
    ("--phase", "decode"), ("--phase", "x"), ("--context", "0"), ("--images", "3"), ("--attention", "eager"),
    ("--images", "1", "--image-size", "1000000x1"), ("--prompt", "1000000000000", "--batch", "1000000000000"),
)  # fmt: skip
KEPT: tuple[tuple[str, ...], ...] = (
    (), ("--json",), ("--source", "0"), ("--source", "1500"), ("--source", "-1"), ("--context", "0"),
    ("--context", "0", "--json"), ("--context", "1000000000000", "--batch", "1000000000000"), ("--kv", "zz"),
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", PREDICT, ids=" ".join)
def test_predict(
    capsys: pytest.CaptureFixture[str], files: dict[str, str], kind: str, options: tuple[str, ...]
) -> None:
    answer = Answer(capsys, ["predict", files[kind], "h200", *options])
    if "--json" in options:
        answer.json()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", EXPLAIN, ids=" ".join)
def test_explain(
    capsys: pytest.CaptureFixture[str], files: dict[str, str], kind: str, options: tuple[str, ...]
) -> None:
    answer = Answer(capsys, ["explain", files[kind], "h200", *options])
    if "--json" in options and answer.code == 0:
        answer.json()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", KEPT, ids=" ".join)
def test_kv_and_memory(
    capsys: pytest.CaptureFixture[str], files: dict[str, str], kind: str, options: tuple[str, ...]
) -> None:
    for asked in (["kv", files[kind]], ["memory", files[kind], "h200"], ["memory", files[kind], "h200", "t4"]):
        answer = Answer(capsys, [*asked, *options])
        if "--json" in options and answer.code == 0:
            answer.json()


@pytest.mark.parametrize("kind", KINDS)
def test_models_and_validate(capsys: pytest.CaptureFixture[str], files: dict[str, str], kind: str) -> None:
    for options in ((), ("--yaml",), ("--json",)):
        assert Answer(capsys, ["models", "show", files[kind], *options]).code == 0
        assert Answer(capsys, ["models", files[kind], *options]).code == 0
    for validated in (["validate", files[kind]], ["validate", files[kind], "--json"]):
        assert Answer(capsys, validated).code == 0


@pytest.mark.parametrize("kind", ["crossed", "encoder", "nothing kept"])
@pytest.mark.parametrize("picture", ["roofline", "latency"])
def test_plot(
    capsys: pytest.CaptureFixture[str], files: dict[str, str], kind: str, picture: str, tmp_path: Path
) -> None:
    out = tmp_path / "x.svg"
    answer = Answer(capsys, ["plot", picture, files[kind], "h200", "--out", str(out)])
    assert out.exists() == (answer.code == 0)
    if (kind, picture) == ("encoder", "latency"):
        assert "is an encoder: it gives no tokens" in answer.err
    else:
        assert answer.code == 0


def test_an_encoder_generates_nothing_and_says_so(capsys: pytest.CaptureFixture[str], files: dict[str, str]) -> None:
    message = refused(capsys, "predict", files["encoder"], "h200", "--output", "5")
    assert "output_tokens: encoder is an encoder and generates none; use 0, got 5" in message


@pytest.mark.parametrize("kind", ["encoder", "nothing kept"])
def test_a_batch_without_bound_is_null_to_programs_and_a_word_to_people(
    capsys: pytest.CaptureFixture[str], files: dict[str, str], kind: str
) -> None:
    """What keeps nothing of a sequence has room for any number of them: infinity is no JSON."""
    assert Answer(capsys, ["memory", files[kind], "h200", "--json"]).json()["max_batch"] is None
    assert Answer(capsys, ["predict", files[kind], "h200", "--json"]).json()["max_batch"] is None
    both = Answer(capsys, ["predict", files[kind], "h200", "h100", "--json"]).json()["predictions"]
    assert [p["max_batch"] for p in both] == [None, None]
    assert " any " in Answer(capsys, ["memory", files[kind], "h200"]).out


def test_a_text_model_sees_no_images(capsys: pytest.CaptureFixture[str], files: dict[str, str]) -> None:
    assert "reads no images" in refused(capsys, "predict", files["text"], "h200", "--images", "1")


@pytest.mark.parametrize("size", ["0x0", "axb", "99999999x1", "", "768", "1e3x1e3", "-1x5", "1x1x1", "\x1b[31mx1"])
def test_an_image_size_is_height_by_width(capsys: pytest.CaptureFixture[str], files: dict[str, str], size: str) -> None:
    message = refused(capsys, "predict", files["vision"], "h200", "--images", "1", "--image-size", size)
    assert "--image-size: expected height x width in pixels such as 1024x768, got" in message


@pytest.mark.parametrize("many", ["1e9", "-1", "two", "1000001", "1.5", "\n", ""])
def test_images_are_a_whole_number(capsys: pytest.CaptureFixture[str], files: dict[str, str], many: str) -> None:
    assert "--images: expected" in refused(capsys, "predict", files["vision"], "h200", f"--images={many}")


@pytest.mark.parametrize(
    ("arguments", "needle"),
    [
        (["models", "show"], "models show: expected a model to show"),
        (["models", "a", "b"], "models: expected one name, got 'a' and 'b'"),
        (["models", "show", "a", "b"], "b"),
        (["models", ""], 'no model named ""'),
        (["models", "show", "\x1b[31m"], 'no model named "?[31m"'),
        (["models", "x" * 9999], "no model named"),
        (["models", "--search", "/nowhere"], "/nowhere: expected a folder"),
        (["models", "--search", "x" * 5000], "expected a folder"),
        (["models", "--search", "/dev/zero"], "/dev/zero: expected a folder"),
        (["hardware", "/dev/zero"], "/dev/zero: expected a file"),
        (["predict", "llama-3.1-8b", "h200:"], "expected a memory size"),
        (["predict", "llama-3.1-8b", "/dev/zero"], "/dev/zero: expected a file"),
        (["predict", "llama-3.1-8b", "h200", "--plot", "/dev/full"], "expected a file ending in"),
        (["predict", "llama-3.1-8b", "h200", "--plot", "/nowhere/x.svg"], "there is no folder"),
        (["plot", "roofline", "llama-3.1-8b", "h200", "--out", "x.exe"], "expected a file ending in"),
        (["plot", "roofline", "llama-3.1-8b", "h200", "--out", "/nowhere/x.svg"], "there is no folder"),
        (["plot", "roofline", "llama-3.1-8b", "h200", "--out", "x" * 300 + ".svg"], "cannot be written"),
        (["plot", "circle", "llama-3.1-8b", "h200"], "plot: expected roofline, latency, ttft, tpot, heatmap"),
        (["kv"], "'model'"),
        (["explain", "llama-3.1-8b"], "'HARDWARE'"),
        (["nonsense"], "nonsense"),
        (["predict", "llama-3.1-8b", "h200", "--nonsense"], "--nonsense"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(
    capsys: pytest.CaptureFixture[str], arguments: list[str], needle: str
) -> None:
    assert needle in refused(capsys, *arguments)


# Paths

BAD_PATHS = (
    "a\0b.json", "a\0b/config.json", "a\0b.gguf", "a\nb.json", "a\x1b[31mb.yaml", "\udcff.json", "\udcff/x.yaml",
    "x" * 300 + ".json", "x" * 300 + ".yaml", "x" * 300 + ".gguf", "/" + "x/" * 3000, "/dev/zero", "/dev/null", "/",
    "/etc/passwd", "//", "/proc/self/mem", "http://example.com/config.json", "~/config.json", "-.json",
)  # fmt: skip


@pytest.mark.parametrize("path", BAD_PATHS, ids=range(len(BAD_PATHS)))
def test_a_bad_path_is_refused_by_every_command(
    capsys: pytest.CaptureFixture[str], path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for arguments in (
        ["models", "show", path], ["models", path, "--yaml"], ["models", path, "--json"], ["predict", path, "h200"],
        ["predict", "llama-3.1-8b", path], ["explain", path, "h200"], ["kv", path], ["memory", path, "h200"],
        ["plot", "roofline", path, "h200"], ["validate", path], ["validate", path, "--json"], ["hardware", path],
    ):  # fmt: skip
        answer = Answer(capsys, ["--debug", *arguments][1:])
        assert answer.code == 2
    assert list(tmp_path.iterdir()) == []


def test_pipes_devices_and_loops_are_not_waited_on(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for name in ("x.json", "x.yaml", "x.gguf"):
        os.mkfifo(tmp_path / f"pipe-{name}")
        (tmp_path / f"zero-{name}").symlink_to("/dev/zero")
        (tmp_path / f"loop-{name}").symlink_to(tmp_path / f"loop-{name}")
        with (tmp_path / f"sparse-{name}").open("wb") as stream:
            stream.truncate(100_000_000)
    os.mkfifo(tmp_path / "pipe.yml")  # looked through for aliases, too
    (tmp_path / "zero.yml").symlink_to("/dev/zero")
    for path in sorted(tmp_path.iterdir()):
        assert "error" in refused(capsys, "models", "show", str(path))
        assert "problem" in Answer(capsys, ["validate", str(path)]).out
    assert "no model named" in refused(capsys, "models", "nonsense", "--search", str(tmp_path))


@pytest.mark.parametrize("name", ["a\nb", "a\x1b[31mb", os.fsdecode(b"a\xffb"), "a\x07"])
def test_a_good_file_of_a_bad_name_is_answered_without_it(
    capsys: pytest.CaptureFixture[str], name: str, tmp_path: Path
) -> None:
    path = tmp_path / f"{name}.json"
    path.write_text(json.dumps(CONFIGS["llama"]), encoding="utf-8")
    for arguments in (
        ["models", str(path)], ["models", str(path), "--yaml"], ["models", str(path), "--json"], ["validate", str(path)],
        ["validate", str(path), "--json"], ["predict", str(path), "h200"], ["kv", str(path)],
        ["plot", "roofline", str(path), "h200", "--out", str(tmp_path / f"{name}.svg")],
    ):  # fmt: skip
        assert Answer(capsys, arguments).code == 0


def test_what_a_file_says_does_not_reach_the_terminal_raw(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Escape codes, bells and returns in the texts of a YAML file."""
    raw = '"a\\e[2J\\u0007b\\rc"'
    text = FFN.replace("name: FFN only", f"name: {raw}\nsource: {raw}\nnotes: {raw}\nassumed: [{raw}]")
    path = tmp_path / "x.yaml"
    path.write_text(text, encoding="utf-8")
    for arguments in (["models"], ["models", "--yaml"], ["models", "--json"], ["validate"], ["kv"]):
        assert Answer(capsys, [*arguments, str(path)]).code == 0
    assert Answer(capsys, ["predict", str(path), "h200"]).code == 0
    assert Answer(capsys, ["explain", str(path), "h200"]).code == 0
    assert Answer(capsys, ["models", str(path), "--yaml"]).out.count("\\e[2J") == 4  # written out, it reads back equal


def test_a_cell_is_text_and_no_markup(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Square brackets and colons in what a table shows are themselves."""
    path = tmp_path / "x.yaml"
    path.write_text(FFN + 'formats: {up: q8_0}\naliases: ["[red]x[/red]", ":smile:"]\n', encoding="utf-8")
    out = Answer(capsys, ["models", str(path)]).out
    assert "[red]x[/red], :smile:" in out


def test_validate_says_the_first_hundred_of_many_problems(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(FFN + "".join(f"unknown_{i}: 1\n" for i in range(20_000)), encoding="utf-8")
    answer = Answer(capsys, ["validate", str(path)])
    assert answer.code == 2
    assert answer.out.count("unknown key") == 100
    assert "and 19,900 more" in answer.out


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        "\ufeff{}",
        "{}",
        '{"model_type": "llama"}',
        '{"model_type": "a\\nb\\u001b[31m"}',
        "[" * 100_000,
    ],
)
def test_a_broken_config_is_refused_by_every_command(
    capsys: pytest.CaptureFixture[str], text: str, tmp_path: Path
) -> None:
    path = tmp_path / "config.json"
    path.write_text(text, encoding="utf-8")
    for where in (path, tmp_path):
        for arguments in (["models", "show", str(where)], ["predict", str(where), "h200"], ["kv", str(where)]):
            assert str(path) in refused(capsys, *arguments)
        assert "1 problem" in Answer(capsys, ["validate", str(where)]).out


# GGUF files, cut and lying


def gguf_file(path: Path) -> bytes:
    """A model of one block, 32 wide, as the gguf package writes it."""
    gguf = pytest.importorskip("gguf")
    np = pytest.importorskip("numpy")
    writer = gguf.GGUFWriter(path, "llama")
    for key, value in (
        ("context_length", 64), ("embedding_length", 32), ("block_count", 1), ("attention.head_count", 2),
    ):  # fmt: skip
        writer.add_uint32(f"llama.{key}", value)
    writer.add_float32("llama.attention.layer_norm_rms_epsilon", 1e-5)
    writer.add_token_list(["a", "b", "\x1b[31m", "d"])
    square = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
    shapes = {"token_embd.weight": (4, 32), "output_norm.weight": (32,)}
    shapes |= {f"blk.0.{n}_norm.weight": (32,) for n in ("attn", "ffn")} | {
        f"blk.0.{n}.weight": (32, 32) for n in square
    }
    for name, shape in shapes.items():
        writer.add_tensor(name, np.zeros(shape, dtype="float32" if len(shape) == 1 else "float16"))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path.read_bytes()


def test_a_gguf_file_is_answered_by_every_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "small.gguf"
    gguf_file(path)
    for arguments in (
        ["models", "show", str(path)], ["models", str(path), "--yaml"], ["predict", str(path), "h200"], ["kv", str(path)],
        ["memory", str(path), "h200"], ["explain", str(path), "h200"], ["validate", str(path)],
        ["plot", "latency", str(path), "h200", "--out", str(tmp_path / "x.svg")],
    ):  # fmt: skip
        assert Answer(capsys, arguments).code == 0


def test_a_gguf_file_cut_anywhere_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    data = gguf_file(tmp_path / "whole.gguf")
    path = tmp_path / "cut.gguf"
    for n in range(0, len(data) - 64, max(1, len(data) // 40)):
        path.write_bytes(data[:n])
        assert str(path) in refused(capsys, "models", "show", str(path))


def test_a_gguf_file_that_lies_is_refused_or_answered(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    data = gguf_file(tmp_path / "whole.gguf")
    path = tmp_path / "lie.gguf"
    for at in range(4, 1200, 24):
        for lie in (2**64 - 1, 2**31, 0):
            path.write_bytes(data[:at] + struct.pack("<Q", lie) + data[at + 8 :])
            Answer(capsys, ["predict", str(path), "h200"])


# Nothing half-written


@pytest.mark.parametrize("command", ["predict", "explain", "kv", "memory", "models", "validate"])
def test_an_infinite_number_never_reaches_json(
    capsys: pytest.CaptureFixture[str], files: dict[str, str], command: str
) -> None:
    chip = ["h200"] if command in ("predict", "explain", "memory") else []
    for kind in KINDS:
        answer = Answer(capsys, [command, files[kind], *chip, "--json"])
        if answer.code == 0:
            assert all(math.isfinite(n) for n in _numbers(answer.json()))


def _numbers(value: Any) -> list[float]:
    if isinstance(value, dict):
        return [n for v in value.values() for n in _numbers(v)]
    if isinstance(value, list):
        return [n for v in value for n in _numbers(v)]
    return [float(value)] if isinstance(value, (int, float)) else []
