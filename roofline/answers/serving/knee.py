"""Where waiting begins to hurt, and up to what rate a promise is kept: read off a service at many rates."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from roofline.answers.serving.record import Serving
from roofline.errors import SpecError
from roofline.specs.slo import SLO

__all__ = ["TIMES_ZERO_LOAD", "knee", "meets_up_to"]

Floats = NDArray[np.float64]

TIMES_ZERO_LOAD = 2.0
"""The knee is where p95 TTFT is so many times what it is at almost no load."""


def knee(serving: Serving) -> float | None:
    """The first rate whose p95 TTFT is over twice that of the lowest rate, which stands for no load.  [1/s]

    Parameters
    ----------
    serving : Serving
        At several rates, the lowest of them a small share of saturation.

    Returns
    -------
    float or None
        Between two rates on a straight line of log TTFT; the saturation rate where the queue that grows for ever is the
        first to pass; none where nothing does.

    Examples
    --------
    >>> from roofline.answers.serving import serve
    >>> from roofline.specs.catalog import hardware, model
    >>> from roofline.specs.deployment import Deployment
    >>> from roofline.specs.workload import Workload
    >>> d = Deployment(model=model("llama-3.1-8b"), hardware=hardware("h100-sxm-80gb"))
    >>> w = Workload.fixed(prompt_tokens=1024, output_tokens=128)
    >>> s = serve(d, w, rate_per_s=[0.5, 5.0, 10.0, 20.0, 100.0], method="closed form")
    >>> 10.0 < knee(s) < 20.0
    True
    """
    rates, order = _rates(serving)
    ttft = _values(serving.ttft_p95_s)[order]
    if not np.isfinite(ttft[0]):
        return None
    return _first_over(rates, ttft, TIMES_ZERO_LOAD * float(ttft[0]), serving.saturation_per_s)


def meets_up_to(serving: Serving, slo: SLO) -> float:
    """The rate up to which every limit is kept, of the rates that were asked; 0 where not even the lowest keeps them.  [1/s]

    Between two rates on a straight line of the log time; at most the saturation rate.
    """
    rates, order = _rates(serving)
    up_to = float(min(rates[-1], serving.saturation_per_s))
    for name, limit in slo.limits.items():
        values = _values(getattr(serving, name))[order]
        if not values[0] <= limit:
            return 0.0
        found = _first_over(rates, values, limit, serving.saturation_per_s)
        up_to = up_to if found is None else min(up_to, found)
    return up_to


def _rates(serving: Serving) -> tuple[Floats, NDArray[np.intp]]:
    """In order, and the order."""
    rates = _values(serving.rate_per_s)
    if rates.size < 2:
        raise SpecError("knee: expected a service at several rates, got one; ask serve with a list of rates")
    order = np.argsort(rates)
    return rates[order], order


def _values(given: Any) -> Floats:
    return np.atleast_1d(np.asarray(given, dtype=np.float64)).ravel()


def _first_over(rates: Floats, values: Floats, limit: float, saturation: float) -> float | None:
    """Where the values first pass a limit; none where they never do."""
    over = np.flatnonzero(~(values <= limit))
    if not over.size:
        return None
    i = int(over[0])
    if i == 0 or not np.isfinite(values[i]):
        return float(min(rates[i], saturation))
    before, after = np.log(values[i - 1]), np.log(values[i])
    share = (np.log(limit) - before) / (after - before)
    return float(rates[i - 1] + share * (rates[i] - rates[i - 1]))
