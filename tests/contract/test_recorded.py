"""On a GPU: a recorded step is the step, to the bit, for whatever parts a model has and however it is trained."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from graphs import Graph, play_graphs
from octavo.config.parts import parts
from octavo.data.batch import Batch
from octavo.errors import DivergedError
from octavo.model.base import LanguageModel, build_model
from octavo.model.config import GPTConfig
from octavo.training.checkpoint import learning_tensors, model_tensors, save_checkpoint
from octavo.training.device import autocast, compiled
from octavo.training.loop import StepInfo, training_steps
from octavo.training.objective import NEXT_TOKEN, NextToken, Objective
from octavo.training.step import StepOptions

pytestmark = pytest.mark.gpu
V, T, B, STEPS = 61, 16, 6, 7
SHAPE: dict[str, Any] = {"layers": 2, "width": 32, "heads": 2, "context": T, "dropout": 0.1}
GPU = torch.device("cuda" if torch.cuda.is_available() else "cpu")

VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "no dropout": {"dropout": 0.0},
    "tied": {"tied": True},
    "grouped": {"heads": 4, "kv_heads": 2},
    "q/k norm": {"qk_norm": True, "qk_norm_scale": True},
    "soft-cap": {"logit_softcap": 3.0},
    "n-grams": {"ngrams": {"kind": "hashed", "longest": 3, "buckets": 7}},
    "counts": {"counts": {"kind": "kneser-ney", "orders": 4, "hidden": 3}},
} | {f"{room}={kind}": {room: kind} for room in ("positions", "norm", "feed_forward") for kind in parts(room)}


def batch(step: int, micro: int) -> Batch[np.ndarray]:
    """Each token is followed by the next number."""
    inputs = np.random.default_rng([step, micro]).integers(V, size=(B, T))
    return Batch(inputs, (inputs + 1) % V)


def shorter_every_third(step: int, micro: int) -> Batch[np.ndarray]:
    whole = batch(step, micro)
    return whole.corner(B, T // 2) if step % 3 == 2 else whole


def with_held_out(step: int, micro: int) -> Batch[np.ndarray]:
    """From the last two rows a gate learns."""
    whole = batch(step, micro)
    alone = np.ones_like(whole.inputs)
    alone[-2:] = 0
    return replace(whole, alone=alone, earlier=np.full((B, 3), -1))


def in_segments(step: int, micro: int) -> Batch[np.ndarray]:
    whole = batch(step, micro)
    segments = np.sort(np.random.default_rng(step).integers(3, size=(B, T)), axis=1)
    weights = np.random.default_rng(step).random((B, T)).astype(np.float32)
    return replace(whole, segments=segments, weights=weights)


BATCHES = {
    "alike": batch,
    "of two shapes": shorter_every_third,
    "in segments": in_segments,
    "with rows held out": with_held_out,
}


def fresh(options: dict[str, Any]) -> LanguageModel:
    model = build_model(GPTConfig.model_validate(SHAPE | options), vocab_size=V, seed=1)
    model.take_text(np.arange(300) % V)
    return model.to(GPU)


def train(
    model: LanguageModel,
    optimizers: list[torch.optim.Optimizer],
    *,
    record: bool,
    steps: range = range(STEPS),
    batches: Any = batch,
    objective: Objective = NEXT_TOKEN,
    precision: str = "float32",
    trained: torch.nn.Module | None = None,
    **options: Any,
) -> Iterator[StepInfo]:
    wanted = {"clip": 0.5, **options}
    return training_steps(
        trained or model,
        optimizers,
        batches,
        steps=steps,
        seed=3,
        schedule=lambda step: 1 / (1 + step),
        objective=objective,
        options=StepOptions(record=record, autocast=lambda: autocast(precision, GPU), **wanted),
    )


@pytest.fixture(autouse=True)
def played(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no GPU, the processor plays its graphs."""
    if GPU.type == "cpu":
        play_graphs(monkeypatch)


def both(options: dict[str, Any], kind: str = "adamw", **settings: Any) -> None:
    """Train with and without recording, and compare every loss and weight."""
    found = []
    for record in (False, True):
        model = fresh(options)
        infos = list(train(model, parts("optimizer")[kind]().build(model), record=record, **settings))
        found.append((infos, model_tensors(model)))
    assert [info.loss for info in found[0][0]] == [info.loss for info in found[1][0]]
    begun = model_tensors(fresh(options))
    assert any(not torch.equal(expected, begun[name]) for name, expected in found[0][1].items())
    for name, expected in found[0][1].items():
        assert torch.equal(expected, found[1][1][name]), name


@pytest.mark.parametrize(
    ("variant", "precision"),
    [(variant, ("float32", "bfloat16")[place % 2]) for place, variant in enumerate(VARIANTS)]
    + [("plain", "bfloat16"), ("counts", "float32")],
)
def test_every_part(variant: str, precision: str) -> None:
    both(VARIANTS[variant], precision=precision, batches=with_held_out if variant == "counts" else batch)


@pytest.mark.parametrize(("kind", "batches"), list(product(parts("optimizer"), BATCHES)))
def test_every_optimizer_and_shape(kind: str, batches: str) -> None:
    both({}, kind, batches=BATCHES[batches])


@pytest.mark.parametrize("options", [{"accumulation": 3}, {"micro_batch": 2}, {"clip": None}, {"clip": 1e-3}])
def test_parts_of_a_batch_and_clipping(options: dict[str, Any]) -> None:
    both({}, **options)


def test_smoothed_labels_are_reported_without_it() -> None:
    both({}, objective=NextToken(label_smoothing=0.1))


def counted_replays(patch: pytest.MonkeyPatch) -> list[None]:
    """An element for each."""
    replayed: list[None] = []
    kind: Any = Graph if GPU.type == "cpu" else torch.cuda.CUDAGraph
    replay = kind.replay
    patch.setattr(kind, "replay", lambda self: replayed.append(replay(self)))
    return replayed


def test_it_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else nothing above compares anything."""
    replayed = counted_replays(monkeypatch)
    model = fresh({})
    list(train(model, parts("optimizer")["adamw"]().build(model), record=True))
    assert len(replayed) == 2 * STEPS - 3  # passes but the first two, updates but the first


@pytest.mark.parametrize("options", [{"accumulation": 2}, {"micro_batch": 2}, {"micro_batch": 3}])
def test_a_gate_learns_apart_from_every_part_of_a_batch(options: dict[str, Any]) -> None:
    """Parts are all the network's, all the gate's, or of both."""
    both(VARIANTS["counts"], batches=with_held_out, **options)


def test_what_a_gate_learns_from_is_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """But the network's step is, so a gate slows it down little."""
    replayed = counted_replays(monkeypatch)
    model = fresh(VARIANTS["counts"])
    optimizers = parts("optimizer")["adamw"]().build(model)
    list(train(model, optimizers, record=True, batches=with_held_out))
    assert len(replayed) == 2 * STEPS - 3


class Waits(NextToken):
    """Looks at a number on the way, for which the processor waits."""

    def loss(self, model: Any, batch: Any, *, step: int = 0) -> Any:
        found = super().loss(model, batch, step=step)
        assert found.total.item() > 0
        return found


def test_a_step_that_waits_is_not_recorded() -> None:
    both({}, objective=Waits())


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_resumed_to_the_bit(kind: str, tmp_path: Path) -> None:
    config = parts("optimizer")[kind]()
    whole = fresh({})
    list(train(whole, config.build(whole), record=True))
    first = fresh({})
    optimizers = config.build(first)
    list(train(first, optimizers, record=True, steps=range(4)))
    tokenizer = tmp_path / "tokenizer"
    tokenizer.mkdir()
    memory = learning_tensors(first, optimizers)
    saved = save_checkpoint(
        tmp_path / "checkpoints",
        4,
        weights=model_tensors(first),
        memory=memory,
        state={},
        config="",
        tokenizer=tokenizer,
        version="0",
    )
    second = fresh({"dropout": 0.1})
    saved.load_trained(second)
    optimizers = config.build(second)
    saved.load_optimizers(optimizers)
    list(train(second, optimizers, record=True, steps=range(4, STEPS)))
    for name, expected in model_tensors(whole).items():
        assert torch.equal(expected, model_tensors(second)[name]), name


def test_diverging_touches_no_weight() -> None:
    model = fresh({})
    steps = train(model, parts("optimizer")["adamw"]().build(model), record=True)
    for _ in range(4):
        next(steps)
    with torch.no_grad():
        model.lm_head.weight[0, 0] = float("inf")
    before = {name: each.clone() for name, each in model_tensors(model).items()}
    with pytest.raises(DivergedError):
        next(steps)
    for name, expected in before.items():
        assert torch.equal(expected, model_tensors(model)[name]), name


@pytest.mark.skipif(GPU.type == "cpu", reason="blocks are compiled on a GPU alone")
def test_compiled_blocks_learn_the_same_weights() -> None:
    """Within rounding: a compiled block adds in another order."""
    found = []
    for compile in (False, True):
        model = fresh({"dropout": 0.0})
        trained = compiled(model, GPU) if compile else model
        optimizers = parts("optimizer")["sgd"]().build(model)
        found.append([i.loss for i in train(model, optimizers, record=True, trained=trained)])
    assert found[0] == pytest.approx(found[1], rel=1e-4)
