"""A penalty in the loss for wrong output: report E's own idea.

Cross-entropy asks for the token that came, and does not care which of the others has the rest of the probability. Here
a language's rules say which words are wrong after the one before, and their probability is punished: −ln(1 − p) of all
of them together (unlikelihood, Welleck et al. 2020). A model of a text that keeps the rules loses nothing by it.

B sequences, T positions, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from octavo.config import Recipe
from octavo.config.parts import LARGEST, register
from octavo.data import Dataset
from octavo.data.batch import Batch
from octavo.errors import ConfigError
from octavo.model.base import LanguageModel
from octavo.synthetic.checker import wrong_neighbours
from octavo.synthetic.vocabulary import MARKS, vocabulary
from octavo.tokenizers import Tokenizer
from octavo.training.objective import (
    Loss,
    Model,
    NextToken,
    Objective,
    ObjectiveConfig,
    at_least_float32,
    counts,
    logits_of,
)


def wrong_in_pidgin(words: list[str]) -> np.ndarray:
    """(V, V) whether a word is wrong after another in pidgin; what pidgin does not know is never."""
    known = {*vocabulary(), *MARKS}
    places = [place for place, word in enumerate(words) if word in known]
    wrong = np.zeros((len(words), len(words)), bool)
    for before in places:
        wrong[before, places] = [any(wrong_neighbours(words[before], words[after])) for after in places]
    return wrong


RULES: Mapping[str, Callable[[list[str]], np.ndarray]] = {"pidgin": wrong_in_pidgin}


class Penalized(NextToken):
    """Cross-entropy with the token that follows, and a penalty on words that are wrong there. It is reported and
    evaluated as the cross-entropy alone; `wrong`, the probability of wrong words, stands in the rows of the training.
    """

    recordable = False  # the table of wrong words is moved to the device at the first step

    def __init__(self, *, weight: float, rule: str) -> None:
        super().__init__()
        self.weight, self.rule = weight, rule
        self.wrong: Tensor | None = None  # (V, V); None until it is told of the words

    def refuse(self, recipe: Recipe, dataset: Dataset, model: LanguageModel, *, processes: int) -> None:
        if dataset.tokenizer.kind != "word":
            raise ConfigError(
                f"The rules of {self.rule} are about words, and tokenizer={dataset.tokenizer.kind} has no words.",
                remedy="tokenizer=word, or objective=next-token",
            )

    def set_tokenizer(self, tokenizer: Tokenizer) -> None:
        words = [tokenizer.decode([token]) for token in range(tokenizer.vocab_size)]
        self.wrong = torch.from_numpy(RULES[self.rule](words))

    def loss(self, model: Model, batch: Batch[Tensor], *, step: int = 0) -> Loss:
        logits = at_least_float32(logits_of(model, batch))  # (B, T, V)
        own = super().loss(lambda *_, **__: logits, batch, step=step)  # it need not be computed twice
        if self.wrong is None:
            return own
        self.wrong = self.wrong.to(logits.device)
        others = torch.arange(logits.size(-1), device=logits.device) != batch.targets[..., None]
        wrong = self.wrong[batch.inputs] & others  # (B, T, V); what came is never wrong
        right = logits.masked_fill(wrong, -torch.inf).logsumexp(dim=-1)
        lost = logits.logsumexp(dim=-1) - right  # −ln(1 − p), (B, T)
        mass = (-torch.expm1(-lost) * (batch.targets >= 0)).sum().detach()
        total = own.total + self.weight * (lost * counts(batch)).sum()
        return Loss(total, {**own.metrics, "wrong": mass}, reported=own.total)


@register("objective")
class PenalizedConfig(ObjectiveConfig):
    """Cross-entropy, and a penalty for the probability of words that a language's rules forbid after the one before."""

    kind: Literal["penalized"] = "penalized"
    rule: Literal["pidgin"] = "pidgin"
    """Whose rules; the words are tokens (`tokenizer: word`)."""
    weight: float = Field(1.0, ge=0, le=LARGEST)
    """Of the penalty, −ln(1 − p) nats for the probability p of all wrong words together."""

    def build(self) -> Objective:
        return Penalized(weight=self.weight, rule=self.rule)
