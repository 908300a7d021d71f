"""Learning from other models' predictions: the loss by hand, whose turn it is, what stays as it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from octavo.data.batch import Batch
from octavo.model.base import build_model
from octavo.model.config import GPTConfig
from octavo.training.distill import Distillation
from octavo.training.loop import training_steps
from octavo.training.objective import NEXT_TOKEN, NextToken, Objective
from octavo.training.optimizers import SGDConfig
from octavo.training.step import StepOptions

V, T = 7, 6


def model(seed: int, dropout: float = 0.0) -> nn.Module:
    torch.set_num_threads(1)
    config = GPTConfig.model_validate(
        {"layers": 1, "width": 16, "heads": 2, "context": T, "dropout": {"projection": dropout}}
    )
    return build_model(config, vocab_size=V, seed=seed)


def batch(step: int, micro: int = 0) -> Batch:
    rows = np.random.default_rng(step).integers(V, size=(8, T + 1))
    return Batch(rows[:, :-1], rows[:, 1:])


def tensors() -> Batch[torch.Tensor]:
    found = batch(0).to("cpu")
    targets = found.targets.clone()
    targets[3, 2:] = -1
    return Batch(found.inputs, targets)


class Known(nn.Module):
    """Predicts what it was given, (B, T, V), whatever it reads."""

    def __init__(self, predicted: torch.Tensor) -> None:
        super().__init__()
        self.predicted = predicted

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.predicted.log()


def taught_by(*teachers: nn.Module, weight: float = 1.0) -> Distillation:
    return Distillation(NEXT_TOKEN, teachers, weight=weight)


@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
def test_the_loss_by_hand(weight: float) -> None:
    student, given = model(0), tensors()
    predicted = torch.rand(8, T, V, generator=torch.Generator().manual_seed(1)).softmax(-1)
    expected = 0.0
    for row in range(8):
        for place in range(T):
            known = student(given.inputs)[row, place].double().log_softmax(-1)
            if given.targets[row, place] >= 0:
                taught = -(predicted[row, place].double() * known).sum()
                expected += (weight * taught - (1 - weight) * known[given.targets[row, place]]).item()
    found = Distillation(NEXT_TOKEN, [Known(predicted)], weight=weight).loss(student, given)
    assert found.total.item() == pytest.approx(expected, rel=1e-6)


def test_in_turn_they_teach_their_mean() -> None:
    """The fast way, one teacher a step, beside the slow one: all of them every time."""
    teachers = [model(seed) for seed in (1, 2, 3)]
    student, given = model(0), tensors()
    in_turn = Distillation(NEXT_TOKEN, teachers, weight=0.7)
    turns = [in_turn.loss(student, given, step=step).total for step in range(3)]
    mean = torch.stack([teacher(given.inputs).softmax(-1) for teacher in teachers]).mean(0)
    together = Distillation(NEXT_TOKEN, [Known(mean)], weight=0.7).loss(student, given).total
    assert torch.stack(turns).mean().item() == pytest.approx(together.item(), rel=1e-6)
    assert len({turn.item() for turn in turns}) == 3
    again = in_turn.loss(student, given, step=3).total
    assert again.item() == turns[0].item()


def test_teachers_have_no_dropout_and_stay_as_they_are() -> None:
    teacher = model(1, dropout=0.5)
    before = [parameter.clone() for parameter in teacher.parameters()]
    objective, student = taught_by(teacher), model(0)
    given = tensors()
    assert torch.equal(objective.soft_targets(given, step=0), objective.soft_targets(given, step=0))
    steps(student, objective, 3)
    after = list(teacher.parameters())
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))
    assert all(parameter.grad is None for parameter in after)


def steps(student: nn.Module, objective: Objective, count: int, **options: Any) -> list[float]:
    infos = training_steps(
        student,
        SGDConfig(learning_rate=0.5).build(student),
        batch,
        steps=range(count),
        seed=1,
        schedule=lambda step: 1.0,
        objective=objective,
        options=StepOptions(**options),
    )
    return [info.loss for info in infos]


def test_parts_of_a_batch_are_taught_as_the_whole() -> None:
    one, other = model(0), model(0)
    whole = steps(one, taught_by(model(1), model(2), weight=0.5), 4)
    parts = steps(other, taught_by(model(1), model(2), weight=0.5), 4, micro_batch=3)
    assert parts == pytest.approx(whole, abs=1e-6)
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        assert (a - b).abs().max() <= 1e-6


def test_a_student_comes_to_predict_what_its_teacher_does() -> None:
    """The tokens are noise: without a teacher there is nothing to find."""
    teacher = model(1)
    with torch.no_grad():
        for parameter in teacher.parameters():
            parameter.mul_(3.0)
    inputs = torch.from_numpy(batch(1000).inputs)

    def distance(student: nn.Module) -> float:
        with torch.no_grad():
            known, learned = teacher(inputs).log_softmax(-1), student(inputs).log_softmax(-1)
            return float((known.exp() * (known - learned)).sum(-1).mean())

    alone, taught = model(0), model(0)
    steps(alone, NEXT_TOKEN, 60)
    steps(taught, taught_by(teacher), 60)
    assert distance(taught) < 0.5 * distance(alone)


def test_what_is_told_of_a_smoothed_loss_is_without_smoothing() -> None:
    teacher, pupil = model(1), model(2)
    smoothed, plain = (
        Distillation(NextToken(label_smoothing=share), [teacher], weight=0.5).loss(pupil, tensors())
        for share in (0.3, 0.0)
    )
    assert plain.reported is None and smoothed.reported is not None
    torch.testing.assert_close(smoothed.reported, plain.total)
    assert smoothed.total != plain.total
