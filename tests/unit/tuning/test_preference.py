"""Gates of preference tuning: log 2 where the policy is its reference; a batch in parts has the same gradient."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.optim import SGD

from octavo.corpus.records.turns import Turns
from octavo.data.batch import Batch
from octavo.model.base import LanguageModel
from octavo.tokenizers.chat import ChatTemplate
from octavo.training.loop import training_steps
from octavo.training.step import StepOptions
from octavo.tuning.preference import DirectPreference, DirectPreferenceConfig, answer_likelihood
from unit.tuning.pairs import TOKENIZER, batches, model, turns

FOUND = turns(8)


def objective(reference: LanguageModel | None, **options: Any) -> DirectPreference:
    made = DirectPreference(DirectPreferenceConfig.model_validate(options))
    made.reference = reference
    return made


def given(count: int = 8) -> Batch[Tensor]:
    return batches(FOUND, batch=count).batch(0).to("cpu")


def alone(net: LanguageModel, pair: Turns) -> list[float]:
    """ln of the probability of either answer, a conversation at a time."""
    found = []
    for conversation in pair.conversations:
        wanted = ChatTemplate(TOKENIZER).render(conversation)
        ids = torch.from_numpy(wanted.ids).long()
        logs = net(ids[None, :-1])[0].double().log_softmax(-1)
        begin = len(ids) - len(TOKENIZER.encode(conversation[-1].content)) - 1
        found.append(float(logs.detach()[torch.arange(begin - 1, len(ids) - 1), ids[begin:]].sum()))
    return found


def test_likelihoods_are_those_of_conversations_alone() -> None:
    net = model(1).eval()
    mine = sorted(map(tuple, answer_likelihood(net, given()).tolist()))
    for a, b in zip(mine, sorted(tuple(alone(net, pair)) for pair in FOUND), strict=True):
        assert a == pytest.approx(b, abs=1e-4)


@pytest.mark.parametrize(("form", "expected"), [("dpo", math.log(2)), ("ipo", 25.0)])
@pytest.mark.parametrize("by_token", [False, True])
def test_a_policy_that_is_its_reference(form: str, expected: float, by_token: bool) -> None:
    net = model(1)
    made = objective(copy.deepcopy(net).eval(), form=form, by_token=by_token)
    loss = made.loss(net, given())  # with dropout in the model, which is off
    assert loss.total.item() / 8 == pytest.approx(expected, rel=1e-6)
    assert {name: float(value) / 8 for name, value in loss.metrics.items()}["accuracy"] == 0.5
    loss.total.backward()
    assert any(p.grad is not None and p.grad.abs().max() > 1e-3 for p in net.parameters())


@pytest.mark.parametrize("options", [{}, {"form": "ipo"}, {"by_token": True, "beta": 2.0}])
def test_the_loss_by_hand(options: dict[str, Any]) -> None:
    net, before = model(1).eval(), model(2).eval()
    made, total = objective(before, **options), 0.0
    for pair in FOUND:
        lengths = [len(TOKENIZER.encode(str(answer))) + 1 for answer in (pair.chosen, pair.rejected)]
        gained = [a - b for a, b in zip(alone(net, pair), alone(before, pair), strict=True)]
        if options.get("by_token"):
            gained = [value / length for value, length in zip(gained, lengths, strict=True)]
        margin, beta = gained[0] - gained[1], options.get("beta", 0.1)
        if options.get("form") == "ipo":
            total += (margin - 1 / (2 * beta)) ** 2
        else:
            total += math.log1p(math.exp(-beta * margin))
    assert made.loss(net, given()).total.item() == pytest.approx(total, rel=1e-5)


@pytest.mark.parametrize("parts", [{"micro_batch": 3}, {"accumulation": 2}])
def test_splitting_a_batch_changes_no_gradient(parts: dict[str, int]) -> None:
    """Pairs of different lengths; accumulated batches are halves of the whole."""

    def stepped(options: StepOptions) -> tuple[list[Tensor], float, Any]:
        net = model(1)
        halves = batches(FOUND, batch=4)
        arrays = [halves.batch(0), halves.batch(1)]
        whole = batches(FOUND, batch=8).batch(0)
        still = SGD(net.parameters(), lr=0.1)
        still.param_groups[0]["base_lr"] = 0.1
        info = next(
            training_steps(
                net,
                [still],
                lambda step, micro: arrays[micro] if options.accumulation == 2 else whole,
                steps=range(1),
                seed=1,
                schedule=lambda step: 1.0,
                objective=objective(model(2).eval()),
                options=options,
            )
        )
        return [p.detach() for p in net.parameters()], info.loss, info.metrics

    one, other = stepped(StepOptions()), stepped(StepOptions(**parts))
    for a, b in zip(one[0], other[0], strict=True):
        assert torch.allclose(a, b, atol=1e-7)
    assert one[1] == pytest.approx(other[1], rel=1e-6)
    assert one[2] == pytest.approx(other[2], rel=1e-5)


def test_a_row_that_is_there_for_its_shape_counts_nothing() -> None:
    whole = batches(FOUND, batch=8).batch(0)
    made, net = objective(model(2).eval()), model(1)
    shares = [whole.rows_at(slice(7)).shard(rank, 2).to("cpu") for rank in range(2)]  # 7 pairs in 4 + 4 rows
    assert shares[1].scored == 3
    losses = [made.loss(net, share) for share in shares]
    together = made.loss(net, whole.rows_at(slice(7)).to("cpu"))
    assert sum(loss.total.item() for loss in losses) == pytest.approx(together.total.item(), rel=1e-6)
    for name, value in together.metrics.items():
        assert sum(float(loss.metrics[name]) for loss in losses) == pytest.approx(float(value), rel=1e-5)
