"""The work of a step: kernels that repeat, where there are any."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from octavo.dataset.batch import Batch
from octavo.model.build import build_model
from octavo.model.gpt_config import GPTConfig
from octavo.training.objective import NextToken
from octavo.training.optimizers import AdamWConfig
from octavo.training.work import StepOptions, Work, repeatable

V, T = 7, 6


class HasNone(NextToken):
    """As an operation that has no kernel that repeats, after a backward pass that has begun."""

    asked = 0

    def loss(self, model: Any, batch: Any, *, step: int = 0) -> Any:
        found = super().loss(model, batch, step=step)
        if torch.are_deterministic_algorithms_enabled():
            self.asked += 1
            found.total.backward(retain_graph=True)
            raise RuntimeError("histogram does not have a deterministic implementation, but you set …")
        return found


def work(objective: NextToken) -> Work:
    model = build_model(GPTConfig(layers=1, width=16, heads=2, context=T), vocab_size=V, seed=0)
    return Work(model, AdamWConfig().build(model), objective, StepOptions())


def part(step: int) -> Batch[np.ndarray]:
    rows = np.random.default_rng(step).integers(V, size=(4, T + 1))
    return Batch(rows[:, :-1], rows[:, 1:])


def test_what_cannot_be_repeated_is_said_once_and_trained_all_the_same() -> None:
    plain, tried = work(NextToken()), work(HasNone())
    tried.repeats = True  # as on a GPU
    with pytest.warns(UserWarning, match="cannot be repeated to the bit on a GPU, for histogram cannot"):
        first = tried.learn([part(0)], over=24.0, step=0)
    assert first == plain.learn([part(0)], over=24.0, step=0)
    assert tried.learn([part(1)], over=24.0, step=1) == plain.learn([part(1)], over=24.0, step=1)
    assert tried.objective.asked == 1


def test_other_errors_are_not_hidden() -> None:
    class Broken(NextToken):
        def loss(self, model: Any, batch: Any, *, step: int = 0) -> Any:
            raise RuntimeError("out of luck")

    broken = work(Broken())
    broken.repeats = True
    with pytest.raises(RuntimeError, match="out of luck"):
        broken.learn([part(0)], over=24.0, step=0)


def test_the_settings_of_others_come_back() -> None:
    memory: Any = torch.utils.deterministic
    with repeatable():
        assert torch.are_deterministic_algorithms_enabled() and not memory.fill_uninitialized_memory
    assert not torch.are_deterministic_algorithms_enabled() and memory.fill_uninitialized_memory
