"""Periodic work around the training loop: what is done after which steps. Callers add their own.

A hook is called in the order of the list, after the step's update. It may read all of the session (`session.model`,
`session.dataset`, `session.progress`, `session.write_row(…)` for a line of metrics.jsonl); one that leaves the weights
and the optimizers alone leaves the run what it is, bit for bit. What it raises ends the run.
Of several processes that train together each calls it; `session.world.first` is true in the one that writes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from octavo.ground.records import Count, Number, Record
from octavo.training.checkpoint import Checkpoint
from octavo.training.loop import StepInfo

if TYPE_CHECKING:
    from octavo.runs.session import Session


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
    thread_changes: list[tuple[Count, Annotated[int, Field(ge=1, le=1024)]]] = Field(default_factory=list)


@dataclass
class Progress:
    """The run's own numbers, saved with every checkpoint. `thread_changes`: (step, threads), see `training.threads`."""

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0
    """Of training alone."""
    elapsed: float = 0.0
    """All seconds of the sessions until then, as far as a checkpoint kept what they did."""
    best_loss: float = math.inf
    best_step: int = 0
    evaluations_since_best: int = 0
    finished: bool = False
    thread_changes: list[list[int]] = field(default_factory=list)

    @classmethod
    def of(cls, checkpoint: Checkpoint) -> Progress:
        """From a checkpoint's state.json. Raises CheckpointError where it holds something else."""
        state = checkpoint.state(State)
        known: dict[str, Any] = {each.name: state[each.name] for each in fields(cls) if each.name in state}
        if known["best_loss"] is None:
            known["best_loss"] = math.inf
        return cls(**known)

    def state(self) -> dict[str, Any]:
        """As it is saved; JSON has no infinity."""
        return {key: None if value == math.inf else value for key, value in asdict(self).items()}


@dataclass(frozen=True)
class Hook:
    """Work to do after every `every`-th step.

    Attributes:
        every: steps from one time to the next; 0: only as the other two say.
        work: gets the session and what the step did.
        first: also after the very first step.
        last: also after the last step, an early stop's too.

    For example, `octavo.train(recipe, text, hooks=[Hook(every=100, work=lambda session, info: print(info.loss))])`.
    """

    every: int
    work: Callable[[Session, StepInfo], None]
    first: bool = False
    last: bool = False

    def __post_init__(self) -> None:
        assert self.every >= 0, f"a hook every {self.every} steps"

    def due(self, progress: Progress) -> bool:
        """Whether it is to be done after this step."""
        return (
            bool(self.every and progress.step % self.every == 0)
            or (self.first and progress.step == 1)
            or (self.last and progress.finished)
        )


@dataclass(frozen=True)
class BestHook(Hook):
    """Done after each new best as well."""

    def due(self, progress: Progress) -> bool:
        """Whether it is to be done after this step."""
        return super().due(progress) or progress.best_step == progress.step
