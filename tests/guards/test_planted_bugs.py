"""The list of planted bugs stays true: each can still be planted, and only just as it says."""

from __future__ import annotations

import ast
import dataclasses
from importlib import import_module
from pathlib import Path
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


def test_a_bug_is_tried_again_where_it_or_a_test_changed(
    planting: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant = planting.read_plants()[0]

    def states() -> list[str]:
        planting.shared_state.cache_clear()
        return [dataclasses.replace(plant, new=new).state for new in (plant.new, plant.new + " ")]

    read, (first, other) = Path.read_bytes, states()
    assert first != other and states() == [first, other]
    for path in (ROOT / plant.tests[0], ROOT / plant.file, ROOT / "tests" / "conftest.py"):
        with monkeypatch.context() as patch:
            patch.setattr(Path, "read_bytes", lambda file, path=path: read(file) + b" " * (file == path))
            assert first not in states()
