"""octavo train … training.start_from=RUN: from the command line to the page, killed on the way, the other run gone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from e2e.asking import refused
from e2e.forked import Octavo, Result
from e2e.test_resume import results
from octavo.run.folder import RunFolder

TUNING = """\
training: {steps: 12, batch: 4, checkpoint_every: 4, precision: float32, device: cpu, threads: 1}
tokenizer: {special: ["<|user|>"]}
model: {dropout: 0.2, context: 12}
evaluation: {every: 4}
sampling: {tokens: 20}
logging: {every: 1}
"""


@pytest.fixture(scope="module")
def base(octavo: Octavo, finished: Path) -> Path:
    """A run to start from, a recipe that leaves its model open, and another text."""
    (octavo.folder / "tuning.yaml").write_text(TUNING)
    (octavo.folder / "other.txt").write_text("who said the fox runs? the lazy cat said it.\n" * 60)
    return Path(shutil.copytree(finished, octavo.folder / "base", symlinks=True))


def tune(octavo: Octavo, out: Path, base: Path, *more: str, **options: object) -> Result:
    start = f"training.start_from={base}"
    return octavo("train", "tuning.yaml", "--text", "other.txt", "--out", out, start, *more, **options)


@pytest.fixture(scope="module")
def tuned(octavo: Octavo, base: Path) -> Path:
    """A run that started from it and was never stopped; read it, don't write."""
    out = octavo.folder / "tuned"
    done = tune(octavo, out, base)
    assert done.code == 0, done.err
    assert "step 0/12  as it starts  validation" in done.err
    assert "what it started from" in done.err
    return out


def test_without_a_recipe_all_is_the_other_runs(octavo: Octavo, base: Path, tmp_path: Path) -> None:
    start = f"training.start_from={base.name}"  # seen from the folder of the command
    done = octavo("train", "--text", "other.txt", "--out", tmp_path / "run", start, "training.steps=5")
    assert done.code == 0, done.err
    assert f"recipe: that of {base}" in done.err
    shown = octavo("train", "--text", "other.txt", start, "training.steps=5", "--dry-run")
    assert shown.code == 0 and shown.out == (tmp_path / "run" / "config.yaml").read_text()
    assert f"start_from: {base}" in shown.out and "width: 16" in shown.out
    planned = octavo("plan", start, "--json")
    assert planned.code == 0, planned.err
    trained = json.loads((tmp_path / "run" / "evaluation.json").read_text())
    assert json.loads(planned.out)["parameters"] == trained["parameters"]


def test_everything_works_when_the_other_run_is_gone(octavo: Octavo, base: Path, tmp_path: Path) -> None:
    gone = Path(shutil.copytree(base, tmp_path / "gone", symlinks=True))
    out = tmp_path / "run"
    assert tune(octavo, out, gone).code == 0
    shutil.rmtree(gone)
    evaluated = octavo("eval", out, "--json")
    assert evaluated.code == 0, evaluated.err
    found, kept = json.loads(evaluated.out), json.loads((out / "evaluation.json").read_text())
    assert found["val_loss"] == pytest.approx(kept["val_loss"], rel=1e-6)
    assert found["baselines"]["start"]["loss"] == pytest.approx(kept["baselines"]["start"]["loss"], rel=1e-6)
    assert octavo("eval", out, "--text", "text.txt").code == 0
    assert octavo("generate", out, "--tokens", "5").code == 0
    assert str(gone / "checkpoints") in octavo("info", out).out
    replayed = octavo("train", "--replay", out, "--out", tmp_path / "again")
    assert replayed.code == 0 and "was repeated bit for bit" in replayed.out, replayed.err
    longer = octavo("train", "--out", out, "--resume", "training.steps=14")
    assert longer.code == 0, longer.err
    refused(tune(octavo, tmp_path / "new", gone), str(gone), "does not exist")
    assert not (tmp_path / "new").exists()


@pytest.fixture(scope="module")
def operations(octavo: Octavo, base: Path, tmp_path_factory: pytest.TempPathFactory) -> int:
    """How many changes to its folder such a run makes."""
    out = tmp_path_factory.mktemp("counted") / "run"
    counted = tune(octavo, out, base, watch=out, die_at=10**9)
    assert counted.code == 0, counted.err
    return counted.operations


@pytest.mark.parametrize("share", [0.15, 0.3, 0.5, 0.7, 0.9])
def test_killed_anywhere_it_goes_on_to_the_same_bits(
    octavo: Octavo, base: Path, tuned: Path, operations: int, tmp_path: Path, share: float
) -> None:
    """Once the run has begun, it needs the other one no more."""
    gone = Path(shutil.copytree(base, tmp_path / "gone", symlinks=True))
    out = tmp_path / "run"
    killed = tune(octavo, out, gone, watch=out, die_at=int(share * operations))
    assert killed.code < 0
    if RunFolder(out).begun:
        shutil.rmtree(gone)
    done = tune(octavo, out, gone, "--resume")
    assert done.code == 0, done.err
    assert results(out) == results(tuned)
    assert not [path for path in out.rglob("*") if "aside" in path.name or path.name.startswith(".tmp")]


def test_what_is_no_run_to_start_from(octavo: Octavo, base: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    refused(tune(octavo, out, tmp_path / "nothing"), "does not exist")
    refused(tune(octavo, out, octavo.folder / "text.txt"), "is not a run folder")
    refused(tune(octavo, out, base, "model.width=32"), "model.width: 32 in the recipe, 16 in the run")
    refused(tune(octavo, out, base, "tokenizer.kind=byte"), "tokenizer.kind: 'byte' in the recipe")
    refused(tune(octavo, out, base, "model.context=99"), "model.context: 99", "allow 1 to 16")
    refused(octavo("plan", "tuning.yaml", f"training.start_from={tmp_path / 'nothing'}"), "does not exist")
    refused(octavo("train", "tuning.yaml", "--dry-run", "--text", "other.txt", f"training.start_from={tmp_path}"),
            "is not a run folder")  # fmt: skip
    broken = Path(shutil.copytree(base, tmp_path / "broken", symlinks=True))
    weights = broken / "best" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-7])
    refused(tune(octavo, out, broken), "No training can start from", "damaged")
    stopped = octavo("train", "recipe.yaml", "--text", "text.txt", "--out", tmp_path / "half",
                     watch=tmp_path / "half", die_at=150)  # fmt: skip
    assert stopped.code < 0
    refused(tune(octavo, out, tmp_path / "half"), "is not finished", "--resume")
    assert not out.exists()
