"""What the guards share: where the project lies, its files, and its Python sources as syntax trees."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "octavo"

# Made by tools or by runs, not written by us.
GENERATED = {
    ".git",
    ".venv",
    "node_modules",
    "__pycache__",
    ".pytest_cache",
    ".ruff_cache",
    ".hypothesis",
    ".pyrefly_cache",
}
GENERATED_AT_ROOT = {"runs", "build", "dist"}


def repository_files() -> Iterator[Path]:
    """Every file that a person wrote, in a stable order."""
    for folder, names, files in os.walk(ROOT):
        generated = GENERATED | (GENERATED_AT_ROOT if Path(folder) == ROOT else set())
        names[:] = sorted(name for name in names if name not in generated and not name.endswith(".egg-info"))
        yield from (
            Path(folder, file) for file in sorted(files) if file not in GENERATED
        )  # .git is a file in a linked work tree


def python_files(*folders: str) -> list[Path]:
    """All Python files under the given folders of the project."""
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


@cache
def tree(path: Path) -> ast.Module:
    """The syntax tree of one Python file."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def name_of(path: Path) -> str:
    """A file's path as messages show it."""
    return path.relative_to(ROOT).as_posix()
