"""Where the passes of a proof are run: one kind's decoder, its sequences, and what was found so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roofline.evidence.reference.cache import Cache
from roofline.evidence.reference.checks import Check, held_against, step_of
from roofline.evidence.reference.counter import Array
from roofline.evidence.reference.decoder import Chunk, Context, Decoder, Ids, Pass
from roofline.evidence.reference.kinds import Kind
from roofline.evidence.reference.latent import Form
from roofline.evidence.reference.shapes import Run
from roofline.work.count import count

__all__ = ["EPS", "N_PROMPT", "Bench", "Text", "changed", "difference"]

N_PROMPT = 4
EPS = float(np.finfo(np.float64).eps)


class Bench:
    """One kind's decoder, and what was found so far. What is cached runs absorbed, what is not expanded."""

    def __init__(self, kind: Kind, *, seed: int) -> None:
        self.kind, self.seed = kind, seed
        forms: tuple[Form, ...] = ("absorbed", "expanded")
        self.forms = {form: Decoder(kind.model, latent=form, seed=seed) for form in forms}
        self.rng = np.random.default_rng(seed + 1)
        self.checks: list[Check] = []
        self.runs: list[Run] = []

    def start(self) -> Context:
        """A sequence of no tokens."""
        return self.forms["absorbed"].start()

    def words(self, n_tokens: int) -> Ids:
        """Tokens at random."""
        return self.rng.integers(0, self.kind.model.vocab_size, n_tokens)

    def run(self, name: str, *chunks: Chunk, n_shared: int = 0, form: Form = "absorbed") -> Pass:
        """A pass, held against the ledger."""
        step = step_of(chunks, n_shared=n_shared)
        done = self.forms[form].run(*chunks)
        ledger = count(self.kind.model, step, latent=form)
        self.checks.extend(held_against(done.counter, ledger, self.kind.model, run=name))
        self.runs.append(Run.of(name, done.counter))
        return done

    def same(self, name: str, what: str, one: Sequence[Array], other: Sequence[Array], *passes: Pass) -> None:
        """Two runs gave the same numbers, but for rounding."""
        scale = max((float(np.abs(x).max()) for x in one if x.size), default=0.0)
        chain = max(done.counter.chain for done in passes)
        found = max((difference(a, b) for a, b in zip(one, other, strict=True)), default=0.0)
        self.checks.append(Check(run=name, what=what, found=found, expected=0.0, limit=2 * chain * EPS * scale))


@dataclass(slots=True)
class Text:
    """A sequence that is generated: all its tokens, those not in its cache yet, what its tower reads."""

    context: Context
    tokens: Ids
    inputs: tuple[NDArray[Any], ...]

    @classmethod
    def of(cls, bench: Bench, index: int, *, n_tokens: int) -> Text:
        """A prompt; of a model with images, every other one has two of 3 patches, of one with a text, a text of 5 tokens."""
        model = bench.kind.model
        inputs: tuple[NDArray[Any], ...] = ()
        if model.reads_a_source:
            inputs = (bench.words(5),)
        elif model.remembers and index % 2 == 0:
            tower = model.towers[0]
            width = tower.stem[0].d_in if tower.stem else tower.d_model
            inputs = tuple(bench.rng.standard_normal((3, width)) for _ in range(2))
        return cls(bench.start(), bench.words(n_tokens), inputs)

    def next_chunk(self, n_tokens: int | None = None, n_logits: int = 1) -> Chunk:
        """Its tokens that are not cached yet, or so many of them."""
        there = self.context.n_tokens
        end = len(self.tokens) if n_tokens is None else there + n_tokens
        return Chunk(self.context, self.tokens[there:end], n_logits, () if there else self.inputs)

    def whole(self, bench: Bench, n_logits: int = 1) -> Chunk:
        """All of it, from nothing."""
        return Chunk(bench.start(), self.tokens, n_logits, self.inputs)


def changed(before: Sequence[Cache], after: Sequence[Cache]) -> int:
    """Elements of entries in both that are not the same bit for bit  [1]."""
    n_changed = 0
    for old, new in zip(before, after, strict=True):
        low, high = max(old.first, new.first), min(old.n_tokens, new.n_tokens)
        for a, b in zip(old.between(low, max(low, high)), new.between(low, max(low, high)), strict=True):
            n_changed += int(np.count_nonzero(a.view(np.int64) != b.view(np.int64)))
    return n_changed


def difference(a: Array, b: Array) -> float:
    """The largest |a − b|; none of nothing, and all of arrays that are not alike or not numbers."""
    if a.shape != b.shape:
        return float("inf")
    gap = np.abs(a - b)
    return float("inf") if np.isnan(gap).any() else float(gap.max(initial=0.0))
