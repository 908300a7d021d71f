"""The computed shuffle: a permutation for every size, the same as its slow twin, another one each epoch."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.data.permutation import draw, round_keys, shuffled


def slow_twin(place: int, n: int, seed: int, epoch: int) -> int:
    bits = max(2, (n - 1).bit_length())
    while True:
        h, w = bits // 2, bits - bits // 2
        left, right = place >> w, place & ((1 << w) - 1)
        for key in round_keys(n, seed, epoch):
            mixed = (right ^ key) * 0x9E3779B97F4A7C15 % 2**64
            mixed = (mixed ^ (mixed >> 32)) * 0x9E3779B97F4A7C15 % 2**64
            left, right, h, w = right, left ^ (mixed >> (64 - h)), w, h
        place = (left << w) | right
        if place < n:
            return place


@given(n=st.integers(1, 3000), seed=st.integers(0, 2**32 - 1), epoch=st.integers(0, 100))
def test_it_is_a_permutation(n: int, seed: int, epoch: int) -> None:
    assert sorted(shuffled(np.arange(n, dtype=np.uint64), n, seed, epoch).tolist()) == list(range(n))


@given(n=st.integers(1, 2**45), seed=st.integers(0, 2**32 - 1), epoch=st.integers(0, 100), data=st.data())
def test_it_agrees_with_the_slow_twin(n: int, seed: int, epoch: int, data: st.DataObject) -> None:
    places = data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=5))
    fast = shuffled(np.array(places, np.uint64), n, seed, epoch).tolist()
    assert fast == [slow_twin(place, n, seed, epoch) for place in places]


@given(
    first=st.integers(0, 20_000), count=st.integers(1, 5000), n=st.sampled_from([500, 4095, 4096, 4097, 9000])
)
def test_drawing_goes_on_over_blocks_and_epochs(first: int, count: int, n: int) -> None:
    drawn = draw(first, count, n, seed=3)
    places = np.arange(first, first + count)
    for epoch in set((places // n).tolist()):
        here = places // n == epoch
        expected = shuffled((places[here] % n).astype(np.uint64), n, 3, epoch)
        assert drawn[here].tolist() == expected.tolist()


def test_epochs_and_seeds_differ() -> None:
    orders = [draw(epoch * 1000, 1000, 1000, seed).tolist() for seed in range(3) for epoch in range(3)]
    assert len({tuple(order) for order in orders}) == 9


@pytest.mark.parametrize("n", [3, 100, 1000, 2**16 + 1])
def test_it_looks_shuffled(n: int) -> None:
    """Over many epochs each number is as often at a place as any other: chi-squared, within six deviations."""
    epochs, bins = 3000, min(n, 50)
    at_first = np.array([shuffled(np.zeros(1, np.uint64), n, 1, epoch)[0] for epoch in range(epochs)])
    counts = np.bincount((at_first.astype(np.int64) * bins) // n, minlength=bins)
    expected = np.bincount(np.arange(n) * bins // n, minlength=bins) / n * epochs
    chi2 = ((counts - expected) ** 2 / expected).sum()
    assert chi2 < bins - 1 + 6 * (2 * (bins - 1)) ** 0.5 + 1
    # Neighbours do not stay neighbours.
    order = shuffled(np.arange(min(n, 5000), dtype=np.uint64), n, 1, 0).astype(np.int64)
    assert n < 10 or (np.abs(np.diff(order)) == 1).mean() < 0.05
