"""A cache on its way from the chips that made it to those that read it: how long a link takes, and what is seen of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from roofline.answers.chunks import first_token
from roofline.answers.inputs import request
from roofline.answers.offload.cached import sequence_bytes
from roofline.answers.phases import asked_for, prefill
from roofline.answers.records import Answer
from roofline.answers.tiers import exposed_seconds
from roofline.errors import SpecError, require
from roofline.num import Num, checked, common_shape, same
from roofline.specs.deployment import Deployment
from roofline.specs.hardware import Link

__all__ = ["KvTransfer", "break_even_bytes_per_s", "kv_transfer", "links_of", "n_links_of", "passed_on", "wire"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KvTransfer(Answer):
    """What a batch of prompts leaves in memory, and how long a link takes to move it.

    `transfer_s` is what comes after the prefill where all of it leaves then; `exposed_s` what does where each layer's cache
    leaves while later layers compute. `bytes_per_s` is the rate of all links that work together.
    """

    prompt_tokens: Num
    batch: Num
    moved_bytes: Num
    bytes_per_s: Num
    latency_s: Num
    prefill_s: Num
    transfer_s: Num
    exposed_s: Num


def kv_transfer(
    deployment: Deployment,
    *,
    prompt_tokens: Any,
    link: Any,
    latency_s: Any = None,
    n_links: Any = None,
    batch: Any = 1,
    prefix_tokens: Any = 0,
) -> KvTransfer:
    """Time to move the cache of a batch of prompts out of the pool that computed it.

        moved_bytes = B · (cache of the prompt + recurrent state)
        transfer_s  = α + moved_bytes / (links · rate)
        exposed_s   = α + max(X / L, X − P · (L − 1) / L),   X the transfer without α, P the prefill: `exposed_seconds`

    Parameters
    ----------
    deployment : Deployment
        The pool that prefills.
    prompt_tokens, batch : int or array
        Tokens of each prompt, and prompts in the pass [token, 1].
    link : Link, float or array
        A link of the catalogue, such as `hardware("h100").links.scale_out` (to one neighbour, where that differs), or a rate
        [B/s]; `math.inf` for none.
    latency_s : float or array, optional
        α [s]: the link's, or 0 of a plain rate. Parts follow each other on the link, so it counts once.
    prefix_tokens : int or array
        Of each prompt, what the pool's prefix cache has [token]: it need not be computed, and moves all the same.
    n_links : int or array, optional
        Links that move a batch together [1]; by default each chip that holds a part of it has one (`links_of`).

    Notes
    -----
    Assumes equal layers and equal shares of the chips, an idle link, a cache of the same format and layout at both ends, and
    that the copy slows no pass. Windows move what they keep, recurrent layers their state.

    Examples
    --------
    Llama-3.1-8B: 2048 tokens of 128 KiB are 256 MiB; 5.4 ms on NDR InfiniBand, all but a layer's share of it hidden.

    >>> from roofline.specs.catalog import hardware, model
    >>> d = Deployment(model=model("llama-3.1-8b"), hardware=hardware("h100-sxm-80gb"))
    >>> t = kv_transfer(d, prompt_tokens=2048, link=d.hardware.links.scale_out)
    >>> t.moved_bytes / 2**20, round(t.transfer_s * 1e3, 1), round(t.exposed_s * 1e3, 2)
    (256.0, 5.4, 0.17)
    """
    require(deployment, Deployment, "kv_transfer(deployment)")
    given: dict[str, Any] = asked_for(prompt_tokens=prompt_tokens, batch=batch)
    rate, alpha = wire(link, latency_s=latency_s)
    width = n_links_of(deployment, n_links, batch=given["batch"])
    common_shape(**given, link=rate, latency_s=alpha, n_links=width)
    moved, prefill_s = (
        _moved_bytes(deployment, **given),
        first_token(deployment, **given, prefix_tokens=prefix_tokens).seconds,
    )
    moving_s = moved / (rate * width)
    exposed_s = exposed_seconds(moving_s, computing_s=prefill_s, n_layers=deployment.model.n_layers)
    return KvTransfer(
        **given,
        moved_bytes=moved,
        bytes_per_s=rate * width,
        latency_s=alpha,
        prefill_s=prefill_s,
        transfer_s=alpha + moving_s,
        exposed_s=alpha + exposed_s,
    )


def break_even_bytes_per_s(deployment: Deployment, *, prompt_tokens: Any, batch: Any = 1) -> Num:
    """The link a prefill pool needs, for caches to leave as fast as they are made.  [B/s of one replica]

        moved_bytes / P  =  kv_bytes_per_token · prompt tokens per second,   where every token caches as much

    P is the floor of the prefill: no engine makes them faster, so a link at this rate always keeps up, and what is exposed
    of an overlapped transfer is a layer's share.

    Examples
    --------
    Llama-3.1-8B on an H100, 2048 tokens: 131,072 B · 68,300 tokens/s.

    >>> from roofline.specs.catalog import hardware, model
    >>> d = Deployment(model=model("llama-3.1-8b"), hardware=hardware("h100-sxm-80gb"))
    >>> round(break_even_bytes_per_s(d, prompt_tokens=2048) / 1e9, 1)
    8.9
    """
    require(deployment, Deployment, "break_even_bytes_per_s(deployment)")
    given: dict[str, Any] = asked_for(prompt_tokens=prompt_tokens, batch=batch)
    return _moved_bytes(deployment, **given) / prefill(deployment, **given).floor_s


def passed_on(deployment: Deployment, *, tokens: Num, reading_s: Num, links: tuple[Any, ...]) -> tuple[Num, Num]:
    """A prompt's cache on its way over the slowest of some links: all of it, and what is seen after the reading  [s].

    Each layer's cache leaves while later ones compute, which takes `reading_s` for all; every chip that holds a part has a
    link of its own.
    """
    rate, alpha = wire(*links, latency_s=None)
    moving_s = sequence_bytes(deployment, tokens=tokens) / (rate * links_of(deployment))
    return moving_s, alpha + exposed_seconds(moving_s, computing_s=reading_s, n_layers=deployment.model.n_layers)


def links_of(deployment: Deployment, *, batch: Num = 1.0) -> Num:
    """Chips of a replica that hold a part of a batch, each with a link of its own: one rank's for one sequence.  [1]"""
    n_chips = float(deployment.n_chips)
    return same(np.minimum(n_chips, n_chips / deployment.plan.dp * batch), batch)


def _moved_bytes(deployment: Deployment, *, prompt_tokens: Num, batch: Num) -> Num:
    """Cache and state of B prompts; of an encoder-decoder model, what its decoder attends to."""
    asks = request(deployment.model, prompt_tokens=prompt_tokens)
    return sequence_bytes(deployment, tokens=asks.n_new, n_seq=batch, memory_tokens=asks.n_memory)


def wire(*links: Any, latency_s: Any) -> tuple[Num, Num]:
    """The rate and the latency of a way over several links: the slowest, and the longest."""
    rate = min(_link_rate(link) for link in links)
    if latency_s is not None:
        return rate, checked(latency_s, name="latency_s", low=0.0)
    return rate, max(link.latency_s if isinstance(link, Link) else 0.0 for link in links)


def _link_rate(link: Any) -> Num:
    if not isinstance(link, Link):
        return checked(link, name="link", low=0.0, high=np.inf, above=True)
    rate = link.pair_bytes_per_s or link.bytes_per_s
    if rate is None:
        raise SpecError(f"link: no rate is known of {link.name or link.kind}; pass link= in B/s")
    return rate


def n_links_of(deployment: Deployment, given: Any, *, batch: Num) -> Num:
    """As asked for, or as many as chips hold a part of the batch [1]."""
    return links_of(deployment, batch=batch) if given is None else checked(given, name="n_links", low=1.0)
