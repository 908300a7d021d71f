"""Counting or learning: of each token of a text, how much came from either."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from octavo.data.batch import NO_SIDE_INPUTS
from octavo.evaluation.attribution import LEAST, sides_of
from octavo.model.base import LanguageModel
from octavo.model.gpt import GPT
from octavo.ngram.mixture import CountedText


def counts_of(model: LanguageModel) -> CountedText | None:
    """What a model counts beside its network, if it does."""
    counts = getattr(model, "counts", None)
    return counts if isinstance(counts, CountedText) and counts.has_text else None


@torch.no_grad()
def shares(model: LanguageModel, ids: Sequence[int], first: int) -> list[dict[str, Any]]:
    """Of each id from `first` ≥ 1 on, who predicted it. Beyond the context each is seen after three quarters of it."""
    context = model.context
    assert isinstance(model, GPT) and first > 0
    found: list[dict[str, Any]] = []
    while first < len(ids):
        begin = 0 if len(ids) - 1 <= context else max(0, first - context + max(1, context // 4))
        end = min(len(ids) - 1, begin + context)
        tokens, targets = torch.tensor([ids[begin:end]]), torch.tensor([ids[begin + 1 : end + 1]])
        sides = sides_of(model, tokens, targets, NO_SIDE_INPUTS)
        assert sides is not None
        weights, probabilities = (side.double().numpy()[first - begin - 1 :] for side in sides[:2])
        counted = (weights[:, 1:] * probabilities[:, 1:]).sum(axis=1) / weights[:, 1:].sum(axis=1)
        rows = zip(ids[first : end + 1], weights[:, 0], probabilities[:, 0], counted, strict=True)
        found += [
            {
                "token": token,
                "network": float(weight),
                "network_logprob": math.log(max(LEAST, network)),
                "counts_logprob": math.log(max(LEAST, count)),
            }
            for token, weight, network, count in rows
        ]
        first = end + 1
    return found
