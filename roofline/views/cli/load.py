"""What is asked of a service under load, as options of a command: lengths, arrivals, rates, promises."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from roofline.errors import SpecError, did_you_mean, shorten
from roofline.specs import traces
from roofline.specs.arrivals import Arrivals, Gamma, Poisson, Recorded, traffic
from roofline.specs.model import Model
from roofline.specs.slo import SLO
from roofline.specs.workload import Workload
from roofline.views.cli.common import whole
from roofline.views.cli.options import Ways, asked_of
from roofline.views.cli.words import three

__all__ = [
    "ArrivalsAsked", "Cv", "Load", "Replicas", "RequestsAsked", "RoutingAsked", "Runs", "Seed", "Slo", "WorkloadAsked",
    "load_of", "method_of", "one_pool", "rates_of", "running", "slo_of",
]  # fmt: skip

MOST_RATES = 64
METHODS = ("auto", "closed-form", "simulation")

WorkloadAsked = Annotated[
    str | None,
    typer.Option("--workload", help="azure-conv, azure-code, or a trace's path; in place of --prompt and --output."),
]
Cv = Annotated[
    str | None,
    typer.Option("--cv", help="Coefficient of variation of --prompt and --output, lognormal.  [default: all alike]"),
]
ArrivalsAsked = Annotated[
    str | None,
    typer.Option("--arrivals", help="trace, poisson, or gamma:SCV of the gaps.  [default: the trace's, else poisson]"),
]
Replicas = Annotated[str, typer.Option("--replicas", help="Replicas that share the requests.")]
RoutingAsked = Annotated[
    str, typer.Option("--routing", help="Who gets a request: random, round-robin or least-loaded.")
]
Slo = Annotated[
    str | None, typer.Option("--slo", help='What is promised: "ttft_p95=1s,tpot_p95=50ms"; mean, p50, p95 or p99.')
]
Runs = Annotated[str, typer.Option("--runs", help="Independent runs of a simulation; a trace happens once.")]
RequestsAsked = Annotated[str, typer.Option("--requests", help="Requests of a run, for each replica.")]
Seed = Annotated[str, typer.Option("--seed", help="Seed of the first run.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A workload, what it is called, and how its requests come."""

    workload: Workload
    name: str
    arrivals: str

    @property
    def recorded(self) -> bool:
        """Whether requests come as a trace has them."""
        return isinstance(self.workload.arrivals, Recorded)

    @property
    def steady(self) -> Workload:
        """The same lengths, as independent users would send them."""
        return self.workload.arriving(Poisson())

    @property
    def said(self) -> str:
        """In words: lengths, and how they come."""
        w = self.workload
        alike = len(w) == 1
        shape = f"{w.mean_prompt_tokens:,.0f} in / {w.mean_output_tokens:,.0f} out{'' if alike else ' in the mean'}"
        come = f"{self.arrivals} arrivals"
        if isinstance(w.arrivals, Recorded):
            come = f"recorded arrivals ({three(traffic(w.arrivals.arrival_s)['rate_per_s'])}/s there)"
        return f"{shape}, {come}" if not self.name else f"{self.name}: {shape}, {come}"


def load_of(
    model: Model, *, workload: str | None, prompt: str | None, output: str | None, cv: str | None, arrivals: str | None
) -> Load:
    """The lengths and the arrivals that the options ask for; what is left out is usual for the model."""
    if workload is not None:
        taken = [
            name for name, given in (("--prompt", prompt), ("--output", output), ("--cv", cv)) if given is not None
        ]
        if taken:
            raise SpecError(f"--workload: has lengths of its own; leave {', '.join(taken)} out")
        found = traces.workload(workload)
        name = found.name
    else:
        asked = asked_of(model, prompt=prompt, output=output, batch="1")
        found, name = _lengths(asked["prompt_tokens"], asked["output_tokens"], cv), ""
    come, called = _arrivals(arrivals, found)
    return Load(workload=found if come is None else found.arriving(come), name=name, arrivals=called)


def _lengths(prompt: int, output: int, cv: str | None) -> Workload:
    if output < 1:
        raise SpecError("--output: expected at least 1 token; what gives none is not served under load")
    if cv is None:
        return Workload.fixed(prompt_tokens=prompt, output_tokens=output)
    spread = _number(cv, "--cv")
    if spread == 0.0:
        return Workload.fixed(prompt_tokens=prompt, output_tokens=output)
    if not 0.0 < spread <= 100.0:
        raise SpecError(f"--cv: expected 0 to 100, got {shorten(cv)}")
    return Workload.lognormal(prompt_mean=prompt, output_mean=output, prompt_cv=spread, output_cv=spread)


def _arrivals(text: str | None, found: Workload) -> tuple[Arrivals | None, str]:
    """How requests come; none where they come as the workload has them already."""
    has_its_own = isinstance(found.arrivals, Recorded)
    wanted = text.strip().lower() if text is not None else "trace" if has_its_own else "poisson"
    kind, _, rest = wanted.partition(":")
    if wanted == "trace":
        if not has_its_own:
            raise SpecError(
                "--arrivals trace: these requests have no times; name a --workload that has, or use poisson"
            )
        return None, wanted
    if wanted == "poisson":
        return Poisson(), "Poisson"
    if kind == "gamma" and rest:
        scv = _number(rest, "--arrivals gamma")
        if not 0.01 <= scv <= 1000.0:
            raise SpecError(
                f"--arrivals gamma: expected a squared coefficient of variation from 0.01 to 1000, got {rest}"
            )
        return Gamma(scv), f"gamma (CV² {scv:g})"
    hint = did_you_mean(kind, ("trace", "poisson", "gamma"))
    raise SpecError(f"--arrivals: expected trace, poisson or gamma:SCV such as gamma:4, got {shorten(wanted)!r}{hint}")


def rates_of(texts: Sequence[str] | None) -> list[float]:
    """Rates as people type them, one after another or with commas between  [1/s].

    >>> rates_of(["2,4.5", "10"])
    [2.0, 4.5, 10.0]
    """
    if not texts:
        raise SpecError("missing --rate: requests a second that arrive, such as 4, or 2,4,8 for a table")
    rates = [_number(part, "--rate") for text in texts for part in text.split(",")]
    for rate in rates:
        if not (math.isfinite(rate) and 0.0 < rate <= 1e9):
            raise SpecError(f"--rate: expected requests a second above 0, got {rate:g}")
    if len(rates) > MOST_RATES:
        raise SpecError(f"--rate: expected at most {MOST_RATES} rates, got {len(rates)}")
    return rates


def _number(text: str, name: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise SpecError(f"{name}: expected a number, got {shorten(text)!r}") from None


def slo_of(text: str | None) -> SLO | None:
    """The promise, if there is one."""
    return None if text is None else SLO.parse(text, where="--slo")


def method_of(text: str) -> str:
    """A method's name in the words of `serve`."""
    if text not in METHODS:
        raise SpecError(f"--method: expected {', '.join(METHODS)}, got {shorten(text)!r}{did_you_mean(text, METHODS)}")
    return text.replace("-", " ")


def running(*, replicas: str, routing: str, runs: str, requests: str, seed: str) -> dict[str, Any]:
    """How many replicas and runs, in the words of `serve`."""
    return {
        "n_replicas": whole(replicas, name="--replicas", most=10_000),
        "routing": routing,
        "n_runs": whole(runs, name="--runs", most=100),
        "n_requests": whole(requests, name="--requests", least=20, most=1e6),
        "seed": whole(seed, name="--seed", least=0, most=2**31),
    }


def one_pool(chosen: Ways) -> None:
    """Refuse what load is not answered for."""
    asked = {
        "--split": chosen.split is not None, "--draft": chosen.draft is not None,
        "--prefix-hit": chosen.prefix_hit is not None, "--shared": chosen.shared > 0,
    }  # fmt: skip
    for name, given in asked.items():
        if given:
            raise SpecError(f"{name}: load is not answered with it; leave it out, or ask predict")
