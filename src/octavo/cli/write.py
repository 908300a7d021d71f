"""octavo write: you and a trained model write a text in turns."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from octavo.cli.common import RunPath, Which, complain, named_by_user, show, show_piece, show_text, the_run
from octavo.cli.generate import Seed
from octavo.errors import InputError, OctavoError

if TYPE_CHECKING:
    from octavo.run.draft import Draft

HELP = """\
Type the beginning or the next piece of the text; the model continues it. \\n is a new line, // begins a line with /.
  Enter alone       continue
  /again            another continuation instead of the last one
  /undo             take the last turn back
  /new              begin again with nothing
  /text             print the text so far
  /save FILE        write it into a new file
  /temperature 0.8  wilder above 1, safer below
  /seed 5           or /seed random; the same for /tokens, /top_k, /top_p, /min_p
  /options          how they stand
Ctrl-C stops the model while it writes. Ctrl-D, or Ctrl-C before you type, ends."""


def write_command(run: RunPath = None, *, seed: Seed = "0", checkpoint: Which = "best") -> int:
    """Write a text in turns with a trained model: begin, let it continue, try again, change how it samples.

    Without a terminal every line of standard input is such a turn, only the text is printed, and the first
    line that cannot be done ends it with code 2.

    For example:

    octavo write runs/bard

    printf 'ROMEO:\\n/temperature 0.5\\n/again\\n' | octavo write runs/bard
    """
    from octavo.generation.sampling import seed_of
    from octavo.run.draft import Draft
    from octavo.run.run import Run

    run = the_run(run)
    draft = Draft(Run.open(run, checkpoint=checkpoint), seed=seed_of(seed))
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        for line in sys.stdin.buffer:
            perform(draft, _decoded(line))
        return 0
    show(f"{run}, step {draft.run.step:,}.\n{HELP}")
    converse(draft)
    return 0


def converse(draft: Draft) -> None:
    """Turns until the user ends."""
    with suppress(ImportError):
        import readline  # noqa: F401 — gives input() its keys
    while True:
        try:
            line = input("> ")
        except (EOFError, KeyboardInterrupt):
            show()
            return
        try:
            perform(draft, line)
        except KeyboardInterrupt:
            show("\n[stopped]")
        except OctavoError as error:
            complain(error.as_command_line)


def perform(draft: Draft, line: str) -> None:
    """One turn: a command, or text to continue. Raises InputError if it cannot be done."""
    from octavo.generation.batch_prompts import unescaped

    if not line.startswith("/") or line.startswith("//"):
        typed = unescaped(line.removeprefix("/") if line.startswith("//") else line)
        stream(typed, draft.go_on(typed))
        return
    command, _, value = line[1:].strip().partition(" ")
    if command == "again":
        stream(draft.typed, draft.again())
    elif command == "undo":
        draft.undo()
    elif command == "new":
        draft.restart()
    elif command == "text":
        show_text(draft.text)
    elif command == "save":
        save(draft.text, value.strip())
    elif command == "options":
        show(", ".join(f"{name} {value}" for name, value in draft.options().items()))
    elif command == "help":
        show(HELP)
    else:
        draft.set(command, value.strip())


def stream(typed: str, pieces: Iterator[str]) -> None:
    """Print a turn as it is written."""
    first = next(pieces, "")  # before what was typed is echoed, so that an error stands alone
    show_piece(typed + first)
    for piece in pieces:
        show_piece(piece)
    show()


def save(text: str, name: str) -> None:
    """The text into a new file."""
    from octavo.util.output import Output

    if not name:
        raise InputError("/save needs the name of a file.")
    with named_by_user(name) as path, Output(path).writing() as file:
        file.write(text)


def _decoded(line: bytes) -> str:
    try:
        return line.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise InputError("A line on standard input is not UTF-8 text.") from error
