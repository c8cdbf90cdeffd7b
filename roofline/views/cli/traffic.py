"""The load as options of a command: which requests, how many a second, what is promised, on how many replicas."""

from __future__ import annotations

import math
from typing import Annotated, Any

import typer

from roofline.answers.checklist import Checklist, checklist
from roofline.errors import SpecError, did_you_mean, shorten
from roofline.specs.deployment import Deployment
from roofline.specs.slo import SLO
from roofline.specs.traces import workload as workload_named
from roofline.specs.workload import Workload
from roofline.units import SECONDS, parse
from roofline.views.cli.common import whole

__all__ = [
    "Promised", "PromptLength", "Rate", "Replicas", "Trace", "judged", "plain_ways", "rate_of", "slo_of", "workload_of",
]  # fmt: skip

Trace = Annotated[
    str | None,
    typer.Option("--workload", "-w", help="A trace: azure-conv, azure-code, or a file (CSV, JSON, JSONL, .gz)."),
]
PromptLength = Annotated[str | None, typer.Option("--prompt", "-p", help="Prompt tokens, all alike, without a trace.")]
Rate = Annotated[
    str, typer.Option("--rate", "-r", help="Requests a second that arrive at the service.", show_default=False)
]
Promised = Annotated[
    str | None, typer.Option("--slo", help="What is promised: ttft_p95=1s,tpot_p95=50ms.  [default: nothing]")
]
Replicas = Annotated[str, typer.Option("--replicas", help="Replicas that share the load.")]

LIMITS = tuple(name.removesuffix("_s") for name in SLO.__dataclass_fields__)


def workload_of(trace: str | None, prompt: str | None, output: str | None) -> Workload:
    """A trace, or requests that are all alike."""
    if trace is not None:
        if prompt is not None or output is not None:
            raise SpecError("--workload: brings the lengths itself; leave --prompt and --output out")
        return workload_named(trace)
    if prompt is None or output is None:
        raise SpecError("--workload: expected a trace, such as azure-conv or a file; or --prompt and --output")
    prompt_tokens = whole(prompt, name="--prompt", most=1e8)
    return Workload.fixed(prompt_tokens=prompt_tokens, output_tokens=whole(output, name="--output", most=1e7))


def slo_of(text: str | None) -> SLO | None:
    """Limits as people type them.

    >>> slo_of("ttft_p95=1s, tpot_p95=50ms")
    SLO(ttft_mean_s=None, ttft_p50_s=None, ttft_p95_s=1.0, ..., tpot_p95_s=0.05, ...)
    """
    if text is None:
        return None
    found: dict[str, Any] = {}
    for part in text.split(","):
        name, sign, value = (piece.strip() for piece in part.partition("="))
        if not sign or name not in LIMITS:
            known = f"one of {', '.join(LIMITS)}"
            raise SpecError(
                f"--slo: expected NAME=TIME with {known}, got {shorten(part)!r}{did_you_mean(name, LIMITS)}"
            )
        if f"{name}_s" in found:
            raise SpecError(f"--slo: expected each limit once, got {name} twice")
        try:
            found[f"{name}_s"] = parse(value, SECONDS)
        except SpecError as error:
            raise SpecError(f"--slo: {name}: {error}") from None
    return SLO(**found)


def rate_of(text: str) -> float:
    """Requests a second: 4, 0.5."""
    try:
        rate = float(text.strip())
    except ValueError:
        rate = math.nan
    if not (math.isfinite(rate) and 0.0 < rate <= 1e9):
        raise SpecError(f"--rate: expected requests a second above 0, such as 4 or 0.5, got {shorten(text)!r}")
    return rate


def judged(
    deployment: Deployment, *, trace: str | None, prompt: str | None, output: str | None, rate: str, slo: str | None,
    replicas: str, engines: tuple[str, ...] | None = None,
) -> Checklist:  # fmt: skip
    """The checklist of what the options say."""
    asked: dict[str, Any] = {} if engines is None else {"engines": engines}
    promised, per_s = slo_of(slo), rate_of(rate)
    return checklist(
        deployment, workload_of(trace, prompt, output), rate_per_s=per_s, slo=promised,
        n_replicas=whole(replicas, name="--replicas", most=1e6), **asked,
    )  # fmt: skip


def plain_ways(ways: Any) -> None:
    """Refuse levers that a service under load has no answer for."""
    for name, given in (("--split", ways.split), ("--draft", ways.draft), ("--prefix-hit", ways.prefix_hit),
                        ("--shared", ways.shared or None), ("--offload", ways.offload)):  # fmt: skip
        if given is not None:
            raise SpecError(f"{name}: is not part of a service under load yet; leave it out")
