"""A pilot: the run that the law knows as its shortest, and no run where there is no time for it."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path

import pytest
import torch

from octavo.auto import pilot as pilots
from octavo.auto.family import BYTES, dropout_for, parameters_of, recipe_of
from octavo.auto.pilot import SIZE, TRIED, Pilot
from octavo.ground.console import Console
from octavo.runs.data import build_dataset
from octavo.runs.settings import resolve
from octavo.runs.train import train

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
    return Pilot(build_dataset(resolve(recipe_of(SIZE, steps=1), text, ()), QUIET), BYTES)


def test_it_ends_where_an_ordinary_run_of_these_settings_ends(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slow twin: training by the recipe, whole."""
    steps = 80
    monkeypatch.setattr(pilots, "STEPS", steps)
    pilot = pilot_of(text)
    tokens = len(pilot.dataset.train.tokens)
    worn = parameters_of(SIZE, pilot.dataset.tokenizer.vocab_size) / tokens
    recipe = recipe_of(SIZE, steps=steps, dropout=dropout_for(steps * SIZE.step_tokens / tokens, worn))
    recipe["training"] |= {"precision": "float32", "checkpoint_every": steps}
    recipe["evaluation"]["every"] = steps
    run = train(recipe, text, tmp_path / "run", quiet=True)
    rows = [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]
    found = {row["step"]: row["bits_per_byte"] for row in rows if row["event"] == "validation"}
    share = pilot.share(1000.0, QUIET)
    assert share == pytest.approx(found[steps] / found[0], rel=1e-4)


@pytest.mark.parametrize(("seconds", "most", "last"), [(1.0, 299.0, TRIED), (9.0, 8.0, 1)])
def test_it_is_given_up_when_its_steps_are_slow(
    text: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, most: float, last: int
) -> None:
    """After a few steps that tell that all would take too long, and at once when the time is over."""
    console, pilot, ticks, threads = Listening(quiet=True), pilot_of(text), count(), torch.get_num_threads()
    monkeypatch.setattr(pilots.time, "monotonic", lambda: seconds * next(ticks))
    assert pilot.share(most, console) is None
    assert console.last == last and pilot.seconds > 0
    assert torch.get_num_threads() == threads


def test_a_text_that_is_too_short_for_its_context_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "short.txt"
    path.write_text("a short text, of which little is left.\n" * 3)
    assert pilot_of(path).share(1000.0, QUIET) is None
