"""octavo tune sft: a trained model learns to answer from conversations."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from octavo.cli.common import Overrides, Text, show_text, split_overrides, starting_from

Base = Annotated[Path, Parameter(help="The finished run to start from, or one of its checkpoint folders.")]
Out = Annotated[Path | None, Parameter(help="The run folder; default: the next free runs/tune-….")]
Resume = Annotated[bool, Parameter(help="Resume the run in --out.", negative="")]
Overwrite = Annotated[bool, Parameter(help="Replace the run in --out by a new one.", negative="")]
DryRun = Annotated[bool, Parameter(help="Read the data, print the resolved settings and stop.", negative="")]
Quiet = Annotated[bool, Parameter(help="No progress, only the report's path.", negative="")]
RecipeFile = Annotated[
    str | None, Parameter(help="Another recipe than the shipped one: a name or a YAML file.")
]


def sft_command(
    base: Base,
    *overrides: Overrides,
    text: Text = None,
    out: Out = None,
    recipe: RecipeFile = None,
    resume: Resume = False,
    overwrite: Overwrite = False,
    dry_run: DryRun = False,
    quiet: Quiet = False,
) -> int:
    """Supervised fine-tuning: learn to answer from conversations.

    Each record of the .jsonl or .json files is a conversation: "messages" with role and content, Alpaca's
    "instruction", "input" and "output", or "prompt" and "completion".

    For example:

    octavo tune sft runs/minute --text chats.jsonl --out runs/chat

    octavo tune sft runs/minute --text chats.jsonl --out runs/chat training.epochs=5
    """
    settings = [starting_from(base), *overrides]
    return tune(recipe or "tune-sft", settings, text, out, resume, overwrite, dry_run, quiet)


def tune(
    recipe: str,
    overrides: list[str],
    text: list[str] | None,
    out: Path | None,
    resume: bool,
    overwrite: bool,
    dry_run: bool,
    quiet: bool,
) -> int:
    """Train by a recipe that starts from a run."""
    text, settings = split_overrides(text, overrides)
    if dry_run:
        from octavo.config import to_yaml
        from octavo.planning.plan import told_by_text
        from octavo.run.settings import resolve
        from octavo.util.terminal import Console

        resolved = resolve(recipe, text, settings)
        told_by_text(resolved, Console(quiet=quiet))  # may raise: data that cannot be learned from
        show_text(to_yaml(resolved), end="")
        return 0
    from octavo.run.train import train
    from octavo.training.distributed.parallel import is_first

    run = train(recipe, text, out, overrides=settings, resume=resume, overwrite=overwrite, quiet=quiet)
    if is_first():
        show_text(f"report: {run.report}")
    return 0
