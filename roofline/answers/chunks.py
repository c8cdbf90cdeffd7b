"""Prompts in several passes: a token budget cuts them, a cached beginning shortens them.

A pass of an engine holds at most C tokens, C its budget (`Engine.budget_tokens`). Prompts wait in a row and every pass takes
the next C tokens of it: the end of one prompt, some whole ones, the beginning of another. All of it is the one count of a
`Step` of several `Seqs`; each pass reads the weights once more, and every chunk the cache of the chunks before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roofline.answers.inputs import IMAGE_SIZE, Request, request
from roofline.answers.phases import asked_for, how_of, on_stage, timed
from roofline.errors import SpecError, require, shown
from roofline.ledger import add_up
from roofline.num import Num, checked, common_shape, same
from roofline.specs.deployment import Deployment
from roofline.specs.model import Model
from roofline.timing.clock import Spent, Timing
from roofline.timing.laws import larger
from roofline.work.step import MAX_TOKENS, Seqs, Step

__all__ = ["Passes", "budget_tokens", "first_token", "hit_tokens", "is_cut"]

MAX_PASSES = 100_000
MAX_POINTS = 4_000_000


class Passes(Timing):
    """Passes one after another, as one time. Times and counts are sums over them; of stages, counts are the mean.

    Attributes
    ----------
    n_passes : Num
        How many [1].
    stages : tuple of Timing
        The passes on each stage, along a last axis.
    least : tuple of Timing
        One pass over every prompt less a shared beginning, and one that does not read it: no cut beats the floor of either.
    alone : bool or array of bool
        Where nothing is cut: the first of `least` is the answer.
    """

    def __init__(
        self, stages: tuple[Timing, ...], *, n_passes: Num, least: tuple[Timing, ...], alone: Any = False
    ) -> None:
        first = stages[0]
        rows = tuple(row for stage in stages for row in stage.rows)
        super().__init__(
            rows, first.parts, shape=first.shape, chip=first.chip, efficiency=first.efficiency, overlap=first.overlap,
            coordinates=least[0].coordinates,
        )  # fmt: skip
        self.stages, self.n_passes, self.least, self.alone = stages, n_passes, least, alone
        most = int(np.max(n_passes))
        self._runs = np.less(np.arange(most, dtype=np.float64), np.expand_dims(np.asarray(n_passes), -1))

    def _of_each(self, quantity: Num) -> NDArray[np.float64]:
        """A quantity of every pass; 0 of those a point does not have."""
        return np.where(self._runs, quantity, 0.0)

    def _added(self, quantity: Num) -> Num:
        total = np.sum(self._of_each(quantity), axis=-1)
        return total if np.ndim(total) else float(total)

    def _mean(self, quantities: Iterable[Num], alone: Num) -> Num:
        return self._or(alone, add_up(self._added(q) for q in quantities) / len(self.stages))

    def _or(self, alone: Num, cut: Num) -> Num:
        """Where nothing is cut, what one pass says."""
        return np.where(self.alone, alone, cut) if np.any(self.alone) else cut

    @property
    def leaves(self) -> tuple[Timing, ...]:
        """The passes on each stage, and those of the one pass where nothing is cut."""
        return (*self.stages, *(self.least[0].leaves if np.any(self.alone) else ()))

    def joined(self, seconds: Sequence[Num]) -> Num:
        """Σ t_j; through stages, when the last pass leaves the last one: f_ij = max(f_(i−1)j, f_i(j−1)) + t_ij  [s]."""
        n = len(self.stages)
        cut = self._added(seconds[0]) if n == 1 else self._makespan(seconds[:n])
        return self._or(self.least[0].joined(seconds[n:]), cut) if len(seconds) > n else cut

    def _makespan(self, seconds: Sequence[Num]) -> Num:
        times = [self._of_each(t) for t in seconds]
        free = [np.zeros(self._runs.shape[:-1]) for _ in times]  # when a stage is through with what it has
        for j in range(self._runs.shape[-1]):
            ready = free[0]
            for i, t in enumerate(times):
                ready = np.maximum(ready, free[i]) + t[..., j]
                free[i] = ready
        last = free[-1]
        return last if last.ndim else float(last)

    @cached_property
    def floor_s(self) -> Num:
        """That of all of it in one pass, in which nothing of a shared beginning is read before it is there [s]."""
        return reduce(larger, (t.floor_s for t in self.least))

    @cached_property
    def compulsory_bytes(self) -> Num:
        """Those of one pass [B]."""
        return reduce(larger, (t.compulsory_bytes for t in self.least))

    def total(self, quantity: str) -> Num:
        """Σ over passes and ops of a quantity of the ledger, on one chip."""
        return self._mean((t.total(quantity) for t in self.stages), self.least[0].total(quantity))

    def spent(self, on: Spent) -> Num:
        """Seconds of all passes on one chip."""
        return self._mean((t.spent(on) for t in self.stages), self.least[0].spent(on))

    @cached_property
    def rated_s(self) -> Num:
        """Σ F / π, as rated, of all passes on one chip [s]."""
        return self._mean((t.rated_s for t in self.stages), self.least[0].rated_s)

    @property
    def memory_bound_s(self) -> Num:
        """The part of all passes spent in ops that their traffic binds [s]."""
        return self._mean((t.memory_bound_s for t in self.stages), self.least[0].memory_bound_s)

    def by_op(self) -> tuple[dict[str, Any], ...]:
        """The rows of all passes added up, stage after stage; `m` is that of the largest pass."""
        return tuple(
            ({"stage": i} if len(self.stages) > 1 else {}) | self._row(row)
            for i, t in enumerate(self.stages)
            for row in t.by_op()
        )

    def _row(self, row: dict[str, Any]) -> dict[str, Any]:
        kept = ("repeat", "n_launch", "m", "intensity", "link_s")
        counts = {k: v for k, v in row.items() if k not in kept and isinstance(v, (float, np.ndarray))}
        numbers = {k: v for k, v in counts.items() if np.asarray(v).dtype.kind == "f"}
        added = {k: self._added(v) for k, v in numbers.items()}
        compute, memory = np.asarray(added["compute_s"]), np.asarray(added["memory_s"])
        bound = np.where(compute >= memory, "compute", "memory") if row["kind"] != "collective" else np.array("link")
        flops, streamed = added["executed_flops"], added["streamed_bytes"]
        most = np.max(self._of_each(row["m"]), axis=-1)
        return row | added | {
            "m": same(most, most) if np.ndim(most) else float(most),
            "link_s": self._added(row["link_s"]),
            "intensity": flops / np.maximum(streamed, 1e-300),
            "bound": bound if bound.ndim else str(bound),
        }  # fmt: skip

    def __repr__(self) -> str:
        return f"Passes({super().__repr__()})"


def budget_tokens(deployment: Deployment) -> float:
    """Tokens a pass of one data-parallel rank holds at most; no limit where the engine does not cut prompts [token]."""
    return deployment.engine.budget_tokens(deployment.visible_bytes, chip=deployment.hardware.id)


def is_cut(model: Model) -> bool:
    """Whether an engine cuts a model's prompts: not what is encoded both ways, nor beside a tower's memory."""
    return model.generates and not model.reads_a_source and not model.remembers


def hit_tokens(deployment: Deployment, *, n_new: Num, prefix_tokens: Num) -> Num:
    """What a prefix cache gives of a prompt: whole pages, and never the last token, whose logits are wanted.  [token]

    ⌊min(hit, T − 1) / page⌋ · page
    """
    page = deployment.engine.pages.tokens
    usable = np.minimum(prefix_tokens, np.maximum(n_new - 1.0, 0.0))
    return same(np.floor(usable / page) * page, prefix_tokens, n_new)


def first_token(
    deployment: Deployment,
    *,
    prompt_tokens: Any,
    batch: Any = 1,
    prefix_tokens: Any = 0,
    shared_tokens: Any = 0,
    images: Any = 0,
    image_size: tuple[int, int] = IMAGE_SIZE,
) -> Timing:
    """All passes until the last sequence of a batch has its first token; what `predict` calls TTFT.

        new tokens = shared − hit, once, and B · (P − max(hit, shared))
        passes     = ⌈new tokens of a rank / C⌉;   of a pipeline, what fits one pass goes through it as its microbatches

    Parameters
    ----------
    prompt_tokens, batch, images, image_size
        As in `prefill`.
    prefix_tokens : int or array
        Of each prompt, what an earlier request left in the cache [token]: whole pages of it skip the passes, and are still
        attended to.
    shared_tokens : int or array
        Of each prompt, a beginning that all have in common [token]: what is not cached of it is computed once, by every
        data-parallel rank.

    Returns
    -------
    Timing
        `Passes` where the prompts are cut or share a beginning, else what `prefill` gives.

    Notes
    -----
    Assumes that decodes wait (`mixed_pass` says what they would take), images are encoded in the first pass, and an
    encoder-decoder model is not cut.

    Examples
    --------
    Llama-3.1-8B, 32,768 tokens on an H100 in chunks of 2048: 16 passes read the weights 16 times and the cache of the chunks
    before, 61 % more bytes, and hide all of it behind the arithmetic.

    >>> from roofline.answers.phases import prefill
    >>> from roofline.specs.catalog import engine, hardware, model
    >>> chunky = engine("ideal").varied(batch_tokens=2048)
    >>> d = Deployment(model=model("llama-3.1-8b"), hardware=hardware("h100-sxm-80gb"), engine=chunky)
    >>> cut, whole = first_token(d, prompt_tokens=32768), prefill(d, prompt_tokens=32768)
    >>> cut.n_passes, round(cut.hbm_bytes / whole.hbm_bytes, 2), round(cut.seconds / whole.seconds, 2)
    (16.0, 1.61, 1.0)
    """
    require(deployment, Deployment, "first_token(deployment)")
    given = asked_for(prompt_tokens=prompt_tokens, batch=batch)
    asks = request(deployment.model, prompt_tokens=given["prompt_tokens"], images=images, image_size=image_size)
    hit, shared = (_beginning(deployment, asks, n, name) for n, name in (
        (prefix_tokens, "prefix_tokens"), (shared_tokens, "shared_tokens")))  # fmt: skip
    common_shape(**given, prefix_tokens=hit, shared_tokens=shared)
    hit = hit_tokens(deployment, n_new=asks.n_new, prefix_tokens=hit)
    shared = same(np.minimum(shared, np.maximum(asks.n_new - 1.0, 0.0)), shared, asks.n_new)
    return _passes(deployment, asks, given, hit, shared)


def _beginning(deployment: Deployment, asks: Request, given: Any, name: str) -> Num:
    tokens = checked(given, name=name, low=0.0, high=MAX_TOKENS)
    model = deployment.model
    if np.any(np.greater(tokens, 0.0)) and (not model.generates or model.reads_a_source):
        raise SpecError(f"{name}: {model.id} encodes its input as a whole, so no prefix of it is cached; leave it out")
    if np.any(np.greater(tokens, asks.n_new)):
        raise SpecError(f"{name}: expected at most the prompt, which it is part of, got {shown(given)}")
    return tokens


def _passes(d: Deployment, asks: Request, given: dict[str, Num], hit: Num, shared: Num) -> Timing:
    """One pass where one will do."""
    dp, most = float(d.plan.dp), float(d.plan.microbatches or d.plan.pp)
    n_seq = same(np.ceil(given["batch"] / dp), given["batch"])
    alike = np.where(n_seq > 1.0, shared, np.minimum(shared, hit))  # one alone shares nothing
    shared = same(alike, shared, hit, n_seq)
    row = _Row(
        asks.n_new, n_seq, np.minimum(dp, given["batch"]), given["batch"] - dp * (n_seq - 1.0), hit, shared,
        budget_tokens(d), same(np.minimum(most, n_seq), n_seq) if d.plan.pp > 1 else 1.0,
    )  # fmt: skip
    shares, how = np.greater(shared, hit), how_of(d)
    alone = np.logical_and(np.less_equal(row.n_tokens, row.budget), ~shares)
    steps = _in_one(asks, given, hit, shared)
    asked = given | ({"images": asks.n_images} if np.any(np.greater(asks.n_images, 0.0)) else {})
    in_one = partial(timed, d, how=how, asked=asked, repeats=False)
    if np.all(alone):
        return in_one(steps.rest)
    if not is_cut(d.model):
        return in_one((steps.once, steps.rest) if np.any(shares) else steps.rest)
    n_passes = row.n_passes
    _require_few(n_passes, row.budget, d.plan.pp)
    step = row.cut(asks)
    stages = tuple(on_stage(d, i, step, how, {}) for i in range(d.plan.pp))
    least = (in_one(steps.rest), *([in_one((steps.once, steps.apart))] if np.any(shares) else []))
    return Passes(stages, n_passes=n_passes, least=least, alone=alone)


def _require_few(n_passes: Num, budget: float, n_stages: int) -> None:
    most, points = float(np.max(n_passes)), float(np.size(n_passes))
    if most * n_stages > MAX_PASSES or most * points > MAX_POINTS:
        raise SpecError(
            f"a pass of at most {budget:,.0f} tokens makes {most:,.0f} passes of these prompts; at most {MAX_PASSES:,} "
            "are evaluated: use a larger budget (--chunk), or shorter prompts"
        )


@dataclass(frozen=True, slots=True)
class _InOne:
    """All new tokens as parts of one pass: a beginning that is shared and not cached, and the rest of every prompt; then
    the rest as if it read nothing that was there before, for the least that is read.
    """

    once: Seqs
    rest: Seqs
    apart: Seqs


def _in_one(asks: Request, given: dict[str, Num], hit: Num, shared: Num) -> _InOne:
    base, lead = same(np.maximum(hit, shared), hit, shared), same(np.maximum(shared - hit, 0.0), shared, hit)
    rest = partial(Seqs.of_checked, n_seq=given["batch"], n_new=asks.n_new - base, **asks.towers)
    once = Seqs.of_checked(n_seq=_some(lead), n_new=lead + 1.0 - _some(lead), n_past=hit, n_logits=0.0)
    return _InOne(once, rest(n_past=base, n_shared=shared), rest(n_past=base * 0.0))


def _some(value: Num) -> Num:
    return same(np.where(np.greater(value, 0.0), 1.0, 0.0), value)


@dataclass(frozen=True, slots=True)
class _Row:
    """The prompts of one rank in a row, and where passes of C tokens cut it.

    First what all begin with and is not cached yet; then of each sequence the rest, of `each` tokens after `base`. Of
    `n_ranks` with such a row `n_full` have `n_seq` sequences, the others one less. `n_micro`: pieces that a pipeline makes
    of what would fit one pass.
    """

    n_new: Num
    n_seq: Num
    n_ranks: Num
    n_full: Num
    hit: Num
    shared: Num
    budget: float
    n_micro: Num

    @property
    def lead(self) -> Num:
        return same(np.maximum(self.shared - self.hit, 0.0), self.shared, self.hit)

    @property
    def base(self) -> Num:
        return same(np.maximum(self.shared, self.hit), self.shared, self.hit)

    @property
    def n_tokens(self) -> Num:
        return self.lead + self.n_seq * (self.n_new - self.base)

    @property
    def at_once(self) -> Num:
        """Tokens of a pass: C, or what one of the microbatches has where all fit a pass [token]."""
        n_tokens = self.n_tokens
        one = np.ceil(n_tokens / self.n_micro)
        return same(np.where(n_tokens <= self.budget, one, self.budget), n_tokens, self.n_micro)

    @property
    def n_passes(self) -> Num:
        cut = np.ceil(self.n_tokens / self.at_once)
        return same(cut, self.n_tokens)

    def cut(self, asks: Request) -> Step:
        """Every pass, along a last axis: what is shared, the end of a prompt, whole ones, the beginning of another."""
        n_new, n_seq, hit, shared, lead, base, total, at_once = (
            np.expand_dims(np.asarray(x, dtype=np.float64), -1)
            for x in (self.n_new, self.n_seq, self.hit, self.shared, self.lead, self.base, self.n_tokens, self.at_once)
        )
        j = np.arange(float(np.max(self.n_passes)))
        start, stop = np.minimum(j * at_once, total), np.minimum((j + 1.0) * at_once, total)
        first = np.minimum(stop, lead) - np.minimum(start, lead)
        each = n_new - base
        begin, end = np.maximum(start - lead, 0.0), np.maximum(stop - lead, 0.0)
        through = np.floor(begin / each)
        done = begin - through * each  # of the prompt under way
        tail = np.where(done > 0.0, np.minimum(each - done, end - begin), 0.0)
        whole = np.floor((end - begin - tail) / each)
        head = end - begin - tail - whole * each
        after = through + (tail > 0.0) + whole  # prompts through, and those this pass has of the rest
        pieces = [
            _Piece(first, hit + np.minimum(start, lead), 0.0),
            _Piece(tail, base + done, np.where(done + tail >= each, 1.0, 0.0), last=through + 1.0 >= n_seq),
            _Piece(each * (whole > 0.0), base, 1.0, n_alike=whole, n_shared=shared, last=after >= n_seq),
            _Piece(head, base, 0.0, last=after + 1.0 >= n_seq),
        ]
        inputs = np.expand_dims(np.asarray(asks.n_inputs, dtype=np.float64), -1) * n_seq * (j == 0.0)
        tokens = np.expand_dims(np.asarray(asks.n_input_tokens, dtype=np.float64), -1)
        return tuple(self._seqs(pieces, inputs, tokens))

    def _seqs(self, pieces: list[_Piece], inputs: NDArray[np.float64], tokens: NDArray[np.float64]) -> Iterator[Seqs]:
        """The pieces of all ranks; what a tower reads goes with the first of a pass. None where there are no tokens."""
        ranks, full = (np.expand_dims(np.asarray(x, dtype=np.float64), -1) for x in (self.n_ranks, self.n_full))
        for piece in pieces:
            there = np.greater(piece.n_new, 0.0)
            n_alike, n_new = np.where(there, piece.n_alike, 0.0), np.where(there, piece.n_new, 1.0)
            seen = np.where(there, inputs, 0.0)
            inputs = inputs - seen
            yield Seqs.of_checked(
                n_seq=ranks * n_alike - np.where(piece.last & there, ranks - full, 0.0), n_new=n_new,
                n_past=np.where(there, piece.n_past, 0.0), n_logits=np.where(there, piece.n_logits, 0.0),
                n_shared=np.where(there, piece.n_shared, 0.0), n_inputs=seen / np.maximum(n_alike, 1.0),
                n_input_tokens=tokens,
            )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Piece:
    """So many alike sequences of a rank in each pass; `last`: whether the last of its row is among them."""

    n_new: Any
    n_past: Any
    n_logits: Any
    n_alike: Any = 1.0
    n_shared: Any = 0.0
    last: Any = False
