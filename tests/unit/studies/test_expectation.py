"""Whether a hypothesis held: by intervals, in whichever unit it was stated."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest

from octavo.studies.expectation import Verdict, held
from octavo.studies.statistics import Contrast


def contrast(low: float, high: float) -> Contrast:
    return Contrast((low + high) / 2, low, high, 0.01, 0.01, 0.1, 0.05)


def asked(
    expect: Any,
    low: float,
    high: float,
    *,
    verdict: Verdict = "worse",
    metric: str = "bits_per_byte",
    token_bytes: Sequence[float] = (),
) -> bool | None:
    return held(expect, verdict, contrast(low, high), metric=metric, matters=None, token_bytes=token_bytes)


@pytest.mark.parametrize(
    ("low", "high", "answer"),
    [
        (0.11, 0.19, True),
        (0.05, 0.19, None),  # its middle is inside; the truth may not be
        (0.11, 0.25, None),
        (0.05, 0.25, None),
        (0.21, 0.25, False),
        (0.05, 0.09, False),
        (0.1, 0.2, True),
    ],
)
def test_a_size_holds_where_all_of_the_interval_is_within_it(
    low: float, high: float, answer: bool | None
) -> None:
    assert asked({"bits": (0.1, 0.2)}, low, high) is answer
    assert asked({"bits": (-0.2, -0.1)}, -high, -low) is answer, "and so does its mirror"


def test_nats_of_a_token_and_bits_of_a_byte_are_the_same_size_in_other_units() -> None:
    """Of tokens of three bytes one bit per byte is 3 · ln 2 nats per token."""
    nats = 3 * math.log(2)
    for metric, unit, factor in (("val_loss", "bits", nats), ("bits_per_byte", "nats", 1 / nats)):
        size, way = {unit: (0.1, 0.2)}, {"metric": metric, "token_bytes": (3.0, 3.0)}
        assert asked(size, 0.11 * factor, 0.19 * factor, **way) is True
        assert asked(size, 0.21 * factor, 0.3 * factor, **way) is False
        assert asked(size, 0.02 * factor, 0.09 * factor, **way) is False
        other = {"metric": metric, "token_bytes": (3.0, 2.0)}
        assert asked(size, 0.11 * factor, 0.19 * factor, **other) is None, "tokens of other lengths"


def test_points_are_hundredths_of_a_share() -> None:
    assert asked({"points": (1.0, 2.0)}, 0.011, 0.019, metric="accuracy") is True
    assert asked({"points": (1.0, 2.0)}, 0.00011, 0.00019, metric="accuracy") is False


def test_worse_is_also_what_fails_and_what_is_worse_need_not_fail() -> None:
    assert asked("worse", 0.1, 0.2, verdict="failed to train") is True
    assert asked("fails", 0.1, 0.2, verdict="worse") is False
    assert asked("better", -0.2, -0.1, verdict="better") is True
    assert asked("better", -0.2, -0.1, verdict="unreliable") is False
    assert asked("worse", 0.1, 0.2, verdict="too few seeds for this noise") is None


def test_the_same_is_refuted_by_what_leaves_out_nothing_on_either_side() -> None:
    for low, high in ((0.1, 0.2), (-0.2, -0.1)):
        assert asked("same", low, high) is False
    assert asked("same", -0.1, 0.2, verdict="no difference seen") is None
