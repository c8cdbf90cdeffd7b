"""What numbers of one run owe each other: orders, sums and scales. A record of a file becomes a `Run` here.

Nothing is repaired. A time no machine can take is left out, with a warning; what contradicts another field is kept, with
a warning that names both, because only the user knows which of the two is wrong.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

from roofline.errors import SpecError
from roofline.evidence.readers.fields import Fields
from roofline.evidence.runs import Run

__all__ = ["LATENCIES", "agree", "finished", "inclusive", "plausible"]

LATENCIES = ("ttft", "tpot", "e2e", "itl")
MEASURED = ("ttft_s", "tpot_s", "e2e_s", "output_tokens_per_s", "total_tokens_per_s", "request_per_s")
_RANGE = {"ttft": (1e-4, 1e5), "tpot": (1e-5, 1e3), "e2e": (1e-4, 1e6), "itl": (1e-7, 1e5)}
_NOUN = {"ttft": "a first token", "tpot": "an output token", "e2e": "a request", "itl": "a gap between tokens"}
_SUMS = 0.05  # of counts and rates, which the tools work out from each other
_TIMES = 0.25  # of times, which are means or medians over different things


def plausible(fields: Fields, name: str, key: str, seconds: float) -> float | None:
    """The time [s], or none and a warning where no machine takes so long or so short for a thing of that name."""
    low, high = _RANGE[name]
    if low <= seconds <= high:
        return seconds
    value = fields.data.get(key)
    shown = f"{value:g}" if isinstance(value, float) else str(value)
    fields.warn(key, f"{shown[:40]} is {seconds:.3g} s for {_NOUN[name]}; is it in the wrong unit? not used")
    return None


def agree(
    fields: Fields, key: str, got: float | None, want: float | None, how: str, *, of: tuple[str, ...] = ()
) -> None:
    """Warn where a count or rate is not what others make it, within 5 %; the fields `of` a run are then in doubt."""
    if got is not None and want is not None and abs(got - want) > _SUMS * max(abs(got), abs(want)):
        fields.warn(key, f"{got:.6g}, but {how} is {want:.6g}")
        fields.doubt(*of)


def finished(fields: Fields, *, known: tuple[str, ...] = (), **values: Any) -> Run:
    """The run these values make, checked; an error where nothing at all was measured."""
    if not any(values.get(name) is not None for name in MEASURED):
        why = "; ".join(problem.partition(": ")[2] for problem in fields.warnings[:2])
        raise SpecError(
            f"{fields.place}: expected a time to first token, a time per token, a latency or a throughput; "
            f"got none that can be used{f' ({why})' if why else ''}"
        )
    run = Run(where=str(fields.place), **values)
    _order(fields, run)
    _times(fields, run)
    _in_flight(fields, run)
    doubtful = tuple(name for name in fields.doubtful if getattr(run, name, None) is not None)
    return replace(run, doubtful=doubtful, ignored=fields.ignored(known), warnings=fields.warnings)


def _key(fields: Fields, name: str) -> str:
    return fields.origin.get(name, name)


def _order(fields: Fields, run: Run) -> None:
    """Percentiles rise; a first token comes before the last; a token takes no longer than many prompts."""
    for name in LATENCIES:
        marks = sorted((_percent(mark, name), mark) for mark in run.percentiles if mark.startswith(f"{name}_p"))
        for (_, below), (_, above) in pairwise(marks):
            if run.percentiles[below] > run.percentiles[above] * (1 + 1e-9):
                fields.warn(_key(fields, below), f"above {_key(fields, above)}; percentiles rise")
                break
    if run.ttft_s and run.tpot_s and run.tpot_s > 20 * run.ttft_s:
        times = run.tpot_s / run.ttft_s
        fields.doubt("ttft_s", "tpot_s")
        fields.warn(
            _key(fields, "tpot_s"),
            f"{times:.3g} times {_key(fields, 'ttft_s')}; are both in the same unit, and was the first token measured?",
        )
    if run.ttft_s and run.e2e_s and run.ttft_s > run.e2e_s * 1.02 and run.statistic == "mean":
        fields.doubt("ttft_s", "e2e_s")
        fields.warn(
            _key(fields, "ttft_s"), f"above {_key(fields, 'e2e_s')}; a request cannot end before its first token"
        )


def _percent(mark: str, name: str) -> float:
    return float(mark.removeprefix(f"{name}_p").removesuffix("_s"))


def _times(fields: Fields, run: Run) -> None:
    """A request takes TTFT + TPOT · (N − 1); where it takes TPOT · N, that TPOT counts the first token in."""
    n = run.output_tokens
    if not (run.ttft_s and run.tpot_s and run.e2e_s and n and n > 1.5 and run.prompt_tokens):
        return
    apart = run.ttft_s + run.tpot_s * (n - 1.0)
    if abs(apart - run.e2e_s) <= _TIMES * run.e2e_s:
        return
    fields.doubt("ttft_s", "tpot_s", "e2e_s")
    together = abs(run.tpot_s * n - run.e2e_s) <= 0.05 * run.e2e_s
    hint = "; it looks like the whole latency over N, which is another quantity" if together else "; is a unit wrong?"
    fields.warn(
        _key(fields, "tpot_s"),
        f"TTFT + TPOT · (N − 1) is {apart:.4g} s, but {_key(fields, 'e2e_s')} is {run.e2e_s:.4g} s{hint}",
    )


def _in_flight(fields: Fields, run: Run) -> None:
    """Requests in flight are rate · latency (Little): no more than the users there are, and not far fewer."""
    latency = _latency(run)
    if run.load != "closed-loop" or not (run.batch and run.request_per_s and latency):
        return
    share = run.request_per_s * latency / run.batch
    if not 0.1 <= share <= 1.5:
        fields.doubt("ttft_s", "tpot_s", "e2e_s")
        fields.note(
            f"{run.request_per_s:.4g} requests/s of {latency:.4g} s each keep {share * run.batch:.3g} in flight, "
            f"but concurrency was {run.batch:g}; is a time in the wrong unit?"
        )


def _latency(run: Run) -> float | None:
    """How long a request takes [s]: as measured, or TTFT + TPOT · (N − 1)."""
    if run.e2e_s or not (run.ttft_s and run.tpot_s and run.output_tokens):
        return run.e2e_s
    return run.ttft_s + run.tpot_s * max(run.output_tokens - 1.0, 0.0)


def inclusive(value: float, *, ttft_s: float, output_tokens: float) -> float:
    """TPOT as it is meant here, from latency / N [s]:  (value · N − TTFT) / (N − 1).

    >>> round(inclusive(0.010, ttft_s=0.1, output_tokens=91), 6)
    0.009
    """
    return (value * output_tokens - ttft_s) / (output_tokens - 1.0)
