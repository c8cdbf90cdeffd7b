"""Notebooks run from top to bottom, keep to their form, and carry their outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))


def _read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]


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


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_notebook_is_short_defines_nothing_and_carries_its_outputs(path: Path) -> None:
    notebook = _read(path)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert len(notebook.cells) < 15
    assert notebook.cells[0].cell_type == "markdown"
    assert "**Takeaway.**" in notebook.cells[0].source
    assert not [c for c in code if "def " in c.source]
    assert [c for c in code[1:] if not c.outputs] == []
