"""The ledger against an execution that counts itself: random tiny models of every kind it runs, random passes, ==."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from strategies import FORMAT_NAMES, MAYBE, Spec, as_model, chosen
from zoo import attention_specs, cross_specs, latent_specs, moe_specs, tower_specs

import roofline as rl
from roofline.evidence.reference.checks import Check, held_against, step_of
from roofline.evidence.reference.decoder import Chunk, Context, Decoder

D, VOCABULARY = 8, 11


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
def layer_specs(draw: st.DrawFn) -> Spec:
    mixer = draw(st.sampled_from(["attention", "attention", "latent", "linear", "none"]))
    ffn = draw(st.sampled_from(["dense", "moe", "linear", "none"]))
    parts: Spec = {"mixer": None, "ffn": None}
    if mixer != "none":
        mixers = {"attention": self_attention_specs(), "latent": latent_specs(indexed=("no",))}
        parts["mixer"] = {"kind": "linear", "bias": True} if mixer == "linear" else draw(mixers[mixer])
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
def model_specs(draw: st.DrawFn) -> Spec:
    """1 to 3 layers; some end in one that reads an earlier cache; some attend to a tower, beside a mixer or alone."""
    stack = draw(st.lists(layer_specs(), min_size=1, max_size=3))
    outside = chosen(draw, OUTSIDE)
    keeps = [x["mixer"] for x in stack if x["mixer"] is not None and x["mixer"]["kind"] == "attention"]
    if draw(st.booleans()) and keeps:
        stack.append(
            {"mixer": keeps[-1] | {"values": "earlier", "sinks": draw(st.booleans())}, "ffn": None, "n_norms": 1}
        )
    if draw(st.booleans()):
        outside |= {"towers": (draw(tower_of()),), "embedding": {}}
        cross = draw(cross_specs(D))
        if draw(st.booleans()) or stack[0]["mixer"] is None:
            stack.append({"cross": cross, "ffn": {"kind": "dense", "d_ff": 5}, "n_norms": draw(st.integers(0, 4))})
        else:
            stack[0] |= {"cross": cross}
    groups = ({"repeat": draw(st.integers(1, 2)), "layers": tuple(stack)},)
    return {
        "id": "tiny",
        "name": "Tiny",
        "d_model": D,
        "vocab_size": VOCABULARY,
        "max_context_tokens": 64,
        "layers": groups,
    } | outside


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


@given(
    model_specs(), precisions(), st.lists(parts(), min_size=1, max_size=2), st.sampled_from(["absorbed", "expanded"])
)
def test_the_ledger_has_the_counts_of_an_execution(
    spec: Spec, precision: rl.Precision, groups: list[Spec], form: Any
) -> None:
    decoder = Decoder(as_model(spec), precision=precision, latent=form)
    assert failed(decoder, groups, precision=precision, latent=form) == []


@given(model_specs())
def test_what_is_drawn_for_a_model_are_its_parameters(spec: Spec) -> None:
    model = as_model(spec)
    assert Decoder(model).weights.n_params == model.n_params
