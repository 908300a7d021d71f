"""How a run ends: with a verdict that has evidence and remedies, also where it broke off."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

import octavo
from octavo.cli.app import app
from octavo.errors import DivergedError, in_python
from octavo.evaluation import samples
from octavo.evaluation.sentences import against_source, standing
from octavo.run.folder import Progress
from octavo.run.settings import resolve
from octavo.tasks.forecast.objective import Forecast

LENGTH = samples.LENGTH
RECIPE: dict[str, Any] = {
    "model": {"layers": 1, "width": 16, "heads": 2, "context": 16},
    "training": {"batch": 4, "steps": 40, "checkpoint_every": 20, "precision": "float32", "threads": 1},
    "evaluation": {"every": 4},
    "logging": {"every": 2},
    "sampling": {"tokens": 10},
}


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "text.txt"
    path.write_text("".join(f"a fox and {number} dogs. " for number in range(400)))
    return path


def test_a_run_ends_in_a_verdict_with_evidence(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(samples, "LENGTH", LENGTH)  # long enough to recite
    run = octavo.train(RECIPE, text=text, out=tmp_path / "run")
    stored = json.loads((tmp_path / "run" / "evaluation.json").read_text("utf-8"))
    assert {"memorization", "diversity", "positions", "ends", "diagnostics"} <= set(stored)
    kinds = {diagnostic["kind"] for diagnostic in stored["diagnostics"]}
    assert {"learning", "baselines", "memorization"} <= kinds
    assert stored["verdict"][0].startswith("Validation loss")
    assert run.report is not None
    page = run.report.read_text("utf-8")
    log = (tmp_path / "run" / "log.txt").read_text("utf-8")
    for diagnostic in stored["diagnostics"]:
        assert diagnostic["evidence"]
        assert diagnostic["sentence"] in stored["verdict"]
        assert diagnostic["sentence"] in log
        assert page.count(diagnostic["sentence"].replace("'", "&#39;")) == 1
    assert "→ train longer" in page and page.count("training.steps=80") == 1
    assert in_python(stored["next"]["command"]) in log and not stored["next"]["resume"]
    assert all(not diagnostic["settings"] for diagnostic in stored["diagnostics"][1:])
    again = run.evaluate()
    assert {key: again[key] for key in again} == {key: stored[key] for key in again}
    kept = (tmp_path / "run" / "samples" / "judged.jsonl").read_text("utf-8").splitlines()
    assert len(kept) == 16


def test_a_run_is_judged_on_all_that_is_held_out_at_its_end(text: Path, tmp_path: Path) -> None:
    """Also where a part is enough on the way."""
    few = {"evaluation.tokens": 32, "training.steps": 4}
    run = octavo.train(RECIPE, text=text, out=tmp_path / "run", overrides=few, quiet=True)
    stored = json.loads((tmp_path / "run" / "evaluation.json").read_text("utf-8"))
    assert stored["tokens"] == len(run.dataset.validation.tokens) - 1 > 32


def test_a_run_that_diverged_leaves_a_report_with_the_remedy(text: Path, tmp_path: Path) -> None:
    wild = {"training.optimizer.learning_rate": 1e39, "training.checkpoint_every": 1}
    with pytest.raises(DivergedError):
        octavo.train(RECIPE, text=text, out=tmp_path / "run", overrides=wild)
    stored = json.loads((tmp_path / "run" / "evaluation.json").read_text("utf-8"))
    diagnostic = stored["diagnostics"][0]
    assert diagnostic["kind"] == "diverged" and diagnostic["sentence"] in stored["verdict"]
    assert diagnostic["settings"] == ["training.optimizer.learning_rate=3.33e+38"]
    page = (tmp_path / "run" / "report" / "index.html").read_text("utf-8")
    assert "Diverged." in page and "learning_rate=3.33e+38" in page


def words_of(command: str) -> list[str]:
    program, verb, *words = shlex.split(command)
    assert (program, verb) == ("octavo", "train")
    return words


def ran(words: list[str]) -> None:
    done = app(["train", *words], exit_on_error=False, print_error=False, result_action="return_value")
    assert done == 0


def test_the_command_under_the_verdict_starts_a_run_that_is_this_one_but_for_what_it_sets(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    octavo.train(RECIPE, text="text.txt", out="a run")
    step = json.loads((tmp_path / "a run" / "evaluation.json").read_text("utf-8"))["next"]
    config, out, folder, *settings = words_of(step["command"])
    assert (out, folder, step["resume"]) == ("--out", "a run-2", False)
    assert resolve(config) == resolve(RECIPE, "text.txt")
    assert resolve(config, None, settings).training.steps == 80
    ran([config, out, folder, *settings, "training.steps=3"])
    assert (tmp_path / "a run-2" / "report" / "index.html").is_file()


def test_a_constant_learning_rate_lets_the_run_go_on(text: Path, tmp_path: Path) -> None:
    constant = {"training.schedule": "constant"}
    run = octavo.train(RECIPE, text=text, out=tmp_path / "run", overrides=constant)
    step = run.evaluate()["next"]
    assert step["resume"] and step["command"].count(str(tmp_path / "run")) == 2
    assert "--resume" in words_of(step["command"])
    ran(words_of(step["command"]))
    went_on = octavo.Run.open(tmp_path / "run", checkpoint="last")
    longer = {**constant, "training.steps": went_on.step}
    at_once = octavo.train(RECIPE, text=text, out=tmp_path / "once", overrides=longer)
    last = octavo.Run.open(at_once.folder.path, checkpoint="last")
    assert went_on.step == 80
    assert (went_on.checkpoint.folder / "model.safetensors").read_bytes() == (
        last.checkpoint.folder / "model.safetensors"
    ).read_bytes()


def test_the_headline_names_what_is_not_beaten_too() -> None:
    known = {
        "uniform": {"loss": 4.0, "bits_per_byte": 6.0},
        "unigram": {"loss": 3.0, "bits_per_byte": 4.5},
        "ngram": {"loss": 1.5, "bits_per_byte": 2.2, "order": 6},
        "gzip": {"loss": None, "bits_per_byte": 3.5},
        "xz": {"loss": None, "bits_per_byte": 2.9},
    }
    said = standing({"val_loss": 2.0, "bits_per_byte": 3.0, "baselines": known})
    assert said.endswith("better than guessing, unigram and gzip, not better than 6-gram and xz.")
    worse = standing({"val_loss": 5.0, "bits_per_byte": 7.0, "baselines": known})
    assert worse.endswith("byte: not better than guessing, unigram, 6-gram, gzip and xz.")


def test_the_time_in_all_is_that_of_all_sessions(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It said "6 s in all, 144 s of them training" after a run had gone on."""
    out = tmp_path / "run"
    octavo.train(RECIPE, text=text, out=out, overrides={"training.schedule": "constant"})
    state = Progress.state

    def as_if_long_ago(self: Progress) -> dict[str, Any]:
        return {**state(self), "seconds": self.seconds + 500, "elapsed": self.elapsed + 700}

    monkeypatch.setattr(Progress, "state", as_if_long_ago)
    longer = {"training.schedule": "constant", "training.steps": 60}
    octavo.train(RECIPE, text=text, out=out, overrides=longer, resume=True)
    monkeypatch.undo()
    octavo.train(RECIPE, text=text, out=out, overrides={**longer, "training.steps": 64}, resume=True)
    seconds = json.loads((out / "evaluation.json").read_text("utf-8"))["seconds"]
    assert seconds["in_all"] >= 700 and seconds["training"] >= 500
    assert seconds["first_loss"] is None


def test_no_share_is_said_of_a_density() -> None:
    result = {"source_entropy": 2.0, "val_loss": 2.5}
    assert "this one is 0.5000 (25.0%) above it" in against_source(result)
    assert "this one is 0.5000 above it" in against_source(result, Forecast.unit)
