"""Roll-outs after the chat template: what is asked, what is learned, and that estimates are still the exact ones."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from octavo.corpus.records.turns import Message
from octavo.model.base import LanguageModel
from octavo.tasks.chat.prompts import question
from octavo.tokenizers.chat import ChatTemplate
from octavo.tuning.rollouts import compared
from unit.tuning import toy
from unit.tuning.test_policy import agree, estimates

TEMPLATE = ChatTemplate(toy.CHAT)
QUESTIONS = (question("a", toy.CHAT), question("bb", toy.CHAT))


@pytest.fixture(scope="module")
def models() -> tuple[LanguageModel, LanguageModel]:
    """A policy and its base; both end most answers before the third token."""
    policy, base = toy.model(4, tokenizer=toy.CHAT), toy.model(50, tokenizer=toy.CHAT)
    return policy, base


def test_a_prompt_is_what_a_user_said_and_the_answer_is_learned_with_its_end(
    models: tuple[LanguageModel, LanguageModel],
) -> None:
    policy, base = models
    made = toy.rollouts(policy, base, rows=32, seed=2, tokenizer=toy.CHAT, questions=QUESTIONS)
    asked, samples = made.drawn(0, 0)
    batch = made.batch(0)
    assert {one.text for one in asked} == {"a", "bb"}
    ended = 0
    for row, (one, sample) in enumerate(zip(asked, samples, strict=True)):
        size = len(one.prompt)
        assert (
            batch.inputs[row, :size].tolist()
            == TEMPLATE.render([Message("user", one.text)], answering=True).ids.tolist()
            == list(one.prompt)
        )
        assert (batch.targets[row] >= 0).nonzero()[0].tolist() == [
            size - 1 + i for i in range(len(sample.ids))
        ]
        assert batch.targets[row][batch.targets[row] >= 0].tolist() == sample.ids
        ended += sample.ids[-1] == TEMPLATE.end
        assert (sample.finish == "end") == (sample.ids[-1] in toy.CHAT.ends) and "<|" not in sample.text
    assert ended


@pytest.mark.parametrize("kl_in", ["loss", pytest.param("reward", marks=pytest.mark.slow)])
def test_the_estimators_mean_is_the_exact_gradient_after_the_template(
    models: tuple[LanguageModel, LanguageModel], kl_in: str
) -> None:
    policy, base = models
    beta, exact = 0.5, torch.zeros(())
    found = estimates(
        policy,
        policy,
        base,
        {"beta": beta, "kl_in": kl_in},
        tokenizer=toy.CHAT,
        questions=QUESTIONS,
        reward=toy.Echoes(),
    )
    for one in QUESTIONS:
        log_p = toy.read(policy, one.prompt, toy.CHAT)[0].sum(1)
        log_q = toy.read(base, one.prompt, toy.CHAT)[0].sum(1).detach()
        assert log_p.exp().sum().item() == pytest.approx(1)
        reward = (log_p.exp() * toy.rewards(one.text, toy.CHAT, toy.Echoes())).sum()
        exact = exact + (reward - beta * (log_p.exp() * (log_p - log_q)).sum()) / len(QUESTIONS)
    agree(found, toy.gradient(exact, policy))


@pytest.mark.parametrize("credit", [0.6, pytest.param(0.95, marks=pytest.mark.slow)])
def test_with_credit_that_fades_the_mean_is_that_of_every_text(
    models: tuple[LanguageModel, LanguageModel], credit: float
) -> None:
    """By what each token changed and the later ones did, each a factor less, written out for all texts. What the others
    of the group have does not depend on the text, so it changes nothing on average."""
    policy, base = models
    found = estimates(
        policy,
        policy,
        base,
        {"credit": credit, "beta": 0.0},
        tokenizer=toy.CHAT,
        questions=QUESTIONS,
        reward=toy.Echoes(),
    )
    exact = torch.zeros(())
    for one in QUESTIONS:
        chosen, _, there = toy.read(policy, one.prompt, toy.CHAT)
        gained = torch.zeros(there.shape).double()
        for row, ids in enumerate(toy.every_text(toy.CHAT)):
            worth = [
                toy.Echoes().of(one.text, toy.CHAT.decode([i for i in ids[:at] if i not in toy.CHAT.ends]))
                for at in range(len(ids) + 1)
            ]
            changes = np.diff(worth)
            for at in range(len(ids)):
                gained[row, at] = sum(credit**k * change for k, change in enumerate(changes[at:]))
        p = chosen.sum(1).exp().detach()
        exact = exact + (p[:, None] * gained * chosen).sum() / len(QUESTIONS)
    agree(found, toy.gradient(exact, policy))


def test_exact_kl_is_the_mean_of_the_drawn_one_after_the_template(
    models: tuple[LanguageModel, LanguageModel],
) -> None:
    policy, base = models
    made = toy.rollouts(policy, base, rows=4096, seed=5, tokenizer=toy.CHAT, questions=QUESTIONS)
    known = compared(policy, base, made.batch(0))
    truth = []
    for one in QUESTIONS:
        log_p, log_q = (toy.read(each, one.prompt, toy.CHAT)[0].sum(1) for each in (policy, base))
        truth.append(float((log_p.exp() * (log_p - log_q)).sum().detach()))
    exact, drawn = known["kl"].sum(1), (known["policy"] - known["base"]).sum(1)
    for found in (exact, drawn):
        assert abs(found.mean() - np.mean(truth)) < 4 * found.std() / math.sqrt(len(found))
    assert exact.std() < drawn.std() and np.mean(truth) > 0.1


def test_every_update_learns_without_dropout_as_texts_are_written(
    models: tuple[LanguageModel, LanguageModel],
) -> None:
    policy, base = models
    made = toy.rollouts(policy, base, rows=16, seed=0, tokenizer=toy.CHAT, questions=QUESTIONS, updates=3)
    for step in range(4):
        policy.train()  # as a step begins
        made.batch(step)
        assert not policy.training


def test_prompts_that_leave_no_room_are_told(models: tuple[LanguageModel, LanguageModel]) -> None:
    policy, base = models
    made = toy.rollouts(policy, base, rows=16, seed=0, tokenizer=toy.CHAT, questions=QUESTIONS, left_out=3)
    assert "3 prompts" in made.notes[0]
