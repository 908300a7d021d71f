"""What `--minutes` does at the command line before anything is trained."""

from __future__ import annotations

import sys
import time
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from octavo.cli.train import train_command


class Loaded(ModuleType):
    """Stands for the module that trains: says when something was taken from it."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.first, self.given = 0.0, dict[str, Any]()

    def __getattr__(self, name: str) -> Any:
        self.first = self.first or time.monotonic()
        return self.train

    def train(self, *_: Any, **given: Any) -> Any:
        self.given = given
        return SimpleNamespace(report="page")


def test_its_clock_runs_before_what_is_slow_to_load(monkeypatch: pytest.MonkeyPatch) -> None:
    module = Loaded("octavo.auto.api")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    began = time.monotonic()
    assert train_command(text=["book.txt"], minutes=5.0, quiet=True) == 0
    assert began <= module.given["console"].started < module.first
