"""Decodes beside a chunk of another's prompt: one pass, and what it costs those who wait for their next token."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from roofline.answers.inputs import memory_tokens_of
from roofline.answers.phases import asked_for, timed
from roofline.answers.records import Answer
from roofline.errors import SpecError, require
from roofline.num import Num, checked, common_shape
from roofline.specs.deployment import Deployment
from roofline.work.step import MAX_TOKENS, Seqs

__all__ = ["MixedPass", "mixed_pass"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MixedPass(Answer):
    """A pass in which some sequences decode while a chunk of another's prompt is read.

    `seconds` is what it takes, `decode_s` the decodes alone, `chunk_s` the chunk alone; `tpot_cost_s` is what the chunk adds
    to the token of everyone beside it.
    """

    context_tokens: Num
    batch: Num
    chunk_tokens: Num
    chunk_past: Num
    seconds: Num
    floor_s: Num
    bound: Any
    decode_s: Num
    chunk_s: Num

    @property
    def tpot_cost_s(self) -> Num:
        """seconds − decode_s [s]."""
        return self.seconds - self.decode_s

    @property
    def saved_s(self) -> Num:
        """What one pass saves against two: the weights are read once [s]."""
        return self.decode_s + self.chunk_s - self.seconds

    def to_dict(self) -> dict[str, Any]:
        """Flat, SI, unit in the key."""
        return Answer.to_dict(self) | {"tpot_cost_s": self.tpot_cost_s, "saved_s": self.saved_s}


def mixed_pass(
    deployment: Deployment, *, context_tokens: Any, batch: Any, chunk_tokens: Any, chunk_past: Any = 0
) -> MixedPass:
    """What a chunk of a prompt costs the decodes beside it.

    Parameters
    ----------
    context_tokens, batch : int or array
        Cached tokens of each decoding sequence, and how many there are [token, 1].
    chunk_tokens, chunk_past : int or array
        New tokens of the prompt in this pass, and those of it cached before [token].

    Notes
    -----
    Assumes that all go through the stages of a pipeline together: of each of the three, one microbatch. A clip is encoded
    before, and no sequence has images to attend to.

    Examples
    --------
    Llama-3.1-8B on an H100: 32 decodes at 2048 tokens take 7.2 ms; with a chunk of 512 beside them all get theirs 4.4 ms
    later. In a pass of its own the chunk would take 8.2 ms: reading the weights once saves 3.8.

    >>> from roofline.specs.catalog import hardware, model
    >>> d = Deployment(model=model("llama-3.1-8b"), hardware=hardware("h100-sxm-80gb"))
    >>> m = mixed_pass(d, context_tokens=2048, batch=32, chunk_tokens=512)
    >>> [round(1e3 * s, 1) for s in (m.decode_s, m.seconds, m.tpot_cost_s, m.saved_s)]
    [7.2, 11.6, 4.4, 3.8]
    """
    require(deployment, Deployment, "mixed_pass(deployment)")
    if not deployment.model.generates or deployment.model.reads_a_source:
        raise SpecError(f"mixed_pass: {deployment.model.id} reads its input as a whole; nothing decodes beside it")
    given = asked_for(context_tokens=context_tokens, batch=batch, chunk_tokens=chunk_tokens)
    past = checked(chunk_past, name="chunk_past", low=0.0, high=MAX_TOKENS)
    common_shape(**given, chunk_past=past)
    heard = memory_tokens_of(deployment.model, None)
    decoding = Seqs.of_checked(n_seq=given["batch"], n_new=1.0, n_past=given["context_tokens"], n_memory=heard)
    reading = Seqs.of_checked(n_seq=1.0, n_new=given["chunk_tokens"], n_past=past, n_logits=0.0, n_memory=heard)
    together = replace(deployment, plan=deployment.plan.model_copy(update={"microbatches": 1}))
    passing = partial(timed, together, asked=given | {"chunk_past": past}, repeats=True)
    both = passing((decoding, reading))
    return MixedPass(
        **given,
        chunk_past=past,
        seconds=both.seconds,
        floor_s=both.floor_s,
        bound=both.bound,
        decode_s=passing(decoding).seconds,
        chunk_s=passing(reading).seconds,
    )
