"""What the page lets its reader set: a few stops for each thing, and the deployments they stand for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from roofline.answers.crossings import compute_bound_from
from roofline.answers.fitting import narrower
from roofline.answers.ladder import with_kv_heads
from roofline.answers.memory import memory
from roofline.answers.phases import decode
from roofline.dtypes import format_named
from roofline.errors import RooflineError, SpecError, Unsupported
from roofline.num import checked
from roofline.specs.deployment import Deployment
from roofline.specs.mixers import Attention, Latent
from roofline.specs.model import Model

__all__ = ["DIMS", "Cache", "Formats", "Settings", "settings_of"]

DIMS = "nrbchkw"
"""Prompt, with or without the cache, batch, context; heads that keep a cache, its format, the weights' format."""

LONGEST_PROMPT = 8192
LARGEST_BATCH = 256
LONGEST_CONTEXT = 131_072
NARROW_CACHES = ("fp8", "q4_0")


@dataclass(frozen=True, slots=True)
class Cache:
    """A model with so many heads that keep keys and values: its own, or as if.

    Where its layers differ `n_heads` is the most of them, and `name` lists all.
    """

    model: Model
    n_heads: int
    own: bool
    name: str


@dataclass(frozen=True, slots=True)
class Formats:
    """A format, as the page's address has it: in bits, and by name."""

    bits: int
    name: str
    precision: dict[str, str]


@dataclass(frozen=True, slots=True)
class Settings:
    """The stops of every setting, and where each begins.

    `knee` is the shortest prompt from which on every prompt is bound by compute; none where no prompt of these is [token].
    Prompts and contexts go on past the longest that the model is made for; the page says where.
    """

    deployment: Deployment
    prompts: tuple[int, ...]
    batches: tuple[int, ...]
    contexts: tuple[int, ...]
    caches: tuple[Cache, ...]
    kv: tuple[Formats, ...]
    weights: tuple[Formats, ...]
    start: dict[str, int]
    knee: int | None

    @property
    def stops(self) -> dict[str, list[int]]:
        """What the address of the page says of each, in the order of its slider."""
        return {
            "n": list(self.prompts),
            "r": [1, 0],
            "b": list(self.batches),
            "c": list(self.contexts),
            "h": [cache.n_heads for cache in self.caches],
            "k": [x.bits for x in self.kv],
            "w": [x.bits for x in self.weights],
        }

    def variants(self) -> Iterator[tuple[tuple[int, int, int], Deployment]]:
        """Every choice of heads, cache format and weight format, and the deployment with it."""
        for h, cache in enumerate(self.caches):
            for k, kv in enumerate(self.kv):
                for w, weights in enumerate(self.weights):
                    precision = self.deployment.precision.model_copy(update=kv.precision | weights.precision)
                    yield (h, k, w), replace(self.deployment, model=cache.model, precision=precision)


def settings_of(deployment: Deployment, *, prompt_tokens: object = 4, batch: object = 1) -> Settings:
    """The stops that suit a model and a chip: powers of two, the reader's own numbers, and where the roof bends.

    Examples
    --------
    >>> from roofline.specs.catalog import hardware, model
    >>> s = settings_of(Deployment(model=model("llama-2-7b"), hardware=hardware("h100-sxm-80gb")))
    >>> s.prompts[0], s.prompts[-1], s.batches[-1], [cache.n_heads for cache in s.caches]
    (4, 8192, 256, [32, 8, 1])
    """
    d = deployment
    _require_a_cache(d.model)
    prompt = _one(prompt_tokens, name="prompt_tokens", high=LONGEST_CONTEXT - 1)
    sequences = _one(batch, name="batch", high=LARGEST_BATCH)
    knee = compute_bound_from(d, longest=max(LONGEST_PROMPT, prompt))
    prompts = _with(_powers(4, LONGEST_PROMPT), prompt, *([] if knee is None else [knee]))
    contexts = _with(_powers(512, LONGEST_CONTEXT), prompt + 1)
    caches, batches = _caches(d.model), _with(_powers(1, LARGEST_BATCH), sequences)
    kv, weights = _kv(d), _weights(d)
    begun = {
        "n": prompts.index(prompt),
        "b": batches.index(sequences),
        "c": contexts.index(min(contexts, key=lambda c: abs(c - max(4096, prompt + 1)))),
        "h": next(i for i, cache in enumerate(caches) if cache.own),
    }
    start = dict.fromkeys(DIMS, 0) | begun
    return Settings(d, prompts, batches, contexts, caches, kv, weights, start, knee)


def _require_a_cache(model: Model) -> None:
    """What the five steps are about."""
    mixers = [mixer for _, layer in model.layer_kinds() for mixer in layer.mixers]
    listens = any(layer.cross is not None and not layer.only_with_memory for _, layer in model.layer_kinds())
    if not model.generates or model.reads_a_source or listens:
        raise Unsupported(
            f"walkthrough: {model.id} is no decoder of text, which the five steps follow; roofline explain reads it"
        )
    if not any(isinstance(mixer, (Attention, Latent)) for mixer in mixers):
        raise Unsupported(
            f"walkthrough: no layer of {model.id} keeps a key and a value of each token, which the five steps are about; "
            "roofline explain reads it"
        )


def _one(value: object, *, name: str, high: int) -> int:
    number = checked(value, name=name, low=1.0, high=float(high))
    if not isinstance(number, float) or number != int(number):
        raise SpecError(f"{name}: expected one whole number, got {value!r:.60}")
    return int(number)


def _powers(first: int, last: int) -> tuple[int, ...]:
    """Powers of two from one to another, and the last itself."""
    found = [first * 2**i for i in range(40) if first * 2**i < last]
    return (*found, last) if found else (last,)


def _with(stops: tuple[int, ...], *others: int) -> tuple[int, ...]:
    return tuple(sorted({*stops, *others}))


def _caches(model: Model) -> tuple[Cache, ...]:
    """As if every head kept its own, the model's own, a quarter of the heads where it is MHA, one head."""
    mixers = [m for _, x in model.layer_kinds() for m in x.mixers]
    heads = [(m.n_heads, m.n_kv_heads) for m in mixers if isinstance(m, Attention) and m.caches]
    if not heads:  # latents: what takes the place of heads
        every = max(m.n_heads for m in mixers if isinstance(m, Latent))
        return (Cache(with_kv_heads(model, every), every, False, f"{every}"), Cache(model, 0, True, "MLA"))
    most, own = max(n for n, _ in heads), max(kept for _, kept in heads)
    quarter = max(n for n in range(1, max(2, most // 4 + 1)) if most % n == 0)
    counts = sorted({most, own, quarter if own == most else own, 1}, reverse=True)
    listed = ", ".join(map(str, sorted({kept for _, kept in heads}, reverse=True)))
    return tuple(
        Cache(model, n, True, listed) if n == own else Cache(with_kv_heads(model, n), n, False, f"{n}") for n in counts
    )


def _kv(d: Deployment) -> tuple[Formats, ...]:
    """The cache's own format, then narrower ones that run."""
    own = d.numerics.kv
    found = [Formats(round(own.bits), own.name, {})]
    for name in NARROW_CACHES:
        if format_named(name).bits < 0.9 * format_named(found[-1].name).bits:
            asked = {"kv": name}
            with suppress(RooflineError):
                decode(replace(d, precision=d.precision.model_copy(update=asked)), context_tokens=1)
                found.append(Formats(int(format_named(name).bits), name, asked))
    return tuple(found)


def _weights(d: Deployment) -> tuple[Formats, ...]:
    """The weights' own format, then two narrower ones that run; bits are what a weight takes, where formats are mixed."""
    own, held = d.numerics.weights_name, _weight_bytes(d)
    found = [Formats(round(8.0 * held / d.model.n_params), own, {})]
    for _, changed in narrower(d):
        named, bits = changed.numerics.weights.name, int(changed.numerics.weights.bits)
        if named != d.numerics.weights.name and _weight_bytes(changed) < 0.9 * held and bits < found[-1].bits:
            found.append(Formats(bits, named, {"weights": named}))
    return tuple(found[:3])


def _weight_bytes(d: Deployment) -> float:
    return memory(d, context_tokens=1).weight_bytes
