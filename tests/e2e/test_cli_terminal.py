"""What a terminal shows: nothing that it would obey, no word broken, one time left. Files and pipes get the text."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from e2e.conftest import SENTENCES
from e2e.forked import Octavo
from octavo.util.terminal import shown

TITLE = "\x1b]0;mine\x07"  # names the terminal's window
HOSTILE = f"red \x9b31m{TITLE} \x7f\u202eback\u202c over\rwritten"
OBEYED = re.compile(
    "[\x00-\x06\x07\x08\x0b\x0c\x0e-\x1a\x7f-\x9f\u202a-\u202e\u2066-\u2069]|\x1b\\]|\r(?!\n)"
)
DRAWING = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")
"""What `rich` draws with: colours, and moves of the cursor."""


@pytest.fixture(scope="module")
def hostile(octavo: Octavo, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A run on a text and in a folder that hold control characters, trained on a terminal; and what that showed."""
    folder = tmp_path_factory.mktemp("hostile")
    text = folder / f"text {TITLE}.txt"
    text.write_text((f"{HOSTILE}.\n" + "".join(SENTENCES)) * 40, encoding="utf-8")
    out = folder / f"run {TITLE}"
    code, seen = octavo.on_a_terminal(
        "train", "recipe.yaml", "--text", text, "--out", out, "training.steps=12", "sampling.tokens=60"
    )
    assert code == 0, seen
    return out, seen


def test_training_shows_control_characters_as_escapes(hostile: tuple[Path, str]) -> None:
    out, seen = hostile
    assert not OBEYED.search(DRAWING.sub("", seen))
    assert "\\x1b]0;mine\\x07" in seen  # in the report's path
    log = (out / "log.txt").read_bytes().decode("utf-8")
    assert not OBEYED.search(log) and "\x1b" not in log


def test_pages_show_control_characters_as_escapes(hostile: tuple[Path, str]) -> None:
    out, _ = hostile
    page = (out / "report" / "index.html").read_bytes().decode("utf-8")
    assert not OBEYED.search(page) and "\x1b" not in page
    assert "\\x1b]0;mine\\x07" in page


def test_generated_text_is_shown_on_terminals_and_raw_in_pipes(
    octavo: Octavo, hostile: tuple[Path, str]
) -> None:
    out, _ = hostile
    drawn = ("generate", out, "--prompt", "red \x1b", "--tokens", "400", "--temperature", "5")
    piped = octavo(*drawn)
    assert OBEYED.search(piped.out) and "\x1b" in piped.out
    code, seen = octavo.on_a_terminal(*drawn)
    assert (code, seen) == (0, piped.err + shown(piped.out))
    for form in (["--samples", "2"], ["--correct", "vocabulary"], ["--json"]):
        code, seen = octavo.on_a_terminal(*drawn, *form)
        assert code == 0 and not OBEYED.search(DRAWING.sub("", seen)), form
    code, seen = octavo.on_a_terminal(*drawn, "--json")
    assert (
        json.loads(seen.removeprefix(piped.err))["samples"][0]["text"]
        == json.loads(octavo(*drawn, "--json").out)["samples"][0]["text"]
    )


def test_a_table_of_prompts_shows_control_characters_as_escapes(
    octavo: Octavo, hostile: tuple[Path, str], tmp_path: Path
) -> None:
    (tmp_path / "prompts.yaml").write_text('["red \\e", "dog"]', encoding="utf-8")
    code, seen = octavo.on_a_terminal(
        "generate", hostile[0], "--prompts", tmp_path / "prompts.yaml", "--temperature", "5"
    )
    assert code == 0 and not OBEYED.search(DRAWING.sub("", seen))


def test_errors_show_control_characters_as_escapes(octavo: Octavo) -> None:
    asked = ("info", f"no{HOSTILE}")
    code, seen = octavo.on_a_terminal(*asked)
    assert code == 2 and not OBEYED.search(seen)
    assert "\\x1b]0;mine\\x07" in seen
    assert f"no{HOSTILE}" in octavo(*asked).err
    code, seen = octavo.on_a_terminal(f"tra{TITLE}in")
    assert code == 2 and not OBEYED.search(DRAWING.sub("", seen))


def test_a_path_that_is_no_text_is_printed_in_its_own_bytes(
    octavo: Octavo, finished: Path, tmp_path: Path
) -> None:
    name = os.fsdecode(b"run\xff")
    shutil.copytree(finished, f"{tmp_path}/{name}", symlinks=True)
    told = octavo("runs", tmp_path)
    assert (told.code, told.err) == (0, "") and f"\n{name} " in told.out
    assert json.loads(octavo("runs", tmp_path, "--json").out)[0]["run"] == f"{tmp_path}/{name}"
    code, seen = octavo.on_a_terminal("runs", tmp_path)
    assert code == 0 and "\nrun\\udcff " in seen
