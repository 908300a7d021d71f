"""The pace grows until a writer complains, falls when it does, and keeps every time that it names."""

from __future__ import annotations

import time
from email.utils import formatdate
from itertools import pairwise
from random import Random

import pytest

from octavo.synthesis.writing.pacing import FIRST, Pace, backoff, duration, quota_wait, retry_after


def fill(pace: Pace, now: float) -> int:
    sent = 0
    while pace.free(now):
        pace.in_flight += 1
        sent += 1
    return sent


def test_the_number_in_flight_doubles_every_second_until_the_most() -> None:
    pace = Pace(100)
    limits = []
    for second in range(6):
        fill(pace, float(second))
        limits.append(pace.in_flight)
    assert limits[0] == FIRST and limits[-1] == 100
    assert limits == sorted(limits) and all(b <= 2 * a for a, b in pairwise(limits))


def test_a_complaint_halves_once_for_all_calls_of_its_time() -> None:
    pace = Pace(64)
    for second in range(5):
        fill(pace, float(second))
    for _ in range(20):
        pace.complaint(sent=4.0, now=5.0)  # all were sent before the first was heard
    assert pace.limit == 32
    pace.complaint(sent=5.5, now=6.0)
    assert pace.limit == 16
    for _ in range(17):
        pace.good()
    assert 16.9 < pace.limit < 17.1
    for now in range(7, 40):
        pace.complaint(sent=float(now), now=float(now))
    assert pace.limit == 1 and not pace.free(50.0)
    pace.in_flight = 0
    assert pace.free(50.0)


def test_nothing_goes_out_before_the_named_time() -> None:
    pace = Pace(10)
    pace.stay_away(5.0)
    pace.stay_away(3.0)
    assert not pace.free(4.999) and pace.next_time(1.0) == 5.0
    assert pace.free(5.0)


def test_retry_after_in_seconds_and_as_a_date() -> None:
    assert retry_after({"retry-after": "7"}) == 7
    assert retry_after({"retry-after": "0.25"}) == 0.25
    now = 1_700_000_000
    there = {"date": formatdate(now, usegmt=True), "retry-after": formatdate(now + 30, usegmt=True)}
    assert retry_after(there) == 31  # the server's own clock; a second more, for dates have no fractions
    wait = retry_after({"retry-after": formatdate(time.time() + 30, usegmt=True)})
    assert wait is not None and 28 < wait < 32
    assert retry_after({"retry-after": formatdate(0, usegmt=True)}) == 0
    assert retry_after({}) is None and retry_after({"retry-after": "soon"}) is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1s", 1),
        ("6m0s", 360),
        ("20ms", 0.02),
        ("1h2m3s", 3723),
        ("12", 12),
        ("", 0),
        ("soon", 0),
        ("5x", 0),
        ("-3", 0),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert duration(text) == pytest.approx(seconds)


def test_a_moment_is_a_duration_from_now() -> None:
    assert 58 < duration(str(time.time() + 60)) < 61


def test_an_empty_quota_is_waited_for() -> None:
    full = {"x-ratelimit-remaining-requests": "9", "x-ratelimit-reset-requests": "1m"}
    assert quota_wait(full) == 0
    assert quota_wait({**full, "x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "2s"}) == 2


def test_backoff_doubles_with_full_jitter_up_to_a_minute() -> None:
    random = Random(1)
    for failures, most in ((1, 1), (2, 2), (5, 16), (30, 60)):
        drawn = [backoff(failures, 1.0, random) for _ in range(300)]
        assert 0 <= min(drawn) < most / 10 and 0.9 * most < max(drawn) <= most
