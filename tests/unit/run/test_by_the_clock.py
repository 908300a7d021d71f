"""Runs by the clock that end, are asked to go on, are repeated, or die before they began."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import octavo
from octavo import cli
from octavo.errors import CorpusError, InputError, OctavoError
from octavo.run import deadline, train
from octavo.run import train as runs_train
from octavo.run.folder import RunFolder, ends_before
from octavo.util.files import replace_text
from octavo.util.terminal import Console
from unit.run.small import RECIPE

BY_THE_CLOCK = RECIPE | {
    "training": RECIPE["training"] | {"steps": None, "minutes": 0.03, "checkpoint_every": 50},
    "evaluation": {"every": 25},
    "test": 0.1,
}


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(deadline, "LAST", 0.3)  # seconds that the end of so small a run takes
    path = tmp_path / "text.txt"
    path.write_text("a fox and a dog. " * 60 + "the hen sat on a mat. " * 20)
    return path


def steps(out: Path) -> list[int]:
    return [row["step"] for row in RunFolder(out).rows()]


def test_a_run_that_has_ended_goes_on_for_more_minutes_alone(text: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    octavo.train(BY_THE_CLOCK, text, out, quiet=True)
    before = steps(out)
    octavo.train(out=out, resume=True, quiet=True)
    assert steps(out) == before
    octavo.train(out=out, minutes=0.06, resume=True, quiet=True)  # enough for a step on a busy machine too
    assert steps(out)[: len(before)] == before and steps(out)[-1] > before[-1]


@pytest.mark.parametrize("passes", ["null", "1.0"])
def test_a_run_that_got_more_minutes_is_repeated_to_the_bit(text: Path, tmp_path: Path, passes: str) -> None:
    """Also what was done at its first end: a look, and a checkpoint that may be the best. More minutes lift a limit of
    passes, with which fewer steps were planned."""
    out = tmp_path / "run"
    octavo.train(BY_THE_CLOCK, text, out, overrides=[f"training.passes={passes}"], quiet=True)
    octavo.train(out=out, minutes=0.02, resume=True, quiet=True)
    octavo.train(out=out, minutes=0.02, resume=True, quiet=True)
    _, differing = octavo.replay(out, tmp_path / "again", console=Console(quiet=True))
    assert differing == []
    assert steps(tmp_path / "again") == steps(out)


def test_the_ends_that_a_run_had() -> None:
    assert ends_before(100, []) == set()
    assert ends_before(100, [[50, 80, 50], [80, 120, 60], [90, 110, 70], [110, 111, 75], [111, 200, 80]]) == {
        80,
        110,
        111,
    }


@pytest.mark.parametrize("change", ["other", "gone"])
def test_what_cannot_be_repeated_is_said_and_leaves_nothing(text: Path, tmp_path: Path, change: str) -> None:
    octavo.train(RECIPE, text, tmp_path / "run", quiet=True)
    if change == "gone":
        text.unlink()
    else:
        text.write_text(text.read_text().replace("fox", "cat"))
    with pytest.raises(CorpusError, match=r"changed since this run began|no file"):
        octavo.replay(tmp_path / "run", tmp_path / "again", console=Console(quiet=True))
    assert not (tmp_path / "again").exists()


@pytest.mark.parametrize("late", [True, False])
def test_what_was_told_of_a_run_outlives_a_kill_before_its_manifest(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    """Also one right after the recipe is written, with which a run can be resumed."""
    out, told = tmp_path / "run", {"recipe": "minutes", "auto": {"promise": {"minutes": 5.0}}}

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    def written(path: Path, text: str) -> None:
        replace_text(path, text)
        if path.name == "config.yaml":
            killed()

    with monkeypatch.context() as patch:
        patch.setattr(*((runs_train, "prepared", killed) if late else (train, "replace_text", written)))
        with pytest.raises(KeyboardInterrupt) as stopped:
            runs_train.train(RECIPE, text, out, quiet=True, metadata=told)
    assert f"octavo train --out {out} --resume" in stopped.value.__notes__[0]
    assert json.loads((out / "manifest.json").read_text())["state"] == "preparing"
    octavo.train(out=out, resume=True, quiet=True)
    manifest = json.loads((out / "manifest.json").read_text())
    assert {name: manifest[name] for name in told} == told
    assert "state" not in manifest


def test_a_kill_before_the_recipe_is_written_is_in_no_new_runs_way(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(path: Path, text: str) -> None:
        if path.name == "config.yaml":
            raise KeyboardInterrupt
        replace_text(path, text)

    with monkeypatch.context() as patch:
        patch.setattr(train, "replace_text", killed)
        with pytest.raises(KeyboardInterrupt):
            runs_train.train(RECIPE, text, tmp_path / "run", quiet=True, metadata={"auto": {"old": True}})
    octavo.train(RECIPE, text, tmp_path / "run", quiet=True)
    assert "auto" not in json.loads((tmp_path / "run" / "manifest.json").read_text())


def test_other_settings_in_the_place_of_all_training_are_refused(text: Path) -> None:
    for overrides in (["training={batch: 4}"], {"training": {"batch": 4}}):
        with pytest.raises(InputError, match="in the place of all that"):
            octavo.train(text=text, minutes=5, overrides=overrides, quiet=True)  # pyrefly: ignore


def test_a_run_is_no_part_of_the_text_that_it_stands_in(text: Path, tmp_path: Path) -> None:
    folder = tmp_path / "school"
    folder.mkdir()
    text.rename(folder / "text.txt")
    out = folder / "runs" / "first"
    octavo.train(RECIPE, folder, out, quiet=True)
    octavo.train(out=out, resume=True, quiet=True)
    again = octavo.train(RECIPE, folder, folder / "runs" / "second", quiet=True)
    copied = folder / "copied"
    shutil.copytree(out, copied, ignore=shutil.ignore_patterns("samples", ".lock"), symlinks=True)
    third = octavo.train(RECIPE, folder, folder / "runs" / "third", quiet=True)
    held = [
        json.loads((run / "manifest.json").read_text())["data"]["text"]
        for run in (out, again.path, third.path)
    ]
    assert len(set(held)) == 1


def test_a_text_that_is_a_folder_with_nothing_but_a_run_is_none(text: Path, tmp_path: Path) -> None:
    octavo.train(RECIPE, text, tmp_path / "only" / "run", quiet=True)
    with pytest.raises(OctavoError):
        octavo.train(RECIPE, tmp_path / "only", tmp_path / "next", quiet=True)


@pytest.mark.parametrize("work", ["octavo.run.finish.finish", "octavo.run.audit.audited"])
def test_an_interruption_after_the_training_says_how_the_run_resumes(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], work: str
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    recipe, out = tmp_path / "recipe.yaml", tmp_path / "run"
    recipe.write_text(json.dumps(RECIPE))
    monkeypatch.setattr(work, interrupted)
    if work.endswith("audited"):  # what is done for runs by minutes
        stored = RunFolder.made_by
        monkeypatch.setattr(RunFolder, "made_by", lambda self: (own := stored(self)) and {**own, "auto": {}})
    with pytest.raises(SystemExit) as ended:
        cli.main(["train", str(recipe), "--text", str(text), "--out", str(out)])
    assert ended.value.code == 130
    assert f"interrupted\n  → octavo train --out {out} --resume " in capsys.readouterr().err
    monkeypatch.undo()
    assert octavo.train(out=out, resume=True, quiet=True).step > 0
