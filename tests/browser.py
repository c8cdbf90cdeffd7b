"""A headless Chromium for the tests of a page: the system's own, driven by Playwright, which downloads nothing.

    @pytest.fixture(scope="module")
    def browser() -> Iterator[Browser]:
        with chromium() as opened:
            yield opened

Module scope, not session: an open Playwright holds the thread's event loop, which the notebooks of the same worker need.
A machine with no browser skips the test and says why; where ROOFLINE_NEED_BROWSER is set (the gate) it fails instead.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--no-sandbox",  # containers, where the tests run as root, allow none
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def _without(reason: str) -> NoReturn:
    (pytest.fail if os.environ.get("ROOFLINE_NEED_BROWSER") else pytest.skip)(reason)


def chromium_path() -> str:
    """The Chromium that tests use; the calling test is skipped, or fails where one is needed, if it cannot be driven."""
    if importlib.util.find_spec("playwright") is None:
        _without("no Playwright: pip install 'llm-roofline[browser]'")
    named = os.environ.get("ROOFLINE_CHROMIUM")
    path = next(filter(None, map(shutil.which, [named] if named else NAMES)), None)
    if path is None:
        _without(
            f"ROOFLINE_CHROMIUM={named} is not a program"
            if named
            else f"no Chromium: none of {', '.join(NAMES)} is on the PATH; install one, or name it in ROOFLINE_CHROMIUM"
        )
    return path


@contextmanager
def chromium() -> Iterator[Browser]:
    """A headless browser, closed at the end; `new_context(locale=…, viewport=…)` of it is a fresh person at a screen."""
    path = chromium_path()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS, timeout=120_000)
        try:
            yield browser
        finally:
            browser.close()
