"""What a report is made of, whatever it is written as."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

__all__ = ["Block", "Code", "Report", "Section", "Shares", "Table", "Text", "plain"]


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph; `words` between backticks are names, **words** between stars stand out."""

    text: str


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under a head; of every row the first cell says what it is about."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]

    @property
    def prose(self) -> tuple[bool, ...]:
        """Of each column, whether it is words and stands to the left: the first, and those with a long cell."""
        longest = [max((len(row[i]) for row in self.rows), default=0) for i in range(len(self.head))]
        return tuple(i == 0 or n > LONG for i, n in enumerate(longest))


@dataclass(frozen=True, slots=True)
class Shares:
    """A whole and its parts, each with a share of it [1]."""

    name: str
    parts: Sequence[tuple[str, float]]


@dataclass(frozen=True, slots=True)
class Code:
    """Lines to be run as they stand."""

    text: str


LONG = 28  # letters from which a column is prose

Block: TypeAlias = Text | Table | Shares | Code


@dataclass(frozen=True, slots=True)
class Section:
    """A question, whether its answer stands against a launch ("" where none is judged), and the answer."""

    title: str
    state: str
    blocks: Sequence[Block]


@dataclass(frozen=True, slots=True)
class Report:
    """A title, a verdict in one sentence, and sections."""

    title: str
    state: str
    verdict: str
    head: Table
    sections: Sequence[Section]
    foot: str


_MARKS = str.maketrans(dict.fromkeys("`*|<>[]\\", "_"))


def plain(name: str) -> str:
    """A name of somebody else's making, without what a report takes for its own marks.

    >>> plain("a|b`c*")
    'a_b_c_'
    """
    return "".join(c if c.isprintable() else "?" for c in name).translate(_MARKS)
