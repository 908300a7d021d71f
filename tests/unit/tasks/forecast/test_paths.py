"""Paths of numbers: with a cache as without, across a full context, each by its seed."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from octavo.model.base import build_model
from octavo.model.config import GPTConfig
from octavo.model.gpt import GPT
from octavo.model.vectors import calibrate
from octavo.tasks.forecast.paths import Rollout, sample_paths

D, C, T = 3, 2, 16


@pytest.fixture(scope="module")
def model() -> GPT:
    shape = {"layers": 1, "width": 16, "heads": 2, "context": T, "positions": "rotary"}
    ends = {"input": {"kind": "linear", "lags": 3}, "output": {"kind": "mixture", "channels": "chained"}}
    built = build_model(GPTConfig.model_validate(shape | ends), vocab_size=D, seed=0)
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    calibrate(built, np.random.default_rng(0).normal(size=(100, D)))
    return built.eval()


def given(length: int, steps: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(2)
    history = random.normal(size=(2, length, D)).astype(np.float32)
    history[0, -1, 0] = np.nan  # missing just before the forecast
    return history, random.normal(size=(2, steps, D - C)).astype(np.float32)


def test_a_cache_changes_nothing(model: GPT) -> None:
    history, ahead = given(6, 10)
    ways = [Rollout(model, history, ahead, paths=3, seed=5, cached=cached).rows() for cached in (True, False)]
    for fast, slow in zip(*ways, strict=True):
        assert torch.allclose(fast, slow, atol=1e-4)


def test_paths_go_on_when_the_context_is_full(model: GPT) -> None:
    history, ahead = given(40, 30)
    found = sample_paths(model, history, ahead, paths=3, seed=5)
    assert found.shape == (2, 3, 30, C) and np.isfinite(found).all()


def test_a_seed_gives_the_same_paths_and_another_one_others(model: GPT) -> None:
    history, ahead = given(6, 5)
    one, again, other = (sample_paths(model, history, ahead, paths=4, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(one, again) and not np.array_equal(one, other)
    assert len(np.unique(one[0, :, -1, 0])) == 4


def test_what_is_known_in_advance_is_read(model: GPT) -> None:
    history, ahead = given(6, 5)
    one = sample_paths(model, history, ahead, paths=4, seed=1)
    changed = ahead.copy()
    changed[:, 3] += 5
    other = sample_paths(model, history, changed, paths=4, seed=1)
    assert np.array_equal(one[:, :, :3], other[:, :, :3]) and not np.allclose(one[:, :, 3], other[:, :, 3])
