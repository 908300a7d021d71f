"""Every Python snippet of the documentation runs, and every command line in it is one that exists."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from e2e.forked import Octavo
from guards.common import PACKAGE, ROOT, name_of
from guards.snippets import SHELLS, Block, blocks, commands

SHOWN = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("**/*.md")))
PAGES = [path for path in SHOWN if path.is_file()]
LINES = [
    pytest.param(command, id=f"{name_of(path)}:{block.line}:{' '.join(command)}")
    for path in PAGES
    for block in blocks(path.read_text("utf-8"))
    if block.language in SHELLS
    for command in commands(block)
]

LONG = ("docs/python.md",)  # a study, which is several trainings

# Runs the blocks of one page, in order, with one set of names; line numbers in tracebacks are the page's.
RUNNER = """
import json, sys
names = {"__name__": "__main__"}
for page, line, text in json.load(sys.stdin):
    exec(compile("\\n" * (line - 1) + text, page, "exec"), names)
"""


def python_blocks(page: Path) -> list[Block]:
    return [block for block in blocks(page.read_text("utf-8")) if block.language == "python"]


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=name_of(page), marks=[pytest.mark.slow] * (name_of(page) in LONG))
        for page in PAGES
        if python_blocks(page)
    ],
)
def test_python_snippets_run(page: Path, tmp_path: Path, server: Octavo) -> None:
    told = json.dumps([(name_of(page), block.line, block.text) for block in python_blocks(page)])
    done = server(program=RUNNER, stdin=told.encode(), folder=tmp_path)
    assert done.code == 0, done.err


@pytest.mark.parametrize("command", [line for line in LINES if line.values[0][0] == "octavo"])
def test_command_lines_exist(command: list[str]) -> None:
    from cyclopts import CycloptsError

    from octavo.cli.app import app, hyphens_bound

    if {"--help", "-h", "--version"} & set(command):
        command = [word for word in command if word not in {"--help", "-h", "--version"}]
        assert len(command) == 1 or command[1] in app
        return
    try:
        _, common, _ = app.meta.parse_args(hyphens_bound(command[1:]), print_error=False, exit_on_error=False)
        app.parse_args(list(common.args), print_error=False, exit_on_error=False)
    except CycloptsError as error:
        pytest.fail(f"{' '.join(command)}: {error}")


@pytest.mark.parametrize("command", [line for line in LINES if line.values[0][0] == "make"])
def test_make_targets_exist(command: list[str]) -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert {word for word in command[1:] if "=" not in word} <= targets


def test_blocks_are_found() -> None:
    page = "a\n```python\nx = 1\n```\n<!-- setup\ny = 2\n-->\n"
    page += "- b\n  ```console\n  $ octavo demo\n  done\n  ```\n"
    assert [(block.language, block.text, block.line) for block in blocks(page)] == [
        ("python", "x = 1", 3),
        ("python", "y = 2", 6),
        ("console", "$ octavo demo\ndone", 10),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$ octavo demo\nloss 1.2", [["octavo", "demo"]]),
        ("octavo train a \\\n  --out b  # why", [["octavo", "train", "a", "--out", "b"]]),
        ("pip install -e . && octavo demo", [["pip", "install", "-e", "."], ["octavo", "demo"]]),
        ("cat x.txt | octavo eval r > y.json", [["cat", "x.txt"], ["octavo", "eval", "r"]]),
        ("A=1 octavo train r a.b=2 'c d'", [["octavo", "train", "r", "a.b=2", "c d"]]),
        ("torchrun --nnodes 2 -m octavo train r a=b", [["octavo", "train", "r", "a=b"]]),
    ],
)
def test_commands_are_found(text: str, expected: list[list[str]]) -> None:
    (block,) = blocks(f"```console\n{text}\n```\n")
    assert commands(block) == expected


def test_every_word_of_the_glossary_has_a_meaning_a_term_and_a_file() -> None:
    page = (ROOT / "docs" / "glossary.md").read_text("utf-8")
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")]
    words = [row for row in rows if row[0] not in ("word", "---")]
    assert len(words) > 50 and len({word for word, *_ in words}) == len(words)
    for word, meaning, term, where in words:
        assert meaning.endswith(".") and term, word
        assert (PACKAGE / where.strip("`")).is_file(), f"{word}: there is no {where}"
