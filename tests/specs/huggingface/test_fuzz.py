"""Hostile configs: whatever stands in a file, it is read or refused in a sentence, in time; what is read can be used.

The 91 configs of `tests/data/configs.jsonl` are changed in every way a broken exporter, a careless hand or a hostile one
might: keys gone, null, of another type, absurdly large, contradicting each other; files that are no files, no text, no JSON.
"""

from __future__ import annotations

import copy
import io
import json
import math
import os
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import roofline as rl
from roofline.errors import RooflineError, SpecError, Unsupported
from roofline.specs.catalog import load_yaml, model_yaml
from roofline.specs.huggingface.reader import read_config
from roofline.specs.model import Model
from roofline.views.cli import run
from roofline.work.footprint import resident_weight_bytes

REPO = Path(__file__).resolve().parents[3]
CONFIGS: dict[str, dict[str, Any]] = {
    entry["name"]: entry["config"]
    for entry in map(json.loads, (REPO / "tests/data/configs.jsonl").read_text(encoding="utf-8").splitlines())
}
NAMES = sorted(CONFIGS)
H200 = rl.hardware("h200")

Path_ = tuple[str | int, ...]

GONE: Any = ...  # copied, it stays itself
HUGE: tuple[Any, ...] = (10**7, 10**9, 10**30, 2**53 + 1, 1e308, math.inf)
JUNK: tuple[Any, ...] = (
    GONE, None, -1, 0, 1, 2, 3, 7, 0.5, 1.0, -0.0, *HUGE, -math.inf, math.nan, True, False, "x", "",
    "a\nb\x1b[31m", "x" * 5000, "\ud800", [], [1], [None], [[1]], [True] * 3, {}, {"a": 1}, [{"a": [1]}],
)  # fmt: skip


def config(name: str) -> dict[str, Any]:
    return copy.deepcopy(CONFIGS[name])


@cache
def of_type(model_type: str) -> str:
    """The name of a config of that type."""
    return next(name for name in NAMES if CONFIGS[name].get("model_type") == model_type)


def places(data: dict[str, Any]) -> list[Path_]:
    """The way to every key of a config, and to the ends of every list."""

    def walk(node: dict[str, Any], before: Path_) -> Iterator[Path_]:
        for key, value in node.items():
            yield (*before, key)
            if isinstance(value, dict):
                yield from walk(value, (*before, key))
            elif isinstance(value, list) and value:
                yield from ((*before, key, i) for i in {0, len(value) - 1})

    return list(walk(data, ()))


def put(data: dict[str, Any], place: Path_, value: Any) -> None:
    """Change one value; nothing happens where an earlier change took the place away."""
    node: Any = data
    for step in place[:-1]:
        try:
            node = node[step]
        except (KeyError, IndexError, TypeError):
            return
    last = place[-1]
    if value is GONE and isinstance(node, dict):
        node.pop(last, None)
    elif value is GONE and isinstance(node, list) and isinstance(last, int) and last < len(node):
        del node[last]
    elif isinstance(node, dict) or (isinstance(node, list) and isinstance(last, int) and last < len(node)):
        node[last] = None if value is GONE else value  # type: ignore[index]


def one_line(error: BaseException, where: str = "") -> str:
    message = str(error)
    assert message.splitlines() == [message]
    assert message.isprintable()
    assert len(message) <= 600
    assert where in message
    return message


def written(folder: Path, data: Any, name: str = "config.json") -> Path:
    path = folder / name
    if isinstance(data, bytes):
        path.write_bytes(data)
    else:
        path.write_text(data if isinstance(data, str) else json.dumps(data), encoding="utf-8")
    return path


def a_million_sums() -> float:
    """Seconds of a million sums, now: what time is measured in here, whatever the machine and its load."""
    began = time.perf_counter()
    total = 0
    for i in range(1_000_000):
        total += i
    assert total == 499_999_500_000
    return time.perf_counter() - began


def soon(seconds: float, millions: float = 250.0) -> bool:
    """Whether that is less than so many million sums of Python's take, none of which is done in a millisecond."""
    return seconds < millions * 1e-3 or seconds < millions * a_million_sums()


def in_time(call: Callable[[], Any], millions: float = 250.0) -> Any:
    """The answer, which must not take longer than that many million sums of Python's."""
    began = time.perf_counter()
    answer = call()
    assert soon(time.perf_counter() - began, millions)
    return answer


def fine(value: Any) -> None:
    numbers = np.asarray(value, dtype=np.float64)
    assert np.isfinite(numbers).all()
    assert (numbers >= 0).all()


def used(m: Model) -> None:
    """A model that was read answers every question, in finite numbers that are not negative, and comes back equal."""
    for n in (m.n_params, m.n_active_params, m.n_mtp_params):
        fine(n)
    assert m.n_active_params <= m.n_params
    remembered = {"n_memory": 3} if m.remembers else {}
    outputs = 7 if m.remembers else None
    steps = [{"n_seq": 2, "n_new": 37}] + ([{"n_seq": 3, "n_new": 1, "n_past": 5000}] if m.generates else [])
    for step in steps:
        ledger = rl.count(m, rl.Seqs(**step, **remembered))
        fine([ledger.flops, ledger.streamed_bytes, ledger.compulsory_bytes, ledger.weight_bytes, ledger.kv_read_bytes])
    for policy in ("window", "allocated") if m.generates else ():
        fine(rl.kv_bytes(m, context_tokens=9999, policy=policy, memory_tokens=outputs))
        fine(rl.state_bytes(m, policy=policy))
    d = rl.Deployment(model=m, hardware=H200)
    fine(resident_weight_bytes(m, numerics=d.numerics))
    answer = rl.predict(d, prompt_tokens=100, output_tokens=5 if m.generates else 0)
    said = answer.to_dict()
    json.dumps(said, allow_nan=False)
    fine([v for v in said.values() if isinstance(v, (int, float))])
    assert Model.read(m.plain(), where="again") == m


def shown(m: Model, folder: Path) -> None:
    """As text, and as YAML that reads back equal."""
    path = written(folder, model_yaml(m), "model.yaml")
    assert rl.model(path) == m
    with redirect_stdout(io.StringIO()) as out:
        assert run(["models", "show", str(path)]) == 0
    text = out.getvalue()
    assert f"{m.n_params:,} parameters" in text
    assert text.replace("\n", "").isprintable()


def survives(path: Path) -> Model | None:
    """The model of a file that is read, used; none where it is refused, and the refusal is one line that names the file."""
    try:
        m: Model = in_time(lambda: rl.model(path))
    except RooflineError as error:
        one_line(error, str(path.parent))
        return None
    in_time(lambda: used(m), 500.0)
    return m


# Every key of every config


@pytest.mark.parametrize("name", NAMES)
def test_every_key_takes_junk(name: str, tmp_path: Path) -> None:
    """One kind of junk a key here, another in the next config: each key and each kind meet many times over all."""
    offset = NAMES.index(name)
    for i, place in enumerate(places(CONFIGS[name])):
        data = config(name)
        put(data, place, JUNK[(7 * i + 5 * offset) % len(JUNK)])
        survives(written(tmp_path, data))


@pytest.mark.parametrize("name", NAMES)
def test_an_unchanged_config_is_read_used_and_shown(name: str, tmp_path: Path) -> None:
    m = survives(written(tmp_path, CONFIGS[name]))
    assert m is not None
    shown(m, tmp_path)


FOREIGN = sorted({key for name in NAMES for key in CONFIGS[name]})
VALUES = st.one_of(
    st.sampled_from(JUNK),
    st.integers(-2, 300),
    st.sampled_from([value for name in NAMES for value in CONFIGS[name].values()]),
    st.lists(st.one_of(st.integers(-1, 5), st.none(), st.booleans(), st.sampled_from(FOREIGN)), max_size=4),
    st.dictionaries(st.sampled_from(FOREIGN), st.integers(-1, 9), max_size=3),
)


@st.composite
def broken_configs(draw: st.DrawFn) -> dict[str, Any]:
    """A config with up to four changes: keys of its own, or keys that belong to other families."""
    data = config(draw(st.sampled_from(NAMES)))
    for _ in range(draw(st.integers(1, 4))):
        own = draw(st.booleans())
        place = draw(st.sampled_from(places(data) or [("model_type",)])) if own else (draw(st.sampled_from(FOREIGN)),)
        put(data, place, copy.deepcopy(draw(VALUES)))
    return data


@given(st.lists(broken_configs(), min_size=8, max_size=8))
def test_configs_broken_in_several_places_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, several: list[dict[str, Any]]
) -> None:
    folder = tmp_path_factory.mktemp("fuzz", numbered=True)
    for data in several:
        m = survives(written(folder, data))
        if m is not None:
            shown(m, folder)


@given(st.sampled_from(NAMES), st.data())
def test_absurd_sizes_stay_finite(tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject) -> None:
    """Many numbers of a config at once as large as the reader lets them be."""
    wide = config(name)
    for place in places(wide):
        node: Any = wide
        for step in place:
            node = node[step]
        if isinstance(node, int) and not isinstance(node, bool) and data.draw(st.booleans()):
            put(wide, place, data.draw(st.sampled_from([10_000, 100_000, 10**6, 10**7, 10**8, 2**40])))
    survives(written(tmp_path_factory.mktemp("wide", numbered=True), wide))


# Contradictions, and what the refusal says

LLAMA, GEMMA, MIXTRAL, DEEPSEEK = of_type("llama"), of_type("gemma3_text"), of_type("mixtral"), of_type("deepseek_v3")


@pytest.mark.parametrize(
    ("name", "changes", "needles"),
    [
        (LLAMA, {"num_attention_heads": 7, "num_key_value_heads": 3}, ("num_key_value_heads", "a divisor of", "got 3")),
        (LLAMA, {"num_attention_heads": 0}, ("num_attention_heads: expected a whole number from 1", "got 0")),
        (
            LLAMA,
            {"num_attention_heads": 10**5, "num_key_value_heads": 10**5, "head_dim": None},
            ("num_attention_heads",),
        ),
        (
            LLAMA,
            {"num_hidden_layers": 10**7},
            ("num_hidden_layers: expected a whole number from 1 to 10,000", "10000000"),
        ),
        (
            LLAMA,
            {"hidden_size": 10**30},
            ("hidden_size: expected a whole number", "got 1000000000000000000000000000000"),
        ),
        (LLAMA, {"hidden_size": math.nan}, ("hidden_size: expected", "got nan")),
        (LLAMA, {"hidden_size": math.inf}, ("hidden_size: expected", "got inf")),
        (LLAMA, {"hidden_size": "4096"}, ("hidden_size: expected", "got '4096'")),
        (LLAMA, {"hidden_size": True}, ("hidden_size: expected", "got True")),
        (LLAMA, {"hidden_size": [4096]}, ("hidden_size: expected", "got a list of 1")),
        (LLAMA, {"hidden_size": None}, ("hidden_size: expected a value", "null")),
        (LLAMA, {"tie_word_embeddings": "no"}, ("tie_word_embeddings: expected true or false", "got 'no'")),
        (LLAMA, {"torch_dtype": "float8"}, ("torch_dtype: expected one of", "got 'float8'")),
        (LLAMA, {"torch_dtype": [1]}, ("torch_dtype: expected one of", "got a list of 1")),
        (LLAMA, {"model_type": "lama"}, ('model_type "lama" is not supported', "did you mean llama", "YAML")),
        (LLAMA, {"model_type": "a\nb\x1b[31m"}, ('model_type "a b?[31m" is not supported',)),
        (LLAMA, {"model_type": 5}, ("model_type: expected a text, got 5",)),
        (LLAMA, {"quantization_config": []}, ("quantization_config: expected a mapping, got a list of 0",)),
        (LLAMA, {"quantization_config": {"quant_method": "magic"}}, ("quant_method", '"magic" is not read')),
        (LLAMA, {"architectures": "LlamaForCausalLM"}, ("architectures: expected a list",)),
        (GEMMA, {"layer_types": ["full_attention"] * 3}, ("layer_types: expected", "items, got 3")),
        (GEMMA, {"layer_types": ["wide_attention"] * 26}, ("layer_types: expected only", "'wide_attention'")),
        (GEMMA, {"sliding_window": 0}, ("sliding_window: expected a whole number from 1", "got 0")),
        (MIXTRAL, {"num_experts_per_tok": 99}, ("num_experts_per_tok: expected at most", "got 99")),
        (MIXTRAL, {"num_local_experts": 0}, ("num_local_experts: expected a whole number from 1", "got 0")),
        (DEEPSEEK, {"q_lora_rank": 0}, ("q_lora_rank: expected a whole number from 1", "got 0")),
        (DEEPSEEK, {"kv_lora_rank": -512}, ("kv_lora_rank: expected a whole number from 1", "got -512")),
    ],
    ids=lambda value: "-".join(value)[:40] if isinstance(value, dict) else "",
)
def test_a_contradiction_is_named_by_file_and_key(
    name: str, changes: dict[str, Any], needles: tuple[str, ...], tmp_path: Path
) -> None:
    path = written(tmp_path, config(name) | changes)
    with pytest.raises((SpecError, Unsupported)) as caught:
        rl.model(path)
    message = one_line(caught.value, str(path))
    for needle in needles:
        assert needle in message


@pytest.mark.parametrize("name", [LLAMA, GEMMA, DEEPSEEK, of_type("qwen3_next"), of_type("t5"), of_type("qwen2_vl")])
def test_a_key_that_is_gone_is_missed_by_name_or_assumed_on_record(name: str, tmp_path: Path) -> None:
    for key in CONFIGS[name]:
        path = written(tmp_path, {k: v for k, v in CONFIGS[name].items() if k != key})
        m = survives(path)
        if m is None and key != "model_type":
            with pytest.raises(RooflineError) as caught:
                rl.model(path)
            assert "missing" in str(caught.value) or key in str(caught.value)


# Texts that are no JSON, files that are no files

LLAMA_TEXT = json.dumps(CONFIGS[LLAMA])
TEXTS: dict[str, tuple[str | bytes, str]] = {
    "empty": ("", "not valid JSON"),
    "blank": (" \n\t ", "not valid JSON"),
    "nul bytes": (b"\0" * 4096, "not valid JSON"),
    "truncated": (LLAMA_TEXT[:-40], "not valid JSON"),
    "trailing": (LLAMA_TEXT + "}", "not valid JSON (Extra data)"),
    "byte order mark": ("\ufeff" + LLAMA_TEXT, "BOM"),
    "utf-16": (LLAMA_TEXT.encode("utf-16"), "expected UTF-8 text"),
    "latin-1": ('{"model_type": "ll\xe4ma"}'.encode("latin-1"), "expected UTF-8 text"),
    "a list": ("[1, 2]", "expected a mapping of keys to values, got a list of 2"),
    "null": ("null", "got None (null)"),
    "a number": ("5", "got 5"),
    "comments": ('{"model_type": "llama", // as in JSON5\n}', "not valid JSON"),
    "python": ("{'model_type': 'llama'}", "not valid JSON"),
    "deep lists": ('{"a":' + "[" * 200_000 + "]" * 200_000 + "}", "nested too deep"),
    "deep mappings": ('{"a":' * 200_000 + "1" + "}" * 200_000, "nested too deep"),
    "a key twice": ('{"model_type": "llama", "model_type": "gemma"}', "the key model_type stands in one mapping"),
    "a key twice, inside": ('{"model_type": "llama", "a": {"b": 1, "b": 1}}', "the key b stands in one mapping"),
    "4000 digits": (json.dumps(CONFIGS[LLAMA] | {"hidden_size": 10**3999}), "hidden_size: expected a whole number"),
    "5000 digits": ('{"model_type": "llama", "hidden_size": ' + "9" * 5000 + "}", "digits"),
    "a million values": ('{"model_type": "llama", "a": [' + "0," * 1_000_001 + "0]}", "more than 1,000,000 values"),
    "a million mappings": ('{"a": [' + '{"":0},' * 600_000 + "0]}", "more than 1,000,000 values"),
}  # fmt: skip


@pytest.mark.parametrize("what", TEXTS)
def test_what_is_no_config_is_refused_in_one_line(what: str, tmp_path: Path) -> None:
    text, needle = TEXTS[what]
    path = written(tmp_path, text)
    for asked in (path, tmp_path):
        with pytest.raises(SpecError) as caught:
            in_time(partial(rl.model, asked))
        assert needle in one_line(caught.value, str(path))


@given(st.sampled_from(NAMES), st.data())
def test_a_text_cut_or_scribbled_on_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject
) -> None:
    text = bytearray(json.dumps(CONFIGS[name]).encode())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text) - 1))
        text[at] = data.draw(st.sampled_from(b'0"9{}[],:-e\xff\x00 n'))
    if data.draw(st.booleans()):
        del text[data.draw(st.integers(0, len(text))) :]
    survives(written(tmp_path_factory.mktemp("cut", numbered=True), bytes(text)))


def special_files(folder: Path) -> dict[str, Path]:
    """Paths that are not what they look like; none may be waited on."""
    (folder / "empty").mkdir()
    for name in ("pipe", "loop", "zero", "gone", "folder"):
        (folder / name).mkdir()
    os.mkfifo(folder / "pipe" / "config.json")
    (folder / "loop" / "config.json").symlink_to(folder / "loop" / "config.json")
    (folder / "round").symlink_to(folder / "round")
    (folder / "zero" / "config.json").symlink_to("/dev/zero")
    (folder / "gone" / "config.json").symlink_to("/nowhere/at/all")
    (folder / "folder" / "config.json").mkdir()
    os.mkfifo(folder / "pipe.yaml")
    (folder / "zero.yaml").symlink_to("/dev/zero")
    with (folder / "huge.json").open("wb") as stream:
        stream.truncate(100_000_000_000)
    with (folder / "huge.yaml").open("wb") as stream:
        stream.truncate(100_000_000)
    named = (
        "pipe",
        "loop",
        "zero",
        "gone",
        "folder",
        "empty",
        "round/x.json",
        "pipe.yaml",
        "zero.yaml",
        "huge.json",
        "huge.yaml",
    )
    return {name: folder / name for name in named} | {
        "device": Path("/dev/zero"), "null byte": folder / "a\0b.json", "null byte, folder": folder / "a\0b" / "config.json",
        "long name": folder / ("x" * 300 + ".json"), "long path": Path("/" + "x/" * 3000 + "config.json"),
        "long yaml": folder / ("x" * 300 + ".yaml"), "below a file": folder / "huge.json" / "config.json",
    }  # fmt: skip


def test_what_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    for name, path in special_files(tmp_path).items():
        for asked in (path, str(path)):
            with pytest.raises(SpecError) as caught:
                in_time(partial(rl.model, asked), 125.0)
            message = one_line(caught.value)
            assert (
                "cannot be read" in message
                or "expected a" in message
                or "is not read" in message
                or "larger" in message
            ), name


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, CONFIGS[LLAMA])
    path.chmod(0)
    with pytest.raises(SpecError, match="cannot be read"):
        rl.model(path)
    path.chmod(0o600)
    tmp_path.chmod(0)
    try:
        for asked in (path, tmp_path):
            with pytest.raises(SpecError, match="cannot be read"):
                rl.model(asked)
    finally:
        tmp_path.chmod(0o700)


@pytest.mark.parametrize("name", ["a\nb", "a\x1b[31mb", os.fsdecode(b"a\xffb"), "a\u202eb", "…", "-rf", "a'\"b", " "])
def test_the_name_of_a_file_reaches_no_message_raw(name: str, tmp_path: Path) -> None:
    path = written(tmp_path, CONFIGS[LLAMA], f"{name}.json")
    m = rl.model(path)
    assert m.name.isprintable()
    assert m.source.isprintable()
    shown(m, tmp_path)
    path.write_text("{", encoding="utf-8")
    with pytest.raises(SpecError) as caught:
        rl.model(path)
    one_line(caught.value)


def test_nothing_in_a_checkpoint_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the code `auto_map` names, nor a module that happens to lie in the folder."""
    code = f"import pathlib; pathlib.Path({str(tmp_path / 'ran')!r}).touch()"
    for module in ("modeling_evil", "configuration_evil", "gguf", "yaml", "transformers", "sitecustomize", "conftest"):
        written(tmp_path, code, f"{module}.py")
    auto = {"AutoConfig": "configuration_evil.C", "AutoModelForCausalLM": "evil/repo--modeling_evil.M"}
    written(
        tmp_path,
        config(LLAMA) | {"auto_map": auto, "trust_remote_code": True, "custom_pipelines": {"x": {"impl": "e.E"}}},
    )
    written(tmp_path, "cos\nsystem\n(S'true'\ntR.", "pytorch_model.bin")
    monkeypatch.chdir(tmp_path)
    assert rl.model(tmp_path).n_params > 0
    assert not (tmp_path / "ran").exists()


# What lies beside a config


@pytest.mark.parametrize("file", ["hf_quant_config.json", "quantize_config.json", "model.safetensors.index.json"])
@pytest.mark.parametrize(
    "what", ["empty", "truncated", "utf-16", "a list", "deep lists", "5000 digits", "a million values"]
)
def test_a_broken_file_beside_a_config_is_named(file: str, what: str, tmp_path: Path) -> None:
    written(tmp_path, CONFIGS[LLAMA])
    path = written(tmp_path, TEXTS[what][0], file)
    with pytest.raises(SpecError) as caught:
        in_time(lambda: rl.model(tmp_path))
    one_line(caught.value, str(path))


@pytest.mark.parametrize("junk", [j for j in JUNK if j is not GONE], ids=lambda j: repr(j)[:12])
def test_junk_beside_a_config_is_read_or_refused(junk: Any, tmp_path: Path) -> None:
    written(tmp_path, CONFIGS[LLAMA])
    for file, keys in (
        ("hf_quant_config.json", ("quantization",)),
        ("hf_quant_config.json", ("quant_algo", "exclude_modules", "kv_cache_quant_algo")),
        ("hf_quant_config.json", ("quant_algo", "quantized_layers")),
        ("quantize_config.json", ("bits", "group_size", "desc_act")),
        ("model.safetensors.index.json", ("weight_map", "metadata")),
    ):
        path = written(tmp_path, dict.fromkeys(keys, junk), file)
        survives(tmp_path / "config.json")
        path.unlink()


METHODS = (
    "fp8", "fbgemm_fp8", "mxfp4", "awq", "gptq", "auto-round", "bitsandbytes", "compressed-tensors", "modelopt", "hqq",
    "eetq", "mlx", "quark", "",
)  # fmt: skip
SECTION = st.fixed_dictionaries(
    {"quant_method": st.sampled_from(METHODS)},
    optional={
        "bits": st.sampled_from([4, 8, 2, 3, 16, 0, 99, "4", None]),
        "group_size": st.sampled_from([128, 64, -1, 0, 10**9, None, "128"]),
        "weight_block_size": st.sampled_from([[128, 128], [0, 1], [1], [10**9, 1], None, "x"]),
        "modules_to_not_convert": st.sampled_from([["lm_head"], ["re:(a+)+$"], ["*" * 300], [""], [None], "x", ["x" * 301]]),
        "ignore": st.sampled_from([["re:.*lm_head"], ["re:(" * 50], ["re:[a-"], ["\\"], ["*.mlp.*"], {}, None]),
        "quant_algo": st.sampled_from(["FP8", "NVFP4", "MIXED_PRECISION", "x", None, 3]),
        "quantized_layers": st.sampled_from([{}, {"a": {"quant_algo": "FP8"}}, {"a": 1}, [], None]),
        "config_groups": st.sampled_from([{}, {"g": {}}, {"g": {"weights": {"num_bits": 4}}}, {"g": 1}, [], None]),
        "load_in_4bit": st.sampled_from([True, False, None, 1]),
        "load_in_8bit": st.sampled_from([True, False, None, 1]),
        "dynamic": st.sampled_from([{"-:.*": {}}, {"+:(.*)*x": {"bits": 8}}, {"x": 1}, [], None]),
        "kv_cache_scheme": st.sampled_from([{"num_bits": 8, "type": "float"}, {"num_bits": 3, "type": "int"}, {}, "fp8", 8]),
        "quant_config": st.sampled_from([{"weight_quant_params": {"nbits": 4, "group_size": 64}}, {}, None]),
    },
)  # fmt: skip


@given(st.sampled_from([LLAMA, MIXTRAL, DEEPSEEK, of_type("qwen2_vl")]), st.lists(SECTION, min_size=6, max_size=6))
def test_quantisation_sections_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, name: str, sections: list[dict[str, Any]]
) -> None:
    folder = tmp_path_factory.mktemp("quant", numbered=True)
    for section in sections:
        survives(written(folder, config(name) | {"quantization_config": section}))


def test_headers_of_many_links_to_one_file_are_not_all_read(tmp_path: Path) -> None:
    """A thousand names cost nothing; a thousand times 100 KB of JSON would cost time."""
    written(tmp_path, CONFIGS[LLAMA])
    header = json.dumps({"a": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}).ljust(100_000).encode()
    written(tmp_path, struct.pack("<Q", len(header)) + header + bytes(16), "0.safetensors")
    for i in range(1, 900):
        (tmp_path / f"{i}.safetensors").symlink_to(tmp_path / "0.safetensors")
    with pytest.raises(SpecError) as caught:
        in_time(lambda: rl.model(tmp_path))
    assert "headers of 90,000,000 bytes; more than 64,000,000 are not read" in one_line(caught.value)


# Size: time and memory stay bounded

EVERY_OTHER = [f"model.layers.{i}.self_attn.q_proj" for i in range(0, 10_000, 2)]


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        (LLAMA, {}),
        (DEEPSEEK, {}),
        (GEMMA, {}),
        (of_type("jamba"), {}),
        (LLAMA, {"quantization_config": {"quant_method": "fp8", "modules_to_not_convert": EVERY_OTHER}}),
        (LLAMA, {"quantization_config": {"quant_method": "fp8", "ignore": ["re:.*layers\\.\\d+\\.self_attn.*"]}}),
    ],
    ids=["llama", "deepseek", "gemma", "jamba", "every other layer", "an expression"],
)
def test_ten_thousand_layers_are_read_in_time(name: str, changes: dict[str, Any], tmp_path: Path) -> None:
    data = config(name) | changes | {"num_hidden_layers": 10_000}
    m = in_time(lambda: rl.model(written(tmp_path, data)))
    assert m.n_layers == 10_000
    in_time(lambda: used(m))
    shown(m, tmp_path)


@pytest.mark.parametrize("model_type", ["gemma3_text", "gpt_oss", "qwen3_next"])
def test_layers_without_a_pattern_are_refused_or_read_in_time(model_type: str, tmp_path: Path) -> None:
    """Words in no order: too many groups of layers at ten thousand, a model like any other at six hundred."""
    full, other = "full_attention", "linear_attention" if model_type == "qwen3_next" else "sliding_attention"
    words = [full if (i * i // 7 + i // 3) % 3 else other for i in range(10_000)]
    data = config(of_type(model_type))
    with pytest.raises(SpecError, match="layers: expected at most 1,000 items, got"):
        in_time(lambda: rl.model(written(tmp_path, data | {"num_hidden_layers": 10_000, "layer_types": words})))
    m = survives(written(tmp_path, data | {"num_hidden_layers": 600, "layer_types": words[:600]}))
    assert m is not None
    shown(m, tmp_path)


def test_a_thousand_layers_of_their_own_formats_are_read_and_no_more(tmp_path: Path) -> None:
    """Layers that differ in nothing but formats once all had one hash, and a model of them took minutes."""
    roles = (
        "self_attn.q_proj",
        "self_attn.k_proj",
        "self_attn.v_proj",
        "self_attn.o_proj",
        "mlp.up_proj",
        "mlp.down_proj",
    )
    bits = (2, 3, 4, 5, 6, 8)
    section: dict[str, Any] = {"quant_method": "mlx", "bits": 4, "group_size": 64}
    for i in range(1200):
        own = {f"model.layers.{i}.{role}": bits[i // 6**k % 6] for k, role in enumerate(roles)}
        section |= {module: {"bits": n, "group_size": 64} for module, n in own.items()}
    few = config(LLAMA) | {"num_hidden_layers": 300, "quantization_config": section}
    m = in_time(lambda: rl.model(written(tmp_path, few)))
    assert len(m.layer_kinds()) == 300
    in_time(lambda: used(m), 750.0)
    with pytest.raises(SpecError) as caught:
        in_time(lambda: rl.model(written(tmp_path, few | {"num_hidden_layers": 1200})))
    assert "layers" in one_line(caught.value)


MEASURE = """
import pathlib, sys, time
import roofline as rl
began = time.perf_counter()
try:
    rl.model(sys.argv[1])
except rl.RooflineError as error:
    pass
status = pathlib.Path("/proc/self/status").read_text()  # not ru_maxrss, which a child takes over from its parent
print(time.perf_counter() - began, int(status.partition("VmHWM:")[2].split()[0]) / 1024)
"""
HEAVY: dict[str, Callable[[], str]] = {
    "numbers": lambda: '{"model_type":"llama","a":[' + "1.5," * 990_000 + "0]}",
    "texts": lambda: '{"model_type":"llama","a":[' + '"abcdefghijklmnopqrstuvwxyz0123456789",' * 900_000 + "0]}",
    "keys": lambda: '{"model_type":"llama",' + ",".join(f'"{i:x}":[]' for i in range(450_000)) + "}",
    "deep": lambda: '{"model_type":"llama","a":[' + ("[" * 900 + "]" * 900 + ",") * 1100 + "0]}",
    "one text": lambda: '{"model_type":"' + "x" * 39_000_000 + '"}',
    "wide letters": lambda: '{"model_type":"\U0001f600' + "x" * 39_000_000 + '"}',
    "index": lambda: '{"weight_map":{' + ",".join(f'"{i:x}":"a.safetensors"' for i in range(900_000)) + "}}",
}


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of memory is read as Linux has it")
@pytest.mark.parametrize("what", HEAVY)
def test_the_largest_file_that_is_read_takes_bounded_time_and_memory(what: str, tmp_path: Path) -> None:
    beside = what == "index"
    path = written(tmp_path, HEAVY[what](), "model.safetensors.index.json" if beside else "config.json")
    if beside:
        written(tmp_path, CONFIGS[LLAMA])
    said = subprocess.run(
        [sys.executable, "-c", MEASURE, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        cwd=REPO,
        timeout=120,
    )
    seconds, megabytes = map(float, said.stdout.split())
    assert path.stat().st_size > 1_000_000
    assert soon(seconds)
    assert megabytes < 500


@pytest.mark.parametrize(
    "text",
    [
        "layers: [" + "1," * 490_000 + "1]",
        "layers: [" + "{a: 1}," * 140_000 + "1]",
        "".join(f"{i:x}: 1\n" for i in range(90_000)),
        "layers: [{layers: [" + "{a: 1}," * 9_000 + "{}]}]",
    ],
    ids=["numbers", "mappings", "keys", "unknown keys"],
)
def test_a_yaml_file_of_many_values_is_refused_in_time(text: str, tmp_path: Path) -> None:
    path = written(tmp_path, "id: x\n" + text, "x.yaml")
    with pytest.raises(SpecError) as caught:
        in_time(lambda: rl.model(path))
    one_line(caught.value, str(path))
    with pytest.raises(SpecError) as caught:
        Model.read(load_yaml(path), where=str(path))
    one_line(caught.value, str(path))


def test_read_config_takes_a_folder_or_a_file_alike(tmp_path: Path) -> None:
    path = written(tmp_path, CONFIGS[LLAMA])
    assert read_config(path) == read_config(tmp_path)
