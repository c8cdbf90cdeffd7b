"""Hypothesis strategies for what the laws quantify over: models, chips, precisions, passes.

A strategy ending in ``_specs`` draws plain data, as a YAML file holds it, so that a law may change one thing and build
the record again (`as_model`, `as_chip`); the others draw records. Ranges are small enough that every count of a model
drawn here is a whole number below 2**53, where floats are exact: laws about counts say ``==``.

    models()       1–3 groups of 1–3 layers; heads, KV heads, head width, windows, gates, biases, norms, tables all vary
    chips()        ceilings over four orders of magnitude; some lack bf16, fp16, fp8, int8 or fp4 units
    precisions()   any format of weights, cache and head
    steps()        1–3 parts of sequences, with and without cached and shared tokens

Imported as ``strategies``: ``pythonpath = ["tests"]`` in pyproject.toml puts this folder on the path of pytest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from roofline import Deployment, Efficiency, Hardware, Model, Precision, Seqs
from roofline.dtypes import FORMATS

Spec = dict[str, Any]

# Models

WINDOWS = st.one_of(st.none(), st.integers(1, 8), st.integers(9, 5000))


def chosen(draw: st.DrawFn, options: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """One of each, in a single draw (what makes a strategy slow is how often it draws); it shrinks to the first ones."""
    number = draw(st.integers(0, math.prod(len(values) for values in options.values()) - 1))
    out = {}
    for name, values in options.items():
        number, i = divmod(number, len(values))
        out[name] = values[i]
    return out


MAYBE = (False, True)
MIXERS: dict[str, Sequence[Any]] = {
    "n_kv_heads": (1, 2, 3, 4, 8),
    "group": (1, 2, 3, 8),  # query heads of each KV head: MHA, GQA and MQA all occur often
    "d_head": (1, 16, 64, 80, 128),
    "qk_norm": ("none", "head", "full"),
    "qkv_bias": MAYBE,
    "out_bias": MAYBE,
}
FFNS: dict[str, Sequence[Any]] = {"d_ff": (1, 64, 688, 4096), "gated": MAYBE, "bias": MAYBE}
LAYERS: dict[str, Sequence[Any]] = {"n_norms": (0, 1, 2, 4), "parallel": MAYBE}
OUTSIDE: dict[str, Sequence[Any]] = {
    "d_model": (1, 64, 96, 256, 1024),
    "vocab_size": (1, 50, 32000),
    "max_context_tokens": (1, 2048, 131072),
    "norm": ({"kind": "rms"}, {"kind": "layer"}, {"kind": "layer", "bias": True}),
    "final_norm": MAYBE,
    "embedding": ({}, {"norm": True}, {"width": 48}, {"width": 48, "norm": True}),
    "positions": (
        {"kind": "rope"},
        {"kind": "alibi"},
        {"kind": "none"},
        {"kind": "learned", "rows": 1},
        {"kind": "learned", "rows": 2050},
    ),
    "head": ({"tied": False}, {"tied": True}, {"tied": False, "bias": True}, {"tied": True, "bias": True}),
}


@st.composite
def layer_specs(draw: st.DrawFn, windows: st.SearchStrategy[int | None] = WINDOWS) -> Spec:
    """An attention layer and its FFN."""
    drawn = chosen(draw, MIXERS | FFNS | LAYERS)
    heads = {"n_heads": drawn["n_kv_heads"] * drawn.pop("group"), "window": draw(windows)}
    mixer = {"kind": "attention"} | heads | {key: drawn[key] for key in MIXERS if key in drawn}
    ffn = {"kind": "dense"} | {key: drawn[key] for key in FFNS}
    return {"mixer": mixer, "ffn": ffn} | {key: drawn[key] for key in LAYERS}


@st.composite
def model_specs(
    draw: st.DrawFn, *, windows: st.SearchStrategy[int | None] = WINDOWS, dtypes: tuple[str, ...] = ("bf16", "fp16")
) -> Spec:
    """A decoder as a YAML file describes it."""
    layers = st.lists(layer_specs(windows), min_size=1, max_size=3).map(tuple)
    groups = [{"repeat": draw(st.integers(1, 12)), "layers": draw(layers)} for _ in range(draw(st.integers(1, 3)))]
    rest = chosen(draw, OUTSIDE | {"dtype": dtypes})
    return {"id": "generated", "name": "Generated", "layers": tuple(groups)} | rest


def as_model(spec: Spec) -> Model:
    return Model.read(spec, where="generated.yaml")


def models(
    *, windows: st.SearchStrategy[int | None] = WINDOWS, dtypes: tuple[str, ...] = ("bf16", "fp16")
) -> st.SearchStrategy[Model]:
    return model_specs(windows=windows, dtypes=dtypes).map(as_model)


def with_mixers(spec: Spec, **changes: Any) -> Spec:
    """The same model with some keys of every mixer replaced; a callable value is given the mixer."""

    def changed(layer: Spec) -> Spec:
        mixer = layer["mixer"]
        new = {key: value(mixer) if callable(value) else value for key, value in changes.items()}
        return layer | {"mixer": mixer | new}

    groups = (group | {"layers": tuple(changed(layer) for layer in group["layers"])} for group in spec["layers"])
    return spec | {"layers": tuple(groups)}


# Chips

FLOP_RATES = st.integers(1, 9999).map(lambda tera: tera * 1e12)
BYTE_RATES = st.integers(1, 9999).map(lambda gigabytes: gigabytes * 1e9)


UNITS: dict[str, Sequence[Any]] = {
    "sixteen": (("fp16", "bf16"), ("bf16",), ("fp16",)),
    "fp8": MAYBE,
    "int8": MAYBE,
    "fp4": MAYBE,
    "tf32": MAYBE,
}
ABOVE_RATED: list[dict[str, float]] = [{}, {}, {"peak_max": 1.0}, {"peak_max": 1.07}, {"peak_acc16": 2.0}]


@st.composite
def chip_specs(draw: st.DrawFn) -> Spec:
    """Ceilings in SI: `matrix` [FLOP/s], `vector` [FLOP/s], `bandwidth` [B/s], `capacity` [B]; see `as_chip`."""
    units = chosen(draw, UNITS)
    matrix: Spec = {}
    for dtype in (*units.pop("sixteen"), *(name for name, has in units.items() if has)):
        peak, more = (
            draw(FLOP_RATES),
            draw(st.sampled_from(ABOVE_RATED if dtype in ("fp16", "fp8") else ABOVE_RATED[:4])),
        )
        matrix[dtype] = {"peak": peak} | {key: peak * factor for key, factor in more.items()}
    return {
        "matrix": matrix,
        "vector": {"fp32": draw(FLOP_RATES)},  # every chip widens to fp32, so every format runs
        "bandwidth": draw(BYTE_RATES),
        "capacity": draw(st.integers(1, 999)) * 1e9,
    }


def as_chip(spec: Spec) -> Hardware:
    """The chip in the form and the units of a YAML file."""
    rate = "{!r} FLOP/s".format
    return Hardware.read(
        {
            "id": "generated-chip",
            "name": "Generated",
            "vendor": "Nobody",
            "kind": "gpu",
            "compute": {
                "matrix": {dtype: {k: rate(v) for k, v in peaks.items()} for dtype, peaks in spec["matrix"].items()},
                "vector": {dtype: rate(v) for dtype, v in spec["vector"].items()},
            },
            "memory": {
                "type": "HBM",
                "capacity": f"{spec['capacity']!r} B",
                "bandwidth": f"{spec['bandwidth']!r} B/s",
            },
        },
        where="generated-chip.yaml",
    )


def times_faster(spec: Spec, k: float) -> Spec:
    """The same chip with every ceiling k times as high."""
    return spec | {
        "matrix": {dtype: {key: v * k for key, v in peaks.items()} for dtype, peaks in spec["matrix"].items()},
        "vector": {dtype: v * k for dtype, v in spec["vector"].items()},
        "bandwidth": spec["bandwidth"] * k,
    }


def chips() -> st.SearchStrategy[Hardware]:
    return chip_specs().map(as_chip)


def efficiencies() -> st.SearchStrategy[Efficiency]:
    """Any of its parameters, at the ideal or far from it."""
    share = st.sampled_from([1.0, 0.999, 0.7, 0.05])
    overhead = st.sampled_from([0.0, 1e-6, 1e-3])
    rows = st.sampled_from([0.0, 16.0, 1024.0])
    return st.builds(
        Efficiency, compute=share, memory=share, launch_s=overhead, tile_rows=rows, attention_rows=rows, attention=share,
        reread_rows=st.sampled_from([None, 1.0, 200.0]), vector=st.sampled_from([None, 0.9, 0.05]),
        activations=st.sampled_from([0.0, 0.4, 5.0]), sequence_s=overhead, link=share,
    )  # fmt: skip


# Precisions

FORMAT_NAMES = sorted(FORMATS)


def precisions() -> st.SearchStrategy[Precision]:
    """Any weights, any cache, any head; "auto" and the checkpoint's own among them."""
    name = st.sampled_from(FORMAT_NAMES)
    return st.builds(
        Precision,
        weights=st.none() | name,
        kv=st.none() | st.sampled_from(["bf16", "fp16", "fp8", "int8", "q8_0", "q4_0"]),
        head=st.just("auto") | name,
    )


def deployments() -> st.SearchStrategy[Deployment]:
    return st.builds(Deployment, model=models(), hardware=chips(), precision=precisions())


# Passes


@st.composite
def seqs(draw: st.DrawFn, *, max_seq: int = 16, max_new: int = 2048, max_past: int = 10_000) -> Seqs:
    """One part of a pass. Decodes (one new token) and empty caches are as common as the rest together."""
    kind = chosen(draw, {"one": MAYBE, "new": MAYBE, "past": MAYBE, "shared": (0.0, 0.5, 1.0), "logits": (1, 0, "all")})
    n_new = draw(st.integers(1, max_new)) if kind["new"] else 1
    n_past = draw(st.integers(0, max_past)) if kind["past"] else 0
    return Seqs(
        n_seq=draw(st.integers(1, max_seq)) if kind["one"] else 1,
        n_new=n_new,
        n_past=n_past,
        n_shared=n_past * kind["shared"] // 1,
        n_logits=n_new if kind["logits"] == "all" else kind["logits"],
    )


def steps(*, max_parts: int = 3) -> st.SearchStrategy[tuple[Seqs, ...]]:
    return st.lists(seqs(), min_size=1, max_size=max_parts).map(tuple)


KERNELS = st.sampled_from(["flash", "eager"])
