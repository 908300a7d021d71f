"""A study as small as one can be: its files, and what it left when it was run once."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from octavo.studies.results import StudyResults
from octavo.studies.run import run_study
from octavo.util.terminal import Console

SENTENCES = (
    "the brown fox jumps over the lazy dog.\n",
    "a dog runs from the old cat!\n",
    "who saw the fox?\n",
    "nobody saw it, said the cat.\n",
)
RECIPE: dict[str, Any] = {
    "tokenizer": "char",
    "seed": 5,
    "model": {"layers": 1, "width": 16, "heads": 2, "context": 16, "dropout": 0.1},
    "training": {"batch": 4, "steps": 30, "device": "cpu"},
    "sampling": {"tokens": 10},
}
DIVERGING = {"training.optimizer": {"kind": "sgd", "learning_rate": 1e30}}


def study_tree(**changed: Any) -> dict[str, Any]:
    """A study file as plain data."""
    tree: dict[str, Any] = {
        "baseline": RECIPE,
        "seeds": 2,
        "noise": 1,
        "budget": {"steps": 20},
        "changes": [{"name": "two layers", "hypothesis": "More is more.", "set": {"model.layers": 2}}],
    }
    return {**tree, **changed}


def change(name: str, **settings: Any) -> dict[str, Any]:
    """A change as plain data; `__` in a key stands for a dot."""
    keys = {key.replace("__", "."): value for key, value in settings.items()}
    return {"name": name, "hypothesis": "It differs.", "set": keys}


@pytest.fixture(scope="session")
def text(tmp_path_factory: pytest.TempPathFactory, with_kernels: Callable[[Path], Path]) -> Path:
    """A text of 120 sentences; the cache of datasets is a folder of these tests."""
    folder = tmp_path_factory.mktemp("study")
    order = (7 * n * n + 3 * n for n in range(120))
    (folder / "text.txt").write_text("".join(SENTENCES[n % 11 % 4] for n in order))
    with_kernels(folder / "cache")
    return folder / "text.txt"


@pytest.fixture(autouse=True)
def cache(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTAVO_CACHE", str(text.parent / "cache"))


@pytest.fixture(scope="session")
def whole(text: Path) -> tuple[StudyResults, str]:
    """A study of three variants, one of which diverges, run to its end; and what it said. Read it, don't write."""
    tree = study_tree(changes=[change("two layers", model__layers=2), change("hot", **DIVERGING)])
    said = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OCTAVO_CACHE", str(text.parent / "cache"))
        results = run_study(tree, text, text.parent / "whole", jobs=1, console=Console(stream=said))
    return results, said.getvalue()
