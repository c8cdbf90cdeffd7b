"""Weights besides those of a pass: how long a model takes to load, and what adapters add to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np

from roofline.answers.memory import memory
from roofline.answers.records import as_frame
from roofline.errors import SpecError, did_you_mean, require, shorten, shown
from roofline.ledger import Linear, Row, summed
from roofline.num import Num, checked, common_shape, same, whole
from roofline.specs.deployment import Deployment
from roofline.specs.ffns import Moe
from roofline.specs.layers import Layer
from roofline.specs.matrix import Matrix
from roofline.specs.model import Model
from roofline.specs.precision import Numerics, Precision
from roofline.work.count import count
from roofline.work.matmul import matmul
from roofline.work.step import Seqs, Step, as_step
from roofline.work.sums import PassSums, Stream, Sum

__all__ = ["Adapters", "LoadTime", "adapters", "load_time"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoadTime:
    """How long the weights take into memory [s], and what binds: the `source` that feeds all chips, or each `chip`'s way.

    `weight_bytes` are the whole model's, each once; `weight_bytes_per_chip` what the fullest chip holds of them.
    """

    weight_bytes: float
    weight_bytes_per_chip: float
    source_bytes_per_s: Num | None
    chip_bytes_per_s: Num | None
    seconds: Num
    bound: Any

    def to_dict(self) -> dict[str, Any]:
        """Flat, SI, unit in the key."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def to_frame(self) -> Any:
        """One row a point, as a pandas DataFrame."""
        return as_frame(self.to_dict())


def load_time(
    deployment: Deployment,
    *,
    source_bytes_per_s: Any = None,
    chip_bytes_per_s: Any = None,
    link: Literal["host", "scale_up", "scale_out"] | None = None,
) -> LoadTime:
    """Time from disk or network to all chips' memories.

        max(bytes of the model / source rate, bytes of the fullest chip / its own rate)

    Parameters
    ----------
    deployment : Deployment
    source_bytes_per_s : float or array, optional
        Rate of what all chips share: a disk, a network [B/s]. It is read once.
    chip_bytes_per_s : float or array, optional
        Rate at which one chip is filled, all at the same time [B/s].
    link : "host", "scale_up" or "scale_out", optional
        In place of it, that of this link in the chip's record.

    Notes
    -----
    Assumes both rates are reached and overlap, and nothing else happens at the start (no engine, no compilation, no check
    sums, no conversion of formats). Give the rate that was measured: a link's is an upper bound.

    Examples
    --------
    Llama-3.1-8B in bf16, 16.06 GB, at 63 GB/s over PCIe 5.0; from a disk of 7 GB/s.

    >>> from roofline.specs.catalog import hardware, model
    >>> d = Deployment(model=model("llama-3.1-8b"), hardware=hardware("h100-sxm-80gb"))
    >>> round(load_time(d, link="host").seconds, 3)
    0.255
    >>> disk = load_time(d, link="host", source_bytes_per_s=7e9)
    >>> round(disk.seconds, 2), disk.bound
    (2.29, 'source')
    """
    require(deployment, Deployment, "load_time(deployment)")
    given = {"source_bytes_per_s": source_bytes_per_s, "chip_bytes_per_s": chip_bytes_per_s}
    rates = {n: checked(v, name=n, low=0.0, high=1e18, above=True) for n, v in given.items() if v is not None}
    if link is not None:
        if "chip_bytes_per_s" in rates:
            raise SpecError("link: expected the chip's link or chip_bytes_per_s, got both; leave one out")
        rates["chip_bytes_per_s"] = _link_rate(deployment, link)
    if not rates:
        raise SpecError("load_time: no rate; give source_bytes_per_s=, chip_bytes_per_s= or link=")
    common_shape(**rates)
    source, chip = rates.get("source_bytes_per_s"), rates.get("chip_bytes_per_s")
    held = memory(deployment, context_tokens=0, memory_tokens=0)
    source_s = 0.0 if source is None else held.weight_bytes / source
    chip_s = 0.0 if chip is None else held.weight_bytes_per_chip / chip
    bound = np.where(np.greater(source_s, chip_s), "source", "chip")
    return LoadTime(
        weight_bytes=held.weight_bytes,
        weight_bytes_per_chip=held.weight_bytes_per_chip,
        source_bytes_per_s=source,
        chip_bytes_per_s=chip,
        seconds=same(np.maximum(source_s, chip_s), source_s, chip_s),
        bound=bound if bound.ndim else str(bound),
    )


def _link_rate(deployment: Deployment, link: str) -> float:
    chip, ways = deployment.hardware, ("host", "scale_up", "scale_out")
    if link not in ways:
        raise SpecError(f"link: expected one of {', '.join(ways)}, got {shown(link)}{did_you_mean(str(link), ways)}")
    found = getattr(chip.links, link)
    if found is None or found.bytes_per_s is None:
        raise SpecError(f"link: the rate of the {link} link of {chip.id} is not known; give chip_bytes_per_s=")
    return float(found.bytes_per_s)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Adapters:
    """What low-rank adapters hold, and add to a pass, beside the base model's own.

    Of one adapter: `n_params` [1], `adapter_bytes` [B]. Of all: `resident_bytes` [B]. Of the pass: `flops` [FLOP] and
    `streamed_bytes` [B], which they add to `base_flops` and `base_streamed_bytes`; the shares are over those [1].
    """

    rank: int
    targets: tuple[str, ...]
    n_adapters: Num
    n_params: int
    adapter_bytes: float
    flops: Num
    streamed_bytes: Num
    base_resident_bytes: float
    base_flops: Num
    base_streamed_bytes: Num

    @property
    def resident_bytes(self) -> Num:
        """n · bytes of one [B]."""
        return self.n_adapters * self.adapter_bytes

    @property
    def resident_share(self) -> Num:
        """Over the base's weights [1]."""
        return self.resident_bytes / self.base_resident_bytes

    @property
    def flops_share(self) -> Num:
        """Over the FLOPs of the pass without them [1]."""
        return self.flops / self.base_flops

    @property
    def streamed_share(self) -> Num:
        """Over the bytes the pass streams without them [1]."""
        return self.streamed_bytes / self.base_streamed_bytes

    def to_dict(self) -> dict[str, Any]:
        """Flat, SI, unit in the key."""
        shares = {n: getattr(self, n) for n in ("resident_bytes", "resident_share", "flops_share", "streamed_share")}
        own = {f.name: getattr(self, f.name) for f in fields(self)}
        return own | {"targets": " ".join(self.targets), "n_adapters": whole(self.n_adapters)} | shares

    def to_frame(self) -> Any:
        """One row a point, as a pandas DataFrame."""
        return as_frame(self.to_dict())


def adapters(
    model: Model,
    step: Seqs | Step,
    *,
    rank: int,
    targets: Sequence[str] = ("q", "k", "v", "o"),
    n_adapters: Any = 1,
    weights: str = "bf16",
    precision: Precision | None = None,
) -> Adapters:
    """LoRA adapters: their bytes, and the FLOPs and bytes they add to a pass, not merged into the base.

        y = x·W + (x·A)·B        A (d_in, r), B (r, d_out), of every target matrix of every layer
        params = Σ r · (d_in + d_out);   flops = 2 · m · params;   bytes streamed = min(n, B) · bytes of one

    Parameters
    ----------
    model : Model
    step : Seqs or tuple of Seqs
        The pass, as in `count`.
    rank : int
        r [1].
    targets : sequence of str
        Roles of the matrices, as the model names them: "q", "gate", "expert_up", …; "q_proj" is "q".
    n_adapters : int or array
        n, adapters held [1]. Of a pass at most one for each sequence takes part.
    weights : str
        Format of the adapters.
    precision : Precision, optional
        Of the base; the checkpoint's own by default.

    Notes
    -----
    Assumes each distinct adapter is streamed once a pass, and their activations stay on the chip. Experts have an adapter
    each: a token passes those of its k, and all of them are streamed (an upper bound). Counted on one chip, base and
    adapters alike. Adapters of cross-attention, towers, embedding and head are not counted.

    References
    ----------
    Hu et al. 2021, arXiv:2106.09685. LLaMA-7B, rank 8 on q and v: 4,194,304 parameters (Hugging Face PEFT prints it).

    Examples
    --------
    >>> from roofline.specs.catalog import model
    >>> adapters(model("llama-2-7b"), Seqs(n_seq=1, n_new=1, n_past=1000), rank=8, targets=("q", "v")).n_params
    4194304
    """
    require(model, Model, "adapters(model)")
    precision = Precision() if precision is None else precision
    require(precision, Precision, "adapters(precision=…)")
    if isinstance(rank, bool) or not isinstance(rank, int) or not 1 <= rank <= 65_536:
        raise SpecError(f"rank: expected a whole number from 1 to 65,536, got {shown(rank)}")
    roles = _roles(model, targets)
    held = checked(n_adapters, name="n_adapters", low=1.0)
    base, sums = count(model, step, precision=precision), PassSums(as_step(step))
    common_shape(step=base.n_seq, n_adapters=held)
    rows = tuple(_rows(model, roles, rank=rank, numerics=Precision(weights=weights).of(model)))
    one = float(summed(rows, "weight_bytes").at(sums))
    return Adapters(
        rank=rank,
        targets=roles,
        n_adapters=held,
        n_params=sum(repeat * rank * m.n * (m.d_in + m.d_out) for repeat, _, m in _matrices(model, roles)),
        adapter_bytes=one,
        flops=summed(rows, "flops").at(sums),
        streamed_bytes=same(np.minimum(held, base.n_seq), held, base.n_seq) * one,
        base_resident_bytes=base.resident_bytes,
        base_flops=base.flops,
        base_streamed_bytes=base.streamed_bytes,
    )


def _roles(model: Model, targets: Sequence[str]) -> tuple[str, ...]:
    if isinstance(targets, str) or not targets:
        raise SpecError(f'targets: expected roles of matrices such as ("q", "v"), got {shown(targets)}')
    known = tuple(dict.fromkeys(m.role for _, _, m in _matrices(model, None)))
    roles = tuple(dict.fromkeys(str(t).removesuffix("_proj") for t in targets))
    for role in roles:
        if role not in known:
            near = did_you_mean(role, known) or f"; it has {', '.join(known)}"
            raise SpecError(f'targets: {model.id} has no matrix "{shorten(role)}"{near}')
    return roles


def _matrices(model: Model, roles: Sequence[str] | None) -> Iterator[tuple[int, Layer, Matrix]]:
    """(layers, one of them, its matrix) of every mixer's and FFN's matrix with one of the roles; of all, for none."""
    for repeat, layer in model.layer_kinds():
        for part in (layer.mixer, layer.ffn):
            for matrix in () if part is None else part.matrices(model.d_model):
                if roles is None or matrix.role in roles:
                    yield repeat, layer, matrix


def _rows(model: Model, roles: Sequence[str], *, rank: int, numerics: Numerics) -> Iterator[Row]:
    """x·A and (x·A)·B of every target, by the law of all matrix products."""
    for repeat, layer, matrix in _matrices(model, roles):
        for pair in (
            Matrix(matrix.role, matrix.d_in, rank, n=matrix.n),
            Matrix(matrix.role, rank, matrix.d_out, n=matrix.n),
        ):
            yield matmul(
                pair, m=_tokens(layer, matrix), numerics=numerics, name=f"{matrix.role}_lora", repeat=float(repeat)
            )


def _tokens(layer: Layer, matrix: Matrix) -> Linear:
    """Tokens that pass the matrix; of each of E experts k/E of them."""
    stream: Stream = "informed" if layer.only_with_memory else "text"
    tokens = Sum("tokens", stream=stream).linear
    if isinstance(layer.ffn, Moe) and matrix.role.startswith("expert_"):
        return tokens * (layer.ffn.n_active_experts / layer.ffn.n_experts)
    return tokens
