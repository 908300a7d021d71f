"""What to do after a run's verdict, or where it was stopped, as one whole command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from octavo.config import Recipe
from octavo.config.plugins import command
from octavo.run.folder import RunFolder, free_name

ON_THE_WAY = ("training.steps=", "evaluation.every=")
"""Settings that a run can take on when it resumes, if its learning rate is constant: they change nothing before."""
BY_THE_CLOCK = ("training.minutes=", "training.passes=", "evaluation.every=")
"""The same of a run that has minutes, whatever its learning rate does: more of them can be added."""


def next_step(
    folder: RunFolder, recipe: Recipe, diagnostics: Sequence[Mapping[str, Any]]
) -> dict[str, Any] | None:
    """What the verdict asks for (`remedy`), and the `command`, which may `resume` the run; None if it asks nothing.

    The command names the run's own config.yaml, which holds its recipe, text and settings; one that adds minutes to a
    run finds it there.
    """
    settings = diagnostics[0]["settings"] if diagnostics else []
    if not settings or (recipe.training.start_from and any(one.startswith("model.") for one in settings)):
        return None  # it has another run's model, and keeps it
    minutes, constant = recipe.training.minutes, recipe.training.schedule.kind == "constant"
    may = BY_THE_CLOCK if minutes else ON_THE_WAY if constant else ()
    resume = all(setting.startswith(may) for setting in settings)
    out = folder.path if resume else free_name(folder.path.name, folder.path.parent)
    words = ["octavo", "train", str(folder.config), "--out", str(out), *["--resume"] * resume, *settings]
    if resume and minutes:
        others = [setting for setting in settings if not setting.startswith(BY_THE_CLOCK[:2])]
        words = ["octavo", "train", "--out", str(out), "--resume", "--minutes", f"{minutes:g}", *others]
    return {"remedy": diagnostics[0]["remedy"], "resume": resume, "command": _command(words, recipe)}


def going_on(folder: RunFolder, recipe: Recipe, *, processes: int = 1) -> str:
    """The command by which a run that was stopped goes on; its config.yaml holds all else."""
    resumes = _command(["octavo", "train", "--out", str(folder.path), "--resume"], recipe)
    if processes > 1:  # only who started them knows how
        return f"torchrun … -m {resumes} continues it, with as many processes as before"
    if recipe.training.minutes is None:
        return f"{resumes}    continues it"
    return f"{resumes}    uses the time that is left; with --minutes 5 added, five minutes from then on"


def _command(words: Sequence[str], recipe: Recipe) -> str:
    piped = "cat TEXT | " if getattr(recipe.corpus, "paths", None) == ("-",) else ""
    return piped + command(*words)


def next_lines(step: Mapping[str, Any] | None) -> list[str]:
    """The same as lines for a console."""
    if step is None:
        return []
    how = "this resumes the run" if step["resume"] else "this starts a new run"
    return [f"  → {step['remedy']}; {how}:", f"    {step['command']}"]
