"""Planted passages: what is planted, and what counts as memory."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from octavo.evaluation.canaries import Continued, Planting, fisher, holm, less_than, memory, planted

HOW = Planting(counts=(1, 5), each=3, controls=4, beginning=12, rest=10, seed=3)


def a_text(lines: int = 400) -> str:
    """Lines that differ, each of some words."""
    random = np.random.Generator(np.random.Philox(key=1))
    words = ["".join(chr(97 + c) for c in random.integers(0, 26, 5)) for _ in range(500)]
    return "\n".join(" ".join(random.choice(words, 8)) for _ in range(lines)) + "\n"


def test_each_passage_stands_as_often_as_it_says_and_nothing_else_is_lost() -> None:
    text = a_text()
    found = planted(text, HOW)
    assert found is not None
    changed, passages = found
    assert sorted(passage.times for passage in passages) == [0, 0, 0, 0, 1, 1, 1, 5, 5, 5]
    rest = changed
    for passage in passages:
        assert text.count(passage.text) == 1
        assert changed.count(passage.text) == passage.times
        assert changed.count(passage.text + "\n") == passage.times
        rest = rest.replace(passage.text + "\n", "")
    cut = text
    for passage in passages:
        cut = cut.replace(passage.text, "")
    assert rest == cut
    border = int(len(text) * HOW.share)
    assert changed.endswith(text[border:])


def test_lots_depend_on_the_seed_alone() -> None:
    text = a_text()
    assert planted(text, HOW) == planted(text, HOW)
    other = planted(text, Planting(counts=(1, 5), each=3, controls=4, beginning=12, rest=10, seed=4))
    assert other is not None and other != planted(text, HOW)


@pytest.mark.parametrize("text", ["", "\n", "one line without an end " * 40, "the same line\n" * 500])
def test_a_text_without_enough_different_lines_has_none(text: str) -> None:
    assert planted(text, HOW) is None


def test_a_beginning_ends_before_a_word() -> None:
    found = planted(a_text(), HOW)
    assert found is not None
    assert all(passage.rest.startswith(" ") for passage in found[1])


def test_fishers_test_counts_all_ways() -> None:
    """Against all ways to place five hits among nine."""
    ways = list(combinations(range(9), 5))
    wanted = sum(sum(place < 3 for place in way) >= 2 for way in ways) / len(ways)
    assert fisher(2, 3, 3, 6) == pytest.approx(wanted)
    assert fisher(0, 8, 0, 32) == 1.0


def test_the_permutation_test_is_near_all_permutations() -> None:
    values, controls = np.array([0.1, 0.5]), np.array([0.4, 0.9, 0.6, 0.2, 0.8])
    everything = np.concatenate((values, controls))
    sums = [sum(everything[list(pair)]) for pair in combinations(range(7), 2)]
    wanted = np.mean([total <= values.sum() + 1e-12 for total in sums])
    assert less_than(values, controls) == pytest.approx(wanted, abs=0.02)


def test_no_chance_is_less_than_one_of_all_draws() -> None:
    assert less_than(np.zeros(20), np.arange(1.0, 21.0)) == pytest.approx(1 / 10_000)


def test_holm_holds_the_smallest_to_all() -> None:
    assert holm([0.01, 0.5, 0.03]) == pytest.approx([0.03, 0.5, 0.06])
    assert holm([0.4, 0.9]) == pytest.approx([0.8, 0.9])
    assert holm([0.03, 0.04]) == pytest.approx([0.06, 0.06]), "none is surer than one that was lower"


def group(times: int, matched: list[int], nats: float) -> list[Continued]:
    return [Continued(times, each, 10, nats + 0.01 * (place % 2)) for place, each in enumerate(matched)]


def test_the_verdict_names_the_least_count_that_is_recited() -> None:
    found = memory(
        [*group(16, [10] * 7 + [3], 0.5), *group(0, [1] * 19 + [10], 2.0), *group(1, [0] * 7 + [10], 2.0)]
    )
    assert [row.times for row in found.rows] == [0, 1, 16]
    assert found.recited_from == 16 and found.known_from == 16
    assert [row.matched for row in found.rows] == pytest.approx([29 / 200, 10 / 80, 73 / 80]), "shares"
    assert "what it saw 16 times: 7 of 8 word for word" in found.sentences()[0]
    assert "20 passages that it never saw it continues 1" in found.sentences()[0]


def test_a_control_that_is_recited_as_often_is_no_memory() -> None:
    """Continuations that anybody would write are not memorized."""
    found = memory([*group(4, [10] * 8, 1.0), *group(0, [10] * 20, 1.0)])
    assert found.recited_from is None and found.known_from is None
    assert found.sentences()[0].startswith("It recites none")


def test_false_alarms_are_rare_where_nothing_was_planted() -> None:
    random = np.random.Generator(np.random.Philox(key=2))
    alarms = 0
    for _ in range(30):
        names = np.repeat([1, 4, 0], [6, 6, 12]).tolist()
        found = memory([Continued(t, int(random.random() < 0.3) * 10, 10, random.normal()) for t in names])
        alarms += found.known_from is not None
        alarms += found.recited_from is not None
    assert alarms <= 6  # of 60; 3 are expected at most
