"""One level of a `config.json`, read with care: every value typed and bounded, every default taken on record.

A missing key is not a null key. Where a family's own code takes a default for a key that is absent, the adapter passes it
as `absent=`, and the reader notes it; where that code reads null as "none" or "as many as …", it passes `null=`. A key
with neither is required.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeVar

from roofline.errors import SpecError, did_you_mean, shorten, shown

__all__ = ["REQUIRED", "Config"]

T = TypeVar("T")


class _Required:
    def __repr__(self) -> str:
        return "required"


REQUIRED: Final[Any] = _Required()


class Config:
    """A mapping of a config file: `where` names the file and the section, `assumed` collects the defaults taken."""

    def __init__(self, data: dict[str, Any], *, where: str, assumed: list[str], section: str = "") -> None:
        self.data = data
        self.where = where
        self.assumed = assumed
        self._section = section

    def has(self, key: str) -> bool:
        """Whether the key stands here, null or not."""
        return key in self.data

    def given(self, key: str) -> bool:
        """Whether the key stands here with a value that is not null."""
        return self.data.get(key) is not None

    def section(self, key: str, *, absent: Any = REQUIRED) -> Config:
        """A nested mapping, such as `text_config`.  With `absent={}` a missing one is empty: class defaults all along."""
        value = self._value((key,), absent=absent, null=absent)
        if not isinstance(value, dict):
            raise self.wrong(key, "a mapping", value)
        return Config(value, where=self.where, assumed=self.assumed, section=f"{self._section}{key}.")

    def merged(self, key: str) -> Config:
        """This level with the section of that name laid over it, for families that keep shared keys at the top."""
        inner = self.section(key)
        return Config({**self.data, **inner.data}, where=self.where, assumed=self.assumed, section=inner._section)

    def whole(
        self, *keys: str, absent: Any = REQUIRED, null: Any = REQUIRED, least: int = 1, most: int = 10_000_000
    ) -> Any:
        """A whole number, under the first of the keys that is there."""
        key, value = self._found(keys, absent=absent, null=null)
        if value is None or key is None:
            return value
        if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self.wrong(key, f"a whole number from {least:,} to {most:,}", value)
        return value

    def n_layers(self, *keys: str, absent: Any = REQUIRED) -> int:
        """How many layers, `num_hidden_layers` unless other keys are given."""
        return int(self.whole(*(keys or ("num_hidden_layers",)), absent=absent, most=10_000))

    def number(self, *keys: str, absent: Any = REQUIRED, null: Any = REQUIRED, least: float, most: float) -> Any:
        """A finite number, under the first of the keys that is there."""
        key, value = self._found(keys, absent=absent, null=null)
        if value is None or key is None:
            return value
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
            raise self.wrong(key, f"a number from {least:g} to {most:g}", value)
        return float(value)

    def flag(self, *keys: str, absent: Any = REQUIRED, null: Any = REQUIRED) -> Any:
        """True or false."""
        key, value = self._found(keys, absent=absent, null=null)
        if key is not None and not isinstance(value, bool):
            raise self.wrong(key, "true or false", value)
        return value

    def word(self, *keys: str, absent: Any = REQUIRED, null: Any = REQUIRED, among: Sequence[str] = ()) -> Any:
        """A text, one of `among` where that is given."""
        key, value = self._found(keys, absent=absent, null=null)
        if value is None or key is None:
            return value
        if not isinstance(value, str) or len(value) > 200:
            raise self.wrong(key, "a text", value)
        if among and value not in among:
            near = did_you_mean(value, among)
            raise SpecError(f"{self.place(key)}: expected one of {', '.join(among)}, got {shown(value)}{near}")
        return value

    def items(
        self, *keys: str, kind: type | tuple[type, ...], absent: Any = REQUIRED, null: Any = REQUIRED,
        length: int | None = None, longest: int = 100_000,
    ) -> Any:  # fmt: skip
        """A list whose items are all of a kind (a bool is no int here), of that length where it is given."""
        key, value = self._found(keys, absent=absent, null=null)
        if value is None or key is None:
            return value
        if not isinstance(value, list) or len(value) > longest:
            raise self.wrong(key, "a list", value)
        for item in value:
            if not isinstance(item, kind) or (isinstance(item, bool) and kind is not bool):
                raise self.wrong(key, f"a list of {getattr(kind, '__name__', 'values')} only", item)
        if length is not None and len(value) != length:
            raise SpecError(f"{self.place(key)}: expected {length} items, got {len(value)}")
        return value

    def assume(self, key: str, value: object, why: str = "the family's own default") -> None:
        """Put a default on record."""
        line = f"{self._section}{key}: absent, {_said(value)} assumed ({why})"
        if line not in self.assumed:
            self.assumed.append(line)

    def wrong(self, key: str, expected: str, value: object) -> SpecError:
        """The error for a value that is not what it must be."""
        return SpecError(f"{self.place(key)}: expected {expected}, got {shown(value)}")

    def place(self, key: str) -> str:
        """File and key, as errors name them."""
        return f"{self.where}: {self._section}{shorten(key, 60)}"

    def _found(self, keys: tuple[str, ...], *, absent: Any, null: Any) -> tuple[str | None, Any]:
        """(key, value) of the first key that is there; (None, value) where a default or a null's meaning was taken."""
        for key in keys:
            if key in self.data:
                value = self.data[key]
                if value is not None:
                    return key, value
                if null is REQUIRED:
                    raise self.wrong(key, "a value", None)
                return None, null
        if absent is REQUIRED:
            others = f" (or {', '.join(keys[1:])})" if len(keys) > 1 else ""
            raise SpecError(f"{self.place(keys[0])}: missing; this key is required{others}")
        self.assume(keys[0], absent)
        return None, absent

    def _value(self, keys: tuple[str, ...], *, absent: Any, null: Any) -> Any:
        return self._found(keys, absent=absent, null=null)[1]


def _said(value: object) -> str:
    if value is None:
        return "none"
    return str(value).lower() if isinstance(value, bool) else f"{value}"
