"""A verdict's advice is a command that does what it says."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from octavo.config import check, load_recipe
from octavo.config import parts as own_parts
from octavo.config.parts import OwnParts
from octavo.evaluation.diagnostics import Facts
from octavo.run.folder import NextStep, RunFolder, going_on, next_step


def advised(out: Path, settings: tuple[str, ...], **training: Any) -> NextStep:
    tree = load_recipe("quick").model_dump(mode="json")
    tree["training"] |= training
    found = next_step(RunFolder(out), check(tree), [{"remedy": "do this", "settings": settings}])
    assert found is not None and found.remedy == "do this"
    return found


def test_other_settings_start_a_new_run_beside_this_one(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    found = advised(tmp_path / "run", ("training.steps=80",))
    assert not found.resume
    expected = f"octavo train {tmp_path}/run/config.yaml --out {tmp_path}/run-2 training.steps=80"
    assert found.command == expected


def test_where_the_learning_rate_is_constant_more_steps_resume_it(tmp_path: Path) -> None:
    found = advised(tmp_path / "run", ("training.steps=80",), schedule="constant")
    assert found.resume
    assert found.command.endswith(f"--out {tmp_path}/run --resume training.steps=80")


@pytest.mark.parametrize("passes", [None, 4.0])
@pytest.mark.parametrize("closer", [(), ("evaluation.every=0.05",)])
def test_a_run_by_the_clock_gets_as_many_minutes_again(
    tmp_path: Path, passes: float | None, closer: tuple[str, ...]
) -> None:
    """More steps would have to fit into the same minutes."""
    tree = load_recipe("quick").model_dump(mode="json")
    tree["training"] |= {"minutes": 1.5, "passes": passes}
    longer = Facts(recipe=check(tree), steps=40, vocab_size=10, train_tokens=10).longer
    assert "training.minutes=3" in longer and not any("steps" in setting for setting in longer)
    found = advised(tmp_path / "run", longer + closer, minutes=1.5, passes=passes)
    assert found.resume
    words = " ".join(("--resume --minutes 1.5", *closer))
    assert found.command == f"octavo train --out {tmp_path}/run {words}"


def test_what_a_run_cannot_take_on_starts_a_new_one_with_the_same_minutes(tmp_path: Path) -> None:
    found = advised(tmp_path / "run", ("model.dropout=0.2",), minutes=1.5)
    assert not found.resume and found.command.endswith("model.dropout=0.2")


@pytest.mark.parametrize(("paths", "piped"), [(["book.txt"], ""), (["-"], "cat TEXT | ")])
def test_a_stopped_run_goes_on_by_a_whole_command(tmp_path: Path, paths: list[str], piped: str) -> None:
    tree = load_recipe("quick").model_dump(mode="json") | {"corpus": {"kind": "files", "paths": paths}}
    folder = RunFolder(tmp_path / "my run")
    command = f"{piped}octavo train --out '{tmp_path}/my run' --resume"
    assert going_on(folder, check(tree)) == f"{command}    continues it"
    assert "as many processes as before" in going_on(folder, check(tree), processes=2)
    tree["training"] |= {"minutes": 3}
    assert going_on(folder, check(tree)).startswith(f"{command}    uses")


def test_files_of_own_parts_are_named_and_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = "/my parts/it's.py"
    monkeypatch.setattr(own_parts, "_loaded", {path: OwnParts(path, "0", ("norm.own",))})
    found = advised(tmp_path / "my run", ("training.steps=80",))
    words = shlex.split(found.command)
    assert words[:2] == ["octavo", "train"] and words[-3:] == ["training.steps=80", "--parts", path]
    assert str(tmp_path / "my run" / "config.yaml") in words
    tree = load_recipe("quick").model_dump(mode="json")
    tree["training"] |= {"minutes": 3}
    said = going_on(RunFolder(tmp_path / "my run"), check(tree))
    resumes = ["octavo", "train", "--out", str(tmp_path / "my run"), "--resume", "--parts", path]
    assert said.startswith(f"{shlex.join(resumes)} ")
    told = own_parts.how_to_load([{"path": "/other parts/b.py", "sha256": "1"}])
    assert told is not None and told.endswith("add --parts '/other parts/b.py'")
