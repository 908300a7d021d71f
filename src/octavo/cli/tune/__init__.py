"""octavo tune: from a model that continues texts to one that does what is wanted; one file per sub-verb."""

from __future__ import annotations

from cyclopts import App

from octavo.cli.tune.best import best_command
from octavo.cli.tune.ceiling import ceiling_command
from octavo.cli.tune.dpo import dpo_command
from octavo.cli.tune.judge import judge_command
from octavo.cli.tune.reward import reward_command
from octavo.cli.tune.rl import rl_command
from octavo.cli.tune.sft import sft_command

tune_command = App(
    name="tune",
    help="From a model that continues texts to one that does what is wanted, with the ceiling drawn in.",
    help_format="plaintext",
)
for name, command in (
    ("sft", sft_command),
    ("dpo", dpo_command),
    ("reward", reward_command),
    ("rl", rl_command),
    ("best", best_command),
    ("judge", judge_command),
    ("ceiling", ceiling_command),
):
    tune_command.command(command, name=name)
