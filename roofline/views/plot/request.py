"""What a figure is about: deployments and one request, taken from the arguments or from a result that holds both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from roofline.answers.chunks import first_token
from roofline.answers.drafters import Drafting, beside
from roofline.answers.inputs import request as request_of
from roofline.answers.memory import Memory, memory
from roofline.answers.phases import decode
from roofline.answers.prediction import Comparison, Prediction
from roofline.answers.speculation import Speculation, speculate
from roofline.errors import SpecError, shown
from roofline.num import checked
from roofline.specs.deployment import Deployment
from roofline.specs.model import Model
from roofline.timing.clock import Timing
from roofline.work.step import MAX_TOKENS

__all__ = ["USUAL", "Phase", "Request", "Subject", "flag", "one_deployment", "one_number", "subjects"]

Phase = Literal["prefill", "decode"]

USUAL: Mapping[str, Any] = {"prompt_tokens": 2048, "output_tokens": 256, "batch": 8}

Subject = Deployment | Prediction


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A static batch: `batch` prompts of `prompt_tokens`, and the context at which its decode pass is looked at.

    `context_tokens` is the mean over the decode passes of the answer, `longest_tokens` what the last of them leaves in
    the cache. An answer of one token has no decode pass: both context and decode are none. `memory_tokens` is what an
    encoder-decoder model attends to besides.
    """

    prompt_tokens: float
    output_tokens: int | None
    context_tokens: float | None
    longest_tokens: float
    batch: float
    memory_tokens: float | None = None
    prefix_tokens: float = 0.0
    shared_tokens: float = 0.0
    drafting: Drafting | None = None

    def first(self, deployment: Deployment, prompts: Any, batch: Any = None) -> Timing:
        """The passes over prompts of other lengths, of which the prefix cache has the same share, and the same beginning."""
        n_seq = self.batch if batch is None else batch
        hit = np.floor(np.asarray(prompts) * (self.prefix_tokens / self.prompt_tokens))
        alike = np.minimum(self.shared_tokens, prompts)
        return first_token(deployment, prompt_tokens=prompts, batch=n_seq, prefix_tokens=hit, shared_tokens=alike)

    def step(self, deployment: Deployment, context: Any, batch: Any) -> Timing:
        """The decode pass after another context, or in another batch; with drafts, the one that verifies them."""
        round_ = self._round(deployment, context, batch)
        return self._decode(deployment, context, batch) if round_ is None else round_.verify

    def token(self, deployment: Deployment, context: Any, batch: Any) -> tuple[Any, Any, Any]:
        """Seconds a token takes, its floor, and what binds it: a decode pass, or a round over the tokens it gives."""
        round_ = self._round(deployment, context, batch)
        if round_ is None:
            t = self._decode(deployment, context, batch)
            return t.seconds, t.floor_s, t.bound
        return round_.tpot_s, round_.tpot_floor_s, round_.verify.bound

    def _decode(self, deployment: Deployment, context: Any, batch: Any) -> Timing:
        return decode(
            deployment, context_tokens=context, batch=batch, memory_tokens=self.memory_tokens,
            shared_tokens=np.minimum(self.shared_tokens, context),
        )  # fmt: skip

    def _round(self, deployment: Deployment, context: Any, batch: Any) -> Speculation | None:
        if self.drafting is None:
            return None
        d = self.drafting
        return speculate(
            deployment,
            drafter=d.drafter,
            n_drafts=d.n_drafts,
            acceptance=d.acceptance,
            context_tokens=context,
            batch=batch,
        )

    def passes(self, deployment: Deployment) -> dict[Phase, Timing]:
        """The pass over its prompts, and the decode pass at its context, where it has one."""
        found: dict[Phase, Timing] = {"prefill": self.first(deployment, self.prompt_tokens)}
        if self.context_tokens is not None:
            found["decode"] = self.step(deployment, self.context_tokens, self.batch)
        return found

    def memory_of(self, deployment: Deployment) -> Memory:
        """What the batch holds at its longest."""
        return self.held(deployment, context_tokens=self.longest_tokens, batch=self.batch)

    def held(self, deployment: Deployment, *, context_tokens: Any, batch: Any) -> Memory:
        """What another batch, or another context, holds."""
        drafts = None if self.drafting is None else beside(self.drafting.drafter, deployment)
        return memory(
            deployment, context_tokens=context_tokens, batch=batch, memory_tokens=self.memory_tokens,
            shared_tokens=np.minimum(self.shared_tokens, context_tokens), beside=drafts,
        )  # fmt: skip


def subjects(
    given: Any,
    *,
    prompt_tokens: Any,
    output_tokens: Any,
    context_tokens: Any,
    batch: Any,
    usual: Mapping[str, Any] = USUAL,
) -> tuple[tuple[tuple[Deployment, Request], ...], bool]:
    """(deployment, request) pairs, and whether several were asked for; a keyword left out comes from the prediction."""
    many = not isinstance(given, (Deployment, Prediction))
    members = tuple(_members(given)) if many else (given,)
    if not members:
        raise SpecError("plot: expected at least one deployment, got an empty list")
    asked = {
        "prompt_tokens": prompt_tokens,
        "output_tokens": output_tokens,
        "context_tokens": context_tokens,
        "batch": batch,
    }
    return tuple(_pair(member, asked, {**USUAL, **usual}) for member in members), many


def _members(given: Any) -> Iterable[Any]:
    if isinstance(given, (Comparison, list, tuple)):
        return given
    raise SpecError(
        f"plot: expected a Deployment, a Prediction, a Comparison or a list of deployments, got {given!r:.60}"
    )


def _pair(member: Any, asked: Mapping[str, Any], usual: Mapping[str, Any]) -> tuple[Deployment, Request]:
    said = {name: value for name, value in asked.items() if value is not None}
    if isinstance(member, Prediction):
        names = ("prompt_tokens", "output_tokens", "batch", "prefix_tokens", "shared_tokens", "drafting")
        own = {name: getattr(member, name) for name in names}
        return member.deployment, _request(own | said, member.deployment.model)
    if not isinstance(member, Deployment):
        raise SpecError(f"plot: expected a Deployment or a Prediction, got {member!r:.60}")
    return member, _request(dict(usual) | said, member.model)


def _request(said: Mapping[str, Any], model: Model) -> Request:
    ways: Any = {name: float(said[name]) for name in ("prefix_tokens", "shared_tokens") if name in said}
    return replace(_shape_of(said, model), **ways, drafting=said.get("drafting"))


def _shape_of(said: Mapping[str, Any], model: Model) -> Request:
    prompt = one_number(said["prompt_tokens"], "prompt_tokens")
    batch = one_number(said["batch"], "batch")
    asks = request_of(model, prompt_tokens=prompt)
    remembers = model.remembers
    if said.get("context_tokens") is not None:
        context = one_number(said["context_tokens"], "context_tokens", low=0.0)
        return Request(
            prompt_tokens=prompt,
            output_tokens=None,
            context_tokens=context,
            longest_tokens=max(context, prompt),
            batch=batch,
            memory_tokens=float(asks.n_memory) if remembers else None,
        )
    if not model.generates:
        return Request(prompt_tokens=prompt, output_tokens=0, context_tokens=None, longest_tokens=prompt, batch=batch)
    n_out = one_number(said["output_tokens"], "output_tokens")
    n_steps = n_out - 1.0
    first = float(asks.n_new)
    return Request(
        prompt_tokens=prompt,
        output_tokens=int(n_out),
        context_tokens=first + (n_steps - 1.0) / 2.0 if n_steps else None,
        longest_tokens=first + n_steps,
        batch=batch,
        memory_tokens=float(asks.n_memory) if remembers else None,
    )


def flag(value: Any, name: str) -> bool:
    """True or False, and nothing that merely looks like it."""
    if not isinstance(value, bool):
        raise SpecError(f"{name}: expected True or False, got {shown(value)}")
    return value


def one_deployment(
    given: Any, *, prompt_tokens: Any, output_tokens: Any = None, context_tokens: Any = None, batch: Any,
    usual: Mapping[str, Any],
) -> tuple[Deployment, Request]:  # fmt: skip
    """The one deployment a figure is about, and its request."""
    if not isinstance(given, (Deployment, Prediction)):
        raise SpecError(f"plot: expected one Deployment or Prediction, got {given!r:.60}")
    pairs, _ = subjects(
        given, prompt_tokens=prompt_tokens, output_tokens=output_tokens, context_tokens=context_tokens, batch=batch,
        usual=usual,
    )  # fmt: skip
    return pairs[0]


def one_number(value: Any, name: str, *, low: float = 1.0) -> float:
    """A whole number, since a figure marks one point; a grid of them is a sweep, and is drawn anyway."""
    number = checked(value, name=name, low=low, high=MAX_TOKENS)
    if not isinstance(number, float) or number != int(number):
        raise SpecError(f"{name}: expected one whole number, the point to mark, got {value!r:.60}")
    return number
