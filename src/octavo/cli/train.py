"""octavo train: a recipe and a text become a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from octavo.cli.common import (
    Overrides,
    RecipeName,
    Text,
    show,
    show_text,
    split_overrides,
    split_recipe,
    the_run,
)
from octavo.cli.minutes import a_number_of_minutes, train_for_minutes
from octavo.errors import InputError
from octavo.util.terminal import Console


def train_command(
    recipe: RecipeName = None,
    *overrides: Overrides,
    text: Text = None,
    minutes: Annotated[
        float | None,
        Parameter(
            help="Minutes for all of it: the best model that they allow here is chosen, promised and trained.",
            converter=a_number_of_minutes,
        ),
    ] = None,
    out: Annotated[Path | None, Parameter(help="The run folder; default: the next free runs/RECIPE.")] = None,
    resume: Annotated[bool, Parameter(help="Resume the run in --out.", negative="")] = False,
    overwrite: Annotated[bool, Parameter(help="Replace the run in --out by a new one.", negative="")] = False,
    replay: Annotated[
        Path | None, Parameter(help="Train this run again from its folder alone, and compare bit for bit.")
    ] = None,
    dry_run: Annotated[bool, Parameter(help="Print the resolved settings and stop.", negative="")] = False,
    quiet: Annotated[bool, Parameter(help="No progress, only the report's path.", negative="")] = False,
) -> int:
    """Train a model by a recipe, on your text.

    For example:

    octavo train --text book.txt --minutes 5

    octavo train quick --text shakespeare.txt --out runs/bard

    octavo train ten-minutes --text my-novels/ --out runs/novels model.width=192 training.steps=500

    octavo train --out runs/novels --resume --minutes 30

    torchrun --standalone --nproc-per-node 8 -m octavo train my-recipe.yaml --text my-novels/ parallel=ddp

    octavo train --replay runs/bard
    """
    console = Console(quiet=quiet)  # its clock runs from now on, also while what is slow to load is loaded
    recipe, overrides = split_recipe(recipe, overrides)
    text, settings = split_overrides(text, overrides)
    if replay is not None:
        if recipe is not None or text is not None or settings or resume or minutes is not None:
            raise InputError("--replay repeats a run as it was; it takes nothing else but --out.")
        return _replay(replay, out, console)
    if minutes is not None and not resume:
        how = {"dry_run": dry_run, "overwrite": overwrite}
        return train_for_minutes(minutes, recipe, text, settings, out, console, **how)
    if minutes is not None:
        from octavo.run.deadline import with_more_minutes

        settings = [*with_more_minutes(out, minutes), *settings]
    if dry_run:
        from octavo.run.folder import refuse_without_folder

        refuse_without_folder(out, resume=resume, overwrite=False)
        return _settings(recipe, text, settings, out if resume else None, console)
    return _train(recipe, text, settings, out, console, resume=resume, overwrite=overwrite)


def _train(
    recipe: str | None,
    text: list[str] | None,
    settings: list[str],
    out: Path | None,
    console: Console,
    *,
    resume: bool,
    overwrite: bool,
) -> int:
    from octavo.run.train import train
    from octavo.training.distributed.parallel import is_first

    run = train(recipe, text, out, overrides=settings, resume=resume, overwrite=overwrite, console=console)
    if is_first():
        show_text(f"report: {run.report}")
    return 0


def _settings(
    recipe: str | None, text: list[str] | None, settings: list[str], goes_on: Path | None, console: Console
) -> int:
    """Of a new run, or of one that goes on."""
    from octavo.config import stored_recipe, to_yaml
    from octavo.run.folder import RunFolder
    from octavo.run.settings import continued, default_recipe, resolve

    if goes_on is None:
        resolved = resolve(default_recipe(settings)[0] if recipe is None else recipe, text, settings)
    else:
        folder = RunFolder.open(goes_on)
        earlier = stored_recipe(folder.config)
        wanted = resolve(folder.config if recipe is None else recipe, text, settings, earlier=earlier)
        resolved = continued(folder, wanted, console)
    show_text(to_yaml(resolved), end="")
    return 0


def _replay(run: Path, out: Path | None, console: Console) -> int:
    from octavo.run.replay import replay

    second, differences = replay(the_run(run), out, console=console)
    for difference in differences:
        show(f"differs: {difference}")
    if not differences:
        show(f"{run} was repeated bit for bit: same losses, same weights.")
    show_text(f"report: {second.report}")
    return 1 if differences else 0
