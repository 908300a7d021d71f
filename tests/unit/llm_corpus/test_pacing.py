"""The pace grows until a writer complains, falls when it does, and keeps every time that it names."""

from __future__ import annotations

import time
from email.utils import formatdate
from itertools import pairwise
from math import inf
from random import Random

import pytest

from octavo.llm_corpus.pacing import FIRST, Pace, backoff, duration, quota_wait, retry_after
from unit.llm_corpus.simulated import Answer, Server, run


def fill(pace: Pace, now: float) -> int:
    """Send all that can be sent; their names begin with the time."""
    sent = 0
    while pace.free(now):
        pace.begin(f"{now}/{sent}")
        pace.sent(f"{now}/{sent}", now)
        sent += 1
    return sent


def known(most: int, *, seconds: float = 0.1) -> Pace:
    """A window that is open to its most, of a writer whose answers take so long."""
    pace = Pace(most, first=most)
    for _ in range(30):
        pace.good(0.0, seconds)
    return pace


def test_the_number_in_flight_doubles_every_second_until_the_most() -> None:
    pace = Pace(100)
    limits = []
    for second in range(6):
        fill(pace, float(second))
        limits.append(pace.in_flight)
    assert limits[0] == FIRST and limits[-1] == 100
    assert limits == sorted(limits) and all(b <= 2 * a for a, b in pairwise(limits))


def test_many_complaints_halve_once_for_all_calls_of_their_time() -> None:
    pace = known(64)
    for _ in range(20):
        pace.complaint(sent=4.0, now=5.0)  # all were sent before the window fell
    assert pace.limit == 32
    for _ in range(6):
        pace.complaint(sent=5.5, now=6.0)
    assert pace.limit == 16
    for _ in range(17):
        pace.good(6.5, 7.0)
    assert 16.9 < pace.limit < 17.1
    for now in range(7, 80):
        pace.complaint(sent=float(now), now=float(now))
    assert pace.limit == 1
    fill(pace, 90.0)
    assert pace.in_flight == 1 and not pace.free(90.0)
    pace.end("90.0/0")
    assert pace.free(90.0)


def test_scattered_complaints_leave_the_window_open() -> None:
    pace = known(64)
    for call in range(3000):
        if call % 14 == 0:  # 7 %
            pace.complaint(float(call), float(call))
        else:
            pace.good(float(call), call + 0.1)
    assert pace.limit == 64


def test_a_rest_that_is_asked_for_weighs_as_the_calls_it_costs() -> None:
    fast, slow = known(64, seconds=0.1), known(64, seconds=10.0)
    for pace in (fast, slow):
        pace.complaint(11.0, 12.0, wait=1.0)
    assert (fast.limit, slow.limit) == (32, 64)


def test_a_window_grows_by_time_too() -> None:
    pace = known(64)
    for _ in range(6):
        pace.complaint(sent=4.0, now=5.0)
    assert fill(pace, 5.0) == 32
    assert not pace.free(5.9) and pace.next_time(5.0) == 6.0
    assert pace.free(6.0)  # although nothing was answered meanwhile
    pace.complaint(6.0, 6.0)
    fill(pace, 6.0)
    assert not pace.free(30.0 - 1e-9) or pace.slow  # but not while there is something to complain of


def test_a_slow_call_gives_its_place_on_and_may_still_answer() -> None:
    pace = known(4, seconds=0.3)
    assert fill(pace, 10.0) == 4
    assert pace.slow_after() == pytest.approx(3.0) and pace.next_time(10.0) == pytest.approx(13.0)
    assert not pace.free(12.9)
    assert pace.free(13.01) and pace.in_flight == 0 and pace.slow == 4
    pace.good(10.0, 40.0)
    pace.end("10.0/0")
    assert pace.slow == 3 and fill(pace, 40.0) == 4


def test_a_call_that_is_being_written_down_is_not_slow() -> None:
    pace = known(1)
    pace.begin("call")
    assert not pace.free(1000.0) and pace.slow == 0
    pace.sent("call", 1000.0)
    assert not pace.free(1000.5) and pace.free(1001.5)


def test_slow_calls_are_no_more_than_the_window() -> None:
    pace = known(300)
    for second in range(0, 600, 2):
        fill(pace, float(second))
    assert pace.slow == 300 and pace.limit == 150 and pace.next_time(600.0) == inf


def test_nobody_is_slow_before_others_have_answered_nor_in_a_batch() -> None:
    pace = Pace(8)
    fill(pace, 0.0)
    assert pace.patience() == inf and not pace.free(0.9) and pace.slow == 0
    batch = Pace(100, first=100, judged=False)
    for _ in range(100):
        batch.good(0.0, 1.0)
    fill(batch, 1.0)
    assert not batch.free(1e6) and batch.patience() == inf


def test_patience_follows_what_answers_take_and_is_back_when_it_was_too_short() -> None:
    pace = known(64, seconds=1.0)
    assert pace.patience() == pytest.approx(30)
    assert known(64, seconds=0.01).patience() == 10
    for number in range(8):  # of 100 calls, some never end
        pace.given_up(f"call {number}", 100.0, 130.0)
    for _ in range(70):
        pace.good(100.0, 101.0)
    assert pace.patience() == pytest.approx(30)
    for number in range(12):  # so many that the writer itself has become slower
        pace.given_up(f"call {number}", 200.0, 230.0)
    assert pace.patience() == inf


def test_what_is_left_over_at_the_end_does_not_make_patience_longer() -> None:
    """The last answers are long there when the last silent calls are given up: most of what is seen is silence."""
    pace = known(64, seconds=0.01)
    pace.close()
    for number in range(30):
        pace.given_up(f"call {number}", 100.0, 110.0)
    assert pace.patience() == 10


def test_what_is_left_over_at_the_end_is_not_waited_for_longer() -> None:
    pace = known(64)
    fill(pace, 100.0)
    for number in range(40):
        pace.given_up(f"100.0/{number}", 100.0, 111.0)
    assert pace.patience() == 10


def test_calls_of_before_anything_was_known_are_let_go_too() -> None:
    pace = Pace(8)
    fill(pace, 0.0)
    assert pace.overdue(100.0) == []
    for _ in range(30):
        pace.good(0.0, 0.1)
    assert pace.overdue(9.9) == [] and len(pace.overdue(10.1)) == 8
    pace.free(5.0)  # they leave the window
    pace.end("0.0/3")
    assert len(pace.overdue(10.1)) == 7


def flaky(seconds: float, wait: float = 0.0) -> Server:
    """3 % 429 and 2 % 503 at once, 2 % of calls that never end, 2 % torn answers."""

    def answer(draw: Random, under_way: int, now: float) -> Answer:
        share = draw.random()
        if share < 0.05:
            return "throttled", seconds / 10, wait
        if share < 0.07:
            return "silent", inf, 0.0
        return ("broken" if share < 0.09 else "good"), seconds * draw.uniform(0.8, 1.2), 0.0

    return answer


def well(seconds: float) -> Server:
    return lambda draw, under_way, now: ("good", seconds * draw.uniform(0.8, 1.2), 0.0)


def limited(places: int, seconds: float, wait: float) -> Server:
    """Answers so many calls at the same time."""

    def answer(draw: Random, under_way: int, now: float) -> Answer:
        if under_way > places:
            return "throttled", seconds / 10, wait
        return "good", seconds * draw.uniform(0.8, 1.2), 0.0

    return answer


@pytest.mark.parametrize(
    ("most", "takes", "seconds"), [(8, 0.05, 60), (64, 0.05, 12), (64, 1.0, 240), (64, 12.0, 2400)]
)
def test_the_rate_of_a_flaky_server_is_most_of_its_rate(most: int, takes: float, seconds: float) -> None:
    under_faults = run(flaky(takes), most=most, seconds=seconds)
    without = run(well(takes), most=most, seconds=seconds)
    assert under_faults.good >= 0.6 * without.good
    assert min(under_faults.limits[len(under_faults.limits) // 5 :]) >= most / 4


@pytest.mark.parametrize(("wait", "share"), [(0.0, 0.6), (0.2, 0.6), (1.0, 0.4)])
def test_a_real_limit_is_found_and_kept(wait: float, share: float) -> None:
    found = run(limited(20, 0.1, wait), most=64, seconds=120)
    assert found.good >= share * 120 * 20 / 0.1
    assert found.throttled < 0.15 * found.good and max(found.limits[len(found.limits) // 5 :]) < 40


def test_a_server_that_becomes_slow_is_waited_for() -> None:
    def answer(draw: Random, under_way: int, now: float) -> Answer:
        return "good", 0.05 if now < 20 else 15.0, 0.0

    found = run(answer, most=8, seconds=400)
    before = run(answer, most=8, seconds=20)
    assert found.good - before.good > 0.5 * 380 / 15 * 8


def test_a_server_that_falls_silent_is_not_swamped() -> None:
    def answer(draw: Random, under_way: int, now: float) -> Answer:
        return ("good" if now < 5 else "silent"), 0.05 if now < 5 else inf, 0.0

    found = run(answer, most=64, seconds=300)
    assert found.most_slow <= 256 and found.limits[-1] < 8


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
    for past in (now - 0.5, now - 1, now - 86400):
        assert retry_after({**there, "retry-after": formatdate(past, usegmt=True)}) == 0
    assert retry_after({**there, "retry-after": there["date"]}) == 0  # now
    assert retry_after({}) is None and retry_after({"retry-after": "soon"}) is None


@pytest.mark.parametrize("text", ["inf", "1e300", "99999999999", "Fri, 31 Dec 9999 23:59:59 GMT"])
def test_nobody_is_held_for_longer_than_a_day(text: str) -> None:
    empty = {"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": text.removeprefix("Fri, ")}
    assert retry_after({"retry-after": text}) == 86_400 and quota_wait(empty) <= 86_400
    assert retry_after({"retry-after": "nan"}) == retry_after({"retry-after": "-5"}) == 0


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
