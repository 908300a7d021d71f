"""Matrices in eight bits."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from octavo.generation.int8 import in_bytes


def test_known_numbers_and_a_row_of_zeros() -> None:
    whole, scales = in_bytes(np.array([[0.0, 0.0], [2.54, -1.27], [-3.0, 1e-9]], np.float32))
    assert whole.tolist() == [[0, 0], [127, -64], [-127, 0]]
    assert (scales > 0).all() and whole.dtype == np.int8


@settings(deadline=None)
@given(st.integers(0, 2**31), st.floats(1e-6, 1e6))
def test_no_number_is_further_off_than_half_a_step(seed: int, spread: float) -> None:
    weight = (spread * np.random.default_rng(seed).normal(size=(5, 33))).astype(np.float32)
    whole, scales = in_bytes(weight)
    assert (np.abs(whole * scales[:, None] - weight) <= 0.5001 * scales[:, None]).all()


def test_torch_rounds_alike() -> None:
    weight = torch.randn(64, 33, generator=torch.Generator().manual_seed(0))
    scales = (weight.abs().amax(dim=1) / 127).clamp_min(torch.finfo(torch.float32).tiny)
    whole, found = in_bytes(weight.numpy())
    assert np.array_equal(found, scales.numpy())
    assert np.array_equal(whole, (weight / scales[:, None]).round().to(torch.int8).numpy())
