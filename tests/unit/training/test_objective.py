"""Objectives: what is learned and what is judged are the same; weights, segments and figures."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import SGD

from octavo.config.parts import parts
from octavo.data.batch import Batch
from octavo.training.loop import training_steps
from octavo.training.objective import (
    NEXT_TOKEN,
    TEXT,
    Loss,
    Metric,
    Objective,
    PerToken,
    Unit,
    counts,
    logits_of,
)
from octavo.training.step import StepOptions

V = 5


class Table(nn.Module):
    """Logits of the next token from the token alone."""

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        random = torch.Generator().manual_seed(0)
        self.weight = nn.Parameter(torch.randn(V, V, generator=random).to(dtype))

    def forward(self, tokens: Tensor) -> Tensor:
        return self.weight[tokens]


def batch(*, weights: bool = False) -> Batch[Tensor]:
    random = torch.Generator().manual_seed(1)
    inputs, targets = torch.randint(0, V, (2, 3, 7), generator=random)
    targets[0, 3:], targets[2] = -1, -1
    return Batch(inputs, targets, weights=torch.rand(3, 7, generator=random) if weights else None)


def of_pairs(given: Batch[Tensor]) -> Batch[Tensor]:
    """The same rows, each as a pair with one target; the last has none."""
    targets = torch.full_like(given.targets, -1)
    targets[0, 2], targets[1, 6] = given.targets[0, 2], given.targets[1, 6]
    sides = torch.stack([given.inputs, given.inputs.flip(1)], dim=1)
    sides[0, 1, 4:] = -1
    return replace(given, targets=targets, sides=sides, begins=torch.full((3, 2), 2))


OF_TOKENS = [kind for kind, config in parts("objective").items() if not config.takes_vectors]


@pytest.mark.parametrize("kind", OF_TOKENS)
@pytest.mark.parametrize("weights", [False, True])
def test_what_is_judged_is_what_is_learned(kind: str, weights: bool) -> None:
    config = parts("objective")[kind]()
    objective = config.build()  # pyrefly: ignore
    model, given = Table(), batch(weights=weights)
    if config.reads == "preferences":  # pyrefly: ignore
        given = of_pairs(given)
    loss, judged = objective.loss(model, given), objective.evaluate(model, given)
    assert loss.total.item() == pytest.approx((judged.losses * counts(given)).sum().item(), rel=1e-5)
    assert judged.metrics.keys() == {metric.name for metric in objective.metrics}
    unscored = given.targets < 0
    assert not judged.losses[unscored].any()
    assert not any(values[unscored].any() for values in judged.metrics.values())
    loss.total.backward()
    assert model.weight.grad is not None and model.weight.grad.any()


def test_next_token_by_hand() -> None:
    model, given = Table(), batch(weights=True)
    judged, total = NEXT_TOKEN.evaluate(model, given), 0.0
    for row in range(3):
        for place in range(7):
            target = int(given.targets[row, place])
            if target >= 0:
                known = model.weight[given.inputs[row, place]].double().log_softmax(-1)
                assert judged.losses[row, place].item() == pytest.approx(-known[target].item(), rel=1e-5)
                assert judged.metrics["accuracy"][row, place] == (known.argmax() == target)
                total -= float(given.weights[row, place]) * known[target].item()
    assert NEXT_TOKEN.loss(model, given).total.item() == pytest.approx(total, rel=1e-5)


@pytest.mark.parametrize("kind", ["next-token", "given-source"])
def test_smoothed_labels_are_learned_and_not_reported(kind: str) -> None:
    model, given = Table(), batch(weights=True)
    objective = parts("objective")[kind](label_smoothing=0.2).build()  # pyrefly: ignore
    loss = objective.loss(model, given)
    scored = given.targets >= 0
    logits, targets = model(given.inputs)[scored], given.targets[scored]
    each = F.cross_entropy(logits, targets, label_smoothing=0.2, reduction="none")
    assert loss.total.item() == pytest.approx((each * given.weights[scored]).sum().item(), rel=1e-5)
    plain = NEXT_TOKEN.loss(model, given).total.item()
    assert loss.reported is not None and loss.reported.item() == pytest.approx(plain, rel=1e-5)
    judged = objective.evaluate(model, given)
    assert (judged.losses * counts(given)).sum().item() == pytest.approx(plain, rel=1e-5)
    arrays = Batch(**{name: value.numpy() for name, value in given.items()})
    still = SGD(model.parameters(), lr=0.0)
    still.param_groups[0]["base_lr"] = 0.0
    steps = training_steps(
        model, [still], lambda *_: arrays, steps=range(1), seed=0, schedule=lambda _: 1.0, objective=objective
    )
    assert next(steps).loss == pytest.approx(plain / given.weight, rel=1e-5)


def test_a_loss_is_summed_in_float32_or_wider() -> None:
    for dtype, wide in ((torch.bfloat16, torch.float32), (torch.float64, torch.float64)):
        assert NEXT_TOKEN.loss(Table(dtype), batch()).total.dtype == wide


def test_segments_are_told_where_there_are_some() -> None:
    told: list[dict[str, Any]] = []

    def model(tokens: Tensor, **more: Any) -> Tensor:
        told.append(more)
        return F.one_hot(tokens, V).float()

    given = batch()
    logits_of(model, given)
    logits_of(model, Batch(given.inputs, given.targets, segments=given.inputs))
    assert told[0] == {} and told[1]["side"].segments is given.inputs


def test_units_in_words() -> None:
    assert str(TEXT) == "nats per token" and TEXT.text
    assert str(Unit("error", "value", text=False)) == "error per value"


class Squared(Objective):
    """The squared difference of the logits from one-hot targets."""

    unit = Unit("squared error", "token", text=False)
    metrics = (Metric("size", "size"),)

    def evaluate(self, model: Any, batch: Batch[Tensor]) -> PerToken:
        logits, scored = logits_of(model, batch), batch.targets >= 0
        there = F.one_hot(batch.targets.clamp_min(0), V)
        return PerToken(
            (logits - there).square().sum(-1) * scored, {"size": logits.square().sum(-1) * scored}
        )

    def loss(self, model: Any, batch: Batch[Tensor], *, step: int = 0) -> Loss:
        found = self.evaluate(model, batch)
        return Loss((found.losses * counts(batch)).sum(), {"size": found.metrics["size"].sum()})


@pytest.mark.parametrize("micro_batch", [None, 1, 2])
def test_figures_of_a_step_are_means_over_its_scored_tokens(micro_batch: int | None) -> None:
    model, given = Table(), batch(weights=True)
    judged = Squared().evaluate(model, given)
    arrays = Batch(**{name: value.numpy() for name, value in given.items()})
    still = SGD(model.parameters(), lr=0.0)
    still.param_groups[0]["base_lr"] = 0.0
    (info,) = training_steps(
        model,
        [still],
        lambda step, micro: arrays,
        steps=range(1),
        seed=0,
        schedule=lambda step: 1.0,
        objective=Squared(),
        options=StepOptions(micro_batch=micro_batch, accumulation=2),
    )
    assert info.tokens == 2 * given.scored
    assert info.metrics["size"] == pytest.approx(judged.metrics["size"].sum().item() / given.scored, rel=1e-5)
    mean = (judged.losses * counts(given)).sum().item() / given.weight
    assert info.loss == pytest.approx(mean, rel=1e-5)
