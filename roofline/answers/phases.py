"""Prefill and decode: the two shapes of the one pass, asked for by name."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from roofline.answers.inputs import IMAGE_SIZE, memory_tokens_of, request
from roofline.errors import SpecError, require
from roofline.num import Num, checked, common_shape, same
from roofline.specs.deployment import Deployment
from roofline.specs.model import Model
from roofline.timing.clock import Timing
from roofline.timing.efficiency import IDEAL
from roofline.timing.pipeline import Staged, StagePasses
from roofline.work.attention import AttentionKernel
from roofline.work.count import How, rows_of
from roofline.work.latent import LatentForm
from roofline.work.step import MAX_TOKENS, Seqs
from roofline.work.sums import PassSums

__all__ = ["asked_for", "decode", "prefill"]

PART_POINTS = 32_768
GRID_POINTS = 100_000


def prefill(
    deployment: Deployment,
    *,
    prompt_tokens: Any,
    batch: Any = 1,
    n_past: Any = 0,
    images: Any = 0,
    image_size: tuple[int, int] = IMAGE_SIZE,
    attention: AttentionKernel = "flash",
    latent: LatentForm = "auto",
    routing_exponent: float = 1.0,
) -> Timing:
    """The pass that reads the whole prompt of every sequence and gives its first token; an encoder's only pass.

    A tower's work is part of it: images are encoded and their tokens stand in the prompt, a source text or a clip is encoded
    and then attended to (`request` says what each kind of model makes of a prompt).

    Parameters
    ----------
    deployment : Deployment
    prompt_tokens : int or array
        New tokens of each sequence, T [token].
    batch : int or array
        Sequences in the pass, B [1].
    n_past : int or array
        Tokens of each that the cache already holds (a prefix hit), S [token].
    images, image_size : int or array, (height, width)
        Images of each prompt, and their size [1, pixel].
    attention, latent, routing_exponent
        The attention kernel, the form of latent attention, and how routing spreads: as in `count`.

    Returns
    -------
    Timing
        Shape: broadcast of the arrays. On several chips, that of the busiest one; through pipeline stages a `Staged`.

    Examples
    --------
    >>> from roofline.specs.catalog import hardware, model
    >>> d = Deployment(model=model("llama-3.1-8b"), hardware=hardware("h100-sxm-80gb"))
    >>> t = prefill(d, prompt_tokens=2048)
    >>> t.bound, round(t.floor_s * 1e3, 1)
    ('compute', 30.0)
    """
    require(deployment, Deployment, "prefill(deployment)")
    given = asked_for(prompt_tokens=prompt_tokens, batch=batch, n_past=n_past)
    asks = request(deployment.model, prompt_tokens=given["prompt_tokens"], images=images, image_size=image_size)
    _no_past_of_a_source(deployment.model, given["n_past"])
    if np.any(np.greater(asks.n_images, 0.0)):
        given["images"] = asks.n_images
    common_shape(**given)
    seqs = Seqs.of_checked(n_seq=given["batch"], n_new=asks.n_new, n_past=given["n_past"], **asks.towers)
    return _time(deployment, seqs, How(attention, latent, routing_exponent), given, repeats=False)


def _no_past_of_a_source(model: Model, n_past: Num) -> None:
    """What is encoded both ways is encoded whole: no prefix of it can have been cached."""
    both_ways = not model.generates or model.reads_a_source
    if both_ways and np.any(np.greater(n_past, 0.0)):
        raise SpecError(f"n_past: {model.id} encodes its input as a whole, so no prefix of it is cached; leave it out")


def decode(
    deployment: Deployment,
    *,
    context_tokens: Any,
    batch: Any = 1,
    memory_tokens: Any = None,
    attention: AttentionKernel = "flash",
    latent: LatentForm = "auto",
    routing_exponent: float = 1.0,
) -> Timing:
    """The pass that gives every sequence its next token, after `context_tokens` of each are in the cache.

    Parameters
    ----------
    context_tokens : int or array
        Cached tokens of each sequence, S [token].
    batch : int or array
        Sequences in the pass, B [1].
    memory_tokens : int or array, optional
        Tower outputs that every token cross-attends to, M [token]: of an encoder-decoder model the source, or image patches.
    attention, latent, routing_exponent
        As in `prefill`.

    Returns
    -------
    Timing
        Shape: broadcast of the arrays. Large grids are evaluated in blocks and keep totals only.

    Examples
    --------
    >>> from roofline.specs.catalog import hardware, model
    >>> d = Deployment(model=model("llama-3.1-8b"), hardware=hardware("h100-sxm-80gb"))
    >>> t = decode(d, context_tokens=4096, batch=64)
    >>> t.bound, round(t.floor_s * 1e3, 2)
    ('memory', 14.74)
    """
    require(deployment, Deployment, "decode(deployment)")
    given = asked_for(context_tokens=context_tokens, batch=batch)
    if not deployment.model.generates:
        raise SpecError(f"decode: {deployment.model.id} is an encoder: it gives no tokens; ask prefill")
    memory = memory_tokens_of(deployment.model, memory_tokens)
    if np.any(np.greater(memory, 0.0)):
        given["memory_tokens"] = memory
    common_shape(**given)
    seqs = Seqs.of_checked(n_seq=given["batch"], n_new=1.0, n_past=given["context_tokens"], n_memory=memory)
    return _time(deployment, seqs, How(attention, latent, routing_exponent), given, repeats=True)


def _time(deployment: Deployment, seqs: Seqs, how: How, asked: dict[str, Num], *, repeats: bool) -> Timing:
    """A pass on the clock: of one stage, or of all stages one after another; `repeats`: one in a row of many."""
    plan = deployment.plan
    if plan.pp == 1:
        return _on_stage(deployment, 0, seqs, how, asked)
    n_micro = same(np.minimum(float(plan.microbatches or plan.pp), seqs.n_seq), seqs.n_seq)
    cut = seqs.of_rank(n_micro), seqs, seqs.of_rank(seqs.n_seq)
    stages = tuple(StagePasses(*(_on_stage(deployment, i, part, how, asked) for part in cut)) for i in range(plan.pp))
    return Staged(stages, n_micro=n_micro, repeats=repeats, coordinates=asked)


def _on_stage(deployment: Deployment, stage: int, seqs: Seqs, how: How, asked: dict[str, Num]) -> Timing:
    """A pass on the busiest chip of a stage: whole where the grid is small, else in pieces that fit a core's cache."""
    d, n_points = deployment, math.prod(seqs.shape)
    rows, _ = rows_of(d.model, d.precision, how, d.plan, stage)
    timing = partial(Timing, rows, chip=d.hardware, efficiency=IDEAL, overlap=d.plan.overlap, coordinates=asked)
    if n_points <= GRID_POINTS:
        return timing([(slice(None), partial(PassSums, (seqs,), n_ranks=d.plan.dp))], shape=None)
    flat = seqs.flat()
    wheres = [slice(start, min(start + PART_POINTS, n_points)) for start in range(0, n_points, PART_POINTS)]
    return timing([(where, partial(_sums, flat, where, d.plan.dp)) for where in wheres], shape=seqs.shape)


def asked_for(**fields: Any) -> dict[str, Num]:
    """The fields as numbers in range, under the caller's own names; they must broadcast together."""
    least = {"n_past": 0.0, "context_tokens": 0.0}
    nums = {n: checked(v, name=n, low=least.get(n, 1.0), high=MAX_TOKENS) for n, v in fields.items()}
    common_shape(**nums)
    return nums


def _sums(flat: Seqs, where: slice, n_ranks: int) -> PassSums:
    """The sums of one piece of a flat grid, small enough for a core's cache."""
    return PassSums((flat.part(where),), n_ranks=n_ranks)
