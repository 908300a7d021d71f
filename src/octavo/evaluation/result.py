"""An evaluation: a model's figures on a split, simple predictors beside them, and what its task adds.

Each class says with `as_dict` what evaluation.json has of it; `Evaluation` puts them together, once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from octavo.training.objective import Unit

if TYPE_CHECKING:
    from octavo.evaluation.diagnostics import Diagnostic

Baselines = Mapping[str, Mapping[str, Any]]
"""Simple predictors by name, each with its `loss` and `bits_per_byte`; None where it has none."""


class Part(Protocol):
    """A piece of an evaluation."""

    def as_dict(self) -> dict[str, Any]:
        """Its keys and values in evaluation.json."""
        ...


@dataclass(frozen=True)
class Finding:
    """A piece under one key, as plain data."""

    key: str
    value: Any

    def as_dict(self) -> dict[str, Any]:
        return {self.key: self.value}


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
        skipped: documents that the figures are not of.
        positions, ends, documents_cut: where it is good (see `Places`); the share of documents longer than the context.
    """

    metrics: Metrics
    own: tuple[Part, ...]
    bytes: int
    parameters: int
    step: int
    skipped: Mapping[str, Any]
    positions: Mapping[str, Any] | None
    ends: Mapping[str, Any] | None
    documents_cut: float

    def as_dict(self) -> dict[str, Any]:
        found = self.metrics.as_dict()
        return {
            "val_loss": found.pop("loss"),
            **found,
            **merged(self.own),
            "bytes": self.bytes,
            "parameters": self.parameters,
            "step": self.step,
            **self.skipped,
            "positions": self.positions,
            "ends": self.ends,
            "documents_cut": self.documents_cut,
        }


@dataclass(frozen=True)
class Standing:
    """What stands beside a model's own figures: simple predictors, and what its task measures further."""

    baselines: Baselines = field(default_factory=dict)
    parts: tuple[Part, ...] = ()


@dataclass(frozen=True)
class Evaluation:
    """How good a model is on a split.

    Attributes:
        texts: what its task says of the text that it wrote.
        beside_start: what its task says of the model as it started, beside what became of it.
    """

    figures: Figures
    standing: Standing
    texts: tuple[Part, ...] = ()
    diagnostics: tuple[Diagnostic, ...] | None = None
    beside_start: tuple[Part, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        found = {
            **self.figures.as_dict(),
            "baselines": {name: dict(one) for name, one in self.standing.baselines.items()},
            **merged(self.standing.parts),
            **merged(self.texts),
        }
        if self.diagnostics is not None:
            found["diagnostics"] = [diagnostic.as_dict() for diagnostic in self.diagnostics]
        return {**found, **merged(self.beside_start)}


def merged(parts: tuple[Part, ...]) -> dict[str, Any]:
    """The keys and values of all parts, in their order."""
    return {key: value for part in parts for key, value in part.as_dict().items()}
