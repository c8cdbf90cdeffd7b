"""What of a model's passes the page shows: the products of one attention layer, and the whole pass by what its parts do."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from roofline.specs.mixers import Attention, Latent, SingleMixer
from roofline.specs.model import Model
from roofline.timing.clock import Timing
from roofline.work.naming import nicknames

__all__ = ["PARTS", "Shown", "parts_of", "shown_of"]

PARTS = ("projections", "attention", "ffn", "head", "rest")
_DIMS = re.compile(r"\(m, (\d+)\) × \((\d+), (\d+)\)")

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Shown:
    """The attention layer that the page looks into: of several kinds the one there is most of, and of those the last.

    `repeat` are the layers like it, of `n_layers`; `prefix` begins their rows' names. `names` are its matrix products in
    order, of which `n_before` come before attention, and `dims` the (d_in, d_out) of each; `ffn` is the largest product of
    its feed-forward part, none where it has none.
    """

    mixer: Attention | Latent
    prefix: str
    repeat: int
    n_layers: int
    names: tuple[str, ...]
    dims: Mapping[str, tuple[int, int]]
    n_before: int
    ffn: str | None

    @property
    def projections(self) -> tuple[str, ...]:
        """Products that make queries, keys and values."""
        return self.names[: self.n_before]

    @property
    def shared(self) -> tuple[str, ...]:
        """Those of them that multiply the layer's own input."""
        d_in = self.dims[self.projections[0]][0]
        return tuple(name for name in self.projections if self.dims[name][0] == d_in)

    @property
    def n_kv_heads(self) -> int:
        """Heads whose keys and values are kept; a latent is one for all."""
        return 1 if isinstance(self.mixer, Latent) else self.mixer.n_kv_heads

    @property
    def d_key(self) -> int:
        """Width of what is kept of a token in place of a key, by head."""
        return self.mixer.d_latent + self.mixer.d_rope if isinstance(self.mixer, Latent) else self.mixer.d_head

    @property
    def d_query(self) -> int:
        """Width of a query head in a prompt's scores."""
        return self.mixer.d_nope + self.mixer.d_rope if isinstance(self.mixer, Latent) else self.mixer.d_head

    def rows(self, ops: Sequence[Row]) -> dict[str, Row]:
        """The layer's products in a pass, by their names without the prefix."""
        return {row["name"].removeprefix(self.prefix): row for row in ops if row["name"].startswith(self.prefix)}


def shown_of(model: Model, timing: Timing) -> Shown:
    """The layer to show of a model, and its products as a pass counts them."""
    kinds = model.layer_kinds()
    prefixes = list(nicknames([layer for _, layer in kinds]))
    keeping = [(repeat, i, m) for i, (repeat, x) in enumerate(kinds) for m in x.mixers if _keeps(m)]
    repeat, i, mixer = max(keeping, key=lambda found: found[:2])
    prefix = prefixes[i]
    ops = [row for row in timing.by_op() if row["name"].startswith(prefix) and row["repeat"] == repeat]
    core = next(n for n, row in enumerate(ops) if row["kind"] == "attention")
    products = [
        (n, row) for n, row in enumerate(ops) if row["kind"] in ("gemm", "expert") and _DIMS.search(row["shape"])
    ]
    names = tuple(row["name"].removeprefix(prefix) for _, row in products)
    dims = {name: _dims(row["shape"]) for name, (_, row) in zip(names, products, strict=True)}
    n_before, roles = sum(n < core for n, _ in products), {f"{m.role}_proj" for m in mixer.matrices(model.d_model)}
    ffn = max((x for x in names[n_before:] if x not in roles), key=lambda x: dims[x][0] * dims[x][1], default=None)
    return Shown(mixer, prefix, repeat, model.n_layers, names, dims, n_before, ffn)


def _keeps(mixer: SingleMixer) -> TypeGuard[Attention | Latent]:
    return isinstance(mixer, Latent) or (isinstance(mixer, Attention) and mixer.caches)


def _dims(shape: str) -> tuple[int, int]:
    found = _DIMS.search(shape)
    return (0, 0) if found is None else (int(found[2]), int(found[3]))


def parts_of(model: Model, timing: Timing) -> dict[str, dict[str, NDArray[np.float64]]]:
    """A pass by what its parts do: FLOPs, bytes and seconds of each, summed over all layers."""
    roles = {
        f"{m.role}_proj" for _, x in model.layer_kinds() for mixer in x.mixers for m in mixer.matrices(model.d_model)
    }
    sums = {part: {"flops": 0.0, "bytes": 0.0, "seconds": 0.0, "compute_s": 0.0, "memory_s": 0.0} for part in PARTS}
    for row in timing.by_op():
        of = sums[_part(row, roles)]
        of["flops"] = of["flops"] + row["executed_flops"]
        of["bytes"] = of["bytes"] + row["streamed_bytes"]
        for name in ("seconds", "compute_s", "memory_s"):
            of[name] = of[name] + row[name]
    return {part: {n: np.asarray(v, dtype=np.float64) for n, v in of.items()} for part, of in sums.items()}


def _part(row: Row, roles: set[str]) -> str:
    name = row["name"].rpartition(".")[2]
    match row["kind"]:
        case "attention":
            return "attention"
        case "head":
            return "head"
        case "expert":
            return "ffn"
        case "gemm":
            return "projections" if name in roles else "ffn" if row["repeat"] > 1 else "rest"
        case _:
            return "rest"
