"""What runs and studies write is there whole or not at all: no file is written under the name that it is read by.

`octavo.util.files` writes aside, syncs, and renames in one step. Lines are appended, to files whose last line may be
missing. Nothing else is written but what is named here, for a reason.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from guards.common import name_of, python_files, tree

ROOMS = ("src/octavo/run", "src/octavo/planning", "src/octavo/tasks", "src/octavo/studies")
WRITERS = {"write_text", "write_bytes"}
IN_PLACE = {
    "src/octavo/tasks/records/files.py::save_records": "in a new folder, of which nothing stays if anything fails",
    "src/octavo/run/saved.py::_write": "in a folder aside, which takes its name when it is whole",
    "src/octavo/tasks/forecast/dataset.py::_dataset": "in a folder aside, which takes its name when it is whole",
    "src/octavo/tasks/forecast/report.py::save_plot": "where the user says, by matplotlib",
    "src/octavo/studies/cluster.py::performed_there": "in a temporary folder",
    "src/octavo/studies/cluster.py::write_files": "in a temporary folder",
    "src/octavo/studies/cluster.py::_unpack": "in a folder aside, which takes its name when it is whole",
}


def asides(source: ast.AST) -> set[str]:
    """Names of files that `written_aside` is going to rename."""
    items = [item for node in ast.walk(source) if isinstance(node, ast.With) for item in node.items]
    return {
        item.optional_vars.id
        for item in items
        if isinstance(item.optional_vars, ast.Name)
        and ast.unparse(item.context_expr).partition("(")[0].split(".")[-1] == "written_aside"
    }


def opens_to_write(call: ast.Call) -> bool:
    """`open(path, "w")`, `path.open("xb")`, `path.open(mode="r+")`; not what opens a handle or something in memory."""
    function = ast.unparse(call.func)
    if function.split(".")[-1] != "open" or any(word.arg == "fileobj" for word in call.keywords):
        return False
    given = [*call.args, *(word.value for word in call.keywords if word.arg == "mode")]
    modes = [str(each.value) for each in given if isinstance(each, ast.Constant)]
    return any(set(mode) <= set("rwxabt+") and set(mode) & set("wx+") and "a" not in mode for mode in modes)


def written_in_place(source: ast.AST) -> Iterator[tuple[str, int]]:
    """Function and line of each call that writes a file under its own name."""
    for function in ast.walk(source):
        if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        aside = asides(function)
        for call in ast.walk(function):
            if not isinstance(call, ast.Call):
                continue
            writes = isinstance(call.func, ast.Attribute) and call.func.attr in WRITERS
            owner = call.func.value if isinstance(call.func, ast.Attribute) else None
            into_aside = isinstance(owner, ast.Name) and owner.id in aside
            if (writes or opens_to_write(call)) and not into_aside:
                yield function.name, call.lineno


def found() -> dict[str, int]:
    return {
        f"{name_of(path)}::{function}": line
        for path in python_files(*ROOMS)
        for function, line in written_in_place(tree(path))
    }


def test_runs_and_studies_write_no_file_under_its_final_name() -> None:
    assert {place: line for place, line in found().items() if place not in IN_PLACE} == {}


def test_the_exceptions_are_still_needed() -> None:
    assert set(IN_PLACE) <= set(found())


@pytest.mark.parametrize(
    ("line", "seen"),
    [
        ("path.write_text(text, encoding='utf-8')", True),
        ("(folder / name).write_bytes(content)", True),
        ("open(path, 'w', encoding='utf-8')", True),
        ("path.open('xb')", True),
        ("path.open(mode='r+b')", True),
        ("with written_aside(path) as aside: other.write_text(text)", True),
        ("with written_aside(path) as aside: aside.write_text(text)", False),
        ("with storage_errors(folder), files.written_aside(path) as aside: aside.open('wb')", False),
        ("replace_text(path, text)", False),
        ("path.open('a', encoding='utf-8')", False),
        ("path.open('rb')", False),
        ("open(path)", False),
        ("Run.open(path, checkpoint='last')", False),
        ("tarfile.open(fileobj=content, mode='w')", False),
        ("os.fdopen(handle, 'w')", False),
    ],
)
def test_the_guard_knows_what_writes_in_place(line: str, seen: bool) -> None:
    assert bool(list(written_in_place(ast.parse(f"def write():\n    {line}")))) is seen
