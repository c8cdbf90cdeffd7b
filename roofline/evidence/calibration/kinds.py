"""What is believed of an engine before anything of it was measured: by kind, a centre and a width for every parameter.

Widths are in the space the fit works in: logits of fractions, logarithms of the rest. What an engine does not fit stays
where its kind has it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from roofline.timing.efficiency import Efficiency

__all__ = [
    "FRACTIONS",
    "KINDS",
    "OWN_FACTS",
    "Kind",
    "Prior",
    "efficiency_of",
    "from_fit_space",
    "kind_of",
    "to_fit_space",
]

Prior = Mapping[str, tuple[float, float]]
"""Name of a parameter: (centre, standard deviation in the space of the fit)."""

FRACTIONS = frozenset({"compute", "memory", "attention", "vector", "first_read"})

_COMMON = {"link": 0.55, "attention_rows": 2048.0}
# link: NVLink reaches about 0.55 of its rating in all-reduces of a layer's size; 0.3 where NCCL is launched from Python,
# with no kernel of the engine's own. attention_rows: kernels before 2025 decode on the vector units whatever the grouping of
# heads, and only long prompts pay for the matrix units.

_SHARES: Prior = {"compute": (0.77, 0.6), "memory": (0.87, 0.5), "attention": (0.45, 0.5)}
# What machines reach of their ceilings, whatever the engine: 0.55 to 0.9 of the matrix peak in large products, 0.7 to 0.95
# of the bandwidth in streams, 0.3 to 0.6 of the matrix peak in attention over prompts. A range is two widths to either side.


@dataclass(frozen=True, slots=True)
class Kind:
    """Priors of what is fitted, at most eight, and the rest as it is."""

    prior: Prior
    fixed: Mapping[str, float]


_FUSED = Kind(
    {
        **_SHARES, "launch_s": (6e-6, 0.7), "tile_rows": (25.0, 0.8), "vector": (0.4, 0.7), "activations": (0.5, 1.0),
        "sequence_s": (1e-5, 1.2),
    },
    _COMMON,
)  # fmt: skip
_UNFUSED = Kind(
    {
        **_SHARES, "launch_s": (15e-6, 0.7), "tile_rows": (25.0, 0.8), "vector": (0.2, 0.7), "activations": (3.0, 0.8),
        "sequence_s": (5e-5, 1.2),
    },
    _COMMON | {"link": 0.3},
)  # fmt: skip
_LLAMA_CPP = Kind(
    {
        **_SHARES, "launch_s": (5e-6, 0.7), "tile_rows": (25.0, 0.8), "vector": (0.3, 0.8), "activations": (1.5, 1.0),
        "sequence_s": (2e-5, 1.2),
    },
    _COMMON,
)  # fmt: skip
_MLX = Kind(
    {
        **_SHARES, "launch_s": (5e-6, 0.7), "tile_rows": (25.0, 0.8), "activations": (1.0, 1.0), "first_read": (0.18, 0.7),
        "request_s": (0.01, 1.0),
    },
    _COMMON | {"vector": 0.12, "attention_rows": 128.0},
)  # fmt: skip

KINDS: Mapping[str, Kind] = {"fused": _FUSED, "unfused": _UNFUSED, "llama.cpp": _LLAMA_CPP, "mlx": _MLX}

# Matrix kernels that decode grouped heads (XQA, flash-decoding) are set up for one tile of query rows.
_RECENT = {"attention_rows": 64.0, "vector": 0.9}


def _without(prior: Prior, name: str, **more: tuple[float, float]) -> Prior:
    return {n: v for n, v in prior.items() if n != name} | more


_ENGINES: Mapping[str, Kind] = {
    # Kernels of its time decode on the vector units. Built engines are launched and sampled by C++, with no scheduler, so
    # both costs are small.
    "trtllm-2024": Kind(
        {**_FUSED.prior, "launch_s": (8e-6, 0.4), "tile_rows": (32.0, 0.6), "vector": (0.5, 0.5), "activations": (0.4, 0.7),
         "sequence_s": (3e-6, 1.0)},
        _COMMON,
    ),
    # Quantised products keep their tiles in the format of the file, and read the weights again for every tile of rows; few
    # rows are multiplied one by one on the vector units. Attention has kernels for one query, and others for tiles of them.
    "llama.cpp": Kind(
        _without(_LLAMA_CPP.prior, "tile_rows", reread_rows=(200.0, 1.0), vector=(0.12, 0.7)),
        _COMMON | {"tile_rows": 32.0, "attention_rows": 128.0},
    ),
}  # fmt: skip
OWN_FACTS: Mapping[str, Mapping[str, float]] = {"vllm": _RECENT, "sglang": _RECENT, "trtllm": _RECENT}
"""Facts of an engine's kernels that hold whatever was measured of an earlier version of it, or of its kind."""


def kind_of(engine: str, kind: str, earlier: Prior | None = None) -> Kind:
    """What is fitted of an engine, and its priors: what an earlier version of it has, else its own, or its kind's."""
    found, own = _ENGINES.get(engine, KINDS[kind]), OWN_FACTS.get(engine, {})
    prior = {n: (earlier or {}).get(n, v) for n, v in found.prior.items() if n not in own}
    return Kind(prior, {**found.fixed, **own})


def to_fit_space(name: str, value: float) -> float:
    """logit x of a fraction, log x of the rest."""
    if name in FRACTIONS:
        bounded = min(max(value, 1e-3), 1.0 - 1e-3)
        return math.log(bounded / (1.0 - bounded))
    return math.log(max(value, 1e-12))


def from_fit_space(name: str, z: float) -> float:
    """The parameter of a point in the space of the fit.

    >>> round(from_fit_space("memory", to_fit_space("memory", 0.8)), 12)
    0.8
    """
    return 1.0 / (1.0 + math.exp(-z)) if name in FRACTIONS else math.exp(z)


def efficiency_of(kind: Kind, names: Iterable[str], point: Iterable[float]) -> Efficiency:
    """The efficiency at a point in the space of the fit."""
    fitted: dict[str, Any] = {n: from_fit_space(n, float(z)) for n, z in zip(names, point, strict=True)}
    return Efficiency.model_construct(**{**_DEFAULTS, **kind.fixed, **fitted})


_DEFAULTS = Efficiency().model_dump()
