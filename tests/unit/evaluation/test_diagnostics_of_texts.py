"""Diagnostics on what a model writes, and where it predicts: only what stands out against the control is said."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from octavo.config import check
from octavo.data.batch import Batch
from octavo.evaluation.by_position import Places
from octavo.evaluation.diagnostics import Diagnostic, Facts, diagnose
from octavo.evaluation.score import score
from octavo.training.objective import PerToken


def found(recipe: dict[str, Any] | None = None, **evaluation: Any) -> dict[str, Diagnostic]:
    facts = Facts(
        recipe=check(recipe or {}), steps=100, vocab_size=65, train_tokens=1000, evaluation=evaluation
    )
    return {diagnostic.kind: diagnostic for diagnostic in diagnose(facts)}


def meter(own: float, control: float, error: float = 0.01) -> dict[str, Any]:
    def one(share: float, length: int) -> dict[str, Any]:
        return {"characters": 5000, "shares": {"50": share}, "longest": {"length": length}}

    return {"generated": one(own, 700), "held_out": one(control, 40), "difference_error": error}


def test_a_short_held_out_text_is_enough_for_a_control_but_not_any() -> None:
    short = meter(0.9, 0.0)
    short["held_out"]["characters"] = 250
    assert found(memorization=short)["memorization"].severity == "bad"
    short["held_out"]["characters"] = 100
    assert "memorization" not in found(memorization=short)
    few = meter(0.9, 0.0)
    few["generated"]["characters"] = 250
    assert "memorization" not in found(memorization=few)


def figures(own: float, control: float, error: float = 0.01) -> dict[str, Any]:
    sides = {"generated": own, "held_out": control}
    return {"unit": "word"} | {
        side: {name: {"mean": mean, "error": error} for name in ("repeated", "alike", "thread")}
        | {"texts": 16}
        for side, mean in sides.items()
    }


def test_reciting_is_what_goes_beyond_the_control() -> None:
    diagnostic = found(memorization=meter(0.4, 0.02))["memorization"]
    assert diagnostic.severity == "bad" and diagnostic.settings == ("model.dropout=0.2",)
    assert "40%" in diagnostic.sentence and "held-out text: 2%" in diagnostic.sentence
    assert "700 characters" in diagnostic.sentence
    for own, control, error in ((0.4, 0.38, 0.01), (0.4, 0.1, 0.2), (0.0, 0.0, 0.0)):
        assert found(memorization=meter(own, control, error))["memorization"].severity == "good"


def test_repetition_likeness_and_drift_need_a_difference_beyond_the_noise() -> None:
    far = found(diversity=figures(0.31, 0.04))
    assert "31% of the 4-grams (words)" in far["repetition"].sentence
    assert "held-out text 4%" in far["repetition"].sentence
    assert "likeness" in far and "drift" not in far
    assert not found(diversity=figures(0.31, 0.28)) and not found(diversity=figures(0.31, 0.04, 0.1))
    lost = found(diversity=figures(0.01, 0.3))["drift"]
    assert lost.evidence["held_out"] == 0.3
    assert not found(diversity=figures(0.01, 0.015))  # text of this kind has no thread to lose


def test_a_single_sample_is_measured_by_the_scatter_of_the_control() -> None:
    greedy = figures(0.9, 0.04)
    greedy["generated"]["repeated"]["error"] = None
    diagnostic = found({"sampling": {"temperature": 0.0}}, diversity=greedy)["repetition"]
    assert diagnostic.settings == ("sampling.temperature=0.8",)
    assert diagnostic.evidence["standard_error"] == pytest.approx(math.hypot(0.04, 0.01))


def ends(**more: Any) -> dict[str, Any]:
    known = {"documents": 50, "probability": 0.5, "elsewhere": 0.001, "rate": 0.005}
    return known | {"samples": 16, "samples_ended": 0.9, "held_out_ended": 0.95} | more


def test_the_end_token() -> None:
    assert not found(ends=ends())
    never = found(ends=ends(probability=0.006))["end token"]
    assert never.severity == "bad" and never.settings == ("batches=documents",)
    seldom = found(ends=ends(samples_ended=0.1))["end token"]
    assert "10% of its samples" in seldom.sentence
    assert not found(ends=ends(samples_ended=0.1, held_out_ended=0.1))
    assert not found(ends=ends(probability=0.006, documents=3))


def test_the_context_is_short_where_the_loss_still_falls() -> None:
    falling = {"rows": 500, "middle": 1.60, "end": 1.57, "gain": 0.03, "error": 0.004}
    diagnostic = found(val_loss=1.6, positions=falling)["short context"]
    assert diagnostic.settings == ("model.context=128",)
    assert diagnostic.evidence["promised"] == pytest.approx(0.03 * math.log(2) / math.log(7 / 5))
    assert not found(val_loss=1.6, positions=falling | {"error": 0.02})
    assert not found(val_loss=1.6, positions=falling | {"gain": 0.004, "error": 0.0001})
    documents = {"batches": "documents"}
    assert not found(documents, val_loss=1.6, positions=falling, documents_cut=0.02)
    assert "40%" in found(documents, val_loss=1.6, documents_cut=0.4)["short context"].sentence


class ByPosition(nn.Module):
    """Of two tokens, the probability of the first depends on the position alone."""

    def __init__(self, probabilities: list[float]) -> None:
        super().__init__()
        chances = torch.tensor(probabilities)
        self.logits = nn.Parameter(torch.stack([chances, 1 - chances], dim=1).log())

    def forward(self, tokens: Tensor) -> Tensor:
        return self.logits.expand(len(tokens), -1, -1)


def test_places_sum_what_the_batches_hold() -> None:
    chances = [0.1, 0.1, 0.2, 0.2, 0.4, 0.4, 0.8, 0.8]
    targets = np.zeros((3, 8), np.int64)
    targets[1, 3] = 1
    targets[2, 5:] = -1  # not whole: left out of the positions
    places = Places(context=8, end=1)
    total = score(ByPosition(chances), [Batch(np.zeros_like(targets), targets)], places=places)
    assert total.tokens == 21
    positions, document_ends = places.positions(), places.document_ends()
    assert positions is not None and document_ends is not None
    assert positions.rows == 2
    assert positions.middle == pytest.approx(-math.log(0.4), rel=1e-5)
    assert positions.end == pytest.approx(-math.log(0.8), rel=1e-5)
    assert positions.gain == pytest.approx(math.log(2), rel=1e-5)
    assert positions.error == pytest.approx(0, abs=1e-4)
    assert document_ends.documents == 1
    assert document_ends.probability == pytest.approx(0.8, rel=1e-5)
    assert document_ends.rate == pytest.approx(1 / 21)


def test_what_is_given_to_the_end_elsewhere_is_a_mean_of_other_places() -> None:
    places, targets = Places(context=8, end=0), torch.tensor([[1, 0, 1, 0, -1]])
    logits = torch.tensor([[[0.2, 0.8], [0.9, 0.1], [0.4, 0.6], [0.7, 0.3], [1.0, 0.0]]]).log()
    places.add(nn.Identity(), PerToken(torch.zeros(1, 5), {}, logits), Batch(targets, targets))
    found = places.document_ends()
    assert found is not None and found.elsewhere == pytest.approx(0.3)
    assert (found.documents, found.probability, found.rate) == (2, pytest.approx(0.8), 0.5)


def test_the_error_of_a_gain_is_that_of_a_mean() -> None:
    random = np.random.default_rng(3)
    nats = random.normal(2.0, 0.5, (9, 12))
    places = Places(context=12, end=None)
    zeros = torch.zeros(9, 12, dtype=torch.int64)
    for part in (slice(0, 4), slice(4, 9)):
        places.add(nn.Identity(), PerToken(torch.from_numpy(nats[part]), {}), Batch(zeros[part], zeros[part]))
    gains = nats[:, 6:9].mean(axis=1) - nats[:, 9:].mean(axis=1)
    found = places.positions()
    assert found is not None and found.rows == 9
    assert found.gain == pytest.approx(gains.mean(), rel=1e-9)
    assert found.error == pytest.approx(gains.std(ddof=1) / 3, rel=1e-9)


def test_places_without_documents_or_whole_windows_are_none() -> None:
    places = Places(context=8, end=None)
    score(
        ByPosition([0.5] * 4), [Batch(np.zeros((1, 4), np.int64), np.zeros((1, 4), np.int64))], places=places
    )
    assert places.positions() is None and places.document_ends() is None
