"""A deployment and a workload, and what both answers about load need of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from roofline.answers.estimates import request_s
from roofline.answers.memory import StageMemory
from roofline.answers.offload.cached import sequence_bytes
from roofline.answers.phases import how_of
from roofline.answers.serving.closed import ALIKE, BURSTY, Closed, closed_form
from roofline.answers.serving.lengths import Lengths
from roofline.answers.serving.measured import Observed, observed, run
from roofline.answers.serving.steady import Rules
from roofline.answers.simulate import Replica, least_loaded
from roofline.answers.steps import step_law
from roofline.answers.transfer import links_of
from roofline.errors import SpecError
from roofline.num import checked
from roofline.specs.arrivals import Gamma, Poisson, Recorded
from roofline.specs.beginnings import begun_before
from roofline.specs.deployment import Deployment
from roofline.specs.engine import ENDLESS
from roofline.specs.sessions import Sessions
from roofline.specs.workload import Requests, Workload
from roofline.timing.steplaw import StepLaw

__all__ = ["Keeping", "Routing", "Service", "cached_tokens", "one_rate", "replica_of", "rules_of"]

Routing: TypeAlias = Literal["random", "round-robin", "least-loaded"]

N_REQUESTS = 5000
LEAST_RATE = 1e-9  # requests a second: one in thirty years
BATCH_TOKENS, MAX_SEQS = 2048, 256  # of an engine that limits nothing: what most engines begin from


def replica_of(
    deployment: Deployment, *, batch_tokens: int | None = None, max_seqs: int | None = None
) -> Replica | None:
    """What the scheduler of one data-parallel rank goes by: the engine's own limits and pages; none where nothing fits."""
    d, tier = deployment, deployment.tier
    limit = None if d.model.max_context_tokens is None else int(d.model.max_context_tokens)
    chips = [StageMemory(d, stage, 0.0) for stage in range(d.plan.pp)]
    page = d.engine.pages.tokens
    room = min(1e12, *(chip.kv_tokens for chip in chips))
    if room < page or any(chip.allocated(1.0, 1.0) > chip.budget_bytes for chip in chips):
        return None
    own = {"batch_tokens": BATCH_TOKENS, "max_seqs": MAX_SEQS}
    if tier is not None:
        own = {name: n if (n := getattr(tier, name)) < ENDLESS else usual for name, usual in own.items()}
    return Replica(kv_tokens=int(room), page_tokens=page, max_context_tokens=limit,
                   batch_tokens=batch_tokens or own["batch_tokens"], max_seqs=max_seqs or own["max_seqs"])  # fmt: skip


def rules_of(replica: Replica) -> Rules:
    """What the closed form asks of a replica."""
    return Rules.of(
        batch_tokens=replica.batch_tokens, max_seqs=replica.max_seqs, kv_tokens=replica.n_pages * replica.page_tokens
    )


def one_rate(rate_per_s: Any, where: str) -> float:
    """One rate of requests, of which some come in a year  [1/s]."""
    rate = checked(rate_per_s, name="rate_per_s", low=LEAST_RATE)
    if not isinstance(rate, float):
        raise SpecError(f"{where}(rate_per_s): expected one number, got an array")
    return rate


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeping:
    """What a service keeps of the beginnings of prompts, for others that begin alike.

    Attributes
    ----------
    prefixes : bool or None
        Whether the free pages of the cache keep them; none: where the workload says which begin alike, as engines do.
    tier_bytes : float
        Host memory behind them, for each replica [B].
    """

    prefixes: bool | None = None
    tier_bytes: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Service:
    """A deployment, a workload, and what both answers need of them."""

    deployment: Deployment
    workload: Workload | Sessions
    n_replicas: int
    routing: Routing
    law: StepLaw
    replica: Replica
    lengths: Lengths
    rejected: float
    request_s: float

    @classmethod
    def of(
        cls,
        d: Deployment,
        workload: Workload | Sessions,
        n_replicas: int,
        routing: Routing,
        keeping: Keeping = Keeping(),
    ) -> Service | None:
        """Of what can be held; none where nothing can."""
        replica = replica_of(d)
        if replica is None:
            return None
        law = step_law(d)
        asked = _sample(workload)
        if keeping.prefixes is not False and asked.block_ids is not None:
            replica = _kept(replica, d, asked, keeping)
        prompts, outputs = asked.prompt_tokens, asked.output_tokens
        held = np.ceil((prompts + outputs - 1) / replica.page_tokens) <= replica.n_pages
        if replica.max_context_tokens is not None:
            held &= prompts + outputs <= replica.max_context_tokens
        if not held.any():
            return None
        cached = cached_tokens(asked)[held] if replica.prefix_caching else None
        lengths = Lengths.of(
            prompts[held], outputs[held], windows=law.windows, page_tokens=replica.page_tokens, cached_tokens=cached
        )
        return cls(
            deployment=d, workload=workload, n_replicas=n_replicas, routing=routing, law=law, replica=replica,
            lengths=lengths, rejected=1.0 - float(held.mean()), request_s=request_s(d, how_of(d)),
        )  # fmt: skip

    @property
    def ranks(self) -> int:
        """Schedulers there are: data-parallel ranks of every replica."""
        return self.n_replicas * self.deployment.plan.dp

    def closed(self, rate: NDArray[np.float64]) -> Closed:
        """The closed form of one rank, at its share of the rates; rates of the answer are those of all."""
        arrivals = self.workload.arrivals if isinstance(self.workload, Workload) else None
        scv = arrivals.scv if isinstance(arrivals, Gamma) else 1.0
        shared = 1.0 / self.ranks if self.routing == "round-robin" else 1.0  # of n in turn, each gets every n-th
        independent = isinstance(arrivals, (Poisson, Gamma)) and (self.ranks == 1 or self.routing != "least-loaded")
        served = 1.0 - self.rejected
        found = closed_form(
            self.law, self.lengths, rules_of(self.replica), rate * served / self.ranks, request_s=self.request_s,
            arrivals_scv=scv * shared, untrusted=ALIKE if self.replica.prefix_caching else 0 if independent else BURSTY,
        )  # fmt: skip
        return replace(found, rate_per_s=rate, saturation_per_s=found.saturation_per_s * self.ranks / served)

    def observed(self, rate: float, n_requests: int, n_runs: int, seed: int) -> Observed:
        """By simulation."""
        if rate < LEAST_RATE:
            raise SpecError(
                f"serve(rate_per_s): a simulation takes at least {LEAST_RATE:g} requests a second, got {rate:g}"
            )
        once = isinstance(self.workload, Workload) and isinstance(self.workload.arrivals, Recorded)
        n = n_requests * self.ranks
        if once and isinstance(self.workload, Workload):
            n = min(max(n, len(self.workload)), 4 * n)
        runs = [
            self._run(self.workload.draw(n, rate_per_s=rate, seed=seed + i), seed + i)
            for i in range(1 if once else n_runs)
        ]
        return observed(runs, request_s=self.request_s)

    def _run(self, requests: Requests, seed: int) -> list[Any]:
        parts = _parted(requests, self._whose(requests, seed), self.ranks)
        return [run(self.law, self.replica, part) for part in parts]

    def _whose(self, requests: Requests, seed: int) -> NDArray[np.int64]:
        """Which rank gets each request; one that follows another goes where that one went, to what is kept there."""
        n, size = self.ranks, len(requests)
        if self.routing == "least-loaded" and requests.follows is None:
            return least_loaded(requests, self.law, self.replica, n)
        rng = np.random.default_rng((seed, n))
        to = np.arange(size) % n if self.routing == "round-robin" else rng.integers(0, n, size)
        if requests.follows is not None:
            for i in np.flatnonzero(requests.follows >= 0).tolist():
                to[i] = to[requests.follows[i]]
        return to


def _sample(workload: Workload | Sessions) -> Requests:
    """Requests of the workload, at no rate in particular."""
    if isinstance(workload, Sessions):
        return workload.draw(N_REQUESTS, rate_per_s=1.0)
    return Requests(
        arrival_s=np.arange(len(workload), dtype=np.float64), prompt_tokens=workload.prompt_tokens,
        output_tokens=workload.output_tokens, block_ids=workload.block_ids, block_tokens=workload.block_tokens,
    )  # fmt: skip


def _kept(replica: Replica, d: Deployment, asked: Requests, keeping: Keeping) -> Replica:
    """The replica with what it keeps of beginnings, in whole blocks of whole pages; with a tier in host memory."""
    if asked.block_tokens % replica.page_tokens:
        raise SpecError(
            f"serve(prefix_caching): blocks of {asked.block_tokens} tokens are no whole pages of {replica.page_tokens}; "
            "use prefix_caching=False, or an engine with other pages (page_tokens)"
        )
    if keeping.tier_bytes <= 0.0:
        return replace(replica, prefix_caching=True)
    link = d.hardware.links.host
    if link is None or link.bytes_per_s is None:
        raise SpecError(
            f"serve(tier_bytes): no link of {d.hardware.id} to host memory is on record; leave the tier out"
        )
    token = sequence_bytes(d, tokens=float(asked.block_tokens)) / asked.block_tokens
    rate = link.bytes_per_s * float(links_of(d))
    return replace(
        replica, prefix_caching=True, tier_tokens=int(keeping.tier_bytes / token), tier_tokens_per_s=float(rate / token)
    )


def cached_tokens(requests: Requests) -> NDArray[np.int64]:
    """Of every prompt, what an endless cache would have of it: never its last token, whose logits are wanted  [token]."""
    held = np.array(begun_before(requests.block_ids or ()), dtype=np.int64) * requests.block_tokens
    return np.asarray(np.minimum(held, requests.prompt_tokens - 1))


def _parted(requests: Requests, to: NDArray[np.int64], n: int) -> list[Requests]:
    """The requests each of n gets, in their order."""
    if n == 1:
        return [requests]
    return [_those(requests, np.flatnonzero(to == i)) for i in range(n) if (to == i).any()]


def _those(requests: Requests, which: NDArray[np.intp]) -> Requests:
    """Some of the requests; where one follows another, both are among them."""
    blocks, follows = requests.block_ids, requests.follows
    place = np.full(len(requests) + 1, -1, dtype=np.int64)
    place[which] = np.arange(which.size)
    return Requests(
        arrival_s=requests.arrival_s[which], prompt_tokens=requests.prompt_tokens[which],
        output_tokens=requests.output_tokens[which], block_tokens=requests.block_tokens,
        block_ids=None if blocks is None else tuple(blocks[i] for i in which.tolist()),
        follows=None if follows is None else place[follows[which]],
        think_s=None if requests.think_s is None else requests.think_s[which],
    )  # fmt: skip
