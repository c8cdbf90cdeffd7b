"""Conversations: what turns share, whom they wait for, and that as many come as were asked."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.errors import SpecError
from roofline.specs.sessions import Sessions
from roofline.specs.workload import Requests, reuse

CHAT = Sessions(turns=4, user_tokens=100, output_tokens=200, system_tokens=500, think_s=20.0, name="chat")


def sessions_of(drawn: Requests) -> list[list[int]]:
    """The turns of each session, in order."""
    assert drawn.follows is not None
    chains: list[list[int]] = []
    of: dict[int, list[int]] = {}
    for i, before in enumerate(drawn.follows.tolist()):
        if before < 0:
            chains.append([])
        of[i] = chains[-1] if before < 0 else of[before]
        of[i].append(i)
    return chains


def test_turns_of_fixed_lengths_are_as_by_hand() -> None:
    """40 system, 20 a turn, 30 an answer: prompts of 60, 110, 160 … tokens; blocks of 16: 3, 6, 10 whole ones, 2 shared.

    A session ends before a prompt and answer of more than 200: 160 + 30 is its third and last turn.
    """
    fixed = Sessions(turns=50, user_tokens=20, output_tokens=30, system_tokens=40, user_cv=0, output_cv=0,
                     think_s=3.0, max_context_tokens=200)  # fmt: skip
    drawn = fixed.draw(400, rate_per_s=1.0, seed=3)
    assert drawn.block_ids is not None
    assert drawn.think_s is not None
    chains = sessions_of(drawn)
    assert max(map(len, chains)) == 3
    for chain in chains:
        ids = [drawn.block_ids[i] for i in chain]
        assert drawn.prompt_tokens[chain].tolist() == [60, 110, 160][: len(chain)]
        assert [len(own) for own in ids] == [3, 6, 10][: len(chain)]
        assert all(own[:2] == (0, 1) for own in ids)
        assert all(last[: len(own)] == own for own, last in pairwise(ids))
        gaps = np.diff(drawn.arrival_s[chain])
        assert gaps == pytest.approx(drawn.think_s[chain[1:]], abs=1e-9)
        assert drawn.think_s[chain[0]] == 0.0
    own = [set(drawn.block_ids[chain[-1]][2:]) for chain in chains]
    assert sum(map(len, own)) == len(set().union(*own))  # no block past the system prompt is of two sessions
    assert drawn.think_s[drawn.think_s > 0.0].mean() == pytest.approx(3.0, rel=0.2)
    assert (drawn.output_tokens == 30).all()


def test_means_are_those_of_geometric_sessions() -> None:
    """The place of a turn is geometric too, of mean `turns`: 500 + 4 · 100 + 3 · 200 = 1500 tokens of a prompt."""
    assert CHAT.mean_prompt_tokens == pytest.approx(1500.0, rel=0.01)
    assert CHAT.mean_output_tokens == pytest.approx(200.0, rel=0.01)
    assert CHAT.mean_turns == pytest.approx(4.0, rel=0.01)
    found = CHAT.summary()
    assert (found.prompt_mean, found.output_mean) == (CHAT.mean_prompt_tokens, CHAT.mean_output_tokens)
    assert found.output_scv == pytest.approx(1.0, rel=0.05)
    assert found.rate_per_s is None
    once = Sessions(turns=1, user_tokens=100, output_tokens=10, user_cv=0.5)
    assert once.mean_turns == 1.0
    assert once.summary().reuse == 0.0
    assert set(np.asarray(once.draw(100, rate_per_s=1.0).follows).tolist()) == {-1}


def test_turns_come_at_the_rate_from_the_start() -> None:
    """At 10 a second of turns, 20 s apart, 4 a session: or the first seconds would have a quarter."""
    times = [CHAT.draw(4000, rate_per_s=10.0, seed=seed).arrival_s for seed in range(5)]
    assert np.mean([len(t) / t[-1] for t in times]) == pytest.approx(10.0, rel=0.03)
    assert np.mean([(t < 20.0).sum() / 20.0 for t in times]) == pytest.approx(10.0, rel=0.1)
    many = Sessions(turns=900, user_tokens=1, output_tokens=1, think_s=1e8).draw(50, rate_per_s=1e3)  # 10¹¹ think of it
    assert len(many) / many.arrival_s[-1] == pytest.approx(1e3, rel=0.5)


def test_reuse_is_what_an_endless_cache_of_prompts_and_answers_would_hold() -> None:
    """All alike, two turns at most: of 3 + 6 blocks of 16 in a session 2 were held of the first and ⌊89 / 16⌋ = 5 then."""
    drawn = CHAT.draw(12_000, rate_per_s=5.0, seed=1)  # over forty times as long as a session lasts
    assert drawn.follows is not None
    ends = drawn.prompt_tokens + drawn.output_tokens - 1
    known = [0 if before < 0 else int(ends[before]) // 16 for before in drawn.follows.tolist()]
    found = CHAT.summary().reuse
    assert found is not None
    assert reuse(drawn.block_ids, known) == pytest.approx(found, abs=0.01)
    assert (reuse(drawn.block_ids) or 1.0) < found - 0.05  # answers left out
    two = Sessions(turns=1000, user_tokens=20, output_tokens=30, system_tokens=40, user_cv=0, output_cv=0,
                   max_context_tokens=140)  # fmt: skip
    assert two.summary().reuse == pytest.approx(7.0 / 9.0, rel=0.01)
    assert Sessions(turns=1, user_tokens=1, output_tokens=1, user_cv=0).summary().reuse is None  # not a whole block


@given(
    st.floats(1.0, 20.0), st.integers(0, 100), st.floats(1.0, 80.0), st.floats(1.0, 80.0), st.floats(0.0, 3.0),
    st.floats(0.0, 50.0), st.integers(1, 40), st.integers(1, 120), st.integers(0, 9),
)  # fmt: skip
def test_every_turn_begins_with_all_that_was_said(
    turns: float, system: int, user: float, output: float, cv: float, think_s: float, block: int, n: int, seed: int
) -> None:
    chat = Sessions(turns=turns, user_tokens=user, output_tokens=output, system_tokens=system, user_cv=cv, output_cv=cv,
                    think_s=think_s, max_context_tokens=300, block_tokens=block)  # fmt: skip
    drawn = chat.draw(n, rate_per_s=2.0, seed=seed)
    assert len(drawn) == n
    assert drawn.block_ids is not None
    assert drawn.block_tokens == block
    assert drawn.prompt_tokens.min() > system
    assert drawn.output_tokens.min() >= 1
    assert (drawn.prompt_tokens + drawn.output_tokens).max() <= 300
    assert [len(ids) for ids in drawn.block_ids] == (drawn.prompt_tokens // block).tolist()
    for chain in sessions_of(drawn):
        for a, b in pairwise(chain):
            said = int(drawn.prompt_tokens[a] + drawn.output_tokens[a])
            assert drawn.prompt_tokens[b] > said
            assert len(drawn.block_ids[b]) >= said // block
            assert drawn.block_ids[b][: len(drawn.block_ids[a])] == drawn.block_ids[a]
    again = chat.draw(n, rate_per_s=2.0, seed=seed)
    assert again.block_ids == drawn.block_ids
    assert again.arrival_s.tolist() == drawn.arrival_s.tolist()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"turns": 0.5}, r"Sessions\(turns\): expected a number from 1 to 1,000, got 0.5"),
        ({"turns": float("nan")}, "got nan"),
        ({"user_tokens": 0.0}, r"Sessions\(user_tokens\): expected a number from 1"),
        ({"output_tokens": "many"}, "got 'many'"),
        ({"user_cv": -1.0}, r"Sessions\(user_cv\): expected a number from 0"),
        ({"think_s": float("inf")}, r"Sessions\(think_s\): expected a number from 0"),
        ({"system_tokens": 1.5}, r"Sessions\(system_tokens\): expected a whole number from 0"),
        ({"system_tokens": 999, "max_context_tokens": 1000}, "from 0 to 998, got 999"),
        ({"max_context_tokens": 1}, r"Sessions\(max_context_tokens\): expected a whole number from 2"),
        ({"block_tokens": 0}, r"Sessions\(block_tokens\): expected a whole number of at least 1, got 0"),
    ],
)
def test_sessions_that_make_no_sense_are_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError, match=said):
        Sessions(**{"turns": 2, "user_tokens": 10, "output_tokens": 10, **given})


def test_a_draw_of_nothing_or_at_no_rate_is_refused() -> None:
    with pytest.raises(SpecError, match=r"Sessions.draw\(n\): expected a whole number of at least 1, got 0"):
        CHAT.draw(0, rate_per_s=1.0)
    with pytest.raises(SpecError, match=r"Sessions.draw\(rate_per_s\): expected a number above 0, got 0"):
        CHAT.draw(1, rate_per_s=0.0)
