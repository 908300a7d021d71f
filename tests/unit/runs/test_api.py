"""The same in a few lines of Python."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import octavo
from octavo.errors import ConfigError, CorpusError, MissingExtra
from unit.runs.small import RECIPE


@pytest.mark.parametrize(
    ("package", "setting"),
    [("tiktoken", "tokenizer=gpt2"), ("torch.utils.tensorboard", "logging.tensorboard=true")],
)
def test_where_an_extra_is_missing_nothing_is_left(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, setting: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra):
        octavo.train(RECIPE, text=text, out=tmp_path / "run", overrides=[setting], quiet=True)
    assert not (tmp_path / "run").exists()


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


def test_without_a_recipe_the_one_of_a_minute_is_taken(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    small = {"model.layers": 1, "model.width": 16, "training.steps": 2, "training.precision": "float32"}
    run = octavo.train(text=text, overrides=small)
    assert run.folder is not None and run.folder.path == Path("runs/minute")
    assert run.config == octavo.load_recipe(
        "minute", [*(f"{key}={value}" for key, value in small.items()), f"corpus.paths=[{text}]"]
    )
    assert "recipe: minute" in capsys.readouterr().err
    assert octavo.plan(text=text, overrides=small)["steps"] == 2


def test_a_plan_is_quiet_unless_it_is_asked_not_to_be(text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = octavo.plan(RECIPE, text, time_step=False)
    assert not capsys.readouterr().err and plan["steps"] == 6
    octavo.plan(RECIPE, text, time_step=False, overrides={"validation": 0.2}, quiet=False)
    assert "one document" in capsys.readouterr().err
    by_epochs = {"training.steps": None, "training.epochs": 2, "batches": "sliding"}
    asked = octavo.plan(RECIPE, overrides=by_epochs, vocab_size=30, time_step=False)
    assert "add text=PATH" in asked["warnings"][0]


def test_a_short_text_makes_a_short_run(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = octavo.train(RECIPE, text=text, out=tmp_path / "run", overrides={"training.passes": 0.2})
    assert run.step == 3  # 0.2 · 918 of 4 · 16 tokens a step
    assert "3 of 6 steps (a text so short is seen 0.2 times)" in capsys.readouterr().err
    more = octavo.train(
        RECIPE, text=text, out=tmp_path / "run", resume=True, overrides={"training.passes": 0.3}
    )
    assert more.step == 5


def test_a_run_shows_itself(text: Path, tmp_path: Path) -> None:
    out = tmp_path / "a <run>\x1b"
    octavo.train(RECIPE, text=text, out=out, quiet=True)
    run = octavo.Run.open(out)
    assert "step 6" in repr(run) and "1 layers, 2 heads, width 16" in repr(run)
    assert "model" not in run.__dict__, "a look loads no weights"
    page = run._repr_html_()
    assert "a &lt;run&gt;\\x1b" in page and "\x1b" not in page and "<svg" in page
    figure = run.plot()
    figure.savefig(tmp_path / "loss.png")
    assert figure._repr_svg_() == (out / "report" / "loss.svg").read_text(encoding="utf-8")
    alone = octavo.Run.open(run.checkpoint.folder)
    assert "<svg" not in alone._repr_html_()
    with pytest.raises(octavo.OctavoError, match="checkpoint alone"):
        alone.plot()
