"""Which single change helps most: each lever is a re-run of the model, never a rule of thumb."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from roofline.answers.fitting import narrower
from roofline.answers.inputs import memory_tokens_of
from roofline.answers.phases import timed
from roofline.answers.prediction import Prediction, again
from roofline.errors import SpecError
from roofline.num import Num
from roofline.specs.deployment import Deployment
from roofline.work.step import Seqs

__all__ = ["Lever", "decode_limit", "levers"]

ENDLESS = 1e12  # sequences


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lever:
    """One change, and the prediction with it. `e2e_gain` is the share of the request's time it saves [1]."""

    name: str
    weights: str
    kv: str
    ttft_s: float
    tpot_s: float | None
    e2e_s: float
    e2e_gain: float


def levers(prediction: Prediction) -> tuple[Lever, ...]:
    """Single changes to a prediction's deployment or prompt, those that help, the best first.

    Tried: 16-, 8- and 4-bit weights, an 8-bit cache, half of the prompt found in a prefix cache. What is already on, and
    what does not fit afterwards, is left out.

    Examples
    --------
    >>> from roofline.answers.prediction import predict
    >>> from roofline.specs.catalog import hardware, model
    >>> d = Deployment(model=model("llama-3.1-8b"), hardware=hardware("h100-sxm-80gb"))
    >>> [lever.name for lever in levers(predict(d, prompt_tokens=512, output_tokens=512))][:2]
    ['4-bit weights (awq)', '8-bit weights (fp8)']
    """
    _require_scalar(prediction)
    found = [*_formats(prediction), *_prefix(prediction)]
    return tuple(sorted((lever for lever in found if lever.e2e_gain > 0.005), key=lambda lever: -lever.e2e_gain))


def _require_scalar(prediction: Prediction) -> None:
    if isinstance(prediction.e2e_s, np.ndarray):
        raise SpecError("levers: expected the prediction of one request shape, got a grid")


def _formats(p: Prediction) -> Iterator[Lever]:
    for label, changed in narrower(p.deployment):
        after = again(p, changed)
        if after.memory.fits:
            yield _lever(label, p, changed, ttft_s=float(after.ttft_s), tpot_s=_float(after.tpot_s))


def _prefix(p: Prediction) -> Iterator[Lever]:
    prompt = float(p.prompt_tokens)
    hit = float(np.floor(prompt / 2.0))
    model = p.deployment.model
    whole_input = not model.generates or model.reads_a_source
    if hit <= float(p.prefix_tokens) or not p.memory.fits or whole_input:
        return
    after = again(p, prefix_tokens=hit)
    yield _lever(
        "half of the prompt in a prefix cache", p, p.deployment, ttft_s=float(after.ttft_s), tpot_s=_float(p.tpot_s)
    )


def _lever(name: str, before: Prediction, after: Deployment, *, ttft_s: float, tpot_s: float | None) -> Lever:
    e2e_s = ttft_s + max(before.output_tokens - 1, 0) * (tpot_s or 0.0)
    numerics = after.numerics
    return Lever(
        name=name,
        weights=numerics.weights_name,
        kv=numerics.kv.name,
        ttft_s=ttft_s,
        tpot_s=tpot_s,
        e2e_s=e2e_s,
        e2e_gain=1.0 - e2e_s / float(before.e2e_s),
    )


def _float(value: object) -> float | None:
    return None if value is None else float(value)  # type: ignore[arg-type]


def decode_limit(
    deployment: Deployment, *, context_tokens: float, memory_tokens: Num | None = None, n_new: float = 1.0
) -> float:
    """The intensity decode tends to as the batch grows without end, at a fixed context.  [FLOP/B]

        lim_{B→∞} F / Q  =  FLOPs of a token / (its cache read and written + its activations)

    Weights are shared by ever more sequences, but each brings its own cache, read once for its `n_new` tokens (drafts to
    verify, and one): where this stays below the ridge, no batch
    lifts decode past it.

    Examples
    --------
    Llama-3.1-8B at 2176 tokens: under 57 FLOP/B, against a ridge of 295 on an H100.

    >>> from roofline.specs.catalog import hardware, model
    >>> d = Deployment(model=model("llama-3.1-8b"), hardware=hardware("h100-sxm-80gb"))
    >>> 50 < decode_limit(d, context_tokens=2176) < 57
    True
    """
    remembered = memory_tokens_of(deployment.model, memory_tokens)
    endless = Seqs.of_checked(n_seq=ENDLESS, n_new=n_new, n_past=context_tokens, n_logits=n_new, n_memory=remembered)
    return float(timed(deployment, endless, repeats=True).intensity)
