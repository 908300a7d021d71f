"""The same in a few lines of Python."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import octavo
from octavo.errors import ConfigError, CorpusError

RECIPE = {
    "model": {"layers": 1, "width": 16, "heads": 2, "context": 16},
    "training": {"batch": 4, "steps": 6, "checkpoint_every": 2, "precision": "float32"},
    "evaluation": {"every": 3},
    "sampling": {"tokens": 10},
}


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "text.txt"
    path.write_text("a fox and a dog. " * 60)
    return path


def test_train_generate_evaluate_open_resume_replay(text: Path, tmp_path: Path) -> None:
    run = octavo.train(RECIPE, text=text, out=tmp_path / "run")
    written = run.generate("a fox", tokens=8, seed=1)
    assert len(written) == 8
    assert written == octavo.Run.open(tmp_path / "run").generate("a fox", tokens=8, seed=1)
    assert run.evaluate()["val_loss"] == run.metrics[-1]["loss"]
    assert run.logits("a fox").shape == (5, run.tokenizer.vocab_size)
    assert np.isfinite(run.logits("a fox")).all()
    assert run.report is not None and run.report.is_file()
    more = octavo.train(RECIPE, text=text, out=tmp_path / "run", resume=True, overrides={"training.steps": 8})
    assert more.step == 8
    again, differing = octavo.replay(tmp_path / "run", tmp_path / "again")
    assert again.step == 8
    assert all("config" not in sentence for sentence in differing)


def test_errors_are_octavos_own_and_leave_the_name_free(text: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean"):
        octavo.train(RECIPE, text=text, out=tmp_path / "run", overrides=["training.stepz=3"])
    with pytest.raises(CorpusError):
        octavo.train(RECIPE, text=tmp_path / "nowhere", out=tmp_path / "run")
    with pytest.raises(octavo.OctavoError, match="context"):
        octavo.train(RECIPE, text=text, out=tmp_path / "run", overrides=["model.context=5000"])
    assert not (tmp_path / "run").exists()
    assert octavo.train(RECIPE, text=text, out=tmp_path / "run").step == 6
