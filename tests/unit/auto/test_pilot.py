"""A pilot: a short run of the family's smallest model, and no run where there is no time for it."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
import torch

from octavo.auto import facts as pilots
from octavo.auto import family
from octavo.auto.facts import LEAST, MOST, SIZE, TRIED, Pilot
from octavo.auto.family import BYTES, dropout_for, parameters_of, recipe_of
from octavo.data import Dataset
from octavo.evaluation.reading_on import Heard
from octavo.ngram.mixing import compiled
from octavo.run.data import build_dataset
from octavo.run.evaluate import evaluate_split
from octavo.run.run import Run
from octavo.run.settings import resolve
from octavo.run.train import train
from octavo.training.device import Runtime
from octavo.util.terminal import Console

QUIET = Console(quiet=True)


class Listening(Console):
    """Keeps the last step that was told."""

    last = 0.0

    def advance(self, done: float, note: str, *, first: bool = False) -> None:
        self.last = done


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "text.txt"
    path.write_text(
        "".join(f"{n * n % 91} is the square of {n} less {n * n // 91} times 91.\n" for n in range(700))
    )
    return path


def pilot_of(text: Path) -> Pilot:
    recipe = resolve(recipe_of(SIZE, steps=1), text, ())
    return Pilot(pilots.counted(build_dataset(recipe, QUIET), recipe, BYTES))


@pytest.mark.parametrize(
    "mixed",
    [
        pytest.param(True, marks=pytest.mark.skipif(compiled() is None, reason="there is no C compiler")),
        False,
    ],
)
@pytest.mark.usefixtures("plain_reports")
def test_it_ends_where_an_ordinary_run_of_these_settings_ends(
    mixed: bool, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slow twin: training by the recipe, whole; with the dropout of so many steps."""
    if not mixed:
        monkeypatch.setattr(family, "counts_here", lambda: {"kind": "kneser-ney", "recent": family.RECENT})
    pilot, steps = pilot_of(text), 24
    tokens = len(pilot.dataset.train.tokens)
    worn = parameters_of(SIZE, pilot.dataset.tokenizer.vocab_size) / tokens
    dropout = dropout_for(steps * SIZE.step_tokens / tokens, worn)
    assert dropout != dropout_for(LEAST * SIZE.step_tokens / tokens, worn)
    recipe = recipe_of(SIZE, steps=steps, dropout=dropout)
    recipe["training"] |= {"precision": "float32", "checkpoint_every": steps}
    recipe["evaluation"]["every"] = steps
    before, after = run_of(train(recipe, text, tmp_path / "run", quiet=True).path, pilot.dataset)
    assert pilot.before == pytest.approx(before, rel=1e-3)
    counted = pilot.counts.train(False).tables
    assert 0 < pilot.steps_in(1000.0) <= MOST, "what is timed changes nothing"
    share = pilot.share(steps, QUIET)
    assert share == pytest.approx(after / before, rel=1e-4)
    assert pilot.counts.train(False).tables is counted, "the same text is not counted twice"


def run_of(path: Path, dataset: Dataset) -> tuple[float, float]:
    """Bits of a token of the validation split before training and after it, of counting alone and of the model: both
    reading on, or as they were looked at on the way."""
    run = Run.open(path, checkpoint="last", dataset=dataset)
    if (heard := Heard.of(run.model, dataset.validation.tokens)) is not None:
        evaluate_split(run.model, dataset.validation, run.config, dataset.tokenizer, cpu(), heard=heard)
        found = heard.read()
        assert found is not None
        return found.alone / found.tokens / math.log(2), found.total / found.tokens / math.log(2)
    rows = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    losses = [row["loss"] / math.log(2) for row in rows if row["event"] == "validation"]
    return losses[0], losses[-1]


def cpu() -> Runtime:
    return Runtime(torch.device("cpu"), "float32", 1)


@pytest.mark.parametrize(
    ("mixed", "seconds", "steps"),
    [
        (False, 299, 0),
        (False, 300, 300),
        (False, 700, 700),
        (False, 5000, 1200),
        (True, 299, 0),
        (True, 700, 300),
    ],
)
def test_it_has_as_many_steps_as_there_is_time_and_use_for(
    text: Path, monkeypatch: pytest.MonkeyPatch, mixed: bool, seconds: float, steps: int
) -> None:
    """The first step prepares what others use, 50 seconds here; then there is one a second."""
    pilot, threads = pilot_of(text), torch.get_num_threads()
    pilot.facts = replace(pilot.facts, counts={"kind": "mixing"} if mixed else family.N_GRAMS)
    learned: list[int] = []

    def learn(steps: int, *_: object) -> bool:
        learned.append(steps)
        return True

    monkeypatch.setattr(pilot, "_learn", learn)
    monkeypatch.setattr(pilots.time, "monotonic", lambda: (0.0, 50.0, 60.0)[len(learned)])
    assert pilot.steps_in(seconds) == steps and learned == [1, TRIED]
    assert pilot.seconds == 60.0 and torch.get_num_threads() == threads


def test_no_step_is_tried_in_a_time_that_is_too_short_for_any_machine(text: Path) -> None:
    pilot = pilot_of(text)
    assert pilot.steps_in(1.5) == 0
    assert pilot.seconds == 0.0, "half a minute has better use for it"


def test_it_is_given_up_when_its_time_is_over(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    console, pilot, ticks, threads = Listening(quiet=True), pilot_of(text), count(), torch.get_num_threads()
    monkeypatch.setattr(pilots.time, "monotonic", lambda: 9.0 * next(ticks))
    assert pilot.share(300, console, most_seconds=8.0) is None
    assert console.last == 1 and pilot.seconds > 0
    assert torch.get_num_threads() == threads


def test_a_text_that_is_too_short_for_its_context_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "short.txt"
    path.write_text("a short text, of which little is left.\n" * 3)
    pilot = pilot_of(path)
    assert pilot.steps_in(1000.0) == 0 and pilot.share(300, QUIET) is None
