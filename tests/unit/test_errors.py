"""Errors name things as their reader does: options on the command line, arguments in Python."""

from __future__ import annotations

import subprocess
import sys

import pytest

from octavo.config import check
from octavo.errors import ConfigError, DivergedError, InputError, in_python


@pytest.mark.parametrize(
    ("command_line", "python"),
    [
        ("add --out DIR", "add out=DIR"),
        ("choose another --out", "choose another out="),
        (
            "go on with it by --resume, or choose another --out",
            "go on with it by resume=True, or choose another out=",
        ),
        (
            "octavo train RECIPE --text PATH --out DIR makes one",
            "octavo.train(RECIPE, text=PATH, out=DIR) makes one",
        ),
        (
            "give files or folders: --text PATH (or - for stdin)",
            "give files or folders: text=PATH (or - for stdin)",
        ),
        ("--jobs 1", "jobs=1"),
        ("octavo corpus get x --accept-change", "octavo corpus get x --accept-change"),
        (
            "for example: ocrmypdf --skip-text in.pdf out.pdf",
            "for example: ocrmypdf --skip-text in.pdf out.pdf",
        ),
        ("a text -- with dashes, and its pre--fix", "a text -- with dashes, and its pre--fix"),
    ],
)
def test_words(command_line: str, python: str) -> None:
    error = InputError("There is no text.", remedy=command_line)
    assert str(error) == f"There is no text.\n  → {python}"
    assert error.as_command_line == f"There is no text.\n  → {command_line}"
    assert in_python(python) == python


def test_the_names_of_the_package_are_known_before_they_are_used() -> None:
    program = "import octavo, sys; print(*dir(octavo)); print('torch' in sys.modules); octavo.train"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    names, loaded = done.stdout.splitlines()
    assert {"train", "plan", "replay", "Run", "Hook", "OctavoError", "load_recipe"} <= set(names.split())
    assert loaded == "False"


def test_the_facts_of_an_error_are_its_fields() -> None:
    diverged = DivergedError(7, "the loss is nan", remedy="a lower rate")
    assert (diverged.step, diverged.event) == (7, "Step 7 diverged: the loss is nan.")
    assert diverged.what.startswith(diverged.event) and diverged.remedy == "a lower rate"
    assert ConfigError("Only this.").problems == ["Only this."]
    with pytest.raises(ConfigError, match="2 problems in the config:\n  · ") as found:
        check({"seed": "x", "sede": 1})
    assert len(found.value.problems) == 2 and all(each in found.value.what for each in found.value.problems)
