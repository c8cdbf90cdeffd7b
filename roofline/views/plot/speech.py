"""What pictures say, in English and in Chinese: a table of sentences, each in both, with room for values."""

from __future__ import annotations

from collections.abc import Mapping

from roofline.views.plot.theme import LangName

__all__ = ["Speech"]


class Speech:
    """Sentences by name, each in English and in Chinese.

    >>> say = Speech(knee=("knee at {at}", "膝点 {at}"))
    >>> say("en", "knee", at=3), say("zh", "knee", at=3)
    ('knee at 3', '膝点 3')
    """

    def __init__(self, **said: tuple[str, str]) -> None:
        self.said: Mapping[str, tuple[str, str]] = said

    def __call__(self, lang: LangName, name: str, /, **values: object) -> str:
        """A sentence of a language with its values."""
        return self.said[name][lang == "zh"].format(**values)

    def __contains__(self, name: str) -> bool:
        return name in self.said
