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


SPOKEN = {
    "errors.py": "words of a command as Python has them",
    "config/parts.py": "a variable of a process of our own",
    "config/load.py": "words of a recipe",
    "config/reference.py": "words of a page",
    "corpus/sandbox.py": "messages to a process of our own",
    "corpus/sandbox_child.py": "messages from it",
    "data/prepare.py": "what is hashed",
    "tasks/forecast/dataset.py": "what is hashed",
    "tasks/chat/turns.py": "words of a sentence",
    "data/encode_worker_child.py": "messages from a process of our own",
    "data/encode_workers.py": "messages to it",
    "util/json_text.py": "the writer itself",
    "report/promised.py": "what is held against a shape",
    "run/audit.py": "what is held against a shape",
    "studies/plan.py": "what is compared",
    "studies/report.py": "words of a recipe",
    "studies/resolve.py": "words of a recipe",
    "studies/worker.py": "messages from it",
    "training/distributed/heartbeat.py": "messages between processes of our own",
    "training/distributed/parallel.py": "messages between processes of our own",
    "tuning/comparisons.py": "what is hashed",
}
"""Files with JSON that no file, terminal or other program sees; all other goes through `json_text`."""


def makes_json(source: ast.Module) -> bool:
    """Whether a file calls the standard library's writers of JSON, or takes them under another name."""
    return any(
        (
            isinstance(node, ast.Attribute)
            and node.attr in ("dump", "dumps")
            and ast.unparse(node.value) == "json"
        )
        or (
            isinstance(node, ast.ImportFrom)
            and node.module == "json"
            and any(a.name != "loads" for a in node.names)
        )
        for node in ast.walk(source)
    )


def test_no_pattern_repeats_a_group_possessively() -> None:
    """Python before 3.11.3, Debian 12's among them, then drops characters: `(?>(?:…)*)` and `(?:…)*` it can do."""
    possessive = re.compile(r"\)[*+?]\+|\)\{[0-9,]+\}\+")
    found = [
        name_of(path)
        for path in python_files("src")
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and possessive.search(node.value)
    ]
    assert found == []


def test_json_is_written_by_one_writer() -> None:
    """So that none holds NaN or Infinity, which no other program reads."""
    makers = {path.relative_to(PACKAGE).as_posix() for path in python_files("src") if makes_json(tree(path))}
    assert makers == set(SPOKEN)
    assert makes_json(ast.parse("from json import dumps")) and makes_json(ast.parse("json.dump(a, file)"))
    assert not makes_json(ast.parse("json_text(a); json.loads(a); json.JSONDecodeError"))


def test_every_verb_with_json_prints_it_by_one_function() -> None:
    through = {"generate.py": "generate_output.py", "verify.py": "export.py"}  # which print for them
    verbs = [path for path in python_files("src/octavo/cli") if "json: Json" in path.read_text("utf-8")]
    assert len(verbs) > 15
    printers = [path.with_name(through.get(path.name, path.name)) for path in verbs]
    assert not [name_of(path) for path in printers if "print_json(" not in path.read_text("utf-8")]
