"""Conversations: a turn brings all that was said before, and comes some time after the answer it goes on from.

    prompt of turn k  =  system + Σ user (1 … k) + Σ answers (1 … k − 1)

The system prompt is shared by all, the rest is a conversation's own. A request says whose answer it waits for, so that a
slow server is asked later, and which blocks its prompt begins with.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from roofline.errors import SpecError, shown
from roofline.specs.arrivals import positive
from roofline.specs.workload import LONGEST, Blocks, Requests, WorkloadSummary, at_least_one, lengths

__all__ = ["Sessions"]

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

_SAMPLE = 200_000  # turns that means are taken of


class _Turns(NamedTuple):
    """Turns of whole sessions, one session after another: the place in its session; the time thought before, and in all."""

    session: Counts
    ordinal: Counts
    prompt: Counts
    output: Counts
    think_s: Floats
    since_s: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Sessions:
    """A workload of conversations.

    Attributes
    ----------
    turns : float
        Mean number of turns of a session, at least 1; the number is geometric: after each, as likely as ever the last [1].
    user_tokens, output_tokens : float
        Mean tokens that a turn brings, and of its answer; lognormal, in whole tokens of at least 1 [token].
    system_tokens : int
        That all sessions begin with [token].
    user_cv, output_cv : float
        Their coefficients of variation; 0: all alike [1].
    think_s : float
        Mean time from an answer's last token to the next turn; exponential [s].
    max_context_tokens : int
        A session ends before a turn whose prompt and answer would be longer; a first turn is cut to it [token].
    block_tokens : int
        Tokens of a block [token].

    Notes
    -----
    Assumes that a session begins whenever it likes, however busy the server is (Poisson).

    Examples
    --------
    >>> chat = Sessions(turns=2, system_tokens=32, user_tokens=16, output_tokens=48, user_cv=0, output_cv=0, think_s=5)
    >>> sorted(set(chat.draw(100, rate_per_s=2.0).prompt_tokens.tolist()))[:3]  # 32 + 16, and 48 + 16 with every turn
    [48, 112, 176]
    """

    turns: float
    user_tokens: float
    output_tokens: float
    system_tokens: int = 0
    user_cv: float = 1.0
    output_cv: float = 1.0
    think_s: float = 10.0
    max_context_tokens: int = 131072
    block_tokens: int = 16
    name: str = ""

    def __post_init__(self) -> None:
        for name, low, high in (
            ("turns", 1.0, 1000.0), ("user_tokens", 1.0, LONGEST), ("output_tokens", 1.0, LONGEST),
            ("user_cv", 0.0, 100.0), ("output_cv", 0.0, 100.0), ("think_s", 0.0, 1e9),
        ):  # fmt: skip
            _between(getattr(self, name), low, high, f"Sessions({name})")
        at_least_one(self.block_tokens, "Sessions(block_tokens)")
        _between(self.max_context_tokens, 2, LONGEST, "Sessions(max_context_tokens)", whole=True)
        _between(self.system_tokens, 0, self.max_context_tokens - 2, "Sessions(system_tokens)", whole=True)

    @property
    def mean_prompt_tokens(self) -> float:
        """Of a turn: system + turns · user + (turns − 1) · output, where no context is too long  [token]."""
        return float(_sample(self).prompt.mean())

    @property
    def mean_output_tokens(self) -> float:
        """Of a turn  [token]."""
        return float(_sample(self).output.mean())

    @property
    def mean_turns(self) -> float:
        """Of a session, where long ones end early  [1]."""
        return len(_sample(self).session) / float(_sample(self).session[-1] + 1)

    def draw(self, n: int, *, rate_per_s: float, seed: int = 0) -> Requests:
        """The first n turns at a mean rate of turns, in the order they would come if answers took no time.

        Those who would be in a session at the start begin one with their next turn: the rate is there at once (a little more
        where long contexts end sessions), while prompts grow until the first sessions have come to their ends.
        """
        positive(rate_per_s, "Sessions.draw(rate_per_s)")
        at_least_one(n, "Sessions.draw(n)")
        rng = np.random.default_rng(seed)
        sessions_per_s = rate_per_s / self.mean_turns
        thinking = int(rng.poisson(min((rate_per_s - sessions_per_s) * self.think_s, 1e15)))
        # The first of so many exponential times, in order: a gap is that of those who are left.
        soon = np.cumsum(rng.exponential(self.think_s / (thinking - np.arange(min(thinking, n)))))
        new = np.cumsum(rng.exponential(1.0 / sessions_per_s, n))
        starts = np.sort(np.concatenate([soon, new]))[:n]  # as each begins with a turn, none of the first n is later
        return self._requests(self._turns(n, rng), starts, n)

    def summary(self) -> WorkloadSummary:
        """Means, percentiles and how they vary, of a sample; reuse, answers being kept with the prompts."""
        t = _sample(self)
        held = np.full(len(t.session), self.system_tokens // self.block_tokens)
        later = np.flatnonzero(t.ordinal)
        held[later] = (t.prompt[later - 1] + t.output[later - 1] - 1) // self.block_tokens  # all but the last token
        blocks = int((t.prompt // self.block_tokens).sum())
        return WorkloadSummary(**lengths(t.prompt, t.output), reuse=float(held.sum()) / blocks if blocks else None)

    def _turns(self, n_sessions: int, rng: np.random.Generator) -> _Turns:
        """The turns of some sessions."""
        counts = rng.geometric(1.0 / self.turns, n_sessions)
        session = np.repeat(np.arange(n_sessions), counts)
        head = np.cumsum(counts) - counts
        ordinal = np.arange(len(session)) - head[session]
        room = self.max_context_tokens - self.system_tokens
        user = _lognormal(self.user_tokens, self.user_cv, room - 1, len(session), rng)
        output = _lognormal(self.output_tokens, self.output_cv, room, len(session), rng)
        output = np.where(ordinal == 0, np.minimum(output, room - user), output)
        think = np.where(ordinal == 0, 0.0, rng.exponential(self.think_s, len(session)))
        context = self.system_tokens + _running(user + output, head, session)
        since = _running(think, head, session)
        kept = context <= self.max_context_tokens  # the first turns of each session
        prompt = context - output
        return _Turns(session[kept], ordinal[kept], prompt[kept], output[kept], think[kept], since[kept])

    def _requests(self, t: _Turns, start_s: Floats, n: int) -> Requests:
        """The first n turns of sessions that start when they do."""
        arrival = start_s[t.session] + t.since_s
        order = np.argsort(arrival, kind="stable")[:n]
        place = np.full(len(arrival), -1)
        place[order] = np.arange(len(order))
        return Requests(
            arrival_s=arrival[order], prompt_tokens=t.prompt[order], output_tokens=t.output[order],
            block_ids=self._blocks(t.session[order], t.prompt[order] // self.block_tokens), block_tokens=self.block_tokens,
            follows=np.where(t.ordinal[order] > 0, place[order - 1], -1), think_s=t.think_s[order],
        )  # fmt: skip

    def _blocks(self, session: Counts, n_blocks: Counts) -> Blocks:
        """Ids of whole blocks: from 0 those of the system prompt, then those of one session after another."""
        shared = self.system_tokens // self.block_tokens
        own = np.zeros(int(session.max()) + 1, dtype=np.int64)
        np.maximum.at(own, session, n_blocks - shared)
        first = shared + np.cumsum(own) - own
        begin = tuple(range(shared))
        ids = {s: (*begin, *range(int(first[s]), int(first[s] + own[s]))) for s in np.unique(session).tolist()}
        return tuple(ids[s][:n] for s, n in zip(session.tolist(), n_blocks.tolist(), strict=True))


@lru_cache(maxsize=16)
def _sample(sessions: Sessions) -> _Turns:
    return sessions._turns(math.ceil(_SAMPLE / sessions.turns), np.random.default_rng(0))


def _lognormal(mean: float, cv: float, most: int, n: int, rng: np.random.Generator) -> Counts:
    """Whole tokens, ln X ~ N(ln mean − σ²/2, σ²), σ² = ln(1 + cv²), cut to 1 … most."""
    variance = math.log1p(cv * cv)
    drawn = np.exp(math.log(mean) - variance / 2.0 + math.sqrt(variance) * rng.standard_normal(n))
    return np.clip(np.rint(drawn), 1, most).astype(np.int64)


def _running(values: NDArray[Any], head: Counts, session: Counts) -> NDArray[Any]:
    """Sums from the head of each session to each of its turns."""
    total = np.cumsum(values)
    return np.asarray(total - (total[head] - values[head])[session])


def _between(value: object, low: float, high: float, where: str, *, whole: bool = False) -> None:
    """Refuse what is no number between two, both among them."""
    kind = int if whole else (int, float)
    if not isinstance(value, kind) or isinstance(value, bool) or not low <= value <= high:
        raise SpecError(f"{where}: expected a {'whole ' * whole}number from {low:g} to {high:,.0f}, got {shown(value)}")
