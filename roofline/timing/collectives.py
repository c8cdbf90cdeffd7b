"""What an exchange between chips costs on the links a machine really has: α for every stage, β for every byte.

Chips stand in levels: the scale-up domain (a switch, a mesh, a torus, a bridge between two), then the PCIe box where that
domain is smaller than a box, then the network. A group that does not fit a level exchanges inside it first, and then
across: each chip sends its 1/g of the payload over its own network port.

| verb           | payload X                | bytes a chip sends, a level of g        | stages |
|----------------|--------------------------|-----------------------------------------|--------|
| all_reduce     | what every chip holds    | 2 · (g − 1)/g · X_l; X_l in the network | log2 g |
| all_gather     | what every chip gets     | (g − 1)/g · X_l                         | log2 g |
| reduce_scatter | what every chip holds    | (g − 1)/g · X_l                         | log2 g |
| all_to_all     | what a chip gives away   | X · (share meant for chips there)       | 1      |
| send           | what a chip gives away   | X                                       | 1      |

X_l is X over the chips of the levels within. An all_reduce that an engine does in a kernel of its own, each chip reading
what the others hold, has one stage among chips that all reach one another. References: Thakur, Rabenseifner, Gropp 2005,
doi:10.1177/1094342005051521
(α–β costs of collectives); Klenk et al. 2020, doi:10.1109/ISCA45697.2020.00085 (reduction in the network).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from roofline.ledger import Collective
from roofline.specs.fabric import Level, levels, link_between
from roofline.specs.hardware import Hardware, Link

__all__ = ["LinkCost", "floor_cost", "link_cost"]


@dataclass(frozen=True, slots=True)
class LinkCost:
    """Of one exchange: messages that follow one another, their latency [s], and seconds for every byte of payload [s/B]."""

    n_stages: float
    latency_s: float
    s_per_byte: float


def link_cost(exchange: Collective, chip: Hardware) -> LinkCost:
    """α and β of an exchange on a machine of such chips.

    Examples
    --------
    Two MI300X share one 64 GB/s link, eight have seven each; a switch gives all it has to any number.

    >>> from roofline.specs.catalog import hardware
    >>> rate = lambda chip, n: 1e-9 / link_cost(Collective("reduce_scatter", n), hardware(chip)).s_per_byte * (n - 1) / n
    >>> round(rate("mi300x", 2)), round(rate("mi300x", 8)), round(rate("a100-sxm-80gb", 2))
    (64, 448, 300)
    """
    n_stages = latency_s = s_per_byte = 0.0
    for level in _levels(exchange, chip):
        rate = _bytes_per_s(level.link, level.n)
        stages = 1.0 if _in_one(exchange, level) else math.log2(level.n)
        n_stages, latency_s = n_stages + stages, latency_s + stages * level.link.latency_s
        s_per_byte += _share_sent(exchange, level) / rate
    return LinkCost(n_stages, latency_s, s_per_byte)


def _in_one(exchange: Collective, level: Level) -> bool:
    """Whether no message waits for another: a direct exchange does so among chips on one switch or mesh, not over PCIe."""
    all_meet = level.within == 1 and level.link.kind != "pcie"
    return exchange.verb in ("all_to_all", "send") or (exchange.direct and all_meet)


def floor_cost(exchange: Collective, chip: Hardware) -> float:
    """Seconds a byte of payload takes at least: once in each direction, over every port a chip has, reduced in the network.

    The widest of the levels, not their sum: nothing forbids that they work at the same time.
    """
    return max((_least_sent(exchange, x) / _all_ports(x.link) for x in _levels(exchange, chip)), default=0.0)


def _share_sent(exchange: Collective, level: Level) -> float:
    """Bytes a chip sends over a level, of each byte of payload."""
    g, outside = level.n, 1.0 / level.within
    match exchange.verb:
        case "all_reduce":
            return outside * (1.0 if level.link.reduces else 2.0 * (g - 1.0) / g)
        case "all_gather" | "reduce_scatter":
            return outside * (g - 1.0) / g
        case "all_to_all":
            return (g - 1.0) * level.within / exchange.n_ranks
        case "send":
            return 1.0


def _least_sent(exchange: Collective, level: Level) -> float:
    share = _share_sent(exchange, level)
    return min(share, 1.0 / level.within) if exchange.verb == "all_reduce" else share


def _levels(exchange: Collective, chip: Hardware) -> tuple[Level, ...]:
    """The levels a group of chips spans, from the inside out; a hand-over from stage to stage takes the widest it needs."""
    if exchange.verb == "send":
        return (Level(link_between(exchange.n_ranks * exchange.stride, chip), 2, 1),)
    return levels(exchange.n_ranks, chip, stride=exchange.stride)


def _bytes_per_s(link: Link, n: int) -> float:
    """What one chip sends to the n − 1 others of a group at once [B/s]: all ports of a switch, one port a neighbour of a
    mesh, log2 n of the ports of a torus."""
    all_ports = _all_ports(link)
    if link.pair_bytes_per_s is None or link.topology not in ("mesh", "torus"):
        return all_ports
    ports = n - 1.0 if link.topology == "mesh" else math.log2(n)
    return min(all_ports, link.pair_bytes_per_s * ports)


def _all_ports(link: Link) -> float:
    return link.bytes_per_s or math.nan  # levels are made of links of known speed
