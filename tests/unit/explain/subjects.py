"""Small random models of every kind, as subjects of a page."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from octavo.config import Recipe
from octavo.explain.explainer import Subject
from octavo.model.base import build_model
from octavo.run.data import evaluated_on
from octavo.tokenizers import Tokenizer
from octavo.tokenizers.char import CharTokenizer

TEXT = "The cat sat on the mat, and the dog sat on the cat. " * 8
LETTERS = "".join(sorted(set(TEXT)))


def subject(tokenizer: Tokenizer | None = None, *, seed: int = 0, text: str = TEXT, **model: Any) -> Subject:
    """A model whose weights are far from their first ones, so that every part says something."""
    tokenizer = tokenizer or CharTokenizer(LETTERS, documents=False, unknown=False)
    options = {"layers": 2, "heads": 4, "width": 32, "context": 24, **model}
    recipe = Recipe.model_validate({"model": options})
    network = build_model(recipe.model, vocab_size=tokenizer.vocab_size, seed=seed).eval()
    torch.manual_seed(seed)
    with torch.no_grad():
        for name, weights in network.named_parameters():
            if not name.startswith("counts."):
                weights.add_(torch.randn_like(weights) * 0.3)
    tokens = tokenizer.encode(text)
    if recipe.model.counts.kind != "none":
        network.take_text(tokens, np.arange(len(tokens)) % 40 > 36)
        gates = [*network.counts.parameters()]
        if network.counts.recent is not None:
            network.counts.recent.start(0.4)
            gates += [network.counts.recent.into, network.counts.recent.onto]
        with torch.no_grad():
            for weights in gates:
                weights.add_(torch.randn_like(weights) * 0.3)

    def batches(limit: int, rows: int) -> Any:
        return evaluated_on(Split(tokens), recipe, tokenizer, rows=rows, limit=min(limit, len(tokens)))

    return Subject("a model", 7, recipe, network, tokenizer, batches)


class Split:
    """As much of a split as batches need."""

    def __init__(self, tokens: np.ndarray) -> None:
        self.tokens, self.starts = tokens, np.zeros(1, np.int64)
