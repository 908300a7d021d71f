"""An evaluation: a model's figures on a split, simple predictors beside them, and what its task adds.

Fields are the keys of evaluation.json; `Evaluation.as_dict` puts them together, once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from octavo.training.objective import Unit
from octavo.util.records import plain

if TYPE_CHECKING:
    from octavo.evaluation.by_position import DocumentEnds, Positions
    from octavo.evaluation.diagnostics import Diagnostic


@dataclass(frozen=True)
class Baseline:
    """What a simple predictor reached.

    Attributes:
        loss: nats per token; None for compressors.
        order: length of the longest n-grams, if it has any.
        train_tokens: that it learned from, if it did.
        others: the objective's other metrics.
    """

    loss: float | None
    bits_per_byte: float | None = None
    order: int | None = None
    train_tokens: int | None = None
    others: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Baseline:
        """From its keys in a file; others are passed over."""
        return cls(**{one.name: stored[one.name] for one in fields(cls) if one.name in stored})

    def as_dict(self) -> dict[str, Any]:
        """For evaluation.json: the first two always, the rest where it says something."""
        learned = {"order": self.order, "train_tokens": self.train_tokens}
        known = {key: value for key, value in learned.items() if value is not None}
        return {"loss": self.loss, "bits_per_byte": self.bits_per_byte, **known, **self.others}


Baselines = Mapping[str, Baseline]
"""Simple predictors by name."""


@dataclass(frozen=True)
class Finding:
    """A piece of an evaluation under its key: a dataclass or plain data."""

    key: str
    value: Any


@dataclass(frozen=True)
class LeftOut:
    """Documents that the figures are not of: how many of how many, and the first ones, each with why."""

    count: int
    of: int
    first: tuple[Any, ...]


@dataclass(frozen=True)
class Metrics:
    """Mean loss, what follows from it if it is one of text, and the objective's other metrics."""

    loss: float
    perplexity: float | None
    bits_per_byte: float | None
    others: Mapping[str, float]
    tokens: int
    unit: Unit

    def as_dict(self) -> dict[str, Any]:
        """For metrics.jsonl: what there is, and the unit unless it is that of text."""
        text = {"perplexity": self.perplexity, "bits_per_byte": self.bits_per_byte}
        if self.bits_per_byte is None:
            text = {"unit": str(self.unit)}
        return {"loss": self.loss, **text, **self.others, "tokens": self.tokens}

    def __str__(self) -> str:
        if self.bits_per_byte is None:
            return f"{self.loss:.4f} {self.unit}"
        return f"{self.loss:.4f}  {self.bits_per_byte:.3f} bits/byte"


@dataclass(frozen=True)
class Figures:
    """A model's own figures on a split.

    Attributes:
        own: what its task measures with the loss.
        skipped: documents that the figures are not of; None if all count.
        positions, ends, documents_cut: where it is good (see `Places`); the share of documents longer than the context.
    """

    metrics: Metrics
    own: tuple[Finding, ...]
    bytes: int
    parameters: int
    step: int
    skipped: LeftOut | None
    positions: Positions | None
    ends: DocumentEnds | None
    documents_cut: float

    def as_dict(self) -> dict[str, Any]:
        metrics = self.metrics.as_dict()
        return {
            "val_loss": metrics.pop("loss"),
            **metrics,
            **merged(self.own),
            "bytes": self.bytes,
            "parameters": self.parameters,
            "step": self.step,
            **({} if self.skipped is None else {"skipped": plain(self.skipped)}),
            "positions": plain(self.positions),
            "ends": plain(self.ends),
            "documents_cut": self.documents_cut,
        }


@dataclass(frozen=True)
class Standing:
    """What stands beside a model's own figures: simple predictors, and what its task measures further."""

    baselines: Baselines = field(default_factory=dict)
    parts: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class Evaluation:
    """How good a model is on a split.

    Attributes:
        texts: what its task says of the text that it wrote.
        beside_start: what its task says of the model as it started, beside what became of it.
    """

    figures: Figures
    standing: Standing
    texts: tuple[Finding, ...] = ()
    diagnostics: tuple[Diagnostic, ...] | None = None
    beside_start: tuple[Finding, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        document = {
            **self.figures.as_dict(),
            "baselines": {name: one.as_dict() for name, one in self.standing.baselines.items()},
            **merged(self.standing.parts),
            **merged(self.texts),
        }
        if self.diagnostics is not None:
            document["diagnostics"] = plain(self.diagnostics)
        return {**document, **merged(self.beside_start)}


def merged(findings: Iterable[Finding]) -> dict[str, Any]:
    """The keys and values of all of them, in their order."""
    return {one.key: plain(one.value) for one in findings}
