"""Units, once, at the edge: text such as "3.35 TB/s" in a file, 3.35e12 inside.

The grammar is a number, a space (optional), a prefix and a unit:

    size        B          k M G T P E (powers of 1000)  Ki Mi Gi Ti Pi (powers of 1024)
    byte rate   B/s        the same prefixes;  also bit/s (an eighth of a byte/s), as networks are sold
    FLOP rate   FLOP/s     k M G T P E;  OP/s means the same, for integer units
    time        s          n u µ m
    power       W          m k
    price       USD/h      none

GB is 1e9 and GiB is 2**30, everywhere. A bare number is an error: "3.35" of what? So is the wrong dimension
("4.8 TB" where a rate is wanted) and "Gb/s", which half the world reads as bytes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from roofline.errors import SpecError, shorten, shown

__all__ = [
    "BYTES",
    "BYTES_PER_S",
    "FLOPS_PER_S",
    "SECONDS",
    "USD_PER_HOUR",
    "WATTS",
    "Quantity",
    "format_bytes",
    "format_si",
    "parse",
]

_SI = {"": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50}
_SMALL = {"n": -9, "u": -6, "µ": -6, "m": -3, "": 0}


@dataclass(frozen=True, slots=True)
class Quantity:
    """A dimension: what it is called, the units it is written in, and the range a sane value lies in."""

    noun: str
    units: tuple[tuple[str, str], ...]  # (spelling, factor to the base unit)
    prefixes: tuple[tuple[str, str], ...]  # (spelling, factor)
    example: str
    low: float
    high: float

    def table(self) -> dict[str, Decimal]:
        """Every spelling of prefix and unit, and its factor to the base unit."""
        return {p + u: Decimal(pf) * Decimal(uf) for u, uf in self.units for p, pf in self.prefixes}


_SI_FACTORS = tuple((p, f"1e{e}") for p, e in _SI.items())
_ALL_FACTORS = _SI_FACTORS + tuple((p, str(2**e)) for p, e in _BINARY.items())

BYTES = Quantity("size", (("B", "1"),), _ALL_FACTORS, "80 GB or 81559 MiB", 1.0, 1e18)
BYTES_PER_S = Quantity("rate", (("B/s", "1"), ("bit/s", "0.125")), _ALL_FACTORS, "4.8 TB/s", 1.0, 1e17)
FLOPS_PER_S = Quantity("FLOP rate", (("FLOP/s", "1"), ("OP/s", "1")), _SI_FACTORS, "989.4 TFLOP/s", 1.0, 1e20)
SECONDS = Quantity("time", (("s", "1"),), tuple((p, f"1e{e}") for p, e in _SMALL.items()), "2 us", 1e-12, 1e6)
WATTS = Quantity("power", (("W", "1"),), (("m", "1e-3"), ("", "1"), ("k", "1e3")), "700 W", 1e-3, 1e7)
USD_PER_HOUR = Quantity("price", (("USD/h", "1"),), (("", "1"),), "2.69 USD/h", 1e-6, 1e6)

_EVERY = (BYTES, BYTES_PER_S, FLOPS_PER_S, SECONDS, WATTS, USD_PER_HOUR)
_DIGITS = r"(?:\d{1,3}(?:,\d{3})+|\d+(?:_\d+)*)"  # a comma only where it groups thousands: "3,35" is nobody's 335
_NUMBER = rf"[-+]?(?:{_DIGITS}(?:\.\d*)?|\.\d+)(?:e[-+]?\d{{1,4}})?|[-+]?(?:nan|inf|infinity)"
_TEXT = re.compile(rf"\s*({_NUMBER})\s*(\S*)\s*", re.I)


def parse(text: object, quantity: Quantity) -> float:
    """The value of a text such as "3.35 TB/s", in the base unit of `quantity`.

    Decimal arithmetic, so that "989.4 TFLOP/s" is the float nearest 989.4e12 and not a product of rounded factors.

    >>> parse("3.35 TB/s", BYTES_PER_S)
    3350000000000.0
    >>> parse("81559 MiB", BYTES)
    85520809984.0
    >>> parse("400 Gbit/s", BYTES_PER_S)
    50000000000.0
    >>> parse("4.8 TB", BYTES_PER_S)
    Traceback (most recent call last):
    roofline.errors.SpecError: expected a rate such as "4.8 TB/s", got "4.8 TB", which is a size
    """
    wanted = f'expected a {quantity.noun} such as "{quantity.example}"'
    if isinstance(text, bool) or not isinstance(text, (str, int, float)):
        raise SpecError(f"{wanted}, got {_quote(text)}")
    written = text if isinstance(text, str) else shown(text)
    match = _TEXT.fullmatch(written) if len(written) <= 80 else None
    if match is None:
        raise SpecError(f"{wanted}, got {_quote(text)}")
    number, unit = match.groups()
    if not unit:
        raise SpecError(f"{wanted}, got {_quote(text)} without a unit")
    factor = quantity.table().get(unit)
    if factor is None:
        raise SpecError(f"{wanted}, got {_quote(text)}{_about_unit(unit, quantity)}")
    try:
        value = float(Decimal(number.replace(",", "").replace("_", "")) * factor)
    except InvalidOperation:
        raise SpecError(f"{wanted}, got {_quote(text)}") from None
    if not quantity.low <= value <= quantity.high:
        raise SpecError(
            f"{wanted}, got {_quote(text)}: outside {quantity.low:g} to {quantity.high:g} {quantity.units[0][0]}"
        )
    return value


def _about_unit(unit: str, quantity: Quantity) -> str:
    if re.fullmatch(r"[kMGT]?b(ps|/s)?", unit) or unit.endswith("bps"):
        return "; write bits as Gbit/s and bytes as GB/s"
    for other in _EVERY:
        if other is not quantity and unit in other.table():
            return f", which is a {other.noun}"
    known = quantity.table()
    close = [u for u in known if u.lower() == unit.lower()]
    return f'; did you mean "{close[0]}"?' if close else ""


def _quote(value: object) -> str:
    return f'"{shorten(value, 40) if isinstance(value, str) else None if value is None else shown(value)}"'


def format_bytes(n_bytes: float, *, digits: int = 3) -> str:
    """A capacity for people, in binary prefixes, as drivers and engines print it.

    >>> format_bytes(2**30), format_bytes(536870912), format_bytes(0)
    ('1.00 GiB', '512 MiB', '0 B')
    """
    return _scaled(n_bytes, 1024.0, ("B", "KiB", "MiB", "GiB", "TiB", "PiB"), digits)


def format_si(value: float, unit: str, *, digits: int = 3) -> str:
    """Traffic, rates, work and times for people, in decimal prefixes.

    >>> format_si(3.35e12, "B/s"), format_si(0.00448, "s"), format_si(134217728, "FLOP")
    ('3.35 TB/s', '4.48 ms', '134 MFLOP')
    """
    if unit == "s" and abs(value) >= 1000:
        return f"{value:,.0f} s"
    if 0 < abs(value) < 1:
        return _scaled(value * 1e9, 1000.0, tuple(p + unit for p in ("n", "µ", "m", "")), digits)
    return _scaled(value, 1000.0, tuple(p + unit for p in ("", "k", "M", "G", "T", "P", "E")), digits)


def _scaled(value: float, base: float, units: tuple[str, ...], digits: int) -> str:
    step = 0
    while abs(value) >= base * (1 - 0.5 * 10**-digits) and step < len(units) - 1:
        value /= base
        step += 1
    if value == int(value) and step == 0:
        return f"{int(value)} {units[step]}"
    decimals = max(0, digits - 1 - max(0, len(str(int(abs(value)))) - 1))
    return f"{value:,.{decimals}f} {units[step]}"
