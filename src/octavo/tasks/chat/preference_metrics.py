"""How often a run that learned from pairs prefers the held-out answer that was chosen, with its interval, and whether
it is as often right as it claims.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from octavo.config import Recipe
from octavo.data import Split
from octavo.model.base import LanguageModel
from octavo.run.data import evaluated_on, rows_at_once
from octavo.run.finetune import comparing
from octavo.task import EvaluationContext
from octavo.tokenizers import Tokenizer
from octavo.training.objective import Objective
from octavo.util.records import OPTIONAL
from octavo.util.stats import wilson

BINS = 5
"""Of confidence, from 50 to 100 %."""
SIMULATED = 1000
"""Draws of what a perfectly calibrated model would show."""


@dataclass(frozen=True)
class Share:
    """A share with its 95 % interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Bin:
    """Pairs of which a model is about equally sure.

    Attributes:
        sure: mean probability of the side that it prefers.
        right: the share of which it is, with its 95 % interval.
    """

    pairs: int
    sure: float
    right: float
    low: float
    high: float


@dataclass(frozen=True)
class Calibration:
    """How often it is right by how sure it is.

    Attributes:
        ece: mean distance of the two.
        ece_by_chance: what that would be, by chance alone, where they are the same.
    """

    ece: float
    ece_by_chance: float
    bins: list[Bin]


@dataclass(frozen=True)
class Preferences:
    """How often the chosen answer is preferred. `calibration`: of a loss in nats."""

    pairs: int
    accuracy: Share
    calibration: Calibration | None = field(default=None, metadata=OPTIONAL)


def preferred(model: LanguageModel, context: EvaluationContext) -> Preferences | None:
    """The figures of held-out pairs; None where there are no pairs."""
    recipe = context.recipe
    if "margin" not in {metric.name for metric in recipe.objective.build().metrics}:
        return None
    objective = comparing(recipe, context.started, context.runtime.device)
    margins = margins_of(model, context.split, recipe, context.tokenizer, objective)
    wins, pairs = np.sign(margins) / 2 + 0.5, len(margins)
    share = float(wins.mean())
    low, high = wilson(share * pairs, pairs)
    probable = objective.unit.name == "nats"  # of the probability with which the chosen one wins
    return Preferences(pairs, Share(share, low, high), calibration(margins) if probable else None)


@torch.no_grad()
def margins_of(
    model: LanguageModel, split: Split, recipe: Recipe, tokenizer: Tokenizer, objective: Objective
) -> np.ndarray:
    """By how much the chosen answer wins in each pair, (N,)."""
    device, margins = next(model.parameters()).device, []
    for arrays in evaluated_on(split, recipe, tokenizer, rows=rows_at_once(recipe, tokenizer, device)):
        batch = arrays.to(device)
        margins.append(objective.evaluate(model.eval(), batch).metrics["margin"][batch.targets >= 0])
    return torch.cat(margins).double().cpu().numpy()


def calibration(margins: np.ndarray) -> Calibration:
    """Calibration of N margins, by five bins of confidence."""
    sure = 1 / (1 + np.exp(-np.abs(margins)))  # of the side that it prefers
    right = np.sign(margins) / 2 + 0.5
    place = np.minimum((2 * (sure - 0.5) * BINS).astype(int), BINS - 1)
    bins = []
    for number in range(BINS):
        mine = place == number
        if mine.any():
            share, count = float(right[mine].mean()), int(mine.sum())
            low, high = wilson(share * count, count)
            bins.append(Bin(count, float(sure[mine].mean()), share, low, high))
    random = np.random.default_rng(0)
    drawn = random.random((SIMULATED, len(sure))) < sure
    by_chance = float(np.mean(_ece(sure, drawn.astype(float), place)))
    return Calibration(_ece(sure, right[None], place)[0], by_chance, bins)


def _ece(sure: np.ndarray, right: np.ndarray, place: np.ndarray) -> list[float]:
    """Expected calibration error of several outcomes (K, N)."""
    gaps = np.stack([(right - sure) @ (place == number) for number in range(BINS)])  # (BINS, K)
    return (np.abs(gaps).sum(axis=0) / len(sure)).tolist()


def sentences(result: Mapping[str, Any]) -> list[str]:
    """How often, how sure, and at what cost the chosen answer is preferred."""
    if "preferences" not in result:
        return []
    preferences, start = result["preferences"], (result.get("baselines") or {}).get("start") or {}
    share = preferences["accuracy"]
    sentences = [
        f"It prefers the chosen answer in {share['mean']:.1%} ({share['low']:.1%} to {share['high']:.1%}) of "
        f"{preferences['pairs']:,} held-out pairs; always taking the longer one would be right in "
        f"{result['longer']:.1%}."
    ]
    if "calibration" in preferences:
        errors = preferences["calibration"]
        sentences.append(
            f"How sure it is and how often it is right are {errors['ece']:.1%} apart (expected calibration error); "
            f"with this number of pairs a perfect model would show {errors['ece_by_chance']:.1%} by chance."
        )
    if "chosen" in result and "chosen" in start:
        sentences.append(
            f"Log-likelihood of the chosen answers: {start['chosen']:.2f} nats before, {result['chosen']:.2f} after; "
            f"of the rejected ones {start['rejected']:.2f} and {result['rejected']:.2f}."
        )
        if result["chosen"] < start["chosen"]:
            sentences.append(
                "The chosen answers became less probable too: what grew is their lead, and the probability went to "
                "texts that stand in no pair."
            )
    return sentences
