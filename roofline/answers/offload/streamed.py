"""Passes whose weights lie partly in another tier, streamed from there or computed there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from roofline.answers.records import Answer
from roofline.answers.tiers import Tier, movable_bytes, plain, rate_of, the_tier
from roofline.errors import SpecError, Unsupported, require, shown
from roofline.num import Num, checked, common_shape
from roofline.specs.deployment import Deployment
from roofline.timing.clock import clock
from roofline.timing.elsewhere import Elsewhere, Offloaded
from roofline.work.count import count
from roofline.work.step import Seqs, Step

__all__ = ["OffloadedPass", "offloaded_pass"]

Weights = Literal["experts", "weights"]
Where = Literal["chip", "host"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OffloadedPass(Answer):
    """A pass with a share of its weights in a tier.

    `streamed_bytes` come from the tier in this pass, `resident_bytes` lie there and leave device memory; `device_s` is what
    the chip takes, `tier_s` what the tier does, `bound` the larger of the two ("device" or "tier"), `seconds` the pass.
    """

    fraction: Num
    streamed_bytes: Num
    resident_bytes: Num
    device_s: Num
    tier_s: Num
    seconds: Num
    bound: Any


def offloaded_pass(
    deployment: Deployment,
    *,
    step: Seqs | Step,
    tier: Tier,
    fraction: Any,
    what: Weights = "experts",
    compute: Where = "chip",
    overlap: bool = False,
    host_flops_per_s: Any = None,
) -> OffloadedPass:
    """A prefill or decode pass while a fraction f of the experts, or of all matrices, lies outside device memory.

        compute="chip"  device_s = the whole pass                         tier_s = f·W / rate of the tier
        compute="host"  device_s = the pass less f of those products      tier_s = max(f·W / host memory, f·F / host's peak)
        seconds = device_s + tier_s,   or with overlap the larger of the two

    W and F are the bytes that this pass streams of those weights and their FLOPs, from the ledger's own rows: of experts,
    the expected distinct ones. `compute="chip"` copies weights into device memory and reads them from there;
    `compute="host"` multiplies them where they lie (llama.cpp's `--n-cpu-moe`, ktransformers), so bytes cross the host's
    memory bus, and never the link.

    Parameters
    ----------
    step : Seqs or tuple of Seqs
        The pass: Seqs(n_seq=B, n_new=1, n_past=S) for a decode, Seqs(n_seq=B, n_new=T) for a prefill.
    fraction : float or array
        f, of the layers [1].
    what : "experts" or "weights"
        Routed experts alone; or every matrix and the head (tables that are looked up stay).
    compute : "chip" or "host"
    overlap : bool
        Whether tier and chip work at the same time: weights prefetched layers ahead (of experts, by one who knows the
        routing), or experts of a layer beside what does not wait for them. The bound of what overlap can do.
    host_flops_per_s : float or array, optional
        Peak of the host on those weights [FLOP/s]. Needed where more than one token is computed there; one alone is bound by
        bytes on any host.

    Notes
    -----
    Assumes one chip, layers alike, and full rates: a tier at its bus limit is an upper bound that engines stay well below
    (llama.cpp with experts on a desktop's CPU reaches 0.3 to 0.4 of it: llmfit#450, #755). Activations that cross the
    link, the copy's writes into device memory, and experts kept because they were just used are not in it.

    Examples
    --------
    Qwen3-Next in bf16: 10 of 512 experts, 48 layers, 3 · 2048 · 512 weights each, are 3.02 GB a token; 60 ms at 50 GB/s.

    >>> from roofline.answers.offload import host_tier
    >>> from roofline.specs.catalog import hardware, model
    >>> d = Deployment(model=model("qwen3-next-80b-a3b"), hardware=hardware("rtx-4090"))
    >>> slow, step = host_tier(d, host_bytes_per_s=50e9), Seqs(n_seq=1, n_new=1, n_past=512)
    >>> p = offloaded_pass(d, step=step, tier=slow, fraction=1.0, compute="host")
    >>> p.streamed_bytes, round(p.tier_s, 4), round(p.resident_bytes / 1e9)
    (3019898880.0, 0.0604, 155)
    """
    require(deployment, Deployment, "offloaded_pass(deployment)")
    if deployment.n_chips != 1:
        raise Unsupported(
            f"offloaded_pass: counts one chip, got {deployment.n_chips}; use Deployment(offload=…) instead"
        )
    elsewhere = Elsewhere(
        what=_chosen(what, Weights, "what"),
        fraction=checked(fraction, name="fraction", low=0.0, high=1.0),
        bytes_per_s=the_tier(tier).bytes_per_s,
        compute=_chosen(compute, Where, "compute"),
        overlap=overlap,
        host_bytes_per_s=tier.host_bytes_per_s,
        host_flops_per_s=None if host_flops_per_s is None else rate_of(host_flops_per_s, name="host_flops_per_s"),
    )
    ledger = count(deployment.model, step, precision=deployment.precision)
    if not any(map(elsewhere.moves, ledger.rows)):
        raise SpecError(f'what: {deployment.model.id} has no experts; use what="weights"')
    passing = Offloaded(clock(ledger, deployment.hardware), elsewhere, n_tokens=ledger.n_tokens)
    common_shape(fraction=elsewhere.fraction, step=passing.device_s, rate=elsewhere.bytes_per_s)
    return OffloadedPass(
        fraction=elsewhere.fraction,
        streamed_bytes=passing.tier_bytes,
        resident_bytes=elsewhere.fraction * movable_bytes(deployment, elsewhere.what),
        device_s=passing.device_s,
        tier_s=passing.tier_s,
        seconds=passing.seconds,
        bound=plain(np.where(np.greater(passing.tier_s, passing.device_s), "tier", "device")),
    )


def _chosen(value: Any, options: Any, name: str) -> Any:
    if value not in get_args(options):
        raise SpecError(f"{name}: expected {' or '.join(map(repr, get_args(options)))}, got {shown(value)}")
    return value
