"""How far a run came, saved with every checkpoint; where it goes on from, and by which command. Nothing here imports
torch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from octavo.config import Recipe
from octavo.config.parts import command
from octavo.errors import CheckpointError
from octavo.run.folder import RunFolder
from octavo.training.checkpoint_folder import (
    CheckpointFolder,
    follow,
    list_checkpoints,
    newest_whole,
    point,
    sweep,
)
from octavo.util.files import drop_asides, put_away, replace_text, storage_errors
from octavo.util.records import Count, Number, Record, json_text
from octavo.util.runs import free_name
from octavo.util.terminal import Console

if TYPE_CHECKING:
    from octavo.training.checkpoint import Checkpoint
    from octavo.training.distributed.world import World


class State(Record):
    """state.json, which holds no infinity."""

    step: Count
    tokens: Count
    seconds: Number
    elapsed: Number = 0.0
    best_loss: Number | None
    best_step: Count
    evaluations_since_best: Count
    finished: bool
    minutes: Number | None = None
    planned: Count | None = None
    thread_changes: list[tuple[Count, Annotated[int, Field(ge=1, le=1024)]]] = Field(default_factory=list)
    pace: list[tuple[Count, Count, Number]] = Field(default_factory=list)


@dataclass
class Progress:
    """The run's own numbers, saved with every checkpoint. `thread_changes`: (step, threads), see `training.threads`;
    `pace`: (step, total, place), see `training.pace`."""

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0
    """Of training alone."""
    elapsed: float = 0.0
    """All seconds of the sessions whose work a checkpoint kept."""
    best_loss: float = math.inf
    best_step: int = 0
    evaluations_since_best: int = 0
    finished: bool = False
    minutes: float | None = None
    """Of the recipe: a run that has ended by the clock goes on for other minutes alone."""
    planned: int | None = None
    """Steps that the schedule had at first."""
    thread_changes: list[list[int]] = field(default_factory=list)
    pace: list[list[float]] = field(default_factory=list)

    @classmethod
    def of(cls, checkpoint: CheckpointFolder) -> Progress:
        """From a checkpoint's state.json. Raises CheckpointError if it holds something else."""
        state = checkpoint.state(State)
        known: dict[str, Any] = {each.name: state[each.name] for each in fields(cls) if each.name in state}
        if known["best_loss"] is None:
            known["best_loss"] = math.inf
        return cls(**known)

    def plan(self, steps: int, *, anew: bool, like: Progress | None) -> int:
        """The steps that the schedule has: those of the run's beginning, so long as it goes by the clock, whatever its
        recipe says by now; else (`anew`) these. `like`: of a run that is repeated, whose pace is taken."""
        if like is not None:
            self.pace, self.planned = like.pace, like.planned
        self.planned = steps if anew or self.planned is None else self.planned
        return self.planned

    def state(self) -> dict[str, Any]:
        """As it is saved; JSON has no infinity."""
        return {key: None if value == math.inf else value for key, value in asdict(self).items()}


def progress_of(folder: RunFolder) -> Progress:
    """How far a run has come. Raises CheckpointError if its state is damaged."""
    newest, _ = folder.checkpoint("last")
    return Progress() if newest is None else Progress.of(newest)


def seconds_of(folder: RunFolder) -> float:
    """All that a run has taken; of one that has not begun itself, all that its own teachers have."""
    begun = progress_of(folder)
    return begun.elapsed or sum(progress_of(teacher).elapsed for teacher in folder.own_teachers())


def in_between(checkpoint: CheckpointFolder, *, steps: int, every: int) -> bool:
    """Whether it was saved by time or for a stop: it is no regular one, not the last of so many steps, no new best."""
    if checkpoint.step == steps or checkpoint.step % every == 0:
        return False
    try:
        return Progress.of(checkpoint).best_step != checkpoint.step
    except CheckpointError:
        return False


def source_of(folder: RunFolder, console: Console, world: World) -> Checkpoint | None:
    """The checkpoint to resume from, which the first process finds for all."""
    from octavo.training.checkpoint import Checkpoint

    checkpoint = checkpoint_to_go_on_from(folder, console) if world.first else None
    place = world.broadcast(checkpoint and str(checkpoint.folder))
    return Checkpoint(Path(place)) if place else None


def checkpoint_to_go_on_from(folder: RunFolder, console: Console) -> CheckpointFolder | None:
    """The newest whole checkpoint; damaged newer ones are named and set aside, so that they can be written again.

    Raises CheckpointError when there are checkpoints and none is whole.
    """
    sweep(folder.checkpoints)
    for place in (folder.path, folder.samples):
        drop_asides(place)
    checkpoint, complaints = newest_whole(folder.checkpoints)
    for complaint in complaints:
        console.say(f"damaged: {complaint}")
    if checkpoint is None:
        if complaints:
            raise CheckpointError(
                f"No checkpoint of {folder.path} is whole.", remedy="start a new run with another --out"
            )
        return None
    for damaged in list_checkpoints(folder.checkpoints):
        if damaged.step > checkpoint.step:
            with storage_errors(folder.checkpoints):
                kept = put_away(damaged.folder, "damaged")
            console.say(f"{damaged.folder.name} is kept as {kept.name}")
    console.say(f"resuming after step {checkpoint.step}")
    point(folder.last, checkpoint)
    best = folder.checkpoints / f"step-{Progress.of(checkpoint).best_step:06d}"
    if best.is_dir():
        point(folder.best, CheckpointFolder(best))
    return checkpoint


def followed(like: RunFolder) -> Progress:
    """How far a run came, and how it changed its number of steps on its way."""
    newest = follow(like.last)
    return Progress() if newest is None else Progress.of(newest)


def keep_rows(folder: RunFolder, step: int) -> None:
    """Drop the metrics of steps after `step`: these steps are done again."""
    rows = [row for row in folder.rows() if row["step"] <= step]
    if folder.metrics.is_file():
        replace_text(folder.metrics, "".join(json_text(row) + "\n" for row in rows))


def ends_before(planned: int, pace: Sequence[Sequence[float]]) -> set[int]:
    """The steps at which a run of so many `planned` steps had ended before it got more: there it did what is done at an
    end. `pace`: its changes, see `training.pace`."""
    ends, total = set(), float(planned)
    for since, until, _ in pace:
        if since == total:
            ends.add(int(since))
        total = until
    return ends


ON_THE_WAY = ("training.steps=", "evaluation.every=")
"""Settings that a run can take on when it resumes, if its learning rate is constant: they change nothing before."""
BY_THE_CLOCK = ("training.minutes=", "training.passes=", "evaluation.every=")
"""Settings that a run by the clock can take on when it resumes, whatever its learning rate does."""


@dataclass(frozen=True)
class NextStep:
    """What a verdict asks for, in words, and the command for it, which may `resume` the run."""

    remedy: str
    resume: bool
    command: str


def next_step(folder: RunFolder, recipe: Recipe, diagnostics: Sequence[Mapping[str, Any]]) -> NextStep | None:
    """None if it asks nothing.

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
    return NextStep(diagnostics[0]["remedy"], resume, _command(words, recipe))


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
