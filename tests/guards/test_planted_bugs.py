"""The list of planted bugs stays true: each can still be planted, and only just as it says."""

from __future__ import annotations

import ast
import dataclasses
from importlib import import_module
from types import ModuleType

import pytest

from guards.common import ROOT


@pytest.fixture
def planting(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return import_module("planted_bugs")


def test_every_bug_can_still_be_planted(planting: ModuleType) -> None:
    plants = planting.read_plants()
    assert planting.problems(plants) == []
    assert len(plants) >= 60
    for plant in plants:
        if plant.file.endswith(".py"):
            ast.parse(plant.planted(ROOT))
        assert set(plant.tests) and all(test.startswith("tests/") for test in plant.tests)


def test_a_list_that_is_no_longer_true_is_refused(planting: ModuleType) -> None:
    plant = planting.read_plants()[0]
    gone = dataclasses.replace(plant, name="gone", old="what stands nowhere")
    often = dataclasses.replace(plant, name="often", old="def ")
    same = dataclasses.replace(plant, name="same", new=plant.old)
    untested = dataclasses.replace(plant, name="untested", tests=("tests/unit/test_nothing.py",))
    found = planting.problems([plant, plant, gone, often, same, untested])
    assert len(found) == 5
    for name, word in [
        ("gone", "0 times"),
        ("often", "not once"),
        ("same", "the same"),
        ("untested", "no test"),
    ]:
        assert any(sentence.startswith(name) and word in sentence for sentence in found)
    assert f"{plant.name}: the name stands twice" in found
