"""The command line: one file per verb. Errors become sentences and exit codes here, and nowhere else.

Exit codes: 0 done, 1 failed, 2 your input, 130 interrupted.
"""

from __future__ import annotations

import os
import signal
import sys
import warnings
from importlib import import_module
from typing import NoReturn

from cyclopts import App, CycloptsError

import octavo
from octavo.errors import EndedElsewhere, Interrupted, OctavoError

app = App(
    name="octavo",
    help="Octavo: from your own text to a small GPT that you can train, trust and look inside.\n\n"
    "First steps: 'octavo demo' trains a story writer in about a minute, with nothing to download; "
    "'octavo train shakespeare-char-cpu --text PATH --out runs/mine' trains on your own text.",
    version=octavo.__version__,
    version_flags=["--version"],
    help_format="plaintext",
    suppress_keyboard_interrupt=False,  # main says so
)
for name in (
    "demo",
    "train",
    "generate",
    "eval",
    "plan",
    "recipes",
    "info",
    "doctor",
    "corpus",
    "study",
    "tokenizer",
):
    app.command(getattr(import_module(f"octavo.cli.{name}"), f"{name}_command"), name=name)


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run one command and end the process with its exit code."""
    warnings.formatwarning = _sentence
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a request to end is one, from whom it comes
    try:
        words = hyphens_bound(sys.argv[1:] if arguments is None else arguments)
        code = app(words, exit_on_error=False, print_error=False, result_action="return_value")
    except CycloptsError as error:
        print(f"error: {error}", file=sys.stderr)
        print("  → octavo --help, or octavo VERB --help", file=sys.stderr)
        code = 2
    except Interrupted as note:
        print(note, file=sys.stderr)
        code = note.exit_code
    except EndedElsewhere as note:
        code = note.exit_code
    except OctavoError as error:
        print(f"error: {error}", file=sys.stderr)
        code = error.exit_code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        code = 130
    except BrokenPipeError:  # the reader of our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    sys.exit(code or 0)


def _sentence(message: Warning | str, *_: object, **__: object) -> str:
    """A warning for the reader, without the line of our source that it came from."""
    return f"warning: {message}\n"


def hyphens_bound(words: list[str]) -> list[str]:
    """`--text -` as the one word `--text=-`: alone, the hyphen would be taken for an option."""
    bound: list[str] = []
    for word in words:
        if word == "-" and bound and bound[-1] == "--text":
            bound[-1] = "--text=-"
        else:
            bound.append(word)
    return bound
