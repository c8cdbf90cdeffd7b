"""Prefill on one pool of chips, decode on another: what the cache costs on its way, and how many of each to have.

Two predictions and a transfer. The prefill pool makes the first token of every request, the decode pool the second and all
after; between them the request's cache crosses a link. Both pools run the passes that one pool would have run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from roofline.answers.inputs import request
from roofline.answers.memory import memory
from roofline.answers.offload.cached import sequence_bytes
from roofline.answers.phases import asked_for, prefill
from roofline.answers.prediction import Prediction, predict
from roofline.answers.records import Answer
from roofline.answers.tiers import exposed_seconds, plain
from roofline.errors import SpecError, require, shown
from roofline.num import Num, checked, common_shape, same, whole
from roofline.specs.deployment import Deployment
from roofline.specs.hardware import Link

__all__ = ["KvTransfer", "Split", "break_even_bytes_per_s", "kv_transfer", "links_of", "split"]


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
    deployment: Deployment, *, prompt_tokens: Any, link: Any, latency_s: Any = None, n_links: Any = None, batch: Any = 1
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
    rate, alpha = _wire(link, latency_s=latency_s)
    width = _n_links(deployment, n_links, batch=given["batch"])
    common_shape(**given, link=rate, latency_s=alpha, n_links=width)
    moved, prefill_s = _moved_bytes(deployment, **given), prefill(deployment, **given).seconds
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


def links_of(deployment: Deployment, *, batch: Num = 1.0) -> Num:
    """Chips of a replica that hold a part of a batch, each with a link of its own: one rank's for one sequence.  [1]"""
    n_chips = float(deployment.n_chips)
    return same(np.minimum(n_chips, n_chips / deployment.plan.dp * batch), batch)


def _moved_bytes(deployment: Deployment, *, prompt_tokens: Num, batch: Num) -> Num:
    """Cache and state of B prompts; of an encoder-decoder model, what its decoder attends to."""
    asks = request(deployment.model, prompt_tokens=prompt_tokens)
    return sequence_bytes(deployment, tokens=asks.n_new, n_seq=batch, memory_tokens=asks.n_memory)


def _wire(*links: Any, latency_s: Any) -> tuple[Num, Num]:
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


# Two pools


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Split(Answer):
    """Requests whose prompts one pool reads and another answers.

    `prefill` and `decode` are the predictions of a batch in each, `transfer` what lies between. Times in seconds, rates in
    requests per second of whole pools; fields broadcast as the arguments did.
    """

    prefill: Prediction
    decode: Prediction
    transfer: KvTransfer
    n_prefill: Num
    n_decode: Num
    overlap: bool
    link_requests_per_s: Num
    break_even_bytes_per_s: Num

    @property
    def exposed_s(self) -> Num:
        """What the transfer adds between the prefill and the decode pool's first pass [s]."""
        return self.transfer.exposed_s if self.overlap else self.transfer.transfer_s

    @property
    def ttft_s(self) -> Num:
        """prefill + exposed transfer [s].

        The first token is the prefill pool's; it travels with the cache, and the decode pool hands it out before it makes
        the second (as SGLang does). Where the prefill pool hands it out itself, TTFT is `transfer.prefill_s` and the gap
        before the second token is longer by `exposed_s`; the whole request takes as long.
        """
        return self.transfer.prefill_s + self.exposed_s

    @property
    def tpot_s(self) -> Num:
        """Mean of the decode pool's N − 1 passes [s]."""
        return cast("Num", self.decode.tpot_s)  # there are at least two tokens

    @property
    def e2e_s(self) -> Num:
        """TTFT + (N − 1) · TPOT [s]."""
        return self.ttft_s + (self.decode.output_tokens - 1) * self.tpot_s

    @property
    def prefill_requests_per_s(self) -> Num:
        """Replicas · B / prefill_s [1/s]."""
        return self.n_prefill * self.prefill.batch / self.transfer.prefill_s

    @property
    def decode_requests_per_s(self) -> Num:
        """Replicas · B / ((N − 1) · TPOT) [1/s]."""
        return self.n_decode * self.decode.batch / ((self.decode.output_tokens - 1) * self.tpot_s)

    @property
    def requests_per_s(self) -> Num:
        """What the narrowest of prefill, link and decode lets through [1/s]."""
        rates = (self.prefill_requests_per_s, self.link_requests_per_s, self.decode_requests_per_s)
        return same(np.minimum(np.minimum(rates[0], rates[1]), rates[2]), *rates)

    @property
    def prefill_per_decode(self) -> Num:
        """P:D, the replicas that prefill for each that decodes, at which both pools are as busy [1]."""
        each = self.prefill_requests_per_s / self.n_prefill
        return self.decode_requests_per_s / self.n_decode / each

    @property
    def link_keeps_up(self) -> Any:
        """Whether the links carry what the pools could serve."""
        served = np.minimum(self.prefill_requests_per_s, self.decode_requests_per_s)
        return plain(np.greater_equal(self.link_requests_per_s, served))

    @property
    def fits(self) -> Any:
        """Whether each pool holds its batch: the prompts there, prompts and answers here."""
        return plain(np.logical_and(self.prefill.memory.fits, self.decode.memory.fits))

    @property
    def flops_per_request(self) -> Num:
        """Model FLOPs of both pools for one request, decode at its mean context [FLOP]."""
        return self._work("flops")

    @property
    def hbm_bytes_per_request(self) -> Num:
        """Device-memory traffic of both pools for one request, shared weights in equal parts [B]."""
        return self._work("hbm_bytes")

    def _work(self, quantity: str) -> Num:
        first: Num = getattr(self.prefill.prefill, quantity) / self.prefill.batch
        each: Num = getattr(self.decode.decode, quantity) / self.decode.batch
        return first + (self.decode.output_tokens - 1) * each

    def to_dict(self) -> dict[str, Any]:
        """Flat, SI, unit in the key."""
        p, d, t = self.prefill, self.decode, self.transfer
        said = {
            "model": d.deployment.model.id,
            "prefill_hardware": p.deployment.hardware.id,
            "decode_hardware": d.deployment.hardware.id,
            "prompt_tokens": whole(p.prompt_tokens),
            "output_tokens": d.output_tokens,
            "n_prefill": whole(self.n_prefill),
            "n_decode": whole(self.n_decode),
            "prefill_batch": whole(p.batch),
            "decode_batch": whole(d.batch),
            "overlap": self.overlap,
            "moved_bytes": t.moved_bytes,
            "prefill_s": t.prefill_s,
            "transfer_s": t.transfer_s,
        }
        return said | {name: getattr(self, name) for name in _DERIVED}

    def __repr__(self) -> str:
        p, d = self.prefill.deployment, self.decode.deployment
        return f"Split({p.model.id}: prefill on {p.hardware.id}, decode on {d.hardware.id})"


_DERIVED = (
    "exposed_s", "ttft_s", "tpot_s", "e2e_s", "prefill_requests_per_s", "decode_requests_per_s", "link_requests_per_s",
    "requests_per_s", "prefill_per_decode", "link_keeps_up", "break_even_bytes_per_s", "flops_per_request",
    "hbm_bytes_per_request", "fits",
)  # fmt: skip


def split(
    *,
    prefill: Deployment,
    decode: Deployment,
    prompt_tokens: Any,
    output_tokens: int,
    link: Any = None,
    latency_s: Any = None,
    n_links: Any = None,
    prefill_batch: Any = 1,
    decode_batch: Any = None,
    n_prefill: Any = 1,
    n_decode: Any = 1,
    overlap: bool = True,
) -> Split:
    """Prefill and decode on pools of their own, of the same chips or of different ones.

        TTFT     = prefill_s + exposed transfer
        TPOT     = mean of N − 1 decode passes, on the decode pool's chips
        capacity = n_prefill · B / prefill_s,   n_decode · B / ((N − 1) · TPOT),   links · rate / bytes of a request
        P:D      = what one decode replica takes / what one prefill replica gives

    Parameters
    ----------
    prefill, decode : Deployment
        One replica of each pool; the same model and the same cache format.
    prompt_tokens, output_tokens
        As in `predict`; at least 2 output tokens, of which the prefill pool makes the first [token].
    link, latency_s, n_links
        Between the pools, as in `kv_transfer`. By default the slower of both chips' scale-out links, one for every chip that
        holds a part of the batch, in the pool with fewer.
    prefill_batch, decode_batch : int or array
        Sequences in a pass [1]; for decode, by default as many as fit at the longest context.
    n_prefill, n_decode : float or array
        Replicas of each pool [1].
    overlap : bool
        Whether a layer's cache leaves while later layers compute.

    Notes
    -----
    Assumes pools that are always busy and batches always full: capacities, not what a queue leaves of them. What a pool
    cannot hold is in `fits`, not an error. See `kv_transfer` for the link.

    Examples
    --------
    Llama-3.1-8B, 2048 tokens in, 256 out, H100s before H200s: InfiniBand keeps up, and a user waits for one layer of 32.

    >>> from roofline.specs.catalog import hardware, model
    >>> llama = model("llama-3.1-8b")
    >>> h100, h200 = (Deployment(model=llama, hardware=hardware(chip)) for chip in ("h100", "h200"))
    >>> s = split(prefill=h100, decode=h200, prompt_tokens=2048, output_tokens=256)
    >>> s.link_keeps_up, round(s.exposed_s * 1e3, 2), s.fits
    (True, 0.17, True)
    """
    _one_model(prefill, decode)
    if not isinstance(overlap, bool):
        raise SpecError(f"overlap: expected True or False, got {shown(overlap)}")
    first = predict(prefill, prompt_tokens=prompt_tokens, output_tokens=1, batch=prefill_batch)
    rest = _decoding(decode, prompt_tokens=prompt_tokens, output_tokens=output_tokens, batch=decode_batch)
    wires = _scale_out(prefill, decode) if link is None else [link]
    rate, alpha = _wire(*wires, latency_s=latency_s)
    here, there = (_n_links(d, n_links, batch=p.batch) for d, p in ((prefill, first), (decode, rest)))
    moved = kv_transfer(
        prefill,
        prompt_tokens=prompt_tokens,
        link=rate,
        latency_s=alpha,
        n_links=np.minimum(here, there),
        batch=prefill_batch,
    )
    givers = checked(n_prefill, name="n_prefill", low=0.0, above=True)
    takers = checked(n_decode, name="n_decode", low=0.0, above=True)
    n_wires = same(np.minimum(givers * here, takers * there), givers, takers, here, there)
    return Split(
        prefill=first,
        decode=rest,
        transfer=moved,
        n_prefill=givers,
        n_decode=takers,
        overlap=overlap,
        link_requests_per_s=rate * n_wires / (moved.moved_bytes / moved.batch),
        break_even_bytes_per_s=break_even_bytes_per_s(prefill, prompt_tokens=prompt_tokens, batch=prefill_batch),
    )


def _one_model(prefill: Deployment, decode: Deployment) -> None:
    """What the one pool makes, the other must be able to read."""
    require(prefill, Deployment, "split(prefill=…)")
    require(decode, Deployment, "split(decode=…)")
    if not prefill.model.generates:
        raise SpecError(f"split: {prefill.model.id} is an encoder: its one pass leaves nothing to decode; ask prefill")
    if prefill.model != decode.model:
        raise SpecError(f"split: expected one model in both pools, got {prefill.model.id} and {decode.model.id}")
    ours, theirs = prefill.numerics.kv.name, decode.numerics.kv.name
    if ours != theirs:
        raise SpecError(f"split: the cache moves as it is, but prefill makes {ours} and decode reads {theirs}; use one")


def _decoding(deployment: Deployment, *, prompt_tokens: Any, output_tokens: int, batch: Any) -> Prediction:
    """The decode pool's prediction, at the largest batch that fits where none is given."""
    checked(output_tokens, name="output_tokens: of which the prefill pool makes the first", low=2.0)
    if batch is None:
        asks = request(deployment.model, **asked_for(prompt_tokens=prompt_tokens))
        outputs = asks.n_memory if deployment.model.remembers else None
        longest = asks.n_new + (output_tokens - 1.0)
        most = memory(deployment, context_tokens=longest, memory_tokens=outputs).max_batch
        batch = np.maximum(most, 1.0)
    return predict(deployment, prompt_tokens=prompt_tokens, output_tokens=output_tokens, batch=batch)


def _scale_out(*pools: Deployment) -> list[Link]:
    links = []
    for chip in (pool.hardware for pool in pools):
        if chip.links.scale_out is None:
            raise SpecError(f"link: the file of {chip.id} gives no scale-out link; pass link= in B/s")
        links.append(chip.links.scale_out)
    return links


def _n_links(deployment: Deployment, given: Any, *, batch: Num) -> Num:
    return links_of(deployment, batch=batch) if given is None else checked(given, name="n_links", low=1.0)
