"""How far a run came: its own numbers, saved with every checkpoint. Nothing here imports torch."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, fields
from typing import Annotated, Any

from pydantic import Field

from octavo.errors import CheckpointError
from octavo.run.folder import RunFolder
from octavo.training.checkpoint_folder import CheckpointFolder
from octavo.util.records import Count, Number, Record


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
