"""The training loop, one property at a time."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import SGD, Optimizer

from octavo.data.batch import Batch
from octavo.errors import DivergedError
from octavo.model.base import build_model
from octavo.model.config import GPTConfig
from octavo.training.loop import StepInfo, training_steps
from octavo.training.objective import NEXT_TOKEN, Objective
from octavo.training.optimizers import AdamWConfig, SGDConfig
from octavo.training.step import StepOptions, gradient_norm

V, T = 7, 6


def model(dropout: float = 0.0) -> nn.Module:
    torch.set_num_threads(1)
    config = GPTConfig.model_validate(
        {"layers": 1, "width": 16, "heads": 2, "context": T, "dropout": {"projection": dropout}}
    )
    return build_model(config, vocab_size=V, seed=0)


def rows(step: int, count: int = 8) -> np.ndarray:
    return np.random.default_rng(step).integers(V, size=(count, T + 1))


def whole(step: int, micro: int) -> Batch:
    return Batch(rows(step)[:, :-1], rows(step)[:, 1:])


def run(
    trained: nn.Module,
    batch: Callable[[int, int], Batch] = whole,
    *,
    optimizers: list[Optimizer] | None = None,
    start: int = 0,
    steps: int = 3,
    seed: int = 1,
    schedule: Callable[[int], float] = lambda step: 1.0,
    objective: Objective = NEXT_TOKEN,
    **options,
) -> Iterator[StepInfo]:
    """Steps `start` to `steps`; `options` are `StepOptions`."""
    return training_steps(
        trained,
        optimizers or SGDConfig(learning_rate=0.1).build(trained),
        batch,
        steps=range(start, steps),
        seed=seed,
        schedule=schedule,
        objective=objective,
        options=StepOptions(**options),
    )


def weights(trained: nn.Module) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in trained.parameters()]


def equal(one: list[Tensor], other: list[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_one_step_by_hand() -> None:
    trained, twin = model(), model()
    info = next(run(trained))
    batch = whole(0, 0).to("cpu")
    loss = F.cross_entropy(twin(batch.inputs).flatten(0, 1), batch.targets.flatten())
    loss.backward()
    norm = torch.cat([p.grad.flatten() for p in twin.parameters()]).norm()
    assert info.step == 1 and info.tokens == 8 * T
    assert info.loss == loss.item()
    assert info.gradient_norm == pytest.approx(norm.item(), rel=1e-5)
    for after, before in zip(trained.parameters(), twin.parameters(), strict=True):
        assert torch.allclose(after, before - 0.1 * before.grad, atol=1e-7)


def test_accumulated_batches_are_one_batch() -> None:
    def part(step: int, micro: int) -> Batch:
        piece = rows(step)[2 * micro : 2 * micro + 2]
        return Batch(piece[:, :-1], piece[:, 1:])

    one, four = model(), model()
    options = AdamWConfig(learning_rate=1e-2, eps=1e-3)  # a larger eps, for Adam divides rounding by itself
    expected = list(run(one, optimizers=options.build(one), steps=5))
    found = list(run(four, part, optimizers=options.build(four), steps=5, accumulation=4))
    assert [info.loss for info in found] == pytest.approx([info.loss for info in expected], abs=1e-6)
    assert [info.tokens for info in found] == [info.tokens for info in expected]
    for a, b in zip(weights(four), weights(one), strict=True):
        assert (a - b).abs().max() <= 1e-6


def test_steps_are_counted_from_where_the_run_stopped() -> None:
    asked = []

    def batch(step: int, micro: int) -> Batch:
        asked.append((step, micro))
        return whole(step, micro)

    infos = list(run(model(), batch, start=3, steps=5, accumulation=2))
    assert [info.step for info in infos] == [4, 5]
    assert asked == [(3, 0), (3, 1), (4, 0), (4, 1)]
    assert list(run(model(), start=5, steps=5)) == []


def test_nothing_happens_before_it_is_asked_for() -> None:
    trained = model()
    before = weights(trained)
    steps = run(trained)
    assert equal(weights(trained), before)
    next(steps)
    after = weights(trained)
    assert not equal(after, before)


def test_targets_of_minus_one_are_ignored() -> None:
    def marked(step: int, micro: int) -> Batch:
        twice = whole(step, micro).joined(whole(step, micro))
        twice.targets[8:] = -1
        return twice

    one, other = model(), model()
    expected, found = list(run(one)), list(run(other, marked))
    assert [info.tokens for info in found] == [info.tokens for info in expected] == [48] * 3
    assert [info.loss for info in found] == pytest.approx([info.loss for info in expected], abs=1e-6)
    for a, b in zip(weights(other), weights(one), strict=True):
        assert (a - b).abs().max() <= 1e-6


def test_the_loss_counts_what_is_scored() -> None:
    class Fixed(nn.Module):
        def forward(self, tokens: Tensor) -> Tensor:
            return torch.tensor([0.5, 0.25, 0.25]).log().expand(*tokens.shape, -1)

    targets = torch.tensor([[0, 1, -1], [-1, -1, -1]])
    loss = NEXT_TOKEN.loss(Fixed(), Batch(torch.zeros_like(targets), targets)).total / 2
    assert loss.item() == pytest.approx(1.5 * math.log(2))


def test_the_loss_is_summed_in_float32_whatever_the_logits_are() -> None:
    logits = 3 * torch.randn(16, 64, V, generator=torch.Generator().manual_seed(0))
    targets = torch.randint(0, V, (16, 64), generator=torch.Generator().manual_seed(1))
    short, double = logits.bfloat16(), logits.bfloat16().double()
    exact = F.cross_entropy(double.flatten(0, 1), targets.flatten()).item()
    for given, digits in ((short, 1e-6), (double, 1e-12)):
        found = (
            NEXT_TOKEN.loss(lambda inputs, given=given: given, Batch(targets, targets)).total
            / targets.numel()
        )
        assert found.item() == pytest.approx(exact, rel=digits)


def test_accumulation_weighs_every_token_the_same() -> None:
    """Batches of whole documents have unlike numbers of targets, some even none."""
    inputs = np.random.default_rng(3).integers(0, V, (4, T))
    targets = np.where(np.arange(T) < np.array([[6], [0], [2], [0]]), inputs[:, ::-1], -1)
    results = []
    for parts in (1, 4):
        trained = model()
        cut = [
            Batch(np.ascontiguousarray(x), np.ascontiguousarray(y))
            for x, y in zip(np.split(inputs, parts), np.split(targets, parts), strict=True)
        ]
        (info,) = training_steps(
            trained,
            SGDConfig(learning_rate=0.1).build(trained),
            lambda step, micro, cut=cut: cut[micro],
            steps=range(1),
            seed=0,
            schedule=lambda step: 1.0,
            options=StepOptions(accumulation=parts),
        )
        results.append((info, trained.state_dict()))
    (whole, one), (part, other) = results
    assert whole.tokens == part.tokens == 8
    assert part.loss == pytest.approx(whole.loss, abs=1e-6)
    for name, weight in one.items():
        torch.testing.assert_close(other[name], weight, atol=1e-6, rtol=0)


def test_a_weight_of_zero_is_no_target_and_of_two_the_token_twice() -> None:
    none, twice = np.ones((8, T), np.float32), np.ones((8, T), np.float32)
    none[:3, 2:], twice[5] = 0, 2

    def with_weights(weights: np.ndarray) -> Callable[[int, int], Batch]:
        return lambda step, micro: dataclasses.replace(whole(step, micro), weights=weights)

    def without_targets(step: int, micro: int) -> Batch:
        targets = whole(step, micro).targets.copy()
        targets[:3, 2:] = -1
        return Batch(whole(step, micro).inputs, targets)

    def row_twice(step: int, micro: int) -> Batch:
        return whole(step, micro).joined(whole(step, micro).rows_at(slice(5, 6)))

    for weights_given, plain in ((none, without_targets), (twice, row_twice)):
        one, other, parted = model(), model(), model()
        expected = list(run(one, plain))
        found = list(run(other, with_weights(weights_given)))
        in_parts = list(run(parted, with_weights(weights_given), micro_batch=3))
        for infos, trained in ((found, other), (in_parts, parted)):
            assert [info.loss for info in infos] == pytest.approx([info.loss for info in expected], abs=1e-6)
            for a, b in zip(weights(trained), weights(one), strict=True):
                assert (a - b).abs().max() <= 1e-6
    assert next(run(model(), with_weights(np.ones((8, T), np.float32)))).tokens == 8 * T


def test_segments_reach_the_model() -> None:
    """Documents side by side, each alone, are documents in rows of their own: with positions that know no place."""
    config = GPTConfig.model_validate(
        {"layers": 1, "width": 16, "heads": 2, "context": T, "positions": "rotary"}
    )
    segments = np.arange(T)[None].repeat(8, 0) // 3

    def packed(step: int, micro: int) -> Batch:
        return dataclasses.replace(whole(step, micro), segments=segments)

    def alone(step: int, micro: int) -> Batch:
        rows = whole(step, micro)
        return Batch(rows.inputs.reshape(-1, 3), rows.targets.reshape(-1, 3))

    one, other = (build_model(config, vocab_size=V, seed=0) for _ in range(2))
    expected, found = list(run(one, alone)), list(run(other, packed))
    assert [info.loss for info in found] == pytest.approx([info.loss for info in expected], abs=1e-5)
    for a, b in zip(weights(other), weights(one), strict=True):
        assert (a - b).abs().max() <= 1e-5


# Rates and clipping


def test_the_rate_follows_the_schedule_and_each_groups_own() -> None:
    trained = model()
    optimizers = SGDConfig(learning_rate=0.5).build(trained)
    optimizers[0].param_groups[1]["base_lr"] = 0.25
    seen = []
    for info in run(trained, optimizers=optimizers, schedule=lambda step: 1 / (step + 1)):
        seen += [info.learning_rate, optimizers[0].param_groups[1]["lr"]]
    assert seen == pytest.approx([0.5, 0.25, 0.25, 0.125, 1 / 6, 1 / 12])


def test_a_long_gradient_is_shortened_and_its_own_length_told() -> None:
    trained = model()
    before = weights(trained)
    free = next(run(model()))
    info = next(run(trained, clip=0.01))
    assert info.gradient_norm == free.gradient_norm > 0.01
    moved = torch.cat([(a - b).flatten() for a, b in zip(weights(trained), before, strict=True)])
    assert moved.norm().item() == pytest.approx(0.1 * 0.01, rel=1e-3)


def test_a_short_gradient_is_left_alone() -> None:
    one, other = model(), model()
    assert list(run(one, clip=1e3)) == list(run(other, clip=None))
    assert equal(weights(one), weights(other))


def test_the_length_of_a_gradient() -> None:
    parameters = [nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(1, 1)), nn.Parameter(torch.zeros(3))]
    parameters[0].grad, parameters[1].grad = torch.tensor([3.0, 0]), torch.tensor([[4.0]])
    assert gradient_norm(parameters) == 5


# Chance


def test_dropout_follows_from_seed_and_step() -> None:
    def losses(seed: int, start: int = 0, noise: int = 0) -> list[float]:
        trained = model(dropout=0.5)
        found = []
        still = SGD(trained.parameters(), lr=0.0)
        still.param_groups[0]["base_lr"] = 0.0
        for info in run(
            trained, lambda step, micro: whole(0, 0), optimizers=[still], seed=seed, start=start, steps=6
        ):
            torch.manual_seed(noise)  # whatever else draws numbers between the steps
            trained.eval()  # as an evaluation does
            found.append(info.loss)
        return found

    assert losses(1) == losses(1, noise=5)
    assert losses(1, start=4) == losses(1)[4:]
    assert losses(1) != losses(2)
    assert len(set(losses(1))) == 6, "another mask in each step"


def test_accumulated_batches_have_masks_of_their_own() -> None:
    def same(step: int, micro: int) -> Batch:
        return whole(0, 0)

    one = next(run(model(dropout=0.5), same))
    two = next(run(model(dropout=0.5), same, accumulation=2))
    assert one.loss != two.loss


# Divergence


class Poison(nn.Module):
    """Passes values on; from the step told, makes the loss or only the gradient infinite or NaN."""

    def __init__(self, inner: nn.Module, *, step: int, where: str, value: float) -> None:
        super().__init__()
        self.inner, self.left, self.where, self.value = inner, step, where, value

    def forward(self, tokens: Tensor) -> Tensor:
        logits = self.inner(tokens)
        self.left -= 1
        if self.left > 0:
            return logits
        if self.where == "loss":
            return logits * self.value
        logits.register_hook(lambda gradient: gradient * self.value)
        return logits


@pytest.mark.parametrize("where", ["loss", "gradient"])
@pytest.mark.parametrize("value", [math.nan, math.inf], ids=str)
def test_what_is_not_finite_is_caught_in_its_step(where: str, value: float) -> None:
    trained = Poison(model(), step=3, where=where, value=value)
    optimizers = AdamWConfig().build(trained)
    before, states, infos = weights(trained), 0, []
    with pytest.raises(DivergedError) as caught:
        for info in run(trained, optimizers=optimizers, steps=9):
            infos.append(info)
            before = weights(trained)
            states = [s["exp_avg"].clone() for s in optimizers[0].state.values()]
    assert [info.step for info in infos] == [1, 2]
    assert equal(weights(trained), before)
    assert equal([s["exp_avg"] for s in optimizers[0].state.values()], states)
    text = str(caught.value)
    assert "Step 3 diverged" in text and "batch 2" in text
    assert ("the loss is" if where == "loss" else "the gradient's length is") in text
    assert "training.optimizer.learning_rate" in caught.value.remedy
    assert all(math.isfinite(info.loss) and math.isfinite(info.gradient_norm) for info in infos)


def test_a_bad_part_of_an_accumulated_step_is_caught() -> None:
    trained = Poison(model(), step=2, where="loss", value=math.nan)
    before = weights(trained)
    with pytest.raises(DivergedError, match="Step 1 diverged"):
        next(run(trained, accumulation=3))
    assert equal(weights(trained), before)


def test_a_learning_rate_beyond_reason_ends_in_that_error() -> None:
    trained = model()
    with pytest.raises(DivergedError):
        list(run(trained, optimizers=SGDConfig(learning_rate=1e30).build(trained), steps=20))


@pytest.mark.parametrize("rows_at_once", [1, 3, 8, 100])
def test_a_batch_in_parts_is_the_same_step(rows_at_once: int) -> None:
    """Also where parts have different numbers of scored targets, or none."""

    def some(step: int, micro: int) -> Batch:
        batch = whole(step, micro)
        targets = batch.targets.copy()
        targets[:3, 2:], targets[5] = -1, -1
        return Batch(batch.inputs, targets)

    one, parted = model(), model()
    expected = list(run(one, some, optimizers=AdamWConfig().build(one), steps=5, clip=0.5))
    found = list(
        run(parted, some, optimizers=AdamWConfig().build(parted), steps=5, clip=0.5, micro_batch=rows_at_once)
    )
    for mine, other in zip(found, expected, strict=True):
        assert mine.loss == pytest.approx(other.loss, abs=1e-6)
        assert mine.tokens == other.tokens == 3 * 2 + 4 * T
