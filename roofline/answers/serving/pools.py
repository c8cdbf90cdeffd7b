"""Prompts read on one pool of replicas and answers written on another: a service of two queues, one behind the other.

The pool that reads gives every request its first token, which travels with the cache; the pool that writes begins with a
pass over that token. Of the way between, a layer's share is seen where each layer's cache leaves while later ones compute.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roofline.answers.estimates import request_s
from roofline.answers.phases import how_of
from roofline.answers.records import Answer
from roofline.answers.serving.closed import BURSTY, REASONS, Closed, closed_form
from roofline.answers.serving.lengths import Lengths
from roofline.answers.serving.measured import STATISTICS, TAIL, WARM_UP, statistics
from roofline.answers.serving.service import one_rate, replica_of, rules_of
from roofline.answers.simulate import Replica, simulate
from roofline.answers.steps import DeploymentLaw, step_law
from roofline.answers.transfer import passed_on, wire
from roofline.errors import PlanError, SpecError, require
from roofline.specs.arrivals import Poisson
from roofline.specs.deployment import Deployment
from roofline.specs.workload import Requests, Workload

__all__ = ["SplitServing", "serve_split"]

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

N_REQUESTS, N_RUNS = 5000, 4


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SplitServing(Answer):
    """A split service at a rate.

    Attributes
    ----------
    rate_per_s, saturation_per_s : float
        What arrives, and beyond what one of the two pools grows a queue for ever [1/s].
    n_prefill, n_decode : int
        Replicas that read, and that write [1].
    prefill_load, decode_load, link_load : float
        Rate over what each pool saturates at, and over what the links carry [1].
    prefill_per_decode : float
        λ_d : λ_p, the readers that one writer keeps busy, both at saturation [1].
    exposed_s : float
        What the way of a mean prompt's cache adds before its answer goes on [s].
    ttft_mean_s … tpot_p99_s, e2e_mean_s : float
        As of `Serving`; the first token is handed out where the answer goes on [s].
    stable : bool
    method, why : str
        "closed form", or "simulation" where it must not be trusted, and the reason.
    """

    rate_per_s: float
    saturation_per_s: float
    n_prefill: int
    n_decode: int
    prefill_load: float
    decode_load: float
    link_load: float
    prefill_per_decode: float
    exposed_s: float
    ttft_mean_s: float
    ttft_p50_s: float
    ttft_p95_s: float
    ttft_p99_s: float
    tpot_mean_s: float
    tpot_p50_s: float
    tpot_p95_s: float
    tpot_p99_s: float
    e2e_mean_s: float
    stable: bool
    method: str
    why: str


def serve_split(
    *, prefill: Deployment, decode: Deployment, workload: Workload, rate_per_s: float, n_prefill: int = 1, n_decode: int = 1,
    link: Any = None, method: str = "auto", n_requests: int = N_REQUESTS, n_runs: int = N_RUNS, seed: int = 0,
) -> SplitServing:  # fmt: skip
    """Two pools in steady state under a workload; each request goes to one of the replicas of either at random.

    Parameters
    ----------
    prefill, decode : Deployment
        A replica of either pool, of one model.
    workload : Workload
        Lengths, and how requests come.
    rate_per_s : float
        Requests that arrive [1/s].
    n_prefill, n_decode : int
        Replicas of either [1].
    link : Link or float
        Between the pools, by default the slower of the chips' scale-out links; or a rate [B/s].
    method, n_requests, n_runs, seed
        As of `serve`.

    Notes
    -----
    Assumes links that are idle when a cache is sent (`link_load` says how far), replicas that are alike, and a pool that
    reads its first pass over the token that comes with the cache.

    Examples
    --------
    >>> from roofline.specs.catalog import hardware, model
    >>> d = Deployment(model=model("llama-3.1-8b"), hardware=hardware("h100-sxm-80gb"), engine="vllm")
    >>> w = Workload.fixed(prompt_tokens=2048, output_tokens=256)
    >>> s = serve_split(prefill=d, decode=d, workload=w, rate_per_s=4.0)
    >>> s.stable, s.method
    (True, 'closed form')
    """
    require(prefill, Deployment, "serve_split(prefill=…)")
    require(decode, Deployment, "serve_split(decode=…)")
    require(workload, Workload, "serve_split(workload=…)")
    if prefill.model != decode.model:
        raise PlanError(f"serve_split: two pools of one model, got {prefill.model.id} and {decode.model.id}")
    if method not in ("auto", "closed form", "simulation"):
        raise SpecError(f"serve_split(method): expected auto, closed form or simulation, got {method!r}")
    rate = one_rate(rate_per_s, "serve_split")
    for name, value in (
        ("n_prefill", n_prefill),
        ("n_decode", n_decode),
        ("n_runs", n_runs),
        ("n_requests", n_requests),
    ):
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise SpecError(f"serve_split({name}): expected a whole number of at least 1, got {value!r}")
    readers, writers = _Pool.of(prefill, n_prefill, workload), _Pool.of(decode, n_decode, workload)
    way = _Way.of(prefill, decode, link)
    return _answer(readers, writers, way, workload, rate, method, (n_requests, n_runs, seed))


@dataclass(frozen=True, slots=True, eq=False)
class _Pool:
    """Replicas that are alike, and what the closed form asks of the lengths."""

    deployment: Deployment
    n: int
    law: DeploymentLaw
    replica: Replica
    lengths: Lengths

    @classmethod
    def of(cls, d: Deployment, n: int, workload: Workload) -> _Pool:
        replica = replica_of(d)
        if replica is None:
            raise SpecError(f"serve_split: {d.model.id} leaves no room for a cache on {d.n_chips} × {d.hardware.id}")
        longest = int(np.max(workload.prompt_tokens + workload.output_tokens))
        if longest > min(replica.n_pages * replica.page_tokens, replica.max_context_tokens or longest):
            raise SpecError(
                f"serve_split: a request has {longest:,} tokens, more than a replica on {d.hardware.id} holds"
            )
        law = step_law(d)
        w = Lengths.of(
            workload.prompt_tokens, workload.output_tokens, windows=law.windows, page_tokens=replica.page_tokens
        )
        return cls(d, n * d.plan.dp, law, replica, w)

    def closed(self, w: Lengths, rate: float, untrusted: int) -> Closed:
        """One of them at its share of the rate."""
        return closed_form(self.law, w, rules_of(self.replica), np.array([rate / self.n]), untrusted=untrusted)


@dataclass(frozen=True, slots=True, eq=False)
class _Way:
    """From a replica that reads to one that writes: the links at both ends, or the one that was given."""

    deployment: Deployment
    law: DeploymentLaw
    links: tuple[Any, ...]

    @classmethod
    def of(cls, prefill: Deployment, decode: Deployment, link: Any) -> _Way:
        ends = (link,) if link is not None else tuple(d.hardware.links.scale_out for d in (prefill, decode))
        if any(end is None for end in ends):
            raise SpecError("serve_split(link): one of the chips has no link to others on record; give link= in B/s")
        wire(*ends, latency_s=None)  # raises where no rate is known
        return cls(prefill, step_law(prefill), ends)

    def taken(self, prompts: NDArray[Any]) -> tuple[Floats, Floats]:
        """All of a prompt's cache over the links, and what of it is seen after the prompt was read alone  [s]."""
        p = prompts.astype(np.float64)
        alone = self.law.alike(0.0 * p, 0.0 * p, [0.0 * p for _ in self.law.windows], 1.0, (p, 0.0, 1.0))
        moving_s, seen_s = passed_on(self.deployment, tokens=p, reading_s=alone, links=self.links)
        return np.asarray(moving_s), np.asarray(seen_s)


def _answer(
    readers: _Pool, writers: _Pool, way: _Way, workload: Workload, rate: float, method: str, runs: tuple[int, int, int]
) -> SplitServing:
    w = readers.lengths
    untrusted = 0 if isinstance(workload.arrivals, Poisson) else BURSTY
    reading = readers.closed(w.prompts_alone(), rate, untrusted)
    writing = writers.closed(writers.lengths.answers_alone(), rate, untrusted)
    most = (float(reading.saturation_per_s[0]) * readers.n, float(writing.saturation_per_s[0]) * writers.n)
    mean = np.array([w.prompt_mean])
    moving_s, exposed_s = (float(part[0]) for part in way.taken(mean))
    carried = readers.n / moving_s
    stable = rate < min(*most, carried)
    reason = int(reading.reason[0] or writing.reason[0])
    simulated = stable and method != "closed form" and (method == "simulation" or reason > 0)
    times = (
        _simulated(readers, writers, way, workload, rate, runs)
        if simulated
        else _by_form(reading, writing, way, w, stable)
    )
    return SplitServing(
        rate_per_s=rate, saturation_per_s=min(*most, carried), n_prefill=readers.n, n_decode=writers.n,
        prefill_load=rate / most[0], decode_load=rate / most[1], link_load=rate / carried,
        prefill_per_decode=(most[1] / writers.n) / (most[0] / readers.n), exposed_s=exposed_s,
        stable=stable, method="simulation" if simulated else "closed form", why=REASONS[reason], **times,
    )  # fmt: skip


def _by_form(reading: Closed, writing: Closed, way: _Way, w: Lengths, stable: bool) -> dict[str, float]:
    once = request_s(way.deployment, how_of(way.deployment))
    exposed = float(np.sum(w.prompt_shares * way.taken(w.prompts)[1]))
    ttft = {f"ttft_{n}_s": float(getattr(reading, f"ttft_{n}_s")[0]) + exposed + once for n in STATISTICS}
    tpot = {f"tpot_{n}_s": float(getattr(writing, f"tpot_{n}_s")[0]) for n in STATISTICS}
    later = float(writing.e2e_mean_s[0]) - w.answering * float(writing.tpot_mean_s[0])  # its first step is one of its d
    found = ttft | tpot | {"e2e_mean_s": ttft["ttft_mean_s"] + later}
    return found if stable else dict.fromkeys(found, float("inf"))


def _simulated(
    readers: _Pool, writers: _Pool, way: _Way, workload: Workload, rate: float, runs: tuple[int, int, int]
) -> dict[str, float]:
    """Both pools step by step, of all runs together."""
    n_requests, n_runs, seed = runs
    size = n_requests * max(readers.n, writers.n)
    parts = [
        _one_run(readers, writers, way, workload.draw(size, rate_per_s=rate, seed=seed + i), seed + i)
        for i in range(n_runs)
    ]
    once = request_s(way.deployment, how_of(way.deployment))
    ttft, tpot, whole = (np.concatenate([part[k] for part in parts]) for k in range(3))
    told = statistics("ttft", ttft + once) | statistics("tpot", tpot[np.isfinite(tpot)])
    return told | {"e2e_mean_s": float(whole.mean()) + once}


def _one_run(readers: _Pool, writers: _Pool, way: _Way, asked: Requests, seed: int) -> tuple[Floats, Floats, Floats]:
    """TTFT, TPOT and whole time of the requests that count."""
    rng = np.random.default_rng((seed, 7))
    n = len(asked)
    first = np.zeros(n)
    to = rng.integers(0, readers.n, n)
    for k in range(readers.n):
        mine = np.flatnonzero(to == k)
        if mine.size:
            one = np.ones(mine.size, dtype=np.int64)
            read = simulate(asked.arrival_s[mine], asked.prompt_tokens[mine], one, readers.law, readers.replica)
            first[mine] = read.first_token_s
    ready = first + way.taken(asked.prompt_tokens)[1]
    last = ready.copy()
    order = np.argsort(ready, kind="stable")
    order = order[asked.output_tokens[order] > 1]
    to = rng.integers(0, writers.n, order.size)
    for k in range(writers.n):
        mine = order[to == k]
        if mine.size:
            prompts = asked.prompt_tokens[mine]
            wrote = simulate(
                ready[mine],
                prompts + 1,
                asked.output_tokens[mine] - 1,
                writers.law,
                writers.replica,
                brought_tokens=prompts,
            )
            last[mine] = wrote.last_token_s
    place = np.arange(n)
    counted = (place >= int(WARM_UP * n)) & (place < n - int(TAIL * n))
    gaps = asked.output_tokens - 1.0
    tpot = (last - ready) / np.where(gaps > 0.0, gaps, np.nan)
    return (ready - asked.arrival_s)[counted], tpot[counted], (last - asked.arrival_s)[counted]
