"""Learning from preferences without a reward: DPO (Rafailov et al. 2023), IPO (Azar et al. 2023), and either by the
token.

B pairs, S ids of the longest side among them.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from octavo.config import Recipe
from octavo.config.parts import LARGEST, register
from octavo.data import Dataset
from octavo.data.batch import Batch
from octavo.data.batches import Batches
from octavo.errors import ConfigError, InputError
from octavo.model.base import LanguageModel
from octavo.training.objective import (
    Learning,
    Loss,
    Metric,
    Model,
    Objective,
    ObjectiveConfig,
    PerToken,
    Unit,
    at_least_float32,
    counts,
    logits_of,
)

PREFERRED = (
    Metric("accuracy", "accuracy", "of pairs: the chosen answer wins", "{:.1%}"),
    Metric("longer", "the longer one", "of pairs: the chosen answer is the longer one, a control", "{:.1%}"),
)


class OfPairs(Objective):
    """What learns from pairs. A row of a batch is a pair, and its one target stands for it."""

    verb: str
    """What makes such a run, for messages."""

    def refuse(self, recipe: Recipe, dataset: Dataset, model: LanguageModel, *, processes: int) -> None:
        kind = recipe.objective.kind
        if recipe.training.start_from is None:
            raise ConfigError(
                f"objective={kind} tunes a model that has learned before; this run has none.",
                remedy=f"training.start_from=RUN, or {self.verb} RUN --text pairs.jsonl",
            )
        if recipe.training.teachers.runs:
            raise ConfigError(
                f"training.teachers teach from texts; objective={kind} learns from pairs.",
                remedy="leave training.teachers out",
            )

    @abstractmethod
    def judged(self, model: Model, batch: Batch[Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss of each pair, (B,), and the metrics, (B,) each."""

    def loss(self, model: Model, batch: Batch[Tensor], *, step: int = 0) -> Loss:
        losses, metrics = self.judged(model, batch)
        there = (batch.targets >= 0).sum(dim=1)
        means = {name: (value.detach() * there).sum() for name, value in metrics.items()}
        return Loss((losses * counts(batch).sum(dim=1)).sum(), means)

    def evaluate(self, model: Model, batch: Batch[Tensor]) -> PerToken:
        losses, metrics = self.judged(model, batch)
        there = batch.targets >= 0
        known = {metric.name for metric in self.metrics}
        spread = {name: value[:, None] * there for name, value in metrics.items() if name in known}
        return PerToken(losses[:, None] * there, spread)


def better(first: Tensor, second: Tensor) -> Tensor:
    """1 where the first is more than the second, ½ where they are equal, else 0."""
    return 0.5 + 0.5 * (first - second).sign()


def answer_lengths(batch: Batch[Tensor]) -> Tensor:
    """Tokens of both answers, their ends included, (B, 2)."""
    assert batch.sides is not None and batch.begins is not None, "batches of preferences"
    return (batch.sides >= 0).sum(dim=-1) - batch.begins


def answer_likelihood(model: Model, batch: Batch[Tensor]) -> Tensor:
    """ln of the probability of both answers after their prompt, (B, 2), their ends included."""
    assert batch.sides is not None and batch.begins is not None, "batches of preferences"
    ids = batch.sides.flatten(0, 1)  # (2B, S)
    follows = torch.arange(1, ids.size(1), device=ids.device) >= batch.begins.flatten()[:, None]
    targets = torch.where(follows, ids[:, 1:], -1)
    rows = Batch(ids[:, :-1].clamp(min=0), targets)
    logits = at_least_float32(logits_of(model, rows))
    nats = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1, reduction="none")
    return -nats.view_as(targets).sum(dim=1).view(-1, 2)


class DirectPreference(OfPairs):
    """Make the chosen answer more probable than the rejected one, as far as the model goes beyond its reference: the
    run that it started from."""

    verb, asks_start = "octavo tune dpo", True
    reference: LanguageModel | None = (
        None  # only where no more than the time and memory of a step are asked for
    )
    metrics = (
        *PREFERRED,
        Metric("margin", "margin", "chosen above rejected, beyond what it started from", "{:.3f}"),
        Metric("chosen", "chosen", "log-likelihood of the chosen answer, in nats", "{:.2f}"),
        Metric("rejected", "rejected", "log-likelihood of the rejected answer, in nats", "{:.2f}"),
        Metric("likelier", "likelier", "of pairs: the chosen answer is the more probable one", "{:.1%}"),
    )

    def __init__(self, config: DirectPreferenceConfig) -> None:
        self.config = config
        self.unit = Unit(
            "nats" if config.form == "dpo" else "squared nats", "pair", text=False, counted="pairs"
        )

    @property
    def writes(self) -> bool:
        return True

    def refuse(self, recipe: Recipe, dataset: Dataset, model: LanguageModel, *, processes: int) -> None:
        super().refuse(recipe, dataset, model, processes=processes)
        if processes > 1:
            raise ConfigError("objective=dpo asks its reference in one process alone.")

    def compare_with(self, reference: LanguageModel | None, device: torch.device) -> None:
        if reference is None:
            raise InputError(
                "This run's loss compares with what it started from, and that is not here.",
                remedy="name the run folder, not a checkpoint alone, and leave start.safetensors in it",
            )
        self.reference = reference.requires_grad_(False).to(device)

    def begin(self, learning: Learning) -> Batches:
        device = next(learning.model.parameters()).device
        self.compare_with(learning.started() if learning.started else None, device)
        return learning.batches

    def loss(self, model: Model, batch: Batch[Tensor], *, step: int = 0) -> Loss:
        """Dropout is off: at its start the model is its reference."""
        if isinstance(model, nn.Module):
            model.eval()
        return super().loss(model, batch, step=step)

    def judged(self, model: Model, batch: Batch[Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """Without a reference the model takes its own place, so that a step's time is told."""
        config, likelihood = self.config, answer_likelihood(model, batch)
        with torch.no_grad():
            before = answer_likelihood(model if self.reference is None else self.reference, batch)
        gained, lengths = likelihood - before, answer_lengths(batch)
        if config.by_token:
            gained = gained / lengths.clamp(min=1)
        beyond = gained[:, 0] - gained[:, 1]
        if config.form == "dpo":
            losses = -F.logsigmoid(config.beta * beyond)
        else:
            losses = (beyond - 1 / (2 * config.beta)).square()
        return losses, {
            "accuracy": better(gained[:, 0], gained[:, 1]),
            "longer": better(lengths[:, 0], lengths[:, 1]),
            "margin": config.beta * beyond,
            "chosen": likelihood[:, 0],
            "rejected": likelihood[:, 1],
            "likelier": better(likelihood[:, 0], likelihood[:, 1]),
        }

    def baselines(
        self, train: np.ndarray | None, validation: np.ndarray, *, vocab_size: int
    ) -> Mapping[str, float]:
        """The run that it started from says the rest."""
        return {"coin": math.log(2)} if self.config.form == "dpo" else {}


@register("objective")
class DirectPreferenceConfig(ObjectiveConfig):
    """Preference tuning without a reward (DPO): the chosen answer becomes more probable than the rejected one, held to
    the run that it starts from; in nats per pair."""

    kind: Literal["dpo"] = "dpo"
    tunes: ClassVar[bool] = True
    reads: ClassVar[str] = "preferences"
    beta: float = Field(0.1, gt=0, le=LARGEST)
    """How firmly it is held: what a nat of the margin counts. A smaller one lets the model go further."""
    form: Literal["dpo", "ipo"] = "dpo"
    """dpo: −log sigmoid of beta × margin, which always asks for more. ipo: the square of the margin's distance from
    1 / (2 beta), where it is enough."""
    by_token: bool = False
    """Divide each answer's log-likelihood by its tokens, so that long answers do not count for more; the margin is then
    so much smaller, and asks for a larger beta."""

    def build(self) -> Objective:
        return DirectPreference(self)
