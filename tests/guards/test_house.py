"""The rules of the house that a program can check: nothing left for later, no path of somebody's machine."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from guards.common import PACKAGE, ROOT, name_of, python_files, repository_files, tree

UNFINISHED = re.compile(r"\b(?:TO" r"DO|FIX" r"ME)\b")
HOME_PATH = re.compile(r"(?<![\w.$~}*])/(?:home|Users|root|work|mnt|opt)/\w|\b[A-Z]:\\Users\\")
TEXT = {
    ".py",
    ".md",
    ".toml",
    ".yaml",
    ".yml",
    ".txt",
    ".cfg",
    ".html",
    ".json",
    ".jsonl",
    ".sh",
    ".css",
    ".js",
    "",
}


def text_files() -> list[tuple[Path, str]]:
    return [
        (path, path.read_text(encoding="utf-8", errors="replace"))
        for path in repository_files()
        if path.suffix in TEXT and not path.is_symlink()
    ]


def test_nothing_is_left_for_later() -> None:
    found = [
        f"{name_of(path)}:{number}"
        for path, text in text_files()
        for number, line in enumerate(text.splitlines(), 1)
        if UNFINISHED.search(line)
    ]
    assert not found


def test_no_path_of_somebodys_machine() -> None:
    found = [
        f"{name_of(path)}:{number} {line.strip()[:100]}"
        for path, text in text_files()
        for number, line in enumerate(text.splitlines(), 1)
        if HOME_PATH.search(line) and path != Path(__file__)
    ]
    assert not found


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("open('/home/ada/corpus.txt')", True),
        ("see /Users/ada/x", True),
        ("find-links = file:///opt/wheels", True),
        ("~/home/x and ../root/y", False),
        ("https://example.org/home/page", False),
    ],
)
def test_the_guard_knows_a_home_path(line: str, wrong: bool) -> None:
    assert bool(HOME_PATH.search(line)) is wrong


def test_every_public_module_says_what_it_is() -> None:
    silent = [
        name_of(path)
        for path in python_files("src", "benchmarks")
        if (not path.stem.startswith("_") or path.stem in {"__init__", "__main__"})
        and not ast.get_docstring(tree(path))
    ]
    assert not silent


def test_every_room_of_code_lies_in_the_package() -> None:
    assert PACKAGE.is_dir() and not [path for path in (ROOT / "src").iterdir() if path != PACKAGE]
