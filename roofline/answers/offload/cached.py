"""Caches in another tier: a prefix fetched or made anew, sessions kept warm."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from roofline.answers.inputs import memory_tokens_of
from roofline.answers.memory import memory
from roofline.answers.phases import prefill
from roofline.answers.records import Answer
from roofline.answers.tiers import Tier, exposed_seconds, one_number, plain, the_tier
from roofline.errors import SpecError, require
from roofline.num import Num, checked, same, whole
from roofline.specs.deployment import Deployment
from roofline.work.kvcache import cache_bytes, recurrent_bytes
from roofline.work.step import MAX_TOKENS

__all__ = ["RecomputeOrLoad", "WarmSessions", "recompute_or_load", "sequence_bytes", "warm_sessions"]

_SCAN_POINTS = 1024
_HALVINGS = 40


def sequence_bytes(deployment: Deployment, *, tokens: Num, n_seq: Num = 1.0, memory_tokens: Num = 0.0) -> Num:
    """Cache and recurrent state of sequences of so many tokens: all that another pool, or a later request, needs.  [B]"""
    model, numerics = deployment.model, deployment.numerics
    if not model.generates:
        raise SpecError(f"{model.id} is an encoder: it keeps no cache that could be moved or kept")
    cache = cache_bytes(model, context_tokens=tokens, n_seq=n_seq, numerics=numerics, memory_tokens=memory_tokens)
    return cache + recurrent_bytes(model, n_seq=n_seq, numerics=numerics)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecomputeOrLoad(Answer):
    """A cached prefix, fetched from a tier or computed again.

    `exposed_s` is what a load adds to the pass over the new tokens when layers load while earlier ones compute.
    `meets_at_tokens` are all prefixes that take as long to load as to recompute, up to the model's longest;
    `break_even_tokens` the one beyond which loading wins for good: 1 where it always does, infinite where it does not at the
    longest.
    """

    prefix_tokens: Num
    new_tokens: Num
    prefix_bytes: Num
    recompute_s: Num
    load_s: Num
    exposed_s: Num
    load_wins: Any
    overlapped_load_wins: Any
    meets_at_tokens: tuple[float, ...]
    break_even_tokens: float

    def to_dict(self) -> dict[str, Any]:
        """Flat, SI, unit in the key; of the prefixes at which the two meet, the break-even alone."""
        kept = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "meets_at_tokens"}
        return kept | {n: whole(kept[n]) for n in ("prefix_tokens", "new_tokens", "break_even_tokens")}


def recompute_or_load(
    deployment: Deployment, *, prefix_tokens: Any, tier: Tier, new_tokens: Any = 1
) -> RecomputeOrLoad:
    """A prefix whose cache lies in a tier: is it quicker to fetch it, or to prefill it again?

        load_s      = (cache of S tokens + recurrent state) / rate
        recompute_s = prefill of S tokens
        exposed_s   = load_s beside the prefill of the new tokens, layer by layer: `exposed_seconds`

    A load grows with S at most linearly. Recomputing has a floor (the weights are read once) and ends up growing with S²; so
    a slow tier wins for short prefixes, loses for long ones, and wins again for very long ones, if the model goes so far.

    Parameters
    ----------
    prefix_tokens : int or array
        S [token].
    tier : Tier
        From `host_tier` or `nvme_tier`, at one rate.
    new_tokens : int or array
        Tokens of the prompt after the prefix, beside whose pass layers load [token]. The break-even is without overlap.

    Notes
    -----
    Assumes one request alone, a rate that long reads reach at once (no latency), and that a copy does not slow the pass.

    Examples
    --------
    Llama-3.1-8B caches 128 KiB a token: 2048 of them take 34 ms from a PCIe 4.0 drive, 4 ms from the host of an H100, and
    30 ms or a little more to compute. From the host loading always wins.

    >>> from roofline.answers.offload import host_tier
    >>> from roofline.specs.catalog import hardware, model
    >>> d = Deployment(model=model("llama-3.1-8b"), hardware=hardware("h100-sxm-80gb"))
    >>> r = recompute_or_load(d, prefix_tokens=2048, tier=host_tier(d))
    >>> round(r.load_s * 1e3, 1), 30 < r.recompute_s * 1e3 < 36, r.break_even_tokens
    (4.3, True, 1.0)
    """
    require(deployment, Deployment, "recompute_or_load(deployment)")
    rate = one_number(the_tier(tier).bytes_per_s, name="tier.bytes_per_s", low=0.0, high=np.inf)
    prefix = checked(prefix_tokens, name="prefix_tokens", low=1.0, high=MAX_TOKENS)
    new = checked(new_tokens, name="new_tokens", low=1.0, high=MAX_TOKENS)
    kept = sequence_bytes(deployment, tokens=prefix)
    recompute_s, load_s = _anew(deployment, prefix), kept / rate
    resumed_s = prefill(deployment, prompt_tokens=new, n_past=prefix).seconds
    exposed_s = exposed_seconds(load_s, computing_s=resumed_s, n_layers=deployment.model.n_layers)
    meets, from_tokens = _meetings(
        lambda s: _anew(deployment, s) - sequence_bytes(deployment, tokens=s) / rate,
        longest=float(deployment.model.max_context_tokens),
    )
    return RecomputeOrLoad(
        prefix_tokens=prefix,
        new_tokens=new,
        prefix_bytes=kept,
        recompute_s=recompute_s,
        load_s=load_s,
        exposed_s=exposed_s,
        load_wins=plain(np.less_equal(load_s, recompute_s)),
        overlapped_load_wins=plain(np.less_equal(exposed_s, recompute_s)),
        meets_at_tokens=meets,
        break_even_tokens=from_tokens,
    )


def _anew(deployment: Deployment, prefix: Num) -> Num:
    return prefill(deployment, prompt_tokens=prefix).seconds


def _meetings(gain: Callable[[Num], Num], *, longest: float) -> tuple[tuple[float, ...], float]:
    """Where a gain changes its sign between 1 and the longest, and from where on it is never negative again."""
    tokens = np.geomspace(1.0, longest, _SCAN_POINTS)
    wins = np.greater_equal(gain(tokens), 0.0)
    before = np.flatnonzero(wins[1:] != wins[:-1])
    low, high, after = tokens[before], tokens[before + 1], wins[before + 1]
    for _ in range(_HALVINGS if before.size else 0):
        middle = (low + high) / 2.0
        past = np.greater_equal(gain(middle), 0.0) == after
        low, high = np.where(past, low, middle), np.where(past, middle, high)
    meets = tuple(float(s) for s in high)
    return meets, np.inf if not wins[-1] else (meets[-1] if meets else 1.0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WarmSessions(Answer):
    """How many sessions' caches a tier holds, and how long one takes to come back [1, B, s]."""

    tier: str
    n_sessions: Num
    session_bytes: Num
    load_s: Num


def warm_sessions(
    deployment: Deployment, *, context_tokens: Any, tiers: Sequence[Tier] = (), memory_tokens: Any = None
) -> tuple[WarmSessions, ...]:
    """Sessions whose cache need not be made again: in device memory beside the weights, then tier by tier.

        n_sessions = ⌊capacity / (cache + recurrent state of one)⌋,   of device memory: what `memory` says (`max_batch`)

    Assumes caches of `context_tokens` each, stored as they are in device memory.

    Examples
    --------
    Llama-3.1-8B, 8192 tokens a session, 1 GiB each: 64 beside the weights on an H100; 1 TB of host memory holds 931 more.

    >>> from roofline.answers.offload import host_tier
    >>> from roofline.specs.catalog import hardware, model
    >>> d = Deployment(model=model("llama-3.1-8b"), hardware=hardware("h100-sxm-80gb"))
    >>> host = host_tier(d, capacity_bytes=1e12)
    >>> [(s.tier, s.n_sessions) for s in warm_sessions(d, context_tokens=8192, tiers=[host])]
    [('hbm', 64.0), ('host', 931.0)]
    """
    require(deployment, Deployment, "warm_sessions(deployment)")
    context = checked(context_tokens, name="context_tokens", low=1.0, high=MAX_TOKENS)
    outputs = memory_tokens_of(deployment.model, memory_tokens)
    session = sequence_bytes(deployment, tokens=context, memory_tokens=outputs)
    resident = memory(deployment, context_tokens=context, memory_tokens=memory_tokens).max_batch
    found = [WarmSessions(tier="hbm", n_sessions=resident, session_bytes=session, load_s=0.0)]
    for tier in map(the_tier, tiers):
        if tier.capacity_bytes is None:
            raise SpecError(
                f"{tier.name}: how many sessions it holds needs its size; make the tier with capacity_bytes="
            )
        held = same(np.floor(tier.capacity_bytes / session), session)
        back_s = session / tier.bytes_per_s
        found.append(WarmSessions(tier=tier.name, n_sessions=held, session_bytes=session, load_s=back_s))
    return tuple(found)
