"""The command line: the library's words, said to people (tables and a sentence) or to programs (`--json`).

Exit codes: 0 answered ("does not fit" included), 1 a bug, 2 bad input, 4 `--check` not met, 130 interrupted.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Sequence

import typer

from roofline.errors import RooflineError, shorten
from roofline.views.cli.common import say, speak_ascii_where_needed

__all__ = ["COMMANDS", "app_for", "run"]

COMMANDS = {
    "predict": "predict",
    "explain": "explain",
    "kv": "memory",
    "memory": "memory",
    "serve-at": "serve_at",
    "levers": "levers",
    "cost": "cost",
    "size": "size",
    "sweep": "sweep",
    "accuracy": "accuracy",
    "compare": "compare",
    "calibrate": "calibrate",
    "plot": "plot",
    "checklist": "checklist",
    "dashboard": "checklist",
    "walkthrough": "walkthrough",
    "verify": "verify",
    "hardware": "catalogue",
    "models": "models",
    "validate": "catalogue",
}
"""Every command, and the module of this package it lives in."""


def app_for(arguments: Sequence[str]) -> typer.Typer:
    """The application with the command that is asked for, so that no other is loaded; with all where none is."""
    app = typer.Typer(
        name="roofline",
        help="What TTFT and TPOT will I get, what binds them, does it fit?  Counts a forward pass, clocks it on a chip.",
        epilog="\b\nExamples:\n"
        "  roofline predict llama-3.1-8b h100 --prompt 2048 --output 256 --batch 8\n"
        "  roofline explain llama-2-7b h100 --prompt 4\n"
        "  roofline kv llama-3.1-8b --context 131072",
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    app.callback(invoke_without_command=True)(_root)
    asked = next((a for a in arguments if not a.startswith("-")), "")
    for name in [asked] if asked in COMMANDS else COMMANDS:
        module = importlib.import_module(f"roofline.views.cli.{COMMANDS[name]}")
        app.command(name)(getattr(module, name.replace("-", "_")))
    return app


def _root(
    version: bool = typer.Option(False, "--version", help="Print the version and leave."),
    debug: bool = typer.Option(False, "--debug", help="Show a traceback where something fails."),
) -> None:
    if version:
        from roofline import __version__

        say(f"roofline {__version__}")
        raise typer.Exit


def run(arguments: Sequence[str]) -> int:
    """Run the command line with these arguments; the exit code."""
    debug = "--debug" in arguments
    if sys.stdout is None:  # started with its output closed
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123
    speak_ascii_where_needed()
    try:
        words = [a for a in arguments if a != "--debug"]
        code = int(app_for(words)(words, standalone_mode=False) or 0)
        sys.stdout.flush()
    except RooflineError as error:
        return _fail(str(error), 2, debug=debug)
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except (BrokenPipeError, SystemExit):  # the reader has gone: click leaves by SystemExit, a last flush by the other
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        return _fail(f"the output cannot be written ({error.strerror or error})", 1, debug=debug)
    except Exception as error:
        if hasattr(error, "format_message"):  # the usage errors of the click that typer carries
            return _usage(str(error.format_message()), debug=debug)
        return _fail(
            f"this is a bug: {type(error).__name__}: {shorten(str(error), 300)}  (--debug shows where; please report it)",
            1,
            debug=debug,
        )
    return code


def _usage(message: str, *, debug: bool) -> int:
    if message.startswith("Usage:"):  # no command at all: the help it shows is the answer
        sys.stderr.write(f"{message}\n")
        return 2
    return _fail(message, 2, debug=debug)


def _fail(message: str, code: int, *, debug: bool) -> int:
    if debug:
        traceback.print_exc()
    sys.stderr.write(f"error: {message}\n")
    return code
