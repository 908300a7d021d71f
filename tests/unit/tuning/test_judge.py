"""What is said of a tuned run, from its figures."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from octavo.generation import Sample
from octavo.tasks.chat.prompts import Question
from octavo.tuning import judge
from octavo.tuning.ceiling import DRAWS, Ceiling, ceiling_of, written
from octavo.tuning.judge import (
    distance,
    distances,
    judging_questions,
    sentences,
    shared_out,
    style,
    won,
)
from octavo.tuning.plots import Reached
from octavo.tuning.policy import PolicyGradientConfig
from octavo.tuning.prompts import START
from octavo.tuning.rewards.base import Judged
from octavo.tuning.rewards.checked import PidginConfig
from octavo.util.stats import interval_of_mean
from unit.tuning import toy
from unit.tuning.test_prompts import CHAT, split


@cache
def judged_ceiling() -> Ceiling:
    rewards = np.random.default_rng(0).integers(0, 2, (1, 400)).astype(float)
    return ceiling_of(PidginConfig(), Judged(rewards, {}))


@pytest.mark.parametrize(
    ("texts", "asked", "each"), [(1024, 10, 102), (160, 10, 16), (64, 4, 16), (20, 1, 20), (16, 1, 16)]
)
def test_no_more_texts_than_were_asked_for(texts: int, asked: int, each: int) -> None:
    prompts = [Question("", str(number)) for number in range(10)]
    found, after_each = shared_out(texts, prompts)
    assert (len(found), after_each) == (asked, each) and len(set(found)) == asked
    assert asked * each <= texts


def test_of_too_many_prompts_some_are_asked_that_lie_evenly() -> None:
    prompts = [Question("", str(number)) for number in range(100)]
    found, _ = shared_out(160, prompts)
    assert [int(one.text) for one in found] == list(range(0, 100, 10))


@pytest.mark.parametrize(("prompts", "between", "within"), [(30, 1.0, 0.1), (1, 0.0, 1.0), (30, 0.3, 1.0)])
def test_a_mean_has_the_interval_of_other_prompts_and_other_texts(
    prompts: int, between: float, within: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mostly of the one, of the other alone, and of both; at 90 % or 95 %."""
    monkeypatch.setattr(judge, "DRAWS", 120)
    random, held, count = np.random.default_rng(2), 0, 120
    for seed in range(count):
        values = random.normal(0, between, (prompts, 1)) + random.normal(0, within, (prompts, 16))
        values[0, 0] = np.nan
        found = interval_of_mean(values, draws=DRAWS, seed=seed)
        held += found["low"] <= 0 <= found["high"]
        assert found["low"] < found["mean"] < found["high"]
    assert held / count >= 0.84


def test_a_text_wins_ties_or_loses_and_one_without_a_reward_does_nothing() -> None:
    base, tuned = np.array([[1.0, 1.0, 1.0, np.nan]]), np.array([[2.0, 1.0, 0.5, 3.0]])
    assert won(base, tuned)[0, :3].tolist() == [1.0, 0.5, 0.0] and np.isnan(won(base, tuned)[0, 3])
    assert (won(base, tuned) + won(tuned, base))[0, :3].tolist() == [1.0] * 3


def test_a_distance_is_that_of_the_run_from_its_base_along_what_the_run_wrote() -> None:
    policy, base, texts = toy.model(1), toy.model(50), toy.every_text()
    run: Any = SimpleNamespace(model=policy, tokenizer=toy.TOKENIZER)
    samples = [[Sample(0, ids=ids) for ids in texts]]
    found = distances(run, base, [START], samples)
    assert found.shape == (1, len(texts))
    expected = toy.kl_terms(policy, base).sum(1).detach().numpy()
    assert found[0] == pytest.approx(expected, abs=1e-4)
    assert np.abs(distances(run, policy, [START], samples)).max() < 1e-5


def judged_by(monkeypatch: pytest.MonkeyPatch, splits: dict[str, tuple[list[str], list[str]]]) -> Any:
    """The prompts to judge runs of these training and validation texts by."""

    def dataset(config: Any, console: Any, tokenizer: Any) -> Any:
        train, validation = splits[config.name]
        return SimpleNamespace(train=split(CHAT, *train), validation=split(CHAT, *validation))

    monkeypatch.setattr(judge, "build_dataset", dataset)
    objective = PolicyGradientConfig.model_validate({"prompt_ends": "=", "reward": "length"})
    runs: Any = [
        SimpleNamespace(
            config=SimpleNamespace(
                name=name, objective=objective, corpus=SimpleNamespace(kind="files"), form="text"
            ),
            tokenizer=CHAT,
            model=SimpleNamespace(context=64),
        )
        for name in splits
    ]
    asked, held_out = judging_questions(runs, None)
    return [one.text for one in asked], held_out


def test_prompts_are_held_out_from_the_tuning_of_each_run(monkeypatch: pytest.MonkeyPatch) -> None:
    first = (["12=1", "34=1"], ["12=2", "46=1", "22=3"])
    assert judged_by(monkeypatch, {"a": first}) == (["46=", "22="], True)
    assert judged_by(monkeypatch, {"a": first, "b": (["46=1"], ["21=1"])}) == (["22=", "21="], True)
    assert judged_by(monkeypatch, {"a": (["12=1", "34=1"], ["12=2"])}) == (["12=", "34="], False)


@pytest.mark.parametrize(("away", "verdict"), [(0.01, "neither"), (-0.01, "neither"), (0.03, "is better")])
def test_better_than_best_of_n_is_what_the_whole_interval_says(away: float, verdict: str) -> None:
    than = judged_ceiling().best_of_n.reward_at(0.2)
    assert than is not None and verdict in said(than + away, 0.2)


def said(reward: float, kl: float, *, held_out: bool = True, kind: str = "pidgin", **more: Any) -> str:
    reached = Reached("tuned", kl, reward, reward - 0.02, reward + 0.02)
    tuned = {"mean": reward, "low": reward - 0.02, "high": reward + 0.02, "kl": {"mean": kl}}
    figures: dict[str, Any] = {
        "base": {"mean": 0.5, "low": 0.48, "high": 0.52},
        "tuned": tuned,
        "win_rate": {"mean": 0.7, "low": 0.6, "high": 0.8},
        "bits_per_byte": {"before": 1.0, "after": 1.25},
        "prompts_held_out": held_out,
        "distance": distance(judged_ceiling(), reached),
        "reward": {"kind": kind},
        "taught_by": None,
        "learned_from": "policy-gradient",
        **more,
    }
    return " ".join(sentences(figures))


@pytest.mark.parametrize(("reward", "verdict"), [(0.99, "is better."), (0.6, "is worse.")])
def test_best_of_n_is_the_control(reward: float, verdict: str) -> None:
    found = said(reward, 0.2)
    assert "Best-of-n" in found and verdict in found
    assert "cost +0.2500 bits per byte" in found and "held out" not in found


def test_the_reward_that_taught_stands_beside_the_one_that_judges() -> None:
    mean = {"mean": 2.5, "low": 2.25, "high": 2.75}
    taught = {"reward": {"kind": "model"}, "base": mean, "tuned": {"mean": 9.0, "low": 8.0, "high": 9.5}}
    found = said(0.4, 0.2, taught_by=taught)
    assert (
        "taught it (model) says 9.000 (95 % interval 8.000 to 9.500), of what it started from 2.500" in found
    )
    assert "Ask another" not in found and "Ask another" not in said(0.4, 0.2)
    assert "Ask another one" in said(0.4, 0.2, kind="model")


def test_what_is_not_known_is_not_said() -> None:
    found = said(1.5, 3.0, held_out=False)
    assert "nobody knows" in found and "At its distance" not in found and "Best-of-n" not in found
    assert "none were held out" in found


def test_the_nats_too_many_are_those_beyond_the_ceilings() -> None:
    ceiling = judged_ceiling()
    on_it = Reached("", float(ceiling.curve.kl[9]), float(ceiling.curve.reward[9]), 0, 1)
    far = distance(ceiling, on_it)
    assert far["nats_too_many"] == pytest.approx(0, abs=1e-9)
    beyond = distance(ceiling, Reached("", on_it.kl + 0.5, on_it.reward, 0, 1))
    assert beyond["nats_too_many"] == pytest.approx(0.5)
    assert far["ceiling_at_kl"] == pytest.approx(on_it.reward)


def test_every_text_has_random_numbers_of_its_own() -> None:
    """Whichever prompt it follows, and the same ones beside any other prompts."""
    asked = [Question("a", str(number)) for number in range(3)]
    model = toy.model(1, scale=0.05)  # hardly surer of one token than of another
    found = written(model, toy.TOKENIZER, asked, samples=12, tokens=3, seed=4)
    texts = [[tuple(one.ids) for one in row] for row in found]
    assert [len(row) for row in texts] == [12] * 3 and texts[0] != texts[1] != texts[2] != texts[0]
    again = written(model, toy.TOKENIZER, asked[:1], samples=12, tokens=3, seed=4)
    assert [tuple(one.ids) for one in again[0]] == texts[0]


def test_style_counts_what_is_the_same() -> None:
    one, two = Sample(0, ids=[1, 2, 1, 2, 1, 2, 1], text="a", finish="end"), Sample(1, ids=[3], text="b")
    found = style([[one, two], [one, two]])
    assert found["tokens"] == 4 and found["ended"] == 0.5 and found["different_texts"] == 0.5
    assert found["distinct_2"] == 2 / 12 and found["repeated_4"] == pytest.approx(0.5)
