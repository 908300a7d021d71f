"""Conversations as batches: what is a target, what is left out, and packed as unpacked."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from octavo.corpus.records.turns import Message
from octavo.data.batch import Batch
from octavo.errors import CorpusError
from octavo.model.base import build_model
from octavo.model.config import GPTConfig
from octavo.tasks.chat.batches import ConversationsConfig, PackedConversations
from octavo.tokenizers import build_tokenizer, with_special
from octavo.tokenizers.chat import CHAT_TOKENS, ChatTemplate, Rendered
from octavo.tokenizers.config import Byte
from octavo.training.loop import training_steps
from octavo.training.objective import Answers
from octavo.training.step import StepOptions

TOKENIZER = with_special(build_tokenizer(Byte(), lambda: iter(()), documents=True), CHAT_TOKENS)
CONTEXT = 40


def rendered(count: int, *, longest: int = 9) -> list[Rendered]:
    random = np.random.default_rng(3)

    def text() -> str:
        return "".join(map(chr, random.integers(97, 123, random.integers(1, longest))))

    template = ChatTemplate(TOKENIZER)
    return [template.render([Message("user", text()), Message("assistant", text())]) for _ in range(count)]


def made(
    found: list[Rendered], *, packed: bool = True, batch: int = 3, context: int = CONTEXT
) -> PackedConversations:
    ids = np.concatenate([one.ids for one in found]).astype(np.uint16)
    starts = np.cumsum([0, *(len(one.ids) for one in found)])[:-1].astype(np.uint64)
    config = ConversationsConfig(packed=packed)
    built = config.build(
        ids,
        starts,
        context=context,
        batch=batch,
        seed=1,
        start_id=None,
        end_id=None,
        special=TOKENIZER.special,
    )
    assert isinstance(built, PackedConversations)
    return built


def epoch(batches: PackedConversations) -> list[Batch[np.ndarray]]:
    assert batches.steps_per_epoch
    return [batches.batch(step) for step in range(batches.steps_per_epoch)]


def test_targets_are_the_answers_and_their_ends() -> None:
    found = rendered(30)
    batches = made(found, batch=1)
    wanted = sum(int(one.learned.sum()) for one in found)
    seen = epoch(batches)
    assert sum(one.scored for one in seen) == wanted
    learned = sorted(tuple(one.ids[one.learned].tolist()) for one in found)
    targets = []
    for one in seen:
        assert one.segments is not None and all(
            one.targets[row][one.segments[row] < 0].max(initial=-1) < 0 for row in range(one.rows)
        )
        for row in range(one.rows):
            for segment in range(int(one.segments[row].max()) + 1):
                chosen = one.targets[row][one.segments[row] == segment]
                targets.append(tuple(chosen[chosen >= 0].tolist()))
    assert sorted(targets) == learned
    assert max(int(one.segments.max()) for one in seen if one.segments is not None) > 0, (
        "some rows hold several"
    )


def test_evaluation_scores_each_answer_once_and_says_where() -> None:
    found = rendered(11)
    ids = np.concatenate([one.ids for one in found]).astype(np.uint16)
    starts = np.cumsum([0, *(len(one.ids) for one in found)])[:-1].astype(np.uint64)
    places = []
    evaluated = ConversationsConfig().evaluation(
        ids, starts, context=CONTEXT, batch=2, start_id=None, end_id=None, special=TOKENIZER.special
    )
    for one in evaluated:
        there = one.targets >= 0
        assert one.places is not None and np.array_equal(ids[one.places[there]], one.targets[there])
        assert (one.places[~there] == -1).all()
        places += one.places[there].tolist()
    assert sorted(places) == np.flatnonzero(np.concatenate([one.learned for one in found])).tolist()


def test_conversations_that_do_not_fit_are_left_out_and_said() -> None:
    found = [*rendered(5), *rendered(2, longest=200)]
    long = [one for one in found if len(one.ids) > CONTEXT + 1]
    assert long
    batches = made(found, batch=1)
    assert batches.notes[0].startswith(f"{len(long)} conversation")
    assert f"the longest has {max(len(one.ids) for one in long)}" in batches.notes[0]
    assert sum(one.scored for one in epoch(batches)) == sum(
        int(one.learned.sum()) for one in found if len(one.ids) <= CONTEXT + 1
    )
    with pytest.raises(CorpusError, match="Every conversation is longer than the context of 3 tokens"):
        made(found, context=3)


def test_conversations_of_which_nothing_is_learned_are_refused() -> None:
    prompts = [ChatTemplate(TOKENIZER).render([Message("user", "who?")]) for _ in range(3)]
    with pytest.raises(CorpusError, match="Nothing in these conversations is learned") as caught:
        made(prompts)
    assert caught.value.remedy


def test_tokens_without_the_template_are_refused() -> None:
    ids, starts = np.arange(50, dtype=np.uint16), np.array([0], np.uint64)
    with pytest.raises(CorpusError, match=r"lacks <\|system\|>"):
        ConversationsConfig().build(ids, starts, context=8, batch=1, seed=1, start_id=None, end_id=None)


def gradient(batches: list[Batch[np.ndarray]], *, micro: int | None, positions: str) -> list[torch.Tensor]:
    config = GPTConfig.model_validate(
        {"layers": 2, "width": 16, "heads": 2, "context": CONTEXT, "positions": positions}
    )
    model = build_model(config, vocab_size=TOKENIZER.vocab_size, seed=1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    for group in optimizer.param_groups:
        group["base_lr"] = 1.0
    before = [parameter.detach().clone() for parameter in model.parameters()]
    steps = training_steps(
        model,
        [optimizer],
        lambda step, part: batches[part],
        steps=range(1),
        seed=1,
        schedule=lambda step: 1.0,
        objective=Answers(),
        options=StepOptions(accumulation=len(batches), micro_batch=micro),
    )
    next(steps)
    return [old - new.detach() for old, new in zip(before, model.parameters(), strict=True)]


@pytest.mark.parametrize("positions", ["learned", "rotary", "sinusoidal"])
def test_splitting_and_packing_change_no_gradient(positions: str) -> None:
    """Rows of very different numbers of targets: a mean over parts would be another gradient."""
    found = [*rendered(3, longest=3), *rendered(9, longest=18)]
    together = made(found, batch=16).batch(0)
    rows = len(epoch(made(found, batch=1)))
    whole = [together.rows_at(slice(rows))]
    one_by_one = [replace(one) for one in epoch(made(found, batch=1))]
    unpacked = [made(found, batch=len(found), packed=False).batch(0)]
    expected = gradient(whole, micro=None, positions=positions)
    assert sum(float(one.abs().sum()) for one in expected) > 1
    for batches, micro in ((whole, 1), (whole, 2), (one_by_one, None), (unpacked, None)):
        for one, other in zip(expected, gradient(batches, micro=micro, positions=positions), strict=True):
            torch.testing.assert_close(one, other, atol=2e-6, rtol=1e-3)
