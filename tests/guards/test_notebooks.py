"""The notebooks run from top to bottom, and are kept without what they printed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from e2e.forked import Octavo
from guards.common import ROOT, name_of

NOTEBOOKS = sorted((ROOT / "docs").glob("*.ipynb"))


def code_cells(notebook: Path) -> list[dict[str, Any]]:
    content = json.loads(notebook.read_text(encoding="utf-8"))
    assert content["nbformat"] == 4
    return [cell for cell in content["cells"] if cell["cell_type"] == "code"]


def test_there_is_a_notebook() -> None:
    assert NOTEBOOKS


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=name_of)
def test_a_notebook_is_kept_clean(notebook: Path) -> None:
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in code_cells(notebook))


SMALLER = '"corpus.stories": 500, "model.width": 32, '


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=name_of)
def test_a_notebook_runs(notebook: Path, tmp_path: Path, server: Octavo) -> None:
    code = "\n".join("".join(cell["source"]) for cell in code_cells(notebook))
    steps = '"training.steps": 40'
    assert code.count(steps) == 1
    done = server(
        program=code.replace(steps, SMALLER + steps), folder=tmp_path, cache=str(tmp_path / "cache")
    )
    assert done.code == 0, done.err
    assert done.out.startswith("one day,") and "bits per byte" in done.out
