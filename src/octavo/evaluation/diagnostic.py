"""What a diagnosis is made of: facts about a run go in, diagnostics come out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Literal

from octavo.config import Recipe
from octavo.evaluation.curve import Curve
from octavo.training.objective import Unit

CLOSE = 0.05
"""Evaluations this far apart, as a share of the run, are close enough to see its curve."""

Severity = Literal["good", "note", "bad"]
Evidence = Mapping[str, float | str | None]


@dataclass(frozen=True)
class Diagnostic:
    """One thing that the figures say.

    Attributes:
        kind: its name for programs: diverged, unsteady, over-fit, learning, plateau, unclear (one of these at most),
            too large, under-fit, short context, end token, memorization, repetition, likeness, drift, baselines.
        sentence: for people; it holds the figures that matter most.
        evidence: all figures that it rests on, by name.
        severity: whether this is as it should be (good), worth knowing (note), or in the way (bad).
        remedy: what to do, in words; empty if nothing needs to be done.
        settings: the same as `key=value`, to put after `octavo train`; may be empty.
    """

    kind: str
    sentence: str
    evidence: Evidence
    severity: Severity = "note"
    remedy: str = ""
    settings: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """For evaluation.json."""
        return asdict(self) | {"evidence": dict(self.evidence), "settings": list(self.settings)}


@dataclass(frozen=True)
class Facts:
    """What is known about a run when it ends. Nothing is said about what is missing."""

    recipe: Recipe
    steps: int
    """Steps that were asked for."""
    vocab_size: int
    train_tokens: int
    rows: Sequence[Mapping[str, Any]] = ()
    """Of metrics.jsonl."""
    evaluation: Mapping[str, Any] = field(default_factory=dict)
    """What evaluation.json holds (losses, baselines, positions, ends, memorization, diversity)."""
    diverged: str | None = None
    """Why the run diverged, as a sentence."""
    elsewhere: bool = False
    """Whether it was evaluated on another text than its own, which may be of another kind."""

    @cached_property
    def unit(self) -> Unit:
        """Of its losses."""
        return self.recipe.objective.build().unit

    @cached_property
    def training(self) -> Curve:
        """Loss on the batches."""
        return Curve.of(self.rows, "train")

    @cached_property
    def validation(self) -> Curve:
        """Loss on the validation split."""
        return Curve.of(self.rows, "validation")

    @property
    def passes(self) -> float:
        """How often the training text was seen."""
        seen = max((row.get("tokens") or 0 for row in self.rows if row.get("event") == "train"), default=0)
        return seen / max(1, self.train_tokens)

    @property
    def train_end(self) -> float | None:
        """Training loss at the end: the median of the last twentieth."""
        curve = self.training
        return curve.level(curve.steps[-1], 0.05 * curve.steps[-1]) if len(curve) else None

    def setting(self, key: str, factor: float) -> str:
        """`key=value` with the recipe's own number times a factor."""
        value: Any = self.recipe
        for name in key.split("."):
            value = getattr(value, name)
        return f"{key}={value * factor:.3g}" if isinstance(value, float) else f"{key}={round(value * factor)}"

    def size(self, loss: float) -> float:
        """What a share of a loss is a share of: the loss itself, or, of a density, whose zero is a matter of the
        numbers' units, a nat for each number of a row."""
        return float(self.vocab_size) if self.unit.density else abs(loss)

    @property
    def rate_left(self) -> float:
        """Share of its peak that the learning rate had at the end."""
        rates = [row["learning_rate"] for row in self.rows if row.get("learning_rate") is not None]
        return rates[-1] / max(rates) if rates and max(rates) > 0 else 1.0

    @property
    def longer(self) -> tuple[str, ...]:
        """The settings for twice the training."""
        if self.recipe.training.epochs is not None:
            return (self.setting("training.epochs", 2),)
        most = self.recipe.training.passes
        limit = (self.setting("training.passes", 2),) if most is not None and 2 * self.passes > most else ()
        if self.recipe.training.minutes is not None:
            return (self.setting("training.minutes", 2), *limit)
        return (f"training.steps={2 * self.steps}", *limit)

    @property
    def closer(self) -> tuple[str, ...]:
        """The setting for evaluations close enough to see a curve, if they were not."""
        every = self.recipe.evaluation.every
        return () if isinstance(every, float) and every <= CLOSE else (f"evaluation.every={CLOSE}",)

    @property
    def firmer(self) -> tuple[str, ...]:
        """The settings against memorization."""
        dropout = getattr(self.recipe.model, "dropout", None)
        dry = dropout is not None and not (dropout.attention or dropout.projection or dropout.feed_forward)
        return ("model.dropout=0.2",) if dry else ("training.patience=3",)
