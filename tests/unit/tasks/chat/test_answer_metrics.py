"""Answers of a tuned run beside its base's: what is counted, and who is nearer to the expected answer."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import octavo
from octavo.tasks.chat import answer_metrics
from octavo.tasks.chat.answer_metrics import copied, likeness
from octavo.util.terminal import Console
from unit.run.test_finetune import RECIPE

QUIET = Console(quiet=True)


def test_likeness_is_the_share_of_expected_words_in_as_many_words() -> None:
    assert likeness("The cat sat.", "the cat sat.") == 1.0
    assert (
        likeness("the the the the", "the cat ran off") == 0.25
    )  # each word counts as often as it is expected
    assert likeness("a dog and then the cat sat.", "the cat sat.") == 0.0  # four words are read
    assert likeness("", "the cat") == 0.0 and likeness("  ", "") == 1.0 and likeness("x", "") == 0.0


def test_what_is_copied_from_the_prompt() -> None:
    assert copied("name a red fruit", "user: Name a red fruit") == 1.0
    assert copied("name a red apple", "Name a red fruit") == 0.5
    assert copied("apple", "Name a red fruit") == 0.0 == copied("", "")


def test_an_interval_of_prompts_that_agree_has_no_width() -> None:
    assert answer_metrics._interval(np.ones(5)) == (1.0, 1.0)
    low, high = answer_metrics._interval(np.array([0.0, 1.0] * 8))
    assert 0.2 < low < 0.5 < high < 0.8


@pytest.mark.slow
def test_every_run_from_conversations_shows_its_answers_beside_its_bases(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path / "cache"))
    (tmp_path / "text.txt").write_text("a fox and a dog. " * 60)
    base = octavo.train(RECIPE, tmp_path / "text.txt", tmp_path / "base", console=QUIET)
    assert "answers" not in json.loads((tmp_path / "base" / "evaluation.json").read_text())
    talk = tmp_path / "talk.jsonl"
    records = [{"prompt": f"a{'d' * n}", "completion": "a fox. dog"} for n in range(1, 30)]
    talk.write_text("".join(json.dumps(record) + "\n" for record in records))
    words = [f"training.start_from={base.path}", "model.context=32", "training.precision=float32"]
    words += ["training.optimizer.learning_rate=0.02", "validation=0.3", "sampling.tokens=12"]
    words += ["training.epochs=25", "training.schedule=constant", "sampling.temperature=0.2"]
    octavo.train("instructions", talk, tmp_path / "run", overrides=words, console=QUIET)
    result = json.loads((tmp_path / "run" / "evaluation.json").read_text())
    found = result["answers"]
    assert found["seeds"] == 3 and found["prompts"] >= 2
    assert found["wins"]["low"] <= found["wins"]["mean"] <= found["wins"]["high"]
    assert found["tuned"]["likeness"] > found["base"]["likeness"] and found["wins"]["mean"] > 0.5
    assert any("held-out prompts are nearer to the expected ones" in one for one in result["verdict"])
    page = (tmp_path / "run" / "report" / "index.html").read_text()
    assert "Answers, before and after" in page and "a fox. dog" in page
