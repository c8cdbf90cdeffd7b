"""Long prompts or long answers: which phase a workload loads on a chip, and what binds it there.

    R = E[ seconds of the passes that read a prompt ]                     of one request  [s]
    D = E[ output − 1 ] · t_d(B, c̄) / B                                   its part of B decodes of mean context c̄  [s]
    share of a busy replica's time that goes to reading = R / (R + D)

How many prompt tokens cost as much time as one token of an answer is a property of the chip, the model and the batch:

    break-even ratio = (D / output tokens) / (R / prompt tokens)

A workload with more prompt tokens for each token of its answers than that spends more time reading than writing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roofline.answers.chunks import first_token
from roofline.answers.phases import decode
from roofline.answers.serving import serve
from roofline.answers.serving.lengths import Lengths
from roofline.errors import SpecError, require, shown
from roofline.num import checked
from roofline.specs.deployment import Deployment
from roofline.specs.workload import Workload
from roofline.timing.clock import Timing

__all__ = ["HEAVY", "TYPICAL_LOAD", "Mix", "classify"]

Floats = NDArray[np.float64]

HEAVY = 0.6
"""A phase that takes this share of the time or more is the one the workload loads [1]."""
TYPICAL_LOAD = 0.8
"""Of saturation, where the batch is taken that a busy replica decodes [1]."""
SIZES = 256
"""Kinds of prompts that are told apart [1]."""
LONG = 4.0
"""Prompt tokens for each token of an answer from which prompts are called long; below 1, answers are [1]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """What is asked, which phase that loads, and what binds each phase.

    Attributes
    ----------
    prompt_mean, prompt_p50, prompt_p95, output_mean, output_p50, output_p95 : float
        Lengths of the workload [token].
    longest_tokens : int
        The longest request: prompt and answer together [token].
    alike : bool
        Whether all requests have the same lengths, so that nothing is known of the long ones.
    batch : float
        B: sequences that decode together on one replica [1].
    context_mean : float
        c̄: mean context of a decode step, its own token among them [token].
    prefill_s, decode_s : float
        R and D: what one request takes of a replica [s].
    prefill_flops, decode_flops, prefill_bytes, decode_bytes : float
        Of one request, on one chip [FLOP, B].
    prefill_intensity, decode_intensity, ridge : float
        FLOP per byte of the passes over a mean prompt, and of a decode step [FLOP/B].
    prefill_bound, decode_bound : str
        The resource that binds each; of a decode that there is none of, "nothing".
    """

    prompt_mean: float
    prompt_p50: float
    prompt_p95: float
    output_mean: float
    output_p50: float
    output_p95: float
    longest_tokens: int
    alike: bool
    batch: float
    context_mean: float
    prefill_s: float
    decode_s: float
    prefill_flops: float
    decode_flops: float
    prefill_bytes: float
    decode_bytes: float
    prefill_intensity: float
    decode_intensity: float
    ridge: float
    prefill_bound: str
    decode_bound: str

    @property
    def prompt_to_output(self) -> float:
        """Prompt tokens for each token of an answer  [1]."""
        return self.prompt_mean / self.output_mean

    @property
    def break_even(self) -> float:
        """The ratio of prompt to answer at which both phases take as long; infinite where nothing decodes  [1]."""
        if self.decode_s == 0.0:
            return np.inf
        return (self.decode_s / self.output_mean) / (self.prefill_s / self.prompt_mean)

    @property
    def prefill_time_share(self) -> float:
        """R / (R + D)  [1]."""
        return self.prefill_s / (self.prefill_s + self.decode_s)

    @property
    def prefill_flops_share(self) -> float:
        """Of a request's FLOPs, those of its prompt  [1]."""
        return self.prefill_flops / (self.prefill_flops + self.decode_flops)

    @property
    def prefill_bytes_share(self) -> float:
        """Of the bytes moved for a request, those for its prompt  [1]."""
        return self.prefill_bytes / (self.prefill_bytes + self.decode_bytes)

    @property
    def kind(self) -> str:
        """The phase it loads: "prefill-heavy" or "decode-heavy" from 60 % of the time on, else "balanced"."""
        share = self.prefill_time_share
        return "prefill-heavy" if share >= HEAVY else "decode-heavy" if share <= 1.0 - HEAVY else "balanced"

    @property
    def lengths(self) -> str:
        """What is long by the count of tokens: "long prompts" from 4 for each of the answer, "long answers" below 1."""
        ratio = self.prompt_to_output
        return "long prompts" if ratio >= LONG else "long answers" if ratio < 1.0 else "prompts and answers alike"

    @property
    def bound(self) -> str:
        """The resource that binds the phase that takes most of the time."""
        return self.prefill_bound if self.prefill_time_share >= 0.5 else self.decode_bound

    def to_dict(self) -> dict[str, Any]:
        """Flat, SI, unit in the key."""
        names = (
            "kind", "lengths", "prompt_to_output", "break_even", "prompt_mean", "prompt_p50", "prompt_p95", "output_mean",
            "output_p50", "output_p95", "longest_tokens", "alike", "batch", "context_mean", "prefill_s", "decode_s",
            "prefill_time_share", "prefill_flops_share", "prefill_bytes_share", "prefill_intensity", "decode_intensity",
            "ridge", "prefill_bound", "decode_bound",
        )  # fmt: skip
        return {n: getattr(self, n) for n in names}


def classify(deployment: Deployment, workload: Workload, *, batch: float | None = None) -> Mix:
    """What a workload's mix of prompts and answers loads on a deployment.

    Parameters
    ----------
    deployment : Deployment
        One replica.
    workload : Workload
        Its lengths; when they come does not matter here.
    batch : float, optional
        Sequences that decode together on a replica [1]; where not given, what the closed form of `serve` has at 80 % of
        saturation, in whole sequences.

    Notes
    -----
    Assumes that reading and writing take turns: a step that does both at once reads the weights once for both, which this
    counts twice. Prompts are read alone, in chunks of the engine's budget, one on each data-parallel rank.

    Examples
    --------
    A token of a lone answer takes an H100 as long as 277 tokens of a prompt of an 8B model; with 64 answers at once, as 10.

    >>> from roofline.specs.catalog import hardware, model
    >>> d = Deployment(model=model("llama-3.1-8b"), hardware=hardware("h100-sxm-80gb"))
    >>> w = Workload.fixed(prompt_tokens=2048, output_tokens=256)
    >>> alone, crowd = (classify(d, w, batch=n) for n in (1, 64))
    >>> alone.kind, crowd.kind, round(alone.break_even), round(crowd.break_even)
    ('decode-heavy', 'balanced', 277, 10)
    """
    require(deployment, Deployment, "classify(deployment)")
    if not isinstance(workload, Workload):
        raise SpecError(
            f"classify(workload): expected a Workload, got {shown(workload)}; make one with Workload.fixed(…)"
        )
    d, p, o = deployment, workload.prompt_tokens, workload.output_tokens
    w = Lengths.of(p, o)
    n = _typical(d, workload) if batch is None else float(checked(batch, name="batch", low=1.0))
    sizes, shares = _sizes(p)
    read = first_token(d, prompt_tokens=sizes, batch=d.plan.dp)
    mean = first_token(d, prompt_tokens=float(max(np.rint(w.prompt_mean), 1.0)), batch=d.plan.dp)
    step = decode(d, context_tokens=max(w.context_mean - 1.0, 0.0), batch=n)
    steps = w.decode_mean / n  # of B decodes, this many are the request's own
    return Mix(
        prompt_mean=w.prompt_mean, output_mean=w.decode_mean + 1.0, **_quantiles(workload),
        longest_tokens=int((p + o).max()), alike=bool(np.ptp(p) == 0 and np.ptp(o) == 0), batch=n,
        context_mean=w.context_mean,
        prefill_s=_of_one(read.seconds, shares, d.plan.dp), decode_s=steps * float(step.seconds),
        prefill_flops=_of_one(read.flops, shares, d.plan.dp), decode_flops=steps * float(step.flops),
        prefill_bytes=_of_one(read.hbm_bytes, shares, d.plan.dp), decode_bytes=steps * float(step.hbm_bytes),
        prefill_intensity=float(mean.intensity), decode_intensity=float(step.intensity), ridge=float(mean.ridge),
        prefill_bound=str(mean.bound), decode_bound=_bound(step, w.decode_mean),
    )  # fmt: skip


def _bound(step: Timing, n_steps: float) -> str:
    return str(step.bound) if n_steps else "nothing"


def _sizes(prompts: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """The lengths there are and the share of each; of many, the means of as many equal parts as are told apart.

    >>> [v.tolist() for v in _sizes(np.array([300, 100, 100, 100]))]
    [[100.0, 300.0], [0.75, 0.25]]
    """
    sizes, counts = np.unique(prompts, return_counts=True)
    if sizes.size <= SIZES:
        return sizes.astype(np.float64), counts / prompts.size
    parts = np.array_split(np.sort(prompts).astype(np.float64), SIZES)
    return np.array([np.rint(part.mean()) for part in parts]), np.array([part.size for part in parts]) / prompts.size


def _of_one(quantity: Any, shares: Floats, n: int) -> float:
    """The mean over sizes of prompts, of one of n that are read side by side."""
    return float(np.sum(np.asarray(quantity) * shares)) / n


def _quantiles(workload: Workload) -> dict[str, float]:
    both = (("prompt", workload.prompt_tokens), ("output", workload.output_tokens))
    return {f"{name}_p{q}": float(np.percentile(tokens, q)) for name, tokens in both for q in (50, 95)}


def _typical(d: Deployment, workload: Workload) -> float:
    """What a busy replica decodes at once, all ranks together; 1 where nothing fits  [1]."""
    found = serve(d, workload, rate_per_s=1.0, method="closed form")
    if not found.fits:
        return float(d.plan.dp)
    busy = serve(d, workload, rate_per_s=TYPICAL_LOAD * found.saturation_per_s, method="closed form")
    return float(d.plan.dp * max(1, round(float(busy.n_seq))))
