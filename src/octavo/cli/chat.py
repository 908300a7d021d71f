"""octavo chat: a conversation with a trained model, in the terminal or through a pipe."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from octavo.cli.common import RunPath, Which, complain, named_by_user, show, show_piece, the_run
from octavo.cli.generate import PLAIN, Drawing
from octavo.errors import InputError, StorageError

if TYPE_CHECKING:
    from octavo.tuning.chat_session import Talk

COMMANDS = "/reset begins anew, /save FILE keeps the conversation, /quit ends (so does Ctrl-D)"


def chat_command(
    run: RunPath = None,
    *,
    system: Annotated[str, Parameter(help="What the system says first.", allow_leading_hyphen=True)] = "",
    drawing: Drawing = PLAIN,
    checkpoint: Which = "best",
) -> int:
    """Talk with a tuned model; a model that was not tuned goes on from each line.

    Each line is a question. The history stays within the model's context, and what falls out of it is said. Lines that
    begin with a slash are commands: /reset, /save FILE, /quit, /help.

    For example:

    octavo chat runs/chat

    octavo chat runs/chat --system "Tell short stories." --temperature 0.5

    echo "tell of snail. in forest. end happy." | octavo chat runs/wishes
    """
    from octavo.run.run import Run
    from octavo.tuning.chat_session import Talk

    options = drawing.as_options()
    run = the_run(run)
    talk = Talk(Run.open(run, checkpoint=checkpoint), system=system, options=options)
    if not talk.answers:
        complain(
            f"{run} was not tuned for conversations: it goes on from each line, and sees nothing before it."
        )
    complain(f"seed {options.seed}; {COMMANDS}")
    terminal = sys.stdin.isatty()
    while True:
        try:
            if (line := _line(terminal)) is None:
                return 0
            if line.startswith("/"):
                if _obeyed(talk, line):
                    return 0
            elif line.strip():
                _answer(talk, line)
        except (InputError, StorageError) as error:  # a question that cannot be asked ends nothing
            complain(f"error: {error}")


def _line(terminal: bool) -> str | None:
    """The next line without its end; None where there is none."""
    if terminal:
        show_piece("> ")
    raw = sys.stdin.buffer.readline()
    if not raw:
        return None
    try:
        return raw.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise InputError("The line is not UTF-8 text.") from error


def _answer(talk: Talk, line: str) -> None:
    """Print the answer as it is written, and say what fell out of the context."""
    before, pieces = talk.forgotten, talk.ask(line)
    first = next(pieces, "")  # before anything is printed, so that an error stands alone
    if gone := talk.forgotten - before:
        complain(f"the {gone} oldest messages no longer fit into the context; the model does not see them")
    show_piece(first)
    for piece in pieces:
        show_piece(piece)
    show()


def _obeyed(talk: Talk, line: str) -> bool:
    """Do what a command says; whether it ends the talk. Raises InputError for one that there is not."""
    command, _, rest = line.partition(" ")
    if command == "/quit":
        return True
    if command == "/reset":
        talk.reset()
        complain("begun anew")
    elif command == "/save" and rest.strip():
        with named_by_user(rest.strip()) as path:
            talk.save(path)
        complain(f"saved in {rest.strip()}")
    elif command == "/help":
        complain(COMMANDS)
    else:
        raise InputError(f"There is no command '{line.strip()}'.", remedy=COMMANDS)
    return False
