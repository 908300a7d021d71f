"""Runs that commit f2d6df2 trained: opened, used, evaluated and resumed by this version, with the same figures.

`f2d6df2/` holds a plain run and one with counts beside the network, as that commit wrote them; only `report/` is left
out. `octavo train RECIPE --text text.txt --out NAME` in a folder `/tmp/golden` made them, and a run is never made anew
by a later version: that later versions read these is the test. `config.yaml` holds the recipe.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import octavo

STORED = Path(__file__).parent / "f2d6df2"
TEXT = "/tmp/golden/text.txt"  # where the text lay
GREEDY = {  # 30 tokens each
    ("plain", "the fox"): " slept under the oak.\nwhen the rain came, the fox slept under the o",
    ("plain", "an owl"): "ler the why wwwhy knew.\nwhen the rain came, the",
    ("counts", "the fox"): " slept under the fox slept und",
    ("counts", "a dog"): " of the fox slept under the fo",
}
LOSSES = {  # on the validation split, and on the whole text
    "plain": (0.854892113095238, 0.9978068614776583),
    "counts": (0.2066596355181967, 0.21424714304021492),
}


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def moved(name: str, folder: Path) -> Path:
    """A copy of a stored run in `folder` whose text lies where it lies here: a run's settings name it."""
    run = folder / name
    shutil.copytree(STORED / name, run, symlinks=True)
    for config in run.rglob("config.yaml"):
        config.write_text(config.read_text("utf-8").replace(TEXT, str(STORED / "text.txt")), "utf-8")
    for path in run.rglob("MANIFEST.json"):
        config = path.with_name("config.yaml")
        manifest = json.loads(path.read_text("utf-8"))
        del manifest["sha256"]
        manifest["files"]["config.yaml"] = {"size": config.stat().st_size, "sha256": sha256(config)}
        seal = hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()
        path.write_text(json.dumps({**manifest, "sha256": seal}), "utf-8")
    return run


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize(("name", "prompt"), GREEDY)
def test_it_writes_the_same_text(name: str, prompt: str) -> None:
    for links in ("best", "last"):
        assert (STORED / name / links).is_symlink()
    run = octavo.Run.open(STORED / name)
    assert run.generate(prompt, tokens=30, temperature=0) == GREEDY[name, prompt]


@pytest.mark.parametrize("name", LOSSES)
def test_it_is_evaluated_to_the_same_loss(name: str, tmp_path: Path) -> None:
    run = octavo.Run.open(moved(name, tmp_path))
    own, whole = run.evaluate()["val_loss"], run.evaluate(STORED / "text.txt")["val_loss"]
    assert (own, whole) == pytest.approx(LOSSES[name], abs=1e-5)
    stored = json.loads((STORED / name / "evaluation.json").read_text("utf-8"))
    assert own == pytest.approx(stored["val_loss"], abs=1e-5)


def rows(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text("utf-8").splitlines()]


@pytest.mark.parametrize("name", LOSSES)
def test_it_is_resumed_to_the_same_losses(name: str, tmp_path: Path) -> None:
    """That commit resumed a run to the bit, so the stored rows are what its own resuming wrote, too."""
    run = moved(name, tmp_path)
    newest = (run / "last").resolve()
    shutil.rmtree(newest)
    for file in ("evaluation.json", "best", "last"):
        (run / file).unlink()
    left = max((run / "checkpoints").iterdir())
    for link in ("best", "last"):
        (run / link).symlink_to(left.relative_to(run))
    octavo.train(out=run, resume=True, quiet=True)
    before, after = rows(STORED / name), rows(run)
    assert [(row["event"], row["step"]) for row in after] == [(row["event"], row["step"]) for row in before]
    assert [row["loss"] for row in after] == pytest.approx([row["loss"] for row in before], abs=1e-4)
    assert (run / "last").resolve().name == newest.name
    assert {path.name for path in (run / "report").iterdir()} >= {"index.html", "loss.svg"}


def test_it_is_listed_and_described() -> None:
    def said(*words: object) -> str:
        command = [sys.executable, "-m", "octavo", *map(str, words)]
        done = subprocess.run(
            command, capture_output=True, text=True, encoding="utf-8", env={**os.environ, "PYTHONUTF8": "1"}
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    listed = json.loads(said("runs", STORED, "--json"))
    assert {Path(str(run["run"])).name for run in listed} == set(LOSSES), listed
    for name, (own, _) in LOSSES.items():
        facts = json.loads(said("info", STORED / name, "--json"))
        assert facts["step"] == facts["best_step"] == int((STORED / name / "best").readlink().name[5:])
        assert facts["best_validation_loss"] == pytest.approx(own) and facts["finished"]
        assert sum("best" in state for state in facts["checkpoints"].values()) == 1
        assert all("whole" in state for state in facts["checkpoints"].values())
