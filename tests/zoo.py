"""Hypothesis strategies for models of every kind: what `strategies` draws is one species of these.

Like there, a strategy ending in ``_specs`` draws plain data as a YAML file holds it, and ranges are so small that counts are
whole numbers below 2**53 (but for the expected number of experts, which is no whole number).

    zoo_specs(), zoo_models()   1–3 groups of 1–2 layers: every mixer, every FFN, layers without one of the two,
                                cross-attention with or without a mixer; hyper-connections, side embeddings, towers
                                that feed the prompt or are remembered, encoders
    zoo_seqs(), zoo_steps()     parts of a pass with images or a source besides the text, read now or remembered
    of_layers(…)                the smallest model around given layers, for facts about one kind

`mixers=`, `ffns=` and `bodies=` narrow a strategy to the kinds a law speaks about.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st
from strategies import MAYBE, Spec, as_model, chosen

from roofline import Model, Seqs

# Mixers, a kind each

WINDOWS = st.one_of(st.integers(1, 8), st.integers(9, 5000))
INDEXERS = st.sampled_from(
    [
        {"n_heads": 1, "d_head": 16, "top_k": 1},
        {"n_heads": 4, "d_head": 8, "top_k": 7},
        {"n_heads": 2, "d_head": 32, "top_k": 600},
    ]
)


@st.composite
def attention_specs(draw: st.DrawFn, *, values: Sequence[str] = ("own", "keys"), causal: bool = True) -> Spec:
    """Full, windowed, chunked; values of its own, its keys, or an earlier layer's; gates, sinks, norms, biases."""
    drawn = chosen(
        draw,
        {
            "n_kv_heads": (1, 2, 4),
            "group": (1, 2, 3),
            "d_head": (1, 16, 64),
            "sight": ("full", "window", "chunk"),
            "values": values,
            "d_value": (None, 8, 24),
            "gated": (False, True, "apart", "head"),
            "sinks": MAYBE,
            "qk_norm": ("none", "head", "full"),
            "qkv_bias": (False, True, "qv"),
            "out_bias": MAYBE,
        },
    )
    sight = drawn.pop("sight")
    if sight != "full":
        drawn |= {"window": draw(WINDOWS), "chunked": sight == "chunk"}
    if drawn["values"] == "keys":
        drawn["d_value"] = None  # the keys are the values, so they are as wide
    return {"kind": "attention", "n_heads": drawn["n_kv_heads"] * drawn.pop("group"), "causal": causal} | drawn


@st.composite
def latent_specs(draw: st.DrawFn, *, indexed: Sequence[str] = ("no", "own", "shared")) -> Spec:
    """With or without a bottleneck of the queries; with an indexer, its own or shared, only with one."""
    drawn = chosen(
        draw,
        {
            "n_heads": (1, 2, 8),
            "d_latent": (4, 32, 48),
            "d_rope": (0, 8),
            "d_nope": (1, 8, 16),
            "d_value": (1, 8, 24),
            "d_q_latent": (None, 24),
            "bias": MAYBE,
            "indexed": indexed,
        },
    )
    indexed_how = drawn.pop("indexed")
    if indexed_how != "no":
        drawn["d_q_latent"] = 24
        drawn["indexer"] = draw(INDEXERS) | {"shared": indexed_how == "shared"}
    return {"kind": "latent"} | drawn


@st.composite
def compressed_specs(draw: st.DrawFn) -> Spec:
    """A window alone, with entries of several tokens, and with an indexer over those."""
    drawn = chosen(
        draw,
        {
            "n_heads": (2, 4),
            "d_head": (8, 16),
            "d_q_latent": (24,),
            "n_out_groups": (1, 2),
            "d_out_latent": (12,),
            "window": (1, 5, 128),
            "ratio": (None, 1, 4, 128),
            "sinks": MAYBE,
            "indexed": MAYBE,
        },
    )
    if drawn.pop("indexed") and drawn["ratio"] is not None:
        drawn["indexer"] = draw(INDEXERS)
    return {"kind": "compressed"} | drawn


def _plain(kind: str, **options: Sequence[Any]) -> st.SearchStrategy[Spec]:
    """A record of a kind whose fields vary on their own."""

    @st.composite
    def specs(draw: st.DrawFn) -> Spec:
        return {"kind": kind} | chosen(draw, options)

    return specs()


STATE_DTYPES = ("fp32", "bf16")
MAMBA2 = {"n_groups": (1, 2), "n_heads": (2, 8), "d_head": (8, 16), "d_state": (4, 16), "d_conv": (1, 4)}

MIXERS: dict[str, Callable[[], st.SearchStrategy[Any]]] = {
    "attention": attention_specs,
    "latent": latent_specs,
    "compressed": compressed_specs,
    "mamba": lambda: _plain(
        "mamba", d_inner=(16, 48), d_state=(4, 16), d_conv=(1, 4), dt_rank=(1, 6), conv_bias=MAYBE, bias=MAYBE,
        inner_norms=MAYBE, state_dtype=STATE_DTYPES,
    ),
    "mamba2": lambda: _plain(
        "mamba2", **MAMBA2, conv_bias=MAYBE, in_bias=MAYBE, out_bias=MAYBE, gated_norm=MAYBE, state_dtype=STATE_DTYPES
    ),
    "delta": lambda: _plain(
        "delta", n_key_heads=(1, 2), d_key=(8, 16), n_value_heads=(2, 4), d_value=(8, 24), d_conv=(1, 4),
        gate=("scalar", "channel"), state_dtype=STATE_DTYPES,
    ),
    "linear_attention": lambda: _plain(
        "linear_attention", n_heads=(1, 4), d_head=(8, 16), gated=MAYBE, norm=MAYBE, state_dtype=STATE_DTYPES
    ),
    "short_conv": lambda: _plain("short_conv", d_inner=(16, 48), d_conv=(1, 3), bias=MAYBE),
    "rglru": lambda: _plain("rglru", d_inner=(16, 48), n_blocks=(1, 4), d_conv=(1, 4), state_dtype=STATE_DTYPES),
    "pair": lambda: st.fixed_dictionaries(
        {
            "kind": st.just("pair"),
            "attention": attention_specs(),
            "recurrent": _plain("mamba2", **MAMBA2),
        }
    ),
    "linear": lambda: _plain("linear", bias=MAYBE),
    "none": st.none,
}  # fmt: skip
RECURRENT = ("mamba", "mamba2", "delta", "linear_attention", "short_conv", "rglru")
KINDS = tuple(MIXERS)

# FFNs


@st.composite
def moe_specs(draw: st.DrawFn) -> Spec:
    """E and k, a shared block and its gate, a latent to work in, biases."""
    drawn = chosen(
        draw,
        {
            "experts": ((1, 1), (2, 1), (7, 3), (8, 2), (8, 8), (64, 6)),
            "d_ff": (1, 16, 48),
            "gated": MAYBE,
            "bias": MAYBE,
            "router_bias": MAYBE,
            "d_shared": (None, None, 32),
            "shared_gate": MAYBE,
            "shared_bias": MAYBE,
            "d_latent": (None, None, 12),
            "scales": (0, 5),
        },
    )
    n_experts, n_active = drawn.pop("experts")
    drawn["shared_gate"] = drawn["shared_gate"] and drawn["d_shared"] is not None
    return {"kind": "moe", "n_experts": n_experts, "n_active_experts": n_active} | drawn


FFNS: dict[str, Callable[[], st.SearchStrategy[Any]]] = {
    "dense": lambda: _plain("dense", d_ff=(1, 64, 688), gated=MAYBE, bias=MAYBE),
    "moe": moe_specs,
    "linear": lambda: _plain("linear", bias=MAYBE),
    "none": st.none,
}

# Layers, towers, models


@st.composite
def cross_specs(draw: st.DrawFn, d_memory: int) -> Spec:
    """Attention over a tower's outputs."""
    drawn = chosen(
        draw,
        {"n_kv_heads": (1, 2), "group": (1, 2), "d_head": (4, 16), "qkv_bias": (False, True, "qv"), "out_bias": MAYBE,
         "qk_norm": MAYBE},
    )  # fmt: skip
    return {
        "kind": "cross_attention",
        "n_heads": drawn["n_kv_heads"] * drawn.pop("group"),
        "d_memory": d_memory,
    } | drawn


@st.composite
def layer_specs(draw: st.DrawFn, *, mixers: Sequence[str], ffns: Sequence[str], causal: bool = True) -> Spec:
    """One layer: any mixer or none, any FFN or none, and what else may stand in a layer."""
    kind = draw(st.sampled_from(list(mixers)))
    mixer = draw(attention_specs(causal=causal) if kind == "attention" else MIXERS[kind]())
    ffn = draw(FFNS[draw(st.sampled_from(list(ffns)))]())
    drawn = chosen(
        draw, {"n_norms": (2, 0, 1, 4), "parallel": MAYBE, "vectors": (0, 0, 3), "d_bypass": (None, None, 4)}
    )
    if mixer is None and ffn is None:
        drawn["n_norms"] = 0  # a layer that does nothing
    return {"mixer": mixer, "ffn": ffn} | drawn


@st.composite
def tower_specs(draw: st.DrawFn, kind: str, feeds: str, d_model: int) -> Spec:
    """A stem, bidirectional layers (a window in some), and a projector that gives rows of `d_model`."""
    width = draw(st.sampled_from([8, 24]))
    layers = []
    for _ in range(draw(st.integers(0, 2))):
        mixer = draw(attention_specs(values=("own",), causal=False))
        ffn = draw(_plain("dense", d_ff=(16, 40), gated=MAYBE, bias=MAYBE))
        layers.append({"mixer": mixer, "ffn": ffn, "n_norms": 2, "vectors": draw(st.sampled_from([0, 2]))})
    merge = draw(st.sampled_from([1.0, 0.25])) if feeds == "prompt" else 1.0
    bias = draw(st.booleans())
    return {
        "kind": kind,
        "d_model": width,
        "stem": (
            {"name": "patches", "d_in": 12, "d_out": width, "bias": bias, "rows": draw(st.sampled_from([1.0, 2.0]))},
        )
        if kind != "text"
        else (),
        "norm": {"kind": "layer", "bias": True},
        "n_norms": draw(st.integers(0, 2)),
        "layers": ({"repeat": draw(st.integers(1, 3)), "layers": tuple(layers)},) if layers else (),
        "projector": ({"name": "project", "d_in": int(width / merge), "d_out": d_model, "bias": bias, "rows": merge},),
        "vectors": draw(st.sampled_from([{}, {"positions": 30, "gates": 2}])),
        "feeds": feeds,
        "shares_embedding": kind == "text",
    }


OUTSIDE: dict[str, Sequence[Any]] = {
    "vocab_size": (1, 50, 1000),
    "max_context_tokens": (1, 2048, 131072),
    "norm": ({"kind": "rms"}, {"kind": "rms", "scale": False}, {"kind": "layer", "bias": True}),
    "final_norm": MAYBE,
    "embedding": (
        {},
        {"norm": True},
        {"width": 48},
        {"type_rows": 2},
        {"width": 48, "sums_first": True, "norm": True, "type_rows": 3},
    ),
    "positions": ({"kind": "rope"}, {"kind": "alibi"}, {"kind": "relative"}, {"kind": "learned", "rows": 2050}),
    "head": ({"tied": False}, {"tied": True}, {"tied": False, "bias": True}, {"tied": True, "bias": True}),
    "vectors": ({}, {}, {"relative_positions": 64}),
}
SPECIAL: dict[str, Sequence[Any]] = {"streams": (1, 1, 4), "side": (None, None, 4), "altup": (1, 1, 1, 3)}
BODIES = ("decoder", "encoder", "seeing", "hearing", "translating", "crossing")


@st.composite
def zoo_specs(
    draw: st.DrawFn,
    *,
    mixers: Sequence[str] = KINDS,
    ffns: Sequence[str] = tuple(FFNS),
    bodies: Sequence[str] = BODIES,
    sharing: bool = True,
    special: bool = True,
    dtypes: tuple[str, ...] = ("bf16", "fp16"),
) -> Spec:
    """A model of any kind.

    `bodies`: a decoder; an encoder without a head; a decoder that sees (images stand in its prompt), hears (it attends to
    frames), translates (it attends to a text, encoded in its own table) or crosses (some layers are only for sequences that
    have images). `sharing`: some decoders end in layers that read an earlier layer's cache. `special`: some
    have several residual streams, or a side embedding, or copies of the stream.
    """
    body = draw(st.sampled_from(list(bodies)))
    causal = body != "encoder"
    drawn = chosen(draw, OUTSIDE | SPECIAL | {"d_model": (8, 64, 96), "dtype": dtypes})
    streams, side, altup, d_model = (drawn.pop("streams"), drawn.pop("side"), drawn.pop("altup"), drawn["d_model"])
    sizes = [draw(st.tuples(st.integers(1, 6), st.integers(1, 2))) for _ in range(draw(st.integers(1, 3)))]
    layer = layer_specs(mixers=mixers, ffns=ffns, causal=causal)
    groups = [{"repeat": n, "layers": tuple(draw(layer) for _ in range(m))} for n, m in sizes]
    if causal and sharing and "attention" in mixers and streams == 1 and draw(st.integers(0, 3)) == 0:
        groups.append({"layers": (_borrowing(draw, ffns),)})
    spec: Spec = {"id": "zoo", "name": "Zoo"} | drawn
    if side is not None and causal and special:
        spec["side_embedding"] = {"width": side, "vocab_size": 30}
        groups = _with_every_layer(groups, d_side=side, **({"altup": altup} if streams == 1 else {}))
    elif streams > 1 and causal and special:
        spec["residual_streams"] = streams
    if body == "encoder":
        pooler = {"name": "pooler", "d_in": d_model, "d_out": d_model, "bias": True, "once": True}
        words = {"name": "words", "d_in": d_model, "d_out": drawn["vocab_size"], "bias": True, "tied": True}
        spec |= {"head": None, "readout": draw(st.sampled_from([(pooler,), (words,), (pooler, words), ()]))}
    if body in ("seeing", "hearing", "translating", "crossing"):
        kind = {"seeing": "vision", "hearing": "audio", "translating": "text", "crossing": "vision"}[body]
        tower = draw(tower_specs(kind, "prompt" if body == "seeing" else "memory", d_model))
        spec["towers"] = (tower,)
        if body != "seeing":
            groups = _crossing(draw, groups, d_model, alone=body == "crossing", ffns=ffns)
    return spec | {"layers": tuple(groups)}


def _borrowing(draw: st.DrawFn, ffns: Sequence[str]) -> Spec:
    """A layer that reads the cache of an earlier one."""
    layer = draw(layer_specs(mixers=("attention",), ffns=ffns))
    return {**layer, "mixer": draw(attention_specs(values=("earlier",)))}


def _with_every_layer(groups: list[Spec], **changes: Any) -> list[Spec]:
    return [g | {"layers": tuple(layer | changes for layer in g["layers"])} for g in groups]


def _crossing(draw: st.DrawFn, groups: list[Spec], d_memory: int, *, alone: bool, ffns: Sequence[str]) -> list[Spec]:
    """Cross-attention in every layer that mixes and sometimes in the rest, or in layers of its own."""
    if alone:
        layer = {"cross": draw(cross_specs(d_memory)), "ffn": draw(FFNS[ffns[0]]()), "vectors": 2}
        return [*groups, {"repeat": draw(st.integers(1, 3)), "layers": (layer,)}]
    cross = draw(cross_specs(d_memory))
    n_first = len(groups) if draw(st.booleans()) else 1
    return [*_with_every_layer(groups[:n_first], cross=cross), *groups[n_first:]]


def zoo_models(**narrowed: Any) -> st.SearchStrategy[Model]:
    """Those of `zoo_specs`, as records."""
    return zoo_specs(**narrowed).map(as_model)


def of_layers(*layers: Spec, repeat: int = 1, **outside: Any) -> Model:
    """The smallest model around given layers: D = 16 unless told, a vocabulary of 10, no norm outside the layers."""
    spec: Spec = {
        "id": "small", "name": "Small", "dtype": "bf16", "d_model": 16, "vocab_size": 10, "max_context_tokens": 4096,
        "final_norm": False, "layers": ({"repeat": repeat, "layers": layers},),
    }  # fmt: skip
    return as_model(spec | outside)


def with_mixers(spec: Spec, change: Callable[[Spec], Spec]) -> Spec:
    """The same model with every attention mixer replaced by what `change` makes of it."""

    def changed(layer: Spec) -> Spec:
        mixer = layer.get("mixer")
        return layer if mixer is None or mixer["kind"] != "attention" else layer | {"mixer": change(mixer)}

    return spec | {"layers": tuple(g | {"layers": tuple(changed(x) for x in g["layers"])} for g in spec["layers"])}


# Passes


@st.composite
def zoo_seqs(draw: st.DrawFn, *, max_seq: int = 16, max_new: int = 2048, max_past: int = 10_000) -> Seqs:
    """One part of a pass, with inputs for a tower and a memory of earlier ones in some."""
    kind = chosen(
        draw,
        {"one": MAYBE, "new": MAYBE, "past": MAYBE, "shared": (0.0, 0.5, 1.0), "logits": (1, 0, "all"), "inputs": (0, 1, 3),
         "memory": MAYBE},
    )  # fmt: skip
    n_new = draw(st.integers(1, max_new)) if kind["new"] else 1
    n_past = draw(st.integers(0, max_past)) if kind["past"] else 0
    n_inputs, n_input_tokens = kind["inputs"], draw(st.integers(1, 300)) if kind["inputs"] else 0
    return Seqs(
        n_seq=draw(st.integers(1, max_seq)) if kind["one"] else 1,
        n_new=n_new,
        n_past=n_past,
        n_shared=n_past * kind["shared"] // 1,
        n_logits=n_new if kind["logits"] == "all" else kind["logits"],
        n_inputs=n_inputs,
        n_input_tokens=n_input_tokens,
        n_memory=n_inputs * n_input_tokens + (draw(st.integers(1, 300)) if kind["memory"] else 0),
    )


def zoo_steps(*, max_parts: int = 3) -> st.SearchStrategy[tuple[Seqs, ...]]:
    """1–3 of them."""
    return st.lists(zoo_seqs(), min_size=1, max_size=max_parts).map(tuple)


FIELDS = ("n_seq", "n_new", "n_past", "n_shared", "n_logits", "n_inputs", "n_input_tokens", "n_memory")


def changed(part: Seqs, **changes: Any) -> Seqs:
    """The same part with some fields changed."""
    return Seqs(**{name: getattr(part, name) for name in FIELDS} | changes)


def without_past(step: Seqs | tuple[Seqs, ...]) -> tuple[Seqs, ...]:
    """The same step with nothing cached: what is read both ways is read whole."""
    parts = (step,) if isinstance(step, Seqs) else step
    return tuple(changed(part, n_past=0, n_shared=0) for part in parts)
