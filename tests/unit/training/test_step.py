"""The work of a step: kernels that repeat, where there are any."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from octavo.data.batch import Batch
from octavo.model.base import build_model
from octavo.model.config import GPTConfig
from octavo.run.teachers import ByNetworks
from octavo.training.graph_gate import gate_of
from octavo.training.objective import NextToken
from octavo.training.optimizers import AdamWConfig
from octavo.training.step import GradientStep, StepOptions, repeatable

V, T = 7, 6
WEIGHTS = np.linspace(0.5, 1.5, 4 * T, dtype=np.float32).reshape(4, T)


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


def work(objective: NextToken) -> GradientStep:
    model = build_model(GPTConfig(layers=1, width=16, heads=2, context=T), vocab_size=V, seed=0)
    return GradientStep(model, AdamWConfig().build(model), objective, StepOptions())


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


COUNTS: dict[str, Any] = {"counts": {"kind": "kneser-ney", "orders": 3, "hidden": 4}}


def objectives() -> dict[str, NextToken | ByNetworks]:
    teacher = build_model(GPTConfig(layers=1, width=16, heads=2, context=T), vocab_size=V, seed=5)
    return {
        "smoothed": NextToken(label_smoothing=0.1),
        "taught": ByNetworks(NextToken(), [teacher], weight=0.8),
    }


def counting_work(objective: str, *, apart: bool) -> GradientStep:
    model = build_model(
        GPTConfig.model_validate({"layers": 1, "width": 16, "heads": 2, "context": T, **COUNTS}),
        vocab_size=V,
        seed=0,
    )
    model.take_text(np.random.default_rng(1).integers(V, size=300))
    model.train()
    found = GradientStep(model, AdamWConfig().build(model), objectives()[objective], StepOptions())
    found.gate = gate_of(model) if apart else None
    return found


@pytest.mark.parametrize("rows", [(), (3,), (0, 2), (0, 1, 2, 3)])
@pytest.mark.parametrize("segments", [False, True])
@pytest.mark.parametrize("objective", objectives())
def test_a_gate_that_learns_apart_learns_the_same(
    objective: str, rows: tuple[int, ...], segments: bool
) -> None:
    """As on a GPU; network and gate get the gradients of one pass."""
    whole = part(0)
    alone = np.ones_like(whole.inputs)
    alone[list(rows)] = 0
    told: dict[str, np.ndarray] = {"alone": alone, "earlier": np.full((4, 2), -1), "weights": WEIGHTS}
    if segments:
        told |= {"segments": np.sort(np.random.default_rng(3).integers(3, size=(4, T)), axis=1)}
        del told["earlier"]
    found = {}
    for apart in (False, True):
        work = counting_work(objective, apart=apart)
        loss, norm, metrics = work.learn([replace(whole, **told)], over=20.0, step=0)
        found[apart] = loss, norm, metrics, [each.grad.clone() for each in work.parameters]
    assert found[True][0] == pytest.approx(found[False][0], rel=1e-6)
    assert found[True][1] == pytest.approx(found[False][1], rel=1e-6)
    assert found[True][2] == pytest.approx(found[False][2], rel=1e-6)
    for one, other in zip(found[True][3], found[False][3], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-9)
    gate = counting_work(objective, apart=True).gate
    assert gate is not None
    learned = sum(float(each.abs().sum()) for each in found[True][3][-len(list(gate.parameters())) :])
    assert (learned > 0) == bool(rows)
