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
)
from octavo.errors import InputError


def train_command(
    recipe: RecipeName = None,
    *overrides: Overrides,
    text: Text = None,
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

    octavo train --text book.txt

    octavo train quick --text shakespeare.txt --out runs/bard

    octavo train ten-minutes --text my-novels/ --out runs/novels model.width=192 training.steps=500

    octavo train --out runs/novels --resume

    torchrun --standalone --nproc-per-node 8 -m octavo train my-recipe.yaml --text my-novels/ parallel=ddp

    octavo train --replay runs/bard
    """
    recipe, overrides = split_recipe(recipe, overrides)
    text, settings = split_overrides(text, overrides)
    if replay is not None:
        if recipe is not None or text is not None or settings or resume:
            raise InputError(
                "--replay repeats a run as it was; it takes no recipe, text, --resume or settings."
            )
        return _replay(replay, out, quiet)
    if dry_run:
        from octavo.config import to_yaml
        from octavo.runs.settings import default_recipe, resolve

        found = default_recipe(settings)[0] if recipe is None else recipe
        show_text(to_yaml(resolve(found, text, settings)), end="")
        return 0
    from octavo.runs.train import train
    from octavo.training.world import is_first

    run = train(recipe, text, out, overrides=settings, resume=resume, overwrite=overwrite, quiet=quiet)
    if is_first():
        show_text(f"report: {run.report}")
    return 0


def _replay(run: Path, out: Path | None, quiet: bool) -> int:
    from octavo.ground.console import Console
    from octavo.runs.replay import replay

    second, differences = replay(run, out, console=Console(quiet=quiet))
    for difference in differences:
        show(f"differs: {difference}")
    if not differences:
        show(f"{run} was repeated bit for bit: same losses, same weights.")
    show_text(f"report: {second.report}")
    return 1 if differences else 0
