"""Whole pages: how an engine's blocks hold a model's cache, how many there are, and what a sequence takes of them.

A model may be one chip's share of one (heads and widths divided): every count here is then that chip's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from roofline.ledger import add_up
from roofline.num import Num, same
from roofline.specs.engine import Paging
from roofline.specs.layers import Layer
from roofline.specs.mixers import Attention, Compressed, Latent, LinearMixer
from roofline.specs.model import Model
from roofline.specs.precision import Numerics
from roofline.work.kvcache import recurrent_bytes
from roofline.work.recurrent import state_bytes_of
from roofline.work.step import MAX_TOKENS

__all__ = [
    "PageGroup",
    "PagePool",
    "allocated_bytes",
    "blocks_needed",
    "concurrency",
    "fragmentation",
    "kv_blocks",
    "kv_tokens",
    "page_pool",
    "paged_tokens",
    "plain_pool",
]


def paged_tokens(context_tokens: Num, *, page_tokens: float) -> Num:
    """⌈context/page⌉ · page: the tokens of whole pages.  [token]

    >>> paged_tokens(2049.0, page_tokens=16)
    2064.0
    """
    return same(np.ceil(context_tokens / page_tokens) * page_tokens, context_tokens)


def fragmentation(context_tokens: Num, *, page_tokens: float) -> Num:
    """1 − context / paged: the share of what a sequence reserves that holds nothing.  [1]

    A reservation without pages is one page of the longest context, which is what PagedAttention is measured against:
    systems before it used 20.4 to 38.2 % of what they reserved, it wastes less than a page a sequence.

    References: Kwon et al. 2023, arXiv:2309.06180, figure 2.

    Examples
    --------
    A context of 500 in a server that allows 2048, reserved whole and in pages of 16.

    >>> round(fragmentation(500.0, page_tokens=2048), 3), round(fragmentation(500.0, page_tokens=16), 3)
    (0.756, 0.023)
    """
    reserved = paged_tokens(np.maximum(context_tokens, 1.0), page_tokens=page_tokens)
    return same(1.0 - context_tokens / reserved, context_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class PageGroup:
    """`n` groups of layers that keep alike, each with a table of blocks of its own.

    A block of one holds `page_tokens` tokens of all its layers: of a whole context, of the last `window`, or (`is_state`)
    the state of a sequence, which is of any context where there are no other layers.
    """

    n: float
    page_tokens: float
    window: int | None = None
    is_state: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PagePool:
    """Blocks of one size, `block_bytes` [B], that groups of layers draw from."""

    block_bytes: float
    groups: tuple[PageGroup, ...]
    state_pages: int = 1

    @property
    def n_groups(self) -> float:
        """Groups, and so the blocks that hold one page of tokens of every layer."""
        return sum(group.n for group in self.groups)


def plain_pool(*, token_bytes: float, page_tokens: float) -> PagePool:
    """The pool of layers that all keep every token, of so many bytes a token together."""
    return PagePool(block_bytes=token_bytes * page_tokens, groups=(PageGroup(n=1.0, page_tokens=page_tokens),))


@dataclass(frozen=True, slots=True)
class _Kind:
    """What one layer keeps: bytes a token, of a window or of all; or the bytes of a state."""

    token_bytes: float
    window: int | None = None
    state_bytes: float = 0.0

    @property
    def lasts(self) -> tuple[int | None, bool]:
        """How long it is kept: what layers must share to be one group."""
        return self.window, self.state_bytes != 0.0


def page_pool(model: Model, *, numerics: Numerics, paging: Paging) -> PagePool:
    """How an engine's blocks hold a model's cache.

    Layers alike in what they keep are one group, whose block is a page of each of them. Where windows or states stand beside
    full layers ("groups"), blocks must be of one size:

        layers a group   s, as many as the scarcest kind has; as the commonest, where that has less than half as many more
        groups           Σ_kinds ⌈layers/s⌉, the last one padded
        page             p · (the most bytes a token and layer); p is raised, in steps of a page, until a state fits in
        block            s · page; a kind of half the bytes has twice the tokens on it, one that does not divide is padded

    "pool": windows hold `pool_ratio` tokens for every token of the full layers. Otherwise windows are held whole.

    References
    ----------
    vLLM 0.33.0, v1/core/kv_cache_planning.py; platforms/interface.py for states.

    Examples
    --------
    gemma-4-31B: 10 full layers of half the bytes of 50 with a window: 6 groups of 10 layers, 10 · 16 · 16,384 B.

    >>> from roofline.specs.catalog import model
    >>> from roofline.specs.precision import Precision
    >>> gemma = model("gemma-4-31b-nvfp4")
    >>> paging = Paging(tokens=16, windows="groups")
    >>> pool = page_pool(gemma, numerics=Precision(kv="bf16").of(gemma), paging=paging)
    >>> pool.n_groups, pool.block_bytes
    (6.0, 2621440.0)
    """
    return _pool_of(_kinds(model, numerics), paging)


def _pool_of(many: dict[_Kind, float], paging: Paging) -> PagePool:
    if paging.windows != "groups":
        share = _pool_share(many, paging)
        each = sum(n * k.token_bytes * (1.0 if k.window is None else share) for k, n in many.items())
        return plain_pool(token_bytes=float(each), page_tokens=paging.tokens)
    return _grouped(many, paging)


def _kinds(model: Model, numerics: Numerics) -> dict[_Kind, float]:
    """What layers keep, and how many of them keep so."""
    many: dict[_Kind, float] = {}
    for repeat, layer in model.layer_kinds():
        for kind in _kept(layer, numerics):
            if kind.token_bytes or kind.state_bytes:
                many[kind] = many.get(kind, 0.0) + repeat
    return many


def _pool_share(many: Iterable[_Kind], paging: Paging) -> float:
    """Tokens that windows have room for, for one of the full layers'; 1 where there is one pool."""
    return paging.pool_ratio if paging.windows == "pool" and len({k.lasts for k in many}) != 1 else 1.0


def _grouped(many: dict[_Kind, float], paging: Paging) -> PagePool:
    tokens, state = float(paging.tokens), max((k.state_bytes for k in many), default=0.0)
    most = max((k.token_bytes for k in many), default=0.0)
    if len({k.lasts for k in many}) <= 1:
        window, is_state = next((k.lasts for k in many), (None, False))
        block = sum(n * (k.token_bytes * tokens + k.state_bytes) for k, n in many.items())
        group = PageGroup(n=1.0, page_tokens=MAX_TOKENS if is_state else tokens, window=window, is_state=is_state)
        return PagePool(block_bytes=float(block), groups=(group,), state_pages=paging.state_pages)
    tokens *= max(float(np.ceil(state / (tokens * most))), 1.0)
    few, lot = min(many.values()), max(many.values())
    size = float(np.where(lot < 1.5 * few, lot, few))
    groups = tuple(
        PageGroup(
            n=float(np.ceil(n / size)),
            page_tokens=tokens * (most // k.token_bytes if k.token_bytes and most % k.token_bytes == 0.0 else 1.0),
            window=k.window,
            is_state=k.state_bytes != 0.0,
        )
        for k, n in many.items()
    )
    return PagePool(block_bytes=size * tokens * most, groups=groups, state_pages=paging.state_pages)


def _kept(layer: Layer, numerics: Numerics) -> Iterator[_Kind]:
    """What a layer keeps of a sequence, cross-attention's keys apart."""
    each = numerics.kv.bits / 8.0
    for mixer in layer.mixers:
        match mixer:
            case Attention() as x if x.caches:
                yield _Kind(each * (x.cache_elements_per_token + x.index_elements_per_token), x.window)
            case Latent() as x:
                yield _Kind(each * (x.cache_elements_per_token + x.index_elements_per_token))
            case Compressed() as x:
                yield _Kind(each * x.d_head, x.window)
                index = 0 if x.indexer is None else x.indexer.d_head
                if x.ratio is not None:
                    yield _Kind(each * (x.d_head + index) / x.ratio)
            case Attention() | LinearMixer():
                pass
            case _:
                yield _Kind(0.0, None, state_bytes_of(mixer, conv_bytes=numerics.activation_bytes))


def kv_blocks(pool: PagePool, *, budget_bytes: Num) -> Num:
    """⌊budget / block⌋, at least 0: whole blocks; no limit where nothing is kept.  [1]"""
    budget = np.maximum(budget_bytes, 0.0)
    return same(np.floor(budget / pool.block_bytes) if pool.block_bytes else budget + np.inf, budget_bytes)


def kv_tokens(pool: PagePool, *, budget_bytes: Num) -> Num:
    """⌊blocks / groups⌋ · page: tokens whose cache all layers hold, as an engine logs it; windows count as full.  [token]

    >>> kv_tokens(plain_pool(token_bytes=131072, page_tokens=16), budget_bytes=3.81 * 2**30)   # 1,950 blocks
    31200.0
    """
    pages = np.floor(kv_blocks(pool, budget_bytes=budget_bytes) / pool.n_groups)
    return same(pages * min(group.page_tokens for group in pool.groups), budget_bytes)


def blocks_needed(pool: PagePool, *, context_tokens: Num, in_flight_tokens: Num = 0.0) -> Num:
    """Blocks a sequence of L tokens holds.  [1]

        Σ_groups ⌈L/p⌉ | ⌈min(L, W − 1 + f)/p⌉ + 1 | state pages

    A window frees what it has passed once a pass is done, so the `in_flight_tokens` f of passes under way are held besides;
    it may start within a page.
    """
    return add_up(_needed(group, pool, context_tokens, in_flight_tokens) for group in pool.groups)


def _needed(group: PageGroup, pool: PagePool, context: Num, in_flight: Num) -> Num:
    if group.is_state:
        return same(context * 0.0 + group.n * pool.state_pages, context)
    if group.window is None:
        return same(group.n * np.ceil(context / group.page_tokens), context)
    held = np.minimum(context, group.window - 1.0 + in_flight)
    return same(group.n * (np.ceil(held / group.page_tokens) + 1.0), context, in_flight)


def concurrency(pool: PagePool, *, budget_bytes: Num, context_tokens: Num, in_flight_tokens: Num = 0.0) -> Num:
    """Sequences of so long a context that the blocks hold at once, as an engine logs it: not a whole number.  [1]

    >>> round(concurrency(plain_pool(token_bytes=1.0, page_tokens=16), budget_bytes=127_626 * 16, context_tokens=2048), 2)
    997.08
    """
    needed = blocks_needed(pool, context_tokens=context_tokens, in_flight_tokens=in_flight_tokens)
    return same(kv_blocks(pool, budget_bytes=budget_bytes) / np.maximum(needed, 1.0), budget_bytes, needed)


def allocated_bytes(
    model: Model,
    *,
    context_tokens: Num,
    n_seq: Num,
    numerics: Numerics,
    paging: Paging,
    batch_tokens: Num = 0.0,
    shared_tokens: Num = 0.0,
) -> Num:
    """What an engine's cache takes for n_seq sequences of context_tokens each, state included.  [B]

        groups       n_seq · blocks_needed · block
        window       Σ_layers n_seq · ⌈min(L, W + f/n_seq)⌉ₚ · bytes a token, f = in_flight · batch_tokens shared by all
        pool         as many tokens as full layers ask for, n_seq · ⌈L⌉ₚ, or windows, n_seq · ⌈min(L, W)⌉ₚ / pool_ratio
        otherwise    n_seq · ⌈L⌉ₚ · bytes a token; windows held whole

    Of a shared beginning, s of L tokens, the first sequence holds all and the others what follows it. A contiguous cache is
    rounded up once, for all sequences. Cross-attention's keys and values come besides.

    Parameters
    ----------
    context_tokens : Num
        Tokens of each; with a contiguous cache the longest that may come [token].
    batch_tokens : Num
        Tokens of a pass [token].
    shared_tokens : Num
        Of them, those on whole pages that begin every sequence and are held once [token].
    """
    in_flight = paging.in_flight * batch_tokens
    many = _kinds(model, numerics)
    pool = _pool_of(many, paging)
    first, more = context_tokens, context_tokens - shared_tokens
    if paging.windows == "groups":
        one, other = (blocks_needed(pool, context_tokens=held, in_flight_tokens=in_flight) for held in (first, more))
        return (one + (n_seq - 1.0) * other) * pool.block_bytes
    state = recurrent_bytes(model, n_seq=n_seq, numerics=numerics)
    if paging.windows == "window":
        held = (
            n * k.token_bytes * _held_tokens(k.window, first, more, n_seq, in_flight, paging) for k, n in many.items()
        )
        return add_up(held) + state
    tokens = _held_tokens(None, first, more, n_seq, 0.0, paging)
    share = _pool_share(many, paging)
    for window in {k.window for k in many if k.window is not None and paging.windows == "pool"}:
        tokens = np.maximum(tokens, _held_tokens(window, first, more, n_seq, 0.0, paging) / share)
    return same(tokens * (pool.block_bytes / paging.tokens), context_tokens, n_seq, shared_tokens) + state


def _held_tokens(window: int | None, first: Num, more: Num, n_seq: Num, in_flight: Num, paging: Paging) -> Num:
    """Tokens of whole pages that a layer holds of all sequences: `first` of one of them, `more` of each other."""
    others, limit = n_seq - 1.0, np.inf if window is None else float(window)
    page = paging.tokens
    if paging.contiguous:
        full, kept = first + others * more, np.minimum(first, limit) + others * np.minimum(more, limit)
        held = paged_tokens(np.minimum(full, kept + in_flight), page_tokens=page)
    else:
        room = limit + in_flight / np.maximum(n_seq, 1.0)
        one, other = (paged_tokens(np.minimum(n, room), page_tokens=page) for n in (first, more))
        held = one + others * other
    return same(held, first, more, n_seq, in_flight)
