"""octavo demo: the whole road in about a minute, with nothing to download."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from octavo.cli.common import Overrides, show_text

RECIPE = "pidgin-demo"


def demo_command(
    *overrides: Overrides,
    out: Annotated[
        Path | None, Parameter(help="The run folder; default: the next free runs/pidgin-demo.")
    ] = None,
    resume: Annotated[bool, Parameter(help="Resume the demo in --out.", negative="")] = False,
    quiet: Annotated[bool, Parameter(help="No progress, only the report's path.", negative="")] = False,
) -> int:
    """Have stories written by the built-in storyteller, train a model on them, let it write, and evaluate it.

    For example:

    octavo demo

    octavo demo --out runs/first training.steps=200
    """
    from octavo.run.train import train
    from octavo.util.runs import free_name

    run = train(RECIPE, out=out or free_name(RECIPE), overrides=overrides, resume=resume, quiet=quiet)
    show_text(f"report: {run.report}")
    return 0
