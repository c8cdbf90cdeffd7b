"""The helper for tests of a page: it opens one, and without a browser it skips, or fails where one is needed."""

from __future__ import annotations

from pathlib import Path

import pytest
from browser import chromium, chromium_path


@pytest.mark.browser
def test_a_page_opens_from_its_file_and_runs_its_script(tmp_path: Path) -> None:
    page_file = tmp_path / "page.html"
    page_file.write_text("<!doctype html><meta charset=utf-8><h1>预填充</h1><script>document.title = 6 * 7</script>")
    with chromium() as browser:
        page = browser.new_page(locale="zh-CN")
        page.goto(page_file.as_uri())
        assert page.title() == "42"
        assert page.inner_text("h1") == "预填充"
        assert page.evaluate("navigator.language") == "zh-CN"


@pytest.mark.parametrize(("needed", "outcome"), [("", pytest.skip.Exception), ("1", pytest.fail.Exception)])
def test_no_chromium_skips_with_the_remedy_and_fails_where_one_is_needed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, needed: str, outcome: type[BaseException]
) -> None:
    monkeypatch.setenv("ROOFLINE_NEED_BROWSER", needed)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("ROOFLINE_CHROMIUM", raising=False)
    with pytest.raises(outcome, match=r"no Chromium: .* ROOFLINE_CHROMIUM"):
        chromium_path()
    monkeypatch.setenv("ROOFLINE_CHROMIUM", "/no/such/browser")
    with pytest.raises(outcome, match="/no/such/browser is not a program"):
        chromium_path()
