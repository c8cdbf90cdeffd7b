"""Before a launch: what the load is, what the chip is short of for it, whether the cache holds it, and what to watch.

Every figure is another answer's, asked at the same rate: `classify`, `serve`, `memory`, the closed form of load. What is put
together here is only which of them speak against a launch.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from roofline.answers.checklist.capacity import Capacity, capacity_of
from roofline.answers.checklist.live import MOST_READING, Live, live_of
from roofline.answers.checklist.settings import ENOUGH, Setting, settings_of
from roofline.answers.checklist.shortage import BANDWIDTH, COMPUTE, Change, changes_of, short_of
from roofline.answers.estimates import known_of
from roofline.answers.memory import Memory, memory
from roofline.answers.mix import Mix, classify
from roofline.answers.records import evidence_of
from roofline.answers.serving import Serving, serve
from roofline.answers.serving.record import TIMES
from roofline.answers.serving.service import Service
from roofline.errors import RooflineError, SpecError, require, shown
from roofline.num import checked
from roofline.specs import catalog
from roofline.specs.deployment import Deployment
from roofline.specs.slo import SLO
from roofline.specs.workload import Workload, WorkloadSummary

__all__ = [
    "BANDWIDTH", "COMPUTE", "ENGINES", "MOST_READING", "Capacity", "Change", "Checklist", "Live", "Setting", "State",
    "alarm_s", "checklist",
]  # fmt: skip

State: TypeAlias = Literal["ok", "note", "fail"]

ENGINES = ("vllm", "sglang")
"""Those whose settings are suggested."""
CLOSE = 0.85
"""Of saturation, from which on a little more load is a long queue [1]."""
LOST = 0.001
"""Times that a sequence loses its pages, for every request: more is too much [1]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checklist:
    """The answers to four questions at one rate.

    Attributes
    ----------
    serving, mix, memory : Serving, Mix, Memory
        The service at the rate; what is asked; the replica's memory with the sequences that decode.
    summary : WorkloadSummary
    capacity, live : Capacity, Live, or None
        Room for the load, and what a token takes now; none where not one request fits.
    changes : tuple of Change
        The service with more compute, more bandwidth, narrower formats.
    settings : dict
        By engine, the settings that the numbers speak for changing.
    slo : SLO or None
    queue_s : float
        Mean wait until a step takes a prompt; infinite beyond saturation [s].
    """

    deployment: Deployment
    workload: Workload
    rate_per_s: float
    n_replicas: int
    slo: SLO | None
    serving: Serving
    mix: Mix
    memory: Memory
    summary: WorkloadSummary
    capacity: Capacity | None
    live: Live | None
    changes: tuple[Change, ...]
    settings: dict[str, tuple[Setting, ...]]
    queue_s: float

    @property
    def waiting(self) -> float:
        """Requests of the whole service that wait, by Little's law: λ·(mean wait)  [1]."""
        return self.rate_per_s * self.queue_s

    @property
    def missed(self) -> dict[str, float]:
        """Times over the limits of the objective  [s]."""
        return {} if self.slo is None else self.slo.missed({n: float(getattr(self.serving, n)) for n in TIMES})

    @property
    def short_of(self) -> str:
        """What more of would serve more: "compute", "bandwidth", "both" or "neither"."""
        return short_of(self.changes)

    @property
    def headroom(self) -> float | None:
        """How many times the rate fits before the cache is full one look in a hundred; none where it never is  [1]."""
        full = None if self.capacity is None else self.capacity.full_rate_per_s
        return None if full is None else full / self.rate_per_s

    @property
    def states(self) -> dict[str, State]:
        """Of the first three questions, whether the answer stands against a launch.

        | question | fails where                                       | a note where                                     |
        |----------|---------------------------------------------------|--------------------------------------------------|
        | mix      | –                                                 | all requests are alike: nothing is known of p95  |
        | chip     | the rate is beyond saturation, or a limit missed  | more than 85 % of saturation                     |
        | cache    | nothing fits, one request in a thousand loses its | less than a fifth to spare, pages lost at all,   |
        |          | pages, or the cache is full below the rate        | requests too long for it, too few places         |
        """
        s, c = self.serving, self.capacity
        chip: State = "fail" if not s.stable or self.missed else "note" if s.load > CLOSE else "ok"
        return {"mix": "note" if self.mix.alike else "ok", "chip": chip, "cache": _cache(s, c, self.headroom)}

    @property
    def ready(self) -> bool:
        """Whether none of them fails."""
        return "fail" not in self.states.values()

    def to_dict(self) -> dict[str, Any]:
        """Flat, SI, unit in the key; what is infinite or not known is none."""
        d = self.deployment
        head = {"weights": d.numerics.weights_name, "kv": d.numerics.kv.name, "evidence": evidence_of(d),
                "workload": self.workload.name}  # fmt: skip
        limits = {} if self.slo is None else {f"slo_{n}": v for n, v in self.slo.limits.items()}
        room = {} if self.capacity is None else asdict(self.capacity)
        room.pop("n_seq", None)  # the service says it
        body = {
            "ready": self.ready, **{f"{name}_state": state for name, state in self.states.items()},
            **self.serving.to_dict(), **head, **self.mix.to_dict(), "short_of": self.short_of, **room,
            "headroom": self.headroom, "queue_s": self.queue_s, "waiting": self.waiting, **limits,
            **{f"{n}_missed_by": v / limits[f"slo_{n}"] - 1.0 for n, v in self.missed.items()},
        }  # fmt: skip
        lists = {
            "changes": [_finite(c.to_dict()) for c in self.changes],
            "settings": [{"engine": e} | one.to_dict() for e, several in self.settings.items() for one in several],
        }
        return _finite(body) | lists


def _cache(s: Serving, c: Capacity | None, headroom: float | None) -> State:
    lost = s.preemptions or 0.0
    if c is None or lost > LOST or (headroom is not None and headroom < 1.0):
        return "fail"
    tight = lost > 0.0 or (headroom is not None and headroom < ENOUGH)
    return "note" if tight or s.rejected > 0.0 or c.n_seq_p99 > c.max_seqs else "ok"


def _finite(given: dict[str, Any]) -> dict[str, Any]:
    return {k: None if isinstance(v, (float, np.floating)) and not np.isfinite(v) else v for k, v in given.items()}


def checklist(
    deployment: Deployment, workload: Workload, *, rate_per_s: float, slo: SLO | None = None, n_replicas: int = 1,
    engines: tuple[str, ...] = ENGINES,
) -> Checklist:  # fmt: skip
    """The four questions asked before a launch, answered at a rate.

    Parameters
    ----------
    deployment : Deployment
        One replica.
    workload : Workload
        What is asked; a trace says most.
    rate_per_s : float
        Requests that arrive at the service [1/s].
    slo : SLO, optional
        What the service promises.
    n_replicas : int
        [1]
    engines : tuple of str
        Whose settings to suggest; of another engine than the deployment's, from its own defaults.

    Notes
    -----
    Assumes what `serve` does. Changes and settings are compared by the closed form, the service itself by the simulation
    where the closed form must not be trusted.

    Examples
    --------
    >>> from roofline.specs.catalog import hardware, model
    >>> d = Deployment(model=model("llama-3.1-8b"), hardware=hardware("h100"), engine="vllm")
    >>> w = Workload.lognormal(prompt_mean=1000, output_mean=200)
    >>> c = checklist(d, w, rate_per_s=5.0, slo=SLO(ttft_p95_s=1.0, tpot_p95_s=0.05), engines=())
    >>> c.ready, c.states
    (True, {'mix': 'ok', 'chip': 'ok', 'cache': 'ok'})
    """
    require(deployment, Deployment, "checklist(deployment)")
    rate = checked(rate_per_s, name="rate_per_s", low=0.0, above=True)
    if not isinstance(rate, float):
        raise SpecError(f"checklist(rate_per_s): expected one rate, got {shown(rate_per_s)}")
    serving = serve(deployment, workload, rate_per_s=rate, n_replicas=n_replicas)
    n_seq = float(serving.n_seq)
    service = Service.of(deployment, workload, n_replicas, "random") if serving.fits else None
    mix = classify(deployment, workload, batch=_batch(deployment, n_seq))
    room, live, queue_s = None, None, np.inf
    if service is not None:
        closed = service.closed(np.array([rate]))
        own_s = float(closed.ttft_mean_s[0] - closed.queue_mean_s[0]) if serving.stable else 0.0
        queue_s = max(float(serving.ttft_mean_s) - own_s, 0.0)
        known = n_seq if serving.method == "simulation" else None
        room = capacity_of(service, workload, rate_per_s=rate, n_seq=known)
        live = live_of(service, n_seq)
    return Checklist(
        deployment=deployment, workload=workload, rate_per_s=rate, n_replicas=n_replicas, slo=slo, serving=serving,
        mix=mix, summary=workload.summary(), capacity=room, live=live,
        memory=memory(deployment, context_tokens=round(mix.context_mean), batch=mix.batch),
        changes=changes_of(deployment, workload, rate_per_s=rate, n_replicas=n_replicas) if serving.fits else (),
        settings={e: _settings(deployment, e, workload, rate, slo, n_replicas) for e in engines}, queue_s=queue_s,
    )  # fmt: skip


def _batch(d: Deployment, n_seq: float) -> float | None:
    """Whole sequences of all ranks of a replica; the usual ones where there is no steady state."""
    return d.plan.dp * max(1.0, round(n_seq)) if 0.0 < n_seq < np.inf else None


def _settings(
    d: Deployment, engine: str, workload: Workload, rate: float, slo: SLO | None, n_replicas: int
) -> tuple[Setting, ...]:
    """Of the deployment's own engine as it is set, of another with its defaults; none where that one cannot run it."""
    try:
        own = d if d.engine.id == engine else replace(d, engine=catalog.engine(engine), efficiency=None)
    except RooflineError:
        return ()
    return settings_of(own, workload, rate_per_s=rate, slo=slo, n_replicas=n_replicas)


def alarm_s(c: Checklist, name: str) -> float | None:
    """Where a time of the service should wake somebody: its limit, else the upper edge of the estimate's interval  [s]."""
    limit = None if c.slo is None else c.slo.limits.get(name)
    band = known_of(c.deployment).bands.get(name.partition("_")[0])
    value = float(getattr(c.serving, name))
    return limit if limit is not None else value * band.high if band is not None and np.isfinite(value) else None
