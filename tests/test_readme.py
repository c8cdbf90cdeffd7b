"""The README is true: its blocks of output are what the commands print, its Python runs and prints what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from roofline.specs.catalog import load_yaml
from roofline.specs.hardware import Hardware
from roofline.specs.model import Model
from roofline.views.cli import run

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


def _blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.M | re.S)


@pytest.mark.parametrize("block", _blocks("console"))
def test_a_console_block_shows_what_the_command_prints(
    block: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In an empty folder beside the tests' files, for what a command writes."""
    (tmp_path / "tests").symlink_to(Path(__file__).parent)
    monkeypatch.chdir(tmp_path)
    command, _, shown = block.partition("\n")
    assert command.startswith("$ roofline ")
    assert run(command.removeprefix("$ roofline ").split()) == 0
    printed = [line.rstrip() for line in capsys.readouterr().out.rstrip().splitlines()]
    assert printed == shown.rstrip().splitlines()


ASKED = re.findall(r"^\| [^|]*\?[^|]* \| `roofline ([^`]*)`", README, re.M)


@pytest.mark.parametrize(
    "command", [x for x in ASKED if x not in ("accuracy", "verify")]
)  # which have tests of their own
def test_the_commands_of_the_first_table_answer(
    command: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(command.split()) == 0
    assert capsys.readouterr().out


def test_the_first_table_asks_at_least_eight_questions() -> None:
    assert len(ASKED) >= 8


def test_the_python_blocks_run_and_print_what_their_comments_say(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {}
    for block in _blocks("python"):
        exec(compile(block, "README.md", "exec"), names)
    promised = re.findall(r"^# (.*)$", "\n".join(_blocks("python")), re.M)
    assert promised
    assert capsys.readouterr().out.splitlines() == promised


def test_the_yaml_blocks_are_valid_specs(tmp_path: Path) -> None:
    chip, model = _blocks("yaml")
    (tmp_path / "chip.yaml").write_text(chip, encoding="utf-8")
    (tmp_path / "model.yaml").write_text(model, encoding="utf-8")
    assert Hardware.read(load_yaml(tmp_path / "chip.yaml"), where="chip").unsourced() == ()
    assert Model.read(load_yaml(tmp_path / "model.yaml"), where="model").n_layers == 16


def test_there_are_exactly_two_set_up_commands_of_one_line_each() -> None:
    commands = _blocks("sh")
    assert len(commands) == 2
    assert all(len(c.strip().splitlines()) == 1 for c in commands)
    assert all(c.startswith("python3 -m venv ") for c in commands)


def test_the_figures_the_readme_links_exist() -> None:
    links = re.findall(r"\]\(((?:notebooks|tests|hardware|models|roofline)/[^)]*)\)", README)
    assert links
    assert [link for link in links if not (Path(__file__).parent.parent / link).exists()] == []


def test_the_sections_the_readme_links_exist() -> None:
    titles = [re.sub(r"[^\w\- ]", "", t.lower()).replace(" ", "-") for t in re.findall(r"^#+ (.*)$", README, re.M)]
    assert [link for link in re.findall(r"\]\(#([^)]*)\)", README) if link not in titles] == []
