"""The notebooks run from top to bottom, and are kept without what they printed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from guards.common import PACKAGE, ROOT, name_of

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


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=name_of)
def test_a_notebook_runs(notebook: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "\n".join("".join(cell["source"]) for cell in code_cells(notebook))],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": str(PACKAGE.parent),
            "PYTHONUTF8": "1",
            "OCTAVO_CACHE": str(tmp_path / "cache"),
        },
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("one day,") and "bits per byte" in done.stdout
