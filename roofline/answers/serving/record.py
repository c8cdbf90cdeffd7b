"""What is known of a service at a rate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from roofline.answers.records import as_frame
from roofline.num import Num
from roofline.specs.deployment import Deployment

__all__ = ["TIMES", "Serving"]

TIMES = (
    "ttft_mean_s", "ttft_p50_s", "ttft_p95_s", "ttft_p99_s", "tpot_mean_s", "tpot_p50_s", "tpot_p95_s", "tpot_p99_s",
    "itl_p99_s", "e2e_mean_s",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Serving:
    """A service at a rate, or at many (arrays).

    Attributes
    ----------
    deployment : Deployment
        One replica of it.
    rate_per_s, saturation_per_s : Num
        What arrives at all replicas, and beyond what their queues grow for ever [1/s].
    n_replicas : int
        [1]
    stable, fits : bool, or array of bool
        Whether the rate is below saturation; whether the model is held at all.
    method : str, or array of str
        "closed form", or "simulation" where that must not be trusted.
    why : str, or array of str
        The reason it must not be trusted; empty where it is.
    ttft_mean_s, ttft_p50_s, ttft_p95_s, ttft_p99_s : Num
        From arrival to first token, queueing included [s]; infinite where the queue grows for ever.
    tpot_mean_s, tpot_p50_s, tpot_p95_s, tpot_p99_s : Num
        Of requests with more than one token, over requests; 0 where there is none [s].
    itl_p99_s : Num
        The gap between two tokens that 99 of 100 stay within: what a chunk of somebody's prompt does to the others [s].
    e2e_mean_s : Num
        From arrival to last token [s].
    n_seq : Num
        Sequences that decode on a replica, as the clock finds them [1].
    kv_use : Num
        Share of a replica's cache that is taken, in the mean [1].
    output_tokens_per_s : Num
        Of all replicas [1/s].
    rejected : Num
        Share of requests that no replica could ever hold [1].
    preemptions : Num
        For every request, how often a sequence lost its pages; none of a closed form, which is not trusted there [1].
    hit_share : Num
        Prompt tokens that were still cached, of all; none of a closed form [1].
    errors : dict
        Of simulated times, their standard errors over independent runs [s].
    notes : tuple of str
        What was assumed.
    """

    deployment: Deployment
    rate_per_s: Num
    saturation_per_s: float
    n_replicas: int
    stable: Any
    fits: bool
    method: Any
    why: Any
    ttft_mean_s: Num
    ttft_p50_s: Num
    ttft_p95_s: Num
    ttft_p99_s: Num
    tpot_mean_s: Num
    tpot_p50_s: Num
    tpot_p95_s: Num
    tpot_p99_s: Num
    itl_p99_s: Num
    e2e_mean_s: Num
    n_seq: Num
    kv_use: Num
    output_tokens_per_s: Num
    rejected: float
    preemptions: Num | None
    hit_share: Num | None
    errors: dict[str, Num]
    notes: tuple[str, ...]

    @property
    def load(self) -> Num:
        """Rate over saturation  [1]."""
        return self.rate_per_s / self.saturation_per_s if self.saturation_per_s else self.rate_per_s * np.inf

    @property
    def output_tokens_per_s_per_chip(self) -> Num:
        """[1/s]"""
        return self.output_tokens_per_s / (self.n_replicas * self.deployment.n_chips)

    @property
    def tokens_per_s_per_user(self) -> Num:
        """1 / mean TPOT  [1/s]."""
        with np.errstate(divide="ignore"):  # of one token each, without end
            return np.divide(1.0, self.tpot_mean_s) if np.ndim(self.tpot_mean_s) else _inverse(float(self.tpot_mean_s))

    def to_dict(self) -> dict[str, Any]:
        """Flat, SI, unit in the key."""
        d = self.deployment
        head = {"model": d.model.id, "hardware": d.hardware.id, "engine": d.engine.id, "n_chips": d.n_chips}
        names = (
            "n_replicas", "rate_per_s", "saturation_per_s", "load", "stable", "fits", "method", "why", *TIMES, "n_seq",
            "kv_use", "output_tokens_per_s", "output_tokens_per_s_per_chip", "tokens_per_s_per_user", "rejected",
            "preemptions", "hit_share",
        )  # fmt: skip
        spread = {f"{n.removesuffix('_s')}_error_s": self.errors.get(n) for n in ("ttft_p95_s", "tpot_p95_s")}
        return head | {n: getattr(self, n) for n in names} | spread

    def to_frame(self) -> Any:
        """One row a rate, as a pandas DataFrame."""
        return as_frame(self.to_dict())

    def __repr__(self) -> str:
        if np.ndim(self.rate_per_s):
            return f"Serving({np.size(self.rate_per_s)} rates, saturation {self.saturation_per_s:.4g}/s)"
        if not self.stable:
            return f"Serving(unstable: {self.rate_per_s:g}/s of at most {self.saturation_per_s:.4g}/s)"
        ttft, tpot = 1e3 * float(self.ttft_p95_s), 1e3 * float(self.tpot_p95_s)
        return f"Serving({self.rate_per_s:g}/s: TTFT p95 {ttft:.4g} ms, TPOT p95 {tpot:.4g} ms, by {self.method})"


def _inverse(value: float) -> float:
    return 1.0 / value if value else np.inf
