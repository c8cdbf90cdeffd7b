"""The page's sentences in its two languages, with figures in their places."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from pathlib import Path
from typing import Literal, TypeAlias

from roofline.specs.catalog import load_yaml
from roofline.views.walkthrough.slots import Said, Slots

__all__ = ["LANGUAGES", "Language", "Phrases", "sentences"]

Language: TypeAlias = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = ("en", "zh")
TAGS = {"en": "en", "zh": "zh-Hans"}
_SLOT = re.compile(r"\{([\w.]+)\}")


@lru_cache(maxsize=1)
def sentences() -> dict[str, dict[str, str]]:
    """Every sentence by its key, in English and Chinese."""
    return load_yaml(Path(__file__).with_name("words.yaml"))


@dataclass(frozen=True, slots=True)
class Phrases:
    """Sentences as HTML; a figure that a setting moves is marked by the name of its slot, for the page's script."""

    slots: Slots
    language: Language

    def say(self, *keys: str) -> str:
        """Sentences in both languages, of which the page shows one; once, where they are the same; an empty key is none."""
        between = {"en": " ", "zh": ""}
        return self._both(
            {x: between[x].join(self._filled(sentences()[key][x], x) for key in keys if key) for x in LANGUAGES}
        )

    def value(self, name: str) -> str:
        """A figure by itself."""
        return self._both({language: self._slot(name, language) for language in LANGUAGES})

    def plain(self, key: str, language: Language | None = None) -> str:
        """A sentence in one language as plain text, with its figures as they are at first."""
        chosen = language or self.language
        return _SLOT.sub(lambda m: _of(self.slots.now(m[1]), chosen), sentences()[key][chosen])

    def _both(self, html: dict[Language, str]) -> str:
        if html["en"] == html["zh"]:
            return html["en"]
        return "".join(f'<span lang="{TAGS[language]}">{text}</span>' for language, text in html.items())

    def _filled(self, text: str, language: Language) -> str:
        parts = _SLOT.split(text)  # text, name, text, name, …
        return "".join(self._slot(x, language) if i % 2 else escape(x, quote=False) for i, x in enumerate(parts))

    def _slot(self, name: str, language: Language) -> str:
        text = escape(_of(self.slots.now(name), language), quote=False)
        return f'<b data-v="{name}">{text}</b>' if self.slots.moves(name) else text


def _of(said: Said, language: Language) -> str:
    return said if isinstance(said, str) else said[LANGUAGES.index(language)]
