"""A part with tables of its own is counted, optimized and prepared like the built-in one, by what it says of itself."""

from __future__ import annotations

from typing import Literal

import pytest
import torch
from torch import Tensor, nn

from octavo.config import PartConfig
from octavo.model.base import (
    TablesConfig,
    prepare_for_processes,
    sparse_parameters,
    table_parameters,
    without_tables,
)
from octavo.model.config import GPTConfig
from octavo.model.inputs import NoNGramsConfig
from octavo.training.estimate import estimate_step
from octavo.training.optimizers import AdamWConfig, RowAdagrad

SHAPE = {"layers": 1, "width": 8, "heads": 2, "context": 4}


class Ends(nn.Module):
    """A vector for the last digit of a token's number; no kind of n-grams."""

    before = 0

    def __init__(self, *, width: int) -> None:
        super().__init__()
        self.table = nn.Embedding(10, width, sparse=True)

    def sparse_parameters(self) -> list[nn.Parameter]:
        return [self.table.weight]

    def prepare_for_processes(self) -> None:
        self.table.sparse = False

    def forward(self, x: Tensor, tokens: Tensor, earlier: Tensor | None = None) -> Tensor:
        return x + self.table(tokens % 10)


class EndsConfig(TablesConfig):
    """Ten rows, of which a token looks up one."""

    kind: Literal["ends"] = "ends"

    @property
    def tables(self) -> int:
        return 1

    @property
    def rows(self) -> int:
        return 10

    def build(self, *, width: int) -> nn.Module:
        return Ends(width=width)

    def without_tables(self) -> PartConfig:
        return NoNGramsConfig()


@pytest.fixture
def config() -> GPTConfig:
    return GPTConfig(**SHAPE).model_copy(update={"ngrams": EndsConfig()})  # pyrefly: ignore


def test_its_numbers_are_counted(config: GPTConfig) -> None:
    plain = GPTConfig(**SHAPE)  # pyrefly: ignore
    assert table_parameters(config) == 80 and table_parameters(plain) == 0
    assert config.parameters(vocab_size=20) == plain.parameters(vocab_size=20) + 80
    assert without_tables(config).model_dump() == plain.model_dump()


def test_its_memory_is_estimated(config: GPTConfig) -> None:
    with_it, without = (
        estimate_step(each, AdamWConfig(), vocab_size=20, rows=3).memory
        for each in (config, without_tables(config))
    )
    assert with_it.weights - without.weights == 4 * 80
    assert (
        with_it.gradients - without.gradients == 4 * 3 * 4 * 8
    )  # rows × positions × width: what is looked up
    assert with_it.optimizer - without.optimizer == 4 * 10


def test_it_has_an_optimizer_of_its_own_and_dense_gradients_in_several_processes() -> None:
    model = nn.Sequential(nn.Linear(8, 8), Ends(width=8))
    table = model[1].table.weight
    assert [id(p) for p in sparse_parameters(model)] == [id(table)]
    rows = AdamWConfig().build(model)[-1]
    assert isinstance(rows, RowAdagrad) and rows.param_groups[0]["params"] == [table]
    x, tokens = torch.zeros(1, 2, 8), torch.tensor([[3, 13]])
    for sparse in (True, False):
        model[1](x, tokens).sum().backward()
        assert table.grad is not None and table.grad.is_sparse is sparse
        table.grad = None
        prepare_for_processes(model)
