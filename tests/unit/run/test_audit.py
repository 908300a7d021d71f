"""What came out beside what was promised: when it is looked at, and when it teaches the next promises."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import octavo
from octavo.config import Recipe, load_recipe
from octavo.errors import CorpusError
from octavo.run import audit
from octavo.run import train as runs_train
from octavo.run.audit import audited, earlier_promises, own_settings, text_of
from octavo.util.terminal import Console
from unit.run.small import RECIPE

PROMISE = {"minutes": 5.0, "bits": 2.2, "within": 0.05, "law_bits": 2.1, "law_error": 0.1}


@pytest.mark.parametrize(
    ("overrides", "own"),
    [
        ((), []),
        (("seed=3", "sampling.every=0", "evaluation.every=0.5", "split=documents", "training.threads=1"), []),
        (
            ("model.width=64", "training.keep=2", "training.optimizer.learning_rate=1"),
            ["model.width", "training.optimizer.learning_rate"],
        ),
        (("tokenizer=bpe", "splitter=1", "training=1"), ["tokenizer", "splitter", "training"]),
        ({"model.counts": "none", "corpus.kind": "files"}, ["model.counts"]),
    ],
)
def test_which_settings_the_promise_knows_nothing_of(overrides: Any, own: list[str]) -> None:
    assert own_settings(overrides) == own


class Told(Console):
    """Keeps what was said."""

    def __init__(self) -> None:
        super().__init__(quiet=True)
        self.told: list[str] = []

    def say(self, text: str) -> None:
        self.told.append(text)


class Ended:
    """As much of a run as an audit asks for."""

    def __init__(
        self, manifest: dict[str, Any] | None, *, minutes: float | None = 5.0, test: float = 0.05
    ) -> None:
        tree = {"training": {"minutes": minutes, "steps": 5}, "test": test}
        self.config: Recipe = load_recipe(tree)
        self.folder = self
        self.manifest = manifest
        self.path, self.dataset = Path("runs/bard"), None

    def made_by(self) -> dict[str, Any] | None:
        return self.manifest


@pytest.fixture
def looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path / "cache"))
    found: list[Any] = []

    def look(run: Any, console: Console, dataset: None, *, audits: bool) -> dict[str, float]:
        assert audits
        found.append(run)
        return {"bits_per_byte": 2.3}

    monkeypatch.setattr(audit, "look", look)
    return found


def after(run: Ended, *overrides: str) -> list[str]:
    console = Told()
    audited(run, console, overrides)  # pyrefly: ignore  # as much of a run as it needs
    return console.told


def test_what_came_out_is_said_and_noted(looks: list[Any]) -> None:
    (said,) = after(Ended({"auto": {"promise": PROMISE, "reasons": {}, "own": []}}))
    assert "2.20 ± 0.05" in said and "2.300 on the test split, worse than promised" in said
    assert earlier_promises() == [pytest.approx(2.0)], (
        "in deviations of the law, not of the calibrated promise"
    )


def test_standard_input_is_no_place_that_tells_texts_apart() -> None:
    manifest = {"data": {"text": "abc"}}
    piped = load_recipe({"corpus": {"kind": "files", "paths": ["-"]}})
    named = load_recipe({"corpus": {"kind": "files", "paths": ["/a.txt", "-"]}})
    assert text_of(manifest, piped) == ["text abc"]
    assert text_of(manifest, named) == ["text abc", "paths /a.txt"] and text_of({}, piped) == []


def test_promises_of_different_texts_count_apart_and_those_of_one_text_as_one(looks: list[Any]) -> None:
    for held in ("abc", "def", "abc"):
        after(Ended({"auto": {"promise": PROMISE}, "data": {"text": held}}))
    assert len(earlier_promises()) == 2


def test_settings_of_ones_own_teach_the_next_promises_nothing(looks: list[Any]) -> None:
    assert len(after(Ended({"auto": {"promise": PROMISE, "own": ["model.width"]}}))) == 1
    assert len(after(Ended({"auto": {"promise": PROMISE}}), "training.patience=1")) == 1
    assert earlier_promises() == []
    assert len(after(Ended({"auto": {"promise": PROMISE}}), "training.keep=2")) == 1
    assert len(earlier_promises()) == 1


@pytest.mark.parametrize(
    ("manifest", "options"),
    [
        (None, {}),
        ({"recipe": "quick"}, {}),
        ({"auto": "damaged"}, {}),
        ({"auto": {"promise": {"minutes": 5.0, "bits": 2.2, "within": 0.05}, "reasons": {}}}, {}),
        ({"auto": {"promise": PROMISE | {"law_error": 0.0}, "reasons": {}}}, {}),
        ({"auto": {"promise": PROMISE}, "test_looks": [{"loss": 1.0}]}, {}),
        ({"auto": {"promise": PROMISE}}, {"minutes": 6.0}),
        ({"auto": {"promise": PROMISE}}, {"minutes": 4.0}),
        ({"auto": {"promise": PROMISE}}, {"minutes": None}),
        ({"auto": {"promise": PROMISE}}, {"test": 0.0}),
    ],
)
def test_nothing_is_looked_at_where_nothing_was_promised_or_it_was_before(
    looks: list[Any], manifest: Any, options: dict[str, Any]
) -> None:
    assert after(Ended(manifest, **options)) == []
    assert looks == []


def test_a_look_that_fails_is_said_and_spoils_nothing(
    looks: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def changed(*_: Any, **__: Any) -> None:
        raise CorpusError("The run's text has changed.")

    monkeypatch.setattr(audit, "look", changed)
    said, how = after(Ended({"auto": {"promise": PROMISE}}))
    assert "octavo eval runs/bard --test" in how
    assert said.endswith("could not be compared with what came out: The run's text has changed.")
    assert earlier_promises() == []


def test_a_promise_that_cannot_be_noted_spoils_nothing(
    looks: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "a file"
    blocked.write_text(json.dumps("no folder"))
    monkeypatch.setenv("OCTAVO_CACHE", str(blocked / "cache"))
    said = after(Ended({"auto": {"promise": PROMISE, "own": []}}))
    assert len(said) == 2 and "could not be noted" in said[1]


def test_who_trains_in_python_is_told_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path / "cache"))
    (tmp_path / "text.txt").write_text("a fox and a dog. " * 60 + "the hen sat on a mat. " * 20)
    minutes = 0.05
    recipe = RECIPE | {"training": RECIPE["training"] | {"steps": None, "minutes": minutes}, "test": 0.1}
    told = {"auto": {"promise": PROMISE | {"minutes": minutes}}}
    out = tmp_path / "run"

    def looked() -> int:
        return len(json.loads((out / "manifest.json").read_text()).get("test_looks", ()))

    console = Told()
    runs_train.train(recipe, tmp_path / "text.txt", out, console=console, metadata=told)
    assert looked() == len(earlier_promises()) == 1
    assert any("on the test split, " in said for said in console.told)
    octavo.train(out=out, resume=True, quiet=True)
    assert looked() == 1, "once is enough"
    without_look = json.loads((out / "manifest.json").read_text())
    del without_look["test_looks"]
    (out / "manifest.json").write_text(json.dumps(without_look))
    octavo.train(out=out, resume=True, quiet=True)
    assert looked() == 1, "a run that was stopped before its audit is audited when it goes on"
    octavo.train(out=out, minutes=0.03, resume=True, quiet=True)
    assert looked() == 1, "it was promised for other minutes"
