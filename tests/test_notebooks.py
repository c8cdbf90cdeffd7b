"""Notebooks run from top to bottom without a warning, keep to their form, carry their outputs, and hold what they say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))


def _read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]


def _outputs(cells: Any) -> list[Any]:
    return [output for cell in cells for output in cell.get("outputs", ())]


def _is_slider(output: Any) -> bool:
    return "application/vnd.jupyter.widget-view+json" in output.get("data", {})


def test_there_are_notebooks() -> None:
    assert NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning"
)
def test_a_notebook_runs(path: Path) -> None:
    notebook = _read(path)
    NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(path.parent)}}
    ).execute()
    assert [output.text for output in _outputs(notebook.cells) if output.get("name") == "stderr"] == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_notebook_is_short_defines_nothing_and_carries_its_outputs(path: Path) -> None:
    notebook = _read(path)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert len(notebook.cells) < 15
    assert notebook.cells[0].cell_type == "markdown"
    assert "**Takeaway.**" in notebook.cells[0].source
    assert not [c for c in code if "def " in c.source]
    assert [c for c in code[1:] if not c.outputs] == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_notebook_holds_its_last_word_by_an_assertion(path: Path) -> None:
    code = [cell for cell in _read(path).cells if cell.cell_type == "code"]
    assert "assert " in code[-1].source


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_slider_stands_beside_what_reads_without_a_kernel(path: Path) -> None:
    for cell in _read(path).cells:
        shown = [_is_slider(output) for output in cell.get("outputs", ())]
        assert not any(shown) or not all(shown)
        assert "interact" not in cell.source  # it captures output, and who executes it may wait for that in vain


def test_some_notebook_has_a_slider() -> None:
    assert any(_is_slider(output) for path in NOTEBOOKS for output in _outputs(_read(path).cells))
