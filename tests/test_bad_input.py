"""Bad input: what is refused, and that the refusal helps.

Every error is of the `RooflineError` family, one line, names the place, and says what was expected or what to do. What
is merely too large for a chip is answered, not refused.
"""

from __future__ import annotations

import copy
import json
import math
import re
import time
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import as_model

import roofline as rl
from roofline.dtypes import format_named
from roofline.errors import RooflineError, SpecError, UnknownName
from roofline.specs.catalog import load_yaml, shipped
from roofline.units import BYTES, BYTES_PER_S, FLOPS_PER_S, SECONDS, Quantity, parse

REPO = Path(__file__).resolve().parents[1]
LLAMA, H100 = rl.model("llama-3.1-8b"), rl.hardware("h100-sxm-80gb")
D = rl.Deployment(model=LLAMA, hardware=H100)

Say = Callable[[], object]


def one_line(message: str) -> str:
    assert message
    assert message.splitlines() == [message]
    assert len(message) <= 600
    return message


def refused(call: Say, kind: type[RooflineError], *needles: str) -> str:
    """The message of the refusal; it is of that class, one line, and holds every needle."""
    with pytest.raises(kind) as caught:
        call()
    message = one_line(str(caught.value))
    for needle in needles:
        assert needle in message
    return message


def named(value: object) -> str | None:
    """What a case of a table is called: by the first thing its message must say."""
    if isinstance(value, tuple) and all(isinstance(item, str) for item in value):
        return str(value[0])[:40]
    return "" if callable(value) else None


# Numbers

NO_NUMBERS: dict[str, Any] = {
    "negative": -1,
    "nan": math.nan,
    "infinite": math.inf,
    "minus infinity": -math.inf,
    "absurd": 1e13,
    "beyond float": 10**400,
    "bool": True,
    "text": "4",
    "bytes": b"4",
    "none": None,
    "complex": 1 + 2j,
    "mapping": {"tokens": 4},
    "object": object(),
    "empty list": [],
    "empty array": np.array([]),
    "empty grid": np.zeros((3, 0)),
    "ragged": [[1], [1, 2]],
    "nan inside": [1.0, math.nan],
    "infinity inside": np.array([[1.0], [math.inf]]),
    "negative inside": [3, -1],
    "beyond float inside": [10**400],
    "numpy bool": np.True_,
    "list of bools": [True, False],
    "array of bools": np.array([True]),
    "list of texts": ["1", "2"],
    "array of texts": np.array([["a"], ["b"]]),
    "array of digits": np.array(["1", "2"]),
    "array of complex": np.array([1 + 0j]),
    "array of dates": np.array(["2026-01-01"], dtype="datetime64[D]"),
    "array of nothing": np.array([None]),
}

ASKED: dict[str, Callable[[Any], object]] = {
    "Seqs n_seq": lambda x: rl.Seqs(n_seq=x, n_new=1),
    "Seqs n_new": lambda x: rl.Seqs(n_seq=1, n_new=x),
    "Seqs n_past": lambda x: rl.Seqs(n_seq=1, n_new=1, n_past=x),
    "Seqs n_shared": lambda x: rl.Seqs(n_seq=1, n_new=1, n_past=10, n_shared=x),
    "Seqs n_logits": lambda x: rl.Seqs(n_seq=1, n_new=10, n_logits=x),
    "prefill prompt_tokens": lambda x: rl.prefill(D, prompt_tokens=x),
    "prefill batch": lambda x: rl.prefill(D, prompt_tokens=1, batch=x),
    "prefill n_past": lambda x: rl.prefill(D, prompt_tokens=1, n_past=x),
    "decode context_tokens": lambda x: rl.decode(D, context_tokens=x),
    "decode batch": lambda x: rl.decode(D, context_tokens=1, batch=x),
    "predict prompt_tokens": lambda x: rl.predict(D, prompt_tokens=x, output_tokens=2),
    "predict batch": lambda x: rl.predict(D, prompt_tokens=1, output_tokens=2, batch=x),
    "memory context_tokens": lambda x: rl.memory(D, context_tokens=x),
    "memory batch": lambda x: rl.memory(D, context_tokens=1, batch=x),
    "kv_bytes context_tokens": lambda x: rl.kv_bytes(LLAMA, context_tokens=x),
    "kv_bytes batch": lambda x: rl.kv_bytes(LLAMA, context_tokens=1, batch=x),
}


@pytest.mark.parametrize("what", NO_NUMBERS)
@pytest.mark.parametrize("asked", ASKED)
def test_what_is_no_number_of_things_is_refused_where_it_was_given(asked: str, what: str) -> None:
    """The message opens with the name the caller used."""
    message = refused(lambda: ASKED[asked](NO_NUMBERS[what]), SpecError, "expected", "got")
    assert message.startswith(asked.split()[1] + ":")


@pytest.mark.parametrize(
    "asked", [a for a in ASKED if not a.endswith(("n_past", "n_shared", "n_logits", "context_tokens"))]
)
@pytest.mark.parametrize("nothing", [0, 0.0, [1, 0], np.zeros(2)])
def test_zero_sequences_or_tokens_are_refused(asked: str, nothing: Any) -> None:
    message = refused(lambda: ASKED[asked](nothing), SpecError, "got 0")
    assert message.startswith(asked.split()[1] + ":")


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize(
    "number", [1, 1.0, np.float32(1), np.int8(1), np.array(1), [1], (1, 1), np.ones((2, 1)), range(1, 3)]
)
def test_every_kind_of_number_is_taken(asked: str, number: Any) -> None:
    assert ASKED[asked](number) is not None


@pytest.mark.parametrize("number", [0, -1, 1.5, 256.0, math.nan, True, "8", None, [8], 10**8, 10**400])
def test_output_tokens_are_a_whole_number(number: Any) -> None:
    call = lambda: rl.predict(D, prompt_tokens=1, output_tokens=number)  # noqa: E731
    refused(call, SpecError, "output_tokens: expected")


@pytest.mark.parametrize(
    ("call", "names"),
    [
        (lambda a, b: rl.Seqs(n_seq=a, n_new=1, n_past=b).shape, ("n_seq", "n_past")),
        (lambda a, b: rl.count(LLAMA, rl.Seqs(n_seq=a, n_new=1, n_past=b)).flops, ("n_seq", "n_past")),
        (lambda a, b: rl.Seqs(n_seq=1, n_new=1, n_past=a, n_shared=b * 0.0), ("n_past", "n_shared")),
        (lambda a, b: rl.Seqs(n_seq=1, n_new=a, n_logits=b), ("n_new", "n_logits")),
        (lambda a, b: rl.prefill(D, prompt_tokens=a, batch=b), ("prompt_tokens", "batch")),
        (lambda a, b: rl.prefill(D, prompt_tokens=a, n_past=b), ("prompt_tokens", "n_past")),
        (lambda a, b: rl.decode(D, context_tokens=a, batch=b), ("context_tokens", "batch")),
        (lambda a, b: rl.predict(D, prompt_tokens=a, output_tokens=3, batch=b), ("prompt_tokens", "batch")),
        (lambda a, b: rl.memory(D, context_tokens=a, batch=b), ("context_tokens", "batch")),
        (lambda a, b: rl.kv_bytes(LLAMA, context_tokens=a, batch=b), ("context_tokens", "batch")),
    ],
    ids=named,
)
def test_arrays_that_do_not_broadcast_are_named_with_their_shapes(call: Any, names: tuple[str, str]) -> None:
    refused(lambda: call(np.ones(2), np.ones(3)), SpecError, "broadcast", "(2,)", "(3,)", *names)


def test_two_parts_of_a_pass_that_do_not_broadcast_are_refused() -> None:
    parts = tuple(rl.Seqs(n_seq=1, n_new=1, n_past=np.ones(n)) for n in (2, 3))
    refused(lambda: rl.count(LLAMA, parts).flops, SpecError, "broadcast", "(2,)", "(3,)")


def test_more_is_shared_than_cached() -> None:
    refused(lambda: rl.Seqs(n_seq=2, n_new=1, n_past=5, n_shared=6), SpecError, "n_shared: expected at most n_past")
    refused(
        lambda: rl.Seqs(n_seq=2, n_new=1, n_past=np.array([9.0, 5.0]), n_shared=6),
        SpecError,
        "n_shared: expected at most n_past",
    )


def test_more_logits_are_wanted_than_tokens_run() -> None:
    refused(lambda: rl.Seqs(n_seq=2, n_new=3, n_logits=4), SpecError, "n_logits: expected at most n_new")


# Words


@pytest.mark.parametrize(
    ("call", "kind", "needles"),
    [
        (lambda: rl.hardware("h10"), UnknownName, ('no hardware named "h10"', "did you mean h100", "lists all")),
        (lambda: rl.hardware(""), UnknownName, ('no hardware named ""', "lists all")),
        (lambda: rl.hardware("llama-3.1-8b"), UnknownName, ("no hardware named", "lists all")),
        (lambda: rl.hardware("m5-max:65GB"), UnknownName, ("m5-max-40c is not sold with 65GB", "48GB, 64GB, 128GB")),
        (lambda: rl.hardware("h100:80GB"), UnknownName, ("not sold with", "one size only")),
        (lambda: rl.model("llama-3.1-8"), UnknownName, ('no model named "llama-3.1-8"', "did you mean llama-3.1-8b")),
        (lambda: rl.model("gemma3-1"), UnknownName, ("did you mean", "gemma3-1b")),
        (lambda: rl.hardware("no/such.yaml"), SpecError, ("no/such.yaml: cannot be read", "No such file")),
        (lambda: rl.model("config.json"), SpecError, ("config.json: cannot be read", "No such file")),
        (lambda: rl.model("model.gguf"), SpecError, ("model.gguf: expected a file",)),
        (lambda: rl.model(REPO), SpecError, ("config.json: cannot be read",)),
        (lambda: rl.hardware(REPO), SpecError, ("expected a YAML file, found a folder",)),
        (lambda: rl.hardware("h100", search=["/no/such/folder"]), SpecError, ("/no/such/folder: expected a folder",)),
        (lambda: rl.hardware("h\n100"), UnknownName, ("no hardware named", "did you mean")),
        (lambda: rl.hardware("x" * 100_000), UnknownName, ("no hardware named",)),
        (lambda: rl.model("a\0b"), UnknownName, ("no model named",)),
        (lambda: rl.model("a\0b/c.yaml"), SpecError, ("cannot be read",)),
        (lambda: rl.hardware(None), SpecError, ("expected", "None")),  # type: ignore[arg-type]
    ],
    ids=named,
)
def test_unknown_chips_and_models_are_named_with_what_was_meant(
    call: Say, kind: type[RooflineError], needles: tuple[str, ...]
) -> None:
    refused(call, kind, *needles)


@pytest.mark.parametrize(
    ("call", "kind", "needles"),
    [
        (lambda: format_named("q4_km"), UnknownName, ('no number format named "q4_km"', "did you mean q4-k-m")),
        (lambda: format_named(None), UnknownName, ("None",)),  # type: ignore[arg-type]
        (lambda: format_named("b\nf16"), UnknownName, ("did you mean",)),
        (lambda: rl.Precision(weights="bf61"), UnknownName, ('"bf61"', "did you mean bf16")),
        (lambda: rl.Precision(kv="fp88"), UnknownName, ('"fp88"', "did you mean fp8")),
        (lambda: rl.Precision(weights=8), SpecError, ("weights", "8")),  # type: ignore[arg-type]
        (lambda: rl.Precision(weight="bf16"), SpecError, ("weight: unknown key", "did you mean weights")),  # type: ignore[call-arg]
        (lambda: rl.Precision(activations="fp7"), UnknownName, ("activations", '"fp7"', "use auto or one of")),
        (lambda: rl.Precision(head="q5_k_x"), UnknownName, ('"q5_k_x"', "did you mean")),
        (lambda: rl.Precision(head=None), SpecError, ("head",)),  # type: ignore[arg-type]
        (lambda: rl.Plan(tp=0), RooflineError, ("tp",)),
        (lambda: rl.Plan(tp=-1), RooflineError, ("tp",)),
        (lambda: rl.Plan(tp=True), SpecError, ("tp", "True")),
        (lambda: rl.Plan(tp=1.0), RooflineError, ("tp", "1.0")),  # type: ignore[arg-type]
        (lambda: rl.Plan(tp="a\nb"), RooflineError, ("tp",)),  # type: ignore[arg-type]
        (lambda: rl.Plan(tpp=1), SpecError, ("tpp: unknown key", "did you mean tp")),  # type: ignore[call-arg]
        (lambda: rl.Efficiency(compute=1.01), SpecError, ("compute", "1.01")),
        (lambda: rl.Efficiency(memory=0.0), SpecError, ("memory", "0")),
        (lambda: rl.Efficiency(compute=math.nan), SpecError, ("compute", "nan")),
        (lambda: rl.Efficiency(launch_s=-1e-6), SpecError, ("launch_s", "-1e-06")),
        (lambda: rl.Efficiency(flops=0.5), SpecError, ("flops: unknown key",)),  # type: ignore[call-arg]
    ],
    ids=named,
)
def test_formats_plans_and_efficiencies_are_checked_when_they_are_made(
    call: Say, kind: type[RooflineError], needles: tuple[str, ...]
) -> None:
    refused(call, kind, *needles)


def deployment(**words: Any) -> rl.Deployment:
    return rl.Deployment(**({"model": LLAMA, "hardware": H100} | words))


@pytest.mark.parametrize(
    ("words", "kind", "needles"),
    [
        ({"model": "llama-3.1-8b"}, SpecError, ("model", "'llama-3.1-8b'", "roofline.model(")),
        ({"hardware": "h100"}, SpecError, ("hardware", "'h100'", "roofline.hardware(")),
        ({"model": H100}, SpecError, ("model", "expected a Model")),
        ({"model": None}, SpecError, ("model", "None")),
        ({"plan": "tp=1"}, SpecError, ("plan", "tp=1")),
        ({"plan": 2}, SpecError, ("plan", "2")),
        ({"precision": "bf16"}, SpecError, ("precision", "bf16")),
        ({"precision": format_named("bf16")}, SpecError, ("precision",)),
        ({"weights": "int9"}, UnknownName, ('"int9"', "did you mean int8 or int4")),
        ({"weights": 4}, SpecError, ("weights", "4")),
        ({"kv": "fp17"}, UnknownName, ('"fp17"', "did you mean fp16")),
        ({"head": "nonsense"}, UnknownName, ('"nonsense"',)),
        ({"activations": "fp12"}, UnknownName, ("activations", '"fp12"', "use auto or one of")),
        ({"activations": "fp4", "weights": "nvfp4"}, SpecError, ("h100-sxm-80gb has no fp4 units", "it has", "auto")),
        ({"engine": "ideel"}, UnknownName, ('"ideel"', "did you mean ideal")),
        ({"engine": "vlm"}, UnknownName, ('"vlm"', "did you mean vllm")),
        ({"offload": "hots:0.5"}, SpecError, ("hots", "did you mean host")),
        ({"offload": "host:1.5"}, SpecError, ("host:1.5", "from 0 to 1")),
        ({"offload": "host:nan"}, SpecError, ("from 0 to 1",)),
        ({"offload": "host:0.5:cache"}, SpecError, ("what: weights, experts, kv",)),
        ({"offload": "host:0.5:experts"}, SpecError, ("no experts", "use what weights")),
        ({"engine": np.array([1, 2])}, SpecError, ("expected an engine",)),
        ({"offload": 0.5}, SpecError, ("host:0.5", "0.5")),
        ({"engine": None}, RooflineError, ("engine", "None")),
        ({"engine": 5}, RooflineError, ("engine", "5")),
    ],
    ids=named,
)
def test_a_deployment_says_which_of_its_parts_is_wrong(
    words: dict[str, Any], kind: type[RooflineError], needles: tuple[str, ...]
) -> None:
    refused(lambda: deployment(**words), kind, *needles)


@pytest.mark.parametrize("n_points", [1, 200_000])
@pytest.mark.parametrize("kernel", ["flesh", "", None, 3, ["flash"]])
def test_an_attention_kernel_is_flash_or_eager_on_grids_of_any_size(kernel: Any, n_points: int) -> None:
    """A large grid takes another way through the code, and must not take any word for flash."""
    context = np.ones(n_points)
    refused(
        lambda: rl.decode(D, context_tokens=context, attention=kernel).seconds,
        SpecError,
        "attention",
        '"flash" or "eager"',
    )
    refused(lambda: rl.count(LLAMA, rl.Seqs(n_seq=1, n_new=1), attention=kernel), SpecError, "attention")


@pytest.mark.parametrize("policy", ["windows", "", None, 1])
def test_a_cache_policy_is_window_or_allocated(policy: Any) -> None:
    refused(lambda: rl.kv_bytes(LLAMA, context_tokens=1, policy=policy), SpecError, "policy", '"window" or "allocated"')


def test_a_cache_format_is_a_known_one() -> None:
    refused(lambda: rl.kv_bytes(LLAMA, context_tokens=1, kv="f17"), UnknownName, '"f17"', "did you mean f16")


@pytest.mark.parametrize("step", [(), [], None, 5, "ab", (1,), [rl.Seqs(n_seq=1, n_new=1), 3], {"n_seq": 1}])
def test_a_pass_is_made_of_seqs(step: Any) -> None:
    refused(lambda: rl.count(LLAMA, step), SpecError, "expected one Seqs or a tuple of them")


@pytest.mark.parametrize("what", ["llama-3.1-8b", 5, None, [], (), [D, "h100"], {}, "x"])
def test_a_prediction_is_about_deployments(what: Any) -> None:
    refused(lambda: rl.predict(what, prompt_tokens=1, output_tokens=2), SpecError, "deployment")


@pytest.mark.parametrize("ask", [rl.prefill, rl.decode, rl.memory])
@pytest.mark.parametrize("what", ["llama-3.1-8b", None, LLAMA, (D,)])
def test_every_question_is_about_a_deployment(ask: Any, what: Any) -> None:
    tokens = {"prompt_tokens": 1} if ask is rl.prefill else {"context_tokens": 1}
    refused(lambda: ask(what, **tokens), SpecError, "expected a Deployment")


ONE = rl.Seqs(n_seq=1, n_new=1)
CASES_OF_RECORDS: list[tuple[Say, str]] = [
    (lambda: rl.count("llama-3.1-8b", ONE), "expected a Model"),  # type: ignore[arg-type]
    (lambda: rl.count(D, ONE), "expected a Model"),  # type: ignore[arg-type]
    (lambda: rl.kv_bytes("llama-3.1-8b", context_tokens=1), "expected a Model"),  # type: ignore[arg-type]
    (lambda: rl.count(LLAMA, ONE, precision="bf16"), "precision"),  # type: ignore[arg-type]
    (lambda: rl.count(LLAMA, ONE, plan="tp=1"), "plan"),  # type: ignore[arg-type]
    (lambda: rl.clock(rl.count(LLAMA, ONE), "h100"), "expected a Hardware"),  # type: ignore[arg-type]
    (lambda: rl.clock(LLAMA, H100), "expected a Ledger"),  # type: ignore[arg-type]
    (lambda: rl.clock(rl.count(LLAMA, ONE), H100, efficiency=0.5), "efficiency"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("call", "needle"), CASES_OF_RECORDS)
def test_a_name_where_a_record_is_wanted_is_said_to_be_one(call: Say, needle: str) -> None:
    """Names are what people have at hand; the answer says what to make of them."""
    refused(call, SpecError, needle)


# Units


@pytest.mark.parametrize(
    ("text", "quantity", "needles"),
    [
        ("4.8 TB", BYTES_PER_S, ('a rate such as "4.8 TB/s"', '"4.8 TB"', "which is a size")),
        ("4.8 TB/s", BYTES, ("a size such as", "which is a rate")),
        ("989 TFLOP/s", BYTES_PER_S, ("which is a FLOP rate",)),
        ("3.35 TB/s", FLOPS_PER_S, ("which is a rate",)),
        ("700 W", SECONDS, ("which is a power",)),
        ("3.35", BYTES_PER_S, ('"3.35"', "without a unit")),
        (3.35e12, BYTES_PER_S, ("without a unit", "such as")),
        (80, BYTES, ("without a unit",)),
        ("80 gb", BYTES, ('did you mean "GB"',)),
        ("80 Gb", BYTES, ("write bits as Gbit/s",)),
        ("400 Gbps", BYTES_PER_S, ("write bits as Gbit/s",)),
        ("400 Gb/s", BYTES_PER_S, ("write bits as Gbit/s",)),
        ("989 TFLOPS", FLOPS_PER_S, ("such as",)),
        ("989 TFLOPs/s", FLOPS_PER_S, ("such as",)),
        ("80 GGB", BYTES, ("such as",)),
        ("80 TiFLOP/s", FLOPS_PER_S, ("such as",)),
        ("0 GB", BYTES, ("outside",)),
        ("0.0 TB/s", BYTES_PER_S, ("outside",)),
        ("-80 GB", BYTES, ("outside",)),
        ("nan GB", BYTES, ("outside",)),
        ("inf TB/s", BYTES_PER_S, ("outside",)),
        ("-inf TB/s", BYTES_PER_S, ("outside",)),
        ("1e300 GB", BYTES, ("outside",)),
        ("1e9999 GB", BYTES, ("outside",)),
        ("1e99999 GB", BYTES, ("such as",)),
        ("9" * 5000 + " GB", BYTES, ("such as",)),
        ("", BYTES, ("such as",)),
        ("   ", BYTES, ("such as",)),
        ("GB", BYTES, ("such as",)),
        ("80 GB 40 GB", BYTES, ("such as",)),
        ("1.2.3 GB", BYTES, ("such as",)),
        ("0x10 GB", BYTES, ("such as",)),
        ("4.8\nTB", BYTES_PER_S, ("which is a size",)),
        ("80\x00 GB", BYTES, ("such as",)),
        ("\x1b[31m80 GB", BYTES, ("such as",)),
        (True, BYTES, ("such as", '"True"')),
        (None, BYTES, ("such as", '"None"')),
        (["80 GB"], BYTES, ("such as",)),
        ({"value": 80}, BYTES, ("such as",)),
        (b"80 GB", BYTES, ("such as",)),
    ],
    ids=named,
)
def test_units_that_are_missing_wrong_or_mixed_up_say_what_is_wanted(
    text: object, quantity: Quantity, needles: tuple[str, ...]
) -> None:
    message = refused(lambda: parse(text, quantity), SpecError, "expected a", *needles)
    assert message.isprintable()


@given(
    st.text(max_size=60) | st.floats() | st.integers() | st.none() | st.booleans(),
    st.sampled_from([BYTES, BYTES_PER_S]),
)
def test_any_text_is_a_quantity_in_range_or_refused(text: object, quantity: Quantity) -> None:
    try:
        value = parse(text, quantity)
    except SpecError as error:
        one_line(str(error))
    else:
        assert quantity.low <= value <= quantity.high


# YAML files


@cache
def text_of(kind: str, name: str) -> str:
    return (shipped(kind) / f"{name}.yaml").read_text(encoding="utf-8")


def chip_text(*changes: tuple[str, str]) -> str:
    text = text_of("hardware", "h100-sxm-80gb")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    return text


def model_text(*changes: tuple[str, str]) -> str:
    text = text_of("models", "llama-3.1-8b")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    return text


def written(folder: Path, content: str | bytes) -> Path:
    path = folder / "mine.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


BILLION_LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("content", "needles"),
    [
        ("", ("expected a mapping of keys to values", "nothing")),
        ("# only a comment\n", ("expected a mapping", "nothing")),
        ("---\n", ("expected a mapping", "nothing")),
        ("null\n", ("expected a mapping", "nothing")),
        ("just a text\n", ("expected a mapping",)),
        ("42\n", ("expected a mapping",)),
        ("- id: a\n- id: b\n", ("expected a mapping", "list")),
        ("id: a\n---\nid: b\n", (":2:1:", "one YAML document", "second")),
        ("id: a\nid: b\n", (":2:1:", "key id", "second time")),
        ("memory: {type: a, type: b}\n", ("key type", "second time")),
        ("id: !!python/object/apply:os.system ['true']\n", (":1:", "tags", "python/object")),
        ("!!python/object:builtins.dict {}\n", ("tags",)),
        ("id: !mine x\n", ("tags", "!mine")),
        ("id: !!str 5\n", ("tags", "plain values")),
        ("id: !!binary aGVsbG8=\n", ("tags",)),
        (BILLION_LAUGHS, (":1:4:", "anchors", "write the value out")),
        ("a: &x {a: *x}\n", ("anchors",)),
        ("a: *nowhere\n", ("YAML",)),
        ("<<: {id: a}\n", ("unknown key",)),
        ("? [1, 2]\n: 3\n", ("plain key",)),
        ("? {a: 1}\n: 3\n", ("plain key",)),
        ("a: " + "[" * 10_000 + "]" * 10_000, ("nest",)),
        ("a: " + "{a: " * 10_000 + "1" + "}" * 10_000, ("nested deeper than",)),
        ("".join(" " * i + "a:\n" for i in range(1000)), ("nested deeper than",)),
        ("- " * 10_000 + "x", ("nested deeper than",)),
        ("a: " + "x" * 1_000_001, ("larger than 1,000,000 bytes", "a page of text")),
        (b"id: \xff\xfe\xfa\n", ("expected UTF-8",)),
        ("id: \u00e9\n".encode("utf-16"), ("UTF-8",)),
        (b"\x00\x01\x02", ("not valid YAML",)),
        ("id: 'unclosed\n", ("not valid YAML",)),
        ("id: [a, b\n", ("not valid YAML",)),
        ("id: a\n\tname: b\n", ("not valid YAML", ":2:1")),
        ("id: a\n b: c\n", ("not valid YAML",)),
        ("%YAML 9.9\n---\nid: a\n", ("YAML",)),
        ("released: 2026-13-40\nid: a\n", (":1:", "month")),
    ],
    ids=lambda value: repr(value[:30]) if isinstance(value, (str, bytes)) else named(value),
)
@pytest.mark.parametrize("read", [rl.hardware, rl.model])
def test_a_file_that_is_no_plain_mapping_is_refused_with_its_place(
    read: Any, content: str | bytes, needles: tuple[str, ...], tmp_path: Path
) -> None:
    path = written(tmp_path, content)
    message = refused(lambda: read(path), SpecError, *needles)
    assert message.startswith(str(path))


@pytest.mark.parametrize(
    ("change", "needles"),
    [
        (("bandwidth: 3.35 TB/s", "bandwidth: 4.8 TB"), ("memory.bandwidth", '"4.8 TB/s"', "which is a size")),
        (("bandwidth: 3.35 TB/s", "bandwidth: 3.35"), ("memory.bandwidth", "without a unit")),
        (("bandwidth: 3.35 TB/s", "bandwidth: 0 TB/s"), ("memory.bandwidth", "outside")),
        (("bandwidth: 3.35 TB/s", "bandwidth: .inf"), ("memory.bandwidth", "such as")),
        (("bandwidth: 3.35 TB/s", "bandwidth: -1 TB/s"), ("memory.bandwidth", "outside")),
        (("bandwidth: 3.35 TB/s", "bandwidth: [3.35 TB/s]"), ("memory.bandwidth", "such as")),
        (("bandwidth: 3.35 TB/s", "bandwidth:"), ("memory.bandwidth", "such as")),
        (("bandwidth: 3.35 TB/s", "bandwith: 3.35 TB/s"), ("memory.bandwith: unknown key", "did you mean bandwidth")),
        (("  bandwidth: 3.35 TB/s\n", ""), ("memory.bandwidth: missing",)),
        (("capacity: 81559 MiB", "capacity: 81559 MiB/s"), ("memory.capacity", "such as")),
        (("bf16: 989.4 TFLOP/s", "bf16: 989.4 TFLOPS"), ("compute.matrix.bf16", "such as")),
        (("bf16: 989.4 TFLOP/s", "bf61: 989.4 TFLOP/s"), ("compute.matrix.bf61", "did you mean bf16")),
        (
            ("bf16: 989.4 TFLOP/s", "bf16: {peek: 989.4 TFLOP/s}"),
            ("compute.matrix.bf16.peek: unknown key", "did you mean peak"),
        ),
        (
            ("bf16: 989.4 TFLOP/s", "bf16: {peak: 9 TFLOP/s, peak_max: 8 TFLOP/s}"),
            ("compute.matrix.bf16", "peak_max: expected at least"),
        ),
        (("vendor: NVIDIA\n", ""), ("vendor: missing", "required")),
        (("vendor: NVIDIA", "vendor: 7"), ("vendor", "7")),
        (("kind: gpu", "kind: gpus"), ("kind: expected one of", "'gpus'", "did you mean gpu")),
        (("id: h100-sxm-80gb", "id: H100 SXM"), ("id:", "H100 SXM")),
        (("kind: nvlink", "kind: nvlnk"), ("links.scale_up.kind", "did you mean nvlink")),
        (("domain: 8", "domain: 0"), ("links.scale_up.domain", "0")),
        (("domain: 8", "domain: 8.5"), ("links.scale_up.domain", "8.5")),
        (("tdp: 700 W", "tdp: 700"), ("power.tdp", "without a unit")),
        (("low: 2.69 USD/h", "low: 99 USD/h"), ("price", "low <= high")),
        (("low: 2.69 USD/h", "low: 2.69 EUR/h"), ("price.low", "USD/h")),
        (("released: 2022-03-22", "released: soon"), ("released", "date")),
        (("aliases: [h100, h100-sxm, h100-sxm5, h100-80gb]", "aliases: h100"), ("aliases", "'h100'")),
        (("  power: NVIDIA", "  pover: NVIDIA"), ("sources.pover", "did you mean power")),
        (("compute:\n", "runs: 3\ncompute:\n"), ("runs: unknown key",)),
        (("  vector:\n", "  runs_as: {fp4: fp6}\n  vector:\n"), ("compute.runs_as.fp4", "no fp6 units", "it has")),
        (
            ("  vector:\n", "  runs_as: {bf16: fp16}\n  vector:\n"),
            ("compute.runs_as.bf16", "units of its own", "drop one"),
        ),
    ],
    ids=named,
)
def test_a_chip_s_file_says_where_it_is_wrong(
    change: tuple[str, str], needles: tuple[str, ...], tmp_path: Path
) -> None:
    path = written(tmp_path, chip_text(change))
    message = refused(lambda: rl.hardware(path), SpecError, *needles)
    assert message.startswith(f"{path}: ")


@pytest.mark.parametrize(
    ("change", "needles"),
    [
        (("n_kv_heads: 8", "n_kv_heads: 5"), ("5 does not divide n_heads=32", "use one of 1, 2, 4, 8, 16, 32")),
        (("n_kv_heads: 8", "n_kv_heads: 64"), ("64 does not divide n_heads=32", "use one of")),
        (("n_kv_heads: 8", "n_kv_heads: 0"), ("n_kv_heads", "0")),
        (("n_heads: 32", "n_heads: -32"), ("n_heads", "-32")),
        (("n_heads: 32", "n_heads: 32.0"), ("n_heads", "32.0")),
        (("n_heads: 32", "n_heads: '32'"), ("n_heads", "'32'")),
        (("n_heads: 32", "n_heads: yes"), ("n_heads", "True")),
        (("n_heads: 32", "n_head: 32"), ("n_head: unknown key", "did you mean n_heads")),
        (("d_head: 128", "d_head: .nan"), ("d_head", "nan")),
        (("d_head: 128", "d_head: 1" + "0" * 30), ("d_head", "10000000")),
        (("d_model: 4096", "d_model: .inf"), ("d_model", "inf")),
        (("d_model: 4096", "d_model: 0"), ("d_model", "0")),
        (("d_model: 4096", "d_model:"), ("d_model", "null")),
        (("d_model: 4096\n", ""), ("d_model: missing",)),
        (("vocab_size: 128256", "vocab_size: 1e5"), ("vocab_size", "1e5")),
        (("repeat: 32", "repeat: 0"), ("repeat", "0")),
        (("repeat: 32", "repeat: 1000000000"), ("repeat", "1000000000")),
        (("kind: attention", "kind: mambo"), ("mambo", "attention", "mamba2")),
        (("kind: dense", "kind: mow"), ("mow", "dense", "moe")),
        (("dtype: bf16", "dtype: bf61"), ("dtype: expected one of", "did you mean bf16")),
        (("d_head: 128", "d_head: 128, window: 0"), ("window", "0")),
        (("d_head: 128", "d_head: 128, windw: 9"), ("windw: unknown key", "did you mean window")),
        (("d_head: 128", "d_head: 128, qk_norm: yes"), ("qk_norm", "True")),
        (("tied: false", "tied: maybe"), ("head.tied", "'maybe'")),
        (("tied: false", "tide: false"), ("head.tide: unknown key", "did you mean tied")),
        (("\nhead:", "\npositions: {kind: learned}\nhead:"), ("positions", "rows: expected with kind: learned")),
        (("\nhead:", "\npositions: {rows: 5}\nhead:"), ("positions", "rows: expected with kind: learned")),
        (("    layers:\n", "    layer:\n"), ("layer: unknown key", "did you mean layers")),
        (("id: llama-3.1-8b", "id: ''"), ("id:",)),
    ],
    ids=named,
)
def test_a_model_s_file_says_where_it_is_wrong(
    change: tuple[str, str], needles: tuple[str, ...], tmp_path: Path
) -> None:
    path = written(tmp_path, model_text(change))
    message = refused(lambda: rl.model(path), SpecError, *needles)
    assert message.startswith(f"{path}: ")


@pytest.mark.parametrize("layers", ["[]", "{}", "5", "[{repeat: 2, layers: []}]", "[[]]", "[null]", "layers"])
def test_a_model_without_layers_is_none(layers: str, tmp_path: Path) -> None:
    head, _, _ = model_text().partition("layers:")
    path = written(tmp_path, f"{head}layers: {layers}\n")
    refused(lambda: rl.model(path), SpecError, str(path), "layers")


@pytest.mark.parametrize("number", ["010", "1:08"])
def test_a_count_is_written_in_decimal_or_refused(number: str, tmp_path: Path) -> None:
    """YAML 1.1 reads 010 as eight and 1:08 as sixty-eight; neither is what somebody who typed it into a spec meant."""
    path = written(tmp_path, model_text(("repeat: 32", f"repeat: {number}")))
    refused(lambda: rl.model(path), SpecError, str(path), number)


def test_gb_and_gib_are_both_legal_and_not_the_same(tmp_path: Path) -> None:
    si = rl.hardware(written(tmp_path, chip_text(("capacity: 81559 MiB", "capacity: 80 GB"))))
    assert si.memory_bytes == 80e9
    binary = rl.hardware(written(tmp_path, chip_text(("capacity: 81559 MiB", "capacity: 80 GiB"))))
    assert binary.memory_bytes == 80 * 2**30


def test_several_problems_are_counted_and_the_first_is_said(tmp_path: Path) -> None:
    path = written(tmp_path, chip_text(("vendor: NVIDIA\n", ""), ("bandwidth: 3.35 TB/s", "bandwidth: 3")))
    refused(lambda: rl.hardware(path), SpecError, "(and 1 more)")


def test_a_huge_whole_number_is_refused_in_a_few_words(tmp_path: Path) -> None:
    """Python will not print an integer of more than 4300 digits; the refusal must not try."""
    path = written(tmp_path, model_text(("d_model: 4096", f"d_model: 0x{'f' * 5000}")))
    refused(lambda: rl.model(path), SpecError, "d_model")
    refused(lambda: rl.Model.read({"d_model": 16**5000}, where="here"), SpecError, "here")
    refused(lambda: parse(16**5000, BYTES), SpecError, "such as")


def test_a_key_of_two_lines_is_refused_in_one(tmp_path: Path) -> None:
    path = written(tmp_path, chip_text(("vendor: NVIDIA", '"a\\nb": 3\nvendor: NVIDIA')))
    refused(lambda: rl.hardware(path), SpecError, "unknown key")


def test_data_that_is_not_a_mapping_is_refused_before_it_is_read() -> None:
    no_mappings: tuple[object, ...] = (None, [], "x", 3, (1,), {1, 2})
    for data in no_mappings:
        for record in (rl.Hardware, rl.Model):
            refused(partial(record.read, data, where="here"), SpecError, "here: expected a mapping")


def test_lists_are_as_good_as_tuples() -> None:
    """Plain data has lists: JSON, and YAML read by others."""
    data = json.loads(json.dumps(load_yaml(shipped("models") / "gemma-3-1b.yaml")))
    assert as_model(data) == rl.model("gemma-3-1b")


def test_the_time_to_read_a_long_pattern_grows_with_its_length_not_its_square(tmp_path: Path) -> None:
    """Under the limits of size and depth, so it is a model like any other: 1000 layers, each of another width."""
    seconds = {}
    for n in (100, 1000):
        layer = "      - {{mixer: {{kind: attention, n_heads: 1, n_kv_heads: 1, d_head: 1}}, ffn: {{d_ff: {}}}}}\n"
        head, _, _ = model_text().partition("layers:")
        path = written(tmp_path, f"{head}layers:\n  - layers:\n{''.join(layer.format(i + 1) for i in range(n))}")
        start = time.perf_counter()
        ledger = rl.count(rl.model(path), rl.Seqs(n_seq=1, n_new=1))
        seconds[n] = time.perf_counter() - start
        assert ledger.kv_write_bytes == n * 2 * 2
    assert seconds[1000] < 40 * seconds[100]  # ten times as long where it is linear, a hundred where it is not


# Folders of one's own


def test_a_file_of_one_s_own_hides_the_shipped_one(tmp_path: Path) -> None:
    (tmp_path / "hardware").mkdir()
    (tmp_path / "hardware" / "h100-sxm-80gb.yaml").write_text(chip_text(("3.35 TB/s", "1 TB/s")), encoding="utf-8")
    assert rl.hardware("h100-sxm-80gb", search=[tmp_path]).hbm_bytes_per_s == 1e12
    assert rl.hardware("h100-sxm-80gb").hbm_bytes_per_s == 3.35e12


@pytest.mark.parametrize(
    "aliases", ["aliases: [mine, own]", "aliases:\n  - mine\n  - own", "aliases: [\n  mine,\n  own,\n]"]
)
def test_an_alias_is_found_however_its_list_is_written(aliases: str, tmp_path: Path) -> None:
    text = chip_text(("id: h100-sxm-80gb", "id: other"), ("aliases: [h100, h100-sxm, h100-sxm5, h100-80gb]", aliases))
    (tmp_path / "other.yaml").write_text(text, encoding="utf-8")
    for alias in ("mine", "OWN"):
        assert rl.hardware(alias, search=[tmp_path]).id == "other"


@pytest.mark.parametrize("content", [b"\xff\xfe\xfa", b"", b"[", b"\x00" * 100, b"x" * 1_000_001, None])
def test_a_broken_file_in_one_s_own_folder_spoils_no_other_chip(content: bytes | None, tmp_path: Path) -> None:
    """`None`: a folder with the name of a file. Looking an alias up goes through every file."""
    broken = tmp_path / "broken.yaml"
    if content is None:
        broken.mkdir()
    else:
        broken.write_bytes(content)
    assert rl.hardware("h100", search=[tmp_path]).id == "h100-sxm-80gb"
    refused(lambda: rl.hardware("broken", search=[tmp_path]), SpecError, "broken.yaml")


# Answers that are no errors


def test_a_model_that_does_not_fit_is_an_answer() -> None:
    """Falcon-180B in bf16 is 359 GB; an 80 GB chip is short by the rest, and the times are still worked out."""
    d = rl.Deployment(model=rl.model("falcon-180b"), hardware=H100)
    p = rl.predict(d, prompt_tokens=2048, output_tokens=16, batch=2)
    assert p.memory.fits is False
    assert p.memory.short_by_bytes == pytest.approx(2 * 179_522_565_120 - H100.memory_bytes, rel=0.01)
    assert p.tpot_s is not None
    assert 0 < p.ttft_s < math.inf


def test_a_grid_says_where_it_fits() -> None:
    m = rl.memory(D, context_tokens=[8192, 8192], batch=[64, 1000])
    assert np.asarray(m.fits).tolist() == [True, False]
    assert np.asarray(m.short_by_bytes)[0] == 0


# Fuzz: whatever stands in a file, only errors of our own come out

JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.integers(),
    st.just(10**400),
    st.floats(),
    st.text(max_size=12),
    st.sampled_from(
        ["", "3.35 TB/s", "nan GB", "80 GB\n", "bf16", "attention", "a" * 5000, "\ud800", "\u2028", "\x1b[0m"]
    ),
    st.lists(st.integers(-1, 4), max_size=3),
    st.dictionaries(st.text(max_size=6), st.none() | st.integers(0, 9), max_size=2),
    st.just({"kind": "attention"}),
    st.binary(max_size=4),
)


def places(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths of everything below `data`."""
    found = []
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, (list, tuple)) else ()
    for key, value in items:
        found += [(*path, key), *places(value, (*path, key))]
    return found


def as_lists(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: as_lists(value) for key, value in data.items()}
    return [as_lists(item) for item in data] if isinstance(data, (list, tuple)) else data


def as_tuples(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: as_tuples(value) for key, value in data.items()}
    return tuple(as_tuples(item) for item in data) if isinstance(data, (list, tuple)) else data


@cache
def data_of(kind: str, name: str) -> Any:
    return as_lists(load_yaml(shipped(kind) / f"{name}.yaml"))


@st.composite
def mutated(draw: st.DrawFn, kind: str, names: tuple[str, ...]) -> Any:
    """A shipped spec with one to three things replaced, dropped or added."""
    data = copy.deepcopy(data_of(kind, draw(st.sampled_from(names))))
    for _ in range(draw(st.integers(1, 3))):
        where = places(data)
        if not where:
            break
        *steps, last = draw(st.sampled_from(where))
        inner = data
        for step in steps:
            inner = inner[step]
        match draw(st.sampled_from(["replace", "replace", "drop", "add"])):
            case "replace":
                inner[last] = copy.deepcopy(draw(JUNK))
            case "drop":
                del inner[last]
            case "add" if isinstance(inner, dict):
                inner[draw(st.text(max_size=8) | st.integers(0, 3) | st.sampled_from(["kind", "a\nb", "peak"]))] = (
                    copy.deepcopy(draw(JUNK))
                )
    return as_tuples(data)


def only_our_errors(read: Say) -> None:
    try:
        read()
    except RooflineError as error:
        one_line(str(error))


@settings(max_examples=4 * settings().max_examples)
@given(mutated("hardware", ("h100-sxm-80gb", "m5-max-40c", "t4", "rtx-4090")))
def test_whatever_a_chip_s_file_holds_only_our_own_errors_escape(data: Any) -> None:
    only_our_errors(lambda: rl.Hardware.read(data, where="mine.yaml"))


@settings(max_examples=4 * settings().max_examples)
@given(mutated("models", ("llama-3.1-8b", "gemma-2-9b", "opt-350m", "gpt-j-6b")))
def test_whatever_a_model_s_file_holds_only_our_own_errors_escape(data: Any) -> None:
    only_our_errors(lambda: rl.Model.read(data, where="mine.yaml"))


@settings(max_examples=4 * settings().max_examples)
@given(
    st.recursive(
        JUNK, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    )
)
def test_any_data_at_all_is_read_or_refused(data: Any) -> None:
    for record in (rl.Hardware, rl.Model, rl.Precision, rl.Plan, rl.Efficiency):
        only_our_errors(partial(record.read, data, where="mine.yaml"))


@pytest.mark.parametrize("key", ["[key]", "function-x"])  # found using hypothesis: words of the validator's own paths
def test_a_key_called_like_a_word_of_the_validator_is_an_unknown_key(key: str) -> None:
    with pytest.raises(rl.SpecError, match=rf"^mine.yaml: {re.escape(key)}: unknown key"):
        rl.Plan.read({key: None}, where="mine.yaml")


@settings(max_examples=4 * settings().max_examples)
@given(st.data())
def test_a_garbled_file_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Bytes of a shipped file cut out, doubled or overwritten."""
    content = bytearray(data.draw(st.sampled_from([chip_text(), model_text()])).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        i = data.draw(st.integers(0, len(content) - 1))
        j = min(len(content), i + data.draw(st.integers(0, 30)))
        content[i:j] = data.draw(
            st.binary(max_size=6)
            | st.sampled_from([b"", b"\n", b"{", b"]", b": ", b"- ", b"&a ", b"*a ", b"!!", b"'", b"\t"])
        )
    path = written(tmp_path_factory.mktemp("garbled", numbered=True), bytes(content))
    only_our_errors(lambda: rl.hardware(path))
    only_our_errors(lambda: rl.model(path))
