"""Who answers a name, asked of a trained model: samples of its name, of another one, and of no prompt at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from octavo.errors import InputError
from octavo.evaluation.names import NameAnswer, Play, who_answers
from octavo.ground.console import Console
from octavo.ground.files import replace_text, storage_errors
from octavo.ground.records import json_text
from octavo.runs.prompts import refresh_report, write_all
from octavo.runs.run import Run
from octavo.runs.trained_on import text_pieces, training_text

FOLDER = "speakers"
SAMPLES = 64
"""Default number of samples of each prompt: enough for an interval of a few percent."""


def ask_name(
    run: Run,
    name: str,
    *,
    count: int = SAMPLES,
    text: list[str] | None = None,
    seed: int = 0,
    console: Console | None = None,
    **how: Any,
) -> NameAnswer:
    """Prompt the model `count` times with a speaker's name, with another speaker's, and with nothing, and count who
    answers. `text`: read speakers from these files instead of the run's own training text.

    The result also goes to speakers/NAME.json in the run folder, and its report is written again.

    Raises InputError for a name that does not speak, CorpusError where the text is gone or no play.
    """
    console = console or Console(quiet=True)
    name = name.strip().removesuffix(":").rstrip()
    if not name:
        raise InputError("No name was given.", remedy="for example --speakers ROMEO")
    whole = "".join(text_pieces(text, console, run.config)) if text else _read(training_text(run, console))
    play = Play.read(whole)
    name = _spelled(play, name)
    others = [other for other in (play.other_name(name), "") if other is not None]
    mine, *controls = write_all(run, [name, *others], count=count, seed=seed, console=console, **how)
    answer = who_answers(
        play,
        name,
        [name + sample.text for sample in mine.samples],
        {one.prompt: [one.prompt + sample.text for sample in one.samples] for one in controls},
        seed=seed,
    )
    if run.folder is not None:
        folder = run.folder.path / FOLDER
        document = {**answer.as_dict(), "samples": count, "step": run.step, "seed": seed}
        with storage_errors(folder):
            folder.mkdir(exist_ok=True)
            safe = "".join(c if c.isalnum() else "-" for c in name.lower())
            replace_text(folder / f"{safe}.json", json_text(document, indent=1, ensure_ascii=False) + "\n")
            refresh_report(run)
    return answer


def _spelled(play: Play, name: str) -> str:
    """The name as the play writes it, asked for in any case."""
    alike = sorted({speaker for speaker in play.speeches if speaker.lower() == name.lower()})
    return name if name in alike or not alike else alike[0]


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")
