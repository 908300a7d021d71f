"""Sums as documents: right, different, and the same ones whatever their number."""

from __future__ import annotations

import pytest

from octavo.config import check
from octavo.errors import ConfigError
from octavo.synthetic.sums import Sums


def written(sums: int, below: int = 30, seed: int = 0) -> list[str]:
    return ["".join(one.pieces) for one in Sums(sums=sums, below=below, seed=seed).documents()]


def test_sums_are_right_and_different() -> None:
    found = written(900)
    assert len(set(found)) == 900
    for text in found:
        question, answer = text.split("=")
        first, second = question.split("+")
        assert int(first) + int(second) == int(answer) and max(int(first), int(second)) < 30


def test_more_sums_begin_with_the_same_and_a_seed_changes_them() -> None:
    assert written(300)[:100] == written(100)
    assert written(100, seed=1) != written(100)


def test_there_are_no_more_than_there_are() -> None:
    with pytest.raises(ConfigError, match="25 sums of numbers below 5, not 26"):
        check({"corpus": {"kind": "sums", "below": 5, "sums": 26}})
