"""The step laws of many deployments of one model as one: coefficients are arrays, and one evaluation is of them all.

Laws of one model differ in numbers, hardly in form: products in the same order, each the larger of compute and memory. They
are laid side by side, what one lacks being 0, so that thousands of candidates cost a few times one of them.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roofline.answers.steps import ALIKE, Lines, defined, fullest, keys_of, round_s, windows_of
from roofline.ledger import Linear
from roofline.num import Num
from roofline.timing.laws import PassLaw
from roofline.timing.steplaw import Part, Window

__all__ = ["Stack", "Stages", "stacked"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Form:
    """A linear form of every law: its constant, and coefficients of keys by their place."""

    constant: Floats | None  # none where it is 0 of every law
    terms: tuple[tuple[int, Floats], ...]

    @classmethod
    def of(cls, forms: Sequence[Linear], place: dict[Hashable, int]) -> _Form:
        rows = [dict(form.terms) for form in forms]
        keys = sorted({key for row in rows for key in row}, key=lambda key: place[key])
        terms = tuple((place[key], np.array([row.get(key, 0.0) for row in rows])) for key in keys)
        constant = np.array([form.constant for form in forms])
        return cls(constant if constant.any() else None, terms)

    def of_points(self, which: NDArray[np.intp]) -> _Form:
        constant = None if self.constant is None else self.constant[which]
        return _Form(constant, tuple((i, values[which]) for i, values in self.terms))

    def at(self, sums: Sequence[Num]) -> Num:
        total: Num | None = self.constant
        for i, values in self.terms:
            term = values * sums[i]
            total = term if total is None else total + term
        return 0.0 if total is None else total


@dataclass(frozen=True, slots=True, eq=False)
class Stack:
    """A `MeanLaw` of arrays whose last axis are points, each of one of the laws.

    Attributes
    ----------
    windows : tuple of Window
        Those of the model's layers.
    """

    windows: tuple[Window, ...]
    sums: Any
    contests: tuple[tuple[tuple[_Form, ...], _Form], ...]
    streams: _Form
    links: _Form
    overlap: Floats
    n_ranks: Floats

    def of_points(self, which: NDArray[np.intp]) -> Stack:
        """The law of points, given which of the laws is each one's."""
        contests = tuple(
            (tuple(way.of_points(which) for way in ways), memory.of_points(which)) for ways, memory in self.contests
        )
        streams, links = self.streams.of_points(which), self.links.of_points(which)
        return Stack(self.windows, self.sums, contests, streams, links, self.overlap[which], self.n_ranks[which])

    def alike(self, n_decodes: Num, context: Num, within: Sequence[Num], n_chunks: Num, chunk: Part) -> Floats:
        """Steps with so many decodes and so many chunks that are alike  [s]."""
        sums = self.sums(n_decodes, context, within, n_chunks, *chunk, self.n_ranks)
        work = self.streams.at(sums)
        for ways, memory in self.contests:
            fastest = ways[0].at(sums)
            for way in ways[1:]:
                fastest = np.minimum(fastest, way.at(sums))
            work = work + np.maximum(fastest, memory.at(sums))
        links = self.links.at(sums)
        return np.asarray(work + np.maximum(links * (1.0 - self.overlap), links - work))


@dataclass(frozen=True, slots=True, eq=False)
class Stages:
    """The same of deployments with equally many pipeline stages: a step is a round, as `DeploymentLaw` says."""

    stacks: tuple[Stack, ...]
    n_micro: Floats

    @property
    def windows(self) -> tuple[Window, ...]:
        """Those of the model's layers."""
        return tuple(sorted({window for stack in self.stacks for window in stack.windows}))

    def of_points(self, which: NDArray[np.intp]) -> Stages:
        """The law of points, given which of the laws is each one's."""
        return Stages(tuple(stack.of_points(which) for stack in self.stacks), self.n_micro[which])

    def alike(self, n_decodes: Num, context: Num, within: Sequence[Num], n_chunks: Num, chunk: Part) -> Floats:
        """Steps with so many decodes and so many chunks that are alike  [s]."""
        stages = [partial(_at_stage, stack, self.windows) for stack in self.stacks]
        n = fullest(n_decodes, self.n_micro)
        return round_s(stages, self.n_micro, n_decodes, n, context, within, n_chunks, *chunk)


def _at_stage(
    stack: Stack, windows: tuple[Window, ...], n: Num, context: Num, within: Sequence[Num], n_chunks: Num, *chunk: Num
) -> Floats:
    """A stage's step, which asks for what its own layers see through."""
    seen = dict(zip(windows, within, strict=True))
    x, before, ends = chunk
    return stack.alike(n, context, [seen[window] for window in stack.windows], n_chunks, (x, before, ends))


def stacked(laws: Sequence[PassLaw], n_ranks: Sequence[int]) -> Stack:
    """The laws of deployments without pipelines, and their data-parallel ranks, as one."""
    keys = list(dict.fromkeys(key for law in laws for key in keys_of(law)))
    windows = tuple(sorted({window for key in keys for window in windows_of(key)}))
    lines = Lines.of(keys, windows, "ranks * ")
    body = [*lines.decodes, *lines.alike, *lines.after, f"return ({', '.join(lines.names.values())},)"]
    sums = defined(f"{ALIKE}, ranks", body, lines.others | lines.of_sums | {"max": np.maximum, "min": np.minimum})
    place: dict[Hashable, int] = {key: i for i, key in enumerate(keys)}
    contests = []
    for i in range(max(len(law.contests) for law in laws)):
        here = [law.contests[i] if i < len(law.contests) else ((Linear(),), Linear()) for law in laws]
        n_ways = max(len(ways) for ways, _ in here)
        ways = tuple(_Form.of([w[min(j, len(w) - 1)] for w, _ in here], place) for j in range(n_ways))
        contests.append((ways, _Form.of([memory for _, memory in here], place)))
    return Stack(
        windows, sums, tuple(contests), _Form.of([law.streams + law.overhead for law in laws], place),
        _Form.of([law.links for law in laws], place), np.array([law.overlap for law in laws]),
        np.array([float(n) for n in n_ranks]),
    )  # fmt: skip
