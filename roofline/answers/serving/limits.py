"""What a service can take: which of its limits saturates it first, and the highest rate that keeps a promise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from roofline.answers.serving import N_RUNS, Method, serve
from roofline.answers.serving.knee import meets_up_to
from roofline.answers.serving.record import Serving
from roofline.answers.serving.service import N_REQUESTS, Routing, Service
from roofline.answers.serving.steady import Rules, saturation
from roofline.specs.deployment import Deployment
from roofline.specs.sessions import Sessions
from roofline.specs.slo import SLO
from roofline.specs.workload import Workload

__all__ = ["Highest", "Limit", "curve", "highest_rate", "limit_of"]

N_RATES = 160
LOWEST, UPMOST = 0.01, 0.995  # of a curve, shares of saturation
CLOSE = 1 / 32  # of saturation, to which a rate is sought by simulation
ENDLESS = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """What is full first as the rate grows.

    Attributes
    ----------
    name : str
        "steps": every step is full of tokens; "cache": no pages are free; "sequences": as many run as may at once.
    n_seq : float
        Sequences a rank runs at once at most [1].
    step_s : float
        What a full step takes, of "steps" [s].
    relieved_per_s : float
        Where it would saturate without that limit; of "steps", as it is [1/s].
    """

    name: Literal["steps", "cache", "sequences"]
    n_seq: float
    step_s: float
    relieved_per_s: float


def limit_of(
    deployment: Deployment, workload: Workload | Sessions, *, n_replicas: int = 1, routing: Routing = "random"
) -> Limit | None:
    """The limit that a deployment saturates at; none where no request fits.

    Examples
    --------
    >>> from roofline.specs.catalog import hardware, model
    >>> d = Deployment(model=model("llama-3.1-8b"), hardware=hardware("h100-sxm-80gb"))
    >>> limit_of(d, Workload.fixed(prompt_tokens=1024, output_tokens=128)).name
    'steps'
    >>> limit_of(d, Workload.fixed(prompt_tokens=16, output_tokens=1024)).name
    'sequences'
    """
    service = Service.of(deployment, workload, n_replicas, routing)
    if service is None:
        return None
    w, r = service.lengths, service.replica
    pages = r.n_pages * r.page_tokens
    share = service.ranks / (1.0 - service.rejected)

    def at(max_seqs: float, kv_tokens: float) -> float:
        rules = Rules.of(batch_tokens=r.batch_tokens, max_seqs=max_seqs, kv_tokens=kv_tokens)
        return float(saturation(service.law, w, rules)) * share

    own, free = at(r.max_seqs, pages), at(ENDLESS, ENDLESS)
    held = float(Rules.of(batch_tokens=r.batch_tokens, max_seqs=ENDLESS, kv_tokens=pages).most(w))
    step_s = r.batch_tokens / ((w.prompt_mean + w.decode_mean) * own / share)
    if free <= own * 1.001:
        return Limit(name="steps", n_seq=min(held, float(r.max_seqs)), step_s=step_s, relieved_per_s=own)
    if held < r.max_seqs:
        return Limit(name="cache", n_seq=held, step_s=step_s, relieved_per_s=at(r.max_seqs, ENDLESS))
    return Limit(name="sequences", n_seq=float(r.max_seqs), step_s=step_s, relieved_per_s=at(ENDLESS, pages))


def curve(
    deployment: Deployment, workload: Workload | Sessions, *, n_replicas: int = 1, routing: Routing = "random",
    n_rates: int = N_RATES,
) -> Serving | None:  # fmt: skip
    """The closed form at rates from almost none to almost saturation; none where no request fits."""
    options: dict[str, Any] = {"n_replicas": n_replicas, "routing": routing, "method": "closed form"}
    most = serve(deployment, workload, rate_per_s=1.0, **options).saturation_per_s
    if most <= 0.0:
        return None
    return serve(deployment, workload, rate_per_s=most * np.linspace(LOWEST, UPMOST, n_rates), **options)


@dataclass(frozen=True, slots=True, kw_only=True)
class Highest:
    """The highest rate at which a promise is kept [1/s], and the method that found it."""

    rate_per_s: float
    method: str


def highest_rate(
    deployment: Deployment, workload: Workload | Sessions, slo: SLO, *, n_replicas: int = 1, routing: Routing = "random",
    method: Method = "auto", n_requests: int = N_REQUESTS, n_runs: int = N_RUNS, seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> Highest:  # fmt: skip
    """The highest rate at which every limit of an SLO is kept.

    By the closed form where that is trusted there; else by halving what lies between the last rate it is trusted at and
    saturation, a simulation at a time, to 1/32 of saturation.

    Examples
    --------
    >>> from roofline.specs.catalog import hardware, model
    >>> d = Deployment(model=model("llama-3.1-8b"), hardware=hardware("h100-sxm-80gb"))
    >>> w = Workload.fixed(prompt_tokens=1024, output_tokens=128)
    >>> found = highest_rate(d, w, SLO(tpot_p95_s=0.012))
    >>> at = serve(d, w, rate_per_s=found.rate_per_s)
    >>> found.method, round(at.tpot_p95_s, 4)
    ('closed form', 0.012)
    """
    along = curve(deployment, workload, n_replicas=n_replicas, routing=routing)
    if along is None:
        return Highest(rate_per_s=0.0, method="closed form")
    up_to = meets_up_to(along, slo)
    rates = np.asarray(along.rate_per_s)
    trusted = np.asarray(along.why) == ""
    nearest = min(int(np.searchsorted(rates, up_to)), rates.size - 1)
    if method == "closed form" or up_to == 0.0 or (method == "auto" and trusted[nearest]):
        return Highest(rate_per_s=up_to, method="closed form")
    options: dict[str, Any] = {"n_requests": n_requests, "n_runs": n_runs, "seed": seed, "method": "simulation"}
    kept = rates[trusted & (rates <= up_to)] if method == "auto" else rates[:0]
    low, high = float(kept.max()) if kept.size else 0.0, along.saturation_per_s
    while high - low > CLOSE * along.saturation_per_s:
        rate = (low + high) / 2.0
        found = serve(deployment, workload, rate_per_s=rate, n_replicas=n_replicas, routing=routing, **options)
        if progress is not None:
            progress(f"the highest rate: tried {rate:.3g}/s")
        met = not slo.missed({name: float(getattr(found, name)) for name in slo.limits})
        low, high = (rate, high) if met else (low, rate)
    return Highest(rate_per_s=low, method="simulation")
