"""One record of a file, read with care: what is a number is checked, what is not measured stays unknown, the rest is said.

A value that cannot be one (text, negative, NaN) and a zero that means "not measured" are left out with a warning that
names file, line and field; where the field is required, or the file is one that people write by hand, that is an error.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any

from roofline.errors import SpecError, UnknownName, did_you_mean, shorten, shown
from roofline.evidence.readers.names import format_of
from roofline.evidence.readers.text import Place

__all__ = ["Fields"]

_BLANK = ("", "-", "na", "n/a", "null", "none")
_MOST = 1e30
_LISTED = 40
_SOUGHT = 1000


class Fields:
    """The keys and values of one record; `origin` says which key a value of ours came from."""

    def __init__(self, data: Mapping[str, Any], place: Place, *, strict: bool = False, prefix: str = "") -> None:
        self.data = data
        self.place = place
        self.strict = strict
        self._prefix = prefix
        self.origin: dict[str, str] = {}
        self._used: set[str] = set()
        self._warnings: dict[str, None] = {}
        self._doubtful: dict[str, None] = {}

    @property
    def doubtful(self) -> tuple[str, ...]:
        """The fields of a `Run` that contradict others."""
        return tuple(self._doubtful)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was found wrong, each with its place."""
        return tuple(self._warnings)

    def given(self, key: str) -> bool:
        """Whether the key stands here with a value; asking does not count as using it."""
        value = self.data.get(key)
        return value is not None and not (isinstance(value, str) and value.strip().lower() in _BLANK)

    def first(self, keys: Iterable[str]) -> str | None:
        """The first of the keys that has a value; all of them count as used."""
        keys = tuple(keys)
        self._used.update(keys)
        return next((key for key in keys if self.given(key)), None)

    def value(self, *keys: str) -> Any:
        """What stands under the first of the keys that has a value, as it is; none if there is none."""
        key = self.first(keys)
        return None if key is None else self.data[key]

    def number(
        self, *keys: str, as_: str = "", per: float = 1.0, required: bool = False, zero: bool = False
    ) -> float | None:
        """A finite number above zero, under the first of the keys that has one; `per` of its units are one of ours.

        A zero is "not measured" unless `zero` allows it. `as_` is the name of ours it is kept under in `origin`.
        """
        key = self.first(keys)
        if key is None:
            if required:
                raise self.missing(keys)
            return None
        number, problem = _number(self.data[key], zero=zero)
        if number is None:
            if required or (self.strict and "not measured" not in problem):
                raise SpecError(f"{self._of(key)}: expected a number above 0, got {problem}")
            self.warn(key, f"{problem}; not used")
            return None
        if as_:
            self.origin[as_] = key
        return number / per

    def needed(self, *keys: str, as_: str = "") -> int:
        """A whole number above 0 that must be there."""
        self.number(*keys, as_=as_, required=True)
        whole = self.whole(*keys, as_=as_)
        if whole is None:
            key = self.first(keys) or keys[0]
            raise SpecError(f"{self._of(key)}: expected a whole number, got {shown(self.data[key])}")
        return whole

    def whole(self, *keys: str, as_: str = "", zero: bool = False) -> int | None:
        """A whole number, as `number`; 8.0 is one."""
        number = self.number(*keys, as_=as_, zero=zero)
        if number is None or (number.is_integer() and number < 2**53):
            return None if number is None else int(number)
        key = self.first(keys) or keys[0]
        if self.strict:
            raise SpecError(f"{self._of(key)}: expected a whole number, got {shown(self.data[key])}")
        self.warn(key, f"expected a whole number, got {shown(self.data[key])}; not used")
        return None

    def word(self, *keys: str) -> str | None:
        """A text of one line, under the first of the keys that has one."""
        key = self.first(keys)
        if key is None:
            return None
        value = self.data[key]
        if isinstance(value, str):
            return shorten(value, 200) or None
        self.warn(key, f"expected a text, got {shown(value)}; not used")
        return None

    def format(self, *keys: str) -> str | None:
        """A number format, by our name for it."""
        text = self.word(*keys)
        try:
            return format_of(text)
        except UnknownName as error:
            key = self.first(keys) or keys[0]
            if self.strict:
                raise SpecError(f"{self._of(key)}: {error}") from None
            self.warn(key, f"no number format is called {shown(text)} here; not used")
            return None

    def numbers(self, values: Any, key: str) -> list[float]:
        """The numbers of a list that stands under a key, if it is one of numbers only; else none of them."""
        if not isinstance(values, list) or not values:
            return []
        numbers = [_number(value, zero=True)[0] for value in values]
        if any(number is None for number in numbers):
            self.warn(key, "expected a list of numbers; not used")
            return []
        return [number for number in numbers if number is not None]

    def warn(self, key: str, problem: str) -> None:
        """Put something odd about a key on record, once."""
        self._warnings[f"{self._of(key)}: {problem}"] = None

    def doubt(self, *names: str) -> None:
        """Put fields of a `Run` on record that contradict others."""
        self._doubtful |= dict.fromkeys(names)

    def adopt(self, inner: Fields) -> None:
        """Take over what was found wrong in a part of this record."""
        self._warnings |= inner._warnings

    def note(self, problem: str) -> None:
        """Put something odd about the whole record on record, once."""
        self._warnings[f"{self.place}: {problem}"] = None

    def _of(self, key: str) -> str:
        return self.place.of(f"{self._prefix}{key}")

    def missing(self, keys: Iterable[str]) -> SpecError:
        """The error for a required key that is not there, with the closest that is."""
        keys = tuple(keys)
        near = did_you_mean(
            keys[0], [str(key)[:100] for key in islice(self.data, _SOUGHT) if key not in self._used], n=1
        )
        return SpecError(f"{self.place}: {' or '.join(keys)}: missing; it is required{near}")

    def ignored(self, known: Iterable[str] = ()) -> tuple[str, ...]:
        """The keys that hold something and were not used; with the closest of the known names, where those are given."""
        left = [str(key) for key in self.data if key not in self._used and self.given(key)]
        said = tuple(_hinted(key, tuple(known)) for key in left[:_LISTED])
        return (*said, f"and {len(left) - _LISTED:,} more") if len(left) > _LISTED else said


@lru_cache(maxsize=1024)
def _hinted(key: str, known: tuple[str, ...]) -> str:
    """A key as it is listed, with the closest of the known names."""
    near = did_you_mean(key[:100], known, n=1)
    return shorten(key, 60) + (f" ({near.removeprefix('; ')})" if near else "")


def _number(value: Any, *, zero: bool) -> tuple[float | None, str]:
    """The number a value is, or none and what is wrong with it."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None, shown(value)
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None, shown(value)
    if math.isnan(number):
        return None, "NaN, that is not measured"
    if number == 0.0 and not zero:
        return None, "0 reads as not measured"
    if not 0.0 <= number <= _MOST:
        return None, f"{shown(value)}, which no measurement is"
    return number, ""
