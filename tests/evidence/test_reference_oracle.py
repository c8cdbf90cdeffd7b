"""The ledger against an execution that counts itself: random tiny models of every kind it runs, random passes, ==."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import FORMAT_NAMES, MAYBE, Spec, as_model, chosen
from zoo import attention_specs, cross_specs, latent_specs, moe_specs, tower_specs

import roofline as rl
from roofline.evidence.reference.checks import Check, held_against, step_of
from roofline.evidence.reference.decoder import Chunk, Context, Decoder

D, VOCABULARY = 8, 11
MIXERS = ("attention", "latent", "linear", "none")


# Models as a YAML file describes them, of all that the reference runs


@st.composite
def self_attention_specs(draw: st.DrawFn, *, earlier: bool = False, causal: bool = True) -> Spec:
    """Windows so short that they fill and overflow."""
    spec = draw(
        attention_specs(values=("earlier",) if earlier else ("own", "keys") if causal else ("own",), causal=causal)
    )
    spec |= {"window": draw(st.none() | st.integers(1, 9)), "norm_bias": draw(st.booleans())}
    return spec | {"chunked": spec.get("chunked", False) and spec["window"] is not None}


@st.composite
def layer_specs(draw: st.DrawFn, mixers: Sequence[str]) -> Spec:
    mixer = draw(st.sampled_from(list(mixers)))
    ffn = draw(st.sampled_from(["dense", "moe", "linear", "none"]))
    parts: Spec = {"mixer": None, "ffn": None}
    if mixer != "none":
        kinds = {"attention": self_attention_specs(), "latent": latent_specs(indexed=("no",))}
        parts["mixer"] = {"kind": "linear", "bias": True} if mixer == "linear" else draw(kinds[mixer])
    if ffn != "none":
        dense = {"kind": "dense"} | draw(st.fixed_dictionaries({"d_ff": st.integers(1, 12), "gated": st.booleans()}))
        parts["ffn"] = (
            {"kind": "linear"} if ffn == "linear" else dense if ffn == "dense" else draw(moe_specs()) | {"scales": 0}
        )
    n_parts = sum(part is not None for part in parts.values())
    return parts | {"parallel": draw(st.booleans()), "n_norms": draw(st.integers(0, 2 * n_parts))}


@st.composite
def tower_of(draw: st.DrawFn) -> Spec:
    """What gives a memory: one row a token in and out, positions in a table or turned."""
    tower = draw(st.sampled_from(["vision", "audio", "text"]).flatmap(lambda kind: tower_specs(kind, "memory", D)))
    stem = tuple(product | {"rows": 1.0} for product in tower["stem"])
    wide = D if tower["kind"] == "text" else tower["d_model"]
    project = tower["projector"][0] | {"d_in": wide}
    layers = tuple({k: v for k, v in layer.items() if k != "vectors"} for g in tower["layers"] for layer in g["layers"])
    vectors = draw(st.sampled_from([{}, {"positions": 5 * wide}]))
    groups = ({"layers": layers},) if layers else ()
    return tower | {"d_model": wide, "stem": stem, "layers": groups, "projector": (project,), "vectors": vectors}


OUTSIDE: dict[str, Any] = {
    "norm": ({"kind": "rms"}, {"kind": "rms", "scale": False}, {"kind": "layer", "bias": True}),
    "final_norm": MAYBE,
    "embedding": ({}, {"norm": True}, {"width": 6}, {"width": 6, "norm": True}),
    "positions": ({"kind": "rope"}, {"kind": "alibi"}, {"kind": "none"}, {"kind": "learned", "rows": 40}),
    "head": ({"tied": False}, {"tied": True}, {"tied": False, "bias": True}, {"tied": True, "bias": True}),
    "dtype": ("bf16", "fp16", "fp32"),
}


@st.composite
def model_specs(draw: st.DrawFn, *, mixers: Sequence[str] = MIXERS, crossing: bool = False) -> Spec:
    """1 to 3 layers, some ending in one that reads an earlier cache; `crossing`: some attend to a tower, beside a mixer or
    alone."""
    stack = draw(st.lists(layer_specs(mixers), min_size=1, max_size=3))
    outside = chosen(draw, OUTSIDE)
    keeps = [x["mixer"] for x in stack if x["mixer"] is not None and x["mixer"]["kind"] == "attention"]
    if draw(st.booleans()) and keeps:
        earlier = keeps[-1] | {"values": "earlier", "sinks": draw(st.booleans())}
        stack.append({"mixer": earlier, "ffn": None, "n_norms": 1})
    if crossing:
        outside |= {"towers": (draw(tower_of()),), "embedding": {}}
        cross = draw(cross_specs(D))
        if draw(st.booleans()) or stack[0]["mixer"] is None:
            stack.append({"cross": cross, "ffn": {"kind": "dense", "d_ff": 5}, "n_norms": draw(st.integers(0, 4))})
        else:
            stack[0] |= {"cross": cross}
    groups = ({"repeat": draw(st.integers(1, 2)), "layers": tuple(stack)},)
    sizes = {"d_model": D, "vocab_size": VOCABULARY, "max_context_tokens": 64}
    return {"id": "tiny", "name": "Tiny", "layers": groups} | sizes | outside


def precisions() -> st.SearchStrategy[rl.Precision]:
    """Any format: all take a whole number of 2048ths of a bit an element, so that every sum of bytes is exact."""
    return st.builds(
        rl.Precision,
        weights=st.none() | st.sampled_from(FORMAT_NAMES),
        kv=st.none() | st.sampled_from(FORMAT_NAMES),
        head=st.just("auto") | st.sampled_from(FORMAT_NAMES),
    )


# Passes over sequences whose caches hold anything: counts do not ask what


def extended(decoder: Decoder, context: Context, n_tokens: int, n_memory: int = 0) -> Context:
    """The sequence with further tokens, and further tower outputs, in its caches."""
    rng, longer = np.random.default_rng(7), context.fork()
    for number, w in enumerate(decoder.weights.layers):
        x = w.layer.mixer
        if context.caches[number].rows and getattr(x, "values", "own") != "earlier":
            new = [rng.standard_normal((n_tokens, *row.shape[1:])) for row in context.caches[number].rows]
            window = getattr(x, "window", None)
            longer.caches[number] = context.caches[number].extended(*new).tail(None if window is None else window - 1)
        if context.memories[number].rows:
            new = [rng.standard_normal((n_memory, *row.shape[1:])) for row in context.memories[number].rows]
            longer.memories[number] = context.memories[number].extended(*new)
    longer.n_tokens += n_tokens
    return longer


@st.composite
def parts(draw: st.DrawFn) -> Spec:
    """Alike sequences of a pass: new tokens, cached ones, how many of those are held once, logits, inputs and memory."""
    kind = chosen(draw, {"new": MAYBE, "past": MAYBE, "logits": (1, 0, "all"), "inputs": (0, 0, 1, 2), "memory": MAYBE})
    n_new, n_past = draw(st.integers(1, 6)) if kind["new"] else 1, draw(st.integers(0, 14)) if kind["past"] else 0
    return {
        "n_seq": draw(st.integers(1, 3)),
        "n_new": n_new,
        "n_past": n_past,
        "n_shared": draw(st.integers(0, n_past)),
        "n_logits": n_new if kind["logits"] == "all" else kind["logits"],
        "n_inputs": kind["inputs"],
        "n_input_tokens": draw(st.integers(1, 4)) if kind["inputs"] else 0,
        "n_memory": draw(st.integers(1, 4)) if kind["memory"] else 0,
    }


def chunks_of(decoder: Decoder, part: Spec) -> list[Chunk]:
    crosses = decoder.model.remembers
    beginning = extended(decoder, decoder.start(), part["n_shared"])
    inputs: tuple[Any, ...] = ()
    if crosses:
        shape = (part["n_input_tokens"],) if decoder.model.reads_a_source else (part["n_input_tokens"], 12)
        inputs = tuple(np.ones(shape, dtype=int if len(shape) == 1 else float) for _ in range(part["n_inputs"]))
    n_memory = part["n_memory"] if crosses else 0
    contexts = [extended(decoder, beginning, part["n_past"] - part["n_shared"], n_memory) for _ in range(part["n_seq"])]
    tokens = np.arange(part["n_new"]) % VOCABULARY
    return [Chunk(context, tokens, part["n_logits"], inputs) for context in contexts]


def failed(decoder: Decoder, groups: list[Spec], **how: Any) -> list[str]:
    """Every count on which the ledger and the execution differ, in words."""
    given_chunks = [chunks_of(decoder, part) for part in groups]
    step = tuple(s for part, c in zip(groups, given_chunks, strict=True) for s in step_of(c, n_shared=part["n_shared"]))
    done = decoder.run(*(chunk for chunks in given_chunks for chunk in chunks))
    checks: list[Check] = list(held_against(done.counter, rl.count(decoder.model, step, **how), decoder.model))
    assert any(check.found for check in checks)
    return [check.said() for check in checks if not check.passed]


FORMS = st.sampled_from(["absorbed", "expanded"])
GROUPS = st.lists(parts(), min_size=1, max_size=2)


@given(model_specs(mixers=("latent",)), precisions(), GROUPS, FORMS)
def test_the_ledger_of_latent_attention_has_the_counts_of_an_execution(
    spec: Spec, precision: rl.Precision, groups: list[Spec], form: Any
) -> None:
    decoder = Decoder(as_model(spec), precision=precision, latent=form)
    assert failed(decoder, groups, precision=precision, latent=form) == []


@given(model_specs(mixers=("attention",)), precisions(), GROUPS)
def test_the_ledger_of_a_decoder_has_the_counts_of_an_execution(
    spec: Spec, precision: rl.Precision, groups: list[Spec]
) -> None:
    decoder = Decoder(as_model(spec), precision=precision)
    assert failed(decoder, groups, precision=precision, latent=decoder.latent) == []


@given(model_specs(crossing=True), precisions(), GROUPS, FORMS)
def test_the_ledger_of_what_attends_to_a_tower_has_the_counts_of_an_execution(
    spec: Spec, precision: rl.Precision, groups: list[Spec], form: Any
) -> None:
    decoder = Decoder(as_model(spec), precision=precision, latent=form)
    assert failed(decoder, groups, precision=precision, latent=form) == []


@given(st.booleans().flatmap(lambda crossing: model_specs(crossing=crossing)))
def test_what_is_drawn_for_a_model_are_its_parameters(spec: Spec) -> None:
    model = as_model(spec)
    assert Decoder(model).weights.n_params == model.n_params


# Released models, narrow: their layers, formats, norms and tables, with a few elements where they have thousands

NARROW = {
    "d_model": 8, "d_head": 4, "d_value": 4, "window": 5, "d_ff": 6, "d_shared": 6, "d_latent": 6, "d_rope": 2, "d_nope": 4,
    "d_q_latent": 5, "d_memory": 8, "vocab_size": 11, "rows": 40, "repeat": 1, "width": 6, "n_experts": 4,
}  # fmt: skip


def narrowed(x: Any) -> Any:
    """Plain data of a record with its sizes cut down; MHA stays MHA, GQA stays GQA, MQA stays MQA."""
    if isinstance(x, (list, tuple)):
        return tuple(narrowed(value) for value in x)
    if not isinstance(x, dict):
        return x
    out = {key: NARROW.get(key, value) if isinstance(value, int) else narrowed(value) for key, value in x.items()}
    out.pop("mtp", None)
    if "n_kv_heads" in x:
        few = 4 if x["n_kv_heads"] == x["n_heads"] else min(2, x["n_kv_heads"])
        out |= {"n_heads": 4, "n_kv_heads": few}
    elif "n_heads" in x:
        out["n_heads"] = 3
    if "n_active_experts" in x:
        out["n_active_experts"] = min(2, x["n_active_experts"])
    return out


RELEASED = (
    "llama-2-7b", "llama-3.1-8b", "falcon-7b", "gemma-2-9b", "gemma-3-1b", "gemma-4-31b-nvfp4", "gpt-2", "bloom-7b1",
    "opt-350m", "olmo-2-7b", "gptbigcode-santacoder", "mixtral-8x7b", "qwen1.5-moe-a2.7b", "glm-4.5", "gpt-oss-20b",
    "llama-4-scout-17b-16e", "deepseek-v2-lite", "deepseek-v3", "mimo-v2-flash", "bart-large-cnn",
)  # fmt: skip


@pytest.mark.parametrize("name", RELEASED)
def test_the_ledger_of_a_released_model_made_narrow_has_the_counts_of_an_execution(name: str) -> None:
    """In the checkpoint's own formats: a prompt of 7 (past the window), a decode of two, and both at once."""
    plain = narrowed(rl.model(name).plain())
    if all(tower.get("feeds") != "memory" for tower in plain.get("towers", ())):
        plain.pop("towers", None)  # what sees stands in the prompt: the decoder alone
    decoder = Decoder(as_model(plain))
    assert decoder.weights.n_params == decoder.model.n_params
    one = {"n_seq": 1, "n_new": 1, "n_past": 0, "n_shared": 0, "n_logits": 1, "n_inputs": 0, "n_memory": 0}
    prompt = one | {"n_new": 7, "n_inputs": 1, "n_input_tokens": 3}
    decode = one | {"n_seq": 2, "n_past": 9, "n_shared": 4, "n_input_tokens": 0, "n_memory": 3}
    for groups in ([prompt], [decode], [prompt, decode]):
        assert failed(decoder, groups, latent="expanded") == []
