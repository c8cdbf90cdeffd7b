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

from typing import Any

from hypothesis import strategies as st

from roofline import Deployment, Efficiency, Hardware, Model, Precision, Seqs
from roofline.dtypes import FORMATS

Spec = dict[str, Any]

# Models

WINDOWS = st.one_of(st.none(), st.integers(1, 8), st.integers(9, 5000))


@st.composite
def mixer_specs(draw: st.DrawFn, windows: st.SearchStrategy[int | None] = WINDOWS) -> Spec:
    """Attention: MHA (groups of one), GQA and MQA (one KV head) all occur often."""
    n_kv_heads = draw(st.sampled_from([1, 1, 2, 3, 4, 8]))
    group = draw(st.sampled_from([1, 1, 2, 3, 8]))
    return {
        "kind": "attention",
        "n_heads": n_kv_heads * group,
        "n_kv_heads": n_kv_heads,
        "d_head": draw(st.sampled_from([1, 16, 64, 80, 128])),
        "window": draw(windows),
        "qkv_bias": draw(st.booleans()),
        "out_bias": draw(st.booleans()),
        "qk_norm": draw(st.sampled_from(["none", "head", "full"])),
    }


@st.composite
def layer_specs(draw: st.DrawFn, windows: st.SearchStrategy[int | None] = WINDOWS) -> Spec:
    return {
        "mixer": draw(mixer_specs(windows)),
        "ffn": {
            "kind": "dense",
            "d_ff": draw(st.sampled_from([1, 64, 688, 4096])),
            "gated": draw(st.booleans()),
            "bias": draw(st.booleans()),
        },
        "n_norms": draw(st.integers(0, 4)),
        "parallel": draw(st.booleans()),
    }


@st.composite
def position_specs(draw: st.DrawFn) -> Spec:
    kind = draw(st.sampled_from(["rope", "alibi", "learned", "none"]))
    return {"kind": kind} | ({"rows": draw(st.integers(1, 4096))} if kind == "learned" else {})


@st.composite
def model_specs(
    draw: st.DrawFn, *, windows: st.SearchStrategy[int | None] = WINDOWS, dtypes: tuple[str, ...] = ("bf16", "fp16")
) -> Spec:
    """A decoder as a YAML file describes it."""
    groups = st.fixed_dictionaries(
        {"repeat": st.integers(1, 12), "layers": st.lists(layer_specs(windows), min_size=1, max_size=3).map(tuple)}
    )
    return {
        "id": "generated",
        "name": "Generated",
        "dtype": draw(st.sampled_from(dtypes)),
        "d_model": draw(st.sampled_from([1, 64, 96, 256, 1024])),
        "vocab_size": draw(st.sampled_from([1, 50, 32000])),
        "max_context_tokens": draw(st.sampled_from([1, 2048, 131072])),
        "norm": draw(st.sampled_from([{"kind": "rms"}, {"kind": "layer"}, {"kind": "layer", "bias": True}])),
        "final_norm": draw(st.booleans()),
        "embedding": {"width": draw(st.sampled_from([None, None, 48])), "norm": draw(st.booleans())},
        "positions": draw(position_specs()),
        "layers": tuple(draw(st.lists(groups, min_size=1, max_size=3))),
        "head": {"tied": draw(st.booleans()), "bias": draw(st.booleans())},
    }


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


@st.composite
def chip_specs(draw: st.DrawFn) -> Spec:
    """Ceilings in SI: `matrix` [FLOP/s], `vector` [FLOP/s], `bandwidth` [B/s], `capacity` [B]; see `as_chip`."""
    sixteen = draw(st.sampled_from([("fp16", "bf16"), ("bf16",), ("fp16",)]))
    narrow = draw(st.lists(st.sampled_from(["fp8", "int8", "fp4", "tf32"]), unique=True))
    matrix: Spec = {}
    for dtype in (*sixteen, *narrow):
        rated = draw(FLOP_RATES)
        above = draw(st.sampled_from([None, None, 1.0, 1.07]))
        narrow_sums = draw(st.sampled_from([None, None, 2.0])) if dtype in ("fp16", "fp8") else None
        matrix[dtype] = {"peak": rated} | ({"peak_max": rated * above} if above else {})
        matrix[dtype] |= {"peak_acc16": rated * narrow_sums} if narrow_sums else {}
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
    share = st.sampled_from([1.0, 0.999, 0.7, 0.05])
    return st.builds(Efficiency, compute=share, memory=share, launch_s=st.sampled_from([0.0, 1e-6, 1e-3]))


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
    n_new = draw(st.just(1) | st.integers(1, max_new))
    n_past = draw(st.just(0) | st.integers(0, max_past))
    return Seqs(
        n_seq=draw(st.just(1) | st.integers(1, max_seq)),
        n_new=n_new,
        n_past=n_past,
        n_shared=draw(st.sampled_from([0, n_past // 2, n_past])),
        n_logits=draw(st.sampled_from([0, 1, n_new])),
    )


def steps(*, max_parts: int = 3) -> st.SearchStrategy[tuple[Seqs, ...]]:
    return st.lists(seqs(), min_size=1, max_size=max_parts).map(tuple)


KERNELS = st.sampled_from(["flash", "eager"])
