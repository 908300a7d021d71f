"""A batch: what it knows of itself, and what stays together when it is cut, shared out or joined."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch

from octavo.data.batch import Batch


def batch(rows: int = 5, first: int = 0, **left_out: None) -> Batch[np.ndarray]:
    """Every field there, and every number another one."""
    inputs = np.arange(first, first + rows * 4).reshape(rows, 4)
    targets = np.where(inputs % 3 == 0, -1, inputs + 1)
    given: dict[str, Any] = {
        "inputs": inputs,
        "targets": targets,
        "weights": (inputs / 2).astype(np.float32),
        "segments": inputs + 300,
        "source": inputs[:, :3] + 400,
        "places": inputs + 500,
    }
    return Batch(**{name: value for name, value in given.items() if name not in left_out})


def equal(one: Batch[Any], other: Batch[Any]) -> bool:
    mine, theirs = dict(one.items()), dict(other.items())
    return mine.keys() == theirs.keys() and all(np.array_equal(mine[name], theirs[name]) for name in mine)


def test_what_it_counts() -> None:
    whole, plain = batch(), batch(weights=None)
    assert whole.rows == 5
    assert whole.scored == plain.scored == 13
    assert plain.weight == 13
    assert whole.weight == sum(n / 2 for n in range(20) if n % 3)
    assert (whole.to("cpu").scored, whole.to("cpu").weight) == (13, whole.weight)


def test_parts_are_the_rows_in_order() -> None:
    whole = batch()
    for rows, sizes in ((1, [1] * 5), (2, [2, 2, 1]), (5, [5]), (9, [5]), (None, [5])):
        parts = whole.parts(rows)
        assert [part.rows for part in parts] == sizes
        for name, value in whole.items():
            assert np.array_equal(np.concatenate([getattr(part, name) for part in parts]), value)


def test_a_corner_has_fewer_rows_and_positions_but_the_whole_source() -> None:
    corner = batch().corner(2, 3)
    assert {name: value.shape for name, value in corner.items()} == dict.fromkeys(
        ("inputs", "targets", "weights", "segments", "source", "places"), (2, 3)
    )
    assert corner.inputs.tolist() == [[0, 1, 2], [4, 5, 6]]
    assert batch().corner(2, 1).source.tolist() == batch().source[:2].tolist()


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7])
def test_shares_are_alike_and_the_rows_that_fill_up_count_nothing(size: int) -> None:
    whole = batch()
    shares = [whole.shard(rank, size) for rank in range(size)]
    assert len({share.rows for share in shares}) == 1
    for name, value in whole.items():
        assert np.array_equal(np.concatenate([getattr(share, name) for share in shares])[:5], value)
    assert sum(share.scored for share in shares) == whole.scored
    assert sum(share.weight for share in shares) == whole.weight
    filled = np.concatenate([share.places for share in shares])[5:]
    assert (filled == -1).all()


def test_joined_batches_are_rows_of_both_and_what_one_lacks_means_the_same() -> None:
    first, second = batch(2), batch(3, first=8)
    assert equal(first.joined(second), batch(5))
    bare = batch(3, first=8, weights=None, segments=None, places=None)
    for joined, rows in ((first.joined(bare), slice(2, None)), (bare.joined(first), slice(0, 3))):
        assert (joined.weights[rows] == 1).all() and joined.weights.dtype == np.float32
        assert (joined.segments[rows] == 0).all()
        assert (joined.places[rows] == -1).all()
    assert first.joined(bare).weight == first.weight + bare.weight


def test_of_joined_batches_the_shorter_source_and_a_row_without_any_are_filled_up() -> None:
    first, second = batch(2), batch(3, first=8)
    joined = dataclasses.replace(first, source=first.source[:, :2]).joined(second)
    assert (joined.source[:2, 2:] == -1).all() and np.array_equal(joined.source[:2, :2], first.source[:, :2])
    assert np.array_equal(joined.source[2:], second.source)
    bare = dataclasses.replace(first, source=None)
    assert (bare.joined(second).source[:2] == -1).all() and (bare.joined(bare).source is None)


def test_on_a_device_it_is_tensors() -> None:
    found = batch(source=None).to("cpu")
    assert all(isinstance(value, torch.Tensor) for _, value in found.items()) and found.source is None
    assert found.inputs.dtype == torch.int64 and found.weights.dtype == torch.float32
    assert equal(Batch(**{name: value.numpy() for name, value in found.items()}), batch(source=None))


def test_what_only_the_processor_asks_stays_with_it() -> None:
    found = dataclasses.replace(batch(2), alone=np.ones((2, 4), np.int64)).to("meta")
    assert found.inputs.device.type == "meta" and found.alone.device.type == "cpu"
