"""Jobs without anybody waiting: so many requests by a deadline, how many replicas, how long, at what cost."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from roofline.answers.records import Answer
from roofline.answers.serving import serve
from roofline.answers.tiers import one_number
from roofline.errors import SpecError
from roofline.num import checked
from roofline.specs.deployment import Deployment
from roofline.specs.workload import Workload

__all__ = ["Offline", "offline"]

HOUR_S, MTOK = 3600.0, 1e6
MOST_REJECTED = 1e-3  # share of requests a replica may be too small for


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Offline(Answer):
    """A job: every request there from the start.

    Attributes
    ----------
    n_requests : int
    n_replicas, n_chips : int
        [1]
    seconds : float
        Until the last is done, at full steps [s].
    requests_per_s, tokens_per_s : float
        Of all replicas; tokens read and given [1/s].
    usd, usd_per_mtok : float or None
        For the job, and for a million tokens; none without a price [USD].
    """

    n_requests: int
    n_replicas: int
    n_chips: int
    seconds: float
    requests_per_s: float
    tokens_per_s: float
    usd: float | None
    usd_per_mtok: float | None


def offline(
    deployment: Deployment, workload: Workload, *, n_requests: int, deadline_s: float | None = None,
    n_replicas: int | None = None, usd_per_chip_h: float | None = None,
) -> Offline:  # fmt: skip
    """A job at saturation: the fewest replicas that make a deadline, or what so many take.

        seconds = n / (replicas · saturation)

    Parameters
    ----------
    n_requests : int
        Requests with the lengths of the workload [1].
    deadline_s, n_replicas : float, int
        One of them: seconds there are, or replicas there are.
    usd_per_chip_h : float
        By default the low price in the chip's record [USD/h].

    Notes
    -----
    Assumes steps that are always full; the ramp at both ends, a request long each, is not counted.

    Examples
    --------
    >>> from roofline.specs.catalog import hardware, model
    >>> d = Deployment(model=model("llama-3.1-8b"), hardware=hardware("h100-sxm-80gb"), engine="vllm")
    >>> w = Workload.fixed(prompt_tokens=1024, output_tokens=128)
    >>> one, two = (offline(d, w, n_requests=100_000, n_replicas=n) for n in (1, 2))
    >>> round(one.seconds / two.seconds, 9), offline(d, w, n_requests=100_000, deadline_s=one.seconds).n_replicas
    (2.0, 1)
    """
    n = checked(n_requests, name="n_requests", low=1.0)
    if not isinstance(n, float) or not n.is_integer():
        raise SpecError(f"offline(n_requests): expected a whole number of at least 1, got {n_requests}")
    if (deadline_s is None) == (n_replicas is None):
        raise SpecError("offline: expected either deadline_s=, the seconds there are, or n_replicas=")
    found = serve(deployment, workload, rate_per_s=1.0, method="closed form")
    if not found.fits:
        raise SpecError(f"offline: no request of this workload fits on {deployment.n_chips} × {deployment.hardware.id}")
    if found.rejected > MOST_REJECTED:
        raise SpecError(
            f"offline: {found.rejected:.1%} of the requests are longer than a replica on {deployment.hardware.id} holds, or "
            f"than {deployment.model.id} reads"
        )
    if deadline_s is not None:
        limit = one_number(deadline_s, name="deadline_s", low=1e-9)
        n_replicas = max(1, ceil(n / (found.saturation_per_s * limit) - 1e-9))
    count = int(one_number(n_replicas, name="n_replicas", low=1.0))
    rate = found.saturation_per_s * count
    tokens = workload.mean_prompt_tokens + workload.mean_output_tokens
    n_chips = count * deployment.n_chips
    usd_h = _usd_per_h(deployment, usd_per_chip_h)
    usd = None if usd_h is None else usd_h * n_chips * n / rate / HOUR_S
    return Offline(
        n_requests=int(n), n_replicas=count, n_chips=n_chips, seconds=n / rate, requests_per_s=rate,
        tokens_per_s=rate * tokens, usd=usd, usd_per_mtok=None if usd is None else usd / (n * tokens) * MTOK,
    )  # fmt: skip


def _usd_per_h(deployment: Deployment, given: float | None) -> float | None:
    """What a chip costs, as given or by its record; none where nothing is known  [USD/h]."""
    if given is not None:
        return one_number(given, name="usd_per_chip_h", low=0.0)
    own = deployment.hardware.price
    return None if own is None else own.low_usd_per_h
