"""The penalty on wrong words: by hand, on a model that learns, and what it is not for."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import octavo
from octavo.data.batch import Batch
from octavo.errors import ConfigError
from octavo.studies.job import perform
from octavo.studies.plan import jobs_of, plan_study
from octavo.studies.resolve import load_study
from octavo.synthetic.storyteller import Storyteller
from octavo.tokenizers.byte import ByteTokenizer
from octavo.training.distill import Distillation
from octavo.training.objective import NEXT_TOKEN
from octavo.training.penalty import Penalized, PenalizedConfig, wrong_in_pidgin
from octavo.util.terminal import Console

WORDS = ["bird", "ed", "will", "fly", ".", "unheard-of"]


class Fixed(nn.Module):
    """The same logits (B, T, V) for whatever it reads."""

    def __init__(self, logits: torch.Tensor) -> None:
        super().__init__()
        self.logits = nn.Parameter(logits)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.logits


def penalized(weight: float) -> Penalized:
    found = Penalized(weight=weight, rule="pidgin")
    found.wrong = torch.from_numpy(wrong_in_pidgin(WORDS))
    return found


def test_the_rules_are_the_checkers() -> None:
    wrong = wrong_in_pidgin(WORDS)
    pairs = {(WORDS[a], WORDS[b]) for a, b in np.argwhere(wrong).tolist()}
    tense = {(t, word) for t in ("ed", "will") for word in ("bird", "ed", "will", ".")}
    assert pairs == {*tense, ("bird", "bird"), ("fly", "fly"), ("fly", "ed"), ("fly", "will")}


def test_no_story_of_the_storyteller_has_a_wrong_pair() -> None:
    teller = Storyteller(3)
    words = [
        story.text.replace(".", " .").replace(",", " ,").replace("?", " ?").split()
        for story in map(teller.story, range(5))
    ]
    known = sorted({word for story in words for word in story})
    wrong, place = wrong_in_pidgin(known), {word: index for index, word in enumerate(known)}
    assert wrong.any()
    for story in words:
        assert not any(wrong[place[a], place[b]] for a, b in pairwise(story))


def test_the_loss_by_hand() -> None:
    """After "ed" only "fly" and what pidgin does not know are right."""
    p = np.array([0.1, 0.05, 0.15, 0.4, 0.1, 0.2])
    model = Fixed(torch.from_numpy(np.log(p))[None, None].repeat(1, 2, 1))
    batch = Batch(torch.tensor([[1, 1]]), torch.tensor([[3, -1]]))
    found = penalized(2.0).loss(model, batch)
    assert found.total.item() == pytest.approx(-math.log(0.4) - 2 * math.log(1 - 0.4))
    assert found.reported is not None and found.reported.item() == pytest.approx(-math.log(0.4))
    assert found.metrics["wrong"].item() == pytest.approx(0.4)


def test_what_came_is_never_wrong() -> None:
    p = np.array([0.1, 0.05, 0.15, 0.4, 0.1, 0.2])
    model = Fixed(torch.from_numpy(np.log(p))[None, None])
    batch = Batch(torch.tensor([[1]]), torch.tensor([[0]]))  # "ed bird"
    assert penalized(1.0).loss(model, batch).metrics["wrong"].item() == pytest.approx(0.3)


def test_certainty_in_a_wrong_word_has_a_gradient() -> None:
    model = Fixed(torch.tensor([[[200.0, 0, 0, 0, 0, 0]]]))
    found = penalized(1.0).loss(model, Batch(torch.tensor([[1]]), torch.tensor([[3]])))
    found.total.backward()
    assert model.logits.grad is not None and torch.isfinite(model.logits.grad).all()
    assert float(model.logits.grad[0, 0, 0]) == pytest.approx(2.0)


def test_without_words_and_in_evaluation_it_is_the_usual_loss() -> None:
    model = Fixed(torch.randn(1, 2, 6, generator=torch.Generator().manual_seed(0)))
    batch = Batch(torch.tensor([[1, 3]]), torch.tensor([[3, 1]]))
    usual = NEXT_TOKEN.loss(model, batch).total
    assert torch.equal(Penalized(weight=1.0, rule="pidgin").loss(model, batch).total, usual)
    told = penalized(3.0)
    assert torch.equal(told.evaluate(model, batch).losses, NEXT_TOKEN.evaluate(model, batch).losses)
    assert told.loss(model, batch).total.item() > usual.item()


def test_a_teacher_passes_on_what_the_words_are() -> None:
    own = Penalized(weight=1.0, rule="pidgin")
    Distillation(own, [nn.Identity()], weight=0.5).set_tokenizer(ByteTokenizer(documents=False))
    assert own.wrong is not None and own.wrong.shape == (256, 256)


def test_characters_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path / "cache"))
    recipe = {
        "corpus": {"kind": "storyteller", "stories": 30},
        "model": {"layers": 1, "width": 8, "heads": 1, "context": 8},
        "objective": PenalizedConfig().model_dump(),
        "training": {"steps": 1},
    }
    with pytest.raises(ConfigError, match="are about words"):
        octavo.train(recipe, None, tmp_path / "run", quiet=True)


SMALL = [
    *("seeds=1", "noise=0", "set.corpus.stories=60", "set.training.steps=6", "set.evaluation.every=6"),
    *("set.model.layers=1", "set.model.width=16", "set.model.heads=2", "changes.3.budget.steps=8"),
]


@pytest.mark.slow
def test_the_shipped_study_counts_the_good_stories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path / "cache"))
    study, _ = plan_study(load_study("penalty-cpu", None, SMALL), Console(quiet=True))
    jobs = {job.slug: job for job in jobs_of(study, tmp_path / "study")}
    outcome = perform(jobs["tenfold-penalty"], lambda step: None)
    assert outcome.status == "done", outcome
    folder = Path(jobs["tenfold-penalty"].folder)
    judged = json.loads((folder / "evaluation.json").read_text())
    assert outcome.valid == judged["stories"]["passed"] / judged["stories"]["written"]
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert all(0 < row["wrong"] < 1 for row in rows if row["event"] == "train")
