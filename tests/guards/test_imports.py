"""Imports point from later rooms to earlier ones, and importing something light stays light."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from guards.common import PACKAGE, name_of, python_files, tree

# A room may import from itself and from the rooms that stand before it.
ROOMS = (
    "errors",
    "util",
    "config",
    "recipes",
    "corpus",
    "synthetic",
    "tokenizers",
    "data",
    "ngram",
    "model",
    "training",
    "generation",
    "evaluation",
    "correction",
    "task",
    "report",
    "explain",
    "run",
    "planning",
    "tasks",
    "auto",
    "studies",
    "export",
    "llm_corpus",
    "tuning",
    "serving",
    "browser",
    "cli",
)
FRONT_DOOR = ("__init__", "__main__")  # octavo/__init__.py hands out names of every room, lazily
LIGHT = ("util", "config", "corpus", "synthetic", "tokenizers", "data", "cli")
LISTING = ("octavo.run.list",)  # what is read on disk alone, without a model
HEAVY = ("torch", "matplotlib", "transformers")


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def module_of(path: Path) -> str:
    parts = ("octavo", *path.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(part for part in parts if part != "__init__")


@cache
def statements(source: ast.Module) -> list[ast.AST]:
    """All that import something, lazily too."""
    return [node for node in ast.walk(source) if isinstance(node, ast.Import | ast.ImportFrom)]


def imported(node: ast.AST, module: str, is_package: bool) -> Iterator[str]:
    """The dotted names that one import statement asks for; `from a import b` gives `a.b`."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            parents = module.split(".")
            parents = parents[: len(parents) - node.level + is_package]
            base = ".".join([*parents, *([node.module] if node.module else [])])
        yield from (f"{base}.{alias.name}" for alias in node.names)


def at_import_time(node: ast.AST) -> Iterator[ast.AST]:
    """Every node that runs when the module is imported: no function bodies, nothing under TYPE_CHECKING."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            continue
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            for other in child.orelse:
                yield other
                yield from at_import_time(other)
            continue
        yield child
        yield from at_import_time(child)


def backward(source: ast.Module, path: Path) -> Iterator[str]:
    """Imports, lazy ones too, that point to a room that stands later than the file's own."""
    here = room_of(path)
    for node in statements(source):
        for name in imported(node, module_of(path), path.name == "__init__.py"):
            _, _, rest = name.partition("octavo.")
            there = rest.partition(".")[0]
            if name.startswith("octavo.") and there in ROOMS and ROOMS.index(there) > ROOMS.index(here):
                yield f"{name_of(path)}:{node.lineno} imports {name}: '{there}' stands after '{here}'"


def test_every_room_has_its_place() -> None:
    found = {room_of(path) for path in python_files("src")} - set(FRONT_DOOR)
    assert found <= set(ROOMS), "give these rooms their place in ROOMS, above"


def test_imports_point_to_earlier_rooms() -> None:
    files = [path for path in python_files("src") if room_of(path) in ROOMS]
    assert not [problem for path in files for problem in backward(tree(path), path)]


@pytest.mark.parametrize(
    ("file", "line", "wrong"),
    [
        ("model/gpt.py", "from octavo.training import loop", True),
        ("model/gpt.py", "from octavo import cli", True),
        ("model/gpt.py", "def f():\n    import octavo.cli.main", True),
        ("model/gpt.py", "from ..training.loop import train", True),
        ("model/__init__.py", "from .gpt import GPT", False),
        ("model/gpt.py", "from octavo.errors import InputError", False),
        ("model/gpt.py", "from octavo import __version__", False),
    ],
)
def test_the_guard_sees_backward_imports(file: str, line: str, wrong: bool) -> None:
    assert bool(list(backward(ast.parse(line), PACKAGE / file))) is wrong


def edges() -> dict[str, set[str]]:
    """Which files of the package each of them imports, by the modules' names; imports inside functions and for type
    checking alone count too. `octavo` itself is left out: it hands out names of every room, lazily.
    """
    files = {module_of(path): path for path in python_files("src") if room_of(path) not in FRONT_DOOR}
    found: dict[str, set[str]] = {}
    for module, path in files.items():
        asked = [
            name
            for node in statements(tree(path))
            for name in imported(node, module, path.name == "__init__.py")
        ]
        modules = {name if name in files else name.rpartition(".")[0] for name in asked}
        found[module] = (modules & files.keys()) - {module}
    return found


def in_circles(edges: dict[str, set[str]]) -> set[str]:
    """The nodes that lie on a circle, or on a way between two."""
    left = {node: set(targets) for node, targets in edges.items()}
    while True:
        targets = set[str]().union(*left.values())
        ends = {node for node in left if not left[node] or node not in targets}
        if not ends:
            return set(left)
        left = {node: left[node] - ends for node in left.keys() - ends}


def test_no_files_import_each_other_in_a_circle() -> None:
    found = edges()
    assert len(found) > 200
    assert not in_circles(found)


def test_circles_are_seen() -> None:
    chain = {"a": {"b", "c"}, "b": {"c"}, "c": set[str]()}
    assert in_circles(chain) == set()
    assert in_circles({**chain, "c": {"d"}, "d": {"b"}}) == {"b", "c", "d"}


@pytest.mark.parametrize("room", LIGHT)
def test_light_rooms_do_not_import_torch_at_their_top(room: str) -> None:
    found = [
        f"{name_of(path)}:{node.lineno}"
        for path in python_files("src")
        if room_of(path) == room
        for node in at_import_time(tree(path))
        for name in imported(node, module_of(path), path.name == "__init__.py")
        if name.split(".")[0] in HEAVY
    ]
    assert not found


def test_importing_what_is_light_loads_nothing_heavy() -> None:
    modules = [module_of(path) for path in python_files("src") if room_of(path) in LIGHT]
    light = ["octavo", *LISTING, *(name for name in modules if not name.endswith("__main__"))]
    loads_none(HEAVY, f"import importlib\nfor name in {light!r}: importlib.import_module(name)")


def test_a_training_does_not_load_the_compiler_of_torch(tmp_path: Path) -> None:
    """It takes a second, and nothing of a run that is not compiled needs it."""
    text = tmp_path / "text.txt"
    text.write_text("All work and no play makes a dull day. " * 60, encoding="utf-8")
    small = ["training.steps=2", "model.layers=1", "model.width=16", "model.heads=2", "sampling.tokens=5"]
    loads_none(
        ("torch._dynamo", "sympy"),
        f"import octavo; octavo.train('quick', {str(text)!r}, {str(tmp_path / 'run')!r}, overrides={small!r})",
    )


def loads_none(names: tuple[str, ...], program: str) -> None:
    program += f"\nimport sys; print([name for name in {names!r} if name in sys.modules], file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=PACKAGE.parent, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == "[]"


def test_help_waits_for_no_library() -> None:
    """`octavo --help` imports every verb, and none of what help does without."""
    code = (
        "import sys; from octavo.cli.app import import_verbs; import_verbs([]); "
        "print('octavo.cli.tune.rl' in sys.modules, *{'pydantic', 'yaml', 'numpy', 'torch'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True)
    assert done.stdout.split() == ["True"]
