"""Blocks computed twice: the same losses and gradients, bit for bit, and fewer bytes kept."""

from __future__ import annotations

import copy
import shutil
from typing import Any

import pytest
import torch
from torch import Tensor

from octavo.data.batch import Batch
from octavo.model.base import build_model
from octavo.model.config import GPTConfig
from octavo.model.gpt import GPT
from octavo.training.device import autocast
from octavo.training.objective import NEXT_TOKEN
from octavo.training.recompute import recompute_blocks

V = 19
SHAPES = {
    "plain": {},
    "dropout": {"dropout": 0.3},
    "Llama with dropout": {"dropout": 0.2, "positions": "rotary", "kv_heads": 2, "norm": "rms"},
    "post-norm": {"norm_place": "post"},
}
NO_COMPILER = shutil.which("g++") is None


def model(shape: dict[str, Any]) -> GPT:
    torch.set_num_threads(1)
    config = GPTConfig.model_validate({"layers": 3, "width": 32, "heads": 4, "context": 12} | shape)
    return build_model(config, vocab_size=V, seed=0).train()


def tokens() -> Tensor:
    return torch.randint(V, (4, 12), generator=torch.Generator().manual_seed(0))


def step(trained: GPT, precision: str = "float32") -> tuple[float, list[Tensor], int]:
    """Loss, gradients, and bytes kept for the backward pass."""
    kept: dict[int, int] = {}
    alive = []

    def keep(tensor: Tensor) -> Tensor:
        alive.append(tensor)
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    torch.manual_seed(5)
    hooks = torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor)
    with hooks, autocast(precision, torch.device("cpu")):
        loss = NEXT_TOKEN.loss(trained, Batch(tokens(), tokens())).total / 48
    loss.backward()
    return loss.item(), [p.grad for p in trained.parameters()], sum(kept.values())


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_the_same_step_from_less_memory(shape: str, precision: str) -> None:
    plain, again = model(SHAPES[shape]), model(SHAPES[shape])
    recompute_blocks(again)
    loss, gradients, kept = step(plain, precision)
    loss_again, gradients_again, kept_again = step(again, precision)
    assert loss_again == loss
    assert all(map(torch.equal, gradients_again, gradients))
    assert kept_again < kept / 3


def test_a_copy_recomputes_its_own_blocks() -> None:
    first = model(SHAPES["plain"])
    recompute_blocks(first)
    second = copy.deepcopy(first)
    step(second)
    assert all(p.grad is None for p in first.parameters())
    assert all(p.grad is not None for p in second.parameters())


def test_only_training_recomputes(monkeypatch: pytest.MonkeyPatch) -> None:
    again = model(SHAPES["dropout"])
    recompute_blocks(again)
    monkeypatch.setattr("octavo.training.recompute.checkpoint", None)  # a call would raise
    with torch.no_grad():
        again(tokens())
    again.eval()
    cache = again.new_cache(4)
    with torch.no_grad():
        assert torch.allclose(again(tokens(), cache), again(tokens()), atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "layers"),
    [
        ("aot_eager", 3),
        pytest.param("inductor", 1, marks=pytest.mark.skipif(NO_COMPILER, reason="there is no g++")),
    ],
)
def test_compiled(backend: str, layers: int) -> None:
    """Traced and differentiated by `torch.compile`, and translated to C++ after that; beside a plain step."""
    loss, gradients, _ = step(model({"layers": layers}))
    trained = model({"layers": layers})
    recompute_blocks(trained)
    again = NEXT_TOKEN.loss(torch.compile(trained, backend=backend), Batch(tokens(), tokens())).total / 48
    again.backward()
    assert again.item() == pytest.approx(loss, abs=1e-6)
    found = [p.grad for p in trained.parameters()]
    assert all(torch.allclose(one, other, atol=1e-6) for one, other in zip(found, gradients, strict=True))
