"""Merges that are left out: how often, and what is left."""

from __future__ import annotations

import numpy as np

from octavo.tasks.translation.batches import MergeDropout, spans

A, B, C, AB, ABC = range(5)
HALVES = np.array([[-1, -1], [-1, -1], [-1, -1], [A, B], [AB, C]])


def ways(rate: float, count: int = 40_000) -> dict[tuple[int, ...], float]:
    """How often ABC falls into which pieces."""
    pieces, counts = MergeDropout(HALVES, rate=rate, seed=1)(np.full(count, ABC), 3, 0)
    assert counts.sum() == len(pieces)
    found: dict[tuple[int, ...], float] = {}
    for begin, length in zip(np.cumsum(counts) - counts, counts, strict=True):
        way = tuple(pieces[begin : begin + length].tolist())
        found[way] = found.get(way, 0) + 1 / count
    return found


def test_each_merge_is_left_out_by_its_own_chance_and_what_was_built_on_it_falls_too() -> None:
    found = ways(0.3)
    expected = {(ABC,): 0.7 * 0.7, (AB, C): 0.7 * 0.3, (A, B, C): 0.3}
    assert found.keys() == expected.keys()
    for way, share in expected.items():
        assert abs(found[way] - share) < 4 * (share * (1 - share) / 40_000) ** 0.5


def test_tokens_without_merges_stay_and_so_do_those_that_are_to_stay_whole() -> None:
    dropout = MergeDropout(HALVES, rate=0.999, seed=1)
    tokens = np.array([ABC, C, AB, ABC, A], np.uint16)
    pieces, counts = dropout(tokens, 0, 0, whole=np.array([True, True, True, False, False]))
    assert pieces.tolist() == [ABC, C, AB, A, B, C, A] and counts.tolist() == [1, 1, 1, 3, 1]


def test_draws_are_of_the_seed_the_step_and_the_part() -> None:
    tokens = np.full(200, ABC)

    def drawn(seed: int, step: int, micro: int) -> list[int]:
        return MergeDropout(HALVES, rate=0.5, seed=seed)(tokens, step, micro)[0].tolist()

    first = drawn(1, 2, 3)
    assert first == drawn(1, 2, 3)
    assert all(first != other for other in (drawn(2, 2, 3), drawn(1, 3, 3), drawn(1, 2, 0)))


def test_spans_are_ranges_one_after_the_other() -> None:
    assert spans(np.array([5, 0, 9]), np.array([2, 0, 3])).tolist() == [5, 6, 9, 10, 11]
