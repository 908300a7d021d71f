"""A learned reward: the head's last row after the whole answer; side by side as alone; what it cannot judge."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from octavo.config import check
from octavo.errors import ConfigError
from octavo.model.base import LanguageModel, build_model
from octavo.model.config import GPTConfig
from octavo.tasks.chat.preference_metrics import calibration
from octavo.tokenizers import with_special
from octavo.tokenizers.chat import ChatTemplate
from octavo.tuning.reward_model import REWARD, BradleyTerry, judges, rewards_of
from octavo.tuning.rewards.base import judge
from octavo.tuning.rewards.learned import Learned
from unit.tuning.pairs import CONTEXT, TOKENIZER, batches, turns

TOLD = with_special(TOKENIZER, (REWARD,))
TEXTS = [("", "abc"), ("who?", "it"), ("who?", "it is the cat"), ("", "abc"), ("a", "x" * 99)]


def model(seed: int = 1) -> LanguageModel:
    config = GPTConfig(layers=1, width=16, heads=2, context=CONTEXT)
    return build_model(config, vocab_size=TOLD.vocab_size, seed=seed).eval()


def test_the_loss_is_that_of_the_difference_of_both_rewards() -> None:
    net, found = model(), turns(6)
    given = batches(found, batch=6).batch(0).to("cpu")
    loss, template, total = BradleyTerry().loss(net, given), ChatTemplate(TOLD), 0.0
    for pair in found:
        ids = [torch.from_numpy(template.render(one).ids).long() for one in pair.conversations]
        first, second = (net(one[None])[0, -1, -1].item() for one in ids)
        total += math.log1p(math.exp(second - first))
    assert loss.total.item() == pytest.approx(total, rel=1e-5)
    loss.total.backward()


def test_what_stands_beside_and_after_changes_no_reward() -> None:
    net, template = model(), ChatTemplate(TOLD)
    ids = [template.render(pair.conversations[0]).ids for pair in turns(5)]
    rows = torch.full((5, CONTEXT), -1)
    for row, one in zip(rows, ids, strict=True):
        row[: len(one)] = torch.from_numpy(one)
    alone = [float(rewards_of(net, torch.from_numpy(one).long()[None]).detach()) for one in ids]
    assert rewards_of(net, rows).tolist() == pytest.approx(alone, abs=1e-5)
    assert len(set(alone)) == 5


def test_texts_are_judged_side_by_side_as_alone_and_long_ones_are_counted() -> None:
    net = model()
    together = judge(Learned(net, ChatTemplate(TOLD)), TEXTS)
    alone = Learned(net, ChatTemplate(TOLD))
    for (prompt, text), found in zip(TEXTS[:4], together.rewards, strict=False):
        assert alone.of(prompt, text) == pytest.approx(found, abs=1e-5)
    assert together.rewards[0] == together.rewards[3] != together.rewards[1]
    assert math.isnan(together.rewards[4])
    assert list(together.failed.values()) == [1] and "32 tokens" in next(iter(together.failed))


def test_the_reward_token_must_be_the_last() -> None:
    assert judges(TOLD) and not judges(TOKENIZER) and not judges(with_special(TOLD, ("<|more|>",)))
    recipe = check(
        {
            "corpus": {"kind": "files", "paths": ["x"], "records": "preferences"},
            "split": "documents",
            "batches": "preferences",
            "objective": "bradley-terry",
            "training": {"start_from": "run"},
        }
    )

    class Told:
        tokenizer = TOKENIZER

    with pytest.raises(ConfigError, match="must be the last token"):
        BradleyTerry().refuse(recipe, Told(), model(), processes=1)  # pyrefly: ignore
    without = recipe.model_copy(update={"training": replace_start(recipe.training)})
    with pytest.raises(ConfigError, match="tunes a model that has learned before"):
        BradleyTerry().refuse(without, Told(), model(), processes=1)  # pyrefly: ignore


def replace_start(training: object) -> object:
    return training.model_copy(update={"start_from": None})  # type: ignore[attr-defined]


def test_calibration_of_a_model_that_is_right_as_often_as_it_claims() -> None:
    random = np.random.default_rng(3)
    claimed = random.normal(0, 1.5, 4000)
    wins = random.random(4000) < 1 / (1 + np.exp(-np.abs(claimed)))
    margins = np.abs(claimed) * np.where(wins, 1, -1)
    honest, boastful = calibration(margins), calibration(4 * margins)
    assert honest.ece < 0.03 and honest.ece_by_chance < 0.03
    assert boastful.ece > 0.1 > 3 * boastful.ece_by_chance
    for one in honest.bins:
        assert one.low <= one.right <= one.high
    assert sum(one.pairs for one in honest.bins) == 4000
    assert calibration(np.zeros(3)).bins[0].right == 0.5
