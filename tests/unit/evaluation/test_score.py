"""The model's score on a split."""

from __future__ import annotations

import dataclasses
import math
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from octavo.data.batch import Batch
from octavo.evaluation.score import Score, score
from octavo.model.base import build_model
from octavo.model.config import GPTConfig
from octavo.util.records import Number, parse_json

V = 4


class Fixed(nn.Module):
    """The same logits at every position, whatever it reads; notes the mode that it was run in."""

    def __init__(self, logits: list[float]) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.tensor(logits))
        self.modes: list[bool] = []

    def forward(self, tokens: Tensor) -> Tensor:
        self.modes.append(self.training)
        return self.logits.expand(*tokens.shape, -1)


def batch(targets: list[list[int]]) -> Batch[np.ndarray]:
    array = np.array(targets, dtype=np.int64)
    return Batch(np.zeros_like(array), array)


def test_sums_over_all_batches() -> None:
    model = Fixed([math.log(p) for p in (0.5, 0.25, 0.125, 0.125)])
    found = score(model, [batch([[0, 1], [2, 0]]), batch([[3]])])
    assert found.tokens == 5
    assert found.sums == {"accuracy": 2}
    assert found.total == pytest.approx((1 + 2 + 3 + 1 + 3) * math.log(2), rel=1e-6)
    assert found.loss == pytest.approx(2 * math.log(2), rel=1e-6)
    assert found.perplexity == pytest.approx(4, rel=1e-6)
    assert found.metrics == {"accuracy": 0.4}
    assert found.bits_per_byte(20) == pytest.approx(0.5, rel=1e-6)


def test_minus_one_is_not_scored() -> None:
    model = Fixed([math.log(p) for p in (0.5, 0.25, 0.125, 0.125)])
    full, marked = score(model, [batch([[0, 1]])]), score(model, [batch([[0, 1, -1], [-1, -1, -1]])])
    assert full == marked


def test_weights_make_a_weighted_mean_which_is_not_one_of_text() -> None:
    model = Fixed([math.log(p) for p in (0.5, 0.25, 0.125, 0.125)])
    plain = batch([[0, 1, 2, -1]])
    weights = np.array([[1.0, 3.0, 0.0, 5.0]], np.float32)
    found = score(model, [dataclasses.replace(plain, weights=weights)])
    assert (found.tokens, found.weight) == (3, 4.0)
    assert found.loss == pytest.approx((1 * 1 + 3 * 2) / 4 * math.log(2), rel=1e-6)
    assert found.metrics == {"accuracy": pytest.approx(1 / 3)}
    assert found.perplexity is None and found.bits_per_byte(10) is None
    ones = dataclasses.replace(plain, weights=np.ones_like(weights))
    assert score(model, [ones]) == score(model, [plain])


def test_how_batches_are_cut_does_not_matter() -> None:
    config = GPTConfig.model_validate({"layers": 1, "width": 16, "heads": 2, "context": 8, "dropout": 0.5})
    model = build_model(config, vocab_size=V, seed=0)
    rows = np.random.default_rng(0).integers(V, size=(12, 9))
    one = score(model, [Batch(rows[:, :-1], rows[:, 1:])])
    many = score(model, [Batch(rows[i : i + 5, :-1], rows[i : i + 5, 1:]) for i in (0, 5, 10)])
    assert many.total == pytest.approx(one.total, rel=1e-6)
    assert (many.tokens, many.sums) == (one.tokens, one.sums) == (96, one.sums)


@pytest.mark.parametrize("training", [True, False])
def test_the_mode_is_given_back(training: bool) -> None:
    model = Fixed([0.0] * V).train(training)
    score(model, [batch([[0]]), batch([[1]])])
    assert model.modes == [False, False]
    assert model.training is training


def test_nothing_is_kept_for_a_backward_pass() -> None:
    model = Fixed([0.0] * V)
    score(model, [batch([[0, 1]])])
    assert model.logits.grad is None


def test_every_forward_pass_lies_in_the_context_given() -> None:
    entered = []

    @contextmanager
    def context():
        entered.append(len(model.modes))
        yield
        entered.append(len(model.modes))

    model = Fixed([0.0] * V)
    score(model, [batch([[0]]), batch([[1]])], autocast=context)
    assert entered == [0, 1, 1, 2]


def test_a_hopeless_model_has_a_perplexity_all_the_same() -> None:
    assert parse_json(str(Score(1e6, 1, 1, {}).perplexity), Number)
