"""The questions turned round: the largest rate, the longest prompt and the least memory within an objective."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from roofline.answers.serving import Serving, serve
from roofline.answers.serving.closed import REASONS
from roofline.answers.serving.limits import highest_rate
from roofline.answers.serving.service import one_rate
from roofline.errors import SpecError, require, shown
from roofline.specs.deployment import Deployment
from roofline.specs.slo import SLO
from roofline.specs.workload import Workload

__all__ = ["largest_rate", "least_memory_fraction", "longest_prompt"]

LOADS = np.linspace(0.01, 0.99, 99)
LEAST_FRACTION = 0.01


def largest_rate(deployment: Deployment, workload: Workload, slo: SLO) -> float:
    """The largest rate of one replica within an objective, by the closed form; 0 where none is  [1/s].

    Between the rates of a hundred loads a line is drawn. Arrivals are taken as independent, whatever the workload says; of
    a rate near the end of what is trusted, ask `serve`.

    Examples
    --------
    >>> from roofline.specs.catalog import hardware, model
    >>> d = Deployment(model=model("llama-3.1-8b"), hardware=hardware("h100-sxm-80gb"), engine="vllm")
    >>> w = Workload.fixed(prompt_tokens=1024, output_tokens=128)
    >>> strict, loose = (largest_rate(d, w, SLO(tpot_p95_s=s)) for s in (0.015, 0.05))
    >>> 0.0 < strict < loose
    True
    """
    require(slo, SLO, "largest_rate(slo)")
    return highest_rate(deployment, workload, slo, method="closed form").rate_per_s


def longest_prompt(deployment: Deployment, slo: SLO, *, output_tokens: int, rate_per_s: float) -> int:
    """The longest prompt of requests that are all alike, within an objective at a rate; 0 where none is  [token].

    Found by halving, as every time grows with the prompt; at most what the model reads.
    """
    require(deployment, Deployment, "longest_prompt(deployment)")
    require(slo, SLO, "longest_prompt(slo)")
    rate = one_rate(rate_per_s, "longest_prompt")
    if not isinstance(output_tokens, int) or isinstance(output_tokens, bool) or output_tokens < 1:
        raise SpecError(
            f"longest_prompt(output_tokens): expected a whole number of at least 1, got {shown(output_tokens)}"
        )
    most = int(deployment.model.max_context_tokens or 0) - output_tokens
    if most < 1:
        raise SpecError(f"longest_prompt(output_tokens): {deployment.model.id} reads fewer tokens than {output_tokens}")

    def keeps(prompt: int) -> bool:
        workload = Workload.fixed(prompt_tokens=prompt, output_tokens=output_tokens)
        return _keeps(serve(deployment, workload, rate_per_s=rate, method="closed form"), slo)

    return _most(keeps, 1, most)


def least_memory_fraction(deployment: Deployment, workload: Workload, slo: SLO, *, rate_per_s: float) -> float | None:
    """The least share of a chip's memory an engine needs to keep an objective at a rate, in hundredths; none where no share
    suffices  [1].

    What is left may go to another service. Shares at which requests would be rejected do not suffice.
    """
    require(deployment, Deployment, "least_memory_fraction(deployment)")
    d = deployment
    require(slo, SLO, "least_memory_fraction(slo)")
    rate = one_rate(rate_per_s, "least_memory_fraction")

    def keeps(hundredths: int) -> bool:
        engine = d.engine.varied(memory_fraction=hundredths / 100.0)
        here = Deployment(
            model=d.model,
            hardware=d.hardware,
            plan=d.plan,
            precision=d.precision,
            engine=engine,
            efficiency=d.efficiency,
        )
        found = serve(here, workload, rate_per_s=rate, method="closed form")
        return found.fits and found.rejected == 0.0 and found.why != REASONS[3] and _keeps(found, slo)

    if not keeps(100):
        return None
    low, high = 0, 100
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if keeps(middle) else (middle, high)
    return high / 100.0


def _keeps(found: Serving, slo: SLO) -> bool:
    if not found.fits or not found.stable:
        return False
    return not slo.missed({name: float(getattr(found, name)) for name in slo.limits})


def _most(keeps: Callable[[int], bool], low: int, high: int) -> int:
    """The largest that keeps, of numbers of which all smaller ones do; 0 where none does."""
    if not keeps(low):
        return 0
    if keeps(high):
        return high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if keeps(middle) else (low, middle)
    return low
