"""What a reader has to hold in mind grows no further: no questions about the task, no namesakes, no full folders."""

from __future__ import annotations

import ast
from importlib import import_module
from types import ModuleType

import pytest

from guards.common import PACKAGE, ROOT

NAMESAKES: frozenset[str] = frozenset()
"""Private modules of one name that are still there. Rename or merge them, and take them out here."""
FULL: frozenset[str] = frozenset()
"""Folders of more than 30 files that are still there. Divide them, and take them out here."""
DICTIONARIES = 185
"""Functions that return `dict[str, Any]`. What is left is a document: a recipe's tree, a file of a run, another
library's settings, the values of a template. A result that others read by key is a class. At most; lower it."""

IMPORTED = {"auto/api.py": 97, "run/run.py": 80, "cli/app.py": 10}
"""Files that come with `octavo.train`, with `octavo.Run` and with the command line, at most. What only some runs need,
and what comes after a training, is imported where it is used."""


@pytest.fixture
def structure(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return import_module("structure")


def test_the_core_asks_nothing_that_only_some_recipes_have(structure: ModuleType) -> None:
    """A wider definition than that of `test_tasks.py`, in fewer rooms."""
    assert structure.questions(PACKAGE) == {}


@pytest.mark.parametrize(
    ("code", "asked"),
    [
        ("objective.unit.text", 1),
        ("recipe.batches.pairs and recipe.corpus.numbers", 2),
        ("recipe.form == 'preferences'", 1),
        ("isinstance(run.tokenizer, Columns)", 1),
        ("recipe.corpus.kind in ('storyteller', 'wishes')", 1),
        ("evaluation.get('forecast')", 1),
        ("'validity' in result", 1),
        ("result['translations'] = 1", 0),
        ("name == 'chat'", 1),
        ("from octavo.tasks.chat import judge", 1),
        ("from octavo.tasks import tasks", 0),
        ("isinstance(path, str)", 0),
        ("dataset.text", 0),
    ],
)
def test_the_guard_knows_a_question(structure: ModuleType, code: str, asked: int) -> None:
    assert sum(structure.question(node) is not None for node in ast.walk(ast.parse(code))) == asked


@pytest.mark.parametrize("start", IMPORTED)
def test_a_beginning_imports_little(structure: ModuleType, start: str) -> None:
    found = structure.imported_with(PACKAGE, start)
    assert found >= {start, "__init__.py", "errors.py"}
    assert IMPORTED[start] - 15 < len(found) <= IMPORTED[start], sorted(found)


def test_results_are_classes(structure: ModuleType) -> None:
    assert len(structure.dictionaries(PACKAGE)) <= DICTIONARIES


def test_no_two_private_modules_have_one_name(structure: ModuleType) -> None:
    found = structure.namesakes(PACKAGE)
    assert not {name: paths for name, paths in found.items() if name not in NAMESAKES}
    assert found.keys() >= NAMESAKES, "take out what is mended"


def test_a_folder_has_at_most_30_files(structure: ModuleType) -> None:
    full = {folder: count for folder, count in structure.folders(PACKAGE).items() if count > 30}
    assert not {folder: count for folder, count in full.items() if folder not in FULL}
    assert full.keys() >= FULL, "take out what is mended"
