"""Tables that are looked up row by row: a step touches few of their rows, so their gradients are sparse.

A part that has such tables says so: its config is a `TablesConfig`, and its module lists them by `sparse_parameters()`.
Any module may have `prepare_for_processes()`, called before it is replicated or sharded. Whoever
counts memory, shares parameters out among optimizers, or trains in several processes asks here, and knows no part.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from torch import nn

from octavo.config import PartConfig
from octavo.model.base import ModelConfig


class TablesConfig(PartConfig):
    """Base of the configs of parts that may have tables; a lookup is no matrix product, and counts no FLOPs."""

    @property
    def tables(self) -> int:
        """Tables, each with a row for every token of a text."""
        return 0

    @property
    def rows(self) -> int:
        """Rows of all tables together."""
        return 0

    def parameters(self, *, width: int) -> int:
        """Trained numbers."""
        return self.rows * width

    @abstractmethod
    def without_tables(self) -> PartConfig:
        """The part of the same room that stands for none."""


def table_parts(config: ModelConfig) -> dict[str, TablesConfig]:
    """The parts of a model that may have tables, by the name of their field."""
    parts = ((name, getattr(config, name)) for name in type(config).model_fields)
    return {name: part for name, part in parts if isinstance(part, TablesConfig)}


def table_parameters(config: ModelConfig) -> int:
    """Numbers in all tables."""
    return sum(part.parameters(width=config.width) for part in table_parts(config).values())


def without_tables(config: ModelConfig) -> ModelConfig:
    """The same model without its tables."""
    return config.model_copy(
        update={name: part.without_tables() for name, part in table_parts(config).items()}
    )


def sparse_parameters(model: nn.Module) -> list[nn.Parameter]:
    """The tables of all modules that say which they are."""
    return [table for tables in _asked(model, "sparse_parameters") for table in tables()]


def gates(model: nn.Module) -> list[Any]:
    """The modules that mix the network's predictions with others by a gate."""
    return [module for module in model.modules() if hasattr(module, "gate_parameters")]


def gate_parameters(model: nn.Module) -> list[nn.Parameter]:
    """The weights of all gates that mix the network's predictions with others."""
    return [weight for gate in gates(model) for weight in gate.gate_parameters()]


def prepare_for_processes(model: nn.Module) -> None:
    """Tell every module that wants to know that several processes will train it."""
    for prepare in _asked(model, "prepare_for_processes"):
        prepare()


def _asked(model: nn.Module, method: str) -> list[Callable[[], Any]]:
    found = (getattr(module, method, None) for module in model.modules())
    return [each for each in found if each is not None]


def gate_tokens(model: nn.Module) -> int:
    """How many tokens the gates of a model learn from, which has taken its text; 0: it has none."""
    return sum(getattr(module, "gate_tokens", 0) for module in model.modules())
