"""Periodic work around the training loop: what is done after which steps. Callers add their own.

A hook is called in the order of the list, after the step's update. It may read all of the session (`session.model`,
`session.dataset`, `session.progress`, `session.evaluated`, the last step with an evaluation, and `session.write_row(…)`
for a line of metrics.jsonl); one that leaves the weights and the optimizers alone leaves the run what it is, bit for
bit. What it raises ends the run.
Of several processes that train together each calls it; `session.world.first` is true in the one that writes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from octavo.runs.progress import Progress
from octavo.training.loop import StepInfo

S = TypeVar("S")
"""What a hook gets: a `Session`, whose file imports this one."""


@dataclass(frozen=True)
class Hook(Generic[S]):
    """Work to do after every `every`-th step.

    Attributes:
        every: steps from one time to the next; 0: only as the other two say.
        work: gets the session and what the step did.
        first: also after the very first step.
        last: also after the last step, an early stop's too.

    For example, `octavo.train(recipe, text, hooks=[Hook(every=100, work=lambda session, info: print(info.loss))])`.
    """

    every: int
    work: Callable[[S, StepInfo], None]
    first: bool = False
    last: bool = False

    def __post_init__(self) -> None:
        assert self.every >= 0, f"a hook every {self.every} steps"

    def due(self, progress: Progress) -> bool:
        """Whether it is due after this step."""
        return (
            bool(self.every and progress.step % self.every == 0)
            or (self.first and progress.step == 1)
            or (self.last and progress.finished)
        )


@dataclass(frozen=True)
class BestHook(Hook[S]):
    """Done after each new best as well."""

    def due(self, progress: Progress) -> bool:
        """Whether it is due after this step."""
        return super().due(progress) or progress.best_step == progress.step
