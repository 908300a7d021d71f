"""The core asks no question about the kind of task: what differs between tasks is a method of `octavo.task.Task`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from guards.common import PACKAGE, name_of, python_files, tree
from octavo.config.parts import parts

CORE = (
    "config",
    "corpus",
    "tokenizers",
    "data",
    "ngram",
    "model",
    "training",
    "generation",
    "evaluation",
    "task.py",
    "report",
    "run",
    "planning",
    "studies",
    "auto",
)
TASKS = frozenset(parts("task"))
ASKED_OF = {
    "corpus": {"kind", "numbers", "gives_pairs"},
    "batches": {"pairs", "task"},
    "objective": {"kind"},
    "unit": {"text"},
    "recipe": {"form"},
    "config": {"form"},
}
"""Attributes of a recipe's parts by which a task could be told."""
CLASSES = frozenset(
    {"Columns", "EncoderDecoder", "BouncingBallSource", "StorytellerSource", "WishesSource", "PixelsConfig"}
)


def name_in(node: ast.expr) -> str:
    """The last name of `recipe.corpus`, or of `recipe`."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def in_tests(source: ast.AST) -> Iterator[ast.expr]:
    """What decides between branches."""
    for node in ast.walk(source):
        if isinstance(node, (ast.If, ast.IfExp, ast.While)):
            yield node.test
        elif isinstance(node, ast.comprehension):
            yield from node.ifs
        elif (
            isinstance(node, (ast.BoolOp, ast.Compare))
            or isinstance(node, ast.UnaryOp)
            and isinstance(node.op, ast.Not)
        ):
            yield node


def questions(source: ast.Module) -> Iterator[tuple[int, str]]:
    """Questions about the kind of task, with their lines."""
    for test in in_tests(source):
        for node in ast.walk(test):
            if isinstance(node, ast.Attribute) and node.attr in ASKED_OF.get(name_in(node.value), ()):
                yield node.lineno, f"{name_in(node.value)}.{node.attr}"
            if isinstance(node, ast.Compare):
                for one in (node.left, *node.comparators):
                    inside = one.elts if isinstance(one, (ast.Tuple, ast.List, ast.Set)) else [one]
                    for word in inside:
                        if isinstance(word, ast.Constant) and word.value in TASKS - {"text", "records"}:
                            yield node.lineno, f"compares with {word.value!r}"
    for node in ast.walk(source):
        if isinstance(node, ast.Call) and name_in(node.func) in ("isinstance", "issubclass"):
            found = {
                name_in(one) for one in ast.walk(node.args[1]) if isinstance(one, (ast.Name, ast.Attribute))
            }
            yield from ((node.lineno, f"isinstance of {name}") for name in sorted(found & CLASSES))
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names = [alias.name for alias in node.names]
            base = node.module or "" if isinstance(node, ast.ImportFrom) else ""
            yield from (
                (node.lineno, f"imports {name}") for name in (base, *names) if name.startswith("octavo.tasks")
            )


def in_core(path: Path) -> bool:
    return path.relative_to(PACKAGE).parts[0] in CORE


def test_the_core_does_not_ask_which_task_it_has() -> None:
    found = [
        f"{name_of(path)}:{line} {what}"
        for path in python_files("src")
        if in_core(path)
        for line, what in questions(tree(path))
    ]
    assert not found


def test_the_tasks_are_known() -> None:
    assert {"text", "chat", "translation", "forecast", "records"} == TASKS


@pytest.mark.parametrize(
    "line",
    [
        "if recipe.corpus.numbers: pass",
        "a = 1 if run.config.batches.pairs else 2",
        "x = not objective.unit.text",
        "x = recipe.corpus.kind in ('storyteller', 'wishes')",
        "x = recipe.form != 'text'",
        "isinstance(dataset.tokenizer, Columns)",
        "if task.kind == 'forecast': pass",
        "from octavo.tasks.chat import prompts",
        "def f():\n    import octavo.tasks.chat",
    ],
)
def test_questions_are_seen(line: str) -> None:
    assert list(questions(ast.parse(line)))


@pytest.mark.parametrize("line", ["say(f'corpus={recipe.corpus.kind}')", "task_of(recipe).counted"])
def test_what_is_no_question(line: str) -> None:
    assert not list(questions(ast.parse(line)))
