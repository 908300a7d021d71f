"""What is said of a tuned run, from its figures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from octavo.generation import Sample
from octavo.tuning.measured import ceiling_of
from octavo.tuning.plots import Reached
from octavo.tuning.questions import Question
from octavo.tuning.rewards.base import Judged
from octavo.tuning.rewards.checked import PidginConfig
from octavo.tuning.yardstick import distance, sentences, shared_out, style

JUDGED = Judged(np.random.default_rng(0).integers(0, 2, (1, 400)).astype(float), {})


@pytest.mark.parametrize(
    ("texts", "asked", "each"), [(1024, 10, 102), (160, 10, 16), (64, 4, 16), (20, 1, 20), (16, 1, 16)]
)
def test_no_more_texts_than_were_asked_for(texts: int, asked: int, each: int) -> None:
    prompts = [Question("", str(number)) for number in range(10)]
    found, after_each = shared_out(texts, prompts)
    assert (len(found), after_each) == (asked, each) and len(set(found)) == asked
    assert asked * each <= texts


def said(reward: float, kl: float, *, held_out: bool = True, kind: str = "pidgin", **more: Any) -> str:
    reached = Reached("tuned", kl, reward, reward - 0.02, reward + 0.02)
    tuned = {"mean": reward, "low": reward - 0.02, "high": reward + 0.02, "kl": {"mean": kl}}
    figures: dict[str, Any] = {
        "base": {"mean": 0.5, "low": 0.48, "high": 0.52},
        "tuned": tuned,
        "win_rate": {"mean": 0.7, "low": 0.6, "high": 0.8},
        "bits_per_byte": {"before": 1.0, "after": 1.25},
        "prompts_held_out": held_out,
        "distance": distance(ceiling_of(PidginConfig(), JUDGED), reached),
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
    ceiling = ceiling_of(PidginConfig(), JUDGED)
    on_it = Reached("", float(ceiling.curve.kl[9]), float(ceiling.curve.reward[9]), 0, 1)
    far = distance(ceiling, on_it)
    assert far["nats_too_many"] == pytest.approx(0, abs=1e-9)
    assert far["ceiling_at_kl"] == pytest.approx(on_it.reward)


def test_style_counts_what_is_the_same() -> None:
    one, two = Sample(0, ids=[1, 2, 1, 2, 1, 2, 1], text="a", finish="end"), Sample(1, ids=[3], text="b")
    found = style([[one, two], [one, two]])
    assert found["tokens"] == 4 and found["ended"] == 0.5 and found["different_texts"] == 0.5
    assert found["distinct_2"] == 2 / 12 and found["repeated_4"] == pytest.approx(0.5)
