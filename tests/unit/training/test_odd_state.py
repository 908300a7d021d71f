"""A sealed checkpoint whose optimizer state is odd: taken, or refused in a sentence, whatever stands in it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from octavo.errors import CheckpointError
from octavo.training.checkpoint import Checkpoint, optimizer_tensors
from octavo.training.optimizers import SGD, AdamW, Muon, Optimizer, RowAdagrad
from unit.training.saving import save


class Small(nn.Module):
    """A matrix, a scale and a table."""

    def __init__(self) -> None:
        super().__init__()
        self.matrix, self.scale = nn.Linear(4, 3, bias=False), nn.LayerNorm(3)
        self.table = nn.Embedding(5, 2)

    def optimizers(self) -> list[Optimizer]:
        scales = list(self.scale.parameters())
        return [
            Muon(self.matrix.parameters(), lr=0.1, momentum=0.9, weight_decay=0.0, rounds=2),
            AdamW(scales[:1], lr=0.1, fused=True),
            SGD(scales[1:], lr=0.1, momentum=0.5),
            RowAdagrad(self.table.parameters(), lr=0.1),
        ]


def step(model: Small, optimizers: list[Optimizer]) -> None:
    loss = (
        model.scale(model.matrix(torch.ones(2, 4))).square().sum() + model.table(torch.tensor([0, 3])).sum()
    )
    loss.backward()
    for one in optimizers:
        one.step()
        one.zero_grad()


@pytest.fixture
def saved(tmp_path: Path) -> tuple[Checkpoint, dict[str, Tensor]]:
    model = Small()
    optimizers = model.optimizers()
    step(model, optimizers)
    found = save(tmp_path / "checkpoints", 5)
    state = optimizer_tensors(optimizers)
    save_file(state, found.folder / "state.safetensors")
    return found, state


def load(saved: Checkpoint, state: dict[str, Tensor]) -> str:
    """Why a state is refused; nothing where it is taken, and a step goes well with it."""
    save_file({name: each.contiguous() for name, each in state.items()}, saved.folder / "state.safetensors")
    model = Small()
    optimizers = model.optimizers()
    try:
        saved.load_optimizers(optimizers)
    except CheckpointError as error:
        return error.what
    step(model, optimizers)
    return ""


def test_what_was_saved_is_taken(saved: tuple[Checkpoint, dict[str, Tensor]]) -> None:
    found, state = saved
    assert sorted(state) == [
        "optimizer.0.0.momentum",
        *("optimizer.1.0.exp_avg", "optimizer.1.0.exp_avg_sq", "optimizer.1.0.step"),
        "optimizer.2.0.momentum_buffer",
        "optimizer.3.0.squares",
    ]
    assert load(found, state) == "" and load(found, {}) == ""


@pytest.mark.parametrize(
    ("name", "tensor"),
    [
        ("optimizer.0.7.momentum", torch.zeros(3, 4)),
        ("optimizer.9.0.momentum", torch.zeros(3, 4)),
        ("optimizer.0.-1.momentum", torch.zeros(3, 4)),
        ("optimizer.0.one.momentum", torch.zeros(3, 4)),
        ("optimizer.0.²", torch.zeros(3, 4)),
        ("optimizer.0", torch.zeros(3)),
        ("optimizer.", torch.zeros(3)),
        ("optimizer.0.0.momentum", torch.zeros(4, 3)),
        ("optimizer.0.0.momentum", torch.tensor(1.0)),
        ("optimizer.0.0.momentum", torch.zeros(0)),
        ("optimizer.0.0.momentum", torch.zeros(3, 4, dtype=torch.int64)),
        ("optimizer.0.0.more", torch.zeros(3, 4)),
        ("optimizer.1.0.step", torch.zeros(3)),
        ("optimizer.1.0.step", torch.tensor(True)),
        ("optimizer.1.0.exp_avg", None),
        ("optimizer.2.0.momentum_buffer", torch.zeros(2)),
        ("optimizer.3.0.squares", torch.zeros(4, 1)),
        ("optimizer.3.0.squares", torch.zeros(5, 2)),
    ],
)
def test_an_odd_tensor_is_a_sentence(
    saved: tuple[Checkpoint, dict[str, Tensor]], name: str, tensor: Tensor | None
) -> None:
    found, state = saved
    odd = {key: each for key, each in (state | {name: tensor}).items() if each is not None}
    assert "does not hold the state of this recipe's optimizer" in load(found, odd)


def test_whatever_stands_there_is_taken_or_refused(saved: tuple[Checkpoint, dict[str, Tensor]]) -> None:
    found, state = saved
    draw = random.Random(3)
    shapes: list[tuple[int, ...]] = [(), (0,), (1,), (3,), (3, 4), (4, 3), (5, 1), (1, 1, 1), (3, 0)]
    types = [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool, torch.uint8]
    for _ in range(150):
        odd = dict(state)
        for _ in range(draw.randint(1, 3)):
            name = draw.choice(sorted(odd) or ["optimizer.0.0.momentum"])
            act = draw.randrange(3)
            if act == 0:
                odd.pop(name, None)
            elif act == 1:
                odd[name] = torch.ones(draw.choice(shapes)).to(draw.choice(types))
            else:
                at = draw.randrange(len(name))
                odd[name[:at] + draw.choice("0123.x-") + name[at + draw.randint(0, 1) :]] = torch.ones(3)
        load(found, odd)  # raises nothing else


def test_the_message_shows_no_control_code(saved: tuple[Checkpoint, dict[str, Tensor]]) -> None:
    found, state = saved
    said = load(found, state | {"optimizer.0.\x1b[2J": torch.zeros(1)})
    assert "\x1b" not in said and load_file(found.folder / "state.safetensors")
