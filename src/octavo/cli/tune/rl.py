"""octavo tune rl: reinforcement learning on a trained model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from octavo.cli.common import Overrides, complain, show_text, split_recipe, the_run
from octavo.cli.tune.ceiling import RewardName
from octavo.cli.tune.judge import Texts, judged
from octavo.errors import InputError


def rl_command(
    base: Annotated[str | None, Parameter(help="The run to tune; with --resume, leave it out.")] = None,
    *overrides: Overrides,
    reward: RewardName | None = None,
    prompts: Annotated[
        Path | None, Parameter(help="A file of prompts: one a line, or a YAML or JSON list.")
    ] = None,
    recipe: Annotated[str, Parameter(help="A recipe of this kind: shipped, or a YAML file.")] = "tune-rl",
    out: Annotated[Path | None, Parameter(help="The run folder; default: the next free runs/RECIPE.")] = None,
    texts: Texts = 1024,
    resume: Annotated[bool, Parameter(help="Resume the run in --out.", negative="")] = False,
    overwrite: Annotated[bool, Parameter(help="Replace the run in --out by a new one.", negative="")] = False,
    dry_run: Annotated[
        bool, Parameter(help="Read the prompts, print the resolved settings and stop.", negative="")
    ] = False,
    quiet: Annotated[bool, Parameter(help="No progress, only the pages' paths.", negative="")] = False,
) -> int:
    """Let a trained model write, judge what it wrote, and make better texts more probable.

    In the end it is judged on prompts of its own: reward against the distance from where it started, with the ceiling
    and best-of-n beside it, and what the tuning cost.

    For example:

    octavo tune rl runs/pidgin-demo --reward ends-happily --out runs/happy

    octavo tune rl runs/pidgin-demo --reward '{kind: words, must: [snail]}' training.steps=40 objective.beta=0.1

    octavo tune rl --out runs/happy --resume
    """
    from octavo.run.train import train
    from octavo.util.runs import free_name
    from octavo.util.terminal import Console

    base, overrides = split_recipe(base, overrides)
    if resume:
        if base is not None or reward is not None or prompts is not None:
            raise InputError(
                "--resume goes on with the run's own base, reward and prompts.", remedy="leave them out"
            )
        run = train(None, None, out, overrides=overrides, resume=True, quiet=quiet)
    else:
        tree = _tree(base, overrides, reward=reward, prompts=prompts, recipe=recipe)
        if dry_run:
            from octavo.config import to_yaml
            from octavo.run.finetune import ready_tokenizer
            from octavo.run.settings import resolve

            resolved = resolve(tree)
            if resolved.objective.prompts is not None:
                resolved.objective.questions(
                    None, ready_tokenizer(resolved)
                )  # may raise: a file that holds none
            show_text(to_yaml(resolved), end="")
            return 0
        run = train(tree, None, out or free_name(Path(recipe).stem), overwrite=overwrite, quiet=quiet)
    show_text(f"report: {run.report}")
    return judged([run.path], None, texts, Console(quiet=quiet), json=False)


def _tree(
    base: str | None, overrides: tuple[str, ...], *, reward: str | None, prompts: Path | None, recipe: str
) -> dict[str, Any]:
    """The recipe as plain data, with what was asked for on top."""
    from octavo.config import apply_overrides, apply_value
    from octavo.tuning.recipe import tuning_tree
    from octavo.tuning.rewards.named import named_reward

    if base is None:
        raise InputError("Which model is to be tuned?", remedy="octavo tune rl RUN --reward KIND")
    tree = tuning_tree(the_run(Path(base)), recipe)
    if reward is not None:
        config, sentences = named_reward(reward)
        for sentence in sentences:
            complain(sentence)
        apply_value(tree, "objective.reward", config.model_dump(mode="json"))
    if prompts is not None:
        apply_value(tree, "objective.prompts", str(prompts))
    apply_overrides(tree, overrides)
    return tree
