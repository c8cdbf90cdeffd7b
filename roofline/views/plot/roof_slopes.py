"""Other roads to a chip as slopes of a roofline: its cache, the host's memory, a drive, the links to other chips.

    slope   β of the road · x          point   (FLOP / bytes that cross it, FLOP / seconds)

Each has an x of its own, FLOP for each byte that crosses it. A slope is the roof of a pass all of whose bytes came that
way; a point stands where a deployment sends some of them there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from roofline.answers.tiers import host_tier, nvme_tier
from roofline.errors import RooflineError, SpecError, did_you_mean, shown
from roofline.num import checked
from roofline.specs.deployment import Deployment
from roofline.specs.fabric import link_between
from roofline.specs.offload import DRIVES
from roofline.timing.clock import Timing
from roofline.timing.elsewhere import Offloaded
from roofline.views.plot.request import Phase

__all__ = ["Slope", "slopes_of"]

MOST = 4
CACHES = ("cache", "l2")
NAMES = ("host", *DRIVES, "link", *CACHES)
Kind = Literal["tier", "link"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Slope:
    """A road of so many bytes a second [B/s], and where the phases stand on it: (phase, FLOP a byte of it, FLOP/s)."""

    name: str
    kind: Kind
    bytes_per_s: float
    points: tuple[tuple[Phase, float, float], ...]


def slopes_of(deployment: Deployment, tiers: Any, passes: Mapping[Phase, Timing]) -> tuple[Slope, ...]:
    """The roads asked for: names, or a mapping of names to rates of one's own  [B/s]."""
    rates = _asked(tiers)
    return tuple(_slope(deployment, name, rate, passes) for name, rate in rates.items())


def _asked(tiers: Any) -> dict[str, float | None]:
    rates: dict[str, float | None]
    if isinstance(tiers, Mapping):
        rates = {str(name): None if value is None else _rate(value, str(name)) for name, value in tiers.items()}
    elif isinstance(tiers, Sequence) and not isinstance(tiers, str) and all(isinstance(name, str) for name in tiers):
        rates = dict.fromkeys(tiers)
    else:
        raise SpecError(
            f'tiers: expected names such as ["host", "link"], or {{"l2": 5.5e12}} in B/s, got {shown(tiers)}'
        )
    for name, rate in rates.items():
        if rate is None and name not in NAMES:
            raise SpecError(
                f"tiers: expected {', '.join(NAMES)}, or a name with a rate of your own as in {{{name!r}: 5.5e12}}, got "
                f"{shown(name)}{did_you_mean(name, NAMES)}"
            )
    if len(rates) > MOST:
        raise SpecError(f"tiers: expected up to {MOST}, which can be told apart, got {len(rates)}")
    return rates


def _rate(value: Any, name: str) -> float:
    rate = checked(value, name=f"tiers {name}", low=0.0, high=1e18, above=True)
    if not isinstance(rate, float):
        raise SpecError(f"tiers {name}: expected one rate in B/s, got {shown(value)}")
    return rate


def _slope(d: Deployment, name: str, given: float | None, passes: Mapping[Phase, Timing]) -> Slope:
    if name == "link":
        rate = _link_rate(d) if given is None else given
        crossing = {phase: float(t.link_bytes) for phase, t in passes.items()}
        return Slope(name=name, kind="link", bytes_per_s=rate, points=_points(passes, crossing))
    rate = _tier_rate(d, name) / d.n_chips if given is None else given
    here = d.offload is not None and d.offload.to == name
    moved = {phase: float(t.tier_bytes) for phase, t in passes.items() if here and isinstance(t, Offloaded)}
    return Slope(name=name, kind="tier", bytes_per_s=rate, points=_points(passes, moved))


def _link_rate(d: Deployment) -> float:
    """Of one chip, over the innermost link that joins all of its replica  [B/s]."""
    if d.n_chips == 1:
        raise SpecError("tiers: one chip sends nothing over a link; a Plan(tp=2) would")
    return link_between(d.n_chips, d.hardware).bytes_per_s or 0.0


def _tier_rate(d: Deployment, name: str) -> float:
    """Of all chips of a replica together  [B/s]."""
    chip = d.hardware.id
    own = f"give its rate, as in tiers={{{name!r}: 5.5e12}}, in B/s (--tiers '{name}=5.5 TB/s')"
    if name in CACHES:
        raise SpecError(f"tiers: the file of {chip} gives no bandwidth of its cache; {own}")
    bandwidth = None if d.offload is None or d.offload.to != name else d.offload.bytes_per_s
    try:
        tier = host_tier(d, host_bytes_per_s=bandwidth) if name == "host" else nvme_tier(d, drive=name)
    except RooflineError as error:
        raise SpecError(f"tiers: {error}; leave it out, or {own}") from None
    return float(tier.bytes_per_s)


def _points(passes: Mapping[Phase, Timing], crossing: Mapping[Phase, float]) -> tuple[tuple[Phase, float, float], ...]:
    """Where a phase stands on the road, of those that send anything over it."""
    found = []
    for phase, t in passes.items():
        work, moved = float(t.executed_flops), crossing.get(phase, 0.0)
        if moved > 0.0 and work > 0.0:
            found.append((phase, work / moved, work / float(t.seconds)))
    return tuple(found)
