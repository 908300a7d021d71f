"""What `octavo train --minutes` and `octavo plan --minutes` do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from octavo.cli.common import print_json, show, show_text
from octavo.errors import InputError
from octavo.util.files import exists, is_folder, kind_of
from octavo.util.terminal import Console

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
    from octavo.auto.api import train
    from octavo.auto.train import foretell, refuse_recipe, said
    from octavo.config.parts import command
    from octavo.corpus.files import kept_pipes

    if recipe is not None:
        if _is_number(recipe):
            raise InputError(
                f"--minutes takes one number, and there are two: {minutes:g} and {recipe}.",
                remedy=f"--minutes {minutes:g}; "
                f"{command('octavo', 'plan', '--text', 'PATH', '--minutes', f'{minutes:g},{recipe}')} compares them",
            )
        refuse_text(recipe, "train", f"{minutes:g}")
        refuse_recipe(recipe)
    if text is None:
        raise InputError("--minutes needs a text to choose for.", remedy="--text PATH")
    if dry_run:
        from octavo.config import to_yaml

        with kept_pipes():
            (chosen,) = foretell(text, [minutes], overrides=settings, console=console)
        for line in said(chosen):
            show_text(f"# {line}")
        show_text(to_yaml(chosen.recipe(text, settings)), end="")
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

    several = [word for word in (recipe, *settings) if word is not None and _is_number(word)]
    if several:
        numbers = ",".join(word.strip(",") for word in (minutes, *several))
        raise InputError(
            "--minutes takes several numbers with commas between them, without spaces.",
            remedy=f"--minutes {numbers}",
        )
    if recipe is not None:
        refuse_text(recipe, "plan", minutes)
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
            foretold = looked.foretold(machine)
        except InputError as error:
            if name == list(machines)[-1] and not rows:
                raise
            console.say(f"{name}: {error.what}")
            continue
        rows += [
            {
                "on": name,
                **one.promise.as_plain(),
                "counting": one.facts.counted,
                "start": one.facts.start,
                "teachers": one.best.teaching.teachers,
                "reasons": one.reasons,
            }
            for one in foretold
        ]
        for line in by_minutes(foretold) if not json else ():
            show(line if name is None else f"{name}: {line}")
    if json:
        print_json(rows)
    elif on:
        show("\nSteps were predicted, not timed; docs/design/planning.md says what is assumed.")
    return 0


def refuse_text(recipe: str, verb: str, minutes: str) -> None:
    """Raise InputError for a text or a run that stands in a recipe's place."""
    from octavo.config import may_be_text
    from octavo.config.parts import command

    if is_folder(recipe) and kind_of(recipe) in ("run", "study"):
        raise InputError(
            f"{recipe} is a run, not a recipe.",
            remedy=f"{command('octavo', 'train', '--out', recipe, '--resume', '--minutes', minutes)}"
            "    gives it more time",
        )
    if may_be_text(recipe) or is_folder(recipe):
        raise InputError(
            f"{recipe} is not a recipe; a text goes after --text.",
            remedy=command("octavo", verb, "--text", recipe, "--minutes", minutes),
        )


def _is_number(word: str) -> bool:
    try:
        float(word.strip(","))
    except ValueError:
        return False
    return not exists(word)


def a_number_of_minutes(_: object, words: Sequence[Token]) -> float:
    """The one word after `--minutes`. Raises InputError where it is no number."""
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
