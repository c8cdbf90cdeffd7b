"""What the page may show: for every figure its text at every setting, looked up and never computed by the page's script."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from roofline.errors import SpecError

__all__ = ["Said", "Slots"]

DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_"

Said: TypeAlias = str | tuple[str, str]
"""A text, or one in English and one in Chinese."""


@dataclass(frozen=True, slots=True)
class Slots:
    """Texts by name, each over some of the settings: "n" is a text for every prompt, "nb" for every prompt and batch.

    >>> slots = Slots({"n": 3, "b": 2}, {"n": 1, "b": 0})
    >>> slots.put("pass.flops", "n", np.array([10.0, 20.0, 30.0]), "{:.0f} FLOP".format)
    >>> slots.now("pass.flops"), slots.packed()["pass.flops"]
    ('20 FLOP', ['n', ['10 FLOP', '20 FLOP', '30 FLOP'], '012'])
    """

    sizes: Mapping[str, int]
    start: Mapping[str, int]
    texts: dict[str, tuple[str, list[Said]]] = field(default_factory=dict)

    def put(self, name: str, dims: str, values: Any, said: Callable[[Any], Said] = str) -> None:
        """A text for every combination of settings: `values` broadcast to their shape, each said in words."""
        if name in self.texts:
            raise SpecError(f"walkthrough: {name} is written twice")
        shape = tuple(self.sizes[dim] for dim in dims)
        every = np.broadcast_to(np.asarray(values), shape).ravel().tolist()
        self.texts[name] = (dims, [said(value) for value in every])

    def say(self, name: str, text: Said) -> None:
        """A text that no setting moves."""
        self.texts[name] = ("", [text])

    def copy(self, name: str, other: str) -> None:
        """The texts of another slot under a second name."""
        self.texts[name] = self.texts[other]

    def now(self, name: str) -> Said:
        """The text before anything is set."""
        dims, texts = self.texts[name]
        at = 0
        for dim in dims:
            at = at * self.sizes[dim] + self.start[dim]
        return texts[at]

    def moves(self, name: str) -> bool:
        """Whether any setting changes it."""
        return len(set(self.texts[name][1])) > 1

    def packed(self) -> dict[str, list[Any]]:
        """For the page: settings, the texts each once, and which at every setting, in one or two digits of base 64."""
        return {name: list(_packed(*self.texts[name])) for name in self.texts if self.moves(name)}


def _packed(dims: str, texts: list[Said]) -> tuple[str, list[Said], str]:
    each = {text: i for i, text in enumerate(dict.fromkeys(texts))}
    codes = [
        DIGITS[i % 64] if len(each) <= 64 else DIGITS[i // 64] + DIGITS[i % 64] for i in map(each.__getitem__, texts)
    ]
    return dims, list(each), "".join(codes)
