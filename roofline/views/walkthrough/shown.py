"""What of a model's passes the page shows: the products of one attention layer, and the whole pass by what its parts do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from roofline.specs.layers import Layer
from roofline.specs.mixers import Attention, Latent, SingleMixer
from roofline.specs.model import Model
from roofline.timing.clock import Timing
from roofline.work.naming import nicknames

__all__ = ["PARTS", "Shown", "parts_of", "shown_of"]

PARTS = ("projections", "attention", "recurrent", "ffn", "head", "rest")
_DIMS = re.compile(r"\(m, (\d+)\) × \((\d+), (\d+)\)")

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Shown:
    """The attention layer that the page looks into: of several kinds one that sees the whole context, if any does; of those
    the kind there is most of, and of those the last.

    `repeat` are the layers like it; `prefix` begins their rows' names. `projections` are its matrix products that make
    queries, keys and values, in order, and `dims` the (d_in, d_out) of every product; `ffn` is the largest of its
    feed-forward part, none where it has none.
    """

    mixer: Attention | Latent
    prefix: str
    repeat: int
    projections: tuple[str, ...]
    dims: Mapping[str, tuple[int, int]]
    ffn: str | None

    @property
    def d_in(self) -> int:
        """Width of the layer's own input."""
        return self.dims[self.projections[0]][0]

    @property
    def shared(self) -> tuple[str, ...]:
        """Projections that multiply it, and not what another made."""
        return tuple(name for name in self.projections if self.dims[name][0] == self.d_in)

    @property
    def n_kv_heads(self) -> int:
        """Heads whose keys and values are kept; a latent is one for all."""
        return 1 if isinstance(self.mixer, Latent) else self.mixer.n_kv_heads

    @property
    def d_key(self) -> int:
        """Width of what one head's query meets in the cache."""
        return self.mixer.d_latent + self.mixer.d_rope if isinstance(self.mixer, Latent) else self.mixer.d_head

    @property
    def d_query(self) -> int:
        """Width of a query head in a prompt's scores."""
        return self.mixer.d_nope + self.mixer.d_rope if isinstance(self.mixer, Latent) else self.mixer.d_head

    def kept(self, n_heads: int) -> dict[str, int]:
        """What the layer keeps of a token if so many heads do, and how wide that is; a latent's own heads are none."""
        match self.mixer:
            case Latent() as x if n_heads == 0:
                return {"C": self.d_key}
            case Latent() as x:
                return {"C": n_heads * (self.d_query + x.d_value)}
            case Attention() as x:
                return {"K": n_heads * x.d_head, "V": n_heads * x.d_v}

    def sees(self, n_tokens: NDArray[np.float64]) -> NDArray[np.float64]:
        """Of so many tokens those that a window leaves in the cache."""
        window = self.mixer.window if isinstance(self.mixer, Attention) else None
        return n_tokens if window is None else np.minimum(n_tokens, float(window))

    def rows(self, ops: Sequence[Row]) -> dict[str, Row]:
        """The layer's rows in a pass, by their names without the prefix."""
        return dict(_own(ops, self.prefix))


def shown_of(model: Model, timing: Timing) -> Shown:
    """The layer to show of a model, and its products as a pass counts them."""
    kinds = model.layer_kinds()
    prefixes = list(nicknames([layer for _, layer in kinds]))
    keeping = [(_limit(m) is None, repeat, i, m) for i, (repeat, x) in enumerate(kinds) for m in x.mixers if _keeps(m)]
    _, repeat, i, mixer = max(keeping, key=lambda found: found[:3])
    ops = dict(_own(timing.by_op(), prefixes[i]))
    places = {name: n for n, name in enumerate(ops)}
    found = {name: _DIMS.search(row["shape"]) for name, row in ops.items()}
    dims = {name: (int(at[2]), int(at[3])) for name, at in found.items() if at is not None}
    made = [f"{m.role}_proj" for m in mixer.matrices(model.d_model) if not m.role.startswith("index_")]
    before = tuple(name for name in made if places[name] < places["attention"])
    fed = {role for part, role in _roles(kinds[i][1], model.d_model) if part == "ffn"} - {"router"}
    ffn = max((x for x in dims if x in fed), key=lambda x: dims[x][0] * dims[x][1], default=None)
    return Shown(mixer, prefixes[i], repeat, before, dims, ffn)


def _own(ops: Sequence[Row], prefix: str) -> Iterator[tuple[str, Row]]:
    """A kind of layer's own rows; without a prefix those of a tower have one, and the rest of the model stands once."""
    for row in ops:
        name = row["name"].removeprefix(prefix)
        if row["name"].startswith(prefix) and "." not in name:
            yield name, row


def _keeps(mixer: SingleMixer) -> TypeGuard[Attention | Latent]:
    return isinstance(mixer, Latent) or (isinstance(mixer, Attention) and mixer.caches)


def _limit(mixer: Attention | Latent) -> int | None:
    """The most tokens a query attends to: in its window, or that an indexer picks; none where it sees all."""
    window = mixer.window if isinstance(mixer, Attention) else None
    return window if mixer.indexer is None else mixer.indexer.top_k


def parts_of(model: Model, timing: Timing) -> dict[str, dict[str, NDArray[np.float64]]]:
    """A pass by what its parts do: FLOPs, bytes and seconds of each, summed over all layers; of parts that do something."""
    products = dict(_products(model))
    sums = {part: dict.fromkeys(_SUMS, 0.0) for part in PARTS}
    for row in timing.by_op():
        of = sums[_KINDS.get(row["kind"]) or products.get(row["name"], "rest")]
        for name in of:
            of[name] = of[name] + row[name]
    return {
        part: {name: np.asarray(value, dtype=np.float64) for name, value in of.items()}
        for part, of in sums.items()
        if np.any(of["streamed_bytes"])
    }


_SUMS = ("executed_flops", "streamed_bytes", "seconds", "compute_s", "memory_s")
_KINDS = {"attention": "attention", "recurrent": "recurrent", "head": "head"}


def _products(model: Model) -> Iterator[tuple[str, str]]:
    """Names of the layers' products, and the part each belongs to."""
    kinds = model.layer_kinds()
    for prefix, (_, layer) in zip(nicknames([layer for _, layer in kinds]), kinds, strict=True):
        for part, role in _roles(layer, model.d_model):
            yield f"{prefix}{role}", part


def _roles(layer: Layer, d_model: int) -> Iterator[tuple[str, str]]:
    for mixer in layer.mixers:
        part = "projections" if isinstance(mixer, (Attention, Latent)) else "recurrent"
        yield from ((part, f"{m.role}_proj") for m in mixer.matrices(d_model))
    if layer.ffn is not None:
        yield from (("ffn", f"{m.role}_proj") for m in layer.ffn.matrices(d_model))
        yield from (("ffn", name) for name in ("router", "linear_ffn"))
