"""The test split: nothing but a counted look reads it."""

from __future__ import annotations

import json
import math
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import octavo
from octavo.config import check
from octavo.data import Dataset
from octavo.errors import (
    CheckpointError,
    ConfigError,
    CorpusError,
    InputError,
    OctavoError,
    RunFolderError,
    StorageError,
)
from octavo.report import ReportData
from octavo.run import test_split
from octavo.run.data import build_dataset
from octavo.run.run import Run
from octavo.util.terminal import Console
from unit.run.small import RECIPE

TEXT = "a fox and a dog. " * 60 + "the hen sat on a mat. " * 20


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run that was trained where every read of the test split raises."""
    folder = tmp_path_factory.mktemp("tested")
    (folder / "text.txt").write_text(TEXT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OCTAVO_CACHE", str(folder / "cache"))

        def touched(dataset: Dataset) -> None:
            raise AssertionError("somebody read the test split")

        patch.setattr(Dataset, "test", property(touched))
        settings = RECIPE | {"split": "files", "validation": 0.1, "test": 0.15}
        settings["evaluation"] = {"every": 3, "tokens": 32}  # on the way; a look is at everything
        return octavo.train(settings, folder / "text.txt", folder / "run", quiet=True)


@pytest.fixture(autouse=True)
def cache(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTAVO_CACHE", str(run.path.parent / "cache"))


def manifest(run: Run) -> dict[str, object]:
    return json.loads((run.path / "manifest.json").read_text())


def test_each_look_is_counted_and_said_on_the_page(run: Run) -> None:
    page = run.path / "report" / "index.html"
    assert "nobody has looked at it yet" in page.read_text() and "test loss" not in page.read_text()
    assert "test_looks" not in manifest(run)
    first = run.evaluate(test=True)
    assert (first["split"], first["looks"]) == ("test", 1)
    assert f"{first['loss']:.4f}" in page.read_text() and "looked at once" in page.read_text()
    counted = first["baselines"]["ngram"]["bits_per_byte"]
    assert f"the best n-gram has {counted:.3f} there" in page.read_text(), (
        "the control stands beside the result"
    )
    again = Run.open(run.path).evaluate(test=True)
    assert (again["loss"], again["looks"]) == (first["loss"], 2)
    assert "looked at 2 times" in page.read_text()
    kept = manifest(run)["test_looks"]
    assert isinstance(kept, list) and [look["loss"] for look in kept] == [first["loss"]] * 2
    assert ReportData.from_run(run.path).held_out.startswith("The validation split is what was chosen on")


def test_the_figures_are_of_the_end_of_the_text(run: Run) -> None:
    found = run.evaluate(test=True)
    assert found["tokens"] + 1 == found["bytes"] > 32, "all but the first"
    held = TEXT[len(TEXT) - found["bytes"] :]
    assert found["bytes"] == pytest.approx(0.15 * len(TEXT), abs=2)
    elsewhere = run.path.parent / "held.txt"
    elsewhere.write_text(held)
    same = run.evaluate(elsewhere)
    assert same["val_loss"] == pytest.approx(found["loss"], rel=1e-6)
    for name in ("ngram", "gzip", "xz_given_train"):
        assert same["baselines"][name] == found["baselines"][name]
    assert math.isfinite(found["baselines"]["ngram"]["loss"])


def test_a_page_that_cannot_be_written_does_not_undo_the_look(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = run.evaluate(test=True)["looks"]

    def full(*_: object) -> None:
        raise StorageError("The disk is full.")

    monkeypatch.setattr(test_split, "write_report", full)
    with pytest.warns(UserWarning, match="does not show this look yet: The disk is full"):
        assert run.evaluate(test=True)["looks"] == before + 1


def test_a_look_at_another_model_is_not_the_result(run: Run) -> None:
    page = run.path / "report" / "index.html"
    kept = manifest(run)
    (run.path / "manifest.json").write_text(json.dumps(kept | {"test_looks": []}))
    Run.open(run.path, checkpoint="3").evaluate(test=True)
    assert "of step 3, no result" in page.read_text() and "was looked at once on the way" in page.read_text()
    assert "The result, on the split kept out of everything" in page.read_text()
    run.evaluate(test=True)
    assert "no result" not in page.read_text() and "looked at 2 times" in page.read_text()
    assert "The result, on the split kept out of everything" not in page.read_text()
    result = f"{run.evaluate(test=True)['loss']:.4f}"
    Run.open(run.path, checkpoint="3").evaluate(test=True)
    assert result in page.read_text() and "no result" not in page.read_text(), "whatever is looked at later"
    (run.path / "manifest.json").write_text(json.dumps(kept))


def test_looks_at_the_same_time_are_all_counted_or_refused(run: Run) -> None:
    before = run.evaluate(test=True)["looks"]
    seen: list[object] = []

    def one() -> None:
        try:
            seen.append(Run.open(run.path).evaluate(test=True)["looks"])
        except RunFolderError:
            seen.append(None)

    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counted = sorted(number for number in seen if isinstance(number, int))
    assert counted == list(range(before + 1, before + 1 + len(counted))) and counted


def test_a_look_that_cannot_be_counted_shows_nothing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="cannot count"):
        Run.open(run.path / "checkpoints" / "step-000006").evaluate(test=True)
    with pytest.raises(InputError, match="not both"):
        run.evaluate(run.path.parent / "text.txt", test=True)
    text = run.path.parent / "text.txt"
    for more in ("a fox. ", "more"):  # of the characters that it had, and with new ones
        text.write_text(TEXT + more)
        with pytest.raises(CorpusError, match="changed"):
            run.evaluate(test=True)
        with pytest.raises(CorpusError, match="changed"):
            run.evaluate()
        (run.path.parent / "other.txt").write_text("the fox sat on a mat and a hen. " * 9)
        assert "ngram" not in run.evaluate(run.path.parent / "other.txt")["baselines"], (
            "it may hold that text now"
        )
    text.write_text(TEXT)
    kept = (run.path / "manifest.json").read_text()
    (run.path / "manifest.json").write_text(json.dumps(json.loads(kept) | {"test_looks": [{"loss": "x"}]}))
    with pytest.raises(CheckpointError, match="test_looks"):
        run.evaluate(test=True)
    (run.path / "manifest.json").write_text(kept)
    infinite = SimpleNamespace(as_dict=lambda: {"val_loss": math.inf})
    monkeypatch.setattr(test_split, "figures_of", lambda *_, **__: infinite)
    with pytest.raises(OctavoError, match="no figure"):
        run.evaluate(test=True)
    assert (run.path / "manifest.json").read_text() == kept


def test_without_a_test_split_it_says_so(text: Path) -> None:
    run = octavo.train(RECIPE, text, text.parent / "run", quiet=True)
    assert "no test split" in (run.path / "report" / "index.html").read_text()
    assert "test" not in manifest(run)["data"]["splits"]  # pyrefly: ignore
    with pytest.raises(InputError, match="no test split"):
        run.evaluate(test=True)


def test_the_dataset_without_one_is_the_one_that_it_was(text: Path) -> None:
    """Shares of 0 give the key of datasets that were made before there were test splits."""
    recipe = check(RECIPE | {"corpus": {"kind": "files", "paths": [str(text)]}})
    found = build_dataset(recipe, Console(quiet=True))
    assert "test" not in found.manifest and found.test is None
    three = build_dataset(recipe.model_copy(update={"test": 0.05}), Console(quiet=True))
    assert three.folder != found.folder and three.test is not None
    assert np.array_equal(three.train.tokens, found.train.tokens[: len(three.train.tokens)])


@pytest.mark.parametrize(
    ("settings", "said"),
    [({"test": 0.95}, "leave nothing"), ({"test": -0.1}, "test"), ({"test": "x"}, "test")],
)
def test_shares_that_leave_nothing_are_refused(settings: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        check(settings)
