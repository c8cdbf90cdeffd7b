"""What a pass is asked to do: sequences, new tokens, tokens already cached.

Prefill and decode are one thing at two shapes. A prompt is `Seqs(n_seq=B, n_new=T)`, a decode step
`Seqs(n_seq=B, n_new=1, n_past=S)`; a chunk, a prefix hit and a verification of drafts are other numbers; a mixed batch
is a tuple of two. What a tower reads (source text, audio, images) are further numbers of the same sequences.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from roofline.errors import SpecError, shown
from roofline.num import Num, checked, common_shape, same

__all__ = ["MAX_TOKENS", "Seqs", "Step", "as_step"]

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
    n_inputs, n_input_tokens : Num
        What a tower reads this pass: inputs of each sequence (images, a source text, a clip) [1]; tokens of each [token].
    n_memory : Num
        M, tower outputs that every new token cross-attends to [token]; those of this pass's inputs are among them.

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
    n_inputs: Num = 0.0
    n_input_tokens: Num = 0.0
    n_memory: Num = 0.0

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
    def of_checked(cls, *, n_seq: Num, n_new: Num, n_past: Num, **others: Num) -> Seqs:
        """From numbers whose range and shapes were held already, under the names their asker used; arrays are copied."""
        return cls._of({"n_seq": n_seq, "n_new": n_new, "n_past": n_past, "n_logits": 1.0} | others)

    @classmethod
    def _of(cls, given: Mapping[str, Num]) -> Seqs:
        seqs = object.__new__(cls)
        for name, _, _ in _RANGES:
            object.__setattr__(seqs, name, _own(given.get(name, 0.0)))
        return seqs

    def of_rank(self, n_ranks: Num) -> Seqs:
        """Those that the busiest of so many data-parallel ranks serves, or one of so many microbatches: ⌈B/n⌉ sequences."""
        given = {name: getattr(self, name) for name, _, _ in _RANGES}
        return self._of(given | {"n_seq": same(np.ceil(self.n_seq / n_ranks), self.n_seq, n_ranks)})

    @property
    def one_token(self) -> Seqs:
        """A new token of one of them, and nothing of a tower: what any cut of the pass must still do in one go."""
        one = {
            "n_new": same(self.n_new * 0.0 + 1.0, self.n_new),
            "n_seq": same(np.minimum(self.n_seq, 1.0), self.n_seq),
        }
        return self._of(
            one
            | {
                "n_past": self.n_past,
                "n_memory": self.n_memory,
                "n_logits": same(np.minimum(self.n_logits, 1.0), self.n_logits),
            }
        )

    @property
    def inputs(self) -> Seqs:
        """What a tower sees of them: each input is a sequence of its own, all of it new."""
        return self._of({"n_seq": self.n_seq * self.n_inputs, "n_new": self.n_input_tokens})

    @property
    def asked(self) -> Seqs:
        """Those of them that any logits are wanted of."""
        return self._those_with(self.n_logits)

    @property
    def informed(self) -> Seqs:
        """Those of them that have something to cross-attend to."""
        return self._those_with(self.n_memory)

    def _those_with(self, value: Num) -> Seqs:
        given = {name: getattr(self, name) for name, _, _ in _RANGES}
        return self._of(given | {"n_seq": same(self.n_seq * np.greater(value, 0.0), self.n_seq, value)})

    @property
    def wanted(self) -> Seqs:
        """Only the positions whose logits are wanted, the last of each; all before them count as past."""
        return self._of({
            "n_seq": self._those_with(self.n_logits).n_seq, "n_new": self.n_logits,
            "n_past": self.n_past + self.n_new - self.n_logits, "n_logits": self.n_logits, "n_memory": self.n_memory,
        })  # fmt: skip

    @property
    def n_tokens(self) -> Num:
        """B·T, tokens of the pass."""
        return self.n_seq * self.n_new

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the grid the fields broadcast to."""
        return common_shape(**{name: getattr(self, name) for name, _, _ in _RANGES})

    def flat(self, shape: tuple[int, ...]) -> Seqs:
        """The same grid, as part of one of that shape, along one axis; a scalar field stays a scalar."""
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
    ("n_inputs", 0.0, False),
    ("n_input_tokens", 0.0, False),
    ("n_memory", 0.0, False),
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
