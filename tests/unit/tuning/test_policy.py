"""Gates of reinforcement learning: the gradient on average is the exact one, however it is estimated."""

from __future__ import annotations

import math
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from octavo.config import check
from octavo.errors import ConfigError
from octavo.generation import Sample
from octavo.model.base import LanguageModel
from octavo.tasks.chat.prompts import Question
from octavo.training.objective import NEXT_TOKEN
from octavo.tuning.policy import PolicyGradient, PolicyGradientConfig
from octavo.tuning.rollouts import Rollouts, compared
from unit.tuning import toy

ROWS, TIMES = 1024, 16
DRAWN: dict[tuple[int, int], tuple[list[Question], list[Sample]]] = {}


@pytest.fixture(scope="module")
def models() -> tuple[LanguageModel, LanguageModel, LanguageModel]:
    """A policy, its base, and the policy a step earlier."""
    policy, before = toy.model(1), toy.model(1)
    with torch.no_grad():
        for number, parameter in enumerate(before.parameters()):
            noise = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(90 + number))
            parameter.add_(0.12 * noise)
    return policy, toy.model(50), before


def objective(base: LanguageModel, **options: object) -> PolicyGradient:
    made = PolicyGradient(PolicyGradientConfig.model_validate({"reward": "length", **options}))
    made.base = base
    return made


def estimates(
    policy: LanguageModel,
    written_by: LanguageModel,
    base: LanguageModel,
    options: dict[str, object],
    **asked: object,
) -> Tensor:
    """Gradients (TIMES, parameters) of the mean over texts of what is to grow, each from many of them."""
    found = []
    for seed in range(TIMES):
        way = {
            "group": options.get("group", 4),
            "form": options.get("advantage", "rloo"),
            "beta": options.get("beta", 0.0),
            "kl_in": options.get("kl_in", "loss"),
            "credit": options.get("credit", 1.0),
        }
        made = toy.rollouts(written_by, base, rows=ROWS, seed=seed, **asked, **way)
        if (key := (id(written_by), seed)) not in DRAWN:  # the same whatever is made of them
            DRAWN[key] = made.drawn(0, 0)
        batch = made.judged(*DRAWN[key]).batch
        learns = {name: value for name, value in options.items() if name != "credit"}  # of advantages alone
        loss = objective(base, **learns).loss(policy, batch.to("cpu"))
        found.append(toy.gradient(-loss.total / ROWS, policy))
    return torch.stack(found)


def agree(found: Tensor, exact: Tensor) -> None:
    """The mean is the exact one within its own error, along many directions; and it is no accident of large errors."""
    random = torch.Generator().manual_seed(0)
    directions = torch.randn((24, len(exact)), generator=random).double()
    directions = torch.cat([directions, exact[None]])
    seen, truth = found @ directions.T, directions @ exact
    error = seen.std(0) / math.sqrt(len(seen))
    assert ((seen.mean(0) - truth).abs() < 5.5 * error).all()
    assert error[-1] < 0.1 * truth[-1], "too noisy to tell"


@pytest.mark.parametrize(
    ("advantage", "kl_in", "beta"),
    [
        ("rloo", "loss", 0.0),
        ("rloo", "loss", 0.5),
        ("rloo", "reward", 0.5),
        ("mean", "reward", 0.5),
        pytest.param("mean", "loss", 0.5, marks=pytest.mark.slow),
        pytest.param("mean", "loss", 0.0, marks=pytest.mark.slow),
    ],
)
def test_the_estimators_mean_is_the_exact_gradient(
    models: tuple[LanguageModel, LanguageModel, LanguageModel], advantage: str, kl_in: str, beta: float
) -> None:
    """Of the expected reward less β times the KL of whole texts. The mean of all shrinks the reward's by 1 − 1/G."""
    policy, base, _ = models
    found = estimates(policy, policy, base, {"advantage": advantage, "kl_in": kl_in, "beta": beta})
    log_p = toy.read(policy)[0].sum(1)
    p = log_p.exp()
    assert p.sum().item() == pytest.approx(1)
    reward = (p * toy.rewards()).sum() * (0.75 if advantage == "mean" else 1.0)
    kl = (p * (log_p - toy.read(base)[0].sum(1).detach())).sum()
    agree(found, toy.gradient(reward - beta * kl, policy))


def advantage_of_pairs(form: str) -> Tensor:
    """Of the first of two texts (N, N), written out."""
    r = toy.rewards()
    away = r[:, None] - r[None, :]
    return {"rloo": away, "mean": away / 2, "grpo": away.sign() * (away.abs() > 1e-6)}[form]


def test_grpos_mean_is_that_of_every_pair(
    models: tuple[LanguageModel, LanguageModel, LanguageModel],
) -> None:
    policy, base, _ = models
    found = estimates(policy, policy, base, {"advantage": "grpo", "group": 2})
    log_p = toy.read(policy)[0].sum(1)
    p = log_p.exp().detach()
    exact = (p[:, None] * p[None, :] * advantage_of_pairs("grpo") * log_p[:, None]).sum()
    agree(found, toy.gradient(exact, policy))


FAST = [("rloo", None, "loss"), ("rloo", 0.1, "reward"), ("grpo", 0.1, "loss")]
REST = [("mean", None, "reward"), ("mean", 0.1, "loss"), ("grpo", None, "reward")]  # with these every pair


@pytest.mark.parametrize(
    ("advantage", "clip", "kl_in"), [*FAST, *(pytest.param(*one, marks=pytest.mark.slow) for one in REST)]
)
def test_further_updates_follow_the_clipped_surrogate(
    models: tuple[LanguageModel, LanguageModel, LanguageModel],
    advantage: str,
    clip: float | None,
    kl_in: str,
) -> None:
    """From texts of the policy a step earlier: by every pair of texts, with PPO's formula written out."""
    policy, base, before = models
    beta = 0.3
    options = {"advantage": advantage, "group": 2, "updates": 2, "clip": clip, "beta": beta, "kl_in": kl_in}
    found = estimates(policy, before, base, options)
    (new, _, there), (old, _, _), (other, _, _) = toy.read(policy), toy.read(before), toy.read(base)
    old, other = old.detach(), other.detach()
    p = old.sum(1).exp()
    costs = old - other if kl_in == "reward" else toy.kl_terms(before, base).detach()
    ahead = costs.flip(1).cumsum(1).flip(1) - (0 if kl_in == "reward" else costs)
    gain = advantage_of_pairs(advantage)[..., None] - beta * (ahead[:, None] - ahead[None, :])  # (N, N, 3)
    ratio = (new - old).exp()[:, None]
    each = ratio * gain
    if clip is not None:
        each = torch.minimum(each, ratio.clamp(1 - clip, 1 + clip) * gain)
    exact = (p[:, None, None] * p[None, :, None] * each * there[:, None]).sum()
    if kl_in == "loss":
        exact = exact - beta * (p[:, None] * toy.kl_terms(policy, base)).sum()
    agree(found, toy.gradient(exact, policy))


def test_entropy_is_paid_at_each_token_that_was_written(
    models: tuple[LanguageModel, LanguageModel, LanguageModel],
) -> None:
    policy, base, _ = models
    batch = toy.rollouts(policy, base, rows=64, seed=1).batch(0)
    without, paid = (objective(base, entropy=each).loss(policy, batch.to("cpu")).total for each in (0.0, 0.3))
    entropy = compared(policy, base, batch)["entropy"]
    assert (without - paid).item() == pytest.approx(0.3 * float(entropy.sum()), rel=1e-5)
    less = objective(base, entropy=-0.3).loss(policy, batch.to("cpu")).total
    assert (less - without).item() == pytest.approx((without - paid).item(), rel=1e-5)


def test_clipping_changes_something(models: tuple[LanguageModel, LanguageModel, LanguageModel]) -> None:
    policy, base, before = models
    batch = toy.rollouts(before, base, rows=256, seed=3).batch(0).to("cpu")
    free, held = (objective(base, updates=2, clip=clip).loss(policy, batch) for clip in (None, 0.1))
    assert free.total.item() < held.total.item() - 1
    assert 0 < held.metrics["clipped"].item() < batch.scored


def test_exact_kl_is_the_mean_of_the_drawn_one(
    models: tuple[LanguageModel, LanguageModel, LanguageModel],
) -> None:
    """Over the vocabulary at each token, and by the tokens drawn: both estimate the texts' KL, the first with less
    noise; and the truth is the sum over all texts."""
    policy, base, _ = models
    log_p, log_q = (toy.read(each)[0].sum(1) for each in (policy, base))
    truth = float((log_p.exp() * (log_p - log_q)).sum().detach())
    batch = toy.rollouts(policy, base, rows=4096, seed=5).batch(0)
    known = compared(policy, base, batch)
    exact, drawn = known["kl"].sum(1), (known["policy"] - known["base"]).sum(1)
    for found in (exact, drawn):
        assert abs(found.mean() - truth) < 4 * found.std() / math.sqrt(len(found))
    assert exact.std() < drawn.std() and truth > 0.1
    own = compared(policy, policy, batch)
    assert np.abs(own["kl"]).max() < 1e-5
    assert known["entropy"].max() <= math.log(toy.TOKENIZER.vocab_size) + 1e-5


def test_what_is_told_of_a_step_is_of_its_texts(
    models: tuple[LanguageModel, LanguageModel, LanguageModel],
) -> None:
    """Nats of KL for a whole text, of entropy for a token, and all else by the texts themselves."""
    policy, base, _ = models
    made = toy.rollouts(policy, base, rows=64, seed=6)
    (asked, samples), batch, told = made.drawn(0, 0), made.batch(0), made.figures(0)
    known, sizes = compared(policy, base, batch), [len(one.ids) for one in samples]
    assert told["kl"] == pytest.approx(known["kl"].sum(1).mean()) and max(sizes) > min(sizes)
    assert told["entropy"] == pytest.approx(known["entropy"].sum() / sum(sizes))
    assert told["length"] == np.mean(sizes) and told["failed_rewards"] == 0
    assert told["ended"] == np.mean([one.ids[-1] in toy.TOKENIZER.ends for one in samples])
    worth = np.array([toy.Likes().of(q.text, one.text) for q, one in zip(asked, samples, strict=True)])
    assert told["reward"] == pytest.approx(worth.mean())
    assert told["flat_groups"] == np.mean([len(set(group)) == 1 for group in worth.reshape(-1, 4).tolist()])
    pairs = [pair for one in samples for pair in pairwise(one.ids)]
    assert told["distinct_2"] == len(set(pairs)) / len(pairs)


def test_parts_of_a_step_ask_and_write_other_texts(
    models: tuple[LanguageModel, LanguageModel, LanguageModel],
) -> None:
    policy, base, _ = models
    questions = tuple(Question("a", f"asked {number}") for number in range(6))
    made = toy.rollouts(policy, base, rows=12, seed=6, questions=questions)
    asked = [[one.text for one in made.drawn(0, micro)[0][::4]] for micro in (0, 1, 2)]
    assert len({tuple(each) for each in asked}) == 3
    whole = [[one.text for number in (0, 1) for one in made.drawn(number, 0)[0][::4]]]
    assert sorted(whole[0]) == sorted(one.text for one in questions), "each once before any comes again"
    same = toy.rollouts(policy, base, rows=64, seed=6)
    first, second = ([one.text for one in same.drawn(0, micro)[1]] for micro in (0, 1))
    assert first != second


def test_texts_of_steps_that_are_over_are_not_held(
    models: tuple[LanguageModel, LanguageModel, LanguageModel],
) -> None:
    policy, base, _ = models
    made = toy.rollouts(policy, base, rows=8, seed=6, updates=2)
    for step in range(6):
        made.batch(step, 0)
        made.batch(step, 1)
        assert len(made._kept) == 2, "both parts of this step"
        assert bool(made.tensors(step)) == (step % 2 == 1)


def test_the_decoder_and_the_model_agree_on_what_was_written(
    models: tuple[LanguageModel, LanguageModel, LanguageModel],
) -> None:
    policy, base, _ = models
    made = toy.rollouts(policy, base, rows=32, seed=2)
    _, samples = made.drawn(0, 0)
    batch = made.batch(0)
    assert batch.behaviour is not None
    for row, sample in enumerate(samples):
        there = batch.targets[row] >= 0
        assert batch.targets[row][there].tolist() == sample.ids
        assert batch.behaviour[row][there] == pytest.approx(sample.log_probabilities, abs=1e-4)
    assert batch.scored == sum(len(sample.ids) for sample in samples)


@pytest.mark.parametrize("options", [{}, {"kl_in": "reward"}, {"updates": 2, "clip": 0.2}])
def test_splitting_a_batch_changes_no_gradient(
    models: tuple[LanguageModel, LanguageModel, LanguageModel], options: dict[str, object]
) -> None:
    policy, base, _ = models
    kl_in = options.get("kl_in", "loss")
    batch = toy.rollouts(policy, base, rows=24, seed=4, beta=0.4, kl_in=kl_in).batch(0).to("cpu")
    learns = objective(base, beta=0.4, **options)
    whole = toy.gradient(learns.loss(policy, batch).total, policy)
    parts = sum(toy.gradient(learns.loss(policy, part).total, policy) for part in batch.parts(5))
    assert isinstance(parts, Tensor)
    assert (whole - parts).abs().max() < 1e-5 * whole.abs().max()


def test_a_batch_is_a_function_of_seed_and_step(
    models: tuple[LanguageModel, LanguageModel, LanguageModel],
) -> None:
    policy, base, _ = models
    one, two = (toy.rollouts(policy, base, rows=16, seed=9) for _ in range(2))
    one.batch(0)  # what came before does not matter
    assert (one.batch(7).inputs == two.batch(7).inputs).all()
    different = {
        one.batch(7).inputs.tobytes(),
        one.batch(8).inputs.tobytes(),
        one.batch(8, 1).inputs.tobytes(),
    }
    assert len(different) == 3
    assert one.figures(8) and not one.figures(7)


def test_texts_that_are_learned_from_again_are_kept(
    models: tuple[LanguageModel, LanguageModel, LanguageModel],
) -> None:
    policy, base, other = models
    made = toy.rollouts(policy, base, rows=16, seed=9, updates=3)
    first = made.batch(3)
    assert made.batch(5) is first and made.tensors(6) == {}
    again = toy.rollouts(other, base, rows=16, seed=9, updates=3)  # whose weights have moved on
    again.restore(made.tensors(4))
    for name, array in first.items():
        assert (dict(again.batch(4).items())[name] == array).all(), name
    assert again.figures(4) == made.figures(4)
    assert (again.batch(6).inputs != first.inputs).any()


def test_texts_that_are_all_worth_the_same_are_said_once(
    models: tuple[LanguageModel, LanguageModel, LanguageModel],
) -> None:
    class Same(toy.Likes):
        def of(self, prompt: str, text: str) -> float:
            return 0.5

    for reward, said in ((Same(), True), (toy.Likes(), False)):
        made = toy.rollouts(models[0], models[1], rows=16, seed=3, reward=reward)
        made.batch(0)
        assert ("taught nothing" in (made.remark(0) or "")) == said
        made.batch(1)
        assert made.remark(1) is None


@pytest.mark.parametrize(("batch", "refused"), [(8, False), (16, False), (12, True), (4, True)])
def test_a_batch_is_of_whole_groups(batch: int, refused: bool) -> None:
    recipe = check(
        {
            "objective": {"kind": "policy-gradient", "reward": "question", "group": 8},
            "training": {"batch": batch, "start_from": "run"},
        }
    )
    made, model = recipe.objective.build(), toy.model(1)
    dataset: Any = SimpleNamespace(tokenizer=toy.TOKENIZER, train=None)
    if not refused:
        made.refuse(recipe, dataset, model, processes=1)
        return
    with pytest.raises(ConfigError, match="no whole number of groups of 8") as error:
        made.refuse(recipe, dataset, model, processes=1)
    assert error.value.remedy == f"training.batch={16 if batch > 8 else 8}"


def test_the_budget_stops_it(models: tuple[LanguageModel, LanguageModel, LanguageModel]) -> None:
    policy, base, _ = models

    def over(made: Rollouts) -> str | None:
        made.batch(0)
        return made.over(0)

    assert over(toy.rollouts(policy, base, rows=16, seed=0)) is None
    assert over(toy.rollouts(policy, base, rows=16, seed=0, budget=99.0)) is None
    said = over(toy.rollouts(policy, base, rows=16, seed=0, budget=0.01))
    assert said is not None and "0.01" in said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"clip": 0.2}, "updates to 2"),
        ({"group": 1}, "greater than or equal to 2"),
        ({"prompts": "x.txt", "prompt_ends": "="}, "not both"),
        ({"advantage": "gae"}, "rloo"),
        ({"credit": 0.9}, "wishes, pidgin"),
        ({"credit": 0.9, "reward": "pidgin", "advantage": "grpo"}, "advantage=rloo"),
        ({"credit": 0.0, "reward": "pidgin"}, "greater than 0"),
    ],
)
def test_options_without_sense_are_refused(options: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        check({"objective": {"kind": "policy-gradient", "reward": "question", **options}})


def test_a_higher_loss_on_texts_is_no_reason_to_keep_an_older_model(
    models: tuple[LanguageModel, LanguageModel, LanguageModel],
) -> None:
    assert objective(models[1]).improves(2.0, 1.0)
    assert NEXT_TOKEN.improves(1.0, 2.0) and not NEXT_TOKEN.improves(1.0, 1.0)
