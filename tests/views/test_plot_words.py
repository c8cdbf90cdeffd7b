"""What pictures say: every sentence in English and in Chinese, with the same values, and no letter left over."""

from __future__ import annotations

import importlib
import pkgutil
import string

import pytest

import roofline.views.plot
from roofline.views.plot.lettering import MAX_TITLE, pick
from roofline.views.plot.speech import Speech

MODULES = [m.name for m in pkgutil.iter_modules(roofline.views.plot.__path__)]
SPEECHES = {
    name: speech
    for name in MODULES
    for speech in vars(importlib.import_module(f"roofline.views.plot.{name}")).values()
    if isinstance(speech, Speech) and name.endswith(("words", "figure"))
}


def fields_of(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


def is_chinese(letter: str) -> bool:
    return "\u2e80" <= letter <= "\u9fff" or "\uff00" <= letter <= "\uff60"


def test_every_family_of_pictures_has_a_table() -> None:
    assert {"words", "roof_words", "latency_words", "memory_words", "load_words", "pareto_words"} <= set(SPEECHES)


@pytest.mark.parametrize("name", SPEECHES)
def test_both_languages_say_the_same_values(name: str) -> None:
    for key, (english, chinese) in SPEECHES[name].said.items():
        # a sentence may leave to Chinese grammar what English says apart, never a value that carries a number
        assert fields_of(chinese) == fields_of(english), key


@pytest.mark.parametrize("name", SPEECHES)
def test_english_has_no_chinese_letter_and_chinese_no_latin_full_stop(name: str) -> None:
    for key, (english, chinese) in SPEECHES[name].said.items():
        assert not any(map(is_chinese, english)), key
        assert not chinese.endswith("."), key
        assert ". " not in chinese, key


def test_a_title_is_measured_in_halves_of_a_chinese_letter() -> None:
    """36 letters are 72 halves and fit; 40 are 80 and do not."""
    assert pick("计" * 36, "短") == "计" * 36
    assert pick("计" * 40, "短") == "短"
    assert len(pick("x" * 99)) == MAX_TITLE
