"""The early end of a run that is far behind the baseline's.

Whether a run is hopeless follows from the two curves alone, so it is the same in every repetition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from octavo.run.folder import RunFolder
from octavo.run.trainer import Hook, Trainer
from octavo.training.loop import StepInfo

Points = Sequence[tuple[int, float]]
"""Steps of a run's evaluations, and its bits per byte there; of a loss that is none of text, the loss."""


class Hopeless(Exception):
    """A run that is not worth finishing; the message is a sentence.

    Attributes:
        step, steps: where it stands, and its length.
        reached, rival: what it has there, and the baseline at the same share of its run.
        unit: of these.
    """

    def __init__(self, *, step: int, steps: int, reached: float, rival: float, unit: str) -> None:
        self.step, self.steps, self.reached, self.rival = step, steps, reached, rival
        super().__init__(
            f"Stopped as hopeless at step {step} of {steps}: {reached:.3f} {unit}, where the "
            f"baseline with the same seed had {rival:.3f}."
        )


def hopeless_hook(rival: Path, *, after: float, worse_by: float) -> Hook:
    """A hook that ends a run, by raising Hopeless, after an evaluation that finds it far behind the run in `rival`."""
    rows = RunFolder(rival).rows()
    there = evaluations(rows)
    unit = next((row["unit"] for row in rows if row.get("unit")), "bits per byte")

    def compare(trainer: Trainer, info: StepInfo) -> None:
        if trainer.evaluated != info.step:
            return
        here = evaluations(trainer.folder.rows())
        found = hopeless(here, there, after=after, worse_by=worse_by, steps=trainer.steps, unit=unit)
        if found is not None:
            raise found

    return Hook(1, compare)


def evaluations(rows: Sequence[Mapping[str, Any]]) -> list[tuple[int, float]]:
    """The points of a run's curve, from the rows of metrics.jsonl; of a step that was done again, the last."""
    losses = {
        row["step"]: row.get("bits_per_byte", row["loss"]) for row in rows if row.get("event") == "validation"
    }
    return sorted(losses.items())


def hopeless(
    run: Points,
    rival: Points,
    *,
    after: float,
    worse_by: float,
    steps: int,
    unit: str = "bits per byte",
) -> Hopeless | None:
    """Hopeless, if a run is that after its newest evaluation, or None.

    Args:
        run, rival: the points of both curves; the rival's is finished.
        after, worse_by: see `StopHopeless`.
        steps: length of the run.
    """
    if not run or not rival:
        return None
    step, value = run[-1]
    if step >= steps or step < after * steps:
        return None
    share, end = step / steps, rival[-1][0]
    there = [level for at, level in rival if at <= share * end]
    if not there or value <= there[-1] * (1 + worse_by):
        return None
    return Hopeless(step=step, steps=steps, reached=value, rival=there[-1], unit=unit)
