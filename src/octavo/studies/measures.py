"""What runs are compared by: bits per byte where the loss is one of text, else their objective's loss in its unit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from octavo.training.objective import TEXT, Unit

Metric = Literal[
    "bits_per_byte",
    "val_loss",
    "perplexity",
    "accuracy",
    "improvement",
    "nats_per_record",
    "valid",
    "crps",
    "scaled_crps",
]

OF_TEXT = ("bits_per_byte", "perplexity", "nats_per_record")
"""Metrics that follow from the probability of a text."""

OF_PATHS = ("crps", "scaled_crps")
"""Metrics of forecasts that are drawn."""

OF_TASKS = ("nats_per_record", "valid", *OF_PATHS)
"""Metrics that only some tasks have."""

NEEDS: Mapping[str, str] = {
    "nats_per_record": "batches of records; take batches={kind: documents, alone: true}",
    "valid": "judge=best, whose texts are checked, and a corpus that has rules: a storyteller's, or one with a "
    "validator",
    **dict.fromkeys(OF_PATHS, "judge=best, whose forecasts are drawn, and objective=forecast"),
}
"""What these need of a study and its recipe."""

SHARES = ("accuracy", "improvement", "valid")
"""Metrics of which more is better, written in points of a hundred."""

WORDS: Mapping[str, tuple[str, str]] = {
    "bits_per_byte": (
        "bits per byte",
        "bits that the model needs to write down a byte of text; lower is better",
    ),
    "nats_per_record": (
        "nats per record",
        "surprise at a whole record, in units of 1.44 bits; lower is better",
    ),
    "perplexity": (
        "in perplexity",
        "as unsure as between this many equally likely tokens; lower is better",
    ),
    "accuracy": (
        "points of accuracy",
        "share of the tokens that were the model's first guess, in percent; higher is better",
    ),
    "valid": (
        "points of good texts",
        "share of the texts that the model wrote which its corpus' rules let pass, in percent; higher is better",
    ),
    "crps": (
        "CRPS",
        "how far the drawn paths are from what came, mean of all horizons and channels, in the unit that all channels "
        "share; lower is better",
    ),
    "scaled_crps": (
        "CRPS in usual steps",
        "how far the drawn paths are from what came, mean of all horizons, each channel's divided by its mean absolute "
        "step; lower is better",
    ),
    "improvement": (
        "points of relative improvement",
        "share of its initial loss that a model lost, in percent; higher is better",
    ),
}


@dataclass(frozen=True)
class EvaluationCurve:
    """Evaluations of a run on its way, on the part of the validation split that evaluation.tokens names."""

    steps: tuple[int, ...] = ()
    tokens: tuple[int, ...] = ()
    losses: tuple[float, ...] = ()
    bits_per_byte: tuple[float, ...] = ()
    evaluated: int | None = None
    """Tokens of that part, where the run says so."""

    def of_a_part(self, run: Evaluated) -> bool:
        """Whether it is of fewer tokens than the run was judged by at its end, so that no level of the one stands
        beside a level of the other."""
        return self.evaluated is not None and self.evaluated < sum(run.tokens_scored)


class Evaluated(Protocol):
    """A run with its figures by name; `results.RunResult` is one."""

    @property
    def curve(self) -> EvaluationCurve: ...
    @property
    def tokens_scored(self) -> Sequence[int]: ...


@dataclass(frozen=True)
class Measure:
    """A figure of a run.

    Attributes:
        metric: its name.
        unit: the words after a number.
        meaning: one line on it.
    """

    metric: str
    unit: str
    meaning: str

    @property
    def lower_is_better(self) -> bool:
        """Whether a smaller value is the better one."""
        return self.metric not in SHARES

    @property
    def factor(self) -> int:
        """What a number is multiplied with to be written."""
        return 100 if self.metric in SHARES else 1

    def of(self, run: Evaluated) -> float | None:
        """What a run reached by this measure."""
        return getattr(run, self.metric)

    def curve(self, run: Evaluated) -> Sequence[float]:
        """The same at its evaluations on the way; of bits per byte and the loss."""
        return run.curve.bits_per_byte if self.metric == "bits_per_byte" else run.curve.losses

    def baseline(self, found: Mapping[str, Any]) -> float | None:
        """The same of something simpler, as evaluation.json has it."""
        return found.get("bits_per_byte" if self.metric == "bits_per_byte" else "loss")


def measure(metric: str, unit: Unit = TEXT) -> Measure:
    """What a metric measures where the loss has a unit."""
    if metric != "val_loss":
        return Measure(metric, *WORDS[metric])
    if unit.density:
        meaning = f"−ln of the density of what came, for each {unit.per}"
    elif unit.name == "nats":
        meaning = f"surprise at each {unit.per}, in units of 1.44 bits"
    else:
        meaning = f"mean {unit.name} loss of each {unit.per}"
    return Measure(metric, str(unit), f"{meaning}; lower is better")


def usual_metric(unit: Unit) -> Metric:
    """What any runs are compared by whose loss has this unit."""
    return "bits_per_byte" if unit.has_bits_per_byte else "val_loss"


def usual(unit: Unit) -> Measure:
    """The same as a measure."""
    return measure(usual_metric(unit), unit)


def on_the_way(metric: str, unit: Unit) -> Measure:
    """What curves show in a study of this metric."""
    return measure("val_loss", unit) if metric == "val_loss" else usual(unit)


def unfit(metric: str, unit: Unit, others: Iterable[str]) -> str | None:
    """Why an objective with this unit, and these metrics beside its loss, lacks a study's metric, as a sentence; None
    where it does not."""
    lacks = (
        (metric in OF_TEXT and not unit.has_bits_per_byte)
        or (metric == "accuracy" and metric not in others)
        or (metric == "improvement" and unit.density)
    )
    if not lacks:
        return None
    return f"metric={metric} does not exist for an objective measured in {unit}; take val_loss"


# How what a study compares is written: its unit, the better direction, as many decimals as the noise allows.


@dataclass(frozen=True)
class Scale:
    """How a measure is written, with the decimals that the noise allows."""

    measure: Measure
    decimals: int = 3

    @property
    def metric(self) -> str:
        return self.measure.metric

    @property
    def unit(self) -> str:
        """The words after a number."""
        return self.measure.unit

    @property
    def lower_is_better(self) -> bool:
        """Whether a smaller value is the better one."""
        return self.measure.lower_is_better

    @property
    def factor(self) -> int:
        """What a number is multiplied with to be written."""
        return self.measure.factor

    def text(self, value: float, *, signed: bool = False) -> str:
        """The number, shares in points of a hundred; a true minus sign."""
        value = self.factor * value
        words = f"{value:+.{self.decimals}f}" if signed else f"{value:.{self.decimals}f}"
        return words.replace("-", "−")
