"""What is chosen, by a law whose numbers are known."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from octavo.auto.choose import LEAST_STEPS, MORE, choices, operations, parameters_of, reasons, step_times
from octavo.auto.facts import TextFacts
from octavo.auto.family import SIZES, Size, dropout_for
from octavo.config import check
from unit.auto.laws import made_up

FACTS = TextFacts(
    documents=1,
    duplicates=0,
    train_tokens=1_000_000,
    train_bytes=1_000_000,
    validation_bytes=50_000,
    vocabulary=65,
    ngram=2.2,
    order=7,
    spread=0.01,
)
SPEEDS = {size: 0.01 * 2**number for number, size in enumerate(SIZES)}


def test_more_time_takes_a_larger_model_and_promises_more() -> None:
    best = [choices(FACTS, SPEEDS, seconds, made_up())[0] for seconds in (5, 60, 600, 6000)]
    assert all(after.bits < before.bits + 1e-4 for before, after in pairwise(best))
    assert [one.parameters for one in best] == sorted(one.parameters for one in best)
    assert best[0].parameters < best[-1].parameters
    assert all(one.steps <= one.most_steps for one in best)


def test_a_short_text_is_not_seen_as_often_as_there_is_time_for() -> None:
    short = replace(FACTS, train_tokens=30_000)
    best = choices(short, SPEEDS, 6000, made_up())[0]
    assert best.steps < best.most_steps / 2
    assert best.recipe()["training"]["passes"] == pytest.approx(MORE * best.passes, rel=0.01)
    assert "by heart" in reasons(best, [], short, 6000)["training.steps"]


def test_no_time_no_choice() -> None:
    assert choices(FACTS, SPEEDS, 0.5 * LEAST_STEPS * 0.01, made_up()) == []
    assert choices(FACTS, SPEEDS, -10, made_up()) == []


def test_a_choice_is_a_recipe() -> None:
    for choice in choices(FACTS, SPEEDS, 600, made_up()):
        recipe = check(choice.recipe())
        assert recipe.training.steps == choice.steps
        assert recipe.model.counts.kind == "kneser-ney"
        assert recipe.test > 0


def test_every_choice_has_its_reason() -> None:
    first, *others = choices(FACTS, SPEEDS, 60, made_up())
    said = reasons(first, others, FACTS, 60)
    assert {
        "text",
        "tokenizer",
        "model",
        "model.counts",
        "training.steps",
        "model.dropout",
        "instead",
    } == set(said)
    assert "left out" not in said["text"]
    assert all(sentence.endswith(".") for sentence in said.values())
    assert "2.200" in said["model.counts"]


def test_documents_that_were_left_out_are_said() -> None:
    (first, *_), facts = choices(FACTS, SPEEDS, 60, made_up()), replace(FACTS, documents=40, duplicates=1200)
    assert reasons(first, [], facts, 60)["text"] == (
        "1,000 kB to learn from; 40 documents in all; 1,200 more stood there before and were left out."
    )


def test_sizes_are_timed_while_that_is_short_and_reckoned_from_there() -> None:
    asked: list[Size] = []

    def measure(size: Size) -> float:
        asked.append(size)
        return SPEEDS[size]

    found = step_times(measure, vocabulary=65, seconds=0.5)
    assert list(found) == list(SIZES)
    assert 1 <= len(asked) < len(SIZES) and asked == list(SIZES[: len(asked)])
    last, first_reckoned = asked[-1], SIZES[len(asked)]
    ratio = operations(first_reckoned, 65) / operations(last, 65)
    assert found[first_reckoned] == pytest.approx(SPEEDS[last] * ratio)
    assert list(step_times(measure, vocabulary=65, seconds=0.0)) == list(SIZES), "one is measured in any case"


def test_the_sizes_grow() -> None:
    counts = [parameters_of(size, 65)[0] for size in SIZES]
    assert counts == sorted(counts)
    assert 5e4 < counts[0] < 2e5 and 1e7 < counts[-1] < 2e7
    assert [dropout_for(passes) for passes in (1, 5, 30)] == [0.0, 0.1, 0.2]
