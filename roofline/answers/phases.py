"""Prefill and decode: the two shapes of the one pass, asked for by name."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any, Literal

import numpy as np

from roofline.answers.estimates import chip_of, known_of
from roofline.answers.inputs import IMAGE_SIZE, memory_tokens_of, request
from roofline.answers.tiers import elsewhere_of
from roofline.errors import SpecError, require, shown
from roofline.ledger import add_up
from roofline.num import Num, checked, common_shape, same
from roofline.specs.deployment import Deployment
from roofline.specs.model import Model
from roofline.timing.clock import Timing
from roofline.timing.elsewhere import Offloaded
from roofline.timing.pipeline import Staged, StagePasses
from roofline.work.attention import AttentionKernel
from roofline.work.count import How, rows_of
from roofline.work.latent import LatentForm
from roofline.work.step import MAX_TOKENS, Seqs, Step, as_step
from roofline.work.sums import PassSums

__all__ = ["asked_for", "decode", "how_of", "on_stage", "prefill", "timed"]

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
    attention: AttentionKernel | Literal["auto"] = "auto",
    latent: LatentForm | None = None,
    routing_exponent: float | None = None,
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
        The attention kernel, the form of latent attention, and how routing spreads: as in `count`. "auto" and where not
        given: the engine's own.

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
    how = how_of(deployment, attention=attention, latent=latent, routing_exponent=routing_exponent)
    return timed(deployment, seqs, how=how, asked=given, repeats=False)


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
    shared_tokens: Any = 0,
    attention: AttentionKernel | Literal["auto"] = "auto",
    latent: LatentForm | None = None,
    routing_exponent: float | None = None,
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
    shared_tokens : int or array
        Of the context, those that begin every sequence and are cached once [token]: what must be read of them, once, and so
        the floor; a kernel reads them for each.
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
    shared = checked(shared_tokens, name="shared_tokens", low=0.0, high=MAX_TOKENS)
    if np.any(np.greater(shared, given["context_tokens"])):
        raise SpecError(
            f"shared_tokens: expected at most the context, which they are part of, got {shown(shared_tokens)}"
        )
    common_shape(**given, shared_tokens=shared)
    seqs = Seqs.of_checked(
        n_seq=given["batch"], n_new=1.0, n_past=given["context_tokens"], n_memory=memory, n_shared=shared
    )
    how = how_of(deployment, attention=attention, latent=latent, routing_exponent=routing_exponent)
    return timed(deployment, seqs, how=how, asked=given, repeats=True)


def how_of(
    deployment: Deployment, *, attention: AttentionKernel | Literal["auto"] = "auto", latent: LatentForm | None = None,
    routing_exponent: float | None = None,
) -> How:  # fmt: skip
    """The execution to count: what was asked for, else the engine's own, else flash attention, the cheaper form of latent
    attention, and uniform routing."""
    own = deployment.engine.kernels
    exponents = (e for e in (routing_exponent, own.routing_exponent, 1.0) if e is not None)
    kernel = (own.attention or "flash") if attention == "auto" else attention
    return How(kernel, latent or own.latent or "auto", next(exponents), own.unpacks_from, own.skips_shared,
               own.direct_all_reduce or False)  # fmt: skip


def timed(
    deployment: Deployment, step: Seqs | Step, *, how: How | None = None, asked: Mapping[str, Num] | None = None,
    repeats: bool,
) -> Timing:  # fmt: skip
    """Any pass of a deployment on the clock: on the busiest chip of its one stage, or through all stages.

    Parameters
    ----------
    step : Seqs or tuple of Seqs
        The pass; of several kinds of sequences together, every stage takes it whole, as one microbatch.
    asked : mapping, optional
        What the caller was asked, under its own names: the columns of `Timing.to_frame`, and the shape of the answer.
    repeats : bool
        Whether it is one pass in a row of many (decode), which follow one another through a pipeline.
    """
    require(deployment, Deployment, "timed(deployment)")
    plan, parts = deployment.plan, as_step(step)
    kernels, given = how or how_of(deployment), dict(asked or {})
    if plan.pp == 1:
        return on_stage(deployment, 0, parts, kernels, given)
    alike = parts[0] if len(parts) == 1 else None
    n_micro: Num = 1.0
    if alike is not None:
        each = np.ceil(alike.n_seq / plan.dp)  # ranks work side by side
        n_micro = same(np.minimum(float(plan.microbatches or plan.pp), each), alike.n_seq)
    micro = tuple(part.of_rank(n_micro) for part in parts)
    single = tuple(part.one_token for part in parts)
    stages = tuple(
        StagePasses(*(on_stage(deployment, i, cut, kernels, given) for cut in (micro, parts, single)))
        for i in range(plan.pp)
    )
    return Staged(stages, n_micro=n_micro, repeats=repeats, coordinates=given)


def on_stage(deployment: Deployment, stage: int, step: Step, how: How, asked: Mapping[str, Num]) -> Timing:
    """A pass on the busiest chip of a stage: whole where the grid is small, else in pieces that fit a core's cache."""
    d, shape = deployment, np.broadcast_shapes(*(part.shape for part in step))
    rows, _ = rows_of(d.model, d.precision, how, d.plan, stage)
    timing = partial(
        Timing, rows, chip=chip_of(d), efficiency=known_of(d).efficiency, overlap=d.plan.overlap, coordinates=asked
    )
    n_points = math.prod(shape)
    if n_points <= GRID_POINTS:
        whole = timing([(slice(None), partial(PassSums, step, n_ranks=d.plan.dp))], shape=None)
    else:
        flat = tuple(part.flat(shape) for part in step)
        wheres = [slice(start, min(start + PART_POINTS, n_points)) for start in range(0, n_points, PART_POINTS)]
        whole = timing([(where, partial(_sums, flat, where, d.plan.dp)) for where in wheres], shape=shape)
    elsewhere = elsewhere_of(d)
    if elsewhere is None or not any(map(elsewhere.moves, rows)):
        return whole
    return Offloaded(whole, elsewhere, n_tokens=add_up(part.n_tokens for part in step))


def asked_for(**fields: Any) -> dict[str, Num]:
    """The fields as numbers in range, under the caller's own names; they must broadcast together."""
    least = {"n_past": 0.0, "context_tokens": 0.0}
    nums = {n: checked(v, name=n, low=least.get(n, 1.0), high=MAX_TOKENS) for n, v in fields.items()}
    common_shape(**nums)
    return nums


def _sums(flat: Step, where: slice, n_ranks: int) -> PassSums:
    """The sums of one piece of a flat grid, small enough for a core's cache."""
    return PassSums(tuple(part.part(where) for part in flat), n_ranks=n_ranks)
