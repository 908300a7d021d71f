"""A text that is small, a cache of its own, and runs that end soon."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True, scope="module")
def end_soon(plain_reports: None) -> None:
    """No test here looks at figures, but where it says so."""


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "text.txt"
    path.write_text("a fox and a dog. " * 60)
    return path
