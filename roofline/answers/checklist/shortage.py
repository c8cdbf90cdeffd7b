"""What a service is short of: the same load with twice the compute, with twice the bandwidth, and in narrower formats."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from roofline.answers.fitting import narrower
from roofline.answers.serving import serve
from roofline.answers.whatif import scaled
from roofline.specs.deployment import Deployment
from roofline.specs.workload import Workload

__all__ = ["BANDWIDTH", "COMPUTE", "Change", "changes_of", "short_of"]

COMPUTE, BANDWIDTH = "twice the compute", "twice the bandwidth"
CLEARLY = 2.0
"""How many times more one ceiling must be worth than the other, to be the one that is short [1]."""
WORTH = 0.02
"""Of saturation: less is worth nothing [1]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change, and the service with it at the same rate, all by the closed form.

    Attributes
    ----------
    name : str
    saturation_per_s, saturation_gain : float
        The most it can serve, and how much more than without the change [1/s, 1].
    ttft_p95_s, tpot_p95_s : float
        At the rate; infinite where it is still too much [s].
    """

    name: str
    saturation_per_s: float
    saturation_gain: float
    ttft_p95_s: float
    tpot_p95_s: float

    def to_dict(self) -> dict[str, Any]:
        """Flat, SI, unit in the key."""
        return asdict(self)


def changes_of(d: Deployment, workload: Workload, *, rate_per_s: float, n_replicas: int = 1) -> tuple[Change, ...]:
    """The service as it is, with twice of each ceiling, and in each narrower format in which a request fits."""
    found: list[Change] = []
    for name, changed in _changed(d):
        s = serve(changed, workload, rate_per_s=rate_per_s, n_replicas=n_replicas, method="closed form")
        if not s.fits:
            continue
        most = float(s.saturation_per_s)
        found.append(
            Change(
                name=name, saturation_per_s=most, ttft_p95_s=float(s.ttft_p95_s), tpot_p95_s=float(s.tpot_p95_s),
                saturation_gain=most / found[0].saturation_per_s - 1.0 if found else 0.0,
            )
        )  # fmt: skip
    return tuple(found)


def _changed(d: Deployment) -> Iterator[tuple[str, Deployment]]:
    yield "as it is", d
    yield COMPUTE, replace(d, hardware=scaled(d.hardware, peak=2.0))
    yield BANDWIDTH, replace(d, hardware=scaled(d.hardware, bandwidth=2.0))
    yield from narrower(d)


def short_of(changes: tuple[Change, ...]) -> str:
    """What more of would raise saturation: "compute", "bandwidth", "both", or "neither".

    >>> def worth(compute, bandwidth):
    ...     gains = ((COMPUTE, compute), (BANDWIDTH, bandwidth))
    ...     return short_of(tuple(Change(name=n, saturation_per_s=1.0, saturation_gain=g, ttft_p95_s=1.0, tpot_p95_s=1.0)
    ...                           for n, g in gains))
    >>> worth(0.6, 0.1), worth(0.1, 0.6), worth(0.3, 0.4), worth(0.0, 0.01)
    ('compute', 'bandwidth', 'both', 'neither')
    """
    gains = {c.name: c.saturation_gain for c in changes}
    compute, bandwidth = gains.get(COMPUTE, 0.0), gains.get(BANDWIDTH, 0.0)
    if np.maximum(compute, bandwidth) < WORTH:
        return "neither"
    if compute >= CLEARLY * bandwidth:
        return "compute"
    return "bandwidth" if bandwidth >= CLEARLY * compute else "both"
