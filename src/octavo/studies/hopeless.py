"""What a study hears of a run while it trains, and the early end of a run that is far behind the baseline's.

Whether a run is hopeless follows from the two curves alone, so it is the same in every repetition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from octavo.ground.console import Console
from octavo.runs.folder import RunFolder


class Hopeless(Exception):
    """A run that is not worth its end; the message is a sentence."""


class Watch(Console):
    """A console that shows nothing: it passes steps on, and ends a hopeless run."""

    def __init__(
        self,
        on_step: Callable[[int], None],
        folder: RunFolder,
        hopeless: Mapping[str, float] | None = None,
        rival: str | None = None,
    ) -> None:
        super().__init__(quiet=True)
        self.on_step, self.folder, self.rule = on_step, folder, hopeless
        self.rival = Curve.of(RunFolder(Path(rival)).rows()) if rival and hopeless else None

    def advance(self, done: float, note: str, *, first: bool = False) -> None:
        """A finished step; judged by what the evaluations before it found."""
        super().advance(done, note, first=first)
        self.on_step(int(done))

    def say(self, text: str) -> None:
        """A sentence for the log; one comes after each evaluation, whose row is written by then."""
        super().say(text)
        if self.rule is not None and self.rival is not None:
            sentence = hopeless(Curve.of(self.folder.rows()), self.rival, **self.rule)
            if sentence:
                raise Hopeless(sentence)


class Curve(list[tuple[int, float]]):
    """Steps and bits per byte of a run's evaluations."""

    @classmethod
    def of(cls, rows: Sequence[Mapping[str, Any]]) -> Curve:
        """From the rows of metrics.jsonl."""
        found = {row["step"]: row["bits_per_byte"] for row in rows if row.get("event") == "validation"}
        return cls(sorted(found.items()))


def hopeless(
    run: Sequence[tuple[int, float]],
    rival: Sequence[tuple[int, float]],
    *,
    after: float,
    worse_by: float,
    steps: float,
) -> str | None:
    """Why a run is hopeless after its newest evaluation, or None.

    Args:
        run, rival: step and bits per byte of each evaluation; the rival's is finished.
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
    return (
        f"Stopped as hopeless at step {step} of {steps:.0f}: {bits:.3f} bits per byte, where the "
        f"baseline with the same seed had {reached[-1]:.3f}."
    )
