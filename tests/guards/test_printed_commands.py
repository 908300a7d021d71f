"""Commands that messages name: the verbs and options exist, and what is filled in is quoted for a shell."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from guards.common import name_of, python_files, tree

NAMED = re.compile(r"\boctavo ([a-z]+)\b([^\n]*)")
SAFE = {"wanted.name", "name", "name.rpartition('x')[2]"}
"""Values that need no quotes: names of texts in the catalogue, of machines."""


def strings(path: Path) -> Iterator[tuple[int, str, list[str]]]:
    """The texts of a file that are no docstrings, each with the values that are filled in."""
    docstrings = {id(node.value) for node in ast.walk(tree(path)) if isinstance(node, ast.Expr)}
    inside: set[int] = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.JoinedStr):
            inside |= {id(one) for one in ast.walk(node) if one is not node}
            pieces = [one.value if isinstance(one, ast.Constant) else "{}" for one in node.values]
            filled = [ast.unparse(one.value) for one in node.values if isinstance(one, ast.FormattedValue)]
            yield node.lineno, "".join(map(str, pieces)), filled
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in docstrings | inside
        ):
            yield node.lineno, node.value, []


def verbs() -> dict[str, Any]:
    """Every verb with what it takes; those with verbs of their own, too."""
    from octavo.cli.app import app

    found = {}
    for name in app:
        found[name] = app[name]
        found |= {f"{name} {inner}": app[name][inner] for inner in app[name] if not inner.startswith("-")}
    return found


def named() -> Iterator[Any]:
    for path in python_files("src/octavo"):
        for line, text, filled in strings(path):
            if match := NAMED.search(text):
                yield pytest.param(match, filled, id=f"{name_of(path)}:{line}")


FOUND = list(named())


def test_commands_are_found() -> None:
    assert len(FOUND) > 50 and any(filled for _, filled in (one.values for one in FOUND))


@pytest.mark.parametrize(("command", "filled"), FOUND)
def test_a_command_that_is_named_exists(command: re.Match[str], filled: list[str]) -> None:
    known = verbs()
    verb, rest = command[1], command[2]
    if verb not in known:
        assert verb == "shuffle", f"there is no verb {verb}"  # of the name of a stream of chance
        return
    inner = f"{verb} {rest.split()[0]}" if rest.split() else verb
    taken = known.get(inner, known[verb])
    arguments = taken.assemble_argument_collection() if taken.default_command else ()
    options = {name for one in arguments for name in one.names}
    end = re.search(r"    |[;:)]|, | or | and |\. ", rest)
    said = set(re.findall(r"(?<!\S)--[a-z][a-z-]*", rest[: end.start()] if end else rest))
    assert said <= options | {"--parts", "--help", "--version"}, command[0]
    assert set(filled) <= SAFE or "{}" not in (rest[: end.start()] if end else rest), (
        "what is filled in stands in octavo.config.plugins.command, which quotes it"
    )
