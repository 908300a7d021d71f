"""Parts in a file of the user's own: loaded when named, by what was hashed, whole or not at all."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from octavo.config import check, plugins, register
from octavo.config.parts import PartConfig, parts, registered, restore
from octavo.config.plugins import changed_parts, how_to_load, load_parts, load_told_parts
from octavo.errors import ConfigError
from octavo.util.processes import TOLD, plain_environment

PART = """
from typing import Literal
from octavo.config import register
from octavo.model.norms import LayerNormConfig

@register("norm")
class OwnConfig(LayerNormConfig):
    kind: Literal["own"] = "own"
    times: int = {times}
"""


UNAWARE = """
from typing import Literal
from octavo.config.parts import PartConfig, register

@register("norm")
class OwnConfig(PartConfig):
    kind: Literal["rms"] = "rms"
"""


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    check({})
    before = registered()
    monkeypatch.setattr(plugins, "_loaded", {})
    monkeypatch.setitem(TOLD, plugins.VARIABLE, "[]")
    yield
    restore(before)
    assert registered() == before


def write(path: Path, times: int = 1) -> Path:
    path.write_text(PART.format(times=times), encoding="utf-8")
    return path


def test_a_part_is_known_also_after_configs_were_checked(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no norm 'own'"):
        check({"model": {"norm": "own"}})
    path = write(tmp_path / "mine.py")
    loaded = load_parts(path)
    assert loaded.parts == ("norm.own",) and loaded.path == str(path)
    assert loaded.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert check({"model": {"norm": {"kind": "own", "times": 7}}}).model.norm.times == 7
    assert check({"model": {"norm": "rms"}}).model.norm.kind == "rms"
    assert not list(tmp_path.glob("__pycache__"))


def test_a_registered_class_is_known_also_after_configs_were_checked() -> None:
    """As in a notebook."""

    class Later(PartConfig):
        """Later."""

        kind: Literal["later"] = "later"

    register("schedule")(Later)
    assert check({"training": {"schedule": "later"}}).training.schedule == Later()


def test_an_edited_file_takes_the_place_of_the_old(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.py", times=1)
    first = load_parts(path)
    assert load_parts(str(path)) is first
    assert changed_parts([{"path": str(path), "sha256": first.sha256}]) == []
    write(path, times=2)
    second = load_parts(path)
    assert second.sha256 != first.sha256 and check({"model": {"norm": "own"}}).model.norm.times == 2
    assert changed_parts([{"path": str(path), "sha256": first.sha256}]) == [str(path)]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("def f(:", "line 1: SyntaxError"),
        ("x = 1\n1 / 0\n", "line 2: ZeroDivisionError: division by zero"),
        ("import a_module_that_is_none", "line 1: ModuleNotFoundError"),
        ("x = 1", "registers no part"),
        ("raise SystemExit(0)", "SystemExit"),
        ("\0", "cannot be loaded"),
        (PART.format(times=1).replace('"own"', '"rms"'), "line 6: There is a norm 'rms' already"),
        (UNAWARE, "There is a norm 'rms' already"),
        (PART.format(times=1) + "\n1 / 0\n", "ZeroDivisionError"),
        (PART.format(times=1).replace('"norm"', '"nothing"'), "line 6: There is no room 'nothing'"),
    ],
)
def test_what_cannot_be_loaded_leaves_nothing(tmp_path: Path, content: str, words: str) -> None:
    path = tmp_path / "mine.py"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError, match=words):
        load_parts(path)
    assert "own" not in parts("norm") and plugins.loaded_parts() == []
    with pytest.raises(ConfigError, match="there is no norm 'own'"):
        check({"model": {"norm": "own"}})


def test_the_name_of_a_part_that_is_not_imported_yet_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(UNAWARE, encoding="utf-8")
    code = "import sys; from octavo.config.plugins import load_parts; load_parts(sys.argv[1])"
    command = [sys.executable, "-c", code, path]
    done = subprocess.run(command, env=plain_environment(), capture_output=True, text=True, check=False)
    assert done.returncode and "There is a norm 'rms' already (octavo.model.norms)" in done.stderr


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_parts(tmp_path / "none.py")


def test_a_file_that_breaks_while_it_is_edited_keeps_the_old_parts(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.py", times=3)
    load_parts(path)
    path.write_text("1 / 0", encoding="utf-8")
    with pytest.raises(ConfigError):
        load_parts(path)
    assert check({"model": {"norm": "own"}}).model.norm.times == 3


def test_children_load_what_their_parent_has_loaded_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(plugins.VARIABLE, json.dumps([{"path": "somebody-elses.py", "sha256": ""}]))
    assert plain_environment()[plugins.VARIABLE] == "[]"
    path = write(tmp_path / "mine.py")
    load_parts(path)
    monkeypatch.setenv(plugins.VARIABLE, plain_environment()[plugins.VARIABLE])
    monkeypatch.setattr(plugins, "_loaded", {})
    load_told_parts()
    assert [each.path for each in plugins.loaded_parts()] == [str(path)]
    monkeypatch.setattr(plugins, "_loaded", {})
    write(path, times=5)
    with pytest.raises(ConfigError, match="has changed since it was loaded"):
        load_told_parts()


def test_children_find_the_neighbours_that_their_parent_found(tmp_path: Path) -> None:
    """Python looks into the folder that it is called in for the parent, and not for a child."""
    (tmp_path / "own_helper_of_parts.py").write_text("TIMES = 1\n")
    content = "from own_helper_of_parts import TIMES\n" + PART.format(times=1)
    (tmp_path / "mine.py").write_text(content, encoding="utf-8")
    code = (
        "from octavo.config.plugins import load_parts\nfrom octavo.util.processes import TOLD\n"
        "load_parts('mine.py')\nprint(TOLD['OCTAVO_PARTS'])"
    )
    parent = [sys.executable, "-c", code]
    found = subprocess.run(
        parent, cwd=tmp_path, env=plain_environment(), capture_output=True, text=True, check=True
    )
    assert json.loads(found.stdout)[0]["neighbours"]
    child = [sys.executable, "-P", "-c", "from octavo.config.plugins import load_told_parts as f; f()"]
    subprocess.run(child, cwd=tmp_path, env=plain_environment(OCTAVO_PARTS=found.stdout), check=True)
    assert not load_parts(write(tmp_path / "alone.py")).neighbours


def test_a_run_says_which_files_it_needs(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.py")
    told = [{"path": str(path), "sha256": hashlib.sha256(path.read_bytes()).hexdigest(), "parts": []}]
    assert f"--parts {path}" in str(how_to_load(told))
    load_parts(path)
    assert how_to_load(told) is None
    assert how_to_load(["junk", {}, {"path": 3}]) is None
