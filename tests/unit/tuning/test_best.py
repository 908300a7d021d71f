"""Best-of-n as something to learn from: which answers are kept, and pairs that a reward made."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from octavo.corpus.records.turns import Message
from octavo.errors import InputError
from octavo.generation import Sample
from octavo.run.run import Run
from octavo.tasks.chat.prompts import question
from octavo.tuning import best
from octavo.tuning.best import best_answers, pairs_of
from octavo.tuning.comparisons import ComparisonsSource
from octavo.tuning.rewards.base import Reward
from unit.tuning.test_prompts import CHAT


class Longest(Reward):
    """More is better; a text without letters has no reward."""

    def of(self, prompt: str, text: str) -> float:
        return len(text.strip()) if text.strip() else float("nan")


Written = Sequence[tuple[str, str]]


def answered(monkeypatch: pytest.MonkeyPatch, *answers: Written) -> tuple[Any, list[Any]]:
    """A run that gives these answers, each with how it ended, to as many questions."""
    monkeypatch.setattr(
        best,
        "written",
        lambda *_, **__: [[Sample(0, text=text, finish=how) for text, how in row] for row in answers],  # pyrefly: ignore
    )
    monkeypatch.setattr(best, "room_for", lambda *_: 9)
    run = SimpleNamespace(model=None, tokenizer=CHAT)
    return run, [question("who are you?"[: 3 + number], CHAT) for number in range(len(answers))]


ANSWERS: tuple[Written, ...] = (
    [("me", "end"), ("it is me", "end"), ("it is me and he", "length"), ("no", "end")],
    [("yes", "end"), ("who", "end"), ("", "end"), ("his", "end")],
    [("so and so", "length"), ("so", "length"), ("", "end"), ("and", "length")],
)


def test_the_best_answer_is_one_that_came_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    run, asked = answered(monkeypatch, *ANSWERS)
    monkeypatch.setattr(best, "_kept", lambda template, sample: bool(sample.text))
    config: Any = SimpleNamespace(build=Longest)
    found = best_answers(run, config, asked, samples=4)
    said = [[(turn["role"], turn["content"]) for turn in one["messages"]] for one in found.records]
    assert said == [
        [("user", "who"), ("assistant", "it is me")],
        [("user", "who "), ("assistant", "yes")],
    ]
    assert found.prompts == 3 and found.best == (8 + 3) / 2
    every = [len(text) for row in ANSWERS for text, _ in row if text]
    assert found.usual == pytest.approx(sum(every) / len(every)), "of all that have a reward"
    run, asked = answered(monkeypatch, ANSWERS[2])
    with pytest.raises(InputError, match="none has a whole answer"):
        best_answers(run, config, asked, samples=4)


def test_pairs_are_of_the_best_and_the_worst_where_these_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    run, asked = answered(monkeypatch, *ANSWERS)
    monkeypatch.setattr(best, "_kept", lambda template, sample: bool(sample.text))
    (one,) = pairs_of(run, Longest(), asked, seed=0)
    assert (one["chosen"], one["rejected"]) == ("it is me", "me")
    assert one["messages"] == [Message("user", "who").as_dict()]


def test_comparisons_are_written_anew_until_there_are_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each time with other random numbers, and with the prompts one after the other."""
    asked: list[tuple[int, list[str]]] = []

    def pairs(run: Any, reward: Any, questions: Sequence[Any], *, seed: int) -> Sequence[dict[str, Any]]:
        asked.append((seed, list(questions)))
        message = [{"role": "user", "content": f"{len(asked)}"}]
        return [{"messages": message, "chosen": "good", "rejected": "bad"}]  # all others tie

    monkeypatch.setattr(Run, "open", lambda path: None)
    monkeypatch.setattr(best, "asked_of", lambda run: ["one", "two", "three"])
    monkeypatch.setattr(best, "pairs_of", pairs)
    monkeypatch.setattr("octavo.run.finetune.find_start", lambda run: SimpleNamespace(folder=tmp_path))
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    source = {"kind": "comparisons", "run": str(tmp_path), "pairs": 4, "reward": "length"}
    found = list(ComparisonsSource.model_validate(source).build().documents())
    assert len(found) == 4 and len({seed for seed, _ in asked}) == len(asked) == 4
    together = [one for _, questions in asked for one in questions]
    assert together[:9] == ["one", "two", "three"] * 3 and together == (together[:3] * 99)[: len(together)]
