"""A service under load: TTFT and TPOT at a rate, with queues, percentiles and the limits of the cache; where it saturates.

Two answers that check each other, both from the one step law of the deployment: the closed form, in microseconds, where its
guard holds, and the simulation of every step where it does not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from roofline.answers.serving.closed import REASONS, Closed
from roofline.answers.serving.measured import Observed
from roofline.answers.serving.record import TIMES, Serving
from roofline.answers.serving.service import N_REQUESTS, Keeping, Routing, Service, replica_of
from roofline.errors import SpecError, require, shown
from roofline.num import Num, checked
from roofline.specs.deployment import Deployment
from roofline.specs.engine import ENDLESS
from roofline.specs.sessions import Sessions
from roofline.specs.workload import Workload

__all__ = ["Method", "Routing", "Serving", "replica_of", "serve"]

Method: TypeAlias = Literal["auto", "closed form", "simulation"]

N_RUNS = 4
MOST_SIMULATED = 64  # rates of one question


def serve(
    deployment: Deployment, workload: Workload | Sessions, *, rate_per_s: Any, n_replicas: int = 1,
    routing: Routing = "random", method: Method = "auto", n_requests: int = N_REQUESTS, n_runs: int = N_RUNS, seed: int = 0,
    prefix_caching: bool | None = None, tier_bytes: float = 0.0,
) -> Serving:  # fmt: skip
    """A deployment in steady state under a workload.

    Parameters
    ----------
    deployment : Deployment
        One replica; its engine's settings (`Engine.varied`) are the scheduler's. An engine that limits nothing gets 2,048
        tokens a step and 256 sequences.
    workload : Workload or Sessions
        Lengths, and how requests come.
    rate_per_s : float or array
        Requests that arrive at the service [1/s].
    n_replicas, routing : int, str
        Replicas, and who gets a request: any at random, each in turn, or the one with the least to read.
    method : str
        "auto": the closed form where its guard holds, else the simulation; or one of them for all.
    n_requests, n_runs, seed : int
        Requests of a simulated run for each replica, independent runs, and the seed of the first. A trace happens once: it
        is one run.
    prefix_caching, tier_bytes : bool, float
        Whether the free pages of a replica keep beginnings of prompts for others that begin alike, and host memory behind
        them [B]; by default where the workload says which do, as engines have it.

    Returns
    -------
    Serving

    Notes
    -----
    Assumes replicas that are alike, requests that wait for ever, and the engine described in `simulate`. Times are
    estimates as `predict` makes them; the guard and the error bars are about queueing, not about the machine.

    Examples
    --------
    >>> from roofline.specs.catalog import hardware, model
    >>> d = Deployment(model=model("llama-3.1-8b"), hardware=hardware("h100-sxm-80gb"))
    >>> w = Workload.fixed(prompt_tokens=1024, output_tokens=128)
    >>> s = serve(d, w, rate_per_s=[10.0, 1000.0])
    >>> s.stable.tolist(), s.method.tolist()
    ([True, False], ['closed form', 'closed form'])
    """
    require(deployment, Deployment, "serve(deployment)")
    if not isinstance(workload, (Workload, Sessions)):
        raise SpecError(f"serve(workload): expected a Workload, got {shown(workload)}; make one with Workload.fixed(…)")
    rate = checked(rate_per_s, name="rate_per_s", low=0.0, above=True)
    _options(n_replicas, routing, method, n_requests, n_runs, seed)
    keeping = Keeping(prefixes=prefix_caching, tier_bytes=_bytes(tier_bytes))
    service = Service.of(deployment, workload, n_replicas, routing, keeping)
    if service is None:
        return _does_not_fit(deployment, rate, n_replicas)
    asked = np.atleast_1d(np.asarray(rate, dtype=np.float64)).ravel()
    closed = service.closed(asked)
    simulated: dict[int, Observed] = {}
    for i in _to_simulate(closed, method):
        simulated[i] = service.observed(float(asked[i]), n_requests, n_runs, seed)
    return _answer(service, rate, closed, simulated)


def _options(n_replicas: int, routing: str, method: str, n_requests: int, n_runs: int, seed: int) -> None:
    counts = (("n_replicas", n_replicas, 1), ("n_requests", n_requests, 1), ("n_runs", n_runs, 1), ("seed", seed, 0))
    for name, value, least in counts:
        if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < least:
            raise SpecError(f"serve({name}): expected a whole number of at least {least}, got {shown(value)}")
    for name, given, known in (("routing", routing, Routing), ("method", method, Method)):
        if given not in get_args(known):
            raise SpecError(f"serve({name}): expected one of {', '.join(get_args(known))}, got {shown(given)}")


def _bytes(tier_bytes: float) -> float:
    size = checked(tier_bytes, name="tier_bytes", low=0.0)
    if not isinstance(size, float):
        raise SpecError("serve(tier_bytes): expected one number of bytes, got an array")
    return size


def _to_simulate(closed: Closed, method: Method) -> list[int]:
    if method == "closed form":
        return []
    stable = closed.rate_per_s < closed.saturation_per_s
    wanted = np.flatnonzero(stable & ((closed.reason > 0) | (method == "simulation")))
    if wanted.size > MOST_SIMULATED:
        raise SpecError(
            f"serve(rate_per_s): {wanted.size} of these rates need the simulation, of at most {MOST_SIMULATED} at once; "
            'ask for fewer, or for method="closed form", which says where it must not be trusted'
        )
    return [int(i) for i in wanted]


def _answer(service: Service, rate: Num, closed: Closed, simulated: dict[int, Observed]) -> Serving:
    shape = np.shape(rate)
    columns: dict[str, Any] = {n: getattr(closed, n).copy() for n in (*TIMES, "n_seq")}
    method = np.full(closed.rate_per_s.shape, "closed form", dtype=object)
    capacity = service.replica.n_pages * service.replica.page_tokens
    columns["kv_use"] = closed.kv_tokens / capacity
    outputs = service.lengths.decode_mean + 1.0
    columns["output_tokens_per_s"] = (
        np.minimum(closed.rate_per_s, closed.saturation_per_s) * (1.0 - service.rejected) * outputs
    )
    for i, found in simulated.items():
        method[i] = "simulation"
        for name in TIMES:
            columns[name][i] = found.times[name]
        columns["n_seq"][i] = found.n_seq / service.ranks
        columns["kv_use"][i] = min(found.n_seq / service.ranks * service.lengths.held_mean / capacity, 1.0)
        columns["output_tokens_per_s"][i] = found.output_tokens_per_s
    counts, spread = _runs(simulated, closed.rate_per_s < closed.saturation_per_s, shape)

    def shaped(values: Any) -> Any:
        if shape:
            return values.reshape(shape)
        return values.reshape(-1)[0].item() if isinstance(values, np.ndarray) else values

    why = np.array([REASONS[r] for r in closed.reason], dtype=object)
    return Serving(
        deployment=service.deployment, rate_per_s=rate, saturation_per_s=float(closed.saturation_per_s[0]),
        n_replicas=service.n_replicas, stable=shaped(closed.rate_per_s < closed.saturation_per_s), fits=True,
        method=shaped(method) if shape else str(method[0]), why=shaped(why) if shape else str(why[0]),
        rejected=service.rejected, preemptions=counts.get("preemptions"), hit_share=counts.get("hit_share"), errors=spread,
        notes=_notes(service),
        **{n: shaped(v) for n, v in columns.items()},
    )  # fmt: skip


def _runs(simulated: dict[int, Observed], stable: Any, shape: tuple[int, ...]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What only runs tell, and standard errors, where every rate that is stable was simulated; infinite where it is not."""
    if not simulated or len(simulated) < np.count_nonzero(stable):
        return {}, {}

    def of(value: Callable[[Observed], float]) -> Any:
        filled = np.full(stable.shape, np.inf)
        for i, found in simulated.items():
            filled[i] = value(found)
        return filled.reshape(shape) if shape else float(filled[0])

    names = next(iter(simulated.values())).errors
    counts = {"preemptions": of(lambda o: o.preemptions), "hit_share": of(lambda o: o.hit_share)}
    return counts, {n: of(lambda o, n=n: o.errors[n]) for n in names}  # type: ignore[misc]


def _notes(service: Service) -> tuple[str, ...]:
    d, r = service.deployment, service.replica
    said = [f"{d.engine.id} limits nothing: {r.batch_tokens:,} tokens a step and {r.max_seqs} sequences"]
    if d.tier is not None and max(d.tier.batch_tokens, d.tier.max_seqs) < ENDLESS:
        said = []
    if service.rejected:
        said.append(
            f"{service.rejected:.2%} of the requests are longer than a replica holds or the model reads: rejected"
        )
    return (*said, *d.said())


def _does_not_fit(deployment: Deployment, rate: Num, n_replicas: int) -> Serving:
    """The answer of a deployment that holds no request."""
    shape = np.shape(rate)

    def all_of(value: Any) -> Any:
        return np.full(shape, value) if shape else value

    endless = {n: all_of(np.inf) for n in TIMES}
    return Serving(
        deployment=deployment, rate_per_s=rate, saturation_per_s=0.0, n_replicas=n_replicas, stable=all_of(False),
        fits=False, method=all_of("closed form"), why=all_of("no request fits"), n_seq=all_of(0.0), kv_use=all_of(0.0),
        output_tokens_per_s=all_of(0.0), rejected=1.0, preemptions=None, hit_share=None, errors={}, notes=(), **endless,
    )  # fmt: skip
