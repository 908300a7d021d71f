"""Who teaches a model, besides the text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field, field_validator, model_validator

from octavo.config.parts import MOST, FilePath, Strict

ASKING = 1 / 3
"""What asking a teacher of the model's own size takes, of a step without one: a forward pass."""


class TeachersConfig(Strict):
    """Runs that the model learns from, besides the text: finished ones, or such as are trained first. It is called
    distillation (Hinton et al. 2015); of models alike, born-again networks (Furlanello et al. 2018)."""

    runs: tuple[FilePath, ...] = ()
    """Run folders (their best checkpoint teaches) or checkpoint folders, with this run's tokenizer. Several teach the
    mean of their predictions: each step asks the next one."""
    weight: float = Field(0.8, gt=0, le=1)
    """Share of the loss that is cross-entropy with the teachers' predictions; the rest is with the text's tokens."""
    written: int = Field(0, ge=0, le=MOST)
    """Tokens that the teachers write before the training, in turn; half of each batch then comes from these."""
    trained: int = Field(0, ge=0, le=16)
    """How many models of this recipe, with other seeds, are trained first, in the run's folder, and then teach it. They
    help where a text is seen so often that it would be learned by heart."""
    trained_steps: int | None = Field(None, ge=1, le=MOST)
    """Steps of each of these. Empty: as many as the run's own."""
    trained_dropout: float | None = Field(None, ge=0, lt=1)
    """Dropout of each of these. Empty: the run's own. A model that is taught needs less of it than its teacher."""

    @field_validator("runs", mode="before")
    @classmethod
    def _one_is_a_list(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str | Path) else value

    @model_validator(mode="after")
    def _somebody(self) -> TeachersConfig:
        if self.written and not self.runs:
            raise ValueError("nobody is there to write: name the teachers' runs")
        if self.runs and self.trained:
            raise ValueError("name teachers (runs) or have some trained first (trained), not both")
        return self

    @property
    def somebody(self) -> bool:
        """Whether a model learns from others: then its training loss is not of the text alone."""
        return bool(self.runs or self.trained)

    def steps_of_each(self, steps: int) -> int:
        """Of the teachers that a run of so many steps trains itself."""
        return self.trained_steps or steps

    def whole(self, steps: int) -> float:
        """How many of a run's own steps it takes together with its own teachers, to whom nobody is a teacher."""
        return steps + self.trained * self.steps_of_each(steps) / (1 + ASKING)
