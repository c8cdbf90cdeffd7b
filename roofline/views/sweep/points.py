"""The rows of a sweep, block by block: a deployment and a rectangle of its numbers, answered all at once.

Rows follow one another as the axes are written, the last fastest. A block is a rectangle of neighbouring rows, so that what
depends on the batch alone is worked out once for all contexts beside it; it is small enough for the caches of a core.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import islice
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from roofline.answers.chunks import budget_tokens, is_cut
from roofline.answers.estimates import Edges, Rates
from roofline.answers.memory import Memory, memory
from roofline.answers.phases import decode
from roofline.answers.prediction import Prediction, predict
from roofline.errors import RooflineError
from roofline.num import Num
from roofline.specs.deployment import Deployment
from roofline.timing.clock import Timing
from roofline.views.sweep.axes import Combination
from roofline.views.sweep.columns import IDENTITY, Column

__all__ = ["Arrays", "Block", "Rows", "blocks", "evaluate", "in_tasks"]

BLOCK_POINTS = 98_304  # fewer than grids of which answers are made in pieces
PASS_POINTS = 262_144  # prompts that an engine cuts are points with as many passes
STEP_POINTS = 4_194_304  # requests, points with as many steps

Arrays: TypeAlias = dict[str, NDArray[Any]]


class Decoding(Edges, Rates):
    """A decode pass, in the words of a prediction."""

    def __init__(self, deployment: Deployment, batch: Num, passed: Timing) -> None:
        self.deployment, self.batch, self.decode = deployment, batch, passed

    @property
    def tpot_s(self) -> Num:
        """What the pass takes [s]."""
        return self.decode.seconds

    @property
    def tpot_floor_s(self) -> Num:
        """Nothing can beat it [s]."""
        return self.decode.floor_s


class Rows:
    """What the columns of neighbouring rows are taken from, each worked out when first asked for."""

    def __init__(self, deployment: Deployment, output_tokens: int | None, numbers: Mapping[str, Num]) -> None:
        """`numbers` broadcast together."""
        self.deployment, self.output_tokens = deployment, output_tokens
        self.batch = numbers["batch"]
        self.prompt_tokens, self.context_tokens = numbers.get("prompt_tokens"), numbers.get("context_tokens")

    @cached_property
    def prediction(self) -> Prediction:
        """The request: its first token alone where no output tokens are asked for."""
        first = int(self.deployment.model.generates)
        n_output = first if self.output_tokens is None else self.output_tokens
        return predict(self.deployment, prompt_tokens=self.prompt_tokens, output_tokens=n_output, batch=self.batch)

    @cached_property
    def decoding(self) -> Prediction | Decoding:
        """The tokens after the first: the pass at a context, or the mean of a request's."""
        if self.context_tokens is None:
            return self.prediction
        passed = decode(self.deployment, context_tokens=self.context_tokens, batch=self.batch)
        return Decoding(self.deployment, self.batch, passed)

    @cached_property
    def memory(self) -> Memory:
        """At that context, or where the request is longest."""
        if self.context_tokens is None:
            return self.prediction.memory
        return memory(self.deployment, context_tokens=self.context_tokens, batch=self.batch)

    @property
    def exceeds_context(self) -> Any:
        """Whether the prompt, the request or the context is longer than the model is made for."""
        most = self.deployment.model.max_context_tokens
        longer = [] if self.context_tokens is None else [np.greater(self.context_tokens, most)]
        longer += [] if self.prompt_tokens is None else [self.prediction.exceeds_context]
        return reduce(np.logical_or, longer)

    def get(self, path: str) -> Any:
        """What a column is made of; none where there is none: the TPOT of one token, the interval of an ideal machine."""
        first, _, rest = path.partition(".")
        found = getattr(self, first)
        for name in rest.split(".") if rest else ():
            found = None if found is None else getattr(found, name)
        return found


@dataclass(frozen=True, slots=True)
class Block:
    """Neighbouring rows: one combination, the places of its words, and the values of each number along its own dimension."""

    combination: Combination
    places: Mapping[str, int]
    numbers: Mapping[str, NDArray[np.float64]]

    @property
    def shape(self) -> tuple[int, ...]:
        """Values of each number."""
        return tuple(values.size for values in self.numbers.values())

    @property
    def n_rows(self) -> int:
        """Rows in all [1]."""
        return math.prod(self.shape)

    @property
    def said(self) -> str:
        """In words, as errors name it."""
        n_output = self.combination.output_tokens
        given = [] if n_output is None else [f"output_tokens {n_output:,}"]
        return ", ".join([self.combination.said, *given, *(_span(name, v) for name, v in self.numbers.items())])

    def rows(self) -> Rows:
        """The answers, not yet worked out."""
        n = len(self.numbers)
        apart = {
            name: values.reshape([-1 if i == k else 1 for k in range(n)])
            for i, (name, values) in enumerate(self.numbers.items())
        }
        return Rows(self.combination.deployment, self.combination.output_tokens, apart)


def _span(name: str, values: NDArray[np.float64]) -> str:
    first, last = f"{values[0]:,.15g}", f"{values[-1]:,.15g}"
    return f"{name} {first}" if values.size == 1 else f"{name} {first} to {last}"


def blocks(
    combinations: Iterable[Combination], numbers: Mapping[str, NDArray[np.float64]], words: Mapping[str, Sequence[str]]
) -> Iterator[Block]:
    """All rows, in order."""
    shape = [values.size for values in numbers.values()]
    for one in combinations:
        places = {name: words[name].index(one.labels[name]) for name in IDENTITY}
        for where in rectangles(shape, most=_points_at_once(one, numbers)):
            parts = zip(numbers.items(), where, strict=True)
            yield Block(one, places, {name: values[part] for (name, values), part in parts})


def _points_at_once(one: Combination, numbers: Mapping[str, NDArray[np.float64]]) -> int:
    """Points of a block: fewer where each has many passes, or steps."""
    most, d = float(BLOCK_POINTS), one.deployment
    prompt = numbers.get("prompt_tokens")
    if prompt is not None and is_cut(d.model):
        n_tokens = math.ceil(float(numbers["batch"].max()) / d.plan.dp) * float(prompt.max())
        most = min(most, PASS_POINTS / math.ceil(n_tokens / budget_tokens(d) + 1.0))
    return max(1, int(min(most, STEP_POINTS / (one.output_tokens or 1))))


def rectangles(shape: Sequence[int], *, most: int) -> Iterator[tuple[slice, ...]]:
    """Rectangles of at most so many points that cover a grid one after another in the order of its rows, about alike.

    >>> [w for w in rectangles((2, 5), most=4)][:2]
    [(slice(0, 1, None), slice(0, 3, None)), (slice(0, 1, None), slice(3, 5, None))]
    """
    if not shape:
        yield ()
        return
    first, *others = shape
    inner = math.prod(others)
    each = max(1, most // inner)
    each = math.ceil(first / math.ceil(first / each))
    for start in range(0, first, each):
        here = slice(start, min(start + each, first))
        for rest in rectangles(others, most=most):
            yield (here, *rest)


def in_tasks(found: Iterable[Block], n_blocks: int) -> Iterator[tuple[Block, ...]]:
    """So many blocks at a time."""
    left = iter(found)
    while task := tuple(islice(left, n_blocks)):
        yield task


def evaluate(task: Sequence[Block], columns: Sequence[Column]) -> Arrays:
    """The columns of neighbouring blocks, one after another."""
    found = {c.name: np.empty(sum(block.n_rows for block in task), c.dtype) for c in columns}
    start = 0
    for block in task:
        stop = start + block.n_rows
        try:
            rows = block.rows()
            for c in columns:
                value = block.places[c.path] if c.path in block.places else rows.get(c.path)
                found[c.name][start:stop].reshape(block.shape)[...] = _nothing(c) if value is None else value
        except RooflineError as error:
            raise type(error)(f"sweep: {block.said}: {error}") from None
        start = stop
    return found


def _nothing(column: Column) -> float:
    return -1 if column.kind == "word" else math.nan
