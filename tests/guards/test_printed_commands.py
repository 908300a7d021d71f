"""Commands that messages name: the verbs and options exist, and what is filled in is quoted for a shell."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from guards.common import name_of, python_files, tree

NAMED = re.compile(r"\boctavo ([a-z]+)\b([^\n]*)")
SAFE = {"wanted.name", "name", "name.rpartition('x')[2]"}
"""Values that need no quotes: names of texts in the catalogue, of machines."""


def strings(path: Path) -> Iterator[tuple[int, str, list[str]]]:
    """The texts of a file that are no docstrings, each with the values that are filled in."""
    seen: set[int] = (
        set()
    )  # docstrings, and the pieces of texts with values, which are not texts of their own
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Expr):
            seen.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            seen |= {id(one) for one in ast.walk(node) if one is not node}
            pieces = [one.value if isinstance(one, ast.Constant) else "{}" for one in node.values]
            filled = [ast.unparse(one.value) for one in node.values if isinstance(one, ast.FormattedValue)]
            yield node.lineno, "".join(map(str, pieces)), filled
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in seen:
            yield node.lineno, node.value, []


@cache
def verbs() -> dict[str, Any]:
    """Every verb with what it takes; those with verbs of their own, too."""
    from octavo.cli.app import app

    found = {}
    for name in app:
        found[name] = app[name]
        found |= {f"{name} {inner}": app[name][inner] for inner in app[name] if not inner.startswith("-")}
    return found


@cache
def named() -> list[tuple[str, re.Match[str], list[str]]]:
    """Where a command is named, with its verb and the rest of the line, and what is filled in."""
    return [
        (f"{name_of(path)}:{line}", match, filled)
        for path in python_files("src/octavo")
        if "octavo " in path.read_text("utf-8")
        for line, text, filled in strings(path)
        if (match := NAMED.search(text))
    ]


def test_commands_are_found() -> None:
    assert len(named()) > 50 and any(filled for _, _, filled in named())


def test_every_command_that_is_named_exists() -> None:
    for where, command, filled in named():
        exists(where, command, filled)


def exists(where: str, command: re.Match[str], filled: list[str]) -> None:
    known = verbs()
    verb, rest = command[1], command[2]
    if verb not in known:
        assert verb == "shuffle", f"{where}: there is no verb {verb}"  # of the name of a stream of chance
        return
    inner = f"{verb} {rest.split()[0]}" if rest.split() else verb
    taken = known.get(inner, known[verb])
    arguments = taken.assemble_argument_collection() if taken.default_command else ()
    options = {name for one in arguments for name in one.names}
    end = re.search(r"    |[;:)]|, | or | and |\. ", rest)
    said = set(re.findall(r"(?<!\S)--[a-z][a-z-]*", rest[: end.start()] if end else rest))
    assert said <= options | {"--parts", "--help", "--version"}, f"{where}: {command[0]}"
    assert set(filled) <= SAFE or "{}" not in (rest[: end.start()] if end else rest), (
        f"{where}: what is filled in stands in octavo.config.parts.command, which quotes it"
    )
