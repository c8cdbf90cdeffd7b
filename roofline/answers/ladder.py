"""The ladder of cache sizes: what each step from a key and a value for every head down to a 4-bit cache buys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial, reduce
from typing import Any

import numpy as np

from roofline.answers.caches import kv_bytes, state_bytes
from roofline.answers.inputs import memory_tokens_of
from roofline.answers.memory import memory
from roofline.answers.phases import asked_for, decode
from roofline.answers.records import as_frame
from roofline.errors import RooflineError, SpecError, Unsupported, require
from roofline.num import Num, common_shape, same, whole
from roofline.specs.deployment import Deployment
from roofline.specs.layers import Layer
from roofline.specs.mixers import Attention, Compressed, Latent, Pair, SingleMixer
from roofline.specs.model import Model
from roofline.specs.precision import Numerics, Precision, run_dtype
from roofline.units import format_bytes
from roofline.work.attention import kv_bytes_per_token
from roofline.work.kvcache import token_bytes
from roofline.work.sight import ALL, Sight, seen

__all__ = ["CacheLadder", "OnChip", "Rung", "as_mha", "cache_ladder", "with_kv_heads"]

NARROWER = (("fp8", "fp8 cache"), ("int4", "int4 cache before scales"), ("q4_0", "q4_0 cache"))
"""Formats below the model's own dtype, and how a rung says them: int4 is 4 bits and no scale, q4_0 has its scales."""

MOST_KINDS = 3  # of attention that a rung's name lists
ALL_HEADS = 2**31


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OnChip:
    """One decode pass of a rung on one chip (or several, `n_chips`), or why there is none.

    `tpot_s` is the estimate, `tpot_floor_s` what nothing beats, `speedup` the first rung's `tpot_s` on this chip over its
    own [1]; `weight_bytes` and `kv_read_bytes` what the pass streams of either [B]; `fits` whether weights and cache do.
    Where a chip does not run the rung all of these are none, and `note` says why; else it says what the chip does otherwise
    than asked, if anything.
    """

    hardware: str
    n_chips: int
    weights: str
    tpot_s: Num | None = None
    tpot_floor_s: Num | None = None
    speedup: Num | None = None
    bound: Any = None
    weight_bytes: Num | None = None
    kv_read_bytes: Num | None = None
    fits: Any = None
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Flat, SI, unit in the key."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rung:
    """One size of cache: heads that keep their own keys and values, in one format.

    `k_bytes_per_layer` and `v_bytes_per_layer` are what one sequence's decode pass reads of keys and of values in a layer
    (of unlike layers, the one that reads most); a latent is both at once and counts as keys. `kv_bytes_per_token` is a
    token's cache over all layers, `kv_bytes` that of the whole batch at its context, `shrink` the first rung's
    `kv_bytes_per_token` over its own [1].
    """

    name: str
    heads: str
    kv: str
    k_bytes_per_layer: Num
    v_bytes_per_layer: Num
    kv_bytes_per_token: float
    kv_bytes: Num
    shrink: float
    chips: tuple[OnChip, ...]

    def to_dict(self) -> dict[str, Any]:
        """SI, unit in the key; `chips` as a list."""
        said = {f.name: getattr(self, f.name) for f in fields(self)}
        return {"rung" if n == "name" else n: v for n, v in said.items()} | {"chips": [c.to_dict() for c in self.chips]}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CacheLadder:
    """The rungs of one model, the largest cache first. `state_bytes` is what its recurrent layers keep on every rung [B]."""

    model: Model
    context_tokens: Num
    batch: Num
    state_bytes: Num
    rungs: tuple[Rung, ...]

    def __iter__(self) -> Iterator[Rung]:
        return iter(self.rungs)

    def __len__(self) -> int:
        return len(self.rungs)

    def to_dict(self) -> dict[str, Any]:
        """SI, unit in the key; `rungs` as a list, and the `chips` of each."""
        return self._asked() | {"rungs": [rung.to_dict() for rung in self.rungs]}

    def _asked(self) -> dict[str, Any]:
        asked = {"context_tokens": whole(self.context_tokens), "batch": whole(self.batch)}
        return {"model": self.model.id} | asked | {"state_bytes": self.state_bytes}

    def to_frame(self) -> Any:
        """One row a rung and chip (and point of a grid), as a pandas DataFrame."""
        import pandas as pd

        frames = []
        for rung in self.rungs:
            own = {name: value for name, value in rung.to_dict().items() if name != "chips"}
            frames += [as_frame(self._asked() | own | chip.to_dict()) for chip in rung.chips]
        return pd.concat([frame.astype(object) for frame in frames], ignore_index=True).infer_objects()


def cache_ladder(
    deployments: Deployment | Sequence[Deployment],
    *,
    context_tokens: Any = 4096,
    batch: Any = 1,
    memory_tokens: Any = None,
) -> CacheLadder:
    """What each step from MHA to a small cache buys: bytes of keys, of cache, and the TPOT they lead to on each chip.

        K read of a layer  =  S · K · H · bits/8          (a window: of min(S, W − 1); a latent: S · (R + r) · bits/8)

    | rung | heads                                          | cache in                                       |
    |------|------------------------------------------------|------------------------------------------------|
    | 1    | as if every query head kept its own: K = N     | the dtype of the activations, 16 bit for most  |
    | 2    | the model's own: GQA, MQA, or a latent         | the same                                       |
    | 3    | its own                                        | fp8                                            |
    | 4    | its own                                        | int4, 4 bits before any scale                  |
    | 5    | its own                                        | q4_0: 4 bits and a 16-bit scale for each 32    |

    Of a model that is MHA already, the first two are one. As if MHA, a latent's heads keep the keys (p + r) and values (v)
    that would be made of it.

    Parameters
    ----------
    deployments : Deployment, or a sequence of them
        Of one model, on the chips to compare; their own cache formats are set aside.
    context_tokens, batch : int or array
        Cached tokens of each sequence, S, and sequences, B [token, 1].
    memory_tokens : int or array, optional
        Tower outputs that are cross-attended to [token], as in `decode`; part of `kv_bytes` and TPOT.

    Returns
    -------
    CacheLadder
        A format or a plan that a chip does not run leaves its place on that rung empty, with the reason.

    Raises
    ------
    Unsupported
        For what has no such ladder: encoders, models with no attention cache, DeepSeek-V4's compressed entries.

    Notes
    -----
    Assumes attention computes in the model's 16-bit dtype whatever the cache is stored in, and widening it costs nothing.
    MHA has wider matrices, not only a larger cache: k and v as wide as q (and a latent's low-rank ones full), so the first
    rung reads more weights too; `weight_bytes` says how many. Recurrent layers and index keys stay as they are. TPOT is
    that of one pass after `context_tokens`, whether or not it all fits.

    References
    ----------
    Shazeer 2019, arXiv:1911.02150 (MQA). Ainslie et al. 2023, arXiv:2305.13245 (GQA). DeepSeek-AI 2024, arXiv:2405.04434
    (MLA).

    Examples
    --------
    Llama-3.1-8B at 4096: 4096 tokens · 32 heads · 128 · 2 B are 32 MiB of keys a layer; 8 heads a quarter, fp8 half of that.

    >>> from roofline.specs.catalog import hardware, model
    >>> d = Deployment(model=model("llama-3.1-8b"), hardware=hardware("h100-sxm-80gb"))
    >>> for rung in cache_ladder(d):
    ...     print(f"{rung.name:31} {rung.k_bytes_per_layer / 2**20:5.2f} MiB {rung.chips[0].tpot_s * 1e3:.2f} ms")
    as if MHA                       32.00 MiB 5.61 ms
    GQA-8                            8.00 MiB 4.64 ms
    GQA-8, fp8 cache                 4.00 MiB 4.56 ms
    GQA-8, int4 cache before scales  2.00 MiB 4.52 ms
    GQA-8, q4_0 cache                2.25 MiB 4.53 ms
    """
    given = _deployments(deployments)
    model, dense = given[0].model, given[0].numerics.dense
    _require_a_ladder(model)
    outputs = memory_tokens_of(model, memory_tokens)
    asked: dict[str, Any] = asked_for(context_tokens=context_tokens, batch=batch)
    common_shape(**asked, memory_tokens=outputs)
    asked |= {"memory_tokens": outputs} if model.remembers else {}
    heads, wide = _heads(model), as_mha(model)
    steps = [("as if MHA", "MHA", wide, dense)] if wide != model else []
    steps += [(heads, heads, model, dense)]
    steps += [(f"{heads}, {said}", heads, model, kv) for kv, said in NARROWER]
    rungs: list[Rung] = []
    for name, kept, of, kv in steps:
        rungs.append(_rung(name, kept, of, kv, given, asked, first=rungs[0] if rungs else None))
    state = state_bytes(model, batch=asked["batch"])
    return CacheLadder(model=model, **_shape(asked), state_bytes=state, rungs=tuple(rungs))


def _deployments(given: Any) -> tuple[Deployment, ...]:
    members = tuple(given) if isinstance(given, (list, tuple)) else (given,)
    for member in members:
        require(member, Deployment, "cache_ladder(deployments)")
    if not members:
        raise SpecError("cache_ladder: expected at least one deployment, got an empty list")
    first = members[0]
    for member in members[1:]:
        if member.model != first.model:
            raise SpecError(
                f"cache_ladder: expected deployments of one model, got {first.model.id} and {member.model.id}; "
                "ask for a ladder of each"
            )
        if member.numerics.dense != first.numerics.dense:
            both = f"{first.numerics.dense} and {member.numerics.dense}"
            raise SpecError(f"cache_ladder: expected one dtype of activations, got {both}; set activations alike")
    return members


def _shape(asked: dict[str, Num]) -> dict[str, Num]:
    return {name: asked[name] for name in ("context_tokens", "batch")}


# Which models have one


def _require_a_ladder(model: Model) -> None:
    if not model.generates:
        raise Unsupported(f"cache_ladder: {model.id} is an encoder: it reads its input once and keeps no cache")
    mixers = [mixer for _, layer in model.layer_kinds() for mixer in layer.mixers]
    if any(isinstance(mixer, Compressed) for mixer in mixers):
        raise Unsupported(
            f"cache_ladder: {model.id} caches entries that stand for several tokens and are key and value at once; "
            "there is no count of heads to start from; ask kv_bytes for each format"
        )
    if not any(isinstance(mixer, (Attention, Latent)) for mixer in mixers):
        state = format_bytes(float(state_bytes(model)))
        raise Unsupported(
            f"cache_ladder: {model.id} has no attention: a sequence keeps a state of {state} however long it is, and "
            "neither heads nor a cache format change it"
        )
    if not any(mixer.caches for mixer in mixers if isinstance(mixer, Attention)) and not _has_latent(mixers):
        raise Unsupported(f"cache_ladder: no layer of {model.id} keeps keys and values of its own")


def _has_latent(mixers: Sequence[object]) -> bool:
    return any(isinstance(mixer, Latent) for mixer in mixers)


def _heads(model: Model) -> str:
    """What its attention is called, by the heads that are cached: "GQA-8"; of several kinds, each."""
    found = [m for _, layer in model.layer_kinds() for m in layer.mixers if isinstance(m, (Attention, Latent))]
    kinds = list(dict.fromkeys(_kind(mixer) for mixer in found))
    return " and ".join(kinds) if len(kinds) <= MOST_KINDS else f"{len(kinds)} kinds of attention"


def _kind(mixer: Attention | Latent) -> str:
    if isinstance(mixer, Latent):
        return "MLA"
    if mixer.n_kv_heads == mixer.n_heads:
        return "MHA"
    return "MQA" if mixer.n_kv_heads == 1 else f"GQA-{mixer.n_kv_heads}"


def as_mha(model: Model) -> Model:
    """The same model if every query head kept keys and values of its own."""
    return with_kv_heads(model, ALL_HEADS)


def with_kv_heads(model: Model, n_kv_heads: int) -> Model:
    """The same model if so many heads of each layer's attention kept keys and values, or all of them where it has fewer.

    >>> from roofline.specs.catalog import model
    >>> [layer.mixer.n_kv_heads for _, layer in with_kv_heads(model("llama-3.1-8b"), 2).layer_kinds()]
    [2]
    """
    groups = (
        g.model_copy(update={"layers": tuple(_layer_with(x, n_kv_heads) for x in g.layers)}) for g in model.layers
    )
    return model.model_copy(update={"layers": tuple(groups)})


def _layer_with(layer: Layer, n_kv_heads: int) -> Layer:
    mixer, cross = layer.mixer, layer.cross
    if isinstance(mixer, Pair):
        mixer = mixer.model_copy(update={"attention": _mixer_with(mixer.attention, n_kv_heads)})
    elif mixer is not None:
        mixer = _mixer_with(mixer, n_kv_heads)
    wide = None if cross is None else cross.model_copy(update={"n_kv_heads": min(n_kv_heads, cross.n_heads)})
    return layer.model_copy(update={"mixer": mixer, "cross": wide})


def _mixer_with(mixer: SingleMixer, n_kv_heads: int) -> SingleMixer:
    match mixer:
        case Attention():
            return mixer.model_copy(update={"n_kv_heads": min(n_kv_heads, mixer.n_heads)})
        case Latent() as x:
            kept, wide = min(n_kv_heads, x.n_heads), x.d_nope + x.d_rope
            return Attention(n_heads=x.n_heads, n_kv_heads=kept, d_head=wide, d_value=x.d_value, indexer=x.indexer)
        case _:
            return mixer


# A rung


def _rung(
    name: str, heads: str, model: Model, kv: str, given: Sequence[Deployment], asked: dict[str, Any], first: Rung | None
) -> Rung:
    numerics = Precision(kv=kv).of(model)
    token = token_bytes(model, numerics=numerics)
    keys, values = _read(model, numerics, asked["context_tokens"])
    return Rung(
        name=name,
        heads=heads,
        kv=kv,
        k_bytes_per_layer=keys,
        v_bytes_per_layer=values,
        kv_bytes_per_token=token,
        kv_bytes=kv_bytes(model, kv=kv, **asked),
        shrink=1.0 if first is None else first.kv_bytes_per_token / token,
        chips=tuple(
            _on_chip(d, model, kv, asked, None if first is None else first.chips[i]) for i, d in enumerate(given)
        ),
    )


def _read(model: Model, numerics: Numerics, context: Num) -> tuple[Num, Num]:
    """Keys, and values, that a decode pass of one sequence reads in the layer that reads most of each  [B]."""
    mixers = [m for _, layer in model.layer_kinds() for m in layer.mixers if isinstance(m, (Attention, Latent))]
    pairs = [_read_by(mixer, numerics, context) for mixer in mixers]
    most = partial(reduce, np.maximum)
    return same(most(k for k, _ in pairs), context), same(most(v for _, v in pairs), context)


def _read_by(mixer: Attention | Latent, numerics: Numerics, context: Num) -> tuple[Num, Num]:
    """The cached tokens it sees, each K·H and K·Hv elements; of a latent R + r, keys and values in one."""
    token = kv_bytes_per_token(mixer, numerics=numerics)
    if isinstance(mixer, Latent):
        sight = ALL if mixer.indexer is None else Sight(mixer.indexer.top_k)
        return seen(sight, n_past=context) * token, context * 0.0
    read = seen(Sight.of(mixer), n_past=context) * token
    both = mixer.d_head + mixer.d_v
    return read * mixer.d_head / both, read * mixer.d_v / both


def _on_chip(d: Deployment, model: Model, kv: str, asked: dict[str, Any], first: OnChip | None) -> OnChip:
    """The rung on one chip; what it does not run (a format, a plan) is said, not timed."""
    about: dict[str, Any] = {"hardware": d.hardware.id, "n_chips": d.n_chips, "weights": d.numerics.weights_name}
    try:
        changed = replace(d, model=model, precision=d.precision.model_copy(update={"kv": kv}))
        timing, held = decode(changed, **asked), memory(changed, **asked)
        seconds, floor_s = timing.seconds, timing.floor_s
    except RooflineError as error:
        return OnChip(**about, note=str(error))
    before = seconds if first is None else first.tpot_s
    return OnChip(
        **about,
        tpot_s=seconds,
        tpot_floor_s=floor_s,
        speedup=None if before is None else before / seconds,
        bound=timing.bound,
        weight_bytes=timing.total("weight_bytes"),
        kv_read_bytes=timing.total("kv_read_bytes"),
        fits=held.fits,
        note="; ".join((*changed.said(), *_widened(changed))),
    )


def _widened(d: Deployment) -> tuple[str, ...]:
    """What a chip without units for the cache's format does with it."""
    kv, chip = d.numerics.kv, d.hardware
    if kv.weight_only or chip.has(kv.compute) or kv.name == d.numerics.dense:
        return ()
    return (f"{chip.id} has no {kv.compute} units: widens the {kv.name} cache to {run_dtype(d.numerics.dense, chip)}",)
