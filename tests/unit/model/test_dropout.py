"""Dropout: how much, with which mean, the same mask on the way back."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from octavo.model.dropout import LEVELS, Dropout

N = 200_001  # no multiple of the four numbers of a draw


def seeded(rate: float, x: torch.Tensor, *, seed: int = 1) -> torch.Tensor:
    torch.manual_seed(seed)
    return Dropout(rate)(x)


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.5, 0.9])
def test_share_and_mean(rate: float) -> None:
    y = seeded(rate, torch.ones(N))
    dropped = (y == 0).double().mean().item()
    spread = (rate * (1 - rate) / N) ** 0.5
    assert abs(dropped - rate) < 4 * spread
    assert torch.allclose(y[y != 0], torch.tensor(1 / (1 - rate)), rtol=1e-4 / (1 - rate))


def test_mask_is_what_its_random_bits_say() -> None:
    x = torch.randn(3, 5, 7, generator=torch.Generator().manual_seed(0))
    y = seeded(0.3, x)
    draws = torch.empty(27, dtype=torch.int64)
    draws.random_(-(2**63), None, generator=torch.Generator().manual_seed(1))
    sixteen = np.frombuffer(draws.numpy().tobytes(), dtype=np.int16)[: x.numel()].reshape(x.shape)
    dropped = round(0.3 * LEVELS)
    expected = np.where(
        sixteen.astype(int) + LEVELS // 2 < dropped,
        0,
        x.numpy() * (LEVELS / (LEVELS - dropped)),
    )
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-6)


def test_neighbours_are_independent() -> None:
    kept = (seeded(0.5, torch.ones(4 * 50_000)) != 0).double().view(-1, 4)
    between = np.corrcoef(kept.numpy().T) - np.eye(4)
    assert np.abs(between).max() < 4 / 50_000**0.5


def test_gradient_has_the_same_mask() -> None:
    x = torch.randn(64, 33, generator=torch.Generator().manual_seed(0), requires_grad=True)
    y = seeded(0.4, x)
    y.backward(torch.full_like(y, 2.0))
    assert x.grad is not None
    torch.testing.assert_close(x.grad * x.detach() / 2, y.detach())


def test_same_seed_same_mask() -> None:
    x = torch.ones(1000)
    assert torch.equal(seeded(0.5, x), seeded(0.5, x))
    assert not torch.equal(seeded(0.5, x), seeded(0.5, x, seed=2))


def test_nothing_happens_outside_training() -> None:
    x = torch.randn(9)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0)(x) is x


@pytest.mark.parametrize("rate", [1 - 1e-7, 1e-7])
def test_rates_that_round_to_all_or_nothing_stay_finite(rate: float) -> None:
    assert torch.isfinite(seeded(rate, torch.ones(N))).all()
