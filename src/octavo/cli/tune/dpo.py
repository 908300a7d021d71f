"""octavo tune dpo: a tuned model learns which of two answers is wanted."""

from __future__ import annotations

from octavo.cli.common import Overrides, Text, starting_from
from octavo.cli.tune.sft import Base, DryRun, Out, Overwrite, Quiet, RecipeFile, Resume, tune


def dpo_command(
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
    """Direct preference optimization: of two answers the chosen one becomes the more probable one.

    Each record of the .jsonl or .json files is a pair: "prompt", "chosen" and "rejected", as texts or as messages. The
    run that it starts from is what the model is held to; it should know the chat template: octavo tune sft.

    For example:

    octavo tune dpo runs/chat --text pairs.jsonl --out runs/better

    octavo tune dpo runs/chat --text pairs.jsonl --out runs/better objective.beta=0.05 objective.form=ipo
    """
    settings = [starting_from(base), *overrides]
    return tune(recipe or "tune-dpo", settings, text, out, resume, overwrite, dry_run, quiet)
