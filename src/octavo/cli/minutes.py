"""What `octavo train --minutes` and `octavo plan --minutes` do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from octavo.cli.common import print_json, show, show_text
from octavo.errors import InputError
from octavo.ground.console import Console

if TYPE_CHECKING:
    from cyclopts import Token


def train_for_minutes(
    minutes: float,
    recipe: str | None,
    text: list[str] | None,
    settings: list[str],
    out: Path | None,
    console: Console,
    *,
    dry_run: bool,
    overwrite: bool,
) -> int:
    """Choose, promise and train; with `dry_run`, only say what would be."""
    from octavo.auto.train import foretell, said, train
    from octavo.corpus.files import kept_pipes

    if recipe is not None:
        raise InputError(
            f"--minutes chooses the recipe, and '{recipe}' is one.",
            remedy="leave one of them out; training.minutes=5 gives a recipe of your own so many minutes",
        )
    if text is None:
        raise InputError("--minutes needs a text to choose for.", remedy="--text PATH")
    if dry_run:
        from octavo.config import to_yaml
        from octavo.runs.settings import resolve

        with kept_pipes():
            (found,) = foretell(text, [minutes], overrides=settings, console=console)
        for line in said(found):
            show_text(f"# {line}")
        show_text(to_yaml(resolve(found.recipe(), text, settings)), end="")
        return 0
    run = train(None, text, out, minutes=minutes, overrides=settings, overwrite=overwrite, console=console)
    show_text(f"report: {run.report}")
    return 0


def show_promises(
    recipe: str | None,
    text: list[str] | None,
    settings: list[str],
    minutes: str,
    *,
    on: list[str],
    json: bool,
) -> int:
    """What `octavo train --minutes` would choose and promise, for each number of minutes; here, or on each machine of
    `on`."""
    from octavo.auto.train import by_minutes, look_at, one_device
    from octavo.corpus.files import kept_pipes

    if recipe is not None or text is None:
        raise InputError(
            "--minutes asks for the best model of a text, so it takes --text and no recipe.",
            remedy="octavo plan --text PATH --minutes 1,5,30",
        )
    console, rows = Console(quiet=json), []
    machines = {None: None} if not on else {name: one_device(name) for name in on}
    with kept_pipes():
        looked = look_at(text, parsed_minutes(minutes), overrides=settings, console=console)
    for name, machine in machines.items():
        try:
            found = looked.foretold(machine)
        except InputError as error:
            if name == list(machines)[-1] and not rows:
                raise
            console.say(f"{name}: {error.what}")
            continue
        rows += [
            {
                "on": name,
                **one.promise.as_plain(),
                "teachers": one.best.teaching.teachers,
                "reasons": one.reasons,
            }
            for one in found
        ]
        for line in by_minutes(found) if not json else ():
            show(line if name is None else f"{name}: {line}")
    if json:
        print_json(rows)
    elif on:
        show("\nSteps were predicted, not timed; docs/planning.md says what is assumed.")
    return 0


def a_number_of_minutes(_: object, words: Sequence[Token]) -> float:
    """The one word behind `--minutes`. Raises InputError where it is no number."""
    word = words[0].value
    try:
        return float(word)
    except ValueError as error:
        raise InputError(
            f"--minutes takes a number of minutes; '{word}' is something else.",
            remedy="for example --minutes 5, or --minutes 0.5",
        ) from error


def parsed_minutes(words: str) -> list[float]:
    """Numbers with commas between them, the shortest first. Raises InputError for anything else."""
    try:
        return sorted(float(word) for word in words.split(","))
    except ValueError as error:
        raise InputError(
            f"--minutes takes numbers with commas between them; '{words}' is something else.",
            remedy="for example --minutes 1,5,30",
        ) from error
