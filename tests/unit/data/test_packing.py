"""Packing: every prediction in one row, rows well filled, the same plan each time."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from octavo.data.packing import gather, pack

LENGTHS = st.lists(st.integers(1, 40), min_size=1, max_size=120)


def starts_of(lengths: list[int]) -> np.ndarray:
    return (np.cumsum(lengths) - lengths).astype(np.uint64)


@given(lengths=LENGTHS, context=st.integers(1, 30), shared=st.booleans())
def test_every_prediction_is_in_one_row(lengths: list[int], context: int, shared: bool) -> None:
    rows = pack(starts_of(lengths), sum(lengths), context=context, shared=shared)
    targets = [
        first + 1 + at for first, size in zip(rows.first, rows.length, strict=True) for at in range(size)
    ]
    starts = set(starts_of(lengths).tolist())
    expected = [token for token in range(sum(lengths)) if shared or token not in starts]
    assert sorted(targets) == expected
    assert all(0 < filled <= context for filled in (rows.predictions if len(rows) else []))
    longest = np.array(lengths) - (not shared)
    assert rows.cut == (longest > context).sum()


@given(lengths=LENGTHS, context=st.integers(40, 80))
def test_whole_documents_stay_whole(lengths: list[int], context: int) -> None:
    rows = pack(starts_of(lengths), sum(lengths), context=context, shared=True)
    assert sorted(rows.length.tolist()) == sorted(lengths) and rows.cut == 0


@given(lengths=LENGTHS, data=st.data())
def test_segments_are_counted_from_the_beginning_of_each_row(lengths: list[int], data: st.DataObject) -> None:
    """Whichever rows stand before it in the batch: a row is the same alone."""
    rows = pack(starts_of(lengths), sum(lengths), context=40, shared=True)
    chosen = np.array(data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=6)))
    given_ = {"context": 40, "padding": 0, "segments": True, "places": True}
    tokens = np.arange(sum(lengths))
    whole = gather(tokens, rows, chosen, **given_)
    for row, number in enumerate(chosen):
        alone = gather(tokens, rows, np.array([number]), **given_)
        for (name, values), (_, own) in zip(whole.items(), alone.items(), strict=True):
            assert np.array_equal(values[row], own[0]), name
        held = alone.segments[0]
        assert sorted(set(held[held >= 0])) == list(range(rows.begins[number + 1] - rows.begins[number]))


def test_rows_are_well_filled() -> None:
    lengths = np.random.default_rng(0).integers(20, 120, 2000).tolist()
    rows = pack(starts_of(lengths), sum(lengths), context=256, shared=True)
    assert rows.predictions.sum() == sum(lengths)
    assert rows.predictions.mean() / 256 > 0.97
