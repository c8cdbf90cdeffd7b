"""Load by simulation: independent runs, their percentiles, and how far those can be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from roofline.answers.simulate import Replica, Served, simulate, with_answers
from roofline.errors import SpecError, shown
from roofline.specs.workload import Requests
from roofline.timing.steplaw import StepLaw

__all__ = ["STATISTICS", "Observed", "observed", "run", "statistics"]

Floats = NDArray[np.float64]

WARM_UP, TAIL = 0.10, 0.05  # shares of the requests at the beginning and the end that do not count
STATISTICS = ("mean", "p50", "p95", "p99")


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What came out, of all runs together.

    Attributes
    ----------
    times : dict
        `ttft_mean_s`, `ttft_p50_s`, … `tpot_p99_s`, `itl_p99_s`, `e2e_mean_s` [s].
    errors : dict
        Of each the standard error of the mean over runs [s]; empty of a single run.
    n_seq : float
        Sequences that decode, as the clock finds them: λ · mean time from first to last token, of those that count [1].
    rejected : float
        Share of requests that could never be held [1].
    preemptions : float
        Sequences that lost their pages, for every request [1].
    hit_share : float
        Prompt tokens a prefix cache had, of all [1].
    output_tokens_per_s : float
        Tokens of the requests that count, over the time those came in [1/s].
    n_requests, n_runs : int
        Requests that count in all, and runs.
    """

    times: dict[str, float]
    errors: dict[str, float]
    n_seq: float
    rejected: float
    preemptions: float
    hit_share: float
    output_tokens_per_s: float
    n_requests: int
    n_runs: int


def statistics(name: str, values: Floats) -> dict[str, float]:
    """Mean and percentiles of a time, by their names; 0 where nobody has one  [s]."""
    found = {f"{name}_mean_s": float(values.mean()) if values.size else 0.0}
    return found | {f"{name}_p{q}_s": float(np.percentile(values, q)) if values.size else 0.0 for q in (50, 95, 99)}


def run(law: StepLaw, replica: Replica, requests: Requests) -> Served:
    """The requests on one replica, with the beginnings they share where it keeps any."""
    blocks: Sequence[Sequence[int]] | None = requests.block_ids if replica.prefix_caching else None
    if requests.block_ids is not None and blocks is not None and requests.follows is not None:
        blocks = with_answers(
            requests.block_ids, requests.block_tokens, requests.prompt_tokens, requests.output_tokens, requests.follows
        )
    return simulate(
        requests.arrival_s, requests.prompt_tokens, requests.output_tokens, law, replica, block_ids=blocks,
        block_tokens=requests.block_tokens, follows=requests.follows, think_s=requests.think_s,
    )  # fmt: skip


def observed(runs: list[list[Served]], *, request_s: float = 0.0) -> Observed:
    """Statistics of runs, each of which served its requests on one or several replicas."""
    if not runs:
        raise SpecError(f"observed(runs): expected at least one run, got {shown(runs)}")
    each = [_Sample.of(served, request_s) for served in runs]
    together = _Sample.joined(each)
    times = together.statistics()
    errors: dict[str, float] = {}
    if len(each) > 1:
        apart = [one.statistics() for one in each]
        errors = {name: float(np.std([a[name] for a in apart], ddof=1) / np.sqrt(len(apart))) for name in times}
    served = [s for group in runs for s in group]
    n = sum(s.rejected.size for s in served)
    counted = [_counted(s) for s in served]
    span = max(sum(_span(group) for group in runs), 1e-300)
    inside = sum(float((s.last_token_s - s.first_token_s)[c].sum()) for s, c in zip(served, counted, strict=True))
    tokens = sum(float(s.output_tokens[c].sum()) for s, c in zip(served, counted, strict=True))
    return Observed(
        times=times, errors=errors, n_seq=inside / span,
        rejected=sum(int(s.rejected.sum()) for s in served) / max(n, 1),
        preemptions=sum(s.n_preemptions for s in served) / max(n, 1), hit_share=_hits(served, counted),
        output_tokens_per_s=tokens / span, n_requests=int(together.ttft_s.size), n_runs=len(runs),
    )  # fmt: skip


def _hits(served: list[Served], counted: list[NDArray[np.bool_]]) -> float:
    """Prompt tokens that were cached, over all of those that count  [1]."""
    read = sum(int(s.prompt_tokens[c].sum()) for s, c in zip(served, counted, strict=True))
    hit = sum(int(s.hit_tokens[c].sum()) for s, c in zip(served, counted, strict=True))
    return hit / max(read, 1)


def _span(served: list[Served]) -> float:
    """The time in which those that count came; where all came at once, until the last of them was served  [s]."""
    came = np.sort(np.concatenate([s.arrival_s[_counted(s)] for s in served]))
    if came.size > 1 and came[-1] > came[0]:
        return float((came[-1] - came[0]) * came.size / (came.size - 1.0))
    return max((float(s.last_token_s[_counted(s)].max() - came[0]) for s in served if _counted(s).any()), default=0.0)


@dataclass(frozen=True, slots=True, eq=False)
class _Sample:
    """Requests that count, and the gaps between tokens with how many saw each."""

    ttft_s: Floats
    tpot_s: Floats
    e2e_s: Floats
    gap_s: Floats
    seen: Floats

    @classmethod
    def of(cls, served: list[Served], request_s: float) -> _Sample:
        counted = [_counted(s) for s in served]
        return cls(
            np.concatenate([s.ttft_s[c] for s, c in zip(served, counted, strict=True)]) + request_s,
            np.concatenate([s.tpot_s[c] for s, c in zip(served, counted, strict=True)]),
            np.concatenate([(s.last_token_s - s.arrival_s)[c] for s, c in zip(served, counted, strict=True)])
            + request_s,
            np.concatenate([s.step_s for s in served]),
            np.concatenate([s.step_decodes for s in served]).astype(np.float64),
        )

    @classmethod
    def joined(cls, parts: list[_Sample]) -> _Sample:
        names = ("ttft_s", "tpot_s", "e2e_s", "gap_s", "seen")
        return cls(*(np.concatenate([getattr(p, n) for p in parts]) for n in names))

    def statistics(self) -> dict[str, float]:
        found = statistics("ttft", self.ttft_s) | statistics("tpot", self.tpot_s[np.isfinite(self.tpot_s)])
        found["itl_p99_s"] = _weighted(self.gap_s, self.seen, 0.99)
        found["e2e_mean_s"] = float(self.e2e_s.mean()) if self.e2e_s.size else 0.0
        return found


def _counted(served: Served) -> NDArray[np.bool_]:
    """Neither among the first, which found the replica empty, nor among the last, after which none came; nor rejected."""
    n = served.rejected.size
    place = np.argsort(np.argsort(served.arrival_s, kind="stable"), kind="stable")
    middle = (place >= int(WARM_UP * n)) & (place < n - int(TAIL * n))
    return np.asarray(middle & ~served.rejected)


def _weighted(values: Floats, weights: Floats, share: float) -> float:
    """The value that so much of the weight is at or below."""
    if not values.size:
        return 0.0
    order = np.argsort(values)
    reached = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(reached, share * reached[-1])])
