"""Pairs, reads, entries, experts: every closed form against a loop that knows only what a query sees."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import roofline as rl
from roofline.work.routing import Touched
from roofline.work.sight import ALL, Sight, cached, pairs, seen
from roofline.work.sums import Cheaper, Entries, Sum

# What a query sees, position by position


def sees(sight: Sight, query: int, key: int) -> bool:
    """Whether the token at position `query` attends to the one at `key` (both from 0)."""
    w = sight.window
    if sight.causal and key > query:
        return False
    if w is None:
        return True
    if sight.chunked:
        return query // w == key // w
    return query - key < w if sight.causal else abs(query - key) <= w // 2


def looked_at(sight: Sight, n_new: int, n_past: int) -> list[tuple[int, int]]:
    """(query, key) of every pair a pass forms: queries are the new tokens, keys all there are."""
    n = n_past + n_new
    return [(q, k) for q in range(n_past, n) for k in range(n) if sees(sight, q, k)]


causal_sights = st.one_of(
    st.just(ALL),
    st.integers(1, 40).map(Sight),
    st.integers(1, 40).map(lambda w: Sight(w, chunked=True)),
)
encoder_sights = st.one_of(
    st.just(Sight(causal=False)),
    st.integers(1, 60).map(lambda w: Sight(w, causal=False)),
    st.integers(1, 60).map(lambda w: Sight(w, chunked=True, causal=False)),
)


@given(causal_sights, st.integers(1, 50), st.integers(0, 90))
@example(Sight(4, chunked=True), 1, 8)  # a chunk begins with this token
@example(Sight(4, chunked=True), 9, 3)  # a pass over three chunks
@example(Sight(1), 3, 5)
def test_causal_pairs_are_those_a_loop_finds(sight: Sight, n_new: int, n_past: int) -> None:
    loop = len(looked_at(sight, n_new, n_past))
    assert pairs(sight, n_new=float(n_new), n_past=float(n_past)) == loop
    assert Sum("pairs", sight).over((rl.Seqs(n_seq=3, n_new=n_new, n_past=n_past),)) == 3 * loop


@given(encoder_sights, st.integers(1, 70))
@example(Sight(3, causal=False), 1)  # a band wider than the sequence
@example(Sight(1, causal=False), 9)  # the token alone
def test_pairs_of_an_encoder_are_those_a_loop_finds(sight: Sight, n_new: int) -> None:
    """All its tokens are new: a band of ⌊W/2⌋ to either side, blocks, or everything."""
    assert pairs(sight, n_new=float(n_new), n_past=0.0) == len(looked_at(sight, n_new, 0))


def test_pairs_by_hand() -> None:
    """5 tokens: a band of 1 to either side sees 2+3+3+3+2, blocks of 2 see 2+2+2+2+1; in chunks of 3, 1+2+3+1+2."""
    assert pairs(Sight(3, causal=False), n_new=5.0, n_past=0.0) == 13
    assert pairs(Sight(2, chunked=True, causal=False), n_new=5.0, n_past=0.0) == 9
    assert pairs(Sight(3, chunked=True), n_new=5.0, n_past=0.0) == 9
    assert (
        pairs(Sight(3, chunked=True), n_new=2.0, n_past=2.0) == 3 + 1
    )  # the chunk's last token, then a new chunk's first


@given(causal_sights, st.integers(1, 30), st.integers(0, 90))
def test_the_past_a_pass_sees_is_what_any_of_its_queries_sees(sight: Sight, n_new: int, n_past: int) -> None:
    past = {k for _, k in looked_at(sight, n_new, n_past) if k < n_past}
    assert seen(sight, n_past=float(n_past)) == len(past)


@given(causal_sights, st.integers(1, 6), st.integers(1, 8), st.integers(0, 40), st.data())
def test_a_shared_prefix_is_held_once_for_all_who_see_it(
    sight: Sight, n_seq: int, n_new: int, n_past: int, data: st.DataObject
) -> None:
    """Every (owner, position) by hand; positions of the shared prefix have one owner."""
    n_shared = data.draw(st.integers(0, n_past))
    past = {k for _, k in looked_at(sight, n_new, n_past) if k < n_past}
    distinct = {(None if k < n_shared else b, k) for b in range(n_seq) for k in past}
    part = rl.Seqs(n_seq=n_seq, n_new=n_new, n_past=n_past, n_shared=n_shared)
    assert Sum("held", sight).over((part,)) == len(distinct)


@given(causal_sights, st.integers(0, 40), st.integers(1, 6), st.data())
def test_nobody_holds_anything_of_a_stream_without_sequences(
    sight: Sight, n_past: int, n_seq: int, data: st.DataObject
) -> None:
    """No logits are wanted: no sequence asks, so none reads, shared prefix or not."""
    n_shared = data.draw(st.integers(0, n_past))
    part = rl.Seqs(n_seq=n_seq, n_new=1, n_past=n_past, n_shared=n_shared, n_logits=0)
    for name in ("held", "seen", "pairs", "square", "tokens", "seqs"):
        for stream in ("asked", "wanted", "inputs", "informed"):
            assert Sum(name, sight, stream).over((part,)) == 0, (name, stream)


@given(causal_sights, st.integers(1, 30), st.integers(0, 60))
def test_the_rectangle_of_an_eager_kernel_holds_every_pair(sight: Sight, n_new: int, n_past: int) -> None:
    """T rows, and as columns the new tokens and what a rolling cache offers, W − 1 at most."""
    kept = n_past if sight.window is None else min(n_past, sight.window - 1)
    assert cached(sight, n_past=float(n_past)) == kept
    part = rl.Seqs(n_seq=2, n_new=n_new, n_past=n_past)
    assert Sum("square", sight).over((part,)) == 2 * n_new * (kept + n_new)
    assert Sum("pairs", sight).over((part,)) <= Sum("square", sight).over((part,))


@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 60))
def test_picked_tokens_are_at_most_what_there_is_and_what_can_be_picked(top_k: int, n_new: int, n_past: int) -> None:
    """Each query picks top_k, itself among them."""
    part = rl.Seqs(n_seq=2, n_new=n_new, n_past=n_past)
    assert Sum("picked", Sight(top_k)).over((part,)) == 2 * min(n_past, n_new * (top_k - 1))
    assert Sum("held", Sight(top_k)).over((part,)) <= Sum("picked", Sight(top_k)).over((part,))


# Sums that are counts of sequences and tokens


MOST = (5, 9, 3, 2, 4, 9)  # sequences and new tokens at least one, the rest none or more
few_parts = st.lists(st.tuples(*(st.integers(int(i < 2), most) for i, most in enumerate(MOST))), min_size=1, max_size=3)


@given(few_parts)
def test_sums_over_a_step_are_those_over_its_sequences_one_by_one(parts: list[tuple[int, ...]]) -> None:
    """(B, T, S, inputs, tokens of each, memory), each sequence walked by itself."""
    step = tuple(
        rl.Seqs(n_seq=b, n_new=t, n_past=s, n_logits=min(1, s), n_inputs=i, n_input_tokens=p, n_memory=m)
        for b, t, s, i, p, m in parts
    )
    everyone = [part[1:] for part in parts for _ in range(part[0])]
    expected = {
        ("seqs", "text"): len(everyone),
        ("tokens", "text"): sum(t for t, *_ in everyone),
        ("resumed", "text"): sum(s > 0 for _, s, *_ in everyone),
        ("logits", "text"): sum(min(1, s) for _, s, *_ in everyone),
        ("asked", "text"): float(any(s > 0 for _, s, *_ in everyone)),
        ("memory", "text"): sum(m for *_, m in everyone),
        ("crossed", "text"): sum(t * m for t, *_, m in everyone),
        ("seqs", "inputs"): sum(i for _, _, i, _, _ in everyone),
        ("tokens", "inputs"): sum(i * p for _, _, i, p, _ in everyone),
        ("busy", "inputs"): float(any(i * p > 0 for _, _, i, p, _ in everyone)),
        ("tokens", "informed"): sum(t for t, _, _, _, m in everyone if m),
        ("busy", "informed"): float(any(m for *_, m in everyone)),
        ("crossed", "informed"): sum(t * m for t, *_, m in everyone),
        ("tokens", "wanted"): sum(min(1, s) for _, s, *_ in everyone),
        ("seqs", "asked"): sum(s > 0 for _, s, *_ in everyone),
    }
    for (name, stream), value in expected.items():
        assert Sum(name, stream=stream).over(step) == value, (name, stream)  # type: ignore[arg-type]


# Entries of several tokens


def entries_before(position: int, ratio: int) -> int:
    """Entries that a query at `position` (from 0) may see: one for every whole `ratio` of tokens, itself included."""
    return len([end for end in range(ratio, position + 2, ratio)])


@given(st.integers(1, 9), st.none() | st.integers(1, 6), st.integers(1, 40), st.integers(0, 60), st.integers(1, 3))
@example(4, None, 9, 0, 1)
@example(1, 2, 5, 0, 1)  # every token is an entry
def test_entries_are_those_a_loop_finds(ratio: int, cap: int | None, n_new: int, n_past: int, n_seq: int) -> None:
    limit = math.inf if cap is None else cap
    there = [entries_before(q, ratio) for q in range(n_past, n_past + n_new)]
    before = entries_before(n_past - 1, ratio)
    expected = {
        "pairs": sum(min(e, limit) for e in there),
        "made": there[-1] - before,
        "square": n_new * there[-1],
        "seen": min(before, n_new * limit),
        "least": min(before, limit),
    }
    for what, value in expected.items():
        found = Entries(ratio, cap, what).over((rl.Seqs(n_seq=n_seq, n_new=n_new, n_past=n_past),))  # type: ignore[arg-type]
        assert found == n_seq * value, what


@given(
    st.integers(1, 9),
    st.none() | st.integers(1, 6),
    st.lists(st.integers(1, 30), min_size=1, max_size=4),
    st.integers(0, 50),
)
def test_chunking_conserves_pairs_with_entries_and_entries_made(
    ratio: int, cap: int | None, chunks: list[int], n_past: int
) -> None:
    for what in ("pairs", "made"):
        key = Entries(ratio, cap, what)
        starts = [n_past + sum(chunks[:i]) for i in range(len(chunks))]
        parts = [key.over((rl.Seqs(n_seq=1, n_new=t, n_past=s),)) for t, s in zip(chunks, starts, strict=True)]
        assert sum(parts) == key.over((rl.Seqs(n_seq=1, n_new=sum(chunks), n_past=n_past),))


# Experts


def touched_by_enumeration(n_experts: int, n_active: int, n_tokens: int) -> Fraction:
    """The mean number of distinct experts, over every way the tokens can choose: exact."""
    choices = [frozenset(c) for c in itertools.combinations(range(n_experts), n_active)]
    ways = list(itertools.product(choices, repeat=n_tokens))
    return Fraction(sum(len(frozenset().union(*way)) for way in ways), len(ways))


@pytest.mark.parametrize(
    ("n_experts", "n_active", "n_tokens"), [(2, 1, 1), (2, 1, 5), (3, 2, 3), (4, 2, 3), (5, 1, 4), (4, 4, 2), (6, 3, 2)]
)
def test_the_expected_number_of_experts_is_the_mean_over_every_choice(
    n_experts: int, n_active: int, n_tokens: int
) -> None:
    exact = touched_by_enumeration(n_experts, n_active, n_tokens)
    found = Touched(n_experts, n_active).over((rl.Seqs(n_seq=n_tokens, n_new=1),))
    assert found == pytest.approx(float(exact), rel=1e-12)


@pytest.mark.parametrize(("n_experts", "n_active", "n_tokens"), [(64, 6, 16), (128, 8, 40), (256, 8, 100)])
def test_the_expected_number_of_experts_is_what_tokens_choosing_at_random_touch(
    n_experts: int, n_active: int, n_tokens: int
) -> None:
    """500 passes of tokens that choose by drawing lots; four standard errors."""
    lots = np.random.default_rng(0).random((500, n_tokens, n_experts)).argpartition(n_active, axis=2)[:, :, :n_active]
    touched = np.array([len(np.unique(one)) for one in lots])
    expected = Touched(n_experts, n_active).over((rl.Seqs(n_seq=n_tokens, n_new=1),))
    assert abs(touched.mean() - expected) < 4 * touched.std() / math.sqrt(len(touched))


experts = st.tuples(st.integers(1, 512), st.integers(1, 512)).map(lambda pair: (max(pair), min(pair)))
exponents = st.sampled_from([1.0, 0.7, 0.2])


def touched(n_experts: int, n_active: int, n_tokens: float, exponent: float = 1.0, what: Any = "expected") -> float:
    return float(Touched(n_experts, n_active, exponent, what).over((rl.Seqs(n_seq=n_tokens, n_new=1),)))


@given(experts, st.integers(1, 5000), exponents)
@example((100_000, 1), 1, 1.0)  # 1 − (1 − 1e-5) loses eleven digits
@example((7, 3), 1, 1.0)
def test_touched_experts_lie_between_those_of_one_token_and_all_that_can_be(
    experts: tuple[int, int], n_tokens: int, exponent: float
) -> None:
    """One token touches k exactly, whatever the exponent."""
    e, k = experts
    found = touched(e, k, n_tokens, exponent)
    assert k * (1 - 1e-12) <= found <= min(e, k * n_tokens) * (1 + 1e-12)
    assert touched(e, k, 1, exponent) == pytest.approx(k, rel=1e-12)
    assert touched(e, k, n_tokens, exponent, "most") == min(e, k * n_tokens)


@given(experts, st.integers(1, 3000), st.integers(0, 500), exponents)
def test_touched_experts_grow_with_tokens_ever_more_slowly(
    experts: tuple[int, int], n_tokens: int, more: int, exponent: float
) -> None:
    """Growing and concave: the same further tokens touch fewer new experts the more there were before."""
    e, k = experts
    a, b, c = (touched(e, k, n, exponent) for n in (n_tokens, n_tokens + more, n_tokens + 2 * more))
    assert a <= b <= c
    assert c - b <= (b - a) + 1e-9 * e


@given(experts, st.integers(1, 3000), st.sampled_from([(1.0, 0.9), (0.7, 0.69), (0.5, 0.1)]))
def test_correlated_routing_touches_fewer(experts: tuple[int, int], n_tokens: int, pair: tuple[float, float]) -> None:
    e, k = experts
    assert touched(e, k, n_tokens, pair[1]) <= touched(e, k, n_tokens, pair[0])


@given(experts, st.integers(1, 3000), exponents)
def test_the_rows_of_touched_experts_are_all_the_choices_of_all_tokens(
    experts: tuple[int, int], n_tokens: int, exponent: float
) -> None:
    e, k = experts
    rows = touched(e, k, n_tokens, exponent, "rows")
    assert rows * touched(e, k, n_tokens, exponent) == pytest.approx(k * n_tokens, rel=1e-12)
    assert rows >= 1 - 1e-12


def test_mixtral_touches_8_less_its_three_quarters_to_the_tokens() -> None:
    """8 · (1 − (3/4)^3) = 8 · 37/64 = 4.625, and 8 · (1 − (3/4)^8) = 8 · 58975/65536 = 7.1990966796875."""
    assert touched(8, 2, 3) == 4.625
    assert touched(8, 2, 8) == 7.1990966796875


def test_experts_are_touched_by_the_tokens_of_the_whole_pass() -> None:
    """Two parts of one token touch what one part of two does: 8 · (1 − (3/4)²) = 3.5."""
    one = rl.Seqs(n_seq=1, n_new=1, n_past=5)
    assert Touched(8, 2).over((one, one)) == Touched(8, 2).over((rl.Seqs(n_seq=1, n_new=2),)) == 3.5


@given(experts)
def test_no_tokens_touch_no_expert(experts: tuple[int, int]) -> None:
    e, k = experts
    whats: tuple[Any, ...] = ("expected", "most", "rows")
    for what in whats:
        assert Touched(e, k, 1.0, what, "inputs").over((rl.Seqs(n_seq=3, n_new=4),)) == 0, what


# The cheaper of two forms


@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(1, 20), st.integers(0, 50)), min_size=1, max_size=3),
    st.floats(0.1, 1e3),
    st.floats(0.1, 1e3),
)
def test_each_part_of_a_step_takes_one_form_and_the_cheaper_one(
    parts: list[tuple[int, int, int]], per_past: float, per_pair: float
) -> None:
    step = tuple(rl.Seqs(n_seq=b, n_new=t, n_past=s) for b, t, s in parts)
    prices = (per_past, per_pair)
    expanding = sum(b * t for b, t, s in parts if s * per_past < len(looked_at(ALL, t, s)) * per_pair)
    tokens = Sum("tokens")
    assert Cheaper(tokens, "expanded", ALL, *prices).over(step) == expanding
    assert Cheaper(tokens, "absorbed", ALL, *prices).over(step) == tokens.over(step) - expanding


# Grids


KEYS: dict[str, Any] = {
    "pairs in chunks": Sum("pairs", Sight(7, chunked=True)),
    "pairs in a band": Sum("pairs", Sight(7, causal=False)),
    "held in chunks": Sum("held", Sight(7, chunked=True)),
    "square": Sum("square", Sight(7)),
    "picked": Sum("picked", Sight(7)),
    "tokens of the informed": Sum("tokens", stream="informed"),
    "any of the informed": Sum("busy", stream="informed"),
    "pairs wanted": Sum("pairs", stream="wanted"),
    "held for those asked": Sum("held", stream="asked"),
    "entry pairs": Entries(4, 2, "pairs"),
    "entries seen": Entries(4, 2, "seen"),
    "experts": Touched(8, 2, 0.7),
    "rows of experts": Touched(8, 2, 0.7, "rows"),
    "tokens expanded": Cheaper(Sum("tokens"), "expanded", ALL, 3.0, 5.0),
}


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_a_sum_of_plain_numbers_is_a_plain_number_and_a_grid_its_points(key: Any) -> None:
    points = [(2.0, 1.0, 0.0, 0.0), (3.0, 9.0, 5.0, 4.0), (1.0, 4.0, 100.0, 0.0)]
    grid = rl.Seqs(
        n_seq=2.0, **{n: np.array([p[i] for p in points]) for i, n in ((1, "n_new"), (2, "n_past"), (3, "n_memory"))}
    )
    on_grid = np.broadcast_to(key.over((grid,)), len(points))
    for i, (_, new, past, memory) in enumerate(points):
        alone = key.over((rl.Seqs(n_seq=2.0, n_new=new, n_past=past, n_memory=memory),))
        assert type(alone) is float
        assert alone == on_grid[i]
