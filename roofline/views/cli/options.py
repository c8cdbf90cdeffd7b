"""The levers as options of a command: how a model is laid over chips, what its engine does, what a request brings along.

A command that takes a parameter `ways` and is `levered` has all of them; they are spelled as engines spell them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any

import typer

from roofline.answers.drafters import Drafter, Drafting
from roofline.answers.prediction import Prediction, predict
from roofline.errors import RooflineError, SpecError, shorten
from roofline.specs import catalog
from roofline.specs.deployment import Deployment
from roofline.specs.engine import IDEAL_ENGINE, Engine
from roofline.specs.hardware import Hardware
from roofline.specs.model import Model
from roofline.specs.offload import Offload
from roofline.specs.plan import Plan
from roofline.views.cli.common import usual_prompt, whole

__all__ = ["Pools", "Ways", "asked_of", "build", "levered", "predicted"]


@dataclass(frozen=True, slots=True)
class Pools:
    """Two pools of chips, of which one prefills and one decodes; how many chips each has, a replica's where not said."""

    prefill: str
    decode: str
    n_prefill: int | None = None
    n_decode: int | None = None

    def replicas(self, plan: Plan) -> tuple[float, float]:
        """Whole replicas of a plan in each pool [1]."""
        found = []
        for side, chips in (("prefill", self.n_prefill), ("decode", self.n_decode)):
            n_chips = plan.n_chips if chips is None else chips
            if n_chips % plan.n_chips:
                wanted = f"a replica takes {plan.n_chips}: use a multiple of it"
                raise SpecError(f"--split: {side} has {n_chips} chips, and {wanted}")
            found.append(n_chips / plan.n_chips)
        return found[0], found[1]


@dataclass(frozen=True, slots=True)
class Ways:
    """Every lever as asked for on the command line."""

    plan: Plan = field(default_factory=Plan)
    engine: str = "ideal"
    efficiency: Path | None = None
    memory_fraction: float | None = None
    page: int | None = None
    chunk: int | None = None
    max_seqs: int | None = None
    prefix_hit: str | None = None
    shared: int = 0
    offload: Offload | None = None
    draft: str | None = None
    split: Pools | None = None

    def of(self, search: Sequence[Path]) -> Engine:
        """The engine, with the settings that were asked for."""
        own = IDEAL_ENGINE if self.engine == "ideal" else catalog.engine(self.engine, search=search)
        return own.varied(
            memory_fraction=self.memory_fraction, page_tokens=self.page, batch_tokens=self.chunk, max_seqs=self.max_seqs
        )

    def prefix_tokens(self, prompt_tokens: int) -> int:
        """--prefix-hit of a prompt: a share of it (0.6, 60%), or tokens."""
        if self.prefix_hit is None:
            return 0
        text = self.prefix_hit.strip()
        share = _share(text)
        tokens = round(share * prompt_tokens) if share is not None else whole(text, name="--prefix-hit", least=0)
        if tokens > prompt_tokens:
            raise SpecError(f"--prefix-hit: expected at most the prompt of {prompt_tokens:,} tokens, got {text}")
        return tokens

    def drafting(self, target: Deployment, search: Sequence[Path]) -> Drafting | None:
        """--draft WHO:DRAFTS:ACCEPTANCE on the chips of a target: a model's name, ngram, or mtp."""
        if self.draft is None:
            return None
        who, drafts, acceptance = _three(self.draft)
        kind: Any = who if who in ("ngram", "mtp") else "draft_model"
        own = None
        if kind == "draft_model":
            own = Deployment(
                model=catalog.model(who, search=search), hardware=target.hardware, plan=_beside(target),
                engine=target.engine,
            )  # fmt: skip
        return Drafting(drafter=Drafter(kind=kind, deployment=own), n_drafts=drafts, acceptance=acceptance)

    def request(self, target: Deployment, prompt_tokens: int, search: Sequence[Path] | None) -> dict[str, Any]:
        """What these ways add to a request, in the words of `predict`."""
        return {
            "prefix_tokens": self.prefix_tokens(prompt_tokens),
            "shared_tokens": self.shared,
            "drafting": self.drafting(target, search or ()),
        }


def _beside(target: Deployment) -> Plan:
    """A draft model stands on one chip of the target's, or as many as hold it alike."""
    return Plan(tp=1)


def _share(text: str) -> float | None:
    """A share as people type it (0.6, .6, 60%); none for a number of tokens."""
    if re.fullmatch(r"[0-9]*\.[0-9]+|[01]|1\.0*", text):
        share = float(text)
    elif re.fullmatch(r"[0-9]+(\.[0-9]*)? ?%", text):
        share = float(text.rstrip("% ")) / 100.0
    else:
        return None
    if share > 1.0:
        raise SpecError(f"--prefix-hit: expected a share from 0 to 1, or tokens, got {text}")
    return share


def _three(text: str) -> tuple[str, int, float]:
    who, _, rest = text.rpartition(":")
    name, _, drafts = who.rpartition(":")
    try:
        acceptance = float(rest)
    except ValueError:
        acceptance = -1.0
    if not name or not drafts.isdigit() or not 0.0 <= acceptance <= 1.0:
        raise SpecError(
            f"--draft: expected WHO:DRAFTS:ACCEPTANCE such as llama-3.2-1b:4:0.7, ngram:4:0.5 or mtp:1:0.8, "
            f"got {shorten(text)!r}"
        )
    return name, whole(drafts, name="--draft", least=0, most=256), acceptance


def _pools(text: str) -> Pools:
    wanted = (
        f"--split: expected prefill=CHIP:N,decode=CHIP:N such as prefill=h100:1,decode=h200:1, got {shorten(text)!r}"
    )
    sides = dict(part.partition("=")[::2] for part in text.split(","))
    if set(sides) != {"prefill", "decode"} or len(text.split(",")) != 2:
        raise SpecError(wanted)
    found: dict[str, Any] = {}
    for side, given in sides.items():
        chip, _, count = given.rpartition(":")
        numbered = bool(chip) and count.isdigit()
        found[side] = chip if numbered else given
        found[f"n_{side}"] = whole(count, name="--split", most=1e6) if numbered else None
        if not found[side]:
            raise SpecError(wanted)
    return Pools(**found)


_PLAN: dict[str, Any] = {
    "tp": (Annotated[int, typer.Option("--tp", help="Tensor parallel: heads and widths split over so many chips.")], 1),
    "pp": (Annotated[int, typer.Option("--pp", help="Pipeline parallel: layers split over so many stages.")], 1),
    "ep": (Annotated[int, typer.Option("--ep", help="Expert parallel: experts spread over so many of tp x dp.")], 1),
    "dp": (Annotated[int, typer.Option("--dp", help="Data-parallel attention: ranks with sequences of their own.")], 1),
    "cp": (Annotated[int, typer.Option("--cp", help="Context parallel: tokens of a sequence split.")], 1),
    "stages": (Annotated[
        str | None, typer.Option("--stages", help="Layers of each stage, as 41,23.  [default: even]")], None),
    "overlap": (Annotated[
        float, typer.Option("--overlap", help="Share of link time that other work hides, 0 to 1.")], 0.0),
}  # fmt: skip

_ENGINE: dict[str, Any] = {
    "engine": (Annotated[
        str, typer.Option("--engine", help="Whose memory and schedule: vllm, sglang, trtllm, llama.cpp, mlx or ideal.")],
        "ideal"),
    "efficiency": (Annotated[Path | None, typer.Option(
        "--efficiency", help="A file of `roofline calibrate`: its efficiency, and its engine unless one is named.")],
        None),
    "memory_fraction": (Annotated[float | None, typer.Option(
        "--memory-fraction", help="Its share of the memory (vLLM --gpu-memory-utilization).  [default: the engine's]")],
        None),
    "page": (Annotated[int | None, typer.Option("--page", help="Tokens of a page of the cache (--block-size).")], None),
    "chunk": (Annotated[int | None, typer.Option(
        "--chunk", "--batch-tokens", help="Tokens of a pass at most; prompts are cut (--max-num-batched-tokens).")], None),
    "max_seqs": (Annotated[int | None, typer.Option(
        "--max-seqs", help="Requests that run at once (--max-num-seqs).")], None),
    "prefix_hit": (Annotated[str | None, typer.Option(
        "--prefix-hit", help="Of each prompt, what the prefix cache has: a share (0.6) or tokens.")], None),
    "shared": (Annotated[str, typer.Option(
        "--shared", help="Tokens that all prompts begin with; held once.")], "0"),
    "offload": (Annotated[str | None, typer.Option(
        "--offload", help="TIER:SHARE of the weights, or TIER:SHARE:experts or :kv; host or nvme-gen5-x4.")], None),
    "host_bandwidth": (Annotated[str | None, typer.Option(
        "--host-bandwidth", help="Of host memory or the drive, as '50 GB/s'.  [default: no slower than the link]")], None),
    "host_peak": (Annotated[str | None, typer.Option(
        "--host-peak", help="The host multiplies what it holds, at so much, as '2 TFLOP/s'; with --host-bandwidth.")], None),
    "draft": (Annotated[str | None, typer.Option(
        "--draft", help="WHO:DRAFTS:ACCEPTANCE: llama-3.2-1b:4:0.7, ngram:4:0.5, mtp:1:0.8.")], None),
    "split": (Annotated[str | None, typer.Option(
        "--split", help="Two pools and the chips of each: prefill=h100:4,decode=h200:2; --tp 2 pairs them.")], None),
}  # fmt: skip

_OPTIONS = _PLAN | _ENGINE


def levered(command: Callable[..., None], *, engine: str = "ideal") -> Callable[..., None]:
    """A command that takes `ways`, with every lever as an option in its place; `engine` is the one where none is named."""
    own = signature(command, eval_str=True)
    kept = [parameter for name, parameter in own.parameters.items() if name != "ways"]
    usual = {name: default for name, (_, default) in _OPTIONS.items()} | {"engine": engine}
    options = [
        Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=usual[name], annotation=annotation)
        for name, (annotation, _) in _OPTIONS.items()
    ]

    @wraps(command)
    def run(**given: Any) -> None:
        asked = {name: given.pop(name) for name in _OPTIONS}
        command(**given, ways=_ways(asked))

    run.__signature__ = own.replace(parameters=[*kept, *options])  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in (*kept, *options)} | {"return": None}
    del run.__wrapped__
    return run


def _ways(asked: dict[str, Any]) -> Ways:
    plan = _plan(**{name: asked[name] for name in _PLAN})
    named = ("engine", "efficiency", "memory_fraction", "page", "chunk", "max_seqs", "prefix_hit")
    settings = {name: asked[name] for name in named}
    return Ways(
        plan=plan,
        **settings,
        shared=whole(asked["shared"], name="--shared", least=0),
        offload=_offload(asked["offload"], asked["host_bandwidth"], asked["host_peak"]),
        draft=asked["draft"],
        split=None if asked["split"] is None else _pools(asked["split"]),
    )


def _offload(text: str | None, bandwidth: str | None, peak: str | None) -> Offload | None:
    if text is None:
        if bandwidth is not None or peak is not None:
            raise SpecError("--host-bandwidth and --host-peak: expected with --offload, such as --offload host:0.5")
        return None
    found = Offload.parse(text)
    given: dict[str, Any] = {"to": found.to, "fraction": found.fraction, "what": found.what}
    given |= {} if bandwidth is None else {"bandwidth": bandwidth}
    if peak is not None and bandwidth is None and found.to == "host":
        raise SpecError("--host-peak: what the host computes reads its memory; add --host-bandwidth, such as '50 GB/s'")
    given |= {} if peak is None else {"host_peak": peak, "compute": "host"}
    return Offload.read(given, where="--offload")


def _plan(*, stages: str | None, **ways: Any) -> Plan:
    if stages is None:
        return Plan(**ways)
    parts = tuple(whole(part, name="--stages") for part in stages.split(","))
    return Plan(**ways | {"pp": len(parts) if ways["pp"] == 1 else ways["pp"]}, stages=parts)


def asked_of(model: Model, *, prompt: str | None, output: str | None, batch: str) -> dict[str, Any]:
    """A request as the options say it, in the words of `predict`; what is left out is usual for the model."""
    usual = "256" if model.generates else "0"
    return {
        "prompt_tokens": whole(prompt or usual_prompt(model), name="--prompt"),
        "output_tokens": whole(output or usual, name="--output", least=0, most=1e7),
        "batch": whole(batch, name="--batch"),
    }


def predicted(
    deployments: Sequence[Deployment], asked: dict[str, Any], ways: Ways, search: Sequence[Path] | None
) -> list[Prediction]:
    """The request on each deployment, with what the ways add to it."""
    return [predict(d, **asked, **ways.request(d, asked["prompt_tokens"], search)) for d in deployments]


def _own_efficiency(path: Path | None, chips: Sequence[str], search: Sequence[Path]) -> tuple[Any, str | None]:
    """An efficiency of the user's own, for these chips, and the engine it was fitted to where its file says."""
    if path is None:
        return None, None
    from roofline.evidence.calibration.own import read_own

    return read_own(path, chips=[catalog.hardware(name, search=search).id for name in chips])


def build(
    model: str,
    chips: Sequence[str],
    *,
    ways: Ways | None = None,
    search: Sequence[Path] | None = None,
    **formats: str | None,
) -> list[Deployment]:
    """A deployment of the model on each chip; of two pools, the one that prefills, then the one that decodes."""
    chosen, folders = ways or Ways(), search or ()
    efficiency, fitted_to = _own_efficiency(chosen.efficiency, chips, folders)
    if chosen.engine == "ideal" and fitted_to is not None:
        chosen = replace(chosen, engine=fitted_to)
    elif fitted_to is not None and catalog.engine(chosen.engine, search=folders).id != fitted_to:
        raise SpecError(f"--efficiency: {chosen.efficiency} was calibrated on {fitted_to}, not on {chosen.engine}")
    spec, engine = catalog.model(model, search=folders), chosen.of(folders)
    if chosen.split is not None and chips:
        raise SpecError(f"--split: names the chips itself; leave {', '.join(chips)} out")
    names = list(chips) if chosen.split is None else [chosen.split.prefill, chosen.split.decode]
    if not names:
        listed = "name a chip (roofline hardware lists them), or --split prefill=CHIP:N,decode=CHIP:N"
        raise SpecError(f"missing argument 'HARDWARE': {listed}")

    given: dict[str, Any] = formats

    def deployed(chip: Hardware) -> Deployment:
        return Deployment(model=spec, hardware=chip, plan=chosen.plan, engine=engine, offload=chosen.offload,
                          efficiency=efficiency, **given)  # fmt: skip

    found = []
    for chip in [catalog.hardware(name, search=folders) for name in names]:
        try:
            found.append(deployed(chip))
        except RooflineError as error:  # one chip that cannot hides none that can
            if len(names) == 1 or chosen.split is not None:
                raise
            sys.stderr.write(f"left out: {error}\n")
    if not found:
        raise SpecError(f"none of {', '.join(names)} can run {spec.id} in these formats")
    return found
