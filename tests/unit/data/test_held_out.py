"""What is held out of the training text for a part that needs text that is new to the model."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.data.batch import Batch
from octavo.data.batches import (
    Alone,
    HeldOutWindows,
    held_out_blocks,
    held_out_end,
    part,
    with_earlier,
    with_held_out,
)

ONE = np.zeros(1, np.uint64)


def windows(size: int = 5000, context: int = 8, batch: int = 16) -> tuple[HeldOutWindows, np.ndarray]:
    held = held_out_blocks(ONE, size, share=0.04, context=context)
    assert held is not None
    return HeldOutWindows(np.arange(size), held, context=context, batch=batch, seed=3, before=4), held


@given(
    size=st.integers(1, 30_000),
    share=st.floats(0.01, 0.49),
    context=st.integers(1, 300),
    document=st.integers(1, 4000),
)
def test_about_the_share_in_stretches_that_hold_a_window(
    size: int, share: float, context: int, document: int
) -> None:
    starts = np.arange(0, size, document).astype(np.uint64)
    held = held_out_blocks(starts, size, share=share, context=context)
    if held is None:
        assert size < 50 * (context + 1) or share * size < 4 * (context + 1) or document < size
        return
    assert held.shape == (size,) and context <= held.sum() < size - context
    assert np.convolve(held, np.ones(context), "valid").max() == context
    assert held.sum() <= 2 * max(share * size, context + 1)


def test_a_text_gives_the_share_in_many_places() -> None:
    held = held_out_blocks(ONE, 1_000_000, share=0.04, context=128)
    assert held is not None and held.sum() == 40_000
    edges = np.flatnonzero(np.diff(held.astype(int)) == 1)
    assert len(edges) == 10 and not held[0] and not held[-1]


def test_short_documents_are_held_out_whole() -> None:
    starts = np.arange(0, 100_000, 250).astype(np.uint64)
    held = held_out_blocks(starts, 100_000, share=0.04, context=64)
    assert held is not None
    by_document = held.reshape(-1, 250)
    assert (by_document.all(axis=1) | ~by_document.any(axis=1)).all()


@given(
    size=st.integers(1, 30_000),
    share=st.floats(0.01, 0.49),
    most=st.integers(1, 20_000),
    context=st.integers(1, 300),
    document=st.integers(1, 4000),
)
def test_the_end_is_held_out_in_one_piece(
    size: int, share: float, most: int, context: int, document: int
) -> None:
    starts = np.arange(0, size, document).astype(np.uint64)
    held = held_out_end(starts, size, share=share, most=most, context=context)
    wanted = max(min(int(share * size), most), context + 1)
    if held is None:
        assert 2 * wanted > size
        return
    begin = size - int(held.sum())
    assert held[begin:].all() and not held[:begin].any() and context < size - begin <= 1.5 * wanted + 1
    assert begin in (size - wanted, size - context - 1) or begin in starts


@pytest.mark.parametrize("size", [1, 64, 129])
def test_a_short_text_holds_nothing_out(size: int) -> None:
    assert held_out_blocks(ONE, size, share=0.04, context=64) is None


def test_a_part_keeps_the_documents_that_begin_in_it() -> None:
    tokens, starts = np.arange(10), np.array([0, 4, 8], np.uint64)
    chosen = np.array([0, 0, 1, 1, 1, 0, 1, 1, 1, 1], bool)
    found, begins = part(tokens, starts, chosen)
    assert found.tolist() == [2, 3, 4, 6, 7, 8, 9]
    assert begins.tolist() == [0, 2, 3, 5]  # where a piece begins, and where a document does


def test_windows_predict_what_is_held_out_and_know_what_stands_before() -> None:
    found, held = windows()
    for step in range(20):
        batch = found.batch(step)
        assert batch.inputs.shape == (16, 8) and held[batch.targets].all()
        np.testing.assert_array_equal(batch.targets, batch.inputs + 1)
        np.testing.assert_array_equal(batch.earlier, batch.inputs[:, :1] + np.arange(-4, 0))
    again, _ = windows()
    np.testing.assert_array_equal(again.batch(3).inputs, found.batch(3).inputs)
    assert (again.batch(3).inputs != found.batch(4).inputs).any()
    assert (found.batch(3, 1).inputs != found.batch(3).inputs).any()


def test_every_place_that_is_held_out_is_a_target() -> None:
    found, held = windows(1000, batch=400)
    seen = np.unique(np.concatenate([found.batch(step).targets.ravel() for step in range(20)]))
    np.testing.assert_array_equal(seen, np.flatnonzero(held))


def test_the_text_before_the_beginning_is_nothing() -> None:
    tokens = np.arange(100, 120)
    rows = [Batch(np.array([[100, 101], [102, 103]]), np.zeros((2, 2)), places=np.array([[1, 2], [3, 4]]))]
    found = next(with_earlier(iter(rows), tokens, 3)).earlier
    assert found is not None and found.tolist() == [[-1, -1, -1], [-1, 100, 101]]


def test_rows_say_whether_the_network_is_alone() -> None:
    learned, _ = windows(batch=3)
    apart, _ = windows(batch=2)
    batch = with_held_out(learned, apart).batch(0)
    assert batch.alone is not None and batch.alone[:, 0].tolist() == [1, 1, 1, 0, 0]
    assert batch.earlier is not None and batch.earlier.shape == (5, 4)
    assert Alone(learned, alone=True).size == learned.size
