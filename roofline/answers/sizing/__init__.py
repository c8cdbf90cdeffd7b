"""How many chips, which, and how laid out: the cheapest way to serve a rate within an objective.

Every chip, plan, pair of formats and setting of the engine is tried, as one pool and as two that split prompts from answers.
The closed form ranks them, all at once; the best are simulated. What fits no memory or cannot keep the objective even when
almost idle is dropped, and says why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias

import numpy as np

from roofline.answers.serving import serve
from roofline.answers.serving.service import one_rate
from roofline.answers.sizing.candidates import Candidate, Dropped, candidates, usual_plans
from roofline.answers.sizing.inverse import largest_rate, least_memory_fraction, longest_prompt
from roofline.answers.sizing.offline import Offline, offline
from roofline.answers.sizing.pools import Priced, choices_of
from roofline.answers.sizing.rows import Choice, Sizing
from roofline.errors import SpecError, require, shown
from roofline.specs import catalog
from roofline.specs.arrivals import Piecewise, Recorded
from roofline.specs.engine import Engine
from roofline.specs.hardware import Hardware
from roofline.specs.model import Model
from roofline.specs.plan import Plan
from roofline.specs.slo import SLO
from roofline.specs.workload import Workload

__all__ = [
    "Candidate", "Choice", "Dropped", "Offline", "Sizing", "largest_rate", "least_memory_fraction", "longest_prompt",
    "offline", "size",
]  # fmt: skip

Progress: TypeAlias = Callable[[int, int], None]

SIMULATED = 5
MOST_REPLICAS = 4  # of a service that is simulated; more of them are alike
BATCH_TOKENS: tuple[int | None, ...] = (512, 2048, 8192)
MAX_SEQS: tuple[int | None, ...] = (None,)


def size(
    model: Model, *, hardware: Sequence[Hardware] | Hardware, workload: Workload, slo: SLO, rate_per_s: float,
    plans: Sequence[Plan] | None = None, formats: Sequence[tuple[str | None, str | None]] = ((None, None),),
    engine: str | Engine = "vllm", batch_tokens: Sequence[int | None] = BATCH_TOKENS,
    max_seqs: Sequence[int | None] = MAX_SEQS, split: bool = True, price: Literal["low", "high"] = "low",
    usd_per_chip_h: Mapping[str, float] | None = None, simulate: int = SIMULATED, progress: Progress | None = None,
) -> Sizing:  # fmt: skip
    """The ways to serve a rate within an objective, the cheapest first.

    Parameters
    ----------
    model : Model
    hardware : Hardware or sequence of them
        Chips to try.
    workload : Workload
        What is asked, and how requests come. Of recorded arrivals the fullest minute is sized for, not the mean.
    slo : SLO
    rate_per_s : float
        The mean rate of the whole service [1/s].
    plans : sequence of Plan
        Ways to lay out a replica; 1, 2, 4 and 8 chips by default (`usual_plans`).
    formats : sequence of (str, str)
        Pairs of weights and cache, such as ("fp8", "bf16"); none for the checkpoint's own.
    engine, batch_tokens, max_seqs
        The engine, and its settings to try; none for its own.
    split : bool
        Whether pools that read prompts and pools that decode are tried too.
    price, usd_per_chip_h : str, mapping
        The price in each chip's record, or of some chips by their ids [USD/h].
    simulate : int
        How many of the best are simulated, with the arrivals of the workload [1].
    progress : callable
        Called with how much is done, and of how much.

    Returns
    -------
    Sizing

    Notes
    -----
    Assumes replicas that share the requests at random, loads of at most 85 %, and a cache that holds the mean and three
    standard deviations of what runs. Pools that are split pass the cache on over the chips' scale-out links.

    Examples
    --------
    >>> from roofline.specs.catalog import hardware, model
    >>> w = Workload.fixed(prompt_tokens=1024, output_tokens=128)
    >>> found = size(model("llama-3.1-8b"), hardware=[hardware("h100-sxm-80gb"), hardware("l40s")], workload=w,
    ...              slo=SLO(ttft_p95_s=1.0, tpot_p95_s=0.05), rate_per_s=20.0, plans=[Plan()], simulate=0)
    >>> {choice.candidate.deployment.hardware.id for choice in found.choices} == {"h100-sxm-80gb", "l40s"}
    True
    """
    require(model, Model, "size(model)")
    require(workload, Workload, "size(workload=…)")
    require(slo, SLO, "size(slo=…)")
    rate = one_rate(rate_per_s, "size")
    _plain_options(plans, formats, batch_tokens, max_seqs, simulate, split)
    chips = (
        (hardware,)
        if isinstance(hardware, Hardware)
        else tuple(hardware)
        if isinstance(hardware, (list, tuple))
        else ()
    )
    for chip in chips:
        require(chip, Hardware, "size(hardware=…)")
    if not chips:
        raise SpecError("size(hardware): expected at least one chip, got none")
    found = catalog.engine(engine) if isinstance(engine, str) else engine
    require(found, Engine, "size(engine=…)")
    peak = rate * _fullest_minute(workload)
    tried = usual_plans(model) if plans is None else tuple(plans)
    lots = candidates(
        model, chips, plans=tried, formats=tuple(formats), engine=found, batch_tokens=tuple(batch_tokens),
        max_seqs=tuple(max_seqs),
    )  # fmt: skip
    total = len(chips) * len(tried) * len(tuple(formats))
    built: list[list[Candidate]] = []
    dropped: list[Dropped] = []
    for i, lot in enumerate(lots):
        if progress is not None:
            progress(i, total)
        built.append(lot) if isinstance(lot, list) else dropped.append(lot)
    cost = Priced(price=price, usd_per_chip_h=dict(usd_per_chip_h or {}))
    choices, front, more = choices_of(built, workload, slo, rate=rate, peak=peak, split=split, priced=cost)
    ordered = sorted(choices, key=_rank)
    if progress is not None:
        progress(total, total)
    best = [_simulated(choice, workload, rate, slo) for choice in ordered[:simulate]]
    return Sizing(
        choices=(*best, *ordered[simulate:]), dropped=(*dropped, *more), pareto=front, rate_per_s=rate,
        peak_rate_per_s=peak, slo=slo, n_tried=len(dropped) + sum(len(lot) * (1 + split) for lot in built),
    )  # fmt: skip


def _plain_options(plans: Any, formats: Any, batch_tokens: Any, max_seqs: Any, simulate: Any, split: Any) -> None:
    """Refuse what is no list of what it should be."""
    for name, given in (("formats", formats), ("batch_tokens", batch_tokens), ("max_seqs", max_seqs), ("plans", plans)):
        if not (name == "plans" and given is None) and (not isinstance(given, (list, tuple)) or not given):
            raise SpecError(f"size({name}): expected a list with at least one, got {shown(given)}")
    for plan in plans or ():
        require(plan, Plan, "size(plans=…)")
    odd = next((pair for pair in formats if not (isinstance(pair, (list, tuple)) and len(pair) == 2)), None)
    if odd is not None:
        raise SpecError(f'size(formats): expected pairs such as ("fp8", "bf16"), got {shown(odd)}')
    for name, given in (("batch_tokens", batch_tokens), ("max_seqs", max_seqs)):
        for value in given:
            _whole(name, value, 1)
    if simulate is None:
        raise SpecError("size(simulate): expected a whole number, 0 for none, got none")
    _whole("simulate", simulate, 0)
    if not isinstance(split, bool):
        raise SpecError(f"size(split): expected True or False, got {shown(split)}")


def _whole(name: str, value: Any, least: int) -> None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < least):
        raise SpecError(f"size({name}): expected a whole number of at least {least}, got {shown(value)}")


def _fullest_minute(workload: Workload) -> float:
    """The rate of the fullest minute, or of the busiest piece, over the mean one; 1 of a process with a steady rate."""
    if isinstance(workload.arrivals, Piecewise):
        shares = workload.arrivals.shares
        return max(shares) * len(shares) / sum(shares)
    if not isinstance(workload.arrivals, Recorded):
        return 1.0
    found = workload.summary().peak_minute_over_mean
    return 1.0 if found is None else max(found, 1.0)


def _rank(choice: Choice) -> tuple[Any, ...]:
    """By price; without one after all that have one, by chips."""
    usd = np.inf if choice.usd_per_mtok is None else choice.usd_per_mtok
    return (usd, choice.n_chips, -choice.headroom, choice.label)


def _simulated(choice: Choice, workload: Workload, rate: float, slo: SLO) -> Choice:
    """With the times of a simulation of up to four of its replicas; split pools stay as the closed form has them."""
    if choice.split:
        return choice
    n = min(choice.n_replicas, MOST_REPLICAS)
    found = serve(
        choice.candidate.deployment, workload, rate_per_s=rate * n / choice.n_replicas, n_replicas=n, method="simulation",
        n_runs=2,
    )  # fmt: skip
    names = dict.fromkeys((*slo.limits, "tpot_mean_s"))
    return replace(choice, simulated={name: float(getattr(found, name)) for name in names})
