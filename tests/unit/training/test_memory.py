"""Short memory: what is open, what is chosen, and that the step stays the same."""

from __future__ import annotations

import pytest
import torch

from octavo.config import load_recipe
from octavo.data.batch import Batch
from octavo.errors import InputError
from octavo.model.base import build_model
from octavo.training import memory
from octavo.training.device import Runtime
from octavo.training.memory import Fit, attempted, estimated, from_the_first_that_fits, open_ways, ways

CPU = torch.device("cpu")
SMALL = {
    "model": {"layers": 2, "width": 32, "heads": 2, "context": 32},
    "training": {"batch": 12, "steps": 30},
}


def test_what_settings_leave_open() -> None:
    rows = [None, 3, 2, 1]
    both = [Fit(part, again) for again in (False, True) for part in rows]
    assert ways(6, micro_batch="auto", recompute="auto") == both
    assert ways(6, micro_batch="auto", recompute=True) == both[4:]
    assert ways(6, micro_batch=4, recompute="auto") == [Fit(4), Fit(4, recompute=True)]
    assert ways(6, micro_batch=None, recompute=False) == [Fit()]


def test_the_first_that_fits() -> None:
    left = ways(6, micro_batch="auto", recompute="auto")
    need = {
        Fit(rows, again): (rows or 6) * (1 if again else 10)
        for again in (False, True)
        for rows in (None, 3, 2, 1)
    }
    said: list[str] = []

    def chosen(free: int) -> Fit:
        return from_the_first_that_fits(left, need.__getitem__, free, said.append)[0]

    assert chosen(60) == Fit() and said == []
    assert chosen(59) == Fit(3)
    assert chosen(10) == Fit(1)
    assert chosen(9) == Fit(None, recompute=True)
    assert len(said) == 3 and "so it is taken with 3 of a batch's sequences at once" in said[0]
    assert chosen(0) == Fit(1, recompute=True)
    assert "may not fit even with" in said[3]


def test_memory_that_a_device_does_not_have_is_asked_for_once() -> None:
    said: list[str] = []

    def attempt(way: Fit) -> Fit:
        if not way.recompute:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return way

    found = attempted([Fit(), Fit(2), Fit(1, recompute=True)], attempt, said.append)
    assert found == Fit(1, recompute=True)
    assert said[0] == "out of memory with a whole batch at once; trying 2 of a batch's sequences at once"
    with pytest.raises(InputError, match="too short for this model"):
        attempted([Fit(), Fit(2)], attempt, said.append)


def test_free_memory_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe, said = load_recipe(SMALL), []
    model = build_model(recipe.model, vocab_size=50, seed=0)

    def chosen(free: int | None, **decided: object) -> Fit:
        monkeypatch.setattr(memory, "free_memory", lambda device: free)
        return open_ways(model, recipe, recipe.training, decided=decided, device=CPU, report=said.append)[0]

    assert chosen(None) == chosen(1 << 40) == Fit()
    weights = sum(p.nbytes for p in model.parameters())  # are there already
    need = {
        rows: estimated(recipe, recipe.training, Fit(rows), vocab_size=50).memory.total - weights
        for rows in (None, 6, 3)
    }
    assert chosen(need[None]) == Fit() and said == []
    assert chosen(need[None] - 1) == Fit(6)
    assert chosen(need[3]) == Fit(3)
    assert chosen(1 << 40, micro_batch=4, recompute=True) == Fit(4, recompute=True)  # decided stays decided
    assert chosen(1, micro_batch=None, recompute=False) == Fit()


def test_trying_out_changes_no_weight() -> None:
    recipe = load_recipe(SMALL)
    model = build_model(recipe.model, vocab_size=50, seed=0)
    before = [p.detach().clone() for p in model.parameters()]
    tokens = torch.zeros(3, 32, dtype=torch.long)
    memory.try_out(model, recipe.training, Batch(tokens, tokens), Runtime(CPU, "float32", 1, micro_batch=3))
    assert all(map(torch.equal, model.parameters(), before))
    assert all(p.grad is None for p in model.parameters())


def test_this_machine_tells_its_memory() -> None:
    free = memory.free_memory(CPU)
    assert free is None or free > 1 << 20
