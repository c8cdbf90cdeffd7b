"""The command line: the library's words, said to people (tables and a sentence) or to programs (`--json`).

Exit codes: 0 answered ("does not fit" included), 1 a bug, 2 bad input, 4 `--check` not met, 130 interrupted.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence

import typer

from roofline.errors import RooflineError
from roofline.views.cli.catalogue import hardware, models, validate
from roofline.views.cli.common import say, speak_ascii_where_needed
from roofline.views.cli.explain import explain
from roofline.views.cli.memory import kv, memory
from roofline.views.cli.plot import plot
from roofline.views.cli.predict import predict

__all__ = ["app", "run"]

app = typer.Typer(
    name="roofline",
    help="What TTFT and TPOT will I get, what binds them, and does it fit?  Counts a forward pass, clocks it on a chip.",
    epilog="Examples:  roofline predict llama-3.1-8b h100 --prompt 2048 --output 256 --batch 8   |   "
    "roofline explain llama-2-7b h100 --prompt 4   |   roofline kv llama-3.1-8b --context 131072",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
for command in (predict, explain, kv, memory, plot, hardware, models, validate):
    app.command()(command)


@app.callback(invoke_without_command=True)
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
        code = int(app([a for a in arguments if a != "--debug"], standalone_mode=False) or 0)
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
            f"this is a bug: {type(error).__name__}: {error}  (--debug shows where; please report it)", 1, debug=debug
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
