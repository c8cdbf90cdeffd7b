"""Tiers of memory and how fast they reach a chip; what a transfer beside a pass adds to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from roofline.answers.records import Answer
from roofline.errors import SpecError, UnknownName, did_you_mean, require, shown
from roofline.ledger import summed
from roofline.num import Num, checked, same
from roofline.specs.deployment import Deployment
from roofline.specs.offload import DRIVES, ONE_MEMORY, require_host
from roofline.timing.elsewhere import Elsewhere, What
from roofline.work.count import How, rows_of
from roofline.work.step import MAX_TOKENS, Seqs
from roofline.work.sums import PassSums

__all__ = [
    "NVME_BYTES_PER_S",
    "Tier",
    "elsewhere_of",
    "exposed_seconds",
    "host_tier",
    "movable_bytes",
    "nvme_tier",
    "one_number",
    "plain",
    "rate_of",
    "the_tier",
]

NVME_BYTES_PER_S: Mapping[str, float] = DRIVES


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier(Answer):
    """A memory behind the chip's own, as one replica sees it.

    Attributes
    ----------
    name : str
    bytes_per_s : Num
        What reaches the chips of a replica together, the slowest of all on the way [B/s].
    host_bytes_per_s : Num or None
        Of host memory itself, for what is computed where it lies [B/s]; none where nobody said.
    capacity_bytes : float or None
        How much of it is free for this [B]; none where nobody said.
    """

    name: str
    bytes_per_s: Num
    host_bytes_per_s: Num | None = None
    capacity_bytes: float | None = None


def host_tier(deployment: Deployment, *, host_bytes_per_s: Any = None, capacity_bytes: Any = None) -> Tier:
    """Host memory: over PCIe, or over a coherent link to the CPU (NVLink-C2C, Infinity Fabric).

        rate = min(chips · host link, host memory)

    Parameters
    ----------
    host_bytes_per_s : float or array, optional
        Host memory that the chips of a replica share [B/s]. Without it, it is taken to be no slower than their links; of a
        chip whose file gives no host link, it is the rate.
    capacity_bytes : float, optional
        Of it, what is free for cache or weights [B].

    Raises
    ------
    SpecError
        Where CPU and chip share one memory: there is nowhere to move anything. Where no rate is known.

    Examples
    --------
    An H100 behind PCIe 5.0 x16 has 63 GB/s, whatever its host; on two channels of DDR4-3200, 51.2.

    >>> from roofline.specs.catalog import hardware, model
    >>> d = Deployment(model=model("llama-3.1-8b"), hardware=hardware("h100-sxm-80gb"))
    >>> host_tier(d).bytes_per_s, host_tier(d, host_bytes_per_s=51.2e9).bytes_per_s
    (63015000000.0, 51200000000.0)
    """
    require(deployment, Deployment, "host_tier(deployment)")
    chip = deployment.hardware
    require_host(chip)
    given = None if host_bytes_per_s is None else rate_of(host_bytes_per_s, name="host_bytes_per_s")
    rates = [*_host_links(deployment), *(() if given is None else (given,))]
    if not rates:
        raise SpecError(f"host: the file of {chip.id} gives no rate of its host link; pass host_bytes_per_s=")
    size = _capacity(capacity_bytes)
    return Tier(name="host", bytes_per_s=_slowest(rates), host_bytes_per_s=given, capacity_bytes=size)


def nvme_tier(
    deployment: Deployment, *, drive: str | None = None, bytes_per_s: Any = None, capacity_bytes: Any = None
) -> Tier:
    """A solid-state drive: one of `NVME_BYTES_PER_S` by name, or what its owner measured.

        rate = min(chips · host link, drive)

    Assumes long sequential reads, straight into the chips or through host memory in a pipeline.

    Examples
    --------
    >>> from roofline.specs.catalog import hardware, model
    >>> d = Deployment(model=model("llama-3.1-8b"), hardware=hardware("h100-sxm-80gb"))
    >>> nvme_tier(d, drive="nvme-gen4-x4").bytes_per_s, nvme_tier(d, bytes_per_s=26e9).bytes_per_s
    (7877000000.0, 26000000000.0)
    """
    require(deployment, Deployment, "nvme_tier(deployment)")
    known = ", ".join(NVME_BYTES_PER_S)
    if (drive is None) == (bytes_per_s is None):
        raise SpecError(
            f"nvme: expected either drive= ({known}) or bytes_per_s=, got {'neither' if not drive else 'both'}"
        )
    if drive is not None and drive not in NVME_BYTES_PER_S:
        raise UnknownName(f"drive: no drive {shown(drive)}{did_you_mean(str(drive), NVME_BYTES_PER_S)}; known: {known}")
    rate = NVME_BYTES_PER_S[drive] if drive is not None else rate_of(bytes_per_s, name="bytes_per_s")
    size = _capacity(capacity_bytes)
    return Tier(name=drive or "nvme", bytes_per_s=_slowest([rate, *_host_links(deployment)]), capacity_bytes=size)


def elsewhere_of(deployment: Deployment) -> Elsewhere | None:
    """What a deployment keeps in another memory, as each of its chips sees it; none where nothing is offloaded.

    All chips of a replica draw on the tier together: each has its own host link, and an equal part of the rest.
    """
    o, n_chips = deployment.offload, float(deployment.n_chips)
    if o is None:
        return None
    if o.to == "host":
        tier = host_tier(deployment, host_bytes_per_s=o.bytes_per_s)
    elif o.bytes_per_s is None:
        tier = nvme_tier(deployment, drive=o.to)
    else:
        tier = nvme_tier(deployment, bytes_per_s=o.bytes_per_s)
    return Elsewhere(
        what=o.what,
        fraction=o.fraction,
        bytes_per_s=tier.bytes_per_s / n_chips,
        compute=o.compute,
        overlap=o.overlap,
        host_bytes_per_s=None if tier.host_bytes_per_s is None else tier.host_bytes_per_s / n_chips,
        host_flops_per_s=None if o.host_flops_per_s is None else o.host_flops_per_s / n_chips,
        alone=n_chips / deployment.plan.chips_per_stage,
    )


def movable_bytes(deployment: Deployment, what: What, *, stage: int = 0) -> float:
    """All bytes of the matrices, or of every expert, that one chip of a stage holds: what a pass without end may stream."""
    rows, _ = rows_of(deployment.model, deployment.precision, How(), deployment.plan, stage)
    anything = Elsewhere(what=what, fraction=1.0, bytes_per_s=np.inf)
    moved = [row for row in rows if anything.moves(row)]
    everything = Seqs(n_seq=MAX_TOKENS, n_new=1.0, n_inputs=1.0, n_input_tokens=1.0, n_memory=1.0)
    endless = PassSums((everything,), n_ranks=deployment.plan.dp)
    return float(summed(moved, "weight_bytes_max").at(endless))


def _host_links(deployment: Deployment) -> list[float]:
    """What all chips of a replica read over their host links; nothing where no file says, or there is no link between."""
    link = deployment.hardware.links.host
    if link is None or link.bytes_per_s is None or link.kind in ONE_MEMORY:
        return []
    return [deployment.n_chips * link.bytes_per_s]


def _slowest(rates: list[Num]) -> Num:
    return same(np.minimum.reduce(np.broadcast_arrays(*rates)), *rates)


def rate_of(value: Any, *, name: str) -> Num:
    """A rate, above 0 and possibly without end [B/s]."""
    return checked(value, name=name, low=0.0, high=np.inf, above=True)


def _capacity(value: Any) -> float | None:
    return None if value is None else one_number(value, name="capacity_bytes", low=0.0)


def one_number(value: Any, *, name: str, low: float, high: float = 1e18) -> float:
    """A number that is no array, in its range."""
    number = checked(value, name=name, low=low, high=high)
    if not isinstance(number, float):
        raise SpecError(f"{name}: expected one number, got an array")
    return number


def exposed_seconds(moving_s: Num, *, computing_s: Num, n_layers: int) -> Num:
    """What a transfer, layer by layer beside a pass, adds to the pass.  [s]

        exposed = max(X / L, X − C · (L − 1) / L)

    of a transfer X and a pass C, both in L equal parts x and c. Layer i leaves once it is computed, at i·c, and once the
    link is free; so all is moved at the largest of i·c + (L − i + 1)·x over i = 1..L. That is linear in i, and largest at an
    end: c + X (the link never waits after the first layer) or C + x (it waits for the last). Less C, that is the above.
    Loading before computing is the same pipeline run backwards: the pass ends at max(X + c, x + C).

    Notes
    -----
    Assumes equal layers, and a pass that the transfer does not slow down. Never more than X; never less than X / L.

    Examples
    --------
    4 s in 4 parts, beside a pass of 4 s, of 2 s, and of none:

    >>> [exposed_seconds(4.0, computing_s=c, n_layers=4) for c in (4.0, 2.0, 0.0)]
    [1.0, 2.5, 4.0]
    """
    hidden = computing_s * ((n_layers - 1) / n_layers)
    return same(np.maximum(moving_s / n_layers, moving_s - hidden), moving_s, computing_s)


def plain(value: Any) -> Any:
    """An array of answers as it is; one as a plain bool or str."""
    return value if np.ndim(value) else value.item()


def the_tier(value: object) -> Tier:
    """The tier itself, or an error that says how to make one."""
    if not isinstance(value, Tier):
        raise SpecError(f"tier: expected a Tier, got {shown(value)}; make one with host_tier(…) or nvme_tier(…)")
    return value
