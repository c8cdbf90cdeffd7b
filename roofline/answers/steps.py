"""The step law of a deployment: count and clock of a mixed pass, compiled to one plain function of what a scheduler knows.

Every key a pass law asks for is a sum over the decodes of a step, which advance together, plus a sum over its chunks of
prompts. Both are written as Python expressions, the law around them, and the whole compiled once: what `count` and `clock`
say of the step `(Seqs of the decodes, Seqs of each chunk)`, to rounding, in a few microseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roofline.answers.estimates import chip_of, known_of
from roofline.answers.phases import how_of
from roofline.answers.tiers import elsewhere_of
from roofline.errors import Unsupported
from roofline.num import Num
from roofline.specs.deployment import Deployment
from roofline.timing.laws import PassLaw, pass_law
from roofline.timing.steplaw import Chunk, Part, Window, written
from roofline.work.count import rows_of
from roofline.work.routing import Busiest, Touched
from roofline.work.sight import Sight
from roofline.work.step import Seqs
from roofline.work.sums import Cheaper, Key, Reached, Sum

__all__ = [
    "ALIKE", "DeploymentLaw", "Lines", "defined", "fullest", "keys_of", "pass_laws", "round_s", "seen_through", "step_law",
    "windows_of",
]  # fmt: skip

Floats = NDArray[np.float64]

_OF_TOWERS = ("memory", "made", "crossed")
_NO_CHUNK = (0.0, 0.0, 0.0, 0.0)
ALIKE = "b, c, w, n, x, s, e"  # decodes, contexts, what windows show; chunks, and tokens, past, ends of one


@dataclass(frozen=True, slots=True)
class DeploymentLaw:
    """What a step takes of one replica: a `StepLaw`.

    Attributes
    ----------
    windows : tuple of Window
        Those its layers see through.
    stages : tuple
        The function of each pipeline stage, for numbers and for arrays.
    n_micro : int
        Most microbatches the decodes are cut into; 1 without a pipeline [1].

    Notes
    -----
    Assumes data-parallel ranks that are all as busy as this one. Of a compressed cache the decodes count as so many of their
    mean context. Through pp stages the decodes go as m microbatches, one of which takes the
    chunks; a step is one round, in steady state:  max( Σ tᵢ(loaded), max over i of tᵢ(loaded) + (m − 1) · tᵢ(others) ).
    """

    windows: tuple[Window, ...]
    stages: tuple[tuple[Callable[..., float], Callable[..., Floats]], ...]
    n_micro: int = 1

    def seconds(self, n_decodes: int, context: int, within: Sequence[int], chunks: Sequence[Chunk]) -> float:
        """One step  [s]."""
        if len(self.stages) == 1:
            return self.stages[0][0](n_decodes, context, within, chunks)
        n_micro = max(1, min(self.n_micro, n_decodes))
        n = ceil(n_decodes / n_micro)
        share = n / max(n_decodes, 1)
        decodes = (n, context * share, [w * share for w in within])
        loaded = [one(*decodes, chunks) for one, _ in self.stages]
        others = [one(*decodes, ()) for one, _ in self.stages] if chunks and n_micro > 1 else loaded
        return max(sum(loaded), *(t + (n_micro - 1) * o for t, o in zip(loaded, others, strict=True)))

    def decoding(
        self, n_decodes: int, context: int, within: Sequence[int], growing: Sequence[int], n_steps: int
    ) -> Floats:
        """So many steps of the same decodes, one after another  [s]."""
        step = np.arange(n_steps, dtype=np.float64)
        seen = [w + g * step for w, g in zip(within, growing, strict=True)]
        n = ceil(n_decodes / max(1, min(self.n_micro, n_decodes)))
        return self._round(n_decodes, n, context + n_decodes * step, seen, *_NO_CHUNK)

    def alike(self, n_decodes: Num, context: Num, within: Sequence[Num], n_chunks: Num, chunk: Part) -> Floats:
        """Steps with so many decodes and so many chunks that are alike, any of them a fraction; arrays  [s]."""
        return self._round(n_decodes, fullest(n_decodes, self.n_micro), context, within, n_chunks, *chunk)

    def _round(self, n_decodes: Num, n: Num, context: Num, within: Sequence[Num], n_chunks: Num, *chunk: Num) -> Floats:
        """A step, of n decodes in the fullest microbatch: arrays."""
        stages = [many for _, many in self.stages]
        return round_s(stages, self.n_micro, n_decodes, n, context, within, n_chunks, *chunk)


def round_s(
    stages: Sequence[Callable[..., Floats]], n_micro: Num, n_decodes: Num, n: Num, context: Num, within: Sequence[Num],
    n_chunks: Num, *chunk: Num,
) -> Floats:  # fmt: skip
    """A round through the stages, of at most so many microbatches, n decodes in the fullest, which takes the chunks; arrays.

    max( Σ tᵢ(loaded), max over i of tᵢ(loaded) + (m − 1) · tᵢ(others) );  of one stage, its step  [s]
    """
    if len(stages) == 1:
        return np.asarray(stages[0](n_decodes, context, within, n_chunks, *chunk))
    others = np.clip(n_decodes, 1.0, n_micro) - 1.0
    share = n / np.maximum(n_decodes, 1e-9)
    decodes = (n, context * share, [w * share for w in within])
    loaded = [many(*decodes, n_chunks, *chunk) for many in stages]
    through: Floats = np.asarray(sum(loaded))
    for t, many in zip(loaded, stages, strict=True):
        through = np.maximum(through, t + others * many(*decodes, *_NO_CHUNK))
    return through


def fullest(n_decodes: Num, n_micro: Num) -> Num:
    """Decodes of the fullest microbatch, where they may be a fraction: B / m, at least one of them  [1]."""
    return np.maximum(n_decodes / np.clip(n_decodes, 1.0, n_micro), np.minimum(n_decodes, 1.0))


@lru_cache(maxsize=512)
def _compiled(laws: tuple[PassLaw, ...], n_ranks: int, n_micro: int) -> DeploymentLaw:
    windows = seen_through(laws)
    return DeploymentLaw(windows, tuple(_function(law, windows, n_ranks) for law in laws), n_micro)


def step_law(deployment: Deployment) -> DeploymentLaw:
    """The law of a deployment's steps, estimates as `predict` makes them.

    Examples
    --------
    One decode after 1,023 tokens; beside a whole prompt it costs less than on its own, as the weights are read once.

    >>> from roofline.answers.phases import decode
    >>> from roofline.specs.catalog import hardware, model
    >>> d = Deployment(model=model("llama-3.1-8b"), hardware=hardware("h100-sxm-80gb"))
    >>> law = step_law(d)
    >>> law.seconds(1, 1024, (), ()) == decode(d, context_tokens=1023).seconds
    True
    >>> prompt = (2048, 0, True)
    >>> law.seconds(1, 1024, (), [prompt]) - law.seconds(0, 0, (), [prompt]) < 0.1 * law.seconds(1, 1024, (), ())
    True
    """
    d = deployment
    return _compiled(pass_laws(d), d.plan.dp, 1 if d.plan.pp == 1 else d.plan.microbatches or d.plan.pp)


def pass_laws(deployment: Deployment) -> tuple[PassLaw, ...]:
    """The pass law of every pipeline stage, of what can be simulated under load."""
    d = deployment
    if elsewhere_of(d) is not None:
        raise Unsupported("serve: weights or caches in another memory are not simulated under load; ask predict")
    listens = any(layer.cross is not None and not layer.only_with_memory for _, layer in d.model.layer_kinds())
    if not d.model.generates or d.model.reads_a_source or listens:
        raise Unsupported(f"serve: {d.model.id} is no decoder of text, which load is simulated of; ask predict")
    efficiency, chip, how = known_of(d).efficiency, chip_of(d), how_of(d)
    rows = (rows_of(d.model, d.precision, how, d.plan, stage)[0] for stage in range(d.plan.pp))
    return tuple(pass_law(stage, chip, efficiency, overlap=d.plan.overlap) for stage in rows)


def seen_through(laws: Iterable[PassLaw]) -> tuple[Window, ...]:
    """The windows that the layers of some laws see through."""
    return tuple(sorted({w for law in laws for key in keys_of(law) for w in windows_of(key)}))


def keys_of(law: PassLaw) -> tuple[Key, ...]:
    """What a law asks of a pass, each once, what is made of others after them."""
    forms = [form for ways, memory in law.contests for form in (*ways, memory)]
    found: dict[Key, None] = {}
    for form in (*forms, law.streams, law.overhead, law.links):
        for key, _ in form.terms:
            if not isinstance(key, Key):
                raise Unsupported(f"a step law of {key} is not known")
            found |= dict.fromkeys((*_base(key), key))
    return tuple(found)


def _base(key: Key) -> tuple[Key, ...]:
    """The sum that a key which is no sum over parts is a function of."""
    match key:
        case Touched():
            return (Sum("tokens", stream=key.stream, ways=key.ways),)
        case Busiest():
            return _base(key.touched)
        case Reached():
            return (key.sum,)
        case _:
            return ()


def windows_of(key: Key) -> Iterable[Window]:
    """The window its decodes are counted within, if any."""
    inner = key.sum if isinstance(key, (Cheaper, Reached)) else key
    if isinstance(inner, Sum) and inner.sight.window is not None and inner.sight.causal:
        yield Window(inner.sight.window, inner.sight.chunked)


def _function(
    law: PassLaw, windows: tuple[Window, ...], n_ranks: int
) -> tuple[Callable[..., float], Callable[..., Floats]]:
    """A stage's seconds as a function of (b, c, w, chunks); and of arrays, with n chunks alike, of (b, c, w, n, x, s, e)."""
    lines = Lines.of(keys_of(law), windows, "" if n_ranks == 1 else f"{n_ranks} * ")
    answer = f"return {written(law, lines.names)}"
    loop = ["for x, s, e in chunks:", *lines.chunks] if lines.chunks else []
    kept = {name: lru_cache(maxsize=65536)(f) for name, f in lines.of_sums.items()}  # steps have the same numbers again
    one = defined("b, c, w, chunks", [*lines.decodes, *loop, *lines.after, answer], lines.others | kept)
    arrays = lines.others | lines.of_sums | {"max": np.maximum, "min": np.minimum}
    return one, defined(ALIKE, [*lines.decodes, *lines.alike, *lines.after, answer], arrays)


@dataclass(frozen=True, slots=True)
class Lines:
    """The statements that work out keys, under the names they get: of the decodes, of a loop over chunks or of n alike, and
    of what is a function of those; and the functions they call."""

    names: dict[Hashable, str]
    decodes: list[str]
    chunks: list[str]
    alike: list[str]
    after: list[str]
    others: dict[str, Any]
    of_sums: dict[str, Any]

    @classmethod
    def of(cls, keys: Iterable[Key], windows: tuple[Window, ...], wide: str) -> Lines:
        """Of keys in an order in which each stands after what it is a function of; `wide` multiplies those of all ranks."""
        found = cls({}, [], [], [], [], {}, {})
        for i, key in enumerate(keys):
            found._add(f"{i}", key, windows, wide)
        return found

    def _add(self, i: str, key: Key, windows: tuple[Window, ...], wide: str) -> None:
        name = self.names[key] = f"k{i}"
        if base := _base(key):
            self.of_sums[f"f{i}"] = _of_sum(key)
            self.after.append(f"{name} = f{i}({self.names[base[0]]})")
            return
        once = isinstance(key, Sum) and key.name in ("asked", "busy")  # a yes or no of the whole pass
        times = wide if key.stream == "replica" and not once else ""
        here, there = _of_decodes(key, windows), _of_chunk(key)
        if here is None:
            self.others[f"d{i}"], here = _decodes_alike(key), f"d{i}(b, c)"
        if there is None:
            self.others[f"p{i}"], there = _one_chunk(key), f"p{i}(x, s, e)"
        self.decodes.append(f"{name} = {times}({here})")
        if once:
            self.chunks.append(f"    {name} = max({name}, {there})")
            self.alike.append(f"{name} = max({name}, min(n, 1)*({there}))")
        elif there != "0.0":
            self.chunks.append(f"    {name} += {times}({there})")
            self.alike.append(f"{name} = {name} + {times}n*({there})")


def defined(arguments: str, body: Sequence[str], names: dict[str, Any]) -> Callable[..., Any]:
    """A function of these statements, which call these names."""
    source = "\n    ".join([f"def law({arguments}):", *body])
    space = dict(names)
    exec(compile(source, "<step law>", "exec"), space)
    law: Callable[..., Any] = space["law"]
    return law


def _of_decodes(key: Key, windows: tuple[Window, ...]) -> str | None:
    """Σ over b decodes, of contexts that add up to c, as an expression; none where it is not one of their sums."""
    match key:
        case Cheaper():
            always = key.per_past >= 2.0 * key.per_pair  # S·past ≥ (S + 1)·pair for every S from 1 on: absorbed
            inner = _of_decodes(key.sum, windows)
            return inner if always and key.form == "absorbed" else "0.0" if always else None
        case Sum() if key.stream in ("inputs", "informed") or key.name in _OF_TOWERS:
            return "0.0"
        case Sum(name="tokens" | "seqs" | "logits" | "resumed" | "starts" | "continued"):
            return "b"
        case Sum(name="asked" | "busy"):
            return "min(b, 1)"
        case Sum() if key.sight.causal and key.stream in ("text", "replica", "wanted", "asked"):
            context = next((f"w[{windows.index(window)}]" for window in windows_of(key)), "c")
            return context if key.name in ("pairs", "square") else f"{context} - b"
        case _:
            return None


def _of_chunk(key: Key) -> str | None:
    """What a chunk of x tokens after s, that ends its prompt (e) or not, adds; none where it has no expression here."""
    match key:
        case Cheaper():
            inner, pairs = _of_chunk(key.sum), _pairs(key.sight)
            if inner is None or pairs is None:
                return None
            sign = "<" if key.form == "expanded" else ">="
            return f"({inner}) * (s*{key.per_past!r} {sign} ({pairs})*{key.per_pair!r})"
        case Sum() if key.stream in ("inputs", "informed") or key.name in _OF_TOWERS:
            return "0.0"
        case Sum() if key.stream in ("text", "replica"):
            return _plain(key)
        case _:
            return None


def _plain(key: Sum) -> str | None:
    """Sums over the whole of a chunk, as expressions."""
    sight = key.sight
    visible = _seen(sight)
    return {
        "tokens": "x" if key.ways == 1 else f"-(-x // {key.ways})",
        "seqs": "1",
        "busy": "1",
        "logits": "e",
        "asked": "e",
        "resumed": "min(s, 1)",
        "starts": "min(s, 1)",
        "continued": "x*min(s, 1)",
        "pairs": _pairs(sight),
        "picked": f"min(s, x*{(sight.window or 1) - 1})",
        "seen": visible,
        "held": visible,
        "agreed": visible,
    }.get(key.name)


def _seen(sight: Sight) -> str | None:
    """Cached tokens a chunk sees: as `work.sight.seen` has them."""
    if not sight.causal:
        return None
    if sight.window is None:
        return "s"
    return f"s % {sight.window}" if sight.chunked else f"min(s, {sight.window - 1})"


def _pairs(sight: Sight) -> str | None:
    """Pairs a chunk forms: as `work.sight.pairs` has them."""
    if not sight.causal:
        return None
    if sight.window is None:
        return "x*s + x*(x + 1)*0.5"
    if sight.chunked:
        w = sight.window
        first = "({n}) // {w} * ({w}*({w} + 1)*0.5) + ({n}) % {w} * (({n}) % {w} + 1)*0.5"
        return f"{first.format(n='s + x', w=w)} - ({first.format(n='s', w=w)})"
    within = f"min(max({sight.window} - s, 0), x)"
    return f"{within}*s + {within}*({within} + 1)*0.5 + (x - {within})*{sight.window}"


def _decodes_alike(key: Key) -> Callable[[Num, Num], Num]:
    """Of so many decodes of their mean context, what the key itself says."""

    def decodes(b: Num, c: Num) -> Num:
        mean = np.maximum(c / np.maximum(b, 1e-9) - 1.0, 0.0)
        return key.over((Seqs.of_checked(n_seq=np.asarray(b, float), n_new=1.0, n_past=mean),))

    return decodes


def _one_chunk(key: Key) -> Callable[[Num, Num, Num], Num]:
    """Of one chunk, what the key itself says."""

    def chunk(x: Num, s: Num, e: Num) -> Num:
        x, s, e = (np.asarray(v, float)[()] for v in (x, s, e))
        return key.over((Seqs.of_checked(n_seq=1.0, n_new=x, n_past=s, n_logits=e),))

    return chunk


def _of_sum(key: Key) -> Callable[[Num], Num]:
    """A key that depends on one number of the whole step."""

    def of_sum(value: Num) -> Num:
        return key.over((Seqs.of_checked(n_seq=np.asarray(value, float)[()], n_new=1.0, n_past=0.0),))

    return of_sum
