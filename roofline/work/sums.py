"""The sums over a pass that every count is linear in: tokens, pairs, cached tokens seen, and their kin.

A key names a sum and knows how to work it out; a row of the ledger holds only coefficients of keys. Adding a kind of work
that is not linear in these is adding a key here.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from roofline.ledger import Linear, add_up
from roofline.num import Num, same
from roofline.work.sight import ALL, Sight, pairs, rectangle, seen
from roofline.work.step import Seqs, Step

__all__ = ["Beyond", "Cheaper", "Entries", "Key", "PassSums", "Reached", "Stream", "Sum", "SumName"]

Stream: TypeAlias = Literal["text", "inputs", "informed", "asked", "wanted", "replica"]
"""Whose tokens: the sequences' new ones; what a tower reads; of sequences with something to cross-attend to; of those whose
logits are wanted; only the positions whose logits are wanted; those of all data-parallel ranks together."""


SumName: TypeAlias = Literal[
    "seqs",
    "resumed",
    "starts",
    "continued",
    "tokens",
    "logits",
    "asked",
    "busy",
    "pairs",
    "square",
    "seen",
    "picked",
    "held",
    "agreed",
    "memory",
    "made",
    "crossed",
]


class Key:
    """A sum of a pass: it knows how to work itself out, and as a linear form makes `2.0 * Sum("tokens").linear` a count."""

    __slots__ = ()

    @property
    def stream(self) -> Stream:
        """Whose tokens it is about."""
        raise NotImplementedError

    def over(self, step: Step) -> Num:
        """Its value for a step."""
        raise NotImplementedError

    @property
    def linear(self) -> Linear:
        """The sum itself, as a form."""
        return Linear.of(self)


@dataclass(frozen=True, slots=True)
class Sum(Key):
    """A sum over the sequences of the pass, by name; for attention, under one sight.

    | name    | Σ over the sequences of the pass                                   | unit  |
    |---------|--------------------------------------------------------------------|-------|
    | seqs    | 1                                                                  | 1     |
    | resumed | 1 for each that has a past                                         | 1     |
    | starts  | the same, once where all of the past is shared: distinct states    | 1     |
    | tokens  | T; ⌈T/ways⌉ where the tokens of a sequence are split               | token |
    | continued | T of each that has a past                                        | token |
    | logits  | positions whose logits are wanted                                  | token |
    | asked   | 1 for the pass if any logits are wanted at all, else 0             | 1     |
    | busy    | 1 for the pass if there are any tokens at all, else 0              | 1     |
    | pairs   | visible (query, key) pairs                                         | 1     |
    | square  | pairs of a full rectangle, masked ones and all                     | 1     |
    | seen    | cached tokens that some query sees                                 | token |
    | picked  | min(S, T·(W − 1)): cached tokens T queries read that pick W each   | token |
    | held    | seen, with a shared prefix once for all: what memory must give     | token |
    | agreed  | min(S, W − 1), of a shared prefix the same picks by all            | token |
    | memory  | M                                                                  | token |
    | made    | of M, what the tower makes in this pass: at most what it reads     | token |
    | crossed | T · M                                                              | 1     |
    """

    name: SumName
    sight: Sight = ALL
    stream: Stream = "text"
    ways: int = 1

    def over(self, step: Step) -> Num:
        """Its value for a step: the parts added up (`asked` and `busy` are a yes or no, so at most 1)."""
        total = add_up(self.of(part) for part in step)
        if self.name in ("asked", "busy") and len(step) > 1:
            return same(np.minimum(total, 1.0), total)
        return total

    def of(self, part: Seqs) -> Num:
        """Its value for one part of a step."""
        s = _streamed(part, self.stream)
        match self.name:
            case "seqs":
                return s.n_seq
            case "tokens":
                return s.n_tokens if self.ways == 1 else same(s.n_seq * np.ceil(s.n_new / self.ways), s.n_tokens)
            case "logits":
                return s.n_seq * s.n_logits
            case "asked":
                return _some(s.n_logits)
            case "busy":
                return _some(s.n_tokens)
            case "resumed" | "continued" | "starts":
                return self._with_past(s)
            case "memory":
                return s.n_seq * s.n_memory
            case "made":
                read = s.n_inputs * s.n_input_tokens
                return same(s.n_seq * np.minimum(s.n_memory, read), s.n_seq, s.n_memory, read)
            case "crossed":
                return s.n_tokens * s.n_memory
            case _:
                return self._sighted(s)

    def _with_past(self, s: Seqs) -> Num:
        """Those of sequences that have a past."""
        there = _some(s.n_past)
        if self.name == "continued":
            return s.n_tokens * there
        if self.name == "resumed" or (isinstance(s.n_shared, float) and s.n_shared == 0.0):
            return s.n_seq * there
        once = np.where(np.greater_equal(s.n_shared, s.n_past), np.minimum(s.n_seq, 1.0), s.n_seq)
        return same(once * there, s.n_seq, s.n_past, s.n_shared)

    def _sighted(self, s: Seqs) -> Num:
        """Those that depend on what a query sees."""
        match self.name:
            case "pairs":
                return s.n_seq * pairs(self.sight, n_new=s.n_new, n_past=s.n_past)
            case "square":
                return s.n_seq * rectangle(self.sight, n_new=s.n_new, n_past=s.n_past)
            case "seen":
                return s.n_seq * seen(self.sight, n_past=s.n_past)
            case "picked":
                each = float(self.sight.window or 1) - 1.0
                return same(s.n_seq * np.minimum(s.n_past, s.n_new * each), s.n_seq, s.n_new, s.n_past)
            case "agreed":
                visible = seen(self.sight, n_past=s.n_past)
                return _alike(s, visible, np.minimum(visible, s.n_shared))
            case _:
                visible = seen(self.sight, n_past=s.n_past)
                return _alike(s, visible, np.maximum(visible - (s.n_past - s.n_shared), 0.0))


@dataclass(frozen=True, slots=True)
class Entries(Key):
    """Of a compressed cache, one entry for every r tokens.  [1]

        seen     ⌊S/r⌋                    entries there before the pass; with a cap k, min(that, T·k): T queries read k each
        least    min(⌊S/r⌋, k)            what one query reads of them; those of a shared prefix once for all
        made     ⌊(S + T)/r⌋ − ⌊S/r⌋
        pairs    Σ_{i = S+1..S+T} min(⌊i/r⌋, k) = g(S + T) − g(S)
                 g(n) = h(min(n, k·r)) + k·max(n − k·r, 0),   h(n) = r·q·(q − 1)/2 + q·(n − q·r + 1),   q = ⌊n/r⌋
        square   T · ⌊(S + T)/r⌋

    Examples
    --------
    Entries of 4 tokens, a prompt of 9: queries 4 to 7 see one, 8 and 9 two.

    >>> Entries(4, what="pairs").over((Seqs(n_seq=1, n_new=9),))
    8.0
    >>> Entries(4, cap=1, what="pairs").over((Seqs(n_seq=1, n_new=9),))
    6.0
    """

    ratio: int
    cap: int | None = None
    what: Literal["seen", "least", "made", "pairs", "square"] = "pairs"
    stream: Stream = "text"

    def over(self, step: Step) -> Num:
        """Its value for a step: the parts added up."""
        return add_up(self.of(_streamed(part, self.stream)) for part in step)

    def of(self, s: Seqs) -> Num:
        """Its value for one part of a step."""
        after, before = s.n_past + s.n_new, s.n_past
        match self.what:
            case "seen":
                there = np.floor_divide(before, float(self.ratio))
                each = there if self.cap is None else np.minimum(there, s.n_new * self.cap)
            case "least":
                there = np.minimum(np.floor_divide(before, float(self.ratio)), float(self.cap or np.inf))
                return _alike(s, there, np.minimum(there, np.floor_divide(s.n_shared, float(self.ratio))))
            case "made":
                each = np.floor_divide(after, float(self.ratio)) - np.floor_divide(before, float(self.ratio))
            case "square":
                each = s.n_new * np.floor_divide(after, float(self.ratio))
            case "pairs":
                each = self._pairs(after) - self._pairs(before)
        return same(s.n_seq * each, s.n_seq, s.n_new, s.n_past)

    def _pairs(self, n: Num) -> Num:
        """g(n): pairs of the first n queries."""
        r = float(self.ratio)
        capped = n if self.cap is None else np.minimum(n, self.cap * r)
        q = np.floor_divide(capped, r)
        return r * q * (q - 1.0) * 0.5 + q * (capped - q * r + 1.0) + (n - capped) * float(self.cap or 0)


@dataclass(frozen=True, slots=True)
class Cheaper(Key):
    """Another sum, over those parts of a step for which one of two forms of latent attention has fewer FLOPs.

    Expanding makes keys and values of every cached token again, `per_past` for each of S; absorbing makes every pair dearer,
    by `per_pair`. A part is expanded where S·per_past < pairs·per_pair: a prompt is, a decode is not, a chunk may be either.
    """

    sum: Sum
    form: Literal["expanded", "absorbed"]
    sight: Sight
    per_past: float
    per_pair: float

    @property
    def stream(self) -> Stream:
        """That of the sum."""
        return self.sum.stream

    def over(self, step: Step) -> Num:
        """Its value for a step: the parts for which the form is the cheaper, added up."""
        return add_up(self._of(part) for part in step)

    def _of(self, part: Seqs) -> Num:
        s = _streamed(part, self.sum.stream)
        expanding = s.n_past * self.per_past
        absorbing = pairs(self.sight, n_new=s.n_new, n_past=s.n_past) * self.per_pair
        chosen = np.less(expanding, absorbing) if self.form == "expanded" else np.greater_equal(expanding, absorbing)
        value = self.sum.of(part) * chosen
        return same(value, value)


@dataclass(frozen=True, slots=True)
class Beyond(Key):
    """Another sum, over those parts of a step that are longer than a limit: S + T > limit."""

    sum: Sum
    limit: int

    @property
    def stream(self) -> Stream:
        """That of the sum."""
        return self.sum.stream

    def over(self, step: Step) -> Num:
        """Its value for a step: the parts beyond the limit, added up (`busy` is a yes or no, so at most 1)."""
        total = add_up(self._of(part) for part in step)
        return same(np.minimum(total, 1.0), total) if self.sum.name == "busy" else total

    def _of(self, part: Seqs) -> Num:
        s = _streamed(part, self.sum.stream)
        value = self.sum.of(part) * np.greater(s.n_past + s.n_new, float(self.limit))
        return same(value, value)


@dataclass(frozen=True, slots=True)
class Reached(Key):
    """1 for a pass in which another sum is at least a limit, else 0."""

    sum: Sum
    limit: int

    @property
    def stream(self) -> Stream:
        """That of the sum."""
        return self.sum.stream

    def over(self, step: Step) -> Num:
        """Its value for a step."""
        total = self.sum.over(step)
        return same(np.where(np.greater_equal(total, float(self.limit)), 1.0, 0.0), total)


class PassSums(Mapping[Hashable, Num]):
    """The sums of one step, each computed when first asked for."""

    def __init__(self, step: Step, *, n_ranks: int = 1) -> None:
        """Of the busiest of so many data-parallel ranks; what is of all of them has the stream "replica"."""
        self._replica = step
        self._step = step if n_ranks == 1 else tuple(part.of_rank(n_ranks) for part in step)
        self._known: dict[Hashable, Num] = {}

    def __getitem__(self, key: Hashable) -> Num:
        """Σ over the parts of the step."""
        if key not in self._known:
            if not isinstance(key, Key):
                raise KeyError(key)
            self._known[key] = key.over(self._replica if key.stream == "replica" else self._step)
        return self._known[key]

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


def _streamed(part: Seqs, stream: Stream) -> Seqs:
    """The sequences whose tokens a stream is made of."""
    found: Seqs = part if stream in ("text", "replica") else getattr(part, stream)
    return found


def _some(value: Num) -> Num:
    """1 where there is any, else 0."""
    return same(np.where(np.greater(value, 0.0), 1.0, 0.0), value)


def _alike(s: Seqs, visible: Num, shared: Num) -> Num:
    """Distinct cached things the sequences read: B · visible − (B − 1) · (those that all of them share)."""
    if isinstance(s.n_shared, float) and s.n_shared == 0.0:  # nothing shared: the same value, without the arithmetic
        return same(s.n_seq * visible, s.n_seq, s.n_past, s.n_new)
    others = np.maximum(s.n_seq - 1.0, 0.0)
    return same(s.n_seq * visible - others * shared, s.n_seq, s.n_past, s.n_shared)
