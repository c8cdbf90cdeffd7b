"""Which chips reach which over what: the levels of links around a chip, from the inside out.

First the scale-up domain (a switch, a mesh, a torus, a bridge between two), then the PCIe box where that domain is smaller
than a box, then the network, which joins any number.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from roofline.errors import PlanError
from roofline.specs.hardware import Hardware, Link

__all__ = ["Level", "levels", "link_between"]

PCIE_BOX = 8
"""Chips a PCIe box holds where a spec does not say: a prior, what server boards are built for."""


@dataclass(frozen=True, slots=True)
class Level:
    """`n` chips of a group that reach one another over a link; `within` chips of the group stand behind each of them."""

    link: Link
    n: int
    within: int


def levels(n_chips: int, chip: Hardware, *, stride: int = 1) -> tuple[Level, ...]:
    """The levels that a group of chips spans, every `stride`-th of them in the order of their ids.

    >>> from roofline.specs.catalog import hardware
    >>> [(x.link.kind, x.n, x.within) for x in levels(16, hardware("h100-sxm-80gb"))]
    [('nvlink', 8, 1), ('infiniband', 2, 8)]
    """
    found: list[Level] = []
    left, within = n_chips, 1
    for link, reach in _links(chip):
        n = _largest_part(left, reach / (stride * within))
        if n > 1:
            found.append(Level(_of_known_speed(link, chip), n, within))
        left, within = left // n, within * n
    if left > 1:
        raise _out_of_reach(n_chips * stride, chip)
    return tuple(found)


def link_between(n_chips: int, chip: Hardware) -> Link:
    """The innermost link that joins so many chips."""
    for link, reach in _links(chip):
        if n_chips <= reach:
            return _of_known_speed(link, chip)
    raise _out_of_reach(n_chips, chip)


def _links(chip: Hardware) -> Iterator[tuple[Link, float]]:
    """(link, how many chips it reaches), from the inside out."""
    up, out, host = chip.links.scale_up, chip.links.scale_out, chip.links.host
    reach = 1 if up is None else up.domain or 2
    if up is not None and reach > 1:
        yield up, reach
    if host is not None and host.kind == "pcie" and chip.kind == "gpu" and reach < PCIE_BOX:
        yield host, host.domain or PCIE_BOX
    if out is not None:
        yield out, math.inf


def _of_known_speed(link: Link, chip: Hardware) -> Link:
    if link.bytes_per_s is None:
        raise PlanError(
            f"{chip.id}: the bandwidth of its {link.name or link.kind} link is not known, so what chips send one another "
            "cannot be timed; write a hardware file with that figure, or use one chip"
        )
    return link


def _largest_part(n: int, most: float) -> int:
    """The largest divisor of n that is at most so many; 1 where not even two fit."""
    return next((d for d in range(int(min(n, most)), 0, -1) if n % d == 0), 1)


def _out_of_reach(n_chips: int, chip: Hardware) -> PlanError:
    reach = max((int(reach) for _, reach in _links(chip)), default=1)
    return PlanError(
        f"{chip.id}: no link is known that joins {n_chips} of them; up to {reach} can be joined. Write a hardware file with "
        "links.scale_out to say what joins more"
    )
