"""Which of an engine's settings the numbers speak for changing, each with the figures it follows from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from roofline.answers.checklist.capacity import Capacity, capacity_of
from roofline.answers.fitting import narrower
from roofline.answers.serving import Serving, serve
from roofline.answers.serving.record import TIMES
from roofline.answers.serving.service import Service
from roofline.specs.deployment import Deployment
from roofline.specs.slo import SLO
from roofline.specs.workload import Workload

__all__ = ["ENOUGH", "Setting", "most_within", "settings_of"]

ENOUGH = 1.25
"""How many times the rate the cache must hold: one fifth to spare [1]."""
EIGHT = 8  # sequences, of which a cap is a multiple
THOUSAND = 1024  # tokens, of which a context is
BUDGETS = (512, 1024, 2048, 4096, 8192, 16384)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A setting that should not stay as it is.

    `name`: max_seqs, batch_tokens, context_tokens, kv or graph_seqs. `usual` is what the engine has by itself. `reason` says
    which of the figures it follows from; `figure` is that figure, in the unit of the reason: see `settings_of`.
    """

    name: str
    value: int | str
    usual: int | str
    reason: str
    figure: float

    def to_dict(self) -> dict[str, Any]:
        """Flat."""
        return {n: getattr(self, n) for n in ("name", "value", "usual", "reason", "figure")}


def settings_of(
    d: Deployment, workload: Workload, *, rate_per_s: float, slo: SLO | None, n_replicas: int = 1
) -> tuple[Setting, ...]:
    """The settings of a deployment's engine that follow from the load; none where no request fits.

    | name           | reason  | follows from                                                      | figure               |
    |----------------|---------|-------------------------------------------------------------------|----------------------|
    | max_seqs       | cache   | more at once may fill the cache by their lengths alone            | what it holds [token] |
    | max_seqs       | tpot    | with more at once, a step that only decodes is over the limit     | the limit [s]        |
    | batch_tokens   | slo     | the service misses its objective with the usual one, not with it  | the usual's TPOT [s] |
    | context_tokens | longest | no request of the workload is longer; the model reads more        | the longest [token]  |
    | kv             | cache   | the cache then holds the rate with a fifth to spare, and does not | the rate it does hold |
    | graph_seqs     | batch   | more decode at once than the largest captured graph has           | their 99th percentile |
    """
    service = Service.of(d, workload, n_replicas, "random")
    if service is None:
        return ()
    room = capacity_of(service, workload, rate_per_s=rate_per_s)
    narrow = [*_kv(d, workload, rate_per_s, room, n_replicas)]
    caps = [c for c in _max_seqs(service, room, slo) if c.reason != "cache" or not narrow]  # a narrower one holds more
    return (*caps, *_batch_tokens(d, workload, rate_per_s, slo, n_replicas), *_context(d, workload), *narrow,
            *_graphs(d, room))  # fmt: skip


def _max_seqs(service: Service, room: Capacity, slo: SLO | None) -> Iterator[Setting]:
    """A cap below the engine's own, that the load itself stays below."""
    limits = [(room.seqs_safe, "cache", room.kv_tokens)]
    tpot = _loosest_tpot(slo)
    if tpot is not None:
        limits.append((float(most_within(service, tpot)), "tpot", tpot))
    most, reason, figure = min(limits)
    cap = int(most) // EIGHT * EIGHT
    if max(room.n_seq_p99, EIGHT) <= cap < room.max_seqs:
        yield Setting(name="max_seqs", value=cap, usual=room.max_seqs, reason=reason, figure=figure)


def most_within(service: Service, tpot_s: float) -> int:
    """The most sequences of the mean context whose decode step stays within a time; 0 where even one does not  [1]."""
    law, w = service.law, service.lengths
    n = np.arange(1.0, service.replica.max_seqs + 1.0)
    steps = law.alike(n, n * w.context_mean, [n * seen for seen in w.within], np.zeros_like(n), (0.0, 0.0, 0.0))
    within = np.broadcast_to(steps, n.shape) <= tpot_s
    return int(n.size if within.all() else np.argmin(within))


def _loosest_tpot(slo: SLO | None) -> float | None:
    """The loosest limit on TPOT; none where there is none  [s]."""
    limits = [] if slo is None else [v for name, v in slo.limits.items() if name.startswith("tpot")]
    return max(limits, default=None)


def _batch_tokens(
    d: Deployment, workload: Workload, rate_per_s: float, slo: SLO | None, n_replicas: int
) -> Iterator[Setting]:
    """The budget nearest to the engine's own with which the objective is kept, where it is missed without."""
    tier = d.tier
    if slo is None or tier is None or d.engine.kernels.chunked is False:
        return

    def served(budget: int) -> Serving:
        changed = replace(d, engine=d.engine.varied(batch_tokens=budget))
        return serve(changed, workload, rate_per_s=rate_per_s, n_replicas=n_replicas, method="closed form")

    now = served(tier.batch_tokens)
    if not slo.missed(_times(now)):
        return
    others = sorted((b for b in BUDGETS if b != tier.batch_tokens), key=lambda b: abs(np.log(b / tier.batch_tokens)))
    kept = (b for b in others if not slo.missed(_times(served(b))))
    for budget in kept:
        yield Setting(name="batch_tokens", value=budget, usual=tier.batch_tokens, reason="slo",
                      figure=float(now.tpot_p95_s))  # fmt: skip
        return


def _times(s: Serving) -> dict[str, float]:
    return {n: float(getattr(s, n)) for n in TIMES}


def _context(d: Deployment, workload: Workload) -> Iterator[Setting]:
    """What the longest request needs, where the workload says more than a mean."""
    tokens = workload.prompt_tokens + workload.output_tokens
    longest, most = int(tokens.max()), int(d.model.max_context_tokens)
    value = -(-longest // THOUSAND) * THOUSAND
    if np.ptp(tokens) > 0 and value < most:
        yield Setting(name="context_tokens", value=value, usual=most, reason="longest", figure=float(longest))


def _kv(d: Deployment, workload: Workload, rate_per_s: float, room: Capacity, n_replicas: int) -> Iterator[Setting]:
    """A narrower cache, where the one there is fills and that one does not."""
    full = room.full_rate_per_s
    if full is None or full >= ENOUGH * rate_per_s:
        return
    for label, changed in narrower(d):
        if "KV" not in label:
            continue
        service = Service.of(changed, workload, n_replicas, "random")
        if service is None:
            continue
        after = capacity_of(service, workload, rate_per_s=rate_per_s)
        if np.isfinite(after.n_seq) and (after.full_rate_per_s or np.inf) >= ENOUGH * rate_per_s:
            kv = changed.numerics.kv.name
            yield Setting(name="kv", value=kv, usual=d.numerics.kv.name, reason="cache", figure=full)


def _graphs(d: Deployment, room: Capacity) -> Iterator[Setting]:
    """Graphs for all that decode at once."""
    tier = d.tier
    if tier is None or not tier.graph_seqs or not np.isfinite(room.n_seq_p99):
        return
    needed = int(np.ceil(min(room.n_seq_p99, room.max_seqs) / EIGHT)) * EIGHT
    if needed > tier.graph_seqs:
        yield Setting(name="graph_seqs", value=needed, usual=tier.graph_seqs, reason="batch", figure=room.n_seq_p99)
