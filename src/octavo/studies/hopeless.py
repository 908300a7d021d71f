"""The early end of a run that is far behind the baseline's.

Whether a run is hopeless follows from the two curves alone, so it is the same in every repetition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from octavo.runs.folder import RunFolder
from octavo.runs.hooks import Hook
from octavo.runs.session import Session
from octavo.training.loop import StepInfo

Points = Sequence[tuple[int, float]]
"""Steps and bits per byte of a run's evaluations."""


class Hopeless(Exception):
    """A run that is not worth finishing; the message is a sentence.

    Attributes:
        step, steps: where it stands, and its length.
        bits, rival: bits per byte there, and the baseline's at the same share of its run.
    """

    def __init__(self, *, step: int, steps: int, bits: float, rival: float) -> None:
        self.step, self.steps, self.bits, self.rival = step, steps, bits, rival
        super().__init__(
            f"Stopped as hopeless at step {step} of {steps}: {bits:.3f} bits per byte, where the "
            f"baseline with the same seed had {rival:.3f}."
        )


def hopeless_hook(rival: Path, *, after: float, worse_by: float) -> Hook[Session]:
    """A hook that ends a run, by raising Hopeless, after an evaluation that finds it far behind the run in `rival`."""
    there = evaluations(RunFolder(rival).rows())

    def compare(session: Session, info: StepInfo) -> None:
        if session.evaluated != info.step:
            return
        here = evaluations(session.folder.rows())
        found = hopeless(here, there, after=after, worse_by=worse_by, steps=session.steps)
        if found is not None:
            raise found

    return Hook(1, compare)


def evaluations(rows: Sequence[Mapping[str, Any]]) -> list[tuple[int, float]]:
    """The points of a run's curve, from the rows of metrics.jsonl; of a step that was done again, the last."""
    found = {row["step"]: row["bits_per_byte"] for row in rows if row.get("event") == "validation"}
    return sorted(found.items())


def hopeless(run: Points, rival: Points, *, after: float, worse_by: float, steps: int) -> Hopeless | None:
    """Hopeless, if a run is that after its newest evaluation, or None.

    Args:
        run, rival: the points of both curves; the rival's is finished.
        after, worse_by: see `StopHopeless`.
        steps: length of the run.
    """
    if not run or not rival:
        return None
    step, bits = run[-1]
    if step >= steps or step < after * steps:
        return None
    share, end = step / steps, rival[-1][0]
    reached = [value for at, value in rival if at <= share * end]
    if not reached or bits <= reached[-1] * (1 + worse_by):
        return None
    return Hopeless(step=step, steps=steps, bits=bits, rival=reached[-1])
