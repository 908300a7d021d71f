"""octavo tune reward: a reward is learned from preferences."""

from __future__ import annotations

from octavo.cli.common import Overrides, Text, starting_from
from octavo.cli.tune.sft import Base, DryRun, Out, Overwrite, Quiet, RecipeFile, Resume, tune


def reward_command(
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
    """A learned reward: a trained model learns to say which of two answers is better.

    Each record of the .jsonl or .json files is a pair: "prompt", "chosen" and "rejected", as texts or as messages;
    texts may stand without a prompt. The run is a reward for octavo tune rl, ceiling and judge.

    For example:

    octavo tune reward runs/chat --text pairs.jsonl --out runs/reward

    octavo tune rl runs/chat --reward '{kind: model, run: runs/reward}' --out runs/better
    """
    settings = [starting_from(base), *overrides]
    return tune(recipe or "tune-reward", settings, text, out, resume, overwrite, dry_run, quiet)
