"""A deployment and a workload, and what both answers about load need of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from roofline.answers.estimates import request_s
from roofline.answers.memory import StageMemory
from roofline.answers.phases import how_of
from roofline.answers.serving.closed import Closed, closed_form
from roofline.answers.serving.lengths import Lengths
from roofline.answers.serving.measured import Observed, observed, run
from roofline.answers.serving.steady import Rules
from roofline.answers.simulate import Replica
from roofline.answers.steps import DeploymentLaw, step_law
from roofline.specs.arrivals import Gamma, Poisson, Recorded
from roofline.specs.deployment import Deployment
from roofline.specs.engine import ENDLESS
from roofline.specs.sessions import Sessions
from roofline.specs.workload import Requests, Workload

__all__ = ["Routing", "Service", "replica_of"]

Routing: TypeAlias = Literal["random", "round-robin", "least-loaded"]

N_REQUESTS = 5000
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


@dataclass(frozen=True, slots=True, eq=False)
class Service:
    """A deployment, a workload, and what both answers need of them."""

    deployment: Deployment
    workload: Workload | Sessions
    n_replicas: int
    routing: Routing
    law: DeploymentLaw
    replica: Replica
    lengths: Lengths
    rejected: float
    request_s: float

    @classmethod
    def of(cls, d: Deployment, workload: Workload | Sessions, n_replicas: int, routing: Routing) -> Service | None:
        """Of what can be held; none where nothing can."""
        replica = replica_of(d)
        if replica is None:
            return None
        law = step_law(d)
        if isinstance(workload, Sessions):
            drawn = workload.draw(N_REQUESTS, rate_per_s=1.0)
            prompts, outputs = drawn.prompt_tokens, drawn.output_tokens
        else:
            prompts, outputs = workload.prompt_tokens, workload.output_tokens
        held = np.ceil((prompts + outputs - 1) / replica.page_tokens) <= replica.n_pages
        if replica.max_context_tokens is not None:
            held &= prompts + outputs <= replica.max_context_tokens
        if not held.any():
            return None
        lengths = Lengths.of(prompts[held], outputs[held], windows=law.windows, page_tokens=replica.page_tokens)
        return cls(
            d, workload, n_replicas, routing, law, replica, lengths, 1.0 - float(held.mean()), request_s(d, how_of(d))
        )

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
        rules = Rules.of(
            batch_tokens=self.replica.batch_tokens, max_seqs=self.replica.max_seqs,
            kv_tokens=self.replica.n_pages * self.replica.page_tokens,
        )  # fmt: skip
        served = 1.0 - self.rejected
        found = closed_form(
            self.law, self.lengths, rules, rate * served / self.ranks, request_s=self.request_s,
            arrivals_scv=scv * shared, independent=independent,
        )  # fmt: skip
        return replace(found, rate_per_s=rate, saturation_per_s=found.saturation_per_s * self.ranks / served)

    def observed(self, rate: float, n_requests: int, n_runs: int, seed: int) -> Observed:
        """By simulation."""
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
        return [run(self.law, self.replica, part) for part in _parted(requests, self.ranks, self.routing, seed)]


def _parted(requests: Requests, n: int, routing: Routing, seed: int) -> list[Requests]:
    """The requests each of n gets."""
    if n == 1:
        return [requests]
    size = len(requests)
    to = np.arange(size) % n if routing == "round-robin" else np.random.default_rng((seed, n)).integers(0, n, size)
    return [
        Requests(
            arrival_s=requests.arrival_s[to == i], prompt_tokens=requests.prompt_tokens[to == i],
            output_tokens=requests.output_tokens[to == i],
        )
        for i in range(n) if (to == i).any()
    ]  # fmt: skip
