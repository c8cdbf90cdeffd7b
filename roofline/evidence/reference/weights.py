"""Random weights for a model's record: every matrix it lists and every vector its layers need, drawn from one seed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from roofline.errors import Unsupported
from roofline.evidence.reference.counter import Weight
from roofline.specs.ffns import Moe
from roofline.specs.layers import Group, Layer, Norm
from roofline.specs.matrix import Matrix
from roofline.specs.mixers import Attention, CrossAttention, Latent, LinearMixer
from roofline.specs.model import Model
from roofline.specs.precision import Numerics
from roofline.specs.towers import Product, Tower

__all__ = ["LayerWeights", "ModelWeights", "NormWeights", "TowerWeights", "drawn"]

Named = Mapping[str, Weight]


@dataclass(frozen=True, slots=True)
class NormWeights:
    """A norm and its scale and bias, where it has them."""

    norm: Norm
    scale: Weight | None
    bias: Weight | None

    @property
    def tensors(self) -> tuple[Weight, ...]:
        """Those it has."""
        return tuple(w for w in (self.scale, self.bias) if w is not None)


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """The tensors of one layer, by role; of the experts one mapping each."""

    layer: Layer
    norms: tuple[NormWeights, ...]
    mixer: Named = field(default_factory=dict)
    cross: Named = field(default_factory=dict)
    ffn: Named = field(default_factory=dict)
    experts: tuple[Named, ...] = ()

    def tensors(self) -> Iterator[Weight]:
        """All of them."""
        yield from (w for norm in self.norms for w in norm.tensors)
        yield from (w for named in (self.mixer, self.cross, self.ffn, *self.experts) for w in named.values())


@dataclass(frozen=True, slots=True)
class TowerWeights:
    """The tensors of a tower."""

    tower: Tower
    stem: tuple[tuple[Product, Weight], ...]
    layers: tuple[LayerWeights, ...]
    norms: tuple[NormWeights, ...]
    projector: tuple[tuple[Product, Weight], ...]
    positions: Weight | None

    def tensors(self) -> Iterator[Weight]:
        """All of them."""
        yield from (w for _, w in (*self.stem, *self.projector))
        yield from (w for layer in self.layers for w in layer.tensors())
        yield from (w for norm in self.norms for w in norm.tensors)
        yield from () if self.positions is None else (self.positions,)


@dataclass(frozen=True, slots=True)
class ModelWeights:
    """The tensors of a model. A tied head is the table seen from its other side."""

    model: Model
    embedding: Weight
    head: Weight
    positions: Weight | None
    outer: Named
    embedding_norm: NormWeights | None
    final_norm: NormWeights | None
    tower: TowerWeights | None
    layers: tuple[LayerWeights, ...]

    @property
    def n_params(self) -> int:
        """Elements of all tensors, those of a tied head once  [1]."""
        norms = (w for norm in (self.embedding_norm, self.final_norm) if norm is not None for w in norm.tensors)
        loose = (self.positions,) if self.positions is not None else ()
        tower = () if self.tower is None else self.tower.tensors()
        inside = (w for layer in self.layers for w in layer.tensors())
        tensors: tuple[Weight, ...] = (self.embedding, *loose, *self.outer.values(), *norms, *tower, *inside)
        tied = self.model.head is not None and self.model.head.tied
        return sum(w.n_params for w in tensors) + self.head.n_params - (self.embedding.n_params if tied else 0)


def drawn(model: Model, numerics: Numerics, *, seed: int) -> ModelWeights:
    """Weights of unit scale: a product's are spread by 1/√d_in, norms are near 1, biases near 0."""
    _require_runnable(model)
    draw = _Draw(np.random.default_rng(seed), numerics)
    outer = draw.matrices(model.outer_matrices())
    table = model.embedding_matrix
    tied = model.head is not None and model.head.tied
    embedding = draw.table(table.d_in, table.d_out, role="head" if tied else "embedding")
    head = draw.matrix(model.head_matrix)
    rows = model.positions.rows
    return ModelWeights(
        model=model,
        embedding=embedding,
        head=replace(head, values=embedding.values.T) if tied else head,
        positions=None if rows is None else draw.table(rows, model.d_model, role="positions"),
        outer=outer,
        embedding_norm=draw.norm(model.norm, model.d_model) if model.embedding.norm else None,
        final_norm=draw.norm(model.norm, model.d_model) if model.final_norm else None,
        tower=None if not model.towers else _tower(model.towers[0], draw),
        layers=_layers(model.layers, draw, d_model=model.d_model, norm=model.norm),
    )


def _require_runnable(model: Model) -> None:
    """Raise for what this decoder does not run: it would be counted by no one."""
    towers = model.towers
    beyond = {
        "an encoder": not model.generates,
        "several towers, or one that feeds the prompt": any(t.feeds == "prompt" for t in towers) or len(towers) > 1,
        "a side embedding": model.side_embedding is not None,
        "several residual streams": model.residual_streams != 1,
        "an embedding of segments, or one that sums first": model.embedding.sums_first or model.embedding.type_rows,
        "positions by distance": model.positions.kind == "relative",
        "loose vectors": bool(model.vectors),
    }
    refused = next((what for what, there in beyond.items() if there), None)
    if refused is not None:
        raise Unsupported(f"{model.id}: the reference does not run {refused}")


def _layers(groups: Iterable[Group], draw: _Draw, *, d_model: int, norm: Norm) -> tuple[LayerWeights, ...]:
    """Every layer of a stack in the order they run."""
    return tuple(
        _layer(layer, draw, d_model=d_model, norm=norm)
        for group in groups
        for _ in range(group.repeat)
        for layer in group.layers
    )


def _layer(layer: Layer, draw: _Draw, *, d_model: int, norm: Norm) -> LayerWeights:
    n_parts = sum(part is not None for part in (layer.mixer, layer.cross, layer.ffn))
    if layer.side_matrices(d_model) or layer.vectors or layer.n_norms > 2 * n_parts:
        raise Unsupported(
            "the reference does not run layers with side matrices, loose vectors, or norms around nothing"
        )
    here = replace(draw, numerics=draw.numerics.of_layer(layer))
    ffn = layer.ffn
    experts: tuple[Named, ...] = ()
    if isinstance(ffn, Moe):
        if ffn.scales:
            raise Unsupported("the reference does not run experts with learnt scales")
        shapes, experts = ffn.common_matrices(d_model), _experts(ffn, here, d_model)
    else:
        shapes = () if ffn is None else ffn.matrices(d_model)
    return LayerWeights(
        layer=layer,
        norms=tuple(here.norm(norm, d_model) for _ in range(layer.n_norms)),
        mixer=_mixer(layer, here, d_model),
        cross={} if layer.cross is None else here.matrices(layer.cross.matrices(d_model)) | _cross(layer.cross, here),
        ffn=here.matrices(shapes),
        experts=experts,
    )


def _experts(ffn: Moe, draw: _Draw, d_model: int) -> tuple[Named, ...]:
    """E times the matrices of one."""
    one = [replace(matrix, n=1) for matrix in ffn.routed_matrices(d_model)]
    return tuple(draw.matrices(one) for _ in range(ffn.n_experts))


def _mixer(layer: Layer, draw: _Draw, d_model: int) -> Named:
    match layer.mixer:
        case None:
            return {}
        case LinearMixer() as x:
            return draw.matrices(x.matrices(d_model))
        case Latent(indexer=None) as x:
            norms = {"kv_norm": x.d_latent} | ({} if x.d_q_latent is None else {"q_norm": x.d_q_latent})
            return draw.matrices(x.matrices(d_model)) | draw.vectors(norms)
        case Attention(indexer=None) as x:
            return draw.matrices(x.matrices(d_model)) | draw.vectors(_attention_vectors(x))
        case x:
            picks = " with an indexer" if getattr(x, "indexer", None) is not None else ""
            raise Unsupported(f"the reference does not run a mixer of kind {x.kind}{picks}")


def _attention_vectors(x: Attention) -> dict[str, int]:
    """Scales (and biases) of the query and key norms, over a head or all of them; a sink a head."""
    heads = {"q": x.n_heads} | ({} if x.values == "earlier" else {"k": x.n_kv_heads})
    wide = x.qk_norm == "full"
    scales = {f"{name}_norm": x.d_head * (n if wide else 1) for name, n in heads.items() if x.qk_norm != "none"}
    biases = {f"{name}_bias": width for name, width in scales.items() if x.norm_bias}
    return scales | biases | ({"sinks": x.n_heads} if x.sinks else {})


def _cross(x: CrossAttention, draw: _Draw) -> dict[str, Weight]:
    return draw.vectors({"q_norm": x.d_head, "k_norm": x.d_head} if x.qk_norm else {})


def _tower(tower: Tower, draw: _Draw) -> TowerWeights:
    if set(tower.vectors) - {"positions"} or any(
        p.once or p.n != 1 or p.rows != 1.0 for p in (*tower.stem, *tower.projector)
    ):
        raise Unsupported("the reference runs towers of plain products, layers, norms and a table of positions")
    here = replace(draw, numerics=draw.numerics.of_tower(tower))
    rows = tower.vectors.get("positions", 0) // tower.d_model
    return TowerWeights(
        tower=tower,
        stem=tuple((p, here.matrix(p.matrix)) for p in tower.stem),
        layers=_layers(tower.layers, here, d_model=tower.d_model, norm=tower.norm),
        norms=tuple(here.norm(tower.norm, tower.d_model) for _ in range(tower.n_norms)),
        projector=tuple((p, here.matrix(p.matrix)) for p in tower.projector),
        positions=replace(here.table(rows, tower.d_model), element_bytes=here.numerics.kept_bytes) if rows else None,
    )


@dataclass(frozen=True, slots=True)
class _Draw:
    """Random tensors, each in the format that its role is stored in."""

    rng: np.random.Generator
    numerics: Numerics

    def matrix(self, x: Matrix) -> Weight:
        values = self.rng.standard_normal((x.d_in, x.d_out)) / np.sqrt(x.d_in)
        bias = 0.1 * self.rng.standard_normal(x.d_out) if x.bias else None
        return Weight(values, self.numerics.bytes_per_element(x.role), bias, self.numerics.kept_bytes)

    def matrices(self, listed: Iterable[Matrix]) -> dict[str, Weight]:
        return {x.role: self.matrix(x) for x in listed}

    def table(self, n_rows: int, width: int, *, role: str = "embedding") -> Weight:
        return Weight(self.rng.standard_normal((n_rows, width)), self.numerics.bytes_per_element(role))

    def vector(self, width: int, *, around: float = 1.0) -> Weight:
        return Weight(around + 0.1 * self.rng.standard_normal(width), self.numerics.kept_bytes)

    def vectors(self, widths: Mapping[str, int]) -> dict[str, Weight]:
        return {name: self.vector(n, around=1.0 if name.endswith("_norm") else 0.0) for name, n in widths.items()}

    def norm(self, norm: Norm, width: int) -> NormWeights:
        scale = self.vector(width) if norm.scale else None
        return NormWeights(norm, scale, self.vector(width, around=0.0) if norm.bias else None)
