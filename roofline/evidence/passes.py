"""What a run measured, as the passes that each figure is made of; and which runs are one batch's passes at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from roofline.answers.chunks import first_token
from roofline.answers.estimates import request_s
from roofline.answers.phases import decode, how_of
from roofline.errors import Unsupported
from roofline.evidence.measurements import Part
from roofline.evidence.runs import Run
from roofline.specs.deployment import Deployment

__all__ = ["Figure", "Measured", "Totals", "figures_of", "not_static", "said_of_load", "totals_of"]

Measured = Literal["ttft", "tpot", "e2e", "output_tokens_per_s"]

CONTEXTS = 32
"""Decode passes that are counted of a request, evenly over its contexts; all where it has no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured quantity of a run and the passes it is made of, so many times each.

    `measured` is in its own unit (s, or tokens/s); `tokens` turns a time into a speed:  tokens / seconds  [token]. `once`
    says whether what a request costs once is part of it.
    """

    run: Run
    what: Measured
    measured: float
    parts: tuple[Part, ...]
    once: bool
    tokens: float | None = None

    @property
    def seconds(self) -> float:
        """What was measured, as a time  [s]."""
        return self.measured if self.tokens is None else self.tokens / self.measured


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Sums over the passes of a figure: estimate, floor, fixed overhead [s], work and traffic of a chip [FLOP, B].

    `rated_s` is the model's own work at the rated peaks, `compulsory_s` the bytes that must be moved at the rated bandwidth.
    """

    seconds: float
    floor_s: float
    overhead_s: float
    rated_s: float
    compulsory_s: float
    flops: float
    hbm_bytes: float


def not_static(run: Run) -> str | None:
    """Why a run is not one batch's passes, or none where it is: static, or one user who asks one request after another."""
    if run.doubtful:
        return f"doubtful: {', '.join(run.doubtful)} contradict other fields of the file"
    if run.load == "open-loop":
        rate = "" if run.rate_per_s is None else f" at {run.rate_per_s:g} requests/s"
        return f"requests arrive{rate}: needs the load model"
    if run.load == "closed-loop" and run.batch != 1.0:
        return f"{run.batch or 0:g} users at once: needs the load model"
    return None


def said_of_load(run: Run) -> str:
    """How a run that can be compared was loaded, in words."""
    return "static batch" if run.load == "static" else "one user, compared as a static batch of one"


def figures_of(
    run: Run, deployment: Deployment, *, prefix_tokens: float = 0.0, shared_tokens: float = 0.0
) -> tuple[Figure, ...]:
    """The figures of a run that is one batch's passes, each with its passes on the deployment.

        ttft                 the passes over the prompts, and what a request costs once
        tpot                 (1/n) · Σ of the n decode passes
        e2e                  both
        output_tokens_per_s  B · N / e2e

    `prefix_tokens` of each prompt, beside those the run names, are cached already; `shared_tokens` begin every prompt.
    """
    d = deployment
    if d.model.reads_a_source:
        raise Unsupported(
            f"{run.where}: {d.model.id} reads a source beside the prompt, which no benchmark file describes"
        )
    batch, n, past = run.batch or 1.0, run.n_decodes, run.past_tokens or 0.0
    reading: tuple[Part, ...] = ()
    if run.prompt_tokens:
        read = first_token(
            d, prompt_tokens=run.prompt_tokens + past, batch=batch, prefix_tokens=past + prefix_tokens,
            shared_tokens=shared_tokens,
        )  # fmt: skip
        reading = ((1.0, read),)
    found = []
    if run.ttft_s is not None and reading:
        found.append(Figure(run=run, what="ttft", measured=run.ttft_s, parts=reading, once=True))
    context = run.context_tokens
    if context is None or (run.tpot_s is None and not (n and n >= 1.0)):
        return tuple(found)
    contexts = _contexts(context, n or 1.0)
    steps = decode(d, context_tokens=contexts, batch=batch, shared_tokens=min(shared_tokens, float(contexts.min())))
    if run.tpot_s is not None:
        mean: Part = (1.0 / len(contexts), steps)
        found.append(Figure(run=run, what="tpot", measured=run.tpot_s, parts=(mean,), once=False))
    if n is None or not reading:
        return tuple(found)
    whole = (*reading, (n / len(contexts), steps))
    if run.e2e_s is not None:
        found.append(Figure(run=run, what="e2e", measured=run.e2e_s, parts=whole, once=True))
    if run.output_tokens_per_s is not None:
        tokens = batch * (run.output_tokens or 0.0)
        found.append(Figure(run=run, what="output_tokens_per_s", measured=run.output_tokens_per_s, parts=whole, once=True,
                            tokens=tokens))  # fmt: skip
    return tuple(found)


def _contexts(mean: float, n: float) -> NDArray[np.float64]:
    """Contexts of n passes about their mean, one after another; the middles of equal shares where they are many."""
    count = max(1, min(round(n), CONTEXTS))
    offsets = (np.arange(count) + 0.5) / count - 0.5
    return np.maximum(mean + n * offsets, 0.0)


def totals_of(figure: Figure, deployment: Deployment) -> Totals:
    """What the deployment makes of a figure's passes."""
    once = request_s(deployment, how_of(deployment)) if figure.once else 0.0
    sums = {"seconds": once, "floor_s": 0.0, "overhead_s": once, "rated_s": 0.0, "compulsory_bytes": 0.0,
            "executed_flops": 0.0, "hbm_bytes": 0.0}  # fmt: skip
    for times, timing in figure.parts:
        for name in sums:
            sums[name] += times * _summed(getattr(timing, name), np.shape(timing.seconds))
    compulsory = sums.pop("compulsory_bytes") / deployment.hardware.hbm_bytes_per_s
    return Totals(compulsory_s=compulsory, flops=sums.pop("executed_flops"), **sums)


def _summed(value: object, shape: tuple[int, ...]) -> float:
    """Over the passes, of which a quantity may be the same in all."""
    return float(np.sum(np.broadcast_to(np.asarray(value, dtype=np.float64), shape)))
