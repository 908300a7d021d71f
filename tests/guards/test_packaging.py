"""What is installed is what is declared: exact pins, nothing of a machine in them, extras that exist."""

from __future__ import annotations

import ast
import re
import sys
import tomllib

from guards.common import ROOT, python_files, tree

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
DECLARED = [*PROJECT["dependencies"], *(line for extra in EXTRAS.values() for line in extra)]
CONSTRAINTS = (ROOT / "constraints.txt").read_text(encoding="utf-8")
PINS = [line for line in CONSTRAINTS.splitlines() if not line.startswith("#")]


def plain(requirement: str) -> str:
    """A requirement's name in the form in which package names are compared."""
    return re.sub(r"[-_.]+", "-", re.split(r"[\[<>=!~ ;]", requirement)[0]).lower()


def test_constraints_are_exact_pins_and_nothing_else() -> None:
    assert not [line for line in PINS if not re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][0-9a-z.]*", line)]


def test_every_dependency_is_pinned() -> None:
    assert {plain(line) for line in DECLARED} - {"octavo"} <= {plain(line) for line in PINS}


def test_doctor_knows_every_extra_and_its_packages() -> None:
    from octavo.run.doctor import EXTRAS as KNOWN

    offered = {
        name: {plain(line) for line in lines} for name, lines in EXTRAS.items() if name not in ("all", "dev")
    }
    assert {name: set(packages) for name, (packages, _) in KNOWN.items()} == offered


def test_errors_name_extras_that_exist() -> None:
    named = [
        value.value
        for path in python_files("src")
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("MissingExtra")
        for value in [*node.args[1:2], *(word.value for word in node.keywords if word.arg == "extra")]
        if isinstance(value, ast.Constant)
    ]
    assert set(named) <= set(EXTRAS)


def test_only_declared_packages_are_imported() -> None:
    names = {plain(line).replace("-", "_") for line in DECLARED}
    known = {*sys.stdlib_module_names, *names, "octavo", "yaml"}
    known |= {"pydantic_core", "annotated_types", "markupsafe"}  # parts of pydantic and of jinja2
    known |= {"llama_cpp", "PIL", "sklearn"}  # of llama-cpp-python, pillow and scikit-learn
    imported = {
        name.split(".")[0]
        for path in python_files("src")
        for node in ast.walk(tree(path))
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom) and not node.level
            else []
        )
    }
    assert imported <= known
