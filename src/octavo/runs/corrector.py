"""The corrector that a name asks for, with the words of a run's text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from octavo.correction import Corrector, LanguageTool, NearestWord, count_words
from octavo.errors import CorpusError, InputError
from octavo.ground.console import Console
from octavo.runs.run import Run
from octavo.runs.trained_on import text_pieces, training_words


def corrector_for(
    run: Run,
    name: str,
    *,
    language: str | None = None,
    text: str | Path | Sequence[str | Path] | None = None,
    console: Console | None = None,
) -> Corrector:
    """A corrector for what a run writes.

    Args:
        name: "vocabulary", or the address of a LanguageTool server.
        language: of the text, for that server; None lets it guess.
        text: files to take the words from, instead of the run's own training text.

    Raises InputError for another name, CorpusError where the words are needed and their text is gone.
    """
    console = console or Console(quiet=True)
    if "://" not in name and name != "vocabulary":
        raise InputError(
            f"There is no correction '{name}'.",
            remedy="--correct vocabulary, or the address of a server: --correct http://localhost:8081",
        )
    if name == "vocabulary":
        return NearestWord(
            count_words(text_pieces(text, console, run.config)) if text else training_words(run, console)
        )
    try:
        words = count_words(text_pieces(text, console, run.config)) if text else training_words(run, console)
    except CorpusError as error:
        if text:
            raise
        console.say(f"{error.what} So it is not counted how many words the corpus has.")
        words = None
    tool = LanguageTool(name, language=language or "auto", vocabulary=words)
    console.say(f"the text is sent to {tool.address} for correction")
    return tool
