"""Prefill on one pool of chips, decode on another: what the cache costs on its way, and how many of each to have.

Two predictions and a transfer. The prefill pool makes the first token of every request, the decode pool the second and all
after; between them the request's cache crosses a link. Both pools run the passes that one pool would have run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from roofline.answers.drafters import Drafting, beside
from roofline.answers.inputs import request
from roofline.answers.memory import memory
from roofline.answers.phases import asked_for
from roofline.answers.prediction import Prediction, predict
from roofline.answers.records import Answer
from roofline.answers.tiers import plain
from roofline.answers.transfer import KvTransfer, break_even_bytes_per_s, kv_transfer, n_links_of, wire
from roofline.errors import SpecError, require, shown
from roofline.num import Num, checked, same, whole
from roofline.specs.deployment import Deployment
from roofline.specs.hardware import Link

__all__ = ["Split", "split"]


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
        first: Num = getattr(self.prefill.prefill, quantity) * self.prefill.deployment.n_chips / self.prefill.batch
        each = self.decode.step_work(quantity) * self.decode.deployment.n_chips / self.decode.batch
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
    prefix_tokens: Any = 0,
    drafting: Drafting | None = None,
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
    prefix_tokens, drafting
        As in `predict`: what the prefill pool's prefix cache has of each prompt; who drafts in the decode pool.

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
    first = predict(
        prefill, prompt_tokens=prompt_tokens, output_tokens=1, batch=prefill_batch, prefix_tokens=prefix_tokens
    )
    rest = _decoding(decode, drafting, prompt_tokens=prompt_tokens, output_tokens=output_tokens, batch=decode_batch)
    wires = _scale_out(prefill, decode) if link is None else [link]
    rate, alpha = wire(*wires, latency_s=latency_s)
    here, there = (n_links_of(d, n_links, batch=p.batch) for d, p in ((prefill, first), (decode, rest)))
    moved = kv_transfer(
        prefill,
        prompt_tokens=prompt_tokens,
        link=rate,
        latency_s=alpha,
        n_links=np.minimum(here, there),
        batch=prefill_batch,
        prefix_tokens=prefix_tokens,
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


def _decoding(
    deployment: Deployment, drafting: Drafting | None, *, prompt_tokens: Any, output_tokens: int, batch: Any
) -> Prediction:
    """The decode pool's prediction, at the largest batch that fits where none is given."""
    checked(output_tokens, name="output_tokens: of which the prefill pool makes the first", low=2.0)
    if batch is None:
        asks = request(deployment.model, **asked_for(prompt_tokens=prompt_tokens))
        outputs = asks.n_memory if deployment.model.remembers else None
        longest = asks.n_new + (output_tokens - 1.0)
        drafts = None if drafting is None else beside(drafting.drafter, deployment)
        most = memory(deployment, context_tokens=longest, memory_tokens=outputs, beside=drafts).max_batch
        batch = np.maximum(most, 1.0)
    return predict(deployment, prompt_tokens=prompt_tokens, output_tokens=output_tokens, batch=batch, drafting=drafting)


def _scale_out(*pools: Deployment) -> list[Link]:
    links = []
    for chip in (pool.hardware for pool in pools):
        if chip.links.scale_out is None:
            raise SpecError(f"link: the file of {chip.id} gives no scale-out link; pass link= in B/s")
        links.append(chip.links.scale_out)
    return links
