"""The command line: one file per verb. Errors become sentences and exit codes here, and nowhere else.

Exit codes: 0 done, 1 failed, 2 your input, 130 interrupted.
"""

from __future__ import annotations

import gc
import io
import os
import signal
import sys
import warnings
from contextlib import suppress
from typing import NoReturn

from octavo.errors import EndedElsewhere, InputError, Interrupted, OctavoError
from octavo.util.interruption import interrupt, is_interruption
from octavo.util.terminal import ERRORS, heedless, put

COLLECTED = (50_000, 20, 20)
"""Objects between two searches for garbage in circles. Importing torch makes a million objects that stay, and Python's
own 700 has them looked through again and again: half a second of a command's start."""


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run one command and end the process with its exit code."""
    gc.set_threshold(*COLLECTED)
    listens = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if (
        listens
    ):  # while the verbs are imported nothing is begun, and an exception would end in the midst of an import
        signal.signal(signal.SIGINT, _leave)
    from cyclopts import CycloptsError

    from octavo.cli.app import app, hyphens_bound, import_verbs, mended
    from octavo.cli.common import Unread, complain
    from octavo.util.memory import fault_of_the_machine

    if listens:
        signal.signal(signal.SIGINT, interrupt)
    warnings.showwarning = _sentence
    _occupied()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=ERRORS)
    sys.stdout, sys.stderr = heedless(sys.stdout), heedless(sys.stderr)
    signal.signal(signal.SIGTERM, interrupt)  # a request to end is one, from whom it comes
    try:
        words = hyphens_bound(_text_only(sys.argv[1:] if arguments is None else arguments))
        import_verbs(words)
        code = app.meta(words, exit_on_error=False, print_error=False, result_action="return_value")
    except CycloptsError as error:
        known = mended(error)
        complain(f"error: {error if known is None else known.as_command_line}")
        if known is None:
            complain("  → octavo --help, or octavo VERB --help")
        code = 2
    except Interrupted as note:
        complain(note.as_command_line)
        code = note.exit_code
    except EndedElsewhere as note:
        code = note.exit_code
    except OctavoError as error:
        complain(f"error: {error.as_command_line}")
        code = error.exit_code
    except Unread:
        code = 0
    except (Exception, KeyboardInterrupt) as error:
        if (fault := fault_of_the_machine(error)) is not None:
            complain(f"error: {fault}")
            code = fault.exit_code
        elif is_interruption(error):
            complain("interrupted")
            for note in getattr(error, "__notes__", ()):
                complain(f"  → {note}")
            code = 130
        else:
            raise
    gc.freeze()  # the process ends: what is left need not be looked through once more
    sys.exit(code or 0)


def _leave(*_: object) -> NoReturn:
    """Ctrl-C before anything is begun."""
    with suppress(OSError):  # nobody reads it
        os.write(2, b"interrupted\n")
    os._exit(130)


def _occupied() -> None:
    """Where the program was started with a standard stream closed, no file of ours may take its number: whatever a
    library prints would end in that file."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number


def _sentence(message: Warning | str, *_: object, **__: object) -> None:
    """A warning for the reader, without the line of our source that it came from."""
    put(f"warning: {message}", sys.stderr)


def _text_only(words: list[str]) -> list[str]:
    """The words, all of which are text. Raises InputError for bytes that are none, which no file could record."""
    for word in words:
        if not word.isascii() and any("\ud800" <= c <= "\udfff" for c in word):
            shown = word.encode("utf-8", "backslashreplace").decode()
            raise InputError(
                f"'{shown}' is not UTF-8 text.", remedy="rename the file, or write the word in UTF-8"
            )
    return words
