"""What a pass is asked to do: sequences, new tokens, tokens already cached.

Prefill and decode are one thing at two shapes. A prompt is `Seqs(n_seq=B, n_new=T)`, a decode step
`Seqs(n_seq=B, n_new=1, n_past=S)`; a chunk, a prefix hit and a verification of drafts are other numbers; a mixed batch
is a tuple of two.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from roofline.errors import SpecError, shown
from roofline.ledger import Linear, add_up
from roofline.num import Num, checked, common_shape

__all__ = ["PassSums", "Seqs", "Step", "Sum", "as_step", "visible_pairs", "visible_past"]

MAX_TOKENS = 1e12


@dataclass(frozen=True, slots=True, kw_only=True)
class Seqs:
    """`n_seq` alike sequences in one forward pass. Every field broadcasts; NaN, negatives and absurd sizes are refused.

    Attributes
    ----------
    n_seq : Num
        B, sequences [1].
    n_new : Num
        T, new tokens of each this pass [token]: the whole prompt, 1, a chunk, drafts + 1.
    n_past : Num
        S, tokens of each already in the cache [token].
    n_shared : Num
        Of n_past, those all n_seq share and the cache holds once [token].
    n_logits : Num
        Positions of each whose logits are wanted [token]: 1; 0 for a chunk that is not the last; k + 1 to verify k drafts.

    Examples
    --------
    >>> Seqs(n_seq=8, n_new=1, n_past=4096).n_past
    4096.0
    """

    n_seq: Num
    n_new: Num
    n_past: Num = 0.0
    n_shared: Num = 0.0
    n_logits: Num = 1.0

    def __post_init__(self) -> None:
        """Turn every field into float64, within its range."""
        for name, low, above in _RANGES:
            value = checked(getattr(self, name), name=name, low=low, high=MAX_TOKENS, above=above)
            object.__setattr__(self, name, _own(value))
        _at_most(
            self.shape,
            self.n_shared,
            self.n_past,
            "n_shared: expected at most n_past, which a shared prefix is part of",
        )
        _at_most(self.shape, self.n_logits, self.n_new, "n_logits: expected at most n_new, whose tokens they come from")

    @classmethod
    def of_checked(cls, *, n_seq: Num, n_new: Num, n_past: Num) -> Seqs:
        """From numbers whose range and shapes were held already, under the names their asker used; arrays are copied."""
        fields = {"n_seq": n_seq, "n_new": n_new, "n_past": n_past, "n_shared": 0.0, "n_logits": 1.0}
        seqs = object.__new__(cls)
        for name, value in fields.items():
            object.__setattr__(seqs, name, _own(value))
        return seqs

    @property
    def n_tokens(self) -> Num:
        """B·T, tokens of the pass."""
        return self.n_seq * self.n_new

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the grid the fields broadcast to."""
        return common_shape(**{name: getattr(self, name) for name, _, _ in _RANGES})

    def flat(self) -> Seqs:
        """The same grid along one axis; a scalar field stays a scalar."""
        shape = self.shape
        return self._with(lambda v: np.broadcast_to(v, shape).reshape(-1))

    def part(self, where: slice) -> Seqs:
        """A piece of a flat grid."""
        return self._with(lambda v: v[where])

    def _with(self, change: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> Seqs:
        """A copy with its array fields changed; they were checked when this one was made."""
        copy = object.__new__(Seqs)
        for name, _, _ in _RANGES:
            value = getattr(self, name)
            object.__setattr__(copy, name, change(value) if isinstance(value, np.ndarray) and value.ndim else value)
        return copy


_RANGES = (
    ("n_seq", 0.0, True),
    ("n_new", 0.0, True),
    ("n_past", 0.0, False),
    ("n_shared", 0.0, False),
    ("n_logits", 0.0, False),
)

Step: TypeAlias = tuple[Seqs, ...]


def as_step(step: Seqs | Step) -> Step:
    """A step from one `Seqs` or several.

    >>> len(as_step(Seqs(n_seq=1, n_new=1)))
    1
    """
    parts: Step = (step,) if isinstance(step, Seqs) else tuple(step) if isinstance(step, (tuple, list)) else ()
    if not parts or not all(isinstance(p, Seqs) for p in parts):
        raise SpecError(f"step: expected one Seqs or a tuple of them, got {shown(step)}")
    if len(parts) > 1:
        common_shape(**{f"part {i}": np.empty(p.shape) for i, p in enumerate(parts)})
    return parts


def _own(value: Num) -> Num:
    """A copy of an array: its caller may go on to reuse it, and answers are worked out when asked for."""
    return value.copy() if isinstance(value, np.ndarray) else value


def _at_most(shape: tuple[int, ...], value: Num, limit: Num, message: str) -> None:
    within = np.broadcast_to(np.less_equal(value, limit), shape)
    if not within.all():
        where = int(np.argmin(within))
        got, of = (float(np.broadcast_to(x, shape).flat[where]) for x in (value, limit))
        raise SpecError(f"{message}, got {got:g} of {of:g}")


def visible_pairs(*, n_new: Num, n_past: Num, window: int | None) -> Num:
    """(query, key) pairs one causal sequence forms in a pass.  [1]

        Σ_{i=1..T} min(S + i, W)  =  u·S + u·(u + 1)/2 + (T − u)·W,    u = clip(W − S, 0, T)

    u is how many of the T queries still see everything before them; without a window u = T.

    Parameters
    ----------
    n_new, n_past : Num
        T and S [token].
    window : int or None
        W [token]; a query sees itself and the W − 1 tokens before it.

    Returns
    -------
    Num
        Shape: broadcast of n_new, n_past.

    Examples
    --------
    A prompt of 4: 1 + 2 + 3 + 4. With a window of 2: 1 + 2 + 2 + 2. One token after 4: 5.

    >>> visible_pairs(n_new=4.0, n_past=0.0, window=None), visible_pairs(n_new=4.0, n_past=0.0, window=2)
    (10.0, 7.0)
    >>> visible_pairs(n_new=1.0, n_past=4.0, window=None)
    5.0
    """
    if window is None:
        return n_new * n_past + n_new * (n_new + 1.0) * 0.5
    u = np.clip(window - n_past, 0.0, n_new)
    return _same(u * n_past + u * (u + 1.0) * 0.5 + (n_new - u) * float(window), n_new, n_past)


def visible_past(*, n_past: Num, window: int | None) -> Num:
    """Cached tokens that at least one query of the pass sees: min(S, W − 1), or S without a window.  [token]

    The first query sees the furthest back: itself and the W − 1 before it.

    >>> visible_past(n_past=100.0, window=64), visible_past(n_past=100.0, window=None)
    (63.0, 100.0)
    """
    if window is None:
        return n_past
    return _same(np.minimum(n_past, window - 1.0), n_past)


@dataclass(frozen=True, slots=True)
class Sum:
    """One of the sums over a pass that every count is linear in, by name; for attention, under one window.

    | name    | Σ over the sequences of the pass                                   | unit  |
    |---------|--------------------------------------------------------------------|-------|
    | seqs    | 1                                                                  | 1     |
    | tokens  | T                                                                  | token |
    | logits  | positions whose logits are wanted                                  | token |
    | asked   | 1 for the pass if any logits are wanted at all, else 0             | 1     |
    | pairs   | visible (query, key) pairs                                         | 1     |
    | square  | T · (seen + T), the pairs of a full rectangle                      | 1     |
    | seen    | min(S, W − 1), cached tokens that some query sees                  | token |
    | held    | the same with a shared prefix once for all: what memory must give  | token |
    """

    name: Literal["seqs", "tokens", "logits", "asked", "pairs", "square", "seen", "held"]
    window: int | None = None

    @property
    def linear(self) -> Linear:
        """The sum itself, as a form."""
        return Linear.of(self)

    def over(self, step: Step) -> Num:
        """Its value for a step: the parts added up (`asked` is a yes or no, so at most 1)."""
        total = add_up(self.of(part) for part in step)
        if self.name == "asked" and len(step) > 1:
            return _same(np.minimum(total, 1.0), *(part.n_logits for part in step))
        return total

    def of(self, s: Seqs) -> Num:
        """Its value for one part of a step."""
        match self.name:
            case "seqs":
                return s.n_seq
            case "tokens":
                return s.n_tokens
            case "logits":
                return s.n_seq * s.n_logits
            case "asked":
                return _same(np.where(np.greater(s.n_logits, 0.0), 1.0, 0.0), s.n_logits)
            case "pairs":
                return s.n_seq * visible_pairs(n_new=s.n_new, n_past=s.n_past, window=self.window)
            case "square":
                return s.n_tokens * (visible_past(n_past=s.n_past, window=self.window) + s.n_new)
            case "seen":
                return s.n_seq * visible_past(n_past=s.n_past, window=self.window)
            case "held":
                return _held(s, visible_past(n_past=s.n_past, window=self.window))


class PassSums(Mapping[Hashable, Num]):
    """The sums of one step, each computed when first asked for."""

    def __init__(self, step: Step) -> None:
        self._step = step
        self._known: dict[Hashable, Num] = {}

    def __getitem__(self, key: Hashable) -> Num:
        """Σ over the parts of the step."""
        if key not in self._known:
            if not isinstance(key, Sum):
                raise KeyError(key)
            self._known[key] = key.over(self._step)
        return self._known[key]

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


def _held(s: Seqs, seen: Num) -> Num:
    """Distinct cached tokens the pass sees: B · seen − (B − 1) · (those of the shared prefix that are seen)."""
    if isinstance(s.n_shared, float) and s.n_shared == 0.0:  # nothing shared: the same value, without the arithmetic
        return s.n_seq * seen
    shared_seen = np.maximum(seen - (s.n_past - s.n_shared), 0.0)
    return _same(s.n_seq * seen - (s.n_seq - 1.0) * shared_seen, s.n_seq, s.n_past, s.n_shared)


def _same(value: Num, *inputs: Num) -> Num:
    """A plain float where every input was one (numpy returns its own scalar type)."""
    return value if any(isinstance(x, np.ndarray) for x in inputs) else float(value)
