"""Saturated throughput: what an engine gives when it always has as many requests as it can take.

    tokens/s = max over B of B · N / (TTFT(B) + (N − 1) · TPOT(B)),   B = 1, 2, 4, … and the most there is room for

Prompts of new requests take turns with the decodes of the others; over many requests that costs what reading B prompts and
then decoding them costs. Room is what the memory and the scheduler allow. Assumes that requests are alike and the scheduler
finds the best batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from roofline.answers.chunks import first_token
from roofline.answers.memory import memory
from roofline.answers.phases import decode
from roofline.evidence.measurements import Measurement, deployment_of
from roofline.specs.deployment import Deployment

__all__ = ["Saturated", "saturated", "saturated_of"]

LARGEST = 4096.0  # sequences at most, of an engine without a limit of its own


@dataclass(frozen=True, slots=True)
class Saturated:
    """Output tokens a second of a deployment, and the batch that gives them."""

    tokens_per_s: float
    batch: float
    max_batch: float


def saturated(deployment: Deployment, *, prompt_tokens: float, output_tokens: float) -> Saturated | None:
    """The best static batch of a deployment; none where not even one request fits."""
    held = memory(deployment, context_tokens=prompt_tokens + output_tokens, batch=1)
    most = float(np.min(held.max_batch))
    if most < 1.0:
        return None
    tier = deployment.tier
    most = min(most, LARGEST if tier is None else float(tier.max_seqs * deployment.plan.dp))
    batches = np.unique(np.append(2.0 ** np.arange(int(np.log2(most)) + 1), most))
    first = first_token(deployment, prompt_tokens=prompt_tokens, batch=batches).seconds
    context = prompt_tokens + (output_tokens - 2.0) / 2.0
    rest = (output_tokens - 1.0) * np.asarray(decode(deployment, context_tokens=context, batch=batches).seconds)
    rates = batches * output_tokens / (first + rest)
    best = int(np.argmax(rates))
    return Saturated(float(rates[best]), float(batches[best]), most)


def saturated_of(measurement: Measurement) -> Saturated | None:
    """That of the deployment that was measured."""
    m = measurement
    return saturated(deployment_of(m), prompt_tokens=m.prompt_tokens, output_tokens=m.output_tokens)
