"""What is said where a word is missing that has no option's name, such as the run that a verb is about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from octavo.errors import InputError

if TYPE_CHECKING:
    from cyclopts import CycloptsError

RUNS = ("run", "base")
"""What verbs call a run that they begin with."""


def missing_word(error: CycloptsError) -> InputError | None:
    """The sentence where such a word is missing, as the help calls it; None for another error."""
    from cyclopts import MissingArgumentError

    if not isinstance(error, MissingArgumentError) or error.keyword or error.argument is None:
        return None
    if error.argument.index is None:  # an option
        return None
    command = " ".join(("octavo", *(error.command_chain or ())))
    name = error.argument.name.lstrip("-").upper()
    if error.argument.field_info.name in RUNS:
        return InputError(
            f"{command} needs a run.", remedy=f"name a run: {command} runs/book (octavo runs lists them)"
        )
    return InputError(f"{command} needs {name}.", remedy=f"{command} --help says what that is")
