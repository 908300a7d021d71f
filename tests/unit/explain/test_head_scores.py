"""Heads that do what a name says get it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from octavo.explain import head_scores
from unit.explain.subjects import subject

ONE = subject(layers=1, heads=4, width=16)
ROWS = [np.array([1, 2, 3, 1, 2, 3, 1, 2]), np.array([4, 5, 4, 5, 4])]


def perfect(_model: object, ids: Tensor) -> Tensor:
    """Four heads: looks at the token before, at its own token earlier, at what followed it last time, everywhere."""
    count, length = ids.shape
    found = torch.zeros(1, count, 4, length, length)
    for row in range(count):
        for t in range(length):
            found[0, row, 0, t, max(0, t - 1)] = 1
            earlier = [s for s in range(t) if ids[row, s] == ids[row, t]]
            found[0, row, 1, t, earlier or [t]] = 1 / max(1, len(earlier))
            found[0, row, 2, t, earlier[-1] + 1 if earlier else t] = 1
            found[0, row, 3, t, : t + 1] = 1 / (t + 1)
    return found


def test_perfect_heads_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head_scores, "_weights", perfect)
    monkeypatch.setattr(head_scores.np.random, "default_rng", lambda seed: Distinct())
    found = head_scores.head_scores(ONE.model, ROWS)
    assert [one["name"] for one in found] == ["previous", "same", "induction", None]
    assert found[0]["previous"] == found[1]["same"] == found[2]["induction"] == 1


class Distinct:
    """Draws no token twice, so that a token's last place is that in the first half."""

    def choice(self, _values: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
        return np.tile(np.arange(shape[1]), (shape[0], 1))


def test_of_a_model() -> None:
    found = head_scores.head_scores(ONE.model, ROWS)
    assert [(one["layer"], one["head"]) for one in found] == [(0, 0), (0, 1), (0, 2), (0, 3)]
    assert all(0 <= one[name] <= 1 for one in found for name in ("previous", "same", "induction"))
