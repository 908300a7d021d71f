"""The proof of an export, with a library that is made up: what it measures, and what it lets pass."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from octavo.export import prove
from octavo.export.prove import (
    BOUNDS,
    LARGE,
    NEAR,
    Measurement,
    Strings,
    bound_of,
    compared,
    measure,
    misses,
    near,
)
from octavo.export.reference_outputs import Reference, filled, nats, written

V, T = 7, 8
TABLE = np.random.default_rng(0).normal(0, 2, (V, V)).astype(np.float32)


class Bigrams:
    """A library that opened a model in which each id tells the next one."""

    def __init__(self, table: np.ndarray = TABLE) -> None:
        self.table = table

    def logits(self, ids: list[int]) -> np.ndarray:
        return self.table[ids]

    def greedy(self, ids: list[int], count: int) -> list[int]:
        found = list(ids)
        for _ in range(count):
            found.append(int(self.table[found[-1]].argmax()))
        return found[len(ids) :]

    def encode(self, text: str) -> list[int] | None:
        return [ord(one) - 97 for one in text] if "!" not in text else None

    def decode(self, ids: list[int]) -> str:
        return "".join(chr(97 + one) for one in ids)

    def versions(self) -> dict[str, str]:
        return {}


def reference() -> Reference:
    random, own = np.random.default_rng(1), Bigrams()
    windows = random.integers(0, V, (4, T + 1)).astype(np.int32)
    windows[3, 5:] = -1
    columns, rows = np.array([1, 3, 6]), [filled(window) for window in windows]
    logits = np.concatenate([own.logits(row[:-1].tolist())[:, columns] for row in rows[:2]])
    total = sum(nats(own.logits(row[:-1].tolist()), row[1:]) for row in rows)
    prompts = random.integers(0, V, (3, 2)).astype(np.int32)
    greedy = np.array([written(own.greedy, row.tolist(), T) for row in prompts], np.int32)
    strings = [{"text": text, "ids": own.encode(text), "decoded": text} for text in ("abc", "", "gag")]
    refused = {"text": "a!", "ids": None, "decoded": None}
    return Reference(windows, logits, columns, prompts, greedy, total / (3 * T + 4), 99, [*strings, refused])


def measured(monkeypatch: pytest.MonkeyPatch, opened: Any, kept: Reference | None = None) -> Measurement:
    monkeypatch.setattr(prove.Reference, "load", lambda folder: kept or reference())
    monkeypatch.setattr(prove, "targets", lambda: {"made-up": SimpleNamespace(reopen=lambda folder: opened)})
    return measure("made-up", Path("nowhere"))


def missed(found: Measurement, *, dtype: str = "float32", model: str = "exact") -> list[str]:
    return misses(found, dtype=dtype, model=model, tokenizer="exact")


def test_the_same_model_misses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    found = measured(monkeypatch, Bigrams())
    assert missed(found) == [] and found.largest_logit_difference == 0
    assert found.loss == pytest.approx(found.loss_of_the_run) and found.loss_tokens == 3 * T + 4
    assert (found.positions, found.columns) == (2 * T, 3)
    assert found.strings == Strings(3, 0, 0, refused_by_the_run=1, taken_still=0)


@pytest.mark.parametrize("column", [1, 6])
@pytest.mark.parametrize("off", [0.5, -0.5])
def test_one_logit_that_differs_is_measured(monkeypatch: pytest.MonkeyPatch, column: int, off: float) -> None:
    """By the last id that is kept; the loss is that of the table as it is, in either direction."""
    last = int(reference().windows[1, T - 1])
    table = TABLE.copy()
    table[last, column] += off
    found = measured(monkeypatch, Bigrams(table))
    assert found.largest_logit_difference == pytest.approx(0.5)
    rows = [filled(window) for window in reference().windows]
    total = sum(nats(table[row[:-1]], row[1:]) for row in rows)
    assert found.loss == pytest.approx(total / (3 * T + 4))
    said = missed(found)
    assert said[0].startswith("logits differ by 0.5") and any("the loss is" in one for one in said)


@pytest.mark.parametrize("where", [(0, 0), (6, 3)])
def test_what_is_no_number_is_never_proven(monkeypatch: pytest.MonkeyPatch, where: tuple[int, int]) -> None:
    table = TABLE.copy()
    table[where[0]] = np.nan
    found = measured(monkeypatch, Bigrams(table))
    assert np.isnan(found.largest_logit_difference) and np.isnan(found.loss)
    assert len(missed(found)) >= 2
    assert missed(figures(largest_logit_difference=np.nan)) == ["logits differ by nan; the bound is 0.0001"]
    assert missed(figures(loss=np.nan)) == ["the loss is nan, in the run 2.000000"]


def figures(**changed: Any) -> Measurement:
    usual = Measurement(
        largest_logit_difference=0.0,
        positions=9,
        columns=3,
        largest_logit=3.0,
        loss=2.0,
        loss_of_the_run=2.0,
        loss_tokens=9,
        of_tokens=9,
        first_greedy_difference=[None, None],
        greedy_tokens=200,
        strings=Strings(100, 0, 0, 0, 0),
        versions={},
    )
    return replace(usual, **changed)


@pytest.mark.parametrize("dtype", BOUNDS)
def test_a_bound_is_that_of_the_numbers_and_grows_with_logits_that_are_large(dtype: str) -> None:
    small, usual, large = (figures(largest_logit=each) for each in (1e-3, LARGE, 4 * LARGE))
    exact = [bound_of(one, dtype=dtype, model="exact") for one in (small, usual, large)]
    assert exact == pytest.approx([BOUNDS[dtype], BOUNDS[dtype], 4 * BOUNDS[dtype]])
    assert bound_of(small, dtype=dtype, model="approximate") == max(NEAR, BOUNDS[dtype])
    for away, held in ((0.99, True), (1.01, False)):
        off = away * BOUNDS[dtype]
        assert (not missed(figures(largest_logit_difference=off), dtype=dtype)) is held
        for sign in (1, -1):
            assert (not missed(figures(loss=2.0 + sign * off), dtype=dtype)) is held


def test_greedy_texts_are_demanded_of_exact_float32_alone() -> None:
    other = figures(first_greedy_difference=[None, 17, 5])
    assert missed(other) == ["2 greedy texts differ, the first after 5 tokens"]
    assert missed(other, dtype="float16") == missed(other, model="approximate") == []
    (said,) = near(other, model="approximate", tokenizer="exact")
    assert "2 greedy texts differ, the first after 5" in said


def test_texts_count_by_their_ids_and_by_what_ids_say() -> None:
    class Otherwise(Bigrams):
        def encode(self, text: str) -> list[int] | None:
            return [1] if text == "gag" else [0]

        def decode(self, ids: list[int]) -> str:
            return "x"

    found = compared(Otherwise(), reference().strings)
    assert (found.other_ids, found.other_text, found.taken_still) == (3, 3, 1)
    strings = Strings(200, 10, 30, 0, 0)
    assert missed(figures(strings=strings)) == [
        "10 of 200 texts have other ids",
        "30 of 200 texts are decoded otherwise",
    ]
    (said,) = near(figures(strings=strings), model="exact", tokenizer="approximate")
    assert "5.0% have other ids, 15.0% are decoded otherwise" in said
